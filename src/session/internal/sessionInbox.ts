/**
 * The inbox of a session in the process that has it: messages, decisions, titles and metadata, and the wishes to resume,
 * interrupt or remove it.
 * What is accepted is stored before the caller has its answer, and makes a turn due.
 *
 * A repeated message returns its old receipt. A new message is refused while the session is full or, on request, busy.
 * With `ifExists`, a message to a session that has begun is refused, returns the first receipt, or replaces the
 * session.
 */

import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Run from "../../agent/Run.ts"
import * as agentBlueprint from "../../agent/internal/agentBlueprint.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as Message from "../../conversation/Message.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as base from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import * as planNames from "../../plan/internal/planNames.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as storage from "../../store/internal/storage.ts"
import * as RunContext from "../../tool/RunContext.ts"
import type { Decide, Send } from "../SessionApi.ts"
import type { Made } from "./sessionDefinitions.ts"
import * as sessionDetails from "./sessionDetails.ts"
import * as sessionEvents from "./sessionEvents.ts"
import type { Event, Memory } from "./sessionEvents.ts"
import * as sessionMessage from "./sessionMessage.ts"
import * as sessionTurn from "./sessionTurn.ts"
import * as turnEvents from "./turnEvents.ts"
import type { Turn, Turns } from "./sessionTurn.ts"
import * as sessionTypes from "./sessionTypes.ts"
import type { Details, MessageReceipt, Models, Reason, Receipt, SendOptions, SessionError } from "./sessionTypes.ts"

/** An interruption waits this long for a turn to take its message: a turn that cannot be prepared never takes it. */
const patienceToBegin = Duration.seconds(1)

type Received = Extract<Event, { readonly _tag: "MessageReceived" }>

type Sent = Pick<Received, "messageId" | "input" | "plan" | "digest">

/** Stores an event that a turn has to answer, with `write`, and begins the turn. */
export const receiveBy = Effect.fnUntraced(function* (
  self: Turns,
  event: Event,
  write: Effect.Effect<boolean, SessionError>
): Effect.fn.Return<boolean, SessionError> {
  const { host, id, own } = self
  if (!own.hasWork()) yield* Effect.mapError(host.onBusy(id), own.fail)
  // Nothing was stored if it was refused
  const isWritten = yield* Effect.tapError(write, () => sessionTurn.rest(self))
  if (!isWritten) return false
  const caller = yield* Effect.option(Effect.currentParentSpan)
  if (Option.isSome(caller)) {
    self.callers.set(event._tag === "MessageReceived" ? event.messageId : undefined, caller.value)
  }
  yield* sessionTurn.start(self)
  return true
})

const receive = (self: Turns, event: Event) => receiveBy(self, event, Effect.as(self.own.write([event]), true))

const receiveResume = (self: Turns, messageIds?: Arr.NonEmptyReadonlyArray<string>) =>
  Effect.flatMap(DateTime.now, (at) => receive(self, { _tag: "ResumeReceived", at, ...defined({ messageIds }) }))

/**
 * Tries the messages again that could not begin, once in each process that opens the session and has its agent: a deploy may have
 * brought what they need.
 */
export const tryHeld = (self: Turns): Effect.Effect<void> => {
  const { host, id, own } = self
  return Effect.suspend(() => {
    if (host.tried.has(id) || (own.stored?.memory.held.length ?? 0) === 0) return Effect.void
    const again = Effect.gen(function* () {
      yield* own.refresh
      const memory = yield* own.memory
      const held = memory.held.map(({ messageId }) => messageId)
      const agent = yield* Effect.option(sessionTurn.agentOf(self, memory))
      if (Option.isNone(agent) || !Arr.isReadonlyArrayNonEmpty(held)) return
      host.tried.add(id)
      yield* receiveResume(self, held)
    })
    return Effect.ignore(own.alone(again))
  })
}

export const send = Effect.fnUntraced(function* (
  self: Turns,
  { input, ...options }: Send
): Effect.fn.Return<MessageReceipt, SessionError> {
  const { own } = self
  const messageId = options.messageId ?? (yield* yield* Message.MessageId)
  const { definition } = options
  const made =
    definition === undefined ? undefined : yield* Effect.mapError(self.host.definitions.read(definition), own.fail)
  const read = sessionMessage.read(messageId, input, options, made?.digest)
  const parts = yield* Effect.mapError(read, sessionTypes.refusedByLayer(self.id))
  const details = yield* Effect.mapError(sessionDetails.check(options), own.fail)
  const message = { messageId, ...parts }
  const stored = store(self, message, options, made, details)
  const isOther = options.ifExists === "restart" && (yield* own.alone(mayReplace(self, message, options, made)))
  return yield* isOther ? paused(self, replace(self, stored)) : own.alone(stored)
})

/** A session that began with this message is no other one: the call came twice. */
const isReplaced = (memory: Memory | undefined, messageId: string, { ifExists }: SendOptions): boolean =>
  memory !== undefined && ifExists === "restart" && memory.received[0]?.messageId !== messageId

/** True if the message replaces the session. A refused message stops nothing. */
const mayReplace = Effect.fnUntraced(function* (
  self: Turns,
  message: Sent,
  options: SendOptions,
  made: Made | undefined
) {
  const { own } = self
  yield* own.refresh
  if (!isReplaced(own.stored?.memory, message.messageId, options)) return false
  const agent = yield* agentFor(self, undefined, options, made)
  const context = yield* contextFor(self, options.context)
  yield* checkParts(self, agent, { ...message, ...defined({ context, model: options.model }) })
  return true
})

/** Stops the turn, and stores the message that begins another session. */
const replace = (
  self: Turns,
  stored: Effect.Effect<MessageReceipt, SessionError>
): Effect.Effect<MessageReceipt, SessionError> =>
  Effect.suspend(() => {
    const { current, own } = self
    const stopped = current === undefined ? Effect.void : interruptTurn(self, current)
    // A turn may have begun meanwhile
    const begun = Effect.suspend(() => (self.current === undefined ? stored : Effect.undefined))
    return Effect.flatMap(Effect.andThen(stopped, own.alone(begun)), (receipt) =>
      receipt === undefined ? replace(self, stored) : Effect.succeed(receipt)
    )
  })

/** The agent of a message. An agent that is data is made when it is first needed. */
interface Named {
  readonly name: string
  readonly agent: Effect.Effect<agentTypes.Agent<unknown>, SessionError>
}

/**
 * The agent of a message: the agent that the message carries, the agent of the session, or the agent that the message
 * names.
 */
export const agentFor = Effect.fnUntraced(function* (
  self: Turns,
  found: Memory | undefined,
  { agent: wanted }: SendOptions = {},
  made?: Made | undefined
): Effect.fn.Return<Named, SessionError> {
  const { fail } = self.own
  const named = made?.agent.name ?? wanted
  const other = [wanted, named].find((name) => name !== undefined && name !== (found?.agent ?? named))
  if (other !== undefined) {
    return yield* fail({ _tag: "AgentDiffers", agent: other, found: found?.agent ?? named ?? "" })
  }
  if (made !== undefined && found !== undefined && found.definition === undefined) {
    const problem = "expected none, because the session is one of an agent of the layer. Use another id"
    return yield* fail({ _tag: "DefinitionInvalid", problem })
  }
  if (made !== undefined) return { name: made.agent.name, agent: Effect.succeed(made.agent) }
  if (found?.definition !== undefined) return { name: found.agent, agent: sessionTurn.agentOf(self, found) }
  const name = found?.agent ?? wanted ?? onlyAgent(self)
  const agent = yield* sessionTurn.agentNamed(self, name, found !== undefined)
  return { name: agent.name, agent: Effect.succeed(agent) }
})

const isPlan = Predicate.hasProperty(planNames.boundTypeId)

/** Refuses a model that the host does not allow or has not, and a model or an input that nothing would use. */
export const checkParts = Effect.fnUntraced(function* (
  { host, id, own }: Turns,
  { agent, name }: Named,
  { context = {}, model, plan }: Pick<Received, "context" | "model" | "plan">
) {
  if (plan !== undefined && !isPlan(yield* agent)) {
    const problem = `expected a text, or a list of text and file parts, because ${base.quote(name)} is no plan`
    return yield* own.fail({ _tag: "InputInvalid", problem })
  }
  if (model === undefined) return
  const refuse = (problem: string) => Effect.fail(own.fail({ _tag: "ModelRefused", model, problem }))
  const { models } = host
  const isAllowed = isList(models) ? models.includes(model) : yield* models(model, { id, agent: name, context })
  if (!isAllowed) {
    return yield* refuse(
      isList(models) && models.length === 0
        ? "expected none, because the layer allows no models for messages (models)"
        : "expected one of those that the layer allows (models)"
    )
  }
  const found = yield* agent
  if (isPlan(found)) {
    return yield* refuse("the steps of a plan have models of their own. Send the message without one")
  }
  yield* Effect.catch(agentBlueprint.check(found, model), ({ message, reason }) =>
    reason._tag === "ModelRegistryFailed" ? refuse(message) : Effect.void
  )
})

const isList = (models: Models): models is ReadonlyArray<string> => Array.isArray(models)

const onlyAgent = ({ host }: Turns): string | undefined =>
  host.agents.size === 1 ? Array.from(host.agents.keys())[0] : undefined

const store = Effect.fnUntraced(function* (
  self: Turns,
  message: Sent,
  options: SendOptions,
  made: Made | undefined,
  details: sessionDetails.Checked
): Effect.fn.Return<MessageReceipt, SessionError> {
  const { own } = self
  yield* own.refresh
  const { conversation, ifExists = "continue", pending } = options
  const { digest, messageId } = message
  const found = isReplaced(own.stored?.memory, messageId, options) ? undefined : own.stored?.memory
  const agent = yield* agentFor(self, found, options, made)
  if (found !== undefined) {
    const known = knownMessage(found, messageId, digest)
    if (known !== undefined) {
      return known.digest === digest
        ? yield* again(self, found, known)
        : yield* own.fail({ _tag: "InputDiffers", messageId })
    }
    if (found.origin !== undefined && ifExists === "resume") return yield* resumeOrigin(self, found, message, options)
    const [first] = found.received
    if (first !== undefined && ifExists === "resume") return yield* resumeFirst(self, found, first, digest)
    const isFirst = ifExists !== "continue" || conversation !== undefined
    const hasBegun = first !== undefined || found.run !== undefined
    if (hasBegun && isFirst) return yield* own.fail(existing(found))
    yield* ensureFreeId(self, found, messageId)
    yield* ensureRoom(self, found, options)
  }
  const context = yield* contextFor(self, options.context)
  const { model } = options
  const timeout = options.timeout === undefined ? undefined : sessionTypes.millisOf(options.timeout)
  yield* checkParts(self, agent, { ...message, ...defined({ context, model }) })
  const generation = made !== undefined && found === undefined ? yield* storage.nonce : undefined
  if (made !== undefined) yield* Effect.mapError(self.host.definitions.keep(own.user(generation), made), own.fail)
  const at = yield* DateTime.now
  const event: Event = {
    _tag: "MessageReceived",
    at,
    agent: agent.name,
    ...message,
    ...defined({ context, conversation, definition: made?.digest, model, timeout }),
    ...(pending === "deny" && { pending })
  }
  if (found === undefined) {
    yield* own.ensureFree
    const isDescribed = !sessionDetails.isEmpty(details)
    const before: ReadonlyArray<Event> = isDescribed ? [{ _tag: "SessionUpdated", at, ...details }] : []
    const isCreated = yield* receiveBy(
      self,
      event,
      own.create(agent.name, at, Arr.append(before, event), undefined, generation)
    )
    // Another process was faster
    if (!isCreated) return yield* store(self, message, options, made, details)
  } else yield* receive(self, event)
  return receiptOf(self, messageId, own.sequence())
})

/** The `RunContext` of a message: its own, or the context of the host. An empty context is not stored. */
export const contextFor = ({ host, own }: Turns, context: JsonObject | undefined) => {
  const fixed = host.run?.context
  if (context !== undefined && fixed !== undefined && !Equal.equals(context, fixed)) {
    return Effect.fail(own.fail({ _tag: "ContextDiffers" }))
  }
  const found = context ?? fixed ?? Context.get(host.context, RunContext.RunContext)
  return Effect.succeed(Object.keys(found).length === 0 ? undefined : found)
}

/** A message that was received before. A waiting message is known, however many messages came after it. */
export const knownMessage = (
  memory: Memory,
  messageId: string,
  digest: string
): Memory["received"][number] | undefined =>
  memory.received.find((received) => received.messageId === messageId) ??
  (sessionEvents.isWaiting(memory, messageId) ? { messageId, digest, sequence: memory.sequence } : undefined)

/**
 * Refuses the id of a message in the conversation: its receipt is no longer remembered, or the fork has the message
 * from the other session.
 */
export const ensureFreeId = ({ own }: Turns, { run }: Memory, messageId: string): Effect.Effect<void, SessionError> =>
  run !== undefined && runTransition.userMessage(run, messageId) !== undefined
    ? Effect.fail(own.fail({ _tag: "InputDiffers", messageId }))
    : Effect.void

export const existing = (memory: Memory): Extract<Reason, { readonly _tag: "Exists" }> => {
  const outcome = memory.failure?.reason ?? memory.run?.outcome?._tag
  return { _tag: "Exists", agent: memory.agent, status: sessionEvents.statusOf(memory), ...defined({ outcome }) }
}

/** The receipt of the first message, for the same content. A turn that failed or was interrupted continues. */
const resumeFirst = Effect.fnUntraced(function* (
  self: Turns,
  memory: Memory,
  first: Memory["received"][number],
  digest: string
) {
  if (first.digest !== digest) return yield* self.own.fail({ _tag: "InputDiffers" })
  if (!sessionEvents.isWaiting(memory, first.messageId)) yield* resumeStopped(self, memory)
  return yield* again(self, memory, first)
})

/** The same in a fork: its first message belongs to the session that it continues, so no event here has the id. */
const resumeOrigin = Effect.fnUntraced(function* (
  self: Turns,
  memory: Memory,
  { digest, messageId }: Pick<Received, "digest" | "messageId">,
  options: SendOptions
) {
  const context = (yield* contextFor(self, options.context)) ?? {}
  // The rest runs with the context of the fork
  const isSame = memory.origin === digest && (memory.run === undefined || Equal.equals(context, memory.run.context))
  if (!isSame) return yield* self.own.fail({ _tag: "InputDiffers" })
  yield* resumeStopped(self, memory)
  return { ...newest(self), messageId }
})

const resumeStopped = Effect.fnUntraced(function* (self: Turns, memory: Memory) {
  const { failure, run } = memory
  const outcome = run?.outcome?._tag
  // A limit may be larger now, and a step that has paused finds out whether it may continue
  const isStopped =
    failure !== undefined ||
    outcome === "Interrupted" ||
    outcome === "MaxSteps" ||
    (run !== undefined && outcome === "AwaitingApproval" && runTransition.hasPauses(run))
  if (isStopped && !sessionEvents.hasWork(memory)) yield* receiveResume(self)
})

/** The number of messages that a run has taken, and that wait there until its calls are decided. */
const takenMessages = ({ run }: Memory): number =>
  run !== undefined && Run.approvalRequests(run).length > 0 ? run.pending.length : 0

/** Refuses a message that is one too many, or that is not to wait. */
const ensureRoom = Effect.fnUntraced(function* (self: Turns, memory: Memory, { pending, whenBusy }: SendOptions) {
  const { maxQueue } = self.host
  const status = sessionEvents.statusOf(memory)
  const isTaken = sessionTurn.takenMessage(self) !== undefined
  const queued = Chunk.size(sessionEvents.waitingMessages(memory)) - (isTaken ? 1 : 0)
  const waiting = queued + (pending === "deny" ? 0 : takenMessages(memory))
  const limit = waiting >= maxQueue ? maxQueue : undefined
  // The queue is full and no turn runs: begin a turn, or the queue would stay full
  if (limit !== undefined && (memory.isHeld || status === "idle")) yield* receiveResume(self)
  if (limit !== undefined || (status === "running" && whenBusy === "reject")) {
    return yield* self.own.fail({ _tag: "Busy", status, ...defined({ limit }) })
  }
})

/** The receipt of a command whose newest event has this number. */
const receiptAt = ({ own }: Turns, sequence = own.sequence()): Receipt => ({
  sequence,
  cursor: sessionEvents.cursorOf(own.stored?.at.head.life ?? "", sequence)
})

/** The receipt of a command that began no turn. */
export const newest = (self: Turns) => ({ ...receiptAt(self), isOfNewest: true as const })

export const receiptOf = (self: Turns, messageId: string, sequence: number): MessageReceipt => {
  const memory = self.own.stored?.memory
  // It is taken after a decision, and no event shows that
  const isWaiting =
    memory !== undefined && sessionEvents.statusOf(memory) === "waiting" && sessionEvents.isWaiting(memory, messageId)
  return { ...receiptAt(self, sequence), messageId, ...(isWaiting && { isWaiting }) }
}

/** The receipt of a message that was received before. If a failed turn left the message held, it is tried again. */
export const again = Effect.fnUntraced(function* (
  self: Turns,
  memory: Memory,
  { messageId, sequence }: Memory["received"][number]
) {
  if (!sessionEvents.isWaiting(memory, messageId)) return receiptOf(self, messageId, sequence)
  const held = sessionEvents.likeIn(memory, messageId, memory.held)
  if (Arr.isReadonlyArrayNonEmpty(held)) yield* receiveResume(self, held)
  else if (memory.isHeld || sessionEvents.isStopped(memory, messageId)) yield* receiveResume(self)
  return receiptOf(self, messageId, Math.max(sequence, memory.failedAt))
})

const isSame = (a: Run.Decision, b: Run.Decision): boolean => runTransition.concerns(a, b) && a.approved === b.approved

/** A decision without other members: a request with `approved` added is one, too. */
const bare = ({ callId, path, ...decision }: Run.Decision): Run.Decision => ({
  callId,
  ...runTransition.verdictOf(decision),
  ...defined({ path })
})

export const decide = (self: Turns, decisions: Decide["decisions"]): Effect.Effect<Receipt, SessionError> =>
  self.own.alone(storeDecisions(self, decisions))

const storeDecisions = Effect.fnUntraced(function* (
  self: Turns,
  decisions: Decide["decisions"]
): Effect.fn.Return<Receipt, SessionError> {
  const { own } = self
  yield* own.refresh
  const memory = yield* own.memory
  const requests = memory.run === undefined ? [] : Run.approvalRequests(memory.run)
  const isKnown = (decision: Run.Decision) => {
    const isOpen = requests.some((request) => runTransition.concerns(decision, request))
    return (isOpen ? memory.decisions : memory.decided).some((one) => isSame(decision, one))
  }
  const [first, ...others] = decisions.filter((decision) => !isKnown(decision))
  if (decisions.length === 0 || (first === undefined && !memory.isHeld)) return newest(self)
  if (first === undefined) {
    // Retries what a failed turn left behind: messages and decisions that wait for a new event
    yield* receiveResume(self)
    return receiptAt(self)
  }
  const fresh: Arr.NonEmptyReadonlyArray<Run.Decision> = [first, ...others]
  yield* Effect.mapError(checkDecisions(memory, fresh), (error) => own.fail({ _tag: "InvalidDecision", error }))
  yield* receive(self, { _tag: "DecisionsReceived", at: yield* DateTime.now, decisions: Arr.map(fresh, bare) })
  return receiptAt(self)
})

const checkDecisions = Effect.fnUntraced(function* (
  { decisions, run }: Memory,
  fresh: Arr.NonEmptyReadonlyArray<Run.Decision>
): Effect.fn.Return<void, Run.InvalidDecision> {
  const pending = run === undefined ? [] : Run.approvalRequests(run).map(({ callId }) => callId)
  const repeated = fresh.find((decision) => decisions.some((one) => runTransition.concerns(decision, one)))
  if (repeated !== undefined) {
    return yield* new Run.InvalidDecision({ callId: repeated.callId, problem: "repeated", pending })
  }
  if (run === undefined) {
    return yield* new Run.InvalidDecision({ callId: fresh[0].callId, problem: "unknown", pending })
  }
  yield* Effect.fromResult(Run.decide(run, fresh, yield* DateTime.now))
})

/** Sets the title, the metadata or both. No turn answers that. */
export const update = Effect.fnUntraced(function* (
  self: Turns,
  changed: Details
): Effect.fn.Return<Receipt, SessionError> {
  const { own } = self
  const details = yield* Effect.mapError(sessionDetails.check(changed), own.fail)
  return yield* own.alone(
    Effect.gen(function* () {
      yield* own.refresh
      yield* own.memory
      if (!sessionDetails.isEmpty(details)) {
        yield* own.write([{ _tag: "SessionUpdated", at: yield* DateTime.now, ...details }])
      }
      return newest(self)
    })
  )
})

export const resume = (self: Turns): Effect.Effect<Receipt, SessionError> => {
  const { own } = self
  return own.alone(
    Effect.gen(function* () {
      yield* own.refresh
      yield* own.memory
      if (own.hasWork()) return newest(self)
      yield* receiveResume(self)
      return receiptAt(self)
    })
  )
}

/** Stops the turn, or denies the calls that wait. */
export const interrupt = (self: Turns): Effect.Effect<Receipt, SessionError> =>
  Effect.tap(stop(self), () => self.own.memory)

const stop = (self: Turns): Effect.Effect<Receipt, SessionError> =>
  Effect.suspend(() => {
    const { current, own } = self
    if (current !== undefined) return interruptTurn(self, current)
    const looked = own.alone(Effect.andThen(Effect.andThen(own.refresh, own.ensureFree), cancelled(self)))
    return Effect.flatMap(looked, (found) => (found === undefined ? stop(self) : Effect.succeed(found)))
  })

const stoppedAt = (self: Turns, sequence?: number): Receipt => ({ ...receiptAt(self, sequence), isInterrupted: true })

/** `undefined` if a turn has begun meanwhile. A turn that is left to a process with its agent is ended without it. */
const cancelled = (self: Turns): Effect.Effect<Receipt | undefined, SessionError> =>
  Effect.suspend(() => {
    if (self.current !== undefined) return Effect.undefined
    const isOthers = sessionTurn.leftToOthers(self) !== undefined
    const message = self.own.stored && sessionEvents.nextMessage(self.own.stored.memory)
    const stopped = isOthers ? Effect.as(sessionTurn.recordEnd(self, message), true) : sessionTurn.cancelCalls(self)
    return Effect.map(stopped, (isStopped) => (isStopped ? stoppedAt(self) : newest(self)))
  })

export const interruptTurn = Effect.fnUntraced(function* (
  self: Turns,
  turn: Turn
): Effect.fn.Return<Receipt, SessionError> {
  const { own } = self
  // A message that was acknowledged is part of the conversation, also where its turn is stopped at once
  yield* begins(turn)
  sessionTurn.halt(turn, { _tag: "Stopping" })
  yield* Deferred.await(turn.done)
  yield* own.ensureAlive
  if (!sessionTurn.isOurs(turn)) {
    yield* own.alone(Effect.andThen(own.refresh, own.ensureFree))
    // The turn that the other process left has not ended yet
    return yield* stop(self)
  }
  if (sessionTurn.isLeft(turn)) return yield* own.fail({ _tag: "Elsewhere", owner: "none: it was closed here" })
  const found = yield* own.alone(cancelled(self))
  if (found?.isInterrupted === true) return found
  return sessionTurn.wasInterrupted(turn) ? stoppedAt(self, turn.last) : (found ?? newest(self))
})

/** Drops a message that no turn has taken. Returns whether it waited. */
export const withdraw = (self: Turns, messageId: string): Effect.Effect<boolean, SessionError> => {
  const { own } = self
  const drop = Effect.gen(function* () {
    yield* own.refresh
    const memory = yield* own.memory
    if (self.current?.message === messageId || !sessionEvents.isWaiting(memory, messageId)) return false
    const error = turnEvents.withdrawn
    yield* own.write([{ _tag: "MessageDropped", at: yield* DateTime.now, messageId, error }])
    return true
  })
  return paused(
    self,
    Effect.suspend(() => {
      const { current } = self
      const unprepared = current?.message === messageId ? unlessBegun(current) : Effect.void
      return Effect.andThen(unprepared, own.alone(drop))
    })
  )
}

/** Ends a turn that does not begin soon. */
const unlessBegun = Effect.fnUntraced(function* (turn: Turn) {
  yield* begins(turn)
  if (Deferred.isDoneUnsafe(turn.begun)) return
  sessionTurn.halt(turn, { _tag: "Stopping" })
  yield* Deferred.await(turn.done)
})

/** Waits a moment for a turn to take its message, or for its end. */
const begins = (turn: Turn) =>
  Effect.raceFirst(Effect.timeoutOption(Deferred.await(turn.begun), patienceToBegin), Deferred.await(turn.done))

/** No turn begins meanwhile. */
export const paused = <A>(self: Turns, effect: Effect.Effect<A, SessionError>): Effect.Effect<A, SessionError> =>
  Effect.suspend(() => {
    if (self.mode === "Open") self.mode = "Paused"
    return effect
  }).pipe(
    Effect.ensuring(
      Effect.suspend(() => {
        if (self.mode === "Paused") self.mode = "Open"
        return sessionTurn.start(self)
      })
    )
  )

/** Stops the turn and removes the session. Returns whether there was one. */
export const remove = (self: Turns): Effect.Effect<boolean, SessionError> =>
  paused(
    self,
    Effect.suspend(() => removeStopped(self))
  )

/** A turn may have begun after the stopped turn, because another call that had paused the session has ended. */
const removeStopped = (self: Turns): Effect.Effect<boolean, SessionError> => {
  const removed = Effect.suspend(() => (self.current === undefined ? removeStored(self) : Effect.undefined))
  return Effect.flatMap(Effect.andThen(stop(self), self.own.alone(removed)), (isRemoved) =>
    isRemoved === undefined ? removeStopped(self) : Effect.succeed(isRemoved)
  )
}

const removeStored = ({ host, id, own }: Turns) =>
  Effect.tap(own.remove, () => Effect.andThen(host.onIdle(id), Effect.sync(own.feed.notify)))
