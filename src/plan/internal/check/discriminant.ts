/** The field of an output that names the step that comes next. */
import type { SchemaRef } from "../../PlanDefinition.ts"
import type { JsonObject } from "../../../payload/Json.ts"
import * as Json from "./jsonSchema.ts"

/** How deep unions and references are followed, and how many schemas are looked at. */
const DEPTH = 16
const LOOKS = 10_000

/**
 * What a field of an output can say.
 *
 * - `NotAnObject`: the output is no object with declared fields.
 * - `NoField`: it has others.
 * - `Literals`: the strings it can be; `exhaustive` if it is always there and always one of them.
 */
export type Discriminant =
  | { readonly _tag: "Unknown" }
  | { readonly _tag: "NotAnObject" }
  | { readonly _tag: "NoField"; readonly fields: ReadonlyArray<string> }
  | { readonly _tag: "Literals"; readonly literals: ReadonlyArray<string>; readonly exhaustive: boolean }

/** Undefined output: any text. A schema of which only the name is known can be anything. */
export const read = (output: SchemaRef | undefined, field: string): Discriminant =>
  output === undefined
    ? { _tag: "NotAnObject" }
    : output.json === undefined
      ? { _tag: "Unknown" }
      : readJson(output.json, field)

const readJson = (json: JsonObject, field: string): Discriminant => {
  const looks = { left: LOOKS }
  const objects: Array<Json.Located> = []
  const certain = flatten(Json.located(json), DEPTH, looks, (leaf) => {
    if (Json.own(leaf.schema, "properties") === undefined) return false
    objects.push(leaf)
    return Json.types(leaf)?.every((type) => type === "object") ?? false
  })
  if (objects.length === 0) return { _tag: "NotAnObject" }
  const literals = new Set<string>()
  const fields = new Set<string>()
  let declared = false
  let exhaustive = certain
  for (const object of objects) {
    for (const key of Object.keys(Json.properties(object))) fields.add(key)
    const found = Json.property(object, field)
    if (found === undefined) {
      exhaustive = false
      continue
    }
    declared = true
    const only = flatten(found, DEPTH, looks, (leaf) => {
      const values = Json.values(leaf) ?? []
      const strings = values.filter((value) => typeof value === "string")
      for (const value of strings) literals.add(value)
      return values.length > 0 && strings.length === values.length
    })
    if (!only || !Json.required(object).includes(field)) exhaustive = false
  }
  return declared
    ? { _tag: "Literals", literals: Array.from(literals), exhaustive }
    : { _tag: "NoField", fields: Array.from(fields) }
}

/**
 * Visits a schema, and the members of unions and intersections in it. Whether all members of a union, or one
 * of an intersection, were as the visitor wants them.
 */
const flatten = (
  at: Json.Located,
  depth: number,
  looks: { left: number },
  visit: (leaf: Json.Located) => boolean
): boolean => {
  const resolved = Json.resolve(at)
  if (resolved === undefined || depth === 0 || looks.left-- <= 0) return false
  const go = (part: Json.Located) => flatten(part, depth - 1, looks, visit)
  // Every member is visited, also after one that is not as it should be.
  const members = Json.members(resolved)?.map(go)
  const parts = Json.parts(resolved).map(go)
  return [visit(resolved), members?.every(Boolean) ?? false, ...parts].some(Boolean)
}
