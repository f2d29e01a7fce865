/** The limits under which data is read and written, and the counts that are compared with them. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as PayloadError from "../PayloadError.ts"

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
  /** Keys of one object. */
  readonly maxKeys: number
  /** Tools of one agent definition, tools of agents in it included. */
  readonly maxTools: number
  /** Messages of one conversation. */
  readonly maxMessages: number
  /** Problems that one error lists; further ones are counted only. */
  readonly maxIssues: number
  /** Work of one decode of an artefact, one validation, or one choice among routes, in units of about 250 nanoseconds. */
  readonly maxFuel: number
  /**
   * Patterns of one JSON Schema that no engine runs in linear time, for example patterns with look-around: they are not
   * checked. A document with more of them is refused, except where the other side checks values again (tools of MCP
   * servers, results).
   */
  readonly maxUncheckedPatterns: number
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
 * | `maxNodes` | 100,000 |
 * | `maxStringLength` | 8 MiB (8,388,608 UTF-16 code units) |
 * | `maxArrayLength` | 20,000 |
 * | `maxKeys` | 10,000 |
 * | `maxTools` | 256 |
 * | `maxMessages` | 10,000 |
 * | `maxIssues` | 50 |
 * | `maxFuel` | 600,000 |
 * | `maxUncheckedPatterns` | 0 |
 *
 * `maxFuel` bounds work that the size of the data does not: compiling JSON Schemas and patterns, validation, and the
 * conditions of routes. One unit is about 250 nanoseconds, so the default is about a seventh of a second. All schemas of an
 * artefact share one count. A definition of 100 ordinary tools takes less than a third of the default. Raise it for
 * schemas and values of megabytes that you trust, and lower it where strangers send many payloads at once.
 *
 * @category defaults
 * @since 0.1.0
 */
export const defaultLimits: Limits = {
  maxBytes: 8 * 1024 * 1024,
  maxDepth: 64,
  maxNodes: 100_000,
  maxStringLength: 8 * 1024 * 1024,
  maxArrayLength: 20_000,
  maxKeys: 10_000,
  maxTools: 256,
  maxMessages: 10_000,
  maxIssues: 50,
  maxFuel: 600_000,
  maxUncheckedPatterns: 0
}

/**
 * The limits of the current program, `Limits.defaults` unless provided.
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
  defaultValue: () => defaultLimits
})

/** True where the other side checks values again: patterns that no engine here runs are left to it, whatever the limits are. */
export const IsCheckedAgain = Context.Reference<boolean>("effect-emissary/payload/IsCheckedAgain", {
  defaultValue: () => false
})

/** True where the data was read or copied by a codec, and no other code has it yet. */
export const IsOwnData = Context.Reference<boolean>("effect-emissary/payload/IsOwnData", { defaultValue: () => false })

/**
 * The current limits with the given ones in their place. `undefined` and `NaN` do not lift a limit: the current one
 * stays. `Number.POSITIVE_INFINITY` does.
 */
export const resolveLimits = (override?: Partial<Limits>): Effect.Effect<Limits> =>
  override === undefined ? Effect.service(Limits) : Effect.map(Limits, (limits) => overrideLimits(limits, override))

export const overrideLimits = (limits: Limits, override: Partial<Limits>): Limits => ({
  maxBytes: limitOf(override.maxBytes, limits.maxBytes),
  maxDepth: limitOf(override.maxDepth, limits.maxDepth),
  maxNodes: limitOf(override.maxNodes, limits.maxNodes),
  maxStringLength: limitOf(override.maxStringLength, limits.maxStringLength),
  maxArrayLength: limitOf(override.maxArrayLength, limits.maxArrayLength),
  maxKeys: limitOf(override.maxKeys, limits.maxKeys),
  maxTools: limitOf(override.maxTools, limits.maxTools),
  maxMessages: limitOf(override.maxMessages, limits.maxMessages),
  maxIssues: limitOf(override.maxIssues, limits.maxIssues),
  maxFuel: limitOf(override.maxFuel, limits.maxFuel),
  maxUncheckedPatterns: limitOf(override.maxUncheckedPatterns, limits.maxUncheckedPatterns)
})

/** Nothing is larger than NaN, so NaN would be no limit at all. */
const limitOf = (given: number | undefined, current: number): number =>
  given === undefined || Number.isNaN(given) ? current : given

export type Measure = Extract<PayloadError.Reason, { readonly _tag: "TooLarge" }>["what"]

export const tooLarge = (what: Measure, limit: number, found: number, path: string): PayloadError.Reason => ({
  _tag: "TooLarge",
  what,
  limit,
  found,
  path
})

export const tooMany = (array: boolean, limits: Limits, found: number, path: string): PayloadError.Reason =>
  array ? tooLarge("array", limits.maxArrayLength, found, path) : tooLarge("object", limits.maxKeys, found, path)

/** No limits of data except what the machine can hold. */
export const unlimited: Limits = {
  ...defaultLimits,
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: Number.POSITIVE_INFINITY,
  maxNodes: Number.POSITIVE_INFINITY,
  maxStringLength: Number.POSITIVE_INFINITY,
  maxArrayLength: Number.POSITIVE_INFINITY,
  maxKeys: Number.POSITIVE_INFINITY
}

/**
 * Options of reading and writing JSON.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /** The name of the data in error messages; default `"JSON"`. */
  readonly what?: string | undefined
  /** Limits that differ from the current ones for this call. */
  readonly limits?: Partial<Limits> | undefined
  /** Keys that a schema does not declare are an `"error"` (default), or are left out with `"ignore"`. */
  readonly onExcessProperty?: "error" | "ignore" | undefined
  /** The JSON Pointer of the value in a whole document, put before the path of every problem; default the root. */
  readonly path?: string | undefined
}

/** Runs a part under the current limits, with the limits of one call in their place. */
export const runWithLimits = <A>(
  options: Options | undefined,
  f: (limits: Limits) => Result.Result<A, PayloadError.Reason>
): Effect.Effect<A, PayloadError.PayloadError> =>
  Effect.withFiber((fiber) => {
    const limits = fiber.getRef(Limits)
    const result = f(options?.limits === undefined ? limits : overrideLimits(limits, options.limits))
    return Result.isSuccess(result)
      ? Effect.succeed(result.success)
      : Effect.fail(new PayloadError.PayloadError({ what: options?.what ?? "JSON", reason: result.failure }))
  })

/** Refuses an object with more keys than the limits allow, before a schema reads each of them. Bytes have a key for each byte. */
export const checkKeys = (
  value: unknown,
  options: { readonly what: string; readonly path: string }
): Effect.Effect<void, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return Result.void
    const count = ArrayBuffer.isView(value) ? value.byteLength : Object.keys(value).length
    return count > limits.maxKeys ? Result.fail(tooMany(false, limits, count, options.path)) : Result.void
  })

/**
 * Refuses more tools or messages than the limits allow.
 *
 * **When to use**
 *
 * For codecs that know which of their arrays holds tools or messages. Bytes,
 * nodes, strings and arrays are checked by `Json` in all data.
 */
export const checkCount = (
  measure: "tools" | "messages",
  found: number,
  options: { readonly what: string; readonly path: string; readonly limits?: Partial<Limits> | undefined }
): Effect.Effect<void, PayloadError.PayloadError> =>
  Effect.flatMap(resolveLimits(options.limits), (limits) =>
    Effect.fromResult(countWithin(limits, measure, found, options))
  )

/** {@link checkCount} within limits that are known. */
export const countWithin = (
  limits: Limits,
  measure: "tools" | "messages",
  found: number,
  { path, what }: { readonly what: string; readonly path: string }
): Result.Result<void, PayloadError.PayloadError> => {
  const limit = measure === "tools" ? limits.maxTools : limits.maxMessages
  return found <= limit
    ? Result.void
    : Result.fail(new PayloadError.PayloadError({ what, reason: tooLarge(measure, limit, found, path) }))
}
