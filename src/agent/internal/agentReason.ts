/**
 * The reasons of an `AgentError`, which re-exports what users name, and the errors behind them.
 */

import * as Schema from "effect/Schema"
import * as runTransition from "./runTransition.ts"

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
  ModelMistakes: { step: Schema.Int, mistakes: Schema.Int, limit: Schema.Int },
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
  BudgetFailed: { problem: Schema.String },
  MaxDepth: { limit: Schema.Int },
  OptionsInvalid: { problem: Schema.String },
  DelegateFailed: { error: Schema.String, problem: Schema.optionalKey(Schema.String) }
})

export const Reason = Schema.Union([PlainReason, runTransition.DefinitionChanged, runTransition.InvalidDecision])

export type Reason = typeof Reason.Type

type PlainTag = keyof (typeof PlainReason)["cases"]

export type ReasonOf<Tag extends PlainTag> = Extract<Reason, { readonly _tag: Tag }>

// The errors behind reasons may hold secrets and message text: they stay out of reasons, JSON and rendered causes.
export const causes = new WeakMap<object, unknown>()

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
