/**
 * Runs of plans that survive their process.
 *
 * **When to use**
 *
 * Use it for plans that take long, cost money, or wait for people: a run is stored under
 * a key while it happens, and any process that has the plan can resume it.
 *
 * **Details**
 *
 * The events of a run are appended to a journal, and its head, one value under the key,
 * names the events that belong to the run. The head changes by compare-and-set, so each
 * step is completed as a whole or not at all, whenever the process dies. A completed step
 * never runs again. The state of a run is the fold of its events, so counters, branches
 * and the conversations of agents are restored, too. The cost of a step in the store does
 * not depend on the steps before it.
 *
 * One process at a time holds the lease of a key; every write and a heartbeat renew it. No
 * other process can take a run whose lease is valid. When a process died, another one can
 * take the run after the lease has ended. A process that was only slow and has lost its
 * lease is stopped: its steps are interrupted, and it writes nothing more.
 *
 * The values of steps with `writes` are also stored for {@link Service.read}, each once,
 * after the step is completed. A process that resumes a run first does the writes that are
 * still missing, unless another run has written there since. They have their own part of
 * the namespace. Only the steps of the plan itself write, those of plans inside it do not.
 *
 * **Gotchas**
 *
 * - A step that was running when the process died runs again. There is no transaction
 *   between its side effect and its completion: make steps idempotent.
 * - Each process compares the lease with its own clock. The clocks of machines have to
 *   agree to within a fraction of the lease.
 * - `restart` abandons the run under the key, with the writes it had not done yet.
 * - The journal is trusted: it holds the outputs of steps and the approvals. Only your
 *   program should be able to write to the store.
 *
 * **Example** (Resuming after a failure)
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
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Struct from "effect/Struct"
import * as VersionedStore from "../conversation/VersionedStore.ts"
import * as journal from "../conversation/internal/storage.ts"
import * as Digest from "../payload/Digest.ts"
import * as base from "../payload/internal/base.ts"
import { defined } from "../payload/internal/plainJson.ts"
import * as Plan from "./Plan.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import * as PlanError from "./PlanError.ts"
import type { PlanEvent } from "./PlanEvent.ts"
import type * as PlanRun from "./PlanRun.ts"
import * as checkpointRecord from "./internal/checkpointRecord.ts"
import * as engine from "./internal/engine.ts"
import type * as livePlan from "./internal/livePlan.ts"
import * as performStep from "./internal/performStep.ts"
import type * as planRunParts from "./internal/planRunParts.ts"
import * as planTransition from "./internal/planTransition.ts"

/**
 * The progress of the run under a key.
 *
 * **Details**
 *
 * | status | meaning |
 * |---|---|
 * | `claimed` | a process has taken the key and nothing has happened yet |
 * | `running` | it runs, or its process died |
 * | `paused` | steps wait for an answer |
 * | `failed` | a step failed, the iterations were used up, or a write was refused |
 * | `cancelled` | it was interrupted |
 * | `done` | it has its result, and all writes are done |
 *
 * @category models
 * @since 0.1.0
 */
type Status = checkpointRecord.Status

const status = checkpointRecord.Head.fields.status

const Reason = Schema.TaggedUnion({
  ...journal.reasons,
  RunActive: { owner: Schema.String, status, leaseUntil: Schema.DateTimeUtcFromMillis },
  Unfinished: { owner: Schema.String, status, leaseUntil: Schema.optionalKey(Schema.DateTimeUtcFromMillis) },
  NothingToResume: {},
  InputDiffers: { status },
  LeaseLost: { owner: Schema.String, found: Schema.String },
  WriteFailed: { write: Schema.String, step: Schema.String, problem: Schema.String }
})

type Reason = typeof Reason.Type

const renderReason = (reason: Reason): string => {
  switch (reason._tag) {
    case "RunActive":
      return `expected no process that runs it, got the owner ${base.quote(reason.owner)} (status ${reason.status}, lease until ${DateTime.formatIso(reason.leaseUntil)}). Wait for it, or try again after the lease: a process that died does not renew it`
    case "Unfinished": {
      const lease = reason.leaseUntil === undefined ? "" : `, its lease ended ${DateTime.formatIso(reason.leaseUntil)}`
      return `expected no unfinished run, got one of the owner ${base.quote(reason.owner)} (status ${reason.status}${lease}). Resume it, use another key, or abandon it with the policy "restart"`
    }
    case "NothingToResume":
      return `expected a run, got none. Start one, or use the policy "startOrResume"`
    case "InputDiffers":
      return `expected the input that the run (status ${reason.status}) began with, got another one. Use a key per input; or begin a new run with the policy ${reason.status === "done" ? `"start"` : `"restart"`}`
    case "LeaseLost":
      return `expected the lease of the owner ${base.quote(reason.owner)}, got ${reason.found}. The run was stopped and has written nothing since; use a longer lease if its process was only slow`
    case "WriteFailed":
      return `step ${base.quote(reason.step)} is done, and its write ${base.quote(reason.write)} failed: ${reason.problem}. Resume the run: the write is done first, and the step does not run again`
    case "StoreFailed":
      return `${journal.renderReason(reason)}. Resume the run when the store answers again`
    case "Unreadable":
      return `${journal.renderReason(reason)}. Use another key or namespace, or remove it with { force: true }`
    case "Damaged":
      return `${journal.renderReason(reason)}. Restore it from a backup, or begin a new run with the policy "restart"`
    case "Refused":
      return journal.renderReason(reason)
  }
}

/**
 * A run was not begun, stored or found under its key.
 *
 * **Details**
 *
 * | reason | meaning |
 * |---|---|
 * | `RunActive` | another process runs this key; nothing was written |
 * | `Unfinished` | there is an unfinished run that no process works on, and a start would abandon it; nothing was written |
 * | `NothingToResume` | there is no run under the key |
 * | `InputDiffers` | the run under the key began with another input |
 * | `LeaseLost` | another process has taken the key, or the run was removed; the steps were interrupted |
 * | `WriteFailed` | the write of a step failed; the step is done, and the write is done first when the run is resumed |
 * | `StoreFailed` | the store failed; what was stored before is complete, and the run can be resumed |
 * | `Unreadable` | the stored value is foreign, or a newer release wrote it; it was left as it is |
 * | `Damaged` | events of the run are missing, or do not fit its head; nothing was written |
 * | `Refused` | an event is beyond the limits or holds a secret; the run stopped before it |
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
    const key = this.key === undefined ? "checkpoints" : `checkpoint ${base.quote(this.key)}`
    return `${key}: ${renderReason(this.reason)}`
  }
}

/**
 * The policy for a key that may hold a run.
 *
 * **Details**
 *
 * | under the key | `start` | `startOrResume` | `restart` |
 * |---|---|---|---|
 * | nothing | starts | starts | starts |
 * | `done` | starts a new run | returns the recorded result | starts a new run |
 * | `cancelled` | starts a new run | resumes | starts a new run |
 * | `failed`, `paused`, a process that died | `Unfinished` | resumes | starts a new run |
 * | a run whose lease is valid | `RunActive` | `RunActive` | `RunActive` |
 * | anything else | `Unreadable` | `Unreadable` | `Unreadable` |
 *
 * `startOrResume` resumes only with the input that the run began with, and fails with
 * `InputDiffers` otherwise, also for a run that is done: a job that runs every night
 * under one key fails instead of running only once. It fails with `PlanChanged` if
 * the plan was edited since, also for a run that is done.
 *
 * `fork` starts a separate run under the key `<key>:<unique>`, whatever is under the key.
 * The writes of its steps are separate, too.
 *
 * @category models
 * @since 0.1.0
 */
type Policy = "start" | "startOrResume" | "restart" | "fork"

/**
 * Options of resuming the run under a key.
 *
 * **Details**
 *
 * The input is the one the run began with. So are `context` and `maxIterations`, unless
 * these options hold others; `maxIterations` counts the iterations before, too.
 *
 * @category options
 * @since 0.1.0
 */
interface ResumeOptions extends Omit<livePlan.ResumeOptions, "journal"> {
  readonly key: string
}

/**
 * Options of a run under a key. The default of `policy` is `"start"`.
 *
 * **Details**
 *
 * Only {@link Service.resume} takes decisions: a run that `startOrResume` resumes still
 * waits for them.
 *
 * @category options
 * @since 0.1.0
 */
interface RunOptions extends Omit<livePlan.RunOptions, "journal"> {
  readonly key: string
  readonly input: planRunParts.Input
  readonly policy?: Policy | undefined
}

/**
 * The result of a run, and the key it is stored under: that of the fork, for a fork.
 *
 * @category models
 * @since 0.1.0
 */
export type RunResult<A> = PlanRun.Result<A> & { readonly key: string }

/**
 * A summary of the run under a key, which costs one read.
 *
 * **Details**
 *
 * - `live`: its lease is valid, so no other process can take it.
 * - `leaseUntil`: absent once the run has ended.
 * - `epoch`: the number of times a process took the key.
 * - `runId`: absent before the run has begun.
 * - `completed`: the number of step results in its history.
 * - `pendingWrites`: keys of writes that may not be done yet.
 * - `outcome`: the tag of its `PlanRun.Outcome`, with a message for people.
 *
 * @category models
 * @since 0.1.0
 */
interface Inspection {
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
 * The operations on checkpoints. Keys are any text.
 *
 * **Details**
 *
 * - `run`: runs a plan under a key, see {@link Policy}.
 * - `resume`: resumes the run under a key; of a run that is done it returns the recorded
 *   result, and nothing runs. Fails with `NothingToResume` if there is none, with
 *   `RunActive` if another process runs it, with `PlanChanged` if the plan was edited.
 * - `stream`, `resumeStream`: the same as a stream of events; `Checkpointed` follows each
 *   write. A stream that is not read to its end is cancelled.
 * - `inspect`: the progress of a run.
 * - `load`: the state of the run, `None` if there is none or it has not begun.
 * - `list`: keys in pages; `prefix`, `after` and `limit` (default 100) as in
 *   `VersionedStore`.
 * - `remove`: deletes a run, and returns whether there was one; the values that its steps
 *   wrote stay, except those of a fork. Fails with `RunActive` if a process runs it and
 *   with `Unreadable` if it is no run; `force` deletes it even so, and the process stops.
 * - `read`: the value that a step wrote last, in any run or in the fork with that key, with
 *   the run and the place of the step in its history.
 * - `isCurrent`: the run that is under the key now wrote that value.
 *
 * Errors of the run itself are `PlanError`, as in `Plan.run`; errors of the store, the
 * lease or the key are `CheckpointError`.
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
  readonly list: (options?: VersionedStore.ListOptions) => Effect.Effect<VersionedStore.Page, CheckpointError>
  readonly remove: (
    key: string,
    options?: { readonly force?: boolean | undefined }
  ) => Effect.Effect<boolean, CheckpointError>
  readonly read: (
    write: string,
    options?: { readonly fork?: string | undefined }
  ) => Effect.Effect<
    Option.Option<{
      readonly value: Schema.Json
      readonly runId: string
      readonly record: number
      readonly step: string
      readonly at: DateTime.Utc
    }>,
    CheckpointError
  >
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
 * - `namespace`: the first part of the keys in the `VersionedStore`; default `"plan"`.
 *   Checkpoints with different namespaces do not see each other, nor each other's writes.
 * - `leaseTime`: the time for which a process that died keeps its key; default 30 seconds.
 * - `heartbeat`: the time after which a lease is renewed if nothing else is written;
 *   default a third of `leaseTime`, at most half of it. The layer dies with any other.
 *
 * @category options
 * @since 0.1.0
 */
interface Options {
  readonly namespace?: string | undefined
  readonly leaseTime?: Duration.Input | undefined
  readonly heartbeat?: Duration.Input | undefined
}

/**
 * Stores runs in a `VersionedStore`: in memory, in one file, in a database.
 *
 * **Details**
 *
 * With the namespace `plan` the head of a run is stored under `plan/head/<key>`, its events
 * under `plan/journal/`, the values that steps write under `plan/writes/<key of the write>`,
 * and under `plan/forks/` for a fork. A run writes two values for each batch of events, which
 * is once or twice for a step, and one more for a step with `writes`.
 *
 * A store that fails stops the run with `StoreFailed`; the values stored before are complete.
 * If the store cannot even write the last status, another process can take the run after its
 * lease has ended.
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

interface Lease {
  readonly time: Duration.Duration
  readonly heartbeat: Duration.Duration
}

const leaseOptions = (options: Options): Effect.Effect<Lease> => {
  const time = Duration.fromInputUnsafe(options.leaseTime ?? "30 seconds")
  const heartbeat =
    options.heartbeat === undefined ? Duration.times(time, 1 / 3) : Duration.fromInputUnsafe(options.heartbeat)
  const isFast = Duration.isLessThanOrEqualTo(Duration.times(heartbeat, 2), time)
  if (Duration.isGreaterThan(heartbeat, Duration.zero) && isFast) return Effect.succeed({ time, heartbeat })
  const expected = `expected a heartbeat of at most half the leaseTime (${Duration.format(time)})`
  return Effect.die(new Error(`Checkpoint.layer: ${expected}, got ${Duration.format(heartbeat)}`))
}

type Stored = journal.Stored<checkpointRecord.Head>

type Conflict = journal.Conflict<checkpointRecord.Head>

/** The journals of runs and the values that their steps write. */
type Storage = ReturnType<typeof makeStorage>

const makeStorage = (store: VersionedStore.Service, namespace: string) => {
  const values = journal.documents(store)
  const root = journal.rootKey(namespace)
  const forkKey = (fork: string) => `${root}forks/${journal.partOfKey(fork)}`
  const writeKey = (write: string, fork: string | undefined) =>
    fork === undefined ? `${root}writes/${write}` : `${forkKey(fork)}${write}`

  return {
    runs: journal.make({
      store,
      namespace,
      head: checkpointRecord.headCodec,
      batch: checkpointRecord.batchCodec,
      input: checkpointRecord.inputCodec
    }),
    /** The value of a write; `fork` is the key of the fork that has it for itself. */
    write: (write: string, fork: string | undefined) => values.get(checkpointRecord.writeCodec, writeKey(write, fork)),
    setWrite: (
      write: string,
      fork: string | undefined,
      expected: Option.Option<string>,
      value: checkpointRecord.Write
    ) => values.set(checkpointRecord.writeCodec, writeKey(write, fork), expected, value),
    removeWrites: (fork: string) => Effect.flatMap(values.list(forkKey(fork)), values.deleteAll)
  }
}

/** The stamp of each pending write: of the value that it replaces, where that can be read. */
const findPending = (
  storage: Storage,
  fork: string | undefined,
  writes: ReadonlyArray<checkpointRecord.Pending>
): Effect.Effect<ReadonlyArray<checkpointRecord.Pending>> =>
  Effect.forEach(writes, (pending) =>
    Effect.match(storage.write(pending.write, fork), {
      // The write itself fails, after its step is stored
      onFailure: () => pending,
      onSuccess: (found): checkpointRecord.Pending => {
        if (Option.isNone(found)) return { ...pending, before: null }
        const { record, run } = found.value.value
        return { ...pending, before: { run, record } }
      }
    })
  )

/** Does a write that the head names. */
const performWrite = Effect.fnUntraced(function* (
  storage: Storage,
  fork: string | undefined,
  state: PlanRun.State,
  { before, record, step, write }: checkpointRecord.Pending
) {
  const done = Chunk.get(state.history, record)
  if (Option.isNone(done)) return
  const value = { run: state.runId, record, step, at: yield* DateTime.now, value: done.value.output }
  const attempt = Effect.gen(function* () {
    const found = Option.getOrUndefined(yield* storage.write(write, fork))
    if (found?.value.run === state.runId && found.value.record >= record) return
    if (before !== undefined && !checkpointRecord.isSameStamp(found?.value, before)) return
    yield* storage.setWrite(write, fork, Option.fromUndefinedOr(found?.version), value)
  })
  yield* Effect.mapError(
    Effect.retry(attempt, { while: (error) => error._tag === "VersionConflict" }),
    (error): Reason => ({ _tag: "WriteFailed", write, step, problem: journal.renderReason(error) })
  )
})

interface RunBegin {
  readonly input: planRunParts.ResolvedInput
  readonly context?: livePlan.RunOptions["context"]
  readonly maxIterations?: number | undefined
}

/** A run whose key this process has taken, or a run that is done. */
interface Claim {
  readonly at: Stored
  readonly definition: PlanDefinition
  readonly begin: RunBegin
  /** Absent before the run has begun. */
  readonly state: PlanRun.State | undefined
  /** The head before the claim, which comes back if nothing happens. */
  readonly before: checkpointRecord.Head | undefined
}

type ClaimError = Conflict | Reason | PlanError.PlanError

const checkDigest = (plan: livePlan.BoundPlan, head: checkpointRecord.Head): Effect.Effect<void, PlanError.PlanError> =>
  head.digest === plan.digest
    ? Effect.void
    : Effect.fail(
        new PlanError.PlanError({
          plan: plan.definition.name,
          reason: { _tag: "PlanChanged", expected: head.digest, found: plan.digest }
        })
      )

const checkLease = ({ head }: Stored): Effect.Effect<void, Reason> =>
  Effect.flatMap(DateTime.now, (now) =>
    head.lease !== undefined && checkpointRecord.isLeased(head, now)
      ? Effect.fail<Reason>({ _tag: "RunActive", owner: head.owner, status: head.status, leaseUntil: head.lease })
      : Effect.void
  )

/** The state of a run, folded from its events; `undefined` if it has none. */
const stateOf = Effect.fnUntraced(function* (
  runs: Storage["runs"],
  plan: livePlan.BoundPlan,
  at: Stored
): Effect.fn.Return<PlanRun.State | undefined, ClaimError> {
  const { head, key } = at
  yield* checkDigest(plan, head)
  const events = (yield* runs.batches(at)).flat()
  if (events.length === 0 && head.revision === 0) return undefined
  const rules = yield* engine.completeRules(plan)
  const edited = engine.changedNestedPlan(rules, events)
  if (edited !== undefined) return yield* edited
  const damaged = (problem: string) => journal.damaged(runs.journalKey(key), problem)
  const state = yield* Effect.mapError(Effect.fromResult(planTransition.fold(rules, events)), (error) =>
    damaged(`expected events that follow each other, got ${error.message}`)
  )
  if (state.revision === head.revision && state.runId === head.run) return state
  const expected = `expected event ${head.revision} of run ${head.run ?? "unknown"}`
  return yield* Effect.fail(damaged(`${expected}, got event ${state.revision} of run ${state.runId}`))
})

const canonicalInput = (input: planRunParts.ResolvedInput) =>
  checkpointRecord.inputCodec.encode({ generation: "", input }).pipe(
    Effect.catchTag("LossyEncoding", Effect.die),
    Effect.mapError(journal.refused),
    Effect.map((json) => Result.getOrUndefined(Digest.canonicalize(json)))
  )

/** Takes keys: begins runs, and takes over those that no process works on. */
const makeClaims = ({ runs }: Storage, lease: Lease) => {
  const renewed = Effect.map(DateTime.now, (updated) => ({ updated, lease: DateTime.addDuration(updated, lease.time) }))

  const begin = Effect.fnUntraced(function* (
    { definition, digest }: livePlan.BoundPlan,
    key: string,
    found: Option.Option<Stored>,
    given: RunBegin,
    isFork: boolean
  ) {
    const times = yield* renewed
    const fork = Option.match(found, { onNone: () => isFork, onSome: ({ head }) => head.fork })
    const counts = { revision: 0, iterations: 0, completed: 0, pending: [] }
    const at = yield* runs.begin(key, found, {
      input: (generation) => ({ generation, ...defined(given) }),
      head: (log) => ({ ...log, ...times, ...counts, status: "claimed", plan: definition.name, digest, fork })
    })
    const claim: Claim = { at, definition, begin: given, state: undefined, before: undefined }
    return claim
  })

  /** Takes over a run; `input` is the one that it has to have begun with. */
  const takeOver = Effect.fnUntraced(function* (
    plan: livePlan.BoundPlan,
    at: Stored,
    input: planRunParts.ResolvedInput | undefined
  ) {
    const { head, key } = at
    yield* checkDigest(plan, head)
    const begun = yield* runs.input(at)
    if (input !== undefined && (yield* canonicalInput(input)) !== (yield* canonicalInput(begun.input))) {
      return yield* Effect.fail<Reason>({ _tag: "InputDiffers", status: head.status })
    }
    const state = yield* stateOf(runs, plan, at)
    const claim: Claim = { at, definition: plan.definition, begin: begun, state, before: head }
    if (head.status === "done") {
      if (checkpointRecord.statusOfOutcome(state?.outcome?._tag) === "done") return claim
      return yield* Effect.fail(journal.damaged(runs.headKey(key), "expected events up to the result, got fewer"))
    }
    const times = yield* renewed
    const owner = yield* journal.nonce
    const status: Status = state === undefined ? "claimed" : "running"
    const epoch = head.epoch + 1
    return { ...claim, at: yield* runs.append(at, (head) => ({ ...head, ...times, status, epoch, owner }), []) }
  })

  /** Claims a key for a new run, by its policy, or without one to resume the run that is there. */
  const claim = (
    plan: livePlan.BoundPlan,
    key: string,
    start?: { readonly begin: RunBegin; readonly policy: Policy }
  ): Effect.Effect<Claim, Reason | PlanError.PlanError> =>
    Effect.gen(function* () {
      const found = yield* runs.head(key)
      if (Option.isNone(found)) {
        if (start === undefined) return yield* Effect.fail<Reason>({ _tag: "NothingToResume" })
        return yield* begin(plan, key, found, start.begin, start.policy === "fork")
      }
      yield* checkLease(found.value)
      if (start === undefined) return yield* takeOver(plan, found.value, undefined)
      if (start.policy === "startOrResume") return yield* takeOver(plan, found.value, start.begin.input)
      const { lease: leaseUntil, owner, status } = found.value.head
      if (start.policy === "restart" || status === "done" || status === "cancelled") {
        return yield* begin(plan, key, found, start.begin, false)
      }
      return yield* Effect.fail<Reason>({ _tag: "Unfinished", owner, status, ...defined({ leaseUntil }) })
      // Another process was faster: look which one
    }).pipe(Effect.catchTag("Conflict", () => claim(plan, key, start)))

  return claim
}

/** The status of a run whose events do not hold its end. */
const statusOfExit = (exit: Exit.Exit<PlanRun.Result<unknown> | void, unknown>): Status => {
  if (Exit.isFailure(exit)) return Cause.hasInterruptsOnly(exit.cause) ? "cancelled" : "failed"
  return exit.value === undefined ? "cancelled" : checkpointRecord.statusOfOutcome(exit.value.outcome)
}

const leaseLost = ({ owner }: checkpointRecord.Head, found: Option.Option<Stored>): Reason => ({
  _tag: "LeaseLost",
  owner,
  found: Option.match(found, {
    onNone: () => "none: the run was removed",
    onSome: ({ head }) => `that of the owner ${base.quote(head.owner)} (status ${head.status})`
  })
})

type Session = ReturnType<typeof openSession>

/** The lease of a claimed run: every append renews it, and stops the run when it is lost. */
const openSession = (storage: Storage, lease: Lease, claim: Claim) => {
  const { key } = claim.at
  const fork = claim.at.head.fork ? key : undefined
  const gate = Semaphore.makeUnsafe(1)
  const stop = Deferred.makeUnsafe<never, CheckpointError>()
  let { at, state } = claim
  let failure: CheckpointError | undefined
  let hasCommitted = false
  let isOver = at.head.status === "done"

  /** One write at a time, which an interruption waits for. */
  const alone = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.uninterruptible(gate.withPermit(effect))

  const fail = (reason: Reason): Effect.Effect<never, CheckpointError> => {
    failure ??= new CheckpointError({ key, reason })
    return Effect.andThen(Deferred.fail(stop, failure), Effect.fail(failure))
  }

  /**
   * Appends to the run. A head in another version can still be what this run wrote, where the store failed and wrote
   * even so; otherwise another process has the key.
   */
  const append = (
    change: (head: checkpointRecord.Head) => checkpointRecord.Head,
    batches: ReadonlyArray<ReadonlyArray<PlanRun.Event>> = []
  ): Effect.Effect<void, Reason> =>
    Effect.suspend(() => storage.runs.append(at, change, batches)).pipe(
      Effect.map((written) => {
        at = written
      }),
      Effect.catchTag("Conflict", ({ found }) => {
        const { epoch, generation, owner } = at.head
        const now = Option.getOrUndefined(found)?.head
        const isMine = now?.generation === generation && now.epoch === epoch && now.owner === owner
        if (Option.isNone(found) || !isMine) return Effect.fail(leaseLost(at.head, found))
        at = found.value
        return append(change, batches)
      })
    )

  /** Does the writes that the head names; the next write of the head leaves them out. */
  const settleWrites = Effect.fnUntraced(function* (state: PlanRun.State) {
    for (const pending of at.head.pending) yield* performWrite(storage, fork, state, pending)
    at = { ...at, head: { ...at.head, pending: [] } }
  })

  const commit = Effect.fnUntraced(function* (events: ReadonlyArray<PlanRun.Event>, next: PlanRun.State) {
    const pending = yield* findPending(storage, fork, checkpointRecord.writesBetween(claim.definition, state, next))
    const status = checkpointRecord.statusOfOutcome(next.outcome?._tag)
    const updated = yield* DateTime.now
    const ends = !checkpointRecord.isOpen(status)
    // A run ends after its writes
    const isLast = ends && pending.length === 0
    yield* append(
      (head) => {
        const until = DateTime.addDuration(updated, lease.time)
        const advanced = checkpointRecord.advance(head, next, { status: "running", pending, lease: until, updated })
        return isLast ? checkpointRecord.release(advanced, status, updated) : advanced
      },
      [events]
    )
    state = next
    hasCommitted = true
    isOver = isLast
    if (pending.length === 0) return
    yield* settleWrites(next)
    if (!ends) return
    yield* append((head) => checkpointRecord.release({ ...head, pending: [] }, status, updated))
    isOver = true
  })

  const journalOf: livePlan.Journal = (events, next) =>
    alone(
      Effect.suspend(() => (failure === undefined ? Effect.catch(commit(events, next), fail) : Effect.fail(failure)))
    ).pipe(
      Effect.as({ key }),
      Effect.mapError(
        ({ message }) =>
          new PlanError.PlanError({ plan: at.head.plan, reason: { _tag: "JournalFailed", problem: message } })
      )
    )

  const renew = Effect.gen(function* () {
    const now = yield* DateTime.now
    const { lease: until } = at.head
    // Every write renews the lease, so a beat is of use only where nothing happened
    const fresh = Duration.subtract(lease.time, Duration.times(lease.heartbeat, 0.5))
    const isFresh = until !== undefined && Duration.isGreaterThan(DateTime.distance(now, until), fresh)
    if (isFresh || failure !== undefined || isOver) return
    yield* Effect.catch(
      append((head) => ({ ...head, lease: DateTime.addDuration(now, lease.time) })),
      (reason) => {
        const isValid = until !== undefined && DateTime.isGreaterThan(until, now)
        // The store may answer again before the lease ends
        return reason._tag !== "LeaseLost" && isValid ? Effect.void : Effect.ignore(fail(reason))
      }
    )
  })

  /** Completes what the last owner left: its writes, then the values of retired generations. */
  const tidy = alone(
    Effect.gen(function* () {
      if (isOver) return
      if (state !== undefined && at.head.pending.length > 0) yield* settleWrites(state)
      at = yield* storage.runs.sweep(at)
    }).pipe(Effect.catch(fail))
  )

  const settle = (exit: Exit.Exit<PlanRun.Result<unknown> | void, unknown>) =>
    alone(
      Effect.gen(function* () {
        if (isOver || failure?.reason._tag === "LeaseLost") return
        isOver = true
        const now = yield* DateTime.now
        const before = claim.before?.status
        const isUntouched = Exit.isFailure(exit) && failure === undefined && !hasCommitted
        const isRestored = isUntouched && before !== undefined && !checkpointRecord.isOpen(before)
        const status = isRestored ? before : statusOfExit(exit)
        const released = append((head) =>
          // Released already, where the store failed and wrote even so
          checkpointRecord.isOpen(head.status) ? checkpointRecord.release(head, status, now) : head
        )
        yield* Effect.catch(released, (reason) => {
          const error = new CheckpointError({ key, reason })
          // A run that failed has its error; the lease ends by itself
          return Exit.isFailure(exit) ? Effect.logWarning(error.message) : Effect.fail(error)
        })
      })
    )

  return {
    key,
    journal: journalOf,
    /** Fails when the run has to stop. */
    stopped: Deferred.await(stop),
    /** Renews the lease, for ever. */
    beat: Effect.forever(Effect.andThen(Effect.sleep(lease.heartbeat), alone(renew))),
    tidy,
    settle,
    /** The error that stopped the run, instead of the one that the engine made of it. */
    explain: (error: PlanError.PlanError | CheckpointError): PlanError.PlanError | CheckpointError => failure ?? error
  }
}

/** The options of the engine: those of this call over those the run began with. */
const engineOptions = (options: ResumeOptions, session: Session, { begin, state }: Claim): livePlan.ResumeOptions => {
  const begun = state === undefined ? begin : undefined
  return {
    ...options,
    context: options.context ?? begun?.context,
    maxIterations: options.maxIterations ?? begun?.maxIterations,
    journal: session.journal
  }
}

const makeService = Effect.fnUntraced(function* (options: Options) {
  const lease = yield* leaseOptions(options)
  const storage = makeStorage(yield* VersionedStore.VersionedStore, options.namespace ?? "plan")
  const { runs } = storage
  const claim = makeClaims(storage, lease)

  const fail = (key: string | undefined) => (reason: Reason) => new CheckpointError({ ...defined({ key }), reason })

  const failRun = (key: string) => (error: Reason | PlanError.PlanError) =>
    error._tag === "PlanError" ? error : fail(key)(error)

  const open = (options: ResumeOptions, claiming: Effect.Effect<Claim, PlanError.PlanError | CheckpointError>) =>
    Effect.map(claiming, (claim) => {
      const session = openSession(storage, lease, claim)
      return { ...claim, session, options: engineOptions(options, session, claim) }
    })

  const openStart = <A, R>({ live }: livePlan.Bound<A, R>, options: RunOptions) => {
    const claiming = Effect.gen(function* () {
      const { context, key, maxIterations, policy = "start" } = options
      const input = yield* performStep.resolveInput(live.definition.name, options.input)
      const own = policy === "fork" ? `${key}:${yield* journal.nonce}` : key
      const start = { begin: { input, context, maxIterations }, policy }
      return yield* Effect.mapError(claim(live, own, start), failRun(own))
    })
    return open(options, claiming)
  }

  const openResume = <A, R>({ live }: livePlan.Bound<A, R>, options: ResumeOptions) =>
    open(options, Effect.mapError(claim(live, options.key), failRun(options.key)))

  const perform = <A, R>(plan: livePlan.Bound<A, R>, opening: ReturnType<typeof open>) =>
    Effect.acquireUseRelease(
      opening,
      ({ begin, options, session, state }) => {
        const engine = Effect.suspend(() =>
          state === undefined ? Plan.run(plan, begin.input, options) : Plan.resume(plan, state, options)
        )
        const running = Effect.raceFirst(Effect.andThen(session.tidy, engine), session.stopped)
        return Effect.scoped(Effect.andThen(Effect.forkScoped(session.beat), running)).pipe(
          Effect.mapBoth({ onFailure: session.explain, onSuccess: (result) => ({ ...result, key: session.key }) })
        )
      },
      ({ session }, exit) => session.settle(exit)
    )

  const stream = <A, R>(plan: livePlan.Bound<A, R>, opening: ReturnType<typeof open>) =>
    Effect.gen(function* () {
      // A failure of the last write has nowhere to go once the stream has ended
      const { begin, options, session, state } = yield* Effect.acquireRelease(opening, ({ session }, exit) =>
        Effect.catch(session.settle(Exit.asVoid(exit)), (error) => Effect.logWarning(error.message))
      )
      yield* Effect.forkScoped(session.beat)
      const engine =
        state === undefined ? Plan.stream(plan, begin.input, options) : Plan.resumeStream(plan, state, options)
      return Stream.unwrap(Effect.as(session.tidy, engine)).pipe(
        Stream.interruptWhen(session.stopped),
        Stream.mapError(session.explain)
      )
    }).pipe(Stream.unwrap)

  const load = (
    plan: livePlan.BoundPlan,
    key: string
  ): Effect.Effect<Option.Option<PlanRun.State>, Reason | PlanError.PlanError> =>
    Effect.gen(function* () {
      const found = yield* runs.head(key)
      return Option.isNone(found) ? Option.none() : Option.fromUndefinedOr(yield* stateOf(runs, plan, found.value))
      // A new run began under the key since the head was read
    }).pipe(Effect.catchTag("Conflict", () => load(plan, key)))

  const remove = (key: string, force: boolean): Effect.Effect<boolean, Reason> =>
    Effect.gen(function* () {
      if (force) return yield* runs.remove(key, undefined)
      const found = yield* runs.head(key)
      if (Option.isNone(found)) return false
      yield* checkLease(found.value)
      return yield* runs.remove(key, found.value.version)
    }).pipe(Effect.catchTag("Conflict", () => remove(key, force)))

  const inspect = ({ head, key }: Stored, now: DateTime.Utc): Inspection => ({
    ...Struct.pick(head, ["status", "owner", "epoch", "plan", "digest", "fork", "iterations", "completed"]),
    key,
    live: checkpointRecord.isLeased(head, now),
    leaseUntil: head.lease,
    runId: head.run,
    pendingWrites: head.pending.map(({ write }) => write),
    outcome: head.outcome && { _tag: head.outcome.type, ...defined({ message: head.outcome.message }) },
    updatedAt: head.updated
  })

  const service: Service = {
    run: Effect.fn("Checkpoint.run")((plan, options) => perform(plan, openStart(plan, options))),
    resume: Effect.fn("Checkpoint.resume")((plan, options) => perform(plan, openResume(plan, options))),
    stream: (plan, options) => stream(plan, openStart(plan, options)),
    resumeStream: (plan, options) => stream(plan, openResume(plan, options)),
    inspect: Effect.fn("Checkpoint.inspect")(function* (key) {
      const found = yield* Effect.mapError(runs.head(key), fail(key))
      const now = yield* DateTime.now
      return Option.map(found, (stored) => inspect(stored, now))
    }),
    load: Effect.fn("Checkpoint.load")((plan, key) => Effect.mapError(load(plan.live, key), failRun(key))),
    list: Effect.fn("Checkpoint.list")((range) => Effect.mapError(runs.list(range), fail(undefined))),
    remove: Effect.fn("Checkpoint.remove")(function* (key, options) {
      const removed = remove(key, options?.force ?? false)
      return yield* Effect.mapError(Effect.tap(removed, storage.removeWrites(key)), fail(key))
    }),
    read: Effect.fn("Checkpoint.read")(function* (write, options) {
      const found = yield* Effect.mapError(storage.write(write, options?.fork), fail(options?.fork))
      return Option.map(found, ({ value: { run, ...value } }) => ({ ...value, runId: run }))
    }),
    isCurrent: Effect.fn("Checkpoint.isCurrent")(function* (key, write) {
      const found = yield* Effect.mapError(runs.head(key), fail(key))
      if (Option.isNone(found)) return false
      const { fork, run } = found.value.head
      const written = yield* Effect.mapError(storage.write(write, fork ? key : undefined), fail(key))
      return run !== undefined && Option.isSome(written) && written.value.value.run === run
    })
  }
  return service
})

/**
 * Stores runs in memory, for as long as the layer lives. For tests.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<Checkpoint> = Layer.provide(layer(), VersionedStore.layerMemory)
