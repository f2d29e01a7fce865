/** Payloads as text: the one rendering of everything that a plan puts into words. */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as CanonicalJson from "../../payload/CanonicalJson.ts"

/**
 * The text of a payload: a string is itself, `null` is empty, all else is canonical JSON
 * (RFC 8785), the same before and after a payload was stored.
 */
export const text = (payload: Schema.Json): string => {
  if (typeof payload === "string") return payload
  if (payload === null) return ""
  // Canonical JSON takes no lone surrogates; JSON.stringify escapes them.
  return Result.getOrElse(CanonicalJson.stringify(payload), () => JSON.stringify(payload))
}
