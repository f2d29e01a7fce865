/**
 * One connection to an MCP server through `McpClient` of `effect/ai`, with what that leaves out: notifications, results as
 * they came, and servers that speak an older version of the protocol.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as McpClient from "effect/ai/McpClient"
import type * as McpClientError from "effect/ai/McpClientError"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as ByteSize from "effect/ByteSize"
import type * as Duration from "effect/Duration"
import * as Sse from "effect/encoding/Sse"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
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

const events = (maxBytes: number, onData: (data: string) => void) => {
  const decoder = new TextDecoder()
  const parser = Sse.makeParser((event) => void (event._tag === "Event" && onData(event.data)), {
    maxEventSize: maxBytes
  })
  return (chunk: Uint8Array): void => void parser.feed(decoder.decode(chunk, { stream: true }))
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

/** The HTTP client whose streams of events are listened to. */
const listenToHttp = (client: HttpClient.HttpClient, wire: MutableWire, maxBytes: number): HttpClient.HttpClient =>
  client.pipe(
    HttpClient.mapRequest((request) =>
      wire.olderVersion === undefined
        ? request
        : HttpClientRequest.setHeader(request, "mcp-protocol-version", wire.olderVersion)
    ),
    HttpClient.transformResponse((effect) =>
      Effect.map(remoteProtocol.refuseRedirects(effect), (response): HttpClientResponse.HttpClientResponse => {
        wire.session = response.headers["mcp-session-id"] ?? wire.session
        if (response.headers["content-type"]?.startsWith("text/event-stream") !== true) return response
        const stream = tapped(
          response.stream,
          events(maxBytes, (data) => notice(wire, data))
        )
        // The same response with another stream: its members are getters that read it
        return Object.create(response, { stream: { value: stream } })
      })
    )
  )

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

const headersOf = (place: Extract<Place, { readonly url: unknown }>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(place.headers ?? {}).map(([name, value]) => [
      name,
      typeof value === "string" ? value : Redacted.value(value)
    ])
  )

/** The stream on which a server of version 2025-11-25 and older sends what belongs to no request. */
const watch = Effect.fnUntraced(function* (
  http: HttpClient.HttpClient,
  place: Extract<Place, { readonly url: unknown }>,
  wire: MutableWire
) {
  const listen = Effect.gen(function* () {
    if (wire.session === undefined) return yield* Effect.fail("no session")
    const response = yield* http.execute(
      HttpClientRequest.get(place.url).pipe(
        HttpClientRequest.setHeaders({
          ...headersOf(place),
          accept: "text/event-stream",
          "mcp-session-id": wire.session,
          "mcp-protocol-version": McpProtocol.v2025_11_25.protocolVersion
        })
      )
    )
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
  yield* Effect.forkScoped(Effect.ignore(Effect.repeat(listen, Schedule.spaced("1 second"))))
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
    http = listenToHttp(Context.get(context, HttpClient.HttpClient), state, maxBytes)
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

/** The values of the headers of a server that are secret. */
export const secretsOf = (place: Place): ReadonlyArray<string> =>
  "command" in place
    ? []
    : Object.values(place.headers ?? {})
        // A token is secret without its scheme, too
        .flatMap((value) =>
          typeof value === "string" ? [] : [Redacted.value(value), ...Redacted.value(value).split(" ")]
        )
        .filter((secret) => secret.length > 3 && !schemes.has(secret.toLowerCase()))
