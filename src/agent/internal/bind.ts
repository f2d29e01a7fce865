/** From a definition back to an agent that runs. */
import type * as Schema from "effect/Schema"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as ToolResolver from "../../tool/ToolResolver.ts"
import * as ToolSet from "../../tool/ToolSet.ts"
import type { Bound } from "../Agent.ts"
import type { AgentDefinition } from "../AgentDefinition.ts"
import * as AgentError from "../AgentError.ts"
import { ModelRegistry } from "../ModelRegistry.ts"
import * as blueprint from "./blueprint.ts"
import * as Output from "./output.ts"
import * as program from "./program.ts"

const anonymous = "agent"

const outputOf = (definition: AgentDefinition): Effect.Effect<Output.Output<Schema.Json>, AgentError.Reason> =>
  definition.output === undefined
    ? Effect.succeed(Output.text)
    : Effect.mapError(Output.fromJson(definition.output.schema, definition.output.strategy), (error) =>
        AgentError.withCause(new AgentError.DefinitionInvalid({ problem: error.message }), error)
      )

export const bind = Effect.fnUntraced(function* (definition: AgentDefinition) {
  const resolver = yield* ToolResolver.ToolResolver
  const registry = yield* ModelRegistry
  const name = definition.name ?? anonymous
  const refuse = (reason: AgentError.Reason) => new AgentError.AgentError({ agent: name, reason })
  const tools = yield* Effect.forEach(definition.tools, (contract) => resolver.resolve(contract))
  yield* Effect.mapError(ToolSet.make(tools), (error) =>
    refuse(AgentError.withCause(new AgentError.ToolSetInvalid({ problem: error.message }), error))
  )
  const output = yield* Effect.mapError(outputOf(definition), refuse)
  const agent: Bound = program.bound(
    {
      name,
      description: undefined,
      define: Effect.succeed(definition),
      resolve: blueprint.complete(definition, tools, output)
    },
    definition,
    Context.make(ModelRegistry, registry)
  )
  return agent
})
