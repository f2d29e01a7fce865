/**
 * The machine of a world: the fibers of several processes in one thread, on one clock, with one source of chance.
 *
 * A turn runs one task of one process, and the seed decides which one. Time does not pass while a task is ready. Then
 * it moves to the next timer. A dead process has no tasks and no timers; a paused process keeps them. Work outside of
 * the world is waited for between two turns, so it takes no turn and no time.
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { constVoid } from "effect/Function"
import * as Logger from "effect/Logger"
import * as Random from "effect/Random"
import * as Scheduler from "effect/Scheduler"
import * as Tracer from "effect/Tracer"
import { realClock } from "./checks.ts"

/** Chance from a seed. Whole numbers include both ends. */
export interface Chance {
  readonly next: () => number
  readonly between: (least: number, most: number) => number
  readonly happens: (probability: number) => boolean
  readonly pick: <A>(all: ReadonlyArray<A>) => A | undefined
}

/** The generator is mulberry32. */
export const chanceOf = (seed: number): Chance => {
  let state = seed | 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    const mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    const more = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((more ^ (more >>> 14)) >>> 0) / 2 ** 32
  }
  const between = (least: number, most: number) => least + Math.floor(next() * (most - least + 1))
  return {
    next,
    between,
    happens: (probability) => next() < probability,
    pick: (all) => all[between(0, all.length - 1)]
  }
}

/** A process. `skew`: the milliseconds by which its clock differs from the clock of the world. */
export interface Process {
  readonly name: string
  readonly number: number
  status: "up" | "paused" | "dead"
  skew: number
}

interface Task {
  readonly process: Process
  readonly run: () => void
}

interface Timer extends Task {
  readonly at: number
}

/** Work outside of the world, and what happens in it afterwards. */
interface Outside {
  readonly process: Process
  readonly work: Effect.Effect<unknown, unknown>
  readonly then: (exit: Exit.Exit<unknown, unknown>) => void
}

/**
 * A world.
 *
 * - `now`: milliseconds since its beginning.
 * - `untilYield`: the operations that fibers have before the next of them yields.
 * - `hash`: of all turns and lines. Two runs with one hash did the same.
 * - `isCalm`: nothing fails any more.
 * - `latest`: the process and the span of the fiber that ran last.
 * - `afterTurn`: called after each turn, with its number from 1 on and its process.
 */
export interface Machine {
  readonly chance: Chance
  readonly processes: Array<Process>
  readonly ready: Array<Task>
  readonly timers: Array<Timer>
  readonly outside: Array<Outside>
  readonly lines: Array<string>
  readonly counts: Map<string, number>
  readonly outer: Context.Context<never>
  now: number
  turn: number
  untilYield: number
  hash: number
  isInTurn: boolean
  isCalm: boolean
  escaped: string | undefined
  latest: { readonly process: Process; readonly span: Tracer.AnySpan | undefined } | undefined
  afterTurn: ((turn: number, process: Process) => void) | undefined
}

/** The world that an Effect runs in, and its process. */
export const Current = Context.Reference<{ readonly self: Machine; readonly process: Process } | undefined>(
  "effect-emissary/testing/Current",
  { defaultValue: () => undefined }
)

/** The beginning of each world, in the time of its clock. */
const epoch = 1_700_000_000_000

/** The lines that are kept at most. */
const longestTrace = 20_000

export const make = (seed: number, outer: Context.Context<never>): Machine => ({
  chance: chanceOf(seed),
  processes: [],
  ready: [],
  timers: [],
  outside: [],
  lines: [],
  counts: new Map(),
  outer,
  now: 0,
  turn: 0,
  untilYield: 1,
  hash: 0x811c9dc5,
  isInTurn: false,
  isCalm: false,
  escaped: undefined,
  latest: undefined,
  afterTurn: undefined
})

const mix = (self: Machine, value: number): void => {
  self.hash = Math.imul(self.hash ^ value, 0x01000193)
}

/** Counts an event, and returns its number from 1 on. */
export const count = ({ counts }: Machine, name: string): number => {
  const counted = (counts.get(name) ?? 0) + 1
  counts.set(name, counted)
  return counted
}

const write = (self: Machine, process: Process, text: string): void => {
  if (self.lines.length >= longestTrace) self.lines.splice(0, longestTrace / 2)
  self.lines.push(`${String(self.now).padStart(7)} ms  ${process.name}: ${text}`)
}

/** Adds a line to the trace. */
export const note = (self: Machine, process: Process, text: string): void => {
  for (let i = 0; i < text.length; i++) mix(self, text.charCodeAt(i))
  write(self, process, text)
}

export const addProcess = (self: Machine, name: string): Process => {
  const process: Process = { name, number: self.processes.length, status: "up", skew: 0 }
  self.processes.push(process)
  return process
}

/** A fiber, by its process and its span. */
export const nameOf = ({ process, span }: NonNullable<Machine["latest"]>): string =>
  `${process.name}, ${span?._tag === "Span" ? `the span "${span.name}"` : "a fiber without a span"}`

const escape = (self: Machine, process: Process, span?: Tracer.AnySpan): void => {
  self.escaped ??= nameOf({ process, span })
}

/** A task for the next turns. */
export const enqueue = (self: Machine, process: Process, run: () => void): void => {
  if (process.status !== "dead") self.ready.push({ process, run })
}

/** A task for a later time. The result takes it back. */
export const schedule = (self: Machine, process: Process, millis: number, run: () => void): (() => void) => {
  if (process.status === "dead" || !Number.isFinite(millis)) return constVoid
  const { timers } = self
  const timer: Timer = { process, run, at: self.now + Math.max(0, Math.ceil(millis)) }
  let low = 0
  for (let high = timers.length; low < high;) {
    const middle = (low + high) >>> 1
    if ((timers[middle]?.at ?? 0) > timer.at) high = middle
    else low = middle + 1
  }
  timers.splice(low, 0, timer)
  return () => {
    const index = timers.indexOf(timer)
    if (index >= 0) timers.splice(index, 1)
  }
}

const retain = <A extends Task>(tasks: Array<A>, dead: Process): void => {
  const kept = tasks.filter(({ process }) => process !== dead)
  tasks.splice(0, tasks.length, ...kept)
}

/** Ends a process where it is. No finalizer runs. */
export const kill = (self: Machine, process: Process): void => {
  process.status = "dead"
  retain(self.ready, process)
  retain(self.timers, process)
}

const schedulerOf = (self: Machine, process: Process): Scheduler.Scheduler => ({
  executionMode: "async",
  shouldYield: (fiber) => {
    if (!self.isInTurn) escape(self, process, fiber.cache.span)
    self.untilYield -= 1
    if (self.untilYield > 0) return false
    self.latest = { process, span: fiber.cache.span }
    self.untilYield = self.chance.between(1, 100)
    return true
  },
  makeDispatcher: () => ({
    scheduleTask: (task) => {
      if (self.isInTurn) enqueue(self, process, task)
      else escape(self, process)
    },
    flush: constVoid
  })
})

const clockOf = (self: Machine, process: Process): Clock.Clock => {
  const millis = () => epoch + self.now + process.skew
  const nanos = () => BigInt(millis()) * 1_000_000n
  const monotonic = () => BigInt(self.now) * 1_000_000n
  return {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: monotonic,
    monotonicTimeNanos: Effect.sync(monotonic),
    sleep: (duration) =>
      Effect.callback<void>((resume) =>
        Effect.sync(schedule(self, process, Duration.toMillis(duration), () => resume(Effect.void)))
      )
  }
}

const shown = (part: unknown): string => {
  if (Cause.isCause(part)) return String(Cause.squash(part))
  return typeof part === "string" ? part : (JSON.stringify(part) ?? String(part))
}

const loggerOf = (self: Machine, process: Process) =>
  Logger.make(({ logLevel, message }) => {
    const parts: ReadonlyArray<unknown> = Array.isArray(message) ? message : [message]
    write(self, process, `${logLevel.toLowerCase()}: ${parts.map(shown).join(" ")}`)
  })

/** The services of all fibers of a process. */
export const contextOf = (self: Machine, process: Process): Context.Context<never> =>
  self.outer.pipe(
    Context.omit(Tracer.ParentSpan),
    Context.add(Clock.Clock, clockOf(self, process)),
    Context.add(Scheduler.Scheduler, schedulerOf(self, process)),
    Context.add(Random.Random, {
      nextIntUnsafe: () => self.chance.between(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
      nextDoubleUnsafe: self.chance.next
    }),
    Context.add(Logger.CurrentLoggers, new Set([loggerOf(self, process)])),
    Context.add(Current, { self, process })
  )

/**
 * Begins a fiber of a process. The fiber that calls it never yields as one of that process: it would be gone with it.
 */
export const fork = <A, E>(effect: Effect.Effect<A, E>, context: Context.Context<never>): Effect.Effect<void> => {
  const yielding = Effect.provideService(effect, Scheduler.PreventSchedulerYield, false)
  const within = Context.add(context, Scheduler.PreventSchedulerYield, true)
  return Effect.asVoid(Effect.updateContext(Effect.forkDetach(yielding), (_: Context.Context<never>) => within))
}

/** Begins a fiber of a process from outside of the world. */
export const begin = <A, E>(self: Machine, effect: Effect.Effect<A, E>, process: Process): Effect.Effect<void> =>
  Effect.suspend(() => {
    self.isInTurn = true
    return Effect.map(fork(effect, contextOf(self, process)), () => {
      self.isInTurn = false
    })
  })

const takeReady = ({ chance, processes, ready }: Machine): Task | undefined => {
  const isAny = processes.some(({ status }) => status === "paused")
  const open = isAny ? ready.filter(({ process }) => process.status === "up") : ready
  const task = chance.pick(open)
  const last = ready.pop()
  if (task !== undefined && last !== undefined && last !== task) ready[ready.indexOf(task)] = last
  if (task === undefined && last !== undefined) ready.push(last)
  return task
}

const takeTimer = (self: Machine): Task | undefined => {
  const open = self.timers.filter(({ process }) => process.status === "up")
  const first = open[0]?.at
  const timer = self.chance.pick(open.filter(({ at }) => at === first))
  if (timer === undefined) return undefined
  self.timers.splice(self.timers.indexOf(timer), 1)
  self.now = Math.max(self.now, timer.at)
  return timer
}

type Pause = "over" | "more" | "idle" | "outside"

/** Runs so many turns, unless the world is over, waits for something outside, or has nothing left to run. */
const turns = (self: Machine, most: number, isOver: () => boolean): Pause => {
  for (let turn = 0; turn < most; turn++) {
    if (self.escaped !== undefined || isOver()) return "over"
    if (self.outside.length > 0) return "outside"
    const task = takeReady(self) ?? takeTimer(self)
    if (task === undefined) return "idle"
    self.turn += 1
    mix(self, task.process.number)
    mix(self, self.now)
    self.isInTurn = true
    task.run()
    self.isInTurn = false
    self.afterTurn?.(self.turn, task.process)
  }
  return "more"
}

/** The services of a fiber of the world, with the clock, the scheduler, the chance and the log outside of it. */
const leave = <R>({ outer }: Machine, context: Context.Context<R>): Context.Context<R> =>
  context.pipe(
    Context.add(Clock.Clock, Context.get(outer, Clock.Clock)),
    Context.add(Scheduler.Scheduler, Context.get(outer, Scheduler.Scheduler)),
    Context.add(Random.Random, Context.get(outer, Random.Random)),
    Context.add(Logger.CurrentLoggers, Context.get(outer, Logger.CurrentLoggers)),
    Context.add(Current, undefined)
  )

/** Adds work that happens outside of the world before its next turn. */
export const goOutside = <A, E, R>(
  self: Machine,
  process: Process,
  work: Effect.Effect<A, E, R>,
  context: Context.Context<R>,
  then: (exit: Exit.Exit<A, E>) => void
): void => {
  const apart = Effect.updateContext(work, (_: Context.Context<never>) => leave(self, context))
  // Sound: `then` gets the exit of this work.
  self.outside.push({ process, work: apart, then: then as Outside["then"] })
}

/** A world that went wrong, or in which nothing is left to run, is watched for so many milliseconds of real time: something may come from outside. */
const patience = 50

/** Waits for what comes from outside of the world. */
export const watch = Effect.fnUntraced(function* (self: Machine) {
  for (let waited = 0; waited < patience && self.escaped === undefined; waited++) {
    yield* Effect.provideService(Effect.sleep("1 millis"), Clock.Clock, realClock)
  }
})

/** Runs a world to its end, or until nothing is left to run in it, or for so many turns. */
export const drive = Effect.fnUntraced(function* (self: Machine, most: number, isOver: () => boolean) {
  while (self.turn < most) {
    const pause = turns(self, 256, isOver)
    // Promises and timers of the machine continue here
    if (pause !== "outside") yield* Effect.yieldNow
    if (pause === "over") return "over"
    if (pause === "idle") return "stuck"
    for (let request = self.outside.shift(); request !== undefined; request = self.outside.shift()) {
      const { process, then, work } = request
      const exit = yield* Effect.exit(work)
      enqueue(self, process, () => then(exit))
    }
  }
  return "endless"
})
