/**
 * The prices of models, from a table of your own. A budget of money needs them, see `Budget`.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { own } from "../payload/internal/values.ts"
import type { Price } from "../run/internal/ledger.ts"

export {
  /**
   * The price of a model, in any currency, for a million tokens.
   *
   * @category models
   * @since 0.1.0
   */
  type Price
} from "../run/internal/ledger.ts"

/**
 * The service that knows the prices of models.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  /** The price of a model by its name in the agent, such as `"openai/gpt-5.2"`. The `LanguageModel` of the context has no name. */
  readonly priceOf: (model: string | undefined) => Price | undefined
}

/**
 * The prices of models. By default no model has a price.
 *
 * @category services
 * @since 0.1.0
 */
export const ModelPrices: Context.Reference<Service> = Context.Reference<Service>("effect-emissary/agent/ModelPrices", {
  defaultValue: () => ({ priceOf: () => undefined })
})

/**
 * Prices from a table: names of models with their prices for a million tokens. The entry `"*"` is the price of all other models, and of
 * a `LanguageModel` that has no name.
 *
 * @see `Budget` for an example
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (prices: { readonly [model: string]: Price }): Layer.Layer<never> =>
  Layer.succeed(ModelPrices, {
    priceOf: (model) => (model === undefined ? undefined : own(prices, model)) ?? own(prices, "*")
  })
