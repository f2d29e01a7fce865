import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Option, Ref, Result } from "effect"
import { Agent, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/durable"
import { ScriptedModel } from "effect-emissary/testing"
import * as sessionLog from "#src/durable/internal/sessionLog.ts"
import { changed } from "../conversation/store/changed.ts"

const unavailable = new VersionedStore.VersionedStoreError({
  operation: "get",
  reason: { _tag: "Unavailable", storage: "database", error: "ConnectionError" }
})

describe("DUR-3 a store that fails for a while", () => {
  it.live("a session that could not be opened is opened as soon as the store answers", () =>
    Effect.gen(function* () {
      const isDown = yield* Ref.make(false)
      const store = changed(({ get }) => ({
        get: (key) => Effect.flatMap(Ref.get(isDown), (down) => (down ? Effect.fail(unavailable) : get(key)))
      })).pipe(Layer.provide(VersionedStore.layerMemory))
      const support = Agent.make("support")
      const sessions = Session.layer([support]).pipe(
        Layer.provide(store),
        Layer.provide(ScriptedModel.layer([{ text: "Hello." }]))
      )
      yield* Effect.gen(function* () {
        const { state } = yield* Session.Session
        yield* Ref.set(isDown, true)
        const failed = yield* Effect.result(state("a"))
        assert.strictEqual(Result.isFailure(failed) && failed.failure.reason._tag, "StoreFailed")
        yield* Ref.set(isDown, false)
        assert.isTrue(Option.isNone(yield* state("a")))
        assert.strictEqual((yield* Session.ask("a", "Hi")).text, "Hello.")
      }).pipe(Effect.provide(sessions))
    })
  )
})

describe("DUR-2 snapshots", () => {
  it.effect("a process that writes from an old state deletes no events that are kept for readers", () =>
    Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const log = sessionLog.make(store, "session", Number.POSITIVE_INFINITY)
      const at = yield* DateTime.now
      const event = { _tag: "ResumeReceived", at } as const
      const old = yield* log.append(yield* log.create("a", "support", { updated: at }), [event, event], (head) => head)
      const owned = yield* log.append(old, [], (head) => ({ ...head, owner: "another", epoch: head.epoch + 1 }))
      const compacted = yield* log.compact(owned, at)
      const refused = yield* Effect.result(log.append(old, [event], (head) => head))
      assert.strictEqual(Result.isFailure(refused) && refused.failure._tag, "Conflict")
      const entries = yield* log.entries(compacted, 1)
      assert.deepStrictEqual(
        entries.map(({ sequence }) => sequence),
        [1, 2]
      )
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  )
})
