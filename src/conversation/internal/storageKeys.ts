/**
 * Keys that databases sort, and versions that never come back.
 */

import { sha256 } from "@noble/hashes/sha2.js"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Hex from "effect/encoding/Hex"

const hex = (unit: number, digits: number): string => unit.toString(16).padStart(digits, "0")

const mapUnits = (text: string, f: (unit: number) => string): string => {
  let encoded = ""
  for (let i = 0; i < text.length; i++) encoded += f(text.charCodeAt(i))
  return encoded
}

const sortUnit = (unit: number): string => {
  if (unit >= 0x2d && unit <= 0x7a) return String.fromCharCode(unit)
  return unit < 0x2d ? `!${hex(unit, 2)}` : `~${hex(unit, 4)}`
}

/** Compared byte by byte, encoded keys have the order of the keys: `!` is less than all plain units, `~` more. */
export const sortable = (key: string): string => mapUnits(key, sortUnit)

/** The digest of a key, in hexadecimal: the same for the same key on every machine, and short enough for an index. */
export const digestKey = (key: string): string => Hex.encode(sha256(new TextEncoder().encode(sortable(key))))

/** More than every byte of an encoded key. */
export const lastSortable = "\u007f"

const sortedPattern = /!([0-9a-f]{2})|~([0-9a-f]{4})/g

export const fromSortable = (text: string): string =>
  text.replace(sortedPattern, (_, low: string | undefined, high: string | undefined) =>
    String.fromCharCode(Number.parseInt(low ?? high ?? "", 16))
  )

/** The order of `list`: by UTF-16 code units, as `<` compares strings. */
export const compareKeys = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

export interface KeyRange {
  readonly prefix: string
  readonly after: Option.Option<string>
  readonly limit: number
}

/** The first keys of a range, of keys in any order. */
export const pageOfKeys = (all: Iterable<string>, range: KeyRange): ReadonlyArray<string> =>
  Array.from(all)
    .filter((key) => key.startsWith(range.prefix) && (Option.isNone(range.after) || key > range.after.value))
    .sort(compareKeys)
    .slice(0, range.limit)

const letters = "0123456789abcdefghijklmnopqrstuvwxyz"

/** 16 letters and digits, 82 bits. */
export const nonce: Effect.Effect<string> = Effect.gen(function* () {
  let text = ""
  for (let i = 0; i < 16; i++) text += letters.charAt(yield* Random.nextIntBetween(0, letters.length - 1))
  return text
})

/** Makes the version that follows another one. */
type Versions = (previous: Option.Option<string>) => string

/**
 * Versions of one writer: the number of the revision, for people, and what no other
 * writer has and this one has once. So a value that was deleted and made again never
 * has an old version.
 */
export const makeVersions = (writer: string): Versions => {
  let count = 0
  return (previous) => {
    const revision = Option.match(previous, { onNone: () => 0, onSome: (version) => Number.parseInt(version, 10) || 0 })
    count += 1
    return `${revision + 1}-${writer}-${count.toString(36)}`
  }
}

/** A version, or its absence, as messages show it. */
export const versionText = (version: Option.Option<string>): string =>
  Option.match(version, { onNone: () => "no value", onSome: (text) => `version ${text}` })
