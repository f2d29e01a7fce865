import { assert, describe, it } from "@effect/vitest"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { root } from "./run.ts"

interface Entry {
  readonly version?: string
  readonly resolved?: string
  readonly optionalDependencies?: Record<string, string>
}

const readLockfile = async (): Promise<Record<string, Entry>> =>
  JSON.parse(await readFile(join(root, "package-lock.json"), "utf8")).packages

describe("PKG-2 lockfile", () => {
  it("names versions, not places to download from", async () => {
    for (const [path, { resolved, version }] of Object.entries(await readLockfile())) {
      assert.isUndefined(resolved, path)
      assert.isString(version, path)
    }
  })

  it("knows the packages of every platform, or `npm ci` refuses it (npm run lockfile)", async () => {
    const packages = await readLockfile()
    const named = Object.values(packages).flatMap((entry) => Object.entries(entry.optionalDependencies ?? {}))
    for (const [name, version] of named.filter(([, version]) => /^\d/.test(version))) {
      assert.strictEqual(packages[`node_modules/${name}`]?.version, version, name)
    }
  })

  it("has the exact versions that package.json asks for", async () => {
    const packages = await readLockfile()
    for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
      assert.strictEqual(packages[`node_modules/${name}`]?.version, version, name)
    }
  })
})
