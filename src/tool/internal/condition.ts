/**
 * Conditions as data: their JSON, the checks before use, evaluation, and labels.
 */

import * as Effect from "effect/Effect"
import { constFalse } from "effect/Function"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as PayloadError from "../../payload/PayloadError.ts"
import * as base from "../../payload/internal/base.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import { defaultLimits } from "../../payload/internal/limits.ts"
import * as Patterns from "../../payload/internal/patterns.ts"
import { kindStruct } from "../../payload/internal/problems.ts"
import { equalsJson, isArray, isObject, own } from "../../payload/internal/values.ts"

export type Path = ReadonlyArray<string | number>

const Path = Schema.Array(Schema.Union([Schema.String, Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))]))

const Comparable = Schema.Union([Schema.Finite, Schema.String])

const isComparable = Schema.is(Comparable)

const Leaf = Schema.Union([
  kindStruct("equals", "Equals", { path: Path, value: Schema.Json }, {}),
  kindStruct("empty", "Empty", { path: Path }, {}),
  kindStruct("in", "In", { path: Path, values: Schema.Array(Schema.Json) }, {}),
  kindStruct("greater_than", "GreaterThan", { path: Path, value: Comparable }, {}),
  kindStruct("less_than", "LessThan", { path: Path, value: Comparable }, {}),
  kindStruct("matches", "Matches", { path: Path, pattern: Schema.String }, {}),
  kindStruct("text", "Text", { value: Schema.String }, {})
])

type Leaf = typeof Leaf.Type

const isLeaf = (when: When): when is Leaf => when._tag === "Text" || "path" in when

/** A condition; the export in `When.ts` has the documentation. */
export type When =
  | Leaf
  | { readonly _tag: "And"; readonly all: ReadonlyArray<When> }
  | { readonly _tag: "Or"; readonly any: ReadonlyArray<When> }
  | { readonly _tag: "Not"; readonly when: When }
  | { readonly _tag: "Custom"; readonly name: string }

const inner = Schema.suspend(() => Shape).annotate({ identifier: "When" })

/** The shape of a condition, which may not be usable. */
export const Shape: Schema.Codec<When, unknown> = Schema.Union([
  ...Leaf.members,
  kindStruct("and", "And", { all: Schema.Array(inner) }, { all: "conditions" }),
  kindStruct("or", "Or", { any: Schema.Array(inner) }, { any: "conditions" }),
  kindStruct("not", "Not", { when: inner }, { when: "condition" }),
  kindStruct("custom", "Custom", { name: Schema.String }, {})
]).annotate({ identifier: "When" })

/** The most levels of `And`, `Or` and `Not`. */
export const maxNesting = 16

/** The most conditions in one condition, itself included. */
export const maxConditions = 1000

/** A part of a condition that cannot be used. `path` leads to it in the condition's JSON. */
export interface ConditionProblem {
  readonly path: Path
  readonly reason: string
}

interface Analysis {
  readonly problems: ReadonlyArray<ConditionProblem>
  /** The names of all predicates, each once, in order. */
  readonly customs: ReadonlyArray<string>
  readonly patterns: ReadonlyMap<string, Patterns.CompiledPattern>
  /** The units that compiling the patterns took. */
  readonly units: number
}

/** The conditions directly inside a condition, and the key of each in JSON. */
const innerOf = (when: When): ReadonlyArray<readonly [path: Path, when: When]> => {
  switch (when._tag) {
    case "And":
      return when.all.map((one, index) => [["conditions", index], one])
    case "Or":
      return when.any.map((one, index) => [["conditions", index], one])
    case "Not":
      return [[["condition"], when.when]]
    default:
      return []
  }
}

/** A condition with all conditions inside it, and the place of each in JSON. It has been analyzed. */
export const partsOf = (root: When): ReadonlyArray<readonly [path: Path, when: When]> => {
  const parts: Array<readonly [path: Path, when: When]> = [[[], root]]
  for (const [at, when] of parts) for (const [path, one] of innerOf(when)) parts.push([[...at, ...path], one])
  return parts
}

/** The analysis of a condition without problems, predicates and patterns. */
export const plain: Analysis = { problems: [], customs: [], patterns: new Map(), units: 0 }

const isWrongToken = (token: string | number): boolean =>
  typeof token === "number" && !(Number.isSafeInteger(token) && token >= 0)

/** True for most conditions: a comparison with one value, without a pattern. */
const isPlain = (when: When): boolean =>
  when._tag === "Text" ||
  ((when._tag === "Equals" || when._tag === "Empty" || when._tag === "In") && !when.path.some(isWrongToken))

type Engine = Patterns.PatternEngine | undefined

/** The parts of one condition that cannot be used; the conditions inside it not counted. */
const ownProblems = (
  when: When,
  patterns: Map<string, Patterns.CompiledPattern>,
  tank: fuel.Fuel,
  engine: Engine
): ReadonlyArray<ConditionProblem> => {
  const problems: Array<ConditionProblem> = []
  const path = "path" in when ? when.path : []
  const wrong = path.findIndex(isWrongToken)
  if (wrong !== -1) {
    problems.push({ path: ["path", wrong], reason: `expected a key or an index from 0 on, found ${path[wrong]}` })
  }
  if ((when._tag === "GreaterThan" || when._tag === "LessThan") && !isComparable(when.value)) {
    problems.push({ path: ["value"], reason: `expected a finite number or a string, found ${when.value}` })
  }
  if (when._tag === "Matches" && !patterns.has(when.pattern)) {
    const compiled = Patterns.compilePattern(when.pattern, tank, engine)
    if (Result.isSuccess(compiled)) patterns.set(when.pattern, compiled.success)
    else {
      const reason = `expected a regular expression that runs in linear time, found ${base.quote(when.pattern)}: ${compiled.failure}. Write it without that`
      problems.push({ path: ["pattern"], reason })
    }
  }
  return problems
}

const analyzeOnce = (root: When, tank: fuel.Fuel, engine: Engine): Analysis => {
  const problems: Array<ConditionProblem> = []
  const customs = new Set<string>()
  const patterns = new Map<string, Patterns.CompiledPattern>()
  const before = tank.spent
  let count = 0

  const visit = (when: When, at: Path, depth: number): void => {
    count += 1
    if (count > maxConditions) {
      const reason = `expected at most ${maxConditions} conditions in one, found more. Use a custom predicate`
      if (count === maxConditions + 1) problems.push({ path: at, reason })
    } else if (depth > maxNesting) {
      const reason = `expected at most ${maxNesting} levels of and, or and not, found more. Nest less`
      problems.push({ path: at, reason })
    } else {
      if (when._tag === "Custom") customs.add(when.name)
      if (isPlain(when)) return
      for (const { path, reason } of ownProblems(when, patterns, tank, engine))
        problems.push({ path: [...at, ...path], reason })
      for (const [path, one] of innerOf(when)) visit(one, [...at, ...path], depth + 1)
    }
  }

  visit(root, [], 0)
  return { problems, customs: [...customs], patterns, units: tank.spent - before }
}

const freshTank = () => fuel.make(defaultLimits.maxFuel)

/** Analyses of conditions that can be used. */
const usable = new WeakMap<When, { readonly analysis: Analysis; readonly engine: Engine }>()

/**
 * The problems of a condition under an engine, its predicates and its compiled patterns. A condition that can be used is
 * analyzed once, and takes the same fuel every time.
 */
export const analyze = (when: When, engine: Engine, tank: fuel.Fuel = freshTank()): Analysis => {
  if (isPlain(when)) return plain
  const before = usable.get(when)
  if (before !== undefined && before.engine === engine) {
    fuel.spend(tank, before.analysis.units)
    return before.analysis
  }
  const analysis = analyzeOnce(when, tank, engine)
  if (!fuel.isEmpty(tank) && analysis.problems.length === 0) usable.set(when, { analysis, engine })
  return analysis
}

/** A condition that was accepted keeps its patterns, whatever engine is around now. */
const analyzeLater = (when: When): Effect.Effect<Analysis> => {
  const before = usable.get(when)
  return before === undefined
    ? Effect.map(Patterns.PatternEngine, (engine) => analyze(when, engine))
    : Effect.succeed(before.analysis)
}

/** The predicates of a condition, each once, in order. */
export const customsOf = (when: When): ReadonlyArray<string> => {
  if (isPlain(when)) return []
  return (usable.get(when)?.analysis ?? analyzeOnce(when, freshTank(), anyEngine)).customs
}

/** Accepts what some engine can run, for checks that do not know the host of a condition. */
const anyEngine: Patterns.PatternEngine = { compile: () => ({ perCharacter: 0, test: constFalse }) }

/** The problems of a condition under whatever engine. */
export const problemsAnywhere = (when: When): ReadonlyArray<ConditionProblem> =>
  analyzeOnce(when, freshTank(), anyEngine).problems

export const When: Schema.Codec<When, unknown> = Shape.check(
  Schema.makeFilter((when) => problemsAnywhere(when).map(({ path, reason }) => ({ path, issue: reason })))
)

/** The number of regular expressions in a condition; none of them is compiled. */
export const countPatterns = (when: When): number =>
  isLeaf(when) ? Number(when._tag === "Matches") : innerOf(when).reduce((sum, [, one]) => sum + countPatterns(one), 0)

/** The payload of a step, and its text. */
export interface Subject {
  readonly payload: Schema.Json
  readonly text: string
}

/** The value at a path, of own members only; `null` if there is none. */
const valueAtPath = (root: Schema.Json, path: Path): Schema.Json => {
  let here: Schema.Json = root
  for (const token of path) {
    if (typeof token === "number") here = (isArray(here) ? here[token] : undefined) ?? null
    else here = (isObject(here) ? own(here, token) : undefined) ?? null
  }
  return here
}

const isEmpty = (value: Schema.Json): boolean => {
  if (value === null) return true
  if (typeof value === "string") return value.length === 0
  return typeof value === "object" && Object.keys(value).length === 0
}

/** The order of two values; undefined if they cannot be compared. */
const compareValues = (left: Schema.Json, right: number | string): -1 | 0 | 1 | undefined => {
  if (typeof left === "string" && typeof right === "string") return base.byCodePoint(left, right)
  if (typeof left !== "number" || typeof right !== "number") return undefined
  return left < right ? -1 : left > right ? 1 : 0
}

/** Comparing texts ends with the shorter one; comparing arrays and objects lists the members of both. */
const containerUnits = (value: Schema.Json): number =>
  typeof value === "object" && value !== null ? fuel.ofValue(value) : 0

/** The units that testing a value takes. */
const leafUnits = (when: Leaf, value: Schema.Json, patterns: Analysis["patterns"]): number => {
  if (when._tag === "Matches")
    return typeof value === "string" ? (patterns.get(when.pattern)?.cost(value.length) ?? 0) : 0
  if (when._tag === "In") return fuel.ofValue(when.values) + when.values.length * containerUnits(value)
  return "value" in when ? fuel.ofValue(when.value) + containerUnits(value) : 0
}

const testLeaf = (when: Leaf, subject: Subject, patterns: Analysis["patterns"], tank: fuel.Fuel): boolean => {
  const value = when._tag === "Text" ? subject.text : valueAtPath(subject.payload, when.path)
  if (!fuel.spend(tank, 1 + leafUnits(when, value, patterns))) return false
  switch (when._tag) {
    case "Text":
    case "Equals":
      return equalsJson(value, when.value)
    case "Empty":
      return isEmpty(value)
    case "In":
      return when.values.some((other) => equalsJson(value, other))
    case "GreaterThan":
      return compareValues(value, when.value) === 1
    case "LessThan":
      return compareValues(value, when.value) === -1
    case "Matches":
      return typeof value === "string" && patterns.get(when.pattern)?.test(value) === true
  }
}

/**
 * Decides a condition. `custom` answers for its predicates: they run one after the other, and only predicates that
 * matter run. A condition that cannot be used does not hold.
 */
export const evaluate = <E = never, R = never>(
  root: When,
  subject: Subject,
  custom: (name: string) => Effect.Effect<boolean, E, R>,
  tank: fuel.Fuel = freshTank()
): Effect.Effect<boolean, E | PayloadError.PayloadError, R> => {
  const decideWith = (patterns: Analysis["patterns"]) => {
    const decide: (when: When) => Effect.Effect<boolean, E, R> = Effect.fnUntraced(function* (when) {
      switch (when._tag) {
        case "And":
          for (const one of when.all) if (!(yield* decide(one))) return false
          return true
        case "Or":
          for (const one of when.any) if (yield* decide(one)) return true
          return false
        case "Not":
          return !(yield* decide(when.when))
        case "Custom":
          return yield* custom(when.name)
        default:
          return testLeaf(when, subject, patterns, tank)
      }
    })
    return decide(root)
  }
  const holds = Effect.flatMap(analyzeLater(root), ({ patterns, problems }) =>
    problems.length > 0 ? Effect.succeed(false) : decideWith(patterns)
  )
  return Effect.flatMap(holds, (found) =>
    fuel.isEmpty(tank) ? fuel.fail(tank, "condition", "") : Effect.succeed(found)
  )
}

const maxValue = 40

const maxLabel = 160

/** No more conditions than that fit into a label. */
const maxShown = 64

const plainKey = /^[\p{L}_][\p{L}\p{N}_-]*$/u

const short = (text: string): string => base.truncateText(text, maxValue)

const labelPath = (path: Path): string => {
  let out = ""
  for (const token of path) {
    if (typeof token === "number") out += `[${token}]`
    else if (!plainKey.test(token)) out += `[${JSON.stringify(short(token))}]`
    else out += out === "" ? short(token) : `.${short(token)}`
  }
  return path.length === 0 || out.startsWith("[") ? `payload${out}` : out
}

/** A value on one line. Arrays and objects show one level. */
const literal = (value: Schema.Json): string => {
  if (typeof value === "string") return JSON.stringify(short(value))
  const isInner = (key: string, inner: unknown) => key !== "" && typeof inner === "object" && inner !== null
  return base.truncateText(
    JSON.stringify(value, (key, inner) => (isInner(key, inner) ? "…" : inner)),
    maxLabel
  )
}

/** The words for a condition on one value, and for its negation. */
const leafWords = (when: Leaf): readonly [subject: string, holds: string, fails?: string] => {
  if (when._tag === "Text") return ["text", `= ${literal(when.value)}`, `≠ ${literal(when.value)}`]
  const path = labelPath(when.path)
  switch (when._tag) {
    case "Equals":
      return [path, `= ${literal(when.value)}`, `≠ ${literal(when.value)}`]
    case "Empty":
      return [path, "is empty", "is not empty"]
    case "In":
      return [path, `in ${literal(when.values)}`, `not in ${literal(when.values)}`]
    case "GreaterThan":
      return [path, `> ${literal(when.value)}`]
    case "LessThan":
      return [path, `< ${literal(when.value)}`]
    case "Matches":
      return [path, `matches ${literal(when.pattern)}`, `does not match ${literal(when.pattern)}`]
  }
}

const labelOf = (root: When): string => {
  let left = maxShown
  const write = (when: When, isOneOfMany: boolean): string => {
    left -= 1
    if (left < 0) return "…"
    const join = (whens: ReadonlyArray<When>, word: string, none: string): string => {
      const areMany = whens.length > 1
      const shown = whens.slice(0, maxShown).map((one) => write(one, areMany || isOneOfMany))
      const text = shown.length === 0 ? none : shown.join(` ${word} `)
      return areMany && isOneOfMany ? `(${text})` : text
    }
    switch (when._tag) {
      case "And":
        return join(when.all, "and", "always")
      case "Or":
        return join(when.any, "or", "never")
      case "Not": {
        const [subject, , fails] = isLeaf(when.when) ? leafWords(when.when) : []
        return fails === undefined ? `not ${write(when.when, true)}` : `${subject} ${fails}`
      }
      case "Custom":
        return `${plainKey.test(when.name) ? short(when.name) : JSON.stringify(short(when.name))}()`
      default:
        return leafWords(when).slice(0, 2).join(" ")
    }
  }
  return write(root, false)
}

/** A condition in one line of at most 160 characters or so. */
export const label = (when: When): string => base.truncateText(labelOf(when), maxLabel)
