import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Equal, Layer, Option, Result, Schema } from "effect"
import * as storage from "#src/conversation/internal/storage.ts"
import { Conversation, ConversationStore, Limits, Message, VersionedStore } from "effect-emissary"
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

const directory = makeDirectory()
const none = Option.none<string>()

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

  it.effect("a conversation: newer head, newer wire, segments missing, cut or of another version", () =>
    Effect.gen(function* () {
      const store = yield* ConversationStore.ConversationStore
      const raw = yield* VersionedStore.VersionedStore
      const messages = yield* users(7)
      const damage = Effect.fnUntraced(function* (key: string, change: (value: Schema.Json) => Schema.Json) {
        const { value, version } = Option.getOrThrow(yield* raw.get(key))
        yield* raw.compareAndSet(key, Option.some(version), change(value))
      })
      const edit = (text: string, from: string | RegExp, to: string): Schema.Json => {
        assert.notStrictEqual(text.search(from), -1)
        return JSON.parse(text.replace(from, to))
      }
      const head = (id: string) => `conversation/head/${id}`
      const segment = Effect.fnUntraced(function* (id: string) {
        const { keys } = yield* raw.list({ prefix: `conversation/journal/${id.length}:${id}/` })
        return keys[0] ?? assert.fail("no segment")
      })
      const cases: Record<string, (id: string) => Effect.Effect<void, unknown>> = {
        "newer head": (id) => damage(head(id), (value) => edit(JSON.stringify(value), `"version":1`, `"version":9`)),
        "newer wire": (id) =>
          damage(head(id), (value) =>
            edit(JSON.stringify(value), `"conversation":{"version":1`, `"conversation":{"version":9`)
          ),
        "no head": (id) => damage(head(id), () => ({ hello: "hidden words" })),
        "segment missing": (id) => Effect.flatMap(segment(id), (key) => raw.delete(key)),
        "segment cut": (id) =>
          Effect.flatMap(segment(id), (key) =>
            damage(key, (value) => edit(JSON.stringify(value), /"messages":.*\]/, `"messages":[]`))
          ),
        "segment of another place": (id) =>
          Effect.flatMap(segment(id), (key) =>
            damage(key, (value) => edit(JSON.stringify(value), `"batch":0`, `"batch":1`))
          ),
        "segment damaged": (id) => Effect.flatMap(segment(id), (key) => damage(key, () => "hidden words")),
        "segment of another version": (id) =>
          Effect.flatMap(segment(id), (key) =>
            damage(key, (value) => edit(JSON.stringify(value), `"events":{"version":1`, `"events":{"version":2`))
          )
      }
      const damaged = new Set(["segment missing", "segment cut", "segment of another place"])
      for (const [id, spoil] of Object.entries(cases)) {
        for (const message of messages) yield* store.append(id, [message])
        yield* spoil(id)
        const before = yield* raw.get(head(id))
        const error = yield* Effect.flip(store.load(id))
        assert.strictEqual(error.reason._tag, damaged.has(id) ? "Damaged" : "Unreadable", id)
        assert.notInclude(error.message, "hidden words")
        if (!id.startsWith("segment")) {
          for (const write of [
            store.append(id, [yield* Message.user("x")]),
            store.save(id, Conversation.empty, { expected: Option.map(before, ({ version }) => version) })
          ]) {
            const refusal = yield* Effect.flip(write)
            assert(refusal._tag === "ConversationStoreError" && refusal.reason._tag === "Unreadable")
          }
        }
        assert.deepStrictEqual(yield* raw.get(head(id)), before)
        assert.isTrue(yield* store.delete(id))
        assert.deepStrictEqual(yield* store.load(id), Option.none())
      }
    }).pipe(Effect.provide(conversationsOn(VersionedStore.layerMemory)))
  )

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

  it.effect("L8 secrets in options are refused, words of the application are not", () =>
    Effect.gen(function* () {
      const store = yield* ConversationStore.ConversationStore
      const call = Message.toolCallPart({ id: "c", name: "login", arguments: { password: "p" } })
      yield* store.append("a", [yield* Message.assistant([call])])
      const secret = yield* Message.user("hi", { options: { openai: { apiKey: "sk-1" } } })
      for (const id of ["a", "b"]) {
        const messages =
          id === "a" ? [yield* Message.tool({ callId: "c", name: "login", result: ok }), secret] : [secret]
        const error = yield* Effect.flip(store.append(id, messages))
        assert(error._tag === "ConversationStoreError" && error.reason._tag === "Refused")
        assert.strictEqual(error.reason.error.reason._tag, "Secret")
        assert.notInclude(error.message, "sk-1")
      }
      assert.deepStrictEqual(yield* store.load("b"), Option.none())
    }).pipe(Effect.provide(ConversationStore.layerMemory))
  )

  it.effect("L2 limits hold for what is appended", () =>
    Effect.gen(function* () {
      const store = yield* ConversationStore.ConversationStore
      const messages = yield* users(12)
      yield* store.append("a", messages.slice(0, 10))
      const error = yield* Effect.flip(store.append("a", messages.slice(10)))
      assert(error._tag === "ConversationStoreError" && error.reason._tag === "Refused")
      assert.strictEqual(error.reason.error.reason._tag, "TooLarge")
      assert.strictEqual(Conversation.messageCount(Option.getOrThrow(yield* store.load("a")).conversation), 10)
    }).pipe(Effect.provide([conversationsOn(VersionedStore.layerMemory), Limits.layer({ maxMessages: 11 })]))
  )
})

const ok = { _tag: "Success" as const, content: [{ type: "text" as const, text: "ok" }] as const, value: "ok" }

describe("CONV-9 appending is what Conversation does", () => {
  const fits = (
    store: ConversationStore.Service,
    known: Conversation.Conversation,
    next: Message.Message,
    id: string
  ) =>
    Effect.gen(function* () {
      const law = Conversation.append(known, next)
      const before = yield* store.load(id)
      const done = yield* Effect.result(store.append(id, [next]))
      assert.strictEqual(done._tag, law._tag)
      if (Result.isFailure(law) && Result.isFailure(done)) {
        assert.strictEqual(done.failure.message, law.failure.message)
        assert.isTrue(Equal.equals(yield* store.load(id), before))
        return known
      }
      return Result.getOrElse(law, () => known)
    })

  it.effect(
    "in pieces of any size, lawful messages and others",
    () =>
      Effect.gen(function* () {
        const lists = yield* Arbitrary.sampleEffect(Arbitraries.messages({ maxTurns: 6 }), { count: 24, seed: 9 })
        for (const [index, messages] of lists.entries()) {
          const others = lists[(index + 1) % lists.length] ?? []
          const program = Effect.gen(function* () {
            const store = yield* ConversationStore.ConversationStore
            let known = Conversation.empty
            yield* store.save("a", known, { expected: none })
            for (const [position, message] of messages.entries()) {
              known = yield* fits(store, known, message, "a")
              const other = others[position]
              if (other !== undefined) known = yield* fits(store, known, other, "a")
            }
            const found = Option.getOrThrow(yield* store.load("a"))
            assert.isTrue(Equal.equals(found.conversation, known))
          })
          yield* Effect.provide(
            program,
            ConversationStore.layer({ segmentSize: 1 + (index % 4) }).pipe(Layer.provide(VersionedStore.layerMemory))
          )
        }
      }),
    60_000
  )

  it.effect(
    "L10 an append costs the same however long the conversation is",
    () =>
      Effect.gen(function* () {
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
      }),
    60_000
  )
})

describe("CONV-9 databases", () => {
  it.effect("a database that is neither SQLite nor PostgreSQL is refused when the layer is built", () =>
    Effect.gen(function* () {
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
      const error = yield* Effect.flip(
        Effect.provideService(Layer.build(VersionedStore.layerSql()), SqlClient.SqlClient, mysql)
      )
      assert.strictEqual(error.operation, "open")
      assert.match(error.message, /expected SQLite or PostgreSQL/)
      assert.deepStrictEqual(yield* sqlite`SELECT name FROM sqlite_schema`, [])
    }).pipe(Effect.scoped, Effect.provide([SqliteClient.layer({ filename: ":memory:" }), Reactivity.layer]))
  )

  test.live("tables are made by many at once", function* () {
    const stores = layers.all(join(directory)).filter(({ name }) => name === "SQLite" || name === "PostgreSQL")
    for (const { layer } of stores) {
      yield* Effect.forEach(
        [1, 2, 3, 4],
        (n) =>
          Effect.provide(
            Effect.flatMap(VersionedStore.VersionedStore, (store) =>
              Effect.andThen(store.delete(`at once ${n}`), store.compareAndSet(`at once ${n}`, none, n))
            ),
            Layer.fresh(layer)
          ),
        { concurrency: "unbounded" }
      )
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
