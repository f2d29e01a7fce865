/** Clients that take much and read nothing: what they can have open is limited, and a reader that does not read ends. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { HttpServer } from "effect/http"
import { TestClock } from "effect/testing"
import { Conversation } from "effect-emissary"
import { Session } from "effect-emissary/session"
import * as net from "node:net"
import { test } from "../test.ts"
import { as, eventsOf, read, serve, sessions } from "./serve.ts"

const ada = as("ada")
const bob = as("bob")

const letters = "x".repeat(100_000)

/** Sessions with events without end, and histories that are longer than a connection holds. */
const flood = (made: { events: number }) =>
  Layer.effect(
    Session.Session,
    Effect.map(Session.Session, (sessions) => ({
      ...sessions,
      history: () => Effect.orDie(Conversation.addUser(Conversation.empty, letters.repeat(300))),
      live: (id: string) =>
        sessions.events(id).pipe(
          Stream.take(1),
          Stream.flatMap((entry) => Stream.forever(Stream.succeed(entry))),
          Stream.map(({ event, ...entry }) => {
            made.events += 1
            const input = [{ type: "text", text: letters }] as const
            return { ...entry, event: event._tag === "MessageReceived" ? { ...event, input } : event }
          })
        )
    }))
  ).pipe(Layer.provideMerge(sessions))

const pause = Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 20)))

/** A connection by hand, which reads nothing until it is asked to. */
const connect = Effect.fnUntraced(function* (...lines: ReadonlyArray<string>) {
  const { address } = yield* HttpServer.HttpServer
  const socket = yield* Effect.acquireRelease(
    Effect.sync(() => net.connect("port" in address ? address.port : 0, "127.0.0.1")),
    (socket) => Effect.sync(() => socket.destroy())
  )
  let text = ""
  let isClosed = false
  socket.pause()
  socket.on("error", () => undefined)
  socket.on("close", () => (isClosed = true))
  socket.on("data", (data) => (text = (text + String(data)).slice(-10_000)))
  socket.pause()
  socket.write(lines.join("\r\n"))
  return { socket, text: () => text, isClosed: () => isClosed }
})

const get = (path: string) => connect(`GET /sessions/${path} HTTP/1.1`, "host: x", "authorization: Bearer ada", "", "")

/** Asks again until the status is another one. */
const until = <E, R>(status: number, ask: Effect.Effect<{ readonly status: number }, E, R>) =>
  Effect.gen(function* () {
    for (;;) {
      const found = (yield* ask).status
      if (found === status) return
      yield* pause
    }
  })

const statusOf = (path: string) =>
  Effect.scoped(
    Effect.map(read(path, { authorization: "Bearer ada" }), ({ response }) => ({ status: response.status }))
  )

describe("SCREEN-3 limits of a server of sessions", () => {
  const made = { events: 0 }

  /** A reader that does not read, when the server makes nothing more for it. */
  const stuck = Effect.gen(function* () {
    const reader = yield* get("chat/events?id=ada/1")
    for (let before = -1; made.events === 0 || before !== made.events;) {
      before = made.events
      for (let times = 0; times < 5; times++) yield* pause
    }
    return reader
  })

  test(
    "nothing is made for a reader that does not read, and the stream ends with its reason where it reads again",
    serve({ maxStreams: 1, readTimeout: "20 seconds" }, { sessions: flood(made) }),
    function* () {
      yield* ada.post("send?id=ada/1", { input: "hi" })
      const { isClosed, socket, text } = yield* stuck
      const before = made.events
      yield* TestClock.adjust("20 seconds")
      assert.strictEqual((yield* statusOf("chat/events?id=ada/1")).status, 429)
      assert.strictEqual(made.events, before)
      socket.resume()
      while (!text().includes("event: end")) yield* pause
      assert.strictEqual(eventsOf(text()).at(-1)?.data.category, "timeout")
      assert.isFalse(isClosed())
      yield* until(200, statusOf("chat/events?id=ada/1"))
    }
  )

  test(
    "a reader that never reads is closed, and its place is free",
    serve({ maxStreams: 1, readTimeout: "20 seconds" }, { sessions: flood(made) }),
    function* () {
      yield* ada.post("send?id=ada/1", { input: "hi" })
      const { isClosed, socket } = yield* stuck
      yield* TestClock.adjust("20 seconds")
      assert.strictEqual((yield* statusOf("chat/events?id=ada/1")).status, 429)
      yield* TestClock.adjust("10 seconds")
      yield* until(200, statusOf("chat/events?id=ada/1"))
      socket.resume()
      while (!isClosed()) yield* pause
    }
  )

  test(
    "a long answer counts until it is read, and arrives whole",
    serve({ maxRequests: 1, readTimeout: "20 seconds" }, { sessions: flood({ events: 0 }) }),
    function* () {
      const whole = yield* ada.get("chat/history?id=ada/1")
      assert.strictEqual(whole.headers.get("content-length"), String(Buffer.byteLength(whole.text)))
      assert.strictEqual(whole.body.messages[0].content[0].text.length, 30_000_000)
      yield* until(200, ada.get("chat/state?id=ada/1"))
      yield* get("chat/history?id=ada/1")
      yield* until(429, ada.get("chat/state?id=ada/1"))
      assert.strictEqual((yield* bob.get("chat/state?id=bob/1")).status, 200)
      yield* TestClock.adjust("20 seconds")
      yield* until(200, ada.get("chat/state?id=ada/1"))
    }
  )

  /** A body that does not arrive. */
  const body = connect(
    "POST /sessions/send?id=ada/1 HTTP/1.1",
    "host: x",
    "authorization: Bearer ada",
    "content-type: application/json",
    "content-length: 1000",
    "",
    "{"
  )

  test("a caller has a number of bodies under way, and they have a time", serve({ maxRequests: 2 }), function* () {
    yield* body
    const { socket, text } = yield* body
    yield* until(429, ada.get("chat/state?id=ada/1"))
    const { body: refused } = yield* ada.post("send?id=ada/1", { input: "hi" })
    assert.strictEqual(refused.category, "busy")
    assert.strictEqual((yield* bob.get("chat/state?id=bob/1")).status, 200)
    yield* TestClock.adjust("30 seconds")
    yield* until(200, ada.get("chat/state?id=ada/1"))
    socket.resume()
    while (!text().includes('"category":"timeout"')) yield* pause
    assert.match(text(), /^HTTP\/1\.1 408 /)
  })

  test(
    "all callers together have a number of bodies and streams",
    serve({ maxAllRequests: 1, maxAllStreams: 1 }),
    function* () {
      const { socket } = yield* body
      yield* until(429, bob.get("chat/state?id=bob/1"))
      socket.destroy()
      yield* until(200, bob.get("chat/state?id=bob/1"))
      const stream = yield* read("chat/events?id=ada/1", { authorization: "Bearer ada" })
      yield* stream.until(":")
      const refused = yield* bob.get("chat/events?id=bob/1")
      assert.deepStrictEqual([refused.status, refused.body.category], [429, "busy"])
    }
  )
})
