/**
 * The cause behind a failure result.
 *
 * Results are data and hold no causes. Whoever turns a cause into a result
 * reports it here, and the batch that started the call hands it to its events.
 */
import type * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** Where the cause of one call is kept; `undefined` outside of a batch. */
export interface Slot {
  cause: Cause.Cause<unknown> | undefined
}

export const CallCause = Context.Reference<Slot | undefined>("effect-emissary/tool/CallCause", {
  defaultValue: () => undefined
})

/** Keeps the cause of the call that is being executed. */
export const report = (cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.map(CallCause, (slot) => {
    if (slot !== undefined) slot.cause = cause
  })

/** Forgets what an earlier attempt at the same call reported. */
export const reset: Effect.Effect<void> = Effect.map(CallCause, (slot) => {
  if (slot !== undefined) slot.cause = undefined
})
