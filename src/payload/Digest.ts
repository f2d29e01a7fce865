/**
 * Digests of JSON values.
 *
 * @since 0.1.0
 */
import { sha256 as hash } from "@noble/hashes/sha2.js"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import type * as Schema from "effect/Schema"
import * as CanonicalJson from "./CanonicalJson.ts"
import type { PayloadError } from "./PayloadError.ts"

/**
 * The SHA-256 digest of a JSON value's canonical form (RFC 8785, UTF-8), as
 * `"sha256:"` and 64 lowercase hexadecimal digits.
 *
 * **When to use**
 *
 * To tell whether two values are the same JSON, whatever the order of their
 * keys, also across machines and releases.
 *
 * **Details**
 *
 * Fails as `CanonicalJson.stringify` does. Computed at once, without WebCrypto,
 * so that a program under a test clock stays in its hands.
 *
 * **Example** (Same JSON, same digest)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Digest } from "effect-emissary"
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
export const sha256 = (json: Schema.Json): Effect.Effect<string, PayloadError> =>
  Effect.map(
    Effect.fromResult(CanonicalJson.stringify(json)),
    (text) => `sha256:${Hex.encode(hash(new TextEncoder().encode(text)))}`
  )
