/**
 * Validates a value against a compiled JSON Schema, and normalises it: defaults, coercion, undeclared properties.
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../Json.ts"
import * as Limits from "../Limits.ts"
import type { ValidationIssue } from "../PayloadError.ts"
import * as jsonValues from "./jsonValues.ts"
import * as keywords from "./keywords.ts"
import * as paths from "./paths.ts"
import * as schemaNode from "./schemaNode.ts"

/** The array or object that a text is the JSON of, as models sometimes send them. */
const parseContainer = (text: string): Schema.Json | undefined => {
  const start = /^\s*([[{])/.exec(text)?.[1]
  if (start === undefined || text.length > Limits.defaults.maxStringLength) return undefined
  const parsed = Result.try((): unknown => JSON.parse(text))
  if (Result.isFailure(parsed)) return undefined
  const plain = jsonValues.copyPlain(parsed.success, Limits.defaults)
  if ("_tag" in plain) return undefined
  return jsonValues.isArray(plain.value) || jsonValues.isObject(plain.value) ? plain.value : undefined
}

/** Itself, its reference and its `allOf`, transitively; each node once, however often it is referred to. */
const closureOf = (node: schemaNode.Node): ReadonlyArray<schemaNode.Node> => {
  if (node.closure !== undefined) return node.closure
  const found = new Set<schemaNode.Node>([node])
  for (const next of found) {
    if (next.reference !== undefined) found.add(next.reference)
    for (const part of next.allOf) found.add(part)
  }
  node.closure = [...found]
  return node.closure
}

const acceptsValue = (node: schemaNode.Node, value: Schema.Json, run: schemaNode.Run): boolean =>
  schemaNode.runQuietly(run, () => schemaNode.evaluate(node, value, undefined, run))

const objectShapes = (nodes: ReadonlyArray<schemaNode.Node>): ReadonlyArray<schemaNode.ObjectShape> =>
  nodes.flatMap((node) => node.object ?? [])

/** Text that holds JSON, where an array or object is wanted and text is not. */
const coerceValue = (nodes: ReadonlyArray<schemaNode.Node>, value: Schema.Json, run: schemaNode.Run): Schema.Json => {
  if (!run.coerce || typeof value !== "string") return value
  const kinds = nodes.reduce((bits, node) => bits & node.kinds, jsonValues.allKinds)
  if (
    (kinds & jsonValues.kindBits.string) !== 0 ||
    (kinds & (jsonValues.kindBits.array | jsonValues.kindBits.object)) === 0
  )
    return value
  if (!schemaNode.spendFuel(run, 1 + value.length / 64)) return value
  const parsed = parseContainer(value)
  return parsed !== undefined && (jsonValues.kindBitOf(parsed) & kinds) !== 0 ? parsed : value
}

/** Whether a property that is `null` may be left out: declared, optional, and no schema of it takes `null`. */
const isAbsentNull = (key: string, all: ReadonlyArray<schemaNode.ObjectShape>, run: schemaNode.Run): boolean => {
  if (all.some(({ required }) => required.has(key))) return false
  const declared = all.flatMap(({ properties }) => properties.get(key) ?? [])
  return declared.length > 0 && !declared.every((node) => acceptsValue(node, null, run))
}

/** Whether a closed object leaves no place for a key. One that another part declares is no stray. */
const isUndeclared = (key: string, all: ReadonlyArray<schemaNode.ObjectShape>): boolean =>
  all.some(
    ({ additional, patterns, properties }) =>
      additional?.always === false && keywords.isAdditional(key, properties, patterns)
  ) && !all.some(({ properties }) => properties.has(key))

/** The default of a property, if it fits the property's schema; nested defaults are filled in it. */
const defaultOf = (node: schemaNode.Node, run: schemaNode.Run): Schema.Json | undefined => {
  const preset = closureOf(node).find((part) => part.default !== undefined)?.default
  if (preset === undefined || node.filled === "none" || node.filled === "pending") return undefined
  if (node.filled === undefined) {
    node.filled = "pending"
    const value = normalizeValue(node, preset, run)
    const ok = acceptsValue(node, value, run)
    node.filled = run.exhausted !== undefined ? undefined : ok ? { value } : "none"
  }
  return typeof node.filled === "object" ? jsonValues.copyValue(node.filled.value) : undefined
}

const normalizeMembers = (
  object: JsonObject,
  nodes: ReadonlyArray<schemaNode.Node>,
  run: schemaNode.Run
): JsonObject => {
  const all = objectShapes(nodes)
  if (all.length === 0) return object
  const out: Record<string, Schema.Json> = {}
  for (const key of Object.keys(object)) {
    let value = object[key] ?? null
    const cost = all.reduce(
      (sum, { patterns }) => patterns.reduce((s, [pattern]) => s + pattern.cost(key.length), sum),
      1
    )
    if (!schemaNode.spendFuel(run, cost)) return object
    if (value === null && isAbsentNull(key, all, run)) continue
    if (!run.strict && isUndeclared(key, all)) continue
    for (const { additional, patterns, properties } of all) {
      const declared = properties.get(key)
      if (declared !== undefined) value = normalizeValue(declared, value, run)
      for (const [pattern, node] of patterns) if (pattern.test(key)) value = normalizeValue(node, value, run)
      if (additional !== undefined && keywords.isAdditional(key, properties, patterns))
        value = normalizeValue(additional, value, run)
    }
    jsonValues.setMember(out, key, value)
  }
  for (const { properties } of all) {
    for (const [key, node] of properties) {
      if (Object.hasOwn(out, key)) continue
      const value = defaultOf(node, run)
      if (value !== undefined) jsonValues.setMember(out, key, value)
    }
  }
  return out
}

const normalizeItems = (
  array: ReadonlyArray<Schema.Json>,
  all: ReadonlyArray<schemaNode.ArrayShape>,
  run: schemaNode.Run
): ReadonlyArray<Schema.Json> =>
  all.length === 0
    ? array
    : array.map((item, index) =>
        all.reduce((value, { prefix, rest }) => {
          const node = prefix[index] ?? rest
          return node === undefined ? value : normalizeValue(node, value, run)
        }, item)
      )

/**
 * The alternative a value is meant for: the first (for `oneOf` the only) one it
 * fits as it is, else that it fits once defaults and the like are filled in,
 * else the only one that fails for more than the kind of the value.
 */
const chooseBranch = (
  { branches, keyword }: schemaNode.Choice,
  value: Schema.Json,
  run: schemaNode.Run
): Schema.Json => {
  const exact = branches.filter((branch) => acceptsValue(branch, value, run))
  const first = exact[0]
  if (first !== undefined) return keyword === "anyOf" || exact.length === 1 ? normalizeValue(first, value, run) : value
  const filled = branches.map((branch) => ({ branch, value: normalizeValue(branch, value, run) }))
  const lenient = filled.filter((option) => acceptsValue(option.branch, option.value, run))
  const option = lenient[0]
  if (option !== undefined) return keyword === "anyOf" || lenient.length === 1 ? option.value : value
  const failing = filled.map(
    ({ branch, value: candidate }) =>
      schemaNode.runSeparately(run, () => schemaNode.evaluate(branch, candidate, undefined, run))[1]
  )
  const meant = keywords.findIntendedBranch(failing, "")
  return meant === undefined ? value : (filled[failing.indexOf(meant)]?.value ?? value)
}

/** Drops what `unevaluatedProperties: false` would refuse, when the rest of the schema holds. */
const withoutUnevaluated = (node: schemaNode.Node, value: JsonObject, run: schemaNode.Run): JsonObject => {
  const seen = schemaNode.noneEvaluated()
  const ok = schemaNode.runQuietly(run, () => node.applied.every((assertion) => assertion(value, undefined, run, seen)))
  if (!ok || seen.allKeys) return value
  const out: Record<string, Schema.Json> = {}
  for (const key of Object.keys(value)) if (seen.keys.has(key)) jsonValues.setMember(out, key, value[key] ?? null)
  return out
}

/**
 * Fills in, leaves out and recovers what the schema allows to, before it is
 * evaluated. Builds new values, changes none, and reports nothing.
 */
const normalizeValue = (node: schemaNode.Node, input: Schema.Json, run: schemaNode.Run): Schema.Json => {
  if (node.always !== undefined || !schemaNode.spendFuel(run, 1) || !schemaNode.enterNode(run)) return input
  const nodes = closureOf(node)
  let value = coerceValue(nodes, input, run)
  if (jsonValues.isObject(value)) value = normalizeMembers(value, nodes, run)
  else if (jsonValues.isArray(value)) {
    const arrays = nodes.flatMap((part) => part.array ?? [])
    value = normalizeItems(value, arrays, run)
  }
  for (const part of nodes) {
    for (const choice of part.choices) value = chooseBranch(choice, value, run)
    if (part.conditional !== undefined) {
      const branch = acceptsValue(part.conditional.if, value, run) ? part.conditional.then : part.conditional.else
      if (branch !== undefined) value = normalizeValue(branch, value, run)
    }
    for (const [key, dependent] of part.object?.dependent ?? []) {
      if (jsonValues.isObject(value) && jsonValues.getMember(value, key) !== undefined)
        value = normalizeValue(dependent, value, run)
    }
  }
  for (const part of nodes) {
    if (!run.strict && part.object?.unevaluatedForbidden === true && jsonValues.isObject(value))
      value = withoutUnevaluated(part, value, run)
  }
  schemaNode.leaveNode(run)
  return value
}

export const defaultMaxSteps = 1_000_000

interface CheckOptions {
  readonly normalize: boolean
  readonly strict: boolean
  readonly coerce: boolean
  readonly maxIssues: number
  readonly maxSteps: number
  readonly limits: Limits.Limits
}

const explainProblem = (problem: jsonValues.PlainProblem): string => {
  switch (problem._tag) {
    case "NotJson":
      return `expected plain JSON, got ${problem.found}`
    case "ForbiddenKey":
      return `the key ${JSON.stringify(problem.key)} is not allowed`
    case "TooDeep":
      return `nested deeper than ${problem.limit}`
    case "TooLarge":
      return `${problem.what} is at least ${problem.found}, the limit is ${problem.limit}`
  }
}

const fuelProblem = (run: schemaNode.Run, maxSteps: number): ReadonlyArray<ValidationIssue> => [
  {
    path: "",
    pointer: "",
    keyword: "budget",
    message:
      run.exhausted === "depth"
        ? "validation was given up: schema and value are nested too deeply in each other"
        : `validation was given up after ${maxSteps} steps: the value is too large or the schema too costly; send less, or raise maxSteps`
  }
]

/** Copies, completes and evaluates a value. */
export const checkValue = (
  root: schemaNode.Node,
  input: unknown,
  options: CheckOptions
): Result.Result<Schema.Json, ReadonlyArray<ValidationIssue>> => {
  const plain = jsonValues.copyPlain(input, options.limits)
  if ("_tag" in plain) {
    const { at } = plain
    return Result.fail([
      { path: paths.toPath(at), pointer: paths.toPointer(at), keyword: "json", message: explainProblem(plain) }
    ])
  }
  const run: schemaNode.Run = {
    steps: options.maxSteps,
    depth: 0,
    exhausted: undefined,
    issues: [],
    maxIssues: Math.max(1, options.maxIssues),
    strict: options.strict,
    coerce: options.coerce
  }
  const value = options.normalize ? normalizeValue(root, plain.value, run) : plain.value
  const issues: Array<ValidationIssue> = []
  run.issues = issues
  const ok = run.exhausted === undefined && schemaNode.evaluate(root, value, undefined, run)
  if (run.exhausted !== undefined) return Result.fail(fuelProblem(run, options.maxSteps))
  return ok ? Result.succeed(value) : Result.fail(issues)
}
