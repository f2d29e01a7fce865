/** PEOPLE-4: an agent declares the context of its runs, and no run begins with another one. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Predicate, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import {
  Agent,
  AgentDefinition,
  type AgentError,
  AgentEvent,
  Conversation,
  ModelRegistry,
  RunContext,
  ToolResolver
} from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"
import { call } from "./fixtures.ts"

const Tenant = Schema.Struct({ tenant: Schema.String, seats: Schema.optionalKey(Schema.Int) })

const toolkit = Toolkit.make(Tool.make("count_orders", { success: Schema.String }))

const Orders = toolkit.toLayer({
  count_orders: () => Effect.map(Effect.orDie(RunContext.read(Tenant)), ({ tenant }) => `3 orders of ${tenant}`)
})

const support = Agent.make("support", {
  context: Tenant,
  instructions: Effect.map(RunContext.read(Tenant), ({ tenant }) => `You help customers of ${tenant}.`),
  toolkit
})

const script = () => [{ toolCalls: [call("c1", "count_orders", {})] }, { text: "Three." }]

const modelOf = (turns: ReadonlyArray<ScriptedModel.Turn> = script()) =>
  Layer.mergeAll(Orders, ModelRegistry.layerContext, Layer.provide(ToolResolver.layerToolkit(toolkit), Orders)).pipe(
    Layer.provideMerge(ScriptedModel.layer(turns))
  )

/** A caller without types may pass anything. */
const untyped = <R>(agent: Agent.Agent<string, R, never>) => agent as unknown as Agent.Agent<string, R>

const acme = { context: { tenant: "acme" } }

const pathsOf = ({ reason }: { readonly reason: Extract<AgentError.Reason, { readonly _tag: "ContextInvalid" }> }) =>
  reason.issues.map(({ path }) => path)

describe("PEOPLE-4 a declared context", () => {
  test("PEOPLE-4 instructions and tools read it typed", modelOf(), function* () {
    assert.strictEqual(yield* support.ask("How many orders?", acme), "Three.")
    const [first, second] = yield* ScriptedModel.requests
    assert.strictEqual(first?.messages[0]?.text, "You help customers of acme.")
    assert.strictEqual(second?.messages.at(-1)?.text, "3 orders of acme")
  })

  test("PEOPLE-4 a run without it fails before anything runs, with the problems by path", modelOf(), function* () {
    let ran = 0
    const note = Effect.sync(() => void (ran += 1))
    const eager = untyped(
      Agent.make("eager", {
        context: Tenant,
        model: Effect.as(note, "any/model"),
        instructions: Effect.as(note, "x"),
        toolkit: Effect.as(note, toolkit)
      })
    )
    for (const run of [eager.run("x"), eager.run("x", {}), AgentEvent.result(eager.stream("x"))]) {
      assert.deepStrictEqual(pathsOf(yield* failsFor("ContextInvalid", run)), ["/tenant"])
    }
    const error = yield* failsFor("ContextInvalid", eager.run("x", { context: { tenant: 1, seats: "many" } }))
    assert.deepStrictEqual(pathsOf(error), ["/tenant", "/seats"])
    assert.strictEqual(
      error.message,
      'Agent "eager": expected the context that the agent "eager" declares: at /tenant: expected string, got number; at /seats: expected number, got string. Pass it with the run option "context".'
    )
    assert.deepStrictEqual([ran, (yield* ScriptedModel.requests).length], [0, 0])
  })

  test(
    "PEOPLE-4 the RunContext of the caller counts, and a resumed run checks the context again",
    modelOf(),
    function* () {
      const asked = untyped(support).run("x", { maxSteps: 1 })
      const { state } = yield* Effect.provideService(asked, RunContext.RunContext, { tenant: "acme", other: [1] })
      const refused = support.resume(state, { context: { other: 1 }, maxSteps: 2 })
      assert.deepStrictEqual(pathsOf(yield* failsFor("ContextInvalid", refused)), ["/tenant"])
      assert.strictEqual((yield* support.resume(state, { maxSteps: 2 })).outcome, "Completed")
    }
  )

  test(
    "PEOPLE-4 the definition has its JSON Schema, and a rebuilt agent checks it before anything runs",
    modelOf(),
    function* () {
      const wire = yield* Agent.encode(support, acme)
      assert.deepStrictEqual(wire["context"], {
        type: "object",
        properties: { tenant: { type: "string" }, seats: { type: "integer" } },
        required: ["tenant"]
      })
      const rebuilt = yield* Agent.decode(wire)
      assert.deepStrictEqual(yield* AgentDefinition.codec.encode(rebuilt.definition), wire)
      const error = yield* failsFor("ContextInvalid", rebuilt.run("x", { context: { seats: 1.5 } }))
      assert.deepStrictEqual(pathsOf(error), ["/tenant", "/seats"])
      assert.strictEqual((yield* ScriptedModel.requests).length, 0)
      assert.strictEqual((yield* rebuilt.run("x", { context: { tenant: "acme", other: 1 } })).text, "Three.")
    }
  )

  test("PEOPLE-4 version 1 names it as a loss, and a change of it is a change", modelOf([]), function* () {
    const definition = yield* AgentDefinition.make({ model: "a/b", context: { type: "object", properties: {} } })
    const error = yield* Effect.flip(AgentDefinition.codec.encode(definition, { version: 1 }))
    assert(error._tag === "LossyEncoding")
    assert.deepStrictEqual(error.losses, [{ path: "/context", what: "the schema of the context that a run needs" }])
    const was = yield* AgentDefinition.make({ model: "a/b" })
    assert.deepStrictEqual(AgentDefinition.diff(was, definition), [
      { path: "/context", was: "nothing", now: '{"type":"object","properties":{}}', breaking: false }
    ])
    const bad = yield* Effect.flip(
      AgentDefinition.make({ context: { type: "object", properties: { a: { type: 1 } } } })
    )
    assert(bad.reason._tag === "Invalid")
    assert.deepStrictEqual(
      bad.reason.issues.map(({ path }) => path.slice(0, 8)),
      ["/context"]
    )
    // Names of properties are no options: a secret is refused in options alone
    const named = yield* AgentDefinition.make({
      context: { type: "object", properties: { password: { type: "string" } } }
    })
    assert.deepStrictEqual(yield* AgentDefinition.codec.decode(yield* AgentDefinition.codec.encode(named)), named)
  })

  test("PEOPLE-4 a Schema that has no form as data is refused", modelOf([]), function* () {
    const opaque: Schema.Codec<{ readonly at: string }> = Schema.declare((value): value is { readonly at: string } =>
      Predicate.hasProperty(value, "at")
    )
    const agent = Agent.make("opaque", { context: opaque })
    yield* failsFor("DefinitionInvalid", Agent.definition(agent))
    yield* failsFor("DefinitionInvalid", agent.run("x", { context: { at: "noon" } }))
  })

  test("PEOPLE-4 a tool that reads what its agent does not declare ends the run", modelOf(), function* () {
    const careless = Agent.make("careless", { toolkit })
    const error = yield* failsMidway("ContextInvalid", careless.run("x", { context: { seats: 1.5 } }))
    assert.deepStrictEqual(pathsOf(error), ["/tenant", "/seats"])
    const settled = Conversation.messages(error.state.conversation).find(({ role }) => role === "tool")
    assert(settled?.role === "tool" && settled.result._tag === "Failure")
    assert.include(settled.result.message, 'missing "tenant"')
    assert.notInclude(settled.result.message, "unexpectedly")
    assert.strictEqual((yield* ScriptedModel.requests).length, 1)
  })
})

describe("PEOPLE-4 the context of agents in agents", () => {
  const Ask = [Agent.asTool(support, { name: "ask", description: "Asks the support" })]
  const outer = Agent.make("outer", {
    context: Schema.Struct({ tenant: Schema.String, user: Schema.String }),
    toolkit: Ask
  })
  const asking = () => [{ toolCalls: [call("c0", "ask", { input: "How many?" })] }, ...script(), { text: "done" }]

  test("PEOPLE-4 the agent inside reads the context of the agent around", modelOf(asking()), function* () {
    assert.strictEqual(yield* outer.ask("x", { context: { tenant: "acme", user: "ada" } }), "done")
    const requests = yield* ScriptedModel.requests
    assert.strictEqual(requests[1]?.messages[0]?.text, "You help customers of acme.")
  })

  const careless = Agent.make("careless", { toolkit: Ask as never as ReadonlyArray<never> })

  test(
    "PEOPLE-4 where the types do not know it, the run fails with the agent and the problems",
    modelOf(asking()),
    function* () {
      const error = yield* failsMidway("ContextInvalid", careless.run("x"))
      assert.deepStrictEqual([error.agent, error.reason.agent, ...pathsOf(error)], ["careless", "support", "/tenant"])
      // Its model cannot mend it, and is not asked again; with the context the run continues
      assert.strictEqual((yield* ScriptedModel.requests).length, 1)
    }
  )

  test(
    "PEOPLE-4 the definition has the Schema of each agent, and a rebuilt one checks it",
    modelOf(asking()),
    function* () {
      const wire = yield* Agent.encode(outer, { context: { tenant: "acme", user: "ada" } })
      const rebuilt = yield* Agent.decode(wire)
      assert.deepStrictEqual(
        rebuilt.definition.tools[0]?.agent?.context,
        (yield* Agent.definition(support, acme)).context
      )
      yield* failsFor("ContextInvalid", rebuilt.run("x", { context: { tenant: "acme" } }))
      assert.strictEqual((yield* rebuilt.run("x", { context: { tenant: "acme", user: "ada" } })).text, "done")
    }
  )

  test("PEOPLE-4 a step of a plan has the context of the run of the plan", modelOf(), function* () {
    const plan = yield* Plan.bind(yield* Plan.make("report", [Step.make("count", { target: support })]))
    const error = yield* Effect.flip(Plan.run(plan, "How many?"))
    assert.include(error.message, "/tenant")
    assert.deepInclude(yield* Plan.run(plan, "How many?", acme), { outcome: "Completed", output: "Three." })
  })
})
