/**
 * Schemas of steps: whether one step's output fits the next one's input, and which fields can choose a route.
 */

import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as Json from "../../payload/Json.ts"
import * as base from "../../payload/internal/base.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"

/**
 * The fields that `routesBy` may name: those of the output, when its type is known.
 */
type FieldOf<A> = Schema.Json extends A
  ? string
  : A extends ReadonlyArray<unknown>
    ? never
    : A extends object
      ? keyof A & string
      : never

/**
 * The output type of a step: of its `output`, or else of its agent.
 */
export type DecodedOutput<O extends StepSchema, A> = Schema.Json extends O["Type"] ? A : O["Type"]

/**
 * Accepts a field of the output in `routesBy`; for any other text the type is the mistake.
 */
export type KnownField<By extends string, A> = [By] extends [FieldOf<A>]
  ? unknown
  : Mistake<
      [FieldOf<A>] extends [never]
        ? `routesBy: "${By}" is no field of the output of this step, which has no fields.`
        : `routesBy: "${By}" is no field of the output of this step. There is "${FieldOf<A>}".`
    >

/**
 * The steps that the literals in the field of `routesBy` name.
 */
export type LiteralsOf<A, Field> = A extends { readonly [K in Field & string]?: infer Value }
  ? Value extends string
    ? string extends Value
      ? never
      : Value
    : never
  : never

/**
 * A schema of a step or of a function. It requires no services, and has to have a JSON
 * Schema: `Plan.make` refuses others.
 */
export type StepSchema = Schema.ConstraintCodec<unknown, unknown>

/** The codec between JSON and what the code sees. */
export const jsonCodec = (schema: StepSchema): StepCodec =>
  // Sound: `StepSchema` has no services, and `toCodecJson` makes JSON of whatever a schema encodes to.
  Schema.toCodecJson(schema) as Schema.Constraint as StepCodec

/** The name of a schema: its identifier. */
export const schemaName = (schema: StepSchema): string | undefined => SchemaAST.resolveIdentifier(schema.ast)

/** A schema of a step: a live one, or the JSON Schema of a wire as a codec. Both encode to JSON. */
export type StepCodec = Schema.Codec<unknown, Schema.Json>

/**
 * The type error for a part that does not belong into the plan: the message is in
 * the type.
 */
export interface Mistake<Message extends string> {
  readonly "effect-emissary: mistake": Message
}

/** A schema inside the document that its references are about. */
export interface Located {
  readonly root: Json.JsonObject
  readonly schema: Schema.Json
}

/** The longest chain of references that is followed. */
const maxHops = 32

export const ownKeyword = (json: Schema.Json | undefined, key: string): Schema.Json | undefined =>
  Json.isObject(json) && Object.hasOwn(json, key) ? json[key] : undefined

export const locate = (root: Json.JsonObject): Located => ({ root, schema: root })

/** Documents inside of another one. */
const documents = new WeakSet<object>()

/** A document that can be put inside of another one: its references stay about itself. */
export const documentOf = (json: Json.JsonObject): Json.JsonObject => {
  const copy = { ...json }
  documents.add(copy)
  return copy
}

const locateInside = ({ root }: Located, schema: Schema.Json): Located => ({
  root: Json.isObject(schema) && documents.has(schema) ? schema : root,
  schema
})

/** Follows `$ref` inside the document. Undefined when it leads nowhere. */
export const resolveRefs = (at: Located): Located | undefined => {
  let current: Schema.Json | undefined = at.schema
  for (let hop = 0; hop < maxHops; hop++) {
    const ref: Schema.Json | undefined = ownKeyword(current, "$ref")
    if (ref === undefined) return current === undefined ? undefined : locateInside(at, current)
    if (typeof ref !== "string" || !ref.startsWith("#")) return undefined
    current = followRef(at.root, ref.slice(1))
  }
  return undefined
}

const followRef = (root: Json.JsonObject, pointer: string): Schema.Json | undefined => {
  if (pointer === "") return root
  let current: Schema.Json | undefined = root
  for (const token of pointer.split("/").slice(1)) {
    const key = token.includes("~") ? token.replaceAll("~1", "/").replaceAll("~0", "~") : token
    current = base.isArray(current) ? current[Number(key)] : ownKeyword(current, key)
  }
  return current
}

/** The members of a union, if the schema is one. */
export const unionMembers = (at: Located): ReadonlyArray<Located> | undefined => {
  const list = ownKeyword(at.schema, "anyOf") ?? ownKeyword(at.schema, "oneOf")
  return base.isArray(list) ? list.map((schema) => locateInside(at, schema)) : undefined
}

/** The members of an intersection. */
export const intersectionParts = (at: Located): ReadonlyArray<Located> => {
  const list = ownKeyword(at.schema, "allOf")
  return base.isArray(list) ? list.map((schema) => locateInside(at, schema)) : []
}

/** The values that are allowed, if they are listed. */
export const literalValues = ({ schema }: Located): ReadonlyArray<Schema.Json> | undefined => {
  const constant = ownKeyword(schema, "const")
  if (constant !== undefined) return [constant]
  const list = ownKeyword(schema, "enum")
  return base.isArray(list) ? list : undefined
}

/** The types that are allowed, if they are listed. */
export const typesOf = ({ schema }: Located): ReadonlyArray<string> | undefined => {
  const type = ownKeyword(schema, "type")
  if (typeof type === "string") return [type]
  return base.isArray(type) ? type.filter((one) => typeof one === "string") : undefined
}

const typeOf = (json: Schema.Json): string =>
  json === null ? "null" : Array.isArray(json) ? "array" : Number.isInteger(json) ? "integer" : typeof json

export const propertiesOf = (at: Located): Json.JsonObject => {
  const found = ownKeyword(at.schema, "properties")
  return Json.isObject(found) ? found : {}
}

export const propertyAt = (at: Located, key: string): Located | undefined => {
  const found = ownKeyword(ownKeyword(at.schema, "properties"), key)
  return found === undefined ? undefined : locateInside(at, found)
}

export const requiredKeys = ({ schema }: Located): ReadonlyArray<string> => {
  const list = ownKeyword(schema, "required")
  return base.isArray(list) ? list.filter((key) => typeof key === "string") : []
}

/** True for an object that has no other properties than the declared ones. */
export const isClosed = ({ schema }: Located): boolean =>
  ownKeyword(schema, "additionalProperties") === false && ownKeyword(schema, "patternProperties") === undefined

/** The depth to which unions, intersections and fields are followed. Deeper schemas count as fitting. */
const maxDepth = 8

/** The pairs of schemas that one check may still compare: schemas come from outside. Others count as fitting. */
export interface ConflictSearch {
  left: number
}

export const makeConflictSearch = (): ConflictSearch => ({ left: 50_000 })

/**
 * The reason why no value of `given` can fit `taken`, if that is certain: their types, listed values, and those of
 * the fields of both. A value that is not known, or deeper, can fit; then the step fails that reads it.
 */
export const schemaConflict = (
  given: Json.JsonObject,
  taken: Json.JsonObject,
  search: ConflictSearch = makeConflictSearch()
): string | undefined => conflictAt(locate(given), locate(taken), "", maxDepth, search)

const conflictAt = (
  given: Located,
  taken: Located,
  field: string,
  depth: number,
  search: ConflictSearch
): string | undefined => {
  const g = resolveRefs(given)
  const t = resolveRefs(taken)
  if (g === undefined || t === undefined || depth === 0 || search.left-- <= 0) return undefined
  const go = (g: Located, t: Located) => conflictAt(g, t, field, depth - 1, search)
  const place = field === "" ? "" : `${base.quote(field)} `
  if (t.schema === false) return `${place}takes nothing`
  return (
    everyReason(unionMembers(g), (member) => go(member, t)) ??
    everyReason(unionMembers(t), (member) => go(g, member)) ??
    someReason(intersectionParts(g), (part) => go(part, t)) ??
    someReason(intersectionParts(t), (part) => go(g, part)) ??
    valueConflict(g, t, place, search) ??
    fieldConflict(g, t, field, depth, search)
  )
}

/** The first reason, if there is one for every member. */
const everyReason = (
  members: ReadonlyArray<Located> | undefined,
  reason: (member: Located) => string | undefined
): string | undefined => {
  const reasons: Array<string> = []
  for (const member of members ?? []) {
    const found = reason(member)
    if (found === undefined) return undefined
    reasons.push(found)
  }
  return reasons[0]
}

const someReason = <A>(parts: Iterable<A>, reason: (part: A) => string | undefined): string | undefined => {
  for (const part of parts) {
    const found = reason(part)
    if (found !== undefined) return found
  }
  return undefined
}

/** Types that have no value in common, or listed values that the other side refuses all. */
const valueConflict = (given: Located, taken: Located, place: string, search: ConflictSearch): string | undefined => {
  const gives = literalValues(given)
  const takes = literalValues(taken)
  search.left -= (gives?.length ?? 1) * (takes?.length ?? 1)
  if (search.left <= 0) return undefined
  const isRefused = (values: ReadonlyArray<Schema.Json> | undefined, other: Located) =>
    values !== undefined && values.length > 0 && values.every((value) => refusesValue(other, value))
  if (!isRefused(gives, taken) && !isRefused(takes, given) && !haveOtherTypes(given, taken)) return undefined
  return `${place}is ${showSchema(given)}, and ${showSchema(taken)} is taken`
}

/** True if a schema certainly refuses a value. Only the schema itself counts. */
const refusesValue = (schema: Located, value: Schema.Json): boolean => {
  const types = typesOf(schema)
  if (types !== undefined && !types.some((type) => coversType(type, typeOf(value)))) return true
  const values = literalValues(schema)
  // Objects and arrays are not compared.
  return values !== undefined && isPlain(value) && values.every((other) => isPlain(other) && other !== value)
}

const isPlain = (json: Schema.Json) => typeof json !== "object" || json === null

const coversType = (type: string, other: string) => type === other || (type === "number" && other === "integer")

const haveOtherTypes = (given: Located, taken: Located): boolean => {
  const takes = typesOf(taken)
  const overlaps = (give: string) => takes?.some((take) => coversType(give, take) || coversType(take, give)) ?? true
  return typesOf(given)?.every((give) => !overlaps(give)) ?? false
}

const isOnlyObject = (at: Located): boolean => typesOf(at)?.join() === "object"

/** A field that is required and cannot be there, or that can never have a value which fits. */
const fieldConflict = (
  given: Located,
  taken: Located,
  path: string,
  depth: number,
  search: ConflictSearch
): string | undefined => {
  if (!isOnlyObject(given) && !isOnlyObject(taken)) return undefined
  const required = new Set(requiredKeys(taken))
  return someReason(new Set([...required, ...requiredKeys(given)]), (key) => {
    const gives = propertyAt(given, key)
    const takes = propertyAt(taken, key)
    const field = path === "" ? key : `${path}.${key}`
    if (gives === undefined) {
      // A default fills in a field that is missing.
      const isMissing = required.has(key) && isClosed(given) && ownKeyword(takes?.schema, "default") === undefined
      return isMissing
        ? `${base.quote(field)} is required, and not among the fields given: ${fieldNames(given)}`
        : undefined
    }
    // Null counts as absent where the field is not required.
    if (takes === undefined || (!required.has(key) && canBeNull(gives))) return undefined
    return conflictAt(gives, takes, field, depth - 1, search)
  })
}

const fieldNames = (at: Located): string => {
  const keys = Object.keys(propertiesOf(at)).slice(0, 20)
  return keys.length === 0 ? "none" : keys.map(base.quote).join(", ")
}

const canBeNull = (at: Located): boolean => {
  const resolved = resolveRefs(at)
  return resolved === undefined || (typesOf(resolved)?.includes("null") ?? true)
}

/** The listed values of a schema, or else its types, for messages. */
const showSchema = (at: Located): string => {
  const values = literalValues(at)?.slice(0, 5)
  const shown =
    values?.map((value) => (isPlain(value) ? base.quote(String(value)) : typeOf(value))) ?? typesOf(at) ?? []
  return shown.length === 0 ? "something else" : shown.join(" or ")
}

/**
 * The values of a field of an output.
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
export const readDiscriminant = (output: PlanDefinition.SchemaRef | undefined, field: string): Discriminant =>
  output === undefined
    ? { _tag: "NotAnObject" }
    : output.json === undefined
      ? { _tag: "Unknown" }
      : readDiscriminantJson(output.json, field)

const readDiscriminantJson = (json: Json.JsonObject, field: string): Discriminant => {
  const looks = makeConflictSearch()
  const objects: Array<Located> = []
  const certain = flattenUnion(locate(json), maxDepth, looks, (leaf) => {
    if (ownKeyword(leaf.schema, "properties") === undefined) return false
    objects.push(leaf)
    return typesOf(leaf)?.every((type) => type === "object") ?? false
  })
  if (objects.length === 0) return { _tag: "NotAnObject" }
  const literals = new Set<string>()
  const fields = new Set<string>()
  let declared = false
  let exhaustive = certain
  for (const object of objects) {
    for (const key of Object.keys(propertiesOf(object))) fields.add(key)
    const found = propertyAt(object, field)
    if (found === undefined) {
      exhaustive = false
      continue
    }
    declared = true
    const only = flattenUnion(found, maxDepth, looks, (leaf) => {
      const values = literalValues(leaf) ?? []
      const strings = values.filter((value) => typeof value === "string")
      for (const value of strings) literals.add(value)
      return values.length > 0 && strings.length === values.length
    })
    if (!only || !requiredKeys(object).includes(field)) exhaustive = false
  }
  return declared
    ? { _tag: "Literals", literals: Array.from(literals), exhaustive }
    : { _tag: "NoField", fields: Array.from(fields) }
}

/**
 * Visits a schema, and the members of unions and intersections in it. Whether all members of a union, or one
 * of an intersection, were as the visitor wants them.
 */
const flattenUnion = (
  at: Located,
  depth: number,
  looks: ConflictSearch,
  visit: (leaf: Located) => boolean
): boolean => {
  const resolved = resolveRefs(at)
  if (resolved === undefined || depth === 0 || looks.left-- <= 0) return false
  const go = (part: Located) => flattenUnion(part, depth - 1, looks, visit)
  // Every member is visited, also after one that is not as it should be.
  const members = unionMembers(resolved)?.map(go)
  const parts = intersectionParts(resolved).map(go)
  return [visit(resolved), members?.every(Boolean) ?? false, ...parts].some(Boolean)
}

const routableCache = new WeakMap<
  PlanDefinition.StepDefinition,
  { readonly of: PlanDefinition.PlanDefinition; readonly steps: ReadonlySet<string> }
>()

/** The steps that the output of a step can name. An output that is not declared is unknown. */
export const routeValues = (output: PlanDefinition.SchemaRef | undefined, field: string): Discriminant =>
  output === undefined ? { _tag: "Unknown" } : readDiscriminant(output, field)

const findRoutable = (
  { steps }: PlanDefinition.PlanDefinition,
  { output, routesBy }: PlanDefinition.StepDefinition
): ReadonlySet<string> => {
  if (routesBy === undefined) return new Set()
  const outside = steps.flatMap(({ name, parallel }) => (parallel ? [] : [name]))
  const found = routeValues(output, routesBy)
  switch (found._tag) {
    case "Literals": {
      const literals = new Set(found.literals)
      return new Set(outside.filter((name) => literals.has(name)))
    }
    case "Unknown":
      return new Set(outside)
    default:
      return new Set()
  }
}

/**
 * The steps that the output of `step` can name, which are those that were
 * checked; a text beside them is no route. All steps outside bands if the schema is only
 * known by its name.
 */
export const routable = (
  definition: PlanDefinition.PlanDefinition,
  step: PlanDefinition.StepDefinition
): ReadonlySet<string> => {
  const known = routableCache.get(step)
  if (known?.of === definition) return known.steps
  const steps = findRoutable(definition, step)
  routableCache.set(step, { of: definition, steps })
  return steps
}

/** Its input is text and nothing else: a band, which is text and an object, is the text then. */
export const readsText = ({ input }: PlanDefinition.StepDefinition): boolean => {
  if (input?.json === undefined) return false
  const root = locate(input.json)
  const types = typesOf(resolveRefs(root) ?? root)
  return types !== undefined && types.every((type) => type === "string")
}

const targetFields = { target: Schema.String, problems: Schema.String }

/** A payload that does not fit the input schema of the function. */
export class InputInvalid extends Schema.TaggedError<InputInvalid>("effect-emissary/plan/InputInvalid")(
  "InputInvalid",
  targetFields
) {
  override get message(): string {
    return this.problems
  }
}

/** An answer that does not fit the output schema of the function. */
export class OutputInvalid extends Schema.TaggedError<OutputInvalid>("effect-emissary/plan/OutputInvalid")(
  "OutputInvalid",
  targetFields
) {
  override get message(): string {
    return this.problems
  }
}
