/**
 * The events of sessions, and what is shown of them: their failures, requests and summaries.
 */

import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import * as Json from "../../payload/Json.ts"
import * as base from "../../payload/internal/base.ts"
import { plainSchema } from "../../payload/internal/problems.ts"
import * as agentReason from "../../agent/internal/agentReason.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as drafts from "./drafts.ts"

const at = runParts.Time

/** The class of an error: what its receiver can do. */
export const Category = Schema.Literals(["invalid", "not-found", "conflict", "busy", "unavailable", "internal"])

export type Category = typeof Category.Type

/** Texts without details for the user of a front end, by the class of the error. */
export const publicMessages: Readonly<Record<Category, string>> = {
  invalid: "This cannot be sent as it is.",
  "not-found": "This conversation is not here any more.",
  conflict: "The conversation has changed. Load it again.",
  busy: "The assistant cannot take this message yet. Try again in a moment.",
  unavailable: "The assistant is not available right now. Try again later.",
  internal: "Something went wrong on our side."
}

/** The status of a session, see `Session.State`. */
export const Status = Schema.Literals(["idle", "running", "waiting"])

export type Status = typeof Status.Type

/** The requests of a session wait for a person, or only for the program of a front end, which makes calls. */
export const WaitsFor = Schema.Literals(["person", "client"])

export type WaitsFor = typeof WaitsFor.Type

/** The title and the metadata of a session. An absent field stays as it was. */
const details = { title: Schema.optionalKey(Schema.String), metadata: Schema.optionalKey(runParts.Context) }

/** The part of a session that a list of sessions shows. */
export const summary = {
  title: Schema.String,
  metadata: runParts.Context,
  created: at,
  updated: at,
  status: Status,
  waitsFor: Schema.optionalKey(WaitsFor),
  messages: runParts.Count
}

const Summary = Schema.Struct(summary)

export type Summary = typeof Summary.Type

const { Approval, Call, Pause, Question } = runRequests.Request.cases

const withText = Schema.fieldsAssign({ shown: Schema.String })

/** A remembered answer, with name and arguments as a person reads them. */
export const Remembered = runRequests.Remembered.pipe(withText)

/** A request, and its name and arguments as a person reads them: what is not seen, or changes the order of others, is an escape. */
export const Request = Schema.Union([withText(Approval), withText(Pause), withText(Question), withText(Call)]).annotate(
  { identifier: "ShownRequest" }
)

export type Request = typeof Request.Type

const textOf = ({ arguments: args, name }: Pick<Request, "arguments" | "name">): string =>
  `${base.quote(name)} ${Json.show(args)}`

export const showRequest = (request: runRequests.Request): Request => ({ ...request, shown: textOf(request) })

/** A request as JSON. */
export const requestJson = ({ bounds, ...request }: Request): Schema.Json => {
  return bounds === undefined ? request : { ...request, bounds: boundsJson(bounds) }
}

export const boundsJson = ({ expiresAt, ...rest }: runRequests.Bounds): Schema.Json => ({
  ...rest,
  ...(expiresAt && { expiresAt: DateTime.formatIso(expiresAt) })
})

export const showRemembered = (one: runRequests.Remembered): typeof Remembered.Type => ({ ...one, shown: textOf(one) })

export const withoutText = ({ shown: _, ...request }: Request): runRequests.Request => request

/** An error as readers of a session see it. */
export const Failure = Schema.Struct({
  reason: Schema.String,
  category: Category,
  message: Schema.String,
  plan: Schema.optionalKey(Schema.Struct({ reason: Schema.String, step: Schema.optionalKey(agentReason.FailedStep) }))
}).annotate({ identifier: "TurnFailure" })

export type Failure = typeof Failure.Type

export const message = {
  messageId: Schema.String,
  input: ToolResult.NonEmptyContent,
  plan: Schema.optionalKey(planRunParts.Beside),
  context: Schema.optionalKey(runParts.Context),
  model: Schema.optionalKey(Schema.String),
  definition: Schema.optionalKey(Schema.String),
  pending: Schema.optionalKey(Schema.Literal("deny")),
  steers: Schema.optionalKey(Schema.Literal(true)),
  timeout: Schema.optionalKey(runParts.Count),
  budget: Schema.optionalKey(ledger.Limits)
}

/** The members are in the order in which a session has them first. */
export const EventSchema = Schema.TaggedUnion({
  MessageReceived: {
    at,
    agent: Schema.String,
    ...message,
    digest: Schema.String,
    conversation: Schema.optionalKey(runParts.History),
    edit: Schema.optionalKey(Schema.Struct({ messageId: Schema.String, digest: Schema.String }))
  },
  DecisionsReceived: { at, decisions: Schema.NonEmptyArray(runRequests.Decision) },
  AnswersForgotten: { at, digests: Schema.NonEmptyArray(Schema.String) },
  ResumeReceived: { at, messageIds: Schema.optionalKey(Schema.NonEmptyArray(Schema.String)) },
  SessionUpdated: { at, ...details },
  RunEvent: { event: runParts.Event, messageId: Schema.optionalKey(Schema.String) },
  SessionForked: {
    at,
    from: Schema.String,
    cursor: Schema.String,
    plan: Schema.optionalKey(runParts.PlanStateSchema)
  },
  MessageDropped: { at, messageId: Schema.String, error: Failure },
  DecisionsDropped: { at, decisions: Schema.NonEmptyArray(runRequests.Decision), error: Failure },
  TurnFailed: {
    at,
    error: Failure,
    messageId: Schema.optionalKey(Schema.String),
    isHeld: Schema.optionalKey(Schema.Literal(true)),
    held: Schema.optionalKey(Schema.NonEmptyArray(Schema.String))
  }
}).annotate({ identifier: "SessionEvent" })

export type Event = typeof EventSchema.Type

export const Event: Schema.Codec<Event, unknown> = plainSchema(EventSchema)

export const EntrySchema = Schema.Struct({ sequence: runParts.Count, cursor: Schema.String, event: EventSchema })

export interface Entry extends Schema.Schema.Type<typeof EntrySchema> {}

export const Entry: Schema.Codec<Entry, unknown> = plainSchema(EntrySchema)

export const LiveEntrySchema = Schema.Struct({
  ...EntrySchema.fields,
  event: Schema.Union([EventSchema, drafts.DraftSchema])
})

export interface LiveEntry extends Schema.Schema.Type<typeof LiveEntrySchema> {}

export const LiveEntry: Schema.Codec<LiveEntry, unknown> = plainSchema(LiveEntrySchema)

/** True for an event that is not stored. */
export const isDraft = (event: LiveEntry["event"]): event is drafts.Draft =>
  event._tag === "AnswerDelta" || event._tag === "OutputDelta" || event._tag === "AnswerWithdrawn"

/** The reason of a turn that a caller stopped. */
export const interrupted = "Interrupted"
