/**
 * The changes of a page that shows one turn of a session: a fold of its events. What a model is writing is joined with the answer that is
 * stored, and the fold knows what is open: parts, calls, requests, and the work of agents inside. A protocol of front ends is a table from
 * these changes to the messages of the protocol.
 */

import * as Stream from "effect/Stream"
import type * as Schema from "effect/Schema"
import * as Message from "../../conversation/Message.ts"
import { defined } from "../../payload/internal/values.ts"
import type * as ledger from "../../run/internal/ledger.ts"
import * as ChatEvent from "../../session/ChatEvent.ts"
import type * as events from "../../session/internal/events.ts"

type Of<Tag extends ChatEvent.ChatEvent["_tag"]> = Extract<ChatEvent.ChatEvent, { readonly _tag: Tag }>

/** A part of an answer that was shown while the model writes. `part` is its number in the answer, and `id` the id of a call. */
interface Part extends Pick<Of<"AnswerDelta">, "type" | "part"> {
  readonly id: string
  readonly name: string
  readonly text: string
  readonly isOpen: boolean
}

/** A request that was shown. `isOwn`: it is about a call of an answer of the turn. `isApproved`: it was decided. `id` has its place and its digest. */
export interface Asked {
  readonly id: string
  readonly place: string
  readonly isOwn: boolean
  readonly isApproved?: boolean
  readonly request: events.Request
}

/**
 * The changes by their names.
 *
 * - `TurnBegun`: the turn has the message.
 * - `AnswerBegun`: the model writes. `isFirst`: it has not written before in this turn.
 * - `PartChanged`: a part begins (`isNew`), grows by `delta`, ends (`isOver`), or all of it. The `delta` of a call are its arguments. `stored` is
 *   the part of the stored answer, which ends it.
 * - `OutputChanged`: the structured output has more parts. It is not shown any more without a `value`.
 * - `AnswerWithdrawn`: the parts that were shown of the answer do not count. They have ended.
 * - `AnswerStored`: the parts were the answer. `isExact`: the arguments of its calls are stored as they were shown.
 * - `Requested`, `Decided`: a request is open, and has a decision.
 * - `CallEnded`: a call has its result. `isShown`: the page has the call, as one of an answer or of a request.
 * - `CallClosed`: a call of a hidden agent, which the page has from a request, is over.
 * - `HandedOff`: another agent answers from here on.
 * - `WorkBegun`, `WorkEnded`: an agent or a step inside is at work.
 * - `StepChanged`: a step of a plan. `Inside`: what an agent inside writes.
 * - `TurnEnded`: the end. `asked` are the requests that wait. `Edited`: the message is no part of the conversation any more.
 */
interface Changes {
  TurnBegun: { readonly turn: State }
  AnswerBegun: { readonly isFirst: boolean }
  PartChanged: Pick<Part, "id" | "name"> & {
    readonly type: Message.AssistantPart["type"]
    readonly answer: string
    readonly delta: string
    readonly isNew: boolean
    readonly isOver: boolean
    readonly stored?: Message.AssistantPart
  }
  OutputChanged: { readonly value: Schema.Json | undefined }
  AnswerWithdrawn: { readonly answer: string; readonly parts: ReadonlyArray<Part> }
  AnswerStored: Pick<Of<"Answered">, "content" | "messageId"> & { readonly isExact: boolean }
  Requested: Asked
  Decided: Asked & Pick<Of<"Decided">, "answer" | "approved" | "reason">
  CallEnded: { place: string; event: Of<"ToolFinished">; isShown: boolean; turn: State }
  CallClosed: { readonly place: string }
  HandedOff: { readonly event: Of<"HandedOff"> }
  WorkBegun: { readonly place: string }
  WorkEnded: { readonly place: string }
  StepChanged: { readonly place: string; readonly event: Of<"PlanStep"> }
  Inside: { readonly event: Of<"Answered" | "AnswerDelta" | "AnswerWithdrawn"> }
  TurnEnded: End & { readonly asked: ReadonlyArray<Asked>; readonly turn: State }
}

export type ChangeOf<Tag extends keyof Changes> = { [K in Tag]: { readonly _tag: K } & Changes[K] }[Tag]

export type Change = ChangeOf<keyof Changes>

/** The end of a turn with an outcome, or with a failure. */
interface End extends Pick<Of<"TurnFinished">, "output" | "refusal"> {
  readonly outcome: Of<"TurnFinished">["outcome"] | "Failed" | "Edited"
  readonly failure?: Pick<Of<"TurnFailed">, "category" | "message">
}

/** The end of a page, with what is left of the budgets. */
export type Ending<Sent> = (budget: ReadonlyArray<ledger.Line>) => ReadonlyArray<Sent>

export interface State {
  /** The id of the message of the user; none for a run without a session. */
  readonly of: string | undefined
  /** `before` and `after` the events of the turn. */
  readonly phase: "before" | "within" | "after"
  /** `open`: an answer has begun, and is not stored. */
  readonly answer: "none" | "open" | "stored"
  /** The id of the answer that the model is writing, and what was shown of it. */
  readonly draft: string | undefined
  readonly parts: ReadonlyArray<Part>
  /** The structured output, and its length when it was shown. */
  readonly output: ChatEvent.PartialOutput | undefined
  readonly shown: number
  /** The calls of the stored answers in their order. */
  readonly calls: ReadonlyArray<string>
  readonly asked: ReadonlyMap<string, Asked>
  /** The agents and the steps of plans that are at work. */
  readonly inside: ReadonlyArray<string>
  readonly usage: Message.TokenUsage | undefined
  /** The model of the newest answer. */
  readonly model: string | undefined
  readonly finishReason: string
}

export const make = (of?: string): State => ({
  of,
  phase: of === undefined ? "within" : "before",
  answer: "none",
  draft: undefined,
  parts: [],
  output: undefined,
  shown: 0,
  calls: [],
  asked: new Map(),
  inside: [],
  usage: undefined,
  model: undefined,
  finishReason: "stop"
})

/** The place of a call, of an agent, or of a step. */
export const placeOf = (path: ReadonlyArray<string> = [], ...more: ReadonlyArray<string>) =>
  [...path, ...more].join("/")

/** The place and the digest of a request, which a decision about it needs. */
export const requestId = ({ callId, digest, path = [] }: Pick<events.Request, "callId" | "digest" | "path">): string =>
  JSON.stringify([digest, ...path, callId])

/** The arguments of a call as the model wrote them. */
export const argumentsOf = ({ arguments: args, text }: Message.ToolCallPart): string => text ?? JSON.stringify(args)

/** The changes after an event, and then the state. */
type Folding = Generator<Change, State>

function* beginTurn(state: State): Folding {
  yield { _tag: "TurnBegun", turn: state }
  return { ...state, phase: "within" }
}

/** An answer begins, and what was shown of another one does not count. */
function* beginAnswer(before: State, id = before.draft): Folding {
  const state = before.draft === undefined || before.draft === id ? before : yield* withdraw(before)
  if (state.answer !== "open") yield { _tag: "AnswerBegun", isFirst: state.answer === "none" }
  return { ...state, answer: "open", draft: id }
}

function* endParts({ draft = "", parts }: State): Generator<Change, ReadonlyArray<Part>> {
  for (const { id, isOpen, name, type } of parts)
    if (isOpen) yield { _tag: "PartChanged", answer: draft, type, id, name, delta: "", isNew: false, isOver: true }
  return parts.map((part) => ({ ...part, isOpen: false }))
}

/** Removes what was shown of an answer that does not count. */
function* withdraw(state: State): Folding {
  const parts = yield* endParts(state)
  if (state.shown > 0) yield { _tag: "OutputChanged", value: undefined }
  if (parts.length > 0) yield { _tag: "AnswerWithdrawn", answer: state.draft ?? "", parts }
  return { ...state, draft: undefined, parts: [], output: undefined, shown: 0 }
}

/** Shows the output. Where it is long, it is sent with a sixteenth more, so that all that is sent has a length in proportion. */
function* showOutput(state: State, isDue = true): Folding {
  const { output, shown } = state
  if (output === undefined || output.length === shown || !isDue) return state
  yield { _tag: "OutputChanged", value: output.value }
  return { ...state, shown: output.length }
}

function* writeOutput(before: State, piece: Of<"OutputDelta">): Folding {
  const state = yield* beginAnswer(before, piece.messageId)
  const output = ChatEvent.partialOutput(state.output, piece)
  const shown = output?.messageId === state.output?.messageId ? state.shown : 0
  return yield* showOutput({ ...state, output, shown }, 16 * (output?.length ?? 0) >= 17 * shown)
}

function* write(before: State, piece: Of<"AnswerDelta">): Folding {
  const { call, delta, messageId: answer, offset, part, type } = piece
  const state = yield* beginAnswer(before, answer)
  const { parts } = state
  const known = parts.find((shown) => shown.part === part)
  const {
    id = call?.id ?? `${answer}/${parts.length}`,
    isOpen = true,
    name = call?.name ?? "",
    text = ""
  } = known ?? {}
  // A piece that cannot follow waits for the stored answer
  if (offset > text.length || !isOpen) return state
  const others = known === undefined ? yield* endParts(state) : parts.filter((shown) => shown !== known)
  const fresh = delta.slice(text.length - offset)
  yield { _tag: "PartChanged", answer, type, id, name, delta: fresh, isNew: known === undefined, isOver: false }
  const grown: Part = { type, part, id, name, text: text + fresh, isOpen }
  return { ...state, parts: known === undefined ? [...others, grown] : parts.with(parts.indexOf(known), grown) }
}

const textOf = (part: Message.AssistantPart): string => {
  if (part.type === "tool-call") return argumentsOf(part)
  return part.type === "text" || part.type === "reasoning" ? part.text : ""
}

const isBeginning = ({ isOpen, text }: Part, part: Message.AssistantPart): boolean =>
  isOpen ? textOf(part).startsWith(text) : textOf(part) === text

/** True for a part that may stay on the page. The arguments of a call are set with its end. */
const isKept = (shown: Part, part: Message.AssistantPart | undefined): boolean =>
  part?.type === shown.type && (part.type === "tool-call" ? part.id === shown.id : isBeginning(shown, part))

/** An answer is stored: the rest of it follows what was shown, or takes its place. */
function* store(before: State, event: Of<"Answered">): Folding {
  const { content, finishReason = "other", messageId, model = before.model, usage } = event
  const begun = yield* showOutput(yield* beginAnswer(before, messageId))
  const state = begun.parts.every((shown, k) => isKept(shown, content[k])) ? begun : yield* withdraw(begun)
  let isExact = true
  for (const [k, stored] of content.entries()) {
    const { [k]: shown } = state.parts
    const { id, name } = stored.type === "tool-call" ? stored : { id: `${messageId}/${k}`, name: "" }
    const follows = shown === undefined || isBeginning(shown, stored)
    const delta = follows ? textOf(stored).slice(shown?.text.length) : ""
    const change = { type: stored.type, answer: messageId, id, name, delta, stored }
    yield { _tag: "PartChanged", ...change, isNew: shown === undefined, isOver: shown?.isOpen !== false }
    isExact &&= follows
  }
  yield { _tag: "AnswerStored", messageId, content, isExact }
  return {
    ...state,
    answer: "stored",
    draft: undefined,
    parts: [],
    calls: [...state.calls, ...content.flatMap((part) => (part.type === "tool-call" ? [part.id] : []))],
    usage: usage === undefined ? state.usage : Message.sumUsage([state.usage ?? {}, usage]),
    model,
    finishReason
  }
}

const askedOf = ({ calls }: State, request: events.Request): Asked => {
  const { callId, path = [] } = request
  const isOwn = path.length === 0 && calls.includes(callId)
  return { id: requestId(request), place: placeOf(path, callId), isOwn, request }
}

function* ask(state: State, request: events.Request): Folding {
  const asked = askedOf(state, request)
  if (state.asked.get(asked.place)?.id === asked.id) return state
  yield { _tag: "Requested", ...asked }
  return { ...state, asked: new Map(state.asked).set(asked.place, asked) }
}

function* decide(state: State, { answer, approved, callId, path, reason }: Of<"Decided">): Folding {
  const asked = state.asked.get(placeOf(path, callId))
  if (asked === undefined) return state
  yield { _tag: "Decided", ...asked, approved, ...defined({ answer, reason }) }
  // An answer ends what asked for it
  if ("schema" in asked.request) return state
  return { ...state, asked: new Map(state.asked).set(asked.place, { ...asked, isApproved: approved }) }
}

/** True for a place and the places inside it; the place of the agent of the session is empty. */
const isWithin = (at: string, place: string): boolean => place === "" || `${at}/`.startsWith(`${place}/`)

function* enter(state: State, place: string): Folding {
  if (state.inside.includes(place)) return state
  yield { _tag: "WorkBegun", place }
  return { ...state, inside: [...state.inside, place] }
}

/** The work at a place is over, and all inside it, from the inside out. */
function* leave(state: State, place: string): Folding {
  const left = state.inside.filter((at) => isWithin(at, place))
  for (const at of left.toReversed()) yield { _tag: "WorkEnded", place: at }
  return { ...state, inside: state.inside.filter((at) => !left.includes(at)) }
}

/** Ends the calls of agents inside that were approved, and whose results are not shown. */
function* close(state: State, place: string): Folding {
  const asked = new Map(state.asked)
  for (const [at, { isApproved, isOwn }] of state.asked) {
    if (isApproved !== true || isOwn || !isWithin(at, place)) continue
    asked.delete(at)
    yield { _tag: "CallClosed", place: at }
  }
  return { ...state, asked }
}

function* finishCall(before: State, event: Of<"ToolFinished">): Folding {
  const { callId, path = [] } = event
  const place = placeOf(path, callId)
  const asked = new Map(before.asked)
  const isShown = asked.delete(place) || path.length === 0
  // The call of a structured output is hidden, and its result
  if (path.length === 0 && !before.calls.includes(callId)) return before
  const state = yield* leave(yield* close({ ...before, asked }, place), place)
  yield { _tag: "CallEnded", place, event, isShown, turn: state }
  return state
}

function* finish(before: State, end: End, asked: ReadonlyArray<Asked> = []): Folding {
  // The output of the end takes the place of its parts
  const withdrawn = yield* withdraw(end.output === undefined ? before : { ...before, shown: 0 })
  const isOver = end.failure === undefined && end.outcome !== "AwaitingApproval"
  const state = yield* leave(isOver ? yield* close(withdrawn, "") : withdrawn, "")
  yield { _tag: "TurnEnded", ...end, asked, turn: state }
  return { ...state, phase: "after" }
}

/** The events before a message is taken. */
function* wait(state: State, event: ChatEvent.ChatEvent): Folding {
  const { of } = state
  if (event._tag === "MessageTaken" && event.messageId === of) return yield* beginTurn(state)
  // The model writes before it is stored that the turn has the message
  if ("turn" in event && event.turn === of) return yield* next(yield* beginTurn(state), event)
  const isDropped = event._tag === "MessageDropped" && event.messageId === of
  const isHeld = event._tag === "TurnFailed" && [event.messageId, ...(event.held ?? [])].includes(of)
  return isDropped || isHeld ? yield* finish(yield* beginTurn(state), { outcome: "Failed", failure: event }) : state
}

const edited = { category: "conflict", message: "The conversation was edited." } as const

/** The changes after an event, and then the state. */
export function* next(state: State, event: ChatEvent.ChatEvent): Folding {
  if (state.phase !== "within") return state.phase === "before" ? yield* wait(state, event) : state
  const path = "path" in event ? (event.path ?? []) : []
  const place = placeOf(path)
  const isOwn = path.length === 0
  switch (event._tag) {
    case "MessageTaken":
      return event.messageId === state.of ? state : yield* finish(state, { outcome: "Completed" })
    case "AnswerStarted":
      return yield* isOwn ? beginAnswer(state) : enter(state, place)
    case "AnswerDelta":
    case "Answered": {
      // A piece of the answer to the next message of the turn
      if (event._tag === "AnswerDelta" && state.of !== undefined && event.turn !== state.of) return state
      if (isOwn) return yield* event._tag === "Answered" ? store(state, event) : write(state, event)
      const within = yield* enter(state, place)
      yield { _tag: "Inside", event }
      return within
    }
    case "OutputDelta":
      return isOwn && (state.of === undefined || event.turn === state.of) ? yield* writeOutput(state, event) : state
    case "AnswerWithdrawn":
      if (state.draft === event.messageId) return yield* withdraw(state)
      yield { _tag: "Inside", event }
      return state
    case "AnswerDiscarded":
      return yield* leave(isOwn ? yield* withdraw(state) : state, place)
    case "Requested":
      return yield* ask(state, event.request)
    case "Decided":
      return yield* decide(state, event)
    case "DecisionsDropped": {
      const asked = event.calls.flatMap(({ callId, path }) => state.asked.get(placeOf(path, callId)) ?? [])
      return yield* finish(state, { outcome: "Failed", failure: event }, asked)
    }
    case "ToolFinished":
      return yield* finishCall(state, event)
    case "HandedOff":
      yield { _tag: "HandedOff", event }
      return state
    case "PlanStep": {
      const closed = event.status === "finished" ? yield* close(state, place) : state
      const after = yield* event.status === "running" ? enter(closed, place) : leave(closed, place)
      yield { _tag: "StepChanged", place, event }
      return after
    }
    case "TurnFinished": {
      const { outcome, output, refusal, requests = [] } = event
      const asked = requests.map((request) => askedOf(state, request))
      return yield* finish(state, { outcome, ...defined({ output, refusal }) }, asked)
    }
    case "TurnFailed":
      return yield* finish(state, { outcome: "Failed", failure: event })
    case "ConversationRewound":
      return yield* finish(state, { outcome: "Edited", failure: edited })
    default:
      return state
  }
}

/** The values of a generator, after its result. */
const gather = <A, B>(values: Generator<A, B>): readonly [B, ReadonlyArray<A>] => {
  const found: Array<A> = []
  for (;;) {
    const { done, value } = values.next()
    if (done === true) return [value, found]
    found.push(value)
  }
}

/** A protocol of front ends: the things that it sends for a change, and then the things that it remembers. */
export type Protocol<Own, Sent> = (own: Own, change: Change) => Generator<Sent, Own>

/** A protocol from its table of changes. An entry that returns nothing remembers nothing new. */
export const protocol = <Own, Sent>(table: {
  readonly [Tag in keyof Changes]?: (change: ChangeOf<Tag>, own: Own) => Generator<Sent, Own | void>
}): Protocol<Own, Sent> =>
  function* (own, change) {
    // Sound: the entry with the name of the change
    const entry = table[change._tag] as ((change: Change, own: Own) => Generator<Sent, Own | void>) | undefined
    return (entry && (yield* entry(change, own))) ?? own
  }

/** A page of a protocol: the turn that it shows, and the things that the protocol remembers. */
export interface Page<Own> {
  readonly turn: State
  readonly own: Own
}

/** The page after an event, and the things that the protocol sends for it. `isFirst`: the page has nothing of the turn before. */
export const show = <Own, Sent>(
  protocol: Protocol<Own, Sent>,
  { own: before, turn }: Page<Own>,
  event: ChatEvent.ChatEvent,
  isFirst = false
): readonly [Page<Own>, ReadonlyArray<Sent>] => {
  const [after, changes] = gather(next(turn, event))
  const sent: Array<Sent> = []
  let own = before
  for (const change of isFirst ? [{ _tag: "TurnBegun", turn } as const, ...changes] : changes) {
    const [remembered, more] = gather(protocol(own, change))
    own = remembered
    sent.push(...more)
  }
  return [{ turn: after, own }, sent]
}

/** Options of {@link stream}. */
interface StreamOptions<Own> {
  /** The event that the stream begins with, because the page has everything before it. */
  readonly from?: ((event: ChatEvent.ChatEvent) => boolean) | undefined
  /** The page of the next message of the turn, with which the stream continues. */
  readonly following?: ((of: string) => Page<Own>) | undefined
}

/** The stream of a protocol for the events of a turn, up to its end. */
export const stream =
  <Own, Sent>(protocol: Protocol<Own, Sent>, begin: Page<Own>, { following, from }: StreamOptions<Own> = {}) =>
  <E, R>(events: Stream.Stream<ChatEvent.ChatEvent, E, R>): Stream.Stream<Sent, E, R> =>
    events.pipe(
      Stream.mapAccum(
        () => ({ before: begin, isMuted: from !== undefined }),
        ({ before, isMuted }, event) => {
          const isFirst = isMuted && from?.(event) === true
          const [page, sent] = show(protocol, before, event, isFirst)
          const isOver = page.turn.phase === "after"
          const other = isOver && event._tag === "MessageTaken" ? following?.(event.messageId) : undefined
          const [after, more] = other === undefined ? [page, []] : show(protocol, other, event)
          const isLeftOut = isMuted && !isFirst
          const shown = { sent: isLeftOut ? [] : [...sent, ...more], isOver: isOver && other === undefined }
          return [{ before: after, isMuted: isLeftOut }, [shown]]
        }
      ),
      Stream.takeUntil(({ isOver }) => isOver),
      Stream.flatMap(({ sent }) => Stream.fromIterable(sent))
    )
