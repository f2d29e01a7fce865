/**
 * Calls of tools under way: bounded in time, with a span each, run one by one or as a batch through the tool runtime.
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { constUndefined, constVoid, identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as References from "effect/References"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Tracer from "effect/Tracer"
import type * as Types from "effect/Types"
import type * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
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
  defaultValue: () => ({ dispatch: local, concurrency: 1, stubs: false })
})

/**
 * Performs each call around the dispatch of whatever runtime is in use: a durable program finds the results that it has
 * stored. Unlike a wrapper of the runtime it stays where another runtime is provided.
 */
export const Performance = Context.Reference<
  ((call: BoundCall, dispatch: ToolRuntime["dispatch"]) => Effect.Effect<ToolResult.ToolResult>) | undefined
>(callContext.keys.performance, { defaultValue: () => undefined })

const runtimeIn = (context: Context.Context<never>): ToolRuntime => {
  const runtime = Context.get(context, ToolRuntime)
  const perform = Context.get(context, Performance)
  return perform === undefined ? runtime : { ...runtime, dispatch: (call) => perform(call, runtime.dispatch) }
}

/** A call of a batch while it is executed. */
export class CallUnderWay {
  readonly call: BoundCall
  readonly span: Tracer.Span
  /** The context of the batch. */
  readonly around: Context.Context<never>
  readonly timeouts: Timeouts
  /** Why the newest attempt failed unexpectedly. */
  cause: Cause.Cause<unknown> | undefined
  /** The result of the newest attempt that ran here. */
  result: ToolResult.ToolResult | undefined
  private entered: Context.Context<never> | undefined

  constructor(call: BoundCall, span: Tracer.Span, around: Context.Context<never>, timeouts: Timeouts) {
    this.call = call
    this.span = span
    this.around = around
    this.timeouts = timeouts
  }

  /** The context of the batch with this call in it. */
  get context(): Context.Context<never> {
    return (this.entered ??= this.enter(this.around))
  }

  enter(context: Context.Context<never>): Context.Context<never> {
    const parent = Context.get(context, References.CurrentStackFrame)
    const frame = { name: this.span.name, stack: constUndefined, parent }
    const framed = Context.add(context, References.CurrentStackFrame, frame)
    return Context.add(Context.add(framed, Tracer.ParentSpan, this.span), CurrentCall, this)
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
 * The same span, so that exporters know their own. It has not the text of defects, which exporters print, and its errors
 * as `errorOf` makes them.
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

/** With `call` the context is that of a batch, to which the call is added. */
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

/** A handler or a runtime failed unexpectedly. The cause is in the log. */
export const unhandledFailure = (
  name: string,
  cause: Cause.Cause<unknown>,
  call?: CallUnderWay
): Effect.Effect<ToolResult.Failure> => {
  if (call !== undefined) call.cause = cause
  const logged = telemetry.logUnexpected(`Tool ${JSON.stringify(name)} failed unexpectedly`, cause)
  return Effect.as(logged, unexpectedFailure)
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

/** The timeouts of the calls of a batch. One fiber sleeps until the first of them. */
class Timeouts {
  /** The time of each, in nanoseconds of the monotonic clock. */
  due: Map<() => void, bigint> | undefined
  sleeper: Fiber.Fiber<void> | undefined
  wakesAt = 0n

  add(context: Context.Context<never>, millis: number, ring: () => void): void {
    if (millis === Infinity) return
    const clock = Context.get(context, Clock.Clock)
    const at = clock.monotonicTimeNanosUnsafe() + BigInt(Math.round(millis * 1_000_000))
    this.due ??= new Map()
    this.due.set(ring, at)
    if (this.sleeper !== undefined && at >= this.wakesAt) return
    this.sleeper?.interruptUnsafe()
    this.sleeper = Effect.runForkWith(context)(this.watch(clock))
  }

  delete(ring: () => void): void {
    if (this.due?.delete(ring) !== true || this.due.size > 0) return
    this.sleeper?.interruptUnsafe()
    this.sleeper = undefined
  }

  /** Rings those whose time has come, and sleeps until the next. */
  watch(clock: Clock.Clock): Effect.Effect<void> {
    return Effect.suspend(() => {
      const now = clock.monotonicTimeNanosUnsafe()
      let next: bigint | undefined
      for (const [ring, at] of this.due ?? []) {
        if (at <= now) {
          this.due?.delete(ring)
          ring()
        } else if (next === undefined || at < next) next = at
      }
      if (next === undefined) {
        this.sleeper = undefined
        return Effect.void
      }
      this.wakesAt = next
      return Effect.andThen(clock.sleep(Duration.nanos(next - now)), this.watch(clock))
    })
  }
}

/**
 * Runs an effect in a fiber of its own, so that neither its timeout nor its own interruption reaches the one that waits
 * for it. A fiber that resists interruption is waited for, and has timed out nevertheless. The fiber is returned if it
 * still runs.
 */
export const fork = <A>(
  effect: Effect.Effect<A>,
  context: Context.Context<never>,
  timeouts: Timeouts,
  millis: number,
  done: (exit: Exit.Exit<A> | "timeout") => void
): Fiber.Fiber<A> | undefined => {
  const fiber = Effect.runForkWith(context)(effect)
  const exit = fiber.pollUnsafe()
  if (exit !== undefined) return void done(exit)
  let isLate = false
  const giveUp = () => {
    isLate = true
    fiber.interruptUnsafe()
  }
  timeouts.add(context, millis, giveUp)
  fiber.addObserver((exit) => {
    timeouts.delete(giveUp)
    done(isLate ? "timeout" : exit)
  })
  return fiber
}

/** Begins something, and calls `done` with what comes after it. The fiber is returned if it still runs. */
type Begin<A, E = never> = (
  context: Context.Context<never>,
  timeouts: Timeouts,
  done: (result: Effect.Effect<A, E>) => void,
  inBatch?: CallUnderWay
) => Fiber.Fiber<unknown> | undefined

export const forkAndWait = <A, E = never>(begin: Begin<A, E>): Effect.Effect<A, E> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.callback<A, E>((resume) => {
      const timeouts = Context.get(context, CurrentCall)?.timeouts ?? new Timeouts()
      const fiber = begin(context, timeouts, resume)
      return fiber && Fiber.interrupt(fiber)
    })
  )

/** The execution of a body here. The batch of `inBatch` begins it without the Effect. */
interface LocalExecution extends Effect.Effect<ToolResult.ToolResult> {
  readonly begin: Begin<ToolResult.ToolResult>
}

const isLocalExecution = (effect: Effect.Effect<ToolResult.ToolResult>): effect is LocalExecution =>
  Predicate.hasProperty(effect, "begin")

export const executeBody = (
  name: string,
  timeout: Duration.Duration,
  body: Body,
  args: Json.JsonObject,
  call: CallContext
): LocalExecution => {
  const { run = body, services = identity } = body
  const begin: LocalExecution["begin"] = (context, timeouts, done, inBatch) => {
    const current = inBatch ?? Context.get(context, CurrentCall)
    if (current !== undefined) current.cause = undefined
    const millis = timeLeft({ timeout, deadline: call.deadline }, Context.get(context, Clock.Clock))
    // the caller has given up: a handler must not act now, not even one that would finish at once
    if (millis === 0) return void done(Effect.succeed(timeoutFailure(Duration.zero)))
    const effect = Effect.suspend(() => run(args, call))
    return fork(effect, services(context, call.context, inBatch), timeouts, millis, (exit) => {
      if (exit === "timeout") return done(Effect.succeed(timeoutFailure(Duration.millis(millis))))
      if (Exit.isFailure(exit)) return done(unhandledFailure(name, exit.cause, current))
      if (current !== undefined) current.result = exit.value
      done(exit)
    })
  }
  return Object.assign(forkAndWait(begin), { begin })
}

/** The time that a caller waits beyond the timeout, which the other side enforces. */
export const defaultMargin: Duration.Input = "5 seconds"

/** Executes a call elsewhere, and stops waiting some time after its owner should have given up. */
export const dispatchWithTimeout = (
  call: BoundCall,
  margin: Duration.Duration,
  dispatch: (call: BoundCall) => Effect.Effect<ToolResult.ToolResult>
): Effect.Effect<ToolResult.ToolResult> =>
  forkAndWait((context, timeouts, done) => {
    const millis = timeLeft(call, Context.get(context, Clock.Clock))
    const dispatched = Effect.suspend(() => dispatch(call))
    return fork(dispatched, context, timeouts, millis + Duration.toMillis(margin), (exit) =>
      done(exit === "timeout" ? Effect.succeed(timeoutFailure(Duration.millis(millis))) : exit)
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
  if (call.result === undefined || result._tag === "Failure") return result
  const checked = JsonSchema.validate(call.result, result.value)
  if (Result.isSuccess(checked)) return { ...result, value: checked.success }
  return ToolResult.failure(
    "execution_error",
    `The result of tool ${JSON.stringify(call.contract.name)} does not fit its contract: ${PayloadError.render("", checked.failure)}`
  )
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
const openSpan = (
  call: BoundCall,
  context: Context.Context<never>,
  isTraced: boolean
): Exit.Exit<Tracer.Span> | undefined => {
  const attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": call.contract.name,
    "gen_ai.tool.call.id": call.id,
    ...(isTraced && telemetry.describeCall(call, context))
  }
  const opened = Effect.makeSpan(`execute_tool ${call.contract.name}`, { attributes })
  return Effect.runForkWith(context)(opened).pollUnsafe()
}

/** Checks the result of a call, and ends its span. */
const close = (
  { around, call, result: ofBody, span }: CallUnderWay,
  exit: Exit.Exit<ToolResult.ToolResult>
): Exit.Exit<ToolResult.ToolResult> => {
  const closed = Result.try((): Exit.Exit<ToolResult.ToolResult> => {
    const checked = Exit.map(exit, (result) =>
      isResult(result, ofBody) ? checkResult(call, result) : wrongResult(call.contract.name)
    )
    const isTimed = Context.get(around, References.TracerTimingEnabled)
    const now = isTimed ? Context.get(around, Clock.Clock).currentTimeNanosUnsafe() : 0n
    if (span.status._tag === "Started") {
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
 * Interrupting the batch interrupts every handler and waits for its finalizers.
 * A call that had started then ends with an `interrupted` failure; one that never
 * started is not mentioned at all.
 *
 * `cause` is the origin of an unexpected failure, or of one whose text must
 * not leave the process. Each call has a span `execute_tool <name>`, without its
 * arguments.
 */
export const run = <E = never, R = never>(
  calls: ReadonlyArray<BoundCall>,
  options: BatchOptions<E, R> = {}
): Effect.Effect<ReadonlyArray<ToolResult.ToolResult>, E, R> =>
  Effect.withFiber((fiber) => {
    // Spans go nowhere without a tracer
    const isTraced = fiber.cache.tracer !== undefined
    // Sound: the services of the observers are those that the Effect requires
    const context = fiber.context as Context.Context<R>
    return Effect.callback((resume) => runBatch(calls, options, context, isTraced, resume))
  })

/** The calls that a batch begins before other fibers have their turn: each of them may end at once. */
const callsPerTurn = 1000

/** An Effect that is an Exit needs no fiber. */
export const isDone = <A, E, R>(effect: Effect.Effect<A, E, R>): effect is Exit.Exit<A, E> => Exit.isExit(effect)

/**
 * Runs a batch. Each call has one fiber while its code runs, and another where an observer has to wait. The Effect that is
 * returned interrupts all of them and waits.
 */
const runBatch = <E, R>(
  calls: ReadonlyArray<BoundCall>,
  { defects, onFinished, onStarted }: BatchOptions<E, R>,
  context: Context.Context<R>,
  isTraced: boolean,
  resume: (end: Effect.Effect<ReadonlyArray<ToolResult.ToolResult>, E>) => void
): Effect.Effect<void> => {
  const runtime = runtimeIn(context)
  const clock = Context.get(context, Clock.Clock)
  const atOnce = runtime.concurrency === "unbounded" ? Infinity : Math.max(1, runtime.concurrency || 1)
  const isMeasured = Context.get(context, telemetry.Metrics) !== undefined
  const timeouts = new Timeouts()
  const results: Array<ToolResult.ToolResult> = []
  const died: Array<Cause.Cause<unknown>> = []
  /** The newest fiber of each call. */
  const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
  let next = 0
  let running = 0
  let isStarting = false
  let isStopped = false
  let failure: Cause.Cause<E> | undefined
  let onStopped = constVoid

  const stop = (): void => {
    isStopped = true
    for (const fiber of fibers) fiber?.interruptUnsafe()
  }

  const keep = (index: number, fiber: Fiber.Fiber<unknown, unknown>): void => {
    fibers[index] = fiber
    if (isStopped) fiber.interruptUnsafe()
  }

  const watch = <A, F>(index: number, fiber: Fiber.Fiber<A, F>, then: (exit: Exit.Exit<A, F>) => void): void => {
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return then(exit)
    fiber.addObserver(then)
    keep(index, fiber)
  }

  /** Runs what an interruption of the batch does not cut off. */
  const perform = <A, F>(
    index: number,
    make: () => Effect.Effect<A, F, R>,
    then: (exit: Exit.Exit<A, F>) => void
  ): void => {
    const effect = Result.getOrElse(Result.try(make), Exit.die)
    if (isDone(effect)) return then(effect)
    watch(index, Effect.runForkWith(context)(effect, { uninterruptible: true }), then)
  }

  const start = (): void => {
    if (isStarting) return
    isStarting = true
    const last = next + callsPerTurn
    for (let call = calls[next]; call !== undefined; call = calls[next]) {
      if (isStopped || running >= atOnce) break
      if (next === last) {
        running += 1
        Effect.runForkWith(context)(Effect.yieldNow).addObserver(() => end(Exit.void))
        break
      }
      next += 1
      begin(call, next - 1)
    }
    isStarting = false
    if (running > 0) return
    if (failure !== undefined) resume(Effect.failCause(failure))
    else if (!isStopped) resume(outcome())
    onStopped()
  }

  const outcome = (): Effect.Effect<ReadonlyArray<ToolResult.ToolResult>> => {
    const first = defects === "die" ? died.find((cause) => cause !== undefined) : undefined
    return first === undefined
      ? Effect.succeed(results)
      : Effect.failCause(Cause.fromReasons<never>(first.reasons.filter(Cause.isDieReason)))
  }

  const end = (exit: Exit.Exit<unknown, E>): void => {
    if (Exit.isFailure(exit) && !(isStopped && Cause.hasInterruptsOnly(exit.cause))) {
      failure = failure === undefined ? exit.cause : Cause.combine(failure, exit.cause)
      stop()
    }
    running -= 1
    start()
  }

  const begin = (call: BoundCall, index: number): void => {
    running += 1
    if (onStarted === undefined) return execute(call, index)
    perform(
      index,
      () => onStarted(call.id, index),
      (exit) => (Exit.isSuccess(exit) && exit.value !== false ? execute(call, index) : end(exit))
    )
  }

  const execute = (call: BoundCall, index: number): void => {
    const { name } = call.contract
    const startedAt = clock.currentTimeMillisUnsafe()

    const finish = (settled: ToolResult.ToolResult, cause: Cause.Cause<unknown> | undefined): void => {
      const duration = Duration.millis(clock.currentTimeMillisUnsafe() - startedAt)
      const result = defects === "describe" ? describeFailure(settled, cause) : settled
      if (isMeasured) telemetry.measureCall(call, context, result, duration)
      if (cause !== undefined && Cause.hasDies(cause)) died[index] = cause
      results[index] = result
      if (onFinished === undefined) return end(Exit.void)
      perform(index, () => onFinished(call.id, result, duration, cause, index), end)
    }

    const settle = (exit: Exit.Exit<ToolResult.ToolResult>, underWay?: CallUnderWay): void => {
      if (isStopped) return finish(interruptedFailure, undefined)
      if (Exit.isSuccess(exit)) return finish(exit.value, exit.value._tag === "Failure" ? underWay?.cause : undefined)
      perform(
        index,
        () => unhandledFailure(name, exit.cause),
        (logged) => (Exit.isSuccess(logged) ? finish(logged.value, exit.cause) : end(logged))
      )
    }

    const opened = isStopped ? undefined : openSpan(call, context, isTraced)
    if (opened?._tag !== "Success")
      return settle(opened === undefined ? Exit.interrupt() : Exit.failCause(opened.cause))
    const underWay = new CallUnderWay(call, isTraced ? quietSpan(opened.value) : opened.value, context, timeouts)
    const done = (exit: Exit.Exit<ToolResult.ToolResult>) => settle(close(underWay, exit), underWay)
    const execution = runtime.dispatch === local ? Option.getOrUndefined(call.execute) : undefined
    if (execution === undefined || !isLocalExecution(execution)) {
      const dispatched = Effect.suspend(() => runtime.dispatch(call))
      return watch(index, Effect.runForkWith(underWay.context)(dispatched), done)
    }
    const finished = (result: Effect.Effect<ToolResult.ToolResult>): void => {
      if (isStopped) done(Exit.interrupt())
      else if (isDone(result)) done(result)
      else watch(index, Effect.runForkWith(underWay.context)(result), done)
    }
    const fiber = execution.begin(context, timeouts, finished, underWay)
    if (fiber !== undefined) keep(index, fiber)
  }

  start()
  return Effect.suspend(() => {
    stop()
    const ended =
      running === 0 ? Effect.void : Effect.callback<void>((resume) => void (onStopped = () => resume(Effect.void)))
    return Effect.flatMap(ended, () => (failure === undefined ? Effect.void : Effect.orDie(Effect.failCause(failure))))
  })
}
