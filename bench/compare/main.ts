/**
 * Compares this library with its peers. `npm run bench` measures everything, `npm run bench -- W1 W5 --rows
 * emissary,hybrid,ai-sdk --rounds 20` a part; `--write` puts what was measured into `bench/RESULTS.md`. `--against <commit>`
 * compares with an earlier build of this library instead.
 */
import { spawnSync } from "node:child_process"
import { existsSync, statSync, symlinkSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { compare } from "./against.ts"
import { gate, measure } from "./harness.ts"
import { measurePrograms } from "./programs.ts"
import * as report from "./report.ts"
import { agents, workloads, type Workload } from "./workloads.ts"

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** Installs the peers, and links the built library, which uses the `effect` of the repository as the rows do. */
const install = (): void => {
  const installed = here("node_modules/.package-lock.json")
  if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(here("package-lock.json")).mtimeMs) {
    const { status } = spawnSync("npm ci --ignore-scripts", { cwd: here("."), stdio: "inherit", shell: true })
    if (status !== 0) throw new Error("npm ci failed in bench/compare")
  }
  if (existsSync(here("node_modules/effect"))) throw new Error("a peer brought a second copy of effect")
  if (!existsSync(here("node_modules/effect-emissary"))) symlinkSync("../../..", here("node_modules/effect-emissary"))
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: "string" },
    rounds: { type: "string", default: "10" },
    write: { type: "boolean", default: false },
    against: { type: "string" }
  }
})

install()
for (const id of positionals)
  if (workloads.every((workload) => workload.id !== id))
    throw new Error(`there is no workload ${id}, only ${workloads.map((workload) => workload.id).join(", ")}`)
const picked = workloads.filter(({ id }) => positionals.length === 0 || positionals.includes(id))
const rowsOf = ({ rows }: Workload): ReadonlyArray<string> =>
  Object.keys(rows).filter((row) => values.rows === undefined || values.rows.split(",").includes(row))

if (values.against !== undefined) {
  const isFine = await compare(values.against, picked, { rounds: Number(values.rounds), rows: values.rows?.split(",") })
  process.exit(isFine ? 0 : 1)
}

const refused = new Set<string>()
for (const row of new Set(picked.filter(({ rows }) => rows === agents).flatMap(rowsOf))) {
  try {
    const invalid = await gate(agents[row] ?? "")
    report.keepGate(row, invalid)
    process.stdout.write(`${row.padEnd(16)} passes the gate; on invalid arguments ${invalid}\n`)
  } catch (cause) {
    refused.add(row)
    report.keepGate(row, "the row does not pass the gate")
    process.stdout.write(`${row.padEnd(16)} does not pass the gate and is left out: ${String(cause)}\n`)
    process.exitCode = 1
  }
}
for (const workload of picked) {
  const rows = rowsOf(workload).filter((row) => !refused.has(row))
  if (rows.length === 0) continue
  const measureRows = workload.measure === "program" ? measurePrograms : measure
  const results = await measureRows(workload, { rows, rounds: Number(values.rounds) })
  report.keep(workload, results)
  if (values.write) report.save()
  process.stdout.write(`\n${report.section(workload, results)}\n`)
}
if (picked.some(({ targets }) => targets.length > 0)) process.stdout.write(`\n${report.targets(picked)}\n`)
if (values.write) await report.write()
process.exit()
