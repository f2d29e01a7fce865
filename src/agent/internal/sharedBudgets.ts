/** Budgets that runs of several sessions and processes share: the part that a model call needs, and its reservation in them. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { JsonObject } from "../../payload/Json.ts"
import * as durability from "../../run/internal/durability.ts"
import type * as ledger from "../../run/internal/ledger.ts"
import type * as agentParts from "./agentParts.ts"
import * as agentReason from "./agentReason.ts"

/**
 * - `reserve`: the reservation of a call of an agent with this `RunContext`, `undefined` where no budget holds, or the limit that refuses
 *   the call.
 * - `settle`: replaces the reservation by what was used. A reservation that is settled already stays as it is.
 */
export interface Service {
  readonly reserve: (
    about: { readonly agent: string; readonly context: JsonObject },
    estimate: ledger.Estimate
  ) => Effect.Effect<Result.Result<ledger.Hold | undefined, ledger.Usage>, { readonly message: string }>
  readonly settle: (hold: ledger.Hold, used: ledger.Amounts) => Effect.Effect<void>
}

export const SharedBudgets: Context.Reference<Service | undefined> = Context.Reference<Service | undefined>(
  "effect-emissary/agent/SharedBudgets",
  { defaultValue: () => undefined }
)

/** True for a run that may share budgets. */
export const areGiven = ({ context }: Pick<agentParts.ActiveRun, "context">): boolean =>
  Context.get(context, SharedBudgets) !== undefined

/** Reserves a call in the budgets of its keys. A durable program runs again, and has none. */
export const hold = Effect.fnUntraced(function* (
  { recorder }: agentParts.ActiveRun,
  { models }: agentParts.ModelAgent,
  estimate: ledger.Estimate
) {
  const shared = yield* SharedBudgets
  if (shared === undefined || (yield* durability.Durability) !== undefined) return Result.succeed(estimate)
  const { agent, context } = recorder.state
  const held = yield* Effect.mapError(shared.reserve({ agent, context }, estimate), ({ message: problem }) =>
    recorder.fail(agentReason.makeReason("ModelRegistryFailed", { model: models[0].name ?? "", problem }))
  )
  return Result.map(held, (found) => {
    recorder.shared = found
    const { outputTokens = estimate.outputTokens } = found?.reserved ?? {}
    return { ...estimate, outputTokens }
  })
})

/** Settles the reservation of the call under way, if it has one. A call that was not made has no use. */
export const settle = (
  { recorder }: Pick<agentParts.ActiveRun, "recorder">,
  used: ledger.Amounts | undefined
): Effect.Effect<void> => {
  const { shared: held } = recorder
  if (held === undefined) return Exit.void
  recorder.shared = undefined
  return Effect.flatMap(
    SharedBudgets,
    (shared) => shared?.settle(held, used === undefined ? {} : { ...used, modelCalls: 1 }) ?? Effect.void
  )
}
