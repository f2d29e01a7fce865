/**
 * Agents and plans as activities of `effect/workflow`.
 *
 * @since 0.1.0
 */
export * as Activities from "./Activities.ts"
