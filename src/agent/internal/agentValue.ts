/** Agents as values: their methods, over captured services. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { JsonObject } from "../../payload/Json.ts"
import * as liveRun from "../../run/internal/liveRun.ts"
import type { Event, State } from "../../run/internal/runParts.ts"
import type * as ToolContract from "../../tool/ToolContract.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as AgentError from "../AgentError.ts"
import type * as agentParts from "./agentParts.ts"
import type * as agentReason from "./agentReason.ts"
import * as agentRun from "./agentRun.ts"
import * as agentShown from "./agentShown.ts"
import * as agentTypes from "./agentTypes.ts"
import * as guardTypes from "./guardTypes.ts"

const outputSchemaKey = "~effect-emissary/agent/Agent/OutputSchema"

/** The member of an agent with the Schema of its output. Copies of an agent keep it. */
export const withOutputSchema = (schema: Schema.Top | undefined): { readonly [outputSchemaKey]?: Schema.Top } =>
  schema === undefined ? {} : { [outputSchemaKey]: schema }

export const outputSchemaOf = (agent: unknown): Option.Option<Schema.Top> =>
  Predicate.hasProperty(agent, outputSchemaKey) && Schema.isSchema(agent[outputSchemaKey])
    ? Option.some(agent[outputSchemaKey])
    : Option.none()

const blueprintKey = "~effect-emissary/agent/Agent/Blueprint"

/** The blueprint of an agent. Copies of an agent keep it. */
export const blueprintOf = <A>(agent: agentTypes.Agent<A, unknown, never>): agentParts.Blueprint<A> =>
  // Sound: all agents are made by `makeAgent`.
  (agent as typeof agent & { readonly [blueprintKey]: agentParts.Blueprint<A> })[blueprintKey]

/** The changes of an agent since a state, as far as the agent can be known before it runs. */
export const changesSince = (
  agent: agentTypes.Agent<unknown>,
  state: State
): Effect.Effect<ReadonlyArray<ToolContract.Change>> => agentRun.changesSince(blueprintOf(agent), state)

/** Fails where no run of an agent could begin with this model in place of its own, as far as that is known before a run. */
export const check = (
  agent: agentTypes.Agent<unknown>,
  model?: string
): Effect.Effect<unknown, AgentError.AgentError> => {
  const blueprint = blueprintOf(agent)
  return Effect.mapError(
    blueprint.within(Effect.scoped(blueprint.check?.(model) ?? Effect.void)),
    (reason) => new AgentError.AgentError({ agent: blueprint.name, reason })
  )
}

/** Fails for a context that no run of the agent takes. */
export const checkContext = (
  agent: agentTypes.Agent<unknown>,
  context: JsonObject
): Effect.Effect<unknown, agentReason.ReasonOf<"ContextInvalid">> => blueprintOf(agent).takes?.(context) ?? Effect.void

/** The agent over services that it requires. */
export const over = <A, R>(agent: agentTypes.Agent<A, R, never>, services: Context.Context<R>): agentTypes.Agent<A> => {
  const blueprint = blueprintOf(agent)
  const { within } = blueprint
  return {
    ...agent,
    ...makeAgent({ ...blueprint, within: (effect) => Effect.provideContext(within(effect), services) })
  }
}

type Access = liveRun.Access<Event, agentTypes.AgentEvent<unknown>>

const openRun = <A>(blueprint: agentParts.Blueprint<A>, spec: agentParts.RunSpec, access?: Access) =>
  new liveRun.LiveRun(
    (live: agentRun.Performing) => blueprint.within(agentRun.runAgent(live, blueprint, spec)),
    agentShown.joinDeltas,
    access
  )

/** Opens a run of an agent as a part of something else. */
export const open = <A>(agent: agentTypes.Agent<A>, spec: agentParts.RunSpec, access?: Access): agentRun.Live<A> =>
  openRun(blueprintOf(agent), spec, access)

/** Sound: a run refuses it before anything is read. Without a state it would begin. */
const noState = {} as State

const resumed = (state: State, given: agentTypes.ResumeOptions = {}): agentParts.RunSpec => {
  // A caller without types may pass anything, which the run refuses
  if (typeof given !== "object" || given === null) return { state, input: undefined, options: given }
  const { input, ...options } = given
  return { state: state ?? noState, input, options }
}

/** The agent of a blueprint. */
export const makeAgent = <A>(blueprint: agentParts.Blueprint<A>): agentTypes.Agent<A> => {
  const stream = (spec: agentParts.RunSpec) =>
    // Sound: the only event that holds an A is the last, and it is this very run's.
    liveRun.streamOf(() => openRun(blueprint, { ...spec, streaming: true }, { reads: true })) as Stream.Stream<
      agentTypes.AgentEvent<A>,
      AgentError.AgentError
    >
  const agent: agentTypes.Agent<A> & { readonly [blueprintKey]: agentParts.Blueprint<A> } = {
    [agentTypes.TypeId]: agentTypes.TypeId,
    [blueprintKey]: blueprint,
    name: blueprint.name,
    run: (input, options = {}) => openRun(blueprint, { input, options }).result,
    ask: (input, options = {}) => Effect.flatMap(openRun(blueprint, { input, options }).result, agentRun.answerOf),
    stream: (input, options = {}) => stream({ input, options }),
    resume: (state, options) => openRun(blueprint, resumed(state, options)).result,
    resumeStream: (state, options) => stream(resumed(state, options)),
    ...withOutputSchema(blueprint.output)
  }
  return agent
}

/**
 * Runs an effect over captured services. A service of the call never replaces a captured service, see
 * {@link callContext.over}.
 */
export const withCaptured = (captured: Context.Context<never>): agentParts.Wrap => {
  const over = callContext.over(captured)
  const guarded = guardTypes.withHost(Context.get(captured, guardTypes.Host))
  return (effect) => Effect.updateContext(guarded(effect), over)
}
