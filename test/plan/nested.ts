/** The common part of the tests of plans that are agents, or inside of agents. */
import { Effect } from "effect"
import { Agent, Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

/** A state that was written and read again. */
export const json = (state: Run.State) => Effect.flatMap(Run.stateCodec.encodeJson(state), Run.stateCodec.decodeJson)

/** An agent with another one as its only tool. */
export const around = <R>(inner: Agent.Agent<unknown, R>) =>
  Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "work", description: "Works" })] })

/** The call of that tool. */
export const asks: ScriptedModel.Turn = { toolCalls: [{ id: "c1", name: "work", params: { input: "go" } }] }

/** Runs with a model that has these answers. */
export const answered = (...turns: ReadonlyArray<ScriptedModel.Turn>) => Effect.provide(ScriptedModel.layer(turns))

/** The option `onEvent` that notes the states and events of a run. */
export const noted = Effect.sync(() => {
  const states: Array<Run.State> = []
  const events: Array<Run.Event> = []
  const onEvent = ({ event, state }: Agent.RecordedEvent) =>
    Effect.sync(() => {
      states.push(state)
      events.push(event)
    })
  return { states, events, onEvent }
})
