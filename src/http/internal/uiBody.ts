/** The request of `useChat`: of all that a page sends, the new message of the user and the answers to requests are taken. */

import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Run from "../../agent/Run.ts"
import * as Json from "../../payload/Json.ts"
import type * as Limits from "../../payload/Limits.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import { type Failure, refuse } from "./refusal.ts"

const optional = Schema.optionalKey(Schema.String)

const Text = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

const File = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.String,
  url: Schema.String,
  filename: optional
})

const Answered = Schema.Struct({
  state: Schema.Literal("approval-responded"),
  approval: Schema.Struct({ id: Schema.String, approved: Schema.Boolean, reason: optional })
})

/** A call with an output. Where no request waits for it, it is the output of a tool that ran. */
const Output = Schema.Struct({
  state: Schema.Literal("output-available"),
  toolCallId: Schema.String,
  output: Schema.Json
})

const Failed = Schema.Struct({
  state: Schema.Literal("output-error"),
  toolCallId: Schema.String,
  errorText: Schema.String
})

/** Other parts are not read. */
const Part = Schema.Union([Text, File, Answered, Output, Failed, Schema.Json])

/** The members that are read. Others are left alone. */
export const Body = Schema.Struct({
  id: Schema.String.check(Schema.isMinLength(1)),
  trigger: Schema.optionalKey(Schema.Literals(["submit-message", "regenerate-message"])),
  messageId: optional,
  messages: Schema.Array(Schema.Struct({ id: Schema.String, role: Schema.String, parts: Schema.Array(Part) }))
})

const isText = Schema.is(Text)
const isFile = Schema.is(File)
const isAnswered = Schema.is(Answered)
const isOutput = Schema.is(Output)
const isFailed = Schema.is(Failed)

/** The identity of a request, see `requestId`. */
const Identity = Schema.fromJsonString(Schema.TupleWithRest(Schema.Tuple([Schema.String]), [Schema.String]))

const readIdentity = Json.decode(Identity, { what: "id of an approval" })

/**
 * The answer of a page to the request at a place, as a decision. The output of a call answers a request that asks for one. It may also be
 * the output of a tool that ran, unlike an answer that names its request.
 */
export interface Answer {
  readonly isNamed: boolean
  readonly place: string
  readonly decide: (request: Run.Request) => Run.Decision | undefined
}

/** The answer to the request with an id, see `requestId`. */
export const answerTo = (id: string, decide: (request: Run.Request) => Run.Decision) =>
  Effect.map(readIdentity(id), ([digest, ...place]): Answer => ({
    isNamed: true,
    place: place.join("/"),
    decide: (request) => ({ ...decide(request), digest })
  }))

/** The answer by the output of a call, which counts for a request that asks for one. */
export const outputOf = (place: string, output: Schema.Json): Answer => ({
  isNamed: false,
  place,
  decide: (request) => ("schema" in request ? Run.answer(request, output) : undefined)
})

const answersIn = (part: typeof Part.Type): Effect.Effect<ReadonlyArray<Answer>, Failure> => {
  if (isAnswered(part)) {
    const { approved, id, reason } = part.approval
    const options = { reason }
    // An approval of a question, which needs an answer, is refused with the decision
    const decide = (request: Run.Request) => ({ ...Run.deny(request, options), approved })
    return Effect.map(answerTo(id, decide), (answer) => [answer])
  }
  if (isOutput(part)) return Effect.succeed([outputOf(part.toolCallId, part.output)])
  if (!isFailed(part)) return Effect.succeed([])
  const { errorText: reason, toolCallId: place } = part
  return Effect.succeed([
    { isNamed: false, place, decide: (request) => ("schema" in request ? Run.deny(request, { reason }) : undefined) }
  ])
}

/** A message of a page, to the session `id`. */
export interface Sent {
  readonly _tag: "Message"
  readonly id: string
  readonly messageId: string
  readonly input: ToolResult.NonEmptyContent
  readonly isEdit: boolean
}

/** The request of a page about the session `id`. `otherwise` is meant where none of the answers is waited for. */
export type Asked =
  | Sent
  | { readonly _tag: "Again"; readonly id: string; readonly messageId: string }
  | {
      readonly _tag: "Decisions"
      readonly id: string
      readonly answers: ReadonlyArray<Answer>
      readonly otherwise?: Sent
    }

export const reading = (limits: Partial<Limits.Limits> | undefined) => {
  const decode = Json.decode(Body, { what: "request of a chat", limits, onExcessProperty: "ignore" })
  return Effect.fnUntraced(function* (json: Schema.Json): Effect.fn.Return<Asked, Failure> {
    const { id, messageId, messages, trigger } = yield* decode(json)
    const last = messages.at(-1)
    // A message that waits comes after the message whose requests are answered
    const answering = messages.find(({ id, role }) => id === messageId && role === "assistant") ?? last
    if (answering?.role === "assistant" && trigger !== "regenerate-message") {
      const answers = yield* Effect.forEach(answering.parts, answersIn)
      return { _tag: "Decisions", id, answers: answers.flat() }
    }
    if (last?.role !== "user") return yield* refuse("invalid", "The last message must be a message of the user.")
    if (trigger === "regenerate-message") return { _tag: "Again", id, messageId: last.id }
    const content = last.parts.flatMap((part): ReadonlyArray<ToolResult.Content> => {
      if (isText(part)) return [ToolResult.textPart(part.text)]
      if (!isFile(part)) return []
      const { filename: fileName, mediaType, url: data } = part
      return [ToolResult.filePart({ mediaType, data, fileName })]
    })
    if (!Arr.isReadonlyArrayNonEmpty(content)) return yield* refuse("invalid", "The message has no text and no file.")
    return { _tag: "Message", id, messageId: last.id, input: content, isEdit: messageId === last.id }
  })
}
