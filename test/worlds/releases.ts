/**
 * Releases of the worlds: each process has the newest release of the time when it starts. A release renames a tool, changes its contract, drops the agent,
 * cannot prepare it, or fails to start. Later ones bring back what was there.
 */
import { Context, Effect, Layer, Option, Random } from "effect"
import { Session } from "effect-emissary/session"
import { Simulation } from "effect-emissary/testing"
import * as agents from "./agents.ts"
import type { World } from "./clients.ts"
import * as jobs from "./jobs.ts"

export const kinds = ["renamed", "changed", "dropped", "unprepared", "broken"] as const

export type Release = "whole" | (typeof kinds)[number]

/** The release of the next process, and the releases of the others. `failed` are the processes that did not start. */
export class Releases extends Context.Service<
  Releases,
  { current: Release; readonly of: Map<string, Release>; readonly failed: Set<string>; readonly had: Set<Release> }
>()("worlds/Releases") {
  static readonly layer = Layer.sync(Releases, () => ({
    current: "whole" as const,
    of: new Map(),
    failed: new Set<string>(),
    had: new Set<Release>()
  }))
}

/** The agents and plans of a process in a release, and their services. */
export const hostedIn = (release: Release) =>
  Effect.map(jobs.plan, (plan) => {
    const isWhole = release === "whole" || release === "broken"
    const worker = release === "dropped" ? agents.other : isWhole ? agents.staff : agents.staffIn[release]
    const services = release === "changed" ? agents.changedLayer : agents.moreLayer
    return { hosted: [worker, plan] as const, services }
  })

/** The layer of a process, by its release. A process that does not start is noted, and serves no client. */
export const layerOf = <R>(make: (release: Release) => Layer.Layer<Session.Session, unknown, R>) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const releases = yield* Releases
      const name = Option.getOrThrow(yield* Simulation.processName)
      releases.of.set(name, releases.current)
      if (releases.current !== "broken") return make(releases.current)
      releases.failed.add(name)
      return Layer.effect(Session.Session, Effect.never)
    })
  )

const nap = (least: number, most: number) => Effect.flatMap(Random.nextIntBetween(least, most), Effect.sleep)

/** Starts a process of the newest release, and others of the one before where the process does not start. */
const start = Effect.fnUntraced(function* (world: World, before: Release) {
  const releases = yield* Releases
  const process = yield* world.start
  yield* nap(50, 200)
  if (!releases.failed.has(process.name)) return
  yield* process.kill
  releases.current = before
  yield* world.start
})

/** Brings one release after the other, and the whole one at last. A release that starts nowhere, or has no agent, replaces one process, another one all of them. */
export const deploy = Effect.fnUntraced(function* (world: World, count: number) {
  const releases = yield* Releases
  for (let number = 0; number < count; number++) {
    yield* nap(100, 1200)
    const before = releases.current
    releases.current =
      (yield* Random.next) < 0.2 ? "whole" : (kinds[yield* Random.nextIntBetween(0, kinds.length - 1)] ?? "whole")
    releases.had.add(releases.current)
    const live = yield* world.processes
    const isPartial = releases.current === "broken" || releases.current === "dropped"
    for (const process of isPartial ? live.slice(0, 1) : live) {
      yield* process.stop
      yield* start(world, before)
    }
  }
  yield* nap(500, 2500)
  releases.current = "whole"
  for (const process of yield* world.processes) {
    if (releases.of.get(process.name) === "whole") continue
    yield* process.stop
    yield* world.start
  }
})
