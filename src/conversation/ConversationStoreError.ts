/**
 * Why a conversation was not loaded or stored.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { PayloadError } from "../payload/PayloadError.ts"
import * as Names from "../payload/Names.ts"
import { versionText } from "./internal/store/words.ts"
import { VersionedStoreError } from "./VersionedStoreError.ts"

/**
 * The store under the conversations failed.
 *
 * **Gotchas**
 *
 * After an `Unavailable` nothing says whether the write took place. Load before you
 * append again.
 *
 * @category reasons
 * @since 0.1.0
 */
export class StoreFailed extends Schema.TaggedError<StoreFailed>("effect-emissary/conversation/StoreFailed")(
  "StoreFailed",
  { error: VersionedStoreError }
) {
  override get message(): string {
    return this.error.message
  }
}

/**
 * What is stored is not a conversation that this release can read: it was damaged, a
 * newer release wrote it, or it is beyond the current limits. It is left as it is:
 * neither `save` nor `append` writes over it; `delete` removes it. `version` is absent
 * where it cannot be read either.
 *
 * @category reasons
 * @since 0.1.0
 */
export class UnreadableConversation extends Schema.TaggedError<UnreadableConversation>(
  "effect-emissary/conversation/UnreadableConversation"
)("UnreadableConversation", { version: Schema.optionalKey(Schema.String), error: PayloadError }) {
  override get message(): string {
    const version = this.version === undefined ? "" : ` (version ${this.version})`
    return `what is stored${version} cannot be read and was left as it is: ${this.error.message}`
  }
}

/**
 * The conversation or the messages cannot be stored: beyond the current limits, or
 * with a secret inside. Nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class RefusedConversation extends Schema.TaggedError<RefusedConversation>(
  "effect-emissary/conversation/RefusedConversation"
)("RefusedConversation", { error: PayloadError }) {
  override get message(): string {
    return `refused, nothing was written: ${this.error.message}`
  }
}

/**
 * Why a conversation was not loaded or stored.
 *
 * @category reasons
 * @since 0.1.0
 */
export const Reason = Schema.Union([StoreFailed, UnreadableConversation, RefusedConversation])

/**
 * Why a conversation was not loaded or stored.
 *
 * @category reasons
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * A conversation was not loaded or stored. `id` is the conversation's, absent for
 * `list`.
 *
 * @category errors
 * @since 0.1.0
 */
export class ConversationStoreError extends Schema.TaggedError<ConversationStoreError>(
  "effect-emissary/conversation/ConversationStoreError"
)("ConversationStoreError", {
  operation: Schema.Literals(["load", "save", "append", "list", "delete"]),
  id: Schema.optionalKey(Schema.String),
  reason: Reason
}) {
  override get message(): string {
    const id = this.id === undefined ? "conversations" : `conversation ${Names.quote(this.id)}`
    return `${this.operation} ${id}: ${this.reason.message}`
  }
}

/**
 * The stored conversation is not in the version that the writer expected: somebody
 * else saved, appended or deleted in between. Nothing was written.
 *
 * **Details**
 *
 * `None` stands for no conversation.
 *
 * @category errors
 * @since 0.1.0
 */
export class ConversationConflict extends Schema.TaggedError<ConversationConflict>(
  "effect-emissary/conversation/ConversationConflict"
)("ConversationConflict", {
  id: Schema.String,
  expected: Schema.OptionFromNullOr(Schema.String),
  found: Schema.OptionFromNullOr(Schema.String)
}) {
  override get message(): string {
    return `conversation ${Names.quote(this.id)} changed: expected ${versionText(this.expected)}, found ${versionText(this.found)}. Load it again and apply the change to what you find`
  }
}
