/** Plans as plain data, for tests of the rules about them. */
import { DateTime, Result } from "effect"
import * as planCheck from "#src/plan/internal/planCheck.ts"
import type * as planFlow from "#src/plan/internal/planFlow.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import type { Json } from "effect-emissary/payload"
import type { PlanDefinition, PlanInvalid, PlanRun, When } from "effect-emissary/plan"
import { makeRules, plan, step } from "./definitions.ts"

/** Steps with nothing but a name. */
export const plain = (...names: ReadonlyArray<string>) => names.map((name) => step(name))

export const some = (name: string): When.When => ({ _tag: "Custom", name })

/** Routes that may all be refused. */
export const to = (...names: ReadonlyArray<string>) => ({ routes: names.map((to) => ({ to, when: some(to) })) })

/** Routes, one of them always taken. */
export const either = (yes: string, no: string) => ({
  routes: [
    { to: yes, when: some("yes") },
    { to: no, when: { _tag: "Not", when: some("yes") } as const }
  ]
})

export const object = (properties: Json.JsonObject, required = Object.keys(properties)): Json.JsonObject => ({
  type: "object",
  properties,
  required,
  additionalProperties: false
})

/** Schemas of the recordings. */
export const schemas = {
  Hits: { name: "Hits", json: object({ items: { type: "array", items: { type: "string" } } }) },
  Other: { name: "Other", json: object({ y: { type: "integer" } }) },
  Kb: { name: "Kb", json: object({ kind: { type: "string", enum: ["b"] } }) },
  KbOpt: { name: "KbOpt", json: object({ kind: { type: ["string", "null"], enum: ["b", null] } }) },
  KbGhost: { name: "KbGhost", json: object({ kind: { type: "string", enum: ["b", "ghost"] } }) },
  Kstr: { name: "Kstr", json: object({ kind: { type: "string" } }) }
} satisfies { readonly [name: string]: PlanDefinition.SchemaRef }

/** The fields of problems that most tests compare. */
export const brief = ({ code, slot, step }: PlanInvalid.Problem) =>
  step === undefined ? `${code} ${slot}` : `${code} ${step} ${slot}`

export const problems = (...steps: ReadonlyArray<PlanDefinition.StepDefinition>) =>
  planCheck.checkStructure(plan(...steps)).map(brief)

export const reasons = (...steps: ReadonlyArray<PlanDefinition.StepDefinition>) =>
  planCheck.checkStructure(plan(...steps)).map(({ reason }) => reason)

const at = DateTime.makeUnsafe(0)

export type Place = Pick<planFlow.FlowPlace, "position" | "branches">

/** The turns of a run whose choices are drawn: their steps, and where they begin, in which branches. */
export const walk = (definition: PlanDefinition.PlanDefinition, draws: ReadonlyArray<number>) => {
  const positions = new Map(definition.steps.map(({ name }, index) => [name, index]))
  let state = runTransition.plans.start({
    _tag: "PlanStarted",
    at,
    runId: "run",
    plan: "plan",
    digest: "",
    depth: 0,
    maxIterations: 60,
    input: { task: "", payload: "" },
    context: {},
    basis: makeRules(definition).basis
  })
  const put = (event: PlanRun.Event) => {
    state = Result.getOrThrow(runTransition.plans.apply(state, event))
  }
  const places: Array<Place> = []
  const turns: Array<ReadonlyArray<string>> = []
  let drawn = 0
  for (;;) {
    const action = runTransition.plans.next(state)
    if (action._tag === "Finish") return { places, turns, completed: action.outcome._tag === "Completed" }
    if (action._tag === "RunSteps") {
      places.push({ position: positions.get(action.steps[0]) ?? -1, branches: state.rejoins })
      turns.push(action.steps)
      for (const name of action.steps) put({ _tag: "StepStarted", at, step: name })
      for (const name of action.steps) {
        const record = { step: name, task: "", output: "", usage: {}, attempts: 1, startedAt: at, finishedAt: at }
        put({ _tag: "StepFinished", at, record })
      }
      continue
    }
    const routes = definition.steps[positions.get(action.step) ?? -1]?.routes ?? []
    const isSure = routes.some(({ when }) => when._tag === "Not")
    const choice = (draws[drawn++ % Math.max(1, draws.length)] ?? 0) % (routes.length + (isSure ? 0 : 1))
    const taken = routes[choice]?.to
    put({ _tag: "RouteTaken", at, step: action.step, ...(taken === undefined ? {} : { to: taken }) })
  }
}
