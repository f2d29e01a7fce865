/**
 * What is wrong with a plan, all of it, before anything runs.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type { BoundTool } from "../tool/BoundTool.ts"
import type { ToolArguments } from "./internal/live.ts"
import type { PlanDefinition, StepDefinition } from "./PlanDefinition.ts"
import type { PlanProblem } from "./PlanProblem.ts"

/**
 * The largest `maxIterations` of a plan: a million.
 *
 * @category constants
 * @since 0.1.0
 */
export const maxIterationsLimit = 1_000_000

/**
 * What the names of a plan can stand for when it is bound.
 *
 * @category models
 * @since 0.1.0
 */
export interface Bindings {
  readonly tools: ReadonlyMap<string, BoundTool>
  readonly agents: ReadonlySet<string>
  readonly memories: ReadonlyMap<string, { readonly text: boolean; readonly output: boolean }>
}

/**
 * The problems of a plan's structure.
 *
 * @category validation
 * @since 0.1.0
 */
export const structural = (definition: PlanDefinition): ReadonlyArray<PlanProblem> => {
  void definition
  return []
}

/**
 * The problems of a plan with what it is bound with.
 *
 * @category validation
 * @since 0.1.0
 */
export const binding = (definition: PlanDefinition, bindings: Bindings): ReadonlyArray<PlanProblem> => {
  void definition
  void bindings
  return []
}

/**
 * What is legal in a plan and probably not meant.
 *
 * @category validation
 * @since 0.1.0
 */
export const warnings = (definition: PlanDefinition): ReadonlyArray<PlanProblem> => {
  void definition
  return []
}

/**
 * How a tool takes what a step gives it.
 *
 * @category validation
 * @since 0.1.0
 */
export const toolArguments = (tool: BoundTool, step: StepDefinition): Result.Result<ToolArguments, PlanProblem> => {
  void step
  return Result.succeed({ _tag: "Text", task: tool.contract.name, context: undefined })
}
