/** From a definition back to an agent that runs. */
import * as Schema from "effect/Schema"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as CheckedSchema from "../../payload/CheckedSchema.ts"
import * as BoundTool from "../../tool/BoundTool.ts"
import * as ToolResolver from "../../tool/ToolResolver.ts"
import * as ToolSet from "../../tool/ToolSet.ts"
import type { Bound } from "../Agent.ts"
import type { AgentDefinition } from "../AgentDefinition.ts"
import * as AgentError from "../AgentError.ts"
import { ModelRegistry } from "../ModelRegistry.ts"
import { agentOf } from "./agentTool.ts"
import * as blueprint from "./blueprint.ts"
import * as Output from "./output.ts"
import * as program from "./program.ts"

const anonymous = "agent"

const outputOf = (definition: AgentDefinition): Effect.Effect<Output.Output<Schema.Json>, AgentError.Reason> =>
  definition.output === undefined
    ? Effect.succeed(Output.text)
    : Effect.mapError(
        Output.fromJson(definition.output.schema, definition.output.strategy),
        blueprint.invalidDefinition
      )

/** A resolver of tools knows nothing of agents; one that is used as a tool brings its own body. */
const withAgent = (tool: BoundTool.BoundTool): Effect.Effect<BoundTool.BoundTool, ToolResolver.BindError> =>
  Option.match(agentOf(tool.tool), {
    onNone: () => Effect.succeed(tool),
    onSome: (agent) =>
      Effect.mapError(
        BoundTool.local(tool.contract, agent.tool, agent.handler),
        ({ path, problem, tool }) =>
          new ToolResolver.BindError({ tool, reason: { _tag: "InvalidContract", path, problem } })
      )
  })

export const bind = Effect.fnUntraced(function* (definition: AgentDefinition) {
  const resolver = yield* ToolResolver.ToolResolver
  yield* ModelRegistry
  // What agents among the tools require is found where this one is bound.
  const captured = yield* Effect.context<never>()
  const name = definition.name ?? anonymous
  const refuse = (reason: AgentError.Reason) => new AgentError.AgentError({ agent: name, reason })
  const tools = yield* Effect.forEach(definition.tools, (contract) =>
    Effect.flatMap(resolver.resolve(contract), withAgent)
  )
  yield* Effect.mapError(ToolSet.make(tools), (error) => refuse(blueprint.invalidTools(error)))
  const output = yield* Effect.mapError(outputOf(definition), refuse)
  const agent: Bound = program.bound(
    {
      name,
      budget: undefined,
      output: output._tag === "Text" ? Schema.String : CheckedSchema.codec(output.schema),
      define: Effect.succeed(definition),
      resolve: blueprint.complete(definition, tools, output),
      digestsOfOrigin: blueprint.digestsOfOrigin(definition)
    },
    definition,
    captured
  )
  return agent
})
