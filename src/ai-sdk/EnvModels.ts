/**
 * Models by their names alone, from the packages, keys and URLs of the environment.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ModelRegistry from "../agent/ModelRegistry.ts"
import * as agentData from "../agent/internal/agentData.ts"
import * as Json from "../payload/Json.ts"
import * as envModels from "./internal/envModels.ts"

const decodeSampling = Json.decode(ModelRegistry.Sampling, agentData.optionsOfModel)

const environment: ModelRegistry.Provider<unknown, never> = {
  build: Effect.fnUntraced(function* (name, options) {
    return yield* envModels.build(name, yield* decodeSampling(options))
  })
}

/**
 * Options of {@link layer}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /**
   * The providers that a name may select. Default: the providers in the table of {@link layer}. With `"any"` also each
   * other name with a URL in the environment, so a definition can send its prompt, and `NAME_API_KEY`, to each
   * `NAME_BASE_URL`. The layer dies with another text, and with a name that has no URL and is close to a name in the
   * table.
   */
  readonly providers?: ReadonlyArray<string> | "any" | undefined
}

/**
 * A registry of the providers that the environment configures: their packages are installed, and their keys are set.
 *
 * **When to use**
 *
 * Use to choose a model by its name alone, in a command line or an example. Where definitions come from outside, list
 * the `providers` that they may use, or use `ModelRegistry.layer`: a definition may name each provider here that the environment has a
 * key for.
 *
 * **Details**
 *
 * | provider | package | variables |
 * |---|---|---|
 * | `anthropic` | `@ai-sdk/anthropic` | `ANTHROPIC_API_KEY` |
 * | `deepseek` | `@ai-sdk/deepseek` | `DEEPSEEK_API_KEY` |
 * | `google` | `@ai-sdk/google` | `GOOGLE_GENERATIVE_AI_API_KEY` or `GEMINI_API_KEY` |
 * | `groq` | `@ai-sdk/groq` | `GROQ_API_KEY` |
 * | `mistral` | `@ai-sdk/mistral` | `MISTRAL_API_KEY` |
 * | `ollama` | `@ai-sdk/openai-compatible` | none |
 * | `openai` | `@ai-sdk/openai` | `OPENAI_API_KEY` |
 * | `openrouter` | `@ai-sdk/openai-compatible` | `OPENROUTER_API_KEY` |
 * | `xai` | `@ai-sdk/xai` | `XAI_API_KEY` |
 * | any other name in `providers` | `@ai-sdk/openai-compatible` | its URL, and `NAME_API_KEY` if the server wants a key |
 *
 * `NAME_BASE_URL` is the URL of the provider `name`, with the letters in upper case and `_` for other characters: with
 * `providers: ["vllm"]`, `VLLM_BASE_URL=http://localhost:8000/v1` makes `vllm/qwen3` a model. It replaces the URL of a
 * provider in the table, such as `OPENAI_BASE_URL`. The URL of Ollama is `http://localhost:11434/v1` by default.
 *
 * A definition may set the options of `ModelRegistry.Sampling`. A name that would lead elsewhere in a URL, with `..`
 * between slashes or with one of `?#%\\`, is an `InvalidModelName`. The variables are read through the `ConfigProvider`
 * of the layer when a model is first asked for, and the package is imported then. What is missing is the reason of a
 * `ModelRegistryError`. A model that the provider does not know fails at its first call: the error names the closest
 * models in the list of the provider at `GET {url}/models`.
 *
 * A redirect is not followed, because it would take the key and the prompt to another server. A response has at most
 * 64 MiB.
 *
 * **Example** (A server under a name of its own, and a missing key)
 *
 * ```ts
 * import assert from "node:assert"
 * import { ConfigProvider, Effect, Layer } from "effect"
 * import { ModelRegistry } from "effect-emissary"
 * import { EnvModels } from "effect-emissary/ai-sdk"
 *
 * const Models = EnvModels.layer({ providers: ["openai", "vllm"] })
 * const environment = ConfigProvider.layer(ConfigProvider.fromUnknown({ VLLM_BASE_URL: "http://localhost:8000/v1" }))
 * const program = Effect.gen(function*() {
 *   const registry = yield* ModelRegistry.ModelRegistry
 *   yield* registry.resolve("vllm/qwen3", { temperature: 0.2 })
 *   return yield* Effect.flip(registry.resolve("openai/gpt-5.2", {}))
 * }).pipe(Effect.scoped, Effect.provide(Layer.provide(Models, environment)))
 *
 * const error = await Effect.runPromise(program)
 * assert.match(error.message, /provider "openai" needs a key. Set OPENAI_API_KEY/)
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = ({
  providers = envModels.knownProviders
}: Options = {}): Layer.Layer<ModelRegistry.ModelRegistry> =>
  Layer.provide(
    ModelRegistry.layerLookup((name) =>
      providers === "any" || providers.includes(name) ? environment : envModels.unknownProvider(name, providers)
    ),
    Layer.effectDiscard(envModels.requireProviders(providers))
  )
