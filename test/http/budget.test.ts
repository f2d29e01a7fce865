/** MONEY-2: the rest of budgets, and the questions of budgets, on pages of the AI SDK and of AG-UI. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import { as, serve } from "./serve.ts"

const toolkit = Toolkit.make(Tool.make("work", { success: Schema.String }))

const sessions = Session.layer([Agent.make("desk", { toolkit })], {
  budget: { modelCalls: 9 },
  run: { budget: { modelCalls: 1, onExceeded: "ask" } }
}).pipe(
  Layer.provide([
    toolkit.toLayer({ work: () => Effect.succeed("worked") }),
    ScriptedModel.layer(({ messages }) =>
      messages.at(-1)?.role === "tool" ? { text: "Done." } : { toolCalls: [{ name: "work" }] }
    ),
    VersionedStore.layerMemory
  ])
)

const ada = as("ada")

const id = "ada/1"

/** The JSON values of an event stream. */
const sent = (text: string) =>
  text
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice("data: ".length)))

const left = (modelCalls: number, ofRun: number, limit: number) => [
  { scope: "session", limits: { modelCalls: 9 }, left: { modelCalls } },
  { scope: "run", limits: { modelCalls: limit }, left: { modelCalls: ofRun } }
]

describe("MONEY-2 budgets on the screen", () => {
  test("useChat has the question of a budget, its answer, and what is left", serve({}, { sessions }), function* () {
    const asked = { id: "m1", role: "user", parts: [{ type: "text", text: "Go" }] }
    const first = sent((yield* ada.post("chat/ui", { id, messages: [asked] })).text)
    const question = first.find(({ type }) => type === "data-request")?.data
    assert.match(question?.arguments.question, /1 model calls. Continue/)
    const call = first.find(({ toolName }) => toolName === "budget")
    assert.deepStrictEqual([call?.type, call?.toolCallId], ["tool-input-available", question?.callId])
    assert.deepStrictEqual(first.at(-1)?.messageMetadata?.budget, left(8, 0, 1))

    const read = Effect.map(ada.get(`chat/ui?id=${id}`), ({ body }) => body)
    const [, waiting] = yield* read
    assert.deepStrictEqual(waiting.metadata.budget, left(8, 0, 1))
    const part = waiting.parts.find(({ type }: { type: string }) => type === "dynamic-tool")
    assert.deepStrictEqual([part.toolName, part.state], ["budget", "input-available"])
    const answered = { ...part, state: "output-available", output: { choice: "continue", more: 2 } }
    const answer = { ...waiting, parts: waiting.parts.map((one: unknown) => (one === part ? answered : one)) }
    const second = sent((yield* ada.post("chat/ui", { id, messages: [asked, answer] })).text)
    assert.deepStrictEqual(second.at(-1)?.messageMetadata?.budget, left(7, 1, 3))
    assert.strictEqual((yield* read)[1].parts.at(-1).text, "Done.")
  })

  test("AG-UI has the question as an interrupt, and what is left in its state", serve({}, { sessions }), function* () {
    const run = { threadId: id, tools: [], context: [], state: {}, forwardedProps: {} }
    const asked = { id: "m1", role: "user", content: "Go" }
    const first = sent((yield* ada.post("chat/agui", { ...run, runId: "r1", messages: [asked] })).text)
    const [delta, end] = first.slice(-2)
    assert.deepStrictEqual(delta, {
      type: "STATE_DELTA",
      delta: [{ op: "add", path: "/budget", value: left(8, 0, 1) }]
    })
    const [interrupt] = end.outcome.interrupts
    assert.strictEqual(interrupt.reason, "input_required")
    const resume = [{ interruptId: interrupt.id, status: "resolved", payload: { choice: "stop" } }]
    const second = sent((yield* ada.post("chat/agui", { ...run, runId: "r2", messages: [asked], resume })).text)
    assert.strictEqual(second.at(-1).code, "BudgetExceeded")
  })
})
