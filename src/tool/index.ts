/**
 * Tools, their results, and the runtimes that execute tool calls.
 *
 * @since 0.1.0
 */
export * as Content from "./Content.ts"
export * as ToolResult from "./ToolResult.ts"
