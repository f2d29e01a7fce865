/**
 * Digests of JSON values.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { PayloadError } from "./PayloadError.ts"

/**
 * The SHA-256 digest of a JSON value's canonical form, as `"sha256:<hex>"`.
 *
 * @category digests
 * @since 0.1.0
 */
export const sha256 = (_json: Schema.Json): Effect.Effect<string, PayloadError> => Effect.die("not yet")
