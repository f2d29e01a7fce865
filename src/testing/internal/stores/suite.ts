import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Check, type Options, StoreConformanceError } from "../../StoreConformance.ts"
import { problemOf, type Rule } from "./rule.ts"

interface Store<I, S> {
  readonly key: Context.Key<I, S>
  readonly rules: ReadonlyArray<Rule<S> & { readonly later?: Rule<S> }>
  /** Deletes everything whose name begins with a part. */
  readonly clear: (store: S, part: string) => Effect.Effect<void, unknown>
}

/** One check for each rule: in a layer of its own, and in a part of the store that is empty before and after. */
export const suite = <I, S, E>(
  { clear, key, rules }: Store<I, S>,
  name: string,
  layer: Layer.Layer<I, E>,
  options: Options | undefined
): ReadonlyArray<Check> =>
  rules
    .filter((rule) => rule.later === undefined || options?.durable !== false)
    .map((rule, index) => {
      const part = `conformance/${index}/`
      const open = <A, E2>(use: (store: S) => Effect.Effect<A, E2>) =>
        Effect.provide(Effect.flatMap(key, use), Layer.fresh(layer))
      const first = open((store) => Effect.andThen(clear(store, part), rule.check(store, part)))
      const { later } = rule
      const second = open((store) =>
        later === undefined ? clear(store, part) : Effect.andThen(later.check(store, part), clear(store, part))
      )
      return {
        name: `${name}: ${rule.name}`,
        check: Effect.andThen(first, second).pipe(
          Effect.asVoid,
          Effect.catchCause((cause) =>
            Effect.fail(new StoreConformanceError({ store: name, check: rule.name, problem: problemOf(cause) }))
          )
        )
      }
    })
