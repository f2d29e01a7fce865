import * as HashMap from "effect/HashMap"
import * as Iterable from "effect/Iterable"
import * as Option from "effect/Option"
import * as ConversationError from "../ConversationError.ts"
import type { AssistantMessage, Message, ToolMessage, UserMessage } from "../Message.ts"
import type { AssistantPart, ToolCallPart } from "../Part.ts"
import type { History } from "./history.ts"

interface Place {
  readonly index: number
  readonly id: string
}

/**
 * The law that `message` would break as the next message of `self`, if any.
 * `index` is the position to report, where it is not the one in `self`.
 */
export const check = (
  self: History,
  message: Message,
  index: number = self.length
): ConversationError.Reason | undefined => {
  // What callers without types pass: laws are checked for them too
  if (typeof message !== "object" || message === null) return unknownRole(index, message)
  const place: Place = { index, id: message.id }
  switch (message.role) {
    case "system":
      return self.length === 0 ? undefined : new ConversationError.MisplacedSystem(place)
    case "user":
      return openCalls(self, message, place) ?? emptyContent(message, place)
    case "assistant":
      return openCalls(self, message, place) ?? assistantCalls(self, message, place)
    case "tool":
      return toolResult(self, message, place)
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

const openCalls = (self: History, message: Message, place: Place): ConversationError.Reason | undefined =>
  HashMap.isEmpty(self.open)
    ? undefined
    : new ConversationError.OpenCalls({
        ...place,
        role: message.role,
        callIds: openIds(self)
      })

const openIds = (self: History): ReadonlyArray<string> => openBatch(self).map((call) => call.id)

/** How many calls an error about a result names: a repair reports one for each of thousands. */
const named = 20

const someOpenIds = (self: History): ReadonlyArray<string> => {
  const position = (id: string) => self.positions.get(id) ?? 0
  return Array.from(Iterable.take(HashMap.keys(self.open), named)).toSorted((a, b) => position(a) - position(b))
}

export const openBatch = (self: History): ReadonlyArray<ToolCallPart> =>
  HashMap.isEmpty(self.open) ? [] : self.batch.filter((call) => HashMap.has(self.open, call.id))

export const saysSomething = (message: UserMessage): boolean =>
  message.content.some((part) => part.type === "file" || part.text !== "")

const emptyContent = (message: UserMessage, place: Place): ConversationError.Reason | undefined =>
  saysSomething(message) ? undefined : emptyReason(message, place)

export const emptyReason = (message: UserMessage, place: Place): ConversationError.Reason =>
  new ConversationError.EmptyContent({ ...place, role: message.role })

const toolResult = (self: History, message: ToolMessage, place: Place): ConversationError.Reason | undefined => {
  if (message.callId === "") return new ConversationError.MissingCallId({ ...place, role: message.role })
  const call = HashMap.get(self.open, message.callId)
  if (Option.isSome(call)) return nameMismatch(place, call.value, message.name)
  const fields = { ...place, callId: message.callId, open: someOpenIds(self) }
  return Option.contains(HashMap.get(self.callIds, message.callId), "us")
    ? new ConversationError.DuplicateResult(fields)
    : new ConversationError.OrphanResult(fields)
}

/** A result that names a call by an id that nobody gave it. */
export const orphan = (place: Place, callId: string): ConversationError.Reason =>
  new ConversationError.OrphanResult({ ...place, callId, open: [] })

const nameMismatch = (place: Place, call: ToolCallPart, found: string): ConversationError.Reason | undefined =>
  call.name === found
    ? undefined
    : new ConversationError.NameMismatch({ ...place, callId: call.id, expected: call.name, found })

const assistantCalls = (
  self: History,
  message: AssistantMessage,
  place: Place
): ConversationError.Reason | undefined => {
  const next = parts(self, place)
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
export const parts = (self: History, place: Place): ((part: AssistantPart) => ConversationError.Reason | undefined) => {
  // What these parts change; the rest stands in `self`, which may hold many
  const opened = new Map<string, ToolCallPart>()
  const answered = new Set<string>()
  const find = (id: string): ToolCallPart | undefined =>
    opened.get(id) ?? (answered.has(id) ? undefined : Option.getOrUndefined(HashMap.get(self.providerOpen, id)))
  const someOpen = (): ReadonlyArray<string> => {
    const before = Iterable.take(HashMap.keys(self.providerOpen), named)
    const stillOpen = Iterable.filter(before, (id) => !answered.has(id) && !opened.has(id))
    return Array.from(Iterable.take(Iterable.appendAll(opened.keys(), stillOpen), named))
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
    const mismatch = nameMismatch(place, call, part.name)
    if (mismatch !== undefined) return mismatch
    opened.delete(part.id)
    answered.add(part.id)
    return undefined
  }
}
