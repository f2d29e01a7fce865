/** MEND-7: processes that share sessions, or come after another one: owners, leases, and the end of a process. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Deferred, Duration, Effect, Exit, Fiber, Layer, Logger, Option, Scope, Stream } from "effect"
import { AiError } from "effect/ai"
import { TestClock } from "effect/testing"
import { VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { Limits } from "effect-emissary/payload"
import { ScriptedModel } from "effect-emissary/testing"
import * as leases from "#src/store/internal/leases.ts"
import * as storeService from "#src/store/internal/storeService.ts"
import * as eventLog from "#src/session/internal/eventLog.ts"
import { changed } from "../store/changed.ts"
import * as t from "./sessions.ts"

const { agent: worker, handlers } = t.withTool("worker")

/** Calls the tool once for each message. */
const calling: ScriptedModel.TurnFunction = (request) =>
  request.messages.at(-1)?.role === "user" ? t.call(1) : { text: `re: ${t.asked(request)}` }

const unavailable = storeService.unavailable({
  operation: "compareAndSet",
  storage: "database",
  error: "TimeoutError",
  cause: undefined
})

const logs = Effect.map(VersionedStore.VersionedStore, (store) =>
  eventLog.make(store, "session", Number.POSITIVE_INFINITY)
)

/** Sessions that lose a session while they write to it: another process takes it before `write` is answered. */
const losing = Effect.fnUntraced(function* (id: string, work: Effect.Effect<string>) {
  const store = yield* t.store
  const writing = yield* Deferred.make<void>()
  const answered = yield* Deferred.make<void>()
  let isSlow = false
  const slow = changed(({ compareAndSet }) => ({
    compareAndSet: (...args) =>
      isSlow && args[0].endsWith(`head/${id}`)
        ? Deferred.succeed(writing, undefined).pipe(
            Effect.andThen(Deferred.await(answered)),
            Effect.andThen(compareAndSet(...args))
          )
        : compareAndSet(...args)
  }))
  const scope = yield* Scope.make()
  const sessions = yield* t
    .sessionsOf(
      Session.layer([worker]).pipe(
        Layer.provide(Layer.provide(slow, store)),
        Layer.provide(handlers(() => work)),
        Layer.provide(
          ScriptedModel.layer((request) => (t.asked(request) === "one" ? t.echo(request) : calling(request)))
        )
      )
    )
    .pipe(Scope.provide(scope))
  yield* sessions.send(id, "one")
  yield* t.turns(sessions, id, 1)
  return {
    sessions,
    store,
    scope,
    /** Begins to write to the session, and makes it fail after `meanwhile`. */
    lose: <A, E, R>(meanwhile: Effect.Effect<A, E, R>) =>
      Effect.gen(function* () {
        yield* Effect.provide(steal(id), store)
        isSlow = true
        yield* Effect.forkChild(sessions.send(id, "one"))
        yield* Deferred.await(writing)
        const ended = yield* Effect.forkChild(meanwhile, { startImmediately: true })
        yield* Effect.yieldNow
        yield* Effect.provide(steal(id), store)
        isSlow = false
        yield* Deferred.succeed(answered, undefined)
        return yield* Fiber.await(ended)
      })
  }
})

/** Another process becomes the owner of a session, for 10 seconds of a clock that is ahead. */
const steal = Effect.fnUntraced(function* (id: string, ahead?: Duration.Input) {
  const { log } = yield* logs
  const at = Option.getOrThrow(yield* log.head(id))
  const now = yield* DateTime.now
  const updated = ahead === undefined ? now : DateTime.addDuration(now, ahead)
  const claim = ahead === undefined ? undefined : { updated, lease: DateTime.add(updated, { seconds: 10 }) }
  yield* log.append(at, (head) => ({ ...head, ...claim, owner: "another", epoch: head.epoch + 1 }), [])
})

describe("MEND-7 a session that another process takes", () => {
  it.live("cuts no other one off while the process ends", () =>
    Effect.gen(function* () {
      const began = yield* Deferred.make<void>()
      let finished = 0
      const work = Deferred.succeed(began, undefined).pipe(
        Effect.andThen(Effect.sleep("100 millis")),
        Effect.andThen(Effect.sync(() => `${finished++}`))
      )
      const { lose, scope, sessions, store } = yield* losing("lost", work)
      yield* sessions.send("kept", "two")
      yield* Deferred.await(began)
      const closed = yield* lose(Scope.close(scope, Exit.void))
      assert.isTrue(Exit.isSuccess(closed), String(closed))
      assert.strictEqual(finished, 1)
      const { log } = yield* Effect.provide(logs, store)
      const kept = Option.getOrThrow(yield* log.head("kept"))
      assert.isUndefined(kept.head.lease)
    }).pipe(Effect.scoped)
  )

  for (const name of ["state", "history"] as const) {
    it.live(`is read by those who waited for its ${name}`, () =>
      Effect.gen(function* () {
        const { lose, scope, sessions } = yield* losing("a", Effect.succeed("done"))
        const read = yield* lose(Effect.asVoid<unknown, Session.SessionError, never>(sessions[name]("a")))
        assert.isTrue(Exit.isSuccess(read), String(read))
        yield* Scope.close(scope, Exit.void)
      }).pipe(Effect.scoped)
    )
  }
})

describe("RIGHT-13 a turn in another process", () => {
  it.effect("is waited for by edit and remove, and interrupt reports that it is elsewhere", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const began = yield* Deferred.make<void>()
      const opened = yield* Deferred.make<void>()
      const work = () => Effect.as(Effect.andThen(Deferred.succeed(began, undefined), Deferred.await(opened)), "done")
      const layer = Session.layer([worker]).pipe(Layer.provide([store, handlers(work), ScriptedModel.layer(calling)]))
      const first = yield* t.sessionsOf(layer)
      const second = yield* t.sessionsOf(layer)
      yield* first.send("a", "one", { messageId: "m" })
      yield* Deferred.await(began)
      const refused = yield* Effect.flip(second.interrupt("a"))
      assert.strictEqual(refused.reason._tag, "Elsewhere")
      assert.match(refused.message, /Try again when its turn has ended/)
      const editing = yield* Effect.forkChild(second.edit("a", { messageId: "m", newMessageId: "n", input: "two" }))
      yield* TestClock.adjust("1 second")
      assert.isUndefined(editing.pollUnsafe())
      const removing = yield* Effect.forkChild(second.remove("a"))
      yield* TestClock.adjust("1 second")
      assert.isUndefined(removing.pollUnsafe())
      yield* Fiber.interrupt(editing)
      yield* Deferred.succeed(opened, undefined)
      yield* t.turns(first, "a", 1)
      yield* TestClock.adjust("1 second")
      assert.isTrue(yield* Fiber.join(removing))
      assert.isTrue(Option.isNone(yield* second.state("a")))
    }).pipe(Effect.scoped)
  )
})

describe("RIGHT-16 a turn that a process left, while another one has the session in memory", () => {
  for (const isTaken of [true, false]) {
    it.effect(`is ended by \`interrupt\` there, where its message ${isTaken ? "was" : "was not"} taken`, () =>
      Effect.gen(function* () {
        const store = yield* t.store
        const began = yield* Deferred.make<void>()
        const hang = Effect.andThen(Deferred.succeed(began, undefined), Effect.never)
        const model: ScriptedModel.TurnFunction = (request) => (t.asked(request) === "two" ? hang : t.echo(request))
        const layer = Session.layer([t.support], { leaseTime: "1 hour" }).pipe(
          Layer.provide([store, ScriptedModel.layer(model)])
        )
        const scope = yield* Scope.make()
        const first = yield* Scope.provide(t.sessionsOf(layer), scope)
        const second = yield* t.sessionsOf(layer)
        yield* first.send("a", "one")
        yield* t.turns(first, "a", 1)
        assert.strictEqual((yield* t.stateOf(second, "a")).status, "idle")
        yield* first.send("a", "two", { messageId: "2" })
        if (isTaken) {
          yield* Deferred.await(began)
          yield* TestClock.adjust("1 second")
        }
        yield* Scope.close(scope, Exit.void)
        const { cursor, isInterrupted } = yield* second.interrupt("a")
        const { outcome, queue, sequence, status } = yield* t.stateOf(second, "a")
        assert.deepStrictEqual(
          [isInterrupted, status, outcome, queue, cursor.endsWith(`.${sequence}`)],
          [true, "idle", "Interrupted", [], true]
        )
        assert.strictEqual((yield* t.tags(second, "a")).at(-1), "RunFinished")
      }).pipe(Effect.scoped)
    )
  }
})

describe("RIGHT-13 a process whose lock is missing", () => {
  const rests = Effect.fnUntraced(function* (
    looks: ReadonlyArray<"alive" | "missing" | "gone">,
    pause: Duration.Input
  ) {
    const store = yield* VersionedStore.VersionedStore
    let asked = 0
    const look = () => Effect.sync(() => looks[asked++] ?? "alive")
    const process = "0123456789abcdef"
    const processes = Effect.succeedSome({ own: "another", look })
    const owners = leases.ownersOf({ ...store, processes }, Duration.seconds(10))
    const sessions = yield* logs
    const updated = yield* DateTime.now
    const lease = DateTime.add(updated, { seconds: 60 })
    const claim = { owner: `${process}.${process}`, updated, lease }
    const { at } = yield* sessions.create("a", "worker", claim)
    const found: Array<number> = []
    for (const _ of looks) {
      found.push(yield* owners.rest(at))
      yield* TestClock.adjust(pause)
    }
    return found
  })

  const cases = [
    ["is waited for once more, and is gone then", ["missing", "missing"], "4 seconds", [4000, 0]],
    [
      "is not gone at two looks that are close together",
      ["missing", "missing", "missing"],
      "1 second",
      [4000, 3000, 2000]
    ],
    ["that has its lock again lives", ["missing", "alive", "missing"], "4 seconds", [4000, 56_000, 4000]],
    ["long ago is waited for again", ["missing", "missing"], "30 seconds", [4000, 4000]],
    ["for certain is gone at once", ["gone"], "1 second", [0]]
  ] as const
  for (const [name, looks, pause, expected] of cases) {
    it.effect(name, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* rests(looks, pause), [...expected])
      }).pipe(Effect.provide(VersionedStore.layerMemory))
    )
  }
})

describe("RIGHT-13 a process that waits for many sessions of others", () => {
  it.effect("remembers the last 1,000, and waits once more for the lease of a session before them", () =>
    Effect.gen(function* () {
      const owners = leases.ownersOf(yield* VersionedStore.VersionedStore, Duration.seconds(10))
      const { at } = yield* (yield* logs).create("a", "worker", { owner: "other", updated: yield* DateTime.now })
      // By the clock of its owner, the lease ends in an hour: the process waits for as long as the lease was given
      const updated = DateTime.add(yield* DateTime.now, { hours: 1 })
      const head = { ...at.head, updated, lease: DateTime.add(updated, { seconds: 10 }) }
      const rest = (session: number) => owners.rest({ ...at, head, key: `${session}` })
      for (let session = 0; session < 1000; session++) assert.strictEqual(yield* rest(session), 10_000)
      yield* TestClock.adjust("4 seconds")
      assert.strictEqual(yield* rest(0), 6000)
      assert.strictEqual(yield* rest(1000), 10_000)
      assert.strictEqual(yield* rest(1), 10_000)
      assert.strictEqual(yield* rest(3), 6000)
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  )
})

describe("RIGHT-13 a turn that continues elsewhere", () => {
  it.effect("is no error in the log of the process that lost it", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const began = yield* Deferred.make<void>()
      const lines: Array<string> = []
      const logger = Logger.layer([Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${message}`))])
      const sessions = yield* t.sessionsOf(
        Session.layer([worker]).pipe(
          Layer.provide(store),
          Layer.provide(handlers(() => Effect.andThen(Deferred.succeed(began, undefined), Effect.never))),
          Layer.provide(ScriptedModel.layer(calling)),
          Layer.provide(logger)
        )
      )
      yield* sessions.send("a", "one")
      yield* Deferred.await(began)
      // The search for turns waits for the end of this one
      yield* TestClock.adjust("1 second")
      yield* Effect.provide(steal("a", "0 seconds"), store)
      yield* TestClock.adjust("5 seconds")
      yield* Effect.repeat(Effect.yieldNow, { times: 200 })
      assert.deepStrictEqual(
        lines.filter((line) => /^(Error|Fatal)/.test(line)),
        []
      )
    }).pipe(Effect.scoped)
  )
})

describe("MEND-7 an owner that was paused", () => {
  for (const [leaseTime, paused] of [
    ["10 seconds", "2500 millis"],
    ["1 second", "600 millis"]
  ] as const) {
    t.passing(`between the write and the start of a tool, with a lease of ${leaseTime}, does not start it`, () =>
      Effect.gen(function* () {
        const store = yield* t.store
        let started = 0
        let isStarting = false
        const pause = Effect.andThen(Effect.orDie(Effect.provide(steal("a"), store)), TestClock.adjust(paused))
        const pausing = changed(({ compareAndSet }) => ({
          compareAndSet: (key, expected, value) =>
            Effect.suspend(() => {
              const isHead = isStarting && key.endsWith("head/a")
              isStarting = !isHead && (isStarting || JSON.stringify(value).includes('"ToolStarted"'))
              return Effect.tap(compareAndSet(key, expected, value), () => (isHead ? pause : Effect.void))
            })
        }))
        const sessions = yield* t.sessionsOf(
          Session.layer([worker], { leaseTime }).pipe(
            Layer.provide(Layer.provide(pausing, store)),
            Layer.provide(handlers(() => Effect.sync(() => `${started++}`))),
            Layer.provide(ScriptedModel.layer(calling))
          )
        )
        yield* sessions.send("a", "one")
        yield* sessions.events("a").pipe(
          Stream.takeUntil((entry) => t.tagOf(entry) === "ToolStarted"),
          Stream.runDrain
        )
        yield* Effect.repeat(Effect.yieldNow, { times: 100 })
        assert.strictEqual(started, 0)
      }).pipe(Effect.scoped)
    )
  }
})

describe("RIGHT-13 an owner that was paused right before a call", () => {
  /** The number of calls of the model and of the tool, where another process takes the session and time passes at `when`. */
  const calls = (when: "StepStarted" | "ToolStarted" | "retry") =>
    Effect.gen(function* () {
      const store = yield* t.store
      let asked = 0
      let ran = 0
      let isPaused = false
      const isOver = yield* Deferred.make<void>()
      const pause = Effect.suspend(() => {
        isPaused = true
        return Effect.orDie(Effect.provide(steal("a"), store)).pipe(
          Effect.andThen(TestClock.adjust("2500 millis")),
          Effect.andThen(Deferred.succeed(isOver, undefined))
        )
      })
      const model = (request: ScriptedModel.Request) =>
        Effect.suspend(() => {
          asked++
          const answer = request.messages.at(-1)?.role === "user" ? t.call(1) : { text: "done" }
          if (when !== "retry") return Effect.succeed<ScriptedModel.Turn>(answer)
          const reason = new AiError.InternalProviderError({ description: "down" })
          const down = Effect.fail(AiError.make({ module: "test", method: "test", reason }))
          return Effect.andThen(isPaused ? Effect.void : pause, down)
        })
      const sessions = yield* t.sessionsOf(
        Session.layer([worker], {
          // It is renewed after 20 seconds
          leaseTime: "1 minute",
          run: {
            retry: { times: 1, delay: 0 },
            onEvent: ({ event }) => (event._tag === when && !isPaused ? pause : Effect.void)
          }
        }).pipe(
          Layer.provide(store),
          Layer.provide(handlers(() => Effect.sync(() => `${ran++}`))),
          Layer.provide(ScriptedModel.layer(model))
        )
      )
      yield* sessions.send("a", "one")
      yield* Deferred.await(isOver)
      yield* Effect.repeat(Effect.yieldNow, { times: 300 })
      return [asked, ran]
    }).pipe(Effect.scoped)

  t.passing("does not ask the model", () =>
    Effect.map(calls("StepStarted"), (all) => assert.deepStrictEqual(all, [0, 0]))
  )
  t.passing("does not run the tool", () =>
    Effect.map(calls("ToolStarted"), (all) => assert.deepStrictEqual(all, [1, 0]))
  )
  t.passing("does not ask the model again", () =>
    Effect.map(calls("retry"), (all) => assert.deepStrictEqual(all, [1, 0]))
  )
})

describe("MEND-15 a turn that lost its session", () => {
  it.effect("starts no other call of the same answer, whenever the loss is noticed", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      for (let yields = 0; yields < 20; yields++) {
        const id = `a${yields}`
        const ran: Array<number> = []
        const lose = yield* Deferred.make<void>()
        // Without yields the loss is noticed while the call is on the stack, before anything can be interrupted
        const work = (n: number) =>
          Effect.gen(function* () {
            ran.push(n)
            for (let turn = 0; turn < yields; turn++) yield* Effect.yieldNow
            yield* Deferred.succeed(lose, undefined)
            return `${n}`
          })
        const sessions = yield* t.sessionsOf(
          Session.layer([worker]).pipe(
            Layer.provide(store),
            Layer.provide(handlers(work)),
            Layer.provide(ScriptedModel.layer(() => t.call(1, 2, 3)))
          )
        )
        const losing = Deferred.await(lose).pipe(
          Effect.andThen(Effect.orDie(Effect.provide(steal(id, "0 seconds"), store))),
          Effect.andThen(sessions.send(id, "two"))
        )
        yield* Effect.forkChild(losing, { startImmediately: true })
        yield* sessions.send(id, "one")
        yield* Effect.repeat(Effect.yieldNow, { times: 200 })
        const started = (yield* t.tags(sessions, id)).filter((tag) => tag === "ToolStarted")
        assert.deepStrictEqual(ran.slice(started.length), [], `${yields} yields: without a stored ToolStarted`)
        assert.deepStrictEqual(ran, [1])
      }
    }).pipe(Effect.scoped)
  )
})

describe("MEND-7 a lease", () => {
  it.effect("ends by the clock of the process that waits, whatever the clock of its owner was", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const sessions = yield* t.sessionsOf(
        Session.layer([t.support]).pipe(Layer.provide(store), Layer.provide(ScriptedModel.layer(t.echo)))
      )
      yield* sessions.send("a", "one")
      yield* t.turns(sessions, "a", 1)
      for (const ahead of ["0 seconds", "1 minute", "1 hour"] as const) {
        yield* Effect.provide(steal("a", ahead), store)
        const sending = yield* Effect.forkChild(sessions.send("a", ahead))
        yield* TestClock.adjust("9 seconds")
        assert.isUndefined(sending.pollUnsafe(), ahead)
        // It is there: its lease begins again
        yield* Effect.provide(steal("a", ahead), store)
        yield* TestClock.adjust("9 seconds")
        assert.isUndefined(sending.pollUnsafe(), ahead)
        yield* TestClock.adjust("2 seconds")
        const { cursor } = yield* Fiber.join(sending)
        yield* t.turns(sessions, "a", 1, cursor)
      }
    }).pipe(Effect.scoped)
  )
})

describe("MEND-15 marks of sessions that are in a turn", () => {
  const busy = Effect.flatMap(VersionedStore.VersionedStore, ({ list }) =>
    Effect.map(list({ prefix: "session/busy/" }), ({ keys }) => keys)
  )

  it.live("a turn has one from its beginning to its end, also where a message is refused meanwhile", () =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const answer = yield* Deferred.make<ScriptedModel.Turn>()
      const layer = Session.layer([t.support]).pipe(
        Layer.provideMerge(VersionedStore.layerMemory),
        Layer.provide(
          ScriptedModel.layer(() => Effect.andThen(Deferred.succeed(asked, undefined), Deferred.await(answer)))
        )
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* sessions.send("a", "one")
        yield* Deferred.await(asked)
        assert.deepStrictEqual(yield* busy, ["session/busy/a"])
        const long = sessions.send("a", "long ".repeat(1000))
        const refused = yield* t.reasonOf(Effect.provide(long, Limits.layer({ maxStringLength: 1000 })))
        assert.include(["Refused", "InputInvalid"], refused)
        assert.deepStrictEqual(yield* busy, ["session/busy/a"])
        yield* Deferred.succeed(answer, { text: "1" })
        yield* t.turns(sessions, "a", 1)
        yield* t.eventually(Effect.map(busy, (keys) => keys.length === 0))
        const { log } = yield* logs
        assert.isUndefined(Option.getOrThrow(yield* log.head("a")).head.lease, "an idle session is free")
      }).pipe(Effect.provide(layer))
    })
  )

  it.effect("a message keeps one where the answer to its write was lost: it may be stored", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const marks = Effect.provide(busy, store)
      let isBreaking = false
      let isDown = false
      const silent = changed(({ compareAndSet, get }) => ({
        get: (key) => (isDown ? Effect.fail(unavailable) : get(key)),
        compareAndSet: (key, expected, value) =>
          Effect.suspend(() => {
            if (isDown) return Effect.fail(unavailable)
            isDown = isBreaking && key.endsWith("head/a")
            return Effect.tap(compareAndSet(key, expected, value), () =>
              isDown ? Effect.fail(unavailable) : Effect.void
            )
          })
      }))
      const sessions = yield* t.sessionsOf(
        Session.layer([t.support]).pipe(
          Layer.provide(Layer.provide(silent, store)),
          Layer.provide(ScriptedModel.layer(t.echo))
        )
      )
      yield* sessions.send("a", "one")
      yield* t.turns(sessions, "a", 1)
      yield* Effect.repeat(Effect.andThen(Effect.yieldNow, marks), { until: (keys) => keys.length === 0 })
      isBreaking = true
      const sending = yield* Effect.forkChild(t.reasonOf(sessions.send("a", "two")))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Fiber.join(sending), "StoreFailed")
      assert.deepStrictEqual(yield* marks, ["session/busy/a"])
    }).pipe(Effect.scoped)
  )

  it.live("WORLD-9 a turn has one although a process that saw no head yet removed it (world 1106)", () =>
    Effect.gen(function* () {
      const removing = changed(({ compareAndSet, delete: remove, get }) => ({
        commit: undefined,
        compareAndSet: (key, expected, value) =>
          Effect.gen(function* () {
            const mark = key === "session/head/a" ? yield* get("session/busy/a") : Option.none()
            if (Option.isSome(mark)) yield* Effect.orDie(remove("session/busy/a", { version: mark.value.version }))
            return yield* compareAndSet(key, expected, value)
          })
      }))
      const asked = yield* Deferred.make<void>()
      const layer = Session.layer([t.support]).pipe(
        Layer.provideMerge(Layer.provide(removing, VersionedStore.layerMemory)),
        Layer.provide(ScriptedModel.layer(() => Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)))
      )
      yield* Effect.gen(function* () {
        yield* Session.send("a", "one", { messageId: "1" })
        assert.deepStrictEqual(yield* busy, ["session/busy/a"])
        yield* Deferred.await(asked)
      }).pipe(Effect.provide(layer))
    })
  )

  it.effect("each session that a process left is found at once, however many there are", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const ids = Array.from({ length: 130 }, (_, n) => `s${n}`)
      const at = yield* DateTime.now
      yield* Effect.gen(function* () {
        const values = yield* VersionedStore.VersionedStore
        const sessions = yield* logs
        for (const id of ids) {
          const made = yield* sessions.create(id, "support", { owner: "gone", updated: at })
          const content = { type: "text", text: "hello" } as const
          const received = {
            _tag: "MessageReceived",
            at,
            messageId: "m",
            digest: "d",
            agent: "support",
            input: [content]
          } as const
          yield* sessions.append(made, (head) => head, t.addition(made, [received]))
          yield* values.compareAndSet(`session/busy/${id}`, Option.none(), {})
        }
      }).pipe(Effect.provide(store))
      const sessions = yield* t.sessionsOf(
        Session.layer([t.support]).pipe(Layer.provide(store), Layer.provide(ScriptedModel.layer(t.echo)))
      )
      // No time passes, so they are searched for once
      const isDone = Effect.map(Effect.provide(busy, store), (keys) => keys.length === 0)
      yield* Effect.repeat(Effect.andThen(Effect.yieldNow, isDone), { until: (isDone) => isDone, times: 20_000 })
      for (const id of ids) assert.strictEqual((yield* t.stateOf(sessions, id)).outcome, "Completed", id)
    }).pipe(Effect.scoped)
  )
})

describe("MEND-15 two writers of one session", () => {
  const event = Effect.map(DateTime.now, (at) => ({ _tag: "ResumeReceived", at }) as const)

  it.effect("a write of another owner is not taken for a lost answer", () =>
    Effect.gen(function* () {
      const sessions = yield* logs
      const made = yield* sessions.create("a", "support", { owner: "first", updated: yield* DateTime.now })
      const by = (owner: string) =>
        Effect.flatMap(event, (event) =>
          sessions.append(made, (head) => ({ ...head, owner, epoch: head.epoch + 1 }), t.addition(made, [event]))
        )
      yield* by("second")
      const refused = yield* Effect.flip(by("third"))
      assert.strictEqual(refused._tag, "Conflict")
      // The same owner made it
      assert.strictEqual((yield* by("second")).at.head.owner, "second")
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  )

  for (const [keepEvents, first] of [
    [0, 5],
    [1, 1],
    [4, 1]
  ] as const) {
    it.effect(`with keepEvents ${keepEvents} of 4 events the first one that a snapshot keeps is ${first}`, () =>
      Effect.gen(function* () {
        const sessions = eventLog.make(yield* VersionedStore.VersionedStore, "session", keepEvents)
        const at = yield* DateTime.now
        const made = yield* sessions.create("a", "support", { owner: "first", updated: at })
        const one = yield* event
        const filled = yield* sessions.append(made, (head) => head, t.addition(made, [one, one, one, one]))
        assert.strictEqual(sessions.firstKept(yield* sessions.compact(filled, at)), first)
      }).pipe(Effect.provide(VersionedStore.layerMemory))
    )
  }

  it.effect("a process that loses a session while it makes a snapshot writes nothing more", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      let snapshots = 0
      const stealing = changed(({ compareAndSet }) => ({
        compareAndSet: (key, expected, value) =>
          Effect.suspend(() =>
            key.endsWith("/input") && ++snapshots === 2
              ? Effect.andThen(
                  Effect.orDie(Effect.provide(steal("a", "0 seconds"), store)),
                  compareAndSet(key, expected, value)
                )
              : compareAndSet(key, expected, value)
          )
      }))
      const many: ScriptedModel.TurnFunction = (request) =>
        request.messages.at(-1)?.role === "user"
          ? t.call(...Array.from({ length: 200 }, (_, n) => n))
          : { text: `re: ${t.asked(request)}` }
      const sessions = yield* t.sessionsOf(
        Session.layer([worker]).pipe(
          Layer.provide(Layer.provide(stealing, store)),
          Layer.provide(handlers((n) => Effect.succeed(`${n}`))),
          Layer.provide(ScriptedModel.layer(many))
        )
      )
      yield* sessions.send("a", "one")
      const isStolen = Effect.sync(() => snapshots >= 2)
      yield* Effect.repeat(Effect.andThen(Effect.yieldNow, isStolen), { until: (isStolen) => isStolen })
      yield* Effect.repeat(Effect.yieldNow, { times: 3000 })
      const { head } = Option.getOrThrow(
        yield* Effect.provide(
          Effect.flatMap(logs, ({ log }) => log.head("a")),
          store
        )
      )
      assert.strictEqual(head.owner, "another")
      assert.isBelow(head.sequence, 400, "the turn has not ended")
      yield* Effect.repeat(Effect.yieldNow, { times: 3000 })
      const later = Option.getOrThrow(
        yield* Effect.provide(
          Effect.flatMap(logs, ({ log }) => log.head("a")),
          store
        )
      )
      assert.deepStrictEqual(later.head, head)
    }).pipe(Effect.scoped)
  )
})

describe("WORLD-9 a session that begins while another process removes its id (worlds 197 and 2971)", () => {
  const keys = Effect.flatMap(VersionedStore.VersionedStore, (store) => store.list({ prefix: "session/journal/" }))

  /** A process on a store that writes one value at a time. `before` and `after` belong to its operations on the head. */
  const processOn = (
    store: Layer.Layer<VersionedStore.VersionedStore>,
    around: {
      readonly beforeHead?: Effect.Effect<unknown>
      readonly afterHead?: Effect.Effect<unknown>
      readonly afterDelete?: Effect.Effect<unknown>
    }
  ) => {
    const { afterDelete = Effect.void, afterHead = Effect.void, beforeHead = Effect.void } = around
    const single = changed(({ compareAndSet, delete: remove }) => ({
      commit: undefined,
      compareAndSet: (key, expected, value) =>
        key === "session/head/a" && Option.isSome(expected)
          ? Effect.andThen(beforeHead, Effect.tap(compareAndSet(key, expected, value), afterHead))
          : compareAndSet(key, expected, value),
      delete: (key, options) =>
        Effect.tap(remove(key, options), () => (key === "session/head/a" ? afterDelete : Effect.void))
    }))
    return t.sessionsOf(
      Session.layer([t.support]).pipe(
        Layer.provide(Layer.provide(single, store)),
        Layer.provide(ScriptedModel.layer(t.echo))
      )
    )
  }

  it.live("begins again, where the removal ended before its head was there", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const remover = yield* processOn(store, {})
      let removals = 0
      const removing = Effect.suspend(() => (removals++ === 0 ? remover.remove("a") : Effect.succeed(false)))
      const creator = yield* processOn(store, { beforeHead: Effect.orDie(removing) })
      yield* creator.send("a", "one", { messageId: "1" })
      yield* t.turns(creator, "a", 1)
      assert.strictEqual(Option.getOrThrow(yield* remover.state("a")).messages, 3)
      const generations = (yield* Effect.provide(keys, store)).keys.filter((key) => key.endsWith("/input"))
      assert.strictEqual(generations.length, 1)
    }).pipe(Effect.scoped)
  )

  it.live(
    "is whole, where its removal is stopped before it deletes the values, and the process that begins it after its head",
    () =>
      Effect.gen(function* () {
        const store = yield* t.store
        const writing = yield* Deferred.make<void>()
        const deleted = yield* Deferred.make<void>()
        const creator = yield* processOn(store, {
          beforeHead: Effect.andThen(Deferred.succeed(writing, undefined), Deferred.await(deleted)),
          afterHead: Effect.never
        })
        const remover = yield* processOn(store, {
          afterDelete: Effect.andThen(Deferred.succeed(deleted, undefined), Effect.never)
        })
        yield* Effect.forkChild(creator.send("a", "one", { messageId: "1" }))
        yield* Deferred.await(writing)
        yield* Effect.forkChild(remover.remove("a"))
        yield* Deferred.await(deleted)
        const later = yield* processOn(store, {})
        yield* t.eventually(Effect.map(later.state("a"), Option.isSome))
      }).pipe(Effect.scoped)
  )

  it.live("begins where another process was stopped in its beginning, and is listed when it is there", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const writing = yield* Deferred.make<void>()
      const stopped = yield* processOn(store, {
        beforeHead: Effect.andThen(Deferred.succeed(writing, undefined), Effect.never)
      })
      yield* Effect.forkChild(stopped.send("a", "one", { messageId: "1" }))
      yield* Deferred.await(writing)
      const next = yield* processOn(store, {})
      const ids = Effect.map(next.list({ prefix: "a" }), ({ sessions }) => sessions.map(({ id }) => id))
      assert.deepStrictEqual(yield* ids, [])
      assert.isTrue(Option.isNone(yield* next.state("a")))
      yield* next.send("a", "two", { messageId: "2" })
      yield* t.turns(next, "a", 1)
      assert.deepStrictEqual(yield* ids, ["a"])
      assert.isTrue(yield* next.remove("a"))
      assert.isFalse(yield* next.remove("a"))
      assert.deepStrictEqual((yield* Effect.provide(keys, store)).keys, [])
    }).pipe(Effect.scoped)
  )
})
