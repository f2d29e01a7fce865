/**
 * A plan with the code behind its names, checked and bound, and the options of its runs.
 */

import * as Effect from "effect/Effect"
import * as EffectInspectable from "effect/Inspectable"
import type { Inspectable } from "effect/Inspectable"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import * as Agent from "../../agent/Agent.ts"
import type { Budget } from "../../agent/Budget.ts"
import type { Guard } from "../../agent/Guard.ts"
import type { Decision } from "../../agent/Run.ts"
import * as agentTypes from "../../agent/internal/agentTypes.ts"
import type { Wrap } from "../../agent/internal/agentParts.ts"
import * as Digest from "../../payload/Digest.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import type { PayloadError } from "../../payload/PayloadError.ts"
import * as base from "../../payload/internal/base.ts"
import * as callOptions from "../../payload/internal/options.ts"
import { defined, kindOf } from "../../payload/internal/values.ts"
import type { ToolSet } from "../../tool/internal/boundTool.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import type { PlanError } from "../PlanError.ts"
import * as PlanInvalid from "../PlanInvalid.ts"
import type * as PlanRun from "../PlanRun.ts"
import type * as Step from "../Step.ts"
import * as planCheck from "./planCheck.ts"
import * as planNames from "./planNames.ts"
import * as stepSchema from "./stepSchema.ts"
import type * as stepTarget from "./stepTarget.ts"

/**
 * A plan whose structure was checked. `A` is its output, `R` the services of its code. It
 * cannot run before `Plan.bind` has resolved its names.
 *
 * **Details**
 *
 * `definition` is the plan as plain data. `digest` is the SHA-256 of the canonical JSON of the
 * definition, without name and description: it is the same on every machine and after
 * `Plan.encode` and `Plan.decode`. A state is resumed by a plan of the same digest, or by a plan
 * that `onChange` allows, see `ResumeOptions`. Code is part of neither: a function that was changed
 * leaves the digest as it is. A logged plan shows its name, its digest and the names of its steps.
 *
 * @category models
 * @since 0.1.0
 */
export interface Plan<out A, out R = never> extends Inspectable {
  readonly [planNames.planTypeId]: { readonly _A: Types.Covariant<A>; readonly _R: Types.Covariant<R> }
  readonly definition: PlanDefinition.PlanDefinition
  readonly digest: string
  /** @internal */
  readonly live: LivePlan
}

/**
 * A plan that can run. It is an agent, too, wherever an agent can be: as a step of another
 * plan, as a tool of an agent, in `agent.ask`.
 *
 * **When to use**
 *
 * Use the functions of this module (`Plan.run`, `Plan.resume` ...) for the plan's own results and events, and the
 * methods (`bound.run`, `bound.ask` ...) where any agent will do. The methods answer with a text message, and return
 * the state of an agent.
 *
 * @category models
 * @since 0.1.0
 */
export interface Bound<out A, out R = never> extends agentTypes.Agent<A, R>, Inspectable {
  readonly [planNames.boundTypeId]: typeof planNames.boundTypeId
  readonly definition: PlanDefinition.PlanDefinition
  readonly digest: string
  /** @internal */
  readonly live: BoundPlan
}

/**
 * A condition of a route as code, for `When.custom(name)`. It sees the payload of the step
 * that was just run, and the text of it.
 *
 * **Gotchas**
 *
 * Only the name of the predicate is part of the definition. Prefer the conditions of
 * `When`, which travel with the plan and are drawn.
 */
type CustomPredicate<R = unknown> = (input: PredicateInput) => boolean | Effect.Effect<boolean, unknown, R>

/**
 * The parts of a plan besides its name and its steps.
 */
export interface Options {
  /** The purpose of the plan; none by default. */
  readonly description?: string | undefined
  /**
   * The most turns of a run; default 100. A turn is a step, or a whole parallel group. A run that needs more fails with
   * `MaxIterationsExceeded`.
   */
  readonly maxIterations?: number | undefined
  /** A Schema that the output of the last step is decoded with. Default: JSON unchanged. */
  readonly output?: stepSchema.StepSchema | undefined
  /** The code behind `When.custom(name)`, by name; none by default. */
  readonly predicates?: { readonly [name: string]: CustomPredicate } | undefined
}

/**
 * The names in `Refs` that are not among `Names`. Names that are only known as `string`
 * are left to the check when the plan is made.
 */
type UnknownNames<Refs extends string, Names extends string> = Refs extends unknown
  ? {} extends Record<Refs, 1>
    ? never
    : Refs extends Names
      ? never
      : Refs
  : never

/**
 * Steps that refer to steps of the same list only.
 */
export type KnownNames<Steps extends ReadonlyArray<Step.Any>> = {
  readonly [K in keyof Steps]: Steps[K] extends Step.Step<infer Name, infer Refs, infer _R>
    ? [UnknownNames<Refs, Steps[number]["name"]>] extends [never]
      ? unknown
      : stepSchema.Mistake<`Step "${Name}" refers to "${UnknownNames<Refs, Steps[number]["name"]>}", which is no step of this plan.`>
    : unknown
}

/**
 * Options of a plan without unknown fields.
 */
export type KnownOptions<O> = {
  readonly [K in keyof O]: K extends keyof Options
    ? Options[K]
    : stepSchema.Mistake<`"${K & string}" is no option of Plan.make.`>
}

/**
 * The output of a plan: the type of its `output`, or JSON.
 */
export type PlanOutput<O extends Options> =
  OptionOf<O, "output"> extends infer S ? (S extends stepSchema.StepSchema ? S["Type"] : Schema.Json) : never

/**
 * An option of a plan, for each of the options that are possible: `undefined` where one
 * is not there, or may not be.
 */
type OptionOf<O, Key extends keyof Options> = O extends { readonly [K in Key]?: infer Value }
  ? Key extends keyof O
    ? Value | (O extends { readonly [K in Key]: unknown } ? never : undefined)
    : undefined
  : undefined

/**
 * The services of the target of a step, which are not known of {@link Step.Any}.
 */
type StepServices<S> = S extends Step.Step<infer _Name, infer _Refs, infer R> ? R : unknown

/**
 * The services of the targets and predicates of a plan. It is conditional although the condition always holds, so that
 * declarations of users have the services themselves and not this name.
 */
export type PlanServices<Steps extends ReadonlyArray<Step.Any>, O extends Options> = [Steps] extends [unknown]
  ? StepServices<Steps[number]> | PredicateServices<OptionOf<O, "predicates">>
  : never

type PredicateServices<P> = P extends { readonly [name: string]: CustomPredicate }
  ? ReturnType<P[keyof P]> extends infer Answer
    ? Answer extends Effect.Effect<infer _A, infer _E, infer R>
      ? R
      : never
    : never
  : never

/** A predicate as the run calls it. */
export const livePredicate =
  (name: string, predicate: CustomPredicate): LivePredicate =>
  (input) =>
    Effect.suspend(() => {
      const answer: unknown = predicate(input)
      // Sound: the services of predicates are in the type of the plan.
      const asked = Effect.isEffect(answer) ? (answer as Effect.Effect<unknown, unknown>) : Effect.succeed(answer)
      return Effect.flatMap(asked, (value) =>
        typeof value === "boolean"
          ? Effect.succeed(value)
          : Effect.die(new TypeError(`expected a boolean from the predicate ${base.quote(name)}, got ${kindOf(value)}`))
      )
    })

/** A predicate of the registry. */
export type LivePredicate = (input: PredicateInput) => Effect.Effect<boolean, unknown>

export interface PredicateInput {
  readonly step: string
  readonly payload: Schema.Json
  readonly text: string
}

export interface LiveStep {
  readonly definition: PlanDefinition.StepDefinition
  readonly target: stepTarget.LiveTarget
  readonly input: stepSchema.StepCodec | undefined
  readonly output: stepSchema.StepCodec | undefined
}

/** A plan whose structure was checked. */
interface LivePlan {
  readonly definition: PlanDefinition.PlanDefinition
  readonly digest: string
  readonly steps: ReadonlyArray<LiveStep>
  readonly predicates: ReadonlyMap<string, LivePredicate>
  readonly output: stepSchema.StepCodec | undefined
}

/** A tool a step runs. */
export interface BoundToolTarget {
  readonly _tag: "Tool"
  readonly name: string
  readonly arguments: planCheck.ToolArguments
}

export type BoundTarget = BoundToolTarget | Exclude<stepTarget.LiveTarget, { readonly _tag: "Tool" }>

export interface BoundStep extends Omit<LiveStep, "target"> {
  readonly target: BoundTarget
}

/**
 * The memory of one agent, made of Effects.
 *
 * **Details**
 *
 * - `text`: read by `fromMemory`, each time a step with it begins. `""` is an empty memory.
 * - `output`: read by `fromAgent`; `undefined` is no output.
 * - `save`: called with each answer of a step that runs the agent of this name, so that `output`
 *   returns it later. A failed run of the agent saves nothing.
 *
 * A failure of `text` or `output` fails the step that reads it.
 *
 * **Example** (Notes beside an agent)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan, Reference, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("recall", [
 *     Step.make("recall", {
 *       task: Reference.fromMemory("helper"),
 *       target: ({ task }) => Effect.succeed(task)
 *     })
 *   ])
 *   const bound = yield* Plan.bind(plan, {
 *     memories: { helper: { text: Effect.succeed("Ada likes tea.") } }
 *   })
 *   return yield* Plan.run(bound, "What do you know?")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === "Ada likes tea.")
 * ```
 */
export interface AgentMemory<out R = never> {
  readonly text?: Effect.Effect<string, unknown, R> | undefined
  readonly output?: Effect.Effect<Schema.Json | undefined, unknown, R> | undefined
  readonly save?: ((output: Schema.Json) => Effect.Effect<void, unknown, R>) | undefined
}

/** The services that memories require. */
export type MemoryServices<Memory> = Memory extends unknown ? stepTarget.PartServices<Memory[keyof Memory]> : never

/**
 * A plan whose tool rules were checked, too: it can run. `targets` are in the order of the steps. `within` provides
 * the services that were captured for its code, if there are any.
 */
export interface BoundPlan extends Omit<LivePlan, "steps"> {
  readonly within: Wrap
  readonly steps: ReadonlyArray<BoundStep>
  readonly tools: ToolSet
  readonly memories: ReadonlyMap<string, AgentMemory>
}

type PlanParts = Omit<LivePlan, "digest">

/** The digest of a definition, whatever it is called. It depends on nothing but the data, so it travels. */
export const digestOf = ({ description: _description, name: _name, ...rest }: PlanDefinition.PlanDefinition) =>
  // Sound: a definition is JSON but for numbers and texts that code can make up, which the digest refuses.
  Digest.sha256(rest as object as Schema.Json)

const notJson = (error: PayloadError): PlanInvalid.Problem => ({
  code: "NotJson",
  reason: `The definition has something that is no JSON: ${error.message}. Use finite numbers and well-formed text.`
})

/** Fails with all problems of a plan, if there are any. */
export const failWithProblems = (plan: string, problems: ReadonlyArray<PlanInvalid.Problem>) => {
  const [first, ...rest] = problems
  return first === undefined
    ? Effect.void
    : Effect.fail(new PlanInvalid.PlanInvalid({ plan, problems: [first, ...rest] }))
}

/** Positions and digest; then the structural rules for `checked`, together with problems that were found before. */
export const checkParts = Effect.fnUntraced(function* (
  parts: PlanParts,
  found: ReadonlyArray<PlanInvalid.Problem> = [],
  checked: PlanDefinition.PlanDefinition = parts.definition
): Effect.fn.Return<LivePlan, PlanInvalid.PlanInvalid> {
  const { definition } = parts
  // In the order of the steps, problems of the plan itself first; the order within a step stays
  const problems = [...planCheck.checkStructure(checked), ...found].toSorted(
    (a, b) => (a.index ?? -1) - (b.index ?? -1)
  )
  yield* failWithProblems(definition.name, problems)
  // A number that is not finite was reported by the check that knows its purpose, if there is one
  const digest = yield* Effect.mapError(
    digestOf(definition),
    (error) => new PlanInvalid.PlanInvalid({ plan: definition.name, problems: [notJson(error)] })
  )
  return { ...parts, digest }
})

/** A plan as logs show it: without its code, tools and agents. */
export const inspectable = (
  _id: "Plan" | "Plan.Bound",
  { definition, digest }: LivePlan
): EffectInspectable.Inspectable => ({
  ...EffectInspectable.BaseProto,
  toJSON: () => ({ _id, name: definition.name, digest, steps: definition.steps.map(({ name }) => name) })
})

/** The plan around its code. `A` and `R` are for the caller to know. */
export const planFromLive = <R, A = Schema.Json>(live: LivePlan): Plan<A, R> => ({
  [planNames.planTypeId]: { _A: (_: never) => _, _R: (_: never) => _ },
  ...inspectable("Plan", live),
  definition: live.definition,
  digest: live.digest,
  live
})

/** True for a plan. */
export const isPlan = (u: unknown): u is Plan<unknown, unknown> => Predicate.hasProperty(u, planNames.planTypeId)

/** True for an agent that is a plan. */
export const isBound = (u: unknown): u is Bound<unknown, unknown> => Predicate.hasProperty(u, planNames.boundTypeId)

/** The output of an agent, as far as it is known before the agent is there. */
const agentOutputSchema = (agent: stepTarget.AgentTarget<unknown> | undefined): stepSchema.StepSchema | undefined =>
  // Sound: the agent requires the services of the Schema, and so does the run of the plan.
  agent === undefined
    ? undefined
    : (Option.getOrUndefined(Agent.outputSchema(agent)) as stepSchema.StepSchema | undefined)

/** True for a schema of any text, which is the default. */
const isTextSchema = (json: JsonObject): boolean => json["type"] === "string" && Object.keys(json).length === 1

/** The problem of a step whose agent never answers with the output of the step. */
const outputMismatch = (
  { definition }: LiveStep,
  index: number,
  agent: stepTarget.AgentTarget<unknown> | undefined,
  output: PlanDefinition.SchemaRef
): Effect.Effect<ReadonlyArray<PlanInvalid.Problem>> => {
  const schema = agentOutputSchema(agent)
  const { json } = output
  if (schema === undefined || json === undefined) return Effect.succeed([])
  return Effect.map(Effect.result(JsonSchema.fromSchema(schema)), (given): ReadonlyArray<PlanInvalid.Problem> => {
    // The text of an agent without an output may hold whatever JSON the step asks for.
    if (Result.isFailure(given) || isTextSchema(given.success)) return []
    const reason = stepSchema.findConflict(stepSchema.shapeOf(given.success), stepSchema.shapeOf(json))
    if (reason === undefined) return []
    const found = `an output that its answers never fit: ${reason}`
    const expected = `an output that the agent ${base.quote(definition.target.name)} can return`
    const fix = "Set that output of the agent, or leave it out to take the agent's"
    const finding = { code: "IncompatibleTypes", slot: "output", expected, found, fix } as const
    return [planCheck.problemOf({ step: definition.name, index }, finding)]
  })
}

/** The problems of steps whose output differs from the output of the agents that they run. */
export const checkAgentOutput = (
  steps: ReadonlyArray<LiveStep>,
  agentOf: (target: stepTarget.LiveTarget) => stepTarget.AgentTarget<unknown> | undefined
): Effect.Effect<ReadonlyArray<PlanInvalid.Problem>> =>
  Effect.map(
    Effect.forEach(steps, (step, index) => {
      const { output } = step.definition
      return output === undefined ? Effect.succeed([]) : outputMismatch(step, index, agentOf(step.target), output)
    }),
    (problems) => problems.flat()
  )

/** A slot of a step, or of the plan, as problems name it. */
export type SlotPlace = Pick<PlanInvalid.Problem, "step" | "index"> & { readonly slot: string }

const notExported = ({ slot, ...place }: SlotPlace, { message }: JsonSchema.JsonSchemaError): PlanInvalid.Problem =>
  planCheck.problemOf(place, {
    code: "SchemaNotRepresentable",
    slot,
    found: `a schema without a JSON Schema: ${message}`
  })

/** Exports a schema; a schema that has no JSON Schema is a problem of the plan. */
export const exportSchema = (schema: stepSchema.StepSchema | undefined, place: SlotPlace) =>
  schema === undefined
    ? Effect.succeed(undefined)
    : Effect.mapBoth(JsonSchema.fromSchema(schema, { what: place.slot }), {
        onFailure: (error) => notExported(place, error),
        onSuccess: (json) => ({
          ref: { ...defined({ name: stepSchema.schemaName(schema) }), json },
          schema: stepSchema.jsonCodec(schema)
        })
      })

/** A step with its schemas, and its problems. A step without an output schema has the output schema of its agent. */
export const liveStep = Effect.fnUntraced(function* (parts: stepTarget.StepParts, index: number) {
  const { definition, target } = parts
  const problems: Array<PlanInvalid.Problem> = parts.problems.map((problem) => ({
    step: definition.name,
    index,
    ...problem
  }))
  const exported = Effect.fnUntraced(function* (slot: string, schema: stepSchema.StepSchema | undefined) {
    const result = yield* Effect.result(exportSchema(schema, { step: definition.name, index, slot }))
    if (Result.isSuccess(result)) return result.success
    problems.push(result.failure)
    return undefined
  })
  const input = yield* exported("input", parts.input)
  const ofAgent = parts.output === undefined && target._tag === "Agent"
  const found = yield* exported("output", ofAgent ? agentOutputSchema(target.source) : parts.output)
  const output = ofAgent && found?.ref.json !== undefined && isTextSchema(found.ref.json) ? undefined : found
  const step: LiveStep = {
    definition: { ...definition, ...defined({ input: input?.ref, output: output?.ref }) },
    target,
    input: input?.schema,
    output: output?.schema
  }
  return { step, problems }
})

/**
 * Writes events before the run continues: several that belong together, with the state after
 * them.
 *
 * **Details**
 *
 * It is called for one batch at a time and is never interrupted. Its failure ends the run at
 * once: running steps are interrupted, and it is not called again. `PlanRun.fold` makes the state of these events again.
 */
export type Journal = (
  events: readonly [PlanRun.Event, ...Array<PlanRun.Event>],
  state: PlanRun.State
) => Effect.Effect<void, PlanError>

/**
 * Options of running a plan.
 *
 * **Details**
 *
 * An interrupted fiber interrupts every running step, waits for them, writes that the run
 * was interrupted, and stays interrupted.
 */
export interface RunOptions {
  /** The number of members of a parallel group that run at a time, from 1 on; default `"unbounded"`. */
  readonly concurrency?: number | "unbounded" | undefined
  /**
   * The most turns of the run, a whole number from 0 on; default: the limit of the plan. On a resume it is the new limit, also of plans inside
   * that used up their limit.
   */
  readonly maxIterations?: number | undefined
  /**
   * Limits of time: `total` of the whole run, which then ends as `Interrupted { reason: "timeout" }`; `step` and `tool`
   * for agents, and `tool` also for tools that are steps. None by default.
   */
  readonly timeouts?: agentTypes.Timeouts | undefined
  /**
   * The `RunContext` of functions, tools and agents; default: the context of the caller. A resumed run has the context
   * that it began with, and fails with `ContextDiffers` for another context.
   */
  readonly context?: JsonObject | undefined
  /**
   * The limits of what the run may use, with all agents, tools and plans inside it, see `Budget`; none by default. A run that uses it up
   * fails with `BudgetExceeded`, also where its time is over, and a resume with another budget continues. A resume without one has what is
   * left, see `Budget.left`. Its events have no `BudgetNeared`.
   */
  readonly budget?: Budget | undefined
  /** Guards for all agents inside, beside the guards of the agents, see `Guard`; none by default. A resume has its own. */
  readonly guards?: ReadonlyArray<Guard> | undefined
  /** The hook that keeps the events, see `Plan.Journal`; none by default. */
  readonly journal?: Journal | undefined
  /**
   * An effect that runs before each turn, turns of nested plans included. An `Interruption` ends the run there; none by
   * default.
   */
  readonly interruptWhen?: (() => Effect.Effect<agentTypes.Interruption | undefined>) | undefined
}

/** A number of effects that run at a time. */
export const concurrency: callOptions.Allowed = callOptions.or("unbounded", callOptions.wholeFrom(1))

const { anything } = callOptions

/** The options of runs, with the values that can be meant. */
export const runOptions: callOptions.Options<ResumeOptions> = {
  concurrency,
  maxIterations: callOptions.wholeFrom(0),
  timeouts: agentTypes.timeouts,
  context: anything,
  budget: agentTypes.runOptions.budget,
  guards: agentTypes.runOptions.guards,
  journal: anything,
  interruptWhen: anything,
  decisions: anything,
  onChange: anything
}

/** Options of resuming a run: the options of `RunOptions`, decisions, and the treatment of an edited plan. */
export interface ResumeOptions extends RunOptions {
  /**
   * Decisions about what the run waits for, see `Run.approve` and `Run.deny`; none by default. Requests without a decision
   * still wait.
   */
  readonly decisions?: ReadonlyArray<Decision> | undefined
  /**
   * The treatment of a plan that was edited since, and of the agents and plans inside it.
   *
   * - `"compatible"` (default): steps that have not run may change, come and go. Steps that ran or wait stay in their
   *   places, in their parallel group, with their `writes`, and keep or lose no routes; a recorded output fits the
   *   output schema; a step that waits, or has a run inside it, keeps its target.
   * - `"refuse"`: a run continues under its own definition only.
   * - `"accept"`: the run continues in any case. It fails if the step that comes next is gone.
   *
   * A refused run fails with `PlanChanged`, which lists the changes. A run that continues records them in its
   * `PlanResumed`.
   */
  readonly onChange?: agentTypes.OnChange | undefined
}
