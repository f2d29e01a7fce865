/** SCREEN-6: what a reader builds that begins anew at any moment is what one builds that was never cut, and what is stored. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import type { UIMessage, UIMessageChunk } from "ai"
import { as, serve, url } from "../http/serve.ts"
import { test } from "../test.ts"
import { missing, peers, sayMissing } from "./peers.ts"
import { layer, ran } from "./script.ts"

sayMissing("SCREEN-6")

const headers = { authorization: "Bearer ada", "content-type": "application/json" }

/** A value as JSON, without the answers of a person and the tokens, which the history of a message does not have, and without transient parts. */
const plain = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (key, part: unknown) => (key === "approval" ? undefined : part)))

const withoutInside = ({ parts, ...message }: UIMessage) => ({
  ...message,
  parts: parts.filter(({ type }) => !type.startsWith("data-") && type !== "dynamic-tool")
})

/** The chunks of a response. Each one is a chunk of the protocol, and the stream has its end. */
const chunksOf = async (response: Response, seen: (chunk: UIMessageChunk) => void = () => undefined) => {
  const { ai } = peers()
  assert.strictEqual(response.headers.get("x-vercel-ai-ui-message-stream"), "v1")
  const { validate } = ai.uiMessageChunkSchema()
  const chunks: Array<UIMessageChunk> = []
  let text = ""
  assert(response.body !== null)
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece
    const blocks = text.split("\n\n")
    text = blocks.pop() ?? ""
    for (const block of blocks.filter((found) => found.startsWith("data: "))) {
      if (block === "data: [DONE]") return chunks
      const chunk: UIMessageChunk = JSON.parse(block.slice(6))
      const found = await validate?.(chunk)
      assert.strictEqual(found?.success, true, block)
      chunks.push(chunk)
      seen(chunk)
    }
  }
  return assert.fail("the stream has no end")
}

/** The message of chunks, which a reader of the AI SDK builds. A stream ends once, and leaves nothing open. */
const build = async (chunks: ReadonlyArray<UIMessageChunk>, message?: UIMessage): Promise<UIMessage> => {
  const { ai } = peers()
  assert.strictEqual(chunks.filter(({ type }) => type === "finish").length, 1, "one end")
  assert.strictEqual(chunks.at(-1)?.type, "finish", "the end is the last chunk")
  const stream = new ReadableStream<UIMessageChunk>({
    start: (controller) => {
      for (const chunk of chunks) controller.enqueue(structuredClone(chunk))
      controller.close()
    }
  })
  let last: UIMessage | undefined
  const read = ai.readUIMessageStream({ stream, terminateOnError: true, ...(message && { message }) })
  for await (const state of read) last = state
  assert(last !== undefined)
  assert(!JSON.stringify(last).includes(`"state":"streaming"`), "an open part")
  return last
}

const whole = Effect.gen(function* () {
  ran.length = 0
  const base = yield* url
  const post = (body: object) => fetch(`${base}/chat/ui`, { method: "POST", headers, body: JSON.stringify(body) })
  const again = () => fetch(`${base}/chat/ui/ada%2F1/stream`, { headers })
  const user = { id: "u1", role: "user", parts: [{ type: "text", text: "Pay everybody." }] }
  /** Reads a stream, and at each of its chunks begins another one. */
  const cutting = async (response: Response) => {
    const others: Array<Promise<ReadonlyArray<UIMessageChunk> | undefined>> = []
    const begin = async () => {
      const found = await again()
      return found.status === 204 ? undefined : chunksOf(found)
    }
    const chunks = await chunksOf(response, () => void others.push(begin()))
    return { chunks, others: (await Promise.all(others)).filter((other) => other !== undefined) }
  }
  const asked = yield* Effect.promise(async () => cutting(await post({ id: "ada/1", messages: [user] })))
  const waiting = yield* Effect.promise(() => build(asked.chunks))
  const parts = waiting.parts.map((part) =>
    "state" in part && part.state === "approval-requested"
      ? {
          ...part,
          state: "approval-responded",
          approval: { ...part.approval, approved: part.type === "dynamic-tool", reason: "I say so." }
        }
      : part
  )
  const reply = { ...waiting, parts }
  const answers = { id: "ada/1", messages: [user, reply], trigger: "submit-message", messageId: waiting.id }
  const decided = yield* Effect.promise(async () => cutting(await post(answers)))
  const stored = yield* Effect.map(as("ada").get("chat/ui?id=ada%2F1"), ({ body }): Array<UIMessage> => body)
  // Sound: the answers of a person are states of the parts
  const after = yield* Effect.promise(() => build(decided.chunks, structuredClone(reply) as UIMessage))
  return { asked, waiting, decided, after, stored, answers, post }
})

const served = () => serve({ chat: { reasoning: true }, maxStreams: 1000 }, { sessions: layer() })

describe.runIf(missing === undefined)("SCREEN-6 cuts", () => {
  test.live(
    "SCREEN-6 a reader that begins at any chunk builds the message of a reader that was never cut, and the stored one (openai-agents-python 5141; cloudflare/agents 790)",
    served(),
    function* () {
      const { after, answers, asked, decided, post, stored, waiting } = yield* whole
      assert.deepStrictEqual(ran, ["ann", "cleo"])
      assert.isAbove(asked.others.length, 10)
      assert.isAbove(decided.others.length, 3)
      assert.include(
        asked.chunks.map(({ type }) => type),
        "reset-step"
      )
      for (const other of asked.others) {
        const message = yield* Effect.promise(() => build(other))
        assert.deepStrictEqual(plain(message), plain(waiting))
      }
      const [first, last, ...more] = stored
      assert.strictEqual(first?.id, "u1")
      assert(last !== undefined && more.length === 0)
      assert.deepStrictEqual(plain(withoutInside(after)), plain(withoutInside(last)))
      for (const other of decided.others) {
        const message = yield* Effect.promise(() => build(other))
        assert.deepStrictEqual(plain(withoutInside(message)), plain(withoutInside(last)))
        // The call of a hidden agent that a person approved ends with its result
        const inner = message.parts.flatMap((part) => (part.type === "dynamic-tool" ? [part] : []))
        assert.deepStrictEqual(
          inner.map((part) => [part.state, part.output]),
          [["output-available", { done: "cleo" }]]
        )
      }
      // The same answers once more change nothing, and no call runs twice
      const again = yield* Effect.promise(() => post(answers))
      assert.strictEqual(again.status, 409)
      assert.deepStrictEqual(ran, ["ann", "cleo"])
    }
  )

  test.live("SCREEN-6 a stream that is wrong in one place does not build the stored message", served(), function* () {
    const { asked, waiting } = yield* whole
    const { chunks } = asked
    const at = (type: string, from = 0) => chunks.findIndex((chunk, index) => index >= from && chunk.type === type)
    const reset = at("reset-step")
    const delta = at("text-delta", reset)
    const old = chunks[at("text-delta")]
    const current = chunks[delta]
    assert(reset > 0 && delta > reset && old !== undefined && current !== undefined)
    const without = (index: number) => chunks.toSpliced(index, 1)
    const wrong: Record<string, ReadonlyArray<UIMessageChunk>> = {
      "no reset-step": without(reset),
      "a delta of another attempt": chunks.toSpliced(delta, 0, old),
      "a doubled chunk": chunks.toSpliced(delta, 0, current),
      "a lost chunk": without(delta),
      "an open part": without(at("text-end", reset)),
      "a wrong offset": chunks.toSpliced(
        delta,
        2,
        ...[chunks[delta + 1], chunks[delta]].flatMap((chunk) => (chunk === undefined ? [] : [chunk]))
      ),
      "a second end": [...chunks, { type: "finish" }],
      "another message id": chunks.with(0, { type: "start", messageId: "other" }),
      "a lost result": without(at("tool-output-available")),
      "a lost request": without(at("tool-approval-request")),
      "no end": without(chunks.length - 1)
    }
    for (const [name, found] of Object.entries(wrong)) {
      const isRight = yield* Effect.promise(() =>
        build(found).then(
          (message) => JSON.stringify(message) === JSON.stringify(waiting),
          () => false
        )
      )
      assert.isFalse(isRight, name)
    }
    assert.isTrue(JSON.stringify(yield* Effect.promise(() => build(chunks))) === JSON.stringify(waiting))
  })
})
