import { assert, describe, it } from "@effect/vitest"
import { areas, hitsOf } from "../../scripts/english.ts"
import { inComment, inMessage, inPage, inText, type Finding } from "../../scripts/lint/english.ts"

const words = (findings: ReadonlyArray<Finding>) => findings.map(({ word }) => word)

describe("HOUSE-8 plain English", () => {
  // `npm run lint:english <path part>` lists the hits of a part
  it.each(areas)("HOUSE-8 no words to avoid in %s", (area) => {
    assert.deepStrictEqual(
      hitsOf(area).map(({ line, path, word }) => `${path}:${line} "${word}"`),
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

  it("HOUSE-10 finds words in the place of a noun, in comments and pages", () => {
    const comment = `*
 * Names a call, or one
 * that waits. The usage is that of the run, those of tools included; such a
 * name, of which none is kept. The ones which are left.`
    const expected = ["one that", "that of", "those of", "such a", "of which", "ones which"]
    assert.deepStrictEqual(
      words(inComment(comment)).map((found) => found.replace(/[\s*]+/g, " ")),
      expected
    )
    assert.deepStrictEqual(words(inPage("A tool, or one that runs elsewhere.")), ["one that"])
    assert.deepStrictEqual(inText("a tool, or one that runs elsewhere"), [])
    for (const text of [
      "One of two calls, such as `one that`",
      "No such tool; these are all that count",
      "It is that."
    ]) {
      assert.deepStrictEqual(inPage(text), [], text)
    }
  })

  it("HOUSE-10 finds words in the place of a noun in messages", () => {
    for (const [message, found] of [
      ["expected a run under way, found one that ended", ["one that", "found one"]],
      ["expected the digest as it is shown, got another one", ["another one"]],
      ["a signed one", ["a signed one"]],
      ["expected a state of a, found one of b", ["found one"]],
      ["an agent without one", ["without one"]],
      ["a digest that is that of the request", ["that of"]]
    ] as const) {
      assert.sameMembers(words(inMessage(message)), [...found], message)
    }
    for (const message of ["expected one of the models", "one status for each call", "a limit of one per batch"]) {
      assert.deepStrictEqual(inMessage(message), [], message)
    }
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
