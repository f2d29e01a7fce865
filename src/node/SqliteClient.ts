/**
 * A `SqlClient` of Effect on the SQLite that Node brings along (`node:sqlite`), without
 * a dependency, and the `VersionedStore` on it.
 *
 * **When to use**
 *
 * Use {@link layerStore} to keep sessions and other values in one file
 * that any number of processes of one machine read and write at once. Use {@link layer}
 * for tables of your own. Use PostgreSQL (`@effect/sql-pg`) for several machines.
 *
 * **Details**
 *
 * - A client is one connection. Statements run one at a time, and while a transaction is open, statements of other
 *   fibers wait for its end.
 * - The journal is a write-ahead log (WAL): readers and a writer do not block each other. A
 *   commit is synced to disk before it succeeds.
 * - Transactions begin with `BEGIN IMMEDIATE`: a transaction that reads first and writes
 *   later cannot lose the lock in between. Nested transactions are savepoints.
 * - A statement that finds the database locked by another connection is tried again until
 *   `busyTimeout` has passed. The fiber sleeps in between, so the thread stays free.
 * - The most recent prepared statements are kept and used again.
 * - Integers are numbers, and an integer that is too large for a number is an error. Under `SqlClient.SafeIntegers` all
 *   integers are `bigint`.
 *
 * **Gotchas**
 *
 * `node:sqlite` is synchronous: a statement that reads a million rows holds the thread.
 * `stream` reads all rows before it emits the first one. Dates are stored as ISO text,
 * booleans as 0 and 1.
 *
 * While sessions use {@link layerStore}, each process has an empty file with a lock beside the database,
 * `<filename>-process-<name>`. It is removed after the process has ended, however that ended.
 *
 * A database file that is deleted or replaced under a running process is noticed: from then on each statement fails, and the log has
 * one line.
 *
 * A write-ahead log needs shared memory, so the file must not be on a network file system.
 *
 * Node 22 prints an `ExperimentalWarning` when this module is loaded, Node 24 does not.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { SqlError, classifySqliteError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import { existsSync, readdirSync, rmSync, statSync } from "node:fs"
import { basename, dirname } from "node:path"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import * as callOptions from "../payload/internal/options.ts"
import * as base from "../payload/internal/base.ts"
import * as VersionedStore from "../store/VersionedStore.ts"
import * as storeKeys from "../store/internal/storeKeys.ts"
import * as storeService from "../store/internal/storeService.ts"

/**
 * The database file, and the time to wait for its lock.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /**
   * The database file, created if it does not exist, in a directory that does; `":memory:"` for a database of this
   * client alone.
   */
  readonly filename: string
  /**
   * The time that a statement waits for the lock of another connection before it fails with the reason
   * `LockTimeoutError`; default 10 seconds.
   */
  readonly busyTimeout?: Duration.Input | undefined
}

/** SQLite itself waits this long for a lock. It holds the thread meanwhile, so the fiber sleeps for the rest. */
const blockingMillis = 5

const longestPause = Duration.millis(25)

/** Prepared statements that are kept for each connection. */
const statementLimit = 128

/** The result codes of SQLite that its users look up. */
const codes: Readonly<Record<number, string>> = {
  5: "SQLITE_BUSY",
  6: "SQLITE_LOCKED",
  7: "SQLITE_NOMEM",
  8: "SQLITE_READONLY",
  10: "SQLITE_IOERR",
  11: "SQLITE_CORRUPT",
  13: "SQLITE_FULL",
  14: "SQLITE_CANTOPEN",
  26: "SQLITE_NOTADB"
}

/** `classifySqliteError` reads the result code of SQLite as `errno`, and its name as `code`. Node names it `errcode`. */
const withErrno = (cause: unknown): unknown => {
  if (!Predicate.hasProperty(cause, "errcode")) return cause
  const code = codes[Number(cause.errcode) & 0xff]
  return Object.assign(cause, { errno: cause.errcode, ...(code === undefined ? undefined : { code }) })
}

const errorOf =
  (operation: string, what: string = operation) =>
  (cause: unknown) =>
    new SqlError({
      reason: classifySqliteError(withErrno(cause), { message: `SQLite failed to ${what}`, operation })
    })

const attempt = <A>(operation: string, run: () => A, what?: string): Effect.Effect<A, SqlError> =>
  Effect.try({ try: run, catch: errorOf(operation, what) })

/** Tries again while another connection holds the lock. */
const untilUnlocked = (options: Options, inTransaction: () => boolean) => {
  const pauses = Schedule.exponential("1 millis").pipe(
    Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, longestPause))),
    Schedule.jittered,
    Schedule.upTo({ duration: options.busyTimeout ?? "10 seconds" })
  )
  // The snapshot of an open transaction stays old however long it waits
  const isLocked = (error: SqlError) => error.reason._tag === "LockTimeoutError" && !inTransaction()
  // Most statements succeed at once, and a schedule is work
  return <A>(statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    Effect.catchIf(statement, isLocked, () => Effect.retry(statement, { schedule: pauses, while: isLocked }))
}

const open = (filename: string): Effect.Effect<DatabaseSync, SqlError, Scope.Scope> =>
  Effect.acquireRelease(
    attempt(
      "open",
      () => new DatabaseSync(filename, { timeout: blockingMillis }),
      `open ${JSON.stringify(filename)}. Its directory has to exist, and this process has to be allowed to write there`
    ),
    (database) => Effect.sync(() => void (database.isOpen && database.close()))
  )

/** A lock of a file, which the system frees when the process ends, however it ends. */
const lock = (filename: string): Effect.Effect<unknown, SqlError, Scope.Scope> =>
  Effect.tap(open(filename), (database) =>
    attempt("lock", () => database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE"))
  )

/**
 * The processes on a database file. Each has a file beside it, locked and with its name, for as long as it uses it. A process whose
 * file was removed makes it again.
 */
const processesOf = Effect.fnUntraced(function* (path: string, ensureThere: Effect.Effect<void, SqlError>) {
  const prefix = `${path}-process-`
  const remove = (filename: string) => Effect.ignore(attempt("remove", () => rmSync(filename, { force: true })))
  const ended = new Set<string>()

  /** The file of a process that has ended is removed with its lock, so that no process locks it afterwards. */
  const look = (name: string) =>
    Effect.suspend(() => {
      const file = prefix + name
      if (!existsSync(file)) return Effect.succeed(ended.has(name) ? ("gone" as const) : ("missing" as const))
      ended.add(name)
      return Effect.as(Effect.andThen(lock(file), remove(file)), "gone" as const)
    }).pipe(
      Effect.scoped,
      Effect.orElseSucceed(() => {
        ended.delete(name)
        return "alive" as const
      })
    )

  const claim: Effect.Effect<string, SqlError, Scope.Scope> = Effect.gen(function* () {
    const own = yield* storeKeys.nonce
    yield* lock(prefix + own)
    // Another process removed it before it was locked
    if (!existsSync(prefix + own)) return yield* claim
    yield* Effect.addFinalizer(() => remove(prefix + own))
    return own
  })

  const own = yield* claim
  const relocked = Effect.suspend(() => (existsSync(prefix + own) ? Effect.void : lock(prefix + own)))
  yield* Effect.forkScoped(
    Effect.forever(
      Effect.andThen(Effect.sleep("1 second"), Effect.andThen(Effect.ignore(ensureThere), Effect.ignore(relocked)))
    )
  )
  const files = yield* attempt("look for processes", () => readdirSync(dirname(path)))
  const others = files.filter((file) => file.startsWith(basename(prefix)))
  yield* Effect.forEach(others, (file) => look(file.slice(basename(prefix).length)), { discard: true })
  return Option.some<storeService.Processes>({ own, look })
})

/**
 * Fails if the database file is no longer the file that was opened: what is written then is in no file of this name.
 */
const presenceOf = (path: string) => {
  const idOf = () => statSync(path, { bigint: true, throwIfNoEntry: false })?.ino
  const opened = idOf()
  let isMissing = false
  const ensureThere = Effect.flatMap(attempt("look for the file", idOf), (found) => {
    const wasMissing = isMissing
    isMissing = found !== opened
    if (!isMissing) return Effect.void
    const problem = `the database file ${base.quote(path)} was deleted or replaced while it was open`
    const cause = Object.assign(new Error(problem), { errno: 1032, code: "SQLITE_READONLY" })
    const error = new SqlError({ reason: classifySqliteError(cause, { message: problem, operation: "execute" }) })
    const logged = Effect.logError(
      `${problem}. Nothing is stored in it any more: put it back, or start the process again`
    )
    return Effect.andThen(wasMissing ? Effect.void : logged, Effect.fail(error))
  })
  return { ensureThere, isMissing: () => isMissing }
}

type Presence = ReturnType<typeof presenceOf>

/** Prepares statements and keeps the statements that were used last. */
const statementCache = (database: DatabaseSync) => {
  const statements = new Map<string, StatementSync>()
  return (sql: string): StatementSync => {
    const statement = statements.get(sql) ?? database.prepare(sql)
    statements.delete(sql)
    statements.set(sql, statement)
    if (statements.size > statementLimit) {
      const [oldest = sql] = statements.keys()
      statements.delete(oldest)
    }
    return statement
  }
}

const toInput = (value: unknown): SQLInputValue => {
  if (value === undefined) return null
  if (typeof value === "boolean") return value ? 1 : 0
  if (value instanceof Date) return value.toISOString()
  // SQLite refuses what is no input value, and the statement fails with that
  return value as SQLInputValue
}

/**
 * Commits statements without a pause. A transaction that can be neither committed nor rolled back closes the connection, so that
 * nothing is written into it.
 */
const commitsOf = (
  database: DatabaseSync,
  prepare: ReturnType<typeof statementCache>,
  retry: ReturnType<typeof untilUnlocked>,
  presence: Presence | undefined
): storeService.CommitAtOnce => {
  const rowsOf = ({ params, text }: storeService.Statement) => prepare(text).all(...params).length
  const transact = (written: storeService.Statement, deleted: storeService.Statement) => {
    prepare("BEGIN IMMEDIATE").run()
    const isWritten = rowsOf(written) > 0
    if (isWritten) rowsOf(deleted)
    prepare("COMMIT").run()
    return isWritten
  }
  const rollBack = () => {
    const rolledBack = Result.try(() => database.isTransaction && prepare("ROLLBACK").run())
    if (Result.isFailure(rolledBack)) database.close()
  }
  return (written, deleted) =>
    Effect.suspend(() => {
      if (database.isTransaction) return Effect.undefined
      const committed = Result.try({
        try: () => (deleted === undefined ? rowsOf(written) > 0 : transact(written, deleted)),
        catch: errorOf("execute")
      })
      if (Result.isSuccess(committed)) return Effect.as(presence?.ensureThere ?? Effect.void, committed.success)
      rollBack()
      return Effect.fail(committed.failure)
    }).pipe(retry)
}

const connect = (
  database: DatabaseSync,
  prepare: ReturnType<typeof statementCache>,
  retry: ReturnType<typeof untilUnlocked>,
  presence: Presence | undefined
): Connection => {
  /** A write that the file does not show afterwards has failed. The writes of a transaction are in it after the commit. */
  const run = <A>(sql: string, read: (statement: StatementSync) => A): Effect.Effect<A, SqlError> => {
    const done = execute(sql, read)
    if (presence === undefined) return done
    if (presence.isMissing()) return Effect.tap(done, presence.ensureThere)
    return sql.startsWith("SELECT")
      ? done
      : Effect.tap(done, () => (database.isTransaction ? Effect.void : presence.ensureThere))
  }

  const execute = <A>(sql: string, read: (statement: StatementSync) => A): Effect.Effect<A, SqlError> =>
    Effect.withFiber((fiber) =>
      attempt("execute", () => {
        const statement = prepare(sql)
        statement.setReadBigInts(fiber.getRef(SqlClient.SafeIntegers))
        return read(statement)
      })
    ).pipe(retry)

  const rows = (sql: string, params: ReadonlyArray<unknown>) =>
    run(sql, (statement): ReadonlyArray<object> => {
      statement.setReturnArrays(false)
      // Node makes rows without a prototype
      return statement.all(...params.map(toInput)).map((row) => ({ ...row }))
    })

  const values = (sql: string, params: ReadonlyArray<unknown>) =>
    run(sql, (statement) => {
      statement.setReturnArrays(true)
      // Arrays, because of the line above
      return statement.all(...params.map(toInput)) as ReadonlyArray<object> as ReadonlyArray<ReadonlyArray<unknown>>
    })

  const executed: Connection["execute"] = (sql, params, transformRows) =>
    transformRows === undefined ? rows(sql, params) : Effect.map(rows(sql, params), transformRows)

  return {
    execute: executed,
    executeUnprepared: executed,
    executeValues: values,
    executeValuesUnprepared: values,
    executeRaw: (sql, params) =>
      run(sql, (statement): unknown => {
        statement.setReturnArrays(false)
        const input = params.map(toInput)
        return statement.columns().length > 0 ? statement.all(...input) : statement.run(...input)
      }),
    executeStream: (sql, params, transformRows) => Stream.fromIterableEffect(executed(sql, params, transformRows))
  }
}

const make = Effect.fnUntraced(function* (options: Options) {
  yield* callOptions.check("SqliteClient", { busyTimeout: callOptions.time }, options)
  const database = yield* open(options.filename)
  const isTransaction = () => database.isTransaction
  const retry = untilUnlocked(options, isTransaction)
  // Another process that opens, recovers or closes the file may hold it
  yield* retry(attempt("open", () => database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")))

  const path = database.location()
  const presence = path === null ? undefined : presenceOf(path)
  const prepare = statementCache(database)
  const acquirers = SqlClient.makeSqliteAcquirers({
    connection: Effect.succeed(connect(database, prepare, retry, presence)),
    semaphore: yield* Semaphore.make(1),
    isTransaction
  })
  const client = yield* SqlClient.make({
    ...acquirers,
    compiler: Statement.makeCompilerSqlite(),
    driver: "node:sqlite",
    spanAttributes: [["db.system.name", "sqlite"]],
    beginTransaction: "BEGIN IMMEDIATE",
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    prepareTransactionControls: true
  })
  storeService.commitsAtOnce.set(client, commitsOf(database, prepare, retry, presence))
  const processes =
    path === null || presence === undefined
      ? Effect.succeedNone
      : Effect.orElseSucceed(processesOf(path, presence.ensureThere), Option.none)
  return Context.make(SqlClient.SqlClient, client).pipe(Context.add(storeService.FileProcesses, processes))
})

/**
 * A `SqlClient` on one SQLite file, closed with the layer.
 *
 * **Example** (A table of one's own)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { SqlClient } from "effect/sql"
 * import { SqliteClient } from "effect-emissary/node"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const sql = yield* SqlClient.SqlClient
 *   yield* sql`CREATE TABLE parcels (id INTEGER PRIMARY KEY, receiver TEXT NOT NULL)`
 *   yield* sql.withTransaction(sql`INSERT INTO parcels ${sql.insert([{ id: 1, receiver: "Ada" }])}`)
 *   return yield* sql<{ readonly receiver: string }>`SELECT receiver FROM parcels WHERE id = ${1}`
 * })
 *
 * const rows = await Effect.runPromise(Effect.provide(program, SqliteClient.layer({ filename: ":memory:" })))
 * assert.deepStrictEqual(rows, [{ receiver: "Ada" }])
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<SqlClient.SqlClient, SqlError> =>
  Layer.effectContext(make(options)).pipe(Layer.provide(Reactivity.layer))

/**
 * A `VersionedStore` in one SQLite file, for any number of processes of one machine.
 *
 * **Details**
 *
 * It is `VersionedStore.layerSql({ table })` on {@link layer}; the table is made if it does
 * not exist. Provide the two yourself to write to the store and to tables of your own in
 * one transaction.
 *
 * **Example** (A value that survives)
 *
 * ```ts
 * import { NodeServices } from "@effect/platform-node"
 * import { Effect, FileSystem, Option } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { SqliteClient } from "effect-emissary/node"
 * import assert from "node:assert"
 *
 * const write = Effect.gen(function*() {
 *   const store = yield* VersionedStore.VersionedStore
 *   yield* store.compareAndSet("settings/theme", Option.none(), { dark: true })
 * })
 * const read = Effect.gen(function*() {
 *   const store = yield* VersionedStore.VersionedStore
 *   return Option.map(yield* store.get("settings/theme"), ({ value }) => value)
 * })
 *
 * const program = Effect.gen(function*() {
 *   const fs = yield* FileSystem.FileSystem
 *   const filename = `${yield* fs.makeTempDirectoryScoped()}/store.sqlite`
 *   // As two processes would, one after the other
 *   yield* Effect.provide(write, SqliteClient.layerStore({ filename }), { local: true })
 *   return yield* Effect.provide(read, SqliteClient.layerStore({ filename }), { local: true })
 * })
 *
 * const value = await Effect.runPromise(Effect.scoped(program).pipe(Effect.provide(NodeServices.layer)))
 * assert.deepStrictEqual(value, Option.some({ dark: true }))
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerStore = (
  options: Options & { readonly table?: string | undefined }
): Layer.Layer<VersionedStore.VersionedStore, VersionedStore.VersionedStoreError> =>
  VersionedStore.layerSql({ table: options.table }).pipe(
    Layer.provide(layer(options)),
    Layer.catch((error) =>
      Layer.effect(
        VersionedStore.VersionedStore,
        error._tag === "SqlError"
          ? storeService.unavailable({
              operation: "open",
              storage: "database",
              error: storeService.errorName(error),
              cause: error
            })
          : error
      )
    )
  )
