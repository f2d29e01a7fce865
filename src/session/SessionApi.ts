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
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import * as Run from "../agent/Run.ts"
import * as Conversation from "../conversation/Conversation.ts"
import * as Message from "../conversation/Message.ts"
import * as runParts from "../run/internal/runParts.ts"
import * as sessionDefinitions from "./internal/sessionDefinitions.ts"
import * as sessionDetails from "./internal/sessionDetails.ts"
import * as sessionEvents from "./internal/sessionEvents.ts"
import * as sessionMessage from "./internal/sessionMessage.ts"
import * as sessionTypes from "./internal/sessionTypes.ts"
import * as sessionUses from "./internal/sessionUses.ts"
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
} from "./internal/sessionTypes.ts"

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
  readonly payload: sessionTypes.Struct<Payload>
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
    state: Effect.Effect<Option.Option<sessionTypes.State>, sessionTypes.SessionError>
  ) => Effect.Effect<void, sessionTypes.SessionError>
  /** Completes a payload that leaves the process, so that it can be sent twice. Refuses what the session would refuse. */
  readonly prepare: (id: string, payload: Payload) => Effect.Effect<Payload, sessionTypes.SessionError>
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
    id: sessionTypes.Text,
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
export interface Send extends sessionTypes.SendOptions {
  /** The message of the user. */
  readonly input: sessionTypes.Input
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
export interface Decide {
  /** Requests of the state, with `approved` added. */
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
  payload: sessionTypes.struct<Nothing>()({}),
  payloadOf: (): Nothing => ({}),
  argumentsOf: (): [] => []
}

/** Options are the payload. */
const required = <O>(payload: sessionTypes.Struct<O>) => ({
  payload,
  payloadOf: (options: O): O => options,
  argumentsOf: (options: O): [options: O] => [options]
})

const optional = <O extends object>(payload: sessionTypes.Struct<O>) => ({
  ...required(payload),
  payloadOf: (options?: O): O | {} => ({ ...options })
})

const refusing = <A>(id: string, effect: Effect.Effect<A, sessionTypes.Reason>) =>
  Effect.mapError(effect, (reason) => new sessionTypes.SessionError({ id, reason }))

/** The content of a message, and of the input of a plan the parts that can be written. */
const readInput = (messageId: string, { input, ...options }: Omit<Send, "messageId">) =>
  Effect.map(sessionMessage.read(messageId, input, options), (parts) =>
    parts.plan === undefined ? input : sessionMessage.inputOf(parts)
  )

const prepareSend = Effect.fnUntraced(function* (payload: Send) {
  const messageId = payload.messageId ?? (yield* yield* Message.MessageId)
  const input = yield* readInput(messageId, payload)
  yield* sessionDetails.check(payload)
  if (payload.definition !== undefined) yield* sessionDefinitions.check(payload.definition)
  return { ...payload, messageId, input }
})

/** A message without content of its own has the content of the edited message. */
const prepareEdit = Effect.fnUntraced(function* (payload: sessionTypes.EditOptions) {
  const newMessageId = payload.newMessageId ?? (yield* yield* Message.MessageId)
  const { context, input = "again", model } = payload
  const checked = yield* readInput(newMessageId, { context, input, model })
  return { ...payload, newMessageId, ...(payload.input !== undefined && { input: checked }) }
})

const checkPlace = (
  id: string,
  { after, at = after }: sessionTypes.EventsOptions & Partial<sessionTypes.ForkOptions>
) => sessionTypes.checkAfter(id, at)

const isDecision = Schema.is(runParts.Decision)

/** An error about a value that is no decision names the calls that wait. */
const checkDecisions: Operation<"command", "session", [], Decide, never>["check"] = (id, { decisions }, state) => {
  const all: ReadonlyArray<unknown> = Array.isArray(decisions) ? decisions : [decisions]
  const wrong = all.find((decision) => !isDecision(decision))
  if (Array.isArray(decisions) && all.every(isDecision)) return Effect.void
  const callId = Predicate.hasProperty(wrong, "callId") && Predicate.isString(wrong.callId) ? wrong.callId : ""
  return Effect.flatMap(Effect.orElseSucceed(state, Option.none), (found) => {
    const pending = Option.match(found, {
      onNone: () => [],
      onSome: ({ requests }) => requests.map(({ callId }) => callId)
    })
    const error = new Run.InvalidDecision({ callId, problem: "malformed", pending })
    return new sessionTypes.SessionError({ id, reason: { _tag: "InvalidDecision", error } })
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
    payloadOf: (input: sessionTypes.Input, options?: sessionTypes.SendOptions) => ({ ...options, input }),
    argumentsOf: ({ input, ...options }): [sessionTypes.Input, sessionTypes.SendOptions] => [input, options],
    payload: sessionTypes.struct<Send>()({ ...sessionTypes.SendOptions.fields, input: sessionTypes.Input }),
    success: named<sessionTypes.MessageReceipt>(sessionTypes.MessageReceiptSchema),
    id: sessionTypes.NewId,
    prepare: (id, payload) => refusing(id, prepareSend(payload))
  }),
  edit: command({
    ...required(sessionTypes.EditOptions),
    success: named<sessionTypes.MessageReceipt>(sessionTypes.MessageReceiptSchema),
    prepare: (id, payload) => refusing(id, prepareEdit(payload))
  }),
  withdraw: command({
    payloadOf: (messageId: string) => ({ messageId }),
    argumentsOf: ({ messageId }): [string] => [messageId],
    payload: sessionTypes.struct<Withdraw>()({ messageId: sessionTypes.Text }),
    success: Schema.Boolean
  }),
  fork: command({
    ...required(sessionTypes.ForkOptions),
    success: named<sessionTypes.Receipt>(sessionTypes.ReceiptSchema),
    at: (_, { to }) => to,
    check: checkPlace
  }),
  decide: command({
    payloadOf: (decisions: ReadonlyArray<Run.Decision>) => ({ decisions }),
    argumentsOf: ({ decisions }): [ReadonlyArray<Run.Decision>] => [decisions],
    payload: sessionTypes.struct<Decide>()({ decisions: Schema.Array(runParts.Decision) }),
    success: named<sessionTypes.Receipt>(sessionTypes.ReceiptSchema),
    check: checkDecisions
  }),
  resume: command({ ...nothing, success: named<sessionTypes.Receipt>(sessionTypes.ReceiptSchema) }),
  interrupt: command({
    ...nothing,
    success: named<sessionTypes.Receipt>(sessionTypes.ReceiptSchema),
    waits: false,
    isKept: false
  }),
  update: command({
    ...required(sessionTypes.Details),
    success: named<sessionTypes.Receipt>(sessionTypes.ReceiptSchema),
    prepare: (id, payload) => refusing(id, sessionDetails.check(payload))
  }),
  remove: command({ ...nothing, success: Schema.Boolean, isKept: false }),
  events: stream({
    ...optional(sessionTypes.EventsOptions),
    success: named<sessionEvents.Entry>(sessionEvents.EntrySchema),
    check: checkPlace,
    next: ({ after = 0 }, { cursor, sequence }) =>
      sequence <= (sessionEvents.readAfter(after)?.sequence ?? 0) ? undefined : { after: cursor }
  }),
  state: query({ ...nothing, success: Schema.OptionFromNullOr(named<sessionTypes.State>(sessionTypes.StateSchema)) }),
  history: query({
    ...optional(sessionTypes.HistoryOptions),
    success: Conversation.Conversation
  }),
  read: row(
    "query",
    "store"
  )({
    payloadOf: (key: string) => ({ key }),
    argumentsOf: ({ key }): [string] => [key],
    payload: sessionTypes.struct<Read>()({ key: sessionTypes.Text }),
    success: Schema.OptionFromNullOr(named<stepWrites.Written>(stepWrites.WrittenSchema)),
    at: (_, { key }) => key
  }),
  list: row(
    "query",
    "store"
  )({
    ...optional(sessionTypes.ListOptions),
    success: named<sessionTypes.Page>(sessionTypes.PageSchema),
    at: (_, { prefix = "" }) => prefix
  }),
  listChanges: row(
    "stream",
    "store"
  )({
    ...optional(sessionTypes.ListChangesOptions),
    success: named<sessionTypes.ListChange>(sessionTypes.ListChangeSchema),
    at: (_, { prefix = "" }) => prefix
  }),
  shared: row(
    "query",
    "store"
  )({
    ...optional(sessionTypes.SharedOptions),
    success: named<sessionUses.SharedPage>(sessionUses.SharedPageSchema)
  }),
  prune: row(
    "command",
    "store"
  )({
    ...optional(sessionTypes.SharedOptions),
    success: named<sessionUses.PrunedPage>(sessionUses.PrunedPageSchema),
    isKept: false
  })
}

/**
 * The errors of every operation.
 *
 * @category errors
 * @since 0.1.0
 */
export const error = sessionTypes.SessionError

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
      ) => K extends "stream"
        ? Stream.Stream<A, sessionTypes.SessionError, R>
        : Effect.Effect<A, sessionTypes.SessionError, R>
    : never

/**
 * The functions of all operations. With `R` they find the service themselves.
 *
 * @category models
 * @since 0.1.0
 */
export type Functions<R = never> = { readonly [K in keyof typeof operations]: Call<(typeof operations)[K], R> }
