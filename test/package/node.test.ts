import { assert, describe, it } from "@effect/vitest"
import manifest from "../../package.json" with { type: "json" }
import { run } from "./run.ts"

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number)

describe("PKG-3 Node", () => {
  it("is the one this repository pins", () => {
    assert.strictEqual(process.versions.node, manifest.devDependencies.node)
  })

  it("is one that Effect supports", () => {
    assert.strictEqual(manifest.engines.node, ">=22.19.0")
    assert.isTrue(major > 22 || (major === 22 && minor >= 19), process.version)
  })

  it("is pinned exactly, with its install script approved", () => {
    assert.match(manifest.devDependencies.node, /^24\.\d+\.\d+$/)
    assert.strictEqual(manifest.allowScripts.node, true)
  })

  it("is also what a program started by a script gets", async () => {
    const { stdout } = await run("node", ["--version"])
    assert.strictEqual(stdout.trim(), process.version)
  })
})
