/**
 * Keys are any text; file names and columns are not. Both encodings are injective,
 * work on UTF-16 code units (lone surrogates included), yield ASCII, and encode a
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

const isPlain = (unit: number): boolean =>
  (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x30 && unit <= 0x39) || unit === 0x2d

const escapeUnit = (unit: number): string => {
  if (isPlain(unit)) return String.fromCharCode(unit)
  return unit < 0x100 ? `_${hex(unit, 2)}` : `_u${hex(unit, 4)}`
}

/** Lower case only, because some file systems do not tell cases apart. */
export const escape = (key: string): string => mapUnits(key, escapeUnit)

const escaped = /_u([0-9a-f]{4})|_([0-9a-f]{2})/g

export const unescape = (text: string): Option.Option<string> => {
  const key = text.replace(escaped, (_, long: string | undefined, short: string | undefined) =>
    String.fromCharCode(Number.parseInt(long ?? short ?? "", 16))
  )
  return escape(key) === text ? Option.some(key) : Option.none()
}

/** File systems take 255 bytes; lock and temporary names add a little. */
const longestName = 200

/**
 * The name of a key where names are short, and no name is special: `k-` and the
 * escaped key, or `h-` and a digest. Two keys never share a name of the first kind.
 */
export const nameOf = (key: string): string => {
  const name = `k-${escape(key)}`
  return name.length <= longestName ? name : `h-${Hex.encode(digest(key))}`
}

/** The digest of a key: the same for the same key on every machine. */
export const digest = (key: string): Uint8Array => sha256(new TextEncoder().encode(escape(key)))

/** The key of a name; `"hashed"` if only the stored value tells it, `"foreign"` if no key has this name. */
export const keyOf = (name: string): { readonly key: string } | "hashed" | "foreign" => {
  if (name.startsWith("k-")) {
    const key = unescape(name.slice(2))
    return Option.isSome(key) && name.length <= longestName ? { key: key.value } : "foreign"
  }
  return /^h-[0-9a-f]{64}$/.test(name) ? "hashed" : "foreign"
}

const sortUnit = (unit: number): string => {
  if (unit >= 0x2d && unit <= 0x7a) return String.fromCharCode(unit)
  return unit < 0x2d ? `!${hex(unit, 2)}` : `~${hex(unit, 4)}`
}

/** Compared byte by byte, encoded keys stand in the order of the keys: `!` is less than all plain units, `~` more. */
export const sortable = (key: string): string => mapUnits(key, sortUnit)

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
