/**
 * Keys are any text; columns of a database are not. The encoding is injective, works on
 * UTF-16 code units (lone surrogates included), yields ASCII, and encodes a
 * concatenation as the concatenation, so that prefixes stay prefixes.
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Hex from "effect/encoding/Hex"
import * as Option from "effect/Option"

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

/** Compared byte by byte, encoded keys stand in the order of the keys: `!` is less than all plain units, `~` more. */
export const sortable = (key: string): string => mapUnits(key, sortUnit)

/** The digest of a key, in hexadecimal: the same for the same key on every machine, and short enough for an index. */
export const digest = (key: string): string => Hex.encode(sha256(new TextEncoder().encode(sortable(key))))

/** More than every byte of an encoded key. */
export const last = "\u007f"

const sorted = /!([0-9a-f]{2})|~([0-9a-f]{4})/g

export const fromSortable = (text: string): string =>
  text.replace(sorted, (_, low: string | undefined, high: string | undefined) =>
    String.fromCharCode(Number.parseInt(low ?? high ?? "", 16))
  )

/** The order of `list`: by UTF-16 code units, as `<` compares strings. */
export const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

export interface Range {
  readonly prefix: string
  readonly after: Option.Option<string>
  readonly limit: number
}

/** The first keys of a range, of keys in any order. */
export const page = (all: Iterable<string>, range: Range): ReadonlyArray<string> =>
  Array.from(all)
    .filter((key) => key.startsWith(range.prefix) && (Option.isNone(range.after) || key > range.after.value))
    .sort(compare)
    .slice(0, range.limit)
