/** What a fact adds to the usage of a run, so that each count is added once. */
import * as RunEvent from "../../../agent/RunEvent.ts"
import * as TokenUsage from "../../../conversation/TokenUsage.ts"
import type { PlanRunEvent } from "../../PlanRunEvent.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import * as states from "./state.ts"

/** `before` is the state of the plan before the fact; absent when the fact begins it. */
export const ofPlan = (before: PlanRunState | undefined, event: PlanRunEvent): TokenUsage.TokenUsage | undefined => {
  switch (event._tag) {
    case "AgentChanged":
      return RunEvent.usageOf(event.event)
    case "NestedChanged": {
      const member = before === undefined ? undefined : states.member(before, event.step)
      const child = member === undefined ? undefined : states.childOf(member)
      return ofPlan(child?._tag === "Plan" ? child.state : undefined, event.event)
    }
    case "StepFinished": {
      // What ran inside of the step has told its usage already
      const member = before === undefined ? undefined : states.member(before, event.record.step)
      return member === undefined || isEmpty(member.usage) ? event.record.usage : undefined
    }
    default:
      return undefined
  }
}

export const isEmpty = (usage: TokenUsage.TokenUsage): boolean => Object.keys(usage).length === 0

export const add = (total: TokenUsage.TokenUsage, usage: TokenUsage.TokenUsage | undefined): TokenUsage.TokenUsage =>
  usage === undefined || isEmpty(usage) ? total : TokenUsage.sum([total, usage])
