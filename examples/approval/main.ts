/**
 * A person decides.
 *
 * A tool with `needsApproval` is never run without a decision: the run ends `AwaitingApproval`, its state is JSON, and
 * days later any process resumes it with an answer. What ran before does not run again. A decision names the digest of the
 * request that the person saw, so it counts for that call only, and once.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, DateTime, Effect, Schema } from "effect"
import { Agent, Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"
import assert from "node:assert"

const Tools = Toolkit.make(
  Tool.make("get_balance", { parameters: Schema.Struct({ customer: Schema.String }), success: Schema.Finite }),
  Tool.make("refund", {
    description: "Pay money back",
    parameters: Schema.Struct({ customer: Schema.String, amount: Schema.Finite }),
    success: Schema.String,
    needsApproval: ({ amount }) => amount > 100 // `true` asks every time
  })
)

const toolsLayer = Tools.toLayer({
  get_balance: () => Effect.as(Console.log("  (get_balance runs)"), 250),
  refund: ({ amount, customer }) => Effect.as(Console.log("  (refund runs)"), `${amount} EUR paid to ${customer}`)
})

const cashier = Agent.make("cashier", { instructions: "You settle complaints.", toolkit: Tools })

/** Monday: the run stops where a person is needed. What is kept is text. */
const monday = Effect.gen(function* () {
  const result = yield* cashier.run("Ada wants her 250 EUR back.")
  assert(result.outcome === "AwaitingApproval")
  for (const { arguments: args, name } of result.requests) {
    yield* Console.log(`May I ${name} ${JSON.stringify(args)}?`)
  }
  return yield* Run.stateCodec.encodeJson(result.state)
}).pipe(
  Effect.provide(
    ScriptedModel.layer([
      {
        toolCalls: [
          { name: "get_balance", params: { customer: "Ada" } },
          { name: "refund", params: { customer: "Ada", amount: 250 } }
        ]
      }
    ])
  )
)

/** Tuesday: a person answers. A denied call is a result that the model reads, with the reason. */
const tuesday = Effect.fn(function* (kept: string, approved: boolean) {
  yield* Console.log(approved ? "Yes." : "No, she was paid already.")
  const state = yield* Run.stateCodec.decodeJson(kept)
  const expiresAt = DateTime.add(yield* DateTime.now, { hours: 1 })
  const by = { decidedBy: "grace@example.com", expiresAt }
  const decisions = Run.requests(state).map((request) =>
    approved && Run.isApprovable(request)
      ? Run.approve(request, by)
      : Run.deny(request, { ...by, reason: "she was paid already" })
  )
  const done = yield* cashier.resume(state, { decisions })
  yield* Console.log(done.text)
  const again = yield* Effect.flip(cashier.resume(done.state, { decisions }))
  yield* Console.log(`The same decision, delivered again: ${again.reason._tag}`)
})

const paid = ScriptedModel.layer([{ text: "Ada has her money.", expect: { toolResult: "250 EUR paid to Ada" } }])
const refused = ScriptedModel.layer([{ text: "I told Ada why not.", expect: { toolResult: "she was paid already" } }])

Effect.gen(function* () {
  const kept = yield* monday
  yield* Effect.provide(tuesday(kept, true), paid)
  yield* Effect.provide(tuesday(kept, false), refused)
}).pipe(Effect.provide(toolsLayer), NodeRuntime.runMain)
