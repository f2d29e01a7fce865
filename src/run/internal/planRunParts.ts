/**
 * The data of runs of plans: input, records and outcome, each written once as the Schema of its newest wire.
 */

import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Digest from "../../payload/Digest.ts"
import { defined } from "../../payload/internal/values.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as budgetRequest from "./budgetRequest.ts"
import * as runRequests from "./runRequests.ts"
import * as runValues from "./runValues.ts"

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

/** An input with its parts, as a message to a session may have it. */
export const InputParts = Schema.Struct({
  task: Schema.optional(Schema.String),
  payload: Schema.optional(Schema.Json),
  context: Schema.optional(Schema.String),
  content: Schema.optional(Schema.Array(ToolResult.Content))
})

/** The parts of an input that the content of a message has no place for. The content begins with the task then. */
export const Beside = Schema.Struct({
  payload: Schema.optionalKey(Schema.Json),
  context: Schema.optionalKey(Schema.String)
})

export type Beside = typeof Beside.Type

/** The key of these parts in the metadata of the message. */
export const besideMark = "effect-emissary/plan"

const decodeBeside = Schema.decodeUnknownOption(Beside)

/** These parts of a message, `undefined` for a message that was not sent as the input of a plan. */
export const besideOf = (metadata: { readonly [key: string]: Schema.Json } = {}): Beside | undefined =>
  Option.getOrUndefined(decodeBeside(metadata[besideMark]))

/**
 * The text of a payload: a string is itself, `null` is empty, all else is canonical JSON
 * (RFC 8785), the same before and after a payload was stored.
 */
export const payloadText = (payload: Schema.Json): string => {
  if (typeof payload === "string") return payload
  if (payload === null) return ""
  // Canonical JSON takes no lone surrogates; JSON.stringify escapes them.
  return Result.getOrElse(Digest.canonicalize(payload), () => JSON.stringify(payload))
}

/** A payload that is absent or null is the task; the task, if it is absent or empty, the text of the payload. */
export const resolveParts = ({ content, context, payload: given, task }: Exclude<Input, string>): ResolvedInput => {
  const payload = given ?? task ?? (given === null ? null : "")
  return { task: task || payloadText(payload), payload, ...defined({ context, content }) }
}

/**
 * The input of a run as its state holds it, with task and payload.
 */
export const ResolvedInput = Schema.Struct({
  task: Schema.String,
  payload: Schema.Json,
  context: Schema.optionalKey(Schema.String),
  content: Schema.optionalKey(Schema.Array(ToolResult.Content))
}).annotate({ identifier: "PlanInput" })

export type ResolvedInput = typeof ResolvedInput.Type

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
}).annotate({ identifier: "StepFailure" })

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
 * | `Paused` | steps wait for decisions about `requests` | continues at the same point |
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
 *   Paused: ({ requests }) => `waits for ${requests.length}`,
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
  Paused: { requests: Schema.Array(runRequests.Request) },
  Failed: { step: Schema.String, failure: StepFailure },
  LimitReached: { limit: Schema.Int, next: Schema.String },
  Interrupted: { reason: Schema.optionalKey(Schema.String) }
}).annotate({ identifier: "PlanOutcome" })

/**
 * @category models
 * @since 0.1.0
 */
export type Outcome = typeof Outcome.Type

/** The outcome as its event has it: a plan returns the output of its last step, which the state has already. */
export const RecordedOutcome = Schema.Union([
  Schema.TaggedStruct("Completed", { output: Schema.optionalKey(Schema.Json) }),
  Outcome.cases.Concluded,
  Outcome.cases.Paused,
  Outcome.cases.Failed,
  Outcome.cases.LimitReached,
  Outcome.cases.Interrupted
])

export type RecordedOutcome = typeof RecordedOutcome.Type

/**
 * The record of a finished step: its task and context as they were delivered, and its
 * output as JSON (encoded with its output schema).
 *
 * **Details**
 *
 * `usage` is the usage of the step, agents and plans inside it included. The run's total counts it once.
 */
export const StepRecord = Schema.Struct({
  step: Schema.String,
  task: Schema.String,
  context: Schema.optionalKey(Schema.String),
  output: Schema.Json,
  usage: runValues.Usage,
  attempts: runValues.Count,
  startedAt: runValues.Time,
  finishedAt: runValues.Time
}).annotate({ identifier: "StepRecord" })

export type StepRecord = typeof StepRecord.Type

/**
 * The record as its event has it. Without `task` the task is the text of what came before the step, and without `output` the agent or the
 * plan in the step has the output: the state has both already.
 */
export const RecordedStep = Schema.Struct({
  ...StepRecord.fields,
  task: Schema.optionalKey(Schema.String),
  output: Schema.optionalKey(Schema.Json)
})

export type RecordedStep = typeof RecordedStep.Type

/** The value of a step with `writes`: `key` is what the step writes, and `at` the time at which the step finished. */
export const StepWrite = Schema.Struct({
  key: Schema.String,
  step: Schema.String,
  at: runValues.Time,
  value: Schema.Json
})

export type StepWrite = typeof StepWrite.Type

/**
 * The question that a step waits with: the call of the tool that it is, or the `reason` of its pause, which is the text of a question
 * where `ask` has the Schema of an answer. `contract` is the digest of the tool, or of the plan, which the digest of the question covers,
 * too. `budget` is the limit that refused the call of the tool.
 */
export const Question = Schema.Struct({
  digest: Schema.String,
  contract: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  ask: Schema.optionalKey(runRequests.Ask),
  bounds: Schema.optionalKey(runRequests.Bounds),
  request: Schema.optionalKey(Schema.Struct({ name: Schema.String, arguments: Schema.Json })),
  budget: Schema.optionalKey(budgetRequest.About)
})

export type Question = typeof Question.Type

/** The request of a step that waits with a question. */
export const requestOf = (
  callId: string,
  step: string,
  { ask, bounds, digest, reason = "", request }: Question
): runRequests.Request => {
  if (request !== undefined) return runRequests.requestOf({ callId, ...request, ask, bounds, digest })
  return ask === undefined
    ? { _tag: "Pause", callId, name: step, arguments: { reason }, digest, ...defined({ bounds }) }
    : runRequests.requestOf({ callId, name: step, arguments: { question: reason }, ask, bounds, digest })
}

/**
 * A step, as far as the state of a run depends on it: `routes` are the steps that its output can name or that its routes lead to, absent
 * for a step without routes, and `items` the steps of each of its items, for a step with a block of items.
 */
export interface FlowStep {
  readonly name: string
  readonly parallel?: boolean
  readonly writes?: string
  readonly routes?: ReadonlyArray<string>
  readonly afterBranches?: string
  readonly items?: ReadonlyArray<FlowStep>
}

const flow = {
  name: Schema.String,
  parallel: Schema.optionalKey(Schema.Boolean),
  writes: Schema.optionalKey(Schema.String),
  routes: Schema.optionalKey(Schema.Array(Schema.String)),
  afterBranches: Schema.optionalKey(Schema.String),
  items: Schema.optionalKey(Schema.Array(Schema.suspend((): Schema.Codec<FlowStep> => FlowStep)))
}

const FlowStep: Schema.Codec<FlowStep> = Schema.Struct(flow)

/**
 * The definition of a run, as far as the run depends on it: the events of a run have their state without any code of the plan, and an
 * edited definition is compared with it. `parts` are the parts of the whole, `target` and `digest` of a step are for the comparison.
 */
export const Basis = Schema.Struct({
  digest: Schema.String,
  parts: runValues.Parts,
  steps: Schema.Array(Schema.Struct({ ...flow, target: Schema.String, digest: Schema.String }))
}).annotate({ identifier: "PlanBasis" })

export interface Basis extends Schema.Schema.Type<typeof Basis> {}

/** The definition that a run continues with. `cursor` is the step that comes next there. */
export const PlanChange = Schema.Struct({
  basis: Basis,
  changes: Schema.Array(ToolContract.Change),
  cursor: Schema.optionalKey(Schema.String)
})

export interface PlanChange extends Schema.Schema.Type<typeof PlanChange> {}
