/**
 * A small port for data that several writers change: values by key, each in a
 * version, and a write that succeeds only from the version it was made for.
 *
 * **When to use**
 *
 * Conversations are kept on it (`ConversationStore`), and so can be what else has to
 * survive the process. Choose the storage by layer: `SqliteClient.layerStore` of
 * `effect-emissary/node` for one file, {@link layerSql} for PostgreSQL, {@link layerMemory}
 * for tests. For another one provide the service yourself and run
 * `Conformance.versionedStore` of `effect-emissary/testing` on it.
 *
 * **Details**
 *
 * - Keys are any text: empty, very long, with slashes, dots, upper and lower case,
 *   control characters, lone surrogates. Different text is a different key in every
 *   storage, and no key reaches the database as anything else.
 * - Values are JSON. They pass `payload` on the way in and on the way out, so
 *   `Limits` hold for each value. The value you get is yours: a fresh copy.
 * - Versions are text to compare, nothing else. No version ever comes back, not even
 *   after the value was deleted and made again.
 * - Reads see whole values only, and after a write has succeeded every read sees it or
 *   a later one.
 *
 * **Example** (Read, change, write)
 *
 * ```ts
 * import { Effect, Option } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const increment = Effect.gen(function*() {
 *   const store = yield* VersionedStore.VersionedStore
 *   const found = yield* store.get("visits")
 *   const visits = Option.match(found, { onNone: () => 0, onSome: ({ value }) => Number(value) })
 *   yield* store.compareAndSet("visits", Option.map(found, ({ version }) => version), visits + 1)
 *   return visits + 1
 * }).pipe(
 *   // Another writer was faster: read again
 *   Effect.retry({ while: (error) => error._tag === "VersionConflict" })
 * )
 *
 * const program = Effect.andThen(Effect.all([increment, increment], { concurrency: 2 }), increment)
 * assert.strictEqual(await Effect.runPromise(Effect.provide(program, VersionedStore.layerMemory)), 3)
 * ```
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import * as Json from "../payload/Json.ts"
import * as Limits from "../payload/Limits.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import * as base from "../payload/internal/base.ts"
import * as storageKeys from "./internal/storageKeys.ts"

const Reason = Schema.TaggedUnion({
  Unavailable: { storage: Schema.String, error: Schema.String },
  Unreadable: { error: PayloadError.PayloadError },
  Refused: { error: PayloadError.PayloadError }
})

type Reason = typeof Reason.Type

const renderReason = (reason: Reason): string => {
  switch (reason._tag) {
    case "Unavailable":
      return `the ${reason.storage} failed: ${reason.error}. VersionedStore.causeOf(error) returns its error`
    case "Unreadable":
      return `the stored value cannot be read and was left as it is: ${reason.error.message}`
    case "Refused":
      return `refused, nothing was written: ${reason.error.message}`
  }
}

/**
 * The error of a versioned store.
 *
 * **Details**
 *
 * | reason | meaning |
 * |---|---|
 * | `Unavailable` | the storage failed; a write may have taken place, so read before you write again |
 * | `Unreadable` | the stored value is damaged or beyond the limits; it was left as it is |
 * | `Refused` | the key, the value or an option is too large or not valid; nothing was written |
 *
 * `error` of `Unavailable` is the tag of the storage's error, such as `LockTimeoutError`;
 * {@link causeOf} returns the error itself.
 *
 * @category errors
 * @since 0.1.0
 */
export class VersionedStoreError extends Schema.TaggedError<VersionedStoreError>(
  "effect-emissary/conversation/VersionedStoreError"
)("VersionedStoreError", {
  operation: Schema.Literals(["open", "get", "compareAndSet", "list", "delete"]),
  key: Schema.optionalKey(Schema.String),
  reason: Reason
}) {
  override get message(): string {
    const key = this.key === undefined ? "" : ` of ${base.quote(this.key)}`
    return `${this.operation}${key}: ${renderReason(this.reason)}`
  }
}

// Drivers put stored values into their errors. These stay out of messages, JSON and
// everything that prints an error.
const causes = new WeakMap<VersionedStoreError, unknown>()

/**
 * Makes the error of a storage that failed, and remembers its cause for {@link causeOf}.
 * For stores of your own.
 *
 * @category constructors
 * @since 0.1.0
 */
export const unavailable = (options: {
  readonly operation: VersionedStoreError["operation"]
  readonly key?: string | undefined
  readonly storage: string
  readonly error: string
  readonly cause: unknown
}): VersionedStoreError => {
  const { cause, error, key, operation, storage } = options
  const reason: Reason = { _tag: "Unavailable", storage, error }
  const failure = new VersionedStoreError({ operation, reason, ...base.defined({ key }) })
  causes.set(failure, cause)
  return failure
}

/**
 * The error of the database behind an error, in the process where it happened. It may
 * hold stored values: look before you log it.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (error: VersionedStoreError): Option.Option<unknown> =>
  causes.has(error) ? Option.some(causes.get(error)) : Option.none()

/**
 * The value is not in the version that the writer expected: another writer wrote or
 * deleted it in between. Nothing was written.
 *
 * **Details**
 *
 * `None` is the version of an absent value.
 *
 * **Example** (Two writers)
 *
 * ```ts
 * import { Effect, Option } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* VersionedStore.VersionedStore
 *   yield* store.compareAndSet("counter", Option.none(), 1)
 *   return yield* Effect.flip(store.compareAndSet("counter", Option.none(), 2))
 * })
 *
 * const error = await Effect.runPromise(Effect.provide(program, VersionedStore.layerMemory))
 * assert.ok(error._tag === "VersionConflict" && Option.isNone(error.expected) && Option.isSome(error.found))
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class VersionConflict extends Schema.TaggedError<VersionConflict>(
  "effect-emissary/conversation/VersionConflict"
)("VersionConflict", {
  key: Schema.String,
  expected: Schema.OptionFromNullOr(Schema.String),
  found: Schema.OptionFromNullOr(Schema.String)
}) {
  override get message(): string {
    return `${base.quote(this.key)} changed: expected ${storageKeys.versionText(this.expected)}, found ${storageKeys.versionText(this.found)}. Get it again and apply the change to what you find`
  }
}

/**
 * The range of keys to list: those that start with `prefix` (default: all) and come after
 * `after` (default: from the start), at most `limit` (an integer from 1, default 100).
 *
 * @category models
 * @since 0.1.0
 */
export interface ListOptions {
  readonly prefix?: string | undefined
  readonly after?: string | undefined
  readonly limit?: number | undefined
}

/**
 * Keys in the order of their UTF-16 code units, as `<` compares strings. `next` is the
 * `after` of the next page, `None` on the last one.
 *
 * @category models
 * @since 0.1.0
 */
export interface Page {
  readonly keys: ReadonlyArray<string>
  readonly next: Option.Option<string>
}

/**
 * The operations of a versioned store.
 *
 * **Details**
 *
 * - `get`: the value and its version, `None` if there is none. Versions are compared and
 *   kept; their text means nothing else.
 * - `compareAndSet`: writes if the value is in the version `expected`, or if there is
 *   none and `expected` is `None`, and returns the new version. Otherwise it fails with
 *   `VersionConflict` and writes nothing.
 * - `list`: keys in pages. Keys that come or go meanwhile may be on a later page or not;
 *   keys that stay are listed once.
 * - `delete`: returns whether there was a value. With `version` it deletes that version
 *   only and fails with `VersionConflict` otherwise; without, it deletes any value, also
 *   one that cannot be read.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  readonly get: (
    key: string
  ) => Effect.Effect<Option.Option<{ readonly value: Schema.Json; readonly version: string }>, VersionedStoreError>
  readonly compareAndSet: (
    key: string,
    expected: Option.Option<string>,
    value: Schema.Json
  ) => Effect.Effect<string, VersionConflict | VersionedStoreError>
  readonly list: (options?: ListOptions) => Effect.Effect<Page, VersionedStoreError>
  readonly delete: (
    key: string,
    options?: { readonly version?: string | undefined }
  ) => Effect.Effect<boolean, VersionConflict | VersionedStoreError>
}

/**
 * Values by key, each in a version.
 *
 * @category services
 * @since 0.1.0
 */
export class VersionedStore extends Context.Service<VersionedStore, Service>()(
  "effect-emissary/conversation/VersionedStore"
) {}

interface RawValue {
  readonly text: string
  readonly version: string
}

type Failure = Reason | SqlError

/** The part that differs between databases; {@link fromStorage} checks keys, values and options. */
interface Storage {
  readonly get: (key: string) => Effect.Effect<Option.Option<RawValue>, Failure>
  /** Writes if the value is in the version `expected`, and returns whether it did. */
  readonly set: (key: string, expected: Option.Option<string>, value: RawValue) => Effect.Effect<boolean, Failure>
  /** Removes the value if it is in the version `expected`, or in any version, and returns whether it did. */
  readonly remove: (key: string, expected: Option.Option<string>) => Effect.Effect<boolean, Failure>
  readonly list: (range: storageKeys.KeyRange) => Effect.Effect<ReadonlyArray<string>, Failure>
}

const failureTags = ["SqlError", "Unavailable", "Unreadable", "Refused"] as const

const failWith = (operation: VersionedStoreError["operation"], key?: string) => (failure: Failure) =>
  Effect.fail(
    failure._tag === "SqlError"
      ? unavailable({ operation, key, storage: "database", error: failure.reason._tag, cause: failure })
      : new VersionedStoreError({ operation, reason: failure, ...base.defined({ key }) })
  )

const refused = (error: PayloadError.PayloadError): Reason => ({ _tag: "Refused", error })

const checkText = (what: string, text: string): Effect.Effect<void, Reason> =>
  Effect.flatMap(Limits.Limits, ({ maxStringLength }) => {
    if (text.length <= maxStringLength) return Effect.void
    const measured = { what: "string" as const, limit: maxStringLength, found: text.length, path: "" }
    const reason = PayloadError.Reason.cases.TooLarge.make(measured)
    return Effect.fail(refused(new PayloadError.PayloadError({ what, reason })))
  })

const checkLimit = (limit: number): Effect.Effect<void, Reason> => {
  if (Number.isSafeInteger(limit) && limit > 0) return Effect.void
  const problem = { path: "/limit", expected: "an integer from 1", found: `the number ${limit}` }
  const reason = PayloadError.invalid([problem])
  return Effect.fail(refused(new PayloadError.PayloadError({ what: "list options", reason })))
}

const parseValue = ({ text, version }: RawValue) =>
  Json.parse(text, { what: "stored value" }).pipe(
    Effect.map((value) => ({ value, version })),
    Effect.mapError((error): Reason => ({ _tag: "Unreadable", error }))
  )

const fromStorage = Effect.fnUntraced(function* (storage: Storage) {
  const nextVersion = storageKeys.makeVersions(yield* storageKeys.nonce)

  const conflict = Effect.fnUntraced(function* (key: string, expected: Option.Option<string>) {
    const found = Option.map(yield* storage.get(key), ({ version }) => version)
    return yield* new VersionConflict({ key, expected, found })
  })

  const get = Effect.fnUntraced(function* (key: string) {
    yield* checkText("key", key)
    const found = yield* storage.get(key)
    return Option.isNone(found) ? Option.none() : Option.some(yield* parseValue(found.value))
  })

  const compareAndSet = Effect.fnUntraced(function* (key: string, expected: Option.Option<string>, value: Schema.Json) {
    const version = nextVersion(expected)
    yield* checkText("key", key)
    const text = yield* Effect.mapError(Json.stringify(value, { what: "value" }), refused)
    const isWritten = yield* storage.set(key, expected, { text, version })
    return isWritten ? version : yield* conflict(key, expected)
  })

  const list = Effect.fnUntraced(function* ({ after, limit = 100, prefix = "" }: ListOptions) {
    yield* checkText("prefix", prefix)
    yield* checkLimit(limit)
    if (after !== undefined) yield* checkText("after", after)
    const found = yield* storage.list({ prefix, after: Option.fromUndefinedOr(after), limit: limit + 1 })
    const keys = found.slice(0, limit)
    return { keys, next: found.length > limit ? Option.fromUndefinedOr(keys.at(-1)) : Option.none() }
  })

  const remove = Effect.fnUntraced(function* (key: string, expected: Option.Option<string>) {
    yield* checkText("key", key)
    const isRemoved = yield* storage.remove(key, expected)
    return isRemoved || Option.isNone(expected) ? isRemoved : yield* conflict(key, expected)
  })

  const service: Service = {
    get: Effect.fn("VersionedStore.get")((key) => Effect.catch(get(key), failWith("get", key))),
    compareAndSet: Effect.fn("VersionedStore.compareAndSet")((key, expected, value) =>
      Effect.catchTag(compareAndSet(key, expected, value), failureTags, failWith("compareAndSet", key))
    ),
    list: Effect.fn("VersionedStore.list")((options) => Effect.catch(list(options ?? {}), failWith("list"))),
    delete: Effect.fn("VersionedStore.delete")((key, options) =>
      Effect.catchTag(remove(key, Option.fromUndefinedOr(options?.version)), failureTags, failWith("delete", key))
    )
  }
  return service
})

const makeMemoryStorage: Effect.Effect<Storage> = Effect.sync(() => {
  const values = new Map<string, RawValue>()
  const isIn = (key: string, version: Option.Option<string>) =>
    values.get(key)?.version === Option.getOrUndefined(version)
  return {
    get: (key) => Effect.sync(() => Option.fromUndefinedOr(values.get(key))),
    set: (key, expected, value) =>
      Effect.sync(() => {
        const isExpected = isIn(key, expected)
        if (isExpected) values.set(key, value)
        return isExpected
      }),
    remove: (key, expected) =>
      Effect.sync(() => (Option.isNone(expected) || isIn(key, expected)) && values.delete(key)),
    list: (range) => Effect.sync(() => storageKeys.pageOfKeys(values.keys(), range))
  }
})

/**
 * Keeps values in memory, for as long as the layer lives. For tests, and for what need
 * not survive.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<VersionedStore> = Layer.effect(
  VersionedStore,
  Effect.flatMap(makeMemoryStorage, fromStorage)
)

/** As much of the encoded key as the index holds: PostgreSQL refuses index entries of more than 2,700 bytes. */
const startLength = 190

interface Row {
  readonly store_value?: unknown
  readonly store_version?: unknown
  readonly key_text?: unknown
}

const textColumn = (value: unknown, column: string): Effect.Effect<string, Reason> => {
  if (typeof value === "string") return Effect.succeed(value)
  const reason = PayloadError.invalid([{ path: `/${column}`, expected: "text", found: typeof value }])
  const error = new PayloadError.PayloadError({ what: "database row", reason })
  return Effect.fail<Reason>({ _tag: "Unreadable", error })
}

const createTable = (sql: SqlClient.SqlClient, name: string): ReadonlyArray<Effect.Effect<unknown, SqlError>> => {
  const table = sql(name)
  // Keys are ASCII. SQLite compares bytes anyway, PostgreSQL by the locale of the database.
  const bytewise = sql.literal(sql.onDialectOrElse({ orElse: () => "", pg: () => 'COLLATE "C"' }))
  return [
    sql`CREATE TABLE IF NOT EXISTS ${table} (
      key_hash TEXT ${bytewise} NOT NULL PRIMARY KEY, key_start TEXT ${bytewise} NOT NULL,
      key_text TEXT ${bytewise} NOT NULL, store_version TEXT ${bytewise} NOT NULL, store_value TEXT NOT NULL)`,
    sql`CREATE INDEX IF NOT EXISTS ${sql(`${name}_key_start`)} ON ${table} (key_start)`
  ]
}

const makeSqlStorage = Effect.fnUntraced(function* (tableName: string) {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  const table = sql(tableName)
  const isSupported = sql.onDialectOrElse({ orElse: () => false, sqlite: () => true, pg: () => true })
  if (!isSupported) {
    const error = "expected SQLite or PostgreSQL, got another dialect"
    return yield* Effect.fail<Reason>({ _tag: "Unavailable", storage: "database", error })
  }

  yield* Effect.forEach(createTable(sql, tableName), (statement) => statement, { discard: true }).pipe(
    // Of two processes that create the table at once, one may fail although the table exists then
    Effect.catch((error) => Effect.mapError(sql`SELECT key_hash FROM ${table} WHERE key_hash = ''`, () => error))
  )

  const rows = (statement: Fragment) => sql<Row>`${statement}`

  /** Runs a write of one row, and returns whether there was such a row. */
  const wroteRow = (write: Fragment) => Effect.map(rows(sql`${write} RETURNING key_hash`), (found) => found.length > 0)

  const insert = (key: string, { text, version }: RawValue) => {
    const encoded = storageKeys.sortable(key)
    return sql`INSERT INTO ${table} (key_hash, key_start, key_text, store_version, store_value)
      VALUES (${storageKeys.digestKey(key)}, ${encoded.slice(0, startLength)}, ${encoded}, ${version}, ${text})
      ON CONFLICT (key_hash) DO NOTHING`
  }

  const update = (key: string, expected: string, { text, version }: RawValue) =>
    sql`UPDATE ${table} SET store_version = ${version}, store_value = ${text}
      WHERE key_hash = ${storageKeys.digestKey(key)} AND store_version = ${expected}`

  const storage: Storage = {
    get: Effect.fnUntraced(function* (key) {
      const id = storageKeys.digestKey(key)
      const [row] = yield* rows(sql`SELECT store_version, store_value FROM ${table} WHERE key_hash = ${id}`)
      if (row === undefined) return Option.none()
      return Option.some({
        text: yield* textColumn(row.store_value, "store_value"),
        version: yield* textColumn(row.store_version, "store_version")
      })
    }),
    set: (key, expected, value) =>
      wroteRow(Option.isNone(expected) ? insert(key, value) : update(key, expected.value, value)),
    remove: (key, expected) => {
      const conditions = [sql`key_hash = ${storageKeys.digestKey(key)}`]
      if (Option.isSome(expected)) conditions.push(sql`store_version = ${expected.value}`)
      return wroteRow(sql`DELETE FROM ${table} WHERE ${sql.and(conditions)}`)
    },
    list: Effect.fnUntraced(function* ({ after, limit, prefix }) {
      const from = storageKeys.sortable(prefix)
      const start = from.slice(0, startLength)
      const conditions = [
        sql`key_start >= ${start}`,
        sql`key_start <= ${start + storageKeys.lastSortable}`,
        sql`key_text >= ${from}`,
        sql`key_text < ${from + storageKeys.lastSortable}`
      ]
      if (Option.isSome(after)) {
        const position = storageKeys.sortable(after.value)
        conditions.push(sql`key_start >= ${position.slice(0, startLength)}`, sql`key_text > ${position}`)
      }
      const found = yield* rows(
        sql`SELECT key_text FROM ${table} WHERE ${sql.and(conditions)} ORDER BY key_start, key_text LIMIT ${limit}`
      )
      return yield* Effect.forEach(found, (row) =>
        Effect.map(textColumn(row.key_text, "key_text"), storageKeys.fromSortable)
      )
    })
  }
  return storage
})

/**
 * Keeps values in a table of a database, for any number of processes at once.
 *
 * **Details**
 *
 * `table` is made if it does not exist; default `"effect_emissary_store"`. A write is
 * one conditional statement, and takes part in a transaction that is open around it.
 * The databases are SQLite and PostgreSQL; the layer of another one fails.
 *
 * Every operation costs an access by primary key; `list` a range of an index on the
 * first 190 characters of the encoded keys. Keys are stored readably, with letters,
 * digits and `-./:;<=>?@[\]^_` and the backtick as they are.
 *
 * **Gotchas**
 *
 * Waiting for a locked database is the business of the `SqlClient`: that of
 * `effect-emissary/node` does it, another one for SQLite needs a `busy_timeout`.
 *
 * **Example** (A table of PostgreSQL)
 *
 * ```ts no-run
 * import { PgClient } from "@effect/sql-pg"
 * import { Config, Layer } from "effect"
 * import { ConversationStore, VersionedStore } from "effect-emissary"
 *
 * export const conversations = ConversationStore.layer().pipe(
 *   Layer.provide(VersionedStore.layerSql({ table: "conversations" })),
 *   Layer.provide(PgClient.layerConfig({ url: Config.Redacted("DATABASE_URL") }))
 * )
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerSql = (options?: {
  readonly table?: string | undefined
}): Layer.Layer<VersionedStore, VersionedStoreError, SqlClient.SqlClient> =>
  Layer.effect(
    VersionedStore,
    Effect.catch(makeSqlStorage(options?.table ?? "effect_emissary_store"), failWith("open")).pipe(
      Effect.flatMap(fromStorage)
    )
  )
