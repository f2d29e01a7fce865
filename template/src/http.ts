/** The routes of the chat: the sessions for the page, the page itself, and a route for the health check of the host. */
import { Config, Effect, Layer, Option, Redacted } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { SessionHttp } from "effect-emissary/http"
import { fileURLToPath } from "node:url"

/** Replace it by your sign-in: a token becomes a user, and the sessions of this user. */
const AuthorizeLive = Layer.effect(
  SessionHttp.Authorize,
  Effect.gen(function* () {
    const password = Redacted.value(yield* Config.Redacted("CHAT_PASSWORD"))
    return SessionHttp.Authorize.of(({ token }) =>
      Option.exists(token, (token) => Redacted.value(token) === password)
        ? Effect.succeed({ name: "ada", prefix: "ada/", access: "chat", agent: "assistant" })
        : Effect.fail(SessionHttp.refuse("unauthorized", "The password is wrong."))
    )
  })
)

const page = fileURLToPath(new URL("../public/index.html", import.meta.url))
const client = fileURLToPath(import.meta.resolve("effect-emissary/browser"))

export const RoutesLive = Layer.mergeAll(
  SessionHttp.layerServer(),
  HttpRouter.add("GET", "/", HttpServerResponse.file(page)),
  HttpRouter.add("GET", "/sessions.js", HttpServerResponse.file(client)),
  HttpRouter.add("GET", "/health", HttpServerResponse.text("ok"))
).pipe(Layer.provide(AuthorizeLive))
