import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { invalid, PayloadError } from "../../../payload/PayloadError.ts"
import { type Reason, unavailable, Unreadable } from "../../VersionedStoreError.ts"
import * as keys from "./keys.ts"
import type { Attempt, Storage } from "./port.ts"
import * as versions from "./versions.ts"

/** As much of the encoded key as the index holds: PostgreSQL refuses index entries of more than 2,700 bytes. */
const startLength = 190

const toReason = (error: SqlError): Reason => unavailable("database", error.reason._tag, error)

interface Row {
  readonly store_value?: unknown
  readonly store_version?: unknown
  readonly key_text?: unknown
}

const text = (value: unknown, column: string): Effect.Effect<string, Unreadable> => {
  if (typeof value === "string") return Effect.succeed(value)
  const issue = { path: `/${column}`, expected: "text", found: typeof value }
  return Effect.fail(new Unreadable({ error: new PayloadError({ what: "database row", reason: invalid([issue]) }) }))
}

const createTable = (sql: SqlClient.SqlClient, name: string): ReadonlyArray<Effect.Effect<unknown, SqlError>> => {
  const table = sql(name)
  // Keys are ASCII. SQLite compares bytes anyway, PostgreSQL by the locale of the database.
  const bytewise = sql.literal(sql.onDialectOrElse({ orElse: () => "", pg: () => 'COLLATE "C"' }))
  return [
    sql`CREATE TABLE IF NOT EXISTS ${table} (
      key_hash TEXT ${bytewise} NOT NULL PRIMARY KEY, key_start TEXT ${bytewise} NOT NULL,
      key_text TEXT ${bytewise} NOT NULL, store_version TEXT ${bytewise} NOT NULL, store_value TEXT NOT NULL)`,
    sql`CREATE INDEX IF NOT EXISTS ${sql(`${name}_key_start`)} ON ${table} (key_start)`
  ]
}

export const make = Effect.fnUntraced(function* (options: { readonly table: string }) {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  const table = sql(options.table)
  const supported = sql.onDialectOrElse({ orElse: () => false, sqlite: () => true, pg: () => true })
  if (!supported) return yield* unavailable("database", "is neither SQLite nor PostgreSQL", undefined)

  // Of two processes that create the table at once, one may fail although it is there then
  yield* Effect.forEach(createTable(sql, options.table), (statement) => statement, { discard: true }).pipe(
    Effect.catch((error) =>
      Effect.mapError(sql`SELECT key_hash FROM ${table} WHERE key_hash = ''`, () => toReason(error))
    )
  )

  const next = versions.make(yield* versions.nonce)

  const versionOf = (id: string): Effect.Effect<Option.Option<string>, Reason> =>
    sql<Row>`SELECT store_version FROM ${table} WHERE key_hash = ${id}`.pipe(
      Effect.mapError(toReason),
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.succeedNone : Effect.asSome(text(row.store_version, "store_version"))
      )
    )

  const insert = (key: string, version: string, value: string) => {
    const encoded = keys.sortable(key)
    return sql<Row>`INSERT INTO ${table} (key_hash, key_start, key_text, store_version, store_value)
      VALUES (${keys.digest(key)}, ${encoded.slice(0, startLength)}, ${encoded}, ${version}, ${value})
      ON CONFLICT (key_hash) DO NOTHING RETURNING key_hash`
  }

  const update = (id: string, from: string, to: string, value: string) =>
    sql<Row>`UPDATE ${table} SET store_version = ${to}, store_value = ${value}
      WHERE key_hash = ${id} AND store_version = ${from} RETURNING key_hash`

  const removeVersion = (id: string, version: string) =>
    sql<Row>`DELETE FROM ${table} WHERE key_hash = ${id} AND store_version = ${version} RETURNING key_hash`

  /** The result if the statement wrote a row, otherwise the version that is there. */
  const answer = <A>(id: string, result: A, write: Effect.Effect<ReadonlyArray<Row>, SqlError>): Attempt<A> =>
    Effect.gen(function* () {
      const written = yield* Effect.mapError(write, toReason)
      return written.length > 0 ? Result.succeed(result) : Result.fail(yield* versionOf(id))
    })

  const remove = (key: string, expected: Option.Option<string>): Attempt<boolean> => {
    const id = keys.digest(key)
    if (Option.isSome(expected)) return answer(id, true, removeVersion(id, expected.value))
    return sql<Row>`DELETE FROM ${table} WHERE key_hash = ${id} RETURNING key_hash`.pipe(
      Effect.map((rows) => Result.succeed(rows.length > 0)),
      Effect.mapError(toReason)
    )
  }

  const storage: Storage = {
    get: (key) =>
      sql<Row>`SELECT store_version, store_value FROM ${table} WHERE key_hash = ${keys.digest(key)}`.pipe(
        Effect.mapError(toReason),
        Effect.flatMap(([row]) =>
          row === undefined
            ? Effect.succeedNone
            : Effect.asSome(
                Effect.all({
                  text: text(row.store_value, "store_value"),
                  version: text(row.store_version, "store_version")
                })
              )
        )
      ),
    set: (key, expected, value) =>
      Effect.suspend(() => {
        const version = next(expected)
        const id = keys.digest(key)
        const write = Option.match(expected, {
          onNone: () => insert(key, version, value),
          onSome: (from) => update(id, from, version, value)
        })
        return answer(id, version, write)
      }),
    remove,
    list: ({ after, limit, prefix }) => {
      const from = keys.sortable(prefix)
      const conditions = [
        sql`key_start >= ${from.slice(0, startLength)}`,
        sql`key_start <= ${`${from.slice(0, startLength)}${keys.last}`}`,
        sql`key_text >= ${from}`,
        sql`key_text < ${`${from}${keys.last}`}`
      ]
      if (Option.isSome(after)) {
        const position = keys.sortable(after.value)
        conditions.push(sql`key_start >= ${position.slice(0, startLength)}`, sql`key_text > ${position}`)
      }
      const rows = sql<Row>`SELECT key_text FROM ${table} WHERE ${sql.and(conditions)}
        ORDER BY key_start, key_text LIMIT ${limit}`
      return Effect.flatMap(Effect.mapError(rows, toReason), (found) =>
        Effect.forEach(found, (row) => Effect.map(text(row.key_text, "key_text"), keys.fromSortable))
      )
    }
  }
  return storage
})
