/**
 * The differences of two JSON Schemas, each with what it does to the accepted values. Conservative: a difference that is not
 * understood is `other`, and of a pair without differences, or with `wider` ones only, the second schema accepts every value
 * that the first one does.
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as plainJson from "./plainJson.ts"

/** The values that a part accepts now, against those that it accepted: more, fewer, or any others. */
export type Relation = "wider" | "narrower" | "other"

export interface Difference {
  /** A JSON Pointer into the schema. */
  readonly path: string
  readonly was: Schema.Json | undefined
  readonly now: Schema.Json | undefined
  readonly relation: Relation
}

type Differences = ReadonlyArray<Difference>

/** A schema, or a part of one that may be absent. */
type Node = Schema.Json | undefined

/** Keywords whose values are words for people. */
const words = new Set("$comment $schema deprecated description examples readOnly title writeOnly".split(" "))

/** Keywords that hold parts for references. A part counts at the reference. */
const stores = new Set(["$defs", "definitions"])

const upperBounds = new Set(["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"])

const lowerBounds: ReadonlyMap<string, number> = new Map([
  ["minimum", -Infinity],
  ["exclusiveMinimum", -Infinity],
  ["minLength", 0],
  ["minItems", 0],
  ["minProperties", 0]
])

/** Keywords that are constraints of their own: without one a schema accepts more. */
const constraints = new Set(
  "$ref allOf anyOf dependentRequired dependentSchemas format multipleOf not oneOf pattern propertyNames".split(" ")
)

/** The kind of a value: a JSON Schema, a map of names to JSON Schemas, or plain data. */
type Role = "schema" | "names" | "data"

const roles: ReadonlyMap<string, Role> = new Map([
  ...["dependencies", "dependentSchemas", "patternProperties"].map((name) => [name, "names"] as const),
  ...["contains", "else", "if", "oneOf", "propertyNames", "then"].map((name) => [name, "schema"] as const)
])

/** More than any tool has. What is beyond is `other`. */
const maxPairs = 20_000

const maxDepth = 200

/** Of each relation. A schema that refers to its parts often would have any number of them. */
const maxDifferences = 16

/** The differences between two schemas that each are a whole document. */
export const compare = (was: plainJson.JsonObject, now: plainJson.JsonObject): Differences => {
  if (plainJson.equalsJson(was, now)) return []
  const dialects = [was, now].map(({ $schema }) => typeof $schema === "string" && $schema.includes("draft-07"))
  return dialects[0] === dialects[1]
    ? new Comparison(was, now).compare(was, now, 0)
    : [{ path: "/$schema", was: was["$schema"], now: now["$schema"], relation: "other" }]
}

const under = (key: string | number, differences: Differences): Differences =>
  differences.map((one) => ({ ...one, path: plainJson.appendToken("", key) + one.path }))

const all = (differences: Differences, relation: Relation): boolean =>
  differences.every((one) => one.relation === relation)

const bounded = (differences: Differences): Differences => {
  if (differences.length <= maxDifferences) return differences
  const counts = { wider: 0, narrower: 0, other: 0 }
  return differences.filter(({ relation }) => (counts[relation] += 1) <= maxDifferences)
}

const withRelation = (was: Node, now: Node, isWider: boolean, isNarrower: boolean): Differences => {
  if (isWider && isNarrower) return []
  return [{ path: "", was, now, relation: isWider ? "wider" : isNarrower ? "narrower" : "other" }]
}

const asOther = (differences: Differences): Differences => differences.map((one) => ({ ...one, relation: "other" }))

const inverse = { wider: "narrower", narrower: "wider", other: "other" } as const

/** The differences of a pair. `level` is that at which the comparison of a pair that is under way began. */
interface Known {
  readonly differences: Differences
  readonly level?: number
}

/** A class, because its methods call each other with the documents and what is known of their parts. */
class Comparison {
  private readonly was: plainJson.JsonObject
  private readonly now: plainJson.JsonObject
  private readonly known = new Map<object, Map<object, Known>>()
  private readonly found: Array<readonly [object, object]> = []
  private pairs = 0
  /** The number of keywords around that need more than a wider or narrower part: `not`, and those that have to be the same. */
  private level = 0

  constructor(was: plainJson.JsonObject, now: plainJson.JsonObject) {
    this.was = was
    this.now = now
  }

  compare(wasNode: Node, nowNode: Node, depth: number): Differences {
    const was = resolve(wasNode, this.was)
    const now = resolve(nowNode, this.now)
    if (was === false || now === false) return withRelation(wasNode, nowNode, was === false, now === false)
    if (!plainJson.isObject(was) || !plainJson.isObject(now)) return compareData(was, now)
    const before = this.known.get(was)?.get(now)
    this.pairs += 1
    const isBeyond = this.pairs > maxPairs || depth > maxDepth
    if (isBeyond || (before?.level !== undefined && before.level !== this.level)) {
      return withRelation(wasNode, nowNode, false, false)
    }
    if (before !== undefined) return before.differences
    // A pair inside itself is the same, because a value ends. What was found with that is forgotten if it is not.
    const mark = this.found.length
    this.remember(was, now, { differences: [], level: this.level })
    const differences = bounded(this.compareObjects(was, now, depth))
    const inside = differences.length > 0 ? this.found.splice(mark) : []
    for (const [left, right] of inside) this.known.get(left)?.delete(right)
    this.remember(was, now, { differences })
    return differences
  }

  private remember(was: object, now: object, one: Known): void {
    const known = this.known.get(was) ?? new Map<object, Known>()
    this.known.set(was, known.set(now, one))
    this.found.push([was, now])
  }

  private within<A>(f: () => A): A {
    this.level += 1
    const found = f()
    this.level -= 1
    return found
  }

  private compareObjects(was: plainJson.JsonObject, now: plainJson.JsonObject, depth: number): Differences {
    const [wasAny, nowAny] = [onlyAnyOf(was), onlyAnyOf(now)]
    if ((wasAny === undefined) !== (nowAny === undefined)) {
      return this.compareAny(wasAny ?? [was], nowAny ?? [now], depth)
    }
    const names = new Set([...Object.keys(was), ...Object.keys(now)])
    return Array.from(names).flatMap((name) =>
      words.has(name) || stores.has(name) ? [] : this.compareKeyword(name, was, now, depth)
    )
  }

  private compareKeyword(
    name: string,
    wasIn: plainJson.JsonObject,
    nowIn: plainJson.JsonObject,
    depth: number
  ): Differences {
    switch (name) {
      case "properties":
        return under(name, this.compareProperties(wasIn, nowIn, depth))
      case "required":
        return under(name, compareRequired(plainJson.own(wasIn, name), plainJson.own(nowIn, name)))
      case "const":
        return Object.hasOwn(wasIn, "enum") || Object.hasOwn(nowIn, "enum")
          ? []
          : under(name, compareValues(wasIn, nowIn))
      case "enum":
        return under(name, compareValues(wasIn, nowIn))
      default:
        return under(name, this.compareMember(name, plainJson.own(wasIn, name), plainJson.own(nowIn, name), depth))
    }
  }

  private compareMember(name: string, was: Node, now: Node, depth: number): Differences {
    const lowest = lowerBounds.get(name)
    if (lowest !== undefined) return compareBounds(was, now, lowest, -1)
    if (upperBounds.has(name)) return compareBounds(was, now, Infinity, 1)
    if (name === "type") return compareTypes(was, now)
    if (name === "uniqueItems") return withRelation(was, now, was === now || now !== true, was === now || was !== true)
    if (name === "additionalProperties" || name === "additionalItems") return this.compare(was, now, depth + 1)
    if (name === "items" && !plainJson.isArray(was) && !plainJson.isArray(now)) return this.compare(was, now, depth + 1)
    if (constraints.has(name) && (was === undefined || now === undefined)) {
      return withRelation(was, now, now === undefined, was === undefined)
    }
    return this.compareConstraint(name, was, now, depth)
  }

  /** Two values of one keyword, which both are there or which mean something else where they are not. */
  private compareConstraint(name: string, was: Node, now: Node, depth: number): Differences {
    if (name === "not") {
      const inside = this.within(() => this.compare(was, now, depth + 1))
      return inside.map((one) => ({ ...one, relation: inverse[one.relation] }))
    }
    if (name === "$ref") return this.compare({ $ref: was ?? null }, { $ref: now ?? null }, depth + 1)
    const isLists = plainJson.isArray(was) && plainJson.isArray(now)
    if (isLists && name === "anyOf") return this.pinpoint(was, now, this.compareAny(was, now, depth), depth)
    if (isLists && name === "allOf") return this.pinpoint(was, now, this.compareAll(was, now, depth), depth)
    if (isLists && was.length === now.length && (name === "items" || name === "prefixItems")) {
      return this.compareEach(was, now, depth)
    }
    return this.within(() => this.compareSame(was, now, roles.get(name) ?? "data", depth))
  }

  private compareEach(was: ReadonlyArray<Schema.Json>, now: ReadonlyArray<Schema.Json>, depth: number): Differences {
    return was.flatMap((node, index) => under(index, this.compare(node, now[index], depth + 1)))
  }

  /** Alternatives: each one is among the others. */
  private compareAny(was: ReadonlyArray<Schema.Json>, now: ReadonlyArray<Schema.Json>, depth: number): Differences {
    const is = (left: Schema.Json, right: Schema.Json, relation: Relation) =>
      all(this.compare(left, right, depth + 1), relation)
    const isWider = was.every((one) => now.some((other) => is(one, other, "wider")))
    const isNarrower = now.every((one) => was.some((other) => is(other, one, "narrower")))
    return withRelation([...was], [...now], isWider, isNarrower)
  }

  /** Constraints that hold together: each one follows from one of the others. */
  private compareAll(was: ReadonlyArray<Schema.Json>, now: ReadonlyArray<Schema.Json>, depth: number): Differences {
    const is = (left: Schema.Json, right: Schema.Json, relation: Relation) =>
      all(this.compare(left, right, depth + 1), relation)
    const isWider = now.every((one) => was.some((other) => is(other, one, "wider")))
    const isNarrower = was.every((one) => now.some((other) => is(one, other, "narrower")))
    return withRelation([...was], [...now], isWider, isNarrower)
  }

  /** The differences of the members in place of the one of their lists, where they come to the same. */
  private pinpoint(
    was: ReadonlyArray<Schema.Json>,
    now: ReadonlyArray<Schema.Json>,
    whole: Differences,
    depth: number
  ): Differences {
    const [difference] = whole
    if (difference === undefined || was.length !== now.length) return whole
    const each = this.compareEach(was, now, depth)
    const { relation } = difference
    if (relation !== "other") return each.length > 0 && all(each, relation) ? each : whole
    return all(each, "wider") || all(each, "narrower") ? whole : each
  }

  /** A name that is in one of them only has the schema of all other names there. */
  private compareProperties(was: plainJson.JsonObject, now: plainJson.JsonObject, depth: number): Differences {
    const [wasIn, nowIn] = [namesOf(was), namesOf(now)]
    if (wasIn === undefined || nowIn === undefined) {
      return this.compareSame(plainJson.own(was, "properties"), plainJson.own(now, "properties"), "data", depth)
    }
    const hasPatterns = Object.hasOwn(was, "patternProperties") || Object.hasOwn(now, "patternProperties")
    return Array.from(new Set([...Object.keys(wasIn), ...Object.keys(nowIn)])).flatMap((name) => {
      const [left, right] = [plainJson.own(wasIn, name), plainJson.own(nowIn, name)]
      if (left !== undefined && right !== undefined) return under(name, this.compare(left, right, depth + 1))
      const differences = this.compare(left ?? restOf(was), right ?? restOf(now), depth + 1)
      if (differences.length === 0 && !hasPatterns) return []
      const isKnown = !hasPatterns
      const [isWider, isNarrower] = [all(differences, "wider"), all(differences, "narrower")]
      return under(name, withRelation(left, right, isKnown && isWider, isKnown && isNarrower))
    })
  }

  /** Everything but words is the same, or cannot be compared. */
  private compareSame(was: Node, now: Node, role: Role, depth: number): Differences {
    if (was === undefined || now === undefined || role === "data") return asOther(compareData(was, now))
    if (plainJson.isArray(was) || plainJson.isArray(now)) {
      return plainJson.isArray(was) && plainJson.isArray(now) && was.length === now.length
        ? asOther(this.compareEach(was, now, depth))
        : asOther(compareData(was, now))
    }
    if (role === "schema" || !plainJson.isObject(was) || !plainJson.isObject(now)) {
      return asOther(this.compare(was, now, depth + 1))
    }
    return Array.from(new Set([...Object.keys(was), ...Object.keys(now)])).flatMap((name) =>
      under(name, this.compareSame(plainJson.own(was, name), plainJson.own(now, name), "schema", depth))
    )
  }
}

/** A schema behind references. `true`, and one that is absent, is the same as an empty one. */
const resolve = (node: Node, document: plainJson.JsonObject): Node => {
  let found = node
  for (let hops = 0; hops < maxDepth && plainJson.isObject(found); hops += 1) {
    const ref = plainJson.own(found, "$ref")
    const isAlone = Object.keys(found).every((key) => key === "$ref" || words.has(key) || stores.has(key))
    if (typeof ref !== "string" || !ref.startsWith("#") || !isAlone) break
    const pointer = Result.getOrUndefined(Result.try(() => decodeURIComponent(ref.slice(1))))
    const target = pointer === undefined ? undefined : plainJson.getAt(document, pointer)
    if (target === undefined) break
    found = target
  }
  return found === undefined || found === true ? empty : found
}

const empty: plainJson.JsonObject = {}

/** The alternatives of a schema that has nothing else. */
const onlyAnyOf = (node: plainJson.JsonObject): ReadonlyArray<Schema.Json> | undefined => {
  const anyOf = plainJson.own(node, "anyOf")
  return plainJson.isArray(anyOf) &&
    Object.keys(node).every((key) => key === "anyOf" || words.has(key) || stores.has(key))
    ? anyOf
    : undefined
}

/** The named properties of a schema, unless they are malformed. */
const namesOf = (node: plainJson.JsonObject): plainJson.JsonObject | undefined => {
  const properties = plainJson.own(node, "properties") ?? empty
  return plainJson.isObject(properties) ? properties : undefined
}

const restOf = (node: plainJson.JsonObject): Node => plainJson.own(node, "additionalProperties")

const isNames = (value: Node): value is ReadonlyArray<string> =>
  plainJson.isArray(value) && value.every((one) => typeof one === "string")

const compareRequired = (was: Node = [], now: Node = []): Differences => {
  if (!isNames(was) || !isNames(now)) return asOther(compareData(was, now))
  const [before, after] = [new Set(was), new Set(now)]
  return [
    ...was.flatMap((name) => (after.has(name) ? [] : withRelation(name, undefined, true, false))),
    ...now.flatMap((name) => (before.has(name) ? [] : withRelation(undefined, name, false, true)))
  ]
}

/** The values that `const` and `enum` leave. */
const valuesOf = (node: plainJson.JsonObject): ReadonlyArray<Schema.Json> | undefined => {
  const constant = plainJson.own(node, "const")
  const values = plainJson.own(node, "enum")
  if (values !== undefined && !plainJson.isArray(values)) return undefined
  if (constant === undefined) return values
  return values === undefined ? [constant] : values.filter((value) => plainJson.equalsJson(value, constant))
}

const compareValues = (wasIn: plainJson.JsonObject, nowIn: plainJson.JsonObject): Differences => {
  const [was, now] = [valuesOf(wasIn), valuesOf(nowIn)]
  if (was === undefined || now === undefined)
    return withRelation(listed(was), listed(now), now === undefined, was === undefined)
  const among = (some: ReadonlyArray<Schema.Json>, others: ReadonlyArray<Schema.Json>) => {
    const known = new Set(others)
    const isKnown = (value: Schema.Json) =>
      known.has(value) || (isContainer(value) && others.some((other) => plainJson.equalsJson(value, other)))
    return some.every(isKnown)
  }
  const whole = withRelation(listed(was), listed(now), among(was, now), among(now, was))
  if (whole[0]?.relation !== "other") return whole
  return asOther(
    compareData(plainJson.own(wasIn, "const") ?? listed(was), plainJson.own(nowIn, "const") ?? listed(now))
  )
}

const listed = (values: ReadonlyArray<Schema.Json> | undefined): Node => values && [...values]

const isBound = (value: Node): value is number | undefined => value === undefined || typeof value === "number"

/** `sign` is 1 where the larger bound is the wider one. */
const compareBounds = (was: Node, now: Node, absent: number, sign: 1 | -1): Differences => {
  if (!isBound(was) || !isBound(now)) return asOther(compareData(was, now))
  const more = ((now ?? absent) - (was ?? absent)) * sign
  // two that are infinite are the same
  return Number.isNaN(more) ? [] : withRelation(was, now, more >= 0, more <= 0)
}

const bitsOf = (types: Node): number | undefined => {
  if (types === undefined) return plainJson.allTypes
  let bits = 0
  for (const type of plainJson.isArray(types) ? types : [types]) {
    const name = plainJson.typeNames.find((one) => one === type)
    if (name === undefined) return undefined
    bits |= plainJson.typeBits[name]
  }
  return bits
}

const compareTypes = (was: Node, now: Node): Differences => {
  const [left, right] = [bitsOf(was), bitsOf(now)]
  return left === undefined || right === undefined
    ? asOther(compareData(was, now))
    : withRelation(was, now, (left & right) === left, (left & right) === right)
}

type Container = { readonly [token: string]: Schema.Json }

const isContainer = (value: Node): value is Container => typeof value === "object" && value !== null

/** The first difference of two values. */
const compareData = (was: Node, now: Node): Differences => {
  if (!isContainer(was) || !isContainer(now) || Array.isArray(was) !== Array.isArray(now)) {
    return was === now ? [] : withRelation(was, now, false, false)
  }
  for (const key of new Set([...Object.keys(was), ...Object.keys(now)])) {
    const differences = compareData(plainJson.own(was, key), plainJson.own(now, key))
    if (differences.length > 0) return under(key, differences)
  }
  return []
}
