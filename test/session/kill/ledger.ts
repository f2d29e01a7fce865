/**
 * The work of runners, in a file that outlives them: a line is in it before the work that it announces begins. A file of its
 * own, so that it counts what the store under test does not know.
 */
import * as Effect from "effect/Effect"
import { appendFileSync, closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs"

export interface Line {
  readonly at: number
  readonly runner: string
  readonly pid: number
  /** `s3.7/desk/0/1`: the message, who asks, the round, the call in it. */
  readonly key: string
  readonly work: "model" | "idempotent" | "once" | "step"
  readonly phase: "start" | "end"
}

export const sessionOf = (key: string): string => key.slice(0, key.indexOf("."))

/** Writes for one runner. */
export const open = (file: string, runner: string) => {
  const write = (key: string, work: Line["work"], phase: Line["phase"]) =>
    Effect.sync(() => {
      const line: Line = { at: Date.now(), runner, pid: process.pid, key, work, phase }
      appendFileSync(file, `${JSON.stringify(line)}\n`)
    })
  return {
    /** Work between two lines. Where it is interrupted, the second one is missing. */
    around: <A, E, R>(key: string, work: Line["work"], effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.andThen(write(key, work, "start"), Effect.tap(effect, write(key, work, "end")))
  }
}

export type Ledger = ReturnType<typeof open>

/** Reads the file: each call returns all lines that are in it by then. */
export const reader = (file: string): (() => ReadonlyArray<Line>) => {
  const lines: Array<Line> = []
  let offset = 0
  return () => {
    if (!existsSync(file)) return lines
    const descriptor = openSync(file, "r")
    const bytes = Buffer.alloc(fstatSync(descriptor).size - offset)
    readSync(descriptor, bytes, 0, bytes.length, offset)
    closeSync(descriptor)
    // A line that is being written is for the next time
    const end = bytes.lastIndexOf("\n") + 1
    offset += end
    for (const line of bytes.subarray(0, end).toString().split("\n")) {
      // Sound: `open` wrote it
      if (line !== "") lines.push(JSON.parse(line) as Line)
    }
    return lines
  }
}

/** The lines of work that a process began and did not end. */
export const openWork = (lines: ReadonlyArray<Line>, pid: number): ReadonlyArray<Line> => {
  const begun = new Map<string, Line>()
  for (const line of lines) {
    if (line.pid !== pid) continue
    if (line.phase === "start") begun.set(line.key, line)
    else begun.delete(line.key)
  }
  return [...begun.values()]
}

/** The keys that were started more than once, with all their lines. */
export const startedTwice = (lines: ReadonlyArray<Line>, work: Line["work"]): ReadonlyArray<ReadonlyArray<Line>> => {
  const byKey = new Map<string, Array<Line>>()
  for (const line of lines) {
    if (line.work !== work) continue
    byKey.set(line.key, [...(byKey.get(line.key) ?? []), line])
  }
  return [...byKey.values()].filter((all) => all.filter(({ phase }) => phase === "start").length > 1)
}

/** The end of a step as a session has stored it. */
export interface Completed {
  readonly key: string
  readonly at: number
}

/** Work of steps that began after the step had been stored as completed. */
export const ranAgain = (lines: ReadonlyArray<Line>, completed: ReadonlyArray<Completed>): ReadonlyArray<Line> => {
  const ends = new Map(completed.map(({ at, key }) => [key, at]))
  return lines.filter(
    ({ at, key, phase, work }) =>
      work === "step" && phase === "start" && at > (ends.get(key) ?? Number.POSITIVE_INFINITY)
  )
}

/** A process that was killed. `ready`: when the next one of its name could answer. */
export interface Kill {
  readonly pid: number
  readonly at: number
  ready: number | undefined
}

/**
 * For each kill that left work: the milliseconds until another process continued a session that had some. Kills with other
 * trouble meanwhile, which `others` has, do not count.
 */
export const delays = (
  lines: ReadonlyArray<Line>,
  kills: ReadonlyArray<Kill>,
  others: ReadonlyArray<Pick<Stop, "from" | "to">>,
  since: "at" | "ready"
) =>
  kills.flatMap((kill) => {
    const held = new Set(openWork(lines, kill.pid).map(({ key }) => sessionOf(key)))
    const next = lines.find(({ at, key, pid }) => pid !== kill.pid && at >= kill.at && held.has(sessionOf(key)))
    const begin = kill[since]
    if (held.size === 0 || next === undefined || begin === undefined) return []
    const isDisturbed =
      kills.some(({ at }) => at > kill.at && at <= next.at) ||
      others.some(({ from, to }) => from <= next.at && to >= kill.at)
    return isDisturbed ? [] : [Math.max(0, next.at - begin)]
  })

/** A process that was stopped and continued. */
export interface Stop {
  readonly pid: number
  readonly from: number
  readonly to: number
}

/** The message, who works for it, and the round, of a key. */
const placeOf = (key: string) => {
  const [label = "", who = "", round = ""] = key.split("/")
  return { session: sessionOf(key), message: Number(label.slice(label.indexOf(".") + 1)), who, round: Number(round) }
}

/** True if the work of the first key comes after the work of the second one, in the same session. */
const isAfter = (one: string, other: string): boolean => {
  const a = placeOf(one)
  const b = placeOf(other)
  if (a.session !== b.session) return false
  return a.message > b.message || (a.message === b.message && a.who === b.who && a.round > b.round)
}

/**
 * Work that a process began after it was continued, although another one had gone further in the session meanwhile. Calls that
 * may be repeated do not count: they are repeated without a new event.
 */
export const begunFromOldState = (lines: ReadonlyArray<Line>, stops: ReadonlyArray<Stop>): ReadonlyArray<Line> =>
  stops.flatMap(({ from, pid, to }) => {
    const others = lines.filter((line) => line.pid !== pid && line.at > from && line.at <= to)
    return lines.filter(
      ({ at, key, phase, pid: by, work }) =>
        by === pid &&
        phase === "start" &&
        work !== "idempotent" &&
        at > to &&
        others.some((other) => isAfter(other.key, key))
    )
  })
