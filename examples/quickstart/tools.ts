/**
 * The tools, with the code that only the origin has. All of them only read, so that the receiver may call them without
 * an approval.
 */
import { Effect, Schema } from "effect"
import { RunContext, ToolSettings } from "effect-emissary"
import { Tool, Toolkit } from "effect/ai"

export const Tenant = Schema.Struct({ tenant: Schema.String })

const Order = Schema.Struct({
  id: Schema.String,
  shop: Schema.String,
  status: Schema.Literals(["packed", "shipped", "delivered"]),
  parcel: Schema.String
})

class CarrierUnavailable extends Schema.TaggedError<CarrierUnavailable>()("CarrierUnavailable", {
  parcel: Schema.String,
  retryAfterMinutes: Schema.Int
}) {
  override get message() {
    return `The carrier of parcel ${this.parcel} does not answer, try again in ${this.retryAfterMinutes} minutes`
  }
}

const GetOrder = Tool.make("get_order", {
  description: "Look up an order",
  parameters: Schema.Struct({ id: Schema.String.annotate({ description: "Order number" }) }),
  success: Order,
  failure: RunContext.RunContextError
})
  .annotate(ToolSettings.Timeout, "5 seconds")
  .annotate(Tool.Readonly, true)

const TrackParcel = Tool.make("track_parcel", {
  description: "Where a parcel is now",
  parameters: Schema.Struct({ parcel: Schema.String }),
  success: Schema.Struct({ place: Schema.String }),
  failure: CarrierUnavailable
}).annotate(Tool.Readonly, true)

const QuoteDelivery = Tool.make("quote_delivery", {
  description: "What it costs to send goods to an address",
  parameters: Schema.Struct({
    address: Schema.Struct({
      street: Schema.String,
      city: Schema.String,
      country: Schema.Literals(["DE", "FR", "IT"])
    }),
    goods: Schema.Array(
      Schema.Struct({ sku: Schema.String, quantity: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 99 })) })
    )
  }),
  success: Schema.Struct({ price: Schema.Finite, currency: Schema.Literal("EUR"), paidBy: Schema.String }),
  failure: RunContext.RunContextError
}).annotate(Tool.Readonly, true)

export const Tools = Toolkit.make(GetOrder, TrackParcel, QuoteDelivery)

export const toolsLayer = Tools.toLayer({
  get_order: Effect.fn(function* ({ id }) {
    const { tenant } = yield* RunContext.read(Tenant)
    yield* Effect.sleep("300 millis") // a slow warehouse
    return { id, shop: tenant, status: "shipped", parcel: `P-${id}` }
  }),
  track_parcel: ({ parcel }) => Effect.fail(new CarrierUnavailable({ parcel, retryAfterMinutes: 10 })),
  quote_delivery: Effect.fn(function* ({ address, goods }) {
    const { tenant } = yield* RunContext.read(Tenant)
    const pieces = goods.reduce((sum, { quantity }) => sum + quantity, 0)
    return { price: (address.country === "DE" ? 4.9 : 9.9) + pieces, currency: "EUR", paidBy: tenant }
  })
})
