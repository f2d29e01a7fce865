/**
 * Runs inside runs: events and views of the run inside become events and views of the run around it.
 */

import type * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { constUndefined } from "effect/Function"
import type * as Message from "../../conversation/Message.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import type { Inside } from "./planTransition.ts"
import type * as runEvents from "./runEvents.ts"
import type { PlanState } from "./runParts.ts"
import type * as runRecorder from "./runRecorder.ts"

/** The run around; `ofPlan` is the same for the run of a plan, and `report` counts the use of a model that no run has asked. */
export interface Around extends runRecorder.Parent<Inside, runEvents.Event, unknown> {
  readonly ofPlan: runRecorder.Parent<PlanState, runEvents.PlanRunEvent, unknown>
  readonly report: (usage: Message.TokenUsage) => void
}

/**
 * The run whose guard is asked here. The runs that the code of the guard begins have the budgets of that run, and count in its usage. They are no
 * part of its record.
 */
export const Asking = Context.Reference<Around | undefined>(callContext.askingKey, {
  defaultValue: constUndefined
})

/**
 * The place of a run in the run around it.
 *
 * - `event`: an event of the run inside, as the run around records it.
 * - `view`: an event for watchers, as watchers of the run around see it; `undefined` if they do not.
 * - `stops`: the run inside stops where the run around is stopped, before it starts anything else.
 */
interface Place<Event, View, OuterEvent, OuterView> {
  readonly event: (event: Event) => OuterEvent
  readonly view: (view: View) => OuterView | undefined
  readonly stops?: boolean | undefined
}

/** A run under way, for a run inside it. */
export const inside = <State extends Inside, Event, View, OuterState, OuterEvent, OuterView, E>(
  outer: runRecorder.Recorder<OuterState, OuterEvent, OuterView, E>,
  { event, stops, view }: Place<Event, View, OuterEvent, OuterView>
): runRecorder.Parent<State, Event, View, E> => ({
  interruption: () => (stops === true ? outer.interruption : undefined),
  budgets: () => outer.budgets,
  outer,
  record: (recorded: Arr.NonEmptyReadonlyArray<runRecorder.Recorded<Event, State>>) =>
    outer.place(recorded.map((inner) => ({ event: event(inner.event), inside: inner.state }))),
  emit: (inner) => {
    const shown = view(inner)
    return shown === undefined ? Exit.void : outer.emit(shown)
  },
  show: (inner) => {
    const shown = view(inner)
    if (shown !== undefined) outer.show(shown)
  },
  isShown: outer.isShown,
  isBroken: () => outer.isBroken,
  hold: () => outer.hold(),
  release: () => outer.release()
})

/**
 * Runs something that cannot fail as the run around does. Where that cannot be written this fails, and the run inside does nothing
 * more until it is interrupted, also where nothing else could interrupt it.
 */
export const orBroken = <State, Event, View, E, A, E2>(
  parent: runRecorder.Parent<State, Event, View, E>,
  run: (parent: runRecorder.Parent<State, Event, View>) => Effect.Effect<A, E2>
): Effect.Effect<A, E | E2> =>
  Effect.suspend(() => {
    const broken = Deferred.makeUnsafe<never, E>()
    const orStop = (recorded: Effect.Effect<void, E>): Effect.Effect<void> =>
      Effect.catch(recorded, (error) =>
        Effect.andThen(Deferred.fail(broken, error), Effect.interruptible(Effect.never))
      )
    const emit = (view: View): Effect.Effect<void> => {
      const shown = parent.emit(view)
      return shown === Exit.void ? Exit.void : orStop(shown)
    }
    const running = run({ ...parent, record: (recorded) => orStop(parent.record(recorded)), emit })
    return Effect.raceFirst(running, Deferred.await(broken))
  })
