import { assert } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"
import { Plan, PlanInvalid, Reference, Step, When } from "effect-emissary/plan"
import { mentions } from "../groups/wire.ts"
import { types } from "../types.ts"
import type { Case } from "../vocabulary.ts"

const answer = () => Effect.succeed("")

/** Plans that are built by hand, as version 2 writes them. */
const written = <E>(plan: Effect.Effect<Plan.Plan<unknown, unknown>, E>) =>
  Effect.fnUntraced(function* ({ expect }: Case) {
    const wire = yield* Plan.encode(yield* plan, { version: 2 })
    assert.strictEqual(JSON.stringify(wire), JSON.stringify(expect["to_dict"]))
  })

/** Plans that are built by hand and refused. */
const refused = <A, E extends { readonly _tag: string; readonly message: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.fnUntraced(function* ({ expect }: Case) {
    const result = yield* Effect.result(effect)
    assert(Result.isFailure(result), "expected a refusal")
    assert.strictEqual(result.failure._tag, "PlanInvalid")
    mentions(result.failure.message, expect)
  })

const X = Tool.make("x", { parameters: Schema.Struct({ task: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(X)
const handlers = toolkit.toLayer({ x: () => Effect.succeed("") })

const research = Agent.make("research", { instructions: "" })

const guide = Plan.make(
  { predicates: { "routes:fetch:apology": () => true } },
  Step.make("fetch", {
    target: Step.target("fetch", answer),
    writes: "hits",
    output: types["Hits"],
    routes: [["apology", When.custom("routes:fetch:apology")]]
  }),
  Step.make("rank", { target: Step.target("rank", answer), task: Reference.fromStep("fetch"), writes: "ranked" }),
  Step.make("write", { target: "write", task: Reference.fromStep("rank") }),
  Step.make("apology", { target: "apology" })
)

export const scenarios = {
  A25: written(
    Plan.make(
      Step.make("other", { target: Step.target("fetch", answer) }),
      Step.make("z", { target: Agent.make("searcher", { instructions: "" }) })
    )
  ),
  A26: written(Plan.make(Step.make("first", { target: answer }), Step.make("p", { target: answer }))),
  A28: written(Plan.make(Step.make("a", { target: "a" }))),
  A30: written(guide),
  D53: refused(
    Effect.flatMap(Plan.make(Step.make("a", { target: research, context: Reference.fromMemory("research") })), (plan) =>
      Plan.bind(plan, { agents: { research } })
    )
  ),
  D55: refused(
    Effect.flatMap(Plan.make(Step.make("a", { target: "x", task: Reference.fromAgent("x") })), (plan) =>
      Effect.provide(Plan.bind(plan, { toolkit }), handlers)
    )
  ),
  D56: refused(
    Effect.flatMap(Plan.make(Step.make("a", { target: "x", context: [Reference.fromAgent("x")] })), (plan) =>
      Plan.bind(plan, { agents: { x: research }, memories: { x: Plan.makeMemory({ text: Effect.succeed("") }) } })
    )
  ),
  D61: Effect.fnUntraced(function* ({ expect }: Case) {
    const names: ReadonlyArray<string> = ["a", "a"]
    const made = yield* Effect.result(
      Plan.make(...names.map((name) => Step.make(name, { target: "t", task: Reference.fromStep("nowhere".slice()) })))
    )
    assert.strictEqual(Result.isSuccess(made), expect["OK"] === true, "whether it can be made")
    if (Result.isFailure(made)) assert.instanceOf(made.failure, PlanInvalid.PlanInvalid)
  })
}
