/**
 * Schemas of steps: whether one step's output fits the next one's input, and which fields can choose a route.
 */

import { memoize } from "effect/Function"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as base from "../../payload/internal/base.ts"
import * as jsonValues from "../../payload/internal/values.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"

/** The fields that `routesBy` may name: the fields of the output, when its type is known. */
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
  /** The message that the compiler shows. */
  readonly "effect-emissary: mistake": Message
}

/** The values that a JSON Schema allows, as far as checks follow it: its references, unions and intersections resolved. */
export interface Shape {
  /** The types of its values, `integer` beside `number`; undefined for any. */
  readonly types: ReadonlySet<string> | undefined
  /** Values that it lists: texts, numbers, booleans and null. */
  readonly literals: ReadonlySet<Schema.Json>
  /** True if it allows no other values. */
  readonly isListed: boolean
  /** The declared fields, without the fields inside of them. */
  readonly fields: ReadonlyMap<string, Shape>
  readonly required: ReadonlySet<string>
  /** True for an object that has no other fields. */
  readonly isClosed: boolean
  readonly hasDefault: boolean
}

/** The shape of a schema that is not known. */
export const anything: Shape = {
  types: undefined,
  literals: new Set(),
  isListed: false,
  fields: new Map(),
  required: new Set(),
  isClosed: false,
  hasDefault: false
}

const nothing: Shape = { ...anything, types: new Set(), isListed: true }

export const anyText: Shape = { ...anything, types: new Set(["string"]) }

export const anyObject: Shape = { ...anything, types: new Set(["object"]) }

const canBe = ({ types }: Shape, type: string): boolean => types?.has(type) ?? true

const isOnly = ({ types }: Shape, type: string): boolean => types?.size === 1 && types.has(type)

/** True if a value of the shape can be any text. */
export const takesText = (shape: Shape): boolean => canBe(shape, "string") && !shape.isListed

const isPlain = (json: Schema.Json) => typeof json !== "object" || json === null

/** All of them, in the order in which they come first. */
const unite = <A>(sets: ReadonlyArray<Iterable<A>>): ReadonlySet<A> => {
  const all = new Set<A>()
  for (const set of sets) for (const value of set) all.add(value)
  return all
}

/** The values that are in each set, in the order of the first set. */
const keepCommon = <A>([first = new Set(), ...others]: ReadonlyArray<ReadonlySet<A>>): ReadonlySet<A> =>
  others.reduce((kept, other) => new Set(Array.from(kept).filter((value) => other.has(value))), first)

const haveCommon = <A>(one: ReadonlySet<A>, other: ReadonlySet<A>): boolean =>
  one.size > other.size ? haveCommon(other, one) : Array.from(one).some((value) => other.has(value))

/** The shapes of each field, from all shapes that declare the field. */
const groupFields = (shapes: ReadonlyArray<Shape>): ReadonlyMap<string, ReadonlyArray<Shape>> => {
  const groups = new Map<string, Array<Shape>>()
  for (const { fields } of shapes) {
    for (const [key, field] of fields) {
      const group = groups.get(key)
      if (group === undefined) groups.set(key, [field])
      else group.push(field)
    }
  }
  return groups
}

/** The values that all of them allow. */
const allOf = (shapes: ReadonlyArray<Shape>): Shape => {
  const [first = anything] = shapes
  if (shapes.length < 2) return first
  const named = shapes.map(({ types }) => types).filter((types) => types !== undefined)
  const types = named.length === 0 ? undefined : keepCommon(named)
  const lists = shapes.filter(({ isListed }) => isListed)
  const counts = new Map<Schema.Json, number>()
  for (const { literals } of lists) for (const value of literals) counts.set(value, (counts.get(value) ?? 0) + 1)
  const literals = Array.from(unite(shapes.map(({ literals }) => literals))).filter(
    (value) => (counts.get(value) ?? 0) === lists.length && (types?.has(typeOf(value)) ?? true)
  )
  return {
    types,
    literals: new Set(literals),
    isListed: lists.length > 0,
    fields: new Map(Array.from(groupFields(shapes), ([key, fields]) => [key, allOf(fields)])),
    required: unite(shapes.map(({ required }) => required)),
    isClosed: shapes.some(({ isClosed }) => isClosed),
    hasDefault: shapes.some(({ hasDefault }) => hasDefault)
  }
}

/** The values that at least one of them allows. */
const anyOf = (shapes: ReadonlyArray<Shape>): Shape => {
  const named = shapes.map(({ types }) => types).filter((types) => types !== undefined)
  const found = shapes.filter((shape) => canBe(shape, "object"))
  const objects = found.length === 0 ? shapes.slice(-1) : found
  const fieldOf = (fields: ReadonlyArray<Shape>) =>
    anyOf(fields.length < objects.length ? [...fields, anything] : fields)
  return {
    types: named.length < shapes.length ? undefined : unite(named),
    literals: unite(shapes.map(({ literals }) => literals)),
    isListed: shapes.every(({ isListed }) => isListed),
    hasDefault: shapes.some(({ hasDefault }) => hasDefault),
    fields: new Map(Array.from(groupFields(objects), ([key, fields]) => [key, fieldOf(fields)])),
    required: keepCommon(objects.map(({ required }) => required)),
    isClosed: objects.every(({ isClosed }) => isClosed)
  }
}

/** The depth to which references, unions and intersections are followed. A deeper schema can be anything. */
const maxDepth = 16

const listOf = (json: Schema.Json | undefined): ReadonlyArray<Schema.Json> => (jsonValues.isArray(json) ? json : [])

/** Longer lists of values are not compared. */
const maxListed = 1000

/** A whole number beyond 2^53 is a `number` alone. */
const typeOf = (value: Schema.Json) => (Number.isSafeInteger(value) ? "integer" : jsonValues.kindOf(value))

/** The shape by the keywords of a schema itself, without keywords that hold other schemas. */
const ownShape = (schema: jsonValues.JsonObject): Shape => {
  const type = jsonValues.own(schema, "type")
  const names = typeof type === "string" ? [type] : jsonValues.isArray(type) ? type.map(String) : undefined
  const declared = names && new Set(names.flatMap((name) => (name === "number" ? ["number", "integer"] : [name])))
  const constant = jsonValues.own(schema, "const")
  const listed = constant === undefined ? jsonValues.own(schema, "enum") : [constant]
  const all = listOf(listed)
  const values = declared === undefined ? all : all.filter((value) => declared.has(typeOf(value)))
  return {
    types: jsonValues.isArray(listed) ? new Set(values.map(typeOf)) : declared,
    literals: new Set(values.length > maxListed ? [] : values.filter(isPlain)),
    isListed: jsonValues.isArray(listed) && values.length <= maxListed && values.every(isPlain),
    fields: new Map(),
    required: new Set(listOf(jsonValues.own(schema, "required")).map(String)),
    isClosed:
      jsonValues.own(schema, "additionalProperties") === false &&
      jsonValues.own(schema, "patternProperties") === undefined,
    hasDefault: jsonValues.own(schema, "default") !== undefined
  }
}

/** The most fields and values that the schemas inside of a document are merged from. More can be anything. */
const maxMerged = 50_000

const sizeOf = ({ fields, literals, required }: Shape): number => fields.size + literals.size + required.size

const isAnything = (shape: Shape): boolean =>
  shape.types === undefined && sizeOf(shape) === 0 && !shape.isListed && !shape.isClosed && !shape.hasDefault

/** Reads schemas inside of a document, each once. */
const makeReader = (root: jsonValues.JsonObject, readField: (schema: Schema.Json) => Shape) => {
  const known = new Map<jsonValues.JsonObject, Shape>()
  let left = maxMerged
  const merge = (all: (shapes: ReadonlyArray<Shape>) => Shape, parts: ReadonlyArray<Shape>): Shape => {
    const [first = nothing, ...others] = new Set(parts)
    if (others.length === 0) return first
    left -= others.reduce((sum, shape) => sum + sizeOf(shape), sizeOf(first))
    return left < 0 ? anything : all([first, ...others])
  }
  const read = (schema: Schema.Json | undefined, depth = maxDepth): Shape => {
    if (schema === false) return nothing
    if (!jsonValues.isObject(schema) || depth === 0) return anything
    const before = known.get(schema)
    if (before !== undefined) return before
    // A schema that holds itself can be anything where it does.
    known.set(schema, anything)
    const inner = (json: Schema.Json | undefined) => read(json, depth - 1)
    const ref = jsonValues.own(schema, "$ref")
    const union = jsonValues.own(schema, "anyOf") ?? jsonValues.own(schema, "oneOf")
    const properties = jsonValues.own(schema, "properties")
    const fields = Object.entries(jsonValues.isObject(properties) ? properties : {})
    const own = { ...ownShape(schema), fields: new Map(fields.map(([key, field]) => [key, readField(field)])) }
    const parts = [
      own,
      typeof ref === "string" && ref.startsWith("#") ? inner(jsonValues.getAt(root, ref.slice(1))) : anything,
      jsonValues.isArray(union) ? merge(anyOf, union.map(inner)) : anything,
      ...listOf(jsonValues.own(schema, "allOf")).map(inner)
    ].filter((part) => !isAnything(part))
    const shape = parts.length === 0 ? anything : merge(allOf, parts)
    known.set(schema, shape)
    return shape
  }
  return (schema: Schema.Json) => read(schema)
}

export const shapeOf = memoize((json: jsonValues.JsonObject): Shape => {
  const readField = makeReader(json, () => anything)
  return makeReader(json, readField)(json)
})

/**
 * The reason why no value of `given` can fit `taken`, if that is certain: the types and listed values of both,
 * and of their fields. Where that is not enough to know, the step fails that reads the value.
 */
export const findConflict = (given: Shape, taken: Shape): string | undefined => {
  const found = valueConflict(given, taken, "")
  if (found !== undefined || !(isOnly(given, "object") || isOnly(taken, "object"))) return found
  for (const key of unite([taken.required, given.required])) {
    const inField = fieldConflict(given, taken, key)
    if (inField !== undefined) return inField
  }
  return undefined
}

/** Types that have no value in common, or lists of values that have none. */
const valueConflict = (given: Shape, taken: Shape, place: string): string | undefined => {
  const canHaveType = given.types === undefined || taken.types === undefined || haveCommon(given.types, taken.types)
  const canHaveValue = !given.isListed || !taken.isListed || haveCommon(given.literals, taken.literals)
  return canHaveType && canHaveValue ? undefined : `${place}is ${showShape(given)}, and ${showShape(taken)} is taken`
}

/** A field that is required and cannot be there, or that can never have a value which fits. */
const fieldConflict = (given: Shape, taken: Shape, key: string): string | undefined => {
  const gives = given.fields.get(key)
  const takes = taken.fields.get(key)
  const isRequired = taken.required.has(key)
  if (gives === undefined) {
    // A default fills in a field that is missing.
    const isMissing = isRequired && given.isClosed && takes?.hasDefault !== true
    return isMissing
      ? `${base.quote(key)} is required, and not among the fields given: ${fieldNames(given)}`
      : undefined
  }
  // Null counts as absent where the field is not required.
  if (takes === undefined || (!isRequired && canBe(gives, "null"))) return undefined
  return valueConflict(gives, takes, `${base.quote(key)} `)
}

const fieldNames = ({ fields }: Shape): string =>
  fields.size === 0 ? "none" : Array.from(fields.keys()).slice(0, 20).map(base.quote).join(", ")

/** The listed values of a shape, or else its types, for messages. */
const showShape = ({ isListed, literals, types = new Set() }: Shape): string => {
  const shown = isListed
    ? Array.from(literals)
        .slice(0, 5)
        .map((value) => base.quote(String(value)))
    : Array.from(types).filter((type) => type !== "integer" || !types.has("number"))
  return shown.length === 0 ? "nothing" : shown.slice(0, 5).join(" or ")
}

/** The texts that a field of an output can be. */
export interface Discriminant {
  readonly literals: ReadonlyArray<string>
  /** True if the field is always there, and always one of them. */
  readonly exhaustive: boolean
  /** The output itself. */
  readonly shape: Shape
}

/** Undefined for an output that is not known, or only by its name. */
export const readDiscriminant = (
  output: PlanDefinition.SchemaRef | undefined,
  field: string
): Discriminant | undefined => {
  if (output?.json === undefined) return undefined
  const shape = shapeOf(output.json)
  const { isListed, literals: values } = shape.fields.get(field) ?? nothing
  const literals = Array.from(values).filter((value) => typeof value === "string")
  const isName = isListed && literals.length > 0 && literals.length === values.size
  return { literals, exhaustive: isName && isOnly(shape, "object") && shape.required.has(field), shape }
}

/**
 * The steps that the output of `step` can name; only these were checked, and a text beside them is no route. All steps
 * outside parallel groups if the schema is only known by its name.
 */
export const routable = (
  { steps }: PlanDefinition.PlanDefinition,
  { output, routesBy }: PlanDefinition.StepDefinition
): ReadonlySet<string> => {
  if (routesBy === undefined) return new Set()
  const found = readDiscriminant(output, routesBy)
  const names = new Set(steps.flatMap(({ name, parallel }) => (parallel ? [] : [name])))
  return found === undefined ? names : new Set(found.literals.filter((name) => names.has(name)))
}

/** Its input is text and nothing else: a parallel group, which is text and an object, is the text then. */
export const readsText = ({ input }: PlanDefinition.StepDefinition): boolean =>
  input?.json !== undefined && isOnly(shapeOf(input.json), "string")
