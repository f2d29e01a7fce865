/**
 * Published clients over the record of a page of a world: `Chat` of `@ai-sdk/react` and `HttpAgent` of `@ag-ui/client` ask, connect again and answer as
 * the page did, and get the responses that the page got. What they show then is compared with what is stored.
 */
import assert from "node:assert"
import { isDeepStrictEqual } from "node:util"
import type { BaseEvent, Message as AgMessage, ResumeEntry } from "@ag-ui/core"
import type { UIMessage, UIMessageChunk } from "ai"
import type { Observable } from "rxjs"
import type { Exchange } from "../worlds/pages.ts"
import { dataOf, listOf, plainUi } from "../worlds/screens.ts"
import type { Played } from "../worlds/kills.ts"
import type { Packages } from "./packages.ts"

/**
 * Responds to the requests of a client as the servers of the world responded to the page. `fails`: a body that was cut fails, and does not just end.
 * The agent of AG-UI leaves a rejected promise behind where a body fails.
 */
const responding = (record: ReadonlyArray<Exchange>, fails: boolean) => {
  let at = 0
  const take = () => {
    const exchange = record[at++]
    assert(exchange !== undefined, "a request that the page did not make")
    return exchange
  }
  const fetch = async (url: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const { isWhole, method, path, status, text } = take()
    assert.strictEqual(`${init?.method ?? "GET"} ${String(url)}`, `${method} http://world/sessions/${path}`)
    if (status === undefined) throw new TypeError("fetch failed")
    let isSent = text === ""
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        if (!isSent) controller.enqueue(new TextEncoder().encode(text))
        else if (isWhole || !fails) controller.close()
        else controller.error(new TypeError("network error"))
        isSent = true
      }
    })
    const headers = { "content-type": status === 200 ? "text/event-stream" : "application/json" }
    return new Response(status === 204 ? null : body, { status, headers })
  }
  return { fetch, take, next: () => record[at] }
}

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

/** The chunks of a whole stream. Each of them is a chunk of the protocol. */
const valid = new Map<string, UIMessageChunk>()

const chunksOf = async ({ ai }: Packages, text: string): Promise<ReadonlyArray<UIMessageChunk>> => {
  const found: Array<UIMessageChunk> = []
  for (const block of text.split("\n\n")) {
    if (!block.startsWith("data: ") || block === "data: [DONE]") continue
    const data = block.slice(6)
    const known = valid.get(data)
    const chunk: UIMessageChunk = known ?? JSON.parse(data)
    if (known === undefined) {
      const checked = await ai.uiMessageChunkSchema().validate?.(chunk)
      assert.strictEqual(checked?.success, true, data)
      if (valid.size < 200_000) valid.set(data, chunk)
    }
    found.push(chunk)
  }
  return found
}

/** The message that the reader of the AI SDK builds from a stream alone. */
const build = async (packages: Packages, text: string): Promise<UIMessage | undefined> => {
  const chunks = await chunksOf(packages, text)
  const stream = new ReadableStream<UIMessageChunk>({
    start: (controller) => {
      for (const chunk of chunks) if (chunk.type !== "error") controller.enqueue(structuredClone(chunk))
      controller.close()
    }
  })
  let last: UIMessage | undefined
  for await (const state of packages.ai.readUIMessageStream({ stream, terminateOnError: true })) last = state
  return last
}

/** The page of the AI SDK, with the published chat. Its messages in the end. */
const chatOf = async ({ ai, react }: Packages, record: ReadonlyArray<Exchange>, before: ReadonlyArray<unknown>) => {
  const responses = responding(record, true)
  const transport = new ai.DefaultChatTransport({ api: "http://world/sessions/chat/ui", fetch: responses.fetch })
  // Sound: these are messages of `chat/ui`
  const messages = structuredClone(before) as Array<UIMessage>
  const chat = new react.Chat({ id: "chat", messages, transport })
  for (let next = responses.next(); next !== undefined; next = responses.next()) {
    if (next.action === "load") {
      responses.take()
      if (next.isWhole && next.status === 200) chat.messages = JSON.parse(next.text)
    } else if (next.action === "resume") await chat.resumeStream()
    else {
      const [message] = listOf(dataOf(next.body)["messages"])
      if (next.action === "send") {
        const { id, parts, role } = message as unknown as UIMessage
        const isKnown = chat.messages.some((one) => one.id === id)
        await chat.sendMessage({ role, parts, ...(isKnown ? { messageId: id } : { id }) })
      } else {
        for (const part of listOf(message?.["parts"])) {
          const { approved, id, reason } = dataOf(part["approval"])
          const isOpen = chat.lastMessage?.parts.some(
            (one) => "approval" in one && one.approval?.id === id && one.state === "approval-requested"
          )
          if (part["state"] !== "approval-responded" || isOpen !== true) continue
          await chat.addToolApprovalResponse({
            id: String(id),
            approved: approved === true,
            ...(reason !== undefined && { reason: String(reason) })
          })
        }
        await chat.sendMessage()
      }
    }
  }
  return chat.messages
}

/** The page of AG-UI, with the published agent. Its messages in the end, and the events of its last run. */
const agentOf = async ({ agui }: Packages, record: ReadonlyArray<Exchange>, user: AgMessage) => {
  const responses = responding(record, false)
  const agent = new agui.HttpAgent({
    url: "http://world/sessions/chat/agui",
    threadId: "chat",
    initialMessages: [user],
    fetch: responses.fetch
  })
  let events: Array<BaseEvent> = []
  // A run fails where its connection is cut
  agent.subscribe({
    onEvent: ({ event }) => void events.push(structuredClone(event)),
    onRunFailed: (): object => ({ stopPropagation: true })
  })
  for (let next = responses.next(); next !== undefined; next = responses.next()) {
    events = []
    const { resume } = dataOf(next.body)
    // Sound: the page of the world answered these interrupts
    if (next.action === "decide") await agent.runAgent({ resume: resume as Array<ResumeEntry> })
    else {
      // A page that is loaded again, where requests are open
      agent.pendingInterrupts = []
      await agent.runAgent()
    }
  }
  return { messages: agent.messages, events }
}

const plainAg = (messages: ReadonlyArray<AgMessage>): ReadonlyArray<unknown> =>
  messages.flatMap((message): ReadonlyArray<unknown> => {
    const { id, role } = message
    if (role === "activity" || (role === "reasoning" && message.content === "")) return []
    if (role === "tool") return [{ role, toolCallId: message.toolCallId, content: message.content }]
    if (role === "reasoning") return [{ role, content: message.content }]
    if (role !== "assistant") return [{ id, role, content: "content" in message ? message.content : "" }]
    const calls = (message.toolCalls ?? []).map((call) => ({
      id: call.id,
      name: call.function.name,
      arguments: JSON.parse(call.function.arguments)
    }))
    return [{ id, role, content: message.content ?? "", calls }]
  })

const collect = <A>({ rxjs }: Packages, values: Observable<A>): Promise<ReadonlyArray<A>> =>
  rxjs.firstValueFrom(values.pipe(rxjs.toArray()))

/** The figures of a check. */
export interface Checked {
  readonly streams: number
  readonly chunks: number
  readonly cut: number
  /** Pages that ended with a stream, and not with the stored messages. */
  readonly live: number
}

/** The difference of long conversations takes time, so it is made where there is one. */
const same = (found: unknown, expected: unknown, what: string) => {
  if (isDeepStrictEqual(json(found), json(expected))) return
  assert.deepStrictEqual(json(found), json(expected), what)
}

/** Compares all pages of a world with what is stored. */
export const check = async (packages: Packages, played: Played): Promise<Checked> => {
  const { agui, before, freshAgui, freshUi, history, problems, sent, shown, stored, ui } = played
  assert.deepStrictEqual(problems, [])
  const expected = plainUi(stored)
  const figures = { streams: 0, chunks: 0, cut: 0, live: 0 }
  for (const [record, first, own, name] of [
    [ui, before, shown[0], "the page that was connected"],
    [freshUi, [], shown[1], "the page that began afresh"]
  ] as const) {
    if (record.length === 0) continue
    const messages = await chatOf(packages, record, first)
    same(plainUi(messages), expected, `${name}, and what is stored`)
    same(plainUi(own?.ui ?? []), expected, `${name} in the world, and what is stored`)
    const last = record.at(-1)
    if (last?.action !== "load") figures.live += 1
    for (const { isWhole, status, text } of record) {
      if (status !== 200 || text.startsWith("[")) continue
      figures.streams += 1
      figures.cut += isWhole ? 0 : 1
      figures.chunks += (await chunksOf(packages, isWhole ? text : text.slice(0, text.lastIndexOf("\n\n") + 2))).length
    }
    if (last !== undefined && last.status === 200 && (last.action === "resume" || last.action === "send")) {
      const message = await build(packages, last.text)
      const end = plainUi(message === undefined ? [] : [message])
      same(end, plainUi(stored.filter(({ id }) => id === message?.id)), `${name}, from its last stream alone`)
    }
  }
  const user: AgMessage = { id: sent.id, role: "user", content: sent.text }
  const wanted = history
  for (const [record, own, name] of [
    [agui, shown[0], "the agent that was connected"],
    [freshAgui, shown[1], "the agent that began afresh"]
  ] as const) {
    if (record.length === 0) continue
    const { events, messages } = await agentOf(packages, record, user)
    same(plainAg(messages), wanted, `${name}, and what is stored`)
    same(own?.agui, messages, `${name}, and the reader of the worlds`)
    figures.live += 1
    figures.streams += record.length
    figures.cut += record.filter(({ isWhole }) => !isWhole).length
    figures.chunks += events.length
    const { from } = packages.rxjs
    const verified = await collect(packages, from(events).pipe(packages.agui.verifyEvents()))
    const compacted = packages.agui.compactEvents(events)
    await collect(packages, from(compacted).pipe(packages.agui.verifyEvents()))
    assert(compacted.length <= verified.length)
  }
  return figures
}
