import { assert } from "@effect/vitest"
import { Effect, Option, type Schema } from "effect"
import { Conversation, type Message } from "effect-emissary"
import { checkExit, equal, type Json, type Run } from "../golden.ts"
import { addAll, equalMessages, lastAssistant, normal, pick } from "../history.ts"

const isJson = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const list = (value: Schema.Json | undefined): ReadonlyArray<Schema.Json> => (Array.isArray(value) ? value : [])

const openIds = (self: Conversation.Conversation) => Conversation.openCalls(self).map(({ id }) => id)

const pending = (self: Conversation.Conversation) => {
  const open = openIds(self)
  const assistant = Option.getOrNull(Option.map(Conversation.lastAssistantMessage(self), ({ id }) => id))
  return open.length === 0 ? null : { assistant, open }
}

/** A conversation and what can be done with it: add, and close what is open. */
export const run: Run = (given, expect) => {
  const session = Effect.gen(function* () {
    let self = yield* addAll(Conversation.empty, list(given["session"]).filter(isJson))
    const returns: Array<unknown> = []
    for (const operation of list(given["ops"])) {
      const [op, argument] = list(operation)
      if (op === "add" && isJson(argument)) {
        self = yield* addAll(self, [argument])
        returns.push(null)
      } else if (op === "fill_orphans") {
        returns.push(openIds(self))
        self = yield* Conversation.seal(self)
      } else {
        assert.fail(`no operation "${String(op)}": list it in omissions.ts`)
      }
    }
    return { self, returns }
  })
  return checkExit(session, expect, ({ returns, self }) => {
    for (const [key, expected] of Object.entries(expect)) check(key, expected, self, returns)
  })
}

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
      return equal(pending(self), expected)
    case "steps":
      return equal(Conversation.messages(self).filter(isAssistant).length, expected)
    case "final_assistant":
      return equal(pick(lastAssistant(self), expected), normal(expected))
    default:
      return assert.fail(`no expectation "${key}"`)
  }
}

const isAssistant = (message: Message.Message): boolean => message.role === "assistant"
