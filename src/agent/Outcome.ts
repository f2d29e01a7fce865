/**
 * How a run ended.
 *
 * Every outcome except `Completed` leaves a state that can be run again: with more
 * steps, with the approvals that were asked for, or with a new message.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ValidationIssue } from "../payload/ValidationIssue.ts"

/**
 * A call that waits for somebody's decision.
 *
 * **Details**
 *
 * `path` holds the ids of the enclosing calls, outermost first, when the call was
 * made by an agent that is itself a tool of this one; where a plan runs it, the names of
 * the plan's steps stand among them. It is absent for calls of the run's own model, and
 * empty where such a call has the same id as one of theirs. A step of a plan that waits
 * has the name of the step as its `callId`.
 *
 * @category models
 * @since 0.1.0
 */
export interface ApprovalRequest {
  readonly callId: string
  readonly name: string
  readonly arguments: Schema.Json
  readonly path?: ReadonlyArray<string>
}

/**
 * Schema of {@link ApprovalRequest}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ApprovalRequest: Schema.Codec<ApprovalRequest> = Schema.Struct({
  callId: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  path: Schema.optionalKey(Schema.Array(Schema.String))
}).annotate({ identifier: "ApprovalRequest" })

/**
 * Requests of a run and of what runs inside it, told apart: an id alone would not say
 * whose call is meant where two have it.
 *
 * @internal
 * @category combining
 * @since 0.1.0
 */
export const toldApart = (requests: ReadonlyArray<ApprovalRequest>): ReadonlyArray<ApprovalRequest> => {
  const below = new Set(requests.filter(({ path }) => path !== undefined).map(({ callId }) => callId))
  return requests.map((request) =>
    request.path === undefined && below.has(request.callId) ? { ...request, path: [] } : request
  )
}

/**
 * The finish reasons after which a run does not go on: calls of such an answer are
 * never run.
 *
 * @category models
 * @since 0.1.0
 */
export const stopReasons = ["length", "content-filter", "error", "other"] as const

/**
 * One of {@link stopReasons}.
 *
 * @category models
 * @since 0.1.0
 */
export type StopReason = (typeof stopReasons)[number]

/**
 * Schema of {@link Outcome}, with `cases`, `guards`, `isAnyOf` and `match`.
 *
 * **Details**
 *
 * - `Completed`: the model gave its final answer. `output` is the JSON it holds,
 *   when the agent has an output schema.
 * - `MaxSteps`: the last answer the budget allows asked for more. Its calls are open. Of a
 *   plan: it used up its iterations.
 * - `AwaitingApproval`: nothing can be done before these decisions.
 * - `Interrupted`: somebody stopped the run; `reason` is theirs.
 * - `InvalidOutput`: the final answer does not fit the output schema.
 * - `Stopped`: the provider ended the answer early.
 *
 * **Example** (Telling outcomes apart)
 *
 * ```ts
 * import { Outcome } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const line = Outcome.Outcome.match({
 *   Completed: () => "done",
 *   MaxSteps: () => "needs more steps",
 *   AwaitingApproval: ({ requests }) => `waits for ${requests.length} decisions`,
 *   Interrupted: ({ reason }) => `interrupted: ${reason ?? "no reason given"}`,
 *   InvalidOutput: ({ issues }) => `${issues.length} problems in the answer`,
 *   Stopped: ({ finishReason }) => `the provider stopped: ${finishReason}`
 * })
 * assert.strictEqual(line({ _tag: "Stopped", finishReason: "length" }), "the provider stopped: length")
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const Outcome = Schema.TaggedUnion({
  Completed: { output: Schema.optionalKey(Schema.Json) },
  MaxSteps: {},
  AwaitingApproval: { requests: Schema.NonEmptyArray(ApprovalRequest) },
  Interrupted: { reason: Schema.optionalKey(Schema.String) },
  InvalidOutput: { issues: Schema.Array(ValidationIssue) },
  Stopped: { finishReason: Schema.Literals(stopReasons) }
}).annotate({ identifier: "Outcome" })

/**
 * How a run ended.
 *
 * @category models
 * @since 0.1.0
 */
export type Outcome = typeof Outcome.Type

/**
 * Whether an answer with this finish reason ends the run: anything but a normal
 * stop, a request for tools, a pause, or no reason at all.
 *
 * **Example** (Finish reasons)
 *
 * ```ts
 * import { Outcome } from "effect-emissary"
 * import assert from "node:assert"
 *
 * assert.strictEqual(Outcome.stopReason("length"), "length")
 * assert.strictEqual(Outcome.stopReason("a reason of tomorrow"), "other")
 * assert.strictEqual(Outcome.stopReason("tool-calls"), undefined)
 * ```
 *
 * @category getters
 * @since 0.1.0
 */
export const stopReason = (finishReason: string | undefined): StopReason | undefined => {
  switch (finishReason) {
    case undefined:
    case "stop":
    case "tool-calls":
    case "pause":
    case "unknown":
      return undefined
    case "length":
    case "content-filter":
    case "error":
      return finishReason
    default:
      return "other"
  }
}
