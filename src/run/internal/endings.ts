/**
 * The events that end a run, as functions of its state: nothing is called, and nothing is recorded here. Ids and times come from
 * the services around.
 */

import type * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as history from "../../conversation/internal/history.ts"
import { defined } from "../../payload/internal/values.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { Event, State } from "./runParts.ts"
import * as runRequests from "./runRequests.ts"
import * as runTransition from "./runTransition.ts"

/** Events, and the state after them. */
export interface Ending {
  readonly events: ReadonlyArray<Event>
  readonly state: State
}

/** More events. Events that do not fit are a bug of their maker. */
export const add = Effect.fnUntraced(function* ({ events, state: before }: Ending, more: ReadonlyArray<Event>) {
  let state = before
  for (const event of more) state = yield* Effect.orDie(Effect.fromResult(runTransition.apply(state, event)))
  return { events: [...events, ...more], state }
})

type Settled = runTransition.ActionOf<"RunTools">["settled"][number]

/** The results of calls. */
const finish = (state: State, calls: ReadonlyArray<Settled>): Effect.Effect<ReadonlyArray<Event>> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.forEach(calls, (call) =>
      Effect.map(history.toolIn(context, call), (message) => ({
        _tag: "ToolFinished" as const,
        at: message.createdAt,
        message,
        ...runTransition.askedFor(state, call.callId)
      }))
    )
  )

/** The end of a run as `Interrupted`. Calls that started get their results first. */
export const end = Effect.fnUntraced(function* (state: State, reason?: string): Effect.fn.Return<ReadonlyArray<Event>> {
  const { interrupted, outcome } = state
  if (outcome !== undefined) return []
  const at = yield* DateTime.now
  const why = interrupted ?? defined({ reason })
  const begins: ReadonlyArray<Event> = interrupted === undefined ? [{ _tag: "RunInterrupted", at, ...why }] : []
  const finished = yield* finish(state, runTransition.recover(state))
  const ended = runTransition.cutOffOutcome(state, why)
  return [...begins, ...finished, { _tag: "RunFinished", at, outcome: ended }]
})

/** Adds the end of a run as `Interrupted`. */
export const addEnd = (ending: Ending): Effect.Effect<Ending> =>
  Effect.flatMap(end(ending.state), (events) => add(ending, events))

/** The denials of all calls that wait. */
const deny = Effect.fnUntraced(function* (state: State, reason: string) {
  const denials = runTransition.requests(state).map((request) => runRequests.deny(request, { reason }))
  const decided = runTransition.decide(state, denials, yield* DateTime.now)
  return yield* add(
    { events: [], state },
    Result.getOrElse(decided, () => [])
  )
})

/** Denies the calls that wait, and ends a run that waits for nothing else. */
export const cancel = Effect.fnUntraced(function* (state: State, reason: string): Effect.fn.Return<Ending> {
  const denied = yield* deny(state, reason)
  if (state.outcome?._tag === "Interrupted") return denied
  const resumed = yield* add(denied, [{ _tag: "RunResumed", at: yield* DateTime.now }])
  const action = runTransition.next(resumed.state)
  const settled = action._tag === "RunTools" ? action.settled : []
  return yield* addEnd(yield* add(resumed, yield* finish(resumed.state, settled)))
})

/** The result of a call that an interruption kept from being started. */
const stoppedCall = ToolResult.failure("interrupted", "The call was not run: the turn was interrupted before.", {
  outcome: "not_executed"
})

/** Ends a run, and all that it has left: calls without a result get one, and the rest of a plan is given up. */
export const settle = Effect.fnUntraced(function* (state: State, reason: string): Effect.fn.Return<Ending> {
  const at = yield* DateTime.now
  const discarded: ReadonlyArray<Event> = state.plan === undefined ? [] : [{ _tag: "AnswerDiscarded", at, usage: {} }]
  const resumed = yield* add(yield* deny(state, reason), [{ _tag: "RunResumed", at }, ...discarded])
  const settled = resumed.state.calls.map(({ part, status }) => {
    const started = status._tag === "Started" ? runTransition.lostCall : stoppedCall
    return { callId: part.id, name: part.name, result: status._tag === "Settled" ? status.result : started }
  })
  return yield* addEnd(yield* add(resumed, yield* finish(resumed.state, settled)))
})
