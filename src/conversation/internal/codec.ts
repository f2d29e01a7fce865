import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { checkCount, type Limits } from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { Conversation } from "../Conversation.ts"
import type { Reason } from "../ConversationError.ts"
import * as V1 from "../wire/v1.ts"
import * as history from "./history.ts"
import * as laws from "./laws.ts"

const what = "Conversation"

const v1 = VersionedCodec.arm<Conversation, typeof V1.Conversation.Type>({
  version: 1,
  wire: V1.Conversation,
  toCurrent: (wire) =>
    Effect.suspend(() => {
      let self = history.empty(wire.tokenLimit)
      for (const message of wire.messages) {
        const reason = laws.check(self, message)
        if (reason !== undefined)
          return Effect.fail(new PayloadError.Invalid({ issues: [issueOf(reason)], omitted: 0 }))
        self = history.push(self, message)
      }
      return Effect.succeed(self)
    }),
  fromCurrent: (self) => {
    const { tokenLimit } = history.of(self)
    return VersionedCodec.lossless({
      version: 1,
      ...(tokenLimit === undefined ? undefined : { tokenLimit }),
      messages: history.toArray(history.of(self))
    })
  }
})

// The messages are counted before the schema looks at them
const counted: VersionedCodec.AnyArm<Conversation> = {
  version: v1.version,
  read: (json, options) => Effect.andThen(countMessages(lengthOf(json), options.limits), v1.read(json, options)),
  write: (self, options) =>
    Effect.andThen(countMessages(history.of(self).length, options.limits), v1.write(self, options))
}

const countMessages = (found: number, limits: Partial<Limits> | undefined) =>
  checkCount("messages", found, { what, path: "/messages", limits })

const lengthOf = (json: Schema.Json): number => {
  const messages = typeof json === "object" && json !== null && "messages" in json ? json.messages : undefined
  return Array.isArray(messages) ? messages.length : 0
}

export const codec: VersionedCodec.VersionedCodec<Conversation> = VersionedCodec.make<Conversation>({
  what,
  field: "version",
  type: Schema.declare<Conversation>(history.isHistory, { identifier: "Conversation" }),
  arms: [counted],
  // What tools take and give are the application's words, not options
  data: ["/messages/*/content/*/arguments", "/messages/*/content/*/result/value", "/messages/*/result/value"]
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
  NotJson: ["", "JSON", "something else"]
}

const issueOf = (reason: Reason): PayloadError.Issue => {
  const [name, expected, found] = field[reason._tag]
  const path = "index" in reason ? `/messages/${reason.index}` : "/messages"
  return { path: name === "" ? path : `${path}/${name}`, expected, found }
}
