import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Content from "../../tool/Content.ts"
import * as ConversationError from "../ConversationError.ts"
import * as Message from "../Message.ts"
import type { AssistantPart, ToolCallPart } from "../Part.ts"
import * as history from "./history.ts"
import * as json from "./json.ts"
import * as laws from "./laws.ts"
import * as note from "./note.ts"
import * as repairs from "./repair.ts"
import * as toolResults from "./result.ts"

const fail = (reason: ConversationError.Reason) => Effect.fail(new ConversationError.ConversationError({ reason }))

export const fromPrompt = Effect.fnUntraced(function* (prompt: Prompt.Prompt, tokenLimit: number | undefined) {
  let self = history.empty(tokenLimit)
  for (const [index, message] of prompt.content.entries()) {
    for (const next of yield* convert(self, index, message)) {
      const reason = laws.check(self, next, index)
      if (reason !== undefined) return yield* fail(reason)
      self = history.push(self, next)
    }
  }
  return self
})

/** Like `fromPrompt`, but what breaks a law is repaired. */
export const repaired = Effect.fnUntraced(function* (prompt: Prompt.Prompt, tokenLimit: number | undefined) {
  const repairer = repairs.make(tokenLimit)
  for (const [index, message] of prompt.content.entries()) {
    const converted = yield* Effect.result(convert(repairer.self(), index, message))
    if (Result.isSuccess(converted)) {
      for (const next of converted.success) yield* repairer.add(next, index)
      continue
    }
    const { reason } = converted.failure
    // What cannot be said in JSON is no matter of laws
    if (reason._tag !== "EmptyContent") return yield* fail(reason)
    repairer.drop(index, reason.id ?? "", reason)
  }
  return yield* repairer.finish(false)
})

type Converted = Effect.Effect<ReadonlyArray<Message.Message>, ConversationError.ConversationError>

const convert = (self: history.History, index: number, message: Prompt.Message): Converted => {
  switch (message.role) {
    case "system":
      return one(Message.system(message.content, messageOptions(message.options)))
    case "user":
      return userMessage(index, message)
    case "assistant":
      return assistantMessages(self, index, message)
    case "tool":
      return toolMessages(index, message)
  }
}

const one = <M extends Message.Message>(effect: Effect.Effect<M>): Effect.Effect<ReadonlyArray<M>> =>
  Effect.map(effect, (message) => [message])

const messageOptions = (given: Prompt.ProviderOptions): Message.AssistantOptions => {
  const { note: found, options } = note.read(given)
  return { ...found.message, ...(options === undefined ? undefined : { options }) }
}

const userMessage = (index: number, message: Prompt.UserMessage): Converted => {
  const [first, ...rest] = message.content.map(Content.fromPrompt)
  const options = messageOptions(message.options)
  if (first === undefined) {
    return fail(
      new ConversationError.EmptyContent({
        index,
        role: "user",
        ...(options.id === undefined ? undefined : { id: options.id })
      })
    )
  }
  return one(Message.user([first, ...rest], options))
}

const assistantMessages = Effect.fnUntraced(function* (
  self: history.History,
  index: number,
  message: Prompt.AssistantMessage
) {
  const content: Array<AssistantPart> = []
  const results: Array<Message.ToolMessage> = []
  const provider = new Set(Array.from(self.providerOpen, ([id]) => id))
  for (const part of message.content) {
    switch (part.type) {
      case "tool-call": {
        const call = yield* toolCall(index, part)
        if (call.providerExecuted === true) provider.add(call.id)
        content.push(call)
        break
      }
      case "tool-result": {
        if (part.providerExecuted || provider.has(part.id)) {
          const { options, result } = yield* toolResult(index, part)
          const given = options === undefined ? undefined : { options }
          content.push({ type: "tool-result", id: part.id, name: part.name, result, ...given })
        } else {
          results.push(yield* toolMessage(index, part))
        }
        break
      }
      case "tool-approval-request":
        break
      case "reasoning": {
        const { options } = note.read(part.options)
        content.push({ type: "reasoning", text: part.text, ...(options === undefined ? undefined : { options }) })
        break
      }
      default:
        content.push(Content.fromPrompt(part))
    }
  }
  return [yield* Message.assistant(content, messageOptions(message.options)), ...results]
})

const toolCall = (index: number, part: Prompt.ToolCallPart) => {
  const { note: found, options } = note.read(part.options)
  const exact: Option.Option<Pick<ToolCallPart, "arguments" | "text">> =
    found.exact === true
      ? Option.map(json.fromUnknown(part.params), (json) => ({
          arguments: json,
          ...(found.text === undefined ? undefined : { text: found.text })
        }))
      : json.fromArguments(part.params)
  return Option.match(exact, {
    onNone: () => fail(new ConversationError.NotJson({ index, callId: part.id, what: "arguments" })),
    onSome: (args) =>
      Effect.succeed<ToolCallPart>({
        type: "tool-call",
        id: part.id,
        name: part.name,
        ...args,
        ...(part.providerExecuted ? { providerExecuted: true } : undefined),
        ...(options === undefined ? undefined : { options })
      })
  })
}

const toolMessages = (index: number, message: Prompt.ToolMessage): Converted => {
  const results = message.content.filter((part) => part.type === "tool-result")
  return Effect.forEach(results, (part, position) =>
    // What was said about the message as a whole goes to its end, where caches break
    position === results.length - 1
      ? toolMessage(index, { ...part, options: { ...message.options, ...part.options } })
      : toolMessage(index, part)
  )
}

const toolMessage = Effect.fnUntraced(function* (index: number, part: Prompt.ToolResultPart) {
  const { note: found, options, result } = yield* toolResult(index, part)
  return yield* Message.tool(
    { callId: part.id, name: part.name, result },
    { ...found.message, ...(options === undefined ? undefined : { options }) }
  )
})

const toolResult = (index: number, part: Prompt.ToolResultPart) => {
  const { note: found, options } = note.read(part.options)
  const value = json.fromResult(part.result)
  return Option.match(value, {
    onNone: () => fail(new ConversationError.NotJson({ index, callId: part.id, what: "result" })),
    onSome: (value) => Effect.succeed({ note: found, options, result: toolResults.fromPart(part, value, found) })
  })
}
