/**
 * The types of sessions, their operations and errors. `Session` re-exports what users name, with its documentation.
 */

import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as Run from "../../agent/Run.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import type { Conversation } from "../../conversation/internal/history.ts"
import * as documents from "../../store/internal/documents.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as base from "../../payload/internal/base.ts"
import { plainSchema } from "../../payload/internal/problems.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as cursors from "./cursors.ts"
import * as events from "./events.ts"
import type { EventPlace } from "./cursors.ts"
import { Kind } from "./sharedUses.ts"

const { Completed, Interrupted, InvalidOutput, Stopped } = Run.Outcome.cases

const { limit, scope, unit, used } = Run.Outcome.cases.BudgetExceeded.fields

const { times, tools } = Run.Outcome.cases.LoopDetected.fields

const { guard, on } = Run.Outcome.cases.Refused.fields

export const StateSchema = Schema.Struct({
  agent: Schema.String,
  activeAgent: Schema.String,
  ...events.summary,
  sequence: runParts.Count,
  cursor: Schema.String,
  queue: Schema.Array(Schema.String),
  behindRequests: Schema.optionalKey(Schema.Array(Schema.String)),
  requests: Schema.Array(events.Request),
  batch: Schema.optionalKey(runRequests.BatchName),
  remembered: Schema.optionalKey(Schema.Array(events.Remembered)),
  requestsOf: Schema.optionalKey(Schema.String),
  outcome: Schema.optionalKey(runParts.OutcomeTag),
  output: Completed.fields.output,
  reason: Interrupted.fields.reason,
  issues: Schema.optionalKey(InvalidOutput.fields.issues),
  finishReason: Schema.optionalKey(Stopped.fields.finishReason),
  limit: Schema.optionalKey(limit),
  scope: Schema.optionalKey(scope),
  unit: Schema.optionalKey(unit),
  used: Schema.optionalKey(used),
  tools: Schema.optionalKey(tools),
  times: Schema.optionalKey(times),
  guard: Schema.optionalKey(guard),
  on: Schema.optionalKey(on),
  failure: Schema.optionalKey(events.Failure),
  definition: Schema.optionalKey(Schema.String),
  steps: runParts.Count,
  usage: runParts.Usage,
  budget: Schema.optionalKey(Schema.Array(ledger.Line))
})

/** A summary of a session. */
export interface State extends Schema.Schema.Type<typeof StateSchema> {}

export const State: Schema.Codec<State, unknown> = plainSchema(StateSchema)

/** The part of a session that a list shows. */
export const ListedSchema = Schema.Struct({
  id: Schema.String,
  agent: Schema.String,
  ...events.summary,
  sequence: runParts.Count
}).annotate({ identifier: "Listed" })

/** The part of a session that a list shows. */
export interface Listed extends Schema.Schema.Type<typeof ListedSchema> {}

export const Listed: Schema.Codec<Listed, unknown> = plainSchema(ListedSchema)

export const PageSchema = Schema.Struct({
  sessions: Schema.Array(ListedSchema),
  unreadable: Schema.Array(Schema.String),
  next: Schema.OptionFromNullOr(Schema.String)
})

/** Some of the sessions. */
export interface Page extends Schema.Schema.Type<typeof PageSchema> {}

export const Page: Schema.Codec<Page, unknown> = plainSchema(PageSchema)

export const ListChangeSchema = Schema.TaggedUnion({
  Page: { page: PageSchema },
  Changed: { session: ListedSchema },
  Removed: { id: Schema.String }
})

/** One change of the list of sessions. */
export type ListChange = typeof ListChangeSchema.Type

export const ListChange: Schema.Codec<ListChange, unknown> = plainSchema(ListChangeSchema)

export const Reason = Schema.TaggedUnion({
  ...documents.reasons,
  Busy: { status: events.Status, limit: Schema.optionalKey(runParts.Count) },
  NotFound: {},
  Exists: {
    agent: Schema.String,
    status: events.Status,
    outcome: Schema.optionalKey(Schema.String),
    isFork: Schema.optionalKey(Schema.Literal(true))
  },
  AgentUnknown: {
    agent: Schema.optionalKey(Schema.String),
    known: Schema.Array(Schema.String),
    isStored: Schema.optionalKey(Schema.Literal(true))
  },
  AgentDiffers: { agent: Schema.String, found: Schema.String },
  ContextDiffers: {},
  ContextInvalid: { agent: Schema.String, issues: Schema.Array(PayloadError.Problem) },
  DefinitionInvalid: { problem: Schema.String },
  ModelRefused: { model: Schema.String, problem: Schema.String },
  InvalidDecision: { error: Run.InvalidDecision },
  InputInvalid: { problem: Schema.String },
  InputDiffers: { messageId: Schema.optionalKey(Schema.String) },
  MessageUnknown: { messageId: Schema.String },
  EventsPruned: { first: runParts.Count, after: Schema.String },
  EventsUnknown: {
    after: Schema.String,
    newest: Schema.optionalKey(runParts.Count),
    isAhead: Schema.optionalKey(Schema.Literal(true))
  },
  Elsewhere: { owner: Schema.String },
  TurnFailed: { failure: events.Failure },
  WriteFailed: { key: Schema.String, step: Schema.String, problem: Schema.String },
  Unreachable: { problem: Schema.String },
  Denied: { problem: Schema.String },
  ArgumentInvalid: { problem: Schema.String }
})

export type Reason = typeof Reason.Type

/** A text about a value that passes the limits of the layer: limits of a call are no help. */
const ofLayer = (text: string): string =>
  text.replaceAll("in the limits of this call", "with Limits.layer around the layer of the sessions")

/** The error of a message that the layer refuses. */
export const refusedByLayer =
  (id: string) =>
  (reason: Reason): SessionError =>
    new SessionError({
      id,
      reason: reason._tag === "InputInvalid" ? { ...reason, problem: ofLayer(reason.problem) } : reason
    })

const quoteAll = (all: ReadonlyArray<string>): string => (all.length === 0 ? "(none)" : all.map(base.quote).join(", "))

const renderReason = Reason.match({
  StoreFailed: documents.renderReason,
  Unreadable: documents.renderReason,
  Damaged: documents.renderReason,
  Refused: (reason) => ofLayer(documents.renderReason(reason)),
  Busy: ({ limit, status }) =>
    limit !== undefined
      ? `expected at most ${limit} messages that wait (maxQueue), got another message. Send it again when a turn has ended, or calls that wait for approval are decided`
      : `expected a session that waits for a message, got a session that is ${status}. Send the message with whenBusy "queue", or when the turn has ended`,
  NotFound: () => "expected a session, got none under this id. Send it a message first",
  Exists: ({ agent, isFork, outcome, status }) => {
    const found = `${base.quote(agent)} that is ${status}${outcome === undefined ? "" : ` (${outcome})`}`
    const advice =
      isFork === true
        ? "Fork to another id, or remove that session"
        : 'Continue it with ifExists "resume", begin again with "restart", or use another id'
    return `expected no session under this id, got a session of the agent ${found}. ${advice}`
  },
  AgentUnknown: ({ agent, isStored, known }) => {
    const what = isStored === true ? "the agent of the session among" : "the name of one of"
    const advice =
      isStored === true ? "Add it to the layer again" : "Pass the option agent, or add the agent to the layer"
    const found = agent === undefined ? "no name" : base.quote(agent)
    return `expected ${what} the agents ${quoteAll(known)}, got ${found}. ${advice}`
  },
  AgentDiffers: ({ agent, found }) =>
    `expected a session of the agent ${base.quote(agent)}, got a session of ${base.quote(found)}. Use another id`,
  ContextInvalid: ({ agent, issues }) =>
    `expected the context that the agent ${base.quote(agent)} declares: ${PayloadError.render("", issues)}. Send the message with a context that fits (context). Nothing was stored`,
  ContextDiffers: () =>
    "expected the RunContext that the layer sets for all messages (run.context), got another RunContext. Send the message without a context",
  DefinitionInvalid: ({ problem }) => `the definition of the agent is refused: ${problem}`,
  ModelRefused: ({ model, problem }) =>
    `the model ${base.quote(model)} of the message is refused: ${problem}. Nothing was stored`,
  InvalidDecision: ({ error }) => error.message,
  InputInvalid: ({ problem }) => `the message cannot be part of a conversation: ${problem}`,
  InputDiffers: ({ messageId }) =>
    messageId === undefined
      ? 'expected the input and the context that the session began with, got others. Use an id for each input, or begin again with ifExists "restart"'
      : `expected the same content as before for the message ${base.quote(messageId)}, got other content. Send it with an id of its own`,
  MessageUnknown: ({ messageId }) =>
    `expected the id of a user message in the conversation, or of a message that waits, got ${base.quote(messageId)}. The message was never sent, or an edit has removed it: the messages that are there are in history`,
  EventsPruned: ({ after, first }) =>
    `expected events that are kept, which begin with number ${first}, got an earlier place. Read the history, and continue with the events after the cursor ${base.quote(after)}`,
  EventsUnknown: ({ after, isAhead, newest }) => {
    if (newest === undefined) return `expected the cursor of the last event that was seen, got ${base.quote(after)}`
    const why =
      isAhead === true
        ? "The cursor is ahead of the newest event, for example because the store was put back to an older copy"
        : "The session was removed and begun again"
    return `expected the cursor of an event of this session, which has ${newest}, got ${base.quote(after)}. ${why}: read its events without a cursor`
  },
  Elsewhere: ({ owner }) =>
    `expected no other process that has the session, got the owner ${base.quote(owner)}. Try again when its turn has ended, or its lease (leaseTime) where it died, or use ClusterSession.layer`,
  TurnFailed: ({ failure }) => `the turn failed with ${failure.reason}: ${failure.message}`,
  WriteFailed: ({ key, problem, step }) =>
    `step ${base.quote(step)} is done, and its value was not written under ${base.quote(key)}: ${problem}. Resume the session: the value is written first, and the step does not run again`,
  ArgumentInvalid: ({ problem }) => `the call is refused: ${problem}. Nothing was read or stored`,
  Denied: ({ problem }) => `the server refuses ${problem}. This call has changed nothing`,
  Unreachable: ({ problem }) => `the session cannot be reached: ${problem}. Try again with the same messageId`
})

/** Most decisions that do not fit came after another decision, or too late: they are conflicts. */
export const ofDecision = ({ problem }: Run.InvalidDecision): events.Category =>
  problem === "ambiguous" || problem === "malformed" || problem === "answer" ? "invalid" : "conflict"

const categories: Readonly<
  Record<Exclude<Reason["_tag"], "TurnFailed" | "InvalidDecision" | "AgentUnknown" | "EventsUnknown">, events.Category>
> = {
  InputInvalid: "invalid",
  ArgumentInvalid: "invalid",
  ContextDiffers: "invalid",
  ContextInvalid: "invalid",
  ModelRefused: "invalid",
  DefinitionInvalid: "invalid",
  Denied: "invalid",
  NotFound: "not-found",
  EventsPruned: "not-found",
  AgentDiffers: "conflict",
  Exists: "conflict",
  InputDiffers: "conflict",
  MessageUnknown: "conflict",
  Busy: "busy",
  Elsewhere: "unavailable",
  Unreachable: "unavailable",
  WriteFailed: "unavailable",
  StoreFailed: "unavailable",
  Unreadable: "internal",
  Damaged: "internal",
  Refused: "invalid"
}

export class SessionError extends Schema.TaggedError<SessionError>("effect-emissary/session/SessionError")(
  "SessionError",
  { id: Schema.String, reason: plainSchema(Reason) }
) {
  override get message(): string {
    return `session ${base.quote(this.id)}: ${renderReason(this.reason)}`
  }

  /**
   * The class of the error, which a route maps to a status.
   *
   * @since 0.1.0
   */
  get category(): events.Category {
    const { reason } = this
    switch (reason._tag) {
      case "TurnFailed":
        return reason.failure.category
      case "InvalidDecision":
        return ofDecision(reason.error)
      case "AgentUnknown":
        return reason.isStored === true ? "unavailable" : "invalid"
      case "EventsUnknown":
        return reason.newest === undefined ? "invalid" : "conflict"
      default:
        return categories[reason._tag]
    }
  }

  /**
   * A text without details, for the user of a front end.
   *
   * @since 0.1.0
   */
  get publicMessage(): string {
    if (this.reason._tag === "InputDiffers") return "This message was sent before with another content."
    return events.publicMessages[this.category]
  }
}

/** Refuses what is not the cursor of an event. */
export const checkAfter = (id: string, after: string | undefined): Effect.Effect<EventPlace, SessionError> => {
  const place = cursors.readAfter(after)
  return place === undefined
    ? Effect.fail(new SessionError({ id, reason: { _tag: "EventsUnknown", after: String(after) } }))
    : Effect.succeed(place)
}

/** The events before this number were deleted from a session with this life. */
export const eventsPruned = (life: string, first: number): Reason => ({
  _tag: "EventsPruned",
  first,
  after: cursors.cursorOf(life, first - 1)
})

/** A session with this newest event does not have this place. */
export const eventsUnknown = (id: string, after: EventPlace, newest: EventPlace): SessionError =>
  new SessionError({
    id,
    reason: {
      _tag: "EventsUnknown",
      after: cursors.textOf(after),
      newest: newest.sequence,
      ...(after.life === newest.life && { isAhead: true as const })
    }
  })

/**
 * The message of a user: text, or text and file parts. For a plan also the object that `Plan.run` takes, whose text is its task,
 * or its payload as text.
 */
export type Input = string | ToolResult.NonEmptyContent | Exclude<planRunParts.Input, string>

/** The fields of a Schema for `T`: each member of `T` has one, and no other one has. */
export type Fields<T> = {
  readonly [K in keyof T]-?: {} extends Pick<T, K>
    ? Schema.optionalKey<Schema.Codec<Exclude<T[K], undefined>, unknown>>
    : Schema.Codec<T[K], unknown>
}

/** A Schema of an interface that was written by hand, for its comments. */
export interface Struct<T> extends Schema.Codec<T, unknown> {
  readonly fields: Fields<T>
}

/** The Schema of an interface. A field that is missing, is no member or has another type does not compile. */
export const struct =
  <T>() =>
  <F extends Fields<T>>(fields: F & { readonly [K in Exclude<keyof F, keyof T>]: never }): Struct<T> => {
    const all: Schema.Struct.Fields = { ...fields }
    // Sound: the type of `fields` has each member of T. A member that is undefined is left out before it is written
    return Schema.Struct(all) as Schema.Top as Struct<T>
  }

/** A member that is checked before a call. The others are read by the codec of what is stored, which refuses them with their paths. */
const expecting = <T, E>(expected: string, schema: Schema.Codec<T, E>): Schema.Codec<T, E> =>
  schema.pipe(Schema.annotate({ expected }))

const oneOf = <const L extends ReadonlyArray<string>>(schema: Schema.Literals<L>) =>
  Schema.optionalKey(expecting(schema.literals.map((known) => base.quote(known)).join(" or "), schema))

/** The id of a session or of a message, or a key. */
export const Text = expecting("a text", Schema.String)

const text = Schema.optionalKey(Text)

/** The id of a message that is new. A stored message has no half of a character, so an id with one would be another id then. */
const newMessageId = Schema.optionalKey(
  expecting(
    "a text of well-formed Unicode",
    Schema.String.check(Schema.makeFilter((id: string) => id.isWellFormed(), { expected: "well-formed Unicode" }))
  )
)

/** The length of an id: each event of the turn of a message has its id. */
export const maxIdLength = 1024

/** The id of a session that begins. Users without one would share the session of the empty text. */
export const NewId = expecting(
  `a text of 1 to ${maxIdLength} characters`,
  Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(maxIdLength))
)

/** The most sessions that are read for a page of a list. */
const mostListed = 200

const count = Schema.optionalKey(
  expecting("an integer from 1", Schema.Number.check(Schema.isInt(), Schema.isGreaterThanOrEqualTo(1)))
)

const listed = Schema.optionalKey(
  expecting(
    `an integer from 1 to ${mostListed}`,
    Schema.Number.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: mostListed }))
  )
)

const time = Schema.optionalKey(expecting("a DateTime.Utc", runParts.Time))

const place = Schema.optionalKey(expecting("a cursor", Schema.String))

/** A limit of time in whole milliseconds. */
export const millisOf = (limit: Duration.Input): number => Math.ceil(Duration.toMillis(Duration.fromInputUnsafe(limit)))

/** A duration that ends, whole milliseconds on the wire. */
const spanThat = (fits: (duration: Duration.Duration) => boolean) =>
  Schema.Number.pipe(
    Schema.decodeTo(
      Schema.declare((input): input is Duration.Input => {
        // Sound: a value that is no duration has none
        const duration = Duration.fromInput(input as Duration.Input)
        return Option.exists(duration, (found) => Duration.isFinite(found) && fits(found))
      }),
      SchemaTransformation.transform({ decode: (millis): Duration.Input => millis, encode: millisOf })
    )
  )

const span = Schema.optionalKey(expecting("a duration of more than 0 that ends", spanThat(Duration.isPositive)))

const budget = Schema.optionalKey(
  expecting(
    ledger.expected,
    ledger.Limits.pipe(
      Schema.decodeTo(
        Schema.declare((input): input is ledger.Budget => ledger.limitsOf(input) !== undefined),
        SchemaTransformation.transform({ decode: ledger.budgetOf, encode: (found) => ledger.limitsOf(found) ?? {} })
      )
    )
  )
)

const pause = Schema.optionalKey(
  expecting(
    "a duration that ends",
    spanThat((found) => !Duration.isNegative(found))
  )
)

export const Input: Schema.Codec<Input, unknown> = Schema.Union([
  Schema.String,
  ToolResult.NonEmptyContent,
  planRunParts.InputParts
])

/** A definition of a message: an agent as JSON, or the digest of a stored definition. */
const Definition = Schema.Union([Schema.String, Schema.Record(Schema.String, Schema.Json)])

/** The title and the metadata of a session. */
export interface Details {
  /** A title of at most 200 characters. An empty one is none. */
  readonly title?: string | undefined
  /** An object of your own, of at most 4,000 characters as JSON. It replaces the one before as a whole. */
  readonly metadata?: JsonObject | undefined
}

export const Details = struct<Details>()({
  title: Schema.optionalKey(Schema.String),
  metadata: Schema.optionalKey(runParts.Context)
})

/** The sessions of a list whose changes are read. */
export interface ListChangesOptions {
  /** The beginning of the ids; default: all. */
  readonly prefix?: string | undefined
  /** The number of sessions that are read for the page, from 1 to 200; default 50. */
  readonly limit?: number | undefined
  /** The name of the agent. */
  readonly agent?: string | undefined
  /** The status. */
  readonly status?: events.Status | undefined
  /** Sessions with a request to a `"person"`, or with calls of a front end alone, `"client"`. */
  readonly waitsFor?: events.WaitsFor | undefined
  /** The newest event is later than this. */
  readonly updatedAfter?: DateTime.Utc | undefined
  /** The newest event is earlier than this. */
  readonly updatedBefore?: DateTime.Utc | undefined
  /** Entries that the metadata has, with equal values. */
  readonly metadata?: JsonObject | undefined
}

export const ListChangesOptions = struct<ListChangesOptions>()({
  prefix: text,
  limit: listed,
  agent: text,
  status: oneOf(events.Status),
  waitsFor: oneOf(events.WaitsFor),
  updatedAfter: time,
  updatedBefore: time,
  metadata: Schema.optionalKey(expecting("an object", runParts.Context))
})

/** The sessions of a list. */
export interface ListOptions extends ListChangesOptions {
  /** The `next` of the page before; default: from the start. */
  readonly after?: string | undefined
}

export const ListOptions = struct<ListOptions>()({ ...ListChangesOptions.fields, after: text })

/** A page of the shared values. */
export interface SharedOptions {
  /** Only definitions, or only values of steps; default: both. */
  readonly kind?: Kind | undefined
  /** The `next` of the page before; default: from the start. */
  readonly after?: string | undefined
  /** The number of values that are read for the page, an integer from 1 on; default 50. More than 200 are read as 200. */
  readonly limit?: number | undefined
}

export const SharedOptions = struct<SharedOptions>()({ kind: oneOf(Kind), after: text, limit: count })

/** The place from which events are read. */
export interface EventsOptions {
  /** The cursor of the last event that was seen; default: none, so all events are read from the first. */
  readonly after?: string | undefined
}

export const EventsOptions = struct<EventsOptions>()({ after: place })

/** The place from which a session is read live. */
export interface LiveOptions extends EventsOptions {
  /**
   * The least time between two looks at what is being written; default: 20 milliseconds. A reader gets what was written meanwhile as
   * one piece, so a longer time costs less. With 0 it gets each piece as soon as it is written.
   */
  readonly every?: Duration.Input | undefined
}

export const LiveOptions = struct<LiveOptions>()({ ...EventsOptions.fields, every: pause })

/** The remembered answers to forget. */
export interface ForgetOptions {
  /** The digest of one of them, as `Session.state` has it; default: all of them. */
  readonly digest?: string | undefined
}

export const ForgetOptions = struct<ForgetOptions>()({ digest: text })

/** Options of a conversation that is read. */
export interface HistoryOptions {
  /**
   * Returns the conversation up to the first event that cannot be read, with the messages that wait then; default false. Nothing shows
   * that the rest is missing.
   */
  readonly untilDamage?: boolean | undefined
}

export const HistoryOptions = struct<HistoryOptions>()({
  untilDamage: Schema.optionalKey(expecting("true or false", Schema.Boolean))
})

export const IfExists = Schema.Literals(["continue", "fail", "resume", "restart"])

export type IfExists = typeof IfExists.Type

/** Options of a message. */
export interface SendOptions extends Details {
  /**
   * The id of the message; default: a new one. A message with an id that the session has received is not stored again, so a client can
   * send it twice when it does not know whether the first one arrived. A session remembers its newest 256 ids. A message that
   * waits after a turn which could not begin is tried again.
   */
  readonly messageId?: string | undefined
  /**
   * The name of the agent of a session that begins with this message; default: the only one of the layer. A session that exists has to
   * be one of this agent.
   */
  readonly agent?: string | undefined
  /**
   * The `RunContext` of the turn of this message; default: the context of the layer, or an empty context. A turn that
   * takes decisions, or that `resume` begins, has the context of the message whose turn it continues. So a message with
   * another context waits until calls that wait for approval are decided and run.
   */
  readonly context?: JsonObject | undefined
  /**
   * The agent of the session as data: JSON that `Agent.encode` wrote, or the digest of a stored definition. The layer
   * has to take definitions (its option `definitions`). It holds for the turn of this message and the later ones. It
   * has the name of the agent of the session: an edited agent continues a session, see `onChange` of
   * `Agent.ResumeOptions`.
   */
  readonly definition?: JsonObject | string | undefined
  /**
   * The name of the model that answers this message, in place of the agent's own. The layer has to allow it (`models`), and
   * its `ModelRegistry` to have it. The next message without one has the agent's own again. A turn that takes decisions, or that
   * `resume` begins, has the model of the message whose turn it continues. Agents that are tools keep their own.
   */
  readonly model?: string | undefined
  /**
   * The conversation that the session begins with, before this message; default: the instructions of the agent. One without a
   * system message gets these instructions. It is refused with `InputInvalid` if a call has no result, and with `Exists` where the
   * session exists, unless the message is the first one again.
   */
  readonly conversation?: Conversation | undefined
  /**
   * The fate of the message while a turn is under way.
   *
   * - `"queue"` (default): it is stored, and waits for its turn.
   * - `"reject"`: nothing is stored, and the call fails with `Busy`.
   * - `"steer"`: it is stored, and enters the turn before the next model call, after the tool calls under way, with the rest of the steps
   *   and of the time of the turn. Messages that wait for their turns stay behind it. Where no model call comes, because the turn ends or
   *   waits for a person, and in a plan, it waits for its turn. So does a message with another `context`, `model` or `definition` than
   *   the turn.
   */
  readonly whenBusy?: "queue" | "reject" | "steer" | undefined
  /**
   * The fate of calls that wait for approval. With `"keep"` (default) they wait, and the message enters the conversation when they are
   * decided. With `"deny"` they are denied when the next turn begins, and the message is answered. It has no effect for a message
   * that is sent again.
   */
  readonly pending?: "keep" | "deny" | undefined
  /**
   * The time that the turn of this message may take; default: only the limit of the layer (`run.timeouts`). At its end the turn is
   * stopped, as by `interrupt`, with the outcome `Interrupted` and the reason `"timeout"`: what a model had written stays, a tool under way
   * is `interrupted`, and later messages are answered next. The time begins when the message is taken, and anew with a decision or
   * `resume`, so it is not the time in which a person decides. It passes while no process has the session: a turn whose time is over
   * then is stopped when the session is opened again. An edit of the message has no limit. The turn that a message steers ends at the
   * earlier of its own limit and the one of the message.
   */
  readonly timeout?: Duration.Input | undefined
  /**
   * The limits of what the turn of this message may use, see `Budget`; default: the budget of the layer (`run.budget`), or else the budget
   * of the agent. With `run.budget` the smaller limit of each unit counts, and `onExceeded` of `run.budget`. The turn that uses it up ends as `BudgetExceeded`, and later
   * messages are answered next. A turn that takes decisions, or that continues after a crash, has what is left, and `resume` has the
   * budget of the layer, or else what is left. A message with a budget does not steer: it waits for its turn. An edit of the message
   * has no budget.
   */
  readonly budget?: ledger.Budget | undefined
  /**
   * The treatment of a session that has received a message before.
   *
   * - `"continue"` (default): this is its next message.
   * - `"fail"`: nothing is stored, and the call fails with `Exists`.
   * - `"resume"`: this is the first message again, and fails with `InputDiffers` if its content or context is another.
   *   Nothing is stored while a turn is under way, or after a turn that ended. A turn that failed or was interrupted
   *   continues.
   * - `"restart"`: another session begins in the place of this one, which is removed with the same write.
   */
  readonly ifExists?: IfExists | undefined
}

export const SendOptions = struct<SendOptions>()({
  messageId: newMessageId,
  agent: text,
  context: Schema.optionalKey(runParts.Context),
  definition: Schema.optionalKey(Definition),
  model: text,
  conversation: Schema.optionalKey(runParts.History),
  whenBusy: oneOf(Schema.Literals(["queue", "reject", "steer"])),
  pending: oneOf(Schema.Literals(["keep", "deny"])),
  timeout: span,
  budget,
  ifExists: oneOf(IfExists),
  ...Details.fields
})

/** Options of an edit. */
export interface EditOptions {
  /** The id of the message to edit: the one of `send`, or of a user message in `history`. */
  readonly messageId: string
  /** The new content; default: the content of the message, which is answered again. */
  readonly input?: Input | undefined
  /**
   * The `RunContext` of the turn; default: the context of the layer, or an empty context, and without `input` the
   * context of the message.
   */
  readonly context?: JsonObject | undefined
  /**
   * The name of the model that answers, as in {@link SendOptions}; default without `input`: the model of the message.
   */
  readonly model?: string | undefined
  /** The id of the new message; default: a new one. With the same one the same edit can be made twice, and counts once. */
  readonly newMessageId?: string | undefined
}

export const EditOptions = struct<EditOptions>()({
  messageId: Text,
  input: Schema.optionalKey(Input),
  context: Schema.optionalKey(runParts.Context),
  model: text,
  newMessageId
})

/** Options of a fork. */
export interface ForkOptions {
  /** The id of the new session. */
  readonly to: string
  /** The cursor of the last event that the new session has; default: the newest event. */
  readonly at?: string | undefined
}

export const ForkOptions = struct<ForkOptions>()({ to: NewId, at: place })

const isTrue = Schema.optionalKey(Schema.Literal(true))

export const ReceiptSchema = Schema.Struct({
  sequence: runParts.Count,
  cursor: Schema.String,
  messageId: Schema.optionalKey(Schema.String),
  isWaiting: isTrue,
  isOfNewest: isTrue,
  isInterrupted: isTrue
}).annotate({ identifier: "Receipt" })

/** A command took effect at a place of a session. */
export interface Receipt extends Schema.Schema.Type<typeof ReceiptSchema> {}

export const Receipt: Schema.Codec<Receipt, unknown> = plainSchema(ReceiptSchema)

export const MessageReceiptSchema = Schema.Struct({ ...ReceiptSchema.fields, messageId: Schema.String }).annotate({
  identifier: "MessageReceipt"
})

/** A message is stored. */
export interface MessageReceipt extends Schema.Schema.Type<typeof MessageReceiptSchema> {}

export const MessageReceipt: Schema.Codec<MessageReceipt, unknown> = plainSchema(MessageReceiptSchema)

/** True where the store failed. Sessions continue by themselves when it is back. */
export const isStoreDown = ({ reason }: SessionError): boolean => reason._tag === "StoreFailed"

/** Makes the agent of a definition that a message carries. */
export type Definitions = (
  definition: JsonObject
) => Effect.Effect<agentTypes.Agent<unknown, unknown, never>, { readonly message: string }, unknown>

/** An agent or a bound plan, or an Effect that finds or makes one, which may fail. */
export type Hosted<R, E = never> =
  | agentTypes.Agent<unknown, R, never>
  | Effect.Effect<agentTypes.Agent<unknown, R, never>, E, R>

/** The services of an agent of a layer, and of the Effect that finds it. */
export type HostedServices<H> =
  H extends Effect.Effect<infer One, infer _E, infer R>
    ? R | HostedServices<One>
    : H extends agentTypes.Agent<infer _A, infer R, never>
      ? R | (H extends agentTypes.RequiresForCalls<infer S> ? agentTypes.NoServiceOfCall<S> : never)
      : never

/** The services of the agents of definitions, and of the function that makes them. */
export type DefinitionsServices<Decode> = Decode extends Definitions ? HostedServices<ReturnType<Decode>> : never

/** The failure of the Effect that finds or makes an agent of a layer. */
export type HostedError<H> = H extends Effect.Effect<infer _One, infer E, infer _R> ? E : never

/**
 * The models that messages may name: a list, or a function of the name and the message, which can look up the plan of a customer
 * in the context.
 */
export type Models =
  | ReadonlyArray<string>
  | ((
      model: string,
      message: { readonly id: string; readonly agent: string; readonly context: JsonObject }
    ) => Effect.Effect<boolean>)

/** Options of all turns of a layer. */
export interface TurnOptions extends Omit<
  agentTypes.ResumeOptions,
  "input" | "decisions" | "onEvent" | "interruptWhen" | "steering"
> {
  /** Receives each event of a run when it is stored, with the id of the session. The turn waits for it. */
  readonly onEvent?: ((entry: agentTypes.RecordedEvent, id: string) => Effect.Effect<void>) | undefined
  /** Is asked about each event when it is stored, after `onEvent`. The turn ends as `Interrupted` at the first answer. */
  readonly interruptWhen?:
    | ((
        event: Run.Event,
        state: Run.State,
        id: string
      ) => agentTypes.Interruption | undefined | Effect.Effect<agentTypes.Interruption | undefined>)
    | undefined
}

/** Options of the layers that host sessions. */
export interface Options<out Decode extends Definitions | undefined = undefined> {
  /**
   * Makes the agents that messages carry as data (`definition` of {@link SendOptions}), usually `Agent.decode`; by default a
   * message with a definition is refused. What it requires is required by the layer: a `ToolResolver` with the tools that
   * definitions may name, a `ModelRegistry`, and limits or trusted keys where you want them.
   */
  readonly definitions?: Decode
  /** The first part of the keys in the `VersionedStore`; default `"session"`. */
  readonly namespace?: string | undefined
  /** The time without a call, a reader or a turn after which a session leaves the memory, from 0 on; default 1 minute. */
  readonly idleTime?: Duration.Input | undefined
  /**
   * The instructions of a message to a session that has begun. With `"latest"` (default) they are the instructions of
   * today's agent: its Effect of instructions runs for each message, with the `RunContext` of the message, and if they
   * differ from the instructions of the conversation, they are recorded as a later system message behind the message of
   * the user. With `"first"` the session keeps the instructions that it began with. In both cases it keeps them where
   * the agent has none now, where it began with a conversation that has a system message, and for decisions and
   * `resume`.
   */
  readonly instructions?: "latest" | "first" | undefined
  /**
   * Options of all turns, as for `Agent.resume`: `maxSteps`, `retry`, `timeouts`, `onChange` and others, and hooks
   * that know the session; none by default. `context` is the `RunContext` of all messages: a message with another
   * context fails with `ContextDiffers`.
   */
  readonly run?: TurnOptions | undefined
  /**
   * The limits of what each session may use in all of its turns, see `Budget`; none by default. The turn that uses it up ends as `BudgetExceeded`, and so do
   * later ones, until the layer has a larger one. A budget of each turn is `run.budget`.
   */
  readonly budget?: ledger.Budget | undefined
  /**
   * The least number of events that are kept for readers; default all. Older events are deleted when the session is
   * stored as a snapshot. The conversation stays whole.
   */
  readonly keepEvents?: number | undefined
  /**
   * The models that messages may name, see {@link SendOptions}; none by default. A list, or a function of the name and
   * of the message (`id`, `agent`, `context`). The context of the layer has a `ModelRegistry` with their providers.
   */
  readonly models?: Models | undefined
  /**
   * The most messages that may wait in one session for their turns, or for the decision of calls, a whole number from 1
   * on; default 100. One more fails with `Busy`, and if the last turn could not begin, it begins the turn again. For a
   * message with `pending: "deny"`, only messages that wait for their turns count.
   */
  readonly maxQueue?: number | undefined
  /**
   * The `expiresAfter` of requests that have none of their own, see `ToolSettings.Request`; default: they wait until someone decides. They are
   * denied then, or answered with their `otherwise`, with the reason `"There was no answer in time."`, and the agent continues. These decisions are
   * in the log. They come in the process that has the session then, or when the session is opened next.
   */
  readonly expiresAfter?: Duration.Input | undefined
}
