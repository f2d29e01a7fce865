/**
 * Digests of JSON values.
 *
 * @since 0.1.0
 */

import { sha256 as hash } from "@noble/hashes/sha2.js"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Hex from "effect/encoding/Hex"
import * as PayloadError from "./PayloadError.ts"
import * as jsonReader from "./internal/jsonReader.ts"
import * as base from "./internal/base.ts"

const loneSurrogate = /\p{Surrogate}/u

interface Part {
  readonly value: Schema.Json
  readonly at: base.Location | undefined
}

/**
 * Writes a JSON value in canonical form: no white space, keys ordered by their
 * UTF-16 code units, numbers and strings as ECMAScript writes them.
 *
 * **When to use**
 *
 * Where two values have to be compared, hashed or signed by their text. For
 * digests there is `Digest.sha256`.
 *
 * **Details**
 *
 * Equal values have equal texts; `-0` is `0`. Fails with `Invalid` for a string
 * or key that holds a lone surrogate, which RFC 8785 forbids, and for anything
 * that is not plain JSON.
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
export const canonicalize = (json: Schema.Json): Result.Result<string, PayloadError.PayloadError> =>
  Result.mapError(
    Result.flatMap(jsonReader.copyJson(json, jsonReader.unlimited), writeCanonical),
    (reason) => new PayloadError.PayloadError({ what: "canonical JSON", reason })
  )

/** Works on a list of what is still to be written, because values may be deeper than the stack. */
const writeCanonical = (json: Schema.Json): Result.Result<string, PayloadError.Reason> => {
  let text = ""
  const open: Array<string | Part> = [{ value: json, at: undefined }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next === "string") {
      text += next
      continue
    }
    if (isBroken(next.value) || isBroken(next.at?.key)) {
      const problem = { path: base.toPointer(next.at), expected: "well-formed Unicode", found: "a lone surrogate" }
      return Result.fail(PayloadError.invalid([problem]))
    }
    for (const part of partsOf(next).reverse()) open.push(part)
  }
  return Result.succeed(text)
}

const isBroken = (text: unknown): boolean => typeof text === "string" && loneSurrogate.test(text)

/** The members of a value, with the text around them. */
const partsOf = ({ at, value }: Part): Array<string | Part> => {
  const comma = (index: number) => (index === 0 ? "" : ",")
  if (base.isArray(value)) {
    const items = value.flatMap((item, i) => [comma(i), { value: item, at: base.childLocation(at, i) }])
    return ["[", ...items, "]"]
  }
  // JSON.stringify writes numbers and strings just as RFC 8785 asks (3.2.2.2, 3.2.2.3).
  if (!base.isObject(value)) return [JSON.stringify(value)]
  // Without an argument, sort compares UTF-16 code units.
  const keys = Object.keys(value).sort()
  const members = keys.flatMap((key, i) => [
    `${comma(i)}${JSON.stringify(key)}:`,
    { value: value[key] ?? null, at: base.childLocation(at, key) }
  ])
  return ["{", ...members, "}"]
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
  Effect.map(
    Effect.fromResult(canonicalize(json)),
    (text) => `sha256:${Hex.encode(hash(new TextEncoder().encode(text)))}`
  )
