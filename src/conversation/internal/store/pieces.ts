/**
 * Conversations in pieces, as wire JSON. Messages stand in the order in which they
 * were appended; reading them puts results into the order of their calls.
 */
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import type * as Schema from "effect/Schema"
import * as Json from "../../../payload/Json.ts"
import { invalid, PayloadError } from "../../../payload/PayloadError.ts"
import type { Conversation } from "../../Conversation.ts"
import type { Message } from "../../Message.ts"
import { codec } from "../codec.ts"
import * as history from "../history.ts"
import * as laws from "../laws.ts"
import type { Record } from "./record.ts"

export type Messages = ReadonlyArray<Schema.Json>

/** Each piece was read under the limits; together they may be more, but not more messages. */
const together = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxNodes: Number.POSITIVE_INFINITY,
  maxArrayLength: Number.POSITIVE_INFINITY
}

export const damaged = (expected: string, found: string): PayloadError =>
  new PayloadError({ what: codec.what, reason: invalid([{ path: "", expected, found }]) })

export const versionOf = (wire: Schema.Json | undefined): Schema.Json | undefined =>
  Json.isObject(wire) ? wire[codec.field] : undefined

/** Fails for what a newer release wrote. */
export const checkVersion = (wire: Schema.Json | undefined): Effect.Effect<void, PayloadError> => {
  const version = versionOf(wire)
  return typeof version === "number" && codec.versions.includes(version)
    ? Effect.void
    : Effect.asVoid(codec.decode(wire))
}

/** The messages of a piece, if it has the form of one. */
export const messagesOf = (wire: Schema.Json | undefined): Effect.Effect<Messages, PayloadError> => {
  const messages = Json.isObject(wire) ? wire["messages"] : undefined
  return Array.isArray(messages)
    ? Effect.succeed(messages)
    : Effect.fail(damaged("an object with messages", "something else"))
}

/** Other messages in place of those of a piece. */
export const withMessages = (wire: Schema.Json | undefined, messages: Messages): Json.JsonObject => ({
  ...(Json.isObject(wire) ? wire : undefined),
  messages
})

export const segment = (wire: Schema.Json | undefined, messages: Messages): Json.JsonObject => ({
  [codec.field]: versionOf(wire) ?? null,
  messages
})

export const decodeWhole = (wire: Schema.Json | undefined): Effect.Effect<Conversation, PayloadError> =>
  codec.decode(wire)

export const decodeTogether = (
  wire: Schema.Json | undefined,
  messages: Messages
): Effect.Effect<Conversation, PayloadError> => codec.decode(withMessages(wire, messages), { limits: together })

export const encode = (conversation: Conversation): Effect.Effect<Json.JsonObject, PayloadError> =>
  // The newest version loses nothing
  codec.encode(conversation).pipe(Effect.catchTag("LossyEncoding", Effect.die))

/** The wire form of messages that were checked already, and may start in the middle. */
export const encodeMessages = (messages: ReadonlyArray<Message>): Effect.Effect<Messages, PayloadError> =>
  Effect.flatMap(encode(history.rebuild(messages, undefined)), messagesOf)

/**
 * Stands for all messages in segments: to the laws it is the same conversation, which
 * has begun and has these open calls.
 */
const standIn = (open: Record["open"]): Schema.Json => ({
  role: "assistant",
  id: "",
  createdAt: "1970-01-01T00:00:00.000Z",
  content: open.map((call) => ({ type: "tool-call", ...call, arguments: null }))
})

/** The newest messages, with what the laws have to know of the others. */
export const decodeTail = (record: Record, messages: Messages): Effect.Effect<Conversation, PayloadError> =>
  decodeTogether(record.conversation, record.segments === 0 ? messages : [standIn(record.open), ...messages])

/** The calls that a later message may answer. */
export const openCalls = (conversation: Conversation): Record["open"] => {
  const self = history.of(conversation)
  return [...HashMap.values(self.providerOpen), ...laws.openBatch(self)].map(({ id, name, providerExecuted }) =>
    providerExecuted === true ? { id, name, providerExecuted } : { id, name }
  )
}
