import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, ToolSettings } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

class BookingFailed extends Schema.TaggedError<BookingFailed>()("BookingFailed", {
  trainId: Schema.String,
  message: Schema.String
}) {}

const FindTrains = Tool.make("find_trains", {
  description: "Find the trains from one city to another",
  parameters: Schema.Struct({ from: Schema.String, to: Schema.String }),
  success: Schema.Array(Schema.Struct({ id: Schema.String, departs: Schema.String }))
}).annotate(Tool.Readonly, true)

const BookTrain = ToolSettings.timeout(
  Tool.make("book_train", {
    description: "Book a seat on a train by the id of the train",
    parameters: Schema.Struct({ id: Schema.String }),
    success: Schema.Struct({ reference: Schema.String }),
    failure: BookingFailed
  }),
  "2 seconds"
)

const Travel = Toolkit.make(FindTrains, BookTrain)

const desk = Agent.make("travel-desk", {
  instructions: "You are a travel desk. Book trains for customers.",
  toolkit: Travel
})

const TravelLive = Travel.toLayer({
  find_trains: ({ from, to }) => Effect.succeed([{ id: `${from}-${to}-1`, departs: "08:15" }]),
  book_train: ({ id }) => {
    switch (id) {
      case "full":
        return Effect.fail(new BookingFailed({ trainId: id, message: "the train is sold out" }))
      case "slow":
        return Effect.succeed({ reference: "LATE" }).pipe(Effect.delay("1 minute"))
      default:
        return Effect.succeed({ reference: `REF-${id}` })
    }
  }
})

describe("travel desk", () => {
  it.effect("sends the model the system text, the user text, the tools and the calls", () =>
    Effect.gen(function* () {
      const answer = yield* desk.ask("Book a train from Bern to Basel.")
      assert.strictEqual(answer, "Booked, REF-Bern-Basel-1.")
      yield* ScriptedModel.assertComplete

      const requests = yield* ScriptedModel.requests
      assert.strictEqual(requests.length, 3)
      for (const { messages, tools } of requests) {
        assert.deepStrictEqual(tools.map(({ name }) => name).sort(), ["book_train", "find_trains"])
        assert.strictEqual(messages[0]?.role, "system")
        assert.include(messages[0]?.text, "You are a travel desk. Book trains for customers.")
        assert.strictEqual(messages[1]?.role, "user")
        assert.strictEqual(messages[1]?.text, "Book a train from Bern to Basel.")
      }
      const calls = requests.map(({ messages }) =>
        messages.flatMap((message) => (message.toolCalls ?? []).map(({ name, params }) => ({ name, params })))
      )
      const find = { name: "find_trains", params: { from: "Bern", to: "Basel" } }
      const book = { name: "book_train", params: { id: "Bern-Basel-1" } }
      assert.deepStrictEqual(calls, [[], [find], [find, book]])
    }).pipe(
      Effect.provide(
        Layer.mergeAll(
          TravelLive,
          ScriptedModel.layer([
            {
              toolCalls: [{ name: "find_trains", params: { from: "Bern", to: "Basel" } }],
              expect: { roles: ["system", "user"], tools: ["find_trains", "book_train"] }
            },
            {
              toolCalls: [{ name: "book_train", params: { id: "Bern-Basel-1" } }],
              expect: { toolResult: "08:15", roles: ["system", "user", "assistant", "tool"] }
            },
            {
              text: "Booked, REF-Bern-Basel-1.",
              expect: {
                toolResult: "REF-Bern-Basel-1",
                roles: ["system", "user", "assistant", "tool", "assistant", "tool"]
              }
            }
          ])
        )
      )
    )
  )

  it.effect("lets the model read the error of book_train", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* desk.ask("Book train full."), "Sorry, it is sold out.")
      yield* ScriptedModel.assertComplete
      const requests = yield* ScriptedModel.requests
      const result = requests[1]?.messages.at(-1)
      assert.strictEqual(result?.role, "tool")
      assert.include(result?.text, "the train is sold out")
    }).pipe(
      Effect.provide(
        Layer.mergeAll(
          TravelLive,
          ScriptedModel.layer([
            { toolCalls: [{ name: "book_train", params: { id: "full" } }] },
            { text: "Sorry, it is sold out.", expect: { toolResult: "the train is sold out" } }
          ])
        )
      )
    )
  )

  it.effect("cuts off a booking after 2 seconds, and the model reads it", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(desk.ask("Book train slow."))
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* ScriptedModel.requests).length, 1)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(fiber), "The booking took too long.")
      yield* ScriptedModel.assertComplete
      const requests = yield* ScriptedModel.requests
      assert.strictEqual(requests.length, 2)
      const result = requests[1]?.messages.at(-1)
      assert.strictEqual(result?.role, "tool")
      assert.match(result?.text ?? "", /timed out|timeout|time limit|2 seconds|2s|2000/i)
      assert.notInclude(result?.text, "LATE")
    }).pipe(
      Effect.provide(
        Layer.mergeAll(
          TravelLive,
          ScriptedModel.layer([
            { toolCalls: [{ name: "book_train", params: { id: "slow" } }] },
            { text: "The booking took too long." }
          ])
        )
      )
    )
  )
})
