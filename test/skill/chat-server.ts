import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Effect, Layer, Option, Redacted } from "effect"
import { HttpRouter } from "effect/http"
import { Agent } from "effect-emissary"
import { SessionHttp } from "effect-emissary/http"
import { SqliteClient } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { createServer } from "node:http"

const filename = process.argv[2]
if (filename === undefined) {
  console.error("usage: PORT=… node chat-server.ts FILE.sqlite")
  process.exit(2)
}
const port = Number(process.env["PORT"] ?? "3000")
const password = process.env["PASSWORD"] ?? "s3cret"

const repeater = Agent.make("repeater", { instructions: "Repeat what the user wrote." })

const Model = ScriptedModel.layer(({ messages }) => ({
  text: messages
    .filter((message) => message.role === "user")
    .map((message) => message.text)
    .join(" | ")
}))

const Sessions = Session.layer([repeater]).pipe(Layer.provide([SqliteClient.layerStore({ filename }), Model]))

const Authorize = Layer.succeed(SessionHttp.Authorize, ({ token }) =>
  Option.exists(token, (token) => Redacted.value(token) === password)
    ? Effect.succeed({ name: "ada", prefix: "ada/", access: "chat" })
    : Effect.fail(SessionHttp.refuse("unauthorized", "Sign in first."))
)

const Server = NodeHttpServer.layer(createServer, { host: "127.0.0.1", port })

const Main = HttpRouter.serve(SessionHttp.layerServer({ path: "/sessions" })).pipe(
  Layer.provide([Authorize, Sessions, Server])
)

NodeRuntime.runMain(Layer.launch(Main))
