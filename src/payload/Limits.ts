/**
 * Limits of the size and the depth of data from outside.
 *
 * The limits are a `Context.Reference`: there are defaults, a program sets
 * others with `Effect.provideService(Limits.Limits, ...)` or
 * {@link layer}, and every call can override single ones. `undefined` and `NaN` leave a limit as it is;
 * `Number.POSITIVE_INFINITY` removes it.
 *
 * @since 0.1.0
 */

import * as Layer from "effect/Layer"
import { defaultLimits, Limits, overrideLimits } from "./internal/limits.ts"

export { defaultLimits as defaults, Limits } from "./internal/limits.ts"

/**
 * Sets limits for everything under the layer; the ones not named keep their
 * default.
 *
 * **Example** (Small payloads only)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Limits } from "effect-emissary"
 *
 * const program = Effect.map(Limits.Limits, (limits) => limits.maxBytes).pipe(
 *   Effect.provide(Limits.layer({ maxBytes: 1024 }))
 * )
 *
 * assert.strictEqual(Effect.runSync(program), 1024)
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (limits: Partial<Limits>): Layer.Layer<never> =>
  Layer.succeed(Limits, overrideLimits(defaultLimits, limits))
