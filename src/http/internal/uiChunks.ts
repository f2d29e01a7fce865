/** The chunks and messages of the UI message stream of the AI SDK, version 1, as far as they are written here. */

import type * as Schema from "effect/Schema"
import type * as Message from "../../conversation/Message.ts"
import { defined } from "../../payload/internal/values.ts"
import type * as ChatEvent from "../../session/ChatEvent.ts"
import type * as ledger from "../../run/internal/ledger.ts"
import type * as ToolResult from "../../tool/ToolResult.ts"

/** The reason that a UI message ended. */
export type FinishReason = "stop" | "length" | "content-filter" | "tool-calls" | "error" | "interrupted" | "other"

/** The metadata of a UI message. */
export interface Metadata {
  /** The tokens of the answers in the message, without the tokens of agents inside. */
  readonly usage?: Message.TokenUsage
  /** The name of the model of the newest answer. */
  readonly model?: string
  /** The rest of each budget of the session and its turn, in the newest message, where its answer ends; absent where there is none. */
  readonly budget?: ReadonlyArray<ledger.Line>
}

/** A chunk of a UI message stream. */
export type Chunk =
  | { readonly type: "start"; readonly messageId?: string }
  | { readonly type: "start-step" | "finish-step" | "reset-step" }
  | { readonly type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end"; readonly id: string }
  | { readonly type: "text-delta" | "reasoning-delta"; readonly id: string; readonly delta: string }
  | { readonly type: "tool-input-start"; readonly toolCallId: string; readonly toolName: string }
  | { readonly type: "tool-input-delta"; readonly toolCallId: string; readonly inputTextDelta: string }
  | {
      readonly type: "tool-input-available"
      readonly toolCallId: string
      readonly toolName: string
      readonly input: Schema.Json
      readonly dynamic?: true
      readonly providerExecuted?: true
    }
  | {
      readonly type: "tool-approval-request"
      readonly toolCallId: string
      readonly approvalId: string
      readonly approvalDescriptor?: Schema.Json
    }
  | {
      readonly type: "tool-approval-response"
      readonly approvalId: string
      readonly approved: boolean
      readonly reason?: string
    }
  | {
      readonly type: "tool-output-available"
      readonly toolCallId: string
      readonly output: Schema.Json
      readonly providerExecuted?: true
    }
  | {
      readonly type: "tool-output-error"
      readonly toolCallId: string
      readonly errorText: string
      readonly providerExecuted?: true
    }
  | { readonly type: "tool-output-denied"; readonly toolCallId: string }
  | { readonly type: "file"; readonly mediaType: string; readonly url: string }
  | { readonly type: "source-url"; readonly sourceId: string; readonly url: string; readonly title?: string }
  | {
      readonly type: "source-document"
      readonly sourceId: string
      readonly mediaType: string
      readonly title: string
      readonly filename?: string
    }
  | {
      readonly type: "data-draft"
      readonly transient: true
      readonly data: Extract<ChatEvent.ChatEvent, { readonly _tag: "AnswerDelta" | "AnswerWithdrawn" }>
    }
  | {
      readonly type: "data-handoff"
      readonly transient: true
      readonly data: { readonly agent: string; readonly path: ReadonlyArray<string> }
    }
  | {
      readonly type: "data-answer"
      readonly id: string
      readonly data: { readonly path: ReadonlyArray<string>; readonly content: ReadonlyArray<Message.AssistantPart> }
    }
  | {
      readonly type: "data-result"
      readonly id: string
      readonly data: Omit<Extract<ChatEvent.ChatEvent, { readonly _tag: "ToolFinished" }>, "_tag" | "at">
    }
  | { readonly type: "data-request"; readonly id: string; readonly data: Schema.Json }
  | {
      readonly type: "data-step"
      readonly id: string
      readonly data: Pick<Extract<ChatEvent.ChatEvent, { readonly _tag: "PlanStep" }>, "path" | "status">
    }
  | { readonly type: "data-partial-output"; readonly id: string; readonly data: Schema.Json }
  | { readonly type: "data-output"; readonly id: string; readonly data: Schema.Json }
  | { readonly type: "finish"; readonly finishReason?: FinishReason; readonly messageMetadata?: Metadata }
  | { readonly type: "message-metadata"; readonly messageMetadata: Metadata }
  | { readonly type: "abort"; readonly reason: string }
  | { readonly type: "error"; readonly errorText: string }

export const urlOf = ({ data, mediaType }: Pick<ToolResult.FilePart, "data" | "mediaType">): string =>
  data.type === "url" ? data.url : `data:${mediaType};base64,${data.base64}`

export const sourceOf = ({ data, id: sourceId, title }: Message.SourcePart): Chunk => {
  if (data.type === "url") return { type: "source-url", sourceId, url: data.url, ...defined({ title }) }
  const { fileName: filename, mediaType } = data
  return {
    type: "source-document",
    sourceId,
    mediaType,
    title: title ?? filename ?? "",
    ...defined({ filename })
  }
}
