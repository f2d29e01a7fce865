export const source = "pydantic/pydantic-ai#2040, #2075"
export const kind = "history at a provider"
export const why =
  "With thinking and two calls the next request of Anthropic begins with the thinking block and its signature, and has both results in one message, also after the conversation was JSON."
export const right = { first: "thinking", signature: "SIG", results: 2, sameThroughJson: true }
export default async (lib) => {
  const { serve, models, AiSdk, Effect, Layer, Conversation, anthropicWhole, anthropicText } = lib
  const { agent, handlers } = lib.tool((S) => S.Struct({}))
  const s = await serve((b, n) =>
    n === 0
      ? anthropicWhole(
          [
            { type: "thinking", thinking: "hm", signature: "SIG" },
            { type: "tool_use", id: "a", name: "t", input: {} },
            { type: "tool_use", id: "b", name: "t", input: {} }
          ],
          "tool_use"
        )
      : anthropicText("done")
  )
  await Effect.runPromise(
    Effect.gen(function* () {
      const r = yield* agent.run("go")
      yield* agent.run("again", { conversation: r.conversation })
      yield* agent.run("again", {
        conversation: yield* Conversation.codec.decodeJson(yield* Conversation.codec.encodeJson(r.conversation))
      })
    }).pipe(Effect.provide(Layer.mergeAll(handlers, AiSdk.model(models.anthropic(s.url)))))
  )
  s.close()
  const [, second, third, fourth] = s.bodies
  const [thinking] = second.messages[1].content
  return {
    first: thinking.type,
    signature: thinking.signature,
    results: second.messages[2].content.length,
    sameThroughJson: JSON.stringify(third.messages) === JSON.stringify(fourth.messages)
  }
}
