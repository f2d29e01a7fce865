import { Effect, Layer, Semaphore, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError, Statement } from "effect/sql"
import type { SqlConnection } from "effect/sql"
import { DatabaseSync, type SQLInputValue } from "node:sqlite"

/** A small `SqlClient` over the SQLite of Node, as an application would write one. */
export const layer = (file: string): Layer.Layer<SqlClient.SqlClient> =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const database = yield* Effect.acquireRelease(
        Effect.sync(() => {
          const database = new DatabaseSync(file, { timeout: 20_000 })
          database.exec("PRAGMA journal_mode = WAL")
          return database
        }),
        (database) => Effect.sync(() => database.close())
      )

      const run = (sql: string, params: ReadonlyArray<unknown>) =>
        Effect.try({
          // Parameters of the statements under test are text
          try: () => database.prepare(sql).all(...(params as ReadonlyArray<SQLInputValue>)),
          catch: (cause) =>
            new SqlError.SqlError({
              reason: SqlError.classifySqliteError(cause, { message: "SQLite failed", operation: "execute" })
            })
        })

      const connection: SqlConnection.Connection = {
        execute: (sql, params, transformRows) =>
          Effect.map(run(sql, params), (rows) => (transformRows === undefined ? rows : transformRows(rows))),
        executeRaw: run,
        executeStream: (sql, params) => Stream.fromIterableEffect(run(sql, params)),
        executeValues: (sql, params) => Effect.map(run(sql, params), (rows) => rows.map((row) => Object.values(row))),
        executeValuesUnprepared: (sql, params) =>
          Effect.map(run(sql, params), (rows) => rows.map((row) => Object.values(row))),
        executeUnprepared: (sql, params) => run(sql, params)
      }

      // One connection: statements in a transaction are not mixed with others
      const gate = yield* Semaphore.make(1)
      return yield* SqlClient.make({
        acquirer: Effect.as(
          Effect.acquireRelease(gate.take(1), () => gate.release(1)),
          connection
        ),
        compiler: Statement.makeCompilerSqlite(),
        driver: "node-sqlite-test",
        spanAttributes: []
      })
    })
  ).pipe(Layer.provide(Reactivity.layer))
