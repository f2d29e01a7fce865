/** The limit of the tokens of an answer, and the format of an object that is streamed, for the adapter of the model that is asked. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as LanguageModel from "effect/ai/LanguageModel"

export const OutputLimit: Context.Reference<number | undefined> = Context.Reference<number | undefined>(
  "effect-emissary/agent/OutputLimit",
  { defaultValue: () => undefined }
)

type Format = LanguageModel.ProviderOptions["responseFormat"]

/** The format of an answer that is streamed: `streamText` of `effect/ai` has none for it. The adapters of {@link makeModel} use it. */
export const StreamedFormat: Context.Reference<Format | undefined> = Context.Reference<Format | undefined>(
  "effect-emissary/agent/StreamedFormat",
  { defaultValue: () => undefined }
)

const streaming = new WeakSet<LanguageModel.LanguageModel>()

/** The model of an adapter that streams objects: its requests have the {@link StreamedFormat}. */
export const makeModel = ({
  streamText,
  ...hooks
}: Parameters<typeof LanguageModel.make>[0]): Effect.Effect<LanguageModel.LanguageModel> =>
  Effect.map(
    LanguageModel.make({
      ...hooks,
      streamText: (request) =>
        Stream.unwrap(
          Effect.map(StreamedFormat, (responseFormat = request.responseFormat) =>
            streamText({ ...request, responseFormat })
          )
        )
    }),
    (model) => {
      streaming.add(model)
      return model
    }
  )

export const streamsObjects = (model: LanguageModel.LanguageModel): boolean => streaming.has(model)
