/**
 * The operations of sessions as one table. The functions of `Session`, the service of one process and of a fleet, and the messages
 * between machines are derived from it.
 *
 * **When to use**
 *
 * Use it to make another surface of sessions: routes, a protocol, a command line. A program calls the functions of `Session`.
 *
 * **Details**
 *
 * {@link operations} has a row for each operation, under its name: the Schemas of its payload and of its success, its kind, and what
 * a caller has to know before it sends the payload. Every operation fails with {@link error} alone, whose `category` is the class of
 * the error.
 *
 * Outside the table are the typed results of jobs (`Session.run`, `Session.result`), whose type is the one of an agent, and options that
 * are functions (`Session.TurnOptions`).
 *
 * **Example** (The routes of a server)
 *
 * ```ts
 * import { SessionApi } from "effect-emissary/session"
 * import assert from "node:assert"
 *
 * const routes = Object.entries(SessionApi.operations).map(
 *   ([name, { about, kind }]) => `${kind === "command" ? "POST" : "GET"} ${about === "session" ? "/:id" : ""}/${name}`
 * )
 * assert(routes.includes("POST /:id/send"))
 * assert(routes.includes("GET /list"))
 * ```
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type * as Run from "../agent/Run.ts"
import * as Conversation from "../conversation/Conversation.ts"
import * as Message from "../conversation/Message.ts"
import * as runRequests from "../run/internal/runRequests.ts"
import * as storedDefinitions from "./internal/storedDefinitions.ts"
import * as details from "./internal/details.ts"
import * as cursors from "./internal/cursors.ts"
import { defined } from "../payload/internal/values.ts"
import * as events from "./internal/events.ts"
import * as incoming from "./internal/incoming.ts"
import * as liveReaders from "./internal/liveReaders.ts"
import * as types from "./internal/types.ts"
import * as sharedUses from "./internal/sharedUses.ts"
import * as stepWrites from "./internal/stepWrites.ts"

export {
  /**
   * The Schema of a payload, with the Schemas of its fields.
   *
   * @category models
   * @since 0.1.0
   */
  type Struct,
  /**
   * The Schemas of the fields of a payload.
   *
   * @category models
   * @since 0.1.0
   */
  type Fields
} from "./internal/types.ts"

/**
 * An operation of the kind `K`: the arguments of its function (after the id of the session), its payload and its success.
 *
 * @category models
 * @since 0.1.0
 */
export interface Operation<
  K extends "command" | "query" | "stream",
  About extends "session" | "store",
  Args extends ReadonlyArray<unknown>,
  Payload,
  Success
> {
  /** A `command` changes something, a `query` reads, and a `stream` does not end. */
  readonly kind: K
  /** The first argument of an operation on a `session` is its id. An operation on the `store` is about all sessions. */
  readonly about: About
  /** The Schema of the id of the session. */
  readonly id: Schema.Codec<string, string>
  /** The payload of a call with these arguments. */
  readonly payloadOf: (...args: Args) => Payload
  /** The arguments of a call with this payload. */
  readonly argumentsOf: (payload: Payload) => Args
  /** Fields that have `expected` among their annotations are checked before a call. */
  readonly payload: types.Struct<Payload>
  readonly success: Schema.Codec<Success, unknown>
  /** The id of the session whose process answers. Operations on the store have one, too: it spreads their calls over a fleet. */
  readonly at: (id: string, payload: Payload) => string
  /** True where a call waits while another process has the session in a turn. Otherwise it fails with `Elsewhere`. */
  readonly waits: boolean
  /** True for a command that takes effect although the process that has the session dies, or its caller leaves. */
  readonly isKept: boolean
  /** Refuses a payload before it is sent, or before a stream begins. `state` is the state of the session. */
  readonly check: (
    id: string,
    payload: Payload,
    state: Effect.Effect<Option.Option<types.State>, types.SessionError>
  ) => Effect.Effect<void, types.SessionError>
  /** Completes a payload that leaves the process, so that it can be sent twice. Refuses what the session would refuse. */
  readonly prepare: (id: string, payload: Payload) => Effect.Effect<Payload, types.SessionError>
  /**
   * The payload with which a stream continues after a value, `undefined` for a value that came before. A stream without `next` begins
   * anew.
   */
  readonly next?: ((payload: Payload, value: Success) => Payload | undefined) | undefined
}

interface Row<Args extends ReadonlyArray<unknown>, P, A>
  extends
    Pick<Operation<"query", "session", Args, P, A>, "payload" | "success">,
    Partial<
      Pick<
        Operation<"query", "session", Args, NoInfer<P>, NoInfer<A>>,
        "id" | "at" | "check" | "prepare" | "next" | "waits" | "isKept"
      >
    > {
  readonly payloadOf: (...args: Args) => NoInfer<P>
  readonly argumentsOf: (payload: NoInfer<P>) => NoInfer<Args>
}

const row =
  <K extends "command" | "query" | "stream", About extends "session" | "store">(kind: K, about: About) =>
  <Args extends ReadonlyArray<unknown>, P, A>(options: Row<Args, P, A>): Operation<K, About, Args, P, A> => ({
    kind,
    about,
    id: types.Text,
    waits: true,
    isKept: kind === "command",
    at: (id) => id,
    check: () => Effect.void,
    prepare: (_, payload) => Effect.succeed(payload),
    ...options
  })

const command = row("command", "session")
const query = row("query", "session")
const stream = row("stream", "session")

/**
 * The payload of an operation that takes nothing.
 *
 * @category models
 * @since 0.1.0
 */
export interface Nothing {}

/**
 * A message to a session.
 *
 * @category models
 * @since 0.1.0
 */
export interface Send extends types.SendOptions {
  /** The message of the user. */
  readonly input: types.Input
}

/**
 * A message that waits.
 *
 * @category models
 * @since 0.1.0
 */
export interface Withdraw {
  /** The id of the message. */
  readonly messageId: string
}

/**
 * Decisions about calls that wait.
 *
 * @category models
 * @since 0.1.0
 */
export interface DecideOptions {
  /**
   * The names under which the caller decides: decisions about requests with `deciders` are refused (`InvalidDecision` with the problem
   * `decider`) unless one of them is among these. Default: the caller is trusted, and may decide everything.
   */
  readonly as?: ReadonlyArray<string> | undefined
}

/**
 * The payload of `decide`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Decide extends DecideOptions {
  /** Decisions about requests of the state. */
  readonly decisions: ReadonlyArray<Run.Decision>
}

/**
 * The key of a value that steps write.
 *
 * @category models
 * @since 0.1.0
 */
export interface Read {
  /** The `writes` of the step. */
  readonly key: string
}

/** A Schema under the name of its type, which the types of functions show. */
const named = <A>(schema: Schema.Codec<A, unknown>): Schema.Codec<A, unknown> => schema

const nothing = {
  payload: types.struct<Nothing>()({}),
  payloadOf: (): Nothing => ({}),
  argumentsOf: (): [] => []
}

/** Options are the payload. */
const required = <O>(payload: types.Struct<O>) => ({
  payload,
  payloadOf: (options: O): O => options,
  argumentsOf: (options: O): [options: O] => [options]
})

const optional = <O extends object>(payload: types.Struct<O>) => ({
  ...required(payload),
  payloadOf: (options?: O): O | {} => ({ ...options })
})

const refusing = <A>(id: string, effect: Effect.Effect<A, types.Reason>) =>
  Effect.mapError(effect, (reason) => new types.SessionError({ id, reason }))

/** The content of a message, and of the input of a plan the parts that can be written. */
const readInput = (messageId: string, { input, ...options }: Omit<Send, "messageId">) =>
  Effect.map(incoming.read(messageId, input, options), (parts) =>
    parts.plan === undefined ? input : incoming.inputOf(parts)
  )

const prepareSend = Effect.fnUntraced(function* (payload: Send) {
  const messageId = payload.messageId ?? (yield* yield* Message.MessageId)
  const input = yield* readInput(messageId, payload)
  yield* details.check(payload)
  if (payload.definition !== undefined) yield* storedDefinitions.check(payload.definition)
  return { ...payload, messageId, input }
})

/** A message without content of its own has the content of the edited message. */
const prepareEdit = Effect.fnUntraced(function* (payload: types.EditOptions) {
  const newMessageId = payload.newMessageId ?? (yield* yield* Message.MessageId)
  const { context, input = "again", model } = payload
  const checked = yield* readInput(newMessageId, { context, input, model })
  return { ...payload, newMessageId, ...(payload.input !== undefined && { input: checked }) }
})

const checkPlace = (id: string, { after, at = after }: types.EventsOptions & Partial<types.ForkOptions>) =>
  types.checkAfter(id, at)

/** An error about a value that is no decision names the requests that wait. */
const checkDecisions: Operation<"command", "session", [], Decide, never>["check"] = (id, { decisions }, state) => {
  const wrong = Array.isArray(decisions)
    ? runRequests.listDecisions(decisions).find((decision) => !runRequests.isWellFormed(decision))
    : runRequests.noDecision
  if (wrong === undefined) return Effect.void
  return Effect.flatMap(Effect.orElseSucceed(state, Option.none), (found) => {
    const requests = Option.match(found, { onNone: () => [], onSome: ({ requests }) => requests })
    const error = runRequests.invalid(wrong, { problem: "malformed" }, requests)
    return new types.SessionError({ id, reason: { _tag: "InvalidDecision", error } })
  })
}

/**
 * The operations by name.
 *
 * @category operations
 * @since 0.1.0
 */
export const operations = {
  send: command({
    payloadOf: (input: types.Input, options?: types.SendOptions) => ({ ...options, input }),
    argumentsOf: ({ input, ...options }): [types.Input, types.SendOptions] => [input, options],
    payload: types.struct<Send>()({ ...types.SendOptions.fields, input: types.Input }),
    success: named<types.MessageReceipt>(types.MessageReceiptSchema),
    id: types.NewId,
    prepare: (id, payload) => refusing(id, prepareSend(payload))
  }),
  edit: command({
    ...required(types.EditOptions),
    success: named<types.MessageReceipt>(types.MessageReceiptSchema),
    prepare: (id, payload) => refusing(id, prepareEdit(payload))
  }),
  withdraw: command({
    payloadOf: (messageId: string) => ({ messageId }),
    argumentsOf: ({ messageId }): [string] => [messageId],
    payload: types.struct<Withdraw>()({ messageId: types.Text }),
    success: Schema.Boolean
  }),
  fork: command({
    ...required(types.ForkOptions),
    success: named<types.Receipt>(types.ReceiptSchema),
    at: (_, { to }) => to,
    check: checkPlace
  }),
  decide: command({
    payloadOf: (decisions: ReadonlyArray<Run.Decision>, { as }: DecideOptions = {}) => ({
      decisions,
      ...defined({ as })
    }),
    argumentsOf: ({ decisions, ...options }): [ReadonlyArray<Run.Decision>, DecideOptions] => [decisions, options],
    payload: types.struct<Decide>()({
      decisions: Schema.Array(runRequests.Decision),
      as: Schema.optionalKey(Schema.Array(Schema.String))
    }),
    success: named<types.Receipt>(types.ReceiptSchema),
    check: checkDecisions
  }),
  forget: command({ ...optional(types.ForgetOptions), success: named<types.Receipt>(types.ReceiptSchema) }),
  resume: command({ ...nothing, success: named<types.Receipt>(types.ReceiptSchema) }),
  interrupt: command({
    ...nothing,
    success: named<types.Receipt>(types.ReceiptSchema),
    waits: false,
    isKept: false
  }),
  update: command({
    ...required(types.Details),
    success: named<types.Receipt>(types.ReceiptSchema),
    prepare: (id, payload) => refusing(id, details.check(payload))
  }),
  remove: command({ ...nothing, success: Schema.Boolean, isKept: false }),
  events: stream({
    ...optional(types.EventsOptions),
    success: named<events.Entry>(events.EntrySchema),
    check: checkPlace,
    next: ({ after }, { cursor, sequence }) =>
      sequence <= (cursors.readAfter(after)?.sequence ?? 0) ? undefined : { after: cursor }
  }),
  live: stream({
    ...optional(types.LiveOptions),
    success: named<events.LiveEntry>(events.LiveEntrySchema),
    check: checkPlace,
    next: ({ after, ...rest }, entry) =>
      liveReaders.placeAfter(cursors.readAfter(after) ?? cursors.start, entry) && { ...rest, after: entry.cursor }
  }),
  state: query({ ...nothing, success: Schema.OptionFromNullOr(named<types.State>(types.StateSchema)) }),
  history: query({
    ...optional(types.HistoryOptions),
    success: Conversation.Conversation
  }),
  read: row(
    "query",
    "store"
  )({
    payloadOf: (key: string) => ({ key }),
    argumentsOf: ({ key }): [string] => [key],
    payload: types.struct<Read>()({ key: types.Text }),
    success: Schema.OptionFromNullOr(named<stepWrites.Written>(stepWrites.WrittenSchema)),
    at: (_, { key }) => key
  }),
  list: row(
    "query",
    "store"
  )({
    ...optional(types.ListOptions),
    success: named<types.Page>(types.PageSchema),
    at: (_, { prefix = "" }) => prefix
  }),
  listChanges: row(
    "stream",
    "store"
  )({
    ...optional(types.ListChangesOptions),
    success: named<types.ListChange>(types.ListChangeSchema),
    at: (_, { prefix = "" }) => prefix
  }),
  shared: row(
    "query",
    "store"
  )({
    ...optional(types.SharedOptions),
    success: named<sharedUses.SharedPage>(sharedUses.SharedPageSchema)
  }),
  prune: row(
    "command",
    "store"
  )({
    ...optional(types.SharedOptions),
    success: named<sharedUses.PrunedPage>(sharedUses.PrunedPageSchema),
    isKept: false
  })
}

/**
 * The errors of every operation.
 *
 * @category errors
 * @since 0.1.0
 */
export const error = types.SessionError

/**
 * The function of an operation. With `R` it finds the service itself.
 *
 * @category models
 * @since 0.1.0
 */
export type Call<O, R = never> =
  O extends Operation<infer K, infer About, infer Args, infer _, infer A>
    ? (
        ...args: About extends "session" ? [id: string, ...args: Args] : Args
      ) => K extends "stream" ? Stream.Stream<A, types.SessionError, R> : Effect.Effect<A, types.SessionError, R>
    : never

/**
 * The functions of all operations. With `R` they find the service themselves.
 *
 * @category models
 * @since 0.1.0
 */
export type Functions<R = never> = { readonly [K in keyof typeof operations]: Call<(typeof operations)[K], R> }
