/** How a fact of a run looks to somebody who watches it. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type { PlanDefinition } from "../../PlanDefinition.ts"
import type { PlanEvent } from "../../PlanEvent.ts"
import type { PlanRunEvent } from "../../PlanRunEvent.ts"
import * as PlanRunState from "../../PlanRunState.ts"

type Views = ReadonlyArray<PlanEvent<unknown>>

const path: ReadonlyArray<string> = []

const positionOf = (definition: PlanDefinition, step: string): number =>
  definition.steps.findIndex(({ name }) => name === step)

/** The steps that a jump leaves out. */
const skipped = (definition: PlanDefinition, router: string, to: string): Views =>
  definition.steps
    .slice(positionOf(definition, router) + 1, Math.max(0, positionOf(definition, to)))
    .map(({ name }) => ({ _tag: "StepSkipped", path, step: name, router }))

/** What is told when a step that ended without a route does not go on as declared: its branch is over. */
const rejoined = (
  definition: PlanDefinition,
  before: PlanRunState.PlanRunState,
  step: string,
  after: PlanRunState.PlanRunState
): Views => {
  const to = after.cursor
  if (to === undefined || after.choosing !== undefined) return []
  if (before.rejoins.length <= after.rejoins.length) return []
  if (definition.steps[positionOf(definition, step) + 1]?.name === to) return []
  return [{ _tag: "RouteTaken", path, step, to, rejoin: true }, ...skipped(definition, step, to)]
}

const own = (
  definition: PlanDefinition,
  before: PlanRunState.PlanRunState,
  event: PlanRunEvent,
  after: PlanRunState.PlanRunState
): Views => {
  switch (event._tag) {
    case "PlanStarted":
    case "PlanResumed":
      return [{ _tag: "PlanStarted", path, resumed: event._tag === "PlanResumed", state: after }]
    case "StepStarted": {
      const status = PlanRunState.member(after, event.step)?.status
      const attempt = status?._tag === "Running" ? status.attempt : 1
      return [{ _tag: "StepStarted", path, step: event.step, attempt }]
    }
    case "StepRetried": {
      const { attempt, failure, step } = event
      return [{ _tag: "StepRetried", path, step, attempt, failure }]
    }
    case "StepFinished": {
      const { record } = event
      const duration = Duration.millis(
        DateTime.toEpochMillis(record.finishedAt) - DateTime.toEpochMillis(record.startedAt)
      )
      return [
        { _tag: "StepFinished", path, step: record.step, record, duration },
        ...rejoined(definition, before, record.step, after)
      ]
    }
    case "StepFailed":
      return [{ _tag: "StepFailed", path, step: event.step, failure: event.failure }]
    case "StepPaused":
      return [{ _tag: "StepPaused", path, step: event.step, reason: event.reason }]
    case "RouteTaken": {
      const { step, to } = event
      if (to === undefined) return rejoined(definition, before, step, after)
      return [{ _tag: "RouteTaken", path, step, to, rejoin: false }, ...skipped(definition, step, to)]
    }
    default:
      return []
  }
}

/** The events of one fact: what it means, and then the fact itself with the state that holds it. */
export const viewsOf = (
  definition: PlanDefinition,
  before: PlanRunState.PlanRunState,
  event: PlanRunEvent,
  after: PlanRunState.PlanRunState
): Views => [...own(definition, before, event, after), { _tag: "StateChanged", event, state: after }]
