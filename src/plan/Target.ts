/**
 * What a step runs: a function, a function under a name, an agent, or the name of a tool.
 *
 * A function that is written into a step needs nothing of this module but {@link Input}.
 * {@link make} gives a function a name of its own: it may then be the target of several
 * steps, and an entry of the registry that a plan is decoded with.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import type { Agent } from "../agent/Agent.ts"
import type { Content } from "../tool/Content.ts"
import * as internal from "./internal/step/target.ts"
import type { Decided } from "./PlanRunState.ts"

/**
 * Type identifier of functions as targets.
 *
 * @category type IDs
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/plan/Target"

/**
 * Type identifier of functions as targets.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const TypeId: TypeId = internal.TypeId

/**
 * What a function is given.
 *
 * **Details**
 *
 * - `step`: the name of the step.
 * - `payload`: what the task of the step refers to, decoded with the `input` schema if
 *   there is one, and plain JSON otherwise.
 * - `task`: the text of it, see `Plan.text`.
 * - `context`: the text of the step's context references, a blank line between them;
 *   `undefined` if there is none.
 * - `content`: images and files of the plan's input, for steps that read it.
 * - `decision`: what somebody decided about the pause of this step, on the run after that;
 *   `undefined` on the first run, and on one that was resumed without a decision. A step
 *   whose pause was turned down fails as `Denied` and does not run, so it is an approval;
 *   its `reason` is what they said.
 *
 * **Example** (Asking somebody)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan, Step, StepSignal } from "effect-emissary"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     Step.make("offer", { target: () => Effect.succeed("10 % off") }),
 *     Step.make("ask", {
 *       target: ({ decision, task }) =>
 *         decision === undefined
 *           ? StepSignal.pause(`May we offer ${task}?`)
 *           : Effect.succeed(`${task}, ${decision.reason ?? "as it is"}`)
 *     })
 *   )
 *   const bound = yield* Plan.bind(plan)
 *   const paused = yield* Plan.run(bound, "A customer is unhappy")
 *   assert(paused.outcome === "Paused")
 *   return yield* Plan.resume(bound, paused.state, {
 *     decisions: [{ callId: "ask", approved: true, reason: "for a week" }]
 *   })
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert(result.outcome === "Completed" && result.output === "10 % off, for a week")
 * ```
 *
 * @category models
 * @since 0.1.0
 */
export interface Input<out P = Schema.Json> {
  readonly step: string
  readonly task: string
  readonly context: string | undefined
  readonly payload: P
  readonly content: ReadonlyArray<Content>
  readonly decision: Decided | undefined
}

/**
 * A function under the name it has in a definition and in a registry; `R` is what it
 * requires. Made by {@link make}.
 *
 * @category models
 * @since 0.1.0
 */
export interface FunctionTarget<out R = never> {
  readonly [TypeId]: { readonly _R: Types.Covariant<R> }
  readonly name: string
  readonly input: Schema.Codec<unknown, Schema.Json> | undefined
  readonly output: Schema.Codec<unknown, Schema.Json> | undefined
  /** Takes the encoded payload and gives the encoded answer. */
  readonly execute: (input: Input) => Effect.Effect<Schema.Json, unknown>
  /** @internal */
  readonly schemas: Options<StepSchema, StepSchema>
}

/**
 * An agent (or a plan that is bound), the service class of one, or an Effect that finds
 * one when the step begins. `A` is what it answers.
 *
 * @category models
 * @since 0.1.0
 */
export type AgentTarget<R = never, A = unknown> = Agent<A, R> | Effect.Effect<Agent<A>, never, R>

/**
 * Whether a value is a function under a name, as {@link make} makes them.
 *
 * @category guards
 * @since 0.1.0
 */
export const isFunction = (u: unknown): u is FunctionTarget<unknown> => internal.isFunction(u)

/**
 * The schemas of a function: what its payload is decoded with, and what its answer is
 * encoded with. Without them it takes and gives JSON.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<out I extends StepSchema, out O extends StepSchema> {
  readonly input?: I | undefined
  readonly output?: O | undefined
}

/**
 * A schema of a step or of a function. It requires no services, and has to have a JSON
 * Schema: `Plan.make` refuses others.
 *
 * @category models
 * @since 0.1.0
 */
export type StepSchema = Schema.ConstraintCodec<unknown, unknown>

/**
 * Gives a function a name.
 *
 * **When to use**
 *
 * Use for functions of several steps, and for plans that travel: the definition has the
 * name, and whoever decodes it has the function in a registry. Otherwise write the
 * function into the step.
 *
 * **Details**
 *
 * Its schemas stand in for those of a step that has none. A payload that does not fit
 * `input` fails the step with the type `InputInvalid`, an answer that does not fit
 * `output` with `OutputInvalid`; neither message quotes the value.
 *
 * The function may fail with anything, and so fail its step. A `Pause` or a `Conclude` of
 * `StepSignal` is no failure.
 *
 * **Example** (One function, two steps)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Plan, Step, Target } from "effect-emissary"
 *
 * const double = Target.make("double", { input: Schema.Finite, output: Schema.Finite }, ({ payload }) =>
 *   Effect.succeed(payload * 2)
 * )
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     { output: Schema.Finite },
 *     Step.make("once", { target: double }),
 *     Step.make("twice", { target: double })
 *   )
 *   return yield* Plan.run(yield* Plan.bind(plan), { payload: 21 })
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === 84)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: {
  <R = never>(name: string, run: (input: Input) => Effect.Effect<Schema.Json, unknown, R>): FunctionTarget<R>
  <
    I extends StepSchema = Schema.ConstraintCodec<Schema.Json>,
    O extends StepSchema = Schema.ConstraintCodec<Schema.Json>,
    R = never
  >(
    name: string,
    options: Options<I, O>,
    run: (input: Input<I["Type"]>) => Effect.Effect<O["Type"], unknown, R>
  ): FunctionTarget<R>
} = internal.make
