/**
 * Regular expressions from outside, which may not take longer than their input is long.
 *
 * The regular expressions of JavaScript can take exponential time, so a pattern in data
 * is code that can stop a program. These run on an engine that takes linear time.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { compilePattern } from "./internal/jsonschema/patterns.ts"
import { short } from "./internal/messages.ts"

/**
 * A regular expression that runs in linear time. It is searched for, not anchored.
 *
 * @category models
 * @since 0.1.0
 */
export interface LinearPattern {
  readonly source: string
  readonly test: (text: string) => boolean
}

/**
 * The pattern is no regular expression of ECMAScript, does not run in linear time
 * (look-around, back references), or is too large.
 *
 * @category errors
 * @since 0.1.0
 */
export class LinearPatternError extends Schema.TaggedError<LinearPatternError>(
  "effect-emissary/payload/LinearPatternError"
)("LinearPatternError", {
  pattern: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return (
      `expected a regular expression that runs in linear time, found ${JSON.stringify(short(this.pattern))}: ` +
      `${this.problem}. Write it without that`
    )
  }
}

/**
 * Compiles a regular expression of ECMAScript, without flags.
 *
 * **Details**
 *
 * At most 2048 characters, 100 `\p` escapes and 4000 instructions.
 *
 * **Example** (A pattern that would take for ever elsewhere)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { LinearPattern } from "effect-emissary"
 *
 * const pattern = Result.getOrThrow(LinearPattern.compile("^(a+)+$"))
 * assert.strictEqual(pattern.test(`${"a".repeat(1000)}b`), false)
 *
 * const refused = LinearPattern.compile("(?<=a)b")
 * assert.ok(Result.isFailure(refused) && refused.failure._tag === "LinearPatternError")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const compile = (source: string): Result.Result<LinearPattern, LinearPatternError> =>
  Result.mapError(compilePattern(source), (problem) => new LinearPatternError({ pattern: source, problem }))
