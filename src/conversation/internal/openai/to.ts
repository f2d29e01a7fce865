import * as Result from "effect/Result"
import type { JsonObject } from "../../../payload/Json.ts"
import type { Conversation } from "../../Conversation.ts"
import type { Message } from "../../Message.ts"
import type { Options } from "../../OpenAiMessages.ts"
import * as RenderError from "../../RenderError.ts"
import * as foreign from "../foreign.ts"
import * as groups from "../groups.ts"
import * as history from "../history.ts"
import * as calls from "../renderedCalls.ts"
import { exact } from "./exact.ts"
import { prepare } from "./prepare.ts"

export const toMessages = (
  self: Conversation,
  options: Options
): Result.Result<ReadonlyArray<JsonObject>, RenderError.RenderError> => {
  const messages = history.toArray(history.of(self))
  return Result.gen(function* () {
    yield* calls.closed(self, messages)
    const written: Array<JsonObject> = []
    let index = 0
    const next = (message: Message) =>
      Result.map(prepare(message, index++, options), (said) => exact(said, foreign.noteOf("openai", message)))
    for (const { message, results } of groups.group(messages)) {
      if (message !== undefined) written.push(yield* next(message))
      const answers: Array<{ readonly message: Message; readonly json: JsonObject }> = []
      for (const result of results) answers.push({ message: result, json: yield* next(result) })
      for (const { json } of foreign.inPlace("openai", answers)) written.push(json)
    }
    return written
  }).pipe(Result.mapError((reason) => new RenderError.RenderError({ format: "OpenAI", reason })))
}
