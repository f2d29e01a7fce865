/** The state of a run under way, and everybody who is told when it changes. */
import type * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Message from "../../conversation/Message.ts"
import * as TokenUsage from "../../conversation/TokenUsage.ts"
import type { ToolResult } from "../../tool/ToolResult.ts"
import type { AgentEvent } from "../AgentEvent.ts"
import * as AgentError from "../AgentError.ts"
import type { RunEvent } from "../RunEvent.ts"
import type { Interruption, ResumeOptions } from "../RunOptions.ts"
import * as RunState from "../RunState.ts"
import * as RunTransition from "../RunTransition.ts"
import { isDecision } from "./transition/apply.ts"

export interface Recorder {
  readonly state: () => RunState.RunState
  /** Completed when `interruptWhen` stops the run. */
  readonly stopped: Deferred.Deferred<Interruption>
  readonly stopping: () => boolean
  readonly interruption: () => Interruption | undefined
  /** Announces the event that made the state. */
  readonly begin: (event: RunEvent) => Effect.Effect<void>
  readonly record: (event: RunEvent) => Effect.Effect<void>
  /**
   * Applies the event at once, and tells about it in the effect: what a child run has
   * applied its parent must have applied, even when it is interrupted in between.
   */
  readonly recordNow: (event: RunEvent) => Effect.Effect<void>
  /** Applies events while the run is being torn down: nobody may stop it or slow it any more. */
  readonly conclude: (event: RunEvent) => Effect.Effect<void>
  readonly emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
  readonly fail: (reason: AgentError.Reason) => AgentError.AgentError
}

export const make = (
  initial: RunState.RunState,
  options: Pick<ResumeOptions, "onState" | "interruptWhen">,
  emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
): Recorder => {
  let state = initial
  let interruption: Interruption | undefined
  const stopped = Deferred.makeUnsafe<Interruption>()

  /** A driver that applies an event which does not fit has a bug, and dies of it. */
  const applied = (event: RunEvent, then: (state: RunState.RunState) => Effect.Effect<void>): Effect.Effect<void> => {
    const result = RunTransition.apply(state, event)
    if (Result.isFailure(result)) return Effect.die(result.failure)
    state = result.success
    return then(state)
  }

  const tell = (current: RunState.RunState, event: RunEvent): Effect.Effect<void> =>
    options.onState === undefined ? Effect.void : options.onState(current, event)

  const ask = (current: RunState.RunState, event: RunEvent): Effect.Effect<void> => {
    if (options.interruptWhen === undefined || interruption !== undefined) return Effect.void
    const answer = options.interruptWhen(event, current)
    return Effect.flatMap(Effect.isEffect(answer) ? answer : Effect.succeed(answer), (found) => {
      if (found === undefined) return Effect.void
      interruption = found
      return Effect.asVoid(Deferred.succeed(stopped, found))
    })
  }

  const announce = (before: RunState.RunState, current: RunState.RunState, event: RunEvent): Effect.Effect<void> =>
    tell(current, event).pipe(
      Effect.andThen(show(viewOf(before, event, current))),
      Effect.andThen(Effect.suspend(() => ask(current, event)))
    )

  const show = (view: AgentEvent<unknown> | undefined) => (view === undefined ? Effect.void : emit(view))

  const recordNow = (event: RunEvent): Effect.Effect<void> => {
    const before = state
    return applied(event, (current) => announce(before, current, event))
  }

  return {
    state: () => state,
    stopped,
    stopping: () => interruption !== undefined,
    interruption: () => interruption,
    begin: (event) => Effect.suspend(() => announce(state, state, event)),
    record: (event) => Effect.suspend(() => recordNow(event)),
    recordNow,
    conclude: (event) => Effect.suspend(() => applied(event, (current) => tell(current, event))),
    emit,
    fail: (reason) => new AgentError.AgentError({ agent: state.agent, reason, state })
  }
}

/**
 * How a fact of the run looks to somebody who watches it. What a child does is not shown
 * here: the child shows it, as `Child`.
 */
const viewOf = (
  before: RunState.RunState,
  event: RunEvent,
  state: RunState.RunState
): AgentEvent<unknown> | undefined => {
  switch (event._tag) {
    case "ChildEvent":
      return isDecision(event) ? { _tag: "StateChanged", event, state } : undefined
    case "RunStarted":
    case "RunResumed":
      return started(state, event._tag === "RunResumed")
    case "StepStarted":
      return { _tag: "StepStarted", step: event.step, purpose: event.purpose, state }
    case "ModelAnswered":
      return {
        _tag: "StepFinished",
        step: state.steps,
        message: event.message,
        usage: event.message.usage ?? TokenUsage.empty,
        total: state.usage,
        state
      }
    case "ToolStarted": {
      const part = RunState.openCall(state, event.callId)?.part
      return {
        _tag: "ToolStarted",
        callId: event.callId,
        name: part?.name ?? "",
        arguments: part?.arguments ?? null,
        state
      }
    }
    case "ToolFinished":
      return {
        _tag: "ToolFinished",
        callId: event.message.callId,
        name: event.message.name,
        result: event.message.result,
        duration: Duration.millis(event.durationMillis ?? 0),
        state
      }
    case "ApprovalRequested": {
      const part = RunState.openCall(before, event.callId)?.part
      const request = { callId: event.callId, name: part?.name ?? "", arguments: part?.arguments ?? null }
      return { _tag: "ApprovalRequested", request, state }
    }
    default:
      return { _tag: "StateChanged", event, state }
  }
}

export const started = (state: RunState.RunState, resumed: boolean): AgentEvent<unknown> => ({
  _tag: "RunStarted",
  runId: state.runId,
  agent: state.agent,
  resumed,
  state
})

/** The event of a call that has its result. */
export const toolFinished = Effect.fnUntraced(function* (
  call: { readonly callId: string; readonly name: string; readonly result: ToolResult },
  duration?: Duration.Duration,
  cause?: Cause.Cause<unknown>
) {
  const at = yield* DateTime.now
  const message = yield* Message.tool(call)
  return {
    _tag: "ToolFinished",
    at,
    message,
    ...(duration === undefined ? undefined : { durationMillis: Duration.toMillis(duration) }),
    ...(cause === undefined ? undefined : { cause: causeText(cause) })
  } satisfies RunEvent
})

const causeText = (cause: Cause.Cause<unknown>): string =>
  cause.reasons.map((reason) => (reason._tag === "Die" ? String(reason.defect) : reason._tag)).join("; ")
