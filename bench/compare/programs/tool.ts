/** The one tool of the programs that are written with Effect, and their model: a call, then text. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"

const Weather = Tool.make("weather", {
  description: "Look up the weather",
  parameters: Schema.Struct({ city: Schema.String }),
  success: Schema.Struct({ city: Schema.String, temperature: Schema.Finite })
})

export const toolkit = Toolkit.make(Weather)

export const handler = ({ city }: { readonly city: string }) => Effect.succeed({ city, temperature: 21 })

export const model = LanguageModel.make({
  generateText: ({ prompt }) =>
    Effect.succeed([
      prompt.content.length < 3
        ? { type: "tool-call", id: "c1", name: "weather", params: { city: "Oslo" } }
        : { type: "text", text: "hello" }
    ]),
  streamText: () => Stream.empty
})
