import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { root } from "./run.ts"

interface Entry {
  readonly version?: string
  readonly resolved?: string
  readonly optionalDependencies?: Record<string, string>
}

const read = (folder: string): Record<string, Entry> =>
  JSON.parse(readFileSync(join(root, folder, "package-lock.json"), "utf8")).packages

const developed: Record<string, string | undefined> = manifest.devDependencies

const packages = read("")
const bench = read("bench/compare")
const screen = read("test/screen")
const consumers = read("test/consumers")

describe("PKG-2 lockfile", () => {
  it("names versions, not places to download from", () => {
    for (const [path, { resolved, version }] of [packages, bench, screen, consumers].flatMap((all) =>
      Object.entries(all)
    )) {
      assert.isUndefined(resolved, path)
      assert.isString(version, path)
    }
  })

  it("knows the packages of every platform, or `npm ci` refuses it (npm run lockfile)", () => {
    for (const lock of [packages, consumers]) {
      const named = Object.values(lock).flatMap((entry) => Object.entries(entry.optionalDependencies ?? {}))
      for (const [name, version] of named.filter(([, version]) => /^\d/.test(version))) {
        assert.strictEqual(lock[`node_modules/${name}`]?.version, version, name)
      }
    }
  })

  it("brings no second copy of effect to the benchmarks", () => {
    assert.notProperty(bench, "node_modules/effect")
  })

  it("has the exact versions that package.json asks for", () => {
    for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
      assert.strictEqual(packages[`node_modules/${name}`]?.version, version, name)
    }
  })
})

describe("MEND-14 peers", () => {
  it("of the AI SDK are of the major whose models have the specification v4", () => {
    const clients = Object.entries(manifest.peerDependencies).filter(([name]) => name.startsWith("@ai-sdk/"))
    assert.isAbove(clients.length, 5)
    for (const [name, range] of clients) {
      assert.match(range, /^\^\d+\.0\.0$/, name)
      const tried = developed[name]
      if (tried !== undefined) assert.strictEqual(tried.split(".")[0], range.slice(1).split(".")[0], name)
    }
  })
})
