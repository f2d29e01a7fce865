/**
 * One world: its processes, their store and their network, the script that uses them, and the trouble that they have.
 */

import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as VersionedStore from "../../store/VersionedStore.ts"
import * as machine from "./machine.ts"
import * as worldNetwork from "./worldNetwork.ts"
import * as worldStore from "./worldStore.ts"

/**
 * Trouble at one place of a world.
 *
 * **Details**
 *
 * - `kill`: after this turn of the scheduler the process dies that had a turn last, and another one starts later. `after`: the turn is
 *   counted from the beginning of this operation of the store. Nothing happens where no process lives.
 * - `fail`: this operation of the store fails with `Unavailable`, before it took effect or, with `isApplied`, after it.
 *
 * Turns and operations count from 1; the `figures` of the report have the totals of the whole world.
 *
 * @category options
 * @since 0.1.0
 */
export type TroubleAt =
  | { readonly kill: number; readonly after?: number | undefined }
  | { readonly fail: number; readonly isApplied: boolean }

/**
 * The trouble that the processes of a world have, each kind so many times at most. The script ends it with
 * `calm` of {@link World}.
 *
 * @category options
 * @since 0.1.0
 */
export interface Trouble {
  /**
   * Trouble at these places, in place of trouble that is drawn: numbers and probabilities that are left out are 0 then. `calm` does not end it. The world is the
   * same up to the first of them, so one script can be run with trouble at each of its turns.
   */
  readonly at?: ReadonlyArray<TroubleAt> | undefined
  /** The number of processes that die between two instructions, without a finalizer; default 3. Another one starts later. */
  readonly kills?: number | undefined
  /** The number of processes that are paused for a while, and then continue; default 1. */
  readonly pauses?: number | undefined
  /** The number of processes that are closed in order and replaced, by the next one of `deploys` if there is one; default 1. */
  readonly stops?: number | undefined
  /** The number of times that the clock of a process jumps by up to two seconds, ahead or back; default 1. */
  readonly jumps?: number | undefined
  /** The shortest and the longest time between two kinds of trouble, in milliseconds; default `[20, 500]`. */
  readonly every?: readonly [number, number] | undefined
  /** The shortest and the longest pause, in milliseconds; default `[100, 1500]`. */
  readonly pause?: readonly [number, number] | undefined
  /** The largest difference of the clock of a process, in milliseconds; default 100. */
  readonly skew?: number | undefined
  /** The failures of the store. */
  readonly store?: worldStore.StoreFaults | undefined
  /** The failures of the network. */
  readonly network?: worldNetwork.NetworkFaults | undefined
}

/**
 * A process of a world. It is reached over the network.
 *
 * **Details**
 *
 * - `call`: runs an Effect there and returns its end, or `Lost` where no answer comes. `name` is for the trace.
 * - `stream`: reads a stream there, which `Lost` may end at any item.
 * - `kill`: ends it between two instructions. `pause`: it runs nothing for so many milliseconds. `stop`: closes its layer, and
 *   ends it then.
 *
 * @category models
 * @since 0.1.0
 */
export interface Process<in R> {
  readonly name: string
  readonly call: <A, E>(name: string, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | worldNetwork.Lost>
  readonly stream: <A, E>(name: string, stream: Stream.Stream<A, E, R>) => Stream.Stream<A, E | worldNetwork.Lost>
  readonly kill: Effect.Effect<void>
  readonly pause: (millis: number) => Effect.Effect<void>
  readonly stop: Effect.Effect<void>
}

/**
 * A world, as its script sees it.
 *
 * **Details**
 *
 * - `processes`: the processes that were started and live.
 * - `start`: starts another process, with the layer of the newest deploy.
 * - `any`: one of the processes, drawn; `Lost` where none lives.
 * - `store`: the store itself, without faults.
 * - `note`: adds a line to the trace.
 * - `calm`: ends all trouble. Processes that are paused continue.
 *
 * @category models
 * @since 0.1.0
 */
export interface World<in R> {
  readonly seed: number
  readonly processes: Effect.Effect<ReadonlyArray<Process<R>>>
  readonly start: Effect.Effect<Process<R>>
  readonly any: Effect.Effect<Process<R>, worldNetwork.Lost>
  readonly store: VersionedStore.Service
  readonly note: (text: string) => Effect.Effect<void>
  readonly calm: Effect.Effect<void>
}

/** The parts of a world that its seed does not decide. */
export interface Plan<R, E, O> {
  readonly layers: readonly [
    Layer.Layer<R, E, VersionedStore.VersionedStore | O>,
    ...Array<Layer.Layer<R, E, VersionedStore.VersionedStore | O>>
  ]
  readonly outside: Layer.Layer<O, unknown>
  readonly store: Layer.Layer<VersionedStore.VersionedStore, unknown>
  readonly script: (world: World<R>) => Effect.Effect<unknown, unknown, O>
  readonly processes: number
  readonly trouble: Trouble
  readonly maxTurns: number
}

export const Reason = Schema.TaggedUnion({
  Failed: { problem: Schema.String },
  Stuck: {},
  Endless: { turns: Schema.Number, from: Schema.String },
  Escaped: { from: Schema.String },
  Differs: { line: Schema.Number, first: Schema.String, second: Schema.String }
})

export type Reason = typeof Reason.Type

/** The end of a world, and its trace. Without `reason` it came to its end. */
export interface Outcome {
  readonly reason: Reason | undefined
  readonly hash: number
  readonly lines: ReadonlyArray<string>
  readonly figures: Readonly<Record<string, number>>
}

interface Running<R> {
  readonly process: machine.Process
  readonly handle: Process<R>
  isLeaving: boolean
}

const failedWith = (cause: Cause.Cause<unknown>): Reason => ({ _tag: "Failed", problem: String(Cause.squash(cause)) })

/** The processes of a world. `failure`: one could not be built. */
const fleetOf = <R, E, O>(
  self: machine.Machine,
  plan: Plan<R, E, O>,
  script: machine.Process,
  database: machine.Process,
  outside: Context.Context<O | VersionedStore.VersionedStore>
) => {
  const { at = [], network = {}, skew = 100, store: storeFaults = {} } = plan.trouble
  const failsAt = new Map(at.flatMap((one) => ("fail" in one ? [[one.fail, one.isApplied] as const] : [])))
  const knowsProcesses = storeFaults.knowsProcesses ?? self.chance.happens(0.5)
  const store = Context.get(outside, VersionedStore.VersionedStore)
  const running: Array<Running<R>> = []
  const state: { failure: Reason | undefined } = { failure: undefined }
  const fleet = Object.assign(state, { running, deploy: 0 })

  const die = (process: machine.Process, verb: string) => {
    machine.note(self, process, verb)
    machine.count(self, verb)
    machine.kill(self, process)
  }

  const start = Effect.suspend(() => {
    const process = machine.addProcess(self, `process ${running.length + 1}`)
    process.skew = self.chance.between(-skew, skew)
    const context = machine.contextOf(self, process)
    const scope = Scope.makeUnsafe()
    const built = Deferred.makeUnsafe<Context.Context<R>>()
    const faults = { ...storeFaults, knowsProcesses }
    const reached = worldStore.make({ self, process, database }, store, faults, failsAt)
    const layer = plan.layers[Math.min(fleet.deploy, plan.layers.length - 1)] ?? plan.layers[0]
    const build = Layer.buildWithMemoMap(layer, Layer.makeMemoMapUnsafe(), scope).pipe(
      Effect.provideContext(Context.add(outside, VersionedStore.VersionedStore, reached)),
      Effect.flatMap((services) => Deferred.succeed(built, services)),
      Effect.catchCause((cause) =>
        Effect.sync(() => {
          fleet.failure ??= failedWith(cause)
        })
      )
    )
    const ends: worldNetwork.Ends = { self, from: script, to: process, context, faults: network }
    const services = Deferred.await(built)
    const handle: Process<R> = {
      name: process.name,
      call: (name, effect) =>
        worldNetwork.call(
          ends,
          name,
          Effect.flatMap(services, (all) => Effect.provideContext(effect, all))
        ),
      stream: (name, items) =>
        worldNetwork.stream(
          ends,
          name,
          Stream.unwrap(Effect.map(services, (all) => Stream.provideContext(items, all)))
        ),
      kill: Effect.sync(() => die(process, "killed")),
      pause: (millis) =>
        Effect.sync(() => {
          if (process.status !== "up") return
          machine.note(self, process, `is paused for ${millis} ms`)
          machine.count(self, "paused")
          process.status = "paused"
          machine.schedule(self, script, millis, () => {
            if (process.status === "paused") process.status = "up"
          })
        }),
      stop: Effect.suspend(() => {
        one.isLeaving = true
        const stopped = Effect.sync(() => die(process, "stopped"))
        return machine.fork(Effect.andThen(Scope.close(scope, Exit.void), stopped), context)
      })
    }
    const one: Running<R> = { process, handle, isLeaving: false }
    running.push(one)
    machine.note(self, process, "starts")
    return Effect.as(machine.fork(build, context), handle)
  })

  const live = () => running.filter(({ isLeaving, process }) => !isLeaving && process.status !== "dead")
  return Object.assign(fleet, { start, live, die })
}

type Fleet<R> = Pick<ReturnType<typeof fleetOf<R, unknown, unknown>>, "live" | "deploy" | "start" | "die">

/** Kills processes after the turns that were named, and starts others. */
const killing = Effect.fnUntraced(function* <R>(
  self: machine.Machine,
  fleet: Fleet<R>,
  script: machine.Process,
  at: ReadonlyArray<TroubleAt>
) {
  const replaced = yield* Queue.unbounded<void>()
  const kills = at.flatMap((one) => ("kill" in one ? [{ from: one.after === undefined ? 0 : undefined, ...one }] : []))
  let latest: machine.Process | undefined
  self.afterTurn = (turn, process) => {
    const live = fleet.live().map((one) => one.process)
    if (live.includes(process)) latest = process
    for (const one of kills) {
      if (one.from === undefined && (self.counts.get("storeOperations") ?? 0) >= (one.after ?? 0)) one.from = turn
      const dying = latest !== undefined && live.includes(latest) ? latest : live[0]
      if (one.from === undefined || turn !== one.from + one.kill || dying === undefined) continue
      fleet.die(dying, "killed")
      machine.schedule(self, script, self.chance.between(0, 400), () => Queue.offerUnsafe(replaced, undefined))
    }
  }
  return yield* Effect.forever(Effect.andThen(Queue.take(replaced), fleet.start))
})

/** Without trouble that is drawn. */
const withoutChance = ({ network, store, ...rest }: Trouble): Trouble => ({
  kills: 0,
  pauses: 0,
  stops: 0,
  jumps: 0,
  skew: 0,
  ...rest,
  store: { failures: 0, ...store },
  network: { losses: 0, doubles: 0, ...network }
})

/** Draws trouble until there is none left, or the world is calm. One process at least lives afterwards. */
const troubled = Effect.fnUntraced(function* <R>(self: machine.Machine, fleet: Fleet<R>, trouble: Trouble) {
  const { chance } = self
  const { every = [20, 500], jumps = 1, kills = 3, pause = [100, 1500], pauses = 1, stops = 1 } = trouble
  const between = ([least, most]: readonly [number, number]) => chance.between(least, most)
  const left = [
    ...Array.from({ length: kills }, () => "kill" as const),
    ...Array.from({ length: pauses }, () => "pause" as const),
    ...Array.from({ length: stops }, () => "stop" as const),
    ...Array.from({ length: jumps }, () => "jump" as const)
  ]
  while (left.length > 0) {
    yield* Effect.sleep(between(every))
    if (self.isCalm) return
    const one = chance.pick(fleet.live())
    const kind = left.splice(chance.between(0, left.length - 1), 1)[0]
    if (one === undefined) continue
    if (kind === "jump") {
      const by = chance.between(-2000, 2000)
      machine.note(self, one.process, `its clock jumps by ${by} ms`)
      one.process.skew += by
    }
    if (kind === "pause") yield* one.handle.pause(between(pause))
    if (kind === "kill") yield* one.handle.kill
    if (kind === "stop") {
      fleet.deploy += 1
      yield* one.handle.stop
    }
    if (kind !== "kill" && kind !== "stop") continue
    yield* Effect.sleep(chance.between(0, 400))
    yield* fleet.start
  }
})

/** The store where it is: an operation is work outside of the world. */
const directly = (self: machine.Machine, process: machine.Process, store: VersionedStore.Service) =>
  worldStore.make({ self, process, database: process }, store, { latency: [0, 0], failures: 0, staleness: 0 })

/** Runs one world. */
export const run = Effect.fnUntraced(function* <R, E, O>(
  { trouble: given, ...rest }: Plan<R, E, O>,
  seed: number
): Effect.fn.Return<Outcome, never, Scope.Scope> {
  const { at } = given
  const plan: Plan<R, E, O> = { ...rest, trouble: at === undefined ? given : withoutChance(given) }
  const self = machine.make(seed, yield* Effect.context<never>())
  const script = machine.addProcess(self, "script")
  const database = machine.addProcess(self, "database")
  let end: Exit.Exit<unknown, unknown> | undefined
  const opened = Layer.build(Layer.fresh(Layer.merge(plan.outside, plan.store))).pipe(
    Effect.provideService(Random.Random, {
      nextIntUnsafe: () => self.chance.between(0, 2 ** 31),
      nextDoubleUnsafe: self.chance.next
    })
  )
  const outside = yield* Effect.exit(opened)
  if (Exit.isFailure(outside)) return outcomeOf(self, failedWith(outside.cause))
  const fleet = fleetOf(self, plan, script, database, outside.value)
  const world: World<R> = {
    seed,
    processes: Effect.sync(() => fleet.live().map(({ handle }) => handle)),
    start: fleet.start,
    any: Effect.suspend(() => {
      const one = self.chance.pick(fleet.live())
      if (one !== undefined) return Effect.succeed(one.handle)
      const lost = new worldNetwork.Lost({ call: "any", process: "any process" })
      return Effect.andThen(Effect.sleep(50), Effect.fail(lost))
    }),
    store: directly(self, script, Context.get(outside.value, VersionedStore.VersionedStore)),
    note: (text) => Effect.sync(() => machine.note(self, script, text)),
    calm: Effect.sync(() => {
      self.isCalm = true
      machine.note(self, script, "calm")
      for (const { process } of fleet.running) if (process.status === "paused") process.status = "up"
    })
  }
  const played = Effect.gen(function* () {
    if (at !== undefined) yield* Effect.forkDetach(killing(self, fleet, script, at))
    for (let started = 0; started < plan.processes; started++) yield* fleet.start
    yield* Effect.forkDetach(troubled(self, fleet, plan.trouble))
    yield* Effect.provideContext(plan.script(world), outside.value)
  })
  const ended = Effect.map(Effect.exit(played), (exit) => {
    end = exit
  })
  yield* machine.begin(self, ended, script)
  const pause = yield* machine.drive(self, plan.maxTurns, () => end !== undefined || fleet.failure !== undefined)
  const reason = reasonOf(self, pause, fleet.failure, end)
  if (reason !== undefined) yield* machine.watch(self)
  return outcomeOf(self, reasonOf(self, pause, fleet.failure, end))
})

const reasonOf = (
  { escaped, latest, turn: turns }: machine.Machine,
  pause: Effect.Success<ReturnType<typeof machine.drive>>,
  failure: Reason | undefined,
  end: Exit.Exit<unknown, unknown> | undefined
): Reason | undefined => {
  if (escaped !== undefined) return { _tag: "Escaped", from: escaped }
  if (failure !== undefined) return failure
  if (pause === "stuck") return { _tag: "Stuck" }
  if (pause === "endless") {
    return { _tag: "Endless", turns, from: latest === undefined ? "no fiber" : machine.nameOf(latest) }
  }
  return end !== undefined && Exit.isFailure(end) ? failedWith(end.cause) : undefined
}

const outcomeOf = (
  { counts, hash, lines, now, turn: turns }: machine.Machine,
  reason: Reason | undefined
): Outcome => ({
  reason,
  lines,
  hash: hash >>> 0,
  figures: { ...Object.fromEntries(counts), turns, milliseconds: now }
})
