import { assert, describe, it } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Exit, Fiber, Layer, Option, Redacted, Schema, Scope, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { SqlClient } from "effect/sql"
import { Agent, VersionedStore } from "effect-emissary"
import { ChatEvent, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { randomUUID } from "node:crypto"
import { changed } from "../store/changed.ts"
import * as t from "./sessions.ts"

const url = process.env["EMISSARY_TEST_POSTGRES"]

const table = `writes_${randomUUID().replaceAll("-", "")}`

/** Drops the table afterwards. */
const postgres = (address: string) => {
  const client = PgClient.layer({ url: Redacted.make(address) })
  const dropped = Layer.effectDiscard(
    Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.addFinalizer(() => Effect.orDie(sql`DROP TABLE ${sql(table)}`)))
  )
  return VersionedStore.layerSql({ table }).pipe(Layer.provideMerge(dropped), Layer.provide(client), Layer.orDie)
}

const layers: ReadonlyArray<readonly [string, Layer.Layer<VersionedStore.VersionedStore>]> = [
  ["SQLite", Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))],
  ...(url === undefined ? [] : [["PostgreSQL", postgres(url)] as const])
]

const toolkit = Toolkit.make(Tool.make("find", { parameters: Schema.Struct({}), success: Schema.String }))

const desk = Agent.make("desk", { instructions: "You help.", toolkit })

describe("DUR-8 writes", () => {
  /** The keys that are written, in order. */
  const recorded = (keys: Array<string>) =>
    Layer.effect(
      VersionedStore.VersionedStore,
      Effect.map(VersionedStore.VersionedStore, (store): VersionedStore.Service => ({
        ...store,
        compareAndSet: (key, expected, value) => {
          keys.push(
            /busy|head|input|journal|recent/.exec(key.replace(/.*\/(\d+-\w+|input)(\/\d+)?$/, "$1"))?.[0] ?? "batch"
          )
          return store.compareAndSet(key, expected, value)
        }
      }))
    ).pipe(Layer.provide(VersionedStore.layerMemory))

  it.effect("an event costs two writes, and the last answer is written with the end of its run", () => {
    const keys: Array<string> = []
    const sessions = Session.layer([desk]).pipe(
      Layer.provide([recorded(keys), toolkit.toLayer({ find: () => Effect.succeed("parcel") })]),
      Layer.provide(
        ScriptedModel.layer([{ text: "One." }, { toolCalls: [{ name: "find", params: {} }] }, { text: "Two." }])
      )
    )
    const event = ["batch", "head"]
    // The mark of a busy session is set twice where it is just being removed. The row of the list has tests of its own
    const ofEvents = () => keys.filter((key) => key !== "busy" && key !== "recent")
    return Effect.gen(function* () {
      yield* Session.turn("a", "one")
      // the message of a new session, whose head has a placeholder before, and its turn
      assert.deepStrictEqual(ofEvents(), ["head", "input", ...event, ...event])
      keys.length = 0
      yield* Session.turn("a", "two")
      // and between them an answer with the start of its call, and the end of the call
      assert.deepStrictEqual(ofEvents(), Array.from({ length: 4 }, () => event).flat())
    }).pipe(Effect.provide(sessions))
  })

  t.passing(
    "RIGHT-16 readers see that a turn and a model call have begun, before a slow answer, at one more write",
    () => {
      const keys: Array<string> = []
      const seen: Array<string> = []
      const heads = () => keys.splice(0).filter((key) => key === "head").length
      const slow = "2 seconds"
      const script: ScriptedModel.Script = [
        { text: "One.", delay: slow },
        { toolCalls: [{ name: "find", params: {} }] },
        { text: "Two.", delay: slow },
        { text: "Lost.", delay: slow },
        { text: "Three.", delay: slow },
        { text: "Four.", delay: "20 millis" }
      ]
      return Effect.gen(function* () {
        const store = yield* Layer.build(recorded(keys))
        const model = yield* Layer.build(ScriptedModel.layer(script))
        const opened = Layer.build(
          Session.layer([desk]).pipe(
            Layer.provide([
              Layer.succeedContext(store),
              Layer.succeedContext(model),
              toolkit.toLayer({ find: () => Effect.succeed("parcel") })
            ])
          )
        )
        const read = (sessions: Session.Service, after?: string) =>
          sessions.events("a", { after }).pipe(
            Stream.filterMap(ChatEvent.project()),
            Stream.runForEach(({ event }) => Effect.sync(() => seen.push(event._tag))),
            Effect.forkScoped
          )
        const first = yield* Scope.make()
        const sessions = Context.get(yield* Scope.provide(opened, first), Session.Session)
        const reader = yield* read(sessions)
        yield* sessions.send("a", "one")
        yield* Effect.sleep("300 millis")
        assert.deepStrictEqual(seen.splice(0), ["MessageReceived", "TurnStarted", "MessageTaken", "AnswerStarted"])
        yield* Effect.sleep(slow)
        assert.deepStrictEqual(seen.splice(0), ["Answered", "TurnFinished"])
        // the place of a new session, the message, the beginning, the end
        assert.strictEqual(heads(), 4)

        yield* sessions.send("a", "two")
        yield* Effect.sleep("300 millis")
        assert.deepStrictEqual(seen.splice(0).slice(-3), ["ToolStarted", "ToolFinished", "AnswerStarted"])
        yield* Effect.sleep(slow)
        assert.deepStrictEqual(seen.splice(0), ["Answered", "TurnFinished"])
        // the message, the call with the answer before it, its end, the beginning of the second model call, the end
        assert.strictEqual(heads(), 5)

        // The process ends in a model call, and the next one continues the turn
        const { cursor } = yield* sessions.send("a", "three")
        yield* Effect.sleep("1 second")
        yield* Fiber.interrupt(reader)
        yield* Scope.close(first, Exit.void)
        seen.length = 0
        const later = Context.get(yield* opened, Session.Session)
        const { cursor: newest } = Option.getOrThrow(yield* later.state("a"))
        assert.notStrictEqual(newest, cursor)
        yield* read(later, newest)
        yield* Effect.sleep("300 millis")
        assert.deepStrictEqual(seen.splice(0), ["TurnStarted", "AnswerStarted"])
        yield* Effect.sleep(slow)
        assert.deepStrictEqual(seen.splice(0).at(-1), "TurnFinished")
        heads()

        yield* later.send("a", "four")
        yield* Effect.sleep(slow)
        assert.strictEqual(heads(), 2)
      }).pipe(Effect.scoped)
    }
  )

  for (const [name, layer] of layers) {
    it.live(
      `${name}: KEEP-6 a turn is two commits, and two more for a tool call, whose answer is stored before a policy looks at it`,
      () => {
        let commits = 0
        const before: Array<number> = []
        const Pay = Tool.make("pay", {
          parameters: Schema.Struct({}),
          success: Schema.String,
          needsApproval: () => Effect.sync(() => before.push(commits) === 0)
        })
        const policed = Agent.make("desk", {
          instructions: "You help.",
          toolkit: Toolkit.merge(toolkit, Toolkit.make(Pay))
        })
        const handlers = Toolkit.make(Pay).toLayer({ pay: () => Effect.succeed("paid") })
        const counted = <A, E>(write: Effect.Effect<A, E>) => Effect.tap(write, () => Effect.sync(() => void commits++))
        const counting = changed(({ commit, compareAndSet, delete: remove }) => ({
          commit: (writes) => counted(commit?.(writes) ?? Effect.succeedNone),
          compareAndSet: (...args) => counted(compareAndSet(...args)),
          delete: (...args) => counted(remove(...args))
        }))
        const sessions = Session.layer([policed], { namespace: "counted" }).pipe(
          Layer.provide([
            counting.pipe(Layer.provide(layer)),
            handlers,
            toolkit.toLayer({ find: () => Effect.succeed("parcel") })
          ]),
          Layer.provide(
            ScriptedModel.layer([
              { text: "One." },
              { text: "Two." },
              { toolCalls: [{ name: "find", params: {} }] },
              { text: "Three." },
              { toolCalls: [{ name: "pay", params: {} }] },
              { text: "Four." }
            ])
          )
        )
        const turn = (text: string) =>
          Effect.gen(function* () {
            commits = 0
            yield* Session.turn("a", text)
            return commits
          })
        return Effect.gen(function* () {
          assert.deepStrictEqual([yield* turn("one"), yield* turn("two"), yield* turn("three")], [2, 2, 4])
          assert.strictEqual(yield* turn("four"), 5)
          assert.deepStrictEqual(before, [2])
        }).pipe(Effect.provide(sessions))
      }
    )

    it.live(`${name}: KEEP-6 a commit writes, adds and removes values together, or changes none that was there`, () =>
      Effect.gen(function* () {
        const store = yield* VersionedStore.VersionedStore
        const { commit } = store
        assert(commit !== undefined)
        const version = (key: string) =>
          Effect.map(
            store.get(key),
            Option.map(({ version }) => version)
          )
        const added = (...keys: ReadonlyArray<string>) => keys.map((key) => ({ key, value: { key } }))
        const changed = (expected: Option.Option<string>, value: string) => ({ key: "head", expected, value })

        const first = yield* commit({ added: added("1", "mark"), changed: changed(Option.none(), "one") })
        assert.deepStrictEqual(first, yield* version("head"))
        assert.deepStrictEqual(first, yield* version("mark"))
        const marked = { key: "mark", version: Option.getOrThrow(first) }
        const second = yield* commit({ added: added("2"), changed: changed(first, "two") })
        assert.deepStrictEqual(second, yield* version("head"))
        assert.deepStrictEqual(
          Option.map(yield* store.get("2"), ({ value }) => value),
          Option.some({ key: "2" })
        )

        // another head than the head that was read, a value that is there, a head that is there: nothing is removed
        for (const [keys, expected] of [
          [["3"], first],
          [["4", "1"], second],
          [["5"], Option.none<string>()],
          [[], first]
        ] as const) {
          const refused = commit({ added: added(...keys), changed: changed(expected, "three"), removed: [marked] })
          assert.deepStrictEqual(yield* refused, Option.none())
        }
        assert.deepStrictEqual(yield* version("head"), second)
        assert.deepStrictEqual(yield* version("mark"), first)
        assert.deepStrictEqual(
          Option.map(yield* store.get("1"), ({ value }) => value),
          Option.some({ key: "1" })
        )

        // a mark in another version stays
        const stale = { key: "mark", version: Option.getOrThrow(second) }
        const third = yield* commit({ added: [], changed: changed(second, "three"), removed: [stale] })
        assert.deepStrictEqual(yield* version("mark"), first)
        const two = { key: "2", version: Option.getOrThrow(second) }
        const fourth = yield* commit({ added: added("6"), changed: changed(third, "four"), removed: [marked, two] })
        assert.deepStrictEqual(yield* version("2"), Option.none())
        assert.deepStrictEqual(yield* version("head"), fourth)
        assert.deepStrictEqual(yield* version("mark"), Option.none())
      }).pipe(Effect.provide(layer))
    )
  }
})
