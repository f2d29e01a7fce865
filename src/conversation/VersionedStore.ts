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
 * `VersionedStoreConformance.suite` of `effect-emissary/testing` on it.
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
 *   // Somebody else was faster: look again
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
import type * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type * as SqlClient from "effect/sql/SqlClient"
import * as memory from "./internal/store/memory.ts"
import * as port from "./internal/store/port.ts"
import * as sql from "./internal/store/sql.ts"
import { type Reason, type VersionConflict, VersionedStoreError } from "./VersionedStoreError.ts"

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
 * What a versioned store can do.
 *
 * **Details**
 *
 * - `get`: the value and its version, `None` if there is none.
 * - `compareAndSet`: writes if the value is in the version `expected`, or if there is
 *   none and `expected` is `None`, and gives the new version. Otherwise it fails with
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

const layer = <E extends Reason, R>(storage: Effect.Effect<port.Storage, E, R>) =>
  Layer.effect(
    VersionedStore,
    Effect.mapBoth(storage, {
      onSuccess: port.make,
      onFailure: (reason) => new VersionedStoreError({ operation: "open", reason })
    })
  )

/**
 * Keeps values in memory, for as long as the layer lives. For tests, and for what need
 * not survive.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<VersionedStore> = Layer.effect(VersionedStore, Effect.map(memory.make, port.make))

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
 * **Example** (A table of one's own)
 *
 * ```ts no-run
 * import { Layer } from "effect"
 * import { SqlClient } from "effect/sql"
 * import { ConversationStore, VersionedStore } from "effect-emissary"
 *
 * declare const database: Layer.Layer<SqlClient.SqlClient>
 *
 * export const conversations = ConversationStore.layer().pipe(
 *   Layer.provide(VersionedStore.layerSql({ table: "conversations" })),
 *   Layer.provide(database)
 * )
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerSql = (options?: {
  readonly table?: string | undefined
}): Layer.Layer<VersionedStore, VersionedStoreError, SqlClient.SqlClient> =>
  layer(sql.make({ table: options?.table ?? "effect_emissary_store" }))
