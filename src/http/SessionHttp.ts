/**
 * Sessions over HTTP: the routes of a server, and a client that is a `Session`.
 *
 * **When to use**
 *
 * Use {@link layerServer} for the server of a chat in a browser, and for other services that use its sessions. Use
 * {@link layerClient} in a program of Effect: it provides the `Session` of that server, so the program is the same as with
 * `Session.layer`. A page without Effect uses `fetch`.
 *
 * **Details**
 *
 * The routes are the operations of `SessionApi` under their names: commands are `POST` with a JSON body, queries and streams
 * `GET`. The id of a session is the `id` of the query, because ids have slashes, which proxies read differently in paths.
 * Streams are server-sent events. The `id` of an event is its cursor, and a reader that sends it as `Last-Event-ID` continues
 * after it. After 15 seconds without an event a comment is sent. The last event of a stream is named `end`, and its data is a
 * {@link Refusal} with the reason.
 *
 * | routes | for |
 * |---|---|
 * | `chat/events`, `chat/state`, `chat/history`, `file` | what a front end shows: no instructions, contexts or contracts, see `ChatEvent` |
 * | `chat/ui`, `chat/ui/:id/stream` | `useChat` of the AI SDK, see below |
 * | `chat/agui` | agents of AG-UI, see below |
 * | `send`, `edit`, `withdraw`, `fork`, `decide`, `forget`, `resume`, `interrupt`, `update`, `remove`, `list`, `listChanges` | front ends, with the fields that are for them |
 * | `events`, `live`, `state`, `history` | callers with full access |
 * | `read`, `shared`, `prune` | callers with full access to all sessions |
 *
 * `chat/events` has what models are writing, too, every 20 milliseconds, as `AnswerDelta` and `AnswerWithdrawn`, and with `live=false`
 * stored events alone. A cursor has the place in an answer that is being written, so `Last-Event-ID` loses and doubles no piece of it.
 *
 * `chat/ui` is the `api` of a `DefaultChatTransport`, and the id of the chat is the id of the session. Of what `useChat` sends, the new message
 * and the answers to requests are taken, and the rest changes nothing. `GET chat/ui?id=..` has the messages that a page begins with, and
 * `chat/ui/:id/stream` the message of the turn that runs. `stop()` leaves the stream, and `POST interrupt?id=..` stops the turn. `UiMessages`
 * has the parts of the messages.
 *
 * `chat/agui` is the `url` of an `HttpAgent` of AG-UI 1.0, and the id of the thread is the id of the session. The last message of the input is
 * sent, or `resume` answers interrupts with a payload such as `{ approved: true, reason: "Fine." }`. Each run begins with a snapshot of the
 * stored messages, so a run that was cut is run again with the same message. The state has the `steps` of a plan. Steps of plans and agents inside
 * are at work from `STEP_STARTED` to `STEP_FINISHED`, under their path: `write`, or `call_1` for the agent that a call runs.
 *
 * A file in what a front end gets is an address, `file?id=..&message=..&part=..`: pictures are shown in place, and everything
 * else is an attachment. A file that is sent is a part of the message, as Base64, and the body has a limit (`limits`).
 *
 * A caller has a number of streams and of requests under way (`maxStreams`, `maxRequests`), and so have all callers together. Nothing is made
 * for a reader that does not read: its stream ends with `timeout` after `readTimeout`, and its connection is closed soon after.
 *
 * A request that is refused has a status and a {@link Refusal} as its body. A defect is in the log of the server, and in no response.
 *
 * **Security**
 *
 * No caller may do anything that {@link Authorize} does not allow. An id is no authority: a caller who knows the id of a session of
 * another one may not touch it. The `RunContext` of messages comes from `Authorize`, and a front end can send none. A caller sees and sets
 * the titles and the metadata of his sessions, so they are no place for what he must not see or change.
 *
 * With the option `cookie`, requests without a bearer token are refused that come from a page of another origin, and commands without
 * an origin. Other origins are allowed by `allowedOrigins` alone. Use TLS beyond one machine.
 *
 * **Example** (A server, and a page that knows nothing but fetch)
 *
 * ```ts
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Effect, Layer, Option, Redacted } from "effect"
 * import { HttpRouter, HttpServer } from "effect/http"
 * import { Agent, VersionedStore } from "effect-emissary"
 * import { SessionHttp } from "effect-emissary/http"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 * import { createServer } from "node:http"
 *
 * const support = Agent.make("support", { instructions: "You help customers." })
 *
 * // Who asks, and what this caller may touch
 * const users: Record<string, string> = { "s3cret": "ada" }
 * const authorize = Layer.succeed(SessionHttp.Authorize, ({ token }) => {
 *   const user = Option.getOrUndefined(Option.map(token, (token) => users[Redacted.value(token)]))
 *   return user === undefined
 *     ? Effect.fail(SessionHttp.refuse("unauthorized", "Sign in first."))
 *     : Effect.succeed({ name: user, prefix: `${user}/`, access: "chat", context: { user } })
 * })
 *
 * const sessions = Session.layer([support]).pipe(
 *   Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer([{ text: "Welcome, Ada!" }])])
 * )
 * const server = HttpRouter.serve(SessionHttp.layerServer(), { disableLogger: true, disableListenLog: true }).pipe(
 *   Layer.provide([authorize, sessions]),
 *   Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0, gracefulShutdownTimeout: 0 }))
 * )
 *
 * const page = async (url: string) => {
 *   const headers = { authorization: "Bearer s3cret", "content-type": "application/json" }
 *   const body = JSON.stringify({ input: "Hello, I am Ada." })
 *   await fetch(`${url}/send?id=ada/1`, { method: "POST", headers, body })
 *   let text = ""
 *   const { body: events } = await fetch(`${url}/chat/events?id=ada/1`, { headers })
 *   for await (const chunk of events!.pipeThrough(new TextDecoderStream())) {
 *     text += chunk
 *     if (text.includes("TurnFinished")) break
 *   }
 *   const forbidden = await fetch(`${url}/chat/state?id=bob/1`, { headers })
 *   return { text, status: forbidden.status }
 * }
 *
 * const program = Effect.gen(function*() {
 *   const { address } = yield* HttpServer.HttpServer
 *   return yield* Effect.promise(() => page(`http://127.0.0.1:${"port" in address ? address.port : 0}/sessions`))
 * })
 * const { status, text } = await Effect.runPromise(Effect.provide(program, server))
 * assert(text.includes("Welcome, Ada!"))
 * assert(!text.includes("You help customers."))
 * assert.strictEqual(status, 403)
 * ```
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as HttpClient from "effect/http/HttpClient"
import * as HttpMiddleware from "effect/http/HttpMiddleware"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as HttpApi from "effect/http-api/HttpApi"
import * as OpenApi from "effect/http-api/OpenApi"
import * as callOptions from "../payload/internal/options.ts"
import * as Session from "../session/Session.ts"
import * as client from "./internal/client.ts"
import * as refusal from "./internal/refusal.ts"
import * as routes from "./internal/routes.ts"
import * as server from "./internal/server.ts"

export {
  /**
   * The state of a session as a front end sees it: without instructions, context and the details of errors.
   *
   * @category schemas
   * @since 0.1.0
   */
  ChatState,
  /**
   * A message as a front end sees it, with files as addresses. There are no system messages.
   *
   * @category schemas
   * @since 0.1.0
   */
  ChatMessage,
  /**
   * The messages of a session, and the cursor after which its events continue them. Events after the cursor may be in the messages
   * already: they have the same ids.
   *
   * @category schemas
   * @since 0.1.0
   */
  ChatHistory
} from "./internal/frontView.ts"

export type {
  /**
   * The class of a refusal. Each has a status.
   *
   * @category models
   * @since 0.1.0
   */
  Category
} from "./internal/refusal.ts"

export {
  /**
   * A request that is refused: its class, which is the status of the response, and a text for the user of a front end. `error` is the
   * error of the session, for callers with full access, and for everyone where it is about the request alone.
   *
   * **Details**
   *
   * The classes are the categories of `SessionError`, and `unauthorized` (401), `forbidden` (403), `timeout` (408) and `too-large` (413).
   *
   * @category errors
   * @since 0.1.0
   */
  Refusal
} from "./internal/refusal.ts"

export type {
  /**
   * The endpoint of an operation, see {@link Api}.
   *
   * @category models
   * @since 0.1.0
   */
  Endpoint,
  /**
   * The group of the endpoints of all operations, see {@link Api}.
   *
   * @category models
   * @since 0.1.0
   */
  Sessions,
  /**
   * The event of a stream.
   *
   * @category models
   * @since 0.1.0
   */
  StreamEvent,
  /**
   * The headers of a route that streams.
   *
   * @category models
   * @since 0.1.0
   */
  StreamHeaders
} from "./internal/routes.ts"

export type {
  /**
   * A caller, and the sessions that this caller may touch.
   *
   * @category models
   * @since 0.1.0
   */
  Caller,
  /**
   * A request with its token.
   *
   * @category models
   * @since 0.1.0
   */
  Credentials,
  /**
   * Options of {@link layerServer}.
   *
   * @category options
   * @since 0.1.0
   */
  Options as ServerOptions
} from "./internal/server.ts"

export type {
  /**
   * Options of {@link layerClient}.
   *
   * @category options
   * @since 0.1.0
   */
  Options as ClientOptions
} from "./internal/client.ts"

/**
 * A refusal of an {@link Authorize}: `unauthorized` for a caller who is unknown, `forbidden` for a caller who may not ask. The message is sent
 * to the caller.
 *
 * @category constructors
 * @since 0.1.0
 */
export const refuse: (category: refusal.Category, message: string) => refusal.Refusal = refusal.refuse

/**
 * Finds the caller of a request, and what this caller may touch. It is run for each request, before anything of the body is read.
 *
 * **Details**
 *
 * A {@link Refusal} that it fails with is the response. A defect of it is a response with status 500 and without details.
 *
 * @category services
 * @since 0.1.0
 */
export class Authorize extends Context.Service<Authorize, server.Authorize>()("effect-emissary/http/Authorize") {}

/**
 * The routes of the operations as an `HttpApi`, to derive other clients and documents from. `Api.prefix("/sessions")` has the paths
 * of a server.
 *
 * @category apis
 * @since 0.1.0
 */
export const Api: HttpApi.HttpApi<"effect-emissary/sessions", routes.Sessions> = routes.api

/**
 * Adds the routes of the sessions to the router of the application, and their OpenAPI document as `openapi.json`.
 *
 * **Gotchas**
 *
 * All paths below `path` are of this layer. A server that is closed waits for its streams, which do not end by themselves: a
 * short time is enough, such as `gracefulShutdownTimeout: 0` of `NodeHttpServer`. Readers continue at the next server.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerServer = (
  options: server.Options = {}
): Layer.Layer<never, never, Authorize | HttpRouter.HttpRouter | Session.Session> =>
  HttpRouter.use(
    Effect.fnUntraced(function* (router) {
      yield* callOptions.check("SessionHttp.layerServer", server.allowed, options)
      const { allowedOrigins = [], cookie, path = server.defaultPath } = options
      // Without origins, the middleware would allow all of them
      const cors = HttpMiddleware.cors({
        allowedOrigins: (origin) => allowedOrigins.includes(origin),
        allowedMethods: ["GET", "POST"],
        allowedHeaders: ["authorization", "content-type", "last-event-id"],
        credentials: cookie !== undefined,
        maxAge: 600
      })
      for (const { handler, method, name } of server.make(yield* Session.Session, yield* Authorize, options)) {
        yield* router.add(method, `${path}/${name}`, cors(handler))
      }
      const document = HttpServerResponse.jsonUnsafe(OpenApi.fromApi(routes.api.prefix(path)))
      yield* router.add("GET", `${path}/openapi.json`, cors(Effect.succeed(document)))
      yield* router.add("*", `${path}/*`, cors(server.unknown(path)))
    })
  )

/**
 * The sessions of a server.
 *
 * **Details**
 *
 * The token needs full access. Errors are the errors of the server, and two more: `Denied` for a caller who may not do this, and
 * `Unreachable` where the server does not answer in time, or answers with what is no answer. A query, and a command that
 * names its message, is made again after a connection was lost. Another command may have taken effect then. A stream
 * continues where it was.
 *
 * **Example** (The program of a chat, with sessions that are elsewhere)
 *
 * ```ts no-run
 * import { Effect, Layer, Redacted } from "effect"
 * import { FetchHttpClient } from "effect/http"
 * import { SessionHttp } from "effect-emissary/http"
 * import { Session } from "effect-emissary/session"
 *
 * const sessions = SessionHttp.layerClient({
 *   url: "https://chat.example.com/sessions",
 *   token: Redacted.make("s3cret")
 * }).pipe(Layer.provide(FetchHttpClient.layer))
 *
 * const program = Session.ask("ada/1", "Hello, I am Ada.")
 * console.log(await Effect.runPromise(Effect.provide(program, sessions)))
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerClient = (options: client.Options): Layer.Layer<Session.Session, never, HttpClient.HttpClient> =>
  Layer.effect(Session.Session, client.make(options))
