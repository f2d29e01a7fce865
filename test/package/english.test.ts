import { assert, describe, it } from "@effect/vitest"
import { areas, hitsOf, type Hit } from "../../scripts/english.ts"
import { inComment, inText, type Finding } from "../../scripts/lint/english.ts"

const words = (findings: ReadonlyArray<Finding>) => findings.map(({ word }) => word)

/**
 * The number of hits that each part of the repository still has: only ever lowered, and 0 for what is not listed. Where it is 0 the
 * rule `house/plain-english` goes to "error" for those files in `.oxlintrc.json`. `npm run lint:english <path part>` lists
 * the hits.
 */
const pending: Readonly<Record<string, number>> = {
  "src/plan": 39
}

/** The hits by room for `src` and `test`, by area for the rest. */
const parts = (): ReadonlyMap<string, ReadonlyArray<Hit>> => {
  const found = new Map<string, Array<Hit>>()
  for (const area of areas) {
    for (const hit of hitsOf(area)) {
      const part = area === "src" || area === "test names" ? hit.path.split("/").slice(0, 2).join("/") : area
      found.set(part, [...(found.get(part) ?? []), hit])
    }
  }
  return found
}

describe("HOUSE-8 plain English", () => {
  it("HOUSE-8 no part has more of the words we avoid than it had", () => {
    const more = [...parts()].filter(([part, hits]) => hits.length > (pending[part] ?? 0))
    assert.deepStrictEqual(
      more.map(([part, hits]) => `${part}: ${hits.length}, at most ${pending[part] ?? 0}`),
      []
    )
  })

  it("finds words in any form, and where", () => {
    assert.deepStrictEqual(
      words(inText("It tells, told and is Standing; nobody gave. Whoever goes on cannot be had.")),
      ["tells", "told", "Standing", "nobody", "gave", "Whoever", "goes on", "cannot be had"]
    )
    assert.deepStrictEqual(inText("a\nb tells")[0]?.offset, 4)
  })

  it("looks neither at code nor at quotations", () => {
    const text = [
      "`tell` and",
      "`two",
      'tells` and {@link Nobody.tells} and "says" and https://a.test/tells/told',
      "```ts",
      "tell()",
      "```",
      "<!-- stands -->",
      "understand standard foretold, a retry that gives up"
    ].join("\n")
    assert.deepStrictEqual(inText(text), [])
    assert.deepStrictEqual(words(inComment(`*\n * \`\`\`ts\n * tell()\n * \`\`\`\n * Emits a\n * told`)), ["told"])
  })

  it("finds comments that begin with a clause", () => {
    for (const text of [
      " What is left",
      "*\n * Whether it is over.\n * A question?",
      " How many runs",
      " Where a run begins."
    ]) {
      assert.strictEqual(inComment(text).length, 1, text)
    }
    for (const text of [
      " What if it is over?",
      " Where a run begins, its depth is 0.",
      " `None` where it is missing",
      " Whatever is left",
      " The rest. What then"
    ]) {
      assert.deepStrictEqual(inComment(text), [], text)
    }
  })
})
