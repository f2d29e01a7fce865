/** KEEP-8: edits of messages, and what readers, models and later turns see of them. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Layer, Result, Stream } from "effect"
import { Agent, ContextWindow, Conversation, Message, Run, VersionedStore } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ChatEvent, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const say = Effect.fnUntraced(function* (sessions: Session.Service, id: string, ...texts: ReadonlyArray<string>) {
  for (const text of texts) {
    yield* Effect.provideService(Session.turn(id, text, { messageId: text }), Session.Session, sessions)
  }
})

const edit = Effect.fnUntraced(function* (sessions: Session.Service, id: string, options: Session.EditOptions) {
  const { cursor } = yield* t.stateOf(sessions, id)
  yield* sessions.edit(id, options)
  return yield* Effect.provideService(Session.await(id, { cursor }), Session.Session, sessions)
})

describe("KEEP-8 edits", () => {
  test("KEEP-8 a page that follows the chat events shows the conversation", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", "one", "two", "three")
    yield* edit(sessions, "a", { messageId: "two", input: "2", newMessageId: "2" })
    const entries = (yield* t.stored(sessions, "a")).flatMap((entry) =>
      Result.match(ChatEvent.project()(entry), { onFailure: () => [], onSuccess: ({ event }) => [event] })
    )
    const page: Array<readonly [string, string]> = []
    for (const event of entries) {
      if (event._tag === "MessageReceived")
        page.push([event.messageId, Message.text(yield* Message.user(event.content))])
      if (event._tag === "Answered") page.push(["", Message.text(yield* Message.assistant(event.content))])
      if (event._tag === "ConversationRewound") {
        page.splice(page.findLastIndex(([messageId]) => messageId === event.messageId))
      }
    }
    const shown = Conversation.messages(yield* sessions.history("a")).filter(({ role }) => role !== "system")
    const texts = page.map(([, text]) => text)
    assert.deepStrictEqual(texts, ["one", "re: one", "2", "re: 2"])
    assert.deepStrictEqual(texts, shown.map(Message.text))
  })

  test("KEEP-8 a message that the context window left out of the prompt can be edited", function* () {
    const agent = Agent.make("support", {
      contextWindow: ContextWindow.truncate({ above: 60 })
    })
    const asked: Array<number> = []
    const model = ScriptedModel.layer((request) => {
      asked.push(request.messages.length)
      return { text: "a".repeat(100) }
    })
    const sessions = yield* t.sessionsOf(
      Session.layer([agent]).pipe(Layer.provide([VersionedStore.layerMemory, model]))
    )
    yield* say(sessions, "a", "one", "two", "three")
    assert.ok((asked.at(-1) ?? 9) < 5)
    yield* edit(sessions, "a", { messageId: "one", input: "1" })
    const texts = Conversation.messages(yield* sessions.history("a")).map(Message.text)
    assert.deepStrictEqual(texts, ["1", "a".repeat(100)])
    assert.strictEqual(asked.at(-1), 1)
  })

  test("KEEP-8 a message whose turn could not begin is replaced", function* () {
    const store = yield* t.store
    const open = (agent: typeof t.support) =>
      t.sessionsOf(Session.layer([agent]).pipe(Layer.provide([store, ScriptedModel.layer(t.echo)])))
    yield* Effect.scoped(
      Effect.gen(function* () {
        const broken = yield* open(Agent.make("support", { instructions: Effect.die("not there") }))
        yield* broken.send("a", "one", { messageId: "one" })
        yield* t.turns(broken, "a", 1)
      })
    )
    const sessions = yield* open(t.support)
    assert.strictEqual((yield* edit(sessions, "a", { messageId: "one", input: "1" })).text, "re: 1")
    assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 3)
  })

  test("KEEP-8 a message of the conversation that a session began with can be edited", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    const user = yield* Message.user("old", { id: "old" })
    const conversation = Result.getOrThrow(Conversation.append(Conversation.empty, user))
    yield* sessions.send("a", "one", { conversation: yield* Conversation.addAssistant(conversation, "re: old") })
    yield* t.turns(sessions, "a", 1)
    assert.strictEqual((yield* edit(sessions, "a", { messageId: "old", input: "new" })).text, "re: new")
    const texts = Conversation.messages(yield* sessions.history("a")).map(Message.text)
    assert.deepStrictEqual(texts, ["You help customers.", "new", "re: new"])
  })

  test.live("KEEP-8 a plan that waits begins again with the edited message", function* () {
    const plan = yield* Plan.make("plan", [
      Step.make("ask", {
        target: ({ decision, task }) => (decision === undefined ? Step.pause(task) : Effect.succeed(`${task}?`))
      })
    ])
    const bound = yield* Plan.bind(plan)
    const sessions = yield* t.sessionsOf(Session.layer([bound]).pipe(Layer.provide(VersionedStore.layerMemory)))
    yield* say(sessions, "a", "one")
    assert.strictEqual((yield* t.stateOf(sessions, "a")).status, "waiting")
    yield* edit(sessions, "a", { messageId: "one", input: "two" })
    const { requests } = yield* t.stateOf(sessions, "a")
    assert.strictEqual(requests.length, 1)
    yield* sessions.decide("a", requests.filter(Run.isApprovable).map(Run.approve))
    yield* t.until(sessions, "a", "idle")
    const texts = Conversation.messages(yield* sessions.history("a")).map(Message.text)
    assert.deepStrictEqual(texts, ["two", "two?"])
  })

  test.live("KEEP-8 an edit is there after a crash, and its events fold to the same state", function* () {
    const store = yield* t.store
    const over = (script: ScriptedModel.Script) =>
      t.sessionsOf(Session.layer([t.support]).pipe(Layer.provide([store, ScriptedModel.layer(script)])))
    yield* Effect.scoped(
      Effect.gen(function* () {
        const sessions = yield* over((request) =>
          t.asked(request) === "2" ? Effect.never : Effect.succeed({ text: `re: ${t.asked(request)}` })
        )
        yield* say(sessions, "a", "one", "two")
        yield* sessions.edit("a", { messageId: "two", input: "2", newMessageId: "2" })
        yield* sessions.events("a").pipe(
          Stream.takeUntil(({ event }) => event._tag === "RunEvent" && event.messageId === "2"),
          Stream.runDrain
        )
      })
    )
    const sessions = yield* over(t.echo)
    yield* t.until(sessions, "a", "idle")
    const texts = Conversation.messages(yield* sessions.history("a")).map(Message.text)
    assert.deepStrictEqual(texts.slice(1), ["one", "re: one", "2", "re: 2"])
    const events = (yield* t.stored(sessions, "a")).flatMap(({ event }) =>
      event._tag === "RunEvent" ? [event.event] : []
    )
    const state = Result.getOrThrow(Run.fold(events))
    assert.deepStrictEqual(Conversation.messages(state.conversation).map(Message.text), texts)
  })

  test("KEEP-8 a run refuses to be rewound to a message that it has not", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", "one")
    const events = (yield* t.stored(sessions, "a")).flatMap(({ event }) =>
      event._tag === "RunEvent" ? [event.event] : []
    )
    const state = Result.getOrThrow(Run.fold(events))
    const at = yield* DateTime.now
    const rewound = Run.apply(state, { _tag: "ConversationRewound", at, messageId: "x" })
    assert(Result.isFailure(rewound))
    assert.strictEqual(rewound.failure.reason._tag, "Conversation")
    assert.match(rewound.failure.message, /a user message of the conversation, found "x"/)
  })
})
