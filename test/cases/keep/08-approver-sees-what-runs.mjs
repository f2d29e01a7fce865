// pydantic/pydantic-ai#6968 (2026-07): the approver sees the arguments of the model, and the tool runs with others (clamped, defaulted, trimmed).
// Right: what the request shows is the JSON form of what the handler receives.
import { Effect, Schema, SchemaGetter } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const Clamped = Schema.Finite.pipe(
  Schema.decodeTo(Schema.Finite, {
    decode: SchemaGetter.transform((n) => Math.min(n, 50)),
    encode: SchemaGetter.transform((n) => n)
  })
)
const Transfer = Tool.make("transfer", {
  parameters: Schema.Struct({
    amount: Clamped,
    to: Schema.Trim,
    note: Schema.String.pipe(Schema.withDecodingDefaultKey(Effect.succeed("none")))
  }),
  success: Schema.String,
  needsApproval: true
})
const Tools = Toolkit.make(Transfer)
let got
const program = Effect.gen(function* () {
  const agent = Agent.make("bank", { toolkit: Tools })
  const waiting = yield* agent.run("send")
  same("outcome", waiting.outcome, "AwaitingApproval")
  const shown = waiting.requests[0].arguments
  const done = yield* agent.resume(waiting.state, {
    decisions: waiting.requests.filter(Run.isApprovable).map(Run.approve)
  })
  same("done", done.outcome, "Completed")
  same("handler got", got, { amount: 50, to: "Ada", note: "none" })
  same("shown is received", shown, got)
})
export default Effect.provide(program, [
  Tools.toLayer({
    transfer: (a) =>
      Effect.sync(() => {
        got = a
        return "ok"
      })
  }),
  ScriptedModel.layer([{ toolCalls: [{ name: "transfer", params: { amount: 100, to: "  Ada  " } }] }, { text: "sent" }])
])
