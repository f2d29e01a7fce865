/** What every fact has: the state after it, or why it does not fit. */
import * as Result from "effect/Result"
import { PlanRunEventError, type Reason } from "../../PlanRunEventError.ts"
import type { PlanRunEvent } from "../../PlanRunEvent.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import * as states from "./state.ts"

export type Event = PlanRunEvent

export type Applied = Result.Result<PlanRunState, PlanRunEventError>

export const fail = (event: Event, reason: Reason): Result.Result<never, PlanRunEventError> =>
  Result.fail(new PlanRunEventError({ event: event._tag, path: [], reason }))

export const unexpected = (event: Event, expected: string, found: string) =>
  fail(event, { _tag: "Unexpected", expected, found })

export const inside = (step: string, event: string, path: ReadonlyArray<string>, reason: Reason) =>
  Result.fail(new PlanRunEventError({ event, path: [step, ...path], reason }))

export const notStarted = (found: string): PlanRunEventError =>
  new PlanRunEventError({
    event: found,
    path: [],
    reason: { _tag: "Unexpected", expected: "PlanStarted first", found }
  })

export const update = (self: PlanRunState, event: Event, fields: Partial<states.Fields>): Applied =>
  Result.succeed(states.make({ ...self, ...fields, updatedAt: event.at, revision: self.revision + 1 }))
