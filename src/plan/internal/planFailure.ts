/**
 * Failures of runs: their reasons as data and as sentences, and the errors and defects behind them.
 */

import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AgentError from "../../agent/AgentError.ts"
import * as agentReason from "../../agent/internal/agentReason.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import { quote, truncateText } from "../../payload/internal/base.ts"
import { kindOf } from "../../payload/internal/values.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"

const PlainReason = Schema.TaggedUnion({
  StepFailed: { step: Schema.String, path: Schema.Array(Schema.String), failure: planRunParts.StepFailure },
  ReferenceFailed: {
    step: Schema.String,
    slot: Schema.String,
    reference: Schema.String,
    ran: Schema.Array(Schema.String)
  },
  PredicateFailed: {
    step: Schema.String,
    to: Schema.String,
    predicate: Schema.String,
    failure: planRunParts.StepFailure
  },
  MaxIterationsExceeded: { limit: Schema.Int, next: Schema.String },
  BudgetExceeded: { step: Schema.String, path: Schema.Array(Schema.String), ...ledger.Usage },
  PlanChanged: { expected: Schema.String, found: Schema.String, changes: Schema.Array(ToolContract.Change) },
  OutputInvalid: { step: Schema.String, failure: planRunParts.StepFailure },
  JournalFailed: { problem: Schema.String },
  InputInvalid: { problem: Schema.String },
  OptionsInvalid: { problem: Schema.String },
  ContextDiffers: {}
})

/** Why a run failed; `PlanError` has the documentation. */
export const Reason = Schema.Union([PlainReason, runRequests.InvalidDecision])

export type Reason = typeof Reason.Type

/** One kind of reason. */
export type ReasonOf<Tag extends Reason["_tag"]> = Extract<Reason, { readonly _tag: Tag }>

/** A reason as a sentence, with the text of its failure where `hasText` allows it. */
export const explain = (reason: Reason, hasText: (failure: planRunParts.StepFailure) => boolean = () => true) => {
  const show = (failure: planRunParts.StepFailure) =>
    hasText(failure)
      ? `${failure.type}: ${failure.message}`
      : `${failure.type}. The message is in reason.failure.message`
  if (reason._tag === "InvalidDecision") return reason.message
  return PlainReason.match(reason, {
    StepFailed: ({ failure, step }) => `Step ${quote(step)} failed with ${show(failure)}`,
    ReferenceFailed: ({ ran, reference, slot, step }) =>
      `Step ${quote(step)}, ${slot}: expected a result for ${reference}, found that only ${JSON.stringify(ran)} ran. A route skipped it; refer to a step that always runs.`,
    PredicateFailed: ({ failure, predicate, step, to }) =>
      `Step ${quote(step)}: the predicate ${quote(predicate)} of the route to ${quote(to)} failed with ${show(failure)}`,
    MaxIterationsExceeded: ({ limit, next }) =>
      `expected to end within ${limit} iterations, found that ${quote(next)} would be next. Look for a loop whose condition never changes, or resume with a larger maxIterations.`,
    BudgetExceeded: ({ limit, step, unit, used }) =>
      `Step ${quote(step)} was stopped: the budget is ${limit} ${unit}, and ${used} are used or reserved. Resume with another budget.`,
    PlanChanged: ({ changes, expected, found }) =>
      `expected to resume the plan ${expected}, found ${found}: it was edited since. ${runTransition.renderChanges(changes)}`,
    OutputInvalid: ({ failure, step }) =>
      `Step ${quote(step)} returned an output that does not fit the output schema of the plan: ${failure.message}`,
    JournalFailed: ({ problem }) => problem,
    OptionsInvalid: ({ problem }) => `the options of the run are refused: ${problem}`,
    ContextDiffers: () =>
      "expected to resume with the RunContext that the run began with, got another RunContext. Leave out the context, or begin another run.",
    InputInvalid: ({ problem }) =>
      `${problem}. Encode the input with a schema, Schema.toCodecJson for example, before you pass it to the plan.`
  })
}

/**
 * Keeps the error or defect behind an error, if there is one. It may hold anything that a step worked on, so it stays out of
 * reasons, messages, JSON and every printed error.
 */
export const withCause = <E extends object>(error: E, cause: unknown): E => {
  if (cause !== undefined) agentReason.causes.set(error, cause)
  return error
}

export const causeOf = (error: object): unknown => agentReason.causes.get(error)

/** The failures that plans detect. Their messages have places and kinds, and quote only decisions. */
const planReasonTypes: ReadonlySet<string> = new Set([
  "Timeout",
  "Denied",
  "InputInvalid",
  "OutputInvalid",
  "OutputNotJson",
  "MaxSteps",
  "BudgetExceeded",
  "InvalidOutput",
  "Stopped",
  "LoopDetected",
  "Refused",
  "Interrupted"
])

/** True if the plan detected the failure behind an error. An error of a function can have any type; then it is the cause. */
export const isPlanReason = (error: object, type: string): boolean => {
  const cause = agentReason.causes.get(error)
  return planReasonTypes.has(type) && (cause === undefined || cause instanceof PayloadError.PayloadError)
}

const stringAt = (u: unknown, key: string): string | undefined => {
  const found = Predicate.hasProperty(u, key) ? u[key] : undefined
  return typeof found === "string" && found !== "" ? found : undefined
}

/** A typed error as data. */
export const failureOf = (error: unknown): planRunParts.StepFailure => {
  if (error instanceof AgentError.AgentError) {
    const { reason } = error
    return {
      type: reason._tag,
      message: error.message,
      retryable: reason._tag === "ModelFailed" && reason.retryable
    }
  }
  return {
    type: stringAt(error, "_tag") ?? stringAt(error, "name") ?? "Error",
    message: typeof error === "string" ? error : (stringAt(error, "message") ?? "no message"),
    retryable:
      (Predicate.hasProperty(error, "retryable") && error.retryable === true) ||
      (Predicate.hasProperty(error, "isRetryable") && error.isRetryable === true)
  }
}

/** The message of a failure that a defect caused. */
export const defectMessage = (defect: unknown): string =>
  `It died of ${defectKind(defect)}, which is a bug. The log has it, and so has PlanError.causeOf(error) in the process where it happened.`

/** The kind of a defect without its message; its members may throw. */
const defectKind = (defect: unknown): string => {
  if (!(defect instanceof Error)) return `a value that is not an Error (${kindOf(defect)})`
  const name = Result.getOrElse(
    Result.try(() => truncateText(`${defect.constructor.name === "Error" ? defect.name : defect.constructor.name}`)),
    () => ""
  )
  return name === "" ? "a defect" : `the defect ${name}`
}
