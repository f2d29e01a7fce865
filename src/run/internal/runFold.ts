/**
 * The fold of the events of a run, of an agent or a plan, and the error of an event that does not fit.
 */

import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const Reason = Schema.Struct({
  _tag: Schema.Literals(["Unexpected", "UnknownCall", "CallStatus", "Conversation", "UnknownStep", "StepStatus"]),
  expected: Schema.String,
  found: Schema.String
})

/**
 * An event does not fit the state it was applied to: events are missing, out of
 * order or doubled, or two drivers write to one run.
 *
 * **Details**
 *
 * `event` is the tag of the event, `index` its place in the list when a list was folded, `path` the ids of the enclosing
 * calls, and the names of the steps of plans, when it is the event of a run inside. The tag of `reason` is one of:
 *
 * - `Unexpected`: the event has no place in this state of the run.
 * - `UnknownCall`, `UnknownStep`: the event names a call that is not open, or a step that is not under way.
 * - `CallStatus`, `StepStatus`: the call or the step is not ready for this event; for a call that has started, for
 *   example, there is no second `ToolStarted`.
 * - `Conversation`: the message does not continue the conversation.
 *
 * @category errors
 * @since 0.1.0
 */
export class EventError extends Schema.TaggedError<EventError>("effect-emissary/agent/RunEventError")("RunEventError", {
  event: Schema.String,
  path: Schema.Array(Schema.String),
  index: Schema.optionalKey(Schema.Int),
  reason: Reason
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const where = this.path.length === 0 ? "" : ` in the run inside ${this.path.join(" > ")}`
    const index = this.index === undefined ? "" : ` at index ${this.index}`
    return `${this.event}${index}${where} does not fit the run: expected ${this.reason.expected}, found ${this.reason.found}. Apply each event once, in the order in which it happened, from one driver at a time.`
  }
}

/** The state after an event, or why the event does not fit. */
export type Applied<S> = Result.Result<S, EventError>

/** The refusal of an event. */
export const reject = (
  { _tag: event }: { readonly _tag: string },
  tag: EventError["reason"]["_tag"],
  expected: string,
  found: string
): Result.Result<never, EventError> =>
  Result.fail(new EventError({ event, path: [], reason: { _tag: tag, expected, found } }))

/** The refusal of an event in a run inside. `within` is the way to that run. */
export const rejectInside = (
  within: ReadonlyArray<string>,
  { event, path, reason }: EventError
): Result.Result<never, EventError> => Result.fail(new EventError({ event, path: [...within, ...path], reason }))

/** The state after some events, which follow `from` or begin a run. The first event that does not fit has its place in the list. */
export const fold = <S, E extends { readonly _tag: string }>(
  machine: {
    readonly begin: (event: E | { readonly _tag: "no event" }) => Applied<S>
    readonly apply: (state: S, event: E) => Applied<S>
  },
  events: Iterable<E>,
  from?: S
): Applied<S> => {
  let state = from
  let index = 0
  for (const event of events) {
    const applied = state === undefined ? machine.begin(event) : machine.apply(state, event)
    if (Result.isFailure(applied)) {
      const { event, path, reason } = applied.failure
      return Result.fail(new EventError({ event, path, reason, index }))
    }
    state = applied.success
    index += 1
  }
  return state === undefined ? machine.begin({ _tag: "no event" }) : Result.succeed(state)
}
