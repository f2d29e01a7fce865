/**
 * The newest events of a session in memory, and the signal that a reader waits for. The writer adds to it after each write.
 */

import * as Deferred from "effect/Deferred"
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Entry } from "./events.ts"

/** The number of events that are kept. */
export const limit = 256

/**
 * - `entries`: some of the newest events, without a gap, and none if another process has written since.
 * - `add`, `clear`: what the writer knows of new events. Both notify.
 * - `notify`: makes all who wait look again.
 * - `changed`: waits for the next notification.
 */
export interface Feed {
  readonly entries: () => ReadonlyArray<Entry>
  readonly add: (entries: ReadonlyArray<Entry>) => void
  readonly clear: () => void
  readonly notify: () => void
  readonly changed: () => Effect.Effect<void>
}

export const make = (): Feed => {
  let changed = Deferred.makeUnsafe<void>()
  let entries: ReadonlyArray<Entry> = []
  const notify = (): void => {
    const waiting = changed
    changed = Deferred.makeUnsafe()
    Deferred.doneUnsafe(waiting, Exit.void)
  }
  const set = (next: ReadonlyArray<Entry>): void => {
    entries = next
    notify()
  }
  return {
    entries: () => entries,
    add: (added) => set([...entries, ...added].slice(-limit)),
    clear: () => set([]),
    notify,
    changed: () => Deferred.await(changed)
  }
}
