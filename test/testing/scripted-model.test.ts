import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, FileSystem, Layer, Option, Schema, Stream } from "effect"
import { AiError, LanguageModel, type Prompt, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import type { Limits } from "effect-emissary/payload"
import { ScriptedModel } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { after } from "../after.ts"
import { test } from "../test.ts"

const collect = (prompt: Prompt.RawInput) => Stream.runCollect(LanguageModel.streamText({ prompt }))

/** The text of a stream, joined: the same text that `generateText` returns. */
const joined = (parts: ReadonlyArray<{ readonly type: string; readonly delta?: string }>, type: string) =>
  parts
    .filter((part) => part.type === type)
    .map((part) => part.delta)
    .join("")

const scripted = <A, E, R>(
  script: ScriptedModel.Script,
  effect: Effect.Effect<A, E, R>,
  options?: Parameters<typeof ScriptedModel.layer>[1]
) => Effect.provide(effect, ScriptedModel.layer(script, options))

const Weather = Tool.make("weather", {
  description: "The weather",
  parameters: Schema.Struct({ city: Schema.String }),
  success: Schema.String
})
const toolkit = Toolkit.make(Weather)
/** Core takes the result of a provider-executed call only if the toolkit declares that tool. */
const Search = Tool.providerDefined({
  id: "scripted.search",
  customName: "search",
  providerName: "search",
  args: Schema.Struct({ max: Schema.Int }),
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.Struct({ hits: Schema.Int })
})
const handlers = toolkit.toLayer({ weather: ({ city }) => Effect.succeed(`sunny in ${city}`) })

describe("ScriptedModel", () => {
  test(
    "TEST-1 answers turns in order and records the requests",
    ScriptedModel.layer([
      { text: "one", usage: { inputTokens: 3, outputTokens: 4, cacheReadTokens: 1 } },
      { object: { a: [1] } }
    ]),
    function* () {
      const first = yield* LanguageModel.generateText({ prompt: "hello" })
      assert.strictEqual(first.text, "one")
      assert.strictEqual(first.finishReason, "stop")
      assert.strictEqual(first.usage.inputTokens.total, 3)
      assert.strictEqual(first.usage.inputTokens.cacheRead, 1)
      assert.strictEqual(first.usage.outputTokens.total, 4)
      const second = yield* LanguageModel.generateObject({
        prompt: [
          { role: "system", content: "be brief" },
          { role: "user", content: [{ type: "text", text: "object" }] }
        ],
        schema: Schema.Struct({ a: Schema.Array(Schema.Finite) })
      })
      assert.deepStrictEqual(second.value, { a: [1] })
      const requests = yield* ScriptedModel.requests
      assert.deepStrictEqual(
        requests.map(({ index, method, messages, responseFormat }) => [index, method, messages, responseFormat.type]),
        [
          [0, "generateText", [{ role: "user", text: "hello" }], "text"],
          [
            1,
            "generateObject",
            [
              { role: "system", text: "be brief" },
              { role: "user", text: "object" }
            ],
            "json"
          ]
        ]
      )
      yield* ScriptedModel.assertComplete
    }
  )

  test("TEST-1 streams the same turn in chunks, code points kept whole", function* () {
    const turn: ScriptedModel.Turn = {
      reasoning: { text: "let me think", metadata: { anthropic: { signature: "s1" } } },
      text: "ab😀cd",
      files: [{ mediaType: "image/png", data: "AAAA" }]
    }
    const parts = yield* scripted([turn], collect("x"), { chunkSize: 3 })
    assert.deepStrictEqual(
      parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])),
      ["ab😀", "cd"]
    )
    assert.strictEqual(joined(parts, "reasoning-delta"), "let me think")
    assert.deepStrictEqual(
      parts.flatMap((part) => (part.type === "reasoning-end" ? [part.metadata] : [])),
      [{ anthropic: { signature: "s1" } }]
    )
    assert.strictEqual(parts.at(-1)?.type, "finish")
    const whole = yield* scripted([turn], LanguageModel.generateText({ prompt: "x" }))
    assert.deepStrictEqual(pluck(whole.content, "type"), ["reasoning", "text", "file", "finish"])
    assert.strictEqual(whole.text, "ab😀cd")
  })

  test("TEST-1 tool calls: ids, arguments as text, provider-executed results, finish reason", function* () {
    const script: ScriptedModel.Script = [
      {
        toolCalls: [
          { name: "weather", params: { city: "Rome" } },
          { id: "given", name: "weather", arguments: "{broken" },
          { name: "search", params: { q: "x" }, providerExecuted: true, result: { hits: 1 } }
        ]
      }
    ]
    const options = {
      prompt: "go",
      toolkit: Toolkit.make(Search({ max: 1 })),
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    } as const
    const whole = yield* scripted(script, LanguageModel.generateText(options))
    assert.strictEqual(whole.finishReason, "tool-calls")
    assert.deepStrictEqual(
      whole.toolCalls.map((call) => [call.id, call.name, call.params, call.providerExecuted]),
      [
        ["call_1_1", "weather", { city: "Rome" }, false],
        ["given", "weather", "{broken", false],
        ["call_1_3", "search", { q: "x" }, true]
      ]
    )
    const streamed = yield* scripted(script, Stream.runCollect(LanguageModel.streamText(options)))
    assert.deepStrictEqual(
      streamed.flatMap((part) => (part.type === "tool-call" ? [[part.id, part.params]] : [])),
      whole.toolCalls.map((call) => [call.id, call.params])
    )
    assert.strictEqual(joined(streamed, "tool-params-delta"), `{"city":"Rome"}{broken{"q":"x"}`)
    assert.deepStrictEqual(
      streamed.flatMap((part) => (part.type === "tool-result" ? [part.result] : [])),
      [{ hits: 1 }]
    )
  })

  it.effect("TEST-1 works with core's own tool resolution", () =>
    scripted(
      [{ toolCalls: [{ name: "weather", params: { city: "Rome" } }], expect: { tools: ["weather"] } }],
      Effect.gen(function* () {
        const response = yield* LanguageModel.generateText({ prompt: "go", toolkit })
        assert.deepStrictEqual(pluck(response.toolResults, "result"), ["sunny in Rome"])
        const [request] = yield* ScriptedModel.requests
        assert.strictEqual(request?.tools[0]?.description, "The weather")
        assert.strictEqual(request?.toolChoice, "auto")
      })
    ).pipe(Effect.provide(handlers))
  )

  test(
    "TEST-1 a call past the end fails, typed, with the number of turns",
    ScriptedModel.layer([{ text: "only" }]),
    function* () {
      yield* LanguageModel.generateText({ prompt: "a" })
      const error = yield* Effect.flip(LanguageModel.generateText({ prompt: "once more" }))
      assert.isFalse(error.isRetryable)
      const reason = Option.getOrThrow(ScriptedModel.fromAiError(error)).reason
      assert.strictEqual(reason._tag, "ScriptExhausted")
      assert.include(error.message, "1 turn ")
      assert.include(error.message, "once more")
      const streamed = yield* Effect.flip(collect("again"))
      assert.isTrue(AiError.isAiError(streamed) && Option.isSome(ScriptedModel.fromAiError(streamed)))
      const reported = yield* Effect.flip(ScriptedModel.assertComplete)
      assert.strictEqual(reported.reason._tag, "ScriptExhausted")
    }
  )

  test(
    "DOCS-4 a condition with another name is a difference, and not overlooked",
    // a program without a compiler writes this
    ScriptedModel.layer([{ text: "a", expect: JSON.parse('{ "system": "kind" }') }]),
    function* () {
      const error = yield* Effect.flip(LanguageModel.generateText({ prompt: "x" }))
      assert.match(error.message, /expect: expected conditions among lastUserText, systemText, .*, found "system"/)
    }
  )

  test(
    "TEST-1 assertComplete fails while turns are left",
    ScriptedModel.layer([{ text: "a" }, { text: "b" }]),
    function* () {
      yield* LanguageModel.generateText({ prompt: "a" })
      const error = yield* Effect.flip(ScriptedModel.assertComplete)
      assert.include(error.reason, { _tag: "ScriptIncomplete", turns: 2, used: 1 })
    }
  )

  test(
    "TEST-1 a request that differs fails the call with expected and found, all differences",
    ScriptedModel.layer([
      {
        text: "never",
        expect: {
          lastUserText: "order 42",
          systemText: "kind",
          toolResult: "done",
          roles: ["user", "tool"],
          tools: ["weather"],
          toolChoice: "required",
          responseFormat: "json"
        }
      }
    ]),
    function* () {
      const error = yield* Effect.flip(LanguageModel.generateText({ prompt: "order 41" }))
      const { reason } = Option.getOrThrow(ScriptedModel.fromAiError(error))
      assert.strictEqual(reason._tag, "RequestMismatch")
      if (reason._tag !== "RequestMismatch") return
      assert.strictEqual(reason.turn, 1)
      assert.deepStrictEqual(
        reason.differences.map((d) => [d.what, d.expected, d.found]),
        [
          ["newest user message", `text with "order 42"`, `"order 41"`],
          ["system message", `text with "kind"`, "no such message"],
          ["tool results", `text with "done"`, "no such message"],
          ["roles", `["user","tool"]`, `["user"]`],
          ["tools offered", `["weather"]`, "[]"],
          ["tool choice", `"required"`, `"none"`],
          ["response format", `"json"`, `"text"`]
        ]
      )
      const reported = yield* Effect.flip(ScriptedModel.assertComplete)
      assert.strictEqual(reported.reason._tag, "RequestMismatch")
    }
  )

  test(
    "TEST-1 matchers that hold let the turn through",
    ScriptedModel.layer([
      {
        text: "ok",
        expect: {
          lastUserText: "42",
          toolResult: "shipped",
          roles: ["user", "assistant", "tool"],
          tools: [],
          responseFormat: "text"
        }
      }
    ]),
    function* () {
      const response = yield* LanguageModel.generateText({
        prompt: [
          { role: "user", content: [{ type: "text", text: "order 42" }] },
          {
            role: "assistant",
            content: [{ type: "tool-call", id: "1", name: "t", params: {}, providerExecuted: false }]
          },
          {
            role: "tool",
            content: [{ type: "tool-result", id: "1", name: "t", isFailure: false, result: { s: "shipped" } }]
          }
        ]
      })
      assert.strictEqual(response.text, "ok")
      yield* ScriptedModel.assertComplete
    }
  )

  test(
    "TEST-1 predicates as functions: boolean, Effect, failing Effect",
    ScriptedModel.layer([
      { text: "a", expect: (request) => request.messages.length === 1 },
      { text: "b", expect: () => Effect.succeed(false) },
      { text: "c", expect: () => Effect.fail("a polite question") },
      { text: "d", expect: () => Effect.void }
    ]),
    function* () {
      yield* LanguageModel.generateText({ prompt: "x" })
      assert.include((yield* Effect.flip(LanguageModel.generateText({ prompt: "x" }))).message, "expect function")
      assert.include((yield* Effect.flip(LanguageModel.generateText({ prompt: "x" }))).message, "a polite question")
      yield* LanguageModel.generateText({ prompt: "x" })
    }
  )

  test("TEST-1 conditional scripts: a function per turn and a function for all", function* () {
    const echo: ScriptedModel.TurnFunction = ({ index, messages }) =>
      Effect.succeed({ text: `${index}:${messages.at(-1)?.text}` })
    const two = Effect.all([
      LanguageModel.generateText({ prompt: "p" }),
      LanguageModel.generateText({ prompt: "q" })
    ]).pipe(
      Effect.map((responses) => responses.map((response) => response.text)),
      Effect.tap(ScriptedModel.assertComplete)
    )
    assert.deepStrictEqual(yield* scripted(echo, two), ["0:p", "1:q"])
    assert.deepStrictEqual(yield* scripted([{ text: "fixed" }, echo], two), ["fixed", "1:q"])
  })

  test("TEST-1 every failure by name needs no other field", function* () {
    for (const reason of [
      "RateLimitError",
      "QuotaExhaustedError",
      "AuthenticationError",
      "ContentPolicyError",
      "InvalidRequestError",
      "InvalidResponseError",
      "InternalProviderError",
      "NetworkError",
      "InvalidOutputError",
      "ToolNotFoundError",
      "ToolParameterValidationError",
      "UnknownError"
    ] as const) {
      const failed = Effect.flip(LanguageModel.generateText({ prompt: "x" }))
      assert.strictEqual((yield* scripted([{ fail: { reason } }], failed)).reason._tag, reason)
    }
  })

  test("TEST-1 failures by name and as AiError reasons; a stream breaks after its content", function* () {
    const script: ScriptedModel.Script = [
      { fail: { reason: "RateLimitError", retryAfter: 7000 } },
      { fail: new AiError.QuotaExhaustedError({}) },
      { fail: new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "http://x.invalid/" }) },
      { text: "half an ans", fail: { reason: "InternalProviderError", description: "cut" } }
    ]
    yield* scripted(
      script,
      Effect.gen(function* () {
        const call = Effect.flip(LanguageModel.generateText({ prompt: "x" }))
        const limited = yield* call
        assert.strictEqual(limited.reason._tag, "RateLimitError")
        assert.isTrue(limited.isRetryable)
        assert.strictEqual((yield* call).reason._tag, "QuotaExhaustedError")
        assert.strictEqual((yield* call).reason._tag, "NetworkError")
        const seen: Array<string> = []
        const error = yield* LanguageModel.streamText({ prompt: "x" }).pipe(
          Stream.runForEach((part) =>
            Effect.sync(() => seen.push(part.type === "text-delta" ? part.delta : part.type))
          ),
          Effect.flip
        )
        assert.include(error.message, "cut")
        assert.deepStrictEqual(seen, ["text-start", "half an ", "ans", "text-end"])
        yield* ScriptedModel.assertComplete
      })
    )
  })

  test(
    "TEST-1 delays run on the test clock",
    ScriptedModel.layer([
      { text: "slow", delay: "5 seconds" },
      { text: "0123456789", chunkDelay: 100 }
    ]),
    function* () {
      const fiber = yield* Effect.forkChild(LanguageModel.generateText({ prompt: "x" }))
      yield* TestClock.adjust("4999 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.strictEqual((yield* Fiber.join(fiber)).text, "slow")
      const deltas: Array<string> = []
      const stream = yield* LanguageModel.streamText({ prompt: "x" }).pipe(
        Stream.runForEach((part) => Effect.sync(() => part.type === "text-delta" && deltas.push(part.delta))),
        Effect.forkChild
      )
      yield* TestClock.adjust("200 millis")
      assert.deepStrictEqual(deltas, ["01234567"])
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(stream)
      assert.deepStrictEqual(deltas, ["01234567", "89"])
    }
  )

  test("TEST-1 raw parts: error part, deltas without start, missing finish", function* () {
    const script: ScriptedModel.Script = [
      {
        parts: [
          { type: "text-delta", id: "t", delta: "no " },
          { type: "text-delta", id: "t", delta: "start" }
        ],
        finishReason: "missing"
      },
      { text: "then", parts: [{ type: "error", error: "boom" }], finishReason: "missing" }
    ]
    yield* scripted(
      script,
      Effect.gen(function* () {
        const parts = yield* collect("x")
        assert.deepStrictEqual(pluck(parts, "type"), ["text-delta", "text-delta"])
        const broken = yield* collect("x")
        assert.strictEqual(broken.at(-1)?.type, "error")
      })
    )
    yield* scripted(
      script,
      Effect.gen(function* () {
        const response = yield* LanguageModel.generateText({ prompt: "x" })
        assert.strictEqual(response.text, "no start")
        assert.strictEqual(response.finishReason, "unknown")
        assert.include((yield* Effect.flip(LanguageModel.generateText({ prompt: "x" }))).message, "boom")
      })
    )
  })

  test("TEST-1 one layer value holds one script, used up across providers of it", function* () {
    const model = yield* Layer.build(ScriptedModel.layer([{ text: "a" }, { text: "b" }]))
    for (const text of ["a", "b"]) {
      const answer = yield* LanguageModel.generateText({ prompt: "x" }).pipe(Effect.provideContext(model))
      assert.strictEqual(answer.text, text)
    }
    yield* Effect.provideContext(ScriptedModel.assertComplete, model)
  })
})

describe("a script in JSON", () => {
  const fromFile = (text: string, limits?: Partial<Limits.Limits>) =>
    ScriptedModel.layerFile("script.json", { limits }).pipe(
      Layer.provide(FileSystem.layerNoop({ readFile: () => Effect.succeed(new TextEncoder().encode(text)) }))
    )
  const json = JSON.stringify({
    chunkSize: 2,
    turns: [
      { toolCalls: [{ name: "login", params: { password: "p" } }], expect: { lastUserText: "hi", toolChoice: "auto" } },
      { text: "abcde", delay: 1000, finishReason: "length", usage: { inputTokens: 1 } },
      { fail: { reason: "RateLimitError", retryAfter: 50 } }
    ]
  })

  test("TEST-1 answers as the same script in code", fromFile(json), function* () {
    const first = yield* LanguageModel.generateText({
      prompt: "hi",
      toolkit: Toolkit.make(Search({ max: 1 })),
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    })
    assert.deepStrictEqual(first.toolCalls[0]?.params, { password: "p" })
    const parts = yield* after(1000, collect("x"))
    assert.deepStrictEqual(
      parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])),
      ["ab", "cd", "e"]
    )
    const error = yield* Effect.flip(LanguageModel.generateText({ prompt: "x" }))
    assert.strictEqual(error.retryAfter === undefined ? undefined : Duration.toMillis(error.retryAfter), 50)
    yield* ScriptedModel.assertComplete
  })

  test("L2 a script from outside is decoded within limits, and unknown keys are rejected", function* () {
    const rejected = (text: string, limits?: Partial<Limits.Limits>) =>
      Layer.build(fromFile(text, limits)).pipe(
        Effect.flip,
        Effect.map((error) => error.reason._tag)
      )
    assert.strictEqual(yield* rejected(`{"turns":[{"txt":"typo"}]}`), "Invalid")
    assert.strictEqual(yield* rejected(`{"turns":[{"text":"`), "NotJson")
    assert.strictEqual(yield* rejected(json, { maxArrayLength: 2 }), "TooLarge")
  })
})

describe("streaming and non-streaming alike", () => {
  const optional = Schema.optionalKey
  const Turn = Schema.Struct({
    reasoning: optional(Schema.String),
    text: optional(Schema.String),
    files: optional(
      Schema.Array(Schema.Struct({ mediaType: Schema.Literal("image/png"), data: Schema.Literal("AAAA") }))
    ),
    toolCalls: optional(
      Schema.Array(
        Schema.Struct({
          id: optional(Schema.Literals(["a", "b"])),
          name: Schema.Literals(["weather", "unknown"]),
          params: optional(Schema.Struct({ city: Schema.String }))
        })
      )
    ),
    usage: optional(Schema.Struct({ inputTokens: optional(Schema.Int), reasoningTokens: optional(Schema.Int) })),
    finishReason: optional(Schema.Literals(["stop", "length", "pause", "missing"]))
  })

  const options = {
    prompt: "x",
    toolkit: toolkit,
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  } as const

  it.effect.prop("TEST-1 both produce the same", [Turn, Schema.Literals([1, 3, 100])], ([turn, chunkSize]) =>
    Effect.gen(function* () {
      const whole = yield* scripted([turn], LanguageModel.generateText(options))
      const parts = yield* scripted([turn], Stream.runCollect(LanguageModel.streamText(options)), { chunkSize })
      assert.strictEqual(joined(parts, "text-delta"), whole.text)
      assert.strictEqual(joined(parts, "reasoning-delta"), whole.reasoningText ?? "")
      const rest = (all: ReadonlyArray<{ readonly type: string }>) =>
        JSON.stringify(all.filter((part) => ["file", "tool-call", "finish"].includes(part.type)))
      assert.strictEqual(rest(parts), rest(whole.content))
    }).pipe(Effect.provide(handlers))
  )
})
