/**
 * Scans JSON text and copies JSON values within limits, before anything else looks at them.
 */

import { identity } from "effect/Function"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { Limits } from "../Limits.ts"
import * as PayloadError from "../PayloadError.ts"
import * as base from "./base.ts"

// The next thing that may come.
const expectValue = 0

const expectValueOrClose = 1

const expectKey = 2

const expectKeyOrClose = 3

const expectColon = 4

const expectCommaOrClose = 5

const expectedTexts = [
  "a JSON value",
  `a JSON value or "]"`,
  "a key in double quotes",
  `a key in double quotes or "}"`,
  `":"`,
  `"," or the end of the array or object`
]

const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y

/** Characters that a string holds as they are; matches an empty text too, and so always. */
// oxlint-disable-next-line no-control-regex
const plainPattern = /[^"\\\u0000-\u001f]*/y

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
): Result.Result<number, PayloadError.Reason> => {
  const stack: Array<ScanFrame> = []
  let top: ScanFrame | undefined
  let next = expectValue
  let nodes = 0
  let i = 0

  // Set by `string`: where it ends, how long it is, and what is wrong with it.
  let end = 0
  let length = 0
  let fault = ""

  const string = (start: number): boolean => {
    let at = start + 1
    // Escapes are longer in the text than in the string.
    let escapes = 0
    for (;;) {
      plainPattern.lastIndex = at
      plainPattern.test(text)
      at = plainPattern.lastIndex
      const unit = text.charCodeAt(at)
      if (unit === 0x22) {
        end = at + 1
        length = at - start - 1 - escapes
        return true
      }
      if (unit !== 0x5c) {
        fault = at >= text.length ? "the closing quote of a string" : "no control character in a string"
        end = at
        return false
      }
      const escaped = text.charCodeAt(at + 1)
      const size = escaped === 0x75 ? (isHex4(text, at + 2) ? 6 : 0) : isEscape(escaped) ? 2 : 0
      if (size === 0) {
        fault = "an escape that JSON knows"
        end = at
        return false
      }
      at += size
      escapes += size - 1
    }
  }

  const path = (frames: ReadonlyArray<ScanFrame> = stack): string =>
    base.formatPointer(frames.map((frame) => (frame.array ? frame.count - 1 : parseKey(text, frame))))

  const notJson = (expected: string, offset: number) =>
    Result.fail(
      PayloadError.Reason.cases.NotJson.make({
        offset,
        expected,
        found: describeFound(text, offset)
      })
    )

  for (;;) {
    let unit = text.charCodeAt(i)
    while (unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09) unit = text.charCodeAt(++i)

    if (i >= text.length) {
      return next === expectCommaOrClose && top === undefined
        ? Result.succeed(nodes)
        : notJson(expectedTexts[next] ?? "", i)
    }

    if (next === expectCommaOrClose) {
      if (top === undefined) return notJson("nothing after the value", i)
      if (unit === 0x2c) next = top.array ? expectValue : expectKey
      else if (unit === (top.array ? 0x5d : 0x7d)) {
        stack.pop()
        top = stack.at(-1)
      } else return notJson(`"," or "${top.array ? "]" : "}"}"`, i)
      i += 1
      continue
    }

    if (next === expectColon) {
      if (unit !== 0x3a) return notJson(`":"`, i)
      next = expectValue
      i += 1
      continue
    }

    if (top !== undefined && (next === expectKey || next === expectKeyOrClose)) {
      if (unit === 0x7d && next === expectKeyOrClose) {
        next = expectCommaOrClose
        continue
      }
      if (unit !== 0x22) return notJson(expectedTexts[next] ?? "", i)
      if (!string(i)) return notJson(fault, end)
      if (length > limits.maxStringLength) {
        return Result.fail(
          PayloadError.Reason.cases.TooLarge.make({
            what: "string",
            limit: limits.maxStringLength,
            found: length,
            path: path(stack.slice(0, -1))
          })
        )
      }
      top.keyStart = i
      top.keyEnd = end
      if (top.keys !== undefined) {
        const key = parseKey(text, top)
        if (top.keys.has(key)) {
          return Result.fail(
            PayloadError.Reason.cases.NotJson.make({
              offset: i,
              expected: "each key once in an object",
              found: `${base.quote(key)} again`
            })
          )
        }
        top.keys.add(key)
      }
      next = expectColon
      i = end
      continue
    }

    if (unit === 0x5d && next === expectValueOrClose) {
      next = expectCommaOrClose
      continue
    }

    nodes += 1
    if (nodes > limits.maxNodes) {
      return Result.fail(
        PayloadError.Reason.cases.TooLarge.make({ what: "nodes", limit: limits.maxNodes, found: nodes, path: "" })
      )
    }
    if (top !== undefined && top.array && ++top.count > limits.maxArrayLength) {
      return Result.fail(
        PayloadError.Reason.cases.TooLarge.make({
          what: "array",
          limit: limits.maxArrayLength,
          found: top.count,
          path: path(stack.slice(0, -1))
        })
      )
    }

    if (unit === 0x22) {
      if (!string(i)) return notJson(fault, end)
      if (length > limits.maxStringLength) {
        return Result.fail(
          PayloadError.Reason.cases.TooLarge.make({
            what: "string",
            limit: limits.maxStringLength,
            found: length,
            path: path()
          })
        )
      }
      i = end
      next = expectCommaOrClose
    } else if (unit === 0x5b || unit === 0x7b) {
      if (stack.length >= limits.maxDepth) {
        return Result.fail(PayloadError.Reason.cases.TooDeep.make({ limit: limits.maxDepth, path: path() }))
      }
      const array = unit === 0x5b
      top = { array, count: 0, keyStart: 0, keyEnd: 0, keys: duplicates && !array ? new Set() : undefined }
      stack.push(top)
      next = array ? expectValueOrClose : expectKeyOrClose
      i += 1
    } else {
      const size = scalarLength(text, i)
      if (size === 0) return notJson(expectedTexts[next] ?? "", i)
      i += size
      next = expectCommaOrClose
    }
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

/** Past the end the units are NaN, which is no digit. */
const isHex4 = (text: string, at: number): boolean => {
  for (let i = at; i < at + 4; i++) {
    const unit = text.charCodeAt(i) | 0x20
    if (!((unit >= 0x30 && unit <= 0x39) || (unit >= 0x61 && unit <= 0x66))) return false
  }
  return true
}

/** One of `"\/bfnrt`. */
const isEscape = (unit: number): boolean =>
  unit === 0x22 ||
  unit === 0x5c ||
  unit === 0x2f ||
  unit === 0x62 ||
  unit === 0x66 ||
  unit === 0x6e ||
  unit === 0x72 ||
  unit === 0x74

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

/** No limits but those of the machine. */
export const unlimited: Limits = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: Number.POSITIVE_INFINITY,
  maxNodes: Number.POSITIVE_INFINITY,
  maxStringLength: Number.POSITIVE_INFINITY,
  maxArrayLength: Number.POSITIVE_INFINITY,
  maxTools: Number.POSITIVE_INFINITY,
  maxMessages: Number.POSITIVE_INFINITY,
  maxIssues: 50
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
    } else if (isArray(value)) {
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

// Array.isArray does not narrow readonly arrays out of a union.
const isArray = (value: Schema.Json): value is ReadonlyArray<Schema.Json> => Array.isArray(value)

const holdsPrototype = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.hasOwn(value, "prototype")

type Measure = Extract<PayloadError.Reason, { readonly _tag: "TooLarge" }>["what"]

type JsonContainer = Array<Schema.Json> | Record<string, Schema.Json>

interface CopyFrame {
  readonly source: object
  /** Keys still to visit, or the length of an array. */
  readonly keys: ReadonlyArray<string> | number
  readonly target: JsonContainer
  next: number
  key: string | number
}

const copySucceeded = Symbol()

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
      this.failure = PayloadError.Reason.cases.ForbiddenKey.make({ path: this.path(), key })
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
    if (this.grow(1) !== copySucceeded) return null
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
        this.failure = PayloadError.Reason.cases.Secret.make({ path: this.path(), key: String(key), kind: "redacted" })
      } else this.issue(array ? "a plain array" : "a plain object", "an instance of a class")
      return null
    }
    if (this.stack.length >= this.limits.maxDepth) {
      this.failure = PayloadError.Reason.cases.TooDeep.make({ limit: this.limits.maxDepth, path: this.path() })
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
  grow(bytes: number): typeof copySucceeded | undefined {
    this.size += bytes
    if (this.size <= this.limits.maxBytes) return copySucceeded
    this.tooLarge("bytes", this.limits.maxBytes, this.size, "")
    return undefined
  }

  tooLarge(what: Measure, limit: number, found: number, path: string): null {
    this.failure ??= PayloadError.Reason.cases.TooLarge.make({ what, limit, found, path })
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
