/**
 * The cost of live readers (SCREEN-1): `npm run bench:live -- [--rounds 7] [--rows eager] [--write]`. A model writes 1,000 pieces, one each
 * millisecond. The rows take turns in a new order each round, and a ratio is the median of the ratios of the rounds. CPU time counts all threads
 * of the process. `--rows` takes the rows whose names have this text, and the rows that they are compared with. `--write` writes `bench/LIVE.md`.
 */
import { Context, Effect, Layer, Stream } from "effect"
import type { LanguageModel } from "effect/ai"
import { Agent, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { writeFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { parseArgs } from "node:util"

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "7" },
    rows: { type: "string", default: "" },
    write: { type: "boolean" }
  }
})

const text = "12345678".repeat(1000)

const writer = Agent.make("writer")

const model = ScriptedModel.layer(() => ({ text, chunkDelay: "1 millis" }))

const services = Session.layer([writer]).pipe(Layer.provide(VersionedStore.layerMemory), Layer.provideMerge(model))

const ends = ({ event }: Session.LiveEntry) => event._tag === "RunEvent" && event.event._tag === "RunFinished"

let count = 0

/** A turn of each of some sessions, with so many readers of each. */
const turns =
  (readers: number, options: Session.LiveOptions | "events", sessions = 1) =>
  (service: Session.Service) =>
    Effect.gen(function* () {
      const ids = Array.from({ length: sessions }, () => `s${count++}`)
      const read = (id: string) => {
        const entries: Stream.Stream<Session.LiveEntry, Session.SessionError> =
          options === "events" ? service.events(id) : service.live(id, options)
        return Stream.runDrain(Stream.takeUntil(entries, ends))
      }
      const all = ids.flatMap((id) => Array.from({ length: readers }, () => read(id)))
      yield* Effect.all([...ids.map((id) => service.send(id, "Write.")), ...all], { concurrency: "unbounded" })
    })

interface Row {
  readonly run: (service: Session.Service) => Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>
  /** The row that it is compared with, and the ratio that is aimed at. */
  readonly to: string
  readonly atMost?: number
  /** The readers that the other row does not have. */
  readonly readers?: number
}

const [streamed, oneSession, hundred] = ["`agent.stream`", "a session, its events", "100 sessions, their events"]

const rows: Readonly<Record<string, Row>> = {
  [streamed]: { run: () => Stream.runDrain(writer.stream("Write.")), to: streamed },
  [oneSession]: { run: turns(1, "events"), to: streamed },
  "a session, read live, eager": { run: turns(1, { every: 0 }), to: streamed, atMost: 1.25 },
  "a session, read live, every 20 ms": { run: turns(1, {}), to: streamed, atMost: 1.05 },
  "1,000 readers of one session, every 20 ms": { run: turns(1000, {}), to: oneSession, readers: 1000 },
  [hundred]: { run: turns(1, "events", 100), to: hundred },
  "10 readers of each of 100 sessions, every 20 ms": { run: turns(10, {}, 100), to: hundred, readers: 1000 }
}

const wanted = Object.entries(rows).filter(([name]) => name.includes(values.rows))

const entries = Object.entries(rows).filter(([name]) => wanted.some(([row, { to }]) => name === row || name === to))

const rounds = Number(values.rounds)

const median = (all: ReadonlyArray<number>): number => all.toSorted((a, b) => a - b)[all.length >> 1] ?? 0

const program = Effect.gen(function* () {
  const context = yield* Layer.build(services)
  const service = Context.get(context, Session.Session)
  const times = new Map<string, Array<number>>(entries.map(([name]) => [name, []]))
  for (let round = -1; round < rounds; round++) {
    for (const [name, { run }] of entries.toSorted(() => Math.random() - 0.5)) {
      globalThis.gc?.()
      const before = process.cpuUsage()
      yield* Effect.provideContext(run(service), context)
      const { system, user } = process.cpuUsage(before)
      if (round >= 0) times.get(name)?.push((user + system) / 1000)
    }
  }
  return times
})

const times = await Effect.runPromise(Effect.scoped(program))

const lines = entries.map(([name, { atMost, readers, to }]) => {
  const found = times.get(name) ?? []
  const other = times.get(to) ?? found
  const ratio = median(found.map((time, round) => time / (other[round] ?? time)))
  const ofLeast = Math.min(...found) / Math.min(...other)
  const ofReader = readers === undefined ? "" : ((median(found) - median(other)) / readers).toFixed(2)
  const met = atMost === undefined ? "" : ratio <= atMost ? "yes" : "no"
  const compared = to === name ? "" : `${ratio.toFixed(2)} (${ofLeast.toFixed(2)}) of ${to}`
  const cells = [
    name,
    `${median(found).toFixed(0)} (${Math.min(...found).toFixed(0)})`,
    compared,
    atMost ?? "",
    met,
    ofReader
  ]
  return `| ${cells.join(" | ")} |\n`
})

const table = `| what | CPU, ms (least) | ratio (of least) | at most | met | each reader, ms |
| --- | ---: | ---: | ---: | ---: | ---: |
${lines.join("")}`

const page = `# Live readers

Written by \`npm run bench:live -- --rounds ${rounds} --write\` on ${availableParallelism()} cores, node ${process.version}. A model writes 1,000 pieces, one each
millisecond, in memory. A row is a whole turn: a session stores its events besides. The rows took turns in a new order each round. A ratio is the
median of the ratios of the rounds, and in parentheses the ratio of the least times. An eager reader gets each piece as soon as it is written
(\`every: 0\`), and 20 ms is the default of \`Session.live\`. Readers with the same \`every\` look together, and share what they find at one place.
On a machine that others use as well, read ratios and not times.

${table}`

process.stdout.write(table)
if (values.write === true) writeFileSync(new URL("LIVE.md", import.meta.url), page)
process.exit()
