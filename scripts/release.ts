/**
 * `npm run release -- 0.1.0` makes a release up to its upload: the version and the addresses in `package.json`, the heading in
 * `CHANGELOG.md`, the golden files and sessions of the release, all tests, and the packed file, checked. Then it prints the commands of
 * the upload, and stops. With `--dry` it prints the steps and changes nothing.
 */
import { spawn } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as golden from "./golden.ts"
import { repository } from "./repository.ts"
import { root } from "./sources.ts"

/** The outside of a release. A test has another one. */
export interface System {
  readonly repository: string
  /** The day of the release, `2026-11-27`. */
  readonly today: string
  readonly pins: golden.Pins
  readonly read: (path: string) => string
  readonly write: (path: string, text: string) => void
  /** Runs a command to its end, and returns its output. Fails for another exit code than 0. */
  readonly run: (command: string) => Promise<string>
  readonly say: (line: string) => void
}

export interface Options {
  readonly version: string
  readonly isDry: boolean
}

/** The address of a repository in the fields of `package.json`, where npm looks for them. */
const addresses = (address: string) => ({
  homepage: `${address}#readme`,
  bugs: `${address}/issues`,
  repository: { type: "git", url: `git+${address}.git` }
})

/** A text with one place replaced. A text without the place is a bug of this script. */
const replaceOnce = (path: string, text: string, from: RegExp, to: string): string => {
  if (!from.test(text)) throw new Error(`${path}: expected a text that matches ${from}, got none`)
  return text.replace(from, to)
}

const unreleased = "## Unreleased\n"

/** The files that have the version, and how a release changes them. */
const edits: ReadonlyArray<{
  readonly path: string
  readonly what: string
  readonly edit: (text: string, version: string, system: System, path: string) => string
}> = [
  {
    path: "package.json",
    what: "the version, repository, homepage and bugs",
    edit: (text, version, system) => {
      const { license, ...manifest } = { ...JSON.parse(text), version }
      const { repository, ...links } = addresses(system.repository)
      // the order of the formatter
      const added = { ...links, license, repository }
      const entries = Object.entries(manifest).filter(([key]) => !Object.hasOwn(added, key))
      const at = entries.findIndex(([key]) => key === "bin")
      const all = [...entries.slice(0, at), ...Object.entries(added), ...entries.slice(at)]
      return `${JSON.stringify(Object.fromEntries(all), null, 2)}\n`
    }
  },
  {
    path: "package-lock.json",
    what: "the version",
    edit: (text, version) => {
      const lock = JSON.parse(text)
      lock.version = version
      lock.packages[""].version = version
      return `${JSON.stringify(lock, null, 2)}\n`
    }
  },
  {
    path: "src/mcp/internal/connection.ts",
    what: "the version that servers of MCP are told",
    edit: (text, version, _, path) => replaceOnce(path, text, /(?<=name: "effect-emissary", version: ")[^"]+/, version)
  },
  {
    path: "CHANGELOG.md",
    what: "the heading",
    edit: (text, version, { today }) => text.replace(unreleased, `## ${version} (${today})\n`)
  }
]

/** The command of each step, in their order. */
export const commands = (version: string): ReadonlyArray<string> => {
  const packed = `effect-emissary-${version}.tgz`
  return [
    "npm ci",
    "npm run golden:sessions",
    `npm run golden -- --pin ${version}`,
    "npm ci --prefix test/consumers",
    "EMISSARY_CONSUMERS=required npm test",
    "npm pack",
    `npx publint --strict ${packed}`,
    `npx attw ${packed} --profile esm-only`,
    "npm run prepublishOnly"
  ]
}

/** The steps that the owner takes: the upload makes the release, and cannot be taken back. */
const upload = (version: string): ReadonlyArray<string> => [
  `git add -A && git commit -m "Release ${version}" && git tag v${version}`,
  `npm publish effect-emissary-${version}.tgz --access public --provenance`,
  "npm writes the provenance in a build of GitHub Actions or GitLab CI only: upload from there."
]

/** The reasons for which a release does not begin. */
const problemsOf = async ({ version }: Options, system: System): Promise<ReadonlyArray<string>> => {
  const changed = (await system.run("git status --porcelain")).trimEnd()
  const changelog = system.read("CHANGELOG.md")
  const news = changelog.split(unreleased)[1]?.split(/^## /m)[0]?.trim() ?? ""
  const checks: ReadonlyArray<readonly [isWrong: boolean, problem: string]> = [
    [
      !/^\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?$/.test(version),
      `The version: expected one such as 0.1.0, got ${JSON.stringify(version)}. Run npm run release -- 0.1.0`
    ],
    [
      system.repository === "",
      `The repository has no address: package.json needs it, and npm links to it. Set "repository" in scripts/repository.ts`
    ],
    [
      system.repository !== "" && !/^https:\/\/\S+[^/\s]$/.test(system.repository),
      `The address of the repository: expected https:// without a slash at its end, got ${JSON.stringify(system.repository)}`
    ],
    [
      changed !== "",
      `The work tree: expected no changes, got\n${changed}\nCommit them, so that the release is what its commit says`
    ],
    [
      Object.hasOwn(system.pins, version),
      `${version}: expected a version that is not released, got one with pinned golden files. Choose the next one`
    ],
    [news === "", `CHANGELOG.md: expected entries under "Unreleased", got none. Write them`]
  ]
  return checks.filter(([isWrong]) => isWrong).map(([, problem]) => problem)
}

/** Makes a release, and returns true when it is ready for its upload. */
export const release = async (options: Options, system: System): Promise<boolean> => {
  const { isDry, version } = options
  const problems = await problemsOf(options, system)
  for (const problem of problems) system.say(problem)
  if (problems.length > 0) return false
  for (const { edit, path, what } of edits) {
    system.say(`${path}: ${what}`)
    if (!isDry) system.write(path, edit(system.read(path), version, system, path))
  }
  for (const command of commands(version)) {
    system.say(`$ ${command}`)
    if (isDry) continue
    try {
      await system.run(command)
    } catch (error) {
      system.say(
        `${error instanceof Error ? error.message : String(error)}\nStopped. git restore . && git clean -f takes the release back`
      )
      return false
    }
  }
  system.say(`\n${isDry ? "Then" : `${version} is ready.`} Upload it with:\n\n${upload(version).join("\n")}`)
  return true
}

/** Runs a command with its output in this terminal, and in the result. */
const run = (command: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const isQuiet = command.startsWith("git ")
    const child = spawn(command, { cwd: root, shell: true, stdio: ["ignore", isQuiet ? "pipe" : "inherit", "inherit"] })
    let output = ""
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      output += text
    })
    child.on("error", reject)
    child.on("close", (code) => {
      if (code === 0) resolve(output)
      else reject(new Error(`${command}: expected the exit code 0, got ${code}`))
    })
  })

const main = async (args: ReadonlyArray<string>): Promise<void> => {
  const isReady = await release(
    { version: args.find((arg) => !arg.startsWith("--")) ?? "", isDry: args.includes("--dry") },
    {
      repository,
      today: new Date().toISOString().slice(0, 10),
      pins: golden.readPins(),
      read: (path) => readFileSync(join(root, path), "utf8"),
      write: (path, text) => writeFileSync(join(root, path), text),
      run,
      say: (line) => process.stdout.write(`${line}\n`)
    }
  )
  if (!isReady) process.exitCode = 1
}

if (process.argv[1] === import.meta.filename) await main(process.argv.slice(2))
