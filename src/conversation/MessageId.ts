/**
 * Where message ids come from.
 *
 * @since 0.1.0
 */
import * as IdGenerator from "effect/ai/IdGenerator"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const random = Effect.gen(function* () {
  let id = "msg_"
  for (let i = 0; i < 16; i++) {
    id += alphabet.charAt(Math.floor((yield* Random.next) * alphabet.length))
  }
  return id
})

const ambient = Effect.flatMap(Effect.serviceOption(IdGenerator.IdGenerator), (generator) =>
  Option.isSome(generator) ? generator.value.generateId() : random
)

/**
 * Makes the id of the next message.
 *
 * **Details**
 *
 * The default uses the `IdGenerator` of `effect/ai` where one is provided, and
 * otherwise `msg_` followed by 16 letters and digits drawn from `Random`.
 *
 * **Example** (Deterministic ids)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Message, MessageId } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const message = Effect.runSync(Message.user("Hi").pipe(Effect.provide(MessageId.layerSequence("m"))))
 * assert.strictEqual(message.id, "m1")
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export const MessageId: Context.Reference<Effect.Effect<string>> = Context.Reference<Effect.Effect<string>>(
  "effect-emissary/conversation/MessageId",
  { defaultValue: () => ambient }
)

/**
 * The id of the next message.
 *
 * @category constructors
 * @since 0.1.0
 */
export const next: Effect.Effect<string> = Effect.flatMap(MessageId, (id) => id)

/**
 * Numbers messages `prefix1`, `prefix2` ... For tests and for stores that count.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerSequence = (prefix: string = "m"): Layer.Layer<never> =>
  Layer.effect(
    MessageId,
    Effect.map(Ref.make(0), (ref) =>
      Effect.map(
        Ref.updateAndGet(ref, (n) => n + 1),
        (n) => `${prefix}${n}`
      )
    )
  )
