/** MONEY-5: structured output that is shown while it arrives. */
import { assert, describe, expectTypeOf } from "@effect/vitest"
import { type DateTime, Effect, Layer, Option, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { Agent, AgentDefinition, AgentEvent, Guard, ModelRegistry, ToolResolver } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"

const strategies: ReadonlyArray<AgentDefinition.OutputStrategy> = ["native", "prompted", "tool"]

/** The turn of a model that answers with these values, as text or as a call of the output tool. */
const turnOf = (strategy: AgentDefinition.OutputStrategy, json: string): ScriptedModel.Turn =>
  strategy === "tool"
    ? { toolCalls: [{ id: "c1", name: "final_answer", params: json as never }] }
    : { text: strategy === "prompted" ? `Sure [1]:\n\`\`\`json\n${json}\n\`\`\`` : json }

const deltasIn = <A>(events: ReadonlyArray<AgentEvent.AgentEvent<A>>) =>
  events.flatMap((event) => (event._tag === "OutputDelta" ? [event] : []))

const eventsOf = <A, R>(
  agent: Agent.Agent<A, LanguageModel.LanguageModel | R>,
  script: ScriptedModel.Script,
  options: ScriptedModel.Options = { chunkSize: 3 }
) =>
  agent
    .stream("Go", { retry: { times: 1, delay: 0 } })
    .pipe(
      Stream.rechunk(1),
      AgentEvent.showOutput,
      Stream.runCollect,
      Effect.provide(ScriptedModel.layer(script, options))
    )

class Person extends Schema.Class<Person>("Person")({ name: Schema.String, born: Schema.DateTimeUtcFromString }) {}

const Form = Schema.Struct({
  title: Schema.String,
  due: Schema.DateTimeUtcFromString,
  count: Schema.Int,
  code: Schema.String.check(Schema.isMaxLength(8)),
  size: Schema.Literals(["small", "smallest"]),
  note: Schema.optionalKey(Schema.String),
  owner: Person,
  place: Schema.Struct({ city: Schema.String, tags: Schema.Array(Schema.String) }),
  items: Schema.Array(Schema.Struct({ name: Schema.String, price: Schema.OptionFromNullOr(Schema.Finite) }))
})

const form = {
  title: "A list",
  due: "2026-01-02T00:00:00.000Z",
  count: 1234,
  code: "AB-12",
  size: "smallest",
  owner: { name: "Ada", born: "1815-12-10T00:00:00.000Z" },
  place: { city: "Rome", tags: ["hot", "old"] },
  items: [
    { name: "bread", price: 2.5 },
    { name: "milk", price: null }
  ]
}

const Cities = Schema.Struct({ cities: Schema.Array(Schema.String.check(Schema.isMinLength(2))) })

describe("MONEY-5 what is no output", () => {
  const Title = Schema.Struct({ title: Schema.String })
  const toolkit = Toolkit.make(Tool.make("look", { parameters: Title, success: Schema.String }))

  test("the arguments of a tool are not shown, and a text has no half of a character", function* () {
    const agent = Agent.make("guide", { output: Title, outputStrategy: "prompted", toolkit })
    const events = yield* eventsOf(agent, [
      { toolCalls: [{ id: "c1", name: "look", params: { title: "arguments" } }] },
      { text: '{"title":"a\\ud800b"}' }
    ]).pipe(Effect.provide(toolkit.toLayer({ look: () => Effect.succeed("seen") })))
    assert.notInclude(JSON.stringify(deltasIn(events)), "arguments")
    const last = deltasIn(events).at(-1)?.value
    assert.isTrue(last?.title?.isWellFormed())
  })
})

describe("MONEY-5 MONEY-4 structured output and guards of the output", () => {
  const guarded = (
    outputStrategy: AgentDefinition.OutputStrategy,
    verdict: Guard.Verdict<"output">,
    on: "afterModel" | "output"
  ) =>
    eventsOf(
      Agent.make("guarded", {
        output: Cities,
        outputStrategy,
        guards: [Guard.make("guard", { on, check: () => Effect.succeed(verdict) })]
      }),
      [turnOf(outputStrategy, JSON.stringify({ cities: ["Rome", "Turin"] }))]
    )

  for (const outputStrategy of strategies) {
    test(`MONEY-5 ${outputStrategy}: no part is shown before the guard has passed the output`, function* () {
      for (const on of ["afterModel", "output"] as const) {
        for (const verdict of [Guard.refuse("No."), Guard.ask("May it pass?")]) {
          const events = yield* guarded(outputStrategy, verdict, on)
          assert.deepStrictEqual(deltasIn(events), [])
          const shown = events.filter(({ _tag }) => _tag === "TextDelta" || _tag === "CallDelta")
          assert.deepStrictEqual(shown, [])
        }
        const passed = deltasIn(yield* guarded(outputStrategy, Guard.pass, on))
        assert.deepStrictEqual(passed.at(-1)?.value, { cities: ["Rome", "Turin"] })
        const other = JSON.stringify({ cities: ["Bari"] })
        const replaced = deltasIn(yield* guarded(outputStrategy, Guard.replace(other), on))
        assert.deepStrictEqual(replaced.at(-1)?.value, { cities: ["Bari"] })
        assert.notInclude(JSON.stringify(replaced), "Rome")
      }
    })
  }
})

describe("MONEY-5 structured output in parts", () => {
  for (const outputStrategy of strategies) {
    test(`MONEY-5 ${outputStrategy}: a form fills itself: fields come whole and decoded, texts grow`, function* () {
      const agent = Agent.make("clerk", { output: Form, outputStrategy })
      const events = yield* eventsOf(agent, [turnOf(outputStrategy, JSON.stringify(form))])
      const values = deltasIn(events).map(({ value }) => value)
      const last = events.at(-1)
      assert(last?._tag === "RunFinished" && last.result.outcome === "Completed")
      const shown = values.at(-1)
      assert.deepStrictEqual(shown?.items, last.result.output.items)
      assert.deepStrictEqual(shown?.items?.[1]?.price, Option.none())
      // A class is shown as its fields
      assert.deepStrictEqual({ ...shown, owner: undefined }, { ...last.result.output, owner: undefined } as never)
      assert.deepStrictEqual({ ...shown?.owner }, { ...last.result.output.owner })
      assert.includeMembers(
        values.map((value) => value?.title),
        ["A ", "A list"]
      )
      for (const value of values) {
        assert.include([undefined, 1234], value?.count)
        assert.include([undefined, "AB-12"], value?.code)
        assert.include([undefined, "smallest"], value?.size)
        for (const item of value?.items ?? []) assert.include(["bread", "milk"], item.name)
      }
      assert.deepStrictEqual([...new Set(values.map((value) => value?.items?.length))], [undefined, 0, 1, 2])
      expectTypeOf(values).toEqualTypeOf<Array<AgentEvent.DeepPartial<typeof Form.Type> | undefined>>()
      expectTypeOf(shown?.due).toEqualTypeOf<DateTime.Utc | undefined>()
      expectTypeOf(shown?.place?.city).toEqualTypeOf<string | undefined>()
    })
  }

  const Any = Schema.Struct({
    text: Schema.String,
    inner: Schema.Struct({ on: Schema.NullOr(Schema.Boolean), words: Schema.Array(Schema.String) }),
    rows: Schema.Array(Schema.Struct({ id: Schema.Int, label: Schema.String })),
    table: Schema.Record(Schema.String, Schema.Int)
  })
  test.prop(
    "MONEY-5 whatever is written, the last parts are the output, and items stay as they were shown",
    [Any, Schema.Literals(strategies), Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 40 }))],
    function* ([value, outputStrategy, chunkSize]) {
      // A text in an answer may have half a character, and what is shown has none
      if (/\\ud[89a-f]|__proto__/.test(JSON.stringify(value))) return
      const agent = Agent.make("writer", { output: Any, outputStrategy })
      const events = yield* eventsOf(agent, [turnOf(outputStrategy, JSON.stringify(value))], { chunkSize })
      const last = events.at(-1)
      assert(last?._tag === "RunFinished" && last.result.outcome === "Completed")
      const values = deltasIn(events).map(({ value }) => value)
      assert.deepStrictEqual(values.at(-1), last.result.output)
      values.reduce<(typeof values)[number]>((before, after) => {
        assert.isTrue(after?.text?.startsWith(before?.text ?? "") ?? before?.text === undefined)
        const count = before?.rows?.length ?? 0
        assert.deepStrictEqual(after?.rows?.slice(0, count) ?? [], before?.rows ?? [])
        return after
      }, undefined)
    },
    { arbitrary: { runs: 40 } }
  )

  test("MONEY-5 an item that does not fit, and what follows it, is never shown", function* () {
    const agent = Agent.make("guide", { output: Cities, outputStrategy: "prompted" })
    const events = yield* eventsOf(agent, [{ text: `{"cities":["Rome","X","Turin"]}` }])
    assert.deepStrictEqual(deltasIn(events).at(-1)?.value, { cities: ["Rome"] })
    const elements = yield* Stream.fromIterable(events).pipe(AgentEvent.elements("cities"), Stream.runCollect)
    assert.deepStrictEqual(elements, [{ _tag: "Element", index: 0, value: "Rome" }, { _tag: "Withdrawn" }])
  })

  test("MONEY-5 the items of an attempt that fails are withdrawn, and each item comes once", function* () {
    const agent = Agent.make("guide", { output: Cities })
    const events = yield* eventsOf(agent, [
      { text: `{"cities":["Rome","Turin","Mi`, fail: { reason: "RateLimitError" } },
      { object: { cities: ["Oslo", "Bergen"] } }
    ])
    const ids = new Set(deltasIn(events).map(({ messageId }) => messageId))
    assert.strictEqual(ids.size, 2)
    const elements = yield* Stream.fromIterable(events).pipe(AgentEvent.elements("cities"), Stream.runCollect)
    assert.deepStrictEqual(elements, [
      { _tag: "Element", index: 0, value: "Rome" },
      { _tag: "Element", index: 1, value: "Turin" },
      { _tag: "Withdrawn" },
      { _tag: "Element", index: 0, value: "Oslo" },
      { _tag: "Element", index: 1, value: "Bergen" }
    ])
    expectTypeOf(elements).toEqualTypeOf<Array<AgentEvent.Element<string>>>()
  })

  test("MONEY-5 a draft in the text is withdrawn for the value behind it", function* () {
    const agent = Agent.make("guide", { output: Cities, outputStrategy: "prompted" })
    const text = `Such as {"cities":["Rome"]}, but: {"cities":["Oslo","Bergen"]} as of {"source":"web"}`
    const events = yield* eventsOf(agent, [{ text }])
    assert.deepStrictEqual(deltasIn(events).at(-1)?.value, { cities: ["Oslo", "Bergen"] })
    const elements = yield* Stream.fromIterable(events).pipe(AgentEvent.elements("cities"), Stream.runCollect)
    assert.deepStrictEqual(
      elements.map((element) => (element._tag === "Element" ? element.value : element._tag)),
      ["Rome", "Withdrawn", "Oslo", "Bergen"]
    )
  })

  const outputs = [
    ["a list", Schema.Array(Schema.Struct({ n: Schema.Int })), [{ n: 1 }, { n: 22 }], 3],
    ["a text", Schema.String, "a long text", 4],
    ["a union", Schema.Union([Schema.Struct({ a: Schema.Int }), Schema.Struct({ b: Schema.Int })]), { b: 12 }, 1]
  ] as const
  for (const [name, output, value, pieces] of outputs) {
    test(`MONEY-5 an output that is no object is shown without its wrapper: ${name}`, function* () {
      const agent = Agent.make("writer", { output: output as Schema.Codec<unknown> })
      const events = yield* eventsOf(agent, [{ object: { value } }])
      const deltas = deltasIn(events)
      assert.deepStrictEqual(deltas.at(-1)?.value, value)
      assert.strictEqual(deltas.length, pieces)
    })
  }

  test("MONEY-5 an agent that came as data shows what its JSON Schema takes", function* () {
    const definition = yield* AgentDefinition.make({
      name: "planner",
      output: {
        strategy: "native",
        schema: {
          type: "object",
          properties: { name: { type: "string" }, kind: { enum: ["a", "ab"] }, rows: { $ref: "#/$defs/Rows" } },
          required: ["name"],
          additionalProperties: false,
          $defs: { Rows: { type: "array", items: { $ref: "#/$defs/Row" } }, Row: { type: "integer", maximum: 9 } }
        }
      }
    })
    const model = ScriptedModel.layer([{ text: `{"name":"Ada","kind":"ab","rows":[1,2,33,4]}` }], { chunkSize: 2 })
    const services = Layer.mergeAll(ToolResolver.layerStubs(), ModelRegistry.layer({}), model)
    const events = yield* Effect.flatMap(Agent.bind(definition), (agent) =>
      Stream.runCollect(AgentEvent.showOutput(agent.stream("Go")))
    ).pipe(Effect.provide(services))
    const values = deltasIn(events).map(({ value }) => value)
    assert.deepStrictEqual(values.at(-1), { name: "Ada", kind: "ab", rows: [1, 2] })
  })

  test("MONEY-5 a null for a key that may be absent is not shown", function* () {
    const agent = Agent.make("clerk", {
      output: Schema.Struct({ note: Schema.optionalKey(Schema.String), n: Schema.Int })
    })
    const events = yield* eventsOf(agent, [{ object: { note: null, n: 1 } }])
    assert.deepStrictEqual(deltasIn(events).at(-1)?.value, { n: 1 })
  })

  test("MONEY-5 a model whose adapter streams no objects shows all parts at once", function* () {
    const agent = Agent.make("guide", { output: Cities })
    const other = Layer.effect(
      LanguageModel.LanguageModel,
      Effect.map(LanguageModel.LanguageModel, (model): LanguageModel.LanguageModel => ({ ...model }))
    ).pipe(Layer.provide(ScriptedModel.layer([{ object: { cities: ["Rome", "Turin"] } }])))
    const events = yield* agent.stream("Go").pipe(AgentEvent.showOutput, Stream.runCollect, Effect.provide(other))
    assert.deepStrictEqual(
      deltasIn(events).map(({ value }) => value),
      [{ cities: ["Rome", "Turin"] }]
    )
  })
})
