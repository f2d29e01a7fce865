/**
 * One step of a plan: what runs, what it reads, and where the plan goes on.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import * as internal from "./internal/stepMake.ts"
import type * as Reference from "./Reference.ts"
import type { RetryPolicy } from "./RetryPolicy.ts"
import type * as Target from "./Target.ts"
import type { When } from "./When.ts"

/**
 * @category type IDs
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/plan/Step"

/**
 * Type identifier of steps.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const TypeId: TypeId = internal.TypeId

/**
 * A step named `Name` that refers to the steps `Refs` and requires `R`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Step<out Name extends string, out Refs extends string, out R> {
  readonly [TypeId]: { readonly _Refs: Types.Covariant<Refs>; readonly _R: Types.Covariant<R> }
  readonly name: Name
  /** @internal */
  readonly parts: internal.StepParts
}

/**
 * Any step.
 *
 * @category models
 * @since 0.1.0
 */
export type Any = Step<string, string, unknown>

/**
 * The fields that `routesBy` may name: those of the output, when its type is known.
 *
 * @category utility types
 * @since 0.1.0
 */
export type FieldOf<A> = Schema.Json extends A ? string : A extends unknown ? keyof A & string : never

/**
 * The steps that the literals of a field of the output name.
 *
 * @category utility types
 * @since 0.1.0
 */
export type LiteralsOf<A, Field> = A extends { readonly [K in Field & string]?: infer Value }
  ? Value extends string
    ? string extends Value
      ? never
      : Value
    : never
  : never

/**
 * When to try again.
 *
 * @category models
 * @since 0.1.0
 */
export type Retry =
  | RetryPolicy
  | {
      readonly times: number
      readonly delay?: Duration.Input | undefined
      readonly factor?: number | undefined
      readonly maxDelay?: Duration.Input | undefined
    }

/**
 * What a step is made of.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<
  out Task extends string,
  out Context extends string,
  out To extends string,
  out After extends string,
  out By extends string,
  I extends Target.StepSchema,
  O extends Target.StepSchema,
  out R
> {
  readonly target:
    | string
    | Target.AgentTarget<R>
    | Target.FunctionTarget<R>
    | ((input: Target.Input<I["Type"]>) => Effect.Effect<O["Type"], unknown, R>)
  readonly task?: Reference.Input<Task> | undefined
  readonly context?: Reference.Input<Context> | ReadonlyArray<Reference.Input<Context>> | undefined
  readonly writes?: string | undefined
  readonly parallel?: boolean | undefined
  readonly routes?: ReadonlyArray<readonly [To, When]> | undefined
  readonly routesBy?: (By & FieldOf<O["Type"]>) | undefined
  readonly afterBranches?: After | undefined
  readonly input?: I | undefined
  readonly output?: O | undefined
  readonly timeout?: Duration.Input | undefined
  readonly retry?: Retry | undefined
}

/**
 * Makes a step.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: <
  const Name extends string,
  const Task extends string = never,
  const Context extends string = never,
  const To extends string = never,
  const After extends string = never,
  const By extends string = never,
  I extends Target.StepSchema = Schema.ConstraintCodec<Schema.Json>,
  O extends Target.StepSchema = Schema.ConstraintCodec<Schema.Json>,
  R = never
>(
  name: Name,
  options: Options<Task, Context, To, After, By, I, O, R>
) => Step<Name, Task | Context | To | After | LiteralsOf<O["Type"], By>, R> = internal.make
