/**
 * Measures the rows of a workload side by side. Each row is a process of its own that stays alive and is warmed up first.
 * Then the rows take turns in a new order each round, one block at a time, so that a ratio compares blocks of the same
 * seconds. CPU time is the time of all threads of the process.
 */
import { fork, spawnSync, type ChildProcess } from "node:child_process"
import { loadavg } from "node:os"
import { fileURLToPath } from "node:url"
import type { Case, Metric, Workload } from "./workloads.ts"

export type Request =
  | { readonly type: "start"; readonly module: string; readonly options: unknown; readonly together: number }
  | { readonly type: "warm"; readonly runs: number; readonly milliseconds: number; readonly limit: number }
  | {
      readonly type: "time" | "allocation" | "held" | "commits" | "calls"
      readonly runs: number
      readonly milliseconds: number
    }
  | { readonly type: "peak" }
  | { readonly type: "gate"; readonly module: string }

export type Sample = Partial<Readonly<Record<Metric, number>>>

export interface Statistic {
  readonly median: number
  readonly min: number
}

/** One row in one case. */
export interface Measured {
  readonly case: string
  readonly row: string
  readonly metrics: Partial<Readonly<Record<Metric, Statistic>>>
  /** By row and metric: the median of the ratios of each round, and the ratio of the minima. */
  readonly ratios: Readonly<Record<string, Partial<Readonly<Record<Metric, Statistic>>>>>
}

export interface Results {
  readonly date: string
  /** The commit of the library. */
  readonly commit: string
  /** The median of the load average of one minute. */
  readonly load: number
  readonly rounds: number
  readonly measured: ReadonlyArray<Measured>
}

export type Samples = Readonly<Record<Metric, ReadonlyArray<number>>>

export interface Options {
  readonly rows: ReadonlyArray<string>
  readonly rounds: number
}

/** A row that is much slower than the others must not decide how long everything takes. */
const limits = {
  /** CPU time in milliseconds: on a busy machine a warm-up takes longer, and must not be worth less. */
  warmUp: 8_000,
  blocks: 8_000,
  rounds: 4
}

export const environment = {
  ...process.env,
  NODE_ENV: "production",
  MASTRA_TELEMETRY_DISABLED: "1",
  LANGSMITH_TRACING: "false",
  OPENAI_AGENTS_DISABLE_TRACING: "1"
}

const makeChild = (flags: ReadonlyArray<string> = [], variables: Readonly<Record<string, string>> = {}) => {
  const child: ChildProcess = fork(fileURLToPath(new URL("child.ts", import.meta.url)), {
    env: { ...environment, ...variables },
    execArgv: ["--disable-warning=ExperimentalWarning", ...flags],
    serialization: "advanced"
  })
  const ask = (request: Request): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const exited = () => reject(new Error("the process of the row exited"))
      child.once("exit", exited)
      child.once("message", (reply: { readonly value?: unknown; readonly error?: string }) => {
        child.off("exit", exited)
        if (reply.error === undefined) resolve(reply.value)
        else reject(new Error(reply.error))
      })
      child.send(request)
    })
  return { ask, end: () => child.disconnect() }
}

/** Returns what each row does with invalid arguments, or the reason why it must not be measured. */
export const gate = async (module: string): Promise<string> => {
  const child = makeChild()
  try {
    return String(await child.ask({ type: "gate", module }))
  } finally {
    child.end()
  }
}

const flagsOf = ({ measure }: Workload): ReadonlyArray<string> =>
  measure === "time" || measure === "commits" || measure === "calls"
    ? []
    : measure === "held"
      ? ["--expose-gc"]
      : ["--expose-gc", "--min-semi-space-size=512", "--max-semi-space-size=512"]

export const shuffle = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> =>
  items
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2
}

const metrics = ["wall", "cpu", "memory"] as const

const startRow = async (workload: Workload, measured: Case, row: string) => {
  const child = makeChild(flagsOf(workload), workload.measure === "calls" ? { BENCH_CALLS: "true" } : {})
  const module = workload.rows[row]
  const type = workload.measure
  if (module === undefined || type === "program") throw new Error(`${workload.id} has no row ${row}`)
  await child.ask({ type: "start", module, options: measured.options, together: measured.together ?? 1 })
  await child.ask({ type: "warm", ...measured.warmUp, limit: limits.warmUp })
  const samples: Record<Metric, Array<number>> = { wall: [], cpu: [], memory: [] }
  const time = (workload.unit.microseconds === true ? 1000 : 1) / (measured.per ?? 1)
  const factor = { wall: time, cpu: time, memory: type === "commits" ? 1 / (measured.per ?? 1) : 1 }
  let spent = 0
  return {
    case: measured.name,
    row,
    samples,
    block: async (): Promise<void> => {
      if (spent > limits.blocks && samples[type === "time" ? "cpu" : "memory"].length >= limits.rounds) return
      const begin = performance.now()
      const sample = (await child.ask({ type, ...measured.block })) as Sample
      spent += performance.now() - begin
      for (const metric of metrics) {
        const value = sample[metric]
        if (value !== undefined) samples[metric].push(value * factor[metric])
      }
    },
    end: async (): Promise<void> => {
      if (type === "time") samples.memory.push(Number(await child.ask({ type: "peak" })))
      child.end()
    }
  }
}

const round = (value: number): number => Number(value.toPrecision(4))

const statistics = (samples: Samples): Measured["metrics"] =>
  Object.fromEntries(
    metrics.flatMap((metric) => {
      const values = samples[metric]
      if (values.length === 0) return []
      return [[metric, { median: round(median(values)), min: round(Math.min(...values)) }]]
    })
  )

const ratios = (samples: Samples, base: Samples): Measured["metrics"] =>
  Object.fromEntries(
    metrics.flatMap((metric) => {
      const [values, others] = [samples[metric], base[metric]]
      const each = values.flatMap((value, index) => {
        const other = others[index]
        return other === undefined ? [] : [value / other]
      })
      if (each.length === 0) return []
      return [[metric, { median: round(median(each)), min: round(Math.min(...values) / Math.min(...others)) }]]
    })
  )

/** The statistics of all rows, in the order of the cases, and the ratios of each to all rows of its case. */
export const summarize = (
  workload: Workload,
  rows: ReadonlyArray<{ readonly case: string; readonly row: string; readonly samples: Samples }>,
  load: number,
  rounds: number
): Results => {
  const names = Object.keys(workload.rows)
  const measured = workload.cases.flatMap(({ name }) => {
    const together = rows
      .filter((one) => one.case === name)
      .toSorted((a, b) => names.indexOf(a.row) - names.indexOf(b.row))
    return together.map(({ row, samples }) => ({
      case: name,
      row,
      metrics: statistics(samples),
      ratios: Object.fromEntries(together.map((base) => [base.row, ratios(samples, base.samples)]))
    }))
  })
  const commit = spawnSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).stdout.trim()
  return { date: new Date().toISOString(), commit, load: round(load), rounds, measured }
}

/** The samples of all rows, in all cases. */
export const measureSamples = async (workload: Workload, options: Options) =>
  (await measureRounds(workload, options)).started

const measureRounds = async (workload: Workload, options: Options) => {
  const started: Array<Awaited<ReturnType<typeof startRow>>> = []
  const loads: Array<number> = []
  try {
    for (const measured of workload.cases)
      for (const row of shuffle(options.rows)) {
        try {
          started.push(await startRow(workload, measured, row))
        } catch (cause) {
          process.stdout.write(`${row} does not run ${workload.id} here and is left out: ${String(cause)}\n`)
        }
      }
    for (let round = 0; round < options.rounds; round++) {
      for (const row of shuffle(started)) await row.block()
      loads.push(loadavg()[0] ?? 0)
    }
  } finally {
    for (const row of started) await row.end()
  }
  return { started, load: median(loads) }
}

export const measure = async (workload: Workload, options: Options): Promise<Results> => {
  const { load, started } = await measureRounds(workload, options)
  return summarize(workload, started, load, options.rounds)
}
