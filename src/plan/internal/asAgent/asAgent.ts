/**
 * A plan as an agent: a run has one answer, and its progress are the facts of the plan's
 * run, as JSON, in the order of a journal.
 */
import * as Effect from "effect/Effect"
import type { Agent } from "../../../agent/Agent.ts"
import type { AgentEvent } from "../../../agent/AgentEvent.ts"
import type * as AgentError from "../../../agent/AgentError.ts"
import * as Delegate from "../../../agent/Delegate.ts"
import type { ProgressDecision } from "../../../agent/RunState.ts"
import type { PlanError } from "../../PlanError.ts"
import type { PlanEvent } from "../../PlanEvent.ts"
import type { Journal, ResumeOptions } from "../../PlanOptions.ts"
import type { PlanResult } from "../../PlanResult.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import * as facts from "./facts.ts"
import { inputOf } from "./input.ts"
import * as outputs from "./output.ts"
import { reasonOf } from "./reason.ts"
import { requestsOf } from "./requests.ts"
import { difference } from "./usage.ts"
import * as engine from "../engine/drive.ts"
import type { BoundPlan } from "../live.ts"

type Turn = Delegate.Turn

/** Writes down what happened in the plan's run, as progress of the agent's. */
const journalOf = ({ save }: Turn, before: PlanRunState | undefined): Journal => {
  let told = before?.usage ?? {}
  return (events, state) =>
    Effect.flatMap(facts.encode(events), (encoded) => {
      const usage = difference(state.usage, told)
      told = state.usage
      return save({
        facts: encoded,
        requests: state.outcome?._tag === "Paused" ? requestsOf(state.outcome) : [],
        limited: state.outcome?._tag === "LimitReached",
        usage
      })
    })
}

/** What agents in steps tell is told as that of children: their ids and names are those of the steps. */
const sinkOf = ({ emit, state, streaming }: Turn): engine.Sink => ({
  streaming,
  emit: (event: PlanEvent<unknown>) =>
    event._tag === "Agent"
      ? Effect.suspend(() =>
          emit(
            [...event.path, event.step].reduceRight<AgentEvent<unknown>>(
              (inner, step) => ({ _tag: "Child", callId: step, name: step, event: inner, state: state() }),
              event.event
            )
          )
        )
      : Effect.void
})

const optionsOf = (turn: Turn, journal: Journal, decisions: ReadonlyArray<ProgressDecision>): ResumeOptions => {
  const { maxSteps, timeouts } = turn.options
  return {
    journal,
    context: turn.state().context,
    timeouts: { step: timeouts?.step, tool: timeouts?.tool },
    ...(maxSteps === undefined
      ? undefined
      : { maxIterations: maxSteps === "unlimited" ? Number.MAX_SAFE_INTEGER : maxSteps }),
    ...(decisions.length === 0 ? undefined : { decisions })
  }
}

const begin = Effect.fnUntraced(function* (bound: BoundPlan, turn: Turn) {
  const { progress } = turn.state()
  if (progress === undefined) {
    const options = optionsOf(turn, journalOf(turn, undefined), [])
    return { from: { _tag: "Start", input: yield* inputOf(bound, turn) } as const, options }
  }
  const state = yield* facts.replay(bound, progress.facts)
  const options = optionsOf(turn, journalOf(turn, state), progress.decisions)
  return { from: { _tag: "Resume", state } as const, options }
})

const ended = (bound: BoundPlan, result: PlanResult<unknown>): Effect.Effect<Delegate.Ended> => {
  switch (result.outcome) {
    case "Completed":
      return Effect.succeed({
        _tag: "Answered",
        text: result.text,
        output: { _tag: "Valid", value: result.payload }
      })
    case "Concluded":
      return Effect.map(outputs.conclusion(bound.output, result.answer), (output) => ({
        _tag: "Answered",
        text: result.answer,
        output
      }))
    case "Paused":
      return Effect.succeed({ _tag: "Suspended" })
    case "Interrupted":
      return Effect.succeed({ _tag: "Interrupted", reason: result.reason })
  }
}

/** The limit is an outcome of agents; whatever else went wrong is an error of theirs, too. */
const failed = (turn: Turn, error: PlanError): Effect.Effect<Delegate.Ended, AgentError.Reason> =>
  error.reason._tag === "MaxIterationsExceeded"
    ? Effect.succeed({ _tag: "Suspended" })
    : Effect.fail(reasonOf(error, turn.maxDepth))

const answer = Effect.fnUntraced(function* (bound: BoundPlan, turn: Turn) {
  const { from, options } = yield* begin(bound, turn)
  return yield* Effect.matchEffect(engine.drive(bound, from, options, sinkOf(turn)), {
    onFailure: (error) => failed(turn, error),
    onSuccess: (result) => ended(bound, result)
  })
})

/** The agent that a plan is. `A` and `R` are for the caller to know. */
export const asAgent = (bound: BoundPlan): Agent<unknown> =>
  Delegate.make({
    name: bound.definition.name,
    digest: bound.digest,
    maxSteps: Math.max(1, bound.definition.maxIterations),
    output: bound.output,
    answer: (turn) => answer(bound, turn),
    decode: (output) => outputs.decode(bound.output, output)
  })
