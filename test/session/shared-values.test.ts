/** RIGHT-15: definitions and values of steps are removed with the last session that uses them, listed and pruned. */
import { assert, describe } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Redacted, Result, Schedule, Schema, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Agent, ModelRegistry, ToolResolver, VersionedStore, Run } from "effect-emissary"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { Digest, type Json } from "effect-emissary/payload"
import { PlanRun, Step } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { randomUUID } from "node:crypto"
import * as storedDefinitions from "#src/session/internal/storedDefinitions.ts"
import * as sharedUses from "#src/session/internal/sharedUses.ts"
import * as storeService from "#src/store/internal/storeService.ts"
import { planOf } from "../plan/support.ts"
import { random } from "../random.ts"
import { changed } from "../store/changed.ts"
import { test } from "../test.ts"
import { mortal } from "./mortal.ts"
import * as t from "./sessions.ts"

const registry = ModelRegistry.layer({
  demo: ModelRegistry.provider({
    options: ModelRegistry.Sampling,
    model: () => ScriptedModel.layer(({ messages }) => ({ text: messages[0]?.text ?? "" }))
  })
})

const services = Layer.merge(registry, ToolResolver.layerStubs())

const encode = (instructions: string) =>
  Agent.encode(Agent.make("poet", { model: "demo/small", instructions })).pipe(
    Effect.flatMap((definition) => Effect.map(Digest.sha256(definition), (digest) => ({ definition, digest })))
  )

const plan = planOf(
  [
    Step.make("facts", { target: ({ task }) => Effect.succeed(`facts about ${task}`), writes: "facts" }),
    Step.make("ask", {
      target: ({ decision }) => (decision === undefined ? Step.pause("ok?") : Effect.succeed("done"))
    })
  ],
  { name: "report" }
)

/** Sessions over a store, of agents that are data and of a plan. */
const over = (store: Layer.Layer<VersionedStore.VersionedStore>, options?: Session.LayerOptions) =>
  Session.layer([plan], { ...options, definitions: Agent.decode }).pipe(
    Layer.provide(services),
    Layer.provideMerge(store),
    Layer.orDie
  )

const url = process.env["EMISSARY_TEST_POSTGRES"]

const postgres = (address: string) => {
  const table = `shared_${randomUUID().replaceAll("-", "")}`
  const client = PgClient.layer({ url: Redacted.make(address) })
  const dropped = Layer.effectDiscard(
    Effect.flatMap(SqlClient.SqlClient, (sql) =>
      Effect.addFinalizer(() => Effect.orDie(sql`DROP TABLE IF EXISTS ${sql(table)}`))
    )
  )
  return VersionedStore.layerSql({ table }).pipe(Layer.provideMerge(dropped), Layer.provide(client), Layer.orDie)
}

/** Writes are single in the first one, and commits in the others. */
const stores: ReadonlyArray<readonly [string, Layer.Layer<VersionedStore.VersionedStore>]> = [
  ["memory", VersionedStore.layerMemory],
  ["SQLite", Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))],
  ...(url === undefined ? [] : [["PostgreSQL", postgres(url)] as const])
]

const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })

const hosts: ReadonlyArray<readonly [string, Layer.Layer<Session.Session | VersionedStore.VersionedStore, unknown>]> = [
  ...stores.map(([name, store]) => [name, over(store)] as const),
  [
    "a fleet",
    ClusterSession.layer([plan], { definitions: Agent.decode }).pipe(
      Layer.provideMerge(runner),
      Layer.provide(services)
    )
  ]
]

/** The shared values, with the sessions that use each. */
const shared = Effect.gen(function* () {
  const sessions = yield* Session.Session
  const found: Record<string, ReadonlyArray<string>> = {}
  let after: string | undefined
  do {
    const page: Session.SharedPage = yield* sessions.shared({ after, limit: 2 })
    for (const { key, sessions } of page.values) found[key] = sessions.toSorted()
    after = Option.getOrUndefined(page.next)
  } while (after !== undefined)
  return found
})

/** The keys of a store that are about what sessions share. */
const left = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const { keys } = yield* store.list({ prefix: "session/", limit: 10_000 })
  return keys.filter((key) => /^session\/(definitions|writes|uses)\/|^session\/journal\/.*\/uses\//.test(key))
})

const text = (id: string, definition?: Json.JsonObject | string) =>
  Effect.map(Session.turn(id, "go", { definition, agent: "poet" }), ({ text }) => text)

const report = (id: string) => Effect.flatMap(plan, (plan) => Session.run(plan, { id, input: "whales" }))

const decide = Effect.fnUntraced(function* (id: string) {
  const sessions = yield* Session.Session
  const { requests } = yield* t.stateOf(sessions, id)
  yield* sessions.decide(id, requests.filter(Run.isApprovable).map(Run.approve))
  yield* Session.result(yield* plan, id)
})

for (const [name, layer] of hosts) {
  describe(`RIGHT-15 what sessions share (${name})`, () => {
    test.live("is removed with the last session that uses it, a fork and another session", layer, function* () {
      const sessions = yield* Session.Session
      const [one, two] = [yield* encode("One."), yield* encode("Two.")]
      assert.strictEqual(yield* text("a", one.definition), "One.")
      assert.strictEqual(yield* text("b", one.digest), "One.")
      const early = (yield* t.stateOf(sessions, "a")).cursor
      yield* text("a", two.definition)
      assert.deepStrictEqual(yield* shared, { [one.digest]: ["a", "b"], [two.digest]: ["a"] })

      yield* sessions.remove("b")
      // The earlier definition of a session stays, and a fork from an earlier place has it
      assert.deepStrictEqual(yield* shared, { [one.digest]: ["a"], [two.digest]: ["a"] })
      yield* sessions.fork("a", { to: "c", at: early })
      yield* sessions.remove("a")
      assert.deepStrictEqual(yield* shared, { [one.digest]: ["c"] })
      assert.strictEqual(yield* text("c"), "One.")
      yield* sessions.remove("c")
      assert.deepStrictEqual(yield* left, [])
      assert.strictEqual(yield* t.reasonOf(Session.turn("d", "go", { definition: one.digest })), "DefinitionInvalid")
    })

    test.live("is left by a session that is begun again, unless it uses that, too", layer, function* () {
      const sessions = yield* Session.Session
      const [one, two] = [yield* encode("One."), yield* encode("Two.")]
      const again = (definition: Json.JsonObject) =>
        Session.turn("a", `${JSON.stringify(definition)}`, { definition, ifExists: "restart" })
      yield* text("a", one.definition)
      yield* text("a", two.definition)
      yield* again(two.definition)
      assert.deepStrictEqual(yield* shared, { [two.digest]: ["a"] })
      yield* again(one.definition)
      assert.deepStrictEqual(yield* shared, { [one.digest]: ["a"] })
      yield* sessions.remove("a")
      assert.deepStrictEqual(yield* left, [])
    })

    test.live("has the values of steps, of the session whose write counts and of its forks", layer, function* () {
      const sessions = yield* Session.Session
      const value = Effect.map(sessions.read("facts"), Option.getOrUndefined)
      yield* report("a")
      yield* sessions.fork("a", { to: "b" })
      yield* sessions.fork("b", { to: "c" })
      assert.deepStrictEqual(yield* shared, { facts: ["a", "b", "c"] })
      yield* sessions.remove("a")
      assert.deepStrictEqual([(yield* value)?.id, (yield* value)?.value], ["a", "facts about whales"])
      yield* sessions.resume("b")
      yield* t.until(sessions, "b", "waiting")
      yield* decide("b")
      yield* sessions.remove("c")
      assert.deepStrictEqual(yield* shared, { facts: ["b"] })
      // A newer value takes its place
      yield* report("d")
      assert.deepStrictEqual(yield* shared, { facts: ["d"] })
      yield* sessions.remove("b")
      assert.strictEqual((yield* value)?.id, "d")
      yield* sessions.remove("d")
      assert.strictEqual(yield* value, undefined)
      assert.deepStrictEqual(yield* left, [])
      assert.deepStrictEqual(yield* Session.pruneAll(), [])
    })

    test.live("is listed by kind and page; a wrong option is a typed error", layer, function* () {
      const sessions = yield* Session.Session
      const [one] = [yield* encode("One.")]
      yield* text("a", one.definition)
      yield* report("b")
      const all = yield* sessions.shared()
      assert.deepStrictEqual(all.values, [{ kind: "definition", key: one.digest, sessions: ["a"] }])
      const { next, values } = yield* sessions.shared({ after: Option.getOrThrow(all.next) })
      assert.deepStrictEqual(values, [{ kind: "step-value", key: "facts", sessions: ["b"] }])
      assert.isTrue(Option.isNone(next))
      const definitions = yield* sessions.shared({ kind: "definition" })
      assert.deepStrictEqual([definitions.values.length, definitions.next], [1, Option.none()])
      assert.lengthOf((yield* sessions.shared({ kind: "step-value" })).values, 1)
      assert.lengthOf((yield* sessions.shared({ after: "zzz" })).values, 0)
      for (const operation of ["shared", "prune"] as const) {
        // Sound: a program without types sends it
        const call = (options: Session.SharedOptions): Effect.Effect<unknown, Session.SessionError> =>
          sessions[operation](options)
        assert.strictEqual(yield* t.reasonOf(call({ kind: "other" as never })), "ArgumentInvalid")
        assert.strictEqual(yield* t.reasonOf(call({ limit: 0 })), "ArgumentInvalid")
      }
    })

    test.live("stays where it was stored before its uses were counted", layer, function* () {
      const sessions = yield* Session.Session
      const store = yield* VersionedStore.VersionedStore
      const { definition, digest } = yield* encode("One.")
      yield* text("a", definition)
      const key = `session/definitions/${digest}`
      const { value, version } = Option.getOrThrow(yield* store.get(key))
      const { use: _, ...before } = yield* Schema.decodeUnknownEffect(Schema.Record(Schema.String, Schema.Json))(value)
      yield* store.compareAndSet(key, Option.some(version), before)
      yield* text("b", digest)
      yield* sessions.remove("a")
      yield* sessions.remove("b")
      assert.deepStrictEqual(yield* Session.pruneAll(), [])
      assert.deepStrictEqual(yield* shared, { [digest]: [] })
    })
  })
}

/** A process over a store, which is closed on its own. */
const processOf = Effect.fnUntraced(function* (
  store: Layer.Layer<VersionedStore.VersionedStore>,
  options?: Session.LayerOptions
) {
  const scope = yield* Scope.make()
  const layer = Layer.fresh(over(store, { leaseTime: "50 millis", drainTime: 0, ...options }))
  const context = yield* Layer.buildWithScope(layer, scope)
  const within = <A, E>(effect: Effect.Effect<A, E, Session.Session | VersionedStore.VersionedStore>) =>
    Effect.provideContext(effect, context)
  return { run: within, scope, stop: Scope.close(scope, Exit.void) }
})

const built = (store: Layer.Layer<VersionedStore.VersionedStore>) =>
  Effect.map(Layer.build(Layer.fresh(store)), (context) => Layer.succeedContext(context))

const idsOf = Effect.gen(function* () {
  const sessions = yield* Session.Session
  return (yield* sessions.list({ limit: 200 })).sessions.map(({ id }) => id)
})

/** All that sessions need is there: the definitions that their events name, and the values of their steps unless there was a newer one. */
const assertKept = Effect.fnUntraced(function* (place: string, newest = 0) {
  const sessions = yield* Session.Session
  const store = yield* VersionedStore.VersionedStore
  for (const id of yield* idsOf) {
    yield* t.eventually(Effect.map(t.stateOf(sessions, id), ({ status }) => status !== "running"))
    const { agent, definition, outcome } = yield* t.stateOf(sessions, id)
    const named = new Set(definition === undefined ? [] : [definition])
    for (const { event } of yield* t.stored(sessions, id)) {
      if (event._tag === "MessageReceived" && event.definition !== undefined) named.add(event.definition)
    }
    for (const digest of named) {
      assert.isTrue(Option.isSome(yield* store.get(`session/definitions/${digest}`)), `${place}: ${id} has its agent`)
    }
    if (agent !== "report") continue
    const progress = yield* Session.progress(yield* plan, id)
    const written = Option.match(progress, {
      onNone: () => -1,
      onSome: (state) => PlanRun.history(state)[0]?.finishedAt.epochMilliseconds ?? -1
    })
    if (written < newest) continue
    assert.isTrue(Option.isSome(yield* sessions.read("facts")), `${place}: ${id} has its value ${outcome}`)
  }
})

/** Nothing is there without a session that uses it; without sessions nothing at all. */
const assertPruned = Effect.fnUntraced(function* (place: string, newest = 0) {
  const sessions = yield* Session.Session
  yield* Session.pruneAll()
  yield* assertKept(place, newest)
  const ids = yield* idsOf
  for (const [key, users] of Object.entries(yield* shared)) {
    assert.isAbove(users.filter((id) => ids.includes(id)).length, 0, `${place}: ${key} has a session`)
  }
  for (const id of ids) yield* sessions.remove(id)
  // The use of a session that was never begun may be behind the use of a session that is there
  yield* Session.pruneAll()
  // A session that was never begun leaves the rows of its use
  const rows = (yield* left).filter((key) => !key.includes("/uses/"))
  assert.deepStrictEqual(rows, [], place)
})

const story = Effect.gen(function* () {
  const sessions = yield* Session.Session
  const [one, two] = [yield* encode("One."), yield* encode("Two.")]
  yield* text("a", one.definition)
  const { cursor } = yield* t.stateOf(sessions, "a")
  yield* text("b", one.digest)
  yield* text("a", two.definition)
  yield* report("p")
  yield* sessions.fork("a", { to: "c", at: cursor })
  yield* sessions.fork("p", { to: "q" })
  yield* Session.turn("b", "again", { definition: two.definition, ifExists: "restart" })
  for (const id of ["a", "p", "c"]) yield* sessions.remove(id)
})

describe("RIGHT-15 L11 a process that dies after any write", () => {
  for (const [name, layer] of stores.slice(0, 2)) {
    t.passing(`${name}: loses nothing that a session uses, and prune finds what it leaves`, () =>
      Effect.gen(function* () {
        const tell = Effect.fnUntraced(function* (at: number) {
          const store = yield* built(layer)
          const dying = mortal(store, at)
          const first = yield* processOf(dying.layer)
          yield* dying.arm
          const told = yield* Effect.forkIn(Effect.exit(first.run(story)), first.scope)
          yield* Effect.raceFirst(t.eventually(Effect.sync(dying.isDead)), Fiber.await(told))
          // It never ends where the store is gone
          yield* Effect.forkIn(first.stop, yield* Scope.make())
          return { store, writes: dying.writes, told }
        })
        const whole = yield* tell(Number.POSITIVE_INFINITY)
        assert.isTrue(Exit.isSuccess(yield* Fiber.join(whole.told)))
        const { length } = whole.writes
        assert.isAbove(length, 30)
        for (let at = 1; at <= length; at++) {
          const place = `after write ${at}, ${whole.writes[at - 1]}`
          const { store } = yield* tell(at)
          const second = yield* processOf(store)
          yield* second.run(assertKept(place))
          yield* second.stop
          yield* TestClock.adjust("2 hours")
          const third = yield* processOf(store)
          yield* third.run(assertPruned(place))
          yield* third.stop
        }
      }).pipe(Effect.scoped)
    )
  }
})

/** A store each of whose operations waits for a random number of turns. */
const shuffled = ({ below }: ReturnType<typeof random>) => {
  const later = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.suspend(() => {
      let waiting: Effect.Effect<void> = Effect.void
      for (let turn = below(4); turn > 0; turn--) waiting = Effect.andThen(waiting, Effect.yieldNow)
      return Effect.andThen(waiting, effect)
    })
  return changed((store) => ({
    commit: undefined,
    get: (key) => later(store.get(key)),
    list: (options) => later(store.list(options)),
    delete: (key, options) => later(store.delete(key, options)),
    compareAndSet: (key, expected, value) => later(store.compareAndSet(key, expected, value))
  }))
}

describe("RIGHT-15 many processes at once", () => {
  test("never remove a definition that a session uses, and always one that none does", function* () {
    const definition = { name: "poet" }
    const digest = yield* Effect.orDie(Digest.sha256(definition))
    for (let seed = 1; seed <= 400; seed++) {
      yield* Effect.gen(function* () {
        const { below, chance } = random(seed)
        const store = yield* VersionedStore.VersionedStore
        const uses = sharedUses.make(store, "session")
        const definitions = storedDefinitions.make(store, "session", uses, { agents: new Map(), decode: undefined })
        const there = () => Effect.map(store.get(`session/definitions/${digest}`), Option.isSome)
        const staying: Array<string> = []
        const each = (id: number) =>
          Effect.gen(function* () {
            const user = { id: `${id}`, life: "x" }
            for (let turn = below(20); turn > 0; turn--) yield* Effect.yieldNow
            yield* definitions.keep(user, { definition, digest })
            assert.isTrue(yield* there(), `seed ${seed}: ${id} begins with its definition`)
            if (chance(0.2)) staying.push(user.id)
            else yield* definitions.leave(user, digest)
          })
        yield* Effect.all([...Array.from({ length: 2 + below(4) }, (_, id) => each(id)), definitions.collect(digest)], {
          concurrency: "unbounded"
        })
        assert.strictEqual(yield* there(), staying.length > 0, `seed ${seed}`)
      }).pipe(Effect.provide(Layer.provide(shuffled(random(seed + 1)), VersionedStore.layerMemory)))
    }
  })

  t.passing("keep what sessions use, whatever is sent, forked, begun again and removed, and prune the rest", () =>
    Effect.gen(function* () {
      for (let seed = 1; seed <= 12; seed++) {
        const { below, chance, pick, times } = random(seed)
        const store = yield* built(VersionedStore.layerMemory)
        let newest = 0
        const run: Session.TurnOptions = {
          onEvent: ({ event }) =>
            Effect.sync(() => {
              if (event._tag !== "PlanEvent" || event.event._tag !== "StepFinished") return
              const { finishedAt, step } = event.event.record
              if (step === "facts") newest = Math.max(newest, finishedAt.epochMilliseconds)
            })
        }
        const slow = Layer.provide(shuffled(random(seed)), store)
        const processes = [yield* processOf(store, { run }), yield* processOf(slow, { run })]
        const agents = [yield* encode("One."), yield* encode("Two."), yield* encode("Three.")]
        const ids = ["a", "b", "c", "d"]
        const act = Effect.suspend(() => {
          const [id, other, { definition, digest }] = [pick(ids), pick(ids), pick(agents)]
          const given = chance(0.5) ? definition : digest
          const what = below(7)
          const action = Effect.gen(function* () {
            const sessions = yield* Session.Session
            if (what === 0) return yield* sessions.remove(id)
            if (what === 1) return yield* sessions.fork(other, { to: id })
            if (what === 2) return yield* report(id)
            if (what === 4) return yield* Session.pruneAll()
            return yield* sessions.send(id, "go", {
              definition: given,
              ...(what === 3 && { ifExists: "restart" as const })
            })
          })
          return Effect.result(pick(processes).run(action))
        })
        const outcomes: Array<boolean> = []
        for (let round = 0; round < 12; round++) {
          const results = yield* Effect.all(
            times(1 + below(3), () => act),
            { concurrency: "unbounded" }
          )
          for (const result of results) {
            outcomes.push(Result.isSuccess(result))
            if (Result.isSuccess(result)) continue
            const { reason } = result.failure
            // Another agent, a session that is there, a digest that is not
            const expected = ["AgentDiffers", "DefinitionInvalid", "Exists", "NotFound", "InputDiffers", "Elsewhere"]
            assert.include(expected, reason._tag, `seed ${seed}: ${result.failure.message}`)
          }
          yield* pick(processes).run(assertKept(`seed ${seed}, round ${round}`, newest))
        }
        assert.include(outcomes, true)
        for (const { stop } of processes) yield* stop
        yield* TestClock.adjust("2 hours")
        const last = yield* processOf(store)
        yield* last.run(assertPruned(`seed ${seed}`, newest))
        yield* last.stop
      }
    }).pipe(Effect.scoped)
  )
})

/** A store that fails one call, before or after its work. */
const failingOnce = (at: number, isDone: boolean) => {
  let calls = 0
  const through = <A, E>(
    operation: VersionedStore.VersionedStoreError["operation"],
    effect: Effect.Effect<A, E>
  ): Effect.Effect<A, E | VersionedStore.VersionedStoreError> =>
    Effect.suspend((): Effect.Effect<A, E | VersionedStore.VersionedStoreError> => {
      calls += 1
      if (calls !== at) return effect
      const down = Effect.fail(
        storeService.unavailable({ operation, storage: "test", error: "Down", cause: undefined })
      )
      return isDone ? Effect.andThen(effect, down) : down
    })
  const layer = changed(({ commit, compareAndSet, delete: remove, get, list }) => ({
    commit: commit && ((writes) => through("compareAndSet", commit(writes))),
    get: (key) => through("get", get(key)),
    list: (options) => through("list", list(options)),
    delete: (key, options) => through("delete", remove(key, options)),
    compareAndSet: (key, ...write) => through("compareAndSet", compareAndSet(key, ...write))
  }))
  return { layer, calls: () => calls }
}

const persistently = <A, R>(effect: Effect.Effect<A, Session.SessionError, R>) =>
  Effect.retry(effect, {
    while: ({ reason }) => reason._tag === "StoreFailed" || reason._tag === "Elsewhere",
    schedule: Schedule.spaced("10 millis")
  })

describe("RIGHT-15 a store that fails once", () => {
  for (const [name, layer] of stores.slice(0, 2)) {
    t.passing(`${name}: loses nothing that a session uses, at whatever call it fails`, () =>
      Effect.gen(function* () {
        const { definition, digest } = yield* encode("One.")
        const play = Effect.fnUntraced(function* (at: number, isDone: boolean) {
          const place = `${isDone ? "after" : "before"} call ${at}`
          const store = yield* built(layer)
          const faulty = failingOnce(at, isDone)
          const first = yield* processOf(Layer.provide(faulty.layer, store))
          const send = (id: string, given: Json.JsonObject | string) =>
            Effect.flatMap(Session.Session, (sessions) =>
              persistently(sessions.send(id, "go", { definition: given, messageId: "m" }))
            )
          const fork = Effect.flatMap(Session.Session, (sessions) => persistently(sessions.fork("a", { to: "c" })))
          yield* first.run(send("a", definition))
          yield* first.run(send("b", digest))
          yield* first.run(fork)
          const remove = Effect.flatMap(Session.Session, (sessions) => persistently(sessions.remove("a")))
          yield* first.run(remove)
          const calls = faulty.calls()
          yield* first.stop
          const second = yield* processOf(store)
          yield* second.run(assertKept(place))
          assert.sameMembers([...(yield* second.run(idsOf))], ["b", "c"], place)
          yield* second.stop
          yield* TestClock.adjust("2 hours")
          const third = yield* processOf(store)
          yield* third.run(assertPruned(place))
          yield* third.stop
          return calls
        })
        const calls = yield* play(0, false)
        assert.isAbove(calls, 20)
        for (let at = 1; at <= calls; at++) for (const isDone of [false, true]) yield* play(at, isDone)
      }).pipe(Effect.scoped)
    )
  }
})

/** Hours pass soon where a process looks for turns rarely. */
const idle = { leaseTime: "10 minutes" } as const

describe("RIGHT-15 prune", () => {
  test("leaves what a session uses that is about to begin, for an hour", function* () {
    const store = yield* built(VersionedStore.layerMemory)
    const isReached = yield* Deferred.make<void>()
    const canBegin = yield* Deferred.make<void>()
    const held = changed(({ compareAndSet }) => ({
      compareAndSet: (key, ...write) =>
        key.startsWith("session/head/")
          ? Effect.andThen(
              Effect.andThen(Deferred.succeed(isReached, undefined), Deferred.await(canBegin)),
              compareAndSet(key, ...write)
            )
          : compareAndSet(key, ...write)
    }))
    const first = yield* processOf(Layer.provide(held, store), idle)
    const second = yield* processOf(store, idle)
    const { definition, digest } = yield* encode("One.")
    const asked = yield* Effect.forkChild(first.run(text("a", definition)))
    yield* Deferred.await(isReached)
    assert.deepStrictEqual(yield* second.run(Session.pruneAll()), [])
    yield* TestClock.adjust("59 minutes")
    assert.deepStrictEqual(yield* second.run(Session.pruneAll()), [])
    assert.deepStrictEqual(yield* second.run(shared), { [digest]: ["a"] })
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* second.run(Session.pruneAll({ kind: "step-value" })), [])
    assert.deepStrictEqual(yield* second.run(Session.pruneAll()), [{ kind: "definition", key: digest }])
    yield* Fiber.interrupt(asked)
    yield* Deferred.succeed(canBegin, undefined)
  })

  test("finds what a session used that was begun again", function* () {
    const store = yield* built(VersionedStore.layerMemory)
    const failing = changed((store) => ({
      delete: (key, options) =>
        key.startsWith("session/uses/")
          ? Effect.fail(
              storeService.unavailable({ operation: "delete", storage: "test", error: "Down", cause: undefined })
            )
          : store.delete(key, options)
    }))
    const [one, two] = [yield* encode("One."), yield* encode("Two.")]
    const { run } = yield* processOf(Layer.provide(failing, store), idle)
    yield* run(text("a", one.definition))
    yield* run(Session.turn("a", "again", { definition: two.definition, ifExists: "restart" }))
    assert.deepStrictEqual(yield* run(shared), { [one.digest]: ["a"], [two.digest]: ["a"] })
    yield* TestClock.adjust("2 hours")
    const second = yield* processOf(store, idle)
    assert.deepStrictEqual(yield* second.run(Session.pruneAll()), [{ kind: "definition", key: one.digest }])
    assert.deepStrictEqual(yield* second.run(shared), { [two.digest]: ["a"] })
  })

  test("takes definitions of many sessions, and leaves a value that cannot be read", function* () {
    const store = yield* built(VersionedStore.layerMemory)
    const { definition, digest } = yield* encode("One.")
    const { run } = yield* processOf(store, idle)
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const rows = yield* VersionedStore.VersionedStore
      const uses = sharedUses.make(rows, "session")
      // Before all others
      yield* text("!", definition)
      const ids = Array.from({ length: 250 }, (_, index) => `${index}`)
      yield* Effect.forEach(ids, (id) => uses.add({ id, life: "x" }, digest), { concurrency: 8 })
      yield* rows.compareAndSet("session/writes/foreign", Option.none(), "foreign")
      const [found] = (yield* sessions.shared()).values
      assert(found?.hasMore === true && found.sessions.length === 100)
      const { values } = yield* sessions.shared({ kind: "step-value" })
      assert.deepStrictEqual(values, [{ kind: "step-value", key: "foreign", sessions: [], isUnreadable: true }])
      yield* TestClock.adjust("2 hours")
      assert.deepStrictEqual(yield* Session.pruneAll(), [])
      yield* sessions.remove("!")
      assert.deepStrictEqual(yield* Session.pruneAll(), [{ kind: "definition", key: digest }])
      assert.deepStrictEqual(
        (yield* left).filter((key) => !key.startsWith("session/writes/")),
        []
      )
    }).pipe(run)
  })
})
