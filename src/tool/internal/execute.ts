/**
 * Runs the local body of a call under its timeout. It never fails and never dies.
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Predicate from "effect/Predicate"
import type { BoundCall } from "../BoundCall.ts"
import * as ToolResult from "../ToolResult.ts"
import * as CallCause from "./callCause.ts"
import * as defect from "./defect.ts"
import * as Timeouts from "./timeouts.ts"

interface Limits {
  readonly name: string
  readonly timeout: Duration.Duration
  readonly deadline: number | undefined
}

/** A handler or a runtime failed in a way nobody foresaw. */
export const unhandled = (name: string, cause: Cause.Cause<unknown>): Effect.Effect<ToolResult.Failure> =>
  Effect.logError(`Tool ${JSON.stringify(name)} failed unexpectedly`, cause).pipe(
    Effect.andThen(CallCause.report(cause)),
    Effect.as(ToolResult.failure("unhandled_error", `Error executing tool: ${defect.describeCause(cause)}`))
  )

/** The time a call may take: its timeout, cut short by the deadline of the run. */
const allowance = ({ deadline, timeout }: Limits): Effect.Effect<Duration.Duration> =>
  deadline === undefined
    ? Effect.succeed(timeout)
    : Effect.map(Clock.currentTimeMillis, (now) => Duration.min(timeout, Duration.millis(Math.max(0, deadline - now))))

/** Interrupts the fiber when its time is over, and remembers that it did. */
const watch = (fiber: Fiber.Fiber<unknown, unknown>, duration: Duration.Duration, onTimeout: () => void) =>
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
 * timeout nor its own interruption reaches anybody else. A fiber that resists
 * interruption is waited for, and has timed out nevertheless.
 */
const limited = <A>(effect: Effect.Effect<A>, duration: Duration.Duration): Effect.Effect<Exit.Exit<A> | "timeout"> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
      const done = fiber.pollUnsafe()
      if (done !== undefined) return done
      let late = false
      const timer = Duration.isFinite(duration)
        ? yield* Effect.forkChild(
            watch(fiber, duration, () => {
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

export const execute = (
  limits: Limits,
  body: () => Effect.Effect<ToolResult.ToolResult>
): Effect.Effect<ToolResult.ToolResult> =>
  Effect.gen(function* () {
    yield* CallCause.reset
    const duration = yield* allowance(limits)
    // whoever asked has given up: a handler must not act now, not even one that would be done at once
    if (Duration.isZero(duration)) return Timeouts.result(duration)
    const exit = yield* limited(Effect.suspend(body), duration)
    if (exit === "timeout") return Timeouts.result(duration)
    return Exit.isSuccess(exit) ? exit.value : yield* unhandled(limits.name, exit.cause)
  })

type Dispatch = (call: BoundCall) => Effect.Effect<ToolResult.ToolResult>

const isResult = (u: unknown): u is ToolResult.ToolResult =>
  Predicate.isTagged(u, "Failure")
    ? Predicate.hasProperty(u, "type") && Predicate.hasProperty(u, "message")
    : Predicate.isTagged(u, "Success") && Predicate.hasProperty(u, "content") && Predicate.hasProperty(u, "value")

/** Calls a runtime of somebody else, which may throw, or give back anything. */
export const invoke = (dispatch: Dispatch, call: BoundCall): Effect.Effect<ToolResult.ToolResult> =>
  Effect.suspend((): Effect.Effect<unknown> => {
    const answer: unknown = dispatch(call)
    return Effect.isEffect(answer)
      ? // the type of `dispatch` says what effect it is; from here one can only tell that it is one
        (answer as Effect.Effect<unknown>)
      : Effect.die(new TypeError("the dispatch of the tool runtime did not return an Effect"))
  }).pipe(
    Effect.filterOrElse(isResult, () =>
      Effect.die(new TypeError("the dispatch of the tool runtime did not give a ToolResult"))
    )
  )

/** Executes a call elsewhere, and stops waiting some time after its owner should have given up. */
export const overdue = (
  call: BoundCall,
  margin: Duration.Duration,
  dispatch: Dispatch
): Effect.Effect<ToolResult.ToolResult> =>
  Effect.gen(function* () {
    const duration = yield* allowance({ name: call.contract.name, timeout: call.timeout, deadline: call.deadline })
    const exit = yield* limited(invoke(dispatch, call), Duration.sum(duration, margin))
    return exit === "timeout" ? Timeouts.result(duration) : yield* exit
  })
