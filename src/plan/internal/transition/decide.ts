/** Decisions of people as facts. */
import type * as DateTime from "effect/DateTime"
import * as HashMap from "effect/HashMap"
import * as Result from "effect/Result"
import * as RunTransition from "../../../agent/RunTransition.ts"
import { InvalidDecision } from "../../PlanError.ts"
import type { PlanRunEvent } from "../../PlanRunEvent.ts"
import type { Member, PlanRunState } from "../../PlanRunState.ts"
import * as states from "./state.ts"

type Decision = RunTransition.Decision

/** Something that waits: `path` are the steps of outer plans, then of the agent and its calls. */
interface Waiting {
  readonly callId: string
  readonly path: ReadonlyArray<string>
}

export const decide = (
  self: PlanRunState,
  decisions: ReadonlyArray<Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<PlanRunEvent>, InvalidDecision> => {
  const waiting: ReadonlyArray<Waiting> = [
    ...states.approvalRequests(self).map(({ callId, path }) => ({ callId, path: path ?? [] })),
    ...states.pauses(self).map(({ path, step }) => ({ callId: step, path }))
  ]
  const decided = new Set<Waiting>()
  const events: Array<PlanRunEvent> = []
  for (const decision of decisions) {
    const invalid = (problem: InvalidDecision["problem"]) => Result.fail(refused(self, decision, problem, waiting))
    const candidates = waiting.filter((one) => isAbout(decision, one))
    const [one] = candidates
    if (one === undefined) return invalid(whyNot(self, decision))
    if (candidates.length > 1) return invalid("ambiguous")
    if (decided.has(one)) return invalid("repeated")
    decided.add(one)
    const made = within(self, one.path, decision, at)
    if (made === undefined) return invalid("notWaiting")
    events.push(made)
  }
  return Result.succeed(events)
}

const refused = (
  self: PlanRunState,
  { callId, path }: Decision,
  problem: InvalidDecision["problem"],
  waiting: ReadonlyArray<Waiting>
): InvalidDecision =>
  new InvalidDecision({
    callId,
    problem,
    waiting,
    ...(path === undefined ? undefined : { path }),
    ...(problem === "over" && self.outcome !== undefined ? { outcome: self.outcome._tag } : undefined)
  })

/** Why a decision is about nothing that waits. */
const whyNot = (self: PlanRunState, { callId, path }: Decision): InvalidDecision["problem"] => {
  if (self.outcome?._tag === "Completed" || self.outcome?._tag === "Concluded") return "over"
  const place = planAt(self, path ?? [])
  return place !== undefined && isStepOf(place, callId) ? "notWaiting" : "unknown"
}

/** The run of the plan at a path, if there is one now. */
const planAt = (self: PlanRunState, [step, ...rest]: ReadonlyArray<string>): PlanRunState | undefined => {
  if (step === undefined) return self
  const member = states.member(self, step)
  const child = member === undefined ? undefined : states.childOf(member)
  return child?._tag === "Plan" ? planAt(child.state, rest) : undefined
}

/** Whether a step ran, or is of this turn, and nothing of that name waits. */
const isStepOf = (self: PlanRunState, step: string): boolean =>
  HashMap.has(self.latest, step) || isSettled(states.member(self, step))

/** What waits inside of a step has a path of its own. */
const isSettled = (member: Member | undefined): boolean =>
  member !== undefined &&
  (member.status._tag !== "Paused" || member.status.reason !== undefined || member.status.request !== undefined)

const isAbout = ({ callId, path }: Decision, waiting: Waiting): boolean =>
  waiting.callId === callId && (path === undefined || samePath(path, waiting.path))

const samePath = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): boolean =>
  a.length === b.length && a.every((name, i) => name === b[i])

const within = (
  self: PlanRunState,
  path: ReadonlyArray<string>,
  decision: Decision,
  at: DateTime.Utc
): PlanRunEvent | undefined => {
  const [step, ...rest] = path
  const { approved, callId, reason } = decision
  if (step === undefined) {
    return { _tag: "StepDecided", at, step: callId, approved, ...(reason === undefined ? undefined : { reason }) }
  }
  const member = states.member(self, step)
  const child = member === undefined ? undefined : states.childOf(member)
  if (child === undefined) return undefined
  if (child._tag === "Plan") {
    const event = within(child.state, rest, decision, at)
    return event === undefined ? undefined : { _tag: "NestedChanged", at, step, event }
  }
  const decided = RunTransition.decide(child.state, [{ ...decision, path: rest }], at)
  const [event] = Result.isSuccess(decided) ? decided.success : []
  return event === undefined ? undefined : { _tag: "AgentChanged", at, step, event }
}
