/**
 * Plans.
 *
 * @since 0.1.0
 */
import type * as Types from "effect/Types"
import type { Agent } from "../agent/Agent.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"

/** @category type IDs @since 0.1.0 */
export type TypeId = "~effect-emissary/plan/Plan"

/** @category type IDs @since 0.1.0 */
export const TypeId: TypeId = "~effect-emissary/plan/Plan"

/** @category type IDs @since 0.1.0 */
export type BoundTypeId = "~effect-emissary/plan/Plan/Bound"

/** @category type IDs @since 0.1.0 */
export const BoundTypeId: BoundTypeId = "~effect-emissary/plan/Plan/Bound"

/**
 * A plan whose structure was checked. It cannot run before it is bound.
 *
 * @category models
 * @since 0.1.0
 */
export interface Plan<out A, out R> {
  readonly [TypeId]: { readonly _A: Types.Covariant<A>; readonly _R: Types.Covariant<R> }
  readonly definition: PlanDefinition
}

/**
 * A plan that can run. It is an agent, too.
 *
 * @category models
 * @since 0.1.0
 */
export interface Bound<out A, out R = never> extends Agent<A, R> {
  readonly [BoundTypeId]: BoundTypeId
  readonly definition: PlanDefinition
  readonly digest: string
}
