import { Schema } from "effect"
import type { PlanDefinition } from "effect-emissary/plan"

const { TaggedStruct, optionalKey } = Schema

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const atMost = <S extends Schema.Constraint>(max: number, schema: S) =>
  Schema.Array(schema).check(Schema.isMaxLength(max))
const text = Schema.String.check(Schema.isMaxLength(12))

/** Names that step names, references and routes are drawn from; in the order of code points they are sorted otherwise than by UTF-16. */
export const names = ["a", "B", "10", "9", "a-x", "a_x", "é", "\u{20000}", "\uFF21", "long_name-1"] as const

const Name = Schema.Literals(names)

const Reference = Schema.Union([
  TaggedStruct("FromPrev", {}),
  TaggedStruct("FromStart", {}),
  Schema.Struct({ _tag: Schema.Literals(["FromStep", "FromParallel", "FromParallelAll"]), step: Name }),
  Schema.Struct({ _tag: Schema.Literals(["FromMemory", "FromAgent"]), agent: text }),
  TaggedStruct("Literal", { value: text })
])

const path = atMost(3, Schema.Union([text, between(0, 3)]))
const Leaf = Schema.Union([
  TaggedStruct("Equals", { path, value: Schema.Json }),
  TaggedStruct("Empty", { path }),
  TaggedStruct("In", { path, values: atMost(2, Schema.Json) }),
  TaggedStruct("GreaterThan", { path, value: Schema.Finite }),
  TaggedStruct("LessThan", { path, value: text }),
  TaggedStruct("Matches", { path, pattern: Schema.Literal("^[a-z]+$") }),
  TaggedStruct("Text", { value: text }),
  TaggedStruct("Custom", { name: Schema.Literals(["p", "p q", "p \u{20000}", "p:é"]) })
])
const When = Schema.Union([
  Leaf,
  TaggedStruct("And", { all: atMost(3, Leaf) }),
  TaggedStruct("Or", { any: atMost(3, Leaf) }),
  TaggedStruct("Not", { when: Leaf })
])

export const schemas: { readonly [name: string]: PlanDefinition.SchemaRef } = {
  Hits: {
    name: "Hits",
    json: {
      type: "object",
      properties: { items: { type: "array", items: { type: "string" } }, password: { type: "string" } },
      required: ["items"],
      additionalProperties: false
    }
  },
  Score: { name: "Score", json: { type: "integer", minimum: 0 } },
  Word: { name: "Word", json: { type: "string", pattern: "^[a-z]+$" } },
  Any: { name: "Anything", json: {} }
}

const SchemaSeed = Schema.Struct({ named: Schema.Boolean, of: Schema.Literals(["Hits", "Score", "Word", "Any"]) })

const StepSeed = Schema.Struct({
  target: Schema.Struct({ kind: Schema.Literals(["tool", "agent", "function"]), name: Name }),
  task: Reference,
  context: optionalKey(Schema.Union([Reference, atMost(3, Reference)])),
  writes: optionalKey(text.check(Schema.isNonEmpty())),
  parallel: Schema.Boolean,
  routes: optionalKey(atMost(4, Schema.Struct({ to: Name, when: When }))),
  routesBy: optionalKey(text),
  afterBranches: optionalKey(Name),
  input: optionalKey(SchemaSeed),
  output: optionalKey(SchemaSeed),
  timeoutMillis: optionalKey(between(0, 100_000)),
  retry: optionalKey(
    Schema.Struct({
      times: between(0, 9),
      delayMillis: optionalKey(between(0, 1000)),
      factor: optionalKey(between(1, 5)),
      maxDelayMillis: optionalKey(between(0, 1000))
    })
  )
})

/** A definition whose steps have no names yet, and whose schemas are named. Every value makes a definition that any codec has to hold. */
export const Seed = Schema.Struct({
  name: Schema.Union([Schema.Literal("plan"), text]),
  description: optionalKey(text),
  maxIterations: between(0, 1_000_000),
  output: optionalKey(SchemaSeed),
  steps: atMost(5, StepSeed)
})

const forbidden = new Set(["__proto__", "constructor"])

/** Without the keys that no payload may have (L2). */
const lawful = (definition: PlanDefinition.PlanDefinition): PlanDefinition.PlanDefinition =>
  JSON.parse(JSON.stringify(definition, (key, member) => (forbidden.has(key) ? undefined : member)))

const schemaOf = <K extends string>(key: K, seed: typeof SchemaSeed.Type | undefined) => {
  const { json, name } = schemas[seed?.of ?? ""] ?? {}
  return seed === undefined ? {} : { [key]: seed.named ? { name, json } : { json } }
}

export const definition = ({ output, steps, ...plan }: typeof Seed.Type): PlanDefinition.PlanDefinition =>
  lawful({
    ...plan,
    ...schemaOf("output", output),
    steps: steps.map(({ input, output, ...step }, index) => ({
      name: names[index] ?? "a",
      ...step,
      ...schemaOf("input", input),
      ...schemaOf("output", output)
    }))
  })
