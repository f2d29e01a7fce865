// inngest/agent-kit#196 and PR 206 (2025-08, asked again 2026-03): routers are called again and again with old counts when the function is replayed; agents run redundantly.
// Right: over five pauses with JSON between them each step and each condition runs once for each round, and the route that was taken stays taken, although the condition would now say otherwise.
import { Effect } from "effect"
import { Plan, PlanRun, Step, When } from "effect-emissary/plan"
import { same } from "../harness/keep.mjs"

const counts = {}
const count = (k) => {
  counts[k] = (counts[k] ?? 0) + 1
}
let world = true
export default Effect.gen(function* () {
  const plan = yield* Plan.make(
    "p",
    [
      Step.make("start", {
        target: ({ task }) =>
          Effect.sync(() => {
            count("start")
            return task
          }),
        routes: [
          ["left", When.custom("open")],
          ["right", When.not(When.custom("open"))]
        ],
        afterBranches: "end"
      }),
      Step.make("left", {
        target: ({ task, decision }) =>
          decision === undefined
            ? Effect.andThen(
                Effect.sync(() => count("left asks")),
                Step.pause("l?")
              )
            : Effect.sync(() => {
                count("left")
                return `${task} left`
              })
      }),
      Step.make("right", {
        target: ({ task }) =>
          Effect.sync(() => {
            count("right")
            return `${task} right`
          })
      }),
      Step.make("end", {
        target: ({ task, decision }) => (decision === undefined ? Step.pause("e?") : Effect.succeed(task))
      })
    ],
    {
      predicates: {
        open: () =>
          Effect.sync(() => {
            count("open")
            return world
          })
      }
    }
  )
  const bound = yield* Plan.bind(plan)
  let result = yield* Plan.run(bound, "x")
  world = false
  for (let i = 0; i < 5 && result.outcome === "Paused"; i++) {
    const state = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(result.state))
    result = yield* Plan.resume(bound, state, {
      decisions: PlanRun.requests(state).map((p) => ({ ...p, approved: true }))
    })
  }
  same("output", result.output, "x left")
  same("counts", counts, { start: 1, open: 1, "left asks": 1, left: 1 })
})
