import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Result, Schema } from "effect"
import { PayloadError } from "effect-emissary"
import { JsonSchema } from "effect-emissary/payload"
import { test } from "../../test.ts"

const long = "k".repeat(1_000_000)

describe("PAY-C schemas and values that swell", () => {
  test("PAY-C many schemas below a long key are refused before their places fill the memory", function* () {
    const properties = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`p${i}`, {}]))
    const error = yield* Effect.flip(JsonSchema.make({ $defs: { [long]: { properties } } }))
    assert.strictEqual(error.reason, "TooLarge")
  })

  for (const [what, schema] of Object.entries({
    dialect: { $schema: long },
    reference: { $ref: `#/${long}` },
    keyword: { [long]: 1 },
    format: { format: long },
    place: { properties: { [long]: 1 } }
  })) {
    test(`PAY-C the message about a long ${what} stays short`, function* () {
      const error = yield* Effect.flip(JsonSchema.make(schema))
      assert.isBelow(error.message.length, 1000)
    })
  }

  test("TOOL-4 what the model reads about its arguments does not repeat a long key for each problem", function* () {
    const schema = yield* JsonSchema.make({ additionalProperties: { items: { type: "string" } } })
    const checked = JsonSchema.validate(schema, { [long]: Array.from({ length: 100 }, () => 1) })
    assert(Result.isFailure(checked))
    assert.isBelow(PayloadError.render("arguments", checked.failure).length, 2 * long.length)
  })

  test("AGENT-6 alternatives that double at every level do not hang the Schema for a model", function* () {
    const levels = 40
    const $defs = Object.fromEntries(
      Array.from({ length: levels }, (_, i) => {
        const next = { $ref: `#/$defs/n${i + 1}` }
        return [`n${i}`, i === levels - 1 ? { type: "string" } : { anyOf: [next, next] }]
      })
    )
    for (const schema of [
      { type: "object", properties: { value: { $ref: "#/$defs/n0" } }, $defs },
      { $ref: "#/$defs/n0", $defs }
    ]) {
      const decode = Schema.decodeUnknownExit(JsonSchema.toSchema(yield* JsonSchema.make(schema)))
      assert.isTrue(Exit.isSuccess(decode({ value: 5 })))
    }
  })

  test("AGENT-6 a schema of trees is still imported", function* () {
    const tree = yield* JsonSchema.make({
      $ref: "#/$defs/tree",
      $defs: {
        tree: {
          type: "object",
          properties: { left: { $ref: "#/$defs/tree" }, right: { $ref: "#/$defs/tree" }, name: { type: "string" } }
        }
      }
    })
    const decode = Schema.decodeUnknownExit(JsonSchema.toSchema(tree))
    assert.isTrue(Exit.isFailure(decode({ left: { name: 1 } })))
    assert.isTrue(Exit.isSuccess(decode({ left: { name: "a" }, right: {} })))
  })

  test("PAY-C a recursion that looks at one member twice is not read by core's Schemas", function* () {
    const again = { $ref: "#/$defs/x" }
    const hostile = yield* JsonSchema.make({
      $defs: {
        x: {
          type: "object",
          anyOf: [
            { properties: { a: again }, required: ["z"] },
            { properties: { a: again }, required: ["b"] }
          ]
        }
      },
      type: "object",
      properties: { a: again }
    })
    let deep: Schema.Json = {}
    for (let i = 0; i < 40; i++) deep = { a: deep }
    assert.isTrue(Exit.isSuccess(Schema.decodeUnknownExit(JsonSchema.toSchema(hostile))(deep)))
    assert.isFalse(JsonSchema.accepts(hostile, deep))
  })

  test("PAY-C alternatives distinguished by a tag or by their members stay Schemas", function* () {
    const node = { $ref: "#/$defs/node" }
    const tag = (name: string) => ({ type: "string", const: name })
    const tagged = [
      { type: "object", properties: { is: tag("leaf"), value: { type: "integer" } }, required: ["is", "value"] },
      { type: "object", properties: { is: tag("not"), of: node }, required: ["is", "of"] },
      { type: "object", properties: { is: tag("same"), as: node }, required: ["is", "as"] }
    ]
    const untagged = [
      { type: "object", properties: { and: { type: "array", items: node } }, required: ["and"] },
      { type: "object", properties: { not: node }, required: ["not"] }
    ]
    for (const [anyOf, wrong] of [
      [tagged, { root: { is: "leaf", value: "no" } }],
      [untagged, { root: { neither: 1 } }]
    ] as const) {
      const schema = { $defs: { node: { anyOf } }, type: "object", properties: { root: node }, required: ["root"] }
      const decode = Schema.decodeUnknownExit(JsonSchema.toSchema(yield* JsonSchema.make(schema)))
      assert.isTrue(Exit.isFailure(decode(wrong)))
    }
  })
})
