import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Result, Schema } from "effect"
import * as planTransition from "#src/plan/internal/planTransition.ts"
import { Picture, When, type PlanDefinition, type PlanRun } from "effect-emissary/plan"
import { plan, step } from "./definitions.ts"
import { mermaid } from "./picture-parsers.ts"

const Small = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 7 }))
const Generated = Schema.Struct({
  steps: Schema.Array(
    Schema.Struct({ parallel: Schema.Boolean, routes: Schema.Array(Small), afterBranches: Schema.optionalKey(Small) })
  ),
  choices: Schema.Array(Small)
})

/** A plan whose routes lead to steps outside of bands. */
const build = ({ steps }: typeof Generated.Type): PlanDefinition.PlanDefinition => {
  const some = steps.slice(0, 8)
  const alone = some.flatMap(({ parallel }, index) => (parallel ? [] : [`s${index}`]))
  const pick = (index: number) => alone[index % Math.max(1, alone.length)] ?? "s0"
  return plan(
    ...some.map(({ afterBranches, parallel, routes }, index) =>
      step(`s${index}`, {
        parallel,
        ...(parallel || routes.length === 0
          ? {}
          : { routes: routes.slice(0, 3).map((to) => ({ to: pick(to), when: When.custom(`c${to}`) })) }),
        ...(parallel || afterBranches === undefined || afterBranches >= some.length
          ? {}
          : { afterBranches: `s${afterBranches}` })
      })
    )
  )
}

const at = DateTime.makeUnsafe(0)

/** The turns of a run that takes its routes by these choices, by the rules that all runs follow. */
const walk = (
  definition: PlanDefinition.PlanDefinition,
  choices: ReadonlyArray<number>
): ReadonlyArray<ReadonlyArray<string>> => {
  const rules = planTransition.makeRules(definition)
  const input = { task: "", payload: "" }
  let state = Result.getOrThrow(
    planTransition.fold(rules, [
      { _tag: "PlanStarted", at, runId: "r", plan: "p", digest: "d", depth: 0, maxIterations: 40, input, context: {} }
    ])
  )
  const apply = (event: PlanRun.Event) => {
    state = Result.getOrThrow(planTransition.apply(rules, state, event))
  }
  const turns: Array<ReadonlyArray<string>> = []
  let chosen = 0
  for (;;) {
    const action = planTransition.next(rules, state)
    if (action._tag === "Finish") return action.outcome._tag === "Completed" ? [...turns, ["end"]] : turns
    if (action._tag === "RunSteps") {
      turns.push(action.steps)
      for (const step of action.steps) apply({ _tag: "StepStarted", at, step })
      for (const step of action.steps) {
        const record = { step, task: "", output: "", usage: {}, attempts: 1, startedAt: at, finishedAt: at }
        apply({ _tag: "StepFinished", at, record })
      }
      continue
    }
    const routes = definition.steps.find(({ name }) => name === action.step)?.routes ?? []
    const choice = choices[chosen++ % Math.max(1, choices.length)] ?? 0
    const route = routes[choice % (routes.length + 1)]
    apply({ _tag: "RouteTaken", at, step: action.step, ...(route === undefined ? {} : { to: route.to }) })
  }
}

describe("PLAN-9 pictures and runs", () => {
  it.effect.prop(
    "PLAN-9 L5 wherever a run goes, the picture has an edge, and no step it runs is called unreachable",
    [Generated],
    ([generated]) =>
      Effect.gen(function* () {
        const definition = build(generated)
        const { edges, nodes } = yield* mermaid(Picture.toMermaid(definition))
        const name = (id: string) => nodes.get(id)?.text.split("\n")[0]?.trim() ?? ""
        const leads = (from: string, to: string): boolean =>
          edges.some((edge) => name(edge.from) === from && name(edge.to) === to) ||
          edges.some(
            (edge) =>
              name(edge.from) === from &&
              name(edge.to) === "" &&
              edges.some((next) => next.from === edge.to && name(next.to) === to)
          )
        const turns = walk(definition, generated.choices)
        let previous: ReadonlyArray<string> = ["plan"]
        for (const turn of turns) {
          for (const from of previous) for (const to of turn) assert.isTrue(leads(from, to), `${from} to ${to}`)
          previous = turn
        }
        const dead = [...nodes.values()].filter(({ text }) => text.includes("not reachable"))
        const ran = new Set(turns.flat())
        for (const { text } of dead) assert.isFalse(ran.has(text.split("\n")[0] ?? ""))
      }),
    { arbitrary: { runs: 200 }, timeout: 60_000 }
  )
})
