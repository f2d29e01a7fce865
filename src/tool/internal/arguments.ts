/**
 * Arguments as a model sends them: JSON or JSON text, with the mistakes models make.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as CheckedSchema from "../../payload/CheckedSchema.ts"
import * as Json from "../../payload/Json.ts"
import type { PayloadError } from "../../payload/PayloadError.ts"
import * as ValidationIssue from "../../payload/ValidationIssue.ts"
import type { BoundTool } from "../BoundTool.ts"
import type * as ToolResult from "../ToolResult.ts"
import { invalid } from "./body.ts"

const options = { what: "tool arguments" }

const kind = (value: Schema.Json): string => (Array.isArray(value) ? "an array" : `a ${typeof value}`)

const parse = (value: Schema.Json): Effect.Effect<Schema.Json, PayloadError> => {
  if (typeof value === "string") return value.trim() === "" ? Effect.succeed({}) : Json.parse(value, options)
  return Json.check(value, options)
}

export const check = (tool: BoundTool, value: Schema.Json): Effect.Effect<Json.JsonObject, ToolResult.Failure> => {
  const { name } = tool.contract
  return parse(value).pipe(
    Effect.mapError((error) => invalid(name, error.message)),
    // models write `null` where there is nothing to say
    Effect.map((json) => json ?? {}),
    Effect.flatMap((json) => {
      if (!Json.isObject(json)) return Effect.fail(invalid(name, `expected a JSON object, got ${kind(json)}`))
      const checked = CheckedSchema.validate(tool.parameters, json, {
        strict: tool.contract.annotations.strict === true,
        coerce: true
      })
      if (Result.isFailure(checked)) return Effect.fail(invalid(name, ValidationIssue.render(checked.failure)))
      // the interpreter gives an object back for an object
      return Json.isObject(checked.success) ? Effect.succeed(checked.success) : Effect.succeed(json)
    })
  )
}
