/** The cluster of this example, for runners and clients: on PostgreSQL where its address is given, and on one SQLite file otherwise. */
import * as NodeClusterHttp from "@effect/platform-node/NodeClusterHttp"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Layer, Option, Redacted } from "effect"
import { RunnerAddress } from "effect/cluster"
import { VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"

export const isPostgres = (address: string): boolean => /^postgres(ql)?:/.test(address)

const database = (address: string) =>
  isPostgres(address)
    ? PgClient.layer({ url: Redacted.make(address), maxConnections: 5 })
    : SqliteClient.layer({ filename: address })

/** Short times, so that the fleet notices a dead runner while you watch. */
const times = {
  shardsPerGroup: 20,
  shardLockExpiration: "3 seconds",
  shardLockRefreshInterval: "1 second",
  runnerHealthCheckInterval: "1 second",
  refreshAssignmentsInterval: "500 millis",
  entityMessagePollInterval: "500 millis",
  entityReplyPollInterval: "100 millis",
  entityTerminationTimeout: "2 seconds"
} as const

/** The services of a process that runs sessions. Others reach it at `port`. */
export const runner = (address: string, port: number) =>
  Layer.merge(
    NodeClusterHttp.layer({
      transport: "http",
      storage: "sql",
      shardingConfig: { ...times, runnerAddress: Option.some(RunnerAddress.make("127.0.0.1", port)) }
    }),
    VersionedStore.layerSql({ table: "fleet_sessions" })
  ).pipe(Layer.provideMerge(database(address)))

/** The services of a process that only calls. */
export const client = (address: string) =>
  NodeClusterHttp.layer({ transport: "http", storage: "sql", clientOnly: true, shardingConfig: times }).pipe(
    Layer.provide(database(address))
  )
