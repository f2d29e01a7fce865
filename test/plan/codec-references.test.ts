import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Plan } from "effect-emissary/plan"

const step = (name: string, rest: { readonly [key: string]: unknown } = {}) => ({
  name,
  target: { kind: "tool", name: "t" },
  task: { kind: "from_prev" },
  ...rest
})

const found = (steps: unknown) =>
  Plan.danglingReferences(steps).map(({ index, slot, step }) => `${index} ${step} ${slot}`)

describe("references of raw steps", () => {
  it("PLAN-4 S19 task, context, routes and rejoins, in this order", () => {
    const task = { kind: "from_parallel_all", name: "apologi" }
    const context = ["gone2", "b"].map((name) => ({ kind: "from_parallel", name }))
    const steps = [
      step("apology", { after_branches: "gone4", routes: ["gone3", "apology"], context, task }),
      step("b", { context: { kind: "from_step", name: "gone5" } })
    ]
    const slots = ["task", "context[0]", "routes", "after_branches"].map((slot) => `0 apology ${slot}`)
    assert.deepStrictEqual(found(steps), [...slots, "1 b context"])
    const [first] = Plan.danglingReferences(steps)
    assert.deepStrictEqual(first, {
      code: "UnknownStep",
      step: "apology",
      index: 0,
      slot: "task",
      reason:
        `Step "apology" (#0) at task: expected a step of the plan, got from_parallel_all of the unknown step "apologi". ` +
        `Did you mean "apology"? Known steps: "apology", "b". Name a step of the plan`,
      known: ["apology", "b"],
      suggestion: "apology"
    })
  })

  it("PLAN-4 S19 order, parallel groups, unknown kinds and routes that are no names are not checked", () => {
    const steps = [
      step("a", { task: { kind: "from_step", name: "a" }, routes: ["b", 5, null], routes_by: "gone" }),
      step("a", { task: { kind: "from_memory", name: "gone" }, context: "gone" }),
      step("b", { task: { name: "gone" }, target: { kind: "from_step", name: "gone" } })
    ]
    assert.deepStrictEqual(found(steps), [])
  })

  it("PLAN-4 S19 steps without a name are known by the empty one", () => {
    const unnamed = { task: { kind: "from_step", name: "" } }
    assert.deepStrictEqual(found([unnamed, { task: { kind: "from_step", name: "x" } }]), ["1 <unnamed> task"])
    assert.deepStrictEqual(found([step("a", { task: { kind: "from_step" } })]), ["0 a task"])
  })

  it("PLAN-4 routes of version 3 are read, too", () => {
    assert.deepStrictEqual(found([step("a", { routes: [{ to: "gone", when: {} }, { to: "a" }, {}] })]), ["0 a routes"])
  })

  it("L2 own members only", () => {
    const inherited = Object.create({ task: { kind: "from_step", name: "gone" } })
    assert.deepStrictEqual(found([inherited, step("toString", { routes: ["valueOf"] })]), ["1 toString routes"])
  })

  it("PLAN-4 S19 nulls and other shapes are nothing to look at", () => {
    for (const steps of [null, undefined, {}, "steps", 7, [], [null, 7, "a", []], [{ routes: null, context: null }]]) {
      assert.deepStrictEqual(found(steps), [])
    }
  })

  it.prop("PLAN-4 never throws, whatever the JSON", [Schema.Json], ([json]) => {
    Plan.danglingReferences(json)
    Plan.danglingReferences([json, { name: json, task: json, context: [json], routes: json, after_branches: json }])
    Plan.danglingReferences([{ task: { kind: "from_step", name: json }, routes: [json, { to: json }] }])
  })

  it("L10 many problems share what they have in common", () => {
    const tasks = Array.from({ length: 5000 }, (_, i) => ({ kind: "from_step", name: `x${i}` }))
    const problems = Plan.danglingReferences(tasks.map((task, i) => step(`step-${i}`, { task })))
    assert.strictEqual(problems.length, 5000)
    assert.strictEqual(problems[0]?.known, problems[4999]?.known)
    assert.isBelow(problems[0]?.reason.length ?? 0, 1000)
  })
})
