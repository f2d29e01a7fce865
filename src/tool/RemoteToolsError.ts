/**
 * Why a tool server refused a request, and why a call to one gave no result.
 *
 * Every refusal travels as a JSON body with a `_tag` and a `message`, so that a
 * client in any language can tell them apart. A refused request ran nothing.
 * What the tool itself answers, failures included, is no refusal: it is a
 * `ToolResult` in a response with status 200.
 *
 * | status | `_tag` | when |
 * |---|---|---|
 * | 400 | `InvalidRequest` | the body is not JSON, or not the request |
 * | 400 | `UnsupportedProtocol` | the request speaks another protocol version |
 * | 401 | `Unauthorized` | the bearer token is missing or wrong |
 * | 403 | `Denied` | the server does not accept the claimed context |
 * | 404 | `UnknownEndpoint` | no such path or method below `/tools` |
 * | 409 | `ContractMismatch` | the tool has other parameters than the caller thinks |
 * | 413 | `RequestTooLarge` | the body is larger than the server takes |
 * | 415 | `UnsupportedMediaType` | the body is not `application/json` |
 * | 500 | `InternalError` | the server failed; details are in its log only |
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * The body is not the JSON that the endpoint takes.
 *
 * @category errors
 * @since 0.1.0
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
 *
 * @category errors
 * @since 0.1.0
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
 *
 * @category errors
 * @since 0.1.0
 */
export class Unauthorized extends Schema.TaggedError<Unauthorized>("effect-emissary/tool/Unauthorized")(
  "Unauthorized",
  { message: Schema.String },
  { httpApiStatus: 401 }
) {}

/**
 * The server does not accept the context that the caller claims.
 *
 * **When to use**
 *
 * Use in the `context` option of `RemoteTools.layerServer`. The message is sent
 * to the caller.
 *
 * @category errors
 * @since 0.1.0
 */
export class Denied extends Schema.TaggedError<Denied>("effect-emissary/tool/Denied")(
  "Denied",
  { message: Schema.String },
  { httpApiStatus: 403 }
) {}

/**
 * No such path, or not with this method.
 *
 * @category errors
 * @since 0.1.0
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
 *
 * @category errors
 * @since 0.1.0
 */
export class ContractMismatch extends Schema.TaggedError<ContractMismatch>("effect-emissary/tool/ContractMismatch")(
  "ContractMismatch",
  { message: Schema.String, tool: Schema.String, expected: Schema.String, found: Schema.String },
  { httpApiStatus: 409 }
) {}

/**
 * The body is larger than the server takes. `limit` is in bytes.
 *
 * @category errors
 * @since 0.1.0
 */
export class RequestTooLarge extends Schema.TaggedError<RequestTooLarge>("effect-emissary/tool/RequestTooLarge")(
  "RequestTooLarge",
  { message: Schema.String, limit: Schema.Int },
  { httpApiStatus: 413 }
) {}

/**
 * The body is not `application/json`.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnsupportedMediaType extends Schema.TaggedError<UnsupportedMediaType>(
  "effect-emissary/tool/UnsupportedMediaType"
)("UnsupportedMediaType", { message: Schema.String }, { httpApiStatus: 415 }) {}

/**
 * The server failed. The cause is in its log and never on the network.
 *
 * @category errors
 * @since 0.1.0
 */
export class InternalError extends Schema.TaggedError<InternalError>("effect-emissary/tool/InternalError")(
  "InternalError",
  { message: Schema.String },
  { httpApiStatus: 500 }
) {}

/**
 * Every refusal of a tool server.
 *
 * @category errors
 * @since 0.1.0
 */
export const Refusal = Schema.Union([
  InvalidRequest,
  UnsupportedProtocol,
  Unauthorized,
  Denied,
  UnknownEndpoint,
  ContractMismatch,
  RequestTooLarge,
  UnsupportedMediaType,
  InternalError
])

/**
 * Every refusal of a tool server.
 *
 * @category errors
 * @since 0.1.0
 */
export type Refusal = typeof Refusal.Type

/**
 * An option of a layer in `RemoteTools` is not usable: an empty token, or a URL
 * that is none.
 *
 * @category errors
 * @since 0.1.0
 */
export class InvalidOption extends Schema.TaggedError<InvalidOption>("effect-emissary/tool/InvalidOption")(
  "InvalidOption",
  { option: Schema.String, message: Schema.String }
) {}

/**
 * The `value` of a `remote_unavailable` result.
 *
 * **Details**
 *
 * - `reason`: what happened. `unreachable` is a connection that could not be
 *   made, `connection_lost` one that was cut before the answer was complete; the
 *   others are the refusals of the server by name, or an answer that is none.
 * - `outcome`: whether the tool ran. `not_executed` is certain; `unknown` means
 *   that the request may have arrived, so that calling again may do the work
 *   twice.
 * - `status`: the HTTP status, when there was one.
 *
 * **Example** (Reading why a call gave no result)
 *
 * ```ts
 * import { Option, Schema } from "effect"
 * import { RemoteToolsError, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const mayHaveRun = (result: ToolResult.ToolResult): boolean =>
 *   result._tag === "Success" ||
 *   Option.match(Schema.decodeUnknownOption(RemoteToolsError.Unavailable)(result.value), {
 *     onNone: () => true,
 *     onSome: (unavailable) => unavailable.outcome === "unknown"
 *   })
 *
 * const result = ToolResult.failure("remote_unavailable", "The tool server could not be reached", {
 *   reason: "unreachable",
 *   outcome: "not_executed"
 * })
 * assert.strictEqual(mayHaveRun(result), false)
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const Unavailable = Schema.Struct({
  reason: Schema.Literals([
    "unreachable",
    "connection_lost",
    "invalid_request",
    "unsupported_protocol",
    "unauthorized",
    "denied",
    "not_found",
    "contract_mismatch",
    "request_too_large",
    "unsupported_media_type",
    "server_error",
    "invalid_response",
    "response_too_large"
  ]),
  outcome: Schema.Literals(["not_executed", "unknown"]),
  status: Schema.optionalKey(Schema.Int)
})

/**
 * The `value` of a `remote_unavailable` result.
 *
 * @category models
 * @since 0.1.0
 */
export type Unavailable = typeof Unavailable.Type
