/**
 * Why an event cannot follow a state.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * The reasons of a {@link RunEventError}.
 *
 * **Details**
 *
 * - `Unexpected`: the event has no place in this state of the run.
 * - `UnknownCall`: the event names a call that is not open.
 * - `CallStatus`: the call is open, but not ready for this event; a call that has
 *   started, for example, never starts again.
 * - `Conversation`: the message does not continue the conversation.
 *
 * @category errors
 * @since 0.1.0
 */
export const Reason = Schema.TaggedUnion({
  Unexpected: { expected: Schema.String, found: Schema.String },
  UnknownCall: { callId: Schema.String, open: Schema.Array(Schema.String) },
  CallStatus: { callId: Schema.String, expected: Schema.String, found: Schema.String },
  Conversation: { problem: Schema.String }
})

/**
 * @category errors
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

const explain = Reason.match({
  Unexpected: ({ expected, found }) => `expected ${expected}, found ${found}`,
  UnknownCall: ({ callId, open }) =>
    `no open call ${JSON.stringify(callId)}; open: ${open.length === 0 ? "none" : open.map((id) => JSON.stringify(id)).join(", ")}`,
  CallStatus: ({ callId, expected, found }) => `call ${JSON.stringify(callId)}: expected ${expected}, found ${found}`,
  Conversation: ({ problem }) => problem
})

/**
 * An event does not fit the state it was applied to: events are missing, out of
 * order or doubled, or two drivers write to one run.
 *
 * **Details**
 *
 * `event` is the tag of the event, `index` its place in the list when a list was
 * folded, `path` the ids of the enclosing calls when it is the event of an agent that
 * runs as a tool.
 *
 * @category errors
 * @since 0.1.0
 */
export class RunEventError extends Schema.TaggedError<RunEventError>("effect-emissary/agent/RunEventError")(
  "RunEventError",
  {
    event: Schema.String,
    path: Schema.Array(Schema.String),
    index: Schema.optionalKey(Schema.Int),
    reason: Reason
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const where = this.path.length === 0 ? "" : ` in the run of call ${this.path.join(" > ")}`
    const index = this.index === undefined ? "" : ` at index ${this.index}`
    return `${this.event}${index}${where} does not fit the run: ${explain(this.reason)}. Apply each event once, in the order in which it happened, from one driver at a time.`
  }
}
