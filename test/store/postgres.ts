import { Effect, Layer, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { afterAll, describe, it } from "vitest"
import type { Postgres } from "./worker.ts"

const url = process.env["EMISSARY_TEST_POSTGRES"] ?? ""

// A skipped test with the reason is the message of this file
describe("PostgreSQL", () => {
  it.skipIf(url === "")(
    "runs only when its address is given: EMISSARY_TEST_POSTGRES=postgres://user@host:port/database",
    () => {}
  )
})

/** Makes a schema for the tests of this file, removed after them. */
const makeSchema = async (): Promise<Postgres & { readonly client: Layer.Layer<SqlClient.SqlClient> }> => {
  const { PgClient } = await import("@effect/sql-pg")
  const schema = `effect_emissary_test_${randomUUID().replaceAll("-", "")}`
  const client = PgClient.layer({ url: Redacted.make(url), startupParameters: { search_path: schema } }).pipe(
    Layer.orDie
  )
  const execute = (statement: string) =>
    Effect.gen(function* () {
      yield* (yield* PgClient.PgClient).unsafe(statement)
    }).pipe(Effect.provide(client), Effect.runPromise)
  await execute(`CREATE SCHEMA ${schema}`)
  afterAll(() => execute(`DROP SCHEMA ${schema} CASCADE`))
  return { url, schema, client }
}

/** PostgreSQL where there is one. */
export const postgres = url === "" ? [] : [await makeSchema()]
