/**
 * Fuzzes every decoder: `npm run fuzz -- --inputs 2000000 --seed 7 --workers 2`. The same seed makes the same inputs,
 * and `--first` is the number of the first one, so one input can be repeated alone. Findings are in .generated/fuzz.
 */
import { spawn } from "node:child_process"
import { mkdirSync, readFileSync, rmSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"

const { values } = parseArgs({
  options: {
    inputs: { type: "string", default: "2000000" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    first: { type: "string", default: "0" },
    workers: { type: "string", default: "1" }
  }
})
const [inputs, seed, first, workers] = [values.inputs, values.seed, values.first, values.workers].map(Number)
if (![inputs, seed, first, workers].every(Number.isSafeInteger) || inputs === undefined || first === undefined) {
  throw new Error("Expected whole numbers: --inputs, --seed, --first, --workers")
}

const root = new URL("../", import.meta.url)
const folder = new URL(".generated/fuzz/", root)
mkdirSync(folder, { recursive: true })

/** No thousand inputs take so long, so the process hangs. */
const patience = 180_000

const read = (file: string): string => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return ""
  }
}

const run = (from: number, count: number): Promise<number> =>
  new Promise((resolve) => {
    const progress = fileURLToPath(new URL(`progress-${from}.json`, folder))
    rmSync(progress, { force: true })
    const child = spawn("vitest", ["run", "--silent=false", "--maxWorkers=1", "test/fuzz"], {
      cwd: fileURLToPath(root),
      detached: true,
      stdio: "inherit",
      env: {
        ...process.env,
        EMISSARY_FUZZ_SEED: String(seed),
        EMISSARY_FUZZ_FIRST: String(from),
        EMISSARY_FUZZ_INPUTS: String(count),
        EMISSARY_FUZZ_PROGRESS: progress
      }
    })
    let seen = ""
    let since = Date.now()
    const watch = setInterval(() => {
      const now = read(progress)
      if (now !== seen) {
        seen = now
        since = Date.now()
      } else if (Date.now() - since > patience && child.pid !== undefined) {
        process.stdout.write(
          `\nIt hangs. Repeat it with: npm run fuzz -- --seed ${seed} --first ${seen || from} --inputs 1000\n`
        )
        process.kill(-child.pid, "SIGKILL")
      }
    }, 1000)
    child.on("close", (code) => {
      clearInterval(watch)
      process.stdout.write(`${read(progress)}\n`)
      resolve(code ?? 1)
    })
  })

process.stdout.write(`${inputs} inputs of seed ${seed}\n`)
const share = Math.ceil(inputs / Math.max(1, workers ?? 1))
const starts = Array.from({ length: Math.ceil(inputs / share) }, (_, index) => index * share)
const codes = await Promise.all(starts.map((start) => run(first + start, Math.min(share, inputs - start))))
process.exitCode = Math.max(...codes)
