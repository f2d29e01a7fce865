import { assert, describe, it } from "@effect/vitest"
import { beforeAll } from "vitest"
import type { Figures } from "../../scripts/stories.ts"
import type { Part } from "../../scripts/stories/scenarios.ts"
import { requireBuild, run } from "./run.ts"

interface Limit {
  readonly part: Part
  readonly figure: keyof Figures
  readonly most: number
  /** The limit until the code satisfies `most`: only ever lowered, and removed in the end. */
  readonly pending?: number
}

/** `npm run stories -- --details` lists the files of each story. */
const limits: ReadonlyArray<Limit> = [
  { part: "warm", figure: "files", most: 14, pending: 33 },
  { part: "warm", figure: "crossings", most: 130, pending: 280 },
  { part: "decode", figure: "files", most: 12, pending: 20 },
  { part: "next", figure: "files", most: 8, pending: 18 }
]

describe("HOUSE-10 stories", () => {
  let figures: Record<Part, Figures>

  requireBuild()

  beforeAll(async () => {
    const { code, output, stdout } = await run("node", ["scripts/stories.ts", "--json"])
    assert.strictEqual(code, 0, output)
    figures = JSON.parse(stdout)
  })

  it.each(limits)("$part: $figure", ({ figure, most, part, pending }) => {
    assert.isAtMost(figures[part][figure], pending ?? most)
  })

  it("enters files in every part", () => {
    for (const { crossings, files, functions } of Object.values(figures)) {
      assert.isAbove(files, 1)
      assert.isAtLeast(functions, files)
      assert.isAtLeast(crossings, files - 1)
    }
  })
})
