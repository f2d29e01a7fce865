import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Content from "../../tool/Content.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { Conversation } from "../Conversation.ts"
import { ConversationError, UnknownRole } from "../ConversationError.ts"
import * as Message from "../Message.ts"
import type { AssistantPart } from "../Part.ts"
import type { Repaired } from "../Repair.ts"
import * as foreign from "./foreign.ts"
import * as history from "./history.ts"
import * as json from "./json.ts"
import * as laws from "./laws.ts"
import { repair } from "./repair.ts"

type ProviderOptions = { readonly options?: Content.ProviderOptions }

/** What a message of a provider's format says, in our words. */
export type Said = ProviderOptions &
  (
    | { readonly role: "system"; readonly content: string }
    | { readonly role: "user"; readonly content: ReadonlyArray<Content.Content> }
    | { readonly role: "assistant"; readonly content: ReadonlyArray<AssistantPart> }
    | {
        readonly role: "tool"
        readonly callId: string
        readonly name?: string
        readonly content: ReadonlyArray<Content.Content>
        readonly isError?: boolean
      }
  )

export interface Received {
  /** Position in what was received. */
  readonly index: number
  readonly said: Said
  readonly note: foreign.Note
}

/** Fails at the first message whose role the format does not have. */
export const roles = (
  items: ReadonlyArray<unknown>,
  known: ReadonlyArray<string>
): Effect.Effect<void, ConversationError> => {
  for (const [index, item] of items.entries()) {
    if (!json.isObject(item)) continue
    const role = foreign.own(item, "role")
    if (typeof role === "string" && !known.includes(role)) {
      const found = JSON.stringify(role.slice(0, 40))
      return Effect.fail(new ConversationError({ reason: new UnknownRole({ index, found }) }))
    }
  }
  return Effect.void
}

interface Made {
  readonly index: number
  readonly message: Message.Message
}

/** Makes messages of what was received, with new ids and times. */
const messages = Effect.fnUntraced(function* (format: foreign.Format, received: ReadonlyArray<Received>) {
  const names = new Map<string, string>()
  const all: Array<Made> = []
  for (const { index, note, said } of withPlaces(received)) {
    const { options } = said
    if (said.role === "assistant") {
      for (const part of said.content) if (part.type === "tool-call") names.set(part.id, part.name)
    }
    const message = yield* make(names, said, {
      ...foreign.metadata(format, note),
      ...(options === undefined ? undefined : { options })
    })
    all.push({ index, message })
  }
  return all
})

/** A conversation of what was received, every law checked. */
export const conversation = Effect.fnUntraced(function* (
  format: foreign.Format,
  received: ReadonlyArray<Received>,
  tokenLimit: number | undefined
) {
  let self = history.empty(tokenLimit)
  for (const { index, message } of yield* messages(format, received)) {
    const reason = laws.check(self, message, index)
    if (reason !== undefined) return yield* new ConversationError({ reason })
    self = history.push(self, message)
  }
  return self
})

/** A conversation of what was received, with the changes that its laws asked for. */
export const repaired = (
  format: foreign.Format,
  received: ReadonlyArray<Received>,
  tokenLimit: number | undefined
): Effect.Effect<Repaired> =>
  Effect.flatMap(messages(format, received), (all) =>
    repair(
      all.map(({ message }) => message),
      { tokenLimit }
    )
  )

/** Names of calls by their ids: results may name the call only, which may stand in an earlier message. */
type Names = ReadonlyMap<string, string>

const make = (names: Names, said: Said, options: Message.Options): Effect.Effect<Message.Message> => {
  switch (said.role) {
    case "system":
      return Message.system(said.content, options)
    case "user":
      return Message.user(nonEmpty(said.content), options)
    case "assistant":
      return Message.assistant(
        said.content.map((part) =>
          part.type === "tool-result" ? { ...part, name: names.get(part.id) ?? part.name } : part
        ),
        options
      )
    case "tool": {
      const name = said.name ?? names.get(said.callId) ?? ""
      return Message.tool({ callId: said.callId, name, result: result(said) }, options)
    }
  }
}

/** Content without parts is what a message with empty text is, and the laws refuse both. */
const nonEmpty = ([first, ...rest]: ReadonlyArray<Content.Content>): Content.NonEmptyContent => [
  first ?? Content.text(""),
  ...rest
]

const result = (said: Extract<Said, { role: "tool" }>): ToolResult.ToolResult => {
  const content = nonEmpty(said.content)
  const text = Content.toText(content)
  const [first, second] = content
  const isPlain = second === undefined && first.type === "text" && first.options === undefined
  if (said.isError !== true) return ToolResult.success(text, content)
  const failure = ToolResult.failure("execution_error", text)
  return isPlain ? failure : { ...failure, content }
}

/** Notes where the results of a batch stood, where that is not in call order. */
const withPlaces = (received: ReadonlyArray<Received>): ReadonlyArray<Received> => {
  const all: Array<Received> = []
  let batch: Array<Received> = []
  let calls: ReadonlyArray<string> = []
  const flush = () => {
    const ids = batch.flatMap(({ said }) => (said.role === "tool" ? [said.callId] : []))
    const moved = foreign.areMoved(calls, ids)
    all.push(...batch.map((one, place) => (moved ? { ...one, note: { ...one.note, place } } : one)))
    batch = []
  }
  for (const one of received) {
    if (one.said.role === "tool") {
      batch.push(one)
      continue
    }
    flush()
    all.push(one)
    calls =
      one.said.role === "assistant"
        ? one.said.content.flatMap((part) =>
            part.type === "tool-call" && part.providerExecuted !== true ? [part.id] : []
          )
        : []
  }
  flush()
  return all
}

/** A format as a schema. What is refused is told by its message. */
export const codec = <D extends Error, E extends Error>(
  identifier: string,
  decode: (input: Schema.Json) => Effect.Effect<Conversation, D>,
  encode: (self: Conversation) => Effect.Effect<Schema.Json, E>
): Schema.Codec<Conversation, Schema.Json> => {
  const issue = (input: unknown) => (error: Error) =>
    new SchemaIssue.InvalidValue({ message: error.message }, input, {})
  return Schema.Json.pipe(
    Schema.decodeTo(Schema.declare<Conversation>(history.isHistory, { identifier }), {
      decode: SchemaGetter.transformEffect((json: Schema.Json) => Effect.mapError(decode(json), issue(json))),
      encode: SchemaGetter.transformEffect((self: Conversation) => Effect.mapError(encode(self), issue(self)))
    })
  )
}
