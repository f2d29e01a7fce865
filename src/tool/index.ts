/**
 * Tools, their results, and the runtimes that execute tool calls.
 *
 * @since 0.1.0
 */
export * as ClientTool from "./ClientTool.ts"
export * as Question from "./Question.ts"
export * as RemoteTools from "./RemoteTools.ts"
export * as RunContext from "./RunContext.ts"
export * as ToolContract from "./ToolContract.ts"
export { ToolFailure } from "./ToolFailure.ts"
export * as ToolResolver from "./ToolResolver.ts"
export * as ToolResult from "./ToolResult.ts"
export * as ToolRuntime from "./ToolRuntime.ts"
export * as ToolSettings from "./ToolSettings.ts"
export * as When from "./When.ts"
