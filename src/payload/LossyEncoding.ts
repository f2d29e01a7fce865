/**
 * The error of writing a value in an older version that cannot hold all of it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as internal from "./internal/messages.ts"

/**
 * One thing that the chosen version cannot hold.
 *
 * **Details**
 *
 * `path` is a JSON Pointer into the value as the newest version writes it,
 * `what` says in words what would be lost.
 *
 * @category models
 * @since 0.1.0
 */
export const Loss = Schema.Struct({ path: Schema.String, what: Schema.String })

/**
 * One thing that the chosen version cannot hold.
 *
 * @category models
 * @since 0.1.0
 */
export type Loss = typeof Loss.Type

/**
 * Writing in an older version would lose something that the call did not allow
 * to be lost.
 *
 * **Details**
 *
 * `losses` holds what was not allowed. Repeat the call with
 * `allowLoss: error.losses`, or with those paths, to lose exactly that.
 *
 * **Example** (What the error says)
 *
 * ```ts
 * import assert from "node:assert"
 * import { LossyEncoding } from "effect-emissary"
 *
 * const error = new LossyEncoding.LossyEncoding({
 *   what: "note",
 *   version: 1,
 *   losses: [{ path: "/tags", what: "tags" }]
 * })
 * assert.match(error.message, /^note: version 1 cannot hold tags \(at \/tags\)/)
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class LossyEncoding extends Schema.TaggedError<LossyEncoding>("effect-emissary/payload/LossyEncoding")(
  "LossyEncoding",
  { what: Schema.String, version: Schema.Int, losses: Schema.Array(Loss) }
) {
  override get message(): string {
    return internal.lossy(this)
  }
}
