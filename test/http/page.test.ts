/** The file for pages without Effect: over a real server, and a connection that is cut. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { TestClock } from "effect/testing"
import { readFileSync } from "node:fs"
import { gzipSync } from "node:zlib"
import { connect, SessionsError, type Entry } from "../../browser/sessions.js"
import { test } from "../test.ts"
import { serve, typed, typing, way, written } from "./serve.ts"

const file = new URL("../../browser/sessions.js", import.meta.url)

const retry = [10, 100] as const

/** Reads events until one of them passes. */
const readUntil = async (events: AsyncGenerator<Entry, void>, tag: string) => {
  const seen: Array<Entry> = []
  for (;;) {
    const { done, value } = await events.next()
    if (done === true) return seen
    seen.push(value)
    if (value.event._tag === tag) return seen
  }
}

const promise = <A>(run: (signal: AbortSignal) => Promise<A>) => Effect.promise(run)

/** Answers of every shape. */
// oxlint-disable-next-line typescript/no-explicit-any -- the tests look into them
const of = async (answer: Promise<unknown>): Promise<any> => answer

describe("SCREEN-3 a page without Effect", () => {
  test("has one file of at most 4 KB, which imports nothing", function* () {
    const text = readFileSync(file, "utf8")
    assert.isAtMost(gzipSync(text, { level: 9 }).byteLength, 4096)
    assert.notMatch(text, /^import\b|\bimport\(|\brequire\(/m)
  })

  test("sends commands, reads what a front end sees, and gets refusals", serve(), function* () {
    const { url } = yield* way
    const chat = connect({ url, token: "ada", retry })
    yield* promise(async (signal) => {
      const receipt = await of(chat.command("send", "ada/1", { input: "hello", messageId: "m1" }))
      assert.strictEqual(receipt.messageId, "m1")
      const seen = await readUntil(chat.events("ada/1", { signal }), "TurnFinished")
      assert.include(JSON.stringify(seen), "HELLO")
      const history = await of(chat.query("chat/history", { id: "ada/1" }))
      assert.strictEqual(history.messages.length, 2)
      assert.strictEqual((await of(chat.query("list", { limit: 1, prefix: undefined }))).sessions[0].id, "ada/1")
      const changes = chat.listChanges({ prefix: "ada/" }, { signal })
      assert.strictEqual((await changes.next()).value?._tag, "Page")
      const data = { type: "base64", base64: btoa("bytes") }
      await chat.command("send", "ada/2", { input: [{ type: "file", mediaType: "text/plain", data }] })
      const [received] = await readUntil(chat.events("ada/2", { signal }), "MessageReceived")
      const [part] = (received?.event["content"] ?? []) as [{ readonly data: { readonly url: string } }]
      assert.strictEqual(await (await chat.file(part.data.url)).text(), "bytes")
      const error = await chat.command("send", "bob/1", { input: "hello" }).catch((error: unknown) => error)
      assert(error instanceof SessionsError)
      assert.deepStrictEqual([error.status, error.category], [403, "forbidden"])
      const conflict = await of(
        chat.command("send", "ada/1", { input: "x", messageId: "m1" }).catch((error: unknown) => error)
      )
      assert.strictEqual(conflict.error.reason._tag, "InputDiffers")
      const unknown = await chat
        .events("ada/1", { after: "zz", signal })
        .next()
        .catch((error) => error)
      assert.strictEqual(unknown.status, 400)
      // An end has the status that a response would have
      const open = chat.events("ada/2", { signal })
      await readUntil(open, "TurnFinished")
      const next = of(open.next().catch((error) => error))
      await chat.command("remove", "ada/2")
      assert.deepStrictEqual([(await next).status, (await next).error.reason._tag], [404, "NotFound"])
    })
  })

  test("sees each event once and in order over a connection that is cut after each of them", serve(), function* () {
    const { cut, url } = yield* way
    const chat = connect({ url, token: "ada", retry })
    yield* promise(async (signal) => {
      await chat.command("send", "ada/1", { input: "/who me" })
      const whole = await readUntil(chat.events("ada/1", { signal, live: false }), "TurnFinished")
      const statuses: Array<string> = []
      const seen: Array<Entry> = []
      const onStatus = (status: string) => void statuses.push(status)
      const events = chat.events("ada/1", { signal, onStatus })
      for await (const entry of events) {
        seen.push(entry)
        cut()
        if (entry.event._tag === "TurnFinished") break
      }
      assert.deepStrictEqual(seen, whole)
      assert.include(statuses, "waiting")
      // Events that come later, too
      const later = chat.events("ada/1", { signal, after: whole.at(-1)?.cursor ?? "" })
      const next = later.next()
      cut()
      await chat
        .command("send", "ada/1", { input: "again" })
        .catch(() => chat.command("send", "ada/1", { input: "again" }))
      assert.strictEqual((await next).value?.event._tag, "MessageReceived")
    })
  })

  test.live(
    "SCREEN-1 has each piece of an answer once, over a connection that is cut after each of them",
    serve({}, { sessions: typing }),
    function* () {
      const { cut, url } = yield* way
      const chat = connect({ url, token: "ada", retry })
      yield* promise(async (signal) => {
        await chat.command("send", "ada/1", { input: "hi" })
        const seen: Array<Entry> = []
        for await (const entry of chat.events("ada/1", { signal })) {
          seen.push(entry)
          cut()
          if (entry.event._tag === "TurnFinished") break
        }
        const shown = seen.map(({ event }) => event)
        // A page that is away while the rest is written gets the message in the place of the rest
        const text = written(shown)
        assert.isTrue(text.length > 0 && typed.startsWith(text), text)
        assert.strictEqual(new Set(seen.map(({ cursor }) => cursor)).size, seen.length)
        const answer = shown.find(({ _tag }) => _tag === "Answered")
        assert.deepStrictEqual(answer?.["content"], [{ type: "text", text: typed }])
        assert.isTrue(
          shown.every(({ _tag, messageId }) => _tag !== "AnswerDelta" || messageId === answer?.["messageId"])
        )
      })
    }
  )

  test(
    "asks for the next token where one has ended, and stops where there is none",
    serve({}, { caller: (name) => (name === "ada" ? { expires: DateTime.makeUnsafe(60_000) } : {}) }),
    function* () {
      const { url } = yield* way
      const tokens = ["ada", "ada", "root", "root"]
      const chat = connect({ url, token: () => tokens.shift() ?? "none", retry })
      const abort = new AbortController()
      const events = chat.events("ada/1", { signal: abort.signal })
      yield* promise(async () => {
        await chat.command("send", "ada/1", { input: "hello" })
        await readUntil(events, "TurnFinished")
      })
      yield* TestClock.adjust("60 seconds")
      yield* promise(async () => {
        const next = readUntil(events, "TurnFinished")
        await chat.command("send", "ada/1", { input: "again" })
        assert.include(JSON.stringify(await next), "AGAIN")
        const error = await chat
          .events("ada/1")
          .next()
          .catch((error) => error)
        assert.deepStrictEqual([error.status, error.category], [401, "unauthorized"])
        abort.abort()
        assert.isTrue((await events.next()).done)
      })
    }
  )
})
