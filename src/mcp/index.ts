/**
 * MCP: the tools of servers for agents, and agents and toolkits as servers.
 *
 * @since 0.1.0
 */
export * as McpTools from "./McpTools.ts"
export * as McpToolServer from "./McpToolServer.ts"
