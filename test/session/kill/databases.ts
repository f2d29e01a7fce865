/** The databases of the tests: SQLite, and PostgreSQL where its address is given. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import type { Database } from "./task.ts"

const url = process.env["EMISSARY_TEST_POSTGRES"] ?? ""

const execute = (statement: string) =>
  Effect.gen(function* () {
    const { PgClient, layer } = yield* Effect.promise(() => import("@effect/sql-pg/PgClient"))
    const client = layer({ url: Redacted.make(url) })
    yield* Effect.provide(
      Effect.flatMap(PgClient, (sql) => sql.unsafe(statement)),
      client
    )
  }).pipe(Effect.orDie)

/** A database of its own: locks of a cluster hold for a whole database. It is dropped at the end. */
const postgres = Effect.gen(function* () {
  const name = `effect_emissary_kill_${randomUUID().replaceAll("-", "")}`
  yield* Effect.acquireRelease(execute(`CREATE DATABASE ${name}`), () => execute(`DROP DATABASE ${name} WITH (FORCE)`))
  const own = new URL(url)
  own.pathname = `/${name}`
  return { type: "postgres", url: own.href } satisfies Database
})

export const databases = [
  {
    name: "SQLite",
    open: (directory: string) => Effect.succeed<Database>({ type: "sqlite", filename: join(directory, "store.sqlite") })
  },
  ...(url === "" ? [] : [{ name: "PostgreSQL", open: () => postgres }])
]
