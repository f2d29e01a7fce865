/** The client of a tool server: one call in, one result out, whatever happens on the way. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Decode from "../../../payload/Decode.ts"
import * as Json from "../../../payload/Json.ts"
import * as Limits from "../../../payload/Limits.ts"
import * as RemoteToolsError from "../../RemoteToolsError.ts"
import type { ToolResult } from "../../ToolResult.ts"
import * as Timeouts from "../timeouts.ts"
import * as V1 from "./protocol-v1.ts"
import * as Refusal from "./refusal.ts"
import * as Token from "./token.ts"
import { isUnreachable, isUnsendable } from "./unreachable.ts"

export interface Options {
  readonly url: string | URL
  readonly token: Redacted.Redacted<string>
  readonly margin?: Duration.Input | undefined
  readonly retry?: Schedule.Schedule<unknown> | undefined
  readonly limits?: Partial<Limits.Limits> | undefined
}

/** What is sent of a call, and what decides how long and how often. */
interface Call {
  readonly runId: string
  readonly callId: string
  readonly name: string
  readonly arguments: Schema.Json
  readonly contractDigest: string
  readonly context: Json.JsonObject
  /** The timeout of this call. */
  readonly timeout: Duration.Duration
  /** The timeout in the contract, which the server enforces by itself. */
  readonly ownerTimeout: Duration.Duration
  readonly deadline: number | undefined
  readonly idempotent: boolean
}

export interface Client {
  readonly execute: (call: Call) => Effect.Effect<ToolResult>
}

/** Six attempts within about three seconds. */
const defaultRetry = Schedule.exponential("100 millis").pipe(Schedule.upTo({ times: 5 }))

const defaultMargin = Duration.seconds(5)

const endpoint = (url: string | URL): Effect.Effect<string, RemoteToolsError.InvalidOption> =>
  Effect.try({
    try: () => new URL(url),
    catch: () => new RemoteToolsError.InvalidOption({ option: "url", message: `"url" is not an absolute URL` })
  }).pipe(
    Effect.filterOrFail(
      (url) => (url.protocol === "http:" || url.protocol === "https:") && url.username === "" && url.password === "",
      () =>
        new RemoteToolsError.InvalidOption({
          option: "url",
          message: `"url" must begin with http:// or https:// and hold no user name or password; use "token"`
        })
    ),
    Effect.map((url) => `${url.origin}${url.pathname.replace(/\/+$/, "")}/tools/execute`)
  )

/** When the caller stops waiting, where the server would not stop by itself before. */
const deadlineOf = (call: Call, now: number): number | undefined => {
  const own = Duration.isLessThan(call.timeout, call.ownerTimeout) ? now + Duration.toMillis(call.timeout) : Infinity
  const deadline = Math.min(own, call.deadline ?? Infinity)
  return Number.isFinite(deadline) ? deadline : undefined
}

const remaining = (call: Call, now: number): Duration.Duration =>
  call.deadline === undefined
    ? call.timeout
    : Duration.min(call.timeout, Duration.millis(Math.max(0, call.deadline - now)))

const collect = (
  response: HttpClientResponse.HttpClientResponse,
  limit: number
): Effect.Effect<Uint8Array, Refusal.Failed | HttpClientError.HttpClientError> => {
  const tooLarge = Refusal.failed(
    "response_too_large",
    "unknown",
    `The tool server answered with more than ${limit} bytes, its result is lost`,
    response.status
  )
  if (Number(response.headers["content-length"] ?? 0) > limit) return Effect.fail(tooLarge)
  const chunks: Array<Uint8Array> = []
  let size = 0
  return response.stream.pipe(
    Stream.runForEach((chunk) => {
      size += chunk.byteLength
      if (size > limit) return Effect.fail(tooLarge)
      chunks.push(chunk)
      return Effect.void
    }),
    Effect.map(() => {
      const bytes = new Uint8Array(size)
      let offset = 0
      for (const chunk of chunks) {
        bytes.set(chunk, offset)
        offset += chunk.byteLength
      }
      return bytes
    })
  )
}

const invalidResponse = Refusal.failed(
  "invalid_response",
  "unknown",
  "The tool server gave an answer that is not a tool result, it is not known whether the tool ran",
  200
)

const lost = Refusal.failed(
  "connection_lost",
  "unknown",
  "The connection to the tool server was lost, it is not known whether the tool ran"
)

const unreachable = Refusal.failed(
  "unreachable",
  "not_executed",
  "The tool server cannot be reached, the tool did not run"
)

const unsendable = Refusal.failed(
  "invalid_request",
  "not_executed",
  "The request could not be made, the tool did not run"
)

const fromHttp = (error: HttpClientError.HttpClientError): Refusal.Failed =>
  isUnreachable(error) ? unreachable : isUnsendable(error) ? unsendable : lost

const isHttp = (error: Refusal.Failed | HttpClientError.HttpClientError): error is HttpClientError.HttpClientError =>
  "_tag" in error

/**
 * `fetch` would follow a redirect to any host by itself, and take the arguments
 * and the context of the call along.
 */
const refuseRedirects = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.serviceOption(FetchHttpClient.RequestInit), (init) =>
    Effect.provideService(effect, FetchHttpClient.RequestInit, {
      ...Option.getOrUndefined(init),
      redirect: "manual"
    })
  )

/** A client over the `HttpClient` in the context. */
export const make = Effect.fnUntraced(function* (options: Options) {
  const url = yield* endpoint(options.url)
  yield* Token.nonEmpty(options.token, "token")
  const http = HttpClient.withScope(yield* HttpClient.HttpClient)
  const margin = Duration.fromInputUnsafe(options.margin ?? defaultMargin)
  const retry = options.retry ?? defaultRetry
  const decodeResponse = Decode.decode(V1.Response, {
    what: "answer of the tool server",
    limits: options.limits,
    onExcessProperty: "ignore"
  })

  const answer = (call: Call, response: HttpClientResponse.HttpClientResponse) =>
    Effect.gen(function* () {
      const limits = yield* Limits.resolve(options.limits)
      const bytes = yield* collect(response, limits.maxBytes)
      if (response.status !== 200) return yield* Effect.fail(yield* Refusal.read(response.status, bytes, options))
      const json = Json.parse(bytes, { what: "answer of the tool server", limits: options.limits })
      const decoded = yield* Effect.mapError(Effect.flatMap(json, decodeResponse), () => invalidResponse)
      if (decoded.callId !== call.callId) return yield* Effect.fail(invalidResponse)
      return decoded.result
    })

  const attempt = (
    call: Call,
    request: HttpClientRequest.HttpClientRequest
  ): Effect.Effect<ToolResult, Refusal.Failed> =>
    http.execute(request).pipe(
      refuseRedirects,
      Effect.flatMap((response) => answer(call, response)),
      Effect.mapError((error) => (isHttp(error) ? fromHttp(error) : error)),
      Effect.scoped
    )

  const execute = Effect.fnUntraced(function* (call: Call): Effect.fn.Return<ToolResult> {
    const now = yield* Clock.currentTimeMillis
    const wait = remaining(call, now)
    if (Duration.isZero(wait)) return Timeouts.result(wait)
    const deadline = deadlineOf(call, now)
    const body: typeof V1.Request.Encoded = {
      protocol: V1.protocol,
      runId: call.runId,
      callId: call.callId,
      name: call.name,
      arguments: call.arguments,
      contractDigest: call.contractDigest,
      context: call.context,
      ...(deadline === undefined ? undefined : { deadline })
    }
    const text = yield* Effect.result(Json.stringify(body, { what: "tool call", limits: options.limits }))
    if (Result.isFailure(text)) {
      const tooLarge = text.failure.reason._tag === "TooLarge" || text.failure.reason._tag === "TooDeep"
      return Refusal.toResult(
        Refusal.failed(
          tooLarge ? "request_too_large" : "invalid_request",
          "not_executed",
          `The call was not sent: ${text.failure.message}`
        )
      )
    }
    const request = HttpClientRequest.post(url, { acceptJson: true }).pipe(
      HttpClientRequest.bearerToken(options.token),
      HttpClientRequest.bodyText(text.success, "application/json")
    )

    // What the last attempt ended with, and whether any attempt may have reached the tool.
    let last: Refusal.Failed | undefined
    let mayHaveRun = false
    const judge = (failed: Refusal.Failed): Refusal.Failed =>
      mayHaveRun && failed.value.outcome === "not_executed"
        ? { message: lost.message, value: { ...failed.value, outcome: "unknown" } }
        : failed

    return yield* Effect.suspend(() => {
      last = undefined
      return attempt(call, request)
    }).pipe(
      Effect.tapError((failed) =>
        Effect.sync(() => {
          mayHaveRun = mayHaveRun || failed.value.outcome === "unknown"
          last = failed
        })
      ),
      Effect.retry({
        schedule: retry,
        while: ({ value }) => value.reason === "unreachable" || (value.reason === "connection_lost" && call.idempotent)
      }),
      Effect.timeoutOrElse({
        duration: Duration.sum(wait, margin),
        orElse: () => (last === undefined ? Effect.succeed(Timeouts.result(wait)) : Effect.fail(last))
      }),
      Effect.catch((failed) => Effect.succeed(Refusal.toResult(judge(failed))))
    )
  })

  const client: Client = {
    execute: (call) =>
      Effect.withSpan(execute(call), "RemoteTools.execute", {
        kind: "client",
        attributes: { "emissary.tool.name": call.name, "emissary.call.id": call.callId, "emissary.run.id": call.runId }
      })
  }
  return client
})
