/** An agent in the loop: its model answers, its tools run. */
import * as Effect from "effect/Effect"
import * as ToolRuntime from "../../tool/ToolRuntime.ts"
import * as AgentError from "../AgentError.ts"
import type { RunState } from "../RunState.ts"
import * as RunTransition from "../RunTransition.ts"
import type { Blueprint, Resolved } from "./blueprint.ts"
import * as callModel from "./callModel.ts"
import type { Machine, Prepared } from "./machine.ts"
import * as Output from "./output.ts"
import * as runTools from "./runTools.ts"

const checkShells = Effect.fnUntraced(function* (resolved: Resolved<unknown>) {
  const runtime = yield* ToolRuntime.ToolRuntime
  const tools = Array.from(resolved.tools.tools.values())
  const unsupported = tools.filter((tool) => !ToolRuntime.supports(runtime, tool)).map((tool) => tool.contract.name)
  if (unsupported.length > 0) return yield* new AgentError.ShellWithoutRuntime({ tools: unsupported })
})

const accept = Effect.fnUntraced(function* (
  blueprint: Blueprint<unknown>,
  resolved: Resolved<unknown>,
  state: RunState
) {
  // A model could only begin the answer anew that something else is in the middle of.
  if (state.progress !== undefined) {
    return yield* new AgentError.DefinitionChanged({ expected: resolved.digest, found: state.definition })
  }
  if (state.definition === resolved.digest) return
  if ((yield* blueprint.digestsOfOrigin).includes(state.definition)) return
  yield* Effect.fromResult(RunTransition.checkDefinition(state, resolved.digest))
})

export const make = <A>(blueprint: Blueprint<A>): Machine<A> => ({
  name: blueprint.name,
  prepare: Effect.gen(function* (): Effect.fn.Return<Prepared<A>, AgentError.Reason> {
    const resolved = yield* blueprint.resolve
    yield* checkShells(resolved)
    const { definition, digest, output } = resolved
    return {
      digest,
      maxSteps: definition.maxSteps,
      structured: Output.structuredSteps(output, resolved.tools.tools.size > 0),
      instructions: definition.instructions,
      stepTimeout: true,
      accept: (state) => accept(blueprint, resolved, state),
      ask: (run, callIds) =>
        runTools.requestApprovals({ ...run, resolved, deadline: run.environment.deadline }, callIds),
      perform: (run, action, deadline) => {
        if (action._tag === "RunTools") return runTools.run({ ...run, resolved, deadline }, action)
        const { budget } = run.options
        return callModel.run(
          { ...run, resolved, budget: budget === "off" ? undefined : (budget ?? blueprint.budget) },
          action
        )
      },
      decode: (text, json) => (output._tag === "Text" ? output.decode(text) : output.decode(json ?? null))
    }
  })
})
