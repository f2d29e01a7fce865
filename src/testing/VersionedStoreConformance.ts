/**
 * Proves that a `VersionedStore` keeps the rules that everything stored relies on.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { VersionedStore } from "../conversation/VersionedStore.ts"
import * as rules from "./internal/stores/versioned.ts"
import * as stores from "./internal/stores/suite.ts"
import type { Check, Options } from "./StoreConformance.ts"

/**
 * The checks for a store: compare and set, versions, values, keys, listing, writers at
 * once, interruption.
 *
 * **When to use**
 *
 * Use in the tests of a store of your own. The suite knows no test framework: register
 * each check as a test, or run them one after another.
 *
 * **Details**
 *
 * Each check builds the layer for itself, and deletes all keys that start with
 * `conformance/` before and after. What a killed process leaves is not checked.
 *
 * **Example** (Checking a store)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { VersionedStoreConformance } from "effect-emissary/testing"
 *
 * const checks = VersionedStoreConformance.suite("memory", VersionedStore.layerMemory, { durable: false })
 *
 * // with @effect/vitest: for (const { name, check } of checks) it.effect(name, () => check)
 * await Effect.runPromise(Effect.forEach(checks, ({ check }) => check, { discard: true }))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const suite = <E = never>(
  name: string,
  layer: Layer.Layer<VersionedStore, E>,
  options?: Options
): ReadonlyArray<Check> =>
  stores.suite(
    {
      key: VersionedStore,
      rules: rules.all,
      clear: (store, part) =>
        Effect.flatMap(
          rules.listAll(store, part, 100),
          Effect.forEach((key) => store.delete(key), { discard: true })
        )
    },
    name,
    layer,
    options
  )
