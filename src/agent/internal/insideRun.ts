/** An agent inside another run: what the run around hands to it. */

import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { State } from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import type * as AgentError from "../AgentError.ts"
import type * as agentParts from "./agentParts.ts"
import type * as agentTypes from "./agentTypes.ts"
import * as agentValue from "./agentValue.ts"

/** Options that a run passes on to the runs inside it. */
export type Inherited = Pick<
  agentTypes.ResumeOptions,
  "concurrency" | "defects" | "emptyAnswers" | "modelMistakes" | "onChange" | "repeatedCalls" | "retry" | "timeouts"
>

/**
 * The options that a run inherits from the run around it. A limit of steps bounds the steps of agents in plans: a plan
 * itself has no such steps.
 */
export const inherited = (
  { concurrency, defects, emptyAnswers, modelMistakes, onChange, repeatedCalls, retry, timeouts }: Inherited,
  step?: Duration.Input | undefined
): Inherited => ({
  concurrency,
  defects,
  emptyAnswers,
  modelMistakes,
  onChange,
  repeatedCalls,
  retry,
  timeouts: { ...timeouts, total: undefined, step }
})

/** Runs an agent inside another run, from its state there, if there is one. It can have been cut off before it had its input. */
export const runInside = <A>(
  agent: agentTypes.Agent<A>,
  {
    context,
    ...spec
  }: Pick<agentParts.RunSpec, "deadline" | "input" | "options" | "parent" | "state" | "streaming"> & {
    readonly context: State["context"]
  }
): Effect.Effect<agentTypes.Result<A>, AgentError.AgentError> => {
  const { input, options, state } = spec
  const begin =
    state === undefined
      ? { options: { ...options, context } }
      : { input: runTransition.hasInput(state) ? undefined : input }
  return agentValue.open(agent, { ...spec, ...begin, isPart: true }).result
}
