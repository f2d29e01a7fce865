/** What messages say of what stands where something else should. */
import type * as Schema from "effect/Schema"
import * as Names from "../../../payload/Names.ts"

/** What a message says of a value. Names are shown, other data only by its kind. */
export const show = (value: Schema.Json | undefined): string => {
  if (typeof value === "string") return Names.quote(value)
  if (value === undefined) return "nothing"
  if (value === null || typeof value === "number" || typeof value === "boolean") return String(value)
  return Array.isArray(value) ? "array" : "object"
}

/** What a message says of a value whose text may be anything. */
export const kindOf = (value: Schema.Json | undefined): string => {
  if (value === undefined) return "nothing"
  if (value === null) return "null"
  return Array.isArray(value) ? "array" : typeof value
}
