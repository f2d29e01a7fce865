/**
 * The loop of runs, of agents and of plans: it performs the actions of a machine until its run has an outcome, and stops a run at its
 * deadline or on request.
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Message from "../../conversation/Message.ts"
import type * as runRecorder from "./runRecorder.ts"

/**
 * One kind of run. `State` is the state of a run, `Action` its next task, `E` the error that ends the process of running.
 *
 * - `next`: the next action of a run without an outcome.
 * - `ends`: whether the action ends the run. No deadline applies to it.
 * - `perform`: performs an action and records its events, until `deadline` (milliseconds of the Clock) at most.
 * - `interrupt`: ends the run as interrupted, unless it has ended.
 * - `takes`: true where a message from outside can enter before the next action.
 * - `take`: records the message.
 * - `steering`: takes the messages that wait outside, where they can enter. Its result is the deadline that they bring.
 * - `written`: the parts of the answer that a model is writing.
 * - `stepTimeout`: the limit of the step that begins with this action, if one does. The actions after it belong to the
 *   step. The first action of a run begins one in any case.
 */
export interface Machine<State, Action, E> {
  readonly next: (state: State) => Action
  readonly ends: (action: Action) => boolean
  readonly perform: (action: Action, deadline: number | undefined) => Effect.Effect<void, E>
  readonly interrupt: (reason: string | undefined) => Effect.Effect<void, E>
  readonly takes?: (() => boolean) | undefined
  readonly take?: ((message: Message.UserMessage) => Effect.Effect<void, E>) | undefined
  readonly steering?: Effect.Effect<number | undefined, E> | undefined
  readonly written?: (() => Message.AssistantMessage["content"]) | undefined
  readonly stepTimeout?: ((action: Action, isFirst: boolean) => Duration.Input | undefined) | undefined
}

/**
 * - `open`: records the events before the first action.
 * - `deadline`: in milliseconds of the Clock.
 * - `stops`: an action is cut off where the run is stopped. Otherwise the run stops before its next action.
 * - `before`: performed before each action, while nothing is under way.
 */
export interface Options<out E> {
  readonly open: Effect.Effect<void, E>
  readonly deadline: number | undefined
  readonly stops?: boolean | undefined
  readonly before?: Effect.Effect<void, E> | undefined
}

/** Events of the end of a run are delivered for this long after its deadline, or after it was interrupted. */
const graceMillis = 1000

/** A machine while it runs. The functions on it are no closures of a run: the engine keeps the closures of generators for long. */
interface Running<State, Event, Action, View, E> extends Omit<Options<E>, "deadline"> {
  readonly machine: Machine<State, Action, E>
  readonly recorder: runRecorder.Recorder<State, Event, View, E>
  deadline: number | undefined
  isCut: boolean
}

/** Ends the run without waiting for what is under way. */
const cutOff = <State, Event, Action, View, E>(
  running: Running<State, Event, Action, View, E>,
  reason: string
): Effect.Effect<void, E> => {
  const { machine, recorder } = running
  recorder.waits = false
  running.isCut = true
  return Effect.andThen(recorder.cut("current"), machine.interrupt(reason))
}

/** Waits for the last deliveries. Hooks are cut off then, and views wait for their reader. */
const deliverRest = <State, Event, Action, View, E>({
  deadline,
  isCut,
  recorder
}: Running<State, Event, Action, View, E>): Effect.Effect<void, E> => {
  const last = recorder.delivered()
  if (last === Exit.void) return last
  const limit = isCut ? 0 : deadline
  const soon = recorder.clock.currentTimeMillisUnsafe() + graceMillis
  return Effect.flatMap(isLate(recorder.clock, last, limit === undefined ? undefined : Math.max(limit, soon)), (late) =>
    late
      ? Effect.andThen(
          recorder.cut("all"),
          Effect.suspend(() => recorder.delivered())
        )
      : Effect.void
  )
}

const performAll = Effect.fnUntraced(function* <State extends { readonly outcome?: unknown }, Event, Action, View, E>(
  running: Running<State, Event, Action, View, E>
) {
  const { before, machine, open, recorder, stops } = running
  const { clock } = recorder
  yield* open
  const delivered = recorder.delivered()
  if (delivered !== Exit.void && (yield* isLate(clock, delivered, running.deadline))) {
    return yield* cutOff(running, "timeout")
  }
  recorder.waits = true
  let step: number | undefined
  while (recorder.state.outcome === undefined) {
    if (before !== undefined) yield* before
    if (machine.steering !== undefined) running.deadline = earliest(running.deadline, yield* machine.steering)
    const { interruption } = recorder
    const action = interruption === undefined ? machine.next(recorder.state) : undefined
    if (action === undefined || machine.ends(action)) {
      recorder.waits = false
      return yield* action === undefined ? machine.interrupt(interruption?.reason) : machine.perform(action, undefined)
    }
    const timeout = machine.stepTimeout?.(action, step === undefined)
    if (timeout !== undefined) step = clock.currentTimeMillisUnsafe() + Duration.toMillis(timeout)
    const deadline = earliest(step, running.deadline)
    const performing = machine.perform(action, deadline)
    const performed = stops === true ? Effect.raceFirst(performing, Effect.asVoid(recorder.stopped)) : performing
    if (deadline === undefined) yield* performed
    else if (yield* isLate(clock, performed, deadline)) return yield* cutOff(running, "timeout")
  }
})

/** Runs a machine to the outcome of its run. A run that is interrupted records that, and stays interrupted. */
export const runMachine = <State extends { readonly outcome?: unknown }, Event, Action, View, E>(
  machine: Machine<State, Action, E>,
  recorder: runRecorder.Recorder<State, Event, View, E>,
  options: Options<E>
): Effect.Effect<void, E> => {
  const running: Running<State, Event, Action, View, E> = { machine, recorder, ...options, isCut: false }
  const performed = Effect.matchCauseEffect(performAll(running), {
    onSuccess: () => deliverRest(running),
    onFailure: (cause) => {
      recorder.waits = false
      return Effect.andThen(Effect.exit(deliverRest(running)), Effect.failCause(cause))
    }
  })
  return Effect.onExit(performed, (exit) => {
    if (exit._tag === "Success" || !Cause.hasInterrupts(exit.cause)) return Effect.void
    recorder.close()
    return Effect.andThen(
      cutOff(running, "interrupted"),
      Effect.suspend(() => deliverRest(running))
    )
  })
}

export const earliest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)

/** True if the deadline came first. */
const isLate = <E>(
  clock: Clock.Clock,
  effect: Effect.Effect<void, E>,
  deadline: number | undefined
): Effect.Effect<boolean, E> => {
  const inTime = Effect.as(effect, false)
  if (deadline === undefined) return inTime
  return Effect.suspend(() => {
    const left = deadline - clock.currentTimeMillisUnsafe()
    const late = { duration: Duration.millis(left), orElse: () => Effect.succeed(true) }
    return left <= 0 ? Effect.succeed(true) : Effect.timeoutOrElse(inTime, late)
  })
}

/**
 * The deadline of a run that begins now: its own deadline or the deadline of the run around it, whichever is earlier.
 */
export const deadlineOf = (
  services: Context.Context<never>,
  total: Duration.Input | undefined,
  outer: number | undefined
): number | undefined =>
  total === undefined
    ? outer
    : earliest(Context.get(services, Clock.Clock).currentTimeMillisUnsafe() + Duration.toMillis(total), outer)
