/** Reads a message to a session before it is stored: refuses what no turn could take, and makes the digest of the rest. */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as runParts from "../../agent/internal/runParts.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import * as Digest from "../../payload/Digest.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { Input, Reason } from "./sessionTypes.ts"

const Body = Schema.Struct({ input: ToolResult.NonEmptyContent, context: Schema.optionalKey(runParts.Context) })

const codec = VersionedCodec.single({ what: "message to a session", value: Body })

const isContent = Schema.is(ToolResult.NonEmptyContent)

/** The content of a message and its digest. Fails with `InputInvalid`. */
export const read = Effect.fnUntraced(function* (messageId: string, input: Input, context: JsonObject | undefined) {
  const refuse = (problem: string) => Effect.fail<Reason>({ _tag: "InputInvalid", problem })
  if (!Schema.is(Schema.String)(messageId)) return yield* refuse("expected a text as messageId")
  const content = typeof input === "string" ? ([ToolResult.textPart(input)] as const) : input
  if (!isContent(content)) return yield* refuse("expected a text, or a list of text and file parts")
  const fits = history.append(Conversation.empty, yield* Message.user(content))
  if (Result.isFailure(fits)) return yield* refuse(fits.failure.message)
  const body = { input: content, ...defined({ context }) }
  const json = yield* Effect.catch(codec.encode(body), ({ message }) => refuse(message))
  const text = Result.getOrElse(Digest.canonicalize(json), () => JSON.stringify(json))
  return { content, digest: yield* Effect.orDie(Digest.sha256(text)) }
})
