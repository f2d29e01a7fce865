/**
 * One tool call, ready to be executed: its arguments are checked, its handler and
 * services are at hand.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { CheckedSchema } from "../payload/CheckedSchema.ts"
import type { JsonObject } from "../payload/Json.ts"
import * as Names from "../payload/Names.ts"
import type { BoundTool } from "./BoundTool.ts"
import * as args from "./internal/arguments.ts"
import * as internal from "./internal/execute.ts"
import type { ToolContract } from "./ToolContract.ts"
import * as ToolResult from "./ToolResult.ts"
import type { ToolSet } from "./ToolSet.ts"

/**
 * One checked call.
 *
 * **Details**
 *
 * `execute` is the local body with the timeout inside; it never fails, and a
 * defect of the handler is an `unhandled_error` result. It is absent for a shell,
 * and `runtimeOnly` is then true. `deadline`, in milliseconds since the epoch, is
 * when the call has to be over: a moment after the run itself stops waiting.
 *
 * @category models
 * @since 0.1.0
 */
export interface BoundCall {
  readonly runId: string
  readonly id: string
  readonly contract: ToolContract
  readonly arguments: JsonObject
  readonly context: JsonObject
  readonly timeout: Duration.Duration
  readonly deadline: number | undefined
  readonly result: CheckedSchema | undefined
  readonly execute: Option.Option<Effect.Effect<ToolResult.ToolResult>>
  readonly runtimeOnly: boolean
}

/**
 * A call as the model made it: `name` is the canonical name of the tool,
 * `arguments` JSON or JSON text.
 *
 * @category models
 * @since 0.1.0
 */
export interface Request {
  readonly id: string
  readonly name: string
  readonly arguments: Schema.Json
}

/**
 * What the run adds to the call.
 *
 * **Details**
 *
 * `timeout` overrides the timeout of the tool. `deadline`, in milliseconds since
 * the epoch, shortens it.
 *
 * @category models
 * @since 0.1.0
 */
export interface PrepareOptions {
  readonly runId: string
  readonly context?: JsonObject | undefined
  readonly timeout?: Duration.Input | undefined
  readonly deadline?: number | undefined
  readonly progress?: ((result: ToolResult.Success) => Effect.Effect<void>) | undefined
}

/**
 * Finds the tool and checks the arguments, before anything runs.
 *
 * **Details**
 *
 * The failures are results for the model: `unknown_tool` lists the known names,
 * `validation_error` all problems with their paths. Empty text counts as `{}`.
 *
 * **Example** (Arguments that do not fit)
 *
 * ```ts
 * import { Effect, Result, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { BoundCall, BoundTool, ToolSet } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(Tool.make("weather", { parameters: Schema.Struct({ city: Schema.String }) }))
 *
 * const program = Effect.gen(function* () {
 *   const tools = yield* ToolSet.make(yield* BoundTool.fromToolkit(toolkit))
 *   return yield* BoundCall.prepare(tools, { id: "1", name: "weather", arguments: `{"city":1}` }, { runId: "run" })
 * }).pipe(Effect.provide(toolkit.toLayer({ weather: () => Effect.void })))
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(Result.isFailure(result))
 * assert.strictEqual(result.failure.type, "validation_error")
 * assert.match(result.failure.message, /city/)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const prepare = (
  set: ToolSet,
  request: Request,
  options: PrepareOptions
): Effect.Effect<Result.Result<BoundCall, ToolResult.Failure>> => {
  const tool = set.tools.get(request.name)
  if (tool === undefined) return Effect.succeed(Result.fail(unknownTool(request.name, Array.from(set.tools.keys()))))
  if (tool.kind === "provider") return Effect.succeed(Result.fail(providerTool(request.name)))
  return Effect.map(
    Effect.result(args.check(tool, request.arguments)),
    Result.map((checked) => bind(tool, request.id, checked, options))
  )
}

const bind = (tool: BoundTool, id: string, checked: JsonObject, options: PrepareOptions): BoundCall => {
  const { deadline, runId } = options
  const context = options.context ?? {}
  const timeout = options.timeout === undefined ? tool.contract.timeout : Duration.fromInputUnsafe(options.timeout)
  const call = { runId, callId: id, context, deadline, progress: options.progress ?? ignore }
  return {
    runId,
    id,
    contract: tool.contract,
    arguments: checked,
    context,
    timeout,
    deadline,
    result: tool.result,
    execute: Option.map(tool.body, (body) =>
      internal.execute({ name: tool.contract.name, timeout, deadline }, () => body(checked, call))
    ),
    runtimeOnly: Option.isNone(tool.body)
  }
}

const ignore = () => Effect.void

const unknownTool = (name: string, known: ReadonlyArray<string>) =>
  ToolResult.failure(
    "unknown_tool",
    known.length === 0
      ? `Unknown tool ${Names.quote(name)}. There are no tools.`
      : `Unknown tool ${Names.quote(name)}. Known tools: ${known.join(", ")}.`
  )

const providerTool = (name: string) =>
  ToolResult.failure(
    "unknown_tool",
    `Tool ${JSON.stringify(name)} is executed by the model provider and cannot be called here.`
  )
