/** DUR-1, DUR-3: the compacted view, plans and sub-agents are parts of a session, and outlive its process. */
import * as storeService from "#src/store/internal/storeService.ts"
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Layer } from "effect"
import { Agent, ContextWindow, Conversation, Run, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { changed } from "../store/changed.ts"
import { log, planOf } from "../plan/support.ts"
import * as t from "./sessions.ts"

const completed = (sessions: Session.Service, id: string) =>
  t.eventually(
    Effect.map(t.stateOf(sessions, id), ({ outcome, status }) => status === "idle" && outcome === "Completed")
  )

describe("DUR-1 the compacted view", () => {
  t.passing("a summary is made once for many messages, also after the session was closed", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      let summaries = 0
      const agent = Agent.make("clerk", {
        contextWindow: ContextWindow.summarize({
          above: 400,
          summarize: () => Effect.sync(() => (summaries++, "They told stories."))
        })
      })
      const script: ScriptedModel.TurnFunction = (request) =>
        t.asked(request) === "long" ? { text: "story ".repeat(600) } : { text: "Good." }
      const layer = Session.layer([agent]).pipe(Layer.provide(store), Layer.provide(ScriptedModel.layer(script)))
      const ask = (text: string) =>
        Effect.scoped(
          Effect.flatMap(t.sessionsOf(layer), (sessions) =>
            Effect.provideService(Session.turn("a", text), Session.Session, sessions)
          )
        )
      yield* ask("long")
      for (const text of ["one", "two", "three", "four"]) yield* ask(text)
      assert.strictEqual(summaries, 1)
      const sessions = yield* t.sessionsOf(layer)
      assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 10)
    }).pipe(Effect.scoped)
  )
})

describe("DUR-3 plans", () => {
  t.passing("a plan is a session: it pauses for a decision, over a restart", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const { fn, fnStep, ran } = log()
      const pause = fn("b", ({ decision, task }) => (decision === undefined ? Step.pause("Continue?") : `b(${task})`))
      const bound = yield* planOf([fnStep("a"), Step.make("b", { target: pause }), fnStep("c")], { name: "shop" })
      const layer = Session.layer([bound]).pipe(Layer.provide(store), Layer.provide(ScriptedModel.layer(t.echo)))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          yield* sessions.send("a", "x")
          yield* t.until(sessions, "a", "waiting")
        })
      )
      const sessions = yield* t.sessionsOf(layer)
      const [request] = (yield* t.stateOf(sessions, "a")).requests
      assert(request !== undefined)
      yield* sessions.decide("a", [
        { callId: request.callId, digest: request.digest, approved: true, path: request.path }
      ])
      yield* completed(sessions, "a")
      assert.strictEqual(ran.filter((name) => name === "a").length, 1)
      assert.strictEqual(ran.at(-1), "c")
    }).pipe(Effect.scoped)
  )

  t.passing("a plan whose process died continues from its own state: no completed step runs again", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const { fn, ran } = log()
      const isAsked = yield* Deferred.make<void>()
      const reader = Agent.make("reader")
      const bound = yield* planOf(
        [
          Step.make("a", { target: fn("a") }),
          Step.make("read", { target: reader }),
          Step.make("c", { target: fn("c") })
        ],
        { name: "shop" }
      )
      let isDead = false
      const cut = changed(({ compareAndSet, delete: remove, get, list }) => {
        const alive = <A, E>(effect: Effect.Effect<A, E>) => Effect.suspend(() => (isDead ? Effect.never : effect))
        return {
          get: (...args) => alive(get(...args)),
          list: (...args) => alive(list(...args)),
          delete: (...args) => alive(remove(...args)),
          compareAndSet: (...args) => alive(compareAndSet(...args))
        }
      })
      const open = (through: Layer.Layer<VersionedStore.VersionedStore>, script: ScriptedModel.Script) =>
        t.sessionsOf(
          Session.layer([bound], { leaseTime: "200 millis", drainTime: "20 millis" }).pipe(
            Layer.provide(through),
            Layer.provide(ScriptedModel.layer(script))
          )
        )
      const first = yield* open(Layer.provide(cut, store), () =>
        Effect.andThen(Deferred.succeed(isAsked, undefined), Effect.never)
      )
      yield* first.send("a", "x")
      yield* Deferred.await(isAsked)
      isDead = true
      const second = yield* open(store, t.echo)
      yield* completed(second, "a")
      assert.deepStrictEqual(ran, ["a", "c"])
      assert.isFalse((yield* t.tags(second, "a")).includes("RunInterrupted"))
    }).pipe(Effect.scoped)
  )
})

describe("DUR-3 agents and plans that are tools", () => {
  t.passing("wait in one session, each at its path, and continue inside after a restart", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const { agent: clerk, handlers } = t.withTool("clerk", { needsApproval: true })
      const ran: Array<number> = []
      const thank = Step.make("thank", { target: ({ task }) => Effect.succeed(`${task}!`) })
      const plan = yield* planOf([Step.make("buy", { target: clerk }), thank], { name: "order" })
      const desk = Agent.make("desk", {
        toolkit: [
          Agent.asTool(clerk, { name: "ask", description: "Asks" }),
          Agent.asTool(plan, { name: "order", description: "Orders" })
        ]
      })
      const model: ScriptedModel.TurnFunction = ({ messages, tools }) => {
        const hasResult = messages.some(({ role }) => role === "tool")
        if (tools.some(({ name }) => name === "work")) return hasResult ? { text: "worked" } : t.call(1)
        const call = (name: string) => ({ id: name, name, params: { input: "go" } })
        return hasResult ? { text: "done" } : { toolCalls: [call("ask"), call("order")] }
      }
      const layer = Session.layer([desk]).pipe(
        Layer.provide(store),
        Layer.provide(handlers((n) => Effect.sync(() => (ran.push(n), "seen")))),
        Layer.provide(ScriptedModel.layer(model))
      )
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          yield* sessions.send("a", "go")
          yield* t.until(sessions, "a", "waiting")
        })
      )
      const sessions = yield* t.sessionsOf(layer)
      const { requests } = yield* t.stateOf(sessions, "a")
      const paths = requests.map(({ path }) => path)
      assert.deepStrictEqual(paths, [["ask"], ["order", "buy"]])
      const decisions = requests.filter(Run.isApprovable).map(Run.approve)
      const decided = yield* sessions.decide("a", decisions)
      const answer = Session.await("a", decided)
      const { outcome, text } = yield* Effect.provideService(answer, Session.Session, sessions)
      assert.deepStrictEqual([outcome, text, ran], ["Completed", "done", [1, 1]])
    }).pipe(Effect.scoped)
  )
})

describe("DUR-3 a store that is down", () => {
  t.passing("for as long as the lease: a call fails, and the session continues when the store is back", () =>
    Effect.gen(function* () {
      let isDown = false
      const down = changed(({ compareAndSet, get }) => ({
        get: (key) => Effect.suspend(() => (isDown ? Effect.fail(error("get")) : get(key))),
        compareAndSet: (...args) =>
          Effect.suspend(() => (isDown ? Effect.fail(error("compareAndSet")) : compareAndSet(...args)))
      }))
      const error = (operation: "get" | "compareAndSet") =>
        storeService.unavailable({ operation, storage: "test", error: "Down", cause: undefined })
      const answer = yield* Deferred.make<ScriptedModel.Turn>()
      let asked = 0
      const layer = Session.layer([t.support], { leaseTime: "200 millis" }).pipe(
        Layer.provide(down),
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(
          ScriptedModel.layer(() => (asked++ === 0 ? Deferred.await(answer) : Effect.succeed({ text: "2" })))
        )
      )
      const sessions = yield* t.sessionsOf(layer)
      yield* sessions.send("a", "one")
      yield* t.eventually(Effect.sync(() => asked === 1))
      isDown = true
      yield* Deferred.succeed(answer, { text: "1" })
      yield* Effect.sleep("600 millis")
      assert.strictEqual(yield* t.reasonOf(sessions.send("a", "two")), "StoreFailed")
      assert.strictEqual(yield* t.reasonOf(sessions.send("b", "two")), "StoreFailed")
      isDown = false
      yield* completed(sessions, "a")
      const { text } = yield* Effect.provideService(Session.turn("a", "three"), Session.Session, sessions)
      assert.strictEqual(text, "2")
      // A call that failed stored nothing
      assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 5)
    }).pipe(Effect.scoped)
  )
})
