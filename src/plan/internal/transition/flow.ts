/** Where a run goes: on as declared, to where a branch rejoins, or along a route. */
import * as Chunk from "effect/Chunk"
import * as HashMap from "effect/HashMap"
import type * as PlanRunEvent from "../../PlanRunEvent.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import type { Rules } from "../../PlanTransition.ts"
import { routable } from "../routable.ts"
import { type Applied, fail, unexpected, update } from "./applied.ts"
import * as frames from "./frames.ts"
import { positions, routes, stepOf, turnAt } from "./positions.ts"
import type * as states from "./state.ts"

/** A turn counts as a whole, in declared order. */
export const finishTurn = (
  rules: Rules,
  self: PlanRunState,
  records: ReadonlyArray<PlanRunEvent.StepRecord>
): Partial<states.Fields> => {
  let { history, latest, writes } = self
  for (const record of records) {
    const index = Chunk.size(history)
    const key = stepOf(rules.definition, record.step)?.writes
    history = Chunk.append(history, record)
    latest = HashMap.set(latest, record.step, index)
    if (key !== undefined && key !== "" && record.output !== null) writes = HashMap.set(writes, key, index)
  }
  const step = self.cursor === undefined ? undefined : stepOf(rules.definition, self.cursor)
  return {
    history,
    latest,
    writes,
    previous: Chunk.size(history) - 1,
    turn: undefined,
    ...(step !== undefined && routes(step) ? { choosing: step.name } : goOn(rules, self))
  }
}

/** Where the turn at the cursor goes when no route is taken. */
export const goOn = ({ definition }: Rules, self: PlanRunState): Partial<states.Fields> => {
  const rejoined = frames.rejoin(self.rejoins)
  if (rejoined !== undefined) return { cursor: rejoined.at, rejoins: rejoined.frames, choosing: undefined }
  const position = self.cursor === undefined ? undefined : positions(definition).get(self.cursor)
  const after = position === undefined ? undefined : position + turnAt(definition, position).length
  return { cursor: after === undefined ? undefined : definition.steps[after]?.name, choosing: undefined }
}

export const routeTaken = (rules: Rules, self: PlanRunState, event: PlanRunEvent.RouteTaken): Applied => {
  const { definition } = rules
  const step = stepOf(definition, event.step)
  if (self.choosing !== event.step || step === undefined) {
    const expected =
      self.choosing === undefined ? "no route to choose" : `the route of ${JSON.stringify(self.choosing)}`
    return unexpected(event, expected, `the route of ${JSON.stringify(event.step)}`)
  }
  if (event.to === undefined) return update(self, event, goOn(rules, self))
  const known = step.routesBy === undefined ? (step.routes ?? []).map(({ to }) => to) : [...routable(definition, step)]
  if (!known.includes(event.to)) return fail(event, { _tag: "UnknownStep", step: event.to, known })
  return update(self, event, {
    cursor: event.to,
    choosing: undefined,
    rejoins: frames.route(self.rejoins, step, event.to, positions(definition))
  })
}
