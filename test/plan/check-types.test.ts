/** PLAN-2: schemas that can never fit each other. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as stepSchema from "#src/plan/internal/stepSchema.ts"
import { JsonSchema, type Json } from "effect-emissary/payload"

import { object } from "./check-fixtures.ts"
import { test } from "../test.ts"

const text = { type: "string" }
const integer = { type: "integer" }
const number = { type: "number" }
const nothing = { type: "null" }

const conflict = (given: Json.JsonObject, taken: Json.JsonObject) =>
  stepSchema.findConflict(stepSchema.shapeOf(given), stepSchema.shapeOf(taken))
const fits = (given: Json.JsonObject, taken: Json.JsonObject) => assert.isUndefined(conflict(given, taken))
const never = (given: Json.JsonObject, taken: Json.JsonObject, ...words: ReadonlyArray<string>) => {
  const reason = conflict(given, taken)
  assert.isDefined(reason, JSON.stringify([given, taken]))
  for (const word of words) assert.include(reason, word)
}

describe("schemas that never fit", () => {
  it("PLAN-2 have other types", () => {
    never(text, number, "string", "number")
    never(object({}), text)
    fits(integer, number)
    fits(number, integer)
    fits({ type: ["string", "null"] }, text)
    never({ type: ["string", "null"] }, { type: ["integer", "object"] })
  })

  it("PLAN-2 have other values", () => {
    never({ enum: ["a", "b"] }, { enum: ["c"] }, `"a"`, `"c"`)
    fits({ enum: ["a", "b"] }, { enum: ["b", "c"] })
    never({ const: "a" }, integer)
    never(integer, { enum: ["a"] })
    fits({ const: 1 }, number)
    never({ const: 1.5 }, integer)
    fits({ enum: [{ a: 1 }] }, { const: { a: 2 } })
  })

  it("PLAN-2 lack a field, or have it otherwise", () => {
    never(object({ x: text }), object({ y: text }), `"y"`, `"x"`)
    never(object({ x: text }), object({ x: integer }), `"x"`)
    // The fields of a field are not compared.
    fits(object({ x: object({ y: text }) }), object({ x: object({ y: integer }) }))
    fits(object({ x: text, z: text }), object({ x: text }))
    fits(object({ x: text }), object({ x: text, y: text }, ["x"]))
    fits({ type: "object", properties: { x: text } }, object({ y: text }))
    fits(object({ x: text }), object({ x: text, y: { ...integer, default: 1 } }))
    // It may be absent on both sides.
    fits(object({ x: text }, []), object({ x: integer }, []))
    never(object({ x: text }), object({ x: integer }, []))
    // Null means absent.
    fits(object({ x: nothing }), object({ x: integer }, []))
    fits(object({ x: { type: ["string", "null"] } }), object({ x: integer }, []))
  })

  it("PLAN-2 fit in no member of a union, and in one part of an intersection", () => {
    fits({ anyOf: [text, integer] }, integer)
    never({ anyOf: [text, nothing] }, integer)
    fits(text, { oneOf: [integer, text] })
    never(text, { oneOf: [integer, nothing] })
    never(text, { allOf: [{}, integer] })
    never({ allOf: [{}, text] }, integer)
    never({ allOf: [{}, { anyOf: [text, nothing] }] }, integer)
    // Combinations are looked at up to a limit, and the other parts even so.
    const unions = Array.from({ length: 40 }, () => ({ anyOf: [text, nothing] }))
    never({ allOf: unions }, integer)
    never({ allOf: [...unions, integer] }, text)
  })

  it("PLAN-2 follow references, and accept what is not known", () => {
    const named = { $ref: "#/$defs/a", $defs: { a: text } }
    never(named, integer)
    fits(named, text)
    for (const unknown of [{}, { $ref: "#/$defs/a" }, { $ref: "https://example.com" }, { not: text }, { if: text }]) {
      fits(unknown, text)
      fits(text, unknown)
    }
    const tree = { $ref: "#/$defs/t", $defs: { t: object({ t: { $ref: "#/$defs/t" } }) } }
    fits(tree, tree)
    never(text, { allOf: [false] })
  })

  it("PLAN-2 L10 are read once, whatever refers to them, and to a depth", () => {
    const many = (name: string) => ({ anyOf: Array.from({ length: 300 }, () => ({ $ref: `#/$defs/${name}` })) })
    const last = { enum: Array.from({ length: 5000 }, (_, index) => index) }
    const wide = { ...many("a"), $defs: { a: many("b"), b: many("c"), c: many("d"), d: last } }
    never(wide, text)
    fits(wide, integer)
    let deep: Json.JsonObject = text
    for (let level = 0; level < 10_000; level++) deep = { allOf: [deep] }
    fits(deep, integer)
  })

  it("PLAN-2 a whole number beyond 2^53 is a number, and no integer", () => {
    fits({ const: 2 ** 53 }, number)
    fits({ enum: [-(2 ** 53)] }, number)
    never({ const: 2 ** 53 }, integer)
  })

  it.prop(
    "PLAN-2 a schema fits itself, and a value is given by no schema that it never fits",
    [Schema.Union([Schema.String, Schema.Finite, Schema.Boolean, Schema.Null, Schema.Struct({ a: Schema.String })])],
    ([value]) => {
      const kinds = [text, number, { type: "boolean" }, nothing, object({ a: text }), { anyOf: [text, nothing] }]
      const schemas = [Schema.String, Schema.Finite, Schema.Boolean, Schema.Null, Schema.Struct({ a: Schema.String })]
      kinds.forEach((kind, index) => {
        fits(kind, kind)
        const schema = schemas[index]
        if (schema !== undefined && Schema.is(schema)(value)) fits({ const: value }, kind)
      })
    }
  )

  test("PLAN-2 schemas of Effect fit themselves", function* () {
    const schemas = [
      Schema.Struct({ a: Schema.optionalKey(Schema.String), b: Schema.NullOr(Schema.Int) }),
      Schema.Union([Schema.TaggedStruct("A", { n: Schema.Int }), Schema.TaggedStruct("B", {})]),
      Schema.Array(Schema.Tuple([Schema.String, Schema.Int])),
      Schema.Record(Schema.String, Schema.Boolean)
    ]
    for (const schema of schemas) {
      const json = yield* JsonSchema.fromSchema(schema)
      fits(json, json)
      never(json, { type: "boolean" })
    }
  })

  it("PLAN-2 L10 are merged from a limited number of fields; more can be anything", () => {
    const fields = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`p${index}`, { type: "string" }]))
    const merged = (count: number) => ({
      anyOf: Array.from({ length: count }, () => ({ $ref: "#/$defs/d", type: "object" })),
      $defs: { d: { type: "object", properties: fields } }
    })
    never(merged(10), { type: "string" })
    assert.isUndefined(conflict(merged(100), { type: "string" }))
  })
})

describe("fields that name a step", () => {
  const field = (json: Json.JsonObject, name = "kind") => {
    const { exhaustive, literals } = stepSchema.readDiscriminant({ json }, name) ?? {}
    return { exhaustive, literals }
  }
  const none = { exhaustive: false, literals: [] }

  it("PLAN-2 are exhaustive when they are always there, and always one of the names", () => {
    const of = (kind: Json.JsonObject, required = ["kind"]) => field(object({ kind }, required))
    const found = (exhaustive: boolean, ...literals: ReadonlyArray<string>) => ({ literals, exhaustive })
    assert.deepStrictEqual(of({ enum: ["a", "b"] }), found(true, "a", "b"))
    assert.deepStrictEqual(of({ const: "a" }), found(true, "a"))
    assert.deepStrictEqual(of({ anyOf: [{ const: "a" }, { enum: ["b", "a"] }] }), found(true, "a", "b"))
    const parts = [object({ kind: { enum: ["a", "b"] } }), object({ other: text })]
    assert.deepStrictEqual(field({ allOf: parts }), found(true, "a", "b"))
    assert.deepStrictEqual(of({ enum: ["a", null] }), found(false, "a"))
    assert.deepStrictEqual(of({ enum: ["a", 1] }), found(false, "a"))
    assert.deepStrictEqual(of({ anyOf: [{ const: "a" }, text] }), found(false, "a"))
    assert.deepStrictEqual(of({ enum: ["a"] }, []), found(false, "a"))
    assert.deepStrictEqual(field({ ...object({ kind: { const: "a" } }), type: ["object", "null"] }), found(false, "a"))
    assert.deepStrictEqual(field({ anyOf: [object({ kind: { const: "a" } }), nothing] }), found(false, "a"))
    assert.deepStrictEqual(field({ anyOf: [object({ kind: { const: "a" } }), object({})] }), found(false, "a"))
  })

  it("PLAN-2 belong to objects, and are own fields", () => {
    assert.isUndefined(stepSchema.readDiscriminant({ name: "A" }, "kind"))
    for (const json of [text, {}, object({ a: text, b: text })]) assert.deepStrictEqual(field(json), none)
    assert.deepStrictEqual(field(object({ a: text }), "toString"), none)
  })
})
