/** DUR-1, DUR-3: approvals, plans, sub-agents and the compacted view are parts of a session. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Deferred, Effect, Layer, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as t from "./sessions.ts"

/** One tool that needs approval, and another tool that runs at once. */
const toolkit = Toolkit.make(
  Tool.make("pay", {
    parameters: Schema.Struct({ amount: Schema.Finite }),
    success: Schema.String,
    needsApproval: true
  }),
  Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String })
)
const cashier = Agent.make("cashier", { toolkit })

const calls = (request: ScriptedModel.Request) => request.messages.at(-1)?.role === "user"

const model: ScriptedModel.TurnFunction = (request) =>
  calls(request) && t.asked(request).startsWith("pay")
    ? {
        toolCalls: [
          { name: "pay", params: { amount: 5 } },
          { name: "look", params: {} }
        ]
      }
    : { text: `re: ${t.asked(request)}` }

const open = Effect.fnUntraced(function* (
  store: Layer.Layer<VersionedStore.VersionedStore>,
  look: Effect.Effect<string> = Effect.succeed("seen")
) {
  const paid: Array<number> = []
  const handlers = toolkit.toLayer({
    pay: ({ amount }) => Effect.sync(() => (paid.push(amount), "paid")),
    look: () => look
  })
  const sessions = yield* t.sessionsOf(
    Session.layer([cashier]).pipe(
      Layer.provide(store),
      Layer.provide(handlers),
      Layer.provide(ScriptedModel.layer(model))
    )
  )
  return { sessions, paid }
})

const requestOf = Effect.fnUntraced(function* (sessions: Session.Service, id: string) {
  const [request] = (yield* t.stateOf(sessions, id)).requests
  assert(request !== undefined, "a request")
  const { arguments: _, name: __, ...rest } = request
  return rest
})

const waiting = (sessions: Session.Service, id: string) => t.until(sessions, id, "waiting")

const completed = (sessions: Session.Service, id: string) =>
  t.eventually(
    Effect.map(t.stateOf(sessions, id), ({ outcome, status }) => status === "idle" && outcome === "Completed")
  )

describe("DUR-1 approvals", () => {
  it.live("wait over a restart, are decided once, and the same decision twice is no error", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { sessions } = yield* open(store)
          yield* sessions.send("a", "pay")
          yield* waiting(sessions, "a")
        })
      )
      const { paid, sessions } = yield* open(store)
      const request = yield* requestOf(sessions, "a")
      const decide = sessions.decide("a", [{ ...request, approved: true }])
      yield* Effect.all([decide, decide], { concurrency: 2 })
      yield* completed(sessions, "a")
      yield* decide
      assert.strictEqual(yield* t.reasonOf(sessions.decide("a", [{ ...request, approved: false }])), "InvalidDecision")
      assert.deepStrictEqual(paid, [5])
      const tags = yield* t.tags(sessions, "a")
      assert.strictEqual(tags.filter((tag) => tag === "DecisionsReceived").length, 1)
      assert.strictEqual(tags.filter((tag) => tag === "ApprovalDecided").length, 1)
    }).pipe(Effect.scoped)
  )

  it.live("can be decided while another call of the turn still runs; a contradiction is refused", () =>
    Effect.gen(function* () {
      const looked = yield* Deferred.make<string>()
      const { paid, sessions } = yield* open(yield* t.store, Deferred.await(looked))
      yield* sessions.send("a", "pay")
      yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ requests }) => requests.length === 1))
      const request = yield* requestOf(sessions, "a")
      yield* sessions.decide("a", [{ ...request, approved: true }])
      assert.strictEqual(yield* t.reasonOf(sessions.decide("a", [{ ...request, approved: false }])), "InvalidDecision")
      yield* Deferred.succeed(looked, "seen")
      yield* completed(sessions, "a")
      assert.deepStrictEqual(paid, [5])
    }).pipe(Effect.scoped)
  )

  it.live("a decision that is not valid is refused and stores nothing", () =>
    Effect.gen(function* () {
      const { paid, sessions } = yield* open(yield* t.store)
      assert.strictEqual(
        yield* t.reasonOf(sessions.decide("a", [{ callId: "x", digest: "sha256:0", approved: true }])),
        "NotFound"
      )
      yield* sessions.send("a", "pay")
      yield* waiting(sessions, "a")
      const request = yield* requestOf(sessions, "a")
      const { sequence } = yield* t.stateOf(sessions, "a")
      const expiresAt = DateTime.subtract(yield* DateTime.now, { seconds: 1 })
      for (const decision of [
        { ...request, callId: "other", approved: true },
        { ...request, digest: "sha256:0", approved: true },
        { ...request, approved: true, expiresAt }
      ]) {
        assert.strictEqual(yield* t.reasonOf(sessions.decide("a", [decision])), "InvalidDecision")
      }
      assert.strictEqual((yield* t.stateOf(sessions, "a")).sequence, sequence)
      assert.deepStrictEqual(paid, [])
      yield* sessions.decide("a", [{ ...request, approved: false, reason: "too much" }])
      yield* completed(sessions, "a")
      assert.deepStrictEqual(paid, [])
    }).pipe(Effect.scoped)
  )

  it.live("a decision that expires before its turn takes it can be made again, and nothing turns in circles", () =>
    Effect.gen(function* () {
      const looked = yield* Deferred.make<string>()
      const { paid, sessions } = yield* open(yield* t.store, Deferred.await(looked))
      yield* sessions.send("a", "pay")
      yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ requests }) => requests.length === 1))
      const request = yield* requestOf(sessions, "a")
      const expiresAt = DateTime.add(yield* DateTime.now, { milliseconds: 50 })
      yield* sessions.decide("a", [{ ...request, approved: true, expiresAt }])
      yield* Effect.sleep("80 millis")
      yield* Deferred.succeed(looked, "seen")
      yield* waiting(sessions, "a")
      assert.strictEqual((yield* t.stateOf(sessions, "a")).failure?.reason, "InvalidDecision")
      assert.deepStrictEqual(paid, [])
      yield* sessions.decide("a", [{ ...request, approved: true }])
      yield* completed(sessions, "a")
      assert.deepStrictEqual(paid, [5])
    }).pipe(Effect.scoped)
  )

  it.live("a message that comes while a call waits is part of the conversation when that is decided", () =>
    Effect.gen(function* () {
      const { paid, sessions } = yield* open(yield* t.store)
      yield* sessions.send("a", "pay")
      yield* waiting(sessions, "a")
      yield* sessions.send("a", "and then?")
      yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 0))
      yield* waiting(sessions, "a")
      yield* sessions.decide("a", [{ ...(yield* requestOf(sessions, "a")), approved: true }])
      yield* completed(sessions, "a")
      assert.deepStrictEqual(paid, [5])
    }).pipe(Effect.scoped)
  )

  it.live("an interruption denies a call that waits, and then there is nothing to interrupt", () =>
    Effect.gen(function* () {
      const { sessions } = yield* open(yield* t.store)
      yield* sessions.send("a", "pay")
      yield* waiting(sessions, "a")
      assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
      const { outcome, status } = yield* t.stateOf(sessions, "a")
      assert.deepStrictEqual([status, outcome], ["idle", "Interrupted"])
      assert.isUndefined((yield* sessions.interrupt("a")).isInterrupted)
    }).pipe(Effect.scoped)
  )

  it.live("a preparation that fails does not begin turns again and again for a decision", () =>
    Effect.gen(function* () {
      let isDown = false
      let prepared = 0
      const tools = Effect.suspend(() => {
        prepared++
        return isDown ? Effect.die(new Error("down")) : Effect.succeed(toolkit)
      })
      const handlers = toolkit.toLayer({ pay: () => Effect.succeed("paid"), look: () => Effect.succeed("seen") })
      const layer = Session.layer([Agent.make("fragile", { toolkit: tools })]).pipe(
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(handlers),
        Layer.provide(ScriptedModel.layer(model))
      )
      const sessions = yield* t.sessionsOf(layer)
      yield* sessions.send("a", "pay")
      yield* waiting(sessions, "a")
      const request = yield* requestOf(sessions, "a")
      isDown = true
      prepared = 0
      yield* sessions.decide("a", [{ ...request, approved: true }])
      yield* Effect.sleep("50 millis")
      assert.strictEqual(prepared, 1)
      isDown = false
      // MEND-6: the same decision again tries again, as a message does
      yield* sessions.decide("a", [{ ...request, approved: true }])
      yield* completed(sessions, "a")
    }).pipe(Effect.scoped)
  )

  it.live("a sub-agent's call waits in its session, and its decision reaches it after a restart", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const boss = Agent.make("boss", {
        toolkit: [Agent.asTool(cashier, { name: "cashier", description: "Pays." })]
      })
      const paid: Array<number> = []
      const handlers = toolkit.toLayer({
        pay: ({ amount }) => Effect.sync(() => (paid.push(amount), "paid")),
        look: () => Effect.succeed("seen")
      })
      const script: ScriptedModel.TurnFunction = (request) => {
        const isBoss = request.tools.some(({ name }) => name === "cashier")
        if (!calls(request)) return { text: "done" }
        return isBoss ? { toolCalls: [{ name: "cashier", params: { input: "pay 5" } }] } : model(request)
      }
      const layer = Session.layer([boss]).pipe(
        Layer.provide(store),
        Layer.provide(handlers),
        Layer.provide(ScriptedModel.layer(script))
      )
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          yield* sessions.send("a", "pay")
          yield* waiting(sessions, "a")
        })
      )
      const sessions = yield* t.sessionsOf(layer)
      const request = yield* requestOf(sessions, "a")
      assert.strictEqual(request.path?.length, 1)
      yield* sessions.decide("a", [{ ...request, approved: true }])
      yield* completed(sessions, "a")
      assert.deepStrictEqual(paid, [5])
    }).pipe(Effect.scoped)
  )
})

describe("DUR-1 usage and steps", () => {
  it.live("are those of the whole session, over a restart; `resume` continues after MaxSteps", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const usage = { inputTokens: 10, outputTokens: 2 }
      const { agent, handlers } = t.withTool("worker")
      const script: ScriptedModel.TurnFunction = (request) =>
        request.messages.filter(({ role }) => role === "tool").length < 3
          ? { ...t.call(1), usage }
          : { text: "done", usage }
      const layer = Session.layer([agent], { run: { maxSteps: 3 } }).pipe(
        Layer.provide(store),
        Layer.provide(handlers(() => Effect.succeed("x"))),
        Layer.provide(ScriptedModel.layer(script))
      )
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          yield* sessions.send("a", "one")
          yield* t.turns(sessions, "a", 1)
          assert.strictEqual((yield* t.stateOf(sessions, "a")).outcome, "MaxSteps")
        })
      )
      const sessions = yield* t.sessionsOf(layer)
      const { cursor } = yield* t.stateOf(sessions, "a")
      yield* sessions.resume("a")
      yield* t.turns(sessions, "a", 1, cursor)
      const state = yield* t.stateOf(sessions, "a")
      assert.strictEqual(state.outcome, "Completed", JSON.stringify(state.outcome))
      assert.strictEqual(state.steps, 4)
      assert.deepStrictEqual([state.usage.inputTokens, state.usage.outputTokens], [40, 8])
      assert.isTrue(Option.isSome(yield* sessions.state("a")))
    }).pipe(Effect.scoped)
  )
})
