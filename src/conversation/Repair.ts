/**
 * What was done to make a lawful conversation of a history that broke laws.
 *
 * Asked for with `onUnlawful: "repair"` of `Conversation.decode`, `decodeJson` and
 * `fromPrompt`, and done to a list of messages by `Conversation.repair`.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Conversation } from "./Conversation.ts"
import { Reason } from "./ConversationError.ts"

const place = {
  /** Position in what was read; from 0. */
  index: Schema.Int,
  /** Id of the message. */
  id: Schema.String
}

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
  MessageDropped: { ...place, reason: Reason },
  PartDropped: { ...place, reason: Reason },
  CallSealed: { ...place, callId: Schema.String, name: Schema.String },
  CallRelabelled: { ...place, from: Schema.String, to: Schema.String },
  ResultRenamed: { ...place, callId: Schema.String, from: Schema.String, to: Schema.String },
  SystemDemoted: place
}).annotate({ identifier: "ConversationRepair" })

/**
 * One change.
 *
 * @category models
 * @since 0.1.0
 */
export type Repair = typeof Repair.Type

/**
 * What to do with a history that breaks a law.
 *
 * @category models
 * @since 0.1.0
 */
export type OnUnlawful = "refuse" | "repair"

/**
 * A lawful conversation, and what had to be changed for it, in the order of the
 * history; nothing for one that was lawful.
 *
 * @category models
 * @since 0.1.0
 */
export interface Repaired {
  readonly conversation: Conversation
  readonly repairs: ReadonlyArray<Repair>
}

/**
 * A function that reads a conversation. With `onUnlawful: "repair"` it gives the
 * conversation together with what was changed; by default, `"refuse"`, a history that
 * breaks a law is an error.
 *
 * @category models
 * @since 0.1.0
 */
export interface Reader<in I, in O, out E> {
  (input: I, options: O & { readonly onUnlawful: "repair" }): Effect.Effect<Repaired, E>
  (input: I, options?: O & { readonly onUnlawful?: "refuse" | undefined }): Effect.Effect<Conversation, E>
}
