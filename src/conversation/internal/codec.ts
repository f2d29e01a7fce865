import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { checkCount, type Limits } from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { Conversation } from "../Conversation.ts"
import type { Reason } from "../ConversationError.ts"
import type { Repaired } from "../Repair.ts"
import * as V1 from "../wire/v1.ts"
import * as history from "./history.ts"
import * as laws from "./laws.ts"
import { repair } from "./repair.ts"

const what = "Conversation"

type Wire = typeof V1.Conversation.Type

const refuse = (wire: Wire): Effect.Effect<Conversation, PayloadError.Reason> =>
  Effect.suspend(() => {
    let self = history.empty(wire.tokenLimit)
    for (const message of wire.messages) {
      const reason = laws.check(self, message)
      if (reason !== undefined) return Effect.fail(new PayloadError.Invalid({ issues: [issueOf(reason)], omitted: 0 }))
      self = history.push(self, message)
    }
    return Effect.succeed(wire.staleUsage === true ? history.forgetReport(self) : self)
  })

const write = (self: Conversation) => {
  const { staleUsage, tokenLimit } = history.of(self)
  return VersionedCodec.lossless<Wire>({
    version: 1,
    ...(tokenLimit === undefined ? undefined : { tokenLimit }),
    ...(staleUsage ? { staleUsage: true } : undefined),
    messages: history.toArray(history.of(self))
  })
}

/** The arms of a value that is made of a conversation, whose messages are counted before the schema looks at them. */
const arms = <T>(
  toCurrent: (wire: Wire) => Effect.Effect<T, PayloadError.Reason>,
  conversationOf: (value: T) => Conversation
): ReadonlyArray<VersionedCodec.AnyArm<T>> => {
  const v1 = VersionedCodec.arm<T, Wire>({
    version: 1,
    wire: V1.Conversation,
    toCurrent,
    fromCurrent: (value) => write(conversationOf(value))
  })
  return [
    {
      version: v1.version,
      read: (json, options) => Effect.andThen(countMessages(lengthOf(json), options.limits), v1.read(json, options)),
      write: (value, options) =>
        Effect.andThen(
          countMessages(history.of(conversationOf(value)).length, options.limits),
          v1.write(value, options)
        )
    }
  ]
}

const countMessages = (found: number, limits: Partial<Limits> | undefined) =>
  checkCount("messages", found, { what, path: "/messages", limits })

const lengthOf = (json: Schema.Json): number => {
  const messages = typeof json === "object" && json !== null && "messages" in json ? json.messages : undefined
  return Array.isArray(messages) ? messages.length : 0
}

const settings = {
  what,
  field: "version",
  // What tools take and give are the application's words, not options
  data: ["/messages/*/content/*/arguments", "/messages/*/content/*/result/value", "/messages/*/result/value"]
}

export const codec: VersionedCodec.VersionedCodec<Conversation> = VersionedCodec.make<Conversation>({
  ...settings,
  type: Schema.declare<Conversation>(history.isHistory, { identifier: "Conversation" }),
  arms: arms(refuse, identity)
})

const isRepaired = (u: unknown): u is Repaired =>
  Predicate.hasProperty(u, "conversation") && history.isHistory(u.conversation)

/** Reads histories that break laws too, and says what it changed. */
export const repairing: VersionedCodec.VersionedCodec<Repaired> = VersionedCodec.make<Repaired>({
  ...settings,
  type: Schema.declare<Repaired>(isRepaired, { identifier: "RepairedConversation" }),
  arms: arms(
    (wire) => repair(wire.messages, wire),
    ({ conversation }) => conversation
  )
})

const field: { readonly [Tag in Reason["_tag"]]: readonly [field: string, expected: string, found: string] } = {
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

const issueOf = (reason: Reason): PayloadError.Issue => {
  const [name, expected, found] = field[reason._tag]
  const path = "index" in reason ? `/messages/${reason.index}` : "/messages"
  return { path: name === "" ? path : `${path}/${name}`, expected, found }
}
