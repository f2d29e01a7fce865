/**
 * Runs of plans that survive their process.
 *
 * **When to use**
 *
 * Use it for plans that take long, cost something, or wait for people: a run is kept
 * under a key while it happens, and any process that has the plan can go on with it.
 *
 * **Details**
 *
 * What a run does is appended to a journal, and its head, one value under the key, says
 * how far it is. Only the head says what belongs to the run, and it is changed by
 * compare-and-set, so each step is completed as a whole or not at all, whenever the
 * process dies. A step that is completed never runs again; the state of a run is what
 * its journal says, so counters, branches and what agents inside have said go on, too.
 * What a step costs in the store does not depend on how many there were before.
 *
 * One process at a time has a key: it holds a lease, which every write and a heartbeat
 * renew. A run whose lease holds cannot be taken by anybody; one whose process died can
 * be when the lease has ended. A process that was only slow and has lost its lease is
 * stopped: its steps are interrupted, and it writes nothing more.
 *
 * The values of steps with `writes` are also written for others to {@link Service.read},
 * after the step is completed, and each once: what was not done when a process died is
 * done first by the next one, unless another run has written there since. They stand in a
 * part of the namespace of their own. Only the steps of the plan itself write, those of
 * plans inside it do not.
 *
 * **Gotchas**
 *
 * - A step that was running when the process died runs again. Between its side effect
 *   and its completion there is no transaction: make steps idempotent.
 * - Whether a lease has ended is judged by the clock of who asks. Clocks of machines
 *   have to agree to within a fraction of the lease.
 * - `restart` leaves the run that was there as it was, and with it writes that it had not
 *   done yet.
 * - The journal is trusted: it says what steps gave and who approved what. Only your
 *   program should be able to write to the store.
 *
 * **Example** (Going on after a failure)
 *
 * ```ts
 * import { Effect, Option } from "effect"
 * import { Checkpoint, Plan, Step } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * let isDown = true
 * const program = Effect.gen(function*() {
 *   const plan = yield* Plan.make(
 *     Step.make("research", { target: ({ task }) => Effect.succeed(`facts about ${task}`) }),
 *     Step.make("publish", {
 *       target: ({ task }) => isDown ? Effect.fail({ _tag: "Down", message: "no network" }) : Effect.succeed(`published ${task}`),
 *       writes: "newest"
 *     })
 *   )
 *   const report = yield* Plan.bind(plan)
 *   const checkpoint = yield* Checkpoint.Checkpoint
 *
 *   yield* Effect.flip(checkpoint.run(report, { key: "report/42", input: "whales" }))
 *   const found = Option.getOrThrow(yield* checkpoint.inspect("report/42"))
 *   assert.strictEqual(found.status, "failed")
 *   assert.strictEqual(found.completed, 1)
 *
 *   isDown = false
 *   const result = yield* checkpoint.resume(report, { key: "report/42" })
 *   assert.strictEqual(result.outcome, "Completed")
 *   return yield* checkpoint.read("newest")
 * })
 *
 * const newest = await Effect.runPromise(Effect.provide(program, Checkpoint.layerMemory))
 * assert.strictEqual(Option.getOrThrow(newest).value, "published facts about whales")
 * ```
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import * as VersionedStore from "../conversation/VersionedStore.ts"
import type { CheckpointError, Status } from "./CheckpointError.ts"
import * as service from "./internal/checkpoint/service.ts"
import type { Bound } from "./Plan.ts"
import type { PlanError } from "./PlanError.ts"
import type { PlanEvent } from "./PlanEvent.ts"
import type * as PlanInput from "./PlanInput.ts"
import type * as PlanOptions from "./PlanOptions.ts"
import type { PlanResult } from "./PlanResult.ts"
import type { PlanRunState } from "./PlanRunState.ts"

/**
 * What to do about what is under the key.
 *
 * **Details**
 *
 * | under the key | `start` | `startOrResume` | `restart` |
 * |---|---|---|---|
 * | nothing | starts | starts | starts |
 * | `done` | starts anew | gives the recorded result | starts anew |
 * | `cancelled` | starts anew | goes on | starts anew |
 * | `failed`, `paused`, a process that died | `Unfinished` | goes on | starts anew |
 * | a run whose lease holds | `RunActive` | `RunActive` | `RunActive` |
 * | anything else | `Unreadable` | `Unreadable` | `Unreadable` |
 *
 * `startOrResume` goes on only if the input is the one the run began with, and fails with
 * `InputDiffers` otherwise, also where the run is done: a job that runs every night
 * under one key is told so instead of running once ever. It fails with `PlanChanged` if
 * the plan was edited since, also where the run is done.
 *
 * `fork` starts a run of its own under the key `<key>:<unique>`, whatever is there. What
 * its steps write is its own, too.
 *
 * @category models
 * @since 0.1.0
 */
export type Policy = "start" | "startOrResume" | "restart" | "fork"

/**
 * Options of going on with the run under a key.
 *
 * **Details**
 *
 * The input is the one the run began with. `context` and `maxIterations` are, too,
 * unless they are given; `maxIterations` counts what the run did before.
 *
 * @category options
 * @since 0.1.0
 */
export interface ResumeOptions extends Omit<PlanOptions.ResumeOptions, "journal"> {
  readonly key: string
}

/**
 * Options of a run under a key. `policy` is `"start"` unless given; one that is none of
 * the four is a defect.
 *
 * **Details**
 *
 * Decisions are taken by {@link Service.resume} alone: a run that `startOrResume` goes on
 * with goes on waiting for them.
 *
 * @category options
 * @since 0.1.0
 */
export interface RunOptions extends Omit<PlanOptions.PlanOptions, "journal"> {
  readonly key: string
  readonly input: PlanInput.Input
  readonly policy?: Policy | undefined
}

/**
 * What a run gives, and the key it is kept under: that of the fork, for a fork.
 *
 * @category models
 * @since 0.1.0
 */
export type Result<A> = PlanResult<A> & { readonly key: string }

/**
 * What is known of the run under a key without reading what it did.
 *
 * **Details**
 *
 * - `live`: its lease holds now, so nobody else can take it.
 * - `leaseUntil`: absent once the run has ended.
 * - `epoch`: how often somebody took the key.
 * - `runId`: absent before the run has begun.
 * - `completed`: how many results of steps its history has.
 * - `pendingWrites`: keys of durable writes that may not be done yet.
 * - `outcome`: the tag of its `PlanOutcome`, and words for people.
 *
 * @category models
 * @since 0.1.0
 */
export interface Inspection {
  readonly key: string
  readonly status: Status
  readonly live: boolean
  readonly owner: string
  readonly leaseUntil: DateTime.Utc | undefined
  readonly epoch: number
  readonly plan: string
  readonly digest: string
  readonly runId: string | undefined
  readonly fork: boolean
  readonly iterations: number
  readonly completed: number
  readonly pendingWrites: ReadonlyArray<string>
  readonly outcome: { readonly _tag: string; readonly message?: string } | undefined
  readonly updatedAt: DateTime.Utc
}

/**
 * A value that a step wrote: which step of which run, and the place of its result in the
 * history of the run.
 *
 * @category models
 * @since 0.1.0
 */
export interface Write {
  readonly value: Schema.Json
  readonly runId: string
  readonly record: number
  readonly step: string
  readonly at: DateTime.Utc
}

/**
 * Keys in the order of their UTF-16 code units. `next` is the `after` of the next page,
 * `None` on the last one.
 *
 * @category models
 * @since 0.1.0
 */
export interface Page {
  readonly keys: ReadonlyArray<string>
  readonly next: Option.Option<string>
}

/**
 * What checkpoints can do. Keys are any text.
 *
 * **Details**
 *
 * - `run`: runs a plan under a key, see {@link Policy}.
 * - `resume`: goes on with the run under a key; a run that is done gives its recorded
 *   result, and nothing runs. Fails with `NothingToResume` if there is none, with
 *   `RunActive` if somebody runs it, with `PlanChanged` if the plan was edited.
 * - `stream`, `resumeStream`: the same, told event by event; `Checkpointed` is told after
 *   facts were written. A stream that nobody reads to the end is cancelled.
 * - `inspect`: how far it is, at the cost of one value.
 * - `load`: the state of the run, `None` if there is none or it has not begun.
 * - `list`: keys in pages; `prefix`, `after` and `limit` (default 100) as in
 *   `VersionedStore`.
 * - `remove`: deletes a run, and whether there was one; what steps wrote stays, unless
 *   it is a fork. Fails with `RunActive` if somebody runs it and with `Unreadable` if it
 *   is no run; `force` deletes even so, and a run that goes on then stops.
 * - `read`: the value that a step wrote last, of any run or of the fork with that key.
 * - `isCurrent`: whether what is written there was written by the run that is under the
 *   key now.
 *
 * Errors of the run itself are `PlanError`, as in `Plan.run`; what the store, the lease
 * or the key is about is `CheckpointError`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  readonly run: <A, R>(
    plan: Bound<A, R>,
    options: RunOptions
  ) => Effect.Effect<Result<A>, PlanError | CheckpointError, R>
  readonly resume: <A, R>(
    plan: Bound<A, R>,
    options: ResumeOptions
  ) => Effect.Effect<Result<A>, PlanError | CheckpointError, R>
  readonly stream: <A, R>(
    plan: Bound<A, R>,
    options: RunOptions
  ) => Stream.Stream<PlanEvent<A>, PlanError | CheckpointError, R>
  readonly resumeStream: <A, R>(
    plan: Bound<A, R>,
    options: ResumeOptions
  ) => Stream.Stream<PlanEvent<A>, PlanError | CheckpointError, R>
  readonly inspect: (key: string) => Effect.Effect<Option.Option<Inspection>, CheckpointError>
  readonly load: <A, R>(
    plan: Bound<A, R>,
    key: string
  ) => Effect.Effect<Option.Option<PlanRunState>, PlanError | CheckpointError>
  readonly list: (options?: VersionedStore.ListOptions) => Effect.Effect<Page, CheckpointError>
  readonly remove: (
    key: string,
    options?: { readonly force?: boolean | undefined }
  ) => Effect.Effect<boolean, CheckpointError>
  readonly read: (
    write: string,
    options?: { readonly fork?: string | undefined }
  ) => Effect.Effect<Option.Option<Write>, CheckpointError>
  readonly isCurrent: (key: string, write: string) => Effect.Effect<boolean, CheckpointError>
}

/**
 * Runs of plans that survive their process.
 *
 * @category services
 * @since 0.1.0
 */
export class Checkpoint extends Context.Service<Checkpoint, Service>()("effect-emissary/plan/Checkpoint") {}

/**
 * Options of {@link layer}.
 *
 * **Details**
 *
 * - `namespace`: what the keys in the `VersionedStore` start with; default `"plan"`.
 *   Checkpoints with different namespaces do not see each other, nor each other's writes.
 * - `leaseTime`: how long a process that died keeps its key; default 30 seconds.
 * - `heartbeat`: how often a lease is renewed while nothing else is written; default a
 *   third of `leaseTime`, at most half of it. Anything else is a bug: the layer dies.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly namespace?: string | undefined
  readonly leaseTime?: Duration.Input | undefined
  readonly heartbeat?: Duration.Input | undefined
}

/**
 * Keeps runs in a `VersionedStore`: in memory, in one file, in a database.
 *
 * **Details**
 *
 * With the namespace `plan` the head of a run is stored under `plan/head/<key>`, what it
 * did under `plan/journal/`, what steps wrote under `plan/writes/<key of the write>`, and
 * under `plan/forks/` for a fork. A run writes two values for each batch of facts, which
 * is once or twice for a step, and one more for a step with `writes`.
 *
 * A store that fails stops the run with `StoreFailed`; what was written is complete. If
 * the store cannot even take the last status, the run can be taken up when its lease has
 * ended.
 *
 * **Example** (Runs in one file)
 *
 * ```ts no-run
 * import { Layer } from "effect"
 * import { SqliteClient } from "effect-emissary/node"
 * import { Checkpoint } from "effect-emissary/plan"
 *
 * export const checkpoints = Checkpoint.layer({ leaseTime: "1 minute" }).pipe(
 *   Layer.provide(SqliteClient.layerStore({ filename: "runs.sqlite" }))
 * )
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Checkpoint, never, VersionedStore.VersionedStore> =>
  Layer.effect(Checkpoint, service.make(options ?? {}))

/**
 * Keeps runs in memory, for as long as the layer lives. For tests.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<Checkpoint> = Layer.provide(layer(), VersionedStore.layerMemory)
