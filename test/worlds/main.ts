/**
 * Runs worlds of sessions: `npm run worlds -- --seeds 100000 --minutes 30 --first 1`.
 *
 * Prints the figures so far every ten seconds, and ends with the first world that goes wrong: its smallest setting that still goes
 * wrong, and the command that repeats it. With `--trace` that command prints who did what; `--trace --store` with each operation of
 * the store. A setting of `worlds.ts` is an option: `--kills 0 --calls 3`. `--exhaustive` runs the certificates of `exhaustive.ts`.
 * `--mutants` puts faults into the code, one at a time, and sees whether worlds notice them: see `noticing.ts`. `--screen` kills a process at each stored
 * event of twenty scripts, and compares what pages of the published clients show: see `kills.ts`; `--only <script>`, and `--part 3/10` for a tenth.
 */
import { parseArgs } from "node:util"
import { Effect, Result } from "effect"
import type { Simulation } from "effect-emissary/testing"
import type { Diary } from "./clients.ts"
import * as exhaustive from "./exhaustive.ts"
import * as noticing from "./noticing.ts"
import * as worlds from "./worlds.ts"

const names = [
  "processes",
  "sessions",
  "calls",
  "kills",
  "pauses",
  "stops",
  "jumps",
  "failures",
  "conflicts",
  "losses",
  "more",
  "releases",
  "asks"
] as const

const text = { type: "string" } as const
const { values } = parseArgs({
  options: {
    seeds: text,
    minutes: { ...text, default: "30" },
    first: { ...text, default: "1" },
    trace: { type: "boolean", default: false },
    store: { type: "boolean", default: false },
    exhaustive: { type: "boolean", default: false },
    part: { ...text, default: "1/1" },
    mutants: { type: "boolean", default: false },
    screen: { type: "boolean", default: false },
    tests: { type: "boolean", default: false },
    only: text,
    script: text,
    kind: text,
    home: text,
    at: text,
    ...Object.fromEntries(names.map((name) => [name, text]))
  }
})
const [seeds, minutes, first] = [values.seeds ?? (values.mutants ? "500" : "1000"), values.minutes, values.first].map(
  Number
)
if (!Number.isSafeInteger(seeds) || !Number.isSafeInteger(first) || !(Number(minutes) > 0)) {
  throw new Error("expected whole numbers --seeds and --first, and a number of --minutes")
}

const settings: Readonly<Record<string, unknown>> = values
const given: Partial<worlds.Setting> = Object.fromEntries(
  names.flatMap((name) => {
    const value = settings[name]
    return typeof value === "string" ? [[name, Number(value)]] : []
  })
)

const print = (line: string) => process.stdout.write(`${line}\n`)

const home = worlds.homes.find((one) => one === values.home) ?? "process"

const play = (seed: number, setting: Partial<worlds.Setting>, options: Omit<worlds.Options, "setting"> = {}) =>
  Effect.runPromise(Effect.result(worlds.run(seed, { setting, home, ...options })))

/** The kind of a problem: without names and numbers. */
const kindOf = ({ reason }: Simulation.SimulationError): string =>
  reason._tag === "Failed"
    ? (reason.problem.split("\n")[0] ?? "").replaceAll(/\S*[\d/]\S*/g, "#").slice(0, 60)
    : reason._tag

/** The smallest setting in which this seed, or one of the next ones, goes wrong in the same way, as far as a minute finds it. */
const shrink = async (seed: number, from: worlds.Setting, kind: string) => {
  const until = performance.now() + 60_000
  let smallest = { seed, setting: from }
  for (const name of names) {
    const least = name === "processes" || name === "sessions" || name === "calls" ? 1 : 0
    const most = smallest.setting[name]
    for (const value of new Set([least, Math.ceil(most / 3), Math.ceil(most / 2), most - 1])) {
      if (value < least || value >= most) continue
      const setting = { ...smallest.setting, [name]: value }
      let found: number | undefined
      for (let next = smallest.seed; next < smallest.seed + 10 && found === undefined; next++) {
        if (performance.now() > until) return smallest
        const result = await play(next, setting)
        if (Result.isFailure(result) && kindOf(result.failure) === kind) found = next
      }
      if (found === undefined) continue
      smallest = { seed: found, setting }
      break
    }
  }
  return smallest
}

const eventsOf = ({ lives }: Diary): ReadonlyArray<string> =>
  [...lives].flatMap(([life, { entries, session }]) => [
    `session ${session}, ${life}`,
    ...entries.map(({ event, sequence }) => {
      const tag = event._tag === "RunEvent" ? event.event._tag : event._tag
      const shown = JSON.stringify(event._tag === "RunEvent" ? event.event : event)
      const ids = [...shown.matchAll(/"(?:messageId|callId|key|text|reason|outcome|approved)":("?[^",}]*)/g)].map(
        ([, id = ""]) => id.replace('"', "")
      )
      return `  ${String(sequence).padStart(4)} ${tag} ${[...new Set(ids)].join(" ")}`
    })
  ])

const isOfStore = /process \d+: (?:get|list|compareAndSet|delete) (?!.*fails)/

const command = (seed: number, setting: Partial<worlds.Setting>, rest: string) => {
  const usual = worlds.settingOf(seed)
  const where = home === "process" ? [] : [`--home ${home}`]
  const options = names.flatMap((name) =>
    setting[name] === undefined || setting[name] === usual[name] ? [] : [`--${name} ${setting[name]}`]
  )
  return ["npm run worlds -- --seeds 1", `--first ${seed}`, ...where, ...options, rest].join(" ")
}

const report = async (seed: number, error: Simulation.SimulationError) => {
  print(`world ${seed} went wrong:\n${error.reason._tag === "Failed" ? error.reason.problem : error.message}`)
  const smallest = await shrink(seed, { ...worlds.settingOf(seed), ...given }, kindOf(error))
  print(`\nin the smallest setting:\n  ${command(smallest.seed, smallest.setting, "--trace")}`)
}

const figures: Record<string, number> = {}
const begun = performance.now()
let worldsRun = 0
let shownAt = 0

const show = () => {
  shownAt = performance.now()
  const { system, user } = process.cpuUsage()
  const seconds = (user + system) / 1_000_000
  const all = Object.entries(figures).map(([name, count]) => `${name} ${count}`)
  print(`${worldsRun} worlds, ${(worldsRun / seconds).toFixed(1)} in a CPU second; ${all.join(", ")}`)
}

if (values.mutants) {
  const { only, part = "1/1", tests } = values
  await noticing.run({ only, part, seeds: Number(seeds), tests, minutes: Number(minutes), print })
  process.exit()
}

if (values.screen) {
  // The published clients are packages of that folder
  const screen = await import("../screen/all.ts")
  const [part = 1, parts = 1] = values.part.split("/").map(Number)
  await screen.run({ only: values.only, every: parts, first: part - 1, print })
  process.exit()
}

if (values.exhaustive) {
  const { at, home, kind, part, script } = values
  await exhaustive.run({ minutes: Number(minutes), part: part ?? "1/1", script, home, kind, at })
  process.exit()
}

// The caches of the process are filled
await play(0, given)
for (let seed = Number(first); seed < Number(first) + Number(seeds); seed++) {
  if (performance.now() - begun > Number(minutes) * 60_000) break
  let diary: Diary | undefined
  // Each twentieth world runs twice, to be the same
  const compare = seeds === 1 || seed % 20 === 0
  const result = await play(seed, given, { compare, onSeen: (seen) => (diary = seen.diary) })
  if (Result.isFailure(result)) {
    if (!values.trace) await report(seed, result.failure)
    else {
      for (const line of result.failure.trace) if (values.store || !isOfStore.test(line)) print(line)
      if (diary !== undefined) for (const line of eventsOf(diary)) print(line)
      print(result.failure.reason._tag === "Failed" ? result.failure.reason.problem : result.failure.message)
    }
    process.exitCode = 1
    break
  }
  worldsRun += 1
  for (const [name, count] of Object.entries(result.success.figures)) figures[name] = (figures[name] ?? 0) + count
  if (performance.now() - shownAt > 10_000) show()
}
show()
