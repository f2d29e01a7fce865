/** The references of a step, and how messages show them. */
import * as Names from "../../payload/Names.ts"
import type { StepDefinition } from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"

// Array.isArray does not narrow readonly arrays out of a union
export const isList = (context: Reference | ReadonlyArray<Reference>): context is ReadonlyArray<Reference> =>
  Array.isArray(context)

/** What a step reads as its context, as a list in any case. */
export const contextOf = (context: StepDefinition["context"]): ReadonlyArray<Reference> =>
  context === undefined ? [] : isList(context) ? context : [context]

/** What a step reads, and as what. */
export const referencesOf = ({
  context,
  task
}: StepDefinition): ReadonlyArray<{ readonly slot: "task" | "context"; readonly reference: Reference }> => [
  { slot: "task", reference: task },
  ...contextOf(context).map((reference) => ({ slot: "context" as const, reference }))
]

/** A reference as it is written in code. */
export const show = (reference: Reference): string => {
  const call = `${reference._tag.charAt(0).toLowerCase()}${reference._tag.slice(1)}`
  switch (reference._tag) {
    case "FromPrev":
    case "FromStart":
      return call
    case "FromStep":
    case "FromParallel":
    case "FromParallelAll":
      return `${call}(${Names.quote(reference.step)})`
    case "FromMemory":
    case "FromAgent":
      return `${call}(${Names.quote(reference.agent)})`
    case "Literal":
      return `${call}(${Names.quote(reference.value)})`
  }
}
