/**
 * Runs `npm run mutation`: Stryker changes the code of stores, sessions, and the machines of agents, plans and tools, one
 * place at a time, and counts the changes (mutants) that a test notices. A whole run takes hours, so a run takes a sample:
 * windows of twelve lines at random places, which together hold `--share` percent of the lines.
 *
 *     npm run mutation -- --share 3 --seed 7
 *     npm run mutation -- --files src/payload/Digest.ts --share 100
 *
 * Prints the survivors with their lines, and a table of the counts per room. `.generated/mutation.json` holds the whole
 * report. Changes of texts count: three of four are names and tags, not messages.
 */
import { spawn } from "node:child_process"
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { parseArgs } from "node:util"

const { values } = parseArgs({
  options: {
    share: { type: "string", default: "3" },
    seed: { type: "string", default: String(Date.now() % 100_000) },
    concurrency: { type: "string", default: String(availableParallelism()) },
    files: { type: "string", multiple: true, default: ["src/{store,session}/**/*.ts", "src/{agent,plan,tool}/internal/*.ts"] }
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
const places = values.files
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

mkdirSync(".generated", { recursive: true })
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
    tempDirName: ".generated/stryker",
    reporters: ["clear-text", "progress-append-only", "json"],
    jsonReporter: { fileName: ".generated/mutation.json" },
    clearTextReporter: { allowColor: false, logTests: false, reportTests: false }
  })
)
process.stdout.write(`${places.length} places, seed ${seed}\n`)
spawn("stryker run .generated/stryker.json", { shell: true, stdio: "inherit" }).on("close", (code) => {
  process.exitCode = code ?? 1
  if (code === 0) summarize()
})

/** Prints how many mutants of each room have which status. `Ignored` ones run at load only and are in no percentage. */
function summarize() {
  const report: { files: Record<string, { mutants: Array<{ status: string }> }> } = JSON.parse(
    readFileSync(".generated/mutation.json", "utf8")
  )
  const rooms: Record<string, Record<string, number>> = {}
  for (const [file, { mutants }] of Object.entries(report.files)) {
    for (const room of [file.split("/")[1] ?? file, "all"]) {
      const counts = (rooms[room] ??= { Killed: 0, Timeout: 0, Survived: 0, NoCoverage: 0, Ignored: 0 })
      for (const { status } of mutants) counts[status] = (counts[status] ?? 0) + 1
    }
  }
  for (const counts of Object.values(rooms)) {
    const { Killed = 0, NoCoverage = 0, Survived = 0, Timeout = 0 } = counts
    const noticed = Killed + Timeout
    counts["percent noticed"] = Math.round((1000 * noticed) / (noticed + Survived + NoCoverage)) / 10
  }
  console.table(rooms)
}
