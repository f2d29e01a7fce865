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
import * as plainJson from "./internal/plainJson.ts"

const loneSurrogate = /\p{Surrogate}/u

interface Frame {
  readonly keys: ReadonlyArray<string> | undefined
  readonly values: ReadonlyArray<Schema.Json>
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
    Result.flatMap(plainJson.copyJson(json, plainJson.unlimited), writeCanonical),
    (reason) => new PayloadError.PayloadError({ what: "canonical JSON", reason })
  )

const writeCanonical = (json: Schema.Json): Result.Result<string, PayloadError.Reason> => {
  const stack: Array<Frame> = []
  let text = ""
  const path = () => plainJson.formatPointer(stack.map((frame) => frame.keys?.[frame.next - 1] ?? frame.next - 1))

  let value: Schema.Json | undefined = json
  for (;;) {
    if (typeof value === "object" && value !== null) {
      const frame = openFrame(value)
      text += frame.keys === undefined ? "[" : "{"
      stack.push(frame)
    } else if (value !== undefined) {
      if (typeof value === "string" && loneSurrogate.test(value)) return Result.fail(loneSurrogateAt(path()))
      // JSON.stringify writes numbers and strings just as RFC 8785 asks (3.2.2.2, 3.2.2.3).
      text += JSON.stringify(value)
    }

    let frame = stack.at(-1)
    while (frame !== undefined && frame.next >= frame.values.length) {
      text += frame.keys === undefined ? "]" : "}"
      stack.pop()
      frame = stack.at(-1)
    }
    if (frame === undefined) return Result.succeed(text)

    if (frame.next > 0) text += ","
    value = frame.values[frame.next]
    const key = frame.keys?.[frame.next]
    frame.next += 1
    if (key !== undefined) {
      if (loneSurrogate.test(key)) return Result.fail(loneSurrogateAt(path()))
      text += `${JSON.stringify(key)}:`
    }
  }
}

const openFrame = (value: Schema.JsonArray | Schema.JsonObject): Frame => {
  if (plainJson.isArray(value)) return { keys: undefined, values: value, next: 0 }
  // Without an argument, sort compares UTF-16 code units.
  const keys = Object.keys(value).sort()
  return { keys, values: keys.map((key) => value[key] ?? null), next: 0 }
}

const loneSurrogateAt = (path: string) =>
  PayloadError.invalid([{ path, expected: "well-formed Unicode", found: "a lone surrogate" }])

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
