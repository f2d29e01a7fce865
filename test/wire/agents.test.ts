import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Agent, AgentEvent, ContextWindow, Conversation } from "effect-emissary"
import type { LanguageModelConformance } from "effect-emissary/testing"
import { toolkit, handlers, Probe, throughJson, toolResults } from "../agent/fixtures.ts"
import { decide } from "../decisions.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { harness } from "../testing/scripted-provider.ts"
import { accepted, connect, providers, reasoning, type Provider } from "./providers.ts"
import { answer, call, text, thinking } from "./replies.ts"

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

/** Parallel calls and a failure among them, a question to another agent, an approval, and an answer that has to fit a schema. */
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
  answer(thinking("Try.", 4), call("c7", "invented", { a: 1 }), call("c8", "echo", { text: 7 })),
  answer(thinking("Done.", 5), text("All is done.")),
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
    for (const [name, provider] of Object.entries<Provider>({ ...providers, ...reasoning })) {
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

describe("MODEL-4 histories", () => {
  const helper = Agent.make("helper", { instructions: "You are the helper.", toolkit: [toolkit.tools.echo] })

  const turn = (n: number): ReadonlyArray<LanguageModelConformance.Reply> => [
    answer(
      thinking(`Think ${n}.`, n % 10),
      text(`Step ${n}.`),
      call(`c${n}`, "echo", { text: `Text ${n}: ${"words ".repeat(40)}` })
    ),
    answer(thinking(`Again ${n}.`, n % 10), text(`Answer ${n}.`))
  ]

  const several = (count: number) => Array.from({ length: count }, (_, n) => turn(n)).flat()

  /** Questions that follow each other in one conversation. */
  const chat = (from: number, to: number, conversation?: Conversation.Conversation) =>
    Effect.gen(function* () {
      let current = conversation
      for (let n = from; n < to; n++) {
        const options = current === undefined ? {} : { conversation: current }
        const result = yield* endsAs("Completed", helper.run(`Question ${n}`, options))
        current = result.conversation
      }
      return current ?? Conversation.empty
    })

  for (const [name, provider] of Object.entries<Provider>(providers)) {
    test.live(`a long one is accepted, whole and reduced to a context window: ${name}`, function* () {
      const usage = { inputTokens: 1000, outputTokens: 20 }
      const counted = several(16).map((reply) => (reply._tag === "Answer" ? { ...reply, usage } : reply))
      const { model, server } = yield* connect(provider, counted)
      const conversation = yield* chat(0, 12).pipe(
        Effect.flatMap((long) => {
          const contextWindow = ContextWindow.truncate({ above: 900, to: 500 })
          return endsAs("Completed", helper.run("Question 12", { conversation: long, contextWindow }))
        }),
        Effect.provide(Layer.merge(world, model)),
        Effect.exit,
        accepted(server),
        Effect.flatten,
        Effect.map((result) => result.conversation)
      )
      const last = server.requests.at(-1)?.input ?? []
      const whole = Math.max(...server.requests.map(({ input }) => input.length))
      assert.isBelow(last.length, whole)
      assert.deepStrictEqual(last[0], { type: "system", text: "You are the helper." })
      assert.isAbove(Conversation.messages(conversation).length, 40)
    })

    for (const [other, next] of Object.entries<Provider>(providers)) {
      // OpenAI has no items that it did not store, and the client refers to them
      const refers = name === "openai responses" && other === "openai responses, stored"
      if (other === name || refers) continue
      test.live(`one that began with ${name} continues with ${other}`, function* () {
        const first = yield* connect(provider, several(1))
        const begun = yield* chat(0, 1).pipe(Effect.provide(Layer.merge(world, first.model)))
        const second = yield* connect(next, turn(1))
        const continued = yield* chat(1, 2, begun).pipe(
          Effect.provide(Layer.merge(world, second.model)),
          Effect.exit,
          accepted(second.server),
          Effect.flatten
        )
        const expected = yield* chat(0, 2).pipe(Effect.provide(Layer.merge(world, harness()(several(2)))))
        assert.deepStrictEqual(Conversation.transcript(continued), Conversation.transcript(expected))
        const sent = second.server.requests[1]?.input.flatMap((part) => ("text" in part ? [part.text] : [])) ?? []
        for (const said of ["Question 0", "Step 0.", "Text 0", "Answer 0.", "Question 1", "Text 1"]) {
          assert.include(sent.join("|"), said)
        }
      })
    }
  }
})
