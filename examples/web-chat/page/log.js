/**
 * The chat that follows from its events. It is the same for every reader of the same events: a page that was reloaded, one that was away,
 * a second tab. Nothing here knows of a page.
 */

export const emptyLog = () => ({
  /** What is in the conversation, in its order: `message`, `answer`, `batch`, `ended` and `failed`. */
  items: [],
  /** Messages that are stored and not yet read by the model. */
  waiting: [],
  /** The newest call of each id. */
  calls: new Map(),
  /** `rests`, `works`, `writes` or `asks`. */
  /** The item that the newest event was about. */
  newest: undefined,
  status: "rests",
  sequence: 0
})

/** Adds an item after the one that the newest event was about, which is the last one, unless the messages came from the history. */
const add = (log, item, after = log.items.at(-1)) => {
  log.items.splice(log.items.indexOf(after) + 1, 0, item)
  log.newest = item
  return item
}

const drop = (list, isGone) => {
  for (let at = list.length - 1; at >= 0; at--) if (isGone(list[at])) list.splice(at, 1)
}

const dropBatch = (log) => drop(log.items, ({ kind }) => kind === "batch")

/** The question about all requests of the end of a turn that yes or no decides, above the first of them. */
export const addBatch = (log, { batch, requests = [] }) => {
  dropBatch(log)
  if (batch === undefined) return
  const asked = requests.filter(({ _tag }) => _tag === "Approval" || _tag === "Pause")
  const owners = asked.map(({ callId }) => log.items.indexOf(log.calls.get(callId)?.owner)).filter((at) => at >= 0)
  const at = Math.min(log.items.length, ...owners)
  log.items.splice(at, 0, { kind: "batch", id: batch.id, digest: batch.digest, requests: asked, version: 0 })
}

const dropDrafts = (log) => drop(log.items, ({ isDraft }) => isDraft)

const touch = (log, callId, change) => {
  const call = log.calls.get(callId)
  if (call === undefined) return
  Object.assign(call, change)
  call.owner.version++
  log.newest = call.owner
}

const partsOf = (log, item, content) => {
  item.parts = content.map((part) => {
    if (part.type === "tool-call") {
      const { id, name, arguments: args } = part
      const call = { type: "call", id, name, args, state: "waits", owner: item }
      log.calls.set(id, call)
      return call
    }
    if (part.type === "tool-result") {
      const call = log.calls.get(part.callId)
      if (call !== undefined) Object.assign(call, { state: "done", result: part.result })
      return undefined
    }
    return part
  })
}

/**
 * The messages of the history, for a chat whose first events are elsewhere: in another chat, or no longer kept. Events that come after it are
 * about messages that are there already, or about messages that an edit has removed since.
 */
export const applyHistory = (log, messages) => {
  for (const message of messages) {
    const { content, id, role } = message
    if (role === "user") add(log, { kind: "message", id, content, at: message.at, version: 0 })
    if (role === "assistant") answered(log, { messageId: id, content, at: message.at })
    if (role === "tool")
      touch(log, message.callId, { state: message.succeeded ? "done" : "failed", result: message.result })
  }
}

const answered = (log, { at, content, finishReason, messageId: id }) => {
  const there = log.items.find((item) => item.kind === "answer" && item.id === id)
  const item = there ?? add(log, { kind: "answer", id, version: 0 })
  Object.assign(item, { isDraft: false, at, finishReason, version: item.version + 1 })
  log.newest = item
  partsOf(log, item, content)
}

const isOwn = ({ path }) => path === undefined

const isBroken = (result) => result?._tag === "Failure"

/** Takes an event into the log. */
export const apply = (log, { cursor, event, sequence }) => {
  log.sequence = sequence
  switch (event._tag) {
    case "MessageReceived": {
      const { at, content, messageId: id } = event
      const there = log.items.find((item) => item.id === id)
      if (there !== undefined) {
        log.newest = there
        return
      }
      drop(log.waiting, (item) => item.id === id)
      log.waiting.push({ kind: "message", id, content, at, version: 0 })
      return
    }
    case "MessageTaken": {
      const item = log.waiting.find(({ id }) => id === event.messageId)
      if (item === undefined) return
      drop(log.waiting, ({ id }) => id === event.messageId)
      add(log, item)
      return
    }
    case "TurnStarted":
      dropBatch(log)
      log.status = "works"
      return
    case "AnswerStarted":
      if (isOwn(event)) log.status = "works"
      return
    case "AnswerDelta": {
      if (!isOwn(event)) return
      const { delta, messageId: id, offset, part, type } = event
      const item =
        log.items.find((item) => item.id === id) ??
        add(log, { kind: "answer", id, isDraft: true, parts: [], version: 0 })
      if (!item.isDraft) return
      const there = item.parts[part] ?? { type, text: "" }
      item.parts[part] = { type, text: there.text.slice(0, offset) + delta }
      item.version++
      log.status = "writes"
      return
    }
    case "AnswerWithdrawn":
      drop(log.items, ({ id, isDraft }) => isDraft && id === event.messageId)
      return
    case "AnswerDiscarded":
      if (isOwn(event)) dropDrafts(log)
      return
    case "Answered":
      if (!isOwn(event)) return
      answered(log, event)
      log.status = "works"
      break
    case "Requested": {
      const { request } = event
      log.status = "asks"
      if (log.calls.has(request.callId) && isOwn(request)) touch(log, request.callId, { state: "asks", request })
      else {
        // The request of an agent inside, whose answers are not shown
        const item = add(log, { kind: "answer", id: `${request.callId} ${request.digest}`, parts: [], version: 0 })
        const { arguments: args, callId: id, name } = request
        const call = { type: "call", id, name, args, state: "asks", request, owner: item }
        item.parts.push(call)
        log.calls.set(id, call)
      }
      break
    }
    case "Decided":
      touch(log, event.callId, { state: event.approved ? "works" : "denied", request: undefined, decision: event })
      break
    case "DecisionsDropped":
      for (const { callId } of event.calls) touch(log, callId, { state: "asks", problem: event.message })
      break
    case "ToolStarted":
      touch(log, event.callId, { state: "works", request: undefined })
      break
    case "ToolFinished": {
      const { callId, result, succeeded } = event
      const isDenied = log.calls.get(callId)?.state === "denied"
      touch(log, callId, {
        state: isDenied ? "denied" : succeeded && !isBroken(result) ? "done" : "failed",
        request: undefined,
        result
      })
      break
    }
    case "TurnFinished":
      dropDrafts(log)
      log.status = event.outcome === "AwaitingApproval" ? "asks" : "rests"
      addBatch(log, event)
      if (event.outcome !== "Completed" && event.outcome !== "AwaitingApproval") {
        add(
          log,
          {
            kind: "ended",
            id: cursor,
            outcome: event.outcome,
            reason: event.refusal?.reason,
            at: event.at,
            version: 0
          },
          log.newest
        )
      }
      break
    case "TurnFailed":
      dropDrafts(log)
      log.status = "rests"
      add(
        log,
        { kind: "failed", id: cursor, message: event.message, isHeld: event.isHeld, at: event.at, version: 0 },
        log.newest
      )
      break
    case "MessageDropped":
      drop(log.waiting, ({ id }) => id === event.messageId)
      break
    case "ConversationRewound": {
      const at = log.items.findIndex(({ id }) => id === event.messageId)
      if (at >= 0) log.items.splice(at)
      drop(log.waiting, ({ id }) => id === event.messageId)
      break
    }
  }
  // A fork of the chat at an answer has the whole step of it, with the results of its calls
  if (log.newest?.kind === "answer") log.newest.cursor = cursor
}
