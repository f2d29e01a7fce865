/**
 * Why a versioned store did not do what it was asked.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { PayloadError } from "../payload/PayloadError.ts"
import * as Names from "../payload/Names.ts"
import { versionText } from "./internal/store/words.ts"

// Drivers put stored values into their errors. These stay out of messages, JSON and
// everything that prints an error.
const causes = new WeakMap<object, unknown>()

/**
 * The storage did not answer, or refused. Nothing says whether a write that failed
 * this way took place: read before you write again.
 *
 * **Details**
 *
 * `error` is the tag of what the storage said, such as `PermissionDenied`, and
 * {@link causeOf} the error itself.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unavailable extends Schema.TaggedError<Unavailable>("effect-emissary/conversation/Unavailable")(
  "Unavailable",
  { storage: Schema.String, error: Schema.String }
) {
  override get message(): string {
    return `the ${this.storage} said ${this.error}; VersionedStoreError.causeOf(error.reason) is its error`
  }
}

/**
 * What is stored is not what this store writes: it was damaged, or a newer release
 * wrote it. It is left as it is.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unreadable extends Schema.TaggedError<Unreadable>("effect-emissary/conversation/Unreadable")(
  "Unreadable",
  { error: PayloadError }
) {
  override get message(): string {
    return `what is stored cannot be read and was left as it is: ${this.error.message}`
  }
}

/**
 * The key, the value or an option is not acceptable: too large under the current
 * limits, or not JSON. Nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Refused extends Schema.TaggedError<Refused>("effect-emissary/conversation/Refused")("Refused", {
  error: PayloadError
}) {
  override get message(): string {
    return `refused, nothing was written: ${this.error.message}`
  }
}

/**
 * Why a versioned store did not do what it was asked.
 *
 * @category reasons
 * @since 0.1.0
 */
export const Reason = Schema.Union([Unavailable, Unreadable, Refused])

/**
 * Why a versioned store did not do what it was asked.
 *
 * @category reasons
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * Makes the reason {@link Unavailable} and remembers the error behind it, for
 * {@link causeOf}. For stores of your own.
 *
 * @category constructors
 * @since 0.1.0
 */
export const unavailable = (storage: string, error: string, cause: unknown): Unavailable => {
  const reason = new Unavailable({ storage, error })
  causes.set(reason, cause)
  return reason
}

/**
 * The error of the database behind a reason, in the process where
 * it happened. It may hold stored values: do not log it without looking.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (reason: Reason): Option.Option<unknown> =>
  causes.has(reason) ? Option.some(causes.get(reason)) : Option.none()

/**
 * The error of a versioned store.
 *
 * @category errors
 * @since 0.1.0
 */
export class VersionedStoreError extends Schema.TaggedError<VersionedStoreError>(
  "effect-emissary/conversation/VersionedStoreError"
)("VersionedStoreError", {
  operation: Schema.Literals(["open", "get", "compareAndSet", "list", "delete"]),
  key: Schema.optionalKey(Schema.String),
  reason: Reason
}) {
  override get message(): string {
    const key = this.key === undefined ? "" : ` of ${Names.quote(this.key)}`
    return `${this.operation}${key}: ${this.reason.message}`
  }
}

/**
 * The value is not in the version that the writer expected: somebody else wrote, or
 * deleted, in between. Nothing was written.
 *
 * **Details**
 *
 * `None` stands for no value.
 *
 * **Example** (Two writers)
 *
 * ```ts
 * import { Effect, Option } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* VersionedStore.VersionedStore
 *   yield* store.compareAndSet("counter", Option.none(), 1)
 *   return yield* Effect.flip(store.compareAndSet("counter", Option.none(), 2))
 * })
 *
 * const error = await Effect.runPromise(Effect.provide(program, VersionedStore.layerMemory))
 * assert.ok(error._tag === "VersionConflict" && Option.isNone(error.expected) && Option.isSome(error.found))
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class VersionConflict extends Schema.TaggedError<VersionConflict>(
  "effect-emissary/conversation/VersionConflict"
)("VersionConflict", {
  key: Schema.String,
  expected: Schema.OptionFromNullOr(Schema.String),
  found: Schema.OptionFromNullOr(Schema.String)
}) {
  override get message(): string {
    return `${Names.quote(this.key)} changed: expected ${versionText(this.expected)}, found ${versionText(this.found)}. Get it again and apply the change to what you find`
  }
}
