import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import { handler, model, toolkit } from "./tool.ts"

const decode = Schema.decodeUnknownEffect(toolkit.tools.weather.parametersSchema)

const agent = Effect.gen(function* () {
  const { generateText } = yield* model
  const messages = Prompt.make([
    { role: "system", content: "s" },
    { role: "user", content: "q" }
  ]).content.slice()
  const tools = { tools: toolkit.tools, handle: () => Effect.die("calls are performed by the loop") }
  while (true) {
    const response = yield* generateText({
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
    const results = yield* Effect.forEach(
      calls,
      ({ id, name, params }) =>
        Effect.map(Effect.flatMap(decode(params), handler), (result) =>
          Prompt.toolResultPart({ id, name, isFailure: false, result, providerExecuted: false })
        ),
      { concurrency: "unbounded" }
    )
    messages.push(Prompt.assistantMessage({ content }), Prompt.toolMessage({ content: results }))
  }
})

export const main = (): Promise<string> => Effect.runPromise(agent)
