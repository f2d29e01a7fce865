/**
 * What can be wrong between a script and the program under test.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import { publicDescription } from "../agent/AgentError.ts"

/**
 * The program asked the model once more than the script has turns.
 *
 * @category errors
 * @since 0.1.0
 */
export class ScriptExhausted extends Schema.TaggedError<ScriptExhausted>(
  "effect-emissary/testing/ScriptedModelError/ScriptExhausted"
)("ScriptExhausted", {
  /** How many turns the script has. */
  turns: Schema.Int,
  /** The role of the newest message of the request. */
  lastRole: Schema.String,
  /** The text of the newest message of the request, shortened. */
  lastText: Schema.String
}) {
  override get message() {
    return (
      `the script has ${this.turns} turn${this.turns === 1 ? "" : "s"} and all are used, but the model was called again ` +
      `(newest message: ${this.lastRole} ${JSON.stringify(this.lastText)}). Add a turn, or find out why the program did not stop.`
    )
  }
}

/**
 * One point in which a request differs from what the turn expects.
 *
 * @category models
 * @since 0.1.0
 */
export const Difference = Schema.Struct({
  what: Schema.String,
  expected: Schema.String,
  found: Schema.String
})

/**
 * One point in which a request differs from what the turn expects.
 *
 * @category models
 * @since 0.1.0
 */
export type Difference = typeof Difference.Type

/**
 * A request is not the one the turn expects.
 *
 * @category errors
 * @since 0.1.0
 */
export class RequestMismatch extends Schema.TaggedError<RequestMismatch>(
  "effect-emissary/testing/ScriptedModelError/RequestMismatch"
)("RequestMismatch", {
  /** The turn, counted from 1. */
  turn: Schema.Int,
  differences: Schema.Array(Difference)
}) {
  override get message() {
    const lines = this.differences.map((d) => `${d.what}: expected ${d.expected}, found ${d.found}`)
    return `the request of turn ${this.turn} is not the expected one:\n  ${lines.join("\n  ")}`
  }
}

/**
 * The program ended before every turn was used.
 *
 * @category errors
 * @since 0.1.0
 */
export class ScriptIncomplete extends Schema.TaggedError<ScriptIncomplete>(
  "effect-emissary/testing/ScriptedModelError/ScriptIncomplete"
)("ScriptIncomplete", {
  turns: Schema.Int,
  used: Schema.Int
}) {
  override get message() {
    return `the script has ${this.turns} turns, but the model was called only ${this.used} time${this.used === 1 ? "" : "s"}`
  }
}

/**
 * The script and the program under test do not agree.
 *
 * **Details**
 *
 * A model call can fail with an `AiError` only. Such an error of the script is
 * therefore an `AiError` with an `UnknownError` reason, never retryable, whose
 * description is this error's message, which the error of an agent repeats; read the
 * error back with {@link fromAiError}. `ScriptedModel.assertComplete` fails with it directly,
 * even if the program swallowed the failed call.
 *
 * @category errors
 * @since 0.1.0
 */
export class ScriptedModelError extends Schema.TaggedError<ScriptedModelError>(
  "effect-emissary/testing/ScriptedModelError"
)("ScriptedModelError", {
  reason: Schema.Union([ScriptExhausted, RequestMismatch, ScriptIncomplete])
}) {
  override get message() {
    return `ScriptedModel: ${this.reason.message}`
  }
}

const metadataKey = "effect-emissary/testing/ScriptedModel"
const codec = Schema.toCodecJson(ScriptedModelError)
const encode = Schema.encodeSync(codec)

/**
 * The form in which a model call fails with the error.
 *
 * @category conversions
 * @since 0.1.0
 */
export const toAiError = (error: ScriptedModelError, method: string): AiError.AiError =>
  AiError.make({
    module: "ScriptedModel",
    method,
    reason: new AiError.UnknownError({
      description: error.message,
      metadata: {
        [publicDescription]: true,
        [metadataKey]: Option.getOrNull(Schema.decodeUnknownOption(Schema.MutableJson)(encode(error)))
      }
    })
  })

/**
 * The script's own error inside a failed model call, if that is why it failed.
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromAiError = (error: AiError.AiError): Option.Option<ScriptedModelError> =>
  error.reason._tag === "UnknownError" && Object.hasOwn(error.reason.metadata, metadataKey)
    ? Schema.decodeUnknownOption(codec)(error.reason.metadata[metadataKey])
    : Option.none()
