/**
 * Digests of JSON values.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as PayloadError from "./PayloadError.ts"
import { hashText } from "./internal/base.ts"
import { copyJson } from "./internal/copyJson.ts"
import { type Limits, unlimited } from "./internal/limits.ts"
import { formatPointer, isForbiddenKey, isPlainObject } from "./internal/values.ts"
import { weigh } from "./internal/weigh.ts"

interface Frame {
  readonly source: object
  /** The keys of an object in canonical order. */
  readonly keys: ReadonlyArray<string> | undefined
  readonly size: number
  next: number
}

/**
 * Writes a JSON value in canonical form: no white space, keys ordered by their
 * UTF-16 code units, numbers and strings as ECMAScript writes them.
 *
 * **When to use**
 *
 * Use it to compare, hash or sign two values by their text. `Digest.sha256` returns
 * the digest itself.
 *
 * **Details**
 *
 * Equal values have equal texts; `-0` is `0`. Fails with `Invalid` for a string or key that holds a lone surrogate,
 * which RFC 8785 forbids, and for anything that is not plain JSON, and with `TooLarge` for more than about 64 MiB, or
 * for more than 250,000 values if one of them is deeper than 1,000 levels.
 *
 * **Example** (The order of keys does not matter)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { Digest } from "effect-emissary/payload"
 *
 * const text = Result.getOrThrow(Digest.canonicalize({ b: 1e21, a: [true, null] }))
 * assert.strictEqual(text, `{"a":[true,null],"b":1e+21}`)
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const canonicalize = (json: Schema.Json): Result.Result<string, PayloadError.PayloadError> => {
  // Only a trap of a Proxy can throw here, and the copier reports it.
  const written = Result.try(() =>
    weigh(json, maxSize.maxBytes, maxDepth, "anything") > maxSize.maxBytes
      ? { text: "", path: "" }
      : writeCanonical(json, maxDepth)
  )
  if (Result.isSuccess(written) && written.success.path === undefined) return Result.succeed(written.success.text)
  return Result.mapError(
    Result.flatMap(copyJson(json, maxSize), (copy) => {
      const { path, text } = writeCanonical(copy, Number.POSITIVE_INFINITY)
      if (path === undefined) return Result.succeed(text)
      return Result.fail(PayloadError.invalid([{ path, expected: "well-formed Unicode", found: "a lone surrogate" }]))
    }),
    (reason) => new PayloadError.PayloadError({ what: "canonical JSON", reason })
  )
}

/** A few objects can refer to each other along any number of paths, and the text has each path. */
const maxSize: Limits = { ...unlimited, maxNodes: 250_000, maxBytes: 64 * 1024 * 1024 }

const maxDepth = 1000

interface Written {
  readonly text: string
  /** The first place that has no canonical form: it is no plain JSON, too deep, or holds a lone surrogate. */
  readonly path: string | undefined
}

/** Writes plain JSON. It reads members by their descriptors, so no code of theirs runs. */
const writeCanonical = (json: unknown, maxDepth: number): Written => {
  const stack: Array<Frame> = []
  let text = ""
  let value = json
  for (;;) {
    if (typeof value === "object" && value !== null) {
      const frame = stack.length < maxDepth ? openFrame(value) : undefined
      if (frame === undefined) return { text, path: pathOf(stack) }
      text += frame.keys === undefined ? "[" : "{"
      stack.push(frame)
    } else {
      const scalar = writeScalar(value)
      if (scalar === undefined) return { text, path: pathOf(stack) }
      text += scalar
    }

    let frame = stack.at(-1)
    while (frame !== undefined && frame.next >= frame.size) {
      text += frame.keys === undefined ? "]" : "}"
      stack.pop()
      frame = stack.at(-1)
    }
    if (frame === undefined) return { text, path: undefined }

    if (frame.next > 0) text += ","
    const key = frame.keys?.[frame.next] ?? frame.next
    frame.next += 1
    const member = Object.getOwnPropertyDescriptor(frame.source, key)
    value = member?.enumerable === true ? member.value : undefined
    if (typeof key === "string") {
      const name = isForbiddenKey(key, value) ? undefined : writeScalar(key)
      if (name === undefined) return { text, path: pathOf(stack) }
      text += `${name}:`
    }
  }
}

const pathOf = (stack: ReadonlyArray<Frame>) =>
  formatPointer(stack.map(({ keys, next }) => keys?.[next - 1] ?? next - 1))

/** A text that `JSON.stringify` would only put in quotes. */
const simpleText = /^[\w -]{0,64}$/

/** ECMAScript writes numbers and strings just as RFC 8785 asks (3.2.2.2, 3.2.2.3). */
const writeScalar = (value: unknown): string | undefined => {
  if (typeof value === "string") {
    if (simpleText.test(value)) return `"${value}"`
    return /\p{Surrogate}/u.test(value) ? undefined : JSON.stringify(value)
  }
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : undefined
  return typeof value === "boolean" || value === null ? String(value) : undefined
}

const openFrame = (source: object): Frame | undefined => {
  const array = Array.isArray(source)
  if (!isPlainObject(source, array)) return undefined
  const names = Reflect.ownKeys(source)
  // An array has its items and its length
  if (array && names.length !== source.length + 1) return undefined
  if (array) return { source, keys: undefined, size: source.length, next: 0 }
  // Without an argument, sort compares UTF-16 code units.
  const keys = names.every((name) => typeof name === "string") ? names.sort() : undefined
  return keys && { source, keys, size: keys.length, next: 0 }
}

/**
 * The SHA-256 digest of a JSON value's canonical form (RFC 8785, UTF-8), as
 * `"sha256:"` and 64 lowercase hexadecimal digits.
 *
 * **When to use**
 *
 * To compare two values as JSON, whatever the order of their
 * keys, also across machines and releases.
 *
 * **Details**
 *
 * Fails as `Digest.canonicalize` does. Computed at once, without WebCrypto,
 * so that a program under a test clock stays in its hands.
 *
 * **Example** (Same JSON, same digest)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Digest } from "effect-emissary/payload"
 *
 * const [a, b] = await Effect.runPromise(
 *   Effect.all([Digest.sha256({ x: 1, y: [2] }), Digest.sha256({ y: [2], x: 1 })])
 * )
 * assert.strictEqual(a, b)
 * assert.match(a, /^sha256:[0-9a-f]{64}$/)
 * ```
 *
 * @category digests
 * @since 0.1.0
 */
export const sha256 = (json: Schema.Json): Effect.Effect<string, PayloadError.PayloadError> =>
  Effect.map(Effect.fromResult(canonicalize(json)), hashText)
