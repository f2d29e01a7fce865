/**
 * Proves that a `ConversationStore` keeps the rules that chats that go on later rely on.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { ConversationStore } from "../conversation/ConversationStore.ts"
import * as rules from "./internal/stores/conversations.ts"
import * as stores from "./internal/stores/suite.ts"
import type { Check, Options } from "./StoreConformance.ts"

/**
 * The checks for a store: loading what was saved, versions, long conversations, laws, ids,
 * writers at once.
 *
 * **When to use**
 *
 * Use in the tests of a store of your own. The suite knows no test framework: register
 * each check as a test, or run them one after another.
 *
 * **Details**
 *
 * Each check builds the layer for itself, and deletes all conversations whose id starts with
 * `conformance/` before and after. What a killed process leaves is not checked.
 *
 * **Example** (Checking a store)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ConversationStore } from "effect-emissary"
 * import { ConversationStoreConformance } from "effect-emissary/testing"
 *
 * const checks = ConversationStoreConformance.suite("memory", ConversationStore.layerMemory, { durable: false })
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
  layer: Layer.Layer<ConversationStore, E>,
  options?: Options
): ReadonlyArray<Check> =>
  stores.suite(
    {
      key: ConversationStore,
      rules: rules.all,
      clear: (store, part) =>
        Effect.flatMap(
          rules.listAll(store, part, 100),
          Effect.forEach((id) => store.delete(id), { discard: true })
        )
    },
    name,
    layer,
    options
  )
