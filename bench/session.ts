/**
 * The cost of sessions in a file of SQLite (DUR-2): events per second, the cost of an event by the length of the session,
 * and the time to open a session of 10,000 events from its snapshot, and from a snapshot that is as old as it may be.
 *
 * `node bench/session.ts` fails when an event costs more than twice as much at 10,000 events as at 1,000. The time to open
 * is printed, with the time of the processor, which is what counts on a shared machine; it should be under 100 ms from a
 * snapshot. Each write waits for the disk: with TMPDIR=/dev/shm none does.
 */
import { Context, Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { copyFileSync, existsSync, mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** Each turn calls a tool so often: two events a call, and six of the turn. */
const callsOfTurn = 22
const eventsOfTurn = 2 * callsOfTurn + 8

const look = Tool.make("look", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String })
const toolkit = Toolkit.make(look)
const worker = Agent.make("worker", { instructions: "You look things up.", toolkit })

const model: ScriptedModel.TurnFunction = ({ messages }) =>
  messages.at(-1)?.role === "user"
    ? { toolCalls: Array.from({ length: callsOfTurn }, (_, n) => ({ name: "look", params: { n } })) }
    : { text: "There it is.", usage: { inputTokens: 100, outputTokens: 10 } }

const services = Layer.merge(
  toolkit.toLayer({ look: ({ n }) => Effect.succeed(`result ${n}`) }),
  ScriptedModel.layer(model)
)

const over = (filename: string) =>
  Session.layer([worker]).pipe(Layer.provide(services), Layer.provide(SqliteClient.layerStore({ filename })))

const now = (): number => performance.now()

/** The sessions of a layer that is closed after their use. */
const using = <A>(filename: string, use: (sessions: Session.Service) => Effect.Effect<A, unknown>): Promise<A> =>
  Effect.runPromise(
    Effect.scoped(Effect.flatMap(Layer.build(over(filename)), (built) => use(Context.get(built, Session.Session))))
  )

const sequenceOf = (sessions: Session.Service) =>
  Effect.map(sessions.state("a"), (state) => Option.getOrThrow(state).sequence)

/** One turn, in milliseconds per event. */
const turn = Effect.fnUntraced(function* (sessions: Session.Service) {
  const start = now()
  const { cursor } = yield* sessions.send("a", "Look it up.")
  yield* sessions.events("a", { after: cursor }).pipe(
    Stream.takeUntil(({ event }) => event._tag === "RunEvent" && event.event._tag === "RunFinished"),
    Stream.runDrain
  )
  return (now() - start) / eventsOfTurn
})

const median = (all: ReadonlyArray<number>): number => all.toSorted((a, b) => a - b)[all.length >> 1] ?? 0

const grow = (length: number) => (sessions: Session.Service) =>
  Effect.gen(function* () {
    const costs: Array<number> = []
    do costs.push(yield* turn(sessions))
    while ((yield* sequenceOf(sessions)) < length)
    return costs
  })

const directory = mkdtempSync(join(tmpdir(), "emissary-bench-"))

/** The time until a new process has the state of the session, best of several. */
const opening = async (filename: string): Promise<string> => {
  const times: Array<number> = []
  const processor: Array<number> = []
  for (let round = 0; round < 7; round++) {
    const copy = join(directory, `copy-${round}.sqlite`)
    for (const suffix of ["", "-wal"]) {
      if (existsSync(filename + suffix)) copyFileSync(filename + suffix, copy + suffix)
    }
    times.push(
      await using(copy, (sessions) =>
        Effect.gen(function* () {
          yield* sessions.state("none")
          const start = now()
          const before = process.cpuUsage()
          yield* sessions.state("a")
          const { system, user } = process.cpuUsage(before)
          processor.push((system + user) / 1000)
          return now() - start
        })
      )
    )
  }
  return `${Math.min(...times).toFixed(0)} ms, ${Math.min(...processor).toFixed(0)} ms of the processor`
}

const filename = join(directory, "sessions.sqlite")
const stale = join(directory, "stale.sqlite")

const { costs, length } = await using(filename, (sessions) =>
  Effect.gen(function* () {
    const start = now()
    const costs = yield* grow(10_000)(sessions)
    const length = yield* sequenceOf(sessions)
    console.log(
      `${length} events in ${((now() - start) / 1000).toFixed(1)} s: ${Math.round(length / ((now() - start) / 1000))} per second`
    )
    // As a process that was killed leaves it
    for (const suffix of ["", "-wal"]) {
      if (existsSync(filename + suffix)) copyFileSync(filename + suffix, stale + suffix)
    }
    return { costs, length }
  })
)

const early = median(costs.slice(1, 1 + Math.round(1_000 / eventsOfTurn)))
const late = median(costs.slice(-Math.round(1_000 / eventsOfTurn)))
const ratio = late / early
console.log(
  `an event costs ${(early * 1000).toFixed(0)} us up to 1,000 events, ${(late * 1000).toFixed(0)} us before ${length}, ratio ${ratio.toFixed(2)}`
)
console.log(`open ${length} events from a snapshot: ${await opening(filename)}`)
console.log(`open them after a kill, from an older snapshot: ${await opening(stale)}`)
console.log(
  `the file: ${(statSync(filename).size / 1_000_000).toFixed(1)} MB, ${Math.round(statSync(filename).size / length)} bytes per event`
)

rmSync(directory, { recursive: true, force: true })

if (ratio > 2) {
  console.error("The cost of an event depends on the length of the session.")
  process.exitCode = 1
}
