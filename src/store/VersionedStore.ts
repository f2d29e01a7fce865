/**
 * A small port for data that several writers change: values by key, each in a
 * version, and a write that succeeds only from the version it was made for.
 *
 * **When to use**
 *
 * Sessions are kept on it, and so can be what else has to
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

export { layerMemory } from "./internal/memoryStore.ts"
export { layerSql } from "./internal/sqlStore.ts"
export {
  causeOf,
  type Commit,
  type ListOptions,
  type Page,
  type Processes,
  type Service,
  Traced,
  unavailable,
  VersionConflict,
  VersionedStore,
  VersionedStoreError
} from "./internal/storeService.ts"
