/**
 * Stores of values with versions, in memory or in SQL.
 *
 * @since 0.1.0
 */
export * as VersionedStore from "./VersionedStore.ts"
