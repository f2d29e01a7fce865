import { createAnthropic } from "@ai-sdk/anthropic"
import { createGoogle } from "@ai-sdk/google"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import type { LanguageModelV4 } from "@ai-sdk/provider"
import { Deferred, Effect, Layer } from "effect"
import { AiSdk } from "effect-emissary/ai-sdk"
import { LanguageModelConformance } from "effect-emissary/testing"
import { anthropicMessages } from "./anthropic.ts"
import { localChat, openaiChat } from "./chat.ts"
import { googleGenerate } from "./google.ts"
import { openaiResponses } from "./responses.ts"
import { objectOf, parse, serve, theKey, type Dialect, type Json, type Script, type Server } from "./server.ts"

/** A provider with its client, whose server is on loopback. */
export interface Provider {
  readonly dialect: Dialect
  readonly model: (url: string, apiKey: string, fetch?: typeof globalThis.fetch) => LanguageModelV4
  readonly options?: AiSdk.Options
  readonly lacks: ReadonlyArray<LanguageModelConformance.Feature>
}

const openai = (baseURL: string, apiKey: string, fetch: typeof globalThis.fetch) =>
  createOpenAI({ baseURL: `${baseURL}/v1`, apiKey, fetch })

export const providers = {
  "openai responses": {
    dialect: openaiResponses,
    model: (url, apiKey, fetch = globalThis.fetch) => openai(url, apiKey, fetch)("gpt-5.2"),
    lacks: []
  },
  "openai responses, stored": {
    dialect: openaiResponses,
    model: (url, apiKey, fetch = globalThis.fetch) => openai(url, apiKey, fetch)("gpt-5.2"),
    options: { providerOptions: { openai: { store: true } } },
    lacks: []
  },
  "openai chat": {
    dialect: openaiChat,
    model: (url, apiKey, fetch = globalThis.fetch) => openai(url, apiKey, fetch).chat("gpt-5.2"),
    lacks: ["reasoning"]
  },
  anthropic: {
    dialect: anthropicMessages,
    model: (url, apiKey, fetch = globalThis.fetch) =>
      createAnthropic({ baseURL: `${url}/v1`, apiKey, fetch })("claude-sonnet-4-5"),
    lacks: ["broken-arguments"]
  },
  google: {
    dialect: googleGenerate,
    model: (url, apiKey, fetch = globalThis.fetch) =>
      createGoogle({ baseURL: `${url}/v1beta`, apiKey, fetch })("gemini-3-pro-preview"),
    lacks: ["broken-arguments", "broken-arguments-streamed"]
  },
  "openai compatible": {
    dialect: localChat,
    model: (url, apiKey, fetch = globalThis.fetch) =>
      createOpenAICompatible({
        name: "local",
        baseURL: `${url}/v1`,
        apiKey,
        fetch,
        includeUsage: true,
        supportsStructuredOutputs: true
      })("qwen3"),
    lacks: ["signature"]
  }
} satisfies Record<string, Provider>

/** Models with reasoning, which refuse more. */
export const reasoning = {
  "openai responses that reasons": { ...providers["openai responses"], options: { reasoning: "high" } },
  "anthropic that thinks": { ...providers.anthropic, options: { reasoning: "high" } },
  "anthropic that thinks as it likes": {
    ...providers.anthropic,
    model: (url, apiKey, fetch = globalThis.fetch) =>
      createAnthropic({ baseURL: `${url}/v1`, apiKey, fetch })("claude-opus-4-6"),
    options: { reasoning: "medium", temperature: 0.5 }
  }
} satisfies Record<string, Provider>

/** A model of the provider, whose server has the script. */
export const connect = (provider: Provider, script: Script, key: string = theKey) =>
  Effect.map(serve(provider.dialect, script), (server) => ({
    server,
    model: AiSdk.model(provider.model(server.url, key), provider.options ?? {})
  }))

/** A program whose requests the server must accept, all of them. */
export const accepted =
  (server: Server) =>
  <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.onExit(program, () => {
      const [refusal] = server.refusals
      return refusal === undefined ? Effect.void : Effect.die(new Error(JSON.stringify(refusal)))
    })

/** The bodies that a provider is sent, and its refusals. All happens in this process, and each answer is the same text. */
export const encoding = (provider: Provider) => {
  const { dialect } = provider
  const bodies: Array<Json> = []
  const refusals: Array<unknown> = []
  const stored = new Map<string, Json>()
  const reply = { _tag: "Answer", content: [{ type: "text", text: "{}" }], finish: "stop", usage: {} } as const
  const answerTo = (body: Json): Response => {
    const turn = { index: bodies.push(body) - 1, body, stored }
    const refusal = dialect.refuse(turn)
    if (refusal === undefined) return Response.json(dialect.whole(reply, turn))
    refusals.push(refusal.body)
    return Response.json(refusal.body, { status: refusal.status })
  }
  const fetch: typeof globalThis.fetch = (_, init) => Promise.resolve(answerTo(objectOf(parse(init?.body))))
  const model = AiSdk.make(provider.model("http://provider.test", theKey, fetch), provider.options ?? {})
  return { bodies, refusals, model }
}

export const providerOf = (server: Server) =>
  LanguageModelConformance.Provider.of({
    requests: Effect.sync(() => {
      const [refusal] = server.refusals
      return refusal === undefined ? [...server.requests] : Effect.runSync(Effect.die(refusal.body))
    }),
    aborted: Deferred.await(server.aborted)
  })

export const harness = (provider: Provider) => (replies: ReadonlyArray<LanguageModelConformance.Reply>) =>
  Effect.map(connect(provider, replies), ({ model, server }) =>
    Layer.merge(model, Layer.succeed(LanguageModelConformance.Provider, providerOf(server)))
  ).pipe(Layer.unwrap)
