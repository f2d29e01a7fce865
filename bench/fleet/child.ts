/** A process of `bench/fleet.ts`: does one task, which is its argument, and prints what it measured as JSON. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Fiber, Layer, Option, Schedule, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { type ChildProcess, spawn } from "node:child_process"
import { createServer } from "node:net"
import { cpus } from "node:os"
import { DatabaseSync, StatementSync } from "node:sqlite"
import { fileURLToPath } from "node:url"
import * as layers from "./layers.ts"

export type Task =
  | { readonly task: "floor"; readonly database: layers.Database; readonly millis: number }
  | (layers.Place & { readonly task: "sessions"; readonly count: number; readonly concurrency: number })
  | (layers.Place & { readonly task: "events"; readonly sessions: number; readonly steps: number })
  | { readonly task: "open"; readonly database: layers.Database; readonly steps: number }
  | { readonly task: "storage"; readonly database: layers.Database }
  | (layers.Place & { readonly task: "idle"; readonly sessions: number; readonly readers: number })
  | (layers.Place & { readonly task: "runner" })
  | {
      readonly task: "fleet"
      readonly database: layers.Database
      readonly runners: number
      readonly count: number
      readonly concurrency: number
    }
  | {
      readonly task: "kills"
      readonly database: layers.Database
      readonly config: layers.Config
      readonly kills: number
      readonly sessions: number
    }

const now = () => performance.now()

const quantile = (values: ReadonlyArray<number>, part: number): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}

const busyMillis = (): number =>
  cpus().reduce((sum, { times }) => sum + times.user + times.sys + times.irq + times.nice, 0)

/** SQLite runs in this process: its statements are counted here. */
const statements = { reads: 0, writes: 0, commits: 0 }

const count = (sql: string, isOpen: boolean) => {
  const verb = sql.trimStart().slice(0, 6).toUpperCase()
  if (verb === "SELECT") statements.reads++
  else if (verb === "COMMIT") statements.commits++
  else if (verb === "INSERT" || verb === "UPDATE" || verb === "DELETE") {
    statements.writes++
    if (!isOpen) statements.commits++
  }
}

const { prepare } = DatabaseSync.prototype
const owners = new WeakMap<StatementSync, readonly [string, DatabaseSync]>()
DatabaseSync.prototype.prepare = function (sql) {
  const statement = prepare.call(this, sql)
  owners.set(statement, [sql, this])
  return statement
}
for (const name of ["all", "run"] as const) {
  const original = StatementSync.prototype[name] as (...args: ReadonlyArray<unknown>) => never
  StatementSync.prototype[name] = function (this: StatementSync, ...args: ReadonlyArray<unknown>) {
    const [sql, database] = owners.get(this) ?? ["", undefined]
    count(sql, database?.isTransaction === true)
    return original.apply(this, [...args])
  }
}

/** Transactions that wrote, and bytes of the write-ahead log, of all that use the server. SQLite counts statements, too. */
const written = (database: layers.Database) =>
  database.type === "SQLite"
    ? Effect.sync(() => ({ ...statements, wal: 0 }))
    : Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<Record<"commits" | "wal", string>>`
          SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS commits,
            pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text AS wal`
        return { reads: 0, writes: 0, commits: Number(row?.commits), wal: Number(row?.wal) }
      }).pipe(Effect.orDie)

/** One insert after the other into a table like the table of the store, alone and on as many fibers as the others use. */
const floor = ({ database, millis }: Extract<Task, { readonly task: "floor" }>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`CREATE TABLE raw_events (id TEXT PRIMARY KEY, value TEXT NOT NULL)`
    const value = "x".repeat(600)
    const rates: Array<number> = []
    for (const fibers of [1, 16]) {
      let inserted = 0
      const begin = now()
      const one = Effect.suspend(() => sql`INSERT INTO raw_events VALUES (${`${fibers}/${inserted++}`}, ${value})`)
      const until = Effect.whileLoop({ while: () => now() - begin < millis, body: () => one, step: () => undefined })
      yield* Effect.all(
        Array.from({ length: fibers }, () => until),
        { concurrency: "unbounded" }
      )
      rates.push((inserted * 1000) / (now() - begin))
    }
    return { one: rates[0], many: rates[1] }
  }).pipe(Effect.provide(layers.client(database)))

const ids = (count: number, prefix: string) => Array.from({ length: count }, (_, index) => `${prefix}${index}`)

const isEnd = ({ event }: Session.Entry) => event._tag === "RunEvent" && event.event._tag === "RunFinished"

/** Sessions of one message each, from the first call to the end of the turn. */
const asked = Effect.fnUntraced(function* (all: ReadonlyArray<string>, concurrency: number) {
  const times: Array<number> = []
  const stored: Array<number> = []
  const begin = now()
  const service = yield* Session.Session
  yield* Effect.forEach(
    all,
    (id) =>
      Effect.gen(function* () {
        const before = now()
        const { cursor } = yield* service.send(id, "Where is my parcel 42?")
        stored.push(now() - before)
        yield* service.events(id, { after: cursor }).pipe(Stream.takeUntil(isEnd), Stream.runDrain)
        times.push(now() - before)
      }),
    { concurrency, discard: true }
  )
  const seconds = (now() - begin) / 1000
  return {
    perSecond: all.length / seconds,
    sent: [quantile(stored, 0.5), quantile(stored, 0.95)],
    answered: [quantile(times, 0.5), quantile(times, 0.95)]
  }
})

const sessions = (task: Extract<Task, { readonly task: "sessions" }>) =>
  Effect.gen(function* () {
    yield* asked(ids(Math.min(200, task.count), "warm"), task.concurrency)
    const before = yield* written(task.database)
    const busy = busyMillis()
    const cpu = process.cpuUsage()
    const found = yield* asked(ids(task.count, "s"), task.concurrency)
    const { system, user } = process.cpuUsage(cpu)
    const machine = busyMillis() - busy
    const after = yield* written(task.database)
    return {
      ...found,
      cpu: (system + user) / 1000 / task.count,
      machine: machine / task.count,
      writes: (after.writes - before.writes) / task.count,
      commits: (after.commits - before.commits) / task.count,
      reads: (after.reads - before.reads) / task.count,
      wal: (after.wal - before.wal) / task.count
    }
  }).pipe(Effect.provide(layers.sessions(task)))

/** Long turns: each step is a call of a tool. */
const events = (task: Extract<Task, { readonly task: "events" }>) =>
  Effect.gen(function* () {
    const service = yield* Session.Session
    yield* Session.turn("warm", `do ${task.steps / 4}`)
    const all = ids(task.sessions, "long")
    const before = yield* written(task.database)
    const cpu = process.cpuUsage()
    const begin = now()
    yield* Effect.forEach(all, (id) => Session.turn(id, `do ${task.steps}`), { concurrency: "unbounded" })
    const seconds = (now() - begin) / 1000
    const { system, user } = process.cpuUsage(cpu)
    const after = yield* written(task.database)
    let stored = 0
    for (const id of all) stored += Option.getOrThrow(yield* service.state(id)).sequence
    return {
      events: stored,
      perSecond: stored / seconds,
      cpu: (system + user) / 1000 / stored,
      writes: (after.writes - before.writes) / stored,
      commits: (after.commits - before.commits) / stored,
      wal: (after.wal - before.wal) / stored
    }
  }).pipe(Effect.provide(layers.sessions(task)))

/** A long session is opened by another process, as its state. */
const open = ({ database, steps }: Extract<Task, { readonly task: "open" }>) =>
  Effect.gen(function* () {
    const place = { where: "layer", database } as const
    yield* Effect.provide(Session.turn("long", `do ${steps}`), layers.sessions(place), { local: true })
    const times: Array<number> = []
    let sequence = 0
    for (let i = 0; i < 7; i++) {
      yield* Effect.gen(function* () {
        const service = yield* Session.Session
        const begin = now()
        sequence = Option.getOrThrow(yield* service.state("long")).sequence
        times.push(now() - begin)
      }).pipe(Effect.provide(layers.sessions(place), { local: true }))
    }
    return { events: sequence, millis: quantile(times, 0.5) }
  })

interface Kind {
  readonly rows: number
  readonly bytes: number
}

/** The content of the tables: rows and bytes of values by kind, and the size of all on disk. */
const stored = (database: layers.Database) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const kinds: Record<string, Kind> = {}
    const add = (kind: string, row: { readonly n: unknown; readonly b: unknown } | undefined) => {
      kinds[kind] = { rows: Number(row?.n ?? 0), bytes: Number(row?.b ?? 0) }
    }
    const where = { heads: "%/head/%", snapshots: "%/input", batches: "%/journal/%-%/%", marks: "%/busy/%" }
    for (const [kind, pattern] of Object.entries(where)) {
      const [row] = yield* sql<{ readonly n: unknown; readonly b: unknown }>`
        SELECT COUNT(*) AS n, SUM(LENGTH(store_value) + LENGTH(key_text) + LENGTH(key_start) + LENGTH(key_hash)) AS b
        FROM effect_emissary_store WHERE key_text LIKE ${pattern}`
      add(kind, row)
    }
    for (const table of ["cluster_messages", "cluster_replies"]) {
      const found = yield* Effect.option(
        sql<{ readonly n: unknown; readonly b: unknown }>`
          SELECT COUNT(*) AS n, SUM(LENGTH(payload)) AS b FROM ${sql(table)}`
      )
      if (Option.isSome(found)) add(table, found.value[0])
    }
    return { kinds, disk: yield* disk(database) }
  }).pipe(Effect.orDie)

/** Bytes on disk of the store and of the tables of the cluster, with their indexes. */
const disk = (database: layers.Database) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    if (database.type === "PostgreSQL") {
      const rows = yield* sql<{ readonly name: string; readonly bytes: string }>`
        SELECT relname AS name, pg_total_relation_size(oid) AS bytes FROM pg_class
        WHERE relkind = 'r' AND (relname LIKE 'cluster%' OR relname LIKE 'effect_emissary%')`
      const size = (prefix: string) =>
        rows.reduce((sum, { bytes, name }) => sum + (name.startsWith(prefix) ? Number(bytes) : 0), 0)
      return { store: size("effect_emissary"), cluster: size("cluster_") }
    }
    const rows = yield* sql<{ readonly name: string; readonly bytes: number }>`
      SELECT m.tbl_name AS name, SUM(s.pgsize) AS bytes FROM dbstat s JOIN sqlite_master m ON m.name = s.name
      GROUP BY m.tbl_name`
    const size = (prefix: string) =>
      rows.reduce((sum, { bytes, name }) => sum + (name.startsWith(prefix) ? bytes : 0), 0)
    return { store: size("effect_emissary"), cluster: size("cluster_") }
  })

/** The growth of the tables, and the rows that retention leaves. */
const storage = ({ database }: Extract<Task, { readonly task: "storage" }>) =>
  Effect.gen(function* () {
    const port = yield* freePort
    const place = { where: "layerCluster", database, port } as const
    const inside = <A, E>(
      effect: Effect.Effect<A, E, Session.Session | SqlClient.SqlClient>,
      options: layers.Place["options"] = {}
    ) => Effect.provide(effect, layers.sessions({ ...place, options }), { local: true })
    const empty = yield* inside(stored(database))
    // 200 sessions of 5 messages each
    const talked = yield* inside(
      Effect.gen(function* () {
        for (let round = 0; round < 5; round++) yield* asked(ids(200, "talk"), 16)
        return yield* stored(database)
      })
    )
    const long = yield* inside(
      Effect.gen(function* () {
        yield* Session.turn("long", "do 400")
        return yield* stored(database)
      })
    )
    const short = yield* inside(
      Effect.gen(function* () {
        const service = yield* Session.Session
        // Its events are pruned faster than a reader may read them
        yield* service.send("kept", "do 400")
        const state = Effect.delay(service.state("kept"), "500 millis")
        yield* Effect.repeat(state, { until: (found) => Option.getOrThrow(found).status === "idle" })
        return yield* stored(database)
      }),
      { keepEvents: 256 }
    )
    // The messages of the cluster are removed when the runner starts, and then from time to time
    const pruned = yield* inside(
      Effect.gen(function* () {
        yield* Effect.sleep("5 seconds")
        return yield* stored(database)
      }),
      { retention: "1 millis" }
    )
    return { empty, talked, long, short, pruned }
  })

const memory = Effect.gen(function* () {
  for (let i = 0; i < 4; i++) {
    globalThis.gc?.()
    yield* Effect.sleep("50 millis")
  }
  const { heapUsed, rss } = process.memoryUsage()
  return { heap: heapUsed, rss }
})

const numbered = (index: number) => `s${String(index).padStart(5, "0")}`

/** Stores sessions that are copies of one, because making them would take longer than what is measured. */
const seed = ({ database }: layers.Place, count: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const store = yield* VersionedStore.VersionedStore
    yield* Effect.provide(
      Session.turn(numbered(0), "Where is my parcel 42?"),
      layers.sessions({ where: "layer", database })
    )
    const { keys } = yield* store.list({ prefix: "session/" })
    const copies = Effect.forEach(keys, (key) =>
      Effect.flatMap(store.get(key), (found) => {
        const value = Option.getOrThrow(found).value
        const write = (index: number) =>
          store.compareAndSet(key.replace(numbered(0), numbered(index)), Option.none(), value)
        return Effect.forEach(
          Array.from({ length: count - 1 }, (_, index) => index + 1),
          write,
          { discard: true }
        )
      })
    )
    yield* sql.withTransaction(copies)
  }).pipe(
    Effect.provide(Layer.provideMerge(VersionedStore.layerSql(), layers.client(database)), { local: true }),
    Effect.orDie
  )

/** Sessions in memory, after they have left it, and readers of sessions that are not used. */
const idle = (task: Extract<Task, { readonly task: "idle" }>) =>
  Effect.gen(function* () {
    const service = yield* Session.Session
    const idleMillis = Number(task.options?.idleTime ?? 0)
    const opened = (from: number, to: number) =>
      Effect.forEach(
        Array.from({ length: to - from }, (_, index) => numbered(from + index)),
        (id) => service.state(id),
        { concurrency: 64, discard: true }
      )
    // Code is compiled, and caches are filled
    yield* opened(task.sessions, task.sessions + 200)
    const empty = yield* memory
    const begin = now()
    const before = statements.reads
    yield* opened(0, task.sessions)
    const reads = (statements.reads - before) / task.sessions
    const took = now() - begin
    const full = yield* memory
    yield* Effect.sleep(idleMillis * 2 + 3000)
    const left = yield* memory
    const readers = yield* Effect.forEach(
      Array.from({ length: task.readers }, (_, index) => numbered(index)),
      (id) =>
        Effect.flatMap(Effect.flatMap(service.state(id), Effect.fromOption), ({ cursor }) =>
          Effect.forkChild(Stream.runDrain(service.events(id, { after: cursor })))
        )
    )
    yield* Effect.sleep(idleMillis + 5000)
    const quiet = statements.reads
    const cpu = process.cpuUsage()
    yield* Effect.sleep("5 seconds")
    const { system, user } = process.cpuUsage(cpu)
    const polls = (statements.reads - quiet) / 5 / task.readers
    const read = yield* memory
    yield* Fiber.interruptAll(readers)
    const each = (from: typeof empty, to: typeof empty, count: number) => ({
      heap: (to.heap - from.heap) / count,
      rss: (to.rss - from.rss) / count
    })
    return {
      within: took <= idleMillis,
      perSecond: (task.sessions * 1000) / took,
      opened: reads,
      resident: each(empty, full, task.sessions),
      left: each(empty, left, task.sessions),
      readers: { ...each(left, read, task.readers), reads: polls, cpu: (system + user) / 5000 / task.readers }
    }
  }).pipe(Effect.provide(layers.sessions(task)), (measured) =>
    Effect.andThen(seed(task, task.sessions + 200), measured)
  )

const freePort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" ? (address?.port ?? 0) : 0)))
  })
})

interface Started {
  readonly port: number
  readonly process: ChildProcess
}

const start = Effect.fnUntraced(function* (place: Omit<layers.Place, "port">, fixed?: number) {
  const port = fixed ?? (yield* freePort)
  const task: Task = { task: "runner", ...place, port }
  const child = spawn(process.execPath, ["--no-warnings", fileURLToPath(import.meta.url), JSON.stringify(task)], {
    stdio: ["ignore", "inherit", "inherit", "ipc"]
  })
  yield* Effect.callback<void>((resume) => {
    child.once("message", () => resume(Effect.void))
    child.once("exit", () => resume(Effect.die(new Error("a runner ended"))))
  })
  return { port, process: child } satisfies Started
})

const end = ({ process: child }: Started) =>
  Effect.callback<void>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGKILL")
  })

const runner = (task: Extract<Task, { readonly task: "runner" }>) =>
  Effect.gen(function* () {
    const cpu = () => {
      const { system, user } = process.cpuUsage()
      process.send?.({ cpu: (system + user) / 1000 })
    }
    yield* Effect.acquireRelease(
      Effect.sync(() => process.on("message", cpu)),
      () => Effect.sync(() => process.off("message", cpu))
    )
    process.send?.("ready")
    return yield* Effect.never
  }).pipe(Effect.scoped, Effect.provide(layers.sessions(task)))

const cpuOf = ({ process: child }: Started) =>
  Effect.callback<number>((resume) => {
    // Sound: `runner` answers with it
    child.once("message", (message) => resume(Effect.succeed((message as { readonly cpu: number }).cpu)))
    child.send("cpu")
  })

/** Waits until each shard has a runner. */
const settled = Effect.sleep("5 seconds")

/** A client, and runners in other processes. */
const fleet = ({ concurrency, count, database, runners }: Extract<Task, { readonly task: "fleet" }>) =>
  Effect.gen(function* () {
    const started = yield* Effect.acquireRelease(
      Effect.forEach(ids(runners, "r"), () => start({ where: "layerCluster", database })),
      (all) => Effect.forEach(all, end)
    )
    yield* settled
    return yield* Effect.gen(function* () {
      yield* asked(ids(Math.min(200, count), "warm"), concurrency)
      const before = yield* Effect.forEach(started, cpuOf)
      const own = process.cpuUsage()
      const busy = busyMillis()
      const found = yield* asked(ids(count, "s"), concurrency)
      const machine = (busyMillis() - busy) / count
      const { system, user } = process.cpuUsage(own)
      const after = yield* Effect.forEach(started, cpuOf)
      const used = after.reduce((sum, value, index) => sum + value - (before[index] ?? 0), 0)
      return { ...found, runners: used / count, client: (system + user) / 1000 / count, machine }
    }).pipe(Effect.provide(layers.remote(database)))
  }).pipe(Effect.scoped)

/** Turns that never end, and the pause in the events of each of them when its runner is killed. */
const kills = ({ config, database, kills, sessions: count }: Extract<Task, { readonly task: "kills" }>) =>
  Effect.gen(function* () {
    const place = { where: "layerCluster", database, config, pace: 400 } as const
    const started: Array<Started> = []
    yield* Effect.addFinalizer(() => Effect.forEach(started, end))
    for (let i = 0; i < 3; i++) started.push(yield* start(place))
    yield* settled
    const pauses: Array<number> = []
    yield* Effect.gen(function* () {
      const service = yield* Session.Session
      const all = ids(count, "turn")
      const last = new Map<string, number>()
      const longest = new Map<string, number>()
      yield* Effect.forEach(
        all,
        (id) =>
          Effect.gen(function* () {
            yield* service.send(id, "do 1000000")
            let seen: string | undefined
            const read = Effect.suspend(() => Stream.runForEach(service.events(id, { after: seen }), note))
            const note = ({ cursor }: Session.Entry) =>
              Effect.sync(() => {
                const time = now()
                seen = cursor
                longest.set(id, Math.max(longest.get(id) ?? 0, time - (last.get(id) ?? time)))
                last.set(id, time)
              })
            // A reader gives up after 30 seconds without a runner
            yield* Effect.forkScoped(Effect.retry(read, Schedule.spaced("50 millis")))
          }),
        { concurrency: 16 }
      )
      yield* Effect.sleep("3 seconds")
      for (let kill = 0; kill < kills; kill++) {
        longest.clear()
        const victim = started[kill % 3]
        if (victim === undefined) continue
        // At any time of the intervals
        yield* Effect.sleep(`${Math.round(Math.random() * 3000)} millis`)
        yield* end(victim)
        const killed = now()
        while (all.some((id) => (last.get(id) ?? 0) < killed + 1000)) yield* Effect.sleep("50 millis")
        // Sessions of the other runners continue: their pauses are short
        const moved = [...longest.values()].filter((pause) => pause > 1500)
        pauses.push(...moved)
        console.error(`kill ${kill}: ${moved.length} sessions, median ${quantile(moved, 0.5).toFixed(0)} ms`)
        started[kill % 3] = yield* start(place)
        yield* Effect.sleep("4 seconds")
      }
    }).pipe(Effect.provide(layers.remote(database, config)))
    return {
      sessions: pauses.length,
      least: Math.min(...pauses),
      median: quantile(pauses, 0.5),
      p95: quantile(pauses, 0.95),
      most: Math.max(...pauses)
    }
  }).pipe(Effect.scoped)

const perform = (task: Task): Effect.Effect<unknown, unknown> => {
  switch (task.task) {
    case "floor":
      return floor(task)
    case "sessions":
      return sessions(task)
    case "events":
      return events(task)
    case "open":
      return open(task)
    case "storage":
      return storage(task)
    case "idle":
      return idle(task)
    case "runner":
      return runner(task)
    case "fleet":
      return fleet(task)
    case "kills":
      return kills(task)
  }
}

// Sound: `bench/fleet.ts` wrote it
const task = JSON.parse(process.argv[2] ?? "{}") as Task
NodeRuntime.runMain(
  Effect.map(perform(task), (found) => {
    if (task.task !== "runner") console.log(`RESULT ${JSON.stringify(found)}`)
  })
)
