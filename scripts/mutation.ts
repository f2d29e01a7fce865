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
 */
import { spawnSync } from "node:child_process"
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { parseArgs } from "node:util"

const { values } = parseArgs({
  options: {
    share: { type: "string", default: "3" },
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
  agent: { files: ["src/agent/internal/*.ts"], tests: "test/agent/*.test.ts" },
  plan: { files: ["src/plan/internal/*.ts"], tests: "test/{plan,golden}/*.test.ts" },
  tool: { files: ["src/tool/internal/*.ts"], tests: "test/{tool,agent}/*.test.ts" }
}

mkdirSync(".generated", { recursive: true })

const mutate = (room: string, { files, tests }: { readonly files: ReadonlyArray<string>; readonly tests: string }) => {
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
      // a mutant that hangs is noticed; one that is slow because the machine is busy must not count as such
      timeoutMS: 60_000,
      dryRunTimeoutMinutes: 20,
      disableTypeChecks: true,
      // Stryker would read tsconfig.json with an API that TypeScript 7 no longer has
      tsconfigFile: "no-tsconfig.json",
      tempDirName: `.generated/stryker-${room}`,
      reporters: ["clear-text", "progress-append-only", "json"],
      jsonReporter: { fileName: `.generated/mutation-${room}.json` },
      clearTextReporter: { allowColor: false, logTests: false, reportTests: false }
    })
  )
  process.stdout.write(`${room}: ${places.length} places, seed ${seed}\n`)
  return spawnSync("stryker run .generated/stryker.json", {
    shell: true,
    stdio: "inherit",
    env: { ...process.env, MUTATION_TESTS: tests }
  }).status
}

for (const room of values.room) {
  const parts = rooms[room]
  if (parts === undefined) throw new Error(`expected --room of ${Object.keys(rooms).join(", ")}, got ${room}`)
  if (mutate(room, parts) !== 0) process.exitCode = 1
}
summarize()

/** Prints how many mutants of each room have which status. `Ignored` ones run at load only and are in no percentage. */
function summarize() {
  const counted: Record<string, Record<string, number>> = {}
  for (const room of values.room) {
    const report: { files: Record<string, { mutants: Array<{ status: string }> }> } = JSON.parse(
      readFileSync(`.generated/mutation-${room}.json`, "utf8")
    )
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
