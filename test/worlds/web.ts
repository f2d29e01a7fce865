/**
 * Sessions over HTTP in a world: each process has a server of its sessions, and clients reach one of them over the network of the world. A command
 * or a query may be lost or made twice, on its way or on its way back, and a stream is cut between two pieces of its body.
 */
import assert from "node:assert"
import { Cause, Context, Deferred, Effect, Exit, Fiber, Layer, Redacted, Result, Schema, Scope, Stream } from "effect"
import { Sse } from "effect/encoding"
import {
  type Headers,
  HttpClient,
  HttpClientError,
  type HttpClientRequest,
  HttpEffect,
  HttpRouter,
  HttpServerRequest,
  HttpServerResponse
} from "effect/http"
import { SessionHttp } from "effect-emissary/http"
import { ChatEvent, Session } from "effect-emissary/session"
import type { Simulation } from "effect-emissary/testing"
import { type Diary, lifeOf, nap, type World } from "./clients.ts"
import * as protocols from "./pages.ts"

/** The answer of a server, in pieces. */
type Piece = { readonly status: number; readonly headers: Headers.Headers } | Uint8Array

/** The server of a process. */
export class Server extends Context.Service<
  Server,
  { readonly answer: (request: HttpClientRequest.HttpClientRequest) => Stream.Stream<Piece, Error> }
>()("worlds/Server") {}

/** The token is the access of its caller. */
/** Pages do not name the agent of a session that begins. */
const authorize = (agent: string | undefined) =>
  Layer.succeed(SessionHttp.Authorize, ({ token }) => {
    const isFull = token._tag === "Some" && Redacted.value(token.value) === "full"
    return Effect.succeed({ name: "someone", prefix: "", ...(isFull ? { access: "full" } : { access: "chat", agent }) })
  })

const path = "/sessions"

const server = (chat: ChatEvent.Options, agent: string | undefined) =>
  Layer.effect(
    Server,
    Effect.map(
      HttpRouter.toHttpEffect(
        Layer.provide(SessionHttp.layerServer({ path, chat, maxStreams: 1000 }), authorize(agent))
      ),
      (app) => ({
        answer: (request: HttpClientRequest.HttpClientRequest) =>
          Stream.unwrap(
            Effect.gen(function* () {
              const answered = yield* Deferred.make<HttpServerResponse.HttpServerResponse>()
              const handled = HttpEffect.toHandled(app, (_, response) =>
                Deferred.succeed(answered, HttpEffect.scopeTransferToStream(response))
              )
              const received = HttpServerRequest.fromClientRequest(request)
              // A handler that fails has answered before
              yield* Effect.exit(Effect.provideService(handled, HttpServerRequest.HttpServerRequest, received))
              const response = HttpServerResponse.toClientResponse(yield* Deferred.await(answered), { request })
              const head: Piece = { status: response.status, headers: response.headers }
              return Stream.concat(Stream.succeed(head), response.stream)
            })
          )
      })
    )
  )

/** The layer of a process with its server. `chat`: what front ends see of answers. `agent`: the agent of sessions that pages begin. */
export const serving = <E, R>(
  sessions: Layer.Layer<Session.Session, E, R>,
  chat: ChatEvent.Options = {},
  agent?: string
) => Layer.provideMerge(server(chat, agent), sessions)

export type WebWorld = Simulation.World<Session.Session | Server>

const streams: ReadonlySet<string> = new Set(["GET events", "GET live", "GET listChanges", "GET chat/events"])

/** The routes of protocols answer with streams, except for the list of the messages. */
const isStream = (method: string, name: string): boolean =>
  streams.has(`${method} ${name}`) || /^POST chat\/|^GET chat\/ui\/.*\/stream$/.test(`${method} ${name}`)

const responseOf = (
  request: HttpClientRequest.HttpClientRequest,
  head: Piece | undefined,
  body: Stream.Stream<Uint8Array, unknown>
) => {
  assert(head !== undefined && "status" in head)
  return HttpServerResponse.toClientResponse(HttpServerResponse.stream(body, head), { request })
}

const isBody = (piece: Piece): piece is Uint8Array => piece instanceof Uint8Array

/** The way to the servers. */
export const transport = (world: WebWorld) =>
  HttpClient.make((request, url) => {
    const name = url.pathname.slice(path.length + 1)
    const called = `${request.method} ${name} ${url.searchParams.get("id") ?? ""}`
    const answer = Stream.unwrap(Effect.map(Server, (server) => server.answer(request)))
    const sent = Effect.gen(function* () {
      const process = yield* world.any
      if (!isStream(request.method, name)) {
        const [head, ...body] = yield* process.call(called, Stream.runCollect(answer))
        return responseOf(request, head, Stream.fromIterable(body.filter(isBody)))
      }
      const scope = yield* Scope.make()
      const pull = yield* Scope.provide(Stream.toPull(Stream.rechunk(process.stream(called, answer), 1)), scope)
      const close = Scope.close(scope, Exit.void)
      const [head] = yield* Effect.onError(pull, () => close)
      const body = Stream.filter(Stream.fromPull(Effect.succeed(pull)), isBody)
      return responseOf(request, head, Stream.ensuring(body, close))
    })
    return Effect.mapError(
      sent,
      (cause) => new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, cause }) })
    )
  })

/** The events that a page got in one life of a session, by their numbers, and the drafts that it shows. */
interface Page {
  readonly session: string
  readonly life: string
  readonly events: Map<number, unknown>
  readonly drafts: Map<string, Map<number, string>>
  isOver: boolean
}

const asJson = Schema.encodeUnknownEffect(ChatEvent.Entry)

/** Shows an event on a page. Returns what is wrong with it. */
const showOn = ({ drafts, events }: Page, { event, sequence }: ChatEvent.Entry, json: unknown): string | undefined => {
  if (event._tag === "AnswerWithdrawn") {
    // The draft may have had parts alone that pages do not see
    drafts.delete(event.messageId)
    return undefined
  }
  if (event._tag === "AnswerDelta") {
    const { delta, messageId, offset, part } = event
    const parts = drafts.get(messageId) ?? new Map<number, string>()
    const before = parts.get(part) ?? ""
    drafts.set(messageId, parts.set(part, before + delta))
    return before.length === offset ? undefined : `a piece at ${offset} after ${before.length} characters`
  }
  if (sequence <= Math.max(0, ...events.keys())) return "an event twice"
  events.set(sequence, json)
  if (event._tag !== "Answered") return undefined
  const shown = event.content.map((part) =>
    part.type === "text" ? part.text : part.type === "tool-call" ? JSON.stringify(part.arguments) : ""
  )
  const lost = Array.from(drafts.get(event.messageId)?.values() ?? []).find(
    (text) => !shown.some((all) => all.startsWith(text))
  )
  drafts.delete(event.messageId)
  return lost && `the text ${lost} of a draft of ${JSON.stringify(event.content)}`
}

const decodeEntry = Schema.decodeEffect(Schema.fromJsonString(ChatEvent.Entry))

/** Reads a session as a page does, which has nothing but the ids of events: from the start, and again after a cut. */
const read = Effect.fnUntraced(function* (
  http: HttpClient.HttpClient,
  diary: Diary,
  pages: Array<Page>,
  session: string
) {
  let page: Page | undefined
  let last: string | undefined
  const problem = (text: string) => void diary.problems.push(`a page of ${session} ${text}`)
  const listen = Effect.gen(function* () {
    const response = yield* http.get(`http://world${path}/chat/events`, {
      urlParams: { id: session },
      headers: { authorization: "Bearer page", ...(last === undefined ? undefined : { "last-event-id": last }) }
    })
    if (response.status === 404 || response.status === 409) {
      last = undefined
      if (page !== undefined) page.isOver = true
    }
    if (response.status !== 200) return
    yield* response.stream.pipe(
      Stream.decodeText,
      Stream.pipeThroughChannel(Sse.decode()),
      Stream.runForEach(({ data, event, id }) =>
        Effect.gen(function* () {
          if (event === "end") return yield* Effect.fail(data)
          const entry = yield* Effect.orDie(decodeEntry(data))
          if (id !== entry.cursor) problem(`got ${entry.cursor} as ${id}`)
          const life = lifeOf(entry.cursor)
          if (page?.life !== life)
            pages.push((page = { session, life, events: new Map(), drafts: new Map(), isOver: false }))
          const wrong = showOn(page, entry, JSON.parse(data))
          if (wrong !== undefined) problem(`saw at ${entry.cursor} ${wrong}`)
          last = entry.cursor
        })
      )
    )
  })
  const listened = Effect.catchCause(Effect.scoped(listen), (cause) => {
    if (Cause.hasDies(cause)) problem(`fails: ${String(Cause.squash(cause))}`)
    return Effect.void
  })
  return yield* Effect.forever(Effect.andThen(listened, nap(10, 150)))
})

/** Compares what pages have with the log. A session that was removed is not read to its end, by the pages or by others. */
const compare = Effect.fnUntraced(function* (diary: Diary, pages: ReadonlyArray<Page>) {
  for (const { drafts, events, isOver, life, session } of pages) {
    const entries = diary.lives.get(life)?.entries ?? []
    const shown = yield* Effect.forEach(
      entries.flatMap((entry) =>
        Result.match(ChatEvent.project()(entry), { onFailure: () => [], onSuccess: (event) => [event] })
      ),
      (entry) => Effect.orDie(asJson(entry))
    )
    const seen = Array.from(events.values(), (json) => JSON.stringify(json).replace(/("cursor":"[^"/]+)\/[^"]*/, "$1"))
    const wanted = shown.map((json) => JSON.stringify(json))
    const least = isOver ? Math.min : Math.max
    const read = least(seen.length, wanted.length)
    const differs = Array.from({ length: read }, (_, index) => index).find((index) => seen[index] !== wanted[index])
    if (differs !== undefined)
      diary.problems.push(`a page of ${session} in ${life} shows ${seen[differs]}, and the log ${wanted[differs]}`)
    if (!isOver && drafts.size > 0) diary.problems.push(`a page of ${session} still shows ${[...drafts.keys()].join()}`)
  }
})

/** Opens pages, and returns the comparison of what they show with the log, for the time after the sessions have come to rest. */
export type Watch = (diary: Diary, sessions: ReadonlyArray<string>) => Effect.Effect<Effect.Effect<void>>

/** The script of a world whose clients have sessions over HTTP. `hasPages`: there are users with pages of the protocols of front ends. */
export const around =
  <A, E, R>(script: (world: World, watch: Watch) => Effect.Effect<A, E, R>, hasPages = false) =>
  (world: WebWorld) =>
    Effect.gen(function* () {
      const reach = transport(world)
      const http = Layer.succeed(HttpClient.HttpClient, reach)
      const client = SessionHttp.layerClient({
        url: `http://world${path}`,
        token: Redacted.make("full"),
        timeout: "4 seconds"
      })
      const sessions = Context.get(yield* Layer.build(Layer.provide(client, http)), Session.Session)
      const near = Effect.map(world.any, (process) => ({
        ...process,
        call: <A, E>(_: string, effect: Effect.Effect<A, E, Session.Session>) =>
          Effect.provideService(effect, Session.Session, sessions),
        stream: <A, E>(_: string, stream: Stream.Stream<A, E, Session.Session>) =>
          Stream.provideService(stream, Session.Session, sessions)
      }))
      const watch: Watch = Effect.fnUntraced(function* (diary, ids) {
        const pages: Array<Page> = []
        const readers = yield* Effect.forEach(ids, (id) => Effect.forkDetach(read(reach, diary, pages, id)))
        const shown = hasPages ? yield* protocols.users(reach, diary) : Effect.void
        const compared = Effect.andThen(shown, compare(diary, pages))
        return Effect.andThen(compared, Effect.forEach(readers, Fiber.interrupt, { discard: true }))
      })
      return yield* script({ ...world, any: near }, watch)
    }).pipe(Effect.scoped)
