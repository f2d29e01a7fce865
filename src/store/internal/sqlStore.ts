/** A store in a table of SQLite or PostgreSQL. */

import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Identifier } from "effect/sql/Statement"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as storeKeys from "./storeKeys.ts"
import * as storeService from "./storeService.ts"

/** As much of the encoded key as the index holds: PostgreSQL refuses index entries of more than 2,700 bytes. */
const startLength = 190

interface Row {
  readonly store_value?: unknown
  readonly store_version?: unknown
  readonly key_text?: unknown
}

const textColumn = (value: unknown, column: string): Effect.Effect<string, storeService.StoreReason> => {
  if (typeof value === "string") return Effect.succeed(value)
  const reason = PayloadError.invalid([{ path: `/${column}`, expected: "text", found: typeof value }])
  const error = new PayloadError.PayloadError({ what: "database row", reason })
  return Effect.fail<storeService.StoreReason>({ _tag: "Unreadable", error })
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

/** After connections were lost, other processes may have their connections back only this much later. */
const reconnecting = Duration.seconds(10)

/** A row for the connection that holds a lock, if there is one. The database shows a key of 64 bits in two halves. */
const holderOfLock = `SELECT pid = pg_backend_pid() AS is_here FROM pg_locks, hashtextextended($1, 0) AS key
  WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND classid = ((key >> 32) & 4294967295)::oid AND objid = (key & 4294967295)::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

const isHere = ([row]: ReadonlyArray<unknown>) => Predicate.hasProperty(row, "is_here") && row.is_here === true

/**
 * The processes on a PostgreSQL database. Each keeps a connection with a lock of its name, which the database frees when the
 * process ends, however it ends. A pool that has no second connection has none for that, and a pooler that passes the connection
 * to others keeps the lock or frees it at any time. Without the lock, claims have no name of a process, and end with their leases.
 */
const processesOfPostgres = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const own = yield* storeKeys.nonce
  const isLocked = yield* Deferred.make<void>()
  const lockOf = (name: string) => `effect-emissary/process/${name}`
  let trustedFrom = 0
  let hasLock = false

  /** Returns whether the connection was lost. Otherwise the lock is on another one, and stays lost. */
  const keepLock = Effect.gen(function* () {
    const connection = yield* sql.reserve
    yield* connection.execute("SELECT pg_advisory_lock(hashtextextended($1, 0))", [lockOf(own)], undefined)
    while (isHere(yield* connection.execute(holderOfLock, [lockOf(own)], undefined))) {
      hasLock = true
      yield* Deferred.succeed(isLocked, undefined)
      yield* Effect.sleep("1 second")
    }
    return false
  }).pipe(
    Effect.scoped,
    Effect.orElseSucceed(() => true),
    Effect.tap(
      Effect.map(Clock.currentTimeMillis, (now) => {
        hasLock = false
        trustedFrom = now + Duration.toMillis(reconnecting)
      })
    )
  )
  const spaced = { while: (isLost: boolean) => isLost, schedule: Schedule.spaced("250 millis") }
  const keeping = yield* Effect.forkScoped(Effect.repeat(keepLock, spaced))

  const holder = (name: string) => Effect.withTracerEnabled(sql.unsafe(holderOfLock, [lockOf(name)]), false)
  const elsewhere = yield* Effect.timeoutOption(Effect.andThen(Deferred.await(isLocked), holder(own)), "2 seconds")
  if (Option.isNone(elsewhere) || isHere(elsewhere.value)) {
    yield* Fiber.interrupt(keeping)
    return Effect.succeedNone
  }

  // A process that lost only the connection with its lock has it again soon
  const look = Effect.fnUntraced(function* (name: string) {
    if ((yield* Clock.currentTimeMillis) < trustedFrom) return "alive"
    return (yield* holder(name)).length === 0 ? "missing" : "alive"
  })
  const processes: storeService.Processes = { own, look: (name) => Effect.orElseSucceed(look(name), () => "alive") }
  return Effect.sync(() => (hasLock ? Option.some(processes) : Option.none()))
})

/** The columns of a row. */
const columns = "key_hash, key_start, key_text, store_version, store_value"

const columnsOf = (key: string, version: string, text: string): ReadonlyArray<string> => {
  const encoded = storeKeys.sortable(key)
  return [storeKeys.digestKey(key), encoded.slice(0, startLength), encoded, version, text]
}

/** The digests of keys, each with its version. */
const versionsOf = (rows: NonNullable<storeService.RawCommit["removed"]>): ReadonlyArray<string> =>
  rows.flatMap(({ key, version }) => [storeKeys.digestKey(key), version])

const repeated = (text: string, count: number): string => Array.from({ length: count }, () => text).join(", ")

/** Makes the text of a statement once for each number of rows: a commit adds and removes few. */
const onceFor = (make: (added: number, isNew: boolean, removed: number) => string): typeof make => {
  const texts = new Map<string, string>()
  return (added, isNew, removed) => {
    const key = `${added} ${isNew} ${removed}`
    const text = texts.get(key) ?? make(added, isNew, removed)
    texts.set(key, text)
    return text
  }
}

/**
 * Commits of SQLite. A commit waits for the disk, so all writes are in one commit: one statement inserts and updates,
 * and if there is something to delete, a second statement in the same transaction deletes it.
 */
const commitsOfSqlite = (
  sql: SqlClient.SqlClient,
  table: string,
  atOnce: storeService.CommitAtOnce = () => Effect.undefined
): NonNullable<storeService.Storage["commit"]> => {
  const textOf = onceFor(
    (count, isNew) => `INSERT INTO ${table} (${columns})
    SELECT column1, column2, column3, column4, column5 FROM (VALUES ${repeated("(?, ?, ?, ?, ?)", count + 1)})
    WHERE ${isNew ? "NOT " : ""}EXISTS (SELECT 1 FROM ${table} WHERE key_hash = ?${isNew ? "" : " AND store_version = ?"})
      AND NOT EXISTS (SELECT 1 FROM ${table} WHERE key_hash IN (${repeated("?", count)}))
    ON CONFLICT (key_hash) DO UPDATE SET store_version = excluded.store_version, store_value = excluded.store_value
    RETURNING key_hash`
  )
  const removal = onceFor(
    (_, __, count) => `DELETE FROM ${table} WHERE (key_hash, store_version) IN (VALUES ${repeated("(?, ?)", count)})`
  )
  return ({ added, changed: { expected, key, text }, removed = [], version }) => {
    const row = columnsOf(key, version, text)
    const [id = ""] = row
    const rows = added.map(({ key, text }) => columnsOf(key, version, text))
    const ids = rows.map(([id = ""]) => id)
    const params = [...rows.flat(), ...row, id, ...Option.toArray(expected), ...ids]
    const written = { text: textOf(rows.length, Option.isNone(expected), 0), params }
    const deleted =
      removed.length === 0 ? undefined : { text: removal(0, false, removed.length), params: versionsOf(removed) }
    return Effect.flatMap(atOnce(written, deleted), (isWritten) =>
      isWritten === undefined ? commitWith(sql, written, deleted) : Effect.succeed(isWritten)
    )
  }
}

/** A commit by a client that waits for the transactions of other fibers. */
const commitWith = (
  sql: SqlClient.SqlClient,
  written: storeService.Statement,
  deleted: storeService.Statement | undefined
): Effect.Effect<boolean, SqlError> => {
  const isWritten = Effect.map(sql.unsafe(written.text, written.params), (found) => found.length > 0)
  return deleted === undefined
    ? isWritten
    : sql.withTransaction(
        Effect.tap(isWritten, (isWritten) =>
          isWritten ? Effect.asVoid(sql.unsafe(deleted.text, deleted.params)) : Effect.void
        )
      )
}

/** Commits of PostgreSQL. One statement is one trip to the database, and one commit. */
const commitsOfPostgres = (sql: SqlClient.SqlClient, table: string): NonNullable<storeService.Storage["commit"]> => {
  const textOf = onceFor((count, isNew, removed) => {
    let last = 0
    const next = (length: number) => Array.from({ length }, () => `$${++last}`).join(", ")
    const parts: Array<string> = []
    const all = count === 0 ? "TRUE" : `(SELECT count(*) FROM added) = ${count}`
    if (count > 0) {
      const rows = Array.from({ length: count }, () => `(${next(5)})`).join(", ")
      const inserted = `INSERT INTO ${table} (${columns}) VALUES ${rows} ON CONFLICT (key_hash) DO NOTHING RETURNING key_hash`
      parts.push(`added AS (${inserted})`)
    }
    const changed = isNew
      ? `INSERT INTO ${table} (${columns}) SELECT ${next(5)} WHERE ${all} ON CONFLICT (key_hash) DO NOTHING`
      : `UPDATE ${table} SET store_version = ${next(1)}, store_value = ${next(1)}
        WHERE key_hash = ${next(1)} AND store_version = ${next(1)} AND ${all}`
    parts.push(`changed AS (${changed} RETURNING key_hash)`)
    if (removed > 0) {
      const pairs = Array.from({ length: removed }, () => `(${next(2)})`).join(", ")
      parts.push(`removed AS (DELETE FROM ${table} WHERE (key_hash, store_version) IN (${pairs})
        AND EXISTS (SELECT 1 FROM changed))`)
    }
    return `WITH ${parts.join(", ")} SELECT key_hash FROM changed`
  })
  return ({ added, changed: { expected, key, text }, removed = [], version }) => {
    const params = [
      ...added.flatMap(({ key, text }) => columnsOf(key, version, text)),
      ...Option.match(expected, {
        onNone: () => columnsOf(key, version, text),
        onSome: (before) => [version, text, storeKeys.digestKey(key), before]
      }),
      ...versionsOf(removed)
    ]
    const statement = textOf(added.length, Option.isNone(expected), removed.length)
    return Effect.map(sql.unsafe(statement, params), (found) => found.length > 0)
  }
}

/** The first rows of a range of keys. */
const listOf = (sql: SqlClient.SqlClient, table: Identifier): storeService.Storage["list"] =>
  Effect.fnUntraced(function* ({ after, limit, prefix }) {
    const from = storeKeys.sortable(prefix)
    const start = from.slice(0, startLength)
    const conditions = [
      sql`key_start >= ${start}`,
      sql`key_start <= ${start + storeKeys.lastSortable}`,
      sql`key_text >= ${from}`,
      sql`key_text < ${from + storeKeys.lastSortable}`
    ]
    if (Option.isSome(after)) {
      const position = storeKeys.sortable(after.value)
      conditions.push(sql`key_start >= ${position.slice(0, startLength)}`, sql`key_text > ${position}`)
    }
    const found = yield* sql<Row>`SELECT key_text FROM ${table} WHERE ${sql.and(conditions)}
      ORDER BY key_start, key_text LIMIT ${limit}`
    return yield* Effect.forEach(found, (row) =>
      Effect.map(textColumn(row.key_text, "key_text"), storeKeys.fromSortable)
    )
  })

const makeSqlStorage = Effect.fnUntraced(function* (tableName: string) {
  const client = yield* SqlClient.SqlClient
  const sql = client.withoutTransforms()
  // The spans of statements are made by the client
  const atOnce = (yield* storeService.Traced) ? undefined : storeService.commitsAtOnce.get(client)
  const isSupported = sql.onDialectOrElse({ orElse: () => false, sqlite: () => true, pg: () => true })
  if (!isSupported) {
    const error = "expected SQLite or PostgreSQL, got another dialect"
    return yield* Effect.fail<storeService.StoreReason>({ _tag: "Unavailable", storage: "database", error })
  }

  yield* Effect.forEach(createTable(sql, tableName), (statement) => statement, { discard: true }).pipe(
    // Of two processes that create the table at once, one may fail although the table exists then
    Effect.catch((error) =>
      Effect.mapError(sql`SELECT key_hash FROM ${sql(tableName)} WHERE key_hash = ''`, () => error)
    )
  )

  const processes = sql.onDialectOrElse({
    orElse: () => Effect.map(storeService.FileProcesses, Effect.map(Effect.succeed)),
    pg: () => Effect.succeed(Effect.orElseSucceed(processesOfPostgres(sql), () => Effect.succeedNone))
  })
  // The texts of statements are made once: a template is compiled each time
  const [table] = sql`${sql(tableName)}`.compile()
  const isPostgres = sql.onDialectOrElse({ orElse: () => false, pg: () => true })
  const at = (position: number) => (isPostgres ? `$${position}` : "?")
  const selected = `SELECT store_version, store_value FROM ${table} WHERE key_hash = ${at(1)}`
  const inserted = `INSERT INTO ${table} (${columns}) VALUES (${[1, 2, 3, 4, 5].map(at).join(", ")})
    ON CONFLICT (key_hash) DO NOTHING RETURNING key_hash`
  const updated = `UPDATE ${table} SET store_version = ${at(1)}, store_value = ${at(2)}
    WHERE key_hash = ${at(3)} AND store_version = ${at(4)} RETURNING key_hash`
  const deleted = `DELETE FROM ${table} WHERE key_hash = ${at(1)}`
  const run = (text: string, params: ReadonlyArray<string>) => sql.unsafe<Row>(text, params)
  const wroteRow = (text: string, params: ReadonlyArray<string>) =>
    Effect.map(run(text, params), (found) => found.length > 0)

  return {
    processes: Effect.flatten(yield* Effect.cached(Scope.provide(yield* processes, yield* Effect.scope))),
    get: Effect.fnUntraced(function* (key) {
      const [row] = yield* run(selected, [storeKeys.digestKey(key)])
      if (row === undefined) return Option.none()
      return Option.some({
        text: yield* textColumn(row.store_value, "store_value"),
        version: yield* textColumn(row.store_version, "store_version")
      })
    }),
    set: (key, expected, { text, version }) =>
      Option.isNone(expected)
        ? wroteRow(inserted, columnsOf(key, version, text))
        : wroteRow(updated, [version, text, storeKeys.digestKey(key), expected.value]),
    commit: isPostgres ? commitsOfPostgres(sql, table) : commitsOfSqlite(sql, table, atOnce),
    remove: (key, expected) =>
      Option.isNone(expected)
        ? wroteRow(`${deleted} RETURNING key_hash`, [storeKeys.digestKey(key)])
        : wroteRow(`${deleted} AND store_version = ${at(2)} RETURNING key_hash`, [
            storeKeys.digestKey(key),
            expected.value
          ]),
    list: listOf(sql, sql(tableName))
  } satisfies storeService.Storage
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
 * While sessions use it on PostgreSQL, one connection of the pool keeps a lock for as long as this process
 * lives. A pool of one connection keeps none, and neither does a pooler with another connection for each transaction: the
 * claims of a process that died end with their leases then.
 *
 * **Gotchas**
 *
 * The `SqlClient` waits for a locked database: the client of `effect-emissary/node` does, and another client for SQLite
 * needs a `busy_timeout`.
 *
 * **Example** (A table of PostgreSQL)
 *
 * ```ts no-run
 * import { PgClient } from "@effect/sql-pg"
 * import { Config, Layer } from "effect"
 * import { VersionedStore } from "effect-emissary"
 *
 * export const store = VersionedStore.layerSql({ table: "sessions" }).pipe(
 *   Layer.provide(PgClient.layerConfig({ url: Config.Redacted("DATABASE_URL") }))
 * )
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerSql = (options?: {
  /** The name of the table; default `"effect_emissary_store"`. */
  readonly table?: string | undefined
}): Layer.Layer<storeService.VersionedStore, storeService.VersionedStoreError, SqlClient.SqlClient> =>
  Layer.effect(
    storeService.VersionedStore,
    Effect.gen(function* () {
      const opened = Effect.catch(
        makeSqlStorage(options?.table ?? "effect_emissary_store"),
        storeService.failWith("open")
      )
      const isTraced = yield* storeService.Traced
      return yield* storeService.fromStorage(yield* isTraced ? opened : Effect.withTracerEnabled(opened, false))
    })
  )
