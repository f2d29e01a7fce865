/**
 * Settings of a tool that `effect/ai` has no annotation for.
 *
 * @since 0.1.0
 */

import type * as Arr from "effect/Array"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import { dual } from "effect/Function"
import type * as Tool from "effect/ai/Tool"
import type { When } from "./When.ts"
import * as approvalConditions from "./internal/approvalConditions.ts"

/**
 * The time that a call of the tool may take; default 10 seconds.
 *
 * **Details**
 *
 * A run option overrides this annotation, and this annotation overrides the
 * default. `Duration.infinity` is allowed in code; agent wire version 1
 * cannot hold it and refuses to encode it.
 *
 * **Example** (Annotating a tool)
 *
 * ```ts
 * import { Duration, Effect } from "effect"
 * import { Tool } from "effect/ai"
 * import { ToolContract, ToolSettings } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const Search = Tool.make("search").annotate(ToolSettings.Timeout, "30 seconds")
 *
 * const timeoutOf = (tool: Tool.Any) =>
 *   Effect.runPromise(Effect.map(ToolContract.fromTool(tool), ({ timeout }) => Duration.toSeconds(timeout)))
 * assert.strictEqual(await timeoutOf(Search), 30)
 * assert.strictEqual(await timeoutOf(Tool.make("other")), 10)
 * ```
 *
 * @category annotations
 * @since 0.1.0
 */
export const Timeout = Context.Reference<Duration.Input>("effect-emissary/tool/ToolSettings/Timeout", {
  defaultValue: () => "10 seconds"
})

/**
 * Sets the time that a call of the tool may take.
 *
 * **When to use**
 *
 * Use instead of `annotate` where the exact type of a dynamic or
 * provider-defined tool must survive.
 *
 * **Example** (Setting a timeout)
 *
 * ```ts
 * import { Context } from "effect"
 * import { Tool } from "effect/ai"
 * import { ToolSettings } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const Search = ToolSettings.timeout(Tool.make("search"), "2 minutes")
 *
 * assert.strictEqual(Context.get(Search.annotations, ToolSettings.Timeout), "2 minutes")
 * ```
 *
 * @category annotations
 * @since 0.1.0
 */
export const timeout: {
  (duration: Duration.Input): <T extends Tool.Any>(tool: T) => T
  <T extends Tool.Any>(tool: T, duration: Duration.Input): T
} = dual(2, <T extends Tool.Any>(tool: T, duration: Duration.Input): T => {
  // as `annotate` does it: same prototype, same own properties, so the tool keeps its kind
  const clone: T = Object.create(Object.getPrototypeOf(tool))
  return Object.assign(clone, tool, { annotations: Context.add(tool.annotations, Timeout, duration) })
})

/**
 * The `needsApproval` of a tool whose calls ask as a condition decides, as data: it travels with the contract of the tool, so an agent
 * that came as JSON asks the same, without code.
 *
 * **Details**
 *
 * The condition is about a value with three members:
 *
 * - `arguments`: the arguments, as the person reads them and the handler receives them.
 * - `context`: the `RunContext` of the run.
 * - `source`: for each argument the place in which its texts and numbers are found. `"user"` is a message of the user, or an answer to a
 *   question, in which the value is a word, or words, of its own; `"context"` a value of the `RunContext`; `"tool/<name>"` a result of a tool, and in a
 *   plan `"step/<name>"` an output of a step. `"model"` is a value that is found nowhere: the model has made it, or made it of what
 *   it has read. The first of them counts, and an argument whose values have several sources is `"mixed"`. In a run that another run has begun no
 *   message is of the user.
 *
 * Name the sources that need no approval, as in the example, and not the others: a model can write a value of a tool in other words.
 *
 * A condition that names another member or parameter, a predicate or a text is refused with a `ToolContractError`. A condition
 * that cannot be decided where the call is made (a pattern for RE2 without `Re2.layer`, more work than `Limits` allow) asks. So does code of `effect/ai`
 * that knows no conditions.
 *
 * **Example** (Small amounts to recipients that the user has named)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool } from "effect/ai"
 * import { ToolContract, ToolSettings, When } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const Pay = Tool.make("pay", {
 *   parameters: Schema.Struct({ to: Schema.String, amount: Schema.Finite }),
 *   needsApproval: ToolSettings.approvalWhen(
 *     When.or(When.field("arguments", "amount").greaterThan(100), When.field("source", "to").notEquals("user"))
 *   )
 * })
 *
 * const contract = await Effect.runPromise(ToolContract.fromTool(Pay))
 * assert.strictEqual(contract.approval, "dynamic")
 * assert.strictEqual(contract.request?.when?.kind, "or")
 * ```
 *
 * @category approvals
 * @since 0.1.0
 */
export const approvalWhen = (when: When): (() => boolean) => approvalConditions.policyOf(when)

/**
 * The people who decide about the calls of a tool, and the time that they have, see {@link Request}.
 *
 * @category options
 * @since 0.1.0
 */
export interface RequestOptions {
  /**
   * The names of the people or roles who may decide, one at least; default: all who may touch the run. A server checks callers
   * (`decidesAs` of a caller of `SessionHttp`), and code that decides by itself is trusted.
   */
  readonly deciders?: Arr.NonEmptyReadonlyArray<string> | undefined
  /** The time after which a request is denied, or has the answer `otherwise`; default `expiresAfter` of the layer of sessions, or no end. */
  readonly expiresAfter?: Duration.Input | undefined
  /**
   * The answer of a question or of a client-side tool after that time, which has to fit the `success` Schema of the tool; default: the request
   * is denied. An approval is always denied.
   */
  readonly otherwise?: unknown
}

/**
 * The people who decide about the requests for the calls of a tool, the time that they have, and the answer after it. Default: all who may
 * touch the run, without an end.
 *
 * **Details**
 *
 * It is a part of the contract (`request`), so it holds for agents that are data, and each request has it as `bounds` (`deciders`, `expiresAt`,
 * `otherwise`). The time counts from the request. A request that no person decides in time is settled by a decision in the log: in a session
 * by itself, and in a run without one when the run is resumed. A decision that comes later is refused as `alreadyAnswered`.
 *
 * **Example** (The team of finance approves within a day)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Tool } from "effect/ai"
 * import { ToolContract, ToolSettings } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const Pay = Tool.make("pay", { needsApproval: true }).annotate(ToolSettings.Request, {
 *   deciders: ["finance"],
 *   expiresAfter: "1 day"
 * })
 *
 * const { request } = await Effect.runPromise(ToolContract.fromTool(Pay))
 * assert.deepStrictEqual(request, { deciders: ["finance"], expiresAfter: 86_400_000 })
 * ```
 *
 * @category approvals
 * @since 0.1.0
 */
export const Request = Context.Reference<RequestOptions>("effect-emissary/tool/ToolSettings/Request", {
  defaultValue: () => ({})
})

/**
 * True for a tool that is called again and again until its result changes, such as the status of a job: calls of it that repeat are
 * no loop, see `Agent.RepeatedCalls`. Default false.
 *
 * **Details**
 *
 * The annotation is part of the contract of the tool (`annotations.polls`), so it holds for agents that are data, too. A result that
 * differs from the last one needs no annotation.
 *
 * **Example** (A tool that polls)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Tool } from "effect/ai"
 * import { ToolContract, ToolSettings } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const JobStatus = Tool.make("job_status").annotate(ToolSettings.Polls, true)
 *
 * const contract = await Effect.runPromise(ToolContract.fromTool(JobStatus))
 * assert.deepStrictEqual(contract.annotations, { polls: true })
 * ```
 *
 * @category annotations
 * @since 0.1.0
 */
export const Polls = Context.Reference<boolean>("effect-emissary/tool/ToolSettings/Polls", {
  defaultValue: () => false
})
