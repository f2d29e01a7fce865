/** Decisions of people as facts. */
import type * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import * as RunTransition from "../../../agent/RunTransition.ts"
import { InvalidDecision } from "../../PlanError.ts"
import type { PlanRunEvent } from "../../PlanRunEvent.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
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
    const invalid = Result.fail(
      new InvalidDecision({ callId: decision.callId, waiting: waiting.map(({ callId }) => callId) })
    )
    const candidates = waiting.filter((one) => isAbout(decision, one))
    const [one] = candidates
    if (one === undefined || candidates.length > 1 || decided.has(one)) return invalid
    decided.add(one)
    const made = within(self, one.path, decision, at)
    if (made === undefined) return invalid
    events.push(made)
  }
  return Result.succeed(events)
}

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
