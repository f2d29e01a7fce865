import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"

/** Runs effects of the same name one after another, in this process. */
type Mutex = (name: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

export const make = (): Mutex => {
  const entries = new Map<string, { readonly semaphore: Semaphore.Semaphore; users: number }>()
  const enter = (name: string) => {
    const entry = entries.get(name) ?? { semaphore: Semaphore.makeUnsafe(1), users: 0 }
    entry.users += 1
    entries.set(name, entry)
    return entry
  }
  return (name) => (effect) =>
    Effect.acquireUseRelease(
      Effect.sync(() => enter(name)),
      ({ semaphore }) => semaphore.withPermit(effect),
      (entry) =>
        Effect.sync(() => {
          entry.users -= 1
          if (entry.users === 0) entries.delete(name)
        })
    )
}
