/** An agent as a machine of the loop of runs, and the end of a run that is interrupted. */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import { TokenCounter } from "../../conversation/TokenCounter.ts"
import * as history from "../../conversation/internal/history.ts"
import type { ResponseContent } from "../../conversation/internal/modelMessages.ts"
import * as reduction from "../../conversation/internal/reduction.ts"
import { quote } from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import * as endings from "../../run/internal/endings.ts"
import * as runLoop from "../../run/internal/runLoop.ts"
import type * as runParts from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import type * as AgentError from "../AgentError.ts"
import type * as agentParts from "./agentParts.ts"
import * as agentReason from "./agentReason.ts"
import * as agentRecorder from "./agentRecorder.ts"
import * as agentTeam from "./agentTeam.ts"

/** A message as it enters the run. Refuses a message that no conversation can have. */
export const passInput = (
  run: agentParts.ActiveRun,
  message: Message.UserMessage,
  asksModel = true
): Effect.Effect<agentParts.PassedInput, AgentError.AgentError> => {
  const fits = history.append(Conversation.empty, message)
  return Result.isSuccess(fits)
    ? (run.guarding?.passInput(run, message, asksModel) ?? Effect.succeed({ message, decided: [] }))
    : Effect.fail(
        run.recorder.fail(
          agentReason.makeReason("ConversationInvalid", { problem: fits.failure.message }, fits.failure)
        )
      )
}

/** An agent has the conversation: its guards and its services hold from here on. */
export const enter = (run: agentParts.ActiveRun, { context, guarding }: agentTeam.Member): void => {
  run.context = context
  run.guarding = guarding
  run.recorder.withdraws = guarding?.withdraws === true
  run.recorder.holds = guarding?.holds === true
}

/** Finds the agent of a handoff with its instructions, and records that the agent has the conversation. */
const handOff = Effect.fnUntraced(
  function* (team: agentTeam.Team, run: agentParts.ActiveRun, name: string) {
    const { recorder } = run
    const member = yield* agentTeam.next(team, name)
    const { agent, within } = member
    const found = agent.instructions === undefined ? undefined : yield* within(agent.instructions)
    const message = yield* history.newInstructions(found ?? `You are the agent ${quote(name)}.`)
    const { structured } = agent
    const isOther = structured !== recorder.state.structured
    yield* recorder.recordNow({ _tag: "HandedOff", agent: name, message, ...(isOther && { structured }) })
    enter(run, member)
    return member
  },
  (effect, _team, { recorder }) => Effect.mapError(effect, (reason) => recorder.fail(reason))
)

export const machineOf = (
  team: agentTeam.Team,
  first: agentTeam.Member,
  run: agentParts.ActiveRun,
  scope: Scope.Scope,
  steering: agentParts.RunSpec["steering"]
): runLoop.Machine<runParts.State, runTransition.Action, AgentError.AgentError> => {
  const { options, recorder } = run
  const { asksModel } = team.first.agent
  let { agent, within } = first
  const takes = () => !agentRecorder.mustWait(run) && runTransition.isSteerable(recorder.state)
  const take = (message: Message.UserMessage) => recorder.recordNow({ _tag: "InputAdded", message })
  return {
    next: runTransition.next,
    ends: ({ _tag }) => _tag === "Finished",
    perform: (action, deadline) => {
      if (action._tag === "Finished") return recorder.recordNow({ _tag: "RunFinished", outcome: action.outcome })
      if (action._tag === "HandOff") {
        return Effect.map(Effect.provideService(handOff(team, run, action.agent), Scope.Scope, scope), (member) => {
          ;({ agent, within } = member)
        })
      }
      return within(agent.perform(deadline === undefined ? run : { ...run, deadline }, action))
    },
    // A plan gets its input before it begins
    ...(asksModel && {
      takes,
      take,
      steering: steering && Effect.suspend(() => (takes() ? takeAll(run, steering, take) : Effect.undefined))
    }),
    written: () => (recorder.holds ? [] : (recorder.written?.result().content ?? [])),
    interrupt: (reason) => interrupt(recorder, reason),
    stepTimeout: ({ _tag }, isFirst) =>
      asksModel && (isFirst || _tag === "CallModel") ? options.timeouts?.step : undefined
  }
}

/** Takes the messages that steer. The earliest of their deadlines is a deadline of the run. */
const takeAll = Effect.fnUntraced(function* (
  run: agentParts.ActiveRun,
  steering: agentParts.Steering,
  take: (message: Message.UserMessage) => Effect.Effect<void>
) {
  let earliest: number | undefined
  const verdicts: Array<agentParts.Decided> = []
  for (const { deadline, input, message } of yield* steering) {
    const passed = yield* passInput(run, yield* Message.user(input, message))
    yield* take(passed.message)
    verdicts.push(...passed.decided)
    earliest = runLoop.earliest(earliest, deadline)
  }
  // After the messages, which a run that is refused could not take
  for (const verdict of verdicts) yield* run.recorder.recordNow(verdict)
  run.runDeadline = runLoop.earliest(run.runDeadline, earliest)
  return earliest
})

/** Ends the run as `Interrupted`: what the model had written is kept, and calls that started get their results first. */
export const interrupt = Effect.fnUntraced(function* (
  recorder: agentRecorder.AgentRecorder,
  reason: string | undefined
) {
  const { interrupted, outcome } = recorder.state
  // An interruption of the fiber may come while one by the clock or the hook is being recorded.
  if (outcome === undefined && interrupted === undefined) {
    yield* recordCutOff(recorder)
    yield* recordUsedUp(recorder)
  }
  for (const event of yield* endings.end(recorder.state, reason)) yield* recorder.record(event)
})

/** Records that the run was stopped at the end of the time of its budget. */
const recordUsedUp = (recorder: agentRecorder.AgentRecorder): Effect.Effect<void> => {
  const { exceeded } = recorder.state
  const usages = exceeded === undefined ? runTransition.usagesOf(recorder.state, recorder.now()) : undefined
  const over = usages?.find(({ limit, unit, used }) => unit === "millis" && used >= limit)
  return over === undefined ? Effect.void : agentRecorder.recordRefused(recorder, over)
}

/** The usage of an answer, estimated where the answer was cut off before its report. */
export const usageOf = Effect.fnUntraced(function* (
  { state: { conversation, view } }: Pick<agentRecorder.AgentRecorder, "state">,
  { content, usage }: ResponseContent
): Effect.fn.Return<Message.TokenUsage> {
  if (usage !== undefined) return usage
  const counter = yield* TokenCounter
  return {
    inputTokens: Math.ceil(yield* reduction.estimatedSize(view ?? conversation)),
    outputTokens: Math.ceil(counter.count(JSON.stringify(content))),
    estimated: true
  }
})

/**
 * Records what the model had written of an answer that was cut off, unless guards were to decide about it. Its calls never run.
 */
const recordCutOff = Effect.fnUntraced(function* (recorder: agentRecorder.AgentRecorder) {
  const { step } = recorder.state
  const answer = recorder.written?.result()
  if (step === undefined || answer === undefined || answer.content.length === 0) return
  const { model, response } = answer
  const usage = yield* usageOf(recorder, answer)
  if (recorder.withdraws) return yield* recorder.recordNow({ _tag: "AnswerDiscarded", usage, ...recorder.spent(usage) })
  const content = history.mend(answer.content).filter(({ type }) => type !== "tool-call" && type !== "tool-result")
  const spent = recorder.spent(usage)
  if (content.length === 0) return yield* recorder.recordNow({ _tag: "AnswerDiscarded", usage, ...spent })
  const finishReason = runTransition.cutOff
  const message = yield* Message.assistant(
    content,
    defined({ id: recorder.messageId, usage, model, response: history.mend(response), finishReason })
  )
  yield* recorder.recordNow({ _tag: "ModelAnswered", message, ...spent })
})
