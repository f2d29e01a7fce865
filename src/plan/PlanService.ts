/**
 * Plans as services, and what a plan is as an agent.
 *
 * **Details**
 *
 * A plan that is bound is an agent. What a run of an agent is given and gives means for a
 * plan:
 *
 * | of an agent | for a plan |
 * |---|---|
 * | the input | the task; its files are the content. Where the first step that reads it has an `input` schema that the text does not fit, and the text is JSON that does, that JSON is the payload |
 * | a conversation | the newest user message is the task, what users and assistants said before it the context |
 * | `maxSteps` | `maxIterations`; used up, the outcome is `MaxSteps`. On a resume also for plans inside that used up theirs |
 * | `context`, `timeouts`, `maxDepth`, `onState`, `interruptWhen` | the same; `timeouts.step` and `timeouts.tool` are handed to agents and tools in steps |
 * | `modelRetry`, `modelMistakes`, `defects` | hold for the agents in steps |
 * | `toolChoice`, `budget`, `instructions` | nothing |
 * | `Completed` | the plan completed, or concluded: the answer is the text, and the output where the plan's output can be it (or the JSON in it), otherwise the outcome is `InvalidOutput` |
 * | `AwaitingApproval` | calls of tools and agents in steps, with the names of the steps in their `path`, and steps that pause, under their names. A denied pause fails its step |
 * | `Interrupted` | a timeout or `interruptWhen`; what runs is cut off, and runs again when the run is resumed |
 * | an `AgentError` | `DelegateFailed`, whose cause is the `PlanError`; `MaxDepth` for a nest of agents and plans that is too deep. The model of an agent that has the plan as a tool is told which step failed and with which type, and what was wrong if the plan itself found it: what somebody else's error says is not passed on |
 * | `steps`, the conversation | one step and one assistant message for each user message |
 * | events | `Child` for what agents in steps tell, under the names of the steps; one `TextDelta` with the answer |
 *
 * While a plan runs, the facts of its run are the `progress` of the state: what is saved
 * for each is of the size of that fact, and resuming replays them.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as capture from "./internal/capture.ts"
import type { Bound } from "./Plan.ts"

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
  Bound<A>
> {
  readonly layer: Layer.Layer<Self, E, Exclude<R, Scope.Scope>>
}

/**
 * Makes a plan as a service: a class that is its own key, with a `layer`.
 *
 * **When to use**
 *
 * Use to compose a plan into an application: `yield* Research` gives the plan that can
 * run, and the types of `Research.layer` say what is missing. The class can stand where
 * an agent can: as the target of a step, in `Agent.asTool`.
 *
 * **Details**
 *
 * `plan` makes and binds the plan; it is run once, when the layer is built, and its
 * errors are those of the layer. What the code of the plan requires is captured there. It
 * lies under the context of each call, so the `RunContext`, clock, span and tool runtime
 * of the caller reach the steps.
 *
 * **Gotchas**
 *
 * The key of the service is made of the name, as those of `Agent.Service` are: a plan and
 * an agent of one application need two names.
 *
 * **Example** (A plan with an agent of the application)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent, Plan, Step } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * class Writer extends Agent.Service<Writer>()("writer", { instructions: "Write one line." }) {}
 *
 * class Article extends Plan.Service<Article>()(
 *   "article",
 *   Effect.flatMap(
 *     Plan.make(
 *       { name: "article" },
 *       Step.make("draft", { target: Writer }),
 *       Step.make("shout", { target: ({ task }) => Effect.succeed(task.toUpperCase()) })
 *     ),
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
    plan: Effect.Effect<Bound<A, R>, E, RBind>
  ): ServiceClass<Self, Name, A, E, R | RBind> => {
    const key: `effect-emissary/Agent/${Name}` = `effect-emissary/Agent/${name}`
    const planKey = Context.Service<Self, Bound<A>>()(key)
    const layer = Layer.effect(
      planKey,
      Effect.gen(function* () {
        const { live } = yield* plan
        return capture.bound<A>(live, yield* Effect.context<never>())
      })
    )
    const statics: unknown = Object.assign(planKey, { layer })
    // Sound: R and RBind are what the code of the plan was inferred to need; the layer reads it from its context.
    return statics as ServiceClass<Self, Name, A, E, R | RBind>
  }
