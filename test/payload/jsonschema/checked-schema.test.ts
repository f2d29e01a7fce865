import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { AnthropicStructuredOutput, OpenAiStructuredOutput } from "effect/ai"
import { AgentDefinition, PayloadError, ToolContract } from "effect-emissary"
import { Json, JsonSchema } from "effect-emissary/payload"
import { Re2 } from "effect-emissary/re2"
import { testWith } from "../../test.ts"

const test = testWith(Re2.layer)

const json = (text: string): unknown => JSON.parse(text)

const issues = (schema: unknown, value: unknown, options?: Parameters<typeof JsonSchema.validate>[2]) =>
  Effect.map(JsonSchema.make(schema), (checked) => {
    const result = JsonSchema.validate(checked, value, options)
    return Result.isFailure(result)
      ? result.failure.map(({ expected, found, path }) => `${path}: ${expected}, got ${found}`)
      : []
  })

const value = (schema: unknown, input: unknown, options?: Parameters<typeof JsonSchema.validate>[2]) =>
  Effect.flatMap(JsonSchema.make(schema), (checked) => Effect.fromResult(JsonSchema.validate(checked, input, options)))

const order = {
  type: "object",
  properties: {
    id: { type: "string", minLength: 2 },
    state: { type: "string", enum: ["open", "closed"] },
    items: {
      type: "array",
      items: {
        type: "object",
        properties: { sku: { type: "string" }, qty: { type: "integer", minimum: 1 } },
        required: ["sku", "qty"],
        additionalProperties: false
      }
    },
    "odd key": { type: "boolean" }
  },
  required: ["id", "items"],
  additionalProperties: false
}

describe("TOOL-4 issues", () => {
  test("TOOL-4 collects all, in the order of the schema, with paths", function* () {
    assert.deepStrictEqual(
      yield* issues(order, { "odd key": "no", items: [{ qty: 0.5 }, { sku: 1, qty: 0 }], state: "lost" }),
      [
        "/id: a required value, got nothing",
        '/state: one of "open", "closed", got another string',
        "/items/0/sku: a required value, got nothing",
        "/items/0/qty: integer, got number",
        "/items/1/sku: string, got integer",
        "/items/1/qty: at least 1, got a smaller number",
        "/odd key: boolean, got string"
      ]
    )
  })

  test("TOOL-4 reports a JSON Pointer and a keyword", function* () {
    const checked = yield* JsonSchema.make({ properties: { "a/b": { items: { type: "null" } } } })
    const result = JsonSchema.validate(checked, { "a/b": [1] })
    assert.deepStrictEqual(
      result,
      Result.fail([{ path: "/a~1b/0", expected: "null", found: "integer", keyword: "type" }])
    )
  })

  test("TOOL-4 1.0 is an integer and an integer is a number", function* () {
    const schema = { properties: { i: { type: "integer" }, n: { type: "number" } } }
    assert.deepStrictEqual(yield* issues(schema, json('{"i": 1.0, "n": 1}')), [])
  })

  test("TOOL-4 names the alternatives that do not fit, or the issues of the one that was meant", function* () {
    const nullable = { properties: { a: { anyOf: [{ type: "string", maxLength: 1 }, { type: "null" }] } } }
    assert.deepStrictEqual(yield* issues(nullable, { a: "xx" }), ["/a: at most 1 character, got 2"])
    const tagged = {
      anyOf: [
        { type: "object", properties: { kind: { const: "a" }, x: { type: "integer" } }, required: ["kind", "x"] },
        { type: "object", properties: { kind: { const: "b" } }, required: ["kind"] }
      ]
    }
    assert.deepStrictEqual(yield* issues(tagged, { kind: "a" }), ["/x: a required value, got nothing"])
    assert.deepStrictEqual(yield* issues(tagged, 3), [": one of 2 alternatives (object), got integer"])
  })

  test("L2 never quotes the value, only its kind", function* () {
    const schema = {
      properties: {
        a: { type: "integer" },
        b: { enum: ["x"] },
        c: { pattern: "^y$" },
        d: { format: "email" },
        e: { const: 1 },
        f: { anyOf: [{ const: 1 }, { const: 2 }] },
        g: { not: {} },
        h: { maxLength: 1 }
      }
    }
    const secret = "sk-SECRET"
    const input = Object.fromEntries(Object.keys(schema.properties).map((key) => [key, secret]))
    const found = yield* issues(schema, input)
    assert.strictEqual(found.length, 8)
    assert.notInclude(found.join("\n"), secret)
  })

  test("PAY-A stops collecting at maxIssues", function* () {
    const schema = { items: { type: "string" } }
    assert.strictEqual((yield* issues(schema, Array(1000).fill(1))).length, 50)
    assert.strictEqual((yield* issues(schema, Array(1000).fill(1), { maxIssues: 3 })).length, 3)
  })

  it("renders problems as one line, and counts those that are too many", () => {
    const problem = { path: "", expected: "object", found: "null", keyword: "type" }
    assert.strictEqual(PayloadError.render("", [problem]), "at the root: expected object, got null")
    const many = PayloadError.render(
      "order",
      Array.from({ length: 12 }, () => ({ ...problem, path: "/a" })),
      3
    )
    assert.match(many, /^order at \/a: expected object, got null; .*; and 5 more$/)
  })
})

describe("TOOL-4 completion", () => {
  test("TOOL-4 fills in defaults, nested, through $ref and allOf, and in the chosen alternative", function* () {
    const schema = {
      $defs: { unit: { type: "string", default: "celsius" }, base: { properties: { lang: { default: "en" } } } },
      properties: {
        unit: { $ref: "#/$defs/unit" },
        range: { type: "object", properties: { days: { type: "integer", default: 3 } }, default: {} },
        rows: { items: { properties: { n: { default: 0 } } } },
        shape: {
          anyOf: [
            { properties: { kind: { const: "circle" }, r: { default: 1 } }, required: ["kind"] },
            { properties: { kind: { const: "square" }, a: { default: 2 } }, required: ["kind"] }
          ]
        }
      },
      allOf: [{ $ref: "#/$defs/base" }]
    }
    assert.deepStrictEqual(yield* value(schema, { rows: [{}, { n: 1 }], shape: { kind: "square" } }), {
      rows: [{ n: 0 }, { n: 1 }],
      shape: { kind: "square", a: 2 },
      unit: "celsius",
      range: { days: 3 },
      lang: "en"
    })
  })

  test("TOOL-4 a default of a required property is filled in; one that does not fit is only a note", function* () {
    const schema = {
      properties: { a: { type: "integer", default: 1 }, b: { type: "string", default: null }, c: { default: null } },
      required: ["a"]
    }
    assert.deepStrictEqual(yield* value(schema, {}), { a: 1, c: null })
  })

  test("TOOL-4 of several alternatives that defaults make fit anyOf takes the first, oneOf none", function* () {
    const branch = (key: string) => ({ properties: { [key]: { type: "integer", default: 1 } }, required: [key] })
    const branches = [branch("a"), branch("b")]
    assert.deepStrictEqual(yield* value({ anyOf: branches }, {}), { a: 1 })
    assert.deepStrictEqual(yield* value({ oneOf: [branch("a"), { ...branch("b"), type: "array" }] }, {}), { a: 1 })
    const one = yield* JsonSchema.make({ oneOf: branches })
    assert.isTrue(Result.isFailure(JsonSchema.validate(one, {})))
    const same = yield* JsonSchema.make({ oneOf: [branch("a"), branch("a")] })
    assert.isTrue(Result.isFailure(JsonSchema.validate(same, { a: 1 })))
  })

  test("TOOL-4 removes null for an optional property whose schema does not take it", function* () {
    const schema = {
      properties: {
        plain: { type: "string" },
        filled: { type: "integer", default: 2 },
        nullable: { type: ["string", "null"] },
        needed: { type: ["string", "null"] }
      },
      required: ["needed"]
    }
    assert.deepStrictEqual(yield* value(schema, { plain: null, filled: null, nullable: null, needed: null }), {
      nullable: null,
      needed: null,
      filled: 2
    })
    assert.deepStrictEqual(yield* issues({ properties: { a: { type: "string" } }, required: ["a"] }, { a: null }), [
      "/a: string, got null"
    ])
  })

  test("TOOL-4 drops undeclared properties of closed objects, refuses them when strict", function* () {
    const schema = {
      type: "object",
      properties: { in: { type: "object", properties: { a: {} }, additionalProperties: false } },
      patternProperties: { "^x-": {} },
      additionalProperties: false
    }
    const input = { in: { a: 1, b: 2 }, "x-1": 1, y: 1 }
    assert.deepStrictEqual(yield* value(schema, input), { in: { a: 1 }, "x-1": 1 })
    assert.deepStrictEqual(yield* issues(schema, input, { strict: true }), [
      "/in/b: no such key, got integer",
      "/y: no such key, got integer"
    ])
    assert.deepStrictEqual(yield* value({ properties: { a: {} } }, { a: 1, b: 2 }), { a: 1, b: 2 })
  })

  test("L4 a property that another part of an allOf declares is refused, not lost", function* () {
    const schema = { allOf: [{ properties: { a: {} }, additionalProperties: false }, { properties: { b: {} } }] }
    assert.deepStrictEqual(yield* issues(schema, { a: 1, b: 2 }), ["/b: no such key, got integer"])
  })

  test("TOOL-4 takes text that holds JSON for an array or object, when asked", function* () {
    const schema = {
      properties: {
        list: { type: "array", items: { type: "integer" } },
        map: { type: "object" },
        maybe: { anyOf: [{ type: "array" }, { type: "null" }] },
        text: { type: "string" },
        both: { type: ["string", "array"] }
      }
    }
    const input = { list: "[1,2]", map: ' {"a":[]}', maybe: "[]", text: "[1]", both: "[1]" }
    assert.deepStrictEqual(yield* value(schema, input, { coerce: true }), {
      list: [1, 2],
      map: { a: [] },
      maybe: [],
      text: "[1]",
      both: "[1]"
    })
    assert.strictEqual((yield* issues(schema, input)).length, 3)
    assert.deepStrictEqual(yield* issues(schema, { list: '{"a":1}', map: "[]" }, { coerce: true }), [
      "/list: array, got string",
      "/map: object, got string"
    ])
    assert.deepStrictEqual(yield* issues(schema, { map: '{"__proto__":{}}' }, { coerce: true }), [
      "/map: object, got string"
    ])
  })

  test("never changes the input and shares nothing with it or with the schema", function* () {
    const schema = { properties: { a: { properties: { b: { default: [1] } }, default: {} }, c: {} } }
    const input = { c: { d: [1] }, a: {} }
    const before = structuredClone(input)
    const checked = yield* JsonSchema.make(schema)
    const first = yield* Effect.fromResult(JsonSchema.validate(checked, input))
    assert.deepStrictEqual(input, before)
    const seen = JSON.stringify(first)
    JSON.stringify(first, (_, part: unknown) => {
      if (Array.isArray(part)) part.push("changed")
      return part
    })
    const second = yield* Effect.fromResult(JsonSchema.validate(checked, input))
    assert.strictEqual(JSON.stringify(second), seen)
    assert.deepStrictEqual(input, before)
    assert.deepStrictEqual(checked.json, schema)
  })
})

describe("L2 keys and plain data", () => {
  test("L2 refuses __proto__ and constructor.prototype in values, keeps plain constructor", function* () {
    assert.deepStrictEqual(yield* issues({}, json('{"a":{"__proto__":1}}')), [
      '/a/__proto__: another key, got "__proto__"'
    ])
    assert.deepStrictEqual(yield* issues({}, json('{"constructor":{"prototype":1}}')), [
      '/constructor: another key, got "constructor"'
    ])
    assert.deepStrictEqual(yield* value({}, { constructor: "x", toString: 1 }), { constructor: "x", toString: 1 })
  })

  test("L2 reads own properties only", function* () {
    const schema = { properties: { toString: { type: "integer" }, constructor: { type: "string" } } }
    assert.deepStrictEqual(yield* issues(schema, {}), [])
    assert.deepStrictEqual(yield* issues({ required: ["toString"] }, {}), ["/toString: a required value, got nothing"])
  })
})

describe("CODEC-4 refusals", () => {
  const draft07 = { $schema: "http://json-schema.org/draft-07/schema#", definitions: { a: {} } }
  const cases: ReadonlyArray<readonly [name: string, schema: unknown, path: string, tag: string]> = [
    ["a misspelled keyword", { properties: { a: { minLenght: 1 } } }, "/properties/a/minLenght", "UnsupportedKeyword"],
    ["a keyword without its case", { additionalproperties: false }, "/additionalproperties", "UnsupportedKeyword"],
    ["a keyword in another style", { items: { min_length: 1 } }, "/items/min_length", "UnsupportedKeyword"],
    ["a keyword that is one letter short", { require: ["a"] }, "/require", "UnsupportedKeyword"],
    ["a reference without its sign", { ref: "#" }, "/ref", "UnsupportedKeyword"],
    ["a keyword of a vocabulary", { $vocabulary: {} }, "/$vocabulary", "UnsupportedKeyword"],
    ["a keyword of draft 3", { divisibleBy: 2 }, "/divisibleBy", "UnsupportedKeyword"],
    ["a keyword of the other dialect", { additionalItems: false }, "/additionalItems", "UnsupportedKeyword"],
    ["$id", { $id: "https://example.com/a.json" }, "/$id", "UnsupportedKeyword"],
    ["$anchor", { $defs: { a: { $anchor: "a" } } }, "/$defs/a/$anchor", "UnsupportedKeyword"],
    ["unevaluatedItems", { items: { unevaluatedItems: false } }, "/items/unevaluatedItems", "UnsupportedKeyword"],
    ["unevaluatedProperties", { unevaluatedProperties: {} }, "/unevaluatedProperties", "UnsupportedKeyword"],
    ["$dynamicRef", { items: { $dynamicRef: "#x" } }, "/items/$dynamicRef", "UnsupportedKeyword"],
    ["nullable of OpenAPI", { type: "string", nullable: true }, "/nullable", "UnsupportedKeyword"],
    ["an unknown type", { anyOf: [{ type: "float" }] }, "/anyOf/0/type", "UnsupportedType"],
    ["an unknown dialect", { $schema: "http://json-schema.org/draft-04/schema#" }, "/$schema", "UnsupportedDialect"],
    ["a remote reference", { $ref: "https://example.com/a.json" }, "/$ref", "UnresolvedReference"],
    ["a dangling reference", { $ref: "#/$defs/a" }, "/$ref", "UnresolvedReference"],
    ["a reference to a note", { "x-a": {}, $ref: "#/x-a" }, "/$ref", "UnresolvedReference"],
    ["a reference to itself", { $ref: "#" }, "/$ref", "ReferenceCycle"],
    ["a cycle through allOf", { allOf: [{ anyOf: [{ $ref: "#" }] }] }, "/allOf/0/anyOf/0/$ref", "ReferenceCycle"],
    ["a cycle through not", { not: { $ref: "#" } }, "/not/$ref", "ReferenceCycle"],
    [
      "a way into a cycle that is none of it",
      { allOf: [{ $ref: "#/$defs/a" }], $defs: { a: { $ref: "#/$defs/b" }, b: { oneOf: [{ $ref: "#/$defs/b" }] } } },
      "/$defs/b/oneOf/0/$ref",
      "ReferenceCycle"
    ],
    [
      "a cycle through then, after other schemas of the value",
      { $ref: "#/$defs/a", $defs: { a: { anyOf: [true, { if: true, then: { $ref: "#/$defs/a" } }] } } },
      "/$defs/a/anyOf/1/then/$ref",
      "ReferenceCycle"
    ],
    [
      "a cycle through dependentSchemas",
      { dependentSchemas: { a: { else: { $ref: "#" } } } },
      "/dependentSchemas/a/else/$ref",
      "ReferenceCycle"
    ],
    ["look-ahead", { pattern: "^(?=a)" }, "/pattern", "UnsupportedPattern"],
    ["a back reference", { patternProperties: { "(a)\\1": {} } }, "/patternProperties/(a)\\1", "UnsupportedPattern"],
    ["a broken pattern", { pattern: "(" }, "/pattern", "UnsupportedPattern"],
    ["a keyword of a wrong form", { minimum: "1" }, "/minimum", "InvalidKeyword"],
    ["items of draft-07 in 2020-12", { items: [{}] }, "/items", "InvalidKeyword"],
    ["a subschema that is none", { properties: { a: 1 } }, "/properties/a", "NotASchema"],
    ["a document that is none", [], "", "NotASchema"],
    ["__proto__", json('{"properties":{"__proto__":{}}}'), "/properties/__proto__", "ForbiddenKey"],
    [
      "assertions beside $ref in draft-07",
      { ...draft07, $ref: "#/definitions/a", minLength: 1 },
      "/minLength",
      "InvalidKeyword"
    ]
  ]
  for (const [name, schema, path, tag] of cases) {
    test(`CODEC-4 ${name}`, function* () {
      const error = yield* Effect.flip(JsonSchema.make(schema, { what: "tool parameters" }))
      assert.deepStrictEqual([error.path, error.reason, error.what], [path, tag, "tool parameters"])
      assert.include(error.message, path)
    })
  }

  test("MEND-12 an annotation that JSON Schema does not have is kept, and changes nothing", function* () {
    const notes = {
      optional: true,
      example: "Rome",
      xml: { name: "city" },
      discriminator: { propertyName: "kind" },
      externalDocs: { url: "https://a.test" },
      enumNames: ["a"],
      propertyOrdering: ["city"],
      note: "n",
      order: 1,
      label: { type: "integer" },
      unit: "m",
      style: "x",
      id: "city"
    }
    const plain = { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
    const noted = { ...plain, ...notes, properties: { city: { type: "string", ...notes } } }
    const checked = yield* JsonSchema.make(noted)
    assert.deepStrictEqual(checked.json, noted)
    for (const value of [{ city: "Rome" }, { city: 1 }, {}, { city: "a", optional: 1 }]) {
      assert.deepStrictEqual(
        JsonSchema.validate(checked, value),
        JsonSchema.validate(yield* JsonSchema.make(plain), value)
      )
    }
    const closed = { ...noted, additionalProperties: false }
    assert.deepStrictEqual(JsonSchema.toStrict(closed), JsonSchema.toStrict({ ...plain, additionalProperties: false }))
    const misspelled = yield* Effect.flip(JsonSchema.make({ itemss: {} }))
    assert.include(misspelled.message, `Did you mean "items"?`)
    const contract = yield* ToolContract.make({ name: "t", parameters: noted })
    const codec = AgentDefinition.codec
    const written = yield* codec.encode(yield* AgentDefinition.make({ tools: [contract] }))
    assert.deepStrictEqual((yield* codec.decode(written)).tools[0]?.parameters, noted)
  })

  test("an annotation with a name like a keyword's is kept, unless its value could be the keyword's", function* () {
    const notes: ReadonlyArray<Json.JsonObject> = [
      { cost: 1 },
      { definition: "The capital" },
      { definition: { term: "x" } },
      { ref: "PROJ-12" },
      { refs: ["PROJ-12"] },
      { item: "book" },
      { tape: "red" },
      { typed: true },
      { types: "fast" },
      { them: ["us"] },
      { require: true },
      { nullable: false }
    ]
    for (const note of notes) {
      const checked = yield* JsonSchema.make({ type: "string", ...note })
      assert.isTrue(JsonSchema.accepts(checked, "a") && !JsonSchema.accepts(checked, 1), JSON.stringify(note))
      assert.deepStrictEqual(yield* Effect.fromResult(JsonSchema.toStrict(checked.json)), { type: "string" })
    }
    const meant: ReadonlyArray<readonly [Json.JsonObject, string]> = [
      [{ types: ["string"] }, "type"],
      [{ typ: "string" }, "type"],
      [{ item: { type: "string" } }, "items"],
      [{ itemss: { typo: { type: "flot" }, type: "flot" } }, "items"],
      [{ definition: { a: { type: "string" } } }, "definitions"],
      [{ ref: "#/definitions/a" }, "$ref"],
      [{ them: { minLength: 1 } }, "then"],
      [{ patern: "(?=a)" }, "pattern"],
      [{ CONST: 1 }, "const"]
    ]
    for (const [schema, keyword] of meant) {
      const error = yield* Effect.flip(JsonSchema.make(schema))
      assert.include(error.message, `Did you mean "${keyword}"?`)
    }
  })

  test("MEND-10 W8 an integer is a number that holds it exactly, as with Schema.Int", function* () {
    const schema = yield* JsonSchema.make({ properties: { id: { type: "integer" }, n: { type: "number" } } })
    const max = Number.MAX_SAFE_INTEGER
    assert.isTrue(JsonSchema.accepts(schema, { id: max }) && JsonSchema.accepts(schema, { id: -max, n: 1e300 }))
    assert.deepStrictEqual(yield* issues(schema.json, { id: 1e19 }), ["/id: integer, got integer beyond 2^53"])
    assert.isFalse(JsonSchema.accepts(schema, { id: max + 1 }))
  })

  test("CODEC-4 keeps the document verbatim, notes included", function* () {
    const text =
      '{"x-note":{"b":1,"a":2},"title":"T","type":"object","properties":{"z":{"type":"integer","default":1,"$comment":"c"},"a":{}},"examples":[{}]}'
    const checked = yield* JsonSchema.make(json(text))
    assert.strictEqual(JSON.stringify(checked.json), text)
  })
})

describe("CODEC-4 as a Schema", () => {
  test("CODEC-4 a rebuilt codec completes by the same interpreter and locates its issues", function* () {
    const checked = yield* JsonSchema.make(order)
    const codec = JsonSchema.codec(checked)
    const good = { id: "42", items: [{ sku: "a", qty: 1 }] }
    assert.deepStrictEqual(yield* Schema.decodeEffect(codec)({ ...good, more: 1 }), good)
    const error = yield* Effect.flip(Json.decode(codec)({ id: "42", items: [{ sku: "a" }] }))
    assert.strictEqual(error.problems[0]?.path, "/items/0/qty")
  })

  test("CODEC-4 toSchema takes what the document accepts, and core exports the document, definitions apart", function* () {
    const tree = {
      type: "object",
      properties: { kids: { type: "array", items: { $ref: "#/$defs/a~1b" } }, self: { $ref: "#" } },
      not: { required: ["no"] }
    }
    const $defs = { "a/b": { oneOf: [{ const: 1 }, { type: "string", minLength: 2 }] }, any: {} }
    const schema = JsonSchema.toSchema(yield* JsonSchema.make({ ...tree, $defs: { ...$defs, none: false, all: true } }))
    const { definitions, schema: exported } = Schema.toJsonSchemaDocument(schema)
    assert.deepStrictEqual(exported, tree)
    assert.deepStrictEqual(definitions, { ...$defs, none: { not: {} }, all: {} })
    const decode = Schema.decodeResult(schema)
    for (const value of [{}, { kids: [1, "ab"], self: {} }])
      assert.deepStrictEqual(decode(value), Result.succeed(value))
    for (const value of [1, { self: 1 }, { no: 1 }, { kids: ["a"] }]) assert.isTrue(Result.isFailure(decode(value)))
  })

  test("CODEC-4 the adapters of OpenAI and Anthropic show the document of a Schema with its definitions", function* () {
    const node = { type: "object", properties: { n: { type: "string" } }, required: ["n"], additionalProperties: false }
    const root = { ...node, properties: { n: { $ref: "#/$defs/node" } } }
    const document = { ...root, $defs: { node } }
    const schema = JsonSchema.toSchema(yield* JsonSchema.make(document))
    for (const toCodec of [OpenAiStructuredOutput.toCodecOpenAI, AnthropicStructuredOutput.toCodecAnthropic]) {
      const { codec, jsonSchema } = toCodec(schema)
      assert.deepStrictEqual(jsonSchema, document)
      assert.isTrue(Result.isSuccess(Schema.decodeUnknownResult(codec)({ n: { n: "a" } })))
    }
  })
})

describe("JsonSchema.make compiles a document once", () => {
  it("for the same object and for an equal one, unless the limits differ", () => {
    const document = () => ({ type: "object", properties: { once: { type: "string" } } })
    const first = document()
    const schema = Effect.runSync(JsonSchema.make(first))
    assert.strictEqual(Effect.runSync(JsonSchema.make(first)), schema)
    assert.strictEqual(Effect.runSync(JsonSchema.make(document())), schema)
    const error = Effect.runSync(Effect.flip(JsonSchema.make(first, { limits: { maxDepth: 2 } })))
    assert.strictEqual(error._tag, "JsonSchemaError")
  })
})
