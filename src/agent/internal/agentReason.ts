/**
 * The reasons of an `AgentError`, which re-exports what users name, and the errors behind them.
 */

import * as Cause from "effect/Cause"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"

/** The step of a plan that failed, the steps of the plans around it, and the type of its failure. */
export const FailedStep = Schema.Struct({
  name: Schema.String,
  path: Schema.Array(Schema.String),
  type: Schema.optionalKey(Schema.String)
})

export const PlainReason = Schema.TaggedUnion({
  ModelFailed: {
    error: Schema.String,
    retryable: Schema.Boolean,
    retryAfterMillis: Schema.optionalKey(Schema.Finite),
    model: Schema.optionalKey(Schema.String),
    problem: Schema.optionalKey(Schema.String)
  },
  ApprovalByProvider: {
    approvalId: Schema.String,
    callId: Schema.String,
    tool: Schema.optionalKey(Schema.String)
  },
  ModelMistakes: {
    step: Schema.Int,
    mistakes: Schema.Int,
    limit: Schema.Int,
    last: Schema.optionalKey(Schema.Struct({ error: Schema.String, problem: Schema.optionalKey(Schema.String) }))
  },
  ModelRegistryFailed: { model: Schema.String, problem: Schema.String },
  PreparationFailed: {
    part: Schema.Literals(["instructions", "toolkit", "model"]),
    error: Schema.String,
    problem: Schema.optionalKey(Schema.String)
  },
  DefinitionInvalid: { problem: Schema.String },
  ToolSetInvalid: { problem: Schema.String },
  StubWithoutRuntime: { tools: Schema.Array(Schema.String) },
  ConversationInvalid: { problem: Schema.String },
  ContextWindowFailed: { problem: Schema.String, error: Schema.optionalKey(Schema.String) },
  MaxDepth: { limit: Schema.Int },
  OptionsInvalid: { problem: Schema.String },
  ContextInvalid: { agent: Schema.String, issues: Schema.Array(PayloadError.Problem) },
  DelegateFailed: {
    error: Schema.String,
    problem: Schema.optionalKey(Schema.String),
    step: Schema.optionalKey(FailedStep)
  }
})

export const Reason = Schema.Union([PlainReason, runTransition.DefinitionChanged, runRequests.InvalidDecision])

export type Reason = typeof Reason.Type

type PlainTag = keyof (typeof PlainReason)["cases"]

export type ReasonOf<Tag extends PlainTag> = Extract<Reason, { readonly _tag: Tag }>

// The errors behind reasons may hold secrets and message text: they stay out of reasons, JSON and rendered causes.
export const causes = new WeakMap<object, unknown>()

/** The error at the bottom of a failure, for the log: of the step of a plan, or of the agent in it. Empty where none is known. */
export const bottomOf = (error: object): Cause.Cause<unknown> => {
  const reason = Predicate.hasProperty(error, "reason") && Predicate.isObject(error.reason) ? error.reason : error
  const cause = causes.get(reason) ?? causes.get(error)
  if (cause === undefined) return Cause.empty
  const below = Predicate.isObject(cause) ? bottomOf(cause) : Cause.empty
  return below.reasons.length > 0 ? below : Cause.fail(cause)
}

export const makeReason = <Tag extends PlainTag>(
  tag: Tag,
  fields: Omit<ReasonOf<Tag>, "_tag">,
  cause?: unknown
): ReasonOf<Tag> => {
  // Sound: a reason is its tag and its fields.
  const reason = { _tag: tag, ...fields } as ReasonOf<Tag>
  if (cause !== undefined) causes.set(reason, cause)
  return reason
}

const publicTexts = new WeakMap<object, string>()

/** Lets the error of an agent show this text of the error behind it. It holds no secret and no text from outside. */
export const showing = <E extends object>(error: E, text: string): E => {
  publicTexts.set(error, text)
  return error
}

export const publicTextOf = (error: unknown): string | undefined =>
  typeof error === "object" && error !== null ? publicTexts.get(error) : undefined

/** Keeps the error behind a reason for a copy of it: a schema class copies its fields. */
export const copyCause = (from: Reason, to: Reason): void => {
  if (causes.has(from)) causes.set(to, causes.get(from))
}

const modelName = (model: string | undefined) =>
  model === undefined || model === "" ? "the model" : `the model ${JSON.stringify(model)}`

/** The advice of a message, which depends on what ran the agent. */
interface Advice {
  readonly cause: string
  readonly retry: string
  readonly again: string
  readonly window: string
  readonly context: string
  readonly accept: string | undefined
}

const advice = {
  run: {
    cause: "Read AgentError.causeOf(error.reason)",
    retry: "allow more retries (retry)",
    again: "resume the run from the state of this error",
    window: "Resume the state of this error with another contextWindow",
    context: 'Pass it with the run option "context"',
    accept: undefined
  },
  session: {
    cause: "Read the log, which has the cause",
    retry: "set run.retry in the options of the layer",
    again: "send a message or call resume",
    window: "Change the contextWindow of the agent, then send a message or call resume",
    context: "Send the message with a context that fits",
    accept: 'set run.onChange to "accept" in the options of the layer'
  }
} satisfies Record<string, Advice>

const explainPlain = ({ again, cause, context, retry, window }: Advice) =>
  PlainReason.match({
    ModelFailed: ({ error, model, problem, retryable }) => {
      const found = `expected an answer from ${modelName(model)}, got ${error}${problem === undefined ? "" : `: ${problem}`}`
      if (problem !== undefined && !retryable) return found
      return retryable ? `${found}. Try again: ${retry}, or ${again}.` : `${found}. ${cause}, then ${again}.`
    },
    ApprovalByProvider: ({ approvalId, callId, tool = "unknown" }) =>
      `expected the provider to run its tool ${JSON.stringify(tool)} without an approval, got the request ${JSON.stringify(approvalId)} to approve the call ${JSON.stringify(callId)}. Set the tool to need no approval, or offer a tool that the application runs.`,
    ModelMistakes: ({ last, limit, mistakes, step }) => {
      const found = last === undefined ? "" : `: ${last.error}${last.problem === undefined ? "" : ` ${last.problem}`}`
      return `expected an answer in step ${step} after at most ${limit} corrections, got mistake number ${mistakes}${found}. ${cause}, and check the descriptions of the tools.`
    },
    ModelRegistryFailed: ({ model, problem }) => `${modelName(model)} is unavailable: ${problem}`,
    PreparationFailed: ({ error, part, problem }) =>
      `the Effect that makes the agent's ${part} failed with ${error}${problem === undefined ? `. ${cause}.` : `: ${problem}`}`,
    DefinitionInvalid: ({ problem }) => `the agent cannot be defined: ${problem}`,
    ToolSetInvalid: ({ problem }) => `the agent's tools cannot be used: ${problem}`,
    StubWithoutRuntime: ({ tools }) =>
      `expected a body or a ToolRuntime for every tool, got none for ${tools.map((name) => JSON.stringify(name)).join(", ")}. Provide RemoteTools.layerRuntime, or bind the definition with ToolResolver.layerToolkit.`,
    ConversationInvalid: ({ problem }) => `the conversation cannot be run: ${problem}`,
    ContextWindowFailed: ({ error, problem }) =>
      error === undefined
        ? `the conversation does not fit its context window: ${problem}. ${window}.`
        : `${problem}. ${cause}, then ${again}.`,
    MaxDepth: ({ limit }) =>
      `expected agents nested at most ${limit} deep, got another agent inside. Raise maxDepth, or remove the circle of agents that call each other.`,
    OptionsInvalid: ({ problem }) => `the options of the run are refused: ${problem}`,
    ContextInvalid: ({ agent, issues }) =>
      `expected the context that the agent ${JSON.stringify(agent)} declares: ${PayloadError.render("", issues)}. ${context}.`,
    DelegateFailed: ({ error, problem }) =>
      `expected an answer, got ${problem === undefined ? error : `${error}: ${problem}`}. ${cause}, then ${again}.`
  })

const explainers = { run: explainPlain(advice.run), session: explainPlain(advice.session) }

/** The text of a reason, with advice for the reader of a run or of a session. */
export const explain = (reason: Reason, door: keyof typeof advice): string => {
  if (reason._tag === "DefinitionChanged") return runTransition.explainChange(reason, advice[door].accept)
  return "message" in reason ? reason.message : explainers[door](reason)
}

/** The tag of the reason of an error, where it has one: `RateLimitError` of an `AiError`. */
export const nameOfReason = (error: unknown): string =>
  nameOf(Predicate.hasProperty(error, "reason") && Predicate.hasProperty(error.reason, "_tag") ? error.reason : error)

/** The tag of an error, or its name. */
export const nameOf = (error: unknown): string => {
  if (Predicate.hasProperty(error, "_tag") && Predicate.isString(error._tag)) return error._tag
  return error instanceof Error ? error.name : "an untagged error"
}

const reasonOf =
  (tag: "ToolSetInvalid" | "DefinitionInvalid") =>
  (error: { readonly message: string }): Reason =>
    makeReason(tag, { problem: error.message }, error)

export const invalidTools = reasonOf("ToolSetInvalid")

export const invalidDefinition = reasonOf("DefinitionInvalid")
