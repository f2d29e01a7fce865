/**
 * One connection to an MCP server through `McpClient` of `effect/ai`, with what that leaves out: notifications, results as
 * they came, and servers that speak an older version of the protocol.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as McpClient from "effect/ai/McpClient"
import type * as McpClientError from "effect/ai/McpClientError"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as ByteSize from "effect/ByteSize"
import * as Duration from "effect/Duration"
import * as Sse from "effect/encoding/Sse"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as UrlParams from "effect/http/UrlParams"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as plainJson from "../../payload/internal/plainJson.ts"
import * as remoteProtocol from "../../tool/internal/remoteProtocol.ts"

/** The place of a server: a program that speaks over its standard streams, or a URL. */
export type Place =
  | { readonly command: ChildProcess.Command }
  | {
      readonly url: string | URL
      readonly headers?: { readonly [name: string]: string | Redacted.Redacted<string> } | undefined
    }

/** A report of a server while a call is under way. */
export const Progress = Schema.Struct({
  progress: Schema.Finite,
  total: Schema.optionalKey(Schema.Finite),
  message: Schema.optionalKey(Schema.String)
})

/** Receives what a request brings: its result as it came, and progress. */
interface Exchange {
  readonly onResult: (result: unknown) => void
  readonly onProgress?: (progress: typeof Progress.Type) => void
}

/** The receiver of the requests of the current fiber. */
export const CurrentExchange = Context.Reference<Exchange | undefined>("effect-emissary/mcp/CurrentExchange", {
  defaultValue: () => undefined
})

/** A connection, and what is known of it. */
export interface Connection {
  readonly client: McpClient.McpClient
  readonly isCallable: McpClient.Transport["isCallable"]
  /** The server has ended, or closed its output. */
  isLost: boolean
  /** The tools have changed since they were listed. */
  isStale: boolean
  /** The server announces changes of its tools, and can reach this client. */
  isWatched: boolean
}

interface Wire extends Connection {
  /** The server has declared that it announces changes. */
  announces: boolean
  session: string | undefined
  /** The version that the server answered with, where it is older than the one of the client. */
  olderVersion: string | undefined
  /** The wait before a stream of events is opened again, which the server may name. */
  retry: Duration.Duration
  readonly progress: Map<string | number, NonNullable<Exchange["onProgress"]>>
}

type MutableWire = Omit<Wire, "client" | "isCallable">

const olderVersions: ReadonlySet<unknown> = new Set(["2025-06-18", "2025-03-26", "2024-11-05"])

const ProgressNotice = Schema.Struct({
  ...Progress.fields,
  progressToken: Schema.Union([Schema.String, Schema.Finite])
})

const decodeNotice = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ method: Schema.String, params: Schema.optionalKey(Schema.Unknown) }))
)

const decodeProgress = Schema.decodeUnknownOption(ProgressNotice)

/** Reads one message of the server if it is a notification. `McpClient` drops those. */
const notice = (wire: MutableWire, text: string): void => {
  if (!text.includes('"notifications/')) return
  const { method, params } = Option.getOrElse(decodeNotice(text), () => ({ method: "", params: undefined }))
  if (method === "notifications/tools/list_changed") wire.isStale = true
  if (method !== "notifications/progress") return
  const progress = Option.getOrUndefined(decodeProgress(params))
  if (progress === undefined) return
  const { progressToken, ...rest } = progress
  wire.progress.get(progressToken)?.(rest)
}

/** Feeds lines of text from chunks of bytes, none longer than the limit. */
const lines = (maxBytes: number, onLine: (line: string) => void) => {
  const decoder = new TextDecoder()
  let rest = ""
  return (chunk: Uint8Array): void => {
    const text = decoder.decode(chunk, { stream: true })
    const parts = text.includes("\n") ? (rest + text).split("\n") : [rest + text]
    rest = parts.pop() ?? ""
    if (rest.length > maxBytes) rest = ""
    for (const line of parts) if (line.length <= maxBytes) onLine(line)
  }
}

/** The places at which streams of events have ended, for the streams that continue them. */
interface Position {
  lastEventId: string | undefined
  /** No event has begun since the last one. */
  isBetween: boolean
}

/** The shortest wait before a stream is continued, whatever the server names. */
const minRetry = Duration.millis(100)

/** Feeds the events of a stream from its chunks. */
const events = (wire: MutableWire, maxBytes: number, position: Position) => {
  const decoder = new TextDecoder()
  const onEvent = (event: Sse.AnyEvent) => {
    if (event._tag === "Retry") wire.retry = Duration.max(minRetry, event.duration)
    else {
      position.lastEventId = event.id
      notice(wire, event.data)
    }
  }
  const parser = Sse.makeParser(onEvent, { maxEventSize: maxBytes })
  let end = ""
  return (chunk: Uint8Array): void => {
    const text = decoder.decode(chunk, { stream: true })
    end = (end + text).slice(-4)
    position.isBetween = /(?:\n\n|\r\r|\r\n\r\n)$/.test(end)
    parser.feed(text)
  }
}

const tapped = <E, R>(stream: Stream.Stream<Uint8Array, E, R>, feed: (chunk: Uint8Array) => void) =>
  Stream.tap(stream, (chunk) => Effect.sync(() => feed(chunk)))

/** The spawner whose processes are listened to. */
const listenToProcess = (
  spawner: ChildProcessSpawner.ChildProcessSpawner["Service"],
  wire: MutableWire,
  maxBytes: number
): ChildProcessSpawner.ChildProcessSpawner["Service"] => ({
  ...spawner,
  spawn: (command) =>
    Effect.map(spawner.spawn(command), (handle) => {
      const stdout = Stream.ensuring(
        tapped(
          handle.stdout,
          lines(maxBytes, (line) => notice(wire, line))
        ),
        Effect.sync(() => {
          wire.isLost = true
        })
      )
      return { ...handle, stdout }
    })
})

const isStreamOfEvents = ({ headers, status }: HttpClientResponse.HttpClientResponse): boolean =>
  status === 200 && headers["content-type"]?.startsWith("text/event-stream") === true

/** The HTTP client of a server, whose streams of events are listened to, and continued where they end before the answer. */
const listenToHttp = (
  client: HttpClient.HttpClient,
  wire: MutableWire,
  { maxBytes, place, protocol }: Options & { readonly place: HttpPlace }
): HttpClient.HttpClient => {
  const plain = client.pipe(
    HttpClient.mapRequest((request) =>
      wire.olderVersion === undefined
        ? request
        : HttpClientRequest.setHeader(request, "mcp-protocol-version", wire.olderVersion)
    ),
    // A key may be in the query of the URL
    HttpClient.transformResponse(Effect.provideService(UrlParams.CurrentRedactedNames, [/(?:)/])),
    HttpClient.transformResponse((effect) =>
      Effect.tap(remoteProtocol.refuseRedirects(effect), ({ headers }) =>
        Effect.sync(() => {
          wire.session = headers["mcp-session-id"] ?? wire.session
        })
      )
    )
  )
  const follow = (
    response: HttpClientResponse.HttpClientResponse,
    position: Position
  ): Stream.Stream<Uint8Array, HttpClientError.HttpClientError> => {
    const stream = tapped(response.stream, events(wire, maxBytes, position))
    // Version 2026-07-28 has no such streams: there the end of one cancels the call
    if (protocol.protocolVersion !== "2025-11-25") return stream
    const canContinue = () => position.isBetween && position.lastEventId !== undefined
    return stream.pipe(
      Stream.catch((error) => (canContinue() ? Stream.empty : Stream.fail(error))),
      Stream.concat(Stream.suspend(() => (canContinue() ? resume(position) : Stream.empty)))
    )
  }
  const resume = (position: Position): Stream.Stream<Uint8Array, HttpClientError.HttpClientError> => {
    const request = listenRequest(place, wire, { "last-event-id": position.lastEventId ?? "" })
    return Stream.unwrap(
      plain.execute(request).pipe(
        Effect.delay(wire.retry),
        Effect.map((response) => (isStreamOfEvents(response) ? follow(response, position) : Stream.empty)),
        // The call was sent, so this failure is not the one of a call that was not
        Effect.orElseSucceed(() => Stream.empty)
      )
    )
  }
  return HttpClient.transform(plain, (effect, { method }) =>
    Effect.map(effect, (response): HttpClientResponse.HttpClientResponse => {
      if (!isStreamOfEvents(response)) return response
      const position: Position = { lastEventId: undefined, isBetween: false }
      const stream =
        method === "POST" ? follow(response, position) : tapped(response.stream, events(wire, maxBytes, position))
      // The same response with another stream: its members are getters that read it
      return Object.create(response, { stream: { value: stream } })
    })
  )
}

const isRecord = Predicate.isReadonlyObject

/** Passes what came to the exchange, and to `McpClient` no more of it than that needs. */
const takeResult = (method: string, result: unknown, wire: MutableWire, exchange: Exchange | undefined): unknown => {
  if (!isRecord(result)) return result
  if (method === "initialize" || method === "server/discover") {
    const { capabilities } = result
    wire.announces = isRecord(capabilities) && isRecord(capabilities.tools) && capabilities.tools.listChanged === true
    if (!olderVersions.has(result.protocolVersion)) return result
    wire.olderVersion = String(result.protocolVersion)
    return { ...result, protocolVersion: McpProtocol.v2025_11_25.protocolVersion }
  }
  if (exchange === undefined || result.resultType === "input_required") return result
  if (method === "tools/list" && Array.isArray(result.tools)) {
    exchange.onResult(result.tools)
    return { ...result, tools: [] }
  }
  if (method !== "tools/call") return result
  exchange.onResult(result)
  return { content: [] }
}

const listenTo = (inner: McpClient.Transport, wire: MutableWire): McpClient.Transport => ({
  ...inner,
  request: (message, tool) =>
    Effect.flatMap(Effect.service(CurrentExchange), (exchange) => {
      const onProgress = message.method === "tools/call" ? exchange?.onProgress : undefined
      const { params = {} } = message
      const meta = isRecord(params._meta) ? params._meta : {}
      const progressToken = message.id
      const sent = {
        ...message,
        ...(onProgress === undefined ? {} : { params: { ...params, _meta: { ...meta, progressToken } } })
      }
      if (onProgress !== undefined) wire.progress.set(progressToken, onProgress)
      return inner.request(sent, tool).pipe(
        Effect.map((response) =>
          "error" in response
            ? response
            : { ...response, result: takeResult(message.method, response.result, wire, exchange) }
        ),
        Effect.ensuring(Effect.sync(() => wire.progress.delete(progressToken)))
      )
    })
})

type HttpPlace = Extract<Place, { readonly url: unknown }>

const headersOf = (place: HttpPlace): Record<string, string> =>
  Object.fromEntries(
    Object.entries(place.headers ?? {}).map(([name, value]) => [
      name,
      typeof value === "string" ? value : Redacted.value(value)
    ])
  )

/** A request for a stream of events, in version 2025-11-25 and older. */
const listenRequest = (place: HttpPlace, { session }: MutableWire, headers?: Record<string, string>) =>
  HttpClientRequest.get(place.url).pipe(
    HttpClientRequest.setHeaders({
      ...headersOf(place),
      ...headers,
      ...plainJson.defined({ "mcp-session-id": session }),
      accept: "text/event-stream",
      "mcp-protocol-version": McpProtocol.v2025_11_25.protocolVersion
    })
  )

/** The stream on which a server of version 2025-11-25 and older sends what belongs to no request. */
const watch = Effect.fnUntraced(function* (http: HttpClient.HttpClient, place: HttpPlace, wire: MutableWire) {
  const listen = Effect.gen(function* () {
    if (wire.session === undefined) return yield* Effect.fail("no session")
    const response = yield* http.execute(listenRequest(place, wire))
    if (response.status !== 200) return yield* Effect.fail("the server has no such stream")
    wire.isStale = true
    wire.isWatched = wire.announces
    return yield* Stream.runDrain(response.stream)
  }).pipe(
    Effect.scoped,
    Effect.ensuring(
      Effect.sync(() => {
        // A change may be announced before the next stream opens
        wire.isWatched = false
        wire.isStale = true
      })
    )
  )
  const again = Effect.andThen(
    listen,
    Effect.suspend(() => Effect.sleep(wire.retry))
  )
  yield* Effect.forkScoped(Effect.ignore(Effect.forever(again)))
})

/** The versions that `McpClient` speaks, in the order in which they are tried. */
export type Protocol = McpProtocol.ProtocolAdapter<McpClient.ProtocolVersion>

export const protocols: readonly [Protocol, Protocol] = [McpProtocol.v2025_11_25, McpProtocol.v2026_07_28]

/** A refusal that a server of another version answers to the first message. */
export const isForeign = ({ reason }: McpClientError.McpClientError): boolean =>
  reason._tag === "UnsupportedError" ||
  (reason._tag === "ProtocolError" && reason.code !== undefined) ||
  (reason._tag === "HttpError" && reason.status === 400)

/** A failure that another attempt to connect may not meet. */
export const isTransient = ({ reason }: McpClientError.McpClientError): boolean =>
  reason._tag === "TransportError" ||
  reason._tag === "TimeoutError" ||
  (reason._tag === "HttpError" && (reason.status === 429 || reason.status >= 500))

/** The options of a connection. */
export interface Options {
  readonly place: Place
  readonly protocol: Protocol
  readonly timeout: Duration.Input
  readonly maxBytes: number
}

const identity = { name: "effect-emissary", version: "0.1.0" }

/** Connects for as long as the scope lasts. */
export const connect = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<Connection, McpClientError.McpClientError, Scope.Scope> {
  const { maxBytes, place, protocol, timeout } = options
  const maxMessageBytes = ByteSize.bytes(maxBytes)
  const state: MutableWire = {
    isLost: false,
    isStale: false,
    isWatched: false,
    announces: false,
    session: undefined,
    olderVersion: undefined,
    retry: Duration.seconds(1),
    progress: new Map()
  }
  const services = yield* Effect.context<never>()
  let transport: McpClient.Transport
  let http: HttpClient.HttpClient | undefined
  if ("command" in place) {
    // Sound: the layer requires the spawner for a server with a command
    const context = services as Context.Context<ChildProcessSpawner.ChildProcessSpawner>
    const spawner = Context.get(context, ChildProcessSpawner.ChildProcessSpawner)
    transport = yield* Effect.provideService(
      McpClient.stdio({ command: place.command, protocol, maxMessageBytes }),
      ChildProcessSpawner.ChildProcessSpawner,
      listenToProcess(spawner, state, maxBytes)
    )
  } else {
    // Sound: the layer requires the HTTP client for a server with a URL
    const context = services as Context.Context<HttpClient.HttpClient>
    http = listenToHttp(Context.get(context, HttpClient.HttpClient), state, { ...options, place })
    transport = yield* Effect.provideService(
      McpClient.http({ url: place.url, headers: headersOf(place), protocol, maxMessageBytes }),
      HttpClient.HttpClient,
      http
    )
  }
  const client = yield* Effect.provideService(
    McpClient.make({ ...identity, timeout }),
    McpClient.Transport,
    listenTo(transport, state)
  )
  if ("command" in place) state.isWatched = state.announces
  else if (http !== undefined && state.announces) yield* watch(http, place, state)
  return Object.assign(state, { client, isCallable: transport.isCallable })
})

const schemes: ReadonlySet<string> = new Set(["basic", "bearer"])

/** The parameters of a URL that grant access, and have no name of a secret. */
const keyParameter = /^(?:key|sig|.*signature)$/i

/** The values of headers and of the URL of a server that are secret. */
const secretsOf = (place: Place): ReadonlyArray<string> => {
  if ("command" in place) return []
  const url = Option.getOrUndefined(Option.liftThrowable(() => new URL(place.url))())
  const parameters = [...(url?.searchParams ?? [])].flatMap(([name, value]) =>
    plainJson.isSecretName(name) || keyParameter.test(name) ? [value] : []
  )
  return (
    Object.values(place.headers ?? {})
      // A token is secret without its scheme, too
      .flatMap((value) =>
        typeof value === "string" ? [] : [Redacted.value(value), ...Redacted.value(value).split(" ")]
      )
      .concat(parameters)
      .filter((secret) => secret.length > 3 && !schemes.has(secret.toLowerCase()))
  )
}

/** Hides the secrets of a place in the texts and keys of JSON that the server sends: it may repeat them. */
export const makeConceal = (place: Place): (<Value extends Schema.Json>(json: Value) => Value) => {
  const secrets = secretsOf(place)
  const hide = (text: string) => secrets.reduce((all, secret) => all.replaceAll(secret, "<redacted>"), text)
  const conceal = (json: Schema.Json): Schema.Json => {
    if (typeof json === "string") return hide(json)
    if (plainJson.isArray(json)) return json.map(conceal)
    return plainJson.isObject(json)
      ? Object.fromEntries(Object.entries(json).map(([key, value]) => [hide(key), conceal(value)]))
      : json
  }
  // Sound: a copy has the kinds of the values of the original
  return (json) => (secrets.length === 0 ? json : (conceal(json) as typeof json))
}
