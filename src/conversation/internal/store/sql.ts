import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import { invalid, PayloadError } from "../../../payload/PayloadError.ts"
import { type Reason, unavailable, Unreadable } from "../../VersionedStoreError.ts"
import * as keys from "./keys.ts"
import type { Attempt, Storage } from "./port.ts"
import * as versions from "./versions.ts"

/** As much of the encoded key as every database can index. */
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

/** `reports` databases answer a write with the rows it wrote; with the others it takes a transaction to know. */
const dialectOf = (sql: SqlClient.SqlClient) =>
  sql.onDialect({
    sqlite: () => "reports" as const,
    pg: () => "reports" as const,
    mysql: () => "silent" as const,
    mssql: () => "silent" as const,
    clickhouse: () => "unsupported" as const
  })

const createTable = (sql: SqlClient.SqlClient, name: string): ReadonlyArray<Effect.Effect<unknown, SqlError>> => {
  const table = sql(name)
  const index = sql(`${name}_key_start`)
  const createIndex = sql`CREATE INDEX IF NOT EXISTS ${index} ON ${table} (key_start)`
  return sql.onDialectOrElse({
    orElse: () => [
      sql`CREATE TABLE IF NOT EXISTS ${table} (
        key_hash TEXT NOT NULL PRIMARY KEY, key_start TEXT NOT NULL, key_text TEXT NOT NULL,
        store_version TEXT NOT NULL, store_value TEXT NOT NULL)`,
      createIndex
    ],
    pg: () => [
      sql`CREATE TABLE IF NOT EXISTS ${table} (
        key_hash TEXT COLLATE "C" NOT NULL PRIMARY KEY, key_start TEXT COLLATE "C" NOT NULL,
        key_text TEXT COLLATE "C" NOT NULL, store_version TEXT COLLATE "C" NOT NULL, store_value TEXT NOT NULL)`,
      createIndex
    ],
    mysql: () => [
      sql`CREATE TABLE IF NOT EXISTS ${table} (
        key_hash CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
        key_start VARCHAR(190) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        key_text LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        store_version VARCHAR(190) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        store_value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
        INDEX ${index} (key_start))`
    ],
    mssql: () => [
      sql`IF OBJECT_ID(${name}, 'U') IS NULL CREATE TABLE ${table} (
        key_hash CHAR(64) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY,
        key_start VARCHAR(190) COLLATE Latin1_General_BIN2 NOT NULL INDEX ${index},
        key_text VARCHAR(MAX) COLLATE Latin1_General_BIN2 NOT NULL,
        store_version VARCHAR(190) COLLATE Latin1_General_BIN2 NOT NULL,
        store_value NVARCHAR(MAX) NOT NULL)`
    ]
  })
}

export const make = Effect.fnUntraced(function* (options: { readonly table: string }) {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  const table = sql(options.table)
  const dialect = dialectOf(sql)
  if (dialect === "unsupported") {
    return yield* unavailable("database", "has no compare-and-set", undefined)
  }

  // Of two processes that create the table at once, one may fail although it is there then
  yield* Effect.forEach(createTable(sql, options.table), (statement) => statement, { discard: true }).pipe(
    Effect.catch((error) =>
      Effect.mapError(sql`SELECT key_hash FROM ${table} WHERE key_hash = ''`, () => toReason(error))
    )
  )

  const next = versions.make(yield* versions.nonce)
  const idOf = (key: string) => Hex.encode(keys.digest(key))

  const versionOf = (id: string): Effect.Effect<Option.Option<string>, Reason | SqlError> =>
    Effect.flatMap(sql<Row>`SELECT store_version FROM ${table} WHERE key_hash = ${id}`, ([row]) =>
      row === undefined ? Effect.succeedNone : Effect.asSome(text(row.store_version, "store_version"))
    )

  /** Runs a write of one row that has, or had, this version. */
  const won = (id: string, version: string, write: Fragment) =>
    dialect === "reports"
      ? Effect.map(sql<Row>`${write} RETURNING key_hash`, (rows) => rows.length > 0)
      : sql.withTransaction(
          Effect.andThen(
            sql`${write}`,
            Effect.map(versionOf(id), (found) => Option.contains(found, version))
          )
        )

  const insert = (key: string, version: string, value: string) => {
    const id = idOf(key)
    const encoded = keys.sortable(key)
    const start = encoded.slice(0, startLength)
    const row = sql`INSERT INTO ${table} (key_hash, key_start, key_text, store_version, store_value)
      VALUES (${id}, ${start}, ${encoded}, ${version}, ${value})`
    return dialect === "reports"
      ? Effect.map(sql`${row} ON CONFLICT (key_hash) DO NOTHING RETURNING key_hash`, (rows) => rows.length > 0)
      : row.pipe(
          Effect.as(true),
          Effect.catch((error) =>
            error.reason._tag === "UniqueViolation" ? Effect.succeed(false) : Effect.fail(error)
          )
        )
  }

  const update = (id: string, from: string, to: string, value: Fragment) =>
    won(
      id,
      to,
      sql`UPDATE ${table} SET store_version = ${to}${value} WHERE key_hash = ${id} AND store_version = ${from}`
    )

  const answer = <A>(id: string, result: A, attempt: Effect.Effect<boolean, Reason | SqlError>): Attempt<A> =>
    Effect.gen(function* () {
      const done = yield* attempt
      return done ? Result.succeed(result) : Result.fail(yield* versionOf(id))
    }).pipe(Effect.mapError((error) => (error._tag === "SqlError" ? toReason(error) : error)))

  /** The version is taken first, so that where writes are silent it is known who took it. */
  const removeVersion = (id: string, version: string) =>
    dialect === "reports"
      ? won(id, "", sql`DELETE FROM ${table} WHERE key_hash = ${id} AND store_version = ${version}`)
      : sql.withTransaction(
          Effect.gen(function* () {
            const taken = next(Option.some(version))
            if (!(yield* update(id, version, taken, sql.literal("")))) return false
            yield* sql`DELETE FROM ${table} WHERE key_hash = ${id} AND store_version = ${taken}`
            return true
          })
        )

  const remove = (key: string, expected: Option.Option<string>): Attempt<boolean> => {
    const id = idOf(key)
    if (Option.isSome(expected)) return answer(id, true, removeVersion(id, expected.value))
    const attempt: Attempt<boolean> = Effect.suspend(() =>
      versionOf(id).pipe(
        Effect.mapError((error) => (error._tag === "SqlError" ? toReason(error) : error)),
        Effect.flatMap(
          Option.match({
            onNone: () => Effect.succeed(Result.succeed(false)),
            onSome: (version) =>
              Effect.flatMap(answer(id, true, removeVersion(id, version)), (removed) =>
                // Written in between: any version will do
                Result.isSuccess(removed) ? Effect.succeed(removed) : attempt
              )
          })
        )
      )
    )
    return attempt
  }

  const storage: Storage = {
    get: (key) =>
      sql<Row>`SELECT store_version, store_value FROM ${table} WHERE key_hash = ${idOf(key)}`.pipe(
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
        const id = idOf(key)
        const attempt = Option.match(expected, {
          onNone: () => insert(key, version, value),
          onSome: (from) => update(id, from, version, sql`, store_value = ${value}`)
        })
        return answer(id, version, attempt)
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
      // A checked integer: some drivers cannot bind the number of rows
      const rows = sql.literal(String(limit))
      const select = sql`SELECT key_text FROM ${table} WHERE ${sql.and(conditions)} ORDER BY key_start, key_text`
      const limited = sql.onDialectOrElse({
        orElse: () => sql<Row>`${select} LIMIT ${rows}`,
        mssql: () => sql<Row>`${select} OFFSET 0 ROWS FETCH NEXT ${rows} ROWS ONLY`
      })
      return Effect.flatMap(Effect.mapError(limited, toReason), (found) =>
        Effect.forEach(found, (row) => Effect.map(text(row.key_text, "key_text"), keys.fromSortable))
      )
    }
  }
  return storage
})
