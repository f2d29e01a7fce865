/**
 * How a run of a plan ended, as data.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ApprovalRequest } from "../agent/Outcome.ts"

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
 * import { PlanOutcome } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const line = PlanOutcome.PlanOutcome.match({
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
export const PlanOutcome = Schema.TaggedUnion({
  Completed: { output: Schema.Json },
  Concluded: { answer: Schema.String },
  Paused: { pauses: Schema.Array(PauseRequest), requests: Schema.Array(ApprovalRequest) },
  Failed: { step: Schema.String, failure: StepFailure },
  LimitReached: { limit: Schema.Int, next: Schema.String },
  Interrupted: { reason: Schema.optionalKey(Schema.String) }
})

/**
 * @category models
 * @since 0.1.0
 */
export type PlanOutcome = typeof PlanOutcome.Type
