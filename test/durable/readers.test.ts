/** DUR-1: readers of a session see each event once and in order, with any writers and at any time. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Schema, Stream } from "effect"
import { Conversation, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/durable"
import { ScriptedModel } from "effect-emissary/testing"
import { changed } from "../conversation/store/changed.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

describe("DUR-1 readers", () => {
  it.live("a reader before the first message, slow ones and late ones see the same events", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const upTo = (count: number, after = 0) => Stream.take(sessions.events("a", { after }), count)
      const early = yield* Effect.forkChild(Stream.runCollect(upTo(18)))
      const slow = yield* Effect.forkChild(
        upTo(18).pipe(
          Stream.tap(() => Effect.sleep("5 millis")),
          Stream.runCollect
        )
      )
      for (const text of ["one", "two", "three"]) yield* Session.ask("a", text)
      const late = yield* Stream.runCollect(upTo(18))
      t.assertInOrder(late)
      assert.strictEqual((yield* t.stateOf(sessions, "a")).sequence, 18)
      assert.deepStrictEqual(yield* Fiber.join(early), late)
      assert.deepStrictEqual(yield* Fiber.join(slow), late)
      // One that lost its connection at any event
      for (let after = 0; after < 18; after++) {
        const rest = yield* Stream.runCollect(upTo(18 - after, after))
        assert.deepStrictEqual(rest, late.slice(after))
      }
    }).pipe(Effect.provide(t.over(t.echo)))
  )

  /** Small snapshots: a session of many short turns has several generations. */
  const Step = Schema.TaggedUnion({
    Send: {},
    Read: { after: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60 })) },
    Leave: {},
    Reopen: {},
    Pause: {}
  })

  test.prop(
    "any interleaving of readers, writers and restarts sees 1 to n in order",
    { steps: Schema.Array(Step).check(Schema.isMaxLength(14)) },
    function* ({ steps }) {
      const store = yield* t.store
      const layer = Session.layer([t.support]).pipe(Layer.provide(store), Layer.provide(ScriptedModel.layer(t.echo)))
      const readers: Array<{ readonly after: number; readonly seen: Array<Session.Entry> }> = []
      const opening = (body: (sessions: Session.Service) => Effect.Effect<void, Session.SessionError>) =>
        Effect.scoped(Effect.flatMap(t.sessionsOf(layer), body))
      let sent = 0
      let rest: ReadonlyArray<typeof Step.Type> = [{ _tag: "Send" }, ...steps]
      while (rest.length > 0) {
        yield* opening((sessions) =>
          Effect.gen(function* () {
            while (rest.length > 0) {
              const [step, ...others] = rest
              rest = others
              if (step?._tag === "Reopen") break
              if (step?._tag === "Send") yield* sessions.send("a", `${sent++}`)
              if (step?._tag === "Pause") yield* Effect.yieldNow
              if (step?._tag === "Read") {
                const reader = { after: step.after, seen: new Array<Session.Entry>() }
                readers.push(reader)
                const reading = Stream.runForEach(sessions.events("a", reader), (entry) =>
                  Effect.sync(() => void reader.seen.push(entry))
                )
                yield* Effect.forkChild(reading)
              }
            }
            // All messages are answered before it is closed, or after
            if (rest.length === 0) yield* t.turns(sessions, "a", sent)
            yield* Effect.yieldNow
          })
        )
      }
      yield* opening((sessions) =>
        Effect.gen(function* () {
          const all = yield* t.stored(sessions, "a")
          t.assertInOrder(all)
          assert.strictEqual(all.filter(t.endsTurn).length, sent)
          for (const { after, seen } of readers) assert.deepStrictEqual(seen, all.slice(after, after + seen.length))
        })
      )
    },
    { arbitrary: { runs: 40 } }
  )

  it.live("many readers cost the store nothing while they follow a turn", () => {
    let reads = 0
    const counting = changed(({ get }) => ({
      get: (key) => Effect.suspend(() => (key.includes("/journal/") ? (reads++, get(key)) : get(key)))
    }))
    const layer = Session.layer([t.support]).pipe(
      Layer.provide(counting),
      Layer.provide(VersionedStore.layerMemory),
      Layer.provide(ScriptedModel.layer(t.echo))
    )
    return Effect.gen(function* () {
      const sessions = yield* Session.Session
      const readers = yield* Effect.forEach(Array.from({ length: 100 }), () =>
        Effect.forkChild(Stream.runCollect(Stream.take(sessions.events("a"), 10)))
      )
      yield* Session.ask("a", "one")
      yield* Session.ask("a", "two")
      for (const reader of readers) t.assertInOrder(yield* Fiber.join(reader))
      assert.strictEqual(reads, 0)
    }).pipe(Effect.provide(layer))
  })
})

/** Many events with few messages: one that calls a tool often. */
const busy = (calls: number) => {
  const { agent, handlers } = t.withTool("worker")
  const model: ScriptedModel.TurnFunction = (request) =>
    request.messages.at(-1)?.role === "user"
      ? t.call(...Array.from({ length: calls }, (_, n) => n))
      : { text: `re: ${t.asked(request)}`, usage: { inputTokens: 3, outputTokens: 2 } }
  return (options?: Parameters<typeof Session.layer>[1]) =>
    Session.layer([agent], options).pipe(
      Layer.provide(handlers((n) => Effect.succeed(`${n}`))),
      Layer.provide(ScriptedModel.layer(model))
    )
}

describe("DUR-2 snapshots", () => {
  it.live("a long session has several generations, and its old events are read over all of them", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const layer = Layer.provide(busy(200)(), store)
      const before = yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          for (let n = 0; n < 4; n++) {
            yield* sessions.send("a", `${n}`)
            yield* t.turns(sessions, "a", n + 1)
          }
          return { entries: yield* t.stored(sessions, "a"), state: yield* t.stateOf(sessions, "a") }
        })
      )
      t.assertInOrder(before.entries)
      assert.isAbove(before.entries.length, 1600)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          assert.deepStrictEqual(yield* t.stateOf(sessions, "a"), before.state)
          assert.deepStrictEqual(yield* t.stored(sessions, "a"), before.entries)
          for (const after of [0, 1, 255, 256, 257, 700, before.entries.length - 1]) {
            const [next] = yield* sessions.events("a", { after }).pipe(Stream.take(1), Stream.runCollect)
            assert.deepStrictEqual(next, before.entries[after])
          }
          assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 4 * 203)
        })
      )
      const keys = yield* Effect.provide(
        Effect.gen(function* () {
          const { keys } = yield* (yield* VersionedStore.VersionedStore).list({ limit: 10_000 })
          return keys
        }),
        store
      )
      // One snapshot is kept
      assert.strictEqual(keys.filter((key) => key.endsWith("/input")).length, 1)
      const generations = new Set(keys.flatMap((key) => (/journal\/[^/]+\/([^/]+)\//.exec(key) ?? []).slice(1)))
      assert.isAbove(generations.size, 2)
    }).pipe(Effect.scoped)
  )

  it.live("`keepEvents` deletes old events, and their readers get the number of the first one that is kept", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const layer = Layer.provide(busy(200)({ keepEvents: 50 }), store)
      const sessions = yield* t.sessionsOf(layer)
      for (let n = 0; n < 4; n++) {
        yield* sessions.send("a", `${n}`)
        yield* t.turns(sessions, "a", 1, (yield* t.stateOf(sessions, "a")).sequence - 1)
        yield* t.until(sessions, "a", "idle")
      }
      const error = yield* Effect.flip(Stream.runHead(sessions.events("a")))
      assert(error.reason._tag === "EventsPruned", error.message)
      const { first } = error.reason
      const { sequence } = yield* t.stateOf(sessions, "a")
      assert.isAtLeast(sequence - first + 1, 50)
      const kept = yield* sessions
        .events("a", { after: first - 1 })
        .pipe(Stream.take(sequence - first + 1), Stream.runCollect)
      t.assertInOrder(kept, first)
      assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 4 * 203)
    }).pipe(Effect.scoped)
  )

  it.live(
    "a state that is too large for a snapshot stays in its events, and is not written again for each of them",
    () =>
      Effect.gen(function* () {
        const store = yield* t.store
        let refused = 0
        const strict = changed(({ compareAndSet }) => ({
          compareAndSet: (key, expected, value) =>
            Effect.suspend(() => {
              if (!key.endsWith("/input") || JSON.stringify(value).length < 20_000) {
                return compareAndSet(key, expected, value)
              }
              refused++
              return compareAndSet(key, expected, "too large".repeat(10_000_000))
            })
        }))
        const layer = Layer.provide(busy(200)(), Layer.provide(strict, store))
        const answered = yield* Effect.scoped(
          Effect.gen(function* () {
            const sessions = yield* t.sessionsOf(layer)
            for (let n = 0; n < 3; n++) {
              yield* sessions.send("a", `${n}`)
              yield* t.turns(sessions, "a", n + 1)
            }
            return yield* t.stored(sessions, "a")
          })
        )
        assert.isAbove(refused, 0)
        assert.isBelow(refused, 8)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const sessions = yield* t.sessionsOf(layer)
            assert.deepStrictEqual(yield* t.stored(sessions, "a"), answered)
          })
        )
      }).pipe(Effect.scoped)
  )
})

describe("DUR-1 memory", () => {
  it.live(
    "sessions leave the memory after `idleTime`, and come back",
    () =>
      Effect.gen(function* () {
        let opened = 0
        const counting = changed(({ get }) => ({
          get: (key) => Effect.suspend(() => (key.endsWith("/input") ? (opened++, get(key)) : get(key)))
        }))
        const count = 300
        const layer = Session.layer([t.support], { idleTime: "50 millis" }).pipe(
          Layer.provide(counting),
          Layer.provide(VersionedStore.layerMemory),
          Layer.provide(ScriptedModel.layer(t.echo))
        )
        yield* Effect.gen(function* () {
          const sessions = yield* Session.Session
          const ids = Array.from({ length: count }, (_, n) => `s${n}`)
          yield* Effect.forEach(ids, (id) => Session.ask(id, "hi"), { concurrency: 64, discard: true })
          yield* Effect.sleep("200 millis")
          const before = opened
          yield* Effect.forEach(ids.slice(0, 100), (id) => t.stateOf(sessions, id), { discard: true })
          assert.isAtLeast(opened - before, 100)
        }).pipe(Effect.provide(layer))
      }),
    60_000
  )
})
