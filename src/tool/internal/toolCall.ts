/**
 * Calls of tools under way: bounded in time, with a span each, run one by one or as a batch through the tool runtime.
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { constUndefined, identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as References from "effect/References"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Tracer from "effect/Tracer"
import type * as Types from "effect/Types"
import type * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import { copyJson } from "../../payload/internal/copyJson.ts"
import * as jsonLimits from "../../payload/internal/limits.ts"
import { writeText } from "../../payload/internal/textScanner.ts"
import { weigh, wellFormedness } from "../../payload/internal/weigh.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { RunContextError } from "../RunContext.ts"
import type * as ToolContract from "../ToolContract.ts"
import * as ToolResult from "../ToolResult.ts"
import * as callContext from "./callContext.ts"
import * as telemetry from "./telemetry.ts"

/**
 * The service that executes tool calls.
 */
export interface ToolRuntime {
  /**
   * Executes one call.
   */
  readonly dispatch: (call: BoundCall) => Effect.Effect<ToolResult.ToolResult>
  /**
   * The number of calls of one batch that run at once. It is a limit per batch, never per
   * process: an agent that is a tool of another agent would wait for itself.
   */
  readonly concurrency: number | "unbounded"
  /**
   * No layer has set the runtime, so the `concurrency` of an agent is no more than its runtime allows.
   */
  readonly isDefault?: true
  /**
   * It can execute calls that have no body here.
   */
  readonly stubs: boolean
}

/** Executes a call with its local body. */
export const local = (call: BoundCall): Effect.Effect<ToolResult.ToolResult> =>
  Option.getOrElse(call.execute, () =>
    Effect.succeed(
      ToolResult.failure(
        "unhandled_error",
        `Tool ${JSON.stringify(call.contract.name)} has no body here, and the tool runtime in use executes calls here only`
      )
    )
  )

/**
 * The tool runtime in use. Without any layer calls run here, one after another.
 */
export const ToolRuntime = Context.Reference<ToolRuntime>(callContext.keys.toolRuntime, {
  defaultValue: () => ({ dispatch: local, concurrency: 1, isDefault: true, stubs: false })
})

/**
 * Performs each call around the dispatch of whatever runtime is in use: a durable program finds the results that it has
 * stored. Unlike a wrapper of the runtime it stays where another runtime is provided.
 */
export const Performance = Context.Reference<
  ((call: BoundCall, dispatch: ToolRuntime["dispatch"]) => Effect.Effect<ToolResult.ToolResult>) | undefined
>(callContext.keys.performance, { defaultValue: () => undefined })

/**
 * Runs right before each call of a model, a tool or the function of a step: a session makes sure there that no other process has taken
 * the run.
 */
export const BeforeCall = Context.Reference<Effect.Effect<void> | undefined>("~effect-emissary/tool/BeforeCall", {
  defaultValue: () => undefined
})

/** The effect, behind the check of the session around. */
export const afterCheck = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const before = Context.get(context, BeforeCall)
    return before === undefined ? effect : Effect.andThen(before, effect)
  })

const runtimeIn = (context: Context.Context<never>): ToolRuntime => {
  const runtime = Context.get(context, ToolRuntime)
  const perform = Context.get(context, Performance)
  return perform === undefined ? runtime : { ...runtime, dispatch: (call) => perform(call, runtime.dispatch) }
}

/** A call of a batch while it is executed. */
export class CallUnderWay {
  readonly call: BoundCall
  /** Without a tracer a call has none: a span goes nowhere, and a context with another span costs much. */
  readonly span: Tracer.Span | undefined
  /** The context of the batch. */
  readonly around: Context.Context<never>
  /** Why the newest attempt failed unexpectedly. */
  cause: Cause.Cause<unknown> | undefined
  /** The result of the newest attempt that ran here. */
  result: ToolResult.ToolResult | undefined
  private entered: Context.Context<never> | undefined

  constructor(call: BoundCall, span: Tracer.Span | undefined, around: Context.Context<never>) {
    this.call = call
    this.span = span
    this.around = around
  }

  /** The context of the batch with this call in it. */
  get context(): Context.Context<never> {
    return (this.entered ??= this.enter(this.around))
  }

  enter(context: Context.Context<never>): Context.Context<never> {
    const { span } = this
    const entered = Context.add(context, CurrentCall, this)
    if (span === undefined) return entered
    const parent = Context.get(context, References.CurrentStackFrame)
    const frame = { name: span.name, stack: constUndefined, parent }
    return Context.add(Context.add(entered, References.CurrentStackFrame, frame), Tracer.ParentSpan, span)
  }
}

/** The call that is being executed; `undefined` outside of a batch. */
export const CurrentCall = Context.Reference<CallUnderWay | undefined>(callContext.keys.currentCall, {
  defaultValue: () => undefined
})

const className = (error: Error): string => {
  const own = error.constructor.name
  return own === "" || own === "Error" ? error.name : own
}

const readDefect = (defect: unknown): string => {
  if (defect instanceof Error) return `${className(defect)}: ${defect.message}`
  return typeof defect === "object" || typeof defect === "function" ? "something that is not an Error" : String(defect)
}

/** A reading of whatever was thrown, even of an object whose members throw. */
const readSafely = (read: (defect: unknown) => string) => (defect: unknown) =>
  Result.getOrElse(
    Result.try(() => read(defect)),
    () => "an error that cannot be described"
  )

/** `<Class>: <message>`. */
const describeDefect = readSafely(readDefect)

/** The class of a defect, without its text. */
export const defectName = readSafely((defect) =>
  defect instanceof Error ? className(defect) : "something that is not an Error"
)

const quietKey = Symbol()

const withoutDefects = <E>(cause: Cause.Cause<E>): Cause.Cause<E> =>
  Cause.fromReasons(
    cause.reasons.map((reason) => {
      if (!Cause.isDieReason(reason)) return reason
      const quiet = new Error("a defect, whose text is not on spans")
      quiet.name = defectName(reason.defect)
      return Cause.makeDieReason(quiet)
    })
  )

/**
 * The same span object, so that exporters recognize it. Its `end` strips the text of defects, which exporters print,
 * and maps errors with `errorOf`.
 */
export const quietSpan = (span: Tracer.Span, errorOf: (error: unknown) => unknown = (error) => error): Tracer.Span => {
  if (quietKey in span) return span
  const { end, event } = span
  const quiet: Types.Mutable<Tracer.Span> & { [quietKey]?: true } = span
  quiet[quietKey] = true
  // A line of the log is an event of the span, too, with its cause
  quiet.event = (name, time, { "effect.cause": _, ...attributes } = {}) => event.call(span, name, time, attributes)
  quiet.end = (time, exit) => {
    const shown = Exit.isSuccess(exit) ? exit : Exit.failCause(Cause.map(withoutDefects(exit.cause), errorOf))
    end.call(span, time, shown)
  }
  return span
}

/** `Effect.withSpan` with a {@link quietSpan}. */
export const withQuietSpan =
  (name: string, attributes: Record<string, unknown>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>> =>
    Effect.useSpan(name, { attributes }, (span) =>
      Effect.withParentSpan(effect, quietSpan(span), { captureStackTrace: false })
    )

/** `<Class>: <message>` of the first defect of a cause; interruption from inside has no class. */
const describeCause = (cause: Cause.Cause<unknown>): string => {
  const die = cause.reasons.find(Cause.isDieReason)
  if (die !== undefined) return describeDefect(die.defect)
  const fail = cause.reasons.find(Cause.isFailReason)
  return fail === undefined ? "it interrupted itself" : describeDefect(fail.error)
}

/**
 * The facts about a call that its body receives.
 */
export interface CallContext {
  readonly runId: string
  readonly callId: string
  readonly context: Json.JsonObject
  /**
   * When the run stops waiting, in milliseconds since the epoch.
   */
  readonly deadline?: number | undefined
  /**
   * Takes the preliminary results of a long call. They are shown, never stored.
   */
  readonly progress: (result: ToolResult.Success) => Effect.Effect<void>
}

/**
 * Executes one call whose arguments fit the contract's parameters.
 *
 * **Details**
 *
 * It neither limits time nor catches defects; a `BoundCall` does both. A body with `services` is `run` with those, made from
 * the services of the call: a fiber of its own can begin with them.
 */
export interface Body {
  (args: Json.JsonObject, call: CallContext): Effect.Effect<ToolResult.ToolResult>
  readonly run?: (args: Json.JsonObject, call: CallContext) => Effect.Effect<ToolResult.ToolResult>
  readonly services?: Services
}

/** The context that code runs with. With `call` the context belongs to a batch, and the call is added to it. */
export type Services = (
  context: Context.Context<never>,
  runContext: Json.JsonObject,
  call?: CallUnderWay
) => Context.Context<never>

/**
 * One checked call.
 *
 * **Details**
 *
 * `execute` is the local body with the timeout inside; it never fails, and a
 * defect of the handler is an `unhandled_error` result. It is absent for a stub.
 * `deadline`, in milliseconds since the epoch, is
 * when the call has to be over: a moment after the run itself stops waiting.
 * `delegates` is true where the body is the run of an agent, with calls of its own.
 */
export interface BoundCall {
  readonly runId: string
  readonly id: string
  readonly contract: ToolContract.ToolContract
  readonly arguments: Json.JsonObject
  readonly context: Json.JsonObject
  readonly timeout: Duration.Duration
  readonly deadline: number | undefined
  readonly result: JsonSchema.JsonSchema | undefined
  readonly execute: Option.Option<Effect.Effect<ToolResult.ToolResult>>
  readonly delegates?: boolean | undefined
}

/** The result of a call that took too long, the same wherever the clock ran. */
export const timeoutFailure = (timeout: Duration.Duration): ToolResult.Failure => {
  const seconds = Duration.toSeconds(timeout)
  return ToolResult.failure(
    "timeout_error",
    `Tool execution timed out after ${seconds} ${seconds === 1 ? "second" : "seconds"}`
  )
}

/** All that a model and a stored conversation learn of a defect, in whatever process it happened. */
const unexpectedFailure = ToolResult.failure(
  "unhandled_error",
  "The tool failed unexpectedly. The log has the details."
)

/** The context of a run that a handler could not read, where it made that a defect. Its text has no values. */
export const contextErrorIn = (cause: Cause.Cause<unknown> | undefined): RunContextError | undefined => {
  const error = cause && Cause.squash(cause)
  return error instanceof RunContextError ? error : undefined
}

/** A handler or a runtime failed unexpectedly. The cause is in the log. */
export const unhandledFailure = (
  name: string,
  cause: Cause.Cause<unknown>,
  call?: CallUnderWay
): Effect.Effect<ToolResult.Failure> => {
  if (call !== undefined) call.cause = cause
  const logged = telemetry.logUnexpected(`Tool ${JSON.stringify(name)} failed unexpectedly`, cause)
  const context = contextErrorIn(cause)
  return Effect.as(
    logged,
    context === undefined ? unexpectedFailure : { ...unexpectedFailure, message: context.message }
  )
}

/** The same failure with the class and the text of the defect. */
const describeFailure = (result: ToolResult.ToolResult, cause: Cause.Cause<unknown> | undefined) =>
  cause !== undefined && result._tag === "Failure" && result.type === unexpectedFailure.type
    ? { ...result, message: `Error executing tool: ${describeCause(cause)}` }
    : result

/** The milliseconds that a call may take: its timeout, cut short by the deadline of the run. */
const timeLeft = ({ deadline, timeout }: Pick<BoundCall, "timeout" | "deadline">, clock: Clock.Clock): number => {
  const millis = Duration.toMillis(timeout)
  return deadline === undefined ? millis : Math.min(millis, Math.max(0, deadline - clock.currentTimeMillisUnsafe()))
}

export const remainingTime = (call: Pick<BoundCall, "timeout" | "deadline">): Effect.Effect<Duration.Duration> =>
  Effect.clockWith((clock) => Effect.succeed(Duration.millis(timeLeft(call, clock))))

const withContext = <A>(effect: Effect.Effect<A>, context: Context.Context<never>): Effect.Effect<A> =>
  Effect.updateContext(effect, (_: Context.Context<never>) => context)

/**
 * The exit of an effect that runs with a context, or `"timeout"`. Its own interruption is an exit. An effect that resists
 * interruption is waited for, and has timed out nevertheless.
 */
export const exitWithin = <A>(
  effect: Effect.Effect<A>,
  context: Context.Context<never>,
  millis: number
): Effect.Effect<Exit.Exit<A> | "timeout"> => {
  const settled: Effect.Effect<Exit.Exit<A> | "timeout"> = Effect.exit(withContext(effect, context))
  if (millis === Infinity) return settled
  return Effect.raceFirst(settled, Effect.as(Effect.sleep(Duration.millis(millis)), "timeout" as const))
}

export const executeBody = (
  name: string,
  timeout: Duration.Duration,
  body: Body,
  args: Json.JsonObject,
  call: CallContext
): Effect.Effect<ToolResult.ToolResult> => {
  const { run = body, services = identity } = body
  return Effect.contextWith((context: Context.Context<never>) => {
    const current = Context.get(context, CurrentCall)
    if (current !== undefined) current.cause = undefined
    const millis = timeLeft({ timeout, deadline: call.deadline }, Context.get(context, Clock.Clock))
    // the caller has given up: no handler may act now, even if it would finish at once
    if (millis === 0) return Effect.succeed(timeoutFailure(Duration.zero))
    const inside =
      current?.context === context ? services(current.around, call.context, current) : services(context, call.context)
    const ran = Effect.suspend(() => run(args, call))
    return Effect.flatMap(exitWithin(ran, inside, millis), (exit): Effect.Effect<ToolResult.ToolResult> => {
      if (exit === "timeout") return Effect.succeed(timeoutFailure(Duration.millis(millis)))
      if (Exit.isFailure(exit)) return unhandledFailure(name, exit.cause, current)
      if (current !== undefined) current.result = exit.value
      return exit
    })
  })
}

/** The time that a caller waits beyond the timeout, which the other side enforces. */
export const defaultMargin: Duration.Input = "5 seconds"

/** Executes a call elsewhere, and stops waiting some time after its owner should have given up. */
export const dispatchWithTimeout = (
  call: BoundCall,
  margin: Duration.Duration,
  dispatch: (call: BoundCall) => Effect.Effect<ToolResult.ToolResult>
): Effect.Effect<ToolResult.ToolResult> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const millis = timeLeft(call, Context.get(context, Clock.Clock))
    const dispatched = Effect.suspend(() => dispatch(call))
    return Effect.flatMap(exitWithin(dispatched, context, millis + Duration.toMillis(margin)), (exit) =>
      exit === "timeout" ? Effect.succeed(timeoutFailure(Duration.millis(millis))) : exit
    )
  })

/** Its handler was under way, so it may have taken effect: the model reads the same as for a call that died with its process. */
const interruptedFailure = ToolResult.failure(
  "interrupted",
  "The run was interrupted while the tool was executing, and it is not known whether it took effect.",
  { outcome: "unknown" }
)

/** Results that come from elsewhere are judged by the contract; ours were encoded by it. */
const checkResult = (call: BoundCall, result: ToolResult.ToolResult): ToolResult.ToolResult => {
  if (wellFormedness(result) === "equal keys") {
    return ToolResult.failure(
      "execution_error",
      `The result of tool ${JSON.stringify(call.contract.name)} has two keys that are equal once each half of a character is U+FFFD. Make its keys well-formed.`
    )
  }
  if (call.result === undefined || result._tag === "Failure") return result
  const checked = JsonSchema.validate(call.result, result.value)
  if (Result.isSuccess(checked)) return { ...result, value: checked.success }
  return ToolResult.failure(
    "execution_error",
    `The result of tool ${JSON.stringify(call.contract.name)} does not fit its contract: ${PayloadError.render("", checked.failure)}`
  )
}

/** The rest is for the event around a result. */
const partOfResult = 0.9

/** The result, or a failure if the result is too large for an event: value, content and files count. */
const withinLimits = (
  { contract }: BoundCall,
  result: ToolResult.ToolResult,
  limits: jsonLimits.Limits
): ToolResult.ToolResult => {
  const light = limits.maxBytes / 32
  if (weigh(result, light, limits.maxDepth, "anything") <= light) return result
  const within = { ...limits, maxBytes: Math.floor(limits.maxBytes * partOfResult) }
  const written = Result.flatMap(copyJson(result, within), (json) => writeText(json, within, undefined))
  if (Result.isSuccess(written)) return result
  const reason = written.failure
  if (reason._tag !== "TooLarge" && reason._tag !== "TooDeep") return result
  const error = new PayloadError.PayloadError({ what: "result", reason })
  const name = JSON.stringify(contract.name)
  return ToolResult.failure("execution_error", `Tool ${name} returned more than Limits allow. ${error.message}`)
}

const hasForm = Schema.is(ToolResult.ToolResult)

/** A runtime of a user may return anything. The result of a body is one. */
const isResult = (result: ToolResult.ToolResult, ofBody: ToolResult.ToolResult | undefined): boolean =>
  Predicate.isObject(result) && (result === ofBody || hasForm(result))

const wrongResult = (tool: string): ToolResult.Failure =>
  ToolResult.failure(
    "invalid_result",
    `Expected a tool result from the tool runtime for tool ${JSON.stringify(tool)}, got something else. Return what ToolResult.success or ToolResult.failure makes.`
  )

/** The span of a call. A tracer that throws makes the call fail. */
const openSpan = (call: BoundCall, context: Context.Context<never>): Effect.Effect<Exit.Exit<Tracer.Span>> =>
  Effect.exit(
    Effect.makeSpan(`execute_tool ${call.contract.name}`, {
      attributes: {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.contract.name,
        "gen_ai.tool.call.id": call.id,
        ...telemetry.describeCall(call, context)
      }
    })
  )

/** Checks the result of a call, and ends its span. */
const close = (
  { around, call, result: ofBody, span }: CallUnderWay,
  exit: Exit.Exit<ToolResult.ToolResult>
): Exit.Exit<ToolResult.ToolResult> => {
  const closed = Result.try((): Exit.Exit<ToolResult.ToolResult> => {
    const limits = Context.get(around, jsonLimits.Limits)
    const checked = Exit.map(exit, (result) => {
      // Parts that are shared have a form along each way to them
      const found = result === ofBody ? result : withinLimits(call, result, limits)
      return isResult(found, ofBody)
        ? withinLimits(call, checkResult(call, found), limits)
        : wrongResult(call.contract.name)
    })
    if (span?.status._tag === "Started") {
      const isTimed = Context.get(around, References.TracerTimingEnabled)
      const now = isTimed ? Context.get(around, Clock.Clock).currentTimeNanosUnsafe() : 0n
      span.end(now, quietKey in span ? telemetry.describeEnd(span, call, around, checked) : checked)
    }
    return checked
  })
  return Result.getOrElse(closed, Exit.die)
}

/**
 * Observers of a batch, and its treatment of defects.
 */
interface BatchOptions<E = never, R = never> {
  /** With `false` the call does not start after all. */
  readonly onStarted?: ((callId: string, index: number) => Effect.Effect<unknown, E, R>) | undefined
  readonly onFinished?:
    | ((
        callId: string,
        result: ToolResult.ToolResult,
        duration: Duration.Duration,
        cause: Cause.Cause<unknown> | undefined,
        index: number
      ) => Effect.Effect<void, E, R>)
    | undefined
  /**
   * With `"describe"` the result of a call that had a defect names its class and its
   * text. With `"die"` the defect is raised again after all calls of the batch have
   * ended. Default `"result"`.
   */
  readonly defects?: "result" | "describe" | "die" | undefined
  /**
   * The number of calls that run at a time. The limit of a runtime holds in any case. Default: the number of the runtime.
   */
  readonly concurrency?: number | "unbounded" | undefined
}

const atLeastOne = (concurrency: number | "unbounded"): number =>
  concurrency === "unbounded" ? Infinity : Math.max(1, Math.floor(concurrency) || 1)

/** The number of calls that run at a time. */
const concurrencyOf = (runtime: ToolRuntime, asked: number | "unbounded" | undefined): number => {
  const allowed = atLeastOne(runtime.concurrency)
  if (asked === undefined) return allowed
  return runtime.isDefault === true ? atLeastOne(asked) : Math.min(atLeastOne(asked), allowed)
}

/**
 * Executes the calls through the tool runtime in use and returns the results in
 * call order.
 *
 * **Details**
 *
 * Calls start in call order, as many at once as the runtime allows. `onStarted`
 * and `onFinished` run the moment a call starts and ends, and are not cut off by
 * an interruption. One call's failure, timeout or defect loses no other's result.
 *
 * Interrupting the batch interrupts every handler and waits for its finalizers. A call that had started then ends with
 * an `interrupted` failure; a call that never started has no result and no event.
 *
 * `cause` is the origin of an unexpected failure, or of a failure whose text must not leave the process. With a
 * tracer each call has a span `execute_tool <name>`, without its arguments.
 */
export const run = <E = never, R = never>(
  calls: ReadonlyArray<BoundCall>,
  options: BatchOptions<E, R> = {}
): Effect.Effect<ReadonlyArray<ToolResult.ToolResult>, E, R> =>
  Effect.withFiber((fiber) => {
    const { context } = fiber
    const runtime = runtimeIn(context)
    const batch: Batch<E, R> = {
      options,
      context,
      runtime,
      clock: Context.get(context, Clock.Clock),
      isTraced: fiber.cache.tracer !== undefined,
      isMeasured: Context.get(context, telemetry.Metrics) !== undefined,
      results: [],
      died: []
    }
    const concurrency = concurrencyOf(runtime, options.concurrency)
    const runFrom = (first: number): Effect.Effect<void, E, R> => {
      const turn = calls.slice(first, first + callsPerTurn)
      const ran = Effect.forEach(turn, (call, index) => runCall(batch, call, first + index), {
        concurrency,
        discard: true
      })
      const next = first + callsPerTurn
      if (next >= calls.length) return ran
      return Effect.flatMap(Effect.andThen(ran, Effect.yieldNow), () => runFrom(next))
    }
    return Effect.flatMap(runFrom(0), () => outcomeOf(batch))
  })

/** The calls of a batch before other fibers have their turn: each of them may end at once. */
const callsPerTurn = 1000

/** An Effect that is an Exit needs no fiber. */
export const isDone = <A, E, R>(effect: Effect.Effect<A, E, R>): effect is Exit.Exit<A, E> => Exit.isExit(effect)

/** `Effect.flatMap`, without a fiber where the effect is an Exit. */
export const flatMapNow = <A, E, R, B, E2, R2>(
  effect: Effect.Effect<A, E, R>,
  f: (value: A) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E | E2, R | R2> =>
  isDone(effect) && Exit.isSuccess(effect) ? f(effect.value) : Effect.flatMap(effect, f)

/** A batch while it runs. */
interface Batch<E, R> {
  readonly options: BatchOptions<E, R>
  readonly context: Context.Context<never>
  readonly runtime: ToolRuntime
  readonly clock: Clock.Clock
  readonly isTraced: boolean
  readonly isMeasured: boolean
  readonly results: Array<ToolResult.ToolResult>
  readonly died: Array<Cause.Cause<unknown>>
}

const outcomeOf = <E, R>({ died, options, results }: Batch<E, R>) => {
  const first = options.defects === "die" ? died.find((cause) => cause !== undefined) : undefined
  return first === undefined
    ? Effect.succeed(results)
    : Effect.failCause(Cause.fromReasons<never>(first.reasons.filter(Cause.isDieReason)))
}

/** Runs one call of a batch. An interruption cuts off its code, and neither its observers nor its result. */
const runCall = <E, R>(batch: Batch<E, R>, call: BoundCall, index: number): Effect.Effect<void, E, R> =>
  Effect.uninterruptibleMask((restore) => settleCall(batch, call, index, restore))

/** Not inside the generator that uses it: the engine keeps what a closure of a generator can reach for long. */
const dispatch = (runtime: ToolRuntime, { call, context }: CallUnderWay): Effect.Effect<ToolResult.ToolResult> => {
  const before = Context.get(context, BeforeCall)
  const dispatched = Effect.suspend(() => runtime.dispatch(call))
  return withContext(before === undefined ? dispatched : Effect.andThen(before, dispatched), context)
}

const unobserved = Exit.succeed(undefined)

const settleCall = Effect.fnUntraced(function* <E, R>(
  batch: Batch<E, R>,
  call: BoundCall,
  index: number,
  restore: <A, F, S>(effect: Effect.Effect<A, F, S>) => Effect.Effect<A, F, S>
) {
  const { clock, context, options, runtime } = batch
  const { defects, onFinished, onStarted } = options
  if (onStarted !== undefined && (yield* onStarted(call.id, index)) === false) return
  const startedAt = clock.currentTimeMillisUnsafe()
  const opened = batch.isTraced ? yield* openSpan(call, context) : unobserved
  let exit: Exit.Exit<ToolResult.ToolResult>
  let underWay: CallUnderWay | undefined
  if (Exit.isSuccess(opened)) {
    const current = new CallUnderWay(call, opened.value && quietSpan(opened.value), context)
    exit = close(current, yield* Effect.exit(restore(dispatch(runtime, current))))
    underWay = current
  } else exit = Exit.failCause(opened.cause)

  const isInterrupted = Exit.isFailure(yield* Effect.exit(restore(Effect.void)))
  let settled: ToolResult.ToolResult = interruptedFailure
  let cause: Cause.Cause<unknown> | undefined
  if (!isInterrupted && Exit.isSuccess(exit)) {
    settled = exit.value
    if (settled._tag === "Failure") cause = underWay?.cause
  } else if (!isInterrupted && Exit.isFailure(exit)) {
    settled = yield* unhandledFailure(call.contract.name, exit.cause)
    cause = exit.cause
  }

  const duration = Duration.millis(clock.currentTimeMillisUnsafe() - startedAt)
  const result = defects === "describe" ? describeFailure(settled, cause) : settled
  if (batch.isMeasured) telemetry.measureCall(call, context, result, duration)
  if (cause !== undefined && Cause.hasDies(cause)) batch.died[index] = cause
  batch.results[index] = result
  if (onFinished !== undefined) yield* onFinished(call.id, result, duration, cause, index)
})
