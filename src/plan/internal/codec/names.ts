/** Names of steps, and how messages show what stands where a name should. */
import type * as Schema from "effect/Schema"
import * as Names from "../../../payload/Names.ts"

export const maxNameLength = 200

const identifier = /^[\p{L}\p{N}_][\p{L}\p{N}_-]*$/u

/** Control characters, and halves of characters. */
const control = /[\p{Cc}\p{Cs}]/u

const isShort = (name: string): boolean => name.length <= maxNameLength

/** The rule of version 3 and of `Step.make`, and of every name that a reference holds. */
export const isIdentifier = (name: string): boolean => isShort(name) && identifier.test(name)

export const identifierRule = `letters, digits and "_", then "-" too, at most ${maxNameLength} characters`

/** The rule of step names in versions 1 and 2. */
export const isPlainText = (name: string): boolean => isShort(name) && !control.test(name)

export const plainTextRule = `text without control characters, at most ${maxNameLength} characters`

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
