import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, type Schema } from "effect"
import * as compareSchemas from "#src/tool/internal/compareSchemas.ts"
import { type Json, JsonSchema } from "effect-emissary/payload"
import { Re2 } from "effect-emissary/re2"
import { random as choices } from "../random.ts"
import { random } from "../payload/jsonschema/random.ts"

type Node = { [key: string]: Schema.Json }

const isNode = (value: Schema.Json): value is Node =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Every object and every list in a document. */
const placesIn = (root: Schema.Json): ReadonlyArray<Node | Array<Schema.Json>> => {
  if (Array.isArray(root)) return [root, ...root.flatMap(placesIn)]
  return isNode(root) ? [root, ...Object.values(root).flatMap(placesIn)] : []
}

/** A copy of a schema with some edits of any kind, malformed ones included. */
const edited = (document: Json.JsonObject, other: () => Json.JsonObject, seed: number): Json.JsonObject => {
  const { below, pick } = choices(seed)
  const copy: Node = structuredClone(document)
  for (let edits = 0; edits <= below(3); edits++) {
    const place = pick(placesIn(copy))
    const more = structuredClone(other())
    if (Array.isArray(place)) {
      if (place.length > 1 && below(2) === 0) place.splice(below(place.length), 1)
      else place.push(pick(Object.values(more)))
      continue
    }
    const keys = Object.keys(place)
    const key = keys.length === 0 ? "title" : pick(keys)
    const value = place[key] ?? null
    switch (below(7)) {
      case 0:
        delete place[key]
        break
      case 1:
        Object.assign(place, more, { $defs: place["$defs"] ?? {} })
        break
      case 2:
        if (typeof value === "number") place[key] = value + below(3) - 1
        break
      case 3:
        if (isNode(value)) place[key] = { anyOf: [value, more] }
        break
      case 4:
        if (isNode(value)) place[key] = pick([{ allOf: [value, more] }, { not: { not: value } }, true, false])
        break
      case 5:
        if (isNode(value)) place[key] = { ...value, ...more }
        break
      default:
        if (isNode(value)) place[key] = { $ref: pick(["#/$defs/d", "#"]) }
    }
  }
  return copy
}

const compiled = (document: Json.JsonObject) =>
  Effect.runSync(Effect.provide(Effect.option(JsonSchema.make(document)), Re2.layer))

const seeds = 1500

describe("DUR-10 comparing schemas", () => {
  it("a value that fits the narrower schema fits the wider one, of any two", () => {
    const counts = { wider: 0, narrower: 0, same: 0 }
    for (let seed = 1; seed <= seeds; seed++) {
      const { document, value } = random(seed)
      const was = document()
      const now = edited(was, document, seed)
      const [left, right] = [compiled(was), compiled(now)]
      if (Option.isNone(left) || Option.isNone(right)) continue
      const differences = compareSchemas.compare(was, now)
      const isAll = (relation: compareSchemas.Relation) => differences.every((one) => one.relation === relation)
      if (differences.length === 0) counts.same += 1
      else if (isAll("wider")) counts.wider += 1
      else if (isAll("narrower")) counts.narrower += 1
      for (let i = 0; i < 40; i++) {
        const input = value()
        const [before, after] = [JsonSchema.accepts(left.value, input), JsonSchema.accepts(right.value, input)]
        const text = () => JSON.stringify({ was, now, input, differences })
        if (isAll("wider") && before) assert.isTrue(after, text())
        if (isAll("narrower") && after) assert.isTrue(before, text())
      }
    }
    // It is no law about nothing
    for (const count of Object.values(counts)) assert.isAbove(count, 30, JSON.stringify(counts))
  })

  const object = (properties: Json.JsonObject, more: Json.JsonObject = {}) => ({
    type: "object",
    properties,
    additionalProperties: false,
    ...more
  })
  const text = { type: "string" }
  const list = (next: Json.JsonObject) => ({
    $ref: "#/$defs/list",
    $defs: { list: object({ value: text, next: { $ref: "#/$defs/list" }, ...next }) }
  })
  const choice = (...variants: ReadonlyArray<string>) => ({ anyOf: variants.map((type) => ({ type })) })

  const table: ReadonlyArray<readonly [string, Json.JsonObject, Json.JsonObject, ReadonlyArray<string>]> = [
    ["words", { ...text, title: "A", examples: ["x"] }, { ...text, description: "B" }, []],
    ["an optional property of a closed object", object({}), object({ a: text }), ["/properties/a wider"]],
    [
      "an optional property of an open object, where it had no type before",
      { type: "object" },
      { type: "object", properties: { a: text } },
      ["/properties/a narrower"]
    ],
    [
      "a required property",
      object({}),
      object({ a: text }, { required: ["a"] }),
      ["/properties/a wider", "/required narrower"]
    ],
    ["a property that is gone", object({ a: text }), object({}), ["/properties/a narrower"]],
    ["a default", { default: 1 }, { default: 2 }, ["/default other"]],
    ["a default that is new", {}, { default: 2 }, ["/default other"]],
    ["a type that another one includes", { type: "integer" }, { type: "number" }, ["/type wider"]],
    ["null beside a type", text, { anyOf: [text, { type: "null" }] }, [" wider"]],
    ["the order of types", { type: ["string", "null"] }, { type: ["null", "string"] }, []],
    ["the order of alternatives", choice("string", "null"), choice("null", "string"), []],
    ["an alternative less", choice("string", "null"), choice("string"), ["/anyOf narrower"]],
    ["a constant as one of several", { const: "a" }, { enum: ["b", "a"] }, ["/enum wider"]],
    ["a bound that is looser", { minLength: 2 }, { minLength: 1 }, ["/minLength wider"]],
    ["a bound that says nothing", {}, { minLength: 0 }, []],
    [
      "an added constraint",
      { allOf: [{ minLength: 1 }] },
      { allOf: [{ minLength: 1 }, { pattern: "a" }] },
      ["/allOf narrower"]
    ],
    ["what is excluded", { not: { type: "integer" } }, { not: { type: "number" } }, ["/not other"]],
    ["words of what is excluded", { not: { ...text, title: "A" } }, { not: { ...text, title: "B" } }, []],
    ["words of one of several", { oneOf: [text, { title: "A" }] }, { oneOf: [text, {}] }, []],
    [
      "one of several that accepts more",
      { oneOf: [{ type: "integer" }] },
      { oneOf: [{ type: "number" }] },
      ["/oneOf other"]
    ],
    [
      "a property of patterns called as words are",
      { patternProperties: { title: text } },
      { patternProperties: { title: {} } },
      ["/patternProperties other"]
    ],
    [
      "an alternative that accepts more",
      { anyOf: [{ type: "integer" }, text] },
      { anyOf: [{ type: "number" }, text] },
      ["/anyOf/0/type wider"]
    ],
    [
      "an alternative that accepts more and another one that accepts fewer",
      { anyOf: [{ type: "integer" }, text] },
      { anyOf: [{ type: "number" }, { ...text, maxLength: 1 }] },
      ["/anyOf/0/type wider", "/anyOf/1/maxLength narrower"]
    ],
    [
      "a constraint less",
      { allOf: [{ minLength: 1 }, { pattern: "a" }] },
      { allOf: [{ minLength: 0 }] },
      ["/allOf wider", "/allOf/0/minLength wider"]
    ],
    ["items that need not be unique", { uniqueItems: true }, {}, ["/uniqueItems wider"]],
    ["a keyword that is not known", {}, { "x-unit": "m" }, ["/x-unit other"]],
    ["a pattern that is another one", { pattern: "a" }, { pattern: "b" }, ["/pattern other"]],
    ["a recursive schema with one more property", list({}), list({ note: text }), ["/properties/note wider"]],
    [
      "a recursive schema that narrows far below",
      list({ a: { items: { items: text } } }),
      list({ a: { items: { items: { ...text, maxLength: 3 } } } }),
      ["/properties/a/items/items/maxLength narrower"]
    ],
    [
      "a recursive schema inside a negation, which only looks wider",
      { type: "object", properties: { not: { not: { $ref: "#" } }, n: { type: "integer" } } },
      { type: "object", properties: { not: { not: { $ref: "#" } }, n: { type: "number" } } },
      ["/properties/n/type wider", "/properties/not/not other"]
    ],
    [
      "another dialect",
      { $schema: "http://json-schema.org/draft-07/schema#" },
      { $schema: "https://json-schema.org/draft/2020-12/schema" },
      ["/$schema other"]
    ]
  ]
  for (const [what, was, now, expected] of table) {
    it(`compares ${what}`, () => {
      const found = compareSchemas.compare(was, now).map(({ path, relation }) => `${path} ${relation}`)
      assert.deepStrictEqual(found.sort(), [...expected].sort())
    })
  }

  it("stops at schemas that would take for ever or are too deep, and does not call them compatible", () => {
    let deep: Json.JsonObject = { type: "string" }
    let other: Json.JsonObject = { type: "string", maxLength: 1 }
    for (let i = 0; i < 1000; i++) [deep, other] = [{ items: deep }, { items: other }]
    assert.isAbove(compareSchemas.compare(deep, other).filter(({ relation }) => relation === "other").length, 0)
    const doubling = (leaf: Json.JsonObject) => {
      const $defs: Record<string, Json.JsonObject> = { d0: leaf }
      for (let i = 1; i < 100; i++) {
        const next = { $ref: `#/$defs/d${i - 1}` }
        $defs[`d${i}`] = { properties: { a: next, b: next } }
      }
      return { $ref: "#/$defs/d99", $defs }
    }
    const differences = compareSchemas.compare(doubling({ type: "string" }), doubling({ type: "integer" }))
    assert.isTrue(differences.length > 0 && differences.length < 100)
  })
})
