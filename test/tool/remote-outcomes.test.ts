import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Queue, Redacted, Result, Schedule, Schema, Tracer } from "effect"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { ToolContract, ToolResolver, ToolRuntime } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { type ClientOptions, serve, type ServerOptions, token, url } from "./fixtures/remote-serve.ts"
import { Probe, Tools } from "./fixtures/remote-tools.ts"
import { kind, prepare } from "./support.ts"
import { test } from "../test.ts"

interface Call {
  readonly tool?: "get_order" | "report" | "touch"
  readonly args?: Schema.Json
  readonly contract?: Partial<ToolContract.ToolContract>
  readonly client?: Partial<ClientOptions>
  readonly path?: string
}

const dispatch = Effect.fnUntraced(function* (options: Call) {
  const { args = { id: "1" }, client, contract, path = "", tool = "get_order" } = options
  const stub = yield* boundTool.makeStub(yield* ToolContract.fromTool(Tools.tools[tool]))
  const set = yield* boundTool.makeSet([stub])
  const call = Result.getOrThrow(yield* prepare(set, tool, args, { context: { tenant: "acme" } }))
  const layer = RemoteTools.layerRuntime({ url: `${yield* url}${path}`, token, retry: Schedule.recurs(1), ...client })
  return yield* ToolRuntime.ToolRuntime.pipe(
    Effect.flatMap((runtime) => runtime.dispatch({ ...call, contract: { ...call.contract, ...contract } })),
    Effect.provide(layer)
  )
})

const Unavailable = Schema.Struct({
  type: Schema.Literal("remote_unavailable"),
  message: Schema.String,
  value: RemoteTools.Unavailable
})

const server = (options?: Partial<ServerOptions>) => Layer.merge(serve(options), NodeHttpClient.layerUndici)

const report = (...skus: ReadonlyArray<string>) =>
  ({ tool: "report", args: { items: skus.map((sku) => ({ sku, qty: 1 })) } }) as const

interface Refusal extends Call {
  readonly server?: Partial<ServerOptions>
  readonly refused: readonly [reason: RemoteTools.Unavailable["reason"], status: number, message: string]
}

const refusals: Record<string, Refusal> = {
  "wrong token": { client: { token: Redacted.make("no") }, refused: ["unauthorized", 401, "token"] },
  "oversized body": {
    ...report("x".repeat(5000)),
    server: { limits: { maxBytes: 1000 } },
    refused: ["request_too_large", 413, "1000 bytes"]
  },
  "body that is given up": {
    ...report("x".repeat(1_000_000)),
    server: { bodyTimeout: "1 nanos" },
    refused: ["request_timeout", 408, "within"]
  },
  "contract mismatch": { contract: { digest: "sha256:00" }, refused: ["contract_mismatch", 409, "get_order"] },
  "denied context": {
    server: { context: ({ tenant }) => Effect.fail(new RemoteTools.Denied({ message: `Not for ${String(tenant)}` })) },
    refused: ["denied", 403, "Not for acme"]
  },
  "a URL with another path": { path: "/elsewhere", refused: ["not_found", 404, "URL"] }
}

describe("RT-5 every outcome of a call is typed", () => {
  for (const [name, { refused, server: options, ...call }] of Object.entries(refusals)) {
    test.live(name, server(options), function* () {
      const [reason, status, words] = refused
      const { message, value } = yield* Schema.decodeUnknownEffect(Unavailable)(yield* dispatch(call))
      assert.deepStrictEqual(value, { reason, outcome: "not_executed", status })
      assert.include(message, words)
      assert.strictEqual(Queue.sizeUnsafe(yield* Probe), 0)
    })
  }

  test.live("a result that the server may not send", server({ limits: { maxStringLength: 2000 } }), function* () {
    const result = yield* dispatch(report("x".repeat(1500), "y".repeat(1500)))
    assert.strictEqual(kind(result), "execution_error")
  })

  test.live("unknown tool", server(), function* () {
    assert.strictEqual(kind(yield* dispatch({ contract: { name: "get_invoice" } })), "unknown_tool")
  })
})

describe("TRUST-2 a tool that needs an approval, on a server", () => {
  const payloads = {
    honest: (own) => own,
    "without its approval": (own) => ({ ...own, approval: "never" }),
    "of version 1": ({ name, parameters, timeout }) => ({ name, parameters, timeout })
  } satisfies Record<string, (own: ToolContract.ToolContract) => Parameters<typeof ToolContract.make>[0]>

  for (const [what, change] of Object.entries(payloads)) {
    test.live(`runs for a payload ${what} if the stub asks for it, never without`, server(), function* () {
      const given = yield* ToolContract.make(change(yield* ToolContract.fromTool(Tools.tools.touch)))
      for (const approval of ["unlessReadonly", "payload"] as const) {
        const stub = yield* ToolResolver.ToolResolver.pipe(
          Effect.flatMap(({ resolve }) => resolve(given)),
          Effect.provide(ToolResolver.layerStubs({ approval }))
        )
        const asks = yield* stub.needsApproval({}, { callId: "1", context: {}, messages: [] })
        assert.strictEqual(asks, approval !== "payload" || what === "honest")
        const expected = asks ? "success" : "remote_unavailable"
        assert.strictEqual(kind(yield* dispatch({ tool: "touch", args: {}, contract: stub.contract })), expected)
      }
    })
  }
})

describe("L8 what is recorded", () => {
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

  const traced = server().pipe(Layer.provideMerge(Layer.succeed(Tracer.Tracer, tracer)))

  test.live("spans of both sides carry neither arguments nor token nor results", traced, function* () {
    assert.strictEqual(kind(yield* dispatch({ args: { id: "private-42" } })), "success")
    const text = seen.join("\n")
    assert.match(text, /^client /m)
    assert.match(text, /^server /m)
    assert.notInclude(text, "private-42")
    assert.notInclude(text, "s3cret")
  })
})
