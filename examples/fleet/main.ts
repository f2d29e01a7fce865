/**
 * A chat on a fleet: `npm run example fleet`. Two runners and this process, a client, share a SQLite file; with
 * `npm run example fleet postgres://localhost/postgres`, or the address in `DATABASE_URL`, a database of PostgreSQL. The runner that has
 * the chat is killed in the middle of a turn, twice, and the chat continues on the other one.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Console, Effect, FileSystem, Queue, Random, References, Stream } from "effect"
import { ChildProcess } from "effect/process"
import { Message } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { fileURLToPath } from "node:url"
import * as cluster from "./cluster.ts"
import * as view from "./view.ts"

/** A runner in a process of its own. `working` receives the lines that its tools print. */
const startRunner = Effect.fnUntraced(function* (
  screen: view.View,
  name: string,
  args: readonly [address: string, port: number],
  working: Queue.Enqueue<Runner>
) {
  const script = fileURLToPath(new URL("runner.ts", import.meta.url))
  yield* screen.state(name, "starts")
  const child = yield* ChildProcess.make(process.execPath, [script, ...args.map(String)], { stderr: "inherit" })
  const runner = {
    name,
    kill: Effect.gen(function* () {
      yield* child.kill({ killSignal: "SIGKILL" })
      yield* screen.state(name, "killed")
      yield* screen.line(`(${name} is killed)`)
    })
  }
  const ready = yield* Queue.unbounded<void>()
  yield* child.stdout.pipe(
    Stream.decodeText,
    Stream.splitLines,
    Stream.runForEach((line) => {
      if (line === "ready") return Effect.andThen(screen.state(name, "ready"), Queue.offer(ready, undefined))
      if (!line.startsWith("tool ")) return Console.error(`${name}: ${line}`)
      return screen
        .state(name, `runs ${line.slice(5)}`)
        .pipe(
          Effect.andThen(screen.line(`(${name} runs ${line.slice(5)})`)),
          Effect.andThen(Queue.offer(working, runner))
        )
    }),
    Effect.ignore,
    Effect.forkScoped
  )
  yield* Queue.take(ready)
  return runner
})

interface Runner {
  readonly name: string
  readonly kill: Effect.Effect<void, unknown>
}

/** Prints the answers of a session, and checks that no event is missing and none comes twice. */
const watch = Effect.fnUntraced(function* (screen: view.View, chat: string, seen: Array<number>) {
  yield* Stream.runForEach(Session.events(chat), ({ event, sequence }) => {
    seen.push(sequence)
    if (event._tag !== "RunEvent" || event.event._tag !== "ModelAnswered") return Effect.void
    const text = Message.text(event.event.message)
    return text === "" ? Effect.void : screen.line(`Clerk: ${text}`)
  })
})

const converse = Effect.fnUntraced(function* (screen: view.View, address: string, base: number) {
  const chat = `chat/${base}`
  const working = yield* Queue.unbounded<Runner>()
  const start = (number: number) => startRunner(screen, `runner ${number}`, [address, base + number], working)
  const seen: Array<number> = []

  // The reader that prints the answers may be a little behind
  const isPrinted = (sequence: number): Effect.Effect<void> =>
    Effect.suspend(() =>
      (seen.at(-1) ?? 0) < sequence ? Effect.andThen(Effect.sleep("20 millis"), isPrinted(sequence)) : Effect.void
    )
  const say = (text: string) =>
    screen.line(`You: ${text}`).pipe(
      Effect.andThen(Session.turn(chat, text)),
      Effect.tap(({ sequence }) => isPrinted(sequence))
    )
  const killWhoWorks = Effect.tap(Queue.take(working), ({ kill }) => kill)

  yield* Effect.all([start(1), start(2)], { concurrency: 2 })
  yield* Effect.forkScoped(watch(screen, chat, seen))

  yield* say("Where is parcel 7?")
  yield* Queue.clear(working)

  const [killed] = yield* Effect.all([killWhoWorks, say("Where is parcel 8?")], { concurrency: 2 })
  yield* start(Number(killed.name.slice(-1)))
  yield* screen.line(`(${killed.name} is back)`)
  yield* Queue.clear(working)

  yield* Effect.all([killWhoWorks, say("Then refund parcel 8, please.")], { concurrency: 2 })

  const isWhole = seen.every((sequence, index) => sequence === index + 1)
  yield* screen.line(
    isWhole ? `(${seen.length} events, none missing, none twice)` : `(events are missing: ${seen.join(", ")})`
  )
})

const program = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const given = process.argv[2] ?? process.env["DATABASE_URL"]
  const address = given ?? `${yield* fs.makeTempDirectoryScoped({ prefix: "fleet-" })}/fleet.sqlite`
  const screen = yield* view.make(process.stdout.isTTY === true)
  yield* screen.line(`A fleet on ${cluster.isPostgres(address) ? "PostgreSQL" : "SQLite"}`)
  const base = yield* Random.nextIntBetween(20_000, 40_000)
  yield* Effect.provide(converse(screen, address, base), ClusterSession.layerClient()).pipe(
    Effect.provide(cluster.client(address))
  )
})

Effect.scoped(program).pipe(
  Effect.provide(NodeServices.layer),
  Effect.provideService(References.MinimumLogLevel, "Warn"),
  NodeRuntime.runMain
)
