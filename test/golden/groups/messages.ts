import { Effect } from "effect"
import { Conversation } from "effect-emissary"
import { checkExit, equal, type Json, type Run } from "../golden.ts"
import { fromGolden, normal, pick, toGolden } from "../history.ts"

const json = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value)) : {}

/** A call for a result to answer. */
const callFor = ({ name, tool_call_id: id }: Json): Json => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id: id ?? "", name: name ?? "", arguments: "{}" }]
})

/**
 * A message in and out of a conversation. Its JSON form in these cases is that of
 * the system the cases come from; ours is part of the conversation's wire.
 */
export const run: Run = (given, expect) => {
  const message = json(given["wire"] ?? given["message"])
  const added = Effect.gen(function* () {
    let self = Conversation.empty
    for (const next of message["role"] === "tool" ? [callFor(message), message] : [message]) {
      self = yield* Effect.fromResult(Conversation.append(self, yield* fromGolden(self, next)))
    }
    const wire = yield* Conversation.encodeJson(self)
    return Conversation.messages(yield* Conversation.decodeJson(wire)).map(toGolden).at(-1) ?? null
  })
  return checkExit(added, expect, (actual) => {
    const expected = expect["message"] ?? expect["wire"]
    equal(pick(actual, expected), normal(expected))
  })
}
