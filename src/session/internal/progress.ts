/**
 * The progress of a plan in a session, from the events of the session. So it can be read wherever these can, also by a client
 * without the store.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as Plan from "../../plan/Plan.ts"
import type * as PlanRun from "../../plan/PlanRun.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as documents from "../../store/internal/documents.ts"
import type * as events from "./events.ts"
import type { Service } from "./service.ts"
import * as types from "./types.ts"

/** The events of the newest run of a plan, which follow `from` in a fork, and whether the first of them are there. */
interface Newest {
  readonly isWhole: boolean
  readonly from?: PlanRun.State
  readonly events: ReadonlyArray<PlanRun.Event>
}

const withEvent = (newest: Newest, event: events.Event): Newest => {
  // The steps that a fork has from the other session
  if (event._tag === "SessionForked" && event.plan !== undefined) return { isWhole: true, from: event.plan, events: [] }
  if (event._tag !== "RunEvent" || event.event._tag !== "PlanEvent") return newest
  const { event: inner } = event.event
  return inner._tag === "PlanStarted"
    ? { isWhole: true, events: [inner] }
    : { ...newest, events: [...newest.events, inner] }
}

/** The events of the newest run up to the event with this cursor. */
const newestOf = (sessions: Service, id: string, cursor: string, after?: string) =>
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
  plan: Plan.Bound<unknown, unknown>,
  id: string
): Effect.fn.Return<Option.Option<PlanRun.State>, types.SessionError> {
  const fail = (reason: types.Reason) => new types.SessionError({ id, reason })
  const found = yield* sessions.state(id)
  if (Option.isNone(found)) return yield* fail({ _tag: "NotFound" })
  const { agent, cursor } = found.value
  if (agent !== plan.name) return yield* fail({ _tag: "AgentDiffers", agent: plan.name, found: agent })
  const read = (after?: string) => newestOf(sessions, id, cursor, after)
  const { events, from, isWhole } = yield* Effect.catch(read(), (pruned) =>
    pruned.reason._tag !== "EventsPruned"
      ? Effect.fail(pruned)
      : Effect.flatMap(read(pruned.reason.after), (newest) =>
          newest.isWhole ? Effect.succeed(newest) : Effect.fail(pruned)
        )
  )
  if (!isWhole) return Option.none()
  const state = Effect.mapError(Effect.fromResult(runTransition.plans.fold(events, from)), ({ message }) =>
    fail(documents.damaged(id, `expected events of the plan that follow each other, got ${message}`))
  )
  return Option.some(yield* state)
})
