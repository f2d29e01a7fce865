/**
 * Real processes that are killed with SIGKILL at points of random plans, and other
 * processes that resume them: completed steps do not run again, and the end is the same as
 * without a kill.
 */
import { assert, describe, it } from "@effect/vitest"
import { VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Checkpoint, type PlanRun } from "effect-emissary/plan"

import { DateTime, Duration, Effect, Layer, Option } from "effect"
import { join } from "node:path"
import { beforeAll } from "vitest"
import { makeDirectory } from "../store/directory.ts"
import { oneIn } from "../full.ts"
import * as killable from "../store/killable.ts"
import * as agents from "./kill/agents.ts"
import * as executions from "./kill/executions.ts"
import * as plans from "./kill/plans.ts"
import * as points from "./kill/points.ts"
import * as results from "./kill/results.ts"
import type { Task } from "./kill/worker.ts"
import * as workers from "./kill/workers.ts"
import { completed } from "./support.ts"

const directory = makeDirectory()

let startWorker: Awaited<ReturnType<typeof workers.prepare>>
beforeAll(async () => {
  startWorker = await workers.prepare(directory)
})

/** Long enough for a run of a worker, so that no heartbeat adds points. */
const leaseMillis = 400

const open = (filename: string) =>
  Checkpoint.layer({ leaseTime: "1 minute" }).pipe(Layer.provideMerge(SqliteClient.layerStore({ filename })))

const key = "run/1"

/** The files of the store and of the executions. */
const files = (name: string) => ({
  filename: join(directory, `${name}.sqlite`),
  log: join(directory, `${name}.log`)
})

/** The run without a kill, and the points at which it could be killed. */
const uninterrupted = Effect.fnUntraced(function* (seed: number) {
  const { filename, log } = files(`whole-${seed}`)
  const ran = executions.open(log)
  const run = points.make(0)
  const database = killable.make(0)
  const store = run.layer.pipe(Layer.provide(VersionedStore.layerSql()), Layer.provide(database.layer(filename)))
  return yield* Effect.gen(function* () {
    const checkpoint = yield* Checkpoint.Checkpoint
    const { bound, writes } = yield* plans.make(seed, (step) => run.around(ran.ran(step)))
    yield* database.arm
    const result = yield* checkpoint.run(bound, { key, input: plans.input(seed) })
    return {
      seed,
      points: [...run.points],
      databasePoints: yield* database.points,
      expected: yield* results.resultOf(result, writes),
      executions: executions.read(log)
    }
  }).pipe(
    Effect.provide(Checkpoint.layer({ leaseTime: "1 minute" }).pipe(Layer.provide(store))),
    Effect.provide(plans.model(ran.ran(executions.model)))
  )
})

type Whole = Effect.Success<ReturnType<typeof uninterrupted>>

/** The number of completions of each step in the stored run. */
const completedIn = (state: Option.Option<PlanRun.State>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  const count = (step: string) => counts.set(step, (counts.get(step) ?? 0) + 1)
  /** With the steps of the plan inside it, if it is a plan. */
  const countAll = (step: string) => [step, ...plans.innerSteps.map((name) => plans.inner(step, name))].forEach(count)
  if (Option.isNone(state)) return counts
  for (const { step } of state.value.history) countAll(step)
  for (const { status, step } of state.value.turn?.members ?? []) {
    if (status._tag === "Finished") countAll(step)
    if (status._tag === "Running" && status.child?._tag === "Plan") {
      for (const inside of status.child.state.history) count(plans.inner(step, inside.step))
    }
  }
  return counts
}

/** Waits until the lease of the process that was killed has ended. */
const expired = Effect.gen(function* () {
  const checkpoint = yield* Checkpoint.Checkpoint
  const found = yield* checkpoint.inspect(key)
  if (Option.isNone(found) || !found.value.live || found.value.leaseUntil === undefined) return
  yield* Effect.sleep(Duration.sum(DateTime.distance(yield* DateTime.now, found.value.leaseUntil), Duration.millis(1)))
})

const goOn = Effect.fnUntraced(function* (whole: Whole, log: string) {
  const { seed } = whole
  const checkpoint = yield* Checkpoint.Checkpoint
  const before = executions.read(log)
  const ran = executions.open(log)
  const { agents, bound, writes } = yield* plans.make(seed, ran.ran)
  const completed = completedIn(yield* checkpoint.load(bound, key))
  yield* expired
  const result = yield* checkpoint
    .run(bound, { key, input: plans.input(seed), policy: "startOrResume" })
    .pipe(Effect.provide(plans.model(ran.ran(executions.model))))

  const after = executions.read(log)
  for (const [step, times] of whole.executions) {
    const again = (after.get(step) ?? 0) - (before.get(step) ?? 0)
    const message = `runs of ${step} after the process was killed`
    if (step === executions.model) {
      // An answer that was kept before its step was completed is not asked for again, either
      const done = agents.reduce((sum, agent) => sum + (completed.get(agent) ?? 0), 0)
      assert.isAtMost(again, times - done, message)
    } else {
      assert.strictEqual(again, times - (completed.get(step) ?? 0), message)
    }
  }
  assert.deepStrictEqual(yield* results.resultOf(result, writes), whole.expected)
})

/** A task that is killed nowhere. */
const unharmed = { key, leaseMillis, killAt: 0, killAtStatement: 0, resume: false }

/** A process that is killed, or ends well; true if it was killed in time. */
const killed = Effect.fnUntraced(function* (task: Task) {
  const { code, errors, signal } = yield* Effect.promise(() => startWorker(task))
  // A band can have its points in another order, and be done before the last one
  if (signal !== "SIGKILL") assert.strictEqual(code, 0, errors)
  return signal === "SIGKILL"
})

/** Kills process after process under one key; then the last one ends the run. */
const chain = Effect.fnUntraced(function* (whole: Whole) {
  const { seed } = whole
  const dice = plans.random(seed + 2000)
  const { filename, log } = files(`chain-${seed}`)
  yield* Effect.gen(function* () {
    const checkpoint = yield* Checkpoint.Checkpoint
    const { bound } = yield* plans.make(seed, () => Effect.void)
    for (let life = 0; life < 5; life++) {
      const completed = completedIn(yield* checkpoint.load(bound, key))
      const before = executions.read(log)
      yield* killed({ ...unharmed, seed, filename, log, killAt: 2 + dice.below(16), resume: true })
      const after = executions.read(log)
      for (const [step, times] of whole.executions) {
        if (step === executions.model) continue
        const ran = (after.get(step) ?? 0) - (before.get(step) ?? 0)
        assert.isAtMost(ran, times - (completed.get(step) ?? 0), `runs of ${step} in life ${life} of ${seed}`)
      }
      yield* expired
    }
    yield* goOn(whole, log)
  }).pipe(Effect.provide(open(filename)))
})

interface Kill extends Partial<Pick<Task, "killAt" | "killAtStatement">> {
  readonly name: string
}

let count = 0

/** A process that is killed, and one that resumes; true if the first one was killed in time. */
const kill = Effect.fnUntraced(function* (whole: Whole, { name, ...at }: Kill) {
  count += 1
  const { filename, log } = files(`killed-${count}`)
  const wasKilled = yield* killed({ ...unharmed, seed: whole.seed, filename, log, ...at })
  yield* goOn(whole, log).pipe(
    Effect.provide(open(filename)),
    Effect.tapCause(() => Effect.logError(`seed ${whole.seed}, killed at ${name} ${JSON.stringify(at)}`))
  )
  return wasKilled
})

const seeds = oneIn(
  3,
  Array.from({ length: 21 }, (_, index) => index + 1)
)

const killsOf = (whole: Whole): ReadonlyArray<Kill> => {
  const dice = plans.random(whole.seed + 1000)
  const between = whole.points.flatMap((point, index) =>
    point === "between two steps" ? [{ name: point, killAt: index + 1 }] : []
  )
  const anywhere = () => ({ name: "anywhere", killAt: 1 + dice.below(whole.points.length) })
  const inDatabase = () => ({ name: "at a statement", killAtStatement: 1 + dice.below(whole.databasePoints) })
  return [...between, anywhere(), anywhere(), inDatabase()]
}

describe("PLAN-6 a process killed with SIGKILL", () => {
  it.live(
    "loses nothing and repeats nothing that was completed: random plans, at each point between two steps and at others",
    () =>
      Effect.gen(function* () {
        const wholes = yield* Effect.forEach(seeds, uninterrupted, { concurrency: 4 })
        const kills = wholes.flatMap((whole) => killsOf(whole).map((kill) => ({ whole, kill })))
        const inTime = yield* Effect.forEach(kills, ({ kill: at, whole }) => kill(whole, at), { concurrency: 8 })
        assert.isAtLeast(kills.length, 60)
        assert.isAtLeast(inTime.filter(Boolean).length, 0.8 * kills.length)
        yield* Effect.forEach(wholes.slice(0, 3), chain, { concurrency: 3, discard: true })
      })
  )

  it.live(
    "AGENT-7 L6 DUR-3 repeats no call of an agent in a step that had started, and no answer that was written",
    () =>
      Effect.gen(function* () {
        const run = points.make(0)
        const store = run.layer.pipe(Layer.provide(VersionedStore.layerMemory))
        const called = () => run.around(Effect.void)
        yield* agents
          .run(key, { called, asked: Effect.void })
          .pipe(Effect.provide(Checkpoint.layer().pipe(Layer.provide(store))))
        // In the middle of each call, and at the first and the last writes
        const inCalls = run.points.flatMap((point, index) => (point.endsWith("a step") ? [index + 1] : []))
        assert.strictEqual(inCalls.length, 2 * (agents.calls.length + agents.repeatable.length))
        const last = run.points.length
        const killAgent = Effect.fnUntraced(function* (killAt: number) {
          const { filename, log } = files(`agent-${killAt}`)
          assert.isTrue(yield* killed({ ...unharmed, seed: 0, filename, log, killAt, agent: true }))
          yield* Effect.gen(function* () {
            const { ran } = executions.open(log)
            yield* expired
            const result = yield* agents.run(key, { called: ran, asked: ran(executions.model) })
            assert.strictEqual(completed(result).text, "done")
          }).pipe(Effect.provide(open(filename)))
          const counts = executions.read(log)
          for (const call of agents.repeatable)
            assert.isAtLeast(counts.get(call) ?? 0, 1, `${call}, killed at ${killAt}`)
          for (const call of agents.calls) assert.isAtMost(counts.get(call) ?? 0, 1, `${call}, killed at ${killAt}`)
          assert.isAtMost(counts.get(executions.model) ?? 0, 6)
        })
        yield* Effect.forEach([2, 4, ...inCalls, last - 2, last - 1], killAgent, { concurrency: 8 })
      })
  )
})
