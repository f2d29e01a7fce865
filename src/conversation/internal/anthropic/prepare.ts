import * as Result from "effect/Result"
import * as Contents from "../../../tool/Content.ts"
import * as ToolResult from "../../../tool/ToolResult.ts"
import type { Options } from "../../AnthropicMessages.ts"
import type { AssistantMessage, Message, ToolMessage } from "../../Message.ts"
import type { AssistantPart } from "../../Part.ts"
import * as RenderError from "../../RenderError.ts"
import type { Said } from "../received.ts"
import * as calls from "../renderedCalls.ts"
import { isBlank, isSaid, serverType, thinking, unsupportedFile } from "./write.ts"

type Prepared = Result.Result<Said, RenderError.Reason>

type Place = calls.Place

const optionsOf = ({ options }: Message) => (options === undefined ? undefined : { options })

/** What a message says where Anthropic's format can hold it, and where Anthropic does not refuse it. */
export const prepare = (message: Message, index: number, options: Options): Prepared => {
  const place: Place = { index, id: message.id }
  switch (message.role) {
    case "system":
      return isBlank(message.content)
        ? Result.fail(new RenderError.EmptySystem(place))
        : Result.succeed({ role: "system", content: message.content, ...optionsOf(message) })
    case "user": {
      const content = message.content.filter(isSaid)
      if (content.length === 0) return Result.fail(new RenderError.EmptyMessage({ ...place, role: message.role }))
      return unsupported(content, place) ?? Result.succeed({ role: "user", content })
    }
    case "assistant":
      return assistant(message, place, options)
    case "tool":
      return tool(message, place)
  }
}

const expected = "text, a jpeg, png, gif or webp image, a PDF or plain text document, or the id of an uploaded file"

const unsupported = (
  content: ReadonlyArray<Contents.Content>,
  place: Place
): Result.Result<never, RenderError.UnsupportedContent> | undefined => {
  for (const part of content) {
    const found = part.type === "file" ? unsupportedFile(part) : undefined
    if (found !== undefined) return Result.fail(new RenderError.UnsupportedContent({ ...place, found, expected }))
  }
  return undefined
}

const assistant = (message: AssistantMessage, place: Place, options: Options): Prepared =>
  Result.gen(function* () {
    const content: Array<AssistantPart> = []
    const unsigned = new RenderError.UnsupportedReasoning({
      ...place,
      expected: "reasoning with Anthropic's signature, and content after it"
    })
    for (const part of message.content) {
      switch (part.type) {
        case "text":
          if (isSaid(part)) content.push(part)
          break
        case "reasoning":
          if (thinking(part) !== undefined) content.push(part)
          else if (options.reasoning === "refuse") return yield* Result.fail(unsigned)
          break
        case "tool-call":
          if (part.providerExecuted === true && serverType(part) === undefined) {
            return yield* Result.fail(providerTool(place, part.name))
          }
          content.push(yield* calls.rendered(part, place, options))
          break
        case "tool-result":
          if (serverType(part) === undefined || part.result.value === undefined) {
            return yield* Result.fail(providerTool(place, part.name))
          }
          content.push(part)
          break
        case "file": {
          const found = `a file of type ${part.mediaType}`
          const expected = "text and tool calls in an assistant message"
          return yield* Result.fail(new RenderError.UnsupportedContent({ ...place, found, expected }))
        }
      }
    }
    const length = content.findLastIndex((part) => part.type !== "reasoning") + 1
    if (length === 0) return yield* Result.fail(new RenderError.EmptyMessage({ ...place, role: message.role }))
    // Anthropic refuses messages that end in thinking
    if (length < content.length && options.reasoning === "refuse") return yield* Result.fail(unsigned)
    return { role: "assistant" as const, content: content.slice(0, length) }
  })

const providerTool = (place: Place, name: string): RenderError.UnsupportedContent =>
  new RenderError.UnsupportedContent({
    ...place,
    found: `the tool "${name}" that another provider ran itself`,
    expected: "tools that the application or Anthropic runs"
  })

const tool = (message: ToolMessage, place: Place): Prepared => {
  const { callId, result } = message
  const content = ToolResult.content(result).filter(isSaid)
  const failed = unsupported(content, place)
  if (failed !== undefined) return failed
  const isError = ToolResult.isFailure(result)
  const hasType = isError && content.length === 0 && !isBlank(result.type)
  return Result.succeed({
    role: "tool",
    callId,
    content: hasType ? [Contents.text(result.type)] : content,
    ...(isError ? { isError } : undefined),
    ...optionsOf(message)
  })
}
