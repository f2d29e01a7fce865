/**
 * The one text of a JSON value: JSON Canonicalization Scheme, RFC 8785.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { copy, unlimited } from "./internal/plain.ts"
import { pointer } from "./internal/pointer.ts"
import { invalid, PayloadError, type Reason } from "./PayloadError.ts"

const LONE_SURROGATE = /\p{Surrogate}/u

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
 * import { CanonicalJson } from "effect-emissary"
 *
 * const text = Result.getOrThrow(CanonicalJson.stringify({ b: 1e21, a: [true, null] }))
 * assert.strictEqual(text, `{"a":[true,null],"b":1e+21}`)
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const stringify = (json: Schema.Json): Result.Result<string, PayloadError> =>
  Result.mapError(
    Result.flatMap(copy(json, unlimited), write),
    (reason) => new PayloadError({ what: "canonical JSON", reason })
  )

const write = (json: Schema.Json): Result.Result<string, Reason> => {
  const stack: Array<Frame> = []
  let text = ""
  const path = () => pointer(stack.map((frame) => frame.keys?.[frame.next - 1] ?? frame.next - 1))

  let value: Schema.Json | undefined = json
  for (;;) {
    if (typeof value === "object" && value !== null) {
      const frame = open(value)
      text += frame.keys === undefined ? "[" : "{"
      stack.push(frame)
    } else if (value !== undefined) {
      if (typeof value === "string" && LONE_SURROGATE.test(value)) return Result.fail(lone(path()))
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
      if (LONE_SURROGATE.test(key)) return Result.fail(lone(path()))
      text += `${JSON.stringify(key)}:`
    }
  }
}

const open = (value: Schema.JsonArray | Schema.JsonObject): Frame => {
  if (isArray(value)) return { keys: undefined, values: value, next: 0 }
  // Without an argument, sort compares UTF-16 code units.
  const keys = Object.keys(value).sort()
  return { keys, values: keys.map((key) => value[key] ?? null), next: 0 }
}

// Array.isArray does not narrow readonly arrays out of a union.
const isArray = (value: Schema.JsonArray | Schema.JsonObject): value is Schema.JsonArray => Array.isArray(value)

const lone = (path: string) => invalid([{ path, expected: "well-formed Unicode", found: "a lone surrogate" }])
