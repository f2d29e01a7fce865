import { assert, describe } from "@effect/vitest"
import { Schema } from "effect"
import { Picture, When, type PlanDefinition } from "effect-emissary/plan"
import { walk } from "./check-fixtures.ts"
import { plan, step } from "./definitions.ts"
import { mermaid } from "./picture-parsers.ts"
import { someRuns } from "../full.ts"
import { test } from "../test.ts"

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
        ...(parallel || (afterBranches ?? some.length) >= some.length ? {} : { afterBranches: `s${afterBranches}` })
      })
    )
  )
}

describe("PLAN-9 pictures and runs", () => {
  test.prop(
    "PLAN-9 L5 wherever a run goes, the picture has an edge, and no step it runs is called unreachable",
    [Generated],
    function* ([generated]) {
      const definition = build(generated)
      const { edges, nodes } = yield* mermaid(Picture.toMermaid(definition))
      const name = (id: string) => nodes.get(id)?.text.split("\n")[0]?.trim() ?? ""
      // An edge may lead through a point without a name.
      const leads = (from: string, to: string): boolean =>
        edges
          .filter((edge) => name(edge.from) === from)
          .flatMap((edge) => (name(edge.to) === "" ? edges.filter(({ from }) => from === edge.to) : [edge]))
          .some((edge) => name(edge.to) === to)
      const { completed, turns } = walk(definition, generated.choices)
      let previous: ReadonlyArray<string> = ["plan"]
      for (const turn of completed ? [...turns, ["end"]] : turns) {
        for (const from of previous) for (const to of turn) assert.isTrue(leads(from, to), `${from} to ${to}`)
        previous = turn
      }
      const dead = [...nodes.values()].filter(({ text }) => text.includes("not reachable"))
      const ran = new Set(turns.flat())
      for (const { text } of dead) assert.isFalse(ran.has(text.split("\n")[0] ?? ""))
    },
    { arbitrary: { runs: someRuns(200) } }
  )
})
