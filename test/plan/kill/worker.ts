/**
 * One process that runs a plan under a key, and kills itself. Deep imports: hundreds of
 * these are started.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as VersionedStore from "../../../src/conversation/VersionedStore.ts"
import * as Checkpoint from "../../../src/plan/Checkpoint.ts"
import * as killable from "../../conversation/store/killable.ts"
import * as executions from "./executions.ts"
import * as plans from "./plans.ts"
import * as points from "./points.ts"

export interface Task {
  readonly seed: number
  readonly key: string
  /** Where the store is. */
  readonly filename: string
  /** The file that says which steps were run. */
  readonly log: string
  readonly leaseMillis: number
  /** The point of the run, or of the use of the database, at which the process kills itself. */
  readonly killAt: number
  readonly killAtStatement: number
  readonly resume: boolean
}

// The tests wrote it
const task = JSON.parse(process.argv[2] ?? "{}") as Task

const run = points.make(task.killAt)
const database = killable.make(task.killAtStatement)

const store = run.layer.pipe(Layer.provide(VersionedStore.layerSql()), Layer.provide(database.layer(task.filename)))

const program = Effect.gen(function* () {
  const checkpoint = yield* Checkpoint.Checkpoint
  const log = executions.open(task.log)
  const { bound } = yield* plans.make(task.seed, (step) =>
    Effect.andThen(Effect.andThen(run.point("before a step"), log.ran(step)), run.point("after a step"))
  )
  yield* database.arm
  yield* checkpoint.run(bound, {
    key: task.key,
    input: plans.input(task.seed),
    policy: task.resume ? "startOrResume" : "start"
  })
})

await Effect.runPromise(
  program.pipe(
    Effect.provide(Checkpoint.layer({ leaseTime: task.leaseMillis }).pipe(Layer.provide(store))),
    Effect.provide(plans.model(executions.open(task.log).ran(executions.model)))
  )
)
