/** What a step gave, judged at its boundary: JSON, and what the step says it gives. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Json from "../../../payload/Json.ts"
import * as ValidationIssue from "../../../payload/ValidationIssue.ts"
import type { StepSchema } from "../live.ts"
import { type Attempt, failed, succeeded } from "./attempt.ts"

/** Where a value does not fit, without the value: issues of schemas quote what they found. */
const places = (error: Schema.SchemaError): string => {
  const found = ValidationIssue.fromSchemaError(error).map(({ path }) => (path === "" ? "the value itself" : path))
  return Array.from(new Set(found)).join(", ")
}

/** A value decoded and encoded again: what a schema gives for what it takes. */
export const through = (schema: StepSchema, value: Schema.Json): Effect.Effect<Schema.Json, Schema.SchemaError> =>
  Effect.flatMap(Schema.decodeEffect(schema)(value, { errors: "all" }), Schema.encodeEffect(schema))

export const misfit = (what: string, error: Schema.SchemaError): string =>
  `expected ${what}, found something else at: ${places(error)}`

/** Judges the output of a step. */
export const check = (output: Schema.Json, schema: StepSchema | undefined): Effect.Effect<Attempt> =>
  Json.check(output, { what: "the output" }).pipe(
    Effect.matchEffect({
      onFailure: (error) =>
        Effect.succeed<Attempt>(failed("OutputNotJson", `expected JSON: ${error.message}`, { again: false })),
      onSuccess: (json) =>
        schema === undefined
          ? Effect.succeed(succeeded(json))
          : Effect.match(through(schema, json), {
              onFailure: (error): Attempt =>
                failed("OutputInvalid", misfit("what the output schema of the step says", error), { cause: error }),
              onSuccess: succeeded
            })
    })
  )
