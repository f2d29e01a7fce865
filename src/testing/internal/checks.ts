/**
 * Checks of suites, and the limit of a check in real time.
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/**
 * An implementation breaks a rule of its suite.
 *
 * @category errors
 * @since 0.1.0
 */
export class ConformanceError extends Schema.TaggedError<ConformanceError>("effect-emissary/testing/ConformanceError")(
  "ConformanceError",
  { subject: Schema.String, check: Schema.String, problem: Schema.String }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${this.subject}: ${this.check}: ${this.problem}`
  }
}

/**
 * One rule, as an effect that fails when the implementation breaks it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Check {
  readonly name: string
  readonly check: Effect.Effect<void, ConformanceError>
}

export const makeCheck = (subject: string, rule: string, check: Effect.Effect<void, unknown>): Check => ({
  name: `${subject}: ${rule}`,
  check: Effect.catchCause(check, (cause) =>
    Effect.fail(new ConformanceError({ subject, check: rule, problem: problemOfCause(cause) }))
  )
})

const problemOfCause = (cause: Cause.Cause<unknown>): string => {
  const fail = cause.reasons.find(Cause.isFailReason)
  return typeof fail?.error === "string" ? fail.error : Cause.pretty(cause)
}

export const show = (value: unknown): string => JSON.stringify(value) ?? "nothing"

export const expectEqual = (what: string, expected: unknown, found: unknown): Effect.Effect<void, string> =>
  Equal.equals(expected, found) ? Effect.void : Effect.fail(`${what}: expected ${show(expected)}, got ${show(found)}`)

/** The clock of the machine, whatever clock the check has. */
export const realClock = Context.get(Context.empty(), Clock.Clock)

/**
 * Fails when the time is over. The check runs in a fiber of its own, which is not waited for: a runtime may resist
 * interruption. The time passes in short steps, so that a busy machine does not use it up at once.
 */
export const endWithin = Effect.fnUntraced(function* <E>(
  limit: Duration.Duration,
  progress: { readonly expected: string },
  program: Effect.Effect<void, E>
) {
  const fiber = yield* Effect.forkDetach(program)
  const steps = Math.max(1, Math.ceil(Duration.toMillis(limit) / 10))
  const over = Effect.repeat(Effect.sleep("10 millis"), { times: steps - 1 }).pipe(
    Effect.provideService(Clock.Clock, realClock),
    Effect.as(Option.none())
  )
  const exit = yield* Effect.raceFirst(Effect.asSome(Fiber.await(fiber)), over).pipe(
    Effect.ensuring(Effect.forkDetach(Fiber.interrupt(fiber), { startImmediately: true }))
  )
  if (Option.isSome(exit)) return yield* exit.value
  return yield* Effect.fail(`expected ${progress.expected}, and waited ${Duration.format(limit)} for it`)
})
