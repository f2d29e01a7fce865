/**
 * Conditions of routes, as data.
 *
 * A condition is a small tree of tagged objects. It can be written to JSON, drawn and
 * compared, and it means the same wherever it is read. Only {@link custom} names code,
 * a predicate of a registry, and it does so by name.
 *
 * **When to use**
 *
 * As the second half of a step's `routes`:
 * `routes: [["apology", When.field("items").empty()]]`.
 *
 * **Details**
 *
 * - A condition looks at the payload of the step that has the route: what the step
 *   gave, as JSON. `field("user", "age")` is a member of a member, `field("items", 0)`
 *   an item of an array. What is not there is `null`; only own members count, so
 *   `field("toString")` is `null`, too.
 * - Empty are `null`, and strings, arrays and objects without content. Numbers and
 *   booleans never are.
 * - Equality is equality of JSON: members in any order, `1.0` is `1`, `false` is not
 *   `0`.
 * - `greaterThan` and `lessThan` compare numbers with numbers, and strings with
 *   strings by their code points. Anything else is neither greater nor less.
 * - `matches` searches a string with a regular expression of ECMAScript that runs in
 *   linear time (no look-around, no back references). What is not a string does not
 *   match.
 *
 * Nothing of this fails while a plan runs. What is wrong with a condition is found when
 * a plan is made or decoded, see {@link problems}.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Patterns from "../payload/internal/patterns.ts"
import * as planNames from "./internal/planNames.ts"

/**
 * Where in the payload a condition looks: keys of objects and indices of arrays, from
 * the outside in. The empty path is the payload itself.
 *
 * @category models
 * @since 0.1.0
 */
export type Path = ReadonlyArray<string | number>

/**
 * A condition.
 *
 * **Details**
 *
 * | tag | true if |
 * |---|---|
 * | `Equals` | the value at `path` is `value` |
 * | `Empty` | the value at `path` is absent, `null`, or a string, array or object without content |
 * | `In` | the value at `path` is one of `values` |
 * | `GreaterThan`, `LessThan` | the value at `path` can be compared with `value`, and is greater or less |
 * | `Matches` | the value at `path` is a string in which `pattern` is found |
 * | `Text` | the text of the payload is `value` |
 * | `And` | all of them are; none at all is true |
 * | `Or` | any of them is; none at all is false |
 * | `Not` | the other is not |
 * | `Custom` | the predicate `name` of the registry says so |
 *
 * @category models
 * @since 0.1.0
 */
export type When =
  | { readonly _tag: "Equals"; readonly path: Path; readonly value: Schema.Json }
  | { readonly _tag: "Empty"; readonly path: Path }
  | { readonly _tag: "In"; readonly path: Path; readonly values: ReadonlyArray<Schema.Json> }
  | { readonly _tag: "GreaterThan"; readonly path: Path; readonly value: number | string }
  | { readonly _tag: "LessThan"; readonly path: Path; readonly value: number | string }
  | { readonly _tag: "Matches"; readonly path: Path; readonly pattern: string }
  | { readonly _tag: "Text"; readonly value: string }
  | { readonly _tag: "And"; readonly all: ReadonlyArray<When> }
  | { readonly _tag: "Or"; readonly any: ReadonlyArray<When> }
  | { readonly _tag: "Not"; readonly when: When }
  | { readonly _tag: "Custom"; readonly name: string }

/**
 * How deep conditions may be nested, counted in `And`, `Or` and `Not`: 16.
 *
 * **Details**
 *
 * The limits of `Limits` hold for decoded conditions as for all data, and are met
 * first if they are lower.
 *
 * @category limits
 * @since 0.1.0
 */
export const maxNesting: number = planNames.maxConditionDepth

/**
 * How many conditions one condition may be made of, itself included: 1000.
 *
 * @category limits
 * @since 0.1.0
 */
export const maxConditions: number = planNames.maxConditions

export const Path = Schema.Array(Schema.Union([Schema.String, Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))]))

const Comparable = Schema.Union([Schema.Finite, Schema.String])

const Shape: Schema.Codec<When> = Schema.Union([
  Schema.TaggedStruct("Equals", { path: Path, value: Schema.Json }),
  Schema.TaggedStruct("Empty", { path: Path }),
  Schema.TaggedStruct("In", { path: Path, values: Schema.Array(Schema.Json) }),
  Schema.TaggedStruct("GreaterThan", { path: Path, value: Comparable }),
  Schema.TaggedStruct("LessThan", { path: Path, value: Comparable }),
  Schema.TaggedStruct("Matches", { path: Path, pattern: Schema.String }),
  Schema.TaggedStruct("Text", { value: Schema.String }),
  Schema.TaggedStruct("And", { all: Schema.Array(Schema.suspend(() => Shape)) }),
  Schema.TaggedStruct("Or", { any: Schema.Array(Schema.suspend(() => Shape)) }),
  Schema.TaggedStruct("Not", { when: Schema.suspend(() => Shape) }),
  Schema.TaggedStruct("Custom", { name: Schema.String })
]).annotate({ identifier: "When" })

/**
 * Schema of {@link When}. It refuses what {@link problems} finds.
 *
 * @category schemas
 * @since 0.1.0
 */
export const When: Schema.Codec<When> = Shape.check(
  Schema.makeFilter((when) => analyze(when).problems.map((problem) => ({ path: problem.path, issue: problem.reason })))
)

/**
 * What can be said about a value of the payload.
 *
 * @category models
 * @since 0.1.0
 */
export interface Value {
  /** It is that value. Absent is `null`. */
  readonly equals: (value: Schema.Json) => When
  readonly notEquals: (value: Schema.Json) => When
  /** Another name of `equals`, for `true`, `false` and `null`. */
  readonly is: (value: Schema.Json) => When
  /** It is absent, `null`, or a string, array or object without content. */
  readonly empty: () => When
  readonly notEmpty: () => When
  /** It is one of these values. */
  readonly in: (values: ReadonlyArray<Schema.Json>) => When
  readonly notIn: (values: ReadonlyArray<Schema.Json>) => When
  /** It is a greater number, or a string that is sorted after that one. */
  readonly greaterThan: (value: number | string) => When
  /** It is a smaller number, or a string that is sorted before that one. */
  readonly lessThan: (value: number | string) => When
  /** It is a string in which that regular expression is found. */
  readonly matches: (pattern: string) => When
}

const valueAt = (path: Path): Value => ({
  equals: (value) => ({ _tag: "Equals", path, value }),
  notEquals: (value) => not({ _tag: "Equals", path, value }),
  is: (value) => ({ _tag: "Equals", path, value }),
  empty: () => ({ _tag: "Empty", path }),
  notEmpty: () => not({ _tag: "Empty", path }),
  in: (values) => ({ _tag: "In", path, values }),
  notIn: (values) => not({ _tag: "In", path, values }),
  greaterThan: (value) => ({ _tag: "GreaterThan", path, value }),
  lessThan: (value) => ({ _tag: "LessThan", path, value }),
  matches: (pattern) => ({ _tag: "Matches", path, pattern })
})

/**
 * A member of the payload: keys of objects and indices of arrays, from the outside in.
 *
 * **Example** (Conditions on members)
 *
 * ```ts
 * import assert from "node:assert"
 * import { When } from "effect-emissary/plan"
 *
 * const adult = When.field("user", "age").greaterThan(17)
 * assert.deepStrictEqual(adult, { _tag: "GreaterThan", path: ["user", "age"], value: 17 })
 *
 * const known = { payload: { user: { age: 18 } }, text: "" }
 * const unknown = { payload: { user: "unknown" }, text: "" }
 * assert.strictEqual(When.test(adult, known, () => false), true)
 * assert.strictEqual(When.test(adult, unknown, () => false), false)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const field = (...path: readonly [string | number, ...ReadonlyArray<string | number>]): Value => valueAt(path)

/**
 * Whether the other does not hold.
 *
 * @category combinators
 * @since 0.1.0
 */
export const not = (when: When): When => ({ _tag: "Not", when })

/**
 * The payload itself.
 *
 * **Example** (An answer that is one of some words)
 *
 * ```ts
 * import assert from "node:assert"
 * import { When } from "effect-emissary/plan"
 *
 * const yes = When.payload.in(["yes", "y", true])
 * assert.strictEqual(When.test(yes, { payload: "y", text: "y" }, () => false), true)
 * assert.strictEqual(When.test(yes, { payload: 1, text: "1" }, () => false), false)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const payload: Value = valueAt([])

/**
 * Whether the text of the payload is that text: a string is its own text, `null` is
 * the empty one, and anything else has its canonical JSON. White space and case count.
 *
 * @category constructors
 * @since 0.1.0
 */
export const text = (value: string): When => ({ _tag: "Text", value })

/**
 * Whether all of them hold. They are tried in order, up to the first that does not.
 *
 * **Example** (Conditions put together)
 *
 * ```ts
 * import assert from "node:assert"
 * import { When } from "effect-emissary/plan"
 *
 * const urgent = When.and(
 *   When.field("priority").greaterThan(7),
 *   When.or(When.field("open").is(true), When.not(When.field("tags").empty()))
 * )
 * assert.strictEqual(When.label(urgent), "priority > 7 and (open = true or tags is not empty)")
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const and = (...all: ReadonlyArray<When>): When => ({ _tag: "And", all })

/**
 * Whether any of them holds. They are tried in order, up to the first that does.
 *
 * @category combinators
 * @since 0.1.0
 */
export const or = (...any: ReadonlyArray<When>): When => ({ _tag: "Or", any })

/**
 * The condition that always holds, for a route that is always taken. It is `and()`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const always: When = { _tag: "And", all: [] }

/**
 * The condition that never holds. It is `or()`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const never: When = { _tag: "Or", any: [] }

/**
 * A predicate of the registry, by name.
 *
 * **When to use**
 *
 * Where the other conditions do not reach: to compare two members, to count, to ask a
 * service. Whoever decodes the plan has to have a predicate of that name.
 *
 * @category constructors
 * @since 0.1.0
 */
export const custom = (name: string): When => ({ _tag: "Custom", name })

/**
 * Something about a condition that keeps it from being used. `path` leads to it in the
 * condition's own data.
 *
 * @category models
 * @since 0.1.0
 */
export interface Problem {
  readonly path: ReadonlyArray<string | number>
  readonly reason: string
}

/**
 * What is wrong with a condition: a regular expression that is none or does not run in
 * linear time, more than {@link maxNesting} levels, more than {@link maxConditions}
 * conditions, a number that is not finite, an index below zero.
 *
 * **Details**
 *
 * `Plan.make` refuses a plan with such a condition, and the schema {@link When} refuses
 * to decode it. To {@link test} and {@link evaluate} it is false.
 *
 * **Example** (A regular expression that could run for ever)
 *
 * ```ts
 * import assert from "node:assert"
 * import { When } from "effect-emissary/plan"
 *
 * assert.deepStrictEqual(When.problems(When.payload.matches("^(a+)+$")), [])
 *
 * const [problem] = When.problems(When.not(When.payload.matches("(?=a)")))
 * assert.deepStrictEqual(problem?.path, ["when", "pattern"])
 * ```
 *
 * @category checks
 * @since 0.1.0
 */
export const problems = (when: When): ReadonlyArray<Problem> => analyze(when).problems

/**
 * The names of all predicates that a condition asks for, each once, in order.
 *
 * **Example** (What a registry needs)
 *
 * ```ts
 * import assert from "node:assert"
 * import { When } from "effect-emissary/plan"
 *
 * const when = When.or(When.custom("is_vip"), When.not(When.custom("is_weekend")), When.custom("is_vip"))
 * assert.deepStrictEqual(When.customs(when), ["is_vip", "is_weekend"])
 * ```
 *
 * @category getters
 * @since 0.1.0
 */
export const customs = (when: When): ReadonlyArray<string> => analyze(when).customs

/**
 * A condition in one short line, for pictures and messages.
 *
 * **Details**
 *
 * Long names, values and conditions are cut, so different conditions may have the same
 * label.
 *
 * **Example** (Labels)
 *
 * ```ts
 * import assert from "node:assert"
 * import { When } from "effect-emissary/plan"
 *
 * assert.strictEqual(When.label(When.field("items", 0, "name").notEquals("x")), `items[0].name ≠ "x"`)
 * assert.strictEqual(When.label(When.not(When.custom("is_vip"))), "not is_vip()")
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const label = (when: When): string => labelCondition(when)

/**
 * What a condition looks at: the payload of the step, and its text.
 *
 * @category models
 * @since 0.1.0
 */
export interface Subject {
  readonly payload: Schema.Json
  readonly text: string
}

/**
 * Whether a condition holds. `custom` answers for the predicates of the registry.
 *
 * **Details**
 *
 * It never throws, unless `custom` does. Conditions are tried from left to right, and
 * no more of them than the answer needs.
 *
 * **Example** (A condition without a plan)
 *
 * ```ts
 * import assert from "node:assert"
 * import { When } from "effect-emissary/plan"
 *
 * const when = When.or(When.text("approve"), When.custom("is_weekend"))
 * const subject = { payload: "deny", text: "deny" }
 * assert.strictEqual(When.test(when, subject, (name) => name === "is_weekend"), true)
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const test = (when: When, subject: Subject, custom: (name: string) => boolean): boolean =>
  testCondition(when, subject, custom)

/**
 * Like {@link test}, for predicates that are effects.
 *
 * **Details**
 *
 * Predicates run one after the other, and no more of them than the answer needs. It
 * fails as a predicate fails, and in no other way.
 *
 * **Example** (A predicate that is an effect)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { When } from "effect-emissary/plan"
 *
 * const when = When.and(When.field("total").greaterThan(100), When.custom("is_vip"))
 * const asked: Array<string> = []
 * const program = When.evaluate(when, { payload: { total: 20 }, text: "" }, (name) =>
 *   Effect.sync(() => asked.push(name) > 0)
 * )
 * assert.strictEqual(Effect.runSync(program), false)
 * assert.deepStrictEqual(asked, [])
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const evaluate = <E = never, R = never>(
  when: When,
  subject: Subject,
  custom: (name: string) => Effect.Effect<boolean, E, R>
): Effect.Effect<boolean, E, R> => evaluateCondition(when, subject, custom)

/** The value at a path, of own members only; `null` if there is none. */
const valueAtPath = (root: Schema.Json, path: ReadonlyArray<string | number>): Schema.Json => {
  let here: Schema.Json = root
  for (const token of path) {
    if (typeof here !== "object" || here === null) return null
    if (planNames.isArray(here)) {
      here = typeof token === "number" ? (here[token] ?? null) : null
    } else {
      here = typeof token === "string" && Object.hasOwn(here, token) ? (here[token] ?? null) : null
    }
  }
  return here
}

const isEmpty = (value: Schema.Json): boolean => {
  if (value === null) return true
  if (typeof value === "string") return value.length === 0
  if (typeof value !== "object") return false
  return planNames.isArray(value) ? value.length === 0 : Object.keys(value).length === 0
}

/** How two values are ordered, if they are. */
const compareValues = (left: Schema.Json, right: number | string): -1 | 0 | 1 | undefined => {
  if (typeof left === "string" && typeof right === "string") return planNames.byCodePoint(left, right)
  if (typeof left !== "number" || typeof right !== "number") return undefined
  return left < right ? -1 : left > right ? 1 : 0
}

/** What is known about a condition before it is used. */
interface Analysis {
  readonly problems: ReadonlyArray<Problem>
  readonly customs: ReadonlyArray<string>
  readonly patterns: ReadonlyMap<string, Patterns.LinearPattern>
}

type PathToken = string | number

const isIndex = (token: PathToken): boolean => typeof token === "string" || (Number.isSafeInteger(token) && token >= 0)

const isComparable = (value: number | string): boolean => typeof value === "string" || Number.isFinite(value)

const analyzeAt = (root: When): Analysis => {
  const problems: Array<Problem> = []
  const customs = new Set<string>()
  const patterns = new Map<string, Patterns.LinearPattern>()
  let count = 0

  const visitAll = (whens: ReadonlyArray<When>, at: ReadonlyArray<PathToken>, key: string, depth: number) => {
    for (const [index, when] of whens.entries()) {
      if (count > planNames.maxConditions) return
      visit(when, [...at, key, index], depth)
    }
  }

  const visit = (when: When, at: ReadonlyArray<PathToken>, depth: number): void => {
    count += 1
    if (count > planNames.maxConditions) {
      problems.push({
        path: at,
        reason: `expected at most ${planNames.maxConditions} conditions in one, found more. Use a custom predicate`
      })
      return
    }
    if (depth > planNames.maxConditionDepth) {
      problems.push({
        path: at,
        reason: `expected at most ${planNames.maxConditionDepth} levels of and, or and not, found more. Nest less`
      })
      return
    }
    if ("path" in when) {
      const wrong = when.path.findIndex((token) => !isIndex(token))
      if (wrong !== -1) {
        problems.push({
          path: [...at, "path", wrong],
          reason: `expected a key or an index from 0 on, found ${when.path[wrong]}`
        })
      }
    }
    switch (when._tag) {
      case "GreaterThan":
      case "LessThan":
        if (!isComparable(when.value)) {
          problems.push({ path: [...at, "value"], reason: `expected a finite number or a string, found ${when.value}` })
        }
        return
      case "Matches": {
        if (patterns.has(when.pattern)) return
        const compiled = Patterns.compileLinear(when.pattern)
        if (Result.isSuccess(compiled)) patterns.set(when.pattern, compiled.success)
        else {
          problems.push({ path: [...at, "pattern"], reason: compiled.failure.message })
        }
        return
      }
      case "And":
        return visitAll(when.all, at, "all", depth + 1)
      case "Or":
        return visitAll(when.any, at, "any", depth + 1)
      case "Not":
        return visit(when.when, [...at, "when"], depth + 1)
      case "Custom":
        customs.add(when.name)
    }
  }

  visit(root, [], 0)
  return { problems, customs: [...customs], patterns }
}

const analyses = new WeakMap<When, Analysis>()

/** What is wrong with a condition, and its compiled patterns. Each condition is looked at once. */
const analyze = (when: When): Analysis => {
  const before = analyses.get(when)
  if (before !== undefined) return before
  const checked = analyzeAt(when)
  analyses.set(when, checked)
  return checked
}

type CompiledPatterns = ReadonlyMap<string, Patterns.LinearPattern>

type LeafCondition = Exclude<When, { readonly _tag: "And" | "Or" | "Not" | "Custom" }>

const payloadAt = (subject: Subject, path: Path): Schema.Json => valueAtPath(subject.payload, path)

const testLeaf = (when: LeafCondition, subject: Subject, patterns: CompiledPatterns): boolean => {
  switch (when._tag) {
    case "Equals":
      return planNames.equalsJson(payloadAt(subject, when.path), when.value)
    case "Empty":
      return isEmpty(payloadAt(subject, when.path))
    case "In": {
      const value = payloadAt(subject, when.path)
      return when.values.some((other) => planNames.equalsJson(value, other))
    }
    case "GreaterThan":
      return compareValues(payloadAt(subject, when.path), when.value) === 1
    case "LessThan":
      return compareValues(payloadAt(subject, when.path), when.value) === -1
    case "Matches": {
      const value = payloadAt(subject, when.path)
      return typeof value === "string" && patterns.get(when.pattern)?.test(value) === true
    }
    case "Text":
      return subject.text === when.value
  }
}

const testCondition = (when: When, subject: Subject, custom: (name: string) => boolean): boolean => {
  const { patterns, problems } = analyze(when)
  const go = (when: When): boolean => {
    switch (when._tag) {
      case "And":
        return when.all.every(go)
      case "Or":
        return when.any.some(go)
      case "Not":
        return !go(when.when)
      case "Custom":
        return custom(when.name)
      default:
        return testLeaf(when, subject, patterns)
    }
  }
  return problems.length === 0 && go(when)
}

const evaluateCondition = <E, R>(
  when: When,
  subject: Subject,
  custom: (name: string) => Effect.Effect<boolean, E, R>
): Effect.Effect<boolean, E, R> =>
  Effect.suspend(() => {
    const { customs, patterns, problems } = analyze(when)
    if (problems.length > 0) return Effect.succeed(false)
    if (customs.length === 0) return Effect.succeed(testCondition(when, subject, () => false))

    /** Whether one of them gives `stop`; those after it are not asked. */
    const any = (whens: ReadonlyArray<When>, stop: boolean): Effect.Effect<boolean, E, R> =>
      Effect.gen(function* () {
        for (const when of whens) {
          if ((yield* go(when)) === stop) return true
        }
        return false
      })

    const go = (when: When): Effect.Effect<boolean, E, R> => {
      switch (when._tag) {
        case "And":
          return Effect.map(any(when.all, false), (found) => !found)
        case "Or":
          return any(when.any, true)
        case "Not":
          return Effect.map(go(when.when), (holds) => !holds)
        case "Custom":
          return custom(when.name)
        default:
          return Effect.succeed(testLeaf(when, subject, patterns))
      }
    }
    return go(when)
  })

const maxValue = 40

const maxLabel = 160

/** No more conditions than that fit into a label. */
const maxShown = 64

interface Left {
  conditions: number
}

const plainKey = /^[\p{L}_][\p{L}\p{N}_-]*$/u

const labelPath = (path: Path): string => {
  let out = ""
  for (const token of path) {
    if (typeof token === "number") out += `[${token}]`
    else if (!plainKey.test(token)) out += `[${JSON.stringify(planNames.shorten(token, maxValue))}]`
    else out += out === "" ? planNames.shorten(token, maxValue) : `.${planNames.shorten(token, maxValue)}`
  }
  return path.length === 0 ? "payload" : out.startsWith("[") ? `payload${out}` : out
}

const scalar = (value: string | number | boolean | null): string =>
  typeof value === "string" ? JSON.stringify(planNames.shorten(value, maxValue)) : String(value)

/** A value in a few characters; what is inside of arrays and objects is told only if it is short. */
const literal = (value: Schema.Json): string =>
  typeof value === "object" && value !== null ? planNames.shorten(shallow(value), maxValue) : scalar(value)

const shallow = (value: Schema.JsonArray | Schema.JsonObject): string => {
  const inner = (item: Schema.Json | undefined) => {
    if (typeof item !== "object" || item === null) return scalar(item ?? null)
    return Array.isArray(item) ? "[…]" : "{…}"
  }
  if (planNames.isArray(value)) return `[${value.slice(0, maxValue).map(inner).join(", ")}]`
  const keys = Object.keys(value).slice(0, maxValue)
  return `{${keys.map((key) => `${JSON.stringify(planNames.shorten(key, maxValue))}: ${inner(value[key])}`).join(", ")}}`
}

const labelList = (values: ReadonlyArray<Schema.Json>): string => shallow(values)

const labelNot = (when: When, left: Left): string => {
  switch (when._tag) {
    case "Equals":
      return `${labelPath(when.path)} ≠ ${literal(when.value)}`
    case "Empty":
      return `${labelPath(when.path)} is not empty`
    case "In":
      return `${labelPath(when.path)} not in ${labelList(when.values)}`
    case "Matches":
      return `${labelPath(when.path)} does not match ${literal(when.pattern)}`
    case "Text":
      return `text ≠ ${literal(when.value)}`
    default:
      return `not ${labelNested(when, left)}`
  }
}

const labelNested = (when: When, left: Left): string => {
  const text = writeLabel(when, left)
  const many = (when._tag === "And" && when.all.length > 1) || (when._tag === "Or" && when.any.length > 1)
  return many ? `(${text})` : text
}

const labelAll = (whens: ReadonlyArray<When>, word: string, none: string, left: Left): string => {
  const [only, second] = whens
  if (only === undefined) return none
  if (second === undefined) return writeLabel(only, left)
  return whens
    .slice(0, maxShown)
    .map((when) => labelNested(when, left))
    .join(` ${word} `)
}

const writeLabel = (when: When, left: Left): string => {
  left.conditions -= 1
  if (left.conditions < 0) return "…"
  switch (when._tag) {
    case "Equals":
      return `${labelPath(when.path)} = ${literal(when.value)}`
    case "Empty":
      return `${labelPath(when.path)} is empty`
    case "In":
      return `${labelPath(when.path)} in ${labelList(when.values)}`
    case "GreaterThan":
      return `${labelPath(when.path)} > ${literal(when.value)}`
    case "LessThan":
      return `${labelPath(when.path)} < ${literal(when.value)}`
    case "Matches":
      return `${labelPath(when.path)} matches ${literal(when.pattern)}`
    case "Text":
      return `text = ${literal(when.value)}`
    case "And":
      return labelAll(when.all, "and", "always", left)
    case "Or":
      return labelAll(when.any, "or", "never", left)
    case "Not":
      return labelNot(when.when, left)
    case "Custom":
      return `${plainKey.test(when.name) ? planNames.shorten(when.name, maxValue) : JSON.stringify(planNames.shorten(when.name, maxValue))}()`
  }
}

/** A condition in one line of at most 160 characters or so. */
const labelCondition = (when: When): string => planNames.shorten(writeLabel(when, { conditions: maxShown }), maxLabel)
