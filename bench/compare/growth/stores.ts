/** A plan of 100 steps that each write, as a job in a store. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, ManagedRuntime, Redacted } from "effect"
import { VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import { makeLine } from "./plan.ts"

export interface Options {
  readonly store: "memory" | "SQLite" | "PostgreSQL"
  /** Steps. */
  readonly count: number
}

const directory = mkdtempSync(join(tmpdir(), "emissary-bench-"))
const schema = `emissary_bench_${process.pid}`

const address = { url: Redacted.make(process.env["EMISSARY_TEST_POSTGRES"] ?? "") }
const postgres = PgClient.layer({ ...address, startupParameters: { search_path: schema } })

/** One statement on a connection of its own. */
const execute = (statement: string) =>
  Effect.runPromise(
    Effect.provide(
      PgClient.PgClient.use((client) => client.unsafe(statement)),
      PgClient.layer(address)
    )
  )

let usesPostgres = false

const makeSchema = async (): Promise<void> => {
  usesPostgres = true
  await execute(`CREATE SCHEMA ${schema}`)
}

export const end = async (): Promise<void> => {
  rmSync(directory, { recursive: true, force: true })
  if (usesPostgres) await execute(`DROP SCHEMA ${schema} CASCADE`)
}

/** One insert for each step, of about the same size, with a statement that is prepared once. */
export const bare = async ({ count, store }: Options): Promise<() => unknown> => {
  if (store === "memory") {
    const rows = new Map<string, string>()
    let run = 0
    return () => {
      run += 1
      for (let index = 0; index < count; index++)
        rows.set(`run${run}/${index}`, JSON.stringify({ step: `s${index}`, task: "go", output: "go", at: Date.now() }))
      rows.clear()
    }
  }
  if (store === "PostgreSQL") {
    await makeSchema()
    const runtime = ManagedRuntime.make(postgres)
    const client = await runtime.runPromise(PgClient.PgClient)
    await runtime.runPromise(client`CREATE TABLE store (key TEXT PRIMARY KEY, value TEXT)`)
    let run = 0
    return () => {
      run += 1
      const indexes = Array.from({ length: count }, (_, index) => index)
      const insert = (index: number) => {
        const value = JSON.stringify({ step: `s${index}`, task: "go", output: "go", at: Date.now() })
        return client`INSERT INTO store (key, value) VALUES (${`run${run}/${index}`}, ${value})`
      }
      return runtime.runPromise(Effect.forEach(indexes, insert, { discard: true }))
    }
  }
  const database = new DatabaseSync(join(directory, "bare.sqlite"))
  database.exec("PRAGMA journal_mode = WAL; CREATE TABLE store (key TEXT PRIMARY KEY, value TEXT)")
  const insert = database.prepare("INSERT INTO store (key, value) VALUES (?, ?)")
  let run = 0
  return () => {
    run += 1
    for (let index = 0; index < count; index++)
      insert.run(`run${run}/${index}`, JSON.stringify({ step: `s${index}`, task: "go", output: "go", at: Date.now() }))
  }
}

export const emissary = async ({ count, store }: Options): Promise<() => unknown> => {
  if (store === "PostgreSQL") await makeSchema()
  const versioned = {
    memory: VersionedStore.layerMemory,
    SQLite: SqliteClient.layerStore({ filename: join(directory, "emissary.sqlite") }),
    PostgreSQL: Layer.provide(VersionedStore.layerSql(), postgres)
  }[store]
  let run = 0
  const bound = await Effect.runPromise(makeLine(count, (index) => ({ writes: `k${index}` })))
  const runtime = ManagedRuntime.make(Layer.provide(Session.layer([bound]), versioned))
  return () =>
    runtime.runPromise(
      Effect.gen(function* () {
        const result = yield* Session.run(bound, { id: `run${run++}`, input: "go" })
        if (result.outcome !== "Completed") return yield* Effect.die(`the plan is ${result.outcome}`)
      })
    )
}
