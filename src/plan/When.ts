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
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as check from "./internal/when/check.ts"
import * as internalEvaluate from "./internal/when/evaluate.ts"
import * as internalLabel from "./internal/when/label.ts"

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
export const maxNesting: number = check.maxNesting

/**
 * How many conditions one condition may be made of, itself included: 1000.
 *
 * @category limits
 * @since 0.1.0
 */
export const maxConditions: number = check.maxConditions

const Path = Schema.Array(Schema.Union([Schema.String, Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))]))

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
  Schema.makeFilter((when) =>
    check.check(when).problems.map((problem) => ({ path: problem.path, issue: problem.reason }))
  )
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
 * import { When } from "effect-emissary"
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
 * The payload itself.
 *
 * **Example** (An answer that is one of some words)
 *
 * ```ts
 * import assert from "node:assert"
 * import { When } from "effect-emissary"
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
 * import { When } from "effect-emissary"
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
 * Whether the other does not hold.
 *
 * @category combinators
 * @since 0.1.0
 */
export const not = (when: When): When => ({ _tag: "Not", when })

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
 * import { When } from "effect-emissary"
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
export const problems = (when: When): ReadonlyArray<Problem> => check.check(when).problems

/**
 * The names of all predicates that a condition asks for, each once, in order.
 *
 * **Example** (What a registry needs)
 *
 * ```ts
 * import assert from "node:assert"
 * import { When } from "effect-emissary"
 *
 * const when = When.or(When.custom("is_vip"), When.not(When.custom("is_weekend")), When.custom("is_vip"))
 * assert.deepStrictEqual(When.customs(when), ["is_vip", "is_weekend"])
 * ```
 *
 * @category getters
 * @since 0.1.0
 */
export const customs = (when: When): ReadonlyArray<string> => check.check(when).customs

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
 * import { When } from "effect-emissary"
 *
 * assert.strictEqual(When.label(When.field("items", 0, "name").notEquals("x")), `items[0].name ≠ "x"`)
 * assert.strictEqual(When.label(When.not(When.custom("is_vip"))), "not is_vip()")
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const label = (when: When): string => internalLabel.label(when)

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
 * import { When } from "effect-emissary"
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
  internalEvaluate.test(when, subject, custom)

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
 * import { When } from "effect-emissary"
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
): Effect.Effect<boolean, E, R> => internalEvaluate.evaluate(when, subject, custom)
