/** Clients: each has a chat or a job, one after the other, and remembers what was acknowledged. */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { type Random, random } from "../../random.ts"
import * as agents from "./agents.ts"
import type { Operations } from "./door.ts"
import * as readers from "./readers.ts"

/** A session as its clients know it. */
export interface Record {
  readonly id: string
  readonly agent: string
  /** Messages that were acknowledged, in order. */
  readonly acknowledged: Array<string>
  readonly readers: ReadonlyArray<readers.Reader>
  readonly progress: readers.Progress
  /** Errors that a client got, by reason: how often, and the newest text. */
  readonly errors: Map<string, { times: number; text: string }>
  /** The result of a job, which is one message; absent for a chat. */
  readonly job?: { readonly results: Set<string> }
  /** A turn was interrupted: its message has no answer. */
  interrupted: boolean
  /** The session was seen idle after its last message. */
  settled: boolean
}

export interface Options {
  readonly door: Operations
  readonly seed: number
  /** Sessions that have load at one time. */
  readonly clients: number
  /** Messages of a session. */
  readonly messages: number
  readonly readers: number
  /** No session begins after it is true. */
  readonly over: () => boolean
  /** The time that sessions have to end their work when the trouble is over. */
  readonly patience: number
}

const send = (door: Operations, { acknowledged, agent, errors, id }: Record, text: string) =>
  door.send(id, text, `id of ${text}`, agent).pipe(
    Effect.tapError(({ reason, text }) =>
      Effect.sync(() => errors.set(reason, { times: (errors.get(reason)?.times ?? 0) + 1, text }))
    ),
    Effect.retry(Schedule.spaced(60)),
    Effect.tap(() => Effect.sync(() => (acknowledged.includes(text) ? 0 : acknowledged.push(text))))
  )

/** Decides about what waits, until the turn of the newest message has ended, as far as a reader knows. */
const untilSettled = Effect.fnUntraced(function* (door: Operations, { id, progress }: Record, dice: Random) {
  while (!progress.settled || progress.waiting) {
    if (progress.waiting) yield* Effect.ignore(door.decide(id, dice.chance(0.7)))
    yield* Effect.sleep(40)
  }
})

/** Decides about what waits, and resumes what could not begin, until the state of the session is idle. */
const untilIdle = Effect.fnUntraced(function* (door: Operations, record: Record, dice: Random) {
  const { id, readers } = record
  for (;;) {
    const state = yield* Effect.option(door.state(id))
    if (state._tag === "Some" && state.value !== undefined) {
      const { failure, queue, requests, sequence, status } = state.value
      if (requests > 0) yield* Effect.ignore(door.decide(id, dice.chance(0.7)))
      else if (status === "idle" && (queue > 0 || failure !== undefined)) yield* Effect.ignore(door.resume(id))
      // Readers get the rest, too
      else if (status === "idle" && queue === 0 && readers.every(({ seen }) => seen.length >= sequence)) break
    }
    yield* Effect.sleep(100)
  }
  record.settled = true
})

/** Runs a job to its result, as a caller that may lose the answer: it asks again, and approves what waits. */
const oneJob = Effect.fnUntraced(function* ({ door }: Options, record: Record, dice: Random) {
  const { acknowledged, agent, errors, id, job } = record
  if (job === undefined) return
  for (const reader of record.readers) {
    const fork = readers.follow(door, id, reader, record.progress, random(dice.below(2 ** 31)))
    yield* Effect.forkScoped(fork)
  }
  const text = agents.label(id, 1)
  acknowledged.push(text)
  // The same job again finds the same result
  for (let times = 0; times < 2;) {
    const result = yield* Effect.result(door.run(id, text, agent))
    if (result._tag === "Failure") {
      const { reason, text } = result.failure
      errors.set(reason, { times: (errors.get(reason)?.times ?? 0) + 1, text })
      yield* Effect.sleep(60)
    } else if (result.success.outcome === "Completed") {
      job.results.add(result.success.output ?? "")
      times += 1
    } else {
      yield* Effect.ignore(door.decide(id, true))
      yield* Effect.sleep(20)
    }
  }
  yield* untilIdle(door, record, dice)
}, Effect.scoped)

const oneSession = Effect.fnUntraced(function* (options: Options, record: Record, dice: Random) {
  const { door, messages } = options
  for (const reader of record.readers) {
    const fork = readers.follow(door, record.id, reader, record.progress, random(dice.below(2 ** 31)))
    yield* Effect.forkScoped(fork)
  }
  for (let number = 1; number <= messages; number++) {
    record.progress.settled = false
    // A client that does not know whether a message arrived sends it again
    const again = record.acknowledged.filter(() => dice.chance(0.15))
    yield* Effect.forEach([...again, agents.label(record.id, number)], (text) => send(door, record, text), {
      concurrency: 2
    })
    // Half of the messages come while a turn is under way
    if (dice.chance(0.5)) yield* Effect.timeoutOption(untilSettled(door, record, dice), "10 seconds")
    else yield* Effect.sleep(dice.below(60))
    if (dice.chance(0.08)) {
      record.interrupted = true
      yield* Effect.ignore(door.interrupt(record.id))
    }
  }
  yield* untilIdle(door, record, dice)
}, Effect.scoped)

/** Puts load on sessions until it is over; all sessions are in `records`. */
export const run = Effect.fnUntraced(function* (options: Options, records: Array<Record>) {
  /** While there is trouble, a session may take as long as it wants. */
  const outOfPatience = Effect.gen(function* () {
    while (!options.over()) yield* Effect.sleep(100)
    yield* Effect.sleep(options.patience)
  })
  const client = Effect.fnUntraced(function* (number: number) {
    const dice = random(options.seed * 1000 + number)
    do {
      // Every second one
      const isJob = records.length % 2 === 0
      const [plan, chance] = isJob ? [agents.job, 0.7] : [agents.plan, 0.3]
      const record: Record = {
        id: `s${records.length + 1}`,
        agent: dice.chance(chance) ? plan : agents.chat,
        ...(isJob && { job: { results: new Set<string>() } }),
        acknowledged: [],
        readers: dice.times(options.readers, () => ({ seen: [], faults: [] })),
        progress: { settled: false, waiting: false },
        errors: new Map(),
        interrupted: false,
        settled: false
      }
      records.push(record)
      yield* Effect.raceFirst((isJob ? oneJob : oneSession)(options, record, dice), outOfPatience)
    } while (!options.over())
  })
  const clients = Array.from({ length: options.clients }, (_, index) => index)
  yield* Effect.forEach(clients, client, { concurrency: "unbounded", discard: true })
})
