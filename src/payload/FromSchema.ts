/**
 * Effect Schemas as closed, provider-neutral JSON Schema documents.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { compile } from "./internal/jsonschema/compile.ts"
import { guard } from "./internal/jsonschema/guard.ts"
import { findOpaque } from "./internal/jsonschema/opaque.ts"
import * as Origin from "./internal/jsonschema/origin.ts"
import { inline, tidy } from "./internal/jsonschema/tidy.ts"
import { isObject } from "./internal/jsonschema/values.ts"
import type { JsonObject } from "./Json.ts"
import { JsonSchemaError } from "./JsonSchemaError.ts"
import * as Limits from "./Limits.ts"

/**
 * The JSON Schema of a tool without parameters: a closed object without
 * properties.
 *
 * @category constants
 * @since 0.1.0
 */
export const noParameters: JsonObject = { type: "object", properties: {}, required: [], additionalProperties: false }

/**
 * Exports an Effect Schema as a closed JSON Schema (draft 2020-12) of its JSON
 * encoding, the one that `Schema.toCodecJson` reads and writes.
 *
 * **Details**
 *
 * The document is core's export, closed and tidied: no bounds that only say
 * "safe integer", `type: ["string", "null"]` for a nullable type, one `enum` for
 * a union of constants, `required` in every object, definitions in place unless
 * they are recursive or used more than once. Descriptions, examples and
 * `default` come from annotations.
 *
 * A Schema with a part that has no JSON form (a class instance without a codec)
 * is refused with the path of that part, and so is one whose `pattern` cannot
 * run in linear time.
 *
 * **Gotchas**
 *
 * Core exports the pattern of a regular expression only if it has the `u` flag.
 * `Schema.optional` takes `null` in JSON; prefer `Schema.optionalKey`. A default
 * reaches the document by annotation only, `withDecodingDefaultKey` is not seen.
 *
 * **Example** (Parameters of a tool)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { FromSchema } from "effect-emissary"
 *
 * const Parameters = Schema.Struct({
 *   city: Schema.String.annotate({ description: "The city name" }),
 *   days: Schema.optionalKey(Schema.Int.annotate({ default: 3 }))
 * })
 * assert.deepStrictEqual(Effect.runSync(FromSchema.fromSchema(Parameters)), {
 *   type: "object",
 *   properties: {
 *     city: { type: "string", description: "The city name" },
 *     days: { type: "integer", default: 3 }
 *   },
 *   required: ["city"],
 *   additionalProperties: false
 * })
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const fromSchema = Effect.fnUntraced(function* (
  schema: Schema.Constraint,
  options: { readonly what?: string | undefined } = {}
) {
  const what = options.what ?? "Schema"
  const refuse = (path: string, problem: string) =>
    new JsonSchemaError({ what, path, reason: { _tag: "NotRepresentable", problem } })
  const origin = Origin.told(schema.ast)
  if (origin !== undefined) return origin
  const opaque = findOpaque(schema.ast)
  if (opaque !== undefined) return yield* refuse(opaque.path, opaque.problem)
  const exported = Result.try({
    try: () => Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" }),
    catch: (cause) => (cause instanceof Error ? cause.message : String(cause))
  })
  if (Result.isFailure(exported)) return yield* refuse("", exported.failure)
  const limits = yield* Limits.resolve()
  const document = guard({ root: exported.success.schema, definitions: exported.success.definitions }, limits)
  if (Result.isFailure(document)) return yield* new JsonSchemaError({ what, ...document.failure })
  const { definitions, root } = document.success
  if (!isObject(root) || !isObject(definitions)) return yield* refuse("", "core exported no object")
  const named = Object.entries(definitions).filter((entry): entry is [string, JsonObject] => isObject(entry[1]))
  const json = tidy(inline(root, named))
  const compiled = compile(json, { weight: 0 })
  if (Result.isFailure(compiled)) return yield* new JsonSchemaError({ what, ...compiled.failure })
  return json
}) satisfies (
  schema: Schema.Constraint,
  options?: { readonly what?: string | undefined }
) => Effect.Effect<JsonObject, JsonSchemaError>
