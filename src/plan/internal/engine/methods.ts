/** Running a plan, over the one driver. Types and spans of the public functions lie above. */
import * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { PlanError } from "../../PlanError.ts"
import type { PlanEvent } from "../../PlanEvent.ts"
import type * as PlanInput from "../../PlanInput.ts"
import type { PlanOptions, RunManyOptions } from "../../PlanOptions.ts"
import type { PlanResult } from "../../PlanResult.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import type { BoundPlan } from "../live.ts"
import * as Drive from "./drive.ts"

const silent: Drive.Sink = { streaming: false, emit: () => Effect.void }

export const run = (
  bound: BoundPlan,
  input: PlanInput.Input,
  options: PlanOptions = {}
): Effect.Effect<PlanResult<unknown>, PlanError> => Drive.drive(bound, { _tag: "Start", input }, options, silent)

export const resume = (
  bound: BoundPlan,
  state: PlanRunState,
  options: PlanOptions = {}
): Effect.Effect<PlanResult<unknown>, PlanError> => Drive.drive(bound, { _tag: "Resume", state }, options, silent)

export const stream = (
  bound: BoundPlan,
  input: PlanInput.Input,
  options: PlanOptions = {}
): Stream.Stream<PlanEvent<unknown>, PlanError> => Stream.die(["to do", bound, input, options])

export const resumeStream = (
  bound: BoundPlan,
  state: PlanRunState,
  options: PlanOptions = {}
): Stream.Stream<PlanEvent<unknown>, PlanError> => Stream.die(["to do", bound, state, options])

export const runMany = (
  bound: BoundPlan,
  inputs: Iterable<PlanInput.Input>,
  options: RunManyOptions = {}
): Effect.Effect<ReadonlyArray<Result.Result<PlanResult<unknown>, PlanError>>> =>
  Effect.die(["to do", bound, inputs, options])
