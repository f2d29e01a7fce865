import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { Picture, When, type PlanDefinition } from "effect-emissary/plan"
import { plan, step } from "./definitions.ts"
import { edgesOf, graphViz, mermaid } from "./picture-parsers.ts"
import { pluck } from "../pluck.ts"

type Definition = PlanDefinition.PlanDefinition

const before: Definition = { ...plan(step("a"), step("b"), step("c"), step("d")), description: "old" }
const after: Definition = {
  ...plan(
    step("d"),
    step("a", { writes: "x", parallel: false }),
    step("new"),
    step("c", { target: { kind: "tool", name: "t" } })
  ),
  maxIterations: 5
}

const Names = Schema.Literals(["a", "b", "c", "d", "e", "__proto__"])
const GeneratedStep = Schema.Struct({
  name: Names,
  parallel: Schema.Boolean,
  writes: Schema.optionalKey(Schema.String),
  task: Schema.Literals(["prev", "start", "a"]),
  retry: Schema.optionalKey(Schema.Struct({ times: Schema.Literals([0, 1]) })),
  routes: Schema.optionalKey(Schema.Array(Names))
})
const Generated = Schema.Struct({
  name: Schema.Literals(["p", "q"]),
  description: Schema.optionalKey(Schema.Literals(["", "x"])),
  steps: Schema.Array(GeneratedStep)
})

const build = ({ steps, ...rest }: typeof Generated.Type): Definition => ({
  ...rest,
  maxIterations: 100,
  steps: steps.map(({ routes, task, ...fields }) => ({
    ...fields,
    target: { kind: "tool", name: fields.name },
    task:
      task === "prev"
        ? { _tag: "FromPrev" }
        : task === "start"
          ? { _tag: "FromStart" }
          : { _tag: "Literal", value: task },
    ...(routes === undefined ? {} : { routes: routes.map((to) => ({ to, when: When.field(to).empty() })) })
  }))
})

const roundTrip = (diff: Picture.Diff) =>
  Schema.decodeUnknownSync(Picture.Diff)(JSON.parse(JSON.stringify(Schema.encodeSync(Picture.Diff)(diff))))

describe("PLAN-9 PlanDiff", () => {
  it("PLAN-9 what changed, by field, and as few moves as possible", () => {
    assert.deepStrictEqual(Picture.diff(before, { definition: after }), {
      plan: [
        { field: "description", before: "old" },
        { field: "maxIterations", before: 100, after: 5 }
      ],
      steps: [
        { _tag: "Removed", step: "b", index: 1, definition: step("b") },
        { _tag: "Changed", step: "a", index: 0, fields: [{ field: "writes", after: "x" }] },
        {
          _tag: "Changed",
          step: "c",
          index: 2,
          fields: [{ field: "target", before: { kind: "function", name: "c" }, after: { kind: "tool", name: "t" } }]
        },
        { _tag: "Moved", step: "d", from: 3, to: 0 },
        { _tag: "Added", step: "new", index: 2, definition: step("new") }
      ]
    })
  })

  it.prop("PLAN-9 a plan does not differ from itself", [Generated], ([one]) => {
    const diff = Picture.diff(build(one), build(structuredClone(one)))
    assert.isTrue(Picture.isEmptyDiff(diff))
    assert.deepStrictEqual(diff, { plan: [], steps: [] })
  })

  it.prop(
    "PLAN-9 the changes applied to the first plan give the second, also after a trip through JSON",
    [Generated, Generated],
    ([one, two]) => {
      const [a, b] = [build(one), build(two)]
      const diff = Picture.diff(a, b)
      assert.deepStrictEqual(Result.getOrThrow(Picture.applyDiff(diff, a)), b)
      assert.deepStrictEqual(Result.getOrThrow(Picture.applyDiff(roundTrip(diff), a)), b)
      assert.strictEqual(Picture.isEmptyDiff(diff), JSON.stringify(canonical(a)) === JSON.stringify(canonical(b)))
    }
  )

  it("PLAN-9 changes do not fit another plan, which is told", () => {
    const diff = Picture.diff(before, after)
    const error = (plan: Definition) => {
      const result = Picture.applyDiff(diff, plan)
      assert(Result.isFailure(result))
      return result.failure.message
    }
    assert.include(error(plan(step("a"), step("x"), step("c"), step("d"))), 'expected the step "b" at position 1')
    assert.include(error({ ...before, maxIterations: 7 }), 'the field "maxIterations" of the plan')
    assert.include(
      error({ ...before, steps: before.steps.map((one) => (one.name === "a" ? { ...one, writes: "y" } : one)) }),
      'the field "writes" of step "a"'
    )
    const broken = Picture.applyDiff(
      { plan: [{ field: "maxIterations", before: 100, after: "many" }], steps: [] },
      before
    )
    assert.isTrue(Result.isFailure(broken))
    const hole = Picture.applyDiff(
      { plan: [], steps: [{ _tag: "Added", step: "z", index: 9, definition: step("z") }] },
      before
    )
    assert.isTrue(Result.isFailure(hole))
  })
})

/** The same JSON with the fields in one order. */
const canonical = (definition: Definition): Schema.Json => sort(JSON.parse(JSON.stringify(definition)))
const sort = (json: Schema.Json): Schema.Json => {
  if (typeof json !== "object" || json === null) return json
  if (Array.isArray(json)) return json.map(sort)
  return Object.entries(json)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([key, value]) => [key, sort(value)])
}

describe("PLAN-9 pictures of differences", () => {
  it.effect("PLAN-9 what was added, removed and changed is marked by colour and in words", () =>
    Effect.gen(function* () {
      const one = yield* mermaid(Picture.diffToMermaid(before, after))
      const other = yield* graphViz(Picture.diffToGraphViz(before, after))
      const lines = [...one.nodes.values()].map(
        ({ classes, text }) => `${text.replace(/\n/gu, " | ")} [${classes.join(" ")}]`
      )
      assert.deepStrictEqual(lines, [
        "plan | ~ changed: description, maxIterations [changed]",
        "d | function | ~ changed: position [changed]",
        "a | function | ~ changed: writes [changed]",
        "b | function | − removed [removed]",
        "new | function | + added [added]",
        "c | tool t | ~ changed: target [changed]",
        "end []"
      ])
      assert.deepStrictEqual(pluck([...other.nodes.values()], "text"), pluck([...one.nodes.values()], "text"))
      assert.deepStrictEqual(edgesOf(one), [
        "plan -> d: +",
        "d -> a: +",
        "a -> new: +",
        "new -> c: +",
        "c -> end: +",
        "plan -> a: −",
        "a -> b: −",
        "b -> c: −",
        "c -> d: −",
        "d -> end: −"
      ])
    })
  )

  it.effect("PLAN-9 the difference of equal plans is the plan without marks", () =>
    Effect.gen(function* () {
      assert.strictEqual(Picture.diffToMermaid(before, structuredClone(before)), Picture.toMermaid(before))
      assert.strictEqual(Picture.diffToGraphViz(before, before), Picture.toGraphViz(before))
    })
  )

  it.effect.prop(
    "PLAN-9 the difference of any two plans can be drawn",
    [Generated, Generated],
    ([one, two]) =>
      Effect.gen(function* () {
        const [a, b] = [
          build({ ...one, steps: one.steps.slice(0, 6) }),
          build({ ...two, steps: two.steps.slice(0, 6) })
        ]
        const parsed = yield* mermaid(Picture.diffToMermaid(a, b))
        const other = yield* graphViz(Picture.diffToGraphViz(a, b))
        assert.deepStrictEqual(edgesOf(other).toSorted(), edgesOf(parsed).toSorted())
        const removed = Picture.diff(a, b).steps.filter(({ _tag }) => _tag === "Removed").length
        const marked = [...parsed.nodes.values()].filter(({ classes }) => classes.includes("removed")).length
        assert.strictEqual(marked, removed)
      }),
    { arbitrary: { runs: 40 } }
  )
})
