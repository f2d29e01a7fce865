/** A person decides before anything is paid. */
import { Effect, Schema } from "effect"
import { Agent } from "effect-emissary"
import { Plan, Reference, Step } from "effect-emissary/plan"
import { Tool, Toolkit } from "effect/ai"

export const Bank = Toolkit.make(
  Tool.make("pay", {
    description: "Pay an invoice",
    parameters: Schema.Struct({ invoice: Schema.String, amount: Schema.Finite }),
    success: Schema.String,
    needsApproval: true
  })
)

const reader = Agent.make("reader", { instructions: "What is this invoice about? Number and amount." })
const clerk = Agent.make("clerk", { instructions: "Pay the invoice.", toolkit: Bank })

export const plan = Plan.make("invoice", [
  Step.make("read", { target: reader, writes: "invoice" }),
  Step.make("pay", { target: clerk }),
  Step.make("file", {
    target: ({ context, task }) => Effect.succeed(`Filed: ${context} - ${task}`),
    context: Reference.fromStep("read")
  })
])
