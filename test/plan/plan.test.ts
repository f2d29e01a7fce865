/** PLAN-1, PLAN-2: plans as they are written. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Agent, Plan, Reference, Step, Target, When } from "effect-emissary"

const problemsOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), (error) =>
    (
      error as object as { readonly problems: ReadonlyArray<{ readonly code: string; readonly step?: string }> }
    ).problems.map(({ code, step }) => [code, step])
  )

const custom = (...names: ReadonlyArray<string>) => When.and(...names.map((name) => When.custom(name)))

describe("making plans", () => {
  it.effect("PLAN-1 has defaults, and nothing that was not written", () =>
    Effect.gen(function* () {
      const plan = yield* Plan.make(Step.make("a", { target: "t" }))
      assert.deepStrictEqual(Object.keys(plan.definition), ["name", "maxIterations", "steps"])
      assert.deepStrictEqual([plan.definition.name, Plan.maxIterations(plan)], ["plan", 100])
      assert.deepStrictEqual((yield* Plan.make()).definition.steps, [])
    })
  )

  it.effect("PLAN-1 has a name, a description, a limit and an output", () =>
    Effect.gen(function* () {
      const plan = yield* Plan.make(
        {
          name: "report",
          description: "Writes a report",
          maxIterations: 7,
          output: Schema.String.annotate({ identifier: "Text" })
        },
        Step.make("a", { target: "t" })
      )
      const { steps: _steps, ...rest } = Plan.definition(plan)
      assert.deepStrictEqual(rest, {
        name: "report",
        description: "Writes a report",
        maxIterations: 7,
        output: { name: "Text", json: { type: "string" } }
      })
    })
  )

  it.effect("PLAN-1 one value may be the target of many steps, and two values of one name may not", () =>
    Effect.gen(function* () {
      const one = Target.make("count", () => Effect.succeed(1))
      const two = Target.make("count", () => Effect.succeed(2))
      class Count extends Agent.Service<Count>()("count", {}) {}
      class Other extends Agent.Service<Other>()("other", {}) {}
      yield* Plan.make(
        Step.make("a", { target: one }),
        Step.make("b", { target: one }),
        Step.make("c", { target: Other }),
        Step.make("d", { target: Other }),
        Step.make("e", { target: "count" })
      )
      const error = yield* Effect.flip(
        Plan.make(
          Step.make("a", { target: one }),
          Step.make("b", { target: two }),
          Step.make("c", { target: Count }),
          Step.make("count", { target: () => Effect.succeed(3) })
        )
      )
      assert.deepStrictEqual(
        error.problems.map(({ code, slot, step }) => [code, step, slot]),
        [
          ["SharedTargetName", "b", "target"],
          ["SharedTargetName", "c", "target"],
          ["SharedTargetName", "count", "target"]
        ]
      )
      assert.include(error.problems[1]?.reason, 'expected one target of the name "count"')
    })
  )

  it.effect("PLAN-3 custom predicates are looked up, all of them, wherever they stand in a condition", () =>
    Effect.gen(function* () {
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
      const error = yield* Effect.flip(Plan.make({ predicates: { long: () => true, short: () => true } }, ...steps))
      assert.deepStrictEqual(
        error.problems.map(({ code, known, slot, step }) => [code, step, slot, known]),
        [
          ["UnknownPredicate", "a", "routes[0]", ["long", "short"]],
          ["UnknownPredicate", "a", "routes[1]", ["long", "short"]],
          ["UnknownPredicate", "c", "routes[0]", ["long", "short"]]
        ]
      )
    })
  )

  it.effect("PLAN-3 custom predicates give a boolean, or an Effect of one; anything else is a defect", () =>
    Effect.gen(function* () {
      const { live } = yield* Plan.make(
        {
          predicates: {
            plain: ({ text }) => text === "yes",
            effect: ({ payload }) => Effect.succeed(payload === "yes"),
            wrong: () => "yes" as never,
            failing: () => Effect.fail("no")
          }
        },
        Step.make("a", { target: "t" })
      )
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
  )

  it.effect("PLAN-2 tells problems of structure and of code together, in the order of the steps", () =>
    Effect.gen(function* () {
      const unknown: string = "nowhere"
      assert.deepStrictEqual(
        yield* problemsOf(
          Plan.make(
            { maxIterations: -1 },
            Step.make("a", { target: "t", retry: { times: -1 } }),
            Step.make("b", { target: "t", task: Reference.fromStep(unknown) }),
            Step.make("c", { target: "t", timeout: "later" as "1 second" })
          )
        ),
        [
          ["InvalidLimit", undefined],
          ["InvalidRetry", "a"],
          ["UnknownStep", "b"],
          ["InvalidDuration", "c"]
        ]
      )
    })
  )
})

describe("digests", () => {
  const digestOf = (options: Plan.Options, ...steps: ReadonlyArray<Step.Any>) =>
    Effect.map(Plan.make(options, ...steps), Plan.digest)
  const step = Step.make("a", { target: "t", task: "x" })

  it.effect("PLAN-6 depend on what runs, and not on what the plan is called", () =>
    Effect.gen(function* () {
      const digest = yield* digestOf({}, step)
      assert.match(digest, /^sha256:[0-9a-f]{64}$/)
      assert.strictEqual(yield* digestOf({ name: "other", description: "text" }, step), digest)
      const others = yield* Effect.all([
        digestOf({ maxIterations: 5 }, step),
        digestOf({ output: Schema.String }, step),
        digestOf({}, step, Step.make("b", { target: "t" })),
        digestOf({}, Step.make("a", { target: "t", task: "y" })),
        digestOf({}, Step.make("a", { target: "t", task: "x", retry: { times: 1 } })),
        digestOf({}, Step.make("a", { target: () => Effect.succeed(1), task: "x" }))
      ])
      assert.strictEqual(new Set([digest, ...others]).size, others.length + 1)
    })
  )

  it.effect("PLAN-6 of texts that are none fail as problems of the plan", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* problemsOf(Plan.make(Step.make("a", { target: "t", task: "\ud800" }))), [
        ["NotJson", undefined]
      ])
    })
  )
})
