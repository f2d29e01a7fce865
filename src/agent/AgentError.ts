/**
 * Why a run failed.
 *
 * A run that ends in a way its agent foresees has an `Outcome`. An `AgentError` is for
 * the rest: the model could not be reached, something the agent needs is missing, the
 * caller asked for the impossible. It carries the last consistent state, so that what
 * ran is never lost and the run can be resumed from there.
 *
 * @since 0.1.0
 */

import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { hideContent, quote } from "../payload/internal/base.ts"
import * as runParts from "../run/internal/runParts.ts"
import * as Run from "./Run.ts"
import * as agentReason from "./internal/agentReason.ts"

export {
  /**
   * Why a run failed; the reason of an {@link AgentError}.
   *
   * **Details**
   *
   * - `ModelFailed`: the model call failed, after the retries of the run. `error` is
   *   the tag of the reason that `effect/ai` reports, `RateLimitError` for example;
   *   {@link causeOf} returns the `AiError`. `retryAfterMillis` is the pause that the
   *   provider asked for. `problem` is the model's description, if it may be shown.
   * - `ApprovalByProvider`: the provider asks for an approval before it runs a tool of its own. The approvals of
   *   a run are about tools that the application runs, so this one cannot be given; the answer is discarded.
   * - `ModelMistakes`: the model repeated mistakes that its provider's adapter rejects. `last` is the last one: the tag of its
   *   error, and the part of its text that may be shown. The problems of the step are `mistakes` of the state.
   * - `ModelRegistryFailed`: the model that the agent names is unavailable.
   * - `PreparationFailed`: the Effect that makes the instructions, the toolkit or the
   *   model name failed. `error` is the tag or name of its error.
   * - `DefinitionInvalid`: the agent has no form as data: its output schema has no JSON
   *   Schema, or its model options hold a secret, for example.
   * - `ToolSetInvalid`: two tools share a name, or a tool cannot be offered.
   * - `StubWithoutRuntime`: tools have no body here, and the tool runtime does not
   *   execute them elsewhere.
   * - `ConversationInvalid`: the conversation breaks a law, or the input cannot follow it.
   * - `ContextWindowFailed`: the conversation does not fit its `contextWindow`, or the Effect that
   *   summarizes it failed. Then `error` is the tag of its error, or of the reason of that.
   * - `MaxDepth`: agents call agents deeper than `maxDepth`.
   * - `OptionsInvalid`: an option of the run cannot be meant, such as `maxSteps: 0` or a name that no option has, or its `context` could not
   *   be stored with its state. Nothing has run.
   * - `ContextInvalid`: the context of the run does not fit the Schema that the agent `agent` declares, or a handler of the agent could not
   *   read the context with `RunContext.read`. `issues` are the problems by path, without values. The context is checked before anything of
   *   the agent runs. The agent may be a tool of another agent, whose run ends then: no answer of a model mends the context.
   * - `DelegateFailed`: a plan that runs as an agent failed. `error` is the tag of its
   *   error.
   * - `DefinitionChanged`, `InvalidDecision`: see `Run`.
   *
   * @category reasons
   * @since 0.1.0
   */
  Reason
} from "./internal/agentReason.ts"

/**
 * The error behind a reason, in the process where it happened. It may hold text from
 * the provider: read it before you log it.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (reason: agentReason.Reason): Option.Option<unknown> =>
  agentReason.causes.has(reason) ? Option.some(agentReason.causes.get(reason)) : Option.none()

/**
 * A run failed. `state` is the last consistent state; it is absent when the run had
 * not begun. Whatever prints or copies the error leaves it out, because it holds the conversation.
 *
 * @category errors
 * @since 0.1.0
 */
export class AgentError extends Schema.TaggedError<AgentError>("effect-emissary/agent/AgentError")("AgentError", {
  agent: Schema.String,
  reason: agentReason.Reason,
  state: Schema.optionalKey(Run.stateCodec.schema)
}) {
  // Decoding runs it too, and the fields pass through unchanged: content is hidden however the error was made
  // @effect-diagnostics-next-line overriddenSchemaConstructor:off
  constructor(
    fields: { readonly agent: string; readonly reason: agentReason.Reason; readonly state?: Run.State },
    options?: Schema.MakeOptions
  ) {
    super(fields, options)
    hideContent(this, "state")
  }

  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Agent ${quote(this.agent)}: ${agentReason.explain(this.reason, "run")}`
  }
}

const adviceFor = (result: runParts.Incomplete): string => {
  switch (result.outcome) {
    case "MaxSteps":
      return "Resume from its state with a larger maxSteps."
    case "BudgetExceeded":
      return `Its budget is ${result.limit} ${result.unit}, and ${result.used} are used or reserved. Resume from its state with another budget.`
    case "AwaitingApproval":
      return `Resume from its state with decisions about ${result.requests.map(({ callId, name }) => `${JSON.stringify(callId)} (${name})`).join(", ")}.`
    case "Interrupted":
      return "Resume from its state when the cause is gone."
    case "InvalidOutput": {
      const { issues } = result
      return `The answer had ${issues.length === 1 ? "1 problem" : `${issues.length} problems`} with the output schema: ${issues.map(({ path }) => (path === "" ? "the root" : path)).join(", ")}.`
    }
    case "Stopped":
      return result.finishReason === "empty"
        ? "The answers of the model were empty. Ask in other words, or choose another model."
        : `The provider stopped with ${JSON.stringify(result.finishReason)}.`
    case "Refused":
      return `The guard ${quote(result.guard)} refused at ${quote(result.on)}: ${result.reason}`
    case "LoopDetected":
      return `The model called ${result.tools.map((tool) => JSON.stringify(tool)).join(", ")} ${result.times} times in a row with the same result. Resume from its state with an input that helps it, or annotate a tool that polls with ToolSettings.Polls.`
  }
}

const { Completed: _, ...incomplete } = Run.Outcome.cases

/** On the wire a result is its outcome and its state, which has the rest. */
const Result = Schema.Struct({
  outcome: Schema.Union(Object.values(incomplete)),
  state: Run.stateCodec.schema
}).pipe(
  Schema.decodeTo(
    Schema.declare(
      (value): value is runParts.Incomplete =>
        Predicate.hasProperty(value, "state") && value.state instanceof runParts.State
    ),
    SchemaTransformation.transform({
      decode: ({ outcome, state }): runParts.Incomplete => runParts.ended(runParts.resultBaseOf(state), outcome),
      encode: (result) => ({ outcome: runParts.outcomeOf(result), state: result.state })
    })
  )
)

/**
 * A run ended, but not with an answer: `result` is what `run` returns. Use `run` where that is nothing unusual. Whatever prints or
 * copies the error leaves out `result`.
 *
 * @category errors
 * @since 0.1.0
 */
export class RunIncomplete extends Schema.TaggedError<RunIncomplete>("effect-emissary/agent/RunIncomplete")(
  "RunIncomplete",
  { result: Result }
) {
  // Decoding runs it too, and the fields pass through unchanged: content is hidden however the error was made
  // @effect-diagnostics-next-line overriddenSchemaConstructor:off
  constructor(fields: { readonly result: runParts.Incomplete }, options?: Schema.MakeOptions) {
    super(fields, options)
    hideContent(this, "result")
  }

  /**
   * @since 0.1.0
   */
  override get message(): string {
    const { outcome, state } = this.result
    return `Run of agent ${quote(state.agent)}: expected an answer, got the outcome ${outcome}. ${adviceFor(this.result)}`
  }
}
