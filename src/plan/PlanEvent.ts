/**
 * The events of a run of a plan while it happens.
 *
 * @since 0.1.0
 */

import * as Chunk from "effect/Chunk"
import type * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { AgentEvent } from "../agent/AgentEvent.ts"
import type * as planRunParts from "../run/internal/planRunParts.ts"
import type * as PlanRun from "./PlanRun.ts"

/**
 * One event of a run.
 *
 * **Details**
 *
 * - `path` are the steps of the outer plans, the outermost first, for events of nested plans.
 * - `StepSkipped`: a step that a route, or the end of a branch, jumped over. The step may
 *   still run later, in a loop.
 * - `RouteTaken` with `rejoin` is the end of a branch.
 * - `StepRetried`: an attempt failed with `failure`, and attempt number `attempt` follows the
 *   pause of the retry policy. `StepStarted` with that `attempt` is emitted when it begins.
 * - `BandStarted`: the steps of a parallel group (a band) begin.
 * - `BandFinished`: all of them have finished and count. It is not emitted when one of them
 *   failed, paused or concluded.
 * - `Agent` is an event of an agent in a step, deltas included.
 * - `StateChanged` is each durable event with the state after it, after the event with its
 *   meaning. Events of nested plans are events of the outermost run.
 * - `PlanFinished` with an empty `path` is the last event. A run that fails has none: the
 *   stream fails.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanEvent<A> = Data.TaggedEnum<{
  PlanStarted: Place & { readonly resumed: boolean; readonly state: PlanRun.State }
  BandStarted: Place & { readonly steps: ReadonlyArray<string> }
  BandFinished: Place & { readonly steps: ReadonlyArray<string> }
  StepStarted: StepPlace & { readonly attempt: number }
  StepRetried: StepPlace & { readonly attempt: number; readonly failure: planRunParts.StepFailure }
  Agent: StepPlace & { readonly event: AgentEvent<unknown> }
  StepFinished: StepPlace & { readonly record: planRunParts.StepRecord; readonly duration: Duration.Duration }
  StepFailed: StepPlace & { readonly failure: planRunParts.StepFailure }
  StepPaused: StepPlace & { readonly reason: string | undefined }
  StepSkipped: StepPlace & { readonly router: string }
  RouteTaken: StepPlace & { readonly to: string; readonly rejoin: boolean }
  StateChanged: { readonly event: PlanRun.Event; readonly state: PlanRun.State }
  PlanFinished: Place & { readonly result: PlanRun.Result<A> }
}>

/**
 * The place of an event of a plan that may be a step of other plans.
 *
 * @category models
 * @since 0.1.0
 */
export interface Place {
  /** The steps of the outer plans, outermost first. */
  readonly path: ReadonlyArray<string>
}

/**
 * The place of an event of a step.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepPlace extends Place {
  readonly step: string
}

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
export const result = <A, E, R>(self: Stream.Stream<PlanEvent<A>, E, R>): Effect.Effect<PlanRun.Result<A>, E, R> =>
  Effect.flatMap(
    Stream.runLast(self),
    Option.match({
      onNone: () => missingResult("no event"),
      onSome: (event) =>
        event._tag === "PlanFinished" && event.path.length === 0
          ? Effect.succeed(event.result)
          : missingResult(event._tag)
    })
  )

const missingResult = (found: string): Effect.Effect<never> => {
  const expected = "PlanEvent.result: expected PlanFinished as the last event"
  return Effect.die(new Error(`${expected}, found ${found}. Pass it the whole stream of a plan.`))
}

/**
 * The text of the agents of a plan, piece by piece.
 *
 * **Details**
 *
 * The pieces of text of all steps, steps of nested plans included, in the order they come. Members of a parallel group
 * run at the same time, so their text is left out. The text of the result comes at the end, once, unless the last step
 * has emitted it: a function, a tool or a parallel group has not. Text of agents that are tools of other agents is left
 * out.
 *
 * **Example** (Printing a plan's answer)
 *
 * ```ts
 * import { Effect, Stream } from "effect"
 * import { Agent } from "effect-emissary"
 * import { Plan, PlanEvent, Step } from "effect-emissary/plan"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const writer = Agent.make("writer", { instructions: "Write." })
 *
 * const program = Effect.gen(function*() {
 *   const plan = yield* Plan.make("greeting", [
 *     Step.make("draft", { target: writer }),
 *     Step.make("sign", { target: Step.target("sign", () => Effect.succeed(" - Ada")) })
 *   ])
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
export const textDeltas = <A, E, R>(self: Stream.Stream<PlanEvent<A>, E, R>): Stream.Stream<string, E, R> =>
  Stream.mapAccum(
    self,
    (): EmittedText => ({ places: new Set(), silent: new Set() }),
    (emitted, event) => [emitted, nextDeltas(emitted, event)]
  )

/**
 * The steps that emitted text since they began last, and the plans whose last step emitted text. The text of `silent`
 * steps is left out, with everything inside them.
 */
interface EmittedText {
  readonly places: Set<string>
  readonly silent: Set<string>
}

const placeOf = (...path: ReadonlyArray<string>): string => JSON.stringify(path)

const resultText = (result: PlanRun.Result<unknown>): ReadonlyArray<string> => {
  const text = result.outcome === "Completed" ? result.text : result.outcome === "Concluded" ? result.answer : ""
  return text === "" ? [] : [text]
}

const nextDeltas = ({ places, silent }: EmittedText, event: PlanEvent<unknown>): ReadonlyArray<string> => {
  switch (event._tag) {
    case "StepStarted":
    case "StepRetried":
      places.delete(placeOf(...event.path, event.step))
      return []
    case "BandStarted":
      for (const member of event.steps) silent.add(placeOf(...event.path, member))
      return []
    case "BandFinished":
      for (const member of event.steps) silent.delete(placeOf(...event.path, member))
      return []
    case "Agent": {
      const path = [...event.path, event.step]
      const isSilent = path.some((_, index) => silent.has(placeOf(...path.slice(0, index + 1))))
      if (event.event._tag !== "TextDelta" || isSilent) return []
      places.add(placeOf(...path))
      return [event.event.delta]
    }
    case "PlanFinished": {
      const { path, result } = event
      const last = result.outcome === "Completed" ? Option.getOrUndefined(Chunk.last(result.state.history)) : undefined
      const isEmitted = last !== undefined && places.has(placeOf(...path, last.step))
      if (isEmitted) places.add(placeOf(...path))
      return path.length === 0 && !isEmitted ? resultText(result) : []
    }
    default:
      return []
  }
}
