/** SCREEN-3: worlds whose clients have sessions over HTTP. `npm run worlds -- --home http` runs more of them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Simulation } from "effect-emissary/testing"
import * as worlds from "./worlds.ts"

describe("SCREEN-3 sessions over HTTP in the network of a world", () => {
  it.live("keep the laws, and pages and live readers show what the log has (L12)", () =>
    Effect.gen(function* () {
      const reports: Array<Simulation.Report> = []
      let drafts = 0
      const onSeen = ({ diary }: worlds.Seen) => void (drafts += diary.drafts)
      for (const seed of [3, 7, 20]) {
        reports.push(yield* worlds.run(seed, { home: "http", setting: { calls: 3 }, compare: seed === 7, onSeen }))
      }
      const sum = (name: string) => reports.reduce((all, { figures }) => all + (figures[name] ?? 0), 0)
      for (const name of ["killed", "stopped", "cuts", "lostCalls", "doubleCalls"]) assert.isAbove(sum(name), 2, name)
      assert.isAbove(drafts, 10)
    })
  )
})
