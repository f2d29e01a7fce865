/**
 * Why a message cannot enter a conversation, or a history is not lawful.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"

const repairPlace = {
  /** Position in what was read; from 0. */
  index: Schema.Int,
  /** Id of the message. */
  id: Schema.String
}

const place = {
  /** Position in the conversation, or in the list or prompt being read; from 0. */
  index: Schema.Int,
  /** Id of the message; absent where it has none. */
  id: Schema.optionalKey(Schema.String)
}

/**
 * The role is none of `system`, `user`, `assistant`, `tool`.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnknownRole extends Schema.TaggedError<UnknownRole>("effect-emissary/conversation/UnknownRole")(
  "UnknownRole",
  {
    ...place,
    found: Schema.String
  }
) {
  override get message() {
    return `Unknown role of ${atPlace(this)}: expected one of "system", "user", "assistant", "tool", found ${this.found}`
  }
}

/**
 * A system message that is not the first message.
 *
 * @category errors
 * @since 0.1.0
 */
export class MisplacedSystem extends Schema.TaggedError<MisplacedSystem>(
  "effect-emissary/conversation/MisplacedSystem"
)("MisplacedSystem", place) {
  override get message() {
    return `Misplaced system message, ${atPlace(this)}: only the first message of a conversation can be one; start a new conversation with it, or say it in a user message`
  }
}

/**
 * A user message without content, or with empty text only.
 *
 * @category errors
 * @since 0.1.0
 */
export class EmptyContent extends Schema.TaggedError<EmptyContent>("effect-emissary/conversation/EmptyContent")(
  "EmptyContent",
  {
    ...place,
    role: Schema.String
  }
) {
  override get message() {
    return `Empty content of ${this.role} ${atPlace(this)}: expected text or a file, because providers refuse empty messages; leave the message out`
  }
}

/**
 * A call or result without a call id.
 *
 * @category errors
 * @since 0.1.0
 */
export class MissingCallId extends Schema.TaggedError<MissingCallId>("effect-emissary/conversation/MissingCallId")(
  "MissingCallId",
  {
    ...place,
    role: Schema.String
  }
) {
  override get message() {
    return `Empty call id in ${this.role} ${atPlace(this)}: a call and its result are paired by a non-empty id`
  }
}

/**
 * A result whose call is not in the conversation, or not in this turn. `open` names at
 * most 20 open calls.
 *
 * @category errors
 * @since 0.1.0
 */
export class OrphanResult extends Schema.TaggedError<OrphanResult>("effect-emissary/conversation/OrphanResult")(
  "OrphanResult",
  {
    ...place,
    callId: Schema.String,
    open: Schema.Array(Schema.String)
  }
) {
  override get message() {
    return `Result without its call in ${atPlace(this)}: call id "${this.callId}" is not open; open calls: ${listIds(this.open)}`
  }
}

/**
 * A second result for one call. `open` names at most 20 open calls.
 *
 * @category errors
 * @since 0.1.0
 */
export class DuplicateResult extends Schema.TaggedError<DuplicateResult>(
  "effect-emissary/conversation/DuplicateResult"
)("DuplicateResult", {
  ...place,
  callId: Schema.String,
  open: Schema.Array(Schema.String)
}) {
  override get message() {
    return `Second result in ${atPlace(this)}: call id "${this.callId}" already has its result; open calls: ${listIds(this.open)}`
  }
}

/**
 * A result that names another tool than its call.
 *
 * @category errors
 * @since 0.1.0
 */
export class NameMismatch extends Schema.TaggedError<NameMismatch>("effect-emissary/conversation/NameMismatch")(
  "NameMismatch",
  {
    ...place,
    callId: Schema.String,
    expected: Schema.String,
    found: Schema.String
  }
) {
  override get message() {
    return `Tool name mismatch in ${atPlace(this)}: call id "${this.callId}" calls "${this.expected}", the result is from "${this.found}"`
  }
}

/**
 * A call id used again while the first call of that id has no result.
 *
 * @category errors
 * @since 0.1.0
 */
export class RepeatedCallId extends Schema.TaggedError<RepeatedCallId>("effect-emissary/conversation/RepeatedCallId")(
  "RepeatedCallId",
  {
    ...place,
    callId: Schema.String
  }
) {
  override get message() {
    return `Repeated call id in ${atPlace(this)}: "${this.callId}" belongs to a call that is still open; give the new call its own id (Conversation.relabelCalls does)`
  }
}

/**
 * The next turn begins while calls are open.
 *
 * @category errors
 * @since 0.1.0
 */
export class OpenCalls extends Schema.TaggedError<OpenCalls>("effect-emissary/conversation/OpenCalls")("OpenCalls", {
  ...place,
  role: Schema.String,
  callIds: Schema.Array(Schema.String)
}) {
  override get message() {
    return `Open calls before ${this.role} ${atPlace(this)}: ${listIds(this.callIds)} have no result; add their results first, or close them with Conversation.seal`
  }
}

/**
 * `keepRecent` is not a non-negative integer.
 *
 * @category errors
 * @since 0.1.0
 */
export class InvalidKeepRecent extends Schema.TaggedError<InvalidKeepRecent>(
  "effect-emissary/conversation/InvalidKeepRecent"
)("InvalidKeepRecent", {
  found: Schema.String
}) {
  override get message() {
    return `Invalid keepRecent: expected a number of turns, an integer from 0, found ${this.found}`
  }
}

/**
 * The summary that is to stand for old turns says nothing.
 *
 * @category errors
 * @since 0.1.0
 */
export class EmptySummary extends Schema.TaggedError<EmptySummary>("effect-emissary/conversation/EmptySummary")(
  "EmptySummary",
  { messages: Schema.Int }
) {
  override get message() {
    return `Empty summary: expected text that can stand for ${this.messages} messages, found none; nothing was removed, so try again or keep more turns`
  }
}

/**
 * A value that should be JSON and is not: arguments or a result in a prompt or a
 * response that hold a class instance, a function or the like.
 *
 * @category errors
 * @since 0.1.0
 */
export class NotJson extends Schema.TaggedError<NotJson>("effect-emissary/conversation/NotJson")("NotJson", {
  ...place,
  callId: Schema.String,
  what: Schema.Literals(["arguments", "result"])
}) {
  override get message() {
    return `The ${this.what} of call id "${this.callId}" in ${atPlace(this)} are not JSON: encode them with the tool's schema first`
  }
}

/**
 * Schema of {@link Reason}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Reason = Schema.Union([
  UnknownRole,
  MisplacedSystem,
  EmptyContent,
  MissingCallId,
  OrphanResult,
  DuplicateResult,
  NameMismatch,
  RepeatedCallId,
  OpenCalls,
  InvalidKeepRecent,
  EmptySummary,
  NotJson
])

/**
 * One change.
 *
 * **Details**
 *
 * - `MessageDropped`: the message is left out: a result without its call, a second
 *   result, a user message that says nothing. `reason` is the law it broke.
 * - `PartDropped`: the result of a tool that the provider ran is left out of an
 *   assistant message, for the same reasons.
 * - `CallSealed`: the call had no result when the next turn began, and got an
 *   `interrupted` failure. `index` is that of the message that came too early.
 * - `CallRelabelled`: the call had no id, or the id of a call before it; its result
 *   follows it.
 * - `ResultRenamed`: the result named another tool than its call.
 * - `SystemDemoted`: a system message that was not the first became a user message at
 *   its place, with a user's authority: whoever wrote the history must not be able to
 *   add to the instructions. Between a call and its results it moves behind them.
 *
 * @category models
 * @since 0.1.0
 */
export const Repair = Schema.TaggedUnion({
  MessageDropped: { ...repairPlace, reason: Reason },
  PartDropped: { ...repairPlace, reason: Reason },
  CallSealed: { ...repairPlace, callId: Schema.String, name: Schema.String },
  CallRelabelled: { ...repairPlace, from: Schema.String, to: Schema.String },
  ResultRenamed: { ...repairPlace, callId: Schema.String, from: Schema.String, to: Schema.String },
  SystemDemoted: repairPlace
}).annotate({ identifier: "ConversationRepair" })

/**
 * One change.
 *
 * @category models
 * @since 0.1.0
 */
export type Repair = typeof Repair.Type

const atPlace = (self: { readonly index: number; readonly id?: string }): string =>
  self.id === undefined ? `message ${self.index}` : `message ${self.index} (id "${self.id}")`

const listIds = (ids: ReadonlyArray<string>): string =>
  ids.length === 0 ? "none" : ids.map((id) => JSON.stringify(id)).join(", ")

/**
 * Every way in which a conversation can be refused.
 *
 * @category errors
 * @since 0.1.0
 */
export type Reason =
  | UnknownRole
  | MisplacedSystem
  | EmptyContent
  | MissingCallId
  | OrphanResult
  | DuplicateResult
  | NameMismatch
  | RepeatedCallId
  | OpenCalls
  | InvalidKeepRecent
  | EmptySummary
  | NotJson

/**
 * A message cannot enter a conversation, or a history is not lawful.
 *
 * **Details**
 *
 * `reason` says which law was broken, by which message and which call. Nothing
 * changed: a conversation is a value, and the one you had is still good.
 *
 * **Example** (A result without its call)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const error = Effect.runSync(
 *   Conversation.empty.pipe(
 *     Conversation.addToolResult({ callId: "call_1", name: "search", result: ToolResult.success("found") }),
 *     Effect.flip
 *   )
 * )
 * assert.strictEqual(error.reason._tag, "OrphanResult")
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class ConversationError extends Schema.TaggedError<ConversationError>(
  "effect-emissary/conversation/ConversationError"
)("ConversationError", {
  reason: Reason
}) {
  override get message() {
    return this.reason.message
  }
}
