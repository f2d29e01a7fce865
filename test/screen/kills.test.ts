/**
 * SCREEN-6: a sample of the kills of `npm run worlds -- --screen`, each with the published clients. The process of a session dies at a stored event,
 * another process continues, and the pages that were connected and the pages that begin afresh show what is stored.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as kills from "../worlds/kills.ts"
import { scripts } from "../worlds/scripts.ts"
import { missing, peers, sayMissing } from "./peers.ts"
import { check } from "./replays.ts"

sayMissing("SCREEN-6")

/** The first turns of these scripts, and each so many of their kills. */
const sample = [
  ["reasoning", 1, 4],
  ["parallel requests", 1, 5],
  ["retries", 2, 7],
  ["failures", 2, 7],
  ["agents that are not shown", 1, 12],
  ["plans that ask", 2, 25],
  ["a plan that asks", 2, 12],
  ["everything", 1, 6]
] as const

describe.runIf(missing === undefined)("SCREEN-6 kills", () => {
  for (const [name, count, every] of sample) {
    it.live(`SCREEN-6 a kill at stored events leaves the stored conversation on each page: ${name}`, () =>
      Effect.gen(function* () {
        const number = scripts.findIndex((one) => one.name === name)
        const script = scripts[number]
        assert(script !== undefined)
        const turns = yield* kills.trunk(script, number, count)
        let cut = 0
        for (const turn of turns) yield* Effect.promise(() => check(peers(), turn))
        const all = turns.flatMap((_, turn) => kills.killsOf(turns, turn).map((kill, place) => ({ kill, place, turn })))
        for (const one of all.filter((_, index) => index % every === 0)) {
          const played = yield* kills.again(script, number, turns, one)
          assert.isTrue(played.killed)
          cut += (yield* Effect.promise(() => check(peers(), played))).cut
        }
        assert.isAbove(cut, 2)
      })
    )
  }
})
