/** PLAN-2: the ways through a plan that its rules follow, against the core that runs plans; and what they cost. */
import { someRuns } from "../full.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as planCheck from "#src/plan/internal/planCheck.ts"
import * as planFlow from "#src/plan/internal/planFlow.ts"
import { Plan, Reference, type PlanDefinition, type When } from "effect-emissary/plan"

import { brief, either, object, type Place, plain, problems, some, to, walk } from "./check-fixtures.ts"
import { plan, step } from "./definitions.ts"
import { pluck } from "../pluck.ts"

const Index = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 19 }))

const Script = Schema.Struct({
  steps: Schema.Array(
    Schema.Struct({
      parallel: Schema.Literals([false, false, false, true]),
      routes: Schema.Array(Index).check(Schema.isMaxLength(3)),
      sure: Schema.Boolean,
      rejoin: Schema.NullOr(Index)
    })
  ).check(Schema.isMinLength(1), Schema.isMaxLength(12)),
  draws: Schema.Array(Index).check(Schema.isMaxLength(60))
})

/** A plan whose routes are in order; without routes back if they only go `forward`. */
const planOf = ({ steps }: typeof Script.Type, forward = false): PlanDefinition.PlanDefinition => {
  const isAlone = (index: number) => steps[index]?.parallel === false
  return plan(
    ...steps.map(({ parallel, rejoin, routes, sure }, index) => {
      const later = steps.length - index - 1
      const back = later === 0 || rejoin === null ? undefined : index + 1 + (rejoin % later)
      const isMiddle = back !== undefined && steps[back]?.parallel === true && steps[back - 1]?.parallel === true
      const rejoins = back === undefined || isMiddle ? undefined : back
      const targets = routes
        .map((route) => (forward ? index + 1 + (route % Math.max(1, later)) : route % steps.length))
        .filter((target) => isAlone(target) && (rejoins === undefined || target < rejoins))
      const found = targets.map((target) => `s${target}`)
      const [first] = found
      const choice = first === undefined ? {} : sure ? either(first, found[1] ?? first) : to(...found)
      return step(`s${index}`, {
        parallel,
        ...choice,
        ...(first === undefined || rejoins === undefined ? {} : { afterBranches: `s${rejoins}` })
      })
    })
  )
}

const placesOf = (definition: PlanDefinition.PlanDefinition) => {
  const places = planFlow.placesOf(definition)
  assert.isDefined(places)
  return places!
}

describe("ways through plans", () => {
  it.prop(
    "PLAN-2 every run takes a way that the rules know, in no more steps than they state; only unreachable steps are problems",
    [Script],
    ([script]) => {
      const definition = planOf(script)
      const known = placesOf(definition)
      const key = (place: Place | undefined) => JSON.stringify([place?.position, place?.branches])
      const number = (place: Place | undefined) => known.findIndex((each) => key(each) === key(place))
      const { completed, places, turns } = walk(definition, script.draws)
      const ran = turns.flat().length
      places.forEach((place, turn) => {
        const here = number(place)
        assert.isAtLeast(here, 0, JSON.stringify({ place, known }))
        if (turn > 0) assert.isTrue(known[number(places[turn - 1])]?.next.has(here), "not a way")
      })
      const cost = Plan.worstCase(definition)
      if (cost.steps !== undefined) {
        assert.isTrue(completed)
        assert.isAtMost(ran, cost.steps)
      }
      assert.isAtMost(ran, Plan.worstCase({ ...definition, maxIterations: 60 }).limit.steps)
      const problems = planCheck.checkStructure(definition)
      for (const { code, index } of problems) {
        assert.strictEqual(code, "UnreachableStep")
        assert.isFalse(places.some(({ position }) => position === index))
      }
    },
    { arbitrary: { runs: someRuns(1500) } }
  )

  it.prop(
    "TRUST-7 D1 no step runs twice in a plan without a route back, on any way",
    [Script],
    ([script]) => {
      const definition = planOf(script, true)
      const places = placesOf(definition)
      for (const { next, position } of places) {
        for (const place of next) assert.isAbove(places[place]?.position ?? -1, position)
      }
      const ran = walk(definition, script.draws).turns.flat()
      assert.strictEqual(new Set(ran).size, ran.length, ran.join(" "))
    },
    { arbitrary: { runs: someRuns(5000) } }
  )

  it("PLAN-5 F18 an inner branch ends where the inner router specifies, then the outer branch where the outer router does", () => {
    const nested = plan(
      step("c1", { ...either("c2", "c2"), afterBranches: "end" }),
      step("s1"),
      step("c2", { ...either("b2", "b2"), afterBranches: "mid" }),
      ...plain("s2", "b2", "mid", "s4", "end")
    )
    assert.deepStrictEqual(pluck(placesOf(nested), "position"), [0, 2, 4, 5, 7])
  })

  it("PLAN-5 a route to where an outer branch rejoins leaves the inner one, too", () => {
    const nested = plan(
      step("a", { ...either("b", "b"), afterBranches: "end" }),
      step("b", { ...to("c"), afterBranches: "mid" }),
      step("c", to("end")),
      ...plain("mid", "end")
    )
    const ends = placesOf(nested).filter(({ position }) => position === 4)
    assert.deepStrictEqual(pluck(ends, "branches"), [[]])
  })

  it("PLAN-5 branches below the newest one are left by a route back, too", () => {
    const definition = plan(
      step("s0", either("s6", "s6")),
      step("s1", { ...either("s7", "s7"), afterBranches: "s8" }),
      ...plain("s2", "s3", "s4", "s5"),
      step("s6", { ...either("s1", "s1"), afterBranches: "s10" }),
      step("s7", either("s4", "s4")),
      ...plain("s8", "s9", "s10")
    )
    const ran = walk(definition, []).places.map(({ position }) => position)
    assert.deepStrictEqual(ran, [0, 6, 1, 7, 4, 8, 9, 10])
    const known = placesOf(definition).map(({ position }) => position)
    assert.includeMembers(known, ran)
  })
})

describe("types along the ways that data takes", () => {
  const json = { out: object({ x: { type: "string" } }), other: object({ y: { type: "string" } }) }
  const gives = (name: string, of: keyof typeof json) => ({ output: { name, json: json[of] } })
  const takes = (of: keyof typeof json) => ({ input: { json: json[of] } })

  it("PLAN-2 D22 are those of the step before, or of the one that is referred to (D23)", () => {
    const before = [step("a", gives("A", "out")), step("b", gives("B", "other"))]
    assert.deepStrictEqual(problems(step("a", gives("A", "out")), step("b", takes("out"))), [])
    const found = planCheck.checkStructure(plan(step("a", gives("A", "out")), step("b", takes("other"))))
    assert.deepStrictEqual(found.map(brief), ["IncompatibleTypes b input"])
    for (const word of [`"a"`, `"A"`, `"y"`, `"x"`, "fromPrev"]) assert.include(found[0]?.reason, word)
    const far = { ...takes("out"), task: Reference.fromStep("a") }
    assert.deepStrictEqual(problems(...before, step("c", far)), [])
    const bad = { ...takes("other"), task: Reference.fromParallel("a") }
    assert.deepStrictEqual(problems(...before, step("c", bad)), ["IncompatibleTypes c input"])
  })

  it("PLAN-2 D24 are not known without a schema, for the first step, and for fromStart", () => {
    assert.deepStrictEqual(problems(step("a"), step("b", takes("out"))), [])
    assert.deepStrictEqual(problems(step("a", takes("out"))), [])
    const atStart = step("b", { ...takes("other"), task: { _tag: "FromStart" } })
    assert.deepStrictEqual(problems(step("a", gives("A", "out")), atStart), [])
    assert.deepStrictEqual(problems(step("a", { output: { name: "A" } }), step("b", takes("out"))), [])
  })

  it("PLAN-2 come through routes, rejoins and parallel groups", () => {
    // After a band: the last declared member.
    const band = [
      step("p", { parallel: true, ...gives("P", "other") }),
      step("q", { parallel: true, ...gives("Q", "out") })
    ]
    assert.deepStrictEqual(problems(...band, step("j", takes("out"))), [])
    assert.deepStrictEqual(problems(...band, step("j", takes("other"))), ["IncompatibleTypes j input"])
    // Into a band: what ran before it, for every member.
    const members = [step("p", { parallel: true, ...takes("out") }), step("q", { parallel: true, ...takes("other") })]
    assert.deepStrictEqual(problems(step("a", gives("A", "out")), ...members), ["IncompatibleTypes q input"])
    // The declared neighbour never runs right before.
    const gate = step("a", { ...either("x", "y"), afterBranches: "end", ...gives("A", "out") })
    const branches = ["x", "y"].map((name) => step(name, { ...takes("out"), ...gives(name.toUpperCase(), "other") }))
    assert.deepStrictEqual(problems(gate, ...branches, step("end", takes("other"))), [])
    const found = planCheck.checkStructure(plan(gate, ...branches, step("end", takes("out"))))
    assert.deepStrictEqual(found.map(brief), ["IncompatibleTypes end input"])
    for (const word of [`"x"`, `"y"`]) assert.include(found[0]?.reason, word)
    // A branch is judged as a branch, also when no route needs to be taken.
    const open = step("a", { ...to("x", "y"), afterBranches: "end", ...gives("A", "out") })
    assert.deepStrictEqual(problems(open, ...branches, step("end")), [])
    // Back along a loop.
    const loop = [step("a", takes("out")), step("b", { ...to("a"), ...gives("B", "other") })]
    assert.deepStrictEqual(problems(...loop), ["IncompatibleTypes a input"])
  })

  it("PLAN-2 of texts are texts", () => {
    const taking = (task: Reference.Reference, json: { readonly type: string }) =>
      problems(step("p", { parallel: true }), step("b", { task, input: { json } }))
    for (const task of [Reference.fromMemory("m"), Reference.literal("x")]) {
      assert.deepStrictEqual(taking(task, { type: "string" }), [])
      assert.deepStrictEqual(taking(task, { type: "object" }), ["IncompatibleTypes b input"])
    }
    assert.deepStrictEqual(taking(Reference.fromAgent("m"), { type: "object" }), [])
  })
})

describe("the most a run can take", () => {
  const counting = (calls: number) => ({ modelCalls: () => calls })
  const worst = (...steps: PlanDefinition.PlanDefinition["steps"]) => Plan.worstCase(plan(...steps), counting(2))

  it("PLAN-2 is the longest way", () => {
    assert.deepStrictEqual(worst(), { steps: 0, modelCalls: 0, limit: { steps: 0, modelCalls: 0 } })
    assert.deepStrictEqual(worst(step("a"), step("b")), { steps: 2, modelCalls: 4, limit: { steps: 2, modelCalls: 4 } })
    // A detour runs what it jumps over, or not.
    assert.strictEqual(worst(step("a", to("c")), step("b"), step("c")).steps, 3)
    assert.strictEqual(worst(step("a", either("c", "c")), step("b"), step("c")).steps, 2)
  })

  it("PLAN-2 counts members of parallel groups, and the longer one of branches", () => {
    const band = ["p", "q", "r"].map((name) => step(name, { parallel: true }))
    assert.strictEqual(worst(...band, step("j")).steps, 4)
    const gate = step("a", { ...either("x", "y"), afterBranches: "end" })
    assert.strictEqual(worst(gate, step("x"), step("y"), step("end")).steps, 3)
    const long = step("x", { ...either("x2", "x2") })
    assert.strictEqual(worst(gate, long, step("x2"), step("y"), step("end")).steps, 4)
  })

  it("PLAN-2 is bounded by the limit alone when there is a loop", () => {
    const loop = plan(step("a"), step("p", { parallel: true }), step("q", { parallel: true }), step("b", to("a")))
    const cost = Plan.worstCase({ ...loop, maxIterations: 10 }, counting(3))
    assert.deepStrictEqual(cost, { steps: undefined, modelCalls: undefined, limit: { steps: 20, modelCalls: 60 } })
    const short = Plan.worstCase({ ...plan(step("a"), step("b")), maxIterations: 1 }, counting(3))
    assert.deepStrictEqual(short, { steps: 2, modelCalls: 6, limit: { steps: 1, modelCalls: 3 } })
    assert.strictEqual(Plan.worstCase({ ...loop, maxIterations: 0 }).limit.steps, 0)
  })

  it("PLAN-2 counts attempts, knows functions, and names what it does not know", () => {
    assert.strictEqual(worst(step("a", { retry: { times: 2 } })).modelCalls, 6)
    assert.strictEqual(worst(step("a", { retry: { times: 2 } })).steps, 1)
    const agent = { target: { kind: "agent", name: "w" } } as const
    assert.strictEqual(Plan.worstCase(plan(step("a"))).modelCalls, 0)
    assert.isUndefined(Plan.worstCase(plan(step("a"), step("b", agent))).modelCalls)
    // A step that no run reaches costs nothing.
    const around = plan(step("a", either("c", "c")), step("b", agent), step("c"))
    assert.strictEqual(Plan.worstCase(around).modelCalls, 0)
  })
})

describe("cost of checking", () => {
  const size = 1000
  const name = (index: number) => `s${index}`
  const costOf = (definition: PlanDefinition.PlanDefinition) =>
    placesOf(definition).reduce((sum, { branches, next }) => sum + 1 + branches.length + next.size, 0)
  const range = (count: number) => Array.from({ length: count }, (_, index) => index)

  it("PLAN-2 L10 grows with the number of steps", () => {
    const shapes: ReadonlyArray<(count: number) => PlanDefinition.PlanDefinition> = [
      (count) => plan(...range(count).map((index) => step(name(index)))),
      (count) => plan(...range(count).map((index) => step(name(index), { parallel: index % 7 < 4 }))),
      // A diamond after the other.
      (count) =>
        plan(
          ...range(count).map((index) =>
            index % 4 === 0 && index + 3 < count
              ? step(name(index), { ...to(name(index + 1), name(index + 2)), afterBranches: name(index + 3) })
              : step(name(index))
          )
        ),
      // A loop around a loop around a loop.
      (count) => plan(...range(count).map((index) => step(name(index), to(name(Math.max(0, index - 10))))))
    ]
    for (const shape of shapes) {
      assert.isAtMost(costOf(shape(size)), 11 * costOf(shape(size / 10)))
      planCheck.checkStructure(shape(size))
      Plan.worstCase(shape(size))
    }
  })

  it("PLAN-2 has an end when there are too many ways, and then accepts them", () => {
    const half = 600
    // Routers inside of routers, each branch continuing with all that follows.
    const deep = plan(
      ...range(half).map((index) =>
        step(name(index), { ...to(name(index + 1), name(index + 2)), afterBranches: name(2 * half + 2 - index) })
      ),
      ...range(half + 4).map((index) => step(name(half + index)))
    )
    planCheck.checkStructure(deep)
    const everywhere = to(...range(400).map(name))
    const all = plan(...range(400).map((index) => step(name(index), everywhere)))
    planCheck.checkStructure(all)
    assert.isUndefined(Plan.worstCase(all).steps)
  })

  it("PLAN-2 long chains of names and deep schemas do no harm", () => {
    let json: { [key: string]: Schema.Json } = { type: "string" }
    for (const _ of range(5000)) json = { type: "array", minItems: 1, items: json }
    assert.deepStrictEqual(problems(step("a", { output: { json } }), step("b", { input: { json } })), [])
    const nested = () => {
      let when: When.When = some("x")
      for (const _ of range(20_000)) when = { _tag: "And", all: [when] }
      return when
    }
    const deep = { routes: [nested(), { _tag: "Not", when: nested() } as const].map((when) => ({ to: "b", when })) }
    assert.deepStrictEqual(problems(step("a", deep), step("x"), step("b")), ["UnreachableStep x name"])
    const long = range(300).map((index) =>
      step(`${"ab".repeat(90)}${index}`, { task: { _tag: "FromStep", step: "ba".repeat(95) } })
    )
    assert.strictEqual(planCheck.checkStructure(plan(...long)).length, 300)
  })
})
