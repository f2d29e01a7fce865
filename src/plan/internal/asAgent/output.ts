/** What a plan answers, as the output of an agent. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { OutputCheck } from "../../../agent/RunEvent.ts"
import * as Json from "../../../payload/Json.ts"
import { fromSchemaError, type ValidationIssue } from "../../../payload/ValidationIssue.ts"
import type { StepSchema } from "../live.ts"

/** The typed output of the JSON that a run holds. */
export const decode = (
  schema: StepSchema | undefined,
  output: Schema.Json
): Effect.Effect<unknown, ReadonlyArray<ValidationIssue>> =>
  schema === undefined
    ? Effect.succeed(output)
    : Effect.mapError(Schema.decodeEffect(schema)(output, { errors: "all" }), fromSchemaError)

const check = (schema: StepSchema | undefined, value: Schema.Json): Effect.Effect<OutputCheck> =>
  Effect.match(decode(schema, value), {
    onFailure: (issues): OutputCheck => ({ _tag: "Invalid", issues }),
    onSuccess: (): OutputCheck => ({ _tag: "Valid", value })
  })

/**
 * The answer that ended a plan early: the text itself where the plan's output can be
 * that, and otherwise the JSON that the text holds.
 */
export const conclusion = (schema: StepSchema | undefined, answer: string): Effect.Effect<OutputCheck> =>
  Effect.filterOrElse(
    check(schema, answer),
    ({ _tag }) => _tag === "Valid",
    (direct) =>
      Effect.matchEffect(Json.parse(answer), {
        onFailure: () => Effect.succeed(direct),
        onSuccess: (value) => check(schema, value)
      })
  )
