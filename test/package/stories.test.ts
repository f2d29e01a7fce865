import { assert, describe, it } from "@effect/vitest"
import { beforeAll } from "vitest"
import type { Figures, WayIn } from "../../scripts/stories.ts"
import type { Part } from "../../scripts/stories/scenarios.ts"
import { requireBuild, run } from "./run.ts"

/** `npm run stories` prints the figures of each story, and with `-- --details` its files: they have no limit. */
describe("HOUSE-10 stories", () => {
  let figures: Record<Part, Figures>
  let way: WayIn

  requireBuild()

  beforeAll(async () => {
    const { code, output, stdout } = await run("node", ["scripts/stories.ts", "--json"])
    assert.strictEqual(code, 0, output)
    ;({ figures, way } = JSON.parse(stdout))
  })

  it("enters files in every part", () => {
    for (const { crossings, files, functions } of Object.values(figures)) {
      assert.isAbove(files, 1)
      assert.isAtLeast(functions, files)
      assert.isAtLeast(crossings, files - 1)
    }
  })

  it("HOUSE-9 a turn of a session writes at most six values for its two commits, and reads none that it knows", () => {
    assert.isAtMost(figures.turn.written, 6)
    assert.strictEqual(figures.turn.read, 0)
    assert.deepStrictEqual([figures.warm.written, figures.warm.read], [0, 0])
  })

  it("HOUSE-6 agent.ask crosses at most 6 names before the first event, none of them longer than 60 lines", () => {
    const names = way.crossed.map(({ name }) => name)
    assert.strictEqual(names[0], "ask")
    assert.include(names, "runAgent")
    assert.isAtMost(names.length, 6, names.join(" "))
    assert.deepStrictEqual(
      way.crossed.filter(({ lines }) => lines > 60),
      []
    )
  })
})
