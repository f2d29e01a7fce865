/**
 * When a step that failed is tried again, as data.
 *
 * **Details**
 *
 * After the first try failed, the step is tried again up to `times` times. The pause
 * before the n-th of these is `delayMillis * factor ** (n - 1)`, and never more than
 * `maxDelayMillis`:
 *
 * | policy | tries at |
 * |---|---|
 * | `{ times: 2 }` | 0, 0, 0 |
 * | `{ times: 3, delayMillis: 100 }` | 0, 100, 200, 300 ms |
 * | `{ times: 3, delayMillis: 100, factor: 2 }` | 0, 100, 300, 700 ms |
 * | `{ times: 3, delayMillis: 100, factor: 2, maxDelayMillis: 150 }` | 0, 100, 250, 400 ms |
 *
 * counted from the end of the first try, if tries take no time. There is no randomness
 * in it: a run that is done again waits as it did.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

/**
 * A schedule that travels.
 *
 * **Details**
 *
 * - `times`: how often it is tried again, at most.
 * - `delayMillis`: the pause before the first of these; default 0.
 * - `factor`: what the pause is multiplied by after each; default 1.
 * - `maxDelayMillis`: the longest pause; default {@link longestMillis}.
 *
 * @category models
 * @since 0.1.0
 */
export interface RetryPolicy {
  readonly times: number
  readonly delayMillis?: number
  readonly factor?: number
  readonly maxDelayMillis?: number
}

/**
 * Schema of {@link RetryPolicy}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RetryPolicy: Schema.Codec<RetryPolicy> = Schema.Struct({
  times: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  delayMillis: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  factor: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1))),
  maxDelayMillis: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)))
})

/**
 * The longest pause there is, whatever a policy says: 2^31 - 1 milliseconds, about 24
 * days.
 *
 * @category limits
 * @since 0.1.0
 */
export const longestMillis: number = 2 ** 31 - 1

/**
 * A policy as one writes it: with durations.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly times: number
  readonly delay?: Duration.Input | undefined
  readonly factor?: number | undefined
  readonly maxDelay?: Duration.Input | undefined
}

/**
 * Makes a policy. A policy that is one already stays as it is.
 *
 * **Details**
 *
 * What is out of range is kept, and told by {@link problems}: `Plan.make` refuses it.
 *
 * **Example** (Three more tries, ever slower)
 *
 * ```ts
 * import assert from "node:assert"
 * import { RetryPolicy } from "effect-emissary"
 *
 * const policy = RetryPolicy.make({ times: 3, delay: "1 second", factor: 2 })
 * assert.deepStrictEqual(policy, { times: 3, delayMillis: 1000, factor: 2 })
 * assert.deepStrictEqual([1, 2, 3, 4].map((tries) => RetryPolicy.delayMillis(policy, tries)), [
 *   1000,
 *   2000,
 *   4000,
 *   undefined
 * ])
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: Options | RetryPolicy): RetryPolicy => {
  const all: Options & { readonly delayMillis?: number | undefined; readonly maxDelayMillis?: number | undefined } =
    options
  const first = all.delay === undefined ? all.delayMillis : millis(all.delay)
  const longest = all.maxDelay === undefined ? all.maxDelayMillis : millis(all.maxDelay)
  return {
    times: options.times,
    ...(first === undefined ? {} : { delayMillis: first }),
    ...(options.factor === undefined ? {} : { factor: options.factor }),
    ...(longest === undefined ? {} : { maxDelayMillis: longest })
  }
}

const millis = (input: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(input))

/**
 * What is wrong with a policy, in words that follow "retry:".
 *
 * **Example** (No policy)
 *
 * ```ts
 * import assert from "node:assert"
 * import { RetryPolicy } from "effect-emissary"
 *
 * assert.deepStrictEqual(RetryPolicy.problems({ times: 1.5, delayMillis: -1 }), [
 *   "expected times to be a whole number from 0 on, found 1.5",
 *   "expected delayMillis to be a finite number from 0 on, found -1"
 * ])
 * ```
 *
 * @category checks
 * @since 0.1.0
 */
export const problems = (policy: RetryPolicy): ReadonlyArray<string> => {
  const found: Array<string> = []
  if (!Number.isSafeInteger(policy.times) || policy.times < 0) {
    found.push(`expected times to be a whole number from 0 on, found ${policy.times}`)
  }
  const atLeast = (name: "delayMillis" | "factor" | "maxDelayMillis", least: number) => {
    const value = policy[name]
    if (value === undefined || (Number.isFinite(value) && value >= least)) return
    found.push(`expected ${name} to be a finite number from ${least} on, found ${value}`)
  }
  atLeast("delayMillis", 0)
  atLeast("factor", 1)
  atLeast("maxDelayMillis", 0)
  return found
}

/**
 * The pause after the try number `tries` failed, counted from 1, in milliseconds;
 * `undefined` if the step is not tried again.
 *
 * @category getters
 * @since 0.1.0
 */
export const delayMillis = (policy: RetryPolicy, tries: number): number | undefined => {
  if (tries > policy.times) return undefined
  const first = policy.delayMillis ?? 0
  const longest = Math.min(policy.maxDelayMillis ?? longestMillis, longestMillis)
  // No pause stays none, also where the power is infinite.
  return first === 0 ? 0 : Math.min(first * (policy.factor ?? 1) ** (tries - 1), longest)
}
