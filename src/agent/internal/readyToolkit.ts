/**
 * Toolkits that have their handlers: `Toolkit.WithHandler`, as an `effect/ai` Toolkit and `McpClient.toolkit` return it.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as Tool from "effect/ai/Tool"
import * as boundTool from "../../tool/internal/boundTool.ts"
import * as callContext from "../../tool/internal/callContext.ts"

/** A toolkit with its handlers, of any tools. */
export interface ReadyToolkit {
  readonly tools: Record<string, Tool.Any>
  readonly handle: (
    name: never,
    params: never,
    toolCallId?: string
  ) => Effect.Effect<Stream.Stream<HandlerResult, unknown, unknown>, unknown, unknown>
}

interface HandlerResult {
  readonly result: unknown
  readonly isFailure: boolean
  readonly preliminary: boolean
}

export const isReadyToolkit = (u: unknown): u is ReadyToolkit =>
  Predicate.hasProperty(u, "handle") && typeof u.handle === "function" && Predicate.hasProperty(u, "tools")

const known = new WeakMap<ReadyToolkit, ReadonlyArray<Tool.Any>>()

/** The tools of the toolkit, each with its handler. They are the same objects each time. */
export const toolsOf = (toolkit: ReadyToolkit): ReadonlyArray<Tool.Any> => {
  const found = known.get(toolkit)
  if (found !== undefined) return found
  const tools = Object.values(toolkit.tools).map((tool) =>
    Tool.isProviderDefined(tool) && !tool.requiresHandler
      ? tool
      : boundTool.withOwnHandler(tool, handlerOf(toolkit, tool))
  )
  known.set(toolkit, tools)
  return tools
}

const isHandler = (u: unknown): u is Tool.Handler<string> =>
  Predicate.hasProperty(u, "handler") && Predicate.hasProperty(u, "context") && Context.isContext(u.context)

/**
 * Runs an Effect that may return a toolkit with the handlers in the context. The handlers keep the services of the
 * layer that made them; the toolkit's own `handle` would replace these by the services of its caller.
 */
export const withOwnServices = <A, E, R>(find: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.updateContext(find, (context: Context.Context<R>) => {
    const map = new Map<string, unknown>(context.mapUnsafe)
    for (const [key, entry] of map) {
      if (!isHandler(entry)) continue
      const { context, handler } = entry
      const over = callContext.over(context)
      map.set(key, {
        ...entry,
        handler: (params: never, call: never) => Effect.updateContext(handler(params, call), over)
      })
    }
    return Context.makeUnsafe<R>(map)
  })

const handlerOf = (toolkit: ReadyToolkit, tool: Tool.Any): boundTool.HandlerFunction => {
  // Sound: the run requires the services of the tool's schemas and the services that `handle` requires
  const encode = Schema.encodeUnknownEffect(tool.parametersSchema) as (
    params: unknown
  ) => Effect.Effect<unknown, unknown>
  // Sound: the name is a key of its tools, and the params are what its own Schema encodes
  const handle = toolkit.handle as (
    name: string,
    params: unknown,
    toolCallId?: string
  ) => Effect.Effect<Stream.Stream<HandlerResult, unknown>, unknown>
  const run = Effect.fnUntraced(function* (
    params: unknown,
    { preliminary, toolCallId }: Parameters<boundTool.HandlerFunction>[1]
  ) {
    let last: HandlerResult | undefined
    const results = yield* handle(tool.name, yield* encode(params), toolCallId)
    yield* Stream.runForEach(results, (result) =>
      result.preliminary ? preliminary(result.result) : Effect.sync(() => void (last = result))
    )
    if (last === undefined) return yield* Effect.die(new Error(`tool ${JSON.stringify(tool.name)} returned no result`))
    return yield* last.isFailure ? Effect.fail(last.result) : Effect.succeed(last.result)
  })
  return (params, context) => withoutAttributes(run(params, context))
}

/** `Toolkit.handle` puts arguments on the current span, so it gets none that it can write to. */
const withoutAttributes = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.serviceOption(Tracer.ParentSpan), (parent) =>
    Option.isNone(parent) ? effect : Effect.provideService(effect, Tracer.ParentSpan, Tracer.externalSpan(parent.value))
  )
