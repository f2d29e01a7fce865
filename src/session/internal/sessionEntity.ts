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
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as storage from "../../store/internal/storage.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as clusterTables from "./clusterTables.ts"
import * as liveSession from "./liveSession.ts"
import { durationOf, failOf, type LocalHost, readingUntilDamage, removing } from "./localSessions.ts"
import * as sessionDefinitions from "./sessionDefinitions.ts"
import * as sessionDetails from "./sessionDetails.ts"
import * as sessionEvents from "./sessionEvents.ts"
import type { Place } from "./sessionEvents.ts"
import * as sessionList from "./sessionList.ts"
import * as sessionMessage from "./sessionMessage.ts"
import * as sessionTypes from "./sessionTypes.ts"
import * as sessionUses from "./sessionUses.ts"
import * as stepWrites from "./stepWrites.ts"
import type { Service, SessionError } from "./sessionTypes.ts"

// Messages between runners and clients of different releases: each has a version

const Call = Schema.Struct({ id: Schema.String })

const call = VersionedCodec.single({ what: "call of a session", value: Call }).schema

const historyCall = VersionedCodec.single({
  what: "call of a session",
  value: Schema.Struct({ ...Call.fields, untilDamage: Schema.optionalKey(Schema.Boolean) })
}).schema

const Input = Schema.Union([Schema.String, ToolResult.NonEmptyContent, planRunParts.InputParts])

const SendBody = VersionedCodec.single({
  what: "message to a session",
  value: Schema.Struct({
    ...Call.fields,
    messageId: Schema.String,
    input: Input,
    agent: Schema.optionalKey(Schema.String),
    context: Schema.optionalKey(runParts.Context),
    model: Schema.optionalKey(Schema.String),
    definition: Schema.optionalKey(sessionDefinitions.Definition),
    conversation: Schema.optionalKey(runParts.History),
    whenBusy: Schema.optionalKey(Schema.Literals(["queue", "reject"])),
    pending: Schema.optionalKey(Schema.Literals(["keep", "deny"])),
    title: Schema.optionalKey(Schema.String),
    metadata: Schema.optionalKey(runParts.Context),
    ifExists: Schema.optionalKey(sessionTypes.IfExists)
  }),
  data: ["/input", "/context", "/conversation", "/definition"]
}).schema

const EditBody = VersionedCodec.single({
  what: "edit of a message",
  value: Schema.Struct({
    ...Call.fields,
    messageId: Schema.String,
    newMessageId: Schema.String,
    input: Schema.optionalKey(Input),
    context: Schema.optionalKey(runParts.Context),
    model: Schema.optionalKey(Schema.String)
  }),
  data: ["/input", "/context"]
}).schema

const WithdrawBody = VersionedCodec.single({
  what: "call to withdraw a message",
  value: Schema.Struct({ ...Call.fields, messageId: Schema.String })
}).schema

const ForkBody = VersionedCodec.single({
  what: "fork of a session",
  value: Schema.Struct({
    ...Call.fields,
    from: Schema.String,
    at: Schema.optionalKey(Schema.Union([Schema.Number, Schema.String]))
  })
}).schema

const DecideBody = VersionedCodec.single({
  what: "decisions for a session",
  value: Schema.Struct({ ...Call.fields, decisions: Schema.NonEmptyArray(runParts.Decision) }),
  data: runParts.userData
}).schema

const UpdateBody = VersionedCodec.single({
  what: "details of a session",
  value: Schema.Struct({
    ...Call.fields,
    title: Schema.optionalKey(Schema.String),
    metadata: Schema.optionalKey(runParts.Context)
  })
}).schema

const listCall = VersionedCodec.single({
  what: "call for a list of sessions",
  value: Schema.Struct({
    prefix: Schema.optionalKey(Schema.String),
    after: Schema.optionalKey(Schema.String),
    limit: Schema.optionalKey(Schema.Number),
    agent: Schema.optionalKey(Schema.String),
    status: Schema.optionalKey(sessionEvents.Status),
    updatedAfter: Schema.optionalKey(runParts.Time),
    updatedBefore: Schema.optionalKey(runParts.Time),
    metadata: Schema.optionalKey(runParts.Context)
  }),
  data: ["/metadata"]
}).schema

const sharedCall = VersionedCodec.single({
  what: "call for what sessions share",
  value: Schema.Struct({
    kind: Schema.optionalKey(sessionUses.Kind),
    after: Schema.optionalKey(Schema.String),
    limit: Schema.optionalKey(Schema.Number)
  })
}).schema

const EventsPayload = VersionedCodec.single({
  what: "reader of a session",
  value: Schema.Struct({ ...Call.fields, after: Schema.Int, life: Schema.optionalKey(Schema.String) })
}).schema

const receipt = VersionedCodec.single({ what: "receipt of a command", value: sessionTypes.ReceiptSchema }).schema

const messageReceipt = VersionedCodec.single({
  what: "receipt of a message",
  value: sessionTypes.MessageReceiptSchema
}).schema

const state = VersionedCodec.single({
  what: "state of a session",
  value: Schema.Struct({ state: Schema.OptionFromNullOr(sessionTypes.StateSchema) }),
  data: runParts.userData
}).schema

const page = VersionedCodec.single({
  what: "list of sessions",
  value: sessionTypes.PageSchema
}).schema

const sharedPage = VersionedCodec.single({ what: "what sessions share", value: sessionUses.SharedPageSchema }).schema

const prunedPage = VersionedCodec.single({ what: "what was removed", value: sessionUses.PrunedPageSchema }).schema

const listChange = VersionedCodec.single({
  what: "change of the list of sessions",
  value: Schema.Struct({ change: sessionTypes.ListChangeSchema })
}).schema

const readCall = VersionedCodec.single({
  what: "call for the value of a step",
  value: Schema.Struct({ key: Schema.String })
}).schema

const written = VersionedCodec.single({
  what: "value of a step",
  value: Schema.Struct({ written: Schema.OptionFromNullOr(stepWrites.WrittenSchema) }),
  data: ["/written/value"]
}).schema

const entry = VersionedCodec.single({
  what: "event of a session",
  value: sessionEvents.EntrySchema,
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

export const entityOf = (namespace: string) =>
  Entity.make(`effect-emissary/Session/${nameOf(namespace, 100)}`, [
    Rpc.make("Send", { ...keyed(SendBody), success: messageReceipt, error }).annotateMerge(delivered),
    Rpc.make("Edit", { ...keyed(EditBody), success: messageReceipt, error }).annotateMerge(delivered),
    Rpc.make("Withdraw", { ...keyed(WithdrawBody), success: Schema.Boolean, error }).annotateMerge(delivered),
    Rpc.make("Fork", { ...keyed(ForkBody), success: receipt, error }).annotateMerge(delivered),
    Rpc.make("Decide", { ...keyed(DecideBody), success: receipt, error }).annotateMerge(delivered),
    Rpc.make("Resume", { ...keyed(call), success: receipt, error }).annotateMerge(delivered),
    // A runner that stops leaves the turn to the next one
    Rpc.make("Turn", { payload: call }).annotateMerge(delivered).annotate(ClusterSchema.InterruptOnTermination, true),
    Rpc.make("Events", { payload: EventsPayload, success: entry, error, stream: true }).annotate(
      ClusterSchema.InterruptOnTermination,
      true
    ),
    Rpc.make("Interrupt", { payload: call, success: receipt, error }),
    Rpc.make("State", { payload: call, success: state, error }),
    Rpc.make("Update", { ...keyed(UpdateBody), success: receipt, error }).annotateMerge(delivered),
    Rpc.make("List", { payload: listCall, success: page, error }),
    Rpc.make("ListChanges", { payload: listCall, success: listChange, error, stream: true }).annotate(
      ClusterSchema.InterruptOnTermination,
      true
    ),
    Rpc.make("Read", { payload: readCall, success: written, error }),
    Rpc.make("History", { payload: historyCall, success: Conversation.Conversation, error }),
    Rpc.make("Remove", { payload: call, success: Schema.Boolean, error }),
    Rpc.make("Shared", { payload: sharedCall, success: sharedPage, error }),
    Rpc.make("Prune", { payload: sharedCall, success: prunedPage, error })
  ])

/**
 * The calls carry the id of the session. A list, and the value of a step, is read from the store by any runner, so
 * that a client needs no store: the one that has the session whose id is the prefix or the key, which spreads these calls.
 */
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

/** True for the event right after the one that a reader has seen, of the same session: another one under its id may be as long. */
export const isNext = (seen: Place, { life, sequence }: Place): boolean =>
  sequence === seen.sequence + 1 && (seen.life === undefined || seen.life === life)

/** The session with this newest event was removed. */
interface Removed {
  readonly removed: Place
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
      "sessions: expected a shardLockExpiration of at least 10 seconds. With a shorter one a busy process loses its sessions again and again"
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
  sendTurn: (id: string) => Effect.Effect<void, storage.Reason>
) {
  const scope = yield* Effect.scope
  const { entityId } = yield* Entity.CurrentAddress
  const hub = yield* PubSub.sliding<sessionEvents.Entry | Removed>(hubSize)
  let sessionId = ""
  let newest: Place | undefined
  let hasTurn = false

  const onBusy = (id: string) =>
    Effect.suspend(() => (hasTurn ? Effect.void : Effect.map(sendTurn(id), () => void (hasTurn = true))))

  const publish = (entry: sessionEvents.Entry) => {
    newest = sessionEvents.placeOf(entry)
    return PubSub.publish(hub, entry)
  }

  /** Publishes the events of a session, and of the next one under its id. */
  const publishAll = (session: liveSession.LiveSession): Effect.Effect<void, SessionError> =>
    Effect.suspend(() => Stream.runForEach(session.events(newest ?? sessionEvents.start), publish)).pipe(
      Effect.catchIf(wasRemoved, () => {
        const removed = newest ?? sessionEvents.start
        newest = sessionEvents.start
        return Effect.andThen(PubSub.publish(hub, { removed }), publishAll(session))
      })
    )

  const live: RcRef.RcRef<liveSession.LiveSession, SessionError> = yield* RcRef.make({
    acquire: Effect.gen(function* () {
      const id = sessionId
      yield* left(id)
      const apart = yield* Scope.make()
      yield* Effect.addFinalizer((exit) => leave(id, Scope.close(apart, exit)))
      const opened = liveSession.open(
        {
          ...host,
          isExclusive: true,
          markOf: () => undefined,
          onBusy,
          onTurn: () => Effect.void,
          onIdle: () => Effect.void
        },
        id
      )
      const session = yield* Scope.provide(opened, apart)
      newest ??= newestOf(yield* session.state)
      const canContinue = (error: SessionError) => sessionTypes.isStoreDown(error) || isElsewhere(error)
      const published = Effect.retry(publishAll(session), { while: canContinue, schedule: reopening })
      yield* Effect.forkScoped(Effect.ignore(published))
      // In another scope than the one that this closes
      const forget = Effect.forkIn(RcRef.invalidate(live), scope)
      yield* Effect.forkScoped(Effect.catch(session.lost, () => forget))
      return session
    }),
    idleTimeToLive: idleTime
  })

  /** A call that was made by hand may name another session than the one that it was sent to. */
  const open = (id: string): Effect.Effect<liveSession.LiveSession, SessionError, Scope.Scope> => {
    if (entityIdOf(id) !== entityId) {
      const problem = `expected the session that the call was sent to, got ${base.quote(id)}`
      return Effect.fail(new sessionTypes.SessionError({ id, reason: { _tag: "ArgumentInvalid", problem } }))
    }
    sessionId = id
    return RcRef.get(live)
  }

  const use = <A>(id: string, run: (session: liveSession.LiveSession) => Effect.Effect<A, SessionError>) =>
    Effect.scoped(Effect.flatMap(open(id), run))

  /** The events after a place, up to a stored event. */
  const between = (id: string, after: Place, last: number) =>
    last <= after.sequence
      ? Stream.empty
      : Stream.unwrap(Effect.map(open(id), (session) => session.events(after))).pipe(
          Stream.takeUntil(({ sequence }) => sequence >= last)
        )

  const events = (id: string, after: Place) =>
    Effect.gen(function* () {
      const published = yield* PubSub.subscribe(hub)
      const notFound = new sessionTypes.SessionError({ id, reason: { _tag: "NotFound" } })
      const known = newest
      const last =
        known !== undefined && sessionEvents.hasPlace(known, after)
          ? known
          : newestOf(yield* use(id, (session) => session.state))
      if (!sessionEvents.hasPlace(last, after)) {
        return yield* last.sequence === 0 ? notFound : sessionTypes.eventsUnknown(id, after, last)
      }
      let seen = last
      const following = Stream.flatMap(Stream.fromSubscription(published), (next) => {
        const before = seen
        if ("removed" in next) return next.removed.life === before.life ? Stream.fail(notFound) : Stream.empty
        const { life, sequence } = sessionEvents.placeOf(next)
        // Where it is an event of the next session, this one is read on, which fails
        seen = { life: before.life ?? life, sequence: Math.max(before.sequence, sequence) }
        return isNext(before, { life, sequence }) ? Stream.succeed(next) : between(id, before, sequence)
      })
      return Stream.concat(between(id, after, last.sequence), following)
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
      Effect.retry({ while: ({ reason }) => reason._tag !== "ArgumentInvalid", schedule: reopening }),
      Effect.ignore
    )

  return {
    events,
    turn,
    /** Tries again when another process has written: the cluster decides which of the two has the session. */
    use: <A>(id: string, run: (session: liveSession.LiveSession) => Effect.Effect<A, SessionError>) =>
      Effect.retry(use(id, run), { while: isElsewhere, schedule: Schedule.spaced("1 second"), times: 5 })
  }
})

const newestOf = (found: Option.Option<sessionTypes.State>): Place =>
  Option.match(found, { onNone: () => sessionEvents.start, onSome: sessionEvents.placeOf })

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
      const { events, turn, use } = yield* actorOf(host, idleTime, leaving, (id) =>
        Effect.mapError(client(entityIdOf(id)).Turn({ id }, { discard: true }), storeFailed(id))
      )
      return entity.of({
        Send: ({
          payload: {
            body: { id, input, ...options }
          }
        }) => use(id, (session) => session.send(input, options)),
        Edit: ({
          payload: {
            body: { id, ...options }
          }
        }) => use(id, (session) => session.edit(options)),
        Withdraw: ({
          payload: {
            body: { id, messageId }
          }
        }) => use(id, (session) => session.withdraw(messageId)),
        Fork: ({
          payload: {
            body: { at, from, id }
          }
        }) => use(id, (session) => session.fork(from, at)),
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
        Events: ({ payload: { after, id, life } }) => events(id, { life, sequence: after }),
        State: ({ payload: { id } }) =>
          Effect.map(
            use(id, (session) => session.state),
            (state) => ({ state })
          ),
        Update: ({
          payload: {
            body: { id, ...details }
          }
        }) => use(id, (session) => session.update(details)),
        List: ({ payload }) => sessionList.page(host.sessions, payload),
        ListChanges: ({ payload }) => Stream.map(listChanges(payload), (change) => ({ change })),
        Read: ({ payload: { key } }) =>
          Effect.mapBoth(host.writes.read(key), {
            onFailure: (reason) => new sessionTypes.SessionError({ id: key, reason }),
            onSuccess: (written) => ({ written })
          }),
        History: ({ payload: { id, untilDamage } }) =>
          use(id, (session) => session.history).pipe(readingUntilDamage(host.sessions, id, untilDamage)),
        Remove: ({ payload: { id } }) => use(id, (session) => session.remove).pipe(removing(host, id)),
        Shared: ({ payload }) => Effect.mapError(host.shared.page(payload), failOf("")),
        Prune: ({ payload }) => Effect.mapError(host.shared.prune(payload), failOf(""))
      })
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
      ? new sessionTypes.SessionError({ id, reason: { _tag: "Unreachable", problem: problems[error._tag] } })
      : error

const tryingFor = (timeout: Duration.Duration) =>
  Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")]).pipe(
    Schedule.upTo({ duration: Duration.times(timeout, 3) })
  )

/**
 * The events of a session, wherever it is, after the last one that was seen. `ask` asks the runner that has it.
 *
 * When a runner dies, the cluster sends the first request again, whose answer begins with events that were seen long ago. So
 * the first of them ends that request, and a new one asks for what follows.
 */
export const follow = <E extends SessionError | ClusterError>(options: {
  readonly id: string
  readonly after: Place
  readonly timeout: Duration.Duration
  readonly ask: (after: Place) => Stream.Stream<sessionEvents.Entry, E>
}): Stream.Stream<sessionEvents.Entry, SessionError> => {
  let seen = options.after
  return Stream.suspend((): Stream.Stream<sessionEvents.Entry, SessionError | ClusterError> => options.ask(seen)).pipe(
    Stream.mapEffect((entry) => {
      if (entry.sequence <= seen.sequence) return Effect.fail<Moved>({ _tag: "Moved" })
      seen = sessionEvents.placeOf(entry)
      return Effect.succeed(entry)
    }),
    answered(options.id, options.timeout)
  )
}

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
              canRetry(input) || (!isClusterError(input) && (sessionTypes.isStoreDown(input) || isElsewhere(input)))
          )
        )
      ),
      Stream.mapError(unreachable(id)),
      Stream.repeat(Schedule.spaced("100 millis"))
    )

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

  const trying = tryingFor(timeout)

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

  const events = (id: string, after: number | string | undefined) =>
    Stream.unwrap(
      Effect.map(sessionTypes.checkAfter(id, after), (from) =>
        follow({
          id,
          after: from,
          timeout,
          ask: ({ life, sequence }) => client(entityIdOf(id)).Events({ id, after: sequence, ...defined({ life }) })
        })
      )
    )

  const service: Service = {
    send: Effect.fnUntraced(function* (id, input, options) {
      const messageId = options?.messageId ?? (yield* yield* Message.MessageId)
      const { agent, context, definition, model, conversation, ifExists, pending, whenBusy, ...details } = options ?? {}
      const refused = (reason: sessionTypes.Reason) => new sessionTypes.SessionError({ id, reason })
      const read = sessionMessage.read(messageId, input, { context, conversation, ifExists })
      const parts = yield* Effect.mapError(read, refused)
      const { metadata, title } = yield* Effect.mapError(sessionDetails.check(details), refused)
      if (definition !== undefined) yield* Effect.mapError(sessionDefinitions.check(definition), refused)
      const body = {
        id,
        messageId,
        input: parts.plan === undefined ? input : sessionMessage.inputOf(parts),
        ...defined({ agent, context, definition, model, conversation, ifExists, pending, whenBusy, metadata, title })
      }
      return yield* keyedCall(id, (session, key) => session.Send({ key, body }))
    }),
    edit: Effect.fnUntraced(function* (id, { context, input, messageId, model, newMessageId: given }) {
      const newMessageId = given ?? (yield* yield* Message.MessageId)
      const refused = (reason: sessionTypes.Reason) => new sessionTypes.SessionError({ id, reason })
      // A message without content of its own has the content of the one that is edited
      const read = sessionMessage.read(newMessageId, input ?? "again", { context, model })
      const parts = yield* Effect.mapError(read, refused)
      const edited = parts.plan === undefined ? input : sessionMessage.inputOf(parts)
      const body = { id, messageId, newMessageId, ...defined({ context, input: edited, model }) }
      return yield* keyedCall(id, (session, key) => session.Edit({ key, body }))
    }),
    withdraw: (id, messageId) => keyedCall(id, (session, key) => session.Withdraw({ key, body: { id, messageId } })),
    fork: (id, { at, to }) =>
      Effect.andThen(
        sessionTypes.checkAfter(id, at),
        keyedCall(to, (session, key) => session.Fork({ key, body: { id: to, from: id, ...defined({ at }) } }))
      ),
    decide: (id, decisions) =>
      sessionTypes.deciding(
        id,
        decisions,
        Effect.suspend(() => service.state(id)),
        (decisions) => keyedCall(id, (session, key) => session.Decide({ key, body: { id, decisions } }))
      ),
    resume: (id) => keyedCall(id, (session, key) => session.Resume({ key, body: { id } })),
    interrupt: (id) => call(id, (session) => session.Interrupt({ id })),
    events: (id, options) => events(id, options?.after),
    state: (id) =>
      Effect.map(
        call(id, (session) => session.State({ id })),
        ({ state }) => state
      ),
    history: (id, { untilDamage } = {}) => call(id, (session) => session.History({ id, ...defined({ untilDamage }) })),
    update: Effect.fnUntraced(function* (id, changed) {
      const refused = (reason: sessionTypes.Reason) => new sessionTypes.SessionError({ id, reason })
      const details = yield* Effect.mapError(sessionDetails.check(changed), refused)
      return yield* keyedCall(id, (session, key) => session.Update({ key, body: { id, ...details } }))
    }),
    read: (key) =>
      Effect.map(
        call(key, (session) => session.Read({ key })),
        ({ written }) => written
      ),
    list: (options = {}) => call(options.prefix ?? "", (session) => session.List(defined(options))),
    listChanges: ({ prefix = "", ...options } = {}) =>
      Stream.suspend(() => client(entityIdOf(prefix)).ListChanges({ prefix, ...defined(options) })).pipe(
        answered(prefix, timeout),
        Stream.map(({ change }) => change),
        // The page of a stream that was asked for again, where nothing has changed
        Stream.changes
      ),
    remove: (id) => call(id, (session) => session.Remove({ id })),
    shared: (options = {}) => call("", (session) => session.Shared(defined(options))),
    prune: (options = {}) => call("", (session) => session.Prune(defined(options)))
  }
  return service
})
