/**
 * Proves that a tool runtime keeps the rules that runs rely on.
 *
 * @since 0.1.0
 */

import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as RunContext from "../tool/RunContext.ts"
import * as ToolFailure from "../tool/ToolFailure.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as ToolRuntime from "../tool/ToolRuntime.ts"
import * as ToolSettings from "../tool/ToolSettings.ts"
import * as boundCall from "../tool/internal/boundCall.ts"
import * as boundTool from "../tool/internal/boundTool.ts"
import * as toolBatch from "../tool/internal/toolBatch.ts"

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
  readonly toolkit: Tools["toolkit"]
  readonly handlers: Tools["handlers"]
}

/**
 * How the suite treats the runtime.
 *
 * **Details**
 *
 * - `stubs`: the tools have no body here; the runtime executes them elsewhere,
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
  readonly stubs?: boolean | undefined
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
  allRules
    .filter((rule) => rule.name !== contextRule.name || options?.context !== false)
    .map((rule) => ({
      name: `${name}: ${rule.name}`,
      check: runRule(runtime, rule.check, options).pipe(
        Effect.catchCause((cause) =>
          Effect.fail(new ConformanceError({ runtime: name, check: rule.name, problem: problemOfCause(cause) }))
        )
      )
    }))

const problemOfCause = (cause: Cause.Cause<unknown>): string => {
  const fail = cause.reasons.find(Cause.isFailReason)
  return typeof fail?.error === "string" ? fail.error : Cause.pretty(cause)
}

const runRule = <E>(
  runtime: Layer.Layer<never, E> | ((fixture: Fixture) => Layer.Layer<never, E>),
  check: Rule["check"],
  options: Options | undefined
) => {
  const timeout = Duration.fromInputUnsafe(options?.timeout ?? "200 millis")
  const live = options?.clock === "live"
  const program = Effect.gen(function* () {
    const fixture = yield* makeTools(timeout)
    const bound = yield* bindTools(fixture, options?.stubs === true)
    const layer = typeof runtime === "function" ? runtime(fixture) : runtime
    const advance = live ? Effect.void : TestClock.adjust(timeout)
    yield* check({ fixture, bound, advance }).pipe(Effect.provide(layer))
  })
  return Effect.scoped(live ? program : Effect.provide(program, TestClock.layer()))
}

const NumberedResult = Schema.Struct({ n: Schema.Int })

const conformanceToolkit = (timeout: Duration.Input) => {
  const generous = "1 minute"
  return Toolkit.make(
    Tool.make("conformance_echo", {
      parameters: Schema.Struct({ n: Schema.Int, turns: Schema.Int }),
      success: NumberedResult
    }).annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_meet", { parameters: NumberedResult, success: NumberedResult }).annotate(
      ToolSettings.Timeout,
      generous
    ),
    Tool.make("conformance_fail", { failure: ToolFailure.ToolFailure }).annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_boom").annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_hang", { parameters: NumberedResult }).annotate(ToolSettings.Timeout, timeout),
    Tool.make("conformance_wait", { parameters: NumberedResult }).annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_defaults", {
      parameters: Schema.Struct({
        list: Schema.Array(Schema.Int),
        size: Schema.optionalKey(Schema.Int.annotate({ default: 10 }))
      }),
      success: Schema.Struct({ list: Schema.Array(Schema.Int), size: Schema.optionalKey(Schema.Int) })
    }).annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_context", { success: Schema.Json }).annotate(ToolSettings.Timeout, generous)
  )
}

class ConformanceDefect extends Error {
  override readonly name = "ConformanceDefect"
}

const makeTools = (timeout: Duration.Input) =>
  Effect.gen(function* () {
    const toolkit = conformanceToolkit(timeout)
    const probe = { running: 0, most: 0, met: 0, calls: new Array<string>() }
    const started = yield* Deferred.make<void>()
    const released = yield* Deferred.make<void>()
    const together = yield* Deferred.make<void>()

    const counted = <A, E>(effect: Effect.Effect<A, E>) =>
      Effect.suspend(() => {
        probe.running += 1
        probe.most = Math.max(probe.most, probe.running)
        return Effect.ensuring(
          effect,
          Effect.sync(() => {
            probe.running -= 1
          })
        )
      })

    const held = (n: number) =>
      Effect.suspend(() => {
        probe.calls.push(`started ${n}`)
        return Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
      }).pipe(Effect.onInterrupt(() => Deferred.succeed(released, undefined)))

    const handlers = toolkit.of({
      conformance_echo: ({ n, turns }) =>
        counted(
          Effect.gen(function* () {
            for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
            return { n }
          })
        ),
      conformance_meet: ({ n }) =>
        Effect.suspend(() => {
          probe.met += 1
          return Effect.as(probe.met < 2 ? Deferred.await(together) : Deferred.succeed(together, undefined), { n })
        }),
      conformance_fail: () => Effect.fail(ToolFailure.ToolFailure.error("no such thing", { type: "not_found" })),
      conformance_boom: () => Effect.die(new ConformanceDefect("boom")),
      conformance_hang: ({ n }) => held(n),
      conformance_wait: ({ n }) => held(n),
      conformance_defaults: (args) =>
        Effect.sync(() => {
          probe.calls.push("defaults")
          return args
        }),
      conformance_context: () => RunContext.RunContext
    })
    return { toolkit, handlers: toolkit.toLayer(handlers), probe, started, released }
  })

type Tools = Effect.Success<ReturnType<typeof makeTools>>

interface RuleInput {
  readonly fixture: Tools
  readonly bound: boundTool.ToolSet
  /** Lets the timeout of the hanging tool pass. */
  readonly advance: Effect.Effect<void>
}

interface Rule {
  readonly name: string
  readonly check: (given: RuleInput) => Effect.Effect<void, string>
}

const bindTools = (fixture: Tools, stubs: boolean) =>
  Effect.gen(function* () {
    const local = yield* boundTool.fromToolkit(fixture.toolkit).pipe(Effect.provide(fixture.handlers))
    return yield* boundTool.makeSet(
      stubs ? yield* Effect.forEach(local, (tool) => boundTool.makeStub(tool.contract)) : local
    )
  })

const show = (value: unknown): string => JSON.stringify(value)

const expect = (what: string, expected: unknown, found: unknown): Effect.Effect<void, string> =>
  Equal.equals(expected, found) ? Effect.void : Effect.fail(`${what}: expected ${show(expected)}, found ${show(found)}`)

const prepareCall = (bound: boundTool.ToolSet, id: string, name: string, args: Schema.Json) =>
  boundCall.prepare(
    bound,
    { id, name: `conformance_${name}`, arguments: args },
    { runId: "conformance", context: { tenant: "acme" } }
  )

const prepareCalls = (given: RuleInput, list: ReadonlyArray<readonly [name: string, args: Schema.Json]>) =>
  Effect.forEach(list, ([name, args], index) =>
    Effect.flatMap(prepareCall(given.bound, String(index), name, args), (result) =>
      Result.isSuccess(result) ? Effect.succeed(result.success) : Effect.fail(`not prepared: ${result.failure.message}`)
    )
  )

const resultKind = (result: ToolResult.ToolResult | undefined): string => {
  if (result === undefined) return "nothing"
  return result._tag === "Success" ? "success" : result.type
}

const successValue = (result: ToolResult.ToolResult | undefined) =>
  result?._tag === "Success" ? result.value : undefined

const orderRule: Rule = {
  name: "results come in call order, calls start in call order",
  check: Effect.fnUntraced(function* (given) {
    const numbers = [1, 2, 3, 4, 5, 6]
    const batch = yield* prepareCalls(
      given,
      numbers.map((n) => ["echo", { n, turns: 30 - 5 * n }] as const)
    )
    const started: Array<string> = []
    const results = yield* toolBatch.run(batch, { onStarted: (id) => Effect.sync(() => started.push(id)) })
    yield* expect(
      "results",
      numbers.map((n) => ({ n })),
      results.map(successValue)
    )
    yield* expect(
      "starts",
      numbers.map((n) => String(n - 1)),
      started
    )
  })
}

const concurrencyRule: Rule = {
  name: "no more calls run at once than it says, and two do if it says so",
  check: Effect.fnUntraced(function* (given) {
    const { concurrency } = yield* ToolRuntime.ToolRuntime
    const batch = yield* prepareCalls(
      given,
      [1, 2, 3, 4, 5, 6, 7, 8].map((n) => ["echo", { n, turns: 10 }] as const)
    )
    yield* toolBatch.run(batch)
    const { most } = given.fixture.probe
    if (concurrency !== "unbounded" && most > concurrency) {
      return yield* Effect.fail(`at most ${concurrency} calls may run at once, found ${most}`)
    }
    if (concurrency === 1) return
    const meeting = yield* prepareCalls(given, [
      ["meet", { n: 1 }],
      ["meet", { n: 2 }]
    ])
    yield* expect(
      "two calls that wait for each other",
      [{ n: 1 }, { n: 2 }],
      (yield* toolBatch.run(meeting)).map(successValue)
    )
  })
}

const settlingRule: Rule = {
  name: "a failure or a defect of one call loses no other result",
  check: Effect.fnUntraced(function* (given) {
    const batch = yield* prepareCalls(given, [
      ["echo", { n: 1, turns: 20 }],
      ["fail", {}],
      ["boom", {}],
      ["echo", { n: 2, turns: 1 }]
    ])
    const results = yield* toolBatch.run(batch)
    yield* expect("results", ["success", "not_found", "unhandled_error", "success"], results.map(resultKind))
    const failure = results[1]
    yield* expect("the typed failure", "no such thing", failure === undefined ? "" : ToolResult.text(failure))
  })
}

const timeoutRule: Rule = {
  name: "a call that takes too long is a timeout_error, its handler is interrupted, its siblings are not",
  check: Effect.fnUntraced(function* (given) {
    const batch = yield* prepareCalls(given, [
      ["echo", { n: 1, turns: 1 }],
      ["hang", { n: 2 }],
      ["echo", { n: 3, turns: 1 }]
    ])
    const fiber = yield* Effect.forkChild(toolBatch.run(batch))
    yield* Deferred.await(given.fixture.started)
    yield* given.advance
    const results = yield* Fiber.join(fiber)
    yield* expect("results", ["success", "timeout_error", "success"], results.map(resultKind))
    const late = results[1]
    if (late === undefined || !ToolResult.text(late).includes("timed out")) {
      return yield* Effect.fail(`the message must say that it timed out, found ${show(late)}`)
    }
    yield* Deferred.await(given.fixture.released)
  })
}

const interruptionRule: Rule = {
  name: "interrupting the batch interrupts every handler; what ended keeps its result, what never started has none",
  check: Effect.fnUntraced(function* (given) {
    const { concurrency } = yield* ToolRuntime.ToolRuntime
    const batch = yield* prepareCalls(given, [
      ["echo", { n: 1, turns: 0 }],
      ["wait", { n: 2 }],
      ["wait", { n: 3 }]
    ])
    const started = new Set<string>()
    const finished = new Map<string, ToolResult.ToolResult>()
    const running = yield* Deferred.make<void>()
    const first = yield* Deferred.make<void>()
    const fiber = yield* Effect.forkChild(
      toolBatch.run(batch, {
        onStarted: (id) => {
          started.add(id)
          const all = started.size === Math.min(3, concurrency === "unbounded" || concurrency > 1 ? 3 : 2)
          return all ? Deferred.succeed(running, undefined) : Effect.void
        },
        onFinished: (id, result) => {
          finished.set(id, result)
          return id === "0" ? Deferred.succeed(first, undefined) : Effect.void
        }
      })
    )
    yield* Deferred.await(first)
    yield* Deferred.await(running)
    yield* Deferred.await(given.fixture.started)
    yield* Fiber.interrupt(fiber)
    yield* Deferred.await(given.fixture.released)
    yield* expect("the call that had ended", "success", resultKind(finished.get("0")))
    for (const id of ["1", "2"]) {
      yield* expect(`call ${id}`, started.has(id) ? "interrupted" : "nothing", resultKind(finished.get(id)))
    }
  })
}

const validationRule: Rule = {
  name: "arguments that do not fit reach no handler, and those that do arrive as they were checked",
  check: Effect.fnUntraced(function* (given) {
    const wrong = yield* prepareCall(given.bound, "0", "defaults", { list: "no", size: "large" })
    yield* expect("wrong arguments", "validation_error", Result.isFailure(wrong) ? wrong.failure.type : "success")
    yield* expect("handlers that ran", [], given.fixture.probe.calls)
    const batch = yield* prepareCalls(given, [["defaults", `{"list":"[1,2]"}`]])
    yield* expect("arguments", [{ list: [1, 2], size: 10 }], (yield* toolBatch.run(batch)).map(successValue))
  })
}

const contextRule: Rule = {
  name: "handlers see the context of the run",
  check: Effect.fnUntraced(function* (given) {
    const results = yield* toolBatch.run(yield* prepareCalls(given, [["context", {}]]))
    yield* expect("context", [{ tenant: "acme" }], results.map(successValue))
  })
}

const allRules: ReadonlyArray<Rule> = [
  orderRule,
  concurrencyRule,
  settlingRule,
  timeoutRule,
  interruptionRule,
  validationRule,
  contextRule
]
