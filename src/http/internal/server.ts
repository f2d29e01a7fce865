/** The handlers of the routes: they find the caller, read the request, call the sessions, and send values and refusals. */

import * as Cause from "effect/Cause"
import type * as DateTime from "effect/DateTime"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Base64 from "effect/encoding/Base64"
import * as HttpBody from "effect/http/HttpBody"
import type * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as callOptions from "../../payload/internal/options.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Json from "../../payload/Json.ts"
import type * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { resolveLimits } from "../../payload/internal/limits.ts"
import { defined } from "../../payload/internal/values.ts"
import { halfIn } from "../../payload/internal/weigh.ts"
import type * as ChatEvent from "../../session/ChatEvent.ts"
import * as cursors from "../../session/internal/cursors.ts"
import type * as events from "../../session/internal/events.ts"
import * as service from "../../session/internal/service.ts"
import * as types from "../../session/internal/types.ts"
import * as requestBody from "../../tool/internal/requestBody.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import * as chatRoutes from "./chatRoutes.ts"
import * as eventStream from "./eventStream.ts"
import * as frontView from "./frontView.ts"
import * as refusal from "./refusal.ts"
import { type Failure, Refusal, refuse } from "./refusal.ts"
import * as routes from "./routes.ts"

/** A request with its token. */
export interface Credentials {
  /** The bearer token, or else the value of the cookie that the option `cookie` names; none where the request has neither. */
  readonly token: Option.Option<Redacted.Redacted<string>>
  /** The request, for everything else in it. */
  readonly request: HttpServerRequest.HttpServerRequest
}

/** A caller, and the sessions that this caller may touch. */
export interface Caller {
  /** The name of the caller, by which streams are counted. It is the `decidedBy` of decisions, unless the access is full. */
  readonly name: string
  /**
   * The beginning of the ids of the sessions that the caller may touch, with its separator: `"ada"` is the beginning of `"adam/1"`, too.
   * An empty text is all sessions.
   */
  readonly prefix: string
  /** True for a session among these that the caller may touch; default: all of them. */
  readonly allows?: ((id: string) => boolean) | undefined
  /**
   * `"chat"`: the commands of a chat, and what a front end shows. `"full"`: everything of these sessions, with instructions, contexts and
   * contracts, and messages with another agent, context or conversation. With an empty `prefix` and without `allows` it is everything of
   * the store.
   */
  readonly access: "chat" | "full"
  /** The `RunContext` of the messages of this caller; none by default. With full access a message may have another one. */
  readonly context?: Json.JsonObject | undefined
  /**
   * The names of the roles or people as which the caller decides requests that name who decides (`deciders`, see `ToolSettings.Request`). Others
   * are refused with status 403. Default: none of them, and with full access all.
   */
  readonly decidesAs?: ReadonlyArray<string> | undefined
  /** The name of the agent of sessions that begin; default: the only agent of the layer. */
  readonly agent?: string | undefined
  /** The end of the token: streams end then. They have no end by default. */
  readonly expires?: DateTime.Utc | undefined
}

export type Authorize = (credentials: Credentials) => Effect.Effect<Caller, Refusal>

/** Options of the server. */
export interface Options {
  /** The path before the routes, default `"/sessions"`. */
  readonly path?: `/${string}` | undefined
  /** The name of a cookie that has the token, for pages that send none; default: a token comes as `Authorization: Bearer` alone. */
  readonly cookie?: string | undefined
  /**
   * The origins of pages on other hosts that may use the routes, such as `"https://app.example.com"`, and the own one where a proxy changes
   * the header `Host`; none by default.
   */
  readonly allowedOrigins?: ReadonlyArray<string> | undefined
  /** The parts of answers that front ends see, as for `ChatEvent.project`; by default no reasoning and no sub-agents. */
  readonly chat?: ChatEvent.Options | undefined
  /** Limits of the body of a request, where they differ from the current `Limits`. */
  readonly limits?: Partial<Limits.Limits> | undefined
  /** The time in which the body of a request has to arrive; default 30 seconds. */
  readonly bodyTimeout?: Duration.Input | undefined
  /**
   * The fate of a message of a chat that comes during a turn and does not name one, as in `Session.SendOptions`; default `"steer"`: it
   * enters the turn. Messages of callers with full access have the default of `Session.send`.
   */
  readonly whenBusy?: types.SendOptions["whenBusy"]
  /** The most streams that one caller may have open in this process, a whole number from 1 on; default 32. */
  readonly maxStreams?: number | undefined
  /** The most streams that all callers together may have open in this process, a whole number from 1 on; default 10,000. */
  readonly maxAllStreams?: number | undefined
  /**
   * The most requests of one caller that this process may have under way: their bodies arrive, they are done, or their answers are on their way.
   * A whole number from 1 on; default 32.
   */
  readonly maxRequests?: number | undefined
  /** The same of all callers together; default 1,000. */
  readonly maxAllRequests?: number | undefined
  /**
   * The time in which a reader has to take what was sent; default 1 minute. A stream ends with a {@link Refusal} of the class `timeout` then,
   * and the connection is closed soon after.
   */
  readonly readTimeout?: Duration.Input | undefined
}

export const allowed = {
  bodyTimeout: callOptions.someTime,
  readTimeout: callOptions.someTime,
  maxStreams: callOptions.wholeFrom(1),
  maxAllStreams: callOptions.wholeFrom(1),
  maxRequests: callOptions.wholeFrom(1),
  maxAllRequests: callOptions.wholeFrom(1)
}

export interface Asked {
  readonly caller: Caller
  readonly request: HttpServerRequest.HttpServerRequest
  readonly query: routes.Query
}

const forbid = (message: string): Effect.Effect<never, Refusal> => Effect.fail(refuse("forbidden", message))

const foreignSession = "This caller may not touch this session."

const unfit = refuse("internal", "The server has no context for this caller that the agent reads.")

/** An error of a call for a caller. A context that `Authorize` has returned is no fault of the caller. */
const failFor =
  (caller: Caller, { context }: service.Payload) =>
  (error: Failure) => {
    const isOwn = context !== caller.context || (caller.access === "full" && caller.context === undefined)
    if (error._tag !== "SessionError" || error.reason._tag !== "ContextInvalid" || isOwn) return Effect.fail(error)
    const problem = `${error.message}: the context of the caller ${JSON.stringify(caller.name)} comes from Authorize`
    return Effect.andThen(Effect.logError(problem), Effect.fail(unfit))
  }

const foreign = refuse("forbidden", "A page of another origin may not do this.")

const bearerOf = (header: string | undefined): string | undefined => /^bearer +(\S+)\s*$/i.exec(header ?? "")?.[1]

const mayTouch = ({ allows, prefix }: Caller, id: string): boolean =>
  id.startsWith(prefix) && (allows === undefined || allows(id))

const hasStore = ({ access, allows, prefix }: Caller): boolean =>
  access === "full" && prefix === "" && allows === undefined

/**
 * Browsers send cookies along with what other pages ask for, so a request without a bearer token has to come from a page of this host, or
 * of an origin that is allowed. A request that changes something needs an origin.
 */
const isForeign = (
  { headers }: HttpServerRequest.HttpServerRequest,
  isCommand: boolean,
  allowedOrigins: ReadonlyArray<string>
): boolean => {
  const { cookie, host, origin } = headers
  const site = headers["sec-fetch-site"]
  if (origin !== undefined) return !allowedOrigins.includes(origin) && origin.replace(/^https?:\/\//, "") !== host
  if (site !== undefined) return site !== "same-origin" && site !== "none"
  return isCommand && cookie !== undefined
}

/** The caller of a request. */
const admitting =
  (authorize: Authorize, { allowedOrigins = [], cookie }: Options) =>
  (request: HttpServerRequest.HttpServerRequest, isCommand: boolean): Effect.Effect<Caller, Refusal> =>
    Effect.suspend(() => {
      const bearer = bearerOf(request.headers["authorization"])
      if (bearer === undefined && isForeign(request, isCommand, allowedOrigins)) return Effect.fail(foreign)
      const token = bearer ?? (cookie === undefined ? undefined : request.cookies[cookie])
      return authorize({ token: Option.map(Option.fromUndefinedOr(token), (text) => Redacted.make(text)), request })
    })

/** The fields that a caller sets for each message of his. */
const stampOf = ({ access, agent, context, decidesAs, name }: Caller, operation: string, payload: service.Payload) => {
  const isFull = access === "full"
  if (operation === "send") return { ...defined({ agent, context }), ...payload }
  if (operation === "edit") return { ...defined({ context }), ...payload }
  // The caller has decided, and no other person
  if (operation !== "decide" || !Array.isArray(payload["decisions"])) return payload
  return isFull
    ? { ...payload, ...defined({ as: decidesAs }) }
    : {
        decisions: payload["decisions"].map((decision: object) => ({ ...decision, decidedBy: name })),
        as: decidesAs ?? []
      }
}

/** Refuses what the caller may not do, and returns the payload as it is done for this caller. */
const permit = (
  caller: Caller,
  { fields, name, operation: { about } }: routes.Route,
  id: string,
  payload: service.Payload
): Effect.Effect<service.Payload, Refusal> => {
  if (caller.access !== "full" && fields === undefined) return forbid(`${name} needs full access.`)
  const other = Object.keys(payload).find((field) => fields?.includes(field) !== true)
  if (caller.access !== "full" && other !== undefined)
    return forbid(`The field "${other}" of ${name} needs full access.`)
  if (routes.ofStore.has(name) && !hasStore(caller)) return forbid(`${name} needs full access to all sessions.`)
  if (about === "session" && !mayTouch(caller, id)) return forbid(foreignSession)
  if (name === "fork" && !mayTouch(caller, String(payload["to"]))) return forbid(foreignSession)
  if (name !== "list" && name !== "listChanges") return Effect.succeed(stampOf(caller, name, payload))
  const { prefix = "" } = payload
  const asked = String(prefix)
  if (asked.startsWith(caller.prefix)) return Effect.succeed(payload)
  return caller.prefix.startsWith(asked)
    ? Effect.succeed({ ...payload, prefix: caller.prefix })
    : forbid("This caller may not list sessions of this prefix.")
}

const isSeen =
  ({ allows }: Caller) =>
  ({ id }: { readonly id: string }) =>
    allows === undefined || allows(id)

/** A page without the sessions that the caller may not touch. */
const seenPage = (caller: Caller, page: types.Page): types.Page => ({
  ...page,
  sessions: page.sessions.filter(isSeen(caller)),
  unreadable: page.unreadable.filter((id) => isSeen(caller)({ id }))
})

const isPage = Schema.is(Schema.toType(types.PageSchema))

const isReceipt = Schema.is(Schema.toType(types.ReceiptSchema))

const isChange = Schema.is(Schema.toType(types.ListChangeSchema))

/** A value of a list for a caller who may touch some of its sessions only; nothing for a change that is about none of them. */
const seenBy = (caller: Caller, value: unknown): Option.Option<unknown> => {
  if (caller.allows === undefined) return Option.some(value)
  if (isPage(value)) return Option.some(seenPage(caller, value))
  if (!isChange(value)) return Option.some(value)
  switch (value._tag) {
    case "Page":
      return Option.some({ ...value, page: seenPage(caller, value.page) })
    case "Changed":
      return isSeen(caller)(value.session) ? Option.some(value) : Option.none()
    case "Removed":
      return isSeen(caller)(value) ? Option.some(value) : Option.none()
  }
}

const encodeRefusal = Schema.encodeUnknownEffect(Refusal)

const writeRefusal = (error: Refusal): Effect.Effect<string> =>
  Effect.map(Effect.orDie(encodeRefusal(error)), (json) => JSON.stringify(json))

/** An error as the caller gets it. A defect is in the log alone. */
const refusalOf =
  (caller: Caller | undefined) =>
  (cause: Cause.Cause<Failure>): Effect.Effect<Refusal> => {
    const error = Option.getOrUndefined(Cause.findErrorOption(cause))
    if (error === undefined || Cause.hasDies(cause)) {
      return Effect.as(telemetry.logUnexpected("A route of sessions failed unexpectedly", cause), refusal.hidden)
    }
    if (error._tag === "Refusal") return Effect.succeed(error)
    return Effect.succeed(
      error._tag === "SessionError" ? refusal.ofSession(error, caller?.access === "full") : refusal.ofPayload(error)
    )
  }

const respond = (text: string, status: number): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(text, {
    status,
    contentType: "application/json",
    headers: { "cache-control": "no-store", "x-content-type-options": "nosniff" }
  })

/** Runs a route, for a caller who may ask. */
const answering = (
  admit: ReturnType<typeof admitting>,
  requests: Counting,
  time: Duration.Duration,
  isCommand: boolean,
  run: (
    asked: Asked
  ) => Effect.Effect<
    HttpServerResponse.HttpServerResponse,
    Failure,
    HttpServerRequest.HttpServerRequest | HttpRouter.RouteContext
  >
) =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const query = yield* HttpServerRequest.ParsedSearchParams
    let caller: Caller | undefined
    return yield* Effect.flatMap(admit(request, isCommand), (found) => {
      caller = found
      const answered = requests.within(found, run({ caller: found, request, query }))
      return Effect.map(answered, (response) => inPieces(response, found, requests, time))
    }).pipe(
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.interrupt
          : Effect.flatMap(refusalOf(caller)(cause), (error) =>
              Effect.map(writeRefusal(error), (text) => respond(text, refusal.statuses[error.category]))
            )
      )
    )
  })

/** The bodies of requests as JSON. */
const readingBody = ({ bodyTimeout = "30 seconds", limits }: Options) =>
  Effect.fnUntraced(function* (what: string, request: HttpServerRequest.HttpServerRequest) {
    const type = request.headers["content-type"]
    if (type !== undefined && type.split(";")[0]?.trim().toLowerCase() !== "application/json") {
      return yield* refuse("invalid", "The body must be application/json.")
    }
    const { maxBytes } = yield* resolveLimits(limits)
    const body = yield* Effect.mapError(
      requestBody.read(request, maxBytes, Duration.fromInputUnsafe(bodyTimeout)),
      ({ message, status }) => refuse(status === 413 ? "too-large" : status === 408 ? "timeout" : "invalid", message)
    )
    const json = body.byteLength === 0 ? {} : yield* Json.parse(body, { what, limits })
    const path = halfIn(json)
    if (path === undefined) return json
    const problem = {
      path,
      expected: "well-formed Unicode",
      found: "half a character",
      fix: "Cut texts between characters"
    }
    return yield* new PayloadError.PayloadError({ what, reason: PayloadError.invalid([problem]) })
  })

/** Counts what callers have open: each of them, and all together. */
const counting = (what: string, most: number, mostOfAll: number) => {
  const open = new Map<string, number>()
  let all = 0
  const full = refuse("busy", `At most ${most} ${what} of one caller can be open.`)
  const fullOfAll = refuse("busy", `At most ${mostOfAll} ${what} can be open.`)
  const enter = ({ name }: Caller) => {
    all += 1
    open.set(name, (open.get(name) ?? 0) + 1)
  }
  const leave = ({ name }: Caller) => {
    all -= 1
    const left = (open.get(name) ?? 1) - 1
    if (left === 0) open.delete(name)
    else open.set(name, left)
  }
  const check = ({ name }: Caller): Effect.Effect<void, Refusal> =>
    Effect.suspend(() => {
      if ((open.get(name) ?? 0) >= most) return Effect.fail(full)
      return all >= mostOfAll ? Effect.fail(fullOfAll) : Effect.void
    })
  const held = (caller: Caller, isChecked: boolean) =>
    Effect.acquireRelease(
      Effect.andThen(isChecked ? check(caller) : Effect.void, () => Effect.sync(() => enter(caller))),
      () => Effect.sync(() => leave(caller))
    )
  return {
    /** Refuses before anything begins. */
    check,
    /** Counts an Effect while it runs. */
    within: <A, E, R>(caller: Caller, effect: Effect.Effect<A, E, R>) =>
      Effect.scoped(Effect.andThen(held(caller, true), effect)),
    /** Counts a stream while it is read. `isChecked`: it may be refused, too. */
    during: <A, E>(caller: Caller, stream: Stream.Stream<A, E>, isChecked = true): Stream.Stream<A, E | Refusal> =>
      Stream.unwrap(Effect.as(held(caller, isChecked), stream))
  }
}

type Counting = ReturnType<typeof counting>

/** The bytes of an answer that are sent at once. */
const piece = 65_536

/** A long answer in pieces, which counts until it is read: the rest of it is not kept for a reader that does not read. */
const inPieces = (
  response: HttpServerResponse.HttpServerResponse,
  caller: Caller,
  requests: Counting,
  time: Duration.Duration
): HttpServerResponse.HttpServerResponse => {
  const { body } = response
  if (body._tag !== "Uint8Array" || body.body.byteLength <= piece) return response
  const bytes = body.body
  const pieces = Stream.rechunk(Stream.range(0, Math.ceil(bytes.byteLength / piece) - 1), 1).pipe(
    Stream.map((index) => bytes.subarray(index * piece, (index + 1) * piece))
  )
  const taken = eventStream.whileTaken(requests.during(caller, pieces, false), time, Effect.interrupt)
  return HttpServerResponse.setBody(response, HttpBody.stream(taken, body.contentType, bytes.byteLength))
}

const tooSlow = refuse("timeout", "The reader was too slow. Read on after the last event.")

const expired = refuse("unauthorized", "The token has expired.")

/** Ends with the token of the caller. */
const untilExpired = <A, E>({ expires }: Caller, stream: Stream.Stream<A, E>): Stream.Stream<A, E | Refusal> =>
  expires === undefined
    ? stream
    : Stream.interruptWhen(
        stream,
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          Effect.andThen(
            Effect.sleep(Duration.millis(Math.max(0, expires.epochMilliseconds - now))),
            Effect.fail(expired)
          )
        )
      )

/** A route as the router takes it. */
export interface Handled {
  readonly method: "GET" | "POST"
  readonly name: string
  readonly handler: ReturnType<typeof answering>
}

/** The values of the views of front ends. */
const addressingOf =
  ({ path = defaultPath }: Options) =>
  (id: string) =>
  (message: string, part: number) =>
    `${path}/${routes.file}?${new URLSearchParams({ id, message, part: String(part) }).toString()}`

/** Events as front ends see them. */
const showing =
  (options: Options) =>
  (id: string, entry: events.Entry): Option.Option<ChatEvent.ChatEvent> => {
    const { chat = {} } = options
    const shown = frontView.eventOf(entry, chat, addressingOf(options)(id))
    return Option.map(Result.getSuccess(shown), ({ event }) => event)
  }

const viewsOf = (hosted: service.Service, options: Options) => {
  const { chat = {} } = options
  const addressOf = addressingOf(options)

  /** A part of a message. A message that waits is in its event alone. */
  const findPart = Effect.fnUntraced(function* (id: string, { message, part }: frontView.FilePlace) {
    const stored = Conversation.messages(yield* hosted.history(id)).find((found) => found.id === message)
    if (stored !== undefined) return frontView.contentOf(stored)[part]
    const state = Option.getOrUndefined(yield* hosted.state(id))
    if (state === undefined) return undefined
    const found = yield* hosted.events(id).pipe(
      Stream.takeUntil(({ sequence }) => sequence >= state.sequence),
      Stream.filter(({ event }) => event._tag === "MessageReceived" && event.messageId === message),
      Stream.runLast
    )
    return Option.flatMap(found, ({ event }) =>
      Option.fromUndefinedOr(event._tag === "MessageReceived" ? event.input[part] : undefined)
    ).pipe(Option.getOrUndefined)
  })

  return {
    "chat/state": (id: string) => Effect.map(hosted.state(id), Option.map(frontView.stateOf)),
    "chat/history": Effect.fnUntraced(function* (id: string) {
      // The place comes first: events after it may be in the history already, and are known by the ids of messages
      const state = Option.getOrUndefined(yield* hosted.state(id))
      return frontView.historyOf(yield* hosted.history(id), state?.cursor, chat, addressOf(id))
    }),
    "chat/events": (id: string, { live = true, ...place }: frontView.EventsOptions = {}) => {
      const found: Stream.Stream<events.LiveEntry, types.SessionError> = live
        ? hosted.live(id, place)
        : hosted.events(id, place)
      return Stream.filterMap(found, (entry) => frontView.eventOf(entry, chat, addressOf(id)))
    },
    [routes.file]: Effect.fnUntraced(function* (id: string, place: frontView.FilePlace) {
      const part = yield* findPart(id, place)
      const bytes =
        part?.type === "file" && part.data.type === "base64" ? Base64.decode(part.data.base64) : Result.fail(undefined)
      if (part?.type !== "file" || Result.isFailure(bytes)) return yield* refuse("not-found", "There is no such file.")
      const { "content-type": contentType, ...headers } = frontView.fileHeaders(part)
      return HttpServerResponse.uint8Array(bytes.success, { contentType, headers })
    })
  }
}

export const defaultPath = "/sessions"

const readPlace = Json.decode(frontView.FilePlace, { what: "place of a file" })

export const make = (hosted: service.Service, authorize: Authorize, options: Options): ReadonlyArray<Handled> => {
  const admit = admitting(authorize, options)
  const readBody = readingBody(options)
  const streams = counting("streams", options.maxStreams ?? 32, options.maxAllStreams ?? 10_000)
  const requests = counting("requests", options.maxRequests ?? 32, options.maxAllRequests ?? 1000)
  const time = Duration.fromInputUnsafe(options.readTimeout ?? "1 minute")
  const asking = (isCommand: boolean, run: Parameters<typeof answering>[4]) =>
    answering(admit, requests, time, isCommand, run)
  const views = viewsOf(hosted, options)

  const call = ({ name, operation: { about, argumentsOf } }: routes.Route, id: string, payload: service.Payload) =>
    Object.hasOwn(views, name)
      ? service.callOf<Failure>(views, name)(id, payload)
      : service.callOf<Failure>(hosted, name)(...(about === "session" ? [id] : []), ...argumentsOf(payload))

  const callFor = (caller: Caller, ...asked: Parameters<typeof call>) =>
    Effect.catch(call(...asked), failFor(caller, asked[2]))

  /** The response of a stream, which ends with the token of the caller. */
  const respondStream = (
    caller: Caller,
    events: Stream.Stream<string, Failure>,
    end: (error: Refusal) => Effect.Effect<string>,
    headers: Record<string, string> = {}
  ) =>
    HttpServerResponse.stream(
      eventStream.bytes(
        untilExpired(caller, streams.during(caller, events)),
        (cause) => Effect.flatMap(refusalOf(caller)(cause), end),
        { time, slow: tooSlow }
      ),
      { contentType: "text/event-stream", headers: { ...eventStream.headers, ...headers } }
    )

  /** A message of a chat enters the turn under way, unless it is to wait. */
  const ofChat = (name: string, given: service.Payload): service.Payload =>
    name === "send" ? { whenBusy: options.whenBusy ?? "steer", ...given } : given

  const byName = new Map(routes.all.map((route) => [route.name, route]))

  /** The operation of a caller, and its payload as this caller may have it. */
  const permitted = Effect.fnUntraced(function* (
    caller: Caller,
    name: string,
    id: string,
    given: service.Payload = {}
  ): Effect.fn.Return<readonly [routes.Route, string, service.Payload], Refusal> {
    const route = byName.get(name)
    if (route === undefined) return yield* forbid(`${name} is no operation.`)
    return [route, id, yield* permit(caller, route, id, ofChat(name, given))]
  })

  const door: chatRoutes.Door<Caller> = {
    state: (caller, id) => Effect.andThen(permitted(caller, "chat/state", id), views["chat/state"](id)),
    history: (caller, id) => Effect.andThen(permitted(caller, "chat/history", id), views["chat/history"](id)),
    command: Effect.fnUntraced(function* (caller, name, id, given) {
      const receipt = yield* callFor(caller, ...(yield* permitted(caller, name, id, given)))
      return isReceipt(receipt) ? receipt : yield* Effect.die(new Error(`expected a receipt of ${name}`))
    }),
    events: (id, after) => views["chat/events"](id, defined({ after })),
    stored: (id, after) => hosted.events(id, defined({ after })),
    shown: showing(options),
    check: streams.check,
    respond,
    respondStream: (caller, events, end, headers) =>
      respondStream(caller, events, (error) => Effect.succeed(end(error)), headers),
    readBody,
    limits: options.limits
  }

  /** Fails where a stream cannot begin: where there is a value, the first one is read once more. */
  const opening = Effect.fnUntraced(function* (route: routes.Route, id: string, payload: service.Payload) {
    if (route.operation.next === undefined) return yield* Stream.runHead(call(route, id, payload))
    const { after }: types.EventsOptions = payload
    const place = yield* types.checkAfter(id, after)
    const newest = Option.match(yield* hosted.state(id), { onNone: () => cursors.start, onSome: cursors.placeOf })
    const isRead = cursors.hasPlace(newest, place) && newest.sequence === place.sequence
    return yield* isRead ? Effect.void : Stream.runHead(hosted.events(id, { after }))
  })

  const handle = (route: routes.Route): Handled => {
    const { name, operation, success } = route
    const { about, kind, payload } = operation
    const what = `${name} of a session`
    // A decision is a request of the state with an answer, and the request has more than a decision needs
    const onExcessProperty = name === "decide" ? "ignore" : "error"
    const decode = Json.decode(payload, { what, limits: options.limits, onExcessProperty })
    const encode = Schema.encodeUnknownEffect(success)
    const write = (value: unknown) => Effect.map(Effect.orDie(encode(value)), (json) => JSON.stringify(json))

    const read = Effect.fnUntraced(function* ({ caller, query, request }: Asked) {
      const { id = "" } = query
      if (about === "session" && (!Predicate.isString(id) || id === "")) {
        return yield* refuse("invalid", 'The query needs the "id" of a session.')
      }
      const last = operation.next === undefined ? undefined : request.headers["last-event-id"]
      const asked = last === undefined || last === "" ? query : { ...query, after: last }
      const json = kind === "command" ? yield* readBody(what, request) : yield* routes.readQuery(operation, asked)
      const decoded = yield* decode(json)
      const given = caller.access === "full" ? decoded : ofChat(name, decoded)
      return { id: String(id), payload: yield* permit(caller, route, String(id), given) }
    })

    const answer = Effect.fnUntraced(function* (asked: Asked) {
      const { id, payload } = yield* read(asked)
      if (name === routes.file) {
        const { message, part } = asked.query
        return yield* views[routes.file](id, yield* readPlace({ message, part: Number(part) }))
      }
      const seen = seenBy(asked.caller, yield* callFor(asked.caller, route, id, payload))
      return respond(yield* write(Option.getOrNull(seen)), 200)
    })

    /** The cursor of a value is the place after it, so a reader continues there, whether the value is stored or on its way. */
    const writeEvent = (caller: Caller) => (value: unknown) =>
      Option.match(seenBy(caller, value), {
        onNone: () => Effect.succeed([]),
        onSome: (seen) =>
          Effect.map(write(seen), (data) => {
            const cursor = Predicate.hasProperty(seen, "cursor") ? String(seen.cursor) : undefined
            return [eventStream.write(data, { id: operation.next === undefined ? undefined : cursor })]
          })
      })

    const stream = Effect.fnUntraced(function* (asked: Asked) {
      const { caller } = asked
      yield* streams.check(caller)
      const { id, payload } = yield* read(asked)
      yield* opening(route, id, payload)
      const events = Stream.flattenIterable(Stream.mapEffect(call(route, id, payload), writeEvent(caller)))
      return respondStream(caller, events, (error) =>
        Effect.map(writeRefusal(error), (data) => eventStream.write(data, { isEnd: true }))
      )
    })

    const isCommand = kind === "command"
    return {
      method: isCommand ? "POST" : "GET",
      name,
      handler: asking(isCommand, kind === "stream" ? stream : answer)
    }
  }

  const ofChats = chatRoutes.make(door).map(({ method, name, run }) => ({
    method,
    name,
    handler: asking(method === "POST", run)
  }))
  return [...routes.all.map(handle), ...ofChats]
}

/** The answer to every other request below the path. */
export const unknown = (path: string) =>
  Effect.gen(function* () {
    const { method } = yield* HttpServerRequest.HttpServerRequest
    const message = `There is no such route for ${method}. ${path}/openapi.json has all of them.`
    return respond(yield* writeRefusal(refuse("not-found", message)), 404)
  })
