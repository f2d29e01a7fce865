/**
 * A suite for layers that provide a `LanguageModel` of `effect/ai`: run it against an adapter of your own.
 *
 * **Mental model**
 *
 * The suite decides the answers of the provider, in a form of its own: a {@link Reply} for each request. You write a
 * harness, which takes the place of the provider: it sends each reply as the provider would send it, and records each
 * request as a {@link Request}. Between the two is the adapter, which is all that the suite tests.
 *
 * @since 0.1.0
 */

import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type * as Message from "../conversation/Message.ts"
import * as modelMessages from "../conversation/internal/modelMessages.ts"
import { defined, isObject } from "../payload/internal/values.ts"
import { endWithin, expectEqual, makeCheck, realClock, show, type Check } from "./internal/checks.ts"

/**
 * One part of an answer. `signature` comes from the provider with reasoning, and must return to it unchanged;
 * `arguments` is the text of the arguments, JSON or not.
 *
 * @category models
 * @since 0.1.0
 */
export type AnswerPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string; readonly signature: string }
  | { readonly type: "tool-call"; readonly id: string; readonly name: string; readonly arguments: string }

/**
 * The reaction of the provider to one request.
 *
 * **Details**
 *
 * - `Answer`: the whole answer. A stream sends texts in several deltas.
 * - `Failure`: an HTTP status, with the error body of the provider around `message`. `retryAfter` is in seconds, and
 *   belongs into the header `retry-after`.
 * - `Break`: a stream sends the parts, and then the connection breaks; a request that is not streamed gets no answer,
 *   because the connection breaks.
 * - `Silence`: a stream sends the parts, and then nothing more; a request that is not streamed gets no answer. The
 *   connection stays open until the client closes it.
 *
 * @category models
 * @since 0.1.0
 */
export type Reply =
  | {
      readonly _tag: "Answer"
      readonly content: ReadonlyArray<AnswerPart>
      readonly finish: "stop" | "length" | "content-filter" | "tool-calls"
      readonly usage: Message.TokenUsage
    }
  | {
      readonly _tag: "Failure"
      readonly status: number
      readonly message: string
      readonly retryAfter?: number | undefined
    }
  | { readonly _tag: "Break"; readonly content: ReadonlyArray<AnswerPart> }
  | { readonly _tag: "Silence"; readonly content: ReadonlyArray<AnswerPart> }

/**
 * One part of a request, in the order of the conversation, whatever message it was in.
 *
 * **Details**
 *
 * `system`, `user` and `file` come from the program; `text`, `reasoning` and `tool-call` are earlier answers of
 * the model. `data` is base64 or a URL. `arguments` is JSON. `text` of a `tool-result` is all that the model reads of it.
 *
 * @category models
 * @since 0.1.0
 */
export type InputPart =
  | { readonly type: "system" | "user" | "text"; readonly text: string }
  | { readonly type: "file"; readonly mediaType: string; readonly data: string }
  | { readonly type: "reasoning"; readonly text: string; readonly signature: string }
  | { readonly type: "tool-call"; readonly id: string; readonly name: string; readonly arguments: unknown }
  | { readonly type: "tool-result"; readonly id: string; readonly text: string }

/**
 * A request as the provider received it. `output` is the JSON Schema that the answer has to fit, if the request
 * asks for JSON.
 *
 * @category models
 * @since 0.1.0
 */
export interface Request {
  readonly input: ReadonlyArray<InputPart>
  readonly tools: ReadonlyArray<{
    readonly name: string
    readonly description?: string | undefined
    readonly parameters: unknown
  }>
  readonly toolChoice: "auto" | "none" | "required" | { readonly tool: string }
  readonly output?: unknown
}

/**
 * The provider at the other end of the adapter, as a harness implements it.
 *
 * **Details**
 *
 * - `requests`: all requests so far, in order.
 * - `aborted`: ends when the client has closed the connection of a request that got `Silence`.
 *
 * @category services
 * @since 0.1.0
 */
export class Provider extends Context.Service<
  Provider,
  {
    readonly requests: Effect.Effect<ReadonlyArray<Request>>
    readonly aborted: Effect.Effect<void>
  }
>()("effect-emissary/testing/LanguageModelConformance/Provider") {}

/**
 * A part of the suite that the protocol of a provider may be unable to express.
 *
 * **Details**
 *
 * - `reasoning`: answers hold no reasoning.
 * - `signature`: reasoning has no signature, and is not sent back.
 * - `broken-arguments`, `broken-arguments-streamed`: a whole answer, or a stream, holds arguments as an object, never as
 *   text.
 * - `cached-usage`, `reasoning-usage`: these tokens are not counted apart.
 * - `url`: files cannot be sent as a URL.
 *
 * @category models
 * @since 0.1.0
 */
export type Feature =
  | "reasoning"
  | "signature"
  | "broken-arguments"
  | "broken-arguments-streamed"
  | "cached-usage"
  | "reasoning-usage"
  | "url"

/**
 * The checks for a `LanguageModel`: parts of answers and of requests, streams that equal whole answers, usage and
 * finish reasons, tools and tool choice, structured output, mistakes of the model, metadata that goes back with the next
 * request, typed errors, streams that break, interruption.
 *
 * **When to use**
 *
 * Use in the tests of an adapter of your own. The suite depends on no test framework: register each check as a test,
 * or run them one after another.
 *
 * **Details**
 *
 * `harness` gets the replies of one check, one for each request, and returns the adapter with the {@link Provider} that it
 * talks to. Each check builds the layer for itself.
 *
 * An adapter must not retry by itself: agents and `Effect.retry` do.
 *
 * **Example** (An adapter that ignores its provider)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Layer } from "effect"
 * import { LanguageModelConformance, ScriptedModel } from "effect-emissary/testing"
 *
 * const provider = Layer.succeed(LanguageModelConformance.Provider, {
 *   requests: Effect.succeed([]),
 *   aborted: Effect.never
 * })
 * const checks = LanguageModelConformance.checks(
 *   "deaf",
 *   () => Layer.merge(ScriptedModel.layer(() => ({ text: "Hello." })), provider),
 *   { limit: "50 millis" }
 * )
 *
 * // with @effect/vitest: for (const { name, check } of checks) it.live(name, () => check)
 * const [, errors] = await Effect.runPromise(Effect.partition(checks, ({ check }) => check))
 * assert.match(errors[0]?.message ?? "", /^deaf: an answer keeps its parts/)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const checks = <E = never>(
  name: string,
  harness: (replies: ReadonlyArray<Reply>) => Layer.Layer<LanguageModel.LanguageModel | Provider, E>,
  options?: Options
): ReadonlyArray<Check> => {
  const lacks = new Set(options?.lacks)
  const limit = Duration.fromInputUnsafe(options?.limit ?? "3 seconds")
  return rules.flatMap((rule) =>
    (rule.ways ?? ways)
      .filter((way) => rule.needs?.(way).every((feature) => !lacks.has(feature)) ?? true)
      .map((way) => {
        const progress = { expected: "the model to answer" }
        const expectNext = (expected: string) => Effect.sync(() => void (progress.expected = expected))
        const layer = harness(rule.replies.map((reply) => withoutLacking(reply, lacks)))
        const check = Effect.provide(rule.use({ way, lacks, layer, expectNext }), Layer.fresh(layer))
        const title = rule.ways === undefined ? `${rule.name}, ${way}` : rule.name
        return makeCheck(name, title, endWithin(limit, progress, check))
      })
  )
}

/**
 * Options of {@link checks}.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** The features that the protocol of the provider cannot express, see {@link Feature}; none by default. */
  readonly lacks?: ReadonlyArray<Feature> | undefined
  /**
   * The time of one check, in real time; default 3 seconds. A check that takes longer fails and names what did not
   * happen.
   */
  readonly limit?: Duration.Input | undefined
}

type Way = "whole" | "streamed"

const ways: ReadonlyArray<Way> = ["whole", "streamed"]

interface RuleInput {
  readonly way: Way
  readonly lacks: ReadonlySet<Feature>
  /** The adapter and its provider, for a rule that needs them more than once. */
  readonly layer: Layer.Layer<LanguageModel.LanguageModel | Provider, unknown>
  /** Names the event that a rule waits for from here on. */
  readonly expectNext: (expected: string) => Effect.Effect<void>
}

interface Rule {
  readonly name: string
  /** The rule is checked once for each way; default both. */
  readonly ways?: ReadonlyArray<Way>
  readonly needs?: (way: Way) => ReadonlyArray<Feature>
  /** The replies of the provider to the adapter that `use` calls. */
  readonly replies: ReadonlyArray<Reply>
  readonly use: (input: RuleInput) => Effect.Effect<void, unknown, LanguageModel.LanguageModel | Provider>
}

/** The part of a reply that a provider without these features can express. */
const withoutLacking = (reply: Reply, lacks: ReadonlySet<Feature>): Reply => {
  if (reply._tag === "Failure") return reply
  const content = lacks.has("reasoning") ? reply.content.filter(({ type }) => type !== "reasoning") : reply.content
  return reply._tag === "Answer"
    ? { ...reply, content, usage: countedUsage(reply.usage, lacks) }
    : { ...reply, content }
}

const countedUsage = (usage: Message.TokenUsage, lacks: ReadonlySet<Feature>): Message.TokenUsage => {
  const { cacheReadTokens, reasoningTokens, ...counted } = usage
  return {
    ...counted,
    ...defined({
      cacheReadTokens: lacks.has("cached-usage") ? undefined : cacheReadTokens,
      reasoningTokens: lacks.has("reasoning-usage") ? undefined : reasoningTokens
    })
  }
}

const toolkit = Toolkit.make(
  Tool.make("weather", {
    description: "The weather of a city",
    parameters: Schema.Struct({ city: Schema.String, days: Schema.optionalKey(Schema.Int) }),
    success: Schema.String
  }),
  Tool.make("time", { description: "The time in a zone", parameters: Schema.Struct({ zone: Schema.String }) })
)

type ToolChoice = LanguageModel.ToolChoice<"weather" | "time">

/** All parts of one answer. Tools are not executed: agents do that. */
const askParts = (
  way: Way,
  prompt: Prompt.RawInput,
  toolChoice: ToolChoice = "auto"
): Effect.Effect<ReadonlyArray<Response.AnyPart>, AiError.AiError, LanguageModel.LanguageModel> => {
  const options = {
    prompt,
    toolkit,
    toolChoice,
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  } as const
  return way === "whole"
    ? Effect.map(LanguageModel.generateText(options), ({ content }) => content)
    : Stream.runCollect(LanguageModel.streamText(options))
}

const collect = (parts: ReadonlyArray<Response.AnyPart>): modelMessages.ResponseContent => {
  const accumulator = modelMessages.accumulator()
  for (const part of parts) accumulator.add(part)
  accumulator.end()
  return accumulator.result()
}

const ask = (way: Way, prompt: Prompt.RawInput, toolChoice?: ToolChoice) =>
  Effect.map(askParts(way, prompt, toolChoice), collect)

/** The content of an answer in the words of the suite, without signatures; texts that follow each other are one. */
const said = ({ content }: modelMessages.ResponseContent): ReadonlyArray<Schema.Json> => {
  const parts: Array<{ readonly [key: string]: string }> = []
  for (const part of content) {
    const last = parts.at(-1)
    if (part.type === "tool-call") {
      const args = typeof part.arguments === "string" ? part.arguments : show(part.arguments)
      parts.push({ type: part.type, id: part.id, name: part.name, arguments: args })
    } else if (part.type !== "text" && part.type !== "reasoning") parts.push({ type: part.type })
    else if (last?.["type"] === part.type) parts[parts.length - 1] = { ...last, text: `${last["text"]}${part.text}` }
    else parts.push({ type: part.type, text: part.text })
  }
  return parts
}

const unsigned = (part: AnswerPart): Schema.Json =>
  part.type === "reasoning" ? { type: part.type, text: part.text } : { ...part }

const text = (text: string): AnswerPart => ({ type: "text", text })

const call = (id: string, name: string, args: string): AnswerPart => ({ type: "tool-call", id, name, arguments: args })

const usage = { inputTokens: 120, outputTokens: 45, cacheReadTokens: 100, reasoningTokens: 30 }

const answer = (content: ReadonlyArray<AnswerPart>, finish?: Extract<Reply, { _tag: "Answer" }>["finish"]): Reply => ({
  _tag: "Answer",
  content,
  finish: finish ?? (content.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop"),
  usage
})

const failure = (status: number, retryAfter?: number): Reply => ({
  _tag: "Failure",
  status,
  message: "The provider refuses the request.",
  ...defined({ retryAfter })
})

const requests = Effect.flatMap(Provider, (provider) => provider.requests)

const expectRequests = (count: number) =>
  Effect.flatMap(requests, (all) => expectEqual("number of requests", count, all.length))

/** Ends when the provider has received a request. */
const received = Effect.repeat(Effect.andThen(Effect.sleep("5 millis"), requests), {
  until: (all) => all.length > 0
}).pipe(Effect.provideService(Clock.Clock, realClock))

const expectFailure = (way: Way) => (prompt: Prompt.RawInput) =>
  Effect.matchEffect(ask(way, prompt), {
    onSuccess: (content) => Effect.fail(`expected the call to fail, got the answer ${show(said(content))}`),
    onFailure: Effect.succeed
  })

/** Reads a stream as a user sees it: its text, as it arrives. */
const listen = (arrived: Ref.Ref<string>) =>
  Stream.runForEach(LanguageModel.streamText({ prompt: question }), (part) =>
    part.type === "text-delta" ? Ref.update(arrived, (text) => text + part.delta) : Effect.void
  )

const pick = (usage: Message.TokenUsage | undefined, keys: ReadonlyArray<string>) =>
  Object.entries(usage ?? {})
    .filter(([key]) => keys.includes(key))
    .toSorted()

/** With arguments as compact JSON text. */
const asJson = (part: InputPart): Schema.Json =>
  part.type === "tool-call" ? { ...part, arguments: show(part.arguments) } : { ...part }

const question = "What is the weather in Rome and in Oslo?"

/** An answer with everything in it. Its texts have what a delta, a line or an escape may cut in two. */
const everything: ReadonlyArray<AnswerPart> = [
  { type: "reasoning", text: "Two cities: two calls.\n\nFirst Rome.", signature: "c2lnbmF0dXJlLTE=" },
  text('I look it up: 👩‍👩‍👧 "quoted" \\ back, 日本\u2028語.\r\ndata: [DONE]\n\n{"a":1}'),
  call("call_1", "weather", '{"city":"Rome","days":2}'),
  call("call_2", "weather", '{"city":"Oslo \\"Ø\\""}'),
  call("call_3", "time", '{"zone":"Europe/Rome"}')
]

const result = (id: string, value: Schema.Json, more?: Partial<Prompt.ToolResultPart>) => {
  const name = id === "call_3" ? "time" : "weather"
  return Prompt.toolResultPart({ id, name, isFailure: false, providerExecuted: false, result: value, ...more })
}

const toolResults = Prompt.toolMessage({
  content: [
    result("call_1", "Sunny in Rome"),
    result("call_2", { message: "No such city" }, { isFailure: true }),
    result("call_3", "12:00", { modelOutput: [Prompt.textPart({ text: "It is noon." })] })
  ]
})

const expectedErrors: ReadonlyArray<readonly [Reply, AiError.AiErrorReason["_tag"], isRetryable: boolean]> = [
  [failure(400), "InvalidRequestError", false],
  [failure(401), "AuthenticationError", false],
  [failure(429, 7), "RateLimitError", true],
  [failure(429), "RateLimitError", true],
  [failure(500), "InternalProviderError", true],
  [failure(529), "InternalProviderError", true]
]

/** The reason, whether it is worth a retry, and when. */
const about = (error: AiError.AiError): Schema.Json => [
  error.reason._tag,
  error.isRetryable,
  error.retryAfter === undefined ? null : Duration.toSeconds(error.retryAfter)
]

const choices: ReadonlyArray<readonly [ToolChoice, Request["toolChoice"], tools: ReadonlyArray<string>]> = [
  ["auto", "auto", ["weather", "time"]],
  ["required", "required", ["weather", "time"]],
  ["none", "none", ["weather", "time"]],
  [{ tool: "time" }, { tool: "time" }, ["weather", "time"]],
  [{ mode: "required", oneOf: ["weather"] }, "required", ["weather"]]
]

/** Two forms of a choice are one. */
const canonicalChoice = ({ toolChoice, tools }: Request): Schema.Json => {
  const names = tools.map(({ name }) => name)
  if (names.length === 0) return ["none", ["weather", "time"]]
  const only = typeof toolChoice === "object" ? toolChoice.tool : undefined
  if (only !== undefined && names.length === 1 && only !== "time") return ["required", names]
  return [typeof toolChoice === "object" ? { ...toolChoice } : toolChoice, names]
}

const Trip = Schema.Struct({ city: Schema.String, days: Schema.optionalKey(Schema.Int) })

const propertiesOf = (schema: unknown): ReadonlyArray<string> =>
  isObject(schema) && isObject(schema["properties"]) ? Object.keys(schema["properties"]).toSorted() : []

const finishReasons = ["stop", "length", "content-filter"] as const

const rules: ReadonlyArray<Rule> = [
  {
    name: "an answer keeps its parts, their order and their text, with its finish reason and usage",
    replies: [answer(everything)],
    use: Effect.fnUntraced(function* ({ lacks, way }) {
      const found = yield* ask(way, question)
      const expected = everything.filter(({ type }) => type !== "reasoning" || !lacks.has("reasoning"))
      yield* expectEqual("the parts", expected.map(unsigned), said(found))
      yield* expectEqual("the finish reason", "tool-calls", found.finishReason)
      const counted = countedUsage(usage, lacks)
      const same = pick(found.usage, Object.keys(counted))
      yield* expectEqual("the usage", pick(counted, Object.keys(counted)), same)
    })
  },
  {
    name: "a streamed answer becomes the same message as a whole answer, with equal metadata",
    ways: ["streamed"],
    replies: [answer(everything)],
    use: Effect.fnUntraced(function* ({ layer }) {
      const [whole, streamed] = yield* Effect.forEach(ways, (way) =>
        Effect.map(Effect.provide(ask(way, question), Layer.fresh(layer)), ({ content, finishReason, usage }) =>
          show({ content, finishReason, usage })
        )
      )
      yield* expectEqual("streamed", whole, streamed)
    })
  },
  {
    name: "the next request has the earlier answers, with signatures, ids and results",
    replies: [answer(everything), answer([text("Sunny.")])],
    use: Effect.fnUntraced(function* ({ lacks, way }) {
      const first = yield* askParts(way, question)
      const history = Prompt.make([
        { role: "system", content: "Be brief." },
        { role: "user", content: [{ type: "text", text: question }] }
      ]).pipe(Prompt.concat(Prompt.fromResponseParts(first)), Prompt.concat(Prompt.fromMessages([toolResults])))
      yield* ask(way, history)
      const sent = (yield* requests)[1]?.input ?? []
      const spoken = everything.filter(
        ({ type }) => type !== "reasoning" || !(lacks.has("reasoning") || lacks.has("signature"))
      )
      const expected: ReadonlyArray<Schema.Json> = [
        { type: "system", text: "Be brief." },
        { type: "user", text: question },
        ...spoken.map((part) => ({ ...part }))
      ]
      const before = sent.filter(({ type }) => type !== "tool-result")
      yield* expectEqual("the conversation", expected, before.map(asJson))
      const results = sent.flatMap((part) => (part.type === "tool-result" ? [part] : []))
      yield* expectEqual(
        "ids of results",
        ["call_1", "call_2", "call_3"],
        results.map(({ id }) => id)
      )
      for (const [index, words] of ["Sunny in Rome", "No such city", "It is noon."].entries()) {
        const text = results[index]?.text ?? ""
        if (!text.includes(words)) return yield* Effect.fail(`result ${index}: expected ${words}, got ${text}`)
      }
    })
  },
  {
    name: "files of the user are sent, as bytes, base64 or URL, between the texts",
    replies: [answer([text("A cat.")])],
    use: Effect.fnUntraced(function* ({ lacks, way }) {
      const url = "https://example.com/cat.png"
      const file = (data: string | Uint8Array | URL) => Prompt.filePart({ mediaType: "image/png", data })
      const text = (text: string) => Prompt.textPart({ text })
      const urls = lacks.has("url") ? [] : [file(new URL(url))]
      const bytes = Uint8Array.from([137, 80, 78, 71])
      const content = [text("These:"), file("iVBORw=="), text("and"), file(bytes), ...urls]
      yield* ask(way, Prompt.fromMessages([Prompt.userMessage({ content })]))
      const sent = (yield* requests)[0]?.input ?? []
      const image = { type: "file", mediaType: "image/png", data: "iVBORw==" }
      const expected = [{ type: "user", text: "These:" }, image, { type: "user", text: "and" }, image]
      yield* expectEqual("the message", expected, sent.slice(0, 4).map(asJson))
      const last = sent[4]
      yield* expectEqual("the URL", urls.length === 0 ? undefined : url, last?.type === "file" ? last.data : undefined)
    })
  },
  {
    name: "tools are offered with their descriptions and the JSON Schema of their parameters",
    replies: [answer([text("Hello.")])],
    use: Effect.fnUntraced(function* ({ way }) {
      yield* ask(way, question)
      const offered = (yield* requests)[0]?.tools ?? []
      const found = offered.map(({ description, name, parameters }) => [name, description, propertiesOf(parameters)])
      const weather = ["weather", "The weather of a city", ["city", "days"]]
      yield* expectEqual("the tools", [weather, ["time", "The time in a zone", ["zone"]]], found)
    })
  },
  {
    name: "the tool choice is sent",
    replies: choices.map(() => answer([text("Hello.")])),
    use: Effect.fnUntraced(function* ({ way }) {
      for (const [choice] of choices) yield* ask(way, question, choice)
      const found = (yield* requests).map(canonicalChoice)
      yield* expectEqual(
        "the choices",
        choices.map(([, sent, tools]) => [sent, tools]),
        found
      )
    })
  },
  {
    name: "structured output has its JSON Schema in the request, and is decoded",
    ways: ["whole"],
    replies: [answer([text('{"city":"Rome","days":3}')])],
    use: Effect.fnUntraced(function* () {
      const { value } = yield* LanguageModel.generateObject({
        prompt: question,
        schema: Trip,
        objectName: "place"
      })
      yield* expectEqual("the value", { city: "Rome", days: 3 }, value)
      yield* expectEqual("the schema", ["city", "days"], propertiesOf((yield* requests)[0]?.output))
    })
  },
  {
    name: "arguments that are not JSON arrive as their text",
    needs: (way) => [way === "whole" ? "broken-arguments" : "broken-arguments-streamed"],
    replies: [answer([call("call_1", "weather", '{"city": "Ro'), call("call_2", "time", '{"zone":"UTC"}')])],
    use: Effect.fnUntraced(function* ({ way }) {
      const expected = [call("call_1", "weather", '{"city": "Ro'), call("call_2", "time", '{"zone":"UTC"}')]
      yield* expectEqual("the calls", expected.map(unsigned), said(yield* ask(way, question)))
    })
  },
  {
    name: "a call of a tool that was not offered, with arguments that fit none, is no failure of the request",
    replies: [answer([call("call_1", "invented", '{"x":[1,null]}'), call("call_2", "weather", '{"city":7}')])],
    use: Effect.fnUntraced(function* ({ way }) {
      const found = said(yield* ask(way, question))
      const expected = [
        { type: "tool-call", id: "call_1", name: "invented", arguments: '{"x":[1,null]}' },
        { type: "tool-call", id: "call_2", name: "weather", arguments: '{"city":7}' }
      ]
      yield* expectEqual("the calls", expected, found)
    })
  },
  {
    name: "an empty answer is an answer",
    replies: [answer([])],
    use: Effect.fnUntraced(function* ({ way }) {
      const found = yield* ask(way, question)
      yield* expectEqual("the parts", [], said(found))
      yield* expectEqual("the finish reason", "stop", found.finishReason)
    })
  },
  {
    name: "finish reasons are kept apart",
    replies: finishReasons.map((reason) => answer([text("Well,")], reason)),
    use: Effect.fnUntraced(function* ({ way }) {
      const found = yield* Effect.forEach(finishReasons, () => ask(way, question))
      yield* expectEqual(
        "the finish reasons",
        [...finishReasons],
        found.map(({ finishReason }) => finishReason)
      )
    })
  },
  {
    name: "a refusal of the provider is a typed error, with its time to retry, and is not retried here",
    replies: expectedErrors.map(([reply]) => reply),
    use: Effect.fnUntraced(function* ({ way }) {
      for (const [index, [reply, tag, isRetryable]] of expectedErrors.entries()) {
        const error = yield* expectFailure(way)(question)
        yield* expectRequests(index + 1)
        const seconds = reply._tag === "Failure" ? reply.retryAfter : undefined
        const what = reply._tag === "Failure" ? `status ${reply.status}` : ""
        yield* expectEqual(what, [tag, isRetryable, seconds ?? null], about(error))
      }
    })
  },
  {
    name: "a connection that breaks is an error that is worth a retry, after what had arrived",
    replies: [{ _tag: "Break", content: [text("The weather")] }],
    use: Effect.fnUntraced(function* ({ way }) {
      const arrived = yield* Ref.make("")
      const error = yield* way === "whole"
        ? expectFailure(way)(question)
        : Effect.matchEffect(listen(arrived), {
            onSuccess: () => Effect.fail("expected the stream to fail, and it ended"),
            onFailure: Effect.succeed
          })
      if (!error.isRetryable)
        return yield* Effect.fail(`expected an error that is worth a retry, got ${show(about(error))}`)
      if (way === "streamed") yield* expectEqual("the text", "The weather", yield* Ref.get(arrived))
      yield* expectRequests(1)
    })
  },
  {
    name: "interruption closes the connection",
    replies: [{ _tag: "Silence", content: [text("The weather")] }],
    use: Effect.fnUntraced(function* ({ expectNext, way }) {
      const arrived = yield* Ref.make("")
      const fiber = yield* Effect.forkChild(way === "whole" ? Effect.asVoid(ask(way, question)) : listen(arrived))
      yield* expectNext("the provider to receive the request")
      yield* received
      if (way === "streamed") {
        yield* expectNext("the text to arrive before the stream ends")
        const pause = Effect.provideService(Effect.sleep("5 millis"), Clock.Clock, realClock)
        yield* Effect.repeat(Effect.andThen(pause, Ref.get(arrived)), { until: (text) => text === "The weather" })
      }
      yield* expectNext("the call to end when it is interrupted")
      yield* Fiber.interrupt(fiber)
      yield* expectNext("the provider to see that the connection is closed")
      yield* Effect.flatMap(Provider, ({ aborted }) => aborted)
      yield* expectRequests(1)
    })
  }
]
