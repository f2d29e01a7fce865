/** Why a run of a plan failed, as why a run of an agent did. */
import * as AgentError from "../../../agent/AgentError.ts"
import type { PlanError, Reason } from "../../PlanError.ts"

/** Where and what, without the words of those who failed. */
const problemOf = (reason: Reason): string | undefined => {
  switch (reason._tag) {
    case "StepFailed":
      return `the step ${[...reason.path, reason.step].map((step) => JSON.stringify(step)).join(" > ")} failed with ${reason.failure.type}`
    case "PredicateFailed":
      return `the predicate ${JSON.stringify(reason.predicate)} of the step ${JSON.stringify(reason.step)} failed with ${reason.failure.type}`
    case "OutputInvalid":
      return `what the step ${JSON.stringify(reason.step)} gave does not fit the output schema of the plan`
    case "ReferenceFailed":
      return reason.message
    default:
      return undefined
  }
}

export const reasonOf = (error: PlanError, maxDepth: number): AgentError.Reason => {
  const { reason } = error
  // Too deep is too deep for all of the nest, as among agents.
  if (reason._tag === "StepFailed" && reason.failure.type === "MaxDepth") {
    return AgentError.withCause(new AgentError.MaxDepth({ limit: maxDepth }), error)
  }
  if (reason._tag === "PlanChanged") {
    return new AgentError.DefinitionChanged({ expected: reason.found, found: reason.expected })
  }
  const problem = problemOf(reason)
  return AgentError.withCause(
    new AgentError.DelegateFailed({ error: reason._tag, ...(problem === undefined ? undefined : { problem }) }),
    error
  )
}
