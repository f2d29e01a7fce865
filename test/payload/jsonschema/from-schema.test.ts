import { assert, describe, expect, it } from "@effect/vitest"
import { Arbitrary, Effect, Result, Schema } from "effect"
import * as convertSchema from "#src/payload/internal/convertSchema.ts"
import { Limits } from "effect-emissary"
import { JsonSchema } from "effect-emissary/payload"
import { test } from "../../test.ts"

class Person extends Schema.Class<Person>("Person")({
  name: Schema.NonEmptyString,
  age: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 150 })))
}) {}

interface Tree {
  readonly value: string
  readonly kids: ReadonlyArray<Tree>
}
const Tree: Schema.Codec<Tree> = Schema.Struct({
  value: Schema.String,
  kids: Schema.Array(Schema.suspend(() => Tree))
}).annotate({ identifier: "Tree" })

const Kitchen = Schema.Struct({
  text: Schema.String.check(Schema.isPattern(/^[a-z]*$/u)),
  count: Schema.Int,
  ratio: Schema.Finite,
  // @effect-diagnostics-next-line schemaNumber:off
  number: Schema.Number,
  flag: Schema.Boolean,
  level: Schema.Literals(["low", "high"]),
  mixed: Schema.Literals(["a", 1]),
  nullable: Schema.NullOr(Schema.String),
  optional: Schema.optional(Schema.String),
  key: Schema.optionalKey(Schema.NullOr(Schema.Literals(["x", "y"]))),
  list: Schema.NonEmptyArray(Schema.Int),
  pair: Schema.Tuple([Schema.String, Schema.Int]),
  map: Schema.Record(Schema.String, Schema.Int),
  person: Person,
  option: Schema.Option(Schema.Int),
  big: Schema.BigInt,
  date: Schema.Date,
  bytes: Schema.Uint8Array,
  shape: Schema.Union([
    Schema.Struct({ kind: Schema.Literal("circle"), r: Schema.Finite }),
    Schema.Struct({ kind: Schema.Literal("square"), a: Schema.Finite })
  ]),
  either: Schema.Union([Schema.String, Schema.Struct({ a: Schema.Int })]),
  empty: Schema.Struct({}),
  any: Schema.Json
})

describe("TOOL-6 FromSchema", () => {
  test("TOOL-6 exports the same as core, with fewer keywords", function* () {
    const exported = yield* JsonSchema.fromSchema(
      Schema.Struct({
        id: Schema.Int,
        page: Schema.optionalKey(
          Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({ description: "Page", default: 1 })
        ),
        unit: Schema.optionalKey(Schema.Literals(["c", "f"]).annotate({ default: "c", description: "Unit" })),
        enums: Schema.Enum({ A: "a", B: "b" }),
        nick: Schema.NullOr(Schema.String),
        noted: Schema.String.annotate({ description: "type" }).annotateKey({ description: "key" }),
        tags: Schema.NonEmptyArray(Schema.String),
        anything: Schema.Array(Schema.Json),
        empty: Schema.Struct({})
      })
    )
    assert.strictEqual(
      JSON.stringify(exported),
      JSON.stringify({
        type: "object",
        properties: {
          id: { type: "integer" },
          page: { type: "integer", description: "Page", default: 1, minimum: 1 },
          unit: { type: "string", description: "Unit", enum: ["c", "f"], default: "c" },
          enums: { type: "string", enum: ["a", "b"] },
          nick: { type: ["string", "null"] },
          noted: { type: "string", description: "key" },
          tags: { type: "array", items: { type: "string" }, minItems: 1 },
          anything: { type: "array" },
          empty: { type: "object", properties: {}, required: [], additionalProperties: false }
        },
        required: ["id", "enums", "nick", "noted", "tags", "anything", "empty"],
        additionalProperties: false
      })
    )
  })

  test("TOOL-6 keeps definitions that are recursive or used twice, inlines the others, opens the root", function* () {
    const person = {
      type: "object",
      properties: { name: { type: "string", minLength: 1 }, age: { type: "integer", minimum: 0, maximum: 150 } },
      required: ["name"],
      additionalProperties: false
    }
    assert.deepStrictEqual<unknown>(yield* JsonSchema.fromSchema(Person), person)
    const once = yield* JsonSchema.fromSchema(Schema.Struct({ p: Person }))
    assert.deepStrictEqual<unknown>(once["properties"], { p: person })
    const twice = yield* JsonSchema.fromSchema(Schema.Struct({ p: Person, q: Person }))
    assert.deepStrictEqual<unknown>(twice["$defs"], { PersonEncoded: person })
    const tree = yield* JsonSchema.fromSchema(Tree)
    assert.strictEqual(tree["type"], "object")
    const checked = yield* JsonSchema.make(tree)
    assert.isTrue(JsonSchema.accepts(checked, { value: "a", kids: [{ value: "b", kids: [] }] }))
    assert.isFalse(JsonSchema.accepts(checked, { value: "a", kids: [{ value: 1, kids: [] }] }))
  })

  test("TOOL-6 knows a Schema without values, one without information, and one that was made of a document", function* () {
    const { Any, Never, String, Struct, Undefined, Unknown, Void } = Schema
    const kinds = [Void, Undefined, Unknown, Any, Never, String, Struct({})].map((schema) => [
      convertSchema.isVoid(schema),
      convertSchema.isUninformative(schema)
    ])
    const [none, any, other] = [
      [true, false],
      [false, true],
      [false, false]
    ]
    assert.deepStrictEqual(kinds, [none, none, any, any, any, other, other])
    const checked = yield* JsonSchema.make({ type: "integer", title: "kept" })
    assert.strictEqual(yield* JsonSchema.fromSchema(JsonSchema.codec(checked)), checked.json)
    const large = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(Number.MIN_SAFE_INTEGER))
    assert.deepStrictEqual(yield* JsonSchema.fromSchema(large), { type: "number", minimum: Number.MIN_SAFE_INTEGER })
  })

  test("TOOL-6 a tool without parameters has a closed empty object", function* () {
    assert.deepStrictEqual(yield* JsonSchema.fromSchema(Schema.Struct({})), convertSchema.noParameters)
    assert.isTrue(JsonSchema.isStrict(convertSchema.noParameters))
  })

  test("TOOL-6 refuses what has no JSON form, with its path", function* () {
    const opaque = Schema.Struct({ a: Schema.Array(Schema.Struct({ m: Schema.instanceOf(Map) })) })
    const error = yield* Effect.flip(JsonSchema.fromSchema(opaque, { what: "parameters of x" }))
    assert.deepInclude(error, { reason: "NotRepresentable", path: "/properties/a/items/properties/m" })
    assert.include(error.message, "parameters of x")
    const symbol = Schema.Struct({ [Symbol.for("s")]: Schema.String })
    assert.strictEqual((yield* Effect.flip(JsonSchema.fromSchema(symbol))).reason, "NotRepresentable")
    const look = Schema.Struct({ a: Schema.String.check(Schema.isPattern(/^(?=a)/u)) })
    const pattern = yield* Effect.flip(JsonSchema.fromSchema(look))
    assert.deepStrictEqual([pattern.path, pattern.reason], ["/properties/a/pattern", "UnsupportedPattern"])
  })

  it("TOOL-6 what core exports is held to the limits, with its place", () => {
    const Nested = Schema.Struct({ a: Schema.Struct({ b: Schema.Struct({ c: Schema.Array(Tree) }) }) })
    const refusals: Array<string> = []
    for (const limits of [{ maxDepth: 5 }, { maxNodes: 5 }, { maxFuel: 500 }]) {
      const exported = Effect.flip(JsonSchema.fromSchema(Nested, { what: "parameters" }))
      const { message, reason } = Effect.runSync(
        Effect.provideService(exported, Limits.Limits, { ...Limits.defaults, ...limits })
      )
      refusals.push(`${reason}: ${message}`)
    }
    expect(refusals).toMatchInlineSnapshot(`
      [
        "TooDeep: parameters at /properties/a/properties/b/properties: expected at most 5 levels of arrays and objects, got more. Send flatter data, or raise maxDepth in the limits of this call",
        "TooLarge: parameters at the root: expected at most 5 values, got at least 6. Send less, or raise maxNodes in the limits of this call",
        "TooLarge: parameters at /properties/a/properties/b: expected at most 500 units of fuel, the measure of work, got at least 512. Send less, or raise maxFuel in the limits of this call",
      ]
    `)
  })

  for (const [name, schema] of Object.entries({ Kitchen, Person, Tree, Strings: Schema.Array(Schema.String) })) {
    const codec: Schema.Codec<unknown, Schema.Json> = Schema.toCodecJson(schema)
    test(`CODEC-4 ${name}: what the Schema encodes, its JSON Schema accepts as it is`, function* () {
      const checked = yield* JsonSchema.make(yield* JsonSchema.fromSchema(schema))
      const values: ReadonlyArray<unknown> = yield* Arbitrary.sampleEffect(Arbitrary.schema(schema), { count: 100 })
      for (const value of values) {
        const json = yield* Schema.encodeEffect(codec)(value)
        const text = JSON.stringify(json)
        // keys the key rules refuse; core's generator likes them
        if (/"__proto__":|"constructor":/.test(text)) continue
        const accepted = yield* Effect.fromResult(JsonSchema.validate(checked, json, { strict: true }))
        const decoded = yield* Schema.decodeEffect(codec)(accepted)
        assert.strictEqual(JSON.stringify(yield* Schema.encodeEffect(codec)(decoded)), text)
      }
    })
  }

  test("CODEC-4 what the JSON Schema of plain types refuses, the Schema refuses", function* () {
    const Plain = Schema.Struct({
      a: Schema.String,
      b: Schema.optionalKey(Schema.Int),
      c: Schema.Array(Schema.Literals(["x", "y"])),
      d: Schema.NullOr(Schema.Boolean)
    })
    const checked = yield* JsonSchema.make(yield* JsonSchema.fromSchema(Plain))
    const decode = Schema.decodeUnknownResult(Plain, { onExcessProperty: "error" })
    const parts = [undefined, null, "x", 1, 1.5, true, ["x"], ["z"], {}]
    const some = (...inputs: ReadonlyArray<unknown>) =>
      Object.fromEntries("abcd".split("").flatMap((key, i) => (inputs[i] === undefined ? [] : [[key, inputs[i]]])))
    const pairs = parts.flatMap((a) => parts.map((b) => [a, b] as const))
    for (const input of pairs.flatMap((ab) => pairs.map((cd) => some(...ab, ...cd)))) {
      assert.strictEqual(JsonSchema.accepts(checked, input), Result.isSuccess(decode(input)), JSON.stringify(input))
    }
  })
})

describe("TOOL-6 StrictSchema", () => {
  const strict = (json: Parameters<typeof JsonSchema.toStrict>[0]) => Result.getOrThrow(JsonSchema.toStrict(json))

  it("TOOL-6 makes optional properties nullable whatever they are", () => {
    const json = {
      type: "object",
      properties: {
        ref: { $ref: "#/$defs/d" },
        any: { anyOf: [{ type: "string" }, { type: "integer" }] },
        nullable: { type: ["string", "null"] },
        choice: { enum: ["a", null] },
        fixed: { const: 1, description: "d" },
        list: { type: "array", items: { type: "object", properties: { x: { type: "string", default: "" } } } }
      },
      $defs: { d: { type: "object", properties: { y: { type: "string" } }, additionalProperties: false } }
    }
    assert.deepStrictEqual<unknown>(strict(json), {
      type: "object",
      properties: {
        ref: { anyOf: [{ $ref: "#/$defs/d" }, { type: "null" }] },
        any: { anyOf: [{ type: "string" }, { type: "integer" }, { type: "null" }] },
        nullable: { type: ["string", "null"] },
        choice: { anyOf: [{ enum: ["a", null] }, { type: "null" }] },
        fixed: { anyOf: [{ const: 1, description: "d" }, { type: "null" }] },
        list: {
          type: ["array", "null"],
          items: {
            type: "object",
            properties: { x: { type: ["string", "null"] } },
            required: ["x"],
            additionalProperties: false
          }
        }
      },
      $defs: {
        d: {
          type: "object",
          properties: { y: { type: ["string", "null"] } },
          required: ["y"],
          additionalProperties: false
        }
      },
      required: ["ref", "any", "nullable", "choice", "fixed", "list"],
      additionalProperties: false
    })
  })

  it("TOOL-6 refuses open objects, untyped arrays, anything and foreign keywords, naming the place", () => {
    const undeclared = { type: "object", required: ["where"], properties: {} }
    const cases = [
      { type: "object", properties: { where: { type: "object" } } },
      { type: "object", properties: { where: { type: "object", properties: {}, additionalProperties: true } } },
      { type: "object", properties: { where: { type: "object", additionalProperties: { type: "string" } } } },
      { type: "object", properties: { where: { type: "array" } } },
      { type: "object", properties: { where: { description: "?" } } },
      { type: "object", properties: { where: true } },
      { type: "object", properties: { where: { oneOf: [{ type: "string" }] } } },
      { type: "object", properties: { where: { type: "array", prefixItems: [{}] } } },
      { type: "object", properties: { list: { type: "array", items: undeclared } } }
    ]
    for (const json of cases) {
      assert.include(Result.getOrThrow(Result.flip(JsonSchema.toStrict(json))).message, "where")
    }
  })

  it("PAY-C refuses documents that are nested too deeply", () => {
    let json: Parameters<typeof JsonSchema.toStrict>[0] = { type: "string" }
    for (let i = 0; i < 100_000; i++) json = { type: "array", items: json }
    assert.isTrue(Result.isFailure(JsonSchema.toStrict(json)))
  })

  test("TOOL-6 the strict form is strict, and null for an optional property comes back as absent", function* () {
    const Parameters = Schema.Struct({
      a: Schema.String,
      b: Schema.optionalKey(Schema.Int),
      c: Schema.optionalKey(Schema.Struct({ d: Schema.optionalKey(Schema.Literals(["x"])) }))
    })
    const plain = yield* JsonSchema.fromSchema(Parameters)
    assert.isFalse(JsonSchema.isStrict(plain))
    const form = strict(plain)
    assert.isTrue(JsonSchema.isStrict(form))
    assert.deepStrictEqual(strict(form), form)
    const original = yield* JsonSchema.make(plain)
    const constrained = yield* JsonSchema.make(form)
    for (const answer of [
      { a: "", b: null, c: null },
      { a: "", b: 1, c: { d: null } },
      { a: "", b: 1, c: { d: "x" } }
    ]) {
      assert.isTrue(JsonSchema.accepts(constrained, answer))
      const value = yield* Effect.fromResult(JsonSchema.validate(original, answer, { strict: true }))
      assert.isTrue(Result.isSuccess(Schema.decodeUnknownResult(Parameters)(value)))
      assert.notInclude(JSON.stringify(value), "null")
    }
  })
})
