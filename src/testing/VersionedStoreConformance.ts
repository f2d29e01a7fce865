/**
 * Proves that a `VersionedStore` keeps the rules that everything stored relies on.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { type Service, VersionedStore } from "../conversation/VersionedStore.ts"
import { problemOf } from "./internal/stores/rule.ts"
import * as rules from "./internal/stores/versioned.ts"

/**
 * A store breaks a rule.
 *
 * @category errors
 * @since 0.1.0
 */
export class ConformanceError extends Schema.TaggedError<ConformanceError>(
  "effect-emissary/testing/VersionedStoreConformanceError"
)("ConformanceError", {
  store: Schema.String,
  check: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${this.store}: ${this.check}: ${this.problem}`
  }
}

/**
 * One rule, as an effect that fails when the store breaks it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Check {
  readonly name: string
  readonly check: Effect.Effect<void, ConformanceError>
}

/**
 * How the suite treats the store.
 *
 * **Details**
 *
 * - `durable`: values outlive the layer, and the layer built again finds them. Default
 *   `true`; say `false` for a store in memory.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly durable?: boolean | undefined
}

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
  rules.all
    .filter((rule) => rule.later === undefined || options?.durable !== false)
    .map((rule, index) => {
      const part = `conformance/${index}/`
      const open = <A, E2>(use: (store: Service) => Effect.Effect<A, E2>) =>
        Effect.provide(Effect.flatMap(VersionedStore, use), Layer.fresh(layer))
      const clear = (store: Service) =>
        Effect.flatMap(
          rules.listAll(store, part, 100),
          Effect.forEach((key) => store.delete(key), { discard: true })
        )
      const first = open((store) => Effect.andThen(clear(store), rule.check(store, part)))
      const { later } = rule
      const second =
        later === undefined ? open(clear) : open((store) => Effect.andThen(later.check(store, part), clear(store)))
      return {
        name: `${name}: ${rule.name}`,
        check: Effect.andThen(first, second).pipe(
          Effect.asVoid,
          Effect.catchCause((cause) =>
            Effect.fail(new ConformanceError({ store: name, check: rule.name, problem: problemOf(cause) }))
          )
        )
      }
    })
