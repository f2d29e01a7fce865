/**
 * A small port for data that several writers change: values by key, each in a
 * version, and a write that succeeds only from the version it was made for.
 *
 * **When to use**
 *
 * Conversations are kept on it (`ConversationStore`), and so can be what else has to
 * survive the process. Choose the storage by layer: `SqliteClient.layerStore` of
 * `effect-emissary/node` for one file, {@link layerSql} for PostgreSQL, {@link layerMemory}
 * for tests. For another one provide the service yourself and run
 * `Conformance.versionedStore` of `effect-emissary/testing` on it.
 *
 * **Details**
 *
 * - Keys are any text: empty, very long, with slashes, dots, upper and lower case,
 *   control characters, lone surrogates. Different text is a different key in every
 *   storage, and no key reaches the database as anything else.
 * - Values are JSON. They pass `payload` on the way in and on the way out, so
 *   `Limits` hold for each value. The value you get is yours: a fresh copy.
 * - Versions are text to compare, nothing else. No version ever comes back, not even
 *   after the value was deleted and made again.
 * - Reads see whole values only, and after a write has succeeded every read sees it or
 *   a later one.
 *
 * **Example** (Read, change, write)
 *
 * ```ts
 * import { Effect, Option } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const increment = Effect.gen(function*() {
 *   const store = yield* VersionedStore.VersionedStore
 *   const found = yield* store.get("visits")
 *   const visits = Option.match(found, { onNone: () => 0, onSome: ({ value }) => Number(value) })
 *   yield* store.compareAndSet("visits", Option.map(found, ({ version }) => version), visits + 1)
 *   return visits + 1
 * }).pipe(
 *   // Another writer was faster: read again
 *   Effect.retry({ while: (error) => error._tag === "VersionConflict" })
 * )
 *
 * const program = Effect.andThen(Effect.all([increment, increment], { concurrency: 2 }), increment)
 * assert.strictEqual(await Effect.runPromise(Effect.provide(program, VersionedStore.layerMemory)), 3)
 * ```
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import * as PayloadError from "../payload/PayloadError.ts"
import * as storage from "./internal/storage.ts"

export {
  causeOf,
  layerMemory,
  type ListOptions,
  type Page,
  type Service,
  unavailable,
  VersionConflict,
  VersionedStore,
  VersionedStoreError
} from "./internal/storage.ts"

/** As much of the encoded key as the index holds: PostgreSQL refuses index entries of more than 2,700 bytes. */
const startLength = 190

interface Row {
  readonly store_value?: unknown
  readonly store_version?: unknown
  readonly key_text?: unknown
}

const textColumn = (value: unknown, column: string): Effect.Effect<string, storage.StoreReason> => {
  if (typeof value === "string") return Effect.succeed(value)
  const reason = PayloadError.invalid([{ path: `/${column}`, expected: "text", found: typeof value }])
  const error = new PayloadError.PayloadError({ what: "database row", reason })
  return Effect.fail<storage.StoreReason>({ _tag: "Unreadable", error })
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

const makeSqlStorage = Effect.fnUntraced(function* (tableName: string) {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  const table = sql(tableName)
  const isSupported = sql.onDialectOrElse({ orElse: () => false, sqlite: () => true, pg: () => true })
  if (!isSupported) {
    const error = "expected SQLite or PostgreSQL, got another dialect"
    return yield* Effect.fail<storage.StoreReason>({ _tag: "Unavailable", storage: "database", error })
  }

  yield* Effect.forEach(createTable(sql, tableName), (statement) => statement, { discard: true }).pipe(
    // Of two processes that create the table at once, one may fail although the table exists then
    Effect.catch((error) => Effect.mapError(sql`SELECT key_hash FROM ${table} WHERE key_hash = ''`, () => error))
  )

  const rows = (statement: Fragment) => sql<Row>`${statement}`

  /** Runs a write of one row, and returns whether there was such a row. */
  const wroteRow = (write: Fragment) => Effect.map(rows(sql`${write} RETURNING key_hash`), (found) => found.length > 0)

  const insert = (key: string, { text, version }: storage.RawValue) => {
    const encoded = storage.sortable(key)
    return sql`INSERT INTO ${table} (key_hash, key_start, key_text, store_version, store_value)
      VALUES (${storage.digestKey(key)}, ${encoded.slice(0, startLength)}, ${encoded}, ${version}, ${text})
      ON CONFLICT (key_hash) DO NOTHING`
  }

  /** As `insert`, if the statement before wrote a row. */
  const insertAfter = (key: string, { text, version }: storage.RawValue) => {
    const encoded = storage.sortable(key)
    return sql`INSERT INTO ${table} (key_hash, key_start, key_text, store_version, store_value)
      SELECT ${storage.digestKey(key)}, ${encoded.slice(0, startLength)}, ${encoded}, ${version}, ${text}
      WHERE EXISTS (SELECT key_hash FROM added) ON CONFLICT (key_hash) DO NOTHING`
  }

  const update = (key: string, expected: string, { text, version }: storage.RawValue) =>
    sql`UPDATE ${table} SET store_version = ${version}, store_value = ${text}
      WHERE key_hash = ${storage.digestKey(key)} AND store_version = ${expected}`

  const write = (key: string, expected: Option.Option<string>, value: storage.RawValue) =>
    wroteRow(Option.isNone(expected) ? insert(key, value) : update(key, expected.value, value))

  /** A commit of SQLite waits for the disk, so both writes are in one. Nothing else is done while it has the lock. */
  const setBothSqlite: storage.Storage["setBoth"] = (added, { expected, key, value }) =>
    Effect.all([wroteRow(insert(added.key, added.value)), write(key, expected, value)]).pipe(
      Effect.filterOrFail(
        ([first, second]) => first && second,
        () => "Unwritten" as const
      ),
      sql.withTransaction,
      Effect.as(true),
      Effect.catchIf(
        (error) => error === "Unwritten",
        () => Effect.succeed(false)
      )
    )

  /** One statement is one trip to the database, and one commit. */
  const setBothPostgres: storage.Storage["setBoth"] = (added, { expected, key, value }) => {
    const changed = Option.isNone(expected)
      ? insertAfter(key, value)
      : sql`${update(key, expected.value, value)} AND EXISTS (SELECT key_hash FROM added)`
    return wroteRow(sql`WITH added AS (${insert(added.key, added.value)} RETURNING key_hash) ${changed}`)
  }

  return {
    get: Effect.fnUntraced(function* (key) {
      const id = storage.digestKey(key)
      const [row] = yield* rows(sql`SELECT store_version, store_value FROM ${table} WHERE key_hash = ${id}`)
      if (row === undefined) return Option.none()
      return Option.some({
        text: yield* textColumn(row.store_value, "store_value"),
        version: yield* textColumn(row.store_version, "store_version")
      })
    }),
    set: write,
    setBoth: sql.onDialectOrElse({ orElse: () => setBothSqlite, pg: () => setBothPostgres }),
    remove: (key, expected) => {
      const conditions = [sql`key_hash = ${storage.digestKey(key)}`]
      if (Option.isSome(expected)) conditions.push(sql`store_version = ${expected.value}`)
      return wroteRow(sql`DELETE FROM ${table} WHERE ${sql.and(conditions)}`)
    },
    list: Effect.fnUntraced(function* ({ after, limit, prefix }) {
      const from = storage.sortable(prefix)
      const start = from.slice(0, startLength)
      const conditions = [
        sql`key_start >= ${start}`,
        sql`key_start <= ${start + storage.lastSortable}`,
        sql`key_text >= ${from}`,
        sql`key_text < ${from + storage.lastSortable}`
      ]
      if (Option.isSome(after)) {
        const position = storage.sortable(after.value)
        conditions.push(sql`key_start >= ${position.slice(0, startLength)}`, sql`key_text > ${position}`)
      }
      const found = yield* rows(
        sql`SELECT key_text FROM ${table} WHERE ${sql.and(conditions)} ORDER BY key_start, key_text LIMIT ${limit}`
      )
      return yield* Effect.forEach(found, (row) =>
        Effect.map(textColumn(row.key_text, "key_text"), storage.fromSortable)
      )
    })
  } satisfies storage.Storage
})

/**
 * Keeps values in a table of a database, for any number of processes at once.
 *
 * **Details**
 *
 * `table` is made if it does not exist; default `"effect_emissary_store"`. A write is
 * one conditional statement, and takes part in a transaction that is open around it.
 * The databases are SQLite and PostgreSQL; the layer of another one fails.
 *
 * Every operation costs an access by primary key; `list` a range of an index on the
 * first 190 characters of the encoded keys. Keys are stored readably, with letters,
 * digits and `-./:;<=>?@[\]^_` and the backtick as they are.
 *
 * **Gotchas**
 *
 * Waiting for a locked database is the business of the `SqlClient`: that of
 * `effect-emissary/node` does it, another one for SQLite needs a `busy_timeout`.
 *
 * **Example** (A table of PostgreSQL)
 *
 * ```ts no-run
 * import { PgClient } from "@effect/sql-pg"
 * import { Config, Layer } from "effect"
 * import { ConversationStore, VersionedStore } from "effect-emissary"
 *
 * export const conversations = ConversationStore.layer().pipe(
 *   Layer.provide(VersionedStore.layerSql({ table: "conversations" })),
 *   Layer.provide(PgClient.layerConfig({ url: Config.Redacted("DATABASE_URL") }))
 * )
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerSql = (options?: {
  readonly table?: string | undefined
}): Layer.Layer<storage.VersionedStore, storage.VersionedStoreError, SqlClient.SqlClient> =>
  Layer.effect(
    storage.VersionedStore,
    Effect.catch(makeSqlStorage(options?.table ?? "effect_emissary_store"), storage.failWith("open")).pipe(
      Effect.flatMap(storage.fromStorage)
    )
  )
