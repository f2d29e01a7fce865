/** HOUSE-1: the operations of sessions are one table, from which surfaces are derived without a case for any of them. */
import { assert, describe } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Schema, Stream } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Session, SessionApi } from "effect-emissary/session"
import * as service from "#src/session/internal/service.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const statuses = { invalid: 400, "not-found": 404, conflict: 409, busy: 429, unavailable: 503, internal: 500 } as const

const errors = Object.entries(statuses).map(([category, status]) =>
  SessionApi.error.pipe(
    Schema.refine((error): error is Session.SessionError => error.category === category),
    HttpApiSchema.status(status)
  )
)

const endpoints = service.all.map(([name, { about, id, kind, payload, success }]) => {
  const path = about === "session" ? (`/:id/${name}` as const) : (`/${name}` as const)
  const options = { error: errors, ...(about === "session" && { params: Schema.Struct({ id }) }) }
  if (kind === "command") return HttpApiEndpoint.post(name, path, { ...options, payload, success })
  const query = payload
  if (kind === "query") return HttpApiEndpoint.get(name, path, { ...options, query, success })
  return HttpApiEndpoint.get(name, path, {
    ...options,
    query,
    success: HttpApiSchema.StreamSse({ data: success, error: SessionApi.error })
  })
})

// Sound: this test is not about the types of the endpoints
const group: HttpApiGroup.HttpApiGroup<"all", never> = HttpApiGroup.make("all").add(...(endpoints as [never]))
const api = HttpApi.make("sessions").add(group)

interface Request {
  readonly params?: { readonly id: string }
  readonly payload?: object
  readonly query?: object
}

interface Handlers {
  readonly handle: (name: string, handler: (request: Request) => unknown) => Handlers
}

/** Serves all operations: an endpoint knows its own name and kind alone. */
const handlers = HttpApiBuilder.group(
  api,
  "all",
  (made) =>
    Effect.map(Effect.context<Session.Session>(), (services) => {
      // Sound: each endpoint has a handler, and this test is not about its types
      let all: Handlers = made as never
      const found = Context.get(services, Session.Session)
      for (const [name, { about, argumentsOf, kind }] of service.all) {
        all = all.handle(name, ({ params, payload, query }) => {
          const args = argumentsOf({ ...(payload ?? query) })
          const answer = service.callOf(found, name)(...(about === "session" ? [params?.id, ...args] : args))
          return kind === "stream"
            ? Effect.succeed(Stream.map(answer, (data) => ({ data, event: name, id: undefined })))
            : answer
        })
      }
      return all
    }) as never
)

describe("HOUSE-1 the table of operations", () => {
  test("has the arguments of each payload, and the payload of each call", function* () {
    const payloads: Readonly<Record<string, object>> = {
      send: { input: "hi", messageId: "m", title: "t" },
      edit: { messageId: "m", input: "ho" },
      withdraw: { messageId: "m" },
      fork: { to: "b", at: "life.3" },
      decide: { decisions: [{ callId: "c", digest: "d", approved: true }] },
      update: { title: "t" },
      events: { after: "life.3" },
      history: { untilDamage: true },
      read: { key: "k" },
      list: { prefix: "a", limit: 3 },
      listChanges: { prefix: "a" },
      shared: { kind: "definition" },
      prune: { after: "a" }
    }
    for (const [name, { argumentsOf, payload, payloadOf }] of service.all) {
      const value = { ...payloads[name] }
      assert.deepStrictEqual({ ...payloadOf(...argumentsOf(value)) }, value, name)
      const json = Schema.toCodecJson(payload)
      assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(json)(yield* Schema.encodeEffect(json)(value)), value)
    }
  })

  test("has an OpenAPI document with a path for each operation", function* () {
    const { paths } = OpenApi.fromApi(api as never)
    assert.deepStrictEqual(
      Object.keys(paths).sort(),
      service.all.map(([name, { about }]) => (about === "session" ? `/{id}/${name}` : `/${name}`)).sort()
    )
    yield* Effect.void
  })

  test.live("is served over HTTP with one status for each class of error", t.over(t.echo), function* () {
    const app = HttpApiBuilder.layer(api).pipe(
      Layer.provide(handlers),
      Layer.provide(Layer.succeed(Session.Session, yield* Session.Session)),
      Layer.provide(HttpServer.layerServices)
    )
    const { dispose, handler } = HttpRouter.toWebHandler(app as Layer.Layer<never>, { disableLogger: true })
    const call = Effect.fnUntraced(function* (method: string, path: string, body?: object) {
      const init = { method, headers: { "content-type": "application/json" } }
      const request = new globalThis.Request(`http://localhost${path}`, {
        ...init,
        ...(body !== undefined && { body: JSON.stringify(body) })
      })
      const response = yield* Effect.promise(() => handler(request, Context.empty() as never))
      return [response.status, yield* Effect.promise(() => response.json())] as const
    })
    const [status, receipt] = yield* call("POST", "/a/send", { input: "hi", messageId: "m1" })
    assert.deepStrictEqual([status, receipt.messageId, receipt.sequence], [200, "m1", 1])
    assert.deepStrictEqual((yield* call("POST", "/a/send", { input: "hi", messageId: "m1" }))[1], receipt)
    yield* Session.await("a", receipt)
    const [, state] = yield* call("GET", "/a/state")
    assert.deepStrictEqual([state.agent, state.status], ["support", "idle"])
    const [, history] = yield* call("GET", "/a/history")
    assert.lengthOf(history.messages, 3)
    const [, page] = yield* call("GET", "/list?prefix=a")
    assert.deepStrictEqual(
      page.sessions.map(({ id }: { readonly id: string }) => id),
      ["a"]
    )
    assert.strictEqual((yield* call("POST", "/a/send", { input: "other", messageId: "m1" }))[0], 409)
    assert.strictEqual((yield* call("POST", "/b/resume", {}))[0], 404)
    assert.strictEqual((yield* call("POST", "/a/fork", { to: "b", at: "zz" }))[0], 400)
    yield* Effect.promise(dispose)
  })
})

describe("HOUSE-1 the functions", () => {
  test("find the service, and fail as it does", t.over(t.echo), function* () {
    const service = yield* Session.Session
    const receipt = yield* Session.send("a", "hi")
    yield* Session.await("a", receipt)
    assert.deepStrictEqual(yield* Session.state("a"), yield* service.state("a"))
    const [first] = yield* Stream.runCollect(Stream.take(Session.events("a"), 1))
    assert.strictEqual(first?.event._tag, "MessageReceived")
    const wrong = Stream.runHead(Session.events("a", { after: "zz" }))
    assert.deepStrictEqual(
      yield* Effect.exit(wrong),
      yield* Effect.exit(Stream.runHead(service.events("a", { after: "zz" })))
    )
    assert.isTrue(Exit.isFailure(yield* Effect.exit(wrong)))
  })

  test("refuse options with members of a wider object, and name the member", t.over(t.echo), function* () {
    const options = { messageId: "m", tenant: "acme", title: undefined }
    const error = yield* Effect.flip(Session.send("a", "hi", options))
    assert.include(error.message, 'got "tenant"')
    const { tenant: _, ...known } = options
    assert.strictEqual((yield* Session.send("a", "hi", known)).messageId, "m")
  })
})
