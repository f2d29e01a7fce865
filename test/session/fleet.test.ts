import { assert, beforeAll, describe, it } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Context, DateTime, Effect, Exit, Fiber, Layer, Option, Redacted, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Session } from "effect-emissary/session"
import * as clusterTables from "#src/session/internal/clusterTables.ts"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { vi } from "vitest"
import { makeDirectory } from "../store/directory.ts"
import * as layers from "./fleet/layers.ts"
import * as processes from "./fleet/processes.ts"
import { databases } from "./kill/databases.ts"

vi.setConfig({ testTimeout: 90_000 })

const directory = makeDirectory()

let script = ""
beforeAll(async () => {
  script = await processes.prepare(directory)
})

let tests = 0

/** A database of its own, and runners on it. */
const fleetOn = Effect.fnUntraced(function* (database: (typeof databases)[number], toolMillis: number) {
  const name = join(directory, `${++tests}`)
  const ledger = `${name}.ledger`
  writeFileSync(ledger, "")
  mkdirSync(name)
  const opened = yield* database.open(name)
  return {
    ledger: () => processes.readLedger(ledger),
    url: opened.type === "postgres" ? opened.url : "",
    opened,
    start: Effect.fnUntraced(function* (task?: Pick<layers.Task, "isLocal" | "isReader" | "message">) {
      const port = yield* processes.freePort
      return yield* processes.start(script, { database: opened, port, ledger, toolMillis, ...task })
    })
  }
})

const tags = (entries: ReadonlyArray<Session.Entry>) => entries.map(layers.tagOf)

/** The events of a session until its turn has ended: each once, and in order. */
const readAll = Effect.fnUntraced(function* (id: string) {
  const sessions = yield* Session.Session
  const entries = yield* sessions.events(id).pipe(Stream.takeUntil(layers.isEnd), Stream.runCollect)
  assert.deepStrictEqual(
    entries.map(({ sequence }) => sequence),
    entries.map((_, index) => index + 1)
  )
  return entries
})

/** Waits until the database has freed the locks of all processes but one. */
const lockFreed = (url: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const held = yield* sql`SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
    return held.length === 1
  }).pipe(
    Effect.delay("20 millis"),
    Effect.repeat({ until: (isFreed) => isFreed }),
    Effect.provide(PgClient.layer({ url: Redacted.make(url) }))
  )

/** The events of a turn whose runner was stopped while a tool was under way. */
const handedOver = [
  "MessageReceived",
  "RunStarted",
  "InputAdded",
  "StepStarted",
  "ModelAnswered",
  "ToolStarted",
  "ToolFinished",
  "RunResumed",
  "StepStarted",
  "ModelAnswered",
  "RunFinished"
]

const sqlite = databases.filter(({ name }) => name === "SQLite")

describe.each(sqlite)("DUR-4 a runner on $name", (database) => {
  it.live("a message that was acknowledged is answered although the runner was killed at once", () =>
    Effect.gen(function* () {
      const fleet = yield* fleetOn(database, 100)
      const first = yield* fleet.start({ message: "stamp it" })
      yield* first.printed(2)
      yield* first.end("SIGKILL")
      assert.deepStrictEqual(fleet.ledger(), [])
      // no reader opens the session
      const second = yield* fleet.start()
      yield* processes.until(() => fleet.ledger().length === 2)
      assert.deepStrictEqual(fleet.ledger(), [`${second.pid} begins stamp it`, `${second.pid} ends stamp it`])
    }).pipe(Effect.scoped)
  )

  it.live("a runner that is stopped lets its tools finish, and the next one resumes after the last event", () =>
    Effect.gen(function* () {
      const fleet = yield* fleetOn(database, 300)
      const first = yield* fleet.start({ message: "stamp it until SIGTERM" })
      yield* processes.until(() => fleet.ledger().length > 0)
      yield* first.end("SIGTERM")
      assert.deepStrictEqual(fleet.ledger(), [
        `${first.pid} begins stamp it until SIGTERM`,
        `${first.pid} ends stamp it until SIGTERM`
      ])
      const second = yield* fleet.start({ isReader: true })
      assert.deepStrictEqual(yield* second.printedUntil("RunFinished"), [
        "ready",
        ...handedOver.map((tag, index) => `${index + 1} ${tag}`)
      ])
      assert.strictEqual(fleet.ledger().length, 2)
    }).pipe(Effect.scoped)
  )
})

describe.each(databases)("MEND-7 a process with Session.layer on $name", (database) => {
  it.live("that is killed has its sessions no longer, and one that lives keeps them for its lease", () =>
    Effect.gen(function* () {
      const fleet = yield* fleetOn(database, 60_000)
      const first = yield* fleet.start({ isLocal: true, message: "stamp it" })
      yield* processes.until(() => fleet.ledger().length > 0)
      const meanwhile = yield* Layer.build(layers.next(fleet.opened))
      const sessions = Context.get(meanwhile, Session.Session)
      const isTaken = Effect.map(Effect.exit(sessions.interrupt("chat")), Exit.isFailure)
      assert.isTrue(yield* Effect.provide(isTaken, meanwhile))
      yield* first.end("SIGKILL")
      const look = Effect.delay(Effect.provide(isTaken, meanwhile), "20 millis")
      if (database.name === "PostgreSQL") {
        yield* lockFreed(fleet.url)
        // RIGHT-13: a lock that is missing at two looks shows that the process died. No lease ends meanwhile
        assert.isTrue(yield* look)
        yield* Effect.provide(TestClock.adjust("5 seconds"), meanwhile)
      }
      yield* Effect.repeat(look, { until: (taken) => !taken })

      const after = Context.get(yield* Layer.build(Layer.fresh(layers.next(fleet.opened))), Session.Session)
      const entries = yield* after.events("chat").pipe(Stream.takeUntil(layers.isEnd), Stream.runCollect)
      // The interruption that finds the session free may stop the turn that was left
      assert.includeMembers(tags(entries), ["ToolFinished"])
      assert(tags(entries).some((tag) => tag === "RunResumed" || tag === "RunInterrupted"))
      assert.strictEqual(fleet.ledger().length, 1)
    }).pipe(Effect.scoped)
  )
})

const postgres = databases.filter(({ name }) => name === "PostgreSQL")

describe.each(postgres)("DUR-4 a fleet on $name", (database) => {
  it.live("a client sends, decides and reads; the session continues on another runner when its own one is killed", () =>
    Effect.gen(function* () {
      const fleet = yield* fleetOn(database, 3000)
      const first = yield* fleet.start()
      const second = yield* fleet.start()
      yield* first.printed(1)
      yield* second.printed(1)
      yield* Effect.gen(function* () {
        yield* layers.settled(2)
        const sessions = yield* Session.Session
        const reader = yield* Effect.forkChild(readAll("chat"))
        yield* sessions.send("chat", "stamp it")
        yield* processes.until(() => fleet.ledger().length > 0)
        const holder = fleet.ledger()[0]?.startsWith(`${first.pid} `) === true ? first : second
        yield* holder.end("SIGKILL")
        const entries = yield* Fiber.join(reader)
        assert.deepStrictEqual(tags(entries), [
          "MessageReceived",
          "RunStarted",
          "InputAdded",
          "StepStarted",
          "ModelAnswered",
          "ToolStarted",
          "RunResumed",
          "ToolFinished",
          "StepStarted",
          "ModelAnswered",
          "RunFinished"
        ])
        // not started again
        assert.deepStrictEqual(fleet.ledger(), [`${holder.pid} begins stamp it`])

        const asked = yield* Session.turn("other", "pay")
        assert.strictEqual(asked.outcome, "AwaitingApproval")
        const [request] = Option.getOrThrow(yield* sessions.state("other")).requests
        assert(request !== undefined)
        yield* sessions.decide("other", [{ ...request, approved: true }])
        const answered = yield* sessions
          .events("other", { after: asked.cursor })
          .pipe(Stream.takeUntil(layers.isEnd), Stream.runCollect)
        assert.include(tags(answered), "ToolFinished")

        const sql = yield* SqlClient.SqlClient
        const isAnswered = Effect.map(
          sql`SELECT id FROM cluster_messages WHERE NOT processed`,
          (rows) => rows.length === 0
        )
        yield* Effect.repeat(Effect.delay(isAnswered, "50 millis"), { until: (answered) => answered })
        yield* clusterTables.prune("effect-emissary/Session/session", DateTime.add(yield* DateTime.now, { minutes: 1 }))
        assert.deepStrictEqual(yield* sql`SELECT id FROM cluster_messages UNION SELECT id FROM cluster_replies`, [])
        assert.strictEqual((yield* Session.turn("other", "hello")).text, "done hello")
      }).pipe(Effect.provide(layers.client(fleet.url)))
    }).pipe(Effect.scoped)
  )

  it.live("a runner that is stopped lets its tools finish, and the next one resumes after the last event", () =>
    Effect.gen(function* () {
      const fleet = yield* fleetOn(database, 300)
      const first = yield* fleet.start()
      yield* first.printed(1)
      yield* Effect.gen(function* () {
        yield* layers.settled(1)
        const sessions = yield* Session.Session
        const reader = yield* Effect.forkChild(readAll("chat"))
        yield* sessions.send("chat", "stamp it until SIGTERM")
        yield* processes.until(() => fleet.ledger().length > 0)
        const second = yield* fleet.start()
        yield* second.printed(1)
        yield* first.end("SIGTERM")
        assert.deepStrictEqual(fleet.ledger(), [
          `${first.pid} begins stamp it until SIGTERM`,
          `${first.pid} ends stamp it until SIGTERM`
        ])
        assert.deepStrictEqual(tags(yield* Fiber.join(reader)), handedOver)
        assert.strictEqual(fleet.ledger().length, 2)
      }).pipe(Effect.provide(layers.client(fleet.url)))
    }).pipe(Effect.scoped)
  )

  it.live("a runner that was paused beyond its lock changes nothing when it continues", () =>
    Effect.gen(function* () {
      const fleet = yield* fleetOn(database, 1500)
      const first = yield* fleet.start()
      const second = yield* fleet.start()
      yield* first.printed(1)
      yield* second.printed(1)
      yield* Effect.gen(function* () {
        yield* layers.settled(2)
        const sessions = yield* Session.Session
        const reader = yield* Effect.forkChild(readAll("chat"))
        yield* sessions.send("chat", "stamp it")
        yield* processes.until(() => fleet.ledger().length > 0)
        const holder = fleet.ledger()[0]?.startsWith(`${first.pid} `) === true ? first : second
        process.kill(holder.pid, "SIGSTOP")
        const asking = yield* Effect.forkChild(
          Effect.all([sessions.state("chat"), Session.turn("chat", "meanwhile")], { concurrency: 2 })
        )
        const entries = yield* Fiber.join(reader)
        const [state, answer] = yield* Fiber.join(asking)
        assert.isTrue(Option.isSome(state))
        assert.strictEqual(answer.text, "done meanwhile")
        process.kill(holder.pid, "SIGCONT")
        yield* processes.until(() => fleet.ledger().length > 1)
        yield* Effect.sleep("3 seconds")
        assert.strictEqual((yield* Session.turn("chat", "hello")).text, "done hello")
        const all = yield* sessions.events("chat").pipe(Stream.take(answer.sequence + 6), Stream.runCollect)
        assert.deepStrictEqual(all.slice(0, entries.length), entries)
        assert.deepStrictEqual(tags(all.slice(answer.sequence)), [
          "MessageReceived",
          "RunResumed",
          "InputAdded",
          "StepStarted",
          "ModelAnswered",
          "RunFinished"
        ])
        assert.strictEqual(fleet.ledger().length, 2)
      }).pipe(Effect.provide(layers.client(fleet.url)))
    }).pipe(Effect.scoped)
  )

  it.live("a message is delivered although its caller left, and no runner was there", () =>
    Effect.gen(function* () {
      const fleet = yield* fleetOn(database, 100)
      // makes the tables
      yield* Effect.flatMap(fleet.start(), (runner) => Effect.andThen(runner.printed(1), runner.end("SIGTERM")))
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const sql = yield* SqlClient.SqlClient
        const stored = sql`SELECT id FROM cluster_messages WHERE tag = 'Send'`.pipe(Effect.map((rows) => rows.length))
        const sending = yield* Effect.forkChild(sessions.send("chat", "hello"))
        yield* Effect.repeat(Effect.delay(stored, "50 millis"), { until: (count) => count > 0 })
        yield* Fiber.interrupt(sending)
      }).pipe(Effect.provide(layers.client(fleet.url)))

      yield* fleet.start()
      const entries = yield* Effect.provide(readAll("chat"), layers.client(fleet.url))
      assert.deepStrictEqual(tags(entries), [
        "MessageReceived",
        "RunStarted",
        "InputAdded",
        "StepStarted",
        "ModelAnswered",
        "RunFinished"
      ])
    }).pipe(Effect.scoped)
  )
})
