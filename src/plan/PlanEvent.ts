/**
 * What a run of a plan tells while it happens.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { AgentEvent } from "../agent/AgentEvent.ts"
import type { StepFailure } from "./PlanOutcome.ts"
import type { PlanResult } from "./PlanResult.ts"
import type { PlanRunEvent, StepRecord } from "./PlanRunEvent.ts"
import * as deltas from "./internal/engine/deltas.ts"
import type { PlanRunState } from "./PlanRunState.ts"

/**
 * One event of a run.
 *
 * **Details**
 *
 * - `path` are the steps of the outer plans, from the outside in: what nested plans tell
 *   comes with it.
 * - `StepSkipped`: a step that a route, or the end of a branch, jumped over. It is told
 *   when that happens; the step may still run later, in a loop.
 * - `RouteTaken` with `rejoin` is the end of a branch.
 * - `StepRetried`: a try failed with `failure`, and try number `attempt` comes after the
 *   pause of the retry policy. `StepStarted` with that `attempt` is told when it begins.
 * - `BandFinished`: all members have finished and count. It does not come when one of them
 *   failed, paused or concluded.
 * - `Agent` is what an agent in a step tells, deltas included.
 * - `StateChanged` is each durable fact with the state after it, after the event that says
 *   what it means. Facts of nested plans are facts of the outermost run.
 * - `Checkpointed`: everything up to `state` is written, under `key`.
 * - `PlanFinished` with an empty `path` is the last event. A run that fails has none: the
 *   stream fails.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanEvent<A> =
  | { readonly _tag: "PlanStarted"; readonly path: Path; readonly resumed: boolean; readonly state: PlanRunState }
  | { readonly _tag: "BandStarted"; readonly path: Path; readonly steps: ReadonlyArray<string> }
  | { readonly _tag: "BandFinished"; readonly path: Path; readonly steps: ReadonlyArray<string> }
  | { readonly _tag: "StepStarted"; readonly path: Path; readonly step: string; readonly attempt: number }
  | {
      readonly _tag: "StepRetried"
      readonly path: Path
      readonly step: string
      readonly attempt: number
      readonly failure: StepFailure
    }
  | { readonly _tag: "Agent"; readonly path: Path; readonly step: string; readonly event: AgentEvent<unknown> }
  | {
      readonly _tag: "StepFinished"
      readonly path: Path
      readonly step: string
      readonly record: StepRecord
      readonly duration: Duration.Duration
    }
  | { readonly _tag: "StepFailed"; readonly path: Path; readonly step: string; readonly failure: StepFailure }
  | { readonly _tag: "StepPaused"; readonly path: Path; readonly step: string; readonly reason: string | undefined }
  | { readonly _tag: "StepSkipped"; readonly path: Path; readonly step: string; readonly router: string }
  | {
      readonly _tag: "RouteTaken"
      readonly path: Path
      readonly step: string
      readonly to: string
      readonly rejoin: boolean
    }
  | { readonly _tag: "StateChanged"; readonly event: PlanRunEvent; readonly state: PlanRunState }
  | { readonly _tag: "Checkpointed"; readonly key: string; readonly state: PlanRunState }
  | { readonly _tag: "PlanFinished"; readonly path: Path; readonly result: PlanResult<A> }

/**
 * The steps of the outer plans, from the outside in; empty in the plan that was run.
 *
 * @category models
 * @since 0.1.0
 */
export type Path = ReadonlyArray<string>

/**
 * Runs a stream to its end, for the result in its last event.
 *
 * **Gotchas**
 *
 * The stream of a plan fails or ends with `PlanFinished`. Of a stream that was cut short
 * (`Stream.take`, a filter that drops the last event) there is no result: that is a
 * defect.
 *
 * @category running
 * @since 0.1.0
 */
export const result = <A, E, R>(self: Stream.Stream<PlanEvent<A>, E, R>): Effect.Effect<PlanResult<A>, E, R> =>
  Effect.flatMap(
    Stream.runLast(self),
    Option.match({
      onNone: () => noResult("no event"),
      onSome: (event) =>
        event._tag === "PlanFinished" && event.path.length === 0 ? Effect.succeed(event.result) : noResult(event._tag)
    })
  )

const noResult = (found: string): Effect.Effect<never> =>
  Effect.die(
    new Error(
      `PlanEvent.result: expected PlanFinished as the last event, found ${found}. Give it the whole stream of a plan.`
    )
  )

/**
 * What the agents of a plan say, while they say it.
 *
 * **Details**
 *
 * The pieces of text of all steps, those of nested plans included, in the order they
 * come. Members of a band speak at the same time, so they are not heard. The text of the
 * result comes at the end, once, if the last step did not say it already: because it is a
 * function, a tool, or a band.
 * What agents that are tools of other agents say is left out.
 *
 * **Example** (Printing a plan's answer)
 *
 * ```ts
 * import { Effect, Stream } from "effect"
 * import { Agent, Plan, PlanEvent, Step, Target } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const writer = Agent.make("writer", { instructions: "Write." })
 *
 * const program = Effect.gen(function*() {
 *   const plan = yield* Plan.make(
 *     Step.make("draft", { target: writer }),
 *     Step.make("sign", { target: Target.make("sign", () => Effect.succeed(" - Ada")) })
 *   )
 *   const bound = yield* Plan.bind(plan)
 *   return yield* Plan.stream(bound, "A greeting").pipe(PlanEvent.textDeltas, Stream.runCollect)
 * }).pipe(Effect.provide(ScriptedModel.layer([{ text: "Hello" }])))
 *
 * assert.strictEqual((await Effect.runPromise(program)).join(""), "Hello - Ada")
 * ```
 *
 * @category projections
 * @since 0.1.0
 */
export const textDeltas: <A, E, R>(self: Stream.Stream<PlanEvent<A>, E, R>) => Stream.Stream<string, E, R> =
  deltas.textDeltas
