/**
 * Bodies of HTTP messages, of limited size and within a limited time.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as HttpEffect from "effect/http/HttpEffect"
import type * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"

/** The bytes of a body of limited size. */
export const collect = <E, TooLarge>(
  { headers, stream }: HttpIncomingMessage.HttpIncomingMessage<E>,
  limit: number,
  tooLarge: TooLarge
): Effect.Effect<Uint8Array, E | TooLarge> => {
  if (Number(headers["content-length"] ?? 0) > limit) return Effect.fail(tooLarge)
  let size = 0
  return stream.pipe(
    Stream.tap((chunk) => {
      size += chunk.byteLength
      return size > limit ? Effect.fail(tooLarge) : Effect.void
    }),
    Stream.mkUint8Array
  )
}

/** The option `bodyTimeout` of a server; default 30 seconds. */
export const resolveTimeout = <E>(
  input: Duration.Input = "30 seconds",
  invalid: (option: string, problem: string) => E
): Effect.Effect<Duration.Duration, E> =>
  Effect.mapError(Effect.fromOption(Option.filter(Duration.fromInput(input), Duration.isPositive)), () =>
    invalid("bodyTimeout", "must be a duration of more than none")
  )

/** A client that is slow, or waits on purpose, must not keep its connection. */
const closeConnection = HttpEffect.appendPreResponseHandler((_, response) =>
  Effect.succeed(HttpServerResponse.setHeader(response, "connection", "close"))
)

/** A body that is not read, with the status of the response. */
export interface Refusal {
  readonly status: 400 | 408 | 413
  readonly message: string
}

/** Reads the body of a request. */
export const read = (
  request: HttpServerRequest.HttpServerRequest,
  limit: number,
  timeout: Duration.Duration
): Effect.Effect<Uint8Array, Refusal, HttpServerRequest.HttpServerRequest> => {
  const refuse = (status: Refusal["status"], message: string): Refusal => ({ status, message })
  const tooSlow = refuse(408, `The body did not arrive within ${Duration.toSeconds(timeout)} seconds`)
  return collect(request, limit, refuse(413, `The body is larger than ${limit} bytes`)).pipe(
    Effect.mapError((error) => ("status" in error ? error : refuse(400, "The body could not be read"))),
    Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.andThen(closeConnection, Effect.fail(tooSlow)) })
  )
}
