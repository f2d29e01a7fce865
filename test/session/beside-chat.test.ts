/** The README and the page "Coming from" compare sessions with `Chat.layerPersisted` of `effect/ai`: this is the proof. */
import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Ref, Schema } from "effect"
import { Chat, Prompt, Tool, Toolkit } from "effect/ai"
import { Persistence } from "effect/persistence"
import { Agent, Conversation, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

/** A model that answers the first message, and is still writing when its process ends. */
const cutOff = ScriptedModel.layer([{ text: "Welcome, Ada!" }, { text: "You are Ada.", delay: "1 hour" }])
const answers = ScriptedModel.layer([{ text: "You are Ada." }])

/** A process that ends in the middle of the second answer. */
const before = <E, R>(send: (text: string, id: string) => Effect.Effect<unknown, E, R>) =>
  Effect.gen(function* () {
    yield* send("I am Ada.", "m1")
    const second = yield* Effect.forkChild(send("Who am I?", "m2"))
    while ((yield* ScriptedModel.requests).length < 2) yield* Effect.yieldNow
    yield* Fiber.interrupt(second)
  })

it.effect("DOCS-1 a persisted Chat has lost the message whose answer was cut off", () =>
  Effect.gen(function* () {
    const chats = yield* Chat.Persistence
    yield* before(
      Effect.fnUntraced(function* (text) {
        const chat = yield* chats.getOrCreate("42")
        yield* chat.generateText({ prompt: text })
      })
    ).pipe(Effect.provide(cutOff))
    const { history } = yield* chats.get("42")
    const texts = JSON.stringify(yield* Ref.get(history))
    assert.include(texts, "I am Ada.")
    assert.notInclude(texts, "Who am I?")
  }).pipe(Effect.provide(Chat.layerPersisted({ storeId: "chats" }).pipe(Layer.provide(Persistence.layerBackingMemory))))
)

it.effect("DOCS-1 a persisted Chat has the request for an approval, which another process answers by its id", () => {
  const toolkit = Toolkit.make(Tool.make("pay", { success: Schema.String, needsApproval: true }))
  return Effect.gen(function* () {
    const chats = yield* Chat.Persistence
    const asked = yield* (yield* chats.getOrCreate("42")).generateText({ prompt: "Pay.", toolkit })
    const request = asked.content.find((part) => part.type === "tool-approval-request")
    assert(request !== undefined)
    const { generateText, history } = yield* chats.get("42")
    assert.include(JSON.stringify(yield* Ref.get(history)), request.approvalId)
    const approval = Prompt.toolApprovalResponsePart({ approvalId: request.approvalId, approved: true })
    const { text } = yield* generateText({
      prompt: Prompt.make([Prompt.toolMessage({ content: [approval] })]),
      toolkit
    })
    assert.strictEqual(text, "Paid.")
  }).pipe(
    Effect.provide([
      Chat.layerPersisted({ storeId: "chats" }).pipe(Layer.provide(Persistence.layerBackingMemory)),
      toolkit.toLayer({ pay: () => Effect.succeed("paid") }),
      ScriptedModel.layer([{ toolCalls: [{ name: "pay" }] }, { text: "Paid." }])
    ])
  )
})

it.effect("DOCS-1 a session has the message, and the next process answers it", () =>
  Effect.gen(function* () {
    const sessions = Session.layer([Agent.make("support")])
    yield* before((text, messageId) => Session.ask("42", text, { messageId })).pipe(
      Effect.provide(Layer.provideMerge(sessions, cutOff))
    )
    const texts = yield* Effect.gen(function* () {
      assert.strictEqual(yield* Session.ask("42", "Who am I?", { messageId: "m2" }), "You are Ada.")
      return Conversation.transcript(yield* Session.history("42"))
    }).pipe(Effect.provide(Layer.provide(sessions, answers)))
    assert.deepStrictEqual(
      texts.map(({ role }) => role),
      ["user", "assistant", "user", "assistant"]
    )
  }).pipe(Effect.provide(VersionedStore.layerMemory))
)
