/** The limit of the tokens of an answer, for the adapter of the model that is asked. */

import * as Context from "effect/Context"

export const OutputLimit: Context.Reference<number | undefined> = Context.Reference<number | undefined>(
  "effect-emissary/agent/OutputLimit",
  { defaultValue: () => undefined }
)
