/** The routes of front ends that speak a protocol of others: their requests become commands of sessions, and events their chunks. */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as HttpRouter from "effect/http/HttpRouter"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as Limits from "../../payload/Limits.ts"
import { defined } from "../../payload/internal/values.ts"
import type * as ChatEvent from "../../session/ChatEvent.ts"
import * as cursors from "../../session/internal/cursors.ts"
import type * as events from "../../session/internal/events.ts"
import type * as service from "../../session/internal/service.ts"
import type * as types from "../../session/internal/types.ts"
import type * as ToolResult from "../../tool/ToolResult.ts"
import * as agUi from "./agUi.ts"
import * as agUiBody from "./agUiBody.ts"
import * as agUiMessages from "./agUiMessages.ts"
import * as eventStream from "./eventStream.ts"
import type * as frontView from "./frontView.ts"
import { type Failure, refuse } from "./refusal.ts"
import * as screen from "./screen.ts"
import * as uiBody from "./uiBody.ts"
import * as uiHistory from "./uiHistory.ts"
import * as uiMessages from "./uiMessages.ts"
import * as uiText from "./uiText.ts"

/** The parts of the server that these routes share: its rules hold for them, too. */
export interface Door<Caller> {
  readonly state: (caller: Caller, id: string) => Effect.Effect<Option.Option<typeof frontView.ChatState.Type>, Failure>
  readonly history: (caller: Caller, id: string) => Effect.Effect<typeof frontView.ChatHistory.Type, Failure>
  /** A command, if the caller may do it. */
  readonly command: (
    caller: Caller,
    name: string,
    id: string,
    payload: service.Payload
  ) => Effect.Effect<types.Receipt, Failure>
  /** The events of a session that the caller may touch. */
  readonly events: (id: string, after: string | undefined) => Stream.Stream<ChatEvent.Entry, Failure>
  readonly stored: (id: string, after: string | undefined) => Stream.Stream<events.Entry, Failure>
  /** The stored event as a front end sees it, or nothing. */
  readonly shown: (id: string, entry: events.Entry) => Option.Option<ChatEvent.ChatEvent>
  readonly check: (caller: Caller) => Effect.Effect<void, Failure>
  readonly respond: (text: string, status: number) => HttpServerResponse.HttpServerResponse
  readonly respondStream: (
    caller: Caller,
    events: Stream.Stream<string, Failure>,
    end: (error: { readonly message: string }) => string,
    headers?: Record<string, string>
  ) => HttpServerResponse.HttpServerResponse
  readonly readBody: (
    what: string,
    request: HttpServerRequest.HttpServerRequest
  ) => Effect.Effect<Schema.Json, Failure, HttpServerRequest.HttpServerRequest>
  readonly limits: Partial<Limits.Limits> | undefined
}

interface Asked<Caller> {
  readonly caller: Caller
  readonly request: HttpServerRequest.HttpServerRequest
  readonly query: { readonly [name: string]: string | ReadonlyArray<string> | undefined }
}

/** The messages of one user that have the same place in a conversation: an edit has the same id with a number. */
const baseOf = (messageId: string): string => messageId.replace(/~\d{1,9}$/, "")

const isSame = (messageId: string) => (found: string) => baseOf(found) === baseOf(messageId)

/** The id of the message that takes the place of a message. */
const nextOf = (messageId: string): string =>
  `${baseOf(messageId)}~${Number(/~(\d{1,9})$/.exec(messageId)?.[1] ?? 1) + 1}`

const usersOf = ({ messages }: typeof frontView.ChatHistory.Type): ReadonlyArray<string> =>
  messages.flatMap(({ id, role }) => (role === "user" ? [id] : []))

const noSession = refuse("not-found", "There is no such conversation.")

const changed = refuse("conflict", "The conversation has changed. Load it again.")

const taken = ({ event }: events.Entry, messageId: string): boolean =>
  event._tag === "RunEvent" && event.event._tag === "InputAdded" && event.messageId === messageId

/** The end of a turn, which a decision may continue. */
const endsTurn = ({ event }: events.Entry): boolean =>
  event._tag === "TurnFailed" || (event._tag === "RunEvent" && event.event._tag === "RunFinished")

/** The place and the message that a reader begins with, and the end that it passes: turns that have ended before do not end it. */
interface Place {
  readonly id: string
  readonly of: string
  readonly after: string | undefined
  readonly passed: number
  /** The event that the chunks begin with; the events before it are in the message that the page has. */
  readonly from?: (event: ChatEvent.ChatEvent) => boolean
  /** The message, where the page has sent it. */
  readonly input?: ToolResult.NonEmptyContent
}

const writeJson = (event: object): string => eventStream.write(JSON.stringify(event))

const isDecided =
  (places: ReadonlySet<string>) =>
  (event: ChatEvent.ChatEvent): boolean =>
    (event._tag === "Decided" && places.has(screen.placeOf(event.path, event.callId))) ||
    event._tag === "DecisionsDropped"

const isEnd = ({ _tag }: ChatEvent.ChatEvent): boolean => _tag === "TurnFinished" || _tag === "TurnFailed"

/** Finds places and messages in the stored events of sessions. */
const findingIn = <Caller>(door: Door<Caller>) => {
  /** Finds something in the stored events up to a state: reads the last ones, and more of them until it is found. */
  const lookBack = Effect.fnUntraced(function* <A>(
    id: string,
    state: typeof frontView.ChatState.Type,
    find: (entries: ReadonlyArray<events.Entry>, areAll: boolean) => A | undefined
  ): Effect.fn.Return<A | undefined, Failure> {
    const { life = "", sequence } = cursors.placeOf(state)
    for (let back = 64; ; back *= 8) {
      const after = sequence > back ? cursors.cursorOf(life, sequence - back) : undefined
      const entries = yield* door.stored(id, after).pipe(
        Stream.takeUntil((entry) => entry.sequence >= sequence),
        Stream.runCollect
      )
      const found = find(entries, after === undefined)
      if (found !== undefined || after === undefined) return found
    }
  })

  /** The place of the newest message that a turn took. */
  const newestPlace = Effect.fnUntraced(function* (
    caller: Caller,
    id: string,
    state: typeof frontView.ChatState.Type
  ): Effect.fn.Return<Place | undefined, Failure> {
    const of = usersOf(yield* door.history(caller, id)).at(-1)
    if (of === undefined) return undefined
    const found = yield* lookBack(id, state, (entries) => entries.findLast((entry) => taken(entry, of)))
    if (found === undefined) return undefined
    const before = found.sequence - 1
    const after = before === 0 ? undefined : cursors.cursorOf(cursors.placeOf(state).life ?? "", before)
    return { id, of, passed: state.status === "running" ? state.sequence : 0, after }
  })

  /**
   * The messages that are not in the history yet: that no stored turn has taken, and that wait behind requests. A turn that has begun
   * may not have stored its message, which is not in the queue then.
   */
  const waitingOf = Effect.fnUntraced(function* (id: string, state: typeof frontView.ChatState.Type) {
    const { behindRequests = [], queue, status } = state
    if (queue.length + behindRequests.length === 0 && status !== "running") return []
    const received = yield* lookBack(id, state, (entries, areAll) => {
      const waiting = new Map<string, events.Entry>()
      let isBetween = areAll
      for (const entry of entries) {
        const { event } = entry
        if (event._tag === "MessageReceived") waiting.set(event.messageId, entry)
        if (event._tag === "MessageDropped") waiting.delete(event.messageId)
        if (endsTurn(entry)) isBetween = true
        if (event._tag !== "RunEvent" || event.event._tag !== "InputAdded") continue
        if (!behindRequests.includes(event.messageId ?? "")) waiting.delete(event.messageId ?? "")
        isBetween = false
      }
      const least = queue.length + behindRequests.length + (status === "running" && isBetween ? 1 : 0)
      return areAll || waiting.size >= least ? Array.from(waiting.values()) : undefined
    })
    return (received ?? []).flatMap((entry): ReadonlyArray<typeof frontView.ChatMessage.Type> => {
      const event = Option.getOrUndefined(door.shown(id, entry))
      if (event?._tag !== "MessageReceived") return []
      const { at, content, messageId } = event
      return [{ role: "user", id: messageId, at, content }]
    })
  })

  /** The reader of a message passes the ends up to this event: the turn continued after them, or will. */
  const passedOf = Effect.fnUntraced(function* (
    id: string,
    { cursor, sequence }: types.Receipt,
    state: typeof frontView.ChatState.Type | undefined
  ): Effect.fn.Return<number, Failure> {
    if (state === undefined || state.status === "running") return state?.sequence ?? 0
    if (sequence >= state.sequence) return 0
    const last = yield* door.stored(id, cursor).pipe(
      Stream.takeUntil((entry) => entry.sequence >= state.sequence),
      Stream.filter(endsTurn),
      Stream.runLast
    )
    return Option.match(last, { onNone: () => 0, onSome: ({ sequence }) => sequence - 1 })
  })

  /** The model may write before it is stored that its turn has taken the first message: neither the history nor the queue has the message then. */
  const firstPlace = (id: string, { sequence }: typeof frontView.ChatState.Type) =>
    door.stored(id, undefined).pipe(
      Stream.takeUntil((entry) => entry.sequence >= sequence),
      Stream.runFold(
        (): ReadonlyArray<string> => [],
        (found, { event }) => {
          if (event._tag === "MessageReceived") return [...found, event.messageId]
          return event._tag === "MessageDropped" ? found.filter((messageId) => messageId !== event.messageId) : found
        }
      ),
      Effect.map(([of]): Place | undefined => (of === undefined ? undefined : { id, of, after: undefined, passed: 0 }))
    )

  return { newestPlace, waitingOf, passedOf, firstPlace }
}

export const make = <Caller>(door: Door<Caller>) => {
  const readUi = uiBody.reading(door.limits)
  const readAgUi = agUiBody.reading(door.limits)
  const { firstPlace, newestPlace, passedOf, waitingOf } = findingIn(door)

  /** The stream of a protocol for the message of a place. */
  const reading = <Own, Sent>(
    { after, from, id, passed }: Place,
    protocol: screen.Protocol<Own, Sent>,
    page: screen.Page<Own>,
    following?: (of: string) => screen.Page<Own>
  ): Stream.Stream<Sent, Failure> =>
    door.events(id, after).pipe(
      Stream.filter(({ event, sequence }) => sequence > passed || !isEnd(event)),
      Stream.map(({ event }) => event),
      screen.stream(protocol, page, { from, following })
    )

  /** The end of a page has what is left of the budgets of its session. */
  const withBudget = <Sent>(
    caller: Caller,
    id: string,
    sent: Stream.Stream<Sent, Failure>,
    ending: (sent: Sent) => screen.Ending<Sent> | undefined
  ): Stream.Stream<Sent, Failure> =>
    Stream.flatMap(sent, (one) => {
      const end = ending(one)
      if (end === undefined) return Stream.succeed(one)
      const ended = Effect.map(door.state(caller, id), (state) => {
        const budget = Option.getOrUndefined(state)?.budget
        return budget === undefined ? [one] : end(budget)
      })
      return Stream.fromIterableEffect(ended)
    })

  const respondUi = (caller: Caller, place: Place, following?: typeof uiMessages.begin) =>
    door.respondStream(
      caller,
      uiText.encode(
        withBudget(
          caller,
          place.id,
          reading(place, uiMessages.protocol, uiMessages.begin(place.of), following),
          uiMessages.ending
        )
      ),
      uiText.fail,
      uiText.headers
    )

  /** Stores what a page asks for, and returns the place of the chunks that follow. */
  const ask = Effect.fnUntraced(function* (caller: Caller, asked: uiBody.Asked): Effect.fn.Return<Place, Failure> {
    const { id } = asked
    if (asked._tag === "Decisions") {
      const state = Option.getOrUndefined(yield* door.state(caller, id))
      const place = state && (yield* newestPlace(caller, id, state))
      if (state === undefined || place === undefined) return yield* noSession
      const open = new Map(state.requests.map((request) => [screen.placeOf(request.path, request.callId), request]))
      const fresh = asked.answers.flatMap(({ decide, place }) => {
        const request = open.get(place)
        return request === undefined ? [] : (decide(request) ?? [])
      })
      if (fresh.length > 0) yield* door.command(caller, "decide", id, { decisions: fresh })
      else if (state.status !== "running" || !asked.answers.some(({ isNamed }) => isNamed))
        return yield* asked.otherwise === undefined ? changed : ask(caller, asked.otherwise)
      const places = asked.answers.map(({ place }) => place).filter((at) => fresh.length === 0 || open.has(at))
      return { ...place, passed: state.sequence, from: isDecided(new Set(places)) }
    }
    const known =
      asked._tag === "Again" || asked.isEdit
        ? usersOf(yield* door.history(caller, id)).findLast(isSame(asked.messageId))
        : undefined
    const isNew = asked._tag === "Message" && known === undefined
    const of = isNew ? asked.messageId : nextOf(known ?? asked.messageId)
    const { input } = asked._tag === "Message" ? asked : {}
    const edit = { messageId: known ?? asked.messageId, newMessageId: of, ...(input && { input }) }
    const receipt = isNew
      ? yield* door.command(caller, "send", id, { input, messageId: of })
      : yield* door.command(caller, "edit", id, edit)
    const state = Option.getOrUndefined(yield* door.state(caller, id))
    return { id, of, after: receipt.cursor, passed: yield* passedOf(id, receipt, state), ...defined({ input }) }
  })

  const postUi = Effect.fnUntraced(function* ({ caller, request }: Asked<Caller>) {
    yield* door.check(caller)
    const asked = yield* readUi(yield* door.readBody("request of a chat", request))
    return respondUi(caller, yield* ask(caller, asked))
  })

  const getUi = Effect.fnUntraced(function* ({ caller }: Asked<Caller>) {
    yield* door.check(caller)
    const { id = "" } = yield* HttpRouter.params
    const state = Option.getOrUndefined(yield* door.state(caller, id))
    if (state?.status !== "running") return HttpServerResponse.empty({ status: 204 })
    const place = (yield* newestPlace(caller, id, state)) ?? (yield* firstPlace(id, state))
    return place === undefined ? HttpServerResponse.empty({ status: 204 }) : respondUi(caller, place, uiMessages.begin)
  })

  const postAgUi = Effect.fnUntraced(function* ({ caller, request }: Asked<Caller>) {
    yield* door.check(caller)
    const { asked, ...run } = yield* readAgUi(yield* door.readBody("input of a run", request))
    const place = yield* ask(caller, asked)
    const { id, input, of } = place
    const messages = agUiMessages.make(yield* door.history(caller, id), of, input)
    const page = agUi.begin(of, { threadId: id, ...run, messages })
    const sent = withBudget(caller, id, reading(place, agUi.protocol, page), agUi.ending)
    return door.respondStream(caller, Stream.map(sent, writeJson), ({ message }) =>
      writeJson({ type: "RUN_ERROR", message })
    )
  })

  const uiMessagesOf = Effect.fnUntraced(function* ({ caller, query }: Asked<Caller>) {
    const id = String(query["id"] ?? "")
    const state = Option.getOrUndefined(yield* door.state(caller, id))
    if (state === undefined) return door.respond("[]", 200)
    const { messages } = yield* door.history(caller, id)
    const isStored = ({ id }: (typeof messages)[number]) => messages.some((message) => message.id === id)
    const waiting = (yield* waitingOf(id, state)).filter((message) => !isStored(message))
    const all = [...uiHistory.make(messages, state.requests, state.budget), ...uiHistory.make(waiting, [])]
    return door.respond(JSON.stringify(all), 200)
  })

  return [
    { method: "GET", name: "chat/ui", run: uiMessagesOf },
    { method: "POST", name: "chat/ui", run: postUi },
    { method: "GET", name: "chat/ui/:id/stream", run: getUi },
    { method: "POST", name: "chat/agui", run: postAgUi }
  ] as const
}
