import { assert, describe, it } from "@effect/vitest"
import {
  Cause,
  DateTime,
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  Option,
  Result,
  Schema,
  Stream
} from "effect"
import { Tool, Toolkit } from "effect/ai"
import {
  ClusterError,
  MessageStorage,
  RunnerHealth,
  Runners,
  RunnerStorage,
  Sharding,
  ShardingConfig
} from "effect/cluster"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Agent, Conversation, Message, VersionedStore } from "effect-emissary"
import { ClusterSession, Session, SessionApi } from "effect-emissary/session"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import * as fleet from "#src/session/internal/fleet.ts"
import * as cursors from "#src/session/internal/cursors.ts"
import * as storeKeys from "#src/store/internal/storeKeys.ts"
import { changed } from "../store/changed.ts"
import { eventually, reasonOf, withTool } from "./sessions.ts"

const echo = Agent.make("echo", { instructions: "You repeat." })

const echoes = ScriptedModel.layer(({ messages }) => ({ text: `echo ${messages.at(-1)?.text}` }))

const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })

const layerFleet = (options?: ClusterSession.LayerOptions) =>
  ClusterSession.layer([echo], options).pipe(Layer.provideMerge(runner), Layer.provide(echoes))

const numbers = "one two three four five six seven eight nine ten eleven twelve"

const sequences = (entries: ReadonlyArray<Session.Entry>) => entries.map(({ sequence }) => sequence)

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

/** The time of tests passes slowly by itself: a cluster waits for many things. */
const passing = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.raceFirst(effect, Effect.forever(Effect.andThen(TestClock.adjust("20 millis"), Effect.yieldNow)))

describe("MEND-7 a reader whose runner died", () => {
  const ending = { ended: { _tag: "ResumeReceived", at: DateTime.makeUnsafe(0) } } as const

  const life = "abcdefghij"

  /** Answers one request after the other with the events of these numbers, and notes what was asked for. */
  const following = Effect.fnUntraced(function* (answers: ReadonlyArray<ReadonlyArray<number>>, after?: string) {
    const asked: Array<string | undefined> = []
    const events = fleet.follow({
      id: "a",
      payload: { after },
      next: SessionApi.operations.events.next,
      timeout: Duration.seconds(30),
      ask: ({ after }) => {
        const numbers = answers[asked.length] ?? []
        asked.push(after)
        return Stream.fromIterable(numbers.flatMap((sequence) => cursors.entriesFrom(life, sequence, [ending.ended])))
      }
    })
    const last = answers.at(-1)?.at(-1)
    const seen = yield* events.pipe(
      Stream.takeUntil(({ sequence }) => sequence === last),
      Stream.runCollect,
      passing
    )
    return { asked, seen: sequences(seen) }
  })

  it.effect("asks for what follows the last event it saw, when the cluster repeats its first request", () =>
    Effect.gen(function* () {
      // The first request, and its repetition by the cluster
      const repeated = [...upTo(5), ...upTo(500)]
      const { asked, seen } = yield* following([repeated, [6, 7]])
      assert.deepStrictEqual(seen, [...upTo(5), 6, 7])
      assert.deepStrictEqual(asked, [undefined, `${life}.5`])
    })
  )

  it.effect("sees each event once, whatever comes again", () =>
    Effect.gen(function* () {
      const { asked, seen } = yield* following([[4, 5, 5, 6], [5], [6, 7, 8]], `${life}.3`)
      assert.deepStrictEqual(seen, [4, 5, 6, 7, 8])
      assert.deepStrictEqual(asked, [`${life}.3`, `${life}.5`, `${life}.5`])
    })
  )
})

describe("RIGHT-19 a reader on a fleet takes no event of the next session under the id", () => {
  it("also where its number is the next one", () => {
    const seen = { life: "a", sequence: 3 }
    assert.isTrue(fleet.isNext(seen, { life: "a", sequence: 4 }))
    assert.isTrue(fleet.isNext({ ...seen, life: undefined }, { life: "a", sequence: 4 }))
    assert.isFalse(fleet.isNext(seen, { life: "b", sequence: 4 }))
    assert.isFalse(fleet.isNext(seen, { life: "a", sequence: 5 }))
    assert.isFalse(fleet.isNext(seen, { life: "a", sequence: 3 }))
  })
})

describe("RIGHT-13 a reader on a fleet", () => {
  it.effect("asks again where another process has taken the session over", () =>
    Effect.gen(function* () {
      let asked = 0
      const elsewhere = new Session.SessionError({ id: "a", reason: { _tag: "Elsewhere", owner: "another" } })
      const events = fleet.follow({
        id: "a",
        payload: {},
        next: SessionApi.operations.events.next,
        timeout: Duration.seconds(30),
        ask: () =>
          asked++ === 0
            ? Stream.fail(elsewhere)
            : Stream.fromIterable(
                cursors.entriesFrom<Session.Entry["event"]>("abcdefghij", 1, [
                  { _tag: "ResumeReceived", at: DateTime.makeUnsafe(0) }
                ])
              )
      })
      assert.deepStrictEqual(sequences(yield* passing(Stream.runCollect(Stream.take(events, 1)))), [1])
    })
  )
})

describe("RIGHT-13 a runner that loses its database for a while", () => {
  const flaky = (isDown: () => boolean) =>
    Layer.effect(
      RunnerStorage.RunnerStorage,
      Effect.map(RunnerStorage.makeMemory, (storage) => ({
        ...storage,
        refresh: (...args) =>
          isDown() ? Effect.fail(new ClusterError.PersistenceError({ cause: "down" })) : storage.refresh(...args)
      }))
    )

  it.live("answers its idle sessions while a tool is under way, whose result is stored", () =>
    Effect.gen(function* () {
      let isDown = false
      let isDone = false
      const began = yield* Deferred.make<void>()
      const opened = yield* Deferred.make<void>()
      const { agent, handlers } = withTool("worker")
      const config = {
        shardsPerGroup: 4,
        shardLockRefreshInterval: "50 millis",
        shardLockExpiration: "9 seconds"
      } as const
      const cluster = Sharding.layer.pipe(
        Layer.provideMerge(Runners.layerNoop),
        Layer.provideMerge(MessageStorage.layerMemory),
        Layer.provide([flaky(() => isDown), RunnerHealth.layerNoop]),
        Layer.provide(ShardingConfig.layer({ ...config, entityMessagePollInterval: "100 millis" }))
      )
      const lines: Array<string> = []
      const logger = Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
      const logged = (text: string) => eventually(Effect.sync(() => lines.some((line) => line.includes(text))))
      const work = () =>
        Deferred.succeed(began, undefined).pipe(
          Effect.andThen(Deferred.await(opened)),
          Effect.andThen(Effect.sync(() => `${(isDone = true)}`))
        )
      const model: ScriptedModel.TurnFunction = ({ messages }) =>
        messages.at(-1)?.text === "work" ? { toolCalls: [{ name: "work", params: { n: 1 } }] } : { text: "answered" }
      const layer = ClusterSession.layer([agent], { drainTime: "1 minute" }).pipe(
        Layer.provide([cluster, VersionedStore.layerMemory, handlers(work), ScriptedModel.layer(model)]),
        Layer.provide(SqliteClient.layer({ filename: ":memory:" })),
        Layer.provide(logger)
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* Session.turn("idle", "hello")
        assert.strictEqual(lines.filter((line) => line.includes("shardLockExpiration")).length, 1)
        yield* sessions.send("busy", "work")
        yield* Deferred.await(began)
        isDown = true
        yield* logged("is unhealthy")
        isDown = false
        yield* logged("has recovered")
        assert.strictEqual((yield* Session.turn("idle", "and now?")).text, "answered")
        assert.isFalse(isDone)
        yield* Deferred.succeed(opened, undefined)
        yield* eventually(
          Effect.map(
            sessions.state("busy"),
            Option.exists(({ status }) => status === "idle")
          )
        )
        const results = Conversation.messages(yield* sessions.history("busy")).flatMap((message) =>
          message.role === "tool" ? [message.result._tag] : []
        )
        assert.deepStrictEqual(results, ["Success"])
      }).pipe(Effect.provide(layer))
    })
  )
})

describe("DUR-4 ClusterSession.layer in one process", () => {
  it.live("answers messages of any session, and shows all events", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const strange = ["plain", "with / and spaces", "\u0000", "\ud800", "ö".repeat(300)]
      const answers = yield* Session.askMany(
        strange.map((id) => ({ id, input: id })),
        { concurrency: 3 }
      )
      assert.deepStrictEqual(
        answers.map((answer) => Result.getOrThrow(answer)),
        strange.map((id) => `echo ${id.toWellFormed()}`)
      )
      for (const id of strange) {
        const { sequence } = Option.getOrThrow(yield* sessions.state(id))
        const entries = yield* sessions.events(id).pipe(Stream.take(sequence), Stream.runCollect)
        assert.deepStrictEqual(sequences(entries), upTo(sequence))
      }
    }).pipe(Effect.provide(layerFleet()))
  )

  it.live("MEND-8 F6 a stop keeps what the model had written, marked, and the next message follows it", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* sessions.send("a", "count")
      yield* eventually(Effect.map(ScriptedModel.requests, (all) => all.length === 1))
      yield* Effect.sleep("500 millis")
      assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
      const answer = Conversation.messages(yield* sessions.history("a")).at(-1)
      assert(answer?.role === "assistant", `expected the answer so far, got ${answer?.role}`)
      assert.strictEqual(answer.finishReason, "interrupted")
      assert.isTrue(answer.usage?.estimated)
      const text = Message.text(answer)
      assert.isTrue(numbers.startsWith(text) && text !== "" && text !== numbers, text)
      assert.strictEqual((yield* Session.turn("a", "and then?")).text, "done")
      const roles = Conversation.messages(yield* sessions.history("a")).map(({ role }) => role)
      assert.deepStrictEqual(roles, ["system", "user", "assistant", "user", "assistant"])
    }).pipe(
      Effect.provide(
        ClusterSession.layer([echo]).pipe(
          Layer.provideMerge(runner),
          Layer.provideMerge(ScriptedModel.layer([{ text: numbers, chunkDelay: "200 millis" }, { text: "done" }]))
        )
      )
    )
  )

  it.live("no id is that of another session, in a namespace of any length", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const hidden = "ö/private"
      yield* Session.turn(hidden, "a secret")
      const digest = storeKeys.digestKey(hidden)
      for (const id of [digest, `sha256:${digest}`, storeKeys.digestKey(`sha256:${digest}`)]) {
        assert.isTrue(Option.isNone(yield* sessions.state(id)))
        assert.isFalse(yield* sessions.remove(id))
        assert.strictEqual((yield* Session.turn(id, id)).text, `echo ${id}`)
      }
      assert.strictEqual(Option.getOrThrow(yield* sessions.state(hidden)).steps, 1)
    }).pipe(Effect.provide(layerFleet({ namespace: "ö".repeat(200) })))
  )

  it.live("a session that was removed and begun again has readers, and the readers of the first one get an error", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* Session.turn("a", "one")
      yield* Session.turn("a", "two")
      const { cursor } = Option.getOrThrow(yield* sessions.state("a"))
      const reader = yield* Effect.forkChild(Effect.result(Stream.runDrain(sessions.events("a", { after: cursor }))))
      yield* sessions.state("a")
      yield* Effect.sleep("20 millis")
      yield* sessions.remove("a")
      for (const text of ["three", "four", "five"]) {
        assert.strictEqual((yield* Session.turn("a", text)).text, `echo ${text}`)
      }
      const ended = yield* Fiber.join(reader)
      assert.strictEqual(Result.isFailure(ended) && ended.failure.reason._tag, "NotFound")
      for (const [id, after, expected] of [
        ["a", cursor, "EventsUnknown"],
        ["a", "12", "EventsUnknown"],
        ["a", "-1", "EventsUnknown"],
        ["none", cursor, "NotFound"]
      ] as const) {
        const { reason } = yield* Effect.flip(Stream.runDrain(sessions.events(id, { after })))
        assert.strictEqual(reason._tag, expected)
      }
      const now = Option.getOrThrow(yield* sessions.state("a"))
      assert.strictEqual(now.sequence, 18)
      const next = yield* Effect.forkChild(Stream.runHead(sessions.events("a", { after: now.cursor })))
      const { sequence } = yield* sessions.send("a", "six")
      assert.strictEqual(Option.getOrThrow(yield* Fiber.join(next)).sequence, sequence)
      yield* sessions.decide("a", [])
    }).pipe(Effect.provide(layerFleet()))
  )

  it.live("MEND-7 a slow reader, who missed most events of the next session under the id, sees none of it", () => {
    const Work = Tool.make("work", { parameters: Schema.Struct({ n: Schema.Finite }) })
    const toolkit = Toolkit.make(Work)
    const calls = Array.from({ length: 200 }, (_, n) => ({ name: "work", params: { n } }))
    const layer = ClusterSession.layer([Agent.make("worker", { toolkit })]).pipe(
      Layer.provide(runner),
      Layer.provide(toolkit.toLayer({ work: () => Effect.void })),
      Layer.provide(
        ScriptedModel.layer((request) =>
          request.messages.at(-1)?.text === "work" ? { toolCalls: calls } : { text: "done" }
        )
      )
    )
    return Effect.gen(function* () {
      const sessions = yield* Session.Session
      const reached = yield* Deferred.make<void>()
      const isReplaced = yield* Deferred.make<void>()
      const seen: Array<string> = []
      const reading = Stream.runForEach(sessions.events("a"), ({ cursor }) => {
        seen.push(cursor)
        const waited = Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(isReplaced))
        return seen.length === 1 ? waited : Effect.void
      })
      const reader = yield* Effect.forkChild(reasonOf(reading))
      for (const text of upTo(8)) yield* Session.turn("a", `${text}`)
      yield* Deferred.await(reached)
      const { cursor } = Option.getOrThrow(yield* sessions.state("a"))
      yield* sessions.remove("a")
      assert.isAbove((yield* Session.turn("a", "work")).sequence, 300)
      yield* Deferred.succeed(isReplaced, undefined)
      assert.include(["NotFound", "EventsUnknown"], yield* Fiber.join(reader))
      assert.isBelow(seen.length, 48)
      const [life] = cursor.split(".")
      assert.deepStrictEqual(
        seen,
        seen.map((_, index) => `${life}.${index + 1}`)
      )
    }).pipe(Effect.provide(layer))
  })

  it.live("MEND-7 a message that is stored in the gap between two turns has a turn that outlives its runner", () =>
    Effect.gen(function* () {
      const writing = yield* Deferred.make<void>()
      const asked = yield* Deferred.make<void>()
      const opened = yield* Deferred.make<void>()
      // The turn ends while the next message is being stored
      const late: typeof echo = {
        ...echo,
        run: (input, options) => Effect.ensuring(echo.run(input, options), Deferred.await(writing))
      }
      const slow = changed(({ compareAndSet }) => ({
        compareAndSet: (key, expected, value) => {
          const written = compareAndSet(key, expected, value)
          return JSON.stringify(value).includes('"two"')
            ? Deferred.succeed(writing, undefined).pipe(
                Effect.andThen(Effect.sleep("100 millis")),
                Effect.andThen(written)
              )
            : written
        },
        commit: undefined
      }))
      const model = ScriptedModel.layer([
        { text: "echo one" },
        () =>
          Effect.andThen(Deferred.succeed(asked, undefined), Effect.as(Deferred.await(opened), { text: "echo two" }))
      ])
      const layer = ClusterSession.layer([late]).pipe(
        Layer.provide(slow),
        Layer.provideMerge(runner),
        Layer.provide(model)
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const sql = yield* SqlClient.SqlClient
        yield* Session.turn("a", "one")
        yield* sessions.send("a", "two")
        yield* Deferred.await(asked)
        // The next runner would find it
        const due = yield* sql`SELECT 1 FROM cluster_messages WHERE tag = 'Turn' AND processed = FALSE`
        yield* Deferred.succeed(opened, undefined)
        assert.strictEqual(due.length, 1)
      }).pipe(Effect.provide(layer))
    })
  )

  it.live("options that are no times are refused", () =>
    Effect.gen(function* () {
      for (const options of [{ retention: 0 }, { timeout: Number.NaN }, { timeout: 0 }]) {
        const exit = yield* Effect.exit(Effect.scoped(Layer.build(Layer.fresh(layerFleet(options)))))
        assert.isTrue(Exit.isFailure(exit) && Cause.pretty(exit.cause).includes("sessions: expected a"))
      }
    })
  )

  /** Counts the reads of stored sessions. A session in memory is not read. */
  const counted = (count: () => void) =>
    Layer.effect(
      VersionedStore.VersionedStore,
      Effect.map(VersionedStore.VersionedStore, (store) => ({
        ...store,
        get: (key: string) => Effect.suspend(() => (count(), store.get(key)))
      }))
    )

  it.effect("an idle session leaves the memory and comes back, and its readers do not keep it there", () => {
    let reads = 0
    const layer = ClusterSession.layer([echo], { idleTime: "1 minute" }).pipe(
      Layer.provide(counted(() => reads++)),
      Layer.provideMerge(runner),
      Layer.provide(echoes)
    )
    return Effect.gen(function* () {
      const sessions = yield* Session.Session
      const sharding = yield* Sharding.Sharding
      const reader = yield* Effect.forkChild(sessions.events("a").pipe(Stream.take(18), Stream.runCollect))
      const { sequence } = yield* Session.turn("a", "one")
      yield* Session.turn("b", "one")
      assert.strictEqual(yield* sharding.activeEntityCount, 2)

      reads = 0
      yield* sessions.state("a")
      assert.strictEqual(reads, 0)

      yield* TestClock.adjust("3 minutes")
      // the one with a reader
      assert.strictEqual(yield* sharding.activeEntityCount, 1)
      assert.strictEqual(reads, 0)
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(reads, 0)
      yield* sessions.state("a")
      assert.isAbove(reads, 0)

      const again = yield* Session.turn("a", "two")
      assert.strictEqual(again.sequence, 2 * sequence)
      yield* TestClock.adjust("3 minutes")
      yield* Session.turn("a", "three")
      assert.deepStrictEqual(sequences(yield* Fiber.join(reader)), upTo(18))
      yield* TestClock.adjust("3 minutes")
      assert.strictEqual(yield* sharding.activeEntityCount, 0)
    }).pipe(Effect.provide(layer), passing)
  })

  it.live("the messages of the cluster have versions, for runners and clients of different releases", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const sql = yield* SqlClient.SqlClient
      const { cursor } = yield* sessions.send("a", "one", {
        messageId: "m1",
        agent: "echo",
        context: { tenant: "acme" },
        whenBusy: "reject"
      })
      yield* sessions.events("a").pipe(Stream.take(6), Stream.runDrain)
      const resumed = yield* sessions.resume("a")
      const decision = { callId: "c", digest: "d", approved: true }
      yield* Effect.flip(sessions.decide("a", [decision]))
      const messages = yield* sql<Record<"tag" | "payload" | "reply", string>>`SELECT tag, m.payload, r.payload AS reply
        FROM cluster_messages m JOIN cluster_replies r ON r.request_id = m.id WHERE tag <> 'Turn' ORDER BY m.id`
      const parsed = messages.map(({ payload, reply, tag }) => ({
        tag,
        payload: { ...JSON.parse(payload), key: "" },
        reply: JSON.parse(reply)
      }))
      const body = { version: 1, id: "a" }
      const error = { callId: "c", problem: "unknown", waiting: [], _tag: "InvalidDecision" }
      const failure = { _tag: "SessionError", id: "a", reason: { _tag: "InvalidDecision", error } }
      assert.deepStrictEqual(parsed, [
        {
          tag: "Send",
          payload: {
            key: "",
            body: {
              ...body,
              messageId: "m1",
              input: "one",
              agent: "echo",
              context: { tenant: "acme" },
              whenBusy: "reject"
            }
          },
          reply: { _tag: "Success", value: { version: 1, value: { messageId: "m1", sequence: 1, cursor } } }
        },
        {
          tag: "Resume",
          payload: { key: "", body },
          reply: { _tag: "Success", value: { version: 1, value: resumed } }
        },
        {
          tag: "Decide",
          payload: { key: "", body: { ...body, decisions: [decision] } },
          reply: { _tag: "Failure", cause: [{ _tag: "Fail", error: { version: 1, error: failure } }] }
        }
      ])
    }).pipe(Effect.provide(layerFleet()))
  )

  it.live("MEND-6 a message that is beyond the limits, no content or with a secret is refused before it is sent", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const error = yield* Effect.flip(sessions.send("a", "x".repeat(9_000_000)))
      assert.match(error.message, /expected at most 8388608/)
      assert.strictEqual(yield* reasonOf(sessions.send("a", JSON.parse("null"))), "InputInvalid")
      assert.strictEqual(yield* reasonOf(sessions.send("a", "x", { context: { api_key: "sk-1" } })), "InputInvalid")
      assert.isTrue(Option.isNone(yield* sessions.state("a")))
    }).pipe(Effect.provide(layerFleet()))
  )

  it.effect("answered messages leave the tables of the cluster after the retention", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rows = Effect.gen(function* () {
        const [messages] = yield* sql<{ readonly n: number }>`SELECT COUNT(*) AS n FROM cluster_messages`
        const [replies] = yield* sql<{ readonly n: number }>`SELECT COUNT(*) AS n FROM cluster_replies`
        return [messages?.n, replies?.n]
      })
      yield* Session.turn("early", "one")
      // a message and a turn, each with its answer
      assert.deepStrictEqual(yield* rows, [2, 2])
      // as many sessions would take long
      yield* sql`WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1200)
        INSERT INTO cluster_messages (id, shard_id, entity_type, entity_id, kind, processed, request_id, last_reply_id)
        SELECT id - n, shard_id, entity_type, entity_id, kind, processed, id - n, last_reply_id
        FROM (SELECT * FROM cluster_messages LIMIT 1), numbers`
      // a message that no runner has answered, and a message that is not to a session
      yield* sql`UPDATE cluster_messages SET processed = FALSE, shard_id = 'other:1'
        WHERE id = (SELECT MIN(id) FROM cluster_messages)`
      yield* sql`UPDATE cluster_messages SET entity_type = 'Other'
        WHERE id = (SELECT MIN(id) + 1 FROM cluster_messages)`
      yield* TestClock.adjust("5 minutes")
      yield* Session.turn("late", "one")
      yield* TestClock.adjust("3 minutes")
      assert.deepStrictEqual(yield* rows, [1204, 4])
      yield* TestClock.adjust("4 minutes")
      assert.deepStrictEqual(yield* rows, [4, 2])
    }).pipe(Effect.provide(layerFleet({ retention: "10 minutes" })), passing)
  )
})
