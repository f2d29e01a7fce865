import { assert, describe } from "@effect/vitest"
import { Duration, Effect, Exit, Option, Redacted } from "effect"
import type * as boundTool from "#src/tool/internal/boundTool.ts"
import { RemoteTools, ToolResult, ToolRuntime } from "effect-emissary"
import { FetchHttpClient } from "effect/http"
import { rawServer, respond } from "./fixtures/remote-raw.ts"
import { test } from "../test.ts"

const call: boundTool.BoundCall = {
  runId: "run-1",
  id: "call-1",
  contract: {
    name: "get_order",
    parameters: { type: "object" },
    timeout: Duration.seconds(10),
    approval: "never",
    annotations: {},
    digest: "sha256:00"
  },
  arguments: { id: "42" },
  context: { tenant: "acme" },
  timeout: Duration.seconds(10),
  deadline: undefined,
  result: undefined,
  execute: Option.none(),
  runtimeOnly: true
}

const answer = JSON.stringify({ protocol: 1, callId: "call-1", result: ToolResult.success("from elsewhere") })

describe("RT-5 redirects", () => {
  for (const status of [301, 302, 303, 307, 308]) {
    test.live(`RT-5 a redirect (${status}) takes neither the call nor the result to another host`, function* () {
      const elsewhere = yield* rawServer((socket) => respond(socket, 200, answer))
      const server = yield* rawServer((socket) =>
        respond(socket, status, "", `Location: ${elsewhere.url}/tools/execute\r\n`)
      )
      const result = yield* Effect.flatMap(ToolRuntime.ToolRuntime, (runtime) => runtime.dispatch(call)).pipe(
        Effect.provide(RemoteTools.layerRuntime({ url: server.url, token: Redacted.make("s3cret") })),
        Effect.provide(FetchHttpClient.layer)
      )
      assert(result._tag === "Failure")
      assert.deepStrictEqual(result.value, { reason: "invalid_response", outcome: "unknown", status })
      assert.deepStrictEqual(elsewhere.requests, [])
    })
  }
})

describe("RT-5 tokens that no header can hold", () => {
  for (const token of ["sch\u00fcssel", "a\u0000b", "\u30c8\u30fc\u30af\u30f3"]) {
    test(`RT-5 ${JSON.stringify(token)} is refused when the client is made, not at the first call`, function* () {
      const layer = RemoteTools.layerRuntime({ url: "http://localhost", token: Redacted.make(token) })
      const exit = yield* Effect.exit(
        Effect.provide(ToolRuntime.ToolRuntime, [layer]).pipe(Effect.provide(FetchHttpClient.layer))
      )
      assert.isTrue(Exit.isFailure(exit))
      assert.include(String(exit), "printable ASCII")
      assert.notInclude(String(exit), token)
    })
  }
})
