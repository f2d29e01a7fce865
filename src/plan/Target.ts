/**
 * What a step runs: a function under a name, an agent, or the name of a tool.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import type { Agent } from "../agent/Agent.ts"
import type { Content } from "../tool/Content.ts"
import * as internal from "./internal/stepTarget.ts"

/**
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
 * What a function is given. `payload` is what `task` refers to, decoded with the
 * `input` schema of the target if it has one, and plain JSON otherwise; `task` is its
 * text, `context` the text of the step's context references.
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
}

/**
 * A function under the name it has in a registry. It may fail with anything; a `Pause`
 * or a `Conclude` of `StepSignal` is no failure.
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
 * An agent, a key that yields one, or an effect that does.
 *
 * @category models
 * @since 0.1.0
 */
export type AgentTarget<R = never> = Agent<unknown, R> | Effect.Effect<Agent<unknown>, never, R>

/**
 * Whether a value is a function as a target.
 *
 * @category guards
 * @since 0.1.0
 */
export const isFunction = (u: unknown): u is FunctionTarget<unknown> => internal.isFunction(u)

/**
 * The schemas of a function: what its payload is decoded with, and what its answer is encoded with.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<out I extends StepSchema, out O extends StepSchema> {
  readonly input?: I | undefined
  readonly output?: O | undefined
}

/**
 * A schema of a step or of a function. It needs no services.
 *
 * @category models
 * @since 0.1.0
 */
export type StepSchema = Schema.ConstraintCodec<unknown, unknown>

/**
 * Gives a function the name it has in a registry.
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
