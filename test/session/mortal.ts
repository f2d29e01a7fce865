/** A store of a process that dies after one of its writes. */
import { Effect, Layer } from "effect"
import type { VersionedStore } from "effect-emissary"
import { changed } from "../store/changed.ts"

/** A store of a process that is cut off after its write `at`, a deletion or another one, once it is armed. */
export const mortal = (store: Layer.Layer<VersionedStore.VersionedStore>, at: number) => {
  const writes: Array<string> = []
  let isArmed = false
  const isDead = () => writes.length >= at
  const through = <A, E>(effect: Effect.Effect<A, E>, write?: string) =>
    Effect.suspend(() => {
      if (isDead()) return Effect.never
      if (isArmed && write !== undefined) writes.push(write)
      return isDead() ? Effect.andThen(effect, Effect.never) : effect
    })
  const layer = changed(({ compareAndSet, delete: remove, get, list, commit }) => ({
    get: (key) => through(get(key)),
    list: (options) => through(list(options)),
    delete: (key, options) => through(remove(key, options), `delete ${key}`),
    compareAndSet: (key, expected, value) => through(compareAndSet(key, expected, value), `set ${key}`),
    commit: commit && ((writes) => through(commit(writes), `commit ${writes.changed.key}`))
  }))
  const arm = Effect.sync(() => void (isArmed = true))
  return { layer: Layer.provide(layer, store), isDead, writes, arm }
}
