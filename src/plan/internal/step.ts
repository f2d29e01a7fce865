/** What steps are made of: targets, schemas, times and retries, before a plan checks them. */
import * as Effect from "effect/Effect"
import type { StepDefinition } from "../PlanDefinition.ts"
import { type FunctionTarget, type StepSchema, TypeId } from "../Target.ts"
import type { LiveTarget } from "./live.ts"

/** A step as it was written. */
export interface StepParts {
  readonly definition: StepDefinition
  readonly target: LiveTarget
  readonly input: StepSchema | undefined
  readonly output: StepSchema | undefined
}

/** A function under a name. */
export const makeTarget = (name: string, ...rest: ReadonlyArray<unknown>): FunctionTarget => ({
  [TypeId]: { _R: (_: never) => _ },
  name,
  input: undefined,
  output: undefined,
  execute: (input) => Effect.die([rest, input])
})
