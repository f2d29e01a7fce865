/**
 * A loop with a limit.
 *
 * Routes may lead back. `maxIterations` bounds a loop: when it is used up, the run fails with its state, and can be resumed
 * from there with a larger limit. The count includes the iterations before.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect } from "effect"
import { Plan, PlanRun } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import assert from "node:assert"
import { plan } from "./plan.ts"

let drafts = 0

const model = ScriptedModel.layer((request) =>
  request.messages[0]?.text.startsWith("Write")
    ? { text: `Draft ${++drafts}: values, not vows` }
    : { object: { good: drafts >= 4, advice: "Shorter." } }
)

Effect.gen(function* () {
  const slogan = yield* Plan.bind(yield* plan)
  const error = yield* Effect.flip(Plan.run(slogan, "Effect"))
  yield* Console.log(error.message)
  assert(error.state !== undefined)
  yield* Console.log(
    `  (done so far: ${PlanRun.history(error.state)
      .map(({ step }) => step)
      .join(", ")})`
  )

  const result = yield* Plan.resume(slogan, error.state, { maxIterations: 20 })
  assert(result.outcome === "Completed")
  yield* Console.log(`${result.text} (${result.iterations} iterations)`)
}).pipe(Effect.provide(model), NodeRuntime.runMain)
