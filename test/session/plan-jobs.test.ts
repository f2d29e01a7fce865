/** KEEP-3: plans under a key, as LazyBridge keeps them, are jobs. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Option, Scope, Stream } from "effect"
import { VersionedStore } from "effect-emissary"
import type { Plan } from "effect-emissary/plan"
import { Step, When } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { gate, planOf } from "../plan/support.ts"
import { changed } from "../store/changed.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const job = { id: "k", input: "go" }

/** Steps that note each time they run; the work of the second one is given. */
const counting = Effect.fnUntraced(function* (work: Effect.Effect<unknown, unknown> = Effect.void) {
  const ran: Array<string> = []
  const step = (name: string, work: Effect.Effect<unknown, unknown> = Effect.void) =>
    Step.make(name, {
      target: ({ task }) =>
        Effect.as(
          Effect.andThen(
            Effect.sync(() => ran.push(name)),
            work
          ),
          `${task} ${name}`
        ),
      writes: name
    })
  return { plan: yield* planOf([step("a"), step("b", work)], { name: "counting" }), ran }
})

const hosting =
  (plan: Plan.Bound<unknown>) =>
  <A, E>(use: Effect.Effect<A, E, Session.Session>): Effect.Effect<A, E, VersionedStore.VersionedStore> =>
    Effect.provide(use, Session.layer([plan]))

const reasonOf = (effect: Effect.Effect<unknown, Session.SessionError, Session.Session>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason._tag)

const text = (result: Session.RunResult<unknown>) => (result.outcome === "Completed" ? result.output : result.outcome)

describe("KEEP-3 PLAN-6 a plan under an id", () => {
  test("that runs is not begun again, however long it takes (J16, P13)", VersionedStore.layerMemory, function* () {
    const { begun, hook, open } = yield* gate
    const { plan, ran } = yield* counting(hook)
    yield* Effect.gen(function* () {
      const running = yield* Effect.forkChild(Session.run(plan, job))
      yield* begun
      assert.strictEqual(yield* reasonOf(Session.run(plan, { ...job, input: "other" })), "Exists")
      const same = yield* Effect.forkChild(Session.run(plan, { ...job, ifExists: "resume" }))
      yield* open
      assert.deepStrictEqual(yield* Fiber.join(same), yield* Fiber.join(running))
      assert.deepStrictEqual(ran, ["a", "b"])
    }).pipe(hosting(plan))
  })

  test(
    "runs once where the same job is resumed every night (P20), and again where it is begun (P14)",
    VersionedStore.layerMemory,
    function* () {
      const { plan, ran } = yield* counting()
      yield* Effect.gen(function* () {
        for (let night = 0; night < 3; night++) {
          assert.strictEqual(text(yield* Session.run(plan, { ...job, ifExists: "resume" })), "go a b")
        }
        assert.deepStrictEqual(ran, ["a", "b"])
        assert.strictEqual(
          yield* reasonOf(Session.run(plan, { ...job, input: "x", ifExists: "resume" })),
          "InputDiffers"
        )
        assert.strictEqual(text(yield* Session.run(plan, { ...job, input: "x", ifExists: "restart" })), "x a b")
        assert.strictEqual(ran.length, 4)
      }).pipe(hosting(plan))
    }
  )

  test("of a process that died is refused, or continued at the step that it was in (P15)", function* () {
    const store = yield* t.store
    const reached = yield* Deferred.make<void>()
    const first = yield* counting(Effect.andThen(Deferred.succeed(reached, undefined), Effect.never))
    const scope = yield* Scope.make()
    const dying = yield* Layer.buildWithScope(
      Layer.provide(Session.layer([first.plan], { drainTime: 0 }), store),
      scope
    )
    yield* Effect.forkChild(Effect.exit(Effect.provideContext(Session.run(first.plan, job), dying)))
    yield* Deferred.await(reached)
    yield* Scope.close(scope, Exit.void)
    const second = yield* counting()
    yield* Effect.gen(function* () {
      assert.strictEqual(yield* reasonOf(Session.run(second.plan, job)), "Exists")
      assert.strictEqual(text(yield* Session.run(second.plan, { ...job, ifExists: "resume" })), "go a b")
      assert.deepStrictEqual([first.ran, second.ran], [["a", "b"], ["b"]])
    }).pipe(Effect.provide(Layer.provide(Session.layer([second.plan]), store)))
  })

  test(
    "has runs beside it under ids of their own, which fail and succeed alone (P16, P17)",
    VersionedStore.layerMemory,
    function* () {
      let turn = 0
      const { plan } = yield* counting(Effect.suspend(() => (++turn === 1 ? Effect.fail("down") : Effect.void)))
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const fork = (input: string) => Effect.result(Session.run(plan, { id: `k:${input}`, input }))
        const forks = yield* Effect.forEach(["one", "two"], fork, { concurrency: 2 })
        assert.deepStrictEqual(forks.map(({ _tag }) => _tag).toSorted(), ["Failure", "Success"])
        const listed = yield* sessions.list({ prefix: "k:" })
        assert.deepStrictEqual(
          listed.sessions.map(({ id }) => id),
          ["k:two", "k:one"]
        )
        yield* Effect.forEach(listed.sessions, ({ id }) => sessions.resume(id))
        for (const input of ["one", "two"]) {
          const result = yield* Session.run(plan, { id: `k:${input}`, input, ifExists: "resume" })
          assert.strictEqual(text(result), `${input} a b`)
        }
      }).pipe(hosting(plan))
    }
  )

  test("is not touched by a write, however its key is called (O08)", VersionedStore.layerMemory, function* () {
    const keys = ["k", "head/k", "../head/k", "journal/1:k/"]
    const plan = yield* planOf(
      keys.map((key, index) => Step.make(`s${index}`, { target: () => Effect.succeed(key), writes: key }))
    )
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* Session.run(plan, job)
      for (const key of keys) assert.strictEqual(Option.getOrThrow(yield* sessions.read(key)).value, key)
      assert.strictEqual(text(yield* Session.run(plan, { ...job, ifExists: "resume" })), "journal/1:k/")
    }).pipe(hosting(plan))
  })

  test("continues when a reader of its events leaves (P24)", VersionedStore.layerMemory, function* () {
    const { begun, hook, open } = yield* gate
    const { plan, ran } = yield* counting(hook)
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const running = yield* Effect.forkChild(Session.run(plan, job))
      const first = yield* sessions.events(job.id).pipe(Stream.take(1), Stream.runCollect)
      assert.strictEqual(first.length, 1)
      yield* begun
      yield* open
      assert.strictEqual(text(yield* Fiber.join(running)), "go a b")
      assert.deepStrictEqual(ran, ["a", "b"])
    }).pipe(hosting(plan))
  })

  test("RIGHT-21 that used up maxIterations continues with a larger one", function* () {
    let count = 0
    const looping = (maxIterations: number) =>
      planOf(
        [
          Step.make("count", {
            target: () => Effect.sync(() => ({ n: ++count })),
            routes: [["count", When.field("n").lessThan(5)]]
          }),
          Step.make("end", { target: () => Effect.succeed("done") })
        ],
        { name: "looping", maxIterations }
      )
    const small = yield* looping(3)
    const large = yield* looping(100)
    const resumed = Session.run(large, { ...job, ifExists: "resume" })
    for (const again of [
      resumed,
      Effect.gen(function* () {
        yield* (yield* Session.Session).resume(job.id)
        return yield* Session.result(large, job.id)
      })
    ]) {
      count = 0
      yield* Effect.gen(function* () {
        assert.strictEqual(text(yield* hosting(small)(Session.run(small, job))), "MaxSteps")
        assert.strictEqual(text(yield* hosting(small)(Session.run(small, { ...job, ifExists: "resume" }))), "MaxSteps")
        assert.strictEqual(count, 3)
        assert.strictEqual(text(yield* hosting(large)(again)), "done")
        assert.strictEqual(count, 5)
        assert.strictEqual(text(yield* hosting(large)(resumed)), "done")
        assert.strictEqual(count, 5)
      }).pipe(Effect.provide(VersionedStore.layerMemory))
    }
  })

  test("RIGHT-21 inside of which a plan used up maxIterations continues with a larger one of it", function* () {
    let count = 0
    const nesting = Effect.fnUntraced(function* (maxIterations: number) {
      const inner = yield* planOf(
        [
          Step.make("count", {
            target: () => Effect.sync(() => ({ n: ++count })),
            routes: [["count", When.field("n").lessThan(5)]]
          })
        ],
        { name: "inner", maxIterations }
      )
      return yield* planOf([Step.make("inner", { target: inner })], { name: "outer" })
    })
    const small = yield* nesting(3)
    const large = yield* nesting(100)
    yield* Effect.gen(function* () {
      yield* Effect.exit(hosting(small)(Session.run(small, job)))
      assert.strictEqual(count, 3)
      assert.deepStrictEqual(text(yield* hosting(large)(Session.run(large, { ...job, ifExists: "resume" }))), { n: 5 })
      assert.strictEqual(count, 5)
    }).pipe(Effect.provide(VersionedStore.layerMemory), Effect.provide(Logger.layer([])))
  })

  for (const how of ["run", "resume"] as const) {
    test(`RIGHT-21 whose step paused is asked again by ${how}, and not by a message`, function* () {
      const ran: Array<string> = []
      let isOpen = false
      const plan = yield* planOf(
        [
          Step.make("prepare", { target: () => Effect.sync(() => ran.push("prepare")) }),
          Step.make("gate", {
            target: () => {
              ran.push("gate")
              return isOpen ? Effect.succeed("open") : Step.pause("the shop is closed")
            }
          })
        ],
        { name: "shop" }
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const ask =
          how === "run"
            ? Session.run(plan, { ...job, ifExists: "resume" })
            : Effect.andThen(sessions.resume(job.id), Session.result(plan, job.id))
        assert.strictEqual(text(yield* Session.run(plan, job)), "AwaitingApproval")
        assert.strictEqual(text(yield* ask), "AwaitingApproval")
        assert.deepStrictEqual(ran, ["prepare", "gate", "gate"])
        yield* sessions.send(job.id, "are you open?")
        assert.strictEqual(text(yield* Session.result(plan, job.id)), "AwaitingApproval")
        assert.deepStrictEqual(ran, ["prepare", "gate", "gate"])
        isOpen = true
        yield* ask
        assert.deepStrictEqual(ran.slice(0, 4), ["prepare", "gate", "gate", "gate"])
      }).pipe(hosting(plan), Effect.provide(VersionedStore.layerMemory))
    })
  }

  test("RIGHT-21 that failed has the step and the kind of failure as data", function* () {
    const step = Step.make("print", { target: () => Effect.fail({ _tag: "NoPaper" }) })
    const inner = yield* planOf([step], { name: "inner" })
    const plan = yield* planOf([Step.make("inner", { target: inner })], { name: "nightly" })
    yield* Effect.gen(function* () {
      const error = yield* Effect.flip(Session.run(plan, job))
      assert(error.reason._tag === "TurnFailed")
      assert.deepStrictEqual(error.reason.failure.plan, {
        reason: "StepFailed",
        step: { name: "print", path: ["inner"], type: "NoPaper" }
      })
      const stored = Option.getOrThrow(yield* (yield* Session.Session).state(job.id))
      assert.deepStrictEqual(stored.failure?.plan, error.reason.failure.plan)
    }).pipe(hosting(plan), Effect.provide(VersionedStore.layerMemory), Effect.provide(Logger.layer([])))
  })

  test("RIGHT-21 has one of the known policies, or is refused before anything is stored", function* () {
    const { plan, ran } = yield* counting()
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      for (const ifExists of ["resum", "continue", "RESUME", "", 3, null]) {
        // Sound: a policy of a configuration that is not checked
        const error = yield* Effect.flip(Session.run(plan, { ...job, ifExists: ifExists as never }))
        assert.strictEqual(error.reason._tag, "ArgumentInvalid")
        assert.include(error.message, 'expected "fail" or "resume" or "restart" as ifExists, got ')
        if (ifExists === "continue") continue
        const refused = yield* Effect.flip(sessions.send(job.id, "go", { ifExists: ifExists as never }))
        assert.strictEqual(refused.reason._tag, "ArgumentInvalid")
      }
      assert.isTrue(Option.isNone(yield* sessions.state(job.id)))
      assert.deepStrictEqual(ran, [])
    }).pipe(hosting(plan), Effect.provide(VersionedStore.layerMemory))
  })

  test("costs per step the size of one step, however many there are (L10)", function* () {
    const costs = yield* Effect.forEach([50, 400], (steps) =>
      Effect.gen(function* () {
        const sizes: Array<number> = []
        const counted = changed(({ compareAndSet }) => ({
          commit: undefined,
          compareAndSet: (key, expected, value) => {
            sizes.push(JSON.stringify(value).length)
            return compareAndSet(key, expected, value)
          }
        }))
        let count = 0
        const plan = yield* planOf(
          [
            Step.make("count", {
              target: () => Effect.sync(() => ({ n: ++count })),
              routes: [["count", When.field("n").lessThan(steps)]],
              writes: "n"
            })
          ],
          { name: "looping", maxIterations: 1000 }
        )
        yield* Session.run(plan, job).pipe(hosting(plan), Effect.provide(counted))
        return { bytes: sizes.reduce((sum, size) => sum + size, 0) / steps, writes: sizes.length / steps }
      }).pipe(Effect.provide(VersionedStore.layerMemory))
    )
    const [few, many] = costs
    assert(few !== undefined && many !== undefined)
    // Snapshots write each event once more
    assert.isAtMost(many.bytes, 2 * few.bytes)
    // One batch, one head, one value
    assert.isAtMost(many.writes, 3.3)
  })
})
