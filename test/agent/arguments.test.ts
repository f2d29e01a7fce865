/** RIGHT-22: a run answers a value of another type with a typed error, as sessions do: a route may pass on JSON of any type. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"

const toolkit = Toolkit.make(Tool.make("t", { success: Schema.String, needsApproval: true }))
const agent = Agent.make("clerk", { toolkit })
const model = ScriptedModel.layer(() => ({ toolCalls: [{ id: "c", name: "t", params: {} }] }))
const services = Layer.merge(model, toolkit.toLayer({ t: () => Effect.succeed("done") }))

/** Sound: the types of a run do not have these values. */
const wrong = (value: unknown): never => value as never

const scalars = [42, null, true, Symbol("x"), 10n, new Date(0), new Map()]
const values: Record<string, ReadonlyArray<unknown>> = {
  input: [...scalars, {}, [42], [null], [{ type: "text" }], [{ type: "file", data: 5 }], [{ type: "chart" }]],
  conversation: [...scalars, {}, "x", []],
  state: [...scalars, undefined, {}, "x", [], { messages: [] }],
  options: [42, null, true, "x"],
  decisions: [42, true, "x", {}, [42], [null], [{ callId: "c", approved: true }], [{ approved: "true" }]]
}

describe("RIGHT-22 a value of another type is a typed error", () => {
  const waiting = Effect.map(agent.run("Go"), ({ state }) => state)
  const ways = {
    "the input of run": [values.input, (value: unknown) => agent.run(wrong(value))],
    "the input of ask": [values.input, (value: unknown) => agent.ask(wrong(value))],
    "the input of stream": [values.input, (value: unknown) => Stream.runDrain(agent.stream(wrong(value)))],
    "the input of resume": [
      values.input,
      (value: unknown) => Effect.flatMap(waiting, (state) => agent.resume(state, { input: wrong(value) }))
    ],
    "the conversation": [values.conversation, (value: unknown) => agent.run("x", { conversation: wrong(value) })],
    "the state of resume": [values.state, (value: unknown) => agent.resume(wrong(value), { input: "x" })],
    "the state of resumeStream": [values.state, (value: unknown) => Stream.runDrain(agent.resumeStream(wrong(value)))],
    "the options of run": [values.options, (value: unknown) => agent.run("x", wrong(value))],
    "the options of resume": [
      values.options,
      (value: unknown) => Effect.flatMap(waiting, (state) => agent.resume(state, wrong(value)))
    ],
    "the decisions of resume": [
      values.decisions,
      (value: unknown) => Effect.flatMap(waiting, (state) => agent.resume(state, { decisions: wrong(value) }))
    ]
  } as const
  for (const [what, [wrongValues = [], call]] of Object.entries(ways)) {
    test(`RIGHT-22 ${what}`, function* () {
      for (const value of wrongValues) {
        const error = yield* Effect.flip(Effect.provide(call(value), services))
        const tag = error._tag === "AgentError" ? error.reason._tag : error._tag
        assert.include(["ConversationInvalid", "OptionsInvalid", "InvalidDecision"], tag, error.message)
      }
    })
  }

  test("RIGHT-22 the error names the argument and the kinds, not the value", function* () {
    const { message } = yield* Effect.flip(Effect.provide(agent.run(wrong({ pin: "1234" })), services))
    assert.strictEqual(
      message,
      'Agent "clerk": the conversation cannot be run: expected a text or a list of text and file parts as input, got object'
    )
  })
})
