/** Services that a layer captured, under the context of each call. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"

/** What is in the context only because an enclosing agent had captured it. */
const Laid = Context.Reference<ReadonlyMap<string, unknown>>("effect-emissary/agent/internal/Laid", {
  defaultValue: () => new Map()
})

/** What belongs to the place where a layer was built. */
const neverLaid = [Scope.Scope.key, Tracer.ParentSpan.key, Laid.key]

/**
 * Lays captured services under the context of a call.
 *
 * What the caller provided stands. What an enclosing agent had captured for itself
 * gives way, or an agent inside another one would run on the outer one's model.
 */
export const layUnder =
  (captured: Context.Context<never>) =>
  <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.updateContext(effect, (current: Context.Context<never>) => {
      const before = Context.get(current, Laid)
      const laid = new Map(captured.mapUnsafe)
      for (const key of neverLaid) laid.delete(key)
      const own = new Map<string, unknown>()
      for (const [key, value] of current.mapUnsafe) {
        if (!before.has(key) || before.get(key) !== value) {
          own.set(key, value)
          laid.delete(key)
        } else if (!laid.has(key)) {
          laid.set(key, value)
        }
      }
      return Context.add(Context.makeUnsafe<never>(new Map([...laid, ...own])), Laid, laid)
    })
