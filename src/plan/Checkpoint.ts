/**
 * Runs of plans that survive their process.
 *
 * **When to use**
 *
 * Use it for plans that take long, cost money, or wait for people: a run is stored
 * under a key while it happens, and any process that has the plan can resume it. An agent that
 * has to survive its process is a `Session` of `effect-emissary/session`.
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
 * Of an agent in a step each answer of the model, and each start and result of a tool call are
 * written before the run continues. An answer that was written is not asked for again, and a
 * call that had started when the process died gets an `interrupted` result, whose value is
 * `{ outcome: "unknown" }`, and never starts again. There are two exceptions: an agent behind a
 * call resumes from its own state, and a call of a tool that is `Tool.Idempotent` runs again.
 *
 * One process at a time holds the lease of a key; every write and a heartbeat renew it. No
 * other process can take a run whose lease is valid. When a process died, another one can
 * take the run at once where the store knows that it died (`SqliteClient.layerStore` and
 * `VersionedStore.layerSql` do), and after the lease has ended elsewhere. A process that was only slow and has lost its
 * lease is stopped: its steps are interrupted, and it writes nothing more.
 *
 * The values of steps with `writes` are also stored for {@link Service.read}, each once,
 * after the step is completed. A process that resumes a run first does the writes that are
 * still missing, unless another run has written there since. They have their own part of
 * the namespace. Only the steps of the plan itself write, those of plans inside it do not.
 *
 * **Gotchas**
 *
 * - A step of a plan that was running when the process died runs again. There is no transaction
 *   between its side effect and its completion: make steps idempotent.
 * - Each process compares the lease with its own clock. The clocks of machines have to
 *   agree to within a fraction of the lease; a clock that was ahead keeps no run for longer.
 * - `restart` abandons the run under the key, with the writes it had not done yet.
 * - The journal is trusted: it holds the outputs of steps, messages and approvals. Only your
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
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import * as HashMap from "effect/HashMap"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Struct from "effect/Struct"
import type * as Run from "../agent/Run.ts"
import * as runTransition from "../agent/internal/runTransition.ts"
import * as VersionedStore from "../store/VersionedStore.ts"
import * as claimedLog from "../store/internal/claimedLog.ts"
import * as storage from "../store/internal/storage.ts"
import * as Digest from "../payload/Digest.ts"
import * as base from "../payload/internal/base.ts"
import * as signatures from "../payload/internal/gate.ts"
import { defined } from "../payload/internal/plainJson.ts"
import * as RunContext from "../tool/RunContext.ts"
import * as Plan from "./Plan.ts"
import * as PlanError from "./PlanError.ts"
import type { PlanEvent } from "./PlanEvent.ts"
import type * as PlanRun from "./PlanRun.ts"
import * as checkpointRecord from "./internal/checkpointRecord.ts"
import * as engine from "./internal/engine.ts"
import type * as livePlan from "./internal/livePlan.ts"
import * as performStep from "./internal/performStep.ts"
import type * as planRunParts from "../agent/internal/planRunParts.ts"
import * as planChange from "./internal/planChange.ts"
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
 * | `paused` | steps, or calls of agents in them, wait for an answer |
 * | `failed` | a step failed, the limit was used up, or a write was refused |
 * | `cancelled` | it was interrupted |
 * | `done` | it has its result, and all writes are done |
 *
 * @category models
 * @since 0.1.0
 */
export type Status = checkpointRecord.Status

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
 * `startOrResume` resumes only with the input and the context that the run began with, and fails with `InputDiffers`
 * otherwise, also for a run that is done: a job that runs every night under one key fails instead of running only once. It
 * fails with `PlanChanged` if the plan was edited since in a way that breaks the run, also for a run that is done.
 *
 * `fork` starts a separate run under the key `<key>:<unique>`, whatever is under the key.
 * The writes of its steps are separate, too.
 *
 * @category models
 * @since 0.1.0
 */
export const Policy = Schema.Literals(["start", "startOrResume", "restart", "fork"])

/** @since 0.1.0 */
export type Policy = typeof Policy.Type

const Reason = Schema.TaggedUnion({
  ...storage.reasons,
  RunActive: { owner: Schema.String, status: checkpointRecord.Status, leaseUntil: Schema.DateTimeUtcFromMillis },
  Unfinished: {
    owner: Schema.String,
    status: checkpointRecord.Status,
    leaseUntil: Schema.optionalKey(Schema.DateTimeUtcFromMillis)
  },
  NothingToResume: {},
  UnknownPolicy: { found: Schema.String },
  InputDiffers: { status: checkpointRecord.Status },
  LeaseLost: { owner: Schema.String, found: Schema.String },
  WriteFailed: { write: Schema.String, step: Schema.String, problem: Schema.String }
})

/**
 * Why a checkpoint failed; the reason of a {@link CheckpointError}.
 *
 * @category errors
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

const renderReason = Reason.match({
  RunActive: ({ leaseUntil, owner, status }) =>
    `expected no process that runs it, got the owner ${base.quote(owner)} (status ${status}, lease until ${DateTime.formatIso(leaseUntil)}). Wait for it, or try again after the lease: a process that died does not renew it`,
  Unfinished: ({ leaseUntil, owner, status }) => {
    const lease = leaseUntil === undefined ? "" : `, its lease ended ${DateTime.formatIso(leaseUntil)}`
    return `expected no unfinished run, got one of the owner ${base.quote(owner)} (status ${status}${lease}). Resume it, use another key, or abandon it with the policy "restart"`
  },
  UnknownPolicy: ({ found }) =>
    `the policy: expected one of ${Policy.literals.join(", ")}, got ${base.quote(found)}. Correct its name`,
  NothingToResume: () => `expected a run, got none. Start one, or use the policy "startOrResume"`,
  InputDiffers: ({ status }) =>
    `expected the input and the context that the run (status ${status}) began with, got others. Use a key per input; or begin a new run with the policy ${status === "done" ? `"start"` : `"restart"`}`,
  LeaseLost: ({ found, owner }) =>
    `expected the lease of the owner ${base.quote(owner)}, got ${found}. The run was stopped and has written nothing since; use a longer lease if its process was only slow`,
  WriteFailed: ({ problem, step, write }) =>
    `step ${base.quote(step)} is done, and its write ${base.quote(write)} failed: ${problem}. Resume the run: the write is done first, and the step does not run again`,
  StoreFailed: (reason) => `${storage.renderReason(reason)}. Resume the run when the store answers again`,
  Unreadable: (reason) =>
    `${storage.renderReason(reason)}. Use another key or namespace, or remove it with { force: true }`,
  Damaged: (reason) =>
    `${storage.renderReason(reason)}. Restore it from a backup, or begin a new run with the policy "restart"`,
  Refused: storage.renderReason
})

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
 * | `UnknownPolicy` | there is no policy of that name; nothing was written |
 * | `InputDiffers` | the run under the key began with another input or context |
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
 * Options of resuming the run of a plan under a key.
 *
 * **Details**
 *
 * The input is the one the run began with. So are `context` and `maxIterations`, unless
 * these options hold others; `maxIterations` counts the iterations before, too.
 *
 * @category options
 * @since 0.1.0
 */
export interface ResumeOptions extends Omit<livePlan.ResumeOptions, "journal"> {
  readonly key: string
}

/**
 * Options of a run of a plan under a key. The default of `policy` is `"start"`.
 *
 * **Details**
 *
 * Only {@link Service.resume} takes decisions: a run that `startOrResume` resumes still
 * waits for them.
 *
 * @category options
 * @since 0.1.0
 */
export interface RunOptions extends Omit<livePlan.RunOptions, "journal"> {
  readonly key: string
  readonly decisions?: undefined
  readonly input: planRunParts.Input
  readonly policy?: Policy | undefined
}

/**
 * The result of a run of a plan, and the key it is stored under: that of the fork, for a fork.
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
 * - `name`, `digest`: of the plan.
 * - `runId`: absent before the run has begun.
 * - `iterations`, `completed`: its iterations, and the step results in its history.
 * - `pendingWrites`: keys of writes that may not be done yet.
 * - `outcome`: the tag of its `PlanRun.Outcome`, with a message for people.
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
  readonly name: string
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
 * - `run`: runs a plan under a key, see {@link Policy}. A run that fails before
 *   its first event, with an empty input for example, leaves nothing under the key.
 * - `resume`: resumes the run under a key; of a run that is done it returns the recorded
 *   result, and nothing runs. A decision that the run has taken already is no error, if it is
 *   the same one. Fails with `NothingToResume` if there is none, with
 *   `RunActive` if another process runs it, and with `PlanChanged` if the plan was edited in a
 *   way that `onChange` does not allow.
 * - `stream`, `resumeStream`: the same as a stream of events; `Checkpointed` follows
 *   each write. A stream that is not read to its end is cancelled. The run does not wait for
 *   its reader: what it did before the reader left, at most to its end, is done.
 * - `inspect`: the progress of a run.
 * - `load`: the state of the run, `None` if there is none or it has not begun. A run whose
 *   events do not fit the plan fails with `PlanChanged`.
 * - `list`: keys in pages; `prefix`, `after` and `limit` (default 100) as in
 *   `VersionedStore`.
 * - `remove`: deletes a run, and returns whether there was one; the values that its steps
 *   wrote stay, except those of a fork. Fails with `RunActive` if a process runs it and
 *   with `Unreadable` if it is no run; `force` deletes it even so, and the process stops.
 * - `read`: the value that a step wrote last, in any run or in the fork with that key, with
 *   the run and the place of the step in its history.
 * - `isCurrent`: the run that is under the key now wrote that value.
 *
 * Errors of the run itself are `PlanError`, as in `Plan.run`; errors of the store, the lease or
 * the key are `CheckpointError`.
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
  readonly list: (options?: storage.ListOptions) => Effect.Effect<storage.Page, CheckpointError>
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
 * - `leaseTime`: the time for which a process that hangs keeps its key, and one that died where
 *   the store does not know that; default 30 seconds.
 * - `heartbeat`: the time after which a lease is renewed if nothing else is written;
 *   default a third of `leaseTime`, at most half of it. The layer dies with any other.
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
 * Stores runs in a `VersionedStore`: in memory, in one file, in a database.
 *
 * **Details**
 *
 * With the namespace `plan` the head of a run is stored under `plan/head/<key>`, its events
 * under `plan/journal/`, the values that steps write under `plan/writes/<key of the write>`,
 * and under `plan/forks/` for a fork. A run writes two values for each batch of events, which
 * is once or twice for a step, and one more for a step with `writes`; for an agent in a step it
 * is once for an answer of the model, and twice for a tool call.
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

type Head = checkpointRecord.Head

type StoredHead = storage.StoredHead<Head>

type Conflict = storage.Conflict<Head>

/** The journal of runs, and the values that their steps write. */
type Store = ReturnType<typeof makeStore>

const makeStore = (versioned: VersionedStore.Service, namespace: string) => {
  const values = storage.documents(versioned)
  const root = storage.rootKey(namespace)
  const forkKey = (fork: string) => `${root}forks/${storage.partOfKey(fork)}`
  const writeKey = (write: string, fork: string | undefined) =>
    fork === undefined ? `${root}writes/${write}` : `${forkKey(fork)}${write}`

  return {
    runs: storage.make({ store: versioned, namespace, ...checkpointRecord.codecs }),
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

/** The part of a head that follows from the state of the run. */
type Summary = Pick<Head, "status" | "digest" | "revision" | "iterations" | "completed" | "outcome"> & {
  readonly run: string
}

/** The decisions that an event records. */
const decisionsIn = (event: Run.Event | PlanRun.Event, path: ReadonlyArray<string>): ReadonlyArray<Run.Decision> => {
  switch (event._tag) {
    case "ApprovalDecided":
    case "StepDecided":
      return [{ callId: event.callId, digest: event.digest, approved: event.approved, path }]
    case "ChildEvent":
      return decisionsIn(event.event, [...path, event.callId])
    case "NestedChanged":
    case "AgentChanged":
      return decisionsIn(event.event, [...path, event.step])
    default:
      return []
  }
}

/** The decisions to resume a run with: of those that it has taken, only the ones about what waits again. */
const newDecisions = (
  { decisions }: ResumeOptions,
  taken: ReadonlyArray<Run.Decision>,
  waiting: ReadonlyArray<runTransition.Waiting>
): ReadonlyArray<Run.Decision> | undefined =>
  decisions?.filter((decision) => {
    const concerns = (one: runTransition.Waiting) => runTransition.concerns(decision, one)
    return waiting.some(concerns) || !taken.some((one) => concerns(one) && one.approved === decision.approved)
  })

const statuses: { readonly [Tag in planRunParts.Outcome["_tag"]]: Status } = {
  Completed: "done",
  Concluded: "done",
  Paused: "paused",
  Failed: "failed",
  LimitReached: "failed",
  Interrupted: "cancelled"
}

const quoteNames = (names: ReadonlyArray<string>) =>
  Array.from(new Set(names), (name) => JSON.stringify(name)).join(", ")

const outcomeMessage = (outcome: planRunParts.Outcome): string | undefined => {
  switch (outcome._tag) {
    case "Failed":
      return `step ${quoteNames([outcome.step])} failed with ${outcome.failure.type}`
    case "LimitReached":
      return `${outcome.limit} iterations, next ${quoteNames([outcome.next])}`
    case "Paused":
      return `waiting: ${quoteNames([...outcome.pauses.map(({ step }) => step), ...outcome.requests.map(({ name }) => name)])}`
    case "Interrupted":
      return outcome.reason
    default:
      return undefined
  }
}

const summarize = (state: PlanRun.State): Summary => {
  const { history, iterations, outcome, revision, runId } = state
  const completed = Chunk.size(history)
  const summary = { run: runId, digest: planChange.digestOf(state), revision, iterations, completed }
  if (outcome === undefined) return { ...summary, status: "running" }
  const message = outcomeMessage(outcome)
  const type = outcome._tag
  return { ...summary, status: statuses[type], outcome: message === undefined ? { type } : { type, message } }
}

/** The writes that a state adds, in the order in which the steps finished; in a parallel group that is the declared order. */
const writesOf = (
  { definition }: livePlan.BoundPlan,
  before: PlanRun.State | undefined,
  state: PlanRun.State
): ReadonlyArray<checkpointRecord.PendingWrite> => {
  if (state.writes === before?.writes) return []
  const first = before === undefined ? 0 : Chunk.size(before.history)
  return Array.from({ length: Chunk.size(state.history) - first }, (_, index) => first + index).flatMap((record) => {
    const step = Option.match(Chunk.get(state.history, record), { onNone: () => "", onSome: ({ step }) => step })
    const write = planTransition.findStep(definition, step)?.writes
    const isNewest = write !== undefined && Option.contains(HashMap.get(state.writes, write), record)
    return isNewest ? [{ write, step, record }] : []
  })
}

/** The status of a run that a process works on, or worked on when it died. */
const isOpen = (status: Status): boolean => status === "claimed" || status === "running"

/** For how long no other process may take the run. */
const restOf = ({ rest }: claimedLog.Lease, at: StoredHead): Effect.Effect<number> =>
  isOpen(at.head.status) ? rest(at) : Effect.succeed(0)

/** The stamp of each pending write: of the value that it replaces, where that can be read. */
const findPending = (store: Store, fork: string | undefined, writes: ReadonlyArray<checkpointRecord.PendingWrite>) =>
  Effect.forEach(writes, (pending) =>
    Effect.match(store.write(pending.write, fork), {
      // The write itself fails, after its step is stored
      onFailure: () => pending,
      onSuccess: (found): checkpointRecord.PendingWrite => {
        if (Option.isNone(found)) return { ...pending, before: null }
        const { record, run } = found.value.value
        return { ...pending, before: { run, record } }
      }
    })
  )

/** Does a write that the head of a run names. */
const performWrite = Effect.fnUntraced(function* (
  store: Store,
  fork: string | undefined,
  run: string,
  { before, record, step, write }: checkpointRecord.PendingWrite,
  output: Schema.Json
) {
  const value = { run, record, step, at: yield* DateTime.now, value: output }
  const attempt = Effect.gen(function* () {
    const found = Option.getOrUndefined(yield* store.write(write, fork))
    const stamp = found?.value
    if (stamp?.run === run && stamp.record >= record) return
    const isReplaced = before !== undefined && (stamp?.run !== before?.run || stamp?.record !== before?.record)
    if (isReplaced) return
    yield* store.setWrite(write, fork, Option.fromUndefinedOr(found?.version), value)
  })
  yield* Effect.mapError(
    Effect.retry(attempt, { while: (error) => error._tag === "VersionConflict" }),
    (error): Reason => ({ _tag: "WriteFailed", write, step, problem: storage.renderReason(error) })
  )
})

/** A run whose key this process has taken, or a run that is done. */
interface Claim {
  readonly at: StoredHead
  readonly begin: checkpointRecord.Input
  /** Absent before the run has begun. */
  readonly state: PlanRun.State | undefined
  /** The head before the claim, which comes back if nothing happens. */
  readonly before: Head | undefined
  readonly taken: ReadonlyArray<Run.Decision>
}

const runActive = ({ owner, status }: Head, leaseUntil: DateTime.Utc): Reason => ({
  _tag: "RunActive",
  owner,
  status,
  leaseUntil
})

const checkLease = Effect.fnUntraced(function* (lease: claimedLog.Lease, at: StoredHead) {
  const rest = yield* restOf(lease, at)
  if (rest > 0) return yield* Effect.fail(runActive(at.head, DateTime.addDuration(yield* DateTime.now, rest)))
})

/** The state of a run, folded from its events, with the decisions in them; `undefined` if it has none. */
const stateOf = Effect.fnUntraced(function* (
  { runs }: Store,
  plan: livePlan.BoundPlan,
  at: StoredHead
): Effect.fn.Return<Pick<Claim, "state" | "taken">, Conflict | Reason | PlanError.PlanError> {
  const { head, key } = at
  const events = (yield* runs.batches(at)).flat()
  if (events.length === 0 && head.revision === 0) return { state: undefined, taken: [] }
  const damaged = (problem: string) => storage.damaged(runs.journalKey(key), problem)
  const folded = yield* Effect.fromResult(engine.replay(yield* engine.completeRules(plan), events))
  const state = yield* Effect.mapError(Effect.fromResult(folded), ({ message }) =>
    damaged(`expected events that follow each other, got ${message}`)
  )
  const { revision, runId } = state
  if (revision === head.revision && runId === head.run) {
    return { state, taken: events.flatMap((event) => decisionsIn(event, [])) }
  }
  const expected = `expected event ${head.revision} of run ${head.run ?? "unknown"}`
  return yield* Effect.fail(damaged(`${expected}, got event ${revision} of run ${runId}`))
})

/** The input and the context that a run began with, to compare them. */
const canonicalInput = (begin: checkpointRecord.Input) =>
  signatures.inside(checkpointRecord.codecs.input.encode(begin)).pipe(
    Effect.catchTag("LossyEncoding", Effect.die),
    Effect.mapError(storage.refused),
    Effect.map((json) => Digest.canonicalize([json["input"] ?? null, json["context"] ?? {}]))
  )

/** A run to begin, unless there is one to resume. */
interface Start {
  readonly begin: checkpointRecord.Input
  readonly policy: Policy
}

/** Policies come from configuration, too. */
const isPolicy = Schema.is(Policy)

/** Takes keys: begins runs, and takes over those that no process works on. */
const makeClaims = (store: Store, lease: claimedLog.Lease) => {
  const { runs } = store

  const begin = Effect.fnUntraced(function* (
    { definition, digest }: livePlan.BoundPlan,
    key: string,
    found: Option.Option<StoredHead>,
    start: Start
  ) {
    const fork = Option.match(found, { onNone: () => start.policy === "fork", onSome: ({ head }) => head.fork })
    const counts = { revision: 0, iterations: 0, completed: 0, pending: [] }
    const at = yield* claimedLog.begin(runs, lease, key, found, {
      input: (generation) => ({ ...start.begin, generation }),
      head: (fields): Head => ({ ...fields, ...counts, plan: definition.name, digest, status: "claimed", fork })
    })
    const claim: Claim = { at, begin: start.begin, state: undefined, before: undefined, taken: [] }
    return claim
  })

  /** Takes over a run; `given` has the input that it has to have begun with. */
  const takeOver = Effect.fnUntraced(function* (
    plan: livePlan.BoundPlan,
    at: StoredHead,
    given?: checkpointRecord.Input
  ) {
    const { head, key } = at
    const begun = yield* runs.input(at)
    if (given !== undefined && !Equal.equals(yield* canonicalInput(given), yield* canonicalInput(begun))) {
      return yield* Effect.fail<Reason>({ _tag: "InputDiffers", status: head.status })
    }
    const claim: Claim = { at, begin: begun, before: head, ...(yield* stateOf(store, plan, at)) }
    const { state } = claim
    if (head.status === "done") {
      if (state !== undefined && summarize(state).status === "done") return claim
      return yield* Effect.fail(storage.damaged(runs.headKey(key), "expected events up to the result, got fewer"))
    }
    const status: Status = state === undefined ? "claimed" : "running"
    const change = (head: Head): Head => ({ ...head, status })
    const taken = Effect.catchTag(claimedLog.takeOver(runs, lease, at, change), "Leased", (leased) =>
      Effect.fail(runActive(leased.at.head, leased.until))
    )
    return { ...claim, at: yield* taken }
  })

  /** Claims a key for a new run, by its policy, or without one to resume the run that is there. */
  const claim = (
    plan: livePlan.BoundPlan,
    key: string,
    start?: Start
  ): Effect.Effect<Claim, Reason | PlanError.PlanError> =>
    Effect.gen(function* () {
      if (start !== undefined && !isPolicy(start.policy)) {
        return yield* Effect.fail<Reason>({ _tag: "UnknownPolicy", found: String(start.policy) })
      }
      const found = yield* runs.head(key)
      if (Option.isNone(found)) {
        if (start === undefined) return yield* Effect.fail<Reason>({ _tag: "NothingToResume" })
        return yield* begin(plan, key, found, start)
      }
      yield* checkLease(lease, found.value)
      if (start === undefined) return yield* takeOver(plan, found.value)
      if (start.policy === "startOrResume") return yield* takeOver(plan, found.value, start.begin)
      const { lease: leaseUntil, owner, status } = found.value.head
      if (start.policy === "restart" || status === "done" || status === "cancelled") {
        return yield* begin(plan, key, found, start)
      }
      return yield* Effect.fail<Reason>({ _tag: "Unfinished", owner, status, ...defined({ leaseUntil }) })
      // Another process was faster: look which one
    }).pipe(Effect.catchTag("Conflict", () => claim(plan, key, start)))

  return claim
}

const leaseLost = ({ found, head }: claimedLog.Lost<Head>): Reason => ({
  _tag: "LeaseLost",
  owner: head.owner,
  found: Option.match(found, {
    onNone: () => "none: the run was removed",
    onSome: ({ head }) => `that of the owner ${base.quote(head.owner)} (status ${head.status})`
  })
})

/** Works on a claimed run: writes its events with its head and the values of its steps, and holds the lease. */
const openSession = (store: Store, lease: claimedLog.Lease, plan: livePlan.BoundPlan, claim: Claim) => {
  const { runs } = store
  const { at, before } = claim
  const fork = at.head.fork ? at.key : undefined
  const errorOf = (reason: Reason) => new CheckpointError({ key: at.key, reason })
  const error = (reason: storage.Reason | claimedLog.Lost<Head>) =>
    errorOf(reason._tag === "Lost" ? leaseLost(reason) : reason)
  const log = claimedLog.make({ journal: runs, lease, at, error })
  log.isOver = at.head.status === "done"
  /** The state after the last event that is written. */
  let { state } = claim
  let hasWritten = false

  /** Does the writes that the head names; the next write of the head leaves them out. */
  const settleWrites = Effect.fnUntraced(function* ({ history, runId }: PlanRun.State) {
    for (const pending of log.at.head.pending) {
      const record = Chunk.get(history, pending.record)
      if (Option.isNone(record)) continue
      yield* Effect.mapError(performWrite(store, fork, runId, pending, record.value.output), errorOf)
    }
    log.at = { ...log.at, head: { ...log.at.head, pending: [] } }
  })

  const commit = Effect.fnUntraced(function* (events: ReadonlyArray<PlanRun.Event>, next: PlanRun.State) {
    const pending = yield* findPending(store, fork, writesOf(plan, state, next))
    const now = summarize(next)
    const ends = !isOpen(now.status)
    // A run ends after its writes
    const isLast = ends && pending.length === 0
    const write = isLast ? log.release : log.append
    const status: Status = isLast ? now.status : "running"
    yield* write(({ outcome: _, ...head }) => ({ ...head, ...now, status, pending }), [events])
    state = next
    if (pending.length === 0) return
    yield* settleWrites(next)
    if (ends) yield* log.release((head) => ({ ...head, pending: [], status: now.status }))
  })

  const statusOfExit = (exit: Exit.Exit<unknown, unknown>): Status => {
    if (Exit.isFailure(exit)) return Cause.hasInterruptsOnly(exit.cause) ? "cancelled" : "failed"
    const status = state === undefined ? "claimed" : summarize(state).status
    return isOpen(status) ? "cancelled" : status
  }

  return {
    key: at.key,
    /** Writes events. A write that fails stops the run; a run that was done before writes nothing. */
    write: (events: ReadonlyArray<PlanRun.Event>, next: PlanRun.State) =>
      log.alone(
        Effect.suspend(() => {
          if (log.failure !== undefined) return Effect.fail(log.failure)
          if (log.isOver) return Effect.void
          hasWritten = true
          return Effect.catch(commit(events, next), log.stop)
        })
      ),
    /** Completes what the last owner left: its writes, then the values of retired generations. */
    tidy: log.alone(
      Effect.gen(function* () {
        if (log.isOver) return
        if (state !== undefined && log.at.head.pending.length > 0) yield* settleWrites(state)
        yield* log.sweep
      }).pipe(Effect.catch(log.stop))
    ),
    beat: log.beat,
    /** Releases the key of a run whose events do not hold its end. */
    settle: (exit: Exit.Exit<unknown, unknown>) =>
      log.alone(
        Effect.gen(function* () {
          if (log.isOver || log.isLost) return
          log.isOver = true
          const isUntouched = Exit.isFailure(exit) && log.failure === undefined && !hasWritten
          const isRefused = isUntouched && Cause.hasFails(exit.cause)
          if (isRefused && before === undefined) return yield* Effect.ignore(runs.remove(log.at.key, log.at.version))
          const isRestored = isUntouched && before !== undefined && (isRefused || !isOpen(before.status))
          const status = isRestored ? before.status : statusOfExit(exit)
          // Released already, where the store failed and wrote even so
          const released = log.release((head) => (isOpen(head.status) ? { ...head, status } : head))
          yield* Effect.catch(released, (error) =>
            // A run that failed has its error; the lease ends by itself
            Exit.isFailure(exit) ? Effect.logWarning(error.message) : Effect.fail(error)
          )
        })
      ),
    /** Fails when the run has to stop. */
    stopped: log.stopped,
    /** The error that stopped the run, instead of the one that the run made of it. */
    explain: <Error>(error: Error): Error | CheckpointError => log.failure ?? error
  }
}

/** A run whose key is taken: to its result, or as a stream of events. */
interface Execution<out A, out R> extends Omit<ReturnType<typeof openSession>, "write"> {
  readonly result: Effect.Effect<PlanRun.Result<A>, PlanError.PlanError, R>
  readonly events: Stream.Stream<PlanEvent<A>, PlanError.PlanError, R>
}

/** Runs a claimed plan with the options of this call over those that the run began with. */
const execute = <A, R>(
  store: Store,
  lease: claimedLog.Lease,
  plan: livePlan.Bound<A, R>,
  options: ResumeOptions,
  claim: Claim
): Execution<A, R> => {
  const { begin, state, taken } = claim
  const { write, ...session } = openSession(store, lease, plan.live, claim)
  const { key } = session
  const journalFailed = ({ message: problem }: CheckpointError) =>
    new PlanError.PlanError({ plan: plan.definition.name, reason: { _tag: "JournalFailed", problem } })
  const journal: livePlan.Journal = (events, state) =>
    write(events, state).pipe(Effect.as({ key }), Effect.mapError(journalFailed))
  if (state === undefined) {
    const { context = begin.context, maxIterations = begin.maxIterations } = options
    const all = { ...options, decisions: undefined, context, maxIterations, journal }
    return { ...session, result: Plan.run(plan, begin.input, all), events: Plan.stream(plan, begin.input, all) }
  }
  const all = { ...options, decisions: newDecisions(options, taken, planTransition.waitingItems(state)), journal }
  return { ...session, result: Plan.resume(plan, state, all), events: Plan.resumeStream(plan, state, all) }
}

const makeService = Effect.fnUntraced(function* (options: Options) {
  const values = yield* VersionedStore.VersionedStore
  const lease = yield* claimedLog.leaseOf("Checkpoint.layer", options, values)
  const store = makeStore(values, options.namespace ?? "plan")
  const { runs } = store
  const claim = makeClaims(store, lease)

  const fail = (key: string | undefined) => (reason: Reason) => new CheckpointError({ ...defined({ key }), reason })

  const failRun = (key: string) => (error: Reason | PlanError.PlanError) =>
    error._tag === "PlanError" ? error : fail(key)(error)

  /** Claims a key, and opens a session for the run under it. */
  const open = <A, R>(plan: livePlan.Bound<A, R>, options: ResumeOptions, key: string, given?: Start) =>
    Effect.map(Effect.mapError(claim(plan.live, key, given), failRun(key)), (claim) =>
      execute(store, lease, plan, options, claim)
    )

  const keyOf = ({ key, policy }: { readonly key: string; readonly policy?: Policy | undefined }) =>
    policy === "fork" ? Effect.map(storage.nonce, (unique) => `${key}:${unique}`) : Effect.succeed(key)

  /** The context of a run, as it is stored: that of the caller where no other was given. */
  const contextOf = ({ context }: { readonly context?: RunOptions["context"] }) =>
    Effect.map(RunContext.RunContext, (own) => context ?? (Struct.keys(own).length === 0 ? undefined : own))

  const start = Effect.fnUntraced(function* <A, R>(plan: livePlan.Bound<A, R>, options: RunOptions) {
    const { maxIterations, policy = "start" } = options
    const input = yield* performStep.resolveInput(plan.definition.name, options.input)
    const begin = { generation: "", input, ...defined({ context: yield* contextOf(options), maxIterations }) }
    return yield* open(plan, { ...options, decisions: undefined }, yield* keyOf(options), { begin, policy })
  })

  const resume = <A, R>(plan: livePlan.Bound<A, R>, options: ResumeOptions) => open(plan, options, options.key)

  const run = <A, R, E>(name: string, opening: Effect.Effect<Execution<A, R>, E>) =>
    Effect.acquireUseRelease(
      opening,
      ({ beat, explain, key, result, stopped, tidy }) => {
        const running = Effect.raceFirst(Effect.andThen(tidy, result), stopped)
        return Effect.scoped(Effect.andThen(Effect.forkScoped(beat), running)).pipe(
          Effect.mapBoth({ onFailure: explain, onSuccess: (result) => ({ ...result, key }) })
        )
      },
      ({ settle }, exit) => settle(exit)
    ).pipe(Effect.withSpan(name))

  const stream = <A, R, E>(opening: Effect.Effect<Execution<A, R>, E>) =>
    Effect.gen(function* () {
      // A failure of the last write has nowhere to go once the stream has ended
      const { beat, events, explain, stopped, tidy } = yield* Effect.acquireRelease(opening, ({ settle }, exit) =>
        Effect.catch(settle(exit), (error) => Effect.logWarning(error.message))
      )
      yield* Effect.forkScoped(beat)
      return Stream.unwrap(Effect.as(tidy, events)).pipe(Stream.interruptWhen(stopped), Stream.mapError(explain))
    }).pipe(Stream.unwrap)

  const load = (
    plan: livePlan.BoundPlan,
    key: string
  ): Effect.Effect<Option.Option<PlanRun.State>, Reason | PlanError.PlanError> =>
    Effect.gen(function* () {
      const found = yield* runs.head(key)
      if (Option.isNone(found)) return Option.none()
      return Option.fromUndefinedOr((yield* stateOf(store, plan, found.value)).state)
      // A new run began under the key since the head was read
    }).pipe(Effect.catchTag("Conflict", () => load(plan, key)))

  const remove = (key: string, force: boolean): Effect.Effect<boolean, Reason> =>
    Effect.gen(function* () {
      if (force) return yield* runs.remove(key, undefined)
      const found = yield* runs.head(key)
      if (Option.isNone(found)) return false
      yield* checkLease(lease, found.value)
      return yield* runs.remove(key, found.value.version)
    }).pipe(Effect.catchTag("Conflict", () => remove(key, force)))

  const inspect = ({ head, key }: StoredHead, rest: number): Inspection => ({
    ...Struct.pick(head, ["status", "owner", "epoch", "digest", "fork", "iterations", "completed"]),
    key,
    name: head.plan,
    live: rest > 0,
    leaseUntil: head.lease,
    runId: head.run,
    pendingWrites: head.pending.map(({ write }) => write),
    outcome: head.outcome && { _tag: head.outcome.type, ...defined({ message: head.outcome.message }) },
    updatedAt: head.updated
  })

  const service: Service = {
    run: (plan, options) => run("Checkpoint.run", start(plan, options)),
    resume: (plan, options) => run("Checkpoint.resume", resume(plan, options)),
    stream: (plan, options) => stream(start(plan, options)),
    resumeStream: (plan, options) => stream(resume(plan, options)),
    inspect: Effect.fn("Checkpoint.inspect")(function* (key) {
      const found = yield* Effect.mapError(runs.head(key), fail(key))
      if (Option.isNone(found)) return Option.none()
      return Option.some(inspect(found.value, yield* restOf(lease, found.value)))
    }),
    load: Effect.fn("Checkpoint.load")(({ live }, key) => Effect.mapError(load(live, key), failRun(key))),
    list: Effect.fn("Checkpoint.list")((range) => Effect.mapError(runs.list(range), fail(undefined))),
    remove: Effect.fn("Checkpoint.remove")(function* (key, options) {
      const removed = remove(key, options?.force ?? false)
      return yield* Effect.mapError(Effect.tap(removed, store.removeWrites(key)), fail(key))
    }),
    read: Effect.fn("Checkpoint.read")(function* (write, options) {
      const found = yield* Effect.mapError(store.write(write, options?.fork), fail(options?.fork))
      return Option.map(found, ({ value: { run, ...value } }) => ({ ...value, runId: run }))
    }),
    isCurrent: Effect.fn("Checkpoint.isCurrent")(function* (key, write) {
      const found = yield* Effect.mapError(runs.head(key), fail(key))
      if (Option.isNone(found)) return false
      const { fork, run } = found.value.head
      const written = yield* Effect.mapError(store.write(write, fork ? key : undefined), fail(key))
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
