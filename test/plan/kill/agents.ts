/** An agent under a key whose tools and model report when they run. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent } from "effect-emissary"
import { Checkpoint } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

const Note = Tool.make("note", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const Pay = Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
const toolkit = Toolkit.make(Note, Pay)
const helper = Agent.make("helper", { toolkit })
const desk = Agent.make("desk", { toolkit: [Note, Pay, Agent.asTool(helper, { name: "help", description: "Helps" })] })

/** The calls of the tools, each once. */
export const calls = ["a", "b", "inner", "pay"]

/** Two notes at once and a helper that takes one, then a payment, then the answer. */
const rounds = ({ messages, tools }: Parameters<ScriptedModel.TurnFunction>[0]): ScriptedModel.Turn => {
  const note = (id: string) => ({ id, name: "note", params: { text: id } })
  const isHelper = tools.every(({ name }) => name !== "help")
  switch (messages.filter(({ role }) => role === "assistant").length) {
    case 0:
      if (isHelper) return { toolCalls: [note("inner")] }
      return { toolCalls: [note("a"), { id: "h", name: "help", params: { input: "go" } }, note("b")] }
    case 1:
      return isHelper ? { text: "helped" } : { toolCalls: [{ id: "p", name: "pay", params: {} }] }
    default:
      return { text: "done" }
  }
}

/** Runs the agent under a key, or resumes it, and approves what it waits for. */
export const run = Effect.fnUntraced(function* (
  key: string,
  options: { readonly called: (name: string) => Effect.Effect<void>; readonly asked: Effect.Effect<void> }
) {
  const note = (name: string) => Effect.as(options.called(name), `noted ${name}`)
  const handlers = toolkit.toLayer({ note: ({ text }) => note(text), pay: () => note("pay") })
  const model = ScriptedModel.layer((request) => Effect.as(options.asked, rounds(request)))
  return yield* Effect.gen(function* () {
    const checkpoint = yield* Checkpoint.Checkpoint
    const first = yield* checkpoint.run(desk, { key, input: "go", policy: "startOrResume" })
    if (first.outcome !== "AwaitingApproval") return first
    const decisions = first.requests.map((request) => ({ ...request, approved: true }))
    return yield* checkpoint.resume(desk, { key, decisions })
  }).pipe(Effect.provide(Layer.merge(handlers, model)))
})
