import { describe, expect, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import { createHash } from "node:crypto"
import * as convertSchema from "#src/payload/internal/convertSchema.ts"
import * as fuel from "#src/payload/internal/fuel.ts"
import * as interpret from "#src/payload/internal/interpret.ts"
import * as patterns from "#src/payload/internal/patterns.ts"
import { JsonSchema } from "effect-emissary/payload"

// The texts under golden were read once. After a change of a message or of a rule: read the difference, then `vitest -u`.

/** A text per group: the names of what has the same effect, and the effect. */
const grouped = <A>(entries: ReadonlyArray<readonly [name: string, value: A]>, effectOf: (value: A) => string) => {
  const groups = new Map<string, ReadonlyArray<string>>()
  for (const [name, value] of entries) {
    const effect = effectOf(value)
    groups.set(effect, [...(groups.get(effect) ?? []), name])
  }
  return Array.from(groups, ([effect, names]) => `${names.join(" | ")}\n  ${effect}`).join("\n")
}

const named = (values: ReadonlyArray<unknown>) => values.map((value) => [JSON.stringify(value), value] as const)

const schemas: ReadonlyArray<object> = [
  { allOf: [true] },
  { allOf: [false] },
  ...["null", "boolean", "integer", "number", "string", "array", "object"].map((type) => ({ type })),
  { type: ["integer", "null"] },
  { enum: ["a", 1, null] },
  { const: { a: 1 } },
  { minimum: 1 },
  { maximum: 1 },
  { exclusiveMinimum: 1 },
  { exclusiveMaximum: 1 },
  { multipleOf: 2 },
  { multipleOf: 0.1 },
  { minLength: 1 },
  { minLength: 2 },
  { maxLength: 1 },
  { pattern: "^a" },
  { format: "date" },
  { items: { type: "integer" } },
  { prefixItems: [{ type: "integer" }], items: false },
  { prefixItems: [true, { type: "string" }] },
  { minItems: 1 },
  { maxItems: 1 },
  { uniqueItems: true },
  { contains: { type: "integer" } },
  { contains: { type: "integer" }, minContains: 2 },
  { contains: { type: "integer" }, minContains: 0, maxContains: 1 },
  { properties: { a: { type: "integer" } } },
  { properties: { a: { type: "integer", default: 7 } }, required: ["a"] },
  { properties: { a: { type: "integer" } }, required: ["a", "b"], additionalProperties: false },
  { properties: { a: { type: ["string", "null"] }, b: { type: "string" } }, additionalProperties: { type: "null" } },
  { patternProperties: { "^a": { type: "integer" } }, additionalProperties: false },
  { patternProperties: { b$: { type: "integer" } } },
  { minProperties: 1 },
  { maxProperties: 1 },
  { propertyNames: { maxLength: 1 } },
  { dependentRequired: { a: ["b", "c"] } },
  { dependentSchemas: { a: { required: ["b"] } } },
  { $schema: "http://json-schema.org/draft-07/schema#", dependencies: { a: ["b"], ab: { type: "array" } } },
  { $schema: "http://json-schema.org/draft-07/schema#", items: [{ type: "integer" }], additionalItems: { const: "a" } },
  { allOf: [{ required: ["a"] }, { properties: { a: { const: 1 } } }] },
  { anyOf: [{ type: "integer" }, { type: "array", minItems: 2 }] },
  { anyOf: [{ properties: { a: { const: 1 } }, required: ["a", "b"] }, { properties: { a: { const: "x" } } }] },
  { anyOf: [{ const: 1 }, { const: "a" }, { type: "object" }] },
  { oneOf: [{ type: "integer" }, { minimum: 1 }] },
  {
    oneOf: [
      { type: "object", properties: { a: { default: 1 } }, required: ["a"] },
      { type: "array", items: { type: "string" } }
    ]
  },
  { not: { type: "integer" } },
  { not: {} },
  { if: { type: "integer" }, then: { minimum: 1 }, else: { type: "array" } },
  { if: { required: ["a"] }, then: { required: ["b"] } },
  { $defs: { n: { type: "integer" } }, properties: { a: { $ref: "#/$defs/n" } } },
  { type: "object", properties: { a: { $ref: "#" } }, additionalProperties: false }
]

const values: ReadonlyArray<unknown> = [
  null,
  true,
  0,
  1,
  2,
  -1,
  1.5,
  0.3,
  1e300,
  "",
  "a",
  "ab",
  "ba",
  "1",
  "🙂",
  "2020-02-29",
  "2020-02-30",
  [],
  [1],
  [1, 1],
  [1, "a"],
  ["a"],
  ["a", "b"],
  [1, 2, 3],
  [null, { a: 1 }, { a: 1 }],
  "[1]",
  '{"a":1}',
  " [1 ",
  {},
  { a: 1 },
  { a: "x" },
  { a: null },
  { a: 1, b: 2 },
  { a: 1, b: "x", c: null },
  { b: 1 },
  { ab: 1 },
  { ab: "x" },
  { a: {} },
  { a: { a: 1 } },
  { a: { a: { b: 1 } } },
  { a: "1" },
  { a: "[1]" },
  { c: [] }
]

const refusalOf = ({ expected, fix, found, path, reason }: JsonSchema.JsonSchemaError) =>
  `${reason} at "${path}": expected ${expected}, got ${found}.${fix === undefined ? "" : ` ${fix}`}`

const made = (schema: unknown) => Effect.runSync(Effect.result(JsonSchema.make(schema)))

const file = (name: string) => `golden/${name}.txt`

describe("TOOL-4 tables of the interpreter", () => {
  it("TOOL-4 each schema accepts, completes or refuses each value as it did", async () => {
    const modes = [{}, { strict: true }, { coerce: true }]
    const table = schemas.map((schema) => {
      const checked = Result.getOrThrow(made(schema))
      const effectOf = (value: unknown) => {
        const effects = modes.map((options) => {
          const result = JsonSchema.validate(checked, value, options)
          if (Result.isFailure(result)) return JSON.stringify(result.failure)
          const same = JSON.stringify(result.success) === JSON.stringify(value)
          return same ? "accepted" : `completed to ${JSON.stringify(result.success)}`
        })
        return new Set(effects).size === 1 ? `${effects[0]}` : effects.join("\n  ")
      }
      return `# ${JSON.stringify(schema)}\n${grouped(named(values), effectOf)}\n`
    })
    await expect(table.join("\n")).toMatchFileSnapshot(file("values"))
  })

  it("TRUST-3 each schema takes as much fuel as it did: to be compiled, to be imported into core, and for all values", async () => {
    const refs = (count: number, part: (next: object) => object) => ({
      $ref: "#/$defs/d0",
      $defs: Object.fromEntries(
        Array.from({ length: count }, (_, i) => [
          `d${i}`,
          i + 1 < count ? part({ $ref: `#/$defs/d${i + 1}` }) : { type: "string" }
        ])
      )
    })
    const twice = (next: object) => ({ type: "object", properties: { a: next, b: next } })
    const draft07 = "http://json-schema.org/draft-07/schema#"
    const more: ReadonlyArray<object> = [
      {},
      { title: "t".repeat(160), description: "d" },
      { type: "object", properties: { a: { type: "string" }, b: { items: { enum: ["x", "y".repeat(32)] } } } },
      { $schema: draft07, definitions: { a: { items: [{ const: 1 }, true] } }, $ref: "#/definitions/a" },
      { $schema: draft07, properties: { a: { dependencies: { b: ["c"], d: { type: "null" } } } } },
      { patternProperties: { "^a*$": { pattern: "^[ab]{2,4}$" }, b: {} }, additionalProperties: { minimum: 1 } },
      {
        allOf: [{ properties: { a: {} } }, { properties: { a: { type: "string" } } }, { allOf: [{ type: "object" }] }]
      },
      { allOf: [{ anyOf: [{ type: "object" }, { type: "array" }] }, { oneOf: [{ items: {} }, { properties: {} }] }] },
      {
        type: "object",
        anyOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/a" }],
        $defs: { a: { properties: { a: {} } } }
      },
      { $ref: "#/$defs/a", properties: { a: { type: "null" } }, $defs: { a: { additionalProperties: { const: 1 } } } },
      refs(5, (next) => next),
      refs(5, twice),
      refs(5, (next) => ({ anyOf: [next, { type: "array", items: next }] })),
      refs(5, (next) => ({ allOf: [next, { properties: { a: next } }] })),
      refs(10, (next) => ({ properties: { a: { allOf: [next, { title: "x" }] } } })),
      refs(20, (next) => ({ oneOf: [next, next] })),
      refs(3, () => ({ properties: { a: { $ref: "#/$defs/d0" }, b: { items: { $ref: "#/$defs/d0" } } } })),
      refs(3, () => ({ anyOf: [{ properties: { a: { $ref: "#" } } }, { properties: { a: { $ref: "#" } } }] })),
      refs(3, () => ({ properties: { a: { $ref: "#/$defs/d0" } }, additionalProperties: { $ref: "#/$defs/d0" } }))
    ]
    const spentBy = (work: (tank: fuel.Fuel) => unknown) => {
      const tank = fuel.make(1_000_000)
      work(tank)
      return Math.round(tank.spent * 1000) / 1000
    }
    const table = [...schemas, ...more].map((schema) => {
      const compiled = Effect.runSync(fuel.measure(JsonSchema.make(schema)))
      const checked = Result.getOrThrow(made(schema))
      const imported = spentBy((tank) => convertSchema.toSchemaWith(tank, checked))
      const validated = spentBy((tank) => values.map((value) => interpret.validateWith(tank, checked, value)))
      const isImported = convertSchema.importSchema(checked)._tag === "Some"
      const text = JSON.stringify(schema)
      const name = text.length > 150 ? `${text.slice(0, 150)}...` : text
      return `${name}\n  ${compiled.spent} and ${imported}${isImported ? "" : ", refused"}, and ${validated}\n`
    })
    await expect(table.join("")).toMatchFileSnapshot(file("fuel"))
  })

  it("CODEC-4 each keyword accepts or refuses each value as it did", async () => {
    const keywords = [
      "$schema $ref $defs definitions type enum const multipleOf minimum exclusiveMaximum minLength maxLength pattern format",
      "items prefixItems additionalItems minItems uniqueItems contains minContains maxContains properties required",
      "patternProperties additionalProperties minProperties propertyNames dependentRequired dependentSchemas dependencies",
      "allOf anyOf oneOf not if then else title default examples x-note nullable $id $anchor $dynamicRef unevaluatedItems"
    ].flatMap((names) => names.split(" "))
    const bad = [
      null,
      true,
      0,
      -1,
      1.5,
      "",
      "x",
      "#",
      "date",
      [],
      [1],
      [{}],
      ["a", "a"],
      ["integer"],
      {},
      { a: 1 },
      { a: {} }
    ]
    const more = [...bad, { a: ["b"] }, { a: ["b", 1] }, { "(": {} }, { "a{2000}": true }, "integer", "(", "a{2000}"]
    const table = ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"].flatMap(
      ($schema) =>
        keywords.map((keyword) => {
          const effectOf = (value: unknown) => {
            const result = made({ $schema, [keyword]: value })
            return Result.isSuccess(result) ? "accepted" : refusalOf(result.failure)
          }
          return `# ${keyword} of ${$schema}\n${grouped(named(more), effectOf)}\n`
        })
    )
    await expect(table.join("\n")).toMatchFileSnapshot(file("keywords"))
  })

  it("TOOL-4 formats accept the same texts as they did, among all that differ in one character", async () => {
    const texts = [
      "2020-02-29",
      "2019-12-31",
      "23:59:60Z",
      "12:30:00.5+01:00",
      "2020-01-01T10:00:00Z",
      "P1Y2M3DT4H5M6S",
      "P2W",
      "PT1M",
      "a.b@example.com",
      '"a b"@[127.0.0.1]',
      "a@[IPv6:::1]",
      "a-b.example.org",
      "xn--mnchen-3ya.de",
      "192.168.0.255",
      "::1",
      "1:2:3:4:5:6:7:8",
      "::ffff:1.2.3.4",
      "http://u:p@a.example:80/p%20a?q=1#f",
      "//[::1]:8/a",
      "urn:x:y",
      "../a?b",
      "123e4567-e89b-12d3-a456-426614174000",
      "/a~0b/~1",
      "^a(b|c)*$",
      "",
      "a".repeat(63),
      "a".repeat(64),
      `${"a".repeat(64)}@b`,
      `${"a".repeat(65)}@b`,
      `${"a.".repeat(126)}a`,
      `${"a.".repeat(127)}a`
    ]
    const characters = Array.from('09afgzAFZ-+.:/@%~[]"\\ #?(TtPDé_')
    const variants = texts.flatMap((text) => [
      text,
      ...Array.from({ length: Math.min(text.length, 40) + 1 }, (_, at) => [
        text.slice(0, at) + text.slice(at + 1),
        ...characters.flatMap((one) => [
          text.slice(0, at) + one + text.slice(at),
          text.slice(0, at) + one + text.slice(at + 1)
        ])
      ]).flat()
    ])
    const table = Array.from(patterns.formatChecks, ([name, check]) => {
      const verdicts = variants.map((text) => (check(text) ? "1" : "0")).join("")
      const digest = createHash("sha256").update(verdicts).digest("hex")
      return `${name}: ${texts
        .filter(check)
        .map((text) => JSON.stringify(text))
        .join(", ")}\n  ${verdicts.replaceAll("0", "").length} of ${verdicts.length}, ${digest}`
    })
    await expect(`${table.join("\n")}\n`).toMatchFileSnapshot(file("formats"))
  })
})
