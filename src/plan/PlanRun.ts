/**
 * A run of a plan as data: its input, events, state and result, with codecs. Save a state to resume the run later, in another process if need be.
 *
 * @since 0.1.0
 */

import * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Hash from "effect/Hash"
import * as HashMap from "effect/HashMap"
import * as EffectInspectable from "effect/Inspectable"
import type { Inspectable } from "effect/Inspectable"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Run from "../agent/Run.ts"
import * as runParts from "../agent/internal/runParts.ts"
import type { TokenUsage } from "../conversation/Message.ts"
import type { JsonObject } from "../payload/Json.ts"
import type * as PayloadError from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import type { Rejoin } from "./internal/planFlow.ts"
import * as planNames from "./internal/planNames.ts"

/**
 * The input of a run as it is kept.
 *
 * **Details**
 *
 * `task` is the text, `payload` the value (the task, unless something else was given),
 * `context` side text, and `content` images and files; steps whose task is `fromStart`,
 * and a first step whose task is `fromPrev`, are given the content.
 *
 * @category models
 * @since 0.1.0
 */
export interface ResolvedInput {
  readonly task: string
  readonly payload: Schema.Json
  readonly context?: string
  readonly content?: ReadonlyArray<ToolResult.Content>
}

/**
 * Schema of {@link ResolvedInput}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ResolvedInput: Schema.Codec<ResolvedInput> = Schema.Struct({
  task: Schema.String,
  payload: Schema.Json,
  context: Schema.optionalKey(Schema.String),
  content: Schema.optionalKey(Schema.Array(ToolResult.Content))
})

/**
 * What can be given to `run`: a text, or the parts. Without `payload` the payload is
 * the task; without `task` the task is the payload as text.
 *
 * @category models
 * @since 0.1.0
 */
export type Input =
  | string
  | {
      readonly task?: string | undefined
      readonly payload?: Schema.Json | undefined
      readonly context?: string | undefined
      readonly content?: ReadonlyArray<ToolResult.Content> | undefined
    }

/**
 * A step that waits for somebody. `path` are the steps of the outer plans, from the
 * outside in.
 *
 * @category models
 * @since 0.1.0
 */
export const PauseRequest = Schema.Struct({
  step: Schema.String,
  path: Schema.Array(Schema.String),
  reason: Schema.String
})

/**
 * @category models
 * @since 0.1.0
 */
export type PauseRequest = typeof PauseRequest.Type

/**
 * Why a step failed, as data: `type` is the tag or name of the error, `message` its
 * message.
 *
 * **Details**
 *
 * `retryable` is what the error says of itself (its `retryable` or `isRetryable`), for
 * whoever decides what to do about a failed run: of a timeout it is true, of what the plan
 * itself refuses it is not. The `retry` of a step does not look at it.
 *
 * @category models
 * @since 0.1.0
 */
export const StepFailure = Schema.Struct({
  type: Schema.String,
  message: Schema.String,
  retryable: Schema.Boolean
})

/**
 * @category models
 * @since 0.1.0
 */
export type StepFailure = typeof StepFailure.Type

/**
 * How a run ended.
 *
 * **Details**
 *
 * | outcome | meaning | resume |
 * |---|---|---|
 * | `Completed` | the last step gave `output` | no |
 * | `Concluded` | a step ended the plan with `answer` | no |
 * | `Paused` | steps wait: `pauses` for anybody, `requests` for decisions | goes on at the same point |
 * | `Failed` | a step, a reference or a predicate failed | tries the same step again |
 * | `LimitReached` | `maxIterations` was used up before `next` | with a larger limit |
 * | `Interrupted` | somebody stopped it | goes on |
 *
 * **Example** (Telling outcomes apart)
 *
 * ```ts
 * import { PlanRun } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const line = PlanRun.Outcome.match({
 *   Completed: () => "done",
 *   Concluded: ({ answer }) => answer,
 *   Paused: ({ pauses, requests }) => `waits for ${pauses.length + requests.length}`,
 *   Failed: ({ failure, step }) => `${step} failed: ${failure.message}`,
 *   LimitReached: ({ limit }) => `more than ${limit} iterations`,
 *   Interrupted: ({ reason }) => `interrupted: ${reason ?? "no reason given"}`
 * })
 * assert.strictEqual(line({ _tag: "LimitReached", limit: 100, next: "write" }), "more than 100 iterations")
 * ```
 *
 * @category models
 * @since 0.1.0
 */
export const Outcome = Schema.TaggedUnion({
  Completed: { output: Schema.Json },
  Concluded: { answer: Schema.String },
  Paused: { pauses: Schema.Array(PauseRequest), requests: Schema.Array(Run.ApprovalRequest) },
  Failed: { step: Schema.String, failure: StepFailure },
  LimitReached: { limit: Schema.Int, next: Schema.String },
  Interrupted: { reason: Schema.optionalKey(Schema.String) }
})

/**
 * @category models
 * @since 0.1.0
 */
export type Outcome = typeof Outcome.Type

/**
 * What runs inside a step and has a state of its own.
 *
 * @category models
 * @since 0.1.0
 */
export type Child =
  | { readonly _tag: "Agent"; readonly state: Run.State }
  | { readonly _tag: "Plan"; readonly state: State }

/**
 * How far a step of the current turn is.
 *
 * **Details**
 *
 * - `Waiting`: it has not started since the run was started or resumed. `child` is what
 *   an earlier try inside it left, to go on from; `decision` what somebody decided;
 *   `attempt` the number of a try that was cut off, if it was not the first.
 * - `Running`: it runs, or ran when the process died. `attempt` counts its tries.
 * - `Finished`: it gave an output. It does not run again in this turn.
 * - `Failed`: it failed, after its retries. A resumed run runs it again.
 * - `Paused`: it waits for anybody (`reason`), for a decision about the tool call that it
 *   is (`request`), or, with neither, for what waits inside its `child`.
 * - `Concluded`: it ended the whole plan with an answer.
 *
 * @category models
 * @since 0.1.0
 */
export type MemberStatus =
  | { readonly _tag: "Waiting"; readonly attempt?: number; readonly child?: Child; readonly decision?: StepDecision }
  | {
      readonly _tag: "Running"
      readonly attempt: number
      readonly startedAt: DateTime.Utc
      readonly child?: Child
      readonly decision?: StepDecision
    }
  | { readonly _tag: "Finished"; readonly record: StepRecord }
  | { readonly _tag: "Failed"; readonly failure: StepFailure; readonly child?: Child }
  | {
      readonly _tag: "Paused"
      readonly reason?: string
      readonly request?: CallRequest
      readonly child?: Child
      readonly decision?: StepDecision
    }
  | { readonly _tag: "Concluded"; readonly answer: string }

/**
 * What somebody decided about a step that paused: a tool call that needs approval, or a
 * function that waits for anybody.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepDecision {
  readonly approved: boolean
  readonly reason?: string
}

/**
 * One step of a turn. `usage` adds up what runs inside it have reported in this turn,
 * failed tries and earlier processes included; the state's own `usage` holds it already.
 *
 * @category models
 * @since 0.1.0
 */
export interface Member {
  readonly step: string
  readonly usage: TokenUsage
  readonly status: MemberStatus
}

/**
 * The steps that run now: one, or a band from its member at the cursor on.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepGroup {
  readonly members: ReadonlyArray<Member>
}

/**
 * Where a run of a plan stands.
 *
 * **Details**
 *
 * - `cursor`: the step that comes next, or whose turn it is; absent when none is left.
 * - `turn`: the steps of that turn once it has begun. A band is applied as a whole:
 *   nothing of it is in `history` before all of it has finished.
 * - `choosing`: a step that has finished (it is in `history`) and whose route has not
 *   been chosen yet; `cursor` is that step, too.
 * - `rejoins`: the branches that are taken, the newest last.
 * - `history`: what finished, in order; `latest` finds the newest record of a step,
 *   `writes` the record behind a key that a step writes.
 * - `previous`: the record that `fromPrev` reads, absent for the input.
 *
 * @category models
 * @since 0.1.0
 */
export interface State extends Inspectable {
  readonly [planNames.StateTypeId]: planNames.StateTypeId
  readonly runId: string
  readonly plan: string
  readonly digest: string
  readonly depth: number
  readonly context: JsonObject
  readonly input: ResolvedInput
  readonly cursor: string | undefined
  readonly turn: StepGroup | undefined
  readonly choosing: string | undefined
  readonly rejoins: ReadonlyArray<Rejoin>
  readonly iterations: number
  readonly maxIterations: number
  readonly history: Chunk.Chunk<StepRecord>
  readonly latest: HashMap.HashMap<string, number>
  readonly writes: HashMap.HashMap<string, number>
  readonly previous: number | undefined
  readonly usage: TokenUsage
  readonly interrupted: { readonly reason?: string } | undefined
  readonly outcome: Outcome | undefined
  readonly startedAt: DateTime.Utc
  readonly updatedAt: DateTime.Utc
  readonly revision: number
}

/**
 * Whether a value is a {@link State}.
 *
 * @category guards
 * @since 0.1.0
 */
export const isState = (u: unknown): u is State => hasStateTypeId(u)

/**
 * Below these places stands what steps, models and users said: a key called `password`
 * there is data, not an option that holds a secret. The context of a run and provider
 * options are not among them.
 */
const userDataPaths: ReadonlyArray<string> = [
  ...runParts.userData,
  "/**/input/payload",
  "/**/record/output",
  "/**/history/*/output",
  "/**/request/arguments"
]

const hasStateTypeId = (u: unknown): u is State => Predicate.hasProperty(u, planNames.stateTypeId)

const WireOptions = Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))

const WireContent = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, options: WireOptions }),
  Schema.Struct({
    type: Schema.Literal("file"),
    mediaType: Schema.String,
    fileName: Schema.optionalKey(Schema.String),
    data: Schema.Union([
      Schema.Struct({ type: Schema.Literal("base64"), base64: Schema.String }),
      Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })
    ]),
    options: WireOptions
  })
])

/**
 * What a run starts from.
 *
 * @category schemas
 * @since 0.1.0
 */
export const WireInput: Schema.Codec<ResolvedInput> = Schema.Struct({
  task: Schema.String,
  payload: Schema.Json,
  context: Schema.optionalKey(Schema.String),
  content: Schema.optionalKey(Schema.Array(WireContent))
})

/**
 * What a finished step leaves.
 */
const WireRecord: Schema.Codec<StepRecord, unknown> = Schema.Struct({
  step: Schema.String,
  task: Schema.String,
  context: Schema.optionalKey(Schema.String),
  output: Schema.Json,
  usage: runParts.Usage,
  attempts: runParts.Count,
  startedAt: runParts.Time,
  finishedAt: runParts.Time
})

/**
 * Why a step failed.
 */
const WireFailure: Schema.Codec<StepFailure> = Schema.Struct({
  type: Schema.String,
  message: Schema.String,
  retryable: Schema.Boolean
})

/**
 * How a run ended.
 */
const WireOutcome: Schema.Codec<Outcome> = Schema.Union([
  Schema.TaggedStruct("Completed", { output: Schema.Json }),
  Schema.TaggedStruct("Concluded", { answer: Schema.String }),
  Schema.TaggedStruct("Paused", {
    pauses: Schema.Array(
      Schema.Struct({ step: Schema.String, path: Schema.Array(Schema.String), reason: Schema.String })
    ),
    requests: Schema.Array(
      Schema.Struct({
        callId: Schema.String,
        name: Schema.String,
        arguments: Schema.Json,
        path: Schema.optionalKey(Schema.Array(Schema.String))
      })
    )
  }),
  Schema.TaggedStruct("Failed", { step: Schema.String, failure: WireFailure }),
  Schema.TaggedStruct("LimitReached", { limit: Schema.Int, next: Schema.String }),
  Schema.TaggedStruct("Interrupted", { reason: Schema.optionalKey(Schema.String) })
])

/**
 * A call that needs approval.
 */
const WireCallRequest: Schema.Codec<CallRequest> = Schema.Struct({
  name: Schema.String,
  arguments: Schema.Json
})

const WireChild: Schema.Codec<Child, unknown> = Schema.Union([
  Schema.TaggedStruct("Agent", { state: runParts.StateSchema }),
  Schema.TaggedStruct("Plan", { state: Schema.suspend(() => WireState) })
])

const wireChild = Schema.optionalKey(WireChild)

/**
 * What somebody decided.
 */
const WireDecision: Schema.Codec<StepDecision> = Schema.Struct({
  approved: Schema.Boolean,
  reason: Schema.optionalKey(Schema.String)
})

const wireDecision = Schema.optionalKey(WireDecision)

const WireStatus: Schema.Codec<MemberStatus, unknown> = Schema.Union([
  Schema.TaggedStruct("Waiting", {
    attempt: Schema.optionalKey(runParts.Count),
    child: wireChild,
    decision: wireDecision
  }),
  Schema.TaggedStruct("Running", {
    attempt: runParts.Count,
    startedAt: runParts.Time,
    child: wireChild,
    decision: wireDecision
  }),
  Schema.TaggedStruct("Finished", { record: WireRecord }),
  Schema.TaggedStruct("Failed", { failure: WireFailure, child: wireChild }),
  Schema.TaggedStruct("Paused", {
    reason: Schema.optionalKey(Schema.String),
    request: Schema.optionalKey(WireCallRequest),
    child: wireChild,
    decision: wireDecision
  }),
  Schema.TaggedStruct("Concluded", { answer: Schema.String })
])

const WireBody = Schema.Struct({
  runId: Schema.String,
  plan: Schema.String,
  digest: Schema.String,
  depth: runParts.Count,
  context: runParts.Context,
  input: WireInput,
  cursor: Schema.optionalKey(Schema.String),
  turn: Schema.optionalKey(
    Schema.Struct({
      members: Schema.Array(Schema.Struct({ step: Schema.String, usage: runParts.Usage, status: WireStatus }))
    })
  ),
  choosing: Schema.optionalKey(Schema.String),
  rejoins: Schema.Array(Schema.Struct({ router: Schema.String, rejoin: Schema.String })),
  iterations: runParts.Count,
  maxIterations: Schema.Int,
  history: Schema.Array(WireRecord),
  writes: Schema.Array(Schema.Struct({ key: Schema.String, record: runParts.Count })),
  usage: runParts.Usage,
  interrupted: Schema.optionalKey(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  outcome: Schema.optionalKey(WireOutcome),
  startedAt: runParts.Time,
  updatedAt: runParts.Time,
  revision: runParts.Count
})

/**
 * A state without its version.
 */
const WireState: Schema.Codec<State, unknown> = WireBody.pipe(
  Schema.decodeTo(Schema.declare(hasStateTypeId), {
    decode: SchemaGetter.transformEffect((body, options) => {
      const wrong = stateProblem(body)
      return wrong === undefined
        ? Effect.succeed(
            makeState({
              ...body,
              cursor: body.cursor,
              turn: body.turn,
              choosing: body.choosing,
              history: Chunk.fromIterable(body.history),
              latest: latestRecords(body.history),
              writes: HashMap.fromIterable(body.writes.map(({ key, record }) => [key, record])),
              previous: body.history.length === 0 ? undefined : body.history.length - 1,
              interrupted: body.interrupted,
              outcome: body.outcome
            })
          )
        : Effect.fail(new SchemaIssue.InvalidValue({ message: wrong }, body, options))
    }),
    encode: SchemaGetter.transform(
      ({
        choosing,
        cursor,
        history,
        interrupted,
        latest: _latest,
        outcome,
        previous: _previous,
        turn,
        writes,
        ...state
      }): WireBody => ({
        ...state,
        history: Chunk.toReadonlyArray(history),
        // By place, so that equal states give equal text
        writes: Array.from(writes, ([key, record]) => ({ key, record })).sort(
          (a, b) => a.record - b.record || (a.key < b.key ? -1 : 1)
        ),
        ...(cursor === undefined ? undefined : { cursor }),
        ...(turn === undefined ? undefined : { turn }),
        ...(choosing === undefined ? undefined : { choosing }),
        ...(interrupted === undefined ? undefined : { interrupted }),
        ...(outcome === undefined ? undefined : { outcome })
      })
    )
  })
)

/**
 * The arm of a snapshot.
 */
const stateArm: VersionedCodec.AnyArm<State> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), state: WireState }),
  toCurrent: ({ state }) => Effect.succeed(state),
  fromCurrent: (state) => VersionedCodec.lossless({ version: 1 as const, state })
})

/**
 * The snapshot codec: field `version`, native version 1. {@link encodeStateJson} and
 * {@link decodeStateJson} are its methods.
 *
 * **When to use**
 *
 * Use it to hand a run to another process as one value. A snapshot is as large as the
 * history, so writing one after every step costs quadratic time: append the events
 * instead, as `Checkpoint` does, and take a snapshot now and then.
 *
 * **Gotchas**
 *
 * A snapshot is trusted: it says what was done and what was approved. Read it from
 * storage that only your program writes to.
 *
 * @category codecs
 * @since 0.1.0
 */
export const stateCodec: VersionedCodec.VersionedCodec<State> = VersionedCodec.make({
  what: "plan run state",
  field: "version",
  type: Schema.declare(isState),
  arms: [stateArm],
  data: userDataPaths
})

/**
 * Schema of {@link State}; its JSON form is a snapshot.
 *
 * @category schemas
 * @since 0.1.0
 */
export const State: Schema.Codec<State, Schema.Json> = stateCodec.schema

/**
 * A snapshot of a run as versioned JSON.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeState = (
  self: State,
  options?: VersionedCodec.EncodeOptions
): Effect.Effect<JsonObject, PayloadError.PayloadError | PayloadError.LossyEncoding> => stateCodec.encode(self, options)

/**
 * A snapshot of a run as JSON text, for another process to resume.
 *
 * **Details**
 *
 * Fails where something must not be written, a key of the run's context that names a
 * secret for example. `indent` is the number of spaces per level, default 0.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeStateJson = (
  self: State,
  options?: VersionedCodec.EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError.PayloadError | PayloadError.LossyEncoding> => stateCodec.encodeJson(self, options)

/**
 * Reads a snapshot of any version.
 *
 * **Gotchas**
 *
 * A snapshot is trusted, see {@link stateCodec}.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeState = (
  input: unknown,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<State, PayloadError.PayloadError> => stateCodec.decode(input, options)

/**
 * Like {@link decodeState}, from JSON text or bytes of UTF-8.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeStateJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<State, PayloadError.PayloadError> => stateCodec.decodeJson(input, options)

/**
 * What finished, in order: a step that ran twice is there twice, a band as a whole and
 * in declared order.
 *
 * @category getters
 * @since 0.1.0
 */
export const history = (self: State): ReadonlyArray<StepRecord> => Chunk.toReadonlyArray(self.history)

/**
 * The newest record of a step.
 *
 * @category getters
 * @since 0.1.0
 */
export const record = (self: State, step: string): Option.Option<StepRecord> => findRecord(self, step)

/**
 * The record that `fromPrev` reads: of the step that finished last, after a band of its
 * last declared member. None before the first step.
 *
 * @category getters
 * @since 0.1.0
 */
export const lastRecord = (self: State): Option.Option<StepRecord> => recordAt(self, self.previous)

/**
 * What steps wrote under their `writes` keys; the newest of each.
 *
 * @category getters
 * @since 0.1.0
 */
export const writes = (self: State): ReadonlyMap<string, Schema.Json> => readWrites(self)

/**
 * The steps of the current turn that have not finished, in declared order.
 *
 * @category getters
 * @since 0.1.0
 */
export const openSteps = (self: State): ReadonlyArray<Member> =>
  membersOf(self).filter(({ status }) => status._tag !== "Finished")

/**
 * The step of that name in the current turn.
 *
 * @category getters
 * @since 0.1.0
 */
export const member = (self: State, step: string): Member | undefined => findMember(self, step)

/**
 * The steps that wait for anybody, those of nested plans included.
 *
 * @category getters
 * @since 0.1.0
 */
export const pauses = (self: State): ReadonlyArray<PauseRequest> => findPauses(self)

/**
 * The calls that wait for a decision: of tools that are steps, and of agents and plans
 * inside of steps.
 *
 * **Details**
 *
 * The `callId` of a tool that is a step is the step's name. `path` holds the steps of
 * the outer plans and the step of the agent, then the ids of enclosing calls.
 *
 * @category getters
 * @since 0.1.0
 */
export const approvalRequests = (self: State): ReadonlyArray<Run.ApprovalRequest> => findApprovalRequests(self)

/**
 * What a finished step leaves: its task and context as they were delivered, and what
 * it gave as JSON (encoded with its output schema).
 *
 * **Details**
 *
 * `usage` is what the step itself reports; what an agent or a plan inside it used
 * counts by its own events, and is told here as well (never added twice).
 *
 * @category models
 * @since 0.1.0
 */
export interface StepRecord {
  readonly step: string
  readonly task: string
  readonly context?: string
  readonly output: Schema.Json
  readonly usage: TokenUsage
  readonly attempts: number
  readonly startedAt: DateTime.Utc
  readonly finishedAt: DateTime.Utc
}

/**
 * The first fact of a run.
 *
 * **Details**
 *
 * `digest` is that of the definition, see `Plan.digest`: a state is only taken up again
 * by the same plan. `depth` is 0, or one more than that of the run it is inside of.
 * `context` is the `RunContext` of everything that runs in the plan.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanStarted {
  readonly _tag: "PlanStarted"
  readonly at: DateTime.Utc
  readonly runId: string
  readonly plan: string
  /** The digest of the definition, see `Plan.digest`. */
  readonly digest: string
  readonly depth: number
  readonly maxIterations: number
  readonly input: ResolvedInput
  readonly context: JsonObject
}

/**
 * A step begins, the first of its turn counts an iteration.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepStarted {
  readonly _tag: "StepStarted"
  readonly at: DateTime.Utc
  readonly step: string
}

/**
 * A try failed and another one comes after the pause of the retry policy: `attempt` is its
 * number, from 2 on. What ran inside the failed try is left behind. A run that goes on from
 * here begins with that try.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepRetried {
  readonly _tag: "StepRetried"
  readonly at: DateTime.Utc
  readonly step: string
  readonly attempt: number
  readonly failure: StepFailure
}

/**
 * Something happened in the run of the agent in a step. A `RunStarted` begins that run, or
 * another one after it has ended.
 *
 * @category models
 * @since 0.1.0
 */
export interface AgentChanged {
  readonly _tag: "AgentChanged"
  readonly at: DateTime.Utc
  readonly step: string
  readonly event: Run.Event
}

/**
 * Something happened in the run of the plan in a step. A `PlanStarted` begins that run, or
 * another one after it has ended.
 *
 * @category models
 * @since 0.1.0
 */
export interface NestedChanged {
  readonly _tag: "NestedChanged"
  readonly at: DateTime.Utc
  readonly step: string
  readonly event: Event
}

/**
 * A step gave its output. In a band it counts when all members have finished.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepFinished {
  readonly _tag: "StepFinished"
  readonly at: DateTime.Utc
  readonly record: StepRecord
}

/**
 * A step failed, after its retries. The others of its band go on to their end.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepFailed {
  readonly _tag: "StepFailed"
  readonly at: DateTime.Utc
  readonly step: string
  readonly failure: StepFailure
}

/**
 * The call of a tool that is a step and needs approval.
 *
 * @category models
 * @since 0.1.0
 */
export interface CallRequest {
  readonly name: string
  readonly arguments: Schema.Json
}

/**
 * A step waits.
 *
 * **Details**
 *
 * `reason` when it waits for anybody, `request` when the step is a tool call that needs
 * approval, neither when something inside of its agent or plan waits.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepPaused {
  readonly _tag: "StepPaused"
  readonly at: DateTime.Utc
  readonly step: string
  readonly reason?: string
  readonly request?: CallRequest
}

/**
 * A step ended the plan, and every plan it is inside of, with an answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepConcluded {
  readonly _tag: "StepConcluded"
  readonly at: DateTime.Utc
  readonly step: string
  readonly answer: string
}

/**
 * Where a finished step with routes goes: to a step, or on as if it had no routes (`to`
 * absent).
 *
 * @category models
 * @since 0.1.0
 */
export interface RouteTaken {
  readonly _tag: "RouteTaken"
  readonly at: DateTime.Utc
  readonly step: string
  readonly to?: string
}

/**
 * Somebody decided about a step that paused: a tool call, or a function that waits for
 * anybody. Decisions about calls inside an agent are its `ApprovalDecided`.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepDecided {
  readonly _tag: "StepDecided"
  readonly at: DateTime.Utc
  readonly step: string
  readonly approved: boolean
  readonly reason?: string
}

/**
 * Somebody stopped the run. Nothing starts any more; what runs may still end.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanInterrupted {
  readonly _tag: "PlanInterrupted"
  readonly at: DateTime.Utc
  readonly reason?: string
}

/**
 * The run ended. It can go on after a {@link PlanResumed}, unless it completed.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanFinished {
  readonly _tag: "PlanFinished"
  readonly at: DateTime.Utc
  readonly outcome: Outcome
}

/**
 * Somebody runs it again: what failed, paused or was cut off gets another turn, what
 * finished does not. Without `maxIterations` the limit stays as it was, without `context`
 * the RunContext does.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanResumed {
  readonly _tag: "PlanResumed"
  readonly at: DateTime.Utc
  readonly maxIterations?: number
  readonly context?: JsonObject
}

/**
 * One fact of a plan's run. A run is the list of its facts, and nothing else: see
 * `PlanTransition.fold`.
 *
 * @category models
 * @since 0.1.0
 */
export type Event =
  | PlanStarted
  | StepStarted
  | StepRetried
  | AgentChanged
  | NestedChanged
  | StepFinished
  | StepFailed
  | StepPaused
  | StepConcluded
  | RouteTaken
  | StepDecided
  | PlanInterrupted
  | PlanFinished
  | PlanResumed

const wireStep = Schema.String

const wireReason = Schema.optionalKey(Schema.String)

/**
 * One fact without its version.
 *
 * @category schemas
 * @since 0.1.0
 */
export const WireEvent: Schema.Codec<Event, unknown> = Schema.Union([
  Schema.TaggedStruct("PlanStarted", {
    at: runParts.Time,
    runId: Schema.String,
    plan: Schema.String,
    digest: Schema.String,
    depth: runParts.Count,
    maxIterations: Schema.Int,
    input: WireInput,
    context: runParts.Context
  }),
  Schema.TaggedStruct("StepStarted", { at: runParts.Time, step: wireStep }),
  Schema.TaggedStruct("StepRetried", {
    at: runParts.Time,
    step: wireStep,
    attempt: runParts.Count,
    failure: WireFailure
  }),
  Schema.TaggedStruct("AgentChanged", { at: runParts.Time, step: wireStep, event: runParts.Event }),
  Schema.TaggedStruct("NestedChanged", { at: runParts.Time, step: wireStep, event: Schema.suspend(() => WireEvent) }),
  Schema.TaggedStruct("StepFinished", { at: runParts.Time, record: WireRecord }),
  Schema.TaggedStruct("StepFailed", { at: runParts.Time, step: wireStep, failure: WireFailure }),
  Schema.TaggedStruct("StepPaused", {
    at: runParts.Time,
    step: wireStep,
    reason: wireReason,
    request: Schema.optionalKey(WireCallRequest)
  }),
  Schema.TaggedStruct("StepConcluded", { at: runParts.Time, step: wireStep, answer: Schema.String }),
  Schema.TaggedStruct("RouteTaken", { at: runParts.Time, step: wireStep, to: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("StepDecided", {
    at: runParts.Time,
    step: wireStep,
    approved: Schema.Boolean,
    reason: wireReason
  }),
  Schema.TaggedStruct("PlanInterrupted", { at: runParts.Time, reason: wireReason }),
  Schema.TaggedStruct("PlanFinished", { at: runParts.Time, outcome: WireOutcome }),
  Schema.TaggedStruct("PlanResumed", {
    at: runParts.Time,
    maxIterations: Schema.optionalKey(Schema.Int),
    context: Schema.optionalKey(runParts.Context)
  })
])

/**
 * The arm of one fact.
 */
const eventArm: VersionedCodec.AnyArm<Event> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), event: WireEvent }),
  toCurrent: ({ event }) => Effect.succeed(event),
  fromCurrent: (event) => VersionedCodec.lossless({ version: 1 as const, event })
})

/**
 * The codec of one fact: field `version`, native version 1. Its cost does not depend on
 * the run.
 *
 * **Example** (Storing a fact)
 *
 * ```ts
 * import { DateTime, Effect } from "effect"
 * import { PlanRun } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const event: PlanRun.Event = { _tag: "StepStarted", at: yield* DateTime.now, step: "write" }
 *   const text = yield* PlanRun.eventCodec.encodeJson(event)
 *   return yield* PlanRun.eventCodec.decodeJson(text)
 * })
 *
 * assert.strictEqual(Effect.runSync(program)._tag, "StepStarted")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventCodec: VersionedCodec.VersionedCodec<Event> = VersionedCodec.make({
  what: "plan run event",
  field: "version",
  type: Schema.toType(WireEvent),
  arms: [eventArm],
  data: userDataPaths
})

/**
 * The arm of a list of facts.
 */
const eventsArm: VersionedCodec.AnyArm<ReadonlyArray<Event>> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), events: Schema.Array(WireEvent) }),
  toCurrent: ({ events }) => Effect.succeed(events),
  fromCurrent: (events) => VersionedCodec.lossless({ version: 1 as const, events })
})

/**
 * The codec of a list of facts, the durable form of a run.
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventsCodec: VersionedCodec.VersionedCodec<ReadonlyArray<Event>> = VersionedCodec.make({
  what: "plan run events",
  field: "version",
  type: Schema.Array(Schema.toType(WireEvent)),
  arms: [eventsArm],
  data: userDataPaths
})

/**
 * Schema of {@link Event}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Event: Schema.Codec<Event, Schema.Json> = eventCodec.schema

/**
 * What every result holds.
 *
 * **Details**
 *
 * - `state`: what `Plan.resume` goes on from; `PlanRun.history` are the results of
 *   all steps.
 * - `usage`: of all steps and everything inside them, each counted once.
 * - `iterations`: turns so far, a band counts as one.
 * - `writes`: what steps wrote under their `writes` keys.
 *
 * @category models
 * @since 0.1.0
 */
export interface ResultBase {
  readonly state: State
  readonly usage: TokenUsage
  readonly iterations: number
  readonly writes: ReadonlyMap<string, Schema.Json>
}

/**
 * The last step gave its answer: `output` decoded with the plan's output schema (without one
 * it is the payload), `payload` as JSON, and `text` as words. A plan without steps gives
 * its input.
 *
 * @category models
 * @since 0.1.0
 */
export interface Completed<out A> extends ResultBase {
  readonly outcome: "Completed"
  readonly output: A
  readonly payload: Schema.Json
  readonly text: string
}

/**
 * A step ended the plan, and all plans around it, with an answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface Concluded extends ResultBase {
  readonly outcome: "Concluded"
  readonly answer: string
}

/**
 * Steps wait: `pauses` for anybody to resume the run, `requests` for decisions about calls.
 *
 * @category models
 * @since 0.1.0
 */
export interface Paused extends ResultBase {
  readonly outcome: "Paused"
  readonly pauses: ReadonlyArray<PauseRequest>
  readonly requests: ReadonlyArray<Run.ApprovalRequest>
}

/**
 * The run was stopped: by `interruptWhen` (its reason) or by `timeouts.total`
 * (`"timeout"`).
 *
 * @category models
 * @since 0.1.0
 */
export interface Interrupted extends ResultBase {
  readonly outcome: "Interrupted"
  readonly reason: string | undefined
}

/**
 * The result of a run, told apart by `outcome`. Only `Completed` has `output`.
 *
 * @category models
 * @since 0.1.0
 */
export type Result<A> = Completed<A> | Concluded | Paused | Interrupted

/** @internal */
export type StateFields = Omit<State, keyof EffectInspectable.Inspectable | planNames.StateTypeId>

// Each field by name: this runs once per event, and a loop over keys takes ten times as long
class StateValue extends EffectInspectable.Class implements State {
  readonly runId: State["runId"]
  readonly plan: State["plan"]
  readonly digest: State["digest"]
  readonly depth: State["depth"]
  readonly context: State["context"]
  readonly input: State["input"]
  readonly cursor: State["cursor"]
  readonly turn: State["turn"]
  readonly choosing: State["choosing"]
  readonly rejoins: State["rejoins"]
  readonly iterations: State["iterations"]
  readonly maxIterations: State["maxIterations"]
  readonly history: State["history"]
  readonly latest: State["latest"]
  readonly writes: State["writes"]
  readonly previous: State["previous"]
  readonly usage: State["usage"]
  readonly interrupted: State["interrupted"]
  readonly outcome: State["outcome"]
  readonly startedAt: State["startedAt"]
  readonly updatedAt: State["updatedAt"]
  readonly revision: State["revision"]

  constructor(fields: StateFields) {
    super()
    this.runId = fields.runId
    this.plan = fields.plan
    this.digest = fields.digest
    this.depth = fields.depth
    this.context = fields.context
    this.input = fields.input
    this.cursor = fields.cursor
    this.turn = fields.turn
    this.choosing = fields.choosing
    this.rejoins = fields.rejoins
    this.iterations = fields.iterations
    this.maxIterations = fields.maxIterations
    this.history = fields.history
    this.latest = fields.latest
    this.writes = fields.writes
    this.previous = fields.previous
    this.usage = fields.usage
    this.interrupted = fields.interrupted
    this.outcome = fields.outcome
    this.startedAt = fields.startedAt
    this.updatedAt = fields.updatedAt
    this.revision = fields.revision
    Object.freeze(this)
  }

  get [planNames.stateTypeId](): typeof planNames.stateTypeId {
    return planNames.stateTypeId
  }

  [Equal.symbol](that: unknown): boolean {
    return (
      hasStateTypeId(that) &&
      this.runId === that.runId &&
      this.revision === that.revision &&
      Equal.equals({ ...this }, { ...that })
    )
  }

  [Hash.symbol](): number {
    return Hash.combine(Hash.number(this.revision), Hash.string(this.runId))
  }

  // Where it stands and nothing that any step gave: states hang on errors, and errors are logged
  toJSON() {
    return {
      _id: "PlanRunState",
      runId: this.runId,
      plan: this.plan,
      iterations: this.iterations,
      finished: Chunk.size(this.history),
      revision: this.revision,
      ...(this.cursor === undefined ? undefined : { cursor: this.cursor }),
      ...(this.outcome === undefined ? undefined : { outcome: this.outcome._tag })
    }
  }
}

/** @internal */
export const makeState = (fields: StateFields): State => new StateValue(fields)

/** @internal */
export const recordAt = (self: State, index: number | undefined): Option.Option<StepRecord> =>
  index === undefined ? Option.none() : Chunk.get(self.history, index)

const findRecord = (self: State, step: string): Option.Option<StepRecord> =>
  Option.flatMap(HashMap.get(self.latest, step), (index) => Chunk.get(self.history, index))

/** Finds the newest record of each step of a history. */
const latestRecords = (history: Iterable<StepRecord>): HashMap.HashMap<string, number> => {
  let index = 0
  return HashMap.mutate(HashMap.empty<string, number>(), (latest) => {
    for (const { step } of history) {
      HashMap.set(latest, step, index)
      index += 1
    }
  })
}

/** @internal */
export const membersOf = (self: State): ReadonlyArray<Member> => self.turn?.members ?? []

/** @internal */
export const findMember = (self: State, step: string): Member | undefined =>
  membersOf(self).find((member) => member.step === step)

/** @internal */
export const childOf = ({ status }: Member): Child | undefined =>
  status._tag === "Finished" || status._tag === "Concluded" ? undefined : status.child

/** @internal */
export const findPauses = (self: State): ReadonlyArray<PauseRequest> => {
  const found: Array<PauseRequest> = []
  collectPauses(self, [], found)
  return found
}

const collectPauses = (self: State, path: ReadonlyArray<string>, found: Array<PauseRequest>): void => {
  for (const member of membersOf(self)) {
    const { status, step } = member
    if (status._tag === "Paused" && status.reason !== undefined && status.decision === undefined) {
      found.push({ step, path, reason: status.reason })
    }
    const child = childOf(member)
    if (child?._tag === "Plan") collectPauses(child.state, [...path, step], found)
  }
}

/** @internal */
export const findApprovalRequests = (self: State): ReadonlyArray<Run.ApprovalRequest> => {
  const found: Array<Run.ApprovalRequest> = []
  collectRequests(self, [], found)
  return runParts.disambiguate(found)
}

const collectRequests = (self: State, path: ReadonlyArray<string>, found: Array<Run.ApprovalRequest>): void => {
  for (const member of membersOf(self)) {
    const { status, step } = member
    if (status._tag === "Paused" && status.request !== undefined && status.decision === undefined) {
      found.push({ callId: step, ...status.request, ...(path.length === 0 ? undefined : { path }) })
    }
    const child = childOf(member)
    if (child === undefined) continue
    const inside = [...path, step]
    if (child._tag === "Plan") collectRequests(child.state, inside, found)
    else {
      for (const request of Run.approvalRequests(child.state)) {
        found.push({ ...request, path: [...inside, ...(request.path ?? [])] })
      }
    }
  }
}

const readWrites = (self: State): ReadonlyMap<string, Schema.Json> => {
  const found = new Map<string, Schema.Json>()
  for (const [key, index] of self.writes) {
    const written = recordAt(self, index)
    if (Option.isSome(written)) found.set(key, written.value.output)
  }
  return found
}

type WireBody = typeof WireBody.Type

/** What cannot be of a state that was written, or nothing. */
const stateProblem = (body: WireBody): string | undefined => {
  const missing = body.writes.find(({ record }) => record >= body.history.length)
  if (missing !== undefined) {
    return `expected that ${JSON.stringify(missing.key)} was written by one of ${body.history.length} records, found the place ${missing.record}`
  }
  if (new Set(body.writes.map(({ key }) => key)).size < body.writes.length) return "expected each key in writes once"
  const steps = (body.turn?.members ?? []).map(({ step }) => step)
  if (body.turn !== undefined && (steps.length === 0 || steps[0] !== body.cursor)) {
    return "expected a turn that begins with the step at the cursor"
  }
  if (new Set(steps).size < steps.length) return "expected each step of the turn once"
  return body.choosing !== undefined && (body.choosing !== body.cursor || body.turn !== undefined)
    ? "expected that the step whose route is to be chosen is at the cursor, and no turn"
    : undefined
}
