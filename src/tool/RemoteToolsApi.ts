/**
 * The HTTP interface of a tool server, as one `HttpApi` value.
 *
 * `RemoteTools.layerServer` serves it. From the same value you can derive a
 * typed client (`HttpApiClient`), a documentation page (`HttpApiScalar`), or the
 * OpenAPI document (`OpenApi.fromApi`).
 *
 * | endpoint | body | answer |
 * |---|---|---|
 * | `POST /tools/execute` | one call | its result |
 * | `GET /tools` | | the contracts of all tools |
 * | `GET /openapi.json` | | this interface (no token needed) |
 *
 * Refusals are in `RemoteToolsError`.
 *
 * **Example** (Listing the tools of a server with a derived client)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { HttpClient, HttpClientRequest } from "effect/http"
 * import { HttpApiClient } from "effect/http-api"
 * import { RemoteToolsApi } from "effect-emissary"
 *
 * export const listTools = Effect.gen(function* () {
 *   const client = yield* HttpApiClient.make(RemoteToolsApi.Api, {
 *     baseUrl: "http://127.0.0.1:3000",
 *     transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken("s3cret"))
 *   })
 *   const { tools } = yield* client.listTools()
 *   return tools.map((tool) => tool.name)
 * })
 * ```
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import * as V1 from "./internal/remote/protocol-v1.ts"
import * as RemoteToolsError from "./RemoteToolsError.ts"

/**
 * Who calls: the name of the token that the request carried.
 *
 * **Details**
 *
 * A server with one token calls it `default`. A server with several gives each a
 * name.
 *
 * @category models
 * @since 0.1.0
 */
export interface Principal {
  readonly name: string
}

/**
 * The caller of the request being handled.
 *
 * @category services
 * @since 0.1.0
 */
export class CurrentPrincipal extends Context.Service<CurrentPrincipal, Principal>()(
  "effect-emissary/tool/CurrentPrincipal"
) {}

/**
 * Checks the bearer token, before anything else of the request is looked at.
 *
 * @category middleware
 * @since 0.1.0
 */
export class Authorization extends HttpApiMiddleware.Service<Authorization, { provides: CurrentPrincipal }>()(
  "effect-emissary/tool/Authorization",
  {
    security: { bearer: HttpApiSecurity.bearer },
    error: RemoteToolsError.Unauthorized
  }
) {}

/**
 * `POST /tools/execute`: runs one tool call.
 *
 * **Details**
 *
 * Status 200 means that the call has a result, which may be a failure of the
 * tool, an unknown tool, or arguments that do not fit. Every other status is a
 * refusal: the tool did not run (except 500, where nobody knows).
 *
 * @category endpoints
 * @since 0.1.0
 */
export const execute = HttpApiEndpoint.post("executeTool", "/tools/execute", {
  payload: V1.Request,
  success: V1.Response,
  error: [
    RemoteToolsError.InvalidRequest,
    RemoteToolsError.UnsupportedProtocol,
    RemoteToolsError.Denied,
    RemoteToolsError.ContractMismatch,
    RemoteToolsError.RequestTooLarge,
    RemoteToolsError.UnsupportedMediaType,
    RemoteToolsError.InternalError
  ]
}).annotateMerge(
  OpenApi.annotations({
    summary: "Run one tool call",
    description:
      "Status 200 means that the call has a result, which may be a failure of the tool, an unknown tool, or arguments that do not fit. Every other status is a refusal."
  })
)

/**
 * `GET /tools`: the contracts of all tools.
 *
 * @category endpoints
 * @since 0.1.0
 */
export const list = HttpApiEndpoint.get("listTools", "/tools", {
  success: V1.Tools,
  error: RemoteToolsError.InternalError
}).annotateMerge(OpenApi.annotations({ summary: "List the tools of this server" }))

/**
 * The endpoints, behind {@link Authorization}.
 *
 * @category groups
 * @since 0.1.0
 */
export class Tools extends HttpApiGroup.make("tools", { topLevel: true })
  .add(execute, list)
  .middleware(Authorization)
  .annotateMerge(OpenApi.annotations({ title: "Tools" })) {}

/**
 * The interface of a tool server.
 *
 * @category apis
 * @since 0.1.0
 */
export class Api extends HttpApi.make("effect-emissary/tools")
  .add(Tools)
  .annotateMerge(OpenApi.annotations({ title: "Emissary tool server", version: "1" })) {}
