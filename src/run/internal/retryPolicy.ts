/** Retries as data: of the steps of plans, and of model calls. */

import * as Duration from "effect/Duration"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as options from "../../payload/internal/options.ts"
import { defined } from "../../payload/internal/values.ts"

const optionalKey = Schema.optionalKey

const Millis = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

/** A retry schedule as data. */
export const RetryPolicy = Schema.Struct({
  times: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  delayMillis: optionalKey(Millis),
  factor: optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1))),
  maxDelayMillis: optionalKey(Millis)
}).pipe(Schema.encodeKeys({ delayMillis: "delay", maxDelayMillis: "max_delay" }))

export type RetryPolicy = typeof RetryPolicy.Type

/** The number of retries, and the pauses before them. */
export type Retry =
  | RetryPolicy
  | {
      /** The number of retries, at most. */
      readonly times: number
      /** The pause before the first retry; default none, and one second before a model is asked again. */
      readonly delay?: Duration.Input | undefined
      /** The pause is multiplied by it after each retry; default 1, and 2 where a model is asked again. */
      readonly factor?: number | undefined
      /** The longest pause; default 2^31 - 1 milliseconds, and one minute before a model is asked again. */
      readonly maxDelay?: Duration.Input | undefined
    }

/** The longest pause of any policy: 2^31 - 1 milliseconds, about 24 days. */
export const maxDelayMillis: number = 2 ** 31 - 1

/**
 * The pause after attempt number `tries` failed, counted from 1, in milliseconds; `undefined` if the policy allows no other
 * attempt.
 */
export const delayMillis = (policy: RetryPolicy, tries: number): number | undefined => {
  if (tries > policy.times) return undefined
  const first = policy.delayMillis ?? 0
  const longest = Math.min(policy.maxDelayMillis ?? maxDelayMillis, maxDelayMillis)
  // No pause stays none, also where the power is infinite.
  return first === 0 ? 0 : Math.min(first * (policy.factor ?? 1) ** (tries - 1), longest)
}

/** The policy of an option. `refuse` receives each time that cannot be. */
export const toPolicy = (retry: Retry, refuse: (slot: string, input: Duration.Input) => void): RetryPolicy => {
  if ("delayMillis" in retry || "maxDelayMillis" in retry) return retry
  const { delay, factor, maxDelay, times }: Exclude<Retry, RetryPolicy> = retry
  return defined({
    times,
    delayMillis: timeMillis("delay", delay, refuse),
    factor,
    maxDelayMillis: timeMillis("maxDelay", maxDelay, refuse)
  })
}

/** Milliseconds of a time, absent when it is infinite. */
export const timeMillis = (
  slot: string,
  input: Duration.Input | undefined,
  refuse: (slot: string, input: Duration.Input) => void
): number | undefined => {
  if (input === undefined) return undefined
  if (!options.time.fits(input)) {
    refuse(slot, input)
    return undefined
  }
  const value = Duration.toMillis(Duration.fromInputUnsafe(input))
  return Number.isFinite(value) ? value : undefined
}

export const isRetryPolicy = Schema.is(Schema.toType(RetryPolicy))

/** The policy of an option, `undefined` for an option that is none. */
export const policyOf = (retry: unknown): RetryPolicy | undefined => {
  if (!Predicate.isObject(retry)) return undefined
  let isRefused = false
  // Sound: what is made of it is checked
  const policy = toPolicy(retry as Retry, () => {
    isRefused = true
  })
  return !isRefused && isRetryPolicy(policy) ? policy : undefined
}

export const expected = "times as a whole number from 0, a factor from 1, and pauses from 0 milliseconds"

export const allowed: options.Allowed = { expected, fits: (retry) => policyOf(retry) !== undefined }
