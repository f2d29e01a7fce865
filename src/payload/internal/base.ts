/**
 * Places and names as messages show them, which come from outside and may be long, and small helpers of text.
 */

import { sha256 } from "@noble/hashes/sha2.js"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"

export const truncateText = (text: string, max: number = 120): string => {
  return text.length <= max ? text : `${firstUnits(text, max)}…`
}

/** The beginning of a text, without half a character at its end. */
export const firstUnits = (text: string, max: number): string => text.slice(0, max).replace(/[\uD800-\uDBFF]$/, "")

export const formatPlace = (path: string): string => (path === "" ? "at the root" : `at ${truncateText(path, 200)}`)

/**
 * A character that a reader does not see, or that changes the order of others, by its Unicode property: a list would age.
 * White space that forms lines is seen, and so are the selector and the joiner within an emoji.
 */
export const unseen =
  /(?![\t\n\r]|(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}])\ufe0f|(?<=[\d#*])\ufe0f(?=\u20e3)|(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}]\ufe0f?)\u200d(?=\p{Extended_Pictographic}))[\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Surrogate}]/gu

/** A part of JSON text for a person: what is not seen is an escape of JSON, so that the text has the same value. */
export const escapeUnseen = (json: string): string =>
  json.replace(unseen, (char) =>
    Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")
  )

/** A name as messages show it: in quotes, on one line, and cut after 120 characters. */
export const quote = (name: string): string => escapeUnseen(JSON.stringify(truncateText(name)))

/**
 * The problem of a text as the name of an agent, if it has one. Names come back in messages and logs, and hosts make paths of them.
 */
export const nameProblem = (name: string): string | undefined =>
  /[\\/]/.test(name) ? "a path separator" : unlikeProblem(name)

/** Scripts whose letters look like letters of other scripts. */
const lookAlike = [/\p{Script=Latin}/u, /\p{Script=Cyrillic}/u, /\p{Script=Greek}/u, /\p{Script=Armenian}/u]

/** A name in ASCII has no character of these kinds. */
const isPlain = /^[ -~]*$/

/** The problem of a name that could look like another one. */
const unlikeProblem = (name: string): string | undefined => {
  if (isPlain.test(name)) return undefined
  if (/[\t\n\r]/.test(name) || name.search(unseen) >= 0) return "a character that is not seen"
  const isMixed = (word: string) => lookAlike.filter((script) => script.test(word)).length > 1
  return name.split(/[^\p{L}\p{M}]+/u).some(isMixed) ? "a word with letters of two scripts" : undefined
}

/** The problem of a text as the name of a tool, if it has one. A lone surrogate is refused with the digest of the tool. */
export const toolNameProblem = (name: string): string | undefined =>
  isPlain.test(name) ? undefined : unlikeProblem(name.replace(/\p{Surrogate}/gu, ""))

/** The length of all paths of one error together, from which on problems are only counted: keys come from outside. */
export const maxPaths = 64 * 1024

/** The `kind` of an artefact with a signature, for a reader that requires none and so looks for a version. */
export const signedEnvelope = "a signed envelope"

/** The SHA-256 digest of a text in UTF-8. */
export const hashText = (text: string): string => `sha256:${Hex.encode(sha256(new TextEncoder().encode(text)))}`

/** Makes a value when it is first asked for: what a module makes while it is loaded, each program waits for. */
export const once = <A>(make: () => A): (() => A) => {
  let made: { readonly value: A } | undefined
  return () => (made ??= { value: make() }).value
}

/**
 * Hides fields of an error which hold what a run worked on. They are read and encoded as before. Node prints an uncaught error
 * with all that can be enumerated, and `toJSON` of Effect copies the arguments of the constructor: both show the sentence.
 */
export const hideContent = (error: Error, ...fields: ReadonlyArray<string>): void => {
  for (const field of fields) if (field in error) Object.defineProperty(error, field, { enumerable: false })
  const toJSON = (): object => Object.assign({ message: error.message }, error)
  Object.defineProperty(error, "toJSON", { value: toJSON, enumerable: false })
}

/** The most texts that one place logs. */
const maxWarnings = 256

/** Makes a function that logs each text once, as a warning. */
export const warnOnce = (): ((text: string) => Effect.Effect<void>) => {
  const warned = new Set<string>()
  return (text) =>
    Effect.suspend(() => {
      if (warned.has(text) || warned.size >= maxWarnings) return Effect.void
      warned.add(text)
      return Effect.logWarning(text)
    })
}

/** The order of names and texts by code points: JavaScript's own is by UTF-16 code units. */
export const byCodePoint = (left: string, right: string): -1 | 0 | 1 => {
  let at = 0
  while (at < left.length && left.charCodeAt(at) === right.charCodeAt(at)) at++
  // The second half of a pair alone does not have the order of the pair
  if (/^[\uD800-\uDBFF]$/.test(left[at - 1] ?? "")) at--
  const [a, b] = [left.codePointAt(at) ?? -1, right.codePointAt(at) ?? -1]
  return a < b ? -1 : a > b ? 1 : 0
}
