/**
 * Sessions of one process over a store, which other processes may share. Sessions are in memory while they are used or run a
 * turn. A mark in the store names each session that has a turn to run, so that another process can find it.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as RcMap from "effect/RcMap"
import * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import type * as VersionedStore from "../../conversation/VersionedStore.ts"
import * as storage from "../../conversation/internal/storage.ts"
import * as liveSession from "./liveSession.ts"
import * as sessionLog from "./sessionLog.ts"
import * as sessionTypes from "./sessionTypes.ts"

interface LocalOptions extends sessionTypes.Options {
  readonly leaseTime?: Duration.Input | undefined
  readonly drainTime?: Duration.Input | undefined
}

/** The agents by name, over the services around. */
export const agentsOf = Effect.fnUntraced(function* <R>(hosted: ReadonlyArray<sessionTypes.Hosted<R>>) {
  const context = yield* Effect.context<R>()
  const agents = new Map<string, agentTypes.Agent<unknown>>()
  for (const one of hosted) {
    const agent = Effect.isEffect(one) ? yield* one : one
    agents.set(agent.name, {
      ...agent,
      run: (input, options) => Effect.provideContext(agent.run(input, options), context),
      ask: (input, options) => Effect.provideContext(agent.ask(input, options), context),
      stream: (input, options) => Stream.provideContext(agent.stream(input, options), context),
      resume: (state, options) => Effect.provideContext(agent.resume(state, options), context),
      resumeStream: (state, options) => Stream.provideContext(agent.resumeStream(state, options), context)
    })
  }
  return agents
})

/** A store, and what is the same for all sessions in it. */
export interface LocalHost {
  readonly store: VersionedStore.Service
  readonly namespace: string
  readonly idleTime: Duration.Duration
  readonly host: Omit<liveSession.Host, "onBusy" | "onIdle" | "isExclusive">
}

export const hostOf = Effect.fnUntraced(function* <R>(
  store: VersionedStore.Service,
  hosted: ReadonlyArray<sessionTypes.Hosted<R>>,
  options: LocalOptions
) {
  const { namespace = "session" } = options
  const leaseTime = Duration.fromInputUnsafe(options.leaseTime ?? "30 seconds")
  const local: LocalHost = {
    store,
    namespace,
    idleTime: Duration.fromInputUnsafe(options.idleTime ?? "1 minute"),
    host: {
      agents: yield* agentsOf(hosted),
      sessions: sessionLog.make(store, namespace, options.keepEvents ?? Number.POSITIVE_INFINITY),
      leaseTime,
      drainTime: Duration.fromInputUnsafe(options.drainTime ?? "10 seconds"),
      patience: leaseTime,
      run: options.run
    }
  }
  return local
})

/** A mark has no content, but a new version each time it is set: the process that set an older one cannot remove it. */
const makeMarks = ({ namespace, store }: LocalHost) => {
  const prefix = `${storage.rootKey(namespace)}busy/`
  const versions = new Map<string, string>()
  const reason = storage.reasonOf(prefix)

  const set = (id: string, expected: Option.Option<string>): Effect.Effect<void, storage.Reason> =>
    store.compareAndSet(prefix + id, expected, {} satisfies Schema.Json).pipe(
      Effect.map((version) => void versions.set(id, version)),
      Effect.catchTag("VersionConflict", ({ found }) => set(id, found)),
      Effect.catchTag("VersionedStoreError", (error) => Effect.fail(reason(error)))
    )

  return {
    set: (id: string) => (versions.has(id) ? Effect.void : set(id, Option.none())),
    remove: (id: string) =>
      Effect.suspend(() => {
        const version = versions.get(id)
        versions.delete(id)
        // A mark that stays is removed by the next process that finds nothing to do
        return version === undefined ? Effect.void : Effect.ignore(store.delete(prefix + id, { version }))
      }),
    /** Takes over a mark, to remove it when its session is idle. */
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

/** A message is tried again this often while another process has the session in a turn. */
const pollInterval = Duration.millis(250)

/** The service over sessions in memory. */
export const make = Effect.fnUntraced(function* (
  local: LocalHost
): Effect.fn.Return<sessionTypes.Service, never, Scope.Scope> {
  const scope = yield* Effect.scope
  const marks = makeMarks(local)
  const resident = new Set<liveSession.LiveSession>()

  const host: liveSession.Host = {
    ...local.host,
    isExclusive: false,
    onBusy: (id) => Effect.andThen(marks.set(id), stay(id)),
    onIdle: marks.remove
  }

  const sessions: RcMap.RcMap<string, liveSession.LiveSession, sessionTypes.SessionError> = yield* RcMap.make({
    lookup: (id: string) =>
      Effect.gen(function* () {
        const session = yield* liveSession.open(host, id)
        yield* Effect.acquireRelease(
          Effect.sync(() => resident.add(session)),
          () => Effect.sync(() => resident.delete(session))
        )
        // A session that was lost is opened again
        yield* Effect.forkScoped(Effect.catch(session.lost, () => RcMap.invalidate(sessions, id)))
        return session
        // The map keeps failures as it keeps sessions
      }).pipe(Effect.tapError(() => RcMap.invalidate(sessions, id))),
    idleTimeToLive: local.idleTime
  })

  const using = <A>(
    id: string,
    use: (session: liveSession.LiveSession) => Effect.Effect<A, sessionTypes.SessionError>
  ): Effect.Effect<A, sessionTypes.SessionError> => Effect.scoped(Effect.flatMap(RcMap.get(sessions, id), use))

  /** Waits while another process has the session in a turn. */
  const untilFree = <A>(effect: Effect.Effect<A, sessionTypes.SessionError>, options?: sessionTypes.SendOptions) =>
    options?.whenBusy === "reject"
      ? Effect.mapError(effect, (error) =>
          isElsewhere(error)
            ? new sessionTypes.SessionError({ id: error.id, reason: { _tag: "Busy", status: "running" } })
            : error
        )
      : Effect.retry(effect, { while: isElsewhere, schedule: Schedule.spaced(pollInterval) })

  /** Keeps a session in memory until it is idle. */
  const stay = (id: string): Effect.Effect<void> =>
    Effect.asVoid(Effect.forkIn(Effect.ignore(using(id, ({ idle }) => idle)), scope))

  const wake = (id: string) =>
    Effect.andThen(
      marks.set(id),
      using(id, ({ idle }) => Effect.andThen(idle, marks.remove(id)))
    )

  /** Resumes sessions that another process left in a turn. */
  const sweep = (after: string | undefined): Effect.Effect<void, VersionedStore.VersionedStoreError> =>
    Effect.flatMap(marks.list(after), ({ ids, next }) =>
      Effect.andThen(
        Effect.forEach(ids, (id) => Effect.forkIn(Effect.ignore(wake(id)), scope), { discard: true }),
        Option.isSome(next) ? sweep(next.value) : Effect.void
      )
    )

  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => Effect.forEach(resident, ({ drain }) => drain, { concurrency: "unbounded", discard: true }))
  )
  yield* sweep(undefined).pipe(
    Effect.catch((error) => Effect.logWarning(`sessions: ${error.message}`)),
    Effect.andThen(Effect.sleep(local.host.leaseTime)),
    Effect.forever,
    Effect.forkScoped
  )

  return {
    send: Effect.fn("Session.send")((id, input, options) =>
      untilFree(
        using(id, ({ send }) => send(input, options)),
        options
      )
    ),
    decide: Effect.fn("Session.decide")((id, decisions) => untilFree(using(id, ({ decide }) => decide(decisions)))),
    resume: Effect.fn("Session.resume")((id) => untilFree(using(id, ({ resume }) => resume))),
    interrupt: Effect.fn("Session.interrupt")((id) => using(id, ({ interrupt }) => interrupt)),
    events: (id, options) =>
      Stream.unwrap(Effect.map(RcMap.get(sessions, id), ({ events }) => events(options?.after ?? 0))),
    state: Effect.fn("Session.state")((id) => using(id, ({ state }) => state)),
    history: Effect.fn("Session.history")((id) => using(id, ({ history }) => history)),
    remove: Effect.fn("Session.remove")((id) => using(id, ({ remove }) => remove))
  }
})
