/**
 * Version 1 of the script wire: `{ "version": 1, "chunkSize"?, "turns": [...] }`.
 *
 * FROZEN: what this module reads and writes never changes again.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type * as Script from "../Script.ts"

const optional = Schema.optionalKey
const millis = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const Metadata = Schema.Record(Schema.String, Schema.Record(Schema.String, Schema.Json))
const Text = Schema.Union([Schema.String, Schema.Struct({ text: Schema.String, metadata: Metadata })])

const ToolCall = Schema.Struct({
  id: optional(Schema.String),
  name: Schema.String,
  params: optional(Schema.Json),
  arguments: optional(Schema.String),
  providerExecuted: optional(Schema.Boolean),
  result: optional(Schema.Json),
  isFailure: optional(Schema.Boolean),
  metadata: optional(Metadata)
})

const ToolChoice = Schema.Union([
  Schema.Literals(["auto", "none", "required"]),
  Schema.Struct({ tool: Schema.String }),
  Schema.Struct({ mode: optional(Schema.Literals(["auto", "required"])), oneOf: Schema.Array(Schema.String) })
])

const Expectation = Schema.Struct({
  lastUserText: optional(Schema.String),
  systemText: optional(Schema.String),
  toolResult: optional(Schema.String),
  roles: optional(Schema.Array(Schema.Literals(["system", "user", "assistant", "tool"]))),
  tools: optional(Schema.Array(Schema.String)),
  toolChoice: optional(ToolChoice),
  responseFormat: optional(Schema.Literals(["text", "json"]))
})

const Failure = Schema.Struct({
  reason: Schema.Literals([
    "RateLimitError",
    "QuotaExhaustedError",
    "AuthenticationError",
    "ContentPolicyError",
    "InvalidRequestError",
    "InvalidResponseError",
    "InternalProviderError",
    "NetworkError",
    "InvalidOutputError",
    "ToolNotFoundError",
    "ToolParameterValidationError",
    "UnknownError"
  ]),
  description: optional(Schema.String),
  retryAfter: optional(millis),
  toolName: optional(Schema.String)
})

const Usage = Schema.Struct({
  inputTokens: optional(count),
  outputTokens: optional(count),
  cacheReadTokens: optional(count),
  cacheWriteTokens: optional(count),
  reasoningTokens: optional(count)
})

const FinishReason = Schema.Literals([
  "stop",
  "length",
  "content-filter",
  "tool-calls",
  "error",
  "pause",
  "other",
  "unknown",
  "missing"
])

const Turn = Schema.Struct({
  expect: optional(Expectation),
  delay: optional(millis),
  chunkDelay: optional(millis),
  reasoning: optional(Text),
  text: optional(Text),
  object: optional(Schema.Json),
  files: optional(Schema.Array(Schema.Struct({ mediaType: Schema.String, data: Schema.String }))),
  toolCalls: optional(Schema.Array(ToolCall)),
  usage: optional(Usage),
  finishReason: optional(FinishReason),
  fail: optional(Failure)
})

const body = { chunkSize: optional(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))), turns: Schema.Array(Turn) }

const Wire = Schema.Struct({ version: Schema.Literal(1), ...body })

const arm = VersionedCodec.arm({
  version: 1,
  wire: Wire,
  toCurrent: ({ version: _, ...script }) => Effect.succeed<Script.ScriptData>(script),
  fromCurrent: (script: Script.ScriptData) => VersionedCodec.lossless<typeof Wire.Type>({ version: 1, ...script })
})

/**
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<Script.ScriptData> = VersionedCodec.make({
  what: "Model script",
  field: "version",
  type: Schema.Struct(body),
  arms: [arm],
  // arguments and results of tools: their keys are names, not options
  data: ["/turns"]
})
