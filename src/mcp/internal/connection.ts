/**
 * One connection to an MCP server through `McpClient` of `effect/ai`, with what `McpClient` leaves out: notifications,
 * results as they came, servers that speak an older version of the protocol, and the many that write it loosely. Every
 * text of the server passes through {@link readMessages}, so `McpClient` gets strict messages of JSON-RPC.
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
import * as McpClientError from "effect/ai/McpClientError"
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
import * as base from "../../payload/internal/base.ts"
import { isSecretName } from "../../payload/internal/copyJson.ts"
import { defined, isArray, isObject } from "../../payload/internal/values.ts"
import * as remoteProtocol from "../../tool/internal/remoteProtocol.ts"

/** The address of a server: a program that speaks over its standard streams, or a URL. */
export type Endpoint =
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
  /** The server has declared that it has tools. */
  hasTools: boolean
  /** The server has declared that it announces changes. */
  announces: boolean
  /** The texts of the server that were no messages. */
  skipped: number
  hasWarned: boolean
  session: string | undefined
  /** The version that the server answered with, where it is older than the one of the client. */
  olderVersion: string | undefined
  /** The wait before a stream of events is opened again, which the server may name. */
  retry: Duration.Duration
  readonly progress: Map<string | number, NonNullable<Exchange["onProgress"]>>
}

type MutableWire = Omit<Wire, "client" | "isCallable">

const olderVersions: ReadonlySet<unknown> = new Set(["2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"])

const isRecord = Predicate.isReadonlyObject

/**
 * A copy of an object without the members that are `null`, which many servers write for absent ones, and the same for the
 * objects in the members of these names.
 */
export const present = <Value>(
  object: { readonly [key: string]: Value },
  ...nested: ReadonlyArray<string>
): { readonly [key: string]: Value } =>
  Object.fromEntries(
    Object.entries(object).flatMap(([key, value]) => {
      if (value === null) return []
      // Sound: a copy of an object has the kinds of its members
      return [[key, nested.includes(key) && isRecord(value) ? (present(value) as Value) : value]]
    })
  )

const ProgressNotice = Schema.Struct({
  ...Progress.fields,
  progressToken: Schema.Union([Schema.String, Schema.Finite])
})

const decodeProgress = Schema.decodeUnknownOption(ProgressNotice)

interface Message {
  readonly jsonrpc: "2.0"
  readonly id?: unknown
  readonly method?: string
  readonly params?: { readonly [key: string]: unknown }
  readonly result?: unknown
  readonly error?: unknown
}

/** A value as a message: without members that JSON-RPC does not have, or that are `null`. */
const toMessage = (value: unknown): ReadonlyArray<Message> => {
  if (!isRecord(value) || value.jsonrpc !== "2.0") return []
  const { error, id, method, params, result } = value
  const head = { jsonrpc: "2.0", ...(id === undefined || id === null ? {} : { id }) } as const
  if (typeof method === "string") return [{ ...head, method, ...(isRecord(params) ? { params } : {}) }]
  // McpClient numbers its requests, and some servers return the number as text
  const answer = typeof id === "string" && /^\d{1,15}$/.test(id) ? { ...head, id: Number(id) } : head
  if (isRecord(error)) {
    const isKnown = Number.isInteger(error.code) && typeof error.message === "string"
    return [{ ...answer, error: isKnown ? error : { code: -32603, message: String(error.message), data: error } }]
  }
  return result === undefined || answer.id === undefined ? [] : [{ ...answer, result }]
}

const parseJson = Option.liftThrowable((text: string): unknown => JSON.parse(text))

// Throws for deep values
const writeJson = Option.liftThrowable((message: Message) => JSON.stringify(message))

const isSame = (value: unknown, message: Message): boolean =>
  isRecord(value) &&
  Object.keys(value).length === Object.keys(message).length &&
  Object.entries(message).every(([key, member]) => value[key] === member)

/** The messages in a text of the server, with the text of each: several if it is a batch, none if it is something else. */
const readMessages = (text: string): ReadonlyArray<readonly [message: Message, text: string]> => {
  const value = Option.getOrUndefined(parseJson(text))
  return (Array.isArray(value) ? value.flatMap(toMessage) : toMessage(value)).map((message) => [
    message,
    isSame(value, message) ? text : Option.getOrElse(writeJson(message), () => text)
  ])
}

/** Reads one message of the server if it is a notification. `McpClient` drops those. */
const notice = (wire: MutableWire, { method, params }: Message): void => {
  if (method === "notifications/tools/list_changed") wire.isStale = true
  if (method !== "notifications/progress" || params === undefined) return
  const progress = Option.getOrUndefined(decodeProgress(present(params)))
  if (progress === undefined) return
  const { progressToken, ...rest } = progress
  wire.progress.get(progressToken)?.(rest)
}

/** Lets the messages of a text pass, each in the frame of its transport, and counts a text that has none. */
const pass = (wire: MutableWire, text: string, frame: (text: string, message: Message) => string): string => {
  const messages = readMessages(text)
  for (const [message] of messages) notice(wire, message)
  const passed = messages.map(([message, json]) => frame(json, message)).join("")
  if (passed === "" && text.trim() !== "") wire.skipped += 1
  return passed
}

/** A message on standard streams. An error that answers no request would end the connection, so it does not pass. */
const lineOf = (text: string, { error, id }: Message): string =>
  error !== undefined && id === undefined ? "" : `${text}\n`

/** The lines that are messages, from chunks of bytes. `McpClient` fails for a line that is longer than the limit. */
const lines = (wire: MutableWire, maxBytes: number) => {
  const decoder = new TextDecoder()
  let rest = ""
  return (chunk: Uint8Array): string => {
    const text = decoder.decode(chunk, { stream: true })
    const parts = text.includes("\n") ? (rest + text).split("\n") : [rest + text]
    rest = parts.pop() ?? ""
    const passed = parts.map((part) => (part.length > maxBytes ? `${part}\n` : pass(wire, part, lineOf))).join("")
    if (rest.length <= maxBytes) return passed
    const large = rest
    rest = ""
    return passed + large
  }
}

/** The places at which streams of events have ended, for the streams that continue them. */
interface Position {
  lastEventId: string | undefined
  /** No event has begun since the last one. */
  isBetween: boolean
  /** The bytes since the last message: comments, heartbeats and texts that are no message. */
  quiet: number
}

/** The shortest wait before a stream is continued, whatever the server names. */
const minRetry = Duration.millis(100)

const limitError = new McpClientError.McpClientError({
  reason: new McpClientError.LimitError({ description: "MCP message exceeds maxMessageBytes" })
})

const eventOf = (text: string): string => `${text.replace(/^/gm, "data: ")}\n\n`

/** The events that are messages, from chunks of bytes. */
const events = (wire: MutableWire, maxBytes: number, position: Position) => {
  const decoder = new TextDecoder()
  let passed = ""
  const onEvent = (event: Sse.AnyEvent) => {
    if (event._tag === "Retry") wire.retry = Duration.max(minRetry, event.duration)
    else {
      position.lastEventId = event.id
      // Events of other names are the server's own, for example a heartbeat
      if (event.event === "message") passed += pass(wire, event.data, eventOf)
    }
  }
  const parser = Sse.makeParser(onEvent, { maxEventSize: maxBytes })
  let end = ""
  return (chunk: Uint8Array): readonly [passed: string, isTooLarge: boolean] => {
    const text = decoder.decode(chunk, { stream: true })
    end = (end + text).slice(-4)
    position.isBetween = /(?:\n\n|\r\r|\r\n\r\n)$/.test(end)
    passed = ""
    const error = parser.feed(text)
    position.quiet = passed === "" ? position.quiet + chunk.byteLength : 0
    // Between two messages there may be as much as a message has
    return [passed, error !== undefined || position.quiet > 2 * maxBytes]
  }
}

/** The bytes of text, and a warning for the first text that was skipped. It has no words of the server. */
const send = Effect.fnUntraced(function* (wire: MutableWire, name: string, text: string) {
  if (wire.skipped > 0 && !wire.hasWarned) {
    wire.hasWarned = true
    yield* Effect.logWarning(
      `The MCP server ${base.quote(name)} sends text that is no message, which is skipped. A server on standard streams writes its log to standard error.`
    )
  }
  return new TextEncoder().encode(text)
})

/** The spawner whose processes are listened to. */
const listenToProcess = (
  spawner: ChildProcessSpawner.ChildProcessSpawner["Service"],
  wire: MutableWire,
  { maxBytes, name }: Options
): ChildProcessSpawner.ChildProcessSpawner["Service"] => ({
  ...spawner,
  spawn: (command) =>
    Effect.map(spawner.spawn(command), (handle) => {
      const read = lines(wire, maxBytes)
      const stdout = handle.stdout.pipe(
        Stream.mapEffect((chunk) => send(wire, name, read(chunk))),
        Stream.ensuring(
          Effect.sync(() => {
            wire.isLost = true
          })
        )
      )
      return { ...handle, stdout }
    })
})

const hasType = ({ headers, status }: HttpClientResponse.HttpClientResponse, mediaType: string): boolean =>
  status === 200 && headers["content-type"]?.toLowerCase().startsWith(mediaType) === true

const isStreamOfEvents = (response: HttpClientResponse.HttpClientResponse) => hasType(response, "text/event-stream")

/** The HTTP client of a server, whose streams of events are listened to, and continued where they end before the answer. */
const listenToHttp = (
  client: HttpClient.HttpClient,
  wire: MutableWire,
  { maxBytes, name, endpoint, protocol }: Options & { readonly endpoint: HttpEndpoint }
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
  const read = (response: HttpClientResponse.HttpClientResponse, position: Position): Bytes => {
    const readEvents = events(wire, maxBytes, position)
    return Stream.flatMap(response.stream, (chunk) => {
      const [passed, isTooLarge] = readEvents(chunk)
      const bytes = Stream.fromEffect(send(wire, name, passed))
      return isTooLarge ? Stream.concat(bytes, Stream.fail(limitError)) : bytes
    })
  }
  const follow = (response: HttpClientResponse.HttpClientResponse, position: Position): Bytes => {
    const stream = read(response, position)
    // Version 2026-07-28 has no such streams: there the end of one cancels the call
    if (protocol.protocolVersion !== "2025-11-25") return stream
    const canContinue = () => position.isBetween && position.lastEventId !== undefined
    return stream.pipe(
      Stream.catch((error) => (canContinue() && error !== limitError ? Stream.empty : Stream.fail(error))),
      Stream.concat(Stream.suspend(() => (canContinue() ? resume(position) : Stream.empty)))
    )
  }
  const resume = (position: Position): Bytes => {
    const request = listenRequest(endpoint, wire, { "last-event-id": position.lastEventId ?? "" })
    return Stream.unwrap(
      plain.execute(request).pipe(
        Effect.delay(wire.retry),
        Effect.map((response) => (isStreamOfEvents(response) ? follow(response, position) : Stream.empty)),
        // The call was sent, so this failure is not the one of a call that was not
        Effect.orElseSucceed(() => Stream.empty)
      )
    )
  }
  /** The answer in a body of JSON, which may be one of a batch. A body without messages stays as it is. */
  const readBody = ({ stream }: { readonly stream: Bytes }): Bytes =>
    stream.pipe(
      Stream.limitBytes(maxBytes, (): Bytes => Stream.fail(limitError)),
      Stream.mkUint8Array,
      Effect.map((bytes) => {
        const messages = readMessages(new TextDecoder().decode(bytes))
        for (const [message] of messages) notice(wire, message)
        const answer = messages.find(([{ method }]) => method === undefined) ?? messages[0]
        return answer === undefined ? bytes : new TextEncoder().encode(answer[1])
      }),
      Stream.fromEffect
    )
  return HttpClient.transform(plain, (effect, { method }) =>
    Effect.map(effect, (response): HttpClientResponse.HttpClientResponse => {
      const position: Position = { lastEventId: undefined, isBetween: false, quiet: 0 }
      const stream = isStreamOfEvents(response)
        ? (method === "POST" ? follow : read)(response, position)
        : hasType(response, "application/json")
          ? readBody(response)
          : undefined
      // The same response with another stream: its members are getters that read it
      return stream === undefined ? response : Object.create(response, { stream: { value: stream } })
    })
  )
}

type Bytes = Stream.Stream<Uint8Array, HttpClientError.HttpClientError | McpClientError.McpClientError>

const identity = { name: "effect-emissary", version: "0.1.0" }

/** Passes what came to the exchange, and to `McpClient` no more of it than that needs. */
const takeResult = (method: string, result: unknown, wire: MutableWire, exchange: Exchange | undefined): unknown => {
  if (!isRecord(result)) return result
  if (method === "initialize" || method === "server/discover") {
    const { capabilities, protocolVersion, supportedVersions, _meta } = result
    const tools = isRecord(capabilities) ? capabilities.tools : undefined
    wire.hasTools = isRecord(tools)
    wire.announces = isRecord(tools) && tools.listChanged === true
    // A server may have tools without having declared them: it is asked
    const needed = { capabilities: { tools: {} }, serverInfo: identity }
    if (method === "server/discover") return { ...present(result), ...needed, supportedVersions, _meta }
    if (!olderVersions.has(protocolVersion)) return { ...needed, protocolVersion }
    wire.olderVersion = String(protocolVersion)
    return { ...needed, protocolVersion: McpProtocol.v2025_11_25.protocolVersion }
  }
  if (exchange === undefined || result.resultType === "input_required") return result
  if (method === "tools/list" && Array.isArray(result.tools)) {
    exchange.onResult(result.tools)
    const { nextCursor, ...rest } = present(result)
    return { ...rest, tools: [], ...(nextCursor === "" ? {} : defined({ nextCursor })) }
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
        Effect.map((response) => {
          if (!("error" in response))
            return { ...response, result: takeResult(message.method, response.result, wire, exchange) }
          const isWithout = message.method === "tools/list" && !wire.hasTools
          return isWithout ? { jsonrpc: message.jsonrpc, id: message.id, result: { tools: [] } } : response
        }),
        Effect.ensuring(Effect.sync(() => wire.progress.delete(progressToken)))
      )
    })
})

type HttpEndpoint = Extract<Endpoint, { readonly url: unknown }>

const headersOf = (endpoint: HttpEndpoint): Record<string, string> =>
  Object.fromEntries(
    Object.entries(endpoint.headers ?? {}).map(([name, value]) => [
      name,
      typeof value === "string" ? value : Redacted.value(value)
    ])
  )

/** A request for a stream of events, in version 2025-11-25 and older. */
const listenRequest = (endpoint: HttpEndpoint, { session }: MutableWire, headers?: Record<string, string>) =>
  HttpClientRequest.get(endpoint.url).pipe(
    HttpClientRequest.setHeaders({
      ...headersOf(endpoint),
      ...headers,
      ...defined({ "mcp-session-id": session }),
      accept: "text/event-stream",
      "mcp-protocol-version": McpProtocol.v2025_11_25.protocolVersion
    })
  )

/** The stream on which a server of version 2025-11-25 and older sends what belongs to no request. */
const watch = Effect.fnUntraced(function* (http: HttpClient.HttpClient, endpoint: HttpEndpoint, wire: MutableWire) {
  const listen = Effect.gen(function* () {
    if (wire.session === undefined) return yield* Effect.fail("no session")
    const response = yield* http.execute(listenRequest(endpoint, wire))
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
  /** The name of the server in the log. */
  readonly name: string
  readonly endpoint: Endpoint
  readonly protocol: Protocol
  readonly timeout: Duration.Input
  readonly maxBytes: number
}

/** Connects for as long as the scope lasts. */
export const connect = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<Connection, McpClientError.McpClientError, Scope.Scope> {
  const { maxBytes, endpoint, protocol, timeout } = options
  const maxMessageBytes = ByteSize.bytes(maxBytes)
  const state: MutableWire = {
    isLost: false,
    isStale: false,
    isWatched: false,
    hasTools: false,
    announces: false,
    skipped: 0,
    hasWarned: false,
    session: undefined,
    olderVersion: undefined,
    retry: Duration.seconds(1),
    progress: new Map()
  }
  const services = yield* Effect.context<never>()
  let transport: McpClient.Transport
  let http: HttpClient.HttpClient | undefined
  if ("command" in endpoint) {
    // Sound: the layer requires the spawner for a server with a command
    const context = services as Context.Context<ChildProcessSpawner.ChildProcessSpawner>
    const spawner = Context.get(context, ChildProcessSpawner.ChildProcessSpawner)
    transport = yield* Effect.provideService(
      McpClient.stdio({ command: endpoint.command, protocol, maxMessageBytes }),
      ChildProcessSpawner.ChildProcessSpawner,
      listenToProcess(spawner, state, options)
    )
  } else {
    // Sound: the layer requires the HTTP client for a server with a URL
    const context = services as Context.Context<HttpClient.HttpClient>
    http = listenToHttp(Context.get(context, HttpClient.HttpClient), state, { ...options, endpoint })
    transport = yield* Effect.provideService(
      McpClient.http({ url: endpoint.url, headers: headersOf(endpoint), protocol, maxMessageBytes }),
      HttpClient.HttpClient,
      http
    )
  }
  const client = yield* Effect.provideService(
    McpClient.make({ ...identity, timeout }),
    McpClient.Transport,
    listenTo(transport, state)
  )
  if ("command" in endpoint) state.isWatched = state.announces
  else if (http !== undefined && state.announces) yield* watch(http, endpoint, state)
  return Object.assign(state, { client, isCallable: transport.isCallable })
})

const schemes: ReadonlySet<string> = new Set(["basic", "bearer"])

/** The parameters of a URL that grant access, and have no name of a secret. */
const keyParameter = /^(?:key|sig|.*signature)$/i

/** The values of headers and of the URL of a server that are secret. */
const secretsOf = (endpoint: Endpoint): ReadonlyArray<string> => {
  if ("command" in endpoint) return []
  const url = Option.getOrUndefined(Option.liftThrowable(() => new URL(endpoint.url))())
  const parameters = [...(url?.searchParams ?? [])].flatMap(([name, value]) =>
    isSecretName(name) || keyParameter.test(name) ? [value] : []
  )
  return (
    Object.values(endpoint.headers ?? {})
      // A token is secret without its scheme, too
      .flatMap((value) =>
        typeof value === "string" ? [] : [Redacted.value(value), ...Redacted.value(value).split(" ")]
      )
      .concat(parameters)
      .filter((secret) => secret.length > 3 && !schemes.has(secret.toLowerCase()))
  )
}

/** Hides the secrets of an endpoint in the texts and keys of JSON that the server sends: it may repeat them. */
export const makeConceal = (endpoint: Endpoint): (<Value extends Schema.Json>(json: Value) => Value) => {
  const secrets = secretsOf(endpoint)
  const hide = (text: string) => secrets.reduce((all, secret) => all.replaceAll(secret, "<redacted>"), text)
  const conceal = (json: Schema.Json): Schema.Json => {
    if (typeof json === "string") return hide(json)
    if (isArray(json)) return json.map(conceal)
    return isObject(json)
      ? Object.fromEntries(Object.entries(json).map(([key, value]) => [hide(key), conceal(value)]))
      : json
  }
  // Sound: a copy has the kinds of the values of the original
  return (json) => (secrets.length === 0 ? json : (conceal(json) as typeof json))
}
