/**
 * Sessions of a server (`SessionHttp.layerServer`) for a page without a build step: this file alone, with `fetch`.
 *
 *     import { connect } from "/sessions.js"
 *
 *     const chat = connect({ url: "/sessions", token: () => localStorage.getItem("token") })
 *     await chat.command("send", "ada/1", { input: "Hello" })
 *     for await (const { event } of chat.events("ada/1")) console.log(event._tag)
 *
 * The types are in `sessions.d.ts`.
 */

/** A request that was refused: `status` and `category` are its class, `message` is for the user, `error` has details. */
export class SessionsError extends Error {
  constructor(status, { category = "unavailable", message = "The server is not available.", error } = {}) {
    super(message)
    Object.assign(this, { name: "SessionsError", status, category, error })
  }
}

const refused = async (response) => new SessionsError(response.status, await response.json().catch(() => undefined))

/** The status for an end of a stream, by its class. A token that has ended is replaced by the next one: that passes. */
const statuses = {
  unauthorized: 503,
  unavailable: 503,
  internal: 500,
  busy: 429,
  conflict: 409,
  timeout: 408,
  "not-found": 404,
  forbidden: 403
}

/** What may be better in a moment: no connection, a busy server, one that is replaced. */
const isPassing = (error) =>
  !(error instanceof SessionsError) || error.status >= 500 || error.status === 429 || error.status === 408

/** Waits for a time, or until the browser is online again. */
const pause = (millis, signal) =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      globalThis.removeEventListener?.("online", end)
      signal.removeEventListener("abort", end)
      resolve()
    }
    const timer = setTimeout(end, millis)
    globalThis.addEventListener?.("online", end)
    signal.addEventListener("abort", end)
  })

/** The events of a response: `{ id, event, data }`, and nothing for a comment. `alive` is called for each piece. */
async function* eventsIn(response, alive) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    alive()
    const blocks = (text + value).split("\n\n")
    text = blocks.pop()
    for (const block of blocks) {
      const event = { data: "" }
      for (const line of block.split("\n")) {
        const [, name, rest] = /^(\w+): ?(.*)$/.exec(line) ?? []
        if (name === "data") event.data += (event.data && "\n") + rest
        else if (name) event[name] = rest
      }
      if (event.data) yield event
    }
  }
}

/**
 * The structured output that a model is writing, after one more event of a session: `{ value }`, or nothing where none is shown.
 *
 *     output = partialOutput(output, event)
 */
export const partialOutput = (before, { _tag, delta, messageId, offset, output, path }) => {
  if (path) return before
  if (_tag === "OutputDelta") {
    const { length, ...known } = before?.messageId === messageId ? before : { length: 0 }
    let { value } = known
    if (offset > length) return before
    const set = (value, [key, ...rest], change) => {
      if (key === undefined) return change(value)
      const copy = typeof key === "number" ? [...(value ?? [])] : { ...value }
      copy[key] = set(copy[key], rest, change)
      return copy
    }
    const fresh = delta.slice(length - offset)
    for (const line of fresh.split("\n")) {
      if (!line) continue
      const [at, part, grows] = JSON.parse(line)
      value = set(value, at, (text) => (grows ? (text ?? "") + part : part))
    }
    return { messageId, length: length + fresh.length, value }
  }
  if (_tag === "TurnFinished") return output === undefined ? undefined : { length: 0, value: output }
  const ends = ["AnswerDiscarded", "MessageTaken", "TurnFailed", "ConversationRewound"]
  return ends.includes(_tag) || (_tag === "AnswerWithdrawn" && messageId === before?.messageId) ? undefined : before
}

export const connect = ({ url = "/sessions", token, silence = 45_000, retry = [500, 10_000] } = {}) => {
  const request = async (path, query, init = {}) => {
    const sent = new URLSearchParams(
      Object.entries(query ?? {}).filter(([, value]) => (value ?? undefined) !== undefined)
    )
    const bearer = typeof token === "function" ? await token() : token
    const headers = { ...init.headers, ...(bearer && { authorization: `Bearer ${bearer}` }) }
    const response = await fetch(`${url}/${path}?${sent}`, { credentials: "same-origin", ...init, headers })
    if (!response.ok) throw await refused(response)
    return response
  }

  /** A stream that begins again after the last event, until it is left, its signal is aborted, or it is refused. */
  async function* stream(path, query, { after, signal, onStatus = () => {} } = {}) {
    const left = new AbortController()
    const all = AbortSignal.any(signal ? [left.signal, signal] : [left.signal])
    let last = after
    let failures = 0
    try {
      while (!all.aborted) {
        const cut = new AbortController()
        const begun = Date.now()
        let timer
        const alive = () => {
          clearTimeout(timer)
          timer = setTimeout(() => cut.abort(), silence)
        }
        try {
          alive()
          const response = await request(path, query, {
            headers: last ? { "last-event-id": last } : {},
            signal: AbortSignal.any([all, cut.signal])
          })
          onStatus("open")
          for await (const { data, event, id } of eventsIn(response, alive)) {
            const value = JSON.parse(data)
            if (event === "end") {
              throw new SessionsError(statuses[value.category] ?? 400, value)
            }
            failures = 0
            if (id) last = id
            yield value
          }
        } catch (error) {
          if (all.aborted) return
          if (!isPassing(error)) throw error
        } finally {
          clearTimeout(timer)
          cut.abort()
        }
        if (all.aborted) return
        onStatus("waiting")
        if (Date.now() - begun > retry[1]) failures = 0
        await pause(Math.min(retry[1], retry[0] * 2 ** failures++) * (0.5 + Math.random() / 2), all)
      }
    } finally {
      left.abort()
    }
  }

  return {
    /** A command: `send`, `edit`, `decide`, `interrupt` and the others, with their fields as `body`. */
    command: async (name, id, body = {}) =>
      (
        await request(
          name,
          { id },
          {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify(body)
          }
        )
      ).json(),
    /** A query: `chat/state`, `chat/history`, `list`. */
    query: async (name, query) => (await request(name, query)).json(),
    /** The events of a session for a front end, from `after` on, with those to come and what models are writing. */
    events: (id, { live, ...options } = {}) => stream("chat/events", { id, live }, options),
    /** A page of the list of sessions, and its changes. It begins again with a page after a lost connection. */
    listChanges: (query, options) => stream("listChanges", query, options),
    /** The bytes of a file whose address an event or a message has. */
    file: async (address) => {
      const query = Object.fromEntries(new URLSearchParams(address.slice(address.indexOf("?"))))
      return (await request("file", query)).blob()
    }
  }
}
