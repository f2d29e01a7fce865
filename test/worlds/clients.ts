/**
 * The script of the worlds: users of sessions who send, send again, edit, withdraw, interrupt, resume, fork and remove, a person who decides about
 * calls, and readers. All that they did and saw is in a `Diary`.
 */
import { Effect, Equal, Option, Random, Result, type Schema, Stream } from "effect"
import { Conversation, type Message, Run } from "effect-emissary"
import type { PlanRun } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import type { Simulation } from "effect-emissary/testing"
import { Ledger, moreTools, poet, tools } from "./agents.ts"

export type World = Simulation.World<Session.Session>

type Sessions = Session.Session["Service"]

/** A call of a client. It may have taken effect from its beginning on, and has when it was answered. */
export interface Operation {
  readonly kind: "send" | "edit" | "withdraw" | "interrupt" | "resume" | "fork" | "remove" | "decide"
  readonly session: string
  readonly message?: string
  readonly text?: string
  readonly decisions?: ReadonlyArray<Run.Decision>
  readonly began: number
  answer?: {
    readonly at: number
    readonly life?: string
    readonly sequence?: number
    readonly isInterrupted?: boolean
    readonly error?: string
  }
}

/** A client that waits for the turn of its message. */
export interface Wait {
  readonly session: string
  readonly message: string
  end?: Session.Answer | Session.SessionError
}

/**
 * A look at a session. A history was read between two looks at its number. Without a number `from`, each of the three calls reached a process of
 * its own, and a process that was paused may have answered from its memory.
 */
export type Look =
  | { readonly _tag: "State"; readonly session: string; readonly state: Session.State }
  | {
      readonly _tag: "History"
      readonly life: string
      readonly from: number | undefined
      readonly to: number
      readonly said: ReadonlyArray<string>
    }
  | { readonly _tag: "List"; readonly listed: Session.Listed }

/** The drafts by the id of the message: what they answer, and the texts of their parts by the index. */
export type Screen = Map<string, { readonly turn: string; readonly parts: Map<number, string> }>

export interface Diary {
  readonly lives: Map<string, { readonly session: string; readonly entries: Array<Session.Entry> }>
  readonly operations: Array<Operation>
  readonly looks: Array<Look>
  readonly waits: Array<Wait>
  readonly problems: Array<string>
  /** The drafts on the screens of live readers, by session. */
  readonly screens: Map<string, Screen>
  /** The pieces and withdrawals that live readers saw. */
  drafts: number
  ticks: number
  /** The number of the first tick after the sessions came to rest. */
  rested: number
  /** No user stops anything, and one person decides. `isHealthy`: nor does a process die, wait, or leave. */
  isCalm: boolean
  isHealthy: boolean
  /** Each call of a client reaches a process of its own. */
  isSpread: boolean
  /** The agents have everything, and there is a job. */
  hasMore: boolean
  releases: ReadonlyArray<string>
}

export const emptyDiary = (): Diary => ({
  lives: new Map(),
  operations: [],
  looks: [],
  waits: [],
  problems: [],
  screens: new Map(),
  drafts: 0,
  ticks: 0,
  rested: Infinity,
  isCalm: false,
  isHealthy: false,
  isSpread: false,
  hasMore: false,
  releases: []
})

export const lifeOf = (cursor: string): string => cursor.slice(0, cursor.indexOf("."))

const sequenceOf = (cursor: string): number => Number(cursor.slice(cursor.indexOf(".") + 1))

export const nap = (least: number, most: number) => Effect.flatMap(Random.nextIntBetween(least, most), Effect.sleep)

const pick = <A>(all: ReadonlyArray<A>): Effect.Effect<A | undefined> =>
  Effect.map(Random.nextIntBetween(0, Math.max(0, all.length - 1)), (index) => all[index])

/** Another process may answer. */
const isTransient = (error: Session.SessionError | Simulation.Lost): boolean =>
  error._tag === "Lost" || error.category === "unavailable" || error.reason._tag === "AgentUnknown"

/** Calls one of the processes, and again until there is an answer. */
export const call = <A>(
  world: World,
  name: string,
  use: (sessions: Sessions) => Effect.Effect<A, Session.SessionError>
) =>
  Effect.flatMap(world.any, (process) => process.call(name, Effect.flatMap(Session.Session, use))).pipe(
    Effect.tapError(() => nap(5, 80)),
    Effect.retry({ while: isTransient }),
    Effect.catchTag("Lost", (lost) => Effect.die(lost))
  )

/** An operation, and what became of it. */
export const perform = Effect.fnUntraced(function* <A>(
  world: World,
  diary: Diary,
  draft: Omit<Operation, "began" | "answer">,
  use: (sessions: Sessions) => Effect.Effect<A, Session.SessionError>
): Effect.fn.Return<A | undefined> {
  const operation: Operation = { ...draft, began: diary.ticks++ }
  diary.operations.push(operation)
  const name = `${draft.kind} ${draft.session} ${draft.message ?? ""}`
  const result = yield* Effect.result(call(world, name, use))
  const at = diary.ticks++
  if (result._tag === "Failure") {
    operation.answer = { at, error: result.failure.reason._tag }
    return undefined
  }
  const receipt = result.success
  const isReceipt = typeof receipt === "object" && receipt !== null && "cursor" in receipt && "sequence" in receipt
  operation.answer = {
    at,
    ...(isReceipt && { life: lifeOf(String(receipt.cursor)), sequence: sequenceOf(String(receipt.cursor)) }),
    ...(isReceipt && "isInterrupted" in receipt && { isInterrupted: true })
  }
  return result.success
})

/** Waits for the turn of a message, over calls that are not answered. */
const awaitTurn = Effect.fnUntraced(function* (
  world: World,
  diary: Diary,
  session: string,
  receipt: Session.MessageReceipt
) {
  const wait: Wait = { session, message: receipt.messageId }
  diary.waits.push(wait)
  const ended = call(world, `await ${receipt.messageId}`, (sessions) =>
    Effect.provideService(Session.await(session, receipt), Session.Session, sessions).pipe(
      Effect.catchIf(
        ({ reason }) => reason._tag === "TurnFailed",
        (error) => Effect.succeed(error)
      )
    )
  )
  wait.end = Result.merge(yield* Effect.result(ended))
})

/** The message of an answer, of an agent inside, too. */
const answerIn = (event: Run.Event): Message.AssistantMessage | undefined => {
  if (event._tag === "ModelAnswered") return event.message
  if (event._tag === "ChildEvent") return answerIn(event.event)
  return event._tag === "PlanEvent" ? answerInPlan(event.event) : undefined
}

const answerInPlan = (event: PlanRun.Event): Message.AssistantMessage | undefined => {
  if (event._tag === "AgentChanged") return answerIn(event.event)
  return event._tag === "NestedChanged" ? answerInPlan(event.event) : undefined
}

/**
 * Shows an entry on the screen of a live reader, which has the drafts that have no message yet. `taken` are the messages that turns
 * took. A process that was paused may show a piece of an earlier turn until it knows that another one has the session. Returns what is wrong with the entry.
 */
const showOn = (screen: Screen, { event }: Session.LiveEntry, taken: ReadonlyArray<string>): string | undefined => {
  if (event._tag === "AnswerWithdrawn") return screen.delete(event.messageId) ? undefined : "withdrawn, and never shown"
  if (event._tag === "AnswerDelta") {
    const { delta, messageId, offset, part, turn } = event
    const draft = screen.get(messageId) ?? { turn, parts: new Map<number, string>() }
    const before = draft.parts.get(part) ?? ""
    draft.parts.set(part, before + delta)
    screen.set(messageId, draft)
    if (draft.turn !== turn) return `a piece for ${turn} after one for ${draft.turn}`
    if (!taken.includes(turn)) return `a piece for ${turn}, which no turn has taken`
    return before.length === offset ? undefined : `a piece at ${offset} after ${before.length} characters`
  }
  const answer = event._tag === "RunEvent" ? answerIn(event.event) : undefined
  if (answer === undefined) return undefined
  const draft = screen.get(answer.id)
  screen.delete(answer.id)
  const input = taken.at(-1)
  if (draft !== undefined && draft.turn !== input) return `an answer to ${input} whose draft was for ${draft.turn}`
  const differs = Array.from(draft?.parts ?? []).find(([index, text]) => {
    const part = answer.content[index]
    return part?.type === "text" && !part.text.startsWith(text)
  })
  return differs && `the text ${JSON.stringify(differs[1])} of a draft of ${JSON.stringify(answer.content)}`
}

/**
 * Reads the events of a session over cut connections, from the first one of each of its lives. With a screen also what models
 * write.
 */
export const follow = Effect.fnUntraced(function* (world: World, diary: Diary, session: string, screen?: Screen) {
  let place: string | undefined
  let seen = 0
  let taken: ReadonlyArray<string> = []
  if (screen !== undefined) diary.screens.set(session, screen)
  const add = ({ cursor, event, sequence }: Session.LiveEntry) => {
    const life = lifeOf(cursor)
    if (place === undefined || life !== lifeOf(place)) {
      seen = 0
      taken = []
      screen?.clear()
    }
    if (event._tag === "RunEvent" && event.event._tag === "InputAdded") taken = [...taken, event.event.message.id]
    const wrong = screen && showOn(screen, { cursor, event, sequence }, taken)
    if (wrong !== undefined) diary.problems.push(`a live reader of ${session} saw at ${cursor} ${wrong}`)
    const isDraft = event._tag === "AnswerDelta" || event._tag === "OutputDelta" || event._tag === "AnswerWithdrawn"
    if (isDraft) diary.drafts += 1
    if (sequence !== (isDraft ? seen : seen + 1))
      diary.problems.push(`a reader of ${session} saw ${cursor} after ${place}`)
    seen = sequence
    place = cursor
    if (!isDraft) addEntry(diary, session, { event, sequence, cursor: `${life}.${sequence}` })
  }
  let reads = 0
  const read = Effect.suspend(() => {
    const options = place === undefined ? {} : { after: place }
    // Every other time the reader is eager
    const live = { ...options, ...(reads++ % 2 === 0 && { every: 0 }) }
    const events: Stream.Stream<Session.LiveEntry, Session.SessionError, Session.Session> = Stream.unwrap(
      Effect.map(Session.Session, (sessions) =>
        screen === undefined ? sessions.events(session, options) : sessions.live(session, live)
      )
    )
    return Effect.flatMap(world.any, ({ stream }) =>
      // A slow reader
      Stream.runForEach(stream(`events of ${session}`, events), (entry) =>
        Effect.andThen(
          nap(0, 20),
          Effect.sync(() => add(entry))
        )
      )
    )
  })
  return yield* read.pipe(
    Effect.tapError((error) =>
      Effect.andThen(
        Effect.sync(() => {
          // It was removed
          const isGone = error._tag === "SessionError" && ["EventsUnknown", "NotFound"].includes(error.reason._tag)
          if (isGone) {
            place = undefined
            screen?.clear()
          } else if (!isTransient(error)) diary.problems.push(`events of ${session}: ${error.message}`)
        }),
        nap(10, 150)
      )
    ),
    Effect.retry({ while: () => true })
  )
})

const addEntry = (diary: Diary, session: string, entry: Session.Entry) => {
  const life = lifeOf(entry.cursor)
  const found = diary.lives.get(life) ?? { session, entries: [] }
  diary.lives.set(life, found)
  const before = found.entries[entry.sequence - 1]
  if (before === undefined && entry.sequence === found.entries.length + 1) found.entries.push(entry)
  else if (!Equal.equals(before, entry)) diary.problems.push(`${entry.cursor} is not the same for two readers`)
}

export const saidBy = (conversation: Conversation.Conversation): ReadonlyArray<string> =>
  Conversation.messages(conversation).map((message) => {
    if (message.role === "system") return `system ${message.content}`
    if (message.role === "user") return `user ${message.id}`
    if (message.role === "assistant") return `assistant ${message.content.length}`
    return `tool ${message.name} ${message.result._tag === "Success" ? "success" : message.result.type}`
  })

/** Looks at a session: its state, and its history between two states. */
const look = Effect.fnUntraced(function* (world: World, diary: Diary, session: string) {
  const found = yield* Effect.option(
    call(world, `look at ${session}`, (sessions) =>
      Effect.gen(function* () {
        const before = yield* sessions.state(session)
        const history = yield* Effect.option(sessions.history(session))
        return { before, history, after: yield* sessions.state(session) }
      })
    ).pipe(Effect.tapError(({ message }) => Effect.sync(() => diary.problems.push(`a look at ${session}: ${message}`))))
  )
  if (Option.isNone(found)) return Option.none<Session.State>()
  const { after, before, history } = found.value
  for (const state of Option.toArray(after)) diary.looks.push({ _tag: "State", session, state })
  if (Option.isSome(before) && Option.isSome(after) && Option.isSome(history)) {
    const [life, other] = [lifeOf(before.value.cursor), lifeOf(after.value.cursor)]
    if (life === other) {
      const said = saidBy(history.value)
      const [from, to] = [before.value.sequence, after.value.sequence]
      diary.looks.push({
        _tag: "History",
        life,
        said,
        ...(diary.isSpread ? { from: undefined, to: Math.max(from, to) } : { from, to })
      })
    }
  }
  return after
})

const lookAtAll = Effect.fnUntraced(function* (world: World, diary: Diary) {
  const page = yield* call(world, "list", (sessions) => sessions.list())
  for (const listed of page.sessions) diary.looks.push({ _tag: "List", listed })
  for (const id of page.unreadable) diary.problems.push(`${id} cannot be read`)
  return page.sessions.map(({ id }) => id)
})

/** Users answer a question rightly, wrongly, and twice at the same time, each time in another way. */
const answer = Effect.fnUntraced(function* (
  world: World,
  diary: Diary,
  session: string,
  questions: ReadonlyArray<Extract<Run.Request, { readonly _tag: "Question" }>>
) {
  const say = (value: Schema.Json) => {
    const decisions = questions.map((question) => Run.answer(question, value))
    return perform(world, diary, { kind: "decide", session, decisions }, (sessions) =>
      sessions.decide(session, decisions)
    )
  }
  const drawn = yield* Random.next
  if (drawn < 0.3) {
    const receipt = yield* say({ said: 5 })
    if (receipt !== undefined) diary.problems.push(`a wrong answer in ${session} is taken`)
  }
  const right = drawn < 0.6 ? ["yes", "no"] : ["yes"]
  yield* Effect.forEach(right, (said) => say({ said }), { concurrency: "unbounded" })
})

/** A person who decides about the calls of all sessions. */
export const decide = Effect.fnUntraced(function* (world: World, diary: Diary, session: string) {
  const state = Option.getOrUndefined(yield* look(world, diary, session))
  if (state === undefined || state.status !== "waiting") return
  const approved = yield* Effect.map(Random.next, (drawn) => drawn < 0.75)
  const questions = state.requests.filter((request) => request._tag === "Question")
  if (questions.length > 0) yield* answer(world, diary, session, questions)
  const others = state.requests.filter(({ _tag }) => _tag !== "Question")
  if (questions.length > 0 && others.length === 0) return
  const decisions = others.map((request) => ({ ...request, approved }))
  const decided = perform(world, diary, { kind: "decide", session, decisions }, (sessions) =>
    sessions.decide(session, decisions)
  )
  // Some people press the button twice
  yield* Effect.all((yield* Random.next) < 0.2 ? [decided, decided] : [decided], { concurrency: "unbounded" })
})

export const textFor = Effect.fnUntraced(function* ({ hasMore, isCalm }: Diary, message: string) {
  const some = !hasMore ? tools : isCalm ? moreTools.slice(0, -1) : moreTools
  const steps: Array<string> = []
  const count = yield* Random.nextIntBetween(0, 2)
  for (let step = 0; step < count; step++) {
    const names: Array<string> = []
    const calls = yield* Random.nextIntBetween(1, 2)
    for (let n = 0; n < calls; n++) names.push((yield* pick<string>(some)) ?? "once")
    steps.push((yield* Random.next) < 0.05 ? "fails" : names.join(" "))
  }
  return [message, ...steps].join("|")
})

/** The calls of users, each as often as it is here. */
const kinds = [
  "send",
  "send",
  "send",
  "send",
  "send",
  "send",
  "again",
  "edit",
  "edit",
  "edit",
  "interrupt",
  "interrupt",
  "withdraw",
  "resume",
  "fork",
  "remove"
] as const

/** The calls of users who stop nothing. */
const calmKinds = ["send", "send", "send", "again", "fork"] as const

/** The same, and edits. Without trouble each edit that stops a turn cuts the conversation, too. */
const healthyKinds = [...calmKinds, "edit", "edit"] as const

/** The session whose agent is data. */
export const withDefinition = "d"

/** Interrupts the calls of a session that hang. */
export const unhang = Effect.fnUntraced(function* (world: World, diary: Diary, session: string) {
  const { started } = yield* Ledger
  let done = 0
  while (true) {
    yield* nap(200, 2000)
    const hung = started.filter((call) => call.startsWith(`hang ${session}/`)).length
    if (hung === done) continue
    done = hung
    yield* perform(world, diary, { kind: "interrupt", session }, (sessions) => sessions.interrupt(session))
  }
})

/** The session whose model asks, and repeats itself. */
export const asking = "q"

/** A user of that session. */
export const useAsking = Effect.fnUntraced(function* (world: World, diary: Diary) {
  for (const [index, steps] of ["ask", "circle", "again ask|once", "ask ask|circle"].entries()) {
    const message = `${asking}/x${index + 1}`
    const text = `${message}|${steps}`
    yield* perform(world, diary, { kind: "send", session: asking, message, text }, (sessions) =>
      sessions.send(asking, text, { agent: "asker", messageId: message })
    )
    yield* nap(0, 900)
  }
})

interface User {
  readonly session: string
  readonly user: string
  /** So many calls, one after the other. */
  readonly count: number
}

/** One user of one session. */
export const use = Effect.fnUntraced(function* (world: World, diary: Diary, { count, session, user }: User) {
  const { isCalm, isHealthy } = diary
  const agent: Session.SendOptions = session === withDefinition ? { definition: yield* poet } : { agent: "worker" }
  const some = isHealthy ? healthyKinds : isCalm ? calmKinds : kinds
  const sent: Array<{ readonly message: string; readonly text: string; readonly isEdit?: boolean }> = []
  for (let n = 1; n <= count; n++) {
    // Some calls come in a row
    yield* nap(0, (yield* Random.next) < 0.7 ? 5 : 500)
    // Some stop the first turn, which may not have begun
    const isHasty = n === 2 && !isCalm && (yield* Random.next) < 0.25
    const kind = n === 1 ? "send" : isHasty ? "interrupt" : yield* pick<(typeof kinds)[number]>(some)
    const message = `${session}/${user}${n}`
    const text = yield* textFor(diary, message)
    const earlier = yield* pick(sent.slice(-3))
    const pending = (yield* Random.next) < 0.3 && !isCalm ? ("deny" as const) : ("keep" as const)
    const whenBusy = n % 2 === 0 ? ("steer" as const) : ("queue" as const)
    if (kind === "send" || earlier === undefined) {
      sent.push({ message, text })
      const receipt = yield* perform(world, diary, { kind: "send", session, message, text }, (sessions) =>
        sessions.send(session, text, { ...agent, messageId: message, pending, whenBusy })
      )
      if (receipt !== undefined && n % 3 === 1) yield* Effect.forkDetach(awaitTurn(world, diary, session, receipt))
    } else if (kind === "again") {
      // An edit has no definition, so the same message with one is another message
      if (earlier.isEdit === true && session === withDefinition) continue
      const { message, text } = earlier
      yield* perform(world, diary, { kind: "send", session, message, text }, (sessions) =>
        sessions.send(session, text, { ...agent, messageId: message })
      )
    } else if (kind === "edit") {
      sent.push({ message, text, isEdit: true })
      const options = { messageId: earlier.message, input: text, newMessageId: message }
      yield* perform(world, diary, { kind, session, message, text }, (sessions) => sessions.edit(session, options))
    } else if (kind === "withdraw") {
      const { message } = earlier
      yield* perform(world, diary, { kind, session, message }, (sessions) => sessions.withdraw(session, message))
    } else if (kind === "fork") {
      const to = `${session}+${user}${n}`
      // The same place each time that the call is made
      const state = isCalm ? yield* look(world, diary, session) : Option.none()
      const place = Option.match(state, { onNone: () => ({}), onSome: ({ cursor }) => ({ at: cursor }) })
      yield* perform(world, diary, { kind, session, message: to }, (sessions) =>
        sessions.fork(session, { to, ...place })
      )
    } else if (kind === "interrupt" || kind === "resume" || kind === "remove") {
      yield* perform(world, diary, { kind, session }, (sessions): Effect.Effect<unknown, Session.SessionError> =>
        sessions[kind](session)
      )
    }
  }
})

/** Reads all events that a session has now. */
export const readAll = (
  world: World,
  diary: Diary,
  { session, sequence }: { readonly session: string; readonly sequence: number }
) =>
  Effect.map(
    call(world, `all of ${session}`, (sessions) => Stream.runCollect(Stream.take(sessions.events(session), sequence))),
    (entries) => {
      for (const entry of entries) addEntry(diary, session, entry)
    }
  )

/** The sessions come to rest when the faults have ended. */
export const rest = Effect.fnUntraced(function* (world: World, diary: Diary) {
  for (let round = 0; round < 60; round++) {
    const ids = yield* lookAtAll(world, diary)
    const states: Array<readonly [string, Session.State]> = []
    for (const id of ids) {
      yield* decide(world, diary, id)
      const state = Option.getOrUndefined(yield* look(world, diary, id))
      if (state !== undefined) states.push([id, state])
    }
    if (states.every(([, { status }]) => status === "idle")) return states
    yield* Effect.sleep(1000)
  }
  diary.problems.push("the sessions do not come to rest")
  return []
})

/** Removes all sessions. Nothing of them is written later. */
export const removeAll = Effect.fnUntraced(function* (world: World, diary: Diary, ids: ReadonlyArray<string>) {
  for (const session of ids) {
    yield* perform(world, diary, { kind: "remove", session }, (sessions) => sessions.remove(session))
  }
  yield* Effect.sleep("30 seconds")
  for (const prefix of ["session/head/", "session/busy/"]) {
    const found = yield* world.store.list({ prefix })
    // The placeholder of a fork that never began, which no removal has met
    const keys = yield* Effect.filter(found.keys, (key) =>
      Effect.map(
        world.store.get(key),
        (stored) =>
          ids.some((id) => key === `${prefix}${id}`) ||
          !Option.exists(stored, ({ value }) => Equal.equals(value, { kind: "beginning" }))
      )
    )
    if (keys.length > 0) diary.problems.push(`after the removal there is ${keys.join()}`)
  }
})

/** The message of a session that no reader looks at: a process that dies leaves its turn to the others. */
const lone = { session: "lone", message: "lone/1", text: "lone/1|again|once" }

export const sendAlone = (world: World, diary: Diary) =>
  Effect.andThen(
    nap(0, 1500),
    perform(world, diary, { kind: "send", ...lone }, (sessions) =>
      sessions.send(lone.session, lone.text, { agent: "worker", messageId: lone.message })
    )
  )

export const checkAlone = Effect.fnUntraced(function* (world: World, diary: Diary) {
  const page = yield* call(world, "list", (sessions) => sessions.list({ prefix: lone.session }))
  const [found] = page.sessions
  if (found?.status !== "idle") diary.problems.push(`while nobody looks, ${lone.session} stays ${found?.status}`)
})
