// microsoft/agent-framework#3060 (2026-01): a fan-in inside a loop joins in the first round only; later rounds join old or too few results.
// Right: in each of three rounds the join reads the results of that round.
import { Effect, Schema } from "effect"
import { Plan, PlanRun, Step, Reference, When } from "effect-emissary/plan"
import { same } from "../harness/keep.mjs"

const program = Effect.gen(function* () {
  let round = 0
  const joined = []
  const plan = yield* Plan.make("rounds", [
    Step.make("gate", { target: () => Effect.sync(() => `r${++round}`) }),
    Step.make("bull", {
      parallel: true,
      target: ({ task }) => Effect.sleep("5 millis").pipe(Effect.as(`bull ${task}`))
    }),
    Step.make("bear", {
      parallel: true,
      task: Reference.fromStep("gate"),
      target: ({ task }) => Effect.succeed(`bear ${task}`)
    }),
    Step.make("merge", {
      task: Reference.fromParallelAll("bull"),
      target: ({ task }) =>
        Effect.sync(() => {
          joined.push(task)
          return { n: round }
        }),
      output: Schema.Struct({ n: Schema.Finite }),
      routes: [["gate", When.field("n").lessThan(3)]]
    }),
    Step.make("end", { target: ({ task }) => Effect.succeed(JSON.stringify(task)) })
  ])
  const bound = yield* Plan.bind(plan)
  const result = yield* Plan.run(bound, "go")
  same("outcome", result.outcome, "Completed")
  same("rounds", joined.length, 3)
  for (const i of [1, 2, 3])
    same(
      `round ${i} joined its own`,
      [`bull r${i}`, `bear r${i}`].every((t) => joined[i - 1]?.includes(t)),
      true
    )
  for (const i of [2, 3]) same(`round ${i} has nothing old`, joined[i - 1]?.includes(`r${i - 1}`), false)
  same("history", PlanRun.history(result.state).filter((h) => h.step === "merge").length, 3)
})
export default program
