/** RIGHT-7: thoughts in front of a text answer are reasoning, whole and streamed. RIGHT-4: no delta has half a character. */
import { assert, describe } from "@effect/vitest"
import { Arbitrary, Effect, Fiber, Layer, Option, Schema, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, AgentEvent, Conversation, type Message } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"

const agent = Agent.make("thinker")

type Said = ReadonlyArray<{ readonly type: "text" | "reasoning"; readonly text: string }>

const said = (parts: ReadonlyArray<Message.AssistantPart>): Said =>
  parts.flatMap((part) => (part.type === "text" || part.type === "reasoning" ? [part] : []))

/** The parts that a reader has assembled from deltas. */
const assembled = (events: ReadonlyArray<AgentEvent.AgentEvent<unknown>>): Said => {
  const parts: Array<Said[number]> = []
  for (const event of events) {
    if (event._tag !== "TextDelta" && event._tag !== "ReasoningDelta") continue
    assert.isTrue(event.delta.isWellFormed(), JSON.stringify(event.delta))
    const type = event._tag === "TextDelta" ? "text" : "reasoning"
    const last = parts.at(-1)
    if (last?.type === type) parts.splice(-1, 1, { type, text: last.text + event.delta })
    else parts.push({ type, text: event.delta })
  }
  return parts
}

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }

const finish = { type: "finish", reason: "stop", usage, response: undefined } as const

/** A model whose answer has these deltas. */
const answering = (deltas: ReadonlyArray<string>) =>
  Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: () => Effect.succeed([{ type: "text", text: deltas.join("") }, finish]),
      streamText: () =>
        Stream.fromIterable([
          { type: "text-start", id: "0" },
          ...deltas.map((delta) => ({ type: "text-delta", id: "0", delta }) as const),
          { type: "text-end", id: "0" },
          finish
        ])
    })
  )

const lastAnswer = (conversation: Conversation.Conversation) =>
  said(
    Option.match(Conversation.lastAssistantMessage(conversation), {
      onNone: () => [],
      onSome: ({ content }) => content
    })
  )

const whole = (deltas: ReadonlyArray<string>) =>
  agent.run("Go").pipe(
    Effect.map(({ conversation }) => lastAnswer(conversation)),
    Effect.provide(answering(deltas))
  )

const streamed = (deltas: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const events = yield* Stream.runCollect(agent.stream("Go")).pipe(Effect.provide(answering(deltas)))
    const { conversation, text } = yield* AgentEvent.result(Stream.fromIterable(events))
    const first = events.slice(
      0,
      events.findIndex(({ _tag }) => _tag === "StepFinished")
    )
    return { shown: assembled(first), stored: lastAnswer(conversation), text }
  })

const thought = (reasoning: string, ...texts: ReadonlyArray<string>): Said => [
  { type: "reasoning", text: reasoning },
  ...texts.map((text) => ({ type: "text", text }) as const)
]

const plain = (text: string): Said => [{ type: "text", text }]

const rows: ReadonlyArray<readonly [name: string, text: string, parts: Said]> = [
  ["in front", "<think>Let me see.</think>Four.", thought("Let me see.", "Four.")],
  ["with white space", "\n<think>\nLet me see.\n</think>\n\nFour. \n", thought("Let me see.\n", "Four. \n")],
  ["in capitals", "<THINK>Hm</Think>Four.", thought("Hm", "Four.")],
  ["with nothing in it, as models write that do not think", "<think>\n\n</think>\n\nFour.", plain("Four.")],
  ["with a tag inside", "<think>a <think> b < / c</think>Four.", thought("a <think> b < / c", "Four.")],
  ["twice", "<think>a</think>b<think>c</think>d", thought("a", "b<think>c</think>d")],
  ["later", "Four.<think>no</think>", plain("Four.<think>no</think>")],
  ["a closing tag alone", "a</think>Four.", plain("a</think>Four.")],
  ["another tag", "<thinker>a</thinker>", plain("<thinker>a</thinker>")],
  ["a tag that is cut off", " <thi", plain(" <thi")]
]

describe("RIGHT-7 thoughts in the text of an answer", () => {
  for (const [name, text, parts] of rows) {
    test(`RIGHT-7 ${name}: the whole answer, its deltas and what is stored are the same`, function* () {
      assert.deepStrictEqual(yield* whole([text]), parts)
      for (const deltas of [[text], [...text], ["", ...text, ""]]) {
        const { shown, stored, text } = yield* streamed(deltas)
        assert.deepStrictEqual(stored, parts)
        assert.deepStrictEqual(shown, parts)
        assert.strictEqual(text, parts.map((part) => (part.type === "text" ? part.text : "")).join(""))
      }
    })
  }

  test("RIGHT-7 RIGHT-6 thoughts that never end are reasoning, and no answer", function* () {
    const answered = [...thought("I wonder")]
    for (const deltas of [["<think>I wonder"], [..."<think>I wonder"]]) {
      const { conversation, text } = yield* endsAs("Stopped", agent.run("Go").pipe(Effect.provide(answering(deltas))))
      assert.deepStrictEqual([lastAnswer(conversation), text], [answered, ""])
      const { shown, stored } = yield* streamed(deltas)
      assert.deepStrictEqual([stored, shown], [answered, answered])
    }
  })

  test("RIGHT-7 structured output is read whole, and stays as it came", function* () {
    const text = '<think>\n{"n":5}\n</think>\n{"n":1}'
    const counting = Agent.make("counter", { output: Schema.Struct({ n: Schema.Int }) })
    const events = yield* Stream.runCollect(counting.stream("Go")).pipe(Effect.provide(ScriptedModel.layer([{ text }])))
    const { conversation, output } = yield* endsAs("Completed", AgentEvent.result(Stream.fromIterable(events)))
    assert.deepStrictEqual([output, lastAnswer(conversation), assembled(events)], [{ n: 1 }, plain(text), plain(text)])
  })

  const Word = Schema.Literals([
    "<think>",
    "</think>",
    "<th",
    "ink>",
    "</",
    "<",
    ">",
    " ",
    "\n",
    "a",
    "😀",
    "\ud83d",
    "\ude00",
    ""
  ])

  const pieces = Arbitrary.array(Arbitrary.schema(Word), { maxLength: 12 })

  test.prop(
    "RIGHT-7 RIGHT-4 L12 however a text is cut, its deltas are well-formed and are what is stored",
    [
      Schema.Literals(["", "<think>", "\n<think>"]),
      pieces,
      Arbitrary.array(Arbitrary.schema(Schema.Int), { maxLength: 6 })
    ],
    function* ([front, words, cuts]) {
      const text = `${front}${words.join("")}.`
      const at = cuts.map((cut) => Math.abs(cut) % text.length).toSorted((a, b) => a - b)
      const deltas = [...at, text.length].map((end, index) => text.slice(at[index - 1] ?? 0, end))
      const { shown, stored } = yield* streamed(deltas)
      assert.deepStrictEqual(shown, stored)
      assert.deepStrictEqual(yield* whole([text]), stored)
      const [, reasoning, , answer] = /^\s*<think>\s*(.*?)(<\/think>\s*(.*))?$/su.exec(text.toWellFormed()) ?? []
      const expected = [
        ...(reasoning ? thought(reasoning) : []),
        ...(answer ? plain(answer) : []),
        ...(reasoning === undefined ? plain(text.toWellFormed()) : [])
      ]
      assert.deepStrictEqual(stored, expected)
    }
  )

  const slow = ScriptedModel.layer([{ text: "<think>one two</think> three <four>", chunkDelay: "1 second" }], {
    chunkSize: 4
  })

  for (const seconds of [1, 3, 5, 6, 8, 10]) {
    test(`RIGHT-7 MEND-8 an answer that is cut off after ${seconds} s is what its reader has seen`, slow, function* () {
      const running = yield* Effect.forkChild(
        Stream.runCollect(agent.stream("Go", { timeouts: { total: `${seconds + 0.5} seconds` } }))
      )
      yield* TestClock.adjust("1 minute")
      const events = yield* Fiber.join(running)
      const { conversation } = yield* AgentEvent.result(Stream.fromIterable(events))
      assert.deepStrictEqual(lastAnswer(conversation), assembled(events))
    })
  }
})

describe("RIGHT-4 half a character in deltas", () => {
  test("RIGHT-4 a character that two deltas share comes with the second", function* () {
    const { shown, stored } = yield* streamed(["a \ud83d", "\ude00 b", "\ud83d", " c \ud83d"])
    assert.deepStrictEqual(shown, plain("a 😀 b\ufffd c \ufffd"))
    assert.deepStrictEqual(stored, shown)
  })
})
