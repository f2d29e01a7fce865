/** The text of a plan's events. */
import * as Chunk from "effect/Chunk"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { PlanEvent } from "../../PlanEvent.ts"
import type { PlanResult } from "../../PlanResult.ts"

/**
 * Which steps said something since they began last, and which plans ended with such a
 * step. What `silent` steps say is left out, with everything inside them.
 */
interface Said {
  readonly steps: Set<string>
  readonly plans: Set<string>
  readonly silent: Set<string>
}

const key = (path: ReadonlyArray<string>): string => JSON.stringify(path)

const isSilent = ({ silent }: Said, place: ReadonlyArray<string>): boolean =>
  silent.size > 0 && place.some((_, index) => silent.has(key(place.slice(0, index + 1))))

/** Whether the step that gave the result has said it. */
const saidIt = (said: Said, path: ReadonlyArray<string>, result: PlanResult<unknown>): boolean => {
  if (result.outcome !== "Completed") return false
  const last = Option.getOrUndefined(Chunk.last(result.state.history))
  if (last === undefined) return false
  const place = key([...path, last.step])
  return said.steps.has(place) || said.plans.has(place)
}

const rest = (result: PlanResult<unknown>): ReadonlyArray<string> => {
  const text = result.outcome === "Completed" ? result.text : result.outcome === "Concluded" ? result.answer : ""
  return text === "" ? [] : [text]
}

const step = (said: Said, event: PlanEvent<unknown>): readonly [Said, ReadonlyArray<string>] => {
  switch (event._tag) {
    case "StepStarted":
    case "StepRetried": {
      const place = key([...event.path, event.step])
      said.steps.delete(place)
      said.plans.delete(place)
      return [said, []]
    }
    case "BandStarted":
      for (const member of event.steps) said.silent.add(key([...event.path, member]))
      return [said, []]
    case "BandFinished":
      for (const member of event.steps) said.silent.delete(key([...event.path, member]))
      return [said, []]
    case "Agent": {
      const place = [...event.path, event.step]
      if (event.event._tag !== "TextDelta" || isSilent(said, place)) return [said, []]
      said.steps.add(key(place))
      return [said, [event.event.delta]]
    }
    case "PlanFinished": {
      const { path, result } = event
      const whole = saidIt(said, path, result)
      if (whole) said.plans.add(key(path))
      return [said, path.length === 0 && !whole ? rest(result) : []]
    }
    default:
      return [said, []]
  }
}

export const textDeltas = <E, R>(self: Stream.Stream<PlanEvent<unknown>, E, R>): Stream.Stream<string, E, R> =>
  Stream.mapAccum(self, (): Said => ({ steps: new Set(), plans: new Set(), silent: new Set() }), step)
