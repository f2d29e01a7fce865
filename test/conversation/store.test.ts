import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Equal, Layer, Option, Result, Schema } from "effect"
import * as storage from "#src/conversation/internal/storage.ts"
import { Conversation, ConversationStore, Limits, Message, ToolResult, VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Arbitraries } from "effect-emissary/testing"

import { Reactivity } from "effect/reactivity"
import { SqlClient, Statement } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { readFileSync } from "node:fs"
import { join } from "node:path"

import { changed } from "./store/changed.ts"
import { makeDirectory } from "./store/directory.ts"
import * as layers from "./store/layers.ts"
import { test } from "../test.ts"
import { call } from "./given.ts"

const directory = makeDirectory()
const none = Option.none<string>()
const ok = ToolResult.success("ok")

const onDatabase = VersionedStore.layerSql().pipe(Layer.provideMerge(SqliteClient.layer({ filename: ":memory:" })))

const conversationsOn = <R>(store: Layer.Layer<VersionedStore.VersionedStore, VersionedStore.VersionedStoreError, R>) =>
  ConversationStore.layer({ segmentSize: 2 }).pipe(Layer.provideMerge(store))

const users = (count: number, prefix = "m") =>
  Effect.forEach(
    Array.from({ length: count }, (_, n) => n),
    (n) => Message.user(`${prefix}${n}`)
  )

describe("CONV-9 keys are encoded injectively", () => {
  const unit = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
  const text = Schema.Array(Schema.Union([unit(0x7f), unit(0xff), unit(0xffff)]))
  const keyOf = (units: ReadonlyArray<number>) => String.fromCharCode(...units)

  it.prop("columns come back as the key, and are printable ASCII", [text], ([units]) => {
    const key = keyOf(units)
    assert.match(storage.sortable(key), /^[!-~]*$/)
    assert.strictEqual(storage.fromSortable(storage.sortable(key)), key)
    return true
  })

  it.prop("columns sort in the order of the keys, and prefixes stay prefixes", [text, text], ([a, b]) => {
    const [x, y] = [keyOf(a), keyOf(b)]
    const bytes = (key: string) => Buffer.from(storage.sortable(key), "ascii")
    assert.strictEqual(Math.sign(Buffer.compare(bytes(x), bytes(y))), x < y ? -1 : x > y ? 1 : 0)
    assert.strictEqual(storage.sortable(x + y), storage.sortable(x) + storage.sortable(y))
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

  const edit = (from: string | RegExp, to: string) => (value: Schema.Json) => {
    const text = JSON.stringify(value)
    assert.notStrictEqual(text.search(from), -1)
    return JSON.parse(text.replace(from, to)) as Schema.Json
  }
  const words = () => "hidden words"

  for (const [id, place, reason, change] of [
    ["newer head", "head", "Unreadable", edit(`"version":1`, `"version":9`)],
    ["newer wire", "head", "Unreadable", edit(`"conversation":{"version":1`, `"conversation":{"version":9`)],
    ["no head", "head", "Unreadable", () => ({ hello: words() })],
    ...[2 ** 32 - 1, 1e8, Number.MAX_SAFE_INTEGER].map(
      (count) => [`${count} batches`, "head", "Unreadable", edit(/"batches":\d+/, `"batches":${count}`)] as const
    ),
    ["one batch more", "head", "Damaged", edit(/"batches":\d+/, `"batches":4`)],
    ["segments twice", "head", "Unreadable", edit(/"segments":\[(.*?)\]/, `"segments":[$1,$1]`)],
    ["segment missing", "segment", "Damaged", undefined],
    ["segment cut", "segment", "Damaged", edit(/"messages":.*\]/, `"messages":[]`)],
    ["segment of another place", "segment", "Damaged", edit(`"batch":0`, `"batch":1`)],
    ["segment damaged", "segment", "Unreadable", words],
    ["segment of another version", "segment", "Unreadable", edit(`"events":{"version":1`, `"events":{"version":2`)]
  ] as const) {
    test(`a conversation: ${id}`, conversationsOn(VersionedStore.layerMemory), function* () {
      const store = yield* ConversationStore.ConversationStore
      const raw = yield* VersionedStore.VersionedStore
      for (const message of yield* users(7)) yield* store.append(id, [message])
      yield* store.append("whole", yield* users(1))
      const head = `conversation/head/${id}`
      const { keys } = yield* raw.list({ prefix: `conversation/journal/${id.length}:${id}/` })
      const key = place === "head" ? head : (keys[0] ?? assert.fail("no segment"))
      const { value, version } = Option.getOrThrow(yield* raw.get(key))
      if (change === undefined) yield* raw.delete(key)
      else yield* raw.compareAndSet(key, Option.some(version), change(value))

      const before = yield* raw.get(head)
      const error = yield* Effect.flip(store.load(id))
      assert.strictEqual(error.reason._tag, reason)
      assert.notInclude(error.message, "hidden words")
      // TRUST-4 One that is damaged does not hide the others
      assert.deepStrictEqual((yield* store.list()).ids.toSorted(), [id, "whole"].toSorted())
      assert.isTrue(Option.isSome(yield* store.load("whole")))
      if (id.endsWith("batches")) {
        const refusal = yield* Effect.flip(store.append(id, yield* users(1)))
        assert(refusal._tag === "ConversationStoreError" && refusal.reason._tag === "Refused")
      } else if (place === "head" && reason === "Unreadable") {
        const expected = Option.map(before, ({ version }) => version)
        for (const write of [
          store.append(id, [yield* Message.user("x")]),
          store.save(id, Conversation.empty, { expected })
        ]) {
          const refusal = yield* Effect.flip(write)
          assert(refusal._tag === "ConversationStoreError" && refusal.reason._tag === "Unreadable")
        }
      }
      assert.deepStrictEqual(yield* raw.get(head), before)
      assert.isTrue(yield* store.delete(id))
      assert.deepStrictEqual(yield* store.load(id), Option.none())
    })
  }

  test("TRUST-4 namespaces do not see each other, whatever they are called", VersionedStore.layerMemory, function* () {
    for (const namespace of ["acme", "acme/head", "acme%2Fhead", "acme/head/1", ""]) {
      const layer = ConversationStore.layer({ namespace })
      const store = yield* Effect.provide(ConversationStore.ConversationStore, layer)
      assert.deepStrictEqual((yield* store.list()).ids, [], namespace)
      for (const id of ["head/1", "1"]) {
        assert.isFalse(yield* store.delete(id))
        yield* store.append(id, yield* users(1))
      }
    }
    const raw = yield* VersionedStore.VersionedStore
    assert.deepStrictEqual((yield* raw.list({ prefix: "acme/" })).keys, ["acme/head/1", "acme/head/head/1"])
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

describe("CONV-9 errors are schemas and name the remedy", () => {
  test("ConversationConflict", ConversationStore.layerMemory, function* () {
    const store = yield* ConversationStore.ConversationStore
    const found = yield* store.save("chat", Conversation.empty, { expected: none })
    const error = yield* Effect.flip(store.save("chat", Conversation.empty, { expected: Option.some("1-old") }))
    assert.strictEqual(error._tag, "ConversationConflict")
    assert.strictEqual(
      error.message,
      `conversation "chat" changed: expected version 1-old, found version ${found}. Load it again and apply the change to what you find`
    )
    const codec = Schema.toCodecJson(
      Schema.Union([ConversationStore.ConversationConflict, ConversationStore.ConversationStoreError])
    )
    const json = Schema.encodeSync(codec)(error)
    assert.deepStrictEqual(json, { _tag: "ConversationConflict", id: "chat", expected: "1-old", found })
    assert.isTrue(Equal.equals(Schema.decodeSync(codec)(json), error))
  })

  const refused = Effect.fnUntraced(function* (id: string, messages: ReadonlyArray<Message.Message>) {
    const store = yield* ConversationStore.ConversationStore
    const error = yield* Effect.flip(store.append(id, messages))
    assert(error._tag === "ConversationStoreError" && error.reason._tag === "Refused")
    return [error.reason.error.reason._tag, error.message] as const
  })

  test(
    "L8 secrets in options are refused, words of the application are not",
    ConversationStore.layerMemory,
    function* () {
      const store = yield* ConversationStore.ConversationStore
      yield* store.append("a", [yield* Message.assistant([call("c", { arguments: { password: "p" } })])])
      const secret = yield* Message.user("hi", { options: { openai: { apiKey: "sk-1" } } })
      const result = yield* Message.tool({ callId: "c", name: "f", result: ok })
      for (const [id, ...messages] of [
        ["a", result, secret],
        ["b", secret]
      ] as const) {
        const [tag, text] = yield* refused(id, messages)
        assert.strictEqual(tag, "Secret")
        assert.notInclude(text, "sk-1")
      }
      assert.deepStrictEqual(yield* store.load("b"), Option.none())
    }
  )

  const limited = Layer.merge(conversationsOn(VersionedStore.layerMemory), Limits.layer({ maxMessages: 11 }))

  test("L2 limits hold for what is appended", limited, function* () {
    const store = yield* ConversationStore.ConversationStore
    const messages = yield* users(12)
    yield* store.append("a", messages.slice(0, 10))
    assert.strictEqual((yield* refused("a", messages.slice(10)))[0], "TooLarge")
    assert.strictEqual(Conversation.messageCount(Option.getOrThrow(yield* store.load("a")).conversation), 10)
  })
})

describe("CONV-9 appending is what Conversation does", () => {
  const fits = Effect.fnUntraced(function* (known: Conversation.Conversation, next: Message.Message) {
    const store = yield* ConversationStore.ConversationStore
    const law = Conversation.append(known, next)
    const before = yield* store.load("a")
    const done = yield* Effect.result(store.append("a", [next]))
    assert.strictEqual(done._tag, law._tag)
    if (Result.isFailure(law) && Result.isFailure(done)) {
      assert.strictEqual(done.failure.message, law.failure.message)
      assert.isTrue(Equal.equals(yield* store.load("a"), before))
    }
    return Result.getOrElse(law, () => known)
  })

  test("in pieces of any size, lawful messages and others", function* () {
    const lists = yield* Arbitrary.sampleEffect(Arbitraries.messages({ maxTurns: 6 }), { count: 24, seed: 9 })
    for (const [index, messages] of lists.entries()) {
      const others = lists[(index + 1) % lists.length] ?? []
      const program = Effect.gen(function* () {
        const store = yield* ConversationStore.ConversationStore
        let known = Conversation.empty
        yield* store.save("a", known, { expected: none })
        for (const [position, message] of messages.entries()) {
          known = yield* fits(known, message)
          const other = others[position]
          if (other !== undefined) known = yield* fits(known, other)
        }
        const found = Option.getOrThrow(yield* store.load("a"))
        assert.isTrue(Equal.equals(found.conversation, known))
      })
      const layer = ConversationStore.layer({ segmentSize: 1 + (index % 4) })
      yield* Effect.provide(program, Layer.provide(layer, VersionedStore.layerMemory))
    }
  })

  test("L10 an append costs the same however long the conversation is", function* () {
    const written: Array<number> = []
    const measured = changed((store) => ({
      compareAndSet: (key, expected, value) =>
        Effect.suspend(() => {
          written.push(JSON.stringify(value).length)
          return store.compareAndSet(key, expected, value)
        })
    })).pipe(Layer.provide(VersionedStore.layerMemory))
    const program = Effect.gen(function* () {
      const store = yield* ConversationStore.ConversationStore
      const bytes = Effect.fnUntraced(function* (from: number, to: number) {
        written.length = 0
        for (let n = from; n < to; n++) yield* store.append("a", [yield* Message.user(`message ${1e6 + n}`)])
        return written.reduce((sum, size) => sum + size, 0)
      })
      const early = yield* bytes(0, 320)
      yield* bytes(320, 1280)
      const late = yield* bytes(1280, 1600)
      assert.isBelow(late, early * 1.1)
      assert.isBelow(written.length, 340)
      assert.strictEqual(Conversation.messageCount(Option.getOrThrow(yield* store.load("a")).conversation), 1600)
    })
    yield* Effect.provide(program, Layer.provide(ConversationStore.layer(), measured))
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
  test("version 1 of the table, of heads and segments", SqliteClient.layer({ filename: ":memory:" }), function* () {
    const sql = yield* SqlClient.SqlClient
    const golden = (name: string) => readFileSync(new URL(`./store/golden/v1/${name}`, import.meta.url), "utf8")
    for (const statement of golden("table.sql").split(";\n")) yield* sql.unsafe(statement)
    const program = Effect.gen(function* () {
      const store = yield* ConversationStore.ConversationStore
      assert.deepStrictEqual((yield* store.list()).ids, ["Ticket 7/é"])
      const { conversation, version } = Option.getOrThrow(yield* store.load("Ticket 7/é"))
      assert.deepStrictEqual(yield* Conversation.codec.encode(conversation), JSON.parse(golden("conversation.json")))
      assert.strictEqual(version, "4-writer-4")
      yield* store.append("Ticket 7/é", [yield* Message.tool({ callId: "a", name: "get_order", result: ok })], {
        expected: version
      })
    })
    yield* Effect.provide(program, conversationsOn(VersionedStore.layerSql()))
  })
})
