import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Fiber, Layer, Queue, Redacted, Schedule, Schema, Stream } from "effect"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { ToolResult } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { Conformance } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient, HttpRouter } from "effect/http"
import { deadUrl, rawServer, respond } from "./fixtures/remote-raw.ts"
import { type ClientOptions, http, serve, token, url } from "./fixtures/remote-serve.ts"
import { handlers, NoSuchOrder, Probe, Tools } from "./fixtures/remote-tools.ts"
import * as support from "./support.ts"
import { test } from "../test.ts"

const claims = serve({ context: (claimed) => Effect.succeed(claimed) })

const remoteLayer = (url: string, over?: Partial<ClientOptions>) =>
  RemoteTools.layerHandlers(Tools, { url, token, ...over }).pipe(Layer.provide(FetchHttpClient.layer))

/** Executes a call the way a run does, with the handlers of a layer. */
const execute = <E>(
  layer: Layer.Layer<Tool.HandlersFor<typeof Tools.tools>, E>,
  ...call: readonly [name: string, args: Schema.Json, options?: Partial<boundTool.PrepareOptions>]
) =>
  boundTool.fromToolkit(Tools).pipe(
    Effect.flatMap(boundTool.makeSet),
    Effect.flatMap((set) => support.call(set, ...call)),
    Effect.provide(layer)
  )

const cases: ReadonlyArray<readonly [string, string, Schema.Json]> = [
  ["a success with a date in it", "get_order", { id: "42" }],
  ["a typed failure with a date in it", "get_order", { id: "0" }],
  ["a ToolFailure", "report", { items: [] }],
  ["nested arguments", "report", { items: [{ sku: "a", qty: 2 }], note: "!" }],
  ["arguments as text", "report", `{"items":[{"sku":"a","qty":2}]}`],
  ["arguments that do not fit", "report", { items: [{ sku: 1 }] }],
  ["the context of the run", "who_am_i", {}],
  ["a timeout", "brief", {}],
  ["no value", "touch", {}],
  ["an unknown tool", "nope", {}],
  ["TRUST-5 a defect", "boom", {}]
]

describe("RT-5 layerHandlers moves the handlers by swapping one layer", () => {
  for (const [title, name, args] of cases) {
    test.live(`equal results: ${title}`, claims, function* () {
      const context = { tenant: "acme", list: [1, null, { a: "b" }] }
      const here = yield* execute(handlers.pipe(Layer.provide(Probe.layer)), name, args, { context })
      const there = yield* execute(remoteLayer(yield* url), name, args, { context })
      assert.deepStrictEqual(there, here)
    })
  }

  const failure = (result: ToolResult.ToolResult) => (result._tag === "Failure" ? result : undefined)

  test.live("a server that is gone becomes remote_unavailable with its value", function* () {
    const layer = remoteLayer(yield* deadUrl, { retry: Schedule.recurs(1) })
    const result = failure(yield* execute(layer, "report", { items: [] }))
    assert.strictEqual(result?.type, "remote_unavailable")
    assert.deepStrictEqual(result?.value, { reason: "unreachable", outcome: "not_executed" })
  })

  test.live("a call that was cut is made again for an idempotent tool, and for no other", function* () {
    const cut = Effect.fnUntraced(function* (idempotent: boolean) {
      const toolkit = Toolkit.make(Tool.make("look", { success: Schema.String }).annotate(Tool.Idempotent, idempotent))
      const body = JSON.stringify({ protocol: 1, callId: "call_1", result: ToolResult.success("seen") })
      const server = yield* rawServer((socket, count) => (count === 1 ? socket.destroy() : respond(socket, 200, body)))
      const layer = RemoteTools.layerHandlers(toolkit, { url: server.url, token, retry: Schedule.recurs(1) })
      const set = yield* Effect.flatMap(boundTool.fromToolkit(toolkit), boundTool.makeSet).pipe(
        Effect.provide(layer.pipe(Layer.provide(FetchHttpClient.layer)))
      )
      const result = yield* support.call(set, "look", {})
      return [result._tag, server.requests.length]
    })
    assert.deepStrictEqual(yield* cut(true), ["Success", 2])
    assert.deepStrictEqual(yield* cut(false), ["Failure", 1])
  })

  test.live("a wrong token becomes remote_unavailable with its value", claims, function* () {
    const layer = remoteLayer(yield* url, { token: Redacted.make("wrong") })
    const result = failure(yield* execute(layer, "report", { items: [] }))
    assert.deepStrictEqual(result?.value, { reason: "unauthorized", outcome: "not_executed", status: 401 })
  })

  test.live("a shorter timeout of the run interrupts the handler on the server", claims, function* () {
    const result = failure(yield* execute(remoteLayer(yield* url), "wait", {}, { timeout: "2 seconds" }))
    assert.strictEqual(result?.type, "timeout_error")
    assert.deepStrictEqual(yield* Queue.takeN(yield* Probe, 2), ["wait started", "wait interrupted"])
  })

  test.live("interruption of the run interrupts the handler on the server", claims, function* () {
    const probe = yield* Probe
    const fiber = yield* Effect.forkChild(execute(remoteLayer(yield* url), "wait", {}))
    assert.strictEqual(yield* Queue.take(probe), "wait started")
    yield* Fiber.interrupt(fiber)
    assert.strictEqual(yield* Queue.take(probe), "wait interrupted")
  })

  test.live("core's own resolution gets typed values and typed failures, else an AiError", claims, function* () {
    const layer = remoteLayer(yield* url)
    const getOrder = Effect.fnUntraced(function* (id: string) {
      const results = yield* Stream.runCollect(yield* (yield* Tools).handle("get_order", { id }))
      return results[0]?.encodedResult
    }, Effect.provide(layer))
    assert.deepStrictEqual(yield* getOrder("42"), { id: "42", at: DateTime.makeUnsafe(1000) })
    assert.instanceOf(yield* Effect.flip(getOrder("0")), NoSuchOrder)
    const boom = Effect.flatMap(Tools, (tools) => Effect.flatMap(tools.handle("boom", {}), Stream.runDrain))
    assert.strictEqual((yield* Effect.flip(Effect.provide(boom, layer)))._tag, "AiError")
  })
})

describe("RT-4 the remote runtime keeps the rules of every runtime", () => {
  const checks = Conformance.toolRuntime(
    "remote",
    ({ handlers, toolkit }) => {
      const server = RemoteTools.layerServer(toolkit, { token, context: (claimed) => Effect.succeed(claimed) })
      const served = HttpRouter.serve(Layer.provide(server, handlers), { disableLogger: true, disableListenLog: true })
      return Layer.unwrap(Effect.map(url, (url) => RemoteTools.layerRuntime({ url, token, maxConcurrency: 3 }))).pipe(
        Layer.provide([FetchHttpClient.layer, Layer.provideMerge(served, http)]),
        Layer.orDie
      )
    },
    { stubs: true, clock: "live" }
  )

  for (const { check, name } of checks) it.live(name, () => check)
})
