/** What a run begins with, as it is kept. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as Json from "../../../payload/Json.ts"
import { turnEnd } from "../bands.ts"
import type { BoundPlan, LiveStep, StepSchema } from "../live.ts"
import * as Output from "./output.ts"
import { InputInvalid, PlanError } from "../../PlanError.ts"
import type * as PlanInput from "../../PlanInput.ts"
import { text } from "../text.ts"

const kindOf = (value: unknown): string => (value === null ? "null" : Array.isArray(value) ? "an array" : typeof value)

/** What code without types can get wrong about the parts that are texts. */
const problemOf = (input: unknown): string | undefined => {
  if (typeof input !== "object" || input === null || Array.isArray(input)) {
    return `expected a text, or an object with a task, a payload, or both, found ${kindOf(input)}`
  }
  for (const part of ["task", "context"] as const) {
    const value: unknown = part in input ? Reflect.get(input, part) : undefined
    if (value !== undefined && typeof value !== "string") {
      return `expected a text as the ${part} of the input, found ${kindOf(value)}`
    }
  }
  return undefined
}

/** A payload that is not there, or is null, is the task. */
const parts = (
  { content, context, task }: Exclude<PlanInput.Input, string>,
  given: Schema.Json | undefined
): PlanInput.PlanInput => {
  const payload = given ?? task ?? (given === null ? null : "")
  return {
    task: task ?? text(payload),
    payload,
    ...(context === undefined ? undefined : { context }),
    ...(content === undefined ? undefined : { content })
  }
}

/** The input of a run; code without types can give something that is none. */
export const inputOf = (plan: string, input: PlanInput.Input): Effect.Effect<PlanInput.PlanInput, PlanError> =>
  Effect.suspend(() => {
    if (typeof input === "string") return Effect.succeed({ task: input, payload: input })
    const invalid = (problem: string) => Effect.fail(new PlanError({ plan, reason: new InputInvalid({ problem }) }))
    const problem = problemOf(input)
    if (problem !== undefined) return invalid(problem)
    if (input.payload === undefined) return Effect.succeed(parts(input, undefined))
    return Effect.matchEffect(Json.check(input.payload, { what: "the payload of the input" }), {
      onFailure: ({ message }) => invalid(`expected JSON: ${message}`),
      onSuccess: (payload) => Effect.succeed(parts(input, payload))
    })
  })

const readsInput = (step: LiveStep, isFirst: boolean): boolean =>
  step.definition.task._tag === "FromStart" || (isFirst && step.definition.task._tag === "FromPrev")

/** The input schema of the first step that has one and reads the input. */
const schemaOf = ({ definition, steps }: BoundPlan): StepSchema | undefined => {
  const firsts = turnEnd(definition.steps, 0)
  return steps.find((step, index) => step.input !== undefined && readsInput(step, index < firsts))?.input
}

/**
 * What a plan is given by somebody who can only say texts: a text that does not fit the
 * step that reads it, and is JSON that does, is that JSON.
 */
export const fitted = (bound: BoundPlan, payload: Schema.Json): Effect.Effect<Schema.Json> => {
  const schema = schemaOf(bound)
  if (schema === undefined || typeof payload !== "string") return Effect.succeed(payload)
  const fits = (value: Schema.Json) => Effect.as(Output.through(schema, value, "input"), value)
  return fits(payload).pipe(
    Effect.catch(() => Effect.flatMap(Json.parse(payload), fits)),
    Effect.orElseSucceed(() => payload)
  )
}
