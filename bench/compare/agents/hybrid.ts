/**
 * A plain Effect loop on `LanguageModel`: a history of its own, tools decoded and run by `Effect.forEach`, schemas
 * compiled by the JIT of Effect. It is the floor that Effect sets: no events, no spans of its own, no limits, no errors
 * that the model could repair.
 */
import "effect/schema/SchemaJITCompiler/enable"
import { Effect, Schema } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import { handlerOf, makeParts, Parameters, Weather } from "./effect.ts"
import * as task from "./task.ts"

export const make: task.Row = async (given) => {
  const { concurrency, modelLayer, toolkit, toolsLayer } = makeParts(given)
  const tools = await Effect.runPromise(Effect.provide(toolkit, toolsLayer))
  const model = await Effect.runPromise(Effect.provide(LanguageModel.LanguageModel, modelLayer))
  const decode = Schema.decodeUnknownEffect(Parameters)
  const encode = Schema.encodeUnknownEffect(Weather)
  const handler = handlerOf(given)

  const perform = ({ id, name, params }: { readonly id: string; readonly name: string; readonly params: unknown }) =>
    Effect.flatMap(decode(params), (parameters) =>
      Effect.flatMap(handler(parameters), (result) =>
        Effect.map(encode(result), (result) =>
          Prompt.toolResultPart({ id, name, isFailure: false, result, providerExecuted: false })
        )
      )
    )

  const first = Prompt.make([
    { role: "system", content: task.system },
    { role: "user", content: task.question }
  ]).content

  const agent = Effect.fnUntraced(function* () {
    const messages = first.slice()
    while (true) {
      const response = yield* model.generateText({
        prompt: Prompt.fromMessages(messages),
        toolkit: tools,
        disableToolCallResolution: true,
        toolCallValidation: "deferred"
      })
      const calls = response.content.filter((part) => part.type === "tool-call")
      if (calls.length === 0) return response.text
      const content = calls.map(({ id, name, params }) =>
        Prompt.toolCallPart({ id, name, params, providerExecuted: false })
      )
      messages.push(Prompt.assistantMessage({ content }))
      const [only] = calls
      const results =
        calls.length === 1 && only !== undefined
          ? [yield* perform(only)]
          : yield* Effect.forEach(calls, perform, { concurrency })
      messages.push(Prompt.toolMessage({ content: results }))
    }
  })
  return () => Effect.runPromise(agent())
}
