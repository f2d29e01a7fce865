/**
 * The data of sessions: events, what is kept under the id of a session, and the fold from one to the other.
 *
 * The run of a session's agent begins with the first message and is resumed by each later one. So the state of a session
 * is the state of that run with what waits for it.
 */

import * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as Run from "../../agent/Run.ts"
import type * as Message from "../../conversation/Message.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Json from "../../payload/Json.ts"
import * as base from "../../payload/internal/base.ts"
import { plainSchema } from "../../payload/internal/problems.ts"
import { defined } from "../../payload/internal/values.ts"
import * as agentReason from "../../agent/internal/agentReason.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as ToolResult from "../../tool/ToolResult.ts"

const at = runParts.Time

/** The class of an error: what its receiver can do. */
export const Category = Schema.Literals(["invalid", "not-found", "conflict", "busy", "unavailable", "internal"])

export type Category = typeof Category.Type

/** Texts without details for the user of a front end, by the class of the error. */
export const publicMessages: Readonly<Record<Category, string>> = {
  invalid: "This cannot be sent as it is.",
  "not-found": "This conversation is not here any more.",
  conflict: "The conversation has changed. Load it again.",
  busy: "The assistant cannot take this message yet. Try again in a moment.",
  unavailable: "The assistant is not available right now. Try again later.",
  internal: "Something went wrong on our side."
}

/** The status of a session, see `Session.State`. */
export const Status = Schema.Literals(["idle", "running", "waiting"])

export type Status = typeof Status.Type

/** The title and the metadata of a session. An absent field stays as it was. */
const details = { title: Schema.optionalKey(Schema.String), metadata: Schema.optionalKey(runParts.Context) }

/** The part of a session that a list of sessions shows. */
export const summary = {
  title: Schema.String,
  metadata: runParts.Context,
  created: at,
  updated: at,
  status: Status,
  messages: runParts.Count
}

const Summary = Schema.Struct(summary)

export type Summary = typeof Summary.Type

/** A request, and its name and arguments as a person reads them: what is not seen, or changes the order of others, is an escape. */
export const Request = Schema.Struct({ ...runParts.ApprovalRequest.fields, shown: Schema.String }).annotate({
  identifier: "Request"
})

export type Request = typeof Request.Type

/** A call as a person reads it before a decision. */
export const shownOf = (name: string | undefined, args: Schema.Json): string =>
  [...(name === undefined ? [] : [base.quote(name)]), Json.show(args)].join(" ")

export const showRequest = (request: Run.ApprovalRequest): Request => ({
  ...request,
  shown: shownOf(request.name, request.arguments)
})

/** An error as readers of a session see it. */
export const Failure = Schema.Struct({
  reason: Schema.String,
  category: Category,
  message: Schema.String,
  plan: Schema.optionalKey(Schema.Struct({ reason: Schema.String, step: Schema.optionalKey(agentReason.FailedStep) }))
})

export type Failure = typeof Failure.Type

const message = {
  messageId: Schema.String,
  input: ToolResult.NonEmptyContent,
  plan: Schema.optionalKey(planRunParts.Beside),
  context: Schema.optionalKey(runParts.Context),
  model: Schema.optionalKey(Schema.String),
  definition: Schema.optionalKey(Schema.String),
  pending: Schema.optionalKey(Schema.Literal("deny")),
  timeout: Schema.optionalKey(runParts.Count)
}

/** The members are in the order in which a session has them first. */
export const EventSchema = Schema.TaggedUnion({
  MessageReceived: {
    at,
    agent: Schema.String,
    ...message,
    digest: Schema.String,
    conversation: Schema.optionalKey(runParts.History),
    edit: Schema.optionalKey(Schema.Struct({ messageId: Schema.String, digest: Schema.String }))
  },
  DecisionsReceived: { at, decisions: Schema.NonEmptyArray(runParts.Decision) },
  ResumeReceived: { at, messageIds: Schema.optionalKey(Schema.NonEmptyArray(Schema.String)) },
  SessionUpdated: { at, ...details },
  RunEvent: { event: runParts.Event, messageId: Schema.optionalKey(Schema.String) },
  SessionForked: {
    at,
    from: Schema.String,
    cursor: Schema.String,
    progress: Schema.optionalKey(Schema.Array(runParts.PlanRunEvent))
  },
  MessageDropped: { at, messageId: Schema.String, error: Failure },
  DecisionsDropped: { at, decisions: Schema.NonEmptyArray(runParts.Decision), error: Failure },
  TurnFailed: {
    at,
    error: Failure,
    messageId: Schema.optionalKey(Schema.String),
    isHeld: Schema.optionalKey(Schema.Literal(true)),
    held: Schema.optionalKey(Schema.NonEmptyArray(Schema.String))
  }
})

export type Event = typeof EventSchema.Type

export const Event: Schema.Codec<Event, unknown> = plainSchema(EventSchema)

export const EntrySchema = Schema.Struct({ sequence: runParts.Count, cursor: Schema.String, event: EventSchema })

export interface Entry extends Schema.Schema.Type<typeof EntrySchema> {}

export const Entry: Schema.Codec<Entry, unknown> = plainSchema(EntrySchema)

/**
 * A place after an event. `life` is the name that a session has until it is removed, and no other one under its id has.
 * Without it the number counts alone.
 */
export interface Place {
  readonly life: string | undefined
  readonly sequence: number
}

/** The place before the first event of any session. */
export const start: Place = { life: undefined, sequence: 0 }

export const cursorOf = (life: string, sequence: number): string => `${life}.${sequence}`

/** The events of a session from this number on. */
export const entriesFrom = (life: string, first: number, events: ReadonlyArray<Event>): ReadonlyArray<Entry> =>
  events.map((event, index) => ({ sequence: first + index, cursor: cursorOf(life, first + index), event }))

export const placeOf = ({ cursor, sequence }: Pick<Entry, "cursor" | "sequence">): Place => ({
  life: cursor.slice(0, cursor.indexOf(".")),
  sequence
})

/** The place after the event with this cursor or number, `undefined` for a value that is neither. */
export const readAfter = (after: number | string): Place | undefined => {
  if (typeof after === "number") {
    return Number.isSafeInteger(after) && after >= 0 ? { life: undefined, sequence: after } : undefined
  }
  const [, life, sequence] = /^([0-9a-z]+)\.([1-9]\d{0,14})$/.exec(after) ?? []
  return life === undefined ? undefined : { life, sequence: Number(sequence) }
}

/** The cursor or number of a place, which {@link readAfter} reads. */
export const afterOf = ({ life, sequence }: Place): number | string =>
  life === undefined ? sequence : cursorOf(life, sequence)

/** True if a session with this newest event has a place. */
export const hasPlace = (newest: Place, { life, sequence }: Place): boolean =>
  sequence <= newest.sequence && (life === undefined || life === newest.life)

/** A message that no turn has taken. */
const Queued = Schema.Struct(message)

export type Queued = typeof Queued.Type

/** A message that could not begin, because of this error. */
const Held = Schema.Struct({ ...message, error: Failure })

export type Held = typeof Held.Type

/** An array on the wire. In memory a message costs the same however many wait. */
const Queue: Schema.Codec<Chunk.Chunk<Queued>, unknown> = Schema.Array(Queued).pipe(
  Schema.decodeTo(Schema.Chunk(Schema.toType(Queued)), {
    decode: SchemaGetter.transform((queue) => Chunk.fromIterable(queue)),
    encode: SchemaGetter.transform((queue) => Chunk.toReadonlyArray(queue))
  })
)

/**
 * The state of a session.
 *
 * - `title`, `metadata`: empty before they are set.
 * - `conversation`: the conversation that the run begins with. Without it the run begins with the instructions of the
 *   agent.
 * - `isInstructed`: that conversation had a system message, so no instructions of an agent are added.
 * - `sequence`: the number of its newest event.
 * - `received`: the first message and the newest ones, oldest first: one of them again is no new message. What became of it is
 *   among the events after `sequence`, and `digest` covers its content, `edit` the edit that sent it.
 * - `origin`: of a fork, the digest of the first message of the session that it continues, where a turn has taken that.
 * - `queue`: the messages that wait for their turns. `stopped`: those whose turns were interrupted before the run began. They are
 *   recorded when it begins, and are not answered, unless `resume` puts them back.
 * - `held`: messages whose turns could not begin. Others are taken before them until something lets them be tried again.
 * - `decisions`: the decisions that no turn has taken. `decided`: the newest decisions of all.
 * - `isResumed`: a turn without a message was asked for.
 * - `model`: of the newest message that a turn took, in place of the agent's own.
 * - `timeout`: the milliseconds that the turn of that message may take `since` it was taken, or since the newest decision or `resume`.
 * - `definition`: the digest of the agent, if the agent is data. It comes from the newest message with a definition
 *   that a turn took, or from the first message.
 * - `failure`: of the last turn, if that failed. `isHeld`: it had no message and could not begin, so the next one waits for a
 *   new event.
 * - `failedAt`: the number of the newest failure of a turn that did not take its message.
 */
export const Memory = Schema.Struct({
  agent: Schema.String,
  title: Schema.String,
  metadata: runParts.Context,
  conversation: Schema.optionalKey(runParts.History),
  isInstructed: Schema.optionalKey(Schema.Literal(true)),
  sequence: runParts.Count,
  received: Schema.Array(
    Schema.Struct({
      messageId: Schema.String,
      sequence: runParts.Count,
      digest: Schema.String,
      edit: Schema.optionalKey(Schema.String)
    })
  ),
  origin: Schema.optionalKey(Schema.String),
  queue: Queue,
  stopped: Queue,
  held: Schema.Array(Held),
  decisions: Schema.Array(runParts.Decision),
  decided: Schema.Array(runParts.Decision),
  isResumed: Schema.Boolean,
  isHeld: Schema.Boolean,
  failedAt: runParts.Count,
  model: Schema.optionalKey(Schema.String),
  timeout: Schema.optionalKey(Schema.Struct({ millis: runParts.Count, since: runParts.Time })),
  definition: Schema.optionalKey(Schema.String),
  failure: Schema.optionalKey(Failure),
  run: Schema.optionalKey(runTransition.StateSchema)
})

export interface Memory extends Schema.Schema.Type<typeof Memory> {}

/** A session without events. */
export const empty = (agent: string): Memory => ({
  agent,
  title: "",
  metadata: {},
  sequence: 0,
  received: [],
  queue: Chunk.empty(),
  stopped: Chunk.empty(),
  held: [],
  decisions: [],
  decided: [],
  isResumed: false,
  isHeld: false,
  failedAt: 0
})

/** The number of messages, and of decisions, that a session remembers. */
const remembered = 256

const remember = <A>(all: ReadonlyArray<A>, added: ReadonlyArray<A>): ReadonlyArray<A> =>
  [...all, ...added].slice(-remembered)

/** The first message shows what the session was begun for. */
const rememberMessage = (
  [first, ...others]: Memory["received"],
  added: Memory["received"][number]
): Memory["received"] =>
  first === undefined ? [added] : [first, ...others.slice(Math.max(0, others.length + 2 - remembered)), added]

const withoutConversation = ({ conversation: _, ...memory }: Memory): Memory => memory

const withoutFailure = ({ failure: _, ...memory }: Memory): Memory => ({ ...memory, isResumed: false })

/** Turns take messages from the front. */
const without = (queue: Chunk.Chunk<Queued>, messageId: string | undefined): Chunk.Chunk<Queued> =>
  Chunk.isNonEmpty(queue) && Chunk.headNonEmpty(queue).messageId === messageId ? Chunk.drop(queue, 1) : queue

/** The events of a message that is taken come after the failures of the turns that did not take it. */
const afterFailures = ({ failedAt, received }: Memory, messageId: string | undefined): Memory["received"] =>
  received.map((one) => (one.messageId === messageId && one.sequence < failedAt ? { ...one, sequence: failedAt } : one))

/** With the model, the limit of time, and the agent, of the message that a turn takes. Another agent lets messages that are held be tried again, with it. */
const withPartsOf = (
  { model: _, timeout: __, ...memory }: Memory,
  { definition, model, timeout: millis }: Partial<Queued>,
  since: DateTime.Utc
): Memory => {
  const timeout = millis === undefined ? undefined : { millis, since }
  const next = { ...memory, ...defined({ definition, model, timeout }) }
  if (definition === undefined || definition === memory.definition) return next
  return release({ ...next, held: memory.held.map(({ definition: _, ...held }) => held) }, () => true)
}

const runAfter = (run: Run.State | undefined, event: Run.Event): Result.Result<Run.State, Run.EventError> =>
  run === undefined ? Run.fold([event]) : Run.apply(run, event)

const applyRunEvent = (
  memory: Memory,
  { event, messageId }: EventOf<"RunEvent">,
  run: Run.State | undefined
): Result.Result<Memory, string> => {
  const applied = run === undefined ? runAfter(memory.run, event) : Result.succeed(run)
  if (Result.isFailure(applied)) return Result.fail(applied.failure.message)
  const next = { ...memory, isHeld: false, run: applied.success }
  switch (event._tag) {
    case "RunStarted":
      return Result.succeed(withoutConversation(withoutFailure(next)))
    case "RunResumed":
      return Result.succeed(withoutFailure(next))
    case "InputAdded":
      return Result.succeed(
        withPartsOf(
          {
            ...next,
            received: afterFailures(memory, messageId),
            queue: without(memory.queue, messageId),
            stopped: without(memory.stopped, messageId)
          },
          Option.getOrElse(
            Chunk.findFirst(dueMessages(memory), (one) => one.messageId === messageId),
            () => ({})
          ),
          event.at
        )
      )
    default:
      return Result.succeed({ ...withoutCalls(memory, next), decisions: undecided(memory.decisions, event) })
  }
}

/** Messages that could not begin because of the calls of a changed agent are tried again when there are no such calls any more. */
const withoutCalls = ({ run }: Memory, next: Memory): Memory =>
  run !== undefined && run.calls.length > 0 && next.run?.calls.length === 0
    ? release(next, ({ error }) => error.reason === "DefinitionChanged")
    : next

/** The decisions that an event does not record. No two requests have the same digest. */
const undecided = (decisions: ReadonlyArray<Run.Decision>, event: Run.Event): ReadonlyArray<Run.Decision> => {
  if (decisions.length === 0) return decisions
  if (event._tag === "ChildEvent") return undecided(decisions, event.event)
  if (event._tag !== "ApprovalDecided") return decisions
  return decisions.filter(({ callId, digest }) => callId !== event.callId || digest !== event.digest)
}

type EventOf<Tag extends Event["_tag"]> = Extract<Event, { readonly _tag: Tag }>

/** The reason of a turn that a caller stopped. */
export const interrupted = "Interrupted"

/** A message whose turn was stopped before it was taken is not tried again by itself. */
const applyFailure = (memory: Memory, { error, held, isHeld, messageId }: EventOf<"TurnFailed">): Memory => {
  const { queue, stopped } = memory
  const rest = error.reason === interrupted ? without(queue, messageId) : queue
  const next: Memory = {
    ...memory,
    failure: error,
    isResumed: false,
    isHeld: isHeld === true && held === undefined,
    failedAt: isHeld === true || messageId !== undefined ? memory.sequence + 1 : memory.failedAt,
    queue: rest,
    stopped: rest === queue ? stopped : Chunk.appendAll(stopped, Chunk.take(queue, 1))
  }
  return held === undefined ? next : hold(next, held, error)
}

const hold = (memory: Memory, ids: ReadonlyArray<string>, error: Failure): Memory => {
  const isHeld = ({ messageId }: Queued) => ids.includes(messageId)
  const found = Chunk.toReadonlyArray(Chunk.filter(dueMessages(memory), isHeld))
  return {
    ...memory,
    held: [...memory.held, ...found.map((one) => ({ ...one, error }))],
    queue: Chunk.filter(memory.queue, (one) => !isHeld(one)),
    stopped: Chunk.filter(memory.stopped, (one) => !isHeld(one))
  }
}

/** Puts released messages before all messages that wait: they could not begin, and are tried again. */
const release = (memory: Memory, isReleased: (held: Held) => boolean): Memory => {
  const released = memory.held.filter(isReleased)
  if (released.length === 0) return memory
  const again = Chunk.fromIterable(released.map(({ error: _, ...message }) => message))
  const held = memory.held.filter((one) => !isReleased(one))
  return { ...memory, held, queue: Chunk.appendAll(again, memory.queue) }
}

/** True for messages whose turns begin with the same agent, model and context: if one of them cannot begin, none can. */
const areAlike = (memory: Memory, one: Partial<Queued>, other: Partial<Queued>): boolean =>
  one.model === other.model &&
  (one.definition ?? memory.definition) === (other.definition ?? memory.definition) &&
  Equal.equals(one.context, other.context)

/** The messages that begin like this message, among due messages (default) or held messages. */
export const likeIn = (
  memory: Memory,
  messageId: string,
  all: Iterable<Queued> = dueMessages(memory)
): ReadonlyArray<string> => {
  const messages = Array.from(all)
  const found = messages.find((one) => one.messageId === messageId)
  return found === undefined ? [] : messages.filter((one) => areAlike(memory, one, found)).map((one) => one.messageId)
}

const hasSystem = (conversation: Conversation.Conversation = Conversation.empty): boolean =>
  Conversation.messages(conversation).some(({ role }) => role === "system")

/** A new message is the last one. One in the place of another that waits comes before it, and so before all if that one was held. */
const withQueued = (memory: Memory, message: Queued, other: string | undefined): Chunk.Chunk<Queued> => {
  const { queue } = memory
  if (other === undefined || !isWaiting(memory, other)) return Chunk.append(queue, message)
  const place = Option.getOrElse(
    Chunk.findFirstIndex(queue, ({ messageId }) => messageId === other),
    () => 0
  )
  const [before, after] = Chunk.splitAt(queue, place)
  return Chunk.appendAll(Chunk.append(before, message), after)
}

/** The time of a turn begins anew. */
const againAt = (memory: Memory, since: DateTime.Utc): Memory =>
  memory.timeout === undefined ? memory : { ...memory, timeout: { ...memory.timeout, since } }

const withProgress = (run: Run.State, events: ReadonlyArray<runParts.PlanRunEvent> | undefined): Run.State =>
  events === undefined
    ? run
    : new runParts.State({ ...run, progress: { events: Chunk.fromIterable(events), decisions: [] } })

const applyBody = (memory: Memory, event: Event, run: Run.State | undefined): Result.Result<Memory, string> => {
  switch (event._tag) {
    case "MessageReceived": {
      const { context, conversation, definition, digest, edit, input, messageId, model, pending, plan, timeout } = event
      const queued = { messageId, input, ...defined({ context, definition, model, pending, plan, timeout }) }
      const before = release(memory, (held) => areAlike(memory, held, queued))
      return Result.succeed({
        ...before,
        ...defined({ conversation, definition: memory.definition ?? definition }),
        ...(hasSystem(conversation) && { isInstructed: true as const }),
        isHeld: false,
        received: rememberMessage(memory.received, {
          messageId,
          sequence: memory.sequence + 1,
          digest,
          ...defined({ edit: edit?.digest })
        }),
        queue: withQueued(before, queued, edit?.messageId)
      })
    }
    case "DecisionsReceived":
      return Result.succeed({
        ...againAt(
          release(memory, () => true),
          event.at
        ),
        isHeld: false,
        decisions: [...memory.decisions, ...event.decisions],
        decided: remember(memory.decided, event.decisions)
      })
    case "ResumeReceived": {
      const { messageIds } = event
      if (messageIds !== undefined)
        return Result.succeed(release(memory, (held) => messageIds.includes(held.messageId)))
      const before = againAt(
        release(memory, () => true),
        event.at
      )
      return Result.succeed({
        ...before,
        isHeld: false,
        isResumed: true,
        queue: Chunk.appendAll(memory.stopped, before.queue),
        stopped: Chunk.empty()
      })
    }
    case "SessionUpdated": {
      const { metadata, title } = event
      return Result.succeed({ ...memory, ...defined({ metadata, title }) })
    }
    case "SessionForked": {
      // The snapshot before it has the rest of the state
      const forked = memory.run && withProgress(memory.run, event.progress)
      return forked !== undefined && runTransition.isForgedState(forked)
        ? Result.fail("other requests than were asked")
        : Result.succeed({ ...memory, ...defined({ run: forked }) })
    }
    case "RunEvent":
      return applyRunEvent(memory, event, run)
    case "MessageDropped":
      return Result.succeed({
        ...memory,
        received: memory.received.filter(({ messageId }) => messageId !== event.messageId),
        queue: Chunk.filter(memory.queue, ({ messageId }) => messageId !== event.messageId),
        stopped: Chunk.filter(memory.stopped, ({ messageId }) => messageId !== event.messageId),
        held: memory.held.filter(({ messageId }) => messageId !== event.messageId)
      })
    case "DecisionsDropped":
      return Result.succeed({
        ...memory,
        decisions: memory.decisions.filter(
          (decision) => !event.decisions.some((dropped) => runTransition.concerns(dropped, decision))
        )
      })
    case "TurnFailed":
      return Result.succeed(applyFailure(memory, event))
  }
}

/**
 * The state after some more events, or the event that does not fit. `run` is the state of the run after them, where that is known:
 * who makes the events of a run has applied each.
 */
export const applyAll = (
  self: Memory,
  events: Iterable<Event>,
  run?: Run.State | undefined
): Result.Result<Memory, string> => {
  let memory = self
  for (const event of events) {
    const applied = applyBody(memory, event, run)
    if (Result.isFailure(applied)) return applied
    memory = { ...applied.success, sequence: memory.sequence + 1 }
  }
  return Result.succeed(memory)
}

/** True for a run that is in a turn, or was when its process died. */
const isUnderWay = ({ failure, run }: Memory): boolean =>
  run !== undefined && run.outcome === undefined && failure === undefined

/** The `RunContext` of the turn of a message. */
export const contextOf = ({ context }: Queued): Json.JsonObject => context ?? {}

/** The id and the metadata that a message has in the conversation. */
export const optionsOf = ({ messageId, plan }: Queued): Message.Options => ({
  id: messageId,
  ...(plan !== undefined && { metadata: { [planRunParts.besideMark]: plan } })
})

/** A message of the conversation as it waited: {@link optionsOf} the other way. */
export const queuedOf = ({ content, id, metadata }: Message.UserMessage): Queued => ({
  messageId: id,
  input: content,
  ...defined({ plan: planRunParts.besideOf(metadata) })
})

/** True for a message whose turn runs with another `RunContext` than the run had until now. */
export const isOfOther = (run: Run.State, message: Queued): boolean => !Equal.equals(run.context, contextOf(message))

/**
 * True if the next message waits for the calls of the turn before, which run with the `RunContext` of that turn: until they are
 * decided, and until that turn has taken the decisions.
 */
const waitsForCalls = (self: Memory): boolean => {
  const message = Option.getOrUndefined(Chunk.head(dueMessages(self)))
  if (message === undefined || self.run === undefined) return false
  const areOpen = waitingDecisions(self).length > 0 || (Run.approvalRequests(self.run).length > 0 && !isDenying(self))
  return areOpen && isOfOther(self.run, message)
}

/** True if a turn has to be run. */
export const hasWork = (self: Memory): boolean =>
  !self.isHeld &&
  (isUnderWay(self) ||
    self.isResumed ||
    (Chunk.isNonEmpty(self.queue) && !waitsForCalls(self)) ||
    waitingDecisions(self).length > 0)

/** The status of a session without a turn in memory. */
export const statusOf = (self: Memory): Status => {
  if (hasWork(self)) return "running"
  return self.run !== undefined && Run.approvalRequests(self.run).length > 0 ? "waiting" : "idle"
}

/** The conversation of a session, which may be waiting for the first turn. */
export const conversationOf = ({ conversation, run }: Memory): Conversation.Conversation =>
  run?.conversation ?? conversation ?? Conversation.empty

/** The part of a session that a list of sessions shows. */
export const summaryOf = (self: Memory, times: Pick<Summary, "created" | "updated">): Summary => ({
  title: self.title,
  metadata: self.metadata,
  ...times,
  status: statusOf(self),
  messages: Conversation.messageCount(conversationOf(self))
})

/** The decisions of the next turn: those about calls that still wait. */
export const waitingDecisions = ({ decisions, run }: Memory): ReadonlyArray<Run.Decision> => {
  if (run === undefined || decisions.length === 0) return []
  const requests = Run.approvalRequests(run)
  return decisions.filter((decision) => requests.some((request) => runTransition.concerns(decision, request)))
}

/** The message that the next turn takes: none while the turn before it has not ended, or its calls wait. */
export const nextMessage = (self: Memory): Queued | undefined =>
  isUnderWay(self) || waitsForCalls(self) ? undefined : Option.getOrUndefined(Chunk.head(dueMessages(self)))

/** True for a message whose turn was stopped: it is recorded, and not answered. */
export const isStopped = ({ stopped }: Memory, messageId: string): boolean =>
  Chunk.some(stopped, (one) => one.messageId === messageId)

/** True for a message that no turn has taken. */
export const isWaiting = (self: Memory, messageId: string | undefined): boolean =>
  Chunk.some(waitingMessages(self), (one) => one.messageId === messageId)

/** The messages whose turns come, in their order. */
const dueMessages = ({ queue, stopped }: Memory): Chunk.Chunk<Queued> => Chunk.appendAll(stopped, queue)

/** The messages that no turn has taken: held messages, then messages whose turns come. */
export const waitingMessages = ({ held, queue, stopped }: Memory): Chunk.Chunk<Queued> =>
  Chunk.appendAll(
    Chunk.fromIterable(held.length === 0 ? [] : held.map(({ error: _, ...message }) => message)),
    Chunk.appendAll(stopped, queue)
  )

/** True if a message that waits denies the calls that wait. */
export const isDenying = (self: Memory): boolean =>
  Chunk.some(waitingMessages(self), ({ pending }) => pending === "deny")
