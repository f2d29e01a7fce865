/**
 * The differences of two JSON Schemas, each with its effect on the accepted values. Conservative: a difference that is not
 * understood is `other`. Where there is no difference, or only `wider` ones, the second schema accepts every value that the
 * first one accepts.
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import {
  allTypes,
  appendToken,
  equalsJson,
  fingerprint,
  getAt,
  isArray,
  isObject,
  type JsonObject,
  own,
  typeBits,
  typeNames
} from "../../payload/internal/values.ts"

/** A part of a schema accepts more values than before, fewer values, or other values. */
export type Relation = "wider" | "narrower" | "other"

export interface Difference {
  /** A JSON Pointer into the schema. */
  readonly path: string
  readonly was: Schema.Json | undefined
  readonly now: Schema.Json | undefined
  readonly relation: Relation
}

type Differences = ReadonlyArray<Difference>

/** A schema, or a part of a schema, or `undefined` if that part is absent. */
type Node = Schema.Json | undefined

/** Keywords whose values are words for people. */
const words = new Set("$comment $schema deprecated description examples readOnly title writeOnly".split(" "))

/** Keywords that hold parts for references. A part counts at the reference. */
const stores = new Set(["$defs", "definitions"])

/** The value of a bound that is absent. A larger value of these accepts more ... */
const upperBounds = new Map(
  ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"].map((name) => [name, Infinity])
)

/** ... and of these fewer. */
const lowerBounds = new Map([
  ...["minimum", "exclusiveMinimum"].map((name) => [name, -Infinity] as const),
  ...["minLength", "minItems", "minProperties"].map((name) => [name, 0] as const)
])

/** Keywords that are constraints of their own: without one a schema accepts more. */
const constraints = new Set(
  "$ref allOf anyOf dependentRequired dependentSchemas format multipleOf not oneOf pattern propertyNames uniqueItems".split(
    " "
  )
)

/** Keywords that hold schemas, and keywords that hold schemas by names, which are compared for equality only. */
const schemas = new Set("additionalItems contains else if items not oneOf prefixItems propertyNames then".split(" "))
const namedSchemas = new Set(["dependencies", "dependentSchemas", "patternProperties"])

/** More than any tool has. A pair beyond is `other`. */
const maxPairs = 20_000

const maxDepth = 200

/** Of each relation. A schema that refers to its parts often would have any number of them. */
const maxDifferences = 16

/** The known differences of a pair. `level` is the level where a comparison began that is still under way. */
interface Known {
  readonly differences: Differences
  readonly level?: number
}

/** A comparison under way. */
interface Walk {
  readonly was: JsonObject
  readonly now: JsonObject
  readonly known: Map<object, Map<object, Known>>
  readonly found: Array<readonly [object, object]>
  readonly count: { pairs: number }
  readonly depth: number
  /** The number of keywords around that need equal parts, because a wider part does not make them wider. */
  readonly level: number
}

/** The differences between two schemas that each are a whole document. */
export const compare = (was: JsonObject, now: JsonObject): Differences => {
  if (equalsJson(was, now)) return []
  const isOld = ({ $schema }: JsonObject) => typeof $schema === "string" && $schema.includes("draft-07")
  if (isOld(was) !== isOld(now)) return under("$schema", other(was["$schema"], now["$schema"]))
  const walk = { was, now, known: new Map(), found: [], count: { pairs: 0 }, depth: 0, level: 0 }
  return compareNodes(walk, was, now)
}

const under = (key: string | number, differences: Differences): Differences =>
  differences.map((one) => ({ ...one, path: appendToken("", key) + one.path }))

const all = (differences: Differences, relation: Relation): boolean =>
  differences.every((one) => one.relation === relation)

const bounded = (differences: Differences): Differences => {
  const counts = { wider: 0, narrower: 0, other: 0 }
  return differences.filter(({ relation }) => (counts[relation] += 1) <= maxDifferences)
}

const withRelation = (was: Node, now: Node, isWider: boolean, isNarrower: boolean): Differences =>
  isWider && isNarrower ? [] : [{ path: "", was, now, relation: isWider ? "wider" : isNarrower ? "narrower" : "other" }]

const other = (was: Node, now: Node): Differences => withRelation(was, now, false, false)

const unlessEqual = (was: Node, now: Node): Differences => (equalsJson(was, now) ? [] : other(was, now))

const compareNodes = (walk: Walk, wasNode: Node, nowNode: Node): Differences => {
  const was = resolve(wasNode, walk.was)
  const now = resolve(nowNode, walk.now)
  if (was === false || now === false) return withRelation(wasNode, nowNode, was === false, now === false)
  if (!isObject(was) || !isObject(now)) return unlessEqual(was, now)
  const before = walk.known.get(was)?.get(now)
  walk.count.pairs += 1
  const isBeyond = walk.count.pairs > maxPairs || walk.depth > maxDepth
  if (isBeyond || (before?.level !== undefined && before.level !== walk.level)) return other(wasNode, nowNode)
  if (before !== undefined) return before.differences
  // A pair inside itself has no difference, because a value ends. Results that rely on this are forgotten if the pair has one.
  const mark = walk.found.length
  remember(walk, was, now, { differences: [], level: walk.level })
  const differences = compareObjects({ ...walk, depth: walk.depth + 1 }, was, now)
  const inside = differences.length > 0 ? walk.found.splice(mark) : []
  for (const [left, right] of inside) walk.known.get(left)?.delete(right)
  remember(walk, was, now, { differences })
  return differences
}

const remember = ({ found, known }: Walk, was: object, now: object, one: Known): void => {
  const pairs = known.get(was) ?? new Map<object, Known>()
  known.set(was, pairs.set(now, one))
  found.push([was, now])
}

const compareObjects = (walk: Walk, was: JsonObject, now: JsonObject): Differences => {
  const [wasAny, nowAny] = [onlyAnyOf(was), onlyAnyOf(now)]
  if ((wasAny === undefined) !== (nowAny === undefined)) return compareAny(walk, wasAny ?? [was], nowAny ?? [now])
  const names = new Set([...Object.keys(was), ...Object.keys(now)])
  const found = Array.from(names).flatMap((name) =>
    words.has(name) || stores.has(name) ? [] : under(name, compareKeyword(walk, name, was, now))
  )
  return bounded(found)
}

const compareKeyword = (walk: Walk, name: string, wasIn: JsonObject, nowIn: JsonObject): Differences => {
  const [was, now] = [own(wasIn, name), own(nowIn, name)]
  if (name === "properties") return compareProperties(walk, wasIn, nowIn)
  if (name === "required") return compareRequired(was, now)
  if (name === "type") return compareTypes(was, now)
  if (name === "enum" || (name === "const" && !Object.hasOwn(wasIn, "enum") && !Object.hasOwn(nowIn, "enum"))) {
    return compareValues(valuesOf(wasIn), valuesOf(nowIn))
  }
  if (name === "const") return []
  const [lowest, highest] = [lowerBounds.get(name), upperBounds.get(name)]
  if (lowest !== undefined) return compareBounds(was, now, lowest, -1)
  if (highest !== undefined) return compareBounds(was, now, highest, 1)
  const isLists = isArray(was) && isArray(now)
  if (name === "additionalProperties" || (name === "items" && !isArray(was) && !isArray(now))) {
    return compareNodes(walk, was, now)
  }
  if (constraints.has(name) && (was === undefined || now === undefined)) {
    return withRelation(was, now, now === undefined, was === undefined)
  }
  if (name === "$ref") return compareNodes(walk, { $ref: was ?? null }, { $ref: now ?? null })
  if (name === "anyOf" && isLists) return compareAny(walk, was, now)
  if (name === "allOf" && isLists) return compareAll(walk, was, now)
  return isSame(walk, name, was, now) ? [] : other(was, now)
}

const comparePairs = (walk: Walk, was: ReadonlyArray<Schema.Json>, now: ReadonlyArray<Schema.Json>): Differences =>
  was.flatMap((node, index) => under(index, compareNodes(walk, node, now[index])))

/** Alternatives: each one is among the others, or they differ in their order. */
const compareAny = (walk: Walk, was: ReadonlyArray<Schema.Json>, now: ReadonlyArray<Schema.Json>): Differences => {
  const pairs = was.length === now.length ? comparePairs(walk, was, now) : undefined
  if (pairs !== undefined && (all(pairs, "wider") || all(pairs, "narrower"))) return pairs
  const is = (left: Schema.Json, right: Schema.Json, relation: Relation) =>
    all(compareNodes(walk, left, right), relation)
  const isWider = was.every((one) => now.some((other) => is(one, other, "wider")))
  const isNarrower = now.every((one) => was.some((other) => is(other, one, "narrower")))
  return pairs !== undefined && !isWider && !isNarrower ? pairs : withRelation([...was], [...now], isWider, isNarrower)
}

/** Constraints that hold together, in their order: the last ones are new or gone. */
const compareAll = (walk: Walk, was: ReadonlyArray<Schema.Json>, now: ReadonlyArray<Schema.Json>): Differences => {
  const shared = Math.min(was.length, now.length)
  return [
    ...comparePairs(walk, was.slice(0, shared), now),
    ...withRelation([...was], [...now], was.length >= now.length, was.length <= now.length)
  ]
}

/** A name that is in one of them only has the schema of all other names there. */
const compareProperties = (walk: Walk, was: JsonObject, now: JsonObject): Differences => {
  const [wasIn, nowIn] = [own(was, "properties") ?? empty, own(now, "properties") ?? empty]
  if (!isObject(wasIn) || !isObject(nowIn)) return unlessEqual(wasIn, nowIn)
  const isKnown = !Object.hasOwn(was, "patternProperties") && !Object.hasOwn(now, "patternProperties")
  return Array.from(new Set([...Object.keys(wasIn), ...Object.keys(nowIn)])).flatMap((name) => {
    const [left, right] = [own(wasIn, name), own(nowIn, name)]
    if (left !== undefined && right !== undefined) return under(name, compareNodes(walk, left, right))
    const rest = (node: JsonObject) => own(node, "additionalProperties")
    const found = compareNodes(walk, left ?? rest(was), right ?? rest(now))
    return under(name, withRelation(left, right, isKnown && all(found, "wider"), isKnown && all(found, "narrower")))
  })
}

/** True if two values of a keyword accept the same. */
const isSame = (walk: Walk, keyword: string, was: Node, now: Node): boolean => {
  const inside = { ...walk, level: walk.level + 1 }
  if (namedSchemas.has(keyword) && isObject(was) && isObject(now)) {
    const names = Object.keys(was)
    return (
      names.length === Object.keys(now).length &&
      names.every((name) => Object.hasOwn(now, name) && compareNodes(inside, was[name], now[name]).length === 0)
    )
  }
  if (!schemas.has(keyword) || was === undefined || now === undefined) return equalsJson(was, now)
  if (!isArray(was) || !isArray(now)) return compareNodes(inside, was, now).length === 0
  return was.length === now.length && comparePairs(inside, was, now).length === 0
}

/** A schema behind references. `true` and an absent schema are the same as an empty schema. */
const resolve = (node: Node, document: JsonObject): Node => {
  let found = node
  for (let hops = 0; hops < maxDepth && isObject(found); hops += 1) {
    const ref = own(found, "$ref")
    if (typeof ref !== "string" || !ref.startsWith("#") || !isOnly("$ref", found)) break
    const pointer = Result.getOrUndefined(Result.try(() => decodeURIComponent(ref.slice(1))))
    const target = pointer === undefined ? undefined : getAt(document, pointer)
    if (target === undefined) break
    found = target
  }
  return found === undefined || found === true ? empty : found
}

const empty: JsonObject = {}

const isOnly = (keyword: string, node: JsonObject): boolean =>
  Object.keys(node).every((key) => key === keyword || words.has(key) || stores.has(key))

/** The alternatives of a schema that has nothing else. */
const onlyAnyOf = (node: JsonObject): ReadonlyArray<Schema.Json> | undefined => {
  const anyOf = own(node, "anyOf")
  return isArray(anyOf) && isOnly("anyOf", node) ? anyOf : undefined
}

const compareRequired = (was: Node = [], now: Node = []): Differences => {
  if (!isArray(was) || !isArray(now)) return unlessEqual(was, now)
  const [before, after] = [new Set(was), new Set(now)]
  return [
    ...was.flatMap((name) => (after.has(name) ? [] : withRelation(name, undefined, true, false))),
    ...now.flatMap((name) => (before.has(name) ? [] : withRelation(undefined, name, false, true)))
  ]
}

/** The values that `const` and `enum` leave. */
const valuesOf = (node: JsonObject): ReadonlyArray<Schema.Json> | undefined => {
  const constant = own(node, "const")
  const values = own(node, "enum")
  if (values !== undefined && !isArray(values)) return undefined
  if (constant === undefined) return values
  return values === undefined ? [constant] : values.filter((value) => equalsJson(value, constant))
}

type Values = ReadonlyArray<Schema.Json> | undefined

const compareValues = (was: Values, now: Values): Differences => {
  const left = was && new Set(was.map(fingerprint))
  const right = now && new Set(now.map(fingerprint))
  const isWithin = (some: typeof left, others: typeof left) =>
    others === undefined || (some !== undefined && Array.from(some).every((value) => others.has(value)))
  return withRelation(was && [...was], now && [...now], isWithin(left, right), isWithin(right, left))
}

/** `sign` is 1 where the larger bound is the wider one. */
const compareBounds = (was: Node, now: Node, absent: number, sign: 1 | -1): Differences => {
  const [left, right] = [was ?? absent, now ?? absent]
  if (typeof left !== "number" || typeof right !== "number") return unlessEqual(was, now)
  return withRelation(was, now, left * sign <= right * sign, left * sign >= right * sign)
}

const bitsOf = (types: Node): number | undefined => {
  if (types === undefined) return allTypes
  let bits = 0
  for (const type of isArray(types) ? types : [types]) {
    const name = typeNames.find((one) => one === type)
    if (name === undefined) return undefined
    bits |= typeBits[name]
  }
  return bits
}

const compareTypes = (was: Node, now: Node): Differences => {
  const [left, right] = [bitsOf(was), bitsOf(now)]
  return left === undefined || right === undefined
    ? unlessEqual(was, now)
    : withRelation(was, now, (left & right) === left, (left & right) === right)
}
