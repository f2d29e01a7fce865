/**
 * Proof that a program stays off the network.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpMethod from "effect/http/HttpMethod"

/**
 * A program that must stay off the network tried to send a request.
 *
 * **Details**
 *
 * It names the method and the URL without user name, password, query and
 * fragment, because those may hold secrets. Through `HttpClient` it arrives as
 * the `cause` of the `TransportError` in an `HttpClientError`, the only error
 * such a client may fail with.
 *
 * @category errors
 * @since 0.1.0
 */
export class NetworkDenied extends Schema.TaggedError<NetworkDenied>("effect-emissary/testing/NoNetwork/NetworkDenied")(
  "NetworkDenied",
  { method: Schema.String, url: Schema.String }
) {
  override get message() {
    return `NoNetwork: ${this.method} ${this.url} was refused. Provide a layer that answers without the network, or remove NoNetwork.layer.`
  }
}

const denyRequest = (method: string, url: string | URL): NetworkDenied => {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  return new NetworkDenied({
    method,
    url: parsed === undefined ? "(not a URL)" : `${parsed.origin}${parsed.pathname}`
  })
}

const deniedFetch: typeof globalThis.fetch = (input, init) => {
  const isRequest = input instanceof Request
  return Effect.runPromise(
    Effect.fail(denyRequest(init?.method ?? (isRequest ? input.method : "GET"), isRequest ? input.url : input))
  )
}

/**
 * Replaces the HTTP client by one that refuses every request.
 *
 * **When to use**
 *
 * Use in tests that must not reach the network, next to a scripted model.
 *
 * **Details**
 *
 * Provides `HttpClient`, and the `Fetch` reference that `FetchHttpClient.layer`
 * reads. Every request fails with an `HttpClientError` whose `TransportError` has
 * a {@link NetworkDenied} as its cause and names method and URL.
 *
 * **Gotchas**
 *
 * Code that calls the global `fetch` or opens sockets itself does not go through
 * these services and is not stopped.
 *
 * **Example** (A request is refused)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { HttpClient } from "effect/http"
 * import { NoNetwork } from "effect-emissary/testing"
 *
 * const error = await HttpClient.get("https://example.com/a?key=1").pipe(
 *   Effect.flip,
 *   Effect.provide(NoNetwork.layer),
 *   Effect.runPromise
 * )
 *
 * assert.ok(error.message.includes("GET https://example.com/a"))
 * assert.ok(!error.message.includes("key=1"))
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<HttpClient.HttpClient> = Layer.merge(
  Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request, url) => {
      const cause = denyRequest(request.method, url)
      // the error's own request has no query, headers or body: core prints the URL of the request in the message
      const shown = HttpClientRequest.modify(HttpClientRequest.empty, {
        method: HttpMethod.isHttpMethod(request.method) ? request.method : undefined,
        url: cause.url
      })
      return Effect.fail(
        new HttpClientError.HttpClientError({
          reason: new HttpClientError.TransportError({ request: shown, cause, description: cause.message })
        })
      )
    })
  ),
  Layer.succeed(FetchHttpClient.Fetch, deniedFetch)
)
