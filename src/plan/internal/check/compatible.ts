/** Whether what one schema gives can be what another one takes. */
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../../payload/Json.ts"
import * as Names from "../../../payload/Names.ts"
import * as Json from "./jsonSchema.ts"

/** How deep schemas are compared, and how many pairs are looked at. What is beyond is accepted. */
const DEPTH = 16
const LOOKS = 10_000

/** What may still be looked at. */
export interface Search {
  left: number
}

/** What all comparisons of one check may look at together: schemas come from outside. */
export const search = (): Search => ({ left: 500_000 })

/**
 * Why no value of `given` can fit `taken`, if that is certain. What is not known, or not understood, can
 * fit.
 */
export const conflict = (given: JsonObject, taken: JsonObject, all: Search = search()): string | undefined => {
  const granted = Math.min(LOOKS, all.left)
  const own = { left: granted }
  const found = disjoint(Json.located(given), Json.located(taken), "", DEPTH, own)
  all.left -= granted - own.left
  return found
}

const disjoint = (
  given: Json.Located,
  taken: Json.Located,
  path: string,
  depth: number,
  search: Search
): string | undefined => {
  const g = Json.resolve(given)
  const t = Json.resolve(taken)
  if (g === undefined || t === undefined || depth === 0 || search.left-- <= 0) return undefined
  const go = (g: Json.Located, t: Json.Located) => disjoint(g, t, path, depth - 1, search)
  if (t.schema === false) return `${where(path)}takes nothing`
  return (
    every(Json.members(g), (member) => go(member, t)) ??
    every(Json.members(t), (member) => go(g, member)) ??
    some(Json.parts(g), (part) => go(part, t)) ??
    some(Json.parts(t), (part) => go(g, part)) ??
    listed(g, t, path, search) ??
    kinds(g, t, path) ??
    fields(g, t, path, depth, search) ??
    items(g, t, path, depth, search)
  )
}

const where = (path: string) => (path === "" ? "" : `${Names.quote(path)} `)

/** The first reason, if there is one for every member. */
const every = (
  members: ReadonlyArray<Json.Located> | undefined,
  reason: (member: Json.Located) => string | undefined
): string | undefined => {
  let first: string | undefined
  for (const member of members ?? []) {
    const found = reason(member)
    if (found === undefined) return undefined
    first ??= found
  }
  return first
}

const some = (
  parts: ReadonlyArray<Json.Located>,
  reason: (part: Json.Located) => string | undefined
): string | undefined => {
  for (const part of parts) {
    const found = reason(part)
    if (found !== undefined) return found
  }
  return undefined
}

/** Values that are listed on one side, and that the other side refuses all. */
const listed = (given: Json.Located, taken: Json.Located, path: string, search: Search): string | undefined => {
  const gives = Json.values(given)
  const takes = Json.values(taken)
  search.left -= (gives?.length ?? 1) * (takes?.length ?? 1)
  if (search.left <= 0) return undefined
  if (gives !== undefined && gives.length > 0 && gives.every((value) => refuses(taken, value))) {
    return `${where(path)}is ${shown(gives)}, and ${takes === undefined ? kind(taken) : shown(takes)} is taken`
  }
  if (takes !== undefined && takes.length > 0 && takes.every((value) => refuses(given, value))) {
    return `${where(path)}is ${gives === undefined ? kind(given) : shown(gives)}, and ${shown(takes)} is taken`
  }
  return undefined
}

/** Whether a schema certainly refuses a value. Only what stands in the schema itself is looked at. */
const refuses = (schema: Json.Located, value: Schema.Json): boolean => {
  const types = Json.types(schema)
  if (types !== undefined && !types.some((type) => covers(type, Json.typeOf(value)))) return true
  const values = Json.values(schema)
  // Objects and arrays are not compared.
  return values !== undefined && isPlain(value) && values.every((other) => isPlain(other) && other !== value)
}

const isPlain = (json: Schema.Json) => typeof json !== "object" || json === null

const covers = (type: string, other: string) => type === other || (type === "number" && other === "integer")

const kinds = (given: Json.Located, taken: Json.Located, path: string): string | undefined => {
  const gives = Json.types(given)
  const takes = Json.types(taken)
  if (gives === undefined || takes === undefined) return undefined
  const meet = gives.some((give) => takes.some((take) => covers(give, take) || covers(take, give)))
  return meet ? undefined : `${where(path)}is ${kind(given)}, and ${kind(taken)} is taken`
}

/** The only type of a schema, if it has one. */
const only = (at: Json.Located): string | undefined => {
  const types = Json.types(at)
  return types?.length === 1 ? types[0] : undefined
}

const fields = (
  given: Json.Located,
  taken: Json.Located,
  path: string,
  depth: number,
  search: Search
): string | undefined => {
  if (only(given) !== "object" && only(taken) !== "object") return undefined
  const gives = new Set(Json.required(given))
  const takes = new Set(Json.required(taken))
  for (const key of takes) {
    const found = Json.property(given, key)
    const at = path === "" ? key : `${path}.${key}`
    if (found === undefined) {
      // A default fills in what is missing.
      if (Json.isClosed(given) && Json.own(Json.property(taken, key)?.schema, "default") === undefined) {
        return `${where(at)}is required, and not among the fields given: ${fieldsOf(given)}`
      }
      continue
    }
    const wanted = Json.property(taken, key)
    const reason = wanted === undefined ? undefined : disjoint(found, wanted, at, depth - 1, search)
    if (reason !== undefined) return reason
  }
  for (const key of gives) {
    const found = Json.property(given, key)
    const wanted = Json.property(taken, key)
    // Null may stand for a field that is absent.
    if (takes.has(key) || found === undefined || wanted === undefined || canBeNull(found)) continue
    const reason = disjoint(found, wanted, path === "" ? key : `${path}.${key}`, depth - 1, search)
    if (reason !== undefined) return reason
  }
  return undefined
}

const fieldsOf = (at: Json.Located): string => {
  const keys = Object.keys(Json.properties(at)).slice(0, 20)
  return keys.length === 0 ? "none" : keys.map(Names.quote).join(", ")
}

const canBeNull = (at: Json.Located): boolean => {
  const resolved = Json.resolve(at)
  return resolved === undefined || (Json.types(resolved)?.includes("null") ?? true)
}

const items = (
  given: Json.Located,
  taken: Json.Located,
  path: string,
  depth: number,
  search: Search
): string | undefined => {
  if (only(given) !== "array" && only(taken) !== "array") return undefined
  const holdsOne = [given, taken].some(({ schema }) => Number(Json.own(schema, "minItems") ?? 0) > 0)
  const gives = Json.own(given.schema, "items")
  const takes = Json.own(taken.schema, "items")
  // With items in a certain order, `items` is about the rest only.
  const isTuple = [given, taken].some(({ schema }) => Json.own(schema, "prefixItems") !== undefined)
  if (!holdsOne || isTuple || gives === undefined || takes === undefined) return undefined
  return disjoint(Json.inside(given, gives), Json.inside(taken, takes), `${path}[]`, depth - 1, search)
}

const kind = (at: Json.Located): string => {
  const types = Json.types(at) ?? []
  return types.length === 0 ? "something else" : types.join(" or ")
}

const shown = (values: ReadonlyArray<Schema.Json>): string =>
  values
    .slice(0, 5)
    .map((value) => (isPlain(value) ? Names.quote(String(value)) : Json.typeOf(value)))
    .join(" or ")
