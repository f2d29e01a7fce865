/** The rules of a plan and of the plans that are steps of it, for the pure core. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Agent } from "../../../agent/Agent.ts"
import type { Bound } from "../../Plan.ts"
import { PlanChanged, PlanError } from "../../PlanError.ts"
import type { PlanRunEvent } from "../../PlanRunEvent.ts"
import * as PlanRunState from "../../PlanRunState.ts"
import type { Rules } from "../../PlanTransition.ts"
import type { BoundPlan } from "../live.ts"
import * as states from "../transition/state.ts"
import { boundOf, isBound } from "../plan.ts"

/** Rules that learn which steps are plans when their agents are found. */
export interface Learning extends Rules {
  readonly bound: BoundPlan
  /** The agent of a step; if it is a plan, its rules are known from now on. */
  readonly found: (step: string, agent: Agent<unknown, unknown>) => Learning | undefined
}

export const learning = (bound: BoundPlan): Learning => {
  const known = new Map<string, Learning>()
  return {
    bound,
    definition: bound.definition,
    nested: (step) => known.get(step),
    found: (step, agent) => {
      if (!isBound(agent)) return undefined
      const inner = boundOf(agent)
      const before = known.get(step)
      if (before?.bound === inner) return before
      const rules = learning(inner)
      known.set(step, rules)
      return rules
    }
  }
}

/** The plan that a step is, if its agent is one. */
const planAt = (bound: BoundPlan, step: string): Effect.Effect<Option.Option<Bound<unknown, unknown>>> => {
  const target = bound.targets[bound.positions.get(step) ?? -1]
  return target?._tag === "Agent"
    ? Effect.map(target.agent, (agent) => (isBound(agent) ? Option.some(agent) : Option.none()))
    : Effect.succeedNone
}

/** Finds the plans inside a state that goes on. */
export const learn = (rules: Learning, state: PlanRunState.PlanRunState): Effect.Effect<void> =>
  Effect.forEach(
    PlanRunState.openSteps(state),
    (member) => {
      const { step } = member
      const child = states.childOf(member)
      if (child?._tag !== "Plan") return Effect.void
      return Effect.flatMap(planAt(rules.bound, step), (plan) => {
        const inner = Option.isSome(plan) ? rules.found(step, plan.value) : undefined
        return inner === undefined ? Effect.void : learn(inner, child.state)
      })
    },
    { discard: true }
  )

/** Rules that know all plans inside, and what they were made of. */
export interface Complete extends Rules {
  readonly digest: string
  readonly nested: (step: string) => Complete | undefined
}

/** The rules of a plan with all plans inside it, to replay a run that nothing is known of yet. */
export const rulesOf = (bound: BoundPlan): Effect.Effect<Complete> => complete(bound, new Map())

/** The first plan inside that began as another one than it is now. */
export const changedInside = (rules: Complete, events: ReadonlyArray<PlanRunEvent>): PlanError | undefined => {
  for (const event of events) {
    let inside: Complete | undefined = rules
    let fact: PlanRunEvent = event
    while (inside !== undefined && fact._tag === "NestedChanged") {
      inside = inside.nested(fact.step)
      fact = fact.event
    }
    if (inside === undefined || inside === rules || fact._tag !== "PlanStarted" || fact.digest === inside.digest)
      continue
    const reason = new PlanChanged({ expected: fact.digest, found: inside.digest })
    return new PlanError({ plan: inside.definition.name, reason })
  }
  return undefined
}

const complete = (bound: BoundPlan, seen: Map<BoundPlan, Complete>): Effect.Effect<Complete> =>
  Effect.suspend(() => {
    const before = seen.get(bound)
    if (before !== undefined) return Effect.succeed(before)
    const nested = new Map<string, Complete>()
    const rules: Complete = { definition: bound.definition, digest: bound.digest, nested: (step) => nested.get(step) }
    seen.set(bound, rules)
    const add = (step: string) =>
      Effect.flatMap(planAt(bound, step), (plan) =>
        Option.isSome(plan)
          ? Effect.map(complete(boundOf(plan.value), seen), (inner) => void nested.set(step, inner))
          : Effect.void
      )
    return Effect.as(
      Effect.forEach(bound.definition.steps, ({ name }) => add(name), { discard: true }),
      rules
    )
  })
