import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../../payload/Json.ts"
import type { AnthropicHistory, Options } from "../../AnthropicMessages.ts"
import type { Conversation } from "../../Conversation.ts"
import type { AssistantMessage, Message } from "../../Message.ts"
import * as RenderError from "../../RenderError.ts"
import * as foreign from "../foreign.ts"
import * as groups from "../groups.ts"
import * as history from "../history.ts"
import * as json from "../json.ts"
import * as calls from "../renderedCalls.ts"
import { exact } from "./exact.ts"
import { prepare } from "./prepare.ts"

export const toHistory = (
  self: Conversation,
  options: Options
): Result.Result<AnthropicHistory, RenderError.RenderError> => {
  const messages = history.toArray(history.of(self))
  return Result.gen(function* () {
    yield* laws(self, messages)
    let system: Schema.Json = null
    const written: Array<JsonObject> = []
    /** Blocks of the results just written, while a user message can still join them. */
    let blocks: Array<Schema.Json> | undefined
    let index = 0
    const next = (message: Message) =>
      Result.map(prepare(message, index++, options), (said) => exact(said, foreign.noteOf("anthropic", message)))
    for (const { message, results } of groups.group(messages)) {
      if (message !== undefined) {
        const content = yield* next(message)
        if (message.role === "system") system = content
        else if (blocks !== undefined && isJoined(message) && Array.isArray(content)) blocks.push(...content)
        else written.push(around(message, message.role, content))
      }
      blocks = undefined
      const answers: Array<{ readonly message: Message; readonly block: Schema.Json }> = []
      for (const result of results) answers.push({ message: result, block: yield* next(result) })
      const [first, ...rest] = foreign.inPlace("anthropic", answers)
      if (first === undefined) continue
      blocks = [first.block, ...rest.map(({ block }) => block)]
      written.push(around(first.message, "user", blocks))
    }
    return document(messages[0], system, written)
  }).pipe(Result.mapError((reason) => new RenderError.RenderError({ format: "Anthropic", reason })))
}

const isJoined = (message: Message): boolean =>
  message.role === "user" && foreign.noteOf("anthropic", message).joined === true

/** The message around content, with the keys it had when it was read. */
const around = (message: Message, role: string, content: Schema.Json): JsonObject => {
  const canonical: JsonObject = { role, content: null }
  const patched = foreign.patch(canonical, foreign.noteOf("anthropic", message).outer)
  return json.isObject(patched) && foreign.own(patched, "role") === role && Object.hasOwn(patched, "content")
    ? { ...patched, content }
    : { role, content }
}

/** The document around the messages, with the keys in the order in which they were read. */
const document = (
  first: Message | undefined,
  system: Schema.Json,
  messages: ReadonlyArray<JsonObject>
): AnthropicHistory => {
  const note = first === undefined ? undefined : foreign.noteOf("anthropic", first).top
  const patched = foreign.patch({ system: null, messages: null }, note)
  const keys = json.isObject(patched) ? Object.keys(patched) : []
  if (system === null && !keys.includes("system")) return { messages }
  return keys[0] === "messages" ? { messages, system } : { system, messages }
}

const laws = (
  self: Conversation,
  messages: ReadonlyArray<Message>
): Result.Result<void, RenderError.UnansweredCalls | RenderError.AssistantFirst> => {
  const index = messages.findIndex((message) => message.role !== "system")
  const first = messages[index]
  if (first !== undefined && first.role !== "user") {
    return Result.fail(new RenderError.AssistantFirst({ index, id: first.id }))
  }
  return Result.flatMap(calls.closed(self, messages), () => answeredByProvider(messages))
}

/** Only at the end, where Anthropic paused, may a tool that it runs be without a result. */
const answeredByProvider = (messages: ReadonlyArray<Message>): Result.Result<void, RenderError.UnansweredCalls> => {
  const open = new Map<string, { readonly index: number; readonly message: AssistantMessage }>()
  for (const [index, message] of messages.entries()) {
    if (message.role === "user" && open.size > 0) break
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part.type === "tool-call" && part.providerExecuted === true) open.set(part.id, { index, message })
      if (part.type === "tool-result") open.delete(part.id)
    }
  }
  const [first] = open.values()
  const isPaused = messages.findLastIndex(({ role }) => role === "user") < (first?.index ?? 0)
  return first === undefined || isPaused
    ? Result.succeed(undefined)
    : Result.fail(
        new RenderError.UnansweredCalls({ index: first.index, id: first.message.id, callIds: [...open.keys()] })
      )
}
