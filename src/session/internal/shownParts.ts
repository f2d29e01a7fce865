/** The parts of messages that a front end sees: nothing that is for providers or for the model alone. */

import type * as Message from "../../conversation/Message.ts"
import * as ToolResult from "../../tool/ToolResult.ts"

/** Without options of providers. */
export const plainContent = ([first, ...others]: ToolResult.NonEmptyContent): ToolResult.NonEmptyContent => {
  const plain = ({ options: _, ...part }: ToolResult.Content): ToolResult.Content => part
  return [plain(first), ...others.map(plain)]
}

/** Without options of providers, and without the names of all tools, which the failure of an unknown one lists. */
export const plainResult = (name: string, result: ToolResult.ToolResult): ToolResult.ToolResult => {
  if (result._tag === "Success") return { ...result, content: plainContent(result.content) }
  const { content, type } = result
  if (type === "unknown_tool") return ToolResult.failure(type, `Unknown tool ${JSON.stringify(name)}.`)
  return { ...result, ...(content === undefined ? undefined : { content: plainContent(content) }) }
}

/** The parts of an answer without options of providers, and without the call that carries a structured output. */
export const plainParts = (
  content: ReadonlyArray<Message.AssistantPart>,
  {
    outputCall,
    reasoning = false,
    results = true
  }: {
    readonly outputCall?: string | undefined
    readonly reasoning?: boolean | undefined
    readonly results?: boolean | undefined
  }
): ReadonlyArray<Message.AssistantPart> =>
  content.flatMap((part): ReadonlyArray<Message.AssistantPart> => {
    const isLeftOut =
      (part.type === "reasoning" && !reasoning) ||
      (part.type === "tool-result" && !results) ||
      (part.type === "tool-call" && part.id === outputCall)
    const { options: _, ...plain } = part
    if (isLeftOut) return []
    return [plain.type === "tool-result" ? { ...plain, result: plainResult(plain.name, plain.result) } : plain]
  })
