/**
 * The values in the data of runs, each written once as the Schema of its newest wire. Events and states of agents and of plans are made of them.
 */

import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as conversationCodec from "../../conversation/internal/conversationCodec.ts"
import type * as history from "../../conversation/internal/history.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { toSchemaIssue } from "../../payload/internal/problems.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ledger from "./ledger.ts"
import * as runRequests from "./runRequests.ts"

/**
 * The reasons to end a run without an answer. Calls of an answer with one of these finish reasons never run. `empty` is
 * no finish reason: the model returned an answer without anything, and another one when it was asked again.
 */
export const StopReason = Schema.Literals(["length", "content-filter", "error", "other", "empty"])

export type StopReason = typeof StopReason.Type

/**
 * The largest number of model calls for one user message: an integer from 1, or `"unlimited"`.
 */
export const MaxSteps = Schema.Union([Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)), Schema.Literal("unlimited")])

export type MaxSteps = typeof MaxSteps.Type

/**
 * When a model call asks for structured output with `generateObject`: never, once
 * after an invalid answer, or in every step.
 */
export const StructuredSteps = Schema.Literals(["never", "fallback", "always"])

export type StructuredSteps = typeof StructuredSteps.Type

/**
 * The purpose of a model call: an answer, which may use tools, or the output alone.
 */
export const Purpose = Schema.Literals(["answer", "structured"])

export type Purpose = typeof Purpose.Type

/**
 * The check of an answer against the agent's output schema.
 */
export const OutputCheck = Schema.Union([
  Schema.TaggedStruct("Valid", { value: Schema.Json }),
  Schema.TaggedStruct("Invalid", { issues: Schema.Array(PayloadError.Problem) })
])

export type OutputCheck = typeof OutputCheck.Type

/**
 * The check as the event of the answer has it. Without `value` the output is what the model wrote: the arguments of the output call, or
 * else the JSON of the text.
 */
export const RecordedCheck = Schema.Union([
  Schema.TaggedStruct("Valid", { value: Schema.optionalKey(Schema.Json) }),
  OutputCheck.members[1]
])

export type RecordedCheck = typeof RecordedCheck.Type

/**
 * ISO 8601 text.
 */
export const Time: Schema.Codec<DateTime.Utc, string> = Schema.DateTimeUtcFromString

/**
 * An integer from 0.
 */
export const Count: Schema.Codec<number> = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const Context = Schema.Record(Schema.String, Schema.Json)

export const Usage = Message.TokenUsage

const checkMessages = (count: number) =>
  Effect.mapError(conversationCodec.checkCount(count), (error) => toSchemaIssue(error.problems, undefined))

/**
 * A conversation, in version 1 of its own wire, with at most `maxMessages`.
 */
export const History: Schema.Codec<history.Conversation, unknown> = conversationCodec.Wire.pipe(
  Schema.decodeTo(Schema.declare(Conversation.isConversation), {
    decode: SchemaGetter.transformEffect((wire, options) =>
      Effect.flatMap(checkMessages(wire.messages.length), () =>
        Effect.mapError(
          Effect.fromResult(conversationCodec.readWire(wire)),
          (error) => new SchemaIssue.InvalidValue({ message: error.message }, wire.messages, options)
        )
      )
    ),
    encode: SchemaGetter.transformEffect((conversation) =>
      Effect.map(checkMessages(Conversation.messageCount(conversation)), () =>
        conversationCodec.writeWire(conversation)
      )
    )
  })
)

/**
 * Values below these places were written by models, tools and users, or have names as keys: a key called
 * `password` there is data, not an option that holds a secret. The context of a run
 * and the provider options of messages are not among them.
 */
export const userData: ReadonlyArray<string> = [
  "/**/content/*/arguments",
  // Metadata of a provider
  "/**/content/*/options",
  "/**/requests/*/arguments",
  "/**/requests/*/schema",
  "/**/ask/schema",
  "/**/decisions/*/answer",
  "/**/event/answer",
  "/**/events/*/answer",
  "/**/decision/answer",
  "/**/contract/parameters",
  "/**/contract/success",
  "/**/contract/failure",
  "/**/contracts/*/parameters",
  "/**/contracts/*/success",
  "/**/contracts/*/failure",
  "/**/event/arguments",
  "/**/events/*/arguments",
  "/**/status/arguments",
  "/**/status/approved/arguments",
  "/**/result/value",
  "/**/output/value",
  "/**/outcome/output",
  "/**/calls/*/replaced",
  "/**/input/payload",
  "/**/plan/payload",
  "/**/record/output",
  "/**/history/*/output",
  "/**/request/arguments",
  "/**/message/metadata",
  "/**/message/response/metadata",
  "/**/answer/response/metadata",
  "/**/messages/*/metadata",
  "/**/messages/*/response/metadata",
  "/**/view/*/metadata",
  "/**/view/*/response/metadata",
  "/**/instructions/metadata",
  // By the names of tools and steps
  "/**/basis/parts",
  "/**/change/parts",
  "/**/event/parts",
  "/**/events/*/parts"
]

const [, , Assistant, Tool] = Message.Message.members

/** The places of a run where guards decide. */
export const GuardPlace = Schema.Literals([
  "input",
  "beforeModel",
  "afterModel",
  "beforeTool",
  "afterTool",
  "output"
]).annotate({ identifier: "GuardPlace" })

/** The refusal of a guard: its name, its place, and the reason for the user. */
export const Refusal = { guard: Schema.String, on: GuardPlace, reason: Schema.String }

export const Outcome = Schema.TaggedUnion({
  Completed: { output: Schema.optionalKey(Schema.Json) },
  MaxSteps: {},
  BudgetExceeded: ledger.Usage,
  AwaitingApproval: { requests: Schema.NonEmptyArray(runRequests.Request) },
  Interrupted: { reason: Schema.optionalKey(Schema.String) },
  InvalidOutput: { issues: Schema.Array(PayloadError.Problem) },
  Stopped: { finishReason: StopReason },
  LoopDetected: { tools: Schema.Array(Schema.String), times: Count },
  Refused: Refusal
}).annotate({ identifier: "Outcome" })

export type Outcome = typeof Outcome.Type

export const OutcomeTag = Schema.Literals([
  "Completed",
  "MaxSteps",
  "BudgetExceeded",
  "AwaitingApproval",
  "Interrupted",
  "InvalidOutput",
  "Stopped",
  "LoopDetected",
  "Refused"
])

/** An outcome for the caller: its tag under `outcome`, its details beside it, and `Base`, which every end has. */
export type Ended<Base, O = Outcome> = O extends { readonly _tag: infer Tag }
  ? Base & { readonly outcome: Tag } & Omit<O, "_tag">
  : never

export const ended = <Base extends object, O extends Outcome>(base: Base, { _tag, ...details }: O): Ended<Base, O> => {
  const end: unknown = { ...base, outcome: _tag, ...details }
  // Sound: the tag and the details come from one outcome
  return end as Ended<Base, O>
}

/** The other way. */
export const outcomeOf = <Tag extends Outcome["_tag"]>(end: {
  readonly outcome: Tag
}): Extract<Outcome, { readonly _tag: Tag }> => {
  const names = new Set(Object.keys(Outcome.cases[end.outcome].fields))
  const details = Object.entries(end).filter(([name]) => names.has(name))
  const outcome: unknown = { _tag: end.outcome, ...Object.fromEntries(details) }
  // Sound: an end has the details of its outcome
  return outcome as Extract<Outcome, { readonly _tag: Tag }>
}

/** The Schema of {@link Ended}. */
export const endedSchema = <F extends Schema.Struct.Fields>(
  base: F
): Schema.Codec<Ended<Schema.Struct.Type<F>>, unknown> => {
  const members = Object.values(Outcome.cases).map(({ fields: { _tag, ...details } }) =>
    Schema.Struct({ ...base, outcome: Schema.Literal(_tag.schema.literal), ...details })
  )
  // Sound: each case has its literal and its details
  return Schema.Union(members) as Schema.Top as Schema.Codec<Ended<Schema.Struct.Type<F>>, unknown>
}

const { approval, annotations, client, failure, name, parameters, success } = ToolContract.ToolContract.fields

/** The contract of a call as it was when the call was made: what is compared when the run is resumed under another definition. */
export const CallContract = Schema.Struct({
  name,
  parameters,
  success,
  failure,
  approval,
  client,
  annotations,
  digest: Schema.String
}).annotate({ identifier: "CallContract" })

export interface CallContract extends Schema.Schema.Type<typeof CallContract> {}

/** The parts of a definition by their places: short digests, and plain texts where they are short. For people. */
export const Parts = Schema.Record(Schema.String, Schema.String)

export type Parts = typeof Parts.Type

/**
 * The part of a state that a resume compares: the newest definition of the run, its parts, and the contracts that calls were made for. A state
 * from before these were recorded has none.
 */
export const Basis = Schema.Struct({
  definition: Schema.String,
  parts: Schema.optionalKey(Parts),
  contracts: Schema.Array(CallContract)
})

export interface Basis extends Schema.Schema.Type<typeof Basis> {}

/**
 * The terms of a handoff: the name of the agent that has the conversation from then on, and the part of the messages before that its
 * model sees. The part is the newest `turns`, or all of them, without the calls of tools where `toolCalls` is false.
 */
export const HandoffTerms = Schema.Struct({
  agent: Schema.String,
  turns: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  toolCalls: Schema.optionalKey(Schema.Literal(false))
})

export interface HandoffTerms extends Schema.Schema.Type<typeof HandoffTerms> {}

/**
 * A handoff of a run. `message` is the id of the message with the instructions of the agent, absent until the handoff is made. `structured`
 * is the value of the agent before, where the agents differ.
 */
export const Handoff = Schema.Struct({
  ...HandoffTerms.fields,
  message: Schema.optionalKey(Schema.String),
  structured: Schema.optionalKey(StructuredSteps)
})

export interface Handoff extends Schema.Schema.Type<typeof Handoff> {}

/** The definition that a run continues with. With `back`, the conversation goes back to the agent of the run. */
export const DefinitionChange = Schema.Struct({
  definition: Schema.String,
  parts: Parts,
  structured: Schema.optionalKey(StructuredSteps),
  back: Schema.optionalKey(Schema.Literal(true)),
  changes: Schema.Array(ToolContract.Change)
})

export interface DefinitionChange extends Schema.Schema.Type<typeof DefinitionChange> {}

/** The name of the tool that takes a structured output, with `_` before it where a tool of the agent has it. */
export const outputTool = "final_answer"

/** True for a name that the tool of a structured output may have. */
export const isOutputTool = (name: string): boolean => /^_*final_answer$/.test(name)

/**
 * A value about which guards have asked a person. Nothing of it is shown. `id` is the id of the request, `guards` are the guards that
 * asked. An answer is made the answer of its model call after the approval, and a result the result of its call.
 */
export const Held = Schema.Struct({
  id: Schema.String,
  digest: Schema.String,
  on: GuardPlace,
  guards: Schema.NonEmptyArray(Schema.String),
  reason: Schema.String,
  bounds: Schema.optionalKey(runRequests.Bounds),
  approved: Schema.optionalKey(Schema.Literal(true)),
  messageId: Schema.optionalKey(Schema.String),
  answer: Schema.optionalKey(Assistant),
  callId: Schema.optionalKey(Schema.String),
  result: Schema.optionalKey(Tool.fields.result),
  handoff: Schema.optionalKey(HandoffTerms)
}).annotate({ identifier: "Held" })

export interface Held extends Schema.Schema.Type<typeof Held> {}
