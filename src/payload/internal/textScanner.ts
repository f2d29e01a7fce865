/** Text of JSON under limits: its scanner, reading and writing. */

import type * as Effect from "effect/Effect"
import { pipe } from "effect/Function"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as PayloadError from "../PayloadError.ts"
import * as base from "./base.ts"
import { copyJson } from "./copyJson.ts"
import { type Limits, type Options, runWithLimits, tooLarge, tooMany } from "./limits.ts"
import { formatPointer, isArray, isForbiddenKey } from "./values.ts"

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

/**
 * Reads JSON text, or bytes of UTF-8, under limits.
 *
 * **When to use**
 *
 * For every text from outside: files, request bodies, database columns, what a
 * model wrote. For a value that is parsed already use `Json.check`.
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
 * Writes a value as JSON text after `Json.check`.
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
