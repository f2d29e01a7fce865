/** The routes of sessions, as a page without Effect uses them. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Layer, Option, Schema, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, type HttpServer } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { TestClock } from "effect/testing"
import { Agent, type ToolResult, VersionedStore } from "effect-emissary"
import { SessionHttp } from "effect-emissary/http"
import { Session, SessionApi } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import { as, eventsOf, read, send, serve, sessions, typed, typing, url, written } from "./serve.ts"

const ada = as("ada")
const bob = as("bob")
const root = as("root")

const bearer = (token: string, more?: Record<string, string>) => ({ authorization: `Bearer ${token}`, ...more })

/** Sends a message, and reads the events of its turn. */
const chat = Effect.fnUntraced(function* (id: string, input: unknown, more?: object) {
  const sent = yield* ada.post(`send?id=${id}`, { input, ...more })
  assert.strictEqual(sent.status, 200, sent.text)
  const stream = yield* read(`chat/events?id=${id}`, bearer("ada"))
  return eventsOf(yield* stream.until("TurnFinished"))
})

const secret = "sk-secret-5d1"

/** Sessions with defects. */
const broken = Layer.effect(
  Session.Session,
  Effect.map(Session.Session, (sessions) => ({
    ...sessions,
    history: () => Effect.die(new Error(secret)),
    list: () => Effect.die(new Error(secret)),
    live: (id: string) =>
      id.endsWith("later")
        ? Stream.concat(Stream.take(sessions.events(id), 2), Stream.die(new Error(secret)))
        : Stream.die(new Error(secret)),
    events: (id: string) => Stream.concat(Stream.take(sessions.events(id), 1), Stream.die(new Error(secret)))
  }))
)

describe("SCREEN-3 a server of sessions", () => {
  test("no caller may do anything that Authorize does not allow", serve(), function* () {
    const none = yield* send("chat/state?id=ada/1")
    assert.strictEqual(none.status, 401)
    assert.deepStrictEqual(none.body, { _tag: "Refusal", category: "unauthorized", message: "Sign in first." })
    assert.strictEqual((yield* as("eve").post("send?id=ada/1", { input: "hi" })).status, 401)

    yield* chat("ada/1", "hello")
    for (const path of ["chat/state", "chat/history", "chat/events", "file"]) {
      assert.strictEqual((yield* bob.get(`${path}?id=ada/1`)).status, 403, path)
    }
    for (const path of ["send", "edit", "withdraw", "decide", "resume", "interrupt", "update", "remove"]) {
      const body = path === "send" ? { input: "hi" } : path === "decide" ? { decisions: [] } : { messageId: "1" }
      const given = ["resume", "interrupt", "update", "remove"].includes(path) ? {} : body
      assert.strictEqual((yield* bob.post(`${path}?id=ada/1`, given)).status, 403, path)
    }
    assert.strictEqual((yield* bob.post("send?id=bob/1", { input: "hi" })).status, 200)
    assert.strictEqual((yield* bob.post("fork?id=bob/1", { to: "ada/2" })).status, 403)
    assert.strictEqual((yield* bob.post("fork?id=ada/1", { to: "bob/2" })).status, 403)

    // Of lists, too
    assert.deepStrictEqual(
      (yield* bob.get("list")).body.sessions.map(({ id }: { id: string }) => id),
      ["bob/1"]
    )
    assert.strictEqual((yield* bob.get("list?prefix=ada/")).status, 403)
    const changes = yield* read("listChanges?prefix=b", bearer("bob"))
    assert.isFalse((yield* changes.until("data: ")).includes("ada/"))
    yield* ada.post("send?id=ada/2", { input: "hi" })
    const some = yield* as("some").get("list?limit=10")
    assert.deepStrictEqual(
      some.body.sessions.map(({ id }: { id: string }) => id),
      ["ada/1"]
    )
    assert.strictEqual((yield* as("some").get("state?id=ada/2")).status, 403)
    // An operation on the store needs all sessions
    for (const path of ["read?key=a", "shared"]) {
      assert.strictEqual((yield* as("some").get(path)).status, 403, path)
      assert.strictEqual((yield* ada.get(path)).status, 403, path)
      assert.strictEqual((yield* root.get(path)).status, 200, path)
    }
  })

  test("a front end sees no instructions, contexts and contracts, and sends none", serve(), function* () {
    const seen = yield* chat("ada/1", "/who me")
    const tags = seen.map(({ data }) => data.event._tag)
    assert.includeMembers(tags, ["MessageReceived", "Answered", "ToolFinished", "TurnFinished"])
    const asked = yield* chat("ada/2", "/pay bill")
    const [request] = asked.at(-1)?.data.event.requests ?? []
    assert.strictEqual(request.shown, `"pay" {"name":"bill"}`)
    const state = yield* ada.get("chat/state?id=ada/2")
    const history = yield* ada.get("chat/history?id=ada/1")
    assert.deepStrictEqual(
      history.body.messages.map(({ role }: { role: string }) => role),
      ["user", "assistant", "tool", "assistant"]
    )
    assert.strictEqual(history.body.cursor, seen.at(-1)?.id)
    const shown = [seen, asked, state.body, history.body, (yield* ada.get("list")).body]
    for (const hidden of ["instructions-7f3a", "secret thought", "parameters"]) {
      assert.isFalse(JSON.stringify(shown).includes(hidden), hidden)
    }
    // The tool got the context of the caller
    assert.include(JSON.stringify(history.body.messages[2].result), "context-ada")

    for (const path of ["events", "state", "history"]) {
      assert.strictEqual((yield* ada.get(`${path}?id=ada/1`)).status, 403, path)
      assert.isTrue((yield* read(`${path}?id=ada/1`, bearer("root"))).response.ok, path)
    }
    const more = { agent: "support", context: { user: "root" }, definition: "sha256:1", conversation: {} }
    for (const [name, value] of Object.entries(more)) {
      const refused = yield* ada.post("send?id=ada/3", { input: "hi", [name]: value })
      assert.include([400, 403], refused.status, name)
      assert.strictEqual((yield* ada.get("chat/state?id=ada/3")).body, null, name)
    }
    assert.strictEqual((yield* ada.post("send?id=ada/3", { input: "hi", context: {} })).status, 403)
    // The author of a page reads which part of a request is refused
    const messageOf = (answer: { readonly body: { readonly message: string } }) => answer.body.message
    assert.deepStrictEqual(
      [
        messageOf(yield* ada.post("send?id=ada/3", { input: "hi", context: {} })),
        messageOf(yield* ada.get("events?id=ada/1")),
        messageOf(yield* ada.get("chat/state?id=bob/1")),
        messageOf(yield* as("some").get("shared"))
      ],
      [
        'The field "context" of send needs full access.',
        "events needs full access.",
        "This caller may not touch this session.",
        "shared needs full access to all sessions."
      ]
    )

    // The caller has decided
    const decided = { ...request, approved: true, decidedBy: "root" }
    assert.strictEqual((yield* ada.post("decide?id=ada/2", { decisions: [decided] })).status, 200)
    const stream = yield* read(`events?id=ada/2`, bearer("root"))
    assert.include(yield* stream.until("decidedBy"), `"decidedBy":"ada"`)
  })

  const judge = Agent.make("judge", { output: Schema.Struct({ verdict: Schema.String }), outputStrategy: "tool" })

  const judging = Session.layer([judge]).pipe(
    Layer.provide([
      VersionedStore.layerMemory,
      ScriptedModel.layer([
        { text: "Let me see.", toolCalls: [{ name: "final_answer", params: { verdict: 3 } }] },
        { text: "Now.", toolCalls: [{ name: "final_answer", params: { verdict: "fine" } }] }
      ])
    ])
  )

  test(
    "the history shows what the events show, and no call for a structured output",
    serve({}, { sessions: judging }),
    function* () {
      const seen = yield* chat("ada/1", "Judge")
      const { messages } = (yield* ada.get("chat/history?id=ada/1")).body
      const answers = seen.flatMap(({ data: { event } }) => (event._tag === "Answered" ? [event] : []))
      assert.deepStrictEqual(
        messages.slice(1).map(({ content, id, role }: Record<string, unknown>) => [role, id, content]),
        answers.map(({ content, messageId }) => ["assistant", messageId, content])
      )
      assert.lengthOf(answers, 2)
      assert.deepStrictEqual(seen.at(-1)?.data.event.output, { verdict: "fine" })
      // The model has its calls with their results
      assert.include(JSON.stringify((yield* root.get("history?id=ada/1")).body), "The output was accepted.")
    }
  )

  test(
    "each class of errors has its status, and its body is a Refusal",
    serve({ limits: { maxBytes: 1000 } }),
    function* () {
      yield* chat("ada/1", "hello", { messageId: "m1" })
      const expect = (
        answer: { status: number; body: SessionHttp.Refusal },
        status: number,
        category: string,
        tag?: string
      ) => {
        assert.deepStrictEqual(
          [answer.status, answer.body.category, answer.body.error?.reason._tag],
          [status, category, tag]
        )
        assert.isString(answer.body.message)
      }
      expect(yield* ada.post("send?id=ada/1", { input: "other", messageId: "m1" }), 409, "conflict", "InputDiffers")
      expect(yield* ada.post("send?id=ada/1", { input: "other", ifExists: "fail" }), 409, "conflict", "Exists")
      expect(yield* ada.post("edit?id=ada/9", { messageId: "m1" }), 404, "not-found", "NotFound")
      expect(yield* ada.post("send?id=ada/1", { input: "" }), 400, "invalid", "InputInvalid")
      expect(yield* ada.post("send?id=ada/1", { input: 3 }), 400, "invalid")
      expect(yield* ada.post("send?id=ada/1", { input: "a", whenBussy: "queue" }), 400, "invalid")
      expect(yield* ada.post("send?id=ada/1", "{"), 400, "invalid")
      expect(yield* ada.post("send?id=ada/1", `{"input":"a","metadata":{"__proto__":{}}}`), 400, "invalid")
      expect(yield* ada.post("send", { input: "a" }), 400, "invalid")
      expect(yield* ada.post("send?id=ada/1", { input: "a" }, { "content-type": "text/plain" }), 400, "invalid")
      expect(yield* ada.post("send?id=ada/1", { input: "a".repeat(2000) }), 413, "too-large")
      expect(yield* ada.get("sends?id=ada/1"), 404, "not-found")
      expect(yield* ada.get("send?id=ada/1"), 404, "not-found")
      expect(
        yield* root.post("send?id=ada/1", { input: "a", context: { a: 1 }, agent: "other" }),
        409,
        "conflict",
        "AgentDiffers"
      )
      // The details of other errors are for callers who see everything
      expect(yield* ada.post("send?id=ada/1", { input: "a", model: "x" }), 400, "invalid")
      expect(yield* root.post("send?id=ada/1", { input: "a", model: "x" }), 400, "invalid", "ModelRefused")
      // A stream that cannot begin
      const { cursor } = (yield* ada.get("chat/state?id=ada/1")).body
      expect(yield* ada.get("chat/events?id=ada/1&after=zz"), 400, "invalid", "EventsUnknown")
      expect(yield* ada.get("chat/events?id=ada/1&after=99"), 400, "invalid", "EventsUnknown")
      expect(
        yield* ada.get("chat/events?id=ada/1", { "last-event-id": cursor.replace(/\d+$/, "99") }),
        409,
        "conflict",
        "EventsUnknown"
      )
      expect(yield* root.get("listChanges?limit=0"), 400, "invalid")
      const limit = yield* ada.get("list?limit=0")
      assert.include(limit.body.message, "at /limit: expected an integer from 1 to 200, got number")
      // A title is a matter of the page, too
      const title = yield* ada.post("update?id=ada/1", { title: "a".repeat(201) })
      expect(title, 400, "invalid", "ArgumentInvalid")
      assert.include(title.body.error.reason.problem, "at /title")
      const method = yield* ada.get("send?id=ada/1")
      assert.strictEqual(method.body.message, "There is no such route for GET. /sessions/openapi.json has all of them.")
    }
  )

  test(
    "no defect reaches a client, also inside a stream",
    serve({}, { sessions: Layer.provideMerge(broken, sessions) }),
    function* () {
      yield* ada.post("send?id=ada/later", { input: "hi" })
      const answers = [
        yield* ada.get("chat/history?id=ada/1"),
        yield* ada.get("file?id=ada/1&message=1&part=0"),
        yield* root.get("list"),
        yield* root.get("events?id=ada/later")
      ]
      const stream = yield* read("chat/events?id=ada/later", bearer("ada"))
      const text = yield* stream.until("event: end")
      assert.strictEqual(stream.response.status, 200)
      assert.deepStrictEqual(eventsOf(yield* stream.until("\n\n<")).at(-1)?.data.category, "internal")
      for (const answer of answers.slice(0, 3)) {
        assert.deepStrictEqual([answer.status, answer.body.category], [500, "internal"])
      }
      assert.isFalse(JSON.stringify([answers.map(({ text }) => text), text]).includes(secret))
    }
  )

  test(
    "a stream shows that it lives, and ends with the token of its caller",
    serve({}, { caller: () => ({ expires: DateTime.makeUnsafe(60_000) }) }),
    function* () {
      const seen = yield* chat("ada/1", "hello")
      const stream = yield* read("chat/events?id=ada/1", bearer("ada", { "last-event-id": seen.at(-1)?.id ?? "" }))
      const { headers } = stream.response
      assert.strictEqual(headers.get("content-type"), "text/event-stream")
      assert.strictEqual(headers.get("cache-control"), "no-cache, no-transform")
      assert.strictEqual(headers.get("x-accel-buffering"), "no")
      const beats = (count: number) => (text: string) => text.split(":\n\n").length > count
      assert.strictEqual(yield* stream.until(beats(1)), ":\n\n")
      yield* TestClock.adjust("15 seconds")
      assert.strictEqual(yield* stream.until(beats(2)), ":\n\n:\n\n")
      yield* TestClock.adjust("15 seconds")
      yield* stream.until(beats(3))
      yield* TestClock.adjust("30 seconds")
      const [end] = eventsOf(yield* stream.until("event: end"))
      assert.deepStrictEqual([end?.event, end?.data.category], ["end", "unauthorized"])
      assert.isTrue((yield* stream.until("never")).endsWith("<end>"))
    }
  )

  test("a stream continues after any event, by Last-Event-ID or after", serve(), function* () {
    const seen = yield* chat("ada/1", "hello")
    // The pieces are in their message now
    const all = seen.filter(({ data }) => data.event._tag !== "AnswerDelta")
    for (const [index, { id = "" }] of all.slice(0, -1).entries()) {
      const rest = yield* read("chat/events?id=ada/1&after=0", bearer("ada", { "last-event-id": id }))
      assert.deepStrictEqual(eventsOf(yield* rest.until("TurnFinished")), all.slice(index + 1))
      const again = yield* read(`chat/events?id=ada/1&after=${id}`, bearer("ada"))
      assert.deepStrictEqual(eventsOf(yield* again.until("TurnFinished")), all.slice(index + 1))
    }
  })

  test.live(
    "SCREEN-1 a front end sees what a model writes, but no reasoning, and continues after any piece",
    serve({}, { sessions: typing }),
    function* () {
      yield* ada.post("send?id=ada/1", { input: "hi" })
      const stream = yield* read("chat/events?id=ada/1", bearer("ada"))
      const events = eventsOf(yield* stream.until("AnswerDelta"))
      const { id = "" } = events.at(-1) ?? {}
      assert.match(id, /\//)
      const rest = yield* read("chat/events?id=ada/1", bearer("ada", { "last-event-id": id }))
      const more = eventsOf(yield* rest.until("TurnFinished"))
      const shown = [...events, ...more].map(({ data }) => data.event)
      assert.strictEqual(written(shown), typed)
      assert.isFalse(JSON.stringify(shown).includes("secret thought"))
      const ids = shown.flatMap((event) => (event._tag === "AnswerDelta" ? [event.messageId] : []))
      const answered = shown.flatMap((event) => (event._tag === "Answered" ? [event.messageId] : []))
      assert.deepStrictEqual(Array.from(new Set(ids)), answered)

      // Stored events alone continue from a piece, too
      const stored = yield* read("chat/events?id=ada/1&live=false", bearer("ada", { "last-event-id": id }))
      const tags = eventsOf(yield* stored.until("TurnFinished")).map(({ data }) => data.event._tag)
      assert.deepStrictEqual(tags, ["Answered", "TurnFinished"])
      assert.strictEqual((yield* ada.get("chat/events?id=ada/1&live=perhaps")).status, 400)
      assert.strictEqual((yield* ada.get("live?id=ada/1")).status, 403)
      const whole = yield* read("live?id=ada/1&every=1000", bearer("root"))
      assert.include(yield* whole.until("RunFinished"), "secret thought")
    }
  )

  test.live("SCREEN-3 with live=false no piece of an answer is sent", serve({}, { sessions: typing }), function* () {
    yield* ada.post("send?id=ada/1", { input: "hi" })
    const stream = yield* read("chat/events?id=ada/1&live=false", bearer("ada"))
    assert.notInclude(yield* stream.until("TurnFinished"), "AnswerDelta")
  })

  test(
    "a caller has a number of streams, which are free again when they are closed",
    serve({ maxStreams: 2 }),
    function* () {
      const open = read("chat/events?id=ada/1", bearer("ada"))
      yield* open
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* Effect.flatMap(open, ({ until }) => until(":"))
          const { body, status } = yield* ada.get("chat/events?id=ada/1")
          assert.deepStrictEqual([status, body.category], [429, "busy"])
          yield* Effect.flatMap(read("chat/events?id=bob/1", bearer("bob")), ({ until }) => until(":"))
        })
      )
      const free = (): Effect.Effect<number, never, HttpServer.HttpServer> =>
        Effect.flatMap(Effect.scoped(open), ({ response }) => (response.ok ? Effect.succeed(response.status) : free()))
      assert.strictEqual(yield* free(), 200)
    }
  )

  const cookie = { cookie: "session=ada" }

  const postWith = (headers: Record<string, string>) =>
    send("send?id=ada/1", {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ input: "hi" })
    })

  test(
    "a cookie counts for pages of this host and of origins that are allowed, a token for all",
    serve({ cookie: "session", allowedOrigins: ["https://app.example.com"] }),
    function* () {
      const own = (yield* url).replace("/sessions", "")
      assert.strictEqual((yield* postWith({ ...cookie, origin: own })).status, 200)
      assert.strictEqual((yield* postWith({ ...cookie, "sec-fetch-site": "same-origin" })).status, 200)
      assert.strictEqual((yield* postWith({ ...cookie, origin: "https://app.example.com" })).status, 200)
      assert.strictEqual((yield* send("chat/state?id=ada/1", { headers: cookie })).status, 200)
      for (const foreign of [
        cookie,
        { ...cookie, origin: "null" },
        { ...cookie, origin: "https://evil.example.com" },
        { ...cookie, origin: "https://app.example.com.evil.com" },
        { ...cookie, "sec-fetch-site": "cross-site" },
        { ...cookie, "sec-fetch-site": "same-site" }
      ]) {
        const { body, status } = yield* postWith(foreign)
        assert.deepStrictEqual([status, body.category], [403, "forbidden"], JSON.stringify(foreign))
      }
      const read = yield* send("chat/state?id=ada/1", { headers: { ...cookie, origin: "https://evil.example.com" } })
      assert.strictEqual(read.status, 403)
      assert.strictEqual((yield* postWith(bearer("ada", { origin: "https://evil.example.com" }))).status, 200)
      // The cookie is not a token where a token is
      assert.strictEqual((yield* postWith({ ...cookie, ...bearer("eve"), origin: own })).status, 401)
    }
  )

  const preflight = (origin: string) =>
    send("send?id=ada/1", { method: "OPTIONS", headers: { origin, "access-control-request-method": "POST" } })

  test(
    "origins are allowed by a list, and none without it",
    serve({ allowedOrigins: ["https://app.example.com"] }),
    function* () {
      const allowed = yield* preflight("https://app.example.com")
      assert.strictEqual(allowed.headers.get("access-control-allow-origin"), "https://app.example.com")
      assert.include(allowed.headers.get("access-control-allow-headers"), "last-event-id")
      assert.isNull(allowed.headers.get("access-control-allow-credentials"))
      assert.isNull((yield* preflight("https://evil.example.com")).headers.get("access-control-allow-origin"))
      const answer = yield* ada.get("chat/state?id=ada/1", { origin: "https://app.example.com" })
      assert.strictEqual(answer.headers.get("access-control-allow-origin"), "https://app.example.com")
      const refused = yield* ada.get("chat/state?id=bob/1", { origin: "https://app.example.com" })
      assert.strictEqual(refused.headers.get("access-control-allow-origin"), "https://app.example.com")
    }
  )

  test("without a list no origin is allowed, and without the option no cookie", serve(), function* () {
    assert.isNull((yield* preflight("https://app.example.com")).headers.get("access-control-allow-origin"))
    const own = (yield* url).replace("/sessions", "")
    assert.strictEqual((yield* postWith({ ...cookie, origin: own })).status, 401)
  })

  const png = Buffer.from([137, 80, 78, 71])

  test("files are addresses, shown in place where they are pictures, and attachments otherwise", serve(), function* () {
    const html = "<script>alert(1)</script>"
    const input = [
      { type: "text", text: "look" },
      { type: "file", mediaType: "image/png", data: { type: "base64", base64: png.toString("base64") } },
      {
        type: "file",
        mediaType: "text/html",
        fileName: "a'\n\u00e4.html",
        data: { type: "base64", base64: btoa(html) }
      },
      { type: "file", mediaType: "image/svg+xml", data: { type: "base64", base64: btoa(html) } },
      { type: "file", mediaType: "image/png", data: { type: "url", url: "https://example.com/a.png" } }
    ]
    const [received] = yield* chat("ada/1", input, { messageId: "m 1" })
    const history = yield* ada.get("chat/history?id=ada/1")
    const parts: ReadonlyArray<ToolResult.FilePart> = received?.data.event.content.slice(1)
    assert.deepStrictEqual(history.body.messages[0].content, received?.data.event.content)
    const urls = parts.map(({ data }) => (data.type === "url" ? data.url : ""))
    assert.strictEqual(urls[0], "/sessions/file?id=ada%2F1&message=m+1&part=1")
    assert.strictEqual(urls[3], "https://example.com/a.png")

    const files = yield* Effect.forEach(urls.slice(0, 3), (url) => ada.get(url.replace("/sessions/", "")))
    const headersOf = (name: string) => files.map(({ headers }) => headers.get(name))
    assert.deepStrictEqual(headersOf("content-type"), ["image/png", "text/html", "image/svg+xml"])
    const attached = ["inline", "attachment; filename*=UTF-8''a%27%0A%C3%A4.html", "attachment"]
    assert.deepStrictEqual(headersOf("content-disposition"), attached)
    assert.deepStrictEqual(headersOf("x-content-type-options"), ["nosniff", "nosniff", "nosniff"])
    assert.strictEqual(files[1]?.text, html)
    for (const query of ["message=m+1&part=0", "message=m+1&part=4", "message=m+1&part=9", "message=none&part=0"]) {
      assert.strictEqual((yield* ada.get(`file?id=ada/1&${query}`)).status, 404, query)
    }
    assert.strictEqual((yield* ada.get("file?id=ada/1&message=m+1&part=-1")).status, 400)
    assert.strictEqual((yield* bob.get(urls[0]?.replace("/sessions/", "") ?? "")).status, 403)
  })

  test("the file of a message that waits has its address, too", serve(), function* () {
    yield* chat("ada/1", "/pay bill")
    const part = { type: "file", mediaType: "image/png", data: { type: "base64", base64: png.toString("base64") } }
    assert.strictEqual((yield* ada.post("send?id=ada/1", { input: [part], messageId: "m2" })).status, 200)
    assert.isFalse((yield* ada.get("chat/history?id=ada/1")).text.includes("m2"))
    assert.strictEqual((yield* ada.get("file?id=ada/1&message=m2&part=0")).status, 200)
  })

  test(
    "PEOPLE-3 a caller who is none of the deciders is refused with 403, and nothing of the body changes that",
    serve(),
    function* () {
      const bob = as("bob")
      yield* bob.post("send?id=bob/7", { input: "/pay bill", messageId: "m1" })
      const { body } = yield* Effect.repeat(bob.get("chat/state?id=bob/7"), {
        until: ({ body }) => body?.status === "waiting"
      })
      const [request] = body.requests
      assert.deepStrictEqual(request.bounds, { deciders: ["finance"] })
      const decisions = [{ ...request, approved: true }]
      const refused = yield* bob.post("decide?id=bob/7", { decisions })
      assert.deepStrictEqual([refused.status, refused.body.category], [403, "forbidden"])
      assert.strictEqual(refused.body.error.reason.error.problem, "decider")
      assert.strictEqual((yield* bob.post("decide?id=bob/7", { decisions, as: ["finance"] })).status, 403)
      for (const body of [{ decisions }, { decisions, as: ["finance"] }]) {
        assert.strictEqual((yield* as("host").post("decide?id=bob/7", body)).status, 403)
      }
      assert.strictEqual((yield* as("root").post("decide?id=bob/7", { decisions, as: ["bob"] })).status, 403)
      assert.strictEqual((yield* bob.get("chat/state?id=bob/7")).body.requests.length, 1)
      assert.strictEqual((yield* as("root").post("decide?id=bob/7", { decisions })).status, 200)
    }
  )

  test("the OpenAPI document has all routes, and an HttpApi makes a client of them", serve(), function* () {
    const { body, text } = yield* send("openapi.json")
    assert.isAtMost(text.length, 120_000)
    assert.includeMembers(Object.keys(body.paths), [
      ...Object.keys(SessionApi.operations).map((name) => `/sessions/${name}`),
      "/sessions/chat/events",
      "/sessions/file"
    ])
    const { components, paths } = body
    const shared = Object.keys(components.responses)
    assert.deepStrictEqual(shared, ["400", "401", "403", "404", "408", "409", "413", "429", "500", "503"])
    for (const status of shared) {
      assert.deepStrictEqual(paths["/sessions/chat/ui"].post.responses[status], {
        $ref: `#/components/responses/${status}`
      })
      const { $ref } = components.responses[status].content["application/json"].schema
      assert.property(components.schemas, $ref.replace("#/components/schemas/", ""))
    }
    for (const [path, method, status = "200"] of [
      ["chat/ui", "post"],
      ["chat/ui/{id}/stream", "get"],
      ["chat/ui/{id}/stream", "get", "204"],
      ["chat/agui", "post"]
    ] as const) {
      const { content, ...rest } = paths[`/sessions/${path}`][method].responses[status]
      assert.deepStrictEqual(
        Object.keys(content ?? {}),
        status === "200" ? ["text/event-stream"] : [],
        JSON.stringify(rest)
      )
    }
    const { id, messages } = paths["/sessions/chat/ui"].post.requestBody.content["application/json"].schema.properties
    assert.deepStrictEqual([id.type, messages.type], ["string", "array"])
    assert.deepStrictEqual(Object.keys(paths["/sessions/chat/ui"].get.responses["200"].content), ["application/json"])
    assert.deepStrictEqual(body.components.securitySchemes.bearer, { type: "http", scheme: "bearer" })
    for (const methods of Object.values<Record<string, { responses: object; security: unknown }>>(body.paths)) {
      for (const { security } of Object.values(methods)) assert.deepStrictEqual(security, [{ bearer: [] }])
      for (const { responses } of Object.values(methods))
        assert.includeMembers(Object.keys(responses), ["401", "403", "500"])
    }
    const base = (yield* url).replace("/sessions", "")
    const client = yield* HttpApiClient.make(SessionHttp.Api.prefix("/sessions"), {
      baseUrl: base,
      transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken("root"))
    }).pipe(Effect.provide(FetchHttpClient.layer))
    const receipt = yield* client.send({ query: { id: "a" }, payload: { input: "hello" } })
    assert.strictEqual(receipt.sequence, 1)
    const listed = yield* client.list({ query: { metadata: {}, limit: 5 } })
    assert.deepStrictEqual(
      listed.sessions.map(({ id }) => id),
      ["a"]
    )
    const error = yield* Effect.flip(client.state({ query: { id: "" } }))
    assert.deepInclude(error, { _tag: "Refusal", category: "invalid" })
    assert.isTrue(Option.isSome(yield* client.state({ query: { id: "a" } })))
  })
})
