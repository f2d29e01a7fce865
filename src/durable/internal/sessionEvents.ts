/**
 * The data of sessions: events, what is kept under the id of a session, and the fold from one to the other.
 *
 * The run of a session's agent begins with the first message and is resumed by each later one. So the state of a session
 * is the state of that run with what waits for it.
 */

import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Run from "../../agent/Run.ts"
import * as runParts from "../../agent/internal/runParts.ts"
import * as runTransition from "../../agent/internal/runTransition.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import * as ToolResult from "../../tool/ToolResult.ts"

const at = runParts.Time

/** An error as readers of a session see it. */
export const Failure = Schema.Struct({ reason: Schema.String, message: Schema.String })

export type Failure = typeof Failure.Type

/** The members are in the order in which a session has them first. */
export const Event = Schema.TaggedUnion({
  MessageReceived: {
    at,
    messageId: Schema.String,
    agent: Schema.String,
    input: ToolResult.NonEmptyContent,
    context: Schema.optionalKey(runParts.Context)
  },
  DecisionsReceived: { at, decisions: Schema.NonEmptyArray(runParts.Decision) },
  ResumeReceived: { at },
  RunEvent: { event: runParts.Event, messageId: Schema.optionalKey(Schema.String) },
  TurnFailed: { at, error: Failure, messageId: Schema.optionalKey(Schema.String) }
})

export type Event = typeof Event.Type

export const Entry = Schema.Struct({ sequence: runParts.Count, event: Event })

export type Entry = typeof Entry.Type

/** A message that no turn has taken. `hasFailed`: one turn failed before it could. */
const Queued = Schema.Struct({
  messageId: Schema.String,
  input: ToolResult.NonEmptyContent,
  context: Schema.optionalKey(runParts.Context),
  hasFailed: Schema.optionalKey(Schema.Literal(true))
})

/**
 * The state of a session.
 *
 * - `sequence`: the number of its newest event.
 * - `received`: the newest messages and the numbers of their events, oldest first: one of them again is no new message.
 * - `decisions`: those that no turn has taken. `decided`: the newest ones of all.
 * - `isResumed`: a turn without a message was asked for.
 * - `failure`: of the last turn, if that failed. `isHeld`: it could not even begin, so the next one waits for a new event.
 */
export const Memory = Schema.Struct({
  agent: Schema.String,
  sequence: runParts.Count,
  received: Schema.Array(Schema.Struct({ messageId: Schema.String, sequence: runParts.Count })),
  queue: Schema.Array(Queued),
  decisions: Schema.Array(runParts.Decision),
  decided: Schema.Array(runParts.Decision),
  isResumed: Schema.Boolean,
  isHeld: Schema.Boolean,
  failure: Schema.optionalKey(Failure),
  run: Schema.optionalKey(runParts.StateSchema)
})

export interface Memory extends Schema.Schema.Type<typeof Memory> {}

/** A session without events. */
export const empty = (agent: string): Memory => ({
  agent,
  sequence: 0,
  received: [],
  queue: [],
  decisions: [],
  decided: [],
  isResumed: false,
  isHeld: false
})

/** The number of messages, and of decisions, that a session remembers. */
const remembered = 256

const remember = <A>(all: ReadonlyArray<A>, added: ReadonlyArray<A>): ReadonlyArray<A> =>
  [...all, ...added].slice(-remembered)

const withoutFailure = ({ failure: _, ...memory }: Memory): Memory => ({ ...memory, isResumed: false })

const applyRunEvent = (memory: Memory, { event, messageId }: EventOf<"RunEvent">): Result.Result<Memory, string> => {
  const applied = memory.run === undefined ? Run.fold([event]) : Run.apply(memory.run, event)
  if (Result.isFailure(applied)) return Result.fail(applied.failure.message)
  const next = { ...memory, run: applied.success }
  switch (event._tag) {
    case "RunStarted":
    case "RunResumed":
      return Result.succeed(withoutFailure(next))
    case "InputAdded":
      return Result.succeed({ ...next, queue: next.queue.filter((queued) => queued.messageId !== messageId) })
    default:
      return Result.succeed({ ...next, decisions: undecided(memory.decisions, event) })
  }
}

/** The decisions that an event does not record. The digest of a request is that of no other one. */
const undecided = (decisions: ReadonlyArray<Run.Decision>, event: Run.Event): ReadonlyArray<Run.Decision> => {
  if (decisions.length === 0) return decisions
  if (event._tag === "ChildEvent") return undecided(decisions, event.event)
  if (event._tag !== "ApprovalDecided") return decisions
  return decisions.filter(({ callId, digest }) => callId !== event.callId || digest !== event.digest)
}

type EventOf<Tag extends Event["_tag"]> = Extract<Event, { readonly _tag: Tag }>

/** Reasons for which a message, or decisions, would fail again, or are not to be tried again. */
const final: ReadonlySet<string> = new Set(["ConversationInvalid", "OptionsInvalid", "Refused", "Interrupted"])

/**
 * A turn that could not even begin waits for a new event, and is tried once more: a message that fails twice must not keep those
 * behind it from being answered.
 */
const applyFailure = (memory: Memory, { error, messageId }: EventOf<"TurnFailed">): Memory => {
  const { decisions, queue } = memory
  const isMeant = (queued: Memory["queue"][number]) => queued.messageId === messageId
  const areRefused = error.reason === "InvalidDecision" && decisions.length > 0
  const isOver = final.has(error.reason) || queue.some((queued) => isMeant(queued) && queued.hasFailed === true)
  const next = {
    ...memory,
    failure: error,
    isResumed: false,
    queue: areRefused
      ? queue
      : isOver
        ? queue.filter((queued) => !isMeant(queued))
        : queue.map((queued) => (isMeant(queued) ? { ...queued, hasFailed: true as const } : queued)),
    decisions: areRefused || final.has(error.reason) ? [] : decisions
  }
  const isTried = !areRefused && !isOver && queue.some(isMeant)
  return { ...next, isHeld: isTried || waitingDecisions(next).length > 0 }
}

const applyBody = (memory: Memory, event: Event): Result.Result<Memory, string> => {
  switch (event._tag) {
    case "MessageReceived": {
      const { context, input, messageId } = event
      return Result.succeed({
        ...memory,
        isHeld: false,
        received: remember(memory.received, [{ messageId, sequence: memory.sequence + 1 }]),
        queue: [...memory.queue, { messageId, input, ...defined({ context }) }]
      })
    }
    case "DecisionsReceived":
      return Result.succeed({
        ...memory,
        isHeld: false,
        decisions: [...memory.decisions, ...event.decisions],
        decided: remember(memory.decided, event.decisions)
      })
    case "ResumeReceived":
      return Result.succeed({ ...memory, isHeld: false, isResumed: true })
    case "RunEvent":
      return applyRunEvent(memory, event)
    case "TurnFailed":
      return Result.succeed(applyFailure(memory, event))
  }
}

/** The state after some more events, or the event that does not fit. */
export const applyAll = (self: Memory, events: Iterable<Event>): Result.Result<Memory, string> => {
  let memory = self
  for (const event of events) {
    const applied = applyBody(memory, event)
    if (Result.isFailure(applied)) return applied
    memory = { ...applied.success, sequence: memory.sequence + 1 }
  }
  return Result.succeed(memory)
}

/** True for a run that is in a turn, or was when its process died. */
const isUnderWay = ({ failure, run }: Memory): boolean =>
  run !== undefined && run.outcome === undefined && failure === undefined

/** True if a turn has to be run. */
export const hasWork = (self: Memory): boolean =>
  !self.isHeld && (isUnderWay(self) || self.isResumed || self.queue.length > 0 || waitingDecisions(self).length > 0)

/** The decisions of the next turn: those about calls that still wait. */
export const waitingDecisions = ({ decisions, run }: Memory): ReadonlyArray<Run.Decision> => {
  if (run === undefined || decisions.length === 0) return []
  const requests = Run.approvalRequests(run)
  return decisions.filter((decision) => requests.some((request) => runTransition.concerns(decision, request)))
}

/** The message that the next turn takes: none while the turn before it has not ended. */
export const nextMessage = (self: Memory): Memory["queue"][number] | undefined =>
  isUnderWay(self) ? undefined : self.queue[0]
