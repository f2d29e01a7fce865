/**
 * DUR-7: real processes with sessions and load, killed, stopped and deployed anew. `npm run kill` is the full run, with a
 * server of PostgreSQL that is restarted.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { makeDirectory } from "../store/directory.ts"
import { databases } from "./kill/databases.ts"
import * as runs from "./kill/run.ts"

const directory = makeDirectory()

const seed = Number(process.env["EMISSARY_KILL_SEED"] ?? 1)

const small = {
  seed,
  clients: 3,
  messages: 3,
  readers: 1,
  pace: 20,
  leaseMillis: 600,
  pause: 300,
  patience: 120_000
}

const home = (name: string): string => {
  const path = join(directory, name)
  mkdirSync(path)
  return path
}

const run = (
  name: string,
  options: Pick<runs.Options, "database" | "directory" | "home" | "runners" | "kills"> & Partial<runs.Options>
) =>
  Effect.gen(function* () {
    const result = yield* runs.run({ ...small, ...options })
    assert.deepStrictEqual(runs.faults(result).slice(0, 5), [], `${name}\n${runs.render(result)}`)
    const { breaks, kills, outages } = result.figures.trouble
    assert.isAtLeast(kills, options.kills)
    assert.deepStrictEqual([outages, breaks], [options.outages ?? 0, options.breaks ?? 0])
  })

// They wait most of the time: side by side
describe.concurrent("DUR-7 processes with sessions are killed under load", () => {
  it.live(
    "processes that share a SQLite file, one of them stopped beyond its lease: nothing is lost, started twice or stuck",
    () => {
      const directory = home("shared")
      const database = { type: "sqlite", filename: join(directory, "store.sqlite") } as const
      return run("shared", { directory, database, home: "process", runners: 2, kills: 4, stops: 1, outages: 2 })
    },
    290_000
  )

  it.live(
    "a cluster of one process on SQLite: nothing is lost, started twice or stuck",
    () => {
      const directory = home("cluster")
      const database = { type: "sqlite", filename: join(directory, "store.sqlite") } as const
      return run("cluster", { directory, database, home: "cluster", runners: 1, kills: 3, outages: 1, breaks: 1 })
    },
    290_000
  )

  for (const { open } of databases.filter(({ name }) => name === "PostgreSQL")) {
    it.live(
      "three runners on PostgreSQL, one of them stopped beyond its lock: nothing is lost, started twice or stuck",
      () =>
        Effect.gen(function* () {
          const directory = home("fleet")
          yield* run("fleet", {
            directory,
            database: yield* open(directory),
            home: "cluster",
            runners: 3,
            kills: 3,
            stops: 1,
            leaseMillis: 1000
          })
        }).pipe(Effect.scoped),
      290_000
    )
  }
})
