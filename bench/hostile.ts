/**
 * The work that hostile payloads, schemas and values of at most 1 MB cause (TRUST-3): for each known attack the CPU time
 * and the peak of the heap over what was there before.
 *
 * `node bench/hostile.ts` runs all attacks, each in a process of its own; `node bench/hostile.ts "allOf"` those whose names
 * contain a text. A row is marked when it takes more than 250 ms or 64 MB, and the exit code is then 1. The processes
 * have decoded and run ordinary payloads before, as a server has. The first rows are ordinary, for comparison.
 */
import { spawnSync } from "node:child_process"
import { Effect } from "effect"
import { attacks, describe, warmUp, type Attack } from "./hostile/attacks.ts"

const maxBytes = 1_000_000

const maxMillis = 250

const maxMegabytes = 64

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
  readonly bytes: number
  readonly millis: number
  readonly before: number
  readonly after: number
  readonly outcome: string
}

const measure = async (attack: Attack): Promise<Measured> => {
  const input = inputOf(attack)
  // Sound: an attack gets the input that it made.
  const work = Effect.result(attack.attack(input as never))
  const bytes = JSON.stringify(input).length
  for (let i = 0; i < 5; i++) await Effect.runPromise(warmUp)
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  process.stdout.write("\nbegin\n")
  const start = process.cpuUsage()
  const result = await Effect.runPromise(work)
  const { system, user } = process.cpuUsage(start)
  process.stdout.write("\nend\n")
  const after = process.memoryUsage().heapUsed
  return { bytes, millis: (user + system) / 1000, before, after, outcome: describe(result) }
}

/** The largest heap in the trace of the collector between the two marks, in megabytes. */
const peakOf = (trace: string): number => {
  const part = trace.slice(trace.indexOf("\nbegin\n"), trace.indexOf("\nend\n"))
  const sizes = Array.from(part.matchAll(/: [A-Z][^:\n]* (\d+\.\d) \(\d+\.\d\) -> /gu), ([, size]) => Number(size))
  return Math.max(0, ...sizes)
}

/** Runs an attack in a process of its own; a text is the reason why it came to no end. */
const measureApart = (row: string): (Measured & { readonly megabytes: number }) | string => {
  const flags = ["--expose-gc", "--trace-gc", "--max-old-space-size=1000"]
  const child = spawnSync(process.execPath, [...flags, import.meta.filename, "--row", row], {
    encoding: "utf8",
    timeout: 60_000
  })
  const line = /\nresult (.*)\n/.exec(child.stdout)?.[1]
  if (line === undefined) return child.error?.message ?? child.stderr.slice(0, 200)
  const measured: Measured = JSON.parse(line)
  const peak = Math.max(measured.after, peakOf(child.stdout) * 1e6) - measured.before
  return { ...measured, megabytes: Math.max(0, peak / 1e6) }
}

type Row = ReturnType<typeof measureApart>

const isOver = (row: Row): boolean => typeof row === "string" || row.millis > maxMillis || row.megabytes > maxMegabytes

const least = (one: Row, other: Row): Row =>
  typeof one === "string" || (typeof other !== "string" && other.millis < one.millis) ? other : one

const [mode, name = ""] = process.argv.slice(2)
const attack = attacks[name]
if (mode === "--row" && attack !== undefined) {
  process.stdout.write(`\nresult ${JSON.stringify(await measure(attack))}\n`)
} else {
  let over = 0
  const start = process.cpuUsage()
  const sample = JSON.stringify(Array.from({ length: 20_000 }, (_, i) => ({ id: i, name: `n${i}`, tags: ["a", "b"] })))
  for (let i = 0; i < 10; i++) JSON.parse(sample)
  const { system, user } = process.cpuUsage(start)
  process.stdout.write(
    `for comparison: JSON.parse of ${sample.length * 10} bytes: ${((system + user) / 1000).toFixed(0)} ms\n`
  )
  for (const row of Object.keys(attacks).filter((one) => one.includes(mode ?? ""))) {
    const found = attacks[row]?.finding.padEnd(5)
    // On a machine that does other work the least of three counts
    let measured = measureApart(row)
    for (let again = 0; again < Number(process.env["TRIES"] ?? 3) - 1 && isOver(measured); again++)
      measured = least(measured, measureApart(row))
    if (isOver(measured)) over++
    if (typeof measured === "string") {
      process.stdout.write(`!! ${found} ${row.padEnd(48)} no end: ${measured}\n`)
      continue
    }
    const { megabytes } = measured
    const numbers = `${measured.millis.toFixed(0).padStart(6)} ms ${megabytes.toFixed(0).padStart(5)} MB`
    const size = `${(measured.bytes / 1000).toFixed(0).padStart(5)} kB`
    process.stdout.write(
      `${isOver(measured) ? "!!" : "  "} ${found} ${row.padEnd(48)} ${size} ${numbers}  ${measured.outcome.replaceAll("\n", " ").slice(0, 110)}\n`
    )
  }
  process.stdout.write(`${over} of ${Object.keys(attacks).length} rows over ${maxMillis} ms or ${maxMegabytes} MB\n`)
  if (over > 0) process.exitCode = 1
}
