import type { StepDefinition } from "../../PlanDefinition.ts"
import type { Reference } from "../../Reference.ts"

/** What a step reads, and in which slot. */
export const referencesOf = (
  step: StepDefinition
): ReadonlyArray<{ readonly slot: "task" | "context"; readonly reference: Reference }> => {
  const { context, task } = step
  const contexts = context === undefined ? [] : isList(context) ? context : [context]
  return [{ slot: "task", reference: task }, ...contexts.map((reference) => ({ slot: "context" as const, reference }))]
}

// Array.isArray does not narrow readonly arrays out of a union.
const isList = (context: Reference | ReadonlyArray<Reference>): context is ReadonlyArray<Reference> =>
  Array.isArray(context)
