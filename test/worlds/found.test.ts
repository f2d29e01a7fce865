/** WORLD-9: faults that worlds have found, in small worlds of their own, which other scripts do not change. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Option, Random, Schedule, Stream } from "effect"
import { Session } from "effect-emissary/session"
import { Simulation } from "effect-emissary/testing"
import * as agents from "./agents.ts"
import { emptyDiary, type World } from "./clients.ts"
import * as jobs from "./jobs.ts"
import { Releases } from "./releases.ts"
import { allSessions as jobSessions, sessions } from "./worlds.ts"

const calmly: Simulation.Trouble = {
  kills: 0,
  pauses: 0,
  stops: 0,
  jumps: 0,
  store: { failures: 0 },
  network: { losses: 0, doubles: 0 }
}

const inWorlds = (
  seeds: ReadonlyArray<number>,
  script: (world: World) => Effect.Effect<unknown, unknown>,
  failures = 0
): Effect.Effect<unknown, Simulation.SimulationError> =>
  Simulation.run(sessions, {
    seeds,
    processes: 1,
    trouble: { ...calmly, store: { failures } },
    compare: false,
    maxTurns: 60_000,
    outside: agents.Ledger.layer,
    script
  })

const use = <A>(
  { any }: World,
  name: string,
  call: (sessions: Session.Session["Service"]) => Effect.Effect<A, Session.SessionError>
) => Effect.flatMap(any, (process) => process.call(name, Effect.flatMap(Session.Session, call)))

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, index) => first + index)

const nap = (most: number) => Effect.flatMap(Random.nextIntBetween(0, most), Effect.sleep)

describe("WORLD-9 edits of messages whose turns begin meanwhile", () => {
  it.live("end, and a message that was dropped for its edit is not answered", () =>
    inWorlds(range(61, 100), (world) =>
      Effect.gen(function* () {
        const looking = yield* Effect.forEach([1, 2, 3, 4, 5, 6], () =>
          Effect.forkChild(
            Effect.forever(Effect.andThen(nap(4), Effect.exit(use(world, "look", ({ state }) => state("a")))))
          )
        )
        const user = Effect.fnUntraced(function* (name: string) {
          let last = ""
          for (let n = 1; n <= 12; n++) {
            const messageId = `${name}${n}`
            const input = `a/${messageId}|${(yield* Random.nextBoolean) ? "pay" : "once"}`
            const isEdit = last !== "" && (yield* Random.next) < 0.6
            const call = isEdit
              ? use(world, "edit", ({ edit }) => edit("a", { messageId: last, input, newMessageId: messageId }))
              : use(world, "send", ({ send }) => send("a", input, { agent: "worker", messageId }))
            yield* Effect.exit(call)
            if ((yield* Random.next) < 0.2)
              yield* Effect.exit(use(world, "interrupt", ({ interrupt }) => interrupt("a")))
            last = messageId
            yield* nap(6)
          }
        })
        yield* Effect.all([user("x"), user("y")], { concurrency: "unbounded" })
        yield* Effect.forEach(looking, Fiber.interrupt)
        yield* Effect.sleep("30 seconds")
        const state = Option.getOrThrow(yield* use(world, "state", ({ state }) => state("a")))
        const entries = yield* use(world, "events", ({ events }) =>
          Stream.runCollect(Stream.take(events("a"), state.sequence))
        )
        const dropped = new Set<string>()
        for (const { event } of entries) {
          if (event._tag === "MessageDropped") dropped.add(event.messageId)
          if (event._tag === "MessageReceived") dropped.delete(event.messageId)
          if (event._tag === "RunEvent" && event.messageId !== undefined)
            assert.isFalse(dropped.has(event.messageId), event.messageId)
        }
      })
    )
  )
})

const isOver = ({ status }: Session.State) => status === "idle"

/** Waits until the turns of a session are over. */
const untilOver = (world: World) =>
  Effect.exit(use(world, "state", ({ state }) => state("a"))).pipe(
    Effect.delay(50),
    Effect.repeat({ until: (exit) => Exit.isSuccess(exit) && Option.exists(exit.value, isOver) })
  )

const onlyProcess = ({ processes }: World) =>
  Effect.map(processes, ([process]) => {
    assert(process !== undefined)
    return process
  })

describe("WORLD-9 the first message of a session", () => {
  it.live("is answered where its write failed and took place", () =>
    inWorlds(
      range(1, 30),
      (world) =>
        Effect.gen(function* () {
          const send = use(world, "send", ({ send }) => send("a", "a/1", { agent: "worker", messageId: "1" }))
          yield* Effect.retry(send, { schedule: Schedule.spaced(50) })
          yield* untilOver(world)
        }),
      0.3
    )
  )
})

describe("WORLD-9 a live reader of a session that was removed (187)", () => {
  it.live("sees nothing that is written in the session that began after it", () =>
    inWorlds(range(1, 20), (world) =>
      Effect.gen(function* () {
        const process = yield* onlyProcess(world)
        const send = (n: number) =>
          use(world, "send", ({ send }) => send("a", `a/${n}|once`, { agent: "worker", messageId: `${n}` }))
        const live = (options: Session.LiveOptions) =>
          process.stream(
            "live",
            Stream.unwrap(Effect.map(Session.Session, (sessions) => sessions.live("a", { every: 0, ...options })))
          )
        const isWritten = ({ event }: Session.LiveEntry) => event._tag === "AnswerDelta"
        yield* send(1)
        yield* untilOver(world)
        const { cursor } = Option.getOrThrow(yield* use(world, "state", ({ state }) => state("a")))
        yield* use(world, "remove", ({ remove }) => remove("a"))
        yield* send(2)
        yield* Stream.runDrain(Stream.takeUntil(live({}), isWritten))
        const seen: Array<Session.LiveEntry> = []
        const read = Stream.runForEach(live({ after: cursor }), (entry) => Effect.sync(() => seen.push(entry)))
        const error = yield* Effect.flip(read)
        assert.strictEqual(error._tag === "SessionError" ? error.reason._tag : error._tag, "EventsUnknown")
        assert.deepStrictEqual(seen, [])
      })
    )
  )
})

describe("WORLD-9 a session of many batches", () => {
  it.live("is opened although a share of all reads fails (fleet, 107)", () =>
    inWorlds(
      range(1, 3),
      (world) =>
        Effect.gen(function* () {
          const first = yield* onlyProcess(world)
          for (let n = 1; n <= 12; n++) {
            const send = use(world, "send", ({ send }) =>
              send("a", `a/${n}|once|once|once`, { agent: "worker", messageId: `${n}` })
            )
            yield* Effect.retry(send, { schedule: Schedule.spaced(50) })
            yield* untilOver(world)
          }
          yield* first.kill
          yield* world.start
          const opened = yield* Effect.exit(use(world, "state", ({ state }) => state("a"))).pipe(
            Effect.repeat({ until: Exit.isSuccess, times: 5 })
          )
          assert.isTrue(Exit.isSuccess(opened))
        }),
      0.1
    )
  )
})

describe("WORLD-9 an interruption of a session that closes (2139)", () => {
  it.live("is an end of the turn, or an error", () =>
    inWorlds(range(1, 40), (world) =>
      Effect.gen(function* () {
        const first = yield* onlyProcess(world)
        yield* use(world, "send", ({ send }) => send("a", "a/1|again|again", { agent: "worker", messageId: "1" }))
        yield* nap(300)
        const interrupt = first.call(
          "interrupt",
          Effect.flatMap(Session.Session, ({ interrupt }) => interrupt("a"))
        )
        const delayed = (effect: Effect.Effect<void>) => Effect.andThen(nap(6), effect)
        const [receipt] = yield* Effect.all([Effect.exit(interrupt), delayed(first.stop)], { concurrency: "unbounded" })
        if (Exit.isFailure(receipt)) return
        yield* world.start
        const { sequence } = receipt.value
        const entries = yield* use(world, "events", ({ events }) =>
          Stream.runCollect(Stream.take(events("a"), sequence))
        )
        const event = entries.at(-1)?.event
        assert.strictEqual(event?._tag === "RunEvent" ? event.event._tag : "", "RunFinished")
      })
    )
  )
})

describe("WORLD-9 a step of a plan that finishes later", () => {
  it.live("has the newer value, where the clock went back meanwhile", () =>
    Simulation.run<Session.Session, unknown, agents.Ledger | Releases>(jobSessions, {
      seeds: range(1, 8),
      processes: 1,
      trouble: { ...calmly, jumps: 60, every: [10, 50] },
      compare: false,
      maxTurns: 30_000,
      outside: Layer.merge(agents.Ledger.layer, Releases.layer),
      script: (world) =>
        Effect.gen(function* () {
          const diary = emptyDiary()
          yield* jobs.finish(world, diary)
          assert.deepStrictEqual(diary.problems, [])
        })
    })
  )
})
