/**
 * Certificates: each short script with trouble at each of its steps.
 *
 * `npm run worlds -- --exhaustive` runs them all, `--script edit` the worlds of one script, `--kind "two kills"` the worlds of one kind, and `--part 3/8` every eighth world from the third one on. A run that was
 * cut, or had its `--minutes`, continues where it ended: its place is in `.generated/worlds`, until `src` changes. At the end, and when it is
 * cut by its time, the figures of all parts are written to `bench/WORLDS.md`. `--at` with the places of a world that went wrong prints its trace.
 */
import { execFileSync } from "node:child_process"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { Effect, Result } from "effect"
import type { Simulation } from "effect-emissary/testing"
import { random } from "../random.ts"
import * as short from "./short.ts"

type Places = ReadonlyArray<Simulation.TroubleAt>

/** A script without trouble. */
interface Base {
  readonly turns: number
  readonly operations: number
}

const range = (from: number, to: number) =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index)

const bothWays = [false, true]

const failuresOf = ({ operations }: Base): ReadonlyArray<Simulation.TroubleAt> =>
  range(1, operations).flatMap((fail) => bothWays.map((isApplied) => ({ fail, isApplied })))

/** The troubles of a script, in the order in which they are run. */
const kinds: Readonly<Record<string, (base: Base) => ReadonlyArray<Places>>> = {
  "a kill": ({ turns }) => range(1, turns).map((kill) => [{ kill }]),
  "a failing operation": (base) => failuresOf(base).map((one) => [one]),
  "a failing operation and a kill": ({ operations }) =>
    range(1, operations).flatMap((fail) =>
      bothWays.flatMap((isApplied) =>
        range(1, 20).map((kill) => [
          { fail, isApplied },
          { kill, after: fail }
        ])
      )
    ),
  "two kills": ({ turns }) => {
    const { below, times } = random(turns)
    return times(2000, () => {
      const kill = 1 + below(turns)
      return [{ kill }, { kill: kill + 1 + below(turns) }]
    })
  }
}

/** The worlds of one script with one kind of trouble: so many are done, and so many of them went wrong. */
interface Certificate extends Base {
  readonly script: short.Name
  readonly home: short.Home
  readonly kind: string
  readonly part: string
  readonly source: string
  readonly commit: string
  readonly worlds: number
  readonly done: number
  readonly hash: number
  readonly faults: ReadonlyArray<{ readonly at: Places; readonly problem: string }>
}

const directory = ".generated/worlds"

const git = (...args: ReadonlyArray<string>) => execFileSync("git", args, { encoding: "utf8" }).trim()

const read = (path: string): Certificate | undefined => {
  try {
    // Sound: `save` wrote it
    return JSON.parse(readFileSync(path, "utf8")) as Certificate
  } catch {
    return undefined
  }
}

const pathOf = ({ home, kind, part, script }: Pick<Certificate, "kind" | "home" | "part" | "script">) =>
  `${directory}/${`${script}-${home}-${kind}-${part}`.replaceAll(" ", "-")}.json`

const save = (certificate: Certificate) => {
  mkdirSync(directory, { recursive: true })
  writeFileSync(pathOf(certificate), JSON.stringify(certificate, undefined, 1))
}

const baseOf = async (script: short.Name, home: short.Home): Promise<Base> => {
  // The caches are filled by the first run
  const report = await Effect.runPromise(short.run(script, [], { compare: true, home }))
  return { turns: report.figures["turns"] ?? 0, operations: report.figures["storeOperations"] ?? 0 }
}

/** Runs the worlds of a certificate that are left, until the time is over. */
const certify = async (begun: Certificate, places: ReadonlyArray<Places>, isOver: () => boolean) => {
  const { home, kind, script } = begun
  let { done, hash } = begun
  const faults = [...begun.faults]
  let savedAt = performance.now()
  const kept = (): Certificate => ({ ...begun, done, hash, faults })
  for (const at of places.slice(done)) {
    if (isOver()) break
    const result = await Effect.runPromise(Effect.result(short.run(script, at, { home })))
    done += 1
    if (Result.isSuccess(result)) hash = Math.imul(hash ^ result.success.hash, 0x01000193) >>> 0
    else {
      const { message, reason } = result.failure
      const problem = reason._tag === "Failed" ? reason.problem : message
      faults.push({ at, problem })
      process.stdout.write(`--script ${script} --home ${home} --at '${JSON.stringify(at)}': ${problem}\n`)
    }
    if (performance.now() - savedAt < 10_000) continue
    savedAt = performance.now()
    save(kept())
    process.stdout.write(`${script}, ${home}, ${kind}: ${done} of ${begun.worlds}\n`)
  }
  save(kept())
  return kept()
}

/** Parts of one certificate as one. */
const merged = (all: ReadonlyArray<Certificate>): ReadonlyArray<Certificate> => {
  const found = new Map<string, Certificate>()
  for (const one of all) {
    const key = `${one.script}/${one.home}/${one.kind}`
    const before = found.get(key)
    const both = before && {
      ...one,
      worlds: before.worlds + one.worlds,
      done: before.done + one.done,
      hash: (before.hash ^ one.hash) >>> 0,
      faults: [...before.faults, ...one.faults]
    }
    found.set(key, both ?? one)
  }
  return [...found.values()]
}

const heading = "## Certificates"

const pageOf = (certificates: ReadonlyArray<Certificate>): string => {
  const rows = variants(short.names, short.homes).flatMap(({ home, script }) => {
    const own = certificates.filter((one) => one.script === script && one.home === home)
    const base = own[0]
    if (base === undefined) return []
    const cells = Object.keys(kinds).map((kind) => {
      const one = own.find((certificate) => certificate.kind === kind)
      if (one === undefined) return "not yet"
      return one.done === one.worlds ? `${one.worlds}` : `${one.done} of ${one.worlds}`
    })
    const faults = own.reduce((count, one) => count + one.faults.length, 0)
    const hash = own.reduce((all, one) => (all ^ one.hash) >>> 0, 0)
    return [[script, home, base.turns, base.operations, ...cells, faults, hash.toString(16).padStart(8, "0")]]
  })
  const done = certificates.reduce((count, one) => count + one.done, 0)
  const faults = certificates.flatMap((one) => one.faults.map((fault) => ({ ...one, ...fault })))
  const table = [
    ["script", "home", "turns", "operations", ...Object.keys(kinds), "faults", "hash of the traces"],
    Array.from({ length: 6 + Object.keys(kinds).length }, () => "---"),
    ...rows
  ].map((cells) => `| ${cells.join(" | ")} |`)
  const commits = [...new Set(certificates.map(({ commit }) => commit))]
  return [
    heading,
    "",
    "`npm run worlds -- --exhaustive` runs ten short scripts (`test/worlds/short.ts`), each with trouble at each of its steps: a kill of the process",
    "after each turn of the scheduler, a failure before and after each operation of the store took effect, each failing operation with a kill in each of the 20 turns after",
    "it, and 2,000 pairs of two kills by a seed. The model and the laws of the worlds judge each of them, and each conversation has to end as it does without",
    "trouble, except for the calls of a tool that is not idempotent, which may be lost.",
    "",
    ...table,
    "",
    `${done} worlds on commit ${commits.join(", ")}.`,
    "",
    ...faults
      .slice(0, 20)
      .map(
        ({ at, home, problem, script }) =>
          `- \`npm run worlds -- --exhaustive --script ${script} --home ${home} --at '${JSON.stringify(at)}'\`: ${problem.split("\n")[0]}`
      ),
    ""
  ].join("\n")
}

/** Writes the section of the certificates, and leaves the rest of the page. */
const writePage = () => {
  const path = "bench/WORLDS.md"
  const all = readdirSync(directory).flatMap((name) => read(`${directory}/${name}`) ?? [])
  let page = "# Worlds\n"
  try {
    page = readFileSync(path, "utf8")
  } catch {
    // It is new
  }
  const [before = "", rest = ""] = page.split(`${heading}\n`)
  const next = rest.indexOf("\n## ")
  writeFileSync(path, `${before.trimEnd()}\n\n${pageOf(merged(all))}${next < 0 ? "" : rest.slice(next)}`)
}

/** The options of the command. */
export interface Options {
  readonly minutes: number
  readonly part: string
  readonly script: string | undefined
  readonly home: string | undefined
  readonly kind: string | undefined
  readonly at: string | undefined
}

/** Prints a world with trouble at these places. */
const show = async (script: short.Name, home: short.Home, at: Places) => {
  const result = await Effect.runPromise(Effect.result(short.run(script, at, { compare: true, home })))
  if (Result.isFailure(result)) {
    for (const line of result.failure.trace) process.stdout.write(`${line}\n`)
    process.stdout.write(`${result.failure.message.split("\n")[0]}\n`)
    process.exitCode = 1
  } else process.stdout.write(`${JSON.stringify(result.success)}\n`)
}

const variants = (scripts: ReadonlyArray<short.Name>, homes: ReadonlyArray<short.Home>) =>
  scripts.flatMap((script) => homes.map((home) => ({ script, home })))

export const run = async ({ at, home, kind: only, minutes, part, script }: Options) => {
  const scripts = variants(
    short.names.filter((name) => script === undefined || name === script),
    short.homes.filter((name) => home === undefined || name === home)
  )
  const [index = 1, parts = 1] = part.split("/").map(Number)
  const [first] = scripts
  if (first === undefined || !(index >= 1 && index <= parts)) {
    throw new Error(
      `expected a --part such as 3/8, a --script of ${short.names.join()}, a --home of ${short.homes.join()}`
    )
  }
  // Sound: the option is what a run has printed
  if (at !== undefined) return show(first.script, first.home, JSON.parse(at) as Places)
  const begun = performance.now()
  const isOver = () => performance.now() - begun > minutes * 60_000
  const [source, commit] = [git("rev-parse", "HEAD:src"), git("rev-parse", "--short", "HEAD")]
  let faults = 0
  for (const [kind, placesOf] of Object.entries(kinds)) {
    for (const { home, script } of scripts) {
      if (isOver() || (only ?? kind) !== kind) break
      const base = await baseOf(script, home)
      const places = placesOf(base).filter((_, place) => place % parts === index - 1)
      const about = { ...base, script, home, kind, part: `${index}of${parts}`, source, commit, worlds: places.length }
      const found = read(pathOf(about))
      const isSame = found?.source === source && found.turns === base.turns && found.worlds === places.length
      const from = isSame ? found : { ...about, done: 0, hash: 0, faults: [] }
      faults += (await certify(from, places, isOver)).faults.length
    }
  }
  writePage()
  if (faults > 0) process.exitCode = 1
}
