import { NodeServices } from "@effect/platform-node"
import { assert, describe } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { Effect, Layer, Logger, Schedule } from "effect"
import { FetchHttpClient } from "effect/http"
import { ChildProcess } from "effect/process"
import { ToolResult } from "effect-emissary"
import { McpTools } from "effect-emissary/mcp"
import { fileURLToPath } from "node:url"
import { test } from "../test.ts"
import { listen, type Oddity, plain } from "./fixtures/odd-server.ts"
import { agent, calling, results } from "./support.ts"

/** A client gets this of a server: the names of its tools, and the text of the result of the first one. */
interface Found {
  readonly tools: ReadonlyArray<string>
  readonly result?: string
}

interface Row extends Oddity {
  readonly over?: "stdio"
  /** Ours gets this. */
  readonly ours: Found
  /** The official client gets this, where it differs; `undefined` where it can use neither the server nor its result. */
  readonly official?: Found | undefined
  /** Why ours has less than the official client. */
  readonly safety?: string
  /** Texts are skipped, and this is logged. */
  readonly isLogged?: boolean
}

const ok: Found = { tools: ["t"], result: "ok" }
const none = { ours: { tools: [] }, official: undefined }
const unread = { official: { tools: ["t"] } }
const text = (words: string, extra: object = {}) => ({ type: "text", text: words, ...extra })
const described = (description: string) => ({ tools: [{ ...plain, description }] })
const named = (...names: ReadonlyArray<string>) => ({ tools: names.map((name) => ({ ...plain, name })) })
const left: Found = { tools: [] }
/** A black flag with tags. */
const tagged = (letters: string) =>
  String.fromCodePoint(0x1f3f4, ...Array.from(letters, (letter) => 0xe0000 + letter.charCodeAt(0)), 0xe007f)
const schema = (inputSchema: object) => ({ tools: [{ name: "t", inputSchema: { type: "object", ...inputSchema } }] })
const property = (a: object) => schema({ properties: { a } })
const notification = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}'

const rows: Record<string, Row> = {
  // Lines that are no message
  "a banner": { over: "stdio", banner: ["Server started on stdio"], ours: ok, isLogged: true },
  "a log line in each answer": {
    over: "stdio",
    before: { initialize: ["[info] hello"], "tools/list": ["[info] listed"], "tools/call": ["[info] called"] },
    ours: ok,
    isLogged: true
  },
  "a line of JSON that is no message": {
    over: "stdio",
    before: { "tools/call": ['{"level":"info"}', "5", "null", "[]"] },
    ours: ok,
    isLogged: true
  },
  "an empty line": { over: "stdio", before: { initialize: ["", "   "] }, ours: ok },
  "half a line of JSON": {
    over: "stdio",
    before: { "tools/call": ['{"jsonrpc":"2.0","id":'] },
    ours: ok,
    isLogged: true
  },
  "an error that answers no request": {
    over: "stdio",
    before: {
      "notifications/initialized": [
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"?"}}',
        '{"jsonrpc":"2.0","error":{"code":-32600,"message":"?"}}'
      ]
    },
    ours: ok,
    isLogged: true
  },
  "an answer to no request": {
    over: "stdio",
    before: { "tools/call": ['{"jsonrpc":"2.0","id":4711,"result":{}}'] },
    ours: ok
  },
  "notifications and requests of the server": {
    over: "stdio",
    before: {
      "tools/call": [
        notification,
        '{"jsonrpc":"2.0","id":"r1","method":"roots/list"}',
        '{"jsonrpc":"2.0","id":1,"method":"ping"}'
      ]
    },
    ours: ok
  },
  "lines that end with a carriage return": {
    over: "stdio",
    before: { "tools/call": [`${notification}\r`, "log\r"] },
    ours: ok,
    isLogged: true
  },
  // Frames of JSON-RPC
  "an id as text, over standard streams": { over: "stdio", textIds: true, ours: ok },
  "an id as text, over HTTP": { textIds: true, ours: ok },
  "error null beside the result": { over: "stdio", envelope: { error: null }, ours: ok, official: undefined },
  "a member that JSON-RPC does not have": { envelope: { duration: 5 }, ours: ok, official: undefined },
  "a batch": { as: "batch", ours: ok },
  "a type with a charset": { contentType: "application/json; charset=utf-8", ours: ok },
  "heartbeats between events": {
    as: "events",
    before: {
      "tools/list": ["event: ping\ndata: 2026-11-26\n\n", ": comment\n\n", "id: 7\ndata:\n\n"],
      "tools/call": ["event: ping\ndata: {}\n\n"]
    },
    ours: ok
  },
  "an event that is no message": {
    as: "events",
    before: { "tools/call": ["data: hello\n\n", `data: ${notification}\n\n`] },
    ours: ok,
    isLogged: true
  },
  "a redirect": {
    as: "redirect",
    ours: left,
    official: ok,
    safety: "a redirect may lead to a place of another owner, with the token"
  },
  // The handshake
  "the oldest version": { hello: { protocolVersion: "2024-10-07" }, ours: ok },
  "a version that nobody knows": { hello: { protocolVersion: "2031-01-01" }, ...none },
  "no capabilities, and tools": { hello: { capabilities: {} }, ours: ok },
  "no tools": { hello: { capabilities: { prompts: {} } }, refuses: "tools/list", ...none },
  "null in the handshake": {
    hello: {
      instructions: null,
      capabilities: { tools: { listChanged: null }, logging: null },
      serverInfo: { name: "x", version: "1", title: null }
    },
    ours: ok,
    official: undefined
  },
  "no name of the server": { hello: { serverInfo: undefined }, ours: ok, official: undefined },
  // The list
  "nextCursor null": { pages: { "": { tools: [plain], nextCursor: null } }, ours: ok, official: undefined },
  "nextCursor empty": { pages: { "": { tools: [plain], nextCursor: "" } }, ours: ok },
  "two pages": {
    pages: { "": { tools: [plain], nextCursor: "2" }, "2": { tools: [{ ...plain, name: "u" }] } },
    ours: { tools: ["t", "u"], result: "ok" }
  },
  "null for absent members of a tool": {
    tools: [
      {
        ...plain,
        title: null,
        description: null,
        outputSchema: null,
        annotations: null,
        execution: null,
        icons: null,
        _meta: null
      }
    ],
    ours: ok,
    official: undefined
  },
  "null for absent annotations": {
    tools: [{ ...plain, annotations: { title: null, readOnlyHint: null }, execution: { taskSupport: null } }],
    ours: ok,
    official: undefined
  },
  "one tool that is malformed": { tools: [plain, { name: "u" }, 5, null], ours: ok, official: undefined },
  "null in a schema is a value": {
    tools: [{ name: "t", inputSchema: { type: "object", properties: { a: { default: null } } } }],
    ours: ok
  },
  "members that nobody knows": {
    tools: [{ ...plain, version: "3", icons: [{ src: "data:," }], _meta: { a: 1 } }],
    ours: ok
  },
  // Schemas
  "$id at the root": {
    ...schema({ $id: "https://x.test/y", $defs: { A: {} }, properties: { a: { $ref: "#/$defs/A" } } }),
    ours: ok
  },
  "$id in a property, without references": { ...property({ $id: "A", type: "string" }), ours: ok },
  "$id, and a reference that needs it": {
    ...schema({ $id: "https://x.test/y", properties: { a: { $ref: "https://x.test/y#/$defs/A" } }, $defs: { A: {} } }),
    ours: left,
    official: ok,
    safety: "a reference is never followed out of the document, so its arguments are unknown"
  },
  nullable: { ...property({ type: "string", nullable: true }), ours: ok },
  "exclusiveMinimum true, of draft-04": {
    ...property({ type: "number", minimum: 0, exclusiveMinimum: true }),
    ours: ok
  },
  "exclusiveMaximum false, of draft-04": { ...property({ type: "number", exclusiveMaximum: false }), ours: ok },
  "a list in items, without a dialect": {
    ...property({ type: "array", items: [{ type: "string" }], additionalItems: false }),
    ours: ok
  },
  "the type any": { ...property({ type: "any" }), ours: ok },
  "types of other languages": {
    ...schema({ properties: { a: { type: "float" }, b: { type: ["STRING", "null"] } } }),
    ours: ok
  },
  "required as a word of a property, of draft-03": { ...property({ type: "string", required: false }), ours: ok },
  "draft-04": { ...schema({ $schema: "http://json-schema.org/draft-04/schema#" }), ours: ok },
  "draft 2019-09": { ...schema({ $schema: "https://json-schema.org/draft/2019-09/schema" }), ours: ok },
  "keywords beside $ref in draft-07": {
    ...schema({
      $schema: "http://json-schema.org/draft-07/schema#",
      definitions: { A: {} },
      properties: { a: { $ref: "#/definitions/A", type: "string" } }
    }),
    ours: ok
  },
  "null for absent keywords": { ...property({ type: "array", items: null, enum: null }), ours: ok },
  "an output schema of draft-04": {
    tools: [
      { ...plain, outputSchema: { type: "object", properties: { n: { type: "number", minimum: 0, nullable: true } } } }
    ],
    result: { content: [text("ok")], structuredContent: { n: null } },
    ours: ok
  },
  "a keyword that is not checked": {
    ...schema({ unevaluatedProperties: false }),
    ours: left,
    official: ok,
    safety: "arguments that a person approves could be others than those that the tool takes"
  },
  // Words
  "a description in Persian": {
    ...described("این ابزار فایل\u200cها را می\u200cخواند. API\u200cها هم، ه\u200d.ش"),
    ours: ok
  },
  "a description in Hindi": { ...described("यह उपकरण क्\u200dष और श्\u200cर पढ़ता है"), ours: ok },
  "a description in Hebrew": { ...described("\u200fכלי לשפת C++\u200e ולשפות אחרות\u200f!"), ours: ok },
  "a description in Arabic with direction marks": { ...described("يقرأ ملف \u061c(README)\u200f."), ours: ok },
  "an emoji of two, with its joiner": { ...described("👩\u200d🔬\ufe0f"), ours: ok },
  "a joiner in a Latin word": { ...described("pay\u200cpal"), ours: left, official: ok, safety: "hidden text" },
  "a direction mark in an English text": {
    ...described("abc \u200fdef"),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "joiners one after another": {
    ...described(`ی${"\u200c\u200d".repeat(4)}خ`),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "direction marks one after another": {
    ...described("שלום \u200e\u200f\u200e\u200f abc"),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "an order of characters that is overridden": {
    ...described("שלום\u202eabc"),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "separators of words in Thai": { ...described("อ่าน\u200bไฟล์ API\u200bของ"), ours: ok },
  "separators of words in Khmer": { ...described("អាន\u200bឯកសារ"), ours: ok },
  "separators of words in Lao": { ...described("ອ່ານ\u200bໄຟລ໌"), ours: ok },
  "separators of words in Burmese": { ...described("ဖိုင်\u200bဖတ်"), ours: ok },
  "separators of words in Japanese": { ...described("ファイル\u200bを\u200b読む"), ours: ok },
  "a separator of words in a Latin word": {
    ...described("pay\u200bpal"),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "separators of words one after another": {
    ...described(`อ่าน${"\u200b".repeat(4)}ไฟล์`),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "a soft hyphen": { ...described("Liest die Donau\u00addampf\u00adschiff\u00adfahrt"), ours: ok },
  "soft hyphens one after another": {
    ...described("Donau\u00ad\u00addampf"),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "flags of England, Scotland and Wales": {
    ...described(["gbeng", "gbsct", "gbwls"].map((region) => tagged(region)).join(" ")),
    ours: ok
  },
  "a flag with other tags": { ...described(tagged("ignore")), ours: left, official: ok, safety: "hidden text" },
  "a selector of the form of an ideograph": { ...described("葛\u{E0100}飾区"), ours: ok },
  "selectors one after another": {
    ...described("葛\u{E0100}\u{E0101}"),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "a separator of lines": { ...described("Reads.\u2028Writes."), ours: ok },
  "separators of lines one after another": {
    ...described("Reads.\u2028\u2029\u2028Writes."),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "the mark of an encoding at the beginning": { ...described("\ufeffReads a file"), ours: ok },
  "the mark of an encoding in a text": {
    ...described("a\ufeffb"),
    ours: left,
    official: ok,
    safety: "hidden text"
  },
  "a joiner of words": { ...described("a\u2060b"), ours: left, official: ok, safety: "hidden text" },
  "an escape sequence": {
    ...described("\u001b[1mReads\u001b[0m"),
    ours: left,
    official: ok,
    safety: "a terminal hides or rewrites what a person reads"
  },
  NUL: { ...described("a\u0000b"), ours: left, official: ok, safety: "a text that ends there for a reader" },
  tags: { ...described("Adds\u{E0041}\u{E0042}"), ours: left, official: ok, safety: "hidden text" },
  "a description of 20,000 characters": {
    ...described("x".repeat(20_000)),
    ours: left,
    official: ok,
    safety: "a tool fills each request"
  },
  // Names
  "names with a slash, a colon, a space and other letters": {
    ...named("a/b", "a:b", "two words", "поиск"),
    ours: { tools: ["a/b", "a:b", "two words", "поиск"], result: "ok" }
  },
  "a name with a zero width space": {
    ...named("t", "a\u200bb"),
    ours: ok,
    official: { tools: ["t", "a\u200bb"], result: "ok" },
    safety: "hidden text"
  },
  "a name of two tools": {
    ...named("t", "t"),
    ours: ok,
    official: { tools: ["t", "t"], result: "ok" },
    safety: "a call names one of them"
  },
  "a name without characters": {
    ...named("t", ""),
    ours: ok,
    official: { tools: ["t", ""], result: "ok" },
    safety: "a call names nothing"
  },
  "300 tools": {
    ...named(...Array.from({ length: 300 }, (_, at) => `t${at}`)),
    ours: left,
    official: { tools: Array.from({ length: 300 }, (_, at) => `t${at}`), result: "ok" },
    safety: "a server fills each request; `limits` allow more"
  },
  // Results
  "no content": { result: {}, ours: { tools: ["t"], result: "" } },
  "content null": { result: { content: null }, ours: { tools: ["t"], result: "" }, ...unread },
  "no content beside structured content": {
    result: { structuredContent: { n: 1 } },
    ours: { tools: ["t"], result: '{"n":1}' },
    official: { tools: ["t"], result: "" }
  },
  "isError null, structuredContent null": {
    result: { content: [text("ok")], isError: null, structuredContent: null, _meta: null },
    ours: ok,
    ...unread
  },
  "null in a block": { result: { content: [text("ok", { annotations: null, _meta: null })] }, ours: ok, ...unread },
  "null in a resource": {
    result: { content: [{ type: "resource", resource: { uri: "a:b", text: "ok", mimeType: null, blob: null } }] },
    ours: ok,
    ...unread
  },
  "a block that nobody knows": {
    result: { content: [text("ok"), { type: "chart", points: [1, null] }] },
    ours: { tools: ["t"], result: 'ok\n{"type":"chart","points":[1,null]}' },
    ...unread
  },
  "a block without its members": {
    result: { content: [text("ok"), { type: "text" }, "words"] },
    ours: { tools: ["t"], result: 'ok\n{"type":"text"}\n"words"' },
    ...unread
  },
  "an image whose data is no base64": {
    result: { content: [text("ok"), { type: "image", data: "<svg/>", mimeType: "image/png" }] },
    ours: { tools: ["t"], result: "ok\n[image/png: left out, because its data is no base64]" },
    ...unread
  },
  "data in lines": {
    result: { content: [text("ok"), { type: "image", data: "iVBORw0K\nGgo=\n", mimeType: "image/png" }] },
    ours: { tools: ["t"], result: "ok\n[image/png omitted]" },
    official: { tools: ["t"], result: "ok\n" }
  },
  "members of a result that nobody knows": { result: { content: [text("ok", { lang: "en" })], took: 5 }, ours: ok },
  "isError beside other structured content": {
    tools: [{ ...plain, outputSchema: { type: "object", properties: { a: {} }, required: ["a"] } }],
    result: { content: [text("NOT_FOUND")], structuredContent: { err: 1 }, isError: true },
    ours: { tools: ["t"], result: "NOT_FOUND" },
    ...unread
  },
  "a result that is no object": { result: "ok", ours: { tools: ["t"] } },
  "a forbidden key": {
    result: { content: [text("ok")], structuredContent: JSON.parse('{"__proto__":{"a":1}}') },
    ours: { tools: ["t"] },
    official: ok,
    safety: "a key that changes prototypes"
  },
  "a text over the limit": {
    result: { content: [text("x".repeat(9_000_000))] },
    ours: { tools: ["t"] },
    official: { tools: ["t"], result: "x".repeat(9_000_000) },
    safety: "a result fills the conversation; `limits` allow more"
  }
}

const script = fileURLToPath(new URL("./fixtures/odd-server.ts", import.meta.url))

const argumentsOf = (row: Row): ReadonlyArray<string> => [script, JSON.stringify(row)]

/** The official client with the server of a row. Where it gets nothing it may wait for ever. */
const official = async (row: Row, url: string): Promise<Found | undefined> => {
  const timeout = "official" in row && row.official?.result === undefined ? 1_000 : 30_000
  const client = new Client({ name: "official", version: "1" })
  const transport =
    row.over === "stdio"
      ? new StdioClientTransport({ command: process.execPath, args: [...argumentsOf(row)], stderr: "ignore" })
      : new StreamableHTTPClientTransport(new URL(url))
  try {
    // oxlint-disable-next-line typescript/no-explicit-any -- the SDK's own types do not fit under exactOptionalPropertyTypes
    await client.connect(transport as any, { timeout })
    const tools: Array<string> = []
    let cursor: string | undefined
    do {
      const page = await client.listTools(cursor === undefined ? {} : { cursor }, { timeout })
      tools.push(...page.tools.map(({ name }) => name))
      cursor = page.nextCursor
    } while (cursor !== undefined && cursor !== "")
    const called = client.callTool({ name: tools[0] ?? "", arguments: {} }, undefined, { timeout })
    const result = await called.then(
      ({ content }) => (Array.isArray(content) ? content.map((block) => block.text ?? "").join("\n") : ""),
      () => undefined
    )
    return { tools, ...(result === undefined ? {} : { result }) }
  } catch {
    return undefined
  } finally {
    await client.close()
  }
}

/** Ours with the server of a row, and its log. */
const ours = Effect.fnUntraced(function* (row: Row, url: string) {
  const logged: Array<string> = []
  const logger = Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])
  const common = { approval: "never", retry: Schedule.recurs(0) } as const
  const place = row.over === "stdio" ? { command: ChildProcess.make(process.execPath, argumentsOf(row)) } : { url }
  const servers = McpTools.layer({ demo: { ...place, ...common } })
  const program = Effect.gen(function* () {
    const found = yield* Effect.orElseSucceed(McpTools.toolkit, () => [])
    const tools = found.map(({ name }) => name.slice("demo/".length))
    if (tools[0] === undefined) return { tools }
    const { conversation } = yield* Effect.provide(agent.run("Go"), calling([tools[0]]))
    const [result] = results(conversation)
    if (result === undefined || (result._tag === "Failure" && result.type === "remote_unavailable")) return { tools }
    return { tools, result: ToolResult.text(result) }
  })
  const services = Layer.mergeAll(NodeServices.layer, FetchHttpClient.layer, logger)
  const found: Found = yield* Effect.provide(program, Layer.provideMerge(servers, services))
  return { found, logged }
})

const without = (more: ReadonlyArray<string>, less: ReadonlyArray<string>) => more.filter((one) => !less.includes(one))

describe("RIGHT-5 servers that are odd, beside the official client", () => {
  test("RIGHT-5 the table has at least 38 rows", function* () {
    assert.isAtLeast(Object.keys(rows).length, 38)
  })

  for (const [what, row] of Object.entries(rows)) {
    test.live(`RIGHT-5 ${what}${row.safety === undefined ? "" : `, left out: ${row.safety}`}`, function* () {
      const server = yield* Effect.acquireRelease(
        Effect.promise(() => listen(row)),
        ({ close }) => Effect.sync(close)
      )
      const theirs = yield* Effect.promise(() => official(row, server.url))
      const { found, logged } = yield* ours(row, server.url)
      assert.deepStrictEqual(found, row.ours)
      assert.deepStrictEqual(theirs, "official" in row ? row.official : row.ours)
      // A name that is twice in the list is lost once
      const isLess =
        (theirs?.tools.length ?? 0) > found.tools.length || without(theirs?.tools ?? [], found.tools).length > 0
      const hasLess = isLess || (theirs?.result !== undefined && found.result === undefined)
      assert.strictEqual(hasLess, row.safety !== undefined, "ours has less than the official client for safety alone")
      assert.lengthOf(
        logged.filter((line) => line.includes('The MCP server "demo" sends text that is no message')),
        row.isLogged === true ? 1 : 0
      )
    })
  }
})
