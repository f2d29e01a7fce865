/** RIGHT-7: thoughts in the text of an answer, over the real clients. */
import { assert, describe } from "@effect/vitest"
import { Effect, Option } from "effect"
import { Agent, AgentEvent, Conversation } from "effect-emissary"
import { logged } from "../logged.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { accepted, connect, providers, type Provider } from "./providers.ts"
import { answer, text } from "./replies.ts"

const agent = Agent.make("thinker")

const replies = [answer(text("<think>\nsecret plan\n</think>\n\nFour.")), answer(text("Eight."))]

describe("RIGHT-7 thoughts in the text of an answer", () => {
  for (const [name, provider] of Object.entries<Provider>(providers)) {
    for (const streamed of [false, true]) {
      test.live(
        `RIGHT-7 L8 ${name}${streamed ? ", streamed" : ""}: the next request is accepted, and no log has them`,
        function* () {
          const { model, server } = yield* connect(provider, replies)
          const { layer, lines } = logged()
          const run = (input: string, conversation: Conversation.Conversation) =>
            streamed ? AgentEvent.result(agent.stream(input, { conversation })) : agent.run(input, { conversation })
          const chat = Effect.gen(function* () {
            const first = yield* endsAs("Completed", run("2 + 2?", Conversation.empty))
            const answered = Option.getOrThrow(Conversation.lastAssistantMessage(first.conversation))
            assert.deepStrictEqual(
              answered.content.map(({ type, ...part }) => [type, "text" in part ? part.text : undefined]),
              [
                ["reasoning", "secret plan\n"],
                ["text", "Four."]
              ]
            )
            return yield* endsAs("Completed", run("4 + 4?", first.conversation))
          })
          const last = yield* chat.pipe(Effect.provide([model, layer]), accepted(server))
          assert.strictEqual(last.output, "Eight.")
          assert.notInclude(lines.join("\n"), "secret plan")
        }
      )
    }
  }
})
