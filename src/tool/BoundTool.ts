/**
 * A tool contract together with what can execute it here: a handler, or nothing.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { CheckedSchema } from "../payload/CheckedSchema.ts"
import type { JsonObject } from "../payload/Json.ts"
import * as internal from "./internal/boundTool.ts"
import type { ToolContract, ToolContractError } from "./ToolContract.ts"
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
  readonly contract: ToolContract
  readonly kind: Kind
  /**
   * The `effect/ai` tool, annotations included.
   */
  readonly tool: Tool.Any
  readonly parameters: CheckedSchema
  /**
   * Judges results that come from elsewhere; present when the contract carries
   * a result schema.
   */
  readonly result: CheckedSchema | undefined
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
 * @category constructors
 * @since 0.1.0
 */
export const fromTool: (tool: Tool.Any, handler: Tool.Handler<string>) => Effect.Effect<BoundTool, ToolContractError> =
  internal.fromTool

/**
 * A tool that the model provider executes by itself. It is offered to the model
 * and never dispatched.
 *
 * @category constructors
 * @since 0.1.0
 */
export const provider: (tool: Tool.Any) => Effect.Effect<BoundTool, ToolContractError> = internal.provider

/**
 * A tool without a body: it validates its arguments and its results, and needs a
 * tool runtime that executes it elsewhere.
 *
 * @category constructors
 * @since 0.1.0
 */
export const shell: (contract: ToolContract) => Effect.Effect<BoundTool, ToolContractError> = internal.shell
