/**
 * A fleet in a world: the runners and clients of `effect/cluster`, as `SocketRunner` makes them, over the sockets of `wire.ts` and storages in memory.
 * An operation of a storage takes time, and fails before or after it took effect.
 */
import { Clock, Context, Effect, Layer, Option, Random, Stream } from "effect"
import {
  ClusterError,
  MachineId,
  MessageStorage,
  RunnerAddress,
  RunnerHealth,
  Runners,
  RunnerStorage,
  ShardingConfig,
  Snowflake,
  SocketRunner,
  TestRunner
} from "effect/cluster"
import { Reactivity } from "effect/reactivity"
import { RpcClient, RpcSerialization } from "effect/rpc"
import { Socket } from "effect/socket"
import { SqlClient, Statement } from "effect/sql"
import { Agent } from "effect-emissary"
import { ClusterSession, type Session } from "effect-emissary/session"
import { Simulation } from "effect-emissary/testing"
import * as agents from "./agents.ts"
import * as releases from "./releases.ts"
import { close, closeGone, connect, server, Wire } from "./wire.ts"

interface Lock {
  readonly owner: string
  readonly until: number
}

/** The database of the fleet. `failures` is a share of a thousand operations. */
export class Cluster extends Context.Service<
  Cluster,
  {
    messages: MessageStorage.Encoded | undefined
    readonly runners: Map<
      string,
      { readonly runner: string; isHealthy: boolean; seen: number; readonly machine: number }
    >
    readonly locks: Map<string, Lock>
    failures: number
    started: number
    machines: number
  }
>()("worlds/Cluster") {
  static readonly layer = (failures: number) =>
    Layer.sync(Cluster, () => ({
      messages: undefined,
      runners: new Map(),
      locks: new Map(),
      failures,
      started: 0,
      machines: 0
    }))
}

/** A number of a machine. Two processes with one number have the same ids of messages. */
const numberOf = (cluster: Cluster["Service"]) => MachineId.make(cluster.machines++)

const expiration = 2000

const config: Partial<ShardingConfig.ShardingConfig["Service"]> = {
  shardsPerGroup: 8,
  shardLockRefreshInterval: "500 millis",
  shardLockExpiration: `${expiration} millis`,
  runnerHealthCheckInterval: "1 second",
  refreshAssignmentsInterval: "300 millis",
  entityMessagePollInterval: "1 second",
  entityReplyPollInterval: "200 millis",
  entityTerminationTimeout: "2 seconds"
}

/** The time of the database. */
const now = Effect.map(Clock.Clock, (clock) => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n))

/** An operation of the database, as a process reaches it. */
const operation = <A, E>(
  { failures }: Cluster["Service"],
  effect: Effect.Effect<A, E>
): Effect.Effect<A, E | ClusterError.PersistenceError> =>
  Effect.gen(function* () {
    const drawn = (yield* Random.next) * 1000
    const failure = new ClusterError.PersistenceError({ cause: "Simulated" })
    yield* Effect.flatMap(Random.nextIntBetween(0, 6), Effect.sleep)
    if (drawn < failures / 2) return yield* failure
    const result = yield* effect
    yield* Effect.flatMap(Random.nextIntBetween(0, 6), Effect.sleep)
    return drawn < failures ? yield* failure : result
  })

const messages = Layer.effect(
  MessageStorage.MessageStorage,
  Effect.gen(function* () {
    const cluster = yield* Cluster
    const made = yield* MessageStorage.MemoryDriver.make
    const { withTransaction, ...encoded } = (cluster.messages ??= made.encoded)
    const through =
      <Args extends ReadonlyArray<unknown>, A, E>(use: (...args: Args) => Effect.Effect<A, E>) =>
      (...args: Args) =>
        operation(cluster, use(...args))
    return yield* MessageStorage.makeEncoded({
      saveEnvelope: through(encoded.saveEnvelope),
      saveReply: through(encoded.saveReply),
      clearReplies: through(encoded.clearReplies),
      requestIdForPrimaryKey: through(encoded.requestIdForPrimaryKey),
      repliesFor: through(encoded.repliesFor),
      repliesForUnfiltered: through(encoded.repliesForUnfiltered),
      unprocessedMessages: through(encoded.unprocessedMessages),
      unprocessedMessagesById: through(encoded.unprocessedMessagesById),
      resetRequests: through(encoded.resetRequests),
      resetAddresses: through(encoded.resetAddresses),
      clearAddress: through(encoded.clearAddress),
      resetShards: through(encoded.resetShards),
      withTransaction
    })
  })
).pipe(Layer.provide(Snowflake.layerGenerator))

const runners = Layer.effect(
  RunnerStorage.RunnerStorage,
  Effect.map(Cluster, (cluster) => {
    const { locks, runners } = cluster
    const through = <A>(use: (at: number) => A) => operation(cluster, Effect.map(now, use))
    const isHeld = (owner: string, shard: string, at: number) => {
      const lock = locks.get(shard)
      return lock !== undefined && lock.owner === owner && lock.until > at
    }
    const hold = (owner: string, shards: ReadonlyArray<string>, at: number) => {
      for (const shard of shards) locks.set(shard, { owner, until: at + expiration })
      return [...shards]
    }
    return RunnerStorage.makeEncoded({
      getRunners: through((at) =>
        [...runners.values()]
          .filter(({ seen }) => seen + expiration > at)
          .map(({ isHealthy, runner }) => [runner, isHealthy] as const)
      ),
      register: (address, runner, isHealthy) =>
        through((seen) => {
          const machine = runners.get(address)?.machine ?? numberOf(cluster)
          runners.set(address, { runner, isHealthy, seen, machine })
          return machine
        }),
      unregister: (address) => through(() => void runners.delete(address)),
      setRunnerHealth: (address, isHealthy) =>
        through(() => {
          const found = runners.get(address)
          if (found !== undefined) found.isHealthy = isHealthy
        }),
      acquire: (owner, shards) =>
        through((at) => {
          const isFree = (shard: string) => isHeld(owner, shard, at) || (locks.get(shard)?.until ?? 0) <= at
          return hold(owner, shards.filter(isFree), at)
        }),
      refresh: (owner, shards) =>
        through((at) => {
          const found = runners.get(owner)
          if (found !== undefined) found.seen = at
          return hold(
            owner,
            shards.filter((shard) => isHeld(owner, shard, at)),
            at
          )
        }),
      release: (owner, shard) => through(() => void (locks.get(shard)?.owner === owner && locks.delete(shard))),
      releaseAll: (owner) =>
        through(() => {
          for (const [shard, lock] of locks) if (lock.owner === owner) locks.delete(shard)
        })
    })
  })
)

/** The tables of the cluster are in memory, where nothing has to be removed. */
const sql = Layer.effect(
  SqlClient.SqlClient,
  SqlClient.make({
    acquirer: Effect.succeed({
      execute: () => Effect.succeed([]),
      executeRaw: () => Effect.succeed([]),
      executeStream: () => Stream.empty,
      executeValues: () => Effect.succeed([]),
      executeValuesUnprepared: () => Effect.succeed([]),
      executeUnprepared: () => Effect.succeed([])
    }),
    compiler: Statement.makeCompilerSqlite(),
    driver: "none",
    spanAttributes: []
  })
).pipe(Layer.provide(Reactivity.layer))

const protocol = (host: string) =>
  Layer.effect(
    Runners.RpcClientProtocol,
    Effect.gen(function* () {
      const serialization = yield* RpcSerialization.RpcSerialization
      const wire = yield* Wire
      return {
        codecFor: serialization.codecFor,
        make: Effect.fnUntraced(function* (address) {
          const socket = yield* Effect.provideService(connect(host, address.host), Wire, wire)
          return yield* RpcClient.makeProtocolSocket().pipe(
            Effect.provideService(Socket.Socket, socket),
            Effect.provideService(RpcSerialization.RpcSerialization, serialization)
          )
        })
      }
    })
  )

/** The sessions of a runner, on the services of `SocketRunner`. */
const runner = <E, R>(host: string, hosted: Layer.Layer<Session.Session, E, R>) =>
  hosted.pipe(
    Layer.provide(SocketRunner.layer),
    Layer.provide([server(host), Layer.provide(RunnerHealth.layerPing, Runners.layerRpc)]),
    Layer.provide([sql, protocol(host), messages, runners]),
    Layer.provide(ShardingConfig.layer({ ...config, runnerAddress: Option.some(RunnerAddress.make(host, 1)) }))
  )

const client = (host: string) =>
  ClusterSession.layerClient({ timeout: "4 seconds" }).pipe(
    Layer.provide(SocketRunner.layerClientOnly),
    Layer.provide([protocol(host), messages, runners]),
    Layer.provide(ShardingConfig.layer(config))
  )

/** A process that is not registered as a runner would draw its number without the seed. */
const numbered = Layer.effectDiscard(
  Effect.gen(function* () {
    const { setMachineId } = yield* Snowflake.Generator
    yield* setMachineId(numberOf(yield* Cluster))
  })
).pipe(Layer.provide(Snowflake.layerGenerator))

/** The layer of each process. The third and the sixth one run no sessions. */
const processOf = <E, R>(hosted: Layer.Layer<Session.Session, E, R>) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const cluster = yield* Cluster
      const host = Option.getOrThrow(yield* Simulation.processName)
      cluster.started += 1
      return cluster.started === 3 || cluster.started === 6 ? client(host) : runner(host, hosted)
    })
  ).pipe(Layer.provide([RpcSerialization.layerNdjson, numbered]))

const options = { drainTime: "50 millis", idleTime: "2 seconds", timeout: "4 seconds" } as const

/** The layer of each process. */
export const sessions = processOf(ClusterSession.layer([agents.worker], options).pipe(Layer.provide(agents.layer)))

/** The layer of each process, where the agents have everything. */
export const allSessions = releases.layerOf((release) =>
  processOf(
    Layer.unwrap(
      Effect.map(releases.hostedIn(release), ({ hosted, services }) =>
        ClusterSession.layer(hosted, { ...options, definitions: Agent.decode }).pipe(Layer.provide(services))
      )
    )
  )
)

/** Loads `effect/cluster`, which a world cannot wait for. */
export const load = Effect.scoped(Layer.build(Layer.provide(ClusterSession.layerClient(), TestRunner.layer)))

/** Closes the connections to processes that are gone, each after a while, and cuts others. */
const watching = Effect.fnUntraced(function* (world: Simulation.World<Session.Session>) {
  const wire = yield* Wire
  const cluster = yield* Cluster
  let before: ReadonlyArray<string> = []
  while (true) {
    yield* Effect.sleep("300 millis")
    const cut = (yield* Random.next) * 100 < cluster.failures ? [...wire.connections][0] : undefined
    if (cut !== undefined) close(wire, cut)
    const live = (yield* world.processes).map(({ name }) => name)
    closeGone(wire, [...before, ...live])
    before = live
  }
})

/** A script in a fleet. Its database is calm when the world is. */
export const around =
  <A, E, R>(script: (world: Simulation.World<Session.Session>) => Effect.Effect<A, E, R>) =>
  (world: Simulation.World<Session.Session>) =>
    Effect.gen(function* () {
      const cluster = yield* Cluster
      yield* Effect.forkChild(watching(world))
      const calm = Effect.sync(() => {
        cluster.failures = 0
      })
      return yield* script({ ...world, calm: Effect.andThen(world.calm, calm) })
    })

/** Everything that outlives the processes of a fleet. */
export const outside = (failures: number) => Layer.merge(Wire.layer, Cluster.layer(failures))
