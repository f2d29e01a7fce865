/** The routes of a tool server. */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Json from "../../../payload/Json.ts"
import type { Limits } from "../../../payload/Limits.ts"
import * as BoundCall from "../../BoundCall.ts"
import * as RemoteToolsApi from "../../RemoteToolsApi.ts"
import * as RemoteToolsError from "../../RemoteToolsError.ts"
import type { ToolContract } from "../../ToolContract.ts"
import * as ToolResult from "../../ToolResult.ts"
import type { ToolSet } from "../../ToolSet.ts"
import * as V1 from "./protocol-v1.ts"
import * as Requests from "./requests.ts"
import type * as Token from "./token.ts"

type Path = `/${string}`

interface Options {
  readonly set: ToolSet
  readonly match: Token.Match
  readonly context: (
    claimed: Json.JsonObject,
    principal: RemoteToolsApi.Principal
  ) => Effect.Effect<Json.JsonObject, RemoteToolsError.Denied>
  readonly limits: Partial<Limits> | undefined
  readonly path: Path
}

/** A defect of the server, or of the application's `context` function, stays in the log. */
const hideDefects = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | RemoteToolsError.InternalError, R> =>
  Effect.catchCauseIf(
    effect,
    Cause.hasDies,
    Effect.fnUntraced(function* (cause) {
      yield* Effect.logError("The tool server failed unexpectedly", cause)
      return yield* new RemoteToolsError.InternalError({ message: "The tool server failed. Its log has the details." })
    })
  )

const ok = (body: string): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(body, { contentType: "application/json" })

const contractOut = (contract: ToolContract): (typeof V1.Tools.Encoded)["tools"][number] => ({
  name: contract.name,
  ...(contract.description === undefined ? undefined : { description: contract.description }),
  parameters: contract.parameters,
  ...(contract.success === undefined ? undefined : { success: contract.success }),
  ...(contract.failure === undefined ? undefined : { failure: contract.failure }),
  timeout: Duration.isFinite(contract.timeout) ? Duration.toMillis(contract.timeout) : null,
  approval: contract.approval,
  annotations: contract.annotations,
  digest: contract.digest
})

/** Runs the call; what comes out is what the caller gets with status 200. */
const call = Effect.fnUntraced(function* (options: Options, request: typeof V1.Request.Type, context: Json.JsonObject) {
  const tool = options.set.tools.get(request.name)
  if (tool !== undefined && request.contractDigest !== undefined && request.contractDigest !== tool.contract.digest) {
    return yield* new RemoteToolsError.ContractMismatch({
      message: `The server has another version of tool ${JSON.stringify(request.name)}`,
      tool: request.name,
      expected: tool.contract.digest,
      found: request.contractDigest
    })
  }
  const prepared = yield* BoundCall.prepare(
    options.set,
    { id: request.callId, name: request.name, arguments: request.arguments },
    { runId: request.runId, context, deadline: request.deadline }
  )
  if (Result.isFailure(prepared)) return prepared.failure
  return yield* Option.getOrElse(prepared.success.execute, () =>
    Effect.succeed(ToolResult.failure("unknown_tool", `The server cannot run tool ${JSON.stringify(request.name)}`))
  )
})

const respond = (options: Options, callId: string, result: ToolResult.ToolResult) => {
  const body: typeof V1.Response.Encoded = { protocol: V1.protocol, callId, result }
  return Effect.map(Json.stringify(body, { what: "tool result", limits: options.limits }), ok)
}

const execute = (options: Options) => {
  const read = Requests.read(options.limits)
  return Effect.fnUntraced(function* (http: HttpServerRequest.HttpServerRequest) {
    const principal = yield* RemoteToolsApi.CurrentPrincipal
    const request = yield* read(http)
    const context = yield* options.context(request.context ?? {}, principal)
    const result = yield* call(options, request, context)
    return yield* respond(options, request.callId, result).pipe(
      Effect.catch((error) =>
        Effect.orDie(
          respond(
            options,
            request.callId,
            ToolResult.failure("execution_error", `The result cannot be sent: ${error.message}`)
          )
        )
      )
    )
  }, hideDefects)
}

const authorization = (match: Token.Match) =>
  Layer.succeed(
    RemoteToolsApi.Authorization,
    RemoteToolsApi.Authorization.of({
      bearer: Effect.fnUntraced(function* (effect, { credential }) {
        const name = yield* match(credential)
        if (name === undefined) {
          return yield* new RemoteToolsError.Unauthorized({ message: "The bearer token is missing or wrong" })
        }
        return yield* Effect.provideService(effect, RemoteToolsApi.CurrentPrincipal, { name })
      })
    })
  )

const below = (path: Path, rest: string): Path => (path.endsWith("/") ? `${path}${rest}` : `${path}/${rest}`)

/** Answers what no endpoint answers, below `/tools` only: the rest of the server belongs to the application. */
const elsewhere = (path: Path) => {
  const tools = below(path, "tools")
  const body: typeof RemoteToolsError.UnknownEndpoint.Encoded = {
    _tag: "UnknownEndpoint",
    message: `The endpoints are POST ${below(tools, "execute")}, GET ${tools} and GET ${below(path, "openapi.json")}`
  }
  const answer = Effect.orDie(HttpServerResponse.json(body, { status: 404 }))
  return Layer.mergeAll(
    HttpRouter.add("*", below(tools, ":unknown/*"), answer),
    HttpRouter.add("POST", tools, answer),
    HttpRouter.add("PUT", tools, answer),
    HttpRouter.add("PATCH", tools, answer),
    HttpRouter.add("DELETE", tools, answer)
  )
}

/** The routes as a layer over the router of the application. */
export const layer = (options: Options) => {
  const api = RemoteToolsApi.Api.prefix(options.path)
  const contracts: typeof V1.Tools.Encoded = {
    protocol: V1.protocol,
    tools: Array.from(options.set.tools.values(), (tool) => contractOut(tool.contract))
  }
  const run = execute(options)
  const tools = HttpApiBuilder.group(api, "tools", (handlers) =>
    handlers
      .handleRaw("executeTool", ({ request }) => run(request))
      .handleRaw("listTools", () =>
        Json.stringify(contracts, { what: "tools", limits: options.limits }).pipe(
          Effect.map(ok),
          Effect.orDie,
          hideDefects
        )
      )
  )
  return Layer.merge(
    HttpApiBuilder.layer(api, { openapiPath: below(options.path, "openapi.json") }).pipe(
      Layer.provide(tools),
      Layer.provide(authorization(options.match))
    ),
    elsewhere(options.path)
  )
}
