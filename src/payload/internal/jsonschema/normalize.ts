import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../Json.ts"
import { parseContainer } from "./coerce.ts"
import { evaluate, noneEvaluated } from "./evaluate.ts"
import { intended } from "./keywords/combinations.ts"
import { isAdditional } from "./keywords/objects.ts"
import type { ArrayShape, Choice, Node, ObjectShape } from "./model.ts"
import type { Run } from "./run.ts"
import { apart, enter, leave, quietly, spend } from "./run.ts"
import { allKinds, bitOf, copy, get, isArray, isObject, kindBits, set } from "./values.ts"

/** Itself, its reference and its `allOf`, transitively; each node once, however often it is referred to. */
const closureOf = (node: Node): ReadonlyArray<Node> => {
  if (node.closure !== undefined) return node.closure
  const found = new Set<Node>([node])
  for (const next of found) {
    if (next.reference !== undefined) found.add(next.reference)
    for (const part of next.allOf) found.add(part)
  }
  node.closure = [...found]
  return node.closure
}

const fits = (node: Node, value: Schema.Json, run: Run): boolean =>
  quietly(run, () => evaluate(node, value, undefined, run))

const shapes = (nodes: ReadonlyArray<Node>): ReadonlyArray<ObjectShape> => nodes.flatMap((node) => node.object ?? [])

/** Text that holds JSON, where an array or object is wanted and text is not. */
const coerced = (nodes: ReadonlyArray<Node>, value: Schema.Json, run: Run): Schema.Json => {
  if (!run.coerce || typeof value !== "string") return value
  const kinds = nodes.reduce((bits, node) => bits & node.kinds, allKinds)
  if ((kinds & kindBits.string) !== 0 || (kinds & (kindBits.array | kindBits.object)) === 0) return value
  if (!spend(run, 1 + value.length / 64)) return value
  const parsed = parseContainer(value)
  return parsed !== undefined && (bitOf(parsed) & kinds) !== 0 ? parsed : value
}

/** Whether a property that is `null` may be left out: declared, optional, and no schema of it takes `null`. */
const isAbsentNull = (key: string, all: ReadonlyArray<ObjectShape>, run: Run): boolean => {
  if (all.some(({ required }) => required.has(key))) return false
  const declared = all.flatMap(({ properties }) => properties.get(key) ?? [])
  return declared.length > 0 && !declared.every((node) => fits(node, null, run))
}

/** Whether a closed object leaves no place for a key. One that another part declares is no stray. */
const isStray = (key: string, all: ReadonlyArray<ObjectShape>): boolean =>
  all.some(
    ({ additional, patterns, properties }) => additional?.always === false && isAdditional(key, properties, patterns)
  ) && !all.some(({ properties }) => properties.has(key))

/** The default of a property, if it fits the property's schema; nested defaults are filled in it. */
const defaultOf = (node: Node, run: Run): Schema.Json | undefined => {
  const preset = closureOf(node).find((part) => part.default !== undefined)?.default
  if (preset === undefined || node.filled === "none" || node.filled === "pending") return undefined
  if (node.filled === undefined) {
    node.filled = "pending"
    const value = normalize(node, preset, run)
    const ok = fits(node, value, run)
    node.filled = run.exhausted !== undefined ? undefined : ok ? { value } : "none"
  }
  return typeof node.filled === "object" ? copy(node.filled.value) : undefined
}

const members = (object: JsonObject, nodes: ReadonlyArray<Node>, run: Run): JsonObject => {
  const all = shapes(nodes)
  if (all.length === 0) return object
  const out: Record<string, Schema.Json> = {}
  for (const key of Object.keys(object)) {
    let value = object[key] ?? null
    const cost = all.reduce(
      (sum, { patterns }) => patterns.reduce((s, [pattern]) => s + pattern.cost(key.length), sum),
      1
    )
    if (!spend(run, cost)) return object
    if (value === null && isAbsentNull(key, all, run)) continue
    if (!run.strict && isStray(key, all)) continue
    for (const { additional, patterns, properties } of all) {
      const declared = properties.get(key)
      if (declared !== undefined) value = normalize(declared, value, run)
      for (const [pattern, node] of patterns) if (pattern.test(key)) value = normalize(node, value, run)
      if (additional !== undefined && isAdditional(key, properties, patterns)) value = normalize(additional, value, run)
    }
    set(out, key, value)
  }
  for (const { properties } of all) {
    for (const [key, node] of properties) {
      if (Object.hasOwn(out, key)) continue
      const value = defaultOf(node, run)
      if (value !== undefined) set(out, key, value)
    }
  }
  return out
}

const elements = (
  array: ReadonlyArray<Schema.Json>,
  all: ReadonlyArray<ArrayShape>,
  run: Run
): ReadonlyArray<Schema.Json> =>
  all.length === 0
    ? array
    : array.map((item, index) =>
        all.reduce((value, { prefix, rest }) => {
          const node = prefix[index] ?? rest
          return node === undefined ? value : normalize(node, value, run)
        }, item)
      )

/**
 * The alternative a value is meant for: the first (for `oneOf` the only) one it
 * fits as it is, else that it fits once defaults and the like are filled in,
 * else the only one that fails for more than the kind of the value.
 */
const chosen = ({ branches, keyword }: Choice, value: Schema.Json, run: Run): Schema.Json => {
  const exact = branches.filter((branch) => fits(branch, value, run))
  const first = exact[0]
  if (first !== undefined) return keyword === "anyOf" || exact.length === 1 ? normalize(first, value, run) : value
  const filled = branches.map((branch) => ({ branch, value: normalize(branch, value, run) }))
  const lenient = filled.filter((option) => fits(option.branch, option.value, run))
  const option = lenient[0]
  if (option !== undefined) return keyword === "anyOf" || lenient.length === 1 ? option.value : value
  const failing = filled.map(
    ({ branch, value: candidate }) => apart(run, () => evaluate(branch, candidate, undefined, run))[1]
  )
  const meant = intended(failing, "")
  return meant === undefined ? value : (filled[failing.indexOf(meant)]?.value ?? value)
}

/** Drops what `unevaluatedProperties: false` would refuse, when the rest of the schema holds. */
const withoutUnevaluated = (node: Node, value: JsonObject, run: Run): JsonObject => {
  const seen = noneEvaluated()
  const ok = quietly(run, () => node.applied.every((assertion) => assertion(value, undefined, run, seen)))
  if (!ok || seen.allKeys) return value
  const out: Record<string, Schema.Json> = {}
  for (const key of Object.keys(value)) if (seen.keys.has(key)) set(out, key, value[key] ?? null)
  return out
}

/**
 * Fills in, leaves out and recovers what the schema allows to, before it is
 * evaluated. Builds new values, changes none, and reports nothing.
 */
export const normalize = (node: Node, input: Schema.Json, run: Run): Schema.Json => {
  if (node.always !== undefined || !spend(run, 1) || !enter(run)) return input
  const nodes = closureOf(node)
  let value = coerced(nodes, input, run)
  if (isObject(value)) value = members(value, nodes, run)
  else if (isArray(value)) {
    const arrays = nodes.flatMap((part) => part.array ?? [])
    value = elements(value, arrays, run)
  }
  for (const part of nodes) {
    for (const choice of part.choices) value = chosen(choice, value, run)
    if (part.conditional !== undefined) {
      const branch = fits(part.conditional.if, value, run) ? part.conditional.then : part.conditional.else
      if (branch !== undefined) value = normalize(branch, value, run)
    }
    for (const [key, dependent] of part.object?.dependent ?? []) {
      if (isObject(value) && get(value, key) !== undefined) value = normalize(dependent, value, run)
    }
  }
  for (const part of nodes) {
    if (!run.strict && part.object?.unevaluatedForbidden === true && isObject(value))
      value = withoutUnevaluated(part, value, run)
  }
  leave(run)
  return value
}
