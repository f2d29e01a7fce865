/**
 * Why a JSON Schema document was refused.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { place, short } from "./internal/messages.ts"

/**
 * The reasons of a {@link JsonSchemaError}.
 *
 * **Details**
 *
 * - `NotASchema`: the document, or a part of it, is not plain JSON or not an
 *   object (subschemas may also be booleans).
 * - `TooLarge`, `TooDeep`: a limit was passed.
 * - `ForbiddenKey`: a key that can poison prototypes.
 * - `UnsupportedDialect`: `$schema` names neither draft 2020-12 nor draft-07.
 * - `UnsupportedKeyword`: a keyword that is neither enforced nor an annotation.
 * - `UnsupportedType`, `UnsupportedFormat`, `UnsupportedPattern`: a `type`,
 *   `format` or regular expression that cannot be enforced.
 * - `InvalidKeyword`: a keyword with a value it cannot have.
 * - `UnresolvedReference`, `ReferenceCycle`: a `$ref` that leaves the document,
 *   points to nothing, or comes back to itself without consuming anything.
 * - `NotRepresentable`: an Effect Schema that has no JSON Schema.
 *
 * @category errors
 * @since 0.1.0
 */
export const Reason = Schema.TaggedUnion({
  NotASchema: { expected: Schema.String, found: Schema.String },
  TooLarge: { what: Schema.String, limit: Schema.Finite, found: Schema.Finite },
  TooDeep: { limit: Schema.Finite },
  ForbiddenKey: { key: Schema.String },
  UnsupportedDialect: { found: Schema.String, supported: Schema.Array(Schema.String) },
  UnsupportedKeyword: { keyword: Schema.String },
  UnsupportedType: { found: Schema.String, supported: Schema.Array(Schema.String) },
  UnsupportedFormat: { found: Schema.String, supported: Schema.Array(Schema.String) },
  UnsupportedPattern: { problem: Schema.String },
  InvalidKeyword: { keyword: Schema.String, expected: Schema.String, found: Schema.String },
  UnresolvedReference: { ref: Schema.String, problem: Schema.String },
  ReferenceCycle: { ref: Schema.String },
  NotRepresentable: { problem: Schema.String }
})

/**
 * One of the reasons of a {@link JsonSchemaError}.
 *
 * @category errors
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

const list = (names: ReadonlyArray<string>) => names.join(", ")

const quote = (text: string) => JSON.stringify(short(text))

const explain = Reason.match({
  NotASchema: ({ expected, found }) => `expected ${expected}, got ${found}`,
  TooLarge: ({ found, limit, what }) => `${what} is ${found}, the limit is ${limit}`,
  TooDeep: ({ limit }) => `nested deeper than ${limit}`,
  ForbiddenKey: ({ key }) => `the key ${quote(key)} is not allowed; rename or remove it`,
  UnsupportedDialect: ({ found, supported }) => `unsupported $schema ${quote(found)}; supported: ${list(supported)}`,
  UnsupportedKeyword: ({ keyword }) =>
    `the keyword ${quote(keyword)} cannot be enforced; remove it, or rename it to "x-..." if it is a note`,
  UnsupportedType: ({ found, supported }) => `unsupported type ${quote(found)}; supported: ${list(supported)}`,
  UnsupportedFormat: ({ found, supported }) => `unsupported format ${quote(found)}; supported: ${list(supported)}`,
  UnsupportedPattern: ({ problem }) =>
    `the regular expression cannot run in linear time or is not valid: ${short(problem, 300)}; rewrite it without look-around and back references`,
  InvalidKeyword: ({ expected, found, keyword }) => `${short(keyword)}: expected ${expected}, got ${found}`,
  UnresolvedReference: ({ problem, ref }) => `cannot resolve ${quote(ref)}: ${problem}`,
  ReferenceCycle: ({ ref }) => `${quote(ref)} leads back to itself without consuming any part of the value`,
  NotRepresentable: ({ problem }) => `the Schema has no JSON Schema: ${problem}`
})

/**
 * A JSON Schema was refused: which document (`what`), where in it (`path`, a
 * JSON Pointer, `""` is the root) and why.
 *
 * **Example** (Telling what was refused)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { CheckedSchema } from "effect-emissary"
 *
 * const error = Effect.runSync(Effect.flip(CheckedSchema.make({ properties: { a: { type: "float" } } })))
 * assert.strictEqual(error.path, "/properties/a/type")
 * assert.strictEqual(error.reason._tag, "UnsupportedType")
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class JsonSchemaError extends Schema.TaggedError<JsonSchemaError>("effect-emissary/payload/JsonSchemaError")(
  "JsonSchemaError",
  {
    what: Schema.String,
    path: Schema.String,
    reason: Reason
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${this.what} ${place(this.path)}: ${explain(this.reason)}`
  }
}
