/**
 * One process that runs a plan under a key, and kills itself. It is frozen when it has
 * warmed up, and gets its task when it is started again. Deep imports: hundreds are started.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { startupSnapshot } from "node:v8"
import { VersionedStore } from "effect-emissary"
import { Checkpoint } from "effect-emissary/plan"

import * as killable from "../../store/killable.ts"
import * as agents from "./agents.ts"
import * as executions from "./executions.ts"
import * as plans from "./plans.ts"
import * as points from "./points.ts"

export interface Task {
  readonly seed: number
  readonly key: string
  /** The place of the store. */
  readonly filename: string
  /** The file with the steps that were run. */
  readonly log: string
  readonly leaseMillis: number
  /** The point of the run, or of the use of the database, at which the process kills itself. */
  readonly killAt: number
  readonly killAtStatement: number
  readonly resume: boolean
  /** Runs the plan of the agent in place of a random one. */
  readonly agent?: boolean
}

const perform = (task: Task) => {
  const run = points.make(task.killAt)
  const database = killable.make(task.killAtStatement)
  const store = run.layer.pipe(Layer.provide(VersionedStore.layerSql()), Layer.provide(database.layer(task.filename)))
  const log = executions.open(task.log)
  const ran = (step: string) => run.around(log.ran(step))
  return Effect.gen(function* () {
    if (task.agent === true) return yield* agents.run(task.key, { called: ran, asked: log.ran(executions.model) })
    const checkpoint = yield* Checkpoint.Checkpoint
    const { bound } = yield* plans.make(task.seed, ran)
    yield* database.arm
    return yield* checkpoint.run(bound, {
      key: task.key,
      input: plans.input(task.seed),
      policy: task.resume ? "startOrResume" : "start"
    })
  }).pipe(
    Effect.provide(Checkpoint.layer({ leaseTime: task.leaseMillis }).pipe(Layer.provide(store))),
    Effect.provide(plans.model(log.ran(executions.model)))
  )
}

/** Runs plans in memory: their code is compiled before the process is frozen. */
const warmUp = Effect.forEach(
  [1, 2, 3],
  Effect.fnUntraced(function* (seed) {
    const checkpoint = yield* Checkpoint.Checkpoint
    const { bound } = yield* plans.make(seed, () => Effect.void)
    yield* checkpoint.run(bound, { key: `warm up ${seed}`, input: plans.input(seed) })
  })
).pipe(
  Effect.provide(Checkpoint.layer().pipe(Layer.provide(VersionedStore.layerMemory))),
  Effect.provide(plans.model(Effect.void))
)

// Before the process is frozen
void Effect.runPromise(warmUp)

startupSnapshot.setDeserializeMainFunction(() => {
  // The tests wrote it
  const task = JSON.parse(process.argv.at(-1) ?? "{}") as Task
  void Effect.runPromise(perform(task))
})
