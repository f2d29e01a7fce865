/**
 * The state of a session, and its fold: what each event makes of it.
 *
 * The run of a session's agent begins with the first message and is resumed by each later one. So the state of a session
 * is the state of that run with what waits for it.
 */

import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as Run from "../../agent/Run.ts"
import type * as Message from "../../conversation/Message.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import type * as Json from "../../payload/Json.ts"
import { defined } from "../../payload/internal/values.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import { Failure, interrupted, message, type Event, type Status, type Summary, type WaitsFor } from "./events.ts"

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
 * - `queue`: the messages that wait for their turns, or with `steers` for the next model call. `stopped`: those whose turns were interrupted before the run began. They are
 *   recorded when it begins, and are not answered, unless `resume` puts them back.
 * - `held`: messages whose turns could not begin. Others are taken before them until something lets them be tried again.
 * - `decisions`: the decisions that no turn has taken. `decided`: the newest decisions of all. `remembered`: the answers that equal requests
 *   have, too.
 * - `isResumed`: a turn without a message was asked for.
 * - `model`: of the newest message that a turn took, in place of the agent's own.
 * - `timeout`: the milliseconds that the turn of that message, or of a message that steered it, may take `since` it was taken, or since the
 *   newest decision or `resume`.
 * - `definition`: the digest of the agent, if the agent is data. It comes from the newest message with a definition
 *   that a turn took, or from the first message.
 * - `failure`: of the last turn, if that failed. `isHeld`: it had no message and could not begin, so the next one waits for a
 *   new event.
 * - `failedAt`: the number of the newest failure of a turn that did not take its message.
 */
export const SessionState = Schema.Struct({
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
  decisions: Schema.Array(runRequests.Decision),
  decided: Schema.Array(runRequests.Decision),
  remembered: Schema.optionalKey(Schema.Array(runRequests.Remembered)),
  isResumed: Schema.Boolean,
  isHeld: Schema.Boolean,
  failedAt: runParts.Count,
  model: Schema.optionalKey(Schema.String),
  timeout: Schema.optionalKey(Schema.Struct({ millis: runParts.Count, since: runParts.Time })),
  definition: Schema.optionalKey(Schema.String),
  failure: Schema.optionalKey(Failure),
  run: Schema.optionalKey(runTransition.StateSchema)
})

export interface SessionState extends Schema.Schema.Type<typeof SessionState> {}

/** A session without events. */
export const empty = (agent: string): SessionState => ({
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
  [first, ...others]: SessionState["received"],
  added: SessionState["received"][number]
): SessionState["received"] =>
  first === undefined ? [added] : [first, ...others.slice(Math.max(0, others.length + 2 - remembered)), added]

const withoutConversation = ({ conversation: _, ...state }: SessionState): SessionState => state

const withoutFailure = ({ failure: _, ...state }: SessionState): SessionState => ({ ...state, isResumed: false })

/** Turns begin with the first message, and messages that steer leave the queue wherever they are. */
const without = (queue: Chunk.Chunk<Queued>, messageId: string | undefined): Chunk.Chunk<Queued> =>
  Chunk.isNonEmpty(queue) && Chunk.headNonEmpty(queue).messageId === messageId
    ? Chunk.drop(queue, 1)
    : Chunk.some(queue, (one) => one.messageId === messageId)
      ? Chunk.filter(queue, (one) => one.messageId !== messageId)
      : queue

/** The events of a message that is taken come after the failures of the turns that did not take it. */
const afterFailures = ({ failedAt, received }: SessionState, messageId: string | undefined): SessionState["received"] =>
  received.map((one) => (one.messageId === messageId && one.sequence < failedAt ? { ...one, sequence: failedAt } : one))

/** With the model, the limit of time, and the agent, of the message that a turn takes. Another agent lets messages that are held be tried again, with it. */
const withPartsOf = (
  { model: _, timeout: __, ...state }: SessionState,
  { definition, model, timeout: millis }: Partial<Queued>,
  since: DateTime.Utc
): SessionState => {
  const timeout = millis === undefined ? undefined : { millis, since }
  const next = { ...state, ...defined({ definition, model, timeout }) }
  if (definition === undefined || definition === state.definition) return next
  return release({ ...next, held: state.held.map(({ definition: _, ...held }) => held) }, () => true)
}

/** With the limit of time of a message that steers, where it ends before the limit of the turn. */
const withinTime = (state: SessionState, millis: number | undefined, since: DateTime.Utc): SessionState => {
  const endOf = (limit: { readonly millis: number; readonly since: DateTime.Utc }) =>
    DateTime.toEpochMillis(limit.since) + limit.millis
  if (millis === undefined) return state
  const { timeout } = state
  return timeout !== undefined && endOf(timeout) <= endOf({ millis, since })
    ? state
    : { ...state, timeout: { millis, since } }
}

const runAfter = (run: Run.State | undefined, event: Run.Event): Result.Result<Run.State, Run.EventError> =>
  run === undefined ? Run.fold([event]) : Run.apply(run, event)

const applyRunEvent = (
  state: SessionState,
  { event, messageId }: EventOf<"RunEvent">,
  run: Run.State | undefined
): Result.Result<SessionState, string> => {
  const applied = run === undefined ? runAfter(state.run, event) : Result.succeed(run)
  if (Result.isFailure(applied)) return Result.fail(applied.failure.message)
  const next = { ...state, isHeld: false, run: applied.success }
  switch (event._tag) {
    case "RunStarted":
      return Result.succeed(withoutConversation(withoutFailure(next)))
    case "RunResumed":
      return Result.succeed(withoutFailure(next))
    case "InputAdded": {
      const taken = {
        ...next,
        received: afterFailures(state, messageId),
        queue: without(state.queue, messageId),
        stopped: without(state.stopped, messageId)
      }
      // The turn of a message that steers is the turn of another one
      if (event.maxSteps === undefined) {
        const steering = Chunk.findFirst(state.queue, (one) => one.messageId === messageId)
        return Result.succeed(withinTime(taken, Option.getOrUndefined(steering)?.timeout, event.at))
      }
      const message = Chunk.findFirst(dueMessages(state), (one) => one.messageId === messageId)
      return Result.succeed(
        withPartsOf(
          taken,
          Option.getOrElse(message, () => ({})),
          event.at
        )
      )
    }
    default:
      return Result.succeed({ ...withoutCalls(state, next), decisions: undecided(state.decisions, event) })
  }
}

/** Messages that could not begin because of the calls of a changed agent are tried again when there are no such calls any more. */
const withoutCalls = ({ run }: SessionState, next: SessionState): SessionState =>
  run !== undefined && run.calls.length > 0 && next.run?.calls.length === 0
    ? release(next, ({ error }) => error.reason === "DefinitionChanged")
    : next

/** The decisions that an event does not record. No two requests have the same digest. */
const undecided = (decisions: ReadonlyArray<Run.Decision>, event: Run.Event): ReadonlyArray<Run.Decision> => {
  const recorded = decisions.length === 0 ? undefined : runParts.decisionIn(event)
  return recorded === undefined
    ? decisions
    : decisions.filter(({ callId, digest }) => callId !== recorded.callId || digest !== recorded.digest)
}

/** The remembered answers after decisions. The newest answer to equal requests counts. */
const withRemembered = (
  { remembered = [], run }: SessionState,
  decisions: ReadonlyArray<Run.Decision>
): Pick<SessionState, "remembered"> => {
  const kept = decisions.filter((decision) => decision.remember === true)
  if (kept.length === 0 || run === undefined) return {}
  const open = runTransition.openIn(run)
  const added = kept.flatMap((decision) => {
    const one = open.find(({ request }) => runRequests.concerns(decision, request))
    if (one?.equal === undefined) return []
    const { arguments: args, name } = one.request
    const { digest: _, ...verdict } = runRequests.verdictOf(decision)
    return [{ digest: one.equal(), name, arguments: args, ...verdict }]
  })
  const others = remembered.filter(({ digest }) => !added.some((one) => one.digest === digest))
  return { remembered: remember(others, added) }
}

/** The remembered answers that count at a time. */
export const rememberedAt = (
  { remembered = [] }: SessionState,
  at: DateTime.Utc
): ReadonlyArray<runRequests.Remembered> => remembered.filter((one) => !runRequests.isExpired(one, at))

/** The time at which the first of the requests that wait expires. */
export const expiryOf = ({ run }: SessionState): DateTime.Utc | undefined =>
  run?.outcome?._tag === "AwaitingApproval" ? runRequests.firstExpiry(run.outcome.requests) : undefined

/**
 * The decisions that follow from what is stored: about requests that equal remembered requests, and about requests whose time is over.
 * After a failed turn there are none, because the next turn would take the same decisions.
 */
export const dueDecisions = (self: SessionState, at: DateTime.Utc): ReadonlyArray<Run.Decision> => {
  const { failure, run } = self
  if (run === undefined || failure !== undefined || statusOf(self) !== "waiting") return []
  const remembered = rememberedAt(self, at)
  const open = runRequests.questions(runTransition.openIn(run))
  const asked = Run.requests(run)
  return open.flatMap((one, index) => {
    const request = asked[index] ?? one.request
    return runRequests.recall({ ...one, request }, remembered) ?? runRequests.expired(request, at) ?? []
  })
}

type EventOf<Tag extends Event["_tag"]> = Extract<Event, { readonly _tag: Tag }>

/** A message whose turn was stopped before it was taken is not tried again by itself. */
const applyFailure = (state: SessionState, { error, held, isHeld, messageId }: EventOf<"TurnFailed">): SessionState => {
  const { queue, stopped } = state
  const rest = error.reason === interrupted ? without(queue, messageId) : queue
  const next: SessionState = {
    ...state,
    failure: error,
    isResumed: false,
    isHeld: isHeld === true && held === undefined,
    failedAt: isHeld === true || messageId !== undefined ? state.sequence + 1 : state.failedAt,
    queue: rest,
    stopped: rest === queue ? stopped : Chunk.appendAll(stopped, Chunk.take(queue, 1))
  }
  return held === undefined ? next : hold(next, held, error)
}

const hold = (state: SessionState, ids: ReadonlyArray<string>, error: Failure): SessionState => {
  const isNamed = ({ messageId }: Queued) => ids.includes(messageId)
  const found = Chunk.toReadonlyArray(Chunk.filter(dueMessages(state), isNamed))
  return {
    ...state,
    held: [...state.held, ...found.map((one) => ({ ...one, error }))],
    queue: Chunk.filter(state.queue, (one) => !isNamed(one)),
    stopped: Chunk.filter(state.stopped, (one) => !isNamed(one))
  }
}

/** Puts released messages before all messages that wait: they could not begin, and are tried again. */
const release = (state: SessionState, isReleased: (held: Held) => boolean): SessionState => {
  const released = state.held.filter(isReleased)
  if (released.length === 0) return state
  const again = Chunk.fromIterable(released.map(({ error: _, ...message }) => message))
  const held = state.held.filter((one) => !isReleased(one))
  return { ...state, held, queue: Chunk.appendAll(again, state.queue) }
}

/** True for messages whose turns begin with the same agent, model and context: if one of them cannot begin, none can. */
const areAlike = (state: SessionState, one: Partial<Queued>, other: Partial<Queued>): boolean =>
  one.model === other.model &&
  (one.definition ?? state.definition) === (other.definition ?? state.definition) &&
  Equal.equals(one.context, other.context)

/** The messages that begin like this message, among due messages (default) or held messages. */
export const likeIn = (
  state: SessionState,
  messageId: string,
  all: Iterable<Queued> = dueMessages(state)
): ReadonlyArray<string> => {
  const messages = Array.from(all)
  const found = messages.find((one) => one.messageId === messageId)
  return found === undefined ? [] : messages.filter((one) => areAlike(state, one, found)).map((one) => one.messageId)
}

const hasSystem = (conversation: Conversation.Conversation = Conversation.empty): boolean =>
  Conversation.messages(conversation).some(({ role }) => role === "system")

/** A new message is the last one. One in the place of another that waits comes before it, and so before all if that one was held. */
const withQueued = (state: SessionState, message: Queued, other: string | undefined): Chunk.Chunk<Queued> => {
  const { queue } = state
  if (other === undefined || !isWaiting(state, other)) return Chunk.append(queue, message)
  const place = Option.getOrElse(
    Chunk.findFirstIndex(queue, ({ messageId }) => messageId === other),
    () => 0
  )
  const [before, after] = Chunk.splitAt(queue, place)
  return Chunk.appendAll(Chunk.append(before, message), after)
}

/** The time of a turn begins anew. */
const againAt = (state: SessionState, since: DateTime.Utc): SessionState =>
  state.timeout === undefined ? state : { ...state, timeout: { ...state.timeout, since } }

const applyBody = (
  state: SessionState,
  event: Event,
  run: Run.State | undefined
): Result.Result<SessionState, string> => {
  switch (event._tag) {
    case "MessageReceived": {
      const { context, conversation, definition, digest, edit, input, messageId, model, pending, plan, timeout } = event
      const { budget, steers } = event
      const parts = { budget, context, definition, model, pending, plan, steers, timeout }
      const queued = { messageId, input, ...defined(parts) }
      const before = release(state, (held) => areAlike(state, held, queued))
      return Result.succeed({
        ...before,
        ...defined({ conversation, definition: state.definition ?? definition }),
        ...(hasSystem(conversation) && { isInstructed: true as const }),
        isHeld: false,
        received: rememberMessage(state.received, {
          messageId,
          sequence: state.sequence + 1,
          digest,
          ...defined({ edit: edit?.digest })
        }),
        queue: withQueued(before, queued, edit?.messageId)
      })
    }
    case "DecisionsReceived":
      return Result.succeed({
        ...againAt(
          release(state, () => true),
          event.at
        ),
        isHeld: false,
        decisions: [...state.decisions, ...event.decisions],
        decided: remember(state.decided, event.decisions),
        ...withRemembered(state, event.decisions)
      })
    case "AnswersForgotten":
      return Result.succeed({
        ...state,
        remembered: (state.remembered ?? []).filter(({ digest }) => !event.digests.includes(digest))
      })
    case "ResumeReceived": {
      const { messageIds } = event
      if (messageIds !== undefined) return Result.succeed(release(state, (held) => messageIds.includes(held.messageId)))
      const before = againAt(
        release(state, () => true),
        event.at
      )
      return Result.succeed({
        ...before,
        isHeld: false,
        isResumed: true,
        queue: Chunk.appendAll(state.stopped, before.queue),
        stopped: Chunk.empty()
      })
    }
    case "SessionUpdated": {
      const { metadata, title } = event
      return Result.succeed({ ...state, ...defined({ metadata, title }) })
    }
    case "SessionForked": {
      // The snapshot before it has the rest of the state
      const { plan } = event
      const forked = plan && state.run ? new runParts.State({ ...state.run, plan }) : state.run
      return forked !== undefined && runTransition.isForgedState(forked)
        ? Result.fail("other requests than were asked")
        : Result.succeed({ ...state, ...defined({ run: forked }) })
    }
    case "RunEvent":
      return applyRunEvent(state, event, run)
    case "MessageDropped":
      return Result.succeed({
        ...state,
        received: state.received.filter(({ messageId }) => messageId !== event.messageId),
        queue: Chunk.filter(state.queue, ({ messageId }) => messageId !== event.messageId),
        stopped: Chunk.filter(state.stopped, ({ messageId }) => messageId !== event.messageId),
        held: state.held.filter(({ messageId }) => messageId !== event.messageId)
      })
    case "DecisionsDropped":
      return Result.succeed({
        ...state,
        decisions: state.decisions.filter(
          (decision) => !event.decisions.some((dropped) => runRequests.concerns(dropped, decision))
        )
      })
    case "TurnFailed":
      return Result.succeed(applyFailure(state, event))
  }
}

/**
 * The state after some more events, or the event that does not fit. `run` is the state of the run after them, where that is known:
 * who makes the events of a run has applied each.
 */
export const applyAll = (
  self: SessionState,
  events: Iterable<Event>,
  run?: Run.State | undefined
): Result.Result<SessionState, string> => {
  let state = self
  for (const event of events) {
    const applied = applyBody(state, event, run)
    if (Result.isFailure(applied)) return applied
    state = { ...applied.success, sequence: state.sequence + 1 }
  }
  return Result.succeed(state)
}

/** True for a run that is in a turn, or was when its process died. */
const isUnderWay = ({ failure, run }: SessionState): boolean =>
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

/** The agent, the model and the context of a turn. */
export interface PartsOfTurn {
  readonly context: Json.JsonObject
  readonly definition: string | undefined
  readonly model: string | undefined
}

/** The parts of the turn that takes this message, or that continues the turn before. */
export const partsOfTurn = ({ definition, model, run }: SessionState, message: Queued | undefined): PartsOfTurn =>
  message === undefined
    ? { context: run?.context ?? {}, definition, model }
    : { context: contextOf(message), definition: message.definition ?? definition, model: message.model }

/** The messages that enter a turn with these parts, in their order. Others that steer need a turn of their own. */
export const steering = ({ queue }: SessionState, turn: PartsOfTurn): ReadonlyArray<Queued> =>
  Array.from(queue).filter(
    (message) =>
      message.steers === true &&
      message.budget === undefined &&
      message.model === turn.model &&
      (message.definition ?? turn.definition) === turn.definition &&
      Equal.equals(contextOf(message), turn.context)
  )

/** True for a message whose turn runs with another `RunContext` than the run had until now. */
export const isOfOther = (run: Run.State, message: Queued): boolean => !Equal.equals(run.context, contextOf(message))

/**
 * True if the next message waits for the calls of the turn before, which run with the `RunContext` of that turn: until they are
 * decided, and until that turn has taken the decisions.
 */
const waitsForCalls = (self: SessionState): boolean => {
  const message = Option.getOrUndefined(Chunk.head(dueMessages(self)))
  if (message === undefined || self.run === undefined) return false
  const areOpen = waitingDecisions(self).length > 0 || (Run.requests(self.run).length > 0 && !isDenying(self))
  return areOpen && isOfOther(self.run, message)
}

/** True if a turn has to be run. */
export const hasWork = (self: SessionState): boolean =>
  !self.isHeld &&
  (isUnderWay(self) ||
    self.isResumed ||
    (Chunk.isNonEmpty(self.queue) && !waitsForCalls(self)) ||
    waitingDecisions(self).length > 0)

/** The status of a session without a turn in memory. */
export const statusOf = (self: SessionState): Status => {
  if (hasWork(self)) return "running"
  return self.run !== undefined && Run.requests(self.run).length > 0 ? "waiting" : "idle"
}

/** A session with a request to a person waits for a person, however many calls of a front end wait, too. */
const waitsFor = (self: SessionState): WaitsFor | undefined => {
  const decided = waitingDecisions(self)
  const open = (self.run === undefined ? [] : Run.requests(self.run)).filter(
    (request) => !decided.some((decision) => runRequests.concerns(decision, request))
  )
  if (open.length === 0) return undefined
  return open.every(({ _tag }) => _tag === "Call") ? "client" : "person"
}

/** The id of the newest message of the user that a turn took, empty for a session without one. */
export const newestInput = ({ run }: SessionState): string => {
  if (run === undefined) return ""
  const isInput = ({ role }: Message.Message) => role === "user"
  return (run.pending.at(-1)?.message ?? Conversation.messages(run.conversation).findLast(isInput))?.id ?? ""
}

/** The conversation of a session, which may be waiting for the first turn. */
export const conversationOf = ({ conversation, run }: SessionState): Conversation.Conversation =>
  run?.conversation ?? conversation ?? Conversation.empty

/** True for a session with no message to answer: all were withdrawn, or given up. A turn without a message has nothing to do. */
export const isEmpty = (self: SessionState): boolean =>
  Chunk.isEmpty(waitingMessages(self)) &&
  (self.run === undefined ? !runTransition.hasUserMessage(conversationOf(self)) : !runTransition.hasInput(self.run))

/** The part of a session that a list of sessions shows. */
export const summaryOf = (self: SessionState, times: Pick<Summary, "created" | "updated">): Summary => ({
  title: self.title,
  metadata: self.metadata,
  ...times,
  status: statusOf(self),
  ...defined({ waitsFor: waitsFor(self) }),
  messages: Conversation.messageCount(conversationOf(self))
})

/** The decisions of the next turn: those about calls that still wait. */
export const waitingDecisions = ({ decisions, run }: SessionState): ReadonlyArray<Run.Decision> => {
  if (run === undefined || decisions.length === 0) return []
  const requests = Run.requests(run)
  return decisions.filter((decision) => requests.some((request) => runRequests.concerns(decision, request)))
}

/** The message that the next turn takes: none while the turn before it has not ended, or its calls wait. */
export const nextMessage = (self: SessionState): Queued | undefined =>
  isUnderWay(self) || waitsForCalls(self) ? undefined : Option.getOrUndefined(Chunk.head(dueMessages(self)))

/** True for a message whose turn was stopped: it is recorded, and not answered. */
export const isStopped = ({ stopped }: SessionState, messageId: string): boolean =>
  Chunk.some(stopped, (one) => one.messageId === messageId)

/** True for a message that no turn has taken. */
export const isWaiting = (self: SessionState, messageId: string | undefined): boolean =>
  Chunk.some(waitingMessages(self), (one) => one.messageId === messageId)

/** The messages whose turns come, in their order. */
const dueMessages = ({ queue, stopped }: SessionState): Chunk.Chunk<Queued> => Chunk.appendAll(stopped, queue)

/** The messages that no turn has taken: held messages, then messages whose turns come. */
export const waitingMessages = ({ held, queue, stopped }: SessionState): Chunk.Chunk<Queued> =>
  Chunk.appendAll(
    Chunk.fromIterable(held.length === 0 ? [] : held.map(({ error: _, ...message }) => message)),
    Chunk.appendAll(stopped, queue)
  )

/** True if a message that waits denies the calls that wait. */
export const isDenying = (self: SessionState): boolean =>
  Chunk.some(waitingMessages(self), ({ pending }) => pending === "deny")
