import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Queue, Redacted, Result, Schedule, Schema, Tracer } from "effect"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { RemoteTools, ToolContract, ToolRuntime, type ToolResult } from "effect-emissary"
import type { HttpClient, HttpServer } from "effect/http"
import { serve, token, url } from "./fixtures/remote-serve.ts"
import { Probe, Tools } from "./fixtures/remote-tools.ts"

const prepare = (name: "get_order" | "report", args: Schema.Json) =>
  Effect.gen(function* () {
    const tool = yield* boundTool.makeStub(yield* ToolContract.fromTool(Tools.tools[name]))
    const set = yield* boundTool.makeSet([tool])
    return Result.getOrThrow(
      yield* boundTool.prepare(set, { id: "c1", name, arguments: args }, { runId: "r1", context: { tenant: "acme" } })
    )
  })

const dispatch = (call: boundTool.BoundCall, options?: Partial<RemoteTools.ClientOptions>, path = "") =>
  Effect.gen(function* () {
    const layer = RemoteTools.layerRuntime({
      url: `${yield* url}${path}`,
      token,
      retry: Schedule.recurs(1),
      ...options
    })
    return yield* Effect.flatMap(ToolRuntime.ToolRuntime, (runtime) => runtime.dispatch(call)).pipe(
      Effect.provide(layer)
    )
  })

const unavailable = (result: ToolResult.ToolResult) =>
  Schema.decodeUnknownEffect(
    Schema.Struct({
      type: Schema.Literal("remote_unavailable"),
      message: Schema.String,
      value: RemoteTools.Unavailable
    })
  )(result)

const test = <E>(
  name: string,
  options: Partial<RemoteTools.ServerOptions>,
  body: Effect.Effect<void, E, HttpClient.HttpClient | HttpServer.HttpServer | Probe>
) => it.live(name, () => body.pipe(Effect.provide(Layer.merge(serve(options), NodeHttpClient.layerUndici))))

describe("RT-5 every outcome of a call is typed", () => {
  test(
    "wrong token",
    {},
    Effect.gen(function* () {
      const result = yield* dispatch(yield* prepare("get_order", { id: "1" }), { token: Redacted.make("no") })
      const { message, value } = yield* unavailable(result)
      assert.deepStrictEqual(value, { reason: "unauthorized", outcome: "not_executed", status: 401 })
      assert.include(message, "token")
    })
  )

  test(
    "oversized body",
    { limits: { maxBytes: 1000 } },
    Effect.gen(function* () {
      const args = { items: [{ sku: "x".repeat(5000), qty: 1 }] }
      const { message, value } = yield* unavailable(yield* dispatch(yield* prepare("report", args)))
      assert.deepStrictEqual(value, { reason: "request_too_large", outcome: "not_executed", status: 413 })
      assert.include(message, "1000 bytes")
    })
  )

  test(
    "a result that the server may not send",
    { limits: { maxStringLength: 2000 } },
    Effect.gen(function* () {
      const args = {
        items: [
          { sku: "x".repeat(1500), qty: 1 },
          { sku: "y".repeat(1500), qty: 1 }
        ]
      }
      const result = yield* dispatch(yield* prepare("report", args))
      assert.strictEqual(result._tag === "Failure" && result.type, "execution_error")
    })
  )

  test(
    "unknown tool",
    {},
    Effect.gen(function* () {
      const call = yield* prepare("get_order", { id: "1" })
      const result = yield* dispatch({ ...call, contract: { ...call.contract, name: "get_invoice" } })
      assert.strictEqual(result._tag === "Failure" && result.type, "unknown_tool")
    })
  )

  test(
    "contract mismatch",
    {},
    Effect.gen(function* () {
      const call = yield* prepare("get_order", { id: "1" })
      const result = yield* dispatch({ ...call, contract: { ...call.contract, digest: "sha256:00" } })
      const { message, value } = yield* unavailable(result)
      assert.deepStrictEqual(value, { reason: "contract_mismatch", outcome: "not_executed", status: 409 })
      assert.include(message, "get_order")
      assert.strictEqual(Queue.sizeUnsafe(yield* Probe), 0)
    })
  )

  test(
    "denied context",
    { context: ({ tenant }) => Effect.fail(new RemoteTools.Denied({ message: `Not for ${String(tenant)}` })) },
    Effect.gen(function* () {
      const { message, value } = yield* unavailable(yield* dispatch(yield* prepare("get_order", { id: "1" })))
      assert.deepStrictEqual(value, { reason: "denied", outcome: "not_executed", status: 403 })
      assert.include(message, "Not for acme")
    })
  )

  test(
    "a URL with another path",
    {},
    Effect.gen(function* () {
      const result = yield* dispatch(yield* prepare("get_order", { id: "1" }), {}, "/elsewhere")
      assert.deepStrictEqual((yield* unavailable(result)).value, {
        reason: "not_found",
        outcome: "not_executed",
        status: 404
      })
    })
  )
})

describe("L8 what is recorded", () => {
  it.live("spans of both sides carry neither arguments nor token nor results", () => {
    const seen: Array<string> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        const attribute = span.attribute.bind(span)
        span.attribute = (key, value) => {
          seen.push(`${options.kind} ${options.name} ${key}=${String(value)}`)
          attribute(key, value)
        }
        return span
      }
    })
    return Effect.gen(function* () {
      const result = yield* dispatch(yield* prepare("get_order", { id: "private-42" }))
      assert.strictEqual(result._tag, "Success")
      const text = seen.join("\n")
      assert.include(text, "client RemoteTools.execute emissary.tool.name=get_order")
      assert.match(text, /^server /m)
      assert.notInclude(text, "private-42")
      assert.notInclude(text, "s3cret")
    }).pipe(
      Effect.provide(
        Layer.merge(serve(), NodeHttpClient.layerUndici).pipe(Layer.provideMerge(Layer.succeed(Tracer.Tracer, tracer)))
      )
    )
  })
})
