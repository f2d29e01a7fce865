/**
 * The state of a conversation: its messages, the laws between them, repair and the codecs.
 */

import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { identity } from "effect/Function"
import * as Hash from "effect/Hash"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as EffectIterable from "effect/Iterable"
import * as Option from "effect/Option"
import { pipeArguments, type Pipeable } from "effect/Pipeable"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { defined, isObject } from "../../payload/internal/plainJson.ts"
import * as plainJson from "../../payload/internal/plainJson.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import { ConversationError, type Reason, type Repair } from "../ConversationError.ts"
import * as Message from "../Message.ts"
import * as messageData from "./messageData.ts"

const typeId = "~effect-emissary/conversation/Conversation"

/**
 * A message history. See the module for its laws.
 *
 * **Details**
 *
 * Conversations are compared by value with `Equal.equals`, can be iterated, and
 * print their roles only, never their texts. The schema, to embed in other schemas,
 * reads every version of the wire and writes the newest; a history that breaks a law
 * does not decode.
 *
 * @category models
 * @since 0.1.0
 */
export interface Conversation extends Iterable<Message.Message>, Pipeable, Inspectable.Inspectable {
  readonly [typeId]: typeof typeId
}

/** Newest first, in the order of arrival: adding is one object, and nothing is copied. */
interface Node {
  readonly message: Message.Message
  readonly previous: Node | undefined
}

/** The messages up to a node, in call order. */
interface MessageList {
  readonly last: Node
  readonly messages: ReadonlyArray<Message.Message>
}

type Calls = HashMap.HashMap<string, Message.ToolCallPart>

/** The facts about the messages that the laws need, kept as messages are added. */
export interface History extends Conversation {
  readonly tokenLimit: number | undefined
  readonly last: Node | undefined
  /** The newest list that was made of an older conversation of this line. */
  readonly listed: MessageList | undefined
  readonly length: number
  readonly tokenCount: number
  readonly system: Message.SystemMessage | undefined
  readonly lastAssistant: Message.AssistantMessage | undefined
  /** The newest answer with the size of the request, which was this conversation. */
  readonly reported: Message.AssistantMessage | undefined
  /** `true` if the newest usage was reported about a longer history: messages were removed since. */
  readonly staleUsage: boolean
  /** Calls of the newest assistant message, in call order, and their positions. */
  readonly batch: ReadonlyArray<Message.ToolCallPart>
  readonly positions: ReadonlyMap<string, number>
  /** Those of them without a result. */
  readonly open: Calls
  /** Calls of this turn that the provider runs and has not answered. */
  readonly providerOpen: Calls
  /** Every call id, by who answers it. */
  readonly callIds: HashMap.HashMap<string, "us" | "provider" | "provider answered">
}

type Fields = Omit<History, keyof Conversation>

const Proto = {
  ...Inspectable.BaseProto,
  [typeId]: typeId,
  [Symbol.iterator](this: History) {
    return toArray(this)[Symbol.iterator]()
  },
  [Equal.symbol](this: History, that: unknown): boolean {
    return (
      isHistory(that) &&
      this.tokenLimit === that.tokenLimit &&
      this.length === that.length &&
      Equal.equals(toArray(this), toArray(that))
    )
  },
  [Hash.symbol](this: History): number {
    return Hash.combine(Hash.number(this.length), Hash.string(this.lastAssistant?.id ?? ""))
  },
  // Roles only: the texts of people belong in no log
  toJSON(this: History) {
    return {
      _id: "Conversation",
      roles: toArray(this).map((message) => message.role),
      openCalls: HashMap.size(this.open),
      ...defined({ tokenLimit: this.tokenLimit })
    }
  },
  pipe() {
    return pipeArguments(this, arguments)
  }
}

const makeHistory = (fields: Fields): History =>
  // The prototype and the fields together are all that History declares
  Object.freeze(Object.assign(Object.create(Proto), fields)) as History

export const isHistory = (u: unknown): u is History => Predicate.hasProperty(u, typeId)

// Sound: `makeHistory` makes every conversation
export const asHistory = (self: Conversation): History => self as History

const noPositions: ReadonlyMap<string, number> = new Map()

export const empty = (tokenLimit: number | undefined): History =>
  makeHistory({
    tokenLimit,
    last: undefined,
    listed: undefined,
    length: 0,
    tokenCount: 0,
    system: undefined,
    lastAssistant: undefined,
    reported: undefined,
    staleUsage: false,
    batch: [],
    positions: noPositions,
    open: HashMap.empty(),
    providerOpen: HashMap.empty(),
    callIds: HashMap.empty()
  })

export const withTokenLimit = (self: History, tokenLimit: number | undefined): History =>
  makeHistory({ ...self, tokenLimit })

/** Tests for a call of this id anywhere in the conversation. */
export const hasCall = (self: Conversation, id: string): boolean => HashMap.has(asHistory(self).callIds, id)

/** On the message that is a summary: how many messages it replaces. */
export const summaryMark = "effect-emissary/summary"

/** On an answer whose request held only a view of the conversation. */
const viewMark = "effect-emissary/view"

export const hasMark = (message: Message.Message, mark: string): boolean =>
  message.metadata !== undefined && Object.hasOwn(message.metadata, mark)

/**
 * Marks an answer as one to a view of the conversation that it enters, as
 * `Conversation.truncate` and `compact` make: its usage is not taken for the size of that
 * conversation. The mark is in the metadata of the message.
 */
export const markAsView = (message: Message.AssistantMessage): Message.AssistantMessage => ({
  ...message,
  metadata: { ...message.metadata, [viewMark]: true }
})

// Adding messages

/** Adds a message that `checkMessage` accepted. */
export const pushMessage = (self: History, input: Message.Message): History => {
  const message = messageData.freeze(input)
  const next: Fields = {
    ...self,
    last: { message, previous: self.last },
    listed: listCache.get(self) ?? self.listed,
    length: self.length + 1,
    tokenCount: self.tokenCount + (message.usage?.inputTokens ?? 0) + (message.usage?.outputTokens ?? 0)
  }
  switch (message.role) {
    case "system":
      return makeHistory({ ...next, system: message })
    case "user":
      return makeHistory({ ...next, batch: [], positions: noPositions, providerOpen: HashMap.empty() })
    case "assistant":
      return makeHistory({ ...next, lastAssistant: message, ...usageReport(message), ...indexCalls(self, message) })
    case "tool":
      return makeHistory({ ...next, open: HashMap.remove(self.open, message.callId) })
  }
}

const usageReport = (message: Message.AssistantMessage) =>
  (message.usage?.inputTokens ?? 0) > 0 && !hasMark(message, viewMark)
    ? { reported: message, staleUsage: false }
    : undefined

const indexCalls = (self: History, message: Message.AssistantMessage) => {
  const batch: Array<Message.ToolCallPart> = []
  let { callIds, open, providerOpen } = self
  for (const part of message.content) {
    if (part.type === "tool-result") {
      callIds = HashMap.set(callIds, part.id, "provider answered")
      providerOpen = HashMap.remove(providerOpen, part.id)
    } else if (part.type === "tool-call" && part.providerExecuted === true) {
      callIds = HashMap.set(callIds, part.id, "provider")
      providerOpen = HashMap.set(providerOpen, part.id, part)
    } else if (part.type === "tool-call") {
      callIds = HashMap.set(callIds, part.id, "us")
      open = HashMap.set(open, part.id, part)
      batch.push(part)
    }
  }
  return { batch, positions: positionsOf(batch), callIds, open, providerOpen }
}

const positionsOf = (calls: ReadonlyArray<Message.ToolCallPart>): ReadonlyMap<string, number> =>
  new Map(calls.map((call, position) => [call.id, position]))

/** Forgets the reported size, because it is about a longer history. */
const forgetReport = (self: History): History =>
  self.reported === undefined ? self : makeHistory({ ...self, reported: undefined, staleUsage: true })

/** The rest of a conversation from which messages were removed. */
export const rebuild = (messages: Iterable<Message.Message>, tokenLimit: number | undefined): History => {
  let self = empty(tokenLimit)
  for (const message of messages) self = pushMessage(self, message)
  return forgetReport(self)
}

/** Adds a message. A broken law is reported at `index`, where it is not the position in the conversation. */
export const append = (
  self: Conversation,
  message: Message.Message,
  index?: number
): Result.Result<History, ConversationError> => {
  const history = asHistory(self)
  const reason = checkMessage(history, message, index)
  return reason === undefined
    ? Result.succeed(pushMessage(history, message))
    : Result.fail(new ConversationError({ reason }))
}

export const appendAll = (
  self: Conversation,
  messages: Iterable<Message.Message>
): Result.Result<History, ConversationError> => {
  let current = asHistory(self)
  for (const message of messages) {
    const next = append(current, message)
    if (Result.isFailure(next)) return next
    current = next.success
  }
  return Result.succeed(current)
}

// Reading messages

const listCache = new WeakMap<History, MessageList>()

export const toArray = (self: History): ReadonlyArray<Message.Message> => {
  const known = listCache.get(self)
  if (known !== undefined) return known.messages
  if (self.last === undefined) return []
  const { before, newer } = sinceListed(self)
  const messages = Object.freeze(before.concat(inCallOrder(newer.toReversed())))
  listCache.set(self, { last: self.last, messages })
  return messages
}

/** A cached list, and the newer messages, newest first. Results of an open batch may still be reordered. */
const sinceListed = ({ last, listed }: History) => {
  const newer: Array<Message.Message> = []
  for (let node = last; node !== undefined; node = node.previous) {
    if (node === listed?.last && newer.at(-1)?.role !== "tool") return { before: listed.messages, newer }
    newer.push(node.message)
  }
  return { before: [], newer }
}

export interface MessageGroup {
  /** Absent only where results come first, which no lawful conversation has. */
  readonly message: Exclude<Message.Message, Message.ToolMessage> | undefined
  readonly results: ReadonlyArray<Message.ToolMessage>
}

/** Each message that is not a result, with the results that answer it. */
export const groupResults = (messages: ReadonlyArray<Message.Message>): ReadonlyArray<MessageGroup> => {
  const groups: Array<{ message: MessageGroup["message"]; results: Array<Message.ToolMessage> }> = []
  for (const message of messages) {
    const last = groups.at(-1)
    if (message.role !== "tool") groups.push({ message, results: [] })
    else if (last === undefined) groups.push({ message: undefined, results: [message] })
    else last.results.push(message)
  }
  return groups
}

/** Puts results in call order, whatever order they arrived in. */
const inCallOrder = (messages: ReadonlyArray<Message.Message>): ReadonlyArray<Message.Message> =>
  groupResults(messages).flatMap(({ message, results }): ReadonlyArray<Message.Message> => {
    if (results.length < 2 || message?.role !== "assistant")
      return message === undefined ? results : [message, ...results]
    const positions = positionsOf(message.content.filter(isLocalCall))
    return [message, ...results.toSorted((a, b) => positionIn(positions, a) - positionIn(positions, b))]
  })

const isLocalCall = (part: Message.AssistantPart): part is Message.ToolCallPart =>
  part.type === "tool-call" && part.providerExecuted !== true

const positionIn = (positions: ReadonlyMap<string, number>, result: Message.ToolMessage): number =>
  positions.get(result.callId) ?? 0

/** The newest message: of results, that of the latest call. */
export const lastMessage = (self: History): Message.Message | undefined => {
  let newest = self.last?.message
  for (let node = self.last; node?.message.role === "tool"; node = node.previous) {
    const isLater =
      newest?.role === "tool" && positionIn(self.positions, node.message) > positionIn(self.positions, newest)
    if (isLater) newest = node.message
  }
  return newest
}

/** The messages behind `message`, newest first. */
export const messagesSince = (self: History, message: Message.Message): ReadonlyArray<Message.Message> => {
  const messages: Array<Message.Message> = []
  for (let node = self.last; node !== undefined && node.message !== message; node = node.previous) {
    messages.push(node.message)
  }
  return messages
}

/** The calls that wait for a result, in call order. */
export const openBatch = (self: History): ReadonlyArray<Message.ToolCallPart> =>
  HashMap.isEmpty(self.open) ? [] : self.batch.filter((call) => HashMap.has(self.open, call.id))

// Laws

/** The place of a message in what is read. */
interface Place {
  readonly index: number
  readonly id: string
}

/**
 * The law that `message` would break as the next message of `self`, if any.
 * `index` is the position to report, where it is not the one in `self`.
 */
export const checkMessage = (
  self: History,
  message: Message.Message,
  index: number = self.length
): Reason | undefined => {
  const place: Place = { index, id: message.id }
  switch (message.role) {
    case "system":
      return self.length === 0 ? undefined : { _tag: "MisplacedSystem", ...place }
    case "user":
      return checkOpenCalls(self, message, place) ?? checkContent(message, place)
    case "assistant":
      return checkOpenCalls(self, message, place) ?? checkParts(self, message, place)
    case "tool":
      return checkToolResult(self, message, place)
    default:
      return unknownRole(message, index)
  }
}

/** Of a message that the types rule out: roles come from stored data. */
const unknownRole = (message: { readonly id?: string; readonly role?: unknown }, index: number): Reason => ({
  _tag: "UnknownRole",
  index,
  ...defined({ id: message.id }),
  found: typeof message.role === "string" ? JSON.stringify(message.role.slice(0, 40)) : typeof message.role
})

const checkOpenCalls = (self: History, { role }: Message.Message, place: Place): Reason | undefined =>
  HashMap.isEmpty(self.open)
    ? undefined
    : { _tag: "OpenCalls", ...place, role, callIds: openBatch(self).map((call) => call.id) }

const checkContent = (message: Message.UserMessage, place: Place): Reason | undefined =>
  message.content.some((part) => part.type === "file" || part.text !== "")
    ? undefined
    : { _tag: "EmptyContent", ...place, role: message.role }

const checkToolResult = (
  self: History,
  { callId, name, role }: Message.ToolMessage,
  place: Place
): Reason | undefined => {
  if (callId === "") return { _tag: "MissingCallId", ...place, role }
  const call = HashMap.get(self.open, callId)
  if (Option.isSome(call)) return checkName(call.value, name, place)
  const isAnswered = Option.contains(HashMap.get(self.callIds, callId), "us")
  return { _tag: isAnswered ? "DuplicateResult" : "OrphanResult", ...place, callId, open: someOpenCallIds(self) }
}

/** The most calls that an error about a result names: a repair reports one for each of thousands. */
const maxNamedCalls = 20

const someOpenCallIds = (self: History): ReadonlyArray<string> => {
  const position = (id: string) => self.positions.get(id) ?? 0
  return Array.from(EffectIterable.take(HashMap.keys(self.open), maxNamedCalls)).toSorted(
    (a, b) => position(a) - position(b)
  )
}

const checkName = (call: Message.ToolCallPart, found: string, place: Place): Reason | undefined =>
  call.name === found ? undefined : { _tag: "NameMismatch", ...place, callId: call.id, expected: call.name, found }

const checkParts = (self: History, { content }: Message.AssistantMessage, place: Place): Reason | undefined => {
  const check = makePartChecker(self, place)
  for (const part of content) {
    const reason = check(part)
    if (reason !== undefined) return reason
  }
  return undefined
}

/** Checks the parts of an assistant message one after the other. A part that breaks a law changes nothing. */
const makePartChecker = (self: History, place: Place) => {
  // Only the changes by these parts: `self` may hold many calls
  const opened = new Map<string, Message.ToolCallPart>()
  const answered = new Set<string>()

  const find = (id: string): Message.ToolCallPart | undefined =>
    opened.get(id) ?? (answered.has(id) ? undefined : Option.getOrUndefined(HashMap.get(self.providerOpen, id)))

  const someOpen = (): ReadonlyArray<string> => {
    const before = EffectIterable.take(HashMap.keys(self.providerOpen), maxNamedCalls)
    const stillOpen = EffectIterable.filter(before, (id) => !answered.has(id) && !opened.has(id))
    return Array.from(EffectIterable.take(EffectIterable.appendAll(opened.keys(), stillOpen), maxNamedCalls))
  }

  const wasAnswered = (id: string): boolean => {
    if (answered.has(id)) return true
    const answeredBy = Option.getOrUndefined(HashMap.get(self.callIds, id))
    return find(id) === undefined && (answeredBy === "us" || answeredBy === "provider answered")
  }

  const checkCall = (part: Message.ToolCallPart): Reason | undefined => {
    if (find(part.id) !== undefined) return { _tag: "RepeatedCallId", ...place, callId: part.id }
    opened.set(part.id, part)
    return undefined
  }

  const checkResult = ({ id, name }: Message.ToolResultPart): Reason | undefined => {
    const call = find(id)
    if (call?.providerExecuted !== true) {
      return { _tag: wasAnswered(id) ? "DuplicateResult" : "OrphanResult", ...place, callId: id, open: someOpen() }
    }
    const mismatch = checkName(call, name, place)
    if (mismatch !== undefined) return mismatch
    opened.delete(id)
    answered.add(id)
    return undefined
  }

  return (part: Message.AssistantPart): Reason | undefined => {
    if (part.type !== "tool-call" && part.type !== "tool-result") return undefined
    if (part.id === "") return { _tag: "MissingCallId", ...place, role: "assistant" }
    return part.type === "tool-call" ? checkCall(part) : checkResult(part)
  }
}

// New ids of calls

/** Makes ids that no call of the conversation has, nor any in these parts. */
const makeFreshIds = (self: History, parts: ReadonlyArray<Message.AssistantPart>) => {
  const used = new Set(parts.flatMap((part) => (part.type === "tool-call" ? [part.id] : [])))
  // Next free suffix of each id: a model may repeat one id in thousands of calls
  const suffixes = new Map<string, number>()
  return (id: string): string => {
    const stem = `${id === "" ? "call" : id}_${self.length}`
    for (let suffix = suffixes.get(stem) ?? 1; ; suffix++) {
      const candidate = suffix === 1 ? stem : `${stem}_${suffix}`
      if (used.has(candidate) || HashMap.has(self.callIds, candidate)) continue
      suffixes.set(stem, suffix + 1)
      used.add(candidate)
      return candidate
    }
  }
}

/** Replaces the ids of calls that the conversation or an earlier part has. */
export const relabelCalls = (
  self: History,
  content: ReadonlyArray<Message.AssistantPart>
): ReadonlyArray<Message.AssistantPart> => {
  const fresh = makeFreshIds(self, content)
  const used = new Set<string>()
  // Newest label of each id that the provider runs, for the result that follows
  const labels = new Map<string, string>()
  return content.map((part) => {
    if (part.type === "tool-result") {
      const id = labels.get(part.id) ?? openLabelOf(self, part)
      return id === undefined || id === part.id ? part : { ...part, id }
    }
    if (part.type !== "tool-call") return part
    const isTaken = part.id === "" || used.has(part.id) || HashMap.has(self.callIds, part.id)
    const id = isTaken ? fresh(part.id) : part.id
    used.add(id)
    if (part.providerExecuted === true) labels.set(part.id, id)
    return id === part.id ? part : { ...part, id }
  })
}

/** The new id of a call in an earlier message that the provider still answers under the old one. */
const openLabelOf = (self: History, { id, name }: Message.ToolResultPart): string | undefined => {
  if (HashMap.has(self.providerOpen, id)) return undefined
  const relabelled = Array.from(HashMap.values(self.providerOpen)).filter(
    (call) => call.name === name && call.id.startsWith(`${id}_`)
  )
  return relabelled.length === 1 ? relabelled[0]?.id : undefined
}

// Repair

/**
 * A lawful conversation, and the list of changes that made it lawful, in the order of
 * the history.
 *
 * @category models
 * @since 0.1.0
 */
export interface Repaired {
  readonly conversation: Conversation
  readonly repairs: ReadonlyArray<Repair>
}

/**
 * A function that reads a conversation. With `onUnlawful: "repair"` it returns the
 * conversation together with the changes; by default, `"refuse"`, a history that
 * breaks a law is an error.
 */
export interface Reader<in I, in O, out E> {
  (input: I, options: O & { readonly onUnlawful: "repair" }): Effect.Effect<Repaired, E>
  (input: I, options?: O & { readonly onUnlawful?: "refuse" | undefined }): Effect.Effect<Conversation, E>
}

/** Two readers as one function: `onUnlawful` selects one. */
export const makeReader = <I, O, E>(
  refuse: (input: I, options?: O) => Effect.Effect<Conversation, E>,
  repair: (input: I, options?: O) => Effect.Effect<Repaired, E>
): Reader<I, O, E> => {
  function read(input: I, options: O & { readonly onUnlawful: "repair" }): Effect.Effect<Repaired, E>
  function read(input: I, options?: O & { readonly onUnlawful?: "refuse" | undefined }): Effect.Effect<Conversation, E>
  function read(input: I, options?: O & { readonly onUnlawful?: "refuse" | "repair" | undefined }) {
    return options?.onUnlawful === "repair" ? repair(input, options) : refuse(input, options)
  }
  return read
}

/** The new ids of calls, by the id that their results have; an id with a result is taken off. */
type Labels = Map<string, Array<string>>

const addLabel = (labels: Labels, from: string, to: string): void => {
  const ids = labels.get(from)
  if (ids === undefined) labels.set(from, [to])
  else ids.push(to)
}

/** The law that a result breaks whose call id was made by the repair. */
const orphanReason = (place: Place, callId: string): Reason => ({ _tag: "OrphanResult", ...place, callId, open: [] })

/** Removes what breaks a law from the content of an assistant message. */
const repairParts = (self: History, parts: ReadonlyArray<Message.AssistantPart>, place: Place) => {
  const content: Array<Message.AssistantPart> = []
  const repairs: Array<Repair> = []
  const labels: Labels = new Map()
  const providerLabels: Labels = new Map()
  const made = new Set<string>()
  const check = makePartChecker(self, place)
  const fresh = makeFreshIds(self, parts)

  const addCall = (part: Message.ToolCallPart): void => {
    if (check(part) === undefined) {
      content.push(part)
      labels.set(part.id, [part.id])
      return
    }
    const call = { ...part, id: fresh(part.id) }
    check(call)
    content.push(call)
    made.add(call.id)
    addLabel(labels, part.id, call.id)
    if (part.providerExecuted === true) addLabel(providerLabels, part.id, call.id)
    repairs.push({ _tag: "CallRelabelled", ...place, from: part.id, to: call.id })
  }

  /** Keeps the result if it answers a call; otherwise the law it breaks. */
  const answer = (part: Message.ToolResultPart): Reason | undefined => {
    const reason = check(part)
    if (reason?._tag === "NameMismatch") {
      repairs.push({ _tag: "ResultRenamed", ...place, callId: part.id, from: part.name, to: reason.expected })
      return answer({ ...part, name: reason.expected })
    }
    if (reason === undefined) content.push(part)
    return reason
  }

  const addResult = (part: Message.ToolResultPart): void => {
    const reason = made.has(part.id) ? orphanReason(place, part.id) : answer(part)
    if (reason === undefined) return
    // Each id is tried once: there may be thousands of calls and results
    const id = providerLabels.get(part.id)?.shift()
    if (id !== undefined && answer({ ...part, id }) === undefined) return
    repairs.push({ _tag: "PartDropped", ...place, reason })
  }

  for (const part of parts) {
    if (part.type === "tool-call") addCall(part)
    else if (part.type === "tool-result") addResult(part)
    else content.push(part)
  }
  return { content, repairs, labels, made }
}

export const interruptedMessage = "Tool call interrupted before completion."

/** Answers every open call with an `interrupted` failure. */
export const seal = Effect.fnUntraced(function* (self: History, message: string) {
  const result = ToolResult.failure("interrupted", message)
  let sealed = self
  for (const { id, name } of openBatch(self)) {
    sealed = pushMessage(sealed, yield* Message.tool({ callId: id, name, result }))
  }
  return sealed
})

/** Makes a lawful conversation of messages that come one by one. */
export const makeRepairer = (tokenLimit: number | undefined) => {
  let self = empty(tokenLimit)
  const repairs: Array<Repair> = []
  let labels: Labels = new Map()
  // Ids that the repair made: a result that has one is for no call
  let made: ReadonlySet<string> = new Set()
  // Demoted messages that wait for the results of open calls
  let waiting: Array<readonly [message: Message.UserMessage, place: Place]> = []

  /** Leaves out a message. */
  const drop = (place: Place, reason: Reason): void => {
    repairs.push({ _tag: "MessageDropped", ...place, reason })
  }

  const push = (message: Message.Message, place: Place): void => {
    const reason = checkMessage(self, message, place.index)
    if (reason === undefined) self = pushMessage(self, message)
    else drop(place, reason)
  }

  const addWaiting = (): void => {
    if (!HashMap.isEmpty(self.open)) return
    const messages = waiting
    waiting = []
    for (const [message, place] of messages) push(message, place)
  }

  const sealBefore = Effect.fnUntraced(function* (place: Place) {
    for (const { id, name } of openBatch(self)) repairs.push({ _tag: "CallSealed", ...place, callId: id, name })
    self = yield* seal(self, interruptedMessage)
    addWaiting()
  })

  const demote = (message: Message.SystemMessage, place: Place): void => {
    repairs.push({ _tag: "SystemDemoted", ...place })
    waiting.push([{ ...message, role: "user", content: [ToolResult.textPart(message.content)] }, place])
    addWaiting()
  }

  const addAssistant = (message: Message.AssistantMessage, place: Place): void => {
    labels = new Map()
    made = new Set()
    if (checkMessage(self, message, place.index) === undefined) {
      self = pushMessage(self, message)
      return
    }
    const repaired = repairParts(self, message.content, place)
    repairs.push(...repaired.repairs)
    labels = repaired.labels
    made = repaired.made
    push({ ...message, content: repaired.content }, place)
  }

  const addResult = (message: Message.ToolMessage, place: Place): void => {
    if (made.has(message.callId)) return drop(place, orphanReason(place, message.callId))
    const ids = labels.get(message.callId) ?? []
    // Each id is taken off once: there may be thousands of calls and results
    while (ids.length > 1 && !HashMap.has(self.open, ids[0] ?? "")) ids.shift()
    const [callId = message.callId] = ids
    const call = Option.getOrUndefined(HashMap.get(self.open, callId))
    const name = call?.name ?? message.name
    if (name !== message.name) {
      repairs.push({ _tag: "ResultRenamed", ...place, callId, from: message.name, to: name })
    }
    push(name === message.name && callId === message.callId ? message : { ...message, callId, name }, place)
    addWaiting()
  }

  const add = Effect.fnUntraced(function* (message: Message.Message, index: number) {
    const place: Place = { index, id: message.id }
    switch (message.role) {
      case "system":
        return index === 0 ? push(message, place) : demote(message, place)
      case "user": {
        // An empty message ends no turn
        const reason = checkContent(message, place)
        if (reason !== undefined) return drop(place, reason)
        yield* sealBefore(place)
        return push(message, place)
      }
      case "assistant":
        yield* sealBefore(place)
        return addAssistant(message, place)
      case "tool":
        return addResult(message, place)
    }
  })

  const finish = Effect.fnUntraced(function* (staleUsage: boolean) {
    const [next] = waiting
    // A message behind an open end needs its calls closed
    if (next !== undefined) yield* sealBefore(next[1])
    return { conversation: staleUsage ? forgetReport(self) : self, repairs }
  })

  return { self: () => self, add, drop, finish }
}

export const repairMessages = Effect.fnUntraced(function* (
  messages: Iterable<Message.Message>,
  options: { readonly tokenLimit?: number | undefined; readonly staleUsage?: boolean | undefined } = {}
) {
  const repairer = makeRepairer(options.tokenLimit)
  let index = 0
  for (const message of messages) yield* repairer.add(message, index++)
  return yield* repairer.finish(options.staleUsage === true)
})

// The wire

/** Version 1 of the JSON of conversations. */
export const Wire = Schema.Struct({
  version: Schema.Literal(1),
  tokenLimit: Schema.optionalKey(Schema.Finite),
  /** `true` if the newest usage was reported about a longer history. */
  staleUsage: Schema.optionalKey(Schema.Literal(true)),
  messages: Schema.Array(Message.Message)
})

type Wire = typeof Wire.Type

export const readWire = (wire: Wire): Result.Result<History, ConversationError> =>
  Result.map(appendAll(empty(wire.tokenLimit), wire.messages), (self) =>
    wire.staleUsage === true ? forgetReport(self) : self
  )

export const writeWire = (self: Conversation): Wire => {
  const { staleUsage, tokenLimit } = asHistory(self)
  return {
    version: 1,
    ...defined({ tokenLimit, staleUsage: staleUsage ? (true as const) : undefined }),
    messages: toArray(asHistory(self))
  }
}

const codecName = "Conversation"

/** The codec of a value that holds a conversation. The number of messages is checked before their schema. */
const makeCodec = <T>(options: {
  readonly type: Schema.Codec<T>
  readonly toCurrent: (wire: Wire) => Effect.Effect<T, PayloadError.Reason>
  readonly conversationOf: (value: T) => Conversation
}): VersionedCodec.VersionedCodec<T> => {
  const v1 = VersionedCodec.arm<T, Wire>({
    version: 1,
    wire: Wire,
    toCurrent: options.toCurrent,
    fromCurrent: (value) => VersionedCodec.lossless(writeWire(options.conversationOf(value)))
  })
  const checkCount = (found: number) => plainJson.checkCount("messages", found, { what: codecName, path: "/messages" })
  return VersionedCodec.make<T>({
    what: codecName,
    field: "version",
    // Arguments and results of tools are the application's words, not options
    data: ["/messages/*/content/*/arguments", "/messages/*/content/*/result/value", "/messages/*/result/value"],
    type: options.type,
    arms: [
      {
        version: v1.version,
        read: (json, settings) => Effect.andThen(checkCount(wireLength(json)), v1.read(json, settings)),
        write: (value, settings) =>
          Effect.andThen(checkCount(asHistory(options.conversationOf(value)).length), v1.write(value, settings))
      }
    ]
  })
}

const wireLength = (json: Schema.Json): number => {
  const messages = isObject(json) ? json["messages"] : undefined
  return Array.isArray(messages) ? messages.length : 0
}

/**
 * Reads and writes conversations as versioned JSON, under the limits of `Limits`.
 *
 * **Details**
 *
 * Undeclared keys are rejected, and a history that breaks a law is an `Invalid` reason
 * with the path of the message. Writing fails where data must not be written: a
 * `Redacted` value, a key that names a secret in metadata or provider options, a key
 * that no reader accepts, or more than the limits allow to be read back.
 *
 * **Example** (Storing a conversation)
 *
 * ```ts
 * import { Effect, Equal } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const chat = yield* Conversation.addUser(Conversation.empty, "Hello")
 *   const text = yield* Conversation.codec.encodeJson(chat)
 *   assert.strictEqual(JSON.parse(text).version, 1)
 *   return Equal.equals(yield* Conversation.codec.decodeJson(text), chat)
 * })
 *
 * assert.strictEqual(Effect.runSync(program), true)
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<Conversation> = makeCodec<Conversation>({
  type: Schema.declare<Conversation>(isHistory, { identifier: "Conversation" }),
  toCurrent: (wire) =>
    Effect.suspend(() => Effect.fromResult(readWire(wire))).pipe(
      Effect.mapError(({ problem: { expected, found, path } }) => PayloadError.invalid([{ path, expected, found }]))
    ),
  conversationOf: identity
})

const isRepaired = (u: unknown): u is Repaired => Predicate.hasProperty(u, "conversation") && isHistory(u.conversation)

/**
 * Like {@link codec}, but repairs a history that breaks laws, and returns the
 * conversation with the list of changes. JSON that is not a conversation is rejected.
 *
 * **Example** (Repairing stored JSON)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const input = {
 *   version: 1,
 *   messages: [{
 *     role: "tool",
 *     id: "m1",
 *     createdAt: "2026-01-01T00:00:00.000Z",
 *     callId: "c1",
 *     name: "search",
 *     result: { _tag: "Failure", type: "not_found", message: "Nothing found" }
 *   }]
 * }
 * const refused = Effect.runSync(Effect.flip(Conversation.codec.decode(input)))
 * assert.match(refused.message, /\/messages\/0/)
 *
 * const { repairs } = Effect.runSync(Conversation.repairingCodec.decode(input))
 * assert.strictEqual(repairs[0]?._tag, "MessageDropped")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const repairingCodec: VersionedCodec.VersionedCodec<Repaired> = makeCodec<Repaired>({
  type: Schema.declare<Repaired>(isRepaired, { identifier: "RepairedConversation" }),
  toCurrent: (wire) => repairMessages(wire.messages, wire),
  conversationOf: ({ conversation }) => conversation
})

/** @since 0.1.0 */
export const Conversation: Schema.Codec<Conversation, Schema.Json> = codec.schema
