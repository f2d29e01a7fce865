/**
 * Limits of the size and the depth of data from outside.
 *
 * The limits are a `Context.Reference`: there are defaults, a program sets
 * others with `Effect.provideService(Limits.Limits, ...)` or
 * {@link layer}, and every call can override single ones.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/**
 * The limits under which data is read and written.
 *
 * @category models
 * @since 0.1.0
 */
export interface Limits {
  /** Size of the JSON text in bytes of UTF-8. */
  readonly maxBytes: number
  /** Levels of arrays and objects; a scalar has depth 0, `[]` has depth 1. */
  readonly maxDepth: number
  /** Number of values; every scalar, array and object counts one. */
  readonly maxNodes: number
  /** Length of one string or key in UTF-16 code units. */
  readonly maxStringLength: number
  /** Items in one array. */
  readonly maxArrayLength: number
  /** Tools of one agent definition. */
  readonly maxTools: number
  /** Messages of one conversation. */
  readonly maxMessages: number
  /** Problems that one error lists; further ones are counted only. */
  readonly maxIssues: number
}

/**
 * The limits that hold unless others are provided.
 *
 * **Details**
 *
 * | limit | default |
 * |---|---|
 * | `maxBytes` | 8 MiB (8,388,608) |
 * | `maxDepth` | 64 |
 * | `maxNodes` | 200,000 |
 * | `maxStringLength` | 4 MiB (4,194,304 UTF-16 code units) |
 * | `maxArrayLength` | 20,000 |
 * | `maxTools` | 256 |
 * | `maxMessages` | 10,000 |
 * | `maxIssues` | 50 |
 *
 * @category defaults
 * @since 0.1.0
 */
export const defaults: Limits = {
  maxBytes: 8 * 1024 * 1024,
  maxDepth: 64,
  maxNodes: 200_000,
  maxStringLength: 4 * 1024 * 1024,
  maxArrayLength: 20_000,
  maxTools: 256,
  maxMessages: 10_000,
  maxIssues: 50
}

/**
 * The limits of the current program, {@link defaults} unless provided.
 *
 * **Example** (Other limits for a part of a program)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 * import { Limits } from "effect-emissary"
 *
 * const program = Effect.flip(Json.parse("[[1]]")).pipe(
 *   Effect.provideService(Limits.Limits, { ...Limits.defaults, maxDepth: 1 })
 * )
 *
 * assert.strictEqual(Effect.runSync(program).reason._tag, "TooDeep")
 * ```
 *
 * @category references
 * @since 0.1.0
 */
export const Limits: Context.Reference<Limits> = Context.Reference<Limits>("effect-emissary/payload/Limits", {
  defaultValue: () => defaults
})

/**
 * The current limits with the given ones in their place.
 *
 * **Details**
 *
 * `undefined` and `NaN` do not lift a limit: the current one stays.
 * `Number.POSITIVE_INFINITY` does.
 *
 * **Example** (One limit for one call)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Limits } from "effect-emissary"
 *
 * const limits = Effect.runSync(Limits.resolve({ maxDepth: 8 }))
 * assert.deepStrictEqual(limits, { ...Limits.defaults, maxDepth: 8 })
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const resolve = (override?: Partial<Limits>): Effect.Effect<Limits> =>
  override === undefined ? Effect.service(Limits) : Effect.map(Limits, (limits) => merge(limits, override))

/** Nothing is larger than NaN, so NaN would be no limit at all. */
const merge = (limits: Limits, override: Partial<Limits>): Limits => {
  const given = Object.entries(override).filter(([, limit]) => limit !== undefined && !Number.isNaN(limit))
  return { ...limits, ...Object.fromEntries(given) }
}

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
export const layer = (limits: Partial<Limits>): Layer.Layer<never> => Layer.succeed(Limits, merge(defaults, limits))
