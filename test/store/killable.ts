import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import * as Statement from "effect/sql/Statement"
import { SqliteClient } from "effect-emissary/node"

/**
 * A client of SQLite that kills its process at one point of its use: before or after a
 * statement. Counting starts at `arm`.
 */
export const make = (killAt: number) => {
  let armed = false
  let points = 0
  const point = Effect.sync(() => {
    if (!armed) return
    points += 1
    if (points === killAt) {
      process.kill(process.pid, "SIGKILL")
      // Never to be left
      for (;;);
    }
  })

  const around = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.andThen(point, Effect.tap(effect, point))

  const killable = (connection: Connection): Connection => ({
    ...connection,
    execute: (sql, params, transformRows) => around(connection.execute(sql, params, transformRows)),
    executeUnprepared: (sql, params, transformRows) => around(connection.executeUnprepared(sql, params, transformRows))
  })

  const layer = (filename: string) =>
    Layer.effect(
      SqlClient.SqlClient,
      Effect.gen(function* () {
        const client = yield* SqlClient.SqlClient
        return yield* SqlClient.make({
          acquirer: Effect.map(client.reserve, killable),
          compiler: Statement.makeCompilerSqlite(),
          driver: client.driver,
          beginTransaction: "BEGIN IMMEDIATE",
          spanAttributes: []
        })
      })
    ).pipe(Layer.provide([SqliteClient.layer({ filename }), Reactivity.layer]))

  return {
    layer,
    arm: Effect.sync(() => {
      armed = true
    }),
    points: Effect.sync(() => points)
  }
}
