import { inspect } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Run, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

const support = Agent.make("support", { instructions: "You help customers." })

const over = (answers: Parameters<typeof ScriptedModel.layer>[0]) =>
  Session.layer([support]).pipe(
    Layer.provideMerge(VersionedStore.layerMemory),
    Layer.provideMerge(ScriptedModel.layer(answers))
  )

const roles = (conversation: Conversation.Conversation) => Conversation.messages(conversation).map(({ role }) => role)

describe("DUR-1 Session", () => {
  it.live("answers messages one after the other", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const [first, second] = yield* Effect.all([Session.turn("a", "one"), Session.turn("a", "two")], {
        concurrency: 2
      })
      assert.deepStrictEqual([first.text, second.text], ["1", "2"])
      assert.deepStrictEqual(roles(yield* sessions.history("a")), ["system", "user", "assistant", "user", "assistant"])
      const state = Option.getOrThrow(yield* sessions.state("a"))
      assert.strictEqual(state.status, "idle")
      assert.strictEqual(state.steps, 2)
      const entries = yield* sessions.events("a").pipe(Stream.take(state.sequence), Stream.runCollect)
      assert.deepStrictEqual(
        entries.map(({ sequence }) => sequence),
        Array.from({ length: state.sequence }, (_, index) => index + 1)
      )
    }).pipe(Effect.provide(over([{ text: "1" }, { text: "2" }])))
  )

  it.live(
    "HOUSE-6 ask returns the text of an answer, and fails with the outcome of a turn that ends without one",
    () => {
      const toolkit = Toolkit.make(
        Tool.make("pay", { parameters: Schema.Struct({ iban: Schema.String }), needsApproval: true })
      )
      const pay = { toolCalls: [{ name: "pay", params: { iban: "ARGUMENT-SECRET" } }] }
      const layer = Session.layer([Agent.make("cashier", { toolkit, maxSteps: 1 })]).pipe(
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(toolkit.toLayer({ pay: () => Effect.void })),
        Layer.provide(ScriptedModel.layer([{ text: "Hello." }, pay, { text: "TEXT-SECRET", ...pay }]))
      )
      return Effect.gen(function* () {
        assert.strictEqual(yield* Session.ask("a", "Hi"), "Hello.")
        const limited = yield* Effect.flip(Session.ask("a", "Pay"))
        assert(limited._tag === "TurnIncomplete")
        assert.strictEqual(limited.answer.outcome, "MaxSteps")
        assert.include(limited.message, 'Turn of session "a": expected an answer, got the outcome MaxSteps.')
        const all = yield* Session.askMany([{ id: "b", input: "Pay" }])
        const [failed] = all.map((one) => (Result.isFailure(one) ? one.failure : undefined))
        assert(failed?._tag === "TurnIncomplete" && failed.answer.text === "TEXT-SECRET")
        assert.notMatch(JSON.stringify(failed) + inspect(failed, { depth: 9 }) + String(failed), /SECRET/)
      }).pipe(Effect.provide(layer))
    }
  )

  it.live("waits for approvals and takes decisions", () => {
    const toolkit = Toolkit.make(
      Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
    )
    const cashier = Agent.make("cashier", { toolkit })
    const layer = Session.layer([cashier]).pipe(
      Layer.provide(VersionedStore.layerMemory),
      Layer.provide(toolkit.toLayer({ pay: () => Effect.void })),
      Layer.provide(ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { amount: 5 } }] }, { text: "Paid." }]))
    )
    return Effect.gen(function* () {
      const sessions = yield* Session.Session
      const waiting = yield* Session.turn("a", "Pay 5 euros")
      assert.strictEqual(waiting.outcome, "AwaitingApproval")
      const state = Option.getOrThrow(yield* sessions.state("a"))
      assert.strictEqual(state.status, "waiting")
      const decisions = state.requests.filter(Run.isApprovable).map(Run.approve)
      assert.lengthOf(decisions, 1)
      yield* sessions.decide("a", [])
      assert.strictEqual(Option.getOrThrow(yield* sessions.state("a")).sequence, state.sequence)
      yield* sessions.decide("a", decisions)
      yield* sessions.decide("a", decisions)
      const last = yield* sessions.events("a", { after: state.cursor }).pipe(
        Stream.takeUntil(({ event }) => event._tag === "RunEvent" && event.event._tag === "RunFinished"),
        Stream.runLast
      )
      assert.isTrue(Option.isSome(last))
      assert.strictEqual(Option.getOrThrow(yield* sessions.state("a")).outcome, "Completed")
    }).pipe(Effect.provide(layer))
  })

  it.live("interrupts a turn and answers the next message", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const toolkit = Toolkit.make(Tool.make("wait", { parameters: Schema.Struct({}) }))
      const waiter = Agent.make("waiter", { toolkit })
      const layer = Session.layer([waiter]).pipe(
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(
          toolkit.toLayer({ wait: () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never) })
        ),
        Layer.provide(ScriptedModel.layer([{ toolCalls: [{ name: "wait", params: {} }] }, { text: "Hello." }]))
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const fiber = yield* Effect.forkChild(Session.turn("a", "one"))
        yield* Deferred.await(started)
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        const answer = yield* Fiber.join(fiber)
        assert.strictEqual(answer.outcome, "Interrupted")
        const next = yield* Session.turn("a", "two")
        assert.strictEqual(next.text, "Hello.")
      }).pipe(Effect.provide(layer))
    })
  )

  it.live("a closed layer resumes in the next one", () =>
    Effect.gen(function* () {
      const store = yield* Layer.build(VersionedStore.layerMemory)
      const started = yield* Deferred.make<void>()
      const toolkit = Toolkit.make(Tool.make("work", { parameters: Schema.Struct({}) }))
      const worker = Agent.make("worker", { toolkit })
      const handlers = toolkit.toLayer({
        work: () => Effect.andThen(Deferred.succeed(started, undefined), Effect.sleep("100 millis"))
      })
      const over = (answers: Parameters<typeof ScriptedModel.layer>[0]) =>
        Session.layer([worker]).pipe(
          Layer.provide(Layer.succeedContext(store)),
          Layer.provide(handlers),
          Layer.provide(ScriptedModel.layer(answers))
        )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* sessions.send("a", "one")
        yield* Deferred.await(started)
      }).pipe(Effect.provide(over([{ toolCalls: [{ name: "work", params: {} }] }])))
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const entries = yield* sessions.events("a").pipe(
          Stream.takeUntil(({ event }) => event._tag === "RunEvent" && event.event._tag === "RunFinished"),
          Stream.runCollect
        )
        const tags = entries.map(({ event }) => (event._tag === "RunEvent" ? event.event._tag : event._tag))
        assert.deepStrictEqual(tags, [
          "MessageReceived",
          "RunStarted",
          "InputAdded",
          "StepStarted",
          "ModelAnswered",
          "ToolStarted",
          "ToolFinished",
          "RunResumed",
          "StepStarted",
          "ModelAnswered",
          "RunFinished"
        ])
      }).pipe(Effect.provide(over([{ text: "done" }])))
    }).pipe(Effect.scoped)
  )
})
