/** PLAN-1: what is inferred of plans, and what a compiler refuses. Compiled, never run. */
import { Context, Effect, type Option, Schema, type Stream } from "effect"
import { type LanguageModel, Tool, Toolkit } from "effect/ai"
import type * as livePlan from "#src/plan/internal/livePlan.ts"
import type * as stepSchema from "#src/plan/internal/stepSchema.ts"
import type * as boundTool from "#src/tool/internal/boundTool.ts"
import { Agent, type Conversation, Run, type ToolContract, type VersionedStore } from "effect-emissary"
import {
  Plan,
  Reference,
  Step,
  When,
  type PlanError,
  type PlanEvent,
  type PlanInvalid,
  PlanRun
} from "effect-emissary/plan"
import { expectTypeOf } from "vitest"

class Db extends Context.Service<Db, { readonly url: string }>()("types/PlanDb") {}
class Mail extends Context.Service<Mail, { readonly from: string }>()("types/PlanMail") {}
class Chats extends Context.Service<Chats, { readonly history: Effect.Effect<Conversation.Conversation> }>()(
  "types/Chats"
) {}
class Writer extends Agent.Service<Writer>()("writer", {}) {}

type PlanOf<E> = E extends Effect.Effect<infer A, infer _E, infer _R> ? A : never
type Model = LanguageModel.LanguageModel

const empty = When.field("items").empty()

// A function without schemas sees JSON, and returns JSON
const look = Step.make("look", {
  target: (input) => {
    expectTypeOf(input).toEqualTypeOf<Step.Input>()
    return Effect.map(Db, ({ url }) => url + input.task)
  }
})
expectTypeOf(look).toEqualTypeOf<Step.Step<"look", never, Db>>()
Step.make("x", {
  // @ts-expect-error a date is no JSON
  target: () => Effect.succeed(new Date())
})

// A function with schemas sees what they decode to, and returns what they encode, in every form
const Kind = Schema.Struct({ kind: Schema.Literals(["look", "done"]), at: Schema.Date })
const before = Step.make("sort", {
  input: Schema.FiniteFromString,
  output: Kind,
  routesBy: "kind",
  target: ({ payload }) => {
    expectTypeOf(payload).toEqualTypeOf<number>()
    return Effect.succeed({ kind: "done", at: new Date(payload) })
  }
})
expectTypeOf(before).toEqualTypeOf<Step.Step<"sort", "look" | "done", never>>()
const after = Step.make("sort", {
  target: ({ payload }) => {
    expectTypeOf(payload).toEqualTypeOf<number>()
    return Effect.as(Mail, { kind: "look", at: new Date() })
  },
  routesBy: "kind",
  output: Kind,
  input: Schema.FiniteFromString
})
expectTypeOf(after).toEqualTypeOf<Step.Step<"sort", "look" | "done", Mail>>()
Step.make("x", {
  output: Kind,
  // @ts-expect-error the answer has no `at`
  target: () => Effect.succeed({ kind: "look" })
})
// @ts-expect-error routesBy: "king" is no field of the output of this step.
Step.make("x", { target: "x", output: Kind, routesBy: "king" })

// A field that may be absent or null, of one of several outputs
const Maybe = Schema.Union([
  Schema.Struct({ next: Schema.optionalKey(Schema.NullOr(Schema.Literal("look"))) }),
  Schema.Struct({ other: Schema.String })
])
const maybeNext = Step.make("m", { target: "t", output: Maybe, routesBy: "next" })
expectTypeOf(maybeNext).toEqualTypeOf<Step.Step<"m", "look", never>>()

// Schemas that need services have no place in a plan
declare const needy: Schema.Codec<number, string, Mail>
// @ts-expect-error the schema requires Mail
Step.make("x", { target: "x", output: needy })

// Agents, keys of agents, effects that find them, functions under a name, tools by name, plans
const helper = Agent.make("helper", {})
expectTypeOf(Step.make("a", { target: helper })).toEqualTypeOf<Step.Step<"a", never, Model>>()
expectTypeOf(Step.make("a", { target: Writer })).toEqualTypeOf<Step.Step<"a", never, Writer>>()
declare const found: Agent.Agent<string>
expectTypeOf(Step.make("a", { target: Effect.as(Mail, found) })).toEqualTypeOf<Step.Step<"a", never, Mail>>()
const named = Step.target("named", ({ task }) => Effect.map(Db, ({ url }) => url + task))
expectTypeOf(named).toEqualTypeOf<Step.FunctionTarget<Db>>()
expectTypeOf(Step.make("a", { target: named })).toEqualTypeOf<Step.Step<"a", never, Db>>()
const typed = Step.target("typed", { input: Schema.FiniteFromString, output: Schema.Date }, ({ payload }) => {
  expectTypeOf(payload).toEqualTypeOf<number>()
  return Effect.succeed(new Date(payload))
})
expectTypeOf(typed).toEqualTypeOf<Step.FunctionTarget>()
expectTypeOf(Step.make("a", { target: "search" })).toEqualTypeOf<Step.Step<"a", never, never>>()
declare const inner: Plan.Bound<string, Mail>
expectTypeOf(Step.make("a", { target: inner })).toEqualTypeOf<Step.Step<"a", never, Mail>>()

// The names a step refers to
const write = Step.make("write", {
  target: Writer,
  task: Reference.fromStep("look"),
  context: [Reference.fromParallel("sort"), Reference.fromMemory("anybody"), "be brief"],
  routes: [
    ["look", empty],
    ["publish", When.not(empty)]
  ],
  afterBranches: "publish"
})
expectTypeOf(write).toEqualTypeOf<Step.Step<"write", "look" | "sort" | "publish", Writer>>()
const publish = Step.make("publish", { target: "publish", context: Reference.fromStart, task: "Publish it" })
expectTypeOf(publish).toEqualTypeOf<Step.Step<"publish", never, never>>()
const done = Step.make("done", { target: "done" })

// Plans: their output and requirements
const plan = Plan.make("plan", [look, after, write, publish, done])
expectTypeOf(plan).toEqualTypeOf<Effect.Effect<Plan.Plan<Schema.Json, Db | Mail | Writer>, PlanInvalid.PlanInvalid>>()
const dated = Plan.make("dated", [look, publish], { output: Schema.Date })
expectTypeOf<PlanOf<typeof dated>>().toEqualTypeOf<Plan.Plan<Date, Db>>()
const judged = Plan.make("plan", [look, publish], {
  predicates: {
    long: ({ text }) => text.length > 100,
    known: ({ payload }) => {
      expectTypeOf(payload).toEqualTypeOf<Schema.Json>()
      return Effect.map(Mail, ({ from }) => from === payload)
    }
  }
})
expectTypeOf<PlanOf<typeof judged>>().toEqualTypeOf<Plan.Plan<Schema.Json, Db | Mail>>()
// Options that may or may not be there: their requirements and outputs are not forgotten
declare const isJudged: boolean
const predicates = { known: () => Effect.map(Mail, ({ from }) => from === "x") }
const either = Plan.make("plan", [look, publish], isJudged ? { predicates, output: Schema.Date } : { maxIterations: 1 })
expectTypeOf<PlanOf<typeof either>>().toEqualTypeOf<Plan.Plan<Schema.Json | Date, Db | Mail>>()
declare const optional: { readonly output?: typeof Schema.Date; readonly predicates?: typeof predicates }
const maybe = Plan.make("plan", [look, publish], optional)
expectTypeOf<PlanOf<typeof maybe>>().toEqualTypeOf<Plan.Plan<Schema.Json | Date, Db | Mail>>()
declare const anyOptions: livePlan.Options
const wide = Plan.make("plan", [look, publish], anyOptions)
expectTypeOf<PlanOf<typeof wide>>().toEqualTypeOf<Plan.Plan<unknown, unknown>>()
const none = Plan.make("plan", [])
expectTypeOf<PlanOf<typeof none>>().toEqualTypeOf<Plan.Plan<Schema.Json>>()

// Unknown names are refused, at every place, and named
// @ts-expect-error Step "write" refers to "publish", which is no step of this plan.
void Plan.make("plan", [look, after, write, done])
// @ts-expect-error Step "write" refers to "look", which is no step of this plan.
void Plan.make("x", [write, after, publish, done])
// @ts-expect-error Step "sort" refers to "done", which is no step of this plan.
void Plan.make("plan", [look, after])
expectTypeOf<livePlan.KnownNames<[typeof look, typeof after]>>().toEqualTypeOf<
  readonly [unknown, stepSchema.Mistake<`Step "sort" refers to "done", which is no step of this plan.`>]
>()
// @ts-expect-error "nam" is no option
void Plan.make("plan", [look], { nam: "x" })
// @ts-expect-error "maxIteration" is no option of Plan.make.
void Plan.make("x", [look], { maxIteration: 5 })
// @ts-expect-error options are no step
void Plan.make("x", [look, { maxIterations: 5 }])
// @ts-expect-error the name comes first
void Plan.make({ name: "x" }, [look])
// @ts-expect-error steps are in an array
void Plan.make("x", look)

// Names that are not literals are left to the check when the plan is made
declare const name: string
declare const pattern: `step-${number}`
declare const steps: ReadonlyArray<Step.Step<string, string, Db>>
void Plan.make("plan", [look, Step.make(name, { target: "x", task: Reference.fromStep("look") })])
void Plan.make("plan", [look, Step.make("x", { target: "x", task: Reference.fromStep(name) })])
void Plan.make("plan", [
  look,
  Step.make("x", { target: "x", task: Reference.fromStep(pattern), routes: [[name, empty]] })
])
void Plan.make("plan", steps)
void Plan.make(
  "plan",
  steps.map(({ name }) => Step.make(name, { target: "x", context: Reference.fromStep(name) }))
)
void Plan.make("plan", [
  Step.make(name, { target: "x" }),
  Step.make("x", { target: "x", task: Reference.fromStep("unknown") })
])
declare const any: ReadonlyArray<Step.Any>
const ofAny = Plan.make("x", any)
expectTypeOf<PlanOf<typeof ofAny>>().toEqualTypeOf<Plan.Plan<Schema.Json, unknown>>()
const ofMany = Plan.make("x", steps)
expectTypeOf(ofMany).toEqualTypeOf<Effect.Effect<Plan.Plan<Schema.Json, Db>, PlanInvalid.PlanInvalid>>()

// Binding: handlers are required there, agents and memories where it runs
const toolkit = Toolkit.make(
  Tool.make("search", { parameters: Schema.Struct({ task: Schema.String }), success: Schema.String }),
  Tool.make("publish", { success: Schema.String, dependencies: [Mail] })
)
declare const made: Plan.Plan<Date, Db>
const bound = Plan.bind(made, {
  toolkit,
  agents: { helper, Writer },
  memories: {
    helper: Plan.memoryFromConversation(Effect.flatMap(Chats, (chats) => chats.history)),
    writer: Plan.memoryInStore("writer"),
    reader: Plan.memoryInStore(Effect.map(Db, () => "reader"))
  }
})
type BindError = PlanInvalid.PlanInvalid | ToolContract.ToolContractError | boundTool.ToolNameError
type Both = Tool.Handler<"search"> | Tool.Handler<"publish"> | Mail
expectTypeOf(bound).toEqualTypeOf<
  Effect.Effect<Plan.Bound<Date, Db | Model | Writer | Chats | VersionedStore.VersionedStore>, BindError, Both>
>()
expectTypeOf(Plan.bind(made)).toEqualTypeOf<Effect.Effect<Plan.Bound<Date, Db>, BindError>>()
const notes = { text: Effect.map(Db, ({ url }) => url), save: () => Effect.asVoid(Mail) }
const recalled = Plan.bind(made, { memories: { helper: notes } })
expectTypeOf<PlanOf<typeof recalled>>().toEqualTypeOf<Plan.Bound<Date, Db | Mail>>()

declare const mailer: Agent.Agent<string, Mail>
const oneOf = Plan.bind(made, { agents: isJudged ? { mailer } : { found } })
expectTypeOf<PlanOf<typeof oneOf>>().toEqualTypeOf<Plan.Bound<Date, Db | Mail>>()

const noted = Plan.bind(made, { memories: { helper: { text: Effect.succeed("notes") } } })
expectTypeOf<PlanOf<typeof noted>>().toEqualTypeOf<Plan.Bound<Date, Db>>()

// Running: only what is bound
declare const ready: Plan.Bound<Date, Db>
expectTypeOf(Plan.run(ready, "x")).toEqualTypeOf<Effect.Effect<PlanRun.Result<Date>, PlanError.PlanError, Db>>()
expectTypeOf(Plan.stream(ready, { payload: [1], context: "c" })).toEqualTypeOf<
  Stream.Stream<PlanEvent.PlanEvent<Date>, PlanError.PlanError, Db>
>()
expectTypeOf(ready).toExtend<Agent.Agent<Date, Db>>()
// @ts-expect-error a plan that is not bound cannot run
void Plan.run(made, "x")
// @ts-expect-error nor is it an agent
Step.make("x", { target: made })

// Decisions are for a resumed run; a run that begins has nothing to decide
declare const state: PlanRun.State
const decisions = PlanRun.requests(state).filter(Run.isApprovable).map(Run.approve)
void Plan.resume(ready, state, { decisions, maxIterations: 5 })
void Plan.resumeStream(ready, state, { decisions })
// @ts-expect-error a run that begins takes no decisions
void Plan.run(ready, "x", { decisions })
// @ts-expect-error a run that begins takes no decisions
void Plan.stream(ready, "x", { decisions })

// The answer of an agent is the output of its step, unless the step has an output of its own
const Severity = Schema.Struct({ severity: Schema.Literals(["urgent", "look"]), at: Schema.Date })
const triage = Agent.make("triage", { output: Severity })
class Triage extends Agent.Service<Triage>()("triage", { output: Severity }) {}
declare const triagePlan: Plan.Bound<typeof Severity.Type, Mail>
const severity = "severity"
type Routed<R> = Step.Step<"t", "urgent" | "look", R>
expectTypeOf(Step.make("t", { target: triage, routesBy: severity })).toEqualTypeOf<Routed<Model>>()
expectTypeOf(Step.make("t", { target: Triage, routesBy: severity })).toEqualTypeOf<Routed<Triage>>()
const rejoins = Step.make("t", { target: triagePlan, routesBy: severity, afterBranches: "x" })
expectTypeOf(rejoins).toEqualTypeOf<Step.Step<"t", "urgent" | "look" | "x", Mail>>()
declare const foundTriage: Effect.Effect<Agent.Agent<typeof Severity.Type>, never, Db>
expectTypeOf(Step.make("t", { target: foundTriage, routesBy: severity })).toEqualTypeOf<Routed<Db>>()
const byKind = Step.make("t", { target: triage, output: Kind, routesBy: "kind" })
expectTypeOf(byKind).toEqualTypeOf<Step.Step<"t", "look" | "done", Model>>()
// @ts-expect-error Step "t" refers to "urgent", which is no step of this plan.
void Plan.make("plan", [look, Step.make("t", { target: Triage, routesBy: "severity" })])
// @ts-expect-error routesBy: "importance" is no field of the output of this step.
Step.make("t", { target: Triage, routesBy: "importance" })
// @ts-expect-error routesBy: "length" is no field of the output of this step, which has no fields.
Step.make("t", { target: helper, routesBy: "length" })
expectTypeOf<stepSchema.KnownField<"king", typeof Kind.Type>>().toEqualTypeOf<
  stepSchema.Mistake<
    | `routesBy: "king" is no field of the output of this step. There is "kind".`
    | `routesBy: "king" is no field of the output of this step. There is "at".`
  >
>()
expectTypeOf(Agent.outputSchema(Triage)).toEqualTypeOf<
  Option.Option<Schema.Codec<typeof Severity.Type, unknown, unknown, unknown>>
>()
