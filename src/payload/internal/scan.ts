import * as Result from "effect/Result"
import type { Limits } from "../Limits.ts"
import { NotJson, type Reason, TooDeep, TooLarge } from "../PayloadError.ts"
import { short } from "./messages.ts"
import { pointer } from "./pointer.ts"

// What may come next.
const VALUE = 0
const VALUE_OR_CLOSE = 1
const KEY = 2
const KEY_OR_CLOSE = 3
const COLON = 4
const COMMA_OR_CLOSE = 5

const expected = [
  "a JSON value",
  `a JSON value or "]"`,
  "a key in double quotes",
  `a key in double quotes or "}"`,
  `":"`,
  `"," or the end of the array or object`
]

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y

/** What a string holds as it is; matches nothing at all too, and so always. */
// oxlint-disable-next-line no-control-regex
const PLAIN = /[^"\\\u0000-\u001f]*/y

interface Frame {
  readonly array: boolean
  /** Items seen so far. */
  count: number
  /** Where the text of the current key begins and ends. */
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
export const scan = (text: string, limits: Limits, duplicates: boolean = false): Result.Result<number, Reason> => {
  const stack: Array<Frame> = []
  let top: Frame | undefined
  let next = VALUE
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
      PLAIN.lastIndex = at
      PLAIN.test(text)
      at = PLAIN.lastIndex
      const unit = text.charCodeAt(at)
      if (unit === 0x22) {
        end = at + 1
        length = at - start - 1 - escapes
        return true
      }
      if (unit !== 0x5c) {
        fault =
          at >= text.length ? "expected the closing quote of a string" : "expected no control character in a string"
        end = at
        return false
      }
      const escaped = text.charCodeAt(at + 1)
      const size = escaped === 0x75 ? (isHex4(text, at + 2) ? 6 : 0) : isEscape(escaped) ? 2 : 0
      if (size === 0) {
        fault = "expected an escape that JSON knows"
        end = at
        return false
      }
      at += size
      escapes += size - 1
    }
  }

  const path = (frames: ReadonlyArray<Frame> = stack): string =>
    pointer(frames.map((frame) => (frame.array ? frame.count - 1 : keyOf(text, frame))))

  const notJson = (what: string, offset: number) =>
    Result.fail(
      new NotJson({
        offset,
        message: `not JSON at offset ${offset}: ${what}, found ${found(text, offset)}. Send one JSON text`
      })
    )

  for (;;) {
    let unit = text.charCodeAt(i)
    while (unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09) unit = text.charCodeAt(++i)

    if (i >= text.length) {
      return next === COMMA_OR_CLOSE && top === undefined
        ? Result.succeed(nodes)
        : notJson(`expected ${expected[next]}`, i)
    }

    if (next === COMMA_OR_CLOSE) {
      if (top === undefined) return notJson("expected nothing after the value", i)
      if (unit === 0x2c) next = top.array ? VALUE : KEY
      else if (unit === (top.array ? 0x5d : 0x7d)) {
        stack.pop()
        top = stack.at(-1)
      } else return notJson(`expected "," or "${top.array ? "]" : "}"}"`, i)
      i += 1
      continue
    }

    if (next === COLON) {
      if (unit !== 0x3a) return notJson(`expected ":"`, i)
      next = VALUE
      i += 1
      continue
    }

    if (top !== undefined && (next === KEY || next === KEY_OR_CLOSE)) {
      if (unit === 0x7d && next === KEY_OR_CLOSE) {
        next = COMMA_OR_CLOSE
        continue
      }
      if (unit !== 0x22) return notJson(`expected ${expected[next]}`, i)
      if (!string(i)) return notJson(fault, end)
      if (length > limits.maxStringLength) {
        return Result.fail(
          new TooLarge({ what: "string", limit: limits.maxStringLength, found: length, path: path(stack.slice(0, -1)) })
        )
      }
      top.keyStart = i
      top.keyEnd = end
      if (top.keys !== undefined) {
        const key = keyOf(text, top)
        if (top.keys.has(key)) {
          return Result.fail(
            new NotJson({
              offset: i,
              message: `ambiguous JSON at offset ${i}: expected each key once in an object, found ${JSON.stringify(short(key))} again. Remove one`
            })
          )
        }
        top.keys.add(key)
      }
      next = COLON
      i = end
      continue
    }

    if (unit === 0x5d && next === VALUE_OR_CLOSE) {
      next = COMMA_OR_CLOSE
      continue
    }

    nodes += 1
    if (nodes > limits.maxNodes) {
      return Result.fail(new TooLarge({ what: "nodes", limit: limits.maxNodes, found: nodes, path: "" }))
    }
    if (top !== undefined && top.array && ++top.count > limits.maxArrayLength) {
      return Result.fail(
        new TooLarge({
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
        return Result.fail(new TooLarge({ what: "string", limit: limits.maxStringLength, found: length, path: path() }))
      }
      i = end
      next = COMMA_OR_CLOSE
    } else if (unit === 0x5b || unit === 0x7b) {
      if (stack.length >= limits.maxDepth) {
        return Result.fail(new TooDeep({ limit: limits.maxDepth, path: path() }))
      }
      const array = unit === 0x5b
      top = { array, count: 0, keyStart: 0, keyEnd: 0, keys: duplicates && !array ? new Set() : undefined }
      stack.push(top)
      next = array ? VALUE_OR_CLOSE : KEY_OR_CLOSE
      i += 1
    } else {
      const size = scalar(text, i)
      if (size === 0) return notJson(`expected ${expected[next]}`, i)
      i += size
      next = COMMA_OR_CLOSE
    }
  }
}

// Sound: the scanner accepted the slice as a JSON string.
const keyOf = (text: string, frame: Frame): string => JSON.parse(text.slice(frame.keyStart, frame.keyEnd)) as string

/** The length of a number, `true`, `false` or `null` at `i`, or 0. */
const scalar = (text: string, i: number): number => {
  if (text.startsWith("true", i) || text.startsWith("null", i)) return 4
  if (text.startsWith("false", i)) return 5
  NUMBER.lastIndex = i
  return NUMBER.test(text) ? NUMBER.lastIndex - i : 0
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

const found = (text: string, offset: number): string => {
  const point = text.codePointAt(offset)
  if (point === undefined) return "the end of the text"
  if (point === 0xfeff) return "a byte order mark (U+FEFF)"
  return point > 0x20 && point < 0x7f
    ? JSON.stringify(String.fromCodePoint(point))
    : `U+${point.toString(16).toUpperCase().padStart(4, "0")}`
}
