/**
 * Plans.
 *
 * @since 0.1.0
 */
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Tool from "effect/ai/Tool"
import type * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import type { Agent } from "../agent/Agent.ts"
import type { BoundTool } from "../tool/BoundTool.ts"
import type { ToolContractError } from "../tool/ToolContract.ts"
import type { ToolNameError } from "../tool/ToolSet.ts"
import type { AgentMemory } from "./AgentMemory.ts"
import * as bindPlan from "./internal/bind.ts"
import * as methods from "./internal/engine/methods.ts"
import type { BoundPlan, LivePlan, PredicateInput } from "./internal/live.ts"
import * as internal from "./internal/plan.ts"
import * as planMake from "./internal/planMake.ts"
import * as payloadText from "./internal/text.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import type { PlanError } from "./PlanError.ts"
import type { PlanEvent } from "./PlanEvent.ts"
import type * as PlanInput from "./PlanInput.ts"
import type { PlanInvalid } from "./PlanInvalid.ts"
import type { PlanOptions, RunManyOptions } from "./PlanOptions.ts"
import type { PlanResult } from "./PlanResult.ts"
import type { PlanRunState } from "./PlanRunState.ts"
import type { Any, Step } from "./Step.ts"
import type { AgentTarget, StepSchema } from "./Target.ts"

/**
 * @category type IDs
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/plan/Plan"

/**
 * Type identifier of plans.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const TypeId: TypeId = internal.TypeId

/**
 * @category type IDs
 * @since 0.1.0
 */
export type BoundTypeId = "~effect-emissary/plan/Plan/Bound"

/**
 * Type identifier of plans that can run.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const BoundTypeId: BoundTypeId = internal.BoundTypeId

/**
 * A plan whose structure was checked. It cannot run before it is bound.
 *
 * @category models
 * @since 0.1.0
 */
export interface Plan<out A, out R = never> {
  readonly [TypeId]: { readonly _A: Types.Covariant<A>; readonly _R: Types.Covariant<R> }
  readonly definition: PlanDefinition
  readonly digest: string
  /** @internal */
  readonly live: LivePlan
}

/**
 * A plan that can run. It is an agent, too.
 *
 * @category models
 * @since 0.1.0
 */
export interface Bound<out A, out R = never> extends Agent<A, R> {
  readonly [BoundTypeId]: BoundTypeId
  readonly definition: PlanDefinition
  readonly digest: string
  /** @internal */
  readonly live: BoundPlan
}

/**
 * A predicate by name.
 *
 * @category options
 * @since 0.1.0
 */
export type CustomPredicate<R = unknown> = (input: PredicateInput) => boolean | Effect.Effect<boolean, unknown, R>

/**
 * What a plan has besides its steps.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly name?: string | undefined
  readonly description?: string | undefined
  readonly maxIterations?: number | undefined
  readonly output?: StepSchema | undefined
  readonly predicates?: { readonly [name: string]: CustomPredicate } | undefined
}

/**
 * What {@link make} takes: steps, and options before them.
 *
 * @category options
 * @since 0.1.0
 */
export type Parts = ReadonlyArray<Any> | readonly [options: Options, ...steps: ReadonlyArray<Any>]

/**
 * What a compiler says of parts that are no parts of one plan.
 *
 * @category utility types
 * @since 0.1.0
 */
export interface Mistake<Message extends string> {
  readonly "effect-emissary: mistake": Message
}

/**
 * The literal names in `Refs` that are not among `Names`.
 *
 * @category utility types
 * @since 0.1.0
 */
export type UnknownOf<Refs extends string, Names extends string> = Refs extends unknown
  ? {} extends Record<Refs, 1>
    ? never
    : Refs extends Names
      ? never
      : Refs
  : never

/**
 * The names of steps.
 *
 * @category utility types
 * @since 0.1.0
 */
export type NamesOf<Args extends Parts> = Extract<Args[number], Any>["name"]

/**
 * Steps that refer to steps of the same plan only, after options without unknown fields.
 *
 * @category utility types
 * @since 0.1.0
 */
export type Known<Args extends Parts> = {
  readonly [K in keyof Args]: Args[K] extends Step<infer Name, infer Refs, infer _R>
    ? [UnknownOf<Refs, NamesOf<Args>>] extends [never]
      ? unknown
      : Mistake<`Step "${Name}" refers to "${UnknownOf<Refs, NamesOf<Args>>}", which is no step of this plan.`>
    : [Exclude<keyof Args[K], keyof Options>] extends [never]
      ? unknown
      : Mistake<`"${Exclude<keyof Args[K], keyof Options> & string}" is no option of Plan.make.`>
}

/**
 * What a plan gives: the type of its `output`, or JSON.
 *
 * @category utility types
 * @since 0.1.0
 */
export type OutputOf<Args extends Parts> = Args extends readonly [
  { readonly output: infer S extends StepSchema },
  ...infer _Steps
]
  ? S["Type"]
  : Schema.Json

/**
 * What the target of a step requires.
 *
 * @category utility types
 * @since 0.1.0
 */
export type StepServices<S> = S extends Step<infer _Name, infer _Refs, infer R> ? R : never

/**
 * What the targets and predicates of a plan require.
 *
 * @category utility types
 * @since 0.1.0
 */
export type ServicesOf<Args extends Parts> =
  | StepServices<Extract<Args[number], Any>>
  | (Args extends readonly [{ readonly predicates: infer P }, ...infer _Steps]
      ? ReturnType<Extract<P[keyof P], CustomPredicate>> extends infer Answer
        ? Answer extends Effect.Effect<infer _A, infer _E, infer R>
          ? R
          : never
        : never
      : never)

/**
 * Makes a plan of steps and checks its structure.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: <const Args extends Parts>(
  ...parts: Args & Known<Args>
) => Effect.Effect<Plan<OutputOf<Args>, ServicesOf<Args>>, PlanInvalid> = planMake.make

/**
 * What the names in a plan stand for.
 *
 * @category options
 * @since 0.1.0
 */
export interface BindOptions<
  Tools extends Record<string, Tool.Any>,
  Agents extends { readonly [name: string]: AgentTarget<unknown> },
  Memories extends { readonly [name: string]: AgentMemory<unknown> }
> {
  readonly toolkit?: Toolkit.Toolkit<Tools> | undefined
  readonly tools?: Iterable<BoundTool> | undefined
  readonly agents?: Agents | undefined
  readonly memories?: Memories | undefined
}

/**
 * What agents and memories require that a plan is bound with.
 *
 * @category utility types
 * @since 0.1.0
 */
export type BindingServices<Agents, Memories> =
  | (Agents[keyof Agents] extends infer Target
      ? Target extends Agent<infer _A, infer R>
        ? R
        : Target extends Effect.Effect<infer _A, infer _E, infer R>
          ? R
          : never
      : never)
  | (Memories[keyof Memories] extends infer Memory ? (Memory extends AgentMemory<infer R> ? R : never) : never)

/**
 * Makes a plan runnable.
 *
 * @category constructors
 * @since 0.1.0
 */
export const bind = <
  A,
  R,
  Tools extends Record<string, Tool.Any> = {},
  Agents extends { readonly [name: string]: AgentTarget<unknown> } = {},
  Memories extends { readonly [name: string]: AgentMemory<unknown> } = {}
>(
  plan: Plan<A, R>,
  options: BindOptions<Tools, Agents, Memories> = {}
): Effect.Effect<
  Bound<A, R | BindingServices<Agents, Memories>>,
  PlanInvalid | ToolContractError | ToolNameError,
  Tool.HandlersFor<Tools> | Tool.HandlerServices<Tools[keyof Tools]>
> => bindPlan.bind<A, R, BindingServices<Agents, Memories>, Tools>(plan, options)

/**
 * Runs a plan.
 *
 * @category running
 * @since 0.1.0
 */
export const run = <A, R>(
  bound: Bound<A, R>,
  input: PlanInput.Input,
  options?: PlanOptions
): Effect.Effect<PlanResult<A>, PlanError, R> =>
  // Sound: the output of a plan is decoded with the schema that `A` came from, and what its code requires is `R`.
  methods.run(internal.boundOf(bound), input, options) as Effect.Effect<PlanResult<A>, PlanError, R>

/**
 * Runs a plan for many inputs.
 *
 * @category running
 * @since 0.1.0
 */
export const runMany = <A, R>(
  bound: Bound<A, R>,
  inputs: Iterable<PlanInput.Input>,
  options?: RunManyOptions
): Effect.Effect<ReadonlyArray<Result.Result<PlanResult<A>, PlanError>>, never, R> =>
  // Sound: see `run`.
  methods.runMany(internal.boundOf(bound), inputs, options) as Effect.Effect<
    ReadonlyArray<Result.Result<PlanResult<A>, PlanError>>,
    never,
    R
  >

/**
 * Goes on from a state.
 *
 * @category running
 * @since 0.1.0
 */
export const resume = <A, R>(
  bound: Bound<A, R>,
  state: PlanRunState,
  options?: PlanOptions
): Effect.Effect<PlanResult<A>, PlanError, R> =>
  // Sound: see `run`.
  methods.resume(internal.boundOf(bound), state, options) as Effect.Effect<PlanResult<A>, PlanError, R>

/**
 * Runs a plan, told event by event.
 *
 * @category running
 * @since 0.1.0
 */
export const stream = <A, R>(
  bound: Bound<A, R>,
  input: PlanInput.Input,
  options?: PlanOptions
): Stream.Stream<PlanEvent<A>, PlanError, R> =>
  // Sound: see `run`.
  methods.stream(internal.boundOf(bound), input, options) as Stream.Stream<PlanEvent<A>, PlanError, R>

/**
 * Goes on from a state, told event by event.
 *
 * @category running
 * @since 0.1.0
 */
export const resumeStream = <A, R>(
  bound: Bound<A, R>,
  state: PlanRunState,
  options?: PlanOptions
): Stream.Stream<PlanEvent<A>, PlanError, R> =>
  // Sound: see `run`.
  methods.resumeStream(internal.boundOf(bound), state, options) as Stream.Stream<PlanEvent<A>, PlanError, R>

/**
 * The digest of a plan.
 *
 * @category getters
 * @since 0.1.0
 */
export const digest = (plan: Plan<unknown, unknown> | Bound<unknown, unknown>): string => plan.digest

/**
 * A plan as data.
 *
 * @category getters
 * @since 0.1.0
 */
export const definition = (plan: Plan<unknown, unknown> | Bound<unknown, unknown>): PlanDefinition => plan.definition

/**
 * How many turns a run of the plan may take.
 *
 * @category getters
 * @since 0.1.0
 */
export const maxIterations = (plan: Plan<unknown, unknown> | Bound<unknown, unknown>): number =>
  plan.definition.maxIterations

/**
 * The text of a payload, as steps and agents are given it.
 *
 * @category getters
 * @since 0.1.0
 */
export const text: (payload: Schema.Json) => string = payloadText.text
