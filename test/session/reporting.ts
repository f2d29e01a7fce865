/** An agent whose tools and model report when they run. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

const Note = Tool.make("note", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const Pay = Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
const Look = Tool.make("look", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }).annotate(
  Tool.Idempotent,
  true
)
const toolkit = Toolkit.make(Note, Look, Pay)
const helper = Agent.make("helper", { toolkit })
export const desk = Agent.make("desk", {
  toolkit: [Note, Look, Pay, Agent.asTool(helper, { name: "help", description: "Helps" })]
})

/** The calls of the tools, each once. */
export const calls = ["a", "b", "inner", "pay"]

/** The calls of the tool that may run again. */
export const repeatable = ["seen", "seen inside"]

/** Two notes and a look at once and a helper that takes one of each, then a payment, then the answer. */
const rounds = ({ messages, tools }: Parameters<ScriptedModel.TurnFunction>[0]): ScriptedModel.Turn => {
  const note = (id: string) => ({ id, name: "note", params: { text: id } })
  const look = (id: string) => ({ id, name: "look", params: { text: id } })
  const isHelper = tools.every(({ name }) => name !== "help")
  switch (messages.filter(({ role }) => role === "assistant").length) {
    case 0:
      if (isHelper) return { toolCalls: [note("inner"), look("seen inside")] }
      return { toolCalls: [note("a"), look("seen"), { id: "h", name: "help", params: { input: "go" } }, note("b")] }
    case 1:
      return isHelper ? { text: "helped" } : { toolCalls: [{ id: "p", name: "pay", params: {} }] }
    default:
      return { text: "done" }
  }
}

/** The observers of a run: of the calls of its tools, and of each question to its model. */
export interface Watch {
  readonly called: (name: string) => Effect.Effect<void>
  readonly asked: Effect.Effect<void>
}

/** The tools and the model of the agent. */
export const layerOf = (options: Watch) => {
  const note = (name: string) => Effect.as(options.called(name), `noted ${name}`)
  const handlers = toolkit.toLayer({
    note: ({ text }) => note(text),
    pay: () => note("pay"),
    look: ({ text }) => note(text)
  })
  const model = ScriptedModel.layer((request) => Effect.as(options.asked, rounds(request)))
  return Layer.merge(handlers, model)
}
