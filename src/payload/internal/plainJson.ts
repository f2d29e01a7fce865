/**
 * Plain JSON: what every room needs to read, copy, check and write it.
 *
 * From top to bottom: kinds and places of values, limits, the scanner of texts, the copier of values, the search for
 * secrets, the problems of a Schema, reading and writing, and names from outside. `Json` and `Limits` export the public
 * part.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { identity, pipe } from "effect/Function"
import * as JsonPointer from "effect/JsonPointer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as PayloadError from "../PayloadError.ts"
import * as base from "./base.ts"

// --- Kinds and places -----------------------------------------------------------------------------------------------

/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: Schema.Json
}

/** An array or an object that is not an array; `null` is neither. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** `Array.isArray` does not narrow readonly arrays out of a union; this does. */
export const isArray = (value: unknown): value is ReadonlyArray<Schema.Json> => Array.isArray(value)

/** The kind of a value in words of JSON, for error messages. */
export const kindOf = (value: unknown): string => {
  if (value === null) return "null"
  if (value === undefined) return "nothing"
  if (typeof value === "number") return Number.isFinite(value) ? "number" : "a number that is not finite"
  if (typeof value === "object") return Array.isArray(value) ? "array" : "object"
  return typeof value
}

/** An own member of an object, never an inherited one: keys come from outside. */
export const own = <A>(object: { readonly [key: string]: A }, key: string): A | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined

type Flatten<A> = { [K in keyof A]: A[K] }

type OptionalKeys<A> = { [K in keyof A]: undefined extends A[K] ? K : never }[keyof A]

/** The members of `A`; a member that may be `undefined` becomes an optional key. */
export type WithoutUndefined<A> = Flatten<
  { readonly [K in Exclude<keyof A, OptionalKeys<A>>]: A[K] } & {
    readonly [K in OptionalKeys<A>]?: Exclude<A[K], undefined>
  }
>

/**
 * The object without its undefined members, in the same order: `{ a, ...defined({ b }) }` holds `b` only if it has a value.
 */
export const defined = <A extends object>(members: A): WithoutUndefined<A> => {
  const found: Partial<A> = {}
  for (const key in members) if (members[key] !== undefined) found[key] = members[key]
  // Sound: exactly the members that are not undefined are left.
  return found as WithoutUndefined<A>
}

/** The value at a JSON Pointer, such as the path of a problem, of own members only; `""` is the value itself. */
export const getAt = (root: Schema.Json, pointer: string): Schema.Json | undefined => {
  let here: Schema.Json | undefined = root
  for (const token of parsePointer(pointer)) {
    if (typeof here !== "object" || here === null) return undefined
    const member = Object.getOwnPropertyDescriptor(here, token)
    // The length of an array is its own, too
    here = member?.enumerable === true ? member.value : undefined
  }
  return here
}

/** A JSON Pointer from keys and indices; the empty path is the root. */
export const formatPointer = (path: ReadonlyArray<PropertyKey>): string =>
  path.map((token) => `/${JsonPointer.escapeToken(String(token))}`).join("")

/** The tokens of a JSON Pointer. */
export const parsePointer = (path: string): ReadonlyArray<string> =>
  path === "" ? [] : path.slice(1).split("/").map(JsonPointer.unescapeToken)

/** A place in a value, from the inside out; `undefined` is the root. */
export interface Location {
  readonly parent: Location | undefined
  readonly key: string | number
}

/** The JSON Pointer of a place, `/items/1/qty`. */
export const toPointer = (location: Location | undefined): string => formatPointer(keysOf(location))

const keysOf = (location: Location | undefined): ReadonlyArray<string | number> => {
  const keys: Array<string | number> = []
  for (let at = location; at !== undefined; at = at.parent) keys.push(at.key)
  return keys.reverse()
}

/** One step down in a JSON Pointer. */
export const appendToken = (pointer: string, key: string | number): string =>
  `${pointer}/${JsonPointer.escapeToken(String(key))}`

/** The kind of the value at a path, read without inherited members. */
export const kindAt = (root: unknown, path: ReadonlyArray<PropertyKey>): string => {
  let value = root
  for (const token of path) {
    // A path may continue inside a transformed scalar: only its kind is known.
    if (typeof value !== "object" || value === null) return kindOf(value)
    value = Object.getOwnPropertyDescriptor(value, token)?.value
  }
  return kindOf(value)
}

/** The names that `type` of JSON Schema has for kinds. */
export const typeNames = ["null", "boolean", "integer", "number", "string", "array", "object"] as const

/** One bit for each of them; `number` includes `integer`. */
export const typeBits = { null: 1, boolean: 2, integer: 4, number: 12, string: 16, array: 32, object: 64 } as const

export const allTypes = 127

/** The kind of a JSON value as `type` names it: `integer` for whole numbers. */
export const typeOf = (value: Schema.Json): string => {
  if (!Number.isInteger(value)) return kindOf(value)
  return Number.isSafeInteger(value) ? "integer" : "integer beyond 2^53"
}

/** The bit a value has: `integer` for whole numbers that JSON numbers hold exactly, the other half of `number` else. */
export const typeBitOf = (value: Schema.Json): number => {
  if (typeof value === "string") return typeBits.string
  if (typeof value === "number")
    return Number.isSafeInteger(value) ? typeBits.integer : typeBits.number - typeBits.integer
  return own<number>(typeBits, kindOf(value)) ?? 0
}

/**
 * Equality of JSON values, without recursion: data may be deeper than the stack. Many times faster than
 * `Equal.equals`, which takes a hash of everything.
 */
export const equalsJson = (left: unknown, right: unknown): boolean => {
  const open: Array<unknown> = [left, right]
  while (open.length > 0) {
    const b = open.pop()
    const a = open.pop()
    if (a === b) continue
    if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false
    if (Array.isArray(a) !== Array.isArray(b)) return false
    if (Array.isArray(a) && Array.isArray(b)) {
      if (a.length !== b.length) return false
      for (const [index, item] of a.entries()) open.push(item, b[index])
      continue
    }
    const keys = Object.keys(a)
    if (keys.length !== Object.keys(b).length) return false
    for (const key of keys) {
      if (!Object.hasOwn(b, key)) return false
      open.push(Reflect.get(a, key), Reflect.get(b, key))
    }
  }
  return true
}

/** Text that is equal for equal values: keys sorted, `1.0` is `1`, `-0` is `0`. */
export const fingerprint = (value: Schema.Json): string => {
  if (isArray(value)) return `[${value.map(fingerprint).join(",")}]`
  if (isObject(value)) {
    const members = Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${fingerprint(value[key] ?? null)}`)
    return `{${members.join(",")}}`
  }
  return value === 0 ? "0" : JSON.stringify(value)
}

/** Length in code points, as `minLength` counts. */
export const countCodePoints = (text: string): number => {
  let count = text.length
  for (let at = 1; at < text.length; at++) {
    if ((text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800) count--
  }
  return count
}

const parseDecimal = (value: number): readonly [mantissa: bigint, exponent: number] => {
  const [digits = "0", exponent = "0"] = value.toString().split("e")
  const [whole = "0", fraction = ""] = digits.split(".")
  return [BigInt(whole + fraction), Number(exponent) - fraction.length]
}

/** True if a number is a multiple of a divisor, counted in decimals: 0.3 is a multiple of 0.1. */
export const isMultipleOf = (value: number, divisor: number): boolean => {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0
  const [a, ae] = parseDecimal(value)
  const [b, be] = parseDecimal(divisor)
  const exponent = Math.min(ae, be)
  return (a * 10n ** BigInt(ae - exponent)) % (b * 10n ** BigInt(be - exponent)) === 0n
}

/** The kinds of a set of bits, as text: `string or null`. */
export const describeTypes = (bits: number): string =>
  typeNames
    .filter((name) => (bits & typeBits[name]) === typeBits[name])
    .filter((name, _, all) => name !== "integer" || !all.includes("number"))
    .sort((a, b) => (a === "null" ? 1 : 0) - (b === "null" ? 1 : 0))
    .join(" or ")

// --- Limits ---------------------------------------------------------------------------------------------------------

/**
 * The limits under which data is read and written.
 *
 * @category models
 * @since 0.1.0
 */
export interface Limits {
  /** Size of the JSON text in bytes of UTF-8. */
  readonly maxBytes: number
  /** Levels of arrays and objects; a scalar has depth 0, `[]` has depth 1. */
  readonly maxDepth: number
  /** Number of values; every scalar, array and object counts one. */
  readonly maxNodes: number
  /** Length of one string or key in UTF-16 code units. */
  readonly maxStringLength: number
  /** Items in one array. */
  readonly maxArrayLength: number
  /** Keys of one object. */
  readonly maxKeys: number
  /** Tools of one agent definition, tools of agents in it included. */
  readonly maxTools: number
  /** Messages of one conversation. */
  readonly maxMessages: number
  /** Problems that one error lists; further ones are counted only. */
  readonly maxIssues: number
  /** Work of one decode of an artefact, one validation, or one choice among routes, in units of about 250 nanoseconds. */
  readonly maxFuel: number
  /**
   * Patterns of one JSON Schema that no engine runs in linear time, for example patterns with look-around: they are not
   * checked. A document with more of them is refused, except where the other side checks values again (tools of MCP
   * servers, results).
   */
  readonly maxUncheckedPatterns: number
}

/**
 * The limits that hold unless others are provided.
 *
 * **Details**
 *
 * | limit | default |
 * |---|---|
 * | `maxBytes` | 8 MiB (8,388,608) |
 * | `maxDepth` | 64 |
 * | `maxNodes` | 100,000 |
 * | `maxStringLength` | 8 MiB (8,388,608 UTF-16 code units) |
 * | `maxArrayLength` | 20,000 |
 * | `maxKeys` | 10,000 |
 * | `maxTools` | 256 |
 * | `maxMessages` | 10,000 |
 * | `maxIssues` | 50 |
 * | `maxFuel` | 600,000 |
 * | `maxUncheckedPatterns` | 0 |
 *
 * `maxFuel` bounds work that the size of the data does not: compiling JSON Schemas and patterns, validation, and the
 * conditions of routes. One unit is about 250 nanoseconds, so the default is about a seventh of a second. All schemas of an
 * artefact share one count. A definition of 100 ordinary tools takes less than a third of the default. Raise it for
 * schemas and values of megabytes that you trust, and lower it where strangers send many payloads at once.
 *
 * @category defaults
 * @since 0.1.0
 */
export const defaultLimits: Limits = {
  maxBytes: 8 * 1024 * 1024,
  maxDepth: 64,
  maxNodes: 100_000,
  maxStringLength: 8 * 1024 * 1024,
  maxArrayLength: 20_000,
  maxKeys: 10_000,
  maxTools: 256,
  maxMessages: 10_000,
  maxIssues: 50,
  maxFuel: 600_000,
  maxUncheckedPatterns: 0
}

/**
 * The limits of the current program, `Limits.defaults` unless provided.
 *
 * **Example** (Other limits for a part of a program)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 * import { Limits } from "effect-emissary"
 *
 * const program = Effect.flip(Json.parse("[[1]]")).pipe(
 *   Effect.provideService(Limits.Limits, { ...Limits.defaults, maxDepth: 1 })
 * )
 *
 * assert.strictEqual(Effect.runSync(program).reason._tag, "TooDeep")
 * ```
 *
 * @category references
 * @since 0.1.0
 */
export const Limits: Context.Reference<Limits> = Context.Reference<Limits>("effect-emissary/payload/Limits", {
  defaultValue: () => defaultLimits
})

/** True where the other side checks values again: patterns that no engine here runs are left to it, whatever the limits are. */
export const IsCheckedAgain = Context.Reference<boolean>("effect-emissary/payload/IsCheckedAgain", {
  defaultValue: () => false
})

/** True where the data was read or copied by a codec, and no other code has it yet. */
export const IsOwnData = Context.Reference<boolean>("effect-emissary/payload/IsOwnData", { defaultValue: () => false })

/**
 * The current limits with the given ones in their place. `undefined` and `NaN` do not lift a limit: the current one
 * stays. `Number.POSITIVE_INFINITY` does.
 */
export const resolveLimits = (override?: Partial<Limits>): Effect.Effect<Limits> =>
  override === undefined ? Effect.service(Limits) : Effect.map(Limits, (limits) => overrideLimits(limits, override))

export const overrideLimits = (limits: Limits, override: Partial<Limits>): Limits => ({
  maxBytes: limitOf(override.maxBytes, limits.maxBytes),
  maxDepth: limitOf(override.maxDepth, limits.maxDepth),
  maxNodes: limitOf(override.maxNodes, limits.maxNodes),
  maxStringLength: limitOf(override.maxStringLength, limits.maxStringLength),
  maxArrayLength: limitOf(override.maxArrayLength, limits.maxArrayLength),
  maxKeys: limitOf(override.maxKeys, limits.maxKeys),
  maxTools: limitOf(override.maxTools, limits.maxTools),
  maxMessages: limitOf(override.maxMessages, limits.maxMessages),
  maxIssues: limitOf(override.maxIssues, limits.maxIssues),
  maxFuel: limitOf(override.maxFuel, limits.maxFuel),
  maxUncheckedPatterns: limitOf(override.maxUncheckedPatterns, limits.maxUncheckedPatterns)
})

/** Nothing is larger than NaN, so NaN would be no limit at all. */
const limitOf = (given: number | undefined, current: number): number =>
  given === undefined || Number.isNaN(given) ? current : given

// --- Scanning text and copying values -------------------------------------------------------------------------------

type Measure = Extract<PayloadError.Reason, { readonly _tag: "TooLarge" }>["what"]

const tooLarge = (what: Measure, limit: number, found: number, path: string): PayloadError.Reason => ({
  _tag: "TooLarge",
  what,
  limit,
  found,
  path
})

const tooMany = (array: boolean, limits: Limits, found: number, path: string): PayloadError.Reason =>
  array ? tooLarge("array", limits.maxArrayLength, found, path) : tooLarge("object", limits.maxKeys, found, path)

const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y

/** Characters that a string holds as they are; matches an empty text too, and so always. */
// oxlint-disable-next-line no-control-regex
const plainPattern = /[^"\\\u0000-\u001f]*/y

const escapePattern = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

interface ScanFrame {
  readonly array: boolean
  /** Items seen so far. */
  count: number
  /** The beginning and the end of the text of the current key. */
  keyStart: number
  keyEnd: number
  /** Keys seen so far, kept only when duplicates are looked for. */
  readonly keys: Set<string> | undefined
}

/**
 * Reads JSON text once from left to right and builds nothing: checks the whole
 * grammar and the limits of depth, nodes, strings and arrays.
 *
 * Succeeds with the number of keys. With `duplicates` it also refuses a key
 * that occurs twice in one object, which costs a set per object.
 */
const scanText = (
  text: string,
  limits: Limits,
  duplicates: boolean = false
): Result.Result<number, PayloadError.Reason> => new TextScanner(text, limits, duplicates).run()

/** Its methods note a failure and return `false`. */
class TextScanner {
  readonly text: string
  readonly limits: Limits
  readonly duplicates: boolean
  readonly stack: Array<ScanFrame> = []
  at = 0
  nodes = 0
  keys = 0
  failure: PayloadError.Reason | undefined = undefined

  constructor(text: string, limits: Limits, duplicates: boolean) {
    this.text = text
    this.limits = limits
    this.duplicates = duplicates
  }

  run(): Result.Result<number, PayloadError.Reason> {
    let opened = this.value("a JSON value")
    for (let top = this.stack.at(-1); top !== undefined && this.failure === undefined; top = this.stack.at(-1)) {
      const expected = top.array && opened ? `a JSON value or "]"` : "a JSON value"
      opened = this.member(top, opened) && this.value(expected)
    }
    if (this.failure === undefined && this.skipSpace() >= 0) this.notJson("nothing after the value")
    return this.failure === undefined ? Result.succeed(this.keys) : Result.fail(this.failure)
  }

  /** Moves to the next member of the innermost container; false at its end. */
  member(top: ScanFrame, first: boolean): boolean {
    let unit = this.skipSpace()
    if (unit === (top.array ? 0x5d : 0x7d)) {
      this.at += 1
      this.stack.pop()
      return false
    }
    if (!first) {
      if (unit !== 0x2c) return this.notJson(`"," or "${top.array ? "]" : "}"}"`)
      this.at += 1
      unit = this.skipSpace()
    }
    if (top.array) return true
    if (unit === 0x22) return this.key(top)
    return this.notJson(first ? `a key in double quotes or "}"` : "a key in double quotes")
  }

  key(top: ScanFrame): boolean {
    const start = this.at
    if (!this.string(1)) return false
    top.keyStart = start
    top.keyEnd = this.at
    this.keys += 1
    if (top.keys !== undefined) {
      const key = parseKey(this.text, top)
      if (top.keys.has(key)) {
        return this.notJson("each key once in an object", start, `${base.quote(key)} again`)
      }
      top.keys.add(key)
    }
    if (this.skipSpace() !== 0x3a) return this.notJson(`":"`)
    this.at += 1
    return true
  }

  /** Reads a value, of an array or object the opening bracket only; true if there was one. */
  value(expected: string): boolean {
    const unit = this.skipSpace()
    const { limits, stack } = this
    const top = stack.at(-1)
    this.nodes += 1
    if (this.nodes > limits.maxNodes) return this.fail(tooLarge("nodes", limits.maxNodes, this.nodes, ""))
    if (top !== undefined && ++top.count > (top.array ? limits.maxArrayLength : limits.maxKeys)) {
      return this.fail(tooMany(top.array, limits, top.count, this.path(1)))
    }
    if (unit === 0x22) {
      this.string(0)
      return false
    }
    if (unit !== 0x5b && unit !== 0x7b) {
      const size = scalarLength(this.text, this.at)
      this.at += size
      return size === 0 && this.notJson(expected)
    }
    if (stack.length >= limits.maxDepth) {
      return this.fail({ _tag: "TooDeep", limit: limits.maxDepth, path: this.path(0) })
    }
    const keys = this.duplicates && unit === 0x7b ? new Set<string>() : undefined
    stack.push({ array: unit === 0x5b, count: 0, keyStart: 0, keyEnd: 0, keys })
    this.at += 1
    return true
  }

  /** Reads a string, whose place is this many levels above the innermost member. */
  string(levels: number): boolean {
    const { text } = this
    let end = this.at + 1
    // Escapes are longer in the text than in the string.
    let escapes = 0
    for (;;) {
      plainPattern.lastIndex = end
      plainPattern.test(text)
      end = plainPattern.lastIndex
      const unit = text.charCodeAt(end)
      if (unit === 0x22) break
      if (end >= text.length) return this.notJson("the closing quote of a string", end)
      if (unit !== 0x5c) return this.notJson("no control character in a string", end)
      escapePattern.lastIndex = end
      if (!escapePattern.test(text)) return this.notJson("an escape that JSON knows", end)
      escapes += escapePattern.lastIndex - end - 1
      end = escapePattern.lastIndex
    }
    const length = end - this.at - 1 - escapes
    this.at = end + 1
    const max = this.limits.maxStringLength
    return length <= max || this.fail(tooLarge("string", max, length, this.path(levels)))
  }

  /** The unit after white space; NaN at the end of the text. */
  skipSpace(): number {
    let unit = this.text.charCodeAt(this.at)
    while (unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09) {
      this.at += 1
      unit = this.text.charCodeAt(this.at)
    }
    return unit
  }

  path(levels: number): string {
    const frames = this.stack.slice(0, this.stack.length - levels)
    return formatPointer(frames.map((frame) => (frame.array ? frame.count - 1 : parseKey(this.text, frame))))
  }

  notJson(expected: string, offset: number = this.at, found: string = describeFound(this.text, offset)): false {
    return this.fail({ _tag: "NotJson", offset, expected, found })
  }

  fail(reason: PayloadError.Reason): false {
    this.failure = reason
    return false
  }
}

// Sound: the scanner accepted the slice as a JSON string.
const parseKey = (text: string, frame: ScanFrame): string =>
  JSON.parse(text.slice(frame.keyStart, frame.keyEnd)) as string

/** The length of a number, `true`, `false` or `null` at `i`, or 0. */
const scalarLength = (text: string, i: number): number => {
  if (text.startsWith("true", i) || text.startsWith("null", i)) return 4
  if (text.startsWith("false", i)) return 5
  numberPattern.lastIndex = i
  return numberPattern.test(text) ? numberPattern.lastIndex - i : 0
}

const describeFound = (text: string, offset: number): string => {
  const point = text.codePointAt(offset)
  if (point === undefined) return "the end of the text"
  if (point === 0xfeff) return "a byte order mark (U+FEFF)"
  return point > 0x20 && point < 0x7f
    ? JSON.stringify(String.fromCodePoint(point))
    : `U+${point.toString(16).toUpperCase().padStart(4, "0")}`
}

/** The number of bytes of a text in UTF-8; a lone surrogate is written as U+FFFD. */
export const byteLength = (text: string): number => new TextEncoder().encode(text).length

/** The offset of the first byte of the first sequence that is not UTF-8, or the length. */
export const findInvalidByte = (bytes: Uint8Array): number => {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)
  let offset = 0
  let from = 0
  for (let at = text.indexOf("\uFFFD"); at >= 0; at = text.indexOf("\uFFFD", from)) {
    offset += byteLength(text.slice(from, at))
    // The decoder writes U+FFFD for an invalid sequence; the text may hold one of its own.
    if (bytes[offset] !== 0xef || bytes[offset + 1] !== 0xbf || bytes[offset + 2] !== 0xbd) return offset
    offset += 3
    from = at + 1
  }
  return bytes.length
}

/** No limits of data except what the machine can hold. */
export const unlimited: Limits = {
  ...defaultLimits,
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: Number.POSITIVE_INFINITY,
  maxNodes: Number.POSITIVE_INFINITY,
  maxStringLength: Number.POSITIVE_INFINITY,
  maxArrayLength: Number.POSITIVE_INFINITY,
  maxKeys: Number.POSITIVE_INFINITY
}

/**
 * Counts the keys of a JSON text, or answers -1 if it may pass a limit other than the size of one array or object. It
 * sees brackets and separators only. If the text is no JSON, the count means nothing, but then nothing before the first
 * error passes another limit either.
 */
const countKeysOfText = (text: string, limits: Limits): number => {
  const { length } = text
  if (length > limits.maxStringLength) return -1
  let depth = 0
  let nodes = 1
  let keys = 0
  for (let at = 0; at < length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === 0x22) {
      at = text.indexOf('"', at + 1)
      while (at > 0 && isEscaped(text, at)) at = text.indexOf('"', at + 1)
      if (at < 0) return -1
    } else if (unit === 0x2c) nodes += 1
    else if (unit === 0x3a) keys += 1
    else if (unit === 0x5b || unit === 0x7b) {
      nodes += 1
      depth += 1
      if (depth > limits.maxDepth) return -1
    } else if (unit === 0x5d || unit === 0x7d) depth -= 1
  }
  return nodes > limits.maxNodes ? -1 : keys
}

/** True behind an odd number of backslashes. */
const isEscaped = (text: string, at: number): boolean => {
  let start = at
  while (text.charCodeAt(start - 1) === 0x5c) start -= 1
  return (at - start) % 2 === 1
}

/**
 * Counts the keys of a value that `JSON.parse` made, or answers -1 if it holds a forbidden key, a number that is not
 * finite, or an array or object that is too large; {@link scanText} or {@link copyJson} then finds the place.
 */
const countKeys = (root: Schema.Json, limits: Limits): number => {
  const stack: Array<Schema.Json> = [root]
  let count = 0
  for (let value = stack.pop(); value !== undefined; value = stack.pop()) {
    if (typeof value === "number") {
      if (!Number.isFinite(value)) return -1
    } else if (isArray(value)) {
      if (value.length > limits.maxArrayLength) return -1
      for (const item of value) if (typeof item !== "string") stack.push(item)
    } else if (typeof value === "object" && value !== null) {
      const keys = Object.keys(value)
      if (keys.length > limits.maxKeys) return -1
      count += keys.length
      for (const key of keys) {
        const member = value[key]
        if (isForbiddenKey(key, member)) return -1
        if (member !== undefined && typeof member !== "string") stack.push(member)
      }
    }
  }
  return count
}

/** True for a key that reaches the prototype of an object. */
export const isForbiddenKey = (key: string | number, value: unknown): boolean =>
  key === "__proto__" ||
  (key === "constructor" && typeof value === "object" && value !== null && Object.hasOwn(value, "prototype"))

/** Each value counts this much in {@link weigh}, for the quotes and separators around it. */
export const nodeWeight = 32

/**
 * The greatest weight of one value of a model or a tool that is read. Few objects can refer to each other along any number of
 * paths, so each walk over a value that no codec has copied stops at a weight.
 */
export const maxWeight = 2 * defaultLimits.maxBytes

/**
 * About as many bytes as JSON takes; infinite for more than `limit` and for what is deeper than `depth`. With `what: "ours"`
 * infinite for numbers and keys that are refused, too, and with `"json"` for everything that is no JSON.
 */
export const weigh = (
  value: unknown,
  limit: number,
  depth: number = defaultLimits.maxDepth / 2,
  what: "anything" | "ours" | "json" = "ours"
): number => {
  let total = nodeWeight
  if (typeof value === "string") total += value.length
  else if (typeof value === "number") {
    if (what !== "anything" && !Number.isFinite(value)) return Number.POSITIVE_INFINITY
  } else if (typeof value !== "object" || value === null) {
    if (what === "json" && typeof value !== "boolean" && value !== null) return Number.POSITIVE_INFINITY
  } else if (depth === 0) return Number.POSITIVE_INFINITY
  else if (Array.isArray(value)) {
    for (const item of value) {
      total += typeof item === "string" ? nodeWeight + item.length : weigh(item, limit - total, depth - 1, what)
      if (total > limit) break
    }
  } else if (what === "json" && !isPlainObject(value, false)) return Number.POSITIVE_INFINITY
  else if (ArrayBuffer.isView(value)) total += value.byteLength
  else {
    for (const key of Object.keys(value)) {
      const member: unknown = Reflect.get(value, key)
      if (what !== "anything" && isForbiddenKey(key, member)) return Number.POSITIVE_INFINITY
      total += key.length
      total += typeof member === "string" ? nodeWeight + member.length : weigh(member, limit - total, depth - 1, what)
      if (total > limit) break
    }
  }
  return total > limit ? Number.POSITIVE_INFINITY : total
}

/** Replaces a value that has no JSON text, or whose text is too large to be shown. */
const leftOut = '"[left out: it is no JSON, or too large to be shown]"'

/** Compact JSON of a value of others, for people and models. */
export const textOf = (value: unknown, space?: number): string =>
  Result.getOrElse(
    Result.try((): string | undefined =>
      weigh(value, 2 * maxWeight, 1000, "json") > 2 * maxWeight ? undefined : JSON.stringify(value, undefined, space)
    ),
    () => undefined
  ) ?? leftOut

/** True for an array that is longer than any that is read, with places that are empty: a walk over all of them takes minutes. */
export const isSparse = (array: ReadonlyArray<unknown>): boolean =>
  array.length > mostDense && Object.values(array).length < array.length

/** A shorter array is walked place by place. */
export const mostDense = maxWeight / nodeWeight

/** The containers of a value that are walked without a look at what was seen before: most values have fewer. */
export const maxUnshared = 1000

/**
 * Tests for half a character in the texts and keys of a value: a lone surrogate, which no provider takes. It is replaced by
 * U+FFFD, by which two keys of one object may become equal. The value may be deeper than the stack.
 */
export const wellFormedness = (root: unknown): "well-formed" | "mendable" | "equal keys" => {
  if (typeof root === "string") return root.isWellFormed() ? "well-formed" : "mendable"
  if (typeof root !== "object" || root === null) return "well-formed"
  // Made for the first object in another one: most values are flat
  let open: Array<object> | undefined
  let isWhole = true
  let visited = 0
  let seen: Set<object> | undefined
  for (let next: object | undefined = root; next !== undefined; next = open?.pop()) {
    if (seen?.has(next) || ArrayBuffer.isView(next)) continue
    if (++visited > maxUnshared) (seen ??= new Set()).add(next)
    if (Array.isArray(next)) {
      for (const item of next.length > mostDense && isSparse(next) ? Object.values(next) : next) {
        if (typeof item === "string") isWhole &&= item.isWellFormed()
        else if (typeof item === "object" && item !== null) (open ??= []).push(item)
      }
      continue
    }
    let areWhole = true
    for (const key in next) {
      const member: unknown = Reflect.get(next, key)
      if (typeof member === "string") isWhole &&= member.isWellFormed()
      else if (typeof member === "object" && member !== null) (open ??= []).push(member)
      areWhole &&= key.isWellFormed()
    }
    if (areWhole) continue
    isWhole = false
    const keys = Object.keys(next)
    if (new Set(keys.map((key) => key.toWellFormed())).size < keys.length) return "equal keys"
  }
  return isWhole ? "well-formed" : "mendable"
}

/** The value with U+FFFD for each half of a character in JSON. Bytes, URLs and the like stay as they are. */
export const toWellFormed = <A>(value: A): A =>
  // Sound: each text is a text, and each container has the same members
  wellFormedness(value) === "well-formed" ? value : (mended(value) as A)

const mended = (value: unknown): unknown => {
  if (typeof value === "string") return value.toWellFormed()
  if (isArray(value)) return value.map(mended)
  if (!isObject(value) || !isPlainObject(value, false)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key.toWellFormed(), mended(member)]))
}

type JsonContainer = Array<Schema.Json> | Record<string, Schema.Json>

interface CopyFrame {
  readonly around: CopyFrame | undefined
  readonly depth: number
  readonly source: object
  /** The keys of an object. */
  readonly keys: ReadonlyArray<string> | undefined
  readonly size: number
  readonly target: JsonContainer
  /** The index of the next member. */
  next: number
}

/** The key or index of the member that was read last. */
const keyOf = ({ keys, next }: CopyFrame): string | number => keys?.[next - 1] ?? next - 1

/**
 * Copies a value of unknown origin into fresh plain JSON, reading every member
 * once through its descriptor: getters are never called, and what a Proxy
 * answers later does not matter.
 */
export const copyJson = (root: unknown, limits: Limits): Result.Result<Schema.Json, PayloadError.Reason> =>
  runCopier(new JsonCopier(limits, undefined), root)

/** Copies a value that is about to be written, and refuses secret keys in it; below the places in `data` keys are data. */
export const copyRefusingSecrets = (
  root: unknown,
  limits: Limits,
  data: ReadonlyArray<string>,
  names: ReadonlySet<string>
): Result.Result<Schema.Json, PayloadError.Reason> => {
  const copier = new JsonCopier(limits, names)
  return Result.flatMap(runCopier(copier, root), (json) => {
    const secret = copier.hasSecretName ? findSecret(json, { data, names }) : undefined
    return secret === undefined ? Result.succeed(json) : Result.fail(secret)
  })
}

const runCopier = (copier: JsonCopier, root: unknown): Result.Result<Schema.Json, PayloadError.Reason> =>
  Result.flatMap(
    Result.try({
      try: () => copier.run(root),
      // Only a trap of a Proxy can throw here.
      catch: () =>
        PayloadError.invalid([{ path: copier.path(), expected: "plain JSON", found: "an object that cannot be read" }])
    }),
    identity
  )

class JsonCopier {
  readonly limits: Limits
  /** The innermost container that is being copied. */
  top: CopyFrame | undefined = undefined
  /** The containers around the current one, kept once one is inside of another. */
  ancestors: Set<object> | undefined = undefined
  readonly issues: Array<PayloadError.Problem> = []
  omitted = 0
  paths = 0
  nodes = 0
  size = 0
  failure: PayloadError.Reason | undefined = undefined
  /** True when a key on the list of secrets was met; looked for only where that matters. */
  hasSecretName = false
  readonly secretNames: ReadonlySet<string> | undefined

  constructor(limits: Limits, secretNames: ReadonlySet<string> | undefined) {
    this.limits = limits
    this.secretNames = secretNames
  }

  path(): string {
    const keys: Array<string | number> = []
    for (let frame = this.top; frame !== undefined; frame = frame.around) keys.push(keyOf(frame))
    return formatPointer(keys.reverse())
  }

  run(root: unknown): Result.Result<Schema.Json, PayloadError.Reason> {
    const result = this.visit(root)
    while (this.top !== undefined && this.failure === undefined) this.fill(this.top)
    if (this.failure !== undefined) return Result.fail(this.failure)
    if (this.issues.length > 0) return Result.fail(PayloadError.invalid(this.issues, this.omitted))
    return Result.succeed(result)
  }

  /** Copies the members of the innermost container, up to the first member that is a container itself. */
  fill(frame: CopyFrame): void {
    const { keys, size, source, target } = frame
    while (frame.next < size) {
      const key = keys === undefined ? frame.next : (keys[frame.next] ?? "")
      frame.next += 1
      const descriptor = Object.getOwnPropertyDescriptor(source, key)
      if (descriptor === undefined) {
        this.issue("a JSON value in every place of an array", "a hole")
        this.nodes += 1
        if (this.nodes > this.limits.maxNodes) this.tooLarge("nodes", this.limits.maxNodes, this.nodes, "")
        if (this.failure !== undefined) return
      } else if (!("value" in descriptor)) this.issue("a plain member", "a getter or setter")
      else if (descriptor.enumerable !== true) this.issue("an enumerable member", "a hidden one")
      else {
        const value: unknown = descriptor.value
        if (isForbiddenKey(key, value)) {
          this.failure = { _tag: "ForbiddenKey", path: this.path(), key: String(key) }
          return
        }
        const copied = this.visit(value)
        if (Array.isArray(target)) target.push(copied)
        else target[key] = copied
        if (this.top !== frame || this.failure !== undefined) return
      }
    }
    this.top = frame.around
    this.ancestors?.delete(source)
  }

  /** Answers the copy of a scalar, or an empty copy of a container that is filled later. */
  visit(value: unknown): Schema.Json {
    this.nodes += 1
    if (this.nodes > this.limits.maxNodes) return this.tooLarge("nodes", this.limits.maxNodes, this.nodes, "")
    this.grow(1)
    switch (typeof value) {
      case "string":
        if (value.length > this.limits.maxStringLength) {
          return this.tooLarge("string", this.limits.maxStringLength, value.length, this.path())
        }
        this.grow(value.length)
        return value
      case "boolean":
        return value
      case "number":
        if (!Number.isFinite(value)) this.issue("a finite number", kindOf(value))
        // Adding 0 turns -0 into 0, the one zero that JSON has.
        return value + 0
      case "object":
        return value === null ? null : this.open(value)
      case "undefined":
        this.issue("a JSON value (leave the key out instead)", "undefined")
        return null
      default:
        this.issue("a JSON value", typeof value)
        return null
    }
  }

  open(source: object): Schema.Json {
    const { top } = this
    if (this.ancestors?.has(source) === true) {
      this.issue("a tree", "a cycle: an object that contains itself")
      return null
    }
    const array = Array.isArray(source)
    if (!isPlainObject(source, array)) {
      if (Redacted.isRedacted(source)) {
        const key = top === undefined ? "" : String(keyOf(top))
        this.failure = { _tag: "Secret", path: this.path(), key, kind: "redacted" }
      } else this.issue(array ? "a plain array" : "a plain object", "an instance of a class")
      return null
    }
    const depth = top === undefined ? 1 : top.depth + 1
    if (depth > this.limits.maxDepth) {
      this.failure = { _tag: "TooDeep", limit: this.limits.maxDepth, path: this.path() }
      return null
    }
    const names = array && source.length > this.limits.maxArrayLength ? [] : Object.getOwnPropertyNames(source)
    const size = array ? source.length : names.length
    if (size > (array ? this.limits.maxArrayLength : this.limits.maxKeys)) {
      this.failure = tooMany(array, this.limits, size, this.path())
      return null
    }
    // An array has its items and its length; a hole is found when its place is read
    const hasSymbols = Object.getOwnPropertySymbols(source).length > 0
    if (array && (hasSymbols || names.length > source.length + 1))
      this.issue("items only", "an array with other members")
    if (!array) this.addKeys(names, hasSymbols)
    const target: JsonContainer = array ? [] : {}
    if (top !== undefined) {
      this.ancestors ??= new Set([top.source])
      this.ancestors.add(source)
    }
    this.top = { around: top, depth, source, keys: array ? undefined : names, size, target, next: 0 }
    return target
  }

  addKeys(keys: ReadonlyArray<string>, hasSymbols: boolean): void {
    if (hasSymbols) this.issue("keys that are strings", "a symbol")
    const max = this.limits.maxStringLength
    for (const key of keys) {
      if (key.length > max) this.tooLarge("string", max, key.length, this.path())
      this.grow(key.length)
      this.hasSecretName ||= this.secretNames !== undefined && isSecretName(key, this.secretNames)
    }
  }

  /** Counts what the JSON text takes at least. */
  grow(bytes: number): void {
    this.size += bytes
    if (this.size > this.limits.maxBytes) this.tooLarge("bytes", this.limits.maxBytes, this.size, "")
  }

  tooLarge(what: Measure, limit: number, found: number, path: string): null {
    this.failure ??= tooLarge(what, limit, found, path)
    return null
  }

  issue(expected: string, found: string): void {
    if (this.issues.length >= this.limits.maxIssues || this.paths > base.maxPaths) {
      this.omitted += 1
      return
    }
    const path = this.path()
    this.paths += path.length
    this.issues.push({ path, expected, found })
  }
}

/** Made by a literal or `JSON.parse`, in this realm or another one: only a root prototype, or none. */
export const isPlainObject = (source: object, array: boolean): boolean => {
  const prototype: unknown = Object.getPrototypeOf(source)
  if (prototype === null) return !array
  if (typeof prototype !== "object") return false
  // Array.prototype is itself an array; the prototype of a subclass is not.
  return array ? Array.isArray(prototype) : Object.getPrototypeOf(prototype) === null
}

// --- Secrets --------------------------------------------------------------------------------------------------------

const groups = [
  // API keys, also as the headers that carry them
  "apikey apikeys *apikey xgoogapikey subscriptionkey ocpapimsubscriptionkey",
  // Authorization
  "auth authorization proxyauthorization basicauth authheader authkey bearer token *token jwt *jwt pat githubpat gitlabpat",
  "cookie cookies setcookie sessioncookie authcookie",
  // Secrets and passwords
  "secret secrets *secret secretvalue password passwords *password passwd *passwd pwd passphrase passcode",
  "pin pincode otp totp hotp",
  "credential credentials *credentials",
  // Keys that open something, and addresses that hold a password
  "*secretkey *accesskey accesskey accesskeyid *accesskeyid *privatekey privatekey privatekeypem secretkey sshkey",
  "signingkey encryptionkey masterkey serviceaccountkey accountkey",
  "connectionstring *connectionstring dsn *dsn databaseurl *databaseurl",
  "webhookurl *webhookurl sasurl *sasurl",
  // Several
  "*apikeys *secrets *passwords *secretkeys *accesskeys *privatekeys *accesstokens *refreshtokens *apitokens *authtokens",
  "accesstokens refreshtokens apitokens authtokens bearertokens",
  // Tokens of text and of pages
  "!maxtoken !mintoken !starttoken !stoptoken !endtoken !bostoken !eostoken !padtoken !unktoken !septoken !masktoken",
  "!prompttoken !inputtoken !outputtoken !completiontoken !*firsttoken !nexttoken !*specialtoken !*pertoken",
  "!pagetoken !*pagetoken !*paginationtoken !paginationtoken !continuationtoken !synctoken !cancellationtoken",
  // A company
  "!auth0"
]

/**
 * The keys under which nothing but `true`, `false` and `null` may be written, without case, separators, and digits at the end.
 * `*token` names every key that ends in `token` and has something before it, and `!maxtoken`, `!*pagetoken` or `!auth0` is
 * an exception from an end or from the digits.
 *
 * @category models
 * @since 0.1.0
 */
export const secretNames: ReadonlySet<string> = new Set(groups.flatMap((names) => names.split(" ")))

/**
 * The list of secret keys of the current program, `Json.secretNames` unless another one is provided.
 *
 * **Example** (More secret keys)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Option } from "effect"
 * import { Agent } from "effect-emissary"
 * import { Json } from "effect-emissary/payload"
 *
 * const names = new Set([...Json.secretNames, "ssn", "*pin"])
 * assert.ok(Option.isSome(Json.findSecret({ card_pin: "1234" }, { names })))
 *
 * const teller = Agent.make("teller", { model: "bank/teller", modelOptions: { card_pin: "1234" } })
 * const program = Effect.provideService(Agent.encode(teller), Json.SecretNames, names)
 * const error = await Effect.runPromise(Effect.flip(program))
 * assert.ok(error._tag === "PayloadError" && error.reason._tag === "Secret")
 * ```
 *
 * @category references
 * @since 0.1.0
 */
export const SecretNames: Context.Reference<ReadonlySet<string>> = Context.Reference<ReadonlySet<string>>(
  "effect-emissary/payload/SecretNames",
  { defaultValue: () => secretNames }
)

/**
 * The key of an `AiError` reason's metadata under which a model marks, with `true`, a description that may be shown: it
 * quotes no message and holds no secret. Descriptions of other models stay out of messages, see
 * `AgentError.causeOf`. `ScriptedModel` marks the disagreements of a script and a program, and `AiSdk` the refusal of a
 * key, of a model's name or of a URL.
 */
export const publicDescription = "effect-emissary/publicDescription"

/** On an error about an answer that passes a limit: it is no mistake of the model, and the same answer would come again. */
export const overLimit = "effect-emissary/overLimit"

/** The problem of an answer that passes a limit. */
export const tooLargeAnswer = (of: string, expected: string, found: string): string =>
  `the answer of ${of}: expected ${expected}, got ${found}. Raise this limit with Limits.layer around the agent, or ask for less`

const separators = /[^\p{L}\p{N}]/gu

/** Putting a long run of these in order takes quadratic time; as separators they count for nothing anyway. */
const combiningMarks = /\p{M}+/gu

/** It begins at the first digit only, so that a long run of digits takes linear time. */
const lastDigits = /(?<!\d)\d+$/

/** The ends in a list of names, and keys met lately: the same few keys come again and again. */
interface SecretRules {
  readonly ends: ReadonlyArray<string>
  readonly exceptions: ReadonlyArray<string>
  readonly known: Map<string, boolean>
}

const rulesOfNames = new WeakMap<ReadonlySet<string>, SecretRules>()

const rulesOf = (names: ReadonlySet<string>): SecretRules => {
  const found = rulesOfNames.get(names)
  if (found !== undefined) return found
  const endsAfter = (mark: string) =>
    Array.from(names).flatMap((name) => (name.startsWith(mark) ? [name.slice(mark.length)] : []))
  const rules = { ends: endsAfter("*"), exceptions: endsAfter("!*"), known: new Map<string, boolean>() }
  rulesOfNames.set(names, rules)
  return rules
}

const maxKnownKeys = 1000

/** The greatest length of a key in the cache. */
const maxKnownLength = 64

export const isSecretName = (key: string, names: ReadonlySet<string> = secretNames): boolean => {
  const { ends, exceptions, known } = rulesOf(names)
  const before = known.get(key)
  if (before !== undefined) return before
  const name = key.replace(combiningMarks, "").normalize("NFKC").replace(separators, "").toLowerCase()
  const isListed = (name: string) => {
    const hasEnd = (end: string) => name.length > end.length && name.endsWith(end)
    return names.has(name) || (ends.some(hasEnd) && !names.has(`!${name}`) && !exceptions.some(hasEnd))
  }
  const secret = isListed(name) || (!names.has(`!${name}`) && isListed(name.replace(lastDigits, "")))
  if (known.size >= maxKnownKeys) known.clear()
  if (key.length <= maxKnownLength) known.set(key, secret)
  return secret
}

/** A secret that was found. The value is not part of it. */
export type Secret = Extract<PayloadError.Reason, { readonly _tag: "Secret" }>

interface Place {
  readonly value: unknown
  readonly at: Location | undefined
  /** True when the key is on the list of secrets. */
  readonly secret: boolean
}

/**
 * The first secret in a value, in the order in which it is written. With `keys: false` only `Redacted` values count, which
 * a Schema could unwrap; below the places in `data` keys are data.
 */
export const findSecret = (
  root: unknown,
  options: {
    readonly keys?: boolean
    readonly data?: ReadonlyArray<string>
    readonly names?: ReadonlySet<string> | undefined
  } = {}
): Secret | undefined => {
  const { data = [], keys = true, names } = options
  const stack: Array<Place> = [{ value: root, at: undefined, secret: false }]
  const seen = new Set<object>()
  for (let place = stack.pop(); place !== undefined; place = stack.pop()) {
    const { at, secret, value } = place
    if (secret && !data.some((pattern) => isBelow(pattern, at))) return makeSecret(at, "key")
    if (typeof value !== "object" || value === null || seen.has(value)) continue
    seen.add(value)
    if (Redacted.isRedacted(value)) return makeSecret(at, "redacted")
    const members: Array<Place> = []
    forEachMember(value, (key, member, named) => {
      const isFlag = member === null || typeof member === "boolean"
      const marked = keys && named && !isFlag && isSecretName(key, names)
      if (marked || (typeof member === "object" && member !== null)) {
        members.push({ value: member, at: { parent: at, key }, secret: marked })
      }
    })
    for (let member = members.pop(); member !== undefined; member = members.pop()) stack.push(member)
  }
  return undefined
}

/** Visits the members of arrays, objects, class instances, maps and sets; getters are not called. */
const forEachMember = (value: object, f: (key: string, member: unknown, named: boolean) => void): void => {
  if (Array.isArray(value))
    (isSparse(value) ? Object.values(value) : value).forEach((item, i) => f(String(i), item, false))
  else if (value instanceof Map) for (const [key, member] of value) f(String(key), member, typeof key === "string")
  else if (value instanceof Set) [...value].forEach((item, i) => f(String(i), item, false))
  else if (!ArrayBuffer.isView(value)) {
    for (const key of Object.keys(value)) {
      const descriptor = Object.getOwnPropertyDescriptor(value, key)
      if (descriptor !== undefined && "value" in descriptor) f(key, descriptor.value, true)
    }
  }
}

const makeSecret = (at: Location | undefined, kind: Secret["kind"]): Secret => {
  const key = String(at?.key ?? "")
  return { _tag: "Secret", path: toPointer(at), key, kind }
}

/** True when a pattern, such as `/tools/*\/success`, is the path of a place: `*` is any one token, `**` any number of them. */
export const matchesPattern = (pattern: string, path: string): boolean =>
  matchesTokens(parsePointer(pattern), parsePointer(path), false)

/** True for a place whose parent, or a place above it, matches the pattern. */
const isBelow = (pattern: string, at: Location | undefined): boolean =>
  matchesTokens(parsePointer(pattern), keysOf(at?.parent), true)

const matchesTokens = (
  [token, ...rest]: ReadonlyArray<string>,
  path: ReadonlyArray<string | number>,
  orBelow: boolean
): boolean => {
  if (token === undefined) return orBelow || path.length === 0
  if (token === "**") return [...path, ""].some((_, i) => matchesTokens(rest, path.slice(i), orBelow))
  return path.length > 0 && (token === "*" || token === path[0]) && matchesTokens(rest, path.slice(1), orBelow)
}

// --- Problems of a Schema -------------------------------------------------------------------------------------------

/** Under this annotation an embedded codec hands on what it expected and found. */
const issueAnnotation = "~effect-emissary/payload/Issue"

const formatSchemaIssue = SchemaIssue.makeFormatterStandardSchemaV1()

/**
 * Turns a SchemaIssue into the reason Invalid: every place, up to `max`, with
 * the kind of what `input` holds there.
 */
export const reasonFromSchemaIssue = (
  issue: SchemaIssue.Issue,
  input: unknown,
  options: { readonly max: number; readonly path: string }
): ReturnType<typeof PayloadError.invalid> => {
  const { count, leaves } = leavesOf(issue, options.max)
  const issues: Array<PayloadError.Problem> = []
  let size = 0
  for (const leaf of leaves) {
    if (size > base.maxPaths) break
    const path = options.path + formatPointer(leaf.path)
    size += path.length
    const found = leaf.found ?? kindAt(input, leaf.path)
    issues.push({ path, expected: leaf.expected, found, ...defined({ fix: leaf.fix }) })
  }
  return PayloadError.invalid(issues, count - issues.length)
}

/**
 * Turns problems into a SchemaIssue, so that a codec embedded in a schema reports
 * its places within the whole.
 */
export const toSchemaIssue = (
  problems: ReadonlyArray<PayloadError.Problem>,
  input: unknown,
  options: SchemaAST.ParseOptions = {}
): SchemaIssue.Issue => {
  const [first, ...rest] = problems.map((problem) => {
    const message = `Expected ${problem.expected}, got ${problem.found}`
    const value = new SchemaIssue.InvalidValue({ message, [issueAnnotation]: problem }, input, options)
    return problem.path === "" ? value : new SchemaIssue.Pointer(parsePointer(problem.path), value)
  })
  return first === undefined
    ? new SchemaIssue.InvalidValue({ message: "Invalid" }, input, options)
    : new SchemaIssue.Composite(Schema.Json.ast, [first, ...rest], input, options)
}

/**
 * A Schema that reads and writes nothing but plain JSON within the limits, for values that no codec reads. What it writes is what the
 * given Schema writes.
 */
export const plainSchema = <T>(schema: Schema.Codec<T, unknown>): Schema.Codec<T, unknown> => {
  const plain = Schema.declareConstructor<unknown>()(
    [],
    () => (input, _, options) =>
      Effect.mapError(check(input), ({ problems }) => toSchemaIssue(problems, input, options)),
    { toCodecJson: () => Schema.link<unknown>()(Schema.toEncoded(schema), SchemaTransformation.passthrough()) }
  )
  return plain.pipe(Schema.decodeTo(schema))
}

interface Expectation {
  readonly expected: string
  readonly found?: string | undefined
  readonly fix?: string | undefined
}

interface Leaf extends Expectation {
  readonly path: ReadonlyArray<PropertyKey>
}

/** The first leaves of an issue, at most `max`, and the number of all: a hostile value has very many. */
const leavesOf = (root: SchemaIssue.Issue, max: number): { readonly leaves: Array<Leaf>; readonly count: number } => {
  const path: Array<PropertyKey> = []
  const leaves: Array<Leaf> = []
  let room = max
  let count = 0
  // The length of the path of the newest leaf
  let depth = 0

  const visit = (issue: SchemaIssue.Issue, message: string | undefined): void => {
    const isFull = leaves.length >= room
    switch (issue._tag) {
      case "Filter":
        return visit(issue.issue, message ?? (isFull ? undefined : messageOf(issue)))
      case "Encoding":
        return visit(issue.issue, message)
      case "Pointer":
        path.push(...issue.path)
        visit(issue.issue, message)
        path.length -= issue.path.length
        return
      case "Composite":
        for (const inner of issue.issues) visit(inner, message)
        return
      case "AnyOf":
        if (issue.issues.length > 0) return visitAlternatives(issue.issues, message)
    }
    count += 1
    depth = path.length
    if (!isFull) leaves.push({ path: [...path], ...expectationOf(issue, message) })
  }

  const visitAlternatives = (alternatives: ReadonlyArray<SchemaIssue.Issue>, message: string | undefined): void => {
    const [start, end] = [leaves.length, room]
    // Alternatives that all fail at this very place are one leaf, which needs the text of each
    if (start < end) room += alternatives.length
    let isOne = true
    for (const alternative of alternatives) {
      const before = count
      visit(alternative, message)
      isOne &&= count === before + 1 && depth === path.length
    }
    room = end
    if (isOne) count -= alternatives.length - 1
    if (isOne && start < end) leaves.push({ path: [...path], expected: joinExpected(leaves.splice(start)) })
    else leaves.splice(Math.max(start, end))
  }

  visit(root, undefined)
  return { leaves, count }
}

/** The name of a check is known to the check alone, and core's formatter asks it. */
const messageOf = (filter: SchemaIssue.Filter): string | undefined =>
  filter.issue._tag === "InvalidValue" ? formatIssue(filter) : SchemaIssue.defaultCheckHook(filter)

const expectationOf = (issue: SchemaIssue.Leaf | SchemaIssue.AnyOf, message: string | undefined): Expectation => {
  switch (issue._tag) {
    case "AnyOf":
      return { expected: trimExpected(message ?? formatIssue(issue)) }
    case "MissingKey": {
      const found = message ?? SchemaIssue.defaultLeafHook(issue)
      return { expected: found === "Missing key" ? "a value" : trimExpected(found), found: "nothing" }
    }
    case "UnexpectedKey":
      return { expected: "no such key" }
    case "InvalidValue": {
      const given = issue.annotations?.[issueAnnotation]
      if (isProblem(given)) return { expected: given.expected, found: given.found, fix: given.fix }
      return { expected: trimExpected(message ?? SchemaIssue.defaultLeafHook(issue)) }
    }
    default:
      return { expected: trimExpected(message ?? SchemaIssue.defaultLeafHook(issue)) }
  }
}

const formatIssue = (issue: SchemaIssue.Issue): string => formatSchemaIssue(issue).issues[0]?.message ?? "a valid value"

const joinExpected = (alternatives: ReadonlyArray<Leaf>): string =>
  [...new Set(alternatives.map((leaf) => leaf.expected))].join(" or ")

/** Core's messages begin with "Expected"; ours put the word in front themselves. */
const trimExpected = (message: string): string => base.truncateText(message.replace(/^Expected /, ""), 300)

const isProblem = (value: unknown): value is PayloadError.Problem =>
  typeof value === "object" && value !== null && "expected" in value && "found" in value && "path" in value

/** The problems that a Schema of Effect found in JSON. Decode with `{ errors: "all" }`, or there is one at most. */
export const problemsFromSchemaError = (
  error: Schema.SchemaError,
  input: unknown
): ReadonlyArray<PayloadError.Problem> =>
  reasonFromSchemaIssue(error.issue, input, { max: Number.POSITIVE_INFINITY, path: "" }).issues

// --- Reading and writing --------------------------------------------------------------------------------------------

/**
 * Options of reading and writing JSON.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /** The name of the data in error messages; default `"JSON"`. */
  readonly what?: string | undefined
  /** Limits that differ from the current ones for this call. */
  readonly limits?: Partial<Limits> | undefined
  /** Keys that a schema does not declare are an `"error"` (default), or are left out with `"ignore"`. */
  readonly onExcessProperty?: "error" | "ignore" | undefined
  /** The JSON Pointer of the value in a whole document, put before the path of every problem; default the root. */
  readonly path?: string | undefined
}

/** Runs a part under the current limits, with the limits of one call in their place. */
export const runWithLimits = <A>(
  options: Options | undefined,
  f: (limits: Limits) => Result.Result<A, PayloadError.Reason>
): Effect.Effect<A, PayloadError.PayloadError> =>
  Effect.withFiber((fiber) => {
    const limits = fiber.getRef(Limits)
    const result = f(options?.limits === undefined ? limits : overrideLimits(limits, options.limits))
    return Result.isSuccess(result)
      ? Effect.succeed(result.success)
      : Effect.fail(new PayloadError.PayloadError({ what: options?.what ?? "JSON", reason: result.failure }))
  })

/**
 * Reads JSON text, or bytes of UTF-8, under limits.
 *
 * **When to use**
 *
 * For every text from outside: files, request bodies, database columns, what a
 * model wrote. For a value that is parsed already use {@link check}.
 *
 * **Details**
 *
 * Bytes, depth, nodes, strings and arrays are counted in one pass over the text
 * before anything is built, so refusing hostile text costs little. Fails with
 * `NotJson`, `TooLarge`, `TooDeep`, `ForbiddenKey`, or `Invalid` for a number
 * that does not fit.
 *
 * **Example** (Text from outside)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * assert.deepStrictEqual(Effect.runSync(Json.parse(`{"city":"Oslo"}`)), { city: "Oslo" })
 *
 * const error = Effect.runSync(Effect.flip(Json.parse(`{"city":Oslo}`, { what: "order" })))
 * assert.ok(error.reason._tag === "NotJson" && error.reason.offset === 8)
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const parse = (
  input: string | Uint8Array,
  options?: Options
): Effect.Effect<Schema.Json, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) => (typeof input === "string" ? parseText(input, limits) : parseBytes(input, limits)))

/**
 * Checks that a value is plain JSON within the limits, and copies it.
 *
 * **When to use**
 *
 * For values that arrive parsed, and for values of one's own before they are
 * written.
 *
 * **Details**
 *
 * Refused with the path of each place: `undefined`, functions, symbols,
 * bigints, numbers that are not finite, class instances (`Date`, `Map` ...),
 * getters, holes in arrays, cycles, and objects that a Proxy makes unreadable.
 * The outcome is a fresh copy, which no other code can change after the check.
 * `maxBytes` is compared with the least that the text would take.
 *
 * **Example** (Everything that is wrong, with its path)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const error = Effect.runSync(Effect.flip(Json.check({ at: new Date(0), sizes: [1, Number.NaN] })))
 * assert.ok(error.reason._tag === "Invalid")
 * assert.deepStrictEqual(error.reason.issues.map((issue) => issue.path), ["/at", "/sizes/1"])
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const check = (input: unknown, options?: Options): Effect.Effect<Schema.Json, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) => copyJson(input, limits))

/** Like {@link check}, for values that have to be objects. */
export const checkObject = (input: unknown, options?: Options): Effect.Effect<JsonObject, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) =>
    Result.flatMap(copyJson(input, limits), (json) =>
      isObject(json)
        ? Result.succeed(json)
        : Result.fail(PayloadError.invalid([{ path: "", expected: "object", found: kindOf(json) }]))
    )
  )

/**
 * Writes a value as JSON text after {@link check}.
 *
 * **Details**
 *
 * `indent` is the number of spaces per level, default 0. The limits hold for
 * what is written too, `maxBytes` exactly.
 *
 * **Example** (Writing)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * assert.strictEqual(Effect.runSync(Json.stringify({ b: [1, -0] })), `{"b":[1,0]}`)
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const stringify = (
  value: unknown,
  options?: Options & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) =>
    Result.flatMap(copyJson(value, limits), (json) => writeText(json, limits, options?.indent))
  )

/** Writes a copy as text within the limits. */
export const writeText = (
  json: Schema.Json,
  limits: Limits,
  indent: number | undefined
): Result.Result<string, PayloadError.Reason> =>
  pipe(
    // JSON.stringify recurses: a caller who raised maxDepth may meet the end of the stack.
    Result.try({
      try: () => JSON.stringify(json, undefined, indent),
      catch: (): PayloadError.Reason => {
        const limit = Math.min(limits.maxDepth, Number.MAX_SAFE_INTEGER)
        return { _tag: "TooDeep", limit, path: "" }
      }
    }),
    Result.flatMap((text) => Result.map(checkText(text, limits), () => text))
  )

/** No text takes more than three bytes for a code unit, so most need no counting. */
const checkText = (text: string, limits: Limits): Result.Result<void, PayloadError.Reason> =>
  checkBytes(
    text.length > limits.maxBytes || text.length * 3 <= limits.maxBytes ? text.length : byteLength(text),
    limits
  )

const checkBytes = (found: number, limits: Limits): Result.Result<void, PayloadError.Reason> =>
  found > limits.maxBytes ? Result.fail(tooLarge("bytes", limits.maxBytes, found, "")) : Result.succeed(undefined)

export const parseText = (text: string, limits: Limits): Result.Result<Schema.Json, PayloadError.Reason> =>
  Result.flatMap(checkText(text, limits), () => parseSized(text, limits))

/**
 * Reads a text whose size is within the limits. Most texts are left to `JSON.parse`; a text that may pass a limit, or
 * that `JSON.parse` refuses, is scanned first.
 */
export const parseSized = (text: string, limits: Limits): Result.Result<Schema.Json, PayloadError.Reason> => {
  const keys = countKeysOfText(text, limits)
  const parsed = keys < 0 ? undefined : Result.try((): Schema.Json => JSON.parse(text))
  if (parsed !== undefined && Result.isSuccess(parsed)) return admit(parsed.success, keys, text, limits)
  // Cannot throw: the scanner accepted the whole text.
  return Result.flatMap(scanText(text, limits), (scanned) => admit(JSON.parse(text), scanned, text, limits))
}

/** Refuses forbidden keys, numbers that are not finite, and keys that occur twice. */
const admit = (
  json: Schema.Json,
  keys: number,
  text: string,
  limits: Limits
): Result.Result<Schema.Json, PayloadError.Reason> => {
  const count = countKeys(json, limits)
  if (count === keys) return Result.succeed(json)
  return Result.flatMap(scanText(text, limits), () =>
    count === -1
      ? copyJson(json, limits)
      : // Fewer keys than the text has: one occurred twice, and one value is gone.
        Result.map(scanText(text, limits, true), () => json)
  )
}

const parseBytes = (bytes: Uint8Array, limits: Limits): Result.Result<Schema.Json, PayloadError.Reason> =>
  pipe(
    checkBytes(bytes.length, limits),
    Result.flatMap(() =>
      Result.try({
        try: () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
        catch: (): PayloadError.Reason => {
          const offset = findInvalidByte(bytes)
          return { _tag: "NotJson", offset, expected: "UTF-8", found: "a byte that it does not have" }
        }
      })
    ),
    Result.flatMap((text) => Result.mapError(parseSized(text, limits), (reason) => offsetInBytes(reason, text)))
  )

/** The offset of a reason counted in bytes. */
const offsetInBytes = (reason: PayloadError.Reason, text: string): PayloadError.Reason => {
  if (reason._tag !== "NotJson") return reason
  return { ...reason, offset: byteLength(text.slice(0, reason.offset)) }
}

const schemaOptions = (options: Options | undefined) =>
  ({ errors: "all", onExcessProperty: options?.onExcessProperty ?? "error" }) as const

const failDecoding = (error: Schema.SchemaError, input: unknown, options: Options | undefined) =>
  Effect.flatMap(resolveLimits(options?.limits), (limits) =>
    Effect.fail(
      new PayloadError.PayloadError({
        what: options?.what ?? "JSON",
        reason: reasonFromSchemaIssue(error.issue, input, { max: limits.maxIssues, path: options?.path ?? "" })
      })
    )
  )

/**
 * Decodes a value that already went through `Json.parse` or `Json.check`.
 *
 * **Details**
 *
 * Fails with `Invalid`, which lists every place up to `maxIssues` with what was
 * expected and the kind of what was found. Apply it to the codec once and use
 * the function many times.
 *
 * **Example** (All issues)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const Order = Schema.Struct({ id: Schema.String, items: Schema.Array(Schema.Int) })
 * const decode = Json.decode(Order, { what: "order" })
 *
 * const error = Effect.runSync(Effect.flip(decode({ id: 7, items: [1, "two"] })))
 * assert.strictEqual(
 *   error.message,
 *   "order at /id: expected string, got number; at /items/1: expected number, got string"
 * )
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = <T, RD = never>(
  codec: Schema.Decoder<T, RD>,
  options?: Options
): ((json: unknown) => Effect.Effect<T, PayloadError.PayloadError, RD>) => {
  const run = Schema.decodeUnknownEffect(codec, schemaOptions(options))
  return (json) => Effect.catch(run(json), (error) => failDecoding(error, json, options))
}

/** Refuses an object with more keys than the limits allow, before a schema reads each of them. Bytes have a key for each byte. */
export const checkKeys = (
  value: unknown,
  options: { readonly what: string; readonly path: string }
): Effect.Effect<void, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return Result.void
    const count = ArrayBuffer.isView(value) ? value.byteLength : Object.keys(value).length
    return count > limits.maxKeys ? Result.fail(tooMany(false, limits, count, options.path)) : Result.void
  })

/** Encodes a value with a schema; the outcome is not checked. */
export const encodeUnchecked = <T, RE = never>(
  codec: Schema.Codec<T, unknown, unknown, RE>,
  options: Options | undefined
): ((value: T) => Effect.Effect<unknown, PayloadError.PayloadError, RE>) => {
  const run = base.once(() => Schema.encodeUnknownEffect(codec, schemaOptions(options)))
  return (value) => Effect.catch(run()(value), (error) => failDecoding(error, value, options))
}

// --- Names and counts -----------------------------------------------------------------------------------------------

/**
 * Refuses more tools or messages than the limits allow.
 *
 * **When to use**
 *
 * For codecs that know which of their arrays holds tools or messages. Bytes,
 * nodes, strings and arrays are checked by `Json` in all data.
 */
export const checkCount = (
  measure: "tools" | "messages",
  found: number,
  options: { readonly what: string; readonly path: string; readonly limits?: Partial<Limits> | undefined }
): Effect.Effect<void, PayloadError.PayloadError> =>
  Effect.flatMap(resolveLimits(options.limits), (limits) =>
    Effect.fromResult(countWithin(limits, measure, found, options))
  )

/** {@link checkCount} within limits that are known. */
export const countWithin = (
  limits: Limits,
  measure: "tools" | "messages",
  found: number,
  { path, what }: { readonly what: string; readonly path: string }
): Result.Result<void, PayloadError.PayloadError> => {
  const limit = measure === "tools" ? limits.maxTools : limits.maxMessages
  return found <= limit
    ? Result.void
    : Result.fail(new PayloadError.PayloadError({ what, reason: tooLarge(measure, limit, found, path) }))
}

/** The names that every JavaScript object inherits, such as `constructor`. */
export const inheritedNames: ReadonlySet<string> = new Set(Object.getOwnPropertyNames(Object.prototype))

/**
 * Refuses a name that every object inherits, such as `constructor`.
 *
 * **Details**
 *
 * `path` is the JSON Pointer of the place that holds the name.
 */
export const checkName = (
  name: string,
  { path, what }: { readonly what: string; readonly path: string }
): Result.Result<string, PayloadError.PayloadError> =>
  inheritedNames.has(name)
    ? Result.fail(new PayloadError.PayloadError({ what, reason: { _tag: "ForbiddenKey", path, key: name } }))
    : Result.succeed(name)
