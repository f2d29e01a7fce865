/** Every row returns the same text, makes the same calls with the same arguments, and runs no tool on invalid ones. */
import assert from "node:assert/strict"
import * as task from "./agents/task.ts"

const tasks: ReadonlyArray<Partial<task.Task>> = [
  {},
  { steps: 2, tools: 30 },
  { steps: 1, calls: 100, toolMilliseconds: 5 },
  { steps: 1, calls: 100, toolMilliseconds: 5, concurrency: 5 },
  { steps: 3, modelMilliseconds: 20 }
]

const checkTask = async (make: task.Row, given: task.Task): Promise<void> => {
  const run = await make(given)
  const received: Array<task.Parameters> = []
  Object.assign(task.observed, { modelCalls: 0, toolCalls: 0, mostRunning: 0 })
  task.observed.onCall = (parameters) => received.push(parameters)
  assert.equal(await run(), task.answer)
  assert.equal(task.observed.modelCalls, given.steps + 1)
  const sent = Array.from({ length: given.steps }, (_, step) => task.callsOf(given, step)).flat()
  const expected = sent.map(({ json }): task.Parameters => JSON.parse(json))
  assert.deepEqual(
    received.map(({ city, days, units }) => ({ city, days, units })),
    expected
  )
  if (given.toolMilliseconds > 0) assert.equal(task.observed.mostRunning, Math.min(given.calls, given.concurrency))
  // the model was sent each call and its result
  const prompt = JSON.stringify(task.observed.lastPrompt)
  for (const { id } of sent) assert.ok(prompt.split(`"${id}"`).length >= 3, `${id} is not in the last prompt twice`)
  assert.ok(prompt.split("21.5").length > sent.length, "a result is not in the last prompt")
}

/** Returns what happens to invalid arguments. */
export const check = async (module: string): Promise<string> => {
  const { make }: { readonly make: task.Row } = await import(module)
  for (const part of tasks) await checkTask(make, task.makeTask(part))
  const run = await make(task.makeTask({ steps: 2, invalid: true }))
  Object.assign(task.observed, { modelCalls: 0, toolCalls: 0 })
  const text = await run().catch(() => undefined)
  assert.equal(task.observed.toolCalls, 0)
  return text === task.answer ? "the model is told" : "the run fails"
}
