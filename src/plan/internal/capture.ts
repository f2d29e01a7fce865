/** A plan whose code finds what it requires where the plan was built, wherever it runs. */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Agent } from "../../agent/Agent.ts"
import * as Captured from "../../agent/Captured.ts"
import type { Bound } from "../Plan.ts"
import { makeBound } from "./bind.ts"
import type { BoundPlan, BoundTarget, LiveMemory, LivePredicate } from "./live.ts"
import * as internal from "./plan.ts"

type Services = Context.Context<never>

const mapValues = <A, B>(self: ReadonlyMap<string, A>, f: (value: A) => B): ReadonlyMap<string, B> =>
  new Map(Array.from(self, ([key, value]) => [key, f(value)]))

const memory =
  (captured: Services) =>
  ({ output, save, text }: LiveMemory): LiveMemory => {
    const under = Captured.layUnder(captured)
    return {
      text: text === undefined ? undefined : under(text),
      output: output === undefined ? undefined : under(output),
      save: save === undefined ? undefined : (value) => under(save(value))
    }
  }

/**
 * What is captured once is the same whenever it is found again: a run tells plans in
 * steps apart by identity, and a plan may be a step of itself.
 */
const capturing = (captured: Services) => {
  const under = Captured.layUnder(captured)
  const agents = new WeakMap<Agent<unknown>, Agent<unknown>>()
  const plans = new WeakMap<BoundPlan, Bound<unknown>>()

  const agentOf = (agent: Agent<unknown>): Agent<unknown> => {
    if (internal.isBound(agent)) return boundOf(internal.boundOf(agent))
    const made = agents.get(agent) ?? Captured.agentUnder(agent, captured)
    agents.set(agent, made)
    return made
  }

  // Its methods find a tool runtime among what is captured, too, if the caller has none.
  const boundOf = (plan: BoundPlan): Bound<unknown> => {
    const before = plans.get(plan)
    if (before !== undefined) return before
    const self = makeBound<unknown, never>(inside(plan))
    const made = { ...self, ...Captured.agentUnder(self, captured) }
    plans.set(plan, made)
    return made
  }

  const predicateOf =
    (custom: LivePredicate): LivePredicate =>
    (input) =>
      under(custom(input))

  const targetOf = (target: BoundTarget): BoundTarget => {
    if (target._tag === "Agent") return { ...target, agent: Effect.map(under(target.agent), agentOf) }
    if (target._tag !== "Function") return target
    const { execute } = target.target
    return { ...target, target: { ...target.target, execute: (input) => under(execute(input)) } }
  }

  const inside = (plan: BoundPlan): BoundPlan => ({
    ...plan,
    targets: plan.targets.map(targetOf),
    predicates: mapValues(plan.predicates, predicateOf),
    memories: mapValues(plan.memories, memory(captured))
  })

  return boundOf
}

/** The plan over captured services. `A` is for the caller to know. */
export const bound = <A>(plan: BoundPlan, captured: Services): Bound<A> =>
  // Sound: capturing changes where services are found, and not what the plan gives.
  capturing(captured)(plan) as Bound<A>
