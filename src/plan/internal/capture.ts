/** A plan whose code finds what it requires where the plan was built, wherever it runs. */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Agent } from "../../agent/Agent.ts"
import * as Captured from "../../agent/Captured.ts"
import type { Bound } from "../Plan.ts"
import { makeBound } from "./bind.ts"
import type { BoundPlan, BoundTarget, LiveMemory, LivePredicate } from "./live.ts"
import { boundOf, isBound } from "./plan.ts"

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

/** The same agent gives the same one every time: a run tells plans in steps apart by identity. */
const agents = (captured: Services): ((agent: Agent<unknown>) => Agent<unknown>) => {
  const known = new WeakMap<Agent<unknown>, Agent<unknown>>()
  return (agent) => {
    const before = known.get(agent)
    if (before !== undefined) return before
    const made = isBound(agent) ? bound<unknown>(boundOf(agent), captured) : Captured.agentUnder(agent, captured)
    known.set(agent, made)
    return made
  }
}

const capture = (plan: BoundPlan, captured: Services): BoundPlan => {
  const under = Captured.layUnder(captured)
  const agentOf = agents(captured)
  const predicate =
    (custom: LivePredicate): LivePredicate =>
    (input) =>
      under(custom(input))
  const target = (target: BoundTarget): BoundTarget => {
    if (target._tag === "Agent") return { ...target, agent: Effect.map(under(target.agent), agentOf) }
    if (target._tag !== "Function") return target
    const { execute } = target.target
    return { ...target, target: { ...target.target, execute: (input) => under(execute(input)) } }
  }
  return {
    ...plan,
    targets: plan.targets.map(target),
    predicates: mapValues(plan.predicates, predicate),
    memories: mapValues(plan.memories, memory(captured))
  }
}

/** The plan over captured services. Its methods find a tool runtime there, too, if the caller has none. */
export const bound = <A>(plan: BoundPlan, captured: Services): Bound<A> => {
  const self = makeBound<A, never>(capture(plan, captured))
  return { ...self, ...Captured.agentUnder(self, captured) }
}
