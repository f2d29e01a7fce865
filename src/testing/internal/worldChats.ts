/**
 * A script for sessions: users who send messages, again where an answer is lost, decide about calls, and read the events.
 */

import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Run from "../../agent/Run.ts"
import * as Session from "../../session/Session.ts"
import { expectEqual } from "./checks.ts"
import type { World } from "./world.ts"
import type * as worldNetwork from "./worldNetwork.ts"

/**
 * Options of {@link chats}.
 *
 * @category options
 * @since 0.1.0
 */
export interface ChatsOptions {
  /** The number of sessions; default 2. */
  readonly sessions?: number | undefined
  /** The number of messages to each of them; default 3. */
  readonly messages?: number | undefined
  /** The content of a message: both numbers count from 1; default `"message 1"` and so on. */
  readonly input?: ((message: number, session: number) => Session.Input) | undefined
  /** Options of all messages, such as the `agent`. */
  readonly send?: Omit<Session.SendOptions, "messageId" | "ifExists" | "whenBusy"> | undefined
  /** Returns true for a call that is approved; default: all are. */
  readonly approves?: ((request: Run.Request) => boolean) | undefined
  /** The answer to a question, or to a call of the page; default: it is denied. An answer that does not fit is refused, and given again. */
  readonly answers?: ((request: Run.Request) => Schema.Json) | undefined
}

type Sessions = World<Session.Session>

const isTransient = (error: Session.SessionError | worldNetwork.Lost): boolean =>
  error._tag === "Lost" || error.category === "unavailable"

/** Calls any process, again and again, until there is an answer. */
const call = <A>(
  world: Sessions,
  name: string,
  use: (sessions: Session.Session["Service"]) => Effect.Effect<A, Session.SessionError>
): Effect.Effect<A, Session.SessionError | worldNetwork.Lost> =>
  Effect.flatMap(world.any, (process) => process.call(name, Effect.flatMap(Session.Session, use))).pipe(
    Effect.tapError(() => Effect.flatMap(Random.nextIntBetween(5, 80), Effect.sleep)),
    Effect.retry({ while: isTransient })
  )

/** Follows the events of a session over cut connections, and checks that none is missing and none comes twice. */
const follow = (world: Sessions, id: string, seen: Array<Session.Entry>) =>
  Effect.flatMap(world.any, ({ stream }) => {
    const events = Effect.map(Session.Session, (sessions) => sessions.events(id, { after: seen.at(-1)?.cursor }))
    return Stream.runForEach(stream(`events of ${id}`, Stream.unwrap(events)), (entry) =>
      Effect.andThen(
        expectEqual(`the next event of ${id}`, seen.length + 1, entry.sequence),
        Effect.sync(() => void seen.push(entry))
      )
    )
  }).pipe(
    Effect.tapError(() => Effect.flatMap(Random.nextIntBetween(5, 150), Effect.sleep)),
    Effect.retry({ while: (error) => typeof error !== "string" && isTransient(error) })
  )

/** Decides about calls until the session is idle. */
const decideUntilIdle = Effect.fnUntraced(function* (world: Sessions, id: string, options: ChatsOptions) {
  const { answers, approves = () => true } = options
  const decide = (request: Run.Request): Run.Decision => {
    if ("schema" in request) return answers === undefined ? Run.deny(request) : Run.answer(request, answers(request))
    return approves(request) ? Run.approve(request) : Run.deny(request)
  }
  while (true) {
    const state = Option.getOrUndefined(yield* call(world, `state of ${id}`, (sessions) => sessions.state(id)))
    if (state === undefined) return yield* Effect.fail(`the state of ${id}: expected a session, got none`)
    if (state.status === "idle") return state
    const decisions = state.requests.map(decide)
    const decided = call(world, `decide in ${id}`, (sessions) => sessions.decide(id, decisions))
    // Another decision may have come before a doubled one
    if (decisions.length > 0)
      yield* Effect.catchIf(
        decided,
        ({ _tag }) => _tag === "SessionError",
        () => Effect.void
      )
    yield* Effect.sleep(100)
  }
})

const messageIds = (entries: ReadonlyArray<Session.Entry>): ReadonlyArray<string> =>
  entries.flatMap(({ event }) => (event._tag === "MessageReceived" ? [event.messageId] : []))

/** One user of one session. */
const chat = Effect.fnUntraced(function* (world: Sessions, session: number, options: ChatsOptions) {
  const { input = (message: number) => `message ${message}`, messages = 3, send } = options
  const id = `chat/${session}`
  const seen: Array<Session.Entry> = []
  const reading = yield* Effect.forkChild(follow(world, id, seen))
  const sent: Array<string> = []
  for (let message = 1; message <= messages; message++) {
    yield* Effect.flatMap(Random.nextIntBetween(0, 400), Effect.sleep)
    const messageId = `${id}/${message}`
    const received = call(world, `send ${messageId}`, (sessions) =>
      sessions.send(id, input(message, session), { ...send, messageId })
    )
    yield* Effect.raceFirst(received, Fiber.join(reading))
    sent.push(messageId)
    yield* decideUntilIdle(world, id, options).pipe(
      Effect.when(Effect.map(Random.nextBoolean, (isPatient) => isPatient))
    )
  }
  yield* world.calm
  const { queue, sequence } = yield* decideUntilIdle(world, id, options)
  yield* expectEqual(`the messages of ${id} that wait`, [], queue)
  const caughtUp = Effect.repeat(Effect.sleep(100), { until: () => seen.length >= sequence })
  yield* Effect.raceFirst(caughtUp, Fiber.join(reading))
  yield* expectEqual(`the messages that ${id} has received`, sent, messageIds(seen))
  const stored = yield* call(world, `all events of ${id}`, (sessions) =>
    sessions.events(id).pipe(Stream.take(sequence), Stream.runCollect)
  )
  yield* expectEqual(`what a reader of ${id} has seen`, stored, seen.slice(0, sequence))
  yield* call(world, `history of ${id}`, (sessions) => sessions.history(id))
  yield* Fiber.interrupt(reading)
})

/**
 * A script for a layer of sessions: users who send messages, send them again where no answer comes, approve calls, and follow the
 * events over cut connections.
 *
 * **Details**
 *
 * It fails unless each message is received once and in order, each session is idle in the end with no message that waits, a reader
 * has seen each event once, and the history can be read. The content of the answers is yours to check: read `outside` services in a
 * script of your own that begins or ends with this one.
 *
 * @category scripts
 * @since 0.1.0
 */
export const chats =
  (options: ChatsOptions = {}) =>
  (world: Sessions): Effect.Effect<void, unknown> => {
    const all = Array.from({ length: options.sessions ?? 2 }, (_, index) => chat(world, index + 1, options))
    return Effect.all(all, { concurrency: "unbounded", discard: true })
  }
