import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Queue, Redacted, Result, Schedule, Schema } from "effect"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { RemoteTools, ToolContract, ToolRuntime } from "effect-emissary"
import { FetchHttpClient } from "effect/http"
import { spawn } from "node:child_process"
import * as Readline from "node:readline"
import { fileURLToPath } from "node:url"
import { Tools } from "./fixtures/remote-tools.ts"

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
      const started = yield* Queue.unbounded<string>()
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
        if (url !== undefined) Queue.offerUnsafe(started, url)
        if (event !== undefined) Queue.offerUnsafe(events, event)
      })
      const kill = Effect.callback<void>((resume) => {
        child.on("exit", () => resume(Effect.void))
        child.kill("SIGKILL")
      })
      return { url: yield* Queue.take(started), events, log, kill }
    })
  )
}

/** The toolkit as a place without its code has it. */
const stubs = Effect.gen(function* () {
  const bound: Array<boundTool.BoundTool> = []
  for (const tool of Object.values(Tools.tools)) {
    bound.push(yield* boundTool.makeStub(yield* ToolContract.fromTool(tool)))
  }
  return yield* boundTool.makeSet(bound)
})

const execute = (name: string, args: Schema.Json, context = {}) =>
  Effect.gen(function* () {
    const prepared = yield* boundTool.prepare(
      yield* stubs,
      { id: "c1", name, arguments: args },
      { runId: "r1", context }
    )
    if (Result.isFailure(prepared)) return prepared.failure
    const runtime = yield* ToolRuntime.ToolRuntime
    return yield* runtime.dispatch(prepared.success)
  })

const remote = (url: string, over?: Partial<RemoteTools.ClientOptions>) =>
  Effect.provide(
    RemoteTools.layerRuntime({ url, token, retry: Schedule.recurs(2), ...over }).pipe(
      Layer.provide(NodeHttpClient.layerUndici)
    )
  )

const unavailable = Schema.decodeUnknownEffect(
  Schema.Struct({ type: Schema.Literal("remote_unavailable"), value: RemoteTools.Unavailable })
)

layer(Origin.layer, { excludeTestServices: true })("RT-5 two processes", (it) => {
  it.effect("stubs here, handlers there", () =>
    Effect.gen(function* () {
      const { log, url } = yield* Origin
      const order = yield* execute("get_order", { id: "42" }).pipe(remote(url))
      assert.deepStrictEqual(order._tag === "Success" && order.value, { id: "42", at: "1970-01-01T00:00:01.000Z" })
      const failure = yield* execute("get_order", { id: "0" }).pipe(remote(url))
      assert.strictEqual(failure._tag === "Failure" && failure.type, "NoSuchOrder")
      const who = yield* execute("who_am_i", {}, { tenant: "acme" }).pipe(remote(url))
      assert.deepStrictEqual(who._tag === "Success" && who.value, { tenant: "acme" })
      const late = yield* execute("brief", {}).pipe(remote(url))
      assert.strictEqual(late._tag === "Failure" && late.type, "timeout_error")
      const boom = yield* execute("boom", {}).pipe(remote(url))
      assert.strictEqual(boom._tag === "Failure" && boom.type, "unhandled_error")
      assert.notInclude(JSON.stringify(boom), "hunter2")
      let line = ""
      while (!line.includes("hunter2")) line = yield* Queue.take(log)
    })
  )

  it.effect("a wrong token runs nothing", () =>
    Effect.gen(function* () {
      const { events, url } = yield* Origin
      const result = yield* execute("get_order", { id: "43" }).pipe(remote(url, { token: Redacted.make("wrong") }))
      assert.deepStrictEqual((yield* unavailable(result)).value, {
        reason: "unauthorized",
        outcome: "not_executed",
        status: 401
      })
      assert.notInclude(yield* Queue.clear(events), "get_order 43")
    })
  )

  it.effect("interrupting the call here interrupts the handler there", () =>
    Effect.gen(function* () {
      const { events, url } = yield* Origin
      yield* Queue.clear(events)
      const fiber = yield* Effect.forkChild(execute("wait", {}).pipe(remote(url)))
      assert.strictEqual(yield* Queue.take(events), "wait started")
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* Queue.take(events), "wait interrupted")
    })
  )
})

describe("RT-5 a process that is gone", () => {
  it.live("a server killed in mid call: outcome unknown; gone afterwards: not executed", () =>
    Effect.gen(function* () {
      const { events, kill, url } = yield* Origin
      const fiber = yield* Effect.forkChild(execute("wait", {}).pipe(remote(url)))
      assert.strictEqual(yield* Queue.take(events), "wait started")
      yield* kill
      assert.deepStrictEqual((yield* Effect.flatMap(Fiber.join(fiber), unavailable)).value, {
        reason: "connection_lost",
        outcome: "unknown"
      })
      const gone = yield* execute("get_order", { id: "42" }).pipe(remote(url))
      assert.deepStrictEqual((yield* unavailable(gone)).value, { reason: "unreachable", outcome: "not_executed" })
    }).pipe(Effect.provide(Origin.layer))
  )

  it.live("fetch as the HTTP client behaves the same when the server is killed", () =>
    Effect.gen(function* () {
      const { events, kill, url } = yield* Origin
      const runtime = RemoteTools.layerRuntime({ url, token, retry: Schedule.recurs(2) }).pipe(
        Layer.provide(FetchHttpClient.layer)
      )
      const fiber = yield* Effect.forkChild(execute("wait", {}).pipe(Effect.provide(runtime)))
      assert.strictEqual(yield* Queue.take(events), "wait started")
      yield* kill
      assert.strictEqual((yield* Effect.flatMap(Fiber.join(fiber), unavailable)).value.outcome, "unknown")
    }).pipe(Effect.provide(Origin.layer))
  )
})
