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
import { serve, theKey, type Dialect, type Script, type Server } from "./server.ts"

/** A provider with its client, whose server is on loopback. */
export interface Provider {
  readonly dialect: Dialect
  readonly model: (url: string, apiKey: string) => LanguageModelV4
  readonly options?: AiSdk.Options
  readonly lacks: ReadonlyArray<LanguageModelConformance.Feature>
}

const openai = (baseURL: string, apiKey: string) => createOpenAI({ baseURL: `${baseURL}/v1`, apiKey })

export const providers = {
  "openai responses": {
    dialect: openaiResponses,
    model: (url, apiKey) => openai(url, apiKey)("gpt-5.2"),
    lacks: []
  },
  "openai responses, stored": {
    dialect: openaiResponses,
    model: (url, apiKey) => openai(url, apiKey)("gpt-5.2"),
    options: { providerOptions: { openai: { store: true } } },
    lacks: []
  },
  "openai chat": {
    dialect: openaiChat,
    model: (url, apiKey) => openai(url, apiKey).chat("gpt-5.2"),
    lacks: ["reasoning"]
  },
  anthropic: {
    dialect: anthropicMessages,
    model: (url, apiKey) => createAnthropic({ baseURL: `${url}/v1`, apiKey })("claude-sonnet-4-5"),
    lacks: ["broken-arguments"]
  },
  google: {
    dialect: googleGenerate,
    model: (url, apiKey) => createGoogle({ baseURL: `${url}/v1beta`, apiKey })("gemini-3-pro-preview"),
    lacks: ["broken-arguments", "broken-arguments-streamed"]
  },
  "openai compatible": {
    dialect: localChat,
    model: (url, apiKey) =>
      createOpenAICompatible({
        name: "local",
        baseURL: `${url}/v1`,
        apiKey,
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
    model: (url, apiKey) => createAnthropic({ baseURL: `${url}/v1`, apiKey })("claude-opus-4-6"),
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
