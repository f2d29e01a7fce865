/** The agent, and the workflow that runs it. Nothing in the agent knows of the workflow. */
import { Console, Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Workflow } from "effect/workflow"
import { Agent } from "effect-emissary"
import { Activities } from "effect-emissary/workflow"

const order = { id: Schema.String.annotate({ description: "Order id" }) }

export const Tools = Toolkit.make(
  // It runs again if the process dies in it
  Tool.make("get_order", { parameters: Schema.Struct(order), success: Schema.String }).annotate(Tool.Idempotent, true),
  // It never runs twice
  Tool.make("reserve", { parameters: Schema.Struct(order), success: Schema.String }),
  Tool.make("refund", {
    parameters: Schema.Struct({ ...order, amount: Schema.Finite }),
    success: Schema.String,
    needsApproval: true
  })
)

export class Clerk extends Agent.Service<Clerk>()("clerk", {
  instructions: "You settle complaints about orders.",
  toolkit: Tools
}) {}

export const Complaint = Workflow.make("Complaint", {
  payload: { id: Schema.String, text: Schema.String },
  success: Schema.String,
  idempotencyKey: ({ id }) => id
})

export const complaints = Complaint.toLayer(({ text }) =>
  Clerk.use((clerk) => clerk.ask(text)).pipe(
    Effect.provide(
      Activities.layer({
        // Here it would be sent to the person who decides
        onApproval: (pending) => Console.log(`asks ${JSON.stringify(pending)}`)
      })
    ),
    Effect.orDie
  )
)
