import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { Conversation } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages, OpenAiResponses } from "effect-emissary/interop"
import * as common from "./foreign-laws.ts"
import recorded from "./recorded/later-system.json" with { type: "json" }
import { anthropicRules } from "./anthropic-rules.ts"
import { test } from "../test.ts"

const anthropic = common.inUse(AnthropicMessages)
const openai = common.inUse(OpenAiMessages)
const responses = common.inUse(OpenAiResponses)

/** Read, stored, written again: the same request. */
const again = <Options>(module: {
  readonly read: typeof OpenAiMessages.toConversation
  readonly write: (self: Conversation.Conversation, options?: Options) => Effect.Effect<unknown, unknown>
  readonly request: unknown
}) =>
  Effect.gen(function* () {
    const self = yield* module.read(module.request)
    const roles = Conversation.messages(self).map(({ role }) => role)
    assert.isAbove(roles.lastIndexOf("system"), 0)
    const stored = yield* Conversation.codec.decodeJson(yield* Conversation.codec.encodeJson(self))
    for (const one of [self, stored]) common.same(yield* module.write(one), module.request)
    return self
  })

describe("MEND-11 recorded requests with later system messages", () => {
  for (const { name, request } of recorded.anthropic) {
    test(`Anthropic: ${name}`, function* () {
      assert.deepStrictEqual(anthropicRules(request), [])
      yield* again({ read: AnthropicMessages.toConversation, write: anthropic.render, request })
    })
  }

  for (const { name, request } of recorded.responses) {
    test(`OpenAI responses: ${name}`, function* () {
      yield* again({ read: OpenAiResponses.toConversation, write: responses.render, request })
    })
  }

  for (const { name, request } of recorded.openai) {
    test(`OpenAI: ${name}`, function* () {
      yield* again({ read: OpenAiMessages.toConversation, write: openai.render, request })
    })
  }
})
