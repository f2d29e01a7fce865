/** The cost of a turn of a session, counted and not timed (KEEP-2). */
import { countCalls } from "../calls.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

const toolkit = Toolkit.make(
  Tool.make("find", { parameters: Schema.Struct({}), success: Schema.String }),
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
)

const desk = Agent.make("desk", { instructions: "You help.", toolkit })

const call = (name: string) => ({ toolCalls: [{ name, params: {} }] })

const sessionsWith = (script: Parameters<typeof ScriptedModel.layer>[0]) =>
  Session.layer([desk]).pipe(
    Layer.provide([
      VersionedStore.layerMemory,
      toolkit.toLayer({ find: () => Effect.succeed("parcel"), pay: () => Effect.succeed("paid") }),
      ScriptedModel.layer(script)
    ])
  )

const sessions = sessionsWith([{ text: "One." }, call("find"), { text: "Two." }, call("pay"), { text: "Three." }])

/** The number of the newest event. */
const newest = (id: string) =>
  Effect.gen(function* () {
    const state = yield* (yield* Session.Session).state(id)
    return Option.getOrElse(state, () => ({ cursor: undefined, sequence: 0 }))
  })

/** The folds of the turns that an effect makes due, and the events of the run among their events. */
const countFolds = Effect.fnUntraced(function* <E, R>(id: string, turn: Effect.Effect<unknown, E, R>) {
  const before = yield* newest(id)
  const calls = yield* countCalls(turn)
  const session = yield* Session.Session
  const added = session
    .events(id, { after: before.cursor })
    .pipe(Stream.take((yield* newest(id)).sequence - before.sequence))
  const events = yield* Stream.runCollect(added)
  return {
    folds: calls.named("run/internal/runTransition.ts", "applyOrPlace"),
    events: events.filter(({ event }) => event._tag === "RunEvent").length
  }
})

describe("KEEP-2 the folds of a session", () => {
  it.effect("KEEP-2 an event of a run in a session is folded once", () =>
    Effect.gen(function* () {
      const { interrupt } = yield* Session.Session
      yield* Session.turn("a", "one")
      const found = yield* countFolds("a", Session.turn("a", "two"))
      assert.isAbove(found.events, 5)
      assert.deepStrictEqual(found.folds, found.events)
      const waiting = yield* countFolds("a", Session.turn("a", "three"))
      assert.deepStrictEqual(waiting.folds, waiting.events)
      // An interruption denies the call that waits, outside of a run of the agent
      const denied = yield* countFolds("a", interrupt("a"))
      assert.isAbove(denied.events, 1)
      assert.deepStrictEqual(denied.folds, denied.events)
    }).pipe(Effect.provide(sessions))
  )
})

/** The number of values of a store that an effect decodes: heads, batches, snapshots. */
const countDecoded = <E, R>(effect: Effect.Effect<unknown, E, R>) =>
  Effect.map(countCalls(effect), (calls) => calls.named("payload/VersionedCodec.ts", "decode"))

describe("RIGHT-1 a head that has not changed", () => {
  const guide = Agent.make("guide", { instructions: "You help." })
  const layer = Layer.fresh(Session.layer([guide])).pipe(
    Layer.provide(ScriptedModel.layer([{ text: "One." }, { text: "Two." }, { text: "Three." }]))
  )

  it.effect("RIGHT-1 a turn and a state of an unchanged session decode no head", () =>
    Effect.gen(function* () {
      const counts = yield* Effect.gen(function* () {
        const { state } = yield* Session.Session
        yield* Session.turn("a", "one")
        return {
          state: yield* countDecoded(state("a")),
          turn: yield* countDecoded(Session.turn("a", "two")),
          again: yield* countDecoded(state("a"))
        }
      }).pipe(Effect.provide(layer))
      assert.deepStrictEqual(counts, { state: 0, turn: 0, again: 0 })
      // Another process has the session still to read
      const opened = yield* Effect.flatMap(Session.Session, ({ state }) => countDecoded(state("a"))).pipe(
        Effect.provide(layer)
      )
      assert.isAbove(opened, 0)
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  )
})

describe("HOUSE-9 a turn of a session", () => {
  it.effect("HOUSE-9 writes each of its two commits as two values, each copied once, and binds no tool again", () =>
    Effect.gen(function* () {
      yield* Session.turn("b", "one")
      const calls = yield* countCalls(Session.turn("b", "two"))
      // Two heads, two batches of events, and the content of the message for its digest
      assert.strictEqual(calls.named("payload/internal/copyJson.ts", "copyRefusingSecrets"), 5)
      // Besides these only rows and marks without content: a value that was written is not copied again for its text
      assert.strictEqual(calls.named("payload/internal/copyJson.ts", "runCopier"), 8)
      assert.strictEqual(calls.named("tool/internal/boundTool.ts", "bindContract"), 0)
      // The version of the head, before the message is stored: its reader hears of all that comes
      assert.strictEqual(calls.named("store/internal/documents.ts", "find"), 1)
    }).pipe(Effect.provide(sessionsWith([{ text: "One." }, { text: "Two." }])))
  )
})
