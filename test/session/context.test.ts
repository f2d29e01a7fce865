/** KEEP-8: each turn of a session runs with the context of its own message. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, RunContext, VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteRunner } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Json, needsApproval: true })
)

const cashier = Agent.make("cashier", { toolkit })

/** `pay` calls the tool. Any other message is repeated. */
const model: ScriptedModel.TurnFunction = (request) => {
  const last = request.messages.at(-1)
  if (last?.role === "tool") return { text: `paid ${last.text}` }
  return last?.text === "pay" ? { toolCalls: [{ name: "pay", params: { n: 1 } }] } : { text: `re: ${last?.text}` }
}

/** The layers under the sessions, and the users for whom the tool ran. */
const below = () => {
  const paid: Array<unknown> = []
  const handlers = toolkit.toLayer({
    pay: () => Effect.tap(RunContext.RunContext, ({ user }) => Effect.sync(() => void paid.push(user)))
  })
  return { paid, layer: Layer.mergeAll(handlers, ScriptedModel.layer(model)) }
}

const ada = { context: { user: "ada" } }
const bob = { context: { user: "bob" } }

const inMemory = (agents: Layer.Layer<Session.Session, never, VersionedStore.VersionedStore>) =>
  t.sessionsOf(Layer.provide(agents, VersionedStore.layerMemory))

const decideAll = Effect.fnUntraced(function* (sessions: Session.Service, id: string, approved: boolean) {
  const { requests } = yield* t.stateOf(sessions, id)
  yield* sessions.decide(
    id,
    requests.map((request) => ({ ...request, approved }))
  )
})

const ask = (sessions: Session.Service, id: string, text: string, options: Session.SendOptions) =>
  Effect.provideService(Session.turn(id, text, options), Session.Session, sessions)

/** A call of one user waits while another user sends a message. */
const approvedMeanwhile = Effect.fnUntraced(function* (sessions: Session.Service, paid: ReadonlyArray<unknown>) {
  yield* ask(sessions, "a", "pay", ada)
  const { messageId } = yield* sessions.send("a", "hello", bob)
  const waiting = yield* t.stateOf(sessions, "a")
  assert.deepStrictEqual([waiting.status, waiting.queue], ["waiting", [messageId]])
  yield* decideAll(sessions, "a", true)
  assert.strictEqual((yield* ask(sessions, "a", "hello", { ...bob, messageId })).text, "re: hello")
  assert.deepStrictEqual(paid, ["ada"])
})

describe("KEEP-8 the context of a turn", () => {
  test.live("a call that waits runs for the user who asked, not for the next one", function* () {
    const { layer, paid } = below()
    const sessions = yield* inMemory(Layer.provide(Session.layer([cashier]), layer))
    yield* approvedMeanwhile(sessions, paid)
  })

  test.live("on a fleet, too", function* () {
    const { layer, paid } = below()
    const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
    const sessions = yield* t.sessionsOf(ClusterSession.layer([cashier]).pipe(Layer.provide([layer, runner])))
    yield* approvedMeanwhile(sessions, paid)
  })

  test.live("the message of another user denies the call that waits", function* () {
    const { layer, paid } = below()
    const sessions = yield* inMemory(Layer.provide(Session.layer([cashier]), layer))
    yield* ask(sessions, "a", "pay", ada)
    assert.strictEqual((yield* ask(sessions, "a", "hello", { ...bob, pending: "deny" })).text, "re: hello")
    yield* ask(sessions, "a", "pay", bob)
    yield* decideAll(sessions, "a", true)
    yield* t.until(sessions, "a", "idle")
    assert.deepStrictEqual(paid, ["bob"])
  })

  test.live("a message of the same user enters the conversation while the call waits", function* () {
    const { layer, paid } = below()
    const sessions = yield* inMemory(Layer.provide(Session.layer([cashier]), layer))
    yield* ask(sessions, "a", "pay", ada)
    yield* sessions.send("a", "hello", ada)
    yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 0))
    yield* decideAll(sessions, "a", true)
    yield* t.until(sessions, "a", "idle")
    assert.deepStrictEqual(paid, ["ada"])
  })

  test.live("where the layer sets it, a message with another one is refused", function* () {
    const { layer, paid } = below()
    const sessions = yield* inMemory(Layer.provide(Session.layer([cashier], { run: ada }), layer))
    assert.strictEqual(yield* t.reasonOf(sessions.send("a", "hello", bob)), "ContextDiffers")
    yield* ask(sessions, "a", "hello", ada)
    yield* ask(sessions, "a", "pay", {})
    yield* decideAll(sessions, "a", true)
    yield* t.until(sessions, "a", "idle")
    assert.deepStrictEqual(paid, ["ada"])
  })

  test.live(
    "a later message without the context that the agent reads is given up, and the next one is answered",
    function* () {
      const User = Schema.Struct({ user: Schema.String })
      const named = Agent.make("named", {
        instructions: Effect.map(RunContext.read(User), ({ user }) => `You help ${user}.`)
      })
      const sessions = yield* inMemory(Layer.provide(Session.layer([named]), ScriptedModel.layer(t.echo)))
      yield* ask(sessions, "a", "one", ada)
      yield* Effect.flip(ask(sessions, "a", "two", {}))
      assert.strictEqual((yield* ask(sessions, "a", "three", bob)).text, "re: three")
      assert.include(yield* t.tags(sessions, "a"), "MessageDropped")
    }
  )
})
