/** KEEP-8: sessions that begin with a conversation from elsewhere. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Agent, Conversation, Message } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

/** A conversation of two messages. */
const earlier = Effect.fnUntraced(function* (system?: string) {
  const begun = yield* Conversation.make({ system })
  return yield* Conversation.addAssistant(yield* Conversation.addUser(begun, "I am Ada."), "Hello, Ada.")
})

const linesOf = (conversation: Conversation.Conversation) =>
  Conversation.messages(conversation).map((message) => `${message.role}: ${Message.text(message)}`)

const spoken = ["user: I am Ada.", "assistant: Hello, Ada.", "user: Who am I?", "assistant: re: Who am I?"]

describe("KEEP-8 a session that begins with a given conversation", () => {
  test("KEEP-8 it gets the agent's instructions where it has none, and keeps its own", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    const begin = Effect.fnUntraced(function* (id: string, system?: string) {
      yield* sessions.send(id, "Who am I?", { conversation: yield* earlier(system) })
      yield* t.turns(sessions, id, 1)
      return linesOf(yield* sessions.history(id))
    })
    assert.deepStrictEqual(yield* begin("a"), ["system: You help customers.", ...spoken])
    assert.deepStrictEqual(yield* begin("b", "Be brief."), ["system: Be brief.", ...spoken])
  })

  test("KEEP-8 a crash before the first turn does not lose it", function* () {
    const store = yield* t.store
    const opened = (agent: typeof t.support) =>
      t.sessionsOf(Session.layer([agent]).pipe(Layer.provide([store, ScriptedModel.layer(t.echo)])))
    const conversation = yield* earlier()
    const first = { conversation, messageId: "a" }
    yield* Effect.scoped(
      Effect.gen(function* () {
        const broken = yield* opened(Agent.make("support", { instructions: Effect.die("not there") }))
        yield* broken.send("a", "Who am I?", first)
        yield* t.turns(broken, "a", 1)
        assert.deepStrictEqual(yield* t.tags(broken, "a"), ["MessageReceived", "TurnFailed"])
        assert.strictEqual((yield* t.stateOf(broken, "a")).messages, 2)
        assert.deepStrictEqual(linesOf(yield* broken.history("a")), spoken.slice(0, 2))
      })
    )
    const sessions = yield* opened(t.support)
    const { cursor } = yield* t.stateOf(sessions, "a")
    yield* sessions.send("a", "Who am I?", first)
    yield* t.turns(sessions, "a", 1, cursor)
    assert.deepStrictEqual(linesOf(yield* sessions.history("a")), ["system: You help customers.", ...spoken])
  })

  test("KEEP-8 a job begins with it, and another conversation is another input", function* () {
    yield* Effect.gen(function* () {
      const conversation = yield* earlier()
      const job = { id: "a", input: "Who am I?", conversation, ifExists: "resume" } as const
      const ran = yield* Session.run(t.support, job)
      assert(ran.outcome === "Completed" && ran.output === "re: Who am I?")
      assert.deepStrictEqual(yield* Session.run(t.support, job), ran)
      const differs = Session.run(t.support, { ...job, conversation: Conversation.empty })
      assert.strictEqual(yield* t.reasonOf(differs), "InputDiffers")
    }).pipe(Effect.provide(t.over(t.echo)))
  })
})
