/** The loop that the guide of `effect/ai` writes: `Chat`, and the model provided around each call. */
import { Effect } from "effect"
import { Chat } from "effect/ai"
import { makeParts } from "./effect.ts"
import * as task from "./task.ts"

export const make: task.Row = async (given) => {
  const { concurrency, modelLayer, toolkit, toolsLayer } = makeParts(given)
  const tools = await Effect.runPromise(Effect.provide(toolkit, toolsLayer))
  const agent = Effect.fn("agent")(function* (question: string) {
    const session = yield* Chat.fromPrompt([
      { role: "system", content: task.system },
      { role: "user", content: question }
    ])
    while (true) {
      const response = yield* session
        .generateText({ prompt: [], toolkit: tools, concurrency })
        .pipe(Effect.provide(modelLayer))
      if (response.toolCalls.length > 0) continue
      return response.text
    }
  })
  return () => Effect.runPromise(agent(task.question))
}
