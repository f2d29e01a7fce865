/** PLAN-1, PLAN-2, PLAN-5: all results of a band, in words and as an object. */
import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Plan, Reference, Step } from "effect-emissary/plan"
import { completed, log, planOf } from "./support.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"

const Price = Schema.Struct({ price: Schema.Finite })
const words = `[b]\n{"price":3}\n\n[a]\nno idea`

/** A band whose names are not in the order of the alphabet. */
const band = [
  Step.make("b", { parallel: true, output: Price, target: () => Effect.succeed({ price: 3 }) }),
  Step.make("a", { parallel: true, target: () => Effect.succeed("no idea") })
] as const

describe("fromParallelAll", () => {
  test("PLAN-5 S4.2 a function receives the labelled text, and an object in declared order", function* () {
    const seen: Array<Step.Input> = []
    const bound = yield* planOf([
      ...band,
      Step.make("sum", {
        task: Reference.fromParallelAll("b"),
        context: Reference.fromParallelAll("b"),
        target: (input) => {
          seen.push(input)
          return Effect.succeed(input.payload)
        }
      })
    ])
    const result = completed(yield* Plan.run(bound, "x"))
    const object = { b: { price: 3 }, a: "no idea" }
    assert.deepStrictEqual(result.output, object)
    assert.deepStrictEqual([seen[0]?.task, seen[0]?.context, seen[0]?.payload], [words, words, object])
    assert.deepStrictEqual(Object.keys(seen[0]?.payload ?? {}), ["b", "a"])
  })

  test("PLAN-5 input types it for a function, and a tool has it as its arguments", function* () {
    const Both = Schema.Struct({ b: Price, a: Schema.String })
    const tool = Tool.make("compare", { parameters: Both, success: Schema.String })
    const toolkit = Toolkit.make(tool)
    const handlers = toolkit.toLayer({ compare: ({ a, b }) => Effect.succeed(`${b.price} or ${a}`) })
    const task = Reference.fromParallelAll("b")
    const plan = yield* Plan.make("plan", [
      ...band,
      Step.make("typed", {
        task,
        input: Both,
        target: ({ payload }) => Effect.succeed(payload.b.price + payload.a.length)
      }),
      Step.make("tool", { task, input: Both, target: "compare", writes: "tool" })
    ])
    const result = yield* Effect.provide(
      Effect.flatMap(Plan.bind(plan, { toolkit }), (bound) => Plan.run(bound, "x")),
      handlers
    )
    assert.deepStrictEqual(completed(result).output, "3 or no idea")
  })

  test("PLAN-5 a nested plan receives the text, and the object if it has an input schema", function* () {
    const { fn } = log()
    const inner = yield* planOf([Step.make("i", { target: fn("i", ({ payload }) => payload) })])
    const run = (step: Step.Step<string, string, never>) =>
      Effect.flatMap(planOf([...band, step]), (bound) => Plan.run(bound, "x"))
    const task = Reference.fromParallelAll("b")
    assert.strictEqual(completed(yield* run(Step.make("in", { task, target: inner }))).output, words)
    const input = Schema.Struct({ b: Price, a: Schema.String })
    assert.deepStrictEqual(completed(yield* run(Step.make("in", { task, input, target: inner }))).output, {
      b: { price: 3 },
      a: "no idea"
    })
  })

  test("PLAN-2 an input that the members can never be is refused, member by member", function* () {
    class Node extends Schema.Class<Node>("Node")({ name: Schema.String }) {}
    const refer = Step.make("a", {
      parallel: true,
      output: Schema.Struct({ one: Node, two: Node }),
      target: () => Effect.succeed({ one: new Node({ name: "" }), two: new Node({ name: "" }) })
    })
    const reasons = (input: Schema.ConstraintCodec<unknown, unknown>) =>
      Plan.make("plan", [
        band[0],
        refer,
        Step.make("sum", { task: Reference.fromParallelAll("b"), input, target: () => Effect.succeed("") })
      ]).pipe(
        Effect.match({ onFailure: ({ problems }) => problems.map(({ reason }) => reason).join(), onSuccess: () => "" })
      )
    assert.strictEqual(yield* reasons(Schema.Struct({ b: Price })), "")
    const two = Schema.Struct({ two: Schema.Struct({ name: Schema.String }) })
    assert.strictEqual(yield* reasons(Schema.Struct({ b: Price, a: two })), "")
    assert.include(
      yield* reasons(Schema.Finite),
      `the results of the parallel group of step "b" (#0): is object, and number is taken`
    )
    assert.include(
      yield* reasons(Schema.Struct({ c: Price })),
      `"c" is required, and not among the fields given: "b", "a"`
    )
    assert.include(yield* reasons(Schema.Struct({ b: Schema.String })), `"b" is object, and string is taken`)
  })

  test("PLAN-1 S4.2 a step whose input is text gets a parallel group as its text", function* () {
    const plan = yield* Plan.make("plan", [
      Step.make("a", { target: () => Effect.succeed("A"), parallel: true }),
      Step.make("b", { target: () => Effect.succeed("B"), parallel: true }),
      Step.make("join", {
        task: Reference.fromParallelAll("a"),
        input: Schema.String,
        target: ({ payload }) => Effect.succeed(payload)
      })
    ])
    const result = yield* endsAs("Completed", Plan.run(yield* Plan.bind(plan), "go"))
    assert.strictEqual(result.output, "[a]\nA\n\n[b]\nB")
  })
})
