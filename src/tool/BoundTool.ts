/**
 * A tool contract together with what can execute it here: a handler, or nothing.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as CheckedSchema from "../payload/CheckedSchema.ts"
import type { JsonObject } from "../payload/Json.ts"
import type { JsonSchemaError } from "../payload/JsonSchemaError.ts"
import * as approval from "./internal/approval.ts"
import * as body from "./internal/body.ts"
import * as boundServices from "./internal/boundServices.ts"
import * as internal from "./internal/contract.ts"
import * as ToolContract from "./ToolContract.ts"
import type * as ToolResult from "./ToolResult.ts"

/**
 * What a body is told about the call.
 *
 * @category models
 * @since 0.1.0
 */
export interface CallContext {
  readonly runId: string
  readonly callId: string
  readonly context: JsonObject
  /**
   * When the run stops waiting, in milliseconds since the epoch.
   */
  readonly deadline?: number | undefined
  /**
   * Takes the preliminary results of a long call. They are shown, never stored.
   */
  readonly progress: (result: ToolResult.Success) => Effect.Effect<void>
}

/**
 * What the question "does this call need an approval?" may depend on.
 *
 * @category models
 * @since 0.1.0
 */
export interface ApprovalContext {
  readonly callId: string
  readonly context: JsonObject
  readonly messages: ReadonlyArray<Prompt.Message>
}

/**
 * Executes one call whose arguments fit the contract's parameters.
 *
 * **Details**
 *
 * It neither limits time nor catches defects; a `BoundCall` does both.
 *
 * @category models
 * @since 0.1.0
 */
export type Body = (args: JsonObject, call: CallContext) => Effect.Effect<ToolResult.ToolResult>

/**
 * Where the code of a tool is: `"local"` here, `"shell"` elsewhere, behind a
 * tool runtime, `"provider"` at the model provider, which runs it by itself.
 *
 * @category models
 * @since 0.1.0
 */
export type Kind = "local" | "shell" | "provider"

/**
 * A tool that a run can use.
 *
 * @category models
 * @since 0.1.0
 */
export interface BoundTool {
  readonly contract: ToolContract.ToolContract
  readonly kind: Kind
  /**
   * The `effect/ai` tool, annotations included.
   */
  readonly tool: Tool.Any
  readonly parameters: CheckedSchema.CheckedSchema
  /**
   * Judges results that come from elsewhere; present when the contract carries
   * a result schema.
   */
  readonly result: CheckedSchema.CheckedSchema | undefined
  /**
   * Whether the call has to be approved. Arguments that do not decode are a
   * `validation_error`, never "no approval needed".
   */
  readonly needsApproval: (args: JsonObject, context: ApprovalContext) => Effect.Effect<boolean, ToolResult.Failure>
  readonly body: Option.Option<Body>
}

/**
 * Binds a tool to its handler.
 *
 * **Details**
 *
 * The handler is the entry that a toolkit's layer leaves in the context under
 * `tool.id`. Arguments are decoded, results and failures encoded, with the JSON
 * form of the tool's schemas. What the handler's layer captured is laid under
 * the context of the call, so that services, spans, clock and `RunContext` of the
 * call win.
 *
 * **Gotchas**
 *
 * Services that the tool names as `dependencies` have to be in `handler.context` or
 * in the context of the call. {@link fromToolkit} takes care of that.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromTool = Effect.fnUntraced(function* (
  tool: Tool.Any,
  handler: Tool.Handler<string>
): Effect.fn.Return<BoundTool, ToolContract.ToolContractError> {
  const contract = yield* ToolContract.fromTool(tool)
  return yield* local(contract, tool, handler)
})

/**
 * Binds a contract that came from elsewhere to a tool and its handler here.
 *
 * **Details**
 *
 * What the model is told, the timeout and the checks come from the contract,
 * the code from the tool. Of the two approvals the stricter one counts.
 *
 * @category constructors
 * @since 0.1.0
 */
export const local = Effect.fnUntraced(function* (
  contract: ToolContract.ToolContract,
  tool: Tool.Any,
  handler: Tool.Handler<string>
): Effect.fn.Return<BoundTool, ToolContract.ToolContractError> {
  const parameters = yield* check(contract, "parameters", contract.parameters)
  return {
    contract,
    kind: "local",
    tool,
    parameters,
    result: undefined,
    needsApproval: approval.make(contract, tool, handler.context),
    body: Option.some(body.make(tool, handler))
  }
})

/**
 * Binds the tools of a toolkit to the handlers in the context.
 *
 * **Details**
 *
 * Provider-defined tools without a handler become `"provider"` tools. Services that
 * tools name as `dependencies` are taken from the context here, and lie under the
 * context of each call.
 *
 * **Example** (Binding a toolkit)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { BoundTool } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(Tool.make("now", { success: Schema.Number }))
 *
 * const program = BoundTool.fromToolkit(toolkit).pipe(
 *   Effect.provide(toolkit.toLayer({ now: () => Effect.succeed(0) }))
 * )
 *
 * const [now] = await Effect.runPromise(program)
 * assert.deepStrictEqual([now?.contract.name, now?.kind], ["now", "local"])
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromToolkit = <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
): Effect.Effect<
  ReadonlyArray<BoundTool>,
  ToolContract.ToolContractError,
  Tool.HandlersFor<Tools> | Tool.HandlerServices<Tools[keyof Tools]>
> =>
  Effect.forEach(Object.values(toolkit.tools), (tool) =>
    Effect.flatMap(boundServices.capture(handlerOf(tool)), (handler) =>
      Option.isSome(handler) ? fromTool(tool, handler.value) : provider(tool)
    )
  )

/**
 * The handler that a toolkit's layer left in the context for a tool; none for a
 * provider-defined tool that needs none.
 *
 * @category getters
 * @since 0.1.0
 */
export const handlerOf = (
  tool: Tool.Any
): Effect.Effect<Option.Option<Tool.Handler<string>>, ToolContract.ToolContractError> =>
  Effect.flatMap(Effect.context<never>(), (context) => {
    if (Tool.isProviderDefined(tool) && !tool.requiresHandler) return Effect.succeedNone
    const entry = context.mapUnsafe.get(tool.id)
    return isHandler(entry)
      ? Effect.succeedSome(entry)
      : Effect.fail(
          new ToolContract.ToolContractError({
            tool: tool.name,
            part: "handler",
            path: "",
            problem: "no handler found. Provide it where the tool is bound: Layer.provide(toolkit.toLayer({ ... }))"
          })
        )
  })

const isHandler = (u: unknown): u is Tool.Handler<string> =>
  Predicate.hasProperty(u, "handler") && typeof u.handler === "function" && Predicate.hasProperty(u, "context")

/**
 * A tool that the model provider executes by itself. It is offered to the model
 * and never dispatched.
 *
 * @category constructors
 * @since 0.1.0
 */
export const provider = Effect.fnUntraced(function* (
  tool: Tool.Any
): Effect.fn.Return<BoundTool, ToolContract.ToolContractError> {
  const contract = yield* ToolContract.fromTool(tool)
  const parameters = yield* check(contract, "parameters", contract.parameters)
  return {
    contract,
    kind: "provider",
    tool,
    parameters,
    result: undefined,
    needsApproval: () => Effect.succeed(false),
    body: Option.none()
  }
})

/**
 * A tool without a body: it validates its arguments and its results, and needs a
 * tool runtime that executes it elsewhere.
 *
 * **Example** (A tool whose code is elsewhere)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { BoundTool, ToolContract, ToolRuntime } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function* () {
 *   const contract = yield* ToolContract.make({ name: "weather", parameters: { type: "object" } })
 *   const tool = yield* BoundTool.shell(contract)
 *   return ToolRuntime.supports(yield* ToolRuntime.ToolRuntime, tool)
 * })
 *
 * assert.strictEqual(await Effect.runPromise(program), false)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const shell = Effect.fnUntraced(function* (
  contract: ToolContract.ToolContract
): Effect.fn.Return<BoundTool, ToolContract.ToolContractError> {
  const parameters = yield* check(contract, "parameters", contract.parameters)
  const result = contract.success === undefined ? undefined : yield* check(contract, "success", contract.success)
  const tool = Object.assign(
    Tool.dynamic(contract.name, {
      description: contract.description,
      parameters: contract.parameters,
      success: Schema.Json,
      failure: Schema.Json,
      failureMode: "return"
    }).annotateMerge(internal.annotate(contract.annotations)),
    { parametersSchema: CheckedSchema.toSchema(parameters) }
  )
  return {
    contract,
    kind: "shell",
    tool,
    parameters,
    result,
    needsApproval: () => Effect.succeed(contract.approval !== "never"),
    body: Option.none()
  }
})

const check = (
  contract: ToolContract.ToolContract,
  part: "parameters" | "success",
  json: JsonObject
): Effect.Effect<CheckedSchema.CheckedSchema, ToolContract.ToolContractError> => {
  const known = checked.get(json)
  if (known !== undefined) return Effect.succeed(known)
  return CheckedSchema.make(json, { what: `${part} of tool ${JSON.stringify(contract.name)}` }).pipe(
    Effect.tap((schema) => Effect.sync(() => checked.set(json, schema))),
    Effect.mapError(
      (error: JsonSchemaError) =>
        new ToolContract.ToolContractError({ tool: contract.name, part, path: error.path, problem: error.message })
    )
  )
}

// a JSON Schema is guarded and prepared once, however often its tool is bound
const checked = new WeakMap<JsonObject, CheckedSchema.CheckedSchema>()
