import { assert, describe } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Logger, Option, Schedule, Stream } from "effect"
import { VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"

import { SqlClient, SqlError } from "effect/sql"
import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { makeDirectory } from "../store/directory.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

const directory = makeDirectory()
let files = 0
const newFile = () => join(directory, `${(files += 1)}.sqlite`)

const memory = SqliteClient.layer({ filename: ":memory:" })

/** A client of its own: another connection. */
const connect = (options: Parameters<typeof SqliteClient.layer>[0]) =>
  Effect.map(Layer.build(Layer.fresh(SqliteClient.layer(options))), (services) =>
    Context.get(services, SqlClient.SqlClient)
  )

const createItems = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER CHECK (size < 10))`
)

const names = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(sql<{ readonly name: string }>`SELECT name FROM items ORDER BY id`, (rows) => rows.map(({ name }) => name))
)

const add = (name: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`INSERT INTO items (name) VALUES (${name})`)

describe("HOUSE-6 SqliteClient: values", () => {
  test(
    "rows are plain objects; texts, numbers, bytes, booleans, dates, null and undefined can be bound",
    memory,
    function* () {
      const sql = yield* SqlClient.SqlClient
      const bytes = new Uint8Array([1, 2])
      const rows = yield* sql`SELECT ${"é"} AS a, ${1.5} AS b, ${bytes} AS c, ${true} AS d, ${null} AS e,
      ${undefined} AS f, ${new Date(0)} AS g, ${2n ** 40n} AS h, ${false} AS i`
      const row = { a: "é", b: 1.5, c: bytes, d: 1, e: null, f: null, g: "1970-01-01T00:00:00.000Z", h: 2 ** 40, i: 0 }
      assert.deepStrictEqual(rows, [row])
      assert.strictEqual(Object.getPrototypeOf(rows[0]), Object.prototype)
      const failure = yield* Effect.flip(sql.unsafe("SELECT ?", [Symbol("no value")]))
      assert.strictEqual(failure.reason._tag, "UnknownError")
    }
  )

  test("an integer that no number can hold is an error, and a bigint under SafeIntegers", memory, function* () {
    const sql = yield* SqlClient.SqlClient
    const large = sql`SELECT ${2n ** 53n + 1n} AS n, 1 AS one`
    assert.strictEqual((yield* Effect.flip(large)).reason._tag, "UnknownError")
    const safe = Effect.provideService(large, SqlClient.SafeIntegers, true)
    assert.deepStrictEqual(yield* safe, [{ n: 2n ** 53n + 1n, one: 1n }])
    assert.deepStrictEqual(yield* sql`SELECT 1 AS one`, [{ one: 1 }])
  })

  test("rows as arrays, as a stream, unprepared, and the raw answer of a write", memory, function* () {
    const sql = yield* SqlClient.SqlClient
    yield* createItems
    const insert = sql`INSERT INTO items (name) VALUES ('a'), ('b')`
    assert.deepStrictEqual(yield* insert.raw, { changes: 2, lastInsertRowid: 2 })
    const select = sql`SELECT id, name FROM items ORDER BY id`
    const rows = [
      { id: 1, name: "a" },
      { id: 2, name: "b" }
    ]
    const arrays = rows.map(({ id, name }) => [id, name])
    // Each form after the other, because they share a prepared statement
    assert.deepStrictEqual(yield* select.values, arrays)
    assert.deepStrictEqual(yield* select, rows)
    assert.deepStrictEqual(yield* select.valuesUnprepared, arrays)
    assert.deepStrictEqual(yield* select.raw, rows)
    assert.deepStrictEqual(yield* select.unprepared, rows)
    assert.deepStrictEqual(yield* Stream.runCollect(select.stream), rows)
  })

  test("more statements than are kept, each with its own result", memory, function* () {
    const sql = yield* SqlClient.SqlClient
    for (const n of [...Array(300).keys(), ...Array(300).keys()]) {
      assert.deepStrictEqual(yield* sql.unsafe(`SELECT ${n} AS n`), [{ n }])
    }
  })
})

describe("HOUSE-6 SqliteClient: errors", () => {
  test("name the cause in their reason", memory, function* () {
    const sql = yield* SqlClient.SqlClient
    yield* createItems
    yield* add("a")
    const unique = (yield* Effect.flip(add("a"))).reason
    assert.strictEqual(unique._tag === "UniqueViolation" && unique.constraint, "items.name")
    const check = (yield* Effect.flip(sql`INSERT INTO items (size) VALUES (10)`)).reason
    assert.strictEqual(check._tag, "ConstraintError")
    assert.instanceOf(check.cause, Error)
    assert.isFalse(check.isRetryable)
    assert.strictEqual((yield* Effect.flip(sql`SELECT nothing FROM nowhere`)).reason._tag, "UnknownError")
  })

  test("a file that cannot be opened is a ConnectionError of the layer, and of the store", function* () {
    const filename = join(directory, "no directory", "store.sqlite")
    const error = yield* Effect.flip(Layer.build(SqliteClient.layer({ filename })))
    assert.strictEqual(error.reason._tag, "ConnectionError")
    assert.include(error.message, `SQLite failed to open ${JSON.stringify(filename)}. Its directory has to exist`)
    const ofStore = yield* Effect.flip(Layer.build(SqliteClient.layerStore({ filename })))
    assert.strictEqual(ofStore.operation, "open")
    assert.include(ofStore.message, "ConnectionError")
  })

  test("a file that is no database is an error when it is opened", function* () {
    const filename = newFile()
    writeFileSync(filename, "no database ".repeat(100))
    const error = yield* Effect.flip(Layer.build(SqliteClient.layer({ filename })))
    assert.strictEqual(error.reason._tag, "UnknownError")
  })
})

describe("HOUSE-6 SqliteClient: transactions", () => {
  test("are kept or undone as a whole, and those inside them for themselves", memory, function* () {
    const sql = yield* SqlClient.SqlClient
    yield* createItems
    const inner = sql.withTransaction(Effect.andThen(add("lost"), Effect.fail("inner")))
    yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* add("a")
        assert.strictEqual(yield* Effect.flip(inner), "inner")
        yield* sql.withTransaction(add("b"))
        const { reason } = yield* Effect.flip(sql`RELEASE SAVEPOINT effect_sql_1`)
        assert.match(String(reason.cause), /no such savepoint/)
      })
    )
    const outer = sql.withTransaction(Effect.andThen(sql.withTransaction(add("lost")), Effect.fail("outer")))
    assert.strictEqual(yield* Effect.flip(outer), "outer")
    assert.deepStrictEqual(yield* names, ["a", "b"])
  })

  test("wait for each other, and so do the statements of other fibers", memory, function* () {
    const sql = yield* SqlClient.SqlClient
    yield* createItems
    const begun = yield* Deferred.make<void>()
    const end = yield* Deferred.make<void>()
    const open = Effect.gen(function* () {
      yield* add("first")
      yield* Deferred.succeed(begun, undefined)
      yield* Deferred.await(end)
      yield* add("second")
    })
    const transaction = yield* Effect.forkChild(sql.withTransaction(open))
    yield* Deferred.await(begun)
    const others = yield* Effect.forkChild(
      Effect.all([add("third"), sql.withTransaction(add("fourth"))], { concurrency: 2 })
    )
    const read = yield* Effect.forkChild(names)
    const interrupted = yield* Effect.forkChild(sql.withTransaction(add("never")))
    yield* Effect.yieldNow
    yield* Fiber.interrupt(interrupted)
    assert.isUndefined(read.pollUnsafe())
    yield* Deferred.succeed(end, undefined)
    yield* Fiber.joinAll([transaction, others])
    assert.deepStrictEqual((yield* Fiber.join(read)).slice(0, 2), ["first", "second"])
    assert.deepStrictEqual((yield* names).toSorted(), ["first", "fourth", "second", "third"])
  })

  test("an interrupted transaction is undone, and the connection stays usable", memory, function* () {
    const sql = yield* SqlClient.SqlClient
    yield* createItems
    const begun = yield* Deferred.make<void>()
    const hanging = Effect.all([add("lost"), Deferred.succeed(begun, undefined), Effect.never])
    const fiber = yield* Effect.forkChild(sql.withTransaction(hanging))
    yield* Deferred.await(begun)
    yield* Fiber.interrupt(fiber)
    yield* add("kept")
    assert.deepStrictEqual(yield* names, ["kept"])
  })

  test("a commit that fails is undone, and the connection stays usable", memory, function* () {
    const sql = yield* SqlClient.SqlClient
    yield* createItems
    yield* sql`CREATE TABLE parts (item INTEGER REFERENCES items (id) DEFERRABLE INITIALLY DEFERRED)`
    const error = yield* Effect.flip(sql.withTransaction(sql`INSERT INTO parts VALUES (7)`))
    assert.strictEqual(error.reason._tag, "ConstraintError")
    yield* sql.withTransaction(add("kept"))
    assert.deepStrictEqual(yield* sql`SELECT * FROM parts`, [])
  })

  const withStore = Layer.provideMerge(VersionedStore.layerSql(), memory)

  test("a store on the same client takes part in them", withStore, function* () {
    const sql = yield* SqlClient.SqlClient
    const store = yield* VersionedStore.VersionedStore
    yield* createItems
    const write = Effect.andThen(store.compareAndSet("a", Option.none(), 1), add("a"))
    yield* Effect.flip(sql.withTransaction(Effect.andThen(write, Effect.fail("no"))))
    assert.deepStrictEqual([yield* store.get("a"), yield* names], [Option.none(), []])
    yield* sql.withTransaction(write)
    assert.deepStrictEqual([Option.isSome(yield* store.get("a")), yield* names], [true, ["a"]])
  })

  /** A commit that writes a value beside another one, and removes a third one. */
  const commits = Effect.gen(function* () {
    const { commit = () => Effect.die("no commit"), compareAndSet } = yield* VersionedStore.VersionedStore
    const version = yield* compareAndSet("old", Option.none(), 0)
    return commit({
      changed: { key: "head", expected: Option.none(), value: 1 },
      added: [{ key: "batch", value: 2 }],
      removed: [{ key: "old", version }]
    })
  })

  const keys = Effect.gen(function* () {
    return (yield* (yield* VersionedStore.VersionedStore).list()).keys
  })

  test("HOUSE-9 a commit of a store takes part in the transaction of its fiber", withStore, function* () {
    const sql = yield* SqlClient.SqlClient
    const commit = yield* commits
    yield* Effect.flip(sql.withTransaction(Effect.andThen(commit, Effect.fail("no"))))
    assert.deepStrictEqual(yield* keys, ["old"])
    yield* sql.withTransaction(commit)
    assert.deepStrictEqual(yield* keys, ["batch", "head"])
  })

  test("HOUSE-9 a commit of a store waits for the transaction of another fiber", withStore, function* () {
    const sql = yield* SqlClient.SqlClient
    const commit = yield* commits
    const [begun, end] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
    const open = Effect.all([Deferred.succeed(begun, undefined), Deferred.await(end), Effect.fail("no")])
    const other = yield* Effect.forkChild(Effect.flip(sql.withTransaction(open)))
    yield* Deferred.await(begun)
    const committed = yield* Effect.forkChild(commit)
    yield* Effect.yieldNow
    assert.isUndefined(committed.pollUnsafe())
    yield* Deferred.succeed(end, undefined)
    yield* Fiber.join(other)
    assert.isTrue(Option.isSome(yield* Fiber.join(committed)))
    assert.deepStrictEqual(yield* keys, ["batch", "head"])
  })

  test(
    "HOUSE-9 a commit of a store that fails on its way is undone, and the client stays usable",
    withStore,
    function* () {
      const sql = yield* SqlClient.SqlClient
      const commit = yield* commits
      yield* sql`CREATE TRIGGER keep BEFORE DELETE ON effect_emissary_store BEGIN SELECT RAISE(FAIL, 'kept'); END`
      const error = yield* Effect.flip(commit)
      assert.strictEqual(error.reason._tag, "Unavailable")
      assert.deepStrictEqual(yield* keys, ["old"])
      yield* sql`DROP TRIGGER keep`
      yield* commit
      assert.deepStrictEqual(yield* keys, ["batch", "head"])
    }
  )
})

describe("HOUSE-6 SqliteClient: several connections to one file", () => {
  const twoClients = (options?: Omit<Parameters<typeof SqliteClient.layer>[0], "filename">) => {
    const filename = newFile()
    return Effect.all([connect({ filename }), connect({ filename, ...options })])
  }

  test.live("readers and a writer do not block each other; readers see what was committed", function* () {
    const [one, two] = yield* twoClients({ busyTimeout: 0 })
    yield* Effect.provideService(createItems, SqlClient.SqlClient, one)
    yield* one.withTransaction(
      Effect.gen(function* () {
        yield* one`INSERT INTO items (name) VALUES ('a')`
        assert.deepStrictEqual(yield* two`SELECT * FROM items`, [])
      })
    )
    assert.strictEqual((yield* two`SELECT * FROM items`).length, 1)
    assert.deepStrictEqual(yield* two`PRAGMA journal_mode`, [{ journal_mode: "wal" }])
    assert.deepStrictEqual(yield* two`PRAGMA synchronous`, [{ synchronous: 2 }])
  })

  test.live("a writer waits for another one, and leaves the thread to it", function* () {
    const [one, two] = yield* twoClients()
    yield* one`CREATE TABLE log (line TEXT)`
    const begun = yield* Deferred.make<void>()
    // Both are in this thread: a second transaction that held it would never see the end of the first one
    const first = one.withTransaction(
      Effect.gen(function* () {
        yield* one`INSERT INTO log VALUES ('first')`
        yield* Deferred.succeed(begun, undefined)
        yield* Effect.sleep("100 millis")
        yield* one`INSERT INTO log VALUES ('still first')`
      })
    )
    const second = Effect.andThen(
      Deferred.await(begun),
      Effect.all([two`INSERT INTO log VALUES ('second')`, two.withTransaction(two`INSERT INTO log VALUES ('third')`)])
    )
    yield* Effect.all([first, second], { concurrency: 2 })
    const lines = yield* one<{ readonly line: string }>`SELECT line FROM log ORDER BY rowid`
    assert.deepStrictEqual(pluck(lines, "line"), ["first", "still first", "second", "third"])
  })

  test.live("HOUSE-9 a commit of a store waits for a transaction of another connection", function* () {
    const filename = newFile()
    const [one, two] = [yield* connect({ filename }), yield* connect({ filename })]
    const { commit = () => Effect.die("no commit"), compareAndSet } = Context.get(
      yield* Layer.build(VersionedStore.layerSql().pipe(Layer.provide(Layer.succeed(SqlClient.SqlClient, two)))),
      VersionedStore.VersionedStore
    )
    const removed = [{ key: "old", version: yield* compareAndSet("old", Option.none(), 0) }]
    const begun = yield* Deferred.make<void>()
    const open = Effect.all([Deferred.succeed(begun, undefined), Effect.sleep("100 millis")])
    const committed = commit({ changed: { key: "a", expected: Option.none(), value: 1 }, added: [], removed })
    const [, version] = yield* Effect.all(
      [one.withTransaction(open), Effect.andThen(Deferred.await(begun), committed)],
      { concurrency: 2 }
    )
    assert.isTrue(Option.isSome(version))
  })

  test.live("a writer that waited longer than busyTimeout fails with LockTimeoutError", function* () {
    const [one, two] = yield* twoClients({ busyTimeout: "50 millis" })
    yield* one`CREATE TABLE log (line TEXT)`
    yield* one.withTransaction(
      Effect.gen(function* () {
        for (const write of [two`INSERT INTO log VALUES ('x')`, two.withTransaction(two`SELECT 1`)]) {
          const { reason } = yield* Effect.flip(write)
          assert.strictEqual(reason._tag, "LockTimeoutError")
          assert.isTrue(reason.isRetryable)
        }
      })
    )
    yield* two`INSERT INTO log VALUES ('x')`
  })

  test.live("transactions that read first and write later lose nothing", function* () {
    const filename = newFile()
    const clients = yield* Effect.forEach([1, 2, 3], () => connect({ filename }))
    const [sql] = clients
    assert(sql !== undefined)
    yield* sql`CREATE TABLE counter (n INTEGER)`
    yield* sql`INSERT INTO counter VALUES (0)`
    const increment = (sql: SqlClient.SqlClient) =>
      sql.withTransaction(
        Effect.gen(function* () {
          const [row] = yield* sql<{ readonly n: number }>`SELECT n FROM counter`
          yield* Effect.sleep("1 millis")
          yield* sql`UPDATE counter SET n = ${(row?.n ?? 0) + 1}`
        })
      )
    yield* Effect.forEach(
      Array.from({ length: 30 }, (_, n) => clients[n % 3] ?? sql),
      increment,
      { concurrency: "unbounded" }
    )
    assert.deepStrictEqual(yield* sql`SELECT n FROM counter`, [{ n: 30 }])
  })

  test.live("a deferred transaction whose snapshot is old fails at once, because waiting does not help", function* () {
    const [one, two] = yield* twoClients({ busyTimeout: "1 hour" })
    yield* one`CREATE TABLE log (line TEXT)`
    const stale = Effect.gen(function* () {
      yield* two`SELECT * FROM log`
      yield* one`INSERT INTO log VALUES ('newer')`
      yield* two`INSERT INTO log VALUES ('x')`
    })
    const error = yield* two
      .withTransaction(stale)
      .pipe(Effect.provideService(SqlClient.BeginTransaction, "BEGIN"), Effect.flip)
    assert.isTrue(SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError")
    yield* two`INSERT INTO log VALUES ('x')`
  })

  test("the layer closes its connection, and the last one removes the journal", function* () {
    const filename = newFile()
    const exit = yield* Effect.exit(Effect.provide(createItems, SqliteClient.layer({ filename })))
    assert.isTrue(Exit.isSuccess(exit))
    assert.isFalse(existsSync(`${filename}-wal`))
    const database = new DatabaseSync(filename)
    database.exec("BEGIN EXCLUSIVE; ROLLBACK")
    database.close()
  })
})

describe("MEND-7 names of errors", () => {
  for (const [name, pragma] of [
    ["SQLITE_FULL", "PRAGMA max_page_count = 1"],
    ["SQLITE_READONLY", "PRAGMA query_only = 1"]
  ] as const) {
    test.live(`the store reports ${name} as SQLite does`, function* () {
      const client = yield* connect({ filename: newFile() })
      const store = yield* Layer.build(
        VersionedStore.layerSql().pipe(Layer.provide(Layer.succeed(SqlClient.SqlClient, client)))
      )
      yield* client.unsafe(pragma)
      const { compareAndSet } = Context.get(store, VersionedStore.VersionedStore)
      const error = yield* Effect.flip(compareAndSet("a", Option.none(), "x".repeat(100_000)))
      assert(error._tag === "VersionedStoreError" && error.reason._tag === "Unavailable")
      assert.strictEqual(error.reason.error, `UnknownError, ${name}`)
    })
  }
})

describe("RIGHT-13 a file of the database that goes", () => {
  test.live("while the process runs is an error of each operation, and one line in the log", function* () {
    const lines: Array<string> = []
    const log = Logger.layer([
      Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))
    ])
    const filename = newFile()
    yield* Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      yield* store.compareAndSet("a", Option.none(), 1)
      renameSync(filename, `${filename}.away`)
      for (const key of ["b", "c"]) {
        const error = yield* Effect.flip(store.compareAndSet(key, Option.none(), 1))
        assert(error._tag === "VersionedStoreError" && error.reason._tag === "Unavailable")
        assert.include(error.reason.error, "SQLITE_READONLY")
      }
      assert.strictEqual((yield* Effect.flip(store.get("a")))._tag, "VersionedStoreError")
      // Another file under its name is not the file that was opened
      writeFileSync(filename, "")
      assert.strictEqual((yield* Effect.flip(store.get("a")))._tag, "VersionedStoreError")
      assert.strictEqual(lines.length, 1)
      assert.match(lines[0] ?? "", /^Error the database file .* was deleted or replaced/)
      renameSync(`${filename}.away`, filename)
      yield* store.compareAndSet("d", Option.none(), 1)
      assert.deepStrictEqual(
        Option.map(yield* store.get("a"), ({ value }) => value),
        Option.some(1)
      )
    }).pipe(Effect.provide(Layer.provide(SqliteClient.layerStore({ filename }), log)), Effect.provide(log))
  })

  test.live("with the lock of a process is made again by it, and shows no end of it", function* () {
    const filename = newFile()
    const processesOf = Effect.gen(function* () {
      const built = yield* Layer.build(Layer.fresh(SqliteClient.layerStore({ filename })))
      const { processes = Effect.succeedNone } = Context.get(built, VersionedStore.VersionedStore)
      return Option.getOrThrow(yield* processes)
    })
    const other = yield* processesOf
    const own = yield* Effect.scoped(
      Effect.gen(function* () {
        const { own } = yield* processesOf
        assert.strictEqual(yield* other.look(own), "alive")
        rmSync(`${filename}-process-${own}`)
        assert.strictEqual(yield* other.look(own), "missing")
        yield* Effect.repeat(other.look(own), {
          until: (found) => found === "alive",
          schedule: Schedule.spaced("20 millis")
        })
        return own
      })
    )
    assert.strictEqual(yield* other.look(own), "missing")
  })
})
