/**
 * Patterns of JSON Schemas and of plans on RE2.
 *
 * **When to use**
 *
 * Import it where schemas or plans from outside have patterns that the engine of the platform may not run in linear
 * time, such as `^[^@]+@[^@]+\.[^@]+$`. Without it such a pattern is refused by name, and all others run on the platform. It is
 * a module of its own because RE2 is as large as the rest of a small agent.
 *
 * **Example** (A pattern that goes back over its text)
 *
 * ```ts
 * import "effect-emissary/re2"
 * import assert from "node:assert"
 * import { Effect, Result } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const schema = Effect.runSync(JsonSchema.make({ type: "string", pattern: "^[^@]+@[^@]+\\.[^@]+$" }))
 * assert.ok(Result.isSuccess(JsonSchema.validate(schema, "ada@example.org")))
 * ```
 *
 * @since 0.1.0
 */

import { RE2JS } from "re2js"
import * as patterns from "./internal/patterns.ts"

/** The memory of a pattern for states met before; small, so that a pattern for which it does not help stops to use it. */
const maxStateMemory = 128 * 1024

patterns.setEngine({
  compile: (translated) => {
    const compiled = RE2JS.compile(translated)
    const program = compiled.programSize()
    let isBounded = false
    return {
      perCharacter: program <= 8 ? 0.5 : program / 8,
      test: (text) => {
        if (!isBounded) {
          const { dfa } = compiled.re2()
          dfa.memBudget = dfa.stateBudget = maxStateMemory
          isBounded = true
        }
        return compiled.test(text)
      }
    }
  }
})
