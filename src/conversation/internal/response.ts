import type * as Response from "effect/ai/Response"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Content from "../../tool/Content.ts"
import * as ConversationError from "../ConversationError.ts"
import type { AssistantPart } from "../Part.ts"
import type { ResponseContent, StreamAccumulator } from "../ResponseContent.ts"
import type { TokenUsage } from "../TokenUsage.ts"
import * as json from "./json.ts"
import * as toolResults from "./result.ts"

type Metadata = Content.ProviderOptions

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

interface Done {
  readonly type: "done"
  readonly part: AssistantPart
}

type Block = TextBlock | CallBlock | Done

/** A place in the content, filled by a later part. */
interface Slot {
  block: Block
}

export const accumulator = (): StreamAccumulator => {
  const slots: Array<Slot> = []
  const open = { text: new Map<string, TextBlock>(), reasoning: new Map<string, TextBlock>() }
  const openCalls = new Map<string, { readonly slot: Slot; readonly block: CallBlock }>()
  const errors: Array<unknown> = []
  let position = -1
  let problem: ConversationError.NotJson | undefined
  let finish: Pick<ResponseContent, "usage" | "finishReason"> = { usage: {} }
  let about: Pick<ResponseContent, "model" | "responseId"> = {}
  let metadata: Metadata = {}

  const put = <B extends Block>(block: B): { readonly slot: Slot; readonly block: B } => {
    const slot: Slot = { block }
    slots.push(slot)
    return { slot, block }
  }
  const done = (part: AssistantPart) => put({ type: "done", part })

  const startText = (type: TextBlock["type"], id: string): TextBlock => {
    const { block } = put<TextBlock>({ type, text: "", metadata: {} })
    open[type].set(id, block)
    return block
  }
  const grow = (type: TextBlock["type"], id: string, delta: string, metadata: Metadata): void => {
    const block = open[type].get(id) ?? startText(type, id)
    block.text += delta
    block.metadata = merge(block.metadata, metadata)
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
    block.metadata = merge(block.metadata, metadata)
    return block
  }

  const call = (part: Response.ToolCallPart<string, unknown>): void => {
    const started = openCalls.get(part.id)
    const params = part.params === undefined ? started?.block.text : part.params
    const parsed = json.fromArguments(params)
    if (Option.isNone(parsed)) {
      problem ??= new ConversationError.NotJson({ index: position, callId: part.id, what: "arguments" })
      return
    }
    const received = started === undefined ? undefined : receivedText(started.block.text, parsed.value.arguments)
    const finished: Done = {
      type: "done",
      part: {
        type: "tool-call",
        id: part.id,
        name: part.name,
        ...(received === undefined ? undefined : { text: received }),
        ...parsed.value,
        ...(part.providerExecuted || started?.block.providerExecuted === true ? { providerExecuted: true } : undefined),
        ...options(merge(started?.block.metadata ?? {}, part.metadata))
      }
    }
    if (started === undefined) put(finished)
    else started.slot.block = finished
    openCalls.delete(part.id)
  }

  const result = (part: Response.ToolResultPart<string, unknown, unknown>): void => {
    if (part.preliminary || !part.providerExecuted) return
    const value = json.fromResult(part.encodedResult)
    if (Option.isNone(value)) {
      problem ??= new ConversationError.NotJson({ index: position, callId: part.id, what: "result" })
      return
    }
    done({
      type: "tool-result",
      id: part.id,
      name: part.name,
      result: toolResults.fromPart(part, value.value),
      ...options(part.metadata)
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
        startText(kindOf(part.type), part.id).metadata = part.metadata
        return
      case "text-delta":
      case "reasoning-delta":
        grow(kindOf(part.type), part.id, part.delta, part.metadata)
        return
      case "text-end":
      case "reasoning-end":
        grow(kindOf(part.type), part.id, "", part.metadata)
        open[kindOf(part.type)].delete(part.id)
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
        done(Content.file({ mediaType: part.mediaType, data: part.data, ...options(part.metadata) }))
        return
      case "response-metadata":
        about = {
          ...about,
          ...(part.modelId === undefined ? undefined : { model: part.modelId }),
          ...(part.id === undefined ? undefined : { responseId: part.id })
        }
        metadata = merge(metadata, part.metadata)
        return
      case "finish":
        finish = { finishReason: part.reason, usage: usageOf(part.usage) }
        metadata = merge(metadata, part.metadata)
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
            content: slots.flatMap(({ block }) => partsOf(block)),
            ...finish,
            ...about,
            ...(Object.keys(metadata).length === 0 ? undefined : { metadata }),
            errors: [...errors]
          })
        : Result.fail(new ConversationError.ConversationError({ reason: problem }))
  }
}

const kindOf = (type: `${TextBlock["type"]}-${"start" | "delta" | "end"}`): TextBlock["type"] =>
  type.startsWith("text") ? "text" : "reasoning"

const partsOf = (block: Block): ReadonlyArray<AssistantPart> => {
  if (block.type === "done") return [block.part]
  const given = options(block.metadata)
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
      ...json.parseArguments(block.text),
      ...(block.providerExecuted ? { providerExecuted: true } : undefined),
      ...given
    }
  ]
}

/** The streamed text of arguments, where it tells more than the arguments do. */
const receivedText = (text: string, given: Schema.Json): string | undefined => {
  if (text.trim() === "" || Option.contains(json.stringify(given), text)) return undefined
  return Equal.equals(json.parseArguments(text).arguments, given) ? text : undefined
}

const options = (metadata: Metadata): { readonly options: Metadata } | undefined =>
  Object.keys(metadata).length === 0 ? undefined : { options: metadata }

/** Later metadata over earlier, key by key within a provider. */
const merge = (left: Metadata, right: Metadata): Metadata => {
  if (Object.keys(right).length === 0) return left
  const merged = new Map(Object.entries(left))
  for (const [provider, value] of Object.entries(right)) {
    const previous = merged.get(provider)
    merged.set(provider, json.isObject(previous) && json.isObject(value) ? { ...previous, ...value } : value)
  }
  return Object.fromEntries(merged)
}

const usageOf = ({ inputTokens, outputTokens }: Response.Usage): TokenUsage => ({
  ...count(
    "inputTokens",
    inputTokens.total ?? sum([inputTokens.uncached, inputTokens.cacheRead, inputTokens.cacheWrite])
  ),
  ...count("outputTokens", outputTokens.total ?? sum([outputTokens.text, outputTokens.reasoning])),
  ...count("cacheReadTokens", inputTokens.cacheRead),
  ...count("cacheWriteTokens", inputTokens.cacheWrite),
  ...count("reasoningTokens", outputTokens.reasoning)
})

/** Absent where the first, the main part, was not reported. */
const sum = (counts: readonly [number | undefined, ...Array<number | undefined>]): number | undefined =>
  counts[0] === undefined ? undefined : counts.reduce<number>((total, count) => total + (count ?? 0), 0)

const count = (key: keyof TokenUsage, value: number | undefined): TokenUsage | undefined =>
  value !== undefined && Number.isSafeInteger(value) && value >= 0 ? { [key]: value } : undefined
