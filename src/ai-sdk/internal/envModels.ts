/**
 * The models of providers that the environment configures.
 */

import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as agentData from "../../agent/internal/agentData.ts"
import * as base from "../../payload/internal/base.ts"
import * as closeNames from "../../payload/internal/closeNames.ts"
import { defined, own } from "../../payload/internal/values.ts"
import * as AiSdk from "../AiSdk.ts"
import * as sdkError from "./sdkError.ts"

/** The client of a provider. */
interface Client {
  readonly package: string
  /** The function of the package that makes the provider. */
  readonly create: string
  /** The URL of the API. Absent where the environment has to have it. */
  readonly url?: string
  /** The variables that may have the key; the first variable that is set counts. */
  readonly keys: ReadonlyArray<string>
  readonly needsKey: boolean
  readonly authorize: (key: string) => Readonly<Record<string, string>>
  readonly settings: (provider: string) => Readonly<Record<string, unknown>>
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

const client = (name: string, create: string, url: string, members: Partial<Client> = {}): Client => ({
  package: `@ai-sdk/${name}`,
  create,
  url,
  keys: [`${name.toUpperCase()}_API_KEY`],
  needsKey: true,
  authorize: bearer,
  settings: () => ({}),
  ...members
})

/** A server with the API of OpenAI's chat completions. */
const compatible = (prefix: string, needsKey: boolean, url?: string): Client => ({
  package: "@ai-sdk/openai-compatible",
  create: "createOpenAICompatible",
  keys: [`${prefix}_API_KEY`],
  needsKey,
  authorize: bearer,
  settings: (name) => ({ name, includeUsage: true, supportsStructuredOutputs: true }),
  ...defined({ url })
})

const clients: Readonly<Record<string, Client>> = {
  anthropic: client("anthropic", "createAnthropic", "https://api.anthropic.com/v1", {
    authorize: (key) => ({ "x-api-key": key, "anthropic-version": "2023-06-01" })
  }),
  deepseek: client("deepseek", "createDeepSeek", "https://api.deepseek.com"),
  google: client("google", "createGoogleGenerativeAI", "https://generativelanguage.googleapis.com/v1beta", {
    keys: ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"],
    authorize: (key) => ({ "x-goog-api-key": key })
  }),
  groq: client("groq", "createGroq", "https://api.groq.com/openai/v1"),
  mistral: client("mistral", "createMistral", "https://api.mistral.ai/v1"),
  ollama: compatible("OLLAMA", false, "http://localhost:11434/v1"),
  openai: client("openai", "createOpenAI", "https://api.openai.com/v1"),
  openrouter: compatible("OPENROUTER", true, "https://openrouter.ai/api/v1"),
  xai: client("xai", "createXai", "https://api.x.ai/v1")
}

/** Why a model is not there; reasons of a `ModelRegistryError`. */
export type Problem =
  | { readonly _tag: "InvalidModelName"; readonly found: string }
  | {
      readonly _tag: "UnknownProvider"
      readonly provider: string
      readonly known: ReadonlyArray<string>
      readonly closest?: string
      readonly variable?: string
    }
  | {
      readonly _tag: "PackageMissing"
      readonly provider: string
      readonly package: string
      readonly problem: string
    }
  | { readonly _tag: "KeyMissing"; readonly provider: string; readonly variables: ReadonlyArray<string> }

/** The start of the variables of a provider: `MY_LLM` for `my-llm`. */
const prefixOf = (provider: string): string => provider.toUpperCase().replace(/[^A-Z0-9]/g, "_")

const urlVariable = (provider: string): string => `${prefixOf(provider)}_BASE_URL`

/** The text of a variable. A blank text counts as absent. */
const read = (variable: string): Effect.Effect<string | undefined> =>
  Effect.match(Config.Redacted(variable), {
    onFailure: () => undefined,
    onSuccess: (value) => Redacted.value(value).trim() || undefined
  })

const readFirst = Effect.fnUntraced(function* (variables: ReadonlyArray<string>) {
  for (const variable of variables) {
    const key = yield* read(variable)
    if (key !== undefined) return { variable, key }
  }
  return undefined
})

/** The providers that need no URL of the environment. */
export const knownProviders: ReadonlyArray<string> = Object.keys(clients)

/** A provider that is not allowed, or that has no URL. */
export const unknownProvider = (provider: string, known: ReadonlyArray<string>) => {
  const [closest] = closeNames.closestNames(provider, known, 1)
  const variable = knownProviders.includes(provider) ? undefined : urlVariable(provider)
  return { _tag: "UnknownProvider" as const, provider, known, ...defined({ closest, variable }) }
}

/** Dies with providers that are no list, and with a name that is misspelt: it has no URL, and a provider has a similar one. */
export const requireProviders = Effect.fnUntraced(function* (providers: ReadonlyArray<string> | "any") {
  if (providers === "any") return
  const where = "EnvModels.layer: providers: expected"
  if (!Array.isArray(providers)) return yield* Effect.die(new Error(`${where} a list of names, or "any"`))
  for (const name of providers) {
    if (knownProviders.includes(name) || (yield* read(urlVariable(name))) !== undefined) continue
    const { closest } = unknownProvider(name, knownProviders)
    if (closest === undefined) continue
    const found = `got ${base.quote(name)}. Did you mean ${base.quote(closest)}? Otherwise set ${urlVariable(name)}`
    return yield* Effect.die(new Error(`${where} providers of the table, or with a URL, ${found}`))
  }
})

/** The parts of a name that lead elsewhere in a URL: some clients put the name into the path. */
const misleading = /[\p{Cc}\\?#%]|(?:^|\/)\.{1,2}(?:\/|$)/u

type Create = (settings: Readonly<Record<string, unknown>>) => (model: string) => AiSdk.SdkModel

/** The client's function. A bundler leaves the import alone, because the package may not be there. */
const load = Effect.fnUntraced(function* ({ create, package: name }: Client, provider: string) {
  const missing = (problem: string): Problem => ({ _tag: "PackageMissing", provider, package: name, problem })
  const module = yield* Effect.tryPromise({
    try: (): PromiseLike<unknown> => import(name),
    catch: (error) =>
      missing(
        Predicate.hasProperty(error, "code") && error.code === "ERR_MODULE_NOT_FOUND"
          ? "it, or a package that it needs, is not installed"
          : "it could not be loaded"
      )
  })
  const found = Predicate.hasProperty(module, create) ? module[create] : undefined
  if (typeof found !== "function") return yield* Effect.fail(missing(`it has no ${create}`))
  // Sound: the function makes a provider, and the version of its models is checked.
  return { make: found as Create, missing }
})

/** The two forms in which providers list their models. */
const Listed = Schema.Union([
  Schema.Struct({ data: Schema.Array(Schema.Struct({ id: Schema.String })) }),
  Schema.Struct({ models: Schema.Array(Schema.Struct({ name: Schema.String })) })
])

const listTimeout = "5 seconds"

const decodeListed = Schema.decodeUnknownEffect(Listed)

/** The most models of a list that are read. */
const maxModels = 2000

/** The most bytes of a response. A stream of 128,000 tokens has about 45 MB. */
const maxBody = 64 * 1024 * 1024

const limitBody = (response: Response): Response => {
  let size = 0
  const limit = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (chunk, controller) => {
      size += chunk.length
      if (size > maxBody) controller.error(new TypeError(`a response of more than ${maxBody} bytes`))
      else controller.enqueue(chunk)
    }
  })
  return response.body === null ? response : new Response(response.body.pipeThrough(limit), response)
}

/** The `fetch` of the clients and of {@link listModels}. A redirect would take keys and prompts along: it is the answer, and an error. */
const limitedFetch: typeof fetch = (input, init) => fetch(input, { ...init, redirect: "manual" }).then(limitBody)

/** The names of the provider's models; none where it does not list them. */
const listModels = (url: string, headers: Readonly<Record<string, string>>): Effect.Effect<ReadonlyArray<string>> =>
  Effect.tryPromise((signal): PromiseLike<unknown> =>
    limitedFetch(`${url.replace(/(?<!\/)\/+$/, "")}/models`, { headers, signal }).then((response) => response.json())
  ).pipe(
    Effect.flatMap(decodeListed),
    Effect.map((listed) =>
      "data" in listed
        ? listed.data.map(({ id }) => id)
        : listed.models.map(({ name }) => name.replace(/^models\//, ""))
    ),
    Effect.map((names) => names.slice(0, maxModels)),
    Effect.timeout(listTimeout),
    Effect.orElseSucceed(() => [])
  )

const maxListed = 5

/** Adds the closest names to the error of a model that the provider does not know. */
const suggest = (model: string, names: Effect.Effect<ReadonlyArray<string>>) =>
  Effect.fnUntraced(function* (error: AiError.AiError) {
    const { method, module, reason } = error
    if (reason._tag !== "InvalidRequestError" || reason.parameter !== "model") return error
    const listed = yield* names
    if (listed.length === 0) return error
    const closest = closeNames.closestNames(model, listed)
    const found = closest.length === 0 ? listed.slice(0, maxListed) : closest
    const list = found.map(base.quote).join(", ")
    const advice = closest.length === 0 ? `Some of its models: ${list}` : `Did you mean ${list}?`
    const description = `${(reason.description ?? "").replace(/\.?$/, ".")} ${advice}`
    const { http, metadata, parameter } = reason
    return AiError.make({
      module,
      method,
      reason: new AiError.InvalidRequestError({ parameter, description, metadata, ...defined({ http }) })
    })
  })

/** The layer of a model of the environment. */
export const build = Effect.fnUntraced(function* (
  { model, provider }: agentData.ModelName,
  options: AiSdk.Options
): Effect.fn.Return<Layer.Layer<LanguageModel.LanguageModel>, Problem> {
  if (misleading.test(model)) {
    return yield* Effect.fail<Problem>({ _tag: "InvalidModelName", found: base.quote(`${provider}/${model}`) })
  }
  const known = own(clients, provider) ?? compatible(prefixOf(provider), false)
  const url = (yield* read(urlVariable(provider))) ?? known.url
  if (url === undefined) return yield* Effect.fail(unknownProvider(provider, knownProviders))
  const found = yield* readFirst(known.keys)
  if (found === undefined && known.needsKey) {
    return yield* Effect.fail<Problem>({ _tag: "KeyMissing", provider, variables: known.keys })
  }
  const { make, missing } = yield* load(known, provider)
  const languageModel = yield* Effect.try({
    try: () => {
      const settings = { ...known.settings(provider), baseURL: url, fetch: limitedFetch }
      return make({ ...settings, ...defined({ apiKey: found?.key }) })(model)
    },
    catch: () => missing("it could not make the model")
  })
  const wrong = sdkError.wrongVersion(languageModel)
  if (wrong !== undefined) return yield* Effect.fail(missing(wrong))
  const names = yield* Effect.cached(listModels(url, found === undefined ? {} : known.authorize(found.key)))
  return Layer.effect(
    LanguageModel.LanguageModel,
    AiSdk.make(languageModel, {
      ...options,
      ...defined({ apiKey: found && Redacted.make(found.key) }),
      apiKeyVariable: found?.variable ?? known.keys.join(" or "),
      mapError: suggest(model, names)
    })
  )
})
