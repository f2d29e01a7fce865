/** The tools of a toolkit as a server runs them. */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import * as BoundTool from "../../BoundTool.ts"
import * as ToolResult from "../../ToolResult.ts"

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
  const own = Context.omit(
    Tracer.ParentSpan,
    Scope.Scope
  )(
    // the context of a handler may hold any service; omit only needs to know that these two may be among them
    handler.context as Context.Context<Tracer.ParentSpan | Scope.Scope>
  )
  return (args, call) =>
    Effect.updateContext(body(args, call), (request: Context.Context<never>) => Context.merge(request, own))
}

/** Binds every tool that has a handler in the context. */
export const bind = Effect.fnUntraced(function* <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
) {
  const context = yield* Effect.context<Tool.HandlersFor<Tools>>()
  const bound: Array<BoundTool.BoundTool> = []
  for (const tool of Object.values(toolkit.tools)) {
    // a toolkit's layer leaves exactly this under the id of the tool; a tool run by the model provider has nothing there
    const handler = context.mapUnsafe.get(tool.id) as Tool.Handler<string> | undefined
    if (handler === undefined) continue
    const tooled = yield* BoundTool.fromTool(tool, handler)
    bound.push({
      ...tooled,
      body: Option.map(tooled.body, (body) => hideDefects(preferOwnServices(body, handler), tool.name))
    })
  }
  return bound
})
