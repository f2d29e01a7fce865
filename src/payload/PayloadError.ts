/**
 * The one error of everything that reads untrusted data or writes data for
 * others.
 *
 * A {@link PayloadError} says in `what` which artefact was refused and in
 * `reason` why. Paths are JSON Pointers (RFC 6901): the empty string is the
 * root, `/tools/0/name` the name of the first tool.
 *
 * No message and no field ever holds a string that was found in the data,
 * except names: the key at which something was found, and the version tag.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as internal from "./internal/messages.ts"

/**
 * A place where data does not have the expected form.
 *
 * **Details**
 *
 * `path` is a JSON Pointer, `expected` what should stand there, `found` the
 * kind of what stands there (`"string"`, `"array"`, `"nothing"` ...), never the
 * value itself.
 *
 * @category models
 * @since 0.1.0
 */
export const Issue = Schema.Struct({
  path: Schema.String,
  expected: Schema.String,
  found: Schema.String
})

/**
 * A place where data does not have the expected form.
 *
 * @category models
 * @since 0.1.0
 */
export type Issue = typeof Issue.Type

/**
 * The text or the bytes are not one JSON document.
 *
 * **Details**
 *
 * `offset` counts from 0 to the first character that cannot stand where it
 * stands: UTF-16 code units when a string was read, bytes when bytes were read.
 * `message` says what was expected there.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NotJson extends Schema.TaggedError<NotJson>("effect-emissary/payload/NotJson")("NotJson", {
  offset: Schema.Int,
  message: Schema.String
}) {}

/**
 * What a {@link TooLarge} reason counted.
 *
 * @category models
 * @since 0.1.0
 */
export const Measure = Schema.Literals(["bytes", "nodes", "string", "array", "tools", "messages"])

/**
 * What a {@link TooLarge} reason counted.
 *
 * @category models
 * @since 0.1.0
 */
export type Measure = typeof Measure.Type

/**
 * A count went over its limit.
 *
 * **Details**
 *
 * `found` is the number counted when reading stopped, so the real size may be
 * larger. `path` is where the count was taken.
 *
 * @category reasons
 * @since 0.1.0
 */
export class TooLarge extends Schema.TaggedError<TooLarge>("effect-emissary/payload/TooLarge")("TooLarge", {
  what: Measure,
  limit: Schema.Finite,
  found: Schema.Int,
  path: Schema.String
}) {
  override get message(): string {
    return internal.tooLarge(this)
  }
}

/**
 * Arrays and objects are nested deeper than the limit; `path` is the first
 * container that is too deep.
 *
 * @category reasons
 * @since 0.1.0
 */
export class TooDeep extends Schema.TaggedError<TooDeep>("effect-emissary/payload/TooDeep")("TooDeep", {
  limit: Schema.Finite,
  path: Schema.String
}) {
  override get message(): string {
    return internal.tooDeep(this)
  }
}

/**
 * A key that may not occur: `__proto__`, a `constructor` that holds a
 * `prototype`, or, where keys are names, the name of an inherited member.
 *
 * **Details**
 *
 * `path` leads to the key itself and ends with it.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ForbiddenKey extends Schema.TaggedError<ForbiddenKey>("effect-emissary/payload/ForbiddenKey")(
  "ForbiddenKey",
  { path: Schema.String, key: Schema.String }
) {
  override get message(): string {
    return internal.forbiddenKey(this)
  }
}

/**
 * The version tag is missing, of the wrong type, or none of the supported
 * versions.
 *
 * **Details**
 *
 * `found` is the tag if it is a number, a boolean, `null` or a (shortened)
 * string, and `null` otherwise; `kind` tells `"nothing"`, `"null"`, `"array"`
 * ... apart.
 *
 * @category reasons
 * @since 0.1.0
 */
export class UnsupportedVersion extends Schema.TaggedError<UnsupportedVersion>(
  "effect-emissary/payload/UnsupportedVersion"
)("UnsupportedVersion", {
  field: Schema.String,
  found: Schema.Union([Schema.Finite, Schema.String, Schema.Boolean, Schema.Null]),
  kind: Schema.String,
  supported: Schema.Array(Schema.Int)
}) {
  override get message(): string {
    return internal.unsupportedVersion(this)
  }
}

/**
 * The data is JSON but not of the expected form.
 *
 * **Details**
 *
 * `issues` holds every problem up to `maxIssues` of the limits; `omitted`
 * counts the others.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Invalid extends Schema.TaggedError<Invalid>("effect-emissary/payload/Invalid")("Invalid", {
  issues: Schema.Array(Issue),
  omitted: Schema.Int
}) {
  override get message(): string {
    return internal.invalid(this)
  }
}

/**
 * A secret was about to be written: a `Redacted` value, or a value under a key
 * of the published list in `SecretKeys`.
 *
 * **Details**
 *
 * `path` leads to it and `key` is the last key of the path. The value is never
 * part of the error.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Secret extends Schema.TaggedError<Secret>("effect-emissary/payload/Secret")("Secret", {
  path: Schema.String,
  key: Schema.String,
  kind: Schema.Literals(["key", "redacted"])
}) {
  override get message(): string {
    return internal.secret(this)
  }
}

/**
 * Why a payload was refused.
 *
 * @category models
 * @since 0.1.0
 */
export const Reason = Schema.Union([NotJson, TooLarge, TooDeep, ForbiddenKey, UnsupportedVersion, Invalid, Secret])

/**
 * Why a payload was refused.
 *
 * @category models
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * The error of everything that reads untrusted data or writes data for others.
 *
 * **When to use**
 *
 * Handle it with `Effect.catchTag("PayloadError", ...)`, or one reason of it
 * with `Effect.catchReason("PayloadError", "TooLarge", ...)`. It is a schema
 * too, so it travels over a wire.
 *
 * **Example** (Handling one reason)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary"
 *
 * const program = Json.parse("[1, 2, 3]", { what: "numbers", limits: { maxArrayLength: 2 } }).pipe(
 *   Effect.catchReason("PayloadError", "TooLarge", (reason) => Effect.succeed(`at most ${reason.limit} items`))
 * )
 *
 * assert.strictEqual(Effect.runSync(program), "at most 2 items")
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class PayloadError extends Schema.TaggedError<PayloadError>("effect-emissary/payload/PayloadError")(
  "PayloadError",
  { what: Schema.String, reason: Reason }
) {
  override get message(): string {
    return `${this.what}: ${this.reason.message}`
  }
}

/**
 * Builds the reason {@link Invalid} from issues, e.g. in a migration that finds
 * that data of an old version makes no sense.
 *
 * **Example** (Failing with one issue)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PayloadError } from "effect-emissary"
 *
 * const reason = PayloadError.invalid([{ path: "/steps/0", expected: "a step", found: "nothing" }])
 * assert.strictEqual(reason.issues.length, 1)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const invalid = (issues: ReadonlyArray<Issue>, omitted: number = 0): Invalid => new Invalid({ issues, omitted })
