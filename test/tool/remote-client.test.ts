import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer, Option, Redacted, Schedule, Schema } from "effect"
import type * as boundTool from "#src/tool/internal/boundTool.ts"
import { RemoteTools, ToolResult, ToolRuntime } from "effect-emissary"
import { FetchHttpClient, HttpClient, HttpClientError, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { deadUrl, rawServer, respond } from "./fixtures/remote-raw.ts"
import { test } from "../test.ts"

const call = (over?: Partial<boundTool.BoundCall> & { readonly idempotent?: boolean }): boundTool.BoundCall => ({
  runId: "run-1",
  id: "call-1",
  contract: {
    name: "get_order",
    parameters: { type: "object" },
    timeout: Duration.seconds(10),
    approval: "never",
    annotations: over?.idempotent === true ? { idempotent: true } : {},
    digest: "sha256:00"
  },
  arguments: { id: "42" },
  context: { tenant: "acme" },
  timeout: Duration.seconds(10),
  deadline: undefined,
  result: undefined,
  execute: Option.none(),
  runtimeOnly: true,
  ...over
})

const token = Redacted.make("s3cret")

/** At once, so that tests of sockets wait for no clock. */
const retry = Schedule.recurs(3)

const dispatch = (
  url: string,
  over?: Partial<boundTool.BoundCall> & { readonly idempotent?: boolean },
  options?: Partial<Parameters<typeof RemoteTools.layerRuntime>[0]>
) =>
  Effect.flatMap(ToolRuntime.ToolRuntime, (runtime) => runtime.dispatch(call(over))).pipe(
    Effect.provide(RemoteTools.layerRuntime({ url, token, retry, ...options }))
  )

const unavailable = (result: ToolResult.ToolResult) =>
  Effect.suspend(() => {
    assert.strictEqual(result._tag, "Failure")
    if (result._tag !== "Failure") return Effect.die("a failure was expected")
    assert.strictEqual(result.type, "remote_unavailable")
    assert.isAbove(result.message.length, 10)
    assert.notInclude(JSON.stringify(result), "s3cret")
    return Schema.decodeUnknownEffect(RemoteTools.Unavailable)(result.value)
  })

const answer = (result: unknown, over?: object) => JSON.stringify({ protocol: 1, callId: "call-1", result, ...over })

const shipped = { _tag: "Success", content: [{ type: "text", text: "shipped" }], value: "shipped" }

describe.each([
  ["fetch", FetchHttpClient.layer],
  ["undici", NodeHttpClient.layerUndici],
  ["node:http", NodeHttpClient.layerNodeHttp]
])("RT-5 the client over %s", (_, http) => {
  test.live("sends the request of protocol 1 and returns the result", http, function* () {
    const server = yield* rawServer((socket) => respond(socket, 200, answer(shipped)))
    const result = yield* dispatch(`${server.url}/base/`)
    assert.deepStrictEqual(result, ToolResult.success("shipped"))
    const [head = "", body = ""] = (server.requests[0] ?? "").split("\r\n\r\n")
    assert.match(head, /^POST \/base\/tools\/execute HTTP/)
    assert.match(head.toLowerCase(), /authorization: bearer s3cret/)
    assert.deepStrictEqual(JSON.parse(body), {
      protocol: 1,
      runId: "run-1",
      callId: "call-1",
      name: "get_order",
      arguments: { id: "42" },
      contractDigest: "sha256:00",
      context: { tenant: "acme" }
    })
  })

  it.live("a connection that cannot be made is tried again and is then unreachable, not executed", () =>
    Effect.gen(function* () {
      const url = yield* deadUrl
      assert.deepStrictEqual(yield* Effect.flatMap(dispatch(url), unavailable), {
        reason: "unreachable",
        outcome: "not_executed"
      })
    }).pipe(Effect.provide(http))
  )

  test.live("a name that does not resolve is unreachable, not executed", http, function* () {
    const result = yield* dispatch("http://nowhere.invalid:8080", {}, { retry: Schedule.recurs(0) })
    assert.deepStrictEqual(yield* unavailable(result), { reason: "unreachable", outcome: "not_executed" })
  })

  test.live("a connection cut in mid call is lost, outcome unknown, and not tried again", http, function* () {
    const server = yield* rawServer((socket) => socket.destroy())
    assert.deepStrictEqual(yield* Effect.flatMap(dispatch(server.url), unavailable), {
      reason: "connection_lost",
      outcome: "unknown"
    })
    assert.strictEqual(server.requests.length, 1)
  })

  test.live("a connection reset in mid call is lost as well", http, function* () {
    const server = yield* rawServer((socket) => socket.resetAndDestroy())
    assert.deepStrictEqual(yield* Effect.flatMap(dispatch(server.url), unavailable), {
      reason: "connection_lost",
      outcome: "unknown"
    })
  })

  test.live("a connection cut in the middle of the answer is lost, outcome unknown", http, function* () {
    const server = yield* rawServer((socket) => {
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"protocol":1,`,
        () => socket.destroy()
      )
    })
    assert.deepStrictEqual(yield* Effect.flatMap(dispatch(server.url), unavailable), {
      reason: "connection_lost",
      outcome: "unknown"
    })
    assert.strictEqual(server.requests.length, 1)
  })

  test.live("an idempotent tool is called again after a cut", http, function* () {
    const server = yield* rawServer((socket, count) =>
      count < 3 ? socket.destroy() : respond(socket, 200, answer(shipped))
    )
    assert.deepStrictEqual(yield* dispatch(server.url, { idempotent: true }), ToolResult.success("shipped"))
    assert.strictEqual(server.requests.length, 3)
  })

  test.live("an answer that is not HTTP has an unknown outcome", http, function* () {
    const server = yield* rawServer((socket) => socket.end("hello\r\n\r\n"))
    const value = yield* Effect.flatMap(dispatch(server.url), unavailable)
    assert.strictEqual(value.outcome, "unknown")
  })

  test.live("L2 an answer larger than the limit is not read to its end", http, function* () {
    const closed = yield* Deferred.make<void>()
    const server = yield* rawServer((socket) => {
      socket.on("close", () => Deferred.doneUnsafe(closed, Effect.void))
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
      const chunk = `1000\r\n${"x".repeat(0x1000)}\r\n`
      const pour = () => {
        while (socket.writable && socket.write(chunk)) continue
      }
      socket.on("drain", pour)
      pour()
    })
    const result = yield* dispatch(server.url, {}, { limits: { maxBytes: 100_000 } })
    assert.deepStrictEqual(yield* unavailable(result), {
      reason: "response_too_large",
      outcome: "unknown",
      status: 200
    })
    yield* Deferred.await(closed)
  })

  test.live("interrupting the call closes the connection", http, function* () {
    const arrived = yield* Deferred.make<void>()
    const closed = yield* Deferred.make<void>()
    const server = yield* rawServer((socket) => {
      socket.on("close", () => Deferred.doneUnsafe(closed, Effect.void))
      Deferred.doneUnsafe(arrived, Effect.void)
    })
    const fiber = yield* Effect.forkChild(dispatch(server.url))
    yield* Deferred.await(arrived)
    yield* Fiber.interrupt(fiber)
    yield* Deferred.await(closed)
  })

  test.live("a server that answers too late is a timeout_error", http, function* () {
    const server = yield* rawServer(() => {})
    const result = yield* dispatch(server.url, { timeout: Duration.millis(30) }, { margin: "20 millis" })
    assert.strictEqual(result._tag === "Failure" && result.type, "timeout_error")
  })
})

describe("RT-5 answers that are none", () => {
  const bad: ReadonlyArray<readonly [string, number, string, RemoteTools.Unavailable]> = [
    ["text", 200, "hello", { reason: "invalid_response", outcome: "unknown", status: 200 }],
    ["nothing", 200, "", { reason: "invalid_response", outcome: "unknown", status: 200 }],
    ["null", 200, "null", { reason: "invalid_response", outcome: "unknown", status: 200 }],
    [
      "another call",
      200,
      answer(shipped, { callId: "call-2" }),
      { reason: "invalid_response", outcome: "unknown", status: 200 }
    ],
    [
      "another protocol",
      200,
      answer(shipped, { protocol: 2 }),
      { reason: "invalid_response", outcome: "unknown", status: 200 }
    ],
    [
      "no content",
      200,
      answer({ ...shipped, content: [] }),
      { reason: "invalid_response", outcome: "unknown", status: 200 }
    ],
    [
      "L2 a forbidden key",
      200,
      `{"protocol":1,"callId":"call-1","result":{"_tag":"Success","content":[{"type":"text","text":"a"}],"value":{"__proto__":{"x":1}}}}`,
      { reason: "invalid_response", outcome: "unknown", status: 200 }
    ],
    [
      "L2 a deep value",
      200,
      answer({ ...shipped, value: 0 }).replace(`"value":0`, `"value":${"[".repeat(5000)}${"]".repeat(5000)}`),
      { reason: "invalid_response", outcome: "unknown", status: 200 }
    ],
    ["401 of a proxy", 401, "<html>", { reason: "unauthorized", outcome: "not_executed", status: 401 }],
    ["403 of a proxy", 403, "<html>", { reason: "denied", outcome: "not_executed", status: 403 }],
    ["404 of another server", 404, "", { reason: "not_found", outcome: "not_executed", status: 404 }],
    ["413 of a proxy", 413, "", { reason: "request_too_large", outcome: "not_executed", status: 413 }],
    ["502 of a proxy", 502, "<html>", { reason: "server_error", outcome: "unknown", status: 502 }],
    ["418", 418, "{}", { reason: "invalid_response", outcome: "unknown", status: 418 }],
    ["204", 204, "", { reason: "invalid_response", outcome: "unknown", status: 204 }]
  ]

  it.live.each(bad)("%s", ([, status, body, expected]) =>
    Effect.gen(function* () {
      const server = yield* rawServer((socket) => respond(socket, status, body))
      assert.deepStrictEqual(yield* Effect.flatMap(dispatch(server.url), unavailable), expected)
      assert.strictEqual(server.requests.length, 1)
    }).pipe(Effect.provide(NodeHttpClient.layerNodeHttp))
  )

  it.live("L8 a server that repeats the token does not pass it to the model", () =>
    Effect.gen(function* () {
      const body = JSON.stringify({ _tag: "Denied", message: "no: Bearer s3cret" })
      const server = yield* rawServer((socket) => respond(socket, 403, body))
      const result = yield* dispatch(server.url)
      assert.notInclude(JSON.stringify(result), "s3cret")
      assert.include(ToolResult.text(result), "Bearer <token>")
    }).pipe(Effect.provide(NodeHttpClient.layerNodeHttp))
  )

  test.live("unknown keys of a later server are ignored", NodeHttpClient.layerNodeHttp, function* () {
    const server = yield* rawServer((socket) => respond(socket, 200, answer(shipped, { extra: 1 })))
    assert.deepStrictEqual(yield* dispatch(server.url), ToolResult.success("shipped"))
  })

  test.live("L2 a call larger than the limit is not sent", NodeHttpClient.layerNodeHttp, function* () {
    const server = yield* rawServer((socket) => respond(socket, 200, answer(shipped)))
    const result = yield* dispatch(
      server.url,
      { arguments: { text: "x".repeat(2000) } },
      { limits: { maxBytes: 1000 } }
    )
    assert.deepStrictEqual(yield* unavailable(result), { reason: "request_too_large", outcome: "not_executed" })
    assert.strictEqual(server.requests.length, 0)
  })
})

describe("RT-5 time", () => {
  const refused = (request: HttpClientError.TransportError["request"]) =>
    new HttpClientError.HttpClientError({
      reason: new HttpClientError.TransportError({
        request,
        cause: Object.assign(new Error("no"), { code: "ECONNREFUSED" })
      })
    })

  /** Takes one step of the script for each request. */
  const scripted = (steps: ReadonlyArray<"refuse" | "cut" | "hang" | "answer">) => {
    const seen: Array<string> = []
    const sent: Array<Record<string, unknown>> = []
    const layer = Layer.succeed(
      HttpClient.HttpClient,
      HttpClient.make((request) => {
        const step = steps[seen.length] ?? "hang"
        seen.push(step)
        sent.push(
          JSON.parse(new TextDecoder().decode(request.body._tag === "Uint8Array" ? request.body.body : undefined))
        )
        switch (step) {
          case "refuse":
            return Effect.fail(refused(request))
          case "cut":
            return Effect.fail(
              new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request }) })
            )
          case "hang":
            return Effect.never
          case "answer":
            return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(answer(shipped))))
        }
      })
    )
    return { layer, seen, sent }
  }

  const start = (http: Layer.Layer<HttpClient.HttpClient>, over?: Parameters<typeof dispatch>[1]) =>
    Effect.forkChild(
      dispatch("http://tools.example", over, { retry: undefined, margin: "2 seconds" }).pipe(Effect.provide(http))
    )

  test("L9 waits the timeout and the margin, then timeout_error", function* () {
    const http = scripted(["hang"])
    const fiber = yield* start(http.layer)
    yield* TestClock.adjust("11 seconds")
    assert.isUndefined(fiber.pollUnsafe())
    yield* TestClock.adjust("1 second")
    const result = yield* Fiber.join(fiber)
    assert.deepStrictEqual(result, ToolResult.failure("timeout_error", "Tool execution timed out after 10 seconds"))
  })

  test("the deadline of the run shortens the wait and is sent", function* () {
    const http = scripted(["hang"])
    const fiber = yield* start(http.layer, { deadline: 3000 })
    yield* TestClock.adjust("5 seconds")
    const result = yield* Fiber.join(fiber)
    assert.strictEqual(result._tag === "Failure" && result.type, "timeout_error")
  })

  test("the deadline is sent where the server would not stop by itself before", function* () {
    yield* TestClock.adjust("1 second")
    const sent = (over: Parameters<typeof dispatch>[1]) =>
      Effect.gen(function* () {
        const http = scripted(["answer"])
        yield* Effect.flatMap(start(http.layer, over), Fiber.join)
        return http.sent[0]?.["deadline"]
      })
    assert.isUndefined(yield* sent({}))
    assert.isUndefined(yield* sent({ timeout: Duration.seconds(60) }))
    assert.strictEqual(yield* sent({ timeout: Duration.seconds(2) }), 3000)
    assert.strictEqual(yield* sent({ deadline: 20_000 }), 20_000)
    assert.strictEqual(yield* sent({ deadline: 20_000, timeout: Duration.seconds(2) }), 3000)
    assert.strictEqual(yield* sent({ deadline: 2000, timeout: Duration.infinity }), 2000)
  })

  test("a passed deadline sends nothing", function* () {
    yield* TestClock.adjust("5 seconds")
    const http = scripted([])
    const result = yield* Fiber.join(yield* start(http.layer, { deadline: 3000 }))
    assert.strictEqual(result._tag === "Failure" && result.type, "timeout_error")
    assert.deepStrictEqual(http.seen, [])
  })

  test("by default a refused connection is tried six times within about three seconds", function* () {
    const http = scripted(Array.from({ length: 20 }, () => "refuse" as const))
    const fiber = yield* start(http.layer)
    yield* TestClock.adjust("3100 millis")
    assert.strictEqual((yield* Effect.flatMap(Fiber.join(fiber), unavailable)).reason, "unreachable")
    assert.strictEqual(http.seen.length, 6)
  })

  test("a server that comes up while the client tries again is used, by every tool", function* () {
    const http = scripted(["refuse", "refuse", "answer"])
    const fiber = yield* start(http.layer)
    yield* TestClock.adjust("300 millis")
    assert.deepStrictEqual(yield* Fiber.join(fiber), ToolResult.success("shipped"))
  })

  test("trying again never exceeds the timeout and the margin", function* () {
    const http = scripted(Array.from({ length: 20 }, () => "refuse" as const))
    const fiber = yield* Effect.forkChild(
      dispatch(
        "http://tools.example",
        { timeout: Duration.seconds(1) },
        { retry: Schedule.spaced("700 millis"), margin: "1 second" }
      ).pipe(Effect.provide(http.layer))
    )
    yield* TestClock.adjust("2 seconds")
    assert.strictEqual((yield* Effect.flatMap(Fiber.join(fiber), unavailable)).reason, "unreachable")
    assert.strictEqual(http.seen.length, 3)
  })

  test("once a cut call may have run, an unreachable server no longer means that it did not", function* () {
    const http = scripted(["cut", ...Array.from({ length: 20 }, () => "refuse" as const)])
    const fiber = yield* start(http.layer, { idempotent: true })
    yield* TestClock.adjust("4 seconds")
    assert.deepStrictEqual(yield* Effect.flatMap(Fiber.join(fiber), unavailable), {
      reason: "unreachable",
      outcome: "unknown"
    })
  })

  test("a refused connection, then no answer: a timeout_error, for the tool may be running", function* () {
    const http = scripted(["refuse", "hang"])
    const fiber = yield* start(http.layer)
    yield* TestClock.adjust("12 seconds")
    const result = yield* Fiber.join(fiber)
    assert.strictEqual(result._tag === "Failure" && result.type, "timeout_error")
  })

  test("a refused connection, then a cut: not tried again", function* () {
    const http = scripted(["refuse", "cut", "answer"])
    const fiber = yield* start(http.layer)
    yield* TestClock.adjust("4 seconds")
    assert.strictEqual((yield* Effect.flatMap(Fiber.join(fiber), unavailable)).outcome, "unknown")
    assert.deepStrictEqual(http.seen, ["refuse", "cut"])
  })
})

describe("RT-5 options", () => {
  const build = (options: Parameters<typeof RemoteTools.layerRuntime>[0]) =>
    Effect.flip(Effect.scoped(Layer.build(RemoteTools.layerRuntime(options)))).pipe(
      Effect.provide(FetchHttpClient.layer),
      Effect.map((error) => [error._tag, error.option])
    )

  test("an unusable URL or token is a typed failure of the layer", function* () {
    assert.deepStrictEqual(yield* build({ url: "nope", token }), ["InvalidOption", "url"])
    assert.deepStrictEqual(yield* build({ url: "file:///etc", token }), ["InvalidOption", "url"])
    assert.deepStrictEqual(yield* build({ url: "http://u:p@h/", token }), ["InvalidOption", "url"])
    assert.deepStrictEqual(yield* build({ url: "http://h/", token: Redacted.make(" ") }), ["InvalidOption", "token"])
    assert.deepStrictEqual(yield* build({ url: "http://h/", token: Redacted.make("a\nb") }), ["InvalidOption", "token"])
  })

  test("five calls of a batch at once, unless the option differs", function* () {
    const concurrency = (maxConcurrency?: number) =>
      Effect.map(ToolRuntime.ToolRuntime, (runtime) => runtime.concurrency).pipe(
        Effect.provide(RemoteTools.layerRuntime({ url: "http://h/", token, maxConcurrency })),
        Effect.provide(FetchHttpClient.layer)
      )
    assert.deepStrictEqual(yield* Effect.all([concurrency(), concurrency(2)]), [5, 2])
  })

  test("tools that are bound here run here", function* () {
    const result = yield* dispatch("http://tools.example", {
      execute: Option.some(Effect.succeed(ToolResult.success("here"))),
      runtimeOnly: false
    }).pipe(
      Effect.provide(
        Layer.succeed(
          HttpClient.HttpClient,
          HttpClient.make(() => Effect.die("no network"))
        )
      )
    )
    assert.deepStrictEqual(result, ToolResult.success("here"))
  })
})
