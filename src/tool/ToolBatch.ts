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
 * Executes the calls through the tool runtime.
 *
 * @category execution
 * @since 0.1.0
 */
export const run: <E = never, R = never>(
  calls: ReadonlyArray<BoundCall>,
  options?: Options<E, R>
) => Effect.Effect<void, E, R> = internal.run

/**
 * Executes the calls and returns their results in call order.
 *
 * @category execution
 * @since 0.1.0
 */
export const collect: <E = never, R = never>(
  calls: ReadonlyArray<BoundCall>,
  options?: Options<E, R>
) => Effect.Effect<ReadonlyArray<ToolResult>, E, R> = internal.collect
