/** Steps with their schemas exported, and what is wrong with them. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as FromSchema from "../../../payload/FromSchema.ts"
import type { SchemaRef } from "../../PlanDefinition.ts"
import type { PlanProblem } from "../../PlanProblem.ts"
import type { StepSchema as Written } from "../../Target.ts"
import * as answers from "./answers.ts"
import type { LiveStep, StepSchema } from "../live.ts"
import type { StepParts } from "./make.ts"
import { jsonCodec, schemaName } from "./target.ts"

/** A schema as data and as code. */
export interface Exported {
  readonly ref: SchemaRef
  readonly schema: StepSchema
}

/** Where a schema stands, for messages. */
export interface Place {
  readonly step?: string
  readonly index?: number
  readonly slot: string
}

const notExported = (place: Place, problem: string): PlanProblem => ({
  code: "SchemaNotRepresentable",
  ...place,
  reason: `${place.step === undefined ? "The plan" : `Step ${JSON.stringify(place.step)}`}, ${place.slot}: expected a schema that JSON Schema can tell. ${problem}`
})

/** Exports a schema; one that has no JSON Schema is a problem of the plan. */
export const exportSchema = (
  schema: Written | undefined,
  place: Place
): Effect.Effect<Result.Result<Exported | undefined, PlanProblem>> => {
  if (schema === undefined) return Effect.succeed(Result.succeed(undefined))
  return Effect.matchEffect(FromSchema.fromSchema(schema, { what: place.slot }), {
    onFailure: (error) => Effect.succeed(Result.fail(notExported(place, error.message))),
    onSuccess: (json) => {
      const name = schemaName(schema)
      const ref: SchemaRef = name === undefined ? { json } : { name, json }
      return Effect.succeed(Result.succeed({ ref, schema: jsonCodec(schema) }))
    }
  })
}

/** What the agent of a step answers, where the step does not say what it gives. */
const answered = Effect.fnUntraced(function* (parts: StepParts, index: number, problems: Array<PlanProblem>) {
  if (parts.output !== undefined || parts.target._tag !== "Agent") return undefined
  const place = { step: parts.definition.name, index, slot: "output" }
  const result = yield* exportSchema(answers.schemaOf(parts.target.source), place)
  if (Result.isFailure(result)) {
    problems.push(result.failure)
    return undefined
  }
  const json = result.success?.ref.json
  return json === undefined || answers.isText(json) ? undefined : result.success
})

/** A step with its schemas, and what is wrong with it. */
export const live = Effect.fnUntraced(function* (parts: StepParts, index: number) {
  const { definition } = parts
  const problems: Array<PlanProblem> = parts.problems.map((problem) => ({ step: definition.name, index, ...problem }))
  const exported = Effect.fnUntraced(function* (slot: "input" | "output") {
    const result = yield* exportSchema(parts[slot], { step: definition.name, index, slot })
    if (Result.isSuccess(result)) return result.success
    problems.push(result.failure)
    return undefined
  })
  const input = yield* exported("input")
  const output = (yield* exported("output")) ?? (yield* answered(parts, index, problems))
  const step: LiveStep = {
    definition: {
      ...definition,
      ...(input === undefined ? {} : { input: input.ref }),
      ...(output === undefined ? {} : { output: output.ref })
    },
    target: parts.target,
    input: input?.schema,
    output: output?.schema
  }
  return { step, problems }
})
