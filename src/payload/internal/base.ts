/**
 * Places and names as messages show them: they come from outside and may be long.
 */

import { sha256 } from "@noble/hashes/sha2.js"
import * as Hex from "effect/encoding/Hex"

export const truncateText = (text: string, max: number = 120): string => {
  if (text.length <= max) return text
  const head = text.slice(0, max)
  return /[\uD800-\uDBFF]$/.test(head) ? `${head.slice(0, -1)}…` : `${head}…`
}

export const formatPlace = (path: string): string => (path === "" ? "at the root" : `at ${truncateText(path, 200)}`)

/** A name as messages show it: in quotes, on one line, and cut after 120 characters. */
export const quote = (name: string): string => JSON.stringify(truncateText(name))

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
