/** Facts of one step of the turn. */
import type * as TokenUsage from "../../../conversation/TokenUsage.ts"
import type * as PlanRunEvent from "../../PlanRunEvent.ts"
import type { Child, Member, MemberStatus, PlanRunState } from "../../PlanRunState.ts"
import { type Applied, type Event, fail, unexpected, update } from "./applied.ts"
import * as states from "./state.ts"
import * as usages from "./usage.ts"

export const withMember = (
  self: PlanRunState,
  event: Event,
  step: string,
  expected: ReadonlyArray<MemberStatus["_tag"]>,
  f: (member: Member) => Applied
): Applied => {
  const member = states.member(self, step)
  if (member === undefined) {
    return fail(event, { _tag: "UnknownStep", step, known: states.members(self).map(({ step }) => step) })
  }
  const found = member.status._tag
  return expected.includes(found)
    ? f(member)
    : fail(event, { _tag: "StepStatus", step, expected: expected.join(" or "), found })
}

export const changeMember = (
  self: PlanRunState,
  { step }: Member,
  fields: Partial<Omit<Member, "step">>
): { readonly members: ReadonlyArray<Member> } => ({
  members: states.members(self).map((member) => (member.step === step ? { ...member, ...fields } : member))
})

const keepChild = (child: Child | undefined) => (child === undefined ? undefined : { child })

/** Ends the try of a step that runs. */
export const settle = (
  self: PlanRunState,
  event: Event,
  step: string,
  status: (child: { readonly child: Child } | undefined) => MemberStatus
): Applied =>
  withMember(self, event, step, ["Running"], (member) =>
    update(self, event, { turn: changeMember(self, member, { status: status(keepChild(states.childOf(member))) }) })
  )

export const startMember = (self: PlanRunState, event: PlanRunEvent.StepStarted, iterations: number): Applied =>
  withMember(self, event, event.step, ["Waiting"], (member) => {
    const { attempt, decision } = member.status._tag === "Waiting" ? member.status : {}
    const status: MemberStatus = {
      _tag: "Running",
      attempt: attempt ?? 1,
      startedAt: event.at,
      ...keepChild(states.childOf(member)),
      ...(decision === undefined ? undefined : { decision })
    }
    return update(self, event, { iterations, turn: changeMember(self, member, { status }) })
  })

export const stepRetried = (self: PlanRunState, event: PlanRunEvent.StepRetried): Applied =>
  withMember(self, event, event.step, ["Running"], (member) => {
    const { status } = member
    if (status._tag !== "Running" || event.attempt !== status.attempt + 1) {
      const found = status._tag === "Running" ? status.attempt : 0
      return unexpected(event, `the try after number ${found}`, `number ${event.attempt}`)
    }
    // Each try begins anew: nothing of the failed one is gone on from
    const { child: _, ...kept } = status
    return update(self, event, {
      turn: changeMember(self, member, { status: { ...kept, attempt: event.attempt } })
    })
  })

export const stepDecided = (self: PlanRunState, event: PlanRunEvent.StepDecided): Applied =>
  withMember(self, event, event.step, ["Paused"], (member) => {
    const { status } = member
    if (status._tag !== "Paused" || (status.reason === undefined && status.request === undefined)) {
      return unexpected(event, "a decision about what waits inside of the step", "one about the step")
    }
    if (status.decision !== undefined) return unexpected(event, "one decision", "another one about the same step")
    const { approved, reason } = event
    const decision = { approved, ...(reason === undefined ? undefined : { reason }) }
    return update(self, event, { turn: changeMember(self, member, { status: { ...status, decision } }) })
  })

/** What has no result runs again, from where what is inside of it stands. */
export const again = (member: Member): Member => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") return member
  const decision = status._tag === "Failed" ? undefined : status.decision
  // A try that was cut off is made again; a step that failed or paused begins with its first one
  const attempt = status._tag === "Running" || status._tag === "Waiting" ? status.attempt : undefined
  return {
    ...member,
    status: {
      _tag: "Waiting",
      ...(attempt === undefined || attempt === 1 ? undefined : { attempt }),
      ...keepChild(status.child),
      ...(decision === undefined ? undefined : { decision })
    }
  }
}

/** The step after a fact of what runs inside of it. */
export const changeChild = (
  self: PlanRunState,
  event: Event,
  member: Member,
  child: Child,
  used: TokenUsage.TokenUsage | undefined
): Applied => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") {
    return fail(event, { _tag: "StepStatus", step: member.step, expected: "Running", found: status._tag })
  }
  return update(self, event, {
    usage: usages.add(self.usage, used),
    turn: changeMember(self, member, { usage: usages.add(member.usage, used), status: { ...status, child } })
  })
}
