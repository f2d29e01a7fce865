/**
 * AG-UI 1.0, as a table from the changes of a page. A run begins with a snapshot of the stored messages. Where an attempt does not count, or
 * what was sent of an answer is no beginning of the stored answer, another snapshot takes the place of what was sent.
 */

import type * as Schema from "effect/Schema"
import { defined, formatPointer } from "../../payload/internal/values.ts"
import { interruptOf } from "./agUiBody.ts"
import * as agUiMessages from "./agUiMessages.ts"
import * as screen from "./screen.ts"

/** An event of AG-UI. */
export interface AgUiEvent {
  /** The name of the event, such as `TEXT_MESSAGE_CONTENT`. */
  readonly type: string
  readonly [member: string]: unknown
}

/** The things that are remembered of a run. */
export interface Own {
  readonly threadId: string
  readonly runId: string
  /** The stored messages. */
  readonly messages: ReadonlyArray<agUiMessages.AgMessage>
  /** The steps of plans by their places. */
  readonly steps: { readonly [place: string]: Schema.Json }
  /** The text of the answer has begun. All its text parts are one message. */
  readonly hasText: boolean
  /** Reasoning that was withdrawn, which is empty on the page until there is other reasoning. */
  readonly left: ReadonlyArray<agUiMessages.AgMessage>
}

const none: ReadonlyArray<agUiMessages.AgMessage> = [agUiMessages.reasoningOf("none")]

/** `hasReasoning`: the page shows reasoning, which is withdrawn where none is stored. */
export const begin = (
  of: string,
  { hasReasoning, ...run }: Pick<Own, "threadId" | "runId" | "messages"> & { readonly hasReasoning: boolean }
): screen.Page<Own> => ({
  turn: screen.make(of),
  own: {
    ...run,
    steps: {},
    hasText: false,
    left: hasReasoning && !run.messages.some(agUiMessages.isReasoning) ? none : []
  }
})

/**
 * The stored messages in the place of what a page has. A page keeps the places of messages that it has, so they are removed first. It
 * removes reasoning only for other reasoning, so withdrawn reasoning is made empty where there is none.
 */
function* replace(own: Own): Generator<AgUiEvent, Own> {
  const messages = [...own.messages, ...own.left]
  yield { type: "MESSAGES_SNAPSHOT", messages: messages.some(agUiMessages.isReasoning) ? none : [] }
  yield { type: "MESSAGES_SNAPSHOT", messages }
  return own
}

/** The end of a run, after a change of the state that has what is left of the budgets. */
export const ending = (event: AgUiEvent): screen.Ending<AgUiEvent> | undefined =>
  event.type === "RUN_FINISHED" || event.type === "RUN_ERROR"
    ? (budget) => [
        { type: "STATE_DELTA", delta: [{ op: "add", path: "/budget", value: budget.map((line) => ({ ...line })) }] },
        event
      ]
    : undefined

const usageOf = ({ usage = {} }: screen.State) => {
  const { cacheReadTokens, cacheWriteTokens, inputTokens, outputTokens, reasoningTokens } = usage
  const cached = { cachedInputTokens: cacheReadTokens, cacheWriteInputTokens: cacheWriteTokens }
  return [defined({ inputTokens, outputTokens, reasoningTokens, ...cached })]
}

export const protocol = screen.protocol<Own, AgUiEvent>({
  *TurnBegun({ turn }, own) {
    const { runId, steps, threadId } = own
    yield { type: "RUN_STARTED", threadId, runId }
    yield { type: "STATE_SNAPSHOT", snapshot: { steps } }
    yield* replace(own)
    for (const stepName of turn.inside) yield { type: "STEP_STARTED", stepName }
  },
  *PartChanged({ answer: messageId, delta, id, isNew, isOver, name, type }, own) {
    if (type === "text") {
      if (!own.hasText) yield { type: "TEXT_MESSAGE_START", messageId, role: "assistant" }
      if (delta !== "") yield { type: "TEXT_MESSAGE_CONTENT", messageId, delta }
      return { ...own, hasText: true }
    }
    if (type === "reasoning") {
      if (isNew) yield { type: "REASONING_START", messageId: id }
      if (isNew) yield { type: "REASONING_MESSAGE_START", messageId: id, role: "reasoning" }
      if (delta !== "") yield { type: "REASONING_MESSAGE_CONTENT", messageId: id, delta }
      if (isOver) yield { type: "REASONING_MESSAGE_END", messageId: id }
      if (isOver) yield { type: "REASONING_END", messageId: id }
    }
    if (type === "tool-call") {
      if (isNew) yield { type: "TOOL_CALL_START", toolCallId: id, toolCallName: name, parentMessageId: messageId }
      if (delta !== "") yield { type: "TOOL_CALL_ARGS", toolCallId: id, delta }
      if (isOver) yield { type: "TOOL_CALL_END", toolCallId: id }
    }
    return own
  },
  *OutputChanged({ value }) {
    const path = "/output"
    yield { type: "STATE_DELTA", delta: [value === undefined ? { op: "remove", path } : { op: "add", path, value }] }
  },
  *AnswerWithdrawn({ answer, parts }, own) {
    if (own.hasText) yield { type: "TEXT_MESSAGE_END", messageId: answer }
    const empty = parts.flatMap(({ id, type }) => (type === "reasoning" ? [agUiMessages.reasoningOf(id)] : []))
    const left = own.messages.some(agUiMessages.isReasoning) ? [] : [...own.left, ...empty]
    return yield* replace({ ...own, hasText: false, left })
  },
  *AnswerStored({ content, isExact, messageId }, own) {
    const more = agUiMessages.answerOf(messageId, content)
    // An answer without a text and a call is a message, too
    const isEmpty = !own.hasText && content.every(({ type }) => type !== "tool-call")
    if (isEmpty) yield { type: "TEXT_MESSAGE_START", messageId, role: "assistant" }
    if (isEmpty || own.hasText) yield { type: "TEXT_MESSAGE_END", messageId }
    const isOther = own.left.length > 0 && more.some(agUiMessages.isReasoning)
    const after = { ...own, hasText: false, left: isOther ? [] : own.left, messages: [...own.messages, ...more] }
    return isOther || !isExact || !agUiMessages.isOrdered(content) ? yield* replace(after) : after
  },
  // Results are stored in the order of the calls, and a page has them in the order in which they come
  *CallEnded({ event, place, turn }, own) {
    const { callId, name, path = [], result, succeeded } = event
    if (path.length > 0) {
      yield agUiMessages.activity(place, "result", { path, name, succeeded, ...defined({ result }) })
      return own
    }
    const { id: messageId, ...message } = agUiMessages.resultOf(callId, result)
    yield { type: "TOOL_CALL_RESULT", messageId, ...message }
    const behind = new Set<unknown>(turn.calls.slice(turn.calls.indexOf(callId) + 1))
    const later = own.messages.filter(({ toolCallId }) => behind.has(toolCallId))
    const earlier = own.messages.filter(({ toolCallId }) => !behind.has(toolCallId))
    const after = { ...own, messages: [...earlier, { id: messageId, ...message }, ...later] }
    return later.length > 0 ? yield* replace(after) : after
  },
  *HandedOff({ event: { agent, path = [] } }) {
    yield { type: "CUSTOM", name: "handoff", value: { agent, path } }
  },
  *WorkBegun({ place: stepName }) {
    yield { type: "STEP_STARTED", stepName }
  },
  *WorkEnded({ place: stepName }) {
    yield { type: "STEP_FINISHED", stepName }
  },
  *StepChanged({ event: { status: value }, place }, own) {
    const op = Object.hasOwn(own.steps, place) ? "replace" : "add"
    yield { type: "STATE_DELTA", delta: [{ op, path: formatPointer(["steps", place]), value }] }
    return { ...own, steps: { ...own.steps, [place]: value } }
  },
  *Inside({ event }) {
    if (event._tag === "Answered")
      yield agUiMessages.activity(event.messageId, "answer", { path: event.path, content: event.content })
  },
  *TurnEnded({ asked, failure, outcome, output, refusal, turn }, { runId, threadId }) {
    const usage = usageOf(turn)
    const interrupts = asked.map(interruptOf)
    const run = { type: "RUN_FINISHED", threadId, runId, usage, ...(output === null ? undefined : { result: output }) }
    if (failure !== undefined) yield { type: "RUN_ERROR", message: failure.message, code: failure.category, usage }
    else if (outcome === "Interrupted") yield { ...run, outcome: { type: "cancelled" } }
    else if (outcome === "AwaitingApproval") yield { ...run, outcome: { type: "interrupt", interrupts } }
    else if (outcome === "Completed") yield { ...run, outcome: { type: "success" } }
    else if (refusal !== undefined) yield { type: "RUN_ERROR", message: refusal.reason, code: outcome, usage }
    else if (outcome === "BudgetExceeded")
      yield { type: "RUN_ERROR", message: "The budget of this conversation is used up.", code: outcome, usage }
    else yield { type: "RUN_ERROR", message: "The answer is not complete.", code: outcome, usage }
  }
})
