/**
 * Why the name of a model did not become a model.
 *
 * @since 0.1.0
 */
import type * as Cause from "effect/Cause"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { PayloadError } from "../payload/PayloadError.ts"

const list = (names: ReadonlyArray<string>): string => (names.length === 0 ? "none" : names.join(", "))

/**
 * The name is not of the form `"provider/model"`.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidModelName extends Schema.TaggedError<InvalidModelName>(
  "effect-emissary/agent/ModelRegistryError/InvalidModelName"
)("InvalidModelName", {
  /** The name, quoted and shortened, or the kind of what was given instead of text. */
  found: Schema.String
}) {
  override get message() {
    return `expected a model of the form "provider/model", such as "openai/gpt-5.2", found ${this.found}`
  }
}

/**
 * The registry has no such provider.
 *
 * @category reasons
 * @since 0.1.0
 */
export class UnknownProvider extends Schema.TaggedError<UnknownProvider>(
  "effect-emissary/agent/ModelRegistryError/UnknownProvider"
)("UnknownProvider", {
  provider: Schema.String,
  /** The providers the registry has, in alphabetical order. */
  known: Schema.Array(Schema.String)
}) {
  override get message() {
    return `unknown provider ${JSON.stringify(this.provider)}; known providers: ${list(this.known)}. Add it to ModelRegistry.layer`
  }
}

/**
 * The definition gives the model an option that the provider's entry does not
 * take, or a value of the wrong form, or something that looks like a secret.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidModelOptions extends Schema.TaggedError<InvalidModelOptions>(
  "effect-emissary/agent/ModelRegistryError/InvalidModelOptions"
)("InvalidModelOptions", {
  provider: Schema.String,
  error: PayloadError
}) {
  override get message() {
    return `provider ${JSON.stringify(this.provider)} does not take these options: ${this.error.message}`
  }
}

/**
 * The provider's layer could not be built.
 *
 * **Details**
 *
 * `problem` names the kind of the error. The error itself is {@link causeOf}; it
 * stays in the process and out of messages and JSON, because it may hold text of
 * a request or a setting.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ModelUnavailable extends Schema.TaggedError<ModelUnavailable>(
  "effect-emissary/agent/ModelRegistryError/ModelUnavailable"
)("ModelUnavailable", {
  problem: Schema.String
}) {
  override get message() {
    return `the layer of the model could not be built (${this.problem}). Look at ModelRegistryError.causeOf(error.reason)`
  }
}

const causes = new WeakMap<ModelUnavailable, Cause.Cause<unknown>>()

/**
 * The reason for a layer that could not be built, its cause remembered for
 * {@link causeOf}.
 *
 * @category constructors
 * @since 0.1.0
 */
export const unavailable = (problem: string, cause: Cause.Cause<unknown>): ModelUnavailable => {
  const reason = new ModelUnavailable({ problem })
  causes.set(reason, cause)
  return reason
}

/**
 * Why the layer of a model could not be built; `None` for other reasons, and for
 * an error that came out of JSON.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (reason: ModelRegistryError["reason"]): Option.Option<Cause.Cause<unknown>> =>
  reason._tag === "ModelUnavailable" ? Option.fromNullishOr(causes.get(reason)) : Option.none()

/**
 * The name of a model did not become a model.
 *
 * **Details**
 *
 * `model` is the name as it was asked for, shortened; the `reason` says why.
 *
 * @category errors
 * @since 0.1.0
 */
export class ModelRegistryError extends Schema.TaggedError<ModelRegistryError>(
  "effect-emissary/agent/ModelRegistryError"
)("ModelRegistryError", {
  model: Schema.String,
  reason: Schema.Union([InvalidModelName, UnknownProvider, InvalidModelOptions, ModelUnavailable])
}) {
  override get message() {
    return `ModelRegistry: ${this.model}: ${this.reason.message}`
  }
}
