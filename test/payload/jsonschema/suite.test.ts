import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { JsonSchema } from "effect-emissary/payload"
import { Re2 } from "effect-emissary/re2"
import { readFileSync } from "node:fs"
import { testWith } from "../../test.ts"
import { type Deviation, deviations, refusedKeywords } from "./deviations.ts"

const test = testWith(Re2.layer)

const Test = Schema.Struct({ description: Schema.String, data: Schema.Unknown, valid: Schema.Boolean })
const Group = Schema.Struct({ description: Schema.String, schema: Schema.Json, tests: Schema.Array(Test) })
const Suite = Schema.fromJsonString(Schema.Struct({ files: Schema.Record(Schema.String, Schema.Array(Group)) }))

const isObject = Schema.is(Schema.JsonObject)

/** Documents are objects here, and a document of draft-07 has its `$schema`. */
const document = (schema: Schema.Json, draft: string): Schema.Json => {
  const object = isObject(schema) ? schema : { allOf: [schema] }
  return draft === "draft7" && !Object.hasOwn(object, "$schema")
    ? { $schema: "http://json-schema.org/draft-07/schema#", ...object }
    : object
}

const find = (list: ReadonlyArray<Deviation>, what: Deviation["what"], ...place: ReadonlyArray<string>) =>
  list.find((deviation) => deviation.what === what && place.join(" > ").startsWith(deviation.place))

for (const draft of ["draft2020-12", "draft7"] as const) {
  const text = readFileSync(new URL(`./suite/${draft}.json`, import.meta.url), "utf8")
  const suite = Schema.decodeSync(Suite)(text)
  describe(`CODEC-4 official test suite, ${draft}`, () => {
    const used = new Set<Deviation>()
    for (const [file, groups] of Object.entries(suite.files)) {
      test(file, function* () {
        for (const group of groups) {
          const made = yield* Effect.result(JsonSchema.make(document(group.schema, draft)))
          if (Result.isFailure(made)) {
            const { path, reason } = made.failure
            if (reason === "UnsupportedKeyword" && refusedKeywords.some((name) => path.endsWith(`/${name}`))) continue
            const deviation = find(deviations[draft], "refused", file, group.description)
            assert.isDefined(deviation, `${group.description}: ${made.failure.message}`)
            if (deviation !== undefined) used.add(deviation)
            continue
          }
          for (const { data, description, valid } of group.tests) {
            if (JsonSchema.accepts(made.success, data) === valid) continue
            const deviation = find(deviations[draft], "answer", file, group.description, description)
            assert.isDefined(deviation, `${group.description} > ${description}: expected ${valid}`)
            if (deviation !== undefined) used.add(deviation)
          }
        }
      })
    }
    it("uses every deviation", () => {
      for (const deviation of deviations[draft]) assert.isTrue(used.has(deviation), deviation.place)
    })
  })
}
