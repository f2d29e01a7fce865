/**
 * The part of the library that needs Node: SQLite in one file, and a cluster of one process on it.
 *
 * @since 0.1.0
 */
export * as SqliteClient from "./SqliteClient.ts"
export * as SqliteRunner from "./SqliteRunner.ts"
