/**
 * The state of a conversation: its messages, the laws between them, repair and codec. What stands in `Conversation` builds on it.
 */

import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { dual, identity } from "effect/Function"
import * as Hash from "effect/Hash"
import * as HashMap from "effect/HashMap"
import * as EffectInspectable from "effect/Inspectable"
import type { Inspectable } from "effect/Inspectable"
import * as EffectIterable from "effect/Iterable"
import * as Option from "effect/Option"
import { pipeArguments, type Pipeable } from "effect/Pipeable"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as untrusted from "../../payload/internal/untrusted.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as ConversationError from "../ConversationError.ts"
import * as Message from "../Message.ts"
import * as conversationV1 from "./conversationV1.ts"
import * as messageData from "./messageData.ts"

/**
 * Identifies conversations at run time.
 */
type TypeId = "~effect-emissary/conversation/Conversation"

const typeId: TypeId = "~effect-emissary/conversation/Conversation"

/**
 * Identifies conversations at run time.
 */
const TypeId: TypeId = typeId

/**
 * A message history. See the module for its laws.
 *
 * **Details**
 *
 * Conversations are compared by value with `Equal.equals`, can be iterated, and
 * print their roles only, never what was said.
 */
export interface Conversation extends Iterable<Message.Message>, Pipeable, Inspectable {
  readonly [TypeId]: TypeId
}

/**
 * Whether the newest usage was reported about a longer history than this: something was
 * removed since. {@link estimatedSize} does not use such a report.
 */
export const hasStaleUsage = (self: Conversation): boolean => asHistory(self).staleUsage

/**
 * Whether a call of this id occurs anywhere in the conversation.
 */
export const hasCall: {
  (id: string): (self: Conversation) => boolean
  (self: Conversation, id: string): boolean
} = dual(2, (self: Conversation, id: string): boolean => HashMap.has(asHistory(self).callIds, id))

export const isHistory = (u: unknown): u is History => Predicate.hasProperty(u, typeId)

const readLawful = (wire: Wire): Effect.Effect<Conversation, PayloadError.Reason> =>
  Effect.suspend(() => {
    let self = empty(wire.tokenLimit)
    for (const message of wire.messages) {
      const reason = checkMessage(self, message)
      if (reason !== undefined) return Effect.fail(PayloadError.invalid([issueOfReason(reason)]))
      self = pushMessage(self, message)
    }
    return Effect.succeed(wire.staleUsage === true ? forgetReport(self) : self)
  })

/** The arms of a value that is made of a conversation, whose messages are counted before the schema looks at them. */
const codecArms = <T>(
  toCurrent: (wire: Wire) => Effect.Effect<T, PayloadError.Reason>,
  conversationOf: (value: T) => Conversation
): ReadonlyArray<VersionedCodec.Arm<T>> => {
  const v1 = VersionedCodec.arm<T, Wire>({
    version: 1,
    wire: conversationV1.ConversationV1,
    toCurrent,
    fromCurrent: (value) => writeWire(conversationOf(value))
  })
  return [
    {
      version: v1.version,
      read: (json, options) => Effect.andThen(checkMessageCount(wireLength(json)), v1.read(json, options)),
      write: (value, options) =>
        Effect.andThen(checkMessageCount(asHistory(conversationOf(value)).length), v1.write(value, options))
    }
  ]
}

const codecName = "Conversation"

const codecSettings = {
  what: codecName,
  field: "version",
  // What tools take and give are the application's words, not options
  data: ["/messages/*/content/*/arguments", "/messages/*/content/*/result/value", "/messages/*/result/value"]
}

const noPositions: ReadonlyMap<string, number> = new Map()

const listCache = new WeakMap<History, Listed>()

// Sound: conversations are made by `make` above and nowhere else
export const asHistory = (self: Conversation): History => self as History

const localCalls = (message: Message.AssistantMessage): ReadonlyArray<Message.ToolCallPart> =>
  message.content.filter(
    (part): part is Message.ToolCallPart => part.type === "tool-call" && part.providerExecuted !== true
  )

const positionsOf = (calls: ReadonlyArray<Message.ToolCallPart>): ReadonlyMap<string, number> =>
  new Map(calls.map((call, position) => [call.id, position]))

/** Results stand in call order, whatever order they arrived in. */
const inCallOrder = (messages: ReadonlyArray<Message.Message>): ReadonlyArray<Message.Message> => {
  const ordered: Array<Message.Message> = []
  let positions = noPositions
  let results: Array<Message.ToolMessage> = []
  const position = (result: Message.ToolMessage) => positions.get(result.callId) ?? 0
  const flush = () => {
    // As it stands most of the time, which a stable sort sees at once
    for (const result of results.toSorted((a, b) => position(a) - position(b))) ordered.push(result)
    results = []
  }
  for (const message of messages) {
    if (message.role === "tool") {
      results.push(message)
      continue
    }
    flush()
    ordered.push(message)
    if (message.role === "assistant") positions = positionsOf(localCalls(message))
  }
  flush()
  return ordered
}

export const toArray = (self: History): ReadonlyArray<Message.Message> => {
  const known = listCache.get(self)
  if (known !== undefined) return known.messages
  if (self.last === undefined) return []
  const { before, newer } = sinceListed(self)
  const messages = Object.freeze(before.concat(inCallOrder(newer.toReversed())))
  listCache.set(self, { last: self.last, messages })
  return messages
}

/** An older list, and what is newer, newest first. Results that are still coming in are newer: they change places. */
const sinceListed = ({ last, listed }: History) => {
  const newer: Array<Message.Message> = []
  for (let node = last; node !== undefined; node = node.previous) {
    if (node === listed?.last && newer.at(-1)?.role !== "tool") return { before: listed.messages, newer }
    newer.push(node.message)
  }
  return { before: [], newer }
}

const writeWire = (self: Conversation) => {
  const { staleUsage, tokenLimit } = asHistory(self)
  return VersionedCodec.lossless<Wire>({
    version: 1,
    ...(tokenLimit === undefined ? undefined : { tokenLimit }),
    ...(staleUsage ? { staleUsage: true } : undefined),
    messages: toArray(asHistory(self))
  })
}

const checkMessageCount = (found: number) =>
  untrusted.checkCount("messages", found, { what: codecName, path: "/messages" })

const wireLength = (json: Schema.Json): number => {
  const messages = typeof json === "object" && json !== null && "messages" in json ? json.messages : undefined
  return Array.isArray(messages) ? messages.length : 0
}

export const codec: VersionedCodec.VersionedCodec<Conversation> = VersionedCodec.make<Conversation>({
  ...codecSettings,
  type: Schema.declare<Conversation>(isHistory, { identifier: "Conversation" }),
  arms: codecArms(readLawful, identity)
})

/**
 * Schema of {@link Conversation}, to embed in other schemas: reads every version of
 * the wire, writes the newest. Histories that break a law do not decode.
 */
export const Conversation: Schema.Codec<Conversation, Schema.Json> = codec.schema

/**
 * Marks an answer as one to a view of the conversation that it enters, as
 * `Conversation.truncate` and `compact` make: its usage is not taken for the size of that
 * conversation. Agents with a `BudgetPolicy` do this by themselves. The mark stands in
 * the metadata of the message.
 */
export const markAsView = (message: Message.AssistantMessage): Message.AssistantMessage => ({
  ...message,
  metadata: { ...message.metadata, [viewMark]: true }
})

/** On the message that is a summary: how many messages it stands for. */
export const summaryMark = "effect-emissary/summary"

/** On an answer whose request held only a view of the conversation. */
const viewMark = "effect-emissary/view"

export const hasMark = (message: Message.Message, mark: string): boolean =>
  message.metadata !== undefined && Object.hasOwn(message.metadata, mark)

/** Newest first, in the order of arrival: adding is one object, older conversations stay as they were, nothing is copied. */
interface Node {
  readonly message: Message.Message
  readonly previous: Node | undefined
}

/** The messages up to a node, in call order. */
interface Listed {
  readonly last: Node
  readonly messages: ReadonlyArray<Message.Message>
}

/** What the laws need to know about the messages so far, kept as they are added. */
export interface History extends Conversation {
  readonly tokenLimit: number | undefined
  readonly last: Node | undefined
  /** The newest list that was made of an older conversation of this line. */
  readonly listed: Listed | undefined
  readonly length: number
  readonly tokenCount: number
  readonly system: Message.SystemMessage | undefined
  readonly lastAssistant: Message.AssistantMessage | undefined
  /** The newest answer that says how much of this conversation was read for it. */
  readonly reported: Message.AssistantMessage | undefined
  /** Whether there is a newer one, about a longer history. */
  readonly staleUsage: boolean
  /** Calls of the newest assistant message, in call order, and their positions. */
  readonly batch: ReadonlyArray<Message.ToolCallPart>
  readonly positions: ReadonlyMap<string, number>
  /** Those of them without a result. */
  readonly open: HashMap.HashMap<string, Message.ToolCallPart>
  /** Calls of this turn that the provider runs and has not answered. */
  readonly providerOpen: HashMap.HashMap<string, Message.ToolCallPart>
  /** Every call id, with who answers it, or that the provider did. */
  readonly callIds: HashMap.HashMap<string, "us" | "provider" | "provider answered">
}

type Fields = Omit<History, keyof Conversation>

const Proto = {
  ...EffectInspectable.BaseProto,
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
  // Roles only: what people said belongs in no log
  toJSON(this: History) {
    return {
      _id: "Conversation",
      roles: toArray(this).map((message) => message.role),
      openCalls: HashMap.size(this.open),
      ...(this.tokenLimit === undefined ? undefined : { tokenLimit: this.tokenLimit })
    }
  },
  pipe() {
    return pipeArguments(this, arguments)
  }
}

const makeHistory = (fields: Fields): History =>
  // The prototype and the fields together are all that History declares
  Object.freeze(Object.assign(Object.create(Proto), fields)) as History

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

/** Adds a message that `laws.check` accepted. */
export const pushMessage = (self: History, input: Message.Message): History => {
  const message = messageData.freeze(input)
  const next: Fields = {
    ...self,
    last: { message, previous: self.last },
    listed: listCache.get(self) ?? self.listed,
    length: self.length + 1,
    tokenCount: self.tokenCount + (message.usage === undefined ? 0 : Message.totalTokens(message.usage))
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

/** Forgets what was reported: it is about a longer history. */
export const forgetReport = (self: History): History =>
  self.reported === undefined ? self : makeHistory({ ...self, reported: undefined, staleUsage: true })

const indexCalls = (self: History, message: Message.AssistantMessage) => {
  const batch: Array<Message.ToolCallPart> = []
  let { callIds, open, providerOpen } = self
  for (const part of message.content) {
    if (part.type === "tool-call") {
      const provider = part.providerExecuted === true
      callIds = HashMap.set(callIds, part.id, provider ? "provider" : "us")
      if (provider) {
        providerOpen = HashMap.set(providerOpen, part.id, part)
      } else {
        batch.push(part)
        open = HashMap.set(open, part.id, part)
      }
    } else if (part.type === "tool-result") {
      callIds = HashMap.set(callIds, part.id, "provider answered")
      providerOpen = HashMap.remove(providerOpen, part.id)
    }
  }
  return { batch, positions: positionsOf(batch), callIds, open, providerOpen }
}

/** The newest message: of results, that of the latest call. */
export const lastMessage = (self: History): Message.Message | undefined => {
  let newest = self.last?.message
  for (let node = self.last; node?.message.role === "tool"; node = node.previous) {
    if (newest?.role === "tool" && positionOf(self, node.message) > positionOf(self, newest)) newest = node.message
  }
  return newest
}

const positionOf = (self: History, result: Message.ToolMessage): number => self.positions.get(result.callId) ?? 0

/** What is left of a conversation. */
export const rebuild = (messages: Iterable<Message.Message>, tokenLimit: number | undefined): History => {
  let self = empty(tokenLimit)
  for (const message of messages) self = pushMessage(self, message)
  return forgetReport(self)
}

/** The messages behind `message`, newest first. */
export const messagesSince = (self: History, message: Message.Message): ReadonlyArray<Message.Message> => {
  const messages: Array<Message.Message> = []
  for (let node = self.last; node !== undefined && node.message !== message; node = node.previous) {
    messages.push(node.message)
  }
  return messages
}

interface MessagePlace {
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
): ConversationError.Reason | undefined => {
  // What callers without types pass: laws are checked for them too
  if (typeof message !== "object" || message === null) return unknownRole(index, message)
  const place: MessagePlace = { index, id: message.id }
  switch (message.role) {
    case "system":
      return self.length === 0 ? undefined : new ConversationError.MisplacedSystem(place)
    case "user":
      return checkOpenCalls(self, message, place) ?? checkContent(message, place)
    case "assistant":
      return checkOpenCalls(self, message, place) ?? checkAssistant(self, message, place)
    case "tool":
      return checkToolResult(self, message, place)
    default:
      return unknownRole(index, message)
  }
}

const unknownRole = (index: number, message: unknown): ConversationError.UnknownRole => {
  const { id, role }: { id?: unknown; role?: unknown } = typeof message === "object" && message !== null ? message : {}
  return new ConversationError.UnknownRole({
    index,
    ...(typeof id === "string" ? { id } : undefined),
    found: typeof role === "string" ? JSON.stringify(role.slice(0, 40)) : role === null ? "null" : typeof role
  })
}

const checkOpenCalls = (
  self: History,
  message: Message.Message,
  place: MessagePlace
): ConversationError.Reason | undefined =>
  HashMap.isEmpty(self.open)
    ? undefined
    : new ConversationError.OpenCalls({
        ...place,
        role: message.role,
        callIds: openCallIds(self)
      })

const openCallIds = (self: History): ReadonlyArray<string> => openBatch(self).map((call) => call.id)

/** How many calls an error about a result names: a repair reports one for each of thousands. */
const maxNamedCalls = 20

const someOpenCallIds = (self: History): ReadonlyArray<string> => {
  const position = (id: string) => self.positions.get(id) ?? 0
  return Array.from(EffectIterable.take(HashMap.keys(self.open), maxNamedCalls)).toSorted(
    (a, b) => position(a) - position(b)
  )
}

export const openBatch = (self: History): ReadonlyArray<Message.ToolCallPart> =>
  HashMap.isEmpty(self.open) ? [] : self.batch.filter((call) => HashMap.has(self.open, call.id))

const hasContent = (message: Message.UserMessage): boolean =>
  message.content.some((part) => part.type === "file" || part.text !== "")

const checkContent = (message: Message.UserMessage, place: MessagePlace): ConversationError.Reason | undefined =>
  hasContent(message) ? undefined : emptyContentReason(message, place)

const emptyContentReason = (message: Message.UserMessage, place: MessagePlace): ConversationError.Reason =>
  new ConversationError.EmptyContent({ ...place, role: message.role })

const checkToolResult = (
  self: History,
  message: Message.ToolMessage,
  place: MessagePlace
): ConversationError.Reason | undefined => {
  if (message.callId === "") return new ConversationError.MissingCallId({ ...place, role: message.role })
  const call = HashMap.get(self.open, message.callId)
  if (Option.isSome(call)) return checkName(place, call.value, message.name)
  const fields = { ...place, callId: message.callId, open: someOpenCallIds(self) }
  return Option.contains(HashMap.get(self.callIds, message.callId), "us")
    ? new ConversationError.DuplicateResult(fields)
    : new ConversationError.OrphanResult(fields)
}

/** A result that names a call by an id that nobody gave it. */
const orphanReason = (place: MessagePlace, callId: string): ConversationError.Reason =>
  new ConversationError.OrphanResult({ ...place, callId, open: [] })

const checkName = (
  place: MessagePlace,
  call: Message.ToolCallPart,
  found: string
): ConversationError.Reason | undefined =>
  call.name === found
    ? undefined
    : new ConversationError.NameMismatch({ ...place, callId: call.id, expected: call.name, found })

const checkAssistant = (
  self: History,
  message: Message.AssistantMessage,
  place: MessagePlace
): ConversationError.Reason | undefined => {
  const next = partChecker(self, place)
  for (const part of message.content) {
    const reason = next(part)
    if (reason !== undefined) return reason
  }
  return undefined
}

/**
 * The laws between the parts of an assistant message: the law that a part would
 * break behind those that broke none.
 */
const partChecker = (
  self: History,
  place: MessagePlace
): ((part: Message.AssistantPart) => ConversationError.Reason | undefined) => {
  // What these parts change; the rest stands in `self`, which may hold many
  const opened = new Map<string, Message.ToolCallPart>()
  const answered = new Set<string>()
  const find = (id: string): Message.ToolCallPart | undefined =>
    opened.get(id) ?? (answered.has(id) ? undefined : Option.getOrUndefined(HashMap.get(self.providerOpen, id)))
  const someOpen = (): ReadonlyArray<string> => {
    const before = EffectIterable.take(HashMap.keys(self.providerOpen), maxNamedCalls)
    const stillOpen = EffectIterable.filter(before, (id) => !answered.has(id) && !opened.has(id))
    return Array.from(EffectIterable.take(EffectIterable.appendAll(opened.keys(), stillOpen), maxNamedCalls))
  }
  return (part) => {
    if (part.type !== "tool-call" && part.type !== "tool-result") return undefined
    if (part.id === "") return new ConversationError.MissingCallId({ ...place, role: "assistant" })
    const call = find(part.id)
    if (part.type === "tool-call") {
      if (call !== undefined) return new ConversationError.RepeatedCallId({ ...place, callId: part.id })
      opened.set(part.id, part)
      return undefined
    }
    if (call === undefined || call.providerExecuted !== true) {
      const fields = {
        ...place,
        callId: part.id,
        open: someOpen()
      }
      const before = Option.getOrUndefined(HashMap.get(self.callIds, part.id))
      const isAnswered = call === undefined && (before === "us" || before === "provider answered")
      return answered.has(part.id) || isAnswered
        ? new ConversationError.DuplicateResult(fields)
        : new ConversationError.OrphanResult(fields)
    }
    const mismatch = checkName(place, call, part.name)
    if (mismatch !== undefined) return mismatch
    opened.delete(part.id)
    answered.add(part.id)
    return undefined
  }
}

/**
 * What to do with a history that breaks a law.
 */
type OnUnlawful = "refuse" | "repair"

/**
 * A lawful conversation, and what had to be changed for it, in the order of the
 * history; nothing for one that was lawful.
 */
export interface Repaired {
  readonly conversation: Conversation
  readonly repairs: ReadonlyArray<ConversationError.Repair>
}

/**
 * A function that reads a conversation. With `onUnlawful: "repair"` it gives the
 * conversation together with what was changed; by default, `"refuse"`, a history that
 * breaks a law is an error.
 */
export interface Reader<in I, in O, out E> {
  (input: I, options: O & { readonly onUnlawful: "repair" }): Effect.Effect<Repaired, E>
  (input: I, options?: O & { readonly onUnlawful?: "refuse" | undefined }): Effect.Effect<Conversation, E>
}

/** Ids of the calls, by the id that their results have; those with a result are taken off. */
type CallLabels = ReadonlyMap<string, Array<string>>

interface PartPlace {
  readonly index: number
  readonly id: string
}

/** The content of an assistant message without what breaks a law. */
const repairParts = (self: History, parts: ReadonlyArray<Message.AssistantPart>, place: PartPlace) => {
  const content: Array<Message.AssistantPart> = []
  const repairs: Array<ConversationError.Repair> = []
  const labels = new Map<string, Array<string>>()
  const ownLabels = new Map<string, Array<string>>()
  const made = new Set<string>()
  const check = partChecker(self, place)
  const fresh = freshIds(self, parts)

  /** Keeps the result if it answers a call; otherwise the law it breaks. */
  const answer = (part: Message.ToolResultPart): ConversationError.Reason | undefined => {
    const reason = check(part)
    if (reason?._tag === "NameMismatch") {
      repairs.push({ _tag: "ResultRenamed", ...place, callId: part.id, from: part.name, to: reason.expected })
      return answer({ ...part, name: reason.expected })
    }
    if (reason === undefined) content.push(part)
    return reason
  }

  for (const part of parts) {
    if (part.type === "tool-result") {
      const reason = made.has(part.id) ? orphanReason(place, part.id) : answer(part)
      if (reason === undefined) continue
      // Each id is tried once: there may be thousands of calls and results
      const id = ownLabels.get(part.id)?.shift()
      if (id === undefined || answer({ ...part, id }) !== undefined) {
        repairs.push({ _tag: "PartDropped", ...place, reason })
      }
      continue
    }
    if (check(part) === undefined || part.type !== "tool-call") {
      content.push(part)
      if (part.type === "tool-call") labels.set(part.id, [part.id])
      continue
    }
    const call = { ...part, id: fresh(part.id) }
    check(call)
    content.push(call)
    made.add(call.id)
    addLabel(labels, part.id, call.id)
    if (part.providerExecuted === true) addLabel(ownLabels, part.id, call.id)
    repairs.push({ _tag: "CallRelabelled", ...place, from: part.id, to: call.id })
  }
  return { content, repairs, labels, made }
}

const addLabel = (labels: Map<string, Array<string>>, from: string, to: string): void => {
  const ids = labels.get(from)
  if (ids === undefined) labels.set(from, [to])
  else ids.push(to)
}

/** Ids that no call of the conversation has, nor any in these parts. */
const freshIds = (self: History, parts: ReadonlyArray<Message.AssistantPart>) => {
  const counts = new Map<string, number>()
  const used = new Set(parts.flatMap((part) => (part.type === "tool-call" ? [part.id] : [])))
  return (id: string): string => {
    const stem = `${id === "" ? "call" : id}_${self.length}`
    for (let n = (counts.get(stem) ?? 0) + 1; ; n++) {
      const candidate = n === 1 ? stem : `${stem}_${n}`
      if (used.has(candidate) || HashMap.has(self.callIds, candidate)) continue
      counts.set(stem, n)
      return candidate
    }
  }
}

/** Makes a lawful conversation of messages that come one by one. */
interface Repairer {
  readonly self: () => History
  readonly add: (message: Message.Message, index: number) => Effect.Effect<void>
  /** Leaves out a message that could not even be made. */
  readonly drop: (index: number, id: string, reason: ConversationError.Reason) => void
  readonly finish: (staleUsage: boolean) => Effect.Effect<Repaired>
}

interface RepairPlace {
  readonly index: number
  readonly id: string
}

const interruptedResult = ToolResult.failure("interrupted", "Tool call interrupted before completion.")

export const makeRepairer = (tokenLimit: number | undefined): Repairer => {
  let self = empty(tokenLimit)
  const repairs: Array<ConversationError.Repair> = []
  let labels: CallLabels = new Map()
  // Ids that calls got here: a result that has one was for no call
  let made: ReadonlySet<string> = new Set()
  // Demoted messages that wait for the results of open calls
  let waiting: Array<readonly [message: Message.UserMessage, place: RepairPlace]> = []

  const drop = (index: number, id: string, reason: ConversationError.Reason): void => {
    repairs.push({ _tag: "MessageDropped", index, id, reason })
  }

  const push = (message: Message.Message, place: RepairPlace): void => {
    const reason = checkMessage(self, message, place.index)
    if (reason === undefined) self = pushMessage(self, message)
    else drop(place.index, place.id, reason)
  }

  const isOpen = (id: string | undefined): boolean => id !== undefined && HashMap.has(self.open, id)

  const settle = (): void => {
    if (!HashMap.isEmpty(self.open)) return
    const settled = waiting
    waiting = []
    for (const [message, place] of settled) push(message, place)
  }

  const seal = Effect.fnUntraced(function* (place: RepairPlace) {
    for (const { id, name } of openBatch(self)) {
      self = pushMessage(self, yield* Message.tool({ callId: id, name, result: interruptedResult }))
      repairs.push({ _tag: "CallSealed", ...place, callId: id, name })
    }
    settle()
  })

  const demote = (message: Message.SystemMessage, place: RepairPlace): void => {
    repairs.push({ _tag: "SystemDemoted", ...place })
    waiting.push([{ ...message, role: "user", content: [ToolResult.textPart(message.content)] }, place])
    settle()
  }

  const assistant = (message: Message.AssistantMessage, place: RepairPlace): void => {
    labels = new Map()
    made = new Set()
    if (checkMessage(self, message, place.index) !== undefined) {
      const repaired = repairParts(self, message.content, place)
      repairs.push(...repaired.repairs)
      labels = repaired.labels
      made = repaired.made
      push({ ...message, content: repaired.content }, place)
    } else {
      self = pushMessage(self, message)
    }
  }

  const result = (message: Message.ToolMessage, place: RepairPlace): void => {
    if (made.has(message.callId)) return drop(place.index, place.id, orphanReason(place, message.callId))
    const ids = labels.get(message.callId) ?? []
    // Each id is taken off once: there may be thousands of calls and results
    while (ids.length > 1 && !isOpen(ids[0])) ids.shift()
    const [callId = message.callId] = ids
    const call = Option.getOrUndefined(HashMap.get(self.open, callId))
    const name = call?.name ?? message.name
    if (name !== message.name) {
      repairs.push({ _tag: "ResultRenamed", ...place, callId, from: message.name, to: name })
    }
    push(name === message.name && callId === message.callId ? message : { ...message, callId, name }, place)
  }

  const add = Effect.fnUntraced(function* (message: Message.Message, index: number) {
    const place: RepairPlace = { index, id: message.id }
    switch (message.role) {
      case "system":
        return index === 0 ? push(message, place) : demote(message, place)
      case "user":
        // A message that says nothing ends no turn
        if (!hasContent(message)) return drop(index, message.id, emptyContentReason(message, place))
        yield* seal(place)
        return push(message, place)
      case "assistant":
        yield* seal(place)
        return assistant(message, place)
      case "tool":
        result(message, place)
        return settle()
    }
  })

  const finish = Effect.fnUntraced(function* (staleUsage: boolean) {
    const [next] = waiting
    // What was said behind the open end needs its end closed
    if (next !== undefined) yield* seal(next[1])
    return { conversation: staleUsage ? forgetReport(self) : self, repairs }
  })

  return { self: () => self, add, drop, finish }
}

export const repairMessages = Effect.fnUntraced(function* (
  messages: Iterable<Message.Message>,
  options: { readonly tokenLimit?: number | undefined; readonly staleUsage?: boolean | undefined }
) {
  const repairer = makeRepairer(options.tokenLimit)
  let index = 0
  for (const message of messages) {
    yield* repairer.add(message, index)
    index += 1
  }
  return yield* repairer.finish(options.staleUsage === true)
})

/** Two readers as one function: `onUnlawful` says which. */
export const makeReader = <I, O, E>(
  refuse: (input: I, options?: O) => Effect.Effect<Conversation, E>,
  repair: (input: I, options?: O) => Effect.Effect<Repaired, E>
): Reader<I, O, E> => {
  function read(input: I, options: O & { readonly onUnlawful: "repair" }): Effect.Effect<Repaired, E>
  function read(input: I, options?: O & { readonly onUnlawful?: "refuse" | undefined }): Effect.Effect<Conversation, E>
  function read(input: I, options?: O & { readonly onUnlawful?: OnUnlawful | undefined }) {
    return options?.onUnlawful === "repair" ? repair(input, options) : refuse(input, options)
  }
  return read
}

type Wire = typeof conversationV1.ConversationV1.Type

const isRepaired = (u: unknown): u is Repaired => Predicate.hasProperty(u, "conversation") && isHistory(u.conversation)

/** Reads histories that break laws too, and says what it changed. */
export const repairingCodec: VersionedCodec.VersionedCodec<Repaired> = VersionedCodec.make<Repaired>({
  ...codecSettings,
  type: Schema.declare<Repaired>(isRepaired, { identifier: "RepairedConversation" }),
  arms: codecArms(
    (wire) => repairMessages(wire.messages, wire),
    ({ conversation }) => conversation
  )
})

const issueFields: {
  readonly [Tag in ConversationError.Reason["_tag"]]: readonly [field: string, expected: string, found: string]
} = {
  UnknownRole: ["role", "one of system, user, assistant, tool", "another role"],
  MisplacedSystem: ["role", "a system message only as the first message", "a later system message"],
  EmptyContent: ["content", "text or a file", "empty text"],
  MissingCallId: ["", "calls and results with a non-empty call id", "an empty call id"],
  OrphanResult: ["", "a result that answers an open call", "a result without its call"],
  DuplicateResult: ["", "one result for each call", "a second result"],
  NameMismatch: ["", "a result with the tool name of its call", "another tool name"],
  RepeatedCallId: ["", "a call id that no open call has", "the id of an open call"],
  OpenCalls: ["", "the results of the open calls before the next turn", "the next turn"],
  InvalidKeepRecent: ["", "an integer from 0", "another number"],
  EmptySummary: ["", "a summary that says something", "an empty summary"],
  NotJson: ["", "JSON", "something else"]
}

const issueOfReason = (reason: ConversationError.Reason): PayloadError.Problem => {
  const [name, expected, found] = issueFields[reason._tag]
  const path = "index" in reason ? `/messages/${reason.index}` : "/messages"
  return { path: name === "" ? path : `${path}/${name}`, expected, found }
}
