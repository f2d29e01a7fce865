/**
 * An HTTP client that refuses every request.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpMethod from "effect/http/HttpMethod"

/** The error names the method and the URL without user name, password, query and fragment, which may hold secrets. */
const denyRequest = (method: string, url: string | URL): HttpClientError.HttpClientError => {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  const shown = parsed === undefined ? "(not a URL)" : `${parsed.origin}${parsed.pathname}`
  // the request of the error has no query, headers or body: its URL is part of the message
  const request = HttpClientRequest.modify(HttpClientRequest.empty, {
    method: HttpMethod.isHttpMethod(method) ? method : undefined,
    url: shown
  })
  const description = `NoNetwork: ${method} ${shown} was refused. Provide a layer that answers without the network, or remove NoNetwork.layer.`
  return new HttpClientError.HttpClientError({
    reason: new HttpClientError.TransportError({ request, description })
  })
}

const deniedFetch: typeof globalThis.fetch = (input, init) => {
  const isRequest = input instanceof Request
  return Effect.runPromise(
    Effect.fail(denyRequest(init?.method ?? (isRequest ? input.method : "GET"), isRequest ? input.url : input))
  )
}

/**
 * Replaces the HTTP client by a client that refuses every request.
 *
 * **When to use**
 *
 * Use in tests that must not reach the network, next to a scripted model.
 *
 * **Details**
 *
 * Provides `HttpClient`, and the `Fetch` reference that `FetchHttpClient.layer`
 * reads. Every request fails with an `HttpClientError` whose reason is a
 * `TransportError` that names method and URL, without the query.
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
    HttpClient.make(({ method }, url) => Effect.fail(denyRequest(method, url)))
  ),
  Layer.succeed(FetchHttpClient.Fetch, deniedFetch)
)
