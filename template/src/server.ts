/** The chat on one machine: sessions in one SQLite file, in the folder `DATA`. */
import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Config, Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { SqliteClient } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import { createServer } from "node:http"
import { assistant, ModelLive, ToolsLive } from "./assistant.ts"
import { RoutesLive } from "./http.ts"

const StoreLive = Layer.unwrap(
  Effect.map(Config.String("DATA").pipe(Config.withDefault(".")), (folder) =>
    SqliteClient.layerStore({ filename: `${folder}/chat.sqlite` })
  )
)

const SessionsLive = Session.layer([assistant]).pipe(Layer.provide([StoreLive, ToolsLive, ModelLive]))

const ServerLive = Layer.unwrap(
  Effect.map(Config.Port("PORT").pipe(Config.withDefault(3000)), (port) =>
    NodeHttpServer.layer(createServer, { port, gracefulShutdownTimeout: 0 })
  )
)

HttpRouter.serve(RoutesLive).pipe(Layer.provide([SessionsLive, ServerLive]), Layer.launch, NodeRuntime.runMain)
