/** The input of a run of AG-UI: of all that a page sends, the new message of the user and the answers to interrupts are taken. */

import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Run from "../../agent/Run.ts"
import * as Json from "../../payload/Json.ts"
import type * as Limits from "../../payload/Limits.ts"
import { defined } from "../../payload/internal/values.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import { type Failure, refuse } from "./refusal.ts"
import type * as screen from "./screen.ts"
import * as uiBody from "./uiBody.ts"

const Source = Schema.Struct({
  type: Schema.Literals(["data", "url"]),
  value: Schema.String,
  mimeType: Schema.optionalKey(Schema.String)
})

const Part = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
  Schema.Struct({ type: Schema.Literals(["image", "audio", "video", "document"]), source: Source })
])

const Verdict = Schema.Struct({ approved: Schema.Boolean, reason: Schema.optionalKey(Schema.String) })

const Entry = Schema.Union([
  Schema.Struct({ interruptId: Schema.String, status: Schema.Literal("cancelled") }),
  Schema.Struct({ interruptId: Schema.String, status: Schema.Literal("resolved"), payload: Schema.Json })
])

/** The result of a call that the front end has made. */
const Result = Schema.Struct({ role: Schema.Literal("tool"), toolCallId: Schema.String, content: Schema.String })

const isVerdict = Schema.is(Verdict)
const isResult = Schema.is(Result)

/** A text that is no JSON is the answer itself. */
const outputOf = ({ content }: typeof Result.Type) => Effect.orElseSucceed(Json.parse(content), () => content)

/** The members that are read. Others are left alone. */
export const Body = Schema.Struct({
  threadId: Schema.String.check(Schema.isMinLength(1)),
  runId: Schema.String,
  messages: Schema.Array(Schema.Json),
  resume: Schema.optionalKey(Schema.Array(Entry))
})

const User = Schema.Struct({
  id: Schema.String,
  role: Schema.Literal("user"),
  content: Schema.Union([Schema.String, Schema.Array(Part)])
})

const partOf = (part: typeof Part.Type): ToolResult.Content => {
  if (part.type === "text") return ToolResult.textPart(part.text)
  const { mimeType = `${part.type}/*`, type, value } = part.source
  return {
    type: "file",
    mediaType: mimeType,
    data: type === "url" ? { type, url: value } : { type: "base64", base64: value }
  }
}

/** The decision of a payload: the answer that the request asks for, or a verdict. Another payload fits no approval, and is refused. */
const decisionOf = (request: Run.Request, payload: Schema.Json): Run.Decision => {
  if ("schema" in request) return Run.answer(request, payload)
  if (!isVerdict(payload)) return { ...Run.approve(request), answer: payload }
  const { approved, reason } = payload
  return approved ? Run.approve(request, { reason }) : Run.deny(request, { reason })
}

interface Input {
  readonly asked: uiBody.Asked
  readonly runId: string
  /** The page shows reasoning, which may be of an answer that is not stored. */
  readonly hasReasoning: boolean
}

/** The newest message with a role. A page that was cut and runs again has a part of the answer behind the message of the user. */
const newest = (messages: ReadonlyArray<Schema.Json>, role: string): Schema.Json | undefined =>
  messages.findLast((message) => Predicate.hasProperty(message, "role") && message["role"] === role)

export const reading = (limits: Partial<Limits.Limits> | undefined) => {
  const options = { what: "input of a run", limits, onExcessProperty: "ignore" } as const
  const decode = Json.decode(Body, options)
  const decodeUser = Json.decode(User, options)
  const readMessage = Effect.fnUntraced(function* (
    id: string,
    messages: ReadonlyArray<Schema.Json>
  ): Effect.fn.Return<uiBody.Sent, Failure> {
    const { content, id: messageId } = yield* decodeUser(newest(messages, "user") ?? messages.at(-1) ?? null)
    const input = typeof content === "string" ? [ToolResult.textPart(content)] : content.map(partOf)
    if (!Arr.isReadonlyArrayNonEmpty(input)) return yield* refuse("invalid", "The message has no content.")
    return { _tag: "Message", id, messageId, input, isEdit: false }
  })
  return Effect.fnUntraced(function* (json: Schema.Json): Effect.fn.Return<Input, Failure> {
    const { messages, resume = [], runId, threadId: id } = yield* decode(json)
    const hasReasoning = newest(messages, "reasoning") !== undefined
    if (resume.length > 0) {
      const answers = yield* Effect.forEach(resume, (entry) =>
        uiBody.answerTo(entry.interruptId, (request) =>
          entry.status === "cancelled" ? Run.deny(request) : decisionOf(request, entry.payload)
        )
      )
      return { asked: { _tag: "Decisions", id, answers }, runId, hasReasoning }
    }
    const results = messages.slice(messages.findLastIndex((message) => !isResult(message)) + 1).filter(isResult)
    if (results.length > 0) {
      const answers = yield* Effect.forEach(results, (result) =>
        Effect.map(outputOf(result), (output) => uiBody.outputOf(result.toolCallId, output))
      )
      // A page that was cut ends in results of the server where it runs again
      const otherwise = Option.getOrUndefined(yield* Effect.option(readMessage(id, messages)))
      return { asked: { _tag: "Decisions", id, answers, ...defined({ otherwise }) }, runId, hasReasoning }
    }
    return { asked: yield* readMessage(id, messages), runId, hasReasoning }
  })
}

/** A request that waits, as a page gets it: the answer to it is an entry of `resume`. */
export const interruptOf = ({ id, isOwn, place: toolCallId, request }: screen.Asked) => ({
  id,
  reason: request._tag === "Question" ? "input_required" : "tool_call",
  message: request._tag === "Question" ? request.arguments.question : request.shown,
  ...(isOwn ? { toolCallId } : undefined),
  responseSchema:
    "schema" in request
      ? request.schema
      : {
          type: "object",
          properties: { approved: { type: "boolean" }, reason: { type: "string" } },
          required: ["approved"]
        }
})
