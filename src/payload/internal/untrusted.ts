/**
 * Checks of untrusted names and counts: keys that every object inherits, and the number of tools or messages.
 */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Limits from "../Limits.ts"
import * as PayloadError from "../PayloadError.ts"

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
  options: { readonly what: string; readonly path: string; readonly limits?: Partial<Limits.Limits> | undefined }
): Effect.Effect<void, PayloadError.PayloadError> =>
  Effect.flatMap(Limits.resolve(options.limits), (limits) => {
    const limit = measure === "tools" ? limits.maxTools : limits.maxMessages
    if (found <= limit) return Effect.void
    const reason = { _tag: "TooLarge", what: measure, limit, found, path: options.path } as const
    return Effect.fail(new PayloadError.PayloadError({ what: options.what, reason }))
  })

/** The names that every JavaScript object inherits, such as `constructor`. */
export const inheritedNames: ReadonlySet<string> = new Set(Object.getOwnPropertyNames(Object.prototype))

/**
 * Refuses a name that every object inherits, such as `constructor`.
 *
 * **Details**
 *
 * `path` is the JSON Pointer of the place that holds the name.
 */
export const checkName = (
  name: string,
  options: { readonly what: string; readonly path: string }
): Result.Result<string, PayloadError.PayloadError> =>
  inheritedNames.has(name)
    ? Result.fail(
        new PayloadError.PayloadError({
          what: options.what,
          reason: { _tag: "ForbiddenKey", path: options.path, key: name }
        })
      )
    : Result.succeed(name)
