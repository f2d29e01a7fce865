import * as Equal from "effect/Equal"
import * as Hash from "effect/Hash"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import { pipeArguments } from "effect/Pipeable"
import * as Predicate from "effect/Predicate"
import type { Conversation, TypeId as TypeIdType } from "../Conversation.ts"
import type { AssistantMessage, Message, SystemMessage, ToolMessage } from "../Message.ts"
import type { ToolCallPart } from "../Part.ts"
import * as TokenUsage from "../TokenUsage.ts"
import * as marks from "./budget/marks.ts"
import * as immutable from "./immutable.ts"

export const TypeId: TypeIdType = "~effect-emissary/conversation/Conversation"

/** Newest first, in the order of arrival: adding is one object, older conversations stay as they were, nothing is copied. */
interface Node {
  readonly message: Message
  readonly previous: Node | undefined
}

/** The messages up to a node, in call order. */
interface Listed {
  readonly last: Node
  readonly messages: ReadonlyArray<Message>
}

/** What the laws need to know about the messages so far, kept as they are added. */
export interface History extends Conversation {
  readonly tokenLimit: number | undefined
  readonly last: Node | undefined
  /** The newest list that was made of an older conversation of this line. */
  readonly listed: Listed | undefined
  readonly length: number
  readonly tokenCount: number
  readonly system: SystemMessage | undefined
  readonly lastAssistant: AssistantMessage | undefined
  /** The newest answer that says how much of this conversation was read for it. */
  readonly reported: AssistantMessage | undefined
  /** Whether there is a newer one, about a longer history. */
  readonly staleUsage: boolean
  /** Calls of the newest assistant message, in call order, and their positions. */
  readonly batch: ReadonlyArray<ToolCallPart>
  readonly positions: ReadonlyMap<string, number>
  /** Those of them without a result. */
  readonly open: HashMap.HashMap<string, ToolCallPart>
  /** Calls of this turn that the provider runs and has not answered. */
  readonly providerOpen: HashMap.HashMap<string, ToolCallPart>
  /** Every call id, with who answers it, or that the provider did. */
  readonly callIds: HashMap.HashMap<string, "us" | "provider" | "provider answered">
}

type Fields = Omit<History, keyof Conversation>

const noPositions: ReadonlyMap<string, number> = new Map()

const lists = new WeakMap<History, Listed>()

const Proto = {
  ...Inspectable.BaseProto,
  [TypeId]: TypeId,
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

const make = (fields: Fields): History =>
  // The prototype and the fields together are all that History declares
  Object.freeze(Object.assign(Object.create(Proto), fields)) as History

export const isHistory = (u: unknown): u is History => Predicate.hasProperty(u, TypeId)

// Sound: conversations are made by `make` above and nowhere else
export const of = (self: Conversation): History => self as History

export const empty = (tokenLimit: number | undefined): History =>
  make({
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

export const withTokenLimit = (self: History, tokenLimit: number | undefined): History => make({ ...self, tokenLimit })

/** Adds a message that `laws.check` accepted. */
export const push = (self: History, input: Message): History => {
  const message = immutable.message(input)
  const next: Fields = {
    ...self,
    last: { message, previous: self.last },
    listed: lists.get(self) ?? self.listed,
    length: self.length + 1,
    tokenCount: self.tokenCount + (message.usage === undefined ? 0 : TokenUsage.total(message.usage))
  }
  switch (message.role) {
    case "system":
      return make({ ...next, system: message })
    case "user":
      return make({ ...next, batch: [], positions: noPositions, providerOpen: HashMap.empty() })
    case "assistant":
      return make({ ...next, lastAssistant: message, ...report(message), ...calls(self, message) })
    case "tool":
      return make({ ...next, open: HashMap.remove(self.open, message.callId) })
  }
}

const report = (message: AssistantMessage) =>
  (message.usage?.inputTokens ?? 0) > 0 && !marks.has(message, marks.view)
    ? { reported: message, staleUsage: false }
    : undefined

/** Forgets what was reported: it is about a longer history. */
export const forgetReport = (self: History): History =>
  self.reported === undefined ? self : make({ ...self, reported: undefined, staleUsage: true })

const calls = (self: History, message: AssistantMessage) => {
  const batch: Array<ToolCallPart> = []
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

const localCalls = (message: AssistantMessage): ReadonlyArray<ToolCallPart> =>
  message.content.filter((part): part is ToolCallPart => part.type === "tool-call" && part.providerExecuted !== true)

const positionsOf = (calls: ReadonlyArray<ToolCallPart>): ReadonlyMap<string, number> =>
  new Map(calls.map((call, position) => [call.id, position]))

/** Results stand in call order, whatever order they arrived in. */
const inCallOrder = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const ordered: Array<Message> = []
  let positions = noPositions
  let results: Array<ToolMessage> = []
  const position = (result: ToolMessage) => positions.get(result.callId) ?? 0
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

/** The newest message: of results, that of the latest call. */
export const lastMessage = (self: History): Message | undefined => {
  let newest = self.last?.message
  for (let node = self.last; node?.message.role === "tool"; node = node.previous) {
    if (newest?.role === "tool" && position(self, node.message) > position(self, newest)) newest = node.message
  }
  return newest
}

const position = (self: History, result: ToolMessage): number => self.positions.get(result.callId) ?? 0

export const toArray = (self: History): ReadonlyArray<Message> => {
  const known = lists.get(self)
  if (known !== undefined) return known.messages
  if (self.last === undefined) return []
  const { before, newer } = sinceListed(self)
  const messages = Object.freeze(before.concat(inCallOrder(newer.toReversed())))
  lists.set(self, { last: self.last, messages })
  return messages
}

/** An older list, and what is newer, newest first. Results that are still coming in are newer: they change places. */
const sinceListed = ({ last, listed }: History) => {
  const newer: Array<Message> = []
  for (let node = last; node !== undefined; node = node.previous) {
    if (node === listed?.last && newer.at(-1)?.role !== "tool") return { before: listed.messages, newer }
    newer.push(node.message)
  }
  return { before: [], newer }
}

/** What is left of a conversation. */
export const rebuild = (messages: Iterable<Message>, tokenLimit: number | undefined): History => {
  let self = empty(tokenLimit)
  for (const message of messages) self = push(self, message)
  return forgetReport(self)
}

/** The messages behind `message`, newest first. */
export const since = (self: History, message: Message): ReadonlyArray<Message> => {
  const messages: Array<Message> = []
  for (let node = self.last; node !== undefined && node.message !== message; node = node.previous) {
    messages.push(node.message)
  }
  return messages
}
