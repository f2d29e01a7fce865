/**
 * One step of a plan: what runs, what it reads, and where the plan goes on.
 *
 * **Example** (A step with most of what it can have)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Plan, Reference, Step, When } from "effect-emissary"
 *
 * const Verdict = Schema.Struct({ score: Schema.Finite, text: Schema.String })
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     Step.make("draft", { target: ({ task }) => Effect.succeed(`${task}.`) }),
 *     Step.make("judge", {
 *       target: ({ context, task }) => Effect.succeed({ score: task.length, text: `${context}: ${task}` }),
 *       context: Reference.fromStart,
 *       output: Verdict,
 *       writes: "verdict",
 *       routes: [["draft", When.field("score").lessThan(8)]],
 *       timeout: "30 seconds",
 *       retry: { times: 2, delay: "1 second", factor: 2 }
 *     }),
 *     Step.make("tell", {
 *       input: Verdict,
 *       target: ({ payload }) => Effect.succeed(`${payload.text} (${payload.score})`)
 *     })
 *   )
 *   return yield* Plan.run(yield* Plan.bind(plan), "A longer text")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === "A longer text: A longer text. (14)")
 * assert.deepStrictEqual(result.writes.get("verdict"), { score: 14, text: "A longer text: A longer text." })
 * ```
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import * as internal from "./internal/step/make.ts"
import type { Mistake } from "./PlanConfig.ts"
import type * as Reference from "./Reference.ts"
import type { RetryPolicy } from "./RetryPolicy.ts"
import type * as Target from "./Target.ts"
import type { When } from "./When.ts"

/**
 * Type identifier of steps.
 *
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
 * A step named `Name` that refers to the steps `Refs` and whose target requires `R`.
 * Steps are values: one may be part of many plans.
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
 * Any step, whatever its name and what it refers to, for lists of steps that are built;
 * `R` is what they require.
 *
 * @category models
 * @since 0.1.0
 */
export type Any<R = unknown> = Step<string, string, R>

/**
 * The fields that `routesBy` may name: those of the output, when its type is known.
 *
 * @category utility types
 * @since 0.1.0
 */
export type FieldOf<A> = Schema.Json extends A
  ? string
  : A extends ReadonlyArray<unknown>
    ? never
    : A extends object
      ? keyof A & string
      : never

/**
 * What a step gives: its `output`, or else what its agent answers.
 *
 * @category utility types
 * @since 0.1.0
 */
export type Gives<O extends Target.StepSchema, A> = Schema.Json extends O["Type"] ? A : O["Type"]

/**
 * Lets a field of the output stand in `routesBy`, and tells what is wrong with any other.
 *
 * @category utility types
 * @since 0.1.0
 */
export type KnownField<By extends string, A> = [By] extends [FieldOf<A>]
  ? unknown
  : Mistake<
      [FieldOf<A>] extends [never]
        ? `routesBy: "${By}" is no field of the output of this step, which has no fields.`
        : `routesBy: "${By}" is no field of the output of this step. There is "${FieldOf<A>}".`
    >

/**
 * The steps that the literals in a field of the output name, where `routesBy` says so.
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
 * When a step that failed is tried again: at most `times`, after a pause of `delay`
 * (default none), which is multiplied by `factor` (default 1) after each try, up to
 * `maxDelay`. The same as data is a `RetryPolicy`.
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
 * What a step is made of. Only `target` has to be given.
 *
 * **Details**
 *
 * - `target`: what runs. A function that gets a `Target.Input`, named after the step; a
 *   function under a name (`Target.make`); an agent, its service class, or an Effect that
 *   finds one; a plan that is bound; or the name of a tool or an agent that `Plan.bind`
 *   is given.
 * - `task`: what the step works on, with its payload; default `Reference.fromPrev`.
 * - `context`: text beside the task, from one reference or several; default none. A
 *   function and an agent are given it apart from the task, a tool in its parameter
 *   `context`, or before the task.
 * - `input`: a schema that the payload is decoded with before a function sees it. A tool
 *   gets the payload as its arguments when there is one, and the text otherwise.
 * - `output`: a schema that the answer has to fit, or the step fails. It is what `routesBy`
 *   and the types of later steps go by. Default: that of the function (`Target.make`), or
 *   what the agent says that it answers (`Agent.outputSchema`); otherwise any JSON. The
 *   text of an agent, or of a plan, that does not fit and is JSON that does is that JSON.
 * - `writes`: the key under which the result of the run, and a `Checkpoint`, has the
 *   answer.
 * - `parallel`: whether the step is part of a band: neighbours that are parallel run
 *   together, and the plan goes on when all have finished.
 * - `routes`: steps to go on at, each with a condition on the answer, tried in order; when
 *   none holds, the next step follows.
 * - `routesBy`: a field of the output that holds the name of the next step, instead of
 *   conditions.
 * - `afterBranches`: the routes are branches: a step that ends without a route of its own
 *   goes on at this one. Without it, the plan goes on with whatever is declared after the
 *   step the route went to.
 * - `timeout`: for each try; default none. It fails the step with the type `Timeout`.
 * - `retry`: default none.
 *
 * **Gotchas**
 *
 * A route only says where to jump: after the step it goes to, the plan goes on with the
 * ones declared after that. A branch that must not run on the usual way needs a route for
 * the usual way as well, and `afterBranches`.
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
  out R,
  A = unknown
> {
  readonly target:
    | string
    | Target.AgentTarget<R, A>
    | Target.FunctionTarget<R>
    | ((input: Target.Input<I["Type"]>) => Effect.Effect<O["Type"], unknown, R>)
  readonly task?: Reference.Input<Task> | undefined
  readonly context?: Reference.Input<Context> | ReadonlyArray<Reference.Input<Context>> | undefined
  readonly writes?: string | undefined
  readonly parallel?: boolean | undefined
  readonly routes?: ReadonlyArray<readonly [To, When]> | undefined
  readonly routesBy?: (By & KnownField<By, Gives<O, A>>) | undefined
  readonly afterBranches?: After | undefined
  readonly input?: I | undefined
  readonly output?: O | undefined
  readonly timeout?: Duration.Input | undefined
  readonly retry?: Retry | undefined
}

/**
 * Makes a step.
 *
 * **Details**
 *
 * It never fails: a name, a time or a schema that cannot be is a problem of `Plan.make`,
 * told with all others. The types are those of the plan: a function's input follows
 * `input`, its answer `output`, and names of other steps are checked when the plan is
 * made.
 *
 * **Gotchas**
 *
 * TypeScript takes a text in the answer of a function for any `string` unless it knows the
 * output before the function: where `output` asks for literals, make the schema a
 * constant and let the function take its input, or write `"even" as const`.
 *
 * **Example** (Types follow the schemas)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Plan, Step } from "effect-emissary"
 *
 * const Parity = Schema.Struct({ next: Schema.Literals(["even", "odd"]) })
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     Step.make("sort", {
 *       input: Schema.FiniteFromString,
 *       output: Parity,
 *       target: ({ payload }) => Effect.succeed({ next: payload % 2 === 0 ? "even" : "odd" }),
 *       routesBy: "next",
 *       afterBranches: "end"
 *     }),
 *     Step.make("even", { target: () => Effect.succeed("two by two") }),
 *     Step.make("odd", { target: () => Effect.succeed("one is left") }),
 *     Step.make("end", { target: ({ task }) => Effect.succeed(`${task}!`) })
 *   )
 *   return yield* Plan.run(yield* Plan.bind(plan), "7")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === "one is left!")
 * ```
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
  R = never,
  A = Schema.Json
>(
  name: Name,
  options: Options<Task, Context, To, After, By, I, O, R, A>
) => Step<Name, Task | Context | To | After | LiteralsOf<Gives<O, A>, By>, R> = internal.make
