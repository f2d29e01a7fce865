import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Result, Schema } from "effect"
import { PayloadError } from "effect-emissary"
import { JsonSchema } from "effect-emissary/payload"
import { Re2 } from "effect-emissary/re2"
import { testWith } from "../../test.ts"

const test = testWith(Re2.layer)

const nest = (depth: number, wrap: (inner: unknown) => unknown, leaf: unknown = {}) => {
  let schema = leaf
  for (let i = 0; i < depth; i++) schema = wrap(schema)
  return schema
}

const reason = (result: Result.Result<unknown, { readonly reason: string }>) =>
  Result.isFailure(result) ? result.failure.reason : "accepted"

const budget = (result: Result.Result<unknown, ReadonlyArray<{ readonly keyword?: string }>>) =>
  Result.isFailure(result) ? result.failure[0]?.keyword : "accepted"

/** `bench/hostile.ts` measures what hostile schemas and values cost. Where the cost is not linear, these tests do not end. */
describe("PAY-C hostile schemas", () => {
  for (const depth of [100, 1000, 100_000]) {
    test(`PAY-C refuses ${depth} levels of nesting`, function* () {
      for (const wrap of [
        (inner: unknown) => ({ properties: { a: inner } }),
        (inner: unknown) => ({ items: inner }),
        (inner: unknown) => ({ not: inner }),
        (inner: unknown) => ({ allOf: [inner] }),
        (inner: unknown) => ({ default: [inner] })
      ]) {
        assert.strictEqual(reason(yield* Effect.result(JsonSchema.make(nest(depth, wrap)))), "TooDeep")
        const limits = { maxDepth: 1_000_000 }
        if (depth > 512)
          assert.strictEqual(reason(yield* Effect.result(JsonSchema.make(nest(depth, wrap), { limits }))), "TooDeep")
      }
    })
  }

  test("PAY-C refuses documents of more than 256 levels whatever the limit is", function* () {
    const limits = { maxDepth: 300 }
    const lists = (depth: number) => ({ default: nest(depth, (inner) => [inner], 1) })
    assert.strictEqual(reason(yield* Effect.result(JsonSchema.make(lists(250), { limits }))), "accepted")
    assert.strictEqual(reason(yield* Effect.result(JsonSchema.make(lists(260), { limits }))), "TooDeep")
  })

  test("PAY-C refuses a chain of references that is too long", function* () {
    const $defs = Object.fromEntries(
      Array.from({ length: 5000 }, (_, i) => [`d${i}`, i === 4999 ? {} : { $ref: `#/$defs/d${i + 1}` }])
    )
    assert.strictEqual(reason(yield* Effect.result(JsonSchema.make({ $defs, $ref: "#/$defs/d0" }))), "TooDeep")
  })

  for (const keyword of ["allOf", "anyOf", "oneOf"]) {
    test(`PAY-C gives up on an exponential fan of ${keyword}`, function* () {
      const $defs = Object.fromEntries(
        Array.from({ length: 40 }, (_, i) => [
          `d${i}`,
          i === 39 ? { type: "string" } : { [keyword]: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] }
        ])
      )
      const checked = yield* JsonSchema.make({ $defs, $ref: "#/$defs/d0" })
      for (const value of [1, "x"]) {
        const result = yield* Effect.result(Effect.fromResult(JsonSchema.validate(checked, value)))
        assert.include(["fuel", "type", "accepted"], budget(result))
      }
    })
  }

  test("PAY-C gives up on a recursive choice that doubles at each level", function* () {
    const kid = { properties: { a: { $ref: "#" } } }
    const checked = yield* JsonSchema.make({ anyOf: [kid, { ...kid, title: "x" }], type: "object" })
    const value = nest(60, (inner) => ({ a: inner }), 1)
    const result = yield* Effect.result(Effect.fromResult(JsonSchema.validate(checked, value, { coerce: true })))
    assert.strictEqual(budget(result), "fuel")
  })

  test("DESIGN 5.10 patterns run in linear time", function* () {
    const text = "a".repeat(100_000)
    for (const pattern of ["^(a+)+$", "(a|a)*b", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a?){500}a{400}b"]) {
      const checked = yield* JsonSchema.make({ pattern })
      yield* Effect.result(Effect.sync(() => JsonSchema.validate(checked, `${text}!`)))
    }
    const many = yield* JsonSchema.make({ patternProperties: { "(a+)+$": {}, "(a|b|ab)*c": { type: "null" } } })
    const keys = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => ["a".repeat(i), 1]))
    yield* Effect.result(Effect.sync(() => JsonSchema.validate(many, keys)))
  })

  test("DESIGN 5.10 compiling patterns is bounded, too", function* () {
    const source = (i: number) => `(?:a?){900}a{50}${i}`
    const anyOf = Array.from({ length: 1000 }, (_, i) => ({ pattern: source(i) }))
    assert.strictEqual(reason(yield* Effect.result(JsonSchema.make({ anyOf }))), "TooLarge")
    const classes = { pattern: "\\p{L}|".repeat(300) }
    assert.strictEqual(reason(yield* Effect.result(JsonSchema.make(classes))), "UnsupportedPattern")
    const groups = { pattern: "(".repeat(1000) + ")".repeat(1000) }
    assert.strictEqual(reason(yield* Effect.result(JsonSchema.make(groups))), "UnsupportedPattern")
    for (const [pattern, expected] of [
      ["a{900}".repeat(4), "accepted"],
      ["a{900}".repeat(5), "UnsupportedPattern"]
    ]) {
      assert.strictEqual(reason(yield* Effect.result(JsonSchema.make({ pattern }))), expected)
    }
  })

  test("PAY-C large documents and values are fast", function* () {
    const members = Array.from({ length: 20_000 }, (_, i) => `m${i}`)
    const declared = members.slice(0, 5000).map((name) => [name, { enum: [name], default: name }])
    const properties = Object.fromEntries(declared)
    const big = yield* Effect.result(JsonSchema.make({ properties, additionalProperties: false }))
    if (Result.isFailure(big)) return assert.fail(big.failure.message)
    const filled = JsonSchema.validate(big.success, {})
    assert.strictEqual(Object.keys(Object(Result.getOrThrow(filled))).length, 5000)
    const one = yield* JsonSchema.make({ items: { enum: members }, uniqueItems: true })
    const checked = yield* Effect.result(Effect.fromResult(JsonSchema.validate(one, members)))
    assert.isTrue(Result.isSuccess(checked))
    const rows = yield* JsonSchema.make({
      items: { anyOf: [{ type: "object", properties: { a: { type: "integer" } }, required: ["a"] }, { type: "null" }] }
    })
    const list = Array.from({ length: 20_000 }, (_, a) => ({ a }))
    assert.isTrue(Result.isSuccess(yield* Effect.result(Effect.fromResult(JsonSchema.validate(rows, list)))))
  })

  test("PAY-C formats take long texts", function* () {
    const long = 100_000
    const texts = ["a", "1", "a.", "a-", "%41", "/", "{a}", "{", '"', "a@", ":", "~0", "é", "P1", "xn--", "[::", "("]
    const formats = "uri uri-reference email hostname duration ipv6 regex date-time json-pointer"
    for (const format of formats.split(" ")) {
      const checked = yield* JsonSchema.make({ format })
      for (const text of texts) {
        const value = text.repeat(long / text.length)
        JsonSchema.validate(checked, value)
        JsonSchema.validate(checked, `http://${value}`)
      }
    }
  })

  test("PAY-C values nested too deeply are an issue, not a crash", function* () {
    const checked = yield* JsonSchema.make({ anyOf: [{ items: { $ref: "#" } }, { type: "null" }] })
    const limits = { maxDepth: 1_000_000 }
    for (const depth of [100, 500, 100_000]) {
      const value = nest(depth, (inner) => [inner], null)
      const result = yield* Effect.result(Effect.fromResult(JsonSchema.validate(checked, value, { limits })))
      assert.include(["accepted", "json", "fuel"], budget(result))
    }
  })

  test("FromSchema takes a large Schema", function* () {
    const fields = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`f${i}`, Schema.optionalKey(Schema.Int)]))
    assert.isTrue(Result.isSuccess(yield* Effect.result(JsonSchema.fromSchema(Schema.Struct(fields)))))
  })
})

const long = "k".repeat(1_000_000)

describe("PAY-C schemas and values that swell", () => {
  for (const [what, schema] of Object.entries({
    dialect: { $schema: long },
    reference: { $ref: `#/${long}` },
    keyword: { [`$${long}`]: 1 },
    type: { type: long },
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
      assert.isTrue(Exit.isFailure(decode({ value: 5 })))
    }
  })

  test("AGENT-6 the Schema of a schema of trees checks them", function* () {
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

  test("PAY-C a recursion that looks at one member twice is read with fuel", function* () {
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
    assert.isTrue(Exit.isFailure(Schema.decodeUnknownExit(JsonSchema.toSchema(hostile))(deep)))
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
