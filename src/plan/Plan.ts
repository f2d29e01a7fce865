/**
 * Plans: several steps that work on one task, as data that is checked before it runs.
 *
 * A step runs a function, an agent, a tool or another plan. It reads what earlier steps
 * gave, and the next one goes on from there; routes, bands and loops say where it is not
 * just the next one.
 *
 * **Example** (Make, bind, run)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Plan, Reference, Step, When } from "effect-emissary"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     { name: "research" },
 *     Step.make("search", {
 *       output: Schema.Array(Schema.String),
 *       target: ({ task }) => Effect.succeed(task === "Effect" ? ["Effects are values."] : []),
 *       routes: [["apologize", When.payload.empty()], ["write", When.always]],
 *       afterBranches: "sign"
 *     }),
 *     Step.make("write", { target: ({ task }) => Effect.succeed(`It is known: ${task}`) }),
 *     Step.make("apologize", { task: Reference.fromStart, target: ({ task }) => Effect.succeed(`No idea: ${task}.`) }),
 *     Step.make("sign", { target: ({ task }) => Effect.succeed(`${task} Yours, Emissary`) })
 *   )
 *   const bound = yield* Plan.bind(plan)
 *   return yield* Plan.run(bound, "Monads")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed")
 * assert.strictEqual(result.output, "No idea: Monads. Yours, Emissary")
 * ```
 *
 * **Details**
 *
 * | | what it is | what it has |
 * |---|---|---|
 * | `Step.make` | one step, as it was written | the requirements of its target, the names it refers to |
 * | {@link make} | a {@link Plan}: its structure is checked | a `definition` (plain data) and a `digest` |
 * | {@link bind} | a {@link Bound} plan: its tools, agents and memories are there | everything to run; it is an agent, too |
 * | {@link run}, {@link stream}, {@link runMany} | a run | a result with a state that can be kept |
 * | {@link resume}, {@link resumeStream} | the same run, later | nothing that is done runs again |
 * | {@link encode}, {@link decode} | the plan as versioned JSON | no code: what names stand for comes from a registry |
 *
 * What goes wrong is told as early as can be, and all at once: unknown step names by the
 * compiler, the rest of the structure by `make` and `decode`, tools and agents by `bind`
 * (`PlanInvalid`), and failures of steps by the run (`PlanError`, with the state to go on
 * from).
 *
 * `Checkpoint` keeps runs over restarts.
 *
 * @since 0.1.0
 */
import type * as Tool from "effect/ai/Tool"
import type * as Effect from "effect/Effect"
import type { Inspectable } from "effect/Inspectable"
import type * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import type { Agent } from "../agent/Agent.ts"
import type { ToolContractError } from "../tool/ToolContract.ts"
import type { ToolNameError } from "../tool/ToolSet.ts"
import type { AgentMemory } from "./AgentMemory.ts"
import * as bindPlan from "./internal/bind.ts"
import * as methods from "./internal/engine/methods.ts"
import type { BoundPlan, LivePlan } from "./internal/live.ts"
import * as internal from "./internal/plan.ts"
import * as planMake from "./internal/planMake.ts"
import * as payloadText from "./internal/text.ts"
import type { BindingServices, BindOptions, Known, OutputOf, Parts, ServicesOf } from "./PlanConfig.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import type { PlanError } from "./PlanError.ts"
import type { PlanEvent } from "./PlanEvent.ts"
import type * as PlanInput from "./PlanInput.ts"
import type { PlanInvalid } from "./PlanInvalid.ts"
import type { PlanOptions, ResumeOptions, RunManyOptions } from "./PlanOptions.ts"
import type { PlanResult } from "./PlanResult.ts"
import type { PlanRunState } from "./PlanRunState.ts"
import type { AgentTarget } from "./Target.ts"

export {
  /**
   * A plan from JSON of any wire version, with registries
   * for the code its names stand for. See `PlanCodec.decode`.
   *
   * @category serialization
   * @since 0.1.0
   */
  decode,
  /**
   * A plan from JSON text. See `PlanCodec.decodeJson`.
   *
   * @category serialization
   * @since 0.1.0
   */
  decodeJson,
  /**
   * A plan as versioned JSON. See `PlanCodec.encode`.
   *
   * @category serialization
   * @since 0.1.0
   */
  encode,
  /**
   * A plan as JSON text. See `PlanCodec.encodeJson`.
   *
   * @category serialization
   * @since 0.1.0
   */
  encodeJson
} from "./PlanCodec.ts"

export {
  /**
   * What changed between two plans. See `PlanDiff`.
   *
   * @category comparing
   * @since 0.1.0
   */
  diff
} from "./PlanDiff.ts"

export {
  /**
   * A plan as a Mermaid flowchart. See `Picture.toMermaid`.
   *
   * @category pictures
   * @since 0.1.0
   */
  toMermaid,
  /**
   * A plan in the DOT language of GraphViz. See `Picture.toGraphViz`.
   *
   * @category pictures
   * @since 0.1.0
   */
  toGraphViz
} from "./Picture.ts"

export {
  /**
   * A plan as a service: a class with a `layer`, as `Agent.Service` makes one. See
   * `PlanService.Service`.
   *
   * @category constructors
   * @since 0.1.0
   */
  Service
} from "./PlanService.ts"

/**
 * Type identifier of plans.
 *
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
 * Type identifier of plans that can run.
 *
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
 * A plan whose structure was checked. `A` is what it gives, `R` what the code in it
 * requires. It cannot run before {@link bind} has said what its names stand for.
 *
 * **Details**
 *
 * `definition` is the plan as plain data, `digest` its {@link digest}. The code behind it
 * is not part of either, and in a log a plan is its name, its digest and the names of its
 * steps.
 *
 * @category models
 * @since 0.1.0
 */
export interface Plan<out A, out R = never> extends Inspectable {
  readonly [TypeId]: { readonly _A: Types.Covariant<A>; readonly _R: Types.Covariant<R> }
  readonly definition: PlanDefinition
  readonly digest: string
  /** @internal */
  readonly live: LivePlan
}

/**
 * A plan that can run. It is an agent, too, and can stand wherever an agent can: as a
 * step of another plan, as a tool of an agent, in `agent.ask`.
 *
 * **When to use**
 *
 * Use the functions of this module ({@link run}, {@link resume} ...) for the plan's own
 * results and events, and the methods (`bound.run`, `bound.ask` ...) where any agent
 * will do. The methods answer with a text message, and their `RunState` is that of
 * agents.
 *
 * @category models
 * @since 0.1.0
 */
export interface Bound<out A, out R = never> extends Agent<A, R>, Inspectable {
  readonly [BoundTypeId]: BoundTypeId
  readonly definition: PlanDefinition
  readonly digest: string
  /** @internal */
  readonly live: BoundPlan
}

/**
 * Makes a plan of its steps, in the order in which they run, and checks its structure.
 *
 * **Details**
 *
 * Fails with `PlanInvalid`, which holds every problem with its step, its slot, a sentence
 * and the closest known name: names that occur twice or are unknown, references to later
 * steps or into the own band, routes and rejoins that lead nowhere, schemas that do not
 * fit or have no JSON Schema, two targets under one name, predicates that are missing,
 * times and retries that cannot be. `PlanCheck` tells the rules.
 *
 * Steps are given one by one, not as a list: spread a list that was built. Give the plan a
 * `name`: it is `"plan"` otherwise, and errors, spans and pictures only tell that.
 *
 * Targets of one name have to be one value: the definition only carries the name. A
 * function written into a step has the name of the step.
 *
 * A reference, a route or a rejoin to a step that the plan does not have is an error of
 * the compiler when the names are literals.
 *
 * **Example** (All problems at once)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan, Reference, Step } from "effect-emissary"
 *
 * const name: string = "serach"
 * const error = await Effect.runPromise(Effect.flip(Plan.make(
 *   Step.make("search", { target: "web" }),
 *   Step.make("read", { target: "web", task: Reference.fromStep(name), retry: { times: -1 } })
 * )))
 * assert.deepStrictEqual(
 *   error.problems.map(({ code, slot, step, suggestion }) => [step, slot, code, suggestion]),
 *   [
 *     ["read", "task", "UnknownStep", "search"],
 *     ["read", "retry", "InvalidRetry", undefined]
 *   ]
 * )
 * ```
 *
 * **Example** (A condition as code)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan, Step, When } from "effect-emissary"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     { name: "shorten", maxIterations: 10, predicates: { long: ({ text }) => text.length > 5 } },
 *     Step.make("cut", {
 *       target: ({ task }) => Effect.succeed(task.slice(1)),
 *       routes: [["cut", When.custom("long")]]
 *     })
 *   )
 *   return yield* Plan.run(yield* Plan.bind(plan), "123456789")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === "56789")
 * assert.strictEqual(result.iterations, 4)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: <const Args extends Parts>(
  ...parts: Args & Known<Args>
) => Effect.Effect<Plan<OutputOf<Args>, ServicesOf<Args>>, PlanInvalid> = planMake.make

/**
 * Makes a plan runnable: says what the names in it stand for, and checks that the steps
 * fit them.
 *
 * **Details**
 *
 * Fails with `PlanInvalid`, with all problems: tools and agents that are not there, a name
 * that is both, memories that are missing, tools that take neither a text nor the payload
 * of the step, or no context where the step has one. Fails with `ToolNameError` for two
 * tools of one name, and with `ToolContractError` for a tool that cannot be bound.
 *
 * The handlers of the toolkit are required here. What agents and memories require is
 * required where the plan runs.
 *
 * **Example** (A tool and an agent)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent, Plan, Step } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
 * )
 * const writer = Agent.make("writer", { instructions: "You write one sentence." })
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     Step.make("find", { target: "search" }),
 *     Step.make("write", { target: "author" })
 *   )
 *   const bound = yield* Plan.bind(plan, { toolkit, agents: { author: writer } })
 *   return yield* Plan.run(bound, "How high is Mont Blanc?")
 * }).pipe(
 *   Effect.provide(toolkit.toLayer({ search: () => Effect.succeed("4806 m") })),
 *   Effect.provide(ScriptedModel.layer([{ text: "Mont Blanc is 4806 m high." }]))
 * )
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed")
 * assert.strictEqual(result.output, "Mont Blanc is 4806 m high.")
 * ```
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
 * **Details**
 *
 * The input is a text, or its parts: `task`, `payload`, `context`, `content`. A result
 * says how the run ended: `Completed` with the output, `Concluded` by a step, `Paused`
 * while somebody decides, or `Interrupted`; every one has the `state`, the `usage`, the
 * `iterations` and what steps wrote.
 *
 * Fails with `PlanError`: a step failed after its retries, a reference had no result, a
 * predicate failed, the output does not fit its schema, or there were too many
 * iterations. The error has the state with everything that was completed, and
 * {@link resume} tries again from there.
 *
 * **Example** (Going on after a failure)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Ref } from "effect"
 * import { Plan, Step } from "effect-emissary"
 *
 * const program = Effect.gen(function* () {
 *   const online = yield* Ref.make(false)
 *   const plan = yield* Plan.make(
 *     Step.make("write", { target: ({ task }) => Effect.succeed(`Dear ${task}`), writes: "letter" }),
 *     Step.make("send", {
 *       target: ({ task }) =>
 *         Effect.flatMap(Ref.get(online), (yes) => (yes ? Effect.succeed(`sent: ${task}`) : Effect.fail("offline")))
 *     })
 *   )
 *   const bound = yield* Plan.bind(plan)
 *   const error = yield* Effect.flip(Plan.run(bound, "Ada"))
 *   assert.ok(error.reason._tag === "StepFailed" && error.reason.step === "send")
 *
 *   yield* Ref.set(online, true)
 *   return yield* error.state === undefined ? Effect.fail(error) : Plan.resume(bound, error.state)
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === "sent: Dear Ada")
 * assert.strictEqual(result.writes.get("letter"), "Dear Ada")
 * ```
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
 * Runs a plan for many inputs. The results are in the order of the inputs, and a run that
 * fails does not touch the others.
 *
 * **Details**
 *
 * `concurrency` is how many runs there are at a time, default unbounded; `bands` how many
 * members of a band run at a time in each.
 *
 * **Example** (One of two fails)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Result } from "effect"
 * import { Plan, Step } from "effect-emissary"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     Step.make("halve", {
 *       target: ({ payload }) =>
 *         typeof payload === "number" ? Effect.succeed(payload / 2) : Effect.fail("no number")
 *     })
 *   )
 *   return yield* Plan.runMany(yield* Plan.bind(plan), [{ payload: 4 }, "four"], { concurrency: 2 })
 * })
 *
 * const results = await Effect.runPromise(program)
 * assert.deepStrictEqual(results.map(Result.isSuccess), [true, false])
 * ```
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
 * Goes on from the state of a run that paused, failed, was interrupted or reached its
 * limit. No step that was completed runs again; agents and plans inside a step go on
 * where they were.
 *
 * **Details**
 *
 * `decisions` answer calls and steps that wait; a call that is left out goes on waiting.
 * `maxIterations` is the new limit, and the count goes on. Fails with `PlanChanged` when
 * the state was begun with another definition, and with `InvalidDecision` when a decision
 * names what does not wait.
 *
 * @category running
 * @since 0.1.0
 */
export const resume = <A, R>(
  bound: Bound<A, R>,
  state: PlanRunState,
  options?: ResumeOptions
): Effect.Effect<PlanResult<A>, PlanError, R> =>
  // Sound: see `run`.
  methods.resume(internal.boundOf(bound), state, options) as Effect.Effect<PlanResult<A>, PlanError, R>

/**
 * Runs a plan and tells what happens while it happens: steps, routes, bands, what agents
 * say, and at last `PlanFinished` with the result. Fails as {@link run} does.
 *
 * **Details**
 *
 * A slow reader slows the run, and leaving early interrupts it.
 *
 * **Example** (The way a run takes)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Stream } from "effect"
 * import { Plan, Step } from "effect-emissary"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     Step.make("a", { target: ({ task }) => Effect.succeed(task + "a") }),
 *     Step.make("b", { target: ({ task }) => Effect.succeed(task + "b") })
 *   )
 *   const events = yield* Stream.runCollect(Plan.stream(yield* Plan.bind(plan), "x"))
 *   return events.flatMap((event) => (event._tag === "StepFinished" ? [event.record.output] : []))
 * })
 *
 * assert.deepStrictEqual(await Effect.runPromise(program), ["xa", "xab"])
 * ```
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
 * Goes on from a state as {@link resume} does, told event by event as by {@link stream}.
 *
 * @category running
 * @since 0.1.0
 */
export const resumeStream = <A, R>(
  bound: Bound<A, R>,
  state: PlanRunState,
  options?: ResumeOptions
): Stream.Stream<PlanEvent<A>, PlanError, R> =>
  // Sound: see `run`.
  methods.resumeStream(internal.boundOf(bound), state, options) as Stream.Stream<PlanEvent<A>, PlanError, R>

/**
 * The digest of a plan: SHA-256 of the canonical JSON of its definition, without name and
 * description. It is the same on every machine, and after {@link encode} and
 * {@link decode}. A state can be resumed by plans of the same digest only.
 *
 * **Gotchas**
 *
 * Code has no part in it: a function that was changed has the same digest.
 *
 * @category getters
 * @since 0.1.0
 */
export const digest = (plan: Plan<unknown, unknown> | Bound<unknown, unknown>): string => plan.digest

/**
 * A plan as plain data.
 *
 * @category getters
 * @since 0.1.0
 */
export const definition = (plan: Plan<unknown, unknown> | Bound<unknown, unknown>): PlanDefinition => plan.definition

/**
 * How many turns a run of the plan may take, when the run itself does not say.
 *
 * @category getters
 * @since 0.1.0
 */
export const maxIterations = (plan: Plan<unknown, unknown> | Bound<unknown, unknown>): number =>
  plan.definition.maxIterations

/**
 * The text of a payload, as steps and agents are given it: a string is itself, `null` is
 * empty, and everything else is canonical JSON (RFC 8785), the same wherever it came from.
 *
 * **Example** (Three payloads)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Plan } from "effect-emissary"
 *
 * assert.strictEqual(Plan.text("as it is"), "as it is")
 * assert.strictEqual(Plan.text(null), "")
 * assert.strictEqual(Plan.text({ b: 1, a: ["x"] }), '{"a":["x"],"b":1}')
 * ```
 *
 * @category getters
 * @since 0.1.0
 */
export const text: (payload: Schema.Json) => string = payloadText.text
