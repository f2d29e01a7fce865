/** Reads a message to a session before it is stored: refuses what no turn could take, and makes the digest of the rest. */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import * as Digest from "../../payload/Digest.ts"
import * as base from "../../payload/internal/base.ts"
import { checkKeys } from "../../payload/internal/limits.ts"
import { defined, isObject } from "../../payload/internal/values.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { Queued } from "./fold.ts"
import { type Input, maxIdLength, type Reason, type SendOptions } from "./types.ts"

const Body = Schema.Struct({
  input: ToolResult.NonEmptyContent,
  plan: Schema.optionalKey(planRunParts.Beside),
  context: Schema.optionalKey(runParts.Context),
  definition: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Schema.String)
})

const what = "message to a session"

const codec = VersionedCodec.single({ what, value: Body, data: ["/plan/payload"] })

const isContent = Schema.is(ToolResult.NonEmptyContent)

const isParts = Schema.is(planRunParts.InputParts)

const partNames = Object.keys(planRunParts.InputParts.fields)

type Parts = Pick<Queued, "input" | "plan">

/** The content of an input, and what the input of a plan has beside it. */
const partsOf = (input: Input): Parts | undefined => {
  if (typeof input === "string") return { input: [ToolResult.textPart(input)] }
  if (isContent(input)) return { input }
  if (!isObject(input) || !isParts(input) || !Object.keys(input).every((name) => partNames.includes(name)))
    return undefined
  const { content = [], context, payload, task } = planRunParts.resolveParts(input)
  const plan = defined({ context, payload: input.payload === undefined ? undefined : payload })
  return { input: [ToolResult.textPart(task), ...content], plan }
}

/** The input with these parts. */
export const inputOf = ({ input, plan }: Parts): Input => {
  const [first, ...content] = input
  return plan === undefined || first.type !== "text" ? input : { task: first.text, content, ...plan }
}

/** The problem of a conversation that cannot be the beginning of a session. */
const problemOf = (conversation: unknown, messageId: string): string | undefined => {
  if (!Conversation.isConversation(conversation)) return "expected a Conversation as conversation"
  const ids = Conversation.messages(conversation).flatMap(({ id, role }) =>
    role === "user" && id !== undefined ? [id] : []
  )
  const seen = new Set<string>()
  const twice = [...ids, messageId].find((id) => seen.has(id) || !seen.add(id))
  if (twice !== undefined) {
    return `expected messages with different ids, got two with ${base.quote(twice)}. Use another id for one of them`
  }
  const open = Conversation.openCalls(conversation).map(({ id }) => base.quote(id))
  return open.length === 0
    ? undefined
    : `expected a conversation whose calls all have results, got the open calls ${open.join(", ")}. Add their results, or close them with Conversation.seal`
}

/** The content of a message, the conversation before it, and the digest of both. Fails with `InputInvalid`. */
export const read = Effect.fnUntraced(function* (
  messageId: string,
  input: Input,
  { context, conversation, model }: Pick<SendOptions, "context" | "conversation" | "model">,
  definition?: string
) {
  const refuse = (problem: string) => Effect.fail<Reason>({ _tag: "InputInvalid", problem })
  if (messageId.length > maxIdLength) {
    return yield* refuse(`expected a messageId of at most ${maxIdLength} characters, got ${messageId.length}`)
  }
  const given = partsOf(input)
  if (given === undefined) {
    return yield* refuse(
      "expected a text, a list of text and file parts, or the input of a plan with task, payload, context and content"
    )
  }
  const unfit = conversation === undefined ? undefined : problemOf(conversation, messageId)
  if (unfit !== undefined) return yield* refuse(unfit)
  const message = yield* Message.user(given.input)
  const { content } = message
  const fits = history.append(conversation ?? Conversation.empty, message)
  if (Result.isFailure(fits)) return yield* refuse(fits.failure.message)
  const { plan } = given
  const body = { input: content, ...defined({ context, definition, model, plan }) }
  const refused = <A, E extends { readonly message: string }>(encoded: Effect.Effect<A, E>) =>
    Effect.catch(encoded, ({ message }) => refuse(message))
  yield* refused(checkKeys(context, { what, path: "/context" }))
  const json = yield* refused(codec.encode(body))
  const before = conversation === undefined ? undefined : yield* refused(Conversation.codec.encode(conversation))
  const whole = { ...json, ...defined({ conversation: before }) }
  const text = Result.getOrElse(Digest.canonicalize(whole), () => JSON.stringify(whole))
  return { input: content, ...defined({ plan }), digest: yield* Effect.orDie(Digest.sha256(text)) }
})
