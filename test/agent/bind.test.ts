import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import {
  Agent,
  AgentEvent,
  Conversation,
  ModelRegistry,
  Run,
  RunContext,
  ToolResolver,
  ToolResult,
  ToolRuntime,
  type AgentDefinition
} from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import type { handlers } from "./fixtures.ts"
import { call, Delete, Echo, Fail, Probe, toolkit, world } from "./fixtures.ts"
import { endsAs } from "../outcomes.ts"
import { test, testWith } from "../test.ts"

class Tenants extends Context.Service<Tenants, { readonly name: string }>()("test/Tenants") {}

const script: ScriptedModel.Script = [
  {
    text: "Let me see.",
    toolCalls: [
      call("c1", "echo", { text: "a" }),
      call("c2", "fail", { reason: "closed" }),
      call("c3", "boom", {}),
      call("c4", "echo", { text: 1 }),
      call("c5", "nobody", {})
    ]
  },
  { text: "done" }
]

const origin = Agent.make("support", { model: "scripted/any", instructions: "Help.", toolkit, maxSteps: 4 })

const ambient = (turns: ScriptedModel.Script) => ModelRegistry.layerAmbient.pipe(Layer.provideMerge(world(turns)))

/** Runs the origin's handlers behind a runtime that knows only names and JSON. */
const forwarding = Effect.gen(function* () {
  const context = yield* Effect.context<Layer.Success<typeof handlers>>()
  const resolver = yield* ToolResolver.ToolResolver.pipe(
    Effect.provide(ToolResolver.layerToolkit(toolkit)),
    Effect.provideContext(context)
  )
  const definition = yield* Agent.definition(origin)
  return ToolRuntime.layer({
    dispatch: (call) =>
      Effect.gen(function* () {
        const contract = definition.tools.find(({ name }) => name === call.contract.name)
        if (contract === undefined) return ToolResult.failure("unknown_tool", call.contract.name)
        const tool = yield* resolver.resolve(contract)
        if (tool.body._tag === "None") return ToolResult.failure("unknown_tool", call.contract.name)
        const { context, id: callId, runId } = call
        return yield* tool.body.value(call.arguments, { runId, callId, context, progress: () => Effect.void })
      }).pipe(Effect.orDie)
  })
})

describe("CODEC-3 definition, bind, encode, decode", () => {
  const acme = Layer.succeed(Tenants, { name: "acme" })
  test("CODEC-3 a definition is made without handlers, model or registry", acme, function* () {
    const tenant = Agent.make("tenant", {
      model: Effect.map(Tenants, ({ name }) => `provider/${name}`),
      instructions: Effect.map(RunContext.read(Schema.Struct({ lang: Schema.String })), ({ lang }) => `Speak ${lang}.`),
      toolkit: Effect.map(Tenants, () => [Echo, Delete]),
      output: Schema.Struct({ n: Schema.Int })
    })
    const definition: AgentDefinition.AgentDefinition = yield* Agent.definition(tenant, { context: { lang: "fr" } })
    assert.strictEqual(definition.model, "provider/acme")
    assert.strictEqual(definition.instructions, "Speak fr.")
    assert.deepStrictEqual(
      definition.tools.map(({ approval, name }) => [name, approval]),
      [
        ["echo", "never"],
        ["delete", "always"]
      ]
    )
    class Support extends Agent.Service<Support>()("support", { toolkit }) {}
    assert.lengthOf((yield* Agent.definition(Support)).tools, 5)
  })

  test("CODEC-3 L5 an agent bound to the toolkit returns the origin's transcript", function* () {
    const json = yield* Agent.encodeJson(origin)
    const ran = yield* origin.run("Go").pipe(Effect.provide(ambient(script)))
    const bound = yield* Agent.decodeJson(json).pipe(
      Effect.flatMap((agent) => agent.run("Go")),
      Effect.provide(ToolResolver.layerToolkit(toolkit)),
      Effect.provide(ambient(script))
    )
    assert.deepStrictEqual(Conversation.transcript(bound.conversation), Conversation.transcript(ran.conversation))
    assert.strictEqual(bound.state.definition, ran.state.definition)
  })

  for (const streaming of [false, true]) {
    test(`CODEC-3 L5 stubs over a forwarding runtime return the origin's transcript (${streaming ? "stream" : "run"})`, function* () {
      const json = yield* Agent.encode(origin)
      const asked: { ran: unknown; bound: unknown } = { ran: undefined, bound: undefined }
      const ran = yield* origin.run("Go").pipe(
        Effect.tap(
          Effect.map(ScriptedModel.requests, (requests) => {
            asked.ran = requests.map(({ messages, tools }) => ({ messages, tools }))
          })
        ),
        Effect.provide(ambient(script))
      )
      const bound = yield* Effect.gen(function* () {
        const agent = yield* Agent.decode(json)
        const runtime = yield* forwarding
        const running = streaming ? AgentEvent.result(agent.stream("Go")) : agent.run("Go")
        const result = yield* Effect.provide(running, runtime)
        asked.bound = (yield* ScriptedModel.requests).map(({ messages, tools }) => ({ messages, tools }))
        return result
      }).pipe(Effect.provide(ToolResolver.layerStubs), Effect.provide(ambient(script)))
      assert.deepStrictEqual(Conversation.transcript(bound.conversation), Conversation.transcript(ran.conversation))
      assert.deepStrictEqual(asked.bound, asked.ran)
    })
  }

  testWith(Layer.provideMerge(ToolResolver.layerStubs, ambient([])))(
    "CODEC-3 a stub without a runtime for it fails before the first model call, and its error names the remedy",
    function* () {
      const agent = yield* Effect.flatMap(Agent.encode(origin), Agent.decode)
      for (const run of [
        Effect.asVoid(agent.run("Go")),
        Effect.asVoid(agent.ask("Go")),
        Stream.runDrain(agent.stream("Go"))
      ]) {
        const error = yield* Effect.flip(run)
        assert(error._tag === "AgentError" && error.reason._tag === "StubWithoutRuntime")
        assert.include(error.reason.tools, "echo")
        assert.include(error.message, "ToolRuntime")
      }
      assert.lengthOf(yield* ScriptedModel.requests, 0)
    }
  )

  it.effect("CODEC-3 a contract that no longer fits is refused with its path", () => {
    const changed = Toolkit.make(
      Tool.make("echo", {
        description: "Says it again",
        parameters: Schema.Struct({ text: Schema.Int }),
        success: Schema.String
      })
    )
    const echoing = Agent.make("echoing", { model: "scripted/any", toolkit: [Echo] })
    return Effect.gen(function* () {
      const error = yield* Effect.flip(Effect.flatMap(Agent.encode(echoing), Agent.decode))
      assert(error._tag === "BindError" && error.reason._tag === "ContractMismatch")
      assert.strictEqual(error.tool, "echo")
      assert.include(error.reason.path, "/properties/text")
    }).pipe(
      Effect.provide(ToolResolver.layerToolkit(changed)),
      Effect.provide(changed.toLayer({ echo: () => Effect.succeed("x") })),
      Effect.provide(ambient([]))
    )
  })

  testWith(
    ToolResolver.layerToolkit(Toolkit.make(Echo)).pipe(
      Layer.provideMerge(Toolkit.make(Echo).toLayer({ echo: () => Effect.succeed("x") })),
      Layer.provideMerge(ambient([]))
    )
  )("CODEC-3 L1 a tool that is not there is refused with what is", function* () {
    const error = yield* Effect.flip(Effect.flatMap(Agent.encode(origin), Agent.decode))
    assert(error._tag === "BindError" && error.reason._tag === "UnknownTool")
    assert.deepStrictEqual(error.reason.available, ["echo"])
  })

  const stubs = Layer.provideMerge(ToolResolver.layerStubs, ambient([]))
  test("CODEC-3 a bound agent has its definition again, and encodes to the same wire", stubs, function* () {
    const wire = yield* Agent.encode(origin)
    const agent = yield* Agent.decode(wire)
    assert.deepStrictEqual(yield* Agent.encode(agent), wire)
    assert.strictEqual(agent.name, "support")
    assert.strictEqual(agent.definition.maxSteps, 4)
  })

  it.effect("AGENT-3 a run of the origin is resumed by the agent that was bound from its definition", () =>
    Effect.gen(function* () {
      const stopped = yield* origin.run("Go", {
        interruptWhen: (event) => (event._tag === "ModelAnswered" ? {} : undefined)
      })
      const state = yield* Run.stateCodec.encodeJson(stopped.state)
      const agent = yield* Effect.flatMap(Agent.encodeJson(origin), Agent.decodeJson)
      yield* endsAs("Completed", agent.resume(yield* Run.stateCodec.decodeJson(state)))
      assert.deepStrictEqual(yield* Probe.ran, ["echo a", "fail", "boom"])
    }).pipe(Effect.provide(ToolResolver.layerToolkit(toolkit)), Effect.provide(ambient(script)))
  )

  testWith(
    Layer.provideMerge(
      ToolResolver.layerStubs,
      ambient([{ toolCalls: [call("c1", "delete", { path: "/a" })] }, { text: "done" }])
    )
  )("TOOL-7 approvals of a definition hold for stubs", function* () {
    const agent = yield* Effect.flatMap(Agent.encode(origin), Agent.decode)
    const runtime = yield* forwarding
    const first = yield* endsAs("AwaitingApproval", Effect.provide(agent.run("Go"), runtime))
    assert.deepStrictEqual(yield* Probe.ran, [])
    const decisions = [{ callId: "c1", approved: true }]
    yield* endsAs("Completed", Effect.provide(agent.resume(first.state, { decisions }), runtime))
    assert.deepStrictEqual(yield* Probe.ran, ["delete /a"])
  })

  it.effect("AGENT-9 a bound agent without a model is run by nothing but a registry: the error names it", () => {
    const nameless = Agent.make("nameless", { toolkit: [Fail] })
    return Effect.gen(function* () {
      const agent = yield* Effect.flatMap(Agent.encode(nameless), Agent.decode)
      const result = yield* agent.run("Go")
      assert.strictEqual(result.text, "hi")
    }).pipe(Effect.provide(ToolResolver.layerToolkit(toolkit)), Effect.provide(ambient([{ text: "hi" }])))
  })

  it.effect("AGENT-8 CODEC-3 an agent used as a tool is rebuilt from the toolkit that has it", () => {
    const inner = Agent.make("inner", { instructions: "Inner." })
    const asking = Toolkit.make(Agent.asTool(inner, { name: "delegate", description: "Asks" }))
    const outer = Agent.make("outer", { model: "scripted/any", toolkit: asking })
    return Effect.gen(function* () {
      const agent = yield* Effect.flatMap(Agent.encode(outer), Agent.decode)
      const result = yield* endsAs("Completed", agent.run("Go"))
      const tool = Conversation.messages(result.conversation).find((message) => message.role === "tool")
      assert(tool?.role === "tool" && tool.result._tag === "Success")
      assert.strictEqual(tool.result.value, "42")
    }).pipe(
      Effect.provide(ToolResolver.layerToolkit(asking)),
      Effect.provide(
        ambient([{ toolCalls: [call("c1", "delegate", { input: "?" })] }, { text: "42" }, { text: "done" }])
      )
    )
  })
})
