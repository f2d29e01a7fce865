import * as Schema from "effect/Schema"
import type { JsonObject } from "../../payload/Json.ts"
import * as Names from "../../payload/Names.ts"

const optional = Schema.optionalKey

const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text)

/** Any text that has a digest: without lone surrogates. */
const AnyText = Schema.String.check(Schema.makeFilter(isWellFormed, { expected: "well-formed text" }))

/** Text that says something, too. */
const Text = Schema.String.check(
  Schema.makeFilter((text) => text.trim() !== "" && isWellFormed(text), { expected: "text that is not blank" })
)

const Name = Schema.Union([
  Schema.Literals(["get_order", "mcp/search", "a.b-c", "Ünïcode ☃", "x".repeat(80)]),
  Text.check(Schema.makeFilter((name) => !Names.inherited.has(name), { expected: "a name no object inherits" }))
])

/** Property names, awkward ones too: separators of pointers, secrets' names, inherited ones. */
const Key = Schema.Literals(["city", "a/b", "m~n", "", "password", "max_tokens", "toString", "snow ☃", "$ref"])

const Scalar = Schema.Union([AnyText, Schema.Finite, Schema.Boolean, Schema.Null])

const Value: Schema.Codec<Schema.Json> = Schema.Union([
  Scalar,
  Schema.Array(Scalar),
  Schema.Struct({ a: optional(Scalar), "b c": optional(Schema.Array(Scalar)) })
])

/** Option names that are not secrets. */
const ModelOptions = Schema.Record(
  Schema.Literals(["temperature", "top_p", "prompt_cache_key", "stop"]),
  optional(Value)
)

const Leaf = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("string"),
    description: optional(AnyText),
    enum: optional(Schema.Tuple([AnyText])),
    default: optional(AnyText),
    minLength: optional(Schema.Literals([0, 1, 7]))
  }),
  Schema.Struct({
    type: Schema.Literals(["integer", "number"]),
    minimum: optional(Schema.Int),
    default: optional(Schema.Int)
  }),
  Schema.Struct({ type: Schema.Literals(["boolean", "null", "array", "object"]) }),
  Schema.Struct({
    type: Schema.Literal("array"),
    items: Schema.Struct({ type: Schema.Literals(["string", "integer"]) })
  })
])

/** The properties of a JSON Schema: what is shrunk is this list. */
const Properties = Schema.Array(
  Schema.Struct({ key: Key, schema: Leaf, required: Schema.Boolean, nested: Schema.Boolean })
)

export const toJsonSchema = (properties: typeof Properties.Type): JsonObject => {
  const leaves: Record<string, JsonObject> = {}
  for (const { key, nested, schema } of properties) {
    leaves[key] = nested
      ? { type: "object", properties: { in: { ...schema } }, additionalProperties: false }
      : { ...schema }
  }
  const required = new Set(properties.flatMap((property) => (property.required ? [property.key] : [])))
  return { type: "object", properties: leaves, required: [...required], additionalProperties: false }
}

const Millis = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000_000 }))

const Annotations = Schema.Struct({
  title: optional(AnyText),
  readonly: optional(Schema.Boolean),
  destructive: optional(Schema.Boolean),
  idempotent: optional(Schema.Boolean),
  openWorld: optional(Schema.Boolean),
  strict: optional(Schema.Boolean)
})

const Tool = Schema.Struct({
  name: Name,
  description: optional(Text),
  parameters: Properties,
  success: optional(Properties),
  failure: optional(Properties),
  timeout: Schema.Union([Millis, Schema.Literal("infinity")]),
  approval: Schema.Literals(["never", "always", "dynamic"]),
  annotations: Annotations
})

export const Definition = Schema.Struct({
  name: optional(Text),
  model: optional(Schema.Literals(["openai/gpt-5.2", "bedrock/us.anthropic/x", "ö/☃", "a/b c"])),
  instructions: optional(Text),
  modelOptions: ModelOptions,
  maxSteps: Schema.Union([Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)), Schema.Literal("unlimited")]),
  output: optional(Schema.Struct({ schema: Properties, strategy: Schema.Literals(["native", "prompted", "tool"]) })),
  reasoning: optional(Schema.Literals(["off", "low", "medium", "high", "xhigh", "max"])),
  tools: Schema.Array(Tool)
})
