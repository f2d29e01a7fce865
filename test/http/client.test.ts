/** The client of a server of sessions, where the server, the way to it or the token fails. */
import { assert, describe } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Option, Redacted, Result, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientError, HttpClientResponse } from "effect/http"
import { SessionHttp } from "effect-emissary/http"
import { Session } from "effect-emissary/session"
import * as cursors from "#src/session/internal/cursors.ts"
import { test } from "../test.ts"
import { serve, typed, typing, way, written } from "./serve.ts"

const clientOf = (options: Partial<SessionHttp.ClientOptions> & Pick<SessionHttp.ClientOptions, "url">) => {
  const layer = SessionHttp.layerClient({ token: Redacted.make("root"), timeout: "2 seconds", ...options })
  return Effect.map(Layer.build(layer), (context) => Context.get(context, Session.Session))
}

const reasonOf = <A>(result: Result.Result<A, Session.SessionError>) =>
  Result.isFailure(result) ? `${result.failure.reason._tag} ${result.failure.category}` : "success"

describe("SCREEN-3 a client of sessions", () => {
  const both = Layer.merge(serve(), FetchHttpClient.layer)

  test.live("sees each event once and in order over a way that is cut", both, function* () {
    const { cut, url } = yield* way
    const sessions = yield* clientOf({ url })
    const receipt = yield* sessions.send("ada/1", "/who me")
    const local = yield* Session.Session
    const turn = Session.turnEvents("ada/1", receipt)
    const whole = yield* Stream.runCollect(turn)
    const seen = yield* turn.pipe(
      Stream.tap(() => Effect.sync(cut)),
      Stream.runCollect,
      Effect.provideService(Session.Session, sessions)
    )
    assert.deepStrictEqual(seen, whole)
    const changes = yield* Effect.forkChild(
      sessions.listChanges().pipe(
        Stream.tap(() => Effect.sync(cut)),
        Stream.takeUntil((change) => JSON.stringify(change).includes("ada/2")),
        Stream.runCollect
      )
    )
    yield* local.send("ada/2", "hello")
    const [first] = yield* Fiber.join(changes)
    assert.strictEqual(first?._tag, "Page")
  })

  test.live(
    "SCREEN-1 has each piece of an answer once over a way that is cut, and all of them",
    Layer.merge(serve({}, { sessions: typing }), FetchHttpClient.layer),
    function* () {
      const { cut, url } = yield* way
      const sessions = yield* clientOf({ url })
      yield* sessions.send("ada/1", "hi")
      let pieces = 0
      const isPiece = ({ event }: Session.LiveEntry) => event._tag === "AnswerDelta"
      const seen = yield* sessions.live("ada/1", { every: "1 millis" }).pipe(
        Stream.tap((entry) => Effect.sync(() => (isPiece(entry) && pieces++ % 2 === 0 ? cut() : undefined))),
        Stream.takeUntil(({ event }) => event._tag === "RunEvent" && event.event._tag === "RunFinished"),
        Stream.runCollect
      )
      const text = written(seen.map(({ event }) => event))
      assert.isTrue(text.length > 0 && typed.startsWith(text), text)
      const stored = seen.filter((entry) => !isPiece(entry)).map(({ sequence }) => sequence)
      assert.deepStrictEqual(
        stored,
        stored.map((_, index) => index + 1)
      )
    }
  )

  test.live(
    "asks again for what follows where a server sends what does not follow",
    FetchHttpClient.layer,
    function* () {
      const sent = { _tag: "AnswerDelta", turn: "m0", messageId: "m", part: 0, type: "text" } as const
      const at = (length: number) => cursors.liveCursorOf("life.3", new Map([["m", [undefined, length]]]))
      const entry = (offset: number, delta: string) => ({
        sequence: 3,
        cursor: at(offset + delta.length),
        event: { ...sent, offset, delta }
      })
      const asked: Array<unknown> = []
      // The second answer begins with a piece that was seen
      const answers = [[entry(0, "ab")], [entry(0, "ab"), entry(2, "cd")], [entry(2, "cd")]]
      const http = HttpClient.make((request) =>
        Effect.sync(() => {
          const { after } = Object.fromEntries(request.urlParams.params)
          asked.push(after)
          const text = (answers[asked.length - 1] ?? []).map((data) => `data: ${JSON.stringify(data)}\n\n`).join("")
          return HttpClientResponse.fromWeb(request, new Response(text))
        })
      )
      const sessions = yield* Effect.provideService(clientOf({ url: "http://a" }), HttpClient.HttpClient, http)
      const read = sessions.live("a", { after: "life.3" }).pipe(Stream.take(2), Stream.runCollect)
      assert.strictEqual(written((yield* read).map(({ event }) => event)), "abcd")
      assert.deepStrictEqual(asked, ["life.3", at(2), at(2)])
    }
  )

  test.live("repeats a message that has an id, and no other command, when an answer is lost", both, function* () {
    const { url } = yield* way
    let isLost = true
    let asked = 0
    const losing = HttpClient.transform(yield* HttpClient.HttpClient, (answer, request) => {
      asked++
      if (!isLost) return answer
      isLost = false
      const reason = new HttpClientError.TransportError({ request, cause: new Error("reset") })
      return Effect.andThen(answer, Effect.fail(new HttpClientError.HttpClientError({ reason })))
    })
    const sessions = yield* Effect.provideService(clientOf({ url }), HttpClient.HttpClient, losing)
    const receipt = yield* sessions.send("ada/1", "hello")
    assert.deepStrictEqual([receipt.sequence, asked], [1, 2])
    isLost = true
    assert.strictEqual(
      reasonOf(yield* Effect.result(sessions.fork("ada/1", { to: "ada/2" }))),
      "Unreachable unavailable"
    )
    assert.strictEqual(asked, 3)
    assert.isTrue(Option.isSome(yield* sessions.state("ada/2")))
  })

  test.live("names what a server refuses, and one that is not there", both, function* () {
    const { url } = yield* way
    const refusals = Effect.fnUntraced(function* (token: string) {
      const sessions = yield* clientOf({ url, token: Redacted.make(token) })
      return [
        reasonOf(yield* Effect.result(sessions.state("ada/1"))),
        reasonOf(yield* Effect.result(Stream.runHead(sessions.events("ada/1")))),
        reasonOf(yield* Effect.result(sessions.send("ada/1", "hello"))),
        reasonOf(yield* Effect.result(sessions.prune()))
      ]
    })
    const denied = "Denied invalid"
    assert.deepStrictEqual(yield* refusals("nobody"), [denied, denied, denied, denied])
    assert.deepStrictEqual(yield* refusals("ada"), [denied, denied, "success", denied])
    assert.deepStrictEqual(yield* refusals("some"), ["success", "success", "success", denied])

    // The message of an ask is stored before its events are refused, which its error does not deny
    const page = yield* clientOf({ url, token: Redacted.make("ada") })
    const asked = Session.ask("ada/2", "hello").pipe(Effect.provideService(Session.Session, page), Effect.flip)
    const { message } = yield* asked
    assert.include(message, 'the server refuses "events" (forbidden): events needs full access. This call has changed')
    assert.isTrue(Option.isSome(yield* (yield* Session.Session).state("ada/2")))

    const gone = yield* clientOf({ url: "http://127.0.0.1:1/sessions", timeout: "100 millis" })
    assert.strictEqual(reasonOf(yield* Effect.result(gone.state("a"))), "Unreachable unavailable")
    assert.strictEqual(reasonOf(yield* Effect.result(Stream.runHead(gone.events("a")))), "Unreachable unavailable")
    const other = yield* clientOf({ url: `${url}/nothing`, timeout: "100 millis" })
    assert.strictEqual(reasonOf(yield* Effect.result(other.state("a"))), denied)
    const sessions = yield* clientOf({ url })
    for (const id of [".", "..", "a/../b", "a b&id=c", "ä\u{1f600}", "%2e"]) {
      yield* sessions.send(id, "hello")
      assert.isTrue(Option.isSome(yield* (yield* Session.Session).state(id)), id)
    }
    assert.strictEqual(reasonOf(yield* Effect.result(sessions.state("a\ud800"))), "ArgumentInvalid invalid")
  })
})
