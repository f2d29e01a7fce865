/**
 * Version 1 of the protocol between a tool runtime and a tool server, its refusals, and the network errors that mean that nothing was sent.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
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

/** The server does not accept the context that the caller claims. */
export const Denied = refusal("Denied", 403, {})

/** No such path, or not with this method. */
export const UnknownEndpoint = refusal("UnknownEndpoint", 404, {})

/** The body did not arrive in time. The tool did not run, and the connection is closed. */
export const RequestTimeout = refusal("RequestTimeout", 408, {})

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

/** The refusals of a call whose token and path are right. */
const callRefusals = [
  InvalidRequest,
  UnsupportedProtocol,
  Denied,
  RequestTimeout,
  ContractMismatch,
  RequestTooLarge,
  UnsupportedMediaType,
  InternalError
] as const

/** Every refusal of a tool server. */
export const Refusal = Schema.Union([Unauthorized, UnknownEndpoint, ...callRefusals])

/** The number in the `protocol` field. */
export const protocolVersion = 1

const JsonObject = Schema.Record(Schema.String, Schema.Json)

/** The body of `POST /tools/execute`. */
export const Request = Schema.Struct({
  protocol: Schema.Literal(protocolVersion).annotate({ description: "The version of this protocol" }),
  runId: Schema.String.annotate({ description: "The run that calls; for logs and for the handler" }),
  callId: Schema.String.annotate({ description: "The call within the run; returned in the answer" }),
  name: Schema.String.annotate({ description: "The name of the tool" }),
  arguments: Schema.Json.annotate({ description: "The arguments, as the tool's parameters describe them" }),
  contractDigest: Schema.optionalKey(
    // the length of a digest: it is repeated in the refusal
    Schema.String.check(Schema.isMaxLength(71)).annotate({
      description: "The digest of the contract the caller holds; absent: not compared"
    })
  ),
  context: Schema.optionalKey(
    JsonObject.annotate({ description: "The run context the caller claims; the server decides what it makes of it" })
  ),
  timeLeft: Schema.optionalKey(
    Schema.Finite.annotate({
      description: "For how long the caller waits, in milliseconds from when the server has the request"
    })
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
  approval: ToolContract.ToolContract.fields.approval.annotate({
    description: "Whether a human must agree before the caller calls"
  }),
  request: Schema.optionalKey(JsonObject.annotate({ description: "Which calls of a dynamic approval ask" }))
}).annotate({ identifier: "ToolContractV1" })

/** The body of the answer to `GET /tools`. */
export const ToolList = Schema.Struct({
  protocol: Schema.Literal(protocolVersion),
  tools: Schema.Array(Contract)
}).annotate({ identifier: "ToolsV1" })

/** The name of the token that the request carried; `default` on a server with one token. */
export class CurrentCaller extends Context.Service<CurrentCaller, string>()("effect-emissary/tool/CurrentCaller") {}

/** Checks the bearer token, before anything else of the request is looked at. */
export class Authorization extends HttpApiMiddleware.Service<Authorization, { provides: CurrentCaller }>()(
  "effect-emissary/tool/Authorization",
  { security: { bearer: HttpApiSecurity.bearer }, error: Unauthorized }
) {}

const executeEndpoint = HttpApiEndpoint.post("executeTool", "/tools/execute", {
  payload: Request,
  success: Response,
  error: callRefusals
}).annotateMerge(
  OpenApi.annotations({
    summary: "Run one tool call",
    description:
      "Status 200 means that the call has a result, which may be a failure of the tool, an unknown tool, or arguments that do not fit. Every other status is a refusal."
  })
)

const listEndpoint = HttpApiEndpoint.get("listTools", "/tools", {
  success: ToolList,
  error: InternalError
}).annotateMerge(OpenApi.annotations({ summary: "List the tools of this server" }))

const toolsGroup = HttpApiGroup.make("tools", { topLevel: true })
  .add(executeEndpoint, listEndpoint)
  .middleware(Authorization)
  .annotateMerge(OpenApi.annotations({ title: "Tools" }))

/** The interface of a tool server. */
export class Api extends HttpApi.make("effect-emissary/tools")
  .add(toolsGroup)
  .annotateMerge(OpenApi.annotations({ title: "Emissary tool server", version: "1" })) {}

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

/** The depth to which causes and collected errors are followed. */
const maxCauseDepth = 8

const readField = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined

const failedBeforeSending = (error: unknown, depth: number): boolean => {
  if (depth > maxCauseDepth) return false
  if (networkErrorCodes.has(readField(error, "code")) || connectSyscalls.has(readField(error, "syscall"))) return true
  const collected = readField(error, "errors")
  if (Array.isArray(collected) && collected.length > 0) {
    return collected.every((each) => failedBeforeSending(each, depth + 1))
  }
  return failedBeforeSending(readField(error, "cause"), depth + 1)
}

/** The first code among the causes of an error, for example `ECONNREFUSED`. */
export const codeOf = (error: unknown, depth = 0): string | undefined => {
  if (depth > maxCauseDepth) return undefined
  const code = readField(error, "code")
  return typeof code === "string" ? code : codeOf(readField(error, "reason") ?? readField(error, "cause"), depth + 1)
}

/**
 * Recognizes a request that certainly never left this machine. A request whose error has no such information (a
 * browser's `Failed to fetch`, for example) counts as sent.
 */
export const isUnreachable = (error: HttpClientError.HttpClientError): boolean =>
  error.reason._tag === "TransportError" && failedBeforeSending(error.reason.cause, 0)

/** Recognizes a failure of the request itself, so that no attempt can succeed. */
export const isUnsendable = (error: HttpClientError.HttpClientError): boolean =>
  error.reason._tag === "EncodeError" || error.reason._tag === "InvalidUrlError"

/**
 * `fetch` would follow a redirect to any host by itself, and take the arguments
 * and the context of the call along.
 */
export const refuseRedirects = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.serviceOption(FetchHttpClient.RequestInit), (init) =>
    Effect.provideService(effect, FetchHttpClient.RequestInit, {
      ...Option.getOrUndefined(init),
      redirect: "manual"
    })
  )
