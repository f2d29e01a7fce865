/** The recorder of the run of an agent, and records that several actions make. */

import type * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import type { StreamAccumulator } from "../../conversation/internal/modelMessages.ts"
import * as budgetRequest from "../../run/internal/budgetRequest.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRecorder from "../../run/internal/runRecorder.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import type { ToolResult } from "../../tool/ToolResult.ts"
import * as toolCall from "../../tool/internal/toolCall.ts"
import * as AgentError from "../AgentError.ts"
import * as agentReason from "./agentReason.ts"
import * as agentShown from "./agentShown.ts"
import type * as agentTypes from "./agentTypes.ts"
import type { PartialOutput } from "./outputParts.ts"

/** The run around an agent. */
export type Parent = runRecorder.Parent<runParts.State, runParts.Event, agentTypes.AgentEvent<unknown>>

type WithoutTime<E> = E extends { readonly at: unknown } ? Omit<E, "at"> : never

/** The error of a run, with the error behind its reason. */
export const agentError = (fields: {
  readonly agent: string
  readonly reason: AgentError.Reason
  readonly state?: runParts.State
}): AgentError.AgentError => {
  const error = new AgentError.AgentError(fields)
  agentReason.copyCause(fields.reason, error.reason)
  return error
}

export class AgentRecorder extends runRecorder.RunRecorder<
  runParts.State,
  runParts.Event,
  agentTypes.AgentEvent<unknown>
> {
  /** The answer so far, while the model is asked for one. No closure: the engine keeps closures of generators for long. */
  written: Pick<StreamAccumulator, "result"> | undefined = undefined
  /** Guards can withdraw an answer that is written: what was written is not kept where the run is stopped. */
  withdraws = false
  /** Answers are shown as a whole, when guards have decided. */
  holds = false
  /** The id of the message that the newest attempt of a model call becomes. */
  messageId: string | undefined = undefined
  /** The structured output in the answer that the newest attempt writes, where it is shown. */
  partial: PartialOutput | undefined = undefined
  /** The reservation of the call under way in budgets that other runs share. */
  shared: ledger.Hold | undefined = undefined
  /** The price of the model that is asked, where there is a budget. */
  price: ledger.Price | undefined = undefined

  recordNow(event: WithoutTime<runParts.Event>): Effect.Effect<void> {
    return this.record({ ...event, at: this.now() })
  }

  /** The use of the call under way, for the event that ends it, in a run with a budget. */
  spent(usage: Message.TokenUsage | undefined): { readonly spent?: ledger.Amounts } {
    const reserved = this.state.step?.reserved
    return reserved === undefined ? {} : { spent: ledger.settle(reserved, usage, this.price) }
  }

  fail(reason: AgentError.Reason): AgentError.AgentError {
    return agentError({ agent: this.state.agent, reason, state: this.state })
  }
}

export const make = (
  state: runParts.State,
  first: runParts.Event | undefined,
  { interruptWhen, onEvent }: agentTypes.ResumeOptions,
  parent: Parent | undefined,
  log: runRecorder.Log<runParts.Event, agentTypes.AgentEvent<unknown>> | undefined,
  context: Context.Context<never>
): AgentRecorder => {
  const recorder = new AgentRecorder({
    state,
    first,
    apply: runTransition.applyOrPlace,
    follow: runTransition.followOf,
    usages: runTransition.usagesOf,
    views: agentShown.viewsOf,
    log,
    parent,
    context,
    hook: onEvent && ((event, state, more) => onEvent({ event, sequence: state.revision, state, more })),
    after:
      interruptWhen === undefined
        ? undefined
        : (event, state) =>
            Effect.suspend(() =>
              recorder.interruption ? Effect.void : askToStop(recorder, interruptWhen(event, state))
            )
  })
  return recorder
}

const askToStop = (
  recorder: Pick<AgentRecorder, "stop">,
  answer: agentTypes.Interruption | undefined | Effect.Effect<agentTypes.Interruption | undefined>
): Effect.Effect<void> =>
  Effect.flatMap(Effect.isEffect(answer) ? answer : Effect.succeed(answer), (found) =>
    found === undefined ? Effect.void : recorder.stop(found)
  )

/** Records the end of a call that has its result. The Effect is an Exit where there is nothing to wait for. */
export const recordToolFinished = (
  { context, recorder }: { readonly context: Context.Context<never>; readonly recorder: AgentRecorder },
  call: { readonly callId: string; readonly name: string; readonly result: ToolResult },
  duration?: Duration.Duration,
  cause?: Cause.Cause<unknown>,
  handoff?: runParts.HandoffTerms
): Effect.Effect<void> => {
  const record = (message: Message.ToolMessage) =>
    recorder.record({
      _tag: "ToolFinished",
      at: message.createdAt,
      message,
      ...(duration && { durationMillis: Duration.toMillis(duration) }),
      ...(cause && { cause: causeText(cause) }),
      ...(handoff && { handoff }),
      ...runTransition.askedFor(recorder.state, call.callId)
    })
  const message = history.toolIn(context, call)
  return toolCall.flatMapNow(message, record)
}

/** Records the limit that refuses what comes next, or the question of its budget whether the run may continue. */
export const recordRefused = (recorder: AgentRecorder, limit: ledger.Limit): Effect.Effect<void> => {
  const asked = runParts.askAbout(limit)
  if (asked === undefined) return recorder.recordNow({ _tag: "BudgetExceeded", ...limit })
  const { about: budget, ...question } = asked
  const { idOf, name } = budgetRequest
  return Effect.flatMap(Effect.context<never>(), (context) => {
    const bounds = runRequests.boundsIn(context, recorder.now())
    return recorder.recordNow({ _tag: "ApprovalRequested", callId: idOf(budget), name, ...question, ...bounds, budget })
  })
}

const causeText = (cause: Cause.Cause<unknown>): string =>
  cause.reasons.map((reason) => (reason._tag === "Die" ? toolCall.defectName(reason.defect) : reason._tag)).join("; ")

/** Nothing begins in a run that was stopped, or whose time is over. */
export const mustWait = ({
  deadline,
  recorder
}: {
  readonly deadline: number | undefined
  readonly recorder: AgentRecorder
}): boolean =>
  recorder.interruption !== undefined ||
  (deadline !== undefined && recorder.clock.currentTimeMillisUnsafe() >= deadline)

/** Waits for the interruption that is on its way. */
export const untilInterrupted = Effect.interruptible(Effect.never)
