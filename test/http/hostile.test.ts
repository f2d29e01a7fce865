/** Requests that no page sends: the server refuses each of them with a typed answer, and serves others as before. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { HttpServer } from "effect/http"
import * as net from "node:net"
import { test } from "../test.ts"
import { as, read, serve } from "./serve.ts"

const ada = as("ada")
const bob = as("bob")

/** The answer to a request by hand: its status, its type, and its body. */
const raw = Effect.fnUntraced(function* (...lines: ReadonlyArray<string>) {
  const { address } = yield* HttpServer.HttpServer
  const text = yield* Effect.callback<string>((resume) => {
    const socket = net.connect("port" in address ? address.port : 0, "127.0.0.1")
    let found = ""
    socket.on("data", (data) => (found += String(data)))
    socket.on("error", () => undefined)
    socket.on("close", () => resume(Effect.succeed(found)))
    socket.write([...lines, "", ""].join("\r\n"))
    return Effect.sync(() => socket.destroy())
  })
  const [head = "", ...body] = text.split("\r\n\r\n")
  return { status: Number(head.split(" ")[1]), head: head.toLowerCase(), body: body.join("\r\n\r\n") }
})

const get = (path: string, ...headers: ReadonlyArray<string>) =>
  raw(`GET ${path} HTTP/1.1`, "host: x", "connection: close", "authorization: Bearer ada", ...headers)

describe("SCREEN-3 hostile clients", () => {
  test("cursors that were made up, and cursors of others, are refused before a stream begins", serve(), function* () {
    yield* ada.post("send?id=ada/1", { input: "hi" })
    yield* bob.post("send?id=bob/1", { input: "hi" })
    const { cursor } = (yield* bob.get("chat/state?id=bob/1")).body
    const place = (json: unknown) => Buffer.from(JSON.stringify(json)).toString("base64url")
    const own = (yield* ada.get("chat/state?id=ada/1")).body.cursor
    const forged = [
      cursor,
      "1",
      "-1",
      "NaN",
      "life.0",
      "__proto__.1",
      "constructor.1",
      `${own}/`,
      `${own}/%00`,
      `${own}/${place({})}`,
      `${own}/${place([["m", [[0, -1]]]])}`,
      `${own}/${place([["m", [[0, 1e300]]]])}`,
      `${own}/${place([[null]])}`,
      `${own}/m.-1`,
      `${own}/m.1e300`,
      `${own}/.!.1`,
      `${own}/${Buffer.from("[".repeat(9000)).toString("base64url")}`,
      `${own}/${"A".repeat(15_000)}`,
      `${own.slice(0, own.indexOf("."))}.${"9".repeat(400)}`,
      `${own}<script>alert(1)</script>`
    ]
    for (const value of forged) {
      const answer = yield* ada.get("chat/events?id=ada/1", { "last-event-id": value })
      assert.include([400, 404, 409, 431], answer.status, `${value.slice(0, 60)}: ${answer.text}`)
      if (answer.status !== 431) assert.strictEqual(answer.body._tag, "Refusal")
    }
    // A place in a draft of another session shows nothing of it
    const unknown = yield* read("chat/events?id=ada/1", {
      authorization: "Bearer ada",
      "last-event-id": `${own}/msg_of_bob.3`
    })
    assert.include(yield* unknown.until("AnswerWithdrawn"), "msg_of_bob")
  })

  test("paths, methods and queries that lead elsewhere are refused", serve(), function* () {
    yield* ada.post("send?id=ada/1", { input: "hi" })
    for (const path of [
      "/sessions/../sessions/state?id=ada/1",
      "/sessions/chat/%2e%2e/state?id=ada/1",
      "/sessions/chat/../state?id=ada/1",
      "/sessions//state?id=ada/1",
      "/sessions/STATE?id=ada/1",
      "/sessions/state;x?id=ada/1",
      "/sessions/state/?id=ada/1",
      "/sessions/chat%2Fstate?id=bob/1",
      "/sessions/constructor?id=ada/1",
      "/sessions/__proto__?id=ada/1",
      "/sessions/%ff?id=ada/1",
      "/sessions/file?id=ada/1&message=../../etc/passwd&part=0",
      "/sessions/file?id=ada/1&message=__proto__&part=constructor",
      "/sessions/chat/state?id=ada/1&id=bob/1",
      "/sessions/chat/state?id=bob/../ada/1",
      "/sessions/chat/state?id[]=ada/1",
      "/sessions/chat/state?__proto__=ada/1",
      "/sessions/chat/events?id=ada/1&live=__proto__",
      "/sessions/list?prefix=ada/&limit=1e9",
      '/sessions/list?metadata={"__proto__":{}}'
    ]) {
      const { body, status } = yield* get(path.replaceAll('"', "%22"))
      assert.include([400, 403, 404], status, `${path}: ${body}`)
    }
    for (const method of ["PUT", "DELETE", "PATCH", "TRACE"]) {
      const { status } = yield* raw(
        `${method} /sessions/remove?id=ada/1 HTTP/1.1`,
        "host: x",
        "connection: close",
        "authorization: Bearer ada"
      )
      assert.include([404, 405, 501], status, method)
    }
    // The head of a stream has no body, and ends
    const head = yield* raw(
      "HEAD /sessions/chat/events?id=ada/1 HTTP/1.1",
      "host: x",
      "connection: close",
      "authorization: Bearer ada"
    )
    assert.strictEqual(head.body, "")
    assert.strictEqual((yield* get("/sessions/chat/state?id=ada/1")).status, 200)
  })

  test("headers without an end and bodies that are no JSON are refused", serve(), function* () {
    assert.strictEqual((yield* get("/sessions/list", `x: ${"x".repeat(100_000)}`)).status, 431)
    for (const body of [
      "",
      "null",
      "[]",
      "3",
      "\u0000",
      "{",
      "[".repeat(100_000),
      `{"input":${"[".repeat(10_000)}`,
      `{"input":"a","constructor":{"prototype":{"x":1}}}`,
      `{"input":"a","input":"b","__proto__":1}`
    ]) {
      const { body: refused, status, text } = yield* ada.post("send?id=ada/1", body)
      assert.deepStrictEqual([status, refused?._tag], [400, "Refusal"], `${body.slice(0, 40)}: ${text}`)
    }
    const refused = yield* ada.post("send?id=ada/1", "{}", { "content-encoding": "gzip" })
    assert.strictEqual(refused.status, 400)
    assert.strictEqual((yield* ada.get("chat/state?id=ada/1")).body, null)
  })

  test("half a character is refused with its place, wherever a client sends it", serve(), function* () {
    const half = "a\ud800b"
    const parts = (text: string) => [{ type: "text", text }]
    const user = (id: string, text: string) => ({ id, role: "user", parts: parts(text) })
    const refused: ReadonlyArray<readonly [path: string, body: object, place: string]> = [
      ["send?id=ada/1", { input: half }, "/input"],
      ["send?id=ada/1", { input: [...parts("whole"), ...parts(half)] }, "/input/1/text"],
      ["send?id=ada/1", { input: "hi", messageId: half }, "/messageId"],
      ["send?id=ada/1", { input: "hi", metadata: { [half]: 1 } }, "/metadata"],
      ["update?id=ada/1", { title: half }, "/title"],
      ["fork?id=ada/1", { to: `ada/${half}` }, "/to"],
      [
        "decide?id=ada/1",
        { decisions: [{ callId: "c", digest: "d", approved: false, reason: half }] },
        "/decisions/0/reason"
      ],
      ["chat/ui", { id: "ada/1", messages: [user("u1", half)] }, "/messages/0/parts/0/text"],
      ["chat/ui", { id: `ada/${half}`, messages: [user("u1", "hi")] }, "/id"],
      [
        "chat/agui",
        { threadId: "ada/1", runId: "r", messages: [{ id: half, role: "user", content: "hi" }] },
        "/messages/0/id"
      ]
    ]
    for (const [path, body, place] of refused) {
      const answer = yield* ada.post(path, body)
      assert.strictEqual(answer.status, 400, `${path} ${place}: ${answer.text}`)
      assert.include(answer.text, `at ${place}: expected well-formed Unicode, got half a character`)
    }
    assert.strictEqual((yield* ada.get("chat/state?id=ada/1")).body, null)
    assert.strictEqual((yield* ada.post("send?id=ada/1", { input: "\u{1f600}" })).status, 200)
  })

  test("texts with HTML in them are JSON, which no browser takes for a page", serve(), function* () {
    const html = "<img src=x onerror=alert(1)>"
    const query = encodeURIComponent(html)
    yield* ada.post(`send?id=ada/${query}`, { input: html, title: html, metadata: { [html.slice(0, 4)]: html } })
    for (const path of [
      `chat/state?id=ada/${query}`,
      `chat/history?id=ada/${query}`,
      `list?prefix=ada/${query}`,
      `chat/events?id=ada/1&after=${query}`,
      `${query}`,
      `file?id=ada/${query}&message=${query}&part=0`
    ]) {
      const { headers } = yield* ada.get(path)
      assert.match(headers.get("content-type") ?? "", /^application\/json/, path)
      assert.strictEqual(headers.get("x-content-type-options"), "nosniff", path)
    }
  })
})
