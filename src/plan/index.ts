/**
 * Plans: steps, references, routes and parallel groups as data, checked before they run,
 * resumable and drawable.
 *
 * @since 0.1.0
 */
export * as Picture from "./Picture.ts"
export * as Plan from "./Plan.ts"
export * as PlanDefinition from "./PlanDefinition.ts"
export * as PlanError from "./PlanError.ts"
export * as PlanEvent from "./PlanEvent.ts"
export * as PlanInvalid from "./PlanInvalid.ts"
export * as PlanRun from "./PlanRun.ts"
export * as Reference from "./Reference.ts"
export * as Step from "./Step.ts"
export * as When from "../tool/When.ts"
