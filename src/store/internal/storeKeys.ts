/** Keys that databases sort, and versions that never come back. */

import { sha256 } from "@noble/hashes/sha2.js"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Hex from "effect/encoding/Hex"

const hex = (unit: number, digits: number): string => unit.toString(16).padStart(digits, "0")

const sortUnit = (unit: number): string => {
  if (unit >= 0x2d && unit <= 0x7a) return String.fromCharCode(unit)
  return unit < 0x2d ? `!${hex(unit, 2)}` : `~${hex(unit, 4)}`
}

/** A key of such units is its own encoding. */
const isSortable = /^[\x2d-\x7a]*$/

/** Compared byte by byte, encoded keys have the order of the keys: `!` is less than all plain units, `~` more. */
export const sortable = (key: string): string => {
  if (isSortable.test(key)) return key
  let encoded = ""
  for (let i = 0; i < key.length; i++) encoded += sortUnit(key.charCodeAt(i))
  return encoded
}

const bytesOf = new TextEncoder()

/** Digests of keys met lately: the few keys of a session come again with each of its turns. */
const knownDigests = new Map<string, string>()

const maxKnownDigests = 1000

/** The greatest length of a key whose digest is kept. */
const maxKnownKey = 500

/** The digest of a key, in hexadecimal: the same for the same key on every machine, and short enough for an index. */
export const digestKey = (key: string): string => {
  const known = knownDigests.get(key)
  if (known !== undefined) return known
  const digest = Hex.encode(sha256(bytesOf.encode(sortable(key))))
  if (knownDigests.size >= maxKnownDigests) knownDigests.clear()
  if (key.length <= maxKnownKey) knownDigests.set(key, digest)
  return digest
}

/** More than every byte of an encoded key. */
export const lastSortable = "\u007f"

const sortedPattern = /!([0-9a-f]{2})|~([0-9a-f]{4})/g

export const fromSortable = (text: string): string =>
  text.replace(sortedPattern, (_, low: string | undefined, high: string | undefined) =>
    String.fromCharCode(Number.parseInt(low ?? high ?? "", 16))
  )

export interface KeyRange {
  readonly prefix: string
  readonly after: Option.Option<string>
  readonly limit: number
}

/** The first keys of a range, of keys in any order. */
export const pageOfKeys = (all: Iterable<string>, range: KeyRange): ReadonlyArray<string> =>
  Array.from(all)
    .filter((key) => key.startsWith(range.prefix) && (Option.isNone(range.after) || key > range.after.value))
    // By UTF-16 code units, as `<` compares strings
    .sort()
    .slice(0, range.limit)

const letters = "0123456789abcdefghijklmnopqrstuvwxyz"

/** 16 letters and digits, 82 bits. */
export const nonce: Effect.Effect<string> = Effect.gen(function* () {
  let text = ""
  for (let i = 0; i < 16; i++) text += letters.charAt(yield* Random.nextIntBetween(0, letters.length - 1))
  return text
})

/**
 * Versions of one writer: the number of the revision, for people, and what no other
 * writer has and this one has once. So a value that was deleted and made again never
 * has an old version.
 */
export const makeVersions = (writer: string) => {
  let count = 0
  return (previous: Option.Option<string>): string => {
    const revision = Option.match(previous, { onNone: () => 0, onSome: (version) => Number.parseInt(version, 10) || 0 })
    count += 1
    return `${revision + 1}-${writer}-${count.toString(36)}`
  }
}

/** A version, or its absence, as messages show it. */
export const versionText = (version: Option.Option<string>): string =>
  Option.match(version, { onNone: () => "no value", onSome: (text) => `version ${text}` })

const escapeKey = (namespace: string): string => namespace.replaceAll("%", "%25").replaceAll("/", "%2F")

/** The first part of the keys of a namespace. */
export const rootKey = (namespace: string): string => `${escapeKey(namespace)}/`

/** A key as a part of another key, where no other key begins with it. */
export const partOfKey = (key: string): string => `${key.length}:${key}/`
