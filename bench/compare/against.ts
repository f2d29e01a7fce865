/**
 * Compares today's build of this library with the build of another commit: `npm run bench -- --against <commit>`, with names
 * of workloads for a part. Both builds run today's rows. They take turns within one call.
 *
 * Three figures for each case: the CPU time, what a run allocates, and how many functions of this library and of Effect a run
 * calls. Allocation and calls hardly depend on what else the machine does. So
 * where the rounds of the old build alone differ by more than 3 %, allocation and calls decide instead of the CPU time. Where
 * a workload measures commits, sizes or what results keep, that figure decides.
 */
import { execFileSync } from "node:child_process"
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { measureSamples, median, type Samples } from "./harness.ts"
import { measurePrograms } from "./programs.ts"
import type { Metric, Workload } from "./workloads.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const here = fileURLToPath(new URL(".", import.meta.url))

/** A ratio, or a spread, above this is a difference. */
const tolerance = 0.03

const run = (command: string, args: ReadonlyArray<string>, cwd: string): string =>
  execFileSync(command, args, { cwd, encoding: "utf8", maxBuffer: 2 ** 28 }).trim()

/** Builds a commit in `.generated/against`, with the rows of today beside it. Returns the folder of the rows. */
const prepare = (commit: string): string => {
  const sha = run("git", ["rev-parse", "--short=12", `${commit}^{commit}`], root)
  const folder = join(root, ".generated", "against", sha)
  if (!existsSync(join(folder, "built"))) {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    process.stdout.write(`builds ${sha}\n`)
    const archive = join(folder, "sources.tar")
    const paths = ["src", "scripts", "package.json", "tsconfig.json", "tsconfig.build.json"]
    run("git", ["archive", "--output", archive, sha, ...paths], root)
    run("tar", ["-xf", archive], folder)
    run(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.build.json"], folder)
    run(process.execPath, ["scripts/annotate.ts"], folder)
    // Commits before the chunks have no script for them
    if (existsSync(join(folder, "scripts", "chunks.ts"))) run(process.execPath, ["scripts/chunks.ts"], folder)
    mkdirSync(join(folder, "built"))
  }
  const rows = join(folder, "bench", "compare")
  rmSync(rows, { recursive: true, force: true })
  cpSync(here, rows, { recursive: true, filter: (path) => !/\/(node_modules|\.generated)$/.test(path) })
  mkdirSync(join(rows, "node_modules"))
  for (const name of readdirSync(join(here, "node_modules")).filter((name) => name !== "effect-emissary"))
    symlinkSync(join(here, "node_modules", name), join(rows, "node_modules", name))
  symlinkSync("../../..", join(rows, "node_modules", "effect-emissary"))
  return rows
}

interface Figure {
  /** New divided by old. */
  readonly ratio: number
  /** The spread of the rounds of the old build: the range of their middle half, as a part of their median. */
  readonly spread: number
}

const figure = (samples: { readonly old: Samples; readonly new: Samples }, metric: Metric): Figure | undefined => {
  const old = samples.old[metric].toSorted((a, b) => a - b)
  if (old.length === 0 || samples.new[metric].length === 0) return undefined
  const at = (part: number) => old[Math.round((old.length - 1) * part)] ?? Number.NaN
  return { ratio: median(samples.new[metric]) / median(old), spread: (at(0.75) - at(0.25)) / median(old) }
}

type Kind = Exclude<Workload["measure"], "program">

/** The figures of each case of a row, measured in one way. */
const measureKind = async (workload: Workload, measure: Kind, row: string, rows: string, rounds: number) => {
  const [path = "", name = "make"] = (workload.rows[row] ?? "").split("#")
  const module = (folder: string) => `${pathToFileURL(join(folder, path)).href}#${name}`
  const both = { ...workload, measure, rows: { old: module(rows), new: module(here) } }
  const samples = await measureSamples(both, { rows: ["old", "new"], rounds })
  return (of: string, metric: Metric): Figure | undefined => {
    const [old, now] = ["old", "new"].map((side) => samples.find((one) => one.case === of && one.row === side))
    return old === undefined || now === undefined ? undefined : figure({ old: old.samples, new: now.samples }, metric)
  }
}

const percent = (value: number | undefined): string => (value === undefined ? "-" : value.toFixed(3))

/** Prints a line for each row and case. True if none is slower. */
const compareWorkload = async (workload: Workload, row: string, rows: string, rounds: number): Promise<boolean> => {
  if (workload.measure !== "time" && workload.measure !== "program") {
    const kind = await measureKind(workload, workload.measure, row, rows, rounds)
    return workload.cases
      .map(({ name }) => {
        const found = kind(name, "memory")
        const isWorse = (found?.ratio ?? 0) > 1 + tolerance
        process.stdout.write(
          `${isWorse ? "WORSE" : "ok   "} ${workload.id}, ${row}, ${name}: ${workload.unit.memory} ${percent(found?.ratio)}\n`
        )
        return !isWorse
      })
      .every(Boolean)
  }
  const time = await measureKind(workload, "time", row, rows, rounds)
  const allocation = await measureKind(workload, "allocation", row, rows, rounds)
  const calls = await measureKind(workload, "calls", row, rows, 1)
  return workload.cases
    .map(({ name }) => {
      const [cpu, allocated, called] = [time(name, "cpu"), allocation(name, "memory"), calls(name, "memory")]
      const isNoisy = (cpu?.spread ?? 1) > tolerance
      const deciding = isNoisy ? [allocated, called] : [cpu]
      const isWorse = deciding.some((one) => (one?.ratio ?? 0) > 1 + tolerance)
      process.stdout.write(
        `${isWorse ? "WORSE" : "ok   "} ${workload.id}, ${row}, ${name}: CPU ${percent(cpu?.ratio)}` +
          ` (rounds of the old build differ by ${((cpu?.spread ?? Number.NaN) * 100).toFixed(1)} %),` +
          ` allocation ${percent(allocated?.ratio)}, calls ${percent(called?.ratio)}` +
          `${isNoisy ? "; allocation and calls decide" : ""}\n`
      )
      return !isWorse
    })
    .every(Boolean)
}

/** The sizes and starts of small programs, old and new in turns. */
const comparePrograms = async (workload: Workload, row: string, rows: string, rounds: number): Promise<boolean> => {
  const old: { readonly measurePrograms: typeof measurePrograms } = await import(
    pathToFileURL(join(rows, "programs.ts")).href
  )
  const samples = { old: new Map<string, Array<number>>(), new: new Map<string, Array<number>>() }
  for (let round = 0; round < rounds; round++) {
    for (const side of round % 2 === 0 ? (["old", "new"] as const) : (["new", "old"] as const)) {
      const programs = side === "old" ? old.measurePrograms : measurePrograms
      for (const { case: name, metrics } of (await programs(workload, { rows: [row], rounds: 1 })).measured) {
        const value = (metrics.memory ?? metrics.cpu)?.median
        if (value !== undefined) samples[side].set(name, [...(samples[side].get(name) ?? []), value])
      }
    }
  }
  const toSamples = (memory: ReadonlyArray<number> = []): Samples => ({ wall: [], cpu: [], memory })
  return workload.cases
    .map(({ name }) => {
      const found = figure({ old: toSamples(samples.old.get(name)), new: toSamples(samples.new.get(name)) }, "memory")
      const isNoisy = (found?.spread ?? 1) > tolerance
      const isWorse = !isNoisy && (found?.ratio ?? 0) > 1 + tolerance
      process.stdout.write(
        `${isWorse ? "WORSE" : "ok   "} ${workload.id}, ${row}, ${name}: ${percent(found?.ratio)}` +
          `${isNoisy ? ` (rounds of the old build differ by ${((found?.spread ?? Number.NaN) * 100).toFixed(1)} %)` : ""}\n`
      )
      return !isWorse
    })
    .every(Boolean)
}

/** Compares the rows of this library in the workloads. True if none of them is slower than in the commit. */
export const compare = async (
  commit: string,
  workloads: ReadonlyArray<Workload>,
  options: { readonly rounds: number; readonly rows: ReadonlyArray<string> | undefined }
): Promise<boolean> => {
  const rows = prepare(commit)
  let isFine = true
  for (const workload of workloads) {
    const ours = Object.keys(workload.rows).filter((row) => row.startsWith("emissary"))
    for (const row of ours.filter((row) => options.rows?.includes(row) ?? true)) {
      const compareOne = workload.measure === "program" ? comparePrograms : compareWorkload
      isFine = (await compareOne(workload, row, rows, options.rounds)) && isFine
    }
  }
  return isFine
}
