import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Agent, AgentEvent, Conversation } from "effect-emissary"
import type { LanguageModelConformance } from "effect-emissary/testing"
import { toolkit, handlers, Probe, throughJson, toolResults } from "../agent/fixtures.ts"
import { decide } from "../decisions.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { harness } from "../testing/scripted-provider.ts"
import { accepted, connect, providers, type Provider } from "./providers.ts"
import type { Content } from "./server.ts"

const Answer = Schema.Struct({ city: Schema.String, days: Schema.optionalKey(Schema.Int) })

const critic = Agent.make("critic", { instructions: "You are the critic." })

const lead = Agent.make("lead", {
  instructions: "You are the lead.",
  toolkit: [
    ...Object.values(toolkit.tools),
    Agent.asTool(critic, { name: "ask_critic", description: "Asks the critic" })
  ],
  output: Answer
})

const text = (text: string): Content[number] => ({ type: "text", text })

const thinking = (text: string, n: number): Content[number] => ({
  type: "reasoning",
  text,
  signature: `c2lnbmF0dXJlLTE${n}`
})

const call = (id: string, name: string, params: Schema.Json): Content[number] => ({
  type: "tool-call",
  id,
  name,
  arguments: JSON.stringify(params)
})

const usage = { inputTokens: 100, outputTokens: 20, cacheReadTokens: 64, reasoningTokens: 8 }

const answer = (...content: Content): LanguageModelConformance.Reply => ({
  _tag: "Answer",
  content,
  finish: content.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop",
  usage
})

/** Parallel calls of which one fails, a question to another agent, an approval, and an answer that has to fit a schema. */
const replies: ReadonlyArray<LanguageModelConformance.Reply> = [
  answer(
    thinking("Three calls.", 1),
    text("I look it up."),
    call("c1", "echo", { text: "Röme" }),
    call("c2", "fail", { reason: "no such city" }),
    call("c3", "echo", { text: "Oslo" })
  ),
  answer(thinking("Ask the critic.", 2), call("c4", "ask_critic", { input: "Is it so?" })),
  answer(text("It is.")),
  answer(thinking("It has to go.", 3), call("c5", "delete", { path: "/old" }), call("c6", "echo", { text: "x" })),
  answer(call("c7", "invented", { a: 1 }), call("c8", "echo", { text: 7 })),
  answer(thinking("Done.", 4), text("All is done.")),
  answer(text(`{"city":"Rome","days":3}`))
]

/** The value of each call, or the type of its failure. */
const results = ["Röme", "execution_error", "Oslo", "It is.", "deleted /old", "x", "unknown_tool", "validation_error"]

const prompt = "What about Rome?"

/** The run, with an approval in the middle, from where another process resumes it. */
const run = (streamed: boolean) =>
  Effect.gen(function* () {
    const first = yield* endsAs(
      "AwaitingApproval",
      streamed ? AgentEvent.result(lead.stream(prompt)) : lead.run(prompt)
    )
    const state = yield* throughJson(first.state)
    const options = { decisions: decide(first.state) }
    const resumed = streamed ? AgentEvent.result(lead.resumeStream(state, options)) : lead.resume(state, options)
    const last = yield* endsAs("Completed", resumed)
    return {
      output: last.output,
      transcript: Conversation.transcript(last.conversation),
      usage: last.usage,
      conversation: last.conversation
    }
  })

const world = Layer.provideMerge(handlers, Probe.layer)

describe("MODEL-4 L5 the same run over every provider", () => {
  for (const streamed of [false, true]) {
    for (const [name, provider] of Object.entries<Provider>(providers)) {
      test.live(`${name}${streamed ? ", streamed" : ""}`, function* () {
        const expected = yield* run(streamed).pipe(Effect.provide(Layer.merge(world, harness()(replies))))
        const { model, server } = yield* connect(provider, replies)
        const found = yield* run(streamed).pipe(
          Effect.provide(Layer.merge(world, model)),
          Effect.exit,
          accepted(server),
          Effect.flatten
        )
        assert.deepStrictEqual(found.output, { city: "Rome", days: 3 })
        assert.deepStrictEqual(found.transcript, expected.transcript)
        assert.deepStrictEqual(toolResults(found.conversation), results)
        assert.strictEqual(server.requests.length, replies.length)
      })
    }
  }
})
