/**
 * Tells a connection that was never made from one that was cut: after the first
 * the tool certainly did not run, after the second nobody knows.
 */
import type * as HttpClientError from "effect/http/HttpClientError"

/** Codes that only appear before anything of a request is sent. */
const codes: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EAI_FAIL",
  "UND_ERR_CONNECT_TIMEOUT",
  "ConnectionRefused",
  "FailedToOpenSocket"
])

const syscalls: ReadonlySet<unknown> = new Set(["connect", "getaddrinfo"])

/** How far causes and collected errors are followed. */
const maxDepth = 8

const field = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && key in value ? Reflect.get(value, key) : undefined

const failedBeforeSending = (error: unknown, depth: number): boolean => {
  if (depth > maxDepth || error === undefined || error === null) return false
  if (codes.has(field(error, "code")) || syscalls.has(field(error, "syscall"))) return true
  const collected = field(error, "errors")
  if (Array.isArray(collected) && collected.length > 0) {
    return collected.every((each) => failedBeforeSending(each, depth + 1))
  }
  return failedBeforeSending(field(error, "cause"), depth + 1)
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
