/** Agents as values, as services and from data. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Agent, Bound, DefinedTypeId, ServiceClass, Value } from "../Agent.ts"
import type { AgentDefinition } from "../AgentDefinition.ts"
import * as AgentError from "../AgentError.ts"
import * as agentMachine from "./agentMachine.ts"
import * as blueprints from "./blueprint.ts"
import type { Blueprint } from "./blueprint.ts"
import { layUnder } from "./captured.ts"
import * as OutputSchema from "./outputSchema.ts"
import * as Methods from "./methods.ts"

const definedTypeId: DefinedTypeId = "~effect-emissary/agent/Agent/Defined"

const methods = <A>(blueprint: Blueprint<A>, within: Methods.Within): Agent<A> => ({
  ...Methods.make(agentMachine.make(blueprint), within),
  ...OutputSchema.member(blueprint.output)
})

const identity: Methods.Within = (effect) => effect

const refuse =
  (agent: string) =>
  (reason: AgentError.Reason): AgentError.AgentError =>
    new AgentError.AgentError({ agent, reason })

const defined = (blueprint: Blueprint<unknown>): Effect.Effect<AgentDefinition, AgentError.AgentError> =>
  Effect.mapError(blueprint.define, refuse(blueprint.name))

/** An agent that finds what it requires in the context of each call. */
export const value = <A, R, RDefinition>(blueprint: Blueprint<unknown>): Value<A, R, RDefinition> =>
  // Sound: A is the type of the output Schema, R and RDefinition are what the configuration was inferred to need.
  ({ ...methods(blueprint, identity), [definedTypeId]: defined(blueprint) }) as Value<A, R, RDefinition>

/** An agent over captured services: they lie under the context of the call. */
const service = <A>(blueprint: Blueprint<unknown>, captured: Context.Context<never>): Agent<A> =>
  // Sound: A is the type of the output Schema of the configuration.
  methods(blueprint, layUnder(captured)) as Agent<A>

/** An agent rebuilt from data. */
export const bound = <A>(
  blueprint: Blueprint<A>,
  definition: AgentDefinition,
  captured: Context.Context<never>
): Agent<A> & Pick<Bound, "definition" | DefinedTypeId> => ({
  ...methods(blueprint, layUnder(captured)),
  definition,
  [definedTypeId]: Effect.succeed(definition)
})

/** The key of an agent, with the layer that builds it. */
export const serviceClass = <Self, Name extends string, A, R, RDefinition>(
  name: Name,
  config: blueprints.AnyConfig
): ServiceClass<Self, Name, A, R, RDefinition> => {
  const described = blueprints.fromConfig(name, config, undefined)
  const key: `effect-emissary/Agent/${Name}` = `effect-emissary/Agent/${name}`
  const agentKey = Context.Service<Self, Agent<A>>()(key)
  const layer = Layer.effect(
    agentKey,
    Effect.gen(function* () {
      const bound = yield* Effect.mapError(blueprints.bindStatic(config), refuse(name))
      const captured = yield* Effect.context<never>()
      return service<A>(blueprints.fromConfig(name, config, bound), captured)
    })
  )
  const statics: unknown = Object.assign(agentKey, {
    layer,
    [definedTypeId]: defined(described),
    ...OutputSchema.member(described.output)
  })
  // Sound: R and RDefinition are what the configuration was inferred to need; both Effects read it from their context.
  return statics as ServiceClass<Self, Name, A, R, RDefinition>
}
