import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { equalsJson } from "#src/payload/internal/values.ts"
import { Picture, When, type PlanDefinition } from "effect-emissary/plan"
import { plan, step } from "./definitions.ts"
import { edgesOf, mermaid } from "./picture-parsers.ts"
import { test } from "../test.ts"

type Definition = PlanDefinition.PlanDefinition

const before: Definition = { ...plan(step("a"), step("b"), step("c"), step("d")), description: "old" }
const changed = [step("a", { writes: "x" }), step("new"), step("c", { target: { kind: "tool", name: "t" } })]
const after: Definition = { ...plan(step("d"), ...changed), maxIterations: 5 }

const Names = Schema.Literals(["a", "b", "c", "d", "e", "__proto__"])
const GeneratedStep = Schema.Struct({
  name: Names,
  parallel: Schema.Boolean,
  writes: Schema.optionalKey(Schema.String),
  task: Schema.Union([
    Schema.TaggedStruct("FromPrev", {}),
    Schema.TaggedStruct("FromStart", {}),
    Schema.TaggedStruct("Literal", { value: Schema.Literal("a") })
  ]),
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
  steps: steps.map(({ routes, ...fields }) => ({
    ...fields,
    target: { kind: "tool", name: fields.name },
    ...(routes === undefined ? {} : { routes: routes.map((to) => ({ to, when: When.field(to).empty() })) })
  }))
})

const roundTrip = (diff: Picture.Diff) =>
  Schema.decodeUnknownSync(Picture.Diff)(JSON.parse(JSON.stringify(Schema.encodeSync(Picture.Diff)(diff))))

describe("PLAN-9 PlanDiff", () => {
  it("PLAN-9 changes are operations on steps by name, and undo leads back", () => {
    const { changes, undo } = Picture.diff(before, { definition: after })
    assert.deepStrictEqual(changes, [
      { op: "remove", path: "/description" },
      { op: "replace", path: "/maxIterations", value: 5 },
      { op: "replace", path: "/order/0", value: "d" },
      { op: "replace", path: "/order/1", value: "a" },
      { op: "replace", path: "/order/2", value: "new" },
      { op: "replace", path: "/order/3", value: "c" },
      { op: "add", path: "/steps/a/writes", value: "x" },
      { op: "remove", path: "/steps/b" },
      { op: "replace", path: "/steps/c/target/kind", value: "tool" },
      { op: "replace", path: "/steps/c/target/name", value: "t" },
      { op: "add", path: "/steps/new", value: step("new") }
    ])
    assert.deepStrictEqual(undo, Picture.diff(after, before).changes)
  })

  it.prop("PLAN-9 a plan does not differ from itself", [Generated], ([one]) => {
    const diff = Picture.diff(build(one), build(structuredClone(one)))
    assert.deepStrictEqual(diff, { changes: [], undo: [] })
  })

  it.prop(
    "PLAN-9 the changes applied to the first plan make the second, also after a trip through JSON",
    [Generated, Generated],
    ([one, two]) => {
      const [a, b] = [build(one), build(two)]
      const diff = Picture.diff(a, b)
      assert.deepStrictEqual(Result.getOrThrow(Picture.applyDiff(diff, a)), b)
      assert.deepStrictEqual(Result.getOrThrow(Picture.applyDiff(roundTrip(diff), a)), b)
      const back = { changes: diff.undo, undo: diff.changes }
      assert.deepStrictEqual(Result.getOrThrow(Picture.applyDiff(back, b)), a)
      assert.strictEqual(diff.changes.length === 0, equalsJson(a, b))
    }
  )

  it("PLAN-9 changes do not fit another plan", () => {
    const diff = Picture.diff(before, after)
    const theFirst = "the plan that the difference was made from"
    const refuses = (plan: Definition, changes: Picture.Diff = diff) => {
      const result = Picture.applyDiff(changes, plan)
      assert(Result.isFailure(result))
      assert.include(result.failure.message, `plan "plan" at the root: expected ${theFirst}`)
    }
    refuses(plan(step("a"), step("x"), step("c"), step("d")))
    refuses({ ...before, maxIterations: 7 })
    refuses({ ...before, steps: before.steps.toReversed() })
    refuses({ ...before, steps: before.steps.map((one) => (one.name === "a" ? { ...one, writes: "y" } : one)) })
    refuses(after)
    const limit = (value: string | number) => [{ op: "replace", path: "/maxIterations", value } as const]
    refuses(before, { changes: limit("many"), undo: limit(100) })
    const path = "/order/4"
    refuses(before, { changes: [{ op: "add", path, value: "z" }], undo: [{ op: "remove", path }] })
    refuses(before, { changes: [{ op: "add", path: "no pointer", value: 1 }], undo: [] })
  })
})

describe("PLAN-9 pictures of differences", () => {
  test("PLAN-9 what was added, removed and changed is marked by colour and in words", function* () {
    const one = yield* mermaid(Picture.toMermaid(after, { before }))
    const line = (text: string) => text.replace(/\n/gu, " | ")
    const lines = [...one.nodes.values()].map(({ classes, text }) => `${line(text)} [${classes.join(" ")}]`)
    assert.deepStrictEqual(lines, [
      "plan | ~ changed: description, maxIterations [changed]",
      "d | function | ~ changed: position [changed]",
      "a | function | ~ changed: position, writes [changed]",
      "b | function | − removed [removed]",
      "new | function | + added [added]",
      "c | tool t | ~ changed: position, target [changed]",
      "end []"
    ])
    const added = ["plan -> d: +", "d -> a: +", "a -> new: +", "new -> c: +", "c -> end: +"]
    const removed = ["plan -> a: −", "a -> b: −", "b -> c: −", "c -> d: −", "d -> end: −"]
    assert.deepStrictEqual(edgesOf(one), [...added, ...removed])
  })

  test("PLAN-9 the difference of equal plans is the plan without marks", function* () {
    assert.strictEqual(Picture.toMermaid(structuredClone(before), { before }), Picture.toMermaid(before))
  })

  test.prop(
    "PLAN-9 the difference of any two plans can be drawn",
    [Generated, Generated],
    function* ([one, two]) {
      const cut = ({ steps, ...rest }: typeof Generated.Type) => build({ ...rest, steps: steps.slice(0, 6) })
      const [before, after] = [cut(one), cut(two)]
      const parsed = yield* mermaid(Picture.toMermaid(after, { before }))
      const { changes } = Picture.diff(before, after)
      const removed = changes.filter(({ op, path }) => op === "remove" && /^\/steps\/[^/]*$/u.test(path))
      const marked = [...parsed.nodes.values()].filter(({ classes }) => classes.includes("removed"))
      assert.strictEqual(marked.length, removed.length)
    },
    { arbitrary: { runs: 40 } }
  )
})
