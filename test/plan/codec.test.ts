import { assert, describe, it } from "@effect/vitest"
import type { Schema } from "effect"
import { Effect } from "effect"
import * as fuel from "#src/payload/internal/fuel.ts"
import type { PayloadError } from "effect-emissary"
import { Plan, Reference, When, type PlanDefinition } from "effect-emissary/plan"
import { definition, names, Seed } from "./codec-definitions.ts"
import * as definitions from "./definitions.ts"
import { native, plan, step } from "./wires.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

type Definition = PlanDefinition.PlanDefinition

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

const read = (wire: unknown) => Plan.codec.decode(wire)

const written = (wire: unknown, version: number) =>
  Effect.flatMap(read(wire), (definition) => Plan.codec.encode(definition, { version }))

const issuesOf = (error: PayloadError.PayloadError): ReadonlyArray<PayloadError.Problem> =>
  error.reason._tag === "Invalid" ? error.reason.issues : []

const refused = (wire: unknown) => Effect.map(Effect.flip(read(wire)), issuesOf)

const pathsOf = (wire: unknown) => Effect.map(refused(wire), (issues) => issues.map(({ path }) => path))

const lossesOf = (definition: Definition, version: number) =>
  Effect.map(Effect.flip(Plan.codec.encode(definition, { version })), (error) =>
    error._tag === "LossyEncoding" ? error.losses : []
  )

const withStep = (rest: Partial<PlanDefinition.StepDefinition>): Definition =>
  definitions.plan(definitions.step("a", rest))

describe("plan wire, versions 1 and 2", () => {
  test("PLAN-4 keys are written in the order and with the omissions of LazyBridge", function* () {
    const full = plan(
      {
        after_branches: "s3",
        routes: ["s2", "s3"],
        input: "Other",
        output: "Hits",
        writes: "w",
        context: [{ kind: "from_prev" }, { value: "lit", kind: "literal" }],
        parallel: false,
        task: { kind: "from_start" },
        target: { name: "s1", kind: "callable" },
        name: "s1"
      },
      step({ routes_by: "severity", context: { kind: "from_step", name: "s1" }, extra: 1 })
    )
    const two = yield* Effect.flatMap(read(full), (definition) => Plan.codec.encodeJson(definition, { version: 2 }))
    const first =
      `{"name":"s1","target":{"kind":"callable","name":"s1"},"task":{"kind":"from_start"},"parallel":false,` +
      `"context":[{"kind":"from_prev"},{"kind":"literal","value":"lit"}],"writes":"w"`
    const routes = `,"routes":["s2","s3"],"after_branches":"s3"}`
    const second =
      `{"name":"s","target":{"kind":"tool","name":"t"},"task":{"kind":"from_prev"},"parallel":false,` +
      `"context":{"kind":"from_step","name":"s1"},"routes_by":"severity"}`
    assert.strictEqual(
      two,
      `{"version":2,"max_iterations":100,"steps":[${first},"output":"Hits","input":"Other"${routes},${second}]}`
    )
    const one = yield* Effect.flatMap(read(full), (definition) =>
      Plan.codec.encodeJson(definition, { version: 1, allowLoss: ["/steps/*/input", "/steps/*/output"] })
    )
    assert.strictEqual(one, `{"version":1,"max_iterations":100,"steps":[${first}${routes},${second}]}`)
  })

  test("PLAN-4 absent, null and empty are kept apart where LazyBridge keeps them apart", function* () {
    const read = (rest: { readonly [key: string]: Schema.Json }) =>
      Effect.map(written(plan(step(rest)), 2), ({ steps }) => (Array.isArray(steps) ? steps[0] : undefined))
    assert.deepStrictEqual(yield* read({ context: [] }), step({ context: [] }))
    assert.deepStrictEqual(yield* read({ writes: "" }), step())
    assert.deepStrictEqual(yield* read({ writes: null, routes_by: null, after_branches: null }), step())
    assert.deepStrictEqual(yield* read({ output: "str", input: "Any" }), step())
    assert.deepStrictEqual(yield* read({ output: "Any", input: "str" }), step({ output: "Any", input: "str" }))
    for (const value of [0, "", [], {}, null, false]) {
      assert.deepStrictEqual(yield* read({ parallel: value }), step())
    }
    for (const value of [1, "no", [0], { a: null }, true]) {
      assert.deepStrictEqual(yield* read({ parallel: value }), step({ parallel: true }))
    }
    const { name: _, ...unnamed } = step()
    assert.deepStrictEqual(yield* written(plan(unnamed), 2), plan(step({ name: "t" })))
    assert.deepStrictEqual(yield* written({}, 2), plan())
    assert.deepStrictEqual(yield* written({ steps: [], extra: 1 }, 2), plan())
  })

  test("PLAN-4 a missing version is 2, an unknown one is refused", function* () {
    assert.deepStrictEqual(yield* written({ steps: [step()] }, 2), plan(step()))
    for (const version of [0, 4, 99, "2", null, [2]]) {
      const { reason } = yield* Effect.flip(read({ version, steps: [] }))
      assert(reason._tag === "UnsupportedVersion", reason._tag)
      assert.deepStrictEqual(reason.supported, [1, 2, 3])
    }
    const text = yield* Effect.flip(Plan.codec.decodeJson(`{"version":99,"steps":[]}`))
    assert.strictEqual(text.reason._tag, "UnsupportedVersion")
  })

  test("PLAN-4 L3 two routes with one key of their predicates are refused when written as when read", function* () {
    const route = (name: string, to: string) =>
      definitions.step(name, { routes: [{ to, when: When.custom(`routes:${name}:${to}`) }] })
    const definition = definitions.plan(route("a", "b:c"), route("a:b", "c"))
    for (const version of [1, 2]) {
      const error = yield* Effect.flip(Plan.codec.encode(definition, { version }))
      assert(error._tag === "PayloadError")
      assert.include(error.message, "/steps/1/routes/0")
    }
  })

  test("PLAN-4 routes keep the order they are read in; each target once", function* () {
    const definition = yield* read(plan(step({ routes: ["b", "a", "b", "c"] })))
    assert.deepStrictEqual(
      definition.steps[0]?.routes,
      ["b", "a", "c"].map((to) => ({ to, when: { _tag: "Custom", name: `routes:s:${to}` } }))
    )
    assert.deepStrictEqual(yield* lossesOf(definition, 2), [
      { path: "/steps/0/routes", what: `the order of the routes of "s" (written sorted by name)` }
    ])
    const allowed = yield* Plan.codec.encode(definition, { version: 2, allowLoss: ["/steps/*/routes"] })
    assert.deepStrictEqual(allowed, plan(step({ routes: ["a", "b", "c"] })))
  })

  test("PLAN-4 every problem of the wire is reported at once, with its path and the step", function* () {
    const wire = {
      max_iterations: null,
      steps: [
        { name: "no target" },
        step({ task: "from_prev" }),
        step({ task: { name: "x" } }),
        step({ task: { kind: "from_memory", name: "x" } }),
        step({ task: { kind: "literal", value: 42 } }),
        step({ context: [{ kind: "from_step" }, 7], writes: 1, routes: null }),
        step({ routes: ["a", 5], output: [], name: 5 }),
        7,
        step({ target: { kind: "agent" }, routes_by: {}, after_branches: 1 })
      ]
    }
    const issues = yield* refused(wire)
    assert.deepStrictEqual(pluck(issues, "path"), [
      "/max_iterations",
      "/steps/0/target",
      "/steps/1/task",
      "/steps/2/task",
      "/steps/3/task",
      "/steps/4/task",
      "/steps/5/context/0",
      "/steps/5/context/1",
      "/steps/5/writes",
      "/steps/5/routes",
      "/steps/6/name",
      "/steps/6/output",
      "/steps/6/routes/1",
      "/steps/7",
      "/steps/8/target/name",
      "/steps/8/routes_by",
      "/steps/8/after_branches"
    ])
    assert.match(issues[4]?.expected ?? "", /"from_memory"/u)
    assert.deepStrictEqual(yield* pathsOf({ steps: null }), ["/steps"])
    assert.deepStrictEqual(yield* pathsOf({ steps: {} }), ["/steps"])
  })

  test("PLAN-4 names that references hold follow S18.7, also at the end", function* () {
    for (const kind of ["from_step", "from_parallel", "from_parallel_all"]) {
      for (const name of ["a", "_", "9-a", "é", "名", "a_-"]) yield* read(plan(step({ task: { kind, name } })))
      for (const name of ["", "a\n", "a b", "a.b", "-a", "../x", "a;rm", "<lambda>", "a\u0000", null, 5, [], {}]) {
        const issues = yield* refused(plan(step({ task: { kind, name } })))
        const path = typeof name === "string" ? "/steps/0/task/name" : "/steps/0/task"
        assert.deepStrictEqual(pluck(issues, "path"), [path])
        assert.include(issues[0]?.expected ?? "", kind)
      }
    }
  })

  test("PLAN-4 step names are any text without control characters up to 200 characters", function* () {
    for (const name of ["../../etc passwd", "step one", "a:b", "", "x".repeat(200)]) {
      assert.strictEqual((yield* read(plan(step({ name })))).steps[0]?.name, name)
    }
    for (const name of ["a\n", "a\u0000", "\u007F", "x".repeat(201), "\uD800"]) {
      assert.deepStrictEqual(yield* pathsOf(plan(step({ name }))), ["/steps/0/name"])
    }
  })

  test("PLAN-4 two routes with one predicate key are refused (Q06)", function* () {
    const wire = plan(step({ name: "a:b", routes: ["c"] }), step({ name: "a", routes: ["b:c"] }))
    const [issue, ...others] = yield* refused(wire)
    assert.deepStrictEqual(others, [])
    assert.strictEqual(issue?.path, "/steps/1/routes/0")
    assert.include(issue?.found ?? "", "routes:a:b:c")
  })

  test("L2 inherited names are no names of steps or targets", function* () {
    for (const [name, wire] of [
      ["toString", plan(step({ name: "toString" }))],
      ["valueOf", plan(step({ target: { kind: "callable", name: "valueOf" } }))],
      ["constructor", plan(step({ output: "constructor" }))],
      ["hasOwnProperty", native({ ...step(), routes: [{ to: "a", when: { kind: "custom", name: "hasOwnProperty" } }] })]
    ] as const) {
      const { reason } = yield* Effect.flip(read(wire))
      assert(reason._tag === "ForbiddenKey", reason._tag)
      assert.strictEqual(reason.key, name)
    }
  })
})

describe("plan wire, version 3", () => {
  test("PLAN-4 unknown fields are refused everywhere", function* () {
    const when = { kind: "equals", path: ["a"], value: 1 }
    const output = { name: "Hits", schema: { type: "object" } }
    const routes = [{ to: "s", when: { kind: "not", condition: when } }]
    const good = native(step({ routes, output, retry: { times: 1 } }))
    yield* read(good)
    assert.deepStrictEqual(yield* pathsOf({ ...good, extra: 1 }), ["/extra"])
    const bad: ReadonlyArray<readonly [string, { readonly [key: string]: Schema.Json }]> = [
      ["/steps/0/extra", { extra: 1 }],
      ["/steps/0/target/extra", { target: { kind: "tool", name: "t", extra: 1 } }],
      ["/steps/0/task/extra", { task: { kind: "from_prev", extra: 1 } }],
      ["/steps/0/output/extra", { output: { name: "a", extra: 1 } }],
      ["/steps/0/retry/extra", { retry: { times: 1, extra: 1 } }],
      ["/steps/0/routes/0/extra", { routes: [{ to: "a", when, extra: 1 }] }],
      ["/steps/0/routes/0/when/extra", { routes: [{ to: "a", when: { ...when, extra: 1 } }] }]
    ]
    for (const [path, rest] of bad) assert.deepStrictEqual(yield* pathsOf(native(step(rest))), [path])
  })

  test("PLAN-4 problems have a path", function* () {
    const route = (when: Schema.Json) => step({ routes: [{ to: "a", when }] })
    const bad: ReadonlyArray<readonly [string, unknown]> = [
      ["/steps/0/name", native(step({ name: "step one" }))],
      ["/steps/0/name", native(step({ name: "a\n" }))],
      ["/steps/0/task/name", native(step({ task: { kind: "from_step", name: "a b" } }))],
      ["/steps/0/output", native(step({ output: {} }))],
      ["/steps/0/output/schema", native(step({ output: { schema: { type: "strange" } } }))],
      ["/steps/0/input/schema", native(step({ input: { schema: { type: "string", pattern: "(?=a)" } } }))],
      ["/steps/0/routes/0/when", native(route({ kind: "matches", path: [], pattern: "(?=a)" }))],
      ["/steps/0/timeout", native(step({ timeout: -1 }))],
      ["/steps/0/retry/times", native(step({ retry: { times: 0.5 } }))],
      ["/max_iterations", { ...native(), max_iterations: 1_000_001 }],
      ["/max_iterations", { ...native(), max_iterations: -1 }],
      ["/max_iterations", { ...native(), max_iterations: 0.5 }]
    ]
    for (const [path, wire] of bad) {
      const paths = yield* pathsOf(wire)
      assert.strictEqual(paths.length, 1, JSON.stringify(wire))
      assert(paths[0]?.startsWith(path), `${paths[0]} is not in ${path}`)
    }
    yield* read({ ...native(), max_iterations: 0 })
    yield* read({ ...native(), max_iterations: 1_000_000 })
  })

  test("PLAN-4 a plan of version 2 with a name of its own kind is not written in version 3", function* () {
    const definition = yield* read(plan(step({ name: "step one" })))
    const error = yield* Effect.flip(Plan.codec.encode(definition))
    assert(error._tag === "PayloadError")
    assert.deepStrictEqual(pluck(issuesOf(error), "path"), ["/steps/0/name"])
  })

  test("L8 secret keys are refused, but for names of members and values to compare with", function* () {
    const json = { type: "object", properties: { password: { type: "string" } }, additionalProperties: false }
    const when = When.field("password").equals({ api_key: "x" })
    const definition = withStep({ output: { json }, routes: [{ to: "a", when }] })
    assert.deepStrictEqual(yield* Effect.flatMap(Plan.codec.encode(definition), read), definition)
  })
})

describe("losses of older versions that the law does not generate", () => {
  const route = (to: string) => ({ to, when: When.custom(`routes:a:${to}`) })
  const withHits = (name: string, input: string) =>
    definitions.step(name, { output: { name: "Hits", json: { type: "string" } }, input: { name: input, json: {} } })
  const ofStep: ReadonlyArray<readonly [string, Partial<PlanDefinition.StepDefinition>, ReadonlyArray<string>]> = [
    ["nothing", { routes: [route("B"), route("a")] }, []],
    ["a schema", { input: { json: {} } }, ["/steps/0/input"]],
    ["a schema called str", { output: { name: "str" } }, ["/steps/0/output"]],
    ["the order of routes", { routes: [route("a"), route("B")] }, ["/steps/0/routes"]],
    ["a second route", { routes: [route("a"), route("a")] }, ["/steps/0/routes/1"]],
    [
      "a predicate of another name",
      { routes: [{ to: "a", when: When.custom("routes:b:a") }] },
      ["/steps/0/routes/0/when"]
    ]
  ]
  const cases: ReadonlyArray<readonly [string, Definition, ReadonlyArray<string>, ReadonlyArray<string>?]> = [
    ...ofStep.map(([name, rest, paths]) => [name, withStep(rest), paths] as const),
    [
      "a second schema of one name",
      definitions.plan(withHits("a", "Other"), withHits("t", "Hits")),
      ["/steps/0/input", "/steps/0/output", "/steps/1/input", "/steps/1/output"],
      ["/steps/1/input"]
    ]
  ]
  for (const [name, definition, one, two = one] of cases) {
    test(`L3 ${name}`, function* () {
      for (const [version, expected] of [
        [1, one],
        [2, two]
      ] as const) {
        if (expected.length === 0) {
          const wire = yield* Plan.codec.encode(definition, { version })
          assert.deepStrictEqual(yield* read(wire), definition)
          continue
        }
        const losses = yield* lossesOf(definition, version)
        assert.deepStrictEqual(pluck(losses, "path"), expected, `version ${version}`)
        const wire = yield* Plan.codec.encode(definition, { version, allowLoss: losses })
        yield* read(wire)
      }
      assert.deepStrictEqual(yield* Effect.flatMap(Plan.codec.encode(definition), read), definition)
    })
  }
})

describe("laws of the plan codec", () => {
  const runs = { arbitrary: { runs: 200 } }

  test.prop(
    "L3 version 3: decode is the inverse of encode, as values and as text",
    [Seed],
    function* ([seed]) {
      const made = definition(seed)
      const wire = yield* Plan.codec.encode(made)
      assert.deepStrictEqual(json(yield* read(wire)), json(made))
      const text = yield* Plan.codec.encodeJson(made)
      assert.strictEqual(text, JSON.stringify(wire))
      assert.deepStrictEqual(json(yield* Plan.codec.decodeJson(text)), json(made))
    },
    runs
  )

  test.prop(
    "L3 versions 1 and 2 lose exactly what they report, and then nothing more",
    [Seed],
    function* ([seed]) {
      const made = definition(seed)
      for (const version of [1, 2]) {
        const first = yield* Effect.result(Plan.codec.encode(made, { version }))
        const losses = first._tag === "Failure" && first.failure._tag === "LossyEncoding" ? first.failure.losses : []
        const wire = yield* Plan.codec.encode(made, { version, allowLoss: losses })
        const kept = yield* read(wire)
        assert.deepStrictEqual(json(kept), json(without(made, new Set(losses.map(({ path }) => path)))))
        // a reference that older versions lack is written as null, and read as the step before
        const prev = (_: string, value: unknown) => (value === null ? { kind: "from_prev" } : value)
        const again = yield* Plan.codec.encode(kept, { version })
        assert.deepStrictEqual(again, JSON.parse(JSON.stringify(wire), prev))
      }
    },
    runs
  )

  /** A name as the numbers of its code points, each as long as the others. */
  const pointsOf = (name: string) =>
    Array.from(name, (letter) => (letter.codePointAt(0) ?? 0).toString(16).padStart(6, "0")).join()

  /** The definition without what is named as lost. A schema with a name keeps only that. */
  const without = (made: Definition, lost: ReadonlySet<string>): Definition => {
    const { description, name, output, ...rest } = made
    const keeps = (path: string, members: object) =>
      Object.fromEntries(Object.entries(members).filter(([key]) => !lost.has(`${path}/${key}`)))
    return {
      ...rest,
      name: lost.has("/name") ? "plan" : name,
      ...keeps("", { description, output }),
      steps: made.steps.map((one, index) => {
        const path = `/steps/${index}`
        const { context, input, output, retry, routes, task, timeoutMillis, ...rest } = one
        const isList = Array.isArray(context)
        const contexts = (isList ? context : context === undefined ? [] : [context]).map((item, at) =>
          lost.has(isList ? `${path}/context/${at}` : `${path}/context`) ? Reference.fromPrev : item
        )
        const kept = (routes ?? [])
          .map(({ to, when }, at) => {
            const custom = When.custom(`routes:${one.name}:${to}`)
            return { to, when: lost.has(`${path}/routes/${at}/when`) ? custom : when }
          })
          .filter(({ to }, at) => routes?.findIndex((route) => route.to === to) === at)
          .toSorted((a, b) => pointsOf(a.to).localeCompare(pointsOf(b.to)))
        return {
          ...rest,
          task: lost.has(`${path}/task`) ? Reference.fromPrev : task,
          ...(context === undefined ? {} : { context: isList ? contexts : contexts[0]! }),
          ...(routes === undefined ? {} : { routes: kept }),
          ...keeps(path, { input: input?.name && { name: input.name }, output: output?.name && { name: output.name } }),
          ...keeps(path, { retry }),
          ...(lost.has(`${path}/timeout`) ? {} : { timeoutMillis })
        }
      })
    }
  }

  it("the names of the generated plans are sorted otherwise by code point than by UTF-16 unit", () => {
    const points = names.toSorted((a, b) => (a.codePointAt(0) ?? 0) - (b.codePointAt(0) ?? 0))
    assert.notDeepEqual(points, names.toSorted())
  })
})

const text = { kind: "text", value: "x" }

/** Steps with many of one part, and the least units for one of them. */
const parts: {
  readonly [part: string]: {
    readonly least: number
    readonly version?: number
    readonly stepOf: (items: ReadonlyArray<unknown>) => object
  }
} = {
  references: { least: 100, stepOf: (items) => ({ context: items.map(() => ({ kind: "from_start" })) }) },
  routes: { least: 250, stepOf: (items) => ({ routes: items.map(() => ({ to: "a", when: text })) }) },
  "routes of version 2": { least: 60, version: 2, stepOf: (items) => ({ routes: items.map((_, at) => `a${at}`) }) },
  conditions: {
    least: 100,
    stepOf: (items) => ({ routes: [{ to: "a", when: { kind: "or", conditions: items.map(() => text) } }] })
  },
  "nested conditions": {
    least: 120,
    stepOf: (items) => ({
      routes: items.map(() => ({ to: "a", when: { kind: "not", condition: { kind: "not", condition: text } } }))
    })
  },
  values: {
    least: 4,
    stepOf: (items) => ({ routes: [{ to: "a", when: { kind: "in", path: [], values: items.map(() => 1) } }] })
  },
  "routes by a field": {
    least: 60,
    stepOf: (items) => ({
      routes_by: "to",
      output: { schema: { properties: { to: { enum: items.map((_, at) => `a${at}`) } } } }
    })
  },
  "members of a schema": {
    least: 50,
    stepOf: (items) => ({ output: { schema: Object.fromEntries(items.map((_, at) => [`x-${at}`, 1])) } })
  }
}

describe("hostile plans", () => {
  test("L2 limits of JSON and of plans", function* () {
    const reason = (wire: unknown) => Effect.map(Effect.flip(read(wire)), (error) => error.reason._tag)
    const nested = (depth: number): Schema.Json =>
      depth === 0 ? { kind: "custom", name: "x" } : { kind: "not", condition: nested(depth - 1) }
    const routed = (depth: number) => native(step({ routes: [{ to: "a", when: nested(depth) }] }))
    assert.strictEqual(yield* reason(routed(70)), "TooDeep")
    assert.strictEqual(yield* reason(routed(20)), "Invalid")
    const many = Array.from({ length: 1001 }, () => step())
    assert.deepStrictEqual(yield* pathsOf(plan(...many)), ["/steps"])
    assert.deepStrictEqual(yield* pathsOf(native(...many)), ["/steps"])
    const routes = Array.from({ length: 257 }, (_, i) => `r${i}`)
    assert.deepStrictEqual(yield* pathsOf(plan(step({ routes }))), ["/steps/0/routes"])
    const context = Array.from({ length: 257 }, () => ({ kind: "from_prev" }))
    assert.deepStrictEqual(yield* pathsOf(plan(step({ context }))), ["/steps/0/context"])
    const patterns = Array.from({ length: 65 }, (_, i) => `(\\p{L}{1,900}${i})`)
    const matches = patterns.map((pattern) => ({ kind: "matches", path: [], pattern }))
    const heavy = native(step({ routes: [{ to: "a", when: { kind: "or", conditions: matches } }] }))
    assert.deepStrictEqual(yield* pathsOf(heavy), ["/steps"])
  })

  test("L2 many problems cost little, and are counted", function* () {
    const context = Array.from({ length: 250 }, () => 7)
    const { reason } = yield* Effect.flip(read(plan(...Array.from({ length: 100 }, () => step({ context })))))
    assert(reason._tag === "Invalid")
    assert.strictEqual(reason.issues.length + reason.omitted, 25_000)
  })

  test("L2 limits of a call hold for schemas, too", function* () {
    const wire = native(step({ output: { schema: { type: "string", description: "x".repeat(100) } } }))
    yield* read(wire)
    const { reason } = yield* Effect.flip(Plan.codec.decode(wire, { limits: { maxStringLength: 50 } }))
    assert.strictEqual(reason._tag, "TooLarge")
    let deep: Schema.JsonObject = { type: "string" }
    for (let i = 0; i < 80; i++) deep = { type: "array", items: deep }
    const limits = { maxDepth: 200 }
    const deepWire = native(step({ output: { schema: deep } }))
    const definition = yield* Plan.codec.decode(deepWire, { limits })
    yield* Plan.codec.encode(structuredClone(definition), { limits })
    yield* Effect.flip(Plan.codec.encode(structuredClone(definition)))
  })

  for (const [part, { least, stepOf, version = 3 }] of Object.entries(parts)) {
    test(`TRUST-3 fuel for each part of a plan is taken before it is decoded: ${part}`, function* () {
      const wire = (count: number, more: object = {}) => ({
        version,
        steps: [{ name: "a", target: { kind: "function", name: "a" }, ...stepOf(Array.from({ length: count })) }],
        ...more
      })
      const spent = (count: number) => Effect.map(fuel.measure(Plan.codec.decode(wire(count))), (one) => one.spent)
      const [few, many] = yield* Effect.all([spent(10), spent(110)])
      assert.isAtLeast(many - few, 100 * least)
      const limits = { maxFuel: 100 * least }
      const refused = yield* Effect.flip(Plan.codec.decode(wire(110), { limits }))
      assert.strictEqual(refused.reason._tag, "TooLarge")
    })
  }

  test("L10 ten thousand unknown names", function* () {
    const steps = Array.from({ length: 100 }, (_, i) => {
      const context = Array.from({ length: 100 }, (_, j) => ({ kind: "from_step", name: `stap-number-${i}-${j}` }))
      return step({ name: `step-number-${i}`, context })
    })
    const error = yield* Effect.flip(Plan.decode(plan(...steps), {}, { limits: { maxFuel: 2_000_000 } }))
    assert.strictEqual(error._tag, "PlanInvalid")
  })
})
