import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Queue, Redacted, Result, Schedule, Schema, type Scope } from "effect"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { ToolContract, ToolRuntime } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { spawn } from "node:child_process"
import * as Readline from "node:readline"
import { fileURLToPath } from "node:url"
import { requireBuild } from "../package/run.ts"
import { test } from "../test.ts"
import type { ClientOptions } from "./fixtures/remote-serve.ts"
import { Tools } from "./fixtures/remote-tools.ts"
import { kind, prepare } from "./support.ts"

// the server is a process of its own, which loads the build
requireBuild()

const token = Redacted.make("s3cret")

const Line = Schema.fromJsonString(
  Schema.Struct({ url: Schema.optionalKey(Schema.String), event: Schema.optionalKey(Schema.String) })
)

/** A server process that listens. It dies with its scope. */
class Origin extends Context.Service<
  Origin,
  {
    readonly url: string
    readonly events: Queue.Queue<string>
    readonly log: Queue.Queue<string>
    readonly kill: Effect.Effect<void>
  }
>()("test/Origin") {
  static readonly layer = Layer.effect(
    Origin,
    Effect.gen(function* () {
      const events = yield* Queue.unbounded<string>()
      const log = yield* Queue.unbounded<string>()
      const started = yield* Deferred.make<string, string>()
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(process.execPath, [fileURLToPath(new URL("./fixtures/remote-process.ts", import.meta.url))], {
            stdio: ["ignore", "pipe", "pipe"]
          })
        ),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      Readline.createInterface({ input: child.stderr }).on("line", (line) => Queue.offerUnsafe(log, line))
      Readline.createInterface({ input: child.stdout }).on("line", (line) => {
        const { event, url } = Schema.decodeSync(Line)(line)
        if (url !== undefined) Deferred.doneUnsafe(started, Effect.succeed(url))
        if (event !== undefined) Queue.offerUnsafe(events, event)
      })
      child.on("exit", () => Deferred.doneUnsafe(started, Effect.fail("the server process ended before it listened")))
      const kill = Effect.callback<void>((resume) => {
        child.on("exit", () => resume(Effect.void))
        child.kill("SIGKILL")
      })
      return { url: yield* Deferred.await(started), events, log, kill }
    })
  )
}

/** A call of a stub, as a place without the code of the tools makes it. */
const execute = Effect.fnUntraced(function* (
  name: keyof typeof Tools.tools,
  args: Schema.Json,
  { client = NodeHttpClient.layerUndici, context = {}, ...options }: Options & { readonly url: string }
) {
  const stub = yield* boundTool.makeStub(yield* ToolContract.fromTool(Tools.tools[name]))
  const call = Result.getOrThrow(yield* prepare(yield* boundTool.makeSet([stub]), name, args, { context }))
  const runtime = RemoteTools.layerRuntime({ token, retry: Schedule.recurs(2), ...options })
  return yield* Effect.flatMap(ToolRuntime.ToolRuntime, ({ dispatch }) => dispatch(call)).pipe(
    Effect.provide(runtime.pipe(Layer.provide(client)))
  )
})

interface Options extends Partial<ClientOptions> {
  readonly client?: Layer.Layer<HttpClient.HttpClient>
  readonly context?: { readonly [key: string]: Schema.Json }
}

const unavailable = Schema.decodeUnknownEffect(
  Schema.Struct({ type: Schema.Literal("remote_unavailable"), value: RemoteTools.Unavailable })
)

layer(Origin.layer, { excludeTestServices: true })("RT-5 two processes", (it) => {
  type Body = () => Generator<Effect.Effect<unknown, unknown, Origin | Scope.Scope>, void, never>
  const test = (name: string, body: Body) => it.effect(name, () => Effect.gen(body))

  test("stubs here, handlers there", function* () {
    const { log, url } = yield* Origin
    const order = yield* execute("get_order", { id: "42" }, { url })
    assert.deepStrictEqual(order._tag === "Success" && order.value, { id: "42", at: "1970-01-01T00:00:01.000Z" })
    assert.strictEqual(kind(yield* execute("get_order", { id: "0" }, { url })), "NoSuchOrder")
    const who = yield* execute("who_am_i", {}, { url, context: { tenant: "acme" } })
    assert.deepStrictEqual(who._tag === "Success" && who.value, { tenant: "acme" })
    assert.strictEqual(kind(yield* execute("brief", {}, { url })), "timeout_error")
    const boom = yield* execute("boom", {}, { url })
    assert.strictEqual(kind(boom), "unhandled_error")
    assert.notInclude(JSON.stringify(boom), "hunter2")
    let line = ""
    while (!line.includes("hunter2")) line = yield* Queue.take(log)
  })

  test("a wrong token runs nothing", function* () {
    const { events, url } = yield* Origin
    const result = yield* execute("get_order", { id: "43" }, { url, token: Redacted.make("wrong") })
    const expected = { reason: "unauthorized", outcome: "not_executed", status: 401 } as const
    assert.deepStrictEqual((yield* unavailable(result)).value, expected)
    assert.notInclude(yield* Queue.clear(events), "get_order 43")
  })

  test("interrupting the call here interrupts the handler there", function* () {
    const { events, url } = yield* Origin
    yield* Queue.clear(events)
    const fiber = yield* Effect.forkChild(execute("wait", {}, { url }))
    assert.strictEqual(yield* Queue.take(events), "wait started")
    yield* Fiber.interrupt(fiber)
    assert.strictEqual(yield* Queue.take(events), "wait interrupted")
  })
})

describe("RT-5 a process that is gone", () => {
  const killed = Effect.fnUntraced(function* (client?: Layer.Layer<HttpClient.HttpClient>) {
    const { events, kill, url } = yield* Origin
    const options = client === undefined ? { url } : { url, client }
    const fiber = yield* Effect.forkChild(execute("wait", {}, options))
    assert.strictEqual(yield* Queue.take(events), "wait started")
    yield* kill
    return (yield* Effect.flatMap(Fiber.join(fiber), unavailable)).value
  })

  test.live("a server killed in mid call: outcome unknown; gone afterwards: not executed", Origin.layer, function* () {
    assert.deepStrictEqual(yield* killed(), { reason: "connection_lost", outcome: "unknown" })
    const gone = yield* execute("get_order", { id: "42" }, yield* Origin)
    assert.deepStrictEqual((yield* unavailable(gone)).value, { reason: "unreachable", outcome: "not_executed" })
  })

  test.live("fetch as the HTTP client behaves the same when the server is killed", Origin.layer, function* () {
    assert.strictEqual((yield* killed(FetchHttpClient.layer)).outcome, "unknown")
  })
})
