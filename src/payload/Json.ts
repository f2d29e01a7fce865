/**
 * The door for JSON: text and bytes in, plain data out, under limits.
 *
 * Everything that comes from outside passes `parse` or `check`
 * before anything else looks at it, and everything that goes out passes
 * `stringify`. What they let through is plain JSON: no getter, no class
 * instance, no cycle, no `__proto__`, no `constructor` that holds a
 * `prototype`.
 *
 * **Details**
 *
 * - Bytes must be UTF-8. Invalid sequences and a byte order mark are refused.
 * - A key that occurs twice in one object is refused: readers disagree about
 *   which one counts, and that is how data passes a check it should not pass.
 * - A number that does not fit (`1e999`) is refused; one that is merely less
 *   precise than its text is rounded, as `JSON.parse` does.
 * - Lone surrogates are let through, for JSON text can hold them as escapes and
 *   models cut text anywhere. `Digest.canonicalize` refuses them.
 *
 * @since 0.1.0
 */

import type * as Schema from "effect/Schema"
import * as plainJson from "./internal/plainJson.ts"

export {
  check,
  checkObject,
  decode,
  decodeJson,
  encode,
  parse,
  stringify,
  type JsonObject,
  type Options
} from "./internal/plainJson.ts"

/**
 * True for a JSON value that is an object, neither an array nor `null`.
 *
 * **Example** (Narrowing)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Json } from "effect-emissary/payload"
 *
 * assert.deepStrictEqual([Json.isObject({}), Json.isObject([]), Json.isObject(null)], [true, false, false])
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const isObject: (json: Schema.Json | undefined) => json is plainJson.JsonObject = plainJson.isObject
