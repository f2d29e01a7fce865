/**
 * The full run of the kill tests: `npm run kill`, with `-- --kills 200 --seed 7` to choose, and `--write` to put the
 * figures into bench/KILL.md. `--home naive` has sessions that are not durable, and figures above 0. It starts a server of PostgreSQL of its own, so that it can restart it.
 */
import * as Effect from "effect/Effect"
import { mkdtempSync, readFileSync, rmSync, writeFileSync, chmodSync } from "node:fs"
import { cpus, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import * as postgres from "./postgres.ts"
import * as runs from "./run.ts"

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "200" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    runners: { type: "string", default: "3" },
    clients: { type: "string", default: "8" },
    pause: { type: "string", default: "700" },
    restarts: { type: "string", default: "" },
    deploys: { type: "string", default: "" },
    outages: { type: "string", default: "" },
    breaks: { type: "string", default: "" },
    port: { type: "string", default: "54329" },
    database: { type: "string", default: "postgres" },
    home: { type: "string", default: "cluster" },
    write: { type: "boolean", default: false },
    keep: { type: "boolean", default: false }
  }
})

const homes = ["cluster", "process", "naive"] as const

const whole = (name: "kills" | "seed" | "runners" | "clients" | "pause" | "port"): number => {
  const value = Number(values[name])
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw new Error(`expected a whole number after --${name}, got ${values[name]}`)
}

const directory = mkdtempSync(join(tmpdir(), "emissary-kill-"))
// The user of the server has to get to its files
chmodSync(directory, 0o755)

const server = values.database === "postgres" ? await postgres.start(directory, whole("port")) : undefined
const kills = whole("kills")
const options: runs.Options = {
  directory,
  database: server
    ? { type: "postgres", url: server.url }
    : { type: "sqlite", filename: join(directory, "store.sqlite") },
  home: homes.find((home) => home === values.home) ?? "cluster",
  seed: whole("seed"),
  runners: whole("runners"),
  clients: whole("clients"),
  messages: 6,
  readers: 2,
  pace: 60,
  leaseMillis: 3000,
  pause: whole("pause"),
  kills,
  stops: Math.ceil(kills / 20),
  deploys: values.deploys === "" ? Math.ceil(kills / 40) : Number(values.deploys),
  outages: values.outages === "" ? Math.ceil(kills / 20) : Number(values.outages),
  breaks: values.breaks === "" ? Math.ceil(kills / 40) : Number(values.breaks),
  restarts: server ? Number(values.restarts === "" ? Math.ceil(kills / 25) : values.restarts) : 0,
  ...(server && { restartDatabase: Effect.promise(server.restart) }),
  patience: 90_000
}

process.stdout.write(`seed ${options.seed}, files in ${directory}\n`)
const result = await Effect.runPromise(runs.run(options, (line) => process.stdout.write(`${line}\n`))).finally(() =>
  server?.close()
)
const table = runs.render(result)
const faults = runs.faults(result)
process.stdout.write(`\n${table}\n\n${faults.slice(0, 40).join("\n")}\n`)
if (values.write) {
  const page = fileURLToPath(new URL("../../../bench/KILL.md", import.meta.url))
  const machine = `${cpus().length} cores (${cpus()[0]?.model.trim()}), Node ${process.version}`
  const text = readFileSync(page, "utf8")
  const head = text.slice(0, text.indexOf("\n## "))
  const where = `${options.runners} runners on ${server ? "PostgreSQL" : "SQLite"}, ${options.clients} sessions with load at a time`
  writeFileSync(page, `${head}\n## Figures\n\n${where}; ${machine}.\n\n${table}\n`)
}
if (faults.length > 0) process.exitCode = 1
if (!values.keep && faults.length === 0) rmSync(directory, { recursive: true, force: true })
else process.stdout.write(`the files are in ${directory}\n`)
