import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { requireBuild, root, run } from "./run.ts"

const page = readFileSync(join(root, "docs", "plans.md"), "utf8")

describe("PLAN-10 pictures", () => {
  requireBuild()

  it("PLAN-10 every example of a plan has its picture in docs/plans.md", () => {
    for (const name of ["research", "triage", "fan-out", "approval", "loop"]) {
      assert.match(page, new RegExp(`<!-- picture: plan-${name} -->\\n\\n\`\`\`mermaid\\nflowchart `))
    }
  })

  it("PLAN-10 the pictures are those of the plans as they are now", async () => {
    const { code, output } = await run("node", ["scripts/pictures.ts", "--check"])
    assert.strictEqual(code, 0, output)
  })
})
