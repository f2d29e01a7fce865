import { assert, describe, it } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Option, Redacted, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { SqlClient } from "effect/sql"
import { Agent, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { randomUUID } from "node:crypto"

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
          keys.push(/busy|head|input|journal/.exec(key.replace(/.*\/(\d+-\w+|input)(\/\d+)?$/, "$1"))?.[0] ?? "batch")
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
    // The mark of a busy session is set twice where it is just being removed
    const ofEvents = () => keys.filter((key) => key !== "busy")
    return Effect.gen(function* () {
      yield* Session.ask("a", "one")
      // the message, its place in the conversation, the answer with the end
      assert.deepStrictEqual(ofEvents(), ["input", "head", ...event, ...event, ...event])
      keys.length = 0
      yield* Session.ask("a", "two")
      // and between them an answer with a call, the start of the call, and its end
      assert.deepStrictEqual(ofEvents(), Array.from({ length: 6 }, () => event).flat())
    }).pipe(Effect.provide(sessions))
  })

  for (const [name, layer] of layers) {
    it.live(`${name}: an event and the head that names it are one write, or neither changes the head`, () =>
      Effect.gen(function* () {
        const store = yield* VersionedStore.VersionedStore
        const { setBoth } = store
        assert(setBoth !== undefined)
        const version = (key: string) =>
          Effect.map(
            store.get(key),
            Option.map(({ version }) => version)
          )
        const added = (key: string) => ({ key, value: { key } })
        const head = (expected: Option.Option<string>, value: string) => ({ key: "head", expected, value })

        const first = yield* setBoth(added("1"), head(Option.none(), "one"))
        assert.deepStrictEqual(first, yield* version("head"))
        const second = yield* setBoth(added("2"), head(first, "two"))
        assert.deepStrictEqual(second, yield* version("head"))
        assert.deepStrictEqual(
          Option.map(yield* store.get("2"), ({ value }) => value),
          Option.some({ key: "2" })
        )

        // another head than the one that was read, a value that is there, a head that is there
        assert.deepStrictEqual(yield* setBoth(added("3"), head(first, "three")), Option.none())
        assert.deepStrictEqual(yield* setBoth(added("1"), head(second, "three")), Option.none())
        assert.deepStrictEqual(yield* setBoth(added("4"), head(Option.none(), "three")), Option.none())
        assert.deepStrictEqual(yield* version("head"), second)
        assert.deepStrictEqual(
          Option.map(yield* store.get("1"), ({ value }) => value),
          Option.some({ key: "1" })
        )
      }).pipe(Effect.provide(layer))
    )
  }
})
