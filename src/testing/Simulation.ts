/**
 * Worlds: sessions, or other services over a store, run with their clocks, schedulers, processes, store and network under one
 * seed. A world that goes wrong goes wrong again with the same seed.
 *
 * **When to use**
 *
 * Use it to find what a test by hand does not: a process that dies between two writes, two processes that take one session, an
 * answer that is lost after it took effect. Run your own agents, tools and stores in it.
 *
 * **Mental model**
 *
 * - A world has one thread. Which fiber continues is drawn from the seed, and fibers yield at any operation.
 * - Time is virtual, in whole milliseconds. It moves when no fiber can continue, so an hour takes no time.
 * - Each process of a world builds the layer anew. It dies between two instructions, and no finalizer runs. It is paused for longer
 *   than its lease, and continues. Its clock differs from others, and jumps.
 * - The processes share a store. An operation takes time, may fail before or after it took effect, and takes effect although its
 *   process has died.
 * - The script is the client. It reaches the processes over a network that loses calls, doubles them, changes their order, and cuts
 *   streams.
 *
 * **Gotchas**
 *
 * A promise, a timer or a socket is not in the world: a fiber that continues because of one ends the world with an error that
 * names the span of the fiber. {@link external} admits work of this kind. A `Date.now` or `Math.random` shows
 * because each seed runs twice, and both runs have to be the same.
 *
 * `ClusterSession.layer` and `ClusterSession.layerClient` load `effect/cluster` when the first of them is built. Build one of them before the first world.
 *
 * **Example** (A chat that survives its processes)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Agent, Session } from "effect-emissary"
 * import { ScriptedModel, Simulation } from "effect-emissary/testing"
 * import { Layer } from "effect"
 * import assert from "node:assert"
 *
 * const sessions = Session.layer([Agent.make("support")], { leaseTime: "500 millis" }).pipe(
 *   Layer.provide(ScriptedModel.layer(() => Effect.as(Effect.sleep("30 millis"), { text: "Hello." })))
 * )
 *
 * const report = await Effect.runPromise(Simulation.run(sessions, { seeds: 2, script: Simulation.chats() }))
 * assert.strictEqual(report.worlds, 2)
 * ```
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as VersionedStore from "../store/VersionedStore.ts"
import * as machine from "./internal/machine.ts"
import * as world from "./internal/world.ts"

export { chats, type ChatsOptions } from "./internal/worldChats.ts"
export { Lost, type NetworkFaults } from "./internal/worldNetwork.ts"
export type { Process, Trouble, TroubleAt, World } from "./internal/world.ts"
export type { StoreFaults } from "./internal/worldStore.ts"

/**
 * A world went wrong.
 *
 * **Details**
 *
 * | reason | meaning |
 * |---|---|
 * | `Failed` | the script failed, or a process did not start |
 * | `Stuck` | nothing is left to run, and the script has not ended |
 * | `Endless` | the script has not ended after `maxTurns` turns; `from` is the fiber that ran last |
 * | `Escaped` | a fiber continued because of something outside of the world: see {@link external} |
 * | `Differs` | two runs of the seed differ from the line `line` of the trace on |
 *
 * `trace` has the lines of the world: who did what, and when.
 *
 * @category errors
 * @since 0.1.0
 */
export class SimulationError extends Schema.TaggedError<SimulationError>("effect-emissary/testing/SimulationError")(
  "SimulationError",
  { seed: Schema.Number, reason: world.Reason, trace: Schema.Array(Schema.String) }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const last = this.trace.slice(-12).join("\n")
    return `world ${this.seed}: ${renderReason(this.reason)}. Run it again with seeds: [${this.seed}]\n${last}`
  }
}

const renderReason = world.Reason.match({
  Failed: ({ problem }) => problem,
  Stuck: () => "expected a script that ends, got a script that waits while nothing is left to run",
  Endless: ({ from, turns }) => `expected a script that ends, got ${turns} turns (maxTurns), the last one in ${from}`,
  Escaped: ({ from }) =>
    `expected work of the world alone, got a promise, a timer or another event from outside of it in ${from}. Wrap it in Simulation.external`,
  Differs: ({ first, line, second }) =>
    `expected two runs that are the same, got "${first}" and "${second}" in line ${line} of the trace. Look for the time, chance or order of something outside of the world`
})

/**
 * Options of {@link run}.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<R, E, O> {
  /**
   * The client. A world is over when it has ended, and went wrong if it fails. It runs in a process of its own, without
   * trouble.
   */
  readonly script: (world: world.World<R>) => Effect.Effect<unknown, unknown, NoInfer<O>>
  /** A number of seeds from 1 on, or these seeds; default 20. */
  readonly seeds?: number | ReadonlyArray<number> | undefined
  /** So many processes are started before the script; default 2. */
  readonly processes?: number | undefined
  /** Services that outlive the processes and are the same for all of them, such as a ledger. Each world has its own. */
  readonly outside?: Layer.Layer<O, unknown> | undefined
  /** The store; default a store in memory. Each world builds the layer anew, and expects an empty store. */
  readonly store?: Layer.Layer<VersionedStore.VersionedStore, unknown> | undefined
  /** The layers of the processes that are started after the first `stops` of the trouble, after the second, and so on. */
  readonly deploys?: ReadonlyArray<Layer.Layer<R, E, VersionedStore.VersionedStore | NoInfer<O>>> | undefined
  /** The processes that die, the failures of the store and of the network. */
  readonly trouble?: world.Trouble | undefined
  /** Each seed runs twice, and both runs have to be the same; default `true`. One run alone may depend on the worlds before it, which fill caches. */
  readonly compare?: boolean | undefined
  /** A script that has not ended after so many turns of the scheduler is `Endless`; default 1,000,000. */
  readonly maxTurns?: number | undefined
}

/**
 * Worlds that came to their end.
 *
 * **Details**
 *
 * `figures` counts what happened in all of them: `killed`, `paused`, `storeOperations`, `storeFailures`, `lostCalls` and others,
 * the `turns` of their schedulers, and their virtual `milliseconds`. `hash` is the same where all of them did the same.
 *
 * @category models
 * @since 0.1.0
 */
export interface Report {
  readonly worlds: number
  readonly figures: Readonly<Record<string, number>>
  readonly hash: number
}

/** The first runs fill caches outside of the world, and each of them may take other turns, and so fill other caches. World 4469 needs more than four runs. */
const mostRuns = 12

const firstDifference = (first: world.Outcome, second: world.Outcome): world.Reason => {
  const line = first.lines.findIndex((text, index) => text !== second.lines[index])
  const at = line < 0 ? first.lines.length : line
  const shown = ({ figures, lines }: world.Outcome) => lines[at] ?? `the end after ${figures["turns"]} turns`
  return { _tag: "Differs", line: at + 1, first: shown(first), second: shown(second) }
}

/** The outcome of a seed in two runs, one after the other, or of the run that went wrong. */
const repeated = Effect.fnUntraced(function* <E>(one: Effect.Effect<world.Outcome, E>) {
  let before = yield* one
  let difference = before.reason
  for (let runs = 1; runs < mostRuns && before.reason === undefined; runs++) {
    const after = yield* one
    if (after.hash === before.hash) return after
    difference = firstDifference(before, after)
    before = after
  }
  return { ...before, reason: before.reason ?? difference }
})

/**
 * Runs a layer in worlds, one for each seed, and fails with the first world that goes wrong.
 *
 * **Example** (A counter that is not safe)
 *
 * ```ts
 * import { Effect, Layer, Option } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { Simulation } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * // It forgets that a write that failed may have taken place
 * const increment = Effect.gen(function* () {
 *   const store = yield* VersionedStore.VersionedStore
 *   const found = yield* store.get("count")
 *   const count = Option.match(found, { onNone: () => 0, onSome: ({ value }) => Number(value) })
 *   yield* store.compareAndSet("count", Option.map(found, ({ version }) => version), count + 1)
 * }).pipe(Effect.retry({ times: 100 }))
 *
 * const layer = Layer.effectContext(Effect.context<VersionedStore.VersionedStore>())
 * const error = await Effect.runPromise(Effect.flip(Simulation.run(layer, {
 *   trouble: { kills: 0, stops: 0, network: { losses: 0, doubles: 0, timeout: 60_000 } },
 *   script: (world) => Effect.gen(function* () {
 *     const add = Effect.flatMap(world.any, ({ call }) => call("increment", increment))
 *     yield* Effect.all(Array.from({ length: 20 }, () => add), { concurrency: 4 })
 *     const count = Option.map(yield* world.store.get("count"), ({ value }) => value)
 *     assert.deepStrictEqual(count, Option.some(20))
 *   })
 * })))
 * assert.strictEqual(error.reason._tag, "Failed")
 * ```
 *
 * @category execution
 * @since 0.1.0
 */
export const run = Effect.fnUntraced(function* <R, E = never, O = never>(
  layer: Layer.Layer<R, E, VersionedStore.VersionedStore | NoInfer<O>>,
  options: Options<R, E, O>
): Effect.fn.Return<Report, SimulationError> {
  const { compare = true, deploys = [], maxTurns = 1_000_000, processes = 2, seeds = 20, trouble = {} } = options
  const plan: world.Plan<R, E, O> = {
    layers: [layer, ...deploys],
    // Sound: without the option, O is never.
    outside: options.outside ?? (Layer.empty as Layer.Layer<O>),
    store: options.store ?? VersionedStore.layerMemory,
    script: options.script,
    processes,
    trouble,
    maxTurns
  }
  const figures: Record<string, number> = {}
  let hash = 0
  const all = typeof seeds === "number" ? Array.from({ length: seeds }, (_, index) => index + 1) : seeds
  for (const seed of all) {
    const one = Effect.scoped(world.run(plan, seed))
    const outcome = yield* compare ? repeated(one) : one
    const { lines: trace, reason } = outcome
    if (reason !== undefined) return yield* new SimulationError({ seed, reason, trace: [...trace] })
    for (const [name, found] of Object.entries(outcome.figures)) figures[name] = (figures[name] ?? 0) + found
    hash = Math.imul(hash ^ outcome.hash, 0x01000193) >>> 0
  }
  return { worlds: all.length, figures, hash }
})

/**
 * Work outside of the world: a promise, a file, a driver of a database. The rest of the world waits until it has ended, so it takes no
 * virtual time and has one place among the other work. Outside of a world it is the Effect itself.
 *
 * **Gotchas**
 *
 * What it returns has to be the same in each run of a seed.
 *
 * **Example** (A promise in a world)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Simulation } from "effect-emissary/testing"
 *
 * const digest = (text: string) =>
 *   Simulation.external(Effect.promise(() => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))))
 *
 * await Effect.runPromise(Simulation.run(Layer.empty, {
 *   seeds: 1,
 *   script: (world) => Effect.flatMap(world.any, ({ call }) => call("digest", digest("a"))).pipe(Effect.retry({ times: 9 }))
 * }))
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const external = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.contextWith((context: Context.Context<R>) => {
    const current = Context.get(context, machine.Current)
    if (current === undefined) return effect
    const { process, self } = current
    return Effect.callback<A, E>((resume) => machine.goOutside(self, process, effect, context, resume))
  })

/**
 * The name of the process of a world in which an Effect runs, and none outside of a world. It is the address of a runner, for example.
 *
 * **Example** (A name for each process)
 *
 * ```ts
 * import { Effect, Layer, Option } from "effect"
 * import { Simulation } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * await Effect.runPromise(Simulation.run(Layer.empty, {
 *   seeds: 1,
 *   trouble: { at: [] },
 *   script: (world) => Effect.gen(function* () {
 *     const process = yield* world.any
 *     assert.strictEqual(Option.getOrThrow(yield* process.call("name", Simulation.processName)), process.name)
 *   })
 * }))
 * ```
 *
 * @category accessors
 * @since 0.1.0
 */
export const processName: Effect.Effect<Option.Option<string>> = Effect.map(machine.Current, (current) =>
  Option.map(Option.fromUndefinedOr(current), ({ process }) => process.name)
)
