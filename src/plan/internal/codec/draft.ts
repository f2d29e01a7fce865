/** A definition as it was read, before a registry says what its targets are. */
import * as Schema from "effect/Schema"
import { type PlanDefinition, StepDefinition } from "../../PlanDefinition.ts"

/**
 * A plan of version 1 or 2 may name the kind of a target as it likes, or not at all:
 * the entry of the registry decides. `wire` is that kind as a message shows it.
 */
export type DraftTarget = StepDefinition["target"] | { readonly kind: "any"; readonly name: string; readonly wire: string }

export type DraftStep = Omit<StepDefinition, "target"> & { readonly target: DraftTarget }

export interface Draft extends Omit<PlanDefinition, "steps"> {
  readonly steps: ReadonlyArray<DraftStep>
}

export const Draft: Schema.Schema<Draft> = Schema.Struct({ steps: Schema.Array(StepDefinition) }) as never
