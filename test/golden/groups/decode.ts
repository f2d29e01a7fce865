import { Effect, Option, Schema } from "effect"
import { ModelRegistry } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { checkExit, equal, type Json, type Run } from "../golden.ts"
import { decodeGiven, fromDefinition } from "../wireCases.ts"

const anyOptions = Schema.Record(Schema.String, Schema.Json)

/** A receiver that knows only these providers. */
const knowing = (providers: ReadonlyArray<Schema.Json>) =>
  ModelRegistry.layer(
    Object.fromEntries(
      providers.map((name) => [
        String(name),
        ModelRegistry.provider({ options: anyOptions, model: () => ScriptedModel.layer([]) })
      ])
    )
  )

export const run: Run = (given, expect) => {
  const providers = given["known_providers"]
  const decoded = decodeGiven(given).pipe(
    Effect.tap((definition) =>
      Array.isArray(providers)
        ? Effect.flatMap(ModelRegistry.ModelRegistry, (registry) =>
            registry.resolve(definition.model ?? "", definition.modelOptions)
          ).pipe(Effect.provide(knowing(providers)))
        : Effect.void
    )
  )
  return checkExit(decoded, expect, (definition) => {
    // a definition that mentions provider options may be read without them
    const { provider_options: _, ...expected } = expect["definition"] as Json
    equal(fromDefinition(definition), expected, "definition")
    if (expect["model_parts"] !== undefined) {
      const { model, provider } = Option.getOrThrow(ModelRegistry.parseName(definition.model ?? ""))
      equal([provider, model], expect["model_parts"], "model parts")
    }
  })
}
