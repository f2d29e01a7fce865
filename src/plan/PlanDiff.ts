/**
 * What changed from one plan to another, as data.
 *
 * **Details**
 *
 * A difference says what has to be done to the first plan to get the second:
 * `apply(diff(a, b), a)` is `b`. Steps are the same if they have the same name; of
 * several with one name, the first is compared with the first, and so on. A step that
 * was renamed was removed and added.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { applyTo } from "./internal/diff/apply.ts"
import { compare } from "./internal/diff/compare.ts"
import { PlanDefinition, StepDefinition } from "./PlanDefinition.ts"

/**
 * A field that changed. `before` is absent if it was not there, `after` if it is there
 * no more.
 *
 * @category models
 * @since 0.1.0
 */
export interface FieldChange {
  readonly field: string
  readonly before?: Schema.Json
  readonly after?: Schema.Json
}

/**
 * What happened to a step. Positions count from 0: `index` of `Removed` and `Changed`,
 * and `from`, in the plan before; `index` of `Added`, and `to`, in the plan after.
 *
 * @category models
 * @since 0.1.0
 */
export type StepChange =
  | { readonly _tag: "Removed"; readonly step: string; readonly index: number; readonly definition: StepDefinition }
  | {
      readonly _tag: "Changed"
      readonly step: string
      readonly index: number
      readonly fields: ReadonlyArray<FieldChange>
    }
  | { readonly _tag: "Moved"; readonly step: string; readonly from: number; readonly to: number }
  | { readonly _tag: "Added"; readonly step: string; readonly index: number; readonly definition: StepDefinition }

/**
 * What changed: fields of the plan, and its steps. Of steps that changed places, as few
 * as possible are told to have moved. A step can have changed and moved.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanDiff {
  readonly plan: ReadonlyArray<FieldChange>
  readonly steps: ReadonlyArray<StepChange>
}

const Position = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const FieldChange: Schema.Codec<FieldChange> = Schema.Struct({
  field: Schema.String,
  before: Schema.optionalKey(Schema.Json),
  after: Schema.optionalKey(Schema.Json)
})

const StepChange: Schema.Codec<StepChange> = Schema.Union([
  Schema.TaggedStruct("Removed", { step: Schema.String, index: Position, definition: StepDefinition }),
  Schema.TaggedStruct("Changed", { step: Schema.String, index: Position, fields: Schema.Array(FieldChange) }),
  Schema.TaggedStruct("Moved", { step: Schema.String, from: Position, to: Position }),
  Schema.TaggedStruct("Added", { step: Schema.String, index: Position, definition: StepDefinition })
])

/**
 * Schema of {@link PlanDiff}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const PlanDiff: Schema.Codec<PlanDiff> = Schema.Struct({
  plan: Schema.Array(FieldChange),
  steps: Schema.Array(StepChange)
})

/**
 * The difference does not fit the plan it is applied to, for it was made from another.
 *
 * @category errors
 * @since 0.1.0
 */
export class PlanDiffError extends Schema.TaggedError<PlanDiffError>("effect-emissary/plan/PlanDiffError")(
  "PlanDiffError",
  {
    plan: Schema.String,
    problem: Schema.String
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Plan ${JSON.stringify(this.plan)}: ${this.problem}. Apply a difference to the plan that it was made from`
  }
}

/**
 * What can be compared: a definition, or anything that has one, such as a plan.
 *
 * @category models
 * @since 0.1.0
 */
export type Source = PlanDefinition | { readonly definition: PlanDefinition }

const definitionOf = (source: Source): PlanDefinition => ("definition" in source ? source.definition : source)

/**
 * What changed from one plan to another.
 *
 * **Example** (A step that was changed, and undone)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { PlanDiff, type PlanDefinition, Reference } from "effect-emissary"
 *
 * const step: PlanDefinition.StepDefinition = {
 *   name: "write",
 *   target: { kind: "agent", name: "writer" },
 *   task: Reference.fromStart,
 *   parallel: false
 * }
 * const before = { name: "p", maxIterations: 100, steps: [step] }
 * const after = { ...before, steps: [{ ...step, writes: "draft" }] }
 *
 * const diff = PlanDiff.diff(before, after)
 * assert.deepStrictEqual(diff, {
 *   plan: [],
 *   steps: [{ _tag: "Changed", step: "write", index: 0, fields: [{ field: "writes", after: "draft" }] }]
 * })
 * assert.deepStrictEqual(PlanDiff.apply(diff, before), Result.succeed(after))
 * assert.ok(PlanDiff.isEmpty(PlanDiff.diff(after, after)))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const diff = (before: Source, after: Source): PlanDiff => compare(definitionOf(before), definitionOf(after))

/**
 * Whether nothing changed.
 *
 * @category guards
 * @since 0.1.0
 */
export const isEmpty = (self: PlanDiff): boolean => self.plan.length === 0 && self.steps.length === 0

/**
 * The plan after the changes.
 *
 * **Details**
 *
 * Fails with a {@link PlanDiffError} if the plan is not the one that the difference was
 * made from: a step is elsewhere, or a field has another value. Whether the outcome is a
 * plan that can run is for `Plan.make` and `Plan.decode` to say.
 *
 * @category combinators
 * @since 0.1.0
 */
export const apply = (self: PlanDiff, before: Source): Result.Result<PlanDefinition, PlanDiffError> => {
  const definition = definitionOf(before)
  return Result.mapError(
    Result.flatMap(applyTo(self, definition), (json) =>
      Result.mapError(
        Schema.decodeUnknownResult(PlanDefinition)(json),
        () => "expected a plan, found none after the changes"
      )
    ),
    (problem) => new PlanDiffError({ plan: definition.name, problem })
  )
}
