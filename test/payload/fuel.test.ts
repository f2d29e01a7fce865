import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Result, Schema } from "effect"
import { RE2JS } from "re2js"
import * as fuel from "#src/payload/internal/fuel.ts"
import * as interpret from "#src/payload/internal/interpret.ts"
import * as patterns from "#src/payload/internal/patterns.ts"
import { AgentDefinition, Limits } from "effect-emissary"
import { JsonSchema } from "effect-emissary/payload"
import { Plan } from "effect-emissary/plan"
import { attacks } from "../../bench/hostile/attacks.ts"
import agentWire from "../golden/wire/agent-v2-written.wire.json" with { type: "json" }
import { failsFor } from "../outcomes.ts"
import planWire from "../plan/golden-wire/plan-v3-everything-written.wire.json" with { type: "json" }
import { test } from "../test.ts"
import { random } from "./jsonschema/random.ts"
import { validateWith } from "./validate-with.ts"

const order = (title: string) => ({
  title,
  type: "object",
  properties: { id: { type: "string", pattern: "^[a-z]+$" }, lines: { type: "array", items: { type: "integer" } } },
  required: ["id"]
})

const spentBy = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.map(fuel.measure(effect), ({ exit, spent }) => {
    assert.isTrue(Exit.isSuccess(exit))
    return spent
  })

describe("TRUST-3 fuel", () => {
  it("TRUST-3 a value takes a unit for each part, each key and each 16 characters", () => {
    let deep: unknown = 1
    for (let i = 0; i < 100_000; i++) deep = [deep]
    const values = [
      null,
      1,
      undefined,
      "",
      "x".repeat(16),
      [],
      [1, "x".repeat(8)],
      {},
      { ["k".repeat(8)]: [true] },
      deep
    ]
    assert.deepStrictEqual(values.map(fuel.ofValue), [1, 1, 1, 1, 2, 1, 3.5, 1, 4.5, 100_001])
  })

  it("TRUST-3 a counter is empty once more than its limit was taken", () => {
    const tank = fuel.make(2)
    const steps = [1, 1, 0.5, 0].map((amount) => [fuel.spend(tank, amount), fuel.isEmpty(tank)])
    assert.deepStrictEqual(steps, [
      [true, false],
      [true, false],
      [false, true],
      [false, true]
    ])
  })

  test("TRUST-3 a door inside a door is a part of it, with the counter and the limit of the outer one", function* () {
    const spentAfter = (amount: number) =>
      Effect.map(Effect.andThen(fuel.pay(amount, "work"), fuel.current), ({ limit, spent }) => [limit, spent])
    const two = (limits?: Partial<Limits.Limits>) => Effect.all([spentAfter(3), fuel.doorWithin(limits, spentAfter(4))])
    const alone = yield* two({ maxFuel: 4 })
    assert.deepStrictEqual(alone, [
      [600_000, 0],
      [4, 4]
    ])
    assert.deepStrictEqual(yield* fuel.doorWithin({ maxFuel: 7 }, two()), [
      [7, 3],
      [7, 7]
    ])
    assert.deepStrictEqual(yield* fuel.doorWithin({ maxFuel: 7 }, two({ maxFuel: 1 })), [
      [7, 3],
      [7, 7]
    ])
    const { message, reason } = yield* Effect.flip(fuel.doorWithin({ maxFuel: 6.5 }, two()))
    assert.deepStrictEqual(reason, { _tag: "TooLarge", what: "fuel", limit: 6.5, found: 7, path: "" })
    assert.isTrue(message.startsWith("work at the root: expected at most 6.5 units of fuel"), message)
    const maxDepth = Effect.map(Limits.Limits, (limits) => limits.maxDepth)
    assert.strictEqual(yield* fuel.doorWithin({ maxDepth: 3 }, maxDepth), 3)
    assert.strictEqual(yield* fuel.doorWithin(undefined, maxDepth), 64)
  })

  test("TRUST-3 a schema takes the same fuel, whether it was compiled before or not", function* () {
    const document = order("cached")
    const first = yield* spentBy(JsonSchema.make(document))
    assert.isAbove(first, 500)
    assert.strictEqual(yield* spentBy(JsonSchema.make(document)), first)
    assert.strictEqual(yield* spentBy(JsonSchema.make(structuredClone(document))), first)
  })

  test("TRUST-3 a schema is paid once per door, and refused as a whole where there is too little fuel for it", function* () {
    const first = yield* spentBy(JsonSchema.make(order("twice")))
    const make = Effect.suspend(() => JsonSchema.make(order("twice")))
    assert.strictEqual(yield* spentBy(Effect.all([make, make])), first)
    const limits = { maxFuel: first - 1 }
    const { path, reason } = yield* Effect.flip(JsonSchema.make(order("twice"), { limits }))
    assert.deepStrictEqual([path, reason], ["", "TooLarge"])
  })

  test("TRUST-3 a text of at most 16 KiB is known when it comes again", function* () {
    const again = (length: number) =>
      Effect.map(Effect.all([0, 1].map(() => JsonSchema.make({ title: "t".repeat(length - 12) }))), ([a, b]) => a === b)
    assert.deepStrictEqual(yield* Effect.all([16_384, 16_385].map(again)), [true, false])
  })

  test("TRUST-3 a value takes the same fuel each time it is validated", function* () {
    const schema = yield* JsonSchema.make({
      $ref: "#/$defs/all",
      $defs: { all: { properties: { a: { default: { b: 1 }, properties: { b: true, c: { default: [1, 2] } } } } } }
    })
    const spent = () => {
      const tank = fuel.make(1000)
      assert.isTrue(Result.isSuccess(validateWith(tank, schema, {})))
      return tank.spent
    }
    const first = spent()
    assert.strictEqual(spent(), first)
    assert.strictEqual(spent(), first)
  })

  test("TRUST-3 all schemas of an artefact share its fuel, and the error names the limit", function* () {
    const definition = (tools: number) => ({
      schema_version: 2,
      name: "a",
      model: "m/x",
      model_options: {},
      max_steps: 1,
      tools: Array.from({ length: tools }, (_, n) => ({
        name: `t${n}`,
        description: "d",
        parameters: order(`t${n}`),
        timeout: 1000,
        approval: "never",
        annotations: {}
      }))
    })
    const one = yield* spentBy(AgentDefinition.codec.decode(definition(1)))
    const limits = { maxFuel: 10.5 * one }
    yield* AgentDefinition.codec.decode(definition(10), { limits })
    const error = yield* failsFor("TooLarge", AgentDefinition.codec.decode(definition(11), { limits }))
    assert.strictEqual(error.reason.what, "fuel")
    assert.match(error.reason.path, /^\/tools\/10\/parameters/)
    assert.include(error.message, "raise maxFuel")
  })

  test("TRUST-3 a schema of an artefact takes the same fuel each time it comes, and no owner changes it for others", function* () {
    const definition = (tools: number) => ({
      schema_version: 2,
      tools: Array.from({ length: tools }, (_, n) => ({ name: `t${n}`, parameters: order("owned") }))
    })
    const spent: Array<number> = []
    for (const tools of [3, 3, 1, 1]) {
      const decoded = yield* spentBy(
        Effect.tap(AgentDefinition.codec.decode(definition(tools)), (one) =>
          Effect.forEach(one.tools, ({ parameters }) => JsonSchema.make(parameters))
        )
      )
      spent.push(decoded)
    }
    assert.strictEqual(new Set(spent).size, 1)

    for (let round = 0; round < 4; round++) {
      const { tools } = yield* AgentDefinition.codec.decode({
        schema_version: 2,
        tools: [{ name: "t", parameters: { ...order("changed"), enum: [{ id: "a" }, { id: "b" }] } }]
      })
      const [tool] = tools
      assert.isDefined(tool)
      const schema = yield* JsonSchema.make(tool.parameters)
      // Its owner changes it, against the types
      const members: unknown = tool.parameters["enum"]
      assert(Array.isArray(members))
      members.length = 0
      Object.assign(tool.parameters, { type: "string" })
      if (round > 0) assert.isTrue(JsonSchema.accepts(schema, { id: "a" }))
    }
  })

  test.prop(
    "TRUST-3 every check that runs was paid for, and the answer under a smaller limit is the same or a problem about fuel",
    [Schema.Int],
    function* ([seed]) {
      const { document, value } = random(seed)
      const json = document()
      const schema = yield* JsonSchema.make({ ...json, title: `counted ${seed}` })
      const calls = countChecks(interpret.rootOf(schema))
      for (let i = 0; i < 5; i++) {
        const input = value()
        calls.count = 0
        const tank = fuel.make(1_000_000)
        const free = validateWith(tank, schema, input)
        assert.isAtMost(calls.count, tank.spent)
        for (const part of [0.1, 0.5, 0.9]) {
          const limit = tank.spent * part
          calls.count = 0
          const bounded = validateWith(fuel.make(limit), schema, input)
          assert.isAtMost(calls.count, limit)
          if (Result.isFailure(bounded) && bounded.failure[0]?.keyword === "fuel") {
            assert.include(bounded.failure[0].fix, "raise maxFuel")
          } else assert.deepStrictEqual(bounded, free)
        }
      }
    },
    { arbitrary: { runs: 100 } }
  )

  test.prop(
    "TRUST-3 the size of a pattern's program is known before it is compiled",
    [Schema.Array(Schema.Int)],
    function* ([seeds]) {
      const source = patternOf(seeds)
      const compiled = Result.try(() => RE2JS.compile(source))
      if (Result.isSuccess(compiled)) {
        assert.isAtLeast(patterns.boundProgramSize(source), compiled.success.programSize(), source)
      }
      yield* Effect.void
    },
    { arbitrary: { runs: 500 } }
  )

  test("TRUST-3 a pattern that is too large is refused before it is compiled", function* () {
    const tank = fuel.make(1_000_000)
    const refused = patterns.compilePattern("(?:a{0,1000})".repeat(150), tank, undefined)
    assert.isTrue(Result.isFailure(refused))
    assert.isBelow(tank.spent, 50_000)
    yield* Effect.void
  })

  test.prop(
    "TRUST-3 mutated payloads spend no more than the limit",
    [Schema.Array(Schema.Int)],
    function* ([seeds]) {
      const decodes: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
        AgentDefinition.codec.decode(mutate(agentWire, seeds)),
        Plan.decode(mutate(planWire, seeds))
      ]
      for (const decode of decodes) {
        const { exit, spent } = yield* fuel.measure(decode)
        assert.isFalse(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.isBelow(spent, 800_000)
      }
    },
    { arbitrary: { runs: 100 } }
  )

  for (const [name, { attack, make, max = 50 }] of Object.entries(attacks)) {
    test(`TRUST-3 ends with a typed error or a result: ${name}`, function* () {
      // Sound: an attack gets the input that it made.
      const { exit, spent } = yield* fuel.measure(attack(make(Math.ceil(Math.min(max, 50) / 4)) as never))
      assert.isFalse(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      // The last thing that is paid may go over the limit
      assert.isBelow(spent, 800_000)
    })
  }

  test("TRUST-3 a Proxy that throws is a typed error", function* () {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    const traps = ["ownKeys", "getPrototypeOf", "getOwnPropertyDescriptor"].map(
      (trap) => new Proxy({ a: 1 }, { [trap]: () => assert.fail("a trap") })
    )
    const schema = yield* JsonSchema.make({ type: "object" })
    for (const hostile of [proxy, ...traps]) {
      assert.isTrue(Result.isFailure(JsonSchema.validate(schema, hostile)))
      assert.strictEqual((yield* Effect.flip(JsonSchema.make(hostile))).reason, "NotASchema")
    }
  })

  test("TRUST-3 an array of many items is compared without a spread", function* () {
    const limits = { maxArrayLength: 1_000_000, maxNodes: 1_000_000, maxFuel: 1_000_000 }
    const many = Array.from({ length: 150_000 }, (_, index) => index)
    for (const schema of [{ uniqueItems: true }, { not: { const: 1 } }, { not: { enum: [[1]] } }]) {
      const checked = JsonSchema.validate(yield* JsonSchema.make(schema), many, { limits })
      assert.isTrue(Result.isSuccess(checked))
    }
  })
})

/** Counts the calls of all checks of a schema. */
const countChecks = (root: interpret.Node): { count: number } => {
  const calls = { count: 0 }
  const nodes = new Set([root])
  for (const node of nodes) {
    node.checks = node.checks.map((check) => (value, at, run) => {
      calls.count++
      return check(value, at, run)
    })
    const { additional, combined, dependents, parts, patterns: named, prefix, properties, reference, rest } = node
    const inner = [
      additional,
      reference,
      rest,
      ...prefix,
      ...properties.values(),
      ...Object.values(combined).flat(),
      ...Object.values(parts),
      ...named.map(([, part]) => part),
      ...dependents.map(([, part]) => part)
    ]
    for (const part of inner) if (part !== undefined) nodes.add(part)
  }
  return calls
}

const pieces = [
  "a",
  "[a-z]",
  "\\d",
  "\\b",
  "^",
  "$",
  "|",
  "(",
  "(?:",
  ")",
  "*",
  "+",
  "?",
  "{3}",
  "{2,}",
  "{0,4}",
  "{0}",
  "\\x{41}",
  "."
]

/** A text of pieces of regular expressions, with its groups closed. */
const patternOf = (seeds: ReadonlyArray<number>): string => {
  let open = 0
  const source = seeds.map((seed) => {
    const piece = pieces[Math.abs(seed) % pieces.length] ?? ""
    if (piece === ")" && open === 0) return "b"
    open += piece.startsWith("(") ? 1 : piece === ")" ? -1 : 0
    return piece
  })
  return source.join("") + ")".repeat(open)
}

const junk = [
  null,
  1,
  "x".repeat(1000),
  [],
  {},
  { $ref: "#" },
  { type: ["object", "object"] },
  { pattern: "(a{9}){9}" }
]

/** A copy in which one place is replaced, chosen by the numbers. */
const mutate = (json: unknown, seeds: ReadonlyArray<number>): unknown => {
  const [seed = 0, ...rest] = seeds
  if (rest.length === 0 || typeof json !== "object" || json === null) return junk[Math.abs(seed) % junk.length]
  const keys = Object.keys(json)
  const key = keys[Math.abs(seed) % Math.max(1, keys.length)]
  if (key === undefined) return junk[0]
  if (Array.isArray(json)) return json.map((item, index) => (String(index) === key ? mutate(item, rest) : item))
  return Object.fromEntries(
    Object.entries(json).map(([name, member]) => [name, name === key ? mutate(member, rest) : member])
  )
}
