/**
 * The cost of one event of a plan, by the length of the run it is applied to (L10).
 *
 * `node bench/plan.ts` prints the time per step of runs of 100, 1,000 and 10,000 steps,
 * for the fold alone and together with encoding each event, and the ratio to the shortest:
 * near 1 means that the cost of an event does not depend on the run. It fails when a ratio
 * is above 2.
 */
import { DateTime, Effect, Result } from "effect"
import * as planChange from "#src/plan/internal/planChange.ts"
import * as planTransition from "#src/run/internal/planTransition.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { PlanRun, type PlanDefinition } from "effect-emissary/plan"

const at = DateTime.makeUnsafe(0)

const step = (name: string, options: Partial<PlanDefinition.StepDefinition>): PlanDefinition.StepDefinition => ({
  name,
  target: { kind: "function", name },
  task: { _tag: "FromPrev" },
  parallel: false,
  ...options
})

/** A loop of a step, a band of two and a step that goes back. */
const definition: PlanDefinition.PlanDefinition = {
  name: "loop",
  maxIterations: 1_000_000,
  steps: [
    step("first", { writes: "key" }),
    step("a", { parallel: true }),
    step("b", { parallel: true }),
    step("back", { routes: [{ to: "first", when: { _tag: "Text", value: "more" } }] })
  ]
}

const first: Extract<PlanRun.Event, { readonly _tag: "PlanStarted" }> = {
  _tag: "PlanStarted",
  at,
  runId: "run",
  plan: "loop",
  digest: "sha256:0",
  depth: 0,
  maxIterations: definition.maxIterations,
  input: { task: "go", payload: "go" },
  context: {},
  basis: planChange.basisOf({ definition, digest: "sha256:0" })
}

const finished = (name: string, index: number): Extract<PlanRun.Event, { readonly _tag: "StepFinished" }> => ({
  _tag: "StepFinished",
  at,
  record: {
    step: name,
    task: "task",
    output: { index },
    usage: { inputTokens: 10 },
    attempts: 1,
    startedAt: at,
    finishedAt: at
  }
})

/** Microseconds per step. */
const measure = (steps: number, encode: boolean): number => {
  let state = runTransition.plans.start(first)
  const put = (event: PlanRun.Event) => {
    if (encode) Effect.runSync(PlanRun.eventCodec.encodeJson(event))
    state = Result.getOrThrow(runTransition.plans.apply(state, event))
  }
  const begin = performance.now()
  let done = 0
  while (done < steps) {
    const action = runTransition.plans.next(state)
    if (action._tag === "RunSteps") {
      for (const name of action.steps) put({ _tag: "StepStarted", at, step: name })
      for (const name of action.steps) put(finished(name, done++))
      planTransition.lastRecord(state)
      planTransition.recordOf(state, "first")
    } else if (action._tag === "ChooseRoute") {
      put({ _tag: "RouteTaken", at, step: action.step, to: "first" })
    }
  }
  return ((performance.now() - begin) * 1000) / steps
}

const median = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

let failed = false
for (const encode of [false, true]) {
  measure(10_000, encode)
  // As many steps in all on every side, so that all run equally warm
  const costs = [100, 1000, 10_000].map((steps) => ({
    steps,
    cost: median(Array.from({ length: 50_000 / steps }, () => measure(steps, encode)))
  }))
  const shortest = costs[0]?.cost ?? 0
  for (const { cost, steps } of costs) {
    failed ||= cost / shortest > 2
    console.log(
      `${encode ? "apply + encode" : "apply         "}  ${String(steps).padStart(6)} steps: ${cost.toFixed(1)} µs/step   ratio ${(cost / shortest).toFixed(2)}`
    )
  }
}
if (failed) process.exitCode = 1
