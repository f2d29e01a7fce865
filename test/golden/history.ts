import { assert } from "@effect/vitest"
import { Effect, Option, Result } from "effect"
import { Conversation, Message, ToolResult, type ConversationError, type PayloadError } from "effect-emissary"
import { OpenAiMessages } from "effect-emissary/interop"
import { Json as Jsons } from "effect-emissary/payload"
import { isObject, type Json } from "./family.ts"
import { defined } from "#src/payload/internal/values.ts"

/** Messages in the two notations of `VOCABULARY.md`, to and from ours. */

const decodeUsage = Jsons.decode(Message.TokenUsage, { what: "tokens", path: "/tokens" })

const usageOf = (message: Json): Effect.Effect<Message.TokenUsage | undefined, PayloadError.PayloadError> => {
  const suffix = message["token_usage"] === undefined ? "" : "_tokens"
  const given = suffix === "" ? message["tokens"] : message["token_usage"]
  if (given === undefined) return Effect.succeed(undefined)
  if (!isObject(given)) return decodeUsage(given)
  const [inputTokens, outputTokens] = [given[`input${suffix}`] ?? undefined, given[`output${suffix}`] ?? undefined]
  return decodeUsage(defined({ inputTokens, outputTokens }))
}

/** Tool calls in either shape, through the library's own door. */
const calls = (given: unknown) =>
  given === undefined
    ? Effect.succeed([])
    : OpenAiMessages.toConversation([{ role: "assistant", tool_calls: given }]).pipe(
        Effect.map((read) => Conversation.messages(read).flatMap((m) => (m.role === "assistant" ? m.content : [])))
      )

const call = (given: unknown): Message.ToolCallPart => {
  const flat = isObject(given) ? given : {}
  const native = isObject(flat["function"]) ? flat["function"] : flat
  const id = typeof flat["id"] === "string" ? flat["id"] : ""
  const name = String(flat["name"] ?? native["name"])
  const args = flat["arguments"] ?? native["arguments"]
  if (typeof args === "string") return Message.toolCallPart({ id, name, text: args })
  return Message.toolCallPart({ id, name, arguments: args === undefined ? {} : args })
}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

/** The keys that a message of ours has a field for, in both notations. All others travel as its metadata. */
const fields = new Set("id role content tool_calls tool_call_id error_type tokens token_usage".split(" "))

type Refusal = PayloadError.PayloadError | ConversationError.ConversationError

/** Makes a message of ours, whatever its role: the laws are for the conversation. */
export const fromGolden = Effect.fnUntraced(function* (
  self: Conversation.Conversation,
  given: Json
): Effect.fn.Return<Message.Message, Refusal> {
  const { content, id, role } = given
  const usage = yield* usageOf(given)
  const metadata = Object.fromEntries(
    Object.entries(given).flatMap(([key, value]) => (fields.has(key) || value === undefined ? [] : [[key, value]]))
  )
  const options = defined({
    id: typeof id === "string" ? id : undefined,
    usage,
    metadata: Object.keys(metadata).length === 0 ? undefined : metadata
  })
  switch (role) {
    case "system":
      return yield* Message.system(text(content), options)
    case "user":
      return yield* Message.user(text(content), options)
    case "assistant": {
      const said: ReadonlyArray<ToolResult.Content> = typeof content === "string" ? [{ type: "text", text: content }] : []
      return yield* Message.assistant([...said, ...(yield* calls(given["tool_calls"]))], options)
    }
    case "tool": {
      const callId = text(given["tool_call_id"])
      const open = Conversation.openCalls(self).find((call) => call.id === callId)
      const name = typeof given["tool_name"] === "string" ? given["tool_name"] : given["name"]
      return yield* Message.tool({ callId, name: typeof name === "string" ? name : (open?.name ?? ""), result: result(given) }, options)
    }
    default:
      // A value that a caller without types could pass
      return { ...(yield* Message.user("x")), role } as unknown as Message.Message
  }
})

const result = (given: Json): ToolResult.ToolResult => {
  const content = given["content"] ?? null
  const type = given["error_type"]
  // A tool without a result: the model reads nothing
  if (typeof type !== "string") return ToolResult.success(content, content === null ? [{ type: "text", text: "" }] : undefined)
  const failure = ToolResult.failure(type, text(given["error"]))
  return typeof content === "string" ? { ...failure, content: [{ type: "text", text: content }] } : failure
}

/** Our message in the notation of the cases, with everything it holds. */
export const toGolden = (message: Message.Message): Json => ({
  id: message.id,
  role: message.role,
  ...contentOf(message),
  ...(message.usage === undefined
    ? undefined
    : { tokens: { input: message.usage.inputTokens ?? null, output: message.usage.outputTokens ?? null } }),
  ...message.metadata
})

const contentOf = (message: Message.Message): Json => {
  switch (message.role) {
    case "system":
      return { content: message.content }
    case "user":
      return { content: Message.text(message) }
    case "assistant": {
      const calls = Message.toolCalls(message)
      return {
        content: message.content.some((part) => part.type === "text") ? Message.text(message) : null,
        ...(calls.length === 0
          ? undefined
          : { tool_calls: calls.map(({ arguments: args, id, name, text }) => ({ id, name, arguments: text ?? args })) })
      }
    }
    case "tool":
      return {
        content: isNothing(message.result) ? null : ToolResult.text(message.result),
        tool_call_id: message.callId,
        tool_name: message.name,
        name: message.name,
        ...(message.result._tag === "Failure" ? { error_type: message.result.type } : undefined)
      }
  }
}

const isNothing = (result: ToolResult.ToolResult): boolean =>
  result._tag === "Success" && result.value === null && ToolResult.text(result) === ""

/** Only the keys that the case lists are compared, tool calls in their flat form. */
export const pick = (actual: Json | null, expected: unknown): unknown => {
  if (actual === null || !isObject(expected)) return actual
  return Object.fromEntries(Object.keys(expected).map((key) => [key, listed(actual[key] ?? null, expected[key])]))
}

const listed = (actual: unknown, expected: unknown): unknown =>
  isObject(actual) && isObject(expected) ? pick(actual, expected) : actual

export const normal = (expected: unknown): unknown => {
  if (!isObject(expected) || !Array.isArray(expected["tool_calls"])) return expected
  const calls = expected["tool_calls"].map(call)
  return {
    ...expected,
    tool_calls: calls.map(({ arguments: args, id, name, text }) => ({ id, name, arguments: text ?? args }))
  }
}

export const lastAssistant = (self: Conversation.Conversation): Json | null =>
  Option.getOrNull(Option.map(Conversation.lastAssistantMessage(self), toGolden))

/** Adds messages of a case one by one. */
export const addAll = Effect.fnUntraced(function* (self: Conversation.Conversation, given: ReadonlyArray<Json>) {
  let current = self
  for (const message of given) {
    current = yield* Effect.fromResult(Conversation.append(current, yield* fromGolden(current, message)))
  }
  return current
})

/** The messages, compared one by one in the keys the case lists. */
export const equalMessages = (self: Conversation.Conversation, expected: ReadonlyArray<unknown>): void => {
  const actual = Conversation.messages(self).map(toGolden)
  assert.deepStrictEqual(
    actual.map((message, index) => pick(message, expected[index])),
    expected.map(normal)
  )
  assert(Result.isSuccess(Conversation.fromMessages(self)))
}
