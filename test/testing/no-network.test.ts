import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { NoNetwork } from "effect-emissary/testing"
import { test } from "../test.ts"

describe("NoNetwork", () => {
  test("TEST-1 refuses every request and names method and URL, without the query", NoNetwork.layer, function* () {
    const error = yield* Effect.flip(HttpClient.post("https://user:pw@api.example.com/v1/chat?key=secret"))
    assert.strictEqual(error._tag, "HttpClientError")
    assert.include(error.message, "POST https://api.example.com/v1/chat")
    assert.notInclude(error.message, "secret")
    assert.strictEqual(error.reason._tag, "TransportError")
  })

  it.effect("TEST-1 also stops a fetch client built on top of it", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(HttpClient.get("http://127.0.0.1:9/x"))
      assert.include(String(error.cause), "NoNetwork: GET http://127.0.0.1:9/x")
    }).pipe(Effect.provide(FetchHttpClient.layer.pipe(Layer.provideMerge(NoNetwork.layer))))
  )
})
