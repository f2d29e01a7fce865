/**
 * Load on sessions whose processes are killed, and the figures. It is small in the tests and large in `npm run kill`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { createServer } from "node:net"
import { join } from "node:path"
import { random } from "../../random.ts"
import * as doors from "./door.ts"
import * as fleets from "./fleet.ts"
import * as layers from "./layers.ts"
import * as ledger from "./ledger.ts"
import * as load from "./load.ts"
import * as remote from "./remote.ts"
import type * as tasks from "./task.ts"
import * as trouble from "./trouble.ts"
import * as verdict from "./verdict.ts"

export interface Options {
  readonly directory: string
  readonly database: tasks.Database
  readonly home: tasks.Task["home"]
  readonly seed: number
  readonly runners: number
  readonly clients: number
  readonly messages: number
  readonly readers: number
  /** The middle of the times that models and tools take, in milliseconds. */
  readonly pace: number
  readonly leaseMillis: number
  /** The longest pause between two kills. */
  readonly pause: number
  readonly kills: number
  readonly stops?: number
  readonly deploys?: number
  readonly restarts?: number
  readonly outages?: number
  readonly breaks?: number
  readonly restartDatabase?: Effect.Effect<void>
  /** The time that sessions have to end their work when the trouble is over. */
  readonly patience: number
}

export interface Figures {
  readonly seed: number
  readonly seconds: number
  readonly trouble: trouble.Trouble
  readonly sessions: number
  readonly interrupted: number
  readonly messages: number
  readonly events: number
  readonly modelCalls: number
  readonly toolCalls: number
  readonly jobs: number
  /** The milliseconds from a kill, and from the start of the next process, to the next work of a session that it had. */
  readonly delays: { readonly at: ReadonlyArray<number>; readonly ready: ReadonlyArray<number> }
  /** Calls of idempotent tools that were started again, as they may be. */
  readonly startedAgain: number
  /** Errors that clients got and tried again after, by reason. */
  readonly errors: ReadonlyMap<string, number>
}

export interface Result {
  readonly figures: Figures
  readonly verdict: verdict.Verdict
}

const figuresOf = (
  records: ReadonlyArray<load.Record>,
  lines: ReadonlyArray<ledger.Line>,
  { killed, others }: trouble.Trouble
): Omit<Figures, "seed" | "seconds" | "trouble"> => {
  const errors = new Map<string, number>()
  for (const record of records) {
    for (const [reason, { times }] of record.errors) errors.set(reason, (errors.get(reason) ?? 0) + times)
  }
  const starts = lines.filter(({ phase }) => phase === "start")
  return {
    sessions: records.length,
    jobs: records.filter(({ job }) => job !== undefined).length,
    delays: { at: ledger.delays(lines, killed, others, "at"), ready: ledger.delays(lines, killed, others, "ready") },
    interrupted: records.filter(({ interrupted }) => interrupted).length,
    messages: records.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0),
    events: records.reduce((sum, { readers }) => sum + Math.max(0, ...readers.map(({ seen }) => seen.length)), 0),
    modelCalls: starts.filter(({ work }) => work === "model").length,
    toolCalls: starts.filter(({ work }) => work !== "model").length,
    startedAgain: ledger.startedTwice(lines, "idempotent").length,
    errors
  }
}

/** Ports that are free at the moment. */
const freePorts = (count: number): Promise<ReadonlyArray<number>> =>
  Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<number>((resolve, reject) => {
          const server = createServer().on("error", reject)
          server.listen(0, "127.0.0.1", () => {
            const address = server.address()
            server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
          })
        })
    )
  )

/** Runs it all. `say` hears how far it is. */
export const run = Effect.fnUntraced(function* (options: Options, say: (line: string) => void = () => {}) {
  const { database, directory, leaseMillis, pace, seed } = options
  const file = join(directory, "ledger.jsonl")
  const weather = join(directory, "weather")
  const read = ledger.reader(file)
  const isFleet = options.home === "cluster" && database.type === "postgres"
  const ports = isFleet ? yield* Effect.promise(() => freePorts(options.runners)) : []
  const runners = Array.from({ length: options.runners }, (_, index) => ({
    runner: `runner-${index + 1}`,
    database,
    home: options.home,
    ...(isFleet ? { port: ports[index] ?? 0 } : {}),
    ledger: file,
    weather,
    pace,
    leaseMillis
  }))
  const fleet = yield* Effect.acquireRelease(
    Effect.promise(() => fleets.make({ directory, runners })),
    (fleet) => Effect.promise(() => fleet.close())
  )
  // One after the other: the first one makes the tables
  for (const name of fleet.names) {
    const runner = fleet.start(name)
    yield* Effect.promise(() => runner.ready)
    if (runner.over) return yield* Effect.die(new Error(`${name} ended at once, see ${directory}/${name}.log`))
  }

  const began = Date.now()
  const done = trouble.begin()
  const records: Array<load.Record> = []
  let over = false
  const door = isFleet
    ? Context.get(yield* Layer.build(layers.caller(database, leaseMillis)), doors.Door)
    : remote.make(fleet)
  const loading = yield* Effect.forkScoped(load.run({ ...options, door, over: () => over }, records))
  const saying = yield* Effect.forkScoped(
    Effect.sync(() => {
      const messages = records.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0)
      say(`${done.kills} kills, ${records.length} sessions, ${messages} messages`)
    }).pipe(Effect.delay("10 seconds"), Effect.forever)
  )
  yield* trouble.make(
    {
      fleet,
      dice: random(seed),
      kills: options.kills,
      stops: options.stops ?? 0,
      deploys: options.deploys ?? 0,
      restarts: options.restarts ?? 0,
      outages: options.outages ?? 0,
      breaks: options.breaks ?? 0,
      weather,
      pause: options.pause,
      leaseMillis,
      lines: read,
      restartDatabase: options.restartDatabase ?? Effect.void
    },
    done
  )
  over = true
  yield* Fiber.join(loading)
  yield* Fiber.interrupt(saying)
  const lines = read()
  const result: Result = {
    figures: { seed, seconds: (Date.now() - began) / 1000, trouble: done, ...figuresOf(records, lines, done) },
    verdict: yield* verdict.of(door, records, lines, done.stops)
  }
  return result
}, Effect.scoped)

/** The middle and the largest of some times, in seconds. */
const times = (all: ReadonlyArray<number>): string => {
  const sorted = all.toSorted((a, b) => a - b)
  const second = (millis: number | undefined) => (millis === undefined ? "none" : `${(millis / 1000).toFixed(2)} s`)
  return `${second(sorted[Math.floor(sorted.length / 2)])}, at most ${second(sorted.at(-1))} (${sorted.length} kills)`
}

/** The result for people. */
export const render = ({ figures, verdict }: Result): string => {
  const { trouble } = figures
  const { hits } = trouble
  const errors = [...figures.errors].map(([reason, times]) => `${reason} ${times}`).join(", ")
  const rows: ReadonlyArray<readonly [string, number | string]> = [
    ["acknowledged messages lost, doubled or out of order", verdict.lost.length],
    ["calls started twice, of tools that are not idempotent", verdict.startedTwice.length],
    ["sessions stuck, or without an answer", verdict.stuck.length],
    ["jobs with another result than undisturbed", verdict.wrong.length],
    ["steps that began again after they were completed", verdict.ranAgain.length],
    ["events out of order, twice or changed at a reader", verdict.disorder.length],
    ["work begun from an old state, by a runner that was stopped and continued", verdict.stale.length],
    ["turns failed", verdict.failed.length],
    ["kills", `${trouble.kills} (in a model call ${hits.model}, in a tool ${hits.tool}, else ${hits.neither})`],
    ["kills of the runner that held a given session", trouble.holders],
    [
      "runners stopped beyond the lease and continued",
      `${trouble.stops.length} (others continued in ${trouble.takenOver})`
    ],
    ["restarts of the database", trouble.restarts],
    [
      "rolling deploys with other instructions",
      `${trouble.deploys} (${trouble.slowDeploys} runners did not end in 30 s)`
    ],
    ["times in which no turn could begin", trouble.outages],
    ["deploys that broke the calls which waited, and mended them", trouble.breaks],
    ["sessions", `${figures.sessions} (with turns that were interrupted: ${figures.interrupted})`],
    ["jobs among them", figures.jobs],
    ["from a kill to the next work of a session that it hit", times(figures.delays.at)],
    ["from the start of the next process to that work", times(figures.delays.ready)],
    ["messages acknowledged", figures.messages],
    ["events at a reader", figures.events],
    ["model calls", figures.modelCalls],
    ["calls of tools", `${figures.toolCalls} (idempotent ones started again: ${figures.startedAgain})`],
    ["errors of clients, who tried again", errors === "" ? "none" : errors],
    ["seconds", figures.seconds.toFixed(0)],
    ["seed", figures.seed]
  ]
  return ["| what | figure |", "|---|---|", ...rows.map(([what, value]) => `| ${what} | ${value} |`)].join("\n")
}

/** Everything that is wrong, a line each. */
export const faults = ({ verdict }: Result): ReadonlyArray<string> =>
  Object.entries(verdict).flatMap(([kind, all]) => all.map((text: string) => `${kind}: ${text}`))
