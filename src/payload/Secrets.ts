/**
 * Finds secrets in data that is about to be written: keys such as `apiKey`, and `Redacted` values.
 *
 * @since 0.1.0
 */

import * as Option from "effect/Option"
import * as plainJson from "./internal/plainJson.ts"

/**
 * The keys under which nothing may be written, without case and separators.
 *
 * @category models
 * @since 0.1.0
 */
export const secretNames: ReadonlySet<string> = plainJson.secretNames

/**
 * True for a key on the published list.
 *
 * **Example** (Without case and separators, and as a whole)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Secrets } from "effect-emissary/payload"
 *
 * assert.ok(["api_key", "apiKey", "X-Api-Key", "Client Secret"].every(Secrets.isSecretName))
 * assert.ok(!["max_tokens", "prompt_cache_key", "key", "token"].some(Secrets.isSecretName))
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const isSecretName: (key: string) => boolean = plainJson.isSecretName

/**
 * The first secret in a value, in the order in which it is written: its path as a
 * JSON Pointer, its key, and whether the key is secret or the value `Redacted`. The
 * value is not part of it.
 *
 * **Details**
 *
 * Looks at every member of arrays, objects, class instances, maps and sets, at
 * any depth. Getters are not called.
 *
 * **Example** (A key, and a Redacted value)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Option, Redacted } from "effect"
 * import { Secrets } from "effect-emissary/payload"
 *
 * const found = Secrets.find({ modelOptions: { headers: { Authorization: "Bearer abc" } } })
 * assert.strictEqual(Option.getOrThrow(found).path, "/modelOptions/headers/Authorization")
 *
 * const redacted = Secrets.find([Redacted.make("abc")])
 * assert.strictEqual(Option.getOrThrow(redacted).kind, "redacted")
 * ```
 *
 * @category searching
 * @since 0.1.0
 */
export const find = (value: unknown): Option.Option<plainJson.Secret> =>
  Option.fromUndefinedOr(plainJson.findSecret(value))
