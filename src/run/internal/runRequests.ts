/**
 * Requests of a run to a person or to a front end, and decisions about them. Agents and plans are the same here: a
 * machine lists what it has open, each request with the event that records a decision about it, and {@link decide} finds
 * out which decisions count.
 */

import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Equal from "effect/Equal"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as base from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import type { ToolContract } from "../../tool/ToolContract.ts"
import { checkAnswer, type RequestTerms } from "../../tool/internal/requestTerms.ts"

const path = Schema.Array(Schema.String)

/**
 * The people who may decide a request, the time at which it expires, and the answer that it has then: without an answer the request is denied.
 */
export const Bounds = Schema.Struct({
  deciders: Schema.optionalKey(Schema.NonEmptyArray(Schema.String)),
  expiresAt: Schema.optionalKey(Schema.DateTimeUtcFromString),
  otherwise: Schema.optionalKey(Schema.Json)
}).annotate({ identifier: "RequestBounds" })

export interface Bounds extends Schema.Schema.Type<typeof Bounds> {}

/** The bounds of a request that is made now. The session has the time of requests that have no time of their own. */
export const boundsIn = (
  context: Context.Context<never>,
  at: DateTime.Utc,
  { deciders, expiresAfter, otherwise }: RequestTerms = {}
): { readonly bounds?: Bounds } => {
  const time = expiresAfter ?? Context.get(context, AroundSession)?.expiresAfter
  const expiresAt = time === undefined ? undefined : DateTime.addDuration(at, time)
  const bounds = defined({ deciders, expiresAt, otherwise })
  return Object.keys(bounds).length === 0 ? {} : { bounds }
}

/** A request of `name`. What it asks is in the `arguments`, as a person reads them, and covered by the digest. */
const asked = <Arguments extends Schema.Codec<Schema.Json>>(args: Arguments) => ({
  callId: Schema.String,
  name: Schema.String,
  arguments: args,
  digest: Schema.String,
  path: Schema.optionalKey(path),
  bounds: Schema.optionalKey(Bounds)
})

/** The JSON Schema that the answer has to fit. */
const schema = Schema.Record(Schema.String, Schema.Json)

export const Request = Schema.TaggedUnion({
  Approval: asked(Schema.Json),
  Pause: asked(Schema.Struct({ reason: Schema.String })),
  Question: { ...asked(Schema.Struct({ question: Schema.String })), schema },
  Call: { ...asked(Schema.Json), schema }
}).annotate({ identifier: "Request" })

export type Request = typeof Request.Type

/**
 * The answer that a request asks for, where an approval is not enough. `number` counts the questions of a handler, from 1 on. The digest of
 * the request covers `schema` and `number`.
 */
export const Ask = Schema.Struct({
  kind: Schema.Literals(["Question", "Call"]),
  schema,
  number: Schema.optionalKey(Schema.Int)
}).annotate({ identifier: "Ask" })

export interface Ask extends Schema.Schema.Type<typeof Ask> {}

/** A question of a step or a handler, with its answer. */
export const Answered = Schema.Struct({ question: Schema.String, answer: Schema.Json }).annotate({
  identifier: "Answered"
})

export type Answered = typeof Answered.Type

/** The answer that a call of a client-side tool asks for. */
export const askOf = ({ client, success = {} }: Pick<ToolContract, "client" | "success">): Ask | undefined =>
  client === undefined ? undefined : { kind: client === "question" ? "Question" : "Call", schema: success }

/** The part of a request that its event and a state have. */
export interface Asked extends Pick<
  Extract<Request, { readonly _tag: "Approval" }>,
  "arguments" | "callId" | "digest" | "name"
> {
  readonly ask?: Ask | undefined
  readonly bounds?: Bounds | undefined
}

const hasQuestion = Schema.is(Request.cases.Question.fields.arguments)

/** The text of a question. */
export const questionIn = (args: Schema.Json): string => (hasQuestion(args) ? args.question : "")

/** A question without a text is a call. */
export const requestOf = ({ arguments: args, ask, bounds, callId, digest, name }: Asked): Request => {
  if (ask === undefined) return { _tag: "Approval", callId, name, arguments: args, digest, ...defined({ bounds }) }
  const { kind, schema } = ask
  return kind === "Question" && hasQuestion(args)
    ? { _tag: kind, callId, name, arguments: args, digest, ...defined({ bounds }), schema }
    : { _tag: "Call", callId, name, arguments: args, digest, ...defined({ bounds }), schema }
}

/**
 * A request that yes or no decides: a call that needs an approval, or a step that paused.
 *
 * @category models
 * @since 0.1.0
 */
export type Approvable<R extends Pick<Request, "_tag"> = Request> = Extract<R, { readonly _tag: "Approval" | "Pause" }>

/**
 * True for an {@link Approvable} request. A question and a call for a front end need an {@link answer}.
 *
 * @category guards
 * @since 0.1.0
 */
export const isApprovable = <R extends Pick<Request, "_tag">>(request: R): request is Approvable<R> =>
  request._tag === "Approval" || request._tag === "Pause"

/** The terms of a decision. `digest` is the digest of the request. */
export const terms = {
  digest: Schema.String,
  reason: Schema.optionalKey(Schema.String),
  decidedBy: Schema.optionalKey(Schema.String),
  expiresAt: Schema.optionalKey(Schema.DateTimeUtcFromString)
}

/** A decision, without the name of what it is about. */
export const Verdict = Schema.Struct({
  approved: Schema.Boolean,
  answer: Schema.optionalKey(Schema.Json),
  ...terms
})

export type Verdict = typeof Verdict.Type

export const Decision = Schema.Struct({
  callId: Schema.String,
  digest: Schema.String,
  approved: Schema.Boolean,
  answer: Schema.optional(Schema.Json),
  reason: Schema.optional(Schema.String),
  decidedBy: Schema.optional(Schema.String),
  expiresAt: Schema.optional(Schema.DateTimeUtcFromString),
  path: Schema.optional(path),
  batch: Schema.optional(Schema.String),
  remember: Schema.optional(Schema.Boolean)
}).annotate({ identifier: "Decision" })

export interface Decision extends Schema.Schema.Type<typeof Decision> {}

/** The members that name a request. */
export type Identity = Pick<Decision, "callId" | "digest" | "path">

/**
 * Options of a decision.
 *
 * @category options
 * @since 0.1.0
 */
export interface DecisionOptions {
  /** The text that the model, or the step that paused, reads with the decision. None by default. */
  readonly reason?: string | undefined
  /** The person who decided. None by default. */
  readonly decidedBy?: string | undefined
  /** The time from which on the decision no longer counts. Default: it always counts. */
  readonly expiresAt?: DateTime.Utc | undefined
  /**
   * True: equal calls of the session have the same answer and do not ask, until `Session.forget` or `expiresAt`. A call is equal with the
   * same tool and contract, arguments and `RunContext`. Default: false. It has no effect without a session.
   */
  readonly remember?: boolean | undefined
}

/** The members are picked, so a number in place of the options, the index of `Array.map`, has none. */
const makeDecision = (
  { callId, digest, path }: Identity,
  verdict: Pick<Verdict, "answer" | "approved">,
  { decidedBy, expiresAt, reason, remember }: DecisionOptions = {},
  batch?: string
): Decision => ({ callId, digest, ...verdict, ...defined({ path, reason, decidedBy, expiresAt, batch, remember }) })

/**
 * The decision that approves a request: the call runs, the step that paused continues.
 *
 * **Details**
 *
 * It can be the function of `Array.map`: `requests.filter(Run.isApprovable).map(Run.approve)`. A request with a JSON Schema for its
 * answer does not compile: it needs {@link answer}, and approved without one it is refused with `InvalidDecision`.
 *
 * **Example** (Approving what waits, with a reason for one request)
 *
 * ```ts
 * import { Run } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const request: Run.Approvable = {
 *   _tag: "Approval",
 *   callId: "call_1",
 *   name: "pay",
 *   arguments: { amount: 5 },
 *   digest: "sha256:4f2a"
 * }
 *
 * const approved: Run.Decision = { callId: "call_1", digest: "sha256:4f2a", approved: true }
 * assert.deepStrictEqual([request].map(Run.approve), [approved])
 * assert.strictEqual(Run.approve(request, { decidedBy: "ada@example.com" }).decidedBy, "ada@example.com")
 * assert.strictEqual(Run.deny(request, { reason: "Too much." }).approved, false)
 * ```
 *
 * @category decisions
 * @since 0.1.0
 */
export const approve: {
  (request: Approvable): Decision
  (request: Approvable, options: DecisionOptions): Decision
} = (request: Approvable, options?: DecisionOptions): Decision => makeDecision(request, { approved: true }, options)

/**
 * The decision that denies a request of any kind: the call does not run, the step that paused fails, the question has no answer.
 *
 * @category decisions
 * @since 0.1.0
 */
export const deny: {
  (request: Request): Decision
  (request: Request, options: DecisionOptions): Decision
} = (request: Request, options?: DecisionOptions): Decision => makeDecision(request, { approved: false }, options)

/**
 * The decision that answers a question, or has the result of a call of a front end. A value that does not fit the JSON Schema
 * of the request is refused, and the request stays open.
 *
 * @category decisions
 * @since 0.1.0
 */
export const answer = (
  request: Extract<Request, { readonly _tag: "Question" | "Call" }>,
  value: Schema.Json,
  options?: DecisionOptions
): Decision => makeDecision(request, { approved: true, answer: value }, options)

/** The name of a {@link Batch}, as readers of a session have it beside its requests. */
export const BatchName = Schema.Struct({ id: Schema.String, digest: Schema.String }).annotate({ identifier: "Batch" })

/**
 * All requests of a list that yes or no decides: one question to a person.
 *
 * **Details**
 *
 * `digest` covers the digests of the requests, in any order. `id` is a short name made of it, for a page or a line of a log.
 *
 * @category models
 * @since 0.1.0
 */
export interface Batch<R extends Pick<Request, "_tag"> = Request> extends Schema.Schema.Type<typeof BatchName> {
  /** The time at which the first of the requests expires; absent where none expires. The list is another one from then on. */
  readonly expiresAt?: DateTime.Utc
  readonly requests: ReadonlyArray<Approvable<R>>
}

const digestOfList = (list: ReadonlyArray<Pick<Request, "digest">>): string =>
  base.hashText(JSON.stringify(list.map(({ digest }) => digest).sort()))

/**
 * The requests that wait together, as one question; `undefined` where fewer than two of them need a yes or a no. Questions and calls of
 * a front end need an {@link answer}, and are no part of it.
 *
 * **When to use**
 *
 * With the requests of a result, of `Session.state` or of a plan, which are all that wait: the calls of one answer, the members of a
 * parallel group, calls of agents inside. A person is shown one list, and {@link approveAll} or {@link denyAll} decides it.
 *
 * **Example** (One list for three refunds)
 *
 * ```ts
 * import { Run } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const refund = (id: string): Run.Request => ({
 *   _tag: "Approval",
 *   callId: id,
 *   name: "refund",
 *   arguments: { order: id },
 *   digest: `sha256:${id}`
 * })
 * const requests = ["a", "b", "c"].map(refund)
 *
 * const batch = Run.batch(requests)
 * assert.strictEqual(batch?.requests.length, 3)
 * const decisions = Run.approveAll(requests, { decidedBy: "ada@example.com" })
 * assert(decisions.every((decision) => decision.approved && decision.batch === batch.digest))
 * ```
 *
 * @category getters
 * @since 0.1.0
 */
export const batch = <R extends Pick<Request, "_tag" | "bounds" | "digest">>(
  requests: ReadonlyArray<R>
): Batch<R> | undefined => {
  const approvable = requests.filter((request) => isApprovable(request))
  if (approvable.length < 2) return undefined
  const digest = digestOfList(approvable)
  const expiresAt = firstExpiry(approvable)
  return { id: `batch_${digest.slice(-16)}`, digest, requests: approvable, ...defined({ expiresAt }) }
}

/** The name of the batch of requests, as an option that is absent where there is none. */
export const batchIn = (requests: ReadonlyArray<Request>): { readonly batch?: typeof BatchName.Type } => {
  const found = batch(requests)
  return found === undefined ? {} : { batch: { id: found.id, digest: found.digest } }
}

const decideAll = (requests: ReadonlyArray<Request>, approved: boolean, options: DecisionOptions = {}) => {
  const digest = batch(requests)?.digest
  return requests
    .filter((request) => isApprovable(request))
    .map((one) => makeDecision(one, { approved }, options, digest))
}

/**
 * The decisions that approve a whole list of requests, see {@link batch}. Each is bound to the list: they count together, or none of
 * them does. A call that is not in the list, or whose arguments are others by now, asks again.
 *
 * **Details**
 *
 * Of two people who decide, the first one counts for each request. A list in which another one has decided a request otherwise is
 * refused as a whole, and the rest of it stays open.
 *
 * @category decisions
 * @since 0.1.0
 */
export const approveAll = (requests: ReadonlyArray<Request>, options?: DecisionOptions): ReadonlyArray<Decision> =>
  decideAll(requests, true, options)

/**
 * The decisions that deny a whole list of requests, as {@link approveAll} approves it. {@link deny} denies questions, too.
 *
 * @category decisions
 * @since 0.1.0
 */
export const denyAll = (requests: ReadonlyArray<Request>, options?: DecisionOptions): ReadonlyArray<Decision> =>
  decideAll(requests, false, options)

/** A decision of a list that is not the list which it is bound to. */
export const tornIn = (decisions: ReadonlyArray<Decision>): Decision | undefined => {
  const lists = new Map<string, Array<Decision>>()
  for (const decision of decisions) {
    if (!Predicate.isString(decision.batch)) continue
    const list = lists.get(decision.batch)
    if (list === undefined) lists.set(decision.batch, [decision])
    else list.push(decision)
  }
  return Array.from(lists).find(([digest, list]) => digestOfList(list) !== digest)?.[1][0]
}

/** A decision about a request that names who decides, where the caller decides as none of them. */
export const foreignIn = (
  requests: ReadonlyArray<Request>,
  decisions: ReadonlyArray<Decision>,
  as: ReadonlyArray<string> | undefined
): Decision | undefined =>
  as &&
  decisions.find((decision) =>
    requests.some(
      (request) => request.bounds?.deciders?.some((name) => as.includes(name)) === false && concerns(decision, request)
    )
  )

/** A decision by itself, after its list was checked. */
export const alone = ({ batch: _, ...decision }: Decision): Decision => decision

/**
 * A decision that does not count. The request that it names stays open.
 *
 * **Details**
 *
 * | `problem` | the decision |
 * |---|---|
 * | `unknown` | names a request that does not wait: it never did, or it is decided and forgotten |
 * | `alreadyAnswered` | comes after another decision about the same request, or after its `expiresAt`: the first decision counts |
 * | `changed` | has another digest than the request that waits: it is about other arguments, another turn, another contract of the tool |
 * | `ambiguous` | has no `path`, and requests of several agents have its id and digest |
 * | `repeated` | is the second about one request in the same list |
 * | `expired` | comes after its `expiresAt` |
 * | `malformed` | is no decision: its `approved` is neither `true` nor `false`, for example |
 * | `decider` | comes from a caller who is none of the `deciders` of the request |
 * | `batch` | is one of a list (`batch`) that has another digest: a request is missing in it, or was added to it |
 * | `answer` | has an answer that does not fit the JSON Schema of the request, none where there has to be one, or one where none is asked for: `problems` has each place |
 *
 * `waiting` are the ids and paths of the requests that do wait.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidDecision extends Schema.TaggedError<InvalidDecision>("effect-emissary/agent/InvalidDecision")(
  "InvalidDecision",
  {
    callId: Schema.String,
    path: Schema.optionalKey(path),
    problem: Schema.Literals([
      "unknown",
      "alreadyAnswered",
      "changed",
      "ambiguous",
      "repeated",
      "expired",
      "malformed",
      "decider",
      "batch",
      "answer"
    ]),
    problems: Schema.optionalKey(Schema.Array(PayloadError.Problem)),
    waiting: Schema.Array(Schema.Struct({ callId: Schema.String, path: Schema.optionalKey(path) }))
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const problem = {
      unknown: "no request of this id and path waits, or it is decided",
      alreadyAnswered: "the request has the decision that came first. Read the session again",
      changed:
        "it has the digest of another request: the call, its arguments or its tool have changed. Decide about the request that waits",
      ambiguous: "several requests have this id and digest. Add the path",
      repeated: "this request has another decision",
      expired: "the decision has expired. Decide again",
      malformed:
        "members have another type: digest, reason and decidedBy are texts, approved true or false, expiresAt a DateTime.Utc, path a list of texts",
      decider: "the caller is none of the deciders of the request",
      batch: "its list has another digest: a request is missing or new. Decide about the requests that wait",
      answer: PayloadError.render("its answer", this.problems ?? [])
    }[this.problem]
    const shown = this.waiting.slice(0, maxShown).map(showPlace).join(", ")
    const more = this.waiting.length - maxShown
    const waiting = `${shown === "" ? "none" : shown}${more > 0 ? ` and ${more} more` : ""}`
    return `expected a decision about a request that waits, got a decision about ${showPlace(this)}: ${problem}. Waiting: ${waiting}.`
  }
}

const maxShown = 20

const showPlace = ({ callId, path = [] }: Pick<InvalidDecision, "callId" | "path">): string =>
  [...path, callId].map(base.quote).join(" > ")

/**
 * A request that a run has open, and the event that records a decision about it. `equal` is the digest of what equal requests have in common:
 * the place that asks is no part of it. Requests that no other one is equal to have none. Open requests with `again` and one digest are one
 * question, about a budget: the first one records the decision, and the others record it with `again`.
 */
export interface Open<E> {
  readonly request: Request
  readonly record: (verdict: Verdict, at: DateTime.Utc) => E
  readonly equal?: (() => string) | undefined
  readonly again?: ((verdict: Verdict, at: DateTime.Utc) => E) | undefined
}

/** The open requests that ask the question of one, that one included. */
const sameQuestion = <E>(open: ReadonlyArray<Open<E>>, one: Open<E>): ReadonlyArray<Open<E>> =>
  one.again === undefined
    ? [one]
    : open.filter(({ again, request }) => again !== undefined && request.digest === one.request.digest)

/** Each question once. */
export const questions = <E>(open: ReadonlyArray<Open<E>>): ReadonlyArray<Open<E>> =>
  open.filter((one) => sameQuestion(open, one)[0] === one)

/** An answer that equal requests of a session have, too. `digest` is what they have in common. */
export const Remembered = Schema.Struct({
  digest: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  approved: Schema.Boolean,
  answer: Schema.optionalKey(Schema.Json),
  reason: Schema.optionalKey(Schema.String),
  decidedBy: Schema.optionalKey(Schema.String),
  expiresAt: Schema.optionalKey(Schema.DateTimeUtcFromString)
}).annotate({ identifier: "Remembered" })

export interface Remembered extends Schema.Schema.Type<typeof Remembered> {}

/** The part of a session in the requests of its runs: it checks decisions when they come, and settles requests whose time is over. */
interface AroundSession {
  readonly remembered: (at: DateTime.Utc) => ReadonlyArray<Remembered>
  readonly expiresAfter: Duration.Duration | undefined
}

export const AroundSession = Context.Reference<AroundSession | undefined>("~effect-emissary/run/AroundSession", {
  defaultValue: () => undefined
})

/** True in a session, which checks decisions when they come, and settles requests whose time is over. */
export const isInSession = (context: Context.Context<never>): boolean =>
  Context.get(context, AroundSession) !== undefined

/** The decision about a request that is equal to a remembered one. */
export const recall = (
  { equal, request }: Pick<Open<unknown>, "equal" | "request">,
  remembered: ReadonlyArray<Remembered>
): Decision | undefined => {
  if (equal === undefined || remembered.length === 0) return undefined
  const digest = equal()
  const found = remembered.find((one) => one.digest === digest)
  const { answer, approved = false } = found ?? {}
  return found && makeDecision(request, { approved, ...defined({ answer }) }, found)
}

/** The open requests of a run inside, as the run around has them. `path` is the way to the run inside. */
export const inside = <A, B>(
  open: ReadonlyArray<Open<A>>,
  path: ReadonlyArray<string>,
  around: (event: A, at: DateTime.Utc) => B
): ReadonlyArray<Open<B>> =>
  open.map(({ again, equal, record, request }) => ({
    equal,
    request: { ...request, path: [...path, ...(request.path ?? [])] },
    record: (verdict, at) => around(record(verdict, at), at),
    again: again && ((verdict, at) => around(again(verdict, at), at))
  }))

/** The requests. A request of the run itself has an empty path where a request of a run inside has the same id. */
export const requestsOf = (all: ReadonlyArray<Open<unknown>>): ReadonlyArray<Request> => {
  const open = questions(all)
  const below = new Set(open.filter(({ request }) => request.path !== undefined).map(({ request }) => request.callId))
  return open.map(({ request }) =>
    request.path === undefined && below.has(request.callId) ? { ...request, path: [] } : request
  )
}

/** The part of a decision that its event and the states after it keep. */
export const verdictOf = (decision: Omit<Decision, "callId" | "path">): Verdict => {
  const { answer, approved, decidedBy, digest, expiresAt, reason } = decision
  return { approved, digest, ...defined({ answer, reason, decidedBy, expiresAt }) }
}

/** True from the time on at which a decision no longer counts. */
export const isExpired = ({ expiresAt }: Pick<Decision, "expiresAt">, at: DateTime.Utc): boolean =>
  expiresAt !== undefined && DateTime.isGreaterThanOrEqualTo(at, expiresAt)

/** True for a decision with the id, and the path if it has one, of a request. */
export const names = ({ callId, path }: Omit<Identity, "digest">, request: Omit<Identity, "digest">): boolean =>
  request.callId === callId && (path === undefined || Equal.equals(path, request.path ?? []))

/** True for a decision about a request. */
export const concerns = (decision: Identity, request: Identity): boolean =>
  names(decision, request) && request.digest === decision.digest

/** False for a decision that was read from outside and never decoded: `approved: "false"` is no approval. */
export const isWellFormed: (decision: unknown) => decision is Decision = Schema.is(Decision)

/** Sound: isWellFormed refuses it before anything but the id is read. */
export const noDecision = { callId: "" } as Decision

/** The denials among decisions. A denied call needs no tool. */
export const denialsIn = (decisions: ReadonlyArray<Decision> | undefined): ReadonlyArray<Decision> =>
  listDecisions(decisions).filter(({ approved }) => approved === false)

/** Decisions as a list, in which a value that is none, for example of a form, is malformed. */
export const listDecisions = (decisions: ReadonlyArray<Decision> = []): ReadonlyArray<Decision> =>
  Array.isArray(decisions)
    ? decisions.map((decision: Decision) => (Predicate.isObject(decision) ? decision : noDecision))
    : [noDecision]

interface Refusal {
  readonly problem: InvalidDecision["problem"]
  readonly problems?: ReadonlyArray<PayloadError.Problem>
}

const refuse = (problem: Refusal["problem"]): Result.Result<never, Refusal> => Result.fail({ problem })

const refuseAnswer = (problems: ReadonlyArray<PayloadError.Problem>): Result.Result<never, Refusal> =>
  Result.fail({ problem: "answer", problems })

/** The verdict of a decision about a request, with its answer as the JSON Schema of the request completes it. */
const judge = (request: Request, decision: Decision): Result.Result<Verdict, Refusal> => {
  const { answer, approved } = decision
  if (!("schema" in request) || !approved) {
    const problem = { path: "", expected: "no answer", found: "an answer", fix: "Approve the request, or deny it" }
    return answer === undefined ? Result.succeed(verdictOf(decision)) : refuseAnswer([problem])
  }
  if (answer === undefined) {
    const problem = { path: "", expected: "an answer", found: "none", fix: "Answer the question, or deny it" }
    return refuseAnswer([problem])
  }
  return Result.match(checkAnswer(request.schema, answer), {
    onFailure: refuseAnswer,
    onSuccess: (answer) => Result.succeed(verdictOf({ ...decision, answer }))
  })
}

/** The problems of the answer in a decision, with their places. */
export const problemsOf = (request: Request, decision: Decision): ReadonlyArray<PayloadError.Problem> =>
  Result.match(judge(request, decision), { onFailure: ({ problems = [] }) => problems, onSuccess: () => [] })

/** True for a request whose time is over. */
const isOver = ({ bounds }: Request, at: DateTime.Utc): boolean => isExpired({ expiresAt: bounds?.expiresAt }, at)

/** The decision about a request whose time is over. */
export const expired = (request: Request, at: DateTime.Utc): Decision | undefined => {
  if (!isOver(request, at)) return undefined
  const options = { reason: "There was no answer in time." }
  const { otherwise } = request.bounds ?? {}
  return "schema" in request && otherwise !== undefined ? answer(request, otherwise, options) : deny(request, options)
}

/** The time at which the first of the requests expires. */
export const firstExpiry = (requests: ReadonlyArray<Pick<Request, "bounds">>): DateTime.Utc | undefined =>
  requests
    .flatMap(({ bounds }) => bounds?.expiresAt ?? [])
    .reduce<DateTime.Utc | undefined>((first, one) => (first === undefined ? one : DateTime.min(first, one)), undefined)

/** The open request that a decision which is taken now is about, with its verdict. Earlier decisions are about `decided`. */
const find = <E>(
  decision: Decision,
  open: ReadonlyArray<Open<E>>,
  decided: ReadonlySet<Open<E>>,
  at: DateTime.Utc
): Result.Result<{ readonly one: Open<E>; readonly verdict: Verdict }, Refusal> => {
  if (!isWellFormed(decision)) return refuse("malformed")
  const named = open.filter(({ request }) => names(decision, request))
  const [one, ...others] = named.filter(({ request }) => concerns(decision, request))
  if (one === undefined) return refuse(named.length === 0 ? "unknown" : "changed")
  if (others.length > 0) return refuse("ambiguous")
  if (decided.has(one)) return refuse("repeated")
  if (isExpired(decision, at)) return refuse("expired")
  return Result.map(judge(one.request, decision), (verdict) => ({ one, verdict }))
}

/** The error of a decision, which may have members of any type. */
export const invalid = (decision: Decision, refusal: Refusal, requests: ReadonlyArray<Request>): InvalidDecision =>
  new InvalidDecision({
    callId: Predicate.isString(decision.callId) ? decision.callId : "",
    ...(refusal.problem === "malformed" ? undefined : defined({ path: decision.path })),
    ...refusal,
    waiting: requests.map(({ callId, path }) => ({ callId, ...defined({ path }) }))
  })

/**
 * The events that record decisions about what is open: each is about a request that waits, and one request has one
 * decision. Requests whose time is over are decided first, unless a session does that (`isSettled`). A list from outside may hold anything.
 */
export const decide = <E>(
  open: ReadonlyArray<Open<E>>,
  decisions: ReadonlyArray<Decision> | undefined,
  at: DateTime.Utc,
  isSettled = false
): Result.Result<ReadonlyArray<E>, InvalidDecision> => {
  const decided = new Set<Open<E>>()
  const over = new Set<Open<E>>()
  const events: Array<E> = []
  const asked = questions(open)
  const record = (one: Open<E>, verdict: Verdict) => {
    events.push(one.record(verdict, at))
    for (const { again } of sameQuestion(open, one).slice(1)) if (again !== undefined) events.push(again(verdict, at))
  }
  for (const one of isSettled ? [] : asked) {
    const decision = expired(one.request, at)
    if (decision === undefined) continue
    over.add(one)
    record(one, verdictOf(decision))
  }
  const list = listDecisions(decisions)
  const torn = tornIn(list)
  if (torn !== undefined) return Result.fail(invalid(torn, { problem: "batch" }, requestsOf(open)))
  for (const decision of list) {
    const found = find(decision, asked, decided, at)
    if (Result.isFailure(found)) return Result.fail(invalid(decision, found.failure, requestsOf(open)))
    const { one, verdict } = found.success
    if (over.has(one)) return Result.fail(invalid(decision, { problem: "alreadyAnswered" }, requestsOf(open)))
    decided.add(one)
    record(one, verdict)
  }
  return Result.succeed(events)
}

/** The transition of a machine, as far as decisions need it. */
interface Machine<S, E> {
  readonly decide: (
    state: S,
    decisions: ReadonlyArray<Decision>,
    at: DateTime.Utc
  ) => Result.Result<ReadonlyArray<E>, unknown>
  readonly apply: (state: S, event: E) => Result.Result<S, unknown>
}

/** The state after decisions that count. They are recorded when the run has begun. */
export const afterDecisions = <S, E>(
  machine: Machine<S, E>,
  state: S,
  decisions: ReadonlyArray<Decision> | undefined,
  at: DateTime.Utc
): S =>
  listDecisions(decisions).reduce((before, decision) => {
    const events = Result.getOrElse(machine.decide(before, [alone(decision)], at), () => [])
    return events.reduce((state, event) => Result.getOrElse(machine.apply(state, event), () => state), before)
  }, state)
