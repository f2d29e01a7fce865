import { assert, describe } from "@effect/vitest"
import { Effect, Result, type Schema } from "effect"
import { JsonSchema } from "effect-emissary/payload"
import * as convertSchema from "../../src/payload/internal/convertSchema.ts"
import type { JsonObject } from "../../src/payload/internal/values.ts"
import { test } from "../test.ts"

type Row = readonly [property: JsonObject, good: ReadonlyArray<Schema.Json>, bad: ReadonlyArray<Schema.Json>]

const rows: Record<string, Row> = {
  "$id and $anchor": [{ $id: "a", $anchor: "b", type: "string" }, ["x"], [1]],
  nullable: [{ type: "string", nullable: true, minLength: 1, description: "x" }, ["x", null], ["", 1]],
  "nullable beside enum": [{ type: "string", nullable: true, enum: ["x"] }, ["x", null], ["y"]],
  "nullable beside a combination": [
    { nullable: true, anyOf: [{ type: "string" }, { type: "number" }] },
    [1, null],
    [true]
  ],
  "nullable and required": [{ type: "string", nullable: true, required: true }, ["x", null], [1]],
  "exclusive bounds": [{ minimum: 0, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false }, [1, 9], [0, 10]],
  "an exclusive bound without its bound": [{ type: "number", exclusiveMinimum: true }, [-1], ["x"]],
  "a list in items": [{ items: [{ type: "string" }], additionalItems: false }, [["x"], []], [[1], ["x", 1]]],
  "a list in items, open": [{ items: [{ type: "string" }] }, [["x", 1]], [[1]]],
  "the type any": [{ type: "any" }, ["x", 1, null], []],
  "a type or any": [{ type: ["string", "any"] }, ["x", 1], []],
  "types of other languages": [{ type: ["float", "bool", "STR", "float"] }, [1.5, true, "x"], [{}]],
  "properties of properties": [
    { type: "object", properties: { b: { type: "int", required: true }, c: { required: false } }, required: ["d"] },
    [{ b: 1, d: 1 }],
    [{ d: 1 }, { b: 1 }, { b: 1.5, d: 1 }]
  ],
  "null for absent keywords": [{ type: "string", minLength: null, enum: null }, ["x"], [1]],
  "null as a value": [{ type: "any", const: null }, [null], [1]],
  "keywords as names and values": [
    {
      type: "any",
      properties: { nullable: { type: "int" }, items: { type: "int" } },
      dependencies: { nullable: { properties: { c: { type: "int" } } } },
      enum: [{ nullable: true }, { nullable: 1, c: 1.5 }, { items: 1, nullable: 1 }]
    },
    [{ items: 1, nullable: 1 }],
    [{ nullable: true }, { nullable: 1, c: 1.5 }]
  ],
  "a known dialect": [{ $schema: "http://json-schema.org/draft-06/schema#", type: "string" }, ["x"], [1]]
}

describe("RIGHT-5 schemas from outside, as their authors meant them", () => {
  for (const [what, [property, good, bad]] of Object.entries(rows)) {
    test(`RIGHT-5 ${what}`, function* () {
      const document = { type: "object", properties: { a: property } }
      assert.strictEqual((yield* Effect.result(JsonSchema.make(document)))._tag, "Failure", "local schemas stay strict")
      const schema = yield* JsonSchema.make(convertSchema.asMeant(document))
      for (const a of good) assert.deepStrictEqual(JsonSchema.validate(schema, { a }), Result.succeed({ a }))
      for (const a of bad) assert.isTrue(Result.isFailure(JsonSchema.validate(schema, { a })), JSON.stringify(a))
      assert.deepStrictEqual(convertSchema.asMeant(schema.json), schema.json, "what is read is read as it is")
    })
  }

  test("RIGHT-5 required of a property asks for the property", function* () {
    const document = { type: "object", nullable: true, properties: { a: { type: "string", required: true } } }
    const schema = yield* JsonSchema.make(convertSchema.asMeant(document))
    assert.isTrue(Result.isFailure(JsonSchema.validate(schema, {})))
    assert.strictEqual(schema.json["type"], "object", "arguments are an object")
  })

  const refused: Record<string, readonly [JsonObject, path: string]> = {
    "a keyword that is not checked": [{ type: "any", unevaluatedProperties: false }, "/unevaluatedProperties"],
    "an unknown type": [{ type: "money" }, "/type"],
    "two lists of items": [{ prefixItems: [{}], items: [{}] }, "/items"],
    "a name that references may need": [{ $anchor: "b", $ref: "#" }, "/$anchor"],
    "a misspelt keyword": [{ type: "any", patternProperty: { a: {} } }, "/patternProperty"],
    "an unknown dialect": [{ $schema: "https://x.test/mine" }, "/$schema"]
  }
  for (const [what, [document, path]] of Object.entries(refused)) {
    test(`RIGHT-5 ${what} is refused by its name`, function* () {
      const error = yield* Effect.flip(JsonSchema.make(convertSchema.asMeant({ properties: { a: document } })))
      assert.strictEqual(error.path, `/properties/a${path}`)
    })
  }
})
