/**
 * Known attacks on the work of decoders and validators. Each has a payload, a schema or a value that grows with a number;
 * the bench takes the largest one of at most 1 MB.
 */
import { Effect, Layer, Logger, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as Agent from "#src/agent/Agent.ts"
import * as ModelRegistry from "#src/agent/ModelRegistry.ts"
import * as Run from "#src/agent/Run.ts"
import * as Conversation from "#src/conversation/Conversation.ts"
import * as AnthropicMessages from "#src/interop/AnthropicMessages.ts"
import * as OpenAiMessages from "#src/interop/OpenAiMessages.ts"
import * as Digest from "#src/payload/Digest.ts"
import * as Json from "#src/payload/Json.ts"
import * as JsonSchema from "#src/payload/JsonSchema.ts"
import { checkObject } from "#src/payload/internal/copyJson.ts"
import * as fuel from "#src/payload/internal/fuel.ts"
import * as maskSecrets from "#src/payload/internal/maskSecrets.ts"
import * as Picture from "#src/plan/Picture.ts"
import * as Plan from "#src/plan/Plan.ts"
import * as PlanRun from "#src/plan/PlanRun.ts"
import * as Step from "#src/plan/Step.ts"
import * as Re2 from "#src/re2/Re2.ts"
import * as Session from "#src/session/Session.ts"
import * as VersionedStore from "#src/store/VersionedStore.ts"
import * as ScriptedModel from "#src/testing/ScriptedModel.ts"
import * as ToolContract from "#src/tool/ToolContract.ts"
import * as ToolResolver from "#src/tool/ToolResolver.ts"
import * as ToolResult from "#src/tool/ToolResult.ts"
import * as ToolRuntime from "#src/tool/ToolRuntime.ts"
import { circular, shared, walkers } from "./walkers.ts"

/** One row of the table. */
export interface Attack {
  /** Findings of the review it belongs to, or `new`. */
  readonly finding: string
  /** The JSON that an attacker sends: its size counts. */
  readonly make: (n: number) => unknown
  /** The largest number to try. */
  readonly max?: number
  /** Prepares outside of the measurement, and returns the work. */
  readonly attack: (input: never) => Effect.Effect<unknown, unknown>
}

const row = <A>(
  finding: string,
  make: (n: number) => A,
  attack: (input: A) => Effect.Effect<unknown, unknown>,
  max?: number
): Attack => ({ finding, make, attack, ...(max === undefined ? {} : { max }) })

const list = <A>(n: number, f: (i: number) => A): Array<A> => Array.from({ length: Math.floor(n) }, (_, i) => f(i))

/** As many keys as one object may have. */
const maxKeys = 10_000

const object = (n: number, f: (i: number) => unknown, key = "p"): { [key: string]: unknown } =>
  Object.fromEntries(list(Math.min(n, maxKeys), (i) => [`${key}${i}`, f(i)]))

/** Objects of together so many keys. */
const objects = (n: number, f: (i: number) => unknown, key = "p"): ReadonlyArray<{ [key: string]: unknown }> =>
  list(Math.ceil(n / maxKeys), (at) => object(n - at * maxKeys, (i) => f(i + at * maxKeys), key))

/** A keyword whose value is an object of n keys: so many schemas in `allOf` that each has as many keys as it may. */
const keyword = (name: string, n: number, f: (i: number) => unknown) => ({
  allOf: objects(n, f).map((members) => ({ [name]: members }))
})

const nested = (levels: number, leaf: unknown, wrap: (inner: unknown, level: number) => unknown): unknown => {
  let all = leaf
  for (let level = 0; level < levels; level++) all = wrap(all, level)
  return all
}

const square = (n: number) => Math.floor(Math.sqrt(n))

// --- Definitions ---------------------------------------------------------------------------------------------------

const toolOf = (parameters: unknown, name: string) => ({
  name,
  description: "d",
  parameters,
  timeout: 5000,
  approval: "never",
  annotations: {}
})

const definition = (tools: ReadonlyArray<unknown>, more: object = {}) => ({
  schema_version: 2,
  name: "guest",
  model: "m/x",
  model_options: {},
  max_steps: 4,
  tools,
  ...more
})

const oneTool = (parameters: unknown) => definition([toolOf(parameters, "t")])

const models = (turns: Parameters<typeof ScriptedModel.layer>[0]) =>
  Layer.provide(ModelRegistry.layerContext, ScriptedModel.layer(turns))

const runtime = ToolRuntime.layer({ dispatch: () => Effect.succeed(ToolResult.success("ok")) })

const decodeAgent = (wire: unknown) => {
  const text = JSON.stringify(wire)
  return Effect.provide(Agent.decodeJson(text), [ToolResolver.layerStubs(), models([{ text: "x" }])])
}

/** Decodes a definition and runs it: the model calls its tool with `{}`. */
const runAgent = (wire: unknown) => {
  const text = JSON.stringify(wire)
  const script = [{ toolCalls: [{ name: "t", params: {} }] }, { text: "done" }]
  return Effect.gen(function* () {
    const agent = yield* Agent.decodeJson(text)
    const { outcome } = yield* agent.run("hi")
    return outcome
  }).pipe(Effect.provide([ToolResolver.layerStubs({ approval: "payload" }), models(script), runtime]))
}

const decoded = (finding: string, parameters: (n: number) => unknown, max?: number) =>
  row(finding, (n) => oneTool(parameters(n)), decodeAgent, max)

/** The same schema in many tools. */
const decodedMany = (finding: string, parameters: (i: number) => unknown, max = 256) =>
  row(finding, (n) => definition(list(n, (i) => toolOf(parameters(i), `t${i}`))), decodeAgent, max)

/** A parameter `a` with a default, so that a call with `{}` is enough. */
const ran = (finding: string, a: (n: number) => object, max?: number) =>
  row(finding, (n) => oneTool({ type: "object", properties: { a: a(n) } }), runAgent, max)

const heavyPattern = (i: number) => "(?:a{0,1000})".repeat(150) + "b".repeat(i % 90)

const allowedPattern = (i: number) => `[ab]*a[ab]{950}[ab]{950}[ab]{950}[ab]{900}[cd]${i}`

const letter = (i: number) => String.fromCharCode(0x41 + i)

const stringProps = (n: number) => object(n, () => ({ type: "string" }))

const binary = (n: number, leaf: unknown, wrap: (one: unknown) => unknown) => ({
  $defs: object(n, (i) => (i + 1 < n ? wrap({ $ref: `#/$defs/p${i + 1}` }) : leaf))
})

const fan = (n: number) =>
  binary(n, { type: "string" }, (next) => ({ type: "object", properties: { x: next, y: next } }))

const tree = (n: number) => ({
  type: "object",
  properties: { a: { $ref: "#/$defs/r" } },
  $defs: { r: { type: "object", ...keyword("properties", n, () => ({ $ref: "#/$defs/r" })) } }
})

const definitions: { readonly [name: string]: Attack } = {
  "100 ordinary tools": decodedMany(
    "none",
    (i) => ({
      type: "object",
      description: `Tool ${i}`,
      properties: {
        id: { type: "string", pattern: "^[a-z]+-[0-9]{1,8}$" },
        count: { type: "integer", minimum: 1, default: 1 },
        kind: { enum: ["a", "b", "c"] },
        rows: { type: "array", items: { type: "object", properties: { x: { type: "number" }, y: { type: "number" } } } }
      },
      required: ["id"],
      additionalProperties: false
    }),
    100
  ),
  "allOf of required": decoded("H1", (n) => ({
    type: "object",
    properties: stringProps(n),
    allOf: list(n, (i) => ({ required: [`p${i}`] }))
  })),
  "allOf of required, 600": decoded(
    "H1",
    (n) => ({ type: "object", properties: stringProps(n), allOf: list(n, (i) => ({ required: [`p${i}`] })) }),
    600
  ),
  "allOf of properties": decoded("H1", (n) => ({
    type: "object",
    allOf: list(Math.min(n, 19_000), (i) => ({ properties: { [`a${i}`]: { type: "string" } } }))
  })),
  "allOf of properties, 1,000": decoded(
    "H1",
    (n) => ({ type: "object", allOf: list(n, (i) => ({ properties: { [`a${i}`]: { type: "string" } } })) }),
    1000
  ),
  'properties {"$ref": "#"}': decoded("H1", (n) => ({
    type: "object",
    ...keyword("properties", n, () => ({ $ref: "#" }))
  })),
  "references to itself, a wide tree": decoded("H1", tree),
  "alternatives of one large object": decoded("H1", (n) => ({
    type: "object",
    $defs: {
      r: { type: "object", required: list(n, (i) => `q${i}`), properties: object(n, () => ({ const: 1 }), "q") },
      node: {
        anyOf: [
          ...list(n, () => ({ $ref: "#/$defs/r" })),
          { type: "object", properties: { n: { $ref: "#/$defs/node" } } }
        ]
      }
    },
    properties: { a: { $ref: "#/$defs/node" } }
  })),
  "a type twice, 60 levels": decoded(
    "new",
    (n) => nested(n, { type: "string" }, (a) => ({ type: ["object", "object"], properties: { a } })),
    20
  ),
  "untyped schemas": decoded("new", (n) => ({ type: "object", ...keyword("properties", n, () => ({ minLength: 1 })) })),
  "typed schemas": decoded("new", (n) => ({ type: "object", ...keyword("properties", n, () => ({ type: "string" })) })),
  "true schemas": decoded("new", (n) => ({ type: "object", ...keyword("properties", n, () => true) })),
  "allOf of true": decoded("new", (n) => ({
    type: "object",
    properties: object(n / 1000, () => ({ allOf: list(1000, () => true) }))
  })),
  "empty tools, many keywords": decoded("new", (n) => ({
    type: "object",
    properties: object(n, () => ({ not: {}, if: {}, then: {}, else: {}, contains: {}, propertyNames: {}, items: {} }))
  })),
  "enum of many": decoded("new", (n) => ({
    type: "object",
    properties: object(n / 10_000, () => ({ enum: list(10_000, (i) => `v${i}`) }))
  })),
  "allOf of nested objects": decoded(
    "new",
    (n) => ({
      type: "object",
      allOf: list(n, () => nested(8, { type: "string" }, (a) => ({ type: "object", properties: { a } })))
    }),
    2000
  ),
  "choices over a fan of references": decoded(
    "new",
    (n) => ({
      type: "object",
      ...fan(n),
      properties: {
        a: {
          type: "object",
          properties: { q: { $ref: "#/$defs/p0" } },
          anyOf: [
            { type: "object", required: ["a"] },
            { type: "object", required: ["b"] }
          ]
        }
      }
    }),
    60
  ),
  "a recursion merged with itself": decodedMany("new", (i) => ({
    title: `${i}`,
    $defs: { r: { type: "object", properties: { c: { $ref: "#/$defs/r" } } } },
    type: "object",
    properties: { a: { allOf: [{ $ref: "#/$defs/r" }, { $ref: "#/$defs/r" }] } }
  })),
  "256 tools, each at the limit of the import": decodedMany("new", (i) => ({
    title: `${i}`,
    type: "object",
    properties: stringProps(140)
  })),
  "references into one deep schema": decoded("new", (n) => ({
    type: "object",
    $defs: { d: nested(20, stringProps(square(n)), (a) => ({ type: "object", properties: { a } })) },
    properties: object(square(n), (i) => ({ $ref: `#/$defs/d${"/properties/a".repeat(i % 20)}` }))
  })),
  "draft-07 below long keys": decoded("new", (n) => ({
    $schema: "http://json-schema.org/draft-07/schema#",
    type: "object",
    properties: { ["k".repeat(n * 20)]: { type: "object", ...keyword("properties", n, () => ({ type: "string" })) } }
  })),
  "places below a long key": decoded("new", (n) => ({
    type: "object",
    properties: { ["k".repeat(n * 100)]: keyword("properties", n, () => true) }
  })),
  "dependentSchemas of many": decoded("new", (n) => ({
    type: "object",
    ...keyword("dependentSchemas", n, () => true)
  })),
  "refused patterns": decoded("H2", (n) => ({
    type: "object",
    properties: object(n, (i) => ({ type: "string", pattern: heavyPattern(i) }))
  })),
  "allowed patterns": decoded("H2", (n) => ({
    type: "object",
    properties: object(n, (i) => ({ type: "string", pattern: allowedPattern(i) }))
  })),
  "Unicode classes": decoded("H2", (n) => ({
    type: "object",
    properties: object(n, (i) => ({ type: "string", pattern: `${"[\\p{L}\\p{N}\\p{M}]".repeat(30)}${i}` }))
  })),
  "negated Unicode classes": decoded("H2", (n) => ({
    type: "object",
    properties: object(n, (i) => ({ type: "string", pattern: `[^\\p{L}]${i}` }))
  })),
  "patterns that repeat the empty text": decoded("new", (n) => ({
    type: "object",
    properties: object(n, (i) => ({ type: "string", pattern: `^(?:(?:a{0}){9999}){9999}${i}$` }))
  })),
  "patterns of many ways": decoded("new", (n) => ({
    type: "object",
    properties: object(n, (i) => ({ type: "string", pattern: `^(?:${list(31, letter).join("|")}){8}${i}$` }))
  })),
  "patterns of many short repeats": decoded("new", (n) => ({
    type: "object",
    properties: object(n, (i) => ({ type: "string", pattern: `^(?:a|b){0,99}(?:c|d){0,99}${i}$` }))
  })),
  "patterns of long texts": decoded("new", (n) => ({
    type: "object",
    properties: object(n, (i) => ({ type: "string", pattern: `^${"a".repeat(240)}${i}` }))
  })),
  "short patterns": decoded("new", (n) => ({
    type: "object",
    patternProperties: Object.fromEntries(list(n, (i) => [`^a${i}$`, true]))
  })),
  "one reference of escapes": decoded("L7", (n) => ({
    type: "object",
    properties: { a: { $ref: `#/${"%41a".repeat(n)}` } }
  })),
  "an output schema, run": row(
    "H1",
    (n) =>
      definition([], {
        max_steps: 2,
        output: {
          schema: { type: "object", properties: stringProps(n), allOf: list(n, (i) => ({ required: [`p${i}`] })) },
          strategy: "native"
        }
      }),
    (wire) => {
      const text = JSON.stringify(wire)
      const kit = Toolkit.make(Tool.make("t", { parameters: Schema.Struct({}), success: Schema.String }))
      return Effect.gen(function* () {
        const agent = yield* Agent.decodeJson(text)
        return yield* agent.run("x")
      }).pipe(
        Effect.provide([
          Layer.provide(ToolResolver.layerToolkit(kit), kit.toLayer({ t: () => Effect.succeed("") })),
          models([{ object: { a: 1 } }, { text: "{}" }])
        ])
      )
    }
  )
}

// --- Validation ----------------------------------------------------------------------------------------------------

const text = (n: number) => "x".repeat(n)

const kinds: { readonly [name: string]: Attack } = {
  "an ordinary run": ran(
    "none",
    (n) => ({
      default: list(n, (i) => ({ id: i, name: `n${i}`, tags: ["a", "b"] })),
      items: {
        type: "object",
        properties: {
          id: { type: "integer" },
          name: { type: "string", pattern: "^[a-z0-9]+$" },
          tags: { type: "array", items: { enum: ["a", "b"] }, uniqueItems: true }
        },
        required: ["id"]
      }
    }),
    1000
  ),
  "not const, one text": ran(
    "H3",
    (n) => ({ default: text(n * 20), allOf: list(n, () => ({ not: { const: 1 } })) }),
    19_999
  ),
  "enum, one text": ran(
    "H3",
    (n) => ({ default: text(n * 20), allOf: list(n, () => ({ not: { enum: [1] } })) }),
    19_999
  ),
  "minLength, one text": ran(
    "H3",
    (n) => ({ default: text(n * 30), allOf: list(n, () => ({ minLength: n * 20 })) }),
    19_999
  ),
  "maxLength, one text": ran(
    "H3",
    (n) => ({ default: text(n * 30), allOf: list(n, () => ({ maxLength: n * 31 })) }),
    19_999
  ),
  "uniqueItems, one text": ran(
    "H3",
    (n) => ({ default: [text(n * 20)], allOf: list(n, () => ({ uniqueItems: true })) }),
    19_999
  ),
  "properties, many items": ran("H3", (n) => ({
    default: list(Math.min(n * 3, 19_999), () => ({})),
    items: keyword("properties", n, () => true)
  })),
  "required, many items": ran(
    "H3",
    (n) => ({
      default: list(Math.min(n * 3, 19_999), () => ({})),
      items: { not: { required: list(n, (i) => `p${i}`) } }
    }),
    19_999
  ),
  "dependentRequired, many items": ran("H3", (n) => ({
    default: list(Math.min(n * 3, 19_999), () => ({})),
    items: keyword("dependentRequired", n, () => [])
  })),
  "closures of many references": ran(
    "H3",
    (n) => ({
      default: list(n, () => 0),
      $defs: { b: { allOf: list(n, () => true) } },
      prefixItems: list(n, () => ({ $ref: "#/properties/a/$defs/b" }))
    }),
    19_999
  ),
  "merged, deep": ran("H3", (n) => ({
    ...Object(nested(45, { additionalProperties: true }, (s) => ({ allOf: [s] }))),
    default: object(n, () => 1, "k")
  })),
  "format regex, classes": ran("M4", (n) => ({ type: "string", format: "regex", default: "\\p{L}".repeat(n) })),
  "format regex, alternatives": ran("M4", (n) => ({ type: "string", format: "regex", default: "a|".repeat(n) })),
  "format regex, groups": ran("M4", (n) => ({ type: "string", format: "regex", default: "(".repeat(n) })),
  "format regex, named groups": ran("M4", (n) => ({
    type: "string",
    format: "regex",
    default: list(n, (i) => `(?<n${i}>x)`).join("")
  })),
  "alternatives that fail below a long key": ran(
    "M7",
    (n) => ({
      default: { ["k".repeat(n * 20)]: 1 },
      anyOf: list(n, () => ({ additionalProperties: { type: "string" } }))
    }),
    19_999
  ),
  "items that fail below a long key": ran("M7", (n) => ({
    default: { ["k".repeat(n * 50)]: list(Math.min(n, 19_999), () => 1) },
    not: {},
    additionalProperties: { items: { type: "string" } }
  })),
  "additionalProperties, many times": ran(
    "new",
    (n) => ({
      default: object(square(n) * 3, () => 1, "k"),
      allOf: list(square(n) * 10, () => ({ additionalProperties: { minimum: 0 } }))
    }),
    4_000_000
  ),
  "minProperties, many times": ran("new", (n) => ({
    default: objects(n * 2, () => 1, "k"),
    items: { allOf: list(Math.min(n, 19_999), () => ({ minProperties: 1 })) }
  })),
  "contains, many times": ran("new", (n) => ({
    default: list(Math.min(n * 5, 19_999), () => 1),
    allOf: list(Math.min(n, 19_999), () => ({ contains: { const: 1 } }))
  })),
  "uniqueItems of objects": ran("new", (n) => ({
    default: list(Math.min(n, 19_999), (i) => ({ a: i, b: { c: [i] } })),
    allOf: list(100, () => ({ uniqueItems: true }))
  })),
  "multipleOf of huge numbers": ran("new", (n) => ({
    default: list(Math.min(n, 19_999), () => 1.7e308),
    items: { allOf: list(Math.min(n, 19_999), () => ({ multipleOf: 5e-324 })) }
  })),
  "an allowed pattern, long texts": ran("H3", (n) => ({
    default: list(100, () => "ab".repeat(n)),
    items: { pattern: "[ab]*a[ab]{950}[ab]{950}[ab]{950}[ab]{900}[cd]" }
  })),
  "60 small patterns, one text": ran("new", (n) => ({
    default: list(n, (i) => "ab"[((i * 7919) >> 3) & 1]).join(""),
    allOf: list(60, (i) => ({ not: { pattern: `[ab]*a[ab]{${20 + i}}[cd]` } }))
  })),
  "patternProperties, long keys": ran("new", (n) => ({
    default: objects(n, () => 1, text(40)),
    items: { patternProperties: Object.fromEntries(list(50, (i) => [`[ax]*x[ax]{${i}}[cd]`, true])) }
  })),
  "propertyNames, many": ran("new", (n) => ({
    default: objects(n, () => 1),
    items: { propertyNames: { allOf: list(100, () => ({ pattern: "^[a-z0-9]+$" })) } }
  })),
  "defaults of defaults": ran(
    "new",
    (n) =>
      nested(n, { default: text(50) }, (a, i) => ({
        default: {},
        properties: { a, b: { ...Object(a), title: `${i}` } }
      })) as object,
    12
  ),
  "a long default, many items": ran("new", (n) => ({
    default: list(Math.min(n, 19_999), () => ({})),
    items: { properties: { d: { default: text(n * 10) } } }
  })),
  "a default of many values, many items": ran("new", (n) => ({
    default: list(Math.min(n, 19_999), () => ({})),
    items: { properties: { d: { default: list(Math.min(n, 19_999), () => 0) } } }
  })),
  "text that is JSON": ran(
    "new",
    (n) => ({
      type: "object",
      default: {},
      properties: object(20, () => ({ type: "array", default: `[${list(n, () => "[]").join(",")}]` }))
    }),
    19_000
  ),
  "nested choices": ran(
    "new",
    (n) => ({
      default: 5,
      ...fanOf(n, "anyOf")
    }),
    60
  ),
  "nested choices of one": ran("new", (n) => ({ default: 5, ...fanOf(n, "oneOf") }), 60),
  "format uri": ran("new", (n) => ({ type: "string", format: "uri", default: `http://a/${"%41".repeat(n)}` })),
  "format email, many": ran("new", (n) => ({
    default: list(Math.min(n, 19_999), () => "a@b.c"),
    items: { allOf: list(Math.min(n, 19_999), () => ({ format: "email" })) }
  })),
  "format hostname, encoded": ran("new", (n) => ({
    default: list(Math.min(n, 19_999), () => "xn--".concat("a".repeat(50))),
    items: { allOf: list(100, () => ({ format: "hostname" })) }
  })),
  "format ipv6, many": ran("new", (n) => ({
    default: list(Math.min(n, 19_999), () => "1:2:3:4:5:6:7:8"),
    items: { allOf: list(100, () => ({ format: "ipv6" })) }
  })),
  "format date-time, many": ran("new", (n) => ({
    default: list(Math.min(n, 19_999), () => "2026-01-01T00:00:00Z"),
    items: { allOf: list(100, () => ({ format: "date-time" })) }
  })),
  "many problems": ran("new", (n) => ({
    default: list(Math.min(n, 19_999), () => 1),
    anyOf: list(Math.min(n, 19_999), () => ({ items: { type: "string" } }))
  }))
}

const fanOf = (n: number, keyword: string) => ({
  allOf: [
    nested(n, { type: "string" }, (inner) => ({ [keyword]: [inner, { not: true }] })),
    { anyOf: [{ $ref: "#/properties/a/$defs/p0" }] }
  ],
  $defs: object(n, (i) =>
    i + 1 < n
      ? { [keyword]: [{ $ref: `#/properties/a/$defs/p${i + 1}` }, { $ref: `#/properties/a/$defs/p${i + 1}` }] }
      : { type: "string" }
  )
})

// --- Plans ---------------------------------------------------------------------------------------------------------

const registry = {
  targets: {
    f: Step.target("f", ({ task }) => Effect.succeed(task)),
    parse: Step.target("parse", ({ task }) => Json.parse(task))
  },
  predicates: {},
  schemas: {}
}

const stepOf = (name: string, more: object = {}) => ({ name, target: { kind: "function", name: "f" }, ...more })

const planOf = (steps: ReadonlyArray<unknown>, version = 3) => ({ version, steps })

const decodePlan = (wire: unknown) => {
  const json = JSON.stringify(wire)
  return Plan.decode(json, registry)
}

const runPlan = (wire: unknown) => {
  const json = JSON.stringify(wire)
  return Effect.gen(function* () {
    const plan = yield* Plan.decode(json, registry)
    const bound = yield* Plan.bind(plan)
    const { outcome } = yield* bound.run("x")
    return outcome
  })
}

const planned = (finding: string, steps: (n: number) => ReadonlyArray<unknown>, max?: number) =>
  row(finding, (n) => planOf(steps(n)), decodePlan, max)

const routed = (
  finding: string,
  literal: (n: number) => unknown,
  when: (n: number, i: number) => unknown,
  routes: number
) =>
  row(
    finding,
    (n) =>
      planOf([
        stepOf("a", {
          target: { kind: "function", name: "parse" },
          task: { kind: "literal", value: JSON.stringify(literal(n)) },
          routes: list(routes, (i) => ({ to: `b${i}`, when: when(n, i) }))
        }),
        ...list(routes, (i) => stepOf(`b${i}`))
      ]),
    runPlan
  )

const planRoutes = (n: number) =>
  list(n, (i) =>
    stepOf(`s${i}`, {
      routes: list(28, (j) => ({ to: `s${(i * 37 + j * 131) % n}`, when: { kind: "text", value: "x" } }))
    })
  )

const planForwardRoutes = (n: number) =>
  list(n, (i) =>
    stepOf(`s${i}`, {
      routes: list(Math.min(28, n - i - 1), (j) => ({
        to: `s${i + 1 + ((j * 31) % (n - i - 1))}`,
        when: { kind: "text", value: `x${j}` }
      }))
    })
  )

const planReferences = (n: number) =>
  list(n, (i) => stepOf(`s${i}`, { context: list(60, (j) => ({ kind: "from_step", name: `s${(i * 7 + j) % n}` })) }))

const planConditions = (n: number) => [
  stepOf("a", {
    routes: list(n, () => ({
      to: "a",
      when: { kind: "or", conditions: list(300, () => ({ kind: "text", value: "x" })) }
    }))
  })
]

const wrongSteps = (n: number) => planOf(list(n, () => ({ name: 1, target: { kind: "x" }, task: { kind: 5 } })))

const planVersion2 = (n: number) =>
  planOf(
    list(n, (i) => ({
      name: `s${i}`,
      target: { kind: "callable", name: "f" },
      routes: list(28, (j) => `s${(i * 37 + j * 131) % n}`),
      context: list(20, (j) => ({ kind: "from_step", name: `s${(i + j * 7) % n}` }))
    })),
    2
  )

const drawnPlan = (n: number) =>
  planOf(
    list(n, (i) =>
      stepOf(`s${i}`, {
        routes: list(Math.min(20, n - i - 1), (j) => ({
          to: `s${i + 1 + ((j * 31) % (n - i - 1))}`,
          when: { kind: "text", value: `x${j}` }
        }))
      })
    )
  )

const drawPlan = (wire: unknown) => Effect.map(decodePlan(wire), (plan) => Picture.toMermaid(plan).length)

const plans: { readonly [name: string]: Attack } = {
  "plan: an ordinary run": routed(
    "none",
    (n) => ({ text: "ab".repeat(n) }),
    () => ({
      kind: "matches",
      path: ["text"],
      pattern: "^[ab]+$"
    }),
    3
  ),
  "plan: refused patterns": planned(
    "H2",
    () => [
      stepOf("a", {
        routes: list(60, (i) => ({ to: "b", when: { kind: "matches", path: [], pattern: heavyPattern(i) } }))
      }),
      stepOf("b")
    ],
    1
  ),
  "plan: allowed patterns": planned(
    "H2",
    () => [
      stepOf("a", {
        routes: list(60, (i) => ({ to: "b", when: { kind: "matches", path: [], pattern: allowedPattern(i) } }))
      }),
      stepOf("b")
    ],
    1
  ),
  "plan: a pattern on a long text": routed(
    "M5",
    (n) => "ab".repeat(n),
    () => ({
      kind: "matches",
      path: [],
      pattern: "[ab]*a[ab]{950}[ab]{950}[ab]{950}[ab]{900}[cd]"
    }),
    1
  ),
  "plan: 20 patterns on a long text": routed(
    "M5",
    (n) => "ab".repeat(n),
    (_, i) => ({
      kind: "matches",
      path: [],
      pattern: `[ab]*a[ab]{20${i}}[cd]`
    }),
    20
  ),
  "plan: a large value in many": routed(
    "new",
    (n) => list(Math.min(n, 19_999), () => ({})),
    (n) => ({
      kind: "in",
      path: [],
      values: list(Math.min(n, 19_999), () => [[]])
    }),
    1
  ),
  "plan: a large value equals a large one": routed(
    "new",
    (n) => list(Math.min(n, 19_999), () => ({})),
    (n) => ({
      kind: "or",
      conditions: list(200, () => ({ kind: "equals", path: [], value: list(Math.min(n / 200, 90), () => ({})) }))
    }),
    4
  ),
  "plan: texts in order": routed(
    "new",
    (n) => "x".repeat(n),
    (n) => ({
      kind: "or",
      conditions: list(5, () => ({ kind: "greater_than", path: [], value: "x".repeat(n) + "y" }))
    }),
    4
  ),
  "plan: routes": planned("perf", planRoutes, 1000),
  "plan: routes, within fuel": planned("perf", planRoutes, 78),
  "plan: forward routes": planned("new", planForwardRoutes, 1000),
  "plan: forward routes, within fuel": planned("new", planForwardRoutes, 90),
  "plan: references": planned("perf", planReferences, 1000),
  "plan: references, within fuel": planned("perf", planReferences, 92),
  "plan: earlier references, within fuel": planned(
    "new",
    (n) =>
      list(n, (i) =>
        stepOf(`s${i}`, { context: list(i === 0 ? 0 : 60, (j) => ({ kind: "from_step", name: `s${j % i}` })) })
      ),
    92
  ),
  "plan: unknown names": planned(
    "perf",
    (n) =>
      list(n, (i) =>
        stepOf("ab".repeat(97) + i, {
          task: { kind: "from_step", name: `${"ba".repeat(97)}x${i}` }
        })
      ),
    1000
  ),
  "plan: parallel groups": planned(
    "perf",
    (n) => list(n, (i) => stepOf(`s${i}`, { parallel: true, writes: `w${i}` })),
    1000
  ),
  "plan: references to parallel groups": planned(
    "new",
    (n) =>
      list(n, (i) =>
        stepOf(`s${i}`, {
          parallel: i % 3 !== 0,
          context: list(20, (j) => ({
            kind: j % 2 === 0 ? "from_parallel_all" : "from_parallel",
            name: `s${(i + j) % n}`
          }))
        })
      ),
    1000
  ),
  "plan: branches that rejoin": planned(
    "perf",
    (n) =>
      list(n, (i) =>
        stepOf(`s${i}`, {
          routes: [
            { to: `s${(i + 1) % n}`, when: { kind: "text", value: "a" } },
            { to: `s${(i + 2) % n}`, when: { kind: "text", value: "b" } }
          ],
          after_branches: `s${Math.min(n - 1, i + 3)}`
        })
      ),
    1000
  ),
  "plan: schemas": planned(
    "perf",
    (n) =>
      list(n, (i) =>
        stepOf(`s${i}`, {
          input: {
            schema: {
              anyOf: list(40, (j) => ({
                type: "object",
                required: ["a"],
                properties: { a: { enum: list(5, (k) => `v${i}${j}${k}`) } }
              }))
            }
          },
          output: {
            schema: {
              anyOf: list(40, (j) => ({
                type: "object",
                required: ["a"],
                properties: { a: { enum: list(5, (k) => `w${i}${j}${k}`) } }
              }))
            }
          }
        })
      ),
    300
  ),
  "plan: recursive schemas compared": planned(
    "new",
    (n) =>
      list(n, (i) =>
        stepOf(`s${i}`, {
          input: { schema: { $ref: "#/$defs/p0", ...fan(40), title: `i${i}` } },
          output: { schema: { $ref: "#/$defs/p0", ...fan(40), title: `o${i}` } }
        })
      ),
    1000
  ),
  "plan: allOf schemas compared": planned(
    "new",
    (n) => [
      stepOf("a", {
        output: { schema: { allOf: list(n, (i) => ({ properties: { [`p${i}`]: { type: "string" } } })) } }
      }),
      stepOf("b", {
        input: { schema: { allOf: list(n, (i) => ({ properties: { [`p${i}`]: { type: "integer" } } })) } }
      })
    ],
    19_000
  ),
  "plan: wide anyOf compared": planned(
    "new",
    (n) => [
      stepOf("a", {
        output: {
          schema: { anyOf: list(n, (i) => ({ type: "object", properties: { x: { const: i } }, required: ["x"] })) }
        }
      }),
      stepOf("b", {
        input: {
          schema: { anyOf: list(n, (i) => ({ type: "object", properties: { x: { const: -i } }, required: ["x"] })) }
        }
      })
    ],
    19_000
  ),
  "plan: anyOf of many fields, within fuel": planned(
    "new",
    (n) => [
      stepOf("a", {
        output: { schema: { anyOf: list(n, (i) => ({ type: "object", properties: { [`p${i}`]: { const: i } } })) } }
      }),
      stepOf("b", { input: { schema: { type: "object" } } })
    ],
    3600
  ),
  "plan: allOf of many fields, within fuel": planned(
    "new",
    (n) => [
      stepOf("a", { output: { schema: { allOf: list(n, (i) => ({ properties: { [`p${i}`]: { const: i } } })) } } }),
      stepOf("b", { input: { schema: { type: "object" } } })
    ],
    4500
  ),
  "plan: a long enum read many times": planned(
    "new",
    (n) => [
      stepOf("a", {
        output: { schema: { anyOf: list(5, (j) => ({ enum: list(Math.min(n, 19_000), (i) => `${j}${i}`) })) } }
      }),
      ...list(900, (i) =>
        stepOf(`s${i}`, { task: { kind: "from_step", name: "a" }, input: { schema: { enum: ["x"] } } })
      )
    ],
    19_000
  ),
  "plan: long references merged": planned(
    "new",
    (n) => [
      stepOf("a", {
        output: {
          schema: {
            anyOf: list(n, () => ({ $ref: "#/$defs/d", type: "object" })),
            $defs: { d: { type: "object", properties: Object.fromEntries(list(n, (i) => [`p${i}`, { const: 1 }])) } }
          }
        }
      }),
      stepOf("b", { input: { schema: { type: "object" } } })
    ],
    3000
  ),
  "plan: enums compared": planned(
    "new",
    (n) => [
      stepOf("a", { output: { schema: { enum: list(n, (i) => ({ v: i })) } } }),
      stepOf("b", { input: { schema: { enum: list(n, (i) => ({ v: n - i })) } } })
    ],
    19_000
  ),
  "plan: long enums of routes": planned(
    "new",
    (n) =>
      list(100, (i) =>
        stepOf(`s${i}`, {
          routes_by: "to",
          output: { schema: { type: "object", properties: { to: { enum: list(n, (j) => `s${j}`) } } } }
        })
      ),
    1000
  ),
  "plan: conditions": planned("perf", planConditions, 100),
  "plan: conditions, within fuel": planned("perf", planConditions, 17),
  "plan: opposite conditions": planned(
    "new",
    (n) => [
      stepOf("a", {
        routes: list(n, (i) => ({
          to: "a",
          when: {
            kind: i % 2 === 0 ? "equals" : "not",
            path: ["x"],
            value: list(500, () => i >> 1),
            condition: { kind: "equals", path: ["x"], value: list(500, () => i >> 1) }
          }
        }))
      })
    ],
    100
  ),
  "plan: wrong conditions": row(
    "perf",
    (n) =>
      planOf([
        stepOf("a", {
          routes: [{ to: "a", when: nested(n, { kind: "nope" }, (c) => ({ kind: "and", conditions: [c, c] })) }]
        })
      ]),
    decodePlan,
    14
  ),
  "plan: deep conditions": row(
    "new",
    (n) =>
      planOf([
        stepOf("a", {
          routes: [{ to: "a", when: nested(n, { kind: "nope" }, (c) => ({ kind: "not", condition: c })) }]
        })
      ]),
    decodePlan,
    60
  ),
  "plan: wrong steps": row("new", wrongSteps, decodePlan, 19_999),
  "plan: wrong steps, within fuel": row("new", wrongSteps, decodePlan, 1900),
  "plan: version 2": row("new", planVersion2, decodePlan, 1000),
  "plan: version 2, within fuel": row("new", planVersion2, decodePlan, 145),
  "plan: version 1": row(
    "new",
    (n) =>
      planOf(
        list(n, (i) => ({
          target: { kind: "callable", name: "f" },
          task: { kind: "from_prev" },
          context: { kind: "from_step", name: `s${i}` }
        })),
        1
      ),
    decodePlan,
    1000
  ),
  "plan: unknown targets": row(
    "new",
    (n) => planOf(list(n, (i) => ({ name: `s${i}`, target: { kind: "function", name: `${"f".repeat(180)}${i}` } }))),
    decodePlan,
    1000
  ),
  "plan: drawn": row("new", drawnPlan, drawPlan, 1000),
  "plan: drawn, within fuel": row("new", drawnPlan, drawPlan, 112),
  "plan: compared with another": row(
    "new",
    (n) => planOf(list(n, (i) => stepOf(`s${i}`, { task: { kind: "literal", value: i } }))),
    (wire) =>
      Effect.gen(function* () {
        const plan = yield* decodePlan(wire)
        const other = yield* decodePlan({
          ...wire,
          steps: [...wire.steps].reverse().map((step, i) => ({ ...Object(step), task: { kind: "literal", value: i } }))
        })
        return Picture.diff(plan, other).changes.length
      }),
    1000
  )
}

// --- Conversations, runs and foreign histories ----------------------------------------------------------------------

const at = "2026-01-01T00:00:00.000Z"

const user = (i: number) => ({ role: "user", id: `u${i}`, createdAt: at, content: [{ type: "text", text: "x" }] })

const call = (id: string) => ({ type: "tool-call", id, name: "t", arguments: {} })

const calls = (n: number, id: (i: number) => string = (i) => `c${i}`) => ({
  role: "assistant",
  id: "a",
  createdAt: at,
  content: list(Math.min(n, 19_000), (i) => call(id(i)))
})

const answer = (callId: string, i: number) => ({
  role: "tool",
  id: `r${i}`,
  createdAt: at,
  callId,
  name: "t",
  result: { _tag: "Failure", type: "x", message: "m" }
})

const conversation = (messages: ReadonlyArray<unknown>) => ({ version: 1, messages })

const decodeConversation = (wire: unknown) => {
  const json = JSON.stringify(wire)
  return Conversation.codec.decodeJson(json)
}

const repairConversation = (wire: unknown) => {
  const json = JSON.stringify(wire)
  return Conversation.repairingCodec.decodeJson(json)
}

const runStarted = {
  _tag: "RunStarted",
  at,
  runId: "r",
  agent: "a",
  definition: "d",
  depth: 0,
  maxSteps: 1000,
  structured: "never",
  context: {},
  conversation: { version: 1, messages: [user(0)] }
}

const events = (all: ReadonlyArray<unknown>) => ({ version: 1, events: all })

const foldEvents = (wire: unknown) => {
  const json = JSON.stringify(wire)
  return Effect.map(Run.eventsCodec.decodeJson(json), (found) => Run.fold(found))
}

interface State {
  readonly [key: string]: unknown
}

const stateOf = (depth: number, children: ReadonlyArray<State>): State => ({
  runId: `r${depth}`,
  agent: "a",
  definition: "d",
  depth,
  context: {},
  conversation: conversation([user(0), calls(Math.max(1, children.length))]),
  maxSteps: 5,
  structured: "never",
  steps: 1,
  totalSteps: 1,
  usage: {},
  calls:
    children.length === 0
      ? [{ callId: "c0", status: { _tag: "Requested" } }]
      : children.map((child, i) => ({ callId: `c${i}`, status: { _tag: "Started", child } })),
  pending: [],
  limited: false,
  mistakes: [],
  fresh: false,
  startedAt: at,
  updatedAt: at,
  revision: 1
})

const states = (depth: number, width: number): State =>
  stateOf(depth, depth === 0 ? [] : list(width, () => states(depth - 1, width)))

const decodeState = (wire: unknown) => {
  const json = JSON.stringify(wire)
  return Effect.map(Run.stateCodec.decodeJson(json), (state) => state)
}

const longId = (i: number) => `${"x".repeat(20)}${String(i).padStart(6, "0")}`

const histories: { readonly [name: string]: Attack } = {
  "conversation of short texts": row("perf", (n) => conversation(list(n, user)), decodeConversation, 10_000),
  "conversation of calls": row(
    "perf",
    (n) => conversation([user(0), calls(n), ...list(n / 2, (i) => answer(`c${i}`, i))]),
    decodeConversation,
    9_999
  ),
  "conversation answered in reverse": row(
    "perf",
    (n) => conversation([user(0), calls(n), ...list(n, (i) => answer(`c${n - 1 - i}`, i))]),
    decodeConversation,
    9_999
  ),
  "conversation of provider calls": row(
    "perf",
    (n) =>
      conversation([
        user(0),
        ...list(n, (k) => ({
          role: "assistant",
          id: `a${k}`,
          createdAt: at,
          content: list(4, (i) => ({ ...call(`p${k}-${i}`), providerExecuted: true }))
        }))
      ]),
    decodeConversation,
    9_999
  ),
  "conversation of unanswered calls": row(
    "new",
    (n) =>
      conversation(
        list(n, (k) =>
          k % 2
            ? { role: "assistant", id: `a${k}`, createdAt: at, content: [{ ...call(`p${k}`), providerExecuted: true }] }
            : user(k)
        )
      ),
    decodeConversation,
    9_999
  ),
  "conversation, everything wrong": row(
    "perf",
    (n) =>
      conversation(
        list(n, () => ({
          role: "assistant",
          id: 1,
          content: [{ type: "zzz" }, { type: "tool-call" }, 5]
        }))
      ),
    decodeConversation,
    9_999
  ),
  "conversation, parts wrong": row(
    "new",
    (n) => conversation([user(0), { role: "assistant", id: "a", createdAt: at, content: list(n, () => ({})) }]),
    decodeConversation,
    19_999
  ),
  "conversation, excess keys": row(
    "new",
    (n) => conversation(objects(n, () => 1).map((keys, i) => ({ ...user(i), ...keys }))),
    decodeConversation
  ),
  "conversation, long keys": row(
    "perf",
    (n) => conversation([{ role: "user", ["k".repeat(n)]: 1, ["j".repeat(n)]: 1 }]),
    decodeConversation
  ),
  "conversation, deep arguments": row(
    "perf",
    (n) =>
      conversation([
        user(0),
        {
          role: "assistant",
          id: "a",
          createdAt: at,
          content: list(n, (i) => ({
            ...call(`c${i}`),
            arguments: nested(50, 1, (v) => [v])
          }))
        }
      ]),
    decodeConversation,
    9_999
  ),
  "conversation, texts of calls": row(
    "new",
    (n) =>
      conversation([
        user(0),
        {
          role: "assistant",
          id: "a",
          createdAt: at,
          content: list(n, (i) => ({
            ...call(`c${i}`),
            text: "{}"
          }))
        }
      ]),
    decodeConversation,
    19_000
  ),
  "repair of orphans": row("perf", (n) => conversation(list(n, (i) => answer(`c${i}`, i))), repairConversation, 9_999),
  "repair of open calls": row(
    "perf",
    (n) => conversation(list(n, (i) => (i % 2 ? { ...calls(5), id: `a${i}` } : user(i)))),
    repairConversation,
    9_000
  ),
  "repair of one id": row(
    "perf",
    (n) => conversation([user(0), calls(n, (i) => `c${i % 2}`), ...list(n, (i) => answer(`z${i}`, i))]),
    repairConversation,
    9_000
  ),
  "repair of one message id": row("new", (n) => conversation(list(n, () => user(0))), repairConversation, 9_999),
  "run: events of calls": row(
    "perf",
    (n) =>
      events([
        runStarted,
        { _tag: "StepStarted", at, step: 1, purpose: "answer" },
        { _tag: "ModelAnswered", at, message: calls(n) },
        ...list(n, (i) => ({
          _tag: "ApprovalRequested",
          at,
          callId: `c${i}`,
          name: "pay",
          arguments: {},
          digest: "d"
        })),
        ...list(n, (i) => ({ _tag: "ApprovalDecided", at, callId: `c${i}`, approved: true, digest: "d" }))
      ]),
    foldEvents,
    6000
  ),
  "run: events of inputs": row(
    "perf",
    (n) =>
      events([
        runStarted,
        { _tag: "StepStarted", at, step: 1, purpose: "answer" },
        { _tag: "ModelAnswered", at, message: calls(1) },
        ...list(n, (i) => ({ _tag: "InputAdded", at, maxSteps: 5, message: user(i) }))
      ]),
    foldEvents,
    15_000
  ),
  "run: unknown events": row("perf", (n) => events(list(n, () => ({ _tag: "Nope", a: 1 }))), foldEvents, 19_999),
  "run: wrong events, nested": row(
    "perf",
    (n) => ({
      version: 1,
      event: nested(n, { _tag: "Nope" }, (event) => ({ _tag: "ChildEvent", at, callId: "c", event, extra: 1 }))
    }),
    (wire) => {
      const json = JSON.stringify(wire)
      return Run.eventCodec.decodeJson(json)
    },
    28
  ),
  "run: states in states": row("perf", (n) => ({ version: 1, state: states(n, 1) }), decodeState, 14),
  "run: many states in states": row("perf", (n) => ({ version: 1, state: states(5, n) }), decodeState, 5),
  "run: wrong states in states": row(
    "new",
    (n) => ({ version: 1, state: nested(n, { a: 1 }, (child) => ({ ...stateOf(1, [Object(child)]), extra: 1 })) }),
    decodeState,
    14
  ),
  "plan run: state": row(
    "perf",
    (n) => ({
      version: 1,
      state: {
        runId: "r",
        plan: "p",
        digest: "d",
        depth: 0,
        context: {},
        input: { task: "t", payload: "t" },
        rejoins: [],
        iterations: 1,
        maxIterations: 5,
        history: list(n, (i) => ({
          step: `s${i}`,
          task: "t",
          output: "o",
          usage: {},
          attempts: 1,
          startedAt: at,
          finishedAt: at
        })),
        writes: list(n, (i) => ({ key: `k${i}`, record: i })),
        usage: {},
        startedAt: at,
        updatedAt: at,
        revision: 1
      }
    }),
    (wire) => {
      const json = JSON.stringify(wire)
      return PlanRun.stateCodec.decodeJson(json)
    },
    15_000
  ),
  "OpenAI: results in another order": row(
    "L8",
    (n) => [
      { role: "user", content: "x" },
      {
        role: "assistant",
        content: null,
        tool_calls: list(n, (i) => ({ id: longId(i), type: "function", function: { name: "t", arguments: "{}" } }))
      },
      ...list(Math.min(n, 9_900), (i) => ({ role: "tool", tool_call_id: longId(n - 1 - i), content: "y" }))
    ],
    (wire) => OpenAiMessages.toConversation(wire),
    19_000
  ),
  "Anthropic: results in another order": row(
    "L8",
    (n) => ({
      messages: [
        { role: "user", content: "x" },
        { role: "assistant", content: list(n, (i) => ({ type: "tool_use", id: longId(i), name: "t", input: {} })) },
        {
          role: "user",
          content: list(n, (i) => ({ type: "tool_result", tool_use_id: longId(n - 1 - i), content: "y" }))
        }
      ]
    }),
    (wire) => AnthropicMessages.toConversation(wire),
    14_000
  ),
  "OpenAI: arguments": row(
    "new",
    (n) => [
      { role: "user", content: "x" },
      {
        role: "assistant",
        content: null,
        tool_calls: list(n, (i) => ({
          id: `c${i}`,
          type: "function",
          function: { name: "t", arguments: "[[[[[[[[{}]]]]]]]]" }
        }))
      }
    ],
    (wire) => OpenAiMessages.toConversation(wire),
    19_000
  ),
  "OpenAI: everything wrong": row(
    "new",
    (n) => list(n, () => ({ role: "nope", content: [{}, 1] })),
    (wire) => OpenAiMessages.toConversation(wire),
    10_000
  ),
  "Anthropic: everything wrong": row(
    "new",
    (n) => ({ messages: list(n, () => ({ role: "user", content: [{ type: "nope" }, { type: "tool_result" }] })) }),
    (wire) => AnthropicMessages.toConversation(wire),
    10_000
  )
}

// --- Texts and values ------------------------------------------------------------------------------------------------

const parse = (finding: string, make: (n: number) => string, max?: number) =>
  row(finding, make, (input: string) => Json.parse(input), max)

const extracted = (part: string) =>
  row(
    "new",
    (n) => part.repeat(n),
    (input: string) => Effect.fromResult(Json.extract(input))
  )

const make = (finding: string, schema: (n: number) => object, max?: number) =>
  row(finding, schema, (json) => JsonSchema.make(json), max)

const texts: { readonly [name: string]: Attack } = {
  "text: keys": parse("big", (n) => `{${list(n, (i) => `"k${i}":1`).join(",")}}`),
  "text: one key": parse("big", (n) => `{${list(n, () => `"k":1`).join(",")}}`),
  "text: items": parse("big", (n) => `[${list(n, () => "0").join(",")}]`, 199_000),
  "text: arrays of arrays": parse(
    "big",
    (n) => `[${list(n, () => `[${list(10, () => "[]").join(",")}]`).join(",")}]`,
    18_000
  ),
  "text: digits": parse("big", (n) => "1".repeat(n)),
  "text: escapes": parse("big", (n) => `"${"\\u0061".repeat(n)}"`),
  "text: spaces": parse("big", (n) => `${" ".repeat(n)}1`),
  "text: prototype keys": parse("big", (n) => `[${list(n, () => '{"constructor":{"a":1}}').join(",")}]`, 19_000),
  "text: deep": parse("big", (n) => "[".repeat(n)),
  "extract: {": extracted("{"),
  'extract: {"': extracted('{"'),
  "extract: {}x": extracted("{}x"),
  'extract: {"a":': extracted('{"a":'),
  'extract: "{': extracted('"{'),
  "extract: fences": extracted("```"),
  "extract: thoughts": extracted("<think>"),
  "extract: ends of thoughts": extracted('{"</think>'),
  "extract: [[": row(
    "new",
    (n) => `${"[".repeat(60)}${"1,".repeat(n)}`,
    (input: string) => Effect.fromResult(Json.extract(input))
  ),
  "digest: keys in the wrong order": row(
    "new",
    (n) => objects(n, (i) => i, text(30)),
    (json) => Digest.sha256(json as Schema.Json)
  ),
  "digest: deep": row(
    "new",
    (n) => list(n, () => nested(60, 1, (v) => [v])),
    (json) => Digest.sha256(json as Schema.Json),
    5000
  ),
  "secrets: combining marks": row(
    "perf",
    (n) => objects(n, () => ({ a: 1 }), "\u0301".repeat(30)),
    (json) => Effect.sync(() => Json.findSecret(json))
  ),
  "secrets: one long key": row(
    "new",
    (n) => ({ ["\u0301a".repeat(n)]: 1 }),
    (json) => Effect.sync(() => Json.findSecret(json))
  ),
  "check: shared parts": row(
    "new",
    (n) => n,
    (n) => {
      const shared = nested(n, 1, (v) => [v, v])
      return Json.check(shared)
    },
    60
  ),
  "schema: keywords refused late": make("new", (n) => ({
    ...keyword("properties", n, () => ({ type: "string" })),
    $anchor: "a"
  })),
  "schema: many bad references": make("new", (n) => keyword("properties", n, (i) => ({ $ref: `#/${i}` }))),
  "contract: schemas compared": row(
    "new",
    (n) => ({ type: "object", ...keyword("properties", n, () => ({ type: "string", title: "t" })) }),
    (parameters) => {
      const kit = Toolkit.make(
        Tool.dynamic("t", { parameters: { ...parameters, additionalProperties: false }, success: Schema.String })
      )
      return Effect.gen(function* () {
        const contract = yield* ToolContract.make({ name: "t", parameters: JSON.parse(JSON.stringify(parameters)) })
        return yield* Effect.flatMap(ToolResolver.ToolResolver, ({ resolve }) => Effect.result(resolve(contract)))
      }).pipe(
        Effect.provide(Layer.provide(ToolResolver.layerToolkit(kit), kit.toLayer({ t: () => Effect.succeed("") })))
      )
    }
  )
}

// --- Masking of secrets -----------------------------------------------------------------------------------------------

const masking = (finding: string, part: string) =>
  row(
    finding,
    (n) => part.repeat(n),
    (text) =>
      Effect.sync(() => maskSecrets.maskJson(text, { names: Json.secretNames, tank: fuel.make(600_000) }) === text)
  )

const masked: { readonly [name: string]: Attack } = {
  "mask: plain words": masking("none", "word "),
  "mask: vendor keys": masking("N1", "sk-a "),
  "mask: cloud keys": masking("N1", "AKIA_"),
  "mask: tokens without an end": masking("N1", "eyJ-"),
  "mask: tokens without a dot": masking("N1", "eyJaaaaaaaa "),
  "mask: private keys": masking("N1", "-----BEGIN PRIVATE KEY"),
  "mask: credentials": masking("N1", "Bearer a "),
  "mask: user and host": masking("N1", "://a:"),
  "mask: parameters of a URL": masking("N1", "?x-signature"),
  "mask: a named key": masking("N1", "api key a: "),
  "mask: assignments": masking("N1", "a="),
  "mask: one long name": masking("N1", "secret-"),
  "mask: values in quotes": masking("N1", "password:'a"),
  "mask: values without an end": masking("N1", "password:'\n"),
  "mask: a defect with a long text": row(
    "N1",
    (n) => "eyJ-".repeat(n),
    (text) => {
      const tools = Toolkit.make(Tool.make("t"))
      const handlers = tools.toLayer({ t: () => Effect.die(new Error(text)) })
      return Agent.make("a", { model: "m/x", toolkit: tools })
        .run("hi")
        .pipe(
          Effect.map(({ outcome }) => outcome),
          Effect.provide([handlers, models([{ toolCalls: [{ name: "t", params: {} }] }, { text: "x" }])]),
          Effect.provide([Logger.layer([]), ToolRuntime.layerInline])
        )
    }
  )
}

/** Sessions in memory of agents that are data. */
const inSessions = <A, E>(work: Effect.Effect<A, E, Session.Session>) =>
  Effect.provide(
    work,
    Session.layer([Agent.make("host")], { definitions: Agent.decode }).pipe(
      Layer.provide(VersionedStore.layerMemory),
      Layer.provide([
        ToolResolver.layerStubs(),
        runtime,
        models(() => ({ text: "x" })),
        ScriptedModel.layer(() => ({ text: "x" }))
      ])
    )
  )

const asDefinition = (wire: unknown) =>
  inSessions(
    Effect.gen(function* () {
      const definition = yield* checkObject(wire)
      const digest = yield* Digest.sha256(definition)
      yield* Session.turn("a", "hi", { definition })
      return (yield* Session.turn("b", "hi", { definition: digest })).outcome
    })
  )

const asFork = (wire: unknown) =>
  inSessions(
    Effect.gen(function* () {
      const conversation = yield* decodeConversation(wire)
      yield* Session.turn("a", "hi", { agent: "host", conversation })
      const sessions = yield* Session.Session
      yield* sessions.fork("a", { to: "b" })
      return (yield* sessions.history("b")).pipe(Conversation.messageCount)
    })
  )

const said = (i: number, text: string) => ({ ...user(i), content: [{ type: "text", text }] })

/** The work of a session for one call, which has to be in proportion to the text of the call. */
const inSession: { readonly [name: string]: Attack } = {
  "session: a definition of long instructions, and its digest": row(
    "S8",
    (n) => definition([], { instructions: "x".repeat(n) }),
    asDefinition
  ),
  "session: a definition of many tools, and its digest": row(
    "S8",
    (n) => definition(list(256, (i) => ({ ...toolOf({ type: "object" }, `t${i}`), description: "d".repeat(n) }))),
    asDefinition
  ),
  "session: one long message, forked": row("S8", (n) => conversation([said(0, "x".repeat(n))]), asFork),
  "session: many messages, forked": row("S8", (n) => conversation(list(n, (i) => said(i, "x"))), asFork, 1_000)
}

/** Values that no codec has copied, for each function that walks them. */
const foreign: { readonly [name: string]: Attack } = Object.fromEntries(
  Object.entries(walkers).flatMap(([name, walk]) => [
    [
      `walk: ${name}: shared parts`,
      row(
        "RIGHT-14",
        (n) => n,
        (levels: number) => walk(shared(levels)),
        60
      )
    ],
    [
      `walk: ${name}: a circle`,
      row(
        "RIGHT-14",
        () => 1,
        () => walk(circular()),
        1
      )
    ]
  ])
)

export const attacks: { readonly [name: string]: Attack } = Object.fromEntries(
  Object.entries<Attack>({
    ...definitions,
    ...kinds,
    ...plans,
    ...histories,
    ...texts,
    ...masked,
    ...inSession,
    ...foreign
  }).map(([name, one]) => [name, { ...one, attack: (input: never) => Effect.provide(one.attack(input), Re2.layer) }])
)

/** The small inputs of every door that a server has behind it. */
const ordinary = [
  "100 ordinary tools",
  "an ordinary run",
  "plan: an ordinary run",
  "plan: earlier references, within fuel",
  "plan: schemas",
  "conversation of short texts",
  "conversation of calls",
  "repair of open calls",
  "run: events of calls",
  "run: states in states",
  "plan run: state",
  "OpenAI: results in another order",
  "Anthropic: results in another order",
  "contract: schemas compared",
  "session: a definition of long instructions, and its digest",
  "session: many messages, forked"
]

export const warmUp: Effect.Effect<unknown> = Effect.forEach(ordinary, (name) => {
  const attack = attacks[name]
  // Sound: an attack gets the input that it made.
  const work = attack?.attack(attack.make(Math.min(20, attack.max ?? 20)) as never)
  return work === undefined ? Effect.die(name) : Effect.result(work)
})

export const describe = (result: Result.Result<unknown, unknown>): string => {
  if (Result.isSuccess(result)) return "accepted"
  const { failure } = result
  return failure instanceof Error ? failure.message : String(failure)
}
