/** Trouble for the runners and the database while there is load. The seed decides which, and when. */
import * as Effect from "effect/Effect"
import type { Random } from "../../random.ts"
import type { Fleet } from "./fleet.ts"
import * as ledger from "./ledger.ts"
import * as weather from "./weather.ts"

export interface Options {
  readonly fleet: Fleet
  readonly dice: Random
  /** Processes to kill. */
  readonly kills: number
  /** The number of each of these, spread over the kills. */
  readonly stops: number
  readonly deploys: number
  readonly restarts: number
  /** Times in which no turn can begin: it fails or hangs. */
  readonly outages: number
  /** Deploys that break the calls which wait, each with a deploy that mends them. */
  readonly breaks: number
  readonly weather: string
  /** The longest pause between two of them. */
  readonly pause: number
  readonly leaseMillis: number
  readonly lines: () => ReadonlyArray<ledger.Line>
  readonly restartDatabase: Effect.Effect<void>
}

/** The trouble so far. `hits` are kills by the work of the process. */
export interface Trouble {
  kills: number
  readonly killed: Array<ledger.Kill>
  /** The times of all other trouble. */
  readonly others: Array<Pick<ledger.Stop, "from" | "to">>
  holders: number
  readonly stops: Array<ledger.Stop>
  /** Stops in which another runner continued a session of the stopped runner. */
  takenOver: number
  deploys: number
  slowDeploys: number
  restarts: number
  outages: number
  breaks: number
  readonly hits: { model: number; tool: number; neither: number }
}

export const begin = (): Trouble => ({
  kills: 0,
  killed: [],
  others: [],
  holders: 0,
  stops: [],
  takenOver: 0,
  deploys: 0,
  slowDeploys: 0,
  restarts: 0,
  outages: 0,
  breaks: 0,
  hits: { model: 0, tool: 0, neither: 0 }
})

/** Does it all; `done` counts on the way. */
export const make = Effect.fnUntraced(function* (options: Options, done: Trouble) {
  const { dice, fleet, leaseMillis, lines } = options
  let version = 1

  const count = (pid: number) => {
    const work = ledger.openWork(lines(), pid)
    done.kills += 1
    done.hits.tool += work.some(({ work }) => work !== "model") ? 1 : 0
    done.hits.model += work.length > 0 && work.every(({ work }) => work === "model") ? 1 : 0
    done.hits.neither += work.length === 0 ? 1 : 0
  }

  /** The runners that are in the middle of something, an entry for each piece of work; runners with most work come most often. */
  const working = (): ReadonlyArray<string> =>
    fleet.alive().flatMap(({ name, pid }) => ledger.openWork(lines().slice(-400), pid).map(() => name))

  /** The runner that works for a random session. Waits until there is one, not for long. */
  const holder = Effect.gen(function* () {
    for (let times = 0; times < 250 && working().length === 0; times++) yield* Effect.sleep(20)
    const names = working()
    return names.length === 0 ? dice.pick(fleet.names) : dice.pick(names)
  })

  const kill = Effect.gen(function* () {
    const byHolding = dice.chance(0.7)
    const name = byHolding ? yield* holder : dice.pick(fleet.names)
    const at = Date.now()
    const killed = yield* Effect.promise(() => fleet.kill(name))
    const kill: ledger.Kill | undefined = killed && { pid: killed.pid, at, ready: undefined }
    if (killed !== undefined && kill !== undefined) {
      done.killed.push(kill)
      count(killed.pid)
      if (byHolding) done.holders += 1
    }
    // Sometimes it is away for so long that others have to continue
    if (dice.chance(0.3)) yield* Effect.sleep(dice.below(1.5 * leaseMillis))
    const runner = fleet.start(name)
    if (kill !== undefined) void runner.ready.then(() => (kill.ready = runner.over ? undefined : Date.now()))
    // Sometimes the next trouble comes while it starts
    if (dice.chance(0.7)) yield* Effect.promise(() => runner.ready)
  })

  /** Stops the process that holds a session until others have taken over, and lets it continue. */
  const stop = Effect.gen(function* () {
    const name = yield* holder
    const stopped = fleet.stop(name)
    if (stopped === undefined) return
    const from = Date.now()
    yield* Effect.sleep(leaseMillis * (2 + dice.next()))
    const all = lines()
    const held = new Set(ledger.openWork(all, stopped.pid).map(({ key }) => ledger.sessionOf(key)))
    const elsewhere = all.some((line) => line.at > from && line.runner !== name && held.has(ledger.sessionOf(line.key)))
    if (elsewhere) done.takenOver += 1
    done.stops.push({ pid: stopped.pid, from, to: Date.now() })
    fleet.continue(stopped)
  })

  /** Another version of all agents, one runner after the other. */
  const deployAs = Effect.fnUntraced(function* (next: number) {
    version = next
    for (const name of fleet.names) {
      yield* Effect.promise(() => fleet.current(name)?.ready ?? Promise.resolve())
      const inTime = yield* Effect.promise(() => fleet.deploy(name, version))
      if (!inTime) done.slowDeploys += 1
    }
  })

  const nextVersion = () => (weather.isBreaking(version + 1) ? version + 2 : version + 1)

  const deploy = Effect.andThen(
    Effect.suspend(() => deployAs(nextVersion())),
    Effect.sync(() => void (done.deploys += 1))
  )

  /** A version that breaks the calls which wait, and after a while and a kill another version that mends them. */
  const breakCalls = Effect.gen(function* () {
    yield* deployAs((Math.floor(version / 3) + 1) * 3)
    yield* Effect.sleep(dice.below(options.pause))
    if (dice.chance(0.5)) yield* kill
    yield* deployAs(nextVersion())
    done.breaks += 1
  })

  /** No turn can begin for a while, in which processes are killed, too. */
  const outage = Effect.gen(function* () {
    const [first, second] = dice.pick([["down", "hanging"] as const, ["hanging", "down"] as const])
    weather.set(options.weather, first)
    yield* Effect.sleep(options.pause / 2 + dice.below(options.pause))
    if (dice.chance(0.5)) yield* kill
    weather.set(options.weather, second)
    yield* Effect.sleep(options.pause / 2 + dice.below(options.pause))
    weather.set(options.weather, "fair")
    done.outages += 1
  })

  const restart = Effect.andThen(
    options.restartDatabase,
    Effect.sync(() => {
      done.restarts += 1
    })
  )

  /** The others, at random places among the kills. Some of them kill, too. */
  const others = [
    ...dice.times(options.stops, () => stop),
    ...dice.times(options.deploys, () => deploy),
    ...dice.times(options.outages, () => outage),
    ...dice.times(options.breaks, () => breakCalls),
    ...dice.times(options.restarts, () => restart)
  ]
    .map((action) => ({ after: dice.below(options.kills), action }))
    .sort((a, b) => a.after - b.after)

  while (done.kills < options.kills) {
    yield* Effect.sleep(dice.below(options.pause))
    yield* kill
    while (others[0] !== undefined && others[0].after < done.kills) {
      const next = others.shift()
      yield* Effect.sleep(dice.below(options.pause))
      const from = Date.now()
      if (next !== undefined) yield* next.action
      done.others.push({ from, to: Date.now() })
    }
  }
  for (const name of fleet.names) {
    yield* Effect.promise(() => fleet.current(name)?.ready ?? Promise.resolve())
    if (fleet.current(name)?.over === true) yield* Effect.promise(() => fleet.start(name).ready)
  }
})
