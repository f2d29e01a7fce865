/** A definition as it was read, before a registry says what its targets are. */
import type { PlanDefinition, SchemaRef, StepDefinition, TargetRef } from "../../PlanDefinition.ts"

/**
 * A target of version 1 or 2 whose kind is none that we know: the entry of the registry
 * decides. `wire` is the kind as a message shows it.
 */
export interface OpenTarget {
  readonly kind: "any"
  readonly name: string
  readonly wire: string
}

export interface DraftStep extends Omit<StepDefinition, "target"> {
  readonly target: TargetRef | OpenTarget
}

export interface Draft extends Omit<PlanDefinition, "steps"> {
  /** Whether it is of version 1 or 2, where `str` and `Any` stand for having no schema. */
  readonly lazy?: true
  readonly steps: ReadonlyArray<DraftStep>
}

/** The schema that LazyBridge means when it names none. */
export const isDefault = (slot: "input" | "output", ref: SchemaRef): boolean =>
  ref.name === (slot === "output" ? "str" : "Any")

const settleStep = (step: DraftStep, lazy: boolean): StepDefinition => {
  const { input, output, target, ...rest } = step
  return {
    ...rest,
    target: target.kind === "any" ? { kind: "function", name: target.name } : target,
    ...(input === undefined || (lazy && isDefault("input", input)) ? {} : { input }),
    ...(output === undefined || (lazy && isDefault("output", output)) ? {} : { output })
  }
}

/** What a draft says without a registry: a target of an unknown kind is taken for a function. */
export const settle = ({ lazy, ...draft }: Draft): PlanDefinition => ({
  ...draft,
  steps: draft.steps.map((step) => settleStep(step, lazy === true))
})
