// openai/openai-agents-js PR 1418 (2026-06), openai/openai-agents-python PR 3259: a call that was approved or refused asks its policy (`needsApproval`) again on the resume: side effects, exceptions and another
// answer of the policy change what happens. Right: an approved call runs and a refused one does not, although the policy says or throws something else by then; a call that needed no approval is not asked about later.
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const copy = (state) => Effect.flatMap(Run.stateCodec.encodeJson(state), Run.stateCodec.decodeJson)
const once = (name, later, approved) => {
  let policy = 0
  let ran = 0
  let resumed = false
  const Tools = Toolkit.make(
    Tool.make("pay", {
      parameters: Schema.Struct({ n: Schema.Finite }),
      success: Schema.String,
      needsApproval: () => {
        policy++
        if (!resumed) return true
        return later()
      }
    })
  )
  const agent = Agent.make("clerk", { toolkit: Tools })
  return Effect.gen(function* () {
    const waiting = yield* agent.run("pay")
    same(`${name} waits`, waiting.outcome, "AwaitingApproval")
    resumed = true
    const exit = yield* Effect.exit(
      agent.resume(yield* copy(waiting.state), { decisions: waiting.requests.map((r) => ({ ...r, approved })) })
    )
    same(
      `${name} ${approved} outcome`,
      exit._tag === "Success" ? exit.value.outcome : String(exit.cause).slice(0, 200),
      "Completed"
    )
    same(`${name} ${approved} ran`, ran, approved ? 1 : 0)
    same(`${name} ${approved} the policy was asked`, policy, 1)
  }).pipe(
    Effect.provide([
      Tools.toLayer({
        pay: () =>
          Effect.sync(() => {
            ran++
            return "paid"
          })
      }),
      ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { n: 1 } }] }, { text: "done" }])
    ])
  )
}
export default Effect.gen(function* () {
  for (const approved of [true, false]) {
    yield* once("still true", () => true, approved)
    yield* once("now false", () => false, approved)
    yield* once("now an Effect", () => Effect.succeed(true), approved)
    yield* once(
      "now throws",
      () => {
        throw new Error("policy is down")
      },
      approved
    )
  }
})
