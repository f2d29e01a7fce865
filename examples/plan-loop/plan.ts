/** Write and review until the review is content, or the limit is reached. */
import { Effect, Schema } from "effect"
import { Agent } from "effect-emissary"
import { Plan, Reference, Step, When } from "effect-emissary/plan"

const Review = Schema.Struct({ good: Schema.Boolean, advice: Schema.String })

const writer = Agent.make("writer", { instructions: "Write a slogan. Follow the advice, if there is any." })
const critic = Agent.make("critic", { instructions: "Is this slogan good?", output: Review })

export const plan = Plan.make(
  "slogan",
  [
    Step.make("brief", { target: ({ task }) => Effect.succeed(`A slogan for ${task}`) }),
    Step.make("write", { target: writer, context: Reference.fromStart, writes: "slogan" }),
    Step.make("review", { target: critic, routes: [["write", When.field("good").is(false)]] }),
    Step.make("print", {
      task: Reference.fromStep("write"),
      target: ({ task }) => Effect.succeed(task.toUpperCase())
    })
  ],
  { maxIterations: 6 }
)
