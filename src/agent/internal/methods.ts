/** The methods of an agent, over the one driver. */
import * as Effect from "effect/Effect"
import type { Agent, TypeId } from "../Agent.ts"
import type * as AgentError from "../AgentError.ts"
import { type AgentEvent, streamOf } from "../AgentEvent.ts"
import { RunIncomplete } from "../RunIncomplete.ts"
import type { RunResult } from "../RunResult.ts"
import { type Begin, drive, type Sink } from "./drive.ts"
import type { Machine } from "./machine.ts"

const typeId: TypeId = "~effect-emissary/agent/Agent"

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

export type Within = <B, E>(effect: Effect.Effect<B, E>) => Effect.Effect<B, E>

export const make = <A>(machine: Machine<A>, within: Within): Agent<A> => {
  const run = (begin: Begin, sink: Sink) => {
    const spanned = Effect.withSpan(drive(machine, begin, sink), `invoke_agent ${machine.name}`, {
      attributes: { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": machine.name }
    })
    return within(spanned)
  }
  const stream = (begin: Begin) =>
    streamOf<AgentEvent<A>, AgentError.AgentError>((emit) =>
      run(begin, {
        streaming: true,
        // Sound: the only event that holds an A is the last, and it is this very run's.
        emit: (event) => emit(event as AgentEvent<A>)
      })
    )
  return {
    [typeId]: typeId,
    name: machine.name,
    run: (input, options = {}) => run({ _tag: "Fresh", input, options }, silent),
    ask: (input, options = {}) => Effect.flatMap(run({ _tag: "Fresh", input, options }, silent), answerOf),
    stream: (input, options = {}) => stream({ _tag: "Fresh", input, options }),
    resume: (state, options = {}) => run({ _tag: "Resume", state, options }, silent),
    resumeStream: (state, options = {}) => stream({ _tag: "Resume", state, options })
  }
}
