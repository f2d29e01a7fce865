/** The tools of a toolkit as a server runs them. */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as BoundTool from "../../BoundTool.ts"
import type { ToolContractError } from "../../ToolContract.ts"
import * as ToolResult from "../../ToolResult.ts"
import { withoutPlace } from "../boundServices.ts"

const generic = ToolResult.failure(
  "unhandled_error",
  "The tool failed unexpectedly. The details are in the log of the tool server."
)

/** Logs a defect here and tells the caller nothing about it. */
const hideDefects =
  (body: BoundTool.Body, name: string): BoundTool.Body =>
  (args, call) =>
    Effect.catchCauseIf(body(args, call), Cause.hasDies, (cause) =>
      Effect.logError(`Tool ${JSON.stringify(name)} failed unexpectedly`, cause).pipe(
        Effect.annotateLogs({ runId: call.runId, callId: call.callId }),
        Effect.as(generic)
      )
    )

/**
 * Lets the services that the handlers were given win over those of the HTTP
 * server: a handler with a confined `FileSystem` must not get the server's own.
 * The span and the scope are those of the request.
 */
const preferOwnServices = (body: BoundTool.Body, handler: Tool.Handler<string>): BoundTool.Body => {
  const own = withoutPlace(handler.context)
  return (args, call) =>
    Effect.updateContext(body(args, call), (request: Context.Context<never>) => Context.merge(request, own))
}

/** Binds the tools that have a handler: those that a model provider runs have none. */
export const bind = Effect.fnUntraced(function* <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
): Effect.fn.Return<ReadonlyArray<BoundTool.BoundTool>, ToolContractError, Tool.HandlersFor<Tools>> {
  const bound: Array<BoundTool.BoundTool> = []
  for (const tool of Object.values(toolkit.tools)) {
    const handler = yield* BoundTool.handlerOf(tool)
    if (Option.isNone(handler)) continue
    const local = yield* BoundTool.fromTool(tool, handler.value)
    bound.push({
      ...local,
      body: Option.map(local.body, (body) => hideDefects(preferOwnServices(body, handler.value), tool.name))
    })
  }
  return bound
})
