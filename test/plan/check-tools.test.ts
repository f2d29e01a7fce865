/** PLAN-2: the bindings of a plan; PLAN-1: the input of tools from steps. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import * as planCheck from "#src/plan/internal/planCheck.ts"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { ToolContract } from "effect-emissary"
import type { Json } from "effect-emissary/payload"
import { Reference, type PlanDefinition } from "effect-emissary/plan"

import { brief, object, schemas } from "./check-fixtures.ts"
import { plan, step } from "./definitions.ts"

const tool = (parameters: Json.JsonObject, name = "search") =>
  Effect.runSync(Effect.flatMap(ToolContract.make({ name, parameters }), boundTool.makeStub))

const text = { type: "string" }
const number = { type: "integer" }
const open = { type: "object" }

const use = (name: string, options: Partial<PlanDefinition.StepDefinition> = {}) =>
  step("a", { target: { kind: "tool", name }, ...options })

const takes = (parameters: Json.JsonObject, options: Partial<PlanDefinition.StepDefinition> = {}) =>
  Result.match(planCheck.resolveToolArguments(tool(parameters), use("search", options)), {
    onFailure: ({ code, reason }) => `${code}: ${reason}`,
    onSuccess: (found) => found
  })

const texts = (task: string, context?: string) => ({ _tag: "Text" as const, task, context })

const payload = (context?: string) => ({ _tag: "Payload" as const, context })

const context = { context: Reference.fromStart }

const bind = (bindings: Partial<planCheck.Bindings>, ...steps: ReadonlyArray<PlanDefinition.StepDefinition>) =>
  planCheck.checkBinding(plan(...steps), { tools: new Map(), agents: new Set(), memories: new Map(), ...bindings })

describe("the text of a step goes to", () => {
  it("PLAN-1 O15 the parameter task, at any position", () => {
    assert.deepStrictEqual(takes(object({ task: text })), texts("task"))
    assert.deepStrictEqual(takes(object({ a: text, task: text }, ["task"])), texts("task"))
  })

  it("PLAN-1 O15 or the first one that takes a text", () => {
    assert.deepStrictEqual(takes(object({ n: number, q: text, r: text }, ["q"])), texts("q"))
    assert.deepStrictEqual(takes(object({ task: number, q: text }, ["q"])), texts("q"))
    assert.deepStrictEqual(takes(object({ q: { anyOf: [number, text] } })), texts("q"))
    assert.deepStrictEqual(takes(object({ q: { type: ["string", "null"] } })), texts("q"))
    assert.deepStrictEqual(takes(object({ q: {} })), texts("q"))
    assert.deepStrictEqual(takes({ ...object({ q: { $ref: "#/$defs/q" } }), $defs: { q: text } }), texts("q"))
    assert.deepStrictEqual(takes(object({ kind: { type: "string", enum: ["x"] }, q: text }, ["q"])), texts("q"))
  })

  it("PLAN-1 or input, if the tool takes what it does not declare", () => {
    assert.deepStrictEqual(takes(open), texts("input"))
    assert.deepStrictEqual(takes({ type: "object", properties: { n: number } }), texts("input"))
  })

  it("PLAN-2 O16 no tool that takes no text, or demands more", () => {
    for (const parameters of [{}, { n: number }, { input: number }, { q: { enum: ["x"] } }]) {
      assert.match(String(takes(object(parameters))), /^ToolArguments: Step "a" at target: .*text/)
    }
    const more = String(takes(object({ task: text, n: number })))
    assert.match(more, /requires "n"/)
    assert.deepStrictEqual(takes(object({ task: text, n: { ...number, default: 3 } })), texts("task"))
    assert.match(String(takes({ type: "object", properties: { input: number } })), /^ToolArguments/)
  })
})

describe("the context of a step goes to", () => {
  it("PLAN-1 the parameter context, or before the task", () => {
    assert.deepStrictEqual(takes(object({ context: text, task: text }), context), texts("task", "context"))
    assert.deepStrictEqual(takes(object({ context: text, q: text }), context), texts("q", "context"))
    assert.deepStrictEqual(takes(object({ context: number, q: text }, ["q"]), context), texts("q"))
    assert.deepStrictEqual(takes(object({ context: text }), context), texts("context"))
  })

  it("PLAN-1 a place beside the payload, and is refused where there is none", () => {
    const input = { input: { json: object({ n: number }) } }
    const both = { ...input, ...context }
    assert.deepStrictEqual(takes(object({ n: number }), input), payload())
    assert.deepStrictEqual(takes(object({ n: number, context: text }), both), payload("context"))
    assert.match(String(takes(object({ n: number }), both)), /^ContextNotTaken: .*no parameter "context"/)
    const own = { input: { json: object({ context: text }) }, ...context }
    assert.match(String(takes(object({ context: text }), own)), /^ContextNotTaken: .*of its own/)
  })
})

describe("the payload of a step", () => {
  it("PLAN-2 fits the parameters, as far as that is known", () => {
    const given = (json: Json.JsonObject) => ({ input: { json } })
    assert.match(String(takes(object({ n: number }), given(text))), /^ToolArguments: .*never fits/)
    assert.match(String(takes(object({ n: number }), given(object({ m: number })))), /"n".*required/)
    assert.match(String(takes(object({ n: number }), given(object({ n: text })))), /^ToolArguments/)
    assert.deepStrictEqual(takes(object({ n: number }), { input: { name: "N" } }), payload())
    assert.deepStrictEqual(takes(object({ n: number }), given({ type: "object" })), payload())
  })
})

describe("binding", () => {
  const search = tool(object({ task: text }))
  const tools = new Map([["search", search]])
  const agents = new Set(["writer"])

  it("PLAN-2 D02 needs the tools and agents that steps name, and offers the closest", () => {
    const found = bind({ tools, agents }, use("serach"))
    assert.deepStrictEqual(found.map(brief), ["UnknownTool a target"])
    assert.strictEqual(found[0]?.suggestion, "search")
    assert.deepStrictEqual(found[0]?.known, ["search", "writer"])
    for (const word of [`"a" (#0)`, "serach", `"search"`]) assert.include(found[0]?.reason, word)
    const writer = step("b", { target: { kind: "tool", name: "writer" } })
    assert.deepStrictEqual(bind({ tools, agents }, use("search"), writer), [])
    assert.deepStrictEqual(bind({}, step("a"), step("b", { target: { kind: "agent", name: "own" } })), [])
    const both = bind({ tools, agents: new Set(["search"]) }, use("search"))
    assert.deepStrictEqual(both.map(brief), ["AmbiguousTarget a target"])
  })

  it("PLAN-2 has tools that run here and take what the step passes", () => {
    const provider = { ...tool(object({ task: text }), "web"), kind: "provider" } as const
    const tools = new Map(Object.entries({ web: provider, count: tool(object({ n: number }), "count") }))
    const found = bind({ tools }, use("web"), use("count")).map(brief)
    assert.deepStrictEqual(found, ["ProviderTool a target", "ToolArguments a target"])
  })

  it("PLAN-2 D52 D53 P32 fromMemory reads an agent with a memory", () => {
    const reads = use("search", { task: Reference.fromMemory("writer"), context: [Reference.fromMemory("writr")] })
    const found = bind({ tools, agents }, reads)
    assert.deepStrictEqual(found.map(brief), ["NoMemory a task", "UnknownAgent a context[0]"])
    assert.include(found[0]?.reason, "memory")
    assert.strictEqual(found[1]?.suggestion, "writer")
    const memory = new Map([["writer", { text: true, output: false }]])
    const plain = use("search", { task: Reference.fromMemory("writer") })
    assert.deepStrictEqual(bind({ tools, agents, memories: memory }, plain), [])
    // An agent of the plan itself, known by its memory alone.
    assert.deepStrictEqual(bind({ tools, memories: memory }, plain), [])
  })

  it("PLAN-2 D54 D55 D56 fromAgent reads an agent that keeps its answers", () => {
    const reads = use("search", {
      task: Reference.fromAgent("writer"),
      context: [Reference.fromAgent("ghost"), Reference.fromAgent("search")]
    })
    const memories = new Map([["writer", { text: true, output: false }]])
    const found = bind({ tools, agents, memories }, reads)
    assert.deepStrictEqual(found.map(brief), ["NoStore a task", "UnknownAgent a context[0]", "NotAnAgent a context[1]"])
    assert.include(found[0]?.reason, "store")
    assert.include(found[2]?.reason, "agent")
    const kept = new Map([["writer", { text: false, output: true }]])
    const keeps = use("search", { task: Reference.fromAgent("writer") })
    assert.deepStrictEqual(bind({ tools, agents, memories: kept }, keeps), [])
  })

  it("PLAN-2 reports all problems, in the order of the steps and the rules", () => {
    const found = bind(
      {},
      use("x", { task: Reference.fromMemory("m"), context: Reference.fromAgent("n") }),
      step("b", { target: { kind: "tool", name: "y" }, input: schemas.Hits })
    )
    assert.deepStrictEqual(found.map(brief), [
      "UnknownTool a target",
      "UnknownAgent a task",
      "UnknownAgent a context[0]",
      "UnknownTool b target"
    ])
  })
})
