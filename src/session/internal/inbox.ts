/**
 * The inbox of a session in the process that has it: messages, decisions, titles and metadata, and the wishes to resume,
 * interrupt or remove it.
 * An accepted call is stored before its caller has the answer, and makes a turn due.
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
import * as agentValue from "../../agent/internal/agentValue.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as Message from "../../conversation/Message.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as base from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import * as planNames from "../../plan/internal/planNames.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"
import * as RunContext from "../../tool/RunContext.ts"
import type { Decide, Send } from "../SessionApi.ts"
import type { Made } from "./storedDefinitions.ts"
import * as details from "./details.ts"
import * as cursors from "./cursors.ts"
import * as fold from "./fold.ts"
import type { Event } from "./events.ts"
import type { SessionState } from "./fold.ts"
import * as incoming from "./incoming.ts"
import * as turns from "./turns.ts"
import * as turnEvents from "./turnEvents.ts"
import type { Turn, LiveSession } from "./turns.ts"
import * as types from "./types.ts"
import type { Details, MessageReceipt, Models, Reason, Receipt, SendOptions, SessionError } from "./types.ts"
import * as writer from "./writer.ts"

/** An interruption waits this long for a turn to take its message: a turn that cannot be prepared never takes it. */
const patienceToBegin = Duration.seconds(1)

type Received = Extract<Event, { readonly _tag: "MessageReceived" }>

type Sent = Pick<Received, "messageId" | "input" | "plan" | "digest">

/** Stores an event that a turn has to answer, with `write`, and begins the turn. */
export const receiveBy = Effect.fnUntraced(function* (
  self: LiveSession,
  event: Event,
  write: Effect.Effect<boolean, SessionError>
): Effect.fn.Return<boolean, SessionError> {
  const { host, id } = self
  if (!writer.hasWork(self)) yield* Effect.mapError(host.onBusy(id), self.fail)
  // Nothing was stored if it was refused
  const isWritten = yield* Effect.tapError(write, () => turns.rest(self))
  if (!isWritten) return false
  const caller = yield* Effect.option(Effect.currentParentSpan)
  if (Option.isSome(caller)) {
    self.callers.set(event._tag === "MessageReceived" ? event.messageId : undefined, caller.value)
  }
  yield* turns.start(self)
  return true
})

const receive = (self: LiveSession, event: Event) =>
  receiveBy(self, event, Effect.as(writer.write(self, [event]), true))

const receiveResume = (self: LiveSession, messageIds?: Arr.NonEmptyReadonlyArray<string>) =>
  Effect.flatMap(DateTime.now, (at) => receive(self, { _tag: "ResumeReceived", at, ...defined({ messageIds }) }))

/**
 * Tries the messages again that could not begin, once in each process that opens the session and has its agent: a deploy may have
 * brought what they need.
 */
export const tryHeld = (self: LiveSession): Effect.Effect<void> => {
  const { host, id } = self
  return Effect.suspend(() => {
    if (host.tried.has(id) || (self.stored?.state.held.length ?? 0) === 0) return Effect.void
    const again = Effect.gen(function* () {
      yield* writer.refresh(self)
      const state = yield* writer.stateOf(self)
      const held = state.held.map(({ messageId }) => messageId)
      const agent = yield* Effect.option(turns.agentOf(self, state))
      if (Option.isNone(agent) || !Arr.isReadonlyArrayNonEmpty(held)) return
      host.tried.add(id)
      yield* receiveResume(self, held)
    })
    return Effect.ignore(writer.alone(self, again))
  })
}

export const send = Effect.fnUntraced(function* (
  self: LiveSession,
  { input, ...options }: Send
): Effect.fn.Return<MessageReceipt, SessionError> {
  const messageId = options.messageId ?? (yield* yield* Message.MessageId)
  const { definition } = options
  const made =
    definition === undefined ? undefined : yield* Effect.mapError(self.host.definitions.read(definition), self.fail)
  const read = incoming.read(messageId, input, options, made?.digest)
  const parts = yield* Effect.mapError(read, types.refusedByLayer(self.id))
  const described = yield* Effect.mapError(details.check(options), self.fail)
  const message = { messageId, ...parts }
  const stored = store(self, message, options, made, described)
  const isOther =
    options.ifExists === "restart" && (yield* writer.alone(self, mayReplace(self, message, options, made)))
  return yield* isOther ? paused(self, replace(self, stored)) : writer.alone(self, stored)
})

/** A session that began with this message is no other one: the call came twice. */
const isReplaced = (state: SessionState | undefined, messageId: string, { ifExists }: SendOptions): boolean =>
  state !== undefined && ifExists === "restart" && state.received[0]?.messageId !== messageId

/** True if the message replaces the session. A refused message stops nothing. */
const mayReplace = Effect.fnUntraced(function* (
  self: LiveSession,
  message: Sent,
  options: SendOptions,
  made: Made | undefined
) {
  yield* writer.refresh(self)
  if (!isReplaced(self.stored?.state, message.messageId, options)) return false
  const agent = yield* agentFor(self, undefined, options, made)
  const context = yield* contextFor(self, options.context)
  yield* checkParts(self, agent, { ...message, ...defined({ context, model: options.model }) })
  return true
})

/** Stops the turn, and stores the message that begins another session. */
const replace = (
  self: LiveSession,
  stored: Effect.Effect<MessageReceipt, SessionError>
): Effect.Effect<MessageReceipt, SessionError> =>
  Effect.suspend(() => {
    const { current } = self
    const stopped = current === undefined ? Effect.void : interruptTurn(self, current)
    // A turn may have begun meanwhile
    const begun = Effect.suspend(() => (self.current === undefined ? stored : Effect.undefined))
    return Effect.flatMap(Effect.andThen(stopped, writer.alone(self, begun)), (receipt) =>
      receipt === undefined ? replace(self, stored) : Effect.succeed(receipt)
    )
  })

/** The agent of a message. An agent that is data is made when it is first needed. */
interface Named {
  readonly name: string
  readonly known?: agentTypes.Agent<unknown>
  readonly agent: Effect.Effect<agentTypes.Agent<unknown>, SessionError>
}

/**
 * The agent of a message: the agent that the message carries, the agent of the session, or the agent that the message
 * names.
 */
export const agentFor = Effect.fnUntraced(function* (
  self: LiveSession,
  found: SessionState | undefined,
  { agent: wanted }: SendOptions = {},
  made?: Made | undefined
): Effect.fn.Return<Named, SessionError> {
  const { fail } = self
  const named = made?.agent.name ?? wanted
  const other = [wanted, named].find((name) => name !== undefined && name !== (found?.agent ?? named))
  if (other !== undefined) {
    return yield* fail({ _tag: "AgentDiffers", agent: other, found: found?.agent ?? named ?? "" })
  }
  if (made !== undefined && found !== undefined && found.definition === undefined) {
    const problem = "expected no definition, because an agent of the layer has the session. Use another id"
    return yield* fail({ _tag: "DefinitionInvalid", problem })
  }
  if (made !== undefined) return hosted(made.agent)
  if (found?.definition !== undefined) return { name: found.agent, agent: turns.agentOf(self, found) }
  const name = found?.agent ?? wanted ?? onlyAgent(self)
  const agent = yield* turns.agentNamed(self, name, found !== undefined)
  return hosted(agent)
})

const hosted = (known: agentTypes.Agent<unknown>): Named => ({ name: known.name, known, agent: Effect.succeed(known) })

const isPlan = Predicate.hasProperty(planNames.boundTypeId)

/** Refuses a model that the host does not allow or has not, and a model or an input that nothing would use. */
export const checkParts = Effect.fnUntraced(function* (
  self: LiveSession,
  { agent, known, name }: Named,
  { context = {}, model, plan }: Pick<Received, "context" | "model" | "plan">
) {
  if (plan !== undefined && !isPlan(yield* agent)) {
    const problem = `expected a text, or a list of text and file parts, because ${base.quote(name)} is no plan`
    return yield* self.fail({ _tag: "InputInvalid", problem })
  }
  // An agent that is stored as data is made for its turn, which checks the context
  if (known !== undefined) yield* Effect.mapError(agentValue.checkContext(known, context), self.fail)
  if (model === undefined) return
  const refuse = (problem: string) => Effect.fail(self.fail({ _tag: "ModelRefused", model, problem }))
  const { host, id } = self
  const { models } = host
  const isAllowed = isList(models) ? models.includes(model) : yield* models(model, { id, agent: name, context })
  if (!isAllowed) {
    return yield* refuse(
      isList(models) && models.length === 0
        ? "expected none, because the layer allows no models for messages (models)"
        : "expected one of the models that the layer allows (models)"
    )
  }
  const found = yield* agent
  if (isPlan(found)) {
    return yield* refuse("the steps of a plan have models of their own. Send the message without a model")
  }
  yield* Effect.catch(agentValue.check(found, model), ({ message, reason }) =>
    reason._tag === "ModelRegistryFailed" ? refuse(message) : Effect.void
  )
})

const isList = (models: Models): models is ReadonlyArray<string> => Array.isArray(models)

const onlyAgent = ({ host }: LiveSession): string | undefined =>
  host.agents.size === 1 ? Array.from(host.agents.keys())[0] : undefined

const store = Effect.fnUntraced(function* (
  self: LiveSession,
  message: Sent,
  options: SendOptions,
  made: Made | undefined,
  described: details.Checked
): Effect.fn.Return<MessageReceipt, SessionError> {
  yield* writer.refresh(self)
  const { conversation, ifExists = "continue", pending, whenBusy } = options
  const { digest, messageId } = message
  const found = isReplaced(self.stored?.state, messageId, options) ? undefined : self.stored?.state
  const agent = yield* agentFor(self, found, options, made)
  if (found !== undefined) {
    const known = knownMessage(found, messageId, digest)
    if (known !== undefined) {
      return known.digest === digest
        ? yield* again(self, found, known)
        : yield* self.fail({ _tag: "InputDiffers", messageId })
    }
    if (found.origin !== undefined && ifExists === "resume") return yield* resumeOrigin(self, found, message, options)
    const [first] = found.received
    if (first !== undefined && ifExists === "resume") return yield* resumeFirst(self, found, first, digest)
    const isFirst = ifExists !== "continue" || conversation !== undefined
    const hasBegun = first !== undefined || found.run !== undefined
    if (hasBegun && isFirst) return yield* self.fail(existing(found))
    yield* ensureFreeId(self, found, messageId)
    yield* ensureRoom(self, found, options)
  }
  const context = yield* contextFor(self, options.context)
  const { model } = options
  const timeout = options.timeout === undefined ? undefined : types.millisOf(options.timeout)
  const budget = options.budget && ledger.limitsOf(options.budget)
  yield* checkParts(self, agent, { ...message, ...defined({ context, model }) })
  const generation = made !== undefined && found === undefined ? yield* storeKeys.nonce : undefined
  if (made !== undefined)
    yield* Effect.mapError(self.host.definitions.keep(writer.userOf(self, generation), made), self.fail)
  const at = yield* DateTime.now
  const event: Event = {
    _tag: "MessageReceived",
    at,
    agent: agent.name,
    ...message,
    ...defined({ budget, context, conversation, definition: made?.digest, model, timeout }),
    ...(pending === "deny" && { pending }),
    ...(whenBusy === "steer" && { steers: true as const })
  }
  if (found === undefined) {
    yield* writer.ensureFree(self)
    const isDescribed = !details.isEmpty(described)
    const before: ReadonlyArray<Event> = isDescribed ? [{ _tag: "SessionUpdated", at, ...described }] : []
    const isCreated = yield* receiveBy(
      self,
      event,
      writer.create(self, agent.name, at, Arr.append(before, event), undefined, generation)
    )
    // Another process was faster
    if (!isCreated) return yield* store(self, message, options, made, described)
  } else yield* receive(self, event)
  return receiptOf(self, messageId, writer.sequenceOf(self))
})

/** The `RunContext` of a message: its own, or the context of the host. An empty context is not stored. */
export const contextFor = (self: LiveSession, context: JsonObject | undefined) => {
  const { host } = self
  const fixed = host.run?.context
  if (context !== undefined && fixed !== undefined && !Equal.equals(context, fixed)) {
    return Effect.fail(self.fail({ _tag: "ContextDiffers" }))
  }
  const found = context ?? fixed ?? Context.get(host.context, RunContext.RunContext)
  return Effect.succeed(Object.keys(found).length === 0 ? undefined : found)
}

/** A message that was received before. A waiting message is known, however many messages came after it. */
export const knownMessage = (
  state: SessionState,
  messageId: string,
  digest: string
): SessionState["received"][number] | undefined =>
  state.received.find((received) => received.messageId === messageId) ??
  (fold.isWaiting(state, messageId) ? { messageId, digest, sequence: state.sequence } : undefined)

/**
 * Refuses the id of a message in the conversation: its receipt is no longer remembered, or the fork has the message
 * from the other session.
 */
export const ensureFreeId = (
  self: LiveSession,
  { run }: SessionState,
  messageId: string
): Effect.Effect<void, SessionError> =>
  run !== undefined && runTransition.userMessage(run, messageId) !== undefined
    ? Effect.fail(self.fail({ _tag: "InputDiffers", messageId }))
    : Effect.void

export const existing = (state: SessionState): Extract<Reason, { readonly _tag: "Exists" }> => {
  const outcome = state.failure?.reason ?? state.run?.outcome?._tag
  return { _tag: "Exists", agent: state.agent, status: fold.statusOf(state), ...defined({ outcome }) }
}

/** The receipt of the first message, for the same content. A turn that failed or was interrupted continues. */
const resumeFirst = Effect.fnUntraced(function* (
  self: LiveSession,
  state: SessionState,
  first: SessionState["received"][number],
  digest: string
) {
  if (first.digest !== digest) return yield* self.fail({ _tag: "InputDiffers" })
  if (!fold.isWaiting(state, first.messageId)) yield* resumeStopped(self, state)
  return yield* again(self, state, first)
})

/** The same in a fork: its first message belongs to the session that it continues, so no event here has the id. */
const resumeOrigin = Effect.fnUntraced(function* (
  self: LiveSession,
  state: SessionState,
  { digest, messageId }: Pick<Received, "digest" | "messageId">,
  options: SendOptions
) {
  const context = (yield* contextFor(self, options.context)) ?? {}
  // The rest runs with the context of the fork
  const isSame = state.origin === digest && (state.run === undefined || Equal.equals(context, state.run.context))
  if (!isSame) return yield* self.fail({ _tag: "InputDiffers" })
  yield* resumeStopped(self, state)
  return { ...newest(self), messageId }
})

const resumeStopped = Effect.fnUntraced(function* (self: LiveSession, state: SessionState) {
  const { failure, run } = state
  const outcome = run?.outcome?._tag
  // A limit may be larger now, and a step that has paused finds out whether it may continue
  const isStopped =
    failure !== undefined ||
    outcome === "Interrupted" ||
    outcome === "MaxSteps" ||
    outcome === "BudgetExceeded" ||
    outcome === "LoopDetected" ||
    outcome === "Refused" ||
    (run !== undefined && outcome === "AwaitingApproval" && runTransition.hasPauses(run))
  if (isStopped && !fold.hasWork(state)) yield* receiveResume(self)
})

/** The number of messages that a run has taken, and that wait there until its calls are decided. */
const waitingInRun = ({ run }: SessionState): number =>
  run !== undefined && Run.requests(run).length > 0 ? run.pending.length : 0

/** Refuses a message that is one too many, or that is not to wait. */
const ensureRoom = Effect.fnUntraced(function* (
  self: LiveSession,
  state: SessionState,
  { pending, whenBusy }: SendOptions
) {
  const { maxQueue } = self.host
  const status = fold.statusOf(state)
  const queued = Chunk.size(fold.waitingMessages(state)) - turns.takenMessages(self).length
  const waiting = queued + (pending === "deny" ? 0 : waitingInRun(state))
  const limit = waiting >= maxQueue ? maxQueue : undefined
  // The queue is full and no turn runs: begin a turn, or the queue would stay full
  if (limit !== undefined && (state.isHeld || status === "idle")) yield* receiveResume(self)
  if (limit !== undefined || (status === "running" && whenBusy === "reject")) {
    return yield* self.fail({ _tag: "Busy", status, ...defined({ limit }) })
  }
})

/** The receipt of a command whose newest event has this number. */
const receiptAt = (self: LiveSession, sequence = writer.sequenceOf(self)): Receipt => ({
  sequence,
  cursor: cursors.cursorOf(self.stored?.at.head.life ?? "", sequence)
})

/** The receipt of a command that began no turn. */
export const newest = (self: LiveSession) => ({ ...receiptAt(self), isOfNewest: true as const })

export const receiptOf = (self: LiveSession, messageId: string, sequence: number): MessageReceipt => {
  const state = self.stored?.state
  // It is taken after a decision, and no event shows that
  const isWaiting = state !== undefined && fold.statusOf(state) === "waiting" && fold.isWaiting(state, messageId)
  return { ...receiptAt(self, sequence), messageId, ...(isWaiting && { isWaiting }) }
}

/** The receipt of a message that was received before. If a failed turn left the message held, it is tried again. */
export const again = Effect.fnUntraced(function* (
  self: LiveSession,
  state: SessionState,
  { messageId, sequence }: SessionState["received"][number]
) {
  if (!fold.isWaiting(state, messageId)) return receiptOf(self, messageId, sequence)
  const held = fold.likeIn(state, messageId, state.held)
  if (Arr.isReadonlyArrayNonEmpty(held)) yield* receiveResume(self, held)
  else if (state.isHeld || fold.isStopped(state, messageId)) yield* receiveResume(self)
  return receiptOf(self, messageId, Math.max(sequence, state.failedAt))
})

const isSame = (a: Run.Decision, b: Run.Decision): boolean =>
  runRequests.concerns(a, b) && a.approved === b.approved && Equal.equals(a.answer, b.answer)

/** A decision without other members. */
const bare = ({ batch, callId, path, remember, ...decision }: Run.Decision): Run.Decision => ({
  callId,
  ...runRequests.verdictOf(decision),
  ...defined({ path, batch, remember })
})

export const decide = (self: LiveSession, payload: Decide): Effect.Effect<Receipt, SessionError> =>
  writer.alone(self, storeDecisions(self, payload))

const storeDecisions = Effect.fnUntraced(function* (
  self: LiveSession,
  { as, decisions }: Decide
): Effect.fn.Return<Receipt, SessionError> {
  yield* writer.refresh(self)
  const state = yield* writer.stateOf(self)
  const requests = state.run === undefined ? [] : Run.requests(state.run)
  const torn = runRequests.tornIn(decisions)
  const foreign = runRequests.foreignIn(requests, decisions, as)
  const refused = torn ?? foreign
  if (refused !== undefined) {
    const error = runRequests.invalid(refused, { problem: torn === undefined ? "decider" : "batch" }, requests)
    return yield* self.fail({ _tag: "InvalidDecision", error })
  }
  const isKnown = (decision: Run.Decision) => {
    const isOpen = requests.some((request) => runRequests.concerns(decision, request))
    return (isOpen ? state.decisions : state.decided).some((one) => isSame(decision, one))
  }
  const [first, ...others] = decisions.filter((decision) => !isKnown(decision))
  if (decisions.length === 0 || (first === undefined && !state.isHeld)) return newest(self)
  if (first === undefined) {
    // Retries what a failed turn left behind: messages and decisions that wait for a new event
    yield* receiveResume(self)
    return receiptAt(self)
  }
  const fresh: Arr.NonEmptyReadonlyArray<Run.Decision> = [first, ...others]
  // The list is whole, also where a part of it was known
  yield* Effect.mapError(checkDecisions(state, Arr.map(fresh, runRequests.alone)), (error) =>
    self.fail({ _tag: "InvalidDecision", error })
  )
  yield* receive(self, { _tag: "DecisionsReceived", at: yield* DateTime.now, decisions: Arr.map(fresh, bare) })
  return receiptAt(self)
})

const checkDecisions = Effect.fnUntraced(function* (
  { decided, decisions, run }: SessionState,
  fresh: Arr.NonEmptyReadonlyArray<Run.Decision>
): Effect.fn.Return<void, Run.InvalidDecision> {
  const requests = run === undefined ? [] : Run.requests(run)
  const isOpen = (decision: Run.Decision) => requests.some((request) => runRequests.concerns(decision, request))
  const late = fresh.find((decision) =>
    (isOpen(decision) ? decisions : decided).some((one) => runRequests.concerns(decision, one))
  )
  if (late !== undefined) return yield* runRequests.invalid(late, { problem: "alreadyAnswered" }, requests)
  if (run === undefined) return yield* runRequests.invalid(fresh[0], { problem: "unknown" }, requests)
  yield* Effect.fromResult(Run.decide(run, fresh, yield* DateTime.now))
})

/** Takes remembered answers back: equal calls ask again. */
export const forget = (self: LiveSession, { digest }: types.ForgetOptions): Effect.Effect<Receipt, SessionError> =>
  writer.alone(
    self,
    Effect.gen(function* () {
      yield* writer.refresh(self)
      const { remembered = [] } = yield* writer.stateOf(self)
      const digests = remembered.map((one) => one.digest).filter((one) => digest === undefined || one === digest)
      if (Arr.isReadonlyArrayNonEmpty(digests)) {
        yield* writer.write(self, [{ _tag: "AnswersForgotten", at: yield* DateTime.now, digests }])
      }
      return newest(self)
    })
  )

/** Sets the title, the metadata or both. No turn answers that. */
export const update = Effect.fnUntraced(function* (
  self: LiveSession,
  changed: Details
): Effect.fn.Return<Receipt, SessionError> {
  const described = yield* Effect.mapError(details.check(changed), self.fail)
  return yield* writer.alone(
    self,
    Effect.gen(function* () {
      yield* writer.refresh(self)
      yield* writer.stateOf(self)
      if (!details.isEmpty(described)) {
        yield* writer.write(self, [{ _tag: "SessionUpdated", at: yield* DateTime.now, ...described }])
      }
      return newest(self)
    })
  )
})

export const resume = (self: LiveSession): Effect.Effect<Receipt, SessionError> => {
  return writer.alone(
    self,
    Effect.gen(function* () {
      yield* writer.refresh(self)
      const state = yield* writer.stateOf(self)
      if (writer.hasWork(self) || fold.isEmpty(state)) return newest(self)
      yield* receiveResume(self)
      return receiptAt(self)
    })
  )
}

/** Stops the turn, or denies the calls that wait. The call that has paused the session may stop nothing. */
export const interrupt = (self: LiveSession): Effect.Effect<Receipt, SessionError> =>
  Effect.tap(stop(self, true), () => writer.stateOf(self))

/** `evenPaused`: a turn that is due is begun, and stopped, also while calls pause the session. */
const stop = (self: LiveSession, evenPaused = false): Effect.Effect<Receipt, SessionError> =>
  Effect.suspend(() => {
    const { current } = self
    if (current !== undefined) return interruptTurn(self, current)
    const looked = writer.alone(
      self,
      Effect.andThen(Effect.andThen(writer.refresh(self), writer.ensureFree(self)), cancelled(self))
    )
    return Effect.flatMap(looked, (found) => {
      if (found === undefined) return stop(self, evenPaused)
      if (found.isInterrupted === true) return Effect.succeed(found)
      // Another process has left it. A turn that could not even be recorded would not be recorded now
      const begun = self.unable === undefined ? turns.start(self, evenPaused) : Effect.void
      return Effect.andThen(
        begun,
        Effect.suspend(() => {
          if (self.current !== undefined) return stop(self, evenPaused)
          // Another process continues the turn: this one closes, or takes the other one for alive now
          const isDue = evenPaused && self.unable === undefined && writer.hasWork(self)
          return isDue ? Effect.fail(elsewhere(self)) : Effect.succeed(found)
        })
      )
    })
  })

const elsewhere = (self: LiveSession) => {
  const owner = self.isClosing ? "none: it was closed here" : (self.stored?.at.head.owner ?? "none: it was removed")
  return self.fail({ _tag: "Elsewhere", owner })
}

const stoppedAt = (self: LiveSession, sequence?: number): Receipt => ({
  ...receiptAt(self, sequence),
  isInterrupted: true
})

/** `undefined` if a turn has begun meanwhile. A turn that is left to a process with its agent is ended without it. */
const cancelled = (self: LiveSession): Effect.Effect<Receipt | undefined, SessionError> =>
  Effect.suspend(() => {
    if (self.current !== undefined) return Effect.undefined
    const isOthers = turns.leftToOthers(self) !== undefined
    const message = self.stored && fold.nextMessage(self.stored.state)
    const stopped = isOthers ? Effect.as(turns.recordEnd(self, message), true) : turns.cancelCalls(self)
    return Effect.map(stopped, (isStopped) => (isStopped ? stoppedAt(self) : newest(self)))
  })

export const interruptTurn = Effect.fnUntraced(function* (
  self: LiveSession,
  turn: Turn
): Effect.fn.Return<Receipt, SessionError> {
  // A message that was acknowledged is part of the conversation, also where its turn is stopped at once
  yield* begins(turn)
  turns.halt(turn, { _tag: "Stopping" })
  yield* Deferred.await(turn.done)
  yield* writer.ensureAlive(self)
  if (!turns.isOurs(turn)) {
    yield* writer.alone(self, Effect.andThen(writer.refresh(self), writer.ensureFree(self)))
    // The turn that the other process left has not ended yet
    return yield* stop(self)
  }
  if (turns.isLeft(turn)) return yield* elsewhere(self)
  const found = yield* writer.alone(self, cancelled(self))
  if (found?.isInterrupted === true) return found
  return turns.wasInterrupted(turn) ? stoppedAt(self, turn.last) : (found ?? newest(self))
})

/** Drops a message that no turn has taken. Returns whether it waited. */
export const withdraw = (self: LiveSession, messageId: string): Effect.Effect<boolean, SessionError> => {
  const drop = Effect.gen(function* () {
    yield* writer.refresh(self)
    const state = yield* writer.stateOf(self)
    if (self.current?.messages.has(messageId) === true || !fold.isWaiting(state, messageId)) return false
    const error = turnEvents.withdrawn
    yield* writer.write(self, [{ _tag: "MessageDropped", at: yield* DateTime.now, messageId, error }])
    return true
  })
  return paused(
    self,
    Effect.suspend(() => {
      const { current } = self
      const unprepared = current?.messages.has(messageId) === true ? unlessBegun(current) : Effect.void
      return Effect.andThen(unprepared, writer.alone(self, drop))
    })
  )
}

/** Ends a turn that does not begin soon. */
const unlessBegun = Effect.fnUntraced(function* (turn: Turn) {
  yield* begins(turn)
  if (Deferred.isDoneUnsafe(turn.begun)) return
  turns.halt(turn, { _tag: "Stopping" })
  yield* Deferred.await(turn.done)
})

/** Waits a moment for a turn to take its message, or for its end. */
const begins = (turn: Turn) =>
  Effect.raceFirst(Effect.timeoutOption(Deferred.await(turn.begun), patienceToBegin), Deferred.await(turn.done))

/** No turn begins meanwhile. */
export const paused = <A>(self: LiveSession, effect: Effect.Effect<A, SessionError>): Effect.Effect<A, SessionError> =>
  Effect.acquireUseRelease(
    Effect.sync(() => void (self.pauses += 1)),
    () => effect,
    () =>
      Effect.suspend(() => {
        self.pauses -= 1
        return turns.start(self)
      })
  )

/** Stops the turn and removes the session. Returns whether there was one. */
export const remove = (self: LiveSession): Effect.Effect<boolean, SessionError> =>
  paused(
    self,
    Effect.suspend(() => removeStopped(self))
  )

/** A turn may have begun after the stopped turn, because an interruption is to stop it. */
const removeStopped = (self: LiveSession): Effect.Effect<boolean, SessionError> => {
  const removed = Effect.suspend(() => (self.current === undefined ? removeStored(self) : Effect.undefined))
  return Effect.flatMap(Effect.andThen(stop(self), writer.alone(self, removed)), (isRemoved) =>
    isRemoved === undefined ? removeStopped(self) : Effect.succeed(isRemoved)
  )
}

const removeStored = (self: LiveSession) =>
  Effect.tap(writer.remove(self), () => Effect.andThen(self.host.onIdle(self.id), Effect.sync(self.feed.notify)))
