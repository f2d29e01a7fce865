import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Agent, Limits, ModelRegistry, ToolContract, ToolResolver } from "effect-emissary"
import { JsonSchema } from "effect-emissary/payload"
import { ScriptedModel } from "effect-emissary/testing"
import { logged } from "../../logged.ts"
import { test } from "../../test.ts"

const odd = "^(?=a)b$"

const other = "(?<!c)d"

const lenient = Limits.layer({ maxUncheckedPatterns: 2 })

/** Each schema with values that it takes for all that is known, and values that it refuses with any pattern. */
const schemas: Readonly<
  Record<string, readonly [schema: object, takes: ReadonlyArray<unknown>, refuses: ReadonlyArray<unknown>]>
> = {
  alone: [{ type: "string", pattern: odd, maxLength: 2 }, ["x", "ab"], ["abc", 1]],
  "below not": [{ not: { type: "string", pattern: odd } }, ["x", 1], []],
  "below two not": [{ not: { not: { type: "string", pattern: odd } } }, ["x"], [1]],
  "below not, beside what is known": [{ not: { type: ["string", "integer"], pattern: odd } }, ["x", true], [1]],
  "in one of anyOf": [{ anyOf: [{ type: "string", pattern: odd }, { type: "integer" }] }, ["x", 1], [true]],
  "in one of oneOf": [
    { oneOf: [{ type: "string", pattern: odd }, { type: "string", minLength: 1 }, { type: "integer" }] },
    ["x", 1, ""],
    [true]
  ],
  "in oneOf, where two others fit": [
    { oneOf: [{ type: "string", pattern: odd }, { minLength: 1 }, { maxLength: 5 }] },
    [""],
    ["x"]
  ],
  "as a condition": [
    { if: { pattern: odd }, then: { maxLength: 1 }, else: { minLength: 3 } },
    ["x", "xx", "xxx", 1],
    []
  ],
  "in contains": [
    { contains: { type: "string", pattern: odd }, maxContains: 1 },
    [["x"], ["x", "y"], [1, "x"]],
    [[], [1]]
  ],
  "in contains, in a schema that is known": [
    { contains: { type: ["string", "integer"], pattern: odd }, maxContains: 1 },
    [[1], [1, "x"]],
    [[1, 2]]
  ],
  "of a property name": [
    { type: "object", patternProperties: { [odd]: { type: "integer" } }, additionalProperties: false },
    [{ b: "x" }, {}],
    [1]
  ],
  "of all property names": [{ propertyNames: { pattern: odd, maxLength: 2 } }, [{ b: 1 }], [{ abc: 1 }]]
}

describe("RIGHT-3 patterns that no engine runs", () => {
  for (const [name, [schema, takes, refuses]] of Object.entries(schemas)) {
    test(`RIGHT-3 ${name}: refused by name, and not checked where the limits allow that`, function* () {
      const error = yield* Effect.flip(JsonSchema.make(schema))
      assert.strictEqual(error.reason, "UnsupportedPattern")
      const made = yield* Effect.provide(JsonSchema.make(schema), lenient)
      assert.deepStrictEqual(
        made.unchecked.map(({ path, pattern }) => [path.length > 0, pattern]),
        [[true, odd]]
      )
      assert.deepStrictEqual(made.json, schema)
      for (const value of takes) assert.isTrue(JsonSchema.accepts(made, value), JSON.stringify(value))
      for (const value of refuses) assert.isFalse(JsonSchema.accepts(made, value), JSON.stringify(value))
      // Under the default limits it is still refused, although it was compiled
      assert.strictEqual((yield* Effect.flip(JsonSchema.make(schema))).reason, "UnsupportedPattern")
    })
  }

  test("RIGHT-3 a key that such a pattern may name is not dropped from a closed object", function* () {
    const schema = { type: "object", patternProperties: { [odd]: {} }, additionalProperties: false }
    const made = yield* Effect.provide(JsonSchema.make(schema), lenient)
    assert.deepStrictEqual(JsonSchema.validate(made, { b: 1 })["_tag"], "Success")
    assert.deepInclude(JsonSchema.validate(made, { b: 1 }), { success: { b: 1 } })
  })

  test("RIGHT-3 the limit counts", function* () {
    const schema = (...patterns: ReadonlyArray<string>) => ({ allOf: patterns.map((pattern) => ({ pattern })) })
    assert.lengthOf((yield* Effect.provide(JsonSchema.make(schema(odd, other)), lenient)).unchecked, 2)
    const error = yield* Effect.flip(Effect.provide(JsonSchema.make(schema(odd, other, odd)), lenient))
    assert.deepStrictEqual([error.path, error.reason], ["/allOf/0/pattern", "UnsupportedPattern"])
  })

  const parameters = {
    type: "object",
    properties: { a: { type: "string", pattern: odd } },
    additionalProperties: false
  }

  test("RIGHT-3 a document of an agent is refused by name for parameters, unless the limits allow it, and read for results", function* () {
    const agent = (tool: object) => JSON.stringify({ schema_version: 2, name: "a", tools: [{ name: "t", ...tool }] })
    const read = (text: string) =>
      Agent.decodeJson(text).pipe(
        Effect.provide([
          ToolResolver.layerStubs(),
          ModelRegistry.layerContext.pipe(Layer.provideMerge(ScriptedModel.layer([])))
        ])
      )
    const error = yield* Effect.flip(read(agent({ parameters })))
    assert.match(error.message, /at \/tools\/0\/parameters\/properties\/a\/pattern/)
    const { layer, lines } = logged()
    yield* Effect.provide(read(agent({ parameters })), [lenient, layer])
    yield* Effect.provide(
      read(agent({ parameters: { type: "object" }, success: { type: "string", pattern: other } })),
      layer
    )
    assert.lengthOf(lines, 2)
    assert.match(lines[0] ?? "", /Warn .*"t".*\(\?=a\).*at \/properties\/a\/pattern is not checked here/)
    assert.match(lines[1] ?? "", /Warn .*"t".*\(\?<!c\)d.*at \/pattern is not checked here/)
  })

  it.effect("RIGHT-3 a tool that a resolver refuses is logged once by name and reason", () => {
    const { layer, lines } = logged()
    return Effect.gen(function* () {
      const { resolve } = yield* ToolResolver.ToolResolver
      const bad = yield* ToolContract.make({ name: "bad", parameters: { $ref: "#/$defs/none" } })
      for (const _ of ["once", "again"]) yield* Effect.flip(resolve(bad))
      assert.lengthOf(lines, 1)
      assert.match(lines[0] ?? "", /Warn ToolResolver: Tool "bad": .*#\/\$defs\/none/)
    }).pipe(Effect.provide(ToolResolver.layerStubs()), Effect.provide(layer))
  })

  test("RIGHT-3 formats that are known are checked, others are annotations", function* () {
    for (const format of ["int64", "uint64", "double", "byte", "cuid2", "starts_with", "phone", ""]) {
      const made = yield* JsonSchema.make({ type: ["string", "integer"], format })
      assert.isTrue(JsonSchema.accepts(made, 5) && JsonSchema.accepts(made, "any text"), format)
      assert.deepStrictEqual(made.json["format"], format)
    }
    for (const format of ["date-time", "email", "uuid", "ipv6"]) {
      assert.isFalse(JsonSchema.accepts(yield* JsonSchema.make({ format }), "any text"), format)
    }
  })
})
