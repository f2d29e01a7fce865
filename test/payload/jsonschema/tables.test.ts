import { describe, expect, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { createHash } from "node:crypto"
import * as fuel from "#src/payload/internal/fuel.ts"
import * as patterns from "#src/payload/internal/patterns.ts"
import { JsonSchema } from "effect-emissary/payload"
import { Re2 } from "effect-emissary/re2"
import { validateWith } from "../validate-with.ts"

const engine = Effect.runSync(Effect.provide(Effect.service(patterns.PatternEngine), Re2.layer))

// The texts under golden were read once. After a change of a message or of a rule: read the difference, then `vitest -u`.

/** A text per group: the names of what has the same effect, and the effect. */
const grouped = <A>(entries: ReadonlyArray<readonly [name: string, value: A]>, effectOf: (value: A) => string) => {
  const groups = new Map<string, ReadonlyArray<string>>()
  for (const [name, value] of entries) {
    const effect = effectOf(value)
    groups.set(effect, [...(groups.get(effect) ?? []), name])
  }
  return Array.from(groups, ([effect, names]) => `${names.join(" | ")}\n  ${effect}`).join("\n")
}

const named = (values: ReadonlyArray<unknown>) => values.map((value) => [JSON.stringify(value), value] as const)

const schemas: ReadonlyArray<object> = [
  { allOf: [true] },
  { allOf: [false] },
  ...["null", "boolean", "integer", "number", "string", "array", "object"].map((type) => ({ type })),
  { type: ["integer", "null"] },
  { enum: ["a", 1, null] },
  { const: { a: 1 } },
  { minimum: 1 },
  { maximum: 1 },
  { exclusiveMinimum: 1 },
  { exclusiveMaximum: 1 },
  { multipleOf: 2 },
  { multipleOf: 0.1 },
  { multipleOf: 1e-22 },
  { minLength: 1 },
  { minLength: 2 },
  { maxLength: 1 },
  { maxLength: 0 },
  { pattern: "^a" },
  { format: "date" },
  { items: { type: "integer" } },
  { prefixItems: [{ type: "integer" }], items: false },
  { prefixItems: [true, { type: "string" }] },
  { minItems: 1 },
  { minItems: 3 },
  { maxItems: 1 },
  { uniqueItems: true },
  { contains: { type: "integer" } },
  { contains: { type: "integer" }, minContains: 2 },
  { contains: { type: "integer" }, minContains: 0, maxContains: 1 },
  { properties: { a: { type: "integer" } } },
  { properties: { a: { type: "integer", default: 7 } }, required: ["a"] },
  { properties: { a: { type: "integer" } }, required: ["a", "b"], additionalProperties: false },
  { properties: { a: { type: ["string", "null"] }, b: { type: "string" } }, additionalProperties: { type: "null" } },
  { patternProperties: { "^a": { type: "integer" } }, additionalProperties: false },
  { patternProperties: { b$: { type: "integer" } } },
  { minProperties: 1 },
  { minProperties: 2 },
  { maxProperties: 1 },
  { propertyNames: { maxLength: 1 } },
  { dependentRequired: { a: ["b", "c"] } },
  { dependentSchemas: { a: { required: ["b"] } } },
  { $schema: "http://json-schema.org/draft-07/schema#", dependencies: { a: ["b"], ab: { type: "array" } } },
  { $schema: "http://json-schema.org/draft-07/schema#", items: [{ type: "integer" }], additionalItems: { const: "a" } },
  { allOf: [{ required: ["a"] }, { properties: { a: { const: 1 } } }] },
  { anyOf: [{ type: "integer" }, { type: "array", minItems: 2 }] },
  { anyOf: [{ properties: { a: { const: 1 } }, required: ["a", "b"] }, { properties: { a: { const: "x" } } }] },
  { anyOf: [{ const: 1 }, { const: "a" }, { type: "object" }] },
  { oneOf: [{ type: "integer" }, { minimum: 1 }] },
  {
    oneOf: [
      { type: "object", properties: { a: { default: 1 } }, required: ["a"] },
      { type: "array", items: { type: "string" } }
    ]
  },
  { not: { type: "integer" } },
  { not: {} },
  { if: { type: "integer" }, then: { minimum: 1 }, else: { type: "array" } },
  { if: { required: ["a"] }, then: { required: ["b"] } },
  { $defs: { n: { type: "integer" } }, properties: { a: { $ref: "#/$defs/n" } } },
  { type: "object", properties: { a: { $ref: "#" } }, additionalProperties: false }
]

const values: ReadonlyArray<unknown> = [
  null,
  true,
  0,
  1,
  2,
  -1,
  1.5,
  0.3,
  1e300,
  "",
  "a",
  "ab",
  "ba",
  "1",
  "🙂",
  "2020-02-29",
  "2020-02-30",
  [],
  [1],
  [1, 1],
  [1, "a"],
  ["a"],
  ["a", "b"],
  [1, 2, 3],
  [null, { a: 1 }, { a: 1 }],
  "[1]",
  '{"a":1}',
  " [1 ",
  {},
  { a: 1 },
  { a: "x" },
  { a: null },
  { a: 1, b: 2 },
  { a: 1, b: "x", c: null },
  { b: 1 },
  { ab: 1 },
  { ab: "x" },
  { a: {} },
  { a: { a: 1 } },
  { a: { a: { b: 1 } } },
  { a: "1" },
  { a: "[1]" },
  { c: [] }
]

const refusalOf = ({ expected, fix, found, path, reason }: JsonSchema.JsonSchemaError) =>
  `${reason} at "${path}": expected ${expected}, got ${found}.${fix === undefined ? "" : ` ${fix}`}`

const made = (schema: unknown) => Effect.runSync(Effect.provide(Effect.result(JsonSchema.make(schema)), Re2.layer))

const file = (name: string) => `golden/${name}.txt`

describe("TOOL-4 tables of the interpreter", () => {
  it("TOOL-4 each schema accepts, completes or refuses each value as it did", async () => {
    const modes = [{}, { strict: true }, { coerce: true }]
    const table = schemas.map((schema) => {
      const checked = Result.getOrThrow(made(schema))
      const effectOf = (value: unknown) => {
        const effects = modes.map((options) => {
          const result = JsonSchema.validate(checked, value, options)
          if (Result.isFailure(result)) return JSON.stringify(result.failure)
          const same = JSON.stringify(result.success) === JSON.stringify(value)
          return same ? "accepted" : `completed to ${JSON.stringify(result.success)}`
        })
        return new Set(effects).size === 1 ? `${effects[0]}` : effects.join("\n  ")
      }
      return `# ${JSON.stringify(schema)}\n${grouped(named(values), effectOf)}\n`
    })
    await expect(table.join("\n")).toMatchFileSnapshot(file("values"))
  })

  it("TRUST-3 each schema takes as much fuel as it did: to be compiled, and for all values", async () => {
    const refs = (count: number, part: (next: object) => object) => ({
      $ref: "#/$defs/d0",
      $defs: Object.fromEntries(
        Array.from({ length: count }, (_, i) => [
          `d${i}`,
          i + 1 < count ? part({ $ref: `#/$defs/d${i + 1}` }) : { type: "string" }
        ])
      )
    })
    const twice = (next: object) => ({ type: "object", properties: { a: next, b: next } })
    const draft07 = "http://json-schema.org/draft-07/schema#"
    const more: ReadonlyArray<object> = [
      {},
      { title: "t".repeat(160), description: "d" },
      { type: "object", properties: { a: { type: "string" }, b: { items: { enum: ["x", "y".repeat(32)] } } } },
      { $schema: draft07, definitions: { a: { items: [{ const: 1 }, true] } }, $ref: "#/definitions/a" },
      { $schema: draft07, properties: { a: { dependencies: { b: ["c"], d: { type: "null" } } } } },
      { patternProperties: { "^a*$": { pattern: "^[ab]{2,4}$" }, b: {} }, additionalProperties: { minimum: 1 } },
      {
        allOf: [{ properties: { a: {} } }, { properties: { a: { type: "string" } } }, { allOf: [{ type: "object" }] }]
      },
      { allOf: [{ anyOf: [{ type: "object" }, { type: "array" }] }, { oneOf: [{ items: {} }, { properties: {} }] }] },
      {
        type: "object",
        anyOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/a" }],
        $defs: { a: { properties: { a: {} } } }
      },
      { $ref: "#/$defs/a", properties: { a: { type: "null" } }, $defs: { a: { additionalProperties: { const: 1 } } } },
      refs(5, (next) => next),
      refs(5, twice),
      refs(95, (next) => next),
      refs(5, (next) => ({ anyOf: [next, { type: "array", items: next }] })),
      refs(5, (next) => ({ allOf: [next, { properties: { a: next } }] })),
      refs(10, (next) => ({ properties: { a: { allOf: [next, { title: "x" }] } } })),
      refs(20, (next) => ({ oneOf: [next, next] })),
      refs(3, () => ({ properties: { a: { $ref: "#/$defs/d0" }, b: { items: { $ref: "#/$defs/d0" } } } })),
      refs(3, () => ({ anyOf: [{ properties: { a: { $ref: "#" } } }, { properties: { a: { $ref: "#" } } }] })),
      refs(3, () => ({ properties: { a: { $ref: "#/$defs/d0" } }, additionalProperties: { $ref: "#/$defs/d0" } }))
    ]
    const spentBy = (work: (tank: fuel.Fuel) => unknown, limit = 1_000_000) => {
      const tank = fuel.make(limit)
      work(tank)
      return Math.round(tank.spent * 1000) / 1000
    }
    const table = [...schemas, ...more].map((schema) => {
      const compiled = Effect.runSync(fuel.measure(JsonSchema.make(schema)))
      const checked = Result.getOrThrow(made(schema))
      const validated = spentBy((tank) => values.map((value) => validateWith(tank, checked, value)))
      const text = JSON.stringify(schema)
      const name = text.length > 150 ? `${text.slice(0, 150)}...` : text
      return `${name}\n  ${compiled.spent} and ${validated}\n`
    })
    await expect(table.join("")).toMatchFileSnapshot(file("fuel"))
  })

  it("TRUST-3 at most 100 schemas look at one value", () => {
    const chain = (length: number, from = 0) => ({
      allOf: [{ type: "string" }, { $ref: `#/$defs/d${from}` }],
      $defs: Object.fromEntries(
        Array.from({ length }, (_, i) => [
          `d${i}`,
          i + 1 < length ? { allOf: [true, { $ref: `#/$defs/d${i + 1}` }] } : {}
        ])
      )
    })
    const refusals = [48, 49, 50, 51].map((length) => {
      const result = made(chain(length))
      return Result.isSuccess(result) ? "accepted" : refusalOf(result.failure)
    })
    const tooDeep = 'TooDeep at "/$defs/d49": expected at most 100 schemas about one value, got more.'
    expect(refusals).toEqual(["accepted", "accepted", tooDeep, tooDeep])
  })

  it("TRUST-3 at most 100 schemas look at one value, also when the chain is known from its end", () => {
    const chain = (length: number) => ({
      $defs: Object.fromEntries(
        Array.from({ length }, (_, i) => [`d${i}`, i === 0 ? {} : { $ref: `#/$defs/d${i - 1}` }])
      )
    })
    const paths = [99, 100, 101, 102].map((length) => {
      const result = made(chain(length))
      return Result.isSuccess(result) ? "accepted" : result.failure.path
    })
    expect(paths).toMatchInlineSnapshot(`
      [
        "accepted",
        "accepted",
        "/$defs/d100",
        "/$defs/d100",
      ]
    `)
    const cycle = made({ allOf: [{ $ref: "#/$defs/a" }], $defs: { a: {}, b: { not: { $ref: "#/$defs/b" } } } })
    expect(Result.isFailure(cycle) && cycle.failure.found).toBe('"#/$defs/b"')
  })

  it("TRUST-3 a value is checked by at most 700 schemas inside one another", () => {
    const checked = Result.getOrThrow(made({ properties: { a: { $ref: "#" } } }))
    const answers = [349, 350, 351].map((depth) => {
      let value: object = {}
      for (let i = 0; i < depth; i++) value = { a: value }
      const result = JsonSchema.validate(checked, value, { limits: { maxDepth: 1000 } })
      return Result.isSuccess(result) ? "accepted" : result.failure
    })
    expect(answers).toMatchInlineSnapshot(`
      [
        "accepted",
        [
          {
            "expected": "at most 700 schemas inside one another for one value",
            "fix": "Send flatter data, or simplify the schema",
            "found": "more",
            "keyword": "fuel",
            "path": "",
          },
        ],
        [
          {
            "expected": "at most 700 schemas inside one another for one value",
            "fix": "Send flatter data, or simplify the schema",
            "found": "more",
            "keyword": "fuel",
            "path": "",
          },
        ],
      ]
    `)
  })

  it("TRUST-3 the paths of all problems together are bounded", () => {
    const checked = Result.getOrThrow(made({ additionalProperties: { items: { type: "string" } } }))
    const counts = [1, 1_000_000].map((length) => {
      const result = JsonSchema.validate(checked, { ["k".repeat(length)]: [1, 2, 3] })
      return Result.isFailure(result) && result.failure.length
    })
    expect(counts).toEqual([3, 1])
  })

  it("TRUST-3 each text that may hold JSON takes as much fuel as it did, and is parsed as it was", () => {
    const cases: ReadonlyArray<readonly [object, string]> = [
      [{ type: "array" }, "[1, 2, 3]"],
      [{ type: "array" }, `[${" ".repeat(160)}]`],
      [{ type: "array" }, '{"a": 1}'],
      [{ type: "array" }, "[1"],
      [{ type: "array" }, "text"],
      [{ type: "object" }, ' {"a": [{"b": "cc"}]}'],
      [{ type: "number" }, "[1, 2, 3]"],
      [{ type: ["array", "string"] }, "[1, 2, 3]"],
      [{ allOf: [{ type: ["array", "object"] }, { type: "object" }] }, "{}"]
    ]
    const table = cases.map(([schema, text]) => {
      const checked = Result.getOrThrow(made(schema))
      const answers = [1_000_000, 12, 5].map((limit) => {
        const tank = fuel.make(limit)
        const result = validateWith(tank, checked, text, { coerce: true })
        const answer = Result.isSuccess(result) ? JSON.stringify(result.success) : result.failure[0]?.expected
        return `${answer} (${tank.spent})`
      })
      return `${JSON.stringify(schema)} ${text.slice(0, 30)}: ${answers.join(", ")}`
    })
    expect(table.join("\n")).toMatchInlineSnapshot(`
      "{"type":"array"} [1, 2, 3]: [1,2,3] (41.25), at most 12 units of fuel, the measure of work (37.25), at most 5 units of fuel, the measure of work (5.25)
      {"type":"array"} [                             : [] (52.5), at most 12 units of fuel, the measure of work (43.5), at most 5 units of fuel, the measure of work (43.5)
      {"type":"array"} {"a": 1}: array (40.5), at most 12 units of fuel, the measure of work (29.5), at most 5 units of fuel, the measure of work (29.5)
      {"type":"array"} [1: array (14.5), at most 12 units of fuel, the measure of work (14.5), at most 5 units of fuel, the measure of work (14.5)
      {"type":"array"} text: array (15), at most 12 units of fuel, the measure of work (15), at most 5 units of fuel, the measure of work (15)
      {"type":"object"}  {"a": [{"b": "cc"}]}: {"a":[{"b":"cc"}]} (61.25), at most 12 units of fuel, the measure of work (58.25), at most 5 units of fuel, the measure of work (8.25)
      {"type":"number"} [1, 2, 3]: number (13), at most 12 units of fuel, the measure of work (13), at most 5 units of fuel, the measure of work (13)
      {"type":["array","string"]} [1, 2, 3]: "[1, 2, 3]" (3), "[1, 2, 3]" (3), "[1, 2, 3]" (3)
      {"allOf":[{"type":["array","object"]},{"type":"object"}]} {}: {} (17.5), at most 12 units of fuel, the measure of work (13.5), at most 5 units of fuel, the measure of work (5.5)"
    `)
  })

  it("TRUST-3 a schema that is out of fuel is refused with the place, also in a pattern", () => {
    const schema = { properties: { a: { properties: { b: { pattern: "^fuel+$" } } } } }
    for (const [maxFuel, path, found] of [
      [20, "", 64],
      [100, "/properties/a", 128],
      [500, "/properties/a/properties/b/pattern", 520]
    ] as const) {
      const error = Effect.runSync(Effect.flip(JsonSchema.make(schema, { limits: { maxFuel } })))
      const fix = "Send less, or raise maxFuel in the limits of this call"
      const units = `at most ${maxFuel} units of fuel, the measure of work, got at least ${found}`
      expect(refusalOf(error)).toBe(`TooLarge at "${path}": expected ${units}. ${fix}`)
    }
  })

  it("CODEC-4 each schema has the strict form that it had, or none", async () => {
    const string = { type: "string" }
    const closed = (properties: object, required: ReadonlyArray<unknown> = Object.keys(properties)) => ({
      type: "object",
      properties,
      required,
      additionalProperties: false
    })
    const more: ReadonlyArray<object> = [
      {},
      { type: "object", properties: {} },
      { type: "object", additionalProperties: false },
      { type: "object", additionalProperties: string },
      { type: "object", properties: { a: string }, additionalProperties: true },
      closed({ a: string, b: string }),
      closed({ a: string, b: string }, ["b", "a"]),
      closed({ a: string, b: string }, ["b", "b"]),
      closed({ a: string }, ["c"]),
      closed({ a: string }, [1, "a"]),
      ...[
        string,
        { type: ["string", "null"] },
        { type: ["string", "integer"] },
        { enum: ["a"] },
        { enum: ["a", null] },
        { enum: ["a"], type: ["string", "null"] },
        { const: 1 },
        { const: null },
        { $ref: "#/$defs/a" },
        { anyOf: [string, { type: "integer" }] },
        { anyOf: [string, { type: "null" }] },
        { anyOf: [{ anyOf: [{ const: null }] }] },
        { type: "array", items: string },
        { type: "array", items: {} },
        { type: "array" },
        { type: "integer", default: 1, minimum: 0, description: "d" },
        closed({ b: string }, []),
        { type: "object" }
      ].flatMap((a) => [closed({ a }, []), closed({ a })]),
      { type: "array", items: true },
      { anyOf: [string, closed({ a: string }, [])] },
      { anyOf: [string, { type: "object" }] },
      { anyOf: [string, true] },
      { $ref: "#/$defs/a", $defs: { a: closed({ a: string }, []) } },
      { $ref: "#/$defs/a", $defs: { "a/b": {} } },
      { $ref: "#/definitions/a", definitions: { a: closed({ a: string }, []) } }
    ]
    const table = [...schemas, ...more].map((given) => {
      const schema: Parameters<typeof JsonSchema.toStrict>[0] = JSON.parse(JSON.stringify(given))
      const strict = JsonSchema.toStrict(schema)
      if (Result.isFailure(strict)) return `${JSON.stringify(schema)}\n  ${strict.failure.message}\n`
      const form = JSON.stringify(strict.success)
      return `${JSON.stringify(schema)}\n  ${JsonSchema.isStrict(schema) ? "is strict" : form}\n`
    })
    await expect(table.join("")).toMatchFileSnapshot(file("strict"))
  })

  it("TOOL-6 each Schema is exported as it was, or refused", async () => {
    interface List {
      readonly rest?: List
    }
    const List = Schema.Struct({
      rest: Schema.optionalKey(Schema.suspend((): Schema.Codec<List> => List))
    }).annotate({ identifier: "List" })
    const Name = Schema.NonEmptyString.annotate({ identifier: "Name", description: "A name" })
    const Point = Schema.Struct({ x: Schema.Int }).annotate({ identifier: "Point" })
    const cases: Readonly<Record<string, Schema.Constraint>> = {
      "no keys": Schema.Struct({}),
      "an integer with bounds": Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 9 })),
      "a finite number": Schema.Finite,
      "a text with checks": Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(3), Schema.isPattern(/^a/u)),
      "a text with two patterns": Schema.String.check(Schema.isPattern(/^a/u), Schema.isPattern(/b$/u)),
      "a check with a title": Schema.Int.check(Schema.isGreaterThan(0, { title: "positive", description: "d" })),
      "notes of all kinds": Schema.String.annotate({
        title: "T",
        description: "D",
        default: "a",
        examples: ["a", "b"]
      }),
      "literals of one type": Schema.Literals(["a", "b", "a"]),
      "literals of two types": Schema.Literals(["a", 1]),
      "literals and null": Schema.NullOr(Schema.Literals(["a", "b"])),
      "one literal and null": Schema.NullOr(Schema.Literal("a")),
      "a text or null": Schema.NullOr(Schema.String),
      "a text with a note or null": Schema.NullOr(Schema.String).annotate({ description: "d" }),
      "a text with a note of its own or null": Schema.NullOr(Schema.String.annotate({ description: "d" })),
      "both notes": Schema.NullOr(Schema.String.annotate({ description: "a" })).annotate({ description: "b" }),
      "null alone": Schema.Null,
      "a text or a null with a note": Schema.Union([Schema.String, Schema.Null.annotate({ description: "d" })]),
      "two kinds": Schema.Union([Schema.String, Schema.Boolean]),
      "two kinds and null": Schema.Union([Schema.String, Schema.Boolean, Schema.Null]),
      "an object or null": Schema.NullOr(Schema.Struct({ a: Schema.String })),
      "one kind twice": Schema.Union([Schema.String, Schema.String]),
      "a pair": Schema.Tuple([Schema.String, Schema.Int]),
      "a pair, the second optional": Schema.Tuple([Schema.String, Schema.optionalKey(Schema.Int)]),
      "a text and integers": Schema.TupleWithRest(Schema.Tuple([Schema.String]), [Schema.Int]),
      "at least one": Schema.NonEmptyArray(Schema.Int),
      "a list of anything": Schema.Array(Schema.Unknown),
      "a list of lists": Schema.Array(Schema.Array(Point)),
      "keys of any name": Schema.Record(Schema.String, Schema.Int),
      "a key of each kind": Schema.Struct({
        a: Schema.String,
        b: Schema.optionalKey(Schema.String),
        c: Schema.optional(Schema.Int),
        d: Schema.UndefinedOr(Schema.Int)
      }),
      "bytes, a date, a big integer": Schema.Struct({
        a: Schema.Uint8Array,
        b: Schema.DateTimeUtc,
        c: Schema.BigInt,
        d: Schema.Duration
      }),
      "a definition": Point,
      "a definition used once": Schema.Struct({ at: Point }),
      "a definition used twice": Schema.Struct({ from: Point, to: Point, name: Name }),
      "a definition used twice in a list": Schema.Tuple([Name, Schema.Array(Name)]),
      "a definition with a note": Schema.Struct({ at: Point.annotate({ description: "d" }), to: Point }),
      "a definition of itself": List,
      "a definition of itself inside": Schema.Struct({ list: List }),
      "keys that are named as keywords": Schema.Struct({
        allOf: Schema.Array(Schema.String),
        anyOf: Schema.Struct({ enum: Schema.Int, default: Schema.Null }),
        items: Schema.Struct({}),
        properties: Schema.Struct({ required: Schema.Boolean }),
        $defs: Point,
        type: Schema.NullOr(Schema.Int)
      }),
      "defaults that look like schemas": Schema.Struct({
        a: Schema.Json.annotate({ default: { anyOf: [{ type: "null" }, { type: "string" }], items: {} } }),
        b: Schema.Json.annotate({ examples: [{ properties: {} }, { not: { type: "null" } }] })
      }),
      "an instance": Schema.Struct({ a: Schema.Tuple([Schema.String, Schema.instanceOf(Map)]) }),
      "an instance in the rest": Schema.Array(Schema.instanceOf(Map)),
      "an instance under any key": Schema.Record(Schema.String, Schema.instanceOf(Map)),
      "an instance in a union": Schema.Union([Schema.String, Schema.instanceOf(Map)]),
      "an instance behind a suspension": Schema.suspend(() => Schema.Struct({ a: Schema.instanceOf(Map) })),
      "an instance in an option": Schema.Struct({ a: Schema.Option(Schema.instanceOf(Map)) }),
      "a symbol as a key": Schema.Struct({ [Symbol.for("s")]: Schema.String }),
      "a pattern that looks ahead": Schema.String.check(Schema.isPattern(/^(?=a)/u))
    }
    const table = Object.entries(cases).map(([name, schema]) => {
      const result = Effect.runSync(Effect.result(JsonSchema.fromSchema(schema)))
      const text = Result.isSuccess(result)
        ? JSON.stringify(result.success)
        : `${result.failure.message} (${refusalOf(result.failure)})`
      return `${name}\n  ${text}\n`
    })
    await expect(table.join("")).toMatchFileSnapshot(file("exports"))
  })

  it("TOOL-4 each pattern accepts what it accepted, or is refused", async () => {
    const sources = [
      "",
      "a",
      "^a$",
      ".",
      "^.$",
      "a|b",
      "(?:ab)+",
      "(?<x>a)b",
      "[^a]",
      "[]",
      "[^]",
      "[a-c]{2}",
      "[\\w-]",
      "[\\d\\s]",
      "[\\S]",
      "[^\\s]",
      "[^\\S]",
      "\\d",
      "\\D",
      "\\w",
      "\\W",
      "\\s",
      "\\S",
      "\\b",
      "\\Ba",
      "\\t\\n\\v\\f\\r",
      "\\0",
      "\\cA",
      "\\x41",
      "\\u0041",
      "\\u{1F642}",
      "\\ud83d\\ude42",
      "\\/\\-",
      "[\\b]",
      "[\\-a]",
      "[[]",
      "[&&]",
      "\\p{L}",
      "\\P{L}",
      "\\p{Letter}",
      "\\p{Lu}",
      "\\p{gc=Lu}",
      "\\p{Script=Greek}",
      "\\p{Uppercase_Letter}",
      "[\\p{Decimal_Number}]",
      "\\p{Nope}",
      "\\p{Emoji}",
      "a{2000}",
      "(a{100}){100}",
      "a{0,}",
      "a{,2}",
      "a{",
      "}",
      "a**",
      "(",
      "(?=a)",
      "(?<=a)b",
      "(a)\\1",
      "(?<x>a)\\k<x>",
      "(?i)a",
      "\\",
      "\\01",
      "\\8",
      "\\k",
      "\\y",
      "\\é",
      "[\\🙂]",
      "\\p{ASCII}",
      "\\P{ASCII}",
      "[\\p{ASCII}]",
      "[\\P{ASCII}]",
      "[\\B]",
      "a]",
      "[a[b]",
      "[^[]",
      "(?<$x>a)",
      "(?<_x>a)",
      "(?<1>a)",
      "(?!a)",
      "(?P<x>a)",
      "a{2,}",
      "a{2,3}",
      "(a|b){3}",
      "(?:a|bc)*d",
      "(?:(a)b){5,9}",
      "a{1,1000}",
      "a?b+",
      "a{0}",
      "(a+)?",
      "((a)b)",
      "(?:a{0,1000}){4}",
      "\\u{110000}",
      "\\cZ",
      "\\x4",
      "\\u004",
      "x{1}y{2}|z{3}",
      "[a-z]{1,63}(?:\\.[a-z]{1,63})*",
      "^",
      "$",
      "x$^y",
      "x".repeat(2048),
      "x".repeat(2049),
      "\\p{L}".repeat(100),
      "\\p{L}".repeat(101)
    ]
    const texts = [
      "",
      "a",
      "b",
      "A",
      "ab",
      "aa",
      "é",
      "α",
      "5",
      "_",
      "-",
      " ",
      "\u00a0",
      "\n",
      "\ufeff",
      "\b",
      "[",
      "&",
      "🙂"
    ]
    texts.push("\0", "\u0001", "/-", "a{", "a{,2}", "}", "\t\n\v\f\r", "\ud83d", "ababab")
    const table = sources.map((source) => {
      const tank = fuel.make(1_000_000)
      const name = source.length > 60 ? `${source.slice(0, 60)}... (${source.length})` : source
      const result = patterns.compilePattern(source, tank, engine)
      // the words of V8 are not ours
      if (Result.isFailure(result))
        return `${name}\n  ${result.failure.replace(/^Invalid regular expression:.*/s, "refused by V8")} (${tank.spent})\n`
      const { cost, test, weight } = result.success
      const accepted = texts
        .filter(test)
        .map((text) => JSON.stringify(text).replace(/[\u00a0\ufeff]/, encodeURIComponent))
      return `${name}\n  ${accepted.join(" ")} (${weight}, ${cost(0)}, ${cost(100)})\n`
    })
    await expect(table.join("")).toMatchFileSnapshot(file("patterns"))
  })

  it("CODEC-4 each keyword accepts or refuses each value as it did", async () => {
    const keywords = [
      "$schema $ref $defs definitions type enum const multipleOf minimum exclusiveMaximum minLength maxLength pattern format",
      "items prefixItems additionalItems minItems uniqueItems contains minContains maxContains properties required",
      "patternProperties additionalProperties minProperties propertyNames dependentRequired dependentSchemas dependencies",
      "allOf anyOf oneOf not if then else title default examples x-note nullable $id $anchor $dynamicRef unevaluatedItems"
    ].flatMap((names) => names.split(" "))
    const bad = [
      null,
      true,
      0,
      -1,
      1.5,
      "",
      "x",
      "#",
      "date",
      [],
      [1],
      [{}],
      ["a", "a"],
      ["integer"],
      {},
      { a: 1 },
      { a: {} }
    ]
    const more = [...bad, { a: ["b"] }, { a: ["b", 1] }, { "(": {} }, { "a{2000}": true }, "integer", "(", "a{2000}"]
    const table = ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"].flatMap(
      ($schema) =>
        keywords.map((keyword) => {
          const effectOf = (value: unknown) => {
            const result = made({ $schema, [keyword]: value })
            return Result.isSuccess(result) ? "accepted" : refusalOf(result.failure)
          }
          return `# ${keyword} of ${$schema}\n${grouped(named(more), effectOf)}\n`
        })
    )
    await expect(table.join("\n")).toMatchFileSnapshot(file("keywords"))
  })

  it("TOOL-4 formats accept the same texts as they did, among all that differ in one character", async () => {
    const texts = [
      "2020-02-29",
      "2019-12-31",
      "23:59:60Z",
      "12:30:00.5+01:00",
      "2020-01-01T10:00:00Z",
      "P1Y2M3DT4H5M6S",
      "P2W",
      "PT1M",
      "a.b@example.com",
      '"a b"@[127.0.0.1]',
      "a@[IPv6:::1]",
      "a-b.example.org",
      "xn--mnchen-3ya.de",
      "192.168.0.255",
      "::1",
      "1:2:3:4:5:6:7:8",
      "::ffff:1.2.3.4",
      "http://u:p@a.example:80/p%20a?q=1#f",
      "//[::1]:8/a",
      "urn:x:y",
      "../a?b",
      "123e4567-e89b-12d3-a456-426614174000",
      "/a~0b/~1",
      "^a(b|c)*$",
      "",
      "a".repeat(63),
      "a".repeat(64),
      `${"a".repeat(64)}@b`,
      `${"a".repeat(65)}@b`,
      `${"a.".repeat(126)}a`,
      `${"a.".repeat(127)}a`
    ]
    const characters = Array.from('09afgzAFZ-+.:/@%~[]"\\ #?(TtPDé_')
    const variants = texts.flatMap((text) => [
      text,
      ...Array.from({ length: Math.min(text.length, 40) + 1 }, (_, at) => [
        text.slice(0, at) + text.slice(at + 1),
        ...characters.flatMap((one) => [
          text.slice(0, at) + one + text.slice(at),
          text.slice(0, at) + one + text.slice(at + 1)
        ])
      ]).flat()
    ])
    const table = Array.from(patterns.formatChecks, ([name, check]) => {
      const verdicts = variants.map((text) => (check(text) ? "1" : "0")).join("")
      const digest = createHash("sha256").update(verdicts).digest("hex")
      return `${name}: ${texts
        .filter(check)
        .map((text) => JSON.stringify(text))
        .join(", ")}\n  ${verdicts.replaceAll("0", "").length} of ${verdicts.length}, ${digest}`
    })
    await expect(`${table.join("\n")}\n`).toMatchFileSnapshot(file("formats"))
  })
})
