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

import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as PubSub from "effect/PubSub"
import * as RcRef from "effect/RcRef"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type {
  AlreadyProcessingMessage,
  EntityNotAssignedToRunner,
  MailboxFull,
  PersistenceError
} from "effect/cluster/ClusterError"
import * as ClusterSchema from "effect/cluster/ClusterSchema"
import * as Entity from "effect/cluster/Entity"
import * as Sharding from "effect/cluster/Sharding"
import * as ShardingConfig from "effect/cluster/ShardingConfig"
import * as Rpc from "effect/rpc/Rpc"
import * as callOptions from "../../payload/internal/options.ts"
import type * as documents from "../../store/internal/documents.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"
import * as storeService from "../../store/internal/storeService.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as clusterTables from "./clusterTables.ts"
import { Drafts } from "./drafts.ts"
import * as liveSession from "./liveSession.ts"
import * as readers from "./readers.ts"
import type { LiveSession } from "./turns.ts"
import { handlersOf, type LocalHost } from "./localSessions.ts"
import * as cursors from "./cursors.ts"
import type * as events from "./events.ts"
import type { EventPlace } from "./cursors.ts"
import * as service from "./service.ts"
import * as types from "./types.ts"
import type { SessionError } from "./types.ts"

// Messages between runners and clients of different releases: each has a version

const call = VersionedCodec.single({ what: "call of a session", value: Schema.Struct({ id: Schema.String }) }).schema

const error = VersionedCodec.single({
  what: "error of a session",
  value: types.SessionError,
  member: "error"
}).schema

/** Values of users, which have limits of their own. */
const data = [...runParts.userData, "/input", "/context", "/conversation", "/definition", "/metadata", "/value/value"]

/** The call is delivered although its runner dies or its caller leaves. With the same key it is the same call. */
const delivered = Context.make(ClusterSchema.Persisted, true).pipe(Context.add(ClusterSchema.Uninterruptible, "client"))

/** The members of a payload, and the id of the session; or, where the message is kept, its key and these. */
interface Sent extends service.Payload {
  readonly id?: string
  readonly body?: Sent
}

/** The name of an operation on the wire. */
const rpcName = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1)

/** The message of an operation. A message that is kept has a key: with the same key it is the same call. */
const rpcOf = (name: string, { about, isKept, kind, payload, success }: service.AnyOperation): Rpc.Any => {
  const members = about === "session" ? { id: Schema.String, ...payload.fields } : payload.fields
  const value: Schema.Codec<unknown, unknown> = Schema.Struct(members)
  const body = VersionedCodec.single({ what: `${name} of a session`, value, data }).schema
  const what = `answer to ${name} of a session`
  const options = { success: VersionedCodec.single({ what, value: success, member: "value", data }).schema, error }
  if (kind === "stream") {
    return Rpc.make(rpcName(name), { ...options, payload: body, stream: true }).annotate(
      ClusterSchema.InterruptOnTermination,
      true
    )
  }
  if (!isKept) return Rpc.make(rpcName(name), { ...options, payload: body })
  return Rpc.make(rpcName(name), {
    ...options,
    payload: { key: Schema.String, body },
    primaryKey: ({ key }) => key
  }).annotateMerge(delivered)
}

/**
 * A text as a part of the tables of the cluster, which hold a limited number of characters, and not all of them. The form
 * of a digest is kept for digests: otherwise the text of one would be the name of another session.
 */
const nameOf = (text: string, longest: number): string =>
  /^(?!sha256:)[\x21-\x7e]+$/.test(text) && text.length <= longest ? text : `sha256:${storeKeys.digestKey(text)}`

// A runner that stops leaves the turn to the next one
const Turn = Rpc.make("Turn", { payload: call })
  .annotateMerge(delivered)
  .annotate(ClusterSchema.InterruptOnTermination, true)

/** The messages of the table, whichever they are. */
type Message = Rpc.Rpc<
  string,
  Schema.Codec<Sent, unknown>,
  Schema.Codec<unknown, unknown>,
  Schema.Codec<SessionError, unknown>
>

/** The entity with one message for each operation, and `Turn`. */
export const entityOf = (namespace: string) =>
  Entity.make(
    `effect-emissary/Session/${nameOf(namespace, 100)}`,
    // Sound: what is sent comes from the table, and an operation that is a stream is asked for as one
    [Turn, ...service.all.map(([name, operation]) => rpcOf(name, operation))] as Array<Rpc.Any & Message>
  )

/**
 * The calls carry the id of the session. A client needs no store, because a runner reads lists and the values of steps
 * for it. Any runner can: a call goes to the runner for the session whose id would be the prefix or the key, which
 * spreads these calls.
 */
const entityIdOf = (id: string): string => nameOf(id, 200)

// The runner

/** Events that a slow reader finds in memory. It reads older ones from the journal. */
const hubSize = 256

/** The cluster keeps its messages in the database of the store, or in another one. */
const storeFailed =
  (id: string) =>
  (cause: ClusterError): documents.Reason => ({
    _tag: "StoreFailed",
    error: storeService.unavailable({
      operation: "compareAndSet",
      key: id,
      storage: "cluster",
      error: problems[cause._tag],
      cause
    })
  })

/**
 * True for the event right after the last event that a reader has seen, of the same session: another session under its
 * id may be as long.
 */
export const isNext = (seen: EventPlace, { life, sequence }: EventPlace): boolean =>
  sequence === seen.sequence + 1 && (seen.life === undefined || seen.life === life)

/** The session with this newest event was removed. */
interface Removed {
  readonly removed: EventPlace
}

const wasRemoved = ({ reason: { _tag } }: SessionError): boolean => _tag === "NotFound" || _tag === "EventsUnknown"

const reopening = Schedule.min([Schedule.exponential("1 second"), Schedule.spaced("30 seconds")])

const isElsewhere = ({ reason }: SessionError): boolean => reason._tag === "Elsewhere"

/** Below this a busy process misses a refresh of its locks, and loses its shards. */
const shortestLock = Duration.seconds(10)

/**
 * The sessions that a runner leaves. Where the runner stops, an entity waits until its session has ended. At another close of it, such as
 * the loss of its database, the cluster moves no shard of the runner before all entities have closed. So the session ends in the scope
 * of the runner then: a tool under way may finish there, and its result is stored if the session is still of this owner.
 */
const leavingOf = Effect.gen(function* () {
  const runner = yield* Effect.scope
  const { isShutdown } = yield* Sharding.Sharding
  const leaving = new Map<string, Fiber.Fiber<void>>()
  return {
    /** Waits until the runner has left a session. */
    left: (id: string) =>
      Effect.suspend(() =>
        Option.match(Option.fromUndefinedOr(leaving.get(id)), {
          onNone: () => Effect.void,
          onSome: (fiber) => Effect.asVoid(Fiber.await(fiber))
        })
      ),
    leave: (id: string, end: Effect.Effect<void>) =>
      Effect.gen(function* () {
        if (yield* isShutdown) return yield* end
        const ended = Effect.ensuring(
          Effect.uninterruptible(end),
          Effect.sync(() => leaving.delete(id))
        )
        leaving.set(id, yield* Effect.forkIn(ended, runner))
      })
  }
})

/** Logs once that the locks of the shards end too soon. */
const warnOf = () => {
  let isLogged = false
  return Effect.flatMap(Effect.serviceOption(ShardingConfig.ShardingConfig), (config) => {
    const time = Option.map(config, ({ shardLockExpiration }) => Duration.fromInputUnsafe(shardLockExpiration))
    if (isLogged || !Option.exists(time, (time) => Duration.isLessThan(time, shortestLock))) return Effect.void
    isLogged = true
    return Effect.logWarning(
      "sessions: expected a shardLockExpiration of at least 10 seconds. With a shorter time a busy process loses its sessions again and again"
    )
  })
}

/**
 * The calls of one session.
 *
 * `live` is the session in memory: there while a call or a turn uses it, and for `idleTime` after that. Its events are
 * published to the readers, who take part in that only while they read what is stored.
 */
const actorOf = Effect.fnUntraced(function* (
  host: LocalHost["host"],
  idleTime: Duration.Duration,
  { leave, left }: Effect.Success<typeof leavingOf>,
  sendTurn: (id: string) => Effect.Effect<void, documents.Reason>
) {
  const scope = yield* Effect.scope
  const { entityId } = yield* Entity.CurrentAddress
  const hub = yield* PubSub.sliding<events.Entry | Removed>(hubSize)
  const drafts = new Drafts()
  let sessionId = ""
  let newest: EventPlace | undefined
  let isTurnSent = false

  const onBusy = (id: string) =>
    Effect.suspend(() => (isTurnSent ? Effect.void : Effect.map(sendTurn(id), () => void (isTurnSent = true))))

  const publish = (entry: events.Entry) => {
    newest = cursors.placeOf(entry)
    return PubSub.publish(hub, entry)
  }

  /** Publishes the events of a session, and of the next one under its id. */
  const publishAll = (session: LiveSession): Effect.Effect<void, SessionError> =>
    Effect.suspend(() => Stream.runForEach(readers.events(session, newest ?? cursors.start), publish)).pipe(
      Effect.catchIf(wasRemoved, () => {
        const removed = newest ?? cursors.start
        newest = cursors.start
        return Effect.andThen(PubSub.publish(hub, { removed }), publishAll(session))
      })
    )

  const live: RcRef.RcRef<LiveSession, SessionError> = yield* RcRef.make({
    acquire: Effect.gen(function* () {
      const id = sessionId
      yield* left(id)
      const apart = yield* Scope.make()
      yield* Effect.addFinalizer((exit) => leave(id, Scope.close(apart, exit)))
      const opened = liveSession.open(
        {
          ...host,
          drafts,
          isExclusive: true,
          markOf: () => undefined,
          onBusy,
          onTurn: () => Effect.void,
          onIdle: () => Effect.void
        },
        id
      )
      const session = yield* Scope.provide(opened, apart)
      newest ??= newestOf(yield* liveSession.state(session))
      const canContinue = (error: SessionError) => types.isStoreDown(error) || isElsewhere(error)
      const published = Effect.retry(publishAll(session), { while: canContinue, schedule: reopening })
      yield* Effect.forkScoped(Effect.ignore(published))
      // In another scope, because `invalidate` closes the scope of the session
      const forget = Effect.forkIn(RcRef.invalidate(live), scope)
      yield* Effect.forkScoped(Effect.catch(liveSession.lost(session), () => forget))
      return session
    }),
    idleTimeToLive: idleTime
  })

  /** A call that was made by hand may name another session than the session that it was sent to. */
  const open = (id: string): Effect.Effect<LiveSession, SessionError, Scope.Scope> => {
    if (entityIdOf(id) !== entityId) {
      const problem = `expected the session that the call was sent to, got ${base.quote(id)}`
      return Effect.fail(new types.SessionError({ id, reason: { _tag: "ArgumentInvalid", problem } }))
    }
    sessionId = id
    return RcRef.get(live)
  }

  const use = <A>(id: string, run: (session: LiveSession) => Effect.Effect<A, SessionError>) =>
    Effect.scoped(Effect.flatMap(open(id), run))

  /** The events after a place, up to a stored event. */
  const between = (id: string, after: EventPlace, last: number) =>
    last <= after.sequence
      ? Stream.empty
      : Stream.unwrap(Effect.map(open(id), (session) => readers.events(session, after))).pipe(
          Stream.takeUntil(({ sequence }) => sequence >= last)
        )

  const events = (id: string, after: EventPlace) =>
    Effect.gen(function* () {
      const published = yield* PubSub.subscribe(hub)
      const notFound = new types.SessionError({ id, reason: { _tag: "NotFound" } })
      const known = newest
      const last =
        known !== undefined && cursors.hasPlace(known, after) ? known : newestOf(yield* use(id, liveSession.state))
      if (!cursors.hasPlace(last, after)) {
        return yield* last.sequence === 0 ? notFound : types.eventsUnknown(id, after, last)
      }
      let seen = last
      const following = Stream.flatMap(Stream.fromSubscription(published), (next) => {
        const before = seen
        if ("removed" in next) return next.removed.life === before.life ? Stream.fail(notFound) : Stream.empty
        const { life, sequence } = cursors.placeOf(next)
        // If the session was removed and created again, reading continues in the old session, which fails
        seen = { life: before.life ?? life, sequence: Math.max(before.sequence, sequence) }
        return isNext(before, { life, sequence }) ? Stream.succeed(next) : between(id, before, sequence)
      })
      return Stream.concat(between(id, after, last.sequence), following)
    }).pipe(Stream.unwrap)

  /** Waits until no turn is left, after what is being stored now. */
  const untilIdle = (session: LiveSession) => Effect.andThen(liveSession.state(session), liveSession.idle(session))

  const turn = (id: string) =>
    use(id, (session) => {
      isTurnSent = true
      return Effect.andThen(untilIdle(session), () => {
        isTurnSent = false
        // A message that was stored before that relies on this turn
        return untilIdle(session)
      })
    }).pipe(
      Effect.tapError((error) => Effect.logWarning(`${error.message}. Its turn waits`)),
      Effect.retry({ while: ({ reason }) => reason._tag !== "ArgumentInvalid", schedule: reopening }),
      Effect.ignore
    )

  /** A session that is not in memory has no drafts. */
  const written = (id: string) =>
    Effect.map(use(id, liveSession.state), (found) => ({ drafts, newest: newestOf(found).sequence }))

  return {
    events,
    written,
    turn,
    /** Tries again when another process has written: the cluster decides which of the two has the session. */
    use: <A>(id: string, run: (session: LiveSession) => Effect.Effect<A, SessionError>) =>
      Effect.retry(use(id, run), { while: isElsewhere, schedule: Schedule.spaced("1 second"), times: 5 })
  }
})

const newestOf = (found: Option.Option<types.State>): EventPlace =>
  Option.match(found, { onNone: () => cursors.start, onSome: cursors.placeOf })

/** The sessions of a runner. */
export const layer = (
  { host, idleTime, listChanges, namespace }: Omit<LocalHost, "store">,
  retention: Duration.Duration
) => {
  const entity = entityOf(namespace)
  const warn = warnOf()
  const build = (leaving: Effect.Success<typeof leavingOf>) =>
    Effect.gen(function* () {
      yield* warn
      const client = yield* entity.client
      const { turn, use, ...readers } = yield* actorOf(host, idleTime, leaving, (id) =>
        Effect.mapError(
          Effect.asVoid(service.callOf<ClusterError>(client(entityIdOf(id)), "Turn")({ id }, { discard: true })),
          storeFailed(id)
        )
      )
      const handlers = handlersOf({ host, listChanges }, use, readers)
      return {
        Turn: ({ payload: { id = "" } }: { readonly payload: Sent }) => turn(id),
        ...Object.fromEntries(
          service.all.map(([name]) => [
            rpcName(name),
            ({ payload }: { readonly payload: Sent }) => {
              const { id = "", ...members } = payload.body ?? payload
              return service.callOf(handlers, name)(id, members)
            }
          ])
        )
      }
    })
  const entities = Effect.map(leavingOf, (leaving) =>
    entity.toLayer(build(leaving), { concurrency: "unbounded", maxIdleTime: idleTime, disableFatalDefects: true })
  )
  return Layer.merge(Layer.unwrap(entities), clusterTables.retention(entity.type, retention))
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
      ? new types.SessionError({ id, reason: { _tag: "Unreachable", problem: problems[error._tag] } })
      : error

const tryingFor = (timeout: Duration.Duration) =>
  Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")]).pipe(
    Schedule.upTo({ duration: Duration.times(timeout, 3) })
  )

/**
 * The values of a stream, wherever its session is, after the last value that was seen. `ask` asks the runner that has the session, and
 * asks again where the runner stops, or is silent for long.
 *
 * When a runner dies, the cluster sends the first request again, whose answer begins with values that were seen long ago. So
 * the first of them ends that request, and a new one asks for what follows.
 */
export const follow = <P, A, E extends SessionError | ClusterError>(options: {
  readonly id: string
  readonly payload: P
  readonly next: ((payload: P, value: A) => P | undefined) | undefined
  readonly timeout: Duration.Duration
  readonly ask: (payload: P) => Stream.Stream<A, E>
}): Stream.Stream<A, SessionError> =>
  Stream.suspend(() => {
    const { ask, id, next, timeout } = options
    let { payload } = options
    const asked: Stream.Stream<A, SessionError | ClusterError> = Stream.suspend(() => ask(payload))
    const answers = answered(id, timeout)
    // The first value of a stream that was begun anew, where nothing has changed
    if (next === undefined) return Stream.changes(answers(asked))
    return answers(
      Stream.mapEffect(asked, (value) => {
        const following = next(payload, value)
        if (following === undefined) return Effect.fail<Moved>({ _tag: "Moved" })
        payload = following
        return Effect.succeed(value)
      })
    )
  })

/** A stream from the runner that has a session. It is asked for again where the runner stops, or is silent for long. */
const answered =
  (id: string, timeout: Duration.Duration) =>
  <A>(asked: Stream.Stream<A, SessionError | ClusterError>): Stream.Stream<A, SessionError> =>
    asked.pipe(
      Stream.timeout(timeout),
      Stream.catchCause((cause) => Stream.fromEffect(toClusterError(cause))),
      Stream.retry(
        tryingFor(timeout).pipe(
          Schedule.setInputType<SessionError | ClusterError>(),
          Schedule.while(
            ({ input }) =>
              canRetry(input) || (!isClusterError(input) && (types.isStoreDown(input) || isElsewhere(input)))
          )
        )
      ),
      Stream.mapError(unreachable(id)),
      Stream.repeat(Schedule.spaced("100 millis"))
    )

/**
 * The sessions that the runners have. Every call can be made twice, so a call without an answer is made again.
 *
 * A runner that was paused, or whose machine is gone, does not close its connections. So a runner that is silent for
 * `timeout` is asked again, wherever the session is then.
 */
export const makeService = Effect.fnUntraced(function* (namespace: string, timeoutOption: Duration.Input) {
  yield* callOptions.check("sessions", { timeout: callOptions.endingTime() }, { timeout: timeoutOption })
  const timeout = Duration.fromInputUnsafe(timeoutOption)
  const client = yield* entityOf(namespace).client
  const trying = tryingFor(timeout)
  const call = (to: string, name: string) =>
    service.callOf<SessionError | ClusterError>(client(entityIdOf(to)), rpcName(name))
  const addressed = ({ about }: service.AnyOperation, id: string, payload: service.Payload): Sent =>
    about === "session" ? { ...payload, id } : payload
  return service.make(
    Effect.fnUntraced(function* (name, operation, id, given) {
      const payload = yield* operation.prepare(id, given)
      const to = operation.at(id, payload)
      const body = addressed(operation, id, payload)
      const message = operation.isKept ? { key: yield* storeKeys.nonce, body } : body
      return yield* Effect.suspend(() => call(to, name)(message)).pipe(
        Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail<Moved>({ _tag: "Moved" }) }),
        Effect.catchCause(toClusterError),
        Effect.retry({ while: canRetry, schedule: trying }),
        Effect.mapError(unreachable(to))
      )
    }),
    (name, operation, id, payload) => {
      const to = operation.at(id, payload)
      const ask = (payload: service.Payload) => call(to, name)(addressed(operation, id, payload))
      return follow({ id: to, payload, next: operation.next, timeout, ask })
    }
  )
})
