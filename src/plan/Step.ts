/**
 * One step of a plan: what runs, what it reads, and where the plan goes on.
 *
 * @since 0.1.0
 */
import type * as Types from "effect/Types"
import type { StepDefinition } from "./PlanDefinition.ts"
import type { LivePredicate, LiveStep } from "./internal/live.ts"

/** @category type IDs @since 0.1.0 */
export type TypeId = "~effect-emissary/plan/Step"

/** @category type IDs @since 0.1.0 */
export const TypeId: TypeId = "~effect-emissary/plan/Step"

/**
 * A step named `Name` that refers to the steps `Refs` and requires `R`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Step<out Name extends string, out Refs extends string, out R> {
  readonly [TypeId]: { readonly _Refs: Types.Covariant<Refs>; readonly _R: Types.Covariant<R> }
  readonly name: Name
  readonly definition: StepDefinition
  /** @internal */
  readonly live: LiveStep
  /** @internal */
  readonly predicates: ReadonlyMap<string, LivePredicate>
}
