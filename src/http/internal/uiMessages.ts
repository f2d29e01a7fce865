/**
 * The UI message stream of the AI SDK, version 1, as a table from the changes of a page. One UI message is what the models wrote after one
 * message of the user, so a conversation has the same messages whether they were sent one after the other, or into a running turn.
 */

import type * as Message from "../../conversation/Message.ts"
import { defined } from "../../payload/internal/values.ts"
import type * as ToolResult from "../../tool/ToolResult.ts"
import * as events from "../../session/internal/events.ts"
import * as screen from "./screen.ts"
import { type Chunk, type FinishReason, type Metadata, sourceOf, urlOf } from "./uiChunks.ts"

/** The id of the UI message, which the page makes by default, and whether the message has begun. */
export interface Own {
  readonly id: string | undefined
  readonly isStarted: boolean
}

/** The usage and the model of the answers, `undefined` where neither is known. */
export const metadataOf = ({ model, usage }: screen.State): Metadata | undefined =>
  model === undefined && usage === undefined ? undefined : defined({ usage, model })

/** The end of a message, with what is left of the budgets. Other chunks have no ending. */
export const ending = (chunk: Chunk): screen.Ending<Chunk> | undefined =>
  chunk.type === "finish" || chunk.type === "message-metadata"
    ? (budget) => [{ ...chunk, messageMetadata: { ...chunk.messageMetadata, budget } }]
    : undefined

/** The id of the answer to a message of the user. */
export const idOf = (messageId: string): string => `answer-${messageId}`

/** The page of the answer to a message of the user, or of a run without a session. */
export const begin = (of?: string, id = of === undefined ? undefined : idOf(of)): screen.Page<Own> => ({
  turn: screen.make(of),
  own: { id, isStarted: false }
})

/** The end of a call, whose result may be hidden. */
const resultOf = (
  toolCallId: string,
  result: ToolResult.ToolResult | undefined,
  succeeded: boolean,
  more: { providerExecuted?: true } = {}
): Chunk => {
  if (result?._tag === "Success" || (result === undefined && succeeded))
    return { type: "tool-output-available", toolCallId, output: result?.value ?? null, ...more }
  if (result?.type === "denied") return { type: "tool-output-denied", toolCallId }
  return { type: "tool-output-error", toolCallId, errorText: result?.message ?? "The tool failed.", ...more }
}

function* wholeOf(part: Message.AssistantPart): Generator<Chunk, void> {
  if (part.type === "source") yield sourceOf(part)
  if (part.type === "file") yield { type: "file", mediaType: part.mediaType, url: urlOf(part) }
  if (part.type === "tool-result") yield resultOf(part.id, part.result, true, { providerExecuted: true })
  if (part.type === "tool-call") {
    const { arguments: input, id: toolCallId, name: toolName, providerExecuted } = part
    yield { type: "tool-input-available", toolCallId, toolName, input, ...defined({ providerExecuted }) }
  }
}

/** A call that waits for its output is a question to the page. The request has the JSON Schema of the output. The descriptor of an approval has the people who decide, and the end. */
const asking = ({ id: approvalId, place: toolCallId, request }: screen.Asked): Chunk =>
  "schema" in request
    ? { type: "data-request", id: toolCallId, data: events.requestJson(request) }
    : {
        type: "tool-approval-request",
        approvalId,
        toolCallId,
        ...(request.bounds && { approvalDescriptor: events.boundsJson(request.bounds) })
      }

const reasons = new Set<string>(["stop", "length", "content-filter", "tool-calls", "error", "interrupted"])

const isReason = (reason: string): reason is FinishReason => reasons.has(reason)

const reasonOf = ({ outcome, turn }: screen.ChangeOf<"TurnEnded">): FinishReason => {
  if (outcome === "AwaitingApproval") return "tool-calls"
  if (outcome === "Interrupted") return "interrupted"
  return outcome === "Completed" && isReason(turn.finishReason) ? turn.finishReason : "other"
}

const callOf = ({ place: toolCallId, request: { arguments: input, name: toolName } }: screen.Asked): Chunk => ({
  type: "tool-input-available",
  toolCallId,
  toolName,
  input,
  dynamic: true
})

const chunksOf = screen.protocol<void, Chunk>({
  *TurnBegun({ turn }) {
    // A page that was loaded has open requests alone, and the calls of the others may end in this stream
    for (const asked of turn.asked.values()) if (!asked.isOwn && asked.isApproved !== undefined) yield callOf(asked)
  },
  *AnswerBegun({ isFirst }) {
    if (!isFirst) yield { type: "finish-step" }
    yield { type: "start-step" }
  },
  *PartChanged({ delta, id, isNew, isOver, name: toolName, stored, type }) {
    if (type === "text" || type === "reasoning") {
      if (isNew) yield { type: `${type}-start`, id }
      if (delta !== "") yield { type: `${type}-delta`, id, delta }
      if (isOver) yield { type: `${type}-end`, id }
    } else if (stored !== undefined) yield* wholeOf(stored)
    else {
      if (isNew) yield { type: "tool-input-start", toolCallId: id, toolName }
      if (delta !== "") yield { type: "tool-input-delta", toolCallId: id, inputTextDelta: delta }
    }
  },
  *OutputChanged({ value: data = null }) {
    yield { type: "data-partial-output", id: "output", data }
  },
  *AnswerWithdrawn() {
    yield { type: "reset-step" }
  },
  *Requested(asked) {
    if (!asked.isOwn) yield callOf(asked)
    yield asking(asked)
  },
  *Decided({ answer = null, approved, id: approvalId, isOwn, place: toolCallId, reason, request }) {
    if ("schema" in request) {
      if (isOwn) return
      return yield approved
        ? { type: "tool-output-available", toolCallId, output: answer }
        : { type: "tool-output-error", toolCallId, errorText: reason ?? "There was no answer." }
    }
    yield { type: "tool-approval-response", approvalId, approved, ...defined({ reason }) }
    if (!approved && !isOwn) yield { type: "tool-output-denied", toolCallId }
  },
  *CallEnded({ event, isShown, place: id }) {
    const { _tag: _, at: __, path = [], ...data } = event
    yield isShown ? resultOf(id, data.result, data.succeeded) : { type: "data-result", id, data: { ...data, path } }
  },
  *HandedOff({ event: { agent, path = [] } }) {
    yield { type: "data-handoff", transient: true, data: { agent, path } }
  },
  *CallClosed({ place }) {
    yield resultOf(place, undefined, true)
  },
  *StepChanged({ event: { path, status }, place: id }) {
    yield { type: "data-step", id, data: { path, status } }
  },
  *Inside({ event }) {
    if (event._tag !== "Answered") return yield { type: "data-draft", data: event, transient: true }
    const { content, messageId: id, path = [] } = event
    yield { type: "data-answer", id, data: { path, content } }
  },
  *TurnEnded(end) {
    const { asked, failure, outcome, output, refusal, turn } = end
    const messageMetadata = metadataOf(turn)
    if (failure !== undefined) {
      yield* asked.map(asking)
      if (outcome === "Edited") return yield { type: "abort", reason: failure.message }
      if (messageMetadata !== undefined) yield { type: "message-metadata", messageMetadata }
      return yield { type: "error", errorText: failure.message }
    }
    if (output !== undefined) yield { type: "data-output", id: "output", data: output }
    if (turn.answer !== "none") yield { type: "finish-step" }
    // The reason is for the user, and a finish has no text
    if (refusal !== undefined) yield { type: "error", errorText: refusal.reason }
    else yield { type: "finish", finishReason: reasonOf(end), ...defined({ messageMetadata }) }
  }
})

/** Chunks that begin no message. */
const outside: ReadonlySet<Chunk["type"]> = new Set(["finish", "error", "abort", "data-draft", "data-handoff"])

/** The message begins with its first chunk. */
export const protocol: screen.Protocol<Own, Chunk> = function* ({ id, isStarted: before }, change) {
  let isStarted = before && change._tag !== "TurnBegun"
  for (const chunk of chunksOf(undefined, change)) {
    if (!isStarted && !outside.has(chunk.type)) {
      isStarted = true
      yield { type: "start", ...defined({ messageId: id }) }
    }
    yield chunk
  }
  return { id, isStarted }
}
