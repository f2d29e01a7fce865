/** Plans with what their names stand for. */
import * as Effect from "effect/Effect"

/** Binds a plan. */
export const bind = (plan: unknown, options: unknown): Effect.Effect<never> => Effect.die([plan, options])
