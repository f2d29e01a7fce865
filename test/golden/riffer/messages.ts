/** The groups session and messages: histories that are made by hand. */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Conversation, type Message } from "effect-emissary"
import { type Case, checkExit, equal, ExpectedError, isObject, type Json, JsonObject, list, optional, read } from "../family.ts"
import { addAll, equalMessages, fromGolden, lastAssistant, normal, pick, toGolden } from "../history.ts"

const openIds = (self: Conversation.Conversation) => Conversation.openCalls(self).map(({ id }) => id)

/** The last assistant message, in the keys that are expected of it, and the ids of its open calls. */
const pending = (self: Conversation.Conversation, expected: Schema.Json) => ({
  assistant: pick(lastAssistant(self), isObject(expected) ? expected["assistant"] : undefined),
  open: openIds(self)
})

const SessionGiven = Schema.Struct({
  session: optional(Schema.Array(JsonObject)),
  ops: optional(Schema.Array(Schema.Array(Schema.Json)))
})

/** A conversation and what can be done with it: add, and close what is open. */
export const session = Effect.fnUntraced(function* (golden: Case) {
  const given = yield* read(SessionGiven)(golden.given)
  const { error, ...expect } = golden.expect
  const edited = Effect.gen(function* () {
    let self = yield* addAll(Conversation.empty, given.session ?? [])
    const returns: Array<unknown> = []
    for (const [op, argument] of given.ops ?? []) {
      if (op === "add" && isObject(argument)) {
        self = yield* addAll(self, [argument])
        returns.push(null)
      } else if (op === "fill_orphans") {
        returns.push(openIds(self))
        self = yield* Conversation.seal(self)
      } else {
        assert.fail(`the vocabulary has no operation ${JSON.stringify(op)}`)
      }
    }
    return { self, returns }
  })
  const expectedError = error === undefined ? undefined : yield* read(OperationError)(error)
  return yield* checkExit(edited, expectedError, ({ returns, self }) => {
    for (const [key, expected] of Object.entries(expect)) check(key, expected, self, returns)
  })
})

/** The error of the last operation. */
const OperationError = Schema.Struct({ ...ExpectedError.fields, op: optional(Schema.Number) })

const check = (
  key: string,
  expected: Schema.Json,
  self: Conversation.Conversation,
  returns: ReadonlyArray<unknown>
): void => {
  switch (key) {
    case "messages":
      return equalMessages(self, list(expected))
    case "returns":
      for (const one of list(expected)) equal(returns[Number(list(one)[0])], list(one)[1])
      return
    case "orphans":
      return equal(openIds(self), expected)
    case "pending":
      return equal(pending(self, expected), expected)
    case "steps":
      return equal(Conversation.messages(self).filter(isAssistant).length, expected)
    case "final_assistant":
      return equal(pick(lastAssistant(self), expected), normal(expected))
    default:
      return assert.fail(`the vocabulary has no expectation "${key}"`)
  }
}

const isAssistant = (message: Message.Message): boolean => message.role === "assistant"

const MessagesGiven = Schema.Struct({
  op: Schema.Literals(["encode", "decode", "roundtrip"]),
  wire: optional(JsonObject),
  message: optional(JsonObject)
})

const MessagesExpected = Schema.Struct({
  wire: optional(JsonObject),
  message: optional(JsonObject),
  error: optional(ExpectedError)
})

/** A call for a result to answer. */
const callFor = ({ name, tool_call_id: id }: Json): Json => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id: id ?? "", name: name ?? "", arguments: "{}" }]
})

/**
 * A message in and out of a conversation. Its JSON form in these cases comes from
 * the system of the cases; ours is part of the conversation's wire.
 */
export const messages = Effect.fnUntraced(function* (golden: Case) {
  const given = yield* read(MessagesGiven)(golden.given)
  const expect = yield* read(MessagesExpected)(golden.expect)
  const message = given.wire ?? given.message ?? {}
  const added = Effect.gen(function* () {
    let self = Conversation.empty
    for (const next of message["role"] === "tool" ? [callFor(message), message] : [message]) {
      self = yield* Effect.fromResult(Conversation.append(self, yield* fromGolden(self, next)))
    }
    const wire = yield* Conversation.codec.encodeJson(self)
    return Conversation.messages(yield* Conversation.codec.decodeJson(wire)).map(toGolden).at(-1) ?? null
  })
  return yield* checkExit(added, expect.error, (actual) => {
    const expected = expect.message ?? expect.wire
    equal(pick(actual, expected), normal(expected))
  })
})
