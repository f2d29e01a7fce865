/**
 * What a plan is made of and bound with: the options of `Plan.make` and `Plan.bind`, and
 * the types that infer what a plan gives and requires, and which names in it are unknown.
 *
 * @since 0.1.0
 */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { Agent } from "../agent/Agent.ts"
import type { BoundTool } from "../tool/BoundTool.ts"
import type { AgentMemory } from "./AgentMemory.ts"
import type { PredicateInput } from "./internal/live.ts"
import type { Any, Step } from "./Step.ts"
import type { AgentTarget, StepSchema } from "./Target.ts"

/**
 * A condition of a route as code, for `When.custom(name)`. It sees the payload of the step
 * that was just run, and the text of it.
 *
 * **Gotchas**
 *
 * Only the name of the predicate is part of the definition. Prefer the conditions of
 * `When`, which travel with the plan and are drawn.
 *
 * @category options
 * @since 0.1.0
 */
export type CustomPredicate<R = unknown> = (input: PredicateInput) => boolean | Effect.Effect<boolean, unknown, R>

/**
 * What a plan has besides its steps.
 *
 * **Details**
 *
 * - `name`: default `"plan"`. It is also the name of the plan as an agent.
 * - `description`: what it is for, default none.
 * - `maxIterations`: how many turns a run may take, default 100. A turn is a step, or a
 *   whole band. A run that needs more fails with `MaxIterationsExceeded`.
 * - `output`: a schema; the output of the last step is decoded with it. Default: JSON as
 *   it is.
 * - `predicates`: the code behind `When.custom(name)`.
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
 * What `Plan.make` takes: steps, with options before them or without.
 *
 * @category options
 * @since 0.1.0
 */
export type Parts = ReadonlyArray<Any> | readonly [options: Options, ...steps: ReadonlyArray<Any>]

/**
 * What a compiler says of a part that does not belong into the plan: the message is in
 * the type.
 *
 * @category utility types
 * @since 0.1.0
 */
export interface Mistake<Message extends string> {
  readonly "effect-emissary: mistake": Message
}

/**
 * The names in `Refs` that are not among `Names`. Names that are only known as `string`
 * are left to the check when the plan is made.
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
export type OutputOf<Args extends Parts> = Args extends readonly [infer First, ...infer _Steps]
  ? OptionOf<First, "output"> extends infer S
    ? S extends StepSchema
      ? S["Type"]
      : Schema.Json
    : never
  : Schema.Json

/**
 * An option of a plan, for each of the options that are possible: `undefined` where one
 * is not there, or may not be.
 *
 * @category utility types
 * @since 0.1.0
 */
export type OptionOf<O, Key extends keyof Options> = O extends Any
  ? undefined
  : O extends { readonly [K in Key]?: infer Value }
    ? Key extends keyof O
      ? Value | (O extends { readonly [K in Key]: unknown } ? never : undefined)
      : undefined
    : undefined

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
  | (OptionOf<Args[number], "predicates"> extends infer P
      ? P extends { readonly [name: string]: CustomPredicate }
        ? ReturnType<P[keyof P]> extends infer Answer
          ? Answer extends Effect.Effect<infer _A, infer _E, infer R>
            ? R
            : never
          : never
        : never
      : never)

/**
 * What the names in a plan stand for.
 *
 * **Details**
 *
 * - `toolkit`: tools with their handlers, which are captured here.
 * - `tools`: tools that are bound already, from a `ToolResolver` for example.
 * - `agents`: agents by the names that steps use as their target, and as keys of memories.
 * - `memories`: what `Reference.fromMemory` and `Reference.fromAgent` read, by name.
 *
 * A step's target that is a text is the name of a tool or of an agent; a name of both is
 * a problem.
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
  | ((Agents extends unknown ? Agents[keyof Agents] : never) extends infer Target
      ? Target extends Agent<infer _A, infer R>
        ? R
        : Target extends Effect.Effect<infer _A, infer _E, infer R>
          ? R
          : never
      : never)
  | ((Memories extends unknown ? Memories[keyof Memories] : never) extends infer Memory
      ? Memory extends AgentMemory<infer R>
        ? R
        : never
      : never)
