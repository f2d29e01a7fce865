/** The methods of an agent, over the one driver. */
import type * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type { Agent, Bound, DefinedTypeId, ServiceClass, TypeId, Value } from "../Agent.ts"
import type { AgentDefinition } from "../AgentDefinition.ts"
import * as AgentError from "../AgentError.ts"
import type { AgentEvent } from "../AgentEvent.ts"
import { RunIncomplete } from "../RunIncomplete.ts"
import type { RunResult } from "../RunResult.ts"
import * as blueprints from "./blueprint.ts"
import type { Blueprint } from "./blueprint.ts"
import { layUnder } from "./captured.ts"
import { type Begin, drive, type Sink } from "./drive.ts"

const typeId: TypeId = "~effect-emissary/agent/Agent"
const definedTypeId: DefinedTypeId = "~effect-emissary/agent/Agent/Defined"

/** How many events a stream holds before its reader slows the run. */
const streamBuffer = 16

const silent: Sink = { streaming: false, emit: () => Effect.void }

const answerOf = <A>(result: RunResult<A>): Effect.Effect<A, RunIncomplete> => {
  if (result.outcome === "Completed") return Effect.succeed(result.output)
  const { state } = result
  if (result.outcome === "InvalidOutput") {
    return Effect.fail(new RunIncomplete({ outcome: { _tag: "InvalidOutput", issues: result.issues }, state }))
  }
  // A result is only made of a state that has ended.
  return state.outcome === undefined
    ? Effect.die(new Error("a result without an outcome"))
    : Effect.fail(new RunIncomplete({ outcome: state.outcome, state }))
}

type Within = <B, E>(effect: Effect.Effect<B, E>) => Effect.Effect<B, E>

const methods = <A>(blueprint: Blueprint<A>, within: Within): Agent<A> => {
  const run = (begin: Begin, sink: Sink) => {
    const spanned = Effect.withSpan(drive(blueprint, begin, sink), `invoke_agent ${blueprint.name}`, {
      attributes: { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": blueprint.name }
    })
    return within(spanned)
  }
  const stream = (begin: Begin) =>
    Stream.unwrap(
      Effect.gen(function* () {
        const queue = yield* Queue.bounded<AgentEvent<A>, AgentError.AgentError | Cause.Done>(streamBuffer)
        // Sound: the only event that holds an A is the last, and it is this very run's.
        const emit = (event: AgentEvent<unknown>) => Effect.asVoid(Queue.offer(queue, event as AgentEvent<A>))
        yield* run(begin, { streaming: true, emit }).pipe(
          Effect.matchCauseEffect({
            onFailure: (cause) => Queue.failCause(queue, cause),
            onSuccess: () => Queue.end(queue)
          }),
          Effect.forkScoped
        )
        // Added last, so it runs first: a producer that waits for room must not delay its own interruption.
        yield* Effect.addFinalizer(() => Queue.shutdown(queue))
        return Stream.fromQueue(queue)
      })
    )
  return {
    [typeId]: typeId,
    name: blueprint.name,
    run: (input, options = {}) => run({ _tag: "Fresh", input, options }, silent),
    ask: (input, options = {}) => Effect.flatMap(run({ _tag: "Fresh", input, options }, silent), answerOf),
    stream: (input, options = {}) => stream({ _tag: "Fresh", input, options }),
    resume: (state, options = {}) => run({ _tag: "Resume", state, options }, silent),
    resumeStream: (state, options = {}) => stream({ _tag: "Resume", state, options })
  }
}

const identity: Within = (effect) => effect

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
  const statics: unknown = Object.assign(agentKey, { layer, [definedTypeId]: defined(described) })
  // Sound: R and RDefinition are what the configuration was inferred to need; both Effects read it from their context.
  return statics as ServiceClass<Self, Name, A, R, RDefinition>
}
