/**
 * The content of an assistant message, collected from the parts of a response, streamed or whole.
 */

import type * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Response from "effect/ai/Response"
import * as ToolResult from "../../tool/ToolResult.ts"
import { ConversationError, type Reason } from "../ConversationError.ts"
import * as Message from "../Message.ts"
import * as messageData from "./messageData.ts"
import * as prompts from "./prompts.ts"

/**
 * What a response said.
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
 * Starts collecting. The accumulator is mutable: one per stream.
 */
export const accumulator = (): StreamAccumulator => makeAccumulator()

/**
 * Converts the parts of a whole response, or of a whole stream: equal content gives
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
 * arguments. Text that does not parse stands for the arguments; empty text is `{}`.
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
export const toMessage = (self: ResponseContent, options?: Message.Options): Effect.Effect<Message.AssistantMessage> =>
  Message.assistant(self.content, {
    ...(Object.keys(self.usage).length === 0 ? undefined : { usage: self.usage }),
    ...(self.model === undefined ? undefined : { model: self.model }),
    ...(self.finishReason === undefined ? undefined : { finishReason: self.finishReason }),
    ...options
  })

type Metadata = ToolResult.ProviderOptions

/** Text that may still grow. */
interface TextBlock {
  readonly type: "text" | "reasoning"
  text: string
  metadata: Metadata
}

/** A call whose arguments arrive piece by piece. The name is absent until it is told. */
interface CallBlock {
  readonly type: "call"
  readonly id: string
  name: string | undefined
  providerExecuted: boolean
  text: string
  metadata: Metadata
}

interface DoneBlock {
  readonly type: "done"
  readonly part: Message.AssistantPart
}

type Block = TextBlock | CallBlock | DoneBlock

/** A place in the content, filled by a later part. */
interface Slot {
  block: Block
}

const makeAccumulator = (): StreamAccumulator => {
  const slots: Array<Slot> = []
  const open = { text: new Map<string, TextBlock>(), reasoning: new Map<string, TextBlock>() }
  const openCalls = new Map<string, { readonly slot: Slot; readonly block: CallBlock }>()
  const errors: Array<unknown> = []
  let position = -1
  let problem: Reason | undefined
  let finish: Pick<ResponseContent, "usage" | "finishReason"> = { usage: {} }
  let about: Pick<ResponseContent, "model" | "responseId"> = {}
  let metadata: Metadata = {}

  const put = <B extends Block>(block: B): { readonly slot: Slot; readonly block: B } => {
    const slot: Slot = { block }
    slots.push(slot)
    return { slot, block }
  }
  const done = (part: Message.AssistantPart) => put({ type: "done", part })

  const startText = (type: TextBlock["type"], id: string): TextBlock => {
    const { block } = put<TextBlock>({ type, text: "", metadata: {} })
    open[type].set(id, block)
    return block
  }
  const grow = (type: TextBlock["type"], id: string, delta: string, metadata: Metadata): void => {
    const block = open[type].get(id) ?? startText(type, id)
    block.text += delta
    block.metadata = mergeMetadata(block.metadata, metadata)
  }

  const startCall = (id: string) => {
    const started = put<CallBlock>({
      type: "call",
      id,
      name: undefined,
      providerExecuted: false,
      text: "",
      metadata: {}
    })
    openCalls.set(id, started)
    return started
  }
  const growCall = (id: string, delta: string, metadata: Metadata): CallBlock => {
    const { block } = openCalls.get(id) ?? startCall(id)
    block.text += delta
    block.metadata = mergeMetadata(block.metadata, metadata)
    return block
  }

  const call = (part: Response.ToolCallPart<string, unknown>): void => {
    const started = openCalls.get(part.id)
    const params = part.params === undefined ? started?.block.text : part.params
    const parsed = messageData.callArguments(params)
    if (Option.isNone(parsed)) {
      problem ??= { _tag: "NotJson", index: position, callId: part.id, what: "arguments" }
      return
    }
    const received = started === undefined ? undefined : receivedText(started.block.text, parsed.value.arguments)
    const finished: DoneBlock = {
      type: "done",
      part: {
        type: "tool-call",
        id: part.id,
        name: part.name,
        ...(received === undefined ? undefined : { text: received }),
        ...parsed.value,
        ...(part.providerExecuted || started?.block.providerExecuted === true ? { providerExecuted: true } : undefined),
        ...partOptions(mergeMetadata(started?.block.metadata ?? {}, part.metadata))
      }
    }
    if (started === undefined) put(finished)
    else started.slot.block = finished
    openCalls.delete(part.id)
  }

  const result = (part: Response.ToolResultPart<string, unknown, unknown>): void => {
    if (part.preliminary || !part.providerExecuted) return
    const value = messageData.resultValue(part.encodedResult)
    if (Option.isNone(value)) {
      problem ??= { _tag: "NotJson", index: position, callId: part.id, what: "result" }
      return
    }
    done({
      type: "tool-result",
      id: part.id,
      name: part.name,
      result: prompts.resultFromPart(part, value.value),
      ...partOptions(part.metadata)
    })
  }

  const add = (part: Response.AnyPart): void => {
    position += 1
    switch (part.type) {
      case "text":
      case "reasoning":
        put<TextBlock>({ type: part.type, text: part.text, metadata: part.metadata })
        return
      case "text-start":
      case "reasoning-start":
        startText(blockKind(part.type), part.id).metadata = part.metadata
        return
      case "text-delta":
      case "reasoning-delta":
        grow(blockKind(part.type), part.id, part.delta, part.metadata)
        return
      case "text-end":
      case "reasoning-end":
        grow(blockKind(part.type), part.id, "", part.metadata)
        open[blockKind(part.type)].delete(part.id)
        return
      case "tool-params-start": {
        const { block } = startCall(part.id)
        block.name = part.name
        block.providerExecuted = part.providerExecuted
        block.metadata = part.metadata
        return
      }
      case "tool-params-delta":
        growCall(part.id, part.delta, part.metadata)
        return
      case "tool-params-end":
        growCall(part.id, "", part.metadata)
        return
      case "tool-call":
        call(part)
        return
      case "tool-result":
        result(part)
        return
      case "file":
        done(ToolResult.filePart({ mediaType: part.mediaType, data: part.data, ...partOptions(part.metadata) }))
        return
      case "response-metadata":
        about = {
          ...about,
          ...(part.modelId === undefined ? undefined : { model: part.modelId }),
          ...(part.id === undefined ? undefined : { responseId: part.id })
        }
        metadata = mergeMetadata(metadata, part.metadata)
        return
      case "finish":
        finish = { finishReason: part.reason, usage: usageOf(part.usage) }
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
            content: slots.flatMap(({ block }) => partsOfBlock(block)),
            ...finish,
            ...about,
            ...(Object.keys(metadata).length === 0 ? undefined : { metadata }),
            errors: [...errors]
          })
        : Result.fail(new ConversationError({ reason: problem }))
  }
}

const blockKind = (type: `${TextBlock["type"]}-${"start" | "delta" | "end"}`): TextBlock["type"] =>
  type.startsWith("text") ? "text" : "reasoning"

const partsOfBlock = (block: Block): ReadonlyArray<Message.AssistantPart> => {
  if (block.type === "done") return [block.part]
  const given = partOptions(block.metadata)
  if (block.type !== "call") {
    return block.text === "" && given === undefined ? [] : [{ type: block.type, text: block.text, ...given }]
  }
  // Arguments of a call that was never named or made: there is nothing to call
  if (block.name === undefined) return []
  return [
    {
      type: "tool-call",
      id: block.id,
      name: block.name,
      ...messageData.parseCallArguments(block.text),
      ...(block.providerExecuted ? { providerExecuted: true } : undefined),
      ...given
    }
  ]
}

/** The streamed text of arguments, where it tells more than the arguments do. */
const receivedText = (text: string, given: Schema.Json): string | undefined => {
  if (text.trim() === "" || Option.contains(messageData.stringifyJson(given), text)) return undefined
  return Equal.equals(messageData.parseCallArguments(text).arguments, given) ? text : undefined
}

const partOptions = (metadata: Metadata): { readonly options: Metadata } | undefined =>
  Object.keys(metadata).length === 0 ? undefined : { options: metadata }

/** Later metadata over earlier, key by key within a provider. */
const mergeMetadata = (left: Metadata, right: Metadata): Metadata => {
  if (Object.keys(right).length === 0) return left
  const merged = new Map(Object.entries(left))
  for (const [provider, value] of Object.entries(right)) {
    const previous = merged.get(provider)
    merged.set(
      provider,
      messageData.isJsonObject(previous) && messageData.isJsonObject(value) ? { ...previous, ...value } : value
    )
  }
  return Object.fromEntries(merged)
}

const usageOf = ({ inputTokens, outputTokens }: Response.Usage): Message.TokenUsage => ({
  ...toCount(
    "inputTokens",
    inputTokens.total ?? sumCounts([inputTokens.uncached, inputTokens.cacheRead, inputTokens.cacheWrite])
  ),
  ...toCount("outputTokens", outputTokens.total ?? sumCounts([outputTokens.text, outputTokens.reasoning])),
  ...toCount("cacheReadTokens", inputTokens.cacheRead),
  ...toCount("cacheWriteTokens", inputTokens.cacheWrite),
  ...toCount("reasoningTokens", outputTokens.reasoning)
})

/** Absent where the first, the main part, was not reported. */
const sumCounts = (counts: readonly [number | undefined, ...Array<number | undefined>]): number | undefined =>
  counts[0] === undefined ? undefined : counts.reduce<number>((total, count) => total + (count ?? 0), 0)

const toCount = (key: keyof Message.TokenUsage, value: number | undefined): Message.TokenUsage | undefined =>
  value !== undefined && Number.isSafeInteger(value) && value >= 0 ? { [key]: value } : undefined
