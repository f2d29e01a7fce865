/** The rules of sessions, over a real server and its client. */
import { NodeHttpServer } from "@effect/platform-node"
import { describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
import { SessionHttp } from "effect-emissary/http"
import { Session } from "effect-emissary/session"
import { createServer } from "node:http"
import { makeDirectory } from "../store/directory.ts"
import * as layers from "../store/layers.ts"
import { oneIn } from "../full.ts"
import * as suite from "../session/suite.ts"

const all = layers.all(makeDirectory())

const authorize = Layer.succeed(SessionHttp.Authorize, () =>
  Effect.succeed({ name: "test", prefix: "", access: "full" })
)

const server = HttpRouter.serve(SessionHttp.layerServer({ path: "/api/sessions" }), {
  disableLogger: true,
  disableListenLog: true
}).pipe(
  Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0, gracefulShutdownTimeout: 0 }))
)

const client = Layer.unwrap(
  Effect.map(HttpServer.HttpServer, ({ address }) =>
    SessionHttp.layerClient({
      url: `http://127.0.0.1:${"port" in address ? address.port : 0}/api/sessions`,
      token: Redacted.make("s3cret")
    })
  )
).pipe(Layer.provide(FetchHttpClient.layer))

describe("SCREEN-3 SessionHttp.layerClient keeps the rules of sessions", () => {
  for (const { durable, layer, name } of all.filter(({ name }) => name !== "PostgreSQL")) {
    const sessions = (agents: suite.Agents) =>
      client.pipe(
        Layer.provide(server),
        Layer.provide(authorize),
        Layer.provide(Session.layer(agents)),
        Layer.provide(layer)
      )
    for (const { check, name: rule } of oneIn(durable ? 3 : 1, suite.session(name, sessions, { durable }))) {
      it.live(rule, () => check)
    }
  }
})
