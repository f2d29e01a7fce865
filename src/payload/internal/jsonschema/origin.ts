/** The JSON Schema that a Schema was made of, which core cannot tell. */
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type { JsonObject } from "../../Json.ts"
import { isObject } from "./values.ts"

const key = "effect-emissary/payload/JsonSchema"

/** Makes a Schema tell what it was made of. */
export const tell = <S extends Schema.Top>(schema: S, json: JsonObject): S["Rebuild"] =>
  schema.annotate({ [key]: json })

/** What a Schema as a whole was made of; nothing for one that was changed since. */
export const told = (ast: SchemaAST.AST): JsonObject | undefined => {
  const json = SchemaAST.resolveAt<Schema.Json>(key)(ast)
  return isObject(json) ? json : undefined
}
