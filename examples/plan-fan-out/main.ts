/**
 * A parallel group and its aggregate.
 *
 * The members of a parallel group run at the same time, here at most two. One of them fails at first and is retried, which
 * does not affect the others. Their results are joined in the order of the plan, in whatever order they finish. Usage counts
 * every call once.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect } from "effect"
import { Plan, PlanRun } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import assert from "node:assert"
import { plan } from "./plan.ts"

let failures = 0

const model = ScriptedModel.layer((request): ScriptedModel.Turn => {
  const [system, user] = request.messages
  const field = /expert of (\w+)/.exec(system?.text ?? "")?.[1]
  const usage = { inputTokens: 100, outputTokens: 10 }
  if (field === "history" && failures++ === 0) return { fail: { reason: "UnknownError" } }
  if (field === "geology") return { text: "It is granite.", delay: 50, usage }
  return field === undefined
    ? { text: `All in all:\n${user?.text ?? ""}`, usage }
    : { text: `${field} knows it well.`, usage }
})

Effect.gen(function* () {
  const team = yield* Plan.bind(yield* plan)
  const result = yield* Plan.run(team, "Mont Blanc", { concurrency: 2 })
  assert(result.outcome === "Completed")
  yield* Console.log(result.text)
  for (const { attempts, step } of PlanRun.history(result.state)) {
    yield* Console.log(`  ${step}: ${attempts === 1 ? "at once" : `at attempt ${attempts}`}`)
  }
  yield* Console.log(`  ${JSON.stringify(result.usage)}`)
}).pipe(Effect.provide(model), NodeRuntime.runMain)
