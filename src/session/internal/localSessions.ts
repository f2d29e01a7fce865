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
import * as agentValue from "../../agent/internal/agentValue.ts"
import * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as leases from "../../store/internal/leases.ts"
import type * as documents from "../../store/internal/documents.ts"
import * as journal from "../../store/internal/journal.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"
import * as base from "../../payload/internal/base.ts"
import { Limits } from "../../payload/internal/limits.ts"
import * as callOptions from "../../payload/internal/options.ts"
import { defined } from "../../payload/internal/values.ts"
import { Drafts } from "./drafts.ts"
import * as listChanges from "./listChanges.ts"
import * as liveReaders from "./liveReaders.ts"
import * as liveSession from "./liveSession.ts"
import * as readers from "./readers.ts"
import * as turns from "./turns.ts"
import type { LiveSession } from "./turns.ts"
import * as storedDefinitions from "./storedDefinitions.ts"
import * as cursors from "./cursors.ts"
import type * as events from "./events.ts"
import * as fold from "./fold.ts"
import * as list from "./list.ts"
import * as eventLog from "./eventLog.ts"
import * as service from "./service.ts"
import * as types from "./types.ts"
import * as sharedUses from "./sharedUses.ts"
import * as writer from "./writer.ts"
import * as sharedValues from "./sharedValues.ts"
import * as stepWrites from "./stepWrites.ts"
import * as turnEvents from "./turnEvents.ts"

interface LocalOptions<out Decode extends types.Definitions | undefined = undefined> extends types.Options<Decode> {
  readonly leaseTime?: Duration.Input | undefined
  readonly drainTime?: Duration.Input | undefined
}

const invalid = (expected: string, found: string): Effect.Effect<never> =>
  Effect.die(new Error(`sessions: expected ${expected}, got ${found}`))

const allowed = {
  leaseTime: callOptions.endingTime("1 milli"),
  idleTime: callOptions.time,
  drainTime: callOptions.time,
  keepEvents: callOptions.wholeFrom(0),
  maxQueue: callOptions.wholeFrom(1),
  expiresAfter: callOptions.someTime,
  budget: ledger.allowed,
  run: callOptions.group(agentTypes.runOptions)
}

/** The services around, without the span in which the layer was built: turns are in the traces of the calls that begin them. */
const withoutParent = <R>(context: Context.Context<R>): Context.Context<R> =>
  // Sound: `ParentSpan` is a reference, which no R names
  Context.omit(Tracer.ParentSpan)(context) as Context.Context<R>

/** The agents by name, and the way to make agents that messages carry, over the services around. */
export const agentsOf = Effect.fnUntraced(function* <
  Agents extends ReadonlyArray<types.Hosted<unknown, unknown>>,
  Decode extends types.Definitions | undefined = undefined
>(hosted: Agents, definitions?: Decode) {
  type Services = types.HostedServices<Agents[number]> | types.DefinitionsServices<Decode>
  // Sound: the services and the errors of each agent are among these of all.
  const all = hosted as ReadonlyArray<types.Hosted<unknown, unknown>> as ReadonlyArray<
    types.Hosted<Services, types.HostedError<Agents[number]>>
  >
  // Sound: the services of what `definitions` returns are among these.
  const make = definitions as types.Definitions | undefined as
    | ((...args: Parameters<types.Definitions>) => types.Hosted<Services, { readonly message: string }>)
    | undefined
  if (all.length === 0 && make === undefined) return yield* invalid("an agent, a plan or definitions", "none")
  const context = withoutParent(yield* Effect.context<Services>())
  const find = <E>(one: types.Hosted<Services, E>) =>
    Effect.map(Effect.provideContext(Effect.isEffect(one) ? one : Effect.succeed(one), context), (agent) =>
      agentValue.over(agent, context)
    )
  const agents = new Map<string, agentTypes.Agent<unknown>>()
  for (const one of all) {
    const agent = yield* find(one)
    if (agents.has(agent.name)) return yield* invalid("agents with different names", `two of ${base.quote(agent.name)}`)
    agents.set(agent.name, agent)
  }
  const decode: storedDefinitions.Decode | undefined = make && ((definition) => find(make(definition)))
  return { agents, decode }
})

/** A store, and what is the same for all sessions in it. */
export interface LocalHost {
  readonly store: VersionedStore.Service
  readonly namespace: string
  readonly idleTime: Duration.Duration
  readonly listChanges: service.Service["listChanges"]
  readonly host: Omit<writer.Host, "markOf" | "onBusy" | "onTurn" | "onIdle" | "isExclusive" | "drafts">
}

export const hostOf = Effect.fnUntraced(function* <
  Agents extends ReadonlyArray<types.Hosted<unknown, unknown>>,
  Decode extends types.Definitions | undefined
>(store: VersionedStore.Service, hosted: Agents, options: LocalOptions<Decode>) {
  const { keepEvents = Number.POSITIVE_INFINITY, maxQueue = 100, namespace = "session" } = options
  yield* callOptions.check("sessions", allowed, options)
  const leaseTime = Duration.fromInputUnsafe(options.leaseTime ?? "10 seconds")
  const limits = options.budget && ledger.limitsOf(options.budget)
  const { agents, decode } = yield* agentsOf(hosted, options.definitions)
  const sessions = eventLog.make(store, namespace, keepEvents)
  const uses = sharedUses.make(store, namespace)
  const writes = stepWrites.make(store, namespace, uses)
  const definitions = storedDefinitions.make(store, namespace, uses, { agents, decode })
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
      expiresAfter: options.expiresAfter === undefined ? undefined : Duration.fromInputUnsafe(options.expiresAfter),
      tried: new Set(),
      patience: Duration.times(leaseTime, 3),
      definitions,
      budgets: limits === undefined ? [] : [{ scope: ledger.session, limits }],
      models: options.models ?? [],
      run: options.run,
      instructions: options.instructions ?? "latest"
    }
  }
  return local
})

/** The marks of sessions with a turn to run. Each is set and removed by the owner of its session. */
const makeMarks = ({ namespace, store }: LocalHost) => {
  const prefix = `${storeKeys.rootKey(namespace)}busy/`
  const ours = new Map<string, journal.Mark>()

  return {
    of: (id: string): journal.Mark => {
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
    remove: (id: string, version: string) => journal.removeMark(store, { key: prefix + id, version }),
    removeOurs: (id: string) =>
      Effect.suspend(() => {
        const mark = ours.get(id)
        ours.delete(id)
        return mark === undefined ? Effect.void : journal.removeMark(store, mark)
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

const isElsewhere = ({ reason }: types.SessionError): boolean => reason._tag === "Elsewhere"

const isDamaged = ({ reason }: types.SessionError): boolean => reason._tag === "Unreadable" || reason._tag === "Damaged"

const failOf = (id: string) => (reason: types.Reason) => new types.SessionError({ id, reason })

/** Removes a session, also if it cannot be opened. */
const removing =
  ({ shared }: Pick<writer.Host, "shared">, id: string) =>
  (removed: Effect.Effect<boolean, types.SessionError>): Effect.Effect<boolean, types.SessionError> =>
    Effect.catchIf(removed, isDamaged, () => Effect.mapError(shared.remove(id), failOf(id)))

/** The conversation of a session, with the messages that wait behind it. A call without a result gets one. */
const withWaiting = Effect.fnUntraced(function* (state: fold.SessionState) {
  const waiting = fold.waitingMessages(state)
  if (Chunk.isEmpty(waiting)) return fold.conversationOf(state)
  const run = state.run === undefined ? undefined : yield* turnEvents.closed(state.run, state.run.context)
  return yield* Effect.reduce(
    waiting,
    () => fold.conversationOf({ ...state, ...defined({ run }) }),
    (conversation, { input, messageId }) => Conversation.addUser(conversation, input, { id: messageId })
  )
})

/** The conversation of a session; with `untilDamage` the part of it before the first damaged event. */
const readingUntilDamage =
  (sessions: eventLog.SessionLog, id: string, { untilDamage }: types.HistoryOptions) =>
  (
    history: Effect.Effect<Conversation.Conversation, types.SessionError>
  ): Effect.Effect<Conversation.Conversation, types.SessionError> =>
    Effect.catchIf(
      history,
      (error) => untilDamage === true && isDamaged(error),
      (error) =>
        Effect.matchEffect(sessions.readable(id), {
          onFailure: () => Effect.fail(error),
          onSuccess: Option.match({
            onNone: () => Effect.fail(error),
            onSome: (state) => Effect.mapError(withWaiting(state), () => error)
          })
        })
    )

/** Sends a call to the session in memory of this process. */
type Use = <A>(
  id: string,
  run: (session: LiveSession) => Effect.Effect<A, types.SessionError>
) => Effect.Effect<A, types.SessionError>

/** The readers of a session, wherever in this process it is. */
export interface Readers {
  readonly events: (id: string, after: cursors.EventPlace) => Stream.Stream<events.Entry, types.SessionError>
  /** The drafts of the session, and the number of its newest event. */
  readonly written: (
    id: string
  ) => Effect.Effect<Pick<liveReaders.Options, "drafts" | "newest">, types.SessionError, Scope.Scope>
}

/** A live reader looks at most this often by default. */
const everyDefault = Duration.millis(20)

const liveOf = (of: Readers, id: string, { after, every = everyDefault }: types.LiveOptions) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const place = yield* types.checkAfter(id, after)
      return liveReaders.live({
        ...(yield* of.written(id)),
        entries: (from) => of.events(id, from),
        after: place,
        every: Duration.toMillis(Duration.fromInputUnsafe(every))
      })
    })
  )

/** The handlers of the operations, in the process that has the sessions. */
export const handlersOf = (
  { host, listChanges }: Pick<LocalHost, "host" | "listChanges">,
  use: Use,
  live: Readers
): service.Handlers => ({
  // The operations of a session in memory, which those below replace in part
  ...service.each<service.Handlers>(
    (name, { at }) =>
      (id: string, payload: service.Payload) =>
        use(at(id, payload), (session) => service.callOf(liveSession.answersOf(session), name)(id, payload))
  ),
  send: (id, payload) =>
    use(id, (session) => liveSession.answersOf(session).send(id, payload)).pipe(rejectedWhenBusy(payload)),
  history: (id, payload) =>
    use(id, (session) => liveSession.answersOf(session).history(id, payload)).pipe(
      readingUntilDamage(host.sessions, id, payload)
    ),
  remove: (id, payload) =>
    use(id, (session) => liveSession.answersOf(session).remove(id, payload)).pipe(removing(host, id)),
  events: (id, { after }) => Stream.unwrap(Effect.map(types.checkAfter(id, after), (place) => live.events(id, place))),
  live: (id, options) => liveOf(live, id, options),
  read: (_, { key }) => Effect.mapError(host.writes.read(key), failOf(key)),
  list: (_, options) => list.page(host.sessions, options),
  listChanges: (_, options) => listChanges(options),
  shared: (_, options) => Effect.mapError(host.shared.page(options), failOf("")),
  prune: (_, options) => Effect.mapError(host.shared.prune(options), failOf(""))
})

/** A message that is not to wait finds a session in another process busy. */
const rejectedWhenBusy = ({ whenBusy }: types.SendOptions) =>
  Effect.mapError((error: types.SessionError) =>
    whenBusy === "reject" && isElsewhere(error) ? failOf(error.id)({ _tag: "Busy", status: "running" }) : error
  )

/** A message is tried again this often while another process has the session in a turn. */
const pollInterval = Duration.millis(250)

/** Readers wait this long for a store that fails: the session continues by itself when it is back. */
const patienceToRead = Duration.seconds(90)

/** Another process took the session over, or the store fails for a while. */
const untilReadable = Schedule.spaced(pollInterval).pipe(
  Schedule.setInputType<types.SessionError>(),
  Schedule.while(
    ({ elapsed, input }) =>
      isElsewhere(input) || (types.isStoreDown(input) && elapsed < Duration.toMillis(patienceToRead))
  )
)

/** Finds the sessions that other processes left in a turn, and runs these turns. */
const sweeperOf = (
  local: LocalHost,
  marks: ReturnType<typeof makeMarks>,
  fork: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<void>,
  run: (id: string) => Effect.Effect<void, types.SessionError>
) => {
  const waking = new Set<string>()
  const reported = new Set<string>()

  /** A session whose turn cannot be run is tried again later, and logged once, unless another process has it. */
  const report = (
    id: string,
    cause: Cause.Cause<types.SessionError | documents.Reason | VersionedStore.VersionedStoreError>
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
  ): Effect.Effect<void, types.SessionError | documents.Reason | VersionedStore.VersionedStoreError> =>
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
        return yield* new types.SessionError({
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
  open: Effect.Effect<LiveSession, types.SessionError, Scope.Scope>,
  after: cursors.EventPlace
): Stream.Stream<events.Entry, types.SessionError> =>
  Stream.suspend(() => {
    let seen = after
    return Stream.unwrap(
      Effect.map(
        Effect.suspend(() => open),
        (session) => readers.events(session, seen)
      )
    ).pipe(
      Stream.map((entry) => {
        seen = cursors.placeOf(entry)
        return entry
      }),
      Stream.retry(untilReadable)
    )
  })

/** The service over sessions in memory. */
export const make = Effect.fnUntraced(function* (
  local: LocalHost
): Effect.fn.Return<service.Service, never, Scope.Scope> {
  const scope = yield* Effect.scope
  const marks = makeMarks(local)
  /** The limits of the layer hold for all that is stored and read. */
  const limits = Context.get(local.host.context, Limits)
  const ofLayer = Effect.provideService(Limits, limits)

  const resident = new Set<LiveSession>()

  /** A session has its drafts while it is in memory, or read live. */
  const drafts = yield* RcMap.make({ lookup: (_: string) => Effect.sync(() => new Drafts()) })

  const host: Omit<writer.Host, "drafts"> = {
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

  const sessions: RcMap.RcMap<string, LiveSession, types.SessionError> = yield* RcMap.make({
    lookup: (id: string) =>
      Effect.gen(function* () {
        // RcMap would keep the error
        const opened = liveSession.open({ ...host, drafts: yield* RcMap.get(drafts, id) }, id)
        const session = yield* Effect.tapCause(opened, () => RcMap.invalidate(sessions, id))
        yield* Effect.acquireRelease(
          Effect.sync(() => resident.add(session)),
          () => Effect.sync(() => resident.delete(session))
        )
        // A session that was lost is opened again
        const forget = Effect.andThen(marks.forget(id), RcMap.invalidate(sessions, id))
        yield* Effect.forkScoped(Effect.catch(liveSession.lost(session), () => forget))
        return session
        // The map keeps failures as it keeps sessions
      }).pipe(Effect.tapError(() => RcMap.invalidate(sessions, id))),
    idleTimeToLive: local.idleTime
  })

  const using: Use = (id, use) => Effect.scoped(Effect.flatMap(RcMap.get(sessions, id), use))

  /** Keeps a session in memory until it is idle. */
  const stay = (id: string): Effect.Effect<void> => fork(Effect.ignore(ofLayer(using(id, readers.untilIdle))))

  yield* Effect.addFinalizer(() =>
    Effect.suspend(() =>
      Effect.forEach(resident, (session) => Effect.exit(turns.drain(session)), {
        concurrency: "unbounded",
        discard: true
      })
    )
  )
  yield* sweeperOf(local, marks, fork, (id) => ofLayer(using(id, liveSession.idle))).pipe(
    Effect.catchCause((cause) => Effect.logWarning("sessions: the store was not searched for turns", cause)),
    Effect.andThen(Effect.sleep(local.host.leaseTime)),
    Effect.forever,
    Effect.forkScoped
  )

  const listed: LocalHost["listChanges"] = (options) => Stream.retry(local.listChanges(options), untilReadable)
  const live: Readers = {
    events: (id, after) => eventsOf(RcMap.get(sessions, id), after),
    written: (id) =>
      Effect.gen(function* () {
        const session = yield* RcMap.get(sessions, id)
        yield* liveSession.state(session)
        return { drafts: yield* RcMap.get(drafts, id), newest: writer.sequenceOf(session) }
      }).pipe(Effect.retry(untilReadable))
  }
  const handlers = handlersOf({ ...local, listChanges: listed }, using, live)
  return service.make(
    (name, { prepare, waits }, id, payload) =>
      Effect.contextWith((context: Context.Context<never>) => {
        // The session checks the payload. The limits of a call hold for its input, too
        const isOurs = (context.mapUnsafe.get(Limits.key) ?? limits) === limits
        // A session that was lost a moment ago is opened again, and a turn in another process is waited for
        const call = service.callOf(handlers, name)(id, payload)
        const isWaitedFor = (error: types.SessionError) => waits && isElsewhere(error)
        // Most calls are answered at once, and a schedule is work
        const answered = Effect.catchIf(call, isWaitedFor, () =>
          Effect.retry(call, { while: isWaitedFor, schedule: Schedule.spaced(pollInterval) })
        )
        return Effect.andThen(isOurs ? Effect.void : prepare(id, payload), ofLayer(answered))
      }).pipe(Effect.withSpan(`Session.${name}`)),
    (name, _, id, payload) => Stream.provideService(service.callOf(handlers, name)(id, payload), Limits, limits)
  )
})
