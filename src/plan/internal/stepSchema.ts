/**
 * Schemas of steps: whether one step's output fits the next one's input, and which fields can choose a route.
 */

import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as base from "../../payload/internal/base.ts"
import * as plainJson from "../../payload/internal/plainJson.ts"
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
  readonly root: plainJson.JsonObject
  readonly schema: Schema.Json
}

/** The longest chain of references that is followed. */
const maxHops = 32

export const ownKeyword = (json: Schema.Json | undefined, key: string): Schema.Json | undefined =>
  plainJson.isObject(json) ? plainJson.own(json, key) : undefined

export const locate = (root: plainJson.JsonObject): Located => ({ root, schema: root })

/** Documents inside of another one. */
const documents = new WeakSet<object>()

/** A document that can be put inside of another one: its references stay about itself. */
export const documentOf = (json: plainJson.JsonObject): plainJson.JsonObject => {
  const copy = { ...json }
  documents.add(copy)
  return copy
}

const locateInside = ({ root }: Located, schema: Schema.Json): Located => ({
  root: plainJson.isObject(schema) && documents.has(schema) ? schema : root,
  schema
})

/** Follows `$ref` inside the document. Undefined when it leads nowhere. */
export const resolveRefs = (at: Located): Located | undefined => {
  let current: Schema.Json | undefined = at.schema
  for (let hop = 0; hop < maxHops; hop++) {
    const ref: Schema.Json | undefined = ownKeyword(current, "$ref")
    if (ref === undefined) return current === undefined ? undefined : locateInside(at, current)
    if (typeof ref !== "string" || !ref.startsWith("#")) return undefined
    current = plainJson.getAt(at.root, ref.slice(1))
  }
  return undefined
}

/** The members of a union, if the schema is one. */
export const unionMembers = (at: Located): ReadonlyArray<Located> | undefined => {
  const list = ownKeyword(at.schema, "anyOf") ?? ownKeyword(at.schema, "oneOf")
  return plainJson.isArray(list) ? list.map((schema) => locateInside(at, schema)) : undefined
}

/** The members of an intersection. */
export const intersectionParts = (at: Located): ReadonlyArray<Located> => {
  const list = ownKeyword(at.schema, "allOf")
  return plainJson.isArray(list) ? list.map((schema) => locateInside(at, schema)) : []
}

/** The values that are allowed, if they are listed. */
export const literalValues = ({ schema }: Located): ReadonlyArray<Schema.Json> | undefined => {
  const constant = ownKeyword(schema, "const")
  if (constant !== undefined) return [constant]
  const list = ownKeyword(schema, "enum")
  return plainJson.isArray(list) ? list : undefined
}

/** The types that are allowed, if they are listed. */
export const typesOf = ({ schema }: Located): ReadonlyArray<string> | undefined => {
  const type = ownKeyword(schema, "type")
  if (typeof type === "string") return [type]
  return plainJson.isArray(type) ? type.filter((one) => typeof one === "string") : undefined
}

const typeOf = (json: Schema.Json): string => (Number.isInteger(json) ? "integer" : plainJson.kindOf(json))

export const propertiesOf = (at: Located): plainJson.JsonObject => {
  const found = ownKeyword(at.schema, "properties")
  return plainJson.isObject(found) ? found : {}
}

export const propertyAt = (at: Located, key: string): Located | undefined => {
  const found = plainJson.own(propertiesOf(at), key)
  return found === undefined ? undefined : locateInside(at, found)
}

export const requiredKeys = ({ schema }: Located): ReadonlyArray<string> => {
  const list = ownKeyword(schema, "required")
  return plainJson.isArray(list) ? list.filter((key) => typeof key === "string") : []
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
  given: plainJson.JsonObject,
  taken: plainJson.JsonObject,
  search: ConflictSearch = makeConflictSearch()
): string | undefined => conflictAt(locate(given), locate(taken), "", maxDepth, search)

/** One way to fit a schema: a value has to fit each of the parts. A schema that is not known has none. */
type Alternative = ReadonlyArray<Located>

/** Combinations of the members of unions inside an intersection. Others count as fitting. */
const maxAlternatives = 1_000

/** Unions and intersections, and references to them, as a list of alternatives. */
const alternativesOf = (at: Located, search: ConflictSearch, depth = maxDepth): ReadonlyArray<Alternative> => {
  const schema = resolveRefs(at)
  if (schema === undefined || depth === 0 || search.left-- <= 0) return [[]]
  const inner = (part: Located) => alternativesOf(part, search, depth - 1)
  let found: ReadonlyArray<Alternative> = unionMembers(schema)?.flatMap(inner) ?? [[]]
  for (const part of intersectionParts(schema).map(inner)) {
    if (found.length * part.length > maxAlternatives) continue
    found = found.flatMap((before) => part.map((after) => [...before, ...after]))
  }
  return found.map((parts) => [schema, ...parts])
}

const conflictAt = (
  given: Located,
  taken: Located,
  field: string,
  depth: number,
  search: ConflictSearch
): string | undefined => {
  if (depth === 0 || search.left-- <= 0) return undefined
  const takes = alternativesOf(taken, search)
  return everyReason(alternativesOf(given, search), (gives) =>
    everyReason(takes, (parts) =>
      someReason(gives, (give) => someReason(parts, (take) => partConflict(give, take, field, depth, search)))
    )
  )
}

const partConflict = (given: Located, taken: Located, field: string, depth: number, search: ConflictSearch) => {
  const place = field === "" ? "" : `${base.quote(field)} `
  if (taken.schema === false) return `${place}takes nothing`
  return valueConflict(given, taken, place, search) ?? fieldConflict(given, taken, field, depth, search)
}

/** The first reason, if there is one for every alternative. */
const everyReason = (
  alternatives: ReadonlyArray<Alternative>,
  reason: (parts: Alternative) => string | undefined
): string | undefined => {
  let first: string | undefined
  for (const parts of alternatives) {
    const found = reason(parts)
    if (found === undefined) return undefined
    first ??= found
  }
  return first
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

/** An undefined output is text. A schema known only by its name accepts every value. */
export const readDiscriminant = (output: PlanDefinition.SchemaRef | undefined, field: string): Discriminant => {
  if (output === undefined) return { _tag: "NotAnObject" }
  if (output.json === undefined) return { _tag: "Unknown" }
  const search = makeConflictSearch()
  const alternatives = alternativesOf(locate(output.json), search)
  const fields = new Set(alternatives.flat().flatMap((part) => Object.keys(propertiesOf(part))))
  if (!fields.has(field)) {
    const isObject = alternatives.flat().some(({ schema }) => ownKeyword(schema, "properties") !== undefined)
    return isObject ? { _tag: "NoField", fields: Array.from(fields) } : { _tag: "NotAnObject" }
  }
  const literals = new Set<string>()
  // Every alternative is read, also after one that is not as it should be.
  const isCertain = alternatives.map((parts) => {
    const values = parts.flatMap((part) => propertyAt(part, field) ?? [])
    const isListed = values.map((value) => readLiterals(value, search, literals)).some(Boolean)
    return isListed && parts.some(isOnlyObject) && parts.some((part) => requiredKeys(part).includes(field))
  })
  return { _tag: "Literals", literals: Array.from(literals), exhaustive: isCertain.every(Boolean) }
}

/** Adds the strings that a schema lists. True if it takes nothing else. */
const readLiterals = (at: Located, search: ConflictSearch, literals: Set<string>): boolean => {
  const isListed = alternativesOf(at, search).map((parts) => {
    const lists = parts.flatMap((part) => [literalValues(part) ?? []])
    for (const value of lists.flat()) if (typeof value === "string") literals.add(value)
    return lists.some((values) => values.length > 0 && values.every((value) => typeof value === "string"))
  })
  return isListed.every(Boolean)
}

/** The steps that the output of a step can name. An output that is not declared is unknown. */
export const routeValues = (output: PlanDefinition.SchemaRef | undefined, field: string): Discriminant =>
  output === undefined ? { _tag: "Unknown" } : readDiscriminant(output, field)

/**
 * The steps that the output of `step` can name, which are those that were
 * checked; a text beside them is no route. All steps outside bands if the schema is only
 * known by its name.
 */
export const routable = (
  { steps }: PlanDefinition.PlanDefinition,
  { output, routesBy }: PlanDefinition.StepDefinition
): ReadonlySet<string> => {
  const found = routesBy === undefined ? undefined : routeValues(output, routesBy)
  const literals = new Set(found?._tag === "Literals" ? found.literals : [])
  const isNamed = (name: string) => found?._tag === "Unknown" || literals.has(name)
  return new Set(steps.flatMap(({ name, parallel }) => (!parallel && isNamed(name) ? [name] : [])))
}

/** Its input is text and nothing else: a band, which is text and an object, is the text then. */
export const readsText = ({ input }: PlanDefinition.StepDefinition): boolean => {
  if (input?.json === undefined) return false
  const root = locate(input.json)
  const types = typesOf(resolveRefs(root) ?? root)
  return types !== undefined && types.every((type) => type === "string")
}

const targetFields = { target: Schema.String, message: Schema.String }

/** A payload that does not fit the input schema of the function. */
export class InputInvalid extends Schema.TaggedError<InputInvalid>("effect-emissary/plan/InputInvalid")(
  "InputInvalid",
  targetFields
) {}

/** An answer that does not fit the output schema of the function. */
export class OutputInvalid extends Schema.TaggedError<OutputInvalid>("effect-emissary/plan/OutputInvalid")(
  "OutputInvalid",
  targetFields
) {}
