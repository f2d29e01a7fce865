/** What a refusal of the server means for the call: a `remote_unavailable` result. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Decode from "../../../payload/Decode.ts"
import type { Limits } from "../../../payload/Limits.ts"
import * as RemoteToolsError from "../../RemoteToolsError.ts"
import * as ToolResult from "../../ToolResult.ts"

/** Why one attempt gave no result. */
export interface Failed {
  readonly message: string
  readonly value: RemoteToolsError.Unavailable
}

/** The result that the model sees. */
export const toResult = (failed: Failed): ToolResult.Failure =>
  ToolResult.failure("remote_unavailable", failed.message, failed.value)

export const failed = (
  reason: RemoteToolsError.Unavailable["reason"],
  outcome: RemoteToolsError.Unavailable["outcome"],
  message: string,
  status?: number
): Failed => ({ message, value: status === undefined ? { reason, outcome } : { reason, outcome, status } })

const notExecuted = "the tool did not run"

const unknown = "it is not known whether the tool ran"

/** No longer than a sentence or two of the server's own words reach the model. */
const maxQuote = 500

const quote = (message: string): string =>
  message.length <= maxQuote ? message : `${message.slice(0, maxQuote)}... (${message.length} characters)`

/** A server may repeat what it was sent; the token is nothing for the model. */
const conceal = (message: string, token: Redacted.Redacted<string>): string =>
  message.replaceAll(Redacted.value(token), "<token>")

const byTag: {
  readonly [Tag in RemoteToolsError.Refusal["_tag"]]: (status: number, message: string) => Failed
} = {
  InvalidRequest: (status, message) =>
    failed(
      "invalid_request",
      "not_executed",
      `The tool server refused the request, ${notExecuted}: ${message}`,
      status
    ),
  UnsupportedProtocol: (status, message) =>
    failed(
      "unsupported_protocol",
      "not_executed",
      `The tool server speaks another protocol, ${notExecuted}: ${message}`,
      status
    ),
  Unauthorized: (status) =>
    failed("unauthorized", "not_executed", `The tool server refused the token, ${notExecuted}`, status),
  Denied: (status, message) =>
    failed("denied", "not_executed", `The tool server denied the call, ${notExecuted}: ${message}`, status),
  UnknownEndpoint: (status) =>
    failed("not_found", "not_executed", `There is no tool server at the configured URL, ${notExecuted}`, status),
  ContractMismatch: (status, message) =>
    failed("contract_mismatch", "not_executed", `The tool has changed, ${notExecuted}: ${message}`, status),
  RequestTooLarge: (status, message) =>
    failed("request_too_large", "not_executed", `The call is too large, ${notExecuted}: ${message}`, status),
  UnsupportedMediaType: (status, message) =>
    failed("unsupported_media_type", "not_executed", `The tool server refused the request: ${message}`, status),
  InternalError: (status) =>
    failed("server_error", "unknown", `The tool server failed (status ${status}), ${unknown}`, status)
}

/** For answers of proxies and of servers that are not ours. */
const byStatus = (status: number): Failed => {
  switch (status) {
    case 401:
      return byTag.Unauthorized(status, "")
    case 403:
      return failed("denied", "not_executed", `The tool server denied the call, ${notExecuted}`, status)
    case 404:
      return byTag.UnknownEndpoint(status, "")
    case 413:
      return failed("request_too_large", "not_executed", `The call is too large, ${notExecuted}`, status)
    default:
      return status >= 500
        ? byTag.InternalError(status, "")
        : failed("invalid_response", "unknown", `The tool server answered with status ${status}, ${unknown}`, status)
  }
}

/** Reads the body of an answer whose status is not 200. */
export const read = (
  status: number,
  body: Uint8Array,
  options: { readonly limits?: Partial<Limits> | undefined; readonly token: Redacted.Redacted<string> }
): Effect.Effect<Failed> =>
  Decode.decodeJson(RemoteToolsError.Refusal, {
    what: "answer of the tool server",
    limits: options.limits,
    onExcessProperty: "ignore"
  })(body).pipe(
    Effect.option,
    Effect.map(
      Option.match({
        onNone: () => byStatus(status),
        onSome: (refusal) => byTag[refusal._tag](status, quote(conceal(refusal.message, options.token)))
      })
    )
  )
