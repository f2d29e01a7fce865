/** Running a plan, over the one driver. Types and spans of the public functions lie above. */
import * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import type * as Stream from "effect/Stream"
import { streamOf } from "../../../agent/AgentEvent.ts"
import type { PlanError } from "../../PlanError.ts"
import type { PlanEvent } from "../../PlanEvent.ts"
import type * as PlanInput from "../../PlanInput.ts"
import type { PlanOptions, ResumeOptions, RunManyOptions } from "../../PlanOptions.ts"
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
  options: ResumeOptions = {}
): Effect.Effect<PlanResult<unknown>, PlanError> => Drive.drive(bound, { _tag: "Resume", state }, options, silent)

const streaming = (
  bound: BoundPlan,
  begin: Drive.Begin,
  options: ResumeOptions
): Stream.Stream<PlanEvent<unknown>, PlanError> =>
  streamOf((emit) => Drive.drive(bound, begin, options, { streaming: true, emit }))

export const stream = (
  bound: BoundPlan,
  input: PlanInput.Input,
  options: PlanOptions = {}
): Stream.Stream<PlanEvent<unknown>, PlanError> => streaming(bound, { _tag: "Start", input }, options)

export const resumeStream = (
  bound: BoundPlan,
  state: PlanRunState,
  options: ResumeOptions = {}
): Stream.Stream<PlanEvent<unknown>, PlanError> => streaming(bound, { _tag: "Resume", state }, options)

export const runMany = (
  bound: BoundPlan,
  inputs: Iterable<PlanInput.Input>,
  options: RunManyOptions = {}
): Effect.Effect<ReadonlyArray<Result.Result<PlanResult<unknown>, PlanError>>> => {
  const { bands, concurrency, ...rest } = options
  return Effect.flatMap(Drive.atATime("concurrency", concurrency), (concurrency) =>
    Effect.forEach(inputs, (input) => Effect.result(run(bound, input, { ...rest, concurrency: bands })), {
      concurrency
    })
  )
}
