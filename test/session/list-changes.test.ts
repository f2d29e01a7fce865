/** RIGHT-15: sessions are listed newest first, by an index that costs one write a turn, and the changes of the list are a stream. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Option, Queue, Stream } from "effect"
import { TestClock } from "effect/testing"
import { TestRunner } from "effect/cluster"
import { VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import * as eventLog from "#src/session/internal/eventLog.ts"
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { test } from "../test.ts"
import { changed } from "../store/changed.ts"
import { makeDirectory } from "../store/directory.ts"
import * as layers from "../store/layers.ts"
import * as t from "./sessions.ts"

const ids = (page: Session.Page) => page.sessions.map(({ id }) => id)

const ask = (sessions: Session.Service, id: string, text = "hi") =>
  Effect.provideService(Session.turn(id, text), Session.Session, sessions)

/** All pages of a list. */
const pagesOf = Effect.fnUntraced(function* (sessions: Session.Service, options: Session.ListOptions) {
  const pages: Array<ReadonlyArray<string>> = []
  let after: string | undefined
  do {
    const page = yield* sessions.list({ ...options, after })
    pages.push(ids(page))
    after = Option.getOrUndefined(page.next)
  } while (after !== undefined)
  return pages
})

const over = (store: Layer.Layer<VersionedStore.VersionedStore>, namespace = "session", script = t.echo) =>
  t.sessionsOf(Session.layer([t.support], { namespace }).pipe(Layer.provide([store, ScriptedModel.layer(script)])))

/** The rows of the index, and the operations that write them. */
const counting = (writes: Array<string>) =>
  changed(({ commit: _, compareAndSet, delete: remove }) => ({
    commit: undefined,
    compareAndSet: (key, ...args) => {
      if (key.includes("/recent")) writes.push("set")
      return compareAndSet(key, ...args)
    },
    delete: (key, options) => {
      if (key.includes("/recent")) writes.push("delete")
      return remove(key, options)
    }
  }))

const rowsOf = Effect.fnUntraced(function* (store: Layer.Layer<VersionedStore.VersionedStore>) {
  const { list } = yield* Effect.provide(VersionedStore.VersionedStore, store)
  return (yield* list({ prefix: "session/recent/", limit: 1000 })).keys.map((key) => key.split("/").slice(3).join("/"))
})

describe("RIGHT-15 Session.list by newest first", () => {
  test("pages keep their place while sessions change", t.over(t.echo), function* () {
    const sessions = yield* Session.Session
    for (const id of ["a", "b", "c", "d", "e"]) {
      yield* Session.turn(id, "hi")
      yield* TestClock.adjust("1 second")
    }
    assert.deepStrictEqual(yield* pagesOf(sessions, { limit: 2 }), [["e", "d"], ["c", "b"], ["a"]])
    const first = yield* sessions.list({ limit: 2 })
    // a shown session moves, another session that was not shown moves, one is new, one is removed
    yield* Session.turn("e", "again")
    yield* sessions.update("b", { title: "B" })
    yield* Session.turn("f", "hi")
    yield* sessions.remove("d")
    const second = yield* sessions.list({ limit: 2, after: Option.getOrThrow(first.next) })
    assert.deepStrictEqual([ids(second), second.next], [["c", "a"], Option.none()])
    assert.deepStrictEqual((yield* pagesOf(sessions, { limit: 3 })).flat(), ["f", "b", "e", "c", "a"])
    const refused = yield* Effect.flip(sessions.list({ after: "c" }))
    assert.strictEqual(refused.reason._tag, "ArgumentInvalid")
  })

  test("a turn writes one row, and what changes nothing writes none", function* () {
    const writes: Array<string> = []
    const store = yield* t.store
    const { agent, handlers } = t.withTool("worker")
    const script: ScriptedModel.TurnFunction = (request) =>
      request.messages.at(-1)?.role === "user" ? t.call(1, 2) : { text: "done" }
    const sessions = yield* t.sessionsOf(
      Session.layer([agent]).pipe(
        Layer.provide([
          counting(writes).pipe(Layer.provide(store)),
          handlers(() => Effect.succeed("x")),
          ScriptedModel.layer(script)
        ])
      )
    )
    yield* ask(sessions, "a")
    assert.deepStrictEqual(writes.splice(0), ["set"])
    // the row before is deleted behind the end of the turn
    const settled = Effect.repeat(Effect.yieldNow, { times: 50 })
    yield* ask(sessions, "a")
    yield* settled
    assert.deepStrictEqual(writes.splice(0), ["set", "delete"])
    // messages that wait behind a turn move it once
    yield* Effect.forEach(["one", "two", "three"], (text) => sessions.send("a", text))
    yield* ask(sessions, "a", "four")
    yield* settled
    assert.isAtMost(writes.splice(0).length, 8)
    yield* sessions.update("a", {})
    const receipt = yield* sessions.resume("a")
    yield* Effect.provideService(Session.await("a", receipt), Session.Session, sessions)
    yield* settled
    assert.deepStrictEqual(writes.splice(0), ["set", "delete"])
    yield* sessions.state("a")
    yield* sessions.update("a", {})
    yield* sessions.list()
    // the note that the index is complete, once for a store
    assert.deepStrictEqual(writes.splice(0), ["set"])
    yield* sessions.list()
    assert.deepStrictEqual(writes, [])
    assert.deepStrictEqual(yield* rowsOf(store), ["a"])
  })

  test("lists the sessions of a store without an index, and those that move later", function* () {
    const store = yield* t.store
    const before = yield* over(store)
    for (const id of ["a", "b", "c"]) {
      yield* ask(before, id)
      yield* TestClock.adjust("1 second")
    }
    const raw = yield* Effect.provide(VersionedStore.VersionedStore, store)
    // as a store was before: no rows, and no times of rows in the heads
    for (const key of (yield* raw.list({ prefix: "session/recent" })).keys) yield* raw.delete(key)
    for (const id of ["a", "b", "c"]) {
      const { value, version } = Option.getOrThrow(yield* raw.get(`session/head/${id}`))
      const { listed, ...head } = value as Record<string, never>
      assert.isNumber(listed)
      yield* raw.compareAndSet(`session/head/${id}`, Option.some(version), head)
    }
    const damaged = { nothing: "known" }
    yield* raw.compareAndSet("session/head/x", Option.none(), damaged)
    const after = yield* over(store)
    const page = yield* after.list()
    assert.deepStrictEqual([ids(page), page.unreadable], [["c", "b", "a"], ["x"]])
    yield* ask(after, "a")
    assert.deepStrictEqual(ids(yield* after.list()), ["a", "c", "b"])
    assert.deepStrictEqual((yield* rowsOf(store)).sort(), ["a", "b", "c", "x"])
  })

  test("a row that no head names is skipped, and deleted after an hour", t.over(t.echo), function* () {
    const sessions = yield* Session.Session
    const raw = yield* VersionedStore.VersionedStore
    const store = Layer.succeed(VersionedStore.VersionedStore, raw)
    yield* Session.turn("a", "hi")
    yield* Session.turn("b", "hi")
    const key = (yield* raw.list({ prefix: "session/recent/" })).keys.find((key) => key.endsWith("/a")) ?? ""
    yield* TestClock.adjust("1 minute")
    yield* Session.turn("a", "hi")
    yield* Session.turn("b", "hi")
    // a process died before it deleted the row of before
    yield* raw.compareAndSet(key, Option.none(), {})
    yield* sessions.remove("b")
    assert.deepStrictEqual(ids(yield* sessions.list()), ["a"])
    assert.deepStrictEqual((yield* rowsOf(store)).sort(), ["a", "a", "b"])
    // the process that removed a session deletes its row
    yield* TestClock.adjust("3 minutes")
    assert.deepStrictEqual((yield* rowsOf(store)).sort(), ["a", "a"])
    yield* raw.compareAndSet(key.replace(/a$/, "b"), Option.none(), {})
    yield* TestClock.adjust("2 hours")
    assert.deepStrictEqual(ids(yield* sessions.list()), ["a"])
    assert.deepStrictEqual(yield* rowsOf(store), ["a"])
  })

  test("a prefix of few among many sessions has the same pages", function* () {
    const store = yield* t.store
    const log = eventLog.make(yield* Effect.provide(VersionedStore.VersionedStore, store), "session", 0)
    const create = (id: string, millis: number) =>
      log.create(id, "support", { owner: "o", updated: DateTime.makeUnsafe(millis) })
    for (let n = 0; n < 5; n++) yield* create(`ada/${n}`, n)
    yield* Effect.forEach(Array.from({ length: 1001 }), (_, n) => create(`bob/${n}`, 1000 + n))
    const sessions = yield* over(store)
    const few = [["ada/4", "ada/3"], ["ada/2", "ada/1"], ["ada/0"]]
    assert.deepStrictEqual(yield* pagesOf(sessions, { prefix: "ada/", limit: 2 }), few)
    assert.deepStrictEqual(ids(yield* sessions.list({ prefix: "bob/", limit: 1 })), ["bob/1000"])
    yield* TestClock.adjust("1 minute")
    yield* sessions.update("ada/1", { title: "One" })
    assert.deepStrictEqual(ids(yield* sessions.list({ prefix: "ada/", limit: 2 })), ["ada/1", "ada/4"])
  })
})

/** The changes of a list, one after the other. */
const reading = Effect.fnUntraced(function* (sessions: Session.Service, options?: Session.ListChangesOptions) {
  const queue = yield* Queue.unbounded<Session.ListChange>()
  yield* Effect.forkScoped(Stream.runForEach(sessions.listChanges(options), (change) => Queue.offer(queue, change)))
  const take = Effect.timeout(Queue.take(queue), "30 seconds")
  return {
    queue,
    take,
    /** The next change that fits. */
    until: (is: (change: Session.ListChange) => boolean) => Effect.repeat(take, { until: is })
  }
})

const isOf = (id: string, status?: Session.State["status"], title?: string) => (change: Session.ListChange) =>
  change._tag === "Changed" &&
  change.session.id === id &&
  (status === undefined || change.session.status === status) &&
  (title === undefined || change.session.title === title)

const isRemoved = (id: string) => (change: Session.ListChange) => change._tag === "Removed" && change.id === id

/** A front end sees what one service does through another one. */
const follows = Effect.fnUntraced(function* (reader: Session.Service, writer: Session.Service, prefix: string) {
  yield* ask(writer, `${prefix}a`)
  const { take, until } = yield* reading(reader, { prefix })
  const first = yield* take
  assert(first._tag === "Page")
  assert.deepStrictEqual(ids(first.page), [`${prefix}a`])
  // new
  yield* ask(writer, `${prefix}b`)
  yield* until(isOf(`${prefix}b`, "idle"))
  // another user's
  yield* ask(writer, `other/${prefix}`)
  // changed
  yield* ask(writer, `${prefix}a`, "again")
  yield* until(isOf(`${prefix}a`, "idle"))
  yield* writer.update(`${prefix}a`, { title: "A" })
  yield* until(isOf(`${prefix}a`, "idle", "A"))
  // removed
  yield* writer.remove(`${prefix}b`)
  yield* until(isRemoved(`${prefix}b`))
  assert.deepStrictEqual(ids(yield* reader.list({ prefix })), [`${prefix}a`])
})

describe("RIGHT-15 the changes of the list", () => {
  const slow = (request: ScriptedModel.Request): ScriptedModel.Turn => ({ text: t.asked(request), delay: "20 seconds" })

  t.passing("in one process come at once, and only those of the list", () =>
    Effect.gen(function* () {
      const sessions = yield* over(yield* t.store, "session", slow)
      const { queue, take, until } = yield* reading(sessions, { prefix: "ada/", status: "running" })
      assert.strictEqual((yield* take)._tag, "Page")
      yield* sessions.send("bob/1", "hi")
      yield* sessions.send("ada/1", "hi", { title: "One" })
      yield* Effect.sleep("50 millis")
      const change = yield* take
      assert(change._tag === "Changed")
      assert.deepStrictEqual([change.session.id, change.session.title], ["ada/1", "One"])
      // at its end it is no longer in this list
      yield* until(isRemoved("ada/1"))
      yield* sessions.remove("ada/1")
      yield* sessions.remove("bob/1")
      yield* Effect.sleep("3 seconds")
      assert.strictEqual(yield* Queue.size(queue), 0)
    }).pipe(Effect.scoped)
  )

  t.passing("of another process come within seconds, the end of a turn too", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const writer = yield* over(store, "session", slow)
      const { take, until } = yield* reading(yield* over(store))
      assert.strictEqual((yield* take)._tag, "Page")
      yield* writer.send("a", "hi")
      yield* Effect.sleep("1500 millis")
      yield* until(isOf("a", "running"))
      yield* until(isOf("a", "idle"))
      yield* writer.remove("a")
      yield* until(isRemoved("a"))
    }).pipe(Effect.scoped)
  )

  t.passing("begin again with a page where the store has failed for a while", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      let isAway = false
      const error = VersionedStore.unavailable({ operation: "get", storage: "test", error: "Away", cause: undefined })
      const flaky = changed(({ get, list }) => ({
        get: (key) => (isAway ? Effect.fail(error) : get(key)),
        list: (options) => (isAway ? Effect.fail(error) : list(options))
      })).pipe(Layer.provide(store))
      const writer = yield* over(store)
      yield* ask(writer, "a")
      const { take } = yield* reading(yield* over(flaky, "session", slow))
      yield* take
      isAway = true
      yield* ask(writer, "a", "two")
      yield* ask(writer, "b")
      yield* Effect.sleep("5 seconds")
      isAway = false
      const seen = yield* Effect.repeat(take, {
        until: (change) => isOf("b")(change) || (change._tag === "Page" && ids(change.page).includes("b"))
      })
      assert.isDefined(seen)
    }).pipe(Effect.scoped)
  )

  const directory = makeDirectory()
  for (const { layer, name } of layers.all(directory)) {
    it.live(`${name}: a reader follows its own process, and another one on the store`, () =>
      Effect.gen(function* () {
        const namespace = randomUUID()
        const store = Layer.orDie(layer)
        const isMemory = name === "memory"
        const shared = yield* Layer.build(store)
        const one = isMemory ? Layer.succeedContext(shared) : Layer.fresh(store)
        const two = isMemory ? one : Layer.fresh(store)
        const first = yield* over(one, namespace)
        const second = yield* over(two, namespace)
        yield* follows(first, first, "ada/")
        yield* follows(first, second, "bob/")
      }).pipe(Effect.scoped)
    )
  }

  it.live("on a fleet, through a client", () =>
    Effect.gen(function* () {
      const fleet = ClusterSession.layer([t.support], { timeout: "2 seconds" }).pipe(
        Layer.provide([
          TestRunner.layer,
          VersionedStore.layerMemory,
          Layer.orDie(SqliteClient.layer({ filename: join(directory, "cluster.sqlite") })),
          ScriptedModel.layer(t.echo)
        ])
      )
      const sessions = yield* t.sessionsOf(fleet)
      yield* follows(sessions, sessions, "ada/")
      yield* Effect.sleep("2 seconds")
      const { queue, take } = yield* reading(sessions, { prefix: "ada/" })
      assert.strictEqual((yield* take)._tag, "Page")
      // it is asked for again where it is silent, and emits nothing where nothing has changed
      yield* Effect.sleep("5 seconds")
      assert.deepStrictEqual(yield* Queue.clear(queue), [])
    }).pipe(Effect.scoped)
  )
})
