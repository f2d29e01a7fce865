/** SCREEN-6: random turns, cut into random pieces, are built by the published clients of both protocols as they are stored. */
import { assert, describe, it } from "@effect/vitest"
import type { UIMessage, UIMessageChunk } from "ai"
import { DateTime } from "effect"
import type { Message } from "effect-emissary"
import type { ChatEvent } from "effect-emissary/session"
import * as agUi from "../../src/http/internal/agUi.ts"
import * as agUiMessages from "../../src/http/internal/agUiMessages.ts"
import type * as frontView from "../../src/http/internal/frontView.ts"
import * as screen from "../../src/http/internal/screen.ts"
import * as uiHistory from "../../src/http/internal/uiHistory.ts"
import * as uiMessages from "../../src/http/internal/uiMessages.ts"
import { random, type Random } from "../random.ts"
import { from, missing, peers, sayMissing } from "./peers.ts"

sayMissing("SCREEN-6")

const at = DateTime.makeUnsafe(0)

const usage = { outputTokens: 1 }

type Event = ChatEvent.ChatEvent
type Stored = (typeof frontView.ChatHistory.Type)["messages"][number]

const textOf = (r: Random) => r.times(1 + r.below(12), () => r.pick(["word ", "ä", "\u{1f600}", "\n", "<b>"])).join("")

const partOf = (r: Random, id: string): Message.AssistantPart => {
  switch (r.below(6)) {
    case 0:
      return { type: "reasoning", text: textOf(r) }
    case 1:
    case 2: {
      const args = { name: textOf(r), amount: r.below(9) }
      // A model may write its arguments in another way than they are stored
      return {
        type: "tool-call",
        id,
        name: "pay",
        arguments: args,
        ...(r.chance(0.3) && { text: JSON.stringify(args, undefined, 1) })
      }
    }
    case 3:
      return { type: "source", id, data: { type: "url", url: "https://example.com/" } }
    default:
      return { type: "text", text: textOf(r) }
  }
}

/** The pieces of an answer as a reader may get them: joined, doubled, with a gap, and not all of them. */
const piecesOf = (
  r: Random,
  messageId: string,
  content: ReadonlyArray<Message.AssistantPart>,
  written: Map<string, string> = new Map()
): ReadonlyArray<Event> => {
  const found: Array<Event> = []
  for (const [part, stored] of content.entries()) {
    if (stored.type === "source" || stored.type === "file" || stored.type === "tool-result") continue
    const isCall = stored.type === "tool-call"
    const text = isCall
      ? (stored.text ?? JSON.stringify(stored.arguments, undefined, r.chance(0.2) ? 2 : 0))
      : stored.text
    written.set(`${messageId}/${part}`, text)
    const call = isCall ? { call: { id: stored.id, name: stored.name } } : {}
    const end = r.chance(0.7) ? text.length : r.below(text.length + 1)
    for (let offset = 0; offset < end;) {
      const next = Math.min(end, offset + 1 + r.below(6))
      const begin = r.chance(0.1) ? r.below(offset + 1) : offset
      if (!r.chance(0.03))
        found.push({
          _tag: "AnswerDelta",
          turn: "u1",
          messageId,
          part,
          type: stored.type,
          offset: begin,
          delta: text.slice(begin, next),
          ...call
        })
      offset = next
    }
    if (end < text.length && r.chance(0.8)) break
  }
  return found
}

const contentOf = (r: Random, id: string) => r.times(r.below(5), () => 0).map((_, k) => partOf(r, `${id}c${k}`))

/** The end of an attempt that does not count. Without an event the next attempt takes its place. */
const withdrawnBy = (r: Random, messageId: string): ReadonlyArray<Event> =>
  r.pick<ReadonlyArray<Event>>([[], [{ _tag: "AnswerWithdrawn", messageId }], [{ _tag: "AnswerDiscarded", at }]])

const insideOf = (r: Random, messageId: string): ReadonlyArray<Event> => {
  const path = ["plan", "write"]
  const content = contentOf(r, messageId)
  return [
    { _tag: "PlanStep", at, path, status: "running" },
    ...piecesOf(r, messageId, content).map((piece) => (piece._tag === "AnswerWithdrawn" ? piece : { ...piece, path })),
    { _tag: "Answered", at, path, messageId, content },
    ...(r.chance(0.5) ? [{ _tag: "PlanStep", at, path, status: "finished" } as const] : [])
  ]
}

/** A turn of some answers, and the messages that are stored then. */
const turnOf = (seed: number) => {
  const r = random(seed)
  const user: Stored = { role: "user", id: "u1", at, content: [{ type: "text", text: "Go." }] }
  const messages: Array<Stored> = [user]
  /** The texts that the model wrote in the parts of all attempts. */
  const written = new Map<string, string>()
  const events: Array<Event> = [{ _tag: "MessageTaken", at, messageId: "u1" }]
  for (const answer of r.times(1 + r.below(4), () => 0).keys()) {
    for (const attempt of r.times(r.below(3), () => 0).keys()) {
      const id = `a${answer}.${attempt}`
      events.push({ _tag: "AnswerStarted", at }, ...piecesOf(r, id, contentOf(r, id), written), ...withdrawnBy(r, id))
    }
    const id = `a${answer}`
    const content = contentOf(r, id)
    events.push(...piecesOf(r, id, content, written), {
      _tag: "Answered",
      at,
      messageId: id,
      content,
      finishReason: "stop",
      usage
    })
    messages.push({ role: "assistant", id, at, content, usage })
    if (r.chance(0.3)) events.push(...insideOf(r, `inside${answer}`))
    const calls = content.flatMap((part) => (part.type === "tool-call" ? [part] : []))
    const results = calls.map(({ id: callId, name }) => {
      const result = { _tag: "Success", value: callId, content: [{ type: "text", text: callId }] } as const
      return { at, callId, name, succeeded: true, result }
    })
    messages.push(...results.map((result): Stored => ({ role: "tool", id: `r${result.callId}`, ...result })))
    const order = r.chance(0.5) ? results : results.toReversed()
    events.push(...order.map((result): Event => ({ _tag: "ToolFinished", ...result })))
  }
  events.push({ _tag: "TurnFinished", at, outcome: "Completed" })
  return { events, messages, written }
}

/** All that a protocol sends. What a page has of an answer is at each moment the beginning of what the model wrote. */
const shown = <Own, Sent>(
  protocol: screen.Protocol<Own, Sent>,
  begin: screen.Page<Own>,
  { events, written }: Pick<ReturnType<typeof turnOf>, "events" | "written">
) => {
  const found: Array<Sent> = []
  let page = begin
  for (const event of events) {
    const [next, sent] = screen.show(protocol, page, event)
    page = next
    found.push(...sent)
    for (const { part, text } of page.turn.parts)
      assert.isTrue(written.get(`${page.turn.draft}/${part}`)?.startsWith(text), `${page.turn.draft}/${part}: ${text}`)
  }
  return found
}

/** As JSON, without what a page adds, and what is not in the history. */
const plain = ({ parts }: Pick<UIMessage, "parts">): unknown =>
  JSON.parse(JSON.stringify(parts.filter(({ type }) => !type.startsWith("data-"))), (key, value: unknown) =>
    key === "providerMetadata" || (key === "id" && typeof value === "string") ? undefined : value
  )

const build = async (chunks: ReadonlyArray<unknown>): Promise<UIMessage | undefined> => {
  const stream = new ReadableStream<UIMessageChunk>({
    start: (controller) => {
      // Sound: the chunks are checked by their schema in cuts.test.ts
      for (const chunk of chunks) controller.enqueue(structuredClone(chunk) as UIMessageChunk)
      controller.close()
    }
  })
  let last: UIMessage | undefined
  for await (const state of peers().ai.readUIMessageStream({ stream, terminateOnError: true })) last = state
  return last
}

/** An agent of AG-UI that gets these events. Its run verifies them. */
const built = async (events: ReadonlyArray<agUi.AgUiEvent>, messages: ReadonlyArray<object>) => {
  const { agui } = peers()
  class Local extends agui.AbstractAgent {
    // Sound: the client checks each event
    run = () => from(events.map((event) => structuredClone(event) as never))
  }
  const agent = new Local({ threadId: "t", initialMessages: structuredClone(messages) as never })
  await agent.runAgent()
  return agent.messages.filter(({ content, role }) => role !== "activity" && !(role === "reasoning" && content === ""))
}

/** As JSON. A message of calls alone has an empty text, or none. */
const withoutEmpty = (messages: ReadonlyArray<object>): unknown =>
  JSON.parse(JSON.stringify(messages), (key, value: unknown) => (key === "content" && value === "" ? undefined : value))

describe.runIf(missing === undefined)("SCREEN-6 random turns", () => {
  it("SCREEN-6 L12 are built as they are stored, whatever the pieces", async () => {
    for (let seed = 1; seed <= 60; seed += 1) {
      const turn = turnOf(seed)
      const { messages } = turn
      const [, last] = uiHistory.make(messages, [])
      const chunks = shown(uiMessages.protocol, uiMessages.begin("u1"), turn)
      const message = await build(chunks)
      assert.deepStrictEqual(message && plain(message), last && plain(last as UIMessage), `useChat, seed ${seed}`)

      const stored = agUiMessages.make({ messages }, "none", undefined)
      const run = { threadId: "t", runId: "r", messages: stored.slice(0, 1), hasReasoning: false }
      const found = await built(shown(agUi.protocol, agUi.begin("u1", run), turn), stored.slice(0, 1))
      assert.deepStrictEqual(withoutEmpty(found), withoutEmpty(stored), `AG-UI, seed ${seed}`)
    }
  })
})
