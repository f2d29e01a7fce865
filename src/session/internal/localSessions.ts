/**
 * Sessions of one process over a store, which other processes may share. Sessions are in memory while they are used or run a
 * turn. A mark in the store names each session that has a turn to run, so that another process can find it.
 */

import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as RcMap from "effect/RcMap"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as agentBlueprint from "../../agent/internal/agentBlueprint.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as leases from "../../store/internal/leases.ts"
import * as storage from "../../store/internal/storage.ts"
import * as base from "../../payload/internal/base.ts"
import { Limits } from "../../payload/internal/limits.ts"
import { defined } from "../../payload/internal/values.ts"
import * as listChanges from "./listChanges.ts"
import * as liveSession from "./liveSession.ts"
import * as sessionDefinitions from "./sessionDefinitions.ts"
import * as sessionEvents from "./sessionEvents.ts"
import * as sessionList from "./sessionList.ts"
import * as sessionLog from "./sessionLog.ts"
import * as sessionService from "./sessionService.ts"
import * as sessionTypes from "./sessionTypes.ts"
import * as sessionUses from "./sessionUses.ts"
import type * as sessionWriter from "./sessionWriter.ts"
import * as sharedValues from "./sharedValues.ts"
import * as stepWrites from "./stepWrites.ts"
import * as turnEvents from "./turnEvents.ts"

interface LocalOptions extends sessionTypes.Options {
  readonly leaseTime?: Duration.Input | undefined
  readonly drainTime?: Duration.Input | undefined
}

const invalid = (expected: string, found: string): Effect.Effect<never> =>
  Effect.die(new Error(`sessions: expected ${expected}, got ${found}`))

/** The duration of an option, which ends. Dies with another one. */
export const durationOf = (
  name: string,
  input: Duration.Input,
  least: Duration.Input = "1 milli"
): Effect.Effect<Duration.Duration> => {
  const duration = Option.getOrUndefined(Duration.fromInput(input))
  const isLong = duration !== undefined && Duration.isGreaterThanOrEqualTo(duration, Duration.fromInputUnsafe(least))
  return isLong && Duration.isFinite(duration)
    ? Effect.succeed(duration)
    : invalid(`a ${name} of at least ${String(least)} that ends`, String(input))
}

/** The services around, without the span in which the layer was built: turns are in the traces of the calls that begin them. */
const withoutParent = <R>(context: Context.Context<R>): Context.Context<R> =>
  // Sound: `ParentSpan` is a reference, which no R names
  Context.omit(Tracer.ParentSpan)(context) as Context.Context<R>

/** The agents by name, and the way to make agents that messages carry, over the services around. */
export const agentsOf = Effect.fnUntraced(function* <R>(hosted: ReadonlyArray<sessionTypes.Hosted<R>>) {
  const context = withoutParent(yield* Effect.context<R>())
  const agents = new Map<string, agentTypes.Agent<unknown>>()
  let decode: sessionDefinitions.Decode | undefined
  for (const one of hosted) {
    if (sessionTypes.definitionsTypeId in one) {
      if (decode !== undefined) return yield* invalid("one fromDefinitions", "two of them")
      decode = (definition) =>
        Effect.map(Effect.provideContext(one.decode(definition), context), (agent) =>
          agentBlueprint.over(agent, context)
        )
      continue
    }
    const agent = Effect.isEffect(one) ? yield* one : one
    if (agents.has(agent.name)) return yield* invalid("agents with different names", `two of ${base.quote(agent.name)}`)
    agents.set(agent.name, agentBlueprint.over(agent, context))
  }
  return { agents, decode }
})

/** A store, and what is the same for all sessions in it. */
export interface LocalHost {
  readonly store: VersionedStore.Service
  readonly namespace: string
  readonly idleTime: Duration.Duration
  readonly listChanges: sessionService.Service["listChanges"]
  readonly host: Omit<sessionWriter.Host, "markOf" | "onBusy" | "onTurn" | "onIdle" | "isExclusive">
}

export const hostOf = Effect.fnUntraced(function* <R>(
  store: VersionedStore.Service,
  hosted: ReadonlyArray<sessionTypes.Hosted<R>>,
  options: LocalOptions
) {
  const { keepEvents = Number.POSITIVE_INFINITY, maxQueue = 100, namespace = "session" } = options
  const leaseTime = yield* durationOf("leaseTime", options.leaseTime ?? "10 seconds")
  const isNumber = Number.isSafeInteger(keepEvents) || keepEvents === Number.POSITIVE_INFINITY
  if (!isNumber || keepEvents < 0) return yield* invalid("a whole number of keepEvents", String(keepEvents))
  const isLimit = Number.isSafeInteger(maxQueue) || maxQueue === Number.POSITIVE_INFINITY
  if (!isLimit || maxQueue < 1) return yield* invalid("a whole number of maxQueue from 1 on", String(maxQueue))
  const { agents, decode } = yield* agentsOf(hosted)
  const sessions = sessionLog.make(store, namespace, keepEvents)
  const uses = sessionUses.make(store, namespace)
  const writes = stepWrites.make(store, namespace, uses)
  const definitions = sessionDefinitions.make(store, namespace, uses, { agents, decode })
  const local: LocalHost = {
    store,
    namespace,
    idleTime: Duration.fromInputUnsafe(options.idleTime ?? "1 minute"),
    listChanges: yield* listChanges.make(sessions),
    host: {
      agents,
      context: withoutParent(yield* Effect.context<never>()),
      sessions,
      writes,
      shared: sharedValues.make({ store, namespace, sessions, uses, writes, definitions }),
      owners: leases.ownersOf(store, leaseTime),
      leaseTime,
      drainTime: Duration.fromInputUnsafe(options.drainTime ?? "10 seconds"),
      maxQueue,
      tried: new Set(),
      patience: Duration.times(leaseTime, 3),
      definitions,
      models: options.models ?? [],
      run: options.run,
      instructions: options.instructions ?? "latest"
    }
  }
  return local
})

/** The marks of sessions with a turn to run. Each is set and removed by the owner of its session. */
const makeMarks = ({ namespace, store }: LocalHost) => {
  const prefix = `${storage.rootKey(namespace)}busy/`
  const ours = new Map<string, storage.Mark>()

  return {
    of: (id: string): storage.Mark => {
      const mark = ours.get(id) ?? { key: prefix + id, version: undefined }
      ours.set(id, mark)
      return mark
    },
    isOurs: (id: string) => ours.get(id)?.version !== undefined,
    forget: (id: string) => Effect.sync(() => void ours.delete(id)),
    find: (id: string) =>
      Effect.map(
        store.get(prefix + id),
        Option.map(({ version }) => version)
      ),
    remove: (id: string, version: string) => storage.removeMark(store, { key: prefix + id, version }),
    removeOurs: (id: string) =>
      Effect.suspend(() => {
        const mark = ours.get(id)
        ours.delete(id)
        return mark === undefined ? Effect.void : storage.removeMark(store, mark)
      }),
    list: (after: string | undefined) =>
      Effect.map(
        store.list({ prefix, ...(after === undefined ? undefined : { after: prefix + after }) }),
        ({ keys, next }) => ({
          ids: keys.map((key) => key.slice(prefix.length)),
          next: Option.map(next, (key) => key.slice(prefix.length))
        })
      )
  }
}

const isElsewhere = ({ reason }: sessionTypes.SessionError): boolean => reason._tag === "Elsewhere"

const isDamaged = ({ reason }: sessionTypes.SessionError): boolean =>
  reason._tag === "Unreadable" || reason._tag === "Damaged"

const failOf = (id: string) => (reason: sessionTypes.Reason) => new sessionTypes.SessionError({ id, reason })

/** Removes a session, also if it cannot be opened. */
const removing =
  ({ shared }: Pick<sessionWriter.Host, "shared">, id: string) =>
  (removed: Effect.Effect<boolean, sessionTypes.SessionError>): Effect.Effect<boolean, sessionTypes.SessionError> =>
    Effect.catchIf(removed, isDamaged, () => Effect.mapError(shared.remove(id), failOf(id)))

/** The conversation of a session, with the messages that wait behind it. A call without a result gets one. */
const withWaiting = Effect.fnUntraced(function* (memory: sessionEvents.Memory) {
  const waiting = sessionEvents.waitingMessages(memory)
  if (Chunk.isEmpty(waiting)) return sessionEvents.conversationOf(memory)
  const run = memory.run === undefined ? undefined : yield* turnEvents.closed(memory.run, memory.run.context)
  return yield* Effect.reduce(
    waiting,
    () => sessionEvents.conversationOf({ ...memory, ...defined({ run }) }),
    (conversation, { input, messageId }) => Conversation.addUser(conversation, input, { id: messageId })
  )
})

/** The conversation of a session; with `untilDamage` the part of it before the first damaged event. */
const readingUntilDamage =
  (sessions: sessionLog.SessionLog, id: string, { untilDamage }: sessionTypes.HistoryOptions) =>
  (
    history: Effect.Effect<Conversation.Conversation, sessionTypes.SessionError>
  ): Effect.Effect<Conversation.Conversation, sessionTypes.SessionError> =>
    Effect.catchIf(
      history,
      (error) => untilDamage === true && isDamaged(error),
      (error) =>
        Effect.matchEffect(sessions.readable(id), {
          onFailure: () => Effect.fail(error),
          onSuccess: Option.match({
            onNone: () => Effect.fail(error),
            onSome: (memory) => Effect.mapError(withWaiting(memory), () => error)
          })
        })
    )

/** Sends a call to the session in memory of this process. */
type Use = <A>(
  id: string,
  run: (session: liveSession.LiveSession) => Effect.Effect<A, sessionTypes.SessionError>
) => Effect.Effect<A, sessionTypes.SessionError>

/** The handlers of the operations, in the process that has the sessions. */
export const handlersOf = (
  { host, listChanges }: Pick<LocalHost, "host" | "listChanges">,
  use: Use,
  events: (id: string, after: sessionEvents.Place) => Stream.Stream<sessionEvents.Entry, sessionTypes.SessionError>
): sessionService.Handlers => ({
  // The operations of a session in memory, which those below replace in part
  ...sessionService.each<sessionService.Handlers>(
    (name, { at }) =>
      (id: string, payload: sessionService.Payload) =>
        use(at(id, payload), ({ answers }) => sessionService.callOf(answers, name)(id, payload))
  ),
  send: (id, payload) => use(id, ({ answers }) => answers.send(id, payload)).pipe(rejectedWhenBusy(payload)),
  history: (id, payload) =>
    use(id, ({ answers }) => answers.history(id, payload)).pipe(readingUntilDamage(host.sessions, id, payload)),
  remove: (id, payload) => use(id, ({ answers }) => answers.remove(id, payload)).pipe(removing(host, id)),
  events: (id, { after }) =>
    Stream.unwrap(Effect.map(sessionTypes.checkAfter(id, after), (place) => events(id, place))),
  read: (_, { key }) => Effect.mapError(host.writes.read(key), failOf(key)),
  list: (_, options) => sessionList.page(host.sessions, options),
  listChanges: (_, options) => listChanges(options),
  shared: (_, options) => Effect.mapError(host.shared.page(options), failOf("")),
  prune: (_, options) => Effect.mapError(host.shared.prune(options), failOf(""))
})

/** A message that is not to wait finds a session in another process busy. */
const rejectedWhenBusy = ({ whenBusy }: sessionTypes.SendOptions) =>
  Effect.mapError((error: sessionTypes.SessionError) =>
    whenBusy === "reject" && isElsewhere(error) ? failOf(error.id)({ _tag: "Busy", status: "running" }) : error
  )

/** A message is tried again this often while another process has the session in a turn. */
const pollInterval = Duration.millis(250)

/** Readers wait this long for a store that fails: the session continues by itself when it is back. */
const patienceToRead = Duration.seconds(90)

/** Another process took the session over, or the store fails for a while. */
const untilReadable = Schedule.spaced(pollInterval).pipe(
  Schedule.setInputType<sessionTypes.SessionError>(),
  Schedule.while(
    ({ elapsed, input }) =>
      isElsewhere(input) || (sessionTypes.isStoreDown(input) && elapsed < Duration.toMillis(patienceToRead))
  )
)

/** Finds the sessions that other processes left in a turn, and runs these turns. */
const sweeperOf = (
  local: LocalHost,
  marks: ReturnType<typeof makeMarks>,
  fork: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<void>,
  run: (id: string) => Effect.Effect<void, sessionTypes.SessionError>
) => {
  const waking = new Set<string>()
  const reported = new Set<string>()

  /** A session whose turn cannot be run is tried again later, and logged once, unless another process has it. */
  const report = (
    id: string,
    cause: Cause.Cause<sessionTypes.SessionError | storage.Reason | VersionedStore.VersionedStoreError>
  ) =>
    Effect.suspend(() => {
      const error = Option.getOrUndefined(Cause.findErrorOption(cause))
      const tag = error !== undefined && "reason" in error ? error.reason._tag : undefined
      if (reported.has(id) || Cause.hasInterruptsOnly(cause) || tag === "Elsewhere") return Effect.void
      reported.add(id)
      return tag === "AgentUnknown"
        ? Effect.logWarning(`session ${base.quote(id)}: its turn is due, and waits for a process that has its agent`)
        : Effect.logError(`session ${base.quote(id)}: its turn is due and cannot be run, and is tried again`, cause)
    })

  /** Runs the turn that another process left, when its lease has ended. */
  const wake = (
    id: string
  ): Effect.Effect<void, sessionTypes.SessionError | storage.Reason | VersionedStore.VersionedStoreError> =>
    Effect.gen(function* () {
      const mark = yield* marks.find(id)
      if (Option.isNone(mark)) return
      const head = marks.isOurs(id) ? Option.none() : yield* local.host.sessions.log.head(id)
      const rest = Option.isNone(head) ? 0 : yield* local.host.owners.rest(head.value)
      if (rest > 0) {
        yield* Effect.sleep(Duration.millis(rest + 1))
        return yield* wake(id)
      }
      const { agents, definitions } = local.host
      const agent = Option.isNone(head) || definitions.areHosted ? undefined : head.value.head.agent
      if (agent !== undefined && !agents.has(agent)) {
        const known = Array.from(agents.keys())
        return yield* new sessionTypes.SessionError({
          id,
          reason: { _tag: "AgentUnknown", agent, known, isStored: true }
        })
      }
      yield* run(id)
      yield* marks.remove(id, mark.value)
    })

  const wakeOnce = (id: string) =>
    Effect.suspend(() => {
      if (waking.has(id)) return Effect.void
      waking.add(id)
      return fork(
        Effect.ensuring(
          Effect.matchCauseEffect(wake(id), {
            onFailure: (cause) => report(id, cause),
            onSuccess: () => Effect.sync(() => void reported.delete(id))
          }),
          Effect.sync(() => void waking.delete(id))
        )
      )
    })

  /** Resumes sessions that another process left in a turn. */
  const sweep = (after: string | undefined): Effect.Effect<void, VersionedStore.VersionedStoreError> =>
    Effect.flatMap(marks.list(after), ({ ids, next }) =>
      Effect.andThen(
        Effect.forEach(ids, wakeOnce, { discard: true }),
        Option.isSome(next) ? sweep(next.value) : Effect.void
      )
    )

  return sweep(undefined)
}

/** The events of a session, which continue where they were when another process takes the session over. */
const eventsOf = (
  open: Effect.Effect<liveSession.LiveSession, sessionTypes.SessionError, Scope.Scope>,
  after: sessionEvents.Place
): Stream.Stream<sessionEvents.Entry, sessionTypes.SessionError> =>
  Stream.suspend(() => {
    let seen = after
    return Stream.unwrap(
      Effect.map(
        Effect.suspend(() => open),
        ({ events }) => events(seen)
      )
    ).pipe(
      Stream.map((entry) => {
        seen = sessionEvents.placeOf(entry)
        return entry
      }),
      Stream.retry(untilReadable)
    )
  })

/** The service over sessions in memory. */
export const make = Effect.fnUntraced(function* (
  local: LocalHost
): Effect.fn.Return<sessionService.Service, never, Scope.Scope> {
  const scope = yield* Effect.scope
  const marks = makeMarks(local)
  /** The limits of the layer hold for all that is stored and read. */
  const limits = Context.get(local.host.context, Limits)
  const ofLayer = Effect.provideService(Limits, limits)

  const resident = new Set<liveSession.LiveSession>()

  const host: sessionWriter.Host = {
    ...local.host,
    isExclusive: false,
    markOf: marks.of,
    onBusy: () => Effect.void,
    onTurn: (id) => stay(id),
    onIdle: marks.removeOurs
  }

  const fork = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.asVoid(
      Effect.forkIn(
        Effect.updateContext(effect, (_: Context.Context<never>) => local.host.context),
        scope
      )
    )

  const sessions: RcMap.RcMap<string, liveSession.LiveSession, sessionTypes.SessionError> = yield* RcMap.make({
    lookup: (id: string) =>
      Effect.gen(function* () {
        // RcMap would keep the error
        const session = yield* Effect.tapCause(liveSession.open(host, id), () => RcMap.invalidate(sessions, id))
        yield* Effect.acquireRelease(
          Effect.sync(() => resident.add(session)),
          () => Effect.sync(() => resident.delete(session))
        )
        // A session that was lost is opened again
        const forget = Effect.andThen(marks.forget(id), RcMap.invalidate(sessions, id))
        yield* Effect.forkScoped(Effect.catch(session.lost, () => forget))
        return session
        // The map keeps failures as it keeps sessions
      }).pipe(Effect.tapError(() => RcMap.invalidate(sessions, id))),
    idleTimeToLive: local.idleTime
  })

  const using: Use = (id, use) => Effect.scoped(Effect.flatMap(RcMap.get(sessions, id), use))

  /** Keeps a session in memory until it is idle. */
  const stay = (id: string): Effect.Effect<void> =>
    fork(Effect.ignore(ofLayer(using(id, ({ untilIdle }) => untilIdle))))

  yield* Effect.addFinalizer(() =>
    Effect.suspend(() =>
      Effect.forEach(resident, ({ drain }) => Effect.exit(drain), { concurrency: "unbounded", discard: true })
    )
  )
  yield* sweeperOf(local, marks, fork, (id) => ofLayer(using(id, ({ idle }) => idle))).pipe(
    Effect.catchCause((cause) => Effect.logWarning("sessions: the store was not searched for turns", cause)),
    Effect.andThen(Effect.sleep(local.host.leaseTime)),
    Effect.forever,
    Effect.forkScoped
  )

  const listed: LocalHost["listChanges"] = (options) => Stream.retry(local.listChanges(options), untilReadable)
  const handlers = handlersOf({ ...local, listChanges: listed }, using, (id, after) =>
    eventsOf(RcMap.get(sessions, id), after)
  )
  return sessionService.make(
    (name, { prepare, waits }, id, payload) =>
      Effect.contextWith((context: Context.Context<never>) => {
        // The session checks the payload. The limits of a call hold for its input, too
        const isOurs = (context.mapUnsafe.get(Limits.key) ?? limits) === limits
        // A session that was lost a moment ago is opened again, and a turn in another process is waited for
        const answered = Effect.retry(sessionService.callOf(handlers, name)(id, payload), {
          while: (error) => waits && isElsewhere(error),
          schedule: Schedule.spaced(pollInterval)
        })
        return Effect.andThen(isOurs ? Effect.void : prepare(id, payload), ofLayer(answered))
      }).pipe(Effect.withSpan(`Session.${name}`)),
    (name, _, id, payload) => Stream.provideService(sessionService.callOf(handlers, name)(id, payload), Limits, limits)
  )
})
