/** Reading a request of the tool server: size, media type, JSON, protocol number, fields. */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import type * as HttpServerError from "effect/http/HttpServerError"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import type * as Schema from "effect/Schema"
import * as Decode from "../../../payload/Decode.ts"
import * as Json from "../../../payload/Json.ts"
import * as Limits from "../../../payload/Limits.ts"
import type { PayloadError } from "../../../payload/PayloadError.ts"
import * as RemoteToolsError from "../../RemoteToolsError.ts"
import * as V1 from "./protocol-v1.ts"

const what = "tool call"

const tooLarge = (limit: number): RemoteToolsError.RequestTooLarge =>
  new RemoteToolsError.RequestTooLarge({ message: `The body is larger than ${limit} bytes`, limit })

const mediaType = (request: HttpServerRequest.HttpServerRequest) => {
  const header = request.headers["content-type"]
  return header === undefined || header.split(";")[0]?.trim().toLowerCase() === "application/json"
    ? Effect.void
    : Effect.fail(new RemoteToolsError.UnsupportedMediaType({ message: "The body must be application/json" }))
}

const unreadable = (limit: number) => (error: HttpServerError.HttpServerError) =>
  error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
    ? tooLarge(limit)
    : new RemoteToolsError.InvalidRequest({ message: "The body could not be read", issues: [] })

const bytes = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, limit: number) {
  if (Number(request.headers["content-length"] ?? 0) > limit) return yield* tooLarge(limit)
  const buffer = yield* request.arrayBuffer.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(limit)),
    Effect.mapError(unreadable(limit))
  )
  if (buffer.byteLength > limit) return yield* tooLarge(limit)
  return new Uint8Array(buffer)
})

const invalid = ({ message, reason }: PayloadError): RemoteToolsError.InvalidRequest =>
  new RemoteToolsError.InvalidRequest({
    message,
    issues:
      reason._tag === "Invalid" ? reason.issues.map(({ expected, found, path }) => ({ expected, found, path })) : []
  })

/** A number as it is, of anything else the kind. */
const shown = (json: Schema.Json): string =>
  typeof json === "number" ? String(json) : json === null ? "null" : Array.isArray(json) ? "array" : typeof json

const supported = (json: Schema.Json) =>
  Json.isObject(json) && Object.hasOwn(json, "protocol") && json["protocol"] !== V1.protocol
    ? Effect.fail(
        new RemoteToolsError.UnsupportedProtocol({
          message: `Protocol ${shown(json["protocol"] ?? null)} is not supported, protocol ${V1.protocol} is`,
          found: shown(json["protocol"] ?? null),
          supported: [V1.protocol]
        })
      )
    : Effect.void

/** Reads and checks the body. Nothing of it is looked at before its size is known to be acceptable. */
export const read = (limits: Partial<Limits.Limits> | undefined) => {
  const decode = Decode.decode(V1.Request, { what, limits })
  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    yield* mediaType(request)
    const { maxBytes } = yield* Limits.resolve(limits)
    const body = yield* bytes(request, maxBytes)
    const json = yield* Effect.mapError(Json.parse(body, { what, limits }), invalid)
    yield* supported(json)
    return yield* Effect.mapError(decode(json), invalid)
  })
}
