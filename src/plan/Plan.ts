/**
 * Plans: several steps that work on one task, as data that is checked before it runs.
 *
 * A step runs a function, an agent, a tool or another plan. It reads the outputs of earlier
 * steps, and the next step follows; routes, parallel groups and loops are for every other order.
 *
 * **Example** (Make, bind, run)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Plan, Reference, Step, When } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("research", [
 *     Step.make("search", {
 *       output: Schema.Array(Schema.String),
 *       target: ({ task }) => Effect.succeed(task === "Effect" ? ["Effects are values."] : []),
 *       routes: [["apologize", When.payload.empty()], ["write", When.always]],
 *       afterBranches: "sign"
 *     }),
 *     Step.make("write", { target: ({ task }) => Effect.succeed(`It is known: ${task}`) }),
 *     Step.make("apologize", { task: Reference.fromStart, target: ({ task }) => Effect.succeed(`No idea: ${task}.`) }),
 *     Step.make("sign", { target: ({ task }) => Effect.succeed(`${task} Yours, Emissary`) })
 *   ])
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
 * | {@link encode}, {@link decode} | the plan as versioned JSON | no code: a registry resolves its names |
 *
 * Problems are reported early, and all at once: unknown step names by the compiler, the
 * rest of the structure by `make` and `decode`, tools and agents by `bind` (`PlanInvalid`),
 * and failures of steps by the run (`PlanError`, with the state to resume from).
 *
 * `Session.run` of `effect-emissary/session` keeps a run over restarts.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as agentValue from "../agent/internal/agentValue.ts"
import * as Conversation from "../conversation/Conversation.ts"
import * as VersionedStore from "../store/VersionedStore.ts"
import type * as history from "../conversation/internal/history.ts"
import type * as Json from "../payload/Json.ts"
import type * as PayloadError from "../payload/PayloadError.ts"
import type * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as fuel from "../payload/internal/fuel.ts"
import * as callOptions from "../payload/internal/options.ts"
import { PatternEngine } from "../payload/internal/patterns.ts"
import { kindOf } from "../payload/internal/values.ts"
import type * as planRunParts from "../run/internal/planRunParts.ts"
import * as liveRun from "../run/internal/liveRun.ts"
import type { ToolContractError } from "../tool/ToolContract.ts"
import * as boundTool from "../tool/internal/boundTool.ts"
import * as callContext from "../tool/internal/callContext.ts"
import type * as PlanDefinition from "./PlanDefinition.ts"
import type { PlanError } from "./PlanError.ts"
import type { PlanEvent } from "./PlanEvent.ts"
import type * as PlanInvalid from "./PlanInvalid.ts"
import type * as PlanRun from "./PlanRun.ts"
import type * as Step from "./Step.ts"
import * as engine from "./internal/engine.ts"
import * as livePlan from "./internal/livePlan.ts"
import * as performStep from "./internal/performStep.ts"
import * as planAgent from "./internal/planAgent.ts"
import * as planCheck from "./internal/planCheck.ts"
import * as planCodec from "./internal/planCodec.ts"
import * as planNames from "./internal/planNames.ts"
import * as stepTarget from "./internal/stepTarget.ts"

export type { AgentMemory, Bound, Journal, KnownNames, KnownOptions, Options, Plan } from "./internal/livePlan.ts"
export type { PlanOutput, PlanServices, ResumeOptions, RunOptions } from "./internal/livePlan.ts"
export type { PlanRegistry, RegistryServices } from "./internal/planCodec.ts"
export type { Input } from "../run/internal/planRunParts.ts"

/**
 * Legal parts of a plan that are probably not meant: `routes`, `routesBy` and
 * `afterBranches` of a step in a parallel group, which continues at the step after it.
 *
 * @category validation
 * @since 0.1.0
 */
export const warnings = (definition: PlanDefinition.PlanDefinition): ReadonlyArray<PlanInvalid.Problem> =>
  planCheck.structureWarnings(definition)

/**
 * Definitions as JSON, in every version, without any code.
 *
 * **When to use**
 *
 * For tools that show, compare, convert or store plans. To run one, {@link decode} it
 * with a registry.
 *
 * **Details**
 *
 * Only the wire itself is checked: shapes, names, limits, JSON Schemas and conditions.
 * {@link decode} checks that the steps fit together. In versions 1 and 2, a target of an unknown kind is read as a function, and schemas called `str`
 * (of an output) and `Any` (of an input) as none. An `input` that version 3 has is decoded when
 * the step runs: leave it out of a plan of an older version that it was a mere note in.
 *
 * **Example** (Bringing a plan of LazyBridge to the newest version)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan } from "effect-emissary/plan"
 *
 * const old = {
 *   version: 2,
 *   max_iterations: 20,
 *   steps: [{ name: "fetch", target: { kind: "callable", name: "fetch" }, task: { kind: "from_start" }, parallel: false }]
 * }
 * const definition = Effect.runSync(Plan.codec.decode(old))
 * const wire = Effect.runSync(Plan.codec.encode(definition))
 *
 * assert.strictEqual(wire["version"], 3)
 * assert.deepStrictEqual(Effect.runSync(Plan.codec.encode(definition, { version: 2 })), old)
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<PlanDefinition.PlanDefinition> = planCodec.definitionCodec

/**
 * Reads a plan of any version: a JSON value, or JSON text or bytes.
 *
 * **Details**
 *
 * There are three stages, and a stage reports all its problems:
 *
 * 1. the JSON itself: `PayloadError`, with the path of each problem;
 * 2. names that the registry does not have, or has as another kind: `PlanInvalid` with
 *    codes such as `MissingEntry`, the known names and the closest one;
 * 3. steps that do not fit together: `PlanInvalid`.
 *
 * A registry that the plan has no use for can be left out. What the entries of the
 * registry require is required by the plan. Tools are no part of the registry: the plan
 * is bound with them.
 *
 * The JSON Schemas of version 3 need no entry; `JsonSchema.make` makes their guards. Schemas that versions 1 and 2 only
 * name are part of the plan once it is read. The `input` of a step of these versions is compared with what comes before
 * the step, and is no part of the plan: no value is decoded with it, and a tool takes the text of the task as ever.
 * Only {@link encode} in these versions writes it again.
 *
 * The plan returns JSON: the type of its `output` in code is not known here. Decode
 * the output of a result with your own schema.
 *
 * **Example** (A plan of LazyBridge, and the entries of its names)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Plan, Step, When } from "effect-emissary/plan"
 *
 * const Hits = Schema.Struct({ items: Schema.Array(Schema.String) })
 * const wire = {
 *   version: 2,
 *   steps: [
 *     { name: "fetch", target: { kind: "callable", name: "fetch" }, output: "Hits", routes: ["apology"] },
 *     { name: "write", target: { kind: "tool", name: "write" } },
 *     { name: "apology", target: { kind: "tool", name: "apology" } }
 *   ]
 * }
 * const decoded = Plan.decode(wire, {
 *   targets: { fetch: Step.target("fetch", () => Effect.succeed({ items: [] })) },
 *   predicates: { "routes:fetch:apology": When.field("items").empty() },
 *   schemas: { Hits }
 * })
 * assert.strictEqual(Effect.runSync(decoded).definition.steps.length, 3)
 *
 * const error = Effect.runSync(Effect.flip(Plan.decode(wire)))
 * assert.ok(error._tag === "PlanInvalid")
 * assert.deepStrictEqual(error.problems.map(({ code, slot }) => `${code} ${slot}`), [
 *   "MissingEntry target",
 *   "MissingEntry output",
 *   "MissingEntry routes[0]"
 * ])
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = <const Registry extends planCodec.PlanRegistry = {}>(
  wire: unknown,
  registry?: Registry,
  options?: Pick<Json.Options, "limits">
): Effect.Effect<
  livePlan.Plan<Schema.Json, planCodec.RegistryServices<Registry>>,
  PayloadError.PayloadError | PlanInvalid.PlanInvalid
> =>
  fuel.doorWithin(
    options?.limits,
    Effect.flatMap(
      typeof wire === "string" || wire instanceof Uint8Array
        ? planCodec.draftCodec.decodeJson(wire)
        : planCodec.draftCodec.decode(wire),
      (draft) => planCodec.resolvePlan<planCodec.RegistryServices<Registry>>(draft, registry ?? {})
    )
  )

/**
 * Writes a plan as a versioned JSON object.
 *
 * **Details**
 *
 * - `version`: 1, 2 or 3; default 3.
 * - `allowLoss`: what may be lost by an older version: paths (a `*` matches one
 *   token) or the `losses` of a `LossyEncoding`; default nothing.
 * - `limits`: limits that differ from the current ones.
 *
 * Versions 1 and 2 fail with `LossyEncoding` for: a name of the plan other than
 * `plan`, its description and output; routes in another order than sorted by code
 * point, a second route to one step, and conditions that are not the predicate
 * `routes:<step>:<target>`; references to memories and answers of agents; timeouts and
 * retries; schemas without a name, or with the name of another one, and in version 1 any
 * schema. The name of a schema is its `identifier` annotation.
 *
 * A plan that loses a schema may not be readable again: {@link decode} refuses `routesBy`
 * without the output schema. Name each schema that travels with a plan.
 *
 * It fails with a `PayloadError` for what the wire cannot hold or would not be read
 * again, such as a name that only version 2 allows, and for secrets.
 *
 * **Example** (Writing an older version)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function*() {
 *   const plan = yield* Plan.decode({
 *     version: 3,
 *     steps: [{ name: "fetch", target: { kind: "tool", name: "fetch" }, timeout: 1000 }]
 *   })
 *   const error = yield* Effect.flip(Plan.encode(plan, { version: 2 }))
 *   assert.ok(error._tag === "LossyEncoding")
 *   assert.deepStrictEqual(error.losses, [{ path: "/steps/0/timeout", what: "the timeout of a step" }])
 *   return yield* Plan.encode(plan, { version: 2, allowLoss: ["/steps/*\/timeout"] })
 * })
 * assert.strictEqual(Effect.runSync(program)["version"], 2)
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (
  plan: Pick<livePlan.Plan<unknown, unknown>, "definition">,
  options?: VersionedCodec.EncodeOptions
): Effect.Effect<Json.JsonObject, PayloadError.PayloadError | PayloadError.LossyEncoding> =>
  planCodec.encodePlan(plan.definition, options)

/** The body of `Plan.make`. */
const makePlan = Effect.fnUntraced(function* (
  name: string,
  written: ReadonlyArray<Step.Any>,
  options: livePlan.Options = {}
): Effect.fn.Return<livePlan.Plan<never, never>, PlanInvalid.PlanInvalid> {
  yield* livePlan.failWithProblems(
    typeof name === "string" ? name : planNames.defaultName,
    argumentProblems(name, written, options)
  )
  const sources = written.map(({ parts }) => parts.source)
  const lives = yield* Effect.forEach(written, (step, index) => livePlan.liveStep(step.parts, index))
  const output = yield* Effect.result(livePlan.exportSchema(options.output, { slot: "output" }))
  const exported = Result.getOrElse(output, () => undefined)
  const steps = lives.map(({ step }) => step)
  const definition: PlanDefinition.PlanDefinition = {
    name,
    ...(options.description === undefined ? {} : { description: options.description }),
    maxIterations: options.maxIterations ?? planNames.defaultMaxIterations,
    ...(exported === undefined ? {} : { output: exported.ref }),
    steps: steps.map((step) => step.definition)
  }
  const predicates = new Map(
    Object.entries(options.predicates ?? {}).map(([name, predicate]) => [name, livePlan.livePredicate(name, predicate)])
  )
  const live = yield* livePlan.checkParts({ definition, steps, predicates, output: exported?.schema }, [
    ...(Result.isFailure(output) ? [output.failure] : []),
    ...lives.flatMap(({ problems }) => problems),
    ...planCheck.checkWritten(definition, sources, predicates.keys(), yield* PatternEngine),
    ...(yield* livePlan.checkAgentOutput(steps, (target) => (target._tag === "Agent" ? target.source : undefined)))
  ])
  return livePlan.planFromLive(live)
})

/**
 * Makes a plan of its steps, in the order in which they run, and checks its structure.
 *
 * **Details**
 *
 * Fails with `PlanInvalid`, which holds every problem with its step, its slot, a sentence
 * and the closest known name: names that occur twice or are unknown, references to later
 * steps or into the own parallel group, routes and rejoins that lead nowhere, schemas that do not
 * fit or have no JSON Schema, two targets under one name, predicates that are missing,
 * times and retries that cannot be, arguments of another type.
 *
 * The name is shown by errors, spans and pictures, and it is the name of the plan as an agent.
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
 * import { Plan, Reference, Step } from "effect-emissary/plan"
 *
 * const name: string = "serach"
 * const error = await Effect.runPromise(Effect.flip(Plan.make("research", [
 *   Step.make("search", { target: "web" }),
 *   Step.make("read", { target: "web", task: Reference.fromStep(name), retry: { times: -1 } })
 * ])))
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
 * import { Plan, Step, When } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const cut = Step.make("cut", {
 *     target: ({ task }) => Effect.succeed(task.slice(1)),
 *     routes: [["cut", When.custom("long")]]
 *   })
 *   const plan = yield* Plan.make("shorten", [cut], {
 *     maxIterations: 10,
 *     predicates: { long: ({ text }) => text.length > 5 }
 *   })
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
export const make: <const Steps extends ReadonlyArray<Step.Any>, const O extends livePlan.Options = {}>(
  name: string,
  steps: Steps & livePlan.KnownNames<Steps>,
  options?: O & livePlan.KnownOptions<O>
) => Effect.Effect<livePlan.Plan<livePlan.PlanOutput<O>, livePlan.PlanServices<Steps, O>>, PlanInvalid.PlanInvalid> =
  makePlan

/**
 * Makes a plan runnable: resolves its names, and checks that the steps fit them.
 *
 * **Details**
 *
 * Fails with `PlanInvalid`, with all problems: tools and agents that are not there, a name
 * that is both, memories that are missing, tools that take neither a text nor the payload
 * of the step, or no context where the step has one. Fails with `ToolNameError` for two
 * tools of one name, and with `ToolContractError` for a tool that cannot be bound.
 *
 * The handlers of the toolkit are required here, and so are the services that its tools name as `dependencies`: the tools in the
 * steps have the services around `bind` in all runs of the plan. Bind a plan within each request where they are services of the
 * request, or pass data of the request as the `context` of the run. The services of agents and memories are required where the plan
 * runs.
 *
 * **Example** (A tool and an agent)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent } from "effect-emissary"
 * import { Plan, Step } from "effect-emissary/plan"
 * import { ScriptedModel } from "effect-emissary/testing"
 * const toolkit = Toolkit.make(
 *   Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
 * )
 * const writer = Agent.make("writer", { instructions: "You write one sentence." })
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("fact", [
 *     Step.make("find", { target: "search" }),
 *     Step.make("write", { target: "author" })
 *   ])
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
export const bind = Effect.fnUntraced(function* <
  A,
  R,
  Tools extends Record<string, Tool.Any> = {},
  Agents extends { readonly [name: string]: stepTarget.AgentTarget<unknown> } = {},
  Memories extends { readonly [name: string]: livePlan.AgentMemory<unknown> } = {}
>(
  plan: livePlan.Plan<A, R>,
  options: BindOptions<Tools, Agents, Memories> = {}
): Effect.fn.Return<
  livePlan.Bound<A, R | BindingServices<Agents, Memories>>,
  PlanInvalid.PlanInvalid | ToolContractError | boundTool.ToolNameError,
  Tool.HandlersFor<Tools> | Tool.HandlerServices<Tools[keyof Tools]> | boundTool.OwnServices<Tools[keyof Tools]>
> {
  const { live } = plan
  const fromToolkit = options.toolkit === undefined ? [] : yield* boundTool.fromToolkit(options.toolkit)
  const tools = yield* boundTool.makeSet([...fromToolkit, ...(options.tools ?? [])])
  const agents = new Map<string, stepTarget.AgentTarget<unknown>>(Object.entries(options.agents ?? {}))
  // Sound: the services of a memory are in the type of the plan that is bound with it.
  const memories = new Map(
    Object.entries((options.memories ?? {}) as { readonly [name: string]: livePlan.AgentMemory })
  )
  yield* livePlan.failWithProblems(live.definition.name, [
    ...planCheck.checkBinding(live.definition, {
      tools: tools.tools,
      agents: new Set(agents.keys()),
      memories
    }),
    ...(yield* livePlan.checkAgentOutput(live.steps, (target) =>
      target._tag === "Agent" ? target.source : target._tag === "Tool" ? agents.get(target.name) : undefined
    ))
  ])
  const steps = yield* Effect.forEach(live.steps, (step) =>
    Effect.map(boundTarget(step, tools, agents), (target) => ({ ...step, target }))
  )
  return planAgent.makeBound<A, R | BindingServices<Agents, Memories>>({
    ...live,
    steps,
    tools,
    memories,
    within: (effect) => effect
  })
})

/**
 * Runs a plan.
 *
 * **Details**
 *
 * The input is a text, or its parts: `task`, `payload`, `context`, `content`. The `outcome`
 * of the result is `Completed` with the output, `Concluded` by a step, `Paused`
 * until a decision, or `Interrupted`; every one has the `state`, the `usage`, the
 * `iterations` and what steps wrote.
 *
 * Fails with `PlanError`: a step failed after its retries, a reference had no result, a
 * predicate failed, the output does not fit its schema, or there were too many
 * iterations. The error has the state with everything that was completed, and
 * {@link resume} tries again from there.
 *
 * **Example** (Resuming after a failure)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Ref } from "effect"
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const online = yield* Ref.make(false)
 *   const plan = yield* Plan.make("letter", [
 *     Step.make("write", { target: ({ task }) => Effect.succeed(`Dear ${task}`), writes: "letter" }),
 *     Step.make("send", {
 *       target: ({ task }) =>
 *         Effect.flatMap(Ref.get(online), (yes) => (yes ? Effect.succeed(`sent: ${task}`) : Effect.fail("offline")))
 *     })
 *   ])
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
  bound: livePlan.Bound<A, R>,
  input: planRunParts.Input,
  options?: livePlan.RunOptions
): Effect.Effect<PlanRun.Result<A>, PlanError, R> => drive(bound, { _tag: "Start", input }, options)

const drive = <A, R>(
  bound: livePlan.Bound<A, R>,
  begin: performStep.RunStart,
  options: livePlan.ResumeOptions = {}
): Effect.Effect<PlanRun.Result<A>, PlanError, R> =>
  // Sound: the output of a plan is decoded with the schema that `A` came from, and `R` is what its code requires.
  engine.open(bound.live, begin, options).result as Effect.Effect<PlanRun.Result<A>, PlanError, R>

/**
 * Runs a plan for many inputs. The results are in the order of the inputs, and a run that
 * fails does not touch the others.
 *
 * **Details**
 *
 * `concurrency` is the number of runs at a time; `bands` the number of members of a parallel group that run at a time
 * in each run. Both are unbounded by default. The other options hold for each run. The runs share a `journal`: `runId`
 * of the state identifies the run.
 *
 * **Example** (One of two fails)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Result } from "effect"
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("halve", [
 *     Step.make("halve", {
 *       target: ({ payload }) =>
 *         typeof payload === "number" ? Effect.succeed(payload / 2) : Effect.fail("no number")
 *     })
 *   ])
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
  bound: livePlan.Bound<A, R>,
  inputs: Iterable<planRunParts.Input>,
  options: livePlan.RunOptions & { readonly bands?: number | "unbounded" | undefined } = {}
): Effect.Effect<ReadonlyArray<Result.Result<PlanRun.Result<A>, PlanError>>, never, R> => {
  const { bands, concurrency = "unbounded", ...each } = options
  const { concurrency: allowed } = livePlan.runOptions
  const problem = callOptions.problemOf({ concurrency: allowed, bands: allowed }, options)
  const refused = problem === undefined ? undefined : performStep.optionsInvalid(bound.live.definition.name, problem)
  return Effect.forEach(
    inputs,
    (input, index) =>
      refused === undefined
        ? Effect.result(run(bound, input, { ...each, concurrency: bands })).pipe(callContext.at(`many/${index}`))
        : Effect.succeed(Result.fail(refused)),
    { concurrency: refused === undefined ? concurrency : 1 }
  )
}

/**
 * Resumes the state of a run that paused, failed, was interrupted or reached its
 * limit. No step that was completed runs again; agents and plans inside a step continue
 * where they were.
 *
 * **Details**
 *
 * `decisions` are about requests of the run; a request without a decision still waits.
 * `maxIterations` is the new limit, and the count continues. Fails with `PlanChanged` when
 * the plan was edited since in a way that `onChange` does not allow, and with `InvalidDecision` when a decision
 * names something that does not wait, has the digest of another request, or has expired.
 *
 * @category running
 * @since 0.1.0
 */
export const resume = <A, R>(
  bound: livePlan.Bound<A, R>,
  state: PlanRun.State,
  options?: livePlan.ResumeOptions
): Effect.Effect<PlanRun.Result<A>, PlanError, R> => drive(bound, { _tag: "Resume", state }, options)

/**
 * Runs a plan and emits its events while they happen: steps, routes, parallel groups, events of
 * agents, and at last `PlanFinished` with the result. Fails as {@link run} does.
 *
 * **Details**
 *
 * A slow reader slows nothing: deltas that it has not read are joined. Leaving early interrupts the run.
 *
 * **Example** (The way a run takes)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Stream } from "effect"
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("letters", [
 *     Step.make("a", { target: ({ task }) => Effect.succeed(task + "a") }),
 *     Step.make("b", { target: ({ task }) => Effect.succeed(task + "b") })
 *   ])
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
  bound: livePlan.Bound<A, R>,
  input: planRunParts.Input,
  options?: livePlan.RunOptions
): Stream.Stream<PlanEvent<A>, PlanError, R> => streamFrom(bound, { _tag: "Start", input }, options)

const streamFrom = <A, R>(
  { live }: livePlan.Bound<A, R>,
  begin: performStep.RunStart,
  options: livePlan.ResumeOptions = {}
): Stream.Stream<PlanEvent<A>, PlanError, R> =>
  // Sound: see `drive`.
  liveRun.streamOf(() => engine.open(live, begin, options, { streaming: true }, { reads: true })) as Stream.Stream<
    PlanEvent<A>,
    PlanError,
    R
  >

/**
 * Resumes a state as {@link resume} does, event by event as {@link stream}.
 *
 * @category running
 * @since 0.1.0
 */
export const resumeStream = <A, R>(
  bound: livePlan.Bound<A, R>,
  state: PlanRun.State,
  options?: livePlan.ResumeOptions
): Stream.Stream<PlanEvent<A>, PlanError, R> => streamFrom(bound, { _tag: "Resume", state }, options)

/**
 * The tools, agents and memories that the names in a plan refer to.
 *
 * **Details**
 *
 * A step's target that is a text is the name of a tool or of an agent; a name of both is
 * a problem.
 *
 * @category options
 * @since 0.1.0
 */
export interface BindOptions<
  Tools extends Record<string, Tool.Any>,
  Agents extends { readonly [name: string]: stepTarget.AgentTarget<unknown> },
  Memories extends { readonly [name: string]: livePlan.AgentMemory<unknown> }
> {
  /** Tools with their handlers, which are captured here; none by default. */
  readonly toolkit?: Toolkit.Toolkit<Tools> | undefined
  /** Tools that are bound already, from a `ToolResolver` for example; none by default. */
  readonly tools?: Iterable<boundTool.BoundTool> | undefined
  /** Agents by the names that steps use as their target, and as keys of memories; none by default. */
  readonly agents?: Agents | undefined
  /** The values that `Reference.fromMemory` and `Reference.fromAgent` read, by name; none by default. */
  readonly memories?: Memories | undefined
}

/**
 * The services that agents and memories of a plan require.
 *
 * @category models
 * @since 0.1.0
 */
export type BindingServices<Agents, Memories> =
  | stepTarget.AgentServices<Agents[keyof Agents]>
  | livePlan.MemoryServices<Memories[keyof Memories]>

/**
 * The text of a conversation, a line for each message: `User: hi`, `Assistant: there`. System messages, tools and files are
 * left out. An empty conversation has the text `""`.
 *
 * **Example** (The history of a session)
 *
 * ```ts
 * import { Session } from "effect-emissary/session"
 * import { Plan } from "effect-emissary/plan"
 *
 * export const memory = Plan.memoryFromConversation(Session.history("chat/42"))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const memoryFromConversation = <R>(
  conversation: Effect.Effect<history.Conversation, unknown, R>
): livePlan.AgentMemory<R> => ({ text: Effect.map(conversation, conversationText) })

const conversationText = (conversation: history.Conversation): string =>
  Conversation.transcript(conversation)
    .flatMap((entry) => {
      if (entry.role !== "user" && entry.role !== "assistant") return []
      const text = entry.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
      return text === "" ? [] : [`${entry.role === "user" ? "User" : "Assistant"}: ${text}`]
    })
    .join("\n")

/**
 * The last output of the agent, kept under a key of the `VersionedStore`, for this run
 * and later ones. Of several writers at once the last one wins.
 *
 * **Details**
 *
 * A key that is a text is one memory for all runs of the plan, of whatever user or tenant. An Effect finds the key in each run,
 * for example in its `RunContext`.
 *
 * **Gotchas**
 *
 * The key is taken as it is: keep it apart from keys of sessions,
 * which share the store.
 *
 * **Example** (A memory for each tenant)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { RunContext } from "effect-emissary"
 * import { Plan } from "effect-emissary/plan"
 *
 * const Tenant = Schema.Struct({ tenant: Schema.String })
 *
 * export const memory = Plan.memoryInStore(
 *   Effect.map(RunContext.read(Tenant), ({ tenant }) => `memories/${encodeURIComponent(tenant)}/writer`)
 * )
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const memoryInStore: {
  (key: string): livePlan.AgentMemory<VersionedStore.VersionedStore>
  <R>(key: Effect.Effect<string, unknown, R>): livePlan.AgentMemory<VersionedStore.VersionedStore | R>
} = <R = never>(
  key: string | Effect.Effect<string, unknown, R>
): livePlan.AgentMemory<VersionedStore.VersionedStore | R> => {
  const found = Effect.gen(function* () {
    const store = yield* VersionedStore.VersionedStore
    const place = Effect.isEffect(key) ? yield* key : key
    return { store, place, kept: yield* store.get(place) }
  })
  return {
    output: Effect.map(found, ({ kept }) => Option.getOrUndefined(Option.map(kept, ({ value }) => value))),
    save: (output) =>
      Effect.flatMap(found, ({ kept, place, store }) =>
        store.compareAndSet(
          place,
          Option.map(kept, ({ version }) => version),
          output
        )
      ).pipe(Effect.retry({ while: Predicate.isTagged("VersionConflict") }))
  }
}

/**
 * A class made by {@link Service}: the key of the plan in a context, with the layer that
 * builds it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ServiceClass<Self, Name extends string, A, E, R> extends Context.ServiceClass<
  Self,
  `effect-emissary/Agent/${Name}`,
  livePlan.Bound<A>
> {
  readonly layer: Layer.Layer<Self, E, Exclude<R, Scope.Scope>>
}

/**
 * Makes a plan as a service: a class that is its own key, with a `layer`.
 *
 * **When to use**
 *
 * Use it to compose a plan into an application: `yield* Research` returns the plan that can
 * run, and the type of `Research.layer` has the missing services. The class can be used where
 * an agent can: as the target of a step, in `Agent.asTool`.
 *
 * **Details**
 *
 * `plan` makes and binds the plan; it is run once, when the layer is built, and its errors are errors of the layer.
 * The services that the code of the plan requires are captured there, and no call changes them. The `RunContext`, clock,
 * span and tool runtime of the caller reach the steps, see `RunContext.CallReferences`.
 *
 * **Gotchas**
 *
 * The key of the service is made of the name, as the key of an `Agent.Service` is: a plan and an agent of one
 * application need two names.
 *
 * **Example** (A plan with an agent of the application)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent } from "effect-emissary"
 * import { Plan, Step } from "effect-emissary/plan"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * class Writer extends Agent.Service<Writer>()("writer", { instructions: "Write one line." }) {}
 *
 * class Article extends Plan.Service<Article>()(
 *   "article",
 *   Effect.flatMap(
 *     Plan.make("article", [
 *       Step.make("draft", { target: Writer }),
 *       Step.make("shout", { target: ({ task }) => Effect.succeed(task.toUpperCase()) })
 *     ]),
 *     (plan) => Plan.bind(plan)
 *   )
 * ) {}
 *
 * const ArticleLive = Article.layer.pipe(
 *   Layer.provide(Writer.layer),
 *   Layer.provide(ScriptedModel.layer([{ text: "Plans are data." }]))
 * )
 *
 * const program = Effect.flatMap(Article, (article) => article.ask("Plans")).pipe(Effect.provide(ArticleLive))
 * assert.strictEqual(await Effect.runPromise(program), "PLANS ARE DATA.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const Service =
  <Self>() =>
  <const Name extends string, A, R, E, RBind>(
    name: Name,
    plan: Effect.Effect<livePlan.Bound<A, R>, E, RBind>
  ): ServiceClass<Self, Name, A, E, R | RBind> => {
    const key: `effect-emissary/Agent/${Name}` = `effect-emissary/Agent/${name}`
    const planKey = Context.Service<Self, livePlan.Bound<A>>()(key)
    const layer = Layer.effect(
      planKey,
      Effect.gen(function* () {
        const { live } = yield* plan
        const captured = yield* Effect.context<never>()
        const under = agentValue.withCaptured(captured)
        return planAgent.makeBound<A, never>({ ...live, within: (effect) => under(live.within(effect)) })
      })
    )
    const statics: unknown = Object.assign(planKey, { layer })
    // Sound: R and RBind are what the code of the plan was inferred to need; the layer reads it from its context.
    return statics as ServiceClass<Self, Name, A, E, R | RBind>
  }

const isStep = (u: unknown): u is Step.Any => Predicate.hasProperty(u, planNames.stepTypeId)

/** The arguments of another type than `make` declares: code without TypeScript can pass anything. */
const argumentProblems = (name: unknown, steps: unknown, options: unknown): ReadonlyArray<PlanInvalid.Problem> => {
  const problem = (slot: string, expected: string, value: unknown) =>
    planCheck.problemOf(
      {},
      { code: "InvalidOption", slot, expected, found: kindOf(value), fix: "Write Plan.make(name, steps, options)" }
    )
  const others = Array.isArray(steps) ? [...steps.entries()].filter(([, step]) => !isStep(step)) : []
  return [
    ...(Predicate.isString(name) ? [] : [problem("name", "the name of the plan", name)]),
    ...(Array.isArray(steps) ? [] : [problem("steps", "an array of steps", steps)]),
    ...others.map(([index, step]) => problem(`steps[${index}]`, "a step", step)),
    ...(Predicate.isObject(options) ? [] : [problem("options", "an object of options", options)])
  ]
}

/** The target of a step, now that tools and agents are known and checked. */
const boundTarget = (
  { definition, target }: livePlan.LiveStep,
  { tools }: boundTool.ToolSet,
  agents: ReadonlyMap<string, stepTarget.AgentTarget<unknown>>
): Effect.Effect<livePlan.BoundTarget> => {
  if (target._tag !== "Tool") return Effect.succeed(target)
  const { name } = target
  const agent = agents.get(name)
  if (agent !== undefined) {
    return Effect.succeed({ _tag: "Agent", name, agent: stepTarget.agentOf(agent), source: agent })
  }
  const tool = tools.get(name)
  if (tool === undefined) return Effect.die(new Error(`the check accepted the unknown tool ${JSON.stringify(name)}`))
  const resolved = Effect.fromResult(planCheck.resolveToolArguments(tool, definition))
  return Effect.map(Effect.orDie(resolved), (args) => ({ _tag: "Tool", name, arguments: args }))
}

/**
 * The most that one run of a plan can take.
 *
 * **Details**
 *
 * - `steps`: the number of steps on the longest way through the plan, whatever
 *   `maxIterations` is; absent when there is a loop. Each member of a parallel group counts, and a
 *   step that is tried again counts once.
 * - `modelCalls`: the largest number of calls of models on one way, with all retries; absent when there is a loop, or a
 *   step whose number is not known.
 * - `limit`: the same with `maxIterations`. `limit.steps` is always known. It is no more than `steps`, and no more than
 *   as many turns as there may be, each as wide as the widest turn.
 *
 * All ways are followed that the plan's structure allows, whatever the conditions of its
 * routes demand: of two branches that rejoin, the longer one counts.
 *
 * `info.modelCalls` is the most calls of models that one attempt of a step makes,
 * `undefined` where it is not known. For an agent that is its `maxSteps`, if that is a number.
 * Without `info` a function makes no call of a model, and of tools and agents it is not known.
 *
 * The count is one of a new run without failures. It means nothing for a plan with problems
 * of its structure.
 *
 * **Example** (Three steps, two of them in a parallel group)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Plan, PlanDefinition, Reference } from "effect-emissary/plan"
 *
 * const step = (name: string, parallel: boolean): PlanDefinition.StepDefinition => ({
 *   name,
 *   target: { kind: "agent", name },
 *   task: Reference.fromPrev,
 *   parallel
 * })
 *
 * const cost = Plan.worstCase(
 *   { name: "report", maxIterations: 100, steps: [step("a", true), step("b", true), step("c", false)] },
 *   { modelCalls: () => 8 }
 * )
 * assert.strictEqual(cost.steps, 3)
 * assert.strictEqual(cost.modelCalls, 24)
 * ```
 *
 * @category costs
 * @since 0.1.0
 */
export const worstCase = (
  definition: PlanDefinition.PlanDefinition,
  info: { readonly modelCalls: (step: PlanDefinition.StepDefinition) => number | undefined } = unknownCost
): {
  readonly steps: number | undefined
  readonly modelCalls: number | undefined
  readonly limit: { readonly steps: number; readonly modelCalls: number | undefined }
} => {
  const { calls, steps, turn } = planCheck.worstPath(definition, info.modelCalls)
  const within = (most: number | undefined, each: number) =>
    Math.min(most ?? Number.POSITIVE_INFINITY, Math.max(0, definition.maxIterations) * each)
  return {
    steps,
    modelCalls: calls,
    limit: {
      steps: within(steps, turn.steps),
      modelCalls: turn.calls === undefined ? undefined : within(calls, turn.calls)
    }
  }
}

const unknownCost = {
  modelCalls: ({ target }: PlanDefinition.StepDefinition) => (target.kind === "function" ? 0 : undefined)
}

/**
 * Finds references of raw steps to steps that do not exist.
 *
 * **When to use**
 *
 * Use it in an editor, or before a plan is stored: it needs no registry, and takes the `steps`
 * of any version, complete or not. To know whether a plan can run, decode it.
 *
 * **Details**
 *
 * Looked at are, of each step in this order: `task`, `context`, `routes` and
 * `after_branches`. Not looked at are the order of steps, parallel groups, `routes_by`, names that
 * occur twice, and targets. A step without a name is known as the empty name. Whatever
 * has another shape is passed over: it never fails, on any JSON.
 *
 * **Example** (A name that was mistyped)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Plan } from "effect-emissary/plan"
 *
 * const [problem] = Plan.danglingReferences([
 *   { name: "fetch", target: { kind: "tool", name: "fetch" } },
 *   { name: "rank", target: { kind: "tool", name: "rank" }, task: { kind: "from_step", name: "fetsh" } }
 * ])
 * assert.strictEqual(problem?.step, "rank")
 * assert.strictEqual(problem?.suggestion, "fetch")
 * ```
 *
 * @category checks
 * @since 0.1.0
 */
export const danglingReferences = (steps: unknown): ReadonlyArray<PlanInvalid.Problem> =>
  planCodec.findDanglingReferences(steps)
