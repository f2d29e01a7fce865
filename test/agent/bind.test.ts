import { assert, describe } from "@effect/vitest"
import { Context, Effect, Layer, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import {
  Agent,
  AgentEvent,
  Conversation,
  Limits,
  ModelRegistry,
  RunContext,
  ToolContract,
  ToolResolver,
  ToolResult,
  ToolRuntime,
  AgentDefinition
} from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import type { handlers } from "./fixtures.ts"
import { call, Delete, Echo, Fail, Probe, throughJson, toolkit, toolResults, world } from "./fixtures.ts"
import { endsAs } from "../outcomes.ts"
import { test, testWith } from "../test.ts"
import { decide } from "../decisions.ts"

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

const ambient = (turns: ScriptedModel.Script) => ModelRegistry.layerContext.pipe(Layer.provideMerge(world(turns)))

const stubs = ToolResolver.layerStubs({ approval: "payload" })
const stubbed = (turns: ScriptedModel.Script) => Layer.provideMerge(stubs, ambient(turns))
const resolved = (turns: ScriptedModel.Script) => Layer.provideMerge(ToolResolver.layerToolkit(toolkit), ambient(turns))

/** The agent as its wire returns it. */
const rebuilt = <R>(agent: Parameters<typeof Agent.encode<R>>[0]) => Effect.flatMap(Agent.encode(agent), Agent.decode)

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
      Effect.provide(resolved(script))
    )
    assert.deepStrictEqual(Conversation.transcript(bound.conversation), Conversation.transcript(ran.conversation))
    assert.strictEqual(bound.state.definition, ran.state.definition)
  })

  test("SOUND-2 the limits of a decode do not reach the runs of the agent, those of a call do", function* () {
    const text = "x".repeat(3000)
    const calls = [{ toolCalls: [call("c1", "echo", { text })] }, { text: "done" }]
    const limits = { maxStringLength: 2000 }
    const json = yield* Agent.encode(origin)
    const [own, strict] = yield* Effect.gen(function* () {
      const agent = yield* Agent.decode(json, { limits })
      const run = agent.run("Go")
      const narrow = Effect.provideService(run, Limits.Limits, { ...Limits.defaults, ...limits })
      return [yield* run, yield* Effect.flip(narrow)] as const
    }).pipe(Effect.provide(resolved([...calls, ...calls])))
    assert.deepStrictEqual(toolResults(own.conversation), [text])
    // An answer beyond the limits is an error, and the model is not asked again (RIGHT-10)
    assert.include(strict.message, "expected at most 2000 UTF-16 code units in one string, got at least 3000")
  })

  for (const streaming of [false, true]) {
    test(`CODEC-3 L5 stubs over a forwarding runtime return the origin's transcript (${streaming ? "stream" : "run"})`, function* () {
      const json = yield* Agent.encode(origin)
      const asked = Effect.map(ScriptedModel.requests, (requests) =>
        requests.map(({ messages, tools }) => ({ messages, tools }))
      )
      const [ran, expected] = yield* Effect.all([origin.run("Go"), asked]).pipe(Effect.provide(ambient(script)))
      const [bound, found] = yield* Effect.gen(function* () {
        const agent = yield* Agent.decode(json)
        const runtime = yield* forwarding
        const running = streaming ? AgentEvent.result(agent.stream("Go")) : agent.run("Go")
        return yield* Effect.all([Effect.provide(running, runtime), asked])
      }).pipe(Effect.provide(stubbed(script)))
      assert.deepStrictEqual(Conversation.transcript(bound.conversation), Conversation.transcript(ran.conversation))
      assert.deepStrictEqual(found, expected)
    })
  }

  testWith(stubbed([]))(
    "CODEC-3 a stub without a runtime for it fails before the first model call, and its error names the remedy",
    function* () {
      const agent = yield* rebuilt(origin)
      const withOne = yield* rebuilt(Agent.make("one", { model: "scripted/any", toolkit: [Echo] }))
      for (const run of [
        Effect.asVoid(agent.run("Go")),
        Effect.asVoid(agent.ask("Go")),
        Stream.runDrain(agent.stream("Go")),
        Effect.asVoid(withOne.run("Go"))
      ]) {
        const error = yield* Effect.flip(run)
        assert(error._tag === "AgentError" && error.reason._tag === "StubWithoutRuntime")
        assert.include(error.reason.tools, "echo")
        assert.include(error.message, "ToolRuntime")
      }
      assert.lengthOf(yield* ScriptedModel.requests, 0)
    }
  )

  test("CODEC-3 a contract that no longer fits is refused with its path", function* () {
    const changed = Toolkit.make(
      Tool.make("echo", {
        description: "Says it again",
        parameters: Schema.Struct({ text: Schema.Int }),
        success: Schema.String
      })
    )
    const echoing = Agent.make("echoing", { model: "scripted/any", toolkit: [Echo] })
    const handlers = changed.toLayer({ echo: () => Effect.succeed("x") })
    const found = Layer.provideMerge(ToolResolver.layerToolkit(changed), Layer.merge(handlers, ambient([])))
    const error = yield* Effect.flip(Effect.provide(rebuilt(echoing), found))
    assert(error._tag === "BindError" && error.reason._tag === "ContractMismatch")
    assert.strictEqual(error.tool, "echo")
    assert.include(error.reason.path, "/properties/text")
  })

  const onlyEcho = Layer.provideMerge(ToolResolver.layerToolkit(Toolkit.make(Echo)), ambient([]))
  test("CODEC-3 L1 a tool that is not there is refused with what is", onlyEcho, function* () {
    const error = yield* Effect.flip(rebuilt(origin))
    assert(error._tag === "BindError" && error.reason._tag === "UnknownTool")
    assert.deepStrictEqual(error.reason.available, ["echo"])
  })

  test("CODEC-3 a bound agent has its definition again, and encodes to the same wire", stubbed([]), function* () {
    const wire = yield* Agent.encode(origin)
    const agent = yield* Agent.decode(wire)
    assert.deepStrictEqual(yield* Agent.encode(agent), wire)
    assert.strictEqual(agent.name, "support")
    assert.strictEqual(agent.definition.maxSteps, 4)
  })

  const resolving = resolved(script)
  test(
    "AGENT-3 a run of the origin is resumed by the agent that was bound from its definition",
    resolving,
    function* () {
      const stopped = yield* origin.run("Go", {
        interruptWhen: (event) => (event._tag === "ModelAnswered" ? {} : undefined)
      })
      const agent = yield* Effect.flatMap(Agent.encodeJson(origin), Agent.decodeJson)
      yield* endsAs("Completed", agent.resume(yield* throughJson(stopped.state)))
      assert.deepStrictEqual(yield* Probe.ran, ["echo a", "fail", "boom"])
    }
  )

  const deleting = stubbed([{ toolCalls: [call("c1", "delete", { path: "/a" })] }, { text: "done" }])
  test("TOOL-7 approvals of a definition hold for stubs", deleting, function* () {
    const agent = yield* rebuilt(origin)
    const runtime = yield* forwarding
    const first = yield* endsAs("AwaitingApproval", Effect.provide(agent.run("Go"), runtime))
    assert.deepStrictEqual(yield* Probe.ran, [])
    const decisions = decide(first.state)
    yield* endsAs("Completed", Effect.provide(agent.resume(first.state, { decisions }), runtime))
    assert.deepStrictEqual(yield* Probe.ran, ["delete /a"])
  })

  const deletes = { toolCalls: [call("c1", "delete", { path: "/a" })] }
  const strict = Layer.provideMerge(ToolResolver.layerStubs(), ambient([deletes, deletes]))
  test("TRUST-2 a payload that removes an approval asks nevertheless, whatever its version", strict, function* () {
    const definition = yield* Agent.definition(origin)
    const tools = yield* Effect.forEach(definition.tools, (tool) => ToolContract.make({ ...tool, approval: "never" }))
    const weakened = yield* AgentDefinition.codec.encode(yield* AgentDefinition.make({ ...definition, tools }))
    const asVersion1 = yield* Agent.encode(origin, {
      version: 1,
      allowLoss: ["/tools/*/approval", "/tools/*/success", "/tools/*/failure"]
    })
    for (const wire of [weakened, asVersion1]) {
      const agent = yield* Agent.decode(wire)
      yield* endsAs("AwaitingApproval", Effect.provide(agent.run("Go"), yield* forwarding))
      assert.deepStrictEqual(yield* Probe.ran, [])
    }
  })

  const greeting = resolved([{ text: "hi" }])
  test("AGENT-9 a bound agent without a model is run with the model of the surroundings", greeting, function* () {
    const agent = yield* rebuilt(Agent.make("nameless", { toolkit: [Fail] }))
    assert.strictEqual((yield* agent.run("Go")).text, "hi")
  })

  test("AGENT-8 CODEC-3 an agent used as a tool is rebuilt from the toolkit that has it", function* () {
    const inner = Agent.make("inner", { instructions: "Inner." })
    const asking = Toolkit.make(Agent.asTool(inner, { name: "delegate", description: "Asks" }))
    const outer = Agent.make("outer", { model: "scripted/any", toolkit: asking })
    const turns = [{ toolCalls: [call("c1", "delegate", { input: "?" })] }, { text: "42" }, { text: "done" }]
    const found = Layer.provideMerge(ToolResolver.layerToolkit(asking), ambient(turns))
    const run = Effect.flatMap(rebuilt(outer), (agent) => agent.run("Go"))
    const result = yield* endsAs("Completed", Effect.provide(run, found))
    assert.deepStrictEqual(toolResults(result.conversation), ["42"])
  })
})
