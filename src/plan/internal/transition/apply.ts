/** Which facts may follow a state, and the state after them: the second table of `PlanTransition`. */
import * as Chunk from "effect/Chunk"
import * as Equal from "effect/Equal"
import * as HashMap from "effect/HashMap"
import * as Result from "effect/Result"
import type { RunEvent } from "../../../agent/RunEvent.ts"
import * as RunTransition from "../../../agent/RunTransition.ts"
import * as TokenUsage from "../../../conversation/TokenUsage.ts"
import type * as PlanRunEvent from "../../PlanRunEvent.ts"
import type { Member, MemberStatus, PlanRunState } from "../../PlanRunState.ts"
import type { Rules } from "../../PlanTransition.ts"
import { type Applied, type Event, fail, inside, notStarted, unexpected, update } from "./applied.ts"
import { finishTurn, routeTaken } from "./flow.ts"
import {
  again,
  changeChild,
  changeMember,
  settle,
  startMember,
  stepDecided,
  stepRetried,
  withMember
} from "./members.ts"
import { next } from "./next.ts"
import * as states from "./state.ts"
import * as usages from "./usage.ts"

export const start = ({ definition }: Rules, event: PlanRunEvent.PlanStarted): PlanRunState =>
  states.make({
    runId: event.runId,
    plan: event.plan,
    digest: event.digest,
    depth: event.depth,
    context: event.context,
    input: event.input,
    cursor: definition.steps[0]?.name,
    turn: undefined,
    choosing: undefined,
    rejoins: [],
    iterations: 0,
    maxIterations: event.maxIterations,
    history: Chunk.empty(),
    latest: HashMap.empty(),
    writes: HashMap.empty(),
    previous: undefined,
    usage: TokenUsage.empty,
    interrupted: undefined,
    outcome: undefined,
    startedAt: event.at,
    updatedAt: event.at,
    revision: 1
  })

export const first = (rules: Rules, event: Event): Applied =>
  event._tag === "PlanStarted" ? Result.succeed(start(rules, event)) : Result.fail(notStarted(event._tag))

export const apply = (rules: Rules, self: PlanRunState, event: Event): Applied => {
  if (self.outcome !== undefined && !fitsEnded(event)) {
    return unexpected(event, "a run that goes on (PlanResumed first)", `one that ended ${self.outcome._tag}`)
  }
  if (self.interrupted !== undefined && self.outcome === undefined && !fitsInterrupted(event)) {
    return unexpected(event, "a run that goes on", "one that was interrupted")
  }
  switch (event._tag) {
    case "PlanStarted":
      return unexpected(event, "no PlanStarted after the first fact", "a run that has started")
    case "StepStarted":
      return stepStarted(rules, self, event)
    case "StepRetried":
      return stepRetried(self, event)
    case "AgentChanged":
      return agentChanged(self, event)
    case "NestedChanged":
      return nestedChanged(rules, self, event)
    case "StepFinished":
      return stepFinished(rules, self, event)
    case "StepFailed":
      return settle(self, event, event.step, (child) => ({ _tag: "Failed", failure: event.failure, ...child }))
    case "StepPaused":
      return settle(self, event, event.step, (child) => ({
        _tag: "Paused",
        ...(event.reason === undefined ? undefined : { reason: event.reason }),
        ...(event.request === undefined ? undefined : { request: event.request }),
        ...child
      }))
    case "StepConcluded":
      return settle(self, event, event.step, () => ({ _tag: "Concluded", answer: event.answer }))
    case "RouteTaken":
      return routeTaken(rules, self, event)
    case "StepDecided":
      return stepDecided(self, event)
    case "PlanInterrupted":
      return update(self, event, { interrupted: event.reason === undefined ? {} : { reason: event.reason } })
    case "PlanFinished":
      return planFinished(rules, self, event)
    case "PlanResumed":
      return planResumed(self, event)
  }
}

/** A decision is a fact from outside; it may come while nothing runs. */
const fitsEnded = (event: Event): boolean => event._tag === "PlanResumed" || isDecision(event)

const isDecision = (event: Event): boolean => {
  switch (event._tag) {
    case "StepDecided":
      return true
    case "AgentChanged":
      return isAgentDecision(event.event)
    case "NestedChanged":
      return isDecision(event.event)
    default:
      return false
  }
}

const isAgentDecision = (event: RunEvent): boolean =>
  event._tag === "ChildEvent" ? isAgentDecision(event.event) : event._tag === "ApprovalDecided"

/** Nothing starts any more; what runs may end. */
const fitsInterrupted = (event: Event): boolean =>
  event._tag !== "PlanStarted" &&
  event._tag !== "StepStarted" &&
  event._tag !== "StepRetried" &&
  event._tag !== "PlanInterrupted"

const stepStarted = (rules: Rules, self: PlanRunState, event: PlanRunEvent.StepStarted): Applied => {
  if (self.turn !== undefined) return startMember(self, event, self.iterations)
  const action = next(rules, self)
  if (action._tag !== "RunSteps") {
    return unexpected(event, `what comes next: ${action._tag}`, `the start of ${JSON.stringify(event.step)}`)
  }
  if (!action.steps.includes(event.step)) {
    return fail(event, { _tag: "UnknownStep", step: event.step, known: action.steps })
  }
  const members = action.steps.map((step): Member => ({ step, usage: TokenUsage.empty, status: { _tag: "Waiting" } }))
  return startMember(states.make({ ...self, turn: { members } }), event, self.iterations + 1)
}

/** What runs may change; what waits may be decided about. */
const changeable = (event: Event): ReadonlyArray<MemberStatus["_tag"]> =>
  isDecision(event) ? ["Running", "Paused", "Failed", "Waiting"] : ["Running"]

const agentChanged = (self: PlanRunState, event: PlanRunEvent.AgentChanged): Applied =>
  withMember(self, event, event.step, changeable(event), (member) => {
    const child = states.childOf(member)
    const before = child?._tag === "Agent" ? child.state : undefined
    const begins = event.event._tag === "RunStarted" && (before === undefined || before.outcome !== undefined)
    if (child?._tag === "Plan") return unexpected(event, "facts of the plan in the step", "an event of an agent")
    if (event.event._tag === "RunStarted" && begins) {
      return changeChild(self, event, member, { _tag: "Agent", state: RunTransition.start(event.event) }, undefined)
    }
    if (before === undefined) {
      return inside(event.step, event.event._tag, [], {
        _tag: "Unexpected",
        expected: "RunStarted first",
        found: event.event._tag
      })
    }
    const after = RunTransition.apply(before, event.event)
    return Result.isFailure(after)
      ? inside(event.step, after.failure.event, after.failure.path, { _tag: "Agent", problem: after.failure.message })
      : changeChild(self, event, member, { _tag: "Agent", state: after.success }, usages.ofPlan(self, event))
  })

const nestedChanged = (rules: Rules, self: PlanRunState, event: PlanRunEvent.NestedChanged): Applied =>
  withMember(self, event, event.step, changeable(event), (member) => {
    const nested = rules.nested(event.step)
    if (nested === undefined) return fail(event, { _tag: "NotNested", step: event.step })
    const child = states.childOf(member)
    if (child?._tag === "Agent") return unexpected(event, "events of the agent in the step", "a fact of a plan")
    const begins = child === undefined || (event.event._tag === "PlanStarted" && child.state.outcome !== undefined)
    const after = begins ? startNested(nested, self, event) : apply(nested, child.state, event.event)
    return Result.isFailure(after)
      ? inside(event.step, after.failure.event, after.failure.path, after.failure.reason)
      : changeChild(self, event, member, { _tag: "Plan", state: after.success }, usages.ofPlan(self, event))
  })

const startNested = (nested: Rules, self: PlanRunState, event: PlanRunEvent.NestedChanged): Applied =>
  event.event._tag === "PlanStarted" && event.event.depth !== self.depth + 1
    ? unexpected(event.event, `depth ${self.depth + 1}`, `depth ${event.event.depth}`)
    : first(nested, event.event)

const stepFinished = (rules: Rules, self: PlanRunState, event: PlanRunEvent.StepFinished): Applied =>
  withMember(self, event, event.record.step, ["Running"], (member) => {
    const turn = changeMember(self, member, { status: { _tag: "Finished", record: event.record } })
    const usage = usages.add(self.usage, usages.ofPlan(self, event))
    const records: Array<PlanRunEvent.StepRecord> = []
    for (const { status } of turn.members) {
      if (status._tag === "Finished") records.push(status.record)
    }
    return update(self, event, {
      usage,
      ...(records.length < turn.members.length ? { turn } : finishTurn(rules, self, records))
    })
  })

const planFinished = (rules: Rules, self: PlanRunState, event: PlanRunEvent.PlanFinished): Applied => {
  const action = next(rules, self)
  const { outcome } = event
  const fits =
    action._tag === "Finish"
      ? Equal.equals(action.outcome, outcome) ||
        // The output of the last step need not be one of the plan
        (action.outcome._tag === "Completed" && outcome._tag === "Failed")
      : // A predicate can fail
        action._tag === "ChooseRoute" && outcome._tag === "Failed" && outcome.step === action.step
  if (fits) return update(self, event, { outcome })
  const found = `the outcome ${outcome._tag}`
  return action._tag === "Finish"
    ? unexpected(event, `the outcome ${action.outcome._tag} as it comes from next`, found)
    : unexpected(event, `what comes next: ${action._tag}`, found)
}

const planResumed = (self: PlanRunState, event: PlanRunEvent.PlanResumed): Applied => {
  const { outcome } = self
  if (outcome?._tag === "Completed" || outcome?._tag === "Concluded") {
    return unexpected(event, "a run that can go on", `one that ended ${outcome._tag}`)
  }
  const { context, maxIterations } = event
  return update(self, event, {
    outcome: undefined,
    interrupted: undefined,
    turn: self.turn === undefined ? undefined : { members: self.turn.members.map(again) },
    ...(maxIterations === undefined ? undefined : { maxIterations }),
    ...(context === undefined ? undefined : { context })
  })
}
