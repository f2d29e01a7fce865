import { assert, describe } from "@effect/vitest"
import { Context, Effect, Schema } from "effect"
import { type LanguageModel, Tool, Toolkit } from "effect/ai"
import type * as planCodec from "#src/plan/internal/planCodec.ts"
import { Agent, type PayloadError } from "effect-emissary"
import { Plan, Step, When, type PlanInvalid } from "effect-emissary/plan"

import { native, plan, step } from "./wires.ts"
import { test } from "../test.ts"

const fetchIt = Step.target("fetch", ({ task }) => Effect.succeed(`found ${task}`))
const searcher = Agent.make("searcher", {})

const routed = plan(step({ routes: ["x"] }), step({ name: "x" }))

const Hits = Schema.Struct({ items: Schema.Array(Schema.String) })
const hits = {
  type: "object",
  properties: { items: { type: "array", items: { type: "string" } } },
  required: ["items"],
  additionalProperties: false
}

const lacks = Effect.fnUntraced(function* (wire: unknown, registry: planCodec.PlanRegistry = {}) {
  const error = yield* Effect.flip(Plan.decode(wire, registry))
  assert(error._tag === "PlanInvalid", error.message)
  return error
})

const entriesOf = (wire: unknown, registry?: planCodec.PlanRegistry) =>
  Effect.map(lacks(wire, registry), ({ problems }) =>
    problems.map(({ code, index, reason, slot }) => {
      const name = /named "([^"]*)"/u.exec(reason)?.[1]
      return `${code} ${name} at ${index === undefined ? "" : `step ${index}, `}${slot}`
    })
  )

describe("registries of plans", () => {
  test("PLAN-4 L1 everything that is missing is reported at once, with the known names and the closest one", function* () {
    const wire = plan(
      step({ target: { kind: "callable", name: "fetsh" }, routes: ["b"], output: "Hitz", input: "int" }),
      step({ name: "b", target: { kind: "agent", name: "r" } }),
      step({ name: "c", target: { kind: "mystery", name: "m" } }),
      step({ name: "d", target: { name: "n" } })
    )
    const error = yield* lacks(wire, { targets: { fetch: fetchIt, searcher }, schemas: { Hits } })
    assert.deepStrictEqual(
      error.problems.map(
        ({ code, index, slot, step, suggestion }) => `${code} ${step} #${index} ${slot} ${suggestion}`
      ),
      [
        "MissingEntry s #0 target fetch",
        "MissingEntry s #0 input undefined",
        "MissingEntry s #0 output Hits",
        "MissingEntry b #1 target undefined",
        "MissingEntry c #2 target undefined",
        "MissingEntry d #3 target undefined",
        "MissingEntry s #0 routes[0] undefined"
      ]
    )
    assert.deepStrictEqual(error.problems[0]?.known, ["fetch", "searcher"])
    for (const text of [
      "fetsh",
      "agent",
      `kind "callable"`,
      "mystery",
      "type:Hitz",
      "type:int",
      "routes:s:b",
      "output",
      `"fetch"`
    ]) {
      assert.include(error.message, text)
    }
  })

  test("PLAN-4 tools need no entry, and ignore one", function* () {
    const wire = plan(step({ target: { kind: "tool", name: "fetch" } }))
    const made = yield* Plan.decode(wire, { targets: { fetch: fetchIt } })
    assert.deepStrictEqual(made.definition.steps[0]?.target, { kind: "tool", name: "fetch" })
    assert.strictEqual(made.live.steps[0]?.target._tag, "Tool")
    yield* Plan.decode(plan(step()))
    yield* Plan.decode(JSON.stringify(plan(step())))
  })

  test("PLAN-4 a name that is bound to another kind is reported; an unknown kind takes any entry", function* () {
    const targets = { fetch: fetchIt, searcher }
    const at = (kind: string, name: string) => plan(step({ target: { kind, name } }))
    for (const [name, kind, other] of [
      ["fetch", "function", "agent"],
      ["searcher", "agent", "callable"]
    ] as const) {
      assert.deepStrictEqual(yield* entriesOf(at(other, name), { targets }), [`WrongEntry ${name} at step 0, target`])
      const made = yield* Plan.decode(at("unknown", name), { targets })
      assert.deepStrictEqual(made.definition.steps[0]?.target, { kind, name })
    }
    const { steps } = yield* Plan.codec.decode(at("unknown", "searcher"))
    assert.deepStrictEqual(steps[0]?.target, { kind: "function", name: "searcher" })
  })

  test("PLAN-4 an agent's key is an entry, and what it requires is required by the plan", function* () {
    class Support extends Agent.Service<Support>()("support", {}) {}
    const wire = plan(step({ target: { kind: "agent", name: "helper" } }))
    const made = yield* Plan.decode(wire, { targets: { helper: Support } })
    const typed: Plan.Plan<Schema.Json, Support> = made
    const target = typed.live.steps[0]?.target
    assert(target?._tag === "Agent")
    assert.strictEqual(target.name, "helper")
  })

  test("PLAN-4 what functions and predicates require is required by the plan", function* () {
    class Tenant extends Context.Service<Tenant, string>()("test/Tenant") {}
    class Clock extends Context.Service<Clock, string>()("test/Clock") {}
    class Flag extends Context.Service<Flag, boolean>()("test/Flag") {}
    const decoded = Plan.decode(plan(step()), {
      targets: {
        a: Step.target("a", () => Tenant),
        b: Step.target("b", () => Clock),
        searcher
      },
      predicates: { never: When.or(), no: () => false },
      routes: { s: { x: () => Flag } }
    })
    const typed: Effect.Effect<
      Plan.Plan<Schema.Json, Tenant | Clock | Flag | LanguageModel.LanguageModel>,
      PayloadError.PayloadError | PlanInvalid.PlanInvalid
    > = decoded
    // @ts-expect-error it does require them
    const free: Effect.Effect<Plan.Plan<Schema.Json>, unknown> = decoded
    yield* free
    yield* typed
    const registry = { targets: { fetch: fetchIt } }
    const none: Effect.Effect<Plan.Plan<Schema.Json>, unknown> = Plan.decode(plan(step()), registry)
    yield* none
  })

  test("PLAN-4 inherited members of a registry are no entries", function* () {
    const targets = Object.create({ fetch: fetchIt })
    const wire = plan(step({ target: { kind: "callable", name: "fetch" } }))
    assert.deepStrictEqual(yield* entriesOf(wire, { targets }), ["MissingEntry fetch at step 0, target"])
  })

  test("PLAN-4 predicates: by key, by step and target, as data or as a function", function* () {
    const predicate: planCodec.RegistryPredicate = When.payload.empty()
    const ask = (made: Plan.Plan<Schema.Json, unknown>, payload: Schema.Json) => {
      const live = made.live.predicates.get("routes:s:x")
      return live === undefined ? Effect.die("missing") : live({ step: "s", payload, text: "" })
    }
    for (const registry of [
      { predicates: { "routes:s:x": predicate } },
      { routes: { s: { x: predicate } } },
      { routes: { s: { x: ({ payload }: { readonly payload: Schema.Json }) => payload === "" } } },
      { predicates: { "routes:s:x": (input: { readonly payload: unknown }) => Effect.succeed(input.payload === "") } }
    ] as const) {
      const made = yield* Plan.decode(routed, registry)
      assert.strictEqual(yield* ask(made, ""), true)
      assert.strictEqual(yield* ask(made, "x"), false)
      assert.deepStrictEqual(made.definition.steps[0]?.routes, [{ to: "x", when: When.custom("routes:s:x") }])
      assert.deepStrictEqual(yield* Plan.encode(made, { version: 2 }), routed)
    }
  })

  test("PLAN-4 S18.4 B05 TRUST-7 D3 a step without a name has predicates of its derived name, or of <unnamed>", function* () {
    const { name: _, ...nameless } = step({ routes: ["x"] })
    const wire = plan(nameless, step({ name: "x" }))
    const yes: planCodec.RegistryPredicate = () => true
    const no: planCodec.RegistryPredicate = () => false
    for (const registry of [
      { predicates: { "routes:t:x": yes, "routes:<unnamed>:x": no } },
      { predicates: { "routes:<unnamed>:x": yes } },
      { routes: { t: { x: yes }, "<unnamed>": { x: no } } },
      { routes: { "<unnamed>": { x: yes } } }
    ]) {
      const made = yield* Plan.decode(wire, registry)
      const live = made.live.predicates.get("routes:t:x")
      assert(live !== undefined)
      assert.isTrue(yield* live({ step: "t", payload: "", text: "" }))
      assert.deepStrictEqual(
        yield* Plan.encode(made, { version: 2 }),
        plan(step({ name: "t", routes: ["x"] }), step({ name: "x" }))
      )
    }
    const place = "routes:t:x at step 0, routes[0]"
    const twice = { predicates: { "routes:<unnamed>:x": yes }, routes: { "<unnamed>": { x: yes } } }
    assert.deepStrictEqual(yield* entriesOf(wire, twice), [`AmbiguousEntry ${place}`])
    const named = plan(step({ name: "t", routes: ["x"] }), step({ name: "x" }))
    assert.deepStrictEqual(yield* entriesOf(named, { predicates: { "routes:<unnamed>:x": yes } }), [
      `MissingEntry ${place}`
    ])
  })

  test("PLAN-4 predicates that are there twice or cannot be used are reported", function* () {
    const found = (x: planCodec.RegistryPredicate, predicates?: planCodec.PlanRegistry["predicates"]) =>
      entriesOf(routed, { predicates, routes: { s: { x } } })
    const place = "routes:s:x at step 0, routes[0]"
    const no = () => false
    assert.deepStrictEqual(yield* found(no, { "routes:s:x": no }), [`AmbiguousEntry ${place}`])
    assert.deepStrictEqual(yield* found(When.payload.matches("(?=a)")), [`UnusableEntry ${place}`])
    assert.deepStrictEqual(yield* found(When.custom("other")), [`UnusableEntry ${place}`])
  })

  test("PLAN-4 custom conditions inside of others are looked up one by one", function* () {
    const when = {
      kind: "and",
      conditions: [
        { kind: "custom", name: "vip" },
        { kind: "not", condition: { kind: "custom", name: "late" } }
      ]
    }
    const wire = native(step({ routes: [{ to: "x", when }] }), step({ name: "x" }))
    const missing = yield* entriesOf(wire, { predicates: { vip: () => true } })
    assert.deepStrictEqual(missing, ["MissingEntry late at step 0, routes[0]"])
    const made = yield* Plan.decode(wire, { predicates: { vip: () => true, late: When.or() } })
    assert.deepStrictEqual([...made.live.predicates.keys()], ["vip", "late"])
  })
})

describe("schemas of plans", () => {
  test("PLAN-4 version 2 names schemas; the plan then carries them, and version 3 needs no registry", function* () {
    const wire = plan(step({ output: "Hits" }))
    const made = yield* Plan.decode(wire, { schemas: { Hits } })
    assert.deepStrictEqual(made.definition.steps[0]?.output, { name: "Hits", json: hits })
    assert.deepStrictEqual(yield* Plan.encode(made, { version: 2 }), wire)
    const carried = yield* Plan.encode(made)
    const again = yield* Plan.decode(carried)
    assert.deepStrictEqual(again.definition, made.definition)
    assert.strictEqual(again.digest, made.digest)
    for (const plan of [made, again]) {
      const schema = plan.live.steps[0]?.output
      assert(schema !== undefined)
      const decode = Schema.decodeUnknownEffect(schema)
      assert.deepStrictEqual(yield* decode({ items: ["a"] }), { items: ["a"] })
      yield* Effect.flip(decode({ items: [1] }))
    }
  })

  test("PLAN-4 S3.1 TRUST-7 D4 the input of versions 1 and 2 is compared with what comes before, and is nothing at run time", function* () {
    const toolkit = Toolkit.make(
      Tool.make("rank", { parameters: Schema.Struct({ task: Schema.String }), success: Schema.String })
    )
    const handlers = toolkit.toLayer({ rank: ({ task }) => Effect.succeed(`ranked ${task}`) })
    const targets = { fetch: fetchIt, sort: Step.target("sort", ({ task }) => Effect.succeed(`sorted ${task}`)) }
    const schemas = { Hits, Text: Schema.Literal("no") }
    const first = (rest = {}) => step({ name: "fetch", target: { kind: "callable", name: "fetch" }, ...rest })
    const wireOf = (version: number, kind: string, name: string) => ({
      ...plan(first(), step({ target: { kind, name }, input: "Hits" })),
      version
    })
    for (const version of [1, 2]) {
      for (const [kind, name, said] of [
        ["tool", "rank", "ranked found x"],
        ["callable", "sort", "sorted found x"]
      ] as const) {
        const wire = wireOf(version, kind, name)
        const made = yield* Plan.decode(wire, { targets, schemas })
        const bound = yield* Effect.provide(Plan.bind(made, { toolkit }), handlers)
        const result = yield* Plan.run(bound, "x")
        assert(result.outcome === "Completed")
        assert.strictEqual(result.output, said)
        // Written again, and no part of what is sent on in version 3.
        assert.deepStrictEqual(yield* Plan.encode(bound, { version: 2 }), { ...wire, version: 2 })
        const again = yield* Plan.decode(yield* Plan.encode(made), { targets })
        assert.deepStrictEqual(again.definition, made.definition)
        assert.strictEqual(again.digest, made.digest)
      }
      const never = plan(first({ output: "Text" }), step({ input: "Hits" }))
      const error = yield* lacks({ ...never, version }, { targets, schemas })
      assert.deepStrictEqual(
        error.problems.map(({ code, slot, step }) => `${code} ${step} ${slot}`),
        ["IncompatibleTypes s input"]
      )
    }
    const native3 = native(
      { name: "fetch", target: { kind: "function", name: "fetch" } },
      { name: "s", target: { kind: "tool", name: "rank" }, input: { name: "Hits", schema: hits } }
    )
    const strict = yield* Plan.decode(native3, { targets })
    const refused = yield* Effect.flip(Effect.provide(Plan.bind(strict, { toolkit }), handlers))
    assert(refused._tag === "PlanInvalid")
    assert.strictEqual(refused.problems[0]?.code, "ToolArguments")
  })

  test("PLAN-4 a schema of the same name is used only if it is equal", function* () {
    const Same = Schema.Struct({ items: Schema.Array(Schema.String) })
    const Other = Schema.Struct({ items: Schema.Array(Schema.Int) })
    const wire = native(step({ output: { name: "Hits", schema: hits } }))
    yield* Plan.decode(wire, { schemas: { Hits: Same } })
    const different = yield* entriesOf(wire, { schemas: { Hits: Other } })
    assert.deepStrictEqual(different, ["DifferentSchema Hits at step 0, output"])
    const missing = yield* entriesOf({ ...native(step()), output: { name: "Hits" } })
    assert.deepStrictEqual(missing, ["MissingEntry Hits at output"])
  })

  test("PLAN-4 a schema that has no JSON Schema is reported", function* () {
    const found = yield* entriesOf(plan(step({ output: "Hits" })), {
      schemas: { Hits: Schema.instanceOf(AbortController) }
    })
    assert.deepStrictEqual(found, ["UnusableEntry Hits at step 0, output"])
  })

  test("PLAN-4 str and Any need an entry, and mean no schema if the entry accepts everything", function* () {
    const wire = plan(step({ output: "str" }))
    assert.deepStrictEqual(yield* entriesOf(wire), ["MissingEntry str at step 0, output"])
    const made = yield* Plan.decode(wire, { schemas: { str: Schema.String } })
    assert.isUndefined(made.definition.steps[0]?.output)
    const strict = yield* Plan.decode(wire, { schemas: { str: Schema.NonEmptyString } })
    assert.strictEqual(strict.definition.steps[0]?.output?.name, "str")
  })

  test("L3 what was decoded with a registry is what was encoded", function* () {
    const wire = {
      version: 3,
      name: "research",
      description: "Finds things",
      max_iterations: 7,
      output: { schema: { type: "string" } },
      steps: [
        {
          name: "fetch",
          target: { kind: "function", name: "fetch" },
          task: { kind: "from_start" },
          context: [{ kind: "from_memory", name: "searcher" }],
          writes: "hits",
          output: { name: "Hits", schema: hits },
          routes: [{ to: "write", when: { kind: "empty", path: ["items"] } }],
          timeout: 1000,
          retry: { times: 2, delay: 10, factor: 2, max_delay: 100 }
        },
        { name: "write", target: { kind: "agent", name: "searcher" }, task: { kind: "from_prev" } }
      ]
    }
    const made = yield* Plan.decode(wire, { targets: { fetch: fetchIt, searcher } })
    assert.deepStrictEqual(yield* Plan.encode(made), wire)
    assert.strictEqual(yield* Plan.codec.encodeJson(made.definition), JSON.stringify(wire))
  })

  test("PLAN-2 the structure is checked after the names, and all problems are reported", function* () {
    const wire = plan(step({ task: { kind: "from_step", name: "gone" } }), step())
    const error = yield* Effect.flip(Plan.decode(wire))
    assert(error._tag === "PlanInvalid", error.message)
    assert.isAbove(error.problems.length, 1)
  })
})
