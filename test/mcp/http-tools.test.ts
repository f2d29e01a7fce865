import { assert, describe } from "@effect/vitest"
import { NodeHttpServer } from "@effect/platform-node"
import { Clock, Effect, Fiber, Layer, Logger, Redacted, Schedule, Schema, Stream, Tracer } from "effect"
import { McpProtocol, McpServer, Tool, Toolkit } from "effect/ai"
import { FetchHttpClient, HttpClient, HttpClientError, HttpClientResponse, HttpRouter, HttpServer } from "effect/http"
import { TestClock } from "effect/testing"
import { Agent, type Limits, ModelRegistry, ToolResolver, ToolResult, ToolRuntime } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { McpTools, McpToolServer } from "effect-emissary/mcp"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { ScriptedModel } from "effect-emissary/testing"
import packageJson from "../../package.json" with { type: "json" }
import { call } from "../agent/fixtures.ts"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import { listen } from "./fixtures/sdk-server.ts"
import { agent, calling, results, runCalls, typeOf, valueOf } from "./support.ts"

type Fixture = Awaited<ReturnType<typeof listen>>

const serving = (options?: Parameters<typeof listen>[0]) =>
  Effect.acquireRelease(
    Effect.promise(() => listen(options)),
    (server) => Effect.promise(() => server.close())
  )

const oneAttempt = { retry: Schedule.recurs(0) }

const tools = (url: string, options: Partial<McpTools.HttpServer> = {}) =>
  McpTools.layer({ demo: { url, approval: "never", ...oneAttempt, ...options } }).pipe(
    Layer.provide(FetchHttpClient.layer)
  )

const withSdk = <A, E>(
  body: (server: Fixture) => Effect.Effect<A, E, McpTools.McpTools>,
  options?: Parameters<typeof listen>[0]
) => Effect.flatMap(serving(options), (server) => Effect.provide(body(server), tools(server.url)))

const wait = (until: Effect.Effect<boolean>) =>
  Effect.repeat(Effect.delay(until, "5 millis"), { until: (done: boolean) => done })

describe("MCP-1 a server of the official SDK over streamable HTTP", () => {
  test.live("MCP-1 calls, progress and images", function* () {
    const program = withSdk(() =>
      Effect.gen(function* () {
        const [echo, picture, sum] = yield* runCalls(["echo", { text: "hi" }], ["picture"], ["sum", { a: 1, b: 2 }])
        assert.deepStrictEqual(echo, ToolResult.success("hi"))
        assert.lengthOf(picture === undefined ? [] : ToolResult.content(picture), 6)
        assert.deepStrictEqual(valueOf(sum), { sum: 3 })
        const events = yield* Effect.provide(Stream.runCollect(agent.stream("Go")), calling(["steps"]))
        assert.deepStrictEqual(
          events.flatMap((event) => (event._tag === "ToolProgress" ? [ToolResult.text(event.result)] : [])),
          ["step 1", "step 2"]
        )
      })
    )
    yield* program
  })

  test.live("MCP-1 changes are announced on a stream of their own", function* () {
    yield* withSdk(({ seen }) =>
      Effect.gen(function* () {
        yield* McpTools.toolkit
        yield* wait(Effect.sync(() => seen.includes("GET")))
        yield* Effect.sleep("50 millis")
        yield* McpTools.toolkit
        const listings = () => seen.filter((one) => one === "listed").length
        const before = listings()
        yield* McpTools.toolkit
        assert.strictEqual(listings(), before, "a server that announces changes is not asked again")
        const [, echo, sum] = yield* runCalls(["change"], ["echo", { text: "hi" }], ["sum", { a: 1, b: 2 }])
        for (const result of [echo, sum]) {
          assert.deepStrictEqual(valueOf(result), { reason: "contract_mismatch", outcome: "not_executed" })
        }
        const [again] = yield* runCalls(["sum", { a: 1, b: 2 }])
        assert.deepStrictEqual(valueOf(again), { sum: 3 })
      })
    )
  })

  test.live("MCP-1 a session that the server forgot is replaced, and the call made again", function* () {
    yield* withSdk(({ forget, seen }) =>
      Effect.gen(function* () {
        yield* runCalls(["echo", { text: "one" }])
        forget()
        const tools = yield* McpTools.toolkit
        assert.lengthOf(tools, 11)
        const forgetful = Agent.make("a", { toolkit: Effect.succeed(tools) })
        forget()
        const { text } = yield* Effect.provide(forgetful.run("Go"), calling(["echo", { text: "two" }]))
        assert.strictEqual(text, "done")
        assert.lengthOf(
          seen.filter((one) => one === "echo"),
          2
        )
      })
    )
  })

  test.live("MCP-1 an agent with tools of a server is data that binds to them elsewhere", function* () {
    yield* withSdk(() =>
      Effect.gen(function* () {
        const json = yield* Agent.encodeJson(agent)
        const resolver = ToolResolver.layerToolkit(Toolkit.make(...(yield* McpTools.toolkit)))
        const rebuilt = yield* Agent.decodeJson(json).pipe(
          Effect.provide(
            Layer.provideMerge(Layer.merge(resolver, ModelRegistry.layerContext), calling(["sum", { a: 1, b: 2 }]))
          )
        )
        const events = yield* Stream.runCollect(rebuilt.stream("Go"))
        const [result] = events.flatMap((event) => (event._tag === "ToolFinished" ? [event.result] : []))
        assert.deepStrictEqual(result, ToolResult.success({ sum: 3 }))
      })
    )
  })

  test.live(
    "MCP-1 a connection that is cut leaves the outcome unknown, and one that cannot be made leaves it undone",
    function* () {
      const server = yield* serving()
      yield* Effect.gen(function* () {
        const [crash, echo] = yield* runCalls(["crash"], ["echo", { text: "back" }])
        assert.deepStrictEqual(valueOf(crash), { reason: "connection_lost", outcome: "unknown" })
        assert.deepStrictEqual(echo, ToolResult.success("back"))
        const found = yield* McpTools.toolkit
        yield* Effect.promise(() => server.close())
        const late = Agent.make("a", { toolkit: Effect.succeed(found) })
        const events = yield* Effect.provide(Stream.runCollect(late.stream("Go")), calling(["echo", { text: "hi" }]))
        const [result] = events.flatMap((event) => (event._tag === "ToolFinished" ? [event.result] : []))
        assert.deepStrictEqual(valueOf(result), { reason: "unreachable", outcome: "not_executed" })
        assert.strictEqual((yield* Effect.flip(McpTools.toolkit)).reason._tag, "Unreachable")
        const error = yield* failsFor("PreparationFailed", Effect.provide(agent.run("Go"), ScriptedModel.layer([])))
        assert.include(error.message, `The MCP server "demo" cannot be used`)
      }).pipe(Effect.provide(tools(server.url)))
    }
  )

  test.live("MCP-1 L8 a token is sent, and in no message", function* () {
    const server = yield* serving({ token: "t0ken-s3cret" })
    const authorized = { headers: { authorization: Redacted.make("Bearer t0ken-s3cret") } }
    const echo = yield* Effect.provide(runCalls(["echo", { text: "hi" }]), tools(server.url, authorized))
    assert.deepStrictEqual(echo, [ToolResult.success("hi")])
    const wrong = { headers: { authorization: Redacted.make("Bearer wr0ng") } }
    const error = yield* Effect.flip(Effect.provide(McpTools.toolkit, tools(server.url, wrong)))
    assert.match(error.message, /cannot be used: MCP HTTP status 401/)
    assert.notInclude(JSON.stringify(error), "wr0ng")
  })

  test.live("MCP-1 L2 approvals are what the host decides, and limits hold", function* () {
    const server = yield* serving()
    const contracts = (options: Partial<McpTools.HttpServer>) =>
      Agent.definition(agent).pipe(
        Effect.map(({ tools }) => tools),
        Effect.provide(tools(server.url, options))
      )
    const digests = new Set<string>()
    for (const [approval, expected] of [
      [undefined, ["always", "always"]],
      ["unlessReadonly", ["never", "always"]],
      ["never", ["never", "never"]],
      [
        ({ digest, name }: { readonly name: string; readonly digest: string }) => {
          digests.add(digest)
          return name === "demo/echo"
        },
        ["always", "never"]
      ]
    ] as const) {
      const found = yield* contracts({ approval })
      assert.deepStrictEqual(
        found.slice(0, 2).map((tool) => tool.approval),
        [...expected]
      )
    }
    const [echo, , sum] = yield* contracts({ approval: "never" })
    assert.isTrue(echo !== undefined && digests.has(echo.digest))
    assert.strictEqual(echo?.annotations.readonly, true)
    assert.deepStrictEqual(sum?.success?.["required"], ["sum"])

    const error = yield* Effect.flip(contracts({ limits: { maxTools: 3 } }))
    assert.match(error.message, /toolkit/)
    const large = runCalls(["large"]).pipe(
      Effect.map(([result]) => valueOf(result)),
      Effect.provide(tools(server.url, { limits: { maxStringLength: 10_000 } }))
    )
    assert.deepStrictEqual(yield* large, { reason: "response_too_large", outcome: "unknown" })
    const unread = yield* Effect.provide(runCalls(["large"]), tools(server.url, { limits: { maxBytes: 20_000 } }))
    assert.deepStrictEqual(valueOf(unread[0]), { reason: "response_too_large", outcome: "unknown" })
  })
})

type Answer = (method: string, request: IncomingMessage, params: unknown, response: ServerResponse) => unknown

/** A server made by hand: `answer` returns the result of a request, `undefined` for status 400, or `null` after an answer of its own. */
const byHand = (answer: Answer) =>
  Effect.acquireRelease(
    Effect.promise(
      () =>
        new Promise<{ readonly url: string; readonly close: () => void }>((resolve) => {
          const respond = (request: IncomingMessage, response: ServerResponse, text: string) => {
            const { id, method, params } = JSON.parse(text)
            if (id === undefined) return response.writeHead(202).end()
            const result = answer(method, request, params, response)
            if (result === null) return response
            if (result === undefined) return response.writeHead(400).end()
            const body =
              typeof result === "string" ? result.replace("$id", id) : JSON.stringify({ jsonrpc: "2.0", id, result })
            return response.writeHead(200, { "content-type": "application/json" }).end(body)
          }
          const server = createServer((request, response) => {
            let text = ""
            request.on("data", (chunk) => (text += String(chunk)))
            request.on("end", () =>
              request.method === "POST" ? respond(request, response, text) : response.writeHead(405).end()
            )
          })
          server.listen(0, "127.0.0.1", () => {
            // Sound: a server that listens on TCP has an address of this type
            const { port } = server.address() as AddressInfo
            resolve({ url: `http://127.0.0.1:${port}/`, close: () => server.close() })
          })
        })
    ),
    ({ close }) => Effect.sync(close)
  )

const hello = (protocolVersion: string) => ({
  protocolVersion,
  capabilities: { tools: {} },
  serverInfo: { name: "x", version: "1" }
})

const tool = (name: string, extra: object = {}) => ({ name, inputSchema: { type: "object" }, ...extra })

describe("MCP-1 L2 what a server sends is untrusted", () => {
  for (const version of ["2025-06-18", "2025-03-26", "2024-11-05"]) {
    test.live(`MCP-1 a server that speaks version ${version} is spoken to in that version`, function* () {
      const { url } = yield* byHand((method, request) => {
        if (method === "initialize") return hello(version)
        if (request.headers["mcp-protocol-version"] !== version) return undefined
        return method === "tools/list" ? { tools: [tool("now")] } : { content: [{ type: "text", text: "noon" }] }
      })
      assert.deepStrictEqual(yield* Effect.provide(runCalls(["now"]), tools(url)), [ToolResult.success("noon")])
    })
  }

  test.live("MCP-1 a server of version 2026-07-28 alone is spoken to in that version", function* () {
    const Clock = Toolkit.make(Tool.make("now", { success: Schema.String }))
    const served = McpServer.layerHttp({
      name: "clock",
      version: "1",
      path: "/mcp",
      protocols: [McpProtocol.v2026_07_28],
      registrations: McpToolServer.layer(Clock)
    }).pipe(Layer.provide(Clock.toLayer({ now: (_, { preliminary }) => Effect.as(preliminary("soon"), "noon") })))
    const app = HttpRouter.serve(served, { disableLogger: true, disableListenLog: true }).pipe(
      Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 }))
    )
    const context = yield* Layer.build(app)
    const url = yield* Effect.provideContext(HttpServer.addressFormattedWith(Effect.succeed), context)
    const program = Effect.provide(Stream.runCollect(agent.stream("Go")), calling(["now"]))
    const events = yield* Effect.provide(program, tools(`${url}/mcp`))
    assert.deepStrictEqual(
      events.flatMap((event) =>
        event._tag === "ToolProgress" || event._tag === "ToolFinished" ? [ToolResult.text(event.result)] : []
      ),
      ["soon", "noon"]
    )
  })

  test.live("MCP-1 the client names the package and its version", function* () {
    const hellos: Array<unknown> = []
    const { url } = yield* byHand((method, _request, params) => {
      if (method !== "initialize") return { tools: [] }
      hellos.push(params)
      return hello("2025-11-25")
    })
    assert.deepStrictEqual(yield* Effect.provide(McpTools.toolkit, tools(url)), [])
    const { name, version } = packageJson
    assert.deepInclude(hellos[0], { clientInfo: { name, version } })
  })

  test.live("MCP-1 a session that is forgotten in a call is replaced, and the call made once more", function* () {
    const seen: Array<string> = []
    const { url } = yield* byHand((method, _request, _params, response) => {
      seen.push(method)
      if (method === "initialize") {
        response.setHeader("mcp-session-id", `s${seen.length}`)
        return hello("2025-11-25")
      }
      if (method === "tools/list") return { tools: [tool("now")] }
      if (seen.filter((one) => one === "tools/call").length > 1) return { content: [{ type: "text", text: "noon" }] }
      response.writeHead(404).end()
      return null
    })
    assert.deepStrictEqual(yield* Effect.provide(runCalls(["now"]), tools(url)), [ToolResult.success("noon")])
    assert.deepStrictEqual(seen, ["initialize", "tools/list", "tools/call", "initialize", "tools/list", "tools/call"])
  })

  test.live("MCP-1 L8 a redirect is not followed", function* () {
    const { url } = yield* byHand(() => hello("2025-11-25"))
    const moved = yield* byHand((_method, _request, _params, response) => {
      response.writeHead(307, { location: url }).end()
      return null
    })
    const error = yield* Effect.flip(Effect.provide(McpTools.toolkit, tools(moved.url)))
    assert.match(error.message, /it answered with a redirect \(HTTP status 307\), which is not followed\. Pass the URL/)
  })

  const listings: Record<string, readonly [answer: unknown, message: RegExp]> = {
    "that is no list": [{ tools: "none" }, /cannot be used: Invalid MCP payload/],
    "with many tools": [
      { tools: Array.from({ length: 300 }, (_, index) => tool(`t${index}`)) },
      /expected at most 256 tools, got 300/
    ],
    "with no end of tools": [
      { tools: Array.from({ length: 300_000 }, () => 0) },
      /expected at most 256 tools, got 300000/
    ],
    "that never ends": [{ tools: [], nextCursor: "again" }, /repeated a cursor/],
    "that is no JSON": ["{", /Invalid MCP JSON/]
  }
  for (const [what, [answer, message]] of Object.entries(listings)) {
    test.live(`MCP-1 L2 a listing ${what} is a typed error`, function* () {
      const { url } = yield* byHand((method) => (method === "initialize" ? hello("2025-11-25") : answer))
      const error = yield* Effect.flip(Effect.provide(McpTools.toolkit, tools(url)))
      assert.match(error.message, message)
    })
  }

  test.live("MCP-1 L2 a tool that is deep, or has a forbidden key, is left out by name", function* () {
    const deep = `{"name":"deep","inputSchema":{"type":"object","x":${"[".repeat(90)}${"]".repeat(90)}}}`
    const polluting = `{"name":"polluting","inputSchema":{"type":"object","properties":{"__proto__":{"type":"string"}}}}`
    const good = `{"name":"good","inputSchema":{"type":"object"}}`
    const { url } = yield* byHand((method) =>
      method === "initialize"
        ? hello("2025-11-25")
        : `{"jsonrpc":"2.0","id":$id,"result":{"tools":[${deep},${polluting},${good}]}}`
    )
    const program = Effect.gen(function* () {
      assert.deepStrictEqual(
        (yield* McpTools.toolkit).map(({ name }) => name),
        ["demo/good"]
      )
      const refused = yield* McpTools.refusedTools
      assert.deepStrictEqual(
        refused.map(({ tool }) => tool),
        ["deep", "polluting"]
      )
      assert.match(refused[0]?.problem ?? "", /64/)
      assert.match(refused[1]?.problem ?? "", /__proto__/)
    })
    yield* Effect.provide(program, tools(url))
  })

  test.live(
    "MCP-1 L2 a tool with hidden words in a schema, or with another one's name for models, is left out",
    function* () {
      const says = (description: string) => ({
        inputSchema: { type: "object", properties: { a: { type: "string", description } } }
      })
      const { url } = yield* byHand((method) =>
        method === "initialize"
          ? hello("2025-11-25")
          : {
              tools: [
                tool("a.b", says("Ada \u{1f469}\u200d\u{1f52c}\ufe0f")),
                tool("a_x2e_b"),
                tool("tags", says("x\u{E0041}")),
                tool("bytes", says("x\u{E0102}")),
                tool("backwards", { description: "abc\u202Ecba" }),
                tool("output", { outputSchema: { type: "object", description: "x\u{E0041}" } })
              ]
            }
      )
      const program = Effect.gen(function* () {
        assert.deepStrictEqual(
          (yield* McpTools.toolkit).map(({ name }) => name),
          ["demo/a.b"]
        )
        const refused = yield* McpTools.refusedTools
        assert.deepStrictEqual(
          refused.map(({ tool }) => tool),
          ["a_x2e_b", "tags", "bytes", "backwards", "output"]
        )
        assert.strictEqual((yield* Effect.provide(agent.run("Go"), calling())).text, "done")
      })
      yield* Effect.provide(program, tools(url))
    }
  )

  test.live("MCP-1 calls that find no connection wait for one attempt to make it", function* () {
    let isDown = false
    let attempts = 0
    const { url } = yield* byHand((method, _request, _params, response) => {
      if (method === "initialize") {
        attempts += 1
        if (!isDown) return hello("2025-11-25")
        response.writeHead(503).end()
        return null
      }
      if (method === "tools/list") return { tools: [tool("now")] }
      isDown = true
      return undefined
    })
    const batch = ScriptedModel.layer([
      { toolCalls: [call("c0", "demo/now", {})] },
      { toolCalls: ["c1", "c2", "c3", "c4", "c5"].map((id) => call(id, "demo/now", {})) },
      { text: "done" }
    ])
    const program = agent.run("Go").pipe(
      Effect.map(({ conversation }) => results(conversation).map(valueOf)),
      Effect.provide([batch, ToolRuntime.layerConcurrent()]),
      Effect.provide(tools(url))
    )
    assert.deepStrictEqual(yield* program, [
      { reason: "unreachable", outcome: "not_executed" },
      ...Array.from({ length: 5 }, () => ({ reason: "unreachable", outcome: "not_executed" }))
    ])
    assert.strictEqual(attempts, 3)
  })

  test.live("MCP-1 L2 all schemas of a listing share its fuel", function* () {
    const schemaOf = (name: string) => ({
      type: "object",
      properties: Object.fromEntries(
        Array.from({ length: 40 }, (_, i) => [`${name}${i}`, { type: "string", maxLength: i }])
      )
    })
    const { url } = yield* byHand((method) =>
      method === "initialize"
        ? hello("2025-11-25")
        : { tools: ["a", "b", "c", "d"].map((name) => tool(name, { inputSchema: schemaOf(name) })) }
    )
    const found = (maxFuel: number) =>
      Effect.map(McpTools.toolkit, (all) => all.length).pipe(Effect.provide(tools(url, { limits: { maxFuel } })))
    assert.deepStrictEqual(yield* Effect.forEach([600_000, 9000], found), [4, 2])
  })

  test.live("MCP-1 L2 schemas that take all the time are refused, and the tools before them are there", function* () {
    const wide = {
      type: "object",
      properties: Object.fromEntries(
        Array.from({ length: 1000 }, (_, i) => [
          `p${i}`,
          { anyOf: Array.from({ length: 20 }, (_, j) => ({ type: "string", maxLength: j })) }
        ])
      )
    }
    const { url } = yield* byHand((method) =>
      method === "initialize" ? hello("2025-11-25") : { tools: [tool("small"), tool("wide", { inputSchema: wide })] }
    )
    const names = Effect.map(McpTools.toolkit, (found) => found.map(({ name }) => name))
    const program = Effect.gen(function* () {
      assert.deepStrictEqual(yield* names, ["demo/small"])
      assert.match((yield* McpTools.refusedTools)[0]?.problem ?? "", /fuel/)
    })
    yield* Effect.provide(program, tools(url, { limits: { maxFuel: 20_000, maxNodes: 1_000_000 } }))
  })

  const answers: Record<string, readonly [answer: unknown, value: unknown]> = {
    "whose content is no list": [{ content: "words" }, { reason: "invalid_response", outcome: "unknown" }],
    "that is none": [[], { reason: "invalid_response", outcome: "unknown" }],
    "that is refused": [undefined, { reason: "invalid_request", outcome: "not_executed" }]
  }
  for (const [what, [answer, value]] of Object.entries(answers)) {
    test.live(`MCP-1 L2 a result ${what} is a failure for the model`, function* () {
      const { url } = yield* byHand((method) => {
        if (method === "initialize") return hello("2025-11-25")
        return method === "tools/list" ? { tools: [tool("now")] } : answer
      })
      const [result] = yield* Effect.provide(runCalls(["now"]), tools(url))
      assert.strictEqual(typeOf(result), "remote_unavailable")
      assert.deepStrictEqual(valueOf(result), value)
      assert.isTrue(Schema.is(RemoteTools.Unavailable)(valueOf(result)))
    })
  }

  test.live("MCP-1 a JSON-RPC error is a failure in the words of the server, without secrets", function* () {
    const { url } = yield* byHand((method) => {
      if (method === "initialize") return hello("2025-11-25")
      if (method === "tools/list") return { tools: [tool("now")] }
      return `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"no clock for s3cret"}}`
    })
    const headers = { authorization: Redacted.make("Bearer s3cret") }
    const [result] = yield* Effect.provide(runCalls(["now"]), tools(url, { headers }))
    assert.deepStrictEqual(
      result,
      ToolResult.failure("execution_error", "The MCP server rejected the call: no clock for <redacted> (code -32602)")
    )
  })
})

/** A server by hand whose list has these tools. Each of them returns "hi". */
const listing = (list: ReadonlyArray<unknown>) =>
  byHand((method) => {
    if (method === "initialize") return hello("2025-11-25")
    return method === "tools/list" ? { tools: list } : { content: [{ type: "text", text: "hi" }] }
  })

const namesOf = Effect.map(McpTools.toolkit, (found) => found.map(({ name }) => name))

/** Input schemas that the classes of `effect/ai` refuse, or that are no JSON Schema. */
const malformed: Record<string, object> = {
  "properties that are an array": { properties: [] },
  "properties of null": { properties: [null] },
  "properties that are text": { properties: "x" },
  "a property that is null": { properties: { a: null } },
  "a property that is a number": { properties: { a: 5 } },
  "a property that is an array": { properties: { a: [] } },
  "required that is text": { required: "x" },
  "required with a number": { required: [1] },
  "required that is an object": { required: {} },
  "additionalProperties that are a number": { additionalProperties: 5 },
  "$schema that is a number": { $schema: 5 },
  "$defs that are an array": { $defs: [] },
  "a type that is an array": { type: ["object"] }
}

describe("MEND-3 one tool, one server or one character harms nothing else", () => {
  test.live("MEND-3 a malformed tool is left out by name, and the other tools are there", function* () {
    const all = Object.values(malformed).map((schema, index) =>
      tool(`bad${index}`, { inputSchema: { type: "object", ...schema } })
    )
    const evil = yield* listing([...all, tool("fine", { inputSchema: { type: "object", properties: { a: true } } })])
    const honest = yield* listing([tool("now")])
    const both = McpTools.layer({
      evil: { url: evil.url, ...oneAttempt },
      demo: { url: honest.url, approval: "never", ...oneAttempt }
    }).pipe(Layer.provide(FetchHttpClient.layer))
    const program = Effect.gen(function* () {
      assert.deepStrictEqual(yield* runCalls(["now"]), [ToolResult.success("hi")])
      assert.deepStrictEqual(yield* namesOf, ["evil/fine", "demo/now"])
      const refused = yield* McpTools.refusedTools
      assert.deepStrictEqual(
        refused.map(({ tool }) => tool),
        all.map(({ name }) => name)
      )
      assert.match(refused[0]?.problem ?? "", /at \/properties: expected an object of schemas, got array/)
    })
    yield* Effect.provide(program, both)
  })

  test.live(
    "MEND-3 L2 any JSON in place of a part of a tool is refused by name or accepted, never a defect",
    function* () {
      const odd = [null, true, 5, -0.5, "x", "", [], [null], [1], {}, { a: null }, { a: 5 }, { type: 5 }, { $ref: "#" }]
      const parts = [
        ["title"],
        ["description"],
        ["inputSchema"],
        ["outputSchema"],
        ["annotations"],
        ["annotations", "readOnlyHint"],
        ["execution"],
        ["icons"],
        ["_meta"],
        ...[
          "properties",
          "required",
          "additionalProperties",
          "$schema",
          "$defs",
          "allOf",
          "enum",
          "x-mcp-header"
        ].flatMap((key) => [
          ["inputSchema", key],
          ["inputSchema", "properties", "a", key],
          ["outputSchema", key]
        ])
      ]
      const put = (path: ReadonlyArray<string>, value: unknown): unknown => {
        const [key, ...rest] = path
        return key === undefined
          ? value
          : { ...(key === "inputSchema" ? { type: "object" } : {}), [key]: put(rest, value) }
      }
      for (const part of parts) {
        const list = odd.map((value, index) => {
          // Sound: a path is not empty, so the outermost value is an object
          const extra = put(part, value) as { readonly inputSchema?: object }
          const inputSchema = part.length === 1 ? (extra.inputSchema ?? {}) : { type: "object", ...extra.inputSchema }
          return {
            ...tool(`t${index}`),
            ...extra,
            ...(part[0] === "inputSchema" ? { inputSchema: part.length === 1 ? odd[index] : inputSchema } : {})
          }
        })
        const { url } = yield* listing([...list, tool("good")])
        const program = Effect.gen(function* () {
          const names = yield* namesOf
          assert.include(names, "demo/good", part.join("/"))
          const refused = (yield* McpTools.refusedTools).map((one) => `demo/${one.tool}`)
          assert.strictEqual(names.length + refused.length, odd.length + 1)
        })
        yield* Effect.provide(program, tools(url))
      }
    }
  )

  test.live("MEND-3 a tool with a character that is not seen is left out, and emoji are seen", function* () {
    const hidden = [
      "200b 200c 200d 200e 200f 061c 202e 2060 2062 2066 206a feff 180e 034f 115f 3164 ffa0 fff9 1d173 fe00 fe0f",
      "0090 ffff e0001 e0041 e0101 e000 f0000 10fffd"
    ]
      .join(" ")
      .split(" ")
      .map((hex) => String.fromCodePoint(parseInt(hex, 16)))
    const bits = "\u{1f600}\ufe0f\ufe0f"
    const says = (description: string) => ({
      inputSchema: { type: "object", properties: { a: { type: "string", description } } }
    })
    const seen = [
      "\u{1f469}\u{1f3fd}\u200d\u{1f52c} \u2764\ufe0f\u200d\u{1f525} \u26a0\ufe0f 1\ufe0f\u20e3 \u{1f1f3}\u{1f1f4}",
      "caf\u00e9, \u65e5\u672c\u8a9e,\n\ttab,\u2028a soft\u00adhyphen"
    ]
    const list = [...hidden.map((char) => `x${char}y`), bits, "a\u200d\u{1f52c}", "1\ufe0f"]
    const { url } = yield* listing([
      ...list.map((words, index) => tool(`schema${index}`, says(words))),
      ...list.map((words, index) => tool(`words${index}`, { description: words })),
      tool("key", { inputSchema: { type: "object", properties: { "a\u200b": { type: "string" } } } }),
      ...seen.map((words, index) => tool(`seen${index}`, { description: words, ...says(words) }))
    ])
    const names = yield* Effect.provide(namesOf, tools(url))
    assert.deepStrictEqual(names, ["demo/seen0", "demo/seen1"])
  })

  test.live("MEND-3 L8 a token that a server repeats in results, progress and words is concealed", function* () {
    const token = 't0ken-s3cret-\u00e9"x'
    const { url } = yield* byHand((method, request, params, response) => {
      if (method === "initialize") return hello("2025-11-25")
      if (method === "tools/list") return { tools: [tool("now", { description: `Says ${token}` })] }
      const result = {
        content: [
          { type: "text", text: `you sent ${token} and query-s3cret, json` },
          { type: "resource_link", uri: "https://x.example/?key=query-s3cret", name: token }
        ],
        structuredContent: { [token]: [token, 5], nested: { of: `Bearer ${token}` } }
      }
      // Sound: the client sends a token for progress with each call
      const { progressToken } = (params as { readonly _meta: { readonly progressToken: number } })._meta
      const notice = { jsonrpc: "2.0", method: "notifications/progress" }
      const events = [
        { ...notice, params: { progressToken, progress: 1, message: `${token} ${request.url}` } },
        { jsonrpc: "2.0", id: progressToken, result }
      ]
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""))
      return null
    })
    const headers = { authorization: Redacted.make(`Bearer ${token}`) }
    const program = Effect.gen(function* () {
      const all = yield* Effect.provide(Stream.runCollect(agent.stream("Go")), calling(["now"]))
      const text = JSON.stringify([all, (yield* Agent.definition(agent)).tools])
      assert.notInclude(text, "t0ken")
      assert.notInclude(text, "query-s3cret")
      assert.include(text, "you sent <redacted> and <redacted>, json")
      assert.include(text, "Says <redacted>")
    })
    yield* Effect.provide(program, tools(`${url}?api_key=query-s3cret&format=json`, { headers }))
  })

  test.live("MEND-3 L8 the query of a URL is on no span", function* () {
    const { url } = yield* listing([tool("now")])
    const attributes: Array<unknown> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        attributes.push(span.attributes)
        return span
      }
    })
    const program = Effect.provide(runCalls(["now"]), tools(`${url}?key=query-s3cret#frag`))
    yield* Effect.provideService(program, Tracer.Tracer, tracer)
    const text = JSON.stringify(attributes.map((one) => (one instanceof Map ? [...one] : one)))
    assert.include(text, "url.full")
    assert.notInclude(text, "s3cret")
  })
})

describe("MEND-3 a server that is down", () => {
  const logged: Array<string> = []
  const LogTest = Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])

  test.live("MEND-3 an optional server that is down adds no tools, is logged once, and comes back", function* () {
    logged.length = 0
    let isDown = true
    const { url } = yield* byHand((method, _request, _params, response) => {
      if (isDown) {
        response.writeHead(503).end()
        return null
      }
      if (method === "initialize") return hello("2025-11-25")
      return method === "tools/list" ? { tools: [tool("now")] } : { content: [{ type: "text", text: "noon" }] }
    })
    const honest = yield* listing([tool("now")])
    const both = McpTools.layer({
      shop: { url, optional: true, approval: "never", ...oneAttempt },
      demo: { url: honest.url, approval: "never", ...oneAttempt }
    }).pipe(Layer.provide(FetchHttpClient.layer))
    const program = Effect.gen(function* () {
      assert.deepStrictEqual(yield* runCalls(["now"]), [ToolResult.success("hi")])
      assert.deepStrictEqual(yield* namesOf, ["demo/now"])
      assert.deepStrictEqual(logged, [
        'The MCP server "shop" cannot be used: it answered with HTTP status 503. It is optional, so runs continue without its tools.'
      ])
      isDown = false
      assert.deepStrictEqual(yield* namesOf, ["shop/now", "demo/now"])
      isDown = true
    })
    yield* Effect.provide(program, [both, LogTest])
  })

  test.live("MEND-3 a run waits at most once for an optional server that does not answer", function* () {
    logged.length = 0
    const { url } = yield* byHand(() => null)
    let waits = 0
    const options = { optional: true, connectTimeout: "50 millis" } as const
    const program = Effect.gen(function* () {
      assert.deepStrictEqual(yield* namesOf, [])
      waits += logged.length
      assert.deepStrictEqual(yield* namesOf, [])
    })
    yield* Effect.provide(program, [tools(url, options), LogTest])
    assert.strictEqual(waits, 1)
    assert.lengthOf(logged, 1)
    assert.match(logged[0] ?? "", /initialization deadline exceeded|it did not answer in time/)
  })

  test("MEND-3 the wait for an optional server that hangs is bounded once over all attempts", function* () {
    logged.length = 0
    const silent = Layer.succeed(
      HttpClient.HttpClient,
      HttpClient.make(() => Effect.never)
    )
    const layer = McpTools.layer({ demo: { url: "http://demo.example/", optional: true, connectTimeout: "5 seconds" } })
    const program = Effect.gen(function* () {
      const first = yield* Effect.forkChild(McpTools.toolkit)
      yield* TestClock.adjust("4 seconds")
      assert.isUndefined(first.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.isDefined(first.pollUnsafe())
      assert.lengthOf(logged, 1)
      // Attempts are still under way, and a run does not wait for them
      const second = yield* Effect.forkChild(McpTools.toolkit)
      yield* TestClock.adjust(0)
      assert.isDefined(second.pollUnsafe())
      yield* TestClock.adjust("1 minute")
      // They have ended: a run that starts new ones waits for a second
      const third = yield* Effect.forkChild(McpTools.toolkit)
      yield* TestClock.adjust("999 millis")
      assert.isUndefined(third.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.isDefined(third.pollUnsafe())
      assert.lengthOf(logged, 1)
    })
    yield* Effect.provide(program, [Layer.provide(layer, silent), LogTest])
  })

  const wrong: Record<string, readonly [why: RegExp, answer: Answer | undefined]> = {
    "that refuses connections": [/MCP HTTP request failed \(ECONNREFUSED\)/, undefined],
    "with another status": [
      /it answered with HTTP status 401/,
      (_method, _request, _params, response) => {
        response.writeHead(401, { "content-type": "application/json" })
        response.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"s3cret words"}}')
        return null
      }
    ],
    "that refuses the first message": [
      /it answered with the error -32001/,
      () => '{"jsonrpc":"2.0","id":$id,"error":{"code":-32001,"message":"s3cret words"}}'
    ],
    "with too many tools": [
      /lists tools that cannot be read: expected at most 256 tools, got 300/,
      (method) =>
        method === "initialize"
          ? hello("2025-11-25")
          : { tools: Array.from({ length: 300 }, (_, index) => tool(`t${index}`)) }
    ]
  }
  for (const [what, [why, answer]] of Object.entries(wrong)) {
    test.live(`MEND-3 the error of a run names the reason why a server ${what} cannot be used`, function* () {
      const { url } = yield* answer === undefined
        ? Effect.tap(serving(), (server) => Effect.promise(() => server.close()))
        : byHand(answer)
      const run = Effect.provide(agent.run("Go"), ScriptedModel.layer([]))
      const error = yield* failsFor("PreparationFailed", Effect.provide(run, tools(url)))
      assert.match(error.message, why)
      assert.notInclude(error.message, "s3cret")
    })
  }
})

describe("MEND-3 a stream of events that ends before the answer", () => {
  const events = { "content-type": "text/event-stream", "mcp-session-id": "s1" }
  const answer = `data: {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"noon"}]}}\n\n`

  /** A client of HTTP that calls a server in memory: streams in this order for a call, then for each GET. */
  const inMemory = (
    streams: ReadonlyArray<string | ReadableStream | "refused" | 405>,
    timeout = 60_000,
    limits: Partial<Limits.Limits> = {}
  ) =>
    Effect.gen(function* () {
      const gets: Array<readonly [id: string | undefined, after: number, session: string | undefined]> = []
      let next = 0
      let ended = 0
      const client = HttpClient.make((request) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const respond = (body: BodyInit | null, init: ResponseInit) =>
            HttpClientResponse.fromWeb(request, new Response(body, init))
          const json = (result: unknown) =>
            respond(JSON.stringify({ jsonrpc: "2.0", id, result }), { headers: { "content-type": "application/json" } })
          const sent = request.body._tag === "Uint8Array" ? JSON.parse(new TextDecoder().decode(request.body.body)) : {}
          const { id, method } = sent
          if (method === "initialize") return json(hello("2025-06-18"))
          if (method === "tools/list") return json({ tools: [tool("now")] })
          if (request.method === "POST" && method !== "tools/call") return respond(null, { status: 202 })
          const { headers } = request
          if (request.method === "GET") {
            gets.push([headers["last-event-id"], now - ended, headers["mcp-session-id"]])
            assert.strictEqual(headers["mcp-protocol-version"], "2025-06-18")
            assert.strictEqual(headers["authorization"], "Bearer t")
          }
          const stream = streams[next++]
          ended = now
          if (typeof stream === "number") return respond(null, { status: stream })
          if (stream !== "refused" && stream !== undefined) return respond(stream, { headers: events })
          return yield* new HttpClientError.HttpClientError({
            reason: new HttpClientError.TransportError({ request, cause: { code: "ECONNREFUSED" } })
          })
        })
      )
      const headers = { authorization: Redacted.make("Bearer t") }
      const layer = McpTools.layer({
        demo: { url: "http://demo.example/", approval: "never", headers, timeout, limits }
      })
      const run = Effect.provide(runCalls(["now"]), Layer.provide(layer, Layer.succeed(HttpClient.HttpClient, client)))
      const fiber = yield* Effect.forkChild(run)
      // The streams of the platform need turns of the machine between two steps of the clock
      const step = Effect.andThen(
        TestClock.adjust("100 millis"),
        Effect.promise(() => new Promise(setImmediate))
      )
      yield* Effect.repeat(step, { until: () => fiber.pollUnsafe() !== undefined })
      return { gets, result: (yield* Fiber.join(fiber))[0] }
    })

  test("MEND-3 is continued after the time and the event that the server named", function* () {
    const { gets, result } = yield* inMemory([
      "id: e1\nretry: 5000\ndata: \n\n",
      ": still busy\n\nid: e2\r\ndata:\r\n\r\n",
      `id: e3\nretry: 300\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n`,
      `${answer}`
    ])
    assert.deepStrictEqual(result, ToolResult.success("noon"))
    assert.deepStrictEqual(
      gets.map(([id, , session]) => [id, session]),
      [
        ["e1", "s1"],
        ["e2", "s1"],
        ["e3", "s1"]
      ]
    )
    const waits = gets.map(([, after]) => after)
    assert.isTrue((waits[0] ?? 0) >= 5000 && (waits[1] ?? 0) >= 5000, String(waits))
    assert.isTrue((waits[2] ?? 0) >= 300 && (waits[2] ?? 0) < 5000, String(waits))
  })

  const lost = { reason: "connection_lost", outcome: "unknown" }
  for (const [what, streams, requests] of [
    ["without an event to continue after", ["data: \n\n"], 0],
    ["within an event", ["id: e1\ndata: \n\ndata: {"], 0],
    ["at a server that has no other stream", ["id: e1\ndata: \n\n", 405], 1],
    ["at a server that has gone", ["id: e1\ndata: \n\n", "refused"], 1]
  ] as const) {
    test(`MEND-3 ${what} leaves the outcome of the call unknown`, function* () {
      const { gets, result } = yield* inMemory(streams)
      assert.deepStrictEqual(valueOf(result), lost)
      assert.lengthOf(gets, requests)
    })
  }

  /** A stream that sends a text again and again, as fast as it is read, to 50 times the limit. */
  const endless = (first: string, text: string) => {
    const bytes = new TextEncoder().encode(text.repeat(1000))
    const read = { bytes: 0 }
    const stream = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode(first)),
      pull: (controller) => {
        read.bytes += bytes.length
        if (read.bytes > 5_000_000) controller.close()
        else controller.enqueue(bytes)
      }
    })
    return { read, stream }
  }

  for (const [what, first, text] of [
    ["comments", "", ": still busy\n\n"],
    ["one comment without an end", ": ", "still busy "],
    ["events of another name", "", "event: ping\ndata: 1\n\n"],
    ["texts that are no message", "", "data: no message\n\n"],
    ["comments after an event that can be continued", "id: e1\ndata: \n\n", ": still busy\n\n"]
  ] as const) {
    test(`RIGHT-22 an endless stream of ${what} ends the call at a limit, long before its time`, function* () {
      const { read, stream } = endless(first, text)
      const { gets, result } = yield* inMemory([stream], 3_600_000, { maxBytes: 100_000 })
      assert.deepStrictEqual(valueOf(result), { reason: "response_too_large", outcome: "unknown" })
      assert.isBelow(read.bytes, 1_000_000)
      assert.lengthOf(gets, 0)
    })
  }

  test("RIGHT-22 comments before a message are not counted with the next ones", function* () {
    const notice = `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n`
    const { result } = yield* inMemory([`${`${": busy\n\n".repeat(10_000)}${notice}`.repeat(10)}${answer}`], 60_000, {
      maxBytes: 100_000
    })
    assert.deepStrictEqual(result, ToolResult.success("noon"))
  })

  test("MEND-3 is continued until the time of the call is over, and not in a tight loop", function* () {
    const { gets, result } = yield* inMemory(
      Array.from({ length: 5000 }, () => "id: e1\nretry: 0\ndata: \n\n"),
      3000
    )
    assert.strictEqual(typeOf(result), "timeout_error")
    assert.isTrue(gets.length > 3 && gets.length <= 30, String(gets.length))
  })
})
