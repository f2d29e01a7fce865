/** The layers of runners and of a client. */
import { NodeClusterHttp } from "@effect/platform-node"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as RunnerAddress from "effect/cluster/RunnerAddress"
import type { Sharding } from "effect/cluster/Sharding"
import type { SqlClient } from "effect/sql/SqlClient"
import { VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import * as agents from "./agents.ts"
import * as door from "./door.ts"
import * as ledger from "./ledger.ts"
import * as naive from "./naive.ts"
import type * as tasks from "./task.ts"

const postgres = (url: string) =>
  Layer.unwrap(
    Effect.promise(() => import("@effect/sql-pg/PgClient")).pipe(
      Effect.map(({ layer }) => layer({ url: Redacted.make(url), maxConnections: 8 }))
    )
  )

const client = (database: tasks.Database) =>
  Layer.orDie(database.type === "sqlite" ? SqliteClient.layer({ filename: database.filename }) : postgres(database.url))

/** The settings of a cluster that notices soon what happened. */
const settings = (leaseMillis: number) => ({
  shardsPerGroup: 24,
  shardLockRefreshInterval: Duration.millis(leaseMillis / 4),
  shardLockExpiration: Duration.millis(leaseMillis),
  runnerHealthCheckInterval: Duration.millis(leaseMillis / 2),
  refreshAssignmentsInterval: Duration.millis(300),
  entityMessagePollInterval: Duration.millis(500),
  entityReplyPollInterval: Duration.millis(100),
  entityTerminationTimeout: Duration.seconds(15)
})

/** A process of a fleet on PostgreSQL: a runner with a port, or a client. */
const fleet = (database: tasks.Database, leaseMillis: number, port: number | undefined) => {
  const runnerAddress = Option.map(Option.fromUndefinedOr(port), (port) => RunnerAddress.make("127.0.0.1", port))
  return NodeClusterHttp.layer({
    transport: "http",
    serialization: "ndjson",
    storage: "sql",
    runnerHealth: "ping",
    clientOnly: port === undefined,
    shardingConfig: { ...settings(leaseMillis), runnerAddress }
  }).pipe(Layer.provideMerge(client(database)), Layer.orDie)
}

const cluster = ({ database, leaseMillis, port }: tasks.Task): Layer.Layer<Sharding | SqlClient> =>
  database.type === "sqlite"
    ? Layer.orDie(SqliteRunner.layer({ ...database, shardingConfig: settings(leaseMillis) }))
    : fleet(database, leaseMillis, port)

/** Sessions in the process of a runner, and what the test asks for them. */
export const runner = (task: tasks.Task) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { build, desk, layer, order } = yield* agents.make({
        ...task,
        ledger: ledger.open(task.ledger, task.runner)
      })
      const hosts = [desk, order, build] as const
      const sql = client(task.database)
      const store = VersionedStore.layerSql().pipe(Layer.provide(sql), Layer.orDie)
      const sessions = () => {
        switch (task.home) {
          case "naive":
            return naive.layer(hosts).pipe(Layer.provide(store))
          case "process":
            return door.layer.pipe(
              Layer.provide(Session.layer(hosts, { leaseTime: task.leaseMillis })),
              Layer.provide(store)
            )
          case "cluster":
            return door.layer.pipe(
              Layer.provide(ClusterSession.layer(hosts)),
              Layer.provide(store),
              Layer.provide(cluster(task))
            )
        }
      }
      return Layer.provide(sessions(), layer)
    })
  )

/** A process that has no sessions, and asks the fleet. */
export const caller = (database: tasks.Database, leaseMillis: number) =>
  door.layer.pipe(Layer.provide(ClusterSession.layerClient()), Layer.provide(fleet(database, leaseMillis, undefined)))
