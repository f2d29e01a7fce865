/**
 * Plans: steps, references, routes and bands as data, checked before they run,
 * resumable and drawable.
 *
 * @since 0.1.0
 */
export * as Checkpoint from "./Checkpoint.ts"
export * as CheckpointError from "./CheckpointError.ts"
export * as AgentMemory from "./AgentMemory.ts"
export * as Plan from "./Plan.ts"
export * as PlanCodec from "./PlanCodec.ts"
export * as PlanDefinition from "./PlanDefinition.ts"
export * as PlanError from "./PlanError.ts"
export * as PlanEvent from "./PlanEvent.ts"
export * as PlanEventError from "./PlanEventError.ts"
export * as PlanInput from "./PlanInput.ts"
export * as PlanInvalid from "./PlanInvalid.ts"
export * as PlanOptions from "./PlanOptions.ts"
export * as PlanOutcome from "./PlanOutcome.ts"
export * as PlanProblem from "./PlanProblem.ts"
export * as PlanRefs from "./PlanRefs.ts"
export * as PlanRegistry from "./PlanRegistry.ts"
export * as PlanResult from "./PlanResult.ts"
export * as PlanRunEvent from "./PlanRunEvent.ts"
export * as PlanRunState from "./PlanRunState.ts"
export * as PlanTransition from "./PlanTransition.ts"
export * as Reference from "./Reference.ts"
export * as RegistryIncomplete from "./RegistryIncomplete.ts"
export * as RetryPolicy from "./RetryPolicy.ts"
export * as Step from "./Step.ts"
export * as StepSignal from "./StepSignal.ts"
export * as Target from "./Target.ts"
export * as When from "./When.ts"
