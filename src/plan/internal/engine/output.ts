/** What a step gave, judged at its boundary: JSON, and what the step says it gives. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as Decode from "../../../payload/Decode.ts"
import * as Json from "../../../payload/Json.ts"
import type { PayloadError } from "../../../payload/PayloadError.ts"
import type { StepSchema } from "../live.ts"
import { type Attempt, failed, succeeded } from "./attempt.ts"

/** A value as code: every place where it does not fit is told, and never what stands there. */
export const decode = (schema: StepSchema, value: Schema.Json, what: string): Effect.Effect<unknown, PayloadError> =>
  Decode.decode(schema, { what, onExcessProperty: "ignore" })(value)

/** A value decoded and encoded again: what a schema gives for what it takes. */
export const through = (
  schema: StepSchema,
  value: Schema.Json,
  what: string
): Effect.Effect<Schema.Json, PayloadError> =>
  Effect.flatMap(decode(schema, value, what), Decode.encode(schema, { what, onExcessProperty: "ignore" }))

/** The same; a text that does not fit, and is JSON, is judged as that JSON. */
const throughText = (schema: StepSchema, value: Schema.Json, what: string): Effect.Effect<Schema.Json, PayloadError> =>
  Effect.catch(through(schema, value, what), (error) =>
    typeof value !== "string"
      ? Effect.fail(error)
      : Effect.matchEffect(Json.parse(value), {
          onFailure: () => Effect.fail(error),
          onSuccess: (json) => through(schema, json, what)
        })
  )

/** What whoever wrote the plan can do about a text. It is not for models. */
export const giveItAnOutput = ". It gave a text: give the agent, or the plan, of this step an `output` of its own"

const invalid = (error: PayloadError, isText: boolean): Attempt =>
  failed("OutputInvalid", `${error.message}${isText ? giveItAnOutput : ""}`, { cause: error })

/** Judges the output of a step. `says` is whether it is something that says texts. */
export const check = (output: Schema.Json, schema: StepSchema | undefined, says: boolean): Effect.Effect<Attempt> =>
  Json.check(output, { what: "the output" }).pipe(
    Effect.matchEffect({
      onFailure: (error) =>
        Effect.succeed<Attempt>(failed("OutputNotJson", `expected JSON: ${error.message}`, { again: false })),
      onSuccess: (json) =>
        schema === undefined
          ? Effect.succeed(succeeded(json))
          : Effect.match((says ? throughText : through)(schema, json, "output"), {
              onFailure: (error): Attempt => invalid(error, says && typeof json === "string"),
              onSuccess: succeeded
            })
    })
  )
