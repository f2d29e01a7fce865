/**
 * The toolkit that a model request carries.
 */
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as CheckedSchema from "../../payload/CheckedSchema.ts"
import * as StrictSchema from "../../payload/StrictSchema.ts"
import type { BoundTool } from "../BoundTool.ts"
import type { ToolContract } from "../ToolContract.ts"
import type { OfferedTool } from "../ToolSet.ts"

interface Offered {
  readonly name: string
  readonly contract: ToolContract
  readonly tool: OfferedTool
}

// models cache what they derive from a tool by its identity, so the same tool is offered as the same object
const known = new WeakMap<Tool.Any, Offered>()

const offer = (name: string, bound: BoundTool): OfferedTool => {
  const before = known.get(bound.tool)
  if (before !== undefined && before.name === name && before.contract === bound.contract) return before.tool
  const tool = make(name, bound)
  known.set(bound.tool, { name, contract: bound.contract, tool })
  return tool
}

/** One object with both halves: the JSON Schema to show, the Schema for adapters that ask for one. */
const make = (name: string, bound: BoundTool): OfferedTool => {
  // a provider-defined tool is known to its provider's adapter, which wants it as it was made
  if (bound.kind === "provider" || Tool.isProviderDefined(bound.tool)) return bound.tool as OfferedTool
  const { annotations, description, parameters } = bound.contract
  const strict = annotations.strict !== false && StrictSchema.is(parameters)
  const tool = Tool.dynamic(name, {
    description,
    parameters,
    success: Schema.Json,
    failure: Schema.Json,
    failureMode: "return"
  })
    .annotateMerge(bound.tool.annotations)
    .annotate(Tool.Strict, strict)
  return Object.assign(tool, { parametersSchema: CheckedSchema.toSchema(bound.parameters) })
}

export const toolkit = (
  tools: ReadonlyArray<readonly [name: string, tool: BoundTool]>
): Toolkit.WithHandler<Record<string, OfferedTool>> => ({
  tools: Object.fromEntries(tools.map(([name, tool]) => [name, offer(name, tool)])),
  handle: (name) =>
    Effect.die(new Error(`the tool ${JSON.stringify(name)} is executed by the tool runtime, not by its toolkit`))
})
