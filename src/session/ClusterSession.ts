/**
 * Sessions on a fleet of machines: each of them is an entity of `effect/cluster`.
 *
 * **When to use**
 *
 * Use {@link layer} in place of `Session.layer` where several processes share the sessions, and {@link layerClient} in processes that
 * only call. The program is the same. It is a module apart, so that a program without a fleet has no part of `effect/cluster`.
 *
 * @since 0.1.0
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { Sharding } from "effect/cluster/Sharding"
import type { SqlClient } from "effect/sql/SqlClient"
import * as callOptions from "../payload/internal/options.ts"
import * as VersionedStore from "../store/VersionedStore.ts"
import * as Session from "./Session.ts"
import * as localSessions from "./internal/localSessions.ts"
import type * as fleet from "./internal/fleet.ts"
import type * as types from "./internal/types.ts"

/** `effect/cluster` reads the environment when it is loaded, which not every runtime permits. Only a fleet needs it. */
const loadEntity = Effect.suspend(() => {
  if (entity !== undefined) return Effect.succeed(entity)
  const loading = Effect.promise(() => import("./internal/fleet.ts"))
  return Effect.tap(loading, (loaded) => Effect.sync(() => void (entity = loaded)))
})

let entity: typeof fleet | undefined

/**
 * Options of {@link layer}. `Decode` is the type of its `definitions`.
 *
 * @category options
 * @since 0.1.0
 */
export interface LayerOptions<
  out Decode extends types.Definitions | undefined = undefined
> extends Session.Options<Decode> {
  /** The time that tool calls under way have to finish when the process is shut down; default 10 seconds. */
  readonly drainTime?: Duration.Input | undefined
  /**
   * The time after which answered messages of the cluster are deleted from its tables; default 1 day. The `SqlClient`
   * is the client of the cluster.
   */
  readonly retention?: Duration.Input | undefined
  /** The time without an answer after which a call is made again, as in {@link layerClient}; default 30 seconds. */
  readonly timeout?: Duration.Input | undefined
}

/**
 * Sessions of a fleet, in a process that runs some of them.
 *
 * **When to use**
 *
 * Use it where several machines, or several processes of one, share the sessions. Each session is in one of them at a time, and
 * every process sends its calls there. Use {@link layerClient} in processes that only call.
 *
 * **Details**
 *
 * - A session is an entity of `effect/cluster`. The `Sharding` service decides which process has it: `SqliteRunner.layer` of
 *   `effect-emissary/node` for one process, `NodeClusterHttp.layer` of `@effect/platform-node` for several.
 * - A message that was sent is delivered although the process that has the session dies, or none is running. A session whose
 *   process died continues in the next one as soon as the cluster has noticed.
 * - A process that is shut down lets tool calls under way finish, for `drainTime` (default 10 seconds) at most. The next
 *   process resumes the turn after the last event.
 * - A session that is not used leaves the memory after `idleTime`, even while its events are read. It waits in the store.
 *
 * **Example** (One process with a database in a file)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent } from "effect-emissary"
 * import { ClusterSession, Session } from "effect-emissary/session"
 * import { SqliteRunner } from "effect-emissary/node"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const support = Agent.make("support", { instructions: "You help customers." })
 *
 * const fleet = ClusterSession.layer([support]).pipe(
 *   Layer.provide(SqliteRunner.layer({ filename: ":memory:" })),
 *   Layer.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }]))
 * )
 * const answer = await Effect.runPromise(Effect.provide(Session.ask("chat/42", "Hello, I am Ada."), fleet))
 * assert.strictEqual(answer, "Welcome, Ada!")
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <
  const Agents extends ReadonlyArray<types.Hosted<unknown, unknown>>,
  Decode extends types.Definitions | undefined = undefined
>(
  agents: Agents,
  options?: LayerOptions<Decode>
): Layer.Layer<
  Session.Session,
  types.HostedError<Agents[number]>,
  | Exclude<types.HostedServices<Agents[number]> | types.DefinitionsServices<Decode>, Scope.Scope>
  | VersionedStore.VersionedStore
  | Sharding
  | SqlClient
> => {
  const runner = Layer.unwrap(
    Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const host = yield* localSessions.hostOf(store, agents, options ?? {})
      yield* callOptions.check("sessions", { retention: callOptions.endingTime("1 minute") }, options)
      const retention = Duration.fromInputUnsafe(options?.retention ?? "1 day")
      return (yield* loadEntity).layer(host, retention)
    })
  )
  return Layer.provideMerge(layerClient(options), runner)
}

/**
 * Sessions of a fleet, in a process that runs none of them: a web server, for example.
 *
 * **Details**
 *
 * It needs neither the agents nor the store, only a `Sharding` service of a client: `NodeClusterHttp.layer` with
 * `clientOnly: true`. A message that was sent is delivered although its caller leaves, or no runner is there.
 *
 * A call that was not answered for about four times the `timeout` fails with `Unreachable`. The message may be stored
 * then: send it again with the same `messageId`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerClient = (options?: {
  /** The `namespace` of the runners' layer; default as there. */
  readonly namespace?: string | undefined
  /**
   * The time without an answer after which a call is made again; default 30 seconds. Events of a session that was
   * silent for this long are asked for again, wherever the session is then: a machine that is gone does not close its
   * connections.
   */
  readonly timeout?: Duration.Input | undefined
}): Layer.Layer<Session.Session, never, Sharding> =>
  Layer.effect(
    Session.Session,
    Effect.gen(function* () {
      const entity = yield* loadEntity
      return yield* entity.makeService(options?.namespace ?? "session", options?.timeout ?? "30 seconds")
    })
  )
