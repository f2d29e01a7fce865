/** The physical limit: promises, checks by hand, no library. */
import * as task from "./task.ts"

const check = (input: unknown): task.Parameters => {
  if (typeof input !== "object" || input === null) throw new Error("expected an object")
  const { city, days, units } = input as Record<string, unknown>
  if (typeof city !== "string") throw new Error("city: expected a string")
  if (typeof days !== "number" || !Number.isInteger(days)) throw new Error("days: expected an integer")
  if (units !== "celsius" && units !== "fahrenheit") throw new Error("units: expected celsius or fahrenheit")
  return { city, days, units }
}

export const make: task.Row = async (given) => {
  const { concurrency, modelMilliseconds, steps } = given
  const body = task.toolBody(given)

  const model = async (messages: ReadonlyArray<unknown>) => {
    task.modelCalled(messages)
    if (modelMilliseconds > 0) await task.sleep(modelMilliseconds)
    const step = (messages.length - 2) / 2
    return step >= steps ? { text: task.answer, calls: [] } : { text: "", calls: task.callsOf(given, step) }
  }

  const perform = async ({ id, json }: task.Call) => ({ id, result: await body(check(JSON.parse(json))) })

  const performAll = async (calls: ReadonlyArray<task.Call>) => {
    if (concurrency === Infinity) return Promise.all(calls.map(perform))
    const results: Array<Awaited<ReturnType<typeof perform>>> = []
    const entries = calls.entries()
    const worker = async () => {
      for (const [index, call] of entries) results[index] = await perform(call)
    }
    await Promise.all(Array.from({ length: concurrency }, worker))
    return results
  }

  return async () => {
    const messages: Array<unknown> = [
      { role: "system", content: task.system },
      { role: "user", content: task.question }
    ]
    while (true) {
      const { calls, text } = await model(messages)
      if (calls.length === 0) return text
      messages.push({ role: "assistant", calls }, { role: "tool", results: await performAll(calls) })
    }
  }
}
