/**
 * The edit of a message: the conversation is cut before it, and the next message takes its place. Messages after it that wait
 * for their turns are given up. A turn that is under way is stopped first.
 */

import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as runTransition from "../../agent/internal/runTransition.ts"
import * as Message from "../../conversation/Message.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import type { NonEmptyContent } from "../../tool/ToolResult.ts"
import type { Event, Failure, Memory, Queued } from "./sessionEvents.ts"
import * as sessionEvents from "./sessionEvents.ts"
import * as sessionInbox from "./sessionInbox.ts"
import * as sessionMessage from "./sessionMessage.ts"
import type { Turns } from "./sessionTurn.ts"
import * as sessionTypes from "./sessionTypes.ts"
import type { EditOptions, Receipt, SessionError } from "./sessionTypes.ts"

/** An edit whose new message has an id. */
interface Edit extends EditOptions {
  readonly newMessageId: string
}

const edited: Failure = {
  reason: "MessageEdited",
  category: "conflict",
  message: "the message, or one before it, was edited before its turn began"
}

/**
 * The message with an id. `dropped`: the messages that wait and go with it. `isTaken`: a turn has taken it, so the run removes it.
 */
interface Found {
  readonly input: NonEmptyContent
  readonly dropped: ReadonlyArray<Queued>
  readonly isTaken: boolean
}

const find = (memory: Memory, messageId: string): Found | undefined => {
  const waiting = Chunk.toReadonlyArray(sessionEvents.waitingMessages(memory))
  const index = waiting.findLastIndex((message) => message.messageId === messageId)
  const queued = waiting[index]
  if (queued !== undefined) return { input: queued.input, dropped: waiting.slice(index), isTaken: false }
  const message = memory.run && runTransition.userMessage(memory.run, messageId)
  return message && { input: message.content, dropped: waiting, isTaken: true }
}

/** The events that remove a message and what came after it. */
const removing = ({ dropped, isTaken }: Found, messageId: string, at: DateTime.Utc): ReadonlyArray<Event> => [
  ...dropped.map(({ messageId }): Event => ({ _tag: "MessageDropped", at, messageId, error: edited })),
  ...(isTaken ? [{ _tag: "RunEvent" as const, event: { _tag: "ConversationRewound" as const, at, messageId } }] : [])
]

/** The receipt of an edit that was made before, otherwise the message to edit. */
const look = Effect.fnUntraced(function* (self: Turns, edit: Edit) {
  const { input, messageId, model, newMessageId } = edit
  const { own } = self
  const refused = sessionTypes.refusedByLayer(self.id)
  yield* own.refresh
  const memory = yield* own.memory
  const known = sessionInbox.knownMessage(memory, newMessageId, "")
  if (known !== undefined) {
    const read = sessionMessage.read(newMessageId, input ?? "", edit)
    const digest = input === undefined ? known.digest : (yield* Effect.mapError(read, refused)).digest
    return digest === known.digest
      ? { _tag: "Made" as const, receipt: yield* sessionInbox.again(self, memory, known) }
      : yield* own.fail({ _tag: "InputDiffers", messageId: newMessageId })
  }
  const found = find(memory, messageId)
  if (found === undefined) return yield* own.fail({ _tag: "MessageUnknown", messageId })
  const message = yield* Effect.mapError(sessionMessage.read(newMessageId, input ?? found.input, edit), refused)
  const agent = yield* sessionInbox.agentFor(self, memory)
  const context = yield* sessionInbox.contextFor(self, edit.context)
  yield* sessionInbox.checkModel(self, agent, model, context)
  const { content, digest } = message
  const received = {
    agent: agent.name,
    messageId: newMessageId,
    input: content,
    digest,
    ...defined({ context, model })
  }
  return { _tag: "Found" as const, found, received }
})

/** With the gate. `undefined` if a turn has begun meanwhile. */
const store = Effect.fnUntraced(function* (
  self: Turns,
  edit: Edit
): Effect.fn.Return<Receipt | undefined, SessionError> {
  const { own } = self
  if (self.current !== undefined) return undefined
  const looked = yield* look(self, edit)
  if (looked._tag === "Made") return looked.receipt
  const at = yield* DateTime.now
  const event: Event = { _tag: "MessageReceived", at, ...looked.received }
  const removed = removing(looked.found, edit.messageId, at)
  const [first = event, ...others] = [...removed, event]
  yield* sessionInbox.receiveBy(self, event, Effect.as(own.write([first, ...others]), true))
  return sessionInbox.receiptOf(self, edit.newMessageId, own.stored?.memory.sequence ?? 0)
})

/** Stops the turn that is under way, and stores the edit. */
const replace = (self: Turns, edit: Edit): Effect.Effect<Receipt, SessionError> =>
  Effect.suspend(() => {
    const { current, own } = self
    const stopped = current === undefined ? Effect.void : sessionInbox.interruptTurn(self, current)
    return Effect.flatMap(Effect.andThen(stopped, own.alone(store(self, edit))), (receipt) =>
      receipt === undefined ? replace(self, edit) : Effect.succeed(receipt)
    )
  })

export const edit = Effect.fnUntraced(function* (
  self: Turns,
  options: EditOptions
): Effect.fn.Return<Receipt, SessionError> {
  const { messageId, newMessageId = yield* yield* Message.MessageId } = options
  const { own } = self
  if (newMessageId === messageId) {
    return yield* own.fail({ _tag: "InputInvalid", problem: "expected another id as newMessageId than messageId" })
  }
  const edit = { ...options, newMessageId }
  // Nothing is stopped for a message that is not there
  const looked = yield* own.alone(look(self, edit))
  return looked._tag === "Made" ? looked.receipt : yield* sessionInbox.paused(self, replace(self, edit))
})
