/** HOUSE-12 L12: what a model streams has its final identity when it begins, so that what a reader assembles is what is stored. */
import { assert, describe } from "@effect/vitest"
import { Arbitrary, Effect, Layer, Option, Schema, Stream } from "effect"
import { AiError, LanguageModel, type Response, Tool, Toolkit } from "effect/ai"
import { Agent, AgentEvent, Conversation, type Message } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"

import { test } from "../test.ts"
import { handmade } from "../ai-sdk/handmade.ts"

type Events = ReadonlyArray<AgentEvent.AgentEvent<unknown>>

type Shown =
  | { readonly type: "text" | "reasoning"; readonly text: string }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly text: string }

/** The parts that a reader has from the deltas of one attempt, by their indices. */
const assembled = (events: Events): ReadonlyMap<number, Shown> => {
  const parts = new Map<number, Shown>()
  for (const event of events) {
    if (event._tag === "StepStarted" || event._tag === "StepRetried") parts.clear()
    if (event._tag !== "TextDelta" && event._tag !== "ReasoningDelta" && event._tag !== "CallDelta") continue
    const before = parts.get(event.index)
    const text = (before?.text ?? "") + event.delta
    const part: Shown =
      event._tag === "CallDelta"
        ? { type: "call", id: event.callId, name: event.name, text }
        : { type: event._tag === "TextDelta" ? "text" : "reasoning", text }
    if (part.type !== "call") assert.notStrictEqual(event.delta, "", "a text begins with its first character")
    if (before !== undefined) assert.deepStrictEqual({ ...part, text: "" }, { ...before, text: "" })
    parts.set(event.index, part)
  }
  return parts
}

const shownOf = (parts: ReadonlyMap<number, Shown>) =>
  Array.from(parts)
    .toSorted(([a], [b]) => a - b)
    .map(([index, part]) => {
      if (part.type !== "call") return { index, ...part }
      const { id, name, text, type } = part
      return { index, type, id, name, arguments: Option.getOrElse(parseJson(text), () => text) }
    })

const parseJson = Schema.decodeOption(Schema.fromJsonString(Schema.Json))

type Indexed =
  | { readonly index: number; readonly type: "text" | "reasoning"; readonly text: string }
  | {
      readonly index: number
      readonly type: "call"
      readonly id: string
      readonly name: string
      readonly arguments: Schema.Json
    }

const storedOf = (content: ReadonlyArray<Message.AssistantPart>): ReadonlyArray<Indexed> =>
  content.flatMap((part, index): ReadonlyArray<Indexed> => {
    if (part.type === "tool-call") {
      return [{ index, type: "call", id: part.id, name: part.name, arguments: part.arguments }]
    }
    return (part.type === "text" || part.type === "reasoning") && part.text !== ""
      ? [{ index, type: part.type, text: part.text }]
      : []
  })

/** Checks that the deltas of each answer are the answer that is stored, and returns the stored parts of the answers. */
const checked = (events: Events) =>
  events.flatMap((event, at) => {
    if (event._tag !== "StepFinished") return []
    const stored = storedOf(event.message.content)
    assert.deepStrictEqual(shownOf(assembled(events.slice(0, at))), stored)
    return [stored]
  })

type Part = Response.StreamPartEncoded

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }

const finish = (reason: "stop" | "tool-calls") => ({ type: "finish", reason, usage, response: undefined }) as const

/** A model that streams these answers, one after the other. */
const streaming = (...answers: ReadonlyArray<ReadonlyArray<Part> | AiError.AiError>) =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.suspend(() => {
      const left = [...answers]
      const next = Stream.suspend(() => {
        const answer = left.shift() ?? []
        return AiError.isAiError(answer) ? Stream.fail(answer) : Stream.fromIterable(answer)
      })
      return LanguageModel.make({ generateText: () => Effect.die("streams only"), streamText: () => next })
    })
  )

const done: ReadonlyArray<Part> = [{ type: "text-delta", id: "0", delta: "Done." }, finish("stop")]

const Find = Tool.make("files/find", { parameters: Schema.Struct({ name: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(Find)
const handlers = toolkit.toLayer({ "files/find": ({ name }) => Effect.succeed(name) })
const finder = Agent.make("finder", { toolkit })

const callParts = (id: string, name: string, isWhole: boolean): ReadonlyArray<Part> => {
  const params = { name }
  const whole = { type: "tool-call", id, name: "files__find", params } as const
  if (isWhole) return [whole]
  const text = JSON.stringify(params)
  return [
    { type: "tool-params-start", id, name: "files__find" },
    { type: "tool-params-delta", id, delta: text.slice(0, 3) },
    { type: "tool-params-delta", id, delta: text.slice(3) },
    { type: "tool-params-end", id },
    whole
  ]
}

/** The events for a reader that waits, so that deltas are joined. */
const joined = <R>(agent: Agent.Agent<unknown, R>, options?: Agent.Options) =>
  agent.stream("Go", options).pipe(
    Stream.tap(({ _tag }) => (_tag === "StepStarted" ? Effect.repeat(Effect.yieldNow, { times: 100 }) : Effect.void)),
    Stream.runCollect
  )

const collected = <R>(agent: Agent.Agent<unknown, R>, options?: Agent.Options) =>
  Stream.runCollect(agent.stream("Go", options))

describe("HOUSE-12 calls", () => {
  const repeating = streaming(
    [...callParts("call_0", "a", false), ...callParts("call_0", "b", true), finish("tool-calls")],
    [...callParts("call_0", "c", false), ...callParts("", "d", false), finish("tool-calls")],
    done
  )
  test(
    "HOUSE-12 calls that a provider numbers anew in each answer have their stored id and name from the start",
    Layer.merge(repeating, handlers),
    function* () {
      const events = yield* collected(finder)
      const [first = [], second = []] = checked(events)
      const calls = [...first, ...second].flatMap((part) => (part.type === "call" ? [part] : []))
      assert.deepStrictEqual(
        calls.map(({ name }) => name),
        ["files/find", "files/find", "files/find", "files/find"]
      )
      assert.deepStrictEqual(
        calls.map((call) => call.arguments),
        ["a", "b", "c", "d"].map((name) => ({ name }))
      )
      assert.strictEqual(new Set(calls.map(({ id }) => id)).size, 4)
      const started = events.flatMap((event) => (event._tag === "ToolStarted" ? [event.callId] : []))
      assert.deepStrictEqual(started.toSorted(), calls.map(({ id }) => id).toSorted())
    }
  )

  const cut = AiError.make({
    module: "LanguageModel",
    method: "streamText",
    reason: new AiError.InternalProviderError({ description: "cut" })
  })
  const failing: ReadonlyArray<Part> = [
    { type: "reasoning-delta", id: "r", delta: "Hm" },
    ...callParts("0", "a", false),
    { type: "error", error: cut }
  ]
  test(
    "HOUSE-12 AGENT-2 a new attempt begins anew: its parts have the indices and ids of no other attempt",
    Layer.merge(streaming(failing, [...callParts("0", "b", false), finish("tool-calls")], done), handlers),
    function* () {
      const events = yield* collected(finder, { retry: { times: 1, delay: 0 } })
      assert.isTrue(events.some(({ _tag }) => _tag === "StepRetried"))
      const [first] = checked(events)
      assert.deepStrictEqual(first, [{ index: 0, type: "call", id: "0", name: "files/find", arguments: { name: "b" } }])
    }
  )

  const Odd = Tool.dynamic("odd", {
    parameters: { type: "object", properties: { $top: { type: "integer" } }, anyOf: [{ required: ["$top"] }] },
    success: Schema.Json
  })
  test("HOUSE-12 RIGHT-2 arguments in the form of a provider are shown in the form of the tool", function* () {
    for (const provider of ["openai.responses", "anthropic.messages", "google.generative-ai"]) {
      const tools = Toolkit.make(Odd)
      const agent = Agent.make("odd", { toolkit: tools })
      const asking = handmade([{}], { provider })
      yield* Effect.exit(
        collected(agent).pipe(
          Effect.provide([AiSdk.model(asking.model), tools.toLayer({ odd: () => Effect.succeed(1) })])
        )
      )
      const offered = JSON.stringify(asking.calls[0]?.tools)
      const key = /"([^"]*top)"/u.exec(offered)?.[1] ?? assert.fail(offered)
      const inner = { [key]: 3 }
      const input = JSON.stringify(offered.includes('"properties":{"value"') ? { value: inner } : inner)
      const { model } = handmade(
        [
          {
            content: [{ type: "tool-call", toolCallId: "c1", toolName: "odd", input }],
            finishReason: { unified: "tool-calls", raw: "tool_calls" }
          },
          { content: [{ type: "text", text: "Done." }] }
        ],
        { provider }
      )
      const events = yield* collected(agent).pipe(
        Effect.provide([AiSdk.model(model), tools.toLayer({ odd: () => Effect.succeed(1) })])
      )
      const [first] = checked(events)
      assert.deepStrictEqual(first, [{ index: 0, type: "call", id: "c1", name: "odd", arguments: { $top: 3 } }])
      const deltas = events.flatMap((event) => (event._tag === "CallDelta" ? [event.delta] : []))
      assert.strictEqual(deltas[0], "")
    }
  })
})

const Block = Schema.Struct({
  type: Schema.Literals(["text", "reasoning", "call"]),
  front: Schema.Literals(["", "", "<think>", "<think>a</think>", "\n<thi", " ", "<think>\n</think>"]),
  words: Schema.Array(Schema.Literals(["a", " b", "<", "</think>", "😀", "\ud83d", "\ude00", ""])),
  ends: Schema.Boolean,
  signed: Schema.Boolean
})

/** The parts of one block. Arguments are as short as a text. */
const partsOf = ({ ends, front, signed, type, words }: typeof Block.Type, index: number): ReadonlyArray<Part> => {
  const id = `${index}`
  if (type === "call") return callParts("0", front + words.join("").toWellFormed(), ends)
  const metadata = signed ? { metadata: { test: { signature: "s" } } } : {}
  return [
    { type: `${type}-start`, id },
    ...[front, ...words].map((delta): Part => ({ type: `${type}-delta`, id, delta })),
    ...(ends ? [{ type: `${type}-end`, id, ...metadata } as const] : [])
  ]
}

/** The parts of the blocks, where each choice takes the next part of a block. A call whose id another call has is not cut. */
const interleaved = (blocks: ReadonlyArray<typeof Block.Type>, choices: ReadonlyArray<number>): ReadonlyArray<Part> => {
  const queues = blocks.map((block, index) => {
    const parts = partsOf(block, index)
    return block.type === "call" ? [parts] : parts.map((part) => [part])
  })
  const taken: Array<Part> = []
  for (const choice of choices) taken.push(...(queues[Math.abs(choice) % queues.length]?.shift() ?? []))
  return [...taken, ...queues.flat(2), finish("tool-calls")]
}

const blocks = Arbitrary.array(Arbitrary.schema(Block), { minLength: 1, maxLength: 4 })

describe("HOUSE-12 parts that a model streams side by side", () => {
  const two: ReadonlyArray<Part> = [
    { type: "text-start", id: "a" },
    { type: "reasoning-start", id: "b" },
    { type: "reasoning-delta", id: "b", delta: "one" },
    { type: "text-delta", id: "a", delta: "th" },
    { type: "text-delta", id: "a", delta: "ree" },
    { type: "reasoning-delta", id: "b", delta: " two" },
    { type: "text-end", id: "a" },
    finish("stop")
  ]
  test("HOUSE-12 a part begins with its first character, and keeps its index", streaming(two, two), function* () {
    const events = yield* collected(Agent.make("writer"))
    assert.deepStrictEqual(checked(events), [
      [
        { index: 0, type: "reasoning", text: "one two" },
        { index: 1, type: "text", text: "three" }
      ]
    ])
    const indices = (events: Events) => events.flatMap((event) => ("delta" in event ? [event.index] : []))
    assert.deepStrictEqual(indices(events), [0, 1, 1, 0])
    const late = yield* joined(Agent.make("writer"))
    assert.deepStrictEqual([indices(late), checked(late)], [[0, 1], checked(events)])
  })

  test.prop(
    "HOUSE-12 L12 however texts, thoughts and calls are interleaved, their deltas joined by index are what is stored",
    [blocks, Arbitrary.array(Arbitrary.schema(Schema.Int), { maxLength: 24 })],
    function* ([blocks, choices]) {
      const parts = interleaved(blocks, choices)
      const options = { maxSteps: 1, emptyAnswers: 0 }
      const [eager, slow] = yield* Effect.all([collected(finder, options), joined(finder, options)]).pipe(
        Effect.provide([streaming(parts, parts), handlers])
      )
      assert.deepStrictEqual(checked(slow), checked(eager))
      assert.strictEqual(checked(eager).length, 1)
    }
  )

  test.prop(
    "HOUSE-12 L12 an answer whose parts follow each other is the same, whole and streamed",
    [blocks],
    function* ([blocks]) {
      const whole = blocks.flatMap((block, index): ReadonlyArray<Response.PartEncoded> => {
        const { front, type, words } = block
        if (type === "call") return partsOf(block, index).flatMap((part) => (part.type === "tool-call" ? [part] : []))
        const metadata = block.signed && block.ends ? { metadata: { test: { signature: "s" } } } : {}
        return [{ type, text: front + words.join(""), ...metadata }]
      })
      const answering = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({
          generateText: () => Effect.succeed([...whole, finish("tool-calls")]),
          streamText: () => Stream.fromIterable(interleaved(blocks, []))
        })
      )
      const contentOf = ({ conversation }: Agent.Result<unknown>) =>
        Option.map(Conversation.lastAssistantMessage(conversation), ({ content }) => content)
      const options = { maxSteps: 1, emptyAnswers: 0 }
      const [ran, streamed] = yield* Effect.all([
        finder.run("Go", options),
        AgentEvent.result(finder.stream("Go", options))
      ]).pipe(Effect.provide([answering, handlers]))
      assert.deepStrictEqual(contentOf(streamed), contentOf(ran))
    }
  )
})
