/**
 * The work that hostile payloads, schemas and values of at most 1 MB cause (TRUST-3): for each known attack the CPU time
 * and the peak of the heap over what was there before.
 *
 * `node bench/hostile.ts` runs all attacks; `node bench/hostile.ts "allOf"` those whose names contain a text. A row is
 * marked when it takes more than 250 ms or 64 MB, and the exit code is then 1. All rows run in one process from a
 * bundle, which has put 60 small payloads through every door before, as a server has. The heap of that process is limited to
 * 64 MB above what is in it: an attack that needs more kills it. A larger heap is no measure, because garbage stays in
 * it until it is full. What takes too much time there runs up to four times more in a process without that limit, and
 * the least time counts, because the machine may do other work. The first rows are ordinary, for comparison.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { attacks, describe, warmUp, type Attack } from "./hostile/attacks.ts"

const maxBytes = 1_000_000

const maxMillis = 250

const maxMegabytes = 64

/** The least that is in the heap of a process before an attack. */
const ownMegabytes = 15

/** The largest input of an attack that stays within the size. */
const inputOf = ({ make, max = maxBytes }: Attack): unknown => {
  const fits = (n: number) => n <= max && JSON.stringify(make(n)).length <= maxBytes
  let [least, most] = [1, 2]
  while (fits(most)) [least, most] = [most, most * 2]
  while (least < most && most - least > least / 50) {
    const middle = Math.ceil((least + most) / 2)
    if (fits(middle)) least = middle
    else most = middle - 1
  }
  return make(least)
}

interface Measured {
  readonly name: string
  readonly bytes: number
  readonly millis: number
  readonly before: number
  readonly after: number
  readonly outcome: string
}

const measure = async (name: string, attack: Attack): Promise<Measured> => {
  const input = inputOf(attack)
  // Sound: an attack gets the input that it made.
  const work = Effect.result(attack.attack(input as never))
  const bytes = JSON.stringify(input).length
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  process.stdout.write("\nbegin\n")
  const start = process.cpuUsage()
  const result = await Effect.runPromise(work)
  const { system, user } = process.cpuUsage(start)
  const after = process.memoryUsage().heapUsed
  // A line of the trace can come into the middle of a long one
  const outcome = describe(result).slice(0, 110)
  return { name, bytes, millis: (user + system) / 1000, before, after, outcome }
}

/** The largest heap in a trace of the collector, in bytes. */
const peakOf = (trace: string): number => {
  const sizes = Array.from(trace.matchAll(/: [A-Z][^:\n]* (\d+\.\d) \(\d+\.\d\) -> /gu), ([, size]) => Number(size))
  return Math.max(0, ...sizes) * 1e6
}

interface Row extends Measured {
  readonly megabytes: number
}

const isOver = ({ megabytes, millis }: Row): boolean => millis > maxMillis || megabytes > maxMegabytes

/** Runs attacks in a process of their own, one after the other, and again from the next one where it came to no end. */
const run = (bundle: string, names: ReadonlyArray<string>, heap: number): ReadonlyArray<Row> => {
  if (names.length === 0) return []
  const flags = ["--expose-gc", "--trace-gc", `--max-heap-size=${heap}`]
  const child = spawnSync(process.execPath, [...flags, bundle, "--rows", ...names], {
    encoding: "utf8",
    maxBuffer: 1e9,
    timeout: 30_000 + 5000 * names.length
  })
  const rows = child.stdout.split("\nbegin\n").flatMap((part) => {
    const [, trace = "", result] = /^([^]*)\nresult (.*)\n/u.exec(part) ?? []
    if (result === undefined) return []
    const measured: Measured = JSON.parse(result)
    if (measured.before < ownMegabytes * 1e6)
      throw new Error(`only ${measured.before} bytes in the heap before ${measured.name}`)
    return { ...measured, megabytes: Math.max(0, Math.max(measured.after, peakOf(trace)) - measured.before) / 1e6 }
  })
  const lost = names[rows.length]
  if (lost === undefined) return rows
  const outcome = `no end: ${child.error?.message ?? child.stderr.slice(-200)}`
  const none = { name: lost, bytes: 0, millis: Infinity, megabytes: Infinity, before: 0, after: 0, outcome }
  return [...rows, none, ...run(bundle, names.slice(rows.length + 1), heap)]
}

const nameOf = ({ name }: Row) => name

const print = (row: Row): void => {
  const numbers = `${row.millis.toFixed(0).padStart(6)} ms ${row.megabytes.toFixed(0).padStart(5)} MB`
  const size = `${(row.bytes / 1000).toFixed(0).padStart(5)} kB`
  const outcome = row.outcome.replaceAll("\n", " ")
  const finding = attacks[row.name]?.finding.padEnd(5)
  process.stdout.write(
    `${isOver(row) ? "!!" : "  "} ${finding} ${row.name.padEnd(48)} ${size} ${numbers}  ${outcome}\n`
  )
}

const main = async (part: string): Promise<void> => {
  const start = process.cpuUsage()
  const sample = JSON.stringify(Array.from({ length: 20_000 }, (_, i) => ({ id: i, name: `n${i}`, tags: ["a", "b"] })))
  for (let i = 0; i < 10; i++) JSON.parse(sample)
  const { system, user } = process.cpuUsage(start)
  process.stdout.write(
    `for comparison: JSON.parse of ${sample.length * 10} bytes: ${((system + user) / 1000).toFixed(0)} ms\n`
  )
  const folder = mkdtempSync(join(tmpdir(), "hostile-"))
  const bundle = join(folder, "hostile.mjs")
  const { build } = await import("esbuild")
  await build({
    entryPoints: [import.meta.filename],
    bundle: true,
    external: ["esbuild"],
    format: "esm",
    logLevel: "error",
    outfile: bundle,
    platform: "node"
  })
  const names = Object.keys(attacks).filter((name) => name.includes(part))
  const heap = ownMegabytes + maxMegabytes
  let rows = run(bundle, names, heap)
  for (let again = 0; again < 4; again++) {
    const slow = rows.filter(isOver)
    const needy = (row: Row) => row.megabytes > maxMegabytes
    const others = [
      ...run(bundle, slow.filter(needy).map(nameOf), heap),
      ...run(bundle, slow.filter((row) => !needy(row)).map(nameOf), 1000)
    ]
    rows = rows.map((row) => {
      const other = others.find(({ name }) => name === row.name)
      if (other === undefined) return row
      return needy(row) ? other : { ...row, millis: Math.min(row.millis, other.millis) }
    })
  }
  for (const row of rows) print(row)
  const over = rows.filter(isOver).length
  rmSync(folder, { recursive: true })
  process.stdout.write(`${over} of ${names.length} rows over ${maxMillis} ms or ${maxMegabytes} MB\n`)
  if (over > 0) process.exitCode = 1
}

const [mode = "", ...names] = process.argv.slice(2)
if (mode === "--rows") {
  for (let i = 0; i < 60; i++) await Effect.runPromise(warmUp)
  for (const name of names) {
    const attack = attacks[name]
    if (attack !== undefined) process.stdout.write(`\nresult ${JSON.stringify(await measure(name, attack))}\n`)
  }
} else await main(mode)
