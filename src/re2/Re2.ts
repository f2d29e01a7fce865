/**
 * Patterns of JSON Schemas and of plans on RE2.
 *
 * **When to use**
 *
 * Provide {@link layer} where schemas or plans from outside have patterns that the engine of the platform may not run
 * in linear time, such as `^[^@]+@[^@]+\.[^@]+$`. Without it these patterns are refused by name, and all others run on
 * the platform. It has a subpath of its own because RE2 is as large as the rest of a small agent.
 *
 * @since 0.1.0
 */

import * as Layer from "effect/Layer"
import { RE2JS } from "re2js"
import * as patterns from "../payload/internal/patterns.ts"

/** The memory of a pattern for states met before; small, so that a pattern for which it does not help stops to use it. */
const maxStateMemory = 128 * 1024

const engine: patterns.PatternEngine = {
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
}

/**
 * Runs patterns on RE2 where the platform may take more than linear time.
 *
 * **Details**
 *
 * It holds for everything that is checked or decoded under the layer: agents, plans, tools, JSON Schemas. What was accepted
 * there keeps its patterns, wherever it is used later.
 *
 * **Example** (A pattern that goes back over its text)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Result } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 * import { Re2 } from "effect-emissary/re2"
 *
 * const make = JsonSchema.make({ type: "string", pattern: "^[^@]+@[^@]+\\.[^@]+$" })
 * const schema = Effect.runSync(Effect.provide(make, Re2.layer))
 * assert.ok(Result.isSuccess(JsonSchema.validate(schema, "ada@example.org")))
 *
 * const refused = Effect.runSync(Effect.flip(make))
 * assert.strictEqual(refused.reason, "UnsupportedPattern")
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<never> = Layer.succeed(patterns.PatternEngine, engine)
