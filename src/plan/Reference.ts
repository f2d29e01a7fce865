/**
 * References: the data that a step reads. It is the input of the plan, the output of
 * earlier steps, the memory of an agent, or a fixed text.
 *
 * **When to use**
 *
 * A step reads its `task` from one reference, and its `context` from one or several.
 * The task is what it works on, its payload included; the context is text beside it.
 *
 * **Details**
 *
 * | reference | task and payload | without a result |
 * |---|---|---|
 * | {@link fromPrev} | of the step that ran last, after a parallel group of its last member; of the input for the first step | |
 * | {@link fromStart} | of the input of the plan | |
 * | {@link fromStep}, {@link fromParallel} | of the newest run of that step | `ReferenceFailed` |
 * | {@link fromParallelAll} | of all members of a parallel group: as the task one text, `[name]` above each, and as the payload an object by their names | `ReferenceFailed` if one did not run |
 * | {@link fromMemory} | what an agent remembers, as text | empty |
 * | {@link fromAgent} | what an agent answered last, in this run or an earlier one | empty |
 * | {@link literal}, or a plain string | the text | |
 *
 * A payload that is no text becomes canonical JSON. A step may read
 * earlier steps only, and no other member of its own parallel group: `Plan.make` refuses the rest,
 * and a compiler refuses names that are no steps of the plan.
 *
 * **Example** (A step that reads three things)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan, Reference, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("answer", [
 *     Step.make("facts", { target: () => Effect.succeed({ height: 4806 }) }),
 *     Step.make("answer", {
 *       task: Reference.fromStart,
 *       context: [Reference.fromStep("facts"), "Be brief."],
 *       target: ({ context, task }) => Effect.succeed(`${task} ${context}`)
 *     })
 *   ])
 *   return yield* Plan.run(yield* Plan.bind(plan), "How high?")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed")
 * assert.strictEqual(result.output, 'How high? {"height":4806}\n\nBe brief.')
 * ```
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import { kindStruct } from "../payload/internal/problems.ts"

/**
 * The data that a step reads. `Name` are the names of the steps it refers to.
 *
 * @category models
 * @since 0.1.0
 */
export type Reference<Name extends string = string> =
  | { readonly _tag: "FromPrev" | "FromStart" }
  | { readonly _tag: "FromStep" | "FromParallel" | "FromParallelAll"; readonly step: Name }
  | { readonly _tag: "FromMemory" | "FromAgent"; readonly agent: string }
  | { readonly _tag: "Literal"; readonly value: string }

const ofStep = { step: Schema.String }
const ofAgent = { agent: Schema.String }

/**
 * Schema of {@link Reference}, and its JSON: `{ "kind": "from_step", "name": "facts" }`.
 * It does not check that the names exist.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Reference: Schema.Codec<Reference, Schema.JsonObject> = Schema.Union([
  kindStruct("from_prev", "FromPrev", {}, {}),
  kindStruct("from_start", "FromStart", {}, {}),
  kindStruct("from_step", "FromStep", ofStep, { step: "name" }),
  kindStruct("from_parallel", "FromParallel", ofStep, { step: "name" }),
  kindStruct("from_parallel_all", "FromParallelAll", ofStep, { step: "name" }),
  kindStruct("from_memory", "FromMemory", ofAgent, { agent: "name" }),
  kindStruct("from_agent", "FromAgent", ofAgent, { agent: "name" }),
  kindStruct("literal", "Literal", { value: Schema.String }, {})
])

/**
 * The step that ran last; the input of the plan for the first one. After a parallel group, the
 * last declared member. It is the default task of a step.
 *
 * **Gotchas**
 *
 * The step that ran last is not always the one declared before: a route may have come
 * from elsewhere. Use {@link fromStep} to read one step whatever the way.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromPrev: Reference<never> = { _tag: "FromPrev" }

/**
 * The input of the plan: its task, its payload and its content.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromStart: Reference<never> = { _tag: "FromStart" }

/**
 * The output of the newest run of an earlier step.
 *
 * **Details**
 *
 * Fails the run with `ReferenceFailed` when a route jumped over that step.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromStep = <const Name extends string>(step: Name): Reference<Name> => ({ _tag: "FromStep", step })

/**
 * The same as {@link fromStep}, for a member of a parallel group. They differ in JSON.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromParallel = <const Name extends string>(step: Name): Reference<Name> => ({
  _tag: "FromParallel",
  step
})

/**
 * The outputs of all members of a parallel group, in declared order. `step` is the first member.
 *
 * **Details**
 *
 * As a task (and as context) it is one text, with `[name]` above each output. As
 * the payload of a function, and of any step with an `input` schema, it is an object with
 * the output of each member under its name: `input: Schema.Struct({ for: ..., against: ... })`
 * types it, and `Plan.make` compares that with the outputs of the members. To a tool with an
 * `input` schema that object is its arguments.
 *
 * **Gotchas**
 *
 * In the text nothing is escaped: the output of a member can look like the label of
 * another one. Where that matters, use the payload.
 *
 * **Example** (Two opinions)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan, Reference, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("vote", [
 *     Step.make("for", { parallel: true, target: () => Effect.succeed("cheap") }),
 *     Step.make("against", { parallel: true, target: () => Effect.succeed("slow") }),
 *     Step.make("sum", { task: Reference.fromParallelAll("for"), target: ({ task }) => Effect.succeed(task) })
 *   ])
 *   return yield* Plan.run(yield* Plan.bind(plan), "Shall we?")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed")
 * assert.strictEqual(result.output, "[for]\ncheap\n\n[against]\nslow")
 * ```
 *
 * **Example** (An aggregation with types)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Plan, Reference, Step } from "effect-emissary/plan"
 *
 * const Price = Schema.Struct({ price: Schema.Finite })
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("compare", [
 *     Step.make("here", { parallel: true, output: Price, target: () => Effect.succeed({ price: 3 }) }),
 *     Step.make("there", { parallel: true, output: Price, target: () => Effect.succeed({ price: 2 }) }),
 *     Step.make("compare", {
 *       task: Reference.fromParallelAll("here"),
 *       input: Schema.Struct({ here: Price, there: Price }),
 *       target: ({ payload }) => Effect.succeed(payload.here.price - payload.there.price)
 *     })
 *   ])
 *   return yield* Plan.run(yield* Plan.bind(plan), "Where?")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === 1)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromParallelAll = <const Name extends string>(step: Name): Reference<Name> => ({
  _tag: "FromParallelAll",
  step
})

/**
 * The memory of an agent, as text, at the moment the step begins. `agent` is a name of
 * the `memories` that the plan is bound with; `Plan.bind` refuses other names.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromMemory = (agent: string): Reference<never> => ({ _tag: "FromMemory", agent })

/**
 * The last answer of an agent, in this run or an earlier one. `agent` is a name of the
 * `memories` that the plan is bound with; `Plan.bind` refuses other names.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromAgent = (agent: string): Reference<never> => ({ _tag: "FromAgent", agent })

/**
 * A fixed text. A plain string in place of a reference is the same.
 *
 * @category constructors
 * @since 0.1.0
 */
export const literal = (value: string): Reference<never> => ({ _tag: "Literal", value })
