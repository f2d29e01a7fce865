/**
 * Schemas of steps: whether one step's output fits the next one's input, and which fields can choose a route.
 */

import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as Json from "../../payload/Json.ts"
import * as paths from "../../payload/internal/paths.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import * as planNames from "./planNames.ts"

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
 * What a step gives: its `output`, or else what its agent answers.
 */
export type DecodedOutput<O extends StepSchema, A> = Schema.Json extends O["Type"] ? A : O["Type"]

/**
 * Lets a field of the output stand in `routesBy`, and tells what is wrong with any other.
 */
export type KnownField<By extends string, A> = [By] extends [FieldOf<A>]
  ? unknown
  : Mistake<
      [FieldOf<A>] extends [never]
        ? `routesBy: "${By}" is no field of the output of this step, which has no fields.`
        : `routesBy: "${By}" is no field of the output of this step. There is "${FieldOf<A>}".`
    >

/**
 * The steps that the literals in a field of the output name, where `routesBy` says so.
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

/** A schema of a step: a live one, or the JSON Schema of a wire as a codec. Both give JSON when they encode. */
export type StepCodec = Schema.Codec<unknown, Schema.Json>

/**
 * What a compiler says of a part that does not belong into the plan: the message is in
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

/** How many references are followed in a row. */
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
    current = planNames.isArray(current) ? current[Number(key)] : ownKeyword(current, key)
  }
  return current
}

/** The members of a union, if the schema is one. */
export const unionMembers = (at: Located): ReadonlyArray<Located> | undefined => {
  const list = ownKeyword(at.schema, "anyOf") ?? ownKeyword(at.schema, "oneOf")
  return planNames.isArray(list) ? list.map((schema) => locateInside(at, schema)) : undefined
}

/** The members of an intersection. */
export const intersectionParts = (at: Located): ReadonlyArray<Located> => {
  const list = ownKeyword(at.schema, "allOf")
  return planNames.isArray(list) ? list.map((schema) => locateInside(at, schema)) : []
}

/** The values that are allowed, if they are listed. */
export const literalValues = ({ schema }: Located): ReadonlyArray<Schema.Json> | undefined => {
  const constant = ownKeyword(schema, "const")
  if (constant !== undefined) return [constant]
  const list = ownKeyword(schema, "enum")
  return planNames.isArray(list) ? list : undefined
}

/** The types that are allowed, if they are listed. */
export const typesOf = ({ schema }: Located): ReadonlyArray<string> | undefined => {
  const type = ownKeyword(schema, "type")
  if (typeof type === "string") return [type]
  return planNames.isArray(type) ? type.filter((one) => typeof one === "string") : undefined
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
  return planNames.isArray(list) ? list.filter((key) => typeof key === "string") : []
}

/** Whether an object takes no other properties than the declared ones. */
export const isClosed = ({ schema }: Located): boolean =>
  ownKeyword(schema, "additionalProperties") === false && ownKeyword(schema, "patternProperties") === undefined

/** Whether two values are equal. What is deeper than that is not. */
export const isSameSchema = (a: Schema.Json | undefined, b: Schema.Json | undefined, depth: number): boolean => {
  if (depth === 0) return false
  if (planNames.isArray(a) && planNames.isArray(b)) {
    return a.length === b.length && a.every((item, index) => isSameSchema(item, b[index], depth - 1))
  }
  if (!Json.isObject(a) || !Json.isObject(b)) return a === b
  const keys = Object.keys(a)
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => isSameSchema(ownKeyword(a, key), ownKeyword(b, key), depth - 1))
  )
}

/** How deep schemas are compared, and how many pairs are looked at. What is beyond is accepted. */
const maxConflictDepth = 16

const conflictFuel = 10_000

/** What may still be looked at. */
export interface ConflictSearch {
  left: number
}

/** What all comparisons of one check may look at together: schemas come from outside. */
export const makeConflictSearch = (): ConflictSearch => ({ left: 500_000 })

/**
 * Why no value of `given` can fit `taken`, if that is certain. What is not known, or not understood, can
 * fit.
 */
export const schemaConflict = (
  given: Json.JsonObject,
  taken: Json.JsonObject,
  all: ConflictSearch = makeConflictSearch()
): string | undefined => {
  const granted = Math.min(conflictFuel, all.left)
  const own = { left: granted }
  const found = areDisjoint(locate(given), locate(taken), "", maxConflictDepth, own)
  all.left -= granted - own.left
  return found
}

const areDisjoint = (
  given: Located,
  taken: Located,
  path: string,
  depth: number,
  search: ConflictSearch
): string | undefined => {
  const g = resolveRefs(given)
  const t = resolveRefs(taken)
  if (g === undefined || t === undefined || depth === 0 || search.left-- <= 0) return undefined
  const go = (g: Located, t: Located) => areDisjoint(g, t, path, depth - 1, search)
  if (t.schema === false) return `${atPath(path)}takes nothing`
  return (
    everyMember(unionMembers(g), (member) => go(member, t)) ??
    everyMember(unionMembers(t), (member) => go(g, member)) ??
    someMember(intersectionParts(g), (part) => go(part, t)) ??
    someMember(intersectionParts(t), (part) => go(g, part)) ??
    listConflict(g, t, path, search) ??
    kindsOf(g, t, path) ??
    fieldConflict(g, t, path, depth, search) ??
    itemConflict(g, t, path, depth, search)
  )
}

const atPath = (path: string) => (path === "" ? "" : `${paths.quote(path)} `)

/** The first reason, if there is one for every member. */
const everyMember = (
  members: ReadonlyArray<Located> | undefined,
  reason: (member: Located) => string | undefined
): string | undefined => {
  let first: string | undefined
  for (const member of members ?? []) {
    const found = reason(member)
    if (found === undefined) return undefined
    first ??= found
  }
  return first
}

const someMember = (
  parts: ReadonlyArray<Located>,
  reason: (part: Located) => string | undefined
): string | undefined => {
  for (const part of parts) {
    const found = reason(part)
    if (found !== undefined) return found
  }
  return undefined
}

/** Values that are listed on one side, and that the other side refuses all. */
const listConflict = (given: Located, taken: Located, path: string, search: ConflictSearch): string | undefined => {
  const gives = literalValues(given)
  const takes = literalValues(taken)
  search.left -= (gives?.length ?? 1) * (takes?.length ?? 1)
  if (search.left <= 0) return undefined
  if (gives !== undefined && gives.length > 0 && gives.every((value) => refusesValue(taken, value))) {
    return `${atPath(path)}is ${showValues(gives)}, and ${takes === undefined ? kindName(taken) : showValues(takes)} is taken`
  }
  if (takes !== undefined && takes.length > 0 && takes.every((value) => refusesValue(given, value))) {
    return `${atPath(path)}is ${gives === undefined ? kindName(given) : showValues(gives)}, and ${showValues(takes)} is taken`
  }
  return undefined
}

/** Whether a schema certainly refuses a value. Only what stands in the schema itself is looked at. */
const refusesValue = (schema: Located, value: Schema.Json): boolean => {
  const types = typesOf(schema)
  if (types !== undefined && !types.some((type) => coversType(type, typeOf(value)))) return true
  const values = literalValues(schema)
  // Objects and arrays are not compared.
  return values !== undefined && isPlain(value) && values.every((other) => isPlain(other) && other !== value)
}

const isPlain = (json: Schema.Json) => typeof json !== "object" || json === null

const coversType = (type: string, other: string) => type === other || (type === "number" && other === "integer")

const kindsOf = (given: Located, taken: Located, path: string): string | undefined => {
  const gives = typesOf(given)
  const takes = typesOf(taken)
  if (gives === undefined || takes === undefined) return undefined
  const meet = gives.some((give) => takes.some((take) => coversType(give, take) || coversType(take, give)))
  return meet ? undefined : `${atPath(path)}is ${kindName(given)}, and ${kindName(taken)} is taken`
}

/** The only type of a schema, if it has one. */
const onlyIn = (at: Located): string | undefined => {
  const types = typesOf(at)
  return types?.length === 1 ? types[0] : undefined
}

const fieldConflict = (
  given: Located,
  taken: Located,
  path: string,
  depth: number,
  search: ConflictSearch
): string | undefined => {
  if (onlyIn(given) !== "object" && onlyIn(taken) !== "object") return undefined
  const gives = new Set(requiredKeys(given))
  const takes = new Set(requiredKeys(taken))
  for (const key of takes) {
    const found = propertyAt(given, key)
    const at = path === "" ? key : `${path}.${key}`
    if (found === undefined) {
      // A default fills in what is missing.
      if (isClosed(given) && ownKeyword(propertyAt(taken, key)?.schema, "default") === undefined) {
        return `${atPath(at)}is required, and not among the fields given: ${fieldNames(given)}`
      }
      continue
    }
    const wanted = propertyAt(taken, key)
    const reason = wanted === undefined ? undefined : areDisjoint(found, wanted, at, depth - 1, search)
    if (reason !== undefined) return reason
  }
  for (const key of gives) {
    const found = propertyAt(given, key)
    const wanted = propertyAt(taken, key)
    // Null may stand for a field that is absent.
    if (takes.has(key) || found === undefined || wanted === undefined || canBeNull(found)) continue
    const reason = areDisjoint(found, wanted, path === "" ? key : `${path}.${key}`, depth - 1, search)
    if (reason !== undefined) return reason
  }
  return undefined
}

const fieldNames = (at: Located): string => {
  const keys = Object.keys(propertiesOf(at)).slice(0, 20)
  return keys.length === 0 ? "none" : keys.map(paths.quote).join(", ")
}

const canBeNull = (at: Located): boolean => {
  const resolved = resolveRefs(at)
  return resolved === undefined || (typesOf(resolved)?.includes("null") ?? true)
}

const itemConflict = (
  given: Located,
  taken: Located,
  path: string,
  depth: number,
  search: ConflictSearch
): string | undefined => {
  if (onlyIn(given) !== "array" && onlyIn(taken) !== "array") return undefined
  const holdsOne = [given, taken].some(({ schema }) => Number(ownKeyword(schema, "minItems") ?? 0) > 0)
  const gives = ownKeyword(given.schema, "items")
  const takes = ownKeyword(taken.schema, "items")
  // With items in a certain order, `items` is about the rest only.
  const isTuple = [given, taken].some(({ schema }) => ownKeyword(schema, "prefixItems") !== undefined)
  if (!holdsOne || isTuple || gives === undefined || takes === undefined) return undefined
  return areDisjoint(locateInside(given, gives), locateInside(taken, takes), `${path}[]`, depth - 1, search)
}

const kindName = (at: Located): string => {
  const types = typesOf(at) ?? []
  return types.length === 0 ? "something else" : types.join(" or ")
}

const showValues = (values: ReadonlyArray<Schema.Json>): string =>
  values
    .slice(0, 5)
    .map((value) => (isPlain(value) ? paths.quote(String(value)) : typeOf(value)))
    .join(" or ")

/** How deep unions and references are followed, and how many schemas are looked at. */
const maxDiscriminantDepth = 16

const discriminantFuel = 10_000

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
export const readDiscriminant = (output: PlanDefinition.SchemaRef | undefined, field: string): Discriminant =>
  output === undefined
    ? { _tag: "NotAnObject" }
    : output.json === undefined
      ? { _tag: "Unknown" }
      : readDiscriminantJson(output.json, field)

const readDiscriminantJson = (json: Json.JsonObject, field: string): Discriminant => {
  const looks = { left: discriminantFuel }
  const objects: Array<Located> = []
  const certain = flattenUnion(locate(json), maxDiscriminantDepth, looks, (leaf) => {
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
    const only = flattenUnion(found, maxDiscriminantDepth, looks, (leaf) => {
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
  looks: { left: number },
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

/** What the output of a step can say about the next one; nothing is known of an output that is not declared. */
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
 * The steps that the output of `step` says it can name, which are those that were
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

/** The payload does not fit the input schema of the function. */
export class InputInvalid extends Schema.TaggedError<InputInvalid>("effect-emissary/plan/InputInvalid")(
  "InputInvalid",
  targetFields
) {
  override get message(): string {
    return this.problems
  }
}

/** The answer does not fit the output schema of the function. */
export class OutputInvalid extends Schema.TaggedError<OutputInvalid>("effect-emissary/plan/OutputInvalid")(
  "OutputInvalid",
  targetFields
) {
  override get message(): string {
    return this.problems
  }
}

/** The function of a step gave no Effect. `found` is what it gave, in a word. */
export class NotAnEffect extends Schema.TaggedError<NotAnEffect>("effect-emissary/plan/NotAnEffect")("NotAnEffect", {
  target: Schema.String,
  found: Schema.String
}) {
  override get message(): string {
    return `expected the function of ${JSON.stringify(this.target)} to return an Effect, found ${this.found}`
  }
}
