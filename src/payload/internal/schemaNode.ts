/**
 * A compiled JSON Schema, the state of one validation, and how a node is evaluated on a value.
 */

import * as Schema from "effect/Schema"
import type { ValidationIssue } from "../PayloadError.ts"
import * as jsonValues from "./jsonValues.ts"
import * as paths from "./paths.ts"
import type { CompiledPattern } from "./patterns.ts"

/**
 * The reasons of a {@link JsonSchema.JsonSchemaError}.
 *
 * **Details**
 *
 * - `NotASchema`: the document, or a part of it, is not plain JSON or not an
 *   object (subschemas may also be booleans).
 * - `TooLarge`, `TooDeep`: a limit was passed.
 * - `ForbiddenKey`: a key that can poison prototypes.
 * - `UnsupportedDialect`: `$schema` names neither draft 2020-12 nor draft-07.
 * - `UnsupportedKeyword`: a keyword that is neither enforced nor an annotation.
 * - `UnsupportedType`, `UnsupportedFormat`, `UnsupportedPattern`: a `type`,
 *   `format` or regular expression that cannot be enforced.
 * - `InvalidKeyword`: a keyword with a value it cannot have.
 * - `UnresolvedReference`, `ReferenceCycle`: a `$ref` that leaves the document,
 *   points to nothing, or comes back to itself without consuming anything.
 * - `NotRepresentable`: an Effect Schema that has no JSON Schema.
 */
export const Reason = Schema.TaggedUnion({
  NotASchema: { expected: Schema.String, found: Schema.String },
  TooLarge: { what: Schema.String, limit: Schema.Finite, found: Schema.Finite },
  TooDeep: { limit: Schema.Finite },
  ForbiddenKey: { key: Schema.String },
  UnsupportedDialect: { found: Schema.String, supported: Schema.Array(Schema.String) },
  UnsupportedKeyword: { keyword: Schema.String },
  UnsupportedType: { found: Schema.String, supported: Schema.Array(Schema.String) },
  UnsupportedFormat: { found: Schema.String, supported: Schema.Array(Schema.String) },
  UnsupportedPattern: { problem: Schema.String },
  InvalidKeyword: { keyword: Schema.String, expected: Schema.String, found: Schema.String },
  UnresolvedReference: { ref: Schema.String, problem: Schema.String },
  ReferenceCycle: { ref: Schema.String },
  NotRepresentable: { problem: Schema.String }
})

/**
 * One of the reasons of a {@link JsonSchema.JsonSchemaError}.
 */
export type Reason = typeof Reason.Type

/** Which parts of one value in-place subschemas have looked at. */
interface Evaluated {
  readonly keys: Set<string>
  readonly items: Set<number>
  allKeys: boolean
  allItems: boolean
}

/** One assertion of a schema: true when the value has what it asks for. */
export type Assertion = (
  value: Schema.Json,
  at: paths.Location | undefined,
  run: Run,
  evaluated: Evaluated | undefined
) => boolean

/** Facts about the properties a schema names, for the interpreter and for defaults. */
export interface ObjectShape {
  readonly properties: ReadonlyMap<string, Node>
  readonly patterns: ReadonlyArray<readonly [pattern: CompiledPattern, node: Node]>
  readonly additional: Node | undefined
  readonly required: ReadonlySet<string>
  readonly unevaluatedForbidden: boolean
  /** Schemas that apply when a property is there. */
  readonly dependent: ReadonlyArray<readonly [key: string, node: Node]>
}

/** Facts about the items a schema names. */
export interface ArrayShape {
  readonly prefix: ReadonlyArray<Node>
  readonly rest: Node | undefined
}

/** A group of alternatives of a schema. */
export interface Choice {
  readonly keyword: "anyOf" | "oneOf"
  readonly branches: ReadonlyArray<Node>
}

export interface Conditional {
  readonly if: Node
  readonly then: Node | undefined
  readonly else: Node | undefined
}

/** One schema of the document, ready to run. Filled in two passes, because references may point forward. */
export interface Node {
  readonly pointer: string
  /** A boolean schema: accepts all or nothing. */
  readonly always: boolean | undefined
  /** The kinds `type` admits, as bits. */
  kinds: number
  assertions: ReadonlyArray<Assertion>
  /** All assertions but `unevaluated*`. */
  applied: ReadonlyArray<Assertion>
  /** Whether `unevaluatedProperties` or `unevaluatedItems` stands here. */
  readonly tracks: boolean
  readonly object: ObjectShape | undefined
  readonly array: ArrayShape | undefined
  readonly choices: ReadonlyArray<Choice>
  readonly conditional: Conditional | undefined
  readonly allOf: ReadonlyArray<Node>
  reference: Node | undefined
  readonly default: Schema.Json | undefined
  /** What applies to every value of this schema: itself, its reference and its `allOf`, all the way. Known on first use. */
  closure: ReadonlyArray<Node> | undefined
  /** The default once it was found to fit its schema; `"none"` when it does not. */
  filled: { readonly value: Schema.Json } | "none" | "pending" | undefined
}

/** The state of one validation. */
export interface Run {
  /** Steps that may still be taken. */
  steps: number
  depth: number
  /** Set when the work was given up; nothing found afterwards counts. */
  exhausted: "steps" | "depth" | undefined
  /** `undefined` while only the answer counts: then the first failure ends the work. */
  issues: Array<ValidationIssue> | undefined
  readonly maxIssues: number
  readonly strict: boolean
  readonly coerce: boolean
}

/** Subschemas inside one another at run time; far from the end of the stack. */
const maxRunDepth = 700

export const spendFuel = (run: Run, steps: number): boolean => {
  if (run.exhausted !== undefined) return false
  run.steps -= steps
  if (run.steps < 0) run.exhausted = "steps"
  return run.exhausted === undefined
}

export const enterNode = (run: Run): boolean => {
  if (run.depth >= maxRunDepth) run.exhausted ??= "depth"
  if (run.exhausted !== undefined) return false
  run.depth++
  return true
}

export const leaveNode = (run: Run): void => {
  run.depth--
}

/** Enough issues: as many as were asked for, or with paths so long (keys come from outside) that the list would swell. */
const isFull = (issues: ReadonlyArray<ValidationIssue>, maxIssues: number): boolean =>
  issues.length >= maxIssues || issues.reduce((size, { path }) => size + path.length, 0) > paths.maxPaths

/** Nothing more will be learnt: given up, or enough issues. */
export const isDone = (run: Run): boolean =>
  run.exhausted !== undefined || run.issues === undefined || isFull(run.issues, run.maxIssues)

/** Notes an issue once, unless only the answer counts or there are enough. */
export const addIssue = (run: Run, issue: ValidationIssue): void => {
  if (run.issues === undefined || isFull(run.issues, run.maxIssues)) return
  const same = run.issues.some(({ message, pointer }) => message === issue.message && pointer === issue.pointer)
  if (!same) run.issues.push(issue)
}

/** Notes an issue and is the answer "no". */
export const reportIssue = (run: Run, at: paths.Location | undefined, keyword: string, message: string): false => {
  if (run.issues !== undefined && !isFull(run.issues, run.maxIssues))
    addIssue(run, { path: paths.toPath(at), pointer: paths.toPointer(at), keyword, message })
  return false
}

/** Runs a part whose issues do not matter. */
export const runQuietly = <A>(run: Run, part: () => A): A => {
  const issues = run.issues
  run.issues = undefined
  const result = part()
  run.issues = issues
  return result
}

/** Runs a part and keeps its issues apart. */
export const runSeparately = <A>(run: Run, part: () => A): readonly [A, ReadonlyArray<ValidationIssue>] => {
  const issues = run.issues
  const own: Array<ValidationIssue> = []
  run.issues = own
  const result = part()
  run.issues = issues
  return [result, own]
}

export const noneEvaluated = (): Evaluated => ({ keys: new Set(), items: new Set(), allKeys: false, allItems: false })

const mergeEvaluated = (into: Evaluated, from: Evaluated): void => {
  for (const key of from.keys) into.keys.add(key)
  for (const item of from.items) into.items.add(item)
  into.allKeys ||= from.allKeys
  into.allItems ||= from.allItems
}

/** Whether a value has everything a schema asks for, by JSON Schema alone: nothing is filled in or left out. */
export const evaluate = (
  node: Node,
  value: Schema.Json,
  at: paths.Location | undefined,
  run: Run,
  evaluated?: Evaluated
): boolean => {
  if (!spendFuel(run, 1)) return false
  if (node.always !== undefined) return node.always || reportIssue(run, at, "false", "is not allowed")
  if (node.kinds !== jsonValues.allKinds && (jsonValues.kindBitOf(value) & node.kinds) === 0) {
    return reportIssue(run, at, "type", `expected ${jsonValues.kindNames(node.kinds)}, got ${jsonValues.kindOf(value)}`)
  }
  if (!enterNode(run)) return false
  const own = evaluated ?? (node.tracks ? noneEvaluated() : undefined)
  let ok = true
  for (const assertion of node.assertions) {
    if (assertion(value, at, run, own)) continue
    ok = false
    if (isDone(run)) break
  }
  leaveNode(run)
  return ok
}

/**
 * The same for a subschema that looks at the same value, whose marks count for
 * the schema around it when it succeeds. With `always` they count anyway, so
 * that one failure is not reported twice.
 */
export const evaluateInPlace = (
  node: Node,
  value: Schema.Json,
  at: paths.Location | undefined,
  run: Run,
  evaluated: Evaluated | undefined,
  always = false
): boolean => {
  if (evaluated === undefined) return evaluate(node, value, at, run)
  const own = noneEvaluated()
  const ok = evaluate(node, value, at, run, own)
  if (ok || (always && run.issues !== undefined)) mergeEvaluated(evaluated, own)
  return ok
}
