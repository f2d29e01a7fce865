/** A function as a step. */
import * as Effect from "effect/Effect"
import type { FunctionTarget, Input } from "../../Target.ts"
import { type Attempt, ofCause, succeeded } from "./attempt.ts"
import type { Delivery } from "./reference.ts"

export const run = (target: FunctionTarget, delivery: Delivery & Pick<Input, "decision">): Effect.Effect<Attempt> =>
  Effect.suspend(() => target.execute(delivery)).pipe(
    Effect.map(succeeded),
    Effect.catchCause((cause) => ofCause(`step ${JSON.stringify(delivery.step)}`, cause))
  )
