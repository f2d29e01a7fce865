import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll } from "vitest"
import type { Figures } from "../../scripts/stories.ts"
import type { Part } from "../../scripts/stories/scenarios.ts"
import { requireBuild, root, run } from "./run.ts"

/** `npm run stories` prints the figures of each story, and with `-- --details` its files: they have no limit. */
describe("HOUSE-10 stories", () => {
  let figures: Record<Part, Figures>

  requireBuild()

  beforeAll(async () => {
    const { code, output, stdout } = await run("node", ["scripts/stories.ts", "--json"])
    assert.strictEqual(code, 0, output)
    figures = JSON.parse(stdout)
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
