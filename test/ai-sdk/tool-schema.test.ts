import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, type Schema } from "effect"
import * as toolSchema from "#src/ai-sdk/internal/toolSchema.ts"
import { type Json, JsonSchema } from "effect-emissary/payload"
import { Re2 } from "effect-emissary/re2"
import { someRuns } from "../full.ts"
import { listFields } from "../mcp/fixtures/zod-fields.ts"
import { random } from "../payload/jsonschema/random.ts"
import { random as choices } from "../random.ts"
import { functionProblem } from "../wire/strict-schema.ts"
import { anthropicProblem, googleProblem } from "../wire/tool-rules.ts"

const { anthropic, compatible, google, openAi } = toolSchema.rules

/** The rules of each provider with a checker that was written from its page. */
const providers: Readonly<
  Record<string, readonly [toolSchema.Rules, (schema: Json.JsonObject) => string | undefined]>
> = {
  openai: [openAi, (schema) => functionProblem(schema, false)],
  anthropic: [anthropic, anthropicProblem],
  google: [google, googleProblem],
  "openai-compatible": [compatible, (schema) => functionProblem(schema, false) ?? anthropicProblem(schema)]
}

const long = "x".repeat(70)

const names = {
  keys: ["$top", "b", "a b", long, "c.d", "filter[id]"],
  patterns: ["^\\$", "b", "x{3}", "^.$", "^_x24", "\\["]
}

const isObject = (value: unknown): value is Json.JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const rewrite = (schema: Json.JsonObject, rules: toolSchema.Rules) => toolSchema.rewrite(schema, rules)

const same = (value: Schema.Json): Schema.Json => value

/** All keys of a value. */
const keysIn = (value: Schema.Json): ReadonlyArray<string> => {
  if (Array.isArray(value)) return value.flatMap(keysIn)
  return isObject(value) ? [...Object.keys(value), ...Object.values(value).flatMap(keysIn)] : []
}

describe("RIGHT-2 the schemas of tools in the forms of providers", () => {
  for (const [provider, [rules, problemOf]] of Object.entries(providers)) {
    it.effect(
      `RIGHT-2 ${provider}: a rewritten schema accepts what the original accepts, and the provider takes it`,
      () =>
        Effect.gen(function* () {
          const counts = { documents: 0, accepted: 0, refused: 0, renamed: 0, wrapped: 0 }
          for (let seed = 0; seed < someRuns(4500); seed++) {
            const { document, value } = random(seed, names)
            const { below, pick } = choices(seed)
            const made = document()
            const declared = isObject(made["properties"]) ? made["properties"] : {}
            const places = [
              "#",
              "#/$defs/d",
              ...Object.keys(declared).map((key) => `#/properties/${encodeURIComponent(key)}`)
            ]
            const properties = below(2) === 0 ? declared : { ...declared, "r/f": { $ref: pick(places) } }
            const original: Json.JsonObject = {
              ...made,
              ...(Object.keys(properties).length === 0 ? {} : { properties }),
              ...(below(3) === 0 ? {} : { type: "object" })
            }
            const compiled = yield* Effect.result(JsonSchema.make(original))
            if (Result.isFailure(compiled)) continue
            const result = rewrite(original, rules)
            if (Result.isFailure(result)) {
              assert.deepStrictEqual(result.failure.path, "/type", JSON.stringify([original, result.failure]))
              continue
            }
            const { form, schema } = result.success
            counts.documents++
            assert.isUndefined(problemOf(schema), `${problemOf(schema)}: ${JSON.stringify([original, schema])}`)
            const rewritten = yield* Effect.provide(JsonSchema.make(schema), Re2.layer)
            const toModel = form?.toModel ?? same
            const fromModel = form?.fromModel ?? same
            const isWrapped = isObject(schema["properties"]) && Object.keys(schema["properties"])[0] === "arguments"
            if (isWrapped) counts.wrapped++
            for (let n = 0; n < 8; n++) {
              const args = value()
              if (!isObject(args)) continue
              const sent = toModel(args)
              if (JSON.stringify(sent) !== JSON.stringify(isWrapped ? { arguments: args } : args)) counts.renamed++
              const shown = () => JSON.stringify({ original, schema, args, sent })
              assert.deepStrictEqual(fromModel(sent), args, shown())
              const isAccepted = JsonSchema.accepts(compiled.success, args)
              assert.strictEqual(JsonSchema.accepts(rewritten, sent), isAccepted, shown())
              if (isAccepted) counts.accepted++
              else counts.refused++
            }
            // The same from the side of the model, which knows the new names only
            const given = random(seed + 1, {
              ...names,
              keys: [...new Set(keysIn(toModel(Object.fromEntries(names.keys.map((key) => [key, 0])))))]
            })
            for (let n = 0; n < 8; n++) {
              const args = given.value()
              const sent = isWrapped ? { arguments: args } : args
              if (!isObject(sent)) continue
              const back = fromModel(sent)
              const shown = () => JSON.stringify({ original, schema, sent, back })
              assert.strictEqual(
                JsonSchema.accepts(compiled.success, back),
                JsonSchema.accepts(rewritten, sent),
                shown()
              )
            }
          }
          assert.isAbove(counts.documents, 500)
          assert.isAbove(counts.accepted, 500)
          assert.isAbove(counts.refused, 500)
          assert.isAbove(counts.wrapped, 50)
          if (rules.names !== undefined) assert.isAbove(counts.renamed, 100)
        })
    )

    it.effect(`RIGHT-2 ${provider}: the field types of zod 4.6 are all offered, and odd keys come back`, () =>
      Effect.gen(function* () {
        for (const { inputSchema, name } of yield* Effect.promise(() => listFields())) {
          // Sound: a list of tools is JSON
          const result = rewrite(inputSchema as Json.JsonObject, rules)
          assert(Result.isSuccess(result), `${name}: ${JSON.stringify(result)}`)
          assert.isUndefined(problemOf(result.success.schema), `${name}: ${JSON.stringify(result.success.schema)}`)
          if (name !== "oddKeys" || rules.names === undefined) continue
          const args = { field: { "filter[id]": "a", $top: 1 } }
          const sent = result.success.form?.toModel(args)
          assert.notDeepEqual(sent, args)
          assert.deepStrictEqual(result.success.form?.fromModel(sent ?? null), args)
        }
      })
    )

    const rewritten = (schema: Json.JsonObject) => {
      const result = rewrite(schema, rules)
      assert(Result.isSuccess(result), JSON.stringify(result))
      assert.isUndefined(problemOf(result.success.schema), JSON.stringify(result.success.schema))
      return result.success
    }

    it(`RIGHT-2 ${provider}: a schema that is fine is sent as it came`, () => {
      const schema = {
        type: "object",
        properties: { a: { type: "string" } },
        required: ["a"],
        additionalProperties: false
      }
      assert.deepStrictEqual(rewritten(schema), { schema, form: undefined })
    })

    it(`RIGHT-2 ${provider}: references move to the definitions, whatever they led to`, () => {
      const { schema } = rewritten({
        type: "object",
        definitions: { "a b": { type: "array", items: { $ref: "#/definitions/a%20b" } } },
        properties: {
          from: { type: "object", properties: { id: { type: "string" } } },
          to: { $ref: "#/properties/from" },
          id: { $ref: "#/properties/from/properties/id" },
          list: { $ref: "#/definitions/a%20b" },
          self: { $ref: "#" }
        }
      })
      assert.deepStrictEqual(schema, {
        type: "object",
        properties: {
          from: { $ref: "#/$defs/from" },
          to: { $ref: "#/$defs/from" },
          id: { $ref: "#/$defs/id" },
          list: { $ref: "#/$defs/a_b" },
          self: { $ref: "#" }
        },
        $defs: {
          a_b: { type: "array", items: { $ref: "#/$defs/a_b" } },
          from: { type: "object", properties: { id: { $ref: "#/$defs/id" } } },
          id: { type: "string" }
        }
      })
    })

    it(`RIGHT-2 ${provider}: keywords of draft-07 become those of 2020-12`, () => {
      const { schema } = rewritten({
        $schema: "http://json-schema.org/draft-07/schema#",
        type: "object",
        properties: {
          a: { type: "array", items: [{ type: "string" }], additionalItems: false },
          b: { type: ["array", "null"] }
        },
        dependencies: { a: ["b"], b: { minProperties: 2 } }
      })
      assert.deepStrictEqual(schema, {
        type: "object",
        properties: {
          a: { type: "array", prefixItems: [{ type: "string" }], items: false },
          b: { type: ["array", "null"], items: {} }
        },
        dependentRequired: { a: ["b"] },
        dependentSchemas: { b: { minProperties: 2 } }
      })
    })

    it(`RIGHT-2 ${provider}: a union at the root is wrapped, and arguments without the wrapper are read, too`, () => {
      const original = { type: "object", properties: { a: {}, arguments: { $ref: "#" } }, anyOf: [{ required: ["a"] }] }
      const { form, schema } = rewritten(original)
      assert.deepStrictEqual(schema["required"], ["_arguments"])
      assert.deepStrictEqual(form?.fromModel({ _arguments: { a: 1 } }), { a: 1 })
      assert.deepStrictEqual(form?.fromModel({ a: 1 }), { a: 1 })
      assert.deepStrictEqual(form?.toModel({ a: 1 }), { _arguments: { a: 1 } })
    })

    it(`RIGHT-2 ${provider}: only a schema that takes no object is left out`, () => {
      const result = rewrite({ type: "array" }, rules)
      assert.deepStrictEqual(result, Result.fail({ path: "/type", problem: "takes no object, and arguments are one" }))
    })
  }

  it("RIGHT-2 new names are unique, and a model that uses the original ones is understood", () => {
    const keys = ["a b", "a_x20_b", "", "-", "9", `${long}1`, `${long}2`, "ä", "a/b", "a~b", "toString"]
    const properties = Object.fromEntries(keys.map((key) => [key, { type: "string" }]))
    for (const rules of [anthropic, google]) {
      const result = rewrite({ type: "object", properties, required: keys }, rules)
      assert(Result.isSuccess(result))
      const { form, schema } = result.success
      assert.lengthOf(Object.keys(schema["properties"] ?? {}), keys.length)
      assert.sameMembers([...(schema["required"] as Array<string>)], Object.keys(schema["properties"] ?? {}))
      const args = Object.fromEntries(keys.map((key) => [key, key]))
      assert.deepStrictEqual(form?.fromModel(form.toModel(args)), args)
      assert.deepStrictEqual(form?.fromModel({ ä: "x" }), { ä: "x" })
    }
  })
})

describe("RIGHT-2 L10 schemas that take all the time", () => {
  it("RIGHT-2 thousands of odd names beside thousands of patterns leave the tool out, or are renamed", () => {
    const many = <A>(count: number, make: (n: number) => readonly [string, A]) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => make(n)))
    const schema = {
      type: "object",
      properties: many(2000, (n) => [`$${n}`, { type: "string" }]),
      patternProperties: many(2000, (n) => [`^[a-z${n}]+$`, {}])
    }
    const result = rewrite(schema, anthropic)
    assert(Result.isFailure(result))
    assert.include(result.failure.problem, "takes more work than the limit of fuel")
    const alone = rewrite({ type: "object", properties: schema.properties }, anthropic)
    assert(Result.isSuccess(alone))
  })
})
