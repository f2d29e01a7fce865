/**
 * Scans JSON text and copies JSON values within limits, before anything else looks at them.
 */

import { identity } from "effect/Function"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { defaults, type Limits } from "../Limits.ts"
import * as PayloadError from "../PayloadError.ts"
import * as base from "./base.ts"

type Measure = Extract<PayloadError.Reason, { readonly _tag: "TooLarge" }>["what"]

const tooLarge = (what: Measure, limit: number, found: number, path: string): PayloadError.Reason => ({
  _tag: "TooLarge",
  what,
  limit,
  found,
  path
})

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
 * Succeeds with the number of nodes. With `duplicates` it also refuses a key
 * that occurs twice in one object, which costs a set per object.
 */
export const scanText = (
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
    return this.failure === undefined ? Result.succeed(this.nodes) : Result.fail(this.failure)
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
    if (top !== undefined && top.array && ++top.count > limits.maxArrayLength) {
      return this.fail(tooLarge("array", limits.maxArrayLength, top.count, this.path(1)))
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
    return base.formatPointer(frames.map((frame) => (frame.array ? frame.count - 1 : parseKey(this.text, frame))))
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

/** No limits of data but those of the machine. */
export const unlimited: Limits = {
  ...defaults,
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: Number.POSITIVE_INFINITY,
  maxNodes: Number.POSITIVE_INFINITY,
  maxStringLength: Number.POSITIVE_INFINITY,
  maxArrayLength: Number.POSITIVE_INFINITY
}

/**
 * Counts the nodes of a value that `JSON.parse` made, or answers -1 if it holds
 * a forbidden key or a number that is not finite; {@link copyJson} then finds the place.
 */
export const countNodes = (root: Schema.Json): number => {
  const stack: Array<Schema.Json> = [root]
  let nodes = 0
  for (;;) {
    const value = stack.pop()
    if (value === undefined) return nodes
    nodes += 1
    if (typeof value === "number") {
      if (!Number.isFinite(value)) return -1
    } else if (base.isArray(value)) {
      for (const item of value) stack.push(item)
    } else if (typeof value === "object" && value !== null) {
      for (const key of Object.keys(value)) {
        const member = value[key]
        if (key === "__proto__" || (key === "constructor" && holdsPrototype(member))) return -1
        if (member !== undefined) stack.push(member)
      }
    }
  }
}

const holdsPrototype = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.hasOwn(value, "prototype")

type JsonContainer = Array<Schema.Json> | Record<string, Schema.Json>

interface CopyFrame {
  readonly source: object
  /** Keys still to visit, or the length of an array. */
  readonly keys: ReadonlyArray<string> | number
  readonly target: JsonContainer
  next: number
  key: string | number
}

/**
 * Copies a value of unknown origin into fresh plain JSON, reading every member
 * once through its descriptor: getters are never called, and what a Proxy
 * answers later does not matter.
 */
export const copyJson = (root: unknown, limits: Limits): Result.Result<Schema.Json, PayloadError.Reason> => {
  const walk = new JsonCopier(limits)
  return Result.flatMap(
    Result.try({
      try: () => walk.run(root),
      // Only a trap of a Proxy can throw here.
      catch: () =>
        PayloadError.invalid([{ path: walk.path(), expected: "plain JSON", found: "an object that cannot be read" }])
    }),
    identity
  )
}

class JsonCopier {
  readonly limits: Limits
  readonly stack: Array<CopyFrame> = []
  readonly ancestors = new Set<object>()
  readonly issues: Array<PayloadError.Problem> = []
  omitted = 0
  paths = 0
  nodes = 0
  size = 0
  failure: PayloadError.Reason | undefined = undefined

  constructor(limits: Limits) {
    this.limits = limits
  }

  path(): string {
    return base.formatPointer(this.stack.map((frame) => frame.key))
  }

  run(root: unknown): Result.Result<Schema.Json, PayloadError.Reason> {
    const result = this.visit(root)
    while (this.failure === undefined) {
      const frame = this.stack.at(-1)
      if (frame === undefined) break
      this.step(frame)
    }
    if (this.failure !== undefined) return Result.fail(this.failure)
    if (this.issues.length > 0) return Result.fail(PayloadError.invalid(this.issues, this.omitted))
    return Result.succeed(result)
  }

  /** Takes the next member of the innermost container. */
  step(frame: CopyFrame): void {
    const size = typeof frame.keys === "number" ? frame.keys : frame.keys.length
    if (frame.next >= size) {
      this.stack.pop()
      this.ancestors.delete(frame.source)
      return
    }
    const key = typeof frame.keys === "number" ? frame.next : (frame.keys[frame.next] ?? "")
    frame.next += 1
    frame.key = key
    const descriptor = Object.getOwnPropertyDescriptor(frame.source, key)
    if (descriptor === undefined) return this.issue("a JSON value in every place of an array", "a hole")
    if (!("value" in descriptor)) return this.issue("a plain member", "a getter or setter")
    if (descriptor.enumerable !== true) return this.issue("an enumerable member", "a hidden one")
    const value: unknown = descriptor.value
    if (key === "__proto__" || (key === "constructor" && holdsPrototype(value))) {
      this.failure = { _tag: "ForbiddenKey", path: this.path(), key }
      return
    }
    const copied = this.visit(value)
    if (Array.isArray(frame.target)) frame.target.push(copied)
    else frame.target[key] = copied
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
        if (!Number.isFinite(value)) this.issue("a finite number", base.kindOf(value))
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
    if (this.ancestors.has(source)) {
      this.issue("a tree", "a cycle: an object that contains itself")
      return null
    }
    const array = Array.isArray(source)
    if (!isPlainObject(source, array)) {
      if (Redacted.isRedacted(source)) {
        const key = this.stack.at(-1)?.key ?? ""
        this.failure = { _tag: "Secret", path: this.path(), key: String(key), kind: "redacted" }
      } else this.issue(array ? "a plain array" : "a plain object", "an instance of a class")
      return null
    }
    if (this.stack.length >= this.limits.maxDepth) {
      this.failure = { _tag: "TooDeep", limit: this.limits.maxDepth, path: this.path() }
      return null
    }
    if (array && source.length > this.limits.maxArrayLength) {
      return this.tooLarge("array", this.limits.maxArrayLength, source.length, this.path())
    }
    const keys: Array<string> = []
    let others = 0
    for (const key of Reflect.ownKeys(source)) {
      if (typeof key === "string" && !array) {
        if (key.length > this.limits.maxStringLength) {
          return this.tooLarge("string", this.limits.maxStringLength, key.length, this.path())
        }
        this.grow(key.length)
        keys.push(key)
      } else if (typeof key === "symbol" || !isIndexOrLength(key)) others += 1
    }
    if (others > 0)
      this.issue(array ? "items only" : "keys that are strings", array ? "an array with other members" : "a symbol")
    const target: JsonContainer = array ? [] : {}
    this.stack.push({ source, keys: array ? source.length : keys, target, next: 0, key: "" })
    this.ancestors.add(source)
    return target
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
const isPlainObject = (source: object, array: boolean): boolean => {
  const prototype: unknown = Object.getPrototypeOf(source)
  if (prototype === null) return !array
  if (typeof prototype !== "object") return false
  // Array.prototype is itself an array; the prototype of a subclass is not.
  return array ? Array.isArray(prototype) : Object.getPrototypeOf(prototype) === null
}

const isIndexOrLength = (key: string): boolean => key === "length" || /^(?:0|[1-9]\d*)$/.test(key)
