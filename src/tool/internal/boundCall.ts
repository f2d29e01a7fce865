/**
 * One call of a tool: arguments checked, tool looked up, and execution bounded by timeout and deadline.
 */

import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as base from "../../payload/internal/base.ts"
import type { ToolContract } from "../ToolContract.ts"
import * as ToolResult from "../ToolResult.ts"
import * as boundTool from "./boundTool.ts"

/**
 * One checked call.
 *
 * **Details**
 *
 * `execute` is the local body with the timeout inside; it never fails, and a
 * defect of the handler is an `unhandled_error` result. It is absent for a stub,
 * and `runtimeOnly` is then true. `deadline`, in milliseconds since the epoch, is
 * when the call has to be over: a moment after the run itself stops waiting.
 */
export interface BoundCall {
  readonly runId: string
  readonly id: string
  readonly contract: ToolContract
  readonly arguments: Json.JsonObject
  readonly context: Json.JsonObject
  readonly timeout: Duration.Duration
  readonly deadline: number | undefined
  readonly result: JsonSchema.JsonSchema | undefined
  readonly execute: Option.Option<Effect.Effect<ToolResult.ToolResult>>
  readonly runtimeOnly: boolean
}

/**
 * A call as the model made it: `name` is the canonical name of the tool,
 * `arguments` JSON or JSON text.
 */
export interface CallRequest {
  readonly id: string
  readonly name: string
  readonly arguments: Schema.Json
}

/**
 * The facts that the run adds to the call.
 *
 * **Details**
 *
 * `timeout` overrides the timeout of the tool. `deadline`, in milliseconds since
 * the epoch, shortens it.
 */
export interface PrepareOptions {
  readonly runId: string
  readonly context?: Json.JsonObject | undefined
  readonly timeout?: Duration.Input | undefined
  readonly deadline?: number | undefined
  readonly progress?: ((result: ToolResult.Success) => Effect.Effect<void>) | undefined
}

/**
 * Finds the tool and checks the arguments, before anything runs.
 *
 * **Details**
 *
 * The failures are results for the model: `unknown_tool` lists the known names,
 * `validation_error` all problems with their paths. Empty text counts as `{}`.
 */
export const prepare = (
  set: boundTool.ToolSet,
  request: CallRequest,
  options: PrepareOptions
): Effect.Effect<Result.Result<BoundCall, ToolResult.Failure>> => {
  const tool = set.tools.get(request.name)
  if (tool === undefined)
    return Effect.succeed(Result.fail(unknownToolFailure(request.name, Array.from(set.tools.keys()))))
  if (tool.kind === "provider") return Effect.succeed(Result.fail(providerToolFailure(request.name)))
  return Effect.map(
    Effect.result(checkArguments(tool, request.arguments)),
    Result.map((checked) => bindCall(tool, request.id, checked, options))
  )
}

const bindCall = (
  tool: boundTool.BoundTool,
  id: string,
  checked: Json.JsonObject,
  options: PrepareOptions
): BoundCall => {
  const { deadline, runId } = options
  const context = options.context ?? {}
  const timeout = options.timeout === undefined ? tool.contract.timeout : Duration.fromInputUnsafe(options.timeout)
  const call = { runId, callId: id, context, deadline, progress: options.progress ?? ignoreProgress }
  return {
    runId,
    id,
    contract: tool.contract,
    arguments: checked,
    context,
    timeout,
    deadline,
    result: tool.result,
    execute: Option.map(tool.body, (body) =>
      executeBody(tool.contract.name, { timeout, deadline }, () => body(checked, call))
    ),
    runtimeOnly: Option.isNone(tool.body)
  }
}

const ignoreProgress = () => Effect.void

const unknownToolFailure = (name: string, known: ReadonlyArray<string>) =>
  ToolResult.failure(
    "unknown_tool",
    known.length === 0
      ? `Unknown tool ${base.quote(name)}. There are no tools.`
      : `Unknown tool ${base.quote(name)}. Known tools: ${known.join(", ")}.`
  )

const providerToolFailure = (name: string) =>
  ToolResult.failure(
    "unknown_tool",
    `Tool ${JSON.stringify(name)} is executed by the model provider and cannot be called here.`
  )

const argumentsOptions = { what: "tool arguments" }

const parseArguments = (value: Schema.Json): Effect.Effect<Schema.Json, PayloadError.PayloadError> => {
  if (typeof value === "string") return value.trim() === "" ? Effect.succeed({}) : Json.parse(value, argumentsOptions)
  return Json.check(value, argumentsOptions)
}

const checkArguments = (
  tool: boundTool.BoundTool,
  value: Schema.Json
): Effect.Effect<Json.JsonObject, ToolResult.Failure> => {
  const { name } = tool.contract
  return parseArguments(value).pipe(
    Effect.mapError((error) => boundTool.invalidArguments(name, error.message)),
    // models write `null` for no arguments
    Effect.map((json) => json ?? {}),
    Effect.flatMap((json) => {
      if (!Json.isObject(json))
        return Effect.fail(boundTool.invalidArguments(name, `expected a JSON object, got ${base.kindOf(json)}`))
      const checked = JsonSchema.validate(tool.parameters, json, {
        strict: tool.contract.annotations.strict === true,
        coerce: true
      })
      if (Result.isFailure(checked))
        return Effect.fail(boundTool.invalidArguments(name, PayloadError.render("", checked.failure)))
      // the interpreter returns an object for an object
      return Json.isObject(checked.success) ? Effect.succeed(checked.success) : Effect.succeed(json)
    })
  )
}

/** The result of a call that took too long, the same wherever the clock ran. */
export const timeoutFailure = (timeout: Duration.Duration): ToolResult.Failure => {
  const seconds = Duration.toSeconds(timeout)
  return ToolResult.failure(
    "timeout_error",
    `Tool execution timed out after ${seconds} ${seconds === 1 ? "second" : "seconds"}`
  )
}

/** A handler or a runtime failed unexpectedly. */
export const unhandledFailure = (name: string, cause: Cause.Cause<unknown>): Effect.Effect<ToolResult.Failure> =>
  Effect.logError(`Tool ${JSON.stringify(name)} failed unexpectedly`, cause).pipe(
    Effect.andThen(boundTool.reportCause(cause)),
    Effect.as(ToolResult.failure("unhandled_error", `Error executing tool: ${boundTool.describeCause(cause)}`))
  )

/** The time a call may take: its timeout, cut short by the deadline of the run. */
export const remainingTime = ({
  deadline,
  timeout
}: Pick<BoundCall, "timeout" | "deadline">): Effect.Effect<Duration.Duration> =>
  deadline === undefined
    ? Effect.succeed(timeout)
    : Effect.map(Clock.currentTimeMillis, (now) => Duration.min(timeout, Duration.millis(Math.max(0, deadline - now))))

/** Interrupts the fiber when its time is over, and remembers that it did. */
const interruptAfter = (fiber: Fiber.Fiber<unknown, unknown>, duration: Duration.Duration, onTimeout: () => void) =>
  Effect.sleep(duration).pipe(
    Effect.andThen(
      Effect.suspend(() => {
        if (fiber.pollUnsafe() === undefined) onTimeout()
        return Fiber.interrupt(fiber)
      })
    )
  )

/**
 * The exit of an effect that runs in a fiber of its own, so that neither its
 * timeout nor its own interruption reaches its parent. A fiber that resists
 * interruption is waited for, and has timed out nevertheless.
 */
const runWithTimeout = <A>(
  effect: Effect.Effect<A>,
  duration: Duration.Duration
): Effect.Effect<Exit.Exit<A> | "timeout"> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
      const done = fiber.pollUnsafe()
      if (done !== undefined) return done
      let late = false
      const timer = Duration.isFinite(duration)
        ? yield* Effect.forkChild(
            interruptAfter(fiber, duration, () => {
              late = true
            }),
            { startImmediately: true }
          )
        : undefined
      const exit = yield* restore(Fiber.await(fiber)).pipe(
        Effect.onInterrupt(() => Fiber.interrupt(fiber)),
        Effect.ensuring(timer === undefined ? Effect.void : Fiber.interrupt(timer))
      )
      return late ? "timeout" : exit
    })
  )

const executeBody = (
  name: string,
  limits: Pick<BoundCall, "timeout" | "deadline">,
  body: () => Effect.Effect<ToolResult.ToolResult>
): Effect.Effect<ToolResult.ToolResult> =>
  Effect.gen(function* () {
    yield* boundTool.reportCause(undefined)
    const duration = yield* remainingTime(limits)
    // the caller has given up: a handler must not act now, not even one that would finish at once
    if (Duration.isZero(duration)) return timeoutFailure(duration)
    const exit = yield* runWithTimeout(Effect.suspend(body), duration)
    if (exit === "timeout") return timeoutFailure(duration)
    return Exit.isSuccess(exit) ? exit.value : yield* unhandledFailure(name, exit.cause)
  })

/** The time that a caller waits beyond the timeout, which the other side enforces. */
export const defaultMargin: Duration.Input = "5 seconds"

/** Executes a call elsewhere, and stops waiting some time after its owner should have given up. */
export const dispatchWithTimeout = (
  call: BoundCall,
  margin: Duration.Duration,
  dispatch: (call: BoundCall) => Effect.Effect<ToolResult.ToolResult>
): Effect.Effect<ToolResult.ToolResult> =>
  Effect.gen(function* () {
    const duration = yield* remainingTime(call)
    const exit = yield* runWithTimeout(
      Effect.suspend(() => dispatch(call)),
      Duration.sum(duration, margin)
    )
    return exit === "timeout" ? timeoutFailure(duration) : yield* exit
  })
