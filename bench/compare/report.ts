/** Keeps the results in `results.json`, and writes `bench/RESULTS.md` with its charts from them. */
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { arch, availableParallelism, cpus, platform, totalmem } from "node:os"
import { fileURLToPath } from "node:url"
import type { Measured, Results, Statistic } from "./harness.ts"
import { workloads, type Metric, type Target, type Workload } from "./workloads.ts"

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const readJson = (path: string): unknown => JSON.parse(readFileSync(here(path), "utf8"))

interface Kept {
  machine: string
  versions: Record<string, string>
  gate: Record<string, string>
  workloads: Record<string, Results>
}

const empty: Kept = { machine: "", versions: {}, gate: {}, workloads: {} }
// written by this module
const kept = (existsSync(here("results.json")) ? readJson("results.json") : empty) as Kept

export const keepGate = (row: string, invalid: string): void => {
  kept.gate[row] = invalid
}

export const keep = ({ id }: Workload, results: Results): void => {
  kept.workloads[id] = results
}

const digits = (value: number): string =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value >= 0.1 ? value.toFixed(2) : value.toFixed(3)

const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [head, head.map((_, index) => (index === 0 ? "---" : "---:")), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n")

const ratio = (statistic: Statistic | undefined): string =>
  statistic === undefined ? "" : `${digits(statistic.median)} (${digits(statistic.min)})`

/** The rows that others are compared with, where they are measured. */
const bases = ["LanguageModel", "hybrid", "ai-sdk", "zod", "HttpApi", "bare", "langgraph"]

const names: Record<Metric, string> = { cpu: "CPU", wall: "wall", memory: "memory" }

/** The metric of a workload that the ratios are about. */
const mainMetric = ({ measure, targets }: Workload): Metric =>
  targets[0]?.metric ?? (measure === "time" ? "cpu" : "memory")

/** The table of a workload: one row each, in each case. */
export const section = (workload: Workload, { commit, date, load, measured, rounds }: Results): string => {
  const timed = measured.some(({ metrics }) => metrics.cpu !== undefined)
  const main = mainMetric(workload)
  const mainOf = ({ metrics }: Measured): Metric => (metrics[main] === undefined ? "cpu" : main)
  const base = bases.filter((row) => measured.some((one) => one.row === row)).slice(0, 2)
  const memory = workload.unit.memory
  const head = [
    ...(workload.cases.length > 1 ? ["case"] : []),
    "row",
    ...(timed ? ["CPU", "CPU min", "wall", "wall min"] : []),
    ...(memory === undefined ? [] : [memory]),
    ...base.map((row) => `to ${row}`)
  ]
  const rows = measured
    .toSorted((a, b) =>
      a.case === b.case ? (a.metrics[mainOf(a)]?.median ?? 0) - (b.metrics[mainOf(b)]?.median ?? 0) : 0
    )
    .map(({ case: name, metrics, ratios, row }) => [
      ...(workload.cases.length > 1 ? [name] : []),
      row === workload.ours ? `**${row}**` : row,
      ...(timed
        ? [metrics.cpu?.median, metrics.cpu?.min, metrics.wall?.median, metrics.wall?.min].map((value) =>
            value === undefined ? "" : digits(value)
          )
        : []),
      ...(memory === undefined ? [] : [metrics.memory === undefined ? "" : digits(metrics.memory.median)]),
      ...base.map((other) => (other === row ? "1" : ratio(ratios[other]?.[metrics[main] === undefined ? "cpu" : main])))
    ])
  const about = [
    workload.unit.time,
    `ratios of ${workload.measure === "program" ? "sizes and CPU" : names[main]}`,
    `${rounds} rounds`,
    `load ${digits(load)}`,
    `commit ${commit}`,
    date.slice(0, 16).replace("T", " ")
  ]
  return `### ${workload.id}: ${workload.title}\n\n${about.filter((part) => part !== "").join(", ")} UTC\n\n${table(head, rows)}`
}

const find = (measured: ReadonlyArray<Measured>, name: string, row: string): Measured | undefined =>
  measured.find((one) => one.case === name && one.row === row)

/** The ratio that a target is about, where both sides were measured. */
const reached = (workload: Workload, target: Target): Statistic | undefined => {
  const measured = kept.workloads[workload.id]?.measured ?? []
  const row = target.row ?? workload.ours
  const name = target.case ?? workload.cases[0]?.name ?? ""
  const ours = find(measured, name, row)
  if ("row" in target.to) return ours?.ratios[target.to.row]?.[target.metric]
  const own = ours?.metrics[target.metric]
  const other =
    "constant" in target.to
      ? { median: target.to.constant, min: target.to.constant }
      : find(measured, target.to.case, row)?.metrics[target.metric]
  if (own === undefined || other === undefined) return undefined
  return { median: own.median / other.median, min: own.min / other.min }
}

/** Ours in relation to others, beside what we aim at. */
export const targets = (picked: ReadonlyArray<Workload>): string => {
  const rows = picked.flatMap((workload) =>
    workload.targets.flatMap((target) => {
      const value = reached(workload, target)
      if (value === undefined) return []
      const [to] = Object.values(target.to)
      const what = [workload.id, target.row, target.case].filter((part) => part !== undefined).join(", ")
      const met = value.median <= target.atMost ? "yes" : "no"
      return [[what, names[target.metric], String(to), ratio(value), String(target.atMost), met]]
    })
  )
  return table(["workload", "metric", "to", "ratio (of minima)", "at most", "met"], rows)
}

const peers = (): Record<string, string> => {
  const manifest = readJson("package.json") as { readonly devDependencies: Record<string, string> }
  const root = readJson("../../package.json") as { readonly devDependencies: Record<string, string> }
  const { effect, esbuild } = root.devDependencies
  return { node: process.version, effect: effect ?? "", esbuild: esbuild ?? "", ...manifest.devDependencies }
}

/** Draws what was measured, and returns the lines that show it. */
const writeCharts = async (): Promise<string> => {
  // loaded late: a run that writes nothing draws nothing
  const { bars, draw } = await import("./charts.ts")
  const barsOf = (ids: ReadonlyArray<string>, choose: (workload: Workload) => Parameters<typeof bars>[2]) =>
    workloads.flatMap((workload) => {
      const results = kept.workloads[workload.id]
      return results === undefined || !ids.includes(workload.id) ? [] : bars(workload, results, choose(workload))
    })
  const runs = barsOf(["W1", "W1a", "W1t", "W2", "W2b", "W3", "W5"], (workload) => {
    const metric = mainMetric(workload)
    const unit = metric === "memory" ? (workload.unit.memory ?? "") : `${names[metric]}, ${workload.unit.time}`
    const [first] = workload.cases
    return (one) =>
      one.case === first?.name ? { group: `${workload.id}: ${workload.title}`, unit, metric } : undefined
  })
  const decoding = barsOf(["W4"], () => (one) => ({ group: one.case, unit: "CPU, µs", metric: "cpu" }))
  const programs = barsOf(["W6"], () => (one) => {
    const metric = one.metrics.cpu === undefined ? "memory" : "cpu"
    return { group: one.case, unit: metric === "cpu" ? "CPU, ms" : "KB", metric }
  })
  const drawn = [
    ["runs", "Runs of an agent: what the library costs, without a model", runs],
    ["decode", "Decoding a definition of 40 KB", decoding],
    ["programs", "A small agent: its bundle, and its first run", programs]
  ] as const
  mkdirSync(here("../charts"), { recursive: true })
  const lines: Array<string> = []
  for (const [name, title, values] of drawn) {
    if (values.length === 0) continue
    writeFileSync(here(`../charts/${name}.svg`), await draw(title, values))
    lines.push(`![${title}](charts/${name}.svg)`)
  }
  return lines.join("\n\n")
}

/** After each workload, so that an interrupted run loses one. */
export const save = (): void => {
  writeFileSync(here("results.json"), `${JSON.stringify(kept, undefined, 1)}\n`)
}

export const write = async (): Promise<void> => {
  const memory = (totalmem() / 2 ** 30).toFixed(0)
  kept.machine = `${cpus()[0]?.model ?? "unknown processor"}, ${availableParallelism()} cores, ${memory} GB, ${platform()} ${arch()}`
  kept.versions = peers()
  save()
  const sections = workloads.flatMap((workload) => {
    const results = kept.workloads[workload.id]
    return results === undefined ? [] : [section(workload, results)]
  })
  const text = `# Benchmarks against peers

Written by \`npm run bench -- --write\`. All rows do the same work on a model that is a function of this process, so what
is measured is the library, and not a provider. Each row is a process that is warmed up first; then the rows take turns in a
new order each round. A ratio is the median of the ratios of each round, and in parentheses the ratio of the minima. CPU
time counts all threads. On a machine that others use as well, read ratios and not times, and CPU time rather than wall time.

${kept.machine}. ${Object.entries(kept.versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(", ")}. This library as \`npm run build\` makes it.

\`bare\` is a loop of promises with checks by hand. \`hybrid\` is a plain Effect loop on \`LanguageModel\` with compiled
schemas, the floor that Effect sets. \`guide\` is the loop that the guide of \`effect/ai\` writes. The others are the agents
of their libraries. Every row passes a gate first: the same text, the same calls with the same arguments, the results in the
last prompt, and no tool that runs on invalid arguments.

Elsewhere \`bare\` is what the engine or the database does at least: \`JSON\`, a loop, one insert. It checks nothing, keeps no
state to resume from, and sees no other process, so its ratio says where the work is, and not what could be saved.

${await writeCharts()}

## What we aim at

${targets(workloads)}

## Workloads

${sections.join("\n\n")}

## On invalid arguments

${table(["row", "what happens"], Object.entries(kept.gate))}
`
  writeFileSync(here("../RESULTS.md"), text)
  execFileSync(here("../../node_modules/.bin/oxfmt"), [here("../RESULTS.md"), here("results.json")])
}
