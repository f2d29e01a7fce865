// mastra-ai/mastra#24588 (2026-09): a nested workflow that waits is resumed and completes, and the outer one waits for ever.
// Also microsoft/agent-framework#3255: requests that were answered before a restore are asked again.
// Right: the outer plan completes with the output of the inner one; the first inner pause is not asked again.
import { Effect } from "effect"
import { Run, VersionedStore } from "effect-emissary"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { same } from "../harness/keep.mjs"

const ran = []
const ask = (name) =>
  Step.make(name, {
    target: ({ task, decision }) =>
      decision === undefined
        ? Step.pause(`${name}?`)
        : Effect.sync(() => {
            ran.push(name)
            return `${task}+${name}`
          })
  })
const copy = (state) => Effect.flatMap(PlanRun.stateCodec.encodeJson(state), PlanRun.stateCodec.decodeJson)
const program = Effect.gen(function* () {
  const inner = yield* Plan.bind(yield* Plan.make("inner", [ask("one"), ask("two")]))
  const middle = yield* Plan.bind(yield* Plan.make("middle", [Step.make("in", { target: inner })]))
  const outer = yield* Plan.bind(
    yield* Plan.make("outer", [
      Step.make("deep", { target: middle }),
      Step.make("end", { target: ({ task }) => Effect.succeed(`${task}!`) })
    ])
  )
  let result = yield* Plan.run(outer, "x")
  const asked = []
  for (let i = 0; i < 5 && result.outcome === "Paused"; i++) {
    const pauses = PlanRun.requests(result.state)
    asked.push(...pauses.map((p) => p.arguments.reason))
    result = yield* Plan.resume(outer, yield* copy(result.state), {
      decisions: pauses.filter(Run.isApprovable).map(Run.approve)
    })
  }
  same("outcome", result.outcome, "Completed")
  same("output", result.output, "x+one+two!")
  same("asked", asked, ["one?", "two?"])
  same("ran", ran, ["one", "two"])
})
export default Effect.provide(program, VersionedStore.layerMemory)
