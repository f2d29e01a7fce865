/** RIGHT-16: every command returns a receipt, with which the end of its turn is found. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { Agent, VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import * as t from "./sessions.ts"

const toolkit = Toolkit.make(Tool.make("pay", { success: Schema.String, needsApproval: true }))
const agent = Agent.make("desk", { toolkit })

/** Answers each message: `slow` after a long time, `pay` with a call that waits, `fail` with an error. */
const script: ScriptedModel.TurnFunction = (request) => {
  const asked = t.asked(request)
  const isPaid = request.messages.at(-1)?.role === "tool"
  if (asked === "slow") return { text: "Late.", delay: "1 minute" }
  if (asked === "fail" && request.messages.filter(({ role }) => role === "assistant").length === 0) {
    return { fail: { reason: "AuthenticationError" } }
  }
  return asked === "pay" && !isPaid ? { toolCalls: [{ name: "pay" }] } : { text: `re: ${asked}` }
}

const below = Layer.mergeAll(toolkit.toLayer({ pay: () => Effect.succeed("paid") }), ScriptedModel.layer(script))

const fleet = Layer.mergeAll(
  TestRunner.layer,
  VersionedStore.layerMemory,
  Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))
)

const layers = [
  ["in memory", Session.layer([agent]).pipe(Layer.provide([below, VersionedStore.layerMemory]))],
  ["on a cluster", ClusterSession.layer([agent]).pipe(Layer.provide([below, fleet]))]
] as const

/** The end of the turn of a receipt, as both functions see it. */
const endOf = Effect.fnUntraced(function* (id: string, receipt: Session.Receipt) {
  const exit = yield* Effect.exit(Session.await(id, receipt))
  const events = yield* Stream.runCollect(Session.turnEvents(id, receipt))
  assert.deepStrictEqual(yield* Stream.runCollect(Session.turnLive(id, receipt)), events)
  const end = Exit.match(exit, {
    onSuccess: ({ outcome, text }) => [outcome, text],
    onFailure: (cause) =>
      Option.match(Cause.findErrorOption(cause), {
        onNone: () => ["none"],
        onSome: ({ reason }) => [reason._tag, reason._tag === "TurnFailed" ? reason.failure.reason : ""]
      })
  })
  return [...end, ...events.slice(-1).map(t.tagOf)]
}, Effect.timeout("20 seconds"))

const approve = (requests: Session.State["requests"], approved = true) =>
  requests.map((request) => ({ ...request, approved }))

for (const [name, layer] of layers) {
  describe(`RIGHT-16 receipts ${name}`, () => {
    const rule = <E>(what: string, body: (sessions: Session.Service) => Effect.Effect<unknown, E, Session.Session>) =>
      it.live(what, () => Effect.flatMap(Session.Session, body).pipe(Effect.provide(layer)))

    rule("decide: the turn that takes the decisions, also for decisions that are known", (sessions) =>
      Effect.gen(function* () {
        for (const approved of [true, false]) {
          const id = `a${approved}`
          yield* Session.turn(id, "pay")
          const decisions = approve((yield* t.stateOf(sessions, id)).requests, approved)
          const receipt = yield* sessions.decide(id, decisions)
          assert.deepStrictEqual(yield* endOf(id, receipt), ["Completed", "re: pay", "RunFinished"])
          const [decided] = yield* Stream.runCollect(
            Stream.take(sessions.events(id, { after: t.cursorAt(receipt.cursor, receipt.sequence - 1) }), 1)
          )
          assert.deepStrictEqual([decided?.event._tag, decided?.cursor], ["DecisionsReceived", receipt.cursor])
          const again = yield* sessions.decide(id, decisions)
          assert.isTrue(again.isOfNewest)
          assert.deepStrictEqual(yield* endOf(id, again), ["Completed", "re: pay"])
          assert.deepStrictEqual(yield* endOf(id, yield* sessions.decide(id, [])), ["Completed", "re: pay"])
        }
        assert.strictEqual(yield* t.reasonOf(sessions.decide("none", [])), "NotFound")
      })
    )

    rule("resume: the turn that it begins, the one that is under way, and one that changes nothing", (sessions) =>
      Effect.gen(function* () {
        yield* Effect.exit(Session.turn("a", "fail"))
        const failed = yield* sessions.resume("a")
        assert.deepStrictEqual(yield* endOf("a", failed), ["TurnFailed", "ModelFailed", "TurnFailed"])

        yield* Session.turn("b", "hi")
        // the turn makes no answer
        assert.deepStrictEqual(yield* endOf("b", yield* sessions.resume("b")), ["Completed", "", "RunFinished"])

        yield* Session.turn("c", "pay")
        const waiting = yield* endOf("c", yield* sessions.resume("c"))
        assert.deepStrictEqual(waiting, ["AwaitingApproval", "", "RunFinished"])

        const sent = yield* sessions.send("d", "slow")
        const under = yield* sessions.resume("d")
        assert.deepStrictEqual([under.isOfNewest, under.sequence >= sent.sequence], [true, true])
        const ends = yield* Effect.forkChild(endOf("d", under))
        yield* Effect.sleep("50 millis")
        yield* sessions.interrupt("d")
        assert.deepStrictEqual((yield* Fiber.join(ends)).slice(0, 1), ["Interrupted"])
        assert.strictEqual(yield* t.reasonOf(sessions.resume("none")), "NotFound")
      })
    )

    rule("interrupt: names the event that ended the turn, and says whether there was one", (sessions) =>
      Effect.gen(function* () {
        const sent = yield* sessions.send("a", "slow")
        yield* sessions.send("a", "next")
        const receipt = yield* sessions.interrupt("a")
        assert.isTrue(receipt.isInterrupted)
        assert.deepStrictEqual(yield* endOf("a", receipt), ["Interrupted", ""])
        // the receipt of the message ends with the event that the interruption names
        assert.strictEqual((yield* Session.await("a", sent)).cursor, receipt.cursor)
        const { text } = yield* Session.await("a", { cursor: receipt.cursor })
        assert.strictEqual(text, "re: next")

        const idle = yield* sessions.interrupt("a")
        assert.deepStrictEqual([idle.isInterrupted, idle.isOfNewest], [undefined, true])
        assert.deepStrictEqual(yield* endOf("a", idle), ["Completed", "re: next"])

        yield* Session.turn("b", "pay")
        const denied = yield* sessions.interrupt("b")
        assert.deepStrictEqual([denied.isInterrupted, ...(yield* endOf("b", denied))], [true, "Interrupted", ""])
        assert.strictEqual(denied.cursor, (yield* t.stateOf(sessions, "b")).cursor)
        assert.strictEqual(yield* t.reasonOf(sessions.interrupt("none")), "NotFound")
      })
    )

    rule("update and fork: the newest turn, at once where none is due", (sessions) =>
      Effect.gen(function* () {
        yield* Session.turn("a", "hi")
        const titled = yield* sessions.update("a", { title: "A" })
        assert.strictEqual(titled.cursor, (yield* t.stateOf(sessions, "a")).cursor)
        assert.deepStrictEqual(yield* endOf("a", titled), ["Completed", "re: hi"])
        const same = yield* sessions.update("a", {})
        assert.deepStrictEqual(same, titled)

        const forked = yield* sessions.fork("a", { to: "b" })
        assert.deepStrictEqual([forked.sequence, forked.isOfNewest], [1, true])
        assert.deepStrictEqual(yield* endOf("b", forked), ["Completed", "re: hi"])
        assert.deepStrictEqual(
          yield* sessions
            .fork("a", { to: "b", at: t.cursorAt((yield* t.stateOf(sessions, "a")).cursor, forked.sequence + 99) })
            .pipe(t.reasonOf),
          "EventsUnknown"
        )
        assert.deepStrictEqual(yield* sessions.fork("a", { to: "b" }), forked)

        const { cursor } = yield* sessions.send("c", "slow")
        const under = yield* Effect.forkChild(endOf("c", yield* sessions.update("c", { title: "C" })))
        const early = yield* sessions.fork("c", { to: "d", at: cursor })
        assert.deepStrictEqual(yield* endOf("d", early), ["NotFound", ""])
        yield* Effect.sleep("50 millis")
        yield* sessions.interrupt("c")
        assert.deepStrictEqual(yield* Fiber.join(under), ["Interrupted", ""])
      })
    )
  })
}
