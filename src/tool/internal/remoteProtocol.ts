/**
 * Version 1 of the protocol between a tool runtime and a tool server, its refusals, and the network errors that mean that nothing was sent.
 */

import * as Schema from "effect/Schema"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as ToolContract from "../ToolContract.ts"
import * as ToolResult from "../ToolResult.ts"

/** One way in which a server rejects a request, with its HTTP status. */
const refusal = <Tag extends string, Fields extends Schema.Struct.Fields>(tag: Tag, status: number, fields: Fields) =>
  Schema.TaggedStruct(tag, { message: Schema.String, ...fields }).annotate({ identifier: tag, httpApiStatus: status })

/** The body is not the JSON that the endpoint accepts. The paths are JSON Pointers into the body. */
export const InvalidRequest = refusal("InvalidRequest", 400, {
  issues: Schema.Array(Schema.Struct({ path: Schema.String, expected: Schema.String, found: Schema.String }))
})

/** The server does not know this version of the protocol. */
export const UnsupportedProtocol = refusal("UnsupportedProtocol", 400, {
  found: Schema.String,
  supported: Schema.Array(Schema.Int)
})

/** The bearer token is missing or wrong. The body of the request was not read. */
export const Unauthorized = refusal("Unauthorized", 401, {})

/** No such path, or not with this method. */
export const UnknownEndpoint = refusal("UnknownEndpoint", 404, {})

/** The digest of the server's contract (`expected`) differs from the one in the request (`found`). */
export const ContractMismatch = refusal("ContractMismatch", 409, {
  tool: Schema.String,
  expected: Schema.String,
  found: Schema.String
})

/** The body is larger than the limit of the server, in bytes. */
export const RequestTooLarge = refusal("RequestTooLarge", 413, { limit: Schema.Int })

/** The body is not `application/json`. */
export const UnsupportedMediaType = refusal("UnsupportedMediaType", 415, {})

/** The server failed. The cause is in its log and never on the network. */
export const InternalError = refusal("InternalError", 500, {})

/** The number in the `protocol` field. */
export const protocolVersion = 1

const JsonObject = Schema.Record(Schema.String, Schema.Json)

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
  result: ToolResult.ToolResult
}).annotate({ identifier: "ExecuteResponseV1" })

const Contract = Schema.Struct({
  ...ToolContract.ToolContract.fields,
  parameters: JsonObject.annotate({ description: "JSON Schema of the arguments" }),
  timeout: Schema.NullOr(Schema.Finite).annotate({ description: "In milliseconds; null: none" }),
  approval: ToolContract.Approval.annotate({ description: "Whether a human must agree before the caller calls" })
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
