/** Handoffs: the agent that has the conversation of a run, and the part of the conversation that the model of this agent sees. */

import type * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import type { Handoff, HandoffTerms } from "./runValues.ts"

/** The part of the state of a run that handoffs change. `agent` began the run. */
interface Conversing {
  readonly agent: string
  readonly handoffs?: ReadonlyArray<Handoff> | undefined
}

/** The handoff that an answer has asked for, and that is not made yet. */
export const openHandoff = ({ handoffs = [] }: Pick<Conversing, "handoffs">): Handoff | undefined =>
  handoffs.findLast(({ message }) => message === undefined)

/** The handoffs that are made, oldest first. */
export const madeHandoffs = ({ handoffs = [] }: Pick<Conversing, "handoffs">): ReadonlyArray<Handoff> =>
  handoffs.filter(({ message }) => message !== undefined)

/** The name of the agent that has the conversation of a run: the agent of the run, or the agent of the newest handoff. */
export const activeAgent = (self: Conversing): string => madeHandoffs(self).at(-1)?.agent ?? self.agent

/** A message without calls and their results; nothing where that is all of it. */
const withoutCalls = (message: Message.Message): ReadonlyArray<Message.Message> => {
  if (message.role !== "assistant") return message.role === "tool" ? [] : [message]
  const content = message.content.filter(({ type }) => type === "text" || type === "file")
  return content.length === 0 ? [] : [history.freeze({ ...message, content })]
}

/**
 * The messages that an agent sees of the messages that the agent before it saw: its own instructions in front, and no instructions of
 * others. The newest answer keeps its calls, because the reason of the handoff is one of them.
 */
const passedOn = (
  all: ReadonlyArray<Message.Message>,
  { toolCalls, turns }: HandoffTerms,
  instructions: Message.SystemMessage
): ReadonlyArray<Message.Message> => {
  const users = all.flatMap(({ role }, index) => (role === "user" ? [index] : []))
  const from = turns === undefined ? 0 : (users.at(-turns) ?? 0)
  const newest = all.findLastIndex(({ role }) => role === "assistant")
  const kept = all.flatMap((message, index) => {
    if (message.role === "system" || index < from) return []
    return toolCalls === false && index < newest ? withoutCalls(message) : [message]
  })
  return [history.inFront(instructions), ...kept]
}

/** The view of a conversation after a handoff. */
export const viewAfter = (
  view: history.Conversation,
  terms: HandoffTerms,
  instructions: Message.SystemMessage
): history.Conversation =>
  history.rebuild(passedOn(history.messages(view), terms, instructions), history.asHistory(view).tokenLimit)

/** The view of a conversation after handoffs, from the beginning; `undefined` without handoffs. */
export const viewOf = (
  conversation: history.Conversation,
  handoffs: ReadonlyArray<Handoff>
): history.Conversation | undefined => {
  if (handoffs.length === 0) return undefined
  const terms = new Map(handoffs.map((handoff) => [handoff.message, handoff]))
  let view: Array<Message.Message> = []
  for (const message of history.messages(conversation)) {
    const handoff = message.role === "system" ? terms.get(message.id) : undefined
    if (message.role === "system" && handoff !== undefined) view = [...passedOn(view, handoff, message)]
    else view.push(message)
  }
  return history.rebuild(view, history.asHistory(conversation).tokenLimit)
}
