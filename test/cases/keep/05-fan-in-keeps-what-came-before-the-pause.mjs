// microsoft/agent-framework#6372 (2026-06): a fan-in forgets the branch that had arrived when the run was checkpointed while the other one waits.
// Also #6573 (2026-06): the same checkpoint can be resumed only once, because the run changes it.
// Right: after JSON the join has both results, the finished branch does not run again, and the same state resumes twice with equal results.
import { Effect } from "effect"
import { Plan, PlanRun, Step, Reference } from "effect-emissary/plan"
import { same } from "../harness/keep.mjs"

const ran = []
const program = Effect.gen(function* () {
  const plan = yield* Plan.make("fan", [
    Step.make("left", {
      parallel: true,
      target: ({ task }) =>
        Effect.sync(() => {
          ran.push("left")
          return `L(${task})`
        })
    }),
    Step.make("right", {
      parallel: true,
      task: Reference.fromStart,
      target: ({ task, decision }) => (decision === undefined ? Step.pause("right?") : Effect.succeed(`R(${task})`))
    }),
    Step.make("third", {
      parallel: true,
      task: Reference.fromStart,
      target: ({ task, decision }) => (decision === undefined ? Step.pause("third?") : Effect.succeed(`T(${task})`))
    }),
    Step.make("join", { task: Reference.fromParallelAll("left"), target: ({ task }) => Effect.succeed(task) })
  ])
  const bound = yield* Plan.bind(plan)
  const paused = yield* Plan.run(bound, "x")
  same(
    "pauses",
    PlanRun.requests(paused.state).map((p) => p.arguments.reason),
    ["right?", "third?"]
  )
  const json = yield* PlanRun.stateCodec.encodeJson(paused.state)
  const once = (state, only) =>
    Plan.resume(bound, state, {
      decisions: PlanRun.requests(state)
        .filter((p) => !only || p.arguments.reason === only)
        .map((p) => ({ ...p, approved: true }))
    })
  const a = yield* once(yield* PlanRun.stateCodec.decodeJson(json))
  const b = yield* once(yield* PlanRun.stateCodec.decodeJson(json))
  const c = yield* once(paused.state)
  const half = yield* once(paused.state, "third?") // one at a time, in the other order
  same("half", half.outcome, "Paused")
  const d = yield* once(yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(half.state)))
  for (const [name, r] of Object.entries({ a, b, c, d })) {
    same(`${name} outcome`, r.outcome, "Completed")
    same(
      `${name} has all three`,
      ["L(x)", "R(x)", "T(x)"].every((t) => String(r.output).includes(t)),
      true
    )
  }
  same("left ran once", ran, ["left"])
})
export default program
