import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer, Option, Redacted, Schedule, Schema } from "effect"
import type * as toolCall from "#src/tool/internal/toolCall.ts"
import { ToolResult, ToolRuntime } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { FetchHttpClient, HttpClient, HttpClientError, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { deadUrl, rawServer, respond } from "./fixtures/remote-raw.ts"
import { kind } from "./support.ts"
import { after } from "../after.ts"
import { test } from "../test.ts"

type Over = Partial<toolCall.BoundCall> & { readonly idempotent?: boolean }

type Options = Partial<Parameters<typeof RemoteTools.layerRuntime>[0]>

const call = (over?: Over): toolCall.BoundCall => ({
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
  ...over
})

const token = Redacted.make("s3cret")

/** At once, so that tests of sockets wait for no clock. */
const retry = Schedule.recurs(3)

const dispatch = (url: string, over?: Over, options?: Options) =>
  Effect.flatMap(ToolRuntime.ToolRuntime, (runtime) => runtime.dispatch(call(over))).pipe(
    Effect.provide(RemoteTools.layerRuntime({ url, token, retry, ...options }))
  )

const unavailable = Effect.fnUntraced(function* (result: ToolResult.ToolResult) {
  assert(result._tag === "Failure" && result.type === "remote_unavailable")
  assert.isAbove(result.message.length, 10)
  assert.notInclude(JSON.stringify(result), "s3cret")
  return yield* Schema.decodeUnknownEffect(RemoteTools.Unavailable)(result.value)
})

const failing = (...args: Parameters<typeof dispatch>) => Effect.flatMap(dispatch(...args), unavailable)

const unreachable = { reason: "unreachable", outcome: "not_executed" }

const lost = { reason: "connection_lost", outcome: "unknown" }

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

  test.live("a connection that cannot be made is tried again and is then unreachable", http, function* () {
    assert.deepStrictEqual(yield* failing(yield* deadUrl), unreachable)
  })

  test.live("a name that does not resolve is unreachable, not executed", http, function* () {
    const once = { retry: Schedule.recurs(0) }
    assert.deepStrictEqual(yield* failing("http://nowhere.invalid:8080", {}, once), unreachable)
  })

  const begun = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"protocol":1,`
  const cuts: ReadonlyArray<readonly [string, Parameters<typeof rawServer>[0]]> = [
    ["cut in mid call", (socket) => socket.destroy()],
    ["reset in mid call", (socket) => socket.resetAndDestroy()],
    ["cut in the middle of the answer", (socket) => socket.write(begun, () => socket.destroy())]
  ]
  for (const [name, cut] of cuts) {
    test.live(`a connection ${name} is lost, outcome unknown, and not tried again`, http, function* () {
      const server = yield* rawServer(cut)
      assert.deepStrictEqual(yield* failing(server.url), lost)
      assert.strictEqual(server.requests.length, 1)
    })
  }

  test.live("an idempotent tool is called again after a cut", http, function* () {
    const server = yield* rawServer((socket, count) =>
      count < 3 ? socket.destroy() : respond(socket, 200, answer(shipped))
    )
    assert.deepStrictEqual(yield* dispatch(server.url, { idempotent: true }), ToolResult.success("shipped"))
    assert.strictEqual(server.requests.length, 3)
  })

  test.live("an answer that is not HTTP has an unknown outcome", http, function* () {
    const server = yield* rawServer((socket) => socket.end("hello\r\n\r\n"))
    assert.strictEqual((yield* failing(server.url)).outcome, "unknown")
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
    const found = yield* failing(server.url, {}, { limits: { maxBytes: 100_000 } })
    assert.deepStrictEqual(found, { reason: "response_too_large", outcome: "unknown", status: 200 })
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
    assert.strictEqual(kind(result), "timeout_error")
  })
})

describe("RT-5 answers that are none", () => {
  const http = NodeHttpClient.layerNodeHttp
  const valued = (value: string) => answer({ ...shipped, value: 0 }).replace(`"value":0`, `"value":${value}`)
  const bodies: Record<string, string> = {
    text: "hello",
    nothing: "",
    null: "null",
    "another call": answer(shipped, { callId: "call-2" }),
    "another protocol": answer(shipped, { protocol: 2 }),
    "no content": answer({ ...shipped, content: [] }),
    "L2 a forbidden key": valued(`{"__proto__":{"x":1}}`),
    "L2 a deep value": valued("[".repeat(5000) + "]".repeat(5000))
  }
  type Reason = RemoteTools.Unavailable["reason"]
  type Outcome = RemoteTools.Unavailable["outcome"]
  const bad: ReadonlyArray<readonly [string, number, string, Reason, Outcome]> = [
    ...Object.entries(bodies).map(([name, body]) => [name, 200, body, "invalid_response", "unknown"] as const),
    ["401 of a proxy", 401, "<html>", "unauthorized", "not_executed"],
    ["403 of a proxy", 403, "<html>", "denied", "not_executed"],
    ["404 of another server", 404, "", "not_found", "not_executed"],
    ["413 of a proxy", 413, "", "request_too_large", "not_executed"],
    ["502 of a proxy", 502, "<html>", "server_error", "unknown"],
    ["418", 418, "{}", "invalid_response", "unknown"],
    ["204", 204, "", "invalid_response", "unknown"]
  ]

  for (const [name, status, body, reason, outcome] of bad) {
    test.live(name, http, function* () {
      const server = yield* rawServer((socket) => respond(socket, status, body))
      assert.deepStrictEqual(yield* failing(server.url), { reason, outcome, status })
      assert.strictEqual(server.requests.length, 1)
    })
  }

  test.live("L8 a server that repeats the token does not pass it to the model", http, function* () {
    const body = JSON.stringify({ _tag: "Denied", message: "no: Bearer s3cret" })
    const server = yield* rawServer((socket) => respond(socket, 403, body))
    const result = yield* dispatch(server.url)
    assert.notInclude(JSON.stringify(result), "s3cret")
    assert.include(ToolResult.text(result), "Bearer <token>")
  })

  test.live("unknown keys of a later server are ignored", http, function* () {
    const server = yield* rawServer((socket) => respond(socket, 200, answer(shipped, { extra: 1 })))
    assert.deepStrictEqual(yield* dispatch(server.url), ToolResult.success("shipped"))
  })

  test.live("L2 a call larger than the limit is not sent", http, function* () {
    const server = yield* rawServer((socket) => respond(socket, 200, answer(shipped)))
    const large = { arguments: { text: "x".repeat(2000) } }
    const found = yield* failing(server.url, large, { limits: { maxBytes: 1000 } })
    assert.deepStrictEqual(found, { reason: "request_too_large", outcome: "not_executed" })
    assert.strictEqual(server.requests.length, 0)
  })
})

describe("RT-5 time", () => {
  const failed = (request: HttpClientError.TransportError["request"], code?: string) => {
    const cause = Object.assign(new Error("no"), { code })
    const reason = new HttpClientError.TransportError({ request, ...(code === undefined ? {} : { cause }) })
    return Effect.fail(new HttpClientError.HttpClientError({ reason }))
  }

  /** Takes one step of the script for each request. */
  const scripted = (...steps: ReadonlyArray<"refuse" | "cut" | "hang" | "answer">) => {
    const seen: Array<string> = []
    const sent: Array<Record<string, unknown>> = []
    const client = HttpClient.make((request) => {
      const step = steps[seen.length] ?? "hang"
      seen.push(step)
      const { body } = request
      sent.push(JSON.parse(new TextDecoder().decode(body._tag === "Uint8Array" ? body.body : undefined)))
      switch (step) {
        case "refuse":
          return failed(request, "ECONNREFUSED")
        case "cut":
          return failed(request)
        case "hang":
          return Effect.never
        case "answer":
          return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(answer(shipped))))
      }
    })
    return { layer: Layer.succeed(HttpClient.HttpClient, client), seen, sent }
  }

  const refusals = Array.from({ length: 20 }, () => "refuse" as const)

  const send = (http: ReturnType<typeof scripted>, over?: Over, options?: Options) =>
    dispatch("http://tools.example", over, { retry: undefined, margin: "2 seconds", ...options }).pipe(
      Effect.provide(http.layer)
    )

  /** The result of a call while that much time passes. */
  const during = (time: Duration.Input, ...args: Parameters<typeof send>) => after(time, send(...args))

  test("L9 waits the timeout and the margin, then timeout_error", function* () {
    const call = send(scripted("hang"))
    assert.isTrue(Option.isNone(yield* after("11 seconds", Effect.timeoutOption(call, "11 seconds"))))
    const expected = ToolResult.failure("timeout_error", "Tool execution timed out after 10 seconds")
    assert.deepStrictEqual(yield* after("12 seconds", call), expected)
  })

  test("the deadline of the run shortens the wait", function* () {
    assert.strictEqual(kind(yield* during("5 seconds", scripted("hang"), { deadline: 3000 })), "timeout_error")
  })

  test("SOUND-3 M6 the time left is sent, and no reading of a clock, where the server would not stop by itself before", function* () {
    yield* TestClock.adjust("1 second")
    const sent = Effect.fnUntraced(function* (over: Over) {
      const http = scripted("answer")
      yield* during(0, http, over)
      assert.notProperty(http.sent[0], "deadline")
      return http.sent[0]?.["timeLeft"]
    })
    const timeout = Duration.seconds(2)
    assert.isUndefined(yield* sent({}))
    assert.isUndefined(yield* sent({ timeout: Duration.seconds(60) }))
    assert.strictEqual(yield* sent({ timeout }), 2000)
    assert.strictEqual(yield* sent({ deadline: 20_000 }), 19_000)
    assert.strictEqual(yield* sent({ deadline: 20_000, timeout }), 2000)
    assert.strictEqual(yield* sent({ deadline: 2000, timeout: Duration.infinity }), 1000)
  })

  test("a passed deadline sends nothing", function* () {
    yield* TestClock.adjust("5 seconds")
    const http = scripted()
    assert.strictEqual(kind(yield* during(0, http, { deadline: 3000 })), "timeout_error")
    assert.deepStrictEqual(http.seen, [])
  })

  test("by default a refused connection is tried six times within about three seconds", function* () {
    const http = scripted(...refusals)
    assert.deepStrictEqual(yield* Effect.flatMap(during("3100 millis", http), unavailable), unreachable)
    assert.strictEqual(http.seen.length, 6)
  })

  test("a server that comes up while the client tries again is used, by every tool", function* () {
    const http = scripted("refuse", "refuse", "answer")
    assert.deepStrictEqual(yield* during("300 millis", http), ToolResult.success("shipped"))
  })

  test("trying again never exceeds the timeout and the margin", function* () {
    const http = scripted(...refusals)
    const options = { retry: Schedule.spaced("700 millis"), margin: "1 second" } as const
    const result = yield* during("2 seconds", http, { timeout: Duration.seconds(1) }, options)
    assert.deepStrictEqual(yield* unavailable(result), unreachable)
    assert.strictEqual(http.seen.length, 3)
  })

  test("once a cut call may have run, an unreachable server no longer means that it did not", function* () {
    const result = yield* during("4 seconds", scripted("cut", ...refusals), { idempotent: true })
    assert.deepStrictEqual(yield* unavailable(result), { reason: "unreachable", outcome: "unknown" })
  })

  test("a refused connection, then no answer: a timeout_error, for the tool may be running", function* () {
    assert.strictEqual(kind(yield* during("12 seconds", scripted("refuse", "hang"))), "timeout_error")
  })

  test("a refused connection, then a cut: not tried again", function* () {
    const http = scripted("refuse", "cut", "answer")
    assert.strictEqual((yield* Effect.flatMap(during("4 seconds", http), unavailable)).outcome, "unknown")
    assert.deepStrictEqual(http.seen, ["refuse", "cut"])
  })
})

describe("RT-5 options", () => {
  const build = (options: Parameters<typeof RemoteTools.layerRuntime>[0]) =>
    Effect.flip(Effect.scoped(Layer.build(RemoteTools.layerRuntime(options)))).pipe(
      Effect.provide(FetchHttpClient.layer)
    )

  test("an unusable URL or token is a typed failure of the layer", function* () {
    for (const url of ["nope", "file:///etc", "http://u:p@h/"]) {
      assert.deepInclude(yield* build({ url, token }), { _tag: "InvalidOption", option: "url" })
    }
    for (const text of [" ", "a\nb", "sch\u00fcssel", "a\u0000b", "\u30c8\u30fc\u30af\u30f3"]) {
      const error = yield* build({ url: "http://h/", token: Redacted.make(text) })
      assert.deepInclude(error, { _tag: "InvalidOption", option: "token" })
      assert.include(error.message, "printable ASCII")
      if (text !== " ") assert.notInclude(String(error), text)
    }
  })

  test("five calls of a batch at once, unless the option differs", function* () {
    const concurrency = (maxConcurrency?: number) => {
      const layer = RemoteTools.layerRuntime({ url: "http://h/", token, maxConcurrency })
      const runtime = Effect.provide(ToolRuntime.ToolRuntime, Layer.provide(layer, FetchHttpClient.layer))
      return Effect.map(runtime, ({ concurrency }) => concurrency)
    }
    assert.deepStrictEqual(yield* Effect.all([concurrency(), concurrency(2)]), [5, 2])
  })

  test("tools that are bound here run here", function* () {
    const execute = Option.some(Effect.succeed(ToolResult.success("here")))
    const client = HttpClient.make(() => Effect.die("no network"))
    const here = dispatch("http://tools.example", { execute })
    const result = yield* Effect.provideService(here, HttpClient.HttpClient, client)
    assert.deepStrictEqual(result, ToolResult.success("here"))
  })
})

describe("RT-5 redirects", () => {
  for (const status of [301, 302, 303, 307, 308]) {
    const name = `RT-5 a redirect (${status}) takes neither the call nor the result to another host`
    test.live(name, FetchHttpClient.layer, function* () {
      const elsewhere = yield* rawServer((socket) => respond(socket, 200, answer(shipped)))
      const location = `Location: ${elsewhere.url}/tools/execute\r\n`
      const server = yield* rawServer((socket) => respond(socket, status, "", location))
      assert.deepStrictEqual(yield* failing(server.url), { reason: "invalid_response", outcome: "unknown", status })
      assert.deepStrictEqual(elsewhere.requests, [])
    })
  }
})
