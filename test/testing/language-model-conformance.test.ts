import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Result, Schedule, Stream } from "effect"
import { AiError, Prompt, type Response } from "effect/ai"
import { LanguageModelConformance } from "effect-emissary/testing"
import { test } from "../test.ts"
import { harness, type Change } from "./scripted-provider.ts"

type Part = Response.AnyPart

/** An adapter that changes each part of its answers. */
const parts = (alter: (part: Part) => ReadonlyArray<Part>): Change => ({
  whole: Effect.map((all) => all.flatMap(alter)),
  streamed: Stream.flatMap((part) => Stream.fromIterable(alter(part)))
})

/** The part with other members: a part is made by its Schema, and a change is a part of no Schema. */
const changed = (part: Part, members: object): ReadonlyArray<Part> => [{ ...part, ...members } as Part]

const errors = (alter: (error: AiError.AiError) => AiError.AiError): Change => ({
  whole: Effect.mapError(alter),
  streamed: Stream.mapError(alter)
})

const otherReason = (error: AiError.AiError, reason: AiError.AiErrorReason) =>
  AiError.make({ module: error.module, method: error.method, reason })

const messages = (alter: (message: Prompt.Message) => ReadonlyArray<Prompt.Message>): Change => ({
  request: (options) => ({
    ...options,
    prompt: Prompt.fromMessages(Prompt.make(options.prompt).content.flatMap(alter))
  })
})

const answer = "an answer keeps its parts"
const equal = "a streamed answer becomes the same message"
const back = "the next request has the earlier answers"
const files = "files of the user are sent"
const choice = "the tool choice is sent"
const tools = "tools are offered"
const broken = "arguments that are not JSON"
const invented = "a call of a tool that was not offered"
const finish = "finish reasons are kept apart"
const refusal = "a refusal of the provider"
const cut = "a connection that breaks"
const closes = "interruption closes the connection"
const empty = "an empty answer is an answer"
const structured = "structured output"

/** Each with the rules that it breaks, and with the problem of the first one. */
const wrong: Readonly<Record<string, readonly [Change, rules: ReadonlyArray<string>, problem: string]>> = {
  "drops the signatures of reasoning": [
    parts((part) => changed(part, { metadata: {} })),
    [back],
    `"signature":"c2lnbmF0dXJlLTE="`
  ],
  "loses the usage of streams": [
    {
      streamed: Stream.map((part) =>
        part.type === "finish" ? ({ ...part, usage: { inputTokens: {}, outputTokens: {} } } as Part) : part
      )
    },
    [answer, equal],
    `the usage: expected [["cacheReadTokens",100]`
  ],
  "gives calls in another order": [
    { whole: Effect.map((all) => all.toSorted((a, b) => (a.type === "tool-call" && b.type === "tool-call" ? -1 : 0))) },
    [answer, equal, back, broken, invented],
    `the parts: expected`
  ],
  "drops reasoning": [parts((part) => (part.type.startsWith("reasoning") ? [] : [part])), [answer, back], "the parts"],
  "makes empty arguments of those that are not JSON": [
    parts((part) =>
      part.type === "tool-call" && typeof part.params === "string" ? changed(part, { params: {} }) : [part]
    ),
    [broken],
    `"arguments":"{}"`
  ],
  "fails for an invented tool": [
    {
      whole: Effect.flatMap((all) =>
        all.some((part) => part.type === "tool-call" && part.name === "invented")
          ? Effect.die("no such tool")
          : Effect.succeed(all)
      )
    },
    [invented],
    "no such tool"
  ],
  "makes text of an empty answer": [
    {
      whole: Effect.map((all) =>
        all.length === 1 ? [...all, { type: "text", text: "...", metadata: {} } as Part] : all
      )
    },
    [empty],
    "the parts: expected []"
  ],
  "knows one finish reason": [
    parts((part) => (part.type === "finish" ? changed(part, { reason: "stop" }) : [part])),
    [answer, finish],
    `the finish reason: expected "tool-calls"`
  ],
  "retries by itself": [
    { whole: Effect.retry({ times: 1 }), streamed: Stream.retry(Schedule.recurs(1)) },
    [refusal, cut],
    "number of requests: expected 1, got 2"
  ],
  "knows one error": [
    errors((error) => otherReason(error, new AiError.UnknownError({ description: "failed" }))),
    [refusal, cut],
    `status 400: expected ["InvalidRequestError",false,null]`
  ],
  "does not read when to retry": [
    errors((error) =>
      error.reason._tag === "RateLimitError" ? otherReason(error, new AiError.RateLimitError({})) : error
    ),
    [refusal],
    `status 429: expected ["RateLimitError",true,7]`
  ],
  "ends a stream that was cut": [
    { streamed: Stream.catch(() => Stream.empty) },
    [refusal, cut],
    "expected the call to fail"
  ],
  "keeps a stream until its end": [
    { streamed: (stream) => Stream.unwrap(Effect.map(Stream.runCollect(stream), Stream.fromIterable)) },
    [cut, closes],
    "the text: expected"
  ],
  "does not abort": [
    { whole: (effect) => Effect.flatMap(Effect.forkDetach(effect), Fiber.join) },
    [closes],
    "expected the provider to see that the connection is closed"
  ],
  "cannot be interrupted": [
    { whole: Effect.uninterruptible },
    [closes],
    "expected the call to end when it is interrupted"
  ],
  "drops the instructions": [
    messages((message) => (message.role === "system" ? [] : [message])),
    [back],
    `expected [{"type":"system"`
  ],
  "drops results of tools": [
    messages((message) => (message.role === "tool" ? [] : [message])),
    [back],
    "ids of results"
  ],
  "drops earlier answers": [
    messages((message) => (message.role === "assistant" ? [] : [message])),
    [back],
    "the conversation"
  ],
  "sends texts only": [
    messages((message) =>
      message.role === "user"
        ? [Prompt.userMessage({ content: message.content.filter(({ type }) => type === "text") })]
        : [message]
    ),
    [files],
    "the message: expected"
  ],
  "offers no tools": [{ request: ({ toolkit: _, ...options }) => options }, [tools, choice], "the tools: expected"],
  "leaves the choice to the model": [
    { request: (options) => ({ ...options, toolChoice: "auto" }) },
    [choice],
    "the choices"
  ],
  "sends another schema": [
    { request: (options) => ("schema" in options ? { ...options, schema: {} as never } : options) },
    [structured],
    ""
  ]
}

describe("MODEL-3 the scripted model passes the suite", () => {
  for (const { check, name } of LanguageModelConformance.checks("scripted", harness(), { limit: "2 minutes" }))
    it.live(name, () => check)
})

describe("MODEL-3 the suite rejects an adapter that is wrong", () => {
  for (const [name, [change, rules, problem]] of Object.entries(wrong)) {
    test.live(`it ${name}`, function* () {
      const checks = LanguageModelConformance.checks("wrong", harness(change), { limit: "1 second" })
      const results = yield* Effect.forEach(checks, ({ check }) => Effect.result(check), { concurrency: 4 })
      const found = results.flatMap((result) => (Result.isFailure(result) ? [result.failure] : []))
      const broke = [...new Set(found.map(({ check }) => rules.find((rule) => check.startsWith(rule)) ?? check))]
      assert.sameMembers(broke, [...rules], found.map(({ message }) => message).join("\n"))
      const [first = ""] = rules
      assert.include(found.find(({ check }) => check.startsWith(first))?.problem, problem)
    })
  }
})
