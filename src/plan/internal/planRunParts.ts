/**
 * The data of runs of plans: input, records, outcome and events, each written once as the Schema of its newest wire.
 */

import * as Schema from "effect/Schema"
import * as Run from "../../agent/Run.ts"
import * as runParts from "../../agent/internal/runParts.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"

/**
 * The input of a run: a text, or its parts.
 *
 * **Details**
 *
 * Without `payload` the payload is the task; without `task`, or with an empty one, the task is the
 * payload as text.
 * `context` is side text. `content` are images and files, for steps whose task is `fromStart`
 * and for a first step whose task is `fromPrev`.
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
 * The input of a run as its state holds it, with task and payload.
 */
export const ResolvedInput = Schema.Struct({
  task: Schema.String,
  payload: Schema.Json,
  context: Schema.optionalKey(Schema.String),
  content: Schema.optionalKey(Schema.Array(ToolResult.Content))
})

export type ResolvedInput = typeof ResolvedInput.Type

/**
 * A step that waits until the run is resumed. `path` are the steps of the outer plans, the
 * outermost first. `callId` and `digest` are what a decision about it names.
 */
export const PauseRequest = Schema.Struct({
  callId: Schema.String,
  digest: Schema.String,
  step: Schema.String,
  path: Schema.Array(Schema.String),
  reason: Schema.String
})

/**
 * Why a step failed, as data: `type` is the tag or name of the error, `message` its
 * message.
 *
 * **Details**
 *
 * `retryable` repeats the `retryable` or `isRetryable` of the error, for callers that decide
 * what to do about a failed run. It is true for a timeout, and false for what the plan itself
 * rejects. The `retry` of a step ignores it.
 */
export const StepFailure = Schema.Struct({
  type: Schema.String,
  message: Schema.String,
  retryable: Schema.Boolean
})

export type StepFailure = typeof StepFailure.Type

/**
 * The end of a run.
 *
 * **Details**
 *
 * | outcome | meaning | resume |
 * |---|---|---|
 * | `Completed` | the last step returned `output` | no |
 * | `Concluded` | a step ended the plan with `answer` | no |
 * | `Paused` | steps wait: `pauses` for a resume, `requests` for decisions | continues at the same point |
 * | `Failed` | a step, a reference or a predicate failed | tries the same step again |
 * | `LimitReached` | `maxIterations` was used up before `next` | with a larger limit |
 * | `Interrupted` | the run was stopped | continues |
 *
 * **Example** (Matching outcomes)
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
 *   Interrupted: ({ reason }) => `interrupted: ${reason ?? "no reason"}`
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
 * The record of a finished step: its task and context as they were delivered, and its
 * output as JSON (encoded with its output schema).
 *
 * **Details**
 *
 * `usage` is that of the step, agents and plans inside it included. The run's total counts
 * it once.
 */
export const StepRecord = Schema.Struct({
  step: Schema.String,
  task: Schema.String,
  context: Schema.optionalKey(Schema.String),
  output: Schema.Json,
  usage: runParts.Usage,
  attempts: runParts.Count,
  startedAt: runParts.Time,
  finishedAt: runParts.Time
})

export type StepRecord = typeof StepRecord.Type

/** The question that a step waits with: the call of the tool that it is, or the `reason` of its pause. */
export const Question = Schema.Struct({
  digest: Schema.String,
  reason: Schema.optionalKey(Schema.String),
  request: Schema.optionalKey(Schema.Struct({ name: Schema.String, arguments: Schema.Json }))
})

export type Question = typeof Question.Type

/** The parts of a definition that an edited one is compared with: those of each step, and those of the whole. */
export const Basis = Schema.Struct({
  digest: Schema.String,
  parts: runParts.Parts,
  steps: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      parallel: Schema.optionalKey(Schema.Boolean),
      target: Schema.String,
      keeps: Schema.String,
      digest: Schema.String
    })
  )
})

export interface Basis extends Schema.Schema.Type<typeof Basis> {}

/** The definition that a run continues with. `cursor` is the step that comes next there. */
const PlanChange = Schema.Struct({
  basis: Basis,
  changes: Schema.Array(ToolContract.Change),
  cursor: Schema.optionalKey(Schema.String)
})

export interface PlanChange extends Schema.Schema.Type<typeof PlanChange> {}

const at = runParts.Time

const step = Schema.String

const reason = Schema.optionalKey(Schema.String)

const OwnEvent = Schema.TaggedUnion({
  PlanStarted: {
    at,
    runId: Schema.String,
    plan: Schema.String,
    digest: Schema.String,
    depth: runParts.Count,
    maxIterations: Schema.Int,
    input: ResolvedInput,
    context: runParts.Context,
    basis: Schema.optionalKey(Basis)
  },
  StepStarted: { at, step },
  StepRetried: { at, step, attempt: runParts.Count, failure: StepFailure },
  AgentChanged: { at, step, event: runParts.Event },
  StepFinished: { at, record: StepRecord },
  StepFailed: { at, step, failure: StepFailure },
  StepPaused: {
    at,
    step,
    question: Schema.optionalKey(Question),
    asked: Schema.optionalKey(runParts.Count),
    input: Schema.optionalKey(ResolvedInput)
  },
  StepConcluded: { at, step, answer: Schema.String },
  RouteTaken: { at, step, to: Schema.optionalKey(Schema.String) },
  StepDecided: { at, step, callId: Schema.String, ...runParts.Verdict.fields },
  PlanInterrupted: { at, reason },
  PlanFinished: { at, outcome: Outcome },
  PlanResumed: {
    at,
    maxIterations: Schema.optionalKey(Schema.Int),
    context: Schema.optionalKey(runParts.Context),
    change: Schema.optionalKey(PlanChange)
  }
})

interface NestedEvent extends Schema.Struct.Type<{ readonly at: typeof at; readonly step: typeof step }> {
  readonly _tag: "NestedChanged"
  readonly event: Event
}

/**
 * One event of a run. A run is the list of its events, and nothing else.
 *
 * **Details**
 *
 * | event | meaning |
 * |---|---|
 * | `PlanStarted` | the first event; `digest` is that of the definition, `depth` is 0 or one more than that of the run around it, `context` the `RunContext` of everything inside, `basis` what an edited definition is compared with |
 * | `StepStarted` | a step begins; the first of its turn counts an iteration |
 * | `StepRetried` | an attempt failed, and attempt number `attempt`, from 2 on, follows the pause of the retry policy; what ran inside the failed one is dropped |
 * | `AgentChanged` | an event of the agent in a step; a `RunStarted` begins its run, or another one after that ended |
 * | `NestedChanged` | an event of the plan in a step; a `PlanStarted` begins its run, or another one after that ended |
 * | `StepFinished` | a step returned its output; in a parallel group it counts when all members have finished |
 * | `StepFailed` | a step failed, after its retries; the others of its parallel group continue to their end |
 * | `StepPaused` | a step waits: its `question` has the `reason` of its pause, or the `request` of the tool call that it is; without one it waits for something inside its agent or plan; `asked` counts what it asked for in this turn; `input` is what the step was given, where it reads a memory, and what it is given after the decision |
 * | `StepConcluded` | a step ended the plan, and every plan around it, with an answer |
 * | `RouteTaken` | the step that follows a step with routes; without `to` the next as if it had none |
 * | `StepDecided` | the decision about a step that paused, with the `callId` and the digest that it names; decisions about calls inside an agent are its `ApprovalDecided` |
 * | `PlanInterrupted` | the run was stopped: nothing starts any more, what runs may still end |
 * | `PlanFinished` | the run ended; it can continue after a `PlanResumed`, unless it completed |
 * | `PlanResumed` | what failed, paused or was cut off gets another turn, what finished does not; an absent `maxIterations` or `context` stays as it was; `change` is present if the run continues under an edited definition |
 *
 * @category models
 * @since 0.1.0
 */
export type Event = typeof OwnEvent.Type | NestedEvent

/**
 * Schema of {@link Event}; its JSON has no version, see `PlanRun.eventCodec`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Event: Schema.Codec<Event, unknown> = Schema.Union([
  ...Object.values(OwnEvent.cases),
  Schema.TaggedStruct("NestedChanged", { at, step, event: Schema.suspend(() => Event) })
])
