/** KEEP-8: the list of sessions, with titles and metadata. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Layer, Option } from "effect"
import { TestClock } from "effect/testing"
import { VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteRunner } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import { changed } from "../store/changed.ts"
import * as t from "./sessions.ts"

const ids = (page: Session.Page) => page.sessions.map(({ id }) => id)

describe("KEEP-8 Session.list", () => {
  test("costs one range of keys and one value for each session, however long these are", function* () {
    const store = yield* t.store
    const reads: Array<string> = []
    const counted = changed((right) => ({
      get: (key) =>
        Effect.andThen(
          Effect.sync(() => void reads.push(key)),
          right.get(key)
        ),
      list: (options) =>
        Effect.andThen(
          Effect.sync(() => void reads.push("list")),
          right.list(options)
        )
    })).pipe(Layer.provide(store))
    const over = (layer: typeof store) =>
      t.sessionsOf(Session.layer([t.support]).pipe(Layer.provide([layer, ScriptedModel.layer(t.echo)])))
    const first = yield* over(store)
    for (const id of ["a", "b"]) {
      for (let turn = 0; turn < 5; turn++) {
        yield* Effect.provideService(Session.turn(id, `${turn}`), Session.Session, first)
      }
    }
    const second = yield* over(counted)
    // a process looks once whether the index is complete
    yield* second.list()
    reads.length = 0
    const page = yield* second.list()
    assert.deepStrictEqual(
      page.sessions.map(({ id, messages, status }) => ({ id, messages, status })),
      ["b", "a"].map((id) => ({ id, messages: 11, status: "idle" }))
    )
    assert.deepStrictEqual(reads, ["list", "session/head/b", "session/head/a"])
  })

  test("filters by the time of the newest event", t.over(t.echo), function* () {
    const sessions = yield* Session.Session
    const noon = yield* DateTime.now
    yield* Session.turn("a", "one")
    yield* TestClock.adjust("1 hour")
    yield* Session.turn("b", "one")
    yield* TestClock.adjust("1 hour")
    yield* sessions.update("a", { title: "A" })
    const since = (hours: number) => ({ updatedAfter: DateTime.add(noon, { minutes: hours * 60 - 30 }) })
    assert.deepStrictEqual(ids(yield* sessions.list(since(0))), ["a", "b"])
    assert.deepStrictEqual(ids(yield* sessions.list(since(2))), ["a"])
    assert.deepStrictEqual(ids(yield* sessions.list({ updatedBefore: DateTime.add(noon, { hours: 2 }) })), ["b"])
    const [a] = (yield* sessions.list()).sessions
    assert.deepStrictEqual(a?.created, noon)
  })

  test("filters by status, agent and metadata, and leaves out what was removed meanwhile", function* () {
    const store = yield* t.store
    const gone = { id: "" }
    const layer = Layer.provide(
      changed((store) => ({
        get: (key) => (key === `session/head/${gone.id}` ? Effect.succeedNone : store.get(key))
      })),
      store
    )
    const sessions = yield* t.sessionsOf(
      Session.layer([t.support]).pipe(Layer.provide([layer, ScriptedModel.layer(t.echo)]))
    )
    for (const id of ["a", "b"]) yield* Effect.provideService(Session.turn(id, "one"), Session.Session, sessions)
    yield* sessions.update("b", { metadata: { team: "x", n: 1 } })
    assert.deepStrictEqual(ids(yield* sessions.list({ status: "idle" })), ["b", "a"])
    assert.deepStrictEqual(ids(yield* sessions.list({ status: "running" })), [])
    assert.deepStrictEqual(ids(yield* sessions.list({ agent: "other" })), [])
    assert.deepStrictEqual(ids(yield* sessions.list({ metadata: { team: "x" } })), ["b"])
    gone.id = "a"
    assert.deepStrictEqual(ids(yield* sessions.list()), ["b"])
  })

  test("an update of the title, of the metadata, or of nothing changes that alone", t.over(t.echo), function* () {
    const sessions = yield* Session.Session
    yield* Session.turn("a", "one", { title: "One" })
    const { sequence } = yield* t.stateOf(sessions, "a")
    yield* sessions.update("a", {})
    assert.strictEqual((yield* t.stateOf(sessions, "a")).sequence, sequence)
    yield* sessions.update("a", { metadata: { n: 1 } })
    yield* sessions.update("a", { title: "Two" })
    const { metadata, sequence: now, title } = yield* t.stateOf(sessions, "a")
    assert.deepStrictEqual([title, metadata, now], ["Two", { n: 1 }, sequence + 2])
  })

  test("names the sessions that cannot be read, and lists the others", t.over(t.echo), function* () {
    const sessions = yield* Session.Session
    yield* Session.turn("a", "one")
    yield* Session.turn("b", "one")
    const store = yield* VersionedStore.VersionedStore
    const found = Option.getOrThrow(yield* store.get("session/head/a"))
    yield* store.compareAndSet("session/head/a", Option.some(found.version), { nothing: "known" })
    const page = yield* sessions.list()
    assert.deepStrictEqual([ids(page), page.unreadable], [["b"], ["a"]])
  })

  test.live("a fleet lists its sessions, and keeps titles and metadata", function* () {
    const fleet = ClusterSession.layer([t.support]).pipe(
      Layer.provide(SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })),
      Layer.provide(ScriptedModel.layer(t.echo))
    )
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* Session.turn("chat/ada/1", "one", { title: "First", metadata: { user: "ada" } })
      yield* Session.turn("chat/bob/1", "one")
      yield* sessions.update("chat/bob/1", { title: "Second" })
      const page = yield* sessions.list({ prefix: "chat/" })
      assert.deepStrictEqual(
        page.sessions.map(({ metadata, title }) => ({ metadata, title })),
        [
          { metadata: {}, title: "Second" },
          { metadata: { user: "ada" }, title: "First" }
        ]
      )
      assert.deepStrictEqual(ids(yield* sessions.list({ metadata: { user: "ada" } })), ["chat/ada/1"])
    }).pipe(Effect.provide(fleet))
  })
})
