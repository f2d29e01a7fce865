import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Layer, Logger, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run, RunContext, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as t from "./sessions.ts"

const Billing = Toolkit.make(Tool.make("pay", { success: Schema.String, needsApproval: true }))
const Reading = Toolkit.make(Tool.make("look", { success: Schema.String }))
const agent = Agent.make("desk", { toolkit: Toolkit.merge(Billing, Reading), maxSteps: 2 })
const unready = Agent.make("desk", { instructions: Effect.fail("the database is away") })
const reading = Agent.make("desk", {
  instructions: RunContext.read(Schema.Struct({ tenant: Schema.String })).pipe(Effect.as("x"))
})

const handlers = Layer.merge(
  Billing.toLayer({ pay: () => Effect.succeed("paid") }),
  Reading.toLayer({ look: () => Effect.succeed("seen") })
)

const look = { toolCalls: [{ name: "look" }] }

type Stop = (sessions: Session.Service) => Effect.Effect<unknown, Session.SessionError>

const below = (script: ScriptedModel.Script) =>
  Layer.mergeAll(VersionedStore.layerMemory, handlers, ScriptedModel.layer(script))

const desk = (script: ScriptedModel.Script) => Session.layer([agent]).pipe(Layer.provide(below(script)))
const away = (script: ScriptedModel.Script) => Session.layer([unready]).pipe(Layer.provide(below(script)))
const tenanted = (script: ScriptedModel.Script) => Session.layer([reading]).pipe(Layer.provide(below(script)))

/** Each end of a turn: the agent, its script, the last event, and the outcome or the reason; and what a person does meanwhile. */
const ends: ReadonlyArray<
  readonly [
    name: string,
    layer: (script: ScriptedModel.Script) => Layer.Layer<Session.Session>,
    script: ScriptedModel.Script,
    last: string,
    end: string,
    stop?: Stop
  ]
> = [
  ["an answer", desk, [{ text: "Hi." }], "RunFinished", "Completed"],
  ["a call that waits", desk, [{ toolCalls: [{ name: "pay" }] }], "RunFinished", "AwaitingApproval"],
  ["the limit of steps", desk, [look, look], "RunFinished", "MaxSteps"],
  ["a refusal of the model", desk, [{ fail: { reason: "AuthenticationError" } }], "TurnFailed", "ModelFailed"],
  ["a rate limit", desk, () => ({ fail: { reason: "RateLimitError" } }), "TurnFailed", "ModelFailed"],
  ["an agent that is not ready", away, [], "TurnFailed", "PreparationFailed"],
  ["a message without its context", tenanted, [], "MessageDropped", "PreparationFailed"],
  [
    "an interruption",
    desk,
    [{ text: "Hi.", delay: "1 hour" }],
    "RunFinished",
    "Interrupted",
    (sessions) => Effect.andThen(Effect.sleep("1 second"), sessions.interrupt("a"))
  ],
  [
    "an interruption at once",
    desk,
    [{ text: "Hi.", delay: "1 hour" }],
    "RunFinished",
    "Interrupted",
    (sessions) => sessions.interrupt("a")
  ]
]

const isStored = (entry: Session.LiveEntry): entry is Session.Entry =>
  entry.event._tag !== "AnswerDelta" && entry.event._tag !== "AnswerWithdrawn"

describe("RIGHT-16 the events and the end of a turn", () => {
  t.passing("SCREEN-1 the pieces of an answer come before the end of their turn, and the next turn has its own", () =>
    Effect.gen(function* () {
      const textOf = (receipt: Session.Receipt) =>
        Session.turnLive("a", receipt, { every: "1 milli" }).pipe(
          Stream.runFold(
            () => "",
            (text, { event }) => (event._tag === "AnswerDelta" ? text + event.delta : text)
          )
        )
      const first = yield* Session.send("a", "Go")
      const next = yield* Session.send("a", "Go on")
      const texts = yield* Effect.all([textOf(first), textOf(next)], { concurrency: 2 })
      assert.strictEqual(texts[0], "One answer.")
      assert.isTrue(texts[1].endsWith("Another one."))
    }).pipe(
      Effect.provide(
        desk([
          { text: "One answer.", chunkDelay: "50 millis" },
          { text: "Another one.", chunkDelay: "50 millis" }
        ])
      )
    )
  )

  for (const [name, layer, script, last, end, stop] of ends) {
    t.passing(`end with ${name}`, () =>
      Effect.gen(function* () {
        const sessions = yield* Session.Session
        const receipt = yield* sessions.send("a", "Go")
        const events = yield* Effect.forkChild(Stream.runCollect(Session.turnEvents("a", receipt)))
        const live = yield* Effect.forkChild(Stream.runCollect(Session.turnLive("a", receipt)))
        const ended = yield* Effect.forkChild(Effect.exit(Session.await("a", receipt)))
        if (stop !== undefined) yield* stop(sessions)
        const seen = (yield* Fiber.join(events)).map(t.tagOf)
        assert.strictEqual(seen.at(-1), last)
        assert.strictEqual(seen.filter((tag) => tag === last).length, 1)
        assert.deepStrictEqual((yield* Fiber.join(live)).filter(isStored).map(t.tagOf), seen)
        const exit = yield* Fiber.join(ended)
        const found = Exit.match(exit, {
          onSuccess: ({ outcome }) => outcome,
          onFailure: (cause) =>
            Option.match(Cause.findErrorOption(cause), {
              onNone: () => "none",
              onSome: ({ reason }) => (reason._tag === "TurnFailed" ? reason.failure.reason : reason._tag)
            })
        })
        assert.strictEqual(found, end)
        // the same receipt finds the same end later
        assert.deepStrictEqual((yield* Stream.runCollect(Session.turnEvents("a", receipt))).map(t.tagOf), seen)
        assert.deepStrictEqual((yield* Stream.runCollect(Session.turnLive("a", receipt))).map(t.tagOf), seen)
      }).pipe(Effect.provide(layer(script)), Effect.provide(Logger.layer([])))
    )
  }

  t.passing("of a turn without a message are found from a cursor", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* Session.turn("a", "Go")
      const { cursor, requests } = yield* t.stateOf(sessions, "a")
      yield* sessions.decide("a", requests.filter(Run.isApprovable).map(Run.approve))
      assert.strictEqual((yield* Session.await("a", { cursor })).text, "Paid.")
      const seen = yield* Stream.runCollect(Session.turnEvents("a", { cursor }))
      assert.strictEqual(seen.map(t.tagOf).at(-1), "RunFinished")
    }).pipe(Effect.provide(desk([{ toolCalls: [{ name: "pay" }] }, { text: "Paid." }])))
  )
})
