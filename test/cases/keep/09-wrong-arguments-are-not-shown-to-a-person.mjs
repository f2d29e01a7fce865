// pydantic/pydantic-ai#3893 and PR 4016 (2026-01): a call with arguments that do not fit is shown to a person first, and fails after the approval.
// Also #3350: a history that ends in an unapproved call counts as approved.
// Right: the model gets a validation error at once and no request is made; the corrected call asks. A conversation with an open call asks, too.
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Message } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

const Tools = Toolkit.make(
  Tool.make("pay", {
    parameters: Schema.Struct({ amount: Schema.Finite }),
    success: Schema.String,
    needsApproval: true
  })
)
let ran = 0
const Live = Tools.toLayer({
  pay: () =>
    Effect.sync(() => {
      ran++
      return "paid"
    })
})
const agent = Agent.make("clerk", { toolkit: Tools })
const first = Effect.gen(function* () {
  const waiting = yield* agent.run("pay")
  same("outcome", waiting.outcome, "AwaitingApproval")
  same(
    "one request, for the corrected call",
    waiting.requests.map((r) => r.arguments),
    [{ amount: 5 }]
  )
  const transcript = Conversation.transcript(waiting.conversation)
  holds(
    "the first call has a validation error",
    transcript.some((l) => l.role === "tool" && l.type === "validation_error"),
    transcript
  )
  same("ran", ran, 0)
}).pipe(
  Effect.provide([
    Live,
    ScriptedModel.layer([
      { toolCalls: [{ name: "pay", params: { amount: "five" } }] },
      { toolCalls: [{ name: "pay", params: { amount: 5 } }] }
    ])
  ])
)
const second = Effect.gen(function* () {
  let chat = yield* Conversation.addUser(Conversation.empty, "pay")
  chat = yield* Conversation.addAssistant(chat, [
    Message.toolCallPart({ id: "c1", name: "pay", arguments: { amount: 7 } })
  ])
  const waiting = yield* agent.run(undefined, { conversation: chat })
  same("open call of a history", waiting.outcome, "AwaitingApproval")
  same("ran", ran, 0)
}).pipe(Effect.provide([Live, ScriptedModel.layer([])]))
export default Effect.andThen(first, second)
