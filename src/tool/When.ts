/**
 * Conditions of routes and of approvals, as data.
 *
 * A condition is a small tree of tagged objects. It can be written to JSON, drawn and
 * compared, and it means the same wherever it is read. Only {@link custom} names code,
 * a predicate of a registry, and it does so by name.
 *
 * **When to use**
 *
 * As the second half of a step's `routes`:
 * `routes: [["apology", When.field("items").empty()]]`. Or in `ToolSettings.approvalWhen`, for the calls of a tool that a person
 * has to approve: the payload is then an object of the arguments, the context and their sources.
 *
 * **Details**
 *
 * - A condition looks at the payload of the step that has the route: the output
 *   of the step, as JSON. `field("user", "age")` is a member of a member, `field("items", 0)`
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
 * Nothing of this fails while a plan runs. A condition that cannot be used is refused when a
 * plan is made or decoded.
 *
 * @since 0.1.0
 */

import type * as Schema from "effect/Schema"
import type { Path, When } from "./internal/condition.ts"

export {
  /**
   * A condition, and its Schema, whose JSON is `{ "kind": "empty", "path": ["items"] }`.
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
   * | `Custom` | the predicate `name` of the registry returns true |
   *
   * The Schema refuses a condition that cannot be used anywhere: a regular expression that does not run in
   * linear time, more than 16 levels, more than 1000 conditions, a number that is not
   * finite, an index below zero. `Plan.make` and `Plan.decode` refuse it as well, and a regular expression for RE2 if there
   * is no `Re2.layer`.
   *
   * @category models
   * @since 0.1.0
   */
  When
} from "./internal/condition.ts"

/** The conditions on one value of the payload. */
const valueAt = (path: Path) => ({
  /** It is that value. Absent is `null`. */
  equals: (value: Schema.Json): When => ({ _tag: "Equals", path, value }),
  notEquals: (value: Schema.Json): When => not({ _tag: "Equals", path, value }),
  /** Another name of `equals`, for `true`, `false` and `null`. */
  is: (value: Schema.Json): When => ({ _tag: "Equals", path, value }),
  /** It is absent, `null`, or a string, array or object without content. */
  empty: (): When => ({ _tag: "Empty", path }),
  notEmpty: (): When => not({ _tag: "Empty", path }),
  /** It is one of these values. */
  in: (values: ReadonlyArray<Schema.Json>): When => ({ _tag: "In", path, values }),
  notIn: (values: ReadonlyArray<Schema.Json>): When => not({ _tag: "In", path, values }),
  /** It is a greater number, or a string that is sorted after that one. */
  greaterThan: (value: number | string): When => ({ _tag: "GreaterThan", path, value }),
  /** It is a smaller number, or a string that is sorted before that one. */
  lessThan: (value: number | string): When => ({ _tag: "LessThan", path, value }),
  /** It is a string in which that regular expression is found. */
  matches: (pattern: string): When => ({ _tag: "Matches", path, pattern })
})

/**
 * The conditions on one value of the payload, see {@link field} and {@link payload}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Value extends ReturnType<typeof valueAt> {}

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
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const field = (...path: readonly [string | number, ...ReadonlyArray<string | number>]): Value => valueAt(path)

/**
 * The condition that holds if the other does not.
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
 * assert.deepStrictEqual(yes, { _tag: "In", path: [], values: ["yes", "y", true] })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const payload: Value = valueAt([])

/**
 * The condition that the payload has this text: a string is its own text, `null` is
 * the empty one, and anything else has its canonical JSON. White space and case count.
 *
 * @category constructors
 * @since 0.1.0
 */
export const text = (value: string): When => ({ _tag: "Text", value })

/**
 * The condition that all of them hold. They are tried in order, up to the first that does not.
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
 * assert.strictEqual(urgent._tag, "And")
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const and = (...all: ReadonlyArray<When>): When => ({ _tag: "And", all })

/**
 * The condition that any of them holds. They are tried in order, up to the first that does.
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
 * A predicate of the registry, by name.
 *
 * **When to use**
 *
 * Use it for what the other conditions cannot express: to compare two members, to count, to
 * ask a service. The registry that the plan is decoded with needs a predicate of that name.
 *
 * @category constructors
 * @since 0.1.0
 */
export const custom = (name: string): When => ({ _tag: "Custom", name })
