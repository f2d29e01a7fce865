import { assert, describe } from "@effect/vitest"
import { Cause, Context, Effect, Layer, Option, References, Schema } from "effect"
import { AiError, Prompt, Tool, Toolkit } from "effect/ai"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { RunContext, ToolContract, ToolFailure, ToolResult } from "effect-emissary"
import { bind, call, calls, idle, kind, kinds, runWithCauses, search } from "./support.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

class NotFound extends Schema.TaggedError<NotFound>()("NotFound", { id: Schema.String }) {
  override get message() {
    return `no order ${this.id}`
  }
}

class Unread extends Schema.TaggedError<Unread>()("Unread", { id: Schema.String }) {}

class Coded extends Schema.TaggedError<Coded>()("Coded", { type: Schema.String, message: Schema.String }) {}

const secret = "the prompt text that must stay out"

describe("TOOL-2 handlers work on decoded values, everything else on JSON", () => {
  test("arguments are decoded and results encoded in the JSON form of the schemas", function* () {
    const parameters = Schema.Struct({ at: Schema.DateTimeUtc })
    const success = Schema.Struct({ ...parameters.fields, big: Schema.BigInt })
    const toolkit = Toolkit.make(Tool.make("next", { parameters, success }))
    const set = yield* bind(toolkit, { next: ({ at }) => Effect.succeed({ at, big: 1n }) })
    const result = yield* call(set, "next", { at: "2026-01-01T00:00:00.000Z" })
    assert.deepStrictEqual(result, ToolResult.success({ at: "2026-01-01T00:00:00.000Z", big: "1" }))
  })

  test("a Void result is null; so is nothing from a tool that declares no result", function* () {
    const toolkit = Toolkit.make(Tool.make("void"), Tool.dynamic("open", { parameters: { type: "object" } }))
    const set = yield* bind(toolkit, { void: () => Effect.void, open: () => Effect.void })
    assert.deepStrictEqual(yield* call(set, "void", {}), ToolResult.success(null))
    assert.deepStrictEqual(yield* call(set, "open", {}), ToolResult.success(null))
  })

  test("toModelOutput decides what the model reads, the value stays", function* () {
    const toolkit = Toolkit.make(
      Tool.make("shot", {
        success: Schema.Struct({ png: Schema.String }),
        toModelOutput: ({ png }) => [
          Prompt.textPart({ text: "Screenshot" }),
          Prompt.filePart({ mediaType: "image/png", data: png })
        ]
      }),
      Tool.make("silent", { success: Schema.Int, toModelOutput: () => [] })
    )
    const set = yield* bind(toolkit, { shot: () => Effect.succeed({ png: "AQID" }), silent: () => Effect.succeed(1) })
    assert.deepStrictEqual(
      yield* call(set, "shot", {}),
      ToolResult.success({ png: "AQID" }, [
        ToolResult.textPart("Screenshot"),
        ToolResult.filePart({ mediaType: "image/png", data: "AQID" })
      ])
    )
    assert.deepStrictEqual(yield* call(set, "silent", {}), ToolResult.success(1))
  })

  test("a result that does not encode is an execution_error, its cause is kept aside", function* () {
    const toolkit = Toolkit.make(
      Tool.make("bad", { success: Schema.Int }),
      Tool.dynamic("cyclic", { parameters: { type: "object" } }),
      Tool.make("poison", { success: Schema.Json })
    )
    const cyclic: { self?: unknown } = {}
    cyclic.self = cyclic
    const set = yield* bind(toolkit, {
      bad: () => Effect.succeed(1.5),
      cyclic: () => Effect.succeed(cyclic),
      poison: () => Effect.succeed(JSON.parse(`{"__proto__":1}`))
    })
    const { causes, results } = yield* runWithCauses(yield* calls(set, "bad", "cyclic", "poison"))
    assert.deepStrictEqual(kinds(results), ["execution_error", "execution_error", "execution_error"])
    assert.isTrue(causes.length === 3 && causes.every((cause) => cause !== undefined))
  })

  test("preliminary results are encoded and go to progress; toModelOutput is not asked", function* () {
    const success = Schema.Struct({ at: Schema.DateTimeUtc })
    const toModelOutput = () => [Prompt.textPart({ text: "done" })]
    const toolkit = Toolkit.make(Tool.make("slow", { success, toModelOutput }))
    const at = yield* Schema.decodeEffect(Schema.toCodecJson(Schema.DateTimeUtc))("2026-01-01T00:00:00.000Z")
    const set = yield* bind(toolkit, { slow: (_, { preliminary }) => Effect.as(preliminary({ at }), { at }) })
    const seen: Array<ToolResult.ToolResult> = []
    const result = yield* call(set, "slow", {}, { progress: (part) => Effect.sync(() => seen.push(part)) })
    const value = { at: "2026-01-01T00:00:00.000Z" }
    assert.deepStrictEqual(seen, [ToolResult.success(value)])
    assert.deepStrictEqual(result, ToolResult.success(value, [ToolResult.textPart("done")]))
  })

  test("a preliminary result that does not encode is an execution_error", function* () {
    const toolkit = Toolkit.make(Tool.make("slow", { success: Schema.Int }))
    const set = yield* bind(toolkit, { slow: (_, { preliminary }) => Effect.as(preliminary(0.5), 1) })
    assert.strictEqual(kind(yield* call(set, "slow", {})), "execution_error")
  })
})

describe("TOOL-3 failures", () => {
  const toolkit = Toolkit.make(
    Tool.make("tagged", { failure: NotFound }),
    Tool.make("coded", { failure: Coded, failureMode: "return" }),
    Tool.make("ready", { failure: ToolFailure }),
    Tool.make("plain", { failure: Schema.String }),
    Tool.make("shape", { failure: Schema.Struct({ code: Schema.Int }) }),
    Tool.make("aside", { failure: Schema.Struct({ _tag: Schema.Literal("Refused"), code: Schema.Int }) }),
    Tool.make("own", { failure: Unread }),
    Tool.make("ai", { failure: NotFound }),
    Tool.make("reason"),
    Tool.make("declared", { failure: AiError.AiError }),
    Tool.make("undeclared")
  )
  const reason = new AiError.UnknownError({ description: secret })
  const set = bind(toolkit, {
    tagged: () => Effect.fail(new NotFound({ id: "42" })),
    coded: () => Effect.fail(new Coded({ type: "quota", message: "too many" })),
    ready: () => Effect.fail(ToolFailure.error("not now")),
    plain: () => Effect.fail("just text"),
    shape: () => Effect.fail({ code: 7 }),
    // their schemas do not have the message
    aside: () => Effect.fail(Object.assign(new Error(secret), { _tag: "Refused" as const, code: 7 })),
    own: () => Effect.fail(Object.defineProperty(new Unread({ id: "42" }), "message", { value: secret })),
    ai: () => Effect.fail(AiError.make({ module: "m", method: "n", reason })),
    declared: () => Effect.fail(AiError.make({ module: "m", method: "n", reason })),
    reason: () => Effect.fail(reason),
    // a handler that breaks its own types
    undeclared: () => Effect.fail({ text: secret }) as never
  })

  const type = "execution_error"
  const cases: Record<string, Parameters<typeof ToolResult.failure>> = {
    tagged: ["NotFound", "no order 42", { _tag: "NotFound", id: "42" }],
    coded: ["quota", "too many", { _tag: "Coded", type: "quota", message: "too many" }],
    ready: [type, "not now", { _tag: "ToolFailure", type, message: "not now" }],
    plain: [type, "just text", "just text"],
    shape: [type, `{"code":7}`, { code: 7 }],
    aside: ["Refused", `{"_tag":"Refused","code":7}`, { _tag: "Refused", code: 7 }],
    own: ["Unread", `{"_tag":"Unread","id":"42"}`, { _tag: "Unread", id: "42" }]
  }
  for (const [name, expected] of Object.entries(cases)) {
    test(`TRUST-5 a typed failure keeps its type, value and what its schema has of the message: ${name}`, function* () {
      assert.deepStrictEqual(yield* call(yield* set, name, {}), ToolResult.failure(...expected))
    })
  }

  for (const name of ["ai", "reason", "declared", "undeclared"]) {
    test(`L8 ${name}: other errors are an execution_error without their text, which stays in the cause`, function* () {
      const { causes, results } = yield* runWithCauses(yield* calls(yield* set, name))
      assert.deepStrictEqual(kinds(results), ["execution_error"])
      assert.notInclude(JSON.stringify(results), secret)
      const failed = causes.map((cause) => cause && Cause.hasFails(cause))
      assert.deepStrictEqual(failed, [true])
    })
  }
})

describe("AGENT-1, TOOL-5 what a handler sees", () => {
  class Captured extends Context.Service<Captured, string>()("test/Captured") {}
  class PerRequest extends Context.Service<PerRequest, string>()("test/PerRequest") {}

  test("SOUND-2 the services that were captured for it, and the references of the call", function* () {
    const toolkit = Toolkit.make(Tool.make("who", { success: Schema.Array(Schema.String) }).addDependency(PerRequest))
    const handlers = toolkit.toLayer(
      Effect.map(Captured, (fixed) => ({
        who: Effect.fnUntraced(function* () {
          const { tenant } = yield* Effect.orDie(RunContext.read(Schema.Struct({ tenant: Schema.String })))
          return [fixed, yield* PerRequest, tenant, yield* References.MinimumLogLevel]
        })
      }))
    )
    const tools = yield* boundTool.fromToolkit(toolkit).pipe(
      // before the handlers, so that their layer captures none of it
      Effect.provideService(PerRequest, "where the tool was bound"),
      Effect.provide(handlers.pipe(Layer.provide(Layer.succeed(Captured, "captured")))),
      Effect.provideService(References.MinimumLogLevel, "Error")
    )
    const who = call(yield* boundTool.makeSet(tools), "who", {}, { context: { tenant: "acme" } })
    assert.include(JSON.stringify(yield* who), "where the tool was bound")
    const result = yield* who.pipe(
      Effect.provideService(PerRequest, "where the call was made"),
      Effect.provideService(References.MinimumLogLevel, "Warn")
    )
    assert.deepStrictEqual(result, ToolResult.success(["captured", "where the tool was bound", "acme", "Warn"]))
  })

  test("the id of the call", function* () {
    const toolkit = Toolkit.make(Tool.make("id", { success: Schema.String }))
    const set = yield* bind(toolkit, { id: (_, { toolCallId }) => Effect.succeed(toolCallId ?? "none") })
    assert.deepStrictEqual(yield* call(set, "id", {}), ToolResult.success("call_1"))
  })
})

describe("kinds of tools", () => {
  const run = Tool.providerDefined({
    id: "acme.shell",
    customName: "shell",
    providerName: "bash",
    requiresHandler: true,
    parameters: Schema.Struct({ command: Schema.String }),
    success: Schema.String
  })({})

  test("a provider-defined tool runs here only when it requires a handler", function* () {
    const set = yield* bind(Toolkit.make(search, run), { shell: ({ command }) => Effect.succeed(`ran ${command}`) })
    assert.deepStrictEqual(pluck([...set.tools.values()], "kind"), ["provider", "local"])
    assert.deepStrictEqual(yield* call(set, "shell", { command: "ls" }), ToolResult.success("ran ls"))
    assert.strictEqual(kind(yield* call(set, "search", {})), "execution_error")
    const asks = set.tools.get("search")?.needsApproval({}, { callId: "1", context: {}, messages: [] })
    assert.isFalse(yield* asks ?? Effect.succeed(true))
    assert.strictEqual(set.toolkit, set.toolkit)
  })

  test("a tool under its own contract keeps it, and has no second one to fit", function* () {
    const tool = Tool.make("t", { success: Schema.Json })
    const bound = yield* boundTool.fromTool(tool, idle)
    assert.strictEqual(bound.contract, yield* ToolContract.fromTool(tool))
    assert.isUndefined(bound.own)
    const other = yield* boundTool.fromHandler({ ...bound.contract }, tool, idle)
    assert.deepStrictEqual([other.contract, other.own?.json], [bound.contract, bound.contract.parameters])
  })

  test("a tool without its handler is refused", function* () {
    const error = yield* Effect.flip(boundTool.handlerOf(Tool.make("lonely")))
    assert.strictEqual(error.part, "handler")
    assert.include(error.message, `"lonely"`)
  })

  test("a tool that requires no handler has none", function* () {
    assert.isTrue(Option.isNone(yield* boundTool.handlerOf(search)))
  })

  test("a stub has the contract's schema unchanged and a Schema of the same", function* () {
    const city = { type: "string", description: "x" }
    const parameters = { type: "object", properties: { city }, required: ["city"], additionalProperties: false }
    const annotations = { strict: true, title: "Weather", idempotent: true }
    const contract = yield* ToolContract.make({ name: "weather", parameters, annotations })
    const stub = yield* boundTool.makeStub(contract)
    assert.strictEqual(Tool.getJsonSchema(stub.tool), parameters)
    assert.isTrue(Context.get(stub.tool.annotations, Tool.Idempotent))
    assert.isTrue(Context.get(stub.tool.annotations, Tool.Destructive), "the default of effect/ai")
    assert.deepStrictEqual([stub.kind, stub.tool.failureMode], ["stub", "return"])
    const [offered] = Object.values((yield* boundTool.makeSet([stub])).toolkit.tools)
    assert.strictEqual(offered?.failureMode, "return")
    const decode = Schema.decodeUnknownExit(stub.tool.parametersSchema as Schema.Codec<unknown>)
    assert.strictEqual(decode({ city: "Rome" })._tag, "Success")
    assert.strictEqual(decode({ city: 1 })._tag, "Failure")
  })
})

describe("TOOL-7 approvals", () => {
  const ask = (set: boundTool.ToolSet, name: string, args: { readonly [key: string]: Schema.Json }) =>
    set.tools.get(name)!.needsApproval(args, { callId: "1", context: { limit: 10 }, messages: [] })

  test("needsApproval may be a boolean, or a function of the decoded arguments", function* () {
    const Amount = Schema.Struct({ amount: Schema.BigInt })
    const toolkit = Toolkit.make(
      Tool.make("never"),
      Tool.make("always", { needsApproval: true }),
      Tool.make("pure", { parameters: Amount, needsApproval: ({ amount }) => amount > 10n }),
      Tool.make("effect", {
        parameters: Amount,
        needsApproval: ({ amount }) =>
          Effect.map(RunContext.RunContext, (context) => amount > BigInt(String(context["limit"])))
      }),
      Tool.make("dies", {
        parameters: Amount,
        needsApproval: () => {
          throw new TypeError("boom")
        }
      })
    )
    const none = () => Effect.void
    const set = yield* bind(toolkit, { never: none, always: none, pure: none, effect: none, dies: none })
    assert.isFalse(yield* ask(set, "never", {}))
    assert.isTrue(yield* ask(set, "always", {}))
    for (const name of ["pure", "effect"]) {
      assert.isFalse(yield* ask(set, name, { amount: "10" }))
      assert.isTrue(yield* ask(set, name, { amount: "11" }))
      const wrong = yield* Effect.flip(ask(set, name, { amount: "many" }))
      assert.strictEqual(wrong.type, "validation_error")
      assert.include(wrong.message, "amount")
    }
    const policy = Toolkit.make(
      Tool.make("t", { needsApproval: (_, { messages, toolCallId }) => toolCallId === "1" && messages.length === 0 })
    )
    assert.isTrue(yield* ask(yield* bind(policy, { t: none }), "t", {}))
    const error = yield* Effect.flip(ask(set, "dies", { amount: "1" }))
    assert.strictEqual(error.message, "The tool failed unexpectedly. The log has the details.")
  })

  test("a stub that cannot decide asks always", function* () {
    for (const approval of ["never", "always", "dynamic"] as const) {
      const contract = yield* ToolContract.make({ name: "t", parameters: { type: "object" }, approval })
      const set = yield* boundTool.makeSet([yield* boundTool.makeStub(contract)])
      assert.strictEqual(yield* ask(set, "t", {}), approval !== "never")
    }
  })
})
