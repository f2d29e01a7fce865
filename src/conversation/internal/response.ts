/**
 * The content of an assistant message, collected from the parts of a response, streamed or whole.
 */

import type * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Response from "effect/ai/Response"
import { defined, isObject } from "../../payload/internal/base.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import { ConversationError, type Reason } from "../ConversationError.ts"
import * as Message from "../Message.ts"
import * as messageData from "./messageData.ts"
import * as prompts from "./prompts.ts"

/**
 * The content of a response.
 *
 * **Details**
 *
 * `model` and `responseId` come from the response's metadata part. `finishReason`
 * is absent where the response had no finish part. `metadata` joins the provider
 * metadata of the response and finish parts. `errors` are the error parts of a
 * stream, which mean that the step failed.
 */
export interface ResponseContent {
  readonly content: ReadonlyArray<Message.AssistantPart>
  readonly usage: Message.TokenUsage
  readonly finishReason?: Response.FinishReason
  readonly model?: string
  readonly responseId?: string
  readonly metadata?: ToolResult.ProviderOptions
  readonly errors: ReadonlyArray<unknown>
}

/**
 * Collects the parts of one response as they arrive.
 *
 * **Details**
 *
 * Deltas without a start open a block. Blocks that never end are kept. `result`
 * may be read at any time, also in the middle of a stream; it fails where
 * arguments or results are not JSON.
 */
export interface StreamAccumulator {
  readonly add: (part: Response.AnyPart) => void
  readonly result: () => Result.Result<ResponseContent, ConversationError>
}

/**
 * Converts the parts of a whole response, or of a whole stream: equal content becomes
 * equal messages either way.
 *
 * **Details**
 *
 * Text, reasoning, files, tool calls and results of tools that the provider ran
 * are kept in order with their provider metadata. Sources and approval requests
 * are left out, as are results of tools that `effect/ai` resolved itself and
 * preliminary results.
 *
 * Arguments that arrive as text are parsed; the text is kept next to them. A
 * stream's argument text is kept where it is not the compact JSON of the
 * arguments. Text that does not parse replaces the arguments; empty text is `{}`.
 */
export const fromResponseParts = (
  parts: Iterable<Response.AnyPart>
): Result.Result<ResponseContent, ConversationError> => {
  const collected = accumulator()
  for (const part of parts) collected.add(part)
  return collected.result()
}

/**
 * Makes the assistant message of a response.
 */
export const toMessage = (
  { content, finishReason, model, usage }: ResponseContent,
  options?: Message.Options
): Effect.Effect<Message.AssistantMessage> =>
  Message.assistant(content, {
    ...(Object.keys(usage).length === 0 ? undefined : { usage }),
    ...defined({ model, finishReason }),
    ...options
  })

type Metadata = ToolResult.ProviderOptions

type Kind = "text" | "reasoning" | "call"

/** A place in the content. Its text may grow until `part` is there. */
interface Block {
  readonly kind: Kind
  readonly id: string
  /** Of a call, and absent until it arrives. */
  name: string | undefined
  providerExecuted: boolean
  text: string
  metadata: Metadata
  part: Message.AssistantPart | undefined
}

/**
 * Starts collecting. The accumulator is mutable: one per stream.
 */
export const accumulator = (): StreamAccumulator => {
  const blocks: Array<Block> = []
  const open = { text: new Map<string, Block>(), reasoning: new Map<string, Block>(), call: new Map<string, Block>() }
  const errors: Array<unknown> = []
  let position = -1
  let problem: Reason | undefined
  let about: Pick<ResponseContent, "usage" | "finishReason" | "model" | "responseId"> = { usage: {} }
  let metadata: Metadata = {}

  const put = (kind: Kind, id: string, values: Partial<Block>): Block => {
    const block: Block = {
      kind,
      id,
      name: undefined,
      providerExecuted: false,
      text: "",
      metadata: {},
      part: undefined,
      ...values
    }
    blocks.push(block)
    return block
  }

  const start = (kind: Kind, id: string, values: Partial<Block>): Block => {
    const block = put(kind, id, values)
    open[kind].set(id, block)
    return block
  }

  const grow = (kind: Kind, id: string, delta: string, metadata: Metadata): void => {
    const block = open[kind].get(id) ?? start(kind, id, {})
    block.text += delta
    block.metadata = mergeMetadata(block.metadata, metadata)
  }

  const addCall = (part: Response.ToolCallPart<string, unknown>): void => {
    const started = open.call.get(part.id)
    const parsed = messageData.callArguments(part.params === undefined ? started?.text : part.params)
    if (Option.isNone(parsed)) {
      problem ??= { _tag: "NotJson", index: position, callId: part.id, what: "arguments" }
      return
    }
    const block = started ?? put("call", part.id, {})
    block.part = {
      type: "tool-call",
      id: part.id,
      name: part.name,
      ...defined({ text: receivedText(block.text, parsed.value.arguments) }),
      ...parsed.value,
      ...(part.providerExecuted || block.providerExecuted ? { providerExecuted: true } : undefined),
      ...partOptions(mergeMetadata(block.metadata, part.metadata))
    }
    open.call.delete(part.id)
  }

  const addResult = (part: Response.ToolResultPart<string, unknown, unknown>): void => {
    if (part.preliminary || !part.providerExecuted) return
    const value = messageData.resultValue(part.encodedResult)
    if (Option.isNone(value)) {
      problem ??= { _tag: "NotJson", index: position, callId: part.id, what: "result" }
      return
    }
    const result = prompts.resultFromPart(part, value.value)
    addPart({ type: "tool-result", id: part.id, name: part.name, result, ...partOptions(part.metadata) })
  }

  const addPart = (part: Message.AssistantPart): void => {
    put("text", "", { part })
  }

  const add = (part: Response.AnyPart): void => {
    position += 1
    switch (part.type) {
      case "text":
      case "reasoning":
        put(part.type, "", { text: part.text, metadata: part.metadata })
        return
      case "text-start":
      case "reasoning-start":
        start(kindOf(part.type), part.id, { metadata: part.metadata })
        return
      case "tool-params-start": {
        const { id, metadata, name, providerExecuted } = part
        start("call", id, { name, providerExecuted, metadata })
        return
      }
      case "text-delta":
      case "reasoning-delta":
      case "tool-params-delta":
        grow(kindOf(part.type), part.id, part.delta, part.metadata)
        return
      case "text-end":
      case "reasoning-end":
        grow(kindOf(part.type), part.id, "", part.metadata)
        open[kindOf(part.type)].delete(part.id)
        return
      case "tool-params-end":
        // The call itself follows
        grow("call", part.id, "", part.metadata)
        return
      case "tool-call":
        addCall(part)
        return
      case "tool-result":
        addResult(part)
        return
      case "file":
        addPart(ToolResult.filePart({ mediaType: part.mediaType, data: part.data, ...partOptions(part.metadata) }))
        return
      case "response-metadata":
        about = { ...about, ...defined({ model: part.modelId, responseId: part.id }) }
        metadata = mergeMetadata(metadata, part.metadata)
        return
      case "finish":
        about = { ...about, finishReason: part.reason, usage: usageOf(part.usage) }
        metadata = mergeMetadata(metadata, part.metadata)
        return
      case "error":
        errors.push(part.error)
        return
      case "source":
      case "tool-approval-request":
        return
    }
  }

  return {
    add,
    result: () =>
      problem === undefined
        ? Result.succeed({
            content: blocks.flatMap(partsOfBlock),
            ...about,
            ...(Object.keys(metadata).length === 0 ? undefined : { metadata }),
            errors: [...errors]
          })
        : Result.fail(new ConversationError({ reason: problem }))
  }
}

const kindOf = (type: string): Kind => {
  if (type.startsWith("text")) return "text"
  return type.startsWith("reasoning") ? "reasoning" : "call"
}

const partsOfBlock = (block: Block): ReadonlyArray<Message.AssistantPart> => {
  if (block.part !== undefined) return [block.part]
  const options = partOptions(block.metadata)
  if (block.kind !== "call") {
    return block.text === "" && options === undefined ? [] : [{ type: block.kind, text: block.text, ...options }]
  }
  // Arguments of a call without a name: there is nothing to call
  if (block.name === undefined) return []
  return [
    {
      type: "tool-call",
      id: block.id,
      name: block.name,
      ...messageData.parseCallArguments(block.text),
      ...(block.providerExecuted ? { providerExecuted: true } : undefined),
      ...options
    }
  ]
}

/** The streamed text of arguments, where it holds more than the arguments do. */
const receivedText = (text: string, args: Schema.Json): string | undefined => {
  if (text.trim() === "" || Option.contains(messageData.stringifyJson(args), text)) return undefined
  return Equal.equals(messageData.parseCallArguments(text).arguments, args) ? text : undefined
}

const partOptions = (metadata: Metadata): { readonly options: Metadata } | undefined =>
  Object.keys(metadata).length === 0 ? undefined : { options: metadata }

/** Later metadata over earlier, key by key within a provider. */
const mergeMetadata = (left: Metadata, right: Metadata): Metadata => {
  if (Object.keys(right).length === 0) return left
  const merged = new Map(Object.entries(left))
  for (const [provider, value] of Object.entries(right)) {
    const previous = merged.get(provider)
    merged.set(provider, isObject(previous) && isObject(value) ? { ...previous, ...value } : value)
  }
  return Object.fromEntries(merged)
}

const usageOf = ({ inputTokens: input, outputTokens: output }: Response.Usage): Message.TokenUsage =>
  defined({
    inputTokens: toCount(input.total ?? sumCounts(input.uncached, input.cacheRead, input.cacheWrite)),
    outputTokens: toCount(output.total ?? sumCounts(output.text, output.reasoning)),
    cacheReadTokens: toCount(input.cacheRead),
    cacheWriteTokens: toCount(input.cacheWrite),
    reasoningTokens: toCount(output.reasoning)
  })

/** Absent where the main part was not reported. */
const sumCounts = (main: number | undefined, ...others: ReadonlyArray<number | undefined>): number | undefined =>
  main === undefined ? undefined : others.reduce<number>((total, count) => total + (count ?? 0), main)

const toCount = (value: number | undefined): number | undefined =>
  value !== undefined && Number.isSafeInteger(value) && value >= 0 ? value : undefined
