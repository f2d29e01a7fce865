/** DOCS-6: a release is made by one command, up to its upload. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import * as releases from "../../scripts/release.ts"
import { repository } from "../../scripts/repository.ts"
import { read as parsed, glob, walk } from "../../scripts/sources.ts"
import { root, run } from "./run.ts"

const textOf = (path: string): string => readFileSync(join(root, path), "utf8")

const address = "https://git.example/owner/effect-emissary"

interface Made {
  readonly isReady: boolean
  readonly said: string
  readonly commands: ReadonlyArray<string>
  readonly written: ReadonlyMap<string, string>
}

/** A release of the repository as it is, which writes to a map and runs nothing. */
const release = async (
  options: Partial<releases.Options> = {},
  changed: Partial<Omit<releases.System, "say" | "write">> = {}
): Promise<Made> => {
  const written = new Map<string, string>()
  const said: Array<string> = []
  const commands: Array<string> = []
  const { run = () => Promise.resolve(""), ...others } = changed
  const isReady = await releases.release(
    { version: "0.2.0", isDry: false, ...options },
    {
      repository: address,
      today: "2027-01-02",
      pins: {},
      read: (path) =>
        path === "CHANGELOG.md" ? "# Changelog\n\n## Unreleased\n\n- News.\n\n## 0.1.0\n\n- Old.\n" : textOf(path),
      ...others,
      run: (command) => {
        commands.push(command)
        return run(command)
      },
      write: (path, text) => void written.set(path, text),
      say: (line) => void said.push(line)
    }
  )
  return { isReady, said: said.join("\n"), commands, written }
}

describe("DOCS-6 npm run release", () => {
  it("sets version and addresses, runs each step in its order, and ends before the upload", async () => {
    const { commands, isReady, said, written } = await release()
    assert.isTrue(isReady)
    assert.deepStrictEqual(commands, ["git status --porcelain", ...releases.commands("0.2.0")])
    assert.isTrue(commands.every((command) => !command.includes("npm publish")))
    const made = JSON.parse(written.get("package.json") ?? "")
    const { bugs, homepage, repository, version, ...rest } = made
    assert.deepStrictEqual([version, homepage, bugs], ["0.2.0", `${address}#readme`, `${address}/issues`])
    assert.deepStrictEqual(repository, { type: "git", url: `git+${address}.git` })
    const { version: _, ...before } = { ...manifest, bugs: "", homepage: "", repository: "" }
    assert.deepStrictEqual(rest, Object.fromEntries(Object.entries(before).filter(([, value]) => value !== "")))
    const lock = JSON.parse(written.get("package-lock.json") ?? "")
    assert.deepStrictEqual([lock.version, lock.packages[""].version], ["0.2.0", "0.2.0"])
    assert.include(written.get("CHANGELOG.md"), "## 0.2.0 (2027-01-02)\n\n- News.")
    assert.include(said, "npm publish effect-emissary-0.2.0.tgz --access public --provenance")
    assert.deepStrictEqual(manifest.publishConfig, { access: "public", provenance: true })
  })

  it("writes package.json as the formatter does, with the addresses once", async () => {
    const first = await release({ version: manifest.version })
    const text = first.written.get("package.json") ?? ""
    const again = await release(
      { version: manifest.version },
      {
        read: (path) =>
          path === "package.json" ? text : path === "CHANGELOG.md" ? "## Unreleased\n\n- a" : textOf(path)
      }
    )
    assert.strictEqual(again.written.get("package.json"), text)
    const folder = await mkdtemp(join(tmpdir(), "release-"))
    await writeFile(join(folder, "package.json"), text)
    const { code, output } = await run("oxfmt", ["--check", "package.json"], folder)
    await rm(folder, { recursive: true })
    assert.strictEqual(code, 0, output)
  })

  it("stops with a sentence while the repository has no address", async () => {
    const { commands, isReady, said, written } = await release({}, { repository: "" })
    assert.isFalse(isReady)
    assert.strictEqual(
      said,
      `The repository has no address: package.json needs it, and npm links to it. Set "repository" in scripts/repository.ts`
    )
    assert.deepStrictEqual([commands, written.size], [["git status --porcelain"], 0])
  })

  it.runIf(repository === "")("stops so today, as a command", async () => {
    const { code, output } = await run("node", ["--no-warnings", "scripts/release.ts", "0.1.0", "--dry"])
    assert.strictEqual(code, 1)
    assert.include(output, "The repository has no address")
  })

  it.each([
    ["a version that is none", { version: "one" }, {}, /^The version: expected one such as 0\.1\.0, got "one"/],
    ["no version", { version: "" }, {}, /^The version: expected one such as 0\.1\.0, got ""/],
    ["an address with a slash at its end", {}, { repository: `${address}/` }, /without a slash at its end/],
    ["changes", {}, { run: () => Promise.resolve(" M src/index.ts\n") }, /expected no changes, got\n M src\/index\.ts/],
    [
      "a version that is released",
      { version: "0.1.0" },
      { pins: { "0.1.0": {} } },
      /^0\.1\.0: expected a version that is not released/
    ],
    [
      "a changelog without entries",
      {},
      { read: () => "## Unreleased\n\n## 0.1.0\n\n- Old.\n" },
      /^CHANGELOG\.md: expected entries/
    ]
  ] as const)("refuses %s, and changes nothing", async (_, options, changed, expected) => {
    const { commands, isReady, said, written } = await release(options, changed)
    assert.isFalse(isReady)
    assert.match(said, expected)
    assert.deepStrictEqual([commands.length, written.size], [1, 0])
  })

  it("a step that fails ends it", async () => {
    const { commands, isReady, said } = await release(
      {},
      {
        run: (command) =>
          command.includes("npm test") ? Promise.reject(new Error("12 tests failed")) : Promise.resolve("")
      }
    )
    assert.isFalse(isReady)
    assert.match(commands.at(-1) ?? "", /npm test$/)
    assert.match(said, /12 tests failed\nStopped\./)
    assert.notInclude(said, "npm publish")
  })

  it("with --dry it names each step, and changes nothing", async () => {
    const { commands, isReady, said, written } = await release({ isDry: true })
    assert.deepStrictEqual([isReady, commands, written.size], [true, ["git status --porcelain"], 0])
    for (const command of releases.commands("0.2.0")) assert.include(said, `$ ${command}`)
    for (const step of ["package.json: ", "CHANGELOG.md: ", "npm publish"]) assert.include(said, step)
  })

  it("changes each place of the sources that has the version", async () => {
    const { written } = await release()
    const places: Array<string> = []
    for (const path of glob("src/**/*.ts")) {
      walk(parsed(path).program, (node) => {
        if (node.type === "Literal" && node["value"] === manifest.version) places.push(path)
      })
    }
    assert.deepStrictEqual(places, ["src/mcp/internal/connection.ts"])
    for (const path of places) assert.notInclude(written.get(path), `"${manifest.version}"`)
  })
})
