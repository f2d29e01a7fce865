/**
 * Sessions on a fleet: an entity of `effect/cluster` for each session that is used, and the service that calls them.
 *
 * The cluster decides which runner has a session. A call that stores something is a persisted message: it is delivered
 * although its runner dies. Before a session stores what a turn has to answer, it sends itself the persisted message
 * `Turn`, which is answered when no turn is left. So a session whose runner died is opened again by the next one.
 *
 * The entity is small. The session itself is in memory while it is called or has a turn; readers of its events do not keep
 * it there.
 */

import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as PubSub from "effect/PubSub"
import * as RcRef from "effect/RcRef"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type {
  AlreadyProcessingMessage,
  EntityNotAssignedToRunner,
  MailboxFull,
  PersistenceError
} from "effect/cluster/ClusterError"
import * as ClusterSchema from "effect/cluster/ClusterSchema"
import * as Entity from "effect/cluster/Entity"
import * as Rpc from "effect/rpc/Rpc"
import * as runParts from "../../agent/internal/runParts.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as storage from "../../conversation/internal/storage.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as clusterTables from "./clusterTables.ts"
import * as liveSession from "./liveSession.ts"
import { durationOf, type LocalHost, removing } from "./localSessions.ts"
import * as sessionEvents from "./sessionEvents.ts"
import * as sessionTypes from "./sessionTypes.ts"
import type { Service, SessionError } from "./sessionTypes.ts"

// Messages between runners and clients of different releases: each has a version

const Call = Schema.Struct({ id: Schema.String })

const call = VersionedCodec.single({ what: "call of a session", value: Call }).schema

const SendBody = VersionedCodec.single({
  what: "message to a session",
  value: Schema.Struct({
    ...Call.fields,
    messageId: Schema.String,
    input: Schema.Union([Schema.String, ToolResult.NonEmptyContent]),
    agent: Schema.optionalKey(Schema.String),
    context: Schema.optionalKey(runParts.Context),
    whenBusy: Schema.optionalKey(Schema.Literals(["queue", "reject"]))
  }),
  data: ["/input", "/context"]
}).schema

const DecideBody = VersionedCodec.single({
  what: "decisions for a session",
  value: Schema.Struct({ ...Call.fields, decisions: Schema.NonEmptyArray(runParts.Decision) }),
  data: runParts.userData
}).schema

const EventsPayload = VersionedCodec.single({
  what: "reader of a session",
  value: Schema.Struct({ ...Call.fields, after: Schema.Int })
}).schema

const receipt = VersionedCodec.single({ what: "receipt of a message", value: sessionTypes.Receipt }).schema

const state = VersionedCodec.single({
  what: "state of a session",
  value: Schema.Struct({ state: Schema.OptionFromNullOr(sessionTypes.State) }),
  data: runParts.userData
}).schema

const entry = VersionedCodec.single({
  what: "event of a session",
  value: sessionEvents.Entry,
  data: runParts.userData
}).schema

const error = VersionedCodec.single({
  what: "error of a session",
  value: sessionTypes.SessionError,
  member: "error"
}).schema

/** The call is delivered although its runner dies or its caller leaves. With the same key it is the same call. */
const delivered = Context.make(ClusterSchema.Persisted, true).pipe(Context.add(ClusterSchema.Uninterruptible, "client"))

const keyed = <S extends Schema.Top>(body: S) => ({
  payload: { key: Schema.String, body },
  primaryKey: ({ key }: { readonly key: string }) => key
})

/**
 * A text as a part of the tables of the cluster, which hold a limited number of characters, and not all of them. The form
 * of a digest is kept for digests: otherwise the text of one would be the name of another session.
 */
const nameOf = (text: string, longest: number): string =>
  /^(?!sha256:)[\x21-\x7e]+$/.test(text) && text.length <= longest ? text : `sha256:${storage.digestKey(text)}`

const entityOf = (namespace: string) =>
  Entity.make(`effect-emissary/Session/${nameOf(namespace, 100)}`, [
    Rpc.make("Send", { ...keyed(SendBody), success: receipt, error }).annotateMerge(delivered),
    Rpc.make("Decide", { ...keyed(DecideBody), error }).annotateMerge(delivered),
    Rpc.make("Resume", { ...keyed(call), error }).annotateMerge(delivered),
    // A runner that stops leaves the turn to the next one
    Rpc.make("Turn", { payload: call }).annotateMerge(delivered).annotate(ClusterSchema.InterruptOnTermination, true),
    Rpc.make("Events", { payload: EventsPayload, success: entry, error, stream: true }).annotate(
      ClusterSchema.InterruptOnTermination,
      true
    ),
    Rpc.make("Interrupt", { payload: call, success: Schema.Boolean, error }),
    Rpc.make("State", { payload: call, success: state, error }),
    Rpc.make("History", { payload: call, success: Conversation.Conversation, error }),
    Rpc.make("Remove", { payload: call, success: Schema.Boolean, error })
  ])

/** The calls carry the id of the session. */
const entityIdOf = (id: string): string => nameOf(id, 200)

// The runner

/** Events that a slow reader finds in memory. It reads older ones from the journal. */
const hubSize = 256

/** The cluster keeps its messages in the database of the store, or in another one. */
const storeFailed =
  (id: string) =>
  (cause: ClusterError): storage.Reason => ({
    _tag: "StoreFailed",
    error: storage.unavailable({
      operation: "compareAndSet",
      key: id,
      storage: "cluster",
      error: problems[cause._tag],
      cause
    })
  })

/** The events that follow are those of another session under the id. */
interface Removed {
  readonly sequence: undefined
}

const removed: Removed = { sequence: undefined }

const wasRemoved = ({ reason: { _tag } }: SessionError): boolean => _tag === "NotFound" || _tag === "EventsUnknown"

const reopening = Schedule.min([Schedule.exponential("1 second"), Schedule.spaced("30 seconds")])

const isElsewhere = ({ reason }: SessionError): boolean => reason._tag === "Elsewhere"

/**
 * The calls of one session.
 *
 * `live` is the session in memory: there while a call or a turn uses it, and for `idleTime` after that. Its events are
 * published to the readers, who take part in that only while they read what is stored.
 */
const actorOf = Effect.fnUntraced(function* (
  host: LocalHost["host"],
  idleTime: Duration.Duration,
  sendTurn: (id: string) => Effect.Effect<void, storage.Reason>
) {
  const scope = yield* Effect.scope
  const hub = yield* PubSub.sliding<sessionEvents.Entry | Removed>(hubSize)
  let sessionId = ""
  let newest: number | undefined
  let hasTurn = false

  const onBusy = (id: string) =>
    Effect.suspend(() => (hasTurn ? Effect.void : Effect.map(sendTurn(id), () => void (hasTurn = true))))

  const publish = (entry: sessionEvents.Entry) => {
    newest = entry.sequence
    return PubSub.publish(hub, entry)
  }

  /** Publishes the events of a session, and of the next one under its id. */
  const publishAll = (session: liveSession.LiveSession): Effect.Effect<void, SessionError> =>
    Effect.suspend(() => Stream.runForEach(session.events(newest ?? 0), publish)).pipe(
      Effect.catchIf(wasRemoved, () => {
        newest = 0
        return Effect.andThen(PubSub.publish(hub, removed), publishAll(session))
      })
    )

  const live: RcRef.RcRef<liveSession.LiveSession, SessionError> = yield* RcRef.make({
    acquire: Effect.gen(function* () {
      const session = yield* liveSession.open(
        { ...host, isExclusive: true, onBusy, onIdle: () => Effect.void },
        sessionId
      )
      newest ??= sequenceOf(yield* session.state)
      yield* Effect.forkScoped(Effect.ignore(publishAll(session)))
      // In another scope than the one that this closes
      const forget = Effect.forkIn(RcRef.invalidate(live), scope)
      yield* Effect.forkScoped(Effect.catch(session.lost, () => forget))
      return session
    }),
    idleTimeToLive: idleTime
  })

  const open = (id: string) => {
    sessionId = id
    return RcRef.get(live)
  }

  const use = <A>(id: string, run: (session: liveSession.LiveSession) => Effect.Effect<A, SessionError>) =>
    Effect.scoped(Effect.flatMap(open(id), run))

  /** The events after a number, up to another one that is stored. */
  const between = (id: string, after: number, last: number) =>
    last <= after
      ? Stream.empty
      : Stream.unwrap(Effect.map(open(id), (session) => session.events(after))).pipe(
          Stream.takeUntil(({ sequence }) => sequence >= last)
        )

  const events = (id: string, after: number) =>
    Effect.gen(function* () {
      const published = yield* PubSub.subscribe(hub)
      const fail = (reason: sessionTypes.Reason) => new sessionTypes.SessionError({ id, reason })
      const known = newest
      const last =
        known !== undefined && known >= after ? known : sequenceOf(yield* use(id, (session) => session.state))
      if (last < after) {
        return yield* fail(last === 0 ? { _tag: "NotFound" } : { _tag: "EventsUnknown", after, newest: last })
      }
      let seen = last
      const following = Stream.flatMap(Stream.fromSubscription(published), (entry) => {
        const before = seen
        if (entry.sequence === undefined) return before === 0 ? Stream.empty : Stream.fail(fail({ _tag: "NotFound" }))
        seen = Math.max(before, entry.sequence)
        return entry.sequence === before + 1 ? Stream.succeed(entry) : between(id, before, entry.sequence)
      })
      return Stream.concat(between(id, after, last), following)
    }).pipe(Stream.unwrap)

  /** Waits until no turn is left, after what is being stored now. */
  const settled = (session: liveSession.LiveSession) => Effect.andThen(session.state, session.idle)

  const turn = (id: string) =>
    use(id, (session) => {
      hasTurn = true
      return Effect.andThen(settled(session), () => {
        hasTurn = false
        // A message that was stored before that relies on this turn
        return settled(session)
      })
    }).pipe(
      Effect.tapError((error) => Effect.logWarning(`${error.message}. Its turn waits`)),
      Effect.retry(reopening),
      Effect.orDie
    )

  return {
    events,
    turn,
    /** Tries again when another process has written: the cluster decides which of the two has the session. */
    use: <A>(id: string, run: (session: liveSession.LiveSession) => Effect.Effect<A, SessionError>) =>
      Effect.retry(use(id, run), { while: isElsewhere, schedule: Schedule.spaced("1 second"), times: 5 })
  }
})

const sequenceOf = (found: Option.Option<sessionTypes.State>): number =>
  Option.match(found, { onNone: () => 0, onSome: ({ sequence }) => sequence })

/** The sessions of a runner. */
export const layer = ({ host, idleTime, namespace }: Omit<LocalHost, "store">, retention: Duration.Duration) => {
  const entity = entityOf(namespace)
  const build = Effect.gen(function* () {
    const client = yield* entity.client
    const { events, turn, use } = yield* actorOf(host, idleTime, (id) =>
      Effect.mapError(client(entityIdOf(id)).Turn({ id }, { discard: true }), storeFailed(id))
    )
    return entity.of({
      Send: ({
        payload: {
          body: { id, input, ...options }
        }
      }) => use(id, (session) => session.send(input, options)),
      Decide: ({
        payload: {
          body: { decisions, id }
        }
      }) => use(id, (session) => session.decide(decisions)),
      Resume: ({
        payload: {
          body: { id }
        }
      }) => use(id, (session) => session.resume),
      Turn: ({ payload: { id } }) => turn(id),
      Interrupt: ({ payload: { id } }) => use(id, (session) => session.interrupt),
      Events: ({ payload: { after, id } }) => events(id, after),
      State: ({ payload: { id } }) =>
        Effect.map(
          use(id, (session) => session.state),
          (state) => ({ state })
        ),
      History: ({ payload: { id } }) => use(id, (session) => session.history),
      Remove: ({ payload: { id } }) => use(id, (session) => session.remove).pipe(removing(host.sessions, id))
    })
  })
  return Layer.merge(
    entity.toLayer(build, { concurrency: "unbounded", maxIdleTime: idleTime, disableFatalDefects: true }),
    clusterTables.retention(entity.type, retention)
  )
}

// The client

/** The runner stopped before it answered. */
interface Moved {
  readonly _tag: "Moved"
}

/** A value is beyond `Limits`, or of a release that one side does not know. */
interface Malformed {
  readonly _tag: "MalformedMessage"
}

type ClusterError =
  | AlreadyProcessingMessage
  | EntityNotAssignedToRunner
  | MailboxFull
  | Malformed
  | Moved
  | PersistenceError

const problems: Readonly<Record<ClusterError["_tag"], string>> = {
  AlreadyProcessingMessage: "a call is being answered already",
  EntityNotAssignedToRunner: "no runner has it",
  MailboxFull: "its runner has too much to do",
  MalformedMessage: "the message or the answer is beyond the limits, or of another release",
  Moved: "its runner stopped",
  PersistenceError: "the database of the cluster failed"
}

/** A value that the codecs refuse, on either side. */
const isMalformed = (defect: unknown): boolean =>
  Predicate.hasProperty(defect, "name") && String(defect.name).endsWith("/MalformedMessage")

/** A runner that stops interrupts calls that it has not answered. The caller is not interrupted. */
const toClusterError = <E>(cause: Cause.Cause<E>): Effect.Effect<never, E | Moved | Malformed> => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.fail({ _tag: "Moved" })
  return cause.reasons.some((reason) => Cause.isDieReason(reason) && isMalformed(reason.defect))
    ? Effect.fail({ _tag: "MalformedMessage" })
    : Effect.failCause(cause)
}

const isClusterError = (error: SessionError | ClusterError): error is ClusterError => error._tag !== "SessionError"

const canRetry = (error: SessionError | ClusterError): boolean =>
  isClusterError(error) && error._tag !== "MalformedMessage"

const unreachable =
  (id: string) =>
  (error: SessionError | ClusterError): SessionError =>
    isClusterError(error)
      ? new sessionTypes.SessionError({ id, reason: { _tag: "Unreachable", problem: problems[error._tag] } })
      : error

/**
 * The sessions that the runners have. Every call can be made twice, so one that was not answered is made again.
 *
 * A runner that was paused, or whose machine is gone, does not close its connections. So one that is silent for `timeout` is
 * asked again, wherever the session is then.
 */
export const makeService = Effect.fnUntraced(function* (namespace: string, timeoutOption: Duration.Input) {
  const timeout = yield* durationOf("timeout", timeoutOption)
  const client = yield* entityOf(namespace).client
  type Client = ReturnType<typeof client>

  const trying = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")]).pipe(
    Schedule.upTo({ duration: Duration.times(timeout, 3) })
  )

  const call = <A>(id: string, run: (session: Client) => Effect.Effect<A, SessionError | ClusterError>) =>
    Effect.suspend(() => run(client(entityIdOf(id)))).pipe(
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail<Moved>({ _tag: "Moved" }) }),
      Effect.catchCause(toClusterError),
      Effect.retry({ while: canRetry, schedule: trying }),
      Effect.mapError(unreachable(id))
    )

  const keyedCall = <A>(
    id: string,
    run: (session: Client, key: string) => Effect.Effect<A, SessionError | ClusterError>
  ) => Effect.flatMap(storage.nonce, (key) => call(id, (session) => run(session, key)))

  const events = (id: string, after: number) =>
    Stream.unwrap(
      Effect.map(sessionTypes.checkAfter(id, after), (from) => {
        let seen = from
        return Stream.suspend(() => client(entityIdOf(id)).Events({ id, after: seen })).pipe(
          // The cluster asks the next runner the same question, so some come again
          Stream.filter(({ sequence }) => {
            const isNew = sequence > seen
            if (isNew) seen = sequence
            return isNew
          }),
          Stream.timeout(timeout),
          Stream.catchCause((cause) => Stream.fromEffect(toClusterError(cause))),
          Stream.retry(
            trying.pipe(
              Schedule.setInputType<SessionError | ClusterError>(),
              Schedule.while(({ input }) => canRetry(input))
            )
          ),
          Stream.mapError(unreachable(id)),
          Stream.repeat(Schedule.spaced("100 millis"))
        )
      })
    )

  const service: Service = {
    send: Effect.fnUntraced(function* (id, input, options) {
      const messageId = options?.messageId ?? (yield* yield* Message.MessageId)
      const { agent, context, whenBusy } = options ?? {}
      const body = { id, messageId, input, ...defined({ agent, context, whenBusy }) }
      return yield* keyedCall(id, (session, key) => session.Send({ key, body }))
    }),
    decide: (id, decisions) =>
      Arr.isReadonlyArrayNonEmpty(decisions)
        ? keyedCall(id, (session, key) => session.Decide({ key, body: { id, decisions } }))
        : Effect.void,
    resume: (id) => keyedCall(id, (session, key) => session.Resume({ key, body: { id } })),
    interrupt: (id) => call(id, (session) => session.Interrupt({ id })),
    events: (id, options) => events(id, options?.after ?? 0),
    state: (id) =>
      Effect.map(
        call(id, (session) => session.State({ id })),
        ({ state }) => state
      ),
    history: (id) => call(id, (session) => session.History({ id })),
    remove: (id) => call(id, (session) => session.Remove({ id }))
  }
  return service
})
