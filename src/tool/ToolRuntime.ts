/**
 * Says how a tool call is executed, and how many of a batch run at once.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { BoundCall } from "./BoundCall.ts"
import type { BoundTool } from "./BoundTool.ts"
import * as ToolResult from "./ToolResult.ts"

/**
 * The service that executes tool calls.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolRuntime {
  /**
   * Executes one call.
   */
  readonly dispatch: (call: BoundCall) => Effect.Effect<ToolResult.ToolResult>
  /**
   * How many calls of one batch run at once. A limit per batch, never per
   * process.
   */
  readonly concurrency: number | "unbounded"
  /**
   * Whether it can execute calls that have no body here.
   */
  readonly shells: boolean
}

const local = (call: BoundCall): Effect.Effect<ToolResult.ToolResult> =>
  Option.getOrElse(call.execute, () =>
    Effect.succeed(ToolResult.failure("unhandled_error", `Tool ${JSON.stringify(call.contract.name)} has no body here`))
  )

const inline: ToolRuntime = { dispatch: local, concurrency: 1, shells: false }

/**
 * The tool runtime in use. Without any layer calls run here, one after another.
 *
 * @category services
 * @since 0.1.0
 */
export const ToolRuntime = Context.Reference<ToolRuntime>("effect-emissary/tool/ToolRuntime", {
  defaultValue: () => inline
})

/**
 * Makes a runtime from a dispatch function.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: {
  readonly dispatch: (call: BoundCall) => Effect.Effect<ToolResult.ToolResult>
  readonly concurrency?: number | "unbounded" | undefined
  readonly shells?: boolean | undefined
  readonly margin?: Duration.Input | undefined
}): ToolRuntime => ({
  dispatch: options.dispatch,
  concurrency: options.concurrency ?? 1,
  shells: options.shells ?? true
})

/**
 * Provides a runtime.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (runtime: ToolRuntime): Layer.Layer<never> => Layer.succeed(ToolRuntime, runtime)

/**
 * Executes calls here, one after another. It is what you get without any layer.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerInline: Layer.Layer<never> = layer(inline)

/**
 * Executes calls here, `maxConcurrency` of a batch at once (default 5).
 *
 * @category layers
 * @since 0.1.0
 */
export const layerConcurrent = (options?: {
  readonly maxConcurrency?: number | "unbounded" | undefined
}): Layer.Layer<never> => layer({ ...inline, concurrency: options?.maxConcurrency ?? 5 })

/**
 * Wraps every call of the runtime below.
 *
 * @category layers
 * @since 0.1.0
 */
export const around = (
  wrap: (call: BoundCall, next: Effect.Effect<ToolResult.ToolResult>) => Effect.Effect<ToolResult.ToolResult>
): Layer.Layer<never> =>
  Layer.fresh(
    Layer.effect(
      ToolRuntime,
      Effect.map(ToolRuntime, (runtime) => ({
        ...runtime,
        dispatch: (call: BoundCall) => wrap(call, runtime.dispatch(call))
      }))
    )
  )

/**
 * Whether the runtime can execute the tool.
 *
 * @category guards
 * @since 0.1.0
 */
export const supports = (runtime: ToolRuntime, tool: BoundTool): boolean => tool.kind !== "shell" || runtime.shells
