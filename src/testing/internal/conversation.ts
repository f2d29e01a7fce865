import * as DateTime from "effect/DateTime"
import type { AssistantMessage, Message, MessageBase, ToolMessage } from "../../conversation/Message.ts"
import type { AssistantPart, ToolCallPart, ToolResultPart } from "../../conversation/Part.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as Content from "../../tool/Content.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type * as script from "./conversationScript.ts"

interface Settings {
  readonly open?: boolean | undefined
  readonly sendable?: boolean | undefined
}

const start = 1_760_000_000_000

/** The messages of a script. Ids and times count up. */
export const messages = (self: script.Script, settings: Settings): ReadonlyArray<Message> => {
  const all: Array<Message> = []
  let callCount = 0
  const stamp = (about?: script.About): MessageBase => ({
    id: `m${all.length}`,
    createdAt: DateTime.makeUnsafe(start + all.length * 1000),
    ...(about?.usage === undefined ? undefined : { usage: about.usage }),
    ...(about?.metadata === undefined ? undefined : { metadata: object(about.metadata) }),
    ...options(about?.options)
  })

  if (self.head.system !== undefined) all.push({ role: "system", ...stamp(), content: self.head.system })
  for (const [index, turn] of self.turns.entries()) {
    if (index > 0 || !self.greeting) {
      all.push({ role: "user", ...stamp(turn.about), content: said(turn.user) })
    }
    let carried: Array<ToolResultPart> = []
    for (const [position, answer] of turn.answers.entries()) {
      const isEnd = index === self.turns.length - 1 && position === turn.answers.length - 1
      const { content, later, results } = partsOf(answer, () => `call_${callCount++}`, settings)
      const whole = [...carried, ...content]
      carried = later
      all.push({
        role: "assistant",
        ...stamp(answer.about),
        content: settings.sendable === true && !whole.some(isSaid) ? [...whole, Content.text("Well.")] : whole,
        ...(answer.model === undefined ? undefined : { model: answer.model }),
        ...(answer.finishReason === undefined ? undefined : { finishReason: answer.finishReason })
      } satisfies AssistantMessage)
      const arrived = answer.reversed ? results.toReversed() : results
      const open = isEnd && settings.open !== false ? answer.open : 0
      for (const result of arrived.slice(0, arrived.length - Math.min(open, arrived.length))) {
        all.push({ role: "tool", ...stamp(), ...result } satisfies ToolMessage)
      }
    }
  }
  return all
}

const isSaid = (part: AssistantPart): boolean => part.type !== "text" || part.text !== ""

const partsOf = (answer: script.Answer, nextId: () => string, settings: Settings) => {
  const content: Array<AssistantPart> = []
  const later: Array<ToolResultPart> = []
  const results: Array<Pick<ToolMessage, "callId" | "name" | "result" | "options">> = []
  for (const part of answer.parts) {
    switch (part.type) {
      case "text":
      case "file":
        if (settings.sendable !== true || isText(part)) content.push(contentOf(part))
        break
      case "reasoning":
        content.push({ type: "reasoning", text: part.text, ...options(part.options) })
        break
      case "call": {
        const call = callOf(part, nextId(), settings)
        content.push(call)
        results.push({
          callId: call.id,
          name: call.name,
          result: resultOf(part.result, settings),
          ...options(part.resultOptions)
        })
        break
      }
      case "provider": {
        const call: ToolCallPart = { ...callOf(part, nextId(), settings), providerExecuted: true }
        content.push(call)
        const result: ToolResultPart = {
          type: "tool-result",
          id: call.id,
          name: call.name,
          result: resultOf(part.result, settings),
          ...options(part.resultOptions)
        }
        if (part.answered === "here") content.push(result)
        if (part.answered === "next") later.push(result)
        break
      }
    }
  }
  return { content, later, results }
}

const callOf = (
  part: Extract<script.Part, { type: "call" | "provider" }>,
  id: string,
  settings: Settings
): ToolCallPart => ({
  type: "tool-call",
  id,
  name: part.tool,
  ...argumentsOf(part.arguments, settings),
  ...options(part.options)
})

const argumentsOf = (given: script.Arguments, settings: Settings): Pick<ToolCallPart, "arguments" | "text"> => {
  switch (given.type) {
    case "object":
      return { arguments: object(given.entries) }
    case "spaced": {
      const json = object(given.entries)
      return { arguments: json, text: JSON.stringify(json, null, 1) }
    }
    case "other":
      return { arguments: settings.sendable === true ? { value: given.value } : given.value }
    case "malformed":
      return settings.sendable === true ? { arguments: {} } : { arguments: given.text, text: given.text }
  }
}

const resultOf = (given: script.Result, settings: Settings): ToolResult.ToolResult => {
  const content = nonEmpty(given.content.filter((part) => settings.sendable !== true || isText(part)))
  if (given.type === "success") return ToolResult.success(given.value, content)
  const failure = ToolResult.failure(given.name, given.message, given.value)
  return content === undefined ? failure : { ...failure, content }
}

const isText = (part: script.Content): boolean => part.type === "file" || part.text !== ""

const nonEmpty = (given: ReadonlyArray<script.Content>): Content.NonEmptyContent | undefined => {
  const [first, ...rest] = given.map(contentOf)
  return first === undefined ? undefined : [first, ...rest]
}

/** User content says something. */
const said = (given: ReadonlyArray<script.Content>): Content.NonEmptyContent => {
  const [first, ...rest] = given.filter(isText).map(contentOf)
  return first === undefined ? [Content.text("Hello")] : [first, ...rest]
}

const contentOf = (part: script.Content): Content.Content =>
  part.type === "text"
    ? { type: "text", text: part.text, ...options(part.options) }
    : Content.file({
        mediaType: part.mediaType,
        fileName: part.fileName,
        // URLs in the form that URL objects give them
        data: part.data.startsWith("https:") ? new URL(part.data) : part.data,
        options: options(part.options)?.options
      })

const options = (given: script.Options | undefined): { readonly options: Content.ProviderOptions } | undefined =>
  given === undefined ? undefined : { options: { [given.provider]: given.value } }

const object = (entries: script.Entries): JsonObject =>
  Object.fromEntries(entries.map(({ key, value }) => [key, value]))
