/** WORLD-3: worlds of a fleet. `npm run worlds -- --home fleet` runs more of them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Simulation } from "effect-emissary/testing"
import * as worlds from "./worlds.ts"

const small = { calls: 2, kills: 2, pauses: 1, stops: 1, jumps: 1 }

/** Seeds that went wrong once, each with what was mended. */
const found: ReadonlyArray<readonly [seed: number, setting: Partial<worlds.Setting>, what: string]> = [
  [
    67,
    { calls: 6, kills: 8, pauses: 5, stops: 1, jumps: 3, failures: 60, conflicts: 0, losses: 40, more: 0 },
    "the readers of a session go on after the store has failed while its events were read for them"
  ]
]

describe("WORLD-3 a fleet in a world", () => {
  it.live("keeps the laws, and is the same twice", () =>
    Effect.gen(function* () {
      const reports: Array<Simulation.Report> = []
      const seen: Array<worlds.Seen> = []
      for (const [seed, setting] of [
        [1, small],
        [5, { ...small, more: 1, releases: 1 }]
      ] as const) {
        const onSeen = (one: worlds.Seen) => seen.push(one)
        reports.push(yield* worlds.run(seed, { home: "fleet", setting, compare: seed === 1, onSeen }))
      }
      // The last world has everything: an agent that is data, a job whose step is three agents deep, and a release
      const { diary, effects } = seen.at(-1) ?? assert.fail("no world was seen")
      const sessions = [...diary.lives.values()].map(({ session }) => session)
      assert.includeMembers(sessions, ["a", "d", "job"])
      assert.isTrue(effects.ended.some((call) => call.startsWith("pay job/desk")))
      assert.lengthOf(diary.releases, 1)
      const sum = (name: string) => reports.reduce((all, { figures }) => all + (figures[name] ?? 0), 0)
      assert.isAbove(sum("killed"), 1)
      assert.isAbove(sum("storeOperations"), 100)
    })
  )

  for (const [seed, setting, what] of found) {
    it.live(`WORLD-9 the world ${seed} keeps the laws: ${what}`, () => worlds.run(seed, { home: "fleet", setting }))
  }
})
