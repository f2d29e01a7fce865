/**
 * An agent as another agent's tool.
 *
 * @since 0.1.0
 */
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import { ToolFailure } from "../tool/ToolFailure.ts"
import * as ToolSettings from "../tool/ToolSettings.ts"
import type { Agent } from "./Agent.ts"
import { BehindTool } from "./internal/agentTool.ts"
import * as Child from "./internal/child.ts"

/**
 * @category type IDs
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/agent/AgentTool"

/**
 * Type identifier of agents used as tools.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const TypeId: TypeId = "~effect-emissary/agent/AgentTool"

/**
 * A tool that is an agent. It needs no handler; `R` is what running the agent
 * requires, and becomes a requirement of the agent that has the tool.
 *
 * @category models
 * @since 0.1.0
 */
export interface AgentTool<out Name extends string, out R> extends Tool.ProviderDefined<
  "emissary.agent",
  Name,
  {
    readonly args: typeof Schema.Void
    readonly parameters: Schema.Struct<{ readonly input: typeof Schema.String }>
    readonly success: typeof Schema.Json
    readonly failure: typeof ToolFailure
    readonly failureMode: "error"
  }
> {
  readonly [TypeId]: { readonly _R: Types.Covariant<R> }
}

/**
 * How an agent is offered as a tool.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<Name extends string> {
  readonly name: Name
  readonly description: string
}

const parameters = Schema.Struct({
  input: Schema.String.annotate({ description: "What to ask the agent, with everything it has to know" })
})

const handlerOf = (agent: Effect.Effect<Agent<unknown>>): Tool.Handler<string>["handler"] =>
  Effect.fnUntraced(function* (params: typeof parameters.Type) {
    const { name, run } = yield* agent
    const result = yield* Effect.mapError(
      run(params.input),
      (error) => new ToolFailure({ type: "execution_error", message: error.message })
    )
    const answer = Child.toToolResult(name, result)
    return answer._tag === "Success"
      ? answer.value
      : yield* new ToolFailure({ type: answer.type, message: answer.message })
  })

/**
 * Makes an agent a tool that another agent can call, with one parameter, `input`.
 *
 * **When to use**
 *
 * Use to let one agent hand a part of its work to another. The inner agent sees the
 * `RunContext` of the outer run and at most its remaining total time; it has no tool
 * timeout of its own. Its events come in the outer stream as `Child` under the call
 * id, its pending approvals suspend the outer run, its usage counts there once.
 *
 * **Details**
 *
 * The model of the outer agent gets the inner agent's output, or its text. An inner
 * run that ends without an answer is an `execution_error` result. Agents nest at most
 * `maxDepth` deep (default 8); one more fails the whole run with the reason `MaxDepth`.
 * The outer run's `modelRetry`, `modelMistakes`, `defects` and tool timeout hold for the
 * inner run too; its steps are its own. A plan that is bound is an agent, and can be a
 * tool in the same way.
 *
 * **Example** (An agent that asks another one)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * class Researcher extends Agent.Service<Researcher>()("researcher", {}) {}
 *
 * const writer = Agent.make("writer", {
 *   toolkit: [Agent.asTool(Researcher, { name: "research", description: "Finds facts" })]
 * })
 *
 * const model = ScriptedModel.layer([
 *   { toolCalls: [{ id: "c1", name: "research", params: { input: "How high is Mont Blanc?" } }] },
 *   { text: "4806 m" },
 *   { text: "Mont Blanc is 4806 m high." }
 * ])
 *
 * const program = writer.ask("How high is Mont Blanc?").pipe(
 *   Effect.provide(Researcher.layer.pipe(Layer.provideMerge(model)))
 * )
 * assert.strictEqual(await Effect.runPromise(program), "Mont Blanc is 4806 m high.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const asTool = <const Name extends string, R>(
  agent: Agent<unknown, R> | Effect.Effect<Agent<unknown>, never, R>,
  options: Options<Name>
): AgentTool<Name, R> => {
  // Sound: R is part of the tool's type, so whoever runs it has R in its context.
  const found = (Effect.isEffect(agent) ? agent : Effect.succeed(agent)) as Effect.Effect<Agent<unknown>>
  const inner = Tool.make(options.name, {
    description: options.description,
    parameters,
    success: Schema.Json,
    failure: ToolFailure
  }).annotate(ToolSettings.Timeout, Duration.infinity)
  const entry: unknown = { name: options.name, handler: handlerOf(found), context: Context.empty() }
  // Sound: the only property of a Handler that is missing is a phantom.
  const behind = { tool: inner, handler: entry as Tool.Handler<string>, agent: found }
  const tool = Tool.providerDefined({
    id: "emissary.agent",
    customName: options.name,
    providerName: options.name,
    parameters,
    success: Schema.Json,
    failure: ToolFailure
  })(undefined).annotate(BehindTool, { ...behind, tool: inner.annotate(BehindTool, behind) })
  const marked: unknown = Object.assign(tool, { [TypeId]: { _R: (_: never) => _ } })
  // Sound: annotate keeps the kind of a tool, and R is a phantom.
  return marked as AgentTool<Name, R>
}
