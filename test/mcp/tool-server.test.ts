import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { type ElicitRequest, ElicitRequestSchema, type ElicitResult } from "@modelcontextprotocol/sdk/types.js"
import { Deferred, Effect, Layer } from "effect"
import { McpClient, McpProtocol } from "effect/ai"
import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
import type { McpToolServer } from "effect-emissary/mcp"
import type { ScriptedModel } from "effect-emissary/testing"
import { createServer, request } from "node:http"
import { fileURLToPath } from "node:url"
import { call } from "../agent/fixtures.ts"
import { test } from "../test.ts"
import { events, interrupted, layerHttp } from "./fixtures/shop.ts"

/** The client of the SDK gives up after a minute, which a server can need to start on a busy machine. */
const patient = { timeout: 280_000 }

type Elicit = (request: ElicitRequest) => ElicitResult

const makeClient = (elicit?: Elicit): Client => {
  const client = new Client(
    { name: "test", version: "1.0.0" },
    { capabilities: elicit === undefined ? {} : { elicitation: {} } }
  )
  if (elicit !== undefined) client.setRequestHandler(ElicitRequestSchema, elicit)
  return client
}

type Transport = Parameters<Client["connect"]>[0]

const connect = (client: Client, transport: StdioClientTransport | StreamableHTTPClientTransport) =>
  Effect.acquireRelease(
    // Sound: the SDK's transports are transports; its own types differ in optional members only
    Effect.promise(() => client.connect(transport as Transport, patient)),
    () => Effect.promise(() => client.close())
  ).pipe(Effect.as(client))

const serving = Effect.fnUntraced(function* (script: ScriptedModel.Script, options?: McpToolServer.BodyOptions) {
  const app = HttpRouter.serve(layerHttp(script, options), { disableLogger: true, disableListenLog: true }).pipe(
    Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 }))
  )
  const url = HttpServer.addressFormattedWith((url) => Effect.succeed(`${url}/mcp`))
  return yield* Effect.provideContext(url, yield* Layer.build(app))
})

const overHttp = Effect.fnUntraced(function* (script: ScriptedModel.Script, elicit?: Elicit) {
  const url = yield* serving(script)
  return { url, client: yield* connect(makeClient(elicit), new StreamableHTTPClientTransport(new URL(url))) }
})

interface Answer {
  readonly status: number | undefined
  readonly headers: { readonly [name: string]: unknown }
  readonly text: string
}

/** Sends parts of a body, and keeps the request open unless it ends. */
const post = (
  url: string,
  parts: ReadonlyArray<string>,
  { ends = true, headers = {} }: { readonly ends?: boolean; readonly headers?: Record<string, string> } = {}
) =>
  Effect.callback<Answer>((resume) => {
    const sent = request(url, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers }
    })
    sent.on("response", (response) => {
      let text = ""
      response.on("data", (chunk) => (text += String(chunk)))
      response.on("end", () => {
        // An agent of Node keeps the connection of a request that has not ended
        if (!ends) sent.destroy()
        resume(Effect.succeed({ status: response.statusCode, headers: response.headers, text }))
      })
    })
    // A server that has answered may close the connection while the body is still on its way
    sent.on("error", () => {})
    for (const part of parts) sent.write(part)
    if (ends) sent.end()
    return Effect.sync(() => sent.destroy())
  })

const rpc = (method: string, params: object = {}) => JSON.stringify({ jsonrpc: "2.0", id: 1, method, params })

const hello = (protocolVersion: string) =>
  rpc("initialize", { protocolVersion, capabilities: {}, clientInfo: { name: "x", version: "1" } })

const overStdio = Effect.fnUntraced(function* (elicit?: Elicit) {
  const script = fileURLToPath(new URL("./fixtures/shop-stdio.ts", import.meta.url))
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [script],
    stderr: "pipe",
    env: { NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "" }
  })
  return yield* connect(makeClient(elicit), transport)
})

const callTool = (client: Client, name: string, args: Record<string, unknown> = {}) =>
  Effect.promise(() => client.callTool({ name, arguments: args }, undefined, patient))

const textOf = (result: { readonly [key: string]: unknown }) =>
  (Array.isArray(result["content"]) ? result["content"] : []).map(({ text }) => String(text)).join("\n")

const paying: ScriptedModel.Script = [
  { toolCalls: [call("c1", "add", { a: 1, b: 2 })] },
  { toolCalls: [call("c2", "pay", { amount: 50 })] },
  { text: "It is paid." }
]

describe("MCP-2 a toolkit as a server, with the client of the official SDK", () => {
  test.live("MCP-2 over HTTP: tools, results, failures and defects", function* () {
    const { client } = yield* overHttp([])
    const { tools } = yield* Effect.promise(() => client.listTools())
    assert.deepStrictEqual(
      tools.map(({ name }) => name),
      ["add", "pay", "send", "fail", "boom", "shop__slow", "who", "support", "size", "pages"]
    )
    assert.strictEqual(tools[0]?.annotations?.readOnlyHint, true)
    const sum = yield* callTool(client, "add", { a: 1, b: 2 })
    assert.deepStrictEqual(sum["structuredContent"], { sum: 3 })
    assert.strictEqual(textOf(sum), `{"sum":3}`)
    const wrong = yield* callTool(client, "add", { a: "1", b: 2.5 })
    assert.strictEqual(wrong["isError"], true)
    assert.match(textOf(wrong), /Invalid arguments for tool "add": .*\/a.*\/b/s)
    const failed = yield* callTool(client, "fail")
    assert.deepStrictEqual([failed["isError"], textOf(failed)], [true, "no such order"])
    const boom = yield* callTool(client, "boom")
    assert.deepStrictEqual(
      [boom["isError"], textOf(boom)],
      [true, "The tool failed unexpectedly. The log has the details."]
    )
    assert.strictEqual(textOf(yield* callTool(client, "who")), "acme")
    const small = yield* callTool(client, "pay", { amount: 5 })
    assert.strictEqual(textOf(small), "paid 5")
  })

  test.live("MCP-2 without elicitation a call that needs an approval is not executed", function* () {
    events.length = 0
    const { client } = yield* overHttp(paying)
    const pay = yield* callTool(client, "pay", { amount: 50 })
    assert.strictEqual(pay["isError"], true)
    assert.match(textOf(pay), /The call of "pay" needs an approval, .* It was not executed/)
    const answer = yield* callTool(client, "support", { input: "Pay 50" })
    assert.strictEqual(answer["isError"], true)
    assert.match(textOf(answer), /The call of "pay" needs an approval/)
    assert.deepStrictEqual(events, [])
  })

  test.live("MCP-2 with elicitation the person at the client decides", function* () {
    events.length = 0
    const asked: Array<string> = []
    let decision: ElicitResult = { action: "accept", content: { approve: true } }
    const { client } = yield* overHttp(
      [...paying, ...paying.slice(1, 2), { text: "It is not paid.", expect: { toolResult: "too much" } }],
      ({ params }) => {
        asked.push(params.message)
        return decision
      }
    )
    assert.strictEqual(textOf(yield* callTool(client, "pay", { amount: 20 })), "paid 20")
    const progress: Array<string> = []
    const answer = yield* Effect.promise(() =>
      client.callTool({ name: "support", arguments: { input: "Pay 50" } }, undefined, {
        onprogress: ({ message, progress: count }) => void progress.push(`${count} ${message}`)
      })
    )
    assert.strictEqual(textOf(answer), "It is paid.")
    assert.deepStrictEqual(progress, [
      "1 step 1",
      "2 add: started",
      "3 add: done",
      "4 step 2",
      "5 pay: started",
      "6 pay: done",
      "7 step 3"
    ])
    assert.deepStrictEqual(asked, [
      `Approve the call of "pay"?\n{\n  "amount": 20\n}`,
      `Approve the call of "pay"?\n{\n  "amount": 50\n}`
    ])
    for (const refusal of [
      { action: "decline" },
      { action: "cancel" },
      { action: "accept", content: { approve: false } },
      { action: "accept", content: { approve: "true" } }
    ] satisfies ReadonlyArray<ElicitResult>) {
      decision = refusal
      assert.strictEqual(textOf(yield* callTool(client, "pay", { amount: 20 })), "The call was denied")
    }
    decision = { action: "accept", content: { approve: false, reason: "too much" } }
    const denied = yield* callTool(client, "support", { input: "Pay 50" })
    assert.strictEqual(textOf(denied), "It is not paid.")
    assert.deepStrictEqual(events, ["paid 20", "paid 50"])
  })

  test.live("PEOPLE-1 a question is an elicitation, and an answer that does not fit is asked for again", function* () {
    const asked: Array<ElicitRequest["params"]> = []
    const answers: Array<ElicitResult> = [
      { action: "accept", content: { size: "M", cups: 12 } },
      { action: "accept", content: { size: "M", cups: 2 } },
      { action: "accept", content: { answer: "[1, 2]" } },
      { action: "decline" },
      { action: "accept", content: { size: "S", cups: 1 } }
    ]
    const { client } = yield* overHttp(
      [
        { toolCalls: [call("c1", "size", { question: "For whom?" })] },
        { text: "Small it is.", expect: { toolResult: '"size":"S"' } }
      ],
      ({ params }) => {
        asked.push(params)
        return answers.shift() ?? { action: "cancel" }
      }
    )
    const size = yield* callTool(client, "size", { question: "Which size?" })
    assert.deepStrictEqual(size["structuredContent"], { size: "M", cups: 2 })
    assert.deepStrictEqual(
      asked.map(({ message }) => message.split("\n")[0]),
      ["Which size?", "Which size?"]
    )
    assert.include(asked[1]?.message, "/cups")
    const form: unknown = Object(asked[0])["requestedSchema"]
    assert.deepStrictEqual(Object(form)["required"], ["size", "cups"])
    assert.deepStrictEqual(Object(form)["properties"]["size"], { type: "string", enum: ["S", "M"] })
    assert.strictEqual(textOf(yield* callTool(client, "pages")), "[1,2]")
    assert.strictEqual(textOf(yield* callTool(client, "size", { question: "Why?" })), "There was no answer.")
    assert.strictEqual(textOf(yield* callTool(client, "support", { input: "A coat" })), "Small it is.")
    const { client: without } = yield* overHttp([])
    const waiting = yield* callTool(without, "size", { question: "Which size?" })
    assert.match(textOf(waiting), /The call of "size" waits for an answer/)
  })

  test.live("MEND-3 a person who approves sees every character, and the handler gets them unchanged", function* () {
    const asked: Array<string> = []
    const { client } = yield* overHttp([], ({ params }) => {
      asked.push(params.message)
      return { action: "accept", content: { approve: true } }
    })
    const words = {
      "to\u202e": "a\u200bb\u{e0041}\u2028c\u009bd",
      emoji: "\u{1f469}\u200d\u{1f52c} \u2764\ufe0f",
      lines: "x\ny"
    }
    assert.strictEqual(textOf(yield* callTool(client, "send", words)), JSON.stringify(words))
    const [question = "", ...shown] = (asked[0] ?? "").split("\n")
    assert.strictEqual(question, `Approve the call of "send"?`)
    assert.deepStrictEqual(shown, [
      "{",
      String.raw`  "to\u202e": "a\u200bb\udb40\udc41\u2028c\u009bd",`,
      `  "emoji": "${words.emoji}",`,
      String.raw`  "lines": "x\ny"`,
      "}"
    ])
    assert.deepStrictEqual(JSON.parse(shown.join("\n")), words)
  })

  test.live("MCP-2 progress of a tool, and a cancelled call that reaches its handler", function* () {
    const { client } = yield* overHttp([])
    const reported = Deferred.makeUnsafe<string>()
    const controller = new AbortController()
    const slow = client
      .callTool({ name: "shop__slow", arguments: {} }, undefined, {
        signal: controller.signal,
        onprogress: ({ message }) => void Deferred.doneUnsafe(reported, Effect.succeed(message ?? ""))
      })
      .catch(() => "cancelled")
    assert.strictEqual(yield* Deferred.await(reported), "half done")
    controller.abort()
    assert.strictEqual(yield* Effect.promise(() => slow), "cancelled")
    yield* Deferred.await(interrupted)
  })

  test.live("MCP-2 over standard streams, with a log that does not corrupt them", function* () {
    const client = yield* overStdio(() => ({ action: "accept", content: { approve: true } }))
    const boom = yield* callTool(client, "boom")
    assert.strictEqual(textOf(boom), "The tool failed unexpectedly. The log has the details.")
    const answer = yield* callTool(client, "support", { input: "Pay 50" })
    assert.strictEqual(textOf(answer), "It is paid.")
    const sum = yield* callTool(client, "add", { a: 1, b: 2 })
    assert.deepStrictEqual(sum["structuredContent"], { sum: 3 })
  })

  test.live("MCP-2 over standard streams without elicitation", function* () {
    const client = yield* overStdio()
    const answer = yield* callTool(client, "support", { input: "Pay 50" })
    assert.match(textOf(answer), /needs an approval/)
  })

  test.live("MCP-2 a client of version 2026-07-28 calls tools, and is not asked for approvals", function* () {
    const { url } = yield* overHttp([])
    const program = Effect.gen(function* () {
      const client = yield* McpClient.McpClient
      const tools = yield* client.listTools()
      const [add, pay] = tools
      assert(add !== undefined && pay !== undefined)
      const sum = yield* client.callTool({ tool: add, arguments: { a: 1, b: 2 } })
      assert.deepStrictEqual(sum.structuredContent, { sum: 3 })
      const refused = yield* client.callTool({ tool: pay, arguments: { amount: 50 } })
      assert.strictEqual(refused.isError, true)
    })
    const options = { name: "test", version: "1.0.0", protocol: McpProtocol.v2026_07_28, url }
    yield* Effect.provide(program, McpClient.layerHttp(options).pipe(Layer.provide(FetchHttpClient.layer)))
  })
})

describe("MEND-3 bodies of requests have limits", () => {
  test.live("MEND-3 L2 a body that is large, slow, deep or ambiguous is refused before it is parsed", function* () {
    const url = yield* serving([], { limits: { maxBytes: 10_000 }, bodyTimeout: "150 millis" })
    const pay = (args: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":${args}}}`
    const codeOf = ({ text }: Answer) => JSON.parse(text).error.code
    const large = " ".repeat(10_001)
    for (const [status, code, answer] of [
      [413, -32600, yield* post(url, [large], { headers: { "content-length": "10001" } })],
      [413, -32600, yield* post(url, ["{", large], { ends: false })],
      [408, -32600, yield* post(url, ["{"], { ends: false })],
      [400, -32700, yield* post(url, ["{"])],
      [400, -32700, yield* post(url, [pay(`{"amount":1,"amount":2}`)])],
      [400, -32700, yield* post(url, [pay(`{"amount":1,"__proto__":{"x":1}}`)])],
      [400, -32700, yield* post(url, [pay("[".repeat(3000) + "]".repeat(3000))])]
    ] as const) {
      assert.deepStrictEqual([answer.status, codeOf(answer)], [status, code], answer.text)
      if (status === 408) assert.strictEqual(answer.headers["connection"], "close")
    }
    const wrongType = yield* post(url, [large], { ends: false, headers: { "content-type": "text/plain" } })
    assert.strictEqual(wrongType.status, 415, "the checks that need no body come first")
    const browser = yield* post(url, ["{"], { ends: false, headers: { origin: "https://evil.example" } })
    assert.strictEqual(browser.status, 403)
    const fine = yield* post(url, [hello("2025-11-25")])
    assert.strictEqual(fine.status, 200)
  })

  test.live("MEND-3 a time that is none is refused", function* () {
    const error = yield* Effect.flip(serving([], { bodyTimeout: 0 }))
    assert.match(error.message, /must be a duration of more than none/)
  })

  test.live("MEND-3 a request of a session may name another version that the server has", function* () {
    const url = yield* serving([])
    const { headers } = yield* post(url, [hello("2025-11-25")])
    const list = (version: string, session = String(headers["mcp-session-id"])) =>
      Effect.map(
        post(url, [rpc("tools/list")], { headers: { "mcp-session-id": session, "mcp-protocol-version": version } }),
        ({ status }) => status
      )
    const statuses = yield* Effect.forEach(["2025-11-25", "2025-06-18", "2026-07-28", "2024-01-01"], (version) =>
      list(version)
    )
    assert.deepStrictEqual(statuses, [200, 200, 400, 400])
    assert.strictEqual(yield* list("2025-06-18", "guessed"), 404)
  })
})
