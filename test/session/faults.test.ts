/** DUR-3: sessions over a store that fails, processes that die, and owners that come back. */
import * as storeService from "#src/store/internal/storeService.ts"
import { assert, describe } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { Conversation, Run, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { changed } from "../store/changed.ts"
import * as agents from "./reporting.ts"
import * as t from "./sessions.ts"

/** A store whose operations go through a function. */
const around = (
  through: <A, E>(
    operation: VersionedStore.VersionedStoreError["operation"],
    effect: Effect.Effect<A, E>
  ) => Effect.Effect<A, E | VersionedStore.VersionedStoreError>
) =>
  changed(({ commit, compareAndSet, delete: remove, get, list }) => ({
    commit: commit && ((writes) => through("compareAndSet", commit(writes))),
    get: (...args) => through("get", get(...args)),
    list: (...args) => through("list", list(...args)),
    delete: (...args) => through("delete", remove(...args)),
    compareAndSet: (...args) => through("compareAndSet", compareAndSet(...args))
  }))

/** Writes are single in the one, and commits in the other. */
const stores = [
  ["memory", VersionedStore.layerMemory],
  ["SQLite", Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))]
] as const

const modes = ["before it did its work", "after it did its work", "with a defect"] as const

/** A store whose calls fail in part. */
const flaky = (mode: (typeof modes)[number], fails: (call: number) => boolean) => {
  let calls = 0
  const layer = around((operation, effect) =>
    Effect.suspend(() => {
      calls += 1
      if (!fails(calls)) return effect
      if (mode === "with a defect") return Effect.die(new Error("a bug"))
      const down = Effect.fail(
        storeService.unavailable({ operation, storage: "test", error: "Down", cause: undefined })
      )
      return mode === "before it did its work" ? down : Effect.andThen(effect, down)
    })
  )
  return { layer, calls: () => calls }
}

const { agent: worker, handlers } = t.withTool("worker")

/** Calls the tool twice for the first message, and answers then. */
const model: ScriptedModel.TurnFunction = (request) =>
  request.messages.at(-1)?.role === "user" && t.asked(request) === "one"
    ? t.call(1, 2)
    : { text: `re: ${t.asked(request)}` }

/** Tries again until the store is back, as a client does. */
const persistently = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.catchCause((cause) => Effect.andThen(Effect.sleep("10 millis"), Effect.fail(cause))),
    Effect.retry({ while: (cause) => !Cause.hasInterruptsOnly(cause) }),
    Effect.orDie
  )

/** Two messages over a store that fails sometimes. */
const play = Effect.fnUntraced(function* (
  [name, store]: (typeof stores)[number],
  mode: (typeof modes)[number],
  fails: (call: number) => boolean,
  where: string
) {
  const place = `${name}, ${where}`
  const faulty = flaky(mode, fails)
  const ran: Array<number> = []
  const layer = Session.layer([worker], { leaseTime: "300 millis" }).pipe(
    Layer.provide(faulty.layer),
    Layer.provideMerge(store),
    Layer.provide(handlers((n) => Effect.sync(() => (ran.push(n), `${n}`)))),
    Layer.provide(ScriptedModel.layer(model))
  )
  yield* Effect.gen(function* () {
    const sessions = yield* Session.Session
    const seen: Array<Session.Entry> = []
    const read = Effect.suspend(() =>
      Stream.runForEach(sessions.events("a", { after: seen.at(-1)?.cursor }), (entry) =>
        Effect.sync(() => void seen.push(entry))
      )
    )
    yield* Effect.forkChild(persistently(read))
    yield* persistently(sessions.send("a", "one", { messageId: "m1" }))
    yield* persistently(sessions.send("a", "two", { messageId: "m2" }))
    yield* t.eventually(Effect.sync(() => seen.filter(t.endsTurn).length === 2))
    assert.strictEqual(new Set(ran).size, ran.length, `${place}: a call ran twice: ${ran.join(" ")}`)
    t.assertInOrder(seen)
    assert.deepStrictEqual(
      seen.filter(t.endsTurn).map((entry) => t.tagOf(entry)),
      ["RunFinished", "RunFinished"],
      place
    )
    const history = yield* persistently(sessions.history("a"))
    const texts = Conversation.messages(history).filter(({ role }) => role === "user")
    assert.strictEqual(texts.length, 2, place)
    const results = Conversation.messages(history).filter(({ role }) => role === "tool")
    assert.strictEqual(results.length, 2, place)
    if (mode !== "with a defect") assert.strictEqual(ran.length, 2, place)
    const store = yield* VersionedStore.VersionedStore
    yield* t.eventually(Effect.map(store.list({ prefix: "session/busy/" }), ({ keys }) => keys.length === 0))
  }).pipe(
    Effect.provide(layer),
    Effect.timeout("4 minutes"),
    Effect.catchTag("TimeoutError", () => Effect.die(place))
  )
  return faulty.calls()
})

describe("DUR-3 a store that fails", () => {
  for (const mode of modes) {
    for (const store of stores) {
      t.passing(
        `${store[0]}: once, at any call, ${mode}: nothing is lost or done twice, and the session continues`,
        () =>
          Effect.gen(function* () {
            const calls = yield* play(store, mode, () => false, "whole")
            assert.isAbove(calls, 12)
            const places = Array.from({ length: calls }, (_, n) => n + 1)
            yield* Effect.forEach(places, (at) => play(store, mode, (call) => call === at, `call ${at}`), {
              concurrency: 8
            })
          })
      )

      t.passing(`${store[0]}: again and again, ${mode}`, () =>
        Effect.forEach(
          // Another period than the seven operations of a beginning that is tried again: always the same one would fail
          mode === "with a defect" ? [29, 41] : [9, 11, 16],
          (every) => play(store, mode, (call) => call % every === 0, `every ${every}`),
          { concurrency: 3 }
        )
      )
    }
  }
})

/**
 * One process of several that share a store. `stop` cuts it off from the store, as SIGSTOP and SIGKILL do; `resume` is
 * SIGCONT.
 */
const processOf = Effect.fnUntraced(function* (
  store: Layer.Layer<VersionedStore.VersionedStore>,
  script: ScriptedModel.Script,
  work: (n: number) => Effect.Effect<string> = (n) => Effect.succeed(`${n}`),
  kit: ReturnType<typeof t.withTool> = t.withTool("worker")
) {
  let stopped: Deferred.Deferred<void> | undefined
  const reachable = around((_, effect) =>
    Effect.suspend(() => (stopped === undefined ? effect : Effect.andThen(Deferred.await(stopped), effect)))
  )
  const sessions = yield* t.sessionsOf(
    Session.layer([kit.agent], { leaseTime: "300 millis", drainTime: "50 millis" }).pipe(
      Layer.provide(Layer.provide(reachable, store)),
      Layer.provide(kit.handlers(work)),
      Layer.provide(ScriptedModel.layer(script))
    )
  )
  const ask = (id: string, input: string) => Effect.provideService(Session.turn(id, input), Session.Session, sessions)
  return {
    sessions,
    ask,
    stop: Effect.sync(() => void (stopped = Deferred.makeUnsafe())),
    resume: Effect.suspend(() => {
      const waiting = stopped
      stopped = undefined
      return waiting === undefined ? Effect.void : Deferred.succeed(waiting, undefined)
    })
  }
})

const completed = (sessions: Session.Service, id: string) =>
  t.eventually(Effect.map(t.stateOf(sessions, id), ({ outcome }) => outcome === "Completed"))

describe("DUR-3 processes", () => {
  t.passing("a model call in flight is made again by the next process", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const isAsked = yield* Deferred.make<void>()
      const first = yield* processOf(store, () => Effect.andThen(Deferred.succeed(isAsked, undefined), Effect.never))
      yield* first.sessions.send("a", "one")
      yield* Deferred.await(isAsked)
      yield* first.stop
      const second = yield* processOf(store, t.echo)
      // It is not called: it finds the session by itself
      yield* t.eventually(Effect.map(t.stateOf(second.sessions, "a"), ({ outcome }) => outcome === "Completed"))
      const tags = yield* t.tags(second.sessions, "a")
      assert.isFalse(tags.includes("RunInterrupted"))
      assert.strictEqual(tags.filter((tag) => tag === "ModelAnswered").length, 1)
    }).pipe(Effect.scoped)
  )

  for (const isIdempotent of [false, true]) {
    t.passing(
      `a tool call that had started is ${isIdempotent ? "made again where the tool is idempotent" : "settled with an unknown outcome"}`,
      () =>
        Effect.gen(function* () {
          const store = yield* t.store
          const kit = t.withTool("worker", { isIdempotent })
          const started = yield* Deferred.make<void>()
          let again = 0
          const hang = () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
          const first = yield* processOf(store, model, hang, kit)
          yield* first.sessions.send("a", "one")
          yield* Deferred.await(started)
          yield* first.stop
          const { sessions } = yield* processOf(store, model, () => Effect.sync(() => (again++, "done")), kit)
          yield* completed(sessions, "a")
          const results = Conversation.messages(yield* sessions.history("a")).flatMap((message) =>
            message.role === "tool" ? [message.result] : []
          )
          assert.strictEqual(results.length, 2)
          const unknown = results.filter((result) => JSON.stringify(result).includes('"unknown"'))
          assert.deepStrictEqual([unknown.length, again], isIdempotent ? [0, 2] : [1, 1])
        }).pipe(Effect.scoped)
    )
  }

  for (const [name, storage] of stores) {
    const kept = Effect.map(Layer.build(storage), (context) => Layer.succeedContext(context))
    const claim = "repeats no call that started, and no answer that was written (AGENT-7 L6)"
    t.passing(`${name}: a process that ends at any write ${claim}`, () =>
      Effect.gen(function* () {
        const ran: Array<string> = []
        let asked = 0
        const layer = agents.layerOf({
          called: (name) => Effect.map(Effect.yieldNow, () => void ran.push(name)),
          asked: Effect.sync(() => void (asked += 1))
        })
        /** A process that is cut off at its write `at`: after a single value, and before a commit. */
        const open = (store: Layer.Layer<VersionedStore.VersionedStore>, at = Number.POSITIVE_INFINITY) => {
          let writes = 0
          const mortal = around((operation, effect) =>
            Effect.suspend(() => {
              if (writes >= at) return Effect.never
              if (operation === "compareAndSet") writes += 1
              if (writes < at) return effect
              return name === "memory" ? Effect.andThen(effect, Effect.never) : Effect.never
            })
          )
          const process = Session.layer([agents.desk], { leaseTime: "50 millis", drainTime: 0 }).pipe(
            Layer.provide(Layer.provide(mortal, store)),
            Layer.provide(layer)
          )
          return { process, isDead: () => writes >= at, writes: () => writes }
        }
        /** Approves what the turn waits for, until it has ended. */
        const end = Effect.fnUntraced(function* (sessions: Session.Service) {
          yield* sessions.send("a", "go", { messageId: "m" })
          yield* t.eventually(
            Effect.gen(function* () {
              const { outcome, requests, status } = yield* t.stateOf(sessions, "a")
              const decisions = requests.filter(Run.isApprovable).map(Run.approve)
              if (status === "waiting") yield* sessions.decide("a", decisions)
              return status === "idle" && outcome === "Completed"
            })
          )
          return Conversation.messages(yield* sessions.history("a"))
        })
        const results = (messages: Effect.Success<ReturnType<typeof end>>) =>
          new Map(
            messages.flatMap((message) => (message.role === "tool" ? [[message.callId, message.result] as const] : []))
          )
        const all = [...agents.calls, ...agents.repeatable].toSorted()

        const whole = open(yield* kept)
        const expected = results(yield* Effect.scoped(Effect.flatMap(t.sessionsOf(whole.process), end)))
        assert.deepStrictEqual(ran.toSorted(), all)
        const once = asked
        let lost = 0
        let repeated = 0
        const die = Effect.fnUntraced(function* (at: number) {
          const place = `write ${at}`
          ran.length = 0
          asked = 0
          const store = yield* kept
          const first = open(store, at)
          const scope = yield* Scope.make()
          const sessions = yield* Scope.provide(t.sessionsOf(first.process), scope)
          yield* Effect.forkIn(end(sessions), scope)
          yield* t.eventually(Effect.sync(first.isDead))
          yield* Effect.forkScoped(Scope.close(scope, Exit.void))
          const second = yield* t.sessionsOf(open(store).process)
          for (const [id, result] of results(yield* end(second))) {
            if (result._tag === "Failure" && result.type === "interrupted") {
              assert.notInclude(agents.repeatable, id, place)
              assert.deepStrictEqual(result.value, { outcome: "unknown" }, place)
              lost += 1
            } else assert.deepStrictEqual(result, expected.get(id), place)
          }
          for (const call of ran.filter((call, index) => ran.indexOf(call) !== index)) {
            assert.include(agents.repeatable, call, place)
            repeated += 1
          }
          // At most the answer that was not written
          assert.isAtMost(asked, once + 1, place)
        }, Effect.scoped)
        const places = Array.from({ length: whole.writes() - 1 }, (_, index) => index + 1)
        for (const at of places) yield* die(at)
        assert.isAbove(Math.min(lost, repeated), 0)
      }).pipe(Effect.scoped)
    )
  }

  t.passing("an owner that was stopped for longer than its lease writes nothing more, and starts no tool", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const ran: Array<string> = []
      const answer = yield* Deferred.make<ScriptedModel.Turn>()
      const isAsked = yield* Deferred.make<void>()
      const work = (owner: string) => (n: number) => Effect.sync(() => (ran.push(`${owner}${n}`), `${n}`))
      const slow: ScriptedModel.TurnFunction = (request) =>
        request.messages.at(-1)?.role === "user"
          ? Effect.andThen(Deferred.succeed(isAsked, undefined), Deferred.await(answer))
          : Effect.succeed({ text: "from A" })
      const first = yield* processOf(store, slow, work("A"))
      const seen: Array<Session.Entry> = []
      const see = (entry: Session.Entry) => Effect.sync(() => void seen.push(entry))
      yield* Effect.forkChild(Stream.runForEach(first.sessions.events("a"), see))
      yield* first.sessions.send("a", "one")
      yield* Deferred.await(isAsked)
      yield* first.stop
      const { sessions } = yield* processOf(store, model, work("B"))
      yield* completed(sessions, "a")
      // It continues where it was, with an answer that calls tools
      yield* first.resume
      yield* Deferred.succeed(answer, t.call(1, 2))
      yield* Effect.sleep("300 millis")
      assert.deepStrictEqual(ran, ["B1", "B2"])
      const stored = yield* t.stored(sessions, "a")
      assert.strictEqual(stored.filter((entry) => t.tagOf(entry) === "ModelAnswered").length, 2)
      // Its reader sees the events of the other one, and it can write again
      yield* t.eventually(Effect.sync(() => seen.length === stored.length))
      assert.deepStrictEqual(seen, stored)
      yield* first.ask("a", "two")
      assert.strictEqual((yield* t.stored(sessions, "a")).filter(t.endsTurn).length, 2)
    }).pipe(Effect.scoped)
  )

  t.passing("processes that share a store answer each message once, also the first ones of a session", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const processes = yield* Effect.forEach([1, 2, 3], () => processOf(store, t.echo))
      yield* Effect.forEach(
        Array.from({ length: 8 }, (_, n) => `s${n}`),
        (id) =>
          Effect.gen(function* () {
            const answers = yield* Effect.forEach(processes, ({ ask }, n) => ask(id, `${n}`), {
              concurrency: "unbounded"
            })
            assert.deepStrictEqual(
              answers.map(({ text }) => text),
              ["re: 0", "re: 1", "re: 2"]
            )
            const [one] = processes
            assert(one !== undefined)
            assert.strictEqual(Conversation.messageCount(yield* one.sessions.history(id)), 6)
            t.assertInOrder(yield* t.stored(one.sessions, id))
          }),
        { concurrency: "unbounded" }
      )
    }).pipe(Effect.scoped)
  )

  t.passing("while another process has a session in a turn, it is read, not changed", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const answer = yield* Deferred.make<ScriptedModel.Turn>()
      const first = yield* processOf(store, () => Deferred.await(answer))
      const second = yield* processOf(store, t.echo)
      yield* first.sessions.send("a", "one")
      assert.strictEqual((yield* t.stateOf(second.sessions, "a")).status, "running")
      assert.strictEqual(yield* t.reasonOf(second.sessions.send("a", "two", { whenBusy: "reject" })), "Busy")
      assert.strictEqual(yield* t.reasonOf(second.sessions.interrupt("a")), "Elsewhere")
      // A removal waits for the turn (RIGHT-13)
      const removing = yield* Effect.forkChild(second.sessions.remove("a"))
      yield* Effect.sleep("400 millis")
      assert.isUndefined(removing.pollUnsafe())
      yield* Fiber.interrupt(removing)
      const waiting = yield* Effect.forkChild(second.ask("a", "two"))
      yield* Effect.sleep("400 millis")
      assert.isUndefined(waiting.pollUnsafe())
      yield* Deferred.succeed(answer, { text: "1" })
      assert.strictEqual((yield* Fiber.join(waiting)).text, "re: two")
      // An idle session is no one's
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(first.sessions.send("a", "three"))))
    }).pipe(Effect.scoped)
  )
})

describe("DUR-3 a layer that is closed", () => {
  t.passing("lets a started tool finish, cuts a model call, and the next layer continues without an interruption", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const started = yield* Deferred.make<void>()
      let finished = 0
      const slow = handlers((n) =>
        Deferred.succeed(started, undefined).pipe(
          Effect.andThen(Effect.sleep("100 millis")),
          Effect.andThen(Effect.sync(() => (finished++, `${n}`)))
        )
      )
      const open = (script: ScriptedModel.Script) =>
        t.sessionsOf(
          Session.layer([worker]).pipe(
            Layer.provide(store),
            Layer.provide(slow),
            Layer.provide(ScriptedModel.layer(script))
          )
        )
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* open((request) => (t.asked(request) === "one" ? model(request) : Effect.never))
          yield* sessions.send("tool", "one")
          yield* sessions.send("model", "two")
          yield* Deferred.await(started)
        })
      )
      // The second one had not started
      assert.strictEqual(finished, 1)
      const sessions = yield* open(model)
      for (const id of ["tool", "model"]) {
        yield* t.turns(sessions, id, 1)
        const tags = yield* t.tags(sessions, id)
        assert.isFalse(tags.includes("RunInterrupted"), tags.join(" "))
        assert.strictEqual((yield* t.stateOf(sessions, id)).outcome, "Completed")
      }
      assert.strictEqual(finished, 2)
    }).pipe(Effect.scoped)
  )

  t.passing("ends although a tool or the store does not answer", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      let isDead = false
      const cut = around((_, effect) => Effect.suspend(() => (isDead ? Effect.never : effect)))
      const layer = Session.layer([worker], { drainTime: "50 millis" }).pipe(
        Layer.provide(cut),
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(handlers(() => Effect.andThen(Deferred.succeed(started, undefined), Effect.never))),
        Layer.provide(ScriptedModel.layer(model))
      )
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          yield* sessions.send("a", "one")
          yield* Deferred.await(started)
          isDead = true
          // A caller can leave
          const sending = yield* Effect.forkChild(sessions.send("a", "two"))
          yield* Effect.sleep("20 millis")
          yield* Fiber.interrupt(sending)
        })
      )
    })
  )
})
