/**
 * Runs `npm run mutation`: Stryker changes the code of stores, sessions, and the machines of agents, plans and tools, one
 * place at a time, and counts the changes (mutants) that a test notices. A whole run takes hours, so a run takes a sample:
 * windows of twelve lines at random places, which together hold `--share` percent of the lines.
 *
 *     npm run mutation -- --share 3 --seed 7
 *     npm run mutation -- --room tool --files src/tool/internal/telemetry.ts --share 100
 *
 * Prints the survivors with their lines, and a table of the counts per room. `.generated/mutation-<room>.json` holds the whole
 * report of a room. Changes of texts count: three of four are names and tags, not messages.
 *
 * With `--write` the sample is added to `test/mutation/samples.json`: the counts by commit and file, and the survivors. Each
 * survivor there gets a `reason` by hand: why nothing has to notice it, or the test that notices it now.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { parseArgs } from "node:util"

const { values } = parseArgs({
  options: {
    share: { type: "string", default: "1" },
    write: { type: "boolean", default: false },
    seed: { type: "string", default: String(Date.now() % 100_000) },
    concurrency: { type: "string", default: String(availableParallelism()) },
    room: { type: "string", multiple: true, default: ["store", "session", "agent", "plan", "tool"] },
    files: { type: "string", multiple: true, default: [] }
  }
})
const share = Number(values.share)
const seed = Number(values.seed)
if (!(share > 0 && share <= 100) || !Number.isSafeInteger(seed)) {
  throw new Error("expected --share from 1 to 100 and a whole number as --seed")
}

/** Numbers from 0 to 1 that follow from the seed (mulberry32). */
const random = ((state: number) => () => {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
})(seed)

const window = 12
const stretch = Math.round((window * 100) / share)

/** Windows of the files of a room. */
const placesOf = (patterns: ReadonlyArray<string>) =>
  patterns
    .flatMap((pattern) => globSync(pattern))
    .filter((file) => !file.endsWith("/index.ts"))
    .sort()
    .flatMap((file) => {
      const lines = readFileSync(file, "utf8").split("\n").length
      if (share === 100) return [file]
      return Array.from({ length: Math.ceil(lines / stretch) }, (_, index) => {
        const start = 1 + index * stretch
        const free = Math.max(0, Math.min(stretch, lines - start) - window)
        const first = start + Math.floor(random() * (free + 1))
        return `${file}:${first}-${first + window}`
      })
    })

/** The tests of a room notice its mutants: all tests would take ten times as long. */
const rooms: Readonly<Record<string, { readonly files: ReadonlyArray<string>; readonly tests: string }>> = {
  store: { files: ["src/store/**/*.ts"], tests: "test/{store,session}/*.test.ts" },
  session: { files: ["src/session/**/*.ts"], tests: "test/session/*.test.ts" },
  agent: { files: ["src/{run,agent}/internal/*.ts"], tests: "test/agent/*.test.ts" },
  plan: { files: ["src/plan/internal/*.ts"], tests: "test/{plan,golden}/*.test.ts" },
  tool: { files: ["src/tool/internal/*.ts"], tests: "test/{tool,agent}/*.test.ts" }
}

const reportOf = (room: string): string => `.generated/mutation-${room}.json`

interface Mutant {
  readonly status: string
  readonly mutatorName: string
  readonly replacement?: string
  readonly location: { readonly start: { readonly line: number; readonly column: number } }
}

interface Report {
  readonly files: Readonly<Record<string, { readonly mutants: ReadonlyArray<Mutant>; readonly source: string }>>
}

mkdirSync(".generated", { recursive: true })

const mutate = (room: string, { files, tests }: { readonly files: ReadonlyArray<string>; readonly tests: string }) => {
  rmSync(reportOf(room), { force: true })
  const places = placesOf(values.files.length > 0 ? values.files : files)
  writeFileSync(
    ".generated/stryker.json",
    JSON.stringify({
      mutate: places,
      testRunner: "vitest",
      vitest: { configFile: "scripts/mutation.vitest.ts" },
      coverageAnalysis: "perTest",
      // code that runs once, when a module is loaded, needs all tests for each of its changes
      ignoreStatic: true,
      concurrency: Number(values.concurrency),
      // a mutant that hangs is noticed; a mutant that is slow because the machine is busy must not count as noticed
      timeoutMS: 60_000,
      dryRunTimeoutMinutes: 20,
      disableTypeChecks: true,
      // Stryker would read tsconfig.json with an API that TypeScript 7 no longer has
      tsconfigFile: "no-tsconfig.json",
      ignorePatterns: ["bench", "docs", "examples"],
      tempDirName: `.generated/stryker-${room}`,
      reporters: ["clear-text", "progress-append-only", "json"],
      jsonReporter: { fileName: reportOf(room) },
      clearTextReporter: { allowColor: false, logTests: false, reportTests: false }
    })
  )
  process.stdout.write(`${room}: ${places.length} places, seed ${seed}\n`)
  return spawnSync("stryker run .generated/stryker.json", {
    shell: true,
    stdio: "inherit",
    env: { ...process.env, MUTATION_TESTS: tests, EMISSARY_TEST_RUNS: "10" }
  }).status
}

const reports = values.room.flatMap((room): ReadonlyArray<{ readonly room: string; readonly report: Report }> => {
  const parts = rooms[room]
  if (parts === undefined) throw new Error(`expected --room of ${Object.keys(rooms).join(", ")}, got ${room}`)
  const status = mutate(room, parts)
  if (status !== 0) process.exitCode = 1
  if (existsSync(reportOf(room))) return [{ room, report: JSON.parse(readFileSync(reportOf(room), "utf8")) }]
  process.stdout.write(`${room}: no mutant was tried, because Stryker ended with status ${status}. It says why above\n`)
  process.exitCode = 1
  return []
})
summarize()
if (values.write && reports.length > 0) write()

/** Prints how many mutants of each room have which status. `Ignored` ones run at load only and are in no percentage. */
function summarize() {
  const counted: Record<string, Record<string, number>> = {}
  for (const { report, room } of reports) {
    for (const name of [room, "all"]) {
      const counts = (counted[name] ??= { Killed: 0, Timeout: 0, Survived: 0, NoCoverage: 0, Ignored: 0 })
      for (const { mutants } of Object.values(report.files)) {
        for (const { status } of mutants) counts[status] = (counts[status] ?? 0) + 1
      }
    }
  }
  for (const counts of Object.values(counted)) {
    const { Killed = 0, NoCoverage = 0, Survived = 0, Timeout = 0 } = counts
    const noticed = Killed + Timeout
    counts["percent noticed"] = Math.round((1000 * noticed) / (noticed + Survived + NoCoverage)) / 10
  }
  console.table(counted)
}

/** Adds the sample to the samples of the repository. */
function write() {
  const path = "test/mutation/samples.json"
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim()
  const files: Record<string, { noticed: number; survived: number }> = {}
  const survivors: Array<Record<string, string | number>> = []
  for (const [file, { mutants, source }] of reports.flatMap(({ report }) => Object.entries(report.files))) {
    for (const { location, mutatorName, replacement, status } of mutants) {
      const isNoticed = status === "Killed" || status === "Timeout"
      if (!isNoticed && status !== "Survived" && status !== "NoCoverage") continue
      const counts = (files[file] ??= { noticed: 0, survived: 0 })
      counts[isNoticed ? "noticed" : "survived"]++
      if (isNoticed) continue
      const { column, line } = location.start
      const code = (source.split("\n")[line - 1] ?? "").trim()
      survivors.push({ file, line, column, mutator: mutatorName, code, replacement: replacement ?? "", reason: "" })
    }
  }
  const samples: Array<unknown> = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : []
  samples.push({ commit, seed, share, rooms: reports.map(({ room }) => room), files, survivors })
  mkdirSync("test/mutation", { recursive: true })
  writeFileSync(path, `${JSON.stringify(samples, null, 2)}\n`)
  process.stdout.write(`${survivors.length} survivors are in ${path}. Give each a reason\n`)
}
