/**
 * Proves that a tool runtime keeps the rules that runs rely on.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as checks from "./internal/conformance/checks.ts"
import * as tools from "./internal/conformance/tools.ts"

/**
 * A tool runtime breaks a rule.
 *
 * @category errors
 * @since 0.1.0
 */
export class ConformanceError extends Schema.TaggedError<ConformanceError>("effect-emissary/testing/ConformanceError")(
  "ConformanceError",
  {
    runtime: Schema.String,
    check: Schema.String,
    problem: Schema.String
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${this.runtime}: ${this.check}: ${this.problem}`
  }
}

/**
 * One rule, as an effect that fails when the runtime breaks it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Check {
  readonly name: string
  readonly check: Effect.Effect<void, ConformanceError>
}

/**
 * The tools of the suite and their handlers, for a runtime that executes calls in
 * another place: put them there.
 *
 * @category models
 * @since 0.1.0
 */
export interface Fixture {
  readonly toolkit: tools.Tools["toolkit"]
  readonly handlers: tools.Tools["handlers"]
}

/**
 * How the suite treats the runtime.
 *
 * **Details**
 *
 * - `shells`: the tools have no body here; the runtime executes them elsewhere,
 *   with the handlers of the {@link Fixture}. Default `false`.
 * - `clock`: `"virtual"` (default) moves a test clock; `"live"` waits, for
 *   runtimes that use sockets or processes.
 * - `timeout`: of the tool that never ends. Default 200 milliseconds.
 * - `context`: whether the context of the run reaches handlers unchanged. Default
 *   `true`; say `false` for a runtime that replaces it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly shells?: boolean | undefined
  readonly clock?: "virtual" | "live" | undefined
  readonly timeout?: Duration.Input | undefined
  readonly context?: boolean | undefined
}

/**
 * The checks for a runtime: order, concurrency, settling, timeouts, interruption,
 * validation, context.
 *
 * **When to use**
 *
 * Use in the tests of a runtime of your own. The suite knows no test framework:
 * register each check as a test, or run them one after another.
 *
 * **Details**
 *
 * A runtime that executes calls elsewhere is given as a function, which gets the
 * tools and handlers to put there.
 *
 * **Example** (Checking a runtime)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ToolRuntime } from "effect-emissary"
 * import { ToolRuntimeConformance } from "effect-emissary/testing"
 *
 * const checks = ToolRuntimeConformance.suite("concurrent", ToolRuntime.layerConcurrent({ maxConcurrency: 2 }))
 *
 * // with @effect/vitest: for (const { name, check } of checks) it.effect(name, () => check)
 * await Effect.runPromise(Effect.forEach(checks, ({ check }) => check, { discard: true }))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const suite = <E = never>(
  name: string,
  runtime: Layer.Layer<never, E> | ((fixture: Fixture) => Layer.Layer<never, E>),
  options?: Options
): ReadonlyArray<Check> =>
  checks.all
    .filter((rule) => rule.name !== checks.context.name || options?.context !== false)
    .map((rule) => ({
      name: `${name}: ${rule.name}`,
      check: run(runtime, rule.check, options).pipe(
        Effect.catchCause((cause) =>
          Effect.fail(new ConformanceError({ runtime: name, check: rule.name, problem: problemOf(cause) }))
        )
      )
    }))

const problemOf = (cause: Cause.Cause<unknown>): string => {
  const fail = cause.reasons.find(Cause.isFailReason)
  return typeof fail?.error === "string" ? fail.error : Cause.pretty(cause)
}

const run = <E>(
  runtime: Layer.Layer<never, E> | ((fixture: Fixture) => Layer.Layer<never, E>),
  check: checks.Rule["check"],
  options: Options | undefined
) => {
  const timeout = Duration.fromInputUnsafe(options?.timeout ?? "200 millis")
  const live = options?.clock === "live"
  const program = Effect.gen(function* () {
    const fixture = yield* tools.make(timeout)
    const bound = yield* checks.bind(fixture, options?.shells === true)
    const layer = typeof runtime === "function" ? runtime(fixture) : runtime
    const advance = live ? Effect.void : TestClock.adjust(timeout)
    yield* check({ fixture, bound, advance }).pipe(Effect.provide(layer))
  })
  return Effect.scoped(live ? program : Effect.provide(program, TestClock.layer()))
}
