/** KEEP-8: forks of long sessions, of forks, and of plans. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Result, Stream } from "effect"
import { Conversation, Message, VersionedStore } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ChatEvent, Session } from "effect-emissary/session"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const say = Effect.fnUntraced(function* (sessions: Session.Service, id: string, count: number) {
  for (let n = 1; n <= count; n++) {
    yield* Effect.provideService(Session.ask(id, `${n}`), Session.Session, sessions)
  }
})

/** The texts without the system message. */
const textsOf = Effect.fnUntraced(function* (sessions: Session.Service, id: string) {
  return Conversation.messages(yield* sessions.history(id))
    .map(Message.text)
    .slice(1)
})

/** More events than a session has before its first snapshot. */
const long = 60

describe("KEEP-8 forks", () => {
  test("KEEP-8 a place before the newest snapshot, and one in a fork of a fork", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", 1)
    const { cursor } = yield* t.stateOf(sessions, "a")
    yield* say(sessions, "a", long)
    yield* sessions.fork("a", { to: "b", at: cursor })
    assert.deepStrictEqual(yield* textsOf(sessions, "b"), ["1", "re: 1"])
    yield* say(sessions, "b", long)
    yield* sessions.fork("b", { to: "c", at: 1 })
    assert.deepStrictEqual(yield* textsOf(sessions, "c"), ["1", "re: 1"])
    yield* sessions.fork("b", { to: "d" })
    assert.strictEqual((yield* textsOf(sessions, "d")).length, 2 * long + 2)
  })

  test("KEEP-8 a place whose events were deleted is refused, and the newest one is not", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo, { keepEvents: 1 }))
    // Until the second snapshot, which deletes the events before the first one
    yield* say(sessions, "a", 2 * long)
    const refused = yield* Effect.flip(sessions.fork("a", { to: "b", at: 3 }))
    assert.deepStrictEqual([refused.id, refused.reason._tag], ["a", "EventsPruned"])
    assert.isTrue((yield* sessions.state("b"))._tag === "None")
    yield* sessions.fork("a", { to: "b" })
    assert.deepStrictEqual(yield* textsOf(sessions, "b"), yield* textsOf(sessions, "a"))
  })

  test("RIGHT-15 a place whose events are kept can be forked, and one before them cannot", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo, { keepEvents: 100 }))
    yield* say(sessions, "a", 3 * long)
    const pruned = yield* Effect.flip(Stream.runDrain(sessions.events("a", { after: 0 })))
    assert(pruned.reason._tag === "EventsPruned")
    const { first } = pruned.reason
    assert.isAbove(first, 2)
    const { sequence } = yield* t.stateOf(sessions, "a")
    for (const at of [first, Math.floor((first + sequence) / 2), sequence - 1]) {
      yield* sessions.fork("a", { to: `at ${at}`, at })
      assert.isAbove((yield* textsOf(sessions, `at ${at}`)).length, 0)
    }
    const refused = yield* Effect.flip(sessions.fork("a", { to: "gone", at: first - 2 }))
    assert.deepStrictEqual(refused.reason, { _tag: "EventsPruned", first })
  })

  test("RIGHT-15 the same fork again is the same call, until the fork continues; the advice of Exists fits", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", 2)
    for (const at of [undefined, 3]) {
      const to = `to ${at}`
      yield* sessions.fork("a", { to, at })
      yield* sessions.fork("a", { to, at })
      assert.strictEqual((yield* t.stateOf(sessions, to)).sequence, 1)
      const other = yield* Effect.flip(sessions.fork("a", { to, at: 4 }))
      assert.strictEqual(other.reason._tag, "Exists")
      assert.include(other.message, "Fork to another id")
      assert.notInclude(other.message, "ifExists")
      yield* say(sessions, to, 1)
      assert.strictEqual(yield* t.reasonOf(sessions.fork("a", { to, at })), "Exists")
    }
  })

  test("KEEP-8 a fork has begun: a first message is refused", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", 1)
    yield* sessions.fork("a", { to: "b" })
    assert.strictEqual(yield* t.reasonOf(sessions.send("b", "x", { ifExists: "fail" })), "Exists")
    const conversation = Conversation.empty
    assert.strictEqual(yield* t.reasonOf(sessions.send("b", "x", { conversation })), "Exists")
  })

  test("KEEP-8 a front end learns that a session is a fork, not of which one", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", 1)
    yield* sessions.fork("a", { to: "b" })
    const [entry] = yield* t.stored(sessions, "b")
    assert(entry !== undefined)
    const shown = Result.getOrThrow(ChatEvent.project()(entry))
    assert.deepStrictEqual(Object.keys(shown.event).sort(), ["_tag", "at"])
  })

  test.live(
    "KEEP-8 RIGHT-24 a plan that waits asks again in the fork, and finished steps do not run again",
    function* () {
      const ran: Array<string> = []
      const plan = yield* Plan.make(
        { name: "plan" },
        Step.make("draft", { target: ({ task }) => Effect.sync(() => (ran.push("draft"), `${task}!`)) }),
        Step.make("ask", {
          target: ({ decision, task }) => (decision === undefined ? Step.pause(task) : Effect.succeed(`${task}?`))
        })
      )
      const bound = yield* Plan.bind(plan)
      const sessions = yield* t.sessionsOf(Session.layer([bound]).pipe(Layer.provide(VersionedStore.layerMemory)))
      yield* sessions.send("a", "one")
      yield* t.until(sessions, "a", "waiting")
      yield* sessions.fork("a", { to: "b" })
      for (const id of ["a", "b"]) {
        if (id === "b") yield* sessions.resume(id)
        yield* t.until(sessions, id, "waiting")
        const { requests } = yield* t.stateOf(sessions, id)
        yield* sessions.decide(
          id,
          requests.map((request) => ({ ...request, approved: true }))
        )
        yield* t.until(sessions, id, "idle")
        const texts = Conversation.messages(yield* sessions.history(id)).map(Message.text)
        assert.deepStrictEqual(texts, ["one", "one!?"])
      }
      assert.deepStrictEqual(ran, ["draft"])
    }
  )
})
