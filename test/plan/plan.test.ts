/** PLAN-1, PLAN-2: plans as they are written. */
import { inspect } from "node:util"
import { assert, describe } from "@effect/vitest"
import { Context, Effect, Layer, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as livePlan from "#src/plan/internal/livePlan.ts"
import { Agent, VersionedStore } from "effect-emissary"
import { Plan, Reference, Step, When } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { definition, Seed } from "./codec-definitions.ts"
import { test } from "../test.ts"

const problemsOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), (error) =>
    (
      error as object as { readonly problems: ReadonlyArray<{ readonly code: string; readonly step?: string }> }
    ).problems.map(({ code, step }) => [code, step])
  )

const custom = (...names: ReadonlyArray<string>) => When.and(...names.map((name) => When.custom(name)))

describe("making plans", () => {
  test("PLAN-1 has defaults, and nothing that was not written", function* () {
    const plan = yield* Plan.make("plan", [Step.make("a", { target: "t" })])
    assert.deepStrictEqual(Object.keys(plan.definition), ["name", "maxIterations", "steps"])
    assert.deepStrictEqual([plan.definition.name, plan.definition.maxIterations], ["plan", 100])
    assert.deepStrictEqual((yield* Plan.make("plan", [])).definition.steps, [])
  })

  test("PLAN-2 HOUSE-6 arguments of other types, as code without TypeScript can pass them, are problems of the plan", function* () {
    const step = Step.make("a", { target: "t" })
    const make: (...args: ReadonlyArray<unknown>) => ReturnType<typeof Plan.make> =
      // Sound: what a program without types may write
      Plan.make as (...args: ReadonlyArray<unknown>) => ReturnType<typeof Plan.make>
    const found = (...args: ReadonlyArray<unknown>) =>
      Effect.map(Effect.flip(make(...args)), ({ message, problems }) => ({
        message,
        places: problems.map(({ code, slot }) => `${code} ${slot}`)
      }))
    const before = yield* found({ name: "x" }, step)
    assert.deepStrictEqual(before.places, ["InvalidOption name", "InvalidOption steps"])
    assert.include(
      before.message,
      "Plan at name: expected the name of the plan, got object. Write Plan.make(name, steps, options)"
    )
    assert.deepStrictEqual((yield* found("x", [step, "b", undefined])).places, [
      "InvalidOption steps[1]",
      "InvalidOption steps[2]"
    ])
    assert.deepStrictEqual((yield* found("x", [step], 5)).places, ["InvalidOption options"])
    assert.deepStrictEqual((yield* found()).places, ["InvalidOption name", "InvalidOption steps"])
  })

  test("PLAN-1 has a name, a description, a limit and an output", function* () {
    const plan = yield* Plan.make("report", [Step.make("a", { target: "t" })], {
      description: "Writes a report",
      maxIterations: 7,
      output: Schema.String.annotate({ identifier: "Text" })
    })
    const { steps: _steps, ...rest } = plan.definition
    assert.deepStrictEqual(rest, {
      name: "report",
      description: "Writes a report",
      maxIterations: 7,
      output: { name: "Text", json: { type: "string" } }
    })
  })

  test("PLAN-4 names of steps are those that the native wire carries", function* () {
    const named = (name: string) => Plan.make("plan", [Step.make(name, { target: "t" })])
    for (const name of ["a", "9", "_", "é-1", "名前", "x".repeat(200)]) yield* named(name)
    for (const name of ["", "a b", "-a", "a.b", "a\n", "\ud800", "__proto__", "constructor", "x".repeat(201)]) {
      assert.deepStrictEqual(yield* problemsOf(named(name)), [["InvalidName", name]])
    }
  })

  test("PLAN-1 one value may be the target of many steps, and two values of one name may not", function* () {
    const one = Step.target("count", () => Effect.succeed(1))
    const two = Step.target("count", () => Effect.succeed(2))
    class Count extends Agent.Service<Count>()("count", {}) {}
    class Other extends Agent.Service<Other>()("other", {}) {}
    yield* Plan.make("plan", [
      Step.make("a", { target: one }),
      Step.make("b", { target: one }),
      Step.make("c", { target: Other }),
      Step.make("d", { target: Other }),
      Step.make("e", { target: "count" })
    ])
    const error = yield* Effect.flip(
      Plan.make("plan", [
        Step.make("a", { target: one }),
        Step.make("b", { target: two }),
        Step.make("c", { target: Count }),
        Step.make("count", { target: () => Effect.succeed(3) })
      ])
    )
    assert.deepStrictEqual(
      error.problems.map(({ code, slot, step }) => [code, step, slot]),
      [
        ["SharedTargetName", "b", "target"],
        ["SharedTargetName", "c", "target"],
        ["SharedTargetName", "count", "target"]
      ]
    )
    assert.include(error.problems[1]?.reason, 'another function named "count" in step "a"')
  })

  test("PLAN-3 custom predicates are looked up, all of them, at any place in a condition", function* () {
    const steps = [
      Step.make("a", {
        target: "t",
        routes: [
          ["c", When.not(custom("long", "unknown"))],
          ["b", custom("other")]
        ]
      }),
      Step.make("b", { target: "t" }),
      Step.make("c", { target: "t", routes: [["a", When.or(custom("toString"), custom("long"))]] })
    ]
    const error = yield* Effect.flip(Plan.make("plan", steps, { predicates: { long: () => true, short: () => true } }))
    assert.deepStrictEqual(
      error.problems.map(({ code, known, slot, step }) => [code, step, slot, known]),
      [
        ["UnknownPredicate", "a", "routes[0]", ["long", "short"]],
        ["UnknownPredicate", "a", "routes[1]", ["long", "short"]],
        ["UnknownPredicate", "c", "routes[0]", ["long", "short"]]
      ]
    )
  })

  test("PLAN-3 conditions that cannot be asked are problems, with their place", function* () {
    const error = yield* Effect.flip(
      Plan.make(
        "plan",
        [
          Step.make("a", {
            target: "t",
            routes: [
              ["b", When.always],
              ["b", When.not(When.payload.matches("(?=a)"))],
              ["b", When.custom("lang")]
            ]
          }),
          Step.make("b", { target: "t" })
        ],
        { predicates: { long: () => true } }
      )
    )
    assert.deepStrictEqual(
      error.problems.map(({ code, slot, suggestion }) => [code, slot, suggestion]),
      [
        ["InvalidCondition", "routes[1]", undefined],
        ["UnknownPredicate", "routes[2]", "long"]
      ]
    )
    assert.include(
      error.problems[0]?.reason,
      'Step "a" (#0) at routes[1]: expected a condition that can be evaluated, got one with a problem at condition.pattern'
    )
  })

  test("PLAN-3 Q09 custom predicates return a boolean, or an Effect of one; anything else is a defect", function* () {
    const { live } = yield* Plan.make("plan", [Step.make("a", { target: "t" })], {
      predicates: {
        plain: ({ text }) => text === "yes",
        effect: ({ payload }) => Effect.succeed(payload === "yes"),
        wrong: () => "yes" as never,
        failing: () => Effect.fail("no")
      }
    })
    const ask = (name: string, text: string) =>
      Effect.exit(live.predicates.get(name)?.({ step: "a", payload: text, text }) ?? Effect.die("missing"))
    assert.deepStrictEqual(
      yield* Effect.forEach(["plain", "effect"], (name) => ask(name, "yes")),
      yield* Effect.forEach([true, true], (answer) => Effect.exit(Effect.succeed(answer)))
    )
    assert.deepStrictEqual(yield* ask("plain", "no"), yield* Effect.exit(Effect.succeed(false)))
    assert.include(String(yield* ask("wrong", "")), "boolean")
    assert.deepStrictEqual(yield* ask("failing", ""), yield* Effect.exit(Effect.fail("no")))
  })

  test("PLAN-2 reports problems of structure and of code together, in the order of the steps", function* () {
    const unknown: string = "nowhere"
    assert.deepStrictEqual(
      yield* problemsOf(
        Plan.make(
          "plan",
          [
            Step.make("a", { target: "t", retry: { times: -1 } }),
            Step.make("b", { target: "t", task: Reference.fromStep(unknown) }),
            Step.make("c", { target: "t", timeout: "later" as "1 second" }),
            Step.make("d", { target: "t", timeout: "-1 seconds" })
          ],
          { maxIterations: -1 }
        )
      ),
      [
        ["InvalidLimit", undefined],
        ["InvalidRetry", "a"],
        ["UnknownStep", "b"],
        ["InvalidDuration", "c"],
        ["InvalidDuration", "d"]
      ]
    )
  })
})

describe("plans in logs", () => {
  test("PLAN-1 are their name, digest and steps, however they came to be", function* () {
    const secret = "secret"
    const plan = yield* Plan.make(
      "told",
      [
        Step.make("a", { target: () => Effect.succeed(secret) }),
        Step.make("b", { target: ({ task }) => Effect.succeed(task), context: secret })
      ],
      { output: Schema.String }
    )
    const bound = yield* Plan.bind(plan)
    class Told extends Plan.Service<Told>()("told", Effect.succeed(bound)) {}
    const captured = yield* Effect.provide(Told, Told.layer)
    const told = { name: "told", digest: plan.digest, steps: ["a", "b"] }
    for (const [value, _id] of [
      [plan, "Plan"] as const,
      [bound, "Plan.Bound"] as const,
      [captured, "Plan.Bound"] as const
    ]) {
      assert.deepStrictEqual(JSON.parse(JSON.stringify(value)), { _id, ...told })
      const text = inspect(value, { depth: 10 })
      assert.include(text, `_id: '${_id}'`)
      assert.notInclude(text, "live")
      assert.notInclude(text, secret)
      assert.include(String(value), plan.digest)
    }
  })
})

describe("digests", () => {
  const made = (
    { name = "plan", ...options }: livePlan.Options & { readonly name?: string },
    ...steps: ReadonlyArray<Step.Step>
  ) => Effect.map(Plan.make(name, steps, options), ({ digest }) => digest)
  const step = Step.make("a", { target: "t", task: "x" })

  test("PLAN-6 depend on what runs, and not on what the plan is called", function* () {
    const digest = yield* made({}, step)
    assert.match(digest, /^sha256:[0-9a-f]{64}$/)
    assert.strictEqual(yield* made({ name: "other", description: "text" }, step), digest)
    const others = yield* Effect.all([
      made({ maxIterations: 5 }, step),
      made({ output: Schema.String }, step),
      made({}, step, Step.make("b", { target: "t" })),
      made({}, Step.make("a", { target: "t", task: "y" })),
      made({}, Step.make("a", { target: "t", task: "x", retry: { times: 1 } })),
      made({}, Step.make("a", { target: () => Effect.succeed(1), task: "x" }))
    ])
    assert.strictEqual(new Set([digest, ...others]).size, others.length + 1)
  })

  test("PLAN-6 of texts that are none fail as problems of the plan", function* () {
    assert.deepStrictEqual(yield* problemsOf(Plan.make("plan", [Step.make("a", { target: "t", task: "\ud800" })])), [
      ["NotJson", undefined]
    ])
  })
})

describe("from one end to the other", () => {
  class Prices extends Context.Service<Prices, { readonly of: (item: string) => number }>()("test/plan/Prices") {}
  class Orders extends Context.Service<Orders, ReadonlyArray<string>>()("test/plan/Orders") {}

  const toolkit = Toolkit.make(
    Tool.make("stock", {
      parameters: Schema.Struct({ items: Schema.Array(Schema.String) }),
      success: Schema.Record(Schema.String, Schema.Int),
      dependencies: [Orders]
    })
  )
  const handlers = toolkit.toLayer({
    stock: ({ items }) =>
      Effect.map(Orders, (ordered) => Object.fromEntries(items.map((item) => [item, ordered.length])))
  })
  const Basket = Schema.Struct({ items: Schema.Array(Schema.String) })
  const Total = Schema.Struct({ total: Schema.Finite, at: Schema.Date })

  const shop = Plan.make(
    "shop",
    [
      Step.make("read", { output: Basket, target: ({ task }) => Effect.succeed({ items: task.split(" ") }) }),
      Step.make("stock", { target: "stock", input: Basket, parallel: true, writes: "stock" }),
      Step.make("price", {
        task: Reference.fromStep("read"),
        input: Basket,
        parallel: true,
        target: ({ payload }) =>
          Effect.map(Prices, (prices) => payload.items.reduce((sum, item) => sum + prices.of(item), 0))
      }),
      Step.make("total", {
        task: Reference.fromParallel("price"),
        context: Reference.fromParallelAll("stock"),
        output: Total,
        target: ({ payload }) => Effect.succeed({ total: Number(payload), at: new Date(0) })
      })
    ],
    { output: Total, predicates: { cheap: ({ payload }) => Effect.succeed(payload === 0) } }
  )
  const bind = Effect.flatMap(shop, (plan) => Plan.bind(plan, { toolkit })).pipe(
    Effect.provide(handlers),
    Effect.provideService(Orders, ["x"])
  )
  const prices = { of: (item: string) => item.length }

  test("PLAN-1 functions, tools and predicates have what they require, and the output has its type", function* () {
    const bound = yield* bind
    const result = yield* Effect.provideService(Plan.run(bound, "tea milk"), Prices, prices)
    assert.ok(result.outcome === "Completed")
    assert.deepStrictEqual(result.output, { total: 7, at: new Date(0) })
    assert.deepStrictEqual(result.payload, { total: 7, at: "1970-01-01T00:00:00.000Z" })
    assert.deepStrictEqual(Object.fromEntries(result.writes), { stock: { tea: 1, milk: 1 } })
  })

  const answers = ScriptedModel.layer([{ text: "first" }, { text: "second" }])
  const remembering = Layer.merge(VersionedStore.layerMemory, answers)
  test("PLAN-1 what an agent answered in one run is there in the next", remembering, function* () {
    const helper = Agent.make("helper", {})
    const plan = yield* Plan.make("plan", [
      Step.make("ask", { target: "helper", context: Reference.fromAgent("helper") })
    ])
    const bound = yield* Plan.bind(plan, { agents: { helper }, memories: { helper: Plan.memoryInStore("helper") } })
    yield* Plan.run(bound, "one")
    const result = yield* Plan.run(bound, "two")
    assert.ok(result.outcome === "Completed" && result.output === "second")
    assert.deepStrictEqual(
      result.state.history.pipe((history) => Array.from(history, ({ context }) => context)),
      ["first"]
    )
  })

  test("PLAN-4 a plan that travelled is the same plan, and resumes states of the other", function* () {
    const slow = Step.target("slow", ({ task }) =>
      task.includes("!") ? Effect.succeed(`${task}?`) : Step.pause("not yet")
    )
    const shout = Step.target("shout", { output: Schema.String }, ({ task }) => Effect.succeed(`${task}!`))
    const plan = yield* Plan.make("here", [
      Step.make("one", { target: shout, retry: { times: 1 } }),
      Step.make("two", { target: slow, timeout: "1 minute", context: [Reference.fromStep("one")] })
    ])
    const registry = { targets: { slow, shout } }
    const there = yield* Plan.decode(yield* Plan.codec.encodeJson(plan.definition), registry)
    assert.strictEqual(there.digest, plan.digest)
    assert.deepStrictEqual(there.definition, plan.definition)

    const never = Step.target("slow", () => Step.pause("not yet"))
    const paused = yield* Plan.run(
      yield* Plan.bind(yield* Plan.decode(yield* Plan.encode(plan), { targets: { shout, slow: never } })),
      "hi"
    )
    assert.ok(paused.outcome === "Paused")
    const result = yield* Plan.resume(yield* Plan.bind(plan), paused.state)
    assert.ok(result.outcome === "Completed" && result.output === "hi!?")
  })
})

test.prop("PLAN-6 digests are those of the data, wherever it was", [Seed], function* ([seed]) {
  const made = definition(seed)
  // a value of a condition may hold a key that no wire carries
  const wire = yield* Effect.option(Plan.codec.encode(made))
  if (Option.isNone(wire)) return
  const back = yield* Plan.codec.decode(wire.value)
  // texts that are not well-formed have no digest, here and there
  const digest = yield* Effect.option(livePlan.digestOf(made))
  assert.deepStrictEqual(yield* Effect.option(livePlan.digestOf(back)), digest)
  assert.deepStrictEqual(
    yield* Effect.option(livePlan.digestOf({ ...made, name: "other", description: "other" })),
    digest
  )
})
