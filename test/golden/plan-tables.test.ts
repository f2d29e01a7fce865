/** The tables P and Q of `plan-cases.md`, which its JSON does not hold: one test per row. */
import { assert, describe, it } from "@effect/vitest"
import { rows as data } from "./plan-tables/data.ts"
import { rows as nesting } from "./plan-tables/nesting.ts"
import { rows as streams } from "./plan-tables/streams.ts"
import { itNamesThem, proven } from "./proven.ts"

const all = [data, nesting, streams].flatMap((rows) => Object.entries(rows))

/** P37 is about the graph of agents that its events make: nothing here has that graph. */
const leftOut = ["P37"]

const ids = (group: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${group}${String(i + 1).padStart(2, "0")}`)

describe("golden cases of the tables P and Q", () => {
  for (const [id, { expected, instead, test }] of all.toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    it.effect(instead === undefined ? `${id}: ${expected}` : `${id}: ${expected}. Here: ${instead}`, () => test)
  }

  it("has each row of the tables once", () => {
    const rows = [...all.map(([id]) => id), ...leftOut, ...Array.from(proven).filter((id) => /^[PQ]/u.test(id))]
    assert.deepStrictEqual(rows.toSorted(), [...ids("P", 40), ...ids("Q", 10)])
  })

  itNamesThem()
})
