import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Schema } from "effect"
import * as storeKeys from "#src/store/internal/storeKeys.ts"
import { VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"

import { Reactivity } from "effect/reactivity"
import { SqlClient, Statement } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { readFileSync } from "node:fs"
import { join } from "node:path"

import { makeDirectory } from "./directory.ts"
import * as layers from "./layers.ts"
import { test } from "../test.ts"

const directory = makeDirectory()
const none = Option.none<string>()

const onDatabase = VersionedStore.layerSql().pipe(Layer.provideMerge(SqliteClient.layer({ filename: ":memory:" })))

describe("CONV-9 keys are encoded injectively", () => {
  const unit = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
  const text = Schema.Array(Schema.Union([unit(0x7f), unit(0xff), unit(0xffff)]))
  const keyOf = (units: ReadonlyArray<number>) => String.fromCharCode(...units)

  it.prop("columns come back as the key, and are printable ASCII", [text], ([units]) => {
    const key = keyOf(units)
    assert.match(storeKeys.sortable(key), /^[!-~]*$/)
    assert.strictEqual(storeKeys.fromSortable(storeKeys.sortable(key)), key)
    return true
  })

  it.prop("columns sort in the order of the keys, and prefixes stay prefixes", [text, text], ([a, b]) => {
    const [x, y] = [keyOf(a), keyOf(b)]
    const bytes = (key: string) => Buffer.from(storeKeys.sortable(key), "ascii")
    assert.strictEqual(Math.sign(Buffer.compare(bytes(x), bytes(y))), x < y ? -1 : x > y ? 1 : 0)
    assert.strictEqual(storeKeys.sortable(x + y), storeKeys.sortable(x) + storeKeys.sortable(y))
    return true
  })
})

describe("CONV-9 what is damaged, or newer, is a typed error and stays", () => {
  const damages: ReadonlyArray<
    readonly [name: string, change: (sql: SqlClient.SqlClient) => Fragment, message: RegExp]
  > = [
    ["an empty value", (sql) => sql`store_value = ''`, /Send one JSON text/],
    ["garbage", (sql) => sql`store_value = 'hidden words'`, /Send one JSON text/],
    ["a value that is cut", (sql) => sql`store_value = substr(store_value, 1, 9)`, /Send one JSON text/],
    ["a value that is no text", (sql) => sql`store_value = x'7b7d'`, /store_value.*expected text/],
    ["a version that is no text", (sql) => sql`store_version = x'31'`, /store_version.*expected text/]
  ]
  for (const [name, change, message] of damages) {
    test(`a row: ${name}`, onDatabase, function* () {
      const sql = yield* SqlClient.SqlClient
      const store = yield* VersionedStore.VersionedStore
      const rows = sql`SELECT * FROM effect_emissary_store`
      const version = yield* store.compareAndSet("a", none, { secret: "hidden words" })
      yield* sql`UPDATE effect_emissary_store SET ${change(sql)}`
      const damaged = yield* rows

      const error = yield* Effect.flip(store.get("a"))
      assert.strictEqual(error.reason._tag, "Unreadable")
      assert.match(error.message, message)
      assert.notInclude(error.message, "hidden words")
      const write = yield* Effect.flip(store.compareAndSet("a", none, 2))
      assert.strictEqual(write._tag, name.includes("no text") ? "VersionedStoreError" : "VersionConflict")
      assert.deepStrictEqual(yield* rows, damaged)
      if (!name.includes("version")) yield* store.compareAndSet("a", Option.some(version), 2)
      assert.isTrue(yield* store.delete("a"))
      yield* store.compareAndSet("a", none, 3)
    })
  }

  test("a row whose key is no text is not listed", onDatabase, function* () {
    const sql = yield* SqlClient.SqlClient
    const store = yield* VersionedStore.VersionedStore
    for (const key of ["a", "b"]) yield* store.compareAndSet(key, none, 1)
    yield* sql`UPDATE effect_emissary_store SET key_text = cast(key_text AS BLOB) WHERE key_text = 'a'`
    assert.deepStrictEqual((yield* store.list()).keys, ["b"])
  })

  test("the storage: Unavailable, with the cause where it happened and nowhere else", function* () {
    const file = join(directory, "no directory", "store.sqlite")
    const error = yield* Effect.flip(Layer.build(layers.sqlite(file)))
    assert.strictEqual(error.operation, "open")
    assert.strictEqual(error.reason._tag, "Unavailable")
    assert.isTrue(Option.isSome(VersionedStore.causeOf(error)))
    const json = Schema.encodeSync(Schema.toCodecJson(VersionedStore.VersionedStoreError))(error)
    assert.notInclude(JSON.stringify(json), file)
  })
})

describe("CONV-9 databases", () => {
  const database = Layer.merge(SqliteClient.layer({ filename: ":memory:" }), Reactivity.layer)

  test("a database that is neither SQLite nor PostgreSQL is refused when the layer is built", database, function* () {
    const sqlite = yield* SqlClient.SqlClient
    const mysql = yield* SqlClient.make({
      acquirer: sqlite.reserve,
      compiler: Statement.makeCompiler({
        dialect: "mysql",
        placeholder: () => "?",
        onIdentifier: (name) => name,
        onCustom: () => ["", []],
        onRecordUpdate: () => ["", []]
      }),
      driver: "mysql",
      spanAttributes: []
    })
    const built = Layer.build(VersionedStore.layerSql())
    const error = yield* Effect.flip(Effect.provideService(built, SqlClient.SqlClient, mysql))
    assert.strictEqual(error.operation, "open")
    assert.match(error.message, /expected SQLite or PostgreSQL/)
    assert.deepStrictEqual(yield* sqlite`SELECT name FROM sqlite_schema`, [])
  })

  test.live("tables are made by many at once", function* () {
    const write = Effect.fnUntraced(function* (n: number) {
      const store = yield* VersionedStore.VersionedStore
      yield* store.delete(`at once ${n}`)
      yield* store.compareAndSet(`at once ${n}`, none, n)
    })
    for (const { layer, name } of layers.all(directory)) {
      if (name === "memory") continue
      const one = (n: number) => Effect.provide(write(n), Layer.fresh(layer))
      yield* Effect.forEach([1, 2, 3, 4], one, { concurrency: "unbounded" })
    }
  })
})

describe("L3 what was stored once is read for ever", () => {
  test("version 1 of the table: keys, values and versions", SqliteClient.layer({ filename: ":memory:" }), function* () {
    const sql = yield* SqlClient.SqlClient
    const golden = (name: string) => readFileSync(new URL(`./golden/v1/${name}`, import.meta.url), "utf8")
    for (const statement of golden("table.sql").split(";\n")) yield* sql.unsafe(statement)
    const program = Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const { keys } = yield* store.list()
      const read = yield* Effect.forEach(keys, (key) =>
        Effect.map(store.get(key), (found) => [key, Option.getOrThrow(found)] as const)
      )
      assert.deepStrictEqual(Object.fromEntries(read), JSON.parse(golden("values.json")))
      const head = "conversation/head/Ticket 7/é"
      yield* store.compareAndSet(head, Option.some("4-writer-4"), "next")
    })
    yield* Effect.provide(program, VersionedStore.layerSql())
  })
})
