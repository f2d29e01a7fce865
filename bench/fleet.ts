/**
 * Measures what a machine carries of sessions, in this process and on a fleet, on SQLite and PostgreSQL (DUR-8).
 *
 * `npm run bench:fleet` measures all parts and prints them; `npm run bench:fleet -- sessions events` those, and `--write`
 * puts what was measured into `bench/FLEET.md`. PostgreSQL is measured where `EMISSARY_TEST_POSTGRES` has the address of a
 * server: each part makes a database there and drops it. Every row is a process of its own.
 *
 * | part       | what                                                                          |
 * |------------|-------------------------------------------------------------------------------|
 * | `floor`    | single inserts into the same database                                          |
 * | `sessions` | sessions of one message: made, sent, answered                                  |
 * | `events`   | events of long turns, in one session and in sixteen                            |
 * | `open`     | the time to open a session of 10,000 events                                    |
 * | `fleet`    | one to three runners over HTTP, and a client                                   |
 * | `storage`  | bytes of events, messages and snapshots, and what retention leaves             |
 * | `idle`     | 10,000 sessions in memory, the same after they have left it, and open readers  |
 * | `kills`    | the pause of turns whose runner is killed                                      |
 *
 * A machine that does other work changes the first five: run them more than once, with `--best`. The others measure sizes and waits.
 */
import { spawn } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { cpus, totalmem } from "node:os"
import { fileURLToPath } from "node:url"
import type { Task } from "./fleet/child.ts"
import * as layers from "./fleet/layers.ts"

type TaskWithoutDatabase = Task extends infer One ? (One extends Task ? Omit<One, "database"> : never) : never

interface Row {
  readonly name: string
  readonly type: layers.Database["type"]
  readonly task: TaskWithoutDatabase
}

/** The output of a child: numbers by name. */
type Found = { readonly [key: string]: number | boolean | Found | ReadonlyArray<number> }

const both = ["SQLite", "PostgreSQL"] as const
const places = ["layer", "layerCluster"] as const
const port = 34_911

/** A runner that is killed is noticed within seconds. */
const fast: layers.Config = {
  shardLockExpiration: "3 seconds",
  shardLockRefreshInterval: "1 second",
  refreshAssignmentsInterval: "1 second",
  runnerHealthCheckInterval: "2 seconds"
}

const rows = (part: string): ReadonlyArray<Row> => {
  switch (part) {
    case "floor":
      return both.map((type) => ({ name: type, type, task: { task: "floor", millis: 2000 } }))
    case "sessions":
      return both.flatMap((type) =>
        places.flatMap((where) =>
          [1, 16].map((concurrency) => ({
            name: `${where}, ${type}, ${concurrency} at a time`,
            type,
            task: { task: "sessions", where, port, concurrency, count: concurrency === 1 ? 100 : 400 } as const
          }))
        )
      )
    case "events":
      return both.flatMap((type) =>
        places.flatMap((where) =>
          [1, 16].map((sessions) => ({
            name: `${where}, ${type}, ${sessions === 1 ? "one session" : `${sessions} sessions`}`,
            type,
            task: { task: "events", where, port, sessions, steps: sessions === 1 ? 200 : 50 } as const
          }))
        )
      )
    case "open":
      return both.map((type) => ({ name: type, type, task: { task: "open", steps: 2500 } }))
    case "fleet":
      return [1, 2, 3].map((runners) => ({
        name: `${runners} runner${runners === 1 ? "" : "s"}`,
        type: "PostgreSQL",
        task: { task: "fleet", runners, count: 400, concurrency: 32 }
      }))
    case "storage":
      return both.map((type) => ({ name: type, type, task: { task: "storage" } }))
    case "idle":
      return places.map((where) => ({
        name: where,
        type: "SQLite",
        task: {
          task: "idle",
          where,
          sessions: 10_000,
          readers: 1000,
          // longer than it takes to open them
          options: { idleTime: 45_000 },
          config: { maxResidentEntities: 20_000 }
        }
      }))
    case "kills":
      return [
        { name: "seconds", type: "PostgreSQL", task: { task: "kills", config: fast, kills: 6, sessions: 15 } },
        { name: "defaults", type: "PostgreSQL", task: { task: "kills", config: {}, kills: 2, sessions: 15 } }
      ]
    default:
      throw new Error(`no part ${part}`)
  }
}

const run = (task: Task): Promise<Found> =>
  new Promise((resolve, reject) => {
    const child = spawn(
      process.execPath,
      ["--no-warnings", "--expose-gc", fileURLToPath(new URL("fleet/child.ts", import.meta.url)), JSON.stringify(task)],
      { stdio: ["ignore", "pipe", "inherit"] }
    )
    let text = ""
    child.stdout.on("data", (chunk) => (text += String(chunk)))
    child.on("exit", () => {
      const found = /^RESULT (.*)$/m.exec(text)?.[1]
      if (found === undefined) reject(new Error(`${task.task} measured nothing:\n${text}`))
      else resolve(JSON.parse(found) as Found)
    })
  })

const at = (found: Found | undefined, ...path: ReadonlyArray<string>): number => {
  const [first, ...others] = path
  if (found === undefined || first === undefined) return Number.NaN
  const value = found[first]
  if (typeof value === "number") return value
  if (Array.isArray(value)) return Number(value[Number(others[0])])
  return typeof value === "object" ? at(value as Found, ...others) : Number.NaN
}

/** With `--best` the faster of the stored run and this one: other programs on the machine only make it slower. */
const better = (before: Found | undefined, found: Found): Found => {
  if (before === undefined || !process.argv.includes("--best")) return found
  if ("many" in found)
    return { one: Math.max(at(before, "one"), at(found, "one")), many: Math.max(at(before, "many"), at(found, "many")) }
  return at(before, "perSecond") > at(found, "perSecond") ? before : found
}

const parts = ["floor", "sessions", "events", "open", "fleet", "storage", "idle", "kills"]
const asked = process.argv.slice(2).filter((argument) => !argument.startsWith("--"))
const only = process.argv.find((argument) => argument.startsWith("--only="))?.slice("--only=".length)

const kept = fileURLToPath(new URL("fleet/results.json", import.meta.url))
const read = (): Record<string, Record<string, Found>> =>
  existsSync(kept) ? (JSON.parse(readFileSync(kept, "utf8")) as Record<string, Record<string, Found>>) : {}

let results = read()

for (const part of asked.length === 0 ? parts : asked) {
  for (const { name, task, type } of rows(part)) {
    if (type === "PostgreSQL" && layers.server === "") continue
    if (only !== undefined && !name.includes(only)) continue
    // Sound: a task and its database
    const found = await layers.withDatabase(type, (database) => run({ ...task, database } as Task))
    // Another part may be measured at the same time
    results = read()
    results[part] = { ...results[part], [name]: better(results[part]?.[name], found) }
    if (process.argv.includes("--write")) writeFileSync(kept, `${JSON.stringify(results, undefined, 2)}\n`)
    console.log(`${part}: ${name}: ${JSON.stringify(found)}`)
  }
}

const round = (value: number): string => {
  if (Number.isNaN(value)) return "-"
  if (Math.abs(value) >= 100) return value.toFixed(0)
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2)
}

const table = (head: ReadonlyArray<string>, body: ReadonlyArray<ReadonlyArray<string>>): string =>
  [head, head.map((_, index) => (index === 0 ? "---" : "---:")), ...body]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n")

const each = (part: string, cells: (found: Found, name: string) => ReadonlyArray<number | string>) =>
  Object.entries(results[part] ?? {}).map(([name, found]) => [
    name,
    ...cells(found, name).map((cell) => (typeof cell === "number" ? round(cell) : cell))
  ])

/** Inserts per second of the database in the name of a row. */
const floorOf = (name: string, which: "one" | "many"): number =>
  at(results["floor"]?.[name.includes("SQLite") ? "SQLite" : "PostgreSQL"], which)

const KB = 1024

const storageRows = (): ReadonlyArray<ReadonlyArray<string>> =>
  Object.entries(results["storage"] ?? {}).flatMap(([name, found]) => {
    const grown = (from: string, to: string, ...path: ReadonlyArray<string>) =>
      at(found, to, ...path) - at(found, from, ...path)
    const events = (from: string, to: string, per: number) => [
      round(grown(from, to, "disk", "store") / per),
      round(grown(from, to, "disk", "cluster") / per),
      round(grown(from, to, "kinds", "batches", "rows") / per),
      round((grown(from, to, "kinds", "snapshots", "bytes") + 0) / per)
    ]
    return [
      [`${name}: a message and its answer, 1,000 in 200 sessions`, ...events("empty", "talked", 1000)],
      [`${name}: an event, 1,606 of one turn`, ...events("talked", "long", 1606)],
      [`${name}: the same with keepEvents: 256`, ...events("long", "short", 1606)]
    ]
  })

const page = `# What a machine carries of sessions

Written by \`npm run bench:fleet -- --write\`, see [bench/fleet.ts](fleet.ts). [SCALE.md](SCALE.md) says what follows. The model
answers at once, so what is measured is the library, the cluster and the database, which share this machine. Speeds are the best of some runs.

${cpus()[0]
  ?.model.trim()
  .replace(
    / \d+-Core.*/,
    ""
  )}, ${cpus().length} cores, ${Math.round(totalmem() / 1024 ** 3)} GB, node ${process.version}.

## The floor: one insert of 600 bytes, inserts per second

${table(
  ["database", "one after the other", "16 at a time"],
  each("floor", (found) => [at(found, "one"), at(found, "many")])
)}

## Sessions: made, one message, one answer, done

Times are milliseconds: the median and the slowest of 20. Commits are those of the database. The ratio is commits per second to the inserts per second of
the floor.

${table(
  ["row", "sessions/s", "send", "p95", "answer", "p95", "commits", "CPU ms", "to the floor"],
  each("sessions", (found, name) => [
    at(found, "perSecond"),
    at(found, "sent", "0"),
    at(found, "sent", "1"),
    at(found, "answered", "0"),
    at(found, "answered", "1"),
    at(found, "commits"),
    at(found, "cpu"),
    (at(found, "perSecond") * at(found, "commits")) / floorOf(name, name.includes(" 1 at") ? "one" : "many")
  ])
)}

## Events of long turns

Each step of a turn calls a tool: 4 events, of which three are waited for.

${table(
  ["row", "events/s", "commits per event", "CPU ms per event", "commits/s to the floor"],
  each("events", (found, name) => [
    at(found, "perSecond"),
    at(found, "commits"),
    at(found, "cpu"),
    (at(found, "perSecond") * at(found, "commits")) / floorOf(name, name.includes("one session") ? "one" : "many")
  ])
)}

## Opening a long session

${table(
  ["database", "events", "milliseconds"],
  each("open", (found) => [at(found, "events"), at(found, "millis")])
)}

## Runners on one machine, over HTTP, on PostgreSQL

The runners, the client and PostgreSQL share the cores: more runners divide them.

${table(
  ["row", "sessions/s", "send", "p95", "answer", "p95", "CPU ms runners", "client", "all"],
  each("fleet", (found) => [
    at(found, "perSecond"),
    at(found, "sent", "0"),
    at(found, "sent", "1"),
    at(found, "answered", "0"),
    at(found, "answered", "1"),
    at(found, "runners"),
    at(found, "client"),
    at(found, "machine")
  ])
)}

## Storage: bytes on disk, with indexes

${table(["what", "store", "tables of the cluster", "rows of events", "snapshots"], storageRows())}

Rows before and after \`retention\` has passed:

${table(
  ["database", "cluster_messages", "cluster_replies", "messages after", "replies after"],
  each("storage", (found) => [
    at(found, "short", "kinds", "cluster_messages", "rows"),
    at(found, "short", "kinds", "cluster_replies", "rows"),
    at(found, "pruned", "kinds", "cluster_messages", "rows"),
    at(found, "pruned", "kinds", "cluster_replies", "rows")
  ])
)}

## Memory of 10,000 idle sessions on one runner, KB of heap for each

${table(
  ["layer", "in memory", "after idleTime", "an open reader", "reads per second of a reader", "reads to open one"],
  each("idle", (found) => [
    at(found, "resident", "heap") / KB,
    at(found, "left", "heap") / KB,
    at(found, "readers", "heap") / KB,
    at(found, "readers", "reads"),
    at(found, "opened")
  ])
)}

## Turns whose runner is killed, seconds until they run again

Three runners on PostgreSQL, \`SIGKILL\` of one at a time, 15 sessions in a turn. \`seconds\` is \`${JSON.stringify(fast)}\`.

${table(
  ["settings", "turns that moved", "least", "median", "p95", "most"],
  each("kills", (found) => [
    at(found, "sessions"),
    at(found, "least") / 1000,
    at(found, "median") / 1000,
    at(found, "p95") / 1000,
    at(found, "most") / 1000
  ])
)}
`

if (process.argv.includes("--write")) {
  writeFileSync(fileURLToPath(new URL("FLEET.md", import.meta.url)), page)
}
