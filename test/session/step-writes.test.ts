/** KEEP-3: the values of steps with `writes`, and the progress of plans in sessions. */
import * as storeService from "#src/store/internal/storeService.ts"
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, type Schema } from "effect"
import { TestClock } from "effect/testing"
import { Run, VersionedStore } from "effect-emissary"
import { SqliteRunner } from "effect-emissary/node"
import type { Plan } from "effect-emissary/plan"
import { PlanRun, Step, When } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { pluck } from "../pluck.ts"
import { planOf } from "../plan/support.ts"
import { changed } from "../store/changed.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const job = { id: "job", input: "go" }

const step = (name: string, work: Effect.Effect<Schema.Json, unknown> = Effect.succeed(name.toUpperCase())) =>
  Step.make(name, { target: () => work, writes: name })

/** A process with a plan, on the store around. */
const hosting =
  (plan: Plan.Bound<unknown>) =>
  <A, E>(use: Effect.Effect<A, E, Session.Session>): Effect.Effect<A, E, VersionedStore.VersionedStore> =>
    Effect.provide(use, Session.layer([plan]))

const read = (key: string) =>
  Effect.flatMap(Session.Session, (sessions) =>
    Effect.map(sessions.read(key), (found) => Option.getOrUndefined(found)?.value)
  )

const failure = (result: Effect.Effect<unknown, Session.SessionError, Session.Session>) =>
  Effect.map(Effect.flip(result), ({ reason }) => {
    assert(reason._tag === "TurnFailed", `expected TurnFailed, got ${reason._tag}`)
    return reason.failure
  })

/** A store whose operations on some keys fail while `isDown` is set. */
const failing = (of: (key: string) => boolean) => {
  const fault = { isDown: true }
  const layer = changed((store) => ({
    compareAndSet: (key, expected, value) => {
      if (!fault.isDown || !of(key)) return store.compareAndSet(key, expected, value)
      const error = { operation: "compareAndSet" as const, key, storage: "test", error: "Full", cause: undefined }
      return Effect.fail(storeService.unavailable(error))
    }
  }))
  return { fault, layer: Layer.provideMerge(layer, VersionedStore.layerMemory) }
}

const isWrite = (key: string) => key.startsWith("session/writes/")

/** Time passes until a fiber ends: writes are tried again while the store fails. */
const patiently = Effect.fnUntraced(function* <A, E, R>(effect: Effect.Effect<A, E, R>) {
  const fiber = yield* Effect.forkChild(effect)
  while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
  return yield* Fiber.join(fiber)
})

describe("KEEP-3 the values of steps", () => {
  test(
    "are read by their keys, each the newest one, with its step and session",
    VersionedStore.layerMemory,
    function* () {
      let turn = 0
      const plan = yield* planOf([
        Step.make("count", {
          target: () => Effect.sync(() => ++turn),
          writes: "n",
          routes: [["count", When.text("1")]]
        }),
        step("last"),
        Step.make("nothing", { target: () => Effect.succeed(null), writes: "nothing" })
      ])
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        assert.strictEqual(yield* read("n"), undefined)
        yield* Session.run(plan, job)
        const written = Option.getOrThrow(yield* sessions.read("n"))
        assert.deepStrictEqual([written.value, written.step, written.id], [2, "count", "job"])
        assert.strictEqual(yield* read("last"), "LAST")
        assert.strictEqual(yield* read("nothing"), undefined)
        yield* sessions.remove(job.id)
        assert.strictEqual(yield* read("n"), undefined)
      }).pipe(hosting(plan))
    }
  )

  test(
    "of the session that finished last count, also where an older one is continued",
    VersionedStore.layerMemory,
    function* () {
      let isReady = false
      const plan = yield* planOf([
        Step.make("w", { target: ({ task }) => Effect.succeed(task), writes: "w" }),
        Step.make("gate", { target: () => (isReady ? Effect.succeed("open") : Effect.fail("closed")) })
      ])
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* failure(Session.run(plan, { id: "first", input: "old" }))
        yield* TestClock.adjust("1 second")
        isReady = true
        yield* Session.run(plan, { id: "second", input: "new" })
        yield* sessions.resume("first")
        yield* Session.result(plan, "first")
        assert.strictEqual(yield* read("w"), "new")
      }).pipe(hosting(plan))
    }
  )

  test("P35 follow the events of their step, in a parallel group those of all its members", function* () {
    const operations: Array<{ readonly key: string; readonly text: string }> = []
    const watching = changed((store) => ({
      commit: undefined,
      compareAndSet: (key, expected, value) => {
        operations.push({ key, text: JSON.stringify(value) })
        return store.compareAndSet(key, expected, value)
      }
    }))
    const plan = yield* planOf([
      step("a"),
      Step.make("b", { target: () => Effect.succeed("B"), writes: "b", parallel: true }),
      Step.make("c", { target: () => Effect.succeed("C"), writes: "c", parallel: true })
    ])
    yield* Session.run(plan, job).pipe(
      hosting(plan),
      Effect.provide(Layer.provide(watching, VersionedStore.layerMemory))
    )
    const at = (name: string) => operations.findIndex(({ key }) => key === `session/writes/${name}`)
    const before = (name: string) => JSON.stringify(pluck(operations.slice(0, at(name)), "text"))
    const recorded = (name: string) => `\\"record\\":{\\"step\\":\\"${name}\\"`
    assert.include(before("a"), recorded("a"))
    assert.notInclude(before("a"), recorded("b"))
    for (const member of ["b", "c"]) for (const name of ["b", "c"]) assert.include(before(member), recorded(name))
    assert.isTrue(0 < at("a") && at("a") < at("b") && at("b") < at("c"))
    const ended = operations.findIndex(({ text }) => text.includes("RunFinished"))
    assert.isBelow(at("c"), ended)
  })

  test("of a step inside a plan that is a step, or a tool, are not written", VersionedStore.layerMemory, function* () {
    const inner = yield* planOf([step("w")], { name: "inner" })
    const plan = yield* planOf([Step.make("sub", { target: inner }), step("x")], { name: "outer" })
    yield* Effect.gen(function* () {
      yield* Session.run(plan, job)
      assert.deepStrictEqual([yield* read("w"), yield* read("x")], [undefined, "X"])
    }).pipe(hosting(plan))
  })

  test("that cannot be written fail the turn; `resume` writes them, and no step runs again (O18, P19)", function* () {
    const ran: Array<string> = []
    const plan = yield* planOf([
      step(
        "a",
        Effect.sync(() => (ran.push("a"), "A"))
      ),
      step(
        "b",
        Effect.sync(() => (ran.push("b"), "B"))
      )
    ])
    const { fault, layer } = failing((key) => isWrite(key) && key.endsWith("/b"))
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const { category, message, reason } = yield* patiently(failure(Session.run(plan, job)))
      assert.deepStrictEqual([reason, category], ["WriteFailed", "unavailable"])
      assert.match(message, /step "b" is done, and its value was not written under "b": .*Full.*Resume the session/)
      assert.deepStrictEqual([yield* read("a"), yield* read("b")], ["A", undefined])
      fault.isDown = false
      yield* sessions.resume(job.id)
      const result = yield* Session.result(plan, job.id)
      assert(result.outcome === "Completed")
      assert.deepStrictEqual([result.output, yield* read("b"), ran], ["B", "B", ["a", "b"]])
    }).pipe(hosting(plan), Effect.provide(layer))
  })

  test("are written before an interruption is recorded", VersionedStore.layerMemory, function* () {
    const isWriting = yield* Deferred.make<void>()
    const canWrite = yield* Deferred.make<void>()
    const slow = changed((store) => ({
      compareAndSet: (key, expected, value) => {
        const written = store.compareAndSet(key, expected, value)
        if (!isWrite(key)) return written
        return Effect.andThen(Effect.andThen(Deferred.succeed(isWriting, undefined), Deferred.await(canWrite)), written)
      }
    }))
    const plan = yield* planOf([step("a"), Step.make("b", { target: () => Effect.never })])
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const running = yield* Effect.forkChild(Session.run(plan, job))
      yield* Deferred.await(isWriting)
      const stopping = yield* Effect.forkChild(sessions.interrupt(job.id))
      for (let turn = 0; turn < 50; turn++) yield* Effect.yieldNow
      assert.strictEqual(stopping.pollUnsafe(), undefined)
      yield* Deferred.succeed(canWrite, undefined)
      yield* Fiber.join(stopping)
      assert.strictEqual((yield* Fiber.join(running)).outcome, "Interrupted")
      assert.strictEqual(yield* read("a"), "A")
    }).pipe(hosting(plan), Effect.provide(slow))
  })

  test.live("are read from a fleet", function* () {
    const plan = yield* planOf([step("a")])
    const fleet = ClusterSession.layer([plan]).pipe(
      Layer.provide(SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } }))
    )
    yield* Effect.gen(function* () {
      yield* Session.run(plan, job)
      const sessions = yield* Session.Session
      const { id, value } = Option.getOrThrow(yield* sessions.read("a"))
      assert.deepStrictEqual([id, value], ["job", "A"])
      assert.isTrue(Option.isNone(yield* sessions.read("b")))
      assert.strictEqual(Option.getOrThrow(yield* Session.progress(plan, job.id)).outcome?._tag, "Completed")
    }).pipe(Effect.provide(fleet))
  })

  test("that cannot be read are an error with their key", VersionedStore.layerMemory, function* () {
    const plan = yield* planOf([step("a")])
    const store = yield* VersionedStore.VersionedStore
    yield* store.compareAndSet("session/writes/a", Option.none(), "foreign")
    const error = yield* Effect.flip(hosting(plan)(Effect.flatMap(Session.Session, ({ read }) => read("a"))))
    assert.deepStrictEqual([error.id, error.reason._tag], ["a", "Unreadable"])
  })
})

describe("KEEP-3 the progress of a plan", () => {
  test(
    "P18 is the state that the plan has in memory, while it waits and when it is done",
    VersionedStore.layerMemory,
    function* () {
      const make = planOf([
        Step.make("look", { target: () => Effect.succeed({ hits: [1, "é"], none: null }) }),
        Step.make("ask", {
          target: ({ decision }) => (decision === undefined ? Step.pause("sure?") : Effect.succeed("yes"))
        })
      ])
      const plan = yield* make
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        assert.strictEqual((yield* Effect.flip(Session.progress(plan, job.id))).reason._tag, "NotFound")
        const asked = yield* Session.run(plan, job)
        assert(asked.outcome === "AwaitingApproval")
        const waiting = Option.getOrThrow(yield* Session.progress(plan, job.id))
        assert.deepStrictEqual([waiting.cursor, waiting.outcome?._tag], ["ask", "Paused"])
        yield* sessions.decide(job.id, asked.requests.filter(Run.isApprovable).map(Run.approve))
        yield* Session.result(plan, job.id)
        const done = Option.getOrThrow(yield* Session.progress(plan, job.id))
        assert.deepStrictEqual(
          PlanRun.history(done).map(({ output, step }) => [step, output]),
          [
            ["look", { hits: [1, "é"], none: null }],
            ["ask", "yes"]
          ]
        )
        const kept = yield* PlanRun.stateCodec.encode(done)
        assert.deepStrictEqual(yield* PlanRun.stateCodec.decode(kept), done)
        // The next message begins the next run
        yield* Session.turn(job.id, "again")
        assert.strictEqual(PlanRun.history(Option.getOrThrow(yield* Session.progress(plan, job.id))).length, 1)
      }).pipe(hosting(plan))
    }
  )

  test("HOUSE-3 of a plan that was edited since is that of its events, of another agent AgentDiffers", function* () {
    const store = yield* t.store
    const name = { name: "report" }
    const plan = yield* planOf([step("a"), Step.make("b", { target: () => Effect.fail("down") })], name)
    const edited = yield* planOf([step("z"), Step.make("b", { target: () => Effect.fail("down") })], name)
    const on = (plan: Plan.Bound<unknown>) => Layer.provide(Session.layer([plan]), store)
    yield* Effect.provide(failure(Session.run(plan, job)), on(plan))
    const state = Option.getOrThrow(yield* Effect.provide(Session.progress(edited, job.id), on(edited)))
    assert.deepStrictEqual(
      PlanRun.history(state).map(({ step }) => step),
      ["a"]
    )
    const other = yield* planOf([step("a")], { name: "other" })
    const differs = yield* Effect.flip(Effect.provide(Session.progress(other, job.id), on(plan)))
    assert.strictEqual(differs.reason._tag, "AgentDiffers")
  })

  test("is that of the newest run where older events are not kept", VersionedStore.layerMemory, function* () {
    const plan = yield* planOf([step("a"), step("b")], { name: "chatty", maxIterations: 500 })
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      for (let turn = 0; turn < 60; turn++) yield* Session.turn(job.id, `message ${turn}`)
      assert.strictEqual(yield* t.reasonOf(t.stored(sessions, job.id)), "EventsPruned")
      const state = Option.getOrThrow(yield* Session.progress(plan, job.id))
      assert.strictEqual(PlanRun.history(state).length, 2)
      assert.include(state.input.task, "message 59")
    }).pipe(Effect.provide(Session.layer([plan], { keepEvents: 50 })))
  })
})

describe("KEEP-3 a plan that used up its iterations", () => {
  test("continues when it is resumed with a larger limit (I08, S13.6)", VersionedStore.layerMemory, function* () {
    let count = 0
    const plan = yield* planOf(
      [
        Step.make("count", {
          target: () => Effect.sync(() => ({ n: ++count })),
          routes: [["count", When.field("n").lessThan(8)]]
        })
      ],
      { name: "loop", maxIterations: 3 }
    )
    const limited = yield* hosting(plan)(Session.run(plan, job))
    assert.strictEqual(limited.outcome, "MaxSteps")
    const again = Effect.gen(function* () {
      yield* Effect.flatMap(Session.Session, ({ resume }) => resume(job.id))
      return yield* Session.result(plan, job.id)
    })
    assert.strictEqual((yield* hosting(plan)(again)).outcome, "MaxSteps")
    assert.strictEqual(count, 3)
    const larger = Session.layer([plan], { run: { maxSteps: 8 } })
    assert.strictEqual((yield* Effect.provide(again, larger)).outcome, "Completed")
    assert.strictEqual(count, 8)
  })
})
