/**
 * Compiled JSON Schemas, and their interpreter: it completes values with the nodes of a schema, and checks them.
 *
 * All work is bounded by depth and by fuel. `compileSchema` makes the nodes and their checks.
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as PayloadError from "../PayloadError.ts"
import * as base from "./base.ts"
import { copyJson } from "./copyJson.ts"
import * as fuel from "./fuel.ts"
import { defaultLimits, type Limits, overrideLimits } from "./limits.ts"
import type * as Patterns from "./patterns.ts"
import {
  allTypes,
  describeTypes,
  isArray,
  isObject,
  type JsonObject,
  type Location,
  toPointer,
  typeBitOf,
  typeBits,
  typeOf
} from "./values.ts"

export type Dialect = "2020-12" | "draft-07"

/** One assertion of a schema: true when the value has what it asks for. */
export type Check = (value: Schema.Json, at: Location | undefined, run: Run) => boolean

/** Empty values for the keywords that a schema does not have; shared, because there may be many schemas. */
const none = {
  nodes: [],
  named: [],
  patterns: [],
  properties: new Map<string, Node>(),
  required: new Set<string>(),
  combined: { allOf: [], anyOf: [], oneOf: [] },
  parts: {}
} as const

/** One schema of the document, ready to run. Keywords fill it in, because references may point forward. */
export class Node {
  /** Its place in the document; boolean schemas have none of their own. */
  readonly place: Location | undefined
  /** The answer of a boolean schema: accepts all or nothing. */
  readonly always: boolean | undefined
  readonly preset: Schema.Json | undefined
  /** The number of its keywords, and of the items of the arrays among their values. */
  size: number = 0
  /** The kinds `type` admits, as bits. */
  kinds: number = allTypes
  checks: ReadonlyArray<Check> = none.nodes
  properties: ReadonlyMap<string, Node> = none.properties
  patterns: ReadonlyArray<readonly [pattern: Patterns.CompiledPattern, node: Node]> = none.patterns
  additional: Node | undefined
  required: ReadonlySet<string> = none.required
  /** Schemas that apply to the object when a property is present. */
  dependents: ReadonlyArray<readonly [key: string, node: Node]> = none.named
  prefix: ReadonlyArray<Node> = none.nodes
  rest: Node | undefined
  combined: Readonly<Record<"allOf" | "anyOf" | "oneOf", ReadonlyArray<Node>>> = none.combined
  parts: { readonly not?: Node; readonly if?: Node; readonly then?: Node; readonly else?: Node } = none.parts
  reference: Node | undefined
  /** The schemas that apply to every value of this one: itself, its reference and its `allOf`, transitively. Known on first use if short. */
  closure: ReadonlyArray<Node> | undefined
  /**
   * The default after it was checked, or `undefined` when it does not fit its schema, with the units that the check
   * took and the units of a copy.
   */
  filled:
    | { readonly value: Schema.Json | undefined; readonly units: number; readonly copy: number }
    | "pending"
    | undefined

  constructor(place: Location | undefined, always: boolean | undefined, preset: Schema.Json | undefined) {
    this.place = place
    this.always = always
    this.preset = preset
  }
}

/** The two boolean schemas: they are the same at all places. */
export const anyValue = new Node(undefined, true, undefined)
const noValue = new Node(undefined, false, undefined)

export const booleanNode = (schema: boolean): Node => (schema ? anyValue : noValue)

/** The subschemas that look at the same value as the schema itself. */
export const sameValueNodes = (node: Node): ReadonlyArray<Node> => {
  const { combined, dependents, parts, reference } = node
  if (combined === none.combined && parts === none.parts && dependents === none.named) {
    return reference === undefined ? none.nodes : [reference]
  }
  return [
    ...(reference === undefined ? [] : [reference]),
    ...combined.allOf,
    ...combined.anyOf,
    ...combined.oneOf,
    ...Object.values(parts),
    ...dependents.map(([, node]) => node)
  ]
}

export const patternCost = ({ patterns }: Node, key: string): number => {
  let units = 1
  for (const [pattern] of patterns) units += pattern.cost(key.length)
  return units
}

/** True when `properties` and `patternProperties` leave a key to `additionalProperties`. */
export const isAdditional = ({ patterns, properties }: Node, key: string): boolean =>
  !properties.has(key) && (patterns.length === 0 || !patterns.some(([pattern]) => pattern.test(key)))

const TypeId = "~effect-emissary/payload/JsonSchema"

/**
 * A JSON Schema document after its guards.
 *
 * **Details**
 *
 * `json` is the document as it came: write this one back, compute digests of
 * this one.
 *
 * @category models
 * @since 0.1.0
 */
export interface JsonSchema {
  readonly [TypeId]: typeof TypeId
  readonly json: JsonObject
  /** The version of JSON Schema that `$schema` names. */
  readonly dialect: "2020-12" | "draft-07"
  /** The patterns that no engine runs in linear time, which are therefore not checked. */
  readonly unchecked: ReadonlyArray<UncheckedPattern>
}

/**
 * A pattern that is not checked: its place in the document as a JSON Pointer, and why no engine runs it.
 *
 * **Details**
 *
 * See `maxUncheckedPatterns` of the limits. A value that only an unchecked pattern could refuse is accepted, also below
 * `not`.
 *
 * @category models
 * @since 0.1.0
 */
export interface UncheckedPattern {
  readonly path: string
  readonly pattern: string
  readonly problem: string
}

/** The cost of compiling a document. Documents of the same text share it, and a door pays it once. */
export interface Cost {
  readonly units: number
  /** No text in the document has a lone surrogate; false where it is not known. */
  isWellFormed: boolean
}

export class CompiledSchema implements JsonSchema {
  readonly [TypeId] = TypeId
  readonly json: JsonObject
  readonly dialect: Dialect
  readonly unchecked: ReadonlyArray<UncheckedPattern>
  readonly #root: Node
  readonly #cost: Cost
  constructor(json: JsonObject, dialect: Dialect, root: Node, cost: Cost, unchecked: ReadonlyArray<UncheckedPattern>) {
    this.json = json
    this.dialect = dialect
    this.unchecked = unchecked
    this.#root = root
    this.#cost = cost
  }
  static root(self: CompiledSchema): Node {
    return self.#root
  }
  static cost(self: CompiledSchema): Cost {
    return self.#cost
  }
}

export const rootOf = (self: JsonSchema): Node =>
  // `make` is the only constructor and makes nothing else; a forged value is a defect
  CompiledSchema.root(self as CompiledSchema)

export const costOf = (self: JsonSchema): Cost =>
  // as above
  CompiledSchema.cost(self as CompiledSchema)

// --- Running -------------------------------------------------------------------------------------------------------

/** Problems, and the length of all their paths: keys come from outside, and the list must not swell. */
interface Problems {
  readonly list: Array<PayloadError.Problem>
  paths: number
}

export const noProblems = (): Problems => ({ list: [], paths: 0 })

/** The state of one validation. */
export interface Run {
  readonly fuel: fuel.Fuel
  depth: number
  /** Set when the work was given up; nothing found afterwards counts. */
  exhausted: "fuel" | "depth" | undefined
  /** `undefined` while only the answer counts: then the first failure ends the work. */
  problems: Problems | undefined
  readonly maxIssues: number
  readonly strict: boolean
  readonly coerce: boolean
  /** While a default is completed, the defaults in it are not copied: it is copied as a whole. */
  isFilling: boolean
  /** Set when a pattern that is not checked could have refused what was accepted. */
  isUnsure: boolean
}

/** Subschemas inside one another at run time; far from the end of the stack. */
const maxRunDepth = 700

export const spend = (run: Run, units: number): boolean => {
  if (run.exhausted !== undefined) return false
  // `fuel.spend`, in place: this is the most frequent call of a validation
  run.fuel.spent += units
  if (run.fuel.spent > run.fuel.limit) run.exhausted = "fuel"
  return run.exhausted === undefined
}

const enter = (run: Run): boolean => {
  if (run.depth >= maxRunDepth) run.exhausted ??= "depth"
  if (run.exhausted !== undefined) return false
  run.depth++
  return true
}

const isFull = ({ list, paths }: Problems, maxIssues: number): boolean =>
  list.length >= maxIssues || paths > base.maxPaths

/** True when a failure makes further work useless. */
export const isDone = (run: Run): boolean =>
  run.exhausted !== undefined || run.problems === undefined || isFull(run.problems, run.maxIssues)

export const addProblem = (run: Run, problem: PayloadError.Problem): void => {
  const { problems } = run
  if (problems === undefined || isFull(problems, run.maxIssues)) return
  if (!spend(run, problemUnits + fuel.ofText(problem.path.length))) return
  const known = problems.list.some(({ expected, path }) => expected === problem.expected && path === problem.path)
  if (known) return
  problems.list.push(problem)
  problems.paths += problem.path.length
}

/** The units for a problem, its path not counted. */
const problemUnits = 10

/** Notes a problem and is the answer "no". */
export const report = (run: Run, at: Location | undefined, keyword: string, expected: string, found: string): false => {
  if (run.problems !== undefined && !isDone(run)) addProblem(run, { path: toPointer(at), expected, found, keyword })
  return false
}

/** The place of a member; not needed while only the answer counts. */
export const placeOf = (run: Run, at: Location | undefined, key: string | number): Location | undefined =>
  run.problems === undefined ? undefined : { parent: at, key }

/** Evaluates with another list of problems; `undefined` means that only the answer counts. */
export const evaluateApart = (
  problems: Run["problems"],
  node: Node,
  value: Schema.Json,
  at: Location | undefined,
  run: Run
): boolean => {
  const before = run.problems
  run.problems = problems
  const ok = evaluate(node, value, at, run)
  run.problems = before
  return ok
}

export const fits = (node: Node, value: Schema.Json, run: Run): boolean =>
  evaluateApart(undefined, node, value, undefined, run)

/** {@link fits}, and `undefined` where a pattern that is not checked could decide otherwise. */
export const verdictOf = (node: Node, value: Schema.Json, run: Run): boolean | undefined => {
  const before = run.isUnsure
  run.isUnsure = false
  const ok = fits(node, value, run)
  const isUnsure = run.isUnsure
  run.isUnsure ||= before
  return ok && isUnsure ? undefined : ok
}

/** True when a value has everything a schema asks for, by JSON Schema alone: nothing is filled in or left out. */
export const evaluate = (node: Node, value: Schema.Json, at: Location | undefined, run: Run): boolean => {
  if (!spend(run, 1 + node.checks.length)) return false
  if (node.always !== undefined) {
    return node.always || report(run, at, "false", "no value", typeOf(value))
  }
  if ((typeBitOf(value) & node.kinds) === 0) {
    if (run.problems === undefined) return false
    return report(run, at, "type", describeTypes(node.kinds), typeOf(value))
  }
  if (node.checks.length === 0) return true
  if (!enter(run)) return false
  const ok = every(node.checks, value, at, run, runCheck)
  run.depth--
  return ok
}

/** Looks at one item for a keyword; made once per schema, because there may be many values. */
export type Test<A, B> = (item: A, value: B, at: Location | undefined, run: Run, index: number) => boolean

/** Tests all items, or some of them, for the sake of their problems, until nothing more can be learnt. */
export const every = <A, B>(
  items: ReadonlyArray<A>,
  value: B,
  at: Location | undefined,
  run: Run,
  test: Test<A, B>,
  from: number = 0,
  to: number = items.length
): boolean => {
  let ok = true
  let index = -1
  for (const item of items) {
    index++
    if (index >= to) break
    if (index < from || test(item, value, at, run, index)) continue
    ok = false
    if (isDone(run)) return false
  }
  return ok
}

const runCheck: Test<Check, Schema.Json> = (check, value, at, run) => check(value, at, run)

// --- Completing ----------------------------------------------------------------------------------------------------

/** The length of a closure that is kept, its own `allOf` not counted; many long ones would fill the memory. */
const maxKeptClosure = 64

/** Takes the same fuel whether it is known or not. */
const closureOf = (node: Node, run: Run): ReadonlyArray<Node> => {
  if (node.closure !== undefined) return spend(run, node.closure.length) ? node.closure : []
  const found = new Set<Node>([node])
  for (const next of found) {
    if (!spend(run, 1)) return []
    if (next.reference !== undefined) found.add(next.reference)
    for (const part of next.combined.allOf) found.add(part)
  }
  const closure = [...found]
  if (closure.length <= maxKeptClosure + node.combined.allOf.length) node.closure = closure
  return closure
}

/** The array or object that a text is the JSON of, as models sometimes send them. */
const parseContainer = (text: string): Schema.Json | undefined => {
  if (!/^\s*[[{]/.test(text) || text.length > defaultLimits.maxStringLength) return undefined
  const parsed = Result.try((): unknown => JSON.parse(text))
  if (Result.isFailure(parsed)) return undefined
  return Result.getOrUndefined(copyJson(parsed.success, defaultLimits))
}

/** The units for a value in a text that is parsed, and copied within the limits. */
const parsedUnits = 8

/** Parses text that holds JSON where an array or object is wanted and text is not. */
const coerceText = (nodes: ReadonlyArray<Node>, value: Schema.Json, run: Run): Schema.Json => {
  if (!run.coerce || typeof value !== "string") return value
  const kinds = nodes.reduce((bits, node) => bits & node.kinds, allTypes)
  const { array, object, string } = typeBits
  if ((kinds & string) !== 0 || (kinds & (array | object)) === 0) return value
  if (!spend(run, 1 + value.length / 4)) return value
  const parsed = parseContainer(value)
  if (parsed === undefined || !spend(run, parsedUnits * fuel.ofValue(parsed))) return value
  return (typeBitOf(parsed) & kinds) !== 0 ? parsed : value
}

/** True for a property that is `null` and may be left out: declared, optional, and no schema of it takes `null`. */
const isAbsentNull = (nodes: ReadonlyArray<Node>, key: string, run: Run): boolean => {
  if (nodes.some(({ required }) => required.has(key))) return false
  const declared = nodes.flatMap(({ properties }) => properties.get(key) ?? [])
  return declared.length > 0 && !declared.every((node) => fits(node, null, run))
}

/** True for a key that closed parts of a schema leave no place for. A key that another part declares is kept. */
const isUndeclared = (nodes: ReadonlyArray<Node>, closed: ReadonlyArray<Node>, key: string): boolean =>
  closed.length > 0 &&
  !nodes.some(({ properties }) => properties.has(key)) &&
  closed.some((node) => isAdditional(node, key))

/** The default of a property if it fits the property's schema, with nested defaults filled in. */
const defaultOf = (node: Node, run: Run): Schema.Json | undefined => {
  let preset: Schema.Json | undefined
  for (const part of closureOf(node, run)) if (preset === undefined) preset = part.preset
  if (preset === undefined || node.filled === "pending") return undefined
  if (node.filled === undefined) {
    const before = run.fuel.spent
    const { isFilling } = run
    node.filled = "pending"
    run.isFilling = true
    const value = complete(node, preset, run)
    run.isFilling = isFilling
    const ok = fits(node, value, run)
    const units = run.fuel.spent - before
    const isKnown = run.exhausted === undefined
    node.filled = isKnown ? { value: ok ? value : undefined, units, copy: fuel.ofValue(value) } : undefined
  } else spend(run, node.filled.units)
  const value = node.filled?.value
  if (value === undefined || !spend(run, node.filled?.copy ?? 0)) return undefined
  return typeof value === "object" && !run.isFilling ? structuredClone(value) : value
}

/** Completes a member by the schemas of one node for it: declared, matched by a pattern, or additional. */
const completeMember = (node: Node, key: string, value: Schema.Json, run: Run): Schema.Json => {
  const declared = node.properties.get(key)
  let completed = declared === undefined ? value : complete(declared, value, run)
  let isNamed = declared !== undefined
  for (const [pattern, member] of node.patterns) {
    if (!pattern.test(key)) continue
    isNamed = true
    completed = complete(member, completed, run)
  }
  return isNamed || node.additional === undefined ? completed : complete(node.additional, completed, run)
}

/** The members before a key, in an object of their own. */
const membersBefore = (object: JsonObject, end: string): Record<string, Schema.Json> => {
  const out: Record<string, Schema.Json> = {}
  for (const key of Object.keys(object)) {
    if (key === end) break
    out[key] = object[key] ?? null
  }
  return out
}

const isClosed = ({ additional }: Node): boolean => additional?.always === false

const hasPatterns = ({ patterns }: Node): boolean => patterns.length > 0

/** The object itself when there is nothing to change; so are arrays. */
const completeMembers = (object: JsonObject, nodes: ReadonlyArray<Node>, run: Run): JsonObject => {
  const keys = Object.keys(object)
  if (keys.length === 0) return object
  let out: Record<string, Schema.Json> | undefined
  const closed = run.strict ? none.nodes : nodes.filter(isClosed)
  const matching = nodes.filter(hasPatterns)
  for (const key of keys) {
    const before = object[key] ?? null
    let units = nodes.length
    if (matching.length > 0) for (const node of matching) units += patternCost(node, key) - 1
    if (!spend(run, 2 * units)) return object
    const isLeftOut = (before === null && isAbsentNull(nodes, key, run)) || isUndeclared(nodes, closed, key)
    let value = before
    if (!isLeftOut) for (const node of nodes) value = completeMember(node, key, value, run)
    if (isLeftOut || value !== before) out ??= membersBefore(object, key)
    if (out !== undefined && !isLeftOut) out[key] = value
  }
  return out ?? object
}

const fillIn = (object: JsonObject, nodes: ReadonlyArray<Node>, run: Run): JsonObject => {
  let out: Record<string, Schema.Json> | undefined
  for (const { properties } of nodes) {
    if (properties.size === 0) continue
    if (!spend(run, properties.size)) return object
    for (const [key, member] of properties) {
      const preset = Object.hasOwn(out ?? object, key) ? undefined : defaultOf(member, run)
      if (preset === undefined) continue
      out ??= { ...object }
      out[key] = preset
    }
  }
  return out ?? object
}

const completeArray = (array: ReadonlyArray<Schema.Json>, nodes: ReadonlyArray<Node>, run: Run): Schema.Json => {
  if (!spend(run, array.length * nodes.length)) return array
  let out: Array<Schema.Json> | undefined
  let index = 0
  for (const item of array) {
    let value = item
    for (const { prefix, rest } of nodes) {
      const node = prefix[index] ?? rest
      if (node !== undefined) value = complete(node, value, run)
    }
    if (value !== item) out ??= array.slice(0, index)
    out?.push(value)
    index++
  }
  return out ?? array
}

/**
 * Completes a value by the alternative it fits: as it is, or else once it is completed. For `oneOf` there must be
 * one only.
 */
const completeChoice = (branches: ReadonlyArray<Node>, one: boolean, value: Schema.Json, run: Run): Schema.Json => {
  const exact = branches.filter((branch) => fits(branch, value, run))
  const [first] = exact
  if (first !== undefined) return one && exact.length > 1 ? value : complete(first, value, run)
  const completed = branches
    .map((branch) => ({ branch, value: complete(branch, value, run) }))
    .filter((option) => fits(option.branch, option.value, run))
  const [option] = completed
  return option === undefined || (one && completed.length > 1) ? value : option.value
}

/**
 * Fills in, leaves out and recovers what the schema allows to, before the value is evaluated. Builds new values,
 * changes none, and reports nothing.
 */
const complete = (node: Node, input: Schema.Json, run: Run): Schema.Json => {
  if (node.always !== undefined || !spend(run, 1) || !enter(run)) return input
  const nodes = closureOf(node, run)
  let value = coerceText(nodes, input, run)
  if (isObject(value)) value = fillIn(completeMembers(value, nodes, run), nodes, run)
  else if (isArray(value)) value = completeArray(value, nodes, run)
  for (const { combined, dependents, parts } of nodes) {
    if (combined.anyOf.length > 0) value = completeChoice(combined.anyOf, false, value, run)
    if (combined.oneOf.length > 0) value = completeChoice(combined.oneOf, true, value, run)
    if (parts.if !== undefined) {
      const verdict = verdictOf(parts.if, value, run)
      const branch = verdict === true ? parts.then : parts.else
      if (verdict !== undefined && branch !== undefined) value = complete(branch, value, run)
    }
    if (dependents.length === 0) continue
    if (!spend(run, dependents.length)) break
    for (const [key, dependent] of dependents) {
      if (isObject(value) && Object.hasOwn(value, key)) value = complete(dependent, value, run)
    }
  }
  run.depth--
  return value
}

// --- Validating ----------------------------------------------------------------------------------------------------

const maxValueDepth = 512

export const problemsOf = (reason: PayloadError.Reason) => new PayloadError.PayloadError({ what: "", reason }).problems

/** Options of validating a value by a JSON Schema. */
export interface ValidateOptions {
  /** Refuse undeclared properties of a closed object instead of dropping them; default `false`. */
  readonly strict?: boolean | undefined
  /** Accept text that holds a JSON array or object where one is expected; default `false`. */
  readonly coerce?: boolean | undefined
  /** The greatest number of problems that are collected; default 50. */
  readonly maxIssues?: number | undefined
  /** Limits that differ from `Limits.defaults`; `maxFuel` bounds the work. */
  readonly limits?: Partial<Limits> | undefined
}

const exhaustedProblems = (run: Run): ReadonlyArray<PayloadError.Problem> =>
  run.exhausted === "fuel"
    ? problemsOf(fuel.reasonOf(run.fuel)).map((problem) => ({ ...problem, keyword: "fuel" }))
    : [
        {
          path: "",
          expected: `at most ${maxRunDepth} schemas inside one another for one value`,
          found: "more",
          fix: "Send flatter data, or simplify the schema",
          keyword: "fuel"
        }
      ]

/** Copies and evaluates a value, completed first where it may be. */
export const checkValue = (
  root: Node,
  input: unknown,
  mayComplete: boolean,
  options: ValidateOptions,
  shared: fuel.Fuel | undefined
): Result.Result<Schema.Json, ReadonlyArray<PayloadError.Problem>> => {
  const { limits: given } = options
  const limits = given === undefined || given === defaultLimits ? defaultLimits : overrideLimits(defaultLimits, given)
  const isDeep = limits.maxDepth > maxValueDepth
  const copied = copyJson(input, isDeep ? { ...limits, maxDepth: maxValueDepth } : limits)
  if (Result.isFailure(copied)) {
    return Result.fail(problemsOf(copied.failure).map((problem) => ({ ...problem, keyword: "json" })))
  }
  const problems = noProblems()
  const run: Run = {
    fuel: shared ?? fuel.make(limits.maxFuel),
    depth: 0,
    exhausted: undefined,
    problems,
    maxIssues: Math.max(1, options.maxIssues ?? defaultLimits.maxIssues),
    strict: options.strict ?? false,
    coerce: options.coerce ?? false,
    isFilling: false,
    isUnsure: false
  }
  const value = mayComplete ? complete(root, copied.success, run) : copied.success
  const ok = evaluate(root, value, undefined, run)
  if (run.exhausted !== undefined) return Result.fail(exhaustedProblems(run))
  return ok ? Result.succeed(value) : Result.fail(problems.list)
}

/**
 * Checks a value and returns it completed, or everything that is wrong with it.
 *
 * **Details**
 *
 * The value is copied, then completed in this order, in depth, through `$ref`
 * and `allOf` and inside the alternative of `anyOf` or `oneOf` it fits:
 *
 * 1. with `coerce`, text that holds a JSON array or object is taken as that,
 *    where one is expected and text is not;
 * 2. `null` for an optional property is removed, unless its schema takes `null`;
 * 3. undeclared properties of a closed object are dropped, unless `strict`;
 * 4. `default`s of absent properties are filled in, if they fit their schema.
 *
 * The result of these steps is validated by the rules of JSON Schema. Issues are in
 * the order of the schema's keywords and properties.
 *
 * **Gotchas**
 *
 * A value that needs more fuel than `maxFuel` of the limits fails with one issue of the
 * keyword `fuel`. Undeclared properties are refused, not dropped, where one part of an
 * `allOf` is closed and another part declares the property.
 *
 * **Example** (A model that sends an array as text)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Result } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const schema = Effect.runSync(JsonSchema.make({
 *   type: "object",
 *   properties: { rows: { type: "array", items: { type: "integer" } } }
 * }))
 * assert.deepStrictEqual(
 *   JsonSchema.validate(schema, { rows: "[1, 2]" }, { coerce: true }),
 *   Result.succeed({ rows: [1, 2] })
 * )
 * ```
 *
 * @category validation
 * @since 0.1.0
 */
export const validate = (
  self: JsonSchema,
  value: unknown,
  options: ValidateOptions = {}
): Result.Result<Schema.Json, ReadonlyArray<PayloadError.Problem>> =>
  checkValue(rootOf(self), value, true, options, undefined)

/**
 * True if JSON Schema alone accepts a value as it is: nothing is filled in,
 * removed, dropped or recovered.
 *
 * **Example** (An exact test)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const schema = Effect.runSync(JsonSchema.make({ type: "integer", multipleOf: 3 }))
 * assert.strictEqual(JsonSchema.accepts(schema, 9), true)
 * assert.strictEqual(JsonSchema.accepts(schema, 10), false)
 * ```
 *
 * @category validation
 * @since 0.1.0
 */
export const accepts = (self: JsonSchema, value: unknown): boolean =>
  Result.isSuccess(checkValue(rootOf(self), value, false, { maxIssues: 1 }, undefined))

/** {@link accepts} as a part of a door. */
export const acceptsWith = (tank: fuel.Fuel, self: JsonSchema, value: unknown): boolean =>
  Result.isSuccess(checkValue(rootOf(self), value, false, { maxIssues: 1 }, tank))
