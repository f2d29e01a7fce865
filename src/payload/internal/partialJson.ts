/**
 * A reader of JSON that arrives in pieces. It follows the shape of the value that is expected, and returns each part as soon as the part is
 * complete, and texts while they grow. It reads each character once. Text around a value is passed over. A value that is malformed, or
 * passes a limit, has no more parts.
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { Limits } from "./limits.ts"
import { parseSized } from "./textScanner.ts"
import type { JsonObject } from "./values.ts"

/** The members of an `object` and the items of an `array` are parts. A `string` grows. Every other value is `whole`, and one part. */
export interface Shape<out Self> {
  readonly kind: "object" | "array" | "string" | "whole"
  /** The shape of a member, or of the item at an index. The members without one are left out. */
  readonly member: (key: string | number) => Self | undefined
}

/** The place of a part in the value. */
export type Path = ReadonlyArray<string | number>

/**
 * A part that is complete, with its shape unless it is the beginning of an object or array, a piece of a text that grows, or, with neither,
 * the beginning of another value in place of this one.
 */
export type Piece<Self> =
  | { readonly path: Path; readonly value: Schema.Json; readonly shape?: Self }
  | { readonly path: Path; readonly text: string }
  | { readonly path: Path }

/** An object or array that is read, with its newest key or index. */
interface Frame<Self> {
  readonly shape: Self
  readonly empty: JsonObject | ReadonlyArray<never>
  readonly keys: Set<string | number>
  key: string | number
}

// oxlint-disable-next-line no-control-regex
const plain = /[^"\\\u0000-\u001f\ud800-\udbff]*/y

/** A pair of halves of a character, or an escape, or two escapes that are a pair. */
const unit =
  /[\ud800-\udbff][\udc00-\udfff]|\\(?:["\\/bfnrt]|u(?![dD][89abAB])[\da-fA-F]{4}|u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2})/y

/** The beginning of a unit at the end of a piece. */
const begun =
  /(?:\\(?:u[\da-fA-F]{0,3})?|(?:\\u[dD][89abAB][\da-fA-F]{2}|[\ud800-\udbff])(?:\\(?:u(?:[dD](?:[c-fC-F][\da-fA-F]?)?)?)?)?)$/y

/** Half a character alone. */
const half = /\\u[dD][89abAB][\da-fA-F]{2}|[\ud800-\udbff]/y

/** The end of a match at an offset, or -1. */
const endOf = (pattern: RegExp, text: string, at: number): number => {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : -1
}

export class PartialJson<Self extends Shape<Self>> {
  private state: "outside" | "first" | "next" | "colon" | "value" | "after" | "text" | "raw" | "over" = "outside"
  private readonly frames: Array<Frame<Self>> = []
  /** The text of a value or key that is read as a whole, or the beginning of a unit of a text that grows. */
  private raw = ""
  private depth = 0
  private isQuoted = false
  private isEscaped = false
  /** The shape of the value that is read as a whole, which is left out without one. */
  private reads: Self | "key" | undefined
  private given: Array<Piece<Self>> = []
  private isNew = true
  private isShown = false
  private readonly root: (bracket: string) => Self | undefined
  private readonly limits: Limits

  /** `root`: the shape of a value that begins with a bracket, where one is read. */
  constructor(root: (bracket: string) => Self | undefined, limits: Limits) {
    this.root = root
    this.limits = limits
  }

  /** The parts that a piece of the text completes. */
  add(piece: string): ReadonlyArray<Piece<Self>> {
    this.given = []
    for (let at = 0; at < piece.length && this.state !== "over";) {
      if (this.state === "text") at = this.grow(piece, at)
      else at = this.state === "raw" ? this.read(piece, at) : this.step(piece, at)
    }
    return this.given
  }

  private give(piece: Piece<Self>): void {
    if (this.isNew && this.isShown) this.given.push({ path: [] })
    this.isNew = false
    this.isShown = true
    this.given.push(piece)
  }

  private get path(): Path {
    return this.frames.map(({ key }) => key)
  }

  /** Another text begins, whose value takes the place of this one. */
  restart(): void {
    this.frames.length = 0
    this.raw = ""
    this.depth = 0
    this.isQuoted = false
    this.isEscaped = false
    this.state = "outside"
  }

  /** The value cannot be read. What follows its first key or item is a part of no other value. */
  private leave(at: number): number {
    const isBegun = (this.frames[0]?.keys.size ?? 0) > 0
    this.restart()
    this.state = isBegun ? "over" : "outside"
    return at
  }

  /** Opens an object or array. The outermost one is shown with its first part. */
  private open(shape: Self, bracket: string, at: number): number {
    const empty = bracket === "{" ? {} : []
    if (this.frames.length >= this.limits.maxDepth) return this.leave(at)
    if (this.frames.length > 0) this.give({ path: this.path, value: empty })
    else this.isNew = true
    this.frames.push({ shape, empty, keys: new Set(), key: -1 })
    this.state = "first"
    return at
  }

  private close(at: number): number {
    const { empty, keys } = this.frames.pop() ?? {}
    this.state = "after"
    if (this.frames.length > 0) return at
    if (keys?.size === 0 && empty !== undefined) this.give({ path: [], value: empty })
    this.restart()
    return at
  }

  /** Reads a character between values. */
  private step(piece: string, at: number): number {
    const { frames, state } = this
    const char = piece.charAt(at)
    const frame = frames.at(-1)
    const next = at + 1
    if (frame === undefined) {
      const shape = char === "{" || char === "[" ? this.root(char) : undefined
      return shape === undefined ? next : this.open(shape, char, next)
    }
    if (char === " " || char === "\n" || char === "\r" || char === "\t") return next
    const isArray = Array.isArray(frame.empty)
    if ((state === "first" || state === "after") && char === (isArray ? "]" : "}")) return this.close(next)
    if (state === "value") return this.begin(frame, char, at)
    if (state === "first" || state === "next") {
      if (isArray) return this.enter(frame, Number(frame.key) + 1) ? this.begin(frame, char, at) : this.leave(next)
      return char === '"' ? this.readWhole("key", at) : this.leave(next)
    }
    if (char !== (state === "colon" ? ":" : ",")) return this.leave(next)
    this.state = state === "colon" ? "value" : "next"
    return next
  }

  /** False for a key that an object has twice, and for a member too many. */
  private enter(frame: Frame<Self>, key: string | number): boolean {
    const { maxArrayLength, maxKeys } = this.limits
    if (frame.keys.has(key) || frame.keys.size >= (typeof key === "number" ? maxArrayLength : maxKeys)) return false
    frame.keys.add(key)
    frame.key = key
    return true
  }

  private begin(frame: Frame<Self>, char: string, at: number): number {
    const shape = frame.shape.member(frame.key)
    if ((char === "{" && shape?.kind === "object") || (char === "[" && shape?.kind === "array"))
      return this.open(shape, char, at + 1)
    if (char !== '"' || shape?.kind !== "string") return this.readWhole(shape, at)
    this.give({ path: this.path, text: "" })
    this.state = "text"
    return at + 1
  }

  private readWhole(shape: Self | "key" | undefined, at: number): number {
    this.reads = shape
    this.state = "raw"
    return at
  }

  /** Reads a value or a key as a whole. A number ends where something else begins. */
  private read(piece: string, start: number): number {
    for (let at = start; at < piece.length; at++) {
      const char = piece.charAt(at)
      let isLast = false
      if (this.isEscaped) this.isEscaped = false
      else if (this.isQuoted) {
        this.isEscaped = char === "\\"
        this.isQuoted = char !== '"'
        isLast = !this.isQuoted && this.depth === 0
      } else if (char === '"') this.isQuoted = true
      else if (char === "{" || char === "[") this.depth += 1
      else if (this.depth > 0) {
        if (char === "}" || char === "]") this.depth -= 1
        isLast = this.depth === 0
      } else if (/[\s,:\]}]/.test(char)) return this.end(piece, start, at)
      if (isLast) return this.end(piece, start, at + 1)
    }
    if (this.reads !== undefined) this.raw += piece.slice(start)
    return piece.length
  }

  private end(piece: string, start: number, end: number): number {
    const { reads } = this
    const frame = this.frames.at(-1)
    const text = this.raw + piece.slice(start, end)
    this.raw = ""
    this.state = "after"
    if (reads === undefined || frame === undefined) return end
    const parsed = parseSized(text, this.limits)
    // A character that begins no value has to be passed over
    if (Result.isFailure(parsed)) return this.leave(Math.max(end, start + 1))
    const { success: value } = parsed
    if (reads !== "key") this.give({ path: this.path, shape: reads, value })
    else if (typeof value !== "string" || !this.enter(frame, value)) return this.leave(end)
    else this.state = "colon"
    return end
  }

  /** Reads a text that grows, as far as its characters are complete. */
  private grow(piece: string, at: number): number {
    const { raw } = this
    const text = raw === "" ? piece : raw + piece.slice(at)
    const start = raw === "" ? at : 0
    let end = start
    for (let next = start; next >= 0;) {
      end = endOf(plain, text, next)
      next = endOf(unit, text, end)
      const isOpen = end === text.length || endOf(begun, text, end) >= 0
      if (next < 0 && !isOpen) next = endOf(half, text, end)
    }
    // Sound: characters and escapes that are complete are a text of JSON
    const grown = JSON.parse(`"${text.slice(start, end)}"`) as string
    if (grown !== "") this.give({ path: this.path, text: grown })
    const consumed = at - raw.length - start
    this.raw = ""
    if (text.charAt(end) === '"') {
      this.state = "after"
      return consumed + end + 1
    }
    if (end < text.length && endOf(begun, text, end) < 0) return this.leave(consumed + end + 1)
    this.raw = text.slice(end)
    return piece.length
  }
}
