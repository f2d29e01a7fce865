/**
 * Executes the tool calls of one model answer.
 *
 * @since 0.1.0
 */
import type * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { BoundCall } from "./BoundCall.ts"
import * as internal from "./internal/toolBatch.ts"
import type { ToolResult } from "./ToolResult.ts"

/**
 * What happens while a batch runs.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options<E = never, R = never> {
  readonly onStarted?: ((callId: string) => Effect.Effect<void, E, R>) | undefined
  readonly onFinished?:
    | ((
        callId: string,
        result: ToolResult,
        duration: Duration.Duration,
        cause: Cause.Cause<unknown> | undefined
      ) => Effect.Effect<void, E, R>)
    | undefined
  /**
   * With `"die"` the defect of a handler is raised again after all calls of the
   * batch have ended. Default `"result"`.
   */
  readonly defects?: "result" | "die" | undefined
}

/**
 * Executes the calls through the tool runtime in use.
 *
 * **Details**
 *
 * Calls start in call order, as many at once as the runtime allows. `onStarted`
 * and `onFinished` run the moment a call starts and ends, and are not cut off by
 * an interruption. One call's failure, timeout or defect loses no other's result.
 *
 * Interrupting the batch interrupts every handler and waits for its finalizers.
 * A call that had started then ends with an `interrupted` failure; one that never
 * started is not mentioned at all.
 *
 * `cause` is what lies behind a failure that nobody foresaw, or whose text must
 * not leave the process. Each call has a span `execute_tool <name>`, without its
 * arguments.
 *
 * @category execution
 * @since 0.1.0
 */
export const run: <E = never, R = never>(
  calls: ReadonlyArray<BoundCall>,
  options?: Options<E, R>
) => Effect.Effect<void, E, R> = internal.run

/**
 * Like {@link run}, and returns the results in call order.
 *
 * **Example** (Three calls, one of which fails)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { BoundCall, BoundTool, ToolBatch, ToolFailure, ToolResult, ToolRuntime, ToolSet } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("half", { parameters: Schema.Struct({ n: Schema.Int }), success: Schema.Int, failure: ToolFailure })
 * )
 * const handlers = toolkit.toLayer({
 *   half: ({ n }) => (n % 2 === 0 ? Effect.succeed(n / 2) : Effect.fail(ToolFailure.error(`${n} is odd`)))
 * })
 *
 * const program = Effect.gen(function* () {
 *   const tools = yield* ToolSet.make(yield* BoundTool.fromToolkit(toolkit))
 *   const calls = yield* Effect.forEach([2, 3, 4], (n) =>
 *     BoundCall.prepare(tools, { id: `${n}`, name: "half", arguments: { n } }, { runId: "run" }).pipe(
 *       Effect.flatMap(Effect.fromResult)
 *     )
 *   )
 *   return yield* ToolBatch.collect(calls)
 * }).pipe(Effect.provide(ToolRuntime.layerConcurrent({ maxConcurrency: 2 })), Effect.provide(handlers))
 *
 * const results = await Effect.runPromise(program)
 * assert.deepStrictEqual(results.map(ToolResult.text), ["1", "3 is odd", "2"])
 * ```
 *
 * @category execution
 * @since 0.1.0
 */
export const collect: <E = never, R = never>(
  calls: ReadonlyArray<BoundCall>,
  options?: Options<E, R>
) => Effect.Effect<ReadonlyArray<ToolResult>, E, R> = internal.collect
