import { assert, describe } from "@effect/vitest"
import type { LanguageModelV4Content, LanguageModelV4Message } from "@ai-sdk/provider"
import { Effect, Logger, Schema, Stream, Tracer } from "effect"
import { LanguageModel, Model, Prompt, Response, Tool, Toolkit } from "effect/ai"
import * as modelMessages from "#src/conversation/internal/modelMessages.ts"
import { Agent, AgentEvent } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { test } from "../test.ts"
import { handmade, stop, usage, type Answer } from "./handmade.ts"

const Search = Tool.dynamic("search", { parameters: { type: "object" }, success: Schema.Json, failure: Schema.Json })

/** A request as an agent makes it. */
const request = {
  prompt: "Hi",
  toolkit: Toolkit.make(Search),
  disableToolCallResolution: true,
  toolCallValidation: "deferred"
} as const

const generate = (answer: Answer, provider = "openai.chat") =>
  Effect.map(
    LanguageModel.generateText(request).pipe(Effect.provide(AiSdk.model(handmade([answer], { provider }).model))),
    ({ content }) => content
  )

const stream = (answer: Answer) =>
  LanguageModel.streamText(request).pipe(Stream.runCollect, Effect.provide(AiSdk.model(handmade([answer]).model)))

/** The content that an agent keeps of a response. */
const collect = (parts: ReadonlyArray<Response.AnyPart>) => {
  const accumulator = modelMessages.accumulator()
  for (const part of parts) accumulator.add(part)
  accumulator.end()
  return accumulator.result()
}

const signed = { anthropic: { signature: "sig-1" } }

const everyPart: Array<LanguageModelV4Content> = [
  { type: "reasoning", text: "Let me think.", providerMetadata: signed },
  { type: "text", text: "Here it is.", providerMetadata: { openai: { itemId: "msg_1" } } },
  { type: "tool-call", toolCallId: "c1", toolName: "weather", input: `{"city":"Rome"}` },
  { type: "tool-call", toolCallId: "c2", toolName: "search", input: "{}", providerExecuted: true },
  { type: "tool-result", toolCallId: "c2", toolName: "search", result: { hits: 1 } },
  { type: "source", sourceType: "url", id: "s1", url: "https://example.com/a", title: "A" },
  { type: "source", sourceType: "url", id: "s2", url: "https://example.com/b" },
  { type: "source", sourceType: "document", id: "s3", mediaType: "application/pdf", title: "D", filename: "d.pdf" },
  { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
  { type: "file", mediaType: "image/png", data: { type: "data", data: new Uint8Array([1, 2, 3]) } },
  { type: "custom", kind: "openai.compaction", providerMetadata: { openai: { itemId: "cmp_1" } } }
]

const complete: Answer = {
  content: everyPart,
  finishReason: { unified: "tool-calls", raw: "tool_calls" },
  providerMetadata: { openai: { serviceTier: "flex" } },
  response: { id: "r1", modelId: "small-2026", timestamp: new Date(0) }
}

describe("MODEL-1 answers", () => {
  test("MODEL-1 every part of an answer becomes a part of effect/ai", function* () {
    const parts = yield* generate(complete)
    assert.deepStrictEqual(
      parts.map(({ type }) => type),
      [
        "response-metadata",
        "reasoning",
        "text",
        "tool-call",
        "tool-call",
        "tool-result",
        "source",
        "source",
        "source",
        "file",
        "file",
        "text",
        "finish"
      ]
    )
    const encoded = Schema.encodeSync(Schema.Array(Response.Part()))(parts)
    assert.deepInclude(encoded[0], { id: "r1", modelId: "small-2026", timestamp: "1970-01-01T00:00:00.000Z" })
    assert.deepInclude(encoded[1], { text: "Let me think.", metadata: signed })
    assert.deepInclude(encoded[3], { id: "c1", name: "weather", params: { city: "Rome" }, providerExecuted: false })
    assert.deepInclude(encoded[4], { id: "c2", params: {}, providerExecuted: true })
    assert.deepInclude(encoded[5], { id: "c2", result: { hits: 1 }, isFailure: false, providerExecuted: true })
    assert.deepInclude(encoded[7], { url: "https://example.com/b", title: "https://example.com/b" })
    assert.deepInclude(encoded[8], { sourceType: "document", mediaType: "application/pdf", fileName: "d.pdf" })
    assert.deepInclude(encoded[9], { mediaType: "image/png", data: "AQID" })
    assert.deepInclude(encoded[10], { data: "AQID" })
    assert.deepInclude(encoded[12], {
      reason: "tool-calls",
      usage: {
        inputTokens: { uncached: 8, total: 11, cacheRead: 2, cacheWrite: 1 },
        outputTokens: { total: 7, text: 4, reasoning: 3 }
      },
      metadata: { openai: { serviceTier: "flex" } }
    })
  })

  test("MODEL-1 a stream and an answer that is generated at once are the same", function* () {
    const generated = collect(yield* generate(complete))
    const streamed = collect(yield* stream(complete))
    assert.isAbove(generated.content.length, 9)
    assert.deepStrictEqual(streamed, generated)
  })

  test("MODEL-1 the metadata of the parts of a stream is merged", function* () {
    const parts = yield* stream({
      parts: [
        { type: "reasoning-start", id: "r", providerMetadata: { openai: { itemId: "rs_1" } } },
        { type: "reasoning-delta", id: "r", delta: "Hm." },
        { type: "reasoning-end", id: "r", providerMetadata: { openai: { encrypted: "e" } } },
        { type: "ping" },
        { type: "custom", kind: "anthropic.message_start", providerMetadata: { anthropic: { id: "1" } } },
        { type: "raw", rawValue: {} },
        { type: "finish", finishReason: stop, usage }
      ]
    })
    const { content } = collect(parts)
    assert.deepStrictEqual(content, [
      { type: "reasoning", text: "Hm.", options: { openai: { itemId: "rs_1", encrypted: "e" } } }
    ])
  })

  test("MODEL-1 arguments that are no JSON, or not safe, are passed on as text", function* () {
    const inputs = [`{"city":`, `{"__proto__":{"a":1}}`, "", `{"a":1}`]
    const parts = yield* generate({
      content: inputs.map((input, index) => ({ type: "tool-call", toolCallId: `c${index}`, toolName: "t", input }))
    })
    assert.deepStrictEqual(
      parts.flatMap((part) => (part.type === "tool-call" ? [part.params] : [])),
      [`{"city":`, `{"__proto__":{"a":1}}`, {}, { a: 1 }]
    )
  })

  test("MODEL-1 every finish reason", function* () {
    const cases = [
      ["stop", "stop", "stop"],
      ["length", "length", "length"],
      ["content-filter", "refusal", "content-filter"],
      ["tool-calls", "tool_use", "tool-calls"],
      ["error", "x", "error"],
      ["other", "compaction", "other"],
      // RIGHT-6: reasons that the client does not know, and none
      ["other", "OTHER", "other"],
      ["other", "eos", "unknown"],
      ["other", "", "unknown"],
      ["other", undefined, "unknown"],
      ["stop", "pause_turn", "pause"],
      ["interrupted", undefined, "other"]
    ] as const
    for (const [unified, raw, expected] of cases) {
      const parts = yield* generate({ finishReason: { unified, raw } })
      assert.deepInclude(parts.at(-1), { type: "finish", reason: expected })
    }
  })

  test("MODEL-1 a provider's own tool may fail", function* () {
    const parts = yield* generate({
      content: [
        { type: "tool-call", toolCallId: "c2", toolName: "search", input: "{}", providerExecuted: true },
        { type: "tool-result", toolCallId: "c2", toolName: "search", result: "no", isError: true }
      ]
    })
    assert.deepInclude(parts[2], { type: "tool-result", result: "no", isFailure: true, providerExecuted: true })
  })

  test("MODEL-1 calls and results of tools that only the provider knows return to it", function* () {
    const hidden = { toolCallId: "m1", toolName: "mcp.list", providerExecuted: true, dynamic: true }
    const answer: Answer = {
      content: [
        { type: "tool-call", ...hidden, input: `{"a":1}`, providerMetadata: { openai: { itemId: "i1" } } },
        { type: "tool-result", toolCallId: "m1", toolName: "mcp.list", result: [1] },
        { type: "text", text: "Done." }
      ]
    }
    const { calls, model } = handmade([answer, answer])
    const both = [
      Prompt.fromResponseParts(yield* generate(answer)),
      Prompt.fromResponseParts(Array.from(yield* stream(answer)))
    ]
    for (const prompt of both) yield* LanguageModel.generateText({ prompt }).pipe(Effect.provide(AiSdk.model(model)))
    for (const { prompt } of calls) {
      assert.deepStrictEqual(prompt[0]?.content, [
        {
          type: "tool-call",
          toolCallId: "m1",
          toolName: "mcp.list",
          input: { a: 1 },
          providerExecuted: true,
          providerOptions: { openai: { itemId: "i1" } }
        },
        { type: "tool-result", toolCallId: "m1", toolName: "mcp.list", output: { type: "json", value: [1] } },
        { type: "text", text: "Done." }
      ])
    }
  })

  test("MODEL-1 counts that are no integers are left out", function* () {
    const parts = yield* generate({
      usage: {
        inputTokens: { total: Number.NaN, noCache: undefined, cacheRead: 1.5, cacheWrite: undefined },
        outputTokens: { total: 3, text: undefined, reasoning: undefined }
      }
    })
    const finish = parts.at(-1)
    assert(finish?.type === "finish")
    assert.isUndefined(finish.usage.inputTokens.total)
    assert.isUndefined(finish.usage.inputTokens.cacheRead)
    assert.strictEqual(finish.usage.outputTokens.total, 3)
  })

  test("MODEL-1 metadata and sources that effect/ai could not hold do not lose the answer", function* () {
    const parts = yield* generate({
      content: [
        // Sound: clients are not checked at run time.
        { type: "text", text: "a", providerMetadata: { x: { f: () => 1, n: 1 } } as never },
        { type: "source", sourceType: "url", id: "s", url: "not a url" },
        { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("https://example.com/i.png") } }
      ]
    })
    assert.deepInclude(parts[1], { text: "a", metadata: { x: { n: 1 } } })
    assert.deepInclude(parts[2], { sourceType: "document", title: "not a url" })
    assert.deepInclude(parts[3], { type: "source", sourceType: "url", title: "image/png" })
  })

  test("MODEL-1 a kind of part that a newer client has is left out", function* () {
    // Sound: not for this version of the interface, as the parts of a newer client are not
    const newer = { type: "hologram", id: "h1" } as unknown as LanguageModelV4Content
    const answer: Answer = { content: [newer, { type: "text", text: "Hi" }] }
    assert.deepStrictEqual(
      (yield* generate(answer)).map(({ type }) => type),
      ["response-metadata", "text", "finish"]
    )
    assert.deepStrictEqual(
      (yield* stream(answer)).map(({ type }) => type),
      ["text-start", "text-delta", "text-end", "finish"]
    )
  })

  test("MODEL-1 a warning is logged once", function* () {
    const logged: Array<unknown> = []
    const logger = Logger.make(({ message }) => void logged.push(message))
    const { model } = handmade([
      { warnings: [{ type: "unsupported", feature: "topK" }] },
      {
        warnings: [
          { type: "unsupported", feature: "topK" },
          { type: "other", message: "careful" }
        ]
      },
      { warnings: [{ type: "deprecated", setting: "stop", message: "use another" }] }
    ])
    yield* Effect.gen(function* () {
      yield* LanguageModel.generateText({ prompt: "1" })
      yield* LanguageModel.generateText({ prompt: "2" })
      yield* Stream.runDrain(LanguageModel.streamText({ prompt: "3" }))
    }).pipe(Effect.provide([AiSdk.model(model), Logger.layer([logger])]))
    assert.deepStrictEqual(logged.flat(), [
      "AiSdk: openai.chat small: unsupported: topK",
      "AiSdk: openai.chat small: careful",
      "AiSdk: openai.chat small: stop is deprecated: use another"
    ])
  })

  test("MODEL-1 the span has the attributes of gen_ai", function* () {
    const spans: Array<Tracer.NativeSpan> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    const { model } = handmade([complete, complete])
    yield* Effect.gen(function* () {
      yield* LanguageModel.generateText(request)
      yield* Stream.runDrain(LanguageModel.streamText(request))
    }).pipe(
      Effect.provide(AiSdk.model(model, { temperature: 0.5, max_tokens: 9, stop: "END" })),
      Effect.provideService(Tracer.Tracer, tracer)
    )
    assert.strictEqual(spans.length, 2)
    for (const span of spans) {
      const attributes = Object.fromEntries(span.attributes)
      assert.deepInclude(attributes, {
        "gen_ai.provider.name": "openai",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "small",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.id": "r1",
        "gen_ai.response.model": "small-2026",
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7
      })
      assert.deepStrictEqual(attributes["gen_ai.request.stop_sequences"], ["END"])
      assert.deepStrictEqual(attributes["gen_ai.response.finish_reasons"], ["tool-calls"])
    }
  })

  test("MODEL-1 the layer names its provider and its model", function* () {
    const names = yield* Effect.all([Model.ProviderName, Model.ModelName]).pipe(
      Effect.provide(AiSdk.model(handmade([], { provider: "google.generative-ai", modelId: "flash" }).model))
    )
    assert.deepStrictEqual(names, ["google", "flash"])
  })

  test("MODEL-1 the selected text is the structured output", function* () {
    const { model } = handmade([
      {
        content: [
          { type: "text", text: "A draft." },
          { type: "text", text: "Final:" }
        ],
        structuredOutputText: `{"n":1}`
      }
    ])
    const { value } = yield* LanguageModel.generateObject({
      prompt: "1",
      schema: Schema.Struct({ n: Schema.Finite })
    }).pipe(Effect.provide(AiSdk.model(model)))
    assert.deepStrictEqual(value, { n: 1 })
  })
})

/** The prompt that the model receives. */
const sent = (prompt: Prompt.RawInput, provider?: string) =>
  Effect.gen(function* () {
    const { calls, model } = handmade([{}], provider === undefined ? {} : { provider })
    yield* LanguageModel.generateText({ prompt }).pipe(Effect.provide(AiSdk.model(model)))
    return calls[0]?.prompt ?? []
  })

describe("MODEL-1 prompts", () => {
  test("MODEL-1 every part of a prompt becomes a part of the AI SDK", function* () {
    const cache = { anthropic: { cacheControl: { type: "ephemeral" } } }
    const bytes = new Uint8Array([1, 2])
    const prompt = yield* sent([
      { role: "system", content: "Be brief.", options: cache },
      {
        role: "user",
        content: [
          Prompt.textPart({ text: "Look", options: cache }),
          Prompt.filePart({ mediaType: "image/png", data: bytes, fileName: "a.png" }),
          Prompt.filePart({ mediaType: "image/png", data: "AQID" }),
          Prompt.filePart({ mediaType: "image/png", data: "data:image/png;base64,AQID" }),
          Prompt.filePart({ mediaType: "image/png", data: new URL("https://example.com/i.png") }),
          Prompt.filePart({ mediaType: "image/png", data: "https://example.com/i.png" })
        ]
      },
      {
        role: "assistant",
        content: [
          Prompt.reasoningPart({ text: "Hm", options: signed }),
          Prompt.textPart({ text: "I look." }),
          Prompt.toolCallPart({ id: "c1", name: "weather", params: { city: "Rome" }, providerExecuted: false }),
          Prompt.toolCallPart({ id: "c2", name: "search", params: {}, providerExecuted: true }),
          Prompt.toolResultPart({ id: "c2", name: "search", isFailure: true, result: "no", providerExecuted: true }),
          Prompt.toolApprovalRequestPart({ approvalId: "a1", toolCallId: "c1" })
        ]
      },
      {
        role: "tool",
        content: [
          Prompt.toolResultPart({
            id: "c1",
            name: "weather",
            isFailure: false,
            result: { t: 1 },
            providerExecuted: false
          })
        ]
      },
      { role: "assistant", content: [] }
    ])
    const expected: Array<LanguageModelV4Message> = [
      { role: "system", content: "Be brief.", providerOptions: cache },
      {
        role: "user",
        content: [
          { type: "text", text: "Look", providerOptions: cache },
          { type: "file", mediaType: "image/png", data: { type: "data", data: bytes }, filename: "a.png" },
          { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
          { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
          { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("https://example.com/i.png") } },
          { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("https://example.com/i.png") } }
        ]
      },
      {
        role: "assistant",
        content: [
          { type: "reasoning", text: "Hm", providerOptions: signed },
          { type: "text", text: "I look." },
          { type: "tool-call", toolCallId: "c1", toolName: "weather", input: { city: "Rome" } },
          { type: "tool-call", toolCallId: "c2", toolName: "search", input: {}, providerExecuted: true },
          { type: "tool-result", toolCallId: "c2", toolName: "search", output: { type: "error-json", value: "no" } }
        ]
      },
      {
        role: "tool",
        content: [
          { type: "tool-result", toolCallId: "c1", toolName: "weather", output: { type: "json", value: { t: 1 } } }
        ]
      }
    ]
    assert.deepStrictEqual(prompt, expected)
  })

  test("MODEL-1 a result is sent in the form of its model output, and its files apart where results are text", function* () {
    const text = Prompt.textPart({ text: "Sunny" })
    const file = Prompt.filePart({ mediaType: "image/png", data: "AQID" })
    const results: Array<Parameters<typeof Prompt.toolResultPart>[0]> = [
      { id: "1", name: "t", isFailure: false, result: { a: 1 }, modelOutput: [text], providerExecuted: false },
      { id: "2", name: "t", isFailure: true, result: { a: 1 }, modelOutput: [text, text], providerExecuted: false },
      { id: "3", name: "t", isFailure: false, result: { a: 1 }, modelOutput: [text, file], providerExecuted: false },
      { id: "4", name: "t", isFailure: false, result: "plain", providerExecuted: false },
      { id: "5", name: "t", isFailure: true, result: "plain", providerExecuted: false },
      { id: "6", name: "t", isFailure: true, result: { a: 1 }, providerExecuted: false },
      {
        id: "7",
        name: "t",
        isFailure: true,
        result: { type: "execution-denied", reason: "no" },
        providerExecuted: false
      }
    ]
    const prompt = Prompt.make([
      {
        role: "assistant",
        content: results.map(({ id }) => Prompt.toolCallPart({ id, name: "t", params: {}, providerExecuted: false }))
      },
      { role: "tool", content: results.map((result) => Prompt.toolResultPart(result)) }
    ])
    const [, message] = yield* sent(prompt, "openai.responses")
    assert(message?.role === "tool")
    assert.deepStrictEqual(
      message.content.map((part) => (part.type === "tool-result" ? part.output : part)),
      [
        { type: "text", value: "Sunny" },
        { type: "error-text", value: "Sunny\nSunny" },
        {
          type: "content",
          value: [
            { type: "text", text: "Sunny" },
            { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } }
          ]
        },
        { type: "text", value: "plain" },
        { type: "error-text", value: "plain" },
        { type: "error-json", value: { a: 1 } },
        { type: "execution-denied", reason: "no" }
      ]
    )
    const [, apart, files] = yield* sent(prompt, "openai.chat")
    assert(apart?.role === "tool" && files?.role === "user")
    const [, , third] = apart.content
    const output = { type: "text" as const, value: "Sunny\n[image/png: see the next message]" }
    assert.deepStrictEqual(third?.type === "tool-result" ? third.output : third, output)
    assert.deepStrictEqual(files.content, [
      { type: "text", text: "The files of the tool results:" },
      { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } }
    ])
  })

  test("MODEL-1 an answer returns to its provider with its metadata, generated and streamed", function* () {
    const answer: Answer = {
      content: [
        { type: "reasoning", text: "Let me think.", providerMetadata: signed },
        { type: "custom", kind: "openai.compaction", providerMetadata: { openai: { itemId: "cmp_1" } } },
        {
          type: "reasoning-file",
          mediaType: "image/png",
          data: { type: "data", data: "AQID" },
          providerMetadata: { google: { thoughtSignature: "x" } }
        },
        { type: "text", text: "Here.", providerMetadata: { openai: { itemId: "msg_1" } } }
      ]
    }
    for (const how of ["generate", "stream"]) {
      const { calls, model } = handmade([answer, { content: [{ type: "text", text: "Done." }] }])
      const agent = Agent.make("a", {})
      const first =
        how === "generate"
          ? Effect.map(agent.run("1"), ({ conversation }) => conversation)
          : Effect.map(AgentEvent.result(agent.stream("1")), ({ conversation }) => conversation)
      yield* Effect.flatMap(first, (conversation) => agent.run("2", { conversation })).pipe(
        Effect.provide(AiSdk.model(model))
      )
      assert.deepStrictEqual(calls[1]?.prompt[1], {
        role: "assistant",
        content: [
          { type: "reasoning", text: "Let me think.", providerOptions: signed },
          { type: "custom", kind: "openai.compaction", providerOptions: { openai: { itemId: "cmp_1" } } },
          {
            type: "reasoning-file",
            mediaType: "image/png",
            data: { type: "data", data: "AQID" },
            providerOptions: { google: { thoughtSignature: "x" } }
          },
          { type: "text", text: "Here.", providerOptions: { openai: { itemId: "msg_1" } } }
        ]
      })
    }
  })
})
