/**
 * MCP: the tools of servers for agents.
 *
 * @since 0.1.0
 */
export * as McpTools from "./McpTools.ts"
