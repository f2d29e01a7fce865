/**
 * Sessions: conversations and plans that survive their process, on one machine or on a fleet.
 *
 * @since 0.1.0
 */
export * as ChatEvent from "./ChatEvent.ts"
export * as ClusterSession from "./ClusterSession.ts"
export * as Session from "./Session.ts"
export * as SessionApi from "./SessionApi.ts"
export * as SharedBudgets from "./SharedBudgets.ts"
