import { Effect, Result, type Schema } from "effect"
import type { Tool, Toolkit } from "effect/ai"
import { BoundCall, BoundTool, ToolBatch, type ToolResult, ToolSet } from "effect-emissary"

/** The tools of a toolkit, bound to handlers. */
export const bind = <Tools extends Record<string, Tool.Any>, Handlers extends Toolkit.HandlersFrom<Tools>>(
  toolkit: Toolkit.Toolkit<Tools>,
  handlers: Handlers
) =>
  BoundTool.fromToolkit(toolkit).pipe(
    Effect.flatMap(ToolSet.make),
    Effect.provide(toolkit.toLayer(handlers)),
    Effect.orDie
  )

export const prepare = (
  set: ToolSet.ToolSet,
  name: string,
  args: Schema.Json,
  options?: Partial<BoundCall.PrepareOptions> & { readonly id?: string }
) => BoundCall.prepare(set, { id: options?.id ?? "call_1", name, arguments: args }, { runId: "run_1", ...options })

/** One call through the tool runtime in use. */
export const call = (
  set: ToolSet.ToolSet,
  name: string,
  args: Schema.Json,
  options?: Partial<BoundCall.PrepareOptions>
): Effect.Effect<ToolResult.ToolResult> =>
  Effect.flatMap(prepare(set, name, args, options), (prepared) =>
    Result.isFailure(prepared)
      ? Effect.succeed<ToolResult.ToolResult>(prepared.failure)
      : Effect.map(ToolBatch.collect([prepared.success]), ([result]) => result!)
  )

export const calls = (set: ToolSet.ToolSet, list: ReadonlyArray<readonly [name: string, args: Schema.Json]>) =>
  Effect.forEach(list, ([name, args], index) =>
    Effect.flatMap(prepare(set, name, args, { id: String(index) }), Effect.fromResult)
  )
