/** MEND-4: what a run accepts it can also store, and a client that breaks its contract is a typed error. */
import type { LanguageModelV4Content, LanguageModelV4StreamPart, LanguageModelV4ToolCall } from "@ai-sdk/provider"
import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Schema, Stream } from "effect"
import { LanguageModel, type Response, Tool, Toolkit } from "effect/ai"
import { Agent, AgentEvent, Limits, Run, VersionedStore } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { Session } from "effect-emissary/session"
import { someRuns } from "../full.ts"
import { random } from "../random.ts"
import { test } from "../test.ts"
import { handmade, stop, streamOf, usage, type Answer } from "./handmade.ts"

const toolkit = Toolkit.make(Tool.make("t", { parameters: Schema.Struct({}), success: Schema.String }))
const Tools = toolkit.toLayer({ t: () => Effect.succeed("x") })
const agent = Agent.make("a", { toolkit })

const text = (said: string): Answer => ({ content: [{ type: "text", text: said }] })
const about = (providerMetadata: unknown): Answer => ({
  // A provider may send metadata that the types do not allow
  content: [{ type: "text", text: "x", providerMetadata: providerMetadata as Record<string, never> }]
})
const tools = { unified: "tool-calls", raw: "tool_calls" } as const
const calls = (...made: ReadonlyArray<Partial<LanguageModelV4ToolCall>>): Answer => ({
  content: made.map((call) => ({ type: "tool-call", toolCallId: "c", toolName: "t", input: "{}", ...call })),
  finishReason: tools
})
const many = <A>(count: number, make: (index: number) => A) => Array.from({ length: count }, (_, index) => make(index))
const nested = (levels: number): string => `${"[".repeat(levels)}${"]".repeat(levels)}`
const tokens = (input: number, output: number) => ({
  inputTokens: { ...usage.inputTokens, total: input },
  outputTokens: { ...usage.outputTokens, total: output }
})
const file = (data: string): LanguageModelV4Content => ({
  type: "file",
  mediaType: "image/png",
  data: { type: "data", data }
})

interface Odd {
  readonly answers: ReadonlyArray<Answer>
  readonly taken: boolean
  /** Limits other than the defaults, where an answer of many parts would take seconds to reach the default. */
  readonly limits?: Partial<Limits.Limits>
}

/** Answers, and whether a run takes them. */
const odd: Record<string, Odd> = {
  "negative usage": { answers: [{ ...text("hi"), usage: tokens(-100_000, -5) }], taken: true },
  "usage beyond 2^53 in sum": {
    answers: [
      { ...calls({}), usage: tokens(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER) },
      { ...text("hi"), usage: tokens(Number.MAX_SAFE_INTEGER, 1) }
    ],
    taken: true
  },
  "a text of 1 MB": { answers: [text("x".repeat(1e6))], taken: true },
  "a text of 1 MB, with its time": {
    answers: [{ ...text("x".repeat(1e6)), response: { id: "1", modelId: "m", timestamp: new Date(0) } }],
    taken: true
  },
  "a text of 5 MB": { answers: [text("x".repeat(5e6))], taken: true },
  "a text of 9 MB": { answers: [text("x".repeat(9e6))], taken: false },
  "a text of 1,500,000 control characters": { answers: [text("\u0001".repeat(1_500_000))], taken: false },
  "2,500 texts, where an array has 2,000 items at most": {
    answers: [{ content: many(2500, () => ({ type: "text", text: "x" })) }],
    taken: false,
    limits: { maxArrayLength: 2000 }
  },
  "2,500 sources, where an array has 2,000 items at most": {
    answers: [
      { content: many(2500, (n) => ({ type: "source", sourceType: "url", id: `s${n}`, url: `https://x/${n}` })) }
    ],
    taken: false,
    limits: { maxArrayLength: 2000 }
  },
  "arguments of 200 levels": { answers: [calls({ input: `{"a":${nested(200)}}` })], taken: true },
  "arguments of 5,000 levels": { answers: [calls({ input: `{"a":${nested(5000)}}` })], taken: false },
  "arguments of 150,000 values": {
    answers: [calls({ input: JSON.stringify({ a: many(150_000, () => 1) }) })],
    taken: false
  },
  "arguments of 3 MB": { answers: [calls({ input: JSON.stringify({ a: "x".repeat(3e6) }) })], taken: false },
  "metadata with __proto__": { answers: [about(JSON.parse(`{"openai":{"__proto__":{"polluted":2}}}`))], taken: false },
  "metadata with a prototype": {
    answers: [about(JSON.parse(`{"openai":{"constructor":{"prototype":{"polluted":3}}}}`))],
    taken: false
  },
  "metadata of 200 levels": { answers: [about({ openai: { a: JSON.parse(nested(200)) } })], taken: false },
  "metadata with keys of secrets": {
    answers: [about({ openai: { api_key: "sk-123", authorization: "Bearer x", logprobs: [{ token: "x" }] } })],
    taken: true
  },
  "metadata of the whole answer with keys of secrets": {
    answers: [{ ...text("hi"), providerMetadata: { openai: { api_key: "sk-123" } } }],
    taken: true
  },
  "a lone surrogate": { answers: [text("\ud800")], taken: true },
  "a lone surrogate in an id": { answers: [calls({ toolCallId: "\ud800" })], taken: true },
  "a tool name of 1 MB": { answers: [calls({ toolName: "x".repeat(1e6) })], taken: true },
  "an empty id and name": { answers: [calls({ toolCallId: "", toolName: "" })], taken: true },
  "300 calls": { answers: [calls(...many(300, (n) => ({ toolCallId: `c${n}` })))], taken: true },
  "1,500 calls, where a value has 10,000 nodes at most": {
    answers: [calls(...many(1500, (n) => ({ toolCallId: `c${n}` })))],
    taken: false,
    limits: { maxNodes: 10_000 }
  },
  "a file of 2 MB": { answers: [{ content: [file("A".repeat(2e6))] }], taken: true },
  "a file of 9 MB": { answers: [{ content: [file("A".repeat(9e6))] }], taken: false }
}

const failureOf = <A, E extends { readonly message: string }>(exit: Exit.Exit<A, E>): string => {
  if (Exit.isSuccess(exit)) return "no failure"
  assert.isFalse(Cause.hasDies(exit.cause), Cause.pretty(exit.cause))
  const errors: ReadonlyArray<E & { readonly state?: Run.State | undefined }> = exit.cause.reasons.flatMap((reason) =>
    Cause.isFailReason(reason) ? [reason.error] : []
  )
  return errors.flatMap(({ message, state }) => [message, ...(state?.mistakes ?? [])]).join()
}

describe("MEND-4 an odd answer is refused by name, or can be stored", () => {
  for (const [name, { answers, limits = {}, taken }] of Object.entries(odd)) {
    const models = (...more: ReadonlyArray<Answer>) => AiSdk.model(handmade([...answers, ...more]).model)
    test(`${name}: a run`, function* () {
      const running = agent.run("go", { modelMistakes: 0 })
      const exit = yield* Effect.exit(Effect.provide(running, [Tools, models(text("good")), Limits.layer(limits)]))
      assert.strictEqual(Exit.isSuccess(exit), taken, failureOf(exit))
      if (Exit.isFailure(exit)) return assert.match(failureOf(exit), /the answer of (?:the model|openai)/)
      const json = yield* Run.stateCodec.encodeJson(exit.value.state)
      assert.deepStrictEqual(yield* Run.stateCodec.encodeJson(yield* Run.stateCodec.decodeJson(json)), json)
    })

    test(`${name}: a session continues`, function* () {
      const context = yield* Layer.build(VersionedStore.layerMemory)
      const host = (model: Layer.Layer<LanguageModel.LanguageModel>) =>
        Effect.provide(
          Session.layer([agent], { run: { modelMistakes: 0 } }).pipe(
            Layer.provide([Layer.succeedContext(context), Tools, model, Limits.layer(limits)])
          )
        )
      const first = yield* Session.turn("s", "go").pipe(host(models(text("good"))), Effect.exit)
      assert.strictEqual(Exit.isSuccess(first), taken, failureOf(first))
      const { text: said } = yield* Session.turn("s", "and?").pipe(host(AiSdk.model(handmade([text("good")]).model)))
      assert.strictEqual(said, "good")
    })
  }

  test("the error names the place", function* () {
    const running = agent.run("go", { modelMistakes: 0 })
    const model = AiSdk.model(handmade([about({ openai: { a: JSON.parse(nested(200)) } })]).model)
    const exit = yield* Effect.exit(Effect.provide(running, [Tools, model]))
    assert.match(failureOf(exit), /the answer of the model at \/0\/content\/0\/options\/openai/)
  })

  test("in a stream as well", function* () {
    const running = AgentEvent.result(agent.stream("go", { modelMistakes: 0 }))
    const model = AiSdk.model(handmade([about(JSON.parse(`{"openai":{"__proto__":{}}}`))]).model)
    const exit = yield* Effect.exit(Effect.provide(running, [Tools, model]))
    assert.match(failureOf(exit), /the answer of (?:the model|openai)/)
  })

  test("a smaller limit counts", function* () {
    const running = agent.run("go", { modelMistakes: 0 })
    const small = Limits.layer({ maxStringLength: 100 })
    const exit = yield* Effect.exit(
      Effect.provide(running, [Tools, AiSdk.model(handmade([text("x".repeat(101))]).model), small])
    )
    assert.match(failureOf(exit), /100/)
  })
})

describe("MEND-4 a stream has an end", () => {
  const endless = (part: (n: number) => LanguageModelV4StreamPart) => {
    let n = 0
    const { model } = handmade([])
    const doStream = () =>
      Promise.resolve({ stream: new ReadableStream({ pull: (controller) => controller.enqueue(part(n++)) }) })
    return { model: { ...model, doStream }, count: () => n }
  }

  const floods: Record<string, (n: number) => LanguageModelV4StreamPart> = {
    text: () => ({ type: "text-delta", id: "1", delta: "x".repeat(10_000) }),
    "empty deltas": () => ({ type: "text-delta", id: "1", delta: "" }),
    calls: (n) => ({ type: "tool-call", toolCallId: `c${n}`, toolName: "t", input: "{}" })
  }

  for (const [name, part] of Object.entries(floods)) {
    test(`of ${name}, from a client of the AI SDK`, function* () {
      const { model } = endless(part)
      const error = yield* LanguageModel.streamText({ prompt: "go", toolkit, disableToolCallResolution: true }).pipe(
        Stream.runDrain,
        Effect.provide([AiSdk.model(model), Tools, Limits.layer({ maxBytes: 100_000 })]),
        Effect.flip
      )
      assert.strictEqual(error.reason._tag, "InvalidOutputError")
    })
  }

  test("from any other model of effect/ai", function* () {
    const model = LanguageModel.make({
      generateText: () => Effect.succeed<Array<Response.PartEncoded>>([]),
      streamText: (): Stream.Stream<Response.StreamPartEncoded> =>
        Stream.concat(
          Stream.make({ type: "text-start", id: "1" }),
          Stream.forever(Stream.make({ type: "text-delta", id: "1", delta: "x".repeat(1000) }))
        )
    })
    const running = AgentEvent.result(agent.stream("go", { modelMistakes: 0 }))
    const Model = Layer.effect(LanguageModel.LanguageModel, model)
    const exit = yield* running.pipe(Effect.provide([Tools, Model, Limits.layer({ maxBytes: 100_000 })]), Effect.exit)
    assert.match(failureOf(exit), /at most 100000 bytes/)
  })
})

const everyPart: Array<LanguageModelV4Content> = [
  { type: "reasoning", text: "Let me think.", providerMetadata: { anthropic: { signature: "s" } } },
  { type: "text", text: "Here it is." },
  { type: "tool-call", toolCallId: "c1", toolName: "t", input: `{"city":"Rome"}` },
  { type: "tool-call", toolCallId: "c2", toolName: "search", input: "{}", providerExecuted: true },
  { type: "tool-result", toolCallId: "c2", toolName: "search", result: { hits: 1 } },
  { type: "source", sourceType: "url", id: "s1", url: "https://example.com/a", title: "A" },
  { type: "source", sourceType: "document", id: "s3", mediaType: "application/pdf", title: "D", filename: "d.pdf" },
  file("AQID"),
  { type: "tool-approval-request", approvalId: "a1", toolCallId: "c2" },
  { type: "custom", kind: "openai.compaction", providerMetadata: { openai: { itemId: "cmp_1" } } }
]

const complete: Answer = {
  content: everyPart,
  warnings: [{ type: "other", message: "w" }],
  finishReason: stop,
  usage,
  providerMetadata: { openai: { serviceTier: "flex" } },
  response: { id: "r1", modelId: "m", timestamp: new Date(0) }
}

const wrong = [
  undefined,
  null,
  0,
  -1,
  Number.NaN,
  "",
  "x",
  [],
  [null],
  {},
  { type: "text" },
  true,
  new Date(Number.NaN),
  1n,
  () => 1
]

/** A copy with another value at one random place. */
const mutate = ({ chance, pick }: ReturnType<typeof random>, value: unknown): unknown => {
  const isContainer = typeof value === "object" && value !== null && Object.keys(value).length > 0
  if (!isContainer || chance(0.15)) return pick(wrong)
  const keys = Object.keys(value)
  const key = pick(keys)
  const copy = Object.assign<Record<string, unknown>, object>(Array.isArray(value) ? Object([]) : {}, value)
  if (chance(0.1)) delete copy[key]
  else copy[key] = mutate({ chance, pick } as ReturnType<typeof random>, copy[key])
  return copy
}

describe("MEND-4 a client that breaks its contract is a typed error", () => {
  const { model } = handmade([])
  const asked = { prompt: "go", toolkit, disableToolCallResolution: true, toolCallValidation: "deferred" } as const

  test("whatever is wrong in an answer", function* () {
    const choices = random(7)
    const { content = [], ...rest } = complete
    for (let n = 0; n < someRuns(700); n++) {
      const answer = mutate(choices, { content, ...rest })
      const changed = { ...model, doGenerate: () => Promise.resolve(answer) }
      const exit = yield* LanguageModel.generateText(asked).pipe(
        Effect.provide([AiSdk.model(changed), Tools]),
        Effect.exit
      )
      failureOf(exit)
    }
  })

  test("whatever is wrong in a stream", function* () {
    const choices = random(11)
    for (let n = 0; n < someRuns(700); n++) {
      const parts = streamOf(complete).map((part) => (choices.chance(0.1) ? mutate(choices, part) : part))
      const stream = new ReadableStream({
        start: (controller) => {
          for (const part of parts) controller.enqueue(part)
          controller.close()
        }
      })
      const answer = choices.chance(0.1) ? mutate(choices, { stream }) : { stream }
      const changed = { ...model, doStream: () => Promise.resolve(answer) }
      const exit = yield* LanguageModel.streamText(asked).pipe(
        Stream.runDrain,
        Effect.provide([AiSdk.model(changed), Tools]),
        Effect.exit
      )
      failureOf(exit)
    }
  })

  test("an answer that is none", function* () {
    for (const answer of wrong) {
      // A client without types
      const changed = { ...model, doGenerate: () => answer as never, doStream: () => answer as never }
      const whole = LanguageModel.generateText(asked)
      const streamed = Stream.runDrain(LanguageModel.streamText(asked))
      for (const call of [whole, streamed]) {
        const error = yield* call.pipe(Effect.provide([AiSdk.model(changed), Tools]), Effect.flip)
        assert.include(["InvalidOutputError", "UnknownError"], error.reason._tag)
      }
    }
  })

  test("a model of another specification is refused by name", function* () {
    const old = { ...model, specificationVersion: "v2" as "v4" }
    const error = yield* agent.ask("go").pipe(Effect.provide([AiSdk.model(old), Tools]), Effect.flip)
    assert.match(
      error.message,
      /expected a model with specificationVersion "v4", got "v2"\. Install .*@ai-sdk\/provider 4/
    )
  })
})
