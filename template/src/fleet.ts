/** The chat on several machines: each runs this program, and the sessions are in the PostgreSQL of `DATABASE_URL`. */
import { NodeClusterHttp, NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Config, Effect, Layer, Option } from "effect"
import { RunnerAddress } from "effect/cluster"
import { HttpRouter } from "effect/http"
import { VersionedStore } from "effect-emissary"
import { ClusterSession } from "effect-emissary/session"
import { createServer } from "node:http"
import { hostname } from "node:os"
import { assistant, ModelLive, ToolsLive } from "./assistant.ts"
import { RoutesLive } from "./http.ts"

const settings = Config.all({
  port: Config.Port("PORT").pipe(Config.withDefault(3000)),
  /** The address at which the other machines reach this one. */
  host: Config.String("RUNNER_HOST").pipe(Config.withDefault(hostname())),
  runnerPort: Config.Port("RUNNER_PORT").pipe(Config.withDefault(34_431))
})

const DatabaseLive = Layer.unwrap(
  Effect.map(Config.Redacted("DATABASE_URL"), (url) => PgClient.layer({ url, maxConnections: 10 }))
)

const MainLive = Layer.unwrap(
  Effect.map(settings, ({ host, port, runnerPort }) => {
    const ClusterLive = NodeClusterHttp.layer({
      transport: "http",
      storage: "sql",
      shardingConfig: { runnerAddress: Option.some(RunnerAddress.make(host, runnerPort)) }
    })
    const SessionsLive = ClusterSession.layer([assistant]).pipe(
      Layer.provide([ClusterLive, VersionedStore.layerSql(), ToolsLive, ModelLive]),
      Layer.provide(DatabaseLive)
    )
    return HttpRouter.serve(RoutesLive).pipe(
      Layer.provide(SessionsLive),
      Layer.provide(NodeHttpServer.layer(createServer, { port, gracefulShutdownTimeout: 0 }))
    )
  })
)

NodeRuntime.runMain(Layer.launch(MainLive))
