/** KEEP-8: later system messages with instructions that replace the earlier ones. */
import * as sdkFiles from "#src/ai-sdk/internal/sdkFiles.ts"
import * as sdkRequest from "#src/ai-sdk/internal/sdkRequest.ts"
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Result } from "effect"
import { Conversation, Message, TokenCounter } from "effect-emissary"
import { test } from "../test.ts"
import { chat, system } from "./given.ts"

const settings = Layer.merge(TokenCounter.layer({ count: (text) => text.length }), Message.layerSequentialIds())

const replaced = (text: string) => `These instructions replace all earlier ones:\n\n${text}`

const turn = (text: string, later?: string) => [
  Conversation.addUser(text),
  ...(later === undefined ? [] : [Conversation.addSystem(later)]),
  Conversation.addAssistant(`re: ${text}`)
]

const edited = chat(
  system("One."),
  ...turn("a"),
  ...turn("b", replaced("Two.")),
  ...turn("c", replaced("Three.")),
  ...turn("d", "A note."),
  ...turn("e"),
  Conversation.addUser("f")
)

const texts = (self: Conversation.Conversation) => Conversation.messages(self).map(Message.text)

const left = ["One.", replaced("Three."), "e", "re: e", "f"]

describe("KEEP-8 the newest instructions stay where old turns are removed", () => {
  test("by truncate, which meets its limit with them, and drops the ones that they replaced", settings, function* () {
    const self = yield* edited
    const stays = Conversation.messages(self).filter((message) => left.includes(Message.text(message)))
    const kept = Result.getOrThrow(Conversation.fromMessages(stays))
    const maxTokens = yield* Conversation.estimatedSize(kept)
    const { conversation, report } = yield* Conversation.truncate(self, { maxTokens })
    assert.deepStrictEqual(texts(conversation), left)
    assert.strictEqual(report.after, maxTokens)
    assert.strictEqual(report.removed.length, Conversation.messageCount(self) - left.length)
    const small = yield* Effect.flip(Conversation.truncate(self, { maxTokens: 1 }))
    assert.strictEqual(small.needed, maxTokens - (yield* Conversation.estimatedSize(yield* chat(...turn("e")))))
    // In front now, until others replace them
    const more = yield* Conversation.addSystem(conversation, replaced("Four."))
    const longer = yield* Conversation.addUser(yield* Conversation.addAssistant(more, "re: f"), "g")
    const dropped = Result.getOrThrow(Conversation.dropOldTurns(longer, { keepRecent: 1 }))
    assert.deepStrictEqual(texts(dropped.conversation), ["One.", replaced("Four."), "g"])
    assert.include(dropped.removed.map(Message.text), replaced("Three."))
  })

  test("by dropOldTurns and clear", settings, function* () {
    const self = yield* edited
    const { conversation, removed } = Result.getOrThrow(Conversation.dropOldTurns(self, { keepRecent: 2 }))
    assert.deepStrictEqual(texts(conversation), left)
    assert.strictEqual(removed.length, Conversation.messageCount(self) - left.length)
    assert.strictEqual(Result.getOrThrow(Conversation.dropOldTurns(self, {})).conversation, self)
    const without = Conversation.dropOldTurns(self, { keepRecent: 2, keepSystemPrompt: false })
    assert.deepStrictEqual(texts(Result.getOrThrow(without).conversation), left.slice(2))
    assert.deepStrictEqual(texts(Conversation.clear(self)), left.slice(0, 2))
  })

  test("by compact, behind the summary, which no instructions enter", settings, function* () {
    const summarize = (old: Conversation.Conversation) => Effect.succeed(texts(old).join("+"))
    const { conversation, report } = yield* Conversation.compact(yield* edited, { keepRecent: 2, summarize })
    const summary = "Summary of the conversation so far:\n\na+re: a+b+re: b+c+re: c+d+A note.+re: d"
    assert.deepStrictEqual(texts(conversation), ["One.", summary, ...left.slice(1)])
    assert.strictEqual(report?.removed.filter(({ role }) => role === "system").length, 2)
    const never = { keepRecent: 2, summarize: () => Effect.die("not to be run") }
    assert.strictEqual((yield* Conversation.compact(conversation, never)).conversation, conversation)
  })

  test(
    "for a provider with system messages in front only, they take the place of the first one",
    settings,
    function* () {
      const sent = (self: Conversation.Conversation, laterSystem: sdkRequest.Dialect["laterSystem"]) => {
        const prompt = sdkRequest.toPrompt(Conversation.toPrompt(self), {
          files: sdkFiles.rules.openAi,
          ids: undefined,
          filesInResults: true,
          laterSystem
        })
        return prompt.map(({ content, role }) => {
          const [part] = content
          return `${role}: ${typeof part === "object" && part.type === "text" ? part.text : String(content)}`
        })
      }
      const self = yield* edited
      const lines = sent(self, "none")
      assert.deepStrictEqual(lines.slice(0, 3), ["system: Three.", "user: a", "assistant: re: a"])
      assert.include(lines, "user: A note.")
      assert.strictEqual(lines.filter((line) => line.includes("replace")).length, 0)
      const { conversation } = Result.getOrThrow(Conversation.dropOldTurns(self, { keepRecent: 1 }))
      assert.deepStrictEqual(sent(conversation, "none"), ["system: Three.", "user: f"])
      const bare = yield* chat(Conversation.addUser("a"), Conversation.addSystem(replaced("Two.")))
      assert.deepStrictEqual(sent(bare, "none"), ["system: Two.", "user: a"])
      assert.deepStrictEqual(sent(bare, "anywhere"), ["user: a", `system: ${replaced("Two.")}`])
    }
  )
})
