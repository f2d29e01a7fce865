/** PLAN-1: what a step is as data, whichever way it is written. */
import { assert, describe } from "@effect/vitest"
import { Context, Duration, Effect, Exit, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ModelRegistry, ToolResolver } from "effect-emissary"
import { Plan, Reference, Step, When, type PlanDefinition } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { brief } from "./check-fixtures.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import * as performStep from "#src/plan/internal/performStep.ts"

class Order extends Schema.Class<Order>("Order")({ id: Schema.String, at: Schema.Date }) {}

/** A step as the only one of a plan. */
const definitionOf = (step: Step.Step) =>
  Effect.map(
    Plan.make("plan", [step]),
    ({ definition }): PlanDefinition.StepDefinition | undefined => definition.steps[0]
  )

const problemsOf = (...steps: ReadonlyArray<Step.Step>) =>
  Effect.map(Effect.flip(Plan.make("plan", steps)), ({ problems }) => problems.map(brief))

/** The function behind the only step of a plan. */
const functionOf = (step: Step.Step) =>
  Effect.map(Plan.make("plan", [step]), ({ live }) => {
    const target = live.steps[0]?.target
    return target?._tag === "Function" ? target.target : assert.fail("expected a function")
  })

const none = { context: undefined, content: [], decision: undefined }

const given = (payload: Schema.Json): Step.Input => ({ ...none, step: "s", task: "", payload })

describe("what a step is as data", () => {
  test("PLAN-1 has only what was written, and the defaults of task and parallel", function* () {
    assert.deepStrictEqual(yield* definitionOf(Step.make("search", { target: "web" })), {
      name: "search",
      target: { kind: "tool", name: "web" },
      task: { _tag: "FromPrev" },
      parallel: false
    })
  })

  test("PLAN-1 has everything that can be written, as plain data", function* () {
    const plan = yield* Plan.make("plan", [
      Step.make("first", { target: "t" }),
      Step.make("second", {
        target: "t",
        task: "Do it",
        context: [Reference.fromStart, "and briefly", Reference.fromStep("first")],
        writes: "draft",
        routes: [["third", When.field("items").empty()]],
        afterBranches: "last",
        timeout: "2 minutes",
        retry: { times: 3 }
      }),
      Step.make("third", { target: "t" }),
      Step.make("last", { target: "t", parallel: true })
    ])
    assert.deepStrictEqual(plan.definition.steps[1], {
      name: "second",
      target: { kind: "tool", name: "t" },
      task: { _tag: "Literal", value: "Do it" },
      context: [{ _tag: "FromStart" }, { _tag: "Literal", value: "and briefly" }, { _tag: "FromStep", step: "first" }],
      writes: "draft",
      parallel: false,
      routes: [{ to: "third", when: When.field("items").empty() }],
      afterBranches: "last",
      timeoutMillis: 120_000,
      retry: { times: 3 }
    })
    assert.strictEqual(plan.definition.steps[3]?.parallel, true)
  })

  test("PLAN-1 MEND-12 options of other types are problems of the plan, also where nothing checks the code", function* () {
    // Sound: this is what code without types can write.
    const untyped = Step.make as (...args: ReadonlyArray<unknown>) => Step.Step
    const target = "t"
    const wrong: ReadonlyArray<readonly [slot: string, ...values: ReadonlyArray<unknown>]> = [
      ["target", 42, null, undefined, {}],
      ["task", 42, null, {}, ["a"]],
      ["context", 42, null, {}, [42], [null]],
      ["writes", 42, null],
      ["parallel", 42, null],
      ["input", 42, null],
      ["output", 42, null],
      ["routes", 42, null, [42], [null], [["b", 42]], [[1, When.field("a").empty()]], [["b", { _tag: "Other" }]]],
      ["routesBy", 42, null],
      ["afterBranches", 42, null],
      ["retry", 42, null]
    ]
    for (const [slot, ...values] of wrong) {
      for (const value of values) {
        const problems = yield* problemsOf(untyped("a", { target, [slot]: value }))
        assert.deepStrictEqual(problems, [`InvalidOption a ${slot}`], `${slot} ${JSON.stringify(value)}`)
      }
    }
    assert.deepStrictEqual(yield* problemsOf(untyped(42, { target })), ["InvalidOption 42 name"])
    assert.deepStrictEqual(yield* problemsOf(untyped("a")), ["InvalidOption a target"])
    const both = yield* Effect.flip(
      Plan.make("plan", [untyped("a", { target, context: 42, writes: [] }), Step.make("", { target })])
    )
    assert.lengthOf(both.problems, 3)
    assert.include(
      both.message,
      'Step "a" at context: expected a value of the type that Step.make declares for it, got number.'
    )
  })

  test("PLAN-1 keeps whether the context was one reference or a list", function* () {
    const one = yield* definitionOf(Step.make("a", { target: "t", context: "text" }))
    const list = yield* definitionOf(Step.make("a", { target: "t", context: ["text"] }))
    const empty = yield* definitionOf(Step.make("a", { target: "t", context: [] }))
    assert.deepStrictEqual(one?.context, { _tag: "Literal", value: "text" })
    assert.deepStrictEqual(list?.context, [{ _tag: "Literal", value: "text" }])
    assert.deepStrictEqual(empty?.context, [])
  })

  test("PLAN-1 keeps the order of routes, also where step names look like numbers", function* () {
    const names = ["10", "b", "2"] as const
    const routes = names.map((name) => [name, When.always] as const)
    const others = names.map((name) => Step.make(name, { target: "t" }))
    const plan = yield* Plan.make("plan", [Step.make("start", { target: "t", routes }), ...others])
    assert.deepStrictEqual(pluck(plan.definition.steps[0]?.routes, "to"), ["10", "b", "2"])
  })

  test("PLAN-1 names targets: functions after their step or their own name, agents after themselves", function* () {
    class Writer extends Agent.Service<Writer>()("writer", {}) {}
    for (const [kind, name, step] of [
      ["function", "a", Step.make("a", { target: () => Effect.succeed(1) })],
      ["function", "count", Step.make("a", { target: Step.target("count", () => Effect.succeed(1)) })],
      ["agent", "helper", Step.make("a", { target: Agent.make("helper", {}) })],
      ["agent", "writer", Step.make("a", { target: Writer })],
      ["agent", "a", Step.make("a", { target: Effect.map(Writer, (writer) => writer) })]
    ] as const) {
      assert.deepStrictEqual((yield* definitionOf(step))?.target, { kind, name })
    }
  })
})

describe("times and retries", () => {
  test("PLAN-1 are kept in milliseconds; no end of time is no timeout", function* () {
    const step = (options: Pick<NonNullable<Parameters<typeof Step.make>[1]>, "timeout" | "retry">) =>
      Effect.map(definitionOf(Step.make("a", { target: "t", ...options })), (definition) => [
        definition?.timeoutMillis,
        definition?.retry
      ])
    assert.deepStrictEqual(yield* step({ timeout: "2 minutes", retry: { times: 1 } }), [120_000, { times: 1 }])
    assert.deepStrictEqual(yield* step({ timeout: Duration.infinity }), [undefined, undefined])
    const retry = { times: 3, delay: "1 second", factor: 2, maxDelay: Duration.seconds(30) } as const
    const inMillis = { times: 3, delayMillis: 1000, factor: 2, maxDelayMillis: 30_000 }
    assert.deepStrictEqual(yield* step({ retry }), [undefined, inMillis])
    assert.deepStrictEqual(yield* step({ retry: inMillis }), [undefined, inMillis])
  })

  test("PLAN-2 that cannot be are problems of the plan, all of them", function* () {
    // Sound: what a program without types may write
    const never = "sometime" as "1 second"
    const retries = [
      { times: 1, factor: 0.5 },
      { times: 1, delayMillis: Number.NaN },
      { times: 1.5, delayMillis: 0 },
      { times: 1, delayMillis: Infinity },
      { times: 1, maxDelayMillis: Number.NaN }
    ]
    const found = yield* problemsOf(
      Step.make("a", { target: "t", timeout: never, retry: { times: -1 } }),
      Step.make("b", { target: "t", retry: { times: 1, delay: never } }),
      ...retries.map((retry, index) => Step.make(`retry${index}`, { target: "t", retry }))
    )
    assert.deepStrictEqual(found, [
      "InvalidDuration a timeout",
      "InvalidRetry a retry",
      "InvalidDuration b retry.delay",
      ...retries.map((_, index) => `InvalidRetry retry${index} retry`)
    ])
  })
})

describe("schemas of steps", () => {
  test("PLAN-4 are closed JSON Schema, under the name that identifies them", function* () {
    const definition = yield* definitionOf(
      Step.make("a", { target: "t", input: Schema.Struct({ n: Schema.Int }), output: Order })
    )
    assert.deepStrictEqual(definition?.input, {
      json: { type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false }
    })
    assert.strictEqual(definition?.output?.name, "Order")
    assert.deepStrictEqual(definition?.output?.json?.["required"], ["id", "at"])
  })

  test("PLAN-2 that JSON Schema cannot express are problems, all of them", function* () {
    const opaque = Schema.declare((u): u is symbol => typeof u === "symbol")
    const error = yield* Effect.flip(
      Plan.make(
        "plan",
        [
          Step.make("a", { target: "t", output: opaque }),
          Step.make("b", { target: "t", input: Schema.Struct({ handle: opaque }), output: opaque })
        ],
        { output: Schema.Struct({ handle: opaque }) }
      )
    )
    const places = ["output", "a output", "b input", "b output"]
    assert.deepStrictEqual(
      error.problems.map(brief),
      places.map((place) => `SchemaNotRepresentable ${place}`)
    )
    assert.include(error.problems[2]?.reason, "/handle")
  })

  test("PLAN-1 of a function are those of its step when the step has none", function* () {
    const schemas = { input: Schema.Array(Schema.String), output: Schema.Int }
    const count = Step.target("count", schemas, ({ payload }) => Effect.succeed(payload.length))
    const own = yield* definitionOf(Step.make("a", { target: count }))
    const other = yield* definitionOf(Step.make("a", { target: count, output: Schema.Finite }))
    assert.deepStrictEqual([own?.input?.json?.["type"], own?.output?.json], ["array", { type: "integer" }])
    assert.deepStrictEqual(other?.output?.json, { type: "number" })
  })
})

describe("functions of steps", () => {
  test("PLAN-1 see what the input schema decodes to, and return what the output schema encodes", function* () {
    const target = yield* functionOf(
      Step.make("a", {
        input: Schema.FiniteFromString,
        output: Order,
        target: ({ payload }) => Effect.succeed(new Order({ id: "1", at: new Date(payload) }))
      })
    )
    const answer = yield* performStep.callFunction(target, given("0"))
    assert.deepStrictEqual(answer, { id: "1", at: "1970-01-01T00:00:00.000Z" })
  })

  test("PLAN-5 leave out what their schemas do not know", function* () {
    const Named = Schema.Struct({ name: Schema.String })
    const target = Step.target("greet", { input: Named, output: Named }, ({ payload }) => {
      const answer = { name: Object.keys(payload).join(), more: true }
      return Effect.succeed(answer)
    })
    assert.deepStrictEqual(yield* performStep.callFunction(target, given({ name: "Ada", age: 36 })), { name: "name" })
  })

  test("PLAN-5 that receive or return something else fail in words, without the value", function* () {
    const secret = "hunter2"
    // Sound: a value that a program without types may return
    const wrong = { id: 42, at: secret } as object as Order
    const accepted = Schema.Union([Schema.Finite, Schema.Literal("public"), Schema.Date])
    const target = Step.target("order", { input: accepted, output: Order }, () => Effect.succeed(wrong))
    const input = yield* Effect.flip(performStep.callFunction(target, given(secret)))
    const output = yield* Effect.flip(performStep.callFunction(target, given(1)))
    assert.notInclude(JSON.stringify([input, output]), secret)
    assert.include(JSON.stringify(input), `{"type":"InputInvalid","message":"input at the root: expected `)
    const message = "output at the root: expected Order, got object"
    assert.include(JSON.stringify(output), `{"type":"OutputInvalid","message":"${message}`)
  })

  test("PLAN-5 that throw die there and not where the plan is made", function* () {
    const thrown = new RangeError("thrown")
    const throws = Step.target("throws", () => {
      throw thrown
    })
    assert.deepStrictEqual(yield* Effect.exit(performStep.callFunction(throws, given(null))), Exit.die(thrown))
  })

  test("PLAN-1 run in the context of the run", function* () {
    class Db extends Context.Service<Db, { readonly url: string }>()("test/plan/Db") {}
    const target = yield* functionOf(Step.make("a", { target: ({ task }) => Effect.map(Db, ({ url }) => url + task) }))
    const answer = performStep.callFunction(target, { ...given(null), task: "/x" })
    assert.strictEqual(yield* Effect.provideService(answer, Db, { url: "db:" }), "db:/x")
  })
})

describe("what the agent of a step answers", () => {
  const Verdict = Schema.Struct({ next: Schema.Literals(["good", "bad"]), at: Schema.Date }).annotate({
    identifier: "Verdict"
  })
  const critic = Agent.make("critic", { output: Verdict })
  class Critic extends Agent.Service<Critic>()("critic", { output: Verdict }) {}
  const asFunction = (step: string) => Step.make(step, { target: ({ task }) => Effect.succeed(task) })
  const json = {
    type: "object",
    properties: { next: { type: "string", enum: ["good", "bad"] }, at: { type: "string" } },
    required: ["next", "at"],
    additionalProperties: false
  }

  const outputOf = (step: Step.Step) => Effect.map(definitionOf(step), (definition) => definition?.output)

  test("PLAN-1 is the output of a step without one, whichever way the agent is there", function* () {
    const named = { name: "Verdict", json }
    const inner = yield* Plan.bind(yield* Plan.make("inner", [asFunction("x")], { output: Verdict }))
    for (const target of [critic, { ...critic }, inner]) {
      assert.deepStrictEqual(yield* outputOf(Step.make("a", { target })), named)
    }
    assert.deepStrictEqual(yield* outputOf(Step.make("a", { target: Critic })), named)
    const output = Schema.Struct({ n: Schema.Int })
    const made = yield* Plan.make("inner", [Step.make("t", { target: "t" })], { output })
    const read = yield* Plan.decode(yield* Plan.encode(made))
    assert.deepStrictEqual(read.definition.output?.json?.["required"], ["n"])
    const tool = Tool.make("t", { parameters: Schema.Struct({ task: Schema.String }), success: Schema.String })
    const toolkit = Toolkit.make(tool)
    const rebuiltPlan = yield* Plan.bind(read, { toolkit }).pipe(
      Effect.provide(toolkit.toLayer({ t: () => Effect.succeed("x") }))
    )
    const ofPlan = yield* outputOf(Step.make("a", { target: rebuiltPlan }))
    assert.deepStrictEqual(ofPlan?.json, read.definition.output?.json)
    const rebuilt = yield* Effect.flatMap(Agent.encode(critic), (wire) => Agent.decode(wire)).pipe(
      Effect.provide([ToolResolver.layerStubs(), ModelRegistry.layer({}), ScriptedModel.layer([])])
    )
    assert.deepStrictEqual(yield* outputOf(Step.make("a", { target: rebuilt })), { json })
  })

  test("PLAN-1 is absent where it is a text, or where it is not known yet", function* () {
    const texts = Agent.make("texts", {})
    assert.isUndefined(yield* outputOf(Step.make("a", { target: texts })))
    assert.deepStrictEqual(Agent.outputSchema(texts), Option.some(Schema.String))
    assert.isUndefined(yield* outputOf(Step.make("a", { target: Effect.flatMap(Critic, Effect.succeed) })))
    const inner = yield* Plan.bind(yield* Plan.make("inner", [asFunction("x")]))
    assert.isUndefined(yield* outputOf(Step.make("a", { target: inner })))
  })

  test("PLAN-1 routes, and types what later steps take", function* () {
    const plan = yield* Plan.make("plan", [
      Step.make("judge", { target: critic, routesBy: "next" }),
      Step.make("good", { input: Verdict, target: ({ payload }) => Effect.succeed(payload.at.getTime()) }),
      Step.make("bad", { input: Verdict, target: ({ payload }) => Effect.succeed(-payload.at.getTime()) })
    ])
    const result = yield* Plan.run(yield* Plan.bind(plan), "x").pipe(
      Effect.provide(ScriptedModel.layer([{ text: `{ "next": "bad", "at": "1970-01-01T00:00:00.005Z" }` }]))
    )
    assert.isTrue(result.outcome === "Completed" && result.output === -5)
    const name: string = "next"
    assert.deepStrictEqual(
      yield* problemsOf(
        Step.make("judge", { target: critic, routesBy: "next" }),
        Step.make("good", { input: Schema.Struct({ n: Schema.Int }), target: () => Effect.succeed(name) }),
        asFunction("bad")
      ),
      ["IncompatibleTypes good input"]
    )
  })

  test("PLAN-2 and an output that it never fits is a problem, when made and when bound", function* () {
    const Other = Schema.Struct({ score: Schema.Int })
    const problems = yield* problemsOf(Step.make("a", { target: Critic, output: Other }))
    assert.deepStrictEqual(problems, ["IncompatibleTypes a output"])
    const plan = yield* Plan.make("plan", [Step.make("a", { target: "judge", output: Other })])
    const error = yield* Effect.flip(Plan.bind(plan, { agents: { judge: critic } }))
    assert.include(error.message, `Step "a" (#0) at output: expected an output that the agent "judge" can return`)
    const wider = Schema.Struct({ next: Schema.String })
    const fits = yield* Plan.make("plan", [Step.make("a", { target: critic, output: wider })])
    assert.deepStrictEqual(fits.definition.steps[0]?.output?.json?.["required"], ["next"])
  })
})
