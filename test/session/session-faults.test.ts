import { assert, describe, it } from "@effect/vitest"
import {
  Cause,
  DateTime,
  Deferred,
  type Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  Option,
  Ref,
  Result,
  type Schema
} from "effect"
import { TestClock } from "effect/testing"
import { Agent, Conversation, Message, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as storeService from "#src/store/internal/storeService.ts"
import * as eventLog from "#src/session/internal/eventLog.ts"
import { changed } from "../store/changed.ts"
import * as t from "./sessions.ts"

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
        assert.strictEqual((yield* Session.turn("a", "Hi")).text, "Hello.")
      }).pipe(Effect.provide(sessions))
    })
  )
})

/** Collects what is logged. */
const collected = () => {
  const lines: Array<string> = []
  const layer = Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
  return { lines, layer }
}

describe("MEND-7 a store that fails while a turn is under way", () => {
  const down = storeService.unavailable({
    operation: "compareAndSet",
    storage: "database",
    error: "UnknownError, SQLITE_FULL",
    cause: undefined
  })

  /** Asks while the store is full for a time, which begins when the model is asked. */
  const askWhileFull = Effect.fnUntraced(function* (time: Duration.Input) {
    const { layer, lines } = collected()
    const isDown = yield* Ref.make(false)
    const whenUp = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E | VersionedStore.VersionedStoreError> =>
      Effect.flatMap(Ref.get(isDown), (isDown): Effect.Effect<A, E | VersionedStore.VersionedStoreError> =>
        isDown ? Effect.fail(down) : effect
      )
    const store = changed(({ compareAndSet, get }) => ({
      get: (...args) => whenUp(get(...args)),
      compareAndSet: (...args) => whenUp(compareAndSet(...args))
    }))
    const asked = yield* Deferred.make<void>()
    const sessions = Session.layer([Agent.make("support")]).pipe(
      Layer.provide(Layer.provide(store, VersionedStore.layerMemory)),
      Layer.provide(
        ScriptedModel.layer(() =>
          Effect.gen(function* () {
            // It breaks once
            if (yield* Deferred.succeed(asked, undefined)) yield* Ref.set(isDown, true)
            return { text: "Hello." }
          })
        )
      )
    )
    return yield* Effect.gen(function* () {
      const asking = yield* Effect.forkChild(Session.turn("a", "Hi"))
      yield* Deferred.await(asked)
      yield* TestClock.adjust(time)
      yield* Ref.set(isDown, false)
      yield* TestClock.adjust("1 minute")
      return { answer: yield* Fiber.await(asking), lines }
    }).pipe(Effect.provide(Layer.provideMerge(sessions, layer)))
  })

  it.effect("is waited for by `ask`, and logged once with the name that the database has for it", () =>
    Effect.gen(function* () {
      const { answer, lines } = yield* askWhileFull("80 seconds")
      assert.strictEqual(Exit.isSuccess(answer) && answer.value.text, "Hello.", String(answer))
      const named = lines.filter((line) => line.includes("SQLITE_FULL"))
      assert.strictEqual(named.length, 1, lines.join("\n"))
      assert.include(named[0], 'session "a"')
    })
  )

  it.effect("is not waited for longer than 90 seconds", () =>
    Effect.gen(function* () {
      const { answer } = yield* askWhileFull("5 minutes")
      const error = Exit.isFailure(answer) ? Option.getOrUndefined(Cause.findErrorOption(answer.cause)) : undefined
      assert.strictEqual(error?.reason._tag, "StoreFailed")
    })
  )
})

describe("MEND-7 a damaged session", () => {
  const worker = t.withTool("worker")

  /** A session of two turns with one damaged event. */
  const damaged = Effect.fnUntraced(function* (
    damage: (store: VersionedStore.Service, key: string) => Effect.Effect<unknown, unknown>
  ) {
    const store = yield* t.store
    const layer = Session.layer([worker.agent]).pipe(
      Layer.provide(store),
      Layer.provide(worker.handlers((n) => Effect.succeed(`${n}`))),
      Layer.provide(ScriptedModel.layer(t.echo))
    )
    yield* Effect.scoped(
      Effect.gen(function* () {
        const sessions = yield* t.sessionsOf(layer)
        for (const text of ["one", "two"]) {
          const { cursor } = yield* sessions.send("a", text)
          yield* t.turns(sessions, "a", 1, cursor)
        }
      })
    )
    const values = yield* Effect.provide(VersionedStore.VersionedStore, store)
    const { keys } = yield* values.list({ prefix: "session/journal/", limit: 1000 })
    const batches = keys
      .filter((key) => !key.endsWith("/input"))
      .toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1))
    // The message of the second turn
    for (const key of batches) {
      const found = Option.getOrThrow(yield* values.get(key))
      if (JSON.stringify(found.value).includes('"two"')) {
        yield* Effect.orDie(damage(values, key))
        break
      }
    }
    return { values, sessions: yield* t.sessionsOf(layer), layer }
  })

  const rewrite = (value: (before: string) => Schema.Json) => (store: VersionedStore.Service, key: string) =>
    Effect.gen(function* () {
      const found = Option.getOrThrow(yield* store.get(key))
      yield* store.compareAndSet(key, Option.some(found.version), value(JSON.stringify(found.value)))
    })

  for (const [name, damage] of [
    ["was deleted", (store: VersionedStore.Service, key: string) => store.delete(key)],
    ["has no known tag", rewrite((text) => JSON.parse(text.replace("MessageReceived", "MessageRecieved")))],
    ["was cut", rewrite((text) => text.slice(0, 40))]
  ] as const) {
    it.live(`of which an event ${name} is read up to it`, () =>
      Effect.gen(function* () {
        const { sessions } = yield* damaged(damage)
        const reason = yield* t.reasonOf(sessions.history("a"))
        assert.include(["Damaged", "Unreadable"], reason)
        const conversation = yield* sessions.history("a", { untilDamage: true })
        const texts = Conversation.messages(conversation).map((message) =>
          message.role === "user" ? "user" : message.role
        )
        assert.deepStrictEqual(texts, ["user", "assistant"])
        assert.strictEqual(yield* t.reasonOf(sessions.history("none", { untilDamage: true })), "NotFound")
      }).pipe(Effect.scoped)
    )
  }

  it.live("RIGHT-13 L11 keeps the messages that waited before the damage", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const began = yield* Deferred.make<void>()
      const { agent, handlers } = t.withTool("worker")
      const layer = Session.layer([agent], { drainTime: "1 millis" }).pipe(
        Layer.provide(store),
        Layer.provide(handlers(() => Effect.andThen(Deferred.succeed(began, undefined), Effect.never))),
        Layer.provide(ScriptedModel.layer(() => t.call(1)))
      )
      yield* Effect.gen(function* () {
        const sessions = yield* t.sessionsOf(layer)
        yield* sessions.send("a", "one")
        yield* sessions.send("b", "one")
        yield* Deferred.await(began)
        yield* sessions.send("b", "two")
        yield* sessions.send("b", "three")
        yield* sessions.interrupt("b")
      }).pipe(Effect.scoped)
      const values = yield* Effect.provide(VersionedStore.VersionedStore, store)
      const batches = (id: string) =>
        Effect.map(values.list({ prefix: `session/journal/1:${id}/` }), ({ keys }) =>
          keys.filter((key) => !key.endsWith("/input")).toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1))
        )
      const textsOf = Effect.fnUntraced(function* (id: string, damaged: string) {
        for (const key of yield* batches(id)) {
          const found = Option.getOrThrow(yield* values.get(key))
          if (!JSON.stringify(found.value).includes(damaged)) continue
          yield* values.delete(key)
          break
        }
        const sessions = yield* t.sessionsOf(layer)
        return Conversation.messages(yield* sessions.history(id, { untilDamage: true })).map((message) =>
          message.role === "user" ? Message.text(message) : message.role
        )
      }, Effect.scoped)
      assert.deepStrictEqual(yield* textsOf("a", "RunStarted"), ["one"])
      assert.deepStrictEqual(yield* textsOf("b", "RunInterrupted"), ["one", "assistant", "tool", "two", "three"])
    }).pipe(Effect.scoped)
  )

  it.live("whose head is ahead of its journal is not taken for a whole one", () =>
    Effect.gen(function* () {
      const { sessions } = yield* damaged((store) =>
        rewrite((text) => JSON.parse(text.replace(/"sequence":\d+/, '"sequence":99')))(store, "session/head/a")
      )
      const error = yield* Effect.flip(sessions.state("a"))
      assert.strictEqual(error.reason._tag, "Damaged")
    }).pipe(Effect.scoped)
  )

  it.effect("TRUST-4 counts in a head are checked against what is there", () =>
    Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const sessions = yield* t.sessionsOf(Session.layer([t.support], { idleTime: 0 }))
      yield* Session.turn("a", "one").pipe(Effect.provideService(Session.Session, sessions))
      const { value, version } = Option.getOrThrow(yield* store.get("session/head/a"))
      // Sound: a head is an object with segments
      const head = value as { readonly segments: ReadonlyArray<{ readonly batches: number }> }
      const counted = (batches: number) => head.segments.map((segment) => ({ ...segment, batches }))
      const wrong: ReadonlyArray<readonly [tag: string, segments: Schema.Json]> = [
        ...[2 ** 32 - 1, Number.MAX_SAFE_INTEGER].map((count) => ["Damaged", counted(count)] as const),
        ...[2 ** 53, -1, 0.5, "1"].map((batches) => ["Unreadable", [{ epoch: 1, owner: "me", batches }]] as const),
        ["Unreadable", [...counted(1), ...counted(1)]]
      ]
      let expected = version
      for (const [tag, segments] of wrong) {
        expected = yield* store.compareAndSet("session/head/a", Option.some(expected), { ...head, segments })
        const reader = yield* t.sessionsOf(Session.layer([t.support]))
        assert.strictEqual(yield* t.reasonOf(reader.history("a")), tag)
        assert.strictEqual(yield* t.reasonOf(reader.send("a", "two")), tag)
      }
    }).pipe(Effect.scoped, Effect.provide([VersionedStore.layerMemory, ScriptedModel.layer(t.echo)]))
  )

  it.effect("whose turn is due is logged once, although it is tried again and again", () =>
    Effect.gen(function* () {
      const { layer, values } = yield* damaged((store, key) => store.delete(key))
      const { layer: logger, lines } = collected()
      yield* values.compareAndSet("session/busy/a", Option.none(), {})
      yield* Effect.provide(t.sessionsOf(layer), logger)
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(lines.filter((line) => line.includes('session "a"')).length, 1, lines.join("\n"))
    }).pipe(Effect.scoped)
  )
})

describe("MEND-7 values that are no decisions", () => {
  for (const decisions of [[null], null, undefined, "yes", [{ callId: "c" }], [[]]]) {
    it.live(`${JSON.stringify(decisions)} are refused with an error`, () =>
      Effect.gen(function* () {
        const sessions = yield* Session.Session
        // Sound: a program without types sends it
        const error = yield* Effect.flip(sessions.decide("a", decisions as never))
        assert(error.reason._tag === "InvalidDecision")
        assert.strictEqual(error.reason.error.problem, "malformed")
      }).pipe(Effect.provide(t.over(t.echo)))
    )
  }
})

describe("DUR-2 snapshots", () => {
  it.effect("a process that writes from an old state deletes no events that are kept for readers", () =>
    Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const log = eventLog.make(store, "session", Number.POSITIVE_INFINITY)
      const at = yield* DateTime.now
      const event = { _tag: "ResumeReceived", at } as const
      const made = yield* log.create("a", "support", { owner: "one", updated: at })
      const old = yield* log.append(made, (head) => head, t.addition(made, [event, event]))
      const owned = yield* log.append(old, (head) => ({ ...head, owner: "another", epoch: head.epoch + 1 }))
      const compacted = yield* log.compact(owned, at)
      const refused = yield* Effect.result(log.append(old, (head) => head, t.addition(old, [event])))
      assert.strictEqual(Result.isFailure(refused) && refused.failure._tag, "Conflict")
      const entries = yield* log.entries(compacted, 1)
      assert.deepStrictEqual(
        entries.map(({ sequence }) => sequence),
        [1, 2]
      )
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  )
})
