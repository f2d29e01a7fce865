/**
 * The error of a plan that names what its registry does not have.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as internal from "./internal/codec/entryMessage.ts"

/**
 * One name that cannot be used.
 *
 * **Details**
 *
 * - `registry` and `name`: where it was looked up, and as what.
 * - `step` and `path`: the step that needs it (absent for the plan as a whole), and the
 *   JSON Pointer of the place that names it.
 * - `expected` says what it should be, `problem` what is wrong.
 * - `available`: the names which that registry does have, `suggestion` the closest.
 *
 * | code | problem |
 * |---|---|
 * | `Missing` | there is no entry of that name |
 * | `WrongKind` | the entry is of another kind, such as a function where an agent is named |
 * | `Different` | the schema of the entry does not say what the schema on the wire says |
 * | `Ambiguous` | there are two entries for it |
 * | `Unusable` | the entry can never do what is asked, such as a schema without JSON Schema |
 *
 * @category models
 * @since 0.1.0
 */
export const Entry = Schema.Struct({
  code: Schema.Literals(["Missing", "WrongKind", "Different", "Ambiguous", "Unusable"]),
  registry: Schema.Literals(["targets", "predicates", "schemas"]),
  name: Schema.String,
  step: Schema.optionalKey(Schema.String),
  path: Schema.String,
  expected: Schema.String,
  problem: Schema.String,
  available: Schema.Array(Schema.String),
  suggestion: Schema.optionalKey(Schema.String)
})

/**
 * One name that cannot be used.
 *
 * @category models
 * @since 0.1.0
 */
export type Entry = typeof Entry.Type

/**
 * A plan names functions, agents, predicates or schemas that its registry does not
 * have, or has as something else. All of them are here: targets and schemas in the
 * order of the steps, then predicates.
 *
 * **Example** (What is missing)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { PlanCodec, Target } from "effect-emissary"
 *
 * const wire = { steps: [{ name: "s", target: { kind: "callable", name: "fetsh" } }] }
 * const fetch = Target.make("fetch", () => Effect.succeed("found"))
 * const error = Effect.runSync(Effect.flip(PlanCodec.decode(wire, { targets: { fetch } })))
 *
 * assert.ok(error._tag === "RegistryIncomplete")
 * const [entry] = error.entries
 * assert.deepStrictEqual([entry.code, entry.registry, entry.suggestion], ["Missing", "targets", "fetch"])
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class RegistryIncomplete extends Schema.TaggedError<RegistryIncomplete>(
  "effect-emissary/plan/RegistryIncomplete"
)("RegistryIncomplete", { plan: Schema.String, entries: Schema.NonEmptyArray(Entry) }) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return internal.message(this.plan, this.entries)
  }
}
