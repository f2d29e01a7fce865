/** Why a run of a plan failed, as why a run of an agent did. */
import * as Option from "effect/Option"
import * as AgentError from "../../../agent/AgentError.ts"
import { PayloadError } from "../../../payload/PayloadError.ts"
import { causeOf, type PlanError, type Reason, type StepFailed } from "../../PlanError.ts"
import { giveItAnOutput } from "../engine/output.ts"
import { InputInvalid, OutputInvalid } from "../step/error.ts"

/** What plans find themselves. Their messages say places and kinds, and quote nobody but who decides. */
const ownTypes: ReadonlySet<string> = new Set([
  "Timeout",
  "Denied",
  "InputInvalid",
  "OutputInvalid",
  "OutputNotJson",
  "MaxSteps",
  "InvalidOutput",
  "Stopped",
  "Interrupted"
])

/** An error of a step can have any type; then it is the cause. */
const isOwn = (reason: StepFailed): boolean =>
  ownTypes.has(reason.failure.type) &&
  Option.match(causeOf(reason), {
    onNone: () => true,
    onSome: (cause) => cause instanceof PayloadError || cause instanceof InputInvalid || cause instanceof OutputInvalid
  })

/** What a model can do something with; advice is for whoever wrote the plan. */
const withoutAdvice = (message: string): string => message.replace(giveItAnOutput, "")

/** Where and what, without the words of those who failed. */
const problemOf = (reason: Reason): string | undefined => {
  switch (reason._tag) {
    case "StepFailed": {
      const place = [...reason.path, reason.step].map((step) => JSON.stringify(step)).join(" > ")
      const found = `the step ${place} failed with ${reason.failure.type}`
      return isOwn(reason) ? `${found}: ${withoutAdvice(reason.failure.message)}` : found
    }
    case "PredicateFailed":
      return `the predicate ${JSON.stringify(reason.predicate)} of the step ${JSON.stringify(reason.step)} failed with ${reason.failure.type}`
    case "OutputInvalid":
      return `what the step ${JSON.stringify(reason.step)} gave does not fit the output schema of the plan: ${reason.failure.message}`
    case "ReferenceFailed":
      return `the step ${JSON.stringify(reason.step)} reads ${reason.reference}, which has no result`
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
