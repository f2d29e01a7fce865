/**
 * Pins golden files by their hash: what a released version wrote is read for ever, so its files never change again.
 *
 * `node scripts/golden.ts` refuses changes of pinned files. `--pin 0.1.0` copies the golden sessions of today's code to
 * a folder of the release, and pins all golden files that are not pinned yet under the name of the release, once. `--released` refuses a version of package.json that is not pinned: npm runs it before it
 * publishes.
 */
import { createHash } from "node:crypto"
import { cpSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { glob, root } from "./sources.ts"

/** The hashes of files by the name of a release. `interoperable` has the formats of other systems, which are released. */
export type Pins = { readonly [release: string]: { readonly [path: string]: string } }

/** The text of a file of the repository; `undefined` without one. */
export type Read = (path: string) => string | undefined

const pinsPath = "test/golden/pinned.json"

const sets = "test/golden/sessions"

/** The golden sessions of today's code, which change with it. Each release has a copy of its own. */
export const nextSet = `${sets}/next`

/** The files of the golden sessions of a release, or of `next`. */
export const setOf = (release: string): ReadonlyArray<string> => glob(`${sets}/${release}/*.json`)

/** All that versions wrote. The values beside it are of today: a type may gain a member. */
export const patterns: ReadonlyArray<string> = [
  "test/golden/wire/*.wire.json",
  "test/plan/golden-wire/*.wire.json",
  "test/plan/golden-run/*.json",
  "test/agent/golden/*.json",
  "test/store/golden/*/*.{json,sql}",
  `${sets}/*/*.json`
]

export const goldenFiles = (): ReadonlyArray<string> =>
  patterns.flatMap((pattern) => glob(pattern)).filter((path) => !path.startsWith(`${nextSet}/`))

export const readFromRoot: Read = (path) =>
  existsSync(join(root, path)) ? readFileSync(join(root, path), "utf8") : undefined

export const readPins = (): Pins => JSON.parse(readFromRoot(pinsPath) ?? "{}")

const hashOf = (text: string): string => `sha256:${createHash("sha256").update(text).digest("hex")}`

/** The pinned files that are gone or that changed. */
export const problemsOf = (pins: Pins, read: Read): ReadonlyArray<string> =>
  Object.entries(pins).flatMap(([release, files]) =>
    Object.entries(files).flatMap(([path, hash]) => {
      const text = read(path)
      if (text !== undefined && hashOf(text) === hash) return []
      const found = text === undefined ? "no file" : "another text"
      return [`${path}: expected the file of ${release}, got ${found}. Restore it, and add a new file for a new format`]
    })
  )

/** The pins with the pins of one more release, for all files that no release has pinned. */
export const pin = (pins: Pins, release: string, files: ReadonlyArray<string>, read: Read): Pins => {
  const problems = problemsOf(pins, read)
  if (Object.hasOwn(pins, release))
    throw new Error(`${release}: expected a release that is not pinned, got one that is`)
  if (problems.length > 0) throw new Error(problems.join("\n"))
  const pinned = new Set(Object.values(pins).flatMap((one) => Object.keys(one)))
  const added = files.filter((path) => !pinned.has(path)).map((path) => [path, hashOf(read(path) ?? "")] as const)
  return { ...pins, [release]: Object.fromEntries(added) }
}

/** The problems of a release: of all pinned files, and of a version without pins, or without golden sessions. */
export const releaseProblems = (pins: Pins, version: string, read: Read): ReadonlyArray<string> => {
  const advice = `Run node scripts/golden.ts --pin ${version}, and commit`
  const pinned = Object.hasOwn(pins, version) ? Object.keys(pins[version] ?? {}) : undefined
  if (pinned === undefined) return [`${version}: expected pinned golden files, got none. ${advice}`]
  const hasSessions = pinned.some((path) => path.startsWith(`${sets}/${version}/`))
  const missing = hasSessions ? [] : [`${version}: expected golden sessions of its own, got none. ${advice}`]
  return [...missing, ...problemsOf(pins, read)]
}

const main = (mode: string | undefined, release: string | undefined): void => {
  const pins = readPins()
  if (mode === "--pin" && release !== undefined) {
    if (!Object.hasOwn(pins, release)) cpSync(join(root, nextSet), join(root, sets, release), { recursive: true })
    const made = pin(pins, release, goldenFiles(), readFromRoot)
    writeFileSync(join(root, pinsPath), `${JSON.stringify(made, null, 2)}\n`)
    process.stdout.write(`pinned ${Object.keys(made[release] ?? {}).length} files of ${release}\n`)
    return
  }
  const { version }: { readonly version: string } = JSON.parse(readFromRoot("package.json") ?? "{}")
  const problems = mode === "--released" ? releaseProblems(pins, version, readFromRoot) : problemsOf(pins, readFromRoot)
  process.stdout.write(problems.map((problem) => `${problem}\n`).join(""))
  if (problems.length > 0) process.exitCode = 1
}

if (process.argv[1] === import.meta.filename) main(process.argv[2], process.argv[3])
