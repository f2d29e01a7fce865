/** The agents of a run: the agent that began the run, and the agents that have its conversation after handoffs. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Scope from "effect/Scope"
import type { JsonObject } from "../../payload/Json.ts"
import { quote } from "../../payload/internal/base.ts"
import * as handoffs from "../../run/internal/handoffs.ts"
import type * as runParts from "../../run/internal/runParts.ts"
import type * as AgentError from "../AgentError.ts"
import type * as agentParts from "./agentParts.ts"
import * as agentReason from "./agentReason.ts"
import * as guardTypes from "./guardTypes.ts"

/** An agent of a run, with the services and the guards that hold while the agent has the conversation. */
export interface Member {
  readonly name: string
  readonly agent: agentParts.Resolved<unknown>
  readonly within: agentParts.Wrap
  readonly context: Context.Context<never>
  readonly guarding: agentParts.Guarding | undefined
}

/** `first` began the run. `members` and `known` are by name: agents that have had the conversation, and agents that they name. */
export interface Team {
  readonly first: Member
  readonly choice: agentParts.ModelChoice
  readonly data: JsonObject
  readonly members: Map<string, Member>
  readonly known: Map<string, Effect.Effect<agentParts.Blueprint<unknown>>>
}

/** Sound: all guards are made by `Guard.make`. */
const guardingOf = (guards: guardTypes.Guards) =>
  guards[0]?.[guardTypes.TypeId].guarding(guards) as agentParts.Guarding | undefined

const memberOf = (name: string, agent: agentParts.Resolved<unknown>, within: agentParts.Wrap): Effect.Effect<Member> =>
  within(
    Effect.contextWith((context: Context.Context<never>) =>
      Effect.succeed({
        name,
        agent,
        within,
        context,
        guarding: guardingOf(guardTypes.join(agent.guards ?? [], Context.get(context, guardTypes.Host)))
      })
    )
  )

export const make = (
  name: string,
  agent: agentParts.Resolved<unknown>,
  choice: agentParts.ModelChoice,
  data: JsonObject
): Effect.Effect<Team> =>
  // The services of the first agent are around the run
  Effect.map(
    memberOf(name, agent, (effect) => effect),
    (first) => ({
      first,
      choice,
      data,
      members: new Map([[name, first]]),
      known: new Map(agent.handoffs)
    })
  )

/** The agent of a handoff, `undefined` where no agent so far names it. */
const join = Effect.fnUntraced(function* (
  team: Team,
  name: string
): Effect.fn.Return<Member | undefined, AgentError.Reason, Scope.Scope> {
  const { choice, data, first, known, members } = team
  const found = members.get(name)
  const blueprint = known.get(name)
  if (found !== undefined || blueprint === undefined) return found
  const { resolve, takes, within } = yield* blueprint
  if (takes !== undefined) yield* takes(data)
  // A layer has a scope of its own
  const scope = yield* Effect.scope
  const agent = yield* within(Effect.provideService(resolve(choice), Scope.Scope, scope))
  const problem = agent.asksModel
    ? Equal.equals(agent.output, first.agent.output)
      ? undefined
      : `the output of ${quote(first.name)}, got another output`
    : "an agent that asks a model, got a plan"
  if (problem !== undefined) {
    return yield* Effect.fail(
      agentReason.invalidDefinition({ message: `Handoff to ${quote(name)}: expected ${problem}` })
    )
  }
  const member = yield* memberOf(name, agent, within)
  members.set(name, member)
  for (const [other, one] of agent.handoffs ?? []) if (!known.has(other)) known.set(other, one)
  return member
})

/** The agent that has the conversation, `undefined` where the agents of today no longer have it. */
export const find = Effect.fnUntraced(function* (
  team: Team,
  state: Pick<runParts.State, "agent" | "handoffs">
): Effect.fn.Return<Member | undefined, AgentError.Reason, Scope.Scope> {
  let member: Member | undefined = team.first
  // Each agent may be known through the agent before it
  for (const { agent } of handoffs.madeHandoffs(state)) member = yield* join(team, agent)
  return member
})

/** The agent to which the conversation is passed on. */
export const next = Effect.fnUntraced(function* (
  team: Team,
  name: string
): Effect.fn.Return<Member, AgentError.Reason, Scope.Scope> {
  const member = yield* join(team, name)
  if (member !== undefined) return member
  const names = new Set([...team.members.keys(), ...team.known.keys()])
  const message = `Handoff to ${quote(name)}: expected the name of an agent of this run (${Array.from(names, quote).join(", ")}). Name one of them, or pass the agent itself to Agent.handoff`
  return yield* Effect.fail(agentReason.invalidDefinition({ message }))
})
