import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { ProviderOptions } from "../../tool/Content.ts"
import type { AssistantMessage, Message } from "../Message.ts"
import { TokenUsage } from "../TokenUsage.ts"

/** The name under which a lossless prompt keeps what prompts have no field for. */
export const key = "effect-emissary"

const MessageNote = Schema.Struct({
  id: Schema.String,
  createdAt: Schema.DateTimeUtcFromString,
  usage: Schema.optionalKey(TokenUsage),
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  model: Schema.optionalKey(Schema.String),
  finishReason: Schema.optionalKey(Schema.String)
})

type MessageNote = typeof MessageNote.Type

export const Note = Schema.Struct({
  message: Schema.optionalKey(MessageNote),
  /** Whether the arguments stand in the prompt as they are. */
  exact: Schema.optionalKey(Schema.Literal(true)),
  /** Argument text as received. */
  text: Schema.optionalKey(Schema.String),
  /** What a failure's value does not tell. */
  failure: Schema.optionalKey(
    Schema.Struct({ type: Schema.String, message: Schema.String, value: Schema.optionalKey(Schema.Json) })
  ),
  /** Whether the result was given content of its own. */
  content: Schema.optionalKey(Schema.Boolean)
})

export type Note = typeof Note.Type

const encode = Schema.encodeOption(Schema.toCodecJson(Note))
const decode = Schema.decodeUnknownOption(Schema.toCodecJson(Note))

export const ofMessage = (message: Message): MessageNote => ({
  id: message.id,
  createdAt: message.createdAt,
  ...(message.usage === undefined ? undefined : { usage: message.usage }),
  ...(message.metadata === undefined ? undefined : { metadata: message.metadata }),
  ...(message.role === "assistant" ? ofAssistant(message) : undefined)
})

const ofAssistant = ({ finishReason, model }: AssistantMessage) => ({
  ...(model === undefined ? undefined : { model }),
  ...(finishReason === undefined ? undefined : { finishReason })
})

export const write = (options: ProviderOptions | undefined, note: Note): ProviderOptions =>
  Option.match(Object.keys(note).length === 0 ? Option.none() : encode(note), {
    onNone: () => options ?? {},
    onSome: (encoded) => ({ ...options, [key]: encoded })
  })

/** The note, and the provider options without it. */
export const read = (
  options: ProviderOptions
): { readonly note: Note; readonly options: ProviderOptions | undefined } => {
  const note = Object.hasOwn(options, key) ? decode(options[key]) : Option.none<Note>()
  if (Option.isNone(note)) return { note: {}, options: Object.keys(options).length === 0 ? undefined : options }
  const { [key]: _, ...rest } = options
  return { note: note.value, options: Object.keys(rest).length === 0 ? undefined : rest }
}
