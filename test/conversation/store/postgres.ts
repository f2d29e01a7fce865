import { Layer, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { describe, it } from "vitest"

const address = process.env["EMISSARY_TEST_POSTGRES"]

/** What is needed of the driver, which is looked for only when there is an address. */
interface Driver {
  readonly layer: (options: { readonly url: Redacted.Redacted<string> }) => Layer.Layer<SqlClient.SqlClient, unknown>
}

const driver = "@effect/sql-pg/PgClient"

const given = address !== undefined && address !== ""

// A skipped test that says why is the message of this file
describe("PostgreSQL", () => {
  it.skipIf(!given)(
    "runs only when its address is given: EMISSARY_TEST_POSTGRES=postgres://user@host:port/database",
    () => {}
  )
})

const connect = async () => {
  // The package says what it exports
  const { layer }: Driver = await import(/* @vite-ignore */ driver)
  return layer({ url: Redacted.make(address ?? "") }).pipe(Layer.orDie)
}

/** A client of PostgreSQL where there is one. */
export const postgres: ReadonlyArray<Layer.Layer<SqlClient.SqlClient>> = given ? [await connect()] : []
