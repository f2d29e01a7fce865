/**
 * The progress of a plan in a session, from the events of the session. So it can be read wherever these can, also by a client
 * without the store.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as livePlan from "../../plan/internal/livePlan.ts"
import type * as PlanError from "../../plan/PlanError.ts"
import type * as PlanRun from "../../plan/PlanRun.ts"
import * as storage from "../../store/internal/storage.ts"
import type * as sessionEvents from "./sessionEvents.ts"
import type { Service } from "./sessionService.ts"
import * as sessionTypes from "./sessionTypes.ts"

/** The events of the newest run of a plan, and whether the first of them are there. */
interface Newest {
  readonly isWhole: boolean
  readonly events: ReadonlyArray<PlanRun.Event>
}

const withEvent = (newest: Newest, event: sessionEvents.Event): Newest => {
  // The steps that a fork has from the other session
  if (event._tag === "SessionForked" && event.progress !== undefined) return { isWhole: true, events: event.progress }
  if (event._tag !== "RunEvent" || event.event._tag !== "PlanEvent") return newest
  const { event: own } = event.event
  return own._tag === "PlanStarted"
    ? { isWhole: true, events: [own] }
    : { isWhole: newest.isWhole, events: [...newest.events, own] }
}

/** The events of the newest run up to the event with this cursor. */
const newestOf = (sessions: Service, id: string, cursor: string, after: number) =>
  sessions.events(id, { after }).pipe(
    Stream.takeUntil((entry) => entry.cursor === cursor),
    Stream.runFold(
      (): Newest => ({ isWhole: false, events: [] }),
      (newest, { event }) => withEvent(newest, event)
    )
  )

/** The state of the newest run of a plan in a session, `None` if it has not begun. */
export const progressOf = Effect.fnUntraced(function* (
  sessions: Service,
  plan: livePlan.Bound<unknown, unknown>,
  id: string
): Effect.fn.Return<Option.Option<PlanRun.State>, sessionTypes.SessionError | PlanError.PlanError> {
  const fail = (reason: sessionTypes.Reason) => new sessionTypes.SessionError({ id, reason })
  const found = yield* sessions.state(id)
  if (Option.isNone(found)) return yield* fail({ _tag: "NotFound" })
  const { agent, cursor } = found.value
  if (agent !== plan.name) return yield* fail({ _tag: "AgentDiffers", agent: plan.name, found: agent })
  const read = (after: number) => newestOf(sessions, id, cursor, after)
  const { events, isWhole } = yield* Effect.catch(read(0), (pruned) =>
    pruned.reason._tag !== "EventsPruned"
      ? Effect.fail(pruned)
      : Effect.flatMap(read(pruned.reason.first - 1), (newest) =>
          newest.isWhole ? Effect.succeed(newest) : Effect.fail(pruned)
        )
  )
  if (!isWhole) return Option.none()
  const state = Effect.catchTag(plan.fold(events), "PlanRunEventError", ({ message }) =>
    Effect.fail(fail(storage.damaged(id, `expected events of the plan that follow each other, got ${message}`)))
  )
  return Option.some(yield* state)
})
