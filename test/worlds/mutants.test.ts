/** WORLD-7: faults that are put into the code, and what the worlds notice of them. `npm run worlds -- --mutants` runs them all. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "vitest"
import { mutated, mutants } from "./mutants.ts"
import { play, readResults } from "./noticing.ts"

const sourceOf = (file: string) => readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), "utf8")

describe("WORLD-7 the faults that the worlds are to notice", () => {
  it("are at least forty, each in a function of its own, at a place that is there once", () => {
    assert.isAtLeast(mutants.length, 40)
    for (const mutant of mutants) assert.notStrictEqual(mutated(mutant, sourceOf(mutant.file)), sourceOf(mutant.file))
    const places = mutants.map(({ file, function: place }) => `${file} ${place}`)
    assert.deepStrictEqual(places.toSorted(), [...new Set(places)].toSorted())
    for (let id = 10; id <= 17; id++)
      assert(
        mutants.some(({ mends }) => mends === `RIGHT-${id}`),
        `RIGHT-${id}`
      )
    const names = mutants.map(({ name }) => name)
    assert.strictEqual(new Set(names).size, names.length)
  })

  it("are noticed: at least 36 within 500 worlds each; at least fifteen of all leave the tests of sessions green", () => {
    const found = Object.values(readResults()).filter(({ law, seeds }) => law !== undefined && seeds <= 500)
    assert.isAtLeast(found.length, 36)
    assert.isAtLeast(Object.values(readResults()).filter(({ tests }) => tests === "none").length, 15)
    assert.deepStrictEqual(Object.keys(readResults()).toSorted(), mutants.map(({ name }) => name).toSorted())
  })

  for (const [name, seed] of [
    ["a takeover has the epoch of the owner before", 1],
    ["a receipt names the event before", 1]
  ] as const) {
    it(`is noticed: ${name}`, async () => {
      const { problem = "" } = await play(name, seed, 1)
      assert.notStrictEqual(problem, "")
    })
  }
})
