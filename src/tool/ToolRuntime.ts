/**
 * The execution of tool calls: where they run, and how many of a batch at once.
 *
 * @since 0.1.0
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as callOptions from "../payload/internal/options.ts"
import type { ToolResult } from "./ToolResult.ts"
import * as toolCall from "./internal/toolCall.ts"

export {
  /**
   * The service that executes tool calls.
   *
   * @category models
   * @since 0.1.0
   */
  ToolRuntime,
  type BoundCall
} from "./internal/toolCall.ts"

const concurrencyAllowed = callOptions.or("unbounded", callOptions.wholeFrom(1))

/**
 * A runtime from a function that executes one call.
 *
 * **When to use**
 *
 * Use to send calls somewhere: to a queue, to a sandbox, to another service.
 *
 * **Details**
 *
 * A call has a body here (`Option.isSome(call.execute)`) if its tool has a handler or is an agent: the body does not
 * run unless `dispatch` returns `local`. Arguments are checked before `dispatch`, and results of calls without a body
 * after it.
 *
 * A local body ends by its own timeout. The timeout of a call without a body is enforced where the call is executed; a
 * `dispatch` that does not return ends as `timeout_error` after the timeout and the `margin`.
 *
 * **Example** (Calls that another process executes)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool } from "effect/ai"
 * import { Agent, AgentDefinition, ModelRegistry, ToolContract, ToolResolver, ToolResult, ToolRuntime } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const Greet = Tool.make("greet", {
 *   parameters: Schema.Struct({ name: Schema.String }),
 *   success: Schema.String
 * }).annotate(Tool.Readonly, true)
 *
 * const queue = ToolRuntime.layer({
 *   // here the call would be sent, and its result awaited
 *   dispatch: ({ arguments: args }) => Effect.succeed(ToolResult.success(`Hello ${args.name}`)),
 *   concurrency: 4
 * })
 *
 * const model = ScriptedModel.layer([
 *   { toolCalls: [{ name: "greet", params: { name: "Ada" } }] },
 *   { text: "Done.", expect: { toolResult: "Hello Ada" } }
 * ])
 *
 * const program = Effect.gen(function*() {
 *   const greet = yield* ToolContract.fromTool(Greet)
 *   const agent = yield* Agent.bind(yield* AgentDefinition.make({ tools: [greet] }))
 *   return yield* agent.ask("Greet Ada")
 * }).pipe(Effect.provide(Layer.mergeAll(ToolResolver.layerStubs(), queue, ModelRegistry.layer({}), model)))
 * assert.strictEqual(await Effect.runPromise(program), "Done.")
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: {
  /**
   * Receives every call, and `local`, the effect that executes the call here. Return `local` for a call that has a body
   * here. If `dispatch` dies, the result is an `unhandled_error`.
   */
  readonly dispatch: (call: toolCall.BoundCall, local: Effect.Effect<ToolResult>) => Effect.Effect<ToolResult>
  /** The number of calls of one answer that run at a time, a whole number from 1 on; default 1. */
  readonly concurrency?: number | "unbounded" | undefined
  /**
   * `false` for a runtime that cannot execute calls without a body: a run with tools without a body then refuses to
   * start; default `true`.
   */
  readonly stubs?: boolean | undefined
  /**
   * The time beyond the timeout of the tool after which a `dispatch` that does not return ends as `timeout_error`, from 0 on;
   * default 5 seconds.
   */
  readonly margin?: Duration.Input | undefined
}): Layer.Layer<never> => {
  const { concurrency = 1, margin = toolCall.defaultMargin, stubs = true } = options
  const dispatch = (call: toolCall.BoundCall) => options.dispatch(call, toolCall.local(call))
  const allowed = { concurrency: concurrencyAllowed, margin: callOptions.time }
  const runtime = () => ({
    dispatch: (call: toolCall.BoundCall) =>
      Option.isSome(call.execute)
        ? dispatch(call)
        : toolCall.dispatchWithTimeout(call, Duration.fromInputUnsafe(margin), dispatch),
    concurrency,
    stubs
  })
  return Layer.effect(
    toolCall.ToolRuntime,
    Effect.map(callOptions.check("ToolRuntime.layer", allowed, options), runtime)
  )
}

const layerLocal = (concurrency: number | "unbounded"): Layer.Layer<never> =>
  Layer.succeed(toolCall.ToolRuntime, { dispatch: toolCall.local, concurrency, stubs: false })

/**
 * Executes calls here, one after another. It is what you get without any layer.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerInline: Layer.Layer<never> = layerLocal(1)

/**
 * Executes calls here, several of a batch at once.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerConcurrent = (options?: {
  /** The number of calls of a batch that run at once, a whole number from 1 on; default 5. */
  readonly maxConcurrency?: number | "unbounded" | undefined
}): Layer.Layer<never> => {
  const allowed = { maxConcurrency: concurrencyAllowed }
  const checked = callOptions.check("ToolRuntime.layerConcurrent", allowed, options)
  return Layer.unwrap(Effect.as(checked, layerLocal(options?.maxConcurrency ?? 5)))
}

/**
 * Wraps every call of the runtime below: to log, measure, cache or deny it.
 *
 * **Details**
 *
 * `wrap` gets the call (with its contract, arguments and context) and the effect
 * that executes it. It may run that effect, change its result, or answer itself.
 *
 * The layer wraps the runtime that it is built upon. The wrapper nearest to the
 * program is the outermost: in the example `first` sees a call before `second`
 * does, and its result after.
 *
 * **Gotchas**
 *
 * Provide wrappers one after the other. Of several in one `Effect.provide([...])`
 * or `Layer.mergeAll` only one counts, because each replaces the runtime below.
 *
 * **Example** (Two wrappers)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent, ToolRuntime } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(Tool.make("now", { success: Schema.String }))
 * const handlers = toolkit.toLayer({ now: () => Effect.succeed("noon") })
 *
 * const seen: Array<string> = []
 * const log = (name: string) =>
 *   ToolRuntime.around((call, next) =>
 *     Effect.tap(Effect.andThen(Effect.sync(() => seen.push(`${name}: ${call.contract.name}`)), next), () =>
 *       Effect.sync(() => seen.push(`${name}: done`))
 *     )
 *   )
 *
 * const program = Agent.make("clock", { toolkit }).ask("What time is it?").pipe(
 *   Effect.provide(log("first")),
 *   Effect.provide(log("second")),
 *   Effect.provide(handlers),
 *   Effect.provide(ScriptedModel.layer([{ toolCalls: [{ name: "now" }] }, { text: "Noon." }]))
 * )
 *
 * await Effect.runPromise(program)
 * assert.deepStrictEqual(seen, ["first: now", "second: now", "second: done", "first: done"])
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const around = (
  wrap: (call: toolCall.BoundCall, next: Effect.Effect<ToolResult>) => Effect.Effect<ToolResult>
): Layer.Layer<never> =>
  // fresh, because layers are shared by reference and this one depends on what lies below it
  Layer.fresh(
    Layer.effect(
      toolCall.ToolRuntime,
      Effect.map(toolCall.ToolRuntime, (runtime) => ({
        ...runtime,
        dispatch: (call: toolCall.BoundCall) =>
          wrap(
            call,
            Effect.suspend(() => runtime.dispatch(call))
          )
      }))
    )
  )
