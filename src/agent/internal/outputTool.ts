/** The synthetic tool that takes the final answer, with the output strategy `tool`. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as BoundTool from "../../tool/BoundTool.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { Output } from "./output.ts"

const freeName = (taken: ReadonlySet<string>): string => {
  let name = "final_answer"
  while (taken.has(name)) name = `_${name}`
  return name
}

/** The tools and, where the strategy asks for it, one more that the run never dispatches. */
export const withOutputTool = Effect.fnUntraced(function* <A>(
  tools: ReadonlyArray<BoundTool.BoundTool>,
  output: Output<A>
) {
  if (output._tag === "Text" || output.strategy !== "tool") return { tools, name: undefined }
  const name = freeName(new Set(tools.map((tool) => tool.contract.name)))
  const contract = yield* ToolContract.make({
    name,
    description: "Give your final answer. Call this once, when you are done, and nothing else with it.",
    parameters: output.offered.json
  })
  const shell = yield* BoundTool.shell(contract)
  const taken = Option.some(() => Effect.succeed(ToolResult.success(null)))
  const tool: BoundTool.BoundTool = { ...shell, kind: "local", body: taken }
  return { tools: [...tools, tool], name }
})
