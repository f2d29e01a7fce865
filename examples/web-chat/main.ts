/**
 * A chat in the browser: `npm run example web-chat`, and open the address that it prints. All chats are in `web-chat.sqlite`, or in the file
 * that is its argument: kill the process at any time, start it again, and the pages that are open continue.
 *
 * It answers from a script (model.ts), and a real model answers with `EMISSARY_MODEL=openai/gpt-5.2 OPENAI_API_KEY=... npm run example
 * web-chat`, or a local one with `EMISSARY_MODEL=ollama/qwen3`. `PORT` is the port, default 3000. At `/react` is the same chat in 60 lines of
 * React with `useChat`, after `npm ci --prefix test/screen`.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Config, Console, Effect, Layer, Option, Redacted } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse, HttpStaticServer } from "effect/http"
import { SessionHttp } from "effect-emissary/http"
import { SqliteClient } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import { createHash, randomBytes } from "node:crypto"
import { createServer } from "node:http"
import { fileURLToPath } from "node:url"
import { assistant, modelLive, toolsLive } from "./assistant.ts"
import { reactLive } from "./bundle.ts"

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

const sessionsLive = Session.layer([assistant]).pipe(
  Layer.provide([SqliteClient.layerStore({ filename: process.argv[2] ?? "web-chat.sqlite" }), toolsLive, modelLive])
)

/** A visitor is a browser with a cookie. The name in the ids of its chats does not show the cookie. */
const nameOf = (token: string) => createHash("sha256").update(token).digest("base64url").slice(0, 16)

const authorizeLive = Layer.succeed(SessionHttp.Authorize, ({ token }) =>
  Option.match(token, {
    onNone: () => Effect.fail(SessionHttp.refuse("unauthorized", "Load the page again.")),
    onSome: (token) => {
      const name = nameOf(Redacted.value(token))
      return Effect.succeed({ name, prefix: `${name}/`, access: "chat", context: { visitor: name } })
    }
  })
)

/** The name of the visitor. A browser that comes for the first time gets a cookie, which no script can read. */
const visitorRoute = HttpRouter.add("GET", "/visitor", ({ cookies }) => {
  const token = cookies["visitor"] ?? randomBytes(32).toString("base64url")
  const options = { httpOnly: true, sameSite: "strict", path: "/", maxAge: "365 days" } as const
  return HttpServerResponse.setCookie(
    HttpServerResponse.jsonUnsafe({ name: nameOf(token) }, { headers: { "cache-control": "no-store" } }),
    "visitor",
    token,
    options
  )
})

const pageLive = Layer.mergeAll(
  HttpStaticServer.layer({ root: file("page"), cacheControl: "no-cache" }),
  HttpRouter.add("GET", "/sessions.js", HttpServerResponse.file(file("../../browser/sessions.js")))
)

const serverLive = Layer.unwrap(
  Effect.map(Config.Port("PORT").pipe(Config.withDefault(3000)), (port) =>
    NodeHttpServer.layer(createServer, { host: "127.0.0.1", port, gracefulShutdownTimeout: 0 })
  )
)

const app = Layer.mergeAll(SessionHttp.layerServer({ cookie: "visitor" }), visitorRoute, pageLive, reactLive)

const ready = Layer.effectDiscard(
  HttpServer.addressFormattedWith((address) => Console.log(`The chat is at ${address}`))
)

Layer.mergeAll(HttpRouter.serve(app, { disableLogger: true, disableListenLog: true }), ready).pipe(
  Layer.provide([authorizeLive, sessionsLive, serverLive]),
  Layer.launch,
  NodeRuntime.runMain
)
