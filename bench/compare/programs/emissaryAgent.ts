import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Agent from "effect-emissary/agent/Agent"
import { handler, model, toolkit } from "./tool.ts"

const agent = Agent.make("a", { instructions: "s", toolkit })

const program = agent
  .ask("q")
  .pipe(Effect.provide([Layer.effect(LanguageModel.LanguageModel, model), toolkit.toLayer({ weather: handler })]))

export const main = (): Promise<string> => Effect.runPromise(program)
