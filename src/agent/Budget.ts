/**
 * Budgets: what a run may use, with all agents and plans inside it.
 *
 * **When to use**
 *
 * Use the option `budget` of a run, an agent or the sessions of a layer, so that nothing costs more than it may. A limit of model calls for each
 * message is `maxSteps`, and a limit of time without an outcome of its own is `timeouts`.
 *
 * **Details**
 *
 * A model call starts if its reservation fits the budget of its run and the budgets of all runs around it. It reserves the tokens of
 * its request, by an estimate, and `max_output_tokens` of the options of the model for its answer, 4,096 without that option, or less where less is
 * left. The reservation is the limit of tokens that the provider is sent, see {@link OutputLimit}. When the call ends, the report of the
 * provider counts in place of the reservation:
 *
 * | the call ends | what counts |
 * |---|---|
 * | with a report | the report, also where it is above the reservation; no other call starts then |
 * | with an answer and without a report | the reservation |
 * | with an error and without a report, or interrupted before the model has written anything | nothing |
 * | interrupted while the model is writing | the report, or an estimate of what was sent and written |
 * | with its process | the reservation, when the run is resumed |
 *
 * A call of a tool, and each attempt of a model call, counts when it starts. Calls that a provider runs by itself do not count, and neither do
 * runs that the code of a tool starts by itself, nor the models that a `ContextWindow` asks for summaries.
 *
 * The run ends as `BudgetExceeded` with the limit that refused a call. Calls of tools that did not start stay open: a resume with
 * another budget continues there. With `onExceeded: "ask"` the run waits with a question instead, `Run.Request`, and the answer raises the limit
 * or ends the run. The event `BudgetNeared` comes once for each limit, when 80 % are used, and again after an answer has raised the limit.
 *
 * **Example** (A run that may cost half a unit of money)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent, Budget, ModelPrices } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * class Support extends Agent.Service<Support>()("support", { instructions: "Answer shortly." }) {}
 *
 * const program = Effect.gen(function*() {
 *   const support = yield* Support
 *   const budget: Budget.Budget = { money: 0.5, modelCalls: 20, time: "2 minutes" }
 *   const first = yield* support.run("Where is order 42?", { budget })
 *   const second = yield* support.run("And order 43?", { budget: { modelCalls: 0 } })
 *   return { first, second }
 * })
 *
 * const { first, second } = await program.pipe(
 *   Effect.provide(Support.layer.pipe(Layer.provide(ScriptedModel.layer([
 *     { text: "On its way.", usage: { inputTokens: 1000, outputTokens: 100 } }
 *   ])))),
 *   Effect.provide(ModelPrices.layer({ "*": { input: 1.25, output: 10 } })),
 *   Effect.runPromise
 * )
 * assert.strictEqual(first.outcome, "Completed")
 * // 1,000 tokens at 1.25 and 100 at 10 for a million are 2,250 millionths
 * assert.strictEqual(Budget.left(first.state)[0]?.left.micros, 500_000 - 2250)
 * assert(second.outcome === "BudgetExceeded")
 * assert.deepStrictEqual([second.unit, second.limit, second.used], ["modelCalls", 0, 0])
 * ```
 *
 * @since 0.1.0
 */

import * as ledger from "../run/internal/ledger.ts"
import * as runParts from "../run/internal/runParts.ts"

export {
  /**
   * The limits of a budget as data, with `onExceeded` where the budget has it.
   *
   * @category models
   * @since 0.1.0
   */
  Limits,
  /**
   * The limits of a run. A limit that is absent does not hold.
   *
   * @category models
   * @since 0.1.0
   */
  type Budget,
  /**
   * Quantities as data, in whole numbers: `micros` are millionths of the currency of `ModelPrices`, and `millis` milliseconds.
   *
   * @category models
   * @since 0.1.0
   */
  Amounts,
  /**
   * The quantities that a budget limits.
   *
   * @category models
   * @since 0.1.0
   */
  Unit,
  /**
   * A budget, and what is left of it. `scope` is `"run"` for a budget of a run, and `"session"` for a budget of a session.
   *
   * @category models
   * @since 0.1.0
   */
  Line,
  /**
   * A limit of a budget, and how much of it is used.
   *
   * @category models
   * @since 0.1.0
   */
  type Usage,
  /**
   * The use of a run with a budget and of all runs inside it, and the budgets that hold.
   *
   * @category models
   * @since 0.1.0
   */
  Account,
  /**
   * A budget of an {@link Account}: its limits, what was used when the budget began (`from`), the units that `BudgetNeared` has reported (`near`),
   * and by how much answers have raised the limits (`raised`).
   *
   * @category models
   * @since 0.1.0
   */
  Scope,
  /**
   * A budget as the events of a run have it.
   *
   * @category models
   * @since 0.1.0
   */
  Given
} from "../run/internal/ledger.ts"

/**
 * The rest of each budget of a run. Reservations of calls under way are not in it.
 *
 * @category getters
 * @since 0.1.0
 */
export const left = (state: runParts.State | runParts.PlanState): ReadonlyArray<ledger.Line> => {
  if (state.account === undefined) return []
  const reserved = state instanceof runParts.State ? runParts.reservedIn(state) : runParts.reservedInFrame(state)
  return ledger.lines(state.account, reserved)
}

export {
  /**
   * The most tokens that the answer of the current model call may have, because no more are reserved for it; `undefined` where no budget
   * limits that. `AiSdk` sends it as the limit of the provider. An adapter of your own reads it in each call.
   *
   * @category references
   * @since 0.1.0
   */
  OutputLimit
} from "./internal/outputLimit.ts"
