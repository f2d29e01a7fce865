/** PLAN-2: the rules of a plan's structure, in the order of the recordings. D.. are recorded cases. */
import { assert, describe, it } from "@effect/vitest"
import { Equal, Schema } from "effect"
import * as closeNames from "#src/payload/internal/closeNames.ts"
import * as fuel from "#src/payload/internal/fuel.ts"
import * as planCheck from "#src/plan/internal/planCheck.ts"
import * as planNames from "#src/plan/internal/planNames.ts"
import { Plan, PlanDefinition, PlanInvalid, Reference } from "effect-emissary/plan"

import { brief, either, plain, problems, reasons, schemas, to } from "./check-fixtures.ts"
import { plan, step } from "./definitions.ts"

const { fromParallel, fromParallelAll, fromStep } = Reference

/** One problem that mentions all of these. */
const mentions = (found: ReadonlyArray<string>, words: ReadonlyArray<string>) => {
  assert.strictEqual(found.length, 1, found.join("\n"))
  for (const word of words) assert.include(found[0], word)
}

const parallel = { parallel: true }

/** The exported form of a struct with a rest. */
const kindAndRest = {
  type: "object",
  properties: { kind: { type: "string", enum: ["b", "c"] } },
  required: ["kind"],
  allOf: [{ type: "object", additionalProperties: {} }]
}

describe("the plan as a whole", () => {
  it("PLAN-2 D01 D03 Q04 has unique names: all that are not, sorted, in one problem", () => {
    const found = planCheck.checkStructure(plan(step("b"), step("a"), step("b"), step("a"), step("c"), step("b")))
    assert.deepStrictEqual(found.map(brief), ["DuplicateNames name"])
    assert.include(found[0]?.reason, `"a", "b"`)
  })

  it("PLAN-2 D44 F23 has a limit from 0 to a million", () => {
    const of = (maxIterations: number) => planCheck.checkStructure({ ...plan(), maxIterations }).map(brief)
    for (const limit of [0, 1, planNames.maxIterations]) assert.deepStrictEqual(of(limit), [])
    for (const limit of [-1, 1.5, Number.NaN, Infinity, planNames.maxIterations + 1]) {
      assert.deepStrictEqual(of(limit), ["InvalidLimit maxIterations"])
    }
  })

  it("PLAN-2 Q05 has names of 1 to 200 characters without control characters, and keys as well", () => {
    assert.deepStrictEqual(problems(step("")), ["InvalidName  name"])
    assert.deepStrictEqual(problems(step("a\n")), ["InvalidName a\n name"])
    assert.deepStrictEqual(problems(step("x".repeat(200))), [])
    assert.strictEqual(problems(step("x".repeat(201))).length, 1)
    assert.deepStrictEqual(problems(step("../../etc passwd")), [])
    assert.deepStrictEqual(problems(step("a", { writes: "" })), ["InvalidName a writes"])
  })
})

describe("references", () => {
  it("PLAN-2 D04 D05 D08 D11 name steps there are, and the closest name is offered", () => {
    const found = planCheck.checkStructure(plan(step("research"), step("b", { task: fromStep("reserch") })))
    assert.strictEqual(found[0]?.suggestion, "research")
    assert.deepStrictEqual(found[0]?.known, ["b", "research"])
    assert.strictEqual(
      found[0]?.reason,
      `Step "b" (#1) at task: expected a step of the plan, got fromStep("reserch"), an unknown step. Did you mean "research"? Known steps: "b", "research". Name a step of the plan`
    )
    const far = planCheck.checkStructure(plan(step("a"), step("b", { task: fromStep("zzzz") })))
    assert.isUndefined(far[0]?.suggestion)
  })

  it("PLAN-2 D12 fromParallel may read a step that is not parallel", () => {
    assert.deepStrictEqual(problems(step("a"), step("b", { task: fromParallel("a") })), [])
  })

  it("PLAN-2 D06 D07 D10 refer to earlier steps", () => {
    mentions(reasons(step("a", { task: fromStep("a") })), ["a", "earlier"])
  })

  it("PLAN-2 D13 D14 D15 see no sibling of the parallel group, before or after", () => {
    mentions(reasons(step("a", { ...parallel, context: fromStep("a") })), ["same parallel band"])
  })

  it("PLAN-2 D17 D18 D19 D20 fromParallelAll names the first step of an earlier parallel group", () => {
    const reader = (name: string) => step("j", { task: fromParallelAll(name) })
    mentions(reasons(reader("zz")), ["j", "zz"])
    mentions(reasons(step("a"), reader("a")), ["j", "a", "parallel"])
    assert.deepStrictEqual(problems(step("a", parallel), step("b", parallel), reader("a")), [])
  })

  it("PLAN-2 D21 fromParallelAll inside of its own parallel group is refused, once", () => {
    const inside = [step("a", parallel), step("b", { ...parallel, context: fromParallelAll("a") })]
    assert.deepStrictEqual(problems(...inside), ["SameBand b context[0]"])
  })
})

describe("routes", () => {
  it("PLAN-2 D26 D27 D28 go to steps there are, outside of parallel groups, also back", () => {
    mentions(reasons(step("a", to("p")), step("p", parallel)), ["a", "p", "parallel"])
    const close = planCheck.checkStructure(plan(step("apology", to("aplogy"))))
    assert.strictEqual(close[0]?.suggestion, "apology")
  })

  it("PLAN-2 D29 of a parallel step are validated, and a warning reports that they are not followed", () => {
    const ignored = plan(step("a", { ...parallel, ...to("b"), afterBranches: "c" }), ...plain("b", "c"))
    assert.deepStrictEqual(planCheck.checkStructure(ignored), [])
    const warnings = ["RoutingIgnored a routes", "RoutingIgnored a afterBranches"]
    assert.deepStrictEqual(Plan.warnings(ignored).map(brief), warnings)
    const texts = Plan.warnings(ignored).map(({ reason }) => reason)
    assert.include(texts[0], "got routes that no run follows")
    assert.include(texts[1], "got afterBranches that no run follows")
    assert.deepStrictEqual(problems(step("a", { ...parallel, ...to("ghost") })), ["UnknownStep a routes"])
    assert.deepStrictEqual(Plan.warnings(plan(step("a", to("b")), step("b"))), [])
  })

  it("PLAN-2 D30 D31 D32 D33 D45 D59 routesBy names a field with string literals", () => {
    const by = (output: Partial<PlanDefinition.PlanDefinition["steps"][number]>, routesBy = "kind") =>
      reasons(step("a", { routesBy, ...output }), step("b"))
    mentions(by({ output: { name: "str", json: { type: "string" } } }), ["a", "kind", "str"])
    mentions(by({ output: schemas.Kstr }), ["a", "kind", "Kstr"])
    mentions(by({ output: schemas.Kb }, ""), ["a", "field"])
    assert.deepStrictEqual(by({ output: { name: "Known elsewhere" } }), [])
  })

  it("PLAN-2 D34 D35 D36 D37 the literals are steps, outside of parallel groups; null is allowed", () => {
    const by = (output: { readonly name: string }) => step("a", { routesBy: "kind", output })
    assert.deepStrictEqual(problems(by(schemas.Kb), step("b")), [])
    assert.deepStrictEqual(problems(by(schemas.KbOpt), step("b")), [])
  })

  it("PLAN-2 routesBy reads unions, references and constants", () => {
    const tag = (name: string) => ({ type: "object", properties: { _tag: { const: name } }, required: ["_tag"] })
    const json = { anyOf: [tag("b"), { $ref: "#/$defs/c" }], $defs: { c: tag("ghost") } }
    const found = problems(step("a", { routesBy: "_tag", output: { json } }), step("b"))
    assert.deepStrictEqual(found, ["UnknownStep a routesBy"])
    const cyclic = { $ref: "#/$defs/c", $defs: { c: { anyOf: [{ $ref: "#/$defs/c" }] } } }
    const loops = problems(step("a", { routesBy: "_tag", output: { json: cyclic } }))
    assert.deepStrictEqual(loops, ["InvalidRoutesBy a routesBy"])
  })

  it("PLAN-2 routesBy reads the keywords beside an intersection or a union", () => {
    const router = step("a", { routesBy: "kind", output: { json: kindAndRest }, afterBranches: "end" })
    const found = (...names: ReadonlyArray<string>) => problems(router, ...plain(...names))
    assert.deepStrictEqual(found("b", "c", "end"), [])
    assert.deepStrictEqual(found("lost", "b", "c", "end"), ["UnreachableStep lost name"])
    assert.deepStrictEqual(found("b", "end"), ["UnknownStep a routesBy"])
    const json = { ...kindAndRest, allOf: [], anyOf: [{ required: ["x"] }, { required: ["y"] }] }
    const beside = problems(step("a", { routesBy: "kind", output: { json } }), step("b"))
    assert.deepStrictEqual(beside, ["UnknownStep a routesBy"])
  })

  it("PLAN-2 D38 D39 D40 D41 D43 afterBranches needs routes and a later step", () => {
    mentions(reasons(step("a", { ...to("b"), afterBranches: "ghost" }), step("b")), ["a", "ghost"])
    mentions(reasons(step("pre"), step("a", { ...to("b"), afterBranches: "pre" }), step("b")), ["a", "pre", "#1", "#0"])
    mentions(reasons(step("a", { ...to("b"), afterBranches: "a" }), step("b")), ["a", "itself"])
  })

  it("PLAN-2 D42 afterBranches may name the first step of a parallel group only", () => {
    const rejoin = (afterBranches: string) =>
      problems(step("a", { ...to("b"), afterBranches }), step("b"), step("p", parallel), step("q", parallel))
    assert.deepStrictEqual(rejoin("p"), [])
    assert.deepStrictEqual(rejoin("q"), ["RejoinIntoBand a afterBranches"])
  })

  it("PLAN-2 F14 F15 a rejoin comes after the targets of all routes", () => {
    const router = (...names: ReadonlyArray<string>) => step("a", { ...to(...names), afterBranches: "end" })
    const rest = plain("b", "end", "tail")
    assert.deepStrictEqual(problems(router("b"), ...rest), [])
    mentions(reasons(router("b", "end"), ...rest), [`"end" (#2) itself`, "ended"])
    mentions(reasons(router("b", "tail"), ...rest), [`"tail" (#3)`, "ended"])
    assert.deepStrictEqual(problems(router("end", "tail"), ...rest).length, 2)
    const by = step("a", { routesBy: "kind", output: schemas.Kb, afterBranches: "b" })
    assert.deepStrictEqual(problems(by, step("b")), ["RejoinBeforeRoute a afterBranches"])
    // F17: a branch that was declared before the router
    assert.deepStrictEqual(problems(step("t"), step("a", { ...to("t"), afterBranches: "end" }), step("end")), [])
  })
})

describe("what no run gets to", () => {
  it("PLAN-2 is reported once for each part", () => {
    const rest = [...plain("b", "b2"), step("c", either("e", "e")), ...plain("d", "e")]
    const found = planCheck.checkStructure(plan(step("a", either("c", "e")), ...rest))
    assert.deepStrictEqual(found.map(brief), ["UnreachableStep b name", "UnreachableStep d name"])
    assert.include(found[0]?.reason, `"b2" (#2)`)
  })

  it("PLAN-2 a condition may fail, so the next step can run; a field that always names a step may not", () => {
    assert.deepStrictEqual(problems(step("a", to("c")), step("b"), step("c")), [])
    const by = (output: { readonly name: string }) => step("a", { routesBy: "kind", output })
    assert.deepStrictEqual(problems(by(schemas.Kb), step("x"), step("b")), ["UnreachableStep x name"])
    assert.deepStrictEqual(problems(by(schemas.KbOpt), step("x"), step("b")), [])
  })

  it("PLAN-2 branches that all rejoin leave nothing between them unreached", () => {
    const gate = step("a", { ...either("yes", "no"), afterBranches: "end" })
    assert.deepStrictEqual(problems(gate, ...plain("yes", "no", "end")), [])
    assert.deepStrictEqual(problems(gate, ...plain("yes", "lost", "no", "end")), ["UnreachableStep lost name"])
  })

  it("PLAN-2 is not reported while routes lead nowhere", () => {
    const by = step("a", { routesBy: "kind", output: schemas.KbGhost })
    assert.deepStrictEqual(problems(by, step("x"), step("b")), ["UnknownStep a routesBy"])
  })
})

describe("keys that steps write", () => {
  const writes = { writes: "k" }

  it("PLAN-2 S9.5 are different within a parallel group", () => {
    const group = [step("a", { ...parallel, ...writes }), step("b", { ...parallel, ...writes })]
    assert.deepStrictEqual(problems(...group), ["WritesCollision b writes"])
    mentions(reasons(...group), [`"k"`, `"a" (#0)`])
    assert.deepStrictEqual(problems(step("a", { ...parallel, ...writes }), step("b", { ...parallel, writes: "l" })), [])
  })

  it("PLAN-2 S9.5 may be the same for steps that run one after the other: the last one wins", () => {
    assert.deepStrictEqual(problems(step("a", writes), step("m"), step("b", writes)), [])
    const groups = [step("a", { ...parallel, ...writes }), step("m"), step("b", { ...parallel, ...writes })]
    assert.deepStrictEqual(problems(...groups), [])
  })
})

describe("all problems together", () => {
  it("PLAN-2 P40 come in the order of the plan, the steps, and the rules", () => {
    const found = planCheck.checkStructure({
      ...plan(
        step("", { task: fromStep("b"), context: [fromStep("zz"), fromStep("b")], writes: "" }),
        step("b", { ...to("ghost"), routesBy: "x", afterBranches: "b" }),
        step("b"),
        step("c", { ...parallel, writes: "k", task: fromParallelAll("zz") }),
        step("d", { ...parallel, writes: "k", context: fromStep("c"), input: schemas.Other }),
        step("e", { task: Reference.literal("text"), input: schemas.Other })
      ),
      maxIterations: -1
    })
    assert.deepStrictEqual(found.map(brief), [
      "DuplicateNames name",
      "InvalidLimit maxIterations",
      "InvalidName  name",
      "NotEarlier  task",
      "UnknownStep  context[0]",
      "NotEarlier  context[1]",
      "InvalidName  writes",
      "RoutesAndRoutesBy b routes",
      "UnknownStep b routes",
      "InvalidRoutesBy b routesBy",
      "RejoinNotLater b afterBranches",
      "UnknownStep c task",
      "SameBand d context[0]",
      "WritesCollision d writes",
      "IncompatibleTypes e input"
    ])
    const error = new PlanInvalid.PlanInvalid({ plan: "p", problems: [found[0]!, ...found.slice(1)] })
    assert.include(error.message, "found 15 problems")
    for (const { reason } of found) assert.include(error.message, reason)
  })

  it("PLAN-2 lists of names are cut in messages and in data", () => {
    const steps = Array.from({ length: 300 }, (_, index) => step(`n${index}`, { task: fromStep("?") }))
    const found = planCheck.checkStructure(plan(...steps))
    assert.strictEqual(found.length, 300)
    assert.include(found[0]?.reason, "and 280 more")
    assert.strictEqual(found[0]?.known?.length, 100)
  })
})

describe("closest names", () => {
  it("PLAN-2 S10.2 differ in less than half of the letters, and no search goes beyond its fuel", () => {
    const tank = fuel.make(20)
    const names = ["search", "research"]
    assert.strictEqual(closeNames.closestName("reserch", names, tank), "research")
    assert.strictEqual(closeNames.closestName("research", names, tank), "research")
    assert.isUndefined(closeNames.closestName("write", names, tank))
    assert.isUndefined(closeNames.closestName("", names, tank))
    assert.isAbove(tank.spent, 0)
    assert.isFalse(fuel.isEmpty(tank))
    assert.isUndefined(closeNames.closestName("reserch", ["research"], fuel.make(0)))
    const many = Array.from({ length: 1000 }, (_, index) => `name${index}`)
    assert.isUndefined(closeNames.closestName("nama", many, tank))
    assert.isBelow(tank.spent, 22)
  })
})

describe("laws", () => {
  const Definition = PlanDefinition.PlanDefinition

  it.prop(
    "PLAN-2 any definition is checked without a failure, and always in the same way",
    [Definition],
    ([definition]) => {
      const found = planCheck.checkStructure(definition)
      assert.isTrue(Equal.equals(found, planCheck.checkStructure(structuredClone(definition))))
      Plan.warnings(definition)
      const nothing = { tools: new Map(), agents: new Set<string>(), memories: new Map() }
      planCheck.checkBinding(definition, nothing)
      for (const problem of found) {
        assert.isAbove(problem.reason.length, 20)
        if (problem.index !== undefined) assert.strictEqual(definition.steps[problem.index]?.name, problem.step)
      }
    },
    { arbitrary: { runs: 300 } }
  )

  it("PLAN-2 the message of many problems stays readable, all of them are data", () => {
    const name = "x".repeat(190)
    const context = Array.from({ length: 20 }, (_, i) => fromStep(`${name}${i}`))
    const steps = Array.from({ length: 1000 }, (_, i) => step(`${name}-${i}`, { context }))
    const [first, ...rest] = planCheck.checkStructure(plan(...steps))
    assert(first !== undefined)
    const error = new PlanInvalid.PlanInvalid({ plan: "p", problems: [first, ...rest] })
    assert.strictEqual(error.problems.length, 20_000)
    assert.match(error.message, /- and 19950 more$/u)
    assert.isBelow(error.message.length, 200_000)
    assert.strictEqual(rest[0]?.known, rest.at(-1)?.known)
  })

  it("PLAN-2 L3 problems are data", () => {
    const steps = [step("a", { task: fromStep("b") }), step("b", { context: fromStep("q") })]
    const found = planCheck.checkStructure(plan(...steps))
    const json = { _tag: "PlanInvalid", plan: "p", problems: found }
    assert.deepStrictEqual(Schema.decodeUnknownSync(PlanInvalid.PlanInvalid)(json).problems, found)
  })
})
