/** PEOPLE-1: questions of models, handlers and pages in worlds, whose processes die and whose store fails. */
import { assert, describe } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ClientTool, Question, type Run } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel, Simulation } from "effect-emissary/testing"
import { test } from "../test.ts"

/** The rooms that were booked, and the results that the model has read. */
class Hotel extends Context.Service<Hotel, { readonly booked: Array<string>; readonly read: Array<string> }>()(
  "worlds/Hotel"
) {
  static readonly layer = Layer.sync(Hotel, () => ({ booked: [], read: [] }))
}

const toolkit = Toolkit.make(
  Tool.make("book", {
    parameters: Schema.Struct({ key: Schema.String }),
    success: Schema.String,
    failure: Question.Asked
  })
)

const handlers = toolkit.toLayer(
  Effect.map(Hotel, ({ booked }) => ({
    book: Effect.fnUntraced(function* ({ key }) {
      const beds = yield* Question.ask("How many beds?", Schema.Int)
      const { name } = yield* Question.ask("For whom?", Schema.Struct({ name: Schema.String }))
      yield* Effect.sleep("20 millis")
      booked.push(key)
      return `${key}: ${beds} beds for ${name}`
    })
  }))
)

const AskUser = Question.tool("ask_user", { description: "Asks", answer: Schema.Struct({ name: Schema.String }) })

const Locate = ClientTool.make(Tool.make("locate", { success: Schema.Struct({ city: Schema.String }) }))

const model = Layer.unwrap(
  Effect.map(Hotel, ({ read }) =>
    ScriptedModel.layer(({ messages }) => {
      const last = messages.at(-1)
      const asked = messages.findLast(({ role }) => role === "user")?.text ?? ""
      if (last?.role === "user") {
        const calls = [
          { name: "book", params: { key: asked } },
          { name: "ask_user", params: { question: "Who are you?" } },
          { name: "locate", params: {} }
        ]
        return { toolCalls: calls }
      }
      read.push(last?.text ?? "")
      return { text: `re: ${asked}` }
    })
  )
)

const sessions = Session.layer([Agent.make("desk", { toolkit: [...Object.values(toolkit.tools), AskUser, Locate] })], {
  leaseTime: "1 second"
}).pipe(Layer.provide([handlers, model]))

/** Each fifth answer does not fit. */
const answering = () => {
  let count = 0
  return (request: Run.Request): Schema.Json => {
    if (count++ % 5 === 4) return { wrong: true }
    if (request._tag === "Call") return { city: "Oslo" }
    return request._tag === "Question" && request.arguments.question === "How many beds?" ? 2 : { name: "Ada" }
  }
}

describe("PEOPLE-1 questions in worlds", () => {
  test.live("PEOPLE-1 a handler acts once for its answers, and the model reads what was answered", function* () {
    const { worlds } = yield* Simulation.run(sessions, {
      seeds: 4,
      outside: Hotel.layer,
      script: (world) =>
        Effect.gen(function* () {
          const input = (message: number, session: number) => `m${message} of ${session}`
          yield* Simulation.chats({ messages: 2, input, answers: answering() })(world)
          const { booked, read } = yield* Hotel
          assert.strictEqual(new Set(booked).size, booked.length)
          for (const text of read) {
            assert.notInclude(text, "wrong")
            // A handler that died with its process may have acted
            assert.match(text, /: 2 beds for Ada|not known whether it took effect/)
            assert.match(text, /"name":"Ada".*"city":"Oslo"/s)
          }
          assert.isAbove(booked.length, 0)
        })
    })
    assert.strictEqual(worlds, 4)
  })
})
