/** Handlers of a toolkit that run somewhere else. */
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { JsonObject } from "../../../payload/Json.ts"
import { RunContext } from "../../RunContext.ts"
import * as ToolContract from "../../ToolContract.ts"
import * as ToolResult from "../../ToolResult.ts"
import { CallInfo } from "../callInfo.ts"
import { carry } from "../carriedResult.ts"
import type * as Client from "./client.ts"

type Handler = (
  params: unknown,
  context: { readonly toolCallId?: string | undefined }
) => Effect.Effect<unknown, unknown, unknown>

/** Failures that no handler made, so that no failure schema describes them. */
const ownFailures: ReadonlySet<string> = new Set<ToolResult.ReservedType>([
  "unknown_tool",
  "validation_error",
  "timeout_error",
  "unhandled_error",
  "denied",
  "interrupted",
  "remote_unavailable"
])

const unsendable = (name: string) =>
  ToolResult.failure("execution_error", `The arguments of tool ${JSON.stringify(name)} cannot be written as JSON`)

const misfit = (name: string) =>
  ToolResult.failure(
    "execution_error",
    `The tool server returned a result that tool ${JSON.stringify(name)} does not have`
  )

const handler = (tool: Tool.Any, contract: ToolContract.ToolContract, client: Client.Client): Handler => {
  const encodeParams = Schema.isSchema(tool.parametersSchema)
    ? Schema.encodeUnknownEffect(Schema.toCodecJson(tool.parametersSchema))
    : Effect.succeed
  const decodeSuccess = Schema.decodeUnknownEffect(Schema.toCodecJson(tool.successSchema))
  const decodeFailure = Schema.decodeUnknownEffect(Schema.toCodecJson(tool.failureSchema))
  const fail = (result: ToolResult.Failure) => Effect.fail(carry(tool.name, result))
  return Effect.fnUntraced(function* (params, { toolCallId }) {
    const info = yield* CallInfo
    const context = yield* RunContext
    const args = yield* Effect.catch(encodeParams(params), () => fail(unsendable(tool.name)))
    const result = yield* client.execute({
      runId: info?.runId ?? "",
      callId: info?.callId ?? toolCallId ?? "",
      name: tool.name,
      // encoding with the JSON codec gave JSON; the client checks it once more before sending
      arguments: args as JsonObject,
      contractDigest: contract.digest,
      context,
      timeout: contract.timeout,
      ownerTimeout: contract.timeout,
      deadline: info?.deadline,
      idempotent: contract.annotations.idempotent === true
    })
    if (result._tag === "Success") {
      return yield* Effect.catch(decodeSuccess(result.value), () => fail(misfit(tool.name)))
    }
    if (result.value === undefined || ownFailures.has(result.type)) return yield* fail(result)
    const failure = yield* Effect.catch(decodeFailure(result.value), () => fail(result))
    return yield* Effect.fail(failure)
  })
}

/** Handlers for every tool of the toolkit that needs one. */
export const make = Effect.fnUntraced(function* <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>,
  client: Client.Client
) {
  const handlers: Record<string, Handler> = Object.create(null)
  for (const [name, tool] of Object.entries(toolkit.tools)) {
    if (Tool.isProviderDefined(tool) && !tool.requiresHandler) continue
    handlers[name] = handler(tool, yield* ToolContract.fromTool(tool), client)
  }
  // one handler per tool; its parameters, success and failure go through the schemas that the types are taken from
  return handlers as Toolkit.HandlersFrom<Tools>
})
