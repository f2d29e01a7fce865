/**
 * The events of a run of a plan while it happens.
 *
 * @since 0.1.0
 */

import * as Chunk from "effect/Chunk"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { AgentEvent } from "../agent/AgentEvent.ts"
import type * as PlanRun from "./PlanRun.ts"
import type * as planRunParts from "./internal/planRunParts.ts"

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
 * - `BandFinished`: all members have finished and count. It is not emitted when one of them
 *   failed, paused or concluded.
 * - `Agent` is an event of an agent in a step, deltas included.
 * - `StateChanged` is each durable event with the state after it, after the event with its
 *   meaning. Events of nested plans are events of the outermost run.
 * - `Checkpointed`: everything up to `state` is written, under `key`.
 * - `PlanFinished` with an empty `path` is the last event. A run that fails has none: the
 *   stream fails.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanEvent<A> =
  | { readonly _tag: "PlanStarted"; readonly path: Path; readonly resumed: boolean; readonly state: PlanRun.State }
  | { readonly _tag: "BandStarted"; readonly path: Path; readonly steps: ReadonlyArray<string> }
  | { readonly _tag: "BandFinished"; readonly path: Path; readonly steps: ReadonlyArray<string> }
  | { readonly _tag: "StepStarted"; readonly path: Path; readonly step: string; readonly attempt: number }
  | {
      readonly _tag: "StepRetried"
      readonly path: Path
      readonly step: string
      readonly attempt: number
      readonly failure: planRunParts.StepFailure
    }
  | { readonly _tag: "Agent"; readonly path: Path; readonly step: string; readonly event: AgentEvent<unknown> }
  | {
      readonly _tag: "StepFinished"
      readonly path: Path
      readonly step: string
      readonly record: planRunParts.StepRecord
      readonly duration: Duration.Duration
    }
  | {
      readonly _tag: "StepFailed"
      readonly path: Path
      readonly step: string
      readonly failure: planRunParts.StepFailure
    }
  | { readonly _tag: "StepPaused"; readonly path: Path; readonly step: string; readonly reason: string | undefined }
  | { readonly _tag: "StepSkipped"; readonly path: Path; readonly step: string; readonly router: string }
  | {
      readonly _tag: "RouteTaken"
      readonly path: Path
      readonly step: string
      readonly to: string
      readonly rejoin: boolean
    }
  | { readonly _tag: "StateChanged"; readonly event: PlanRun.Event; readonly state: PlanRun.State }
  | { readonly _tag: "Checkpointed"; readonly key: string; readonly state: PlanRun.State }
  | { readonly _tag: "PlanFinished"; readonly path: Path; readonly result: PlanRun.Result<A> }

/** The steps of the outer plans, the outermost first; empty in the plan that was run. */
type Path = ReadonlyArray<string>

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

const missingResult = (found: string): Effect.Effect<never> =>
  Effect.die(
    new Error(
      `PlanEvent.result: expected PlanFinished as the last event, found ${found}. Pass it the whole stream of a plan.`
    )
  )

const makeTextDeltas = <E, R>(self: Stream.Stream<PlanEvent<unknown>, E, R>): Stream.Stream<string, E, R> =>
  Stream.mapAccum(self, (): EmittedText => ({ steps: new Set(), plans: new Set(), silent: new Set() }), nextDeltas)

/**
 * The text of the agents of a plan, piece by piece.
 *
 * **Details**
 *
 * The pieces of text of all steps, those of nested plans included, in the order they
 * come. Members of a band run at the same time, so their text is left out. The text of the
 * result comes at the end, once, unless the last step has emitted it: a function, a tool or a
 * band has not.
 * Text of agents that are tools of other agents is left out.
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
 *   const plan = yield* Plan.make(
 *     Step.make("draft", { target: writer }),
 *     Step.make("sign", { target: Step.target("sign", () => Effect.succeed(" - Ada")) })
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
  makeTextDeltas

/**
 * The steps that emitted text since they began last, and the plans that ended with such a
 * step. The text of `silent` steps is left out, with everything inside them.
 */
interface EmittedText {
  readonly steps: Set<string>
  readonly plans: Set<string>
  readonly silent: Set<string>
}

const emitterKey = (path: ReadonlyArray<string>): string => JSON.stringify(path)

const isSilenced = ({ silent }: EmittedText, place: ReadonlyArray<string>): boolean =>
  silent.size > 0 && place.some((_, index) => silent.has(emitterKey(place.slice(0, index + 1))))

/** True if the step that returned the result has emitted its text. */
const wasEmitted = (said: EmittedText, path: ReadonlyArray<string>, result: PlanRun.Result<unknown>): boolean => {
  if (result.outcome !== "Completed") return false
  const last = Option.getOrUndefined(Chunk.last(result.state.history))
  if (last === undefined) return false
  const place = emitterKey([...path, last.step])
  return said.steps.has(place) || said.plans.has(place)
}

const resultText = (result: PlanRun.Result<unknown>): ReadonlyArray<string> => {
  const text = result.outcome === "Completed" ? result.text : result.outcome === "Concluded" ? result.answer : ""
  return text === "" ? [] : [text]
}

const nextDeltas = (said: EmittedText, event: PlanEvent<unknown>): readonly [EmittedText, ReadonlyArray<string>] => {
  switch (event._tag) {
    case "StepStarted":
    case "StepRetried": {
      const place = emitterKey([...event.path, event.step])
      said.steps.delete(place)
      said.plans.delete(place)
      return [said, []]
    }
    case "BandStarted":
      for (const member of event.steps) said.silent.add(emitterKey([...event.path, member]))
      return [said, []]
    case "BandFinished":
      for (const member of event.steps) said.silent.delete(emitterKey([...event.path, member]))
      return [said, []]
    case "Agent": {
      const place = [...event.path, event.step]
      if (event.event._tag !== "TextDelta" || isSilenced(said, place)) return [said, []]
      said.steps.add(emitterKey(place))
      return [said, [event.event.delta]]
    }
    case "PlanFinished": {
      const { path, result } = event
      const whole = wasEmitted(said, path, result)
      if (whole) said.plans.add(emitterKey(path))
      return [said, path.length === 0 && !whole ? resultText(result) : []]
    }
    default:
      return [said, []]
  }
}
