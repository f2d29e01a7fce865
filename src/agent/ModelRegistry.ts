/**
 * From the name of a model to the model.
 *
 * **Mental model**
 *
 * A definition names its model, `"provider/model"`, and holds options for it as
 * data. The registry, supplied by the program that runs the agent, has the providers:
 * each builds its models, and accepts its options from a definition.
 * URLs, headers and keys are the provider layer's own business and never come
 * from a definition. `EnvModels.layer` of `effect-emissary/ai-sdk` is a registry of the providers that the environment configures.
 *
 * @since 0.1.0
 */

import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as RcMap from "effect/RcMap"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as ScopedCache from "effect/ScopedCache"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Json from "../payload/Json.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import { checkObject } from "../payload/internal/copyJson.ts"
import { own } from "../payload/internal/values.ts"
import * as agentData from "./internal/agentData.ts"

const Reason = Schema.TaggedUnion({
  InvalidModelName: { found: Schema.String },
  UnknownProvider: {
    provider: Schema.String,
    known: Schema.Array(Schema.String),
    closest: Schema.optionalKey(Schema.String),
    variable: Schema.optionalKey(Schema.String)
  },
  InvalidModelOptions: { provider: Schema.String, error: PayloadError.PayloadError },
  PackageMissing: { provider: Schema.String, package: Schema.String, problem: Schema.String },
  KeyMissing: { provider: Schema.String, variables: Schema.Array(Schema.String) },
  ModelUnavailable: { problem: Schema.String }
})

const quote = (text: string): string => JSON.stringify(text)

const explain = Reason.match({
  InvalidModelName: ({ found }) => `expected a model of the form ${agentData.expectedModelName}, got ${found}`,
  UnknownProvider: ({ closest, known, provider, variable }) => {
    const found = `unknown provider ${quote(provider)}; known providers: ${known.length === 0 ? "none" : known.join(", ")}.`
    const similar = closest === undefined ? "" : ` Did you mean ${quote(closest)}?`
    const url =
      variable === undefined ? "Add it" : `For a server with the API of OpenAI set ${variable}, and add the name`
    return `${found}${similar} ${url} to the providers of the registry`
  },
  InvalidModelOptions: ({ error, provider }) =>
    `provider ${quote(provider)} does not accept these options: ${error.message}`,
  PackageMissing: ({ package: name, problem, provider }) =>
    `provider ${quote(provider)} needs the package ${name}: ${problem}. Run: npm install ${name} zod`,
  KeyMissing: ({ provider, variables }) => `provider ${quote(provider)} needs a key. Set ${variables.join(" or ")}`,
  ModelUnavailable: ({ problem }) =>
    `the layer of the model could not be built (${problem}). Read ModelRegistry.causeOf(error)`
})

/**
 * The name of a model did not become a model.
 *
 * **Details**
 *
 * `model` is the requested name, quoted and shortened. The `_tag` of `reason` is
 *
 * - `InvalidModelName`: the name is not of the form `"provider/model"`; `found` is
 *   the name, or the kind of the value.
 * - `UnknownProvider`: the registry has no such provider; `known` lists those it has. With `EnvModels.layer`, `closest` is one of
 *   them with a similar name, and `variable` the one for the URL of a provider that is not in its table.
 * - `InvalidModelOptions`: the options do not fit the provider's Schema, or hold a
 *   secret.
 * - `PackageMissing`, `KeyMissing`: `EnvModels.layer` needs a package to be installed, or one of the `variables` to be set.
 * - `ModelUnavailable`: the layer of the model failed. `problem` is the kind of its
 *   error; {@link causeOf} returns the error, which may hold secrets.
 *
 * @category errors
 * @since 0.1.0
 */
export class ModelRegistryError extends Schema.TaggedError<ModelRegistryError>(
  "effect-emissary/agent/ModelRegistryError"
)("ModelRegistryError", { model: Schema.String, reason: Reason }) {
  override get message() {
    return `ModelRegistry: ${this.model}: ${explain(this.reason)}`
  }
}

const causes = new WeakMap<ModelRegistryError, Cause.Cause<unknown>>()

/**
 * The cause behind `ModelUnavailable`, in the process where it happened. It may hold
 * secrets: read it before you log it.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (error: ModelRegistryError): Option.Option<Cause.Cause<unknown>> =>
  Option.fromUndefinedOr(causes.get(error))

/**
 * The service that resolves the name of a model.
 *
 * **Details**
 *
 * `resolve` takes the name and the options of a definition and answers with the
 * `LanguageModel` service, which may be used until the scope closes: a run resolves its
 * model in a scope of its own. It fails with a {@link ModelRegistryError}.
 *
 * @category services
 * @since 0.1.0
 */
export class ModelRegistry extends Context.Service<
  ModelRegistry,
  {
    readonly resolve: (
      model: string,
      options: Json.JsonObject
    ) => Effect.Effect<LanguageModel.LanguageModel, ModelRegistryError, Scope.Scope>
  }
>()("effect-emissary/agent/ModelRegistry") {}

/**
 * An entry of the registry, made by {@link provider}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Provider<out E, out R> {
  readonly build: (
    name: agentData.ModelName,
    options: Json.JsonObject
  ) => Effect.Effect<Layer.Layer<LanguageModel.LanguageModel, E, R>, PayloadError.PayloadError | typeof Reason.Type>
}

/**
 * The services that the models of a {@link Provider} require.
 *
 * @category models
 * @since 0.1.0
 */
export type Services<P> = P extends Provider<infer _E, infer R> ? R : never

/**
 * The options that most providers take: sampling, limits and the reasoning level.
 *
 * **Details**
 *
 * | option | value |
 * |---|---|
 * | `temperature` | 0 to 2 |
 * | `top_p` | 0 to 1 |
 * | `max_tokens`, `max_output_tokens` | integer, at least 1 |
 * | `stop` | text, or a list of texts |
 * | `seed` | integer |
 * | `reasoning` | the definition's reasoning level, if it has one |
 *
 * Extend it with `Schema.Struct({ ...Sampling.fields, ... })`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Sampling = Schema.Struct({
  temperature: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 2 }))),
  top_p: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))),
  max_tokens: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  max_output_tokens: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  stop: Schema.optionalKey(Schema.Union([Schema.String, Schema.Array(Schema.String)])),
  seed: Schema.optionalKey(Schema.Int),
  reasoning: Schema.optionalKey(agentData.ReasoningLevel)
})

/**
 * The options of {@link Sampling}, decoded.
 *
 * @category models
 * @since 0.1.0
 */
export type Sampling = typeof Sampling.Type

/**
 * Describes a provider: the options that it takes from a definition, and the layer of each of its models.
 *
 * @see {@link layer} for an example
 * @category constructors
 * @since 0.1.0
 */
export const provider = <Options, E, R>(entry: {
  /**
   * A Schema of the options that a definition may set, {@link Sampling} for example. An option that it does not declare
   * is refused with its path, and so is every key that `Json.SecretNames` lists.
   */
  readonly options: Schema.Decoder<Options>
  /**
   * Receives the part of the name after the first slash and the decoded options. What its layer needs (an HTTP client,
   * a key) is provided to the layer of the registry.
   */
  readonly model: (model: string, options: Options) => Layer.Layer<LanguageModel.LanguageModel, E, R>
}): Provider<E, R> => {
  const decode = Json.decode(entry.options, agentData.optionsOfModel)
  return { build: ({ model }, options) => Effect.map(decode(options), (decoded) => entry.model(model, decoded)) }
}

const refuse = (model: string, reason: typeof Reason.Type) =>
  new ModelRegistryError({ model: agentData.renderValue(model), reason })

const requireName = (model: string): Effect.Effect<agentData.ModelName, ModelRegistryError> =>
  Effect.mapError(Effect.fromOption(agentData.parseModelName(model)), () =>
    refuse(model, { _tag: "InvalidModelName", found: agentData.renderValue(model) })
  )

const refuseBuild =
  (model: string, { provider }: agentData.ModelName) =>
  (error: PayloadError.PayloadError | typeof Reason.Type) =>
    refuse(model, error._tag === "PayloadError" ? { _tag: "InvalidModelOptions", provider, error } : error)

/** A copy of the options, once they are plain JSON without secrets. */
const checkOptions = (model: string, name: agentData.ModelName, options: Json.JsonObject) =>
  Effect.andThen(
    agentData.rejectSecrets(options, agentData.optionsOfModel),
    checkObject(options, { what: agentData.optionsOfModel.what })
  ).pipe(Effect.mapError(refuseBuild(model, name)))

/** The key of a model that is kept ready; compared by structure. */
interface Key<R> {
  readonly entry: Provider<unknown, R>
  readonly model: string
  readonly name: agentData.ModelName
  readonly options: Json.JsonObject
}

/** The name of an error's kind, without any of its content. */
const kindOf = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  if (typeof error !== "object" || error === null) return typeof error
  return "_tag" in error && typeof error._tag === "string" ? error._tag : error.constructor.name
}

const failUnavailable = (model: string, cause: Cause.Cause<unknown>) => {
  const error = refuse(model, { _tag: "ModelUnavailable", problem: kindOf(cause) })
  causes.set(error, cause)
  return error
}

/** The number of different models, counted with their options, that are kept ready. */
const capacity = 256

/**
 * A registry of the given providers, by name.
 *
 * **Details**
 *
 * A model is built when it is first asked for, once per name and options; a build
 * that failed is tried again next time. The 256 models used most recently are kept
 * ready. Another one is released as soon as no run uses it, and all of them with the
 * layer. Layers that several models share are built once. Errors of building become `ModelUnavailable`; names that are
 * malformed or have an unknown provider, and options the provider does not take,
 * have reasons of their own, see {@link ModelRegistryError}.
 *
 * Only own keys of `providers` count: a model `"constructor/x"` has an unknown
 * provider.
 *
 * **Example** (Two providers)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Layer, Schema } from "effect"
 * import { LanguageModel } from "effect/ai"
 * import { ModelRegistry } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * const Registry = ModelRegistry.layer({
 *   demo: ModelRegistry.provider({
 *     options: ModelRegistry.Sampling,
 *     model: (model, { temperature = 1 }) => ScriptedModel.layer(() => ({ text: `${model} at ${temperature}` }))
 *   }),
 *   other: ModelRegistry.provider({
 *     options: Schema.Struct({}),
 *     model: () => ScriptedModel.layer([])
 *   })
 * })
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ModelRegistry.ModelRegistry
 *   const model = yield* registry.resolve("demo/small", { temperature: 0.2 })
 *   const { text } = yield* LanguageModel.generateText({ prompt: "Hi" }).pipe(
 *     Effect.provideService(LanguageModel.LanguageModel, model)
 *   )
 *   const refused = yield* Effect.flip(registry.resolve("nobody/small", {}))
 *   return [text, refused.message]
 * }).pipe(Effect.scoped, Effect.provide(Registry))
 *
 * const [text, refused] = await Effect.runPromise(program)
 * assert.strictEqual(text, "small at 0.2")
 * assert.match(refused ?? "", /known providers: demo, other/)
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <const Providers extends { readonly [name: string]: Provider<unknown, unknown> }>(
  providers: Providers
): Layer.Layer<ModelRegistry, never, Exclude<Services<Providers[keyof Providers]>, Scope.Scope>> =>
  // Sound: the union has the requirements of every entry.
  fromProviders(providers as { readonly [name: string]: Provider<unknown, Services<Providers[keyof Providers]>> })

const fromProviders = <R>(providers: {
  readonly [name: string]: Provider<unknown, R>
}): Layer.Layer<ModelRegistry, never, Exclude<R, Scope.Scope>> => {
  const known = Object.keys(providers).sort()
  return layerLookup((provider) => own(providers, provider) ?? { _tag: "UnknownProvider", provider, known })
}

/**
 * A registry that finds its providers by a function of their names.
 *
 * **When to use**
 *
 * Use it where the names of providers are not known when the layer is made: each tenant has its own, for example.
 *
 * **Details**
 *
 * `find` returns a provider, or the reason of a {@link ModelRegistryError}. It returns the same provider for a name each time: a
 * model is kept ready for its provider, its name and its options, as by {@link layer}.
 *
 * **Example** (A provider for each tenant)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { ModelRegistry } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 *
 * const scripted = ModelRegistry.provider({ options: ModelRegistry.Sampling, model: () => ScriptedModel.layer([]) })
 * const Registry = ModelRegistry.layerLookup((provider) =>
 *   provider.startsWith("tenant-") ? scripted : { _tag: "UnknownProvider", provider, known: ["tenant-..."] }
 * )
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ModelRegistry.ModelRegistry
 *   yield* registry.resolve("tenant-42/small", {})
 *   return yield* Effect.flip(registry.resolve("nobody/small", {}))
 * }).pipe(Effect.scoped, Effect.provide(Registry))
 *
 * const refused = await Effect.runPromise(program)
 * assert.match(refused.message, /unknown provider "nobody"; known providers: tenant-\.\.\./)
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerLookup = <R>(
  find: (provider: string) => Provider<unknown, R> | typeof Reason.Type
): Layer.Layer<ModelRegistry, never, Exclude<R, Scope.Scope>> =>
  Layer.effect(
    ModelRegistry,
    Effect.gen(function* () {
      const context = yield* Effect.context<R>()
      const memoMap = yield* Layer.makeMemoMap

      const build = Effect.fnUntraced(function* ({ entry, model, name, options }: Key<R>) {
        const modelLayer = yield* entry.build(name, options).pipe(
          // a provider of the environment reads it through the ConfigProvider of the layer
          Effect.updateContext((_: Context.Context<never>) => context),
          Effect.mapError(refuseBuild(model, name))
        )
        const services = yield* Layer.buildWithMemoMap(modelLayer, memoMap, yield* Effect.scope).pipe(
          // the context of the layer and nothing of the run that happens to ask first: the model outlives it
          Effect.updateContext((_: Context.Context<never>) => context),
          Effect.catchCause((cause) =>
            Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.fail(failUnavailable(model, cause))
          )
        )
        return Context.get(services, LanguageModel.LanguageModel)
      })

      // A model is there for as long as something holds it: the runs that use it, and `ready`.
      const models = yield* RcMap.make({ lookup: build })
      const ready = yield* ScopedCache.make({ lookup: (key: Key<R>) => RcMap.get(models, key), capacity })

      return ModelRegistry.of({
        resolve: Effect.fnUntraced(function* (model, options) {
          const name = yield* requireName(model)
          const entry = find(name.provider)
          if ("_tag" in entry) return yield* refuse(model, entry)
          const checked = yield* checkOptions(model, name, options)
          const key = { entry, model, name, options: checked }
          const hold = yield* Scope.fork(yield* Effect.scope)
          const found = yield* Scope.provide(RcMap.get(models, key), hold).pipe(
            Effect.onError((cause) => Scope.close(hold, Exit.failCause(cause)))
          )
          yield* ScopedCache.get(ready, key)
          return found
        })
      })
    })
  )

/**
 * A registry that answers every well-formed name with the ambient
 * `LanguageModel`, whatever its options.
 *
 * **When to use**
 *
 * Use in tests, with a scripted model, for agents that name a model.
 *
 * **Details**
 *
 * A malformed name and options with secret keys are refused all the same.
 *
 * **Example** (A scripted model under any name)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Layer } from "effect"
 * import { ModelRegistry } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * const program = Effect.gen(function*() {
 *   const registry = yield* ModelRegistry.ModelRegistry
 *   const model = yield* registry.resolve("openai/gpt-5.2", {})
 *   return (yield* model.generateText({ prompt: "Hi" })).text
 * }).pipe(Effect.scoped)
 *
 * const text = await program.pipe(
 *   Effect.provide(ModelRegistry.layerContext.pipe(Layer.provide(ScriptedModel.layer([{ text: "Hello." }])))),
 *   Effect.runPromise
 * )
 * assert.strictEqual(text, "Hello.")
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerContext: Layer.Layer<ModelRegistry, never, LanguageModel.LanguageModel> = Layer.effect(
  ModelRegistry,
  Effect.map(LanguageModel.LanguageModel, (ambient) =>
    ModelRegistry.of({
      resolve: Effect.fnUntraced(function* (model, options) {
        yield* checkOptions(model, yield* requireName(model), options)
        return ambient
      })
    })
  )
)
