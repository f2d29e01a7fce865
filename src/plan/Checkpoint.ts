/**
 * Runs of plans and agents that survive their process.
 *
 * **When to use**
 *
 * Use it for plans and agents that take long, cost money, or wait for people: a run is stored
 * under a key while it happens, and any process that has the plan or agent can resume it.
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
 * Of an agent's run each answer of the model, and each start and result of a tool call are
 * written before the run continues. An answer that was written is not asked for again, and a
 * call that had started when the process died gets an `interrupted` result, whose value is
 * `{ outcome: "unknown" }`, and never starts again. There are two exceptions: an agent behind a
 * call resumes from its own state, and a call of a tool that is `Tool.Idempotent` runs again.
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
 * - A step of a plan that was running when the process died runs again. There is no transaction
 *   between its side effect and its completion: make steps idempotent.
 * - A plan is run as a plan, also where its type is `Agent`.
 * - Each process compares the lease with its own clock. The clocks of machines have to
 *   agree to within a fraction of the lease.
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
 * **Example** (An agent that waits for an approval)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent } from "effect-emissary"
 * import { Checkpoint } from "effect-emissary/plan"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
 * )
 * const cashier = Agent.make("cashier", { toolkit })
 *
 * const program = Effect.gen(function*() {
 *   const checkpoint = yield* Checkpoint.Checkpoint
 *   const waiting = yield* checkpoint.run(cashier, { key: "order/42", input: "Pay 5 euros" })
 *   assert(waiting.outcome === "AwaitingApproval")
 *   // Any other process that has the agent and the store can do this
 *   const decisions = waiting.requests.map((request) => ({ ...request, approved: true }))
 *   return yield* checkpoint.resume(cashier, { key: "order/42", decisions })
 * })
 *
 * const model = ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { amount: 5 } }] }, { text: "Paid." }])
 * const { text } = await program.pipe(
 *   Effect.provide([Checkpoint.layerMemory, model, toolkit.toLayer({ pay: () => Effect.void })]),
 *   Effect.runPromise
 * )
 * assert.strictEqual(text, "Paid.")
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
import * as Predicate from "effect/Predicate"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Struct from "effect/Struct"
import type { Agent } from "../agent/Agent.ts"
import { AgentError } from "../agent/AgentError.ts"
import type { AgentEvent } from "../agent/AgentEvent.ts"
import * as Run from "../agent/Run.ts"
import type * as agentTypes from "../agent/internal/agentTypes.ts"
import * as definitionChange from "../agent/internal/definitionChange.ts"
import type * as runParts from "../agent/internal/runParts.ts"
import * as runTransition from "../agent/internal/runTransition.ts"
import * as Conversation from "../conversation/Conversation.ts"
import * as VersionedStore from "../conversation/VersionedStore.ts"
import * as conversationCodec from "../conversation/internal/conversationCodec.ts"
import * as claimedLog from "../conversation/internal/claimedLog.ts"
import * as storage from "../conversation/internal/storage.ts"
import * as Digest from "../payload/Digest.ts"
import type * as PayloadError from "../payload/PayloadError.ts"
import type * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as base from "../payload/internal/base.ts"
import * as signatures from "../payload/internal/gate.ts"
import { defined } from "../payload/internal/plainJson.ts"
import * as RunContext from "../tool/RunContext.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as Plan from "./Plan.ts"
import * as PlanError from "./PlanError.ts"
import type { PlanEvent } from "./PlanEvent.ts"
import type * as PlanRun from "./PlanRun.ts"
import * as checkpointRecord from "./internal/checkpointRecord.ts"
import * as engine from "./internal/engine.ts"
import * as livePlan from "./internal/livePlan.ts"
import * as performStep from "./internal/performStep.ts"
import type * as planRunParts from "./internal/planRunParts.ts"
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
 * | `paused` | steps or calls wait for an answer |
 * | `failed` | a step or the model failed, the limit was used up, a write was refused, or the answer of an agent is not valid (`InvalidOutput`; resuming returns the same result, so begin anew with `restart`) |
 * | `cancelled` | it was interrupted |
 * | `done` | it has its result, and all writes are done |
 *
 * @category models
 * @since 0.1.0
 */
type Status = checkpointRecord.Status

const Reason = Schema.TaggedUnion({
  ...storage.reasons,
  RunActive: { owner: Schema.String, status: checkpointRecord.Status, leaseUntil: Schema.DateTimeUtcFromMillis },
  Unfinished: {
    owner: Schema.String,
    status: checkpointRecord.Status,
    leaseUntil: Schema.optionalKey(Schema.DateTimeUtcFromMillis)
  },
  NothingToResume: {},
  KindDiffers: { found: Schema.Literals(["plan-run", "agent-run"]) },
  InputDiffers: { status: checkpointRecord.Status },
  LeaseLost: { owner: Schema.String, found: Schema.String },
  WriteFailed: { write: Schema.String, step: Schema.String, problem: Schema.String }
})

type Reason = typeof Reason.Type

const renderReason = Reason.match({
  RunActive: ({ leaseUntil, owner, status }) =>
    `expected no process that runs it, got the owner ${base.quote(owner)} (status ${status}, lease until ${DateTime.formatIso(leaseUntil)}). Wait for it, or try again after the lease: a process that died does not renew it`,
  Unfinished: ({ leaseUntil, owner, status }) => {
    const lease = leaseUntil === undefined ? "" : `, its lease ended ${DateTime.formatIso(leaseUntil)}`
    return `expected no unfinished run, got one of the owner ${base.quote(owner)} (status ${status}${lease}). Resume it, use another key, or abandon it with the policy "restart"`
  },
  NothingToResume: () => `expected a run, got none. Start one, or use the policy "startOrResume"`,
  KindDiffers: (reason) => {
    const [expected, found] = reason.found === "plan-run" ? ["an agent", "a plan"] : ["a plan", "an agent"]
    return `expected a run of ${expected}, got one of ${found}. Use another key, or begin a new run with the policy "restart"`
  },
  InputDiffers: ({ status }) =>
    `expected the input, conversation and context that the run (status ${status}) began with, got others. Use a key per input; or begin a new run with the policy ${status === "done" ? `"start"` : `"restart"`}`,
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
 * | `KindDiffers` | the run under the key is that of a plan, and an agent was to resume it, or the other way round |
 * | `InputDiffers` | the run under the key began with another input, conversation or context |
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
 * `startOrResume` resumes only with the input, the conversation (its `Conversation.transcript`)
 * and the context that the run began with, and fails with `InputDiffers` otherwise, also for a run that is done: a job that runs every night
 * under one key fails instead of running only once. It fails with `PlanChanged`, or
 * `DefinitionChanged`, if the plan or agent was edited since in a way that breaks the run, also for a run that is done.
 *
 * `fork` starts a separate run under the key `<key>:<unique>`, whatever is under the key.
 * The writes of its steps are separate, too.
 *
 * @category models
 * @since 0.1.0
 */
type Policy = "start" | "startOrResume" | "restart" | "fork"

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
interface ResumeOptions extends Omit<livePlan.ResumeOptions, "journal"> {
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
 * Options of resuming the run of an agent under a key: those of `Agent.resume`. The input,
 * the conversation and the context are those that the run began with.
 *
 * @category options
 * @since 0.1.0
 */
interface AgentResumeOptions extends Omit<agentTypes.ResumeOptions, "input"> {
  readonly key: string
}

/**
 * Options of a run of an agent under a key: those of `Agent.run`. The default of `policy` is
 * `"start"`. Only {@link Service.resume} takes decisions.
 *
 * @category options
 * @since 0.1.0
 */
interface AgentRunOptions extends Omit<agentTypes.Options, "decisions"> {
  readonly key: string
  readonly decisions?: undefined
  readonly input?: agentTypes.Input
  readonly policy?: Policy | undefined
}

/** An agent that is no plan. */
type OnlyAgent<A, R> = Agent<A, R> & { readonly [livePlan.boundTypeId]?: never }

/**
 * The result of a run of a plan, and the key it is stored under: that of the fork, for a fork.
 *
 * @category models
 * @since 0.1.0
 */
export type RunResult<A> = PlanRun.Result<A> & { readonly key: string }

/** The same of an agent. */
type AgentResult<A> = agentTypes.Result<A> & { readonly key: string }

/**
 * A summary of the run under a key, which costs one read.
 *
 * **Details**
 *
 * - `live`: its lease is valid, so no other process can take it.
 * - `leaseUntil`: absent once the run has ended.
 * - `epoch`: the number of times a process took the key.
 * - `name`, `digest`: of the plan or agent. The digest of an agent is empty before the run
 *   has begun.
 * - `runId`: absent before the run has begun.
 * - `iterations`, `completed`: of a plan its iterations and the step results in its history;
 *   of an agent both are the answers of the model.
 * - `pendingWrites`: keys of writes that may not be done yet.
 * - `outcome`: the tag of its `PlanRun.Outcome` or `Run.Outcome`, with a message for people.
 *
 * @category models
 * @since 0.1.0
 */
export interface Inspection {
  readonly key: string
  readonly kind: "plan-run" | "agent-run"
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

/** Runs a plan to its result, or an agent. */
interface Runs<OfPlan, OfAgent> {
  <A, R>(
    plan: livePlan.Bound<A, R>,
    options: OfPlan
  ): Effect.Effect<RunResult<A>, PlanError.PlanError | CheckpointError, R>
  <A, R>(agent: OnlyAgent<A, R>, options: OfAgent): Effect.Effect<AgentResult<A>, AgentError | CheckpointError, R>
}

/** Runs a plan or an agent, and emits its events. */
interface Streams<OfPlan, OfAgent> {
  <A, R>(
    plan: livePlan.Bound<A, R>,
    options: OfPlan
  ): Stream.Stream<PlanEvent<A>, PlanError.PlanError | CheckpointError, R>
  <A, R>(agent: OnlyAgent<A, R>, options: OfAgent): Stream.Stream<AgentEvent<A>, AgentError | CheckpointError, R>
}

/**
 * The operations on checkpoints. Keys are any text.
 *
 * **Details**
 *
 * - `run`: runs a plan or an agent under a key, see {@link Policy}. A run that fails before
 *   its first event, with an empty input for example, leaves nothing under the key.
 * - `resume`: resumes the run under a key; of a run that is done it returns the recorded
 *   result, and nothing runs. A decision that the run has taken already is no error, if it is
 *   the same one. Fails with `NothingToResume` if there is none, with
 *   `RunActive` if another process runs it, with `PlanChanged` or `DefinitionChanged` if the
 *   plan or agent was edited in a way that `onChange` does not allow, with `KindDiffers` if it is the run of the other kind.
 * - `stream`, `resumeStream`: the same as a stream of events; of a plan `Checkpointed` follows
 *   each write. A stream that is not read to its end is cancelled. The run does not wait for
 *   its reader: what it did before the reader left, at most to its end, is done.
 * - `inspect`: the progress of a run.
 * - `load`: the state of the run, `None` if there is none or it has not begun. A run whose
 *   events do not fit the plan fails with `PlanChanged`, that of an agent with another name with
 *   `DefinitionChanged`.
 * - `list`: keys in pages; `prefix`, `after` and `limit` (default 100) as in
 *   `VersionedStore`.
 * - `remove`: deletes a run, and returns whether there was one; the values that its steps
 *   wrote stay, except those of a fork. Fails with `RunActive` if a process runs it and
 *   with `Unreadable` if it is no run; `force` deletes it even so, and the process stops.
 * - `read`: the value that a step wrote last, in any run or in the fork with that key, with
 *   the run and the place of the step in its history.
 * - `isCurrent`: the run that is under the key now wrote that value.
 *
 * Errors of the run itself are `PlanError`, as in `Plan.run`, or `AgentError`, as in
 * `Agent.run`; errors of the store, the lease or the key are `CheckpointError`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  readonly run: Runs<RunOptions, AgentRunOptions>
  readonly resume: Runs<ResumeOptions, AgentResumeOptions>
  readonly stream: Streams<RunOptions, AgentRunOptions>
  readonly resumeStream: Streams<ResumeOptions, AgentResumeOptions>
  readonly inspect: (key: string) => Effect.Effect<Option.Option<Inspection>, CheckpointError>
  readonly load: {
    <A, R>(
      plan: livePlan.Bound<A, R>,
      key: string
    ): Effect.Effect<Option.Option<planTransition.State>, PlanError.PlanError | CheckpointError>
    <A, R>(agent: OnlyAgent<A, R>, key: string): Effect.Effect<Option.Option<Run.State>, AgentError | CheckpointError>
  }
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
 * Runs of plans and agents that survive their process.
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
 * is once or twice for a step, and one more for a step with `writes`; for an agent it is once
 * for an answer of the model, and twice for a tool call.
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

const isConflict = (error: unknown): error is Conflict => Predicate.isTagged(error, "Conflict")

const isReason = Schema.is(Reason)

/** The journals of runs and the values that their steps write. Any of the journals reads the head of any run. */
type Store = ReturnType<typeof makeStore>

const makeStore = (versioned: VersionedStore.Service, namespace: string) => {
  const values = storage.documents(versioned)
  const runs = { store: versioned, namespace, head: checkpointRecord.headCodec }
  const root = storage.rootKey(namespace)
  const forkKey = (fork: string) => `${root}forks/${storage.partOfKey(fork)}`
  const writeKey = (write: string, fork: string | undefined) =>
    fork === undefined ? `${root}writes/${write}` : `${forkKey(fork)}${write}`

  return {
    plans: storage.make({ ...runs, ...checkpointRecord.planCodecs }),
    agents: storage.make({ ...runs, ...checkpointRecord.agentCodecs }),
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
const decisionsIn = (
  event: Run.Event | planRunParts.Event,
  path: ReadonlyArray<string>
): ReadonlyArray<Run.Decision> => {
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
  { decisions }: ResumeOptions | AgentResumeOptions,
  taken: ReadonlyArray<Run.Decision>,
  waiting: ReadonlyArray<runTransition.Waiting>
): ReadonlyArray<Run.Decision> | undefined =>
  decisions?.filter((decision) => {
    const concerns = (one: runTransition.Waiting) => runTransition.concerns(decision, one)
    return waiting.some(concerns) || !taken.some((one) => concerns(one) && one.approved === decision.approved)
  })

/**
 * A kind of run, for one plan or agent. `S` is the state of a run, `E` an event, `B` its input with the options it begins
 * with, and `X` the error of another definition.
 *
 * - `changed`: the error of a run of another definition, as far as it is known before the run.
 * - `fold`: the state after all events.
 * - `check`: refuses a state that is beyond the limits.
 * - `writes`: the writes that a state adds to the one before.
 * - `output`: the output of a record, for its write.
 * - `taken`: the decisions that events record.
 */
interface Kind<S, E, B, X> {
  readonly head: Pick<Head, "kind" | "name" | "digest">
  readonly runs: storage.Journal<Head, ReadonlyArray<E>, B>
  readonly input: VersionedCodec.VersionedCodec<B>
  readonly conversation: (begin: B) => Conversation.Conversation | undefined
  readonly changed: (head: Head) => X | undefined
  readonly fold: (events: ReadonlyArray<E>) => Effect.Effect<Result.Result<S, { readonly message: string }>, X>
  readonly check: (state: S) => Effect.Effect<void, PayloadError.PayloadError>
  readonly summary: (state: S) => Summary
  readonly writes: (before: S | undefined, state: S) => ReadonlyArray<checkpointRecord.PendingWrite>
  readonly output: (state: S, record: number) => Option.Option<Schema.Json>
  readonly taken: (events: ReadonlyArray<E>) => ReadonlyArray<Run.Decision>
}

type PlanKind = Kind<planTransition.State, planRunParts.Event, checkpointRecord.PlanInput, PlanError.PlanError>

type AgentKind = Kind<Run.State, Run.Event, checkpointRecord.AgentInput, AgentError>

type Outcome = planRunParts.Outcome | runParts.Outcome

const statuses: { readonly [Tag in Outcome["_tag"]]: Status } = {
  Completed: "done",
  Concluded: "done",
  Paused: "paused",
  AwaitingApproval: "paused",
  Failed: "failed",
  LimitReached: "failed",
  MaxSteps: "failed",
  InvalidOutput: "failed",
  Stopped: "failed",
  Interrupted: "cancelled"
}

const quoteNames = (names: ReadonlyArray<string>) =>
  Array.from(new Set(names), (name) => JSON.stringify(name)).join(", ")

const outcomeMessage = (outcome: Outcome): string | undefined => {
  switch (outcome._tag) {
    case "Failed":
      return `step ${quoteNames([outcome.step])} failed with ${outcome.failure.type}`
    case "LimitReached":
      return `${outcome.limit} iterations, next ${quoteNames([outcome.next])}`
    case "Paused":
      return `waiting: ${quoteNames([...outcome.pauses.map(({ step }) => step), ...outcome.requests.map(({ name }) => name)])}`
    case "AwaitingApproval":
      return `waiting: ${quoteNames(outcome.requests.map(({ name }) => name))}`
    case "Interrupted":
      return outcome.reason
    case "Stopped":
      return `the provider ended the answer: ${outcome.finishReason}`
    default:
      return undefined
  }
}

const summarize = (
  state: { readonly runId: string; readonly revision: number; readonly outcome?: Outcome | undefined },
  counts: Pick<Head, "digest" | "iterations" | "completed">
): Summary => {
  const { outcome, revision, runId } = state
  const summary = { ...counts, run: runId, revision }
  if (outcome === undefined) return { ...summary, status: "running" }
  const message = outcomeMessage(outcome)
  const type = outcome._tag
  return { ...summary, status: statuses[type], outcome: message === undefined ? { type } : { type, message } }
}

const kindOfPlan = ({ plans }: Store, plan: livePlan.BoundPlan): PlanKind => ({
  head: { kind: "plan-run", name: plan.definition.name, digest: plan.digest },
  runs: plans,
  input: checkpointRecord.planCodecs.input,
  conversation: () => undefined,
  // The run decides about an edited plan, once its events are read
  changed: () => undefined,
  fold: (events) =>
    Effect.flatMap(engine.completeRules(plan), (rules) => Effect.fromResult(engine.replay(rules, events))),
  check: () => Effect.void,
  summary: (state) =>
    summarize(state, {
      digest: planChange.digestOf(state),
      iterations: state.iterations,
      completed: Chunk.size(state.history)
    }),
  // In the order in which the steps finished; in a parallel group that is the declared order
  writes: (before, state) => {
    if (state.writes === before?.writes) return []
    const first = before === undefined ? 0 : Chunk.size(before.history)
    return Array.from({ length: Chunk.size(state.history) - first }, (_, index) => first + index).flatMap((record) => {
      const step = Option.match(Chunk.get(state.history, record), { onNone: () => "", onSome: ({ step }) => step })
      const write = planTransition.findStep(plan.definition, step)?.writes
      const isNewest = write !== undefined && Option.contains(HashMap.get(state.writes, write), record)
      return isNewest ? [{ write, step, record }] : []
    })
  },
  output: (state, record) => Option.map(Chunk.get(state.history, record), ({ output }) => output),
  taken: (events) => events.flatMap((event) => decisionsIn(event, []))
})

/** Another agent is refused by its name; the run itself refuses the state of another definition of the agent. */
const kindOfAgent = ({ agents }: Store, name: string): AgentKind => ({
  head: { kind: "agent-run", name, digest: "" },
  runs: agents,
  input: checkpointRecord.agentCodecs.input,
  conversation: ({ conversation }) => conversation,
  changed: (head) => {
    const reason = new Run.DefinitionChanged({
      expected: base.quote(name),
      found: base.quote(head.name),
      changes: [{ path: "/name", was: base.quote(head.name), now: base.quote(name), breaking: true }]
    })
    return head.name === name ? undefined : new AgentError({ agent: name, reason })
  },
  fold: (events) => Effect.succeed(Run.fold(events)),
  check: ({ conversation }) => conversationCodec.checkCount(Conversation.messageCount(conversation)),
  summary: (state) =>
    summarize(state, {
      digest: definitionChange.definitionOf(state),
      iterations: state.totalSteps,
      completed: state.totalSteps
    }),
  writes: () => [],
  output: () => Option.none(),
  taken: (events) => events.flatMap((event) => decisionsIn(event, []))
})

/** The status of a run that a process works on, or worked on when it died. */
const isOpen = (status: Status): boolean => status === "claimed" || status === "running"

/** No other process may take the run now. */
const isLeased = (head: Head, now: DateTime.Utc): boolean => isOpen(head.status) && claimedLog.isLeased(head, now)

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
interface Claim<S, B> {
  readonly at: StoredHead
  readonly begin: B
  /** Absent before the run has begun. */
  readonly state: S | undefined
  /** The head before the claim, which comes back if nothing happens. */
  readonly before: Head | undefined
  readonly taken: ReadonlyArray<Run.Decision>
}

const checkKind = <S, E, B, X>(kind: Kind<S, E, B, X>, head: Head): Effect.Effect<void, Reason | X> => {
  if (head.kind !== kind.head.kind) return Effect.fail<Reason>({ _tag: "KindDiffers", found: head.kind })
  const changed = kind.changed(head)
  return changed === undefined ? Effect.void : Effect.fail(changed)
}

const runActive = ({ owner, status }: Head, leaseUntil: DateTime.Utc): Reason => ({
  _tag: "RunActive",
  owner,
  status,
  leaseUntil
})

const checkLease = ({ head }: StoredHead): Effect.Effect<void, Reason> =>
  Effect.flatMap(DateTime.now, (now) =>
    head.lease !== undefined && isLeased(head, now) ? Effect.fail(runActive(head, head.lease)) : Effect.void
  )

/** The state of a run, folded from its events, with the decisions in them; `undefined` if it has none. */
const stateOf = Effect.fnUntraced(function* <S, E, B, X>(
  { check, fold, runs, summary, taken }: Kind<S, E, B, X>,
  at: StoredHead
): Effect.fn.Return<Pick<Claim<S, B>, "state" | "taken">, Conflict | Reason | X> {
  const { head, key } = at
  const events = (yield* runs.batches(at)).flat()
  if (events.length === 0 && head.revision === 0) return { state: undefined, taken: [] }
  const damaged = (problem: string) => storage.damaged(runs.journalKey(key), problem)
  const state = yield* Effect.mapError(Effect.fromResult(yield* fold(events)), ({ message }) =>
    damaged(`expected events that follow each other, got ${message}`)
  )
  yield* Effect.mapError(check(state), (error) => storage.unreadable(runs.journalKey(key), error, at.version))
  const { revision, run } = summary(state)
  if (revision === head.revision && run === head.run) return { state, taken: taken(events) }
  const expected = `expected event ${head.revision} of run ${head.run ?? "unknown"}`
  return yield* Effect.fail(damaged(`${expected}, got event ${revision} of run ${run}`))
})

/** The input, context and conversation that a run began with, to compare them: ids of messages do not count. */
const canonicalInput = <S, E, B, X>({ conversation, input }: Kind<S, E, B, X>, begin: B) =>
  signatures.inside(input.encode(begin)).pipe(
    Effect.catchTag("LossyEncoding", Effect.die),
    Effect.mapError(storage.refused),
    Effect.map((json) => [
      Digest.canonicalize([json["input"] ?? null, json["context"] ?? {}]),
      Conversation.transcript(conversation(begin) ?? Conversation.empty)
    ])
  )

/** A run to begin, unless there is one to resume. */
interface Start<B> {
  readonly begin: B
  readonly policy: Policy
}

/** Takes keys: begins runs, and takes over those that no process works on. */
const makeClaims = (lease: claimedLog.Lease) => {
  const begin = Effect.fnUntraced(function* <S, E, B, X>(
    { head, runs }: Kind<S, E, B, X>,
    key: string,
    found: Option.Option<StoredHead>,
    start: Start<B>
  ) {
    const fork = Option.match(found, { onNone: () => start.policy === "fork", onSome: ({ head }) => head.fork })
    const counts = { revision: 0, iterations: 0, completed: 0, pending: [] }
    const at = yield* claimedLog.begin(runs, lease, key, found, {
      input: (generation) => ({ ...start.begin, generation }),
      head: (fields): Head => ({ ...fields, ...counts, ...head, status: "claimed", fork })
    })
    const claim: Claim<S, B> = { at, begin: start.begin, state: undefined, before: undefined, taken: [] }
    return claim
  })

  /** Takes over a run; `given` has the input that it has to have begun with. */
  const takeOver = Effect.fnUntraced(function* <S, E, B, X>(kind: Kind<S, E, B, X>, at: StoredHead, given?: B) {
    const { head, key } = at
    const { runs } = kind
    yield* checkKind(kind, head)
    const begun = yield* runs.input(at)
    if (given !== undefined && !Equal.equals(yield* canonicalInput(kind, given), yield* canonicalInput(kind, begun))) {
      return yield* Effect.fail<Reason>({ _tag: "InputDiffers", status: head.status })
    }
    const claim: Claim<S, B> = { at, begin: begun, before: head, ...(yield* stateOf(kind, at)) }
    const { state } = claim
    if (head.status === "done") {
      if (state !== undefined && kind.summary(state).status === "done") return claim
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
  const claim = <S, E, B, X>(
    kind: Kind<S, E, B, X>,
    key: string,
    start?: Start<B>
  ): Effect.Effect<Claim<S, B>, Reason | X> =>
    Effect.gen(function* () {
      const found = yield* kind.runs.head(key)
      if (Option.isNone(found)) {
        if (start === undefined) return yield* Effect.fail<Reason>({ _tag: "NothingToResume" })
        return yield* begin(kind, key, found, start)
      }
      yield* checkLease(found.value)
      if (start === undefined) return yield* takeOver(kind, found.value)
      if (start.policy === "startOrResume") return yield* takeOver(kind, found.value, start.begin)
      const { lease: leaseUntil, owner, status } = found.value.head
      if (start.policy === "restart" || status === "done" || status === "cancelled") {
        return yield* begin(kind, key, found, start)
      }
      return yield* Effect.fail<Reason>({ _tag: "Unfinished", owner, status, ...defined({ leaseUntil }) })
    }).pipe(
      // Another process was faster: look which one
      Effect.catch((error) => (isConflict(error) ? claim(kind, key, start) : Effect.fail(error)))
    )

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

/** A claimed run while this process works on it. */
interface ClaimedRun<S> {
  /** The state after the last event that is written. */
  state: S | undefined
  hasCommitted: boolean
}

/** Writes the events of a claimed run with its head, and the values of its steps. */
const makeWriter = <S, E, B, X>(store: Store, lease: claimedLog.Lease, kind: Kind<S, E, B, X>, claim: Claim<S, B>) => {
  const { runs: journal, summary } = kind
  const { at, state } = claim
  const fork = at.head.fork ? at.key : undefined
  const errorOf = (reason: Reason) => new CheckpointError({ key: at.key, reason })
  const error = (reason: storage.Reason | claimedLog.Lost<Head>) =>
    errorOf(reason._tag === "Lost" ? leaseLost(reason) : reason)
  const log = claimedLog.make({ journal, lease, at, error })
  log.isOver = at.head.status === "done"
  const run: ClaimedRun<S> = { state, hasCommitted: false }
  let newest = state
  let unwritten: ReadonlyArray<E> = []

  /** Does the writes that the head names; the next write of the head leaves them out. */
  const settleWrites = Effect.fnUntraced(function* (state: S) {
    for (const pending of log.at.head.pending) {
      const output = kind.output(state, pending.record)
      if (Option.isNone(output)) continue
      yield* Effect.mapError(performWrite(store, fork, summary(state).run, pending, output.value), errorOf)
    }
    log.at = { ...log.at, head: { ...log.at.head, pending: [] } }
  })

  const commit = Effect.fnUntraced(function* (events: ReadonlyArray<E>, next: S) {
    yield* Effect.mapError(kind.check(next), (error) => errorOf(storage.refused(error)))
    const pending = yield* findPending(store, fork, kind.writes(run.state, next))
    const now = summary(next)
    const ends = !isOpen(now.status)
    // A run ends after its writes
    const isLast = ends && pending.length === 0
    const write = isLast ? log.release : log.append
    const status: Status = isLast ? now.status : "running"
    yield* write(({ outcome: _, ...head }) => ({ ...head, ...now, status, pending }), [events])
    unwritten = unwritten.slice(events.length)
    run.state = next
    run.hasCommitted = true
    if (pending.length === 0) return
    yield* settleWrites(next)
    if (ends) yield* log.release((head) => ({ ...head, pending: [], status: now.status }))
  })

  return {
    run,
    log,
    /** True if nothing has happened since the claim, but that the run was resumed: the caller was refused. */
    isIdle: () => unwritten.length < 2,
    /** Removes the run, which has not begun. */
    discard: Effect.suspend(() => Effect.ignore(journal.remove(log.at.key, log.at.version))),
    /** Adds events, which the next `flush` writes. */
    add: (events: ReadonlyArray<E>, state: S): void => {
      unwritten = [...unwritten, ...events]
      newest = state
    },
    /** Writes all events that are not written. A write that fails stops the run; a run that was done before writes nothing. */
    flush: log.alone(
      Effect.suspend(() => {
        if (log.failure !== undefined) return Effect.fail(log.failure)
        if (log.isOver || newest === undefined || unwritten.length === 0) return Effect.void
        return Effect.catch(commit(unwritten, newest), log.stop)
      })
    ),
    /** Completes what the last owner left: its writes, then the values of retired generations. */
    tidy: log.alone(
      Effect.gen(function* () {
        if (log.isOver) return
        if (run.state !== undefined && log.at.head.pending.length > 0) yield* settleWrites(run.state)
        yield* log.sweep
      }).pipe(Effect.catch(log.stop))
    )
  }
}

type Session<S, E> = ReturnType<typeof openSession<S, E, unknown, unknown>>

/** Works on a claimed run: writes what happens, and holds the lease. */
const openSession = <S, E, B, X>(store: Store, lease: claimedLog.Lease, kind: Kind<S, E, B, X>, claim: Claim<S, B>) => {
  const { before } = claim
  const { add, discard, flush, isIdle, log, run, tidy } = makeWriter(store, lease, kind, claim)

  const statusOfExit = (exit: Exit.Exit<unknown, unknown>): Status => {
    if (Exit.isFailure(exit)) return Cause.hasInterruptsOnly(exit.cause) ? "cancelled" : "failed"
    const status = run.state === undefined ? "claimed" : kind.summary(run.state).status
    return isOpen(status) ? "cancelled" : status
  }

  return {
    key: claim.at.key,
    add,
    flush,
    tidy,
    beat: log.beat,
    /** Releases the key of a run whose events do not hold its end. */
    settle: (exit: Exit.Exit<unknown, unknown>) =>
      log.alone(
        Effect.gen(function* () {
          if (log.isOver || log.isLost) return
          log.isOver = true
          const isUntouched = Exit.isFailure(exit) && log.failure === undefined && !run.hasCommitted
          const isRefused = isUntouched && isIdle() && Cause.hasFails(exit.cause)
          if (isRefused && before === undefined) return yield* discard
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
    /** Stops the run for a write that died. */
    abort: log.abort,
    /** Fails when the run has to stop. */
    stopped: log.stopped,
    /** The error that stopped the run, instead of the one that the run made of it. */
    explain: <Error>(error: Error): Error | CheckpointError => log.failure ?? error
  }
}

/** The run that a claim holds, to its result `A` or as a stream of events `V`. */
interface Execution<out A, out V, out X, out R> {
  readonly result: Effect.Effect<A, X, R>
  readonly events: Stream.Stream<V, X, R>
}

/** A run whose key is taken. */
type OpenExecution<A, V, X, R> = Execution<A, V, X, R> & Omit<Session<never, never>, "add">

type PlanSession = Session<planTransition.State, planRunParts.Event>

/** Runs a plan with the options of this call over those that the run began with. */
const runPlan =
  <A, R>(plan: livePlan.Bound<A, R>, options: ResumeOptions) =>
  (
    { begin, state, taken }: Claim<planTransition.State, checkpointRecord.PlanInput>,
    { add, flush, key }: PlanSession
  ): Execution<PlanRun.Result<A>, PlanEvent<A>, PlanError.PlanError, R> => {
    const journalFailed = ({ message: problem }: CheckpointError) =>
      new PlanError.PlanError({ plan: plan.definition.name, reason: { _tag: "JournalFailed", problem } })
    const journal: livePlan.Journal = (events, state) => {
      add(events, state)
      return flush.pipe(Effect.as({ key }), Effect.mapError(journalFailed))
    }
    if (state === undefined) {
      const { context = begin.context, maxIterations = begin.maxIterations } = options
      const all = { ...options, context, maxIterations, journal }
      return { result: Plan.run(plan, begin.input, all), events: Plan.stream(plan, begin.input, all) }
    }
    const all = { ...options, decisions: newDecisions(options, taken, planTransition.waitingItems(state)), journal }
    return { result: Plan.resume(plan, state, all), events: Plan.resumeStream(plan, state, all) }
  }

type AgentSession = Session<Run.State, Run.Event>

/** Writes the events of an agent's run, one after the other. Nothing begins after a write that failed. */
const journalOfAgent =
  ({ abort, add, flush }: AgentSession, onEvent: AgentResumeOptions["onEvent"]) =>
  (entry: agentTypes.Entry): Effect.Effect<void> => {
    const { event, state } = entry
    add([event], state)
    const write = Effect.catchCause(flush, (cause) => Effect.andThen(abort(cause), Effect.interruptible(Effect.never)))
    const written = runTransition.isDeferrable(event) ? Effect.void : write
    return onEvent === undefined ? written : Effect.andThen(written, onEvent(entry))
  }

const countUserMessages = (conversation: Conversation.Conversation): number =>
  Conversation.messages(conversation).filter(({ role }) => role === "user").length

/** True if the state has the message that the run began with. */
const hasInput = ({ conversation, input }: checkpointRecord.AgentInput, state: Run.State): boolean => {
  const before = conversation === undefined ? 0 : countUserMessages(conversation)
  return input === undefined || state.pending.length > 0 || countUserMessages(state.conversation) > before
}

/** Runs an agent with the options of this call over those that the run began with. */
const runAgent =
  <A, R>(agent: Agent<A, R>, options: AgentResumeOptions) =>
  (
    { at, begin, state, taken }: Claim<Run.State, checkpointRecord.AgentInput>,
    session: AgentSession
  ): Execution<agentTypes.Result<A>, AgentEvent<A>, AgentError, R> => {
    const onEvent = journalOfAgent(session, options.onEvent)
    if (state === undefined) {
      const all = { ...begin, ...defined(options), onEvent }
      return { result: agent.run(begin.input, all), events: agent.stream(begin.input, all) }
    }
    const decisions = newDecisions(options, taken, Run.approvalRequests(state))
    const all = { ...options, decisions, input: hasInput(begin, state) ? undefined : begin.input, onEvent }
    const isDone = at.head.status === "done"
    return {
      result: Effect.map(agent.resume(state, all), (result) => (isDone ? { ...result, state } : result)),
      events: agent.resumeStream(state, all)
    }
  }

type Operation = (subject: never, options: never) => unknown

/** An operation on plans, and on agents that are no plans. */
const overload = <P extends Operation, Q extends Operation>(onPlan: P, onAgent: Q): P & Q => {
  const choose = (subject: unknown, options: unknown) => {
    const operation = livePlan.isBound(subject) ? onPlan : onAgent
    // Sound: the arguments are those of the operation that takes the subject.
    return operation(subject as never, options as never)
  }
  // Sound: it does what the two operations do, and has no type of its own.
  return choose as never
}

const makeService = Effect.fnUntraced(function* (options: Options) {
  const lease = yield* claimedLog.leaseOf("Checkpoint.layer", options)
  const store = makeStore(yield* VersionedStore.VersionedStore, options.namespace ?? "plan")
  // The journal of plans reads the heads of all runs, as that of agents does
  const { plans: anyRuns } = store
  const claim = makeClaims(lease)

  const fail = (key: string | undefined) => (reason: Reason) => new CheckpointError({ ...defined({ key }), reason })

  const failRun =
    <X>(key: string) =>
    (error: Reason | X): CheckpointError | X =>
      isReason(error) ? fail(key)(error) : error

  /** Claims a key, and opens a session for the run under it. */
  const open = <S, E, B, X, Run>(
    kind: Kind<S, E, B, X>,
    run: (claim: Claim<S, B>, session: Session<S, E>) => Run,
    key: string,
    start?: Start<B>
  ) =>
    Effect.map(Effect.mapError(claim(kind, key, start), failRun<X>(key)), (claim) => {
      const session = openSession(store, lease, kind, claim)
      return { ...session, ...run(claim, session) }
    })

  const keyOf = ({ key, policy }: { readonly key: string; readonly policy?: Policy | undefined }) =>
    policy === "fork" ? Effect.map(storage.nonce, (unique) => `${key}:${unique}`) : Effect.succeed(key)

  /** The context of a run, as it is stored: that of the caller where no other was given. */
  const contextOf = ({ context }: { readonly context?: RunOptions["context"] }) =>
    Effect.map(RunContext.RunContext, (own) => context ?? (Struct.keys(own).length === 0 ? undefined : own))

  const startPlan = Effect.fnUntraced(function* <A, R>(plan: livePlan.Bound<A, R>, options: RunOptions) {
    const { maxIterations, policy = "start" } = options
    const input = yield* performStep.resolveInput(plan.definition.name, options.input)
    const begin = { generation: "", input, ...defined({ context: yield* contextOf(options), maxIterations }) }
    const key = yield* keyOf(options)
    const run = runPlan(plan, { ...options, decisions: undefined })
    return yield* open(kindOfPlan(store, plan.live), run, key, { begin, policy })
  })

  const startAgent = Effect.fnUntraced(function* <A, R>(agent: Agent<A, R>, options: AgentRunOptions) {
    const { conversation, instructions, maxSteps, policy = "start" } = options
    const context = yield* contextOf(options)
    const input = typeof options.input === "string" ? ([ToolResult.textPart(options.input)] as const) : options.input
    const begin = { generation: "", ...defined({ input, conversation, instructions, context, maxSteps }) }
    const key = yield* keyOf(options)
    const run = runAgent(agent, { ...options, decisions: undefined })
    return yield* open(kindOfAgent(store, agent.name), run, key, { begin, policy })
  })

  const resumePlan = <A, R>(plan: livePlan.Bound<A, R>, options: ResumeOptions) =>
    open(kindOfPlan(store, plan.live), runPlan(plan, options), options.key)

  const resumeAgent = <A, R>(agent: Agent<A, R>, options: AgentResumeOptions) =>
    open(kindOfAgent(store, agent.name), runAgent(agent, options), options.key)

  const run = <A, V, X, R, E>(name: string, opening: Effect.Effect<OpenExecution<A, V, X, R>, E>) =>
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

  const stream = <A, V, X, R, E>(opening: Effect.Effect<OpenExecution<A, V, X, R>, E>) =>
    Effect.gen(function* () {
      // A failure of the last write has nowhere to go once the stream has ended
      const { beat, events, explain, stopped, tidy } = yield* Effect.acquireRelease(opening, ({ settle }, exit) =>
        Effect.catch(settle(exit), (error) => Effect.logWarning(error.message))
      )
      yield* Effect.forkScoped(beat)
      return Stream.unwrap(Effect.as(tidy, events)).pipe(Stream.interruptWhen(stopped), Stream.mapError(explain))
    }).pipe(Stream.unwrap)

  const load = <S, E, B, X>(kind: Kind<S, E, B, X>, key: string): Effect.Effect<Option.Option<S>, Reason | X> =>
    Effect.gen(function* () {
      const found = yield* anyRuns.head(key)
      if (Option.isNone(found)) return Option.none()
      yield* checkKind(kind, found.value.head)
      return Option.fromUndefinedOr((yield* stateOf(kind, found.value)).state)
      // A new run began under the key since the head was read
    }).pipe(Effect.catch((error) => (isConflict(error) ? load(kind, key) : Effect.fail(error))))

  const remove = (key: string, force: boolean): Effect.Effect<boolean, Reason> =>
    Effect.gen(function* () {
      if (force) return yield* anyRuns.remove(key, undefined)
      const found = yield* anyRuns.head(key)
      if (Option.isNone(found)) return false
      yield* checkLease(found.value)
      return yield* anyRuns.remove(key, found.value.version)
    }).pipe(Effect.catchTag("Conflict", () => remove(key, force)))

  const inspect = ({ head, key }: StoredHead, now: DateTime.Utc): Inspection => ({
    ...Struct.pick(head, ["kind", "status", "owner", "epoch", "name", "digest", "fork", "iterations", "completed"]),
    key,
    live: isLeased(head, now),
    leaseUntil: head.lease,
    runId: head.run,
    pendingWrites: head.pending.map(({ write }) => write),
    outcome: head.outcome && { _tag: head.outcome.type, ...defined({ message: head.outcome.message }) },
    updatedAt: head.updated
  })

  const service: Service = {
    run: overload(
      <A, R>(plan: livePlan.Bound<A, R>, options: RunOptions) => run("Checkpoint.run", startPlan(plan, options)),
      <A, R>(agent: Agent<A, R>, options: AgentRunOptions) => run("Checkpoint.run", startAgent(agent, options))
    ),
    resume: overload(
      <A, R>(plan: livePlan.Bound<A, R>, options: ResumeOptions) => run("Checkpoint.resume", resumePlan(plan, options)),
      <A, R>(agent: Agent<A, R>, options: AgentResumeOptions) => run("Checkpoint.resume", resumeAgent(agent, options))
    ),
    stream: overload(
      <A, R>(plan: livePlan.Bound<A, R>, options: RunOptions) => stream(startPlan(plan, options)),
      <A, R>(agent: Agent<A, R>, options: AgentRunOptions) => stream(startAgent(agent, options))
    ),
    resumeStream: overload(
      <A, R>(plan: livePlan.Bound<A, R>, options: ResumeOptions) => stream(resumePlan(plan, options)),
      <A, R>(agent: Agent<A, R>, options: AgentResumeOptions) => stream(resumeAgent(agent, options))
    ),
    inspect: Effect.fn("Checkpoint.inspect")(function* (key) {
      const found = yield* Effect.mapError(anyRuns.head(key), fail(key))
      const now = yield* DateTime.now
      return Option.map(found, (stored) => inspect(stored, now))
    }),
    load: overload(
      <A, R>({ live }: livePlan.Bound<A, R>, key: string) =>
        Effect.withSpan(Effect.mapError(load(kindOfPlan(store, live), key), failRun(key)), "Checkpoint.load"),
      <A, R>({ name }: Agent<A, R>, key: string) =>
        Effect.withSpan(Effect.mapError(load(kindOfAgent(store, name), key), failRun(key)), "Checkpoint.load")
    ),
    list: Effect.fn("Checkpoint.list")((range) => Effect.mapError(anyRuns.list(range), fail(undefined))),
    remove: Effect.fn("Checkpoint.remove")(function* (key, options) {
      const removed = remove(key, options?.force ?? false)
      return yield* Effect.mapError(Effect.tap(removed, store.removeWrites(key)), fail(key))
    }),
    read: Effect.fn("Checkpoint.read")(function* (write, options) {
      const found = yield* Effect.mapError(store.write(write, options?.fork), fail(options?.fork))
      return Option.map(found, ({ value: { run, ...value } }) => ({ ...value, runId: run }))
    }),
    isCurrent: Effect.fn("Checkpoint.isCurrent")(function* (key, write) {
      const found = yield* Effect.mapError(anyRuns.head(key), fail(key))
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
