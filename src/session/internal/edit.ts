/**
 * The edit of a message. A message that only waits is replaced alone. Otherwise the conversation is cut before it, the
 * next message takes its place, messages that wait are given up, and a turn that is under way is stopped first.
 */

import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Run from "../../agent/Run.ts"
import * as Message from "../../conversation/Message.ts"
import * as Digest from "../../payload/Digest.ts"
import * as base from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import type { Entry, Event, Failure } from "./events.ts"
import type { SessionState, Queued } from "./fold.ts"
import * as fold from "./fold.ts"
import * as inbox from "./inbox.ts"
import * as incoming from "./incoming.ts"
import type { LiveSession } from "./turns.ts"
import * as types from "./types.ts"
import type { EditOptions, MessageReceipt, Reason, SessionError } from "./types.ts"
import * as writer from "./writer.ts"

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
 * The message with an id. `queued`: it waits, so it alone is replaced. Otherwise the run removes it with everything after it, and the
 * messages that wait go with it.
 */
type Found =
  | { readonly _tag: "Waiting"; readonly queued: Queued }
  | { readonly _tag: "Taken"; readonly queued: Queued; readonly dropped: ReadonlyArray<Queued> }

const find = (state: SessionState, messageId: string): Found | undefined => {
  const waiting = Chunk.toReadonlyArray(fold.waitingMessages(state))
  const queued = waiting.findLast((message) => message.messageId === messageId)
  if (queued !== undefined) return { _tag: "Waiting", queued }
  const message = state.run && runTransition.userMessage(state.run, messageId)
  return message && { _tag: "Taken", queued: fold.queuedOf(message), dropped: waiting }
}

/** The parts of a message that is answered again, from the event that has it; `undefined` where that may not be kept. */
const partsOf = Effect.fnUntraced(function* (
  self: LiveSession,
  messageId: string,
  found: Found
): Effect.fn.Return<Pick<EditOptions, "context" | "model"> | undefined, SessionError> {
  if (found._tag === "Waiting") return { context: found.queued.context, model: found.queued.model }
  const { host } = self
  const { stored } = self
  if (stored === undefined) return {}
  const { sessions } = host
  const first = sessions.firstKept(stored)
  const hint = stored.state.received.find((one) => one.messageId === messageId)?.sequence
  const elsewhere: Reason = { _tag: "Elsewhere", owner: stored.at.head.owner }
  const read = (from: number) =>
    Effect.mapError(sessions.entries(stored, from), (error) => self.fail(error._tag === "Conflict" ? elsewhere : error))
  const among = (entries: ReadonlyArray<Entry>) =>
    entries
      .map(({ event }) => event)
      .findLast((event) => event._tag === "MessageReceived" && event.messageId === messageId)
  let sent = hint !== undefined && hint >= first ? among((yield* read(hint)).slice(0, 1)) : undefined
  for (let from = first; sent === undefined && from <= stored.state.sequence;) {
    const entries = yield* read(from)
    sent = among(entries)
    from = (entries.at(-1)?.sequence ?? stored.state.sequence) + 1
  }
  if (sent?._tag === "MessageReceived") return { context: sent.context, model: sent.model }
  // A message of an imported conversation has neither
  return first === 1 ? {} : undefined
})

/** Covers an edit as it was asked for. */
const digestOf = (edit: Edit): Effect.Effect<string, Reason> =>
  Effect.flatMap(incoming.read(edit.newMessageId, edit.input ?? "again", edit), ({ digest }) =>
    Effect.orDie(Digest.sha256({ messageId: edit.messageId, digest, isAgain: edit.input === undefined }))
  )

/** The receipt of an edit that was made before, otherwise the message to edit. */
const look = Effect.fnUntraced(function* (self: LiveSession, edit: Edit) {
  const { messageId, newMessageId } = edit
  const { host } = self
  const refused = types.refusedByLayer(self.id)
  yield* writer.refresh(self)
  const state = yield* writer.stateOf(self)
  const editDigest = yield* Effect.mapError(digestOf(edit), refused)
  const known = inbox.knownMessage(state, newMessageId, "")
  if (known !== undefined) {
    return known.edit === editDigest
      ? { _tag: "Made" as const, receipt: yield* inbox.again(self, state, known) }
      : yield* self.fail({ _tag: "InputDiffers", messageId: newMessageId })
  }
  yield* inbox.ensureFreeId(self, state, newMessageId)
  const found = find(state, messageId)
  if (found === undefined) return yield* self.fail({ _tag: "MessageUnknown", messageId })
  const { definition, pending, steers } = found.queued
  const isFixed = host.run?.context !== undefined
  const parts = edit.input === undefined ? yield* partsOf(self, messageId, found) : {}
  if (parts === undefined && edit.context === undefined && !isFixed) {
    const problem =
      "expected a context, because the events with the context of the message are no longer kept. Pass a context"
    return yield* self.fail({ _tag: "InputInvalid", problem })
  }
  const {
    input = incoming.inputOf(found.queued),
    context: given = isFixed ? undefined : parts?.context,
    model = parts?.model
  } = edit
  const message = incoming.read(newMessageId, input, { context: given, model }, definition)
  const read = yield* Effect.mapError(message, refused)
  const agent = yield* inbox.agentFor(self, state)
  const context = yield* inbox.contextFor(self, given)
  yield* inbox.checkParts(self, agent, { ...read, ...defined({ context, model }) })
  const received = {
    agent: agent.name,
    messageId: newMessageId,
    ...read,
    edit: { messageId, digest: editDigest },
    ...defined({ context, definition, model, pending, steers })
  }
  return { _tag: "Found" as const, found, received }
})

/** The turn that takes a message which waits, or that a message of the conversation belongs to, is stopped. */
const isInTurn = ({ current }: LiveSession, found: Found): boolean =>
  current !== undefined && (found._tag === "Taken" || current.messages.has(found.queued.messageId))

/** With the gate. Returns the message as it is now if a turn of it has begun meanwhile. */
const store = Effect.fnUntraced(function* (
  self: LiveSession,
  edit: Edit
): Effect.fn.Return<MessageReceipt | Found, SessionError> {
  const looked = yield* look(self, edit)
  if (looked._tag === "Made") return looked.receipt
  const { found, received } = looked
  if (isInTurn(self, found)) return found
  const at = yield* DateTime.now
  const { messageId } = edit
  const event: Event = { _tag: "MessageReceived", at, ...received }
  const drop = (messageId: string): Event => ({ _tag: "MessageDropped", at, messageId, error: edited })
  const rewound = { _tag: "ConversationRewound" as const, at, messageId }
  // The new message takes the place of the message that waits
  const [first, ...others]: Arr.NonEmptyReadonlyArray<Event> =
    found._tag === "Waiting"
      ? [event, drop(messageId)]
      : Arr.append([...found.dropped.map((one) => drop(one.messageId)), { _tag: "RunEvent", event: rewound }], event)
  yield* inbox.receiveBy(self, event, Effect.as(writer.write(self, [first, ...others]), true))
  if (found._tag === "Taken") yield* tellHost(self, rewound)
  const sequence = self.stored?.state.received.find((one) => one.messageId === edit.newMessageId)?.sequence
  return inbox.receiptOf(self, edit.newMessageId, sequence ?? 0)
})

/** The hook of the host receives the event before the events of the next turn. */
const tellHost = (self: LiveSession, event: Run.Event): Effect.Effect<void> => {
  const { host, id } = self
  const { onEvent } = host.run ?? {}
  const run = self.stored?.state.run
  if (onEvent === undefined || run === undefined) return Effect.void
  return Effect.catchCause(onEvent({ event, sequence: run.revision, state: run, more: false }, id), (cause) =>
    telemetry.logUnexpected(`session ${base.quote(id)}: a hook failed after an edit was stored`, cause)
  )
}

/** Stops the turn of the message, and stores the edit. */
const replace = (self: LiveSession, edit: Edit, found: Found): Effect.Effect<MessageReceipt, SessionError> =>
  Effect.suspend(() => {
    const { current } = self
    const stopped = current !== undefined && isInTurn(self, found) ? inbox.interruptTurn(self, current) : Effect.void
    return Effect.flatMap(Effect.andThen(stopped, writer.alone(self, store(self, edit))), (stored) =>
      "_tag" in stored ? replace(self, edit, stored) : Effect.succeed(stored)
    )
  })

export const edit = Effect.fnUntraced(function* (
  self: LiveSession,
  options: EditOptions
): Effect.fn.Return<MessageReceipt, SessionError> {
  const { messageId, newMessageId = yield* yield* Message.MessageId } = options
  if (newMessageId === messageId) {
    return yield* self.fail({ _tag: "InputInvalid", problem: "expected another id as newMessageId than messageId" })
  }
  const edit = { ...options, newMessageId }
  // Nothing is stopped for a message that is not there
  const looked = yield* writer.alone(self, look(self, edit))
  return looked._tag === "Made" ? looked.receipt : yield* inbox.paused(self, replace(self, edit, looked.found))
})
