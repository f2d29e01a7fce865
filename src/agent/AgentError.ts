/**
 * Why a run failed.
 *
 * A run that ends in a way its agent foresees has an `Outcome`. An `AgentError` is for
 * the rest: the model could not be reached, something the agent needs is missing, the
 * caller asked for the impossible. It carries the last consistent state, so that what
 * ran is never lost and the run can go on from there.
 *
 * @since 0.1.0
 */

import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Run from "./Run.ts"

// What other people's errors say may hold secrets and message text. It stays out of
// reasons, their messages, their JSON and everything that prints an error.
const causes = new WeakMap<object, unknown>()

/**
 * Remembers the error behind a reason, for {@link causeOf}. It is not part of the
 * reason: neither messages nor JSON nor rendered causes show it.
 *
 * @category constructors
 * @since 0.1.0
 */
export const withCause = <R extends Reason>(reason: R, cause: unknown): R => {
  causes.set(reason, cause)
  return reason
}

/**
 * The error behind a reason, in the process where it happened. It may hold text from
 * the provider: do not log it without looking.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (reason: Reason): Option.Option<unknown> =>
  causes.has(reason) ? Option.some(causes.get(reason)) : Option.none()

/**
 * The model call failed, after the retries that were asked for.
 *
 * **Details**
 *
 * `error` is the tag of the reason that `effect/ai` gives, `RateLimitError` for
 * example; the `AiError` itself is {@link causeOf}. `retryAfterMillis` is what the
 * provider asked for. `problem` is there if the model says that its description may be
 * shown, see {@link callModel.publicDescription}.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ModelFailed extends Schema.TaggedError<ModelFailed>("effect-emissary/agent/ModelFailed")("ModelFailed", {
  error: Schema.String,
  retryable: Schema.Boolean,
  retryAfterMillis: Schema.optionalKey(Schema.Finite),
  model: Schema.optionalKey(Schema.String),
  problem: Schema.optionalKey(Schema.String)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const model = this.model === undefined ? "the model" : `the model ${JSON.stringify(this.model)}`
    if (this.problem !== undefined) return `expected an answer from ${model}, found ${this.error}: ${this.problem}`
    const advice = this.retryable
      ? "Trying again may help: give the run a modelRetry schedule, or resume it from the state of this error"
      : "Trying again will not help by itself: look at AgentError.causeOf(error.reason), then resume from the state of this error"
    return `expected an answer from ${model}, found ${this.error}. ${advice}.`
  }
}

/**
 * The model made mistakes that its provider's adapter refuses, and went on making them.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ModelMistakes extends Schema.TaggedError<ModelMistakes>("effect-emissary/agent/ModelMistakes")(
  "ModelMistakes",
  { step: Schema.Int, mistakes: Schema.Int, limit: Schema.Int }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected an answer in step ${this.step} after at most ${this.limit} corrections, found mistake number ${this.mistakes}. Look at state.mistakes for what was wrong, and at the descriptions of the tools.`
  }
}

/**
 * The model that the agent names cannot be had.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ModelRegistryFailed extends Schema.TaggedError<ModelRegistryFailed>(
  "effect-emissary/agent/ModelRegistryFailed"
)("ModelRegistryFailed", { model: Schema.String, problem: Schema.String }) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const model = this.model === "" ? "a model" : `the model ${JSON.stringify(this.model)}`
    return `${model} cannot be had: ${this.problem}`
  }
}

/**
 * The Effect that makes the instructions, the toolkit or the model name failed.
 * `error` is the tag or name of its error, which is {@link causeOf}.
 *
 * @category reasons
 * @since 0.1.0
 */
export class PreparationFailed extends Schema.TaggedError<PreparationFailed>("effect-emissary/agent/PreparationFailed")(
  "PreparationFailed",
  {
    part: Schema.Literals(["instructions", "toolkit", "model"]),
    error: Schema.String,
    problem: Schema.optionalKey(Schema.String)
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const what =
      this.problem === undefined
        ? `${this.error}. Look at AgentError.causeOf(error.reason).`
        : `${this.error}: ${this.problem}`
    return `expected the agent's ${this.part}, found that the Effect that makes it failed with ${what}`
  }
}

/**
 * The agent cannot be described as data: its output schema has no JSON Schema, for
 * example, or an option is no JSON.
 *
 * @category reasons
 * @since 0.1.0
 */
export class DefinitionInvalid extends Schema.TaggedError<DefinitionInvalid>("effect-emissary/agent/DefinitionInvalid")(
  "DefinitionInvalid",
  { problem: Schema.String }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `the agent cannot be defined: ${this.problem}`
  }
}

/**
 * The agent's tools cannot stand together, or one of them cannot be offered.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ToolSetInvalid extends Schema.TaggedError<ToolSetInvalid>("effect-emissary/agent/ToolSetInvalid")(
  "ToolSetInvalid",
  { problem: Schema.String }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `the agent's tools cannot be used: ${this.problem}`
  }
}

/**
 * Some tools have no body here, and the tool runtime does not run them elsewhere.
 *
 * @category reasons
 * @since 0.1.0
 */
export class StubWithoutRuntime extends Schema.TaggedError<StubWithoutRuntime>(
  "effect-emissary/agent/StubWithoutRuntime"
)("StubWithoutRuntime", { tools: Schema.Array(Schema.String) }) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected a body or a runtime for every tool, found none for ${this.tools.map((name) => JSON.stringify(name)).join(", ")}. Provide ToolRuntime.layerRuntime, or bind the definition with ToolResolver.layerToolkit.`
  }
}

/**
 * The conversation cannot be run: it breaks a law, or the input cannot follow it.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ConversationInvalid extends Schema.TaggedError<ConversationInvalid>(
  "effect-emissary/agent/ConversationInvalid"
)("ConversationInvalid", { problem: Schema.String }) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `the conversation cannot be run: ${this.problem}`
  }
}

/**
 * Agents called agents too deep.
 *
 * @category reasons
 * @since 0.1.0
 */
export class MaxDepth extends Schema.TaggedError<MaxDepth>("effect-emissary/agent/MaxDepth")("MaxDepth", {
  limit: Schema.Int
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected agents nested at most ${this.limit} deep, found one more. Raise maxDepth, or break the circle of agents that call each other.`
  }
}

/**
 * The conversation cannot be brought within what the `BudgetPolicy` allows, or the
 * Effect that summarizes it failed; `AgentError.causeOf` gives the original error.
 *
 * @category reasons
 * @since 0.1.0
 */
export class BudgetFailed extends Schema.TaggedError<BudgetFailed>("effect-emissary/agent/BudgetFailed")(
  "BudgetFailed",
  { problem: Schema.String }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `the conversation cannot be brought within its budget: ${this.problem}. Resume the state of this error with another budget.`
  }
}

/**
 * What answers in place of a model failed, a plan for example. `error` is the tag of its
 * error, which is {@link causeOf}; `problem` is there if it quotes nobody.
 *
 * @category reasons
 * @since 0.1.0
 */
export class DelegateFailed extends Schema.TaggedError<DelegateFailed>("effect-emissary/agent/DelegateFailed")(
  "DelegateFailed",
  { error: Schema.String, problem: Schema.optionalKey(Schema.String) }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const found = this.problem === undefined ? this.error : `${this.error}: ${this.problem}`
    return `expected an answer, found ${found}. Look at AgentError.causeOf(error.reason), then resume from the state of this error.`
  }
}

/**
 * Schema of {@link Reason}.
 *
 * @category reasons
 * @since 0.1.0
 */
export const Reason = Schema.Union([
  ModelFailed,
  ModelMistakes,
  ModelRegistryFailed,
  PreparationFailed,
  DefinitionInvalid,
  ToolSetInvalid,
  StubWithoutRuntime,
  Run.DefinitionChanged,
  Run.InvalidDecision,
  ConversationInvalid,
  BudgetFailed,
  MaxDepth,
  DelegateFailed
])

/**
 * Why a run failed.
 *
 * @category reasons
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * A run failed. `state` is the last consistent state; it is absent when the run had
 * not begun.
 *
 * @category errors
 * @since 0.1.0
 */
export class AgentError extends Schema.TaggedError<AgentError>("effect-emissary/agent/AgentError")("AgentError", {
  agent: Schema.String,
  reason: Reason,
  state: Schema.optionalKey(Run.stateCodec.schema)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Agent ${JSON.stringify(this.agent)}: ${this.reason.message}`
  }
}

const adviceFor = Run.Outcome.match({
  Completed: () => "Read the answer from the state.",
  MaxSteps: () => "Resume from its state with a larger maxSteps.",
  AwaitingApproval: ({ requests }) =>
    `Resume from its state with decisions about ${requests.map(({ callId, name }) => `${JSON.stringify(callId)} (${name})`).join(", ")}.`,
  Interrupted: () => "Resume from its state when the cause is gone.",
  InvalidOutput: ({ issues }) =>
    `The answer had ${issues.length} problems with the output schema: ${issues.map((issue) => (issue.path === "" ? "the root" : issue.path)).join(", ")}.`,
  Stopped: ({ finishReason }) => `The provider stopped with ${JSON.stringify(finishReason)}.`
})

/**
 * A run ended, but not with an answer. Use `run` where that is nothing unusual.
 *
 * @category errors
 * @since 0.1.0
 */
export class RunIncomplete extends Schema.TaggedError<RunIncomplete>("effect-emissary/agent/RunIncomplete")(
  "RunIncomplete",
  { outcome: Run.Outcome, state: Run.stateCodec.schema }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Agent ${JSON.stringify(this.state.agent)}: expected an answer, found that the run ended ${this.outcome._tag}. ${adviceFor(this.outcome)}`
  }
}
