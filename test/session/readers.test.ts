/** DUR-1: readers of a session see each event once and in order, with any writers and at any time. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Logger, Option, Schema, Stream } from "effect"
import { Conversation, Limits, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { changed } from "../store/changed.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

describe("DUR-1 readers", () => {
  it.live("a reader before the first message, slow ones and late ones see the same events", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const upTo = (count: number, after?: string) => Stream.take(sessions.events("a", { after }), count)
      const early = yield* Effect.forkChild(Stream.runCollect(upTo(18)))
      const slow = yield* Effect.forkChild(
        upTo(18).pipe(
          Stream.tap(() => Effect.sleep("5 millis")),
          Stream.runCollect
        )
      )
      for (const text of ["one", "two", "three"]) yield* Session.turn("a", text)
      const late = yield* Stream.runCollect(upTo(18))
      t.assertInOrder(late)
      assert.strictEqual((yield* t.stateOf(sessions, "a")).sequence, 18)
      assert.deepStrictEqual(yield* Fiber.join(early), late)
      assert.deepStrictEqual(yield* Fiber.join(slow), late)
      // A reader that lost its connection at any event
      for (let after = 0; after < 18; after++) {
        const rest = yield* Stream.runCollect(upTo(18 - after, late[after - 1]?.cursor))
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
      let cursor = ""
      let rest: ReadonlyArray<typeof Step.Type> = [{ _tag: "Send" }, ...steps]
      while (rest.length > 0) {
        yield* opening((sessions) =>
          Effect.gen(function* () {
            while (rest.length > 0) {
              const [step, ...others] = rest
              rest = others
              if (step?._tag === "Reopen") break
              if (step?._tag === "Send") ({ cursor } = yield* sessions.send("a", `${sent++}`))
              if (step?._tag === "Pause") yield* Effect.yieldNow
              if (step?._tag === "Read") {
                const reader = { after: step.after, seen: new Array<Session.Entry>() }
                readers.push(reader)
                const after = t.cursorAt(cursor, step.after)
                const reading = Stream.runForEach(sessions.events("a", { after }), (entry) =>
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
      yield* Session.turn("a", "one")
      yield* Session.turn("a", "two")
      for (const reader of readers) t.assertInOrder(yield* Fiber.join(reader))
      assert.strictEqual(reads, 0)
    }).pipe(Effect.provide(layer))
  })
})

describe("MEND-7 readers over a removal and another session under the id", () => {
  const answerAll = (sessions: Session.Service, count: number) =>
    Effect.provideService(
      Effect.forEach(
        Array.from({ length: count }, (_, n) => `${n}`),
        (text) => Session.turn("a", text)
      ),
      Session.Session,
      sessions
    )

  it.live("a cursor of the first one is unknown, also where its number is an event of the second", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* answerAll(sessions, 2)
      const { cursor, sequence } = yield* t.stateOf(sessions, "a")
      assert.strictEqual(sequence, 12)
      yield* sessions.remove("a")
      assert.strictEqual(yield* t.reasonOf(Stream.runHead(sessions.events("a", { after: cursor }))), "NotFound")
      yield* answerAll(sessions, 3)
      const error = yield* Effect.flip(Stream.runHead(sessions.events("a", { after: cursor })))
      assert(error.reason._tag === "EventsUnknown")
      assert.strictEqual(error.reason.after, cursor)
      assert.include(error.message, `which has 18, got "${cursor}". The session was removed and begun again`)
      const [, second] = yield* t.stored(sessions, "a")
      const third = yield* Stream.runHead(sessions.events("a", { after: second?.cursor }))
      assert.strictEqual(Option.getOrThrow(third).sequence, 3)
    }).pipe(Effect.provide(t.over(t.echo)))
  )

  it.live("a text that is no cursor is refused", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const { cursor } = yield* sessions.send("a", "one")
      const wrong = [
        "",
        "1",
        "0",
        ".",
        ".1",
        "abc.",
        "abc.0",
        "abc.-1",
        "abc.1e3",
        "a b.1",
        `${cursor}.1`,
        `${cursor}0000000000000000`
      ]
      for (const after of [...wrong, `x${cursor}`, `${cursor.slice(1)}`]) {
        assert.strictEqual(yield* t.reasonOf(Stream.runHead(sessions.events("a", { after }))), "EventsUnknown", after)
      }
    }).pipe(Effect.provide(t.over(t.echo)))
  )

  for (const place of ["the same process", "another process"]) {
    t.passing(`a stream that is open in ${place} ends with an error`, () =>
      Effect.gen(function* () {
        const store = yield* t.store
        const layer = Session.layer([t.support]).pipe(Layer.provide(store), Layer.provide(ScriptedModel.layer(t.echo)))
        const sessions = yield* t.sessionsOf(layer)
        const other = place === "another process" ? yield* t.sessionsOf(layer) : sessions
        yield* answerAll(sessions, 2)
        const { cursor } = yield* t.stateOf(other, "a")
        const seen: Array<number> = []
        const reading = Stream.runForEach(other.events("a", { after: cursor }), (entry) =>
          Effect.sync(() => void seen.push(entry.sequence))
        )
        const reader = yield* Effect.forkChild(t.reasonOf(reading))
        yield* Effect.sleep("5 millis")
        // Within the time after which a process looks for what another one wrote
        yield* sessions.remove("a")
        yield* answerAll(sessions, 3)
        assert.include(["NotFound", "EventsUnknown"], yield* Fiber.join(reader))
        assert.deepStrictEqual(seen, [])
      }).pipe(Effect.scoped)
    )
  }

  t.passing("a stream that waits for its store continues in its own session only", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      let isDown = false
      let refused = 0
      const failing = changed(({ get }) => ({
        get: (key) =>
          Effect.suspend(() => {
            if (!isDown) return get(key)
            refused++
            const error = { operation: "get", key, storage: "test", error: "Down", cause: undefined } as const
            return Effect.fail(VersionedStore.unavailable(error))
          })
      }))
      const over = (below: Layer.Layer<VersionedStore.VersionedStore>) =>
        // A reader that waits opens the session again
        t.sessionsOf(
          Layer.provide(Session.layer([t.support], { idleTime: "1 millis" }), [below, ScriptedModel.layer(t.echo)])
        )
      const sessions = yield* over(store)
      const other = yield* over(Layer.provide(failing, store))
      yield* answerAll(sessions, 2)
      const before = (yield* t.stored(sessions, "a")).at(-2)
      const seen: Array<number> = []
      const reading = Stream.runForEach(other.events("a", { after: before?.cursor }), (entry) =>
        Effect.sync(() => void seen.push(entry.sequence))
      )
      const reader = yield* Effect.forkChild(t.reasonOf(reading))
      yield* t.eventually(Effect.sync(() => seen.length === 1))
      isDown = true
      yield* t.eventually(Effect.sync(() => refused > 1))
      yield* sessions.remove("a")
      yield* answerAll(sessions, 3)
      isDown = false
      assert.strictEqual(yield* Fiber.join(reader), "EventsUnknown")
      assert.deepStrictEqual(seen, [12])
    }).pipe(Effect.scoped)
  )

  it.live("a reader of a long session reads all pages of one session", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const sessions = yield* t.sessionsOf(Layer.provide(busy(200)(), store))
      yield* answerAll(sessions, 1)
      const last = yield* t.stateOf(sessions, "a")
      const reached = yield* Deferred.make<void>()
      const isReplaced = yield* Deferred.make<void>()
      const lives = new Set<string | undefined>()
      const reading = Stream.runForEach(sessions.events("a"), ({ cursor, sequence }) => {
        lives.add(cursor.split(".")[0])
        const waited = Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(isReplaced))
        return sequence === 1 ? waited : Effect.void
      })
      const reader = yield* Effect.forkChild(t.reasonOf(reading))
      yield* Deferred.await(reached)
      yield* sessions.remove("a")
      yield* answerAll(sessions, 1)
      assert.strictEqual((yield* t.stateOf(sessions, "a")).sequence, last.sequence)
      yield* Deferred.succeed(isReplaced, undefined)
      assert.strictEqual(yield* Fiber.join(reader), "EventsUnknown")
      assert.deepStrictEqual([...lives], [last.cursor.split(".")[0]])
    }).pipe(Effect.scoped)
  )

  it.live("`Session.turn` does not wait for the answer of a session that was removed", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const removing = Effect.andThen(sessions.remove("a"), answerAll(sessions, 1))
      const replaced: Session.Service = {
        ...sessions,
        events: (id, options) => Stream.unwrap(Effect.as(removing, sessions.events(id, options)))
      }
      const asked = Effect.provideService(Session.turn("a", "one"), Session.Session, replaced)
      assert.strictEqual(yield* t.reasonOf(asked), "EventsUnknown")
    }).pipe(Effect.provide(t.over(t.echo)))
  )
})

/** Many events with few messages: the answer to a message calls a tool often. */
const busy = (calls: number) => {
  const { agent, handlers } = t.withTool("worker")
  const model: ScriptedModel.TurnFunction = (request) =>
    request.messages.at(-1)?.role === "user"
      ? t.call(...Array.from({ length: calls }, (_, n) => n))
      : { text: `re: ${t.asked(request)}`, usage: { inputTokens: 3, outputTokens: 2 } }
  return (options?: Session.LayerOptions) =>
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
            const next = yield* Stream.runHead(sessions.events("a", { after: before.entries[after - 1]?.cursor }))
            assert.deepStrictEqual(Option.getOrUndefined(next), before.entries[after])
          }
          // One name for the whole life of the session
          assert.strictEqual(new Set(before.entries.map(({ cursor }) => cursor.split(".")[0])).size, 1)
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
      // The beginning and the newest snapshot are kept
      assert.strictEqual(keys.filter((key) => key.endsWith("/input")).length, 2)
      const generations = new Set(keys.flatMap((key) => (/journal\/[^/]+\/([^/]+)\//.exec(key) ?? []).slice(1)))
      assert.isAbove(generations.size, 2)
    }).pipe(Effect.scoped)
  )

  it.live("`keepEvents` deletes old events, and their readers get the place from which they are kept", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const layer = Layer.provide(busy(200)({ keepEvents: 50 }), store)
      const sessions = yield* t.sessionsOf(layer)
      for (let n = 0; n < 4; n++) {
        const { cursor } = yield* sessions.send("a", `${n}`)
        yield* t.turns(sessions, "a", 1, cursor)
        yield* t.until(sessions, "a", "idle")
      }
      const error = yield* Effect.flip(Stream.runHead(sessions.events("a")))
      assert(error.reason._tag === "EventsPruned", error.message)
      const { first } = error.reason
      const { sequence } = yield* t.stateOf(sessions, "a")
      assert.isAtLeast(sequence - first + 1, 50)
      const kept = yield* sessions
        .events("a", { after: error.reason.after })
        .pipe(Stream.take(sequence - first + 1), Stream.runCollect)
      t.assertInOrder(kept, first)
      assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 4 * 203)
    }).pipe(Effect.scoped)
  )

  it.live("MEND-4 a state beyond the limits has a snapshot, so old events are deleted", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const model = ScriptedModel.layer((request) => ({ text: `re: ${t.asked(request)} ${"x".repeat(500)}` }))
      const layer = Session.layer([t.support], { keepEvents: 20 }).pipe(Layer.provide([store, model]))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          for (let n = 0; n < 150; n++) {
            yield* Effect.provideService(Session.turn("a", `${n}`), Session.Session, sessions)
          }
        })
      )
      const sessions = yield* t.sessionsOf(layer)
      assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 301)
      const error = yield* sessions.events("a").pipe(Stream.runHead, Effect.flip)
      assert.strictEqual(error.reason._tag, "EventsPruned")
    }).pipe(Effect.scoped, Effect.provide(Limits.layer({ maxBytes: 40_000, maxMessages: 100 })))
  )

  it.live(
    "MEND-4 a state that cannot be written stays in its events, is not written again for each of them, and is logged",
    () =>
      Effect.gen(function* () {
        const store = yield* t.store
        const logged: Array<string> = []
        const logger = Logger.layer([
          Logger.make(({ logLevel, message }) => logged.push(`${logLevel} ${String(message)}`))
        ])
        let refused = 0
        const strict = changed(({ compareAndSet }) => ({
          compareAndSet: (key, expected, value) =>
            Effect.suspend(() => {
              if (!key.endsWith("/input") || JSON.stringify(value).length < 20_000) {
                return compareAndSet(key, expected, value)
              }
              refused++
              return Effect.provideService(compareAndSet(key, expected, value), Limits.Limits, {
                ...Limits.defaults,
                maxBytes: 100
              })
            })
        }))
        const layer = Layer.provide(busy(200)(), [Layer.provide(strict, store), logger])
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
        assert.isTrue(
          logged.some((line) => line.startsWith("Warn session a: no snapshot was made")),
          logged.join()
        )
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
          yield* Effect.forEach(ids, (id) => Session.turn(id, "hi"), { concurrency: 64, discard: true })
          yield* Effect.sleep("200 millis")
          const before = opened
          yield* Effect.forEach(ids.slice(0, 100), (id) => t.stateOf(sessions, id), { discard: true })
          assert.isAtLeast(opened - before, 100)
        }).pipe(Effect.provide(layer))
      }),
    60_000
  )
})
