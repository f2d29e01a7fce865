import { type Cause, Context, Effect, Layer, References, Result, type Schema } from "effect"
import { Tool, type Toolkit } from "effect/ai"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import * as toolCall from "#src/tool/internal/toolCall.ts"
import type { ToolResult } from "effect-emissary"

/** A tool that the provider runs. */
export const search = Tool.providerDefined({ id: "acme.search", customName: "search", providerName: "web_search" })(
  undefined
)

/** The tools of a toolkit, bound to handlers. */
export const bind = <Tools extends Record<string, Tool.Any>, Handlers extends Toolkit.HandlersFrom<Tools>>(
  toolkit: Toolkit.Toolkit<Tools>,
  handlers: Handlers
) =>
  boundTool
    .fromToolkit(toolkit)
    .pipe(Effect.flatMap(boundTool.makeSet), Effect.provide(toolkit.toLayer(handlers)), Effect.orDie)

/** A handler that returns nothing. Core has the member `_` in its type only. */
export const idle = {
  name: "t",
  context: Context.empty(),
  handler: () => Effect.void
} as unknown as Tool.Handler<string>

export const prepare = (
  set: boundTool.ToolSet,
  name: string,
  args: Schema.Json,
  options?: Partial<boundTool.PrepareOptions> & { readonly id?: string }
) => boundTool.prepare(set, { id: options?.id ?? "call_1", name, arguments: args }, { runId: "run_1", ...options })

/** One call through the tool runtime in use. */
export const call = (
  set: boundTool.ToolSet,
  name: string,
  args: Schema.Json,
  options?: Partial<boundTool.PrepareOptions>
): Effect.Effect<ToolResult.ToolResult> =>
  Effect.flatMap(prepare(set, name, args, options), (prepared) =>
    Result.isFailure(prepared)
      ? Effect.succeed<ToolResult.ToolResult>(prepared.failure)
      : Effect.map(toolCall.run([prepared.success]), ([result]) => result!)
  )

/** Calls by name and arguments, or by name alone for a tool without parameters. */
export const calls = (set: boundTool.ToolSet, ...list: ReadonlyArray<string | readonly [string, Schema.Json]>) =>
  Effect.forEach(list, (call, index) => {
    const [name, args] = typeof call === "string" ? [call, {}] : call
    return Effect.flatMap(prepare(set, name, args, { id: String(index) }), Effect.fromResult)
  })

/** Runs a batch and keeps the causes that `onFinished` receives. */
export const runWithCauses = Effect.fnUntraced(function* (
  batch: Parameters<typeof toolCall.run>[0],
  options?: { readonly defects?: "die" }
) {
  const causes: Array<Cause.Cause<unknown> | undefined> = []
  const results = yield* toolCall.run(batch, {
    ...options,
    onFinished: (_id, _result, _duration, cause) => Effect.sync(() => causes.push(cause))
  })
  return { causes, results }
})

/** The type of a failure, or `success`. */
export const kind = (result: ToolResult.ToolResult | undefined) =>
  result?._tag === "Failure" ? result.type : result && "success"

export const kinds = (results: ReadonlyArray<ToolResult.ToolResult>) => results.map(kind)

/** For tests of failures that are logged. */
export const quiet = Layer.succeed(References.MinimumLogLevel, "None")
