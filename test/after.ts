import { type Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"

/** The result of an effect when that much time passes while it runs. */
export const after = Effect.fnUntraced(function* <A, E, R>(time: Duration.Input, effect: Effect.Effect<A, E, R>) {
  const fiber = yield* Effect.forkChild(effect)
  yield* TestClock.adjust(time)
  return yield* Fiber.join(fiber)
})
