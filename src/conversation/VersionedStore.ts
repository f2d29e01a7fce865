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
import * as paths from "../payload/internal/paths.ts"
import * as storageKeys from "./internal/storageKeys.ts"

// Drivers put stored values into their errors. These stay out of messages, JSON and
// everything that prints an error.
const causeMemory = new WeakMap<object, unknown>()

/**
 * The storage failed or refused the operation. A write that failed this way may have
 * taken place: read before you write again.
 *
 * **Details**
 *
 * `error` is the tag of the storage's error, such as `LockTimeoutError`; {@link causeOf}
 * returns the error itself.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unavailable extends Schema.TaggedError<Unavailable>("effect-emissary/conversation/Unavailable")(
  "Unavailable",
  { storage: Schema.String, error: Schema.String }
) {
  override get message(): string {
    return `the ${this.storage} failed: ${this.error}. VersionedStore.causeOf(error.reason) returns its error`
  }
}

/**
 * The stored value cannot be read: it was damaged, or a newer release wrote it. It is
 * left as it is.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unreadable extends Schema.TaggedError<Unreadable>("effect-emissary/conversation/Unreadable")(
  "Unreadable",
  { error: PayloadError.PayloadError }
) {
  override get message(): string {
    return `what is stored cannot be read and was left as it is: ${this.error.message}`
  }
}

/**
 * The key, the value or an option is not acceptable: too large under the current
 * limits, or not JSON. Nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Refused extends Schema.TaggedError<Refused>("effect-emissary/conversation/Refused")("Refused", {
  error: PayloadError.PayloadError
}) {
  override get message(): string {
    return `refused, nothing was written: ${this.error.message}`
  }
}

/**
 * Why a versioned store did not do what it was asked.
 *
 * @category reasons
 * @since 0.1.0
 */
export const Reason = Schema.Union([Unavailable, Unreadable, Refused])

/**
 * Why a versioned store did not do what it was asked.
 *
 * @category reasons
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * Makes the reason {@link Unavailable} and remembers the error behind it, for
 * {@link causeOf}. For stores of your own.
 *
 * @category constructors
 * @since 0.1.0
 */
export const unavailable = (storage: string, error: string, cause: unknown): Unavailable => {
  const reason = new Unavailable({ storage, error })
  causeMemory.set(reason, cause)
  return reason
}

/**
 * The error of the database behind a reason, in the process where it happened. It may
 * hold stored values: do not log it without looking.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (reason: Reason): Option.Option<unknown> =>
  causeMemory.has(reason) ? Option.some(causeMemory.get(reason)) : Option.none()

/**
 * The error of a versioned store.
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
    const key = this.key === undefined ? "" : ` of ${paths.quote(this.key)}`
    return `${this.operation}${key}: ${this.reason.message}`
  }
}

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
    return `${paths.quote(this.key)} changed: expected ${storageKeys.versionText(this.expected)}, found ${storageKeys.versionText(this.found)}. Get it again and apply the change to what you find`
  }
}

/**
 * Identifies one state of one value. Compare it, keep it, send it (as an ETag, for
 * example); it means nothing else.
 *
 * @category models
 * @since 0.1.0
 */
export type Version = string

/**
 * A value and its version.
 *
 * @category models
 * @since 0.1.0
 */
export interface Versioned {
  readonly value: Schema.Json
  readonly version: Version
}

/**
 * Which keys to list: those that start with `prefix` (default: all) and come after
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
 * - `get`: the value and its version, `None` if there is none.
 * - `compareAndSet`: writes if the value is in the version `expected`, or if there is
 *   none and `expected` is `None`, and returns the new version. Otherwise it fails with
 *   `VersionConflict` and writes nothing.
 * - `list`: keys, in order and in pages. Keys that come or go meanwhile may be on a
 *   later page or not; keys that stay are listed once.
 * - `delete`: whether there was a value. With `version` only in that version,
 *   otherwise `VersionConflict`; without, whatever is there, also what cannot be read.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  readonly get: (key: string) => Effect.Effect<Option.Option<Versioned>, VersionedStoreError>
  readonly compareAndSet: (
    key: string,
    expected: Option.Option<Version>,
    value: Schema.Json
  ) => Effect.Effect<Version, VersionConflict | VersionedStoreError>
  readonly list: (options?: ListOptions) => Effect.Effect<Page, VersionedStoreError>
  readonly delete: (
    key: string,
    options?: { readonly version?: Version | undefined }
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

/** The part that differs between databases; {@link fromStorage} checks keys, values and options. */
interface Storage {
  readonly get: (key: string) => Effect.Effect<Option.Option<RawValue>, Reason>
  /** Writes if the value is in the version `expected`, and returns whether it did. */
  readonly set: (key: string, expected: Option.Option<string>, value: RawValue) => Effect.Effect<boolean, Reason>
  /** Removes the value if it is in the version `expected`, or in any version, and returns whether it did. */
  readonly remove: (key: string, expected: Option.Option<string>) => Effect.Effect<boolean, Reason>
  readonly list: (range: storageKeys.KeyRange) => Effect.Effect<ReadonlyArray<string>, Reason>
}

const refuseInput = (what: string, reason: ConstructorParameters<typeof PayloadError.PayloadError>[0]["reason"]) =>
  new Refused({ error: new PayloadError.PayloadError({ what, reason }) })

const checkText = (what: string, text: string): Effect.Effect<void, Refused> =>
  Effect.flatMap(Limits.Limits, ({ maxStringLength }) => {
    if (typeof text !== "string") {
      return Effect.fail(
        refuseInput(what, PayloadError.invalid([{ path: "", expected: "string", found: typeof text }]))
      )
    }
    return text.length <= maxStringLength
      ? Effect.void
      : Effect.fail(
          refuseInput(
            what,
            PayloadError.Reason.cases.TooLarge.make({
              what: "string",
              limit: maxStringLength,
              found: text.length,
              path: ""
            })
          )
        )
  })

const checkLimit = (limit: number): Effect.Effect<void, Refused> =>
  Number.isSafeInteger(limit) && limit > 0
    ? Effect.void
    : Effect.fail(
        refuseInput(
          "list options",
          PayloadError.invalid([{ path: "/limit", expected: "an integer from 1", found: `the number ${limit}` }])
        )
      )

const fromStorage = Effect.fnUntraced(function* (storage: Storage) {
  const nextVersion = storageKeys.makeVersions(yield* storageKeys.nonce)

  const failWith = (operation: VersionedStoreError["operation"], key: string) =>
    Effect.mapError((reason: Reason) => new VersionedStoreError({ operation, key, reason }))

  const conflict = (operation: VersionedStoreError["operation"], key: string, expected: Option.Option<string>) =>
    storage.get(key).pipe(
      failWith(operation, key),
      Effect.flatMap((value) => {
        const found = Option.map(value, ({ version }) => version)
        return Effect.fail(new VersionConflict({ key, expected, found }))
      })
    )

  const parse = ({ text, version }: RawValue) =>
    Json.parse(text, { what: "stored value" }).pipe(
      Effect.map((value) => ({ value, version })),
      Effect.mapError((error) => new Unreadable({ error }))
    )

  const service: Service = {
    get: Effect.fn("VersionedStore.get")(
      function* (key) {
        yield* checkText("key", key)
        const found = yield* storage.get(key)
        return Option.isNone(found) ? Option.none() : Option.some(yield* parse(found.value))
      },
      (effect, key) => failWith("get", key)(effect)
    ),

    compareAndSet: Effect.fn("VersionedStore.compareAndSet")(function* (key, expected, value) {
      const version = nextVersion(expected)
      const isWritten = yield* checkText("key", key).pipe(
        Effect.andThen(
          Json.stringify(value, { what: "value" }).pipe(Effect.mapError((error) => new Refused({ error })))
        ),
        Effect.flatMap((text) => storage.set(key, expected, { text, version })),
        failWith("compareAndSet", key)
      )
      return isWritten ? version : yield* conflict("compareAndSet", key, expected)
    }),

    list: Effect.fn("VersionedStore.list")(
      function* (options) {
        const prefix = options?.prefix ?? ""
        const limit = options?.limit ?? 100
        yield* checkText("prefix", prefix)
        yield* checkLimit(limit)
        if (options?.after !== undefined) yield* checkText("after", options.after)
        const after = Option.fromUndefinedOr(options?.after)
        const found = yield* storage.list({ prefix, after, limit: limit + 1 })
        const keys = found.slice(0, limit)
        return { keys, next: found.length > limit ? Option.fromUndefinedOr(keys.at(-1)) : Option.none() }
      },
      Effect.mapError((reason) => new VersionedStoreError({ operation: "list", reason }))
    ),

    delete: Effect.fn("VersionedStore.delete")(function* (key, options) {
      const expected = Option.fromUndefinedOr(options?.version)
      const isRemoved = yield* checkText("key", key).pipe(
        Effect.andThen(storage.remove(key, expected)),
        failWith("delete", key)
      )
      return isRemoved || Option.isNone(expected) ? isRemoved : yield* conflict("delete", key, expected)
    })
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

const sqlReason = (error: SqlError): Reason => unavailable("database", error.reason._tag, error)

interface Row {
  readonly store_value?: unknown
  readonly store_version?: unknown
  readonly key_text?: unknown
}

const textColumn = (value: unknown, column: string): Effect.Effect<string, Unreadable> => {
  if (typeof value === "string") return Effect.succeed(value)
  const issue = { path: `/${column}`, expected: "text", found: typeof value }
  return Effect.fail(
    new Unreadable({
      error: new PayloadError.PayloadError({ what: "database row", reason: PayloadError.invalid([issue]) })
    })
  )
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
  if (!isSupported)
    return yield* unavailable("database", "expected SQLite or PostgreSQL, got another dialect", undefined)

  yield* Effect.forEach(createTable(sql, tableName), (statement) => statement, { discard: true }).pipe(
    // Of two processes that create the table at once, one may fail although the table exists then
    Effect.catch((error) =>
      Effect.mapError(sql`SELECT key_hash FROM ${table} WHERE key_hash = ''`, () => sqlReason(error))
    )
  )

  const rows = (statement: Fragment) => Effect.mapError(sql<Row>`${statement}`, sqlReason)

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
    makeSqlStorage(options?.table ?? "effect_emissary_store").pipe(
      Effect.mapError((reason) => new VersionedStoreError({ operation: "open", reason })),
      Effect.flatMap(fromStorage)
    )
  )
