/**
 * Version 1 of the protocol between a tool runtime and a tool server with the errors it may answer, and which network errors mean that nothing was sent.
 */

import * as Schema from "effect/Schema"
import type * as HttpClientError from "effect/http/HttpClientError"

/**
 * The body is not the JSON that the endpoint takes.
 */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>("effect-emissary/tool/InvalidRequest")(
  "InvalidRequest",
  {
    message: Schema.String,
    /** One entry per problem; paths are JSON Pointers into the body. */
    issues: Schema.Array(Schema.Struct({ path: Schema.String, expected: Schema.String, found: Schema.String }))
  },
  { httpApiStatus: 400 }
) {}

/**
 * The request speaks a version of the protocol that the server does not know.
 */
export class UnsupportedProtocol extends Schema.TaggedError<UnsupportedProtocol>(
  "effect-emissary/tool/UnsupportedProtocol"
)(
  "UnsupportedProtocol",
  { message: Schema.String, found: Schema.String, supported: Schema.Array(Schema.Int) },
  { httpApiStatus: 400 }
) {}

/**
 * The bearer token is missing or wrong. The body of the request was not read.
 */
export class Unauthorized extends Schema.TaggedError<Unauthorized>("effect-emissary/tool/Unauthorized")(
  "Unauthorized",
  { message: Schema.String },
  { httpApiStatus: 401 }
) {}

/**
 * No such path, or not with this method.
 */
export class UnknownEndpoint extends Schema.TaggedError<UnknownEndpoint>("effect-emissary/tool/UnknownEndpoint")(
  "UnknownEndpoint",
  { message: Schema.String },
  { httpApiStatus: 404 }
) {}

/**
 * The server's tool has other parameters than the contract the caller holds.
 *
 * **Details**
 *
 * `expected` is the digest of the server's contract, `found` the one in the
 * request. Fetch `GET /tools`, or encode the agent anew.
 */
export class ContractMismatch extends Schema.TaggedError<ContractMismatch>("effect-emissary/tool/ContractMismatch")(
  "ContractMismatch",
  { message: Schema.String, tool: Schema.String, expected: Schema.String, found: Schema.String },
  { httpApiStatus: 409 }
) {}

/**
 * The body is larger than the server takes. `limit` is in bytes.
 */
export class RequestTooLarge extends Schema.TaggedError<RequestTooLarge>("effect-emissary/tool/RequestTooLarge")(
  "RequestTooLarge",
  { message: Schema.String, limit: Schema.Int },
  { httpApiStatus: 413 }
) {}

/**
 * The body is not `application/json`.
 */
export class UnsupportedMediaType extends Schema.TaggedError<UnsupportedMediaType>(
  "effect-emissary/tool/UnsupportedMediaType"
)("UnsupportedMediaType", { message: Schema.String }, { httpApiStatus: 415 }) {}

/**
 * The server failed. The cause is in its log and never on the network.
 */
export class InternalError extends Schema.TaggedError<InternalError>("effect-emissary/tool/InternalError")(
  "InternalError",
  { message: Schema.String },
  { httpApiStatus: 500 }
) {}

/** The number in the `protocol` field. */
export const protocolVersion = 1

const JsonObject = Schema.Record(Schema.String, Schema.Json)

const Options = Schema.optionalKey(JsonObject)

const TextPart = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, options: Options })

const FilePart = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.String,
  fileName: Schema.optionalKey(Schema.String),
  data: Schema.Union([
    Schema.Struct({ type: Schema.Literal("base64"), base64: Schema.String }),
    Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })
  ]),
  options: Options
})

const Content = Schema.NonEmptyArray(Schema.Union([TextPart, FilePart]))

const Success = Schema.TaggedStruct("Success", {
  content: Content.annotate({ description: "What the model reads" }),
  value: Schema.Json.annotate({ description: "The result, encoded by the tool's success schema" })
}).annotate({ identifier: "ToolSuccessV1" })

const Failure = Schema.TaggedStruct("Failure", {
  type: Schema.String.annotate({ description: "A reserved failure type, or the type of the tool's own failure" }),
  message: Schema.String,
  value: Schema.optionalKey(Schema.Json),
  content: Schema.optionalKey(Content)
}).annotate({ identifier: "ToolFailureV1" })

/** The result of a call. */
export const Result = Schema.Union([Success, Failure])

/** The body of `POST /tools/execute`. */
export const Request = Schema.Struct({
  protocol: Schema.Literal(protocolVersion).annotate({ description: "The version of this protocol" }),
  runId: Schema.String.annotate({ description: "The run that asks; for logs and for the handler" }),
  callId: Schema.String.annotate({ description: "The call within the run; returned in the answer" }),
  name: Schema.String.annotate({ description: "The name of the tool" }),
  arguments: Schema.Json.annotate({ description: "The arguments, as the tool's parameters describe them" }),
  contractDigest: Schema.optionalKey(
    Schema.String.annotate({ description: "The digest of the contract the caller holds; absent: not compared" })
  ),
  context: Schema.optionalKey(
    JsonObject.annotate({ description: "The run context the caller claims; the server decides what it makes of it" })
  ),
  deadline: Schema.optionalKey(
    Schema.Finite.annotate({ description: "When the caller stops waiting, in milliseconds since 1970" })
  )
}).annotate({ identifier: "ExecuteRequestV1" })

/** The body of the answer to `POST /tools/execute`. */
export const Response = Schema.Struct({
  protocol: Schema.Literal(protocolVersion),
  callId: Schema.String,
  result: Result
}).annotate({ identifier: "ExecuteResponseV1" })

const Contract = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  parameters: JsonObject.annotate({ description: "JSON Schema of the arguments" }),
  success: Schema.optionalKey(JsonObject),
  failure: Schema.optionalKey(JsonObject),
  timeout: Schema.NullOr(Schema.Finite).annotate({ description: "In milliseconds; null: none" }),
  approval: Schema.Literals(["never", "always", "dynamic"]).annotate({
    description: "Whether a human must agree before the caller calls"
  }),
  annotations: Schema.Struct({
    title: Schema.optionalKey(Schema.String),
    readonly: Schema.optionalKey(Schema.Boolean),
    destructive: Schema.optionalKey(Schema.Boolean),
    idempotent: Schema.optionalKey(Schema.Boolean),
    openWorld: Schema.optionalKey(Schema.Boolean),
    strict: Schema.optionalKey(Schema.Boolean)
  }),
  digest: Schema.String
}).annotate({ identifier: "ToolContractV1" })

/** The body of the answer to `GET /tools`. */
export const ToolList = Schema.Struct({
  protocol: Schema.Literal(protocolVersion),
  tools: Schema.Array(Contract)
}).annotate({ identifier: "ToolsV1" })

/** Codes that only appear before anything of a request is sent. */
const networkErrorCodes: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EAI_FAIL",
  "UND_ERR_CONNECT_TIMEOUT",
  "ConnectionRefused",
  "FailedToOpenSocket"
])

const connectSyscalls: ReadonlySet<unknown> = new Set(["connect", "getaddrinfo"])

/** How far causes and collected errors are followed. */
const maxCauseDepth = 8

const readField = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && key in value ? Reflect.get(value, key) : undefined

const failedBeforeSending = (error: unknown, depth: number): boolean => {
  if (depth > maxCauseDepth || error === undefined || error === null) return false
  if (networkErrorCodes.has(readField(error, "code")) || connectSyscalls.has(readField(error, "syscall"))) return true
  const collected = readField(error, "errors")
  if (Array.isArray(collected) && collected.length > 0) {
    return collected.every((each) => failedBeforeSending(each, depth + 1))
  }
  return failedBeforeSending(readField(error, "cause"), depth + 1)
}

/**
 * Whether the request certainly never left this machine. An error that does not
 * say so (a browser's `Failed to fetch`, for example) counts as one that did.
 */
export const isUnreachable = (error: HttpClientError.HttpClientError): boolean =>
  error.reason._tag === "TransportError" && failedBeforeSending(error.reason.cause, 0)

/** Whether the failure lies in the request itself, so that no attempt can succeed. */
export const isUnsendable = (error: HttpClientError.HttpClientError): boolean =>
  error.reason._tag === "EncodeError" || error.reason._tag === "InvalidUrlError"
