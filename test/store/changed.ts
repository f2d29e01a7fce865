import { Effect, Layer } from "effect"
import { VersionedStore } from "effect-emissary"

/** A layer of the store below it, with other operations. */
export const changed = (change: (store: VersionedStore.Service) => Partial<VersionedStore.Service>) =>
  Layer.effect(
    VersionedStore.VersionedStore,
    Effect.map(VersionedStore.VersionedStore, (store) => ({ ...store, ...change(store) }))
  )
