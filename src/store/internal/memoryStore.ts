/** A store in memory. */

import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { pageOfKeys } from "./storeKeys.ts"
import { fromStorage, type RawValue, type Storage, VersionedStore } from "./storeService.ts"

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
    list: (range) => Effect.sync(() => pageOfKeys(values.keys(), range))
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
