/**
 * Settings of a tool that `effect/ai` has no annotation for.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import { dual } from "effect/Function"
import type * as Tool from "effect/ai/Tool"

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
