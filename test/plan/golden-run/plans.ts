/** The plans whose runs the golden files hold. */
import type { PlanDefinition } from "effect-emissary/plan"
import * as definitions from "../definitions.ts"
import { makeRules } from "../definitions.ts"

const { step } = definitions

const plan = (name: string, ...steps: ReadonlyArray<PlanDefinition.StepDefinition>): PlanDefinition.PlanDefinition => ({
  ...definitions.plan(...steps),
  name,
  maxIterations: 10
})

/** A route into a branch and back, a band with writes, a step that is tried again. */
export const report = makeRules(
  plan(
    "report",
    step("sort", { routes: [{ to: "apology", when: { _tag: "Text", value: "none" } }], afterBranches: "send" }),
    step("write"),
    step("apology", { writes: "letter" }),
    step("send"),
    step("a", { parallel: true, writes: "a" }),
    step("b", { parallel: true })
  )
)

const inner = makeRules(plan("inner", step("check"), step("sign")))

/** A tool, an agent, a function and a plan that all wait in one band. */
export const waiting = makeRules(
  plan(
    "waiting",
    step("tool", { target: { kind: "tool", name: "pay" }, parallel: true }),
    step("agent", { target: { kind: "agent", name: "cashier" }, parallel: true }),
    step("ask", { parallel: true }),
    step("nested", { parallel: true }),
    step("done", { parallel: true })
  ),
  new Map([["nested", inner]])
)
