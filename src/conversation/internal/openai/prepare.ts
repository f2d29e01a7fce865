import * as Result from "effect/Result"
import * as Content from "../../../tool/Content.ts"
import * as ToolResult from "../../../tool/ToolResult.ts"
import type { AssistantMessage, Message, ToolMessage } from "../../Message.ts"
import type { Options } from "../../OpenAiMessages.ts"
import type { AssistantPart } from "../../Part.ts"
import * as RenderError from "../../RenderError.ts"
import type { Said } from "../received.ts"
import * as calls from "../renderedCalls.ts"
import { reasoningField, unsupportedFile } from "./write.ts"

type Prepared = Result.Result<Said, RenderError.Reason>

type Place = calls.Place

/** What a message says where Chat Completions can hold it, and where OpenAI does not refuse it. */
export const prepare = (message: Message, index: number, options: Options): Prepared => {
  const place: Place = { index, id: message.id }
  switch (message.role) {
    case "system":
      return message.content === ""
        ? Result.fail(new RenderError.EmptySystem(place))
        : Result.succeed({ role: "system", content: message.content })
    case "user": {
      for (const part of message.content) {
        const found = part.type === "file" ? unsupportedFile(part) : undefined
        if (found !== undefined) return Result.fail(unsupported(place, found))
      }
      return Result.succeed({ role: "user", content: message.content })
    }
    case "assistant":
      return assistant(message, place, options)
    case "tool":
      return tool(message, place, options)
  }
}

const unsupported = (place: Place, found: string): RenderError.UnsupportedContent =>
  new RenderError.UnsupportedContent({
    ...place,
    found,
    expected: "text, an image, a wav or mp3 recording, or a file of another kind with its data or file id"
  })

const assistant = (message: AssistantMessage, place: Place, options: Options): Prepared =>
  Result.gen(function* () {
    const content: Array<AssistantPart> = []
    for (const part of message.content) {
      switch (part.type) {
        case "text":
          if (part.text !== "") content.push(part)
          break
        case "reasoning":
          if (reasoningField(part) !== undefined) content.push(part)
          else if (options.reasoning === "refuse") {
            const expected = "none, because Chat Completions has no place for it"
            return yield* Result.fail(new RenderError.UnsupportedReasoning({ ...place, expected }))
          }
          break
        case "tool-call":
          if (part.providerExecuted === true) return yield* Result.fail(providerTool(place, part.name))
          content.push(yield* calls.rendered(part, place, options))
          break
        case "tool-result":
          return yield* Result.fail(providerTool(place, part.name))
        case "file": {
          const found = `a file of type ${part.mediaType}`
          const expected = "text and tool calls in an assistant message"
          return yield* Result.fail(new RenderError.UnsupportedContent({ ...place, found, expected }))
        }
      }
    }
    return content.some((part) => part.type !== "reasoning")
      ? { role: "assistant" as const, content }
      : yield* Result.fail(new RenderError.EmptyMessage({ ...place, role: message.role }))
  })

const providerTool = (place: Place, name: string): RenderError.UnsupportedContent =>
  new RenderError.UnsupportedContent({
    ...place,
    found: `the tool "${name}" that the provider ran itself`,
    expected: "tools that the application runs"
  })

const tool = (message: ToolMessage, place: Place, options: Options): Prepared =>
  Result.gen(function* () {
    const content: Array<Content.Content> = []
    for (const part of ToolResult.content(message.result)) {
      if (part.type === "text") content.push(part)
      else if (options.toolFiles === "describe") content.push(Content.text(Content.toText([part])))
      else {
        const found = `a file of type ${part.mediaType}`
        const expected = `text in a tool result (pass { toolFiles: "describe" } to send a placeholder)`
        return yield* Result.fail(new RenderError.UnsupportedContent({ ...place, found, expected }))
      }
    }
    return { role: "tool" as const, callId: message.callId, content }
  })
