import type { Keyword } from "./context.ts"
import { arrays } from "./keywords/arrays.ts"
import { combinations } from "./keywords/combinations.ts"
import { objects } from "./keywords/objects.ts"
import { scalars } from "./keywords/scalars.ts"

export type Dialect = "2020-12" | "draft-07"

const uris: ReadonlyMap<string, Dialect> = new Map([
  ["https://json-schema.org/draft/2020-12/schema", "2020-12"],
  ["http://json-schema.org/draft-07/schema", "draft-07"],
  ["https://json-schema.org/draft-07/schema", "draft-07"]
])

export const dialectUris: ReadonlyArray<string> = [...uris.keys()]

export const dialectOf = (uri: string): Dialect | undefined => uris.get(uri.replace(/#$/, ""))

/** Keywords that say nothing about which values are accepted. */
const annotations: ReadonlySet<string> = new Set([
  "title",
  "description",
  "default",
  "examples",
  "$comment",
  "deprecated",
  "readOnly",
  "writeOnly",
  "contentEncoding",
  "contentMediaType",
  "contentSchema"
])

/** Keywords that the compiler itself reads. */
const structure: ReadonlySet<string> = new Set(["$schema", "$id", "$anchor", "$ref", "$defs", "definitions", "type"])

const only2020: ReadonlySet<string> = new Set([
  "$anchor",
  "prefixItems",
  "minContains",
  "maxContains",
  "unevaluatedItems",
  "unevaluatedProperties",
  "dependentRequired",
  "dependentSchemas"
])

const only07: ReadonlySet<string> = new Set(["additionalItems"])

const table: ReadonlyMap<string, Keyword> = new Map([...scalars, ...arrays, ...objects, ...combinations])

type Role = "annotation" | "structure" | "unknown" | Keyword

/** What a dialect knows a keyword as. */
export const roleOf = (keyword: string, dialect: Dialect): Role => {
  if (annotations.has(keyword) || keyword.startsWith("x-")) return "annotation"
  if ((dialect === "draft-07" ? only2020 : only07).has(keyword)) return "unknown"
  return structure.has(keyword) ? "structure" : (table.get(keyword) ?? "unknown")
}
