/**
 * Digests of JSON values.
 *
 * @since 0.1.0
 */
import * as Crypto from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
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
 * Fails as `CanonicalJson.stringify` does. Runs on WebCrypto, which every
 * runtime of Effect has; a web page must be served securely.
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
  Effect.flatMap(Effect.fromResult(CanonicalJson.stringify(json)), (text) =>
    Crypto.Digest.use((digest) => digest.digestHex(Crypto.sha256, new TextEncoder().encode(text))).pipe(
      Effect.map((hex) => `sha256:${hex}`),
      Effect.provide(Crypto.layerWebCrypto)
    )
  )
