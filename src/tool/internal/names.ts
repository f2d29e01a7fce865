/**
 * Tool names as every model provider accepts them.
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Hex from "effect/encoding/Hex"

const longest = 64

const tailLength = 12

const escape = (name: string): string =>
  name
    .replaceAll("/", "__")
    .replaceAll(/[^A-Za-z0-9_-]/gu, (character) => `_x${(character.codePointAt(0) ?? 0).toString(16)}_`)

/** `/` as `__`, other characters by code point, too long a name cut and closed with a digest of the whole. */
export const encode = (name: string): string => {
  const escaped = escape(name)
  if (escaped.length <= longest) return escaped
  const tail = Hex.encode(sha256(new TextEncoder().encode(name))).slice(0, tailLength)
  return `${escaped.slice(0, longest - tailLength - 1)}_${tail}`
}
