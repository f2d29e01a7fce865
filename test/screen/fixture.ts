/** Sessions whose agent writes slowly, and calls tools. */
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ClientTool, Question, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

const named = { parameters: Schema.Struct({ name: Schema.String }), success: Schema.Json }

export const toolkit = Toolkit.make(Tool.make("who", named), Tool.make("pay", { ...named, needsApproval: true }))

/** A call that the page makes, and a question to the user. */
const Seat = ClientTool.make(Tool.make("seat", { ...named, success: Schema.Struct({ row: Schema.Int }) }))
const Ask = Question.tool("ask", { description: "Asks", answer: Schema.Struct({ size: Schema.Literals(["S", "M"]) }) })

/** The calls that have run. */
export const runs: Array<string> = []

/** Writes slowly, and calls a tool for `/tool name`. */
const model = ScriptedModel.layer(({ messages }) => {
  const last = messages.at(-1)
  const calls = Array.from((last?.text ?? "").matchAll(/\/(\w+) (\w+)/g), ([, name = "", arg = ""]) => ({
    name,
    params: name === "ask" ? { question: arg } : { name: arg }
  }))
  const chunkDelay = "5 millis"
  return last?.role === "user" && calls.length > 0
    ? { text: "Let me see.", toolCalls: calls, chunkDelay }
    : { reasoning: "secret", text: `Here you are: ${last?.text.toUpperCase() ?? ""}`, chunkDelay }
})

export const handlers = toolkit.toLayer({
  who: ({ name }) => Effect.sync(() => (runs.push(name), { name })),
  pay: ({ name }) => Effect.sync(() => (runs.push(name), { paid: name }))
})

export const sessions = Session.layer([
  Agent.make("support", { toolkit: [...Object.values(toolkit.tools), Seat, Ask] })
]).pipe(Layer.provide([VersionedStore.layerMemory, model, handlers]))

/** Sessions whose agent makes one call again and again, until the user leaves it. */
export const repeating = () =>
  Session.layer([Agent.make("support", { toolkit: [toolkit.tools.who] })]).pipe(
    Layer.provide([
      VersionedStore.layerMemory,
      ScriptedModel.layer(({ messages }) =>
        messages.some(({ text }) => text === "Leave it.")
          ? { text: "I leave it." }
          : { text: "Let me see.", toolCalls: [{ name: "who", params: { name: "ann" } }] }
      ),
      handlers
    ])
  )
