import * as Result from "effect/Result"
import type { Conversation } from "../Conversation.ts"
import type { Message } from "../Message.ts"
import type * as Part from "../Part.ts"
import * as RenderError from "../RenderError.ts"
import * as history from "./history.ts"
import * as json from "./json.ts"
import * as laws from "./laws.ts"

export interface Place {
  readonly index: number
  readonly id: string
}

interface Options {
  readonly toolName?: ((name: string) => string) | undefined
  readonly invalidArguments?: "refuse" | "wrap" | undefined
}

/** A call under the name and with the arguments that are sent. */
export const rendered = (
  part: Part.ToolCallPart,
  place: Place,
  options: Options
): Result.Result<Part.ToolCallPart, RenderError.InvalidArguments> => {
  const name =
    options.toolName === undefined || part.providerExecuted === true ? part.name : options.toolName(part.name)
  if (json.isObject(part.arguments)) return Result.succeed({ ...part, name })
  if (options.invalidArguments === "wrap") {
    const { text: _, ...rest } = part
    return Result.succeed({ ...rest, name, arguments: { invalid_arguments: part.arguments } })
  }
  const found = Array.isArray(part.arguments)
    ? "an array"
    : part.arguments === null
      ? "null"
      : typeof part.arguments === "string"
        ? "text that is no JSON object"
        : `a ${typeof part.arguments}`
  return Result.fail(new RenderError.InvalidArguments({ ...place, callId: part.id, name: part.name, found }))
}

/** Fails where the end of a conversation is open. */
export const closed = (
  self: Conversation,
  messages: ReadonlyArray<Message>
): Result.Result<void, RenderError.UnansweredCalls> => {
  const open = laws.openBatch(history.of(self))
  if (open.length === 0) return Result.succeed(undefined)
  const index = messages.findLastIndex((message) => message.role === "assistant")
  return Result.fail(
    new RenderError.UnansweredCalls({ index, id: messages[index]?.id ?? "", callIds: open.map(({ id }) => id) })
  )
}
