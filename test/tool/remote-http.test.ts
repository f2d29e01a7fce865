import { assert, describe } from "@effect/vitest"
import {
  type Cause,
  Clock,
  Context,
  Duration,
  Effect,
  Fiber,
  FileSystem,
  Layer,
  Logger,
  Queue,
  Redacted,
  Schema
} from "effect"
import { Agent, RunContext, ToolContract } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { ScriptedModel } from "effect-emissary/testing"
import { Tool, Toolkit } from "effect/ai"
import { HttpClient, HttpClientRequest, HttpRouter, HttpServer, FetchHttpClient } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { TestClock } from "effect/testing"
import { connect, exchange } from "./fixtures/remote-raw.ts"
import { http, routes, serve, token, url } from "./fixtures/remote-serve.ts"
import { Probe, secret, Tools } from "./fixtures/remote-tools.ts"
import { test } from "../test.ts"

interface Answer {
  readonly status: number
  readonly type: string | null
  // the tests look into answers of every shape
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any
}

const send = (path: string, init?: RequestInit) =>
  Effect.flatMap(url, (url) =>
    Effect.promise(async (signal): Promise<Answer> => {
      const response = await fetch(url + path, { signal, ...init })
      const text = await response.text()
      return { status: response.status, type: response.headers.get("content-type"), body: JSON.parse(text) }
    })
  )

const headers = { authorization: "Bearer s3cret", "content-type": "application/json" }

const request = (name: string, args: unknown = {}, over?: object) => {
  const call = { runId: "r1", callId: "c1", name, arguments: args }
  return { protocol: 1, ...call, ...over }
}

const postText = (body: string, over?: object) =>
  send("/tools/execute", { method: "POST", headers: { ...headers, ...over }, body })

const post = (body: unknown, over?: object) => postText(JSON.stringify(body), over)

/** The head of a request as bytes, for the token and the other headers. */
const head = (token: string, ...lines: ReadonlyArray<string>) =>
  ["POST /tools/execute HTTP/1.1", "host: a", `authorization: ${token}`, ...lines, "", ""].join("\r\n")

/** Runs a call that must have a result and returns it. */
const execute = (name: string, args: unknown = {}, over?: object) =>
  Effect.map(post(request(name, args, over)), ({ body, status }) => {
    assert.strictEqual(status, 200, JSON.stringify(body))
    assert.strictEqual(body.protocol, 1)
    assert.strictEqual(body.callId, "c1")
    return body.result
  })

const refused = (answer: Answer, status: number, tag: string) => {
  assert.strictEqual(answer.status, status, JSON.stringify(answer.body))
  assert.match(answer.type ?? "", /^application\/json/)
  assert.strictEqual(answer.body._tag, tag)
  assert.isAbove(answer.body.message.length, 5)
}

describe("RT-5 a client that knows nothing but fetch", () => {
  test.live("runs a tool", serve(), function* () {
    const value = { id: "42", at: "1970-01-01T00:00:01.000Z" }
    assert.deepStrictEqual(yield* execute("get_order", { id: "42" }), {
      _tag: "Success",
      content: [{ type: "text", text: JSON.stringify(value) }],
      value
    })
  })

  test.live("TRUST-6 runs an agent of the toolkit, and never calls a tool unknown that it was given", function* () {
    const desk = Toolkit.make(
      Tool.make("pay", { success: Schema.String, needsApproval: true }),
      Tool.make("look", { success: Schema.String })
    )
    class Clerk extends Agent.Service<Clerk>()("clerk", {
      instructions: Effect.map(RunContext.RunContext, (context) => `You work for ${JSON.stringify(context)}.`),
      toolkit: desk
    }) {}
    const Web = Tool.providerDefined({ id: "acme.web", customName: "web", providerName: "web" })(undefined)
    const toolkit = Toolkit.make(Agent.asTool(Clerk, { name: "ask", description: "Asks the clerk" }), Web)
    const model = ScriptedModel.layer(({ messages }) => {
      const last = messages.at(-1)
      if (last?.role === "user" && last.text !== "Hello") return { toolCalls: [{ name: last.text, params: {} }] }
      return { text: `${messages[0]?.text} ${last?.text}` }
    })
    const clerk = Clerk.layer.pipe(
      Layer.provide(desk.toLayer({ look: () => Effect.succeed("nothing"), pay: () => Effect.succeed("paid") })),
      Layer.provide(model)
    )
    const routes = RemoteTools.layerServer(toolkit, { token, context: Effect.succeed }).pipe(Layer.provide(clerk))
    const server = HttpRouter.serve(routes, { disableLogger: true, disableListenLog: true })
    yield* Effect.gen(function* () {
      const context = { tenant: "acme" }
      const hello = yield* execute("ask", { input: "Hello" }, { context })
      assert.deepInclude(hello, { _tag: "Success", value: `You work for {"tenant":"acme"}. Hello` })
      assert.strictEqual(
        (yield* execute("ask", { input: "look" }, { context })).value,
        `You work for {"tenant":"acme"}. nothing`
      )
      const waiting = yield* execute("ask", { input: "pay" })
      assert.deepStrictEqual(
        [waiting.type, waiting.message],
        [
          "execution_error",
          `The agent "clerk" returned no answer: it asks for approvals, and only the run of an agent can wait for them`
        ]
      )
      assert.deepInclude(yield* execute("web"), { _tag: "Failure", type: "execution_error" })
      const { body } = yield* send("/tools", { headers })
      assert.deepStrictEqual(
        body.tools.map(({ name }: { readonly name: string }) => name),
        ["ask"]
      )
    }).pipe(Effect.provide(Layer.provideMerge(server, http)))
  })

  test.live("reads a typed failure of the tool", serve(), function* () {
    const value = { _tag: "NoSuchOrder", id: "0", since: "1970-01-01T00:00:00.000Z" }
    const result = yield* execute("get_order", { id: "0" })
    assert.deepInclude(result, { _tag: "Failure", type: "NoSuchOrder", value })
  })

  test.live("reads the failure type of a ToolFailure", serve(), function* () {
    const result = yield* execute("report", { items: [] })
    assert.deepStrictEqual([result.type, result.message], ["nothing_to_report", "No items"])
  })

  test.live("an unknown tool is a result, also a name that every object has", serve(), function* () {
    for (const name of ["nope", "constructor", "__proto__", "toString"]) {
      const result = yield* execute(name, {})
      assert.strictEqual(result.type, "unknown_tool")
      assert.include(result.message, "get_order")
    }
  })

  test.live("arguments that do not fit are a result with all problems, and nothing runs", serve(), function* () {
    const result = yield* execute("report", { items: [{ sku: 1, qty: "x" }] })
    assert.strictEqual(result.type, "validation_error")
    for (const path of ["items/0/sku", "items/0/qty"]) assert.include(result.message, path)
  })

  test.live("RT-3 the server enforces the tool's timeout and interrupts the handler", serve(), function* () {
    assert.strictEqual((yield* execute("brief", {})).type, "timeout_error")
    assert.deepStrictEqual(yield* Queue.takeN(yield* Probe, 2), ["brief started", "brief interrupted"])
  })

  test.live("RT-3 the server enforces the time left of the request", serve(), function* () {
    for (const timeLeft of [30, 0]) {
      assert.strictEqual((yield* execute("wait", {}, { timeLeft })).type, "timeout_error")
    }
  })

  const logged: Array<string> = []
  const capture = Logger.layer([
    Logger.make(({ cause, message }) => {
      logged.push(`${String(message)} ${JSON.stringify(cause)} ${causeText(cause)}`)
    })
  ])
  const captured = serve().pipe(Layer.provide(capture))

  test.live("RT-3 a defect is generic for the caller, its cause is in the server's log", captured, function* () {
    const answer = yield* post(request("boom"))
    assert.deepStrictEqual([answer.status, answer.body.result.type], [200, "unhandled_error"])
    for (const word of ["hunter2", "Error:"]) assert.notInclude(JSON.stringify(answer), word)
    assert.include(logged.join("\n"), secret)
  })

  test.live("RT-5 closing the connection interrupts the handler", serve(), function* () {
    const body = JSON.stringify(request("wait"))
    const probe = yield* Probe
    const open = connect(yield* url, head("Bearer s3cret", `content-length: ${body.length}`) + body)
    assert.strictEqual(yield* Effect.scoped(Effect.andThen(open, Queue.take(probe))), "wait started")
    assert.strictEqual(yield* Queue.take(probe), "wait interrupted")
  })

  test.live("lists the contracts", serve(), function* () {
    const { body, status } = yield* send("/tools", { headers })
    assert.strictEqual(status, 200)
    assert.strictEqual(body.protocol, 1)
    const names = body.tools.map((tool: { readonly name: string }) => tool.name)
    assert.deepStrictEqual(names, ["get_order", "report", "who_am_i", "wait", "brief", "touch", "boom"])
    const [getOrder] = body.tools
    assert.deepInclude(getOrder, { timeout: 10_000, approval: "never" })
    assert.strictEqual(getOrder.annotations.readonly, true)
    assert.strictEqual(getOrder.parameters.additionalProperties, false)
    assert.match(getOrder.digest, /^sha256:/)
    const result = yield* execute("get_order", { id: "1" }, { contractDigest: getOrder.digest })
    assert.strictEqual(result._tag, "Success")
  })

  test.live("TRUST-2 a contract that was weakened is refused, a stricter one is not", serve(), function* () {
    const answerTo = Effect.fnUntraced(function* (tool: "get_order" | "touch", change: object) {
      const contract = { ...(yield* ToolContract.fromTool(Tools.tools[tool])), ...change }
      const contractDigest = yield* ToolContract.digest(contract)
      return (yield* post(request(tool, tool === "touch" ? {} : { id: "1" }, { contractDigest }))).status
    })
    /** The parts that version 1 of an agent carries. */
    const bare = { success: undefined, failure: undefined, annotations: {} }
    const cases = [
      ["touch", {}, 200],
      ["touch", bare, 200],
      ["touch", { approval: "never" }, 409],
      ["touch", { approval: "dynamic" }, 409],
      ["touch", { ...bare, approval: "never" }, 409],
      ["touch", { timeout: Duration.hours(1) }, 409],
      ["touch", { annotations: { readonly: true } }, 409],
      ["get_order", bare, 200],
      ["get_order", { approval: "always" }, 200],
      ["get_order", { ...bare, approval: "always" }, 200],
      ["get_order", { annotations: { readonly: true, idempotent: true } }, 409],
      ["get_order", { success: {} }, 409]
    ] as const
    for (const [tool, change, status] of cases) {
      assert.strictEqual(yield* answerTo(tool, change), status, `${tool} ${JSON.stringify(change)}`)
    }
  })

  test.live("publishes the OpenAPI document, with every refusal and the bearer scheme", serve(), function* () {
    const { body, status } = yield* send("/openapi.json")
    assert.strictEqual(status, 200)
    assert.match(body.openapi, /^3\.1/)
    const operation = body.paths["/tools/execute"].post
    assert.deepStrictEqual(Object.keys(operation.responses), [
      "200",
      "400",
      "401",
      "403",
      "408",
      "409",
      "413",
      "415",
      "500"
    ])
    assert.deepStrictEqual(operation.security, [{ bearer: [] }])
    assert.strictEqual(body.components.securitySchemes.bearer.scheme.toLowerCase(), "bearer")
    assert.isDefined(body.components.schemas.ExecuteRequestV1)
    assert.isDefined(body.paths["/tools"].get)
  })

  test.live("a client derived from the HttpApi value works", Layer.merge(FetchHttpClient.layer, serve()), function* () {
    const client = yield* HttpApiClient.make(RemoteTools.Api, {
      baseUrl: yield* url,
      transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken(token))
    })
    const { tools } = yield* client.listTools()
    assert.strictEqual(tools.length, 7)
    const payload = { protocol: 1, runId: "r", callId: "c", name: "get_order", arguments: { id: "1" } } as const
    assert.strictEqual((yield* client.executeTool({ payload })).result._tag, "Success")
    const other = client.executeTool({ payload: { ...payload, contractDigest: "sha256:0" } })
    assert.strictEqual((yield* Effect.flip(other))._tag, "ContractMismatch")
  })
})

const causeText = (cause: Cause.Cause<unknown>): string =>
  cause.reasons.map((reason) => (reason._tag === "Die" ? String(reason.defect) : reason._tag)).join()

describe("RT-5 refusals", () => {
  test.live("401 for a missing, wrong, empty or lengthened token, for every endpoint", serve(), function* () {
    const wrong = ["Bearer wrong", "Bearer ", "Bearer", "Bearer s3cret2", "Bearer s3cre", "Basic s3cret", "s3cret"]
    for (const authorization of [undefined, ...wrong]) {
      const headers = authorization === undefined ? {} : { authorization }
      refused(yield* send("/tools", { headers }), 401, "Unauthorized")
      refused(yield* send("/tools/execute", { method: "POST", headers, body: "{" }), 401, "Unauthorized")
    }
    assert.strictEqual(Queue.sizeUnsafe(yield* Probe), 0)
  })

  const early = Effect.fnUntraced(function* (text: string, status: number, ...parts: ReadonlyArray<string>) {
    const answer = yield* exchange(yield* url, text)
    for (const part of [`HTTP/1.1 ${status} `, ...parts]) assert.include(answer, part)
  })

  test.live("401 is answered before the body has arrived", serve(), function* () {
    yield* early(`${head("Bearer no", "content-length: 1000000")}{`, 401, `"_tag":"Unauthorized"`)
  })

  const small = serve({ limits: { maxBytes: 1000 } })

  test.live("413 for a declared length, before the body has arrived", small, function* () {
    const text = `${head("Bearer s3cret", "content-length: 1000000")}{`
    yield* early(text, 413, `"_tag":"RequestTooLarge"`, `"limit":1000`)
  })

  test.live("413 for a body without a declared length and without an end", small, function* () {
    const text = `${head("Bearer s3cret", "transfer-encoding: chunked")}800\r\n${" ".repeat(0x800)}\r\n`
    yield* early(text, 413, `"_tag":"RequestTooLarge"`)
  })

  test.live("413 for 20 MB from fetch", serve(), function* () {
    refused(yield* postText("x".repeat(20_000_000)), 413, "RequestTooLarge")
  })

  const slow = serve({ bodyTimeout: "50 millis" })

  for (const [what, framing, begin] of [
    ["that stops", "content-length: 100", "{"],
    ["that never begins", "content-length: 100", ""],
    ["without a declared length", "transfer-encoding: chunked", "1\r\n{\r\n"]
  ] as const) {
    test.live(`TRUST-5 408 for a body ${what}, and the connection is closed`, slow, function* () {
      const socket = yield* connect(yield* url, head("Bearer s3cret", framing) + begin)
      let answer = ""
      socket.on("data", (chunk) => (answer += chunk.toString("utf8")))
      yield* Effect.callback<void>((resume) => void socket.on("end", () => resume(Effect.void)))
      for (const part of ["HTTP/1.1 408 ", `"_tag":"RequestTimeout"`, "within 0.05 seconds"])
        assert.include(answer, part)
      assert.match(answer, /^connection: close/im)
    })
  }

  test("TRUST-5 a slow body is given up after 30 seconds by default", serve(), function* () {
    const answer = yield* Effect.forkChild(exchange(yield* url, `${head("Bearer s3cret", "content-length: 100")}{`))
    while (answer.pollUnsafe() === undefined) {
      yield* Effect.promise(() => new Promise(setImmediate))
      yield* TestClock.adjust("1 second")
    }
    assert.include(yield* Fiber.join(answer), "HTTP/1.1 408 ")
    assert.isAtLeast(yield* Clock.currentTimeMillis, 30_000)
  })

  test.live("415 for another media type, none for none", serve(), function* () {
    const body = JSON.stringify(request("who_am_i"))
    refused(yield* postText(body, { "content-type": "text/plain" }), 415, "UnsupportedMediaType")
    const { status } = yield* postText(body, { "content-type": "application/JSON; charset=utf-8" })
    assert.strictEqual(status, 200)
    yield* early(head("bearer s3cret", "connection: close", `content-length: ${body.length}`) + body, 200)
  })

  test.live("400 with the place for everything that is not the request", serve(), function* () {
    const texts = ["", "{ nope", "[]", "null", '{"protocol":1}\u0000', "[".repeat(100_000)]
    for (const text of texts) refused(yield* postText(text), 400, "InvalidRequest")
    const missing = yield* post({ protocol: 1, callId: 3, name: "get_order" })
    refused(missing, 400, "InvalidRequest")
    const paths = missing.body.issues.map((issue: { readonly path: string }) => issue.path)
    for (const path of ["/runId", "/callId", "/arguments"]) assert.include(paths, path)
  })

  test.live("400 for a misspelt key, so that a misspelt check is not skipped in silence", serve(), function* () {
    const answer = yield* post(request("get_order", { id: "1" }, { contractDigets: "sha256:0" }))
    refused(answer, 400, "InvalidRequest")
    assert.include(JSON.stringify(answer.body.issues), "contractDigets")
  })

  test.live("TRUST-5 400 for a digest longer than any, which would be repeated", serve(), function* () {
    const answer = yield* post(request("get_order", { id: "1" }, { contractDigest: "x".repeat(1_000_000) }))
    refused(answer, 400, "InvalidRequest")
    assert.strictEqual(answer.body.issues[0].path, "/contractDigest")
    assert.isBelow(JSON.stringify(answer.body).length, 500)
  })

  test.live("L2 400 for __proto__ anywhere", serve(), function* () {
    const body = `{"protocol":1,"runId":"r","callId":"c","name":"who_am_i","arguments":{"a":[{"__proto__":{"b":1}}]}}`
    refused(yield* postText(body), 400, "InvalidRequest")
  })

  test.live("400 for another protocol, naming the supported ones", serve(), function* () {
    for (const protocol of [2, 0, "1", null, {}]) {
      const answer = yield* post({ protocol, later: "fields" })
      refused(answer, 400, "UnsupportedProtocol")
      assert.deepStrictEqual(answer.body.supported, [1])
    }
    refused(yield* post({}), 400, "InvalidRequest")
  })

  test.live("404 below /tools, with the known endpoints; other paths are the application's", serve(), function* () {
    for (const path of ["/tools/nope", "/tools/a/b/c", "/tools/execute"]) {
      refused(yield* send(path, { headers }), 404, "UnknownEndpoint")
    }
    for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
      refused(yield* send("/tools", { method, headers, body: "{}" }), 404, "UnknownEndpoint")
    }
    const other = yield* send("/other", { headers }).pipe(Effect.sandbox, Effect.option)
    assert.strictEqual(other._tag, "None")
  })

  test.live("409 for another contract", serve(), function* () {
    const answer = yield* post(request("get_order", { id: "1" }, { contractDigest: "sha256:00" }))
    refused(answer, 409, "ContractMismatch")
    assert.deepInclude(answer.body, { tool: "get_order", found: "sha256:00" })
    assert.match(answer.body.expected, /^sha256:[0-9a-f]{64}$/)
    assert.strictEqual(Queue.sizeUnsafe(yield* Probe), 0)
  })

  const dying = serve({ context: () => Effect.die(new Error(secret)) }).pipe(Layer.provideMerge(Logger.layer([])))

  test.live("500 without details when the application's context function dies", dying, function* () {
    const answer = yield* post(request("who_am_i"))
    refused(answer, 500, "InternalError")
    assert.notInclude(JSON.stringify(answer), "hunter2")
  })
})

describe("RT-5 the context of the run is a claim", () => {
  test.live("by default it is ignored", serve(), function* () {
    const result = yield* execute("who_am_i", {}, { context: { tenant: "acme" } })
    assert.deepStrictEqual(result.value, {})
  })

  const acmeOnly = serve({
    context: (claimed, { name }) =>
      claimed["tenant"] === "acme"
        ? Effect.succeed({ tenant: "acme", by: name })
        : Effect.fail(new RemoteTools.Denied({ message: "Not your tenant" }))
  })

  test.live("the server decides, knowing whose token it was", acmeOnly, function* () {
    const result = yield* execute("who_am_i", {}, { context: { tenant: "acme" } })
    assert.deepStrictEqual(result.value, { tenant: "acme", by: "default" })
    for (const name of ["who_am_i", "nope"]) {
      const denied = yield* post(request(name, {}, { context: { tenant: "other" } }))
      refused(denied, 403, "Denied")
      assert.strictEqual(denied.body.message, "Not your tenant")
    }
  })

  const named = serve({
    token: { alice: Redacted.make("one"), bob: Redacted.make("two") },
    context: (_, { name }) => Effect.succeed({ name })
  })

  test.live("several tokens distinguish callers", named, function* () {
    for (const [token, name] of Object.entries({ one: "alice", two: "bob" })) {
      const answer = yield* post(request("who_am_i"), { authorization: `Bearer ${token}` })
      assert.deepStrictEqual(answer.body.result.value, { name })
    }
    refused(yield* post(request("who_am_i")), 401, "Unauthorized")
  })
})

describe("RT-5 the server is a layer", () => {
  test.live("begins at the given path, next to other routes", serve({ path: "/agents/v1" }), function* () {
    assert.strictEqual((yield* send("/agents/v1/tools", { headers })).status, 200)
    refused(yield* send("/agents/v1/tools/x", { headers }), 404, "UnknownEndpoint")
    const document = yield* send("/agents/v1/openapi.json")
    assert.isDefined(document.body.paths["/agents/v1/tools/execute"])
  })

  const quiet = { disableLogger: true, disableListenLog: true }
  const both = Layer.merge(
    routes({ path: "/a", token: Redacted.make("one") }),
    routes({ path: "/b/", token: Redacted.make("two") })
  )
  const shared = HttpRouter.serve(both, quiet).pipe(Layer.provideMerge(http), Layer.provide(Probe.layer))

  test.live("several toolkits share one server, each with its own token", shared, function* () {
    const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })
    assert.strictEqual((yield* send("/a/tools", as("one"))).status, 200)
    assert.strictEqual((yield* send("/b/tools", as("two"))).status, 200)
    refused(yield* send("/a/tools", as("two")), 401, "Unauthorized")
    refused(yield* send("/b/tools", as("one")), 401, "Unauthorized")
  })

  test.live("runs as a web handler, without a server of Node", function* () {
    const { dispose, handler } = HttpRouter.toWebHandler(
      routes({ limits: { maxBytes: 1000 } }).pipe(Layer.provide([Probe.layer, HttpServer.layerServices])),
      quiet
    )
    const call = (body: string) =>
      Effect.promise(async () => {
        const request = new Request("http://a/tools/execute", { method: "POST", headers, body })
        const response = await handler(request, Context.empty())
        return [response.status, await response.json()] as const
      })
    const [status, body] = yield* call(JSON.stringify(request("get_order", { id: "7" })))
    assert.deepStrictEqual([status, body.result.value.id], [200, "7"])
    const [large, refusal] = yield* call("x".repeat(2000))
    assert.deepStrictEqual([large, refusal._tag], [413, "RequestTooLarge"])
    yield* Effect.promise(dispose)
  })

  test("refuses an empty token, which every caller knows, one of two callers, and no time for a body", function* () {
    const twice = { alice: Redacted.make("a"), bob: Redacted.make("a") }
    for (const token of [Redacted.make(""), {}, { alice: Redacted.make(" ") }, twice]) {
      const error = yield* Effect.flip(Effect.scoped(Layer.build(serve({ token }))))
      assert.strictEqual(error._tag, "InvalidOption")
    }
    for (const bodyTimeout of [0, -1, Number.NaN]) {
      const error = yield* Effect.flip(Effect.scoped(Layer.build(serve({ bodyTimeout }))))
      assert(error._tag === "InvalidOption" && error.option === "bodyTimeout")
    }
  })

  test.live("a handler keeps the services its layer was given, also where the server has others", function* () {
    const Read = Tool.make("read", { success: Schema.String })
    const confined = Toolkit.make(Read)
    const read = () => Effect.orDie(FileSystem.FileSystem.use((fs) => fs.readFileString("/etc/hosts")))
    // the services that the layer captured are under test, not the services that the type requires
    const layer = confined.toLayer({ read } as unknown as Toolkit.HandlersFrom<{ readonly read: typeof Read }>)
    const own = FileSystem.layerNoop({ readFileString: () => Effect.succeed("confined") })
    const server = HttpRouter.serve(
      RemoteTools.layerServer(confined, { token }).pipe(Layer.provide(Layer.provide(layer, own))),
      quiet
    ).pipe(Layer.provideMerge(http))
    assert.strictEqual((yield* Effect.provide(execute("read"), server)).value, "confined")
  })
})
