/** Sessions of a server, over its routes. */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Sse from "effect/encoding/Sse"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as callOptions from "../../payload/internal/options.ts"
import * as Json from "../../payload/Json.ts"
import type * as Limits from "../../payload/Limits.ts"
import { quote } from "../../payload/internal/base.ts"
import { resolveLimits } from "../../payload/internal/limits.ts"
import { encodeUnchecked } from "../../payload/internal/problems.ts"
import { toWellFormed } from "../../payload/internal/weigh.ts"
import * as service from "../../session/internal/service.ts"
import * as types from "../../session/internal/types.ts"
import * as remoteProtocol from "../../tool/internal/remoteProtocol.ts"
import * as requestBody from "../../tool/internal/requestBody.ts"
import * as eventStream from "./eventStream.ts"
import { Refusal } from "./refusal.ts"
import * as routes from "./routes.ts"

/** Options of a client. */
export interface Options {
  /** The address of the server, with its `path`: `"https://chat.example.com/sessions"`. */
  readonly url: string | URL
  /** The bearer token, or an Effect that has it, which is run for each request: a token that ends is replaced by it. */
  readonly token: Redacted.Redacted<string> | Effect.Effect<Redacted.Redacted<string>>
  /**
   * The time for the answer of a call, default 30 seconds. A call whose connection fails is made again, if it can be made twice, for
   * three times as long, and a stream begins again where it was.
   */
  readonly timeout?: Duration.Input | undefined
  /** Limits of what the server sends, where they differ from the current `Limits`. */
  readonly limits?: Partial<Limits.Limits> | undefined
}

/** The request did not arrive, or its answer did not. `isSent`: it may have taken effect. */
interface Lost {
  readonly _tag: "Lost"
  readonly problem: string
  readonly isSent: boolean
}

const lost = (problem: string, isSent = true): Lost => ({ _tag: "Lost", problem, isSent })

const fromHttp = (error: HttpClientError.HttpClientError): Lost =>
  lost("the server did not answer", !remoteProtocol.isUnreachable(error))

const unreachable =
  (id: string) =>
  (error: Lost | types.SessionError): types.SessionError =>
    error._tag === "Lost"
      ? new types.SessionError({ id, reason: { _tag: "Unreachable", problem: error.problem } })
      : error

/** The error of a session that the refusal of an operation represents. */
const errorOf = (name: string, id: string, { category, error, message }: Refusal): Lost | types.SessionError => {
  if (error !== undefined) return error
  const stated = message.replace(/\.$/, "")
  if (category === "unavailable" || category === "busy" || category === "timeout") return lost(stated)
  const reason: types.Reason =
    category === "internal"
      ? { _tag: "Unreachable", problem: stated }
      : { _tag: "Denied", problem: `${quote(name)} (${category}): ${stated}` }
  return new types.SessionError({ id, reason })
}

/** A command that names its message counts once, however often it is sent. */
const isRepeatable = ({ kind }: service.AnyOperation, payload: service.Payload): boolean =>
  kind !== "command" || Object.hasOwn(payload, "messageId") || Object.hasOwn(payload, "newMessageId")

export const make = Effect.fnUntraced(function* ({ limits, timeout: timeoutOption, token, url }: Options) {
  yield* callOptions.check("SessionHttp.layerClient", { timeout: callOptions.endingTime() }, { timeout: timeoutOption })
  const base = String(url).replace(/\/$/, "")
  const timeout = Duration.fromInputUnsafe(timeoutOption ?? "30 seconds")
  const http = HttpClient.withScope(yield* HttpClient.HttpClient)
  const reading = { what: "answer of the server of sessions", limits, onExcessProperty: "ignore" } as const
  const readRefusal = Json.decodeJson(Refusal, reading)
  const trying = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")]).pipe(
    Schedule.upTo({ duration: Duration.times(timeout, 3) })
  )
  const continuing = trying.pipe(
    Schedule.setInputType<Lost | types.SessionError>(),
    Schedule.while(({ input }) => input._tag === "Lost" || types.isStoreDown(input))
  )
  const bearer = Effect.isEffect(token) ? token : Effect.succeed(token)

  const refused = (name: string, id: string, text: string | Uint8Array, status: number) =>
    Effect.matchEffect(readRefusal(text), {
      onFailure: () => Effect.fail(lost(`the server answered with status ${status}`)),
      onSuccess: (refusal) => Effect.fail(errorOf(name, id, refusal))
    })

  /** Sends a request, and fails with the refusal of a status other than 200. */
  const send = Effect.fnUntraced(function* (
    name: string,
    { about, kind, payload: schema }: service.AnyOperation,
    id: string,
    payload: service.Payload
  ) {
    const json = yield* Effect.orDie(encodeUnchecked(schema, { what: name, onExcessProperty: "ignore" })(payload))
    const isCommand = kind === "command"
    const query = {
      ...(isCommand ? undefined : routes.writeQuery(json)),
      ...(about === "session" ? { id } : undefined)
    }
    const request = HttpClientRequest.make(isCommand ? "POST" : "GET")(`${base}/${name}`, { urlParams: query }).pipe(
      HttpClientRequest.bearerToken(yield* bearer)
    )
    const sent = isCommand
      ? HttpClientRequest.bodyText(request, JSON.stringify(toWellFormed(json)), "application/json")
      : request
    const response = yield* Effect.mapError(remoteProtocol.refuseRedirects(http.execute(sent)), fromHttp)
    return response.status === 200 ? response : yield* refused(name, id, yield* bytesOf(response), response.status)
  })

  const bytesOf = Effect.fnUntraced(function* (response: HttpClientResponse.HttpClientResponse) {
    const { maxBytes } = yield* resolveLimits(limits)
    const large = lost(`the server answered with more than ${maxBytes} bytes`)
    return yield* Effect.mapError(requestBody.collect(response, maxBytes, large), (error) =>
      error._tag === "Lost" ? error : fromHttp(error)
    )
  })

  const readers = new Map<string, (text: string | Uint8Array) => Effect.Effect<unknown, Lost>>()
  /** Reads a success. It may be of a release that this one does not know. */
  const readerOf = (name: string, { success }: service.AnyOperation) => {
    const decode = Json.decodeJson(success, reading)
    const found =
      readers.get(name) ??
      ((text: string | Uint8Array) => Effect.mapError(decode(text), ({ message }) => lost(message)))
    readers.set(name, found)
    return found
  }

  /** The values of a stream, until it is cut or silent for long. */
  const listen = (name: string, operation: service.AnyOperation, id: string, payload: service.Payload) =>
    Effect.gen(function* () {
      const response = yield* send(name, operation, id, payload)
      const { maxBytes } = yield* resolveLimits(limits)
      return Stream.timeout(response.stream, Duration.times(eventStream.heartbeat, 3)).pipe(
        Stream.decodeText,
        Stream.pipeThroughChannel(Sse.decode({ maxEventSize: maxBytes })),
        Stream.mapError((error) =>
          error._tag === "HttpClientError" ? fromHttp(error) : lost("the stream is malformed")
        ),
        Stream.mapEffect(({ data, event }) =>
          event === "end" ? refused(name, id, data, response.status) : readerOf(name, operation)(data)
        )
      )
    }).pipe(Stream.unwrap)

  const check = (id: string): Effect.Effect<void, types.SessionError> => {
    // A query would have another text in the place of this one
    const problem = "expected an id of well-formed Unicode"
    return /\p{Surrogate}/u.test(id)
      ? Effect.fail(new types.SessionError({ id, reason: { _tag: "ArgumentInvalid", problem } }))
      : Effect.void
  }

  return service.make(
    Effect.fnUntraced(function* (name, operation, id, given) {
      yield* check(id)
      const payload = yield* operation.prepare(id, given)
      const asked = Effect.scoped(Effect.flatMap(send(name, operation, id, payload), bytesOf)).pipe(
        Effect.flatMap((bytes) => readerOf(name, operation)(bytes)),
        Effect.timeoutOrElse({
          duration: timeout,
          orElse: () => Effect.fail(lost("the server did not answer in time"))
        })
      )
      return yield* asked.pipe(
        Effect.retry({
          while: (error) => error._tag === "Lost" && (!error.isSent || isRepeatable(operation, payload)),
          schedule: trying
        }),
        Effect.mapError(unreachable(id))
      )
    }),
    (name, operation, id, given) =>
      Stream.suspend(() => {
        let payload = given
        const values = Stream.suspend(() => listen(name, operation, id, payload)).pipe(
          Stream.mapEffect((value) => {
            const next = operation.next === undefined ? payload : operation.next(payload, value)
            // It is asked for again after the last value
            if (next === undefined) return Effect.fail(lost("the server sent what does not follow"))
            payload = next
            return Effect.succeed(value)
          })
        )
        const again = Stream.repeat(Stream.retry(values, continuing), Schedule.spaced("100 millis"))
        return Stream.fromEffect(check(id)).pipe(
          Stream.drain,
          // The first value of a stream that begins anew, where nothing has changed
          Stream.concat(operation.next === undefined ? Stream.changes(again) : again),
          Stream.mapError(unreachable(id))
        )
      })
  )
})
