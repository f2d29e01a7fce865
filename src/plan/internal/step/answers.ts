/** What agents answer, beside what their steps say that they give. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Agent from "../../../agent/Agent.ts"
import * as FromSchema from "../../../payload/FromSchema.ts"
import type { JsonObject } from "../../../payload/Json.ts"
import * as Names from "../../../payload/Names.ts"
import type { SchemaRef } from "../../PlanDefinition.ts"
import type { PlanProblem } from "../../PlanProblem.ts"
import type { AgentTarget, StepSchema } from "../../Target.ts"
import { conflict } from "../check/compatible.ts"
import type { LiveStep, LiveTarget } from "../live.ts"

/** The output of an agent, as far as it is known before the agent is there. */
export const schemaOf = (agent: AgentTarget<unknown> | undefined): StepSchema | undefined =>
  // Sound: services of the Schema are among those that the agent requires, and so the run of the plan.
  agent === undefined ? undefined : (Option.getOrUndefined(Agent.outputSchema(agent)) as StepSchema | undefined)

/** Whether a schema says no more than that it is a text, which needs no saying. */
export const isText = (json: JsonObject): boolean => json["type"] === "string" && Object.keys(json).length === 1

/** A step whose agent can never answer what the step says. */
const atOdds = (
  { definition }: LiveStep,
  index: number,
  agent: AgentTarget<unknown> | undefined,
  output: SchemaRef
): Effect.Effect<ReadonlyArray<PlanProblem>> => {
  const schema = schemaOf(agent)
  const { json } = output
  if (schema === undefined || json === undefined) return Effect.succeed([])
  return Effect.map(Effect.result(FromSchema.fromSchema(schema)), (given): ReadonlyArray<PlanProblem> => {
    // The text of an agent without an output may hold whatever JSON the step asks for.
    if (Result.isFailure(given) || isText(given.success)) return []
    const reason = conflict(given.success, json)
    if (reason === undefined) return []
    const name = Names.quote(definition.target.name)
    return [
      {
        code: "IncompatibleTypes",
        step: definition.name,
        index,
        slot: "output",
        reason: `Step ${Names.quote(definition.name)} (#${index}), output: expected what the agent ${name} can answer, found a schema that its answers never fit: ${reason}. Give the agent that output, or leave it out to take the agent's.`
      }
    ]
  })
}

/** Steps that say another output than the agents that they run. */
export const check = (
  steps: ReadonlyArray<LiveStep>,
  agentOf: (target: LiveTarget) => AgentTarget<unknown> | undefined
): Effect.Effect<ReadonlyArray<PlanProblem>> =>
  Effect.map(
    Effect.forEach(steps, (step, index) => {
      const { output } = step.definition
      return output === undefined ? Effect.succeed([]) : atOdds(step, index, agentOf(step.target), output)
    }),
    (problems) => problems.flat()
  )
