/**
 * Pages of front ends in a world: a page of the AI SDK and a page of AG-UI, which send a message, follow its turn over connections that are cut,
 * and answer its requests. All that a page asked and got is in its record, from which the published clients can build the same page.
 */
import { isDeepStrictEqual } from "node:util"
import { Effect, Fiber, Random, Schema, Stream } from "effect"
import { HttpBody, type HttpClient, HttpClientRequest } from "effect/http"
import { ToolResult } from "effect-emissary"
import { SessionHttp } from "effect-emissary/http"
import { type Diary, nap, textFor } from "./clients.ts"
import * as screens from "./screens.ts"

/** A request of a page, and its response. Without a `status` there was none. `isWhole`: the response was not cut. */
export interface Exchange {
  /** `again` and `resume` continue where a connection was cut, `load` reads what is stored. */
  readonly action: "send" | "again" | "resume" | "decide" | "load"
  readonly method: "GET" | "POST"
  readonly path: string
  readonly body: Schema.Json | undefined
  status: number | undefined
  text: string
  isWhole: boolean
}

/** Asks a server of the world. */
const ask = Effect.fnUntraced(function* (
  http: HttpClient.HttpClient,
  record: Array<Exchange>,
  asked: Pick<Exchange, "action" | "method" | "path"> & { readonly body?: Schema.Json },
  onStatus: Effect.Effect<unknown> = Effect.void
) {
  const { action, body, method, path } = asked
  const exchange: Exchange = { action, method, path, body, status: undefined, text: "", isWhole: false }
  record.push(exchange)
  const url = `http://world/sessions/${path}`
  const headers = { authorization: "Bearer page" }
  const request =
    method === "GET"
      ? HttpClientRequest.get(url, { headers })
      : HttpClientRequest.post(url, { headers, body: HttpBody.jsonUnsafe(body) })
  yield* Effect.gen(function* () {
    const response = yield* http.execute(request)
    exchange.status = response.status
    yield* onStatus
    yield* Stream.runForEach(Stream.decodeText(response.stream), (text) =>
      Effect.sync(() => {
        exchange.text += text
      })
    )
    exchange.isWhole = true
  }).pipe(Effect.scoped, Effect.ignore)
  return exchange
})

const decodeHistory = Schema.decodeUnknownEffect(SessionHttp.ChatHistory)

const messagesOf = ({ messages }: typeof SessionHttp.ChatHistory.Type): ReadonlyArray<Schema.Json> =>
  messages.flatMap((message): ReadonlyArray<Schema.Json> => {
    if (message.role === "user") {
      const [first] = message.content
      return [{ id: message.id, role: "user", content: first.type === "text" ? first.text : "" }]
    }
    if (message.role === "tool") {
      const content = message.result === undefined ? "" : ToolResult.text(message.result)
      return [{ role: "tool", toolCallId: message.callId, content }]
    }
    const { content, id } = message
    const calls = content.flatMap((part) =>
      part.type === "tool-call" ? [{ id: part.id, name: part.name, arguments: part.arguments }] : []
    )
    return [
      ...content.flatMap((part) => (part.type === "reasoning" ? [{ role: "reasoning", content: part.text }] : [])),
      { id, role: "assistant", content: content.map((part) => (part.type === "text" ? part.text : "")).join(""), calls }
    ]
  })

/** The stored messages with the members that AG-UI has, too. */
export const storedOf = (http: HttpClient.HttpClient, session: string) =>
  http
    .get(`http://world/sessions/chat/history?id=${encodeURIComponent(session)}`, {
      headers: { authorization: "Bearer page" }
    })
    .pipe(
      Effect.flatMap((response) => Effect.flatMap(response.json, decodeHistory)),
      Effect.map(messagesOf)
    )

/** A message of a user. */
export interface Sent {
  readonly id: string
  readonly text: string
}

/** The requests that a message shows, each with the id under which it is answered. */
export interface Asked {
  readonly id: string
  readonly input: unknown
}

export interface Answer {
  readonly id: string
  readonly approved: boolean
  readonly reason?: string
}

const messagesIn = ({ text }: Exchange) => screens.listOf(JSON.parse(text))

/** A page of the AI SDK about a session. `messages`: what it shows. */
export const uiPage = (http: HttpClient.HttpClient, session: string, messages: ReadonlyArray<screens.Shown> = []) => {
  const record: Array<Exchange> = []
  let shown: ReadonlyArray<screens.Shown> = messages
  const problems: Array<string> = []
  const place = (message: screens.Shown) => {
    const at = shown.findIndex(({ id }) => id === message.id)
    shown = at < 0 ? [...shown, message] : shown.with(at, message)
  }
  const show = ({ status, text }: Exchange, before?: screens.Shown) => {
    if (status !== 200) return undefined
    let screen = screens.uiScreen(before)
    const end = () => {
      if (screen.message.id !== "") place(screen.message)
      problems.push(...screen.problems)
    }
    for (const chunk of screens.valuesIn(text)) {
      const { messageId, type } = chunk
      // The next message of the session follows in the same stream: with its start, or with its failure where that came before all else
      const isNext = type === "start" ? messageId !== screen.message.id : type === "error" || type === "abort"
      if (screen.end !== undefined && isNext) {
        end()
        screen = screens.uiScreen()
      }
      screens.showChunk(screen, chunk)
    }
    end()
    return screen
  }
  /** Reads what is stored, as a page does that is loaded again. */
  const load = Effect.gen(function* () {
    while (true) {
      const exchange = yield* ask(http, record, {
        action: "load",
        method: "GET",
        path: `chat/ui?id=${encodeURIComponent(session)}`
      })
      if (exchange.isWhole && exchange.status === 200) {
        // Sound: the route answers with messages of this shape, which the published client checks
        shown = messagesIn(exchange) as unknown as ReadonlyArray<screens.Shown>
        return
      }
      yield* nap(5, 60)
    }
  })
  /** Continues the message that is under way, and reads what is stored where there is none. */
  const resume = Effect.gen(function* () {
    while (true) {
      const path = `chat/ui/${encodeURIComponent(session)}/stream`
      const exchange = yield* ask(http, record, { action: "resume", method: "GET", path })
      if (exchange.status === 204) return yield* load
      const screen = show(exchange)
      if (exchange.isWhole && screen !== undefined) return
      yield* nap(5, 60)
    }
  })
  const send = Effect.fnUntraced(function* ({ id, text }: Sent) {
    const message: screens.Shown = { id, role: "user", parts: [{ type: "text", text }] }
    while (true) {
      if (!shown.some((one) => one.id === id)) shown = [...shown, message]
      const body = {
        id: session,
        trigger: "submit-message",
        messages: [{ id, role: "user", parts: [{ type: "text", text }] }]
      }
      const exchange = yield* ask(http, record, { action: "send", method: "POST", path: "chat/ui", body })
      const screen = show(exchange)
      if (exchange.isWhole && screen !== undefined) return
      yield* nap(5, 60)
      yield* resume
      if (shown.some((one) => one.id === id)) return
    }
  })
  const asked = (): ReadonlyArray<Asked> =>
    (shown.at(-1)?.parts ?? []).flatMap((part) =>
      part["state"] === "approval-requested"
        ? [{ id: String(screens.dataOf(part["approval"])["id"]), input: part["input"] }]
        : []
    )
  /** Answers the requests of the last message. */
  const decide = Effect.fnUntraced(function* (answers: ReadonlyArray<Answer>, onStatus: Effect.Effect<unknown>) {
    const last = shown.at(-1)
    if (last === undefined) return
    const parts = last.parts.map((part) => {
      const answer = answers.find(({ id }) => id === screens.dataOf(part["approval"])["id"])
      return answer === undefined ? part : { ...part, state: "approval-responded", approval: { ...answer } }
    })
    const reply = { ...last, role: "assistant", parts }
    place(reply)
    const json: Schema.Json = JSON.parse(JSON.stringify(reply))
    const body = { id: session, trigger: "submit-message", messageId: last.id, messages: [json] }
    while (true) {
      const exchange = yield* ask(http, record, { action: "decide", method: "POST", path: "chat/ui", body }, onStatus)
      if (exchange.status === 409) return yield* resume
      const screen = show(exchange, reply)
      if (exchange.isWhole && screen !== undefined) return
      yield* nap(5, 60)
      if (exchange.status === 200) return yield* resume
    }
  })
  return { record, problems, shown: () => shown, load, resume, send, asked, decide }
}

/** A page of AG-UI about a session. */
export const agPage = (http: HttpClient.HttpClient, session: string, { id, text }: Sent) => {
  const record: Array<Exchange> = []
  const problems: Array<string> = []
  const user = { id, role: "user", content: text }
  let screen = screens.agScreen([user])
  let runs = 0
  const post = Effect.fnUntraced(function* (
    action: Exchange["action"],
    more: { readonly resume?: Schema.Json },
    onStatus?: Effect.Effect<unknown>
  ) {
    const runId = `run-${++runs}`
    const messages: Schema.Json = JSON.parse(JSON.stringify(screen.messages))
    const body = { threadId: session, runId, messages, tools: [], context: [], state: {}, forwardedProps: {} }
    const asked = { action, method: "POST", path: "chat/agui", body: { ...body, ...more } } as const
    const exchange = yield* ask(http, record, asked, onStatus)
    if (exchange.status !== 200) return exchange
    screen = { ...screens.agScreen(screen.messages), steps: screen.steps }
    for (const event of screens.valuesIn(exchange.text)) screens.showEvent(screen, event)
    problems.push(...screen.problems)
    return exchange
  })
  const isOver = ({ isWhole, status }: Exchange) => isWhole && status === 200 && screen.run.startsWith("RUN_")
  /** Runs the message, and again where the connection was cut. */
  const run = Effect.fnUntraced(function* (action: Exchange["action"]) {
    let exchange = yield* post(action, {})
    while (!isOver(exchange)) {
      yield* nap(5, 60)
      exchange = yield* post("again", {})
    }
  })
  const decide = Effect.fnUntraced(function* (answers: ReadonlyArray<Answer>, onStatus: Effect.Effect<unknown>) {
    const resume = answers.map(({ approved, id, reason }) => ({
      interruptId: id,
      status: "resolved",
      payload: { approved, ...(reason !== undefined && { reason }) }
    }))
    while (true) {
      const exchange = yield* post("decide", { resume }, onStatus)
      if (isOver(exchange)) return
      yield* nap(5, 60)
      if (exchange.status === 200 || exchange.status === 409) return yield* run("again")
    }
  })
  const asked = (): ReadonlyArray<Asked> =>
    screen.interrupts.map(({ id, message }) => ({ id: String(id), input: message }))
  return { record, problems, screen: () => screen, run, decide, asked }
}

/** Writes into the diary that a page sends a message. */
const noteSent = (diary: Diary, session: string, { id: message, text }: Sent) => {
  diary.operations.push({ kind: "send", session, message, text, began: diary.ticks++ })
}

const decodeId = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Array(Schema.String)))

/** The answers to requests, which are in the diary. */
const answersTo = Effect.fnUntraced(function* (diary: Diary, session: string, asked: ReadonlyArray<Asked>) {
  const answers = yield* Effect.forEach(asked, ({ id }) =>
    Effect.map(Random.next, (drawn): Answer => ({ id, approved: drawn < 0.75 }))
  )
  const decisions = answers.map(({ approved, id }) => {
    const [digest = "", ...place] = decodeId(id)
    return { callId: place.at(-1) ?? "", digest, approved }
  })
  diary.operations.push({ kind: "decide", session, decisions, began: diary.ticks++ })
  return answers
})

const messages = 3

/** A user with a page of the AI SDK, who sends messages and answers requests. */
const useUi = Effect.fnUntraced(function* (page: ReturnType<typeof uiPage>, diary: Diary, session: string) {
  for (let n = 1; n <= messages; n++) {
    const id = `${session}/${n}`
    yield* nap(0, 600)
    const sent = { id, text: yield* textFor(diary, id) }
    noteSent(diary, session, sent)
    yield* page.send(sent)
    while (page.asked().length > 0) yield* page.decide(yield* answersTo(diary, session, page.asked()), Effect.void)
  }
})

/** A user with a page of AG-UI for each message. */
const useAg = Effect.fnUntraced(function* (http: HttpClient.HttpClient, diary: Diary, session: string) {
  const shown: Array<ReturnType<typeof agPage>> = []
  for (let n = 1; n <= messages; n++) {
    const id = `${session}/${n}`
    yield* nap(0, 600)
    const sent = { id, text: yield* textFor(diary, id) }
    const page = agPage(http, session, sent)
    shown.push(page)
    noteSent(diary, session, sent)
    yield* page.run("send")
    while (page.asked().length > 0) yield* page.decide(yield* answersTo(diary, session, page.asked()), Effect.void)
  }
  return shown
})

const plainAg = ({ content, id, role, toolCallId, toolCalls = [] }: screens.AgMessage): ReadonlyArray<unknown> => {
  if (role === "tool") return [{ role, toolCallId, content }]
  if (role === "user") return [{ id, role, content }]
  const calls = toolCalls.map(({ function: { arguments: text, name }, id }) => ({
    id,
    name,
    arguments: JSON.parse(text)
  }))
  return role === "assistant" ? [{ id, role, content: content ?? "", calls }] : []
}

const differenceOf = (name: string, found: ReadonlyArray<unknown>, stored: ReadonlyArray<unknown>) => {
  const at = Array.from({ length: Math.max(found.length, stored.length) }, (_, index) => index).find(
    (index) => !isDeepStrictEqual(found[index], stored[index])
  )
  if (at === undefined) return []
  return [`${name} shows ${JSON.stringify(found[at])}, and ${JSON.stringify(stored[at])} is stored`]
}

/**
 * Users with pages of both protocols, each with a session of its own, and a second page of the first session. Returns the comparison of what the pages
 * show with what is stored, for the time after the sessions have come to rest.
 */
export const users = Effect.fnUntraced(function* (http: HttpClient.HttpClient, diary: Diary) {
  const [ui, agui] = ["ui", "agui"]
  const page = uiPage(http, ui)
  const other = uiPage(http, ui)
  const first = yield* Effect.forkDetach(useUi(page, diary, ui))
  const second = yield* Effect.forkDetach(useAg(http, diary, agui))
  const third = yield* Effect.forkDetach(Effect.forever(Effect.andThen(nap(0, 300), other.resume)))
  return Effect.gen(function* () {
    yield* Fiber.join(first)
    const runs = yield* Fiber.join(second)
    yield* Fiber.interrupt(third)
    const stored = uiPage(http, ui)
    yield* stored.load
    const expected = screens.plainUi(stored.shown())
    yield* other.resume
    for (const [name, one] of [
      ["the page", page],
      ["the second page", other]
    ] as const) {
      diary.problems.push(...one.problems.map((problem) => `${name} of ${ui} got ${problem}`))
      diary.problems.push(...differenceOf(`${name} of ${ui}`, screens.plainUi(one.shown()), expected))
    }
    const history = (yield* storedOf(http, agui)).filter((message) => screens.dataOf(message)["role"] !== "reasoning")
    for (const [n, run] of runs.entries()) {
      const next = history.findIndex((message) => screens.dataOf(message)["id"] === `${agui}/${n + 2}`)
      const found = run.screen().messages.flatMap(plainAg)
      diary.problems.push(...run.problems.map((problem) => `a page of ${agui} got ${problem}`))
      diary.problems.push(...differenceOf(`a page of ${agui}`, found, next < 0 ? history : history.slice(0, next)))
    }
  }).pipe(Effect.orDie)
})
