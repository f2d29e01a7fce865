/** KEEP-8: a message to a session is answered by the instructions of today's agent. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Message, Run, RunContext, VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const replaced = (text: string) => `These instructions replace all earlier ones:\n\n${text}`

/** The system messages of each request, and a model that answers with the last message of the user. */
const listening = () => {
  const requests: Array<ReadonlyArray<string>> = []
  const model: ScriptedModel.TurnFunction = (request) => {
    requests.push(request.messages.filter(({ role }) => role === "system").map(({ text }) => text))
    return t.echo(request)
  }
  return { requests, model: ScriptedModel.layer(model) }
}

const ask = (sessions: Session.Service, text: string, options?: Session.SendOptions) =>
  Effect.provideService(Session.turn("a", text, options), Session.Session, sessions)

const rolesOf = (sessions: Session.Service) =>
  Effect.map(sessions.history("a"), (history) => Conversation.messages(history).map(({ role }) => role))

const system = (sessions: Session.Service) =>
  Effect.map(sessions.history("a"), (history) =>
    Conversation.messages(history)
      .filter(({ role }) => role === "system")
      .map(Message.text)
  )

const stores = [
  ["memory", VersionedStore.layerMemory],
  ["SQLite", Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))]
] as const

const turn = ["user", "assistant"]

/** An agent whose Effect of instructions returns what `source` has. */
const variable = (text: string) => {
  const source = { text, count: 0, isDown: false }
  const instructions = Effect.suspend(() => {
    source.count++
    return source.isDown ? Effect.fail("down") : Effect.succeed(source.text)
  })
  return { source, instructions, agent: Agent.make("desk", { instructions }) }
}

describe("KEEP-8 the instructions of a session", () => {
  for (const [name, store] of stores) {
    test.live(`are those of the edited agent after a deploy, on ${name}`, function* () {
      const kept = Layer.succeedContext(yield* Layer.build(store))
      const { model, requests } = listening()
      const deploy = (instructions: string | undefined, options?: Session.LayerOptions) =>
        t.sessionsOf(Session.layer([Agent.make("desk", { instructions })], options).pipe(Layer.provide([kept, model])))
      yield* ask(yield* deploy("Be brief."), "one")
      yield* ask(yield* deploy("Be kind."), "two")
      yield* ask(yield* deploy("Be kind."), "three")
      yield* ask(yield* deploy("Be nice.", { instructions: "first" }), "four")
      yield* ask(yield* deploy(undefined), "five")
      const last = yield* deploy("Be brief.")
      yield* ask(last, "six")
      const kind = replaced("Be kind.")
      assert.deepStrictEqual(requests, [
        ["Be brief."],
        ["Be brief.", kind],
        ["Be brief.", kind],
        ["Be brief.", kind],
        ["Be brief.", kind],
        ["Be brief.", kind, replaced("Be brief.")]
      ])
      const edited = ["user", "system", "assistant"]
      assert.deepStrictEqual(yield* rolesOf(last), ["system", ...turn, ...edited, ...turn, ...turn, ...turn, ...edited])
    })
  }

  test.live("are those of the edited agent on a fleet", function* () {
    const { model, requests } = listening()
    const { agent, source } = variable("Be brief.")
    const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
    const sessions = yield* t.sessionsOf(ClusterSession.layer([agent]).pipe(Layer.provide([model, runner])))
    yield* ask(sessions, "one")
    source.text = "Be kind."
    yield* ask(sessions, "two")
    assert.deepStrictEqual(requests.at(-1), ["Be brief.", replaced("Be kind.")])
  })

  test.live("of an Effect are found once for each message, with its context", function* () {
    const { model, requests } = listening()
    let count = 0
    const User = Schema.Struct({ user: Schema.String })
    const instructions = Effect.map(RunContext.read(User), ({ user }) => `${++count}: You help ${user}.`)
    const sessions = yield* t.sessionsOf(
      Session.layer([Agent.make("desk", { instructions })]).pipe(Layer.provide([VersionedStore.layerMemory, model]))
    )
    yield* ask(sessions, "one", { context: { user: "ada" } })
    yield* ask(sessions, "two", { context: { user: "bob" } })
    assert.deepStrictEqual(requests.at(-1), ["1: You help ada.", replaced("2: You help bob.")])
    assert.strictEqual(count, 2)
  })

  test.live("that are the same add nothing, and with `first` the Effect does not run again", function* () {
    const { model, requests } = listening()
    const { agent, source } = variable("Be brief.")
    const kept = yield* t.store
    const open = (options?: Session.LayerOptions) =>
      t.sessionsOf(Session.layer([agent], options).pipe(Layer.provide([kept, model])))
    const latest = yield* open()
    yield* ask(latest, "one")
    yield* ask(latest, "two")
    assert.strictEqual(source.count, 2)
    source.text = "Be kind."
    const first = yield* open({ instructions: "first" })
    yield* ask(first, "three")
    assert.strictEqual(source.count, 2)
    assert.deepStrictEqual(requests, [["Be brief."], ["Be brief."], ["Be brief."]])
    assert.deepStrictEqual(yield* rolesOf(first), ["system", ...turn, ...turn, ...turn])
  })

  test.live("that cannot be found leave the message in the queue", function* () {
    const { model, requests } = listening()
    const { agent, source } = variable("Be brief.")
    const sessions = yield* t.sessionsOf(
      Session.layer([agent]).pipe(Layer.provide([VersionedStore.layerMemory, model]))
    )
    yield* ask(sessions, "one")
    source.isDown = true
    assert.strictEqual(yield* t.reasonOf(ask(sessions, "two", { messageId: "2" })), "TurnFailed")
    assert.deepStrictEqual((yield* t.stateOf(sessions, "a")).queue, ["2"])
    Object.assign(source, { isDown: false, text: "Be kind." })
    assert.strictEqual((yield* ask(sessions, "two", { messageId: "2" })).text, "re: two")
    assert.deepStrictEqual(requests.at(-1), ["Be brief.", replaced("Be kind.")])
  })

  test.live("stay for a decision, and a message that waits for it brings the new ones", function* () {
    const { instructions, source } = variable("Be brief.")
    const toolkit = Toolkit.make(Tool.make("pay", { success: Schema.String, needsApproval: true }))
    const requests: Array<ReadonlyArray<string>> = []
    const model: ScriptedModel.TurnFunction = (request) => {
      requests.push(request.messages.map(({ role, text }) => (role === "system" ? text : role)))
      return t.asked(request) === "pay" && request.messages.at(-1)?.role !== "tool"
        ? { toolCalls: [{ name: "pay", params: {} }] }
        : t.echo(request)
    }
    const sessions = yield* t.sessionsOf(
      Session.layer([Agent.make("desk", { instructions, toolkit })]).pipe(
        Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer(model)]),
        Layer.provide(toolkit.toLayer({ pay: () => Effect.succeed("paid") }))
      )
    )
    const decide = Effect.gen(function* () {
      const { cursor, requests } = yield* t.stateOf(sessions, "a")
      yield* sessions.decide("a", requests.filter(Run.isApprovable).map(Run.approve))
      yield* t.turns(sessions, "a", 1, cursor)
    })
    yield* ask(sessions, "pay")
    source.text = "Be kind."
    source.isDown = true
    yield* decide
    assert.deepStrictEqual([source.count, requests.at(-1)], [1, ["Be brief.", "user", "assistant", "tool"]])
    source.isDown = false
    yield* ask(sessions, "pay")
    source.text = "Be nice."
    yield* sessions.send("a", "hello")
    yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 0))
    source.text = "Be kind."
    yield* sessions.send("a", "again")
    yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 0))
    yield* decide
    assert.deepStrictEqual(requests.at(-1)?.slice(5), [
      "user",
      replaced("Be kind."),
      "assistant",
      "tool",
      "user",
      "user",
      replaced("Be kind.")
    ])
  })

  test.live("that a turn recorded hold when its process dies", function* () {
    const kept = yield* t.store
    const { agent, source } = variable("Be brief.")
    const first = yield* Effect.scoped(
      Effect.gen(function* () {
        const asked = yield* Deferred.make<void>()
        const hanging: ScriptedModel.TurnFunction = (request) =>
          t.asked(request) === "two"
            ? Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
            : t.echo(request)
        const sessions = yield* t.sessionsOf(
          Session.layer([agent]).pipe(Layer.provide([kept, ScriptedModel.layer(hanging)]))
        )
        yield* ask(sessions, "one")
        source.text = "Be kind."
        const asking = yield* Effect.forkChild(ask(sessions, "two"))
        yield* Deferred.await(asked)
        // The beginning of the turn is stored while the model works
        yield* sessions.events("a").pipe(
          Stream.filter((entry) => t.tagOf(entry) === "InputAdded"),
          Stream.take(2),
          Stream.runDrain
        )
        yield* Fiber.interrupt(asking)
        return source.count
      })
    )
    source.text = "Be nice."
    const { model, requests } = listening()
    const sessions = yield* t.sessionsOf(Session.layer([agent]).pipe(Layer.provide([kept, model])))
    yield* t.until(sessions, "a", "idle")
    assert.deepStrictEqual([first, source.count], [2, 2])
    assert.deepStrictEqual(requests, [["Be brief.", replaced("Be kind.")]])
    assert.deepStrictEqual(yield* system(sessions), ["Be brief.", replaced("Be kind.")])
  })

  test.live("of a conversation that the session began with stay", function* () {
    const { model, requests } = listening()
    const { agent, source } = variable("Be kind.")
    const sessions = yield* t.sessionsOf(
      Session.layer([agent]).pipe(Layer.provide([VersionedStore.layerMemory, model]))
    )
    yield* ask(sessions, "one", { conversation: yield* Conversation.make({ system: "Be brief." }) })
    yield* ask(sessions, "two")
    assert.deepStrictEqual(requests, [["Be brief."], ["Be brief."]])
    assert.strictEqual(source.count, 0)
  })

  test.live("that replace others have the text about the output, too", function* () {
    const { instructions, source } = variable("Be brief.")
    const requests: Array<ReadonlyArray<string>> = []
    const model: ScriptedModel.TurnFunction = ({ messages }) => {
      requests.push(messages.filter(({ role }) => role === "system").map(({ text }) => text))
      return { text: "{}" }
    }
    const agent = Agent.make("desk", { instructions, output: Schema.Struct({}), outputStrategy: "prompted" })
    const sessions = yield* t.sessionsOf(
      Session.layer([agent]).pipe(Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer(model)]))
    )
    yield* ask(sessions, "one")
    source.text = "Be kind."
    yield* ask(sessions, "two")
    const about = requests[0]?.[0]?.slice("Be brief.".length) ?? ""
    assert.isAbove(about.length, 0)
    assert.deepStrictEqual(requests[1], [`Be brief.${about}`, replaced(`Be kind.${about}`)])
  })
})
