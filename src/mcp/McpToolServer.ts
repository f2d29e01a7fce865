/**
 * A toolkit, with the agents in it, as the tools of an MCP server.
 *
 * {@link layer} registers the tools with `McpServer` of `effect/ai`, which speaks the protocol over standard streams, or
 * over streamable HTTP with {@link layerHttp}. A tool made by `Agent.asTool` runs its agent.
 *
 * **What a client gets**
 *
 * - Arguments are validated with the tool's own JSON Schema, by the same validator as in an agent.
 * - A call that needs an approval asks the person at the client with an elicitation. So does a question, and a call of a client-side
 *   tool: its form is made from the Schema of the answer, and an answer that does not fit is asked for again. Where the client has none,
 *   the call returns an error that names what it waits for, and is not executed.
 * - Progress, for a call with a progress token: the steps and tool calls of an agent by name, and the preliminary
 *   results of a tool.
 * - A failure is a result with `isError`. The text of a defect is in the log of the server only.
 *
 * **Gotchas**
 *
 * With `McpServer.layerStdio` the standard output belongs to the protocol, and one line of a log corrupts it. Provide
 * `Layer.succeed(Logger.LogToStderr, true)`, and print nothing.
 *
 * The arguments of a call are shown to the person at the client, who decides for the holder of the connection: let
 * only those connect who may decide.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools
 * @since 0.1.0
 */

import type * as Arr from "effect/Array"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Record from "effect/Record"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as McpProtocol from "effect/ai/McpProtocol"
import * as McpSchema from "effect/ai/McpSchema"
import * as McpServer from "effect/ai/McpServer"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Base64 from "effect/encoding/Base64"
import * as Headers from "effect/http/Headers"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerError from "effect/http/HttpServerError"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as Agent from "../agent/Agent.ts"
import * as AgentEvent from "../agent/AgentEvent.ts"
import * as Run from "../agent/Run.ts"
import * as agentTool from "../agent/internal/agentTool.ts"
import * as Message from "../conversation/Message.ts"
import * as Json from "../payload/Json.ts"
import type * as Limits from "../payload/Limits.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import * as base from "../payload/internal/base.ts"
import { resolveLimits } from "../payload/internal/limits.ts"
import * as textScanner from "../payload/internal/textScanner.ts"
import { defined } from "../payload/internal/values.ts"
import * as runRequests from "../run/internal/runRequests.ts"
import * as RemoteTools from "../tool/RemoteTools.ts"
import * as ToolContract from "../tool/ToolContract.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as boundTool from "../tool/internal/boundTool.ts"
import * as callContext from "../tool/internal/callContext.ts"
import * as requestBody from "../tool/internal/requestBody.ts"
import * as toolCall from "../tool/internal/toolCall.ts"

/**
 * Options of {@link layer}.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** The `RunContext` of all calls; default empty. A server of one tenant or user names it here. */
  readonly context?: Json.JsonObject | undefined
  /** Limits of the runs of agents. */
  readonly run?: Pick<Agent.Options, "maxDepth" | "maxSteps" | "timeouts"> | undefined
}

/**
 * Registers the tools of a toolkit, for the `registrations` of `McpServer.layerStdio` and {@link layerHttp}.
 *
 * **Details**
 *
 * A tool is listed under the name that a model would see: `/` becomes `__`. Tools that a model provider executes are
 * not listed. The output schema of a tool is listed if it describes an object.
 *
 * Calls run on the `ToolRuntime` of the layer, with the services that it was built with. A tool with `dependencies`, services of each
 * call, does not compile here.
 *
 * **Example** (An agent and a tool, which needs an approval, over standard streams)
 *
 * ```ts no-run
 * import { NodeRuntime, NodeStdio } from "@effect/platform-node"
 * import { Effect, Layer, Logger, Schema } from "effect"
 * import { McpProtocol, McpServer, Tool, Toolkit } from "effect/ai"
 * import { Agent, ModelRegistry } from "effect-emissary"
 * import { McpToolServer } from "effect-emissary/mcp"
 *
 * class Support extends Agent.Service<Support>()("support", { model: "openai/gpt-5.2" }) {}
 *
 * const Refund = Tool.make("refund", {
 *   parameters: Schema.Struct({ order: Schema.String }),
 *   success: Schema.String,
 *   needsApproval: true
 * })
 * const tools = Toolkit.make(Refund, Agent.asTool(Support, { name: "support", description: "Answers questions" }))
 *
 * McpServer.layerStdio({
 *   name: "shop",
 *   version: "1.0.0",
 *   protocols: [McpProtocol.v2025_11_25, McpProtocol.v2025_06_18],
 *   registrations: McpToolServer.layer(tools)
 * }).pipe(
 *   Layer.provide(tools.toLayer({ refund: ({ order }) => Effect.succeed(`refunded ${order}`) })),
 *   Layer.provide(Support.layer),
 *   Layer.provide([ModelRegistry.layer({}), NodeStdio.layer, Layer.succeed(Logger.LogToStderr, true)]),
 *   Layer.launch,
 *   NodeRuntime.runMain
 * )
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>,
  options: Options = {}
): Layer.Layer<
  never,
  ToolContract.ToolContractError | boundTool.ToolNameError,
  | McpServer.McpServer
  | Exclude<
      Tool.HandlersFor<Tools> | Tool.HandlerServices<Tools[keyof Tools]> | boundTool.OwnServices<Tools[keyof Tools]>,
      Scope.Scope
    >
  | boundTool.NoServiceOfCall<Exclude<boundTool.CallServicesOf<Tools[keyof Tools]>, Scope.Scope>>
> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const server = yield* McpServer.McpServer
      const over = callContext.over(yield* Effect.context<never>())
      const set = yield* boundTool.makeSet(yield* boundTool.fromToolkit(toolkit))
      const all = Array.from(set.tools.values()).filter(({ kind }) => kind !== "provider")
      const described = yield* Effect.forEach(all, (bound) => describe(set.providerName(bound.contract.name), bound))
      for (const { bound, tool } of described) {
        yield* server.addTool({
          tool,
          annotations: Context.empty(),
          handle: (payload) => {
            const call = handle({ server, set, bound, options }, payload)
            return Effect.updateContext(call, (request: Context.Context<McpSchema.McpRequestContext>) =>
              Context.merge(request, over(request))
            )
          }
        })
      }
    })
  )

/**
 * The options that {@link layerHttp} adds to the options of `McpServer.layerHttp`.
 *
 * @category options
 * @since 0.1.0
 */
export interface BodyOptions {
  /** Limits of the body of a request, where they differ from the current `Limits`. */
  readonly limits?: Partial<Limits.Limits> | undefined
  /**
   * The time in which the whole body of a request has to arrive, more than none; default 30 seconds. Then the caller gets
   * status 408, and the connection is closed.
   */
  readonly bodyTimeout?: Duration.Input | undefined
}

/**
 * Serves MCP over streamable HTTP: `McpServer.layerHttp` of `effect/ai` with limits of the bodies of requests.
 *
 * **Details**
 *
 * A body is read after the checks of origin and media type, and refused before it is parsed: with status 413 beyond
 * `maxBytes`, with 408 after `bodyTimeout`. Status 400 is a body that is no JSON within the limits, or has a key twice.
 * Each refusal is a JSON-RPC error. Fails with `RemoteTools.InvalidOption` for a `bodyTimeout` that is no time.
 *
 * A request of a session may name another version of the protocol that the server has, as some clients do. The version of
 * the session counts.
 *
 * **Gotchas**
 *
 * No credentials are checked: put a check in front, see `HttpRouter.middleware`. Requests of browsers are refused unless
 * `allowedOrigins` has their origin.
 *
 * **Example** (A tool over HTTP)
 *
 * ```ts
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Effect, Layer, Schema } from "effect"
 * import { McpProtocol, Tool, Toolkit } from "effect/ai"
 * import { HttpRouter, HttpServer } from "effect/http"
 * import { McpToolServer } from "effect-emissary/mcp"
 * import assert from "node:assert"
 * import { createServer } from "node:http"
 *
 * const Clock = Toolkit.make(Tool.make("now", { success: Schema.String }))
 * const Served = HttpRouter.serve(
 *   McpToolServer.layerHttp({
 *     name: "clock",
 *     version: "1.0.0",
 *     path: "/mcp",
 *     protocols: [McpProtocol.v2025_11_25],
 *     registrations: McpToolServer.layer(Clock),
 *     limits: { maxBytes: 64_000 }
 *   }).pipe(Layer.provide(Clock.toLayer({ now: () => Effect.succeed("noon") }))),
 *   { disableLogger: true, disableListenLog: true }
 * ).pipe(Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 })))
 *
 * const program = Effect.gen(function* () {
 *   const url = yield* HttpServer.addressFormattedWith(Effect.succeed)
 *   const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" }
 *   return yield* Effect.promise(() => fetch(`${url}/mcp`, { method: "POST", headers, body: " ".repeat(64_001) }))
 * })
 * const response = await Effect.runPromise(Effect.provide(program, Served))
 * assert.strictEqual(response.status, 413)
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerHttp = <
  const Protocols extends Arr.NonEmptyReadonlyArray<McpProtocol.ProtocolAdapter>,
  RA = never,
  RE = never,
  RR = never
>(
  options: Parameters<typeof McpServer.layerHttp<Protocols, RA, RE, RR>>[0] & BodyOptions
) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const timeout = yield* requestBody.resolveTimeout(
        options.bodyTimeout,
        (option, message) => new RemoteTools.InvalidOption({ option, message })
      )
      const limits = yield* resolveLimits(options.limits)
      const versions = options.protocols.flatMap(({ protocolVersion, runtime }) =>
        runtime._tag === "Stateful" ? [protocolVersion] : []
      )
      const bounded = HttpRouter.middleware((app) =>
        Effect.gen(function* () {
          let refused: HttpServerResponse.HttpServerResponse | undefined
          const request = yield* HttpServerRequest.HttpServerRequest
          const text = yield* Effect.cached(
            Effect.mapError(readBody(request, timeout, limits), (refusal) => {
              refused = toResponse(refusal)
              return new HttpServerError.HttpServerError({
                reason: new HttpServerError.RequestParseError({ request, description: refusal.message })
              })
            })
          )
          const { headers } = request
          const isKnown = versions.some((version) => version === headers["mcp-protocol-version"])
          const isOfSession = isKnown && headers["mcp-session-id"] !== undefined
          const inner: HttpServerRequest.HttpServerRequest = Object.create(
            isOfSession ? request.modify({ headers: Headers.remove(headers, "mcp-protocol-version") }) : request,
            { text: { value: text } }
          )
          const response = yield* Effect.provideService(app, HttpServerRequest.HttpServerRequest, inner)
          return refused ?? response
        })
      )
      return Layer.provide(McpServer.layerHttp<Protocols, RA, RE, RR>(options), bounded.layer)
    })
  )

/** A refusal as an error of JSON-RPC, before the protocol sees the request. */
const toResponse = ({ message, status }: requestBody.Refusal) => {
  const code = status === 400 ? McpSchema.PARSE_ERROR_CODE : McpSchema.INVALID_REQUEST_ERROR_CODE
  return HttpServerResponse.jsonUnsafe({ jsonrpc: "2.0", id: null, error: { code, message } }, { status })
}

const readBody = Effect.fnUntraced(function* (
  request: HttpServerRequest.HttpServerRequest,
  timeout: Duration.Duration,
  limits: Limits.Limits
) {
  const bytes = yield* requestBody.read(request, limits.maxBytes, timeout)
  yield* Effect.mapError(textScanner.parse(bytes, { what: "request", limits }), ({ message }) => {
    const refusal: requestBody.Refusal = { status: 400, message }
    return refusal
  })
  return new TextDecoder().decode(bytes)
})

const describe = Effect.fnUntraced(function* (name: string, bound: boundTool.BoundTool) {
  const { annotations, description, parameters, success } = bound.contract
  if (parameters["type"] !== "object") {
    return yield* new ToolContract.ToolContractError({
      tool: bound.contract.name,
      part: "parameters",
      path: "/type",
      problem: `expected "object", got ${JSON.stringify(parameters["type"] ?? null)}. Clients of MCP send objects only`
    })
  }
  const tool = new McpSchema.Tool({
    name,
    ...defined({ description, title: annotations.title }),
    inputSchema: { ...parameters, type: "object" },
    ...(hasObject(success) ? { outputSchema: success } : {}),
    annotations: {
      readOnlyHint: annotations.readonly ?? false,
      destructiveHint: annotations.destructive ?? true,
      idempotentHint: annotations.idempotent ?? false,
      openWorldHint: annotations.openWorld ?? true
    }
  })
  return { bound, tool }
})

const hasObject = (success: Json.JsonObject | undefined): success is Json.JsonObject => success?.["type"] === "object"

interface Call {
  readonly server: McpServer.McpServer["Service"]
  readonly set: boundTool.ToolSet
  readonly bound: boundTool.BoundTool
  readonly options: Options
}

/** Reports to the client how far a call is. */
type Notify = (words: string) => Effect.Effect<void>

const handle = Effect.fnUntraced(function* (
  { bound, options, server, set }: Call,
  payload: Json.JsonObject | undefined
) {
  const { name } = bound.contract
  const notify = yield* makeNotify(server)
  const id = yield* yield* Message.MessageId
  const prepared = yield* boundTool.prepareNormal(
    set,
    { id, name, arguments: payload ?? {} },
    { runId: id, context: options.context, progress: (result) => notify(ToolResult.text(result)) }
  )
  const result = Result.isFailure(prepared)
    ? prepared.failure
    : yield* Effect.catchCauseIf(
        execute(bound, prepared.success, options, notify),
        (cause) => !cause.reasons.some(({ _tag }) => _tag === "Interrupt"),
        (cause) => toolCall.unhandledFailure(name, cause)
      )
  return toCallResult(result, hasObject(bound.contract.success))
})

const execute = Effect.fnUntraced(function* (
  bound: boundTool.BoundTool,
  call: toolCall.BoundCall,
  options: Options,
  notify: Notify
) {
  const agent = agentTool.agentOf(bound.tool)
  if (agent !== undefined)
    return yield* answerWithClient(yield* agent.agent, String(call.arguments["input"]), options, notify)
  const { context, contract, id: callId } = call
  const asks = runRequests.askOf(contract)
  const request = runRequests.requestOf({
    callId,
    name: contract.name,
    arguments: call.arguments,
    digest: contract.digest,
    ask: asks
  })
  if (asks !== undefined) {
    const decision = yield* ask(request)
    if (decision === undefined) return unasked(request)
    const { answer = null, approved, reason = "There was no answer." } = decision
    return approved ? ToolResult.success(answer) : ToolResult.failure("denied", reason)
  }
  const needed = yield* Effect.result(bound.needsApproval(call.arguments, { callId, context, messages: [] }))
  if (Result.isFailure(needed)) return needed.failure
  if (needed.success) {
    const verdict = yield* ask(request)
    if (verdict === undefined) return unasked(request)
    if (!verdict.approved) return ToolResult.failure("denied", "The call was denied")
  }
  const [result] = yield* toolCall.run([call])
  return result ?? (yield* Effect.die(new Error("a batch of one call returned no result")))
})

/** Runs an agent until it has an answer, with a decision of the client on each request. */
const answerWithClient = Effect.fnUntraced(function* (
  agent: Agent.Agent<unknown>,
  input: string,
  { context = {}, run }: Options,
  notify: Notify
): Effect.fn.Return<ToolResult.ToolResult> {
  const follow = (events: ReturnType<typeof agent.stream>) =>
    Effect.result(AgentEvent.result(Stream.tap(events, (event) => report(event, notify))))
  let made = yield* follow(agent.stream(input, { ...run, context }))
  while (Result.isSuccess(made) && made.success.outcome === "AwaitingApproval") {
    const { state } = made.success
    const decisions: Array<Run.Decision> = []
    for (const request of Run.requests(state)) {
      const decision = yield* ask(request)
      if (decision === undefined) return unasked(request)
      decisions.push(decision)
    }
    made = yield* follow(agent.resumeStream(state, { ...run, decisions }))
  }
  return Result.isFailure(made)
    ? agentTool.failureResult(agent.name, made.failure)
    : agentTool.toToolResult(agent.name, made.success)
})

const report = (event: AgentEvent.AgentEvent<unknown>, notify: Notify): Effect.Effect<void> => {
  const words = wordsOf(event)
  return words === undefined ? Effect.void : notify(words)
}

/** An event by names only: texts and arguments of a run stay in it. */
const wordsOf = (event: AgentEvent.AgentEvent<unknown>): string | undefined => {
  switch (event._tag) {
    case "StepStarted":
      return `step ${event.step}`
    case "ToolStarted":
      return `${event.name}: started`
    case "ToolFinished":
      return `${event.name}: ${event.result._tag === "Success" ? "done" : event.result.type}`
    case "Child": {
      const words = wordsOf(event.event)
      return words === undefined ? undefined : `${event.name} > ${words}`
    }
    default:
      return undefined
  }
}

const unasked = ({ _tag, name }: Run.Request) =>
  _tag === "Question" || _tag === "Call"
    ? ToolResult.failure(
        "answer_needed",
        `The call of ${base.quote(name)} waits for an answer, which this client cannot be asked for.`
      )
    : ToolResult.failure(
        "approval_needed",
        `The call of ${base.quote(name)} needs an approval, which this client cannot be asked for. It was not executed.`
      )

type Form = McpSchema.ElicitRequestFormParams["requestedSchema"]

/** The answer of the person at the client to a form, nothing where the client has no forms. */
const elicit = (message: string, requestedSchema: Form) =>
  Effect.gen(function* () {
    const client = yield* Effect.serviceOption(McpSchema.McpServerClient)
    if (Option.isNone(client)) return undefined
    const reverse = yield* client.value.getClient
    const params = new McpSchema.ElicitRequestFormParams({ mode: "form", message, requestedSchema })
    return Option.getOrUndefined(yield* Effect.option(reverse.elicit(params)))
  }).pipe(Effect.scoped)

/** The decision of the person at the client, if the client can ask. */
const ask = (request: Run.Request): Effect.Effect<Run.Decision | undefined> =>
  "schema" in request ? askAnswer(request) : askVerdict(request)

const askVerdict = Effect.fnUntraced(function* (request: Run.Approvable) {
  const message = `Approve the call of ${base.quote(request.name)}?\n${Json.show(request.arguments, 2)}`
  const answer = yield* elicit(message, {
    type: "object",
    properties: {
      approve: new McpSchema.ElicitationBoolean({ type: "boolean", title: "Approve" }),
      reason: new McpSchema.ElicitationString({ type: "string", title: "Reason, if you do not" })
    },
    required: ["approve"]
  })
  if (answer === undefined) return undefined
  if (answer.action !== "accept") return Run.deny(request)
  const { approve, reason } = answer.content ?? {}
  const options = typeof reason === "string" ? { reason } : {}
  return approve === true ? Run.approve(request, options) : Run.deny(request, options)
})

const readField = Schema.decodeUnknownOption(McpSchema.PrimitiveSchemaDefinition)

/** The form of an answer, and the answer from its content. A form has simple fields, so that a value of another kind is one text of JSON. */
const formOf = (schema: Json.JsonObject) => {
  const { properties, required, type } = schema
  const fields =
    type === "object" && Json.isObject(properties)
      ? Option.all(Record.map(properties, (field) => readField(field)))
      : Option.none()
  if (Option.isSome(fields)) {
    const names = Array.isArray(required) ? required.map(String) : []
    const form: Form = { type: "object", properties: fields.value, required: names }
    return { form, valueOf: (content: Json.JsonObject): Effect.Effect<Schema.Json> => Effect.succeed(content) }
  }
  const field = Option.getOrElse(
    readField(schema),
    () => new McpSchema.ElicitationString({ type: "string", title: "Answer", description: "As JSON" })
  )
  const form: Form = { type: "object", properties: { answer: field }, required: ["answer"] }
  const valueOf = ({ answer = null }: Json.JsonObject): Effect.Effect<Schema.Json> =>
    type !== "string" && typeof answer === "string"
      ? Effect.orElseSucceed(Json.parse(answer), () => answer)
      : Effect.succeed(answer)
  return { form, valueOf }
}

/** A person whose answers do not fit is asked so many times. */
const mostAnswers = 3

/** An answer that does not fit is asked for again. */
const askAnswer = Effect.fnUntraced(function* (request: Extract<Run.Request, { readonly schema: unknown }>) {
  const { form, valueOf } = formOf(request.schema)
  const words =
    request._tag === "Question"
      ? request.arguments.question
      : `Answer in place of ${base.quote(request.name)}:\n${Json.show(request.arguments, 2)}`
  let problem = ""
  for (let count = 0; count < mostAnswers; count++) {
    const answer = yield* elicit(`${words}${problem}`, form)
    if (answer === undefined) return undefined
    if (answer.action !== "accept") return Run.deny(request)
    const decision = Run.answer(request, yield* valueOf({ ...answer.content }))
    const problems = runRequests.problemsOf(request, decision)
    if (problems.length === 0) return decision
    problem = `\n\n${PayloadError.render("The answer before", problems)}`
  }
  return Run.deny(request, { reason: "The answers did not fit." })
})

/** The longest message of a notification. */
const maxWords = 500

const makeNotify = (
  server: McpServer.McpServer["Service"]
): Effect.Effect<Notify, never, McpSchema.McpRequestContext> =>
  Effect.map(McpSchema.McpRequestContext, (request): Notify => {
    const progressToken = request.requestMetadata?.progressToken
    if (typeof progressToken !== "string" && typeof progressToken !== "number") return () => Effect.void
    let progress = 0
    return (words) =>
      Effect.suspend(() => {
        progress += 1
        const message = base.truncateText(words, maxWords)
        return server.notifications["notifications/progress"]({ progressToken, progress, message })
      }).pipe(Effect.provideService(McpSchema.McpRequestContext, request), Effect.ignore)
  })

const toCallResult = (result: ToolResult.ToolResult, isStructured: boolean): McpSchema.CallToolResult => {
  const content = ToolResult.content(result).map(toBlock)
  if (result._tag === "Failure") return new McpSchema.CallToolResult({ content, isError: true })
  const structured = isStructured ? { structuredContent: result.value } : {}
  return new McpSchema.CallToolResult({ content, isError: false, ...structured })
}

const toBlock = (part: ToolResult.Content): McpSchema.ContentBlock => {
  if (part.type === "text") return { type: "text", text: part.text }
  const { data, fileName = "file", mediaType } = part
  if (data.type === "url") return { type: "resource_link", uri: data.url, name: fileName, mimeType: mediaType }
  const bytes = Base64.decode(data.base64)
  if (Result.isFailure(bytes)) return { type: "text", text: ToolResult.text([part]) }
  if (mediaType.startsWith("image/")) return { type: "image", data: bytes.success, mimeType: mediaType }
  if (mediaType.startsWith("audio/")) return { type: "audio", data: bytes.success, mimeType: mediaType }
  const uri = `file:///${encodeURIComponent(fileName)}`
  return { type: "resource", resource: { uri, mimeType: mediaType, blob: bytes.success } }
}
