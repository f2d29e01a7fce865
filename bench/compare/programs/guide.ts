import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Chat from "effect/ai/Chat"
import * as LanguageModel from "effect/ai/LanguageModel"
import { handler, model, toolkit } from "./tool.ts"

const agent = Effect.gen(function* () {
  const tools = yield* toolkit
  const session = yield* Chat.fromPrompt([
    { role: "system", content: "s" },
    { role: "user", content: "q" }
  ])
  while (true) {
    const response = yield* session.generateText({ prompt: [], toolkit: tools })
    if (response.toolCalls.length > 0) continue
    return response.text
  }
}).pipe(Effect.provide([Layer.effect(LanguageModel.LanguageModel, model), toolkit.toLayer({ weather: handler })]))

export const main = (): Promise<string> => Effect.runPromise(agent)
