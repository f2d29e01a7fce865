/** The limit of the tokens of an answer, and the format of an object that is streamed, for the adapter of the model that is asked. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as LanguageModel from "effect/ai/LanguageModel"

export const OutputLimit: Context.Reference<number | undefined> = Context.Reference<number | undefined>(
  "effect-emissary/agent/OutputLimit",
  { defaultValue: () => undefined }
)

type Format = LanguageModel.ProviderOptions["responseFormat"]

/** The format of an answer that is streamed: `streamText` of `effect/ai` has none for it. Adapters that `streamObjects` use it. */
export const StreamedFormat: Context.Reference<Format | undefined> = Context.Reference<Format | undefined>(
  "effect-emissary/agent/StreamedFormat",
  { defaultValue: () => undefined }
)

const streaming = new WeakSet<LanguageModel.LanguageModel>()

/** Marks a model whose adapter uses {@link StreamedFormat}. */
export const streamObjects = <A extends LanguageModel.LanguageModel>(model: A): A => {
  streaming.add(model)
  return model
}

export const streamsObjects = (model: LanguageModel.LanguageModel): boolean => streaming.has(model)

/** The request with the format that is asked for. */
export const inFormat = (request: LanguageModel.ProviderOptions): Effect.Effect<LanguageModel.ProviderOptions> =>
  Effect.map(StreamedFormat, (responseFormat) =>
    responseFormat === undefined ? request : { ...request, responseFormat }
  )
