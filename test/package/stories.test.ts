import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll } from "vitest"
import type { Figures } from "../../scripts/stories.ts"
import type { Part } from "../../scripts/stories/scenarios.ts"
import { requireBuild, root, run } from "./run.ts"

interface Limit {
  readonly part: Part
  readonly figure: keyof Figures
  readonly most: number
}

/**
 * `npm run stories -- --details` lists the files of each story. The limits of the redesign were 130 crossings, 12 and 8 files.
 * Since then fuel, signatures, captured services and the one writer of events have a file each. Speed took more: digests that
 * are computed when they are read, and a loop that calls its parts directly in place of Effects that wait. Calls under way
 * have a file of their own, below that of bound tools. Then a run that outlives edits compares definitions, a claimed log has a
 * file of its own, and a workflow has its hooks.
 */
const limits: ReadonlyArray<Limit> = [
  { part: "warm", figure: "files", most: 16 },
  { part: "warm", figure: "crossings", most: 250 },
  { part: "decode", figure: "files", most: 19 },
  { part: "next", figure: "files", most: 14 }
]

describe("HOUSE-10 stories", () => {
  let figures: Record<Part, Figures>

  requireBuild()

  beforeAll(async () => {
    const { code, output, stdout } = await run("node", ["scripts/stories.ts", "--json"])
    assert.strictEqual(code, 0, output)
    figures = JSON.parse(stdout)
  })

  it.each(limits)("$part: $figure", ({ figure, most, part }) => {
    assert.isAtMost(figures[part][figure], most)
  })

  it("enters files in every part", () => {
    for (const { crossings, files, functions } of Object.values(figures)) {
      assert.isAbove(files, 1)
      assert.isAtLeast(functions, files)
      assert.isAtLeast(crossings, files - 1)
    }
  })
})

it("HOUSE-10 CONTRIBUTING names files that exist, and functions that they have", () => {
  const text = readFileSync(join(root, "CONTRIBUTING.md"), "utf8")
  const paths = [...text.matchAll(/`((?:src|test|scripts)\/[^`*<>]+\.ts)`/g)].map(([, path]) => path ?? "")
  assert.isAbove(paths.length, 20)
  assert.deepStrictEqual(
    paths.filter((path) => !existsSync(join(root, path))),
    []
  )
  const named = [
    ...[...text.matchAll(/`(\w+)`\s+in\s+`(src\/[^`]+\.ts)`/g)].map(([, name, path]) => [name, path] as const),
    ...[...text.matchAll(/`(src\/[^`]+\.ts)`\s+\(`(\w+)`/g)].map(([, path, name]) => [name, path] as const)
  ]
  assert.isAbove(named.length, 10)
  assert.deepStrictEqual(
    named.filter(
      ([name, path]) =>
        !new RegExp(`^ *(export )?const ${name}\\b`, "m").test(readFileSync(join(root, path ?? ""), "utf8"))
    ),
    []
  )
})
