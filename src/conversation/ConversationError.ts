/**
 * Why a message cannot enter a conversation, or a history breaks a law.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import * as PayloadError from "../payload/PayloadError.ts"

const place = {
  /** Position in the conversation, or in the list or prompt that is read; from 0. */
  index: Schema.Int,
  /** Id of the message; absent where it has none. */
  id: Schema.optionalKey(Schema.String)
}

const result = { ...place, callId: Schema.String, open: Schema.Array(Schema.String) }

/**
 * Every reason to refuse a message, a history or an option.
 *
 * **Details**
 *
 * - `UnknownRole`: the role is none of `system`, `user`, `assistant`, `tool`, or none of the `roles` of a provider's format.
 * - `MisplacedSystem`: a system message that is not the first message, where later ones were refused by an option.
 * - `EmptyContent`: a user message without content, or with empty text only.
 * - `MissingCallId`: a call or a result without a call id.
 * - `OrphanResult`: a result whose call is not in the conversation, or not in this
 *   turn; `DuplicateResult`: a second result for one call. `open` names at most 20
 *   open calls.
 * - `NameMismatch`: a result that names another tool than its call.
 * - `RepeatedCallId`: a call id used again while the first call has no result.
 * - `OpenCalls`: the next turn begins while calls are open.
 * - `NotJson`: arguments or a result in a prompt or a response that are not JSON.
 * - `ArgumentsDiffer`: a call whose argument text does not parse to its arguments.
 * - `EqualKeys`: two keys of one object in the message, in its metadata for example, are equal once each half of a character is
 *   U+FFFD.
 * - `InvalidKeepRecent`: `keepRecent` is not a non-negative integer.
 * - `EmptySummary`: the summary that replaces old turns is empty.
 *
 * @category errors
 * @since 0.1.0
 */
export const Reason = Schema.TaggedUnion({
  UnknownRole: { ...place, roles: Schema.optionalKey(Schema.Array(Schema.String)), found: Schema.String },
  MisplacedSystem: place,
  EmptyContent: { ...place, role: Schema.String },
  MissingCallId: { ...place, role: Schema.String },
  OrphanResult: result,
  DuplicateResult: result,
  NameMismatch: { ...place, callId: Schema.String, expected: Schema.String, found: Schema.String },
  RepeatedCallId: { ...place, callId: Schema.String },
  OpenCalls: { ...place, role: Schema.String, callIds: Schema.Array(Schema.String) },
  NotJson: { ...place, callId: Schema.String, what: Schema.Literals(["arguments", "result"]) },
  ArgumentsDiffer: { ...place, callId: Schema.String },
  EqualKeys: place,
  InvalidKeepRecent: { found: Schema.String },
  EmptySummary: { messages: Schema.Int }
})

/** @since 0.1.0 */
export type Reason = typeof Reason.Type

const message = { index: Schema.Int, id: Schema.String }

/**
 * One change of a repair. `index` and `id` name the message, as it was read.
 *
 * **Details**
 *
 * - `MessageDropped`: the message is left out: a result without its call, a second
 *   result, an empty user message. `reason` is the law it broke.
 * - `PartDropped`: the result of a tool that the provider ran is left out of an
 *   assistant message, for the same reasons.
 * - `CallSealed`: the call had no result when the next turn began, and got an `interrupted` failure. `index` is the
 *   index of the message that came too early.
 * - `ResultMoved`: the result came after the next turn had begun, and moved up to its call.
 * - `CallRelabelled`: the call had no id, or the id of a call before it; its result
 *   follows it.
 * - `CallTextDropped`: the text of the call did not parse to its arguments, which are kept.
 * - `ResultRenamed`: the result named another tool than its call.
 * - `SystemMoved`: a system message between a call and its results moved behind them.
 * - `SystemDemoted`: with `laterSystem: "refuse"`, a system message that was not the first
 *   became a user message at its place, with a user's authority: the writer of the history must not
 *   be able to add to the instructions. Between a call and its results it moves behind them.
 *
 * @category models
 * @since 0.1.0
 */
export const Repair = Schema.TaggedUnion({
  MessageDropped: { ...message, reason: Reason },
  PartDropped: { ...message, reason: Reason },
  CallSealed: { ...message, callId: Schema.String, name: Schema.String },
  ResultMoved: { ...message, callId: Schema.String },
  CallRelabelled: { ...message, from: Schema.String, to: Schema.String },
  CallTextDropped: { ...message, callId: Schema.String },
  ResultRenamed: { ...message, callId: Schema.String, from: Schema.String, to: Schema.String },
  SystemMoved: message,
  SystemDemoted: message
}).annotate({ identifier: "ConversationRepair" })

/** @since 0.1.0 */
export type Repair = typeof Repair.Type

const listIds = (ids: ReadonlyArray<string>): string =>
  ids.length === 0 ? "none" : ids.map((id) => JSON.stringify(id)).join(", ")

const messageAt = (index: number, field: string = ""): string => `/messages/${index}${field}`

// `expected` and `found` quote nothing, because PayloadError repeats them; `fix` names calls
const explain = Reason.match({
  UnknownRole: ({ found, index, roles = ["system", "user", "assistant", "tool"] }) => ({
    path: messageAt(index, "/role"),
    expected: `one of ${roles.join(", ")}`,
    found: "another role",
    fix: `The role is ${found}`
  }),
  MisplacedSystem: ({ index }) => ({
    path: messageAt(index, "/role"),
    expected: "a system message only as the first message",
    found: "a later system message",
    fix: 'Start a new conversation with it, write it in a user message, or pass { laterSystem: "keep" }'
  }),
  EmptyContent: ({ index }) => ({
    path: messageAt(index, "/content"),
    expected: "text or a file",
    found: "empty text",
    fix: "Leave the message out, because providers reject empty messages"
  }),
  MissingCallId: ({ index }) => ({
    path: messageAt(index),
    expected: "calls and results with a non-empty call id",
    found: "an empty call id",
    fix: "Pair each call and its result by an id"
  }),
  OrphanResult: ({ callId, index, open }) => ({
    path: messageAt(index),
    expected: "a result that answers an open call",
    found: "a result without its call",
    fix: `Call "${callId}" is not open; open calls: ${listIds(open)}`
  }),
  DuplicateResult: ({ callId, index, open }) => ({
    path: messageAt(index),
    expected: "one result for each call",
    found: "a second result",
    fix: `Call "${callId}" already has its result; open calls: ${listIds(open)}`
  }),
  NameMismatch: ({ callId, expected, found, index }) => ({
    path: messageAt(index),
    expected: "a result with the tool name of its call",
    found: "another tool name",
    fix: `Call "${callId}" calls "${expected}", and the result is from "${found}"`
  }),
  RepeatedCallId: ({ callId, index }) => ({
    path: messageAt(index),
    expected: "a call id that no open call has",
    found: "the id of an open call",
    fix: `Replace the id "${callId}" of the new call, for example with Conversation.relabelCalls`
  }),
  OpenCalls: ({ callIds, index }) => ({
    path: messageAt(index),
    expected: "the results of the open calls before the next turn",
    found: "the next turn",
    fix: `Add the results of ${listIds(callIds)}, or close the calls with Conversation.seal`
  }),
  NotJson: ({ callId, index, what }) => ({
    path: messageAt(index),
    expected: `JSON as the ${what} of a call`,
    found: "another value",
    fix: `Encode the ${what} of call "${callId}" with the tool's schema first`
  }),
  ArgumentsDiffer: ({ callId, index }) => ({
    path: messageAt(index),
    expected: "argument text that parses to the arguments",
    found: "text of other arguments",
    fix: `Leave out the text of call "${callId}", or parse its arguments from the text`
  }),
  EqualKeys: ({ index }) => ({
    path: messageAt(index),
    expected: "keys that differ once each half of a character is U+FFFD",
    found: "two that are equal",
    fix: "Rename one of them"
  }),
  InvalidKeepRecent: ({ found }) => ({ path: "/keepRecent", expected: "a number of turns, an integer from 0", found }),
  EmptySummary: ({ messages }) => ({
    path: "/summary",
    expected: `text that can replace ${messages} messages`,
    found: "empty text",
    fix: "Nothing was removed: try again, or keep more turns"
  })
})

/**
 * A message cannot enter a conversation, or a history breaks a law.
 *
 * **Details**
 *
 * `reason` holds the law, the message and the call; `problem` describes it as
 * `PayloadError` does. Nothing changed: a conversation is a value, and the one you
 * have stays valid.
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
  get problem(): PayloadError.Problem {
    return explain(this.reason)
  }

  override get message() {
    return PayloadError.render("conversation", [this.problem])
  }
}
