/**
 * The code that the names in a plan stand for.
 *
 * A plan that was decoded names functions, agents, predicates and schemas; nothing in
 * it is code. What these names stand for comes from here, and only from here: a plan
 * can select an entry, never add one. Targets, predicates and schemas are apart, so a
 * plan from outside cannot bind a step to a predicate or a schema.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type { Agent } from "../agent/Agent.ts"
import type { PredicateInput } from "./internal/live.ts"
import type { AgentTarget, FunctionTarget, StepSchema } from "./Target.ts"
import type { When } from "./When.ts"

/**
 * What a step can run, besides a tool: a function made with `Target.make`, or an agent.
 *
 * @category models
 * @since 0.1.0
 */
export type AnyTarget<R = unknown> = FunctionTarget<R> | AgentTarget<R>

/**
 * A condition of a route: as data, or as a function of the step's answer. A failure
 * of it ends the run with `PredicateFailed`.
 *
 * @category models
 * @since 0.1.0
 */
export type AnyPredicate<R = unknown> = When | ((input: PredicateInput) => boolean | Effect.Effect<boolean, unknown, R>)

/**
 * What the names in a plan stand for.
 *
 * **Details**
 *
 * - `targets`: functions and agents by name. Tools are no part of it: a plan is bound
 *   with them later.
 * - `predicates`: conditions that a plan only names. Versions 1 and 2 name each of
 *   them `routes:<step>:<target>`.
 * - `routes`: the same for these versions, by step and then by target:
 *   `{ fetch: { apology: When.field("items").empty() } }`.
 * - `schemas`: by name. Versions 1 and 2 need one for each `output` and `input`; version
 *   3 carries schemas, and an entry is used in place of one with the same name only if
 *   it says the same.
 *
 * A registry that a plan has no use for can be left out. Names are own members: what
 * every object inherits is no entry.
 *
 * **Gotchas**
 *
 * A condition that is an entry cannot name other predicates. A predicate that is found both
 * under its whole name and under `routes` is an error.
 *
 * **Example** (A registry of a service)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Agent, type PlanRegistry, Target, When } from "effect-emissary"
 *
 * const registry = {
 *   targets: {
 *     fetch: Target.make("fetch", ({ task }) => Effect.succeed([`about ${task}`])),
 *     writer: Agent.make("writer", { instructions: "Write a report." })
 *   },
 *   predicates: { is_long: ({ text }) => text.length > 1000 },
 *   routes: { fetch: { apology: When.payload.empty() } },
 *   schemas: { Hits: Schema.Array(Schema.String) }
 * } satisfies PlanRegistry.PlanRegistry
 *
 * void registry
 * ```
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanRegistry {
  readonly targets?: { readonly [name: string]: AnyTarget } | undefined
  readonly predicates?: { readonly [name: string]: AnyPredicate } | undefined
  readonly routes?: { readonly [step: string]: { readonly [to: string]: AnyPredicate } } | undefined
  readonly schemas?: { readonly [name: string]: StepSchema } | undefined
}

type Members<A> = A extends object ? A[keyof A] : never

type TargetServices<T> =
  T extends FunctionTarget<infer R>
    ? R
    : T extends Agent<infer _A, infer R>
      ? R
      : T extends Effect.Effect<infer _A, infer _E, infer R>
        ? R
        : never

type PredicateServices<P> = P extends (...args: infer _Args) => infer Out
  ? Out extends Effect.Effect<infer _A, infer _E, infer R>
    ? R
    : never
  : never

type At<Registry, Key extends PropertyKey> = Registry extends { readonly [K in Key]?: infer A } ? A : never

/**
 * What the entries of a registry require, and with them every plan decoded with it.
 *
 * @category utility types
 * @since 0.1.0
 */
export type Services<Registry extends PlanRegistry> =
  | TargetServices<Members<At<Registry, "targets">>>
  | PredicateServices<Members<At<Registry, "predicates">>>
  | PredicateServices<Members<Members<At<Registry, "routes">>>>
