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

import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as VersionedStore from "../conversation/VersionedStore.ts"
import * as Digest from "../payload/Digest.ts"
import type { JsonObject } from "../payload/Json.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import * as paths from "../payload/internal/paths.ts"
import * as Plan from "./Plan.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import * as PlanError from "./PlanError.ts"
import type { PlanEvent } from "./PlanEvent.ts"
import * as PlanRun from "./PlanRun.ts"
import * as checkpointRecord from "./internal/checkpointRecord.ts"
import * as engine from "./internal/engine.ts"
import type * as livePlan from "./internal/livePlan.ts"
import * as performStep from "./internal/performStep.ts"
import * as planTransition from "./internal/planTransition.ts"

/**
 * How far the run under a key is.
 *
 * **Details**
 *
 * | status | meaning |
 * |---|---|
 * | `claimed` | a process has taken the key and nothing has happened yet |
 * | `running` | it runs, or its process died |
 * | `paused` | steps wait for somebody |
 * | `failed` | a step failed, the iterations were used up, or a write was refused |
 * | `cancelled` | somebody stopped it |
 * | `done` | it has its result, and all writes are done |
 *
 * @category models
 * @since 0.1.0
 */
export const Status = Schema.Literals(["claimed", "running", "paused", "failed", "cancelled", "done"])

/**
 * How far the run under a key is.
 *
 * @category models
 * @since 0.1.0
 */
export type Status = typeof Status.Type

const leaseText = (time: DateTime.Utc): string => DateTime.formatIso(time)

/**
 * Another process runs this key now. Its lease ends at `leaseUntil`, unless it is
 * renewed. Nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class RunActive extends Schema.TaggedError<RunActive>("effect-emissary/plan/RunActive")("RunActive", {
  owner: Schema.String,
  status: Status,
  leaseUntil: Schema.DateTimeUtcFromMillis
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected nobody to run it, found that ${paths.quote(this.owner)} does (status ${this.status}, lease until ${leaseText(this.leaseUntil)}). Wait for it, or try again after the lease: a run whose process died does not renew it`
  }
}

/**
 * There is an unfinished run under the key that nobody works on. Starting would throw
 * away what it has done. Nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unfinished extends Schema.TaggedError<Unfinished>("effect-emissary/plan/Unfinished")("Unfinished", {
  owner: Schema.String,
  status: Status,
  leaseUntil: Schema.optionalKey(Schema.DateTimeUtcFromMillis)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const lease = this.leaseUntil === undefined ? "" : `, its lease ended ${leaseText(this.leaseUntil)}`
    return `expected no unfinished run, found one of ${paths.quote(this.owner)} (status ${this.status}${lease}). Resume it, use another key, or throw away what it did with the policy "restart"`
  }
}

/**
 * There is no run under the key.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NothingToResume extends Schema.TaggedError<NothingToResume>("effect-emissary/plan/NothingToResume")(
  "NothingToResume",
  {}
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected a run, found none. Start one, or use the policy "startOrResume"`
  }
}

/**
 * The run under the key began with another input than the one that was given.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InputDiffers extends Schema.TaggedError<InputDiffers>("effect-emissary/plan/InputDiffers")(
  "InputDiffers",
  { status: Status }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected the input that the run (status ${this.status}) began with, found another one. Use a key per input; or start anew with the policy ${this.status === "done" ? `"start"` : `"restart"`}`
  }
}

/**
 * The run was stopped because it does not hold its key any more: its lease had ended and
 * another process has taken the key, or the run was removed. The steps that ran were
 * interrupted, and nothing more was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class LeaseLost extends Schema.TaggedError<LeaseLost>("effect-emissary/plan/LeaseLost")("LeaseLost", {
  owner: Schema.String,
  found: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected the lease of ${paths.quote(this.owner)}, found ${this.found}. The run was stopped and has written nothing since; give it a longer lease if its process was only slow`
  }
}

/**
 * What is stored under the key is nothing that this release can read: it was damaged,
 * somebody else wrote it, or a newer release did. It was left as it is.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unreadable extends Schema.TaggedError<Unreadable>("effect-emissary/plan/UnreadableCheckpoint")(
  "Unreadable",
  { stored: Schema.String, error: PayloadError.PayloadError }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `what is stored under ${paths.quote(this.stored)} cannot be read and was left as it is: ${this.error.message}. Use another key or namespace, or remove it with { force: true }`
  }
}

/**
 * Part of what the run did is missing, or is not what the run says it did. Nothing was
 * skipped and nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Damaged extends Schema.TaggedError<Damaged>("effect-emissary/plan/DamagedCheckpoint")("Damaged", {
  stored: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${paths.quote(this.stored)}: ${this.problem}. Restore it from a backup, or begin anew with the policy "restart"`
  }
}

/**
 * What the run did cannot be stored: beyond the limits, or with a secret inside. The
 * run stopped before it.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Refused extends Schema.TaggedError<Refused>("effect-emissary/plan/RefusedCheckpoint")("Refused", {
  error: PayloadError.PayloadError
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `refused, nothing was written: ${this.error.message}`
  }
}

/**
 * The store failed. What was stored before is complete, and the run can be resumed.
 *
 * @category reasons
 * @since 0.1.0
 */
export class StoreFailed extends Schema.TaggedError<StoreFailed>("effect-emissary/plan/CheckpointStoreFailed")(
  "StoreFailed",
  { error: VersionedStore.VersionedStoreError }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${this.error.message}. What was stored before is complete: resume the run when the store answers again`
  }
}

/**
 * The durable write of a step failed. The step is done and does not run again; the
 * write is done first when the run is resumed.
 *
 * @category reasons
 * @since 0.1.0
 */
export class WriteFailed extends Schema.TaggedError<WriteFailed>("effect-emissary/plan/WriteFailed")("WriteFailed", {
  write: Schema.String,
  step: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `step ${paths.quote(this.step)} is done, and its write ${paths.quote(this.write)} failed: ${this.problem}. Resume the run: the write is done first, and the step does not run again`
  }
}

/**
 * Why a run was not begun, kept or found.
 *
 * @category reasons
 * @since 0.1.0
 */
export const Reason = Schema.Union([
  RunActive,
  Unfinished,
  NothingToResume,
  InputDiffers,
  LeaseLost,
  Unreadable,
  Damaged,
  Refused,
  StoreFailed,
  WriteFailed
])

/**
 * Why a run was not begun, kept or found.
 *
 * @category reasons
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * A run was not begun, kept or found under its key.
 *
 * @category errors
 * @since 0.1.0
 */
export class CheckpointError extends Schema.TaggedError<CheckpointError>("effect-emissary/plan/CheckpointError")(
  "CheckpointError",
  { key: Schema.optionalKey(Schema.String), reason: Reason }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const key = this.key === undefined ? "checkpoints" : `checkpoint ${paths.quote(this.key)}`
    return `${key}: ${this.reason.message}`
  }
}

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
export interface ResumeOptions extends Omit<livePlan.ResumeOptions, "journal"> {
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
export interface RunOptions extends Omit<livePlan.RunOptions, "journal"> {
  readonly key: string
  readonly input: PlanRun.Input
  readonly policy?: Policy | undefined
}

/**
 * What a run gives, and the key it is kept under: that of the fork, for a fork.
 *
 * @category models
 * @since 0.1.0
 */
export type RunResult<A> = PlanRun.Result<A> & { readonly key: string }

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
export interface StoredWrite {
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
    plan: livePlan.Bound<A, R>,
    options: RunOptions
  ) => Effect.Effect<RunResult<A>, PlanError.PlanError | CheckpointError, R>
  readonly resume: <A, R>(
    plan: livePlan.Bound<A, R>,
    options: ResumeOptions
  ) => Effect.Effect<RunResult<A>, PlanError.PlanError | CheckpointError, R>
  readonly stream: <A, R>(
    plan: livePlan.Bound<A, R>,
    options: RunOptions
  ) => Stream.Stream<PlanEvent<A>, PlanError.PlanError | CheckpointError, R>
  readonly resumeStream: <A, R>(
    plan: livePlan.Bound<A, R>,
    options: ResumeOptions
  ) => Stream.Stream<PlanEvent<A>, PlanError.PlanError | CheckpointError, R>
  readonly inspect: (key: string) => Effect.Effect<Option.Option<Inspection>, CheckpointError>
  readonly load: <A, R>(
    plan: livePlan.Bound<A, R>,
    key: string
  ) => Effect.Effect<Option.Option<PlanRun.State>, PlanError.PlanError | CheckpointError>
  readonly list: (options?: VersionedStore.ListOptions) => Effect.Effect<Page, CheckpointError>
  readonly remove: (
    key: string,
    options?: { readonly force?: boolean | undefined }
  ) => Effect.Effect<boolean, CheckpointError>
  readonly read: (
    write: string,
    options?: { readonly fork?: string | undefined }
  ) => Effect.Effect<Option.Option<StoredWrite>, CheckpointError>
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
 * export const checkpoints = Checkpoint.layer({ leaseTime: "1 minute" }).pipe(
 *   Layer.provide(SqliteClient.layerStore({ filename: "runs.sqlite" }))
 * )
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Checkpoint, never, VersionedStore.VersionedStore> =>
  Layer.effect(Checkpoint, makeService(options ?? {}))

const leaseOptions = (options: Options): Effect.Effect<Lease> => {
  const time = Duration.fromInputUnsafe(options.leaseTime ?? "30 seconds")
  const heartbeat =
    options.heartbeat === undefined ? Duration.times(time, 1 / 3) : Duration.fromInputUnsafe(options.heartbeat)
  return Duration.isGreaterThan(heartbeat, Duration.zero) &&
    Duration.isLessThanOrEqualTo(Duration.times(heartbeat, 2), time)
    ? Effect.succeed({ time, heartbeat })
    : Effect.die(
        new Error(
          `Checkpoint.layer: expected a heartbeat of at most half the leaseTime (${Duration.format(time)}), found ${Duration.format(heartbeat)}`
        )
      )
}

const knownPolicies: ReadonlySet<unknown> = new Set<Policy>(["start", "startOrResume", "restart", "fork"])

/** Whoever configures without types must not start anew what was to be kept. */
const unknownPolicy = (found: unknown): TypeError =>
  new TypeError(
    `Checkpoint: expected the policy "start", "startOrResume", "restart" or "fork", found ${typeof found === "string" ? JSON.stringify(found) : typeof found}`
  )

/** What of the options is for the engine. */
const withoutCheckpoint = ({
  input: _input,
  key: _key,
  policy: _policy,
  ...rest
}: GivenOptions): livePlan.ResumeOptions => rest

/** The options of this call over those the run was begun with. */
const engineOptions = (options: GivenOptions, session: Session, begin?: RunBegin): livePlan.ResumeOptions => ({
  ...withoutCheckpoint(options),
  context: options.context ?? begin?.context,
  maxIterations: options.maxIterations ?? begin?.maxIterations,
  journal: session.journal
})

const makeService = (options: Options): Effect.Effect<Service, never, VersionedStore.VersionedStore> =>
  Effect.gen(function* () {
    const lease = yield* leaseOptions(options)
    const storage = makeStorage(
      yield* VersionedStore.VersionedStore,
      checkpointRecord.makeKeys(options.namespace ?? "plan")
    )
    const claiming = makeClaims(storage, lease)

    const fail = (key: string | undefined) => (reason: Reason) =>
      new CheckpointError({ ...(key === undefined ? {} : { key }), reason })

    const start = Effect.fnUntraced(function* <A, R>(
      plan: livePlan.Bound<A, R>,
      { context, input, key, maxIterations, policy = "start" }: RunOptions
    ) {
      if (!knownPolicies.has(policy)) return yield* Effect.die(unknownPolicy(policy))
      const begin: RunBegin = {
        input: yield* performStep.resolveInput(plan.live.definition.name, input),
        context,
        maxIterations
      }
      const bound = plan.live
      return policy === "fork"
        ? yield* claiming.start(bound, `${key}:${yield* checkpointRecord.makeNonce}`, begin, {
            policy: "start",
            fork: true
          })
        : yield* claiming.start(bound, key, begin, { policy, fork: false })
    })

    const goOn = <A, R>(plan: livePlan.Bound<A, R>, { key }: ResumeOptions) => claiming.resume(plan.live, key)

    /** The error that stopped the run instead of the one that the engine made of it. */
    const explain =
      (session: Session) =>
      (error: PlanError.PlanError | CheckpointError): PlanError.PlanError | CheckpointError =>
        session.failure() ?? error

    const withKey = <A>(key: string, result: PlanRun.Result<A>) => ({ ...result, key })

    const perform = <A, R>(
      plan: livePlan.Bound<A, R>,
      options: ResumeOptions,
      taking: Effect.Effect<Claim, PlanError.PlanError | CheckpointError>
    ) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const taken = yield* taking
          if (taken._tag === "Done") {
            return withKey(taken.key, yield* restore(Plan.resume(plan, taken.state, withoutCheckpoint(options))))
          }
          const session = openSession(storage, lease, taken.claimed)
          const engine = Effect.suspend(() =>
            taken._tag === "Run"
              ? Plan.run(plan, taken.begin.input, engineOptions(options, session, taken.begin))
              : Plan.resume(plan, taken.state, engineOptions(options, session))
          )
          const running = Effect.scoped(
            Effect.andThen(
              Effect.forkScoped(session.beat),
              Effect.raceFirst(Effect.andThen(session.tidy, engine), session.stopped)
            )
          )
          const exit = yield* Effect.exit(Effect.mapError(restore(running), explain(session)))
          yield* session.settle(exit)
          return withKey(session.key, yield* exit)
        })
      )

    const told = <A, R>(
      plan: livePlan.Bound<A, R>,
      options: ResumeOptions,
      taking: Effect.Effect<Claim, PlanError.PlanError | CheckpointError>
    ) =>
      Stream.unwrap(
        Effect.uninterruptible(
          Effect.gen(function* () {
            const taken = yield* taking
            if (taken._tag === "Done") return Plan.resumeStream(plan, taken.state, withoutCheckpoint(options))
            const session = openSession(storage, lease, taken.claimed)
            // A failure of the last write has nowhere to go once the stream has ended
            yield* Effect.addFinalizer((exit) =>
              Effect.catch(session.settle(Exit.asVoid(exit)), (error) => Effect.logWarning(error.message))
            )
            yield* Effect.forkScoped(Effect.interruptible(session.beat))
            const engine =
              taken._tag === "Run"
                ? Plan.stream(plan, taken.begin.input, engineOptions(options, session, taken.begin))
                : Plan.resumeStream(plan, taken.state, engineOptions(options, session))
            return Stream.unwrap(Effect.as(session.tidy, engine)).pipe(
              Stream.interruptWhen(session.stopped),
              Stream.mapError(explain(session))
            )
          })
        )
      )

    const inspect = Effect.fn("Checkpoint.inspect")(function* (key: string) {
      const found = yield* Effect.mapError(storage.head(key), fail(key))
      if (Option.isNone(found)) return Option.none()
      const { head } = found.value
      const { outcome } = head
      return Option.some<Inspection>({
        key,
        status: head.status,
        live: isLeased(head, yield* DateTime.now),
        owner: head.owner,
        leaseUntil: head.lease,
        epoch: head.epoch,
        plan: head.plan,
        digest: head.digest,
        runId: head.run,
        fork: head.fork,
        iterations: head.iterations,
        completed: head.completed,
        pendingWrites: head.pending.map(({ write }) => write),
        outcome:
          outcome === undefined
            ? undefined
            : { _tag: outcome.type, ...(outcome.message === undefined ? {} : { message: outcome.message }) },
        updatedAt: head.updated
      })
    })

    /** What is missing can be that of a run that somebody began anew since the head was read. */
    const load = Effect.fnUntraced(function* (
      plan: livePlan.BoundPlan,
      key: string
    ): Effect.fn.Return<Option.Option<PlanRun.State>, Reason | PlanError.PlanError> {
      for (;;) {
        const found = yield* storage.head(key)
        if (Option.isNone(found)) return Option.none()
        const { head } = found.value
        const state = yield* Effect.result(claiming.stateOf(plan, key, head))
        if (Result.isSuccess(state)) return Option.fromUndefinedOr(state.success)
        if (state.failure._tag !== "Damaged") return yield* Effect.fail(state.failure)
        const now = yield* storage.head(key)
        if (Option.isSome(now) && now.value.head.generation === head.generation) return yield* state.failure
      }
    })

    const remove = Effect.fn("Checkpoint.remove")(function* (
      key: string,
      options?: { readonly force?: boolean | undefined }
    ) {
      const force = options?.force ?? false
      return yield* storage.remove(key, force).pipe(Effect.mapError(fail(key)))
    })

    return {
      run: (plan, options) => perform(plan, options, start(plan, options)).pipe(Effect.withSpan("Checkpoint.run")),
      resume: (plan, options) => perform(plan, options, goOn(plan, options)).pipe(Effect.withSpan("Checkpoint.resume")),
      stream: (plan, options) => told(plan, options, start(plan, options)),
      resumeStream: (plan, options) => told(plan, options, goOn(plan, options)),
      inspect,
      load: Effect.fn("Checkpoint.load")((plan, key) =>
        Effect.mapError(load(plan.live, key), (error) => (error._tag === "PlanError" ? error : fail(key)(error)))
      ),
      list: Effect.fn("Checkpoint.list")((options) => Effect.mapError(storage.list(options), fail(undefined))),
      remove,
      read: Effect.fn("Checkpoint.read")(function* (write, options) {
        const found = yield* Effect.mapError(storage.write(write, options?.fork), fail(options?.fork))
        return Option.map(found, ({ write: { at, record, run, step, value } }) => ({
          value,
          runId: run,
          record,
          step,
          at
        }))
      }),
      isCurrent: Effect.fn("Checkpoint.isCurrent")(function* (key, write) {
        const head = yield* Effect.mapError(storage.head(key), fail(key))
        if (Option.isNone(head) || head.value.head.run === undefined) return false
        const { fork, run } = head.value.head
        const found = yield* Effect.mapError(storage.write(write, fork ? key : undefined), fail(key))
        return Option.isSome(found) && found.value.write.run === run
      })
    } satisfies Service
  })

const isSameInput = (a: PlanRun.ResolvedInput, b: PlanRun.ResolvedInput): Effect.Effect<boolean, never> =>
  Effect.gen(function* () {
    // Plain JSON, whatever the types of its parts say
    const [x, y] = yield* Effect.all([encodeInput(a), encodeInput(b)])
    return Result.getOrUndefined(Digest.canonicalize(x)) === Result.getOrUndefined(Digest.canonicalize(y))
  })

const encodeInput = (input: PlanRun.ResolvedInput) =>
  Effect.orDie(checkpointRecord.Begun.encode({ generation: "", input }))

const makeClaims = (storage: Storage, lease: Lease): Claims => {
  const named =
    (key: string) =>
    <A>(
      effect: Effect.Effect<A, Reason | PlanError.PlanError>
    ): Effect.Effect<A, CheckpointError | PlanError.PlanError> =>
      Effect.mapError(effect, (error) =>
        error._tag === "PlanError" ? error : new CheckpointError({ key, reason: error })
      )

  const changed = (plan: livePlan.BoundPlan, head: checkpointRecord.Head): Effect.Effect<void, PlanError.PlanError> =>
    head.digest === plan.digest
      ? Effect.void
      : Effect.fail(
          new PlanError.PlanError({
            plan: plan.definition.name,
            reason: { _tag: "PlanChanged", expected: head.digest, found: plan.digest }
          })
        )

  const stateOf = Effect.fnUntraced(function* (plan: livePlan.BoundPlan, key: string, head: checkpointRecord.Head) {
    yield* changed(plan, head)
    const events = yield* storage.events(key, head)
    const stored = storage.keys.journal(key)
    const damaged = (problem: string) => new Damaged({ stored, problem })
    if (events.length === 0 && head.revision === 0) return undefined
    const rules = yield* engine.completeRules(plan)
    const edited = engine.changedNestedPlan(rules, events)
    if (edited !== undefined) return yield* edited
    const state = yield* Effect.mapError(Effect.fromResult(planTransition.fold(rules, events)), (error) =>
      damaged(`expected events that follow each other, found ${error.message}`)
    )
    if (state.revision !== head.revision || state.runId !== head.run) {
      return yield* damaged(
        `expected event ${head.revision} of run ${head.run ?? "unknown"}, found event ${state.revision} of run ${state.runId}`
      )
    }
    return state
  })

  /** Who is refused because somebody works on it. */
  const active = (head: checkpointRecord.Head, now: DateTime.Utc): Effect.Effect<void, RunActive> =>
    head.lease !== undefined && isLeased(head, now)
      ? Effect.fail(new RunActive({ owner: head.owner, status: head.status, leaseUntil: head.lease }))
      : Effect.void

  const begin = Effect.fnUntraced(function* (
    plan: livePlan.BoundPlan,
    key: string,
    given: RunBegin,
    found: Option.Option<StoredHead>,
    fork: boolean
  ) {
    const generation = yield* checkpointRecord.makeNonce
    const owner = yield* checkpointRecord.makeNonce
    const before = Option.getOrUndefined(found)?.head
    yield* storage.setBegun(
      { key, generation },
      {
        input: given.input,
        ...(given.context === undefined ? {} : { context: given.context }),
        ...(given.maxIterations === undefined ? {} : { maxIterations: given.maxIterations })
      }
    )
    const now = yield* DateTime.now
    const head: checkpointRecord.Head = {
      status: "claimed",
      plan: plan.definition.name,
      digest: plan.digest,
      fork: before?.fork ?? fork,
      generation,
      epoch: (before?.epoch ?? 0) + 1,
      owner,
      lease: DateTime.addDuration(now, lease.time),
      updated: now,
      segments: [],
      revision: 0,
      iterations: 0,
      completed: 0,
      pending: [],
      retired:
        before === undefined ? [] : [...before.retired, { generation: before.generation, segments: before.segments }]
    }
    const version = yield* Effect.tapError(
      storage.setHead(
        key,
        Option.map(found, ({ version }) => version),
        head
      ),
      // A store that failed can have written even so
      (error) => (error._tag === "VersionConflict" ? storage.sweep(key, { generation, segments: [] }) : Effect.void)
    )
    const { definition } = plan
    const claimed: Claimed = { key, definition, head, version, state: undefined, before: undefined }
    const taken: Claim = { _tag: "Run", claimed, begin: given }
    return taken
  })

  const goOn = Effect.fnUntraced(function* (
    plan: livePlan.BoundPlan,
    key: string,
    found: StoredHead,
    given: PlanRun.ResolvedInput | undefined
  ) {
    const { head } = found
    yield* changed(plan, head)
    const begun = yield* storage.begun({ key, generation: head.generation })
    if (given !== undefined && !(yield* isSameInput(given, begun.input))) {
      return yield* new InputDiffers({ status: head.status })
    }
    const state = yield* stateOf(plan, key, head)
    if (head.status === "done") {
      if (state !== undefined && statusOfState(state) === "done") {
        const done: Claim = { _tag: "Done", key, state }
        return done
      }
      return yield* new Damaged({ stored: storage.keys.head(key), problem: "expected events up to the result" })
    }
    const now = yield* DateTime.now
    const next: checkpointRecord.Head = {
      ...head,
      status: state === undefined ? "claimed" : "running",
      epoch: head.epoch + 1,
      owner: yield* checkpointRecord.makeNonce,
      lease: DateTime.addDuration(now, lease.time),
      updated: now
    }
    const version = yield* storage.setHead(key, Option.some(found.version), next)
    const { definition } = plan
    const claimed: Claimed = { key, definition, head: next, version, state, before: head }
    const taken: Claim =
      state === undefined
        ? {
            _tag: "Run",
            claimed,
            begin: { input: begun.input, context: begun.context, maxIterations: begun.maxIterations }
          }
        : { _tag: "Resume", claimed, state }
    return taken
  })

  const start = (
    plan: livePlan.BoundPlan,
    key: string,
    given: RunBegin,
    options: { readonly policy: "start" | "startOrResume" | "restart"; readonly fork: boolean }
  ): Effect.Effect<Claim, Reason | PlanError.PlanError> =>
    Effect.gen(function* () {
      const { fork, policy } = options
      const found = yield* storage.head(key)
      if (Option.isNone(found)) return yield* begin(plan, key, given, found, fork)
      const { head } = found.value
      yield* active(head, yield* DateTime.now)
      if (policy === "startOrResume") return yield* goOn(plan, key, found.value, given.input)
      if (policy === "restart" || head.status === "done" || head.status === "cancelled") {
        return yield* begin(plan, key, given, found, fork)
      }
      return yield* new Unfinished({
        owner: head.owner,
        status: head.status,
        ...(head.lease === undefined ? {} : { leaseUntil: head.lease })
      })
      // Somebody was faster: look who
    }).pipe(Effect.catchTag("VersionConflict", () => start(plan, key, given, options)))

  const resume = (plan: livePlan.BoundPlan, key: string): Effect.Effect<Claim, Reason | PlanError.PlanError> =>
    Effect.gen(function* () {
      const found = yield* storage.head(key)
      if (Option.isNone(found)) return yield* new NothingToResume()
      yield* active(found.value.head, yield* DateTime.now)
      return yield* goOn(plan, key, found.value, undefined)
    }).pipe(Effect.catchTag("VersionConflict", () => resume(plan, key)))

  return {
    stateOf,
    start: (plan, key, given, options) => named(key)(start(plan, key, given, options)),
    resume: (plan, key) => named(key)(resume(plan, key))
  }
}

const leaseLost = (head: checkpointRecord.Head, found: Option.Option<StoredHead>) =>
  new LeaseLost({
    owner: head.owner,
    found: Option.match(found, {
      onNone: () => "that the run was removed",
      onSome: ({ head }) => `that of ${JSON.stringify(head.owner)} (status ${head.status})`
    })
  })

const openSession = (storage: Storage, lease: Lease, claimed: Claimed): Session => {
  const { key } = claimed
  const fork = claimed.head.fork ? key : undefined
  const gate = Semaphore.makeUnsafe(1)
  const stop = Deferred.makeUnsafe<never, CheckpointError>()
  let { head, state, version } = claimed
  let failure: CheckpointError | undefined
  let hasCommitted = false
  let isOver = false

  const alone = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.uninterruptible(gate.withPermit(effect))

  const fail = (reason: Reason): Effect.Effect<never, CheckpointError> => {
    failure ??= new CheckpointError({ key, reason })
    return Effect.andThen(Deferred.fail(stop, failure), Effect.fail(failure))
  }

  const isMine = (found: checkpointRecord.Head) =>
    found.generation === head.generation && found.epoch === head.epoch && found.owner === head.owner

  const set = (change: (head: checkpointRecord.Head) => checkpointRecord.Head) =>
    Effect.suspend(() => {
      const next = change(head)
      return Effect.map(storage.setHead(key, Option.some(version), next), (written) => {
        version = written
        head = next
      })
    })

  /**
   * Changes the head. If it is not what this run wrote last, it can still be what it
   * wrote, where a store failed and wrote even so; or the key belongs to somebody else.
   */
  const put = (change: (head: checkpointRecord.Head) => checkpointRecord.Head): Effect.Effect<void, Reason> =>
    Effect.catchTag(set(change), "VersionConflict", () =>
      Effect.flatMap(storage.head(key), (found): Effect.Effect<void, Reason> => {
        if (Option.isNone(found) || !isMine(found.value.head)) return Effect.fail(leaseLost(head, found))
        head = found.value.head
        version = found.value.version
        return put(change)
      })
    )

  const until = (now: DateTime.Utc) => DateTime.addDuration(now, lease.time)

  const commit = Effect.fnUntraced(function* (events: Parameters<livePlan.Journal>[0], next: PlanRun.State) {
    yield* storage.setBatch({ key, generation: head.generation }, checkpointRecord.segmentOf(head), events)
    const pending = yield* pendingWrites(storage, fork, claimed.definition, state, next)
    const status = statusOfState(next)
    const now = yield* DateTime.now
    const ends = !isOpenStatus(status)
    // A run ends after its writes
    const running = pending.length > 0 || !ends
    yield* put((head) => {
      const advanced = advanceHead(head, next, { status: running ? "running" : status, pending, now })
      return running ? checkpointRecord.withLease(advanced, until(now)) : releaseHead(advanced, status, now)
    })
    state = next
    hasCommitted = true
    isOver = !running
    if (pending.length === 0) return
    yield* performWrites(storage, fork, next, pending)
    head = { ...head, pending: [] }
    if (!ends) return
    yield* put((head) => releaseHead({ ...head, pending: [] }, status, now))
    isOver = true
  })

  const journal: livePlan.Journal = (events, next) =>
    alone(
      Effect.suspend(() => (failure === undefined ? Effect.catch(commit(events, next), fail) : Effect.fail(failure)))
    ).pipe(
      Effect.as({ key }),
      Effect.mapError(
        (error) =>
          new PlanError.PlanError({ plan: head.plan, reason: { _tag: "JournalFailed", problem: error.message } })
      )
    )

  const renew = Effect.gen(function* () {
    const now = yield* DateTime.now
    yield* Effect.catch(
      put((head) => checkpointRecord.withLease(head, until(now))),
      (reason) => {
        const isFresh = head.lease !== undefined && DateTime.isGreaterThan(head.lease, now)
        // The store may answer again before the lease ends
        if (reason._tag !== "LeaseLost" && isFresh) return Effect.void
        return Effect.ignore(fail(reason))
      }
    )
  })

  /** Every write renews the lease, so a beat is of use only where nothing happened. */
  const isDue = Effect.map(
    DateTime.now,
    (now) =>
      head.lease === undefined ||
      Duration.isLessThanOrEqualTo(
        DateTime.distance(now, head.lease),
        Duration.subtract(lease.time, Duration.times(lease.heartbeat, 0.5))
      )
  )

  const beat = Effect.sleep(lease.heartbeat).pipe(
    Effect.andThen(
      alone(Effect.flatMap(isDue, (due) => (due && failure === undefined && !isOver ? renew : Effect.void)))
    ),
    Effect.forever
  )

  const tidy = alone(
    Effect.gen(function* () {
      if (state !== undefined && head.pending.length > 0) {
        yield* performWrites(storage, fork, state, head.pending)
        head = { ...head, pending: [] }
      }
      const left = yield* Effect.filter(head.retired, (retired) =>
        Effect.map(storage.sweep(key, retired), (isGone) => !isGone)
      )
      head = { ...head, retired: left }
    }).pipe(Effect.catch(fail))
  )

  const ended =
    (exit: Exit.Exit<PlanRun.Result<unknown> | void, unknown>, now: DateTime.Utc) =>
    (head: checkpointRecord.Head): checkpointRecord.Head => {
      // Written by this run where the store failed and wrote even so
      if (!isOpenStatus(head.status)) return head
      const { before } = claimed
      const status = statusOfExit(exit)
      const nothingHappened =
        exit._tag === "Failure" &&
        failure === undefined &&
        !hasCommitted &&
        before !== undefined &&
        !isOpenStatus(before.status)
      return releaseHead(head, nothingHappened ? before.status : status, now)
    }

  const settle = (exit: Exit.Exit<PlanRun.Result<unknown> | void, unknown>) =>
    alone(
      Effect.gen(function* () {
        if (isOver || failure?.reason._tag === "LeaseLost") return
        isOver = true
        const now = yield* DateTime.now
        yield* Effect.catch(put(ended(exit, now)), (reason) => {
          const error = new CheckpointError({ key, reason })
          // A run that failed has its error; the lease ends by itself
          return exit._tag === "Failure" ? Effect.logWarning(error.message) : Effect.fail(error)
        })
      })
    )

  return { key, journal, stopped: Deferred.await(stop), beat, tidy, settle, failure: () => failure }
}

const stampOf = ({ record, run }: checkpointRecord.Stamp): checkpointRecord.Stamp => ({ run, record })

const isSameStamp = (a: checkpointRecord.Stamp | null, b: checkpointRecord.Stamp | null): boolean =>
  a?.run === b?.run && a?.record === b?.record

/** The writes that a state brings, to be named in the head. */
const pendingWrites = (
  storage: Storage,
  fork: string | undefined,
  definition: PlanDefinition,
  before: PlanRun.State | undefined,
  state: PlanRun.State
): Effect.Effect<ReadonlyArray<checkpointRecord.Pending>> =>
  Effect.forEach(checkpointRecord.writesBetween(definition, before, state), (write) =>
    storage.write(write.write, fork).pipe(
      Effect.match({
        // The write itself says what is wrong, after its step is kept
        onFailure: (): checkpointRecord.Pending => write,
        onSuccess: (found): checkpointRecord.Pending => ({
          ...write,
          before: Option.match(found, { onNone: () => null, onSome: (there) => stampOf(there.write) })
        })
      })
    )
  )

const performWrite = Effect.fnUntraced(function* (
  storage: Storage,
  fork: string | undefined,
  state: PlanRun.State,
  pending: checkpointRecord.Pending
) {
  const record = Chunk.get(state.history, pending.record)
  if (Option.isNone(record)) return
  for (;;) {
    const found = yield* storage.write(pending.write, fork)
    const stamp = Option.match(found, { onNone: () => null, onSome: ({ write }) => stampOf(write) })
    if (stamp?.run === state.runId && stamp.record >= pending.record) return
    if (pending.before !== undefined && !isSameStamp(stamp, pending.before)) return
    const version = Option.map(found, (there) => there.version)
    const written = yield* storage
      .setWrite(pending.write, fork, version, {
        run: state.runId,
        record: pending.record,
        step: pending.step,
        at: yield* DateTime.now,
        value: record.value.output
      })
      .pipe(
        Effect.as(true),
        Effect.catchTag("VersionConflict", () => Effect.succeed(false))
      )
    if (written) return
  }
})

/** Does what the head says is to be done. */
const performWrites = (
  storage: Storage,
  fork: string | undefined,
  state: PlanRun.State,
  pending: ReadonlyArray<checkpointRecord.Pending>
): Effect.Effect<void, WriteFailed> =>
  Effect.forEach(
    pending,
    (entry) =>
      Effect.mapError(
        performWrite(storage, fork, state, entry),
        (error) => new WriteFailed({ write: entry.write, step: entry.step, problem: error.message })
      ),
    { discard: true }
  )

const storeConcurrency = 8

const failRefused = (error: PayloadError.PayloadError | PayloadError.LossyEncoding): Effect.Effect<never, Refused> =>
  error._tag === "LossyEncoding" ? Effect.die(error) : Effect.fail(new Refused({ error }))

const makeStorage = (store: VersionedStore.Service, keys: checkpointRecord.Keys): Storage => {
  const failed = (stored: string) => (error: VersionedStore.VersionedStoreError) => {
    switch (error.reason._tag) {
      case "Refused":
        return new Refused({ error: error.reason.error })
      case "Unreadable":
        return new Unreadable({ stored, error: error.reason.error })
      case "Unavailable":
        return new StoreFailed({ error })
    }
  }

  const get = (stored: string) => Effect.mapError(store.get(stored), failed(stored))

  const set = (stored: string, expected: Option.Option<VersionedStore.Version>, value: Schema.Json) =>
    Effect.catchTag(store.compareAndSet(stored, expected, value), "VersionedStoreError", (error) =>
      Effect.fail(failed(stored)(error))
    )

  /** Without a version nothing conflicts. */
  const drop = (stored: string) =>
    store.delete(stored).pipe(
      Effect.catchTag("VersionConflict", () => Effect.succeed(true)),
      Effect.mapError(failed(stored))
    )

  const unreadable = (stored: string) => (error: PayloadError.PayloadError) => new Unreadable({ stored, error })

  /** Writes what is written once and never changed; writing it again is nothing. */
  const once = (stored: string, value: Schema.Json) =>
    set(stored, Option.none(), value).pipe(
      Effect.asVoid,
      Effect.catchTag("VersionConflict", () =>
        Effect.flatMap(get(stored), (found) =>
          Option.isSome(found) && Equal.equals(found.value.value, value)
            ? Effect.void
            : Effect.fail(
                new Damaged({ stored, problem: "expected nothing, found something that this run did not write" })
              )
        )
      )
    )

  const batch = Effect.fnUntraced(function* (place: RunPlace, segment: checkpointRecord.Segment, index: number) {
    const stored = keys.batch(place.key, place.generation, segment.epoch, segment.owner, index)
    const found = yield* get(stored)
    if (Option.isNone(found)) {
      return yield* new Damaged({ stored, problem: `expected batch ${index} of ${segment.batches}, found nothing` })
    }
    const value = yield* Effect.mapError(checkpointRecord.Batch.decode(found.value.value), unreadable(stored))
    if (
      value.generation !== place.generation ||
      value.epoch !== segment.epoch ||
      value.owner !== segment.owner ||
      value.batch !== index
    ) {
      return yield* new Damaged({ stored, problem: `expected batch ${index} of this run, found another one` })
    }
    return yield* Effect.mapError(PlanRun.eventsCodec.decode(value.events), unreadable(stored))
  })

  const readHead = Effect.fnUntraced(function* (key: string) {
    const stored = keys.head(key)
    const found = yield* get(stored)
    if (Option.isNone(found)) return Option.none<StoredHead>()
    const head = yield* Effect.mapError(checkpointRecord.Head.decode(found.value.value), unreadable(stored))
    return Option.some<StoredHead>({ head, version: found.value.version })
  })

  const removeAll = Effect.fnUntraced(function* (prefix: string) {
    for (;;) {
      const page = yield* Effect.mapError(store.list({ prefix }), failed(prefix))
      yield* Effect.forEach(page.keys, drop, { concurrency: storeConcurrency, discard: true })
      if (Option.isNone(page.next)) return
    }
  })

  /** In the version that was looked at: nobody takes the key in between. */
  const removeHead = (key: string, force: boolean): Effect.Effect<boolean, StorageFailure | RunActive> =>
    Effect.gen(function* () {
      if (force) return yield* drop(keys.head(key))
      const found = yield* readHead(key)
      if (Option.isNone(found)) return false
      const { head, version } = found.value
      if (head.lease !== undefined && isLeased(head, yield* DateTime.now)) {
        return yield* new RunActive({ owner: head.owner, status: head.status, leaseUntil: head.lease })
      }
      return yield* Effect.catchTag(store.delete(keys.head(key), { version }), "VersionedStoreError", (error) =>
        Effect.fail(failed(keys.head(key))(error))
      )
    }).pipe(Effect.catchTag("VersionConflict", () => removeHead(key, force)))

  return {
    keys,

    head: readHead,

    setHead: (key, expected, head) =>
      checkpointRecord.Head.encode(head).pipe(
        Effect.catch(failRefused),
        Effect.flatMap((value) => set(keys.head(key), expected, value))
      ),

    begun: Effect.fnUntraced(function* (place) {
      const stored = keys.begun(place.key, place.generation)
      const found = yield* get(stored)
      if (Option.isNone(found)) return yield* new Damaged({ stored, problem: "expected the input, found nothing" })
      const begun = yield* Effect.mapError(checkpointRecord.Begun.decode(found.value.value), unreadable(stored))
      if (begun.generation === place.generation) return begun
      return yield* new Damaged({ stored, problem: "expected the input of this run, found that of another one" })
    }),

    setBegun: (place, begun) =>
      checkpointRecord.Begun.encode({ ...begun, generation: place.generation }).pipe(
        Effect.catch(failRefused),
        Effect.flatMap((value) => once(keys.begun(place.key, place.generation), value))
      ),

    events: (key, head) =>
      Effect.map(
        Effect.forEach(
          head.segments.flatMap((segment) =>
            Array.from({ length: segment.batches }, (_, index) => ({ segment, index }))
          ),
          ({ index, segment }) => batch({ key, generation: head.generation }, segment, index),
          { concurrency: storeConcurrency }
        ),
        (batches) => batches.flat()
      ),

    setBatch: Effect.fnUntraced(function* (place, segment, events) {
      const encoded = yield* Effect.catch(PlanRun.eventsCodec.encode(events), failRefused)
      const { batches, epoch, owner } = segment
      const { generation } = place
      const value = yield* Effect.catch(
        checkpointRecord.Batch.encode({ generation, epoch, owner, batch: batches, events: encoded }),
        failRefused
      )
      yield* once(keys.batch(place.key, generation, epoch, owner, batches), value)
    }),

    write: Effect.fnUntraced(function* (write, fork) {
      const stored = keys.write(write, fork)
      const found = yield* get(stored)
      if (Option.isNone(found)) return Option.none()
      const value = yield* Effect.mapError(checkpointRecord.Write.decode(found.value.value), unreadable(stored))
      return Option.some({ write: value, version: found.value.version })
    }),

    setWrite: (write, fork, expected, value) =>
      checkpointRecord.Write.encode(value).pipe(
        Effect.catch(failRefused),
        Effect.flatMap((json) => set(keys.write(write, fork), expected, json)),
        Effect.asVoid
      ),

    sweep: (key, { generation, segments }) =>
      Effect.forEach(
        [
          keys.begun(key, generation),
          // One more each: a writer that died, or lost its lease, can have written it in vain
          ...segments.flatMap(({ batches, epoch, owner }) =>
            Array.from({ length: batches + 1 }, (_, index) => keys.batch(key, generation, epoch, owner, index))
          )
        ],
        drop,
        { concurrency: storeConcurrency, discard: true }
      ).pipe(Effect.match({ onSuccess: () => true, onFailure: () => false })),

    remove: Effect.fnUntraced(function* (key, force) {
      const removed = yield* removeHead(key, force)
      yield* removeAll(keys.journal(key))
      yield* removeAll(keys.forked(key))
      return removed
    }),

    list: (options) =>
      Effect.mapBoth(
        store.list({
          prefix: `${keys.heads}${options?.prefix ?? ""}`,
          after: options?.after === undefined ? undefined : keys.head(options.after),
          limit: options?.limit
        }),
        {
          onFailure: failed(keys.heads),
          onSuccess: (page) => ({
            keys: page.keys.map((key) => key.slice(keys.heads.length)),
            next: Option.map(page.next, (key) => key.slice(keys.heads.length))
          })
        }
      )
  }
}

const statusOfOutcome: { readonly [Tag in PlanRun.Outcome["_tag"]]: Status } = {
  Completed: "done",
  Concluded: "done",
  Paused: "paused",
  Failed: "failed",
  LimitReached: "failed",
  Interrupted: "cancelled"
}

const statusOfState = ({ outcome }: PlanRun.State): Status =>
  outcome === undefined ? "running" : statusOfOutcome[outcome._tag]

/** Whether somebody works on it, or did when the process died. */
const isOpenStatus = (status: Status): boolean => status === "claimed" || status === "running"

/** Whether nobody else may take it now. */
const isLeased = (head: checkpointRecord.Head, now: DateTime.Utc): boolean =>
  isOpenStatus(head.status) && head.lease !== undefined && DateTime.isGreaterThan(head.lease, now)

/** What a run that ended says by how it ended, where its events do not say it. */
const statusOfExit = (exit: Exit.Exit<PlanRun.Result<unknown> | void, unknown>): Status => {
  if (exit._tag === "Success") {
    const result = exit.value
    return result === undefined ? "cancelled" : statusOfOutcome[result.outcome]
  }
  return Cause.hasInterruptsOnly(exit.cause) ? "cancelled" : "failed"
}

const quoteName = (name: string) => JSON.stringify(name)

const outcomeMessage = (outcome: PlanRun.Outcome): string | undefined => {
  switch (outcome._tag) {
    case "Failed":
      return `step ${quoteName(outcome.step)} failed with ${outcome.failure.type}`
    case "LimitReached":
      return `${outcome.limit} iterations, next ${quoteName(outcome.next)}`
    case "Paused":
      return `waiting: ${[...new Set([...outcome.pauses.map(({ step }) => step), ...outcome.requests.map(({ name }) => name)])].map(quoteName).join(", ")}`
    case "Interrupted":
      return outcome.reason
    default:
      return undefined
  }
}

const outcomeSummary = (outcome: PlanRun.Outcome): NonNullable<checkpointRecord.Head["outcome"]> => {
  const message = outcomeMessage(outcome)
  return { type: outcome._tag, ...(message === undefined ? {} : { message }) }
}

/** The head after one more batch, under a lease. */
const advanceHead = (
  head: checkpointRecord.Head,
  state: PlanRun.State,
  change: {
    readonly status: Status
    readonly pending: ReadonlyArray<checkpointRecord.Pending>
    readonly now: DateTime.Utc
  }
): checkpointRecord.Head => {
  const segment = checkpointRecord.segmentOf(head)
  const older = segment.batches === 0 ? head.segments : head.segments.slice(0, -1)
  const { outcome: _, ...rest } = head
  return {
    ...rest,
    status: change.status,
    updated: change.now,
    run: state.runId,
    segments: [...older, { ...segment, batches: segment.batches + 1 }],
    revision: state.revision,
    iterations: state.iterations,
    completed: Chunk.size(state.history),
    pending: change.pending,
    ...(state.outcome === undefined ? {} : { outcome: outcomeSummary(state.outcome) })
  }
}

/** The head of a run that nobody works on any more. */
const releaseHead = (head: checkpointRecord.Head, status: Status, now: DateTime.Utc): checkpointRecord.Head => {
  const { lease: _, ...rest } = head
  return { ...rest, status, updated: now }
}

/**
 * Keeps runs in memory, for as long as the layer lives. For tests.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<Checkpoint> = Layer.provide(layer(), VersionedStore.layerMemory)

type GivenOptions = ResumeOptions & { readonly input?: unknown; readonly policy?: unknown }

/** What a run begins with. */
interface RunBegin {
  readonly input: PlanRun.ResolvedInput
  readonly context: JsonObject | undefined
  readonly maxIterations: number | undefined
}

/** A key was taken, or what is there has ended and is not to be run. */
type Claim =
  | { readonly _tag: "Run"; readonly claimed: Claimed; readonly begin: RunBegin }
  | { readonly _tag: "Resume"; readonly claimed: Claimed; readonly state: PlanRun.State }
  | { readonly _tag: "Done"; readonly key: string; readonly state: PlanRun.State }

interface Claims {
  readonly start: (
    plan: livePlan.BoundPlan,
    key: string,
    begin: RunBegin,
    options: { readonly policy: "start" | "startOrResume" | "restart"; readonly fork: boolean }
  ) => Effect.Effect<Claim, CheckpointError | PlanError.PlanError>
  readonly resume: (
    plan: livePlan.BoundPlan,
    key: string
  ) => Effect.Effect<Claim, CheckpointError | PlanError.PlanError>
  /** What the run under a head did. */
  readonly stateOf: (
    plan: livePlan.BoundPlan,
    key: string,
    head: checkpointRecord.Head
  ) => Effect.Effect<PlanRun.State | undefined, Reason | PlanError.PlanError>
}

interface Lease {
  readonly time: Duration.Duration
  readonly heartbeat: Duration.Duration
}

/** A key that this process has just taken. */
interface Claimed extends StoredHead {
  readonly key: string
  readonly definition: PlanDefinition
  /** What the run did so far. */
  readonly state: PlanRun.State | undefined
  /** What was there before, to be there again if nothing happens. */
  readonly before: checkpointRecord.Head | undefined
}

interface Session {
  readonly key: string
  readonly journal: livePlan.Journal
  /** Fails when the run has to stop. */
  readonly stopped: Effect.Effect<never, CheckpointError>
  /** Renews the lease, for ever. */
  readonly beat: Effect.Effect<void>
  /** Does what the last owner left to do: writes first, then what is of no use any more. */
  readonly tidy: Effect.Effect<void, CheckpointError>
  readonly settle: (exit: Exit.Exit<PlanRun.Result<unknown> | void, unknown>) => Effect.Effect<void, CheckpointError>
  /** Why the run had to stop, if it had to. */
  readonly failure: () => CheckpointError | undefined
}

type StorageFailure = Damaged | Refused | StoreFailed | Unreadable

/** What stands under a key. */
interface StoredHead {
  readonly head: checkpointRecord.Head
  readonly version: VersionedStore.Version
}

/** Where a run writes. */
interface RunPlace {
  readonly key: string
  readonly generation: string
}

interface Storage {
  readonly keys: checkpointRecord.Keys
  readonly head: (key: string) => Effect.Effect<Option.Option<StoredHead>, StorageFailure>
  readonly setHead: (
    key: string,
    expected: Option.Option<VersionedStore.Version>,
    head: checkpointRecord.Head
  ) => Effect.Effect<VersionedStore.Version, VersionedStore.VersionConflict | StorageFailure>
  readonly begun: (place: RunPlace) => Effect.Effect<checkpointRecord.Begun, StorageFailure>
  readonly setBegun: (
    place: RunPlace,
    begun: Omit<checkpointRecord.Begun, "generation">
  ) => Effect.Effect<void, StorageFailure>
  readonly events: (
    key: string,
    head: checkpointRecord.Head
  ) => Effect.Effect<ReadonlyArray<PlanRun.Event>, StorageFailure>
  readonly setBatch: (
    place: RunPlace,
    segment: checkpointRecord.Segment,
    events: ReadonlyArray<PlanRun.Event>
  ) => Effect.Effect<void, StorageFailure>
  readonly write: (
    write: string,
    fork: string | undefined
  ) => Effect.Effect<
    Option.Option<{ readonly write: checkpointRecord.Write; readonly version: VersionedStore.Version }>,
    StorageFailure
  >
  readonly setWrite: (
    write: string,
    fork: string | undefined,
    expected: Option.Option<VersionedStore.Version>,
    value: checkpointRecord.Write
  ) => Effect.Effect<void, VersionedStore.VersionConflict | StorageFailure>
  /** Deletes a run that is no more, and gives whether all of it is gone. */
  readonly sweep: (key: string, retired: checkpointRecord.Retired) => Effect.Effect<boolean>
  /** Deletes the run under a key, with what it has for itself; with `force` also a live one, and what is no run. */
  readonly remove: (key: string, force: boolean) => Effect.Effect<boolean, StorageFailure | RunActive>
  readonly list: (options: VersionedStore.ListOptions | undefined) => Effect.Effect<Page, StorageFailure>
}
