/**
 * Conditions of routes, as data.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * Where in the payload a condition looks: keys of objects and indices of arrays, from
 * the outside in. The empty path is the payload itself.
 *
 * @category models
 * @since 0.1.0
 */
export type Path = ReadonlyArray<string | number>

/**
 * A condition. Owner of the verbs: this file.
 *
 * @category models
 * @since 0.1.0
 */
export type When =
  | { readonly _tag: "Equals"; readonly path: Path; readonly value: Schema.Json }
  | { readonly _tag: "Empty"; readonly path: Path }
  | { readonly _tag: "In"; readonly path: Path; readonly values: ReadonlyArray<Schema.Json> }
  | { readonly _tag: "GreaterThan"; readonly path: Path; readonly value: number }
  | { readonly _tag: "LessThan"; readonly path: Path; readonly value: number }
  | { readonly _tag: "Matches"; readonly path: Path; readonly pattern: string }
  | { readonly _tag: "Text"; readonly value: string }
  | { readonly _tag: "And"; readonly all: ReadonlyArray<When> }
  | { readonly _tag: "Or"; readonly any: ReadonlyArray<When> }
  | { readonly _tag: "Not"; readonly when: When }
  | { readonly _tag: "Custom"; readonly name: string }

const Path = Schema.Array(Schema.Union([Schema.String, Schema.Int]))

/**
 * Schema of {@link When}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const When: Schema.Codec<When> = Schema.Union([
  Schema.TaggedStruct("Equals", { path: Path, value: Schema.Json }),
  Schema.TaggedStruct("Empty", { path: Path }),
  Schema.TaggedStruct("In", { path: Path, values: Schema.Array(Schema.Json) }),
  Schema.TaggedStruct("GreaterThan", { path: Path, value: Schema.Finite }),
  Schema.TaggedStruct("LessThan", { path: Path, value: Schema.Finite }),
  Schema.TaggedStruct("Matches", { path: Path, pattern: Schema.String }),
  Schema.TaggedStruct("Text", { value: Schema.String }),
  Schema.TaggedStruct("And", { all: Schema.Array(Schema.suspend(() => When)) }),
  Schema.TaggedStruct("Or", { any: Schema.Array(Schema.suspend(() => When)) }),
  Schema.TaggedStruct("Not", { when: Schema.suspend(() => When) }),
  Schema.TaggedStruct("Custom", { name: Schema.String })
])
