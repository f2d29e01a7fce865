/**
 * One step of a plan: what runs, what it reads, and where the plan continues.
 *
 * **Example** (A step with most of what it can have)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Plan, Reference, Step, When } from "effect-emissary/plan"
 *
 * const Verdict = Schema.Struct({ score: Schema.Finite, text: Schema.String })
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("verdict", [
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
 *   ])
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
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import { hideContent } from "../payload/internal/base.ts"
import { defined, kindOf } from "../payload/internal/values.ts"
import * as policies from "../run/internal/retryPolicy.ts"
import type * as PlanDefinition from "./PlanDefinition.ts"
import * as Reference from "./Reference.ts"
import type { When } from "../tool/When.ts"
import * as condition from "../tool/internal/condition.ts"
import * as planCheck from "./internal/planCheck.ts"
import * as planNames from "./internal/planNames.ts"
import type * as stepSchema from "./internal/stepSchema.ts"
import * as stepTarget from "./internal/stepTarget.ts"

export type { DecodedOutput, LiteralsOf, StepSchema } from "./internal/stepSchema.ts"

export type { AgentTarget, TargetOptions } from "./internal/stepTarget.ts"

/**
 * A step named `Name` that refers to the steps `Refs` and whose target requires `R`.
 * Steps are values: one may be part of many plans. A list of steps that is built is a
 * `ReadonlyArray<Step.Step>`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Step<out Name extends string = string, out Refs extends string = string, out R = unknown> {
  readonly [planNames.stepTypeId]: { readonly _Refs: Types.Covariant<Refs>; readonly _R: Types.Covariant<R> }
  readonly name: Name
  /** @internal */
  readonly parts: stepTarget.StepParts
}

/**
 * Any step: its names and its requirements are not known. `Plan.make` takes a list of steps of this type, and infers from
 * each step what it is.
 *
 * @category models
 * @since 0.1.0
 */
export interface Any {
  readonly [planNames.stepTypeId]: unknown
  readonly name: string
  /** @internal */
  readonly parts: stepTarget.StepParts
}

/**
 * A reference, or a text as short form of `Reference.literal`.
 *
 * @category models
 * @since 0.1.0
 */
export type ReferenceInput<Name extends string = string> = Reference.Reference<Name> | string

/**
 * When a step that failed is tried again: at most `times`, after a pause of `delay`
 * (default none), which is multiplied by `factor` (default 1) after each try, up to
 * `maxDelay`. The same as data is a `RetryPolicy`.
 *
 * @category models
 * @since 0.1.0
 */
export type Retry = policies.Retry

/**
 * The options of a step. Only `target` is required.
 *
 * **Gotchas**
 *
 * A route only names the step to jump to: after the step it leads to, the plan continues with the
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
  I extends stepSchema.StepSchema,
  O extends stepSchema.StepSchema,
  out R,
  A = unknown
> {
  /**
   * The function, agent, plan or tool that the step runs. A function gets a `Step.Input` and is named after the step.
   * It can also be a function under a name (`Step.target`); an agent, its service class, or an Effect that finds an
   * agent; a bound plan; or the name of a tool or agent that is passed to `Plan.bind`.
   */
  readonly target:
    | string
    | stepTarget.AgentTarget<R, A>
    | FunctionTarget<R>
    | ((input: Input<I["Type"]>) => Effect.Effect<O["Type"], unknown, R>)
  /**
   * The text that the step works on, with its payload; default `Reference.fromPrev`. The result `null` is an empty text. A
   * tool gets the text in its parameter `task`, or in its first parameter that takes text. An agent gets it as the last
   * part of its message; without a text, a context and content the step fails with `InputInvalid`, and the agent is not
   * asked.
   */
  readonly task?: ReferenceInput<Task> | undefined
  /**
   * Text beside the task, from one reference or several; none by default. A function and an agent get it apart from the
   * task, an agent as the first part of its message; a tool gets it in its parameter `context`, or before the task.
   */
  readonly context?: ReferenceInput<Context> | ReadonlyArray<ReferenceInput<Context>> | undefined
  /**
   * The key under which the result of the run has the answer; none by default. Where several steps write one key, the
   * newest answer is kept; no two members of a parallel group may. `Session.read` returns the answer, too, if the plan runs
   * in a session. Only steps of the plan itself write, not steps of plans inside.
   */
  readonly writes?: string | undefined
  /**
   * True for a member of a parallel group: parallel neighbours run together, and the plan continues when all have
   * finished, also where one of them fails; default `false`. Among the members a conclusion counts before a pause, and a
   * pause before a failure; of several conclusions, pauses or failures the first in declared order.
   */
  readonly parallel?: boolean | undefined
  /**
   * Steps to continue with, each with a condition on the answer, tried in order. If no condition holds, the next step
   * follows. None by default.
   */
  readonly routes?: ReadonlyArray<readonly [To, When]> | undefined
  /** A field of the output that holds the name of the next step, in place of conditions; none by default. */
  readonly routesBy?: (By & stepSchema.KnownField<By, stepSchema.DecodedOutput<O, A>>) | undefined
  /**
   * The name of a step; the routes are then branches. A step of a branch that ends without a route of its own continues
   * with the named step. A route to the named step, or to a step after it, leaves the branch. Without `afterBranches`
   * the plan continues with the step that is declared after the step of the route.
   */
  readonly afterBranches?: After | undefined
  /**
   * A Schema that the payload is decoded with before a function sees it; default: any JSON. A tool gets the payload as
   * its arguments if there is a payload, and the text otherwise.
   */
  readonly input?: I | undefined
  /**
   * A Schema that the answer has to fit, or the step fails. `routesBy` and the types of later steps depend on it.
   * Default: the output of the function (`Step.target`) or of the agent (`Agent.outputSchema`); otherwise any JSON. If
   * the text of an agent or plan does not fit the Schema, but is JSON that fits, the output is that JSON.
   */
  readonly output?: O | undefined
  /** The time of each try; none by default. A longer try fails with the type `Timeout`. */
  readonly timeout?: Duration.Input | undefined
  /**
   * The policy by which a failed step is tried again, see `Step.Retry`; none by default. A failed try is recorded before
   * the pause, so a run that is resumed after a crash in the pause makes the next try.
   */
  readonly retry?: Retry | undefined
}

const targetKinds = { Tool: "tool", Agent: "agent", Function: "function" } as const

/** It never fails: the plan reports the problems of its steps with all others. */
const makeStep = (name: string, written: StepOptions): Step<never, never, never> => {
  const problems = optionProblems(String(name), { ...written, name })
  // A step with an option of another type is checked no further
  const options = problems.length === 0 ? written : { target: String(name) }
  const target = stepTarget.resolveTarget(name, options.target, options)
  const own = target._tag === "Function" ? target.target.schemas : undefined
  const definition: PlanDefinition.StepDefinition = {
    name: String(name),
    target: { kind: targetKinds[target._tag], name: target._tag === "Function" ? target.target.name : target.name },
    task: toReference(options.task ?? Reference.fromPrev),
    parallel: options.parallel ?? false,
    ...defined({
      context: options.context === undefined ? undefined : toReferences(options.context),
      writes: options.writes,
      routes: options.routes?.map(([to, when]) => ({ to, when })),
      routesBy: options.routesBy,
      afterBranches: options.afterBranches,
      timeoutMillis: policies.timeMillis("timeout", options.timeout, refuseTime(name, problems)),
      retry: options.retry === undefined ? undefined : retryPolicy(name, options.retry, problems)
    })
  }
  return {
    [planNames.stepTypeId]: { _Refs: (_: never) => _, _R: (_: never) => _ },
    // Sound: the type of `make` has the name.
    name: name as never,
    parts: {
      definition,
      target,
      source: options.target,
      input: options.input ?? own?.input,
      output: options.output ?? own?.output,
      problems
    }
  }
}

/**
 * Makes a step.
 *
 * **Details**
 *
 * It never fails: `Plan.make` reports a name, a time or a schema that cannot be used, with all other problems. The
 * types come from the plan: a function's input follows `input`, its answer `output`, and names of other steps are
 * checked when the plan is made.
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
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const Parity = Schema.Struct({ next: Schema.Literals(["even", "odd"]) })
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("parity", [
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
 *   ])
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
  I extends stepSchema.StepSchema = Schema.ConstraintCodec<Schema.Json>,
  O extends stepSchema.StepSchema = Schema.ConstraintCodec<Schema.Json>,
  R = never,
  A = Schema.Json
>(
  name: Name,
  options: Options<Task, Context, To, After, By, I, O, R, A>
) => Step<Name, Task | Context | To | After | stepSchema.LiteralsOf<stepSchema.DecodedOutput<O, A>, By>, R> = makeStep

/**
 * The input of a function.
 *
 * **Details**
 *
 * - `step`: the name of the step.
 * - `payload`: what the task of the step refers to, decoded with the `input` schema if
 *   there is one, and plain JSON otherwise.
 * - `task`: the text of it: a payload that is no text becomes canonical JSON.
 * - `context`: the text of the step's context references, a blank line between them;
 *   `undefined` if there is none.
 * - `content`: images and files of the plan's input, for steps that read it.
 * - `decision`: the decision about the pause of this step, on the run after that; `undefined` on the first run, and on
 *   a run that was resumed without a decision. A step whose pause was turned down fails as `Denied` and does not run,
 *   so the decision is an approval, with its `reason`, `decidedBy` and `expiresAt`. A step that runs after an approval
 *   has the task, payload and context that it had when it paused.
 *
 * **Example** (A decision of a person)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Run } from "effect-emissary"
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("offer", [
 *     Step.make("offer", { target: () => Effect.succeed("10 % off") }),
 *     Step.make("ask", {
 *       target: ({ decision, task }) =>
 *         decision === undefined
 *           ? Step.pause(`May we offer ${task}?`)
 *           : Effect.succeed(`${task}, ${decision.reason ?? "as it is"}`)
 *     })
 *   ])
 *   const bound = yield* Plan.bind(plan)
 *   const paused = yield* Plan.run(bound, "A customer is unhappy")
 *   assert(paused.outcome === "Paused")
 *   return yield* Plan.resume(bound, paused.state, {
 *     decisions: paused.requests.filter(Run.isApprovable).map((request) => Run.approve(request, { reason: "for a week" }))
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
export interface Input<out P = Schema.Json> extends stepTarget.Input<P> {}

/**
 * A function under the name it has in a definition and in a registry; `R` is what it
 * requires. Made by {@link target}.
 *
 * @category models
 * @since 0.1.0
 */
export interface FunctionTarget<out R = never> extends stepTarget.FunctionTarget<R> {}

/**
 * Names a function.
 *
 * **When to use**
 *
 * Use for functions of several steps, and for plans that travel: the definition has the
 * name, and the registry of the reader has the function. Otherwise write the
 * function into the step.
 *
 * **Details**
 *
 * A step without schemas has the schemas of its function. A payload that does not fit `input` fails the step with the
 * type `InputInvalid`, an answer that does not fit `output` with `OutputInvalid`; neither message quotes the value.
 *
 * The function may fail with anything, and so fail its step. A {@link Pause} or a
 * {@link Conclude} is no failure.
 *
 * **Example** (One function, two steps)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const double = Step.target("double", { input: Schema.Finite, output: Schema.Finite }, ({ payload }) =>
 *   Effect.succeed(payload * 2)
 * )
 *
 * const program = Effect.gen(function* () {
 *   const steps = [Step.make("once", { target: double }), Step.make("twice", { target: double })]
 *   const plan = yield* Plan.make("quadruple", steps, { output: Schema.Finite })
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
export const target: {
  <R = never>(name: string, run: (input: Input) => Effect.Effect<Schema.Json, unknown, R>): FunctionTarget<R>
  <
    I extends stepSchema.StepSchema = Schema.ConstraintCodec<Schema.Json>,
    O extends stepSchema.StepSchema = Schema.ConstraintCodec<Schema.Json>,
    R = never
  >(
    name: string,
    options: stepTarget.TargetOptions<I, O>,
    run: (input: Input<I["Type"]>) => Effect.Effect<O["Type"], unknown, R>
  ): FunctionTarget<R>
} = stepTarget.makeTarget

/**
 * The step waits for a decision. The run ends `Paused`; when it is resumed, the step runs
 * again with the same input.
 *
 * @category errors
 * @since 0.1.0
 */
export class Pause extends Schema.TaggedError<Pause>("effect-emissary/plan/Pause")("Pause", {
  reason: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `The step waits: ${this.reason}. Resume the run to run the step again.`
  }
}

/**
 * The plan, and every plan it is a step of, is done with this answer.
 *
 * @category errors
 * @since 0.1.0
 */
export class Conclude extends Schema.TaggedError<Conclude>("effect-emissary/plan/Conclude")("Conclude", {
  answer: Schema.String
}) {
  // Decoding runs it too, and the fields pass through unchanged: content is hidden however the error was made
  // @effect-diagnostics-next-line overriddenSchemaConstructor:off
  constructor(fields: { readonly answer: string }, options?: Schema.MakeOptions) {
    super(fields, options)
    hideContent(this, "answer")
  }

  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `The plan concludes with an answer of ${this.answer.length} characters.`
  }
}

/**
 * Pauses the run at this step: its outcome is `Paused`, with a `Pause` among its `requests`.
 *
 * **Details**
 *
 * Resumed, the step runs again with the same input, so it has to find out by itself
 * whether it may continue; nothing else runs again. The state can be kept meanwhile
 * (`PlanRun.stateCodec`, or in a `Session`), and resumed by another process.
 *
 * **Example** (Waiting for a decision)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Ref } from "effect"
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const approved = yield* Ref.make(false)
 *   const plan = yield* Plan.make("news", [
 *     Step.make("draft", { target: ({ task }) => Effect.succeed(`${task}!`) }),
 *     Step.make("publish", {
 *       target: ({ task }) =>
 *         Effect.flatMap(Ref.get(approved), (yes) =>
 *           yes ? Effect.succeed(`published: ${task}`) : Step.pause("approval is required")
 *         )
 *     })
 *   ])
 *   const bound = yield* Plan.bind(plan)
 *   const paused = yield* Plan.run(bound, "News")
 *   assert.ok(paused.outcome === "Paused")
 *   assert.deepStrictEqual(
 *     paused.requests.map(({ arguments: asked, name }) => [name, asked]),
 *     [["publish", { reason: "approval is required" }]]
 *   )
 *
 *   yield* Ref.set(approved, true)
 *   return yield* Plan.resume(bound, paused.state)
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === "published: News!")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const pause = (reason: string): Effect.Effect<never, Pause> => Effect.fail(new Pause({ reason }))

/**
 * Ends the whole plan, and every plan it is a step of, with an answer. The outcome is
 * `Concluded`, and cannot be resumed.
 *
 * **Example** (Nothing left to do)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("work", [
 *     Step.make("look", {
 *       target: ({ task }) => (task === "" ? Step.conclude("Nothing to do.") : Effect.succeed(task))
 *     }),
 *     Step.make("work", { target: ({ task }) => Effect.succeed(`done: ${task}`) })
 *   ])
 *   return yield* Plan.run(yield* Plan.bind(plan), "")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Concluded" && result.answer === "Nothing to do.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const conclude = (answer: string): Effect.Effect<never, Conclude> => Effect.fail(new Conclude({ answer }))

type Problems = Array<stepTarget.StepParts["problems"][number]>

const isReference = Schema.is(Schema.Union([Schema.String, Schema.toType(Reference.Reference)]))

/** The types of options: code without TypeScript can pass anything. Times have a check of their own. */
const optionTypes: Record<string, Predicate.Predicate<unknown>> = {
  name: Predicate.isString,
  target: stepTarget.isTarget,
  task: isReference,
  context: (u) => (Array.isArray(u) ? u.every(isReference) : isReference(u)),
  writes: Predicate.isString,
  parallel: Predicate.isBoolean,
  input: Schema.isSchema,
  output: Schema.isSchema,
  routes: Schema.is(Schema.Array(Schema.Tuple([Schema.String, Schema.toType(condition.Shape)]))),
  routesBy: Predicate.isString,
  afterBranches: Predicate.isString,
  retry: Predicate.isObject
}

const optionProblems = (step: string, options: Readonly<Record<string, unknown>>): Problems =>
  Object.entries(optionTypes)
    .filter(([slot, isType]) => !isType(options[slot]) && (options[slot] !== undefined || slot === "target"))
    .map(([slot]) => {
      const found = kindOf(options[slot])
      return planCheck.problemOf({ step }, { code: "InvalidOption", slot, found })
    })

const refuseTime = (step: string, problems: Problems) => (slot: string, input: Duration.Input) => {
  const found = JSON.stringify(String(input))
  problems.push(planCheck.problemOf({ step }, { code: "InvalidDuration", slot, found }))
}

const retryPolicy = (name: string, retry: Retry, problems: Problems): PlanDefinition.RetryPolicy => {
  const refuse = refuseTime(name, problems)
  const policy = policies.toPolicy(retry, (slot, input) => refuse(`retry.${slot}`, input))
  if (!policies.isRetryPolicy(policy)) {
    const found = JSON.stringify(policy)
    problems.push(planCheck.problemOf({ step: name }, { code: "InvalidRetry", slot: "retry", found }))
  }
  return policy
}

/** The options of `Step.make` without the ties between their types. */
type StepOptions = Omit<
  Options<string, string, string, string, string, stepSchema.StepSchema, stepSchema.StepSchema, unknown>,
  "target"
> & {
  readonly target: stepTarget.TargetInput
}

const toReferences = (input: NonNullable<StepOptions["context"]>) =>
  typeof input === "string" || "_tag" in input ? toReference(input) : input.map(toReference)

const toReference = (input: ReferenceInput): Reference.Reference =>
  typeof input === "string" ? Reference.literal(input) : input
