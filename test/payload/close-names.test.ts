import { assert, describe, it } from "@effect/vitest"
import { closestName, closestNames, makeFuel } from "#src/payload/internal/closeNames.ts"
import * as fuel from "#src/payload/internal/fuel.ts"

/** The distance by its definition. */
const distance = (a: string, b: string): number => {
  const [x, y] = [a.slice(1), b.slice(1)]
  if (a === "" || b === "") return Math.max(a.length, b.length)
  if (a[0] === b[0]) return distance(x, y)
  return 1 + Math.min(distance(x, b), distance(a, y), distance(x, y))
}

const words = [
  "",
  "a",
  "ab",
  "ba",
  "abc",
  "acb",
  "bca",
  "abcd",
  "abdc",
  "bcda",
  "xbcd",
  "aabb",
  "abab",
  "abcde",
  "edcba"
]

describe("SOUND-7 suggestions for misspelled names", () => {
  it("the closest name has the fewest edits, and fewer than half of the letters", () => {
    for (const name of words) {
      for (const known of words) {
        const edits = distance(name, known)
        const expected = edits < name.length / 2 ? known : undefined
        assert.strictEqual(closestName(name, [known], makeFuel()), expected, `${name} ${known}: ${edits}`)
      }
    }
  })

  it("the first of several with the fewest edits", () => {
    assert.strictEqual(closestName("triage", ["trixyz", "triagr", "triagx"], makeFuel()), "triagr")
    assert.strictEqual(closestName("triage", ["triagrs", "triaga"], makeFuel()), "triaga")
  })

  it("several, the best first, at most as many as asked for", () => {
    const known = ["gpt-4", "gpt-4.1", "gpt-5", "gpt-5-mini", "o3"]
    assert.deepStrictEqual(closestNames("gpt-5.", known), ["gpt-5", "gpt-4", "gpt-4.1"])
    assert.deepStrictEqual(closestNames("gpt-5.", known, 1), ["gpt-5"])
    assert.deepStrictEqual(closestNames("claude", known), [])
  })

  it("none once the fuel is spent", () => {
    assert.strictEqual(closestName("triage", ["triagr"], fuel.make(0.5)), undefined)
    assert.strictEqual(closestName("triage", ["triagr"], fuel.make(1)), "triagr")
  })
})
