import { assert, describe } from "@effect/vitest"
import {
  APICallError,
  InvalidResponseDataError,
  LoadAPIKeyError,
  NoSuchModelError,
  UnsupportedFunctionalityError
} from "@ai-sdk/provider"
import type { LanguageModelV4CallOptions, LanguageModelV4FunctionTool } from "@ai-sdk/provider"
import { Cause, Duration, Effect, Exit, Fiber, Option, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { LanguageModel, Prompt, Tool, type Toolkit } from "effect/ai"
import { Agent, AgentError, Limits } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { test } from "../test.ts"
import { handmade, stop, usage, type Answer } from "./handmade.ts"

const closed = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false
}

const dynamic = (name: string, parameters: object) => Tool.dynamic(name, { parameters: { ...parameters } })

type Offered = Tool.Tool<
  string,
  {
    readonly parameters: Schema.Codec<unknown>
    readonly success: Schema.Codec<unknown>
    readonly failure: Schema.Codec<unknown>
    readonly failureMode: "return"
  }
>

// Sound: no tool is called, so its types do not matter.
const toolkitOf = (tools: ReadonlyArray<Tool.Any>): Toolkit.WithHandler<Record<string, Offered>> => ({
  tools: Object.fromEntries(tools.map((tool) => [tool.name, tool as Offered])),
  handle: () => Effect.die("no tool is called")
})

/** The call that the model receives. */
const called = (
  tools: ReadonlyArray<Tool.Any>,
  {
    provider,
    toolChoice = "auto",
    ...options
  }: AiSdk.Options & { readonly provider?: string; readonly toolChoice?: LanguageModel.ToolChoice<string> } = {}
) =>
  Effect.gen(function* () {
    const { calls, model } = handmade([{}], provider === undefined ? {} : { provider })
    const request = { prompt: "Hi", toolkit: toolkitOf(tools), disableToolCallResolution: true, toolChoice } as const
    yield* LanguageModel.generateText(request).pipe(Effect.provide(AiSdk.model(model, options)))
    return calls[0] ?? assert.fail("no call")
  })

const Closed = dynamic("closed", closed)
const Open = dynamic("open", { type: "object", properties: { city: { type: "string" } } })
const Bounded = dynamic("bounded", { ...closed, properties: { city: { type: "integer", minimum: 1 } } })
const FromSchema = Tool.make("from_schema", { parameters: Schema.Struct({ city: Schema.String }) })
const Loose = Tool.make("loose", { parameters: Schema.Struct({ city: Schema.optionalKey(Schema.String) }) })
const NeverStrict = dynamic("never_strict", closed).annotate(Tool.Strict, false)
const Search = Tool.providerDefined({
  id: "openai.web_search",
  customName: "web",
  providerName: "web_search",
  args: Schema.Struct({ searchContextSize: Schema.String })
})({ searchContextSize: "low" })

const tools = [Closed, Open, Bounded, FromSchema, Loose, NeverStrict, Search]

const strictOf = ({ tools = [] }: LanguageModelV4CallOptions) =>
  Object.fromEntries(tools.flatMap((tool) => (tool.type === "function" ? [[tool.name, tool.strict]] : [])))

const schemaOf = ({ tools = [] }: LanguageModelV4CallOptions, name: string) =>
  tools.find((tool): tool is LanguageModelV4FunctionTool => tool.type === "function" && tool.name === name)?.inputSchema

describe("MODEL-1 tools", () => {
  test("MODEL-1 strict is for schemas in the strict form, where the provider has it", function* () {
    const openai = yield* called(tools)
    const none = { open: false, loose: false, never_strict: false }
    assert.deepStrictEqual(strictOf(openai), { closed: true, bounded: true, from_schema: true, ...none })
    assert.deepStrictEqual(schemaOf(openai, "open"), { type: "object", properties: { city: { type: "string" } } })
    assert.deepInclude(schemaOf(openai, "from_schema"), { additionalProperties: false, required: ["city"] })
    assert.deepStrictEqual(openai.tools?.at(-1), {
      type: "provider",
      id: "openai.web_search",
      name: "web",
      args: { searchContextSize: "low" }
    })
    assert.deepStrictEqual(openai.toolChoice, { type: "auto" })

    const google = yield* called(tools, { provider: "google.generative-ai" })
    assert.deepStrictEqual(new Set(Object.values(strictOf(google))), new Set([false]))

    // Anthropic refuses a strict tool with a keyword that it does not compile, and more than 20 of them
    const anthropic = yield* called([Closed, Open], { provider: "anthropic.messages" })
    assert.deepStrictEqual(strictOf(anthropic), { closed: true, open: false })
    const bounded = yield* called([Closed, Bounded], { provider: "anthropic.messages" })
    assert.deepStrictEqual(strictOf(bounded), { closed: false, bounded: false })
    const many = Array.from({ length: 21 }, (_, index) => dynamic(`t${index}`, closed))
    const refused = yield* called(many, { provider: "anthropic.messages" })
    assert.deepStrictEqual(new Set(Object.values(strictOf(refused))), new Set([false]))
  })

  test("MODEL-1 a tool with what OpenAI refuses in a strict schema is offered without strict", function* () {
    const city = (schema: Record<string, Schema.Json>, more = {}) => ({
      ...closed,
      properties: { city: schema },
      ...more
    })
    const text = { type: "string" }
    const nest = (depth: number): Record<string, Schema.Json> => (depth === 0 ? text : city(nest(depth - 1)))
    const $defs = { City: text }
    const refused = {
      uri: city({ ...text, format: "uri" }),
      long: city({ ...text, minLength: 1 }),
      ahead: city({ ...text, pattern: "^(?=a)" }),
      described: city({ $ref: "#/$defs/City", description: "A city" }, { $defs }),
      union: { ...closed, anyOf: [closed] },
      deep: nest(12),
      untyped: city({ enum: ["a", 1] })
    }
    const taken = {
      email: city({ ...text, format: "email" }),
      named: city({ $ref: "#/$defs/City" }, { $defs }),
      either: city({ anyOf: [text, { type: "null" }] }),
      nested: nest(5),
      listed: city({ type: "array", items: text, minItems: 1 })
    }
    const tools = Object.entries({ ...refused, ...taken }).map(([name, schema]) => dynamic(name, schema))
    assert.deepStrictEqual(strictOf(yield* called(tools)), {
      ...Object.fromEntries(Object.keys(refused).map((name) => [name, false])),
      ...Object.fromEntries(Object.keys(taken).map((name) => [name, true]))
    })
  })

  test("RIGHT-2 a union of strict schemas at the root is strict in its wrapper", function* () {
    const Union = dynamic("union", { anyOf: [closed, closed] })
    assert.deepStrictEqual(strictOf(yield* called([Union])), { union: true })
  })

  test("RIGHT-2 DESIGN 5.5 a schema is converted once for a provider, whatever the number of requests and models", function* () {
    const Odd = dynamic("odd", {
      type: "object",
      properties: { $top: { type: "integer" } },
      anyOf: [{ required: ["$top"] }]
    })
    const sent = (provider: string) =>
      Effect.map(called([Odd], { provider }), (call) => call.tools?.[0] ?? assert.fail("no tool"))
    const [first, second, other] = yield* Effect.all([
      sent("anthropic.messages"),
      sent("anthropic.messages"),
      sent("openai.chat")
    ])
    assert(first.type === "function" && second.type === "function" && other.type === "function")
    assert.strictEqual(first.inputSchema, second.inputSchema)
    assert.notDeepEqual(first.inputSchema, other.inputSchema)
  })

  test("MODEL-1 a schema without properties has them, as providers want it", function* () {
    const Nothing = Tool.make("nothing", {})
    const Anything = dynamic("anything", { type: "object" })
    const call = yield* called([Nothing, Anything])
    assert.deepStrictEqual(schemaOf(call, "nothing"), {
      type: "object",
      additionalProperties: false,
      properties: {},
      required: []
    })
    assert.deepStrictEqual(schemaOf(call, "anything"), { type: "object", properties: {} })
    assert.deepStrictEqual(strictOf(call), { nothing: true, anything: false })
  })

  test("MODEL-1 Anthropic is offered the tools of the history where there are no others", function* () {
    const prompt = Prompt.make([
      {
        role: "assistant",
        content: [
          Prompt.toolCallPart({ id: "c1", name: "weather", params: {}, providerExecuted: false }),
          Prompt.toolCallPart({ id: "c2", name: "web", params: {}, providerExecuted: true })
        ]
      },
      {
        role: "tool",
        content: [
          Prompt.toolResultPart({ id: "c1", name: "weather", isFailure: false, result: "1", providerExecuted: false })
        ]
      }
    ])
    const callFor = (provider: string, prompt: Prompt.RawInput) =>
      Effect.gen(function* () {
        const { calls, model } = handmade([{}], { provider })
        yield* LanguageModel.generateText({ prompt }).pipe(Effect.provide(AiSdk.model(model)))
        return { tools: calls[0]?.tools, toolChoice: calls[0]?.toolChoice }
      })
    const none = { tools: undefined, toolChoice: undefined }
    assert.deepStrictEqual(yield* callFor("openai.chat", prompt), none)
    assert.deepStrictEqual(yield* callFor("anthropic.messages", "Hi"), none)
    // RIGHT-9: a gateway may lead to a model of Anthropic
    for (const provider of ["anthropic.messages", "gateway.chat", "openai-compatible.chat"]) {
      assert.deepStrictEqual(yield* callFor(provider, prompt), {
        tools: [{ type: "function", name: "weather", inputSchema: { type: "object", properties: {} } }],
        toolChoice: { type: "none" }
      })
    }
  })

  test("MODEL-1 the choice of a tool", function* () {
    const choose = (toolChoice: LanguageModel.ToolChoice<"closed" | "open">) =>
      Effect.map(called([Closed, Open], { toolChoice }), ({ toolChoice, tools = [] }) => ({
        toolChoice,
        tools: tools.map(({ name }) => name)
      }))
    const all = ["closed", "open"]
    assert.deepStrictEqual(yield* choose("required"), { toolChoice: { type: "required" }, tools: all })
    assert.deepStrictEqual(yield* choose("none"), { toolChoice: { type: "none" }, tools: all })
    assert.deepStrictEqual(yield* choose({ tool: "open" }), {
      toolChoice: { type: "tool", toolName: "open" },
      tools: all
    })
    assert.deepStrictEqual(yield* choose({ oneOf: ["open"] }), { toolChoice: { type: "auto" }, tools: ["open"] })
    assert.deepStrictEqual(yield* choose({ oneOf: ["open"], mode: "required" }), {
      toolChoice: { type: "tool", toolName: "open" },
      tools: ["open"]
    })
    assert.deepStrictEqual(yield* choose({ oneOf: ["open", "closed"], mode: "required" }), {
      toolChoice: { type: "required" },
      tools: all
    })
    const without = yield* called([])
    assert.notProperty(without, "tools")
    assert.notProperty(without, "toolChoice")
  })

  test("MODEL-1 options become those of the call", function* () {
    const {
      abortSignal,
      prompt: _prompt,
      ...call
    } = yield* called([], {
      temperature: 0.5,
      top_p: 0.9,
      max_tokens: 10,
      max_output_tokens: 20,
      stop: "END",
      seed: 1,
      reasoning: "off",
      headers: { "x-a": "1" },
      providerOptions: { openai: { store: false } }
    })
    assert.instanceOf(abortSignal, AbortSignal)
    assert.deepStrictEqual(call, {
      temperature: 0.5,
      topP: 0.9,
      maxOutputTokens: 20,
      stopSequences: ["END"],
      seed: 1,
      reasoning: "none",
      headers: { "x-a": "1" },
      providerOptions: { openai: { store: false } }
    })
  })

  test("MODEL-1 OpenAI stores nothing by default", function* () {
    const optionsFor = (provider: string, providerOptions: AiSdk.Options["providerOptions"] = {}) =>
      Effect.map(called([], { provider, providerOptions }), (call) => call.providerOptions)
    assert.deepStrictEqual(yield* optionsFor("openai.responses"), { openai: { store: false } })
    assert.deepStrictEqual(yield* optionsFor("openai.responses", { openai: { store: true, user: "u" }, other: {} }), {
      openai: { store: true, user: "u" },
      other: {}
    })
    assert.isUndefined(yield* optionsFor("openai.chat"))
  })

  test("MODEL-1 the schema of a structured output is in the provider's dialect", function* () {
    const schema = Schema.Struct({ n: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))) })
    const formatFor = (provider: string, options: AiSdk.Options = {}) =>
      Effect.gen(function* () {
        const { calls, model } = handmade([{ content: [{ type: "text", text: `{"n":2}` }] }], { provider })
        const { value } = yield* LanguageModel.generateObject({ prompt: "1", schema, objectName: "it" }).pipe(
          Effect.provide(AiSdk.model(model, options))
        )
        assert.deepStrictEqual(value, { n: 2 })
        const format = calls[0]?.responseFormat
        assert(format?.type === "json" && format.name === "it")
        return JSON.stringify(format.schema)
      })
    const openai = yield* formatFor("openai.responses")
    assert.include(openai, `"required":["n"]`)
    assert.include(openai, `"minimum":1`)
    const anthropic = yield* formatFor("anthropic.messages")
    assert.include(anthropic, `"additionalProperties":false`)
    assert.notInclude(anthropic, `"minimum"`)
    const own = yield* formatFor("openai.responses", { codecTransformer: LanguageModel.defaultCodecTransformer })
    assert.notInclude(own, `"required"`)
  })

  test("MODEL-1 a schema that the provider cannot take is an UnsupportedSchemaError", function* () {
    const error = yield* LanguageModel.generateObject({
      prompt: "1",
      // Sound: the test is about a schema that is no object.
      schema: Schema.Array(Schema.String) as never,
      objectName: "it"
    }).pipe(Effect.provide(AiSdk.model(handmade([{}]).model)), Effect.flip)
    assert.strictEqual(error.reason._tag, "UnsupportedSchemaError")
  })
})

const key = "sk-proj-abcdefgh12345678"

const apiError = (
  statusCode: number | undefined,
  message: string,
  { data, headers = {} }: { readonly data?: unknown; readonly headers?: Record<string, string> } = {}
) =>
  new APICallError({
    message,
    url: `https://api.example.com/v1/chat?key=${key}`,
    requestBodyValues: { messages: [] },
    responseHeaders: headers,
    ...(statusCode === undefined ? {} : { statusCode }),
    ...(data === undefined ? {} : { data })
  })

const failure = (error: unknown, options: AiSdk.Options & { readonly provider?: string } = {}) => {
  const { provider = "openai.chat", ...settings } = options
  return LanguageModel.generateText({ prompt: "1" }).pipe(
    Effect.provide(AiSdk.model(handmade([{ error }], { provider }).model, settings)),
    Effect.flip
  )
}

describe("MODEL-1 errors", () => {
  const cases: ReadonlyArray<readonly [name: string, error: unknown, tag: string, retryable: boolean]> = [
    ["400", apiError(400, "Unknown parameter"), "InvalidRequestError", false],
    [
      "400 of Google for a wrong key",
      apiError(400, "API key not valid. Please pass one."),
      "AuthenticationError",
      false
    ],
    ["400 without credit", apiError(400, "Your credit balance is too low"), "QuotaExhaustedError", false],
    [
      "400 of a filter",
      apiError(400, "No", { data: { error: { code: "content_filter" } } }),
      "ContentPolicyError",
      false
    ],
    ["401", apiError(401, "Incorrect API key"), "AuthenticationError", false],
    ["402", apiError(402, "Pay"), "QuotaExhaustedError", false],
    ["403", apiError(403, "Not for you"), "AuthenticationError", false],
    ["404", apiError(404, "The model `x` does not exist"), "InvalidRequestError", false],
    ["408", apiError(408, "Slow"), "InternalProviderError", true],
    ["413", apiError(413, "Too large"), "InvalidRequestError", false],
    ["429", apiError(429, "Slow down"), "RateLimitError", true],
    [
      "429 without quota",
      apiError(429, "You exceeded your quota", { data: { error: { code: "insufficient_quota" } } }),
      "QuotaExhaustedError",
      false
    ],
    [
      "429 of a limit per minute that names where to pay",
      apiError(429, "Rate limit reached. Try again in 7.6s. Need more? See https://example.test/settings/billing", {
        data: { error: { code: "rate_limit_exceeded" } }
      }),
      "RateLimitError",
      true
    ],
    [
      "429 of Google for a limit per minute",
      apiError(
        429,
        `You exceeded your current quota, check billing.\n${"* metric\n".repeat(40)}Please retry in 34.1s.`
      ),
      "RateLimitError",
      true
    ],
    ["425", apiError(425, "Early"), "InternalProviderError", true],
    ["500", apiError(500, "Oops"), "InternalProviderError", true],
    ["529", apiError(529, "Overloaded"), "InternalProviderError", true],
    ["200 that is no JSON", apiError(200, "Invalid JSON response"), "InvalidResponseError", false],
    [
      "a connection that broke",
      new APICallError({
        message: "Failed to process successful response",
        url: "https://api.example.com",
        requestBodyValues: {},
        statusCode: 200,
        cause: new TypeError("terminated")
      }),
      "NetworkError",
      true
    ],
    ["no connection", apiError(undefined, "Cannot connect to API: refused"), "NetworkError", true],
    ["a fetch that failed", new TypeError("fetch failed"), "NetworkError", true],
    ["a missing key", new LoadAPIKeyError({ message: "OpenAI API key is missing." }), "AuthenticationError", false],
    ["no such model", new NoSuchModelError({ modelId: "x", modelType: "languageModel" }), "InvalidRequestError", false],
    ["unsupported", new UnsupportedFunctionalityError({ functionality: "files" }), "InvalidRequestError", false],
    ["data", new InvalidResponseDataError({ data: { s: key } }), "InvalidResponseError", false],
    ["anything else", new Error("boom"), "UnknownError", false],
    ["no error at all", "boom", "InternalProviderError", true]
  ]

  test("MODEL-1 the reason follows the status", function* () {
    for (const [name, error, tag, retryable] of cases) {
      const { isRetryable, reason } = yield* failure(error)
      assert.deepStrictEqual([name, reason._tag, isRetryable], [name, tag, retryable])
      assert.notInclude(JSON.stringify(reason), key)
    }
  })

  test("MODEL-1 a code of any length is read", function* () {
    const error = apiError(400, "No", { data: { error: { code: "invalid ".repeat(20_000) } } })
    assert.strictEqual((yield* failure(error)).reason._tag, "InvalidRequestError")
  })

  test("MODEL-1 the pause that the provider asks for", function* () {
    yield* TestClock.setTime(Date.UTC(2026, 0, 1))
    const cases: ReadonlyArray<readonly [headers: Record<string, string>, expected: number | undefined]> = [
      [{ "retry-after": "7" }, 7000],
      [{ "Retry-After": "1.5" }, 1500],
      [{ "retry-after": "7", "retry-after-ms": "250" }, 250],
      [{ "retry-after": new Date(Date.UTC(2026, 0, 1, 0, 0, 30)).toUTCString() }, 30_000],
      [{ "retry-after": new Date(Date.UTC(2025, 0, 1)).toUTCString() }, 0],
      [{ "retry-after": "soon" }, undefined],
      [{}, undefined]
    ]
    for (const [headers, expected] of cases) {
      const { retryAfter } = yield* failure(apiError(429, "Slow down", { headers }))
      assert.strictEqual(retryAfter && Duration.toMillis(retryAfter), expected)
    }
  })

  test("MODEL-4 a wrong key names the provider that refused it and its variable, without the key", function* () {
    const error = yield* Agent.make("a", {})
      .run("1")
      .pipe(
        Effect.provide(
          AiSdk.model(
            handmade([
              { error: apiError(401, `Incorrect API key provided: ${key}. You can find your API key at example.com.`) }
            ]).model,
            { apiKeyVariable: "MY_OPENAI_KEY" }
          )
        ),
        Effect.flip
      )
    assert.strictEqual(
      error.message,
      'Agent "a": expected an answer from the model, got AuthenticationError: openai refused the API key (status 401). Check MY_OPENAI_KEY'
    )
    const byDefault = yield* failure(apiError(401, `Wrong: 0123456789abcdef0123456789abcdef`), {
      provider: "mistral.chat"
    })
    assert.include(byDefault.message, "mistral refused the API key (status 401). Check MISTRAL_API_KEY")
  })

  test("MODEL-1 errors in the middle of a stream", function* () {
    const streamed = (answer: Answer) =>
      LanguageModel.streamText({ prompt: "1" }).pipe(
        Stream.runDrain,
        Effect.provide(AiSdk.model(handmade([answer]).model)),
        Effect.flip,
        Effect.map(({ isRetryable, reason }): ReadonlyArray<unknown> => [reason._tag, isRetryable])
      )
    const start = { type: "text-start", id: "1" } as const
    const errors: ReadonlyArray<readonly [error: unknown, tag: string, retryable: boolean]> = [
      [{ type: "overloaded_error", message: "Overloaded" }, "InternalProviderError", true],
      [{ type: "rate_limit_error", message: "Slow" }, "RateLimitError", true],
      [{ type: "error", error: { code: "invalid_request_error", message: "No" } }, "InvalidRequestError", false],
      [{ message: "?" }, "InternalProviderError", true],
      [
        new InvalidResponseDataError({ data: 1, message: "Response stream ended without a finish reason." }),
        "NetworkError",
        true
      ]
    ]
    for (const [error, tag, retryable] of errors) {
      assert.deepStrictEqual(yield* streamed({ parts: [start, { type: "error", error }] }), [tag, retryable])
    }
    // RIGHT-6: a client that demands a finish reason, after words: the stream ended as it should
    const error = new InvalidResponseDataError({ data: 1, message: "Response stream ended without a finish reason." })
    const words = [
      { type: "text-start", id: "0" },
      { type: "text-delta", id: "0", delta: "hi" },
      { type: "text-end", id: "0" },
      { type: "error", error },
      { type: "finish", usage, finishReason: { unified: "error", raw: undefined } }
    ] as const
    const whole = yield* Effect.exit(streamed({ parts: [start, ...words] }))
    assert.strictEqual(whole._tag, "Failure", "no error of the stream")
    // a stream that ends early, with and without a word
    assert.deepStrictEqual(yield* streamed({ parts: [start] }), ["NetworkError", true])
    const interrupted = { type: "finish", usage, finishReason: { unified: "interrupted", raw: undefined } } as const
    assert.deepStrictEqual(yield* streamed({ parts: [start, interrupted] }), ["NetworkError", true])
  })

  test("MODEL-1 interruption aborts the request and cancels the stream", function* () {
    const signals: Array<AbortSignal | undefined> = []
    const { model } = handmade([])
    const hanging = {
      ...model,
      doGenerate: ({ abortSignal }: LanguageModelV4CallOptions) => {
        signals.push(abortSignal)
        return new Promise<never>(() => {})
      },
      doStream: ({ abortSignal }: LanguageModelV4CallOptions) => {
        signals.push(abortSignal)
        return new Promise<never>(() => {})
      }
    }
    const waiting = [
      LanguageModel.generateText({ prompt: "1" }),
      Stream.runDrain(LanguageModel.streamText({ prompt: "1" }))
    ] as const
    for (const effect of waiting) {
      const fiber = yield* Effect.forkChild(Effect.exit(Effect.provide(effect, AiSdk.model(hanging))))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    }
    assert.deepStrictEqual(
      signals.map((signal) => signal?.aborted),
      [true, true]
    )

    const {
      calls,
      cancelled,
      model: streaming
    } = handmade([
      {
        parts: [
          { type: "text-start", id: "1" },
          ...Array.from({ length: 9 }, () => ({ type: "text-delta", id: "1", delta: "x" }) as const),
          { type: "finish", finishReason: stop, usage }
        ]
      }
    ])
    yield* LanguageModel.streamText({ prompt: "1" }).pipe(
      Stream.take(2),
      Stream.runDrain,
      Effect.provide(AiSdk.model(streaming))
    )
    assert.isTrue(calls[0]?.abortSignal?.aborted)
    assert.strictEqual(cancelled(), 1)
  })
})

describe("RIGHT-22 L8 texts of providers", () => {
  for (const status of [401, 403, 404]) {
    test(`a gateway that repeats the prompt with status ${status} puts it into no message, JSON or stored failure`, function* () {
      const echoed = "model not found, the prompt was: WORDS-OF-THE-USER"
      const error = yield* Agent.make("a", {})
        .run("WORDS-OF-THE-USER")
        .pipe(Effect.provide(AiSdk.model(handmade([{ error: apiError(status, echoed) }]).model)), Effect.flip)
      assert.notInclude(error.message + JSON.stringify(error), "WORDS-OF-THE-USER")
      const cause = Option.getOrUndefined(AgentError.causeOf(error.reason))
      assert.include(JSON.stringify(cause), "WORDS-OF-THE-USER")
    })
  }
})

describe("RIGHT-22 L2 an endless stream", () => {
  const odd: Readonly<Record<string, unknown>> = {
    "empty deltas": { type: "text-delta", id: "0", delta: "" },
    "raw parts": { type: "raw", rawValue: { a: "x".repeat(100) } },
    "parts of an unknown type": { type: "nonsense" },
    "response metadata": { type: "response-metadata", id: "r", modelId: "m" }
  }
  for (const [name, part] of Object.entries(odd)) {
    test(`of ${name} ends at the limit of an answer`, function* () {
      let sent = 0
      const { model } = handmade([])
      const endless: typeof model = {
        ...model,
        doStream: async () => ({
          stream: new ReadableStream({
            pull: (controller) => {
              if (sent === 0) controller.enqueue({ type: "text-start", id: "0" })
              sent += 1
              // Sound: a provider sends what it likes
              controller.enqueue(part as never)
            }
          })
        })
      }
      const exit = yield* LanguageModel.streamText({ prompt: "1" }).pipe(
        Stream.runDrain,
        Effect.provide([AiSdk.model(endless), Limits.layer({ maxBytes: 10_000 })]),
        Effect.exit
      )
      assert(Exit.isFailure(exit))
      assert.include(String(Cause.squash(exit.cause)), "at most 10000 bytes")
      assert.isBelow(sent, 5000)
    })
  }

  test.live("of deltas is ended by the total timeout of the run", function* () {
    const { model } = handmade([])
    let sent = 0
    const endless: typeof model = {
      ...model,
      doStream: async () => ({
        stream: new ReadableStream({
          pull: (controller) => {
            controller.enqueue(
              sent === 0 ? { type: "text-start", id: "0" } : { type: "text-delta", id: "0", delta: "ab" }
            )
            if (sent++ > 100_000) controller.error(new Error("the run was not stopped"))
          }
        })
      })
    }
    const result = yield* Agent.make("a", {})
      .stream("1", { timeouts: { total: "200 millis" } })
      .pipe(Stream.runLast, Effect.provide(AiSdk.model(endless)))
    const last = Option.getOrUndefined(result)
    assert(last?._tag === "RunFinished")
    assert.strictEqual(last.result.outcome, "Interrupted")
  })
})
