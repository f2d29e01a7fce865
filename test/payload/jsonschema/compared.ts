import { Validator } from "@cfworker/json-schema"
import { Effect, type Schema } from "effect"
import { JsonSchema } from "effect-emissary/payload"
import { random } from "./random.ts"

/** A random schema, values for it, and the answers of this interpreter and of another one to a value. */
export const compared = Effect.fnUntraced(function* (seed: number) {
  const { document, value } = random(seed)
  const schema = document()
  const checked = yield* JsonSchema.make(schema)
  const oracle = new Validator({ ...schema }, "2020-12", true)
  const accepts = (input: Schema.Json) => ({
    found: JsonSchema.accepts(checked, input),
    expected: oracle.validate(input).valid
  })
  return { schema, value, accepts }
})
