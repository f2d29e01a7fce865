// pydantic/pydantic-ai#7110 and PR 7157 (2026-08): an image that a model or a tool returns is over a size limit; it is asked again without end, or fails without a word of the cause.
// anthropics/claude-code#65636 (2026-06): an oversized image leads to retries that are paid. Right: a picture of 3.4 MB (base64 4.5 MB) as an answer is taken, or fails after ONE model
// call with an error whose message names the size and the limit; it is no mistake that the model could correct, and no matter of "the descriptions of the tools".
import { Effect } from "effect"
import { Agent } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

let calls = 0
const model = ScriptedModel.layer(() => {
  calls++
  return {
    text: "here",
    files: [{ mediaType: "image/png", data: "A".repeat(4_500_000) }],
    usage: { inputTokens: 10, outputTokens: 1300 }
  }
})
export default Effect.gen(function* () {
  const exit = yield* Effect.exit(Agent.make("painter", {}).run("paint"))
  const error = exit._tag === "Success" ? undefined : exit.cause.reasons[0].error
  same("model calls", calls, 1)
  if (error) holds("the message names the size", /4194304|4500000/.test(error.message), error.message)
}).pipe(Effect.provide(model))
