/**
 * Tools of MCP servers.
 *
 * {@link layer} connects to servers, over standard streams or streamable HTTP, and {@link toolkit} finds their tools
 * for the runs of agents. What a server lists is data from outside: each tool is checked under the current `Limits`,
 * and a bad one is left out by name, see {@link refusedTools}.
 *
 * **What a run gets**
 *
 * - A tool is named `<server>/<tool>`. Its arguments are validated with the server's own JSON Schema, its structured
 *   content with the output schema.
 * - Each call asks for an approval unless `approval` decides otherwise. The approval holds for the digest of the
 *   contract, so a tool that changes is asked for again.
 * - The tools of a run stay as they were when it began. A call of a tool that has changed or gone by then is not
 *   executed, if the server announced the change or was connected to again. The next run has the new tools.
 * - Text, images, audio and resources of a result are content for the model. `isError` is an `execution_error`, and a
 *   notification of progress is a `ToolProgress` event.
 * - A server that has ended, or forgotten its session, is connected to again for the next call. The call under way
 *   fails as `remote_unavailable`, whose value has the form of `RemoteTools.Unavailable`.
 *
 * **Gotchas**
 *
 * The client speaks version 2025-11-25 of MCP, 2026-07-28 with servers that refuse that one, and with older servers 2025-06-18,
 * 2025-03-26 and 2024-11-05. It offers a server neither sampling nor roots nor elicitation, and has no OAuth: pass a
 * token in `headers`. It follows no redirects: pass the URL that they lead to.
 *
 * A child process inherits the environment of the host, with its keys, unless its command has an `env`, which replaces it.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25
 * @since 0.1.0
 */

import type * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type * as McpClientError from "effect/ai/McpClientError"
import type * as McpSchema from "effect/ai/McpSchema"
import * as Tool from "effect/ai/Tool"
import * as HttpClientError from "effect/http/HttpClientError"
import type * as HttpClient from "effect/http/HttpClient"
import type * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type * as Redacted from "effect/Redacted"
import * as callOptions from "../payload/internal/options.ts"
import type * as Json from "../payload/Json.ts"
import * as JsonSchema from "../payload/JsonSchema.ts"
import type * as Limits from "../payload/Limits.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import * as agentReason from "../agent/internal/agentReason.ts"
import * as base from "../payload/internal/base.ts"
import * as convertSchema from "../payload/internal/convertSchema.ts"
import * as copyJson from "../payload/internal/copyJson.ts"
import * as fuel from "../payload/internal/fuel.ts"
import * as jsonLimits from "../payload/internal/limits.ts"
import * as jsonProblems from "../payload/internal/problems.ts"
import * as jsonValues from "../payload/internal/values.ts"
import type { Unavailable } from "../tool/RemoteTools.ts"
import * as ToolContract from "../tool/ToolContract.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as ToolSettings from "../tool/ToolSettings.ts"
import * as boundTool from "../tool/internal/boundTool.ts"
import * as remoteProtocol from "../tool/internal/remoteProtocol.ts"
import * as connection from "./internal/connection.ts"

const ErrorReason = Schema.TaggedUnion({
  Unreachable: { problem: Schema.String },
  InvalidListing: { problem: Schema.String },
  InvalidTool: { tool: Schema.String, problem: Schema.String },
  InvalidOption: { option: Schema.String, problem: Schema.String }
})

const explainReason = ErrorReason.match({
  Unreachable: ({ problem }) => `cannot be used: ${problem}`,
  InvalidListing: ({ problem }) => `lists tools that cannot be read: ${problem}`,
  InvalidTool: ({ problem, tool }) => `lists the tool ${base.quote(tool)}, which is refused: ${problem}`,
  InvalidOption: ({ option, problem }) => `has the option ${JSON.stringify(option)}, which ${problem}`
})

/**
 * The tools of a server are not available.
 *
 * **Details**
 *
 * - `Unreachable`: the server could not be started or reached, or it refused the connection.
 * - `InvalidListing`: what it answered is no list of tools, or larger than the limits.
 * - `InvalidTool`: one tool is not acceptable, and `invalidTools` is `"fail"`.
 * - `InvalidOption`: an option of the layer is not usable.
 *
 * @category errors
 * @since 0.1.0
 */
export class McpToolsError extends Schema.TaggedError<McpToolsError>("effect-emissary/mcp/McpToolsError")(
  "McpToolsError",
  { server: Schema.String, reason: ErrorReason }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `The MCP server ${base.quote(this.server)} ${explainReason(this.reason)}`
  }
}

/**
 * A tool that was left out, and why.
 *
 * @category models
 * @since 0.1.0
 */
export interface RefusedTool {
  readonly server: string
  readonly tool: string
  readonly problem: string
}

/**
 * A tool of a server. It brings its handler along, so it goes into the `toolkit` of an agent as it is.
 *
 * @category models
 * @since 0.1.0
 */
export interface McpTool
  extends
    boundTool.WithOwnHandler<never>,
    Tool.ProviderDefined<
      "emissary.mcp",
      string,
      {
        readonly args: typeof Schema.Void
        readonly parameters: typeof Schema.Unknown
        readonly success: typeof Schema.Json
        readonly failure: typeof Schema.Json
        readonly failureMode: "error"
      }
    > {}

/**
 * Options that hold for servers of both transports.
 *
 * @category options
 * @since 0.1.0
 */
export interface ServerOptions {
  /**
   * The calls that need an approval:
   *
   * - `"always"` (default): calls of every tool.
   * - `"unlessReadonly"`: calls of tools that the server does not call read-only. Read-only is a claim of the server.
   * - `"never"`: none.
   * - a function: calls of the tools that it returns `true` for. The contract that it gets asks for no approval;
   *   compare its digest with the digest of the tool that was reviewed.
   */
  readonly approval?:
    | "always"
    | "unlessReadonly"
    | "never"
    | ((contract: ToolContract.ToolContract) => boolean)
    | undefined
  /** The time that a call may take; default 60 seconds. */
  readonly timeout?: Duration.Input | undefined
  /** The time for each attempt at the handshake, and for listing the tools; default 30 seconds. See also `optional`. */
  readonly connectTimeout?: Duration.Input | undefined
  /** The attempts to connect; default five more times within about three seconds. */
  readonly retry?: Schedule.Schedule<unknown> | undefined
  /** Leaves tools out that are not acceptable (default), or fails. */
  readonly invalidTools?: "leaveOut" | "fail" | undefined
  /** Limits of what the server sends, where they differ from the current `Limits`. */
  readonly limits?: Partial<Limits.Limits> | undefined
  /**
   * A run continues without the tools of the server when it cannot be used, instead of failing; default `false`. The first run
   * waits for at most one `connectTimeout`, all attempts and the listing together, and logs a warning with the reason. Until the
   * server is back, a later run starts to connect again and waits for at most one second, or not at all while attempts are under way.
   */
  readonly optional?: boolean | undefined
}

/**
 * A server that runs as a child process and speaks over its standard streams.
 *
 * @category options
 * @since 0.1.0
 */
export interface StdioServer extends ServerOptions {
  /** The command that starts the server, with its arguments and environment. */
  readonly command: ChildProcess.Command
}

/**
 * A server that is reached over streamable HTTP.
 *
 * @category options
 * @since 0.1.0
 */
export interface HttpServer extends ServerOptions {
  /** The address. Its query is on no span, its path is: put a key into `headers`. */
  readonly url: string | URL
  /** Headers of every request. Redacted values appear in no message, and are concealed in what the server sends. */
  readonly headers?: { readonly [name: string]: string | Redacted.Redacted<string> } | undefined
}

/**
 * The servers that a program uses.
 *
 * @category services
 * @since 0.1.0
 */
export class McpTools extends Context.Service<
  McpTools,
  {
    readonly tools: Effect.Effect<ReadonlyArray<McpTool>, McpToolsError>
    readonly refusedTools: Effect.Effect<ReadonlyArray<RefusedTool>>
  }
>()("effect-emissary/mcp/McpTools") {}

/**
 * The tools of all servers as they are now, for the `toolkit` of an agent.
 *
 * **Details**
 *
 * An agent finds them once per run. A server that announces changes is asked again only after a change; others are
 * asked each time. A tool that has not changed is the same object.
 *
 * @category tools
 * @since 0.1.0
 */
export const toolkit: Effect.Effect<ReadonlyArray<McpTool>, McpToolsError, McpTools> = Effect.flatMap(
  McpTools,
  ({ tools }) => tools
)

/**
 * The tools that the newest listings left out.
 *
 * @category tools
 * @since 0.1.0
 */
export const refusedTools: Effect.Effect<ReadonlyArray<RefusedTool>, never, McpTools> = Effect.flatMap(
  McpTools,
  ({ refusedTools }) => refusedTools
)

/**
 * The services that servers require: a spawner of child processes, an HTTP client.
 *
 * @category utility types
 * @since 0.1.0
 */
export type ServicesOf<Servers> = Servers[keyof Servers] extends infer One
  ? One extends { readonly command: unknown }
    ? ChildProcessSpawner
    : HttpClient.HttpClient
  : never

/**
 * Connects to MCP servers, each under a name of its own.
 *
 * **Details**
 *
 * A connection is made when tools are first asked for, and ends with the layer: a child process is then asked to end,
 * and killed if it does not. Names have letters, digits, `-` and `_`, at most 32.
 *
 * **Example** (A file server as a child process, and a server elsewhere)
 *
 * ```ts no-run
 * import { NodeHttpClient, NodeServices } from "@effect/platform-node"
 * import { Effect, Layer, Redacted } from "effect"
 * import { ChildProcess } from "effect/process"
 * import { Agent, ModelRegistry } from "effect-emissary"
 * import { McpTools } from "effect-emissary/mcp"
 *
 * const Servers = McpTools.layer({
 *   files: {
 *     command: ChildProcess.make("npx", ["-y", "@modelcontextprotocol/server-filesystem", "./notes"], {
 *       env: { PATH: process.env["PATH"] }
 *     }),
 *     approval: ({ name }) => name !== "files/read_text_file"
 *   },
 *   issues: {
 *     url: "https://mcp.example.com/mcp",
 *     headers: { authorization: Redacted.make("Bearer ...") }
 *   }
 * }).pipe(Layer.provide([NodeServices.layer, NodeHttpClient.layerUndici]))
 *
 * class Clerk extends Agent.Service<Clerk>()("clerk", { model: "openai/gpt-5.2", toolkit: McpTools.toolkit }) {}
 *
 * const ClerkLive = Clerk.layer.pipe(Layer.provide([Servers, ModelRegistry.layer({})]))
 * const program = Effect.flatMap(Clerk, (clerk) => clerk.ask("What is in my notes?")).pipe(Effect.provide(ClerkLive))
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <const Servers extends { readonly [name: string]: StdioServer | HttpServer }>(
  servers: Servers
): Layer.Layer<McpTools, McpToolsError, ServicesOf<Servers>> =>
  Layer.effect(
    McpTools,
    Effect.gen(function* () {
      // Sound: the services of the servers are in the context of the layer
      const services = yield* Effect.context<never>()
      const scope = yield* Effect.scope
      const all: ReadonlyArray<Server> = yield* Effect.forEach(Object.entries(servers), ([name, options]) =>
        Effect.gen(function* () {
          const refuse = (option: string, expected: string) =>
            errorOf(name, { _tag: "InvalidOption", option, problem: `expected ${expected}` })
          if (!/^[\w-]{1,32}$/.test(name)) {
            return yield* refuse("servers", "a name of at most 32 letters, digits, hyphens and underscores")
          }
          for (const option of ["timeout", "connectTimeout"] as const) {
            const { expected, fits } = callOptions.someTime
            if (options[option] !== undefined && !fits(options[option])) return yield* refuse(option, expected)
          }
          return new Server(name, options, services, scope)
        })
      )
      return McpTools.of({
        tools: Effect.map(
          Effect.forEach(all, (server) => server.tools, { concurrency: "unbounded" }),
          (tools) => tools.flat()
        ),
        refusedTools: Effect.sync(() => all.flatMap((server) => server.refused))
      })
    })
  )

/** An error, which an agent shows with `why` in place of words of the server. */
const errorOf = (server: string, reason: typeof ErrorReason.Type, why?: string) => {
  const error = new McpToolsError({ server, reason })
  const name = base.quote(server)
  return agentReason.showing(error, why === undefined ? error.message : `The MCP server ${name} cannot be used: ${why}`)
}

const isRedirect = ({ status }: { readonly status: number }) => status >= 300 && status < 400

const redirected = ({ status }: { readonly status: number }) =>
  `it answered with a redirect (HTTP status ${status}), which is not followed. Pass the URL that it leads to`

/** Why a server cannot be used, without its own words. */
const whyOf = ({ reason }: McpClientError.McpClientError): string => {
  if (reason._tag === "HttpError") {
    return isRedirect(reason) ? redirected(reason) : `it answered with HTTP status ${reason.status}`
  }
  if (reason._tag === "ProtocolError" && reason.code !== undefined) return `it answered with the error ${reason.code}`
  const code = reason._tag === "TransportError" ? remoteProtocol.codeOf(reason.cause) : undefined
  return code === undefined ? reason.message : `${reason.message} (${code})`
}

/** Six attempts within about three seconds. */
const defaultRetry = Schedule.exponential("100 millis").pipe(Schedule.upTo({ times: 5 }))

/** Checked JSON that is an object. */
const JsonObject = Schema.declare(jsonValues.isObject, { expected: "an object" })

/** A tool as the server described it. */
const Described = Schema.Struct({
  name: Schema.String,
  title: Schema.optionalKey(Schema.String),
  description: Schema.optionalKey(Schema.String),
  inputSchema: JsonObject,
  outputSchema: Schema.optionalKey(JsonObject),
  annotations: Schema.optionalKey(
    Schema.Struct({
      title: Schema.optionalKey(Schema.String),
      readOnlyHint: Schema.optionalKey(Schema.Boolean),
      destructiveHint: Schema.optionalKey(Schema.Boolean),
      idempotentHint: Schema.optionalKey(Schema.Boolean),
      openWorldHint: Schema.optionalKey(Schema.Boolean)
    })
  ),
  execution: Schema.optionalKey(Schema.Struct({ taskSupport: Schema.optionalKey(Schema.String) }))
})

type Described = typeof Described.Type

const decodeDescribed = Schema.decodeUnknownResult(Described)

/** A listed tool: what was described, in canonical text, and the tool that was made of it. */
interface Entry {
  readonly described: Described
  readonly fingerprint: string
  readonly request: McpSchema.Tool
  readonly tool: McpTool
  readonly output: JsonSchema.JsonSchema | undefined
}

/** The longest description of a tool, and of a message that is quoted. */
const maxDescription = 16_384
const maxQuote = 500

const scripts = (names: string): string => names.replace(/\w+ ?/g, (name) => `\\p{scx=${name.trim()}}`)

/**
 * Characters without a form of their own that belong to words: joiners beside a letter of a script that is written with them, for
 * example Persian and Hindi, single direction marks near a letter that is written from right to left, separators of words beside
 * a letter of a script without spaces, soft hyphens, selectors of forms, single separators of lines, and flags of emoji.
 */
const partOfWord = base.once(() => {
  const joined = scripts("Arab Syrc Mong Nkoo Adlm Deva Beng Guru Gujr Orya Taml Telu Knda Mlym Sinh Khmr Mymr")
  const leftward = scripts("Hebr Arab Syrc Thaa Nkoo Adlm")
  const unspaced = scripts("Thai Khmr Laoo Mymr Hira Kana Hani")
  const hyphenated = scripts("Latn Grek Cyrl")
  const joiner = "[\\u200c\\u200d]"
  const mark = "(?<!\\p{Cf})[\\u061c\\u200e\\u200f](?!\\p{Cf})"
  const places = [
    `(?<=[[\\p{L}\\p{M}\\p{Nd}]&&[${joined}]])${joiner}`,
    `${joiner}(?=[\\p{L}&&[${leftward}]])`,
    `(?<=[\\p{L}&&[${leftward}]].{0,32})${mark}`,
    `${mark}(?=.{0,32}[\\p{L}&&[${leftward}]])`,
    `(?<=[[\\p{L}\\p{M}\\p{Nd}]&&[${unspaced}]])\\u200b`,
    `\\u200b(?=[\\p{L}&&[${unspaced}]])`,
    `(?<=[\\p{L}&&[${hyphenated}]])\\xad(?=[\\p{L}&&[${hyphenated}]])`,
    "(?<=\\p{Ideographic})[\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]",
    "(?<=[\\p{L}&&\\p{scx=Mong}])[\\u180b-\\u180f]",
    "(?<![\\u2028\\u2029])[\\u2028\\u2029](?![\\u2028\\u2029])",
    // A mark of the encoding of a file
    "^\\ufeff",
    "\\p{RGI_Emoji_Tag_Sequence}"
  ]
  return new RegExp(places.join("|"), "gv")
})

/** Schemas have words, too. */
const hasUnseen = (json: Schema.Json): boolean => {
  if (typeof json === "string") return json.replace(partOfWord(), "").search(base.unseen) >= 0
  if (jsonValues.isArray(json)) return json.some(hasUnseen)
  return jsonValues.isObject(json) && Object.entries(json).some(([key, value]) => hasUnseen(key) || hasUnseen(value))
}

/** The first rule that a tool breaks. */
const findWrong = (described: Described) => {
  const { annotations, description = "", execution, name, title = "" } = described
  // Servers also use names with a slash, a colon, spaces or letters of any script. A model gets them encoded
  if (!/^\S(?:[^\t\n\r]{0,126}\S)?$/.test(name))
    return "expected a name of 1 to 128 characters without spaces around it"
  if (execution?.taskSupport === "required") return "it can only be called as a task, which is not supported"
  for (const text of [description, title, annotations?.title ?? ""]) {
    if (text.length > maxDescription)
      return `expected at most ${maxDescription} characters, got a text of ${text.length}`
  }
  const { type } = described.inputSchema
  if (type !== "object") return `expected parameters of the type "object", got ${JSON.stringify(type ?? null)}`
  return hasUnseen(described) || name.search(base.unseen) >= 0
    ? "expected visible text, found a hidden character in it"
    : undefined
}

const annotationsOf = ({ annotations, title }: Described): ToolContract.ToolContract["annotations"] =>
  jsonValues.defined({
    title: title ?? annotations?.title,
    readonly: annotations?.readOnlyHint,
    destructive: annotations?.destructiveHint,
    idempotent: annotations?.idempotentHint,
    openWorld: annotations?.openWorldHint
  })

/** The schema of a server as it is, or as its author meant it where it cannot be checked as it is. */
const readSchema = (json: Json.JsonObject, what: string, limits: jsonLimits.Options["limits"]) =>
  JsonSchema.make(json, { what, limits }).pipe(
    Effect.catchIf(
      ({ reason }) => reason !== "TooDeep" && reason !== "TooLarge",
      () => JsonSchema.make(convertSchema.asMeant(json), { what, limits })
    ),
    Effect.provideService(jsonLimits.IsCheckedAgain, true)
  )

const floors = {
  always: () => true,
  unlessReadonly: ({ annotations }: ToolContract.ToolContract) => annotations.readonly !== true,
  never: () => false
}

const Blob = { mimeType: Schema.optionalKey(Schema.String), uri: Schema.String }

const Block = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
  Schema.Struct({ type: Schema.Literals(["image", "audio"]), data: Schema.String, mimeType: Schema.String }),
  Schema.Struct({
    type: Schema.Literal("resource"),
    resource: Schema.Union([
      Schema.Struct({ ...Blob, text: Schema.String }),
      Schema.Struct({ ...Blob, blob: Schema.String })
    ])
  }),
  Schema.Struct({
    type: Schema.Literal("resource_link"),
    ...Blob,
    name: Schema.String,
    description: Schema.optionalKey(Schema.String)
  })
])

const decodeBlock = Schema.decodeUnknownOption(Block)

const CallResult = Schema.Struct({
  content: Schema.optionalKey(Schema.Array(Schema.Json)),
  structuredContent: Schema.optionalKey(JsonObject),
  isError: Schema.optionalKey(Schema.Boolean)
})

/**
 * A block of a result as content. A link is text, because nothing fetches it for the model, and a block that is not known is
 * its JSON.
 */
const toContent = (json: Schema.Json): ToolResult.Content => {
  const known = jsonValues.isObject(json) ? decodeBlock(connection.present(json, "resource")) : Option.none()
  if (Option.isNone(known)) return ToolResult.textPart(JSON.stringify(json))
  const block = known.value
  if (block.type === "text") return ToolResult.textPart(block.text)
  if (block.type === "resource_link") {
    const about = block.description === undefined ? "" : `\n${block.description}`
    return ToolResult.textPart(`${block.name}: ${block.uri}${about}`)
  }
  if (block.type !== "resource") return fileOf(block.mimeType, block.data)
  const { mimeType = "application/octet-stream", uri } = block.resource
  return "text" in block.resource
    ? ToolResult.textPart(block.resource.text)
    : fileOf(mimeType, block.resource.blob, uri)
}

/** Servers write base64 in lines, and as a `data:` URL. Providers refuse each request with data that is no base64. */
const fileOf = (mediaType: string, data: string, fileName?: string): ToolResult.Content => {
  const base64 = data.replace(/^data:[^,]{0,200};base64,/i, "").replace(/\s+/g, "")
  if (!/^[\w+/-]+={0,2}$/.test(base64)) {
    return ToolResult.textPart(`[${base.firstUnits(mediaType, 100)}: left out, because its data is no base64]`)
  }
  return { type: "file", mediaType, ...jsonValues.defined({ fileName }), data: { type: "base64", base64 } }
}

/** The result of a call as the tool's output schema judges it. */
const toResult = (
  name: string,
  { content = [], isError, structuredContent }: typeof CallResult.Type,
  output: JsonSchema.JsonSchema | undefined
): ToolResult.ToolResult => {
  const [first, ...rest] = content.map(toContent)
  const parts: ToolResult.NonEmptyContent | undefined = first === undefined ? undefined : [first, ...rest]
  const value = structuredContent ?? ToolResult.text(parts ?? [])
  if (isError === true) {
    const message = ToolResult.text(ToolResult.success(value, parts))
    const words = message === "" ? `The MCP server reports that tool ${base.quote(name)} failed` : message
    const failure = ToolResult.failure("execution_error", words, structuredContent)
    return parts === undefined ? failure : { ...failure, content: parts }
  }
  if (output === undefined) return ToolResult.success(value, parts)
  const checked = JsonSchema.validate(output, structuredContent ?? null)
  if (Result.isSuccess(checked)) return ToolResult.success(checked.success, parts)
  const problems = PayloadError.render("", checked.failure)
  return ToolResult.failure(
    "execution_error",
    `The result of tool ${base.quote(name)} does not fit its output schema: ${problems}`
  )
}

const unavailable = (
  reason: Unavailable["reason"],
  outcome: Unavailable["outcome"],
  sentence: string
): ToolResult.Failure => {
  const ran = outcome === "unknown" ? "it is not known whether the tool ran" : "the tool did not run"
  const value: Unavailable = { reason, outcome }
  return ToolResult.failure("remote_unavailable", `${sentence}, ${ran}`, value)
}

const changedTool = (name: string) =>
  unavailable(
    "contract_mismatch",
    "not_executed",
    `The tool ${base.quote(name)} of the MCP server has changed since this run began`
  )

const refusals: { readonly [status: number]: Unavailable["reason"] } = {
  401: "unauthorized",
  403: "denied",
  404: "not_found",
  413: "request_too_large",
  415: "unsupported_media_type"
}

/** A call without a result. `isGone` is a connection that cannot be used again. */
interface Lost {
  readonly result: ToolResult.Failure
  readonly isGone: boolean
  /** The server has forgotten the session, so nothing was executed. */
  readonly isForgotten?: boolean
}

const toLost = (quote: (text: string) => string, { reason }: McpClientError.McpClientError): Lost => {
  const lost = unavailable("connection_lost", "unknown", "The connection to the MCP server was lost")
  const invalid = unavailable("invalid_response", "unknown", "The answer of the MCP server is not a tool result")
  switch (reason._tag) {
    case "TransportError": {
      const { cause } = reason
      const isUnsent = HttpClientError.isHttpClientError(cause) && remoteProtocol.isUnreachable(cause)
      const unreachable = unavailable("unreachable", "not_executed", "The MCP server cannot be reached")
      return { result: isUnsent ? unreachable : lost, isGone: true }
    }
    case "ClosedError": {
      const expired = unavailable("connection_lost", "not_executed", "The MCP server has ended the session")
      return reason.sessionExpired === true
        ? { result: expired, isGone: true, isForgotten: true }
        : { result: lost, isGone: true }
    }
    case "HttpError": {
      const { status } = reason
      const isRefused = status < 500
      const result = unavailable(
        refusals[status] ?? (isRefused ? "invalid_request" : "server_error"),
        isRefused ? "not_executed" : "unknown",
        isRedirect(reason)
          ? `The MCP server answered with a redirect (status ${status}), which is not followed`
          : `The MCP server answered with status ${status}`
      )
      return { result, isGone: status === 400 || status === 404, isForgotten: status === 400 || status === 404 }
    }
    case "ProtocolError":
      return reason.code === undefined
        ? { result: invalid, isGone: true }
        : {
            result: ToolResult.failure("execution_error", `The MCP server rejected the call: ${quote(reason.message)}`),
            isGone: false
          }
    case "LimitError":
      return {
        result: unavailable("response_too_large", "unknown", "A message of the MCP server is larger than the limit"),
        isGone: true
      }
    default:
      return { result: invalid, isGone: false }
  }
}

interface Ready {
  readonly connected: connection.Connection
  readonly entries: ReadonlyMap<string, Entry>
}

/** One server: its connection while it has one, and the tools that it listed. */
class Server {
  refused: ReadonlyArray<RefusedTool> = []
  private current: { readonly connection: connection.Connection; readonly scope: Scope.Closeable } | undefined
  private listed: { readonly by: connection.Connection; readonly entries: ReadonlyMap<string, Entry> } | undefined
  /** The attempt to connect that is under way. */
  private connecting: Fiber.Fiber<connection.Connection, McpToolsError> | undefined
  private readonly lock = Semaphore.makeUnsafe(1)
  private readonly name: string
  private readonly options: StdioServer | HttpServer
  private readonly conceal: ReturnType<typeof connection.makeConceal>
  /** The server is optional, and the last run found that it cannot be used. */
  private isDown = false
  private readonly services: Context.Context<never>
  private readonly scope: Scope.Scope
  private readonly warn = base.warnOnce()

  constructor(name: string, options: StdioServer | HttpServer, services: Context.Context<never>, scope: Scope.Scope) {
    this.name = name
    this.options = options
    this.conceal = connection.makeConceal(options)
    this.services = services
    this.scope = scope
  }

  /** The tools for a new run. */
  get tools(): Effect.Effect<ReadonlyArray<McpTool>, McpToolsError> {
    const found = Effect.map(this.ready(true), ({ entries }) => {
      this.isDown = false
      return Array.from(entries.values(), ({ tool }) => tool)
    })
    if (this.options.optional !== true) return found
    return Effect.suspend(() => {
      if (this.isDown && this.connecting !== undefined) return Effect.succeed([])
      const duration = this.isDown ? "1 second" : (this.options.connectTimeout ?? "30 seconds")
      const why = "it did not answer in time"
      const orElse = () => Effect.fail(errorOf(this.name, { _tag: "Unreachable", problem: why }, why))
      // The connection is made by a fiber of its own, so a run that does not wait cuts no attempt off
      return Effect.timeoutOrElse(found, { duration, orElse })
    }).pipe(
      Effect.catch((error) =>
        Effect.gen({ self: this }, function* () {
          if (!this.isDown) {
            this.isDown = true
            const words = agentReason.publicTextOf(error) ?? error.message
            yield* Effect.logWarning(`${words}. It is optional, so runs continue without its tools.`)
          }
          return []
        })
      )
    )
  }

  /** A connection and its tools. A connection that turns out to be lost is replaced once. */
  private ready(isForRun: boolean): Effect.Effect<Ready, McpToolsError> {
    const once = Effect.flatMap(this.connected, (connected) =>
      Effect.map(this.entries(connected, isForRun && !connected.isWatched), (entries) => ({ connected, entries }))
    )
    return Effect.suspend(() => {
      const known = this.current
      return known === undefined
        ? once
        : Effect.catchIf(
            once,
            () => this.current !== known,
            () => once
          )
    })
  }

  /** The connection, made again if there is none or it was lost. Calls that need one at the same time wait for the same. */
  private get connected(): Effect.Effect<connection.Connection, McpToolsError> {
    const start = Effect.gen({ self: this }, function* () {
      if (this.connecting !== undefined) return this.connecting
      const ended = Effect.sync(() => {
        this.connecting = undefined
      })
      const connecting = yield* Effect.forkIn(Effect.ensuring(this.connect, ended), this.scope)
      this.connecting = connecting
      return connecting
    })
    return Effect.suspend(() => {
      const known = this.current
      return known !== undefined && !known.connection.isLost
        ? Effect.succeed(known.connection)
        : Effect.flatMap(this.lock.withPermit(Effect.andThen(this.drop(known?.connection), start)), Fiber.join)
    })
  }

  private get connect(): Effect.Effect<connection.Connection, McpToolsError> {
    const { connectTimeout = "30 seconds", limits, retry } = this.options
    return Effect.gen({ self: this }, function* () {
      const { maxBytes } = yield* jsonLimits.resolveLimits(limits)
      const connectIn = Effect.fnUntraced({ self: this }, function* (protocol: connection.Protocol) {
        const scope = yield* Scope.fork(this.scope)
        const made = connection.connect({
          name: this.name,
          endpoint: this.options,
          protocol,
          timeout: connectTimeout,
          maxBytes
        })
        return yield* made.pipe(
          // A connection outlives the call that needs it first, and keeps nothing of it
          Effect.updateContext((_: Context.Context<never>) => Context.add(this.services, Scope.Scope, scope)),
          Effect.map((connection) => ({ connection, scope })),
          Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
        )
      })
      const [first, other] = connection.protocols
      const attempt = Effect.catchIf(connectIn(first), connection.isForeign, (error) =>
        Effect.mapError(connectIn(other), () => error)
      )
      this.current = yield* Effect.retry(attempt, { schedule: retry ?? defaultRetry, while: connection.isTransient })
      return this.current.connection
    }).pipe(Effect.mapError((error) => this.unreachable(error)))
  }

  private unreachable(error: McpClientError.McpClientError): McpToolsError {
    const { reason } = error
    const problem = reason._tag === "HttpError" && isRedirect(reason) ? redirected(reason) : this.quote(error.message)
    return errorOf(this.name, { _tag: "Unreachable", problem }, whyOf(error))
  }

  /** Forgets a connection, and closes it in the background: a process may need seconds to end. */
  private drop(lost: connection.Connection | undefined): Effect.Effect<void> {
    return Effect.suspend(() => {
      const known = this.current
      if (known === undefined || known.connection !== lost) return Effect.void
      this.current = undefined
      return Effect.forkIn(Scope.close(known.scope, Exit.void), this.scope)
    })
  }

  /** The tools that are known, or a new listing. */
  private entries(
    connected: connection.Connection,
    isNeeded: boolean
  ): Effect.Effect<ReadonlyMap<string, Entry>, McpToolsError> {
    return Effect.suspend(() => {
      const known = this.listed
      if (known?.by === connected && !connected.isStale && !isNeeded) return Effect.succeed(known.entries)
      connected.isStale = false
      return Effect.tap(fuel.doorWithin(this.options.limits, this.list(connected)), (entries) =>
        Effect.sync(() => {
          this.listed = { by: connected, entries }
        })
      )
    })
  }

  private list(connected: connection.Connection): Effect.Effect<ReadonlyMap<string, Entry>, McpToolsError> {
    const { connectTimeout = "30 seconds", invalidTools = "leaveOut", limits } = this.options
    return Effect.gen({ self: this }, function* () {
      const found: Array<unknown> = []
      let count = 0
      const { maxTools } = yield* jsonLimits.resolveLimits(limits)
      yield* connected.client.listTools({ timeout: connectTimeout }).pipe(
        Effect.provideService(connection.CurrentExchange, {
          onResult: (tools) => {
            if (!Array.isArray(tools)) return
            count += tools.length
            if (count <= maxTools) found.push(...tools)
          }
        }),
        Effect.tapError(() => this.drop(connected)),
        Effect.mapError((error) => this.unreachable(error))
      )
      if (count > maxTools) {
        const problem = `expected at most ${maxTools} tools, got ${count}. Raise "maxTools" of the limits`
        return yield* errorOf(this.name, { _tag: "InvalidListing", problem })
      }
      const entries = new Map<string, Entry>()
      const taken = new Set<string>()
      const refused: Array<RefusedTool> = []
      for (const raw of found) {
        const made = yield* Effect.result(this.make(raw, taken, connected))
        if (Result.isSuccess(made)) {
          entries.set(made.success.described.name, made.success)
          taken.add(boundTool.encodeName(made.success.tool.name))
        } else refused.push({ server: this.name, ...made.failure })
      }
      const errors = refused.map(({ problem, tool }) =>
        errorOf(this.name, { _tag: "InvalidTool", tool, problem }, "one of its tools is not acceptable")
      )
      yield* Effect.forEach(errors, ({ message }) => this.warn(message), { discard: true })
      const [first] = errors
      if (first !== undefined && invalidTools === "fail") return yield* first
      this.refused = refused
      return entries
    })
  }

  /** The entry of a tool: the known entry if nothing has changed. */
  private make(
    raw: unknown,
    taken: ReadonlySet<string>,
    connected: connection.Connection
  ): Effect.Effect<Entry, Omit<RefusedTool, "server">> {
    return Effect.gen({ self: this }, function* () {
      const name = jsonValues.isObject(raw) ? jsonValues.own(raw, "name") : undefined
      const refuse = (problem: string) =>
        Effect.fail({ tool: base.truncateText(typeof name === "string" ? this.conceal(name) : "", 128), problem })
      const { limits } = this.options
      const checked = this.conceal(
        yield* Effect.catch(copyJson.check(raw, { what: "tool", limits }), ({ message }) => refuse(message))
      )
      const json = jsonValues.isObject(checked) ? connection.present(checked, "annotations", "execution") : checked
      const described = yield* Effect.catch(Effect.fromResult(decodeDescribed(json)), (error) =>
        refuse(PayloadError.render("", jsonProblems.problemsFromSchemaError(error, json)))
      )
      if (taken.has(boundTool.encodeName(`${this.name}/${described.name}`))) {
        return yield* refuse("another tool of the server has its name, or the same name for a model")
      }
      const fingerprint = jsonValues.fingerprint(described)
      const known = this.listed?.entries.get(described.name)
      if (known?.fingerprint === fingerprint && connected.isCallable(known.request)) return known
      const wrong = findWrong(described)
      if (wrong !== undefined) return yield* refuse(wrong)
      const { inputSchema } = described
      // Its class in effect/ai would throw for a malformed schema, which makeEntry refuses
      const request: McpSchema.Tool = { name: described.name, inputSchema: { ...inputSchema, type: "object" } }
      // Tools of version 2026-07-28 may name parameters that are headers
      if (!connected.isCallable(request)) return yield* refuse("its parameters name headers that are not valid")
      return yield* Effect.catch(this.makeEntry({ described, fingerprint, request }), ({ message }) => refuse(message))
    })
  }

  private makeEntry(parts: Pick<Entry, "described" | "fingerprint" | "request">) {
    const { described } = parts
    const { approval = "always", limits, timeout = "60 seconds" } = this.options
    return Effect.gen({ self: this }, function* () {
      const name = `${this.name}/${described.name}`
      const { description, inputSchema, outputSchema } = described
      const input = yield* readSchema(inputSchema, "parameters", limits)
      const output = outputSchema && (yield* readSchema(outputSchema, "output schema", limits))
      const annotations = annotationsOf(described)
      const contract = yield* ToolContract.make({
        name,
        description,
        parameters: input.json,
        success: output?.json,
        timeout,
        annotations
      })
      const needsApproval = (typeof approval === "function" ? approval : floors[approval])(contract)
      const tool = Tool.dynamic(name, {
        description,
        parameters: input.json,
        success: output === undefined ? Schema.Unknown : JsonSchema.codec(output),
        failure: Schema.Unknown,
        needsApproval
      })
        .annotateMerge(boundTool.toToolAnnotations(annotations))
        .annotate(ToolSettings.Timeout, timeout)
        .annotate(jsonLimits.IsCheckedAgain, true)
      const entry: Entry = {
        ...parts,
        output,
        tool: ownTool(tool, (params, context) => this.call(entry, params, context))
      }
      // Compiles the parameters, so that a schema that is refused is refused here
      const { parameters, result } = yield* boundTool.stubFor(tool, contract)
      yield* Effect.forEach(boundTool.uncheckedNotes(name, [parameters, result]), this.warn, { discard: true })
      return entry
    })
  }

  /** Executes a call, and fails with what carries its result. */
  private call(
    entry: Entry,
    params: unknown,
    { preliminary }: Parameters<boundTool.HandlerFunction>[1]
  ): Effect.Effect<never, object> {
    const attempt = (isSecond: boolean): Effect.Effect<ToolResult.ToolResult> =>
      Effect.matchEffect(this.ready(false), {
        onFailure: (error) => Effect.succeed(unavailable("unreachable", "not_executed", error.message)),
        onSuccess: ({ connected, entries }) =>
          entries.get(entry.described.name)?.fingerprint === entry.fingerprint
            ? Effect.catch(this.exchange(connected, entry, params, preliminary), (lost) =>
                Effect.andThen(
                  lost.isGone ? this.drop(connected) : Effect.void,
                  lost.isForgotten === true && !isSecond ? attempt(true) : Effect.succeed(lost.result)
                )
              )
            : Effect.succeed(changedTool(entry.described.name))
      })
    return Effect.flatMap(attempt(false), (result) => Effect.fail(boundTool.carrierOf(result)))
  }

  private exchange(
    connected: connection.Connection,
    { output, request, tool }: Entry,
    params: unknown,
    preliminary: (value: unknown) => Effect.Effect<void>
  ): Effect.Effect<ToolResult.ToolResult, Lost> {
    return Effect.gen({ self: this }, function* () {
      let raw: unknown
      // The newest notifications count: a reader who is slow must not hold up the server
      const progress = yield* Queue.sliding<typeof connection.Progress.Type, Cause.Done>(16)
      const emit = Effect.forkChild(
        Stream.runForEach(Stream.fromQueue(progress), (made) =>
          preliminary(boundTool.carrierOf(toProgress(this.conceal(made))))
        )
      )
      const answer = connected.client
        .callTool({
          tool: request,
          // Sound: the arguments have passed the validator, so they are a JSON object
          arguments: params as Json.JsonObject
        })
        .pipe(
          Effect.provideService(connection.CurrentExchange, {
            onResult: (result) => (raw = result),
            onProgress: (made) => void Queue.offerUnsafe(progress, made)
          }),
          Effect.mapError((error) => toLost((text) => this.quote(text), error))
        )
      const emitter = yield* emit
      yield* Effect.ensuring(answer, Queue.end(progress))
      yield* Fiber.await(emitter)
      const read = Effect.mapError(
        readResult(raw, this.conceal, { what: "result", limits: this.options.limits }),
        (error): Lost => {
          const isLarge = error.reason._tag === "TooLarge" || error.reason._tag === "TooDeep"
          return {
            isGone: false,
            result: unavailable(
              isLarge ? "response_too_large" : "invalid_response",
              "unknown",
              `The answer of the MCP server is not a tool result (${this.quote(error.message)})`
            )
          }
        }
      )
      return toResult(tool.name, yield* read, output)
    })
  }

  /** At most some sentences of the server's own words, and no secret. */
  private quote(text: string): string {
    return base.truncateText(this.conceal(text), maxQuote)
  }
}

const readResult = (raw: unknown, conceal: ReturnType<typeof connection.makeConceal>, options: jsonLimits.Options) =>
  Effect.flatMap(
    Effect.map(copyJson.check(raw, options), (json) =>
      conceal(jsonValues.isObject(json) ? connection.present(json) : json)
    ),
    jsonProblems.decode(CallResult, { ...options, onExcessProperty: "ignore" })
  )

const toProgress = ({ message, progress, total }: typeof connection.Progress.Type): ToolResult.Success => {
  const words = message === undefined ? undefined : base.truncateText(message, maxQuote)
  const content = ToolResult.textPart(words ?? (total === undefined ? `${progress}` : `${progress} of ${total}`))
  return ToolResult.success({ progress, ...jsonValues.defined({ total, message: words }) }, [content])
}

const ownTool = (described: Tool.Any, handler: boundTool.HandlerFunction): McpTool => {
  const tool = Tool.providerDefined({
    id: "emissary.mcp",
    customName: described.name,
    providerName: described.name,
    parameters: Schema.Unknown,
    success: Schema.Json,
    failure: Schema.Json
  })(undefined).annotateMerge(boundTool.withOwnHandler(described, handler).annotations)
  const marked: unknown = Object.assign(tool, { [boundTool.OwnHandlerTypeId]: {} })
  // Sound: annotate keeps the kind of a tool, and the services are a phantom.
  return marked as McpTool
}
