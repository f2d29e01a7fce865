/** Fetch, then a report or an apology, then publish. The report is a plan of its own: a branch of two steps. */
import { Effect, Schema } from "effect"
import { Agent } from "effect-emissary"
import { Plan, Reference, Step, When } from "effect-emissary/plan"

export const Hits = Schema.Struct({ items: Schema.Array(Schema.String) }).annotate({ identifier: "Hits" })

const library = ["Effects are values.", "Effects are lazy.", "Monads are monoids."]

/** Functions have names, so that a plan can be sent without them. */
export const fetch = Step.target("fetch", { output: Hits }, ({ task }) =>
  Effect.succeed({ items: library.filter((line) => line.toLowerCase().includes(task.toLowerCase())) })
)
export const rank = Step.target("rank", { input: Hits, output: Schema.Array(Schema.String) }, ({ payload }) =>
  Effect.succeed(payload.items.toSorted((a, b) => a.length - b.length))
)
export const writer = Agent.make("writer", { instructions: "Write one sentence about what you are given." })

export const reportPlan = Plan.make("report", [
  Step.make("rank", { target: rank, writes: "ranked" }),
  Step.make("write", { target: writer })
])

export const plan = Effect.gen(function* () {
  const report = yield* Plan.bind(yield* reportPlan)
  return yield* Plan.make("research", [
    Step.make("fetch", {
      target: fetch,
      writes: "hits",
      routes: [
        ["apology", When.field("items").empty()],
        ["report", When.always]
      ],
      afterBranches: "publish"
    }),
    Step.make("report", { target: report, timeout: "1 minute", retry: { times: 2, delay: "1 second" } }),
    Step.make("apology", { target: "apologize", task: Reference.fromStart }),
    Step.make("publish", { target: "publish", context: Reference.fromStart })
  ])
})
