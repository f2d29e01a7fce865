/**
 * The part of the library that needs Node: SQLite in one file.
 *
 * @since 0.1.0
 */
export * as SqliteClient from "./SqliteClient.ts"
