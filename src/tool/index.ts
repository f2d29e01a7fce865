/**
 * Tools, their results, and the runtimes that execute tool calls.
 *
 * @since 0.1.0
 */
export * as BoundCall from "./BoundCall.ts"
export * as BoundTool from "./BoundTool.ts"
export * as Content from "./Content.ts"
export * as RemoteTools from "./RemoteTools.ts"
export * as RemoteToolsApi from "./RemoteToolsApi.ts"
export * as RemoteToolsError from "./RemoteToolsError.ts"
export * as RunContext from "./RunContext.ts"
export * as ToolBatch from "./ToolBatch.ts"
export * as ToolContract from "./ToolContract.ts"
export { ToolFailure } from "./ToolFailure.ts"
export * as ToolResolver from "./ToolResolver.ts"
export * as ToolResult from "./ToolResult.ts"
export * as ToolRuntime from "./ToolRuntime.ts"
export * as ToolSet from "./ToolSet.ts"
export * as ToolSettings from "./ToolSettings.ts"
