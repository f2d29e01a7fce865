/**
 * A request to a model that has ended, as JSON that a durable program stores: the answer in the form of this library, and
 * an error of the model without headers and bodies of its connection.
 */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Message from "../../conversation/Message.ts"
import { publicDescription } from "../../payload/internal/problems.ts"
import { defined, isObject } from "../../payload/internal/values.ts"
import type { Exchange, NotStored } from "../../run/internal/durability.ts"

const { content, model, response, usage } = Message.AssistantMessage.fields

const Answer = Schema.Struct({
  content,
  finishReason: Schema.optionalKey(Response.FinishReason),
  model,
  response,
  usage,
  approvals: Schema.Array(Schema.Struct({ approvalId: Schema.String, callId: Schema.String }))
})

/** Version 1. The reason has the form of `effect/ai`, which another version of `effect/ai` may not read. */
const Wire = Schema.Struct({
  version: Schema.Literal(1),
  answer: Answer,
  error: Schema.optionalKey(Schema.Struct({ module: Schema.String, method: Schema.String, reason: Schema.Json }))
})

const encodeWire = Schema.encodeEffect(Schema.toCodecJson(Wire))

const decodeWire = Schema.decodeUnknownEffect(Schema.toCodecJson(Wire))

const ReasonJson = Schema.toCodecJson(AiError.AiErrorReason)

const encodeReason = Schema.encodeEffect(ReasonJson)

const decodeReason = Schema.decodeUnknownEffect(ReasonJson)

const noAnswer: Exchange["answer"] = { content: [], approvals: [], errors: [] }

const failed = (description: string): Exchange => ({
  answer: noAnswer,
  error: AiError.make({
    module: "LanguageModel",
    method: "generateText",
    reason: new AiError.UnknownError({ description, metadata: { [publicDescription]: true } })
  })
})

/** The origin of a URL. Its other parts may hold a key. */
const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : "")

/** The reason without headers and bodies of the connection, which may hold keys. */
const reasonJson = (reason: AiError.AiErrorReason): Effect.Effect<Schema.Json> =>
  encodeReason(reason).pipe(
    Effect.map((encoded): Schema.Json => {
      if (!isObject(encoded)) return encoded
      const { cause: _cause, http: _http, ...rest } = encoded
      return typeof rest["url"] === "string" ? { ...rest, url: originOf(rest["url"]) } : rest
    }),
    Effect.orElseSucceed(() => ({ _tag: reason._tag }))
  )

/** The JSON of an exchange; of an answer that is none, an error. */
export const encode = Effect.fnUntraced(function* ({ answer, error }: Exchange) {
  const { approvals, content, finishReason, model, response, usage } = answer
  const stored = error && {
    module: error.module,
    method: error.method,
    reason: yield* reasonJson(error.reason)
  }
  const about = defined({ finishReason, model, response, usage })
  const wire = { version: 1 as const, answer: { content, approvals, ...about }, ...defined({ error: stored }) }
  return yield* Effect.orDie(encodeWire(wire))
})

/** The exchange that was stored. What cannot be read is an error that is not tried again. */
export const decode = Effect.fnUntraced(function* (
  stored: Result.Result<Schema.Json, NotStored>
): Effect.fn.Return<Exchange> {
  if (Result.isFailure(stored)) return failed(stored.failure.problem)
  const read = yield* Effect.result(decodeWire(stored.success))
  if (Result.isFailure(read)) return failed("the stored answer of the model is of another version")
  const { answer, error } = read.success
  const found = { ...answer, errors: [] }
  if (error === undefined) return { answer: found, error: undefined }
  const reason = yield* Effect.orElseSucceed(
    decodeReason(error.reason),
    () => new AiError.UnknownError({ description: "the model failed, in another version of effect/ai" })
  )
  return { answer: found, error: AiError.make({ ...error, reason }) }
})
