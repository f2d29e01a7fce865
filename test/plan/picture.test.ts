import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Agent } from "effect-emissary"
import { Picture, Plan, Reference, Step, When, type PlanDefinition } from "effect-emissary/plan"
import { plan, step } from "./definitions.ts"
import { edgesOf, mermaid, type Parsed } from "./picture-parsers.ts"
import { test } from "../test.ts"

const to = (to: string, when: When.When = When.field(to).is(true)) => ({ to, when })

type Drawn = Parameters<typeof Picture.toMermaid>

/** The drawing that Mermaid reads. */
const read = (...drawn: Drawn) => mermaid(Picture.toMermaid(...drawn))

const edges = (...drawn: Drawn) => Effect.map(read(...drawn), edgesOf)

const texts = (parsed: Parsed) => [...parsed.nodes.values()].map(({ text }) => text)

const triage = plan(
  step("classify", {
    target: { kind: "agent", name: "classifier" },
    routes: [to("refund", When.field("kind").equals("refund")), to("complaint", When.text("bad"))],
    afterBranches: "reply"
  }),
  step("refund", { target: { kind: "tool", name: "pay back" } }),
  step("complaint"),
  step("reply")
)

describe("PLAN-9 pictures of flows", () => {
  test("PLAN-9 steps follow each other", function* () {
    assert.deepStrictEqual(yield* edges(plan(step("a"), step("b"))), ["plan -> a", "a -> b", "b -> end"])
    assert.deepStrictEqual(yield* edges(plan()), ["plan -> end"])
  })

  test("PLAN-9 kinds of targets have their own shapes and words", function* () {
    const { nodes } = yield* read(triage)
    assert.deepStrictEqual(
      [...nodes.values()].map(({ shape, text }) => [text, shape]),
      [
        ["plan", "stadium"],
        ["classify\nagent classifier", "round"],
        ["refund\ntool pay back", "subroutine"],
        ["complaint\nfunction", "square"],
        ["reply\nfunction", "square"],
        ["end", "stadium"]
      ]
    )
  })

  test("PLAN-9 routes with number and condition, otherwise, and dashed rejoins", function* () {
    assert.deepStrictEqual(yield* edges(triage), [
      "plan -> classify",
      'classify -> refund: 1: kind = "refund"',
      'classify -> complaint: 2: text = "bad"',
      "classify -> refund: otherwise",
      "refund -> complaint",
      "refund --> reply",
      "complaint -> reply",
      "complaint --> reply",
      "reply -> end"
    ])
  })

  test("PLAN-9 what cannot happen is not drawn", function* () {
    const routes = [to("c", When.or()), to("d", When.always), to("b")]
    const parsed = yield* read(plan(step("a", { routes }), step("b"), step("c"), step("d")))
    assert.deepStrictEqual(edgesOf(parsed), ["plan -> a", "a -> d: 2: always", "d -> end"])
    assert.deepStrictEqual(
      texts(parsed).filter((text) => text.includes("not reachable")),
      ["b\nfunction\n– not reachable", "c\nfunction\n– not reachable"]
    )
  })

  test("PLAN-9 a loop, and a route into another branch, keep their rejoins apart", function* () {
    const review = step("review", { routes: [to("draft", When.field("ok").is(false))] })
    assert.deepStrictEqual(yield* edges(plan(step("draft"), review, step("send"))), [
      "plan -> draft",
      "draft -> review",
      "review -> draft: ok = false",
      "review -> send: otherwise",
      "send -> end"
    ])
    const nested = plan(
      step("outer", { routes: [to("inner", When.always)], afterBranches: "end of outer" }),
      step("inner", { routes: [to("leaf", When.always)], afterBranches: "end of inner" }),
      step("leaf"),
      step("end of inner"),
      step("between"),
      step("end of outer")
    )
    assert.deepStrictEqual(
      (yield* edges(nested)).filter((edge) => edge.includes("-->")),
      ["leaf --> end of inner", "end of inner --> end of outer"]
    )
  })

  test("PLAN-9 routesBy leads to the literals of the output schema", function* () {
    const routesOf = (output: PlanDefinition.SchemaRef) =>
      Effect.map(edges(plan(step("a", { routesBy: "next", output }), step("b"), step("c"))), (all) =>
        all.filter((edge) => edge.startsWith("a "))
      )
    const properties = { next: { $ref: "#/$defs/N" } }
    const closed = { type: "object", properties, required: ["next"], $defs: { N: { enum: ["b", "c"] } } }
    const routes = ['a -> b: next = "b"', 'a -> c: next = "c"']
    assert.deepStrictEqual(yield* routesOf({ json: closed }), routes)
    const nullable = { ...closed, properties: { next: { anyOf: [{ const: "b" }, { const: "c" }, { type: "null" }] } } }
    assert.deepStrictEqual(yield* routesOf({ json: nullable }), [...routes, "a -> b: otherwise"])
    // A text that is not declared is no route; of a schema that is only named nothing is known.
    const union = { anyOf: [{ const: "c" }, { type: "string" }] }
    const open = { type: "object", properties: { next: union } }
    assert.deepStrictEqual(yield* routesOf({ json: open }), ['a -> c: next = "c"', "a -> b: otherwise"])
    assert.deepStrictEqual(yield* routesOf({ name: "Next" }), ["a -> b: otherwise", "a -> the step named in next"])
  })

  test("PLAN-9 parallel groups are groups, and each member is led to and away from", function* () {
    const band = (name: string) => step(name, { parallel: true })
    const fan = plan(step("a"), band("b"), band("c"), step("d"))
    const parsed = yield* read(fan)
    assert.deepStrictEqual(edgesOf(parsed), ["plan -> a", "a -> b", "a -> c", "b -> d", "c -> d", "d -> end"])
    assert.deepStrictEqual(parsed.groups, [{ text: "in parallel", members: ["n2", "n3"] }])
    const first = yield* edges(plan(band("b"), band("c")))
    assert.deepStrictEqual(first, ["plan -> b", "plan -> c", "b -> end", "c -> end"])
  })

  test("PLAN-9 a rejoin in the middle of a parallel group runs the rest of it", function* () {
    const middle = plan(
      step("r", { routes: [to("t", When.always)], afterBranches: "c" }),
      step("t"),
      step("b", { parallel: true }),
      step("c", { parallel: true }),
      step("d", { parallel: true })
    )
    const expected = ["plan -> r", "r -> t: always", "t --> c", "t --> d", "c -> end", "d -> end"]
    assert.deepStrictEqual(yield* edges(middle), expected)
  })

  test("PLAN-9 data edges", function* () {
    const data = plan(
      step("a", { task: Reference.fromStart, writes: "notes" }),
      step("b", { parallel: true, task: Reference.fromMemory("writer") }),
      step("c", { parallel: true, context: [Reference.fromStep("a"), Reference.fromAgent("x")] }),
      step("d", { task: Reference.fromParallelAll("b"), context: Reference.fromStep("gone") })
    )
    const parsed = yield* read(data, { data: true })
    assert.deepStrictEqual(
      edgesOf(parsed).filter((edge) => edge.includes("..>")),
      [
        "plan ..> a: task",
        "a ..> store: writes",
        "memory of ..> b: task",
        "a ..> c: context",
        "last answer of ..> c: context",
        "b ..> d: task",
        "c ..> d: task"
      ]
    )
    assert.deepStrictEqual(texts(parsed).slice(-4), ["store\nnotes", "memory of\nwriter", "last answer of\nx", "end"])
    assert.isFalse((yield* edges(data)).some((edge) => edge.includes("..>")))
  })

  test("PLAN-9 plans in steps are known from values, not from definitions, and drawn inside on demand", function* () {
    const deep = yield* Effect.flatMap(Plan.make("deep", [Step.make("z", { target: "t" })]), (plan) =>
      Plan.bind(plan, { agents: { t: Agent.make("t") } })
    )
    const inner = yield* Effect.flatMap(
      Plan.make("inner", [Step.make("y", { target: "named" }), Step.make("deep", { target: deep })]),
      (plan) => Plan.bind(plan, { agents: { named: deep } })
    )
    const steps = [Step.make("b", { target: inner }), Step.make("c", { target: "d" })] as const
    const outer = yield* Plan.make("outer", steps)
    const bound = yield* Plan.bind(outer, { agents: { d: deep } })
    const shown = (...drawn: Drawn) =>
      Effect.map(read(...drawn), ({ groups, nodes }) => [
        groups.map(({ text }) => text.replace("\n", ": ")).toSorted(),
        [...nodes.values()].map(({ text }) => text.replace("\n", ": ")).filter((text) => text.includes(": "))
      ])
    assert.deepStrictEqual(yield* shown(outer.definition), [[], ["b: agent inner", "c: tool d"]])
    assert.deepStrictEqual(yield* shown(outer), [[], ["b: plan inner", "c: tool d"]])
    assert.deepStrictEqual(yield* shown(bound), [[], ["b: plan inner", "c: plan deep"]])
    const whole = yield* shown(bound, { nested: true })
    assert.deepStrictEqual(whole[0], ["b: plan inner", "c: plan deep", "deep: plan deep", "y: plan deep"])
    assert.deepStrictEqual((yield* shown(outer, { nested: { c: deep } }))[0], ["c: plan deep"])
    assert.strictEqual(Picture.toMermaid(bound, { nested: false }), Picture.toMermaid(bound))
  })

  test("PLAN-9 nested plans are groups", function* () {
    const inner = { ...plan(step("x"), step("y")), name: "inner" }
    const deep = { ...plan(step("z")), name: "deep" }
    const parsed = yield* read(plan(step("a"), step("b"), step("toString")), {
      nested: { b: { definition: inner, nested: { y: deep } } }
    })
    assert.deepStrictEqual(parsed.groups.map(({ text }) => text).toSorted(), ["b\nplan inner", "y\nplan deep"])
    assert.includeMembers(
      [...edgesOf(parsed)],
      ["a -> start", "start -> x", "x -> start", "start -> z", "z -> end", "end -> toString"]
    )
  })

  test("PLAN-9 plans that cannot run are drawn, too", function* () {
    const broken = plan(
      step("a", { routes: [to("ghost")], afterBranches: "nowhere" }),
      step("a", { routes: [to("a", When.always)], afterBranches: "a" }),
      step("b", { parallel: true, routes: [to("a")], afterBranches: "c" })
    )
    const parsed = yield* read(broken)
    assert.includeMembers([...edgesOf(parsed)], ["a -> ghost: ghost = true", "a -> a: otherwise"])
    assert.include(texts(parsed), "ghost\nno such step")
  })
})

const hostile = [
  // Characters that end texts, boxes and lines, or begin an edge
  ['"]', 'a"] --> b["', "a\nb --> c", "a|b", "a;b", "}}]])", ": = , ", "=== a", "--- title"],
  // Words and marks of the languages
  ["end", "subgraph", "click n0 href", "style n0 fill:red"],
  ["@{ shape: x }", "x:::done", "%% comment", "%%{init: {}}%%"],
  // HTML, Markdown, icons, entities and escapes
  ["<script>alert(1)</script>", "<br/>", "#quot;", "&quot;&#34;", "\\", '\\"', "\\N \\G \\l"],
  ["1. one", "- item", "**bold** _it_ `code` $$x$$", "`md`", "fa:fa-car"],
  // Letters that are not seen, are none, or are put together
  [
    "\u202Eevil",
    "a\u200Db",
    "a\u3164",
    "\u0000\u0007",
    "\uD800",
    "\u{1F468}\u200D\u{1F469}",
    "\u00e9\u4e2d\u0301",
    "",
    " "
  ],
  // Names that every object inherits, and a long name
  ["__proto__", "constructor", "a".repeat(200)]
].flat()

const shownOtherwise = new Map([
  ["\u202Eevil", "\\u{202e}evil"],
  ["a\u200Db", "a\\u{200d}b"],
  ["a\u3164", "a\\u{3164}"],
  ["\u0000\u0007", "\\u{0}\\u{7}"],
  ["\uD800", "\\u{d800}"],
  ["a".repeat(200), `${"a".repeat(80)}…`],
  ...["", " ", ": = , "].map((name) => [name, `"${name}"`] as const)
])

const shown = (name: string) => shownOtherwise.get(name) ?? name.replace(/\n/gu, " ")

describe("PLAN-9 names cannot change a picture", () => {
  for (const name of hostile) {
    test(`PLAN-9 ${JSON.stringify(name)}`, function* () {
      const source: PlanDefinition.PlanDefinition = {
        ...plan(
          step("one", { routes: [{ to: name, when: When.field(name).equals(name) }], afterBranches: "last" }),
          step(name, { target: { kind: "tool", name: `${name}!` }, writes: name, parallel: true }),
          step("two", { context: { _tag: "FromMemory", agent: name } }),
          step("last")
        ),
        name
      }
      const parsed = yield* read(source, { data: true, nested: { two: { ...plan(step(name)), name } } })
      assert.strictEqual(parsed.nodes.size, 10)
      assert.strictEqual(parsed.groups.length, 2)
      const label = shown(name)
      assert.strictEqual(parsed.nodes.get("n0")?.text, label)
      assert.strictEqual(parsed.nodes.get("n2")?.text.split("\n")[0], label)
      assert.strictEqual(parsed.groups.find(({ text }) => text.startsWith("two"))?.text, `two\nplan ${label}`)
    })
  }

  it("PLAN-9 letters, digits and spaces stay readable in the text", () => {
    const text = Picture.toMermaid(plan(step("get_order 2.0-beta: été, a = b")))
    assert.include(text, `n1["get_order 2.0-beta: été, a = b<br/>function"]`)
  })
})

const Name = Schema.Union([Schema.String, Schema.Literals(["a", "b", "c", ...hostile])])
const Generated = Schema.Array(
  Schema.Struct({
    name: Name,
    parallel: Schema.Boolean,
    routes: Schema.Array(Schema.Struct({ to: Name, always: Schema.Boolean })),
    afterBranches: Schema.optionalKey(Name)
  })
)

const generated = (steps: typeof Generated.Type): PlanDefinition.PlanDefinition => {
  const some = steps.slice(0, 8)
  const names = some.map(({ name }) => name)
  const known = (name: string, index: number) =>
    index % 2 === 0 && names.length > 0 ? (names[(name.length + index) % names.length] ?? name) : name
  return plan(
    ...some.map(({ afterBranches, name, parallel, routes }, at) =>
      step(name, {
        parallel,
        routes: routes.slice(0, 3).map(({ always, to }, index) => ({
          to: known(to, index + at),
          when: always ? When.always : When.custom(to)
        })),
        ...(afterBranches === undefined ? {} : { afterBranches: known(afterBranches, at) })
      })
    )
  )
}

describe("PLAN-9 laws of pictures", () => {
  test.prop(
    "PLAN-9 any plan is drawn, the same every time, with a box per step",
    [Generated],
    function* ([steps]) {
      const source = generated(steps)
      const parsed = yield* read(source)
      assert.strictEqual(Picture.toMermaid(source), Picture.toMermaid(structuredClone(source)))
      assert.strictEqual(Picture.toMermaid(source), Picture.toMermaid({ definition: source }))
      assert.isAtLeast(parsed.nodes.size, source.steps.length + 2)
    },
    { arbitrary: { runs: 60 } }
  )
})
