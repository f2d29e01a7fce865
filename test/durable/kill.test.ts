/**
 * DUR-7: real processes with sessions and load, killed, stopped and deployed anew. `npm run kill` is the full run, with a
 * server of PostgreSQL that is restarted.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { makeDirectory } from "../conversation/store/directory.ts"
import { databases } from "./kill/databases.ts"
import * as runs from "./kill/run.ts"

const directory = makeDirectory()

/** Each run repeats nothing: a failure prints the seed. */
const seed = Number(process.env["EMISSARY_KILL_SEED"] ?? Date.now() % 1_000_000)

const small = {
  seed,
  clients: 4,
  messages: 4,
  readers: 2,
  pace: 25,
  leaseMillis: 600,
  pause: 600,
  patience: 30_000
}

const home = (name: string): string => {
  const path = join(directory, name)
  mkdirSync(path)
  return path
}

const checked = (result: runs.Result, kills: number) => {
  assert.deepStrictEqual(runs.faults(result).slice(0, 5), [], runs.render(result))
  assert.isAtLeast(result.figures.trouble.kills, kills)
}

describe("DUR-7 processes with sessions are killed under load", () => {
  for (const { name, open } of databases) {
    it.live(
      `${name}: one process that is killed loses no message, starts no call twice, and leaves no session stuck`,
      () =>
        Effect.gen(function* () {
          const path = home(`one-${name}`)
          const database = yield* open(path)
          const result = yield* runs.run({ ...small, directory: path, database, home: "process", runners: 1, kills: 6 })
          checked(result, 6)
        }).pipe(Effect.scoped),
      120_000
    )
  }

  it.live(
    "the figures show sessions that begin a turn again after a crash",
    () =>
      Effect.gen(function* () {
        const path = home("naive")
        const database = { type: "sqlite", filename: join(path, "store.sqlite") } as const
        const result = yield* runs.run({ ...small, directory: path, database, home: "naive", runners: 1, kills: 4 })
        assert.isAbove(result.verdict.startedTwice.length, 0, runs.render(result))
        assert.deepStrictEqual(result.verdict.lost, [])
      }),
    60_000
  )
})
