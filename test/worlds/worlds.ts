/** Worlds of sessions: one process on one store, and several of them. */
import { Effect, Layer } from "effect"
import { Agent, type VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { Simulation } from "effect-emissary/testing"
import * as agents from "./agents.ts"
import * as clients from "./clients.ts"
import { type Diary, emptyDiary, type World } from "./clients.ts"
import * as fleet from "./fleet.ts"
import * as jobs from "./jobs.ts"
import { type Effects, verdict } from "./laws.ts"
import { script as play } from "./play.ts"
import { type Release, Releases } from "./releases.ts"
import * as releases from "./releases.ts"
import * as web from "./web.ts"
import type { Wire } from "./wire.ts"

const options = { leaseTime: "500 millis", drainTime: "50 millis", idleTime: "2 seconds" } as const

/** The layer of each process. */
export const sessions = Session.layer([agents.slowWorker, agents.asker], options).pipe(Layer.provide(agents.layer))

/** The same in a release. */
const ofRelease = (release: Release) =>
  Layer.unwrap(
    Effect.map(releases.hostedIn(release), ({ hosted, services }) =>
      Session.layer(hosted, { ...options, definitions: Agent.decode }).pipe(Layer.provide(services))
    )
  )

/** The layer of each process, where the agents have everything. */
export const allSessions = releases.layerOf(ofRelease)

type AnyLayer = Layer.Layer<Session.Session, unknown, agents.Ledger | Releases | VersionedStore.VersionedStore>

type FleetLayer = Layer.Layer<
  Session.Session,
  unknown,
  agents.Ledger | Releases | Wire | fleet.Cluster | VersionedStore.VersionedStore
>

/** A release without the agent. Turns wait for the other process. */
const strangers = Session.layer([agents.other], options).pipe(Layer.provide(agents.layer))

/** One of two processes is replaced by a stranger. */
const hasStranger = (seed: number): boolean => seed % 16 === 10

/** Everything that was seen of a world. */
export interface Seen {
  readonly diary: Diary
  readonly effects: Effects
}

/** The size of a world: `calls` of each user, and the trouble. `failures` and `conflicts` are shares of a thousand operations of the store. */
export interface Setting {
  readonly processes: number
  readonly sessions: number
  readonly calls: number
  readonly kills: number
  readonly pauses: number
  readonly stops: number
  readonly jumps: number
  readonly failures: number
  readonly conflicts: number
  readonly losses: number
  /** 1 where the agents have everything: see `moreTools`. */
  readonly more: number
  /** The number of releases, where the agents have everything. */
  readonly releases: number
  /** 1 where there is a session whose model asks the user, and repeats itself. */
  readonly asks: number
}

/** The setting of a seed. A fourth of the worlds has much trouble, and an eighth has none but failures of the store and the network. */
export const settingOf = (seed: number): Setting => {
  const isHard = seed % 4 === 3
  const isLight = seed % 8 === 6 || hasStranger(seed)
  return {
    processes: hasStranger(seed) ? 2 : 1 + (seed % 3),
    sessions: 2,
    calls: 6,
    kills: isLight ? 0 : isHard ? 8 : seed % 5,
    pauses: isLight ? 0 : isHard ? 5 : seed % 3,
    stops: isLight ? Number(hasStranger(seed)) : seed % 2,
    jumps: isLight ? 0 : isHard ? 3 : seed % 2,
    failures: isHard ? 60 : 10,
    conflicts: seed % 8 === 7 ? 5 : 0,
    losses: isHard ? 40 : 20,
    more: Math.floor(seed / 16) % 2,
    releases: hasStranger(seed) || isLight ? 0 : seed % 3,
    asks: Number(seed % 8 === 4 && Math.floor(seed / 16) % 2 === 0)
  }
}

/** Where the sessions are: in processes that share a store, behind the servers of such processes, or on a fleet of two runners and a client. */
export const homes = ["process", "http", "fleet"] as const

/** Options of a world. `onSeen` gets what was seen before the verdict. */
export interface Options {
  readonly setting?: Partial<Setting>
  readonly compare?: boolean
  readonly home?: (typeof homes)[number]
  readonly onSeen?: (seen: Seen) => void
}

/** Runs the world of a seed, and fails with its problems. */
export const run = (
  seed: number,
  options: Options = {}
): Effect.Effect<Simulation.Report, Simulation.SimulationError> => {
  const { compare = false, home = "process", onSeen = () => {} } = options
  const {
    asks,
    calls,
    conflicts,
    failures,
    jumps,
    kills,
    losses,
    more,
    pauses,
    processes,
    releases: deploys,
    sessions: count,
    stops
  } = {
    ...settingOf(seed),
    ...options.setting
  }
  const hasMore = more === 1
  const network = { losses: losses / 1000, doubles: losses / 1000 }
  const script = (world: World, watch?: web.Watch) =>
    Effect.gen(function* () {
      const diary = emptyDiary()
      diary.isCalm = seed % 4 === 2
      diary.hasMore = hasMore
      diary.isSpread = home === "http"
      // A session moves when a runner joins
      diary.isHealthy = diary.isCalm && home === "process" && kills + pauses + stops + jumps + more * deploys === 0
      const pages = watch && (yield* watch(diary, hasMore ? ["a", clients.withDefinition, jobs.session] : ["a", "b"]))
      yield* play(world, diary, {
        calls,
        sessions: count,
        releases: hasMore ? deploys : 0,
        asks: asks === 1,
        atRest: pages
      })
      const { ended, started } = yield* agents.Ledger
      const effects = { started: [...started], ended: [...ended] }
      onSeen({ diary, effects })
      const problems = verdict(diary, effects)
      if (problems.length > 0) return yield* Effect.fail(problems.join("\n"))
    })
  const trouble = {
    kills,
    pauses,
    stops,
    jumps,
    store: { failures: failures / 1000, conflicts: conflicts / 1000 },
    network
  }
  const common = { trouble, seeds: [seed], compare }
  const layer: AnyLayer = hasMore ? allSessions : sessions
  const stranger: AnyLayer = hasMore ? ofRelease("dropped") : strangers
  if (home === "http") {
    return Simulation.run<Session.Session | web.Server, unknown, agents.Ledger | Releases>(
      web.serving(layer, {}, "worker"),
      {
        ...common,
        // A message that a release holds is answered in a later turn, and the stream of the next message does not have it
        script: web.around(script, !hasMore && !hasStranger(seed)),
        processes,
        deploys: hasStranger(seed) ? [web.serving(stranger, {}, "worker")] : [],
        outside: Layer.merge(agents.Ledger.layer, Releases.layer)
      }
    )
  }
  if (home === "process") {
    return Simulation.run<Session.Session, unknown, agents.Ledger | Releases>(layer, {
      ...common,
      script,
      processes,
      deploys: hasStranger(seed) ? [stranger] : [],
      maxTurns: 100_000,
      outside: Layer.merge(agents.Ledger.layer, Releases.layer)
    })
  }
  const outside = Layer.mergeAll(agents.Ledger.layer, Releases.layer, fleet.outside(failures))
  const onFleet: FleetLayer = hasMore ? fleet.allSessions : fleet.sessions
  const inFleet = Simulation.run<Session.Session, unknown, agents.Ledger | Releases | Wire | fleet.Cluster>(onFleet, {
    ...common,
    script: fleet.around(script),
    processes: 3,
    maxTurns: 1_000_000,
    outside
  })
  return Effect.andThen(fleet.load, inFleet)
}
